"""Accountants against published values, exact values and one another; relations, sampling and invalid combinations."""

import math
import tracemalloc
from dataclasses import replace
from functools import partial
from typing import Any

import dp_accounting
import mpmath
import numpy as np
import pytest
import torch
from dp_accounting import pld as library_pld
from dp_accounting import rdp as library_rdp
from dp_accounting.privacy_accountant import NeighboringRelation
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, special, stats

from dpnotes.core import FRESH, WHOLE, Ledger, Price, Sampling
from dpnotes.guarantees import (
    ALLOWED,
    BATCH_NORM,
    SEED_IS_PUBLIC,
    STATISTICS_WITHOUT_NOISE,
    TUNED_ON_PRIVATE_DATA,
    Assumption,
    CombinationError,
    Guarantee,
    Relation,
    bound_was_checked,
    check_combination,
)
from dpnotes.privacy import accounting, pld
from dpnotes.privacy.accounting import (
    _ORDERS,
    ACCOUNTANTS,
    _divergence,
    _renyi,
    account,
    epsilon_to_rho,
    rho_to_epsilon,
)
from dpnotes.privacy.calibration import gaussian_delta, gaussian_std, noise_multiplier, tree_std
from dpnotes.privacy.events import Event, clipped_sensitivity, events_of, merged, to_dp_event

ZERO_OUT, REPLACE_ONE, ADD_OR_REMOVE = Relation.ZERO_OUT, Relation.REPLACE_ONE, Relation.ADD_OR_REMOVE


def exact_delta(epsilon: float, mu: float) -> mpmath.mpf:
    """Return delta of a Gaussian mechanism (Balle and Wang 2018, Theorem 8), to 40 digits."""
    with mpmath.workdps(40):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


# ---------------------------------------------------------------- published and exact values
@pytest.mark.parametrize(
    ("rho", "delta", "conversion", "epsilon", "digits"),
    [
        (0.1963518534, 1e-8, "classic", 4.0, 8),
        (0.1963518534, 1e-8, "exact", 3.45651, 5),
        (1.0, 1e-5, "classic", 7.786, 3),
        (1.0, 1e-5, "tight", 7.077, 3),
        (1.0, 1e-5, "exact", 6.57297, 5),
        (0.125, 1e-5, "exact", 1.99309, 5),  # one Gaussian of mu = 0.5
        (0.5, 1e-5, "exact", 4.37718, 5),  # one Gaussian of mu = 1
        (0.5 / 4.224679**2, 1e-6, "exact", 1.0, 6),  # Balle and Wang's multiplier at (1, 1e-6)
    ],
)
def test_published_values_of_zcdp(rho, delta, conversion, epsilon, digits):
    assert round(rho_to_epsilon(rho, delta, conversion), digits) == epsilon
    assert round(rho_to_epsilon(rho * 1.01, delta, conversion), digits) != epsilon, "control"


def test_the_budget_of_the_paper():
    assert round(epsilon_to_rho(4.0, 1e-8, "classic"), 7) == 0.1963519


def poisson(multiplier: float, rate: float, count: int, relation: Relation = ADD_OR_REMOVE) -> list[Event]:
    return [Event(multiplier, relation, Sampling.poisson(rate), count)]


@pytest.mark.parametrize(
    ("multiplier", "rate", "steps", "published"),
    [
        (4.0, 0.01, 10_000, 1.26),  # Abadi et al. 2016 (arXiv:1607.00133v2), Section 3.2, by their moments accountant
        (1.1, 256 / 60_000, 14_062, 3.01),  # TensorFlow Privacy's MNIST tutorial: batches of 256, 60 epochs
    ],
)
def test_published_values_of_poisson_batches(multiplier, rate, steps, published):
    def as_then(rate: float) -> float:  # with the conversion used at that time
        event = poisson(multiplier, rate, steps)[0]
        return min(_divergence(event, a) + math.log(1e5) / (a - 1) for a in range(2, 65))

    assert round(as_then(rate), 2) == published
    assert as_then(1.01 * rate) > published + 0.01, "control"
    now, least = (account(poisson(multiplier, rate, steps), 1e-5, method).epsilon for method in ("RDP", "PLD"))
    assert least < now < published, "conversions got better, and a privacy loss distribution is better still"


def test_privacy_loss_distributions_agree_with_the_library_s_own():
    for multiplier, rate, steps in ((1.0, 0.01, 1000), (2.0, 0.1, 300), (4.0, 0.5, 50)):
        accountant = library_pld.PLDAccountant()
        accountant.compose(to_dp_event(poisson(multiplier, rate, steps)))
        theirs = accountant.get_epsilon(1e-5)
        assert account(poisson(multiplier, rate, steps), 1e-5).epsilon == pytest.approx(theirs, rel=1e-3)
        assert account(poisson(multiplier, rate, steps, ZERO_OUT), 1e-5).epsilon == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("rate", [0.01, 0.5, 1.0])
@pytest.mark.parametrize("side", ["REMOVE", "ADD"])
def test_one_level_is_the_library_s_hockey_stick(rate, side):
    from dp_accounting.pld import privacy_loss_mechanism

    loss = privacy_loss_mechanism.GaussianPrivacyLoss(
        0.8, sampling_prob=rate, adjacency_type=privacy_loss_mechanism.AdjacencyType[side]
    )
    epsilons = np.linspace(-3, 3, 61)
    theirs = np.array([loss.get_delta_for_epsilon(e) for e in epsilons])
    assert np.allclose(pld.hockey_stick(epsilons, 0.8, rate, side), theirs, rtol=1e-9, atol=1e-14)
    assert not np.allclose(pld.hockey_stick(epsilons, 0.81, rate, side), theirs, rtol=1e-3), "control"
    with pytest.raises(ValueError, match="noise_multiplier=9e-07 >= 1e-06"):  # the square must be finite
        pld.hockey_stick(epsilons, 9e-7, rate, side)


# ---------------------------------------------------------------- law 6: accountants against one another
def schedules_at_random(num: int) -> list[list[float]]:
    generator = np.random.default_rng(0)
    found = []
    for _ in range(num):
        steps = int(generator.integers(1, 60))
        spread = generator.uniform(0, 1.5)
        levels = np.exp(generator.normal(0, spread, steps))
        rho = 10 ** generator.uniform(-3, 1)
        found.append(list(levels * math.sqrt(float(np.sum(0.5 / levels**2)) / rho)))
    return found


