"""One private step of two networks, timed in turn with plain torch and with Opacus.

The network of the MNIST35 experiment (60 inputs, 1000 hidden units, tanh, 2 classes) takes full batches of 1000
examples; one for all ten digits (784 inputs, 1000 hidden units) takes Poisson batches of expected size 256 of MNIST's
60,000. Every column of a table trains the same network at the same clipping norm and noise multiplier. The columns are
timed in turn, in blocks of steps as in a training loop, so that changes in the machine's speed affect all of them;
compare the ratios of the medians.

Poisson batches of plain torch and of Opacus are lists of indices prepared beforehand, and taking their rows is part of
the step; dpnotes draws its batch within the step. Memory is the peak of a process above its memory before the first
step; each column has its own process.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path

import torch
from torch import Tensor, nn

from dpnotes.core import Oracle, Relation, Sampling
from dpnotes.methods.descent import Descent
from dpnotes.oracles.batches import draw
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.problems.datasets import gaussian_like, load
from dpnotes.problems.networks import TwoLayerNetwork
from dpnotes.problems.published import DataNotFound
from dpnotes.random.streams import Streams

NUM_HIDDEN, CLIP, STEP_SIZE = 1000, 4.0, 0.1
RHO, NUM_STEPS = 0.19635, 100
NOISE_MULTIPLIER = float(uniform(RHO, NUM_STEPS).noise_multipliers[0])
BLOCK, WARM_UP = 20, 5  # steps of a column in a turn, after some warm-up steps


@dataclass(frozen=True, eq=False)
class Task:
    """Examples, and the expected batch size of a step; None means all of them."""

    inputs: Tensor
    labels: Tensor
    num_classes: int
    batch: int | None

    def network(self) -> nn.Sequential:
        """Return the network as torch modules."""
        inputs = self.inputs.shape[1]
        return nn.Sequential(nn.Linear(inputs, NUM_HIDDEN), nn.Tanh(), nn.Linear(NUM_HIDDEN, self.num_classes))

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield batches without end; Poisson batches from a list of indices."""
        if self.batch is None:
            yield from cycle([(self.inputs, self.labels)])
        streams, num_examples = Streams.of("benchmark", ["batches"], self.inputs.device), len(self.labels)
        sampling = Sampling.poisson((self.batch or 1) / num_examples)
        samples = [draw(sampling, num_examples, streams, "list", torch.tensor([i])).examples for i in range(50)]
        for sample in cycle(samples):
            assert sample is not None
            yield self.inputs[sample[0]], self.labels[sample[0]]


@cache
def mnist35(device: str) -> Task:
    """Return Gaussian inputs scaled to a largest norm of 10, as in the paper's preprocessing."""
    drawn = gaussian_like(1000, 60, 2, "benchmark")
    inputs = drawn.train_inputs * (10 / drawn.train_inputs.norm(dim=1).max())
    return Task(inputs.to(device), drawn.train_labels.to(device), 2, None)


@cache
def mnist(device: str) -> Task:
    """Return MNIST if its files exist (`DPNOTES_DATA`), else Gaussian inputs of that shape, which cost the same."""
    try:
        found = load("mnist")
    except DataNotFound:
        found = gaussian_like(60_000, 784, 10, "benchmark")
    return Task(found.train_inputs.flatten(1).to(device), found.train_labels.to(device), 10, 256)


TASKS = {"MNIST35, full batches of 1000": mnist35, "784-1000-10, Poisson batches of 256": mnist}


def plain(task: Task) -> Callable[[], None]:
    """Return a step of non-private torch SGD, the baseline."""
    model = task.network().to(task.inputs.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=STEP_SIZE)
    batches = task.batches()

    def step() -> None:
        inputs, labels = next(batches)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step


def ours(task: Task, runs: int) -> Callable[[], None]:
    """Return a step of `runs` runs at once: clipped, noised, accounted."""
    device = task.inputs.device
    problem = TwoLayerNetwork(task.inputs, task.labels, NUM_HIDDEN, task.num_classes)
    oracle: Oracle
    if task.batch is None:
        oracle = ClippedGradient(problem, CLIP, FixedNoise.of([uniform(RHO, NUM_STEPS)] * runs, device))
    else:
        sampling = Sampling.poisson(task.batch / problem.num_examples)
        noise_std = torch.full((runs,), NOISE_MULTIPLIER * CLIP / task.batch, dtype=torch.float64, device=device)
        oracle = MinibatchGradient(
            problem, sampling, noise_std, CLIP, NUM_STEPS, Relation.ADD_OR_REMOVE, clipped=True, divisor=task.batch
        )
    method = Descent(STEP_SIZE)
    streams = Streams.of("benchmark", range(runs), device)
    state, taken = method.init(problem.initial(streams), oracle), 0

    def step() -> None:
        nonlocal state, taken
        state, _ = method.step(state, oracle, streams)
        taken += 1
        if taken % NUM_STEPS == 0:
            state = method.init(state.x, oracle)

    return step


