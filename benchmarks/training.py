"""One private step of the MNIST35 network, side by side with plain torch and with Opacus.

Every column trains the same network (60 inputs, 1000 hidden units, tanh, 2 classes) on the same 1000 examples by full
batches at the same clipping norm and noise multiplier. The columns take turns in blocks of steps, as a training loop
runs, so that a machine whose speed drifts does so for all of them; the ratios of the medians are what to read.
"""

import statistics
import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from dpnotes.methods.descent import Descent
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.problems.datasets import gaussian_like
from dpnotes.problems.networks import TwoLayerNetwork
from dpnotes.streams import Streams

NUM_EXAMPLES, NUM_INPUTS, NUM_HIDDEN, CLIP, STEP_SIZE = 1000, 60, 1000, 4.0, 0.1
RHO, NUM_STEPS = 0.19635, 100
BLOCK, WARM_UP = 20, 5  # steps of a column before the next has its turn, after some that find the caches cold


def data() -> tuple[Tensor, Tensor]:
    """Gaussian inputs scaled to a largest norm of 10, as in the paper's preprocessing."""
    drawn = gaussian_like(NUM_EXAMPLES, NUM_INPUTS, 2, "benchmark")
    return drawn.train_inputs * (10 / drawn.train_inputs.norm(dim=1).max()), drawn.train_labels


def network() -> nn.Sequential:
    """The network as torch modules."""
    return nn.Sequential(nn.Linear(NUM_INPUTS, NUM_HIDDEN), nn.Tanh(), nn.Linear(NUM_HIDDEN, 2))


def plain(device: str) -> Callable[[], None]:
    """A non-private torch SGD step: the floor."""
    inputs, labels = (t.to(device) for t in data())
    model = network().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=STEP_SIZE)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step


def ours(device: str, runs: int) -> Callable[[], None]:
    """A step of `runs` runs at once: clipped, noised, accounted."""
    inputs, labels = (t.to(device) for t in data())
    problem = TwoLayerNetwork(inputs, labels, NUM_HIDDEN)
    schedule = uniform(RHO, NUM_STEPS)
    plan = FixedNoise.of([schedule] * runs, device)
    oracle, method = ClippedGradient(problem, CLIP, plan), Descent(STEP_SIZE)
    streams = Streams.of("benchmark", range(runs), device)
    state = method.init(problem.initial(streams), oracle)

    def step() -> None:
        nonlocal state
        state, _ = method.step(state, oracle, streams)
        if int(state.steps[0]) == NUM_STEPS:
            state = method.init(state.x, oracle)

    return step


def opacus(device: str, mode: str) -> Callable[[], None]:
    """An Opacus step, with per-sample gradients by hooks or by ghost clipping."""
    from opacus import PrivacyEngine

    inputs, labels = (t.to(device) for t in data())
    model = network().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=STEP_SIZE)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, labels), batch_size=NUM_EXAMPLES)
    made = PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        criterion=nn.CrossEntropyLoss(),
        data_loader=loader,
        noise_multiplier=float(uniform(RHO, NUM_STEPS).noise_multipliers[0]),
        max_grad_norm=CLIP,
        poisson_sampling=False,
        grad_sample_mode=mode,
    )
    model, optimizer, criterion = (made[0], made[1], made[2] if mode == "ghost" else nn.CrossEntropyLoss())

    def step() -> None:
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        optimizer.step()

    return step


def table(device: str, runs: int, rounds: int) -> list[tuple[str, float, float]]:
    """Name, median milliseconds a run and step, and the ratio to plain torch, for each column."""
    warnings.filterwarnings("ignore", module="opacus")
    warnings.filterwarnings("ignore", message=".*non-full backward hook.*|.*Full backward hook.*")
    columns = {
        "plain torch SGD, not private": (plain(device), 1),
        f"dpnotes, {runs} run(s) a chunk": (ours(device, runs), runs),
        "Opacus, hooks": (opacus(device, "hooks"), 1),
        "Opacus, ghost clipping": (opacus(device, "ghost"), 1),
    }
    times: dict[str, list[float]] = {name: [] for name in columns}
    for _ in range(rounds):
        for name, (step, count) in columns.items():
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


def _synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    """Print the table for the CPU, and for the GPU where there is one."""
    for device, runs in (("cpu", 1), ("cuda", 100)):
        if device == "cuda" and not torch.cuda.is_available():
            print("cuda: outstanding, this machine has no GPU")
            continue
        print(f"{device}, {torch.get_num_threads()} threads: one step of the MNIST35 network, N = {NUM_EXAMPLES}")
        for name, milliseconds, ratio in table(device, runs, rounds=8):
            print(f"  {name:32s} {milliseconds:9.3f} ms a run and step   {ratio:7.3f} x plain")


if __name__ == "__main__":
    main()