@pytest.mark.parametrize("levels", schedules_at_random(20), ids=range(20))
def test_heterogeneous_schedules_by_every_accountant(levels):
    delta = 1e-6
    for relation in (ZERO_OUT, REPLACE_ONE, ADD_OR_REMOVE):
        events = [Event(level, relation) for level in levels]
        exact, by_pld, by_rdp, classic, tight = (account(events, delta, method).epsilon for method in ACCOUNTANTS)
        mu = math.sqrt(sum(level**-2 for level in levels))
        assert float(exact_delta(exact, mu)) == pytest.approx(delta, rel=1e-6)
        assert exact <= by_pld * (1 + 1e-12) and by_pld <= exact * (1 + 1e-3)
        assert by_pld <= by_rdp * (1 + 1e-9) and tight <= by_rdp * (1 + 1e-9) and tight <= classic
    # The control: a schedule with slightly less noise is detected.
    louder = [Event(level * 0.99, ZERO_OUT) for level in levels]
    assert account(louder, delta, "PLD").epsilon > exact * (1 + 2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("levels", schedules_at_random(20), ids=range(20))
def test_heterogeneous_schedules_level_by_level(levels):
    # By the library's own composition, without merging to one Gaussian first.
    delta, events = 1e-6, [Event(level, ZERO_OUT) for level in levels]
    exact = account(events, delta).epsilon
    accountant = library_pld.PLDAccountant(NeighboringRelation.REPLACE_SPECIAL)
    accountant.compose(to_dp_event(events))
    assert exact * (1 - 1e-9) <= accountant.get_epsilon(delta) <= exact * (1 + 1e-3)


@pytest.mark.slow
@settings(max_examples=15)
@given(st.floats(0.6, 5), st.floats(1e-3, 0.5), st.integers(1, 200))
def test_sampling_amplifies_and_renyi_is_never_better(multiplier, rate, steps):
    delta = 1e-5
    sampled = account(poisson(multiplier, rate, steps), delta).epsilon
    assert sampled <= account(poisson(multiplier, rate, steps), delta, "RDP").epsilon * (1 + 1e-3)
    assert sampled <= account([Event(multiplier, ADD_OR_REMOVE, count=steps)], delta).epsilon * (1 + 1e-3)


@pytest.mark.slow
def test_many_levels_are_their_composition():
    levels = np.linspace(0.8, 2.5, 20)
    distinct = [Event(float(z), ZERO_OUT, Sampling.poisson(0.02), 3) for z in levels]
    accountant = library_pld.PLDAccountant(NeighboringRelation.REPLACE_SPECIAL)
    accountant.compose(to_dp_event(distinct[::5]))
    assert account(distinct[::5], 1e-5).epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)
    between = [account([replace(distinct[i], count=60)], 1e-5).epsilon for i in (0, -1)]
    assert between[1] < account(distinct, 1e-5).epsilon < between[0]
    split = [replace(e, count=1) for e in distinct for _ in range(3)]
    assert account(split, 1e-5).epsilon == account(distinct, 1e-5).epsilon, "equal levels are merged"


@pytest.mark.slow
@pytest.mark.parametrize(("multiplier", "size", "steps"), [(1.0, 10, 1000), (2.0, 50, 500), (1.5, 20, 3000)])
def test_the_claim_for_batches_of_fixed_size_is_above_what_is_attained(multiplier, size, steps):
    # One example is +clip in one data set and -clip in the other, all others are zero: the sum of a batch is one of two
    # mixtures, whose epsilon the library's PLD accountant computes (its multiplier is relative to clip, half of our
    # sensitivity).
    attained = library_pld.PLDAccountant(NeighboringRelation.REPLACE_ONE)
    sampled = dp_accounting.PoissonSampledDpEvent(size / 1000, dp_accounting.GaussianDpEvent(2 * multiplier))
    attained.compose(sampled, steps)
    lower = attained.get_epsilon(1e-5)
    event = Event(multiplier, REPLACE_ONE, Sampling.fixed_size(size, 1000), steps)
    assert lower * (1 + 1e-3) < account([event], 1e-5).epsilon
    half = replace(event, noise_multiplier=2 * multiplier)
    assert account([half], 1e-5).epsilon < lower, "control: half the sensitivity, that of an example removed"


@pytest.mark.slow
def test_many_levels_of_fixed_size_batches_search_the_right_orders():
    batch = Sampling.fixed_size(10, 1000)
    events = [Event(float(z), REPLACE_ONE, batch, 5) for z in np.linspace(0.8, 3.0, 12)]
    assert account(events, 1e-5, "RDP").epsilon == _renyi(tuple(events), 1e-5, _ORDERS)[0]


# ---------------------------------------------------------------- parallel composition
def test_fresh_batches_compose_in_parallel():
    levels = [3.0, 2.0, 5.0, 2.5]
    fresh = [Event(level, ZERO_OUT, FRESH) for level in levels]
    assert account(fresh, 1e-5).epsilon == account([Event(2.0, ZERO_OUT)], 1e-5).epsilon
    reused = [Event(level, ZERO_OUT) for level in levels]
    assert account(reused, 1e-5).epsilon > 1.5 * account(fresh, 1e-5).epsilon, "control: reused data do not"
    both = [*fresh, Event(4.0, ZERO_OUT, count=3)]
    one = account([Event(2.0, ZERO_OUT), Event(4.0, ZERO_OUT, count=3)], 1e-5).epsilon
    for method in ACCOUNTANTS:
        assert account(both, 1e-5, method).epsilon >= one * (1 - 1e-12)
    assert account(both, 1e-5).epsilon == pytest.approx(one, rel=1e-12)
    assert account(both, 1e-5, "PLD").epsilon == pytest.approx(one, rel=1e-3)


def test_fresh_noise_of_two_kinds_is_the_worse_of_them():
    gaussian, laplace = Event(2.0, ZERO_OUT, FRESH), Event(1.0, ZERO_OUT, FRESH, noise="laplace")
    each = [account([event], 1e-5, "PLD").epsilon for event in (gaussian, laplace)]
    assert account([gaussian, laplace], 1e-5).epsilon == pytest.approx(max(each))
    assert max(each) < account([replace(e, sampling=WHOLE) for e in (gaussian, laplace)], 1e-5).epsilon


# ---------------------------------------------------------------- noise that is not Gaussian
def test_pure_mechanisms():
    for epsilon in (0.1, 1.0, 3.0):
        for noise in ("laplace", "pure"):
            event = Event(1 / epsilon, ZERO_OUT, noise=noise)  # type: ignore[arg-type]
            once = account([event], 1e-9).epsilon
            assert epsilon * (1 - 1e-3) <= once <= epsilon * (1 + 1e-3)
            many = account([replace(event, count=50)], 1e-5).epsilon
            assert many <= 50 * epsilon * (1 + 1e-9)
            assert many <= account([replace(event, count=50)], 1e-5, "RDP").epsilon * (1 + 1e-3)
            assert many <= account([replace(event, count=50)], 1e-5, "tight").epsilon * (1 + 1e-3)
    laplace, pure = (account([Event(2.0, ZERO_OUT, count=20, noise=n)], 1e-5).epsilon for n in ("laplace", "pure"))  # type: ignore[arg-type]
    assert laplace < pure, "the worst mechanism of its epsilon is worse than Laplace"


