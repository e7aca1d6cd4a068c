"""Curvature: Lanczos against eigvalsh, and intervals with valid coverage."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from dpnotes.measure import curvature
from dpnotes.measure.curvature import Interval, lanczos, smallest_eigenvalue, sufficient_products
from dpnotes.random.streams import Streams

TRIALS = 1000
exactly = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-12)


def trials(number: int = TRIALS) -> Streams:
    return Streams.of("curvature", range(number))


def of_diagonal(
    spectrum: Tensor, streams: Streams, num_products: int, failure_probability: float = 1e-3, **options: Any
) -> Interval:
    """Return intervals for the smallest numbers of spectra, `(..., dim)`, as Hessians that are diagonal."""
    given = {"num_products": num_products, "failure_probability": failure_probability, **options}
    return smallest_eigenvalue(partial(torch.mul, spectrum), spectrum.shape[-1], streams, **given)


# ---------------------------------------------------------------- Lanczos
def starts(runs: int, dim: int) -> Tensor:
    return trials(runs).normal("start", 0, dim)


def symmetric(runs: int, dim: int) -> Tensor:
    square = Streams.of("matrices", range(runs)).normal("matrix", 0, dim * dim).view(runs, dim, dim)
    return square + square.mT


def test_lanczos_finds_every_eigenvalue_of_a_small_matrix():
    matrices = symmetric(5, 12)
    found = lanczos(lambda v: (matrices @ v[..., None])[..., 0], starts(5, 12), num_products=50)
    assert found.num_products.tolist() == [12] * 5 and bool(found.invariant.all())
    exactly(found.ritz_values(), torch.linalg.eigvalsh(matrices))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 2e-7)])
@pytest.mark.parametrize("dim", [300, 200_000])
@pytest.mark.slow
def test_lanczos_stays_semi_orthogonal_when_ritz_values_converge(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, tolerance: float, dim: int
):
    # Outliers converge within a few products; without re-orthogonalisation they return as ghosts, and with float32
    # inner products long vectors with a few large entries are orthogonal to 1e-4 only.
    spectrum = torch.linspace(0, 0.01, dim, dtype=dtype)
    spectrum[:10] = torch.linspace(0.1, 1, 10)
    seen = []
    matrix = lanczos(lambda v: seen.append(v) or spectrum * v, starts(1, dim).to(dtype), num_products=30)
    basis = torch.cat(seen).double()
    # The remainder must be small when it is squared.
    assert float((basis @ basis.mT - torch.eye(30)).abs().max()) < 0.1 * math.sqrt(tolerance)
    assert int((matrix.ritz_values() > 0.05).sum()) == 10
    assert matrix.diagonal.dtype == torch.float64
    torch.testing.assert_close((basis * spectrum * basis).sum(1), matrix.diagonal[0], rtol=0, atol=10 * tolerance)
    monkeypatch.setattr("dpnotes.measure.lanczos._SEMI", math.inf)
    never = lanczos(lambda v: spectrum * v, starts(1, dim).to(dtype), num_products=30)
    assert int((never.ritz_values() > 0.05).sum()) > 10, "control: without it there are ghosts"


def test_an_invariant_subspace_ends_each_run_by_itself_and_is_exact():
    spectra = torch.ones(4, 50, dtype=torch.float64)
    spectra[1, :20], spectra[2, :20], spectra[2, 20:25], spectra[3] = -2, -2, 3, 0
    found = of_diagonal(spectra, trials(4), 30)
    assert found.num_products is not None and found.num_products.tolist() == [1, 2, 3, 1]
    truth = spectra.amin(1)
    assert bool(((found.lower <= truth) & (truth <= found.upper) & (found.width < 1e-10)).all())


@pytest.mark.parametrize("shape", [(6,), (3, 2)])
@pytest.mark.slow
def test_a_batch_equals_its_runs_one_by_one(shape: tuple[int, ...]):
    spectra = 2 * trials(6).uniform("spectrum", 0, 40) - 1
    spectra[2, 5:] = 0.5  # ends early
    calls = torch.arange(6).view(shape)
    streams = trials(shape[0])
    batch = of_diagonal(spectra.view(*shape, 40), streams, 20, call=calls, tolerance=0.05)
    assert batch.lower.shape == shape and batch.num_products is not None
    for run in range(6):
        one = streams.take(torch.tensor([run // (6 // shape[0])]))
        alone = of_diagonal(spectra[run], one, 20, call=calls.view(-1)[[run]], tolerance=0.05)
        exactly(alone.lower, batch.lower.view(-1)[[run]])
        exactly(alone.upper, batch.upper.view(-1)[[run]])
        assert alone.num_products is not None
        assert int(alone.num_products) == int(batch.num_products.view(-1)[run])
    assert len(set(batch.num_products.view(-1).tolist())) > 2, "control: the runs differ"


def test_iterates_have_their_own_start_vectors():
    seen = []
    calls = torch.tensor([[3, 3, 4]])
    smallest_eigenvalue(
        lambda v: seen.append(v) or v, 30, trials(1), num_products=1, failure_probability=0.1, call=calls
    )
    first, same, other = seen[0][0]
    assert torch.equal(first, same) and not torch.allclose(first, other)


def test_a_product_that_is_not_finite_ends_its_run_and_no_other():
    spectra = torch.linspace(-1, 1, 60, dtype=torch.float64).repeat(3, 1)
    clean = of_diagonal(spectra, trials(3), 20)
    for bad in (math.nan, math.inf):
        count = 0

        def hvp(v: Tensor, bad: float = bad) -> Tensor:
            nonlocal count
            count += 1
            product = spectra * v
            if count >= 5:
                product[1, 7] = bad
            return product

        found = smallest_eigenvalue(hvp, 60, trials(3), num_products=20, failure_probability=1e-3, tolerance=1e-9)
        assert found.num_products is not None and found.num_products.tolist() == [20, 4, 20]
        assert (float(found.lower[1]), float(found.upper[1])) == (-math.inf, math.inf)
        exactly(found.upper[[0, 2]], clean.upper[[0, 2]])


@pytest.mark.slow
def test_runs_stop_at_the_tolerance_and_at_the_threshold():
    spectrum = torch.linspace(-1, 1, 400, dtype=torch.float64)
    for wanted in (0.1, 0.01):
        found = of_diagonal(spectrum, trials(3), 200, tolerance=wanted)
        assert found.num_products is not None
        assert bool((found.width <= wanted).all()) and bool((found.num_products < 120).all())
        earlier = of_diagonal(spectrum, trials(3), int(found.num_products[0]) - 4)
        assert float(earlier.width[0]) > wanted, "control: it stopped at the first look that allowed it"
    found = of_diagonal(spectrum, trials(1), 200, threshold=-0.5)
    assert float(found.upper) < -0.5 and found.num_products is not None and int(found.num_products) <= 8


# ---------------------------------------------------------------- intervals that keep their word (law 7)
def spectra(family: str, dim: int, number: int = TRIALS) -> Tensor:
    """Return one spectrum per trial, `(trials, dim)`, with the smallest eigenvalue first."""
    uniform = partial(trials(number).uniform, "spectra")
    bulk, first = uniform(0, dim), uniform(1, 1)[:, 0]
    if family == "flat":
        bulk = 2 * bulk - 1
    elif family == "clustered":
        bulk = torch.where(bulk < 0.5, -1 + 1e-6 * bulk, 1 - 1e-6 * bulk)
    elif family == "isolated":
        bulk = 0.1 * bulk
        bulk[:, 0] = -0.5 - 0.5 * first
    elif family == "adverse":  # an eigenvalue that the bound only just detects
        bulk[:, 0] = -0.3 * first
    elif family == "decades":
        bulk = torch.where(uniform(2, dim) < 0.5, -1, 1) * 10 ** (-12 * bulk)
    elif family == "positive":
        bulk = 1e-3 * bulk
        bulk[:, -1] = 1
    return bulk.sort(dim=1).values


def misses(found: Interval, truth: Tensor) -> int:
    return int(((found.lower > truth) | (found.upper < truth)).sum())


FAMILIES = ["flat", "clustered", "isolated", "adverse", "decades", "positive"]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_intervals_are_wrong_at_most_5_of_1000_times_at_1e_3(family: str):
    # More than 5 of 1,000 at 1e-3 has probability 6e-4; all draws are fixed. Numbers of products: few, just enough,
    # many.
    spectrum = spectra(family, 60)
    norm = spectrum.abs().amax(1)
    for num_products in (4, 12, 28):
        found = of_diagonal(spectrum, trials(), num_products)
        assert misses(found, spectrum[:, 0]) <= 5
        rate = math.acosh(1 / curvature._start_component(60, 1e-3)) / (2 * num_products - 2)
        assert bool((found.width <= 1.001 * math.sinh(rate) ** 2 * 2 * norm + 1e-12).all())
        if num_products == 4:  # with more, some families' Ritz values have all digits
            as_lower_bound = Interval(found.upper - 1e-12 * norm, found.upper)
            assert misses(as_lower_bound, spectrum[:, 0]) > 100, "control: a Ritz value is no lower bound"


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 7])
@pytest.mark.slow
def test_tiny_dimensions_and_float32(dim: int):
    for family in ("flat", "clustered", "adverse", "decades"):
        spectrum = spectra(family, dim)
        for dtype in (torch.float64, torch.float32):
            rounded = spectrum.to(dtype)
            for num_products in {1, 2, max(1, dim - 1), dim}:
                found = of_diagonal(rounded, trials(), num_products, dtype=dtype)
                assert misses(found, rounded[:, 0].double()) <= 5
                # The whole space: exact up to the error of a product over the component that the bound relies on.
                if num_products == dim and dtype == torch.float64:
                    assert float(found.width.max()) < 1e-9


def test_the_bound_is_sharp_and_misses_only_where_the_start_vector_hides_the_eigenvector():
    spectrum, claimed = spectra("adverse", 60), 0.1
    start = trials().normal("lanczos", 0, 60)
    component = (start[:, 0] / start.norm(dim=1)).abs()

    interval = partial(of_diagonal, spectrum, trials(), 12)
    found = interval(claimed)
    hidden = component < curvature._start_component(60, claimed)
    wrong = (found.lower > spectrum[:, 0]) | (found.upper < spectrum[:, 0])
    assert not (wrong & ~hidden).any()
    # Binomial(1000, 0.1): more than 138 has probability 6e-5. Fewer than 60 would mean a loose bound.
    assert 60 <= int(wrong.sum()) <= 138
    assert misses(interval(0.3), spectrum[:, 0]) > 138, "control: a bound for 0.3 sold as one for 0.1 is seen"


def test_the_start_component_is_the_quantile_of_a_random_unit_vector():
    for dim in (2, 3, 10, 10**6):
        for probability in (1e-9, 1e-3, 0.5):
            # P(|cos| < c) by quadrature of (1 - t^2)^((dim - 3) / 2), or in closed form.
            quantile = curvature._start_component(dim, probability)
            if dim == 2:
                assert quantile == pytest.approx(math.sin(probability * math.pi / 2))
            elif dim == 3:
                assert quantile == pytest.approx(probability)
            else:
                log_density = math.lgamma(dim / 2) - math.lgamma((dim - 1) / 2) - 0.5 * math.log(math.pi)
                grid = torch.linspace(0, quantile, 2001, dtype=torch.float64)
                density = 2 * torch.exp(log_density + (dim - 3) / 2 * torch.log1p(-(grid**2)))
                assert float(torch.trapezoid(density, grid)) == pytest.approx(probability, rel=1e-5)
    assert curvature._start_component(1, 1e-3) == 1


# ---------------------------------------------------------------- what saves time
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_vectors_stay_semi_orthogonal(monkeypatch: pytest.MonkeyPatch, family: str, dtype: torch.dtype):
    spectrum, dim = spectra(family, 60, 100).to(dtype), 60

    def lost() -> float:
        """Return the largest inner product of two vectors, over the root of an error's component along one."""
        vectors = []
        hvp = lambda v: vectors.append(v.double()) or spectrum * v  # noqa: E731
        matrix = lanczos(hvp, starts(100, dim).to(dtype), num_products=dim)
        basis = torch.stack(vectors, 1)
        taken = torch.arange(len(vectors)) < matrix.num_products[:, None]
        products = (basis @ basis.mT - torch.eye(len(vectors))) * taken[:, :, None] * taken[:, None]
        return float(products.abs().max()) / math.sqrt(4 / math.sqrt(dim) * matrix.rounding)

    assert lost() < 0.3
    monkeypatch.setattr("dpnotes.measure.lanczos._SEMI", math.inf)
    rounded_apart = family == "clustered" and dtype == torch.float32  # to two numbers, and two products
    assert rounded_apart or lost() > 10, "control"


