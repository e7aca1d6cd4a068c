"""Schedules, mechanisms and accounting, compared with dp_accounting, closed forms and controls that must fail."""

import contextlib
import math
import pickle
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotes.core import FRESH, WHOLE, Assumption, Guarantee, Ledger, Price, Relation, Request, Sampling, Sensitive
from dpnotes.guarantees import CombinationError
from dpnotes.privacy import schedules
from dpnotes.privacy.accounting import CONVERSIONS, epsilon_to_rho, event, readings, rho_to_epsilon
from dpnotes.privacy.audit import LowerBound
from dpnotes.privacy.factorisation import BandedSquareRoot
from dpnotes.privacy.mechanisms import Exact, Gaussian, Laplace
from dpnotes.privacy.noise import LossAdaptiveNoise
from dpnotes.privacy.schedules import NoiseSchedule
from dpnotes.privacy.tree import Tree
from dpnotes.random.streams import Streams
from tests.privacy.test_accounting import exact_delta

EVERY_SCHEDULE = [
    schedules.uniform(0.19635, 100),
    schedules.exponential(0.9, 0.19635, 150),
    schedules.from_influence(np.arange(1, 30), 1.0),
    schedules.step_decay(0.5, 7, 0.01, 50),
    schedules.from_shares([3, 1, 2], 2.0, "by hand"),
]


# ---------------------------------------------------------------- schedules
@pytest.mark.parametrize("schedule", EVERY_SCHEDULE, ids=lambda s: s.name)
def test_a_schedule_spends_its_budget_and_not_a_bit_more(schedule: NoiseSchedule):
    assert schedule.rho * (1 - 1e-12) <= schedule.spent <= schedule.rho
    louder = schedule.noise_multipliers * (1 - 1e-6)
    with pytest.raises(ValueError, match=f"Expected '{schedule.name}' to spend at most"):
        NoiseSchedule(louder, schedule.rho, schedule.name)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schedules.exponential(1e-30, 1.0, 100), r"Expected 0 < shares\[0\]=0.0 < inf"),
        (lambda: schedules.from_influence([1.0, -1.0], 1.0), r"Expected 0 < influence\[1\]=-1.0 < inf"),
        (lambda: NoiseSchedule(np.array([1.0, math.inf]), 1.0, "x"), r"Expected 0 < noise_multipliers\[1\]=inf < inf"),
        (lambda: NoiseSchedule(np.ones((2, 2)), 9.0, "x"), r"of shape \(num_steps,\), got \(2, 2\)"),
        (lambda: NoiseSchedule(np.ones(0), 9.0, "x"), r"Expected num_steps=0 >= 1"),
    ],
)
def test_bad_schedules_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_schedule_cannot_be_changed_after_its_check():
    schedule = schedules.uniform(1.0, 3)
    with pytest.raises(ValueError, match="read-only"):
        schedule.noise_multipliers[0] = 1e-3


