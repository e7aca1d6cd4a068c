"""Theorem 3.4: the fraction of iterates that are second-order stationary, against the noise.

Question:
  Are at least half of the iterates alpha-SOSPs, and is it the noise that makes them so?

The paper:
  Yes: Theorem 3.4.

Rule:
  Reproduced if with the theorem's noise at least half of the iterates are alpha-SOSPs in every run and for every
  number of examples, and without noise none is. Not reproduced if with it the median run has fewer than half for some
  number of examples, or a run without noise has one. Undecided otherwise. Further multiples of the noise, at the same
  step size and number of steps, are shown and decide nothing.

If reproduced:
  Yes: with the theorem's noise at least half of the iterates are alpha-SOSPs, without noise none is.

If not reproduced:
  No: with the theorem's noise fewer than half are, or noise is not needed.

Prediction:
  0.99 of the iterates are alpha-SOSPs, give or take 0.002 (as stored on the same seed), and none is without noise

Rival:
  half of them are
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from dpnotes.experiments import Cell, Context, Decision, Preregistration, Spec
from dpnotes.experiments.sweeps import Each, Rows, grid, profiles, study, tabulated
from dpnotes.papers.noisy_sgd.experiments.wells import Wells, measured, parameters, share_of_sosp

WORDS = Preregistration.of(__doc__)
QUICK, PAPER = profiles("noisy_sgd.fraction", {
    "decision_rule": WORDS.rule, "seed": "fraction", "epsilon": 1.0, "delta": 1e-6, "d": 8, "f_max": 1.0,
    "sigma": 0.01,
    # So that the start of no run is an alpha-SOSP.
    "smallest_factor": 0.95,
    "num_examples": Each([6e4, 1.2e5], [6e4, 1.2e5, 2.4e5, 4.8e5, 9.6e5]),
    "multiples": Each(
        [0.0, 1e-9, 1e-6, 1e-3, 0.1, 1.0, 4.0, 16.0, 64.0],
        [0.0, *(float(10.0**k) for k in range(-12, 0)), 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0],
    ),
    "repeats": Each(20, 100),
})  # fmt: skip


def cells(spec: Spec) -> list[Cell]:
    """One cell a number of examples."""
    return grid(num_examples=spec["num_examples"])


def run_cell(spec: Spec, cell: Cell, context: Context) -> dict[str, Any]:
    """Every multiple of Delta, `repeats` runs each, with the step size and the number of steps of the theorem's."""
    wells = Wells(spec["d"], spec["f_max"], spec["sigma"])
    found = parameters(wells, cell["num_examples"], spec["epsilon"], spec["delta"])
    points = []
    for multiple in spec["multiples"]:
        given = replace(found, noise_std=found.noise_std * multiple)
        points.append((f"{cell['num_examples']:g}/{multiple:g}", {"multiple": multiple}, given))

    def measure(path: Tensor, *_: Any) -> dict[str, float]:
        return {"alpha": found.alpha, "num_steps": found.num_steps, "fraction": share_of_sosp(path, found.alpha, wells)}

    return {**cell, **measured(spec, context, wells, points, measure)}


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a number of examples and multiple: the least, the median and the largest fraction over runs."""
    groups = frame.groupby(["num_examples", "multiple"])
    return groups["fraction"].agg(["min", "median", "max"]).reset_index()


def decide(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The rule in the spec."""
    table = summary(frame)
    own, none = table[table["multiple"] == 1], table[table["multiple"] == 0]
    medians = table[table["multiple"] > 0].groupby("multiple")["median"].min()
    enough = medians.index[medians >= 0.5].to_numpy()
    facts = (
        f"with the theorem's noise the least fraction is {own['min'].min():.3f}, the least median "
        f"{own['median'].min():.3f}; without noise the largest is {none['max'].max():.3f}; the median run has half at "
        + (f"{enough.min():g} to {enough.max():g} times that noise" if len(enough) else "no multiple of it")
    )
    return Decision.by(facts, failed=own["median"].min() < 0.5 or none["max"].max() > 0, passed=own["min"].min() >= 0.5)


# ---------------------------------------------------------------- simulated results
@tabulated
def simulated(spec: Spec, generator: np.random.Generator, right: bool) -> Rows:
    """Shares of iterates, about a mean that the noise decides."""
    for size in spec["num_examples"]:
        shares = (0.99 if right else 0.5) + 0.002 * generator.standard_normal(spec["repeats"])
        yield {"num_examples": size, "multiple": 0.0, "fraction": np.zeros(len(shares))}
        yield {"num_examples": size, "multiple": 1.0, "fraction": shares}


EXPERIMENT = study(
    WORDS, [QUICK, PAPER], (cells, run_cell, decide, simulated), chances={"quick": (1.0, 0.0), "paper": (1.0, 0.0)},
)  # fmt: skip
