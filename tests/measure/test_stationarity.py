"""Certificates of stationarity that answer yes, no or undecided, and the accuracy that a run reached."""

import math

import pytest
import torch
from torch import Tensor

from dpnotes.measure.curvature import Interval, smallest_eigenvalue, sufficient_products
from dpnotes.measure.stationarity import (
    Certificate,
    NotSmoothError,
    Verdict,
    certify_sosp,
    fraction_of_sosp,
    reached_alpha,
    sosp_level,
)
from dpnotes.random.streams import Streams

TRIALS, DIM, RHO = 1000, 100, 2.0


def trials(number: int = TRIALS) -> Streams:
    return Streams.of("stationarity", range(number))


def certify(spectrum: Tensor, gradient_norm: Tensor | Interval, alpha: float | Tensor, **options) -> Certificate:
    streams = trials(len(spectrum))
    settings = {"smooth": True, "num_products": 40, "failure_probability": 1e-3, "hessian_lipschitz": RHO} | options
    return certify_sosp(lambda v: spectrum * v, gradient_norm, spectrum.shape[-1], streams, alpha=alpha, **settings)


# ---------------------------------------------------------------- certificates (law 7)
def spectra(family: str) -> Tensor:
    bulk = trials().uniform("spectra", 0, DIM)
    if family == "flat":
        spectrum = 2 * bulk - 1
        spectrum[:, 0] = -1
    else:  # the smallest eigenvalue is only just detected
        spectrum = bulk
        spectrum[:, 0] = -0.2 - 0.3 * trials().uniform("spectra", 1, 1)[:, 0]
    return spectrum


@pytest.mark.parametrize("family", ["flat", "adverse"])
@pytest.mark.slow
def test_verdicts_are_right_and_rarely_undecided(family: str):
    spectrum = spectra(family)
    smallest, norm = spectrum.amin(1), spectrum.abs().amax(1)
    # Thresholds above and below the eigenvalue by 0.05 to 0.15 of the spectral norm.
    margin = (0.05 + 0.1 * trials().uniform("margin", 0, 1)[:, 0]) * norm
    is_sosp = torch.arange(TRIALS) % 2 == 0
    threshold = torch.where(is_sosp, smallest - margin, smallest + margin)
    alpha = threshold**2 / RHO
    # 32 products in 100 dimensions: the interval cannot be wider than the margin.
    num_products = sufficient_products(DIM, 0.05, 1e-3)
    assert num_products == 32
    found = certify(spectrum, 0.5 * alpha, alpha, num_products=num_products)
    wrong = found.verdict == torch.where(is_sosp, Verdict.NO, Verdict.YES)
    assert int(wrong.sum()) <= 5
    assert not (found.verdict == Verdict.UNDECIDED).any()
    # Control: a Ritz value used as a lower bound, after few products, certifies saddles as stationary.
    few = smallest_eigenvalue(lambda v: spectrum * v, DIM, trials(), num_products=4, failure_probability=1e-3)
    assert int((~is_sosp & (few.upper > threshold)).sum()) > 5
    honest = certify(spectrum, 0.5 * alpha, alpha, num_products=4)
    assert int((honest.verdict == torch.where(is_sosp, Verdict.NO, Verdict.YES)).sum()) <= 5


def test_a_verdict_needs_both_conditions_and_stops_when_it_has_them():
    spectrum = torch.linspace(-0.5, 1, DIM, dtype=torch.float64).repeat(5, 1)
    spectrum[2:4] += 0.5
    norms = torch.tensor([0.01, 1.0, 0.01, 0.1, math.nan])
    found = certify(spectrum, norms, 0.1)  # threshold -0.447
    assert [Verdict(int(v)).name for v in found.verdict] == ["NO", "NO", "YES", "NO", "UNDECIDED"]
    assert found.smallest_eigenvalue.num_products is not None
    products = found.smallest_eigenvalue.num_products.tolist()
    assert [products[i] for i in (1, 3, 4)] == [0, 0, 0], "a gradient of at least alpha, or NaN, decides alone"
    assert 0 < products[2] < 40 and 0 < products[0] < 40
    assert found.failure_probability == 1e-3


def test_the_hessian_at_the_threshold_stays_undecided():
    spectrum = torch.linspace(-0.5, 1, DIM, dtype=torch.float64)[None]
    assert certify(spectrum, torch.zeros(1), 0.5**2 / RHO).verdict == Verdict.UNDECIDED
    assert certify(spectrum, torch.zeros(1), 0.7**2 / RHO).verdict == Verdict.YES, "control"