def test_pure_curves_are_the_library_s():
    from dp_accounting.pld import privacy_loss_distribution, privacy_loss_mechanism

    epsilons = np.linspace(-3, 3, 61)
    for multiplier in (0.4, 1.0, 7.0):
        loss = privacy_loss_mechanism.LaplacePrivacyLoss(multiplier)
        theirs = np.array([loss.get_delta_for_epsilon(e) for e in epsilons])
        ours = pld.pure_hockey_stick(epsilons, multiplier, "laplace")
        assert np.allclose(ours, theirs, rtol=1e-9, atol=1e-14)
        lies = 2 / (1 + math.exp(1 / multiplier))
        response = privacy_loss_distribution.from_randomized_response(lies, 2, value_discretization_interval=1e-5)
        worst = pld.pure_hockey_stick(epsilons, multiplier, "pure")
        assert np.allclose(worst, [response.get_delta_for_epsilon(e) for e in epsilons], atol=2e-5)
        assert not np.allclose(ours, worst, atol=2e-3), "control: they differ"


def test_what_is_only_known_to_be_zcdp_is_converted_as_that():
    alone = [Event(2.0, ZERO_OUT, count=3, noise="zcdp")]
    rho = 3 * 0.5 / 4
    assert account(alone, 1e-5) == account(alone, 1e-5, "tight")
    assert account(alone, 1e-5).epsilon == rho_to_epsilon(rho, 1e-5, "tight")
    assert account(alone, 1e-5, "RDP").epsilon >= account(alone, 1e-5).epsilon
    # The control: the label affects the result.
    assert account([replace(alone[0], noise="gaussian")], 1e-5).epsilon < 0.95 * account(alone, 1e-5).epsilon
    mixed = [*alone, Event(2.0, ZERO_OUT)]
    assert account(mixed, 1e-5).epsilon == rho_to_epsilon(rho + 0.125, 1e-5, "tight")
    for other in (Event(2.0, ZERO_OUT, noise="laplace"), Event(2.0, ZERO_OUT, Sampling.poisson(0.1))):
        claim = account([*alone, other], 1e-5)
        assert claim.accountant == "Renyi divergences" and claim.epsilon > account(alone, 1e-5).epsilon
    fresh = replace(alone[0], sampling=FRESH)
    assert account([fresh, fresh], 1e-5).epsilon == rho_to_epsilon(0.125, 1e-5, "tight")
    for method in ("exact", "PLD"):
        with pytest.raises(CombinationError, match="without zcdp: that goes with RDP or classic or tight"):
            account(alone, 1e-5, method)  # type: ignore[arg-type]
    with pytest.raises(CombinationError, match="Expected noise='gaussian' with sampling=poisson, got 'zcdp'"):
        Event(1.0, ZERO_OUT, Sampling.poisson(0.1), noise="zcdp")
    assert to_dp_event(alone) == dp_accounting.SelfComposedDpEvent(dp_accounting.dp_event.ZCDpEvent(0.125), 3)
    assert to_dp_event([replace(alone[0], noise_multiplier=3.0, count=1)]) == dp_accounting.dp_event.ZCDpEvent(0.5 / 9)


# ---------------------------------------------------------------- many releases, little noise
@pytest.mark.parametrize("noise", ["laplace", "pure"])
@pytest.mark.parametrize("multiplier", [1.0, 1000.0])
@pytest.mark.slow
def test_a_million_pure_releases_are_nearly_one_gaussian_one(noise, multiplier):
    # By the central limit theorem the loss is normal, with the mean and variance of a million releases.
    a, count, delta = 1 / multiplier, 10**6, 1e-5
    if noise == "pure":
        mean = a * math.tanh(a / 2)
        variance = a * a - mean * mean
    else:
        mean = a + math.expm1(-a)
        second, _ = integrate.quad(lambda x: (a - 2 * a * x) ** 2 * a / 2 * math.exp(-a * x), 0, 1)
        variance = a * a * (1 + math.exp(-a)) / 2 + second - mean * mean
    normal = stats.norm(count * mean, math.sqrt(count * variance))

    def short_of(epsilon: float) -> float:  # E[max(0, 1 - exp(epsilon - loss))], over the relevant tail
        at = np.linspace(epsilon, epsilon + 12 * normal.std(), 200_001)
        return float(integrate.trapezoid(-np.expm1(epsilon - at) * normal.pdf(at), at)) - delta

    expected = optimize.brentq(short_of, normal.mean() - normal.std(), normal.mean() + 8 * normal.std())
    events = [Event(multiplier, ZERO_OUT, count=count, noise=noise)]
    assert account(events, delta).epsilon == pytest.approx(expected, rel=2e-3)
    assert account([replace(events[0], count=int(1.02 * count))], delta).epsilon != pytest.approx(expected, rel=2e-3)
    assert account(events, delta).epsilon < account(events, delta, "RDP").epsilon


def test_a_composition_is_the_library_s():
    for multiplier, rate, count in ((1.0, 0.01, 1000), (0.3, 0.2, 20), (5.0, 0.9, 7)):
        level = pld._Level("gaussian", multiplier, rate, 1)
        for side in ("REMOVE", "ADD"):
            one = pld._mass(level, side, 1e-3, pld._LEAST_TAIL).on_grid(1e-3)
            ours = pld._mass(level._replace(count=count), side, 1e-3, pld._LEAST_TAIL).on_grid(1e-3)
            theirs = one.self_compose(count)
            less = one.self_compose(count - 1)
            for epsilon in (0.1, 1.0, 3.0):
                delta = theirs.get_delta_for_epsilon(epsilon)
                assert ours.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-9, abs=1e-12)
                assert less.get_delta_for_epsilon(epsilon) < delta * (1 - 1e-6) or delta < 1e-9, "control"


def test_two_levels_are_composed_and_truncated_as_the_library_does_it():
    for side in ("REMOVE", "ADD"):
        levels = (pld._Level("gaussian", z, q, 1) for z, q in ((1.0, 0.01), (2.0, 0.3)))
        one, other = (pld._mass(level, side, 1e-3, pld._LEAST_TAIL) for level in levels)
        ours = pld._joined(one, other).on_grid(1e-3)
        theirs, untouched = (one.on_grid(1e-3).compose(other.on_grid(1e-3), tail) for tail in (1e-15, 0.0))
        assert (ours._lower_loss, ours._infinity_mass) == (theirs._lower_loss, theirs._infinity_mass)
        np.testing.assert_allclose(ours._probs, theirs._probs, rtol=0, atol=1e-17)
        assert ours.size < untouched.size, "and something was truncated"


