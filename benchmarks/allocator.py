"""Steps of MNIST35's network on all of its examples, with and without keeping freed memory until the cell ends.

The columns are timed in turn, in blocks of steps. Compare the medians by their ratio; the number of pages touched for
the first time explains it.
"""

import argparse
import resource
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from _timing import medians

from dpnotes.papers.budget_schedules.algorithms import private_gradient_descent
from dpnotes.privacy.schedules import uniform
from dpnotes.problems.datasets import gaussian_like
from dpnotes.problems.networks import TwoLayerNetwork
from dpnotes.random.streams import Streams
from dpnotes.util.allocator import kept_until_the_end

NUM_EXAMPLES, NUM_STEPS = 11_552, 10


def block(problem: TwoLayerNetwork, allocator: Callable[[], AbstractContextManager[None]], faults: list[int]) -> None:
    """Take some steps as a cell takes them."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    streams = Streams.of("benchmark", ["allocator"])
    with allocator():
        private_gradient_descent(
            problem, [uniform(0.2, NUM_STEPS)], problem.initial(streams), streams, clip=4.0, step_size=0.1, delta=1e-8
        )
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    drawn = gaussian_like(NUM_EXAMPLES, 60, 2, "benchmark")
    problem = TwoLayerNetwork(drawn.train_inputs, drawn.train_labels, 1000)
    names, faults = ("given back at once", "kept until the end"), ([], [])
    columns = [
        lambda allocator=allocator, kept=kept: block(problem, allocator, kept)
        for allocator, kept in zip((nullcontext, kept_until_the_end), faults, strict=True)
    ]
    times = medians(*columns, rounds=rounds)
    print("| freed memory is | a step | of the first | pages touched anew, a step |\n|---|---|---|---|")
    for name, milliseconds, counts in zip(names, times, faults, strict=True):
        ratio = milliseconds / times[0]
        print(f"| {name} | {milliseconds / NUM_STEPS:.0f} ms | {ratio:.2f} | {counts[-1] / NUM_STEPS:,.0f} |")


if __name__ == "__main__":
    main()
