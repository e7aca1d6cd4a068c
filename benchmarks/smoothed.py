"""A smoothed gradient from losses and from gradients, relative to the passes that it needs.

    python benchmarks/smoothed.py            # a minute

The targets: an estimate from losses takes at most 1.2 times the time of its forward passes and the drawing of its
directions; an estimate from gradients evaluates them at 60% or more of the rate of bare batched backward passes. Both
use a network whose weights are shared by 100 patches of an example, as in a convolution, on as many points at once. A
"dense" network with one patch does only one multiplication per coordinate of the points, so that its passes cost about
as much as writing the points; it is shown without a target. The columns of a line are timed in turn. The exit status is
1 if a target is missed.
broken.
"""

import itertools
import sys

import torch
from _timing import medians
from torch import Tensor

from dpnotes.papers.goldstein.smoothed import SmoothedSamples, on_sphere
from dpnotes.problems.custom import CustomProblem
from dpnotes.random.streams import Streams

INPUTS, HIDDEN, EXAMPLES, ROUNDS = 20, 10, 8, 9
DIM = INPUTS * HIDDEN
MOST_LOSSES, LEAST_RATE = 1.2, 0.6


def network(dtype: torch.dtype, patches: int) -> CustomProblem:
    """Return the losses `|mean_jk relu(w_k . a_j) - b|` with random patches a_j and targets b."""
    size = EXAMPLES * (patches * INPUTS + 1)
    drawn = Streams.of("benchmark", ["network"]).normal("data", 0, size).view(EXAMPLES, -1).to(dtype)

    def loss(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return ((a @ x.view(HIDDEN, INPUTS).mT).relu().mean() - b).abs()

    return CustomProblem(loss, DIM, drawn[:, :-1].view(EXAMPLES, patches, INPUTS) / INPUTS**0.5, drawn[:, -1])


def compared(
    order: str, directions: int, increment: bool, dtype: torch.dtype, patches: int
) -> tuple[float, float, float]:
    """Return milliseconds of an estimate of one run, of its passes, and of drawing its directions."""
    problem, streams = network(dtype, patches), Streams.of("benchmark", ["run"])
    none = torch.zeros(1, dtype=torch.int64)
    source = SmoothedSamples(problem, 0.1, directions, "zeroth" if order == "losses" else "first")
    x, bound = torch.full((1, DIM), 0.3, dtype=dtype), torch.ones(1, dtype=dtype)
    sides = (2 if order == "losses" else 1) * (2 if increment else 1)
    whole = max(1, source.numbers_at_once // (directions * 2 * (2 if increment else 1) * DIM))
    chunks = torch.arange(EXAMPLES)[:, None].split(whole)
    points = [x.expand(len(chunk), sides * directions, DIM).clone() for chunk in chunks]

    def estimate() -> None:
        batch = source.batch(none, none + EXAMPLES, streams, none)
        batch.term(x, x + 0.01, none == int(increment), bound)

    def passes() -> None:
        for chunk, at in zip(chunks, points, strict=True):
            if order == "losses":
                problem.losses(at, chunk)
            else:
                each = chunk.repeat_interleave(at.shape[1], 0)
                problem.gradients(at.flatten(0, 1), each).weighted_sum(torch.ones_like(each, dtype=dtype))

    def draws() -> None:
        for chunk in chunks:
            width = DIM + 2 * (order == "gradients")
            on_sphere(streams.normal("benchmark", 0, len(chunk) * directions * width).view(-1, width))

    one, two, three = medians(estimate, passes, draws, rounds=ROUNDS)
    return one, two, three


def main() -> int:
    """Print the lines; return 1 if a target is missed."""
    broken = False
    print(f"d = {DIM}, {EXAMPLES} examples, {torch.get_num_threads()} threads; milliseconds")
    for dtype, patches in itertools.product((torch.float64, torch.float32), (100, 1)):
        for order, increment in itertools.product(("losses", "gradients"), (False, True)):
            directions = 8 * DIM if order == "losses" else 400
            ours, passes, draws = compared(order, directions, increment, dtype, patches)
            ratio = ours / (passes + draws) if order == "losses" else passes / ours
            kept = patches == 1 or (ratio <= MOST_LOSSES if order == "losses" else ratio >= LEAST_RATE)
            broken |= not kept
            said = f"{ratio:.2f} of passes and draws" if order == "losses" else f"{ratio:.0%} of the bare rate"
            what = f"{'shared' if patches > 1 else 'dense'}, {order}, {'increment' if increment else 'fresh'}, {dtype}"
            times = f"{ours:8.1f}, passes {passes:8.1f}, draws {draws:7.1f}"
            print(f"  {what:45s} {times}   {said}{'' if kept else '  BROKEN'}")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
