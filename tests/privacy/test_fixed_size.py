"""Fixed-size batches with one example replaced: against brute force, quadrature and the mechanism without sampling."""

import itertools
import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant as library
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpnotes.core import WHOLE, Sampling
from dpnotes.guarantees import Relation
from dpnotes.privacy import pld
from dpnotes.privacy.accounting import account, log_moment
from dpnotes.privacy.calibration import noise_multiplier
from dpnotes.privacy.events import Event

REPLACE_ONE = Relation.REPLACE_ONE
EPSILONS = np.concatenate([-np.geomspace(4, 1e-3, 100), np.geomspace(1e-3, 4, 100)])


def event(batch: int, examples: int, multiplier: float, count: int = 1) -> Event:
    return Event(multiplier, REPLACE_ONE, Sampling.fixed_size(batch, examples), count)


# ---------------------------------------------------------------- one release, by brute force
def sums(values: np.ndarray, batch: int) -> np.ndarray:
    """Return the sum of every batch."""
    return np.array([values[list(chosen)].sum() for chosen in itertools.combinations(range(len(values)), batch)])


def density(centres: np.ndarray, multiplier: float, grid: np.ndarray) -> np.ndarray:
    """Return the density of noise around equally likely centres, on a grid of points."""
    return stats.norm.pdf(grid[:, None], centres, multiplier).mean(1)


def deltas(values: np.ndarray, other: np.ndarray, batch: int, multiplier: float) -> np.ndarray:
    """Return the hockey-stick divergence of the releases on two data sets, at all epsilons, by a sum over a grid."""
    ends = max(float(np.abs(sums(each, batch)).max()) for each in (values, other)) + 8 * multiplier
    grid = np.linspace(-ends, ends, 4001)
    one, two = (density(sums(each, batch), multiplier, grid) for each in (values, other))
    return np.array([np.maximum(one - math.exp(each) * two, 0).sum() * (grid[1] - grid[0]) for each in EPSILONS])


