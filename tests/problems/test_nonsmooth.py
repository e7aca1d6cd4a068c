"""Nonsmooth problems: losses at many points, attained Lipschitz constants, samples."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from dpnotes.problems.nonsmooth import AbsoluteDeviations, MaxOfLinear, MinOfNorms
from dpnotes.problems.robust import Link, RobustRegression
from dpnotes.random.streams import Streams

RUNS, EXAMPLES = 3, 11
exactly = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-12)


def normal(name: str, *shape: int) -> Tensor:
    return Streams.of("nonsmooth", [name]).normal(name, 0, torch.Size(shape).numel()).view(shape)


def regression(link: Link, units: int = 1) -> RobustRegression:
    weights = normal("output", units) if units > 1 else None
    return RobustRegression(normal("inputs", EXAMPLES, 5), normal("targets", EXAMPLES), link, weights)


def robust_loss(link: Link, units: int) -> Callable[..., Tensor]:
    links = {"identity": lambda t: t, "relu": torch.relu, "absolute": torch.abs}
    weights = normal("output", units) if units > 1 else torch.ones(1, dtype=torch.float64)
    return lambda x, a, y: (links[link](a @ x.view(5, units)) @ weights - y).abs()


LINKS: tuple[Link, ...] = ("identity", "relu", "absolute")
SLOPES, CENTERS, SCALES = normal("slopes", 6, 4), normal("centers", 3, 4), normal("scales", 4).abs()
DEVIATIONS = AbsoluteDeviations(normal("targets", EXAMPLES, 4), SCALES)
MAXIMUM = MaxOfLinear(SLOPES, normal("offsets", EXAMPLES, 6))
VALLEYS = MinOfNorms(CENTERS, normal("shifts", EXAMPLES, 4))
CASES: dict[str, tuple[Any, Callable[..., Tensor], tuple[Tensor, ...]]] = {
    **{
        f"{link} {units}": (p := regression(link, units), robust_loss(link, units), (p.inputs, p.targets))
        for link in LINKS
        for units in (1, 3)
    },
    "deviations": (DEVIATIONS, lambda x, c: (SCALES * (x - c).abs()).sum(), (DEVIATIONS.targets,)),
    "maximum": (MAXIMUM, lambda x, b: (SLOPES @ x + b).max(), (MAXIMUM._offsets,)),
    "valleys": (VALLEYS, lambda x, z: (x - CENTERS - z).square().sum(1).sqrt().min(), (VALLEYS.shifts,)),
}
CHOSEN = torch.tensor([[1, 7, 7], [0, 10, 2], [3, 3, 5]])


@pytest.mark.parametrize("case", CASES)
def test_losses_at_many_points_are_those_of_gradients(case: str):
    problem = CASES[case][0]
    x = normal("many points", RUNS, 5, problem.dim)
    for chosen in (None, CHOSEN):
        found = problem.losses(x, chosen)
        expected = torch.stack([problem.gradients(x[:, point], chosen).losses for point in range(5)], 2)
        exactly(found, expected)
        with pytest.raises(AssertionError):  # control
            exactly(problem.losses(x.flip(1), chosen), expected)


@pytest.mark.parametrize("case", CASES)
def test_no_gradient_is_longer_than_the_lipschitz_constant_and_one_is_as_long(case: str):
    problem = CASES[case][0]
    lipschitz = problem.constants["lipschitz"].value
    x = 3 * normal("far points", 2000, problem.dim)
    if isinstance(problem, RobustRegression):  # all units active on the longest input
        x[0] = problem.inputs[problem._norms.argmax()].repeat_interleave(len(problem._weights))
    if isinstance(problem, MaxOfLinear):
        x[0] = 10 * SLOPES[problem._norms.argmax()]
    longest = float(problem.gradients(x).norms().max())
    assert longest <= lipschitz * (1 + 1e-12)
    assert longest > lipschitz * (1 - 1e-12), "a smaller constant would not hold"
    # The constant's bound on losses, at near and far pairs of points.
    y = x + normal("moves", 2000, problem.dim) * torch.logspace(-3, 1, 2000, dtype=torch.float64)[:, None]
    rise = (problem.gradients(x).losses - problem.gradients(y).losses).abs()
    moved = torch.linalg.vector_norm(x - y, dim=1, keepdim=True)
    assert bool((rise <= lipschitz * moved * (1 + 1e-9)).all())
    assert not bool((rise <= 0.5 * longest * moved).all()), "control"


def test_samples_have_the_stated_constants():
    signal = normal("signal", 6, 1)
    for link in LINKS:
        problem = RobustRegression.sample(signal, 200, seed=0, link=link)
        assert problem.constants["lipschitz"].value == pytest.approx(1)
        assert problem.gradients(signal.T).losses.max() < 1e-12, "the signal explains its targets"
        noisy = RobustRegression.sample(signal, 200, seed=0, link=link, noise_std=0.1)
        assert torch.equal(noisy.inputs, problem.inputs)
        # 200 draws: within five standard errors of their standard deviation, about 6e-7.
        assert abs(float((noisy.targets - problem.targets).std()) / 0.1 - 1) < 5 / 20
    weights = torch.full((4,), 0.5, dtype=torch.float64)
    network = RobustRegression.sample(normal("teacher", 6, 4), 50, 0, "relu", weights)
    assert network.constants["lipschitz"].value == pytest.approx(1)
    assert network.gradients(normal("teacher", 6, 4).flatten()[None]).losses.max() < 1e-12
    valleys = MinOfNorms.sample(CENTERS.float(), 500, spread=2.0, seed=0)
    assert valleys.shifts.dtype == torch.float32
    # 2,000 squares: within five standard errors, sqrt(2 / 2000) each.
    assert abs(float(valleys.shifts.square().sum(1).mean()) / 4 - 1) < 5 * (2 / 2000) ** 0.5


def test_no_gradient_is_longer_than_it_says_near_a_center():
    """With the factors `x / r - c / r` the rounding error of x over r would enter, unseen by clipping."""
    center = normal("center", 1, 50).float()
    problem = MinOfNorms(center, torch.zeros(1, 50))
    x = center + 1e-5 * normal("near", 100, 50).float()
    ones = torch.ones(100, 1)
    exact = torch.linalg.vector_norm(problem.gradients(x).weighted_sum(ones).double(), dim=1)
    assert float((exact - 1).abs().max()) < 1e-6
    r = problem.gradients(x).losses
    factored = torch.linalg.vector_norm((x / r - center / r).double(), dim=1)
    assert float((factored - 1).abs().max()) > 1e-4, "control"
