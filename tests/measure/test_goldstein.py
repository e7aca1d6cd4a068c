"""Goldstein norms: shortest elements against other solvers, certificates against known norms."""

import math
from functools import partial

import pytest
import torch
from scipy import optimize
from torch import Tensor

from dpnotes.measure import goldstein
from dpnotes.measure.goldstein import (
    GoldsteinCertificate,
    Gradient,
    certify_goldstein,
    mean_gradient,
    minimum_norm,
    norm_of_distance,
    norm_of_max,
)
from dpnotes.problems.nonsmooth import AbsoluteDeviations, MaxOfLinear, MinOfNorms
from dpnotes.problems.robust import RobustRegression
from dpnotes.random.streams import Streams

DIMS = (2, 10, 100)
closely = partial(torch.testing.assert_close, rtol=1e-6, atol=1e-9)


def normal(name: str, *shape: int) -> Tensor:
    return Streams.of("goldstein", [name]).normal(name, 0, math.prod(shape)).view(shape)


def at(first: float, dim: int) -> Tensor:
    """Return a point with this first coordinate, `(1, dim)`; the other coordinates do not affect the measurement."""
    x = torch.zeros(1, dim, dtype=torch.float64)
    x[0, 0] = first
    return x


def certify(gradient: Gradient, x: Tensor, radius: float = 1.0, seed: int = 0, **options) -> GoldsteinCertificate:
    return certify_goldstein(gradient, x, Streams.of(seed, range(len(x))), radius=radius, **options)


# ---------------------------------------------------------------- shortest elements
GRADIENTS: dict[str, Tensor] = {
    "few in the plane": normal("plane", 5, 2) + 1,
    "around a mean": normal("mean", 12, 8) + torch.linspace(0, 1, 8, dtype=torch.float64),
    "fewer than coordinates": normal("few", 6, 30),
    "many": normal("many", 60, 8) + 2,
    "of low rank": normal("left", 20, 3) @ normal("right", 3, 40) + 0.5,
    "one": normal("one", 1, 4),
    "equal": torch.ones(7, 3, dtype=torch.float64),
    "small": 1e-9 * (normal("mean", 12, 8) + 1),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_the_shortest_element_is_that_of_another_solver(name: str):
    gradients = GRADIENTS[name]
    found = minimum_norm(gradients)
    longest = float(torch.linalg.vector_norm(gradients, dim=1).max())
    rows = (gradients / longest).numpy()
    solved = optimize.minimize(
        lambda w: 0.5 * float((rows.T @ w) @ (rows.T @ w)),
        torch.full((len(rows),), 1 / len(rows)).double().numpy(),
        jac=lambda w: rows @ (rows.T @ w),
        bounds=[(0, 1)] * len(rows),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: torch.ones(len(w)).numpy()},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 2000},
    )
    slow = longest * math.sqrt(2 * solved.fun)
    assert float(found.norm.upper) == pytest.approx(slow, rel=1e-5, abs=1e-6 * longest)
    assert float(found.norm.upper) <= slow * (1 + 1e-9) + 1e-12 * longest, "no longer than the other's"
    assert float(found.norm.width) <= 1e-10 * longest
    assert bool((found.weights >= 0).all()) and float(found.weights.sum()) == pytest.approx(1)
    closely(found.weights @ gradients, found.element, rtol=0, atol=1e-12 * longest)
    if len(rows) > 1 and name != "equal":
        mean = torch.linalg.vector_norm(gradients.mean(0))
        assert float(mean) > float(found.norm.upper) * (1 + 1e-3), "control: the mean is longer"


def test_the_hull_of_many_around_the_origin_reaches_it():
    for gradients in (normal("around", 100, 10), normal("around, wide", 200, 60)):
        found = minimum_norm(gradients)
        assert float(found.norm.lower) == 0 and float(found.norm.upper) < 1e-13