@pytest.mark.parametrize("side", ["REMOVE", "ADD"])
@pytest.mark.parametrize("rate", [1.0, 0.3, 1e-6])
@pytest.mark.parametrize("multiplier", [0.05, 1.0, 1e6])
@pytest.mark.parametrize(("tail", "count"), [(math.exp(-50), 1), (5e-16, 1), (5e-16, 100)])
def test_the_largest_losses_are_the_library_s(multiplier: float, rate: float, side: str, tail: float, count: int):
    from dp_accounting.pld import privacy_loss_mechanism as library

    theirs = library.GaussianPrivacyLoss(
        multiplier, sampling_prob=rate, log_mass_truncation_bound=math.log(tail / count),
        adjacency_type=library.AdjacencyType[side],
    ).connect_dots_bounds()  # fmt: skip
    low, high = pld._bounds(pld._Level("gaussian", multiplier, rate, count), tail)
    ours = (low, high) if side == "REMOVE" else (-high, -low)
    assert ours == pytest.approx((theirs.epsilon_lower, theirs.epsilon_upper), rel=1e-9, abs=1e-15)


def test_what_is_cut_off_many_levels_is_counted_as_lost():
    levels = [Event(z, ZERO_OUT, Sampling.poisson(0.02)) for z in np.geomspace(1, 3, 200)]
    composed, _ = pld._composed(tuple(levels))
    lost = composed.get_delta_for_epsilon(math.inf)
    assert 0 < lost < 1e-12 and account(levels, 0.5 * lost, "PLD").epsilon == math.inf


def test_losses_below_the_rounding_of_their_probabilities_are_refused():
    events = [Event(1e6, ADD_OR_REMOVE, Sampling.poisson(1e-4), 10**6)]
    with pytest.raises(pld.LimitError, match="above the rounding of their probabilities"):
        account(events, 1e-5, "PLD")
    assert account(events, 1e-5).accountant == "exact Gaussian", "no more than whole batches"
    louder = (replace(events[0], noise_multiplier=1e3),)  # its distribution has a total mass of 2.3
    assert not pld.near_least(louder, 1e-5) and account(louder, 1e-5).epsilon <= account(louder, 1e-5, "PLD").epsilon
    assert pld.near_least(tuple(poisson(1.0, 0.01, 1000)), 1e-5), "control"


def test_what_is_no_number_bounds_nothing(monkeypatch: pytest.MonkeyPatch):
    event = Event(0.987, ADD_OR_REMOVE, Sampling.poisson(0.3))
    accounting._library_divergence.cache_clear()
    monkeypatch.setattr(library_rdp.RdpAccountant, "rdp", np.array([math.nan]), raising=False)
    assert accounting._library_divergence(event, 3) == math.inf
    accounting._library_divergence.cache_clear()


# ---------------------------------------------------------------- numbers that round or wrap
def number(kind: str, value: float) -> Any:
    """Return a value as a number of this numpy type."""
    return np.dtype(kind).type(value)


def test_narrow_numbers_never_reach_a_cache():
    """A float16 has the equality and hash of a float: a cache would return a result computed from an overflow."""
    half, fixed = number("float16", 3.0), Sampling.fixed_size(10, 1000)
    assert half == 3.0 and hash(half) == hash(3.0), "why"
    for call in (
        lambda: Event(half, Relation.REPLACE_ONE, fixed, 100),
        lambda: Event(3.0, Relation.REPLACE_ONE, fixed, number("uint8", 100)),
        lambda: Sampling.poisson(number("float32", 0.5)),
        lambda: Sampling.fixed_size(10, number("int16", 1000)),
        lambda: account([Event(3.0, ZERO_OUT)], number("float16", 0.25)),
        *(partial(rho_to_epsilon, half, 1e-5, c) for c in accounting.CONVERSIONS),
        *(partial(epsilon_to_rho, half, 1e-5, c) for c in accounting.CONVERSIONS),
        lambda: gaussian_std(half, 1e-5),
    ):
        with pytest.raises(TypeError, match="to be a number of Python's, or a float64 or int64"):
            call()
    for grid in (number("float16", 11.5), number("float32", 89.0)):  # an overflow turned 1 into 0
        assert pld.hockey_stick(grid, 0.05, 1.0, "REMOVE") > 0.99
    for side, rate in (("REMOVE", 1.0), ("REMOVE", 0.5), ("ADD", 1.0)):  # exp(800) overflows; the loss is about 5000
        assert pld.hockey_stick(np.array([800.0]), 0.01, rate, side) >= 0.99 * rate
    # Slightly below the point where exp(epsilon) overflows, exp(epsilon) / rate already does.
    edge = pld.hockey_stick(np.linspace(700.0, 720.0, 401), 0.02, 0.1, "REMOVE")
    assert (np.diff(edge) <= 0).all() and edge.min() > 0.099
    # At a rate below half an ulp of 1, losses equal those without sampling: an answer above .75 means it was sampled.
    rare = [Event(0.0501, ZERO_OUT, Sampling.poisson(1e-17), 1)]
    assert account(rare, 1e-18).epsilon > 76 > account([replace(rare[0], noise_multiplier=3.0)], 1e-18).epsilon
    wide = Sampling.fixed_size(number("int64", 10), number("int64", 1000))
    event = Event(np.float64(3.0), Relation.REPLACE_ONE, wide, number("int64", 9))
    kept = (event.noise_multiplier, event.count, event.sampling.rate, event.sampling.num_examples)
    assert [type(number) for number in kept] == [float, int, float, int], "what is wide enough is Python's from here"


# ---------------------------------------------------------------- tiny deltas, and the best of all accountants
def delta_of_responses(levels: int, epsilon_of_one: float, epsilon: float) -> float:
    """Return the least delta of `levels` randomised responses of one bit together, as a sum over the binomial."""
    right = np.arange(levels + 1)
    ways = special.gammaln(levels + 1) - special.gammaln(right + 1) - special.gammaln(levels - right + 1)
    truth = -math.log1p(math.exp(-epsilon_of_one))
    on, off = (ways + levels * truth - wrong * epsilon_of_one for wrong in (levels - right, right))
    more = on > epsilon + off
    return math.fsum(np.exp(on[more]) * -np.expm1(epsilon + off[more] - on[more]))


DELTAS = [10.0**-k for k in range(5, 15)]
RESPONSES = [(100, 1.0), (1000, 0.1), (10**4, 1 / 30), (10**5, 0.1), (10**5, 1e-3)]


