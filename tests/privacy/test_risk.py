"""Risk in words against closed forms, riskcal and exact binomials: never below the truth, and within 1e-4 of it."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as library
from numpy.typing import NDArray
from scipy import stats

from dpnotes.core import FRESH, Sampling
from dpnotes.guarantees import (
    Assumption,
    CombinationError,
    Guarantee,
    Relation,
    as_json,
    bound_was_checked,
    from_json,
    together,
)
from dpnotes.papers.accountant import RISK
from dpnotes.privacy import pld, risk
from dpnotes.privacy.accounting import account
from dpnotes.privacy.events import Event
from dpnotes.privacy.risk import Risk

ZERO_OUT, REPLACE_ONE, ADD_OR_REMOVE = Relation.ZERO_OUT, Relation.REPLACE_ONE, Relation.ADD_OR_REMOVE
SHARES = np.concatenate([np.geomspace(1e-6, 0.01, 30), np.linspace(0.01, 1, 100)])


def risk_of(*events: Event) -> Risk:
    return risk.of(account(events, 1e-5))


def bare(epsilon: float, delta: float, relation: Relation = ZERO_OUT) -> Risk:
    return risk.of(Guarantee(epsilon, delta, relation, "given"))


def is_tight(found: Risk, missed: NDArray, right: float, shares: NDArray = SHARES) -> bool:
    """Return whether all bounds are valid, up to the rounding of the comparison, and within 1e-4 of the truth."""
    gaps = np.append(missed - found.missed(shares), found.right - right)
    return bool(gaps.min() >= -1e-12 and gaps.max() <= 1e-4)


# ---------------------------------------------------------------- closed forms
def gaussian_misses(mu: float) -> NDArray:
    return stats.norm.cdf(-stats.norm.ppf(SHARES) - mu)


@pytest.mark.parametrize("mu", [1e-6, 0.01, 0.5, 1.0, 3.0, 8.0, 30.0])
def test_gaussian_noise(mu: float):
    found = risk_of(Event(10 / mu, ZERO_OUT, count=99), Event(10 / mu, ZERO_OUT, FRESH))
    assert is_tight(found, gaussian_misses(mu), float(stats.norm.cdf(mu / 2)))
    if 0.1 < mu < 10:
        assert not is_tight(found, gaussian_misses(1.01 * mu), 0.5), "control: a stronger attack would be seen"
        assert not is_tight(found, gaussian_misses(0.99 * mu), 1.0), "control: a loose bound would be seen"


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_one_laplace_mechanism(epsilon: float):
    tail = math.exp(-epsilon)
    high = np.where(SHARES > 0.5, tail * (1 - SHARES), tail / (4 * SHARES))
    missed = np.where(SHARES < tail / 2, 1 - SHARES / tail, high)
    found = risk_of(Event(1 / epsilon, ZERO_OUT, noise="laplace"))
    assert is_tight(found, missed, 1 - math.exp(-epsilon / 2) / 2)
    assert not is_tight(bare(epsilon, 0.0), missed, 1 - math.exp(-epsilon / 2) / 2), "control"


def responses(count: int, epsilon: float) -> tuple[NDArray, float]:
    """The misses of the best test of `count` randomised responses, and how often its guess at even odds is right."""
    truth = 1 / (1 + math.exp(-epsilon))
    hits = np.arange(count, -1, -1)
    alarms, found = (np.cumsum(stats.binom.pmf(hits, count, p)) for p in (1 - truth, truth))
    curve = np.interp(SHARES, np.append(0.0, alarms), np.append(1.0, 1 - found))
    return np.maximum(curve, 0.0), 0.5 + 0.5 * float((found - alarms).max())


@pytest.mark.parametrize(("count", "epsilon"), [(1, 0.5), (1, 3.0), (3, 1.0), (40, 0.1)])
def test_randomised_responses_which_are_the_worst_pure_mechanisms(count: int, epsilon: float):
    found = risk_of(Event(1 / epsilon, ZERO_OUT, count=count, noise="pure"))
    assert is_tight(found, *responses(count, epsilon))
    assert not is_tight(found, *responses(count, 1.05 * epsilon)), "control"


@pytest.mark.parametrize(("noise", "rate"), [(1.0, 0.01), (0.7, 0.2), (2.0, 0.5)])
def test_one_release_on_a_poisson_batch(noise: float, rate: float):
    # With the example the density is a mixture; false alarms and misses of a threshold, and with changed places.
    thresholds = np.linspace(-12, 14, 200_001)
    alarms = stats.norm.sf(thresholds / noise)
    misses = (1 - rate) * stats.norm.cdf(thresholds / noise) + rate * stats.norm.cdf((thresholds - 1) / noise)
    found = risk_of(Event(noise, ADD_OR_REMOVE, Sampling.poisson(rate)))
    right = 0.5 + 0.5 * rate * (2 * stats.norm.cdf(0.5 / noise) - 1)
    assert (found.missed(alarms[::2000]) <= misses[::2000] + 1e-12).all()
    assert (found.missed(misses[::2000]) <= alarms[::2000] + 1e-12).all()
    assert right <= found.right <= right + 1e-4
    steep = thresholds > 0.5  # the likelihood ratio is above 1: there it is the lower one of the two curves
    assert (found.missed(alarms[steep][::500]) >= misses[steep][::500] - 1e-4).all()


# ---------------------------------------------------------------- the pair alone
def test_the_pair_alone():
    found = bare(2.0, 1e-5)
    assert found.right == pytest.approx((math.exp(2) + 1e-5) / (1 + math.exp(2)), abs=1e-11)
    assert found.percentage == "88.1%" and "alone" in found.sentence()
    assert bare(0.0, 0.0).percentage == "50.1%", "rounded up, whatever the rounding error"
    assert bare(math.log(1.5) - 1e-9, 0.0).percentage == "60.0%"
    assert bare(math.log(1.5) + 1e-9, 0.0).percentage == "60.1%", "control"
    assert bare(math.inf, 1e-5).right == bare(1.0, 1.0).right == bare(1.0, 3.0).right == bare(800.0, 0.0).right == 1.0
    assert (bare(math.inf, 1e-5).missed(SHARES) == 0).all()


def test_releases_say_more_than_their_pair_and_never_less():
    for event in (
        Event(1.0, REPLACE_ONE),
        Event(1.0, ADD_OR_REMOVE, Sampling.poisson(0.01), 500),
        Event(1.0, REPLACE_ONE, Sampling.fixed_size(10, 1000), 500),
        Event(20.0, ZERO_OUT, count=100, noise="laplace"),
        Event(5.0, ZERO_OUT, noise="zcdp"),
    ):
        claim = account([event], 1e-5)
        known, alone = risk.of(claim), risk.of(replace(claim))
        assert known.right < alone.right - 0.03, event
        assert (known.missed(SHARES) >= alone.missed(SHARES)).all(), event


def test_the_curve_falls_from_one_and_is_its_own_mirror_image():
    for found in (risk_of(Event(1.0, ADD_OR_REMOVE, Sampling.poisson(0.05), 100)), bare(1.0, 0.01)):
        ends = found.missed([[0.0, 1.0]])
        assert ends.shape == (1, 2) and 0.98 < ends[0, 0] <= 1 and ends[0, 1] == 0
        missed = found.missed(SHARES)
        assert (np.diff(missed) <= 0).all() and (missed <= 1 - SHARES + 1e-12).all()
        inner = (missed > 0) & (missed < 0.9)
        assert np.allclose(found.missed(missed[inner]), SHARES[inner], atol=1e-3)
        even = 1 - found.right
        assert found.missed(even) == pytest.approx(even, abs=1e-9), "the guess at even odds is on the curve"
    assert found.missed([]).shape == (0,)
    for wrong in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="Expected 0 <= false_alarms="):
            found.missed(wrong)


# ---------------------------------------------------------------- riskcal
CASES = {
    "one Gaussian": [Event(1.0, ZERO_OUT)],
    "100 steps": [Event(15.0, ZERO_OUT, count=100)],
    "Poisson": [Event(2.25, ADD_OR_REMOVE, Sampling.poisson(0.1), 100)],
    "Poisson, 1,000 steps": [Event(1.0, ADD_OR_REMOVE, Sampling.poisson(0.01), 1000)],
    "Laplace": [Event(2.0, ZERO_OUT, noise="laplace")],
    "Laplace, 20 steps": [Event(10.0, ZERO_OUT, count=20, noise="laplace")],
}


def by_riskcal(events: list[Event], shares: NDArray) -> tuple[NDArray, float]:
    """riskcal's misses and accuracy: dp_accounting's noise over sensitivity for one example more, as ours."""
    analysis = pytest.importorskip("riskcal.analysis", reason="compared with riskcal (the dev extra)")
    (event,) = events
    if event.noise == "gaussian" and event.sampling.rate == 1:
        mu = math.sqrt(event.count) / event.noise_multiplier
        return analysis.get_beta_from_gdp(mu, shares), 0.5 + 0.5 * analysis.get_advantage_from_gdp(mu)
    made = {"value_discretization_interval": 1e-4}
    if event.noise == "laplace":
        one = library.from_laplace_mechanism(event.noise_multiplier, **made)
    else:
        one = library.from_gaussian_mechanism(event.noise_multiplier, sampling_prob=event.sampling.rate, **made)
    composed = one.self_compose(event.count)
    return analysis.get_beta_from_pld(composed, alpha=shares), 0.5 + 0.5 * analysis.get_advantage_from_pld(composed)


@pytest.mark.parametrize("name", CASES)
def test_riskcal_says_the_same(name: str):
    shares = np.linspace(0.01, 0.99, 50)  # in its tails riskcal's own rounding is above 1e-4
    missed, right = by_riskcal(CASES[name], shares)
    found = risk_of(*CASES[name])
    gaps = np.append(missed - found.missed(shares), found.right - right)
    assert -1e-6 <= gaps.min() and gaps.max() <= 1e-4
    (event,) = CASES[name]
    halved = risk_of(replace(event, noise_multiplier=event.noise_multiplier / 2))  # the relation's trap
    assert abs(halved.right - right) > 0.01, "control: another convention of sensitivity would be seen"


def test_riskcal_says_the_same_of_a_pair():
    analysis = pytest.importorskip("riskcal.analysis", reason="compared with riskcal (the dev extra)")
    for epsilon, delta in ((2.0, 1e-5), (0.3, 0.0), (8.0, 0.01)):
        found = bare(epsilon, delta)
        missed = analysis.get_beta_from_adp(epsilon, delta, SHARES)
        assert np.allclose(found.missed(SHARES), missed, atol=1e-8)
        assert found.right == pytest.approx(0.5 + 0.5 * analysis.get_advantage_from_adp(epsilon, delta), abs=1e-10)


# ---------------------------------------------------------------- which releases a claim keeps
def test_a_claim_keeps_its_releases_and_a_changed_one_says_that_only_the_pair_is_left():
    claim = account([Event(2.0, ZERO_OUT)], 1e-5)
    assert claim.events == (Event(2.0, ZERO_OUT),) and risk.of(claim).limits == ""
    # Had a claim that adds the probability of a failure kept its releases, an attack on the failures would be excluded.
    fails = replace(claim, delta=0.4)
    kept = fails.with_events(claim.events)
    assert risk.of(kept).right < 0.65 < 0.5 + 0.4 / 2 < risk.of(fails).right, "control"
    for left in (fails, together([claim, claim]), from_json(as_json(claim)), replace(claim, accountant="another")):
        assert left.events == () and "alone" in risk.of(left).sentence()
        assert risk.of(left).right > risk.of(claim).right
    assert claim == replace(claim), "what is claimed is the same"
    assert "events" not in json.loads(as_json(claim)) and "events" not in repr(claim)


def test_a_claim_takes_releases_of_its_own_relation_only():
    claim = Guarantee(1.0, 1e-5, ZERO_OUT, "given")
    assert claim.with_events([Event(1.0, ZERO_OUT)]).events
    with pytest.raises(CombinationError, match="Expected events with the relation of the claim, zero-out-one"):
        claim.with_events([Event(1.0, REPLACE_ONE)])


def test_a_broken_claim_excludes_nothing():
    for assumption in (Assumption("enough", "checked", True), bound_was_checked(1.0, 2, 10)):
        claim = account([Event(2.0, ZERO_OUT)], 1e-5, assumptions=(assumption,))
        assert (risk.of(claim).right == 1) == (assumption.holds is False)
    found = risk.of(claim)
    assert "100.0%" in found.sentence() and found.sentence().endswith(
        "Nothing is guaranteed, since an assumption did not hold."
    )
    assert (found.missed(SHARES) == 0).all()


# ---------------------------------------------------------------- events without a closed form or a distribution
def test_zcdp_is_not_read_as_a_pure_mechanism():
    # Of rho = 0.5 the Gaussian is one example, and so is an epsilon of 1: both attacks stay possible.
    found, pure = (risk_of(Event(1.0, ZERO_OUT, noise=noise)) for noise in ("zcdp", "pure"))
    gaussian = risk_of(Event(1.0, ZERO_OUT))
    assert found.right > max(pure.right, gaussian.right)
    assert (found.missed(SHARES) <= np.minimum(pure.missed(SHARES), gaussian.missed(SHARES))).all()
    assert not (pure.missed(SHARES) <= gaussian.missed(SHARES)).all(), "control: the pure reading excludes the Gaussian"
    with pytest.raises(pld.LimitError, match="noise='zcdp'"):
        pld.epsilon((Event(1.0, ZERO_OUT, noise="zcdp"),), 1e-5)


def test_an_example_pays_for_one_of_the_fresh_batches():
    two = [Event(2.0, ZERO_OUT, FRESH), Event(1.0, ZERO_OUT, FRESH, noise="laplace")]
    each, both = [risk_of(event) for event in two], risk_of(*two)
    worst = np.minimum(*(one.missed(SHARES) for one in each))
    assert (both.missed(SHARES) <= worst + 1e-12).all() and both.right >= max(one.right for one in each)
    assert both.right < risk_of(*(replace(event, sampling=Sampling("whole")) for event in two)).right, "control"
    alike = risk_of(Event(2.0, ZERO_OUT, FRESH), Event(3.0, ZERO_OUT, FRESH))
    assert alike.right == each[0].right


def test_noise_outside_the_range_of_distributions_is_bounded_by_whole_batches():
    for multiplier in (0.01, 1e7):
        sampled = Event(multiplier, ADD_OR_REMOVE, Sampling.poisson(0.1), 10)
        whole = float(stats.norm.cdf(math.sqrt(10) / multiplier / 2))
        rare = 0.5 + 0.5 * 0.1 * (2 * stats.norm.cdf(0.5 / multiplier) - 1)  # one release of the ten
        assert rare <= risk_of(sampled).right <= whole + 0.01


# ---------------------------------------------------------------- the calculator
def test_the_calculator_is_the_reading_of_the_pair():
    found = RISK(epsilon=2.0, delta=1e-5)
    assert found == {"right": bare(2.0, 1e-5).right, "found": 1 - bare(2.0, 1e-5).missed(0.01)}
    assert RISK.says is not None and "at most 88.1% of the time" in RISK.says(epsilon=2.0, delta=1e-5)
    for relation, words in ((REPLACE_ONE, "two examples"), (ADD_OR_REMOVE, "you are in"), (ZERO_OUT, "is used")):
        assert words in bare(1.0, 0.0, relation).sentence()