# ---------------------------------------------------------------- against Kuczynski and Wozniakowski


def test_sufficient_products_suffice():
    spectrum = torch.linspace(-1, 1, 300, dtype=torch.float64)
    interval = partial(of_diagonal, spectrum, trials(20))
    for width in (0.5, 0.05):
        enough = sufficient_products(300, width, 1e-3)
        assert float(interval(num_products=enough).width.max()) <= width
        assert float(interval(num_products=enough // 2).width.min()) > width, "control: half of them do not"
    assert sufficient_products(10, 1e-9, 1e-3) == 10


# ---------------------------------------------------------------- the norm, known constants


def test_failure_probabilities_below_rounding_claim_nothing():
    spectrum = torch.linspace(-1, 1, 100)
    found = of_diagonal(spectrum, trials(1), 40, failure_probability=1e-9, dtype=torch.float32)
    assert float(found.lower) == -math.inf and -1.01 < float(found.upper) < -0.9


@pytest.mark.parametrize("scale", [1e-100, 1e-30, 1e30, 1e150])
def test_the_unit_does_not_matter(scale: float):
    spectrum = torch.linspace(-1, 1, 100, dtype=torch.float64)
    interval = partial(smallest_eigenvalue, dim=100, streams=trials(2), num_products=12, failure_probability=1e-3)
    unit, scaled = interval(lambda v: spectrum * v), interval(lambda v: scale * (spectrum * v))
    torch.testing.assert_close(scaled.lower / scale, unit.lower, rtol=1e-9, atol=0)
    torch.testing.assert_close(scaled.upper / scale, unit.upper, rtol=1e-9, atol=0)