def test_bounds_hold_at_elements_that_are_not_the_shortest(monkeypatch: pytest.MonkeyPatch):
    """If the programme does not converge, the result is an interval that contains the exact value."""
    gradients = normal("mean", 12, 8) + torch.linspace(0, 1, 8, dtype=torch.float64) + 1
    exact = minimum_norm(gradients)

    def fails(*_: object) -> None:
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr(goldstein, "nnls", fails)
    found = minimum_norm(gradients)
    assert float(found.norm.lower) <= float(exact.norm.lower) and float(exact.norm.upper) < float(found.norm.upper)
    assert float(found.norm.upper) == pytest.approx(float(torch.linalg.vector_norm(gradients, dim=1).min()))
    assert float(found.norm.width) > 0.1


def test_the_norm_is_that_of_the_gradients_and_not_of_their_gram_matrix():
    """Two gradients nearly cancel, in 50 dimensions: the Gram matrix determines their sum to 1e-8 only."""
    forth = normal("forth", 1, 50)
    forth = forth / forth.norm()
    apart = 1e-10 * torch.linalg.qr(torch.cat([forth, normal("apart", 1, 50)]).mT).Q.mT[1:]
    found = minimum_norm(torch.cat([forth + apart, apart - forth]))
    assert float(found.norm.upper) == pytest.approx(1e-10, rel=0.1)
    assert float(found.norm.lower) <= 1e-10
    gram = (rows := torch.cat([forth + apart, apart - forth])) @ rows.mT
    by_gram = float(found.weights @ gram @ found.weights)
    assert not 0.5e-20 < by_gram < 2e-20, "control"


# ---------------------------------------------------------------- certificates where the norm is known
def linear_maximum(dim: int, pieces: int, seed: int) -> tuple[MaxOfLinear, Tensor]:
    """Return random unit slopes and offsets of one example, and a point."""
    slopes = normal(f"slopes {dim} {pieces} {seed}", pieces, dim)
    slopes = slopes / torch.linalg.vector_norm(slopes, dim=1, keepdim=True)
    return MaxOfLinear(slopes, 0.1 * normal(f"offsets {pieces} {seed}", 1, pieces)), 0.5 * normal(
        f"x {dim} {seed}", 1, dim
    )


def first_coordinate(dim: int) -> MaxOfLinear:
    slopes = torch.zeros(2, dim, dtype=torch.float64)
    slopes[0, 0], slopes[1, 0] = 1, -1
    return MaxOfLinear(slopes)


def largest_of_five(dim: int) -> MaxOfLinear:
    return MaxOfLinear(torch.eye(5, dim, dtype=torch.float64))


def exact_of_max(problem: MaxOfLinear, x: Tensor, radius: float = 1.0) -> float:
    norm = norm_of_max(problem.slopes, problem.gradients(x).losses.new_zeros(len(problem.slopes)) + problem._offsets[0],
                       x[0], radius)  # fmt: skip
    assert float(norm.width) < 1e-9
    return float(norm.upper)


KNOWN: list[tuple[str, int, float, Gradient, Tensor, float]] = []
for d in DIMS:
    distance = mean_gradient(MinOfNorms(torch.zeros(1, d).double(), torch.zeros(1, d).double()))
    for r in (0.0, 0.5, 0.99, 1.01, 1.1, 1.5, 2.0, 5.0):
        KNOWN.append(("distance", d, r, distance, at(r, d), float(norm_of_distance(torch.tensor(r).double(), 1.0, d))))
    for r in (0.0, 0.9, -0.9, 0.999, 1.01, 3.0):
        problem = first_coordinate(d)
        KNOWN.append(("first coordinate", d, r, mean_gradient(problem), at(r, d), exact_of_max(problem, at(r, d))))
    if d >= 5:
        problem = largest_of_five(d)
        for r in (0.0, 0.7, 1.2, 3.0):
            KNOWN.append(("largest of five", d, r, mean_gradient(problem), at(r, d), exact_of_max(problem, at(r, d))))
    weights = torch.zeros(d, dtype=torch.float64)
    weights[0] = 1
    line = AbsoluteDeviations(at(0, d), weights)
    KNOWN.append(("deviation", d, 0.9, mean_gradient(line), at(0.9, d), 0.0))
    form = RobustRegression(at(1, d), torch.ones(1).double(), "absolute")  # ||x_1| - 1|: kinks at -1, 0, 1
    for r, norm in ((0.0, 0.0), (0.9, 0.0), (2.2, 1.0)):
        KNOWN.append(("phase", d, r, mean_gradient(form), at(r, d), norm))