def data_sets(examples: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return neighbours in an interval of length 1: the worst pair, its mirror image, and random ones."""
    generator = np.random.default_rng(seed)
    at_zero = np.zeros(examples)
    away = at_zero.copy()
    away[0] = 1.0  # one example at distance 1 from all others, which the other data set has among them
    found = [(away, at_zero), (at_zero, away)]
    for _ in range(3):
        values = generator.uniform(-0.5, 0.5, examples)
        other = values.copy()
        other[0] = -0.5 * np.sign(values[0])
        found.append((values, other))
    return found


CASES = [(1, 2), (1, 5), (2, 4), (3, 7), (4, 8), (2, 8)]


@pytest.mark.parametrize(("batch", "examples"), CASES)
def test_no_pair_of_neighbours_is_above_the_bound_and_one_attains_it(batch: int, examples: int):
    for multiplier in (0.5, 1.0, 3.0):
        bound = pld.fixed_size_hockey_stick(EPSILONS, multiplier, batch / examples)
        attained = np.zeros_like(bound)
        for values, other in data_sets(examples, seed=examples):
            found = deltas(values, other, batch, multiplier)
            assert (found <= bound + 1e-6).all()
            attained = np.maximum(attained, found)
        assert np.abs(attained - bound).max() < 1e-3, "one release: nothing smaller holds"
        smaller = pld.fixed_size_hockey_stick(EPSILONS, multiplier, 0.9 * batch / examples)
        assert (attained > smaller + 1e-6).any(), "control: a rate 10% off"


# ---------------------------------------------------------------- compositions
@pytest.mark.parametrize(
    ("batch", "examples", "multiplier", "steps", "expected"),
    [
        (512, 50_000, 1.0, 2344, 3.588),
        (512, 50_000, 2.0, 2344, 1.175),
        (200, 2000, 2.2, 100, 2.226),
        (256, 60_000, 0.6, 1000, 4.089),
        (100, 1000, 5.365, 200, 1.062),
    ],
)
def test_known_answers(batch: int, examples: int, multiplier: float, steps: int, expected: float):
    claim = account([event(batch, examples, multiplier, steps)], 1e-5)
    assert claim.accountant == "privacy loss distributions"
    assert round(claim.epsilon, 3) == expected
    renyi = account([event(batch, examples, multiplier, steps)], 1e-5, "RDP").epsilon
    assert claim.epsilon < renyi < 1.5 * claim.epsilon


def test_levels_mix_with_one_another_and_with_whole_batches():
    some = [event(10, 1000, 1.0, 50), event(20, 1000, 2.0, 70), Event(30.0, REPLACE_ONE, WHOLE, 5)]
    together = account(some, 1e-5)
    alone = [account([each], 1e-5).epsilon for each in some]
    assert together.accountant == "privacy loss distributions"
    assert max(alone) < together.epsilon < sum(alone)
    assert account(some[::-1], 1e-5).epsilon == pytest.approx(together.epsilon, rel=1e-9)
    split = [replace(each, count=1) for each in some for _ in range(each.count)]
    assert account(split, 1e-5) == together


@settings(max_examples=25)
@given(
    st.sampled_from([1, 3, 10, 50, 100]), st.floats(0.4, 8.0), st.integers(1, 300), st.sampled_from([1e-3, 1e-5, 1e-7])
)
def test_more_noise_smaller_batches_and_fewer_steps_cost_no_more(batch, multiplier, steps, delta):
    def epsilon(batch: int, multiplier: float, steps: int) -> float:
        return account([event(batch, 100, multiplier, steps)], delta).epsilon

    here, near = epsilon(batch, multiplier, steps), 1 + 1e-3  # the grid differs
    assert epsilon(batch, 1.1 * multiplier, steps) <= here * near + 1e-6
    assert epsilon(max(batch - 1, 1), multiplier, steps) <= here * near + 1e-6
    assert epsilon(batch, multiplier, max(steps - 1, 1)) <= here * near + 1e-6
    assert here <= account([Event(multiplier, REPLACE_ONE, WHOLE, steps)], delta).epsilon


def test_no_claim_is_above_that_of_whole_batches():
    for rate in (0.5, 0.99, 1.0):
        for multiplier in (1e-3, 0.04, 0.3, 2.0):
            whole = account([Event(multiplier, Relation.ADD_OR_REMOVE, count=10)], 1e-5).epsilon
            assert account([event(round(100 * rate), 100, multiplier, 10)], 1e-5).epsilon <= whole
            poisson = Event(multiplier, Relation.ADD_OR_REMOVE, Sampling.poisson(rate), 10)
            assert account([poisson], 1e-5).epsilon <= whole
    everything = account([event(100, 100, 2.0, 10)], 1e-5)
    assert everything == account([Event(2.0, REPLACE_ONE, count=10)], 1e-5), "the closed form"
    assert everything.accountant == "exact Gaussian"


def test_the_noise_that_a_guarantee_needs_is_on_the_private_side():
    needed = noise_multiplier(lambda z: [event(200, 2000, z, 100)], 2.0, 1e-5)
    assert account([event(200, 2000, needed, 100)], 1e-5).epsilon <= 2.0
    assert account([event(200, 2000, 0.99 * needed, 100)], 1e-5).epsilon > 2.0, "control"


# ---------------------------------------------------------------- Renyi divergences
def moment_by_mpmath(order: int, multiplier: float, rate: float) -> float:
    """Return the logarithm of the moment, by quadrature at 60 digits."""
    with mpmath.workdps(60):
        z, q = mpmath.mpf(multiplier), mpmath.mpf(rate)

        def integrand(u: mpmath.mpf) -> mpmath.mpf:
            ratio = 1 + q * mpmath.expm1((u - 1 / (2 * z)) / z)
            return (ratio ** (order - 1) - 1) * (ratio**order - 1) / ratio ** (order - 1) * mpmath.npdf(u)

        start, end = 1 / (2 * z), order / z + 16
        points = [start + (end - start) * k / 20 for k in range(21)]
        return float(mpmath.log1p(mpmath.quad(integrand, points, maxdegree=6)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("multiplier", "rate", "order"),
    [(0.3, 0.1, 8), (0.7, 0.9, 5), (3.0, 1e-6, 32), (30.0, 1e-3, 128), (1e3, 0.9, 2), (1e6, 0.1, 1024)],
)
def test_moments_are_those_of_another_program(multiplier: float, rate: float, order: int):
    expected = moment_by_mpmath(order, multiplier, rate)
    assert log_moment(order, multiplier, rate) == pytest.approx(expected, rel=1e-9)


def test_without_sampling_the_moment_is_the_gaussian_s():
    for multiplier, order in itertools.product((0.3, 1.0, 50.0, 1e6), (1.5, 2, 64, 1024)):
        expected = order * (order - 1) / (2 * multiplier**2)
        assert log_moment(order, multiplier, 1.0) == pytest.approx(expected, rel=1e-9)


def test_they_are_below_the_bound_that_is_in_use_and_that_bound_is_noise_for_much_noise():
    for multiplier, rate, order in itertools.product((0.8, 2.0, 5.0), (1e-3, 0.02, 0.2), (2, 8, 32)):
        theirs = library._compute_rdp_sample_wor_gaussian_int(rate, multiplier, order)
        assert log_moment(order, multiplier, rate) <= theirs * (1 + 1e-9)
    smooth = [log_moment(order, 280.0, 0.1) / order for order in (176, 208, 256)]
    theirs = [library._compute_rdp_sample_wor_gaussian_int(0.1, 280.0, order) / order for order in (176, 208, 256)]
    assert smooth == sorted(smooth) and smooth[-1] < 2 * smooth[0]
    assert theirs[-1] > 100 * theirs[0], "why ours"


def test_they_answer_where_no_distribution_does():
    little = account([event(10, 1000, 1.0, 1000)], 1e-40)
    assert little.accountant == "Renyi divergences" and math.isfinite(little.epsilon)
    quiet = account([event(10, 1000, 2e6, 1000)], 1e-12)
    assert quiet.accountant in ("Renyi divergences", "exact Gaussian") and quiet.epsilon < 1e-3


def test_whole_batches_have_the_gaussian_s_hockey_stick():
    assert pld.fixed_size_hockey_stick(np.array([0.0]), 1.0, 1.0) == pytest.approx(2 * stats.norm.cdf(0.5) - 1)