@pytest.mark.parametrize(("count", "each"), RESPONSES)
@pytest.mark.parametrize("split", [False, True], ids=["equal", "unequal"])
@pytest.mark.slow
def test_a_tiny_delta_is_not_lost_in_the_rounding_of_a_convolution(count: int, each: float, split: bool):
    events = [Event(1 / each, ZERO_OUT, count=count, noise="pure")]
    if split:  # levels that differ in their last digits are composed in pairs
        count = min(count, 300)
        events = [Event((1 - 1e-12 * i) / each, ZERO_OUT, noise="pure") for i in range(count)]
    for delta in DELTAS:
        claimed = account(events, delta, "PLD").epsilon
        if math.isfinite(claimed):
            assert delta_of_responses(count, each, claimed) <= delta
        assert delta_of_responses(count, each, account(events, delta).epsilon) <= delta * (1 + 1e-9)
        if delta >= 1e-8:
            assert delta_of_responses(count, each, claimed) > 0.9 * delta, "and it is near the least"


def test_control_without_counting_the_rounding_a_claim_would_be_false(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pld, "_ROUNDING", 0.0)
    count, each = 10**5, 0.1
    events = (Event(1 / each, ZERO_OUT, count=count, noise="pure"),)
    uncounted = pld._composed.__wrapped__(events)[0].get_epsilon_for_delta(1e-14)
    assert delta_of_responses(count, each, uncounted) > 50e-14


def kinds_of_events(z: float, count: int) -> dict[str, list[Event]]:
    laplace, pure, zcdp = (Event(z, ADD_OR_REMOVE, count=count, noise=noise) for noise in ("laplace", "pure", "zcdp"))
    first = Event(z, ZERO_OUT, FRESH)
    return {
        "rare": poisson(z, 0.01, count),
        "frequent": poisson(z, 0.5, count),
        "whole": [Event(z, ADD_OR_REMOVE, count=count)],
        "laplace": [laplace],
        "pure": [pure],
        "zcdp": [zcdp],
        "zcdp and pure": [zcdp, pure],
        "gaussian and laplace": [Event(z, ADD_OR_REMOVE, count=count), replace(laplace, noise_multiplier=2 * z)],
        "laplace and random": [laplace, *poisson(2 * z, 0.1, count)],
        "fresh": [first, replace(first, noise="laplace"), Event(z, ZERO_OUT, count=count, noise="pure")],
    }


@pytest.mark.parametrize("kind", kinds_of_events(1.0, 1))
@pytest.mark.parametrize("count", [1, 100, 10**5])
@pytest.mark.slow
def test_no_accountant_that_knows_the_events_finds_less(kind: str, count: int):
    for z in (0.3, 1.0, 10.0, 1e3):
        events = kinds_of_events(z, count)[kind]
        for delta in (1e-1, 1e-5, 1e-8, 1e-10, 1e-12, 1e-15, 1e-30):
            claim = account(events, delta)
            assert math.isfinite(claim.epsilon)
            for method in ACCOUNTANTS:
                try:
                    other = account(events, delta, method)
                except (CombinationError, pld.LimitError):
                    continue
                assert claim.epsilon <= other.epsilon * (1 + 1e-9) + 1e-9, (z, delta, method)
                assert claim.accountant != other.accountant or claim.epsilon == other.epsilon


@pytest.mark.slow
def test_where_a_distribution_has_no_epsilon_renyi_divergences_answer():
    sampled = poisson(1.0, 0.01, 1000)
    assert account(sampled, 1e-15, "PLD").epsilon == math.inf
    assert account(sampled, 1e-15) == account(sampled, 1e-15, "RDP")
    assert account(sampled, 1e-5) == account(sampled, 1e-5, "PLD"), "control: not elsewhere"
    needed = noise_multiplier(lambda z: poisson(z, 0.01, 1000), 1.0, 1e-15)
    assert account(poisson(needed, 0.01, 1000), 1e-15).epsilon <= 1.0


@pytest.mark.parametrize("multiplier", [0.2, 0.5, 2.0, 20.0])
def test_orders_are_so_dense_that_renyi_divergences_lose_little_to_the_best_one(multiplier: float):
    event = Event(multiplier, Relation.ZERO_OUT, WHOLE, 3)
    best = rho_to_epsilon(3 * 0.5 / multiplier**2, 1e-5, "tight")
    assert best * (1 - 1e-9) <= accounting._renyi_epsilon((event,), 1e-5) <= 1.04 * best


def test_renyi_divergences_are_asked_only_where_they_may_matter(monkeypatch: pytest.MonkeyPatch):
    asked = []
    monkeypatch.setattr(accounting, "_renyi_epsilon", lambda events, delta: asked.append(delta) or 99.0)
    for delta in (1e-3, 1e-5, 1e-9):
        account(poisson(1.1, 0.01, 1000), delta)
    assert not asked
    account(poisson(1.1, 0.01, 1000), 1e-12)
    assert asked == [1e-12], "control"


def test_mechanisms_of_a_pure_epsilon_cost_at_most_its_sum():
    for noise in ("laplace", "pure"):
        for count in (1, 100):
            for delta in (1e-5, 1e-15, 1e-30):
                events = [Event(2.0, ZERO_OUT, count=count, noise=noise)]  # type: ignore[arg-type]
                assert account(events, delta, "RDP").epsilon <= count / 2
    both = [Event(2.0, ZERO_OUT, noise="pure"), Event(2.0, ZERO_OUT)]
    assert account(both, 1e-30, "RDP").epsilon > 0.5, "control: not with Gaussian noise among them"


TOO_LARGE = [
    [Event(0.051, ADD_OR_REMOVE, Sampling.poisson(0.5), 10**6)],
    [
        Event(0.051, ADD_OR_REMOVE, Sampling.poisson(0.5), 1000),
        Event(50.0, ADD_OR_REMOVE, Sampling.poisson(1e-3), 10**9),
    ],
    [Event(1e-6, ADD_OR_REMOVE, Sampling.poisson(0.5), 10**9)],
    [Event(1e-6, ADD_OR_REMOVE, count=10**9, noise="laplace")],
    [Event(1e-6, ADD_OR_REMOVE, noise="pure")],
]


@pytest.mark.parametrize("events", TOO_LARGE)
def test_what_no_distribution_holds_is_bounded_by_renyi_divergences(events):
    claim = account(events, 1e-5)
    assert claim.accountant in ("Renyi divergences", "exact Gaussian") and math.isfinite(claim.epsilon)
    assert claim.epsilon <= account(events, 1e-5, "RDP").epsilon
    with pytest.raises(pld.LimitError):
        account(events, 1e-5, "PLD")
    if all(event.noise != "gaussian" for event in events):  # and never more than the sum of the epsilons
        assert claim.epsilon <= sum(e.count / e.noise_multiplier for e in events) * (1 + 1e-6)
    less = [replace(event, count=1, noise_multiplier=1.0) for event in events]
    assert account(less, 1e-5).accountant == "privacy loss distributions", "control"


