"""Limits on growth of plans, ledgers and accounts, counted in calls, objects and bytes, never in seconds."""

from dataclasses import dataclass

import pytest
import torch

from dpnotes.core import Ledger, Price, Relation
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import uniform


def price(multiplier: float, charged: bool = True) -> Price:
    return Price(torch.tensor([multiplier]), torch.tensor([charged]), Relation.ZERO_OUT)


def test_equal_schedules_are_one_row_and_a_part_of_the_runs_copies_none():
    plan = FixedNoise.of([uniform(0.5, 100)] * 50 + [uniform(0.25, 200)] * 50)
    assert plan.multipliers.shape == (2, 200)
    some = plan.take(torch.arange(40, 60))
    assert some.multipliers is plan.multipliers and len(some.budget) == 20
    one = FixedNoise.of([uniform(0.5, 100), uniform(0.25, 200)])
    for step in (0, 99, 150):
        calls = torch.full((20,), step)
        multiplier, there = some.propose(some.init(), calls)
        expected, expected_there = one.propose(one.init(), calls[:2])
        assert torch.equal(multiplier, expected.repeat_interleave(10)), step
        assert torch.equal(there, expected_there.repeat_interleave(10)), step


def test_a_ledger_keeps_one_price_of_many_equal_steps():
    ledger = Ledger()
    for multiplier in (2.0, 2.0, 2.0, 3.0, 2.0):
        ledger.add(price(multiplier))
    ledger.add(price(2.0, charged=False))
    assert len(ledger.prices) == 6 and len({id(each) for each in ledger.prices}) == 4
    assert float(ledger.rho()) == pytest.approx(4 * 0.125 + 0.5 / 9)
    assert not price(2.0).same(Price(torch.tensor([2.0]).double(), torch.tensor([True]), Relation.ZERO_OUT))

    @dataclass(frozen=True)
    class Dearer(Price):
        times: int = 1

        def rho(self) -> torch.Tensor:
            return self.times * super().rho()

    ledger.add(price(2.0))
    for times in (1, 3):
        ledger.add(Dearer(**vars(price(2.0)), times=times))
    assert float(ledger.rho()) == pytest.approx(5 * 0.125 + 0.5 / 9 + 4 * 0.125), "nor a price of another class"


def test_a_ledger_keeps_what_a_release_cost_when_it_was_added():
    active, ledger = torch.tensor([True, True]), Ledger()
    levels = torch.tensor([2.0, 2.0], dtype=torch.float64)
    ledger.add(Price(levels, active, Relation.ZERO_OUT))
    before = ledger.rho()
    active &= torch.tensor([True, False])  # as a user's own loop may do
    levels *= 10
    assert torch.equal(ledger.rho(), before) and bool((before == 0.125).all())
