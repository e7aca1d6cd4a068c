"""How many kernels a step launches on a GPU, and how often the host waits for it: counted, stored, and never more.

    python tests/test_launches.py        # writes tests/launches.csv; a number that rises needs a reason in the commit

Counted on a pretend device. Neither number depends on sizes but for a network's, whose layers take norms by inner
products or written out, whichever is less work: the ConvNet is counted at the paper's width, too. Draws are the
reference's here, as Triton has no pretend device; its kernel is one launch a draw.
"""

import csv
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from pretend_device import PretendCuda
from test_device import METHODS, ORACLES, RUNS, network, start

from dpnotes.core import Relation, Sampling
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.problems.architectures import conv_net
from dpnotes.problems.modules import ModuleProblem
from dpnotes.problems.networks import TwoLayerNetwork
from dpnotes.streams import Streams

FILE = Path(__file__).with_name("launches.csv")
STEPS = 4
# What a step was once asked to stay below: half of what it took when it was first counted.
ASKED = {
    "one normal": (113, 2),
    "MNIST35, descent": (199, 7),
    "ConvNet clipped, descent": (434, 10),
    "Spider, Gaussian, virtual, descent": (393, 15),
}
# A Poisson batch is as long as it came out, one of a data set as its sizes say; a tree reads which blocks complete.
MAY_WAIT = ("Poisson", "data set", "Tree", "little budget")


def stepping(
    method: Any, make: Callable[[str], Any], dim: int, dtype: torch.dtype = torch.float64, runs: int = RUNS
) -> Callable[[], tuple[int, int]]:
    """Launches and waits a step, of steps after the second."""

    def count() -> tuple[int, int]:
        with PretendCuda() as device:
            oracle, (x, streams) = make("cuda"), start(dim, "cuda")
            state, streams = method.init(x[:runs].to(dtype), oracle), streams.take(slice(runs))
            for number in range(STEPS + 2):
                if number == 2:
                    device.reset()
                state, _ = method.step(state, oracle, streams)
            return -(-device.launches // STEPS), -(-device.waits // STEPS)

    # What is copied to a device once a process, such as a tree's table, is there the second time.
    return lambda: (count(), count())[1]


def mnist35(device: str) -> ClippedGradient:
    inputs = Streams.of("inputs", [0]).normal("inputs", 0, 20 * 6).view(20, 6).to(device).float()
    problem = TwoLayerNetwork(inputs, (inputs[:, 0] > 0).long(), num_hidden=5)
    return ClippedGradient(problem, 4.0, FixedNoise.of([uniform(0.2, 100)] * RUNS, device))


def convnet(device: str, width: int = 4) -> MinibatchGradient:
    images = Streams.of("images", [0]).uniform("images", 0, 12 * 3 * 32 * 32).view(12, 3, 32, 32).float().to(device)
    problem = ModuleProblem(conv_net(2, norm="group", width=width), images, (torch.arange(12) % 2).to(device))
    noise = torch.full((1,), 0.1, dtype=torch.float64, device=device)  # runs of a module take turns
    return MinibatchGradient(problem, Sampling.fixed_size(4, 12), noise, 1.0, 50, Relation.REPLACE_ONE, clipped=True)


def one_normal() -> tuple[int, int]:
    with PretendCuda() as device:
        streams, calls = Streams.of(0, range(3), "cuda"), torch.zeros(3, dtype=torch.int64, device="cuda")
        streams.normal("noise", calls, 100)  # constants are copied to a device once
        device.reset()
        streams.normal("noise", calls + 1, 100)
        return device.launches - 1, device.waits


ROWS: dict[str, Callable[[], tuple[int, int]]] = {
    "one normal": one_normal,
    "MNIST35, descent": stepping(Descent(0.1), mnist35, mnist35("cpu").problem.dim, torch.float32),
    "ConvNet clipped, descent": stepping(Descent(0.1), convnet, convnet("cpu").problem.dim, torch.float32, 1),
    "ConvNet of width 64 clipped, descent": stepping(
        Descent(0.1), partial(convnet, width=64), convnet("cpu", 64).problem.dim, torch.float32, 1
    ),
    **{
        f"{name}, descent": stepping(
            Descent(0.5), make, 4 if "fresh" in name or "virtual" in name else network("cpu").dim
        )
        for name, make in ORACLES.items()
    },
    **{
        f"Spider, Gaussian, virtual, {name}": stepping(method, ORACLES["Spider, Gaussian, virtual"], 4)
        for name, method in METHODS.items()
        if name != "descent"
    },
}


def stored() -> dict[str, tuple[int, int]]:
    with FILE.open(newline="") as file:
        return {name: (int(launches), int(waits)) for name, launches, waits in list(csv.reader(file))[1:]}


def test_the_table_has_every_row():
    assert list(stored()) == list(ROWS)


@pytest.mark.parametrize("name", [n if n in ASKED else pytest.param(n, marks=pytest.mark.slow) for n in ROWS])
def test_a_step_launches_and_waits_as_often_as_the_table_says(name: str):
    found = ROWS[name]()
    assert found == stored()[name], f"run python {Path(__file__).name} and say why in the commit"
    launches, waits = ASKED.get(name, (2**31, 2**31))
    assert found[0] <= launches and found[1] <= waits
    assert not found[1] or any(word in name for word in MAY_WAIT)


@pytest.mark.slow
def test_a_loop_waits_once_in_sixteen_steps():
    with PretendCuda() as device:
        oracle = mnist35("cuda")
        x, streams = start(mnist35("cpu").problem.dim, "cuda")
        state = Descent(0.1).init(x.float(), oracle)
        state = drive(Descent(0.1), oracle, state, streams, 16)
        device.reset()
        state = drive(Descent(0.1), oracle, state, streams, 16)
        once = device.waits
        device.reset()
        drive(Descent(0.1), oracle, state, streams, 32)
        # At a look the host asks what was required, and which runs go on.
        assert device.waits - once <= 2
    with PretendCuda() as device:  # the control: every step
        state = Descent(0.1).init(x.float(), oracle := mnist35("cuda"))
        drive(Descent(0.1), oracle, state, start(mnist35("cpu").problem.dim, "cuda")[1], 16, look_every=1)
        assert device.waits > 16


if __name__ == "__main__":
    with FILE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["step", "launches", "waits"])
        writer.writerows([name, *count()] for name, count in ROWS.items())