@pytest.mark.parametrize(
    ("level", "rate", "count"),
    [
        (1e5, 0.01, 10**9),
        (1e7, 0.01, 10**9),
        (1e8, 0.5, 10**9),
        (1e8, 0.01, 10**6),
        (1e10, 0.5, 10**6),
        (1e12, 0.5, 1000),
    ],
)
@pytest.mark.parametrize("scheme", ["poisson", "fixed-size"])
def test_rounding_is_not_privacy(level, rate, count, scheme):
    # With this much noise the composition is Gaussian with mu = rate sqrt(count) / level, whatever the rounding.
    mu = rate * math.sqrt(count) / level
    sampling, relation = Sampling.poisson(rate), ADD_OR_REMOVE
    if scheme == "fixed-size":
        sampling, relation = Sampling.fixed_size(round(1000 * rate), 1000), Relation.REPLACE_ONE
    for delta in (0.02 * mu, 4e-4 * mu):  # less than the total variation, 0.4 mu
        exact = rho_to_epsilon(mu * mu / 2, delta, "exact")
        claimed = account([Event(level, relation, sampling, count)], delta).epsilon
        assert exact * (1 - 1e-3) <= claimed < math.inf
        assert exact > 0  # so that a claim of 0 would be detected


@pytest.mark.parametrize("delta", [1e-16, 1e-30, 1e-100])
def test_the_conversions_of_a_tiny_cost_are_not_rounded_to_nothing(delta):
    rho = 1e-30  # two answers differ with probability 5.6e-16
    for conversion in ("classic", "tight", "exact"):
        claimed = rho_to_epsilon(rho, delta, conversion)
        assert exact_delta(claimed, math.sqrt(2 * rho)) <= delta < exact_delta(0.0, math.sqrt(2 * rho))
    assert exact_delta(1e-30, 1 / gaussian_std(1e-30, delta)) <= delta


@pytest.mark.parametrize("delta", [1e-5, 1e-20, 1e-100, 1e-300])
def test_what_little_costs_is_not_rounded_to_less(delta, monkeypatch):
    def off(pad, rhos=(2e-18, 1e-15, 1e-12, 1e-9, 1e-6, 1e-4)):
        """Return the largest share of delta by which claims at small costs are too small."""
        monkeypatch.setattr(accounting, "_LITTLE_RHO", pad)
        accounting._gaussian_epsilon.cache_clear()
        return max(exact_delta(rho_to_epsilon(rho, delta), math.sqrt(2 * rho)) / delta - 1 for rho in rhos)

    bare, padded = off(0.0), off(1e-9)
    assert padded <= 1e-6, "control: without room for rounding a claim at 1e-300 is false"
    assert bare > 1e-3 or delta > 1e-300
    for epsilon in (1e-8, 1e-6, 1e-4):
        std = gaussian_std(epsilon, delta)
        assert exact_delta(epsilon, 1 / std) <= delta and rho_to_epsilon(0.5 / std**2, delta) <= epsilon


@pytest.mark.slow
def test_accounting_never_takes_a_gigabyte():
    # Near the largest composition that fits into memory; tracemalloc sees numpy's arrays.
    def peak(count: int) -> float:
        tracemalloc.start()
        pld._composed.__wrapped__(tuple(poisson(1.0, 0.01, count)))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found / 2**20

    assert 10 * peak(10**4) < peak(10**8) < 1024, "control: what is measured grows with the composition"
    with pytest.raises(pld.LimitError):
        peak(10**9)


# ---------------------------------------------------------------- relations
def test_a_multiplier_is_over_the_sensitivity_of_its_own_relation():
    # One release of a clipped mean with noise s: replacing an example moves the mean twice as far as zeroing it out.
    clip, n, std = 1.0, 100, 0.05
    epsilons = {}
    for relation in (ZERO_OUT, REPLACE_ONE):
        sensitivity = clipped_sensitivity(clip, n, relation)
        event = Event(std / sensitivity, relation)
        epsilons[relation] = account([event], 1e-5).epsilon
        assert account([event], 1e-5, "PLD").epsilon == pytest.approx(epsilons[relation], rel=1e-3)
        assert float(exact_delta(epsilons[relation], sensitivity / std)) == pytest.approx(1e-5, rel=1e-6)
    assert epsilons[REPLACE_ONE] > 1.9 * epsilons[ZERO_OUT]
    # A trap: the library's PLD accountant takes a multiplier under REPLACE_ONE to be relative to half of the
    # sensitivity, its Renyi accountant relative to all of it. With our multiplier, the first would claim twice too
    # much.
    event = Event(std / clipped_sensitivity(clip, n, REPLACE_ONE), REPLACE_ONE)
    theirs = library_pld.PLDAccountant(NeighboringRelation.REPLACE_ONE)
    theirs.compose(to_dp_event([event]))
    assert theirs.get_epsilon(1e-5) > 1.9 * account([event], 1e-5).epsilon


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(
    "sampling", [WHOLE, FRESH, Sampling.poisson(0.1), Sampling.fixed_size(5, 50)], ids=lambda s: s.scheme
)
def test_what_goes_together(relation, sampling, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(accounting, "_ORDERS", (2, 4, 8, 16, 32))  # each order gives a bound; 100 of them take seconds
    monkeypatch.setattr(accounting, "_renyi_epsilon", accounting._renyi_epsilon.__wrapped__)  # without the cache
    if (sampling.scheme, relation) in ALLOWED:
        assert check_combination(sampling, relation) == ALLOWED[sampling.scheme, relation]
        claim = account([Event(2.0, relation, sampling, 3)], 1e-5)
        assert (
            claim.relation == relation
            and 0 < claim.epsilon <= account([Event(2.0, relation, WHOLE, 3)], 1e-5, "RDP").epsilon
        )
        assert clipped_sensitivity(3.0, 50, relation, sampling) == (0.12 if relation == REPLACE_ONE else 0.06)
    else:
        for refused in (
            lambda: Event(2.0, relation, sampling),
            lambda: clipped_sensitivity(3.0, 50, relation, sampling),
            lambda: Price(torch.ones(1), torch.ones(1, dtype=torch.bool), relation, sampling),
        ):
            with pytest.raises(
                CombinationError, match=f"Expected sampling={sampling.scheme} with relation .*; {relation} goes"
            ):
                refused()


def test_relations_are_never_mixed():
    with pytest.raises(CombinationError, match="Expected events of one relation, got zero-out-one and replace-one"):
        account([Event(1.0, ZERO_OUT), Event(1.0, REPLACE_ONE)], 1e-5)
    with pytest.raises(CombinationError, match="Expected events of one relation"):
        merged([Event(1.0, ZERO_OUT), Event(1.0, REPLACE_ONE)])


def test_a_method_that_does_not_know_an_event_says_who_does():
    sampled = poisson(1.0, 0.1, 1)
    for method in ("exact", "classic", "tight"):
        with pytest.raises(
            CombinationError, match=f"Expected accountant='{method}' without poisson: that goes with PLD or RDP"
        ):
            account(sampled, 1e-5, method)  # type: ignore[arg-type]
    fixed = [Event(1.0, REPLACE_ONE, Sampling.fixed_size(1, 10))]
    with pytest.raises(CombinationError, match="='exact' without fixed-size: that goes with PLD or RDP"):
        account(fixed, 1e-5, "exact")
    with pytest.raises(CombinationError, match="without laplace: that goes with PLD or RDP or classic or tight"):
        account([Event(1.0, ZERO_OUT, noise="laplace")], 1e-5, "exact")
    with pytest.raises(CombinationError, match="Expected noise='gaussian' with sampling=poisson, got 'laplace'"):
        Event(1.0, ZERO_OUT, Sampling.poisson(0.1), noise="laplace")


def ledger(*prices: tuple[float, Sampling]) -> Ledger:
    on = torch.ones(1, dtype=torch.bool)
    return Ledger([Price(torch.tensor([z], dtype=torch.float64), on, ADD_OR_REMOVE, s) for z, s in prices])


def test_an_oracle_that_samples_is_not_accounted_as_full_batch():
    batch = Sampling.poisson(0.01)
    sampled = ledger((1.0, batch), (1.0, batch))
    with pytest.raises(ValueError, match="Expected sampling=poisson to be whole or fresh: zCDP has no other"):
        sampled.rho()
    assert account(events_of(sampled, 0), 1e-5).accountant == "privacy loss distributions"
    assert (
        account(events_of(sampled, 0), 1e-5).epsilon < 0.3 * account([Event(1.0, ADD_OR_REMOVE, count=2)], 1e-5).epsilon
    )
    assert float(ledger((1.0, WHOLE), (1.0, WHOLE)).rho()) == 1.0
    assert to_dp_event(events_of(sampled, 0)) == dp_accounting.SelfComposedDpEvent(
        dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0)), 2
    )
    with pytest.raises(ValueError, match="Expected noise_multiplier=0.0 > 0"):
        events_of(ledger((0.0, WHOLE)), 0)
    assert events_of(ledger((math.inf, WHOLE)), 0) == [], "what moves nothing releases nothing"