def test_bounds_on_the_gradient_may_leave_it_undecided():
    spectrum = torch.ones(3, DIM, dtype=torch.float64)
    bounds = Interval(torch.tensor([0.0, 0.0, 0.2]), torch.tensor([0.05, 0.2, math.inf]), 0.01)
    found = certify(spectrum, bounds, 0.1)
    assert found.verdict.tolist() == [Verdict.YES, Verdict.UNDECIDED, Verdict.NO]
    assert found.failure_probability == 0.011


def test_a_product_that_is_not_finite_is_undecided():
    spectrum = torch.ones(2, DIM, dtype=torch.float64)
    spectrum[1, 3] = math.nan
    found = certify(spectrum, torch.zeros(2), 0.1)
    assert found.verdict.tolist() == [Verdict.YES, Verdict.UNDECIDED]


def test_runs_and_iterates_are_a_batch():
    spectrum = torch.linspace(-1, 1, DIM, dtype=torch.float64) * torch.tensor([[[1.0], [0.1]], [[0.1], [0.1]]])
    calls = torch.tensor([[0, 1], [0, 1]])
    norms = torch.tensor([[0.0, 0.0], [0.0, 0.2]])
    found = certify(spectrum, norms, 0.1, call=calls)
    assert found.verdict.tolist() == [[Verdict.NO, Verdict.YES], [Verdict.YES, Verdict.NO]]


def test_a_loss_without_a_hessian_is_refused():
    with pytest.raises(NotSmoothError, match="Use a smooth activation"):
        certify(torch.ones(1, DIM), torch.zeros(1), 0.1, smooth=False)


# ---------------------------------------------------------------- along a run
def by_definition(norms: Tensor, eigenvalues: Tensor, alpha: float) -> Tensor:
    return ((norms < alpha) & (eigenvalues > -math.sqrt(RHO * alpha))).double().mean(-1)


def iterates(number: int) -> tuple[Tensor, Tensor]:
    draws = Streams.of("iterates", range(20))
    return draws.uniform("norms", 0, number), draws.normal("eigenvalues", 0, number)


@pytest.mark.parametrize("number", [1, 2, 5, 8])
@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.51, 1.0])
def test_the_reached_accuracy_is_the_smallest_one(number: int, fraction: float):
    norms, eigenvalues = iterates(number)
    reached = reached_alpha(norms, eigenvalues, RHO, fraction)
    assert reached.shape == (20,)
    for run in range(20):
        at, above = float(reached[run]), float(reached[run]) * (1 + 1e-9)
        for alpha, enough in ((above, True), (2 * at, True), (at * (1 - 1e-9), False), (at, False)):
            assert (float(fraction_of_sosp(norms[run], eigenvalues[run], alpha, RHO)) >= fraction) == enough
    assert reached_alpha(norms[0], eigenvalues[0], RHO, fraction) == reached[0], "runs one by one"


def test_the_fraction_is_the_definition_s():
    norms, eigenvalues = iterates(50)
    for alpha in (0.05, 0.2, 0.5, 2.0):
        assert torch.equal(fraction_of_sosp(norms, eigenvalues, alpha, RHO), by_definition(norms, eigenvalues, alpha))
    assert not torch.equal(fraction_of_sosp(norms, eigenvalues, 0.5, 1.0), by_definition(norms, eigenvalues, 0.5))


def test_both_inequalities_are_strict():
    norms = torch.tensor([0.25, 0.0, 0.0], dtype=torch.float64)
    eigenvalues = torch.tensor([1.0, -0.5, 0.0], dtype=torch.float64)
    level = sosp_level(norms, eigenvalues, hessian_lipschitz=1.0)
    assert level.tolist() == [0.25, 0.25, 0.0]
    assert float(fraction_of_sosp(norms, eigenvalues, 0.25, 1.0)) == pytest.approx(1 / 3)
    assert float(fraction_of_sosp(norms, eigenvalues, math.nextafter(0.25, 1), 1.0)) == 1


def test_a_fraction_that_rounds_up_takes_no_iterate_more():
    # 0.07 * 100 is a little more than 7 in floating point.
    assert float(reached_alpha(torch.arange(100.0), torch.ones(100), 1.0, fraction=0.07)) == 6


def test_iterates_that_are_not_finite_are_never_stationary():
    norms, eigenvalues = torch.tensor([0.1, math.nan, 0.1, 0.1]), torch.tensor([1.0, 1.0, math.nan, -math.inf])
    assert sosp_level(norms, eigenvalues, 1.0).tolist() == [pytest.approx(0.1), math.inf, math.inf, math.inf]
    assert float(fraction_of_sosp(norms, eigenvalues, 1e300, 1.0)) == 0.25
    assert float(reached_alpha(norms, eigenvalues, 1.0)) == math.inf
