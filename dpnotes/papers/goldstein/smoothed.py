"""Gradient estimates of losses that are smoothed over a ball, from losses alone or from gradients at random points.

The smoothed loss `f_alpha(x)` is the mean of f over the ball of radius alpha around x, and has a gradient everywhere:

    grad f_alpha(x) = E grad f(x + alpha u) = E (d / 2 alpha) (f(x + alpha y) - f(x - alpha y)) y

with u uniform in the unit ball and y uniform on the unit *sphere* (Fact 2.3 of Kornowski, Liu and Talwar, 2025). This
module has the samples that estimate this gradient; with `spider.Spider` they form the paper's oracles, and the ones
without variance reduction.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from dpnotes.core import Problem
from dpnotes.guarantees import Basis, examples_apart
from dpnotes.oracles.samples import DIRECTIONS_PURPOSE, PREVIOUS_PURPOSE, DataSetBatch, DataSetSamples, WrittenOut
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.per_run import Number, part_of, rows
from dpnotes.util.precision import full_precision
from dpnotes.util.validate import AtLeastOne, EachPositive, checked

Order = Literal["zeroth", "first"]
Points = tuple[Tensor, ...]  # one or two, (rows, dim) each


class PointLosses(Problem, Protocol):
    """A problem whose losses can be computed without gradients, at several points of each run."""

    def losses(self, x: Tensor, examples: Tensor | None = None) -> Tensor:
        """The losses of examples `(runs, batch)`, or all, at `x` `(runs, points, dim)`: `(runs, batch, points)`."""
        ...


def in_ball(normal: Tensor, radius: Number = 1.0) -> Tensor:
    """Uniform points in the ball of this radius, `(..., dim)`, from normal numbers `(..., dim + 2)`.

    They are the first coordinates of a point on the sphere in two dimensions more (Archimedes; Barthe, Guédon,
    Mendelson and Naor 2005, arXiv:math/0503650).

    Example:
      >>> in_ball(torch.tensor([3.0, 0.0, 4.0]))
      tensor([0.6000])
    """
    return on_sphere(normal, radius)[..., :-2]


def on_sphere(normal: Tensor, radius: Number = 1.0) -> Tensor:
    """Uniform points on the sphere of this radius, `(..., dim)`, from as many normal numbers.

    Example:
      >>> on_sphere(torch.tensor([3.0, 4.0]))
      tensor([0.6000, 0.8000])
    """
    return normal * (radius / torch.linalg.vector_norm(normal, dim=-1, keepdim=True))


@dataclass(frozen=True, eq=False)
class SmoothedBatch:
    """A batch of a data set's examples per run, with independent directions for each example."""

    samples: "SmoothedSamples"
    examples: DataSetBatch
    streams: Streams
    call: Tensor

    def term(self, x: Tensor, previous: Tensor, new: Tensor, bound: Tensor) -> Tensor:
        """The next term, as for `Batch.term`, of the smoothed losses at `x` `(runs, dim)`."""
        found = x.new_zeros(x.shape)
        for first in (True, False):
            index = ((new == first) & (self.examples.count > 0)).nonzero()[:, 0]
            if len(index):
                points = (x[index],) if first else (x[index], previous[index])
                part = SmoothedBatch(
                    self.samples.take(index), self.examples.take(index), self.streams.take(index), self.call[index]
                )
                found[index] = part.mean(points, bound[index])
        return found

    def mean(self, points: Points, bound: Tensor) -> Tensor:
        """The mean of the examples' estimates at one point, or of their differences, each of norm at most `bound`."""
        samples, runs = self.samples, len(points[0])
        numbers = runs * samples.num_directions(len(points)) * 2 * len(points) * samples.problem.dim
        longest = bound if samples.clipped else torch.full_like(bound, torch.inf)
        examples_at_once = max(1, samples.numbers_at_once // numbers)
        return self.examples.mean(
            lambda examples, places: self._estimates(points, examples, int(places[0])), longest, examples_at_once
        )

    def _estimates(self, points: Points, examples: Tensor, first: int) -> WrittenOut:
        """The estimates of examples `(runs, some)`, the first at place `first` of the batch, one example per row."""
        samples, dim, some = self.samples, self.samples.problem.dim, examples.shape[1]
        each = torch.arange(len(examples), device=examples.device).repeat_interleave(some)
        many, asked, total = samples.num_directions(len(points)), examples.reshape(-1, 1), torch.tensor(0.0)
        radius = rows(samples.radius, points[0]).to(points[0])[each, None, None]
        problem, points = samples.problem.take(each), tuple(point[each] for point in points)
        # A chunk has whole examples, or a part of one: secret streams draw the elements of a call in order.
        at_once = max(1, samples.numbers_at_once // (len(each) * 2 * len(points) * dim)) if some == 1 else many
        estimate = _from_losses if samples.order == "zeroth" else _from_gradients
        for start in range(0, many, at_once):
            count = min(at_once, many - start)
            steps = self._steps(DIRECTIONS_PURPOSE, radius, some, first * many + start, count)
            part = estimate(problem, asked, points if not samples.independent else points[:1], steps, radius)
            if samples.independent and len(points) == 2:
                steps = self._steps(PREVIOUS_PURPOSE, radius, some, first * many + start, count)
                part = part - estimate(problem, asked, points[1:], steps, radius)
            total = total.to(part) + part
        return WrittenOut((total / many).view(*examples.shape, dim))

    def _steps(self, purpose: str, radius: Tensor, examples: int, start: int, count: int) -> Tensor:
        """The steps in `count` directions per example, from the batch's direction `start` on, `(rows, count, dim)`."""
        zeroth, dim = self.samples.order == "zeroth", self.samples.problem.dim
        width = dim if zeroth else dim + 2
        drawn = self.streams.normal(purpose, self.call, examples * count * width, start * width)
        return (on_sphere if zeroth else in_ball)(drawn.reshape(-1, count, width), radius.double()).to(radius)


@full_precision()
def _from_losses(problem: PointLosses, asked: Tensor, points: Points, steps: Tensor, radius: Tensor) -> Tensor:
    """The sum of two-point estimates, or of their differences, along steps `(rows, count, dim)`; `(rows, dim)`."""
    at = steps.new_empty(len(steps), 2 * len(points), *steps.shape[1:])
    for place, point in enumerate(points):
        torch.add(point[:, None], steps, out=at[:, 2 * place])
        torch.sub(point[:, None], steps, out=at[:, 2 * place + 1])
    losses = problem.losses(at.flatten(1, 2), asked)
    if losses.shape != (shape := (len(at), 1, at.shape[1] * at.shape[2])):
        raise ValueError(f"Expected losses of shape {tuple(losses.shape)} to be {shape}: (runs, batch, points).")
    sides = losses.view(*at.shape[:3])
    slopes = sides[:, 0] - sides[:, 1]
    if len(points) == 2:
        slopes = slopes - (sides[:, 2] - sides[:, 3])
    return (slopes[:, None] @ steps)[:, 0] * (steps.shape[2] / (2 * radius[:, 0] ** 2))


def _from_gradients(problem: Problem, asked: Tensor, points: Points, steps: Tensor, radius: Tensor) -> Tensor:
    """The sum of gradients, or of their differences, at the points plus these steps; shapes as `_from_losses`."""
    each = torch.arange(len(steps), device=steps.device).repeat_interleave(steps.shape[1])
    problem, asked = problem.take(each), asked[each]

    def total(point: Tensor) -> Tensor:
        at = (point[:, None] + steps).flatten(0, 1)
        return problem.gradients(at, asked).weighted_sum(torch.ones_like(at[:, :1])).view_as(steps).sum(1)

    return total(points[0]) if len(points) == 1 else total(points[0]) - total(points[1])


@checked
@dataclass(frozen=True, eq=False)
class SmoothedSamples:
    """The examples of a data set, each used once, with losses smoothed over a ball, as Algorithms 3 to 5 need them.

    Kornowski, Liu and Talwar, "Improved Sample Complexity for Private Nonsmooth Nonconvex Optimization" (ICML 2025),
    arXiv:2410.05880. With `Spider`, `Refresh.every(Sigma)` and

      Algorithm 3 (one pass, losses):     order "zeroth", a `Tree(Sigma)` and FRESH batches `BatchSizes(B1, B2)`
      Algorithm 4 (many passes, losses):  order "zeroth", `Gaussian` and WHOLE batches: the increments that are released
                                          are added up, and so is their noise, as in the printed recursion
      Algorithm 5 (one pass, gradients):  order "first", a `Tree(Sigma)` and FRESH batches
      no variance reduction:              `Refresh.every(1)`, `Gaussian`, order "first", one direction

    The estimate of an example at x, by lines, with m directions:
      order "zeroth":  y_1 ... y_m ~ Unif(S^{d-1});  (1/m) sum_j (d / 2 alpha) (f(x + alpha y_j) - f(x - alpha y_j)) y_j
      order "first":   y_1 ... y_m ~ Unif(B_alpha);  (1/m) sum_j grad f(x + y_j)
    drawn afresh for every example and step.

    Differences from the paper: directions are on the sphere in increments, too (the paper prints the ball, for which
    the mean is too small by `alpha^2 d / (d + 2)`). An increment has the same directions at both of its points, unless
    `independent`: the difference for one pair then has norm at most `d L |move| / alpha`, but `d L` with independent
    directions, whatever the move. The estimate of an example, or its difference, is clipped to the `bound` that the
    oracle declares, `(1 + tau) L` or `(1 + tau) kappa(d) 2 D L / alpha`: the sensitivity then always holds, not only
    with high probability, and the releases have zCDP. With 8 d to 10 d directions for losses hardly any mean is that
    long, and the bias is exponentially small; means over fewer directions are clipped often. Differences of *gradients*
    of a loss with kinks are 0 or of the order of L, so their mean needs m of the order of `alpha / D` for the bound.

    Memory is a small multiple of `numbers_at_once` numbers, whatever m is, plus one estimate per run and example.

    Args:
      problem: the data set; order "zeroth" uses its `losses` (`PointLosses`) and no gradient.
      radius: alpha, above 0, in units of a length; one for all runs or `(runs,)`.
      directions: m, at least 1.
      order: "zeroth" uses losses, "first" uses gradients.
      first_directions: m of an estimate that begins a sum (printed for gradients: 1); None: m.
      independent: whether an increment has independent directions at its two points, as printed.
      clipped: whether estimates are clipped. If not, bounds are assumed, as in the paper: they hold with high
        probability over the directions, and the failure probability must be included in delta.
      numbers_at_once: the amount of numbers in the points that are evaluated at once, at least 1; examples, and the
        directions of one example, are processed in chunks. It affects the rounding of sums only.

    Raises:
      TypeError: if the problem lacks the required method.
      ValueError: outside these domains; while running, if `losses` has another shape. An estimate that is not finite
        counts as zero.

    Example:
      >>> from dpnotes.problems.custom import CustomProblem
      >>> problem = CustomProblem(lambda x, a: (x - a).abs().sum(), 2, torch.rand(50, 2))
      >>> samples, streams = SmoothedSamples(problem, 0.1, directions=400), Streams.of(0, ["a"])
      >>> batch = samples.batch(torch.tensor([0]), torch.tensor([50]), streams, torch.tensor([0]))
      >>> batch.mean((torch.tensor([[2.0, -1.0]]),), torch.tensor([9.0])).round(decimals=1)
      tensor([[ 1., -1.]])
    """

    problem: Any  # PointLosses, or Problem
    radius: EachPositive[Number]
    directions: AtLeastOne
    order: Order = "zeroth"
    first_directions: AtLeastOne | None = None
    independent: bool = False
    clipped: bool = True
    numbers_at_once: AtLeastOne = 2**20

    def __post_init__(self) -> None:
        validate.provides("num_examples", "losses" if self.order == "zeroth" else "gradients", problem=self.problem)

    @property
    def total(self) -> Tensor:
        """The number of examples."""
        return torch.tensor(self.problem.num_examples)

    @property
    def basis(self) -> Basis:
        """The basis of the bounds: enforced if estimates are clipped and no examples are mixed, else assumed."""
        return "enforced" if self.clipped and not examples_apart(self.problem) else "assumed"

    def num_directions(self, num_points: int) -> int:
        """The number of directions of an estimate at one point, or of an increment at each of its two points."""
        return self.directions if num_points == 2 or self.first_directions is None else self.first_directions

    def queries(self, count: Tensor, new: Tensor) -> tuple[Tensor, Tensor | None]:
        """The numbers of gradients and losses of single examples for the terms of `count` examples, `(runs,)`."""
        asked = count * torch.where(new, self.num_directions(1), 2 * self.num_directions(2))
        return (asked, None) if self.order == "first" else (torch.zeros_like(asked), 2 * asked)

    def batch(self, start: Tensor, count: Tensor, streams: Streams, call: Tensor) -> SmoothedBatch:
        """The batch of examples at these places of the order of `DataSetSamples`."""
        return SmoothedBatch(self, DataSetSamples(self.problem).batch(start, count, streams, call), streams, call)

    def take(self, index: Tensor) -> "SmoothedSamples":
        """The source of some of the runs."""
        return part_of(self, index)