# ---------------------------------------------------------------- calibration
@settings(max_examples=15)
@given(st.floats(1e-3, 50), st.floats(-12, -1), st.floats(1e-6, 1e6))
@pytest.mark.slow
def test_the_gaussian_scale_is_on_the_private_side(epsilon, exponent, sensitivity):
    delta = 10**exponent
    std = gaussian_std(epsilon, delta, sensitivity)
    assert float(exact_delta(epsilon, sensitivity / std)) <= delta
    assert float(exact_delta(epsilon, sensitivity / (std * (1 - 1e-9)))) > delta, "and no less noise is enough"


def test_scales_of_the_literature():
    assert gaussian_std(1.0, 1e-6) == pytest.approx(4.224679, abs=1e-6)
    assert round(tree_std(1.0, 1e-6, 1.0, 1024), 2) == 14.01
    assert round(tree_std(1.0, 1e-6, 1.0, 16), 2) == 9.45
    assert tree_std(1.0, 1e-6, 1.0, 1) == pytest.approx(gaussian_std(1.0, 1e-6))
    assert tree_std(1.0, 1e-6, 1.0, 1024, optimal=True) < tree_std(1.0, 1e-6, 1.0, 1024)
    # The printed 4 s sqrt(log2 T log(1 / delta)) / epsilon is 2.5 to 3.4 times as large, and 0 at T = 1.
    assert round(4 * math.sqrt(4 * math.log(1e6)), 2) == 29.74


@pytest.mark.slow
@pytest.mark.parametrize("sampling", [WHOLE, Sampling.poisson(0.02)], ids=lambda s: s.scheme)
def test_the_multiplier_for_events_is_on_the_private_side(sampling):
    def events(multiplier: float) -> list[Event]:
        return [Event(multiplier, ZERO_OUT, sampling, 100)]

    needed = noise_multiplier(events, 2.0, 1e-5)
    assert account(events(needed), 1e-5).epsilon <= 2.0 < account(events(needed * (1 - 1e-4)), 1e-5).epsilon


# ---------------------------------------------------------------- guarantees
def test_a_guarantee_names_what_it_rests_on_and_what_it_leaves_out():
    claim = account(
        [Event(1.0, ZERO_OUT)],
        1e-5,
        assumptions=(
            Assumption("clipping bounds every gradient", "enforced"),
            Assumption("the sensitivity is that of Lemma 1", "proved"),
            bound_was_checked(2.5, exceeded=0, checked=100),
            SEED_IS_PUBLIC,
        ),
        not_covered=(BATCH_NORM, TUNED_ON_PRIVATE_DATA, STATISTICS_WITHOUT_NOISE),
    )
    said = str(claim)
    for words in (
        "proved: the sensitivity is that of Lemma 1",
        "enforced: clipping bounds every gradient",
        "checked: every gradient norm is at most 2.5 (exceeded by 0 of 100)",
        "seed secret: no (reproducible demonstration)",
        "epsilon is the mechanism's, not the file's",
        "NOT covered: statistics of batch normalisation",
        "parameters tuned on the private data",
        "released without noise",
    ):
        assert words in said
    assert claim.holds and "NOT covered" not in str(replace(claim, not_covered=()))


def test_a_bound_that_was_exceeded_claims_nothing():
    broken = bound_was_checked(2.5, exceeded=1, checked=10**6)
    claim = account([Event(1.0, ZERO_OUT)], 1e-5, assumptions=(broken,))
    assert not claim.holds and "-DP" not in str(claim)
    assert str(claim) == (
        "no guarantee, since this did not hold: every gradient norm is at most 2.5 (exceeded by 1 of 1000000)"
    )
    assert isinstance(claim, Guarantee)
    with pytest.raises(ValueError, match="Expected exceeded=3 <= checked=2"):
        bound_was_checked(1.0, exceeded=3, checked=2)


