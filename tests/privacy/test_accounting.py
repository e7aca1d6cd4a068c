"""Accountants against published values, exact values and one another; parallel composition; many releases."""

import math
from dataclasses import replace

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting import pld as library_pld
from dp_accounting import rdp as library_rdp
from dp_accounting.privacy_accountant import NeighboringRelation

from dpnotes.core import FRESH, WHOLE, Sampling
from dpnotes.guarantees import CombinationError, Relation
from dpnotes.privacy import accounting, pld
from dpnotes.privacy.accounting import _ORDERS, ACCOUNTANTS, _divergence, _renyi, account, rho_to_epsilon
from dpnotes.privacy.events import Event, to_dp_event

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


@pytest.mark.parametrize("levels", schedules_at_random(5), ids=range(5))
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
@pytest.mark.parametrize("levels", schedules_at_random(2), ids=range(2))
def test_heterogeneous_schedules_level_by_level(levels):
    # By the library's own composition, without merging to one Gaussian first.
    delta, events = 1e-6, [Event(level, ZERO_OUT) for level in levels]
    exact = account(events, delta).epsilon
    accountant = library_pld.PLDAccountant(NeighboringRelation.REPLACE_SPECIAL)
    accountant.compose(to_dp_event(events))
    assert exact * (1 - 1e-9) <= accountant.get_epsilon(delta) <= exact * (1 + 1e-3)


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
@pytest.mark.parametrize(("multiplier", "size", "steps"), [(1.0, 10, 1000), (2.0, 50, 500)])
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
@pytest.mark.parametrize("multiplier", [0.05, 1e6])
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
    composed, *_ = pld._composed(tuple(levels))
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