@pytest.mark.parametrize("case", KNOWN, ids=lambda case: f"{case[0]} {case[1]} {case[2]}")
@pytest.mark.slow
def test_certificates_are_above_the_norm_by_a_tenth_at_most(case: tuple[str, int, float, Gradient, Tensor, float]):
    _, dim, _, gradient, x, exact = case
    found = certify(gradient, x)
    norm = float(found.norm)
    assert exact - 1e-12 <= norm <= 1.1 * exact + 1e-8
    assert 100 <= int(found.num_gradients) <= 2000
    # The combination consists of gradients in the ball, and has this norm.
    assert float(torch.linalg.vector_norm(found.points[0] - x, dim=1).max()) <= 1
    element = found.weights[0] @ gradient(found.points[0]).double()
    assert float(element.norm()) == pytest.approx(norm, abs=1e-9)
    assert len(found.points[0]) == len(found.weights[0]) <= dim + 1 and float(found.weights[0].sum()) == pytest.approx(
        1
    )
    assert float(found.uniform) >= norm - 1e-12


@pytest.mark.parametrize("dim", (10, 50, 100))
def test_uniform_samples_alone_miss_a_cap(dim: int):
    """For `|x_1|` at 0.9 alpha the norm is 0; the cap with the other sign is 2e-4 of the ball in 10 dimensions.

    With 16 dim draws in 10 dimensions, one falls into the cap with probability 0.03.
    """
    found = certify(mean_gradient(first_coordinate(dim)), at(0.9, dim), num_samples=16 * dim)
    assert float(found.uniform) == pytest.approx(1), "control: completely"
    assert float(found.norm) < 1e-8
    assert int(found.num_gradients) - 16 * dim < 40


@pytest.mark.slow
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("pieces", (3, 5, 20))
def test_certificates_of_maxima_of_random_forms(dim: int, pieces: int):
    """A certificate is never below the norm, and at most a tenth above it, even for thin caps of the ball."""
    radius = 0.3
    for seed in range(5):
        problem, x = linear_maximum(dim, pieces, seed)
        exact = exact_of_max(problem, x, radius)
        assert exact - 1e-12 <= float(certify(mean_gradient(problem), x, radius, seed).norm) <= 1.1 * exact + 1e-9


@pytest.mark.slow
def test_control_of_twenty_pieces_some_are_missed_where_no_lead_is_followed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(goldstein, "_leads", lambda *_: [])
    far = 0
    for seed in range(5):
        problem, x = linear_maximum(100, 20, seed)
        norm = float(certify(mean_gradient(problem), x, 0.3, seed).norm)
        far += norm > 1.1 * exact_of_max(problem, x, 0.3) + 1e-9
    assert far >= 1


# ---------------------------------------------------------------- what else a certificate says


@pytest.mark.slow
def test_runs_are_certified_alike_together_and_alone():
    gradient = mean_gradient(MinOfNorms(normal("centers", 3, 6), normal("shifts", 4, 6)))
    x, streams = normal("together", 3, 6), Streams.of("together", range(3))
    together = certify_goldstein(gradient, x, streams, radius=0.5)
    for run in range(3):
        alone = certify_goldstein(gradient, x[run : run + 1], streams.take(slice(run, run + 1)), radius=0.5)
        assert torch.equal(alone.norm[0], together.norm[run]) and torch.equal(alone.points[0], together.points[run])
    other = certify_goldstein(gradient, x, streams, radius=0.5, call=1)
    assert not torch.equal(other.points[0], together.points[0])