def opacus(task: Task, mode: str) -> Callable[[], None]:
    """Return an Opacus step, with per-sample gradients by hooks or by ghost clipping."""
    from opacus import PrivacyEngine  # pyright: ignore[reportMissingImports]

    model = task.network().to(task.inputs.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=STEP_SIZE)
    # Only the size of a batch is read from this loader.
    data = torch.utils.data.TensorDataset(task.inputs, task.labels)
    made = PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        criterion=nn.CrossEntropyLoss(),
        data_loader=torch.utils.data.DataLoader(data, batch_size=task.batch or len(task.labels)),
        noise_multiplier=NOISE_MULTIPLIER,
        max_grad_norm=CLIP,
        poisson_sampling=False,
        grad_sample_mode=mode,
    )
    model, optimizer, criterion = (made[0], made[1], made[2] if mode == "ghost" else nn.CrossEntropyLoss())
    batches = task.batches()

    def step() -> None:
        inputs, labels = next(batches)
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        optimizer.step()

    return step


def columns(task: Task, runs: int) -> dict[str, tuple[Callable[[], Callable[[], None]], int]]:
    """Return each column's factory of a training step and its number of runs per step; the first is the baseline."""
    return {
        "plain torch SGD, not private": (lambda: plain(task), 1),
        f"dpnotes, {runs} run(s) a chunk": (lambda: ours(task, runs), runs),
        "Opacus, hooks": (lambda: opacus(task, "hooks"), 1),
        "Opacus, ghost clipping": (lambda: opacus(task, "ghost"), 1),
    }


def table(task: Task, runs: int, rounds: int) -> list[tuple[str, float, float]]:
    """Return name, median milliseconds per run and step, and ratio to plain torch, for each column."""
    device = task.inputs.device.type
    steps = {name: (make(), count) for name, (make, count) in columns(task, runs).items()}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, (step, count) in steps.items():
            for number in range(-WARM_UP, BLOCK):
                _synchronise(device)
                start = time.perf_counter()
                step()
                _synchronise(device)
                if number >= 0:
                    times[name].append(1e3 * (time.perf_counter() - start) / count)
    medians = {name: statistics.median(values) for name, values in times.items()}
    floor = next(iter(medians.values()))
    return [(name, median, median / floor) for name, median in medians.items()]


def memory(task: str, column: int, device: str, runs: int) -> float:
    """Return the peak MiB of a column's steps above the memory before them, in a separate process."""
    command = [sys.executable, __file__, "--memory", task, str(column), device, str(runs)]
    # With a fixed threshold, freed memory returns to the system and does not stay in the heap.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def _measure_memory(task: str, column: int, device: str, runs: int) -> float:
    # A step of the smallest task first, because the memory of imports and compilation does not count.
    list(columns(next(iter(TASKS.values()))(device), runs).values())[column][0]()()
    step = list(columns(TASKS[task](device), runs).values())[column][0]()
    if device == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
    else:
        Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here (Linux)
        before = _resident("VmRSS")
    for _ in range(WARM_UP):
        step()
    return ((torch.cuda.max_memory_allocated() if device == "cuda" else _resident("VmHWM")) - before) / 2**20


def _resident(field: str) -> int:
    found = re.search(rf"{field}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return 1024 * int(found[1])


def _synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    """Print the tables for the CPU, and for the GPU if there is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=8, help="blocks of steps of each column")
    parser.add_argument("--task", choices=TASKS, help="one of the tables")
    parser.add_argument("--memory", nargs=4, metavar=("TASK", "COLUMN", "DEVICE", "RUNS"), help="of one column alone")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", module="opacus")
    warnings.filterwarnings("ignore", message=".*non-full backward hook.*|.*Full backward hook.*")
    if arguments.memory:
        task, column, device, runs = arguments.memory
        print(_measure_memory(task, int(column), device, int(runs)))
        return
    for device, runs in (("cpu", 1), ("cuda", 100)):
        if device == "cuda" and not torch.cuda.is_available():
            print("cuda: outstanding, this machine has no GPU")
            continue
        for task in [arguments.task] if arguments.task else TASKS:
            print(f"{device}, {torch.get_num_threads()} threads: one step of {task}")
            for column, (name, milliseconds, ratio) in enumerate(table(TASKS[task](device), runs, arguments.rounds)):
                peak = memory(task, column, device, runs)
                print(f"  {name:32s} {milliseconds:9.3f} ms a run and step   {ratio:7.3f} x plain   {peak:7.1f} MiB")


if __name__ == "__main__":
    main()
