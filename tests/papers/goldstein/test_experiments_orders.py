"""Losses against gradients: the rule on simulated outcomes."""

import numpy as np
import pandas as pd
import pytest
from specs import changed, simulated

from dpnotes.experiments import Spec
from dpnotes.papers.goldstein.experiments import orders


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


def test_the_rule_outside_the_grid():
    spec = orders.QUICK
    assert orders.decide(outcomes(spec, 2.0, 0.35), spec).verdict == "reproduced"  # because a single d lies beyond it
    frame = outcomes(spec, 1.0, 0.35)
    frame.loc[(frame["directions"] > 0) & (frame["part"] == "orders"), "norm"] = 0.9
    assert "beyond the grid" in orders.decide(frame, spec).reason