# ---------------------------------------------------------------- conversions
@pytest.mark.parametrize("rho", [1e-4, 0.1963518534, 30.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-12])
def test_the_conversions_are_ordered_and_the_exact_one_is_exact(rho, delta):
    classic, tight, exact = (rho_to_epsilon(rho, delta, c) for c in CONVERSIONS)
    assert classic >= tight >= exact > 0
    assert float(exact_delta(exact, math.sqrt(2 * rho))) == pytest.approx(delta, rel=1e-6)
    # The control: an epsilon smaller by a thousandth does not have this delta.
    assert float(exact_delta(exact * 0.999, math.sqrt(2 * rho))) > delta * (1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("conversion", CONVERSIONS)
@settings(max_examples=30)
@given(epsilon=st.floats(1e-3, 50), exponent=st.floats(-12, -1))
def test_calibration_returns_the_private_side(conversion, epsilon, exponent):
    delta = 10**exponent
    rho = epsilon_to_rho(epsilon, delta, conversion)
    assert rho_to_epsilon(rho, delta, conversion) <= epsilon
    assert rho_to_epsilon(rho * (1 + 1e-6), delta, conversion) > epsilon * (1 - 1e-9)  # and no noise is wasted


def test_the_papers_budget_and_its_wrong_root():
    rho = epsilon_to_rho(4.0, 1e-8, "classic")
    assert (round(rho, 10), round(2 * rho, 10)) == (0.1963518534, 0.3927037069)
    assert [round(g.epsilon, 4) for g in readings(rho, 1e-8)] == [4.0, 3.4565, 7.4403]
    log = math.log(1e8)
    printed = 4 + 2 * log + 2 * math.sqrt(log * (4 + log))
    assert rho_to_epsilon(printed, 1e-8, "classic") > 150  # not 4: the printed sign gives a broken guarantee


def ledger_of(schedule: NoiseSchedule, sampling: Sampling = WHOLE) -> Ledger:
    ledger = Ledger()
    for multiplier in schedule.noise_multipliers:
        charged = torch.ones(1, dtype=torch.bool)
        ledger.add(Price(torch.tensor([multiplier]), charged, Relation.ZERO_OUT, sampling))
    return ledger


def test_fresh_data_compose_in_parallel_and_reused_data_do_not():
    schedule = schedules.uniform(8.0, 20)
    assert float(ledger_of(schedule).rho()[0]) == pytest.approx(8.0)
    assert float(ledger_of(schedule, FRESH).rho()[0]) == pytest.approx(8.0 / 20)
    fresh = event(ledger_of(schedule, FRESH), 0)
    assert fresh.noise_multiplier == pytest.approx(float(schedule.noise_multipliers[0]))


def test_a_ledger_holds_one_relation():
    ledger = ledger_of(schedules.uniform(1.0, 1))
    with pytest.raises(ValueError, match="Expected relation=replace-one to be the ledger's zero-out-one"):
        ledger.add(Price(torch.ones(1), torch.ones(1, dtype=torch.bool), Relation.REPLACE_ONE))
    with pytest.raises(ValueError, match="at least one price"):
        Ledger().rho()


def test_nothing_is_claimed_that_does_not_hold():
    below = Assumption("gradients stay below C", "checked", holds=False)
    assert str(Guarantee(1.0, 1e-5, Relation.ZERO_OUT, "exact Gaussian", (below,))) == (
        "no guarantee, since this did not hold: gradients stay below C"
    )
    secret = Assumption("the seed is secret", "assumed")
    assert str(Guarantee(6.573, 1e-5, Relation.ZERO_OUT, "exact Gaussian", (secret,))).endswith(
        "by exact Gaussian, assuming that the seed is secret"
    )


def test_epsilon_is_infinite_once_something_that_was_checked_did_not_hold():
    assumptions = {holds: Assumption("gradients stay below C", "checked", holds) for holds in (True, False, None)}
    for holds, assumption in assumptions.items():
        claim = Guarantee(6.573, 1e-5, Relation.ZERO_OUT, "exact Gaussian", (assumption,))
        assert claim.nominal_epsilon == 6.573 and claim.delta == 1e-5
        assert claim.epsilon == (math.inf if holds is False else claim.nominal_epsilon)
        later = replace(claim, assumptions=(*claim.assumptions, assumptions[False]))
        assert later.epsilon == math.inf and later.nominal_epsilon == claim.nominal_epsilon
    broken = Guarantee(6.573, 1e-5, Relation.ZERO_OUT, "exact Gaussian", (*assumptions.values(),))
    attack = LowerBound(50.0, 1e-5, Relation.ZERO_OUT, 0.01, 1000, "an attack")
    assert not attack.exceeds(broken) and attack.exceeds(replace(broken, assumptions=())), "no claim, nothing refuted"


# ---------------------------------------------------------------- mechanisms
def request(value: torch.Tensor, noise_std: float, sensitivity: float = 1.0, active: bool = True) -> Request:
    runs = len(value)
    answer = Sensitive(value, torch.full((runs,), sensitivity).double(), Relation.ZERO_OUT, "proved")
    calls = torch.zeros(runs, dtype=torch.int64)
    return Request(answer, torch.full((runs,), noise_std).double(), calls, torch.full((runs,), active))


@pytest.mark.parametrize("mechanism", [Gaussian(), Tree(4), BandedSquareRoot(4, 2)], ids=lambda m: m.purpose)
def test_a_float32_answer_is_rounded_after_its_noise_was_added_in_float64(mechanism):
    # Noise with few random bits would leave the answer on rings that only the true data set explains.
    value = torch.linspace(-3, 3, 1000, dtype=torch.float32)[None]
    streams = Streams.of(0, ["bits"])
    _, noisy, _ = mechanism.release(mechanism.init(value), request(value, 0.75), streams)
    noise = 0.75 * streams.normal(mechanism.purpose, 0, 1000)
    assert noise.dtype == torch.float64 and noisy.dtype == torch.float32
    assert torch.equal(noisy, (value.double() + noise).float())
    assert not torch.equal(noisy, value + noise.float())  # the control


def test_the_price_is_noise_over_sensitivity():
    value = torch.zeros(1, 2, dtype=torch.float64)
    _, _, price = Gaussian().release(value, request(value, 3.0, sensitivity=0.5), Streams.of(0, ["a"]))
    assert float(price.rho()[0]) == pytest.approx(0.5 / 36)
    _, _, free = Gaussian().release(value, request(value, 3.0, sensitivity=0.0), Streams.of(0, ["a"]))
    assert float(free.rho()[0]) == 0
    _, _, exact = Exact().release(value, request(value, 3.0), Streams.of(0, ["a"]))
    assert math.isinf(float(exact.rho()[0]))


@pytest.mark.parametrize(
    ("noise_std", "sensitivity"),
    [(0.0, 1.0), (-1.0, 1.0), (math.nan, 1.0), (math.inf, 1.0), (1.0, -1.0), (1.0, math.nan), (1.0, math.inf)],
)
def test_impossible_noise_is_refused(noise_std, sensitivity):
    value = torch.zeros(1, 2, dtype=torch.float64)
    with pytest.raises(ValueError, match="Expected 0 < noise_std="):
        Gaussian().release(value, request(value, noise_std, sensitivity), Streams.of(0, ["a"]))


@pytest.mark.parametrize(
    "change",
    [
        {"noise_std": torch.ones(1)},
        {"noise_std": torch.ones(2, 1)},
        {"call": torch.zeros(1, dtype=torch.int64)},
        {"active": torch.tensor([True])},
        {"answer": {"l2_sensitivity": torch.ones(1)}},
        {"answer": {"value": torch.zeros(1, 2)}},  # two noisy copies of one answer, paid for once
        {"answer": {"value": torch.zeros(3, 2)}},
        {"answer": {"value": torch.zeros(2)}},
    ],
    ids=str,
)
def test_a_release_that_is_not_one_row_a_run_is_refused(change, no_draws):
    streams = Streams.of(0, ["a", "b"])
    asked = request(torch.zeros(2, 2), 1.0)
    Gaussian().release(asked.answer.value, asked, streams)  # the control
    answer = replace(asked.answer, **change.get("answer", {}))
    asked = replace(asked, **({"answer": answer} | {k: v for k, v in change.items() if k != "answer"}))
    with no_draws(), pytest.raises(ValueError, match="one (row )?a run, got"):
        Gaussian().release(asked.answer.value, asked, streams)


UNPRICED = [
    (FRESH, Relation.ADD_OR_REMOVE),
    (Sampling.poisson(0.1), Relation.REPLACE_ONE),
    (Sampling.fixed_size(2, 20), Relation.ADD_OR_REMOVE),
    (Sampling.fixed_size(2, 20), Relation.ZERO_OUT),
]
MECHANISMS = [Gaussian(), Laplace(), Exact(), Tree(4), Tree(4, optimal=True), BandedSquareRoot(4, 2)]


@pytest.fixture
def no_draws(monkeypatch: pytest.MonkeyPatch):
    """Forbid every draw while this context lasts."""

    def refuse(*_: object) -> None:
        raise AssertionError("Something was drawn.")

    @contextlib.contextmanager
    def closed() -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(Streams, "_blocks", refuse)
            yield

    return closed


@pytest.mark.parametrize(("sampling", "relation"), UNPRICED, ids=lambda v: getattr(v, "scheme", v))
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
def test_no_mechanism_answers_what_has_no_accountant(mechanism, sampling, relation, no_draws):
    asked = request(torch.zeros(1, 1, dtype=torch.float64), 1.0)
    state = mechanism.init(asked.answer.value)
    refused = replace(asked, answer=replace(asked.answer, sampling=sampling, relation=relation))
    streams = Streams.of(0, ["a"])
    with no_draws(), pytest.raises(CombinationError, match=f"Expected sampling={sampling.scheme} with relation"):
        mechanism.release(state, refused, streams)
    mechanism.release(state, asked, streams)  # the control
    if not isinstance(mechanism, Exact):
        with no_draws(), pytest.raises(AssertionError, match="Something was drawn"):
            mechanism.release(state, asked, streams)


def test_a_price_knows_which_noise_goes_with_random_batches(no_draws):
    on = torch.ones(1, dtype=torch.bool)
    for noise in ("laplace", "pure", "zcdp"):
        Price(torch.ones(1), on, Relation.ZERO_OUT, FRESH, noise)  # type: ignore[arg-type]
        with pytest.raises(CombinationError, match=f"with sampling=poisson, got '{noise}'"):
            Price(torch.ones(1), on, Relation.ZERO_OUT, Sampling.poisson(0.1), noise)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Expected noise='uniform' to be one of"):
        Price(torch.ones(1), on, Relation.ZERO_OUT, WHOLE, "uniform")  # type: ignore[arg-type]
    asked = request(torch.zeros(1, 1, dtype=torch.float64), 1.0)
    asked = replace(asked, answer=replace(asked.answer, sampling=Sampling.poisson(0.1)))
    with no_draws(), pytest.raises(CombinationError, match="with sampling=poisson, got 'laplace'"):
        Laplace().release(asked.answer.value[:, :0], asked, Streams.of(0, ["a"]))


@pytest.mark.parametrize("sensitivity", [-1.0, math.nan])
def test_an_exact_answer_has_a_sensitivity_too(sensitivity):
    value = torch.zeros(1, 2, dtype=torch.float64)
    with pytest.raises(ValueError, match=f"Expected l2_sensitivity={sensitivity} >= 0 in run 0"):
        Exact().release(value, request(value, 1.0, sensitivity), Streams.of(0, ["a"]))
    Exact().release(value, request(value, 1.0, sensitivity, active=False), Streams.of(0, ["a"]))
    for control in (0.0, 1.0, math.inf):
        Exact().release(value, request(value, 1.0, control), Streams.of(0, ["a"]))


def test_a_sensitive_value_hides_and_cannot_be_stored():
    answer = request(torch.full((1, 2), 42.0), 1.0).answer
    assert "42" not in repr(answer) and "42" not in str(answer)
    with pytest.raises(TypeError, match="cannot be stored"):
        pickle.dumps(answer)
    with pytest.raises(TypeError):
        answer + 1  # type: ignore[operator]


# ---------------------------------------------------------------- plans
@pytest.mark.parametrize("mechanism", [Gaussian(), Laplace(), Exact(), Tree(4), BandedSquareRoot(4, 2)])
def test_a_release_holds_no_graph_of_what_is_private(mechanism):
    exact = torch.ones(1, 1, dtype=torch.float64, requires_grad=True) * 2
    assert exact.grad_fn is not None
    std = torch.zeros(1).double() if isinstance(mechanism, Exact) else torch.ones(1).double()
    request = Request(
        Sensitive(exact, torch.ones(1, dtype=torch.float64), Relation.ZERO_OUT, "assumed"),
        std, torch.zeros(1, dtype=torch.int64), torch.ones(1, dtype=torch.bool),
    )  # fmt: skip
    _, released, _ = mechanism.release(mechanism.init(torch.zeros(1, 1).double()), request, Streams.of(0, ["a"]))
    assert released.grad_fn is None and not released.requires_grad


def test_the_adaptive_plan_raises_the_cost_only_when_the_released_loss_did_not_fall():
    ones = torch.ones(2, dtype=torch.float64)
    plan = LossAdaptiveNoise(budget=ones, first_cost=ones / 10, growth=2.0, loss_multiplier=10 * ones)
    state = plan.observe(plan.init(), torch.tensor([1.0, 1.0]), torch.tensor([True, True]))
    assert state.cost.tolist() == [0.1, 0.1]
    state = plan.observe(state, torch.tensor([0.5, 1.5]), torch.tensor([True, True]))
    assert state.cost.tolist() == [0.1, 0.2]
    state = plan.observe(state, torch.tensor([9.0, 9.0]), torch.tensor([False, False]))
    assert state.cost.tolist() == [0.1, 0.2]
    with pytest.raises(ValueError, match="Expected growth=1.0 > 1"):
        LossAdaptiveNoise(ones, ones, 1.0, ones)
