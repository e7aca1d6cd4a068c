"""The filter: it refuses before overspending, forgets nothing, and is used by the clipped oracle."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dpnotes.core import FRESH, WHOLE, Ledger, Sampling
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.privacy import schedules
from dpnotes.privacy.filter import Filter, Spent
from dpnotes.privacy.noise import TOLERANCE, FixedNoise, LossAdaptiveNoise
from dpnotes.problems.quadratics import Quadratic
from dpnotes.random.streams import Streams
from dpnotes.util.states import flatten, restore


def budget(*amounts: float) -> Tensor:
    return torch.tensor(amounts, dtype=torch.float64)


YES = torch.tensor([True])


def affords(watch: Filter, spent: Spent, cost: Tensor, sampling: Sampling = WHOLE) -> Tensor:
    """Return whether the remaining budget covers a release of this zCDP cost, `(runs,)` bool."""
    return watch.grant(spent, cost, torch.ones_like(cost, dtype=torch.bool), sampling)[0]


def test_a_release_that_fits_exactly_is_granted_and_the_next_one_is_not():
    watch = Filter(budget(1.0))
    spent = watch.grant(watch.init(), budget(0.75), YES)[1]
    assert bool(affords(watch, spent, budget(0.25))) and not bool(affords(watch, spent, budget(0.25 + 2**-50)))
    spent = watch.grant(spent, budget(0.25), YES)[1]
    assert float(spent.total) == 1.0
    assert not bool(affords(watch, spent, budget(1e-15)))
    granted, after = watch.grant(spent, budget(1e-15), YES)
    assert not bool(granted) and float(after.total) == 1.0, "what is refused is not written down"
    assert not bool(affords(watch, watch.init(), budget(math.nan))) and not bool(
        affords(watch, watch.init(), budget(math.inf))
    )


def test_the_tolerance_lets_the_last_step_of_a_schedule_happen_and_no_other():
    cost = budget(0.1)
    watch, strict = Filter(budget(0.3), TOLERANCE), Filter(budget(0.3))
    spent, grudged = watch.init(), strict.init()
    for _ in range(2):
        spent, grudged = watch.grant(spent, cost, YES)[1], strict.grant(grudged, cost, YES)[1]
    assert 0.1 + 0.1 + 0.1 > 0.3, "the sum of a schedule that fits may round to more"
    assert bool(affords(watch, spent, cost)) and not bool(affords(strict, grudged, cost))
    assert not bool(affords(watch, watch.grant(spent, cost, YES)[1], budget(1e-6)))


def test_fresh_data_are_paid_in_parallel():
    watch = Filter(budget(1.0))
    spent = watch.grant(watch.init(), budget(0.4), YES)[1]
    for cost in (0.5, 0.3, 0.6):
        spent = watch.grant(spent, budget(cost), YES, FRESH)[1]
    assert float(spent.total) == 1.0 and float(spent.reused) == 0.4
    assert not bool(affords(watch, spent, budget(0.61), FRESH)) and bool(affords(watch, spent, budget(0.6), FRESH))
    assert not bool(affords(watch, spent, budget(0.1), WHOLE)), "reused data are not"
    assert not bool(affords(watch, spent, budget(0.1), Sampling.poisson(0.01))), "a random batch is charged in full"


@given(st.lists(st.tuples(st.floats(0, 3), st.booleans(), st.booleans()), max_size=40), st.floats(1e-3, 3))
def test_no_sequence_of_requests_overspends(requests, limit):
    watch = Filter(budget(limit, limit / 2))
    spent = watch.init()
    paid = torch.zeros(2, dtype=torch.float64)
    loudest = torch.zeros(2, dtype=torch.float64)
    for cost, fresh, second in requests:
        costs, sampling = budget(cost, cost), FRESH if fresh else WHOLE
        before = spent.total
        could = affords(watch, spent, costs, sampling)
        granted, spent = watch.grant(spent, costs, torch.tensor([True, second]), sampling)
        assert torch.equal(granted, could & torch.tensor([True, second]))
        assert (spent.total >= before).all(), "a meter never goes back"
        if fresh:
            loudest = torch.where(granted, torch.maximum(loudest, costs), loudest)
        else:
            paid = paid + torch.where(granted, costs, 0.0)
    assert torch.equal(spent.total, paid + loudest)
    assert (spent.total <= watch.budget).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Filter(budget(1.0, -0.5)), "Expected budget=-0.5 >= 0"),
        (lambda: Filter(budget(1.0), 0.5), "Expected tolerance=0.5 <= 1e-06: it is for rounding"),
        (lambda: Filter(torch.ones(2, 1)), r"Expected a budget of shape \(runs,\), got \(2, 1\)"),
        (lambda: Spent(budget(-1.0), budget(0.0)), "Expected reused=-1.0 >= 0 and fresh=0.0 >= 0"),
        (lambda: Spent(budget(1.0, 0.0), budget(0.0, math.nan)), "Expected reused=0.0 >= 0 and fresh=nan >= 0"),
        (lambda: Spent(budget(1.0), budget(0.0, 0.0)), r"of one shape, got \(1,\) and \(2,\)"),
    ],
)
def test_bad_budgets_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("sampling", [WHOLE, FRESH], ids=["whole", "fresh"])
@pytest.mark.parametrize("limit", [1.0, math.inf])
@pytest.mark.parametrize("cost", [-0.5, -math.inf, math.nan])
def test_no_release_gives_budget_back(sampling, limit, cost):
    watch = Filter(budget(limit, limit))
    spent = watch.grant(watch.init(), budget(0.75, 0.75), torch.tensor([True, True]), sampling)[1]
    costs = budget(cost, 0.25)
    assert affords(watch, spent, costs, sampling).tolist() == [False, True]  # and a non-negative cost does fit
    granted, paid = watch.grant(spent, costs, torch.tensor([True, True]), sampling)
    assert granted.tolist() == [False, True]
    assert paid.total.tolist() == [0.75, 1.0 if sampling == WHOLE else 0.75]


def test_one_cost_is_not_the_cost_of_many_runs():
    watch, both = Filter(budget(1.0, 1.0)), torch.tensor([True, True])
    refused = (
        lambda: affords(watch, watch.init(), budget(0.5)),
        lambda: watch.grant(watch.init(), budget(0.5), both),
        lambda: watch.grant(watch.init(), budget(0.5, 0.5), YES),
        lambda: affords(watch, Filter(budget(1.0)).init(), budget(0.5, 0.5)),
        lambda: affords(watch, watch.init(), torch.zeros(2, 2)),
    )
    for call in refused:
        with pytest.raises(ValueError, match=r"of the budget's shape \(2,\), got \("):
            call()
    assert watch.grant(watch.init(), budget(0.5, 0.5), both)[1].total.tolist() == [0.5, 0.5]  # the control


@pytest.mark.parametrize("forged", [-0.25, math.nan])
def test_a_meter_is_not_restored_with_what_nobody_can_have_spent(forged):
    stored = flatten(Spent(budget(0.5, 0.5), budget(0.0, 0.0)))
    assert restore(Filter(budget(1.0, 1.0)).init(), stored).total.tolist() == [0.5, 0.5]  # the control
    for name in ("reused", "fresh"):
        with pytest.raises(ValueError, match=f"{name}={forged}"):
            restore(Filter(budget(1.0, 1.0)).init(), stored | {name: budget(0.5, forged)})


# ---------------------------------------------------------------- in the oracle
def problem() -> Quadratic:
    return Quadratic.sample(torch.tensor([1.0, 0.1], dtype=torch.float64), num_examples=20, spread=0.5, seed=0)


def adaptive(runs: int, amount: float) -> LossAdaptiveNoise:
    ones = torch.ones(runs, dtype=torch.float64)
    return LossAdaptiveNoise(amount * ones, amount / 20 * ones, 1.3, 6 * ones)


def train(oracle: ClippedGradient, state: Any, steps: int, ledger: Ledger | None = None) -> Any:
    streams = Streams.of(0, range(len(state.x)))
    return drive(Descent(0.1), oracle, state, streams, steps, ledger)


def start(oracle: ClippedGradient, runs: int) -> Any:
    return Descent(0.1).init(torch.ones(runs, 2, dtype=torch.float64), oracle)


def test_only_a_schedule_that_is_known_to_fit_has_a_tolerance():
    fixed = FixedNoise.of([schedules.exponential(0.8, 0.3, 3)])
    assert ClippedGradient(problem(), 1.0, adaptive(1, 0.5)).releases.tolerance == 0
    assert ClippedGradient(problem(), 1.0, fixed).releases.tolerance > 0, "the control"


def test_what_was_spent_is_saved_and_restored_with_a_checkpoint(tmp_path):
    oracle, first, second = ClippedGradient(problem(), 1.0, adaptive(2, 0.5)), Ledger(), Ledger()
    half = train(oracle, start(oracle, 2), 4, first)
    torch.save(flatten(half), tmp_path / "half.pt")
    stored = torch.load(tmp_path / "half.pt", weights_only=True)
    assert torch.equal(stored["oracle.meter.filter.reused"], half.oracle.meter.spent)
    back = restore(start(oracle, 2), stored)
    train(oracle, back, 200, second)
    assert (first.rho() + second.rho() <= 0.5 * (1 + 1e-12)).all()
    # The control: a run that returns with an empty meter spends its budget again.
    back = restore(start(oracle, 2), stored)
    nothing = replace(back.oracle.meter, filter=oracle.init(back.x).meter.filter)
    forgetful, again = replace(back, oracle=replace(back.oracle, meter=nothing)), Ledger()
    train(oracle, forgetful, 200, again)
    assert (first.rho() + again.rho() > 0.5 * 1.1).all()
