"""The time of a random draw, relative to torch.randn, on one thread, and of the smallest steps.

    python benchmarks/draws.py            # half a minute

The targets: drawing 10^6 normals takes at most 0.8 of the time of torch.randn in float64, drawing 100 normals at most
30 microseconds. A descent step on two numbers takes at most 0.4 ms, a Spider step at most 1.2 ms: here the overhead of
the calls dominates. The columns of a line are timed in turn. The exit status is 1 if a target is missed.
"""

import itertools
import sys
from collections.abc import Callable

import torch
from _timing import medians

from dpnotes.methods.descent import Descent
from dpnotes.methods.spider_descent import StochasticSpider
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.oracles.samples import VirtualSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.problems.quadratics import Quadratic
from dpnotes.problems.separable import Cosine, Separable, Sine
from dpnotes.problems.virtual import VirtualData
from dpnotes.random import draws
from dpnotes.random.streams import Streams


def descent() -> Callable[[], object]:
    """Return a step of private gradient descent on two numbers."""
    problem = Quadratic.sample(torch.tensor([1.0, 0.1], dtype=torch.float64), num_examples=20, spread=0.5, seed=0)
    oracle = ClippedGradient(problem, 1.0, FixedNoise.of([uniform(0.5, 10_000)]))
    return stepping(Descent(0.1), oracle, torch.ones(1, 2, dtype=torch.float64))


def spider() -> Callable[[], object]:
    """Return a step of stochastic Spider on four numbers."""
    data = VirtualData(Separable([(Cosine(1.0), 4)]), Separable([(Sine(0.1), 4)]))
    oracle = Spider(
        VirtualSamples(data, 1e18), Gaussian(), 5.0, torch.full((1,), 10.0, dtype=torch.float64),
        Refresh.squared_moves(0.5), BatchSizes(10_000, 1000), gradient_bound=2.0, smoothness=2.0,
    )  # fmt: skip
    return stepping(StochasticSpider(10**6, 0.5, 0.05, 20, 0.05), oracle, torch.zeros(1, 4, dtype=torch.float64))


def stepping(method, oracle, x) -> Callable[[], object]:
    streams, state = Streams.of(0, ["run"]), method.init(x, oracle)

    def step() -> None:
        nonlocal state
        state, _ = method.step(state, oracle, streams)
        assert not int(state.status[0])

    return step


def main() -> int:
    kept = True
    print(f"draws: {draws.backend(torch.device('cpu')).about}")
    streams, calls = Streams.of(0, ["run"]), itertools.count()
    torch.set_num_threads(1)
    for size, rounds in ((100, 999), (10_000, 299), (1_000_000, 31)):
        ours, theirs = medians(
            lambda size=size: streams.normal("draw", next(calls), size),
            lambda size=size: torch.randn(1, size, dtype=torch.float64),
            rounds=rounds,
        )
        kept = kept and (ours <= 0.8 * theirs if size == 1_000_000 else size > 100 or ours <= 0.03)
        print(f"1 thread, {size:>9,} normals: {ours:8.4f} ms, {ours / theirs:5.2f} torch.randn")
    for name, step, most in (("descent on 2 numbers", descent(), 0.4), ("stochastic Spider on 4", spider(), 1.2)):
        (milliseconds,) = medians(step, rounds=999)
        kept = kept and milliseconds <= most
        print(f"1 thread, a step of {name}: {milliseconds:.3f} ms (at most {most} asked)")
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
