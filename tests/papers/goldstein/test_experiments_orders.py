"""Losses against gradients: the number of directions needed, the rule on simulated outcomes, a cell of each part."""

import numpy as np
import pandas as pd
import pytest
from specs import changed, frame_of, simulated

from dpnotes.experiments import Spec
from dpnotes.papers.goldstein.experiments import orders


@pytest.mark.parametrize("profile", ["quick", "paper"])
def test_the_rule_is_about_an_exponent_and_the_last_two_cells_have_increments(profile):
    spec = orders.EXPERIMENT.spec(profile)
    assert "Reproduced, of the exponent 2, if" in spec["decision_rule"]
    assert [orders.parameters(spec, cell).period > 1 for cell in orders.cells(spec)[-2:]] == [True, True]


def test_directions_that_are_needed():
    grid = np.array([4, 8, 16])
    assert orders.needed(np.array([2.0, 1.2, 1.1]), grid, 1.0, 1.2) == 8
    assert orders.needed(np.array([1.1, 1.1, 1.1]), grid, 1.0, 1.2) == 4
    assert orders.needed(np.array([2.0, 1.9, 1.8]), grid, 1.0, 1.2) == 16


def outcomes(spec: Spec, exponent: float, independent: float, noise: float = 0.002) -> pd.DataFrame:
    """Return outcomes with an excess of `(d / 12)^exponent 12 / (5 m)`, so that the ratio has this exponent."""
    frame = simulated(orders, spec)
    excess = (frame["dim"] / 12) ** exponent * 12 / (5 * frame["directions"].clip(lower=1))
    norm = 0.25 * (1 + excess.where(frame["directions"] > 0, 0.0))
    norm = frame["part"].map({"common": 0.3, "independent": independent}).fillna(norm)
    return frame.assign(norm=norm * (1 + noise * np.random.default_rng(0).normal(size=len(frame))))


@pytest.mark.parametrize(
    ("exponent", "independent", "verdict"),
    [(1.0, 0.35, "not reproduced"), (2.0, 0.35, "reproduced"), (1.5, 0.35, "undecided"), (1.0, 0.3, "undecided")],
)
@pytest.mark.slow
def test_the_rule(exponent, independent, verdict):
    wide = changed(orders.QUICK, ratios=[0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0])
    found = orders.decide(outcomes(wide, exponent, independent), wide)
    assert found.verdict == verdict, found


def test_the_rule_outside_the_grid_or_with_a_lost_run():
    spec = orders.QUICK
    assert orders.decide(outcomes(spec, 2.0, 0.35), spec).verdict == "reproduced"  # because a single d lies beyond it
    frame = outcomes(spec, 1.0, 0.35)
    frame.loc[(frame["directions"] > 0) & (frame["part"] == "orders"), "norm"] = 0.9
    assert "beyond the grid" in orders.decide(frame, spec).reason
    frame = outcomes(spec, 1.0, 0.35)
    frame.loc[0, "finished"] = False
    assert "did not finish" in orders.decide(frame, spec).reason


@pytest.mark.slow
def test_a_cell_of_each_part_runs():
    sizes = {"dim": 4, "num_examples": 120, "move": 0.05, "epsilon": 1000.0}
    changes = {"dims": [3, 6], "ratios": [1.0], "num_steps": 10, "repeats": 2, "increments": sizes}
    spec = changed(orders.QUICK, **changes)
    frame = frame_of(orders, spec)
    assert frame["finished"].all()
    table = orders.summary(frame).set_index(["part", "directions"])
    table = table[table["dim"].isin((4, 6))]  # the dimension of the increments, and the larger of `dims`
    calls, used = table["calls"], 10 * table["batch"]
    assert calls["orders", 0] == used["orders", 0]  # one gradient per example
    assert calls["orders", 6] == 12 * used["orders", 6]  # two losses per direction
    assert orders.decide(frame, spec).reason