# ---------------------------------------------------------------- speed
def test_the_closed_form_needs_no_accountant_and_what_one_said_is_remembered(monkeypatch: pytest.MonkeyPatch):
    calls = []
    monkeypatch.setattr(accounting, "_alternatives", lambda events: calls.append(events) or [tuple(events)])
    levels = np.linspace(20, 60, 1000)
    account([Event(float(z), ZERO_OUT) for z in levels], 1e-5)
    assert not calls
    account([Event(2.0, ZERO_OUT, Sampling.poisson(0.01))], 1e-5)
    assert calls, "control: a random batch needs one"
    monkeypatch.undo()
    sampled = [Event(float(z) / 10, ZERO_OUT, Sampling.poisson(0.01)) for z in levels[::20]]
    first, misses = account(sampled, 1e-5), pld._epsilon.cache_info().misses
    assert account(sampled, 1e-5) == first and pld._epsilon.cache_info().misses == misses


# ---------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Event(0.0, ZERO_OUT), "Expected noise_multiplier=0.0 > 0"),
        (lambda: Event(-1.0, ZERO_OUT), "Expected noise_multiplier=-1.0 > 0"),
        (lambda: Event(math.nan, ZERO_OUT), "Expected noise_multiplier=nan to be finite"),
        (lambda: Event(math.inf, ZERO_OUT), "Expected noise_multiplier=inf to be finite"),
        (lambda: Event(1e-200, ZERO_OUT), "Expected 1e-06 <= noise_multiplier=1e-200 <= 1e[+]12"),
        (lambda: Event(1e-160, ZERO_OUT), "Expected 1e-06 <= noise_multiplier=1e-160 <= 1e[+]12"),
        (lambda: Event(1e200, ZERO_OUT), "Expected 1e-06 <= noise_multiplier=1e[+]200 <= 1e[+]12"),
        (lambda: Event(1.0, ZERO_OUT, count=10**10), "Expected count=10000000000 <= 1e[+]09"),
        (lambda: Event(1.0, ZERO_OUT, count=0), "Expected count=0 >= 1"),
        (lambda: Event(1.0, ZERO_OUT, noise="uniform"), "Expected noise='uniform' to be one of"),  # type: ignore[arg-type]
        (lambda: Sampling.poisson(0.0), "Expected rate=0.0 > 0"),
        (lambda: Sampling.poisson(1.5), "Expected 0 < rate=1.5 <= 1"),
        (lambda: Sampling("poisson", math.nan), "Expected rate=nan to be finite"),
        (lambda: Sampling("poisson", 0.1, 10), "Expected num_examples=10 to be 1 with scheme='poisson'"),
        (lambda: Sampling("whole", 0.5), "Expected rate=0.5 to be 1 with scheme='whole'"),
        (lambda: Sampling("fresh", 0.5), "Expected rate=0.5 to be 1 with scheme='fresh'"),
        (lambda: Sampling("fixed-size", 0.0, 10), "Expected rate=0.0 > 0"),
        (lambda: Sampling("fixed-size", 1e-9, 10), "Expected rate=1e-09 of num_examples=10 to be a whole number"),
        (lambda: Sampling("fixed-size", 0.25, 10), "Expected rate=0.25 of num_examples=10 to be a whole number"),
        (lambda: Sampling("fixed-size", 0.5, 0), "Expected num_examples=0 >= 1"),
        (lambda: Sampling("shuffled"), "Expected scheme='shuffled' to be one of: whole, fresh, poisson, fixed-size"),  # type: ignore[arg-type]
        (lambda: Sampling.fixed_size(0, 10), "Expected batch_size=0 >= 1"),
        (lambda: Sampling.fixed_size(11, 10), "Expected num_examples=10 >= 11"),
        (lambda: account([], 1e-5), "Expected at least one event"),
        (lambda: account([Event(1.0, ZERO_OUT)], 0.0), "Expected 0 < delta=0.0 < 1"),
        (lambda: account([Event(1.0, ZERO_OUT)], 1e-5, "best"), "Expected accountant='best' to be one of"),  # type: ignore[arg-type]
        (lambda: account(poisson(1e-3, 0.1, 1), 1e-5, "PLD"), "Expected noise_multiplier=0.001 >= 0.05"),
        (lambda: account([Event(1e-3, ZERO_OUT)], 1e-5, "PLD"), "Expected noise_multiplier=0.001 >= 0.05"),
        (
            lambda: account([Event(1e-3, ZERO_OUT, noise="pure")], 1e-5, "PLD"),
            "Expected noise_multiplier=0.001 >= 0.05",
        ),
        (lambda: account(poisson(0.051, 0.5, 10**6), 1e-5, "PLD"), r"Expected a distribution of \d+ <= 4194304 points"),
        (lambda: clipped_sensitivity(0.0, 10, ZERO_OUT), "Expected clip=0.0 > 0"),
        (lambda: clipped_sensitivity(1.0, 0, ZERO_OUT), "Expected divisor=0 > 0"),
        (lambda: gaussian_std(0.0, 1e-5), "Expected epsilon=0.0 > 0"),
        (lambda: gaussian_std(1.0, 1e-5, -1.0), "Expected l2_sensitivity=-1.0 > 0"),
        (lambda: gaussian_std(1.0, 1e-5, math.inf), "Expected l2_sensitivity=inf to be finite"),
        (lambda: tree_std(1.0, 1e-5, 1.0, 0), "Expected max_leaves=0 >= 1"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_few_quiet_laplace_releases_cost_less_in_divergence_than_their_epsilons():
    event = Event(20.0, ZERO_OUT, count=50, noise="laplace")
    assert account([event], 1e-5, "RDP").epsilon < 50 / 20, "an order's divergence, not its bound, is what is added up"


def test_one_negative_multiplier_among_many_is_refused():
    with pytest.raises(ValueError, match=r"Expected noise_multiplier=-1.0 >= 0"):
        gaussian_delta(1.0, np.array([2.0, -1.0]))


def test_a_sampled_release_is_composed_in_both_directions():
    sampled, whole = (Event(1.0, ZERO_OUT, sampling, 10) for sampling in (Sampling.poisson(0.1), WHOLE))
    (both, _), (one, _) = (pld._composed((event,)) for event in (sampled, whole))
    assert not both._symmetric and one._symmetric


@pytest.mark.parametrize(
    ("epsilon", "delta", "written"),
    [
        (4.377178, 1e-5, "(4.378, 1e-05)-DP"),
        (4.377, 1.23456701e-5, "(4.377, 1.23457e-05)-DP"),
        (2.0, 0.0, "(2, 0)-DP"),
        (123456.0, 0.25, "(1.235e+05, 0.25)-DP"),
        (1.00001e-7, 1e-300, "(1.001e-07, 1e-300)-DP"),
        (math.inf, 1e-5, "(inf, 1e-05)-DP"),
    ],
)
def test_a_claim_is_written_with_no_less_than_what_it_claims(epsilon, delta, written):
    assert str(Guarantee(epsilon, delta, ZERO_OUT, "exact Gaussian")).startswith(written)
