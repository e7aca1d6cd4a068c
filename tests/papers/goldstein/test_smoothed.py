"""Smoothed samples against closed forms: means, covariances, costs, and the information in a whole run."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from stand_ins import UnitDraws
from torch import Tensor

from dpnotes.core import FRESH, WHOLE, Status
from dpnotes.guarantees import EXAMPLES_APART
from dpnotes.oracles.samples import DIRECTIONS_PURPOSE, ORDER_PURPOSE, PREVIOUS_PURPOSE, WrittenOut
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.papers.goldstein import smoothed
from dpnotes.papers.goldstein.smoothed import SmoothedSamples, in_ball, on_sphere
from dpnotes.privacy.audit import GaussianPair
from dpnotes.privacy.mechanisms import Exact, Gaussian
from dpnotes.privacy.tree import Tree
from dpnotes.problems.smoothing import smoothing_constant
from dpnotes.random.streams import Streams

DIM, RUNS, RADIUS = 3, 20_000, 0.3
SLOPE = torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
SIGMAS = 5.0  # some tens of numbers then fail with a probability below 1e-5


@dataclass(frozen=True, eq=False)
class Forms:
    """Examples `a . x + c |x|^2 / 2`, `(examples, dim)` and `(examples,)`, which record their calls."""

    a: Tensor
    c: Tensor
    keeps_examples_apart: bool = True
    asked: list[torch.Size] = field(default_factory=list)

    @property
    def dim(self) -> int:
        return self.a.shape[1]

    @property
    def num_examples(self) -> int:
        return len(self.a)

    def take(self, index: Tensor) -> "Forms":
        return self

    def losses(self, x: Tensor, examples: Tensor | None = None) -> Tensor:
        self.asked.append(x.shape)
        slopes, curvatures = self._of(x, examples)
        return slopes @ x.mT + curvatures[..., None] * x.square().sum(2)[:, None] / 2

    def gradients(self, x: Tensor, examples: Tensor | None = None) -> WrittenOut:
        self.asked.append(x.shape)
        slopes, curvatures = self._of(x, examples)
        return WrittenOut(slopes + curvatures[..., None] * x[:, None])

    def _of(self, x: Tensor, examples: Tensor | None) -> tuple[Tensor, Tensor]:
        if examples is None:
            examples = torch.arange(len(self.a)).expand(len(x), -1)
        return self.a[examples].to(x), self.c[examples].to(x)


def one(a: Tensor, c: float) -> Forms:
    return Forms(a[None], torch.tensor([c], dtype=torch.float64))


def estimates(problem: Any, x: Tensor, previous: Tensor | None = None, runs: int = RUNS, **options: Any) -> Tensor:
    """Return estimates of one batch per run that holds all examples, `(runs, dim)`."""
    options = {"directions": 2} | options
    source = SmoothedSamples(problem, RADIUS, **options)
    none = torch.zeros(runs, dtype=torch.int64)
    batch = source.batch(none, none + problem.num_examples, Streams.of("smoothed", range(runs)), none)
    here, there = (point.expand(runs, -1) for point in (x, x if previous is None else previous))
    return batch.term(here, there, torch.full((runs,), previous is None), torch.full((runs,), math.inf).double())


def off(found: Tensor, mean: Tensor, covariance: Tensor) -> float:
    """Return the largest error of the mean and the covariance, in standard errors."""
    rows = len(found)
    of_mean = (found.mean(0) - mean).abs() / (found.std(0) / rows**0.5)
    products = (found - mean)[:, :, None] * (found - mean)[:, None]
    of_covariance = (products.mean(0) - covariance).abs() / (products.std(0) / rows**0.5)
    return float(torch.cat([of_mean, of_covariance.flatten()]).max())


def of_losses(a: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """Return mean and covariance of a linear loss's estimate: `E (a.y)^2 y y' = (|a|^2 I + 2 a a') / d (d + 2)`."""
    second = DIM / (DIM + 2) * (a @ a * torch.eye(DIM) + 2 * torch.outer(a, a))
    return a, (second - torch.outer(a, a)) / m


def ball_for_sphere(normal: Tensor, radius: Tensor) -> Tensor:
    """Return points as printed in line 12 of Algorithm 3: uniform in the unit ball."""
    points = normal / normal.norm(dim=-1, keepdim=True)
    radii = torch.rand(points[..., :1].shape, generator=torch.Generator().manual_seed(0)).double()
    return radius * points * radii ** (1 / DIM)


# ---------------------------------------------------------------- estimators
@pytest.mark.slow
def test_two_point_estimates_have_the_mean_and_the_covariance_of_the_closed_form(monkeypatch: pytest.MonkeyPatch):
    x, move = torch.ones(DIM).double(), torch.tensor([0.1, 0.2, -0.1]).double()
    cases: list[tuple[Callable[[], Tensor], Tensor, int]] = [
        (lambda: estimates(one(SLOPE, 0.0), x), SLOPE, 2),
        (lambda: estimates(one(SLOPE, 3.0), x), SLOPE + 3 * x, 2),  # a two-point estimate is unaffected by curvature
        (lambda: estimates(one(SLOPE, 3.0), x + move, x), 3 * move, 2),  # an increment, with common directions
        (lambda: estimates(one(SLOPE, 3.0), x, first_directions=5), SLOPE + 3 * x, 5),
    ]
    for found, gradient, m in cases:
        assert off(found(), *of_losses(gradient, m)) < SIGMAS
    assert off(estimates(one(SLOPE, 0.0), x), *of_losses(SLOPE, 3)) > SIGMAS, "control: another m"
    monkeypatch.setattr(smoothed, "on_sphere", ball_for_sphere)
    found = estimates(one(SLOPE, 0.0), x)
    assert off(found, *of_losses(SLOPE, 2)) > SIGMAS, "control: the ball in place of the sphere"
    assert off(found, DIM / (DIM + 2) * SLOPE, found.T.cov()) < SIGMAS, "control: d/(d+2) of the mean"


def test_increments_with_directions_of_their_own_have_the_scatter_of_both_points():
    x, move = torch.ones(DIM).double(), torch.tensor([0.1, 0.2, -0.1]).double()
    found = estimates(one(SLOPE, 3.0), x + move, x, independent=True)
    covariance = of_losses(SLOPE + 3 * x, 2)[1] + of_losses(SLOPE + 3 * (x + move), 2)[1]
    assert off(found, 3 * move, covariance) < SIGMAS
    assert float(found.var(0).sum()) > 30 * float(estimates(one(SLOPE, 3.0), x + move, x).var(0).sum())


def test_gradients_at_random_points_have_the_mean_and_the_covariance_of_the_ball(monkeypatch: pytest.MonkeyPatch):
    x = torch.ones(DIM).double()
    expected = SLOPE + 3 * x, (3 * RADIUS) ** 2 / (DIM + 2) / 2 * torch.eye(DIM)
    assert off(estimates(one(SLOPE, 3.0), x, order="first"), *expected) < SIGMAS
    exact = estimates(one(SLOPE, 3.0), 2 * x, x, order="first", runs=3)
    assert torch.allclose(exact, (3 * x).expand(3, -1), atol=1e-12), "common points cancel"
    monkeypatch.setattr(smoothed, "in_ball", lambda normal, radius: on_sphere(normal[..., :-2], radius))
    assert off(estimates(one(SLOPE, 3.0), x, order="first"), *expected) > SIGMAS, "control: the sphere, equation (10)"


@pytest.mark.parametrize("dim", [1, 2, 7])
def test_points_are_uniform_in_the_ball_and_on_the_sphere(dim: int):
    normal = Streams.of("uniform", [dim]).normal("x", 0, 40_000 * (dim + 2)).view(-1, dim + 2)
    radii = in_ball(normal).norm(dim=1).sort().values
    share = torch.arange(1, 40_001) / 40_000
    assert (radii**dim - share).abs().max() < 2.23 / 200, "Kolmogorov and Smirnov: errs once in 10,000 times"
    assert (radii ** (dim + 1) - share).abs().max() > 2.23 / 200, "control: of a ball in another dimension"
    assert torch.allclose(on_sphere(normal).norm(dim=1), torch.ones(40_000).double(), atol=1e-12)


def test_the_smoothed_gradient_is_as_smooth_as_is_said_and_a_kink_reaches_it():
    for dim in (1, 2, 10, 100):
        step = 1e-3
        inside = in_ball(Streams.of("kink", [dim]).normal("x", 0, 10**6 * (dim + 2) // dim).view(-1, dim + 2))[:, 0]
        slope = float((inside + step).sign().mean() - (inside - step).sign().mean()) / (2 * step)
        error = SIGMAS * (slope / len(inside) / step) ** 0.5 + 1e-3
        assert slope == pytest.approx(smoothing_constant(dim), abs=error)


# ---------------------------------------------------------------- what it costs, in evaluations and in memory
def forms(num_examples: int, longest: float = 1.0) -> Forms:
    a = Streams.of("forms", ["a"]).normal("a", 0, num_examples * DIM).view(-1, DIM)
    return Forms(longest * a / a.norm(dim=1, keepdim=True), torch.linspace(-1, 1, num_examples).double())


def walk(oracle: Spider, runs: int, steps: int, size: float = 0.02) -> list[Any]:
    x, state, seen = torch.ones(runs, DIM).double(), oracle.init(torch.ones(runs, DIM).double()), []
    for _ in range(steps):
        state, estimate = oracle.estimate(state, x, Streams.of("walk", range(runs)), torch.ones(runs) > 0)
        seen.append((state, estimate))
        x = x + size
    return seen


@pytest.mark.parametrize("order", ["zeroth", "first"])
def test_evaluations_are_counted_one_by_one(order: Any):
    runs, m, first, period = 2, 4, 3, 3
    problem = forms(50)
    oracle = Spider(
        SmoothedSamples(problem, RADIUS, m, order, first), Exact(), 0.0, torch.full((runs,), math.inf).double(),
        Refresh.every(period), BatchSizes(7, 2), 9.0, 9.0, least_move=0.1,
    )  # fmt: skip
    seen, each = walk(oracle, runs, 2 * period), 1 if order == "first" else 2
    counted = [e.num_gradients if order == "first" else e.num_evaluations for _, e in seen]
    others = [e.num_evaluations if order == "first" else e.num_gradients for _, e in seen]
    expected = 2 * [each * first * 7, *[each * 2 * m * 2] * (period - 1)]
    assert [count.tolist() for count in counted] == [[number] * runs for number in expected]
    assert sum(shape[:-1].numel() for shape in problem.asked) == runs * sum(expected)
    assert all(other is None or not other.any() for other in others)


@pytest.mark.parametrize("order", ["zeroth", "first"])
@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.slow
def test_chunks_bound_the_memory_and_change_nothing_else(order: Any, independent: bool):
    runs, at_once, found, largest = 2, 64, [], []
    none, x = torch.zeros(runs, dtype=torch.int64), torch.ones(runs, DIM).double()
    for numbers in (2**22, at_once):
        problem = forms(9)
        source = SmoothedSamples(problem, RADIUS, 50, order, independent=independent, numbers_at_once=numbers)
        for streams in (Streams.secure(runs), Streams.of("chunks", range(runs))):
            batches = [source.batch(none, none + 9, streams, none + call) for call in (0, 1)]
            terms = [b.term(x, x + 0.1, none == k, torch.ones(runs).double()) for k, b in enumerate(batches)]
        found.append(torch.stack(terms))
        largest.append(max(shape.numel() for shape in problem.asked))
    assert torch.allclose(*found, atol=1e-12)
    assert largest[1] <= at_once and largest[0] > 10 * at_once


# ---------------------------------------------------------------- privacy
def test_estimates_are_clipped_or_their_bounds_are_assumed():
    long = forms(5, longest=9.0)
    clipped = estimates(long, torch.zeros(DIM).double(), runs=50)
    source = SmoothedSamples(long, RADIUS, 2)
    none, streams = torch.zeros(50, dtype=torch.int64), Streams.of("smoothed", range(50))
    for kept, most in ((source, 1.0), (replace(source, clipped=False), None)):
        batch = kept.batch(none, none + 1, streams, none)
        lengths = batch.term(torch.zeros(50, DIM).double(), none[:, None], none == 0, torch.ones(50).double()).norm(
            dim=1
        )
        assert (lengths <= 1 + 1e-12).all() if most else (lengths > 1).float().mean() > 0.5
    assert clipped.norm(dim=1).max() > 1
    assert (source.basis, replace(source, clipped=False).basis) == ("enforced", "assumed")
    assert SmoothedSamples(replace(long, keeps_examples_apart=False), RADIUS, 2).basis == EXAMPLES_APART.basis


class Wrong(Forms):
    """A problem that omits the axis of the examples."""

    def losses(self, x: Tensor, examples: Tensor | None = None) -> Tensor:
        return super().losses(x, examples)[:, 0]


def test_losses_of_another_shape_are_refused_by_name():
    problem = Wrong(SLOPE[None], torch.zeros(1).double())
    with pytest.raises(
        ValueError, match=r"Expected losses of shape \(3, 4\) to be \(3, 1, 4\): \(runs, batch, points\)"
    ):
        estimates(problem, SLOPE, runs=3)
    with pytest.raises(TypeError, match="to have losses"):
        SmoothedSamples(object.__new__(type("None_", (), {"num_examples": 3})), 0.1, 1)


@pytest.mark.parametrize("purpose", [ORDER_PURPOSE, DIRECTIONS_PURPOSE, PREVIOUS_PURPOSE])
def test_no_mechanism_draws_what_directions_are_drawn_from(purpose: str):
    with pytest.raises(ValueError, match="to have another purpose"):
        Spider(
            SmoothedSamples(forms(9), RADIUS, 2), Gaussian(purpose), 1.0, torch.ones(1).double(), Refresh.every(2),
            BatchSizes(2), 1.0, 1.0,
        )  # fmt: skip


PATH = (0.0, 0.1, 0.2, 0.15, 0.25, 0.3, 0.2)


def transcript(problem: Forms, many: bool, draws: int, scale: float) -> tuple[Tensor, Any]:
    """Return all estimates along `PATH`, `(1 + draws, steps)`, each run with one unit of noise, and the claim."""
    runs, period = 1 + draws, 3
    mechanism: Any = Gaussian() if many else Tree(period)
    rho = 3 * 0.5 / 1.5**2 + 4 * 0.5 / 2.5**2 if many else mechanism.max_cost(1.5)
    oracle = Spider(
        SmoothedSamples(problem, RADIUS, 3), mechanism, 1.5, torch.full((runs,), rho).double(),
        Refresh.every(period), BatchSizes(3, 1), 1.0, 2.0, 2 / 3 if not many else None,
        sampling=WHOLE if many else FRESH, difference_multiplier=2.5 if many else None, least_move=0.1,
    )  # fmt: skip
    streams: Any = UnitDraws(Streams.of("unit", ["a"] * runs), mechanism.purpose, scale)
    state, seen, every = oracle.init(torch.zeros(runs, 1).double()), [], torch.ones(runs) > 0
    for place in PATH:
        state, estimate = oracle.estimate(state, torch.full((runs, 1), place).double(), streams, every)
        assert (estimate.status == Status.OK).all()
        seen.append(estimate.gradient)
    return torch.cat(seen, 1), oracle.guarantee(state, 1e-3, Streams.of(0, range(runs)))[0]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.slow
def test_the_exact_epsilon_of_a_whole_run_is_at_most_what_is_claimed(many: bool):
    """Given the directions, a transcript is Gaussian; every example is replaced by its opposite."""
    n = 6 if many else 13

    def worst(scale: float) -> tuple[float, float]:
        problem = Forms(9 * torch.ones(n, 1).double(), 18 * (torch.arange(n) % 2 * 2.0 - 1).double())
        base, claim = transcript(problem, many, len(PATH), scale)
        largest = 0.0
        for example in range(n):
            other = replace(problem, a=problem.a.clone(), c=problem.c.clone())
            other.a[example], other.c[example] = -other.a[example], -other.c[example]
            moved, _ = transcript(other, many, 0, scale)
            pair = GaussianPair(base[0], moved[0] - base[0], base[1:] - base[0])
            largest = max(largest, pair.epsilon(1e-3))
        return largest, claim.epsilon

    found, claimed = worst(1.0)
    assert 0.6 * claimed < found <= claimed * (1 + 1e-9)
    found, claimed = worst(0.5)
    assert found > 1.2 * claimed, "control: half the noise"


def test_as_printed_an_example_moves_an_increment_by_far_more_than_is_promised_and_the_run_says_so():
    """Independent directions, 8 d of them, without clipping, for linear losses, whose increments are 0."""
    problem, runs = Forms(torch.eye(DIM).double()[:1].expand(40, -1), torch.zeros(40).double()), 200

    def increments(**how: Any) -> tuple[Tensor, Any]:
        oracle = Spider(
            SmoothedSamples(problem, RADIUS, 8 * DIM, **how), Exact(), 0.0, torch.full((runs,), math.inf).double(),
            Refresh.every(5), BatchSizes(4, 1), 1.5, 1.5 * smoothing_constant(DIM) / RADIUS, least_move=0.02,
        )  # fmt: skip
        first, second = walk(oracle, runs, 2, 0.01)
        return (second[1].gradient - first[1].gradient).norm(dim=1), second[0].meter.exceeded

    promised = 1.5 * smoothing_constant(DIM) / RADIUS * 0.02
    lengths, exceeded = increments(independent=True, clipped=False)
    assert lengths.mean() > 2 * promised and (exceeded[lengths > promised * 1.001] > 0).all()
    lengths, exceeded = increments(independent=True)
    assert (lengths <= promised * (1 + 1e-9)).all() and not exceeded.any()
    lengths, _ = increments()
    assert lengths.max() < 1e-12, "common directions"
