"""Accounting: numbers that round or wrap, tiny deltas, relations, calibration, guarantees and invalid input."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import dp_accounting
import numpy as np
import pytest
import torch
from dp_accounting import pld as library_pld
from dp_accounting.privacy_accountant import NeighboringRelation
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from dpnotes.core import FRESH, WHOLE, Ledger, Price, Sampling
from dpnotes.guarantees import ALLOWED, CombinationError, Guarantee, Relation, bound_was_checked, check_combination
from dpnotes.privacy import accounting, pld
from dpnotes.privacy.accounting import ACCOUNTANTS, account, epsilon_to_rho, rho_to_epsilon
from dpnotes.privacy.calibration import gaussian_std, noise_multiplier
from dpnotes.privacy.events import Event, clipped_sensitivity, events_of, merged, to_dp_event
from tests.privacy.test_accounting import ADD_OR_REMOVE, REPLACE_ONE, ZERO_OUT, exact_delta, poisson


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
RESPONSES = [(100, 1.0), (10**4, 1 / 30), (10**5, 0.1)]


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
@pytest.mark.parametrize("count", [1, 10**5])
@pytest.mark.slow
def test_no_accountant_that_knows_the_events_finds_less(kind: str, count: int):
    for z in (0.3, 1.0, 10.0, 1e3):
        events = kinds_of_events(z, count)[kind]
        for delta in (1e-1, 1e-5, 1e-10, 1e-15):
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


@pytest.mark.parametrize("delta", [1e-5, 1e-100, 1e-300])
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


# ---------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Event(1e-200, ZERO_OUT), "Expected 1e-06 <= noise_multiplier=1e-200 <= 1e[+]12"),
        (lambda: Event(1.0, ZERO_OUT, count=10**10), "Expected count=10000000000 <= 1e[+]09"),
        (lambda: Sampling("fixed-size", 0.25, 10), "Expected rate=0.25 of num_examples=10 to be a whole number"),
        (lambda: account([], 1e-5), "Expected at least one event"),
        (lambda: bound_was_checked(1.0, exceeded=3, checked=2), "Expected exceeded=3 <= checked=2"),
        (lambda: account(poisson(0.051, 0.5, 10**6), 1e-5, "PLD"), r"Expected a distribution of \d+ <= 4194304 points"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_few_quiet_laplace_releases_cost_less_in_divergence_than_their_epsilons():
    event = Event(20.0, ZERO_OUT, count=50, noise="laplace")
    assert account([event], 1e-5, "RDP").epsilon < 50 / 20, "an order's divergence, not its bound, is what is added up"


def test_a_sampled_release_is_composed_in_both_directions():
    sampled, whole = (Event(1.0, ZERO_OUT, sampling, 10) for sampling in (Sampling.poisson(0.1), WHOLE))
    (both, *_), (one, *_) = (pld._composed((event,)) for event in (sampled, whole))
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