def test_what_is_not_finite_leaves_the_norm_unknown_or_is_left_out():
    nothing = certify(lambda points: torch.full_like(points, math.nan), at(0.0, 3))
    assert nothing.norm.item() == math.inf
    absolute = mean_gradient(first_coordinate(3))
    holes = certify(lambda points: torch.where(points[:, 1:2] > 0, math.inf, absolute(points)), at(0.9, 3))
    assert float(holes.norm) < 1e-8


def test_float32_points_stay_in_the_ball():
    problem = MinOfNorms(torch.zeros(1, 10), torch.zeros(1, 10))
    found = certify(mean_gradient(problem), at(2.0, 10).float())
    assert found.points[0].dtype == torch.float32 and found.norm.dtype == torch.float64
    assert math.sqrt(0.75) - 1e-6 <= float(found.norm) <= 1.01 * math.sqrt(0.75)
    assert float(torch.linalg.vector_norm((found.points[0] - at(2.0, 10).float()).double(), dim=1).max()) <= 1


# ---------------------------------------------------------------- norms that are known
def test_which_pieces_reach_into_a_ball():
    """Two pieces meet at distance t, found by bisection of the radius at which the norm drops."""
    slopes = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]], dtype=torch.float64)
    offsets, x = torch.tensor([0.0, -1.0, -0.2], dtype=torch.float64), torch.tensor([1.0, 0.0], dtype=torch.float64)
    # (1, 0) against (0, 1) with offset -1: x_1 = x_2 - 1, at distance 2 / sqrt(2); the third piece, at 0.5/sqrt(.58).
    reach = 0.5 / math.sqrt(0.3**2 + 0.7**2)
    for radius, count in ((reach - 1e-6, 1), (reach + 1e-6, 2)):
        expected = float(minimum_norm(slopes[[0, 2][:count]]).norm.upper)
        assert float(norm_of_max(slopes, offsets, x, radius).upper) == pytest.approx(expected)
    hidden = torch.tensor([0.0, 0.0, -5.0], dtype=torch.float64)
    everywhere = norm_of_max(slopes[[0, 1, 0]], hidden, x, 100.0)
    assert float(everywhere.upper) == pytest.approx(math.sqrt(0.5)), "a piece below a parallel one is nowhere active"


def test_a_kink_at_the_radius_is_reached_in_every_unit():
    """For |a'y|: 200 points at the radius from the kink up to rounding, with radii from 1e-9 to 1e9."""
    directions = normal("directions", 200, 3)
    radii, steepness = (10 ** (3 * normal(name, 200).clamp(-3, 3)) for name in ("radii", "steepness"))

    def reaches(share: float) -> int:
        found = 0
        for a, radius, steep in zip(directions, radii, steepness, strict=True):
            slopes = steep * torch.stack([a, -a])
            x = share * radius * a / a.norm()
            bounds = norm_of_max(slopes, torch.zeros(2), x, float(radius))
            found += float(bounds.upper) < 1e-9 * float(slopes[0].norm())
        return found

    assert reaches(1.0) == 200
    assert reaches(1 + 1e-9) == 0, "control: what is outside stays outside"


@pytest.mark.parametrize("dim", (1, 2, 7))
def test_the_norm_of_a_distance_is_that_of_its_cone(dim: int):
    distances = torch.tensor([0.0, 0.5, 1.0, 1.25, 2.0], dtype=torch.float64)
    expected = [0, 0, 0, 1, 1] if dim == 1 else [0, 0, 0, 0.6, math.sqrt(0.75)]
    closely(norm_of_distance(distances, 1.0, dim), torch.tensor(expected, dtype=torch.float64))
