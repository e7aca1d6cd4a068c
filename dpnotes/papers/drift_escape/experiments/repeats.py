"""Lemma 2: repeated attempts with a state that is restored, refreshed, or has no memory.

Question:
  Do Q attempts from one point fail independently when the oracle is SPIDER?

The paper:
  No claim: Lemma 2 is for independent attempts, and the paper does not say what its oracle knows in a further one.

Rule:
  Lemma 2 is for independent attempts: all Q fail with probability p^Q, p that of one. For each oracle the runs whose
  attempts all fail are counted, with 95% intervals, and p^Q has that of p. Reproduced if fresh noise and a forced
  fresh gradient fail as often as p^Q at Q = 2 and Q = 4 (the intervals overlap), and a restored state does not: at Q
  = 8 its interval lies above 10 p^Q and above a tenth of p. Not reproduced if at Q = 4 fresh noise or a forced
  gradient fail more often than p^Q, or at Q = 8 a restored state fails as often as p^Q. Undecided otherwise.

If reproduced:
  No: with the oracle's state restored, eight attempts fail together far more often than independent ones. With a
  fresh gradient at each attempt they fail as rarely as independent ones.

If not reproduced:
  Yes: eight attempts with the oracle's state restored fail together as rarely as independent ones.

Prediction:
  attempts with fresh noise or forced gradients fail independently, those with a restored state as in 50,000 runs of
  an earlier seed

Rival:
  after a failure an attempt with a forced gradient fails twice as often
"""

import math
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dpnotes.core import Estimate, Oracle
from dpnotes.experiments import Cell, Context, Decision, Preregistration, Spec
from dpnotes.experiments.sweeps import Each, Rows, grid, profiles, proportion, study, tabulated
from dpnotes.methods.loop import drive
from dpnotes.oracles.fresh import FreshGradient
from dpnotes.oracles.samples import VirtualSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.papers.drift_escape.escaping import DriftEscape, Repeat
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.problems.separable import Cosine, Separable, Sine
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams

WORDS = Preregistration.of(__doc__)
ORACLES: dict[str, Repeat] = {"fresh noise": "go on", "restored": "restore", "forced": "refresh", "jump": "go on"}
COMMON: dict[str, Any] = {
    "decision_rule": WORDS.rule, "seed": Each("repeats, 4000", "repeats"), "repeats": Each(4000, 50_000), "dim": 10,
    "curvature": 0.1,  # of the hill, over M = 1
    "features": 0.3,  # length of the noise of one example's gradient
    "first": 1_000_000,  # b1
    "least": 100_000,  # b2
    "multiplier": 1000.0,  # noise over sensitivity
    "gradient_bound": 3.0, "radius": 0.1, "attempt_length": 26, "attempts": 12,
}  # fmt: skip
QUICK, PAPER = profiles("drift_escape.repeats", COMMON)


def cells(spec: Spec) -> list[Cell]:
    """One cell an oracle."""
    return grid(oracle=ORACLES)


def make_oracle(spec: Spec, name: str, runs: int, num_steps: int, device: str) -> Oracle:
    """SPIDER with a first batch whose noise all differences share; or the same noise, fresh for every gradient.

    The loss is a hill of the given curvature between wells of curvature 1, all cosines; examples differ by sines.
    """
    curvature, dim = spec["curvature"], spec["dim"]
    hills = Separable([(Cosine(curvature**3, 1 / curvature), 1), (Cosine(1.0), dim - 1)])
    data = VirtualData(hills, Separable([(Sine(spec["features"] / dim**0.5), dim)]))
    if name == "fresh noise":
        # Of the privacy noise on a fresh gradient, each coordinate.
        first_std = spec["multiplier"] * 2 * spec["gradient_bound"] / spec["first"]
        std = torch.full((runs,), first_std, dtype=torch.float64, device=device)
        return FreshGradient(data, spec["first"], std, spec["gradient_bound"], num_steps)
    budget = torch.full((runs,), 1.0 / spec["multiplier"] ** 2, dtype=torch.float64, device=device)
    return Spider(
        VirtualSamples(data, 10**15), Gaussian(), spec["multiplier"], budget,
        # An attempt has no room for a drift that would ask for a fresh gradient: its steps are well within the radius.
        Refresh.squared_moves(4 * spec["radius"] ** 2),
        BatchSizes(spec["first"], spec["least"]), spec["gradient_bound"], smoothness=1.0,
    )  # fmt: skip


def run_cell(spec: Spec, cell: Cell, context: Context) -> dict[str, Any]:
    """A table by number of failures: the number of runs, and the examples that they used."""
    runs = attempts(spec, cell, context)
    levels = np.arange(spec["attempts"] + 1)
    apart = runs["failed"] == levels[:, None]
    totals = {name: apart @ runs[name] for name in ("used", "steps")}
    return {**cell, "failed": levels, "runs": apart.sum(1), **totals}


def attempts(spec: Spec, cell: Cell, context: Context) -> dict[str, np.ndarray]:
    """From the top of the hill: how many attempts of the first test failed, and what they used, run by run."""
    name = cell["oracle"]
    most = spec["attempts"] * spec["attempt_length"] + 1
    # Every gradient is small enough for a test: what is measured is the test.
    method = DriftEscape(1.0, 1e9, spec["attempt_length"], spec["radius"], spec["attempts"], ORACLES[name])

    def run(chosen: range) -> dict[str, Tensor]:
        streams = Streams.of(spec["seed"], [f"{name}/{r}" for r in chosen], context.device)
        oracle = make_oracle(spec, name, len(chosen), most, context.device)
        x = torch.full((len(chosen), spec["dim"]), math.pi, dtype=torch.float64, device=context.device)
        x[:, 0] = 0
        failed = torch.full((len(chosen),), spec["attempts"], device=context.device)
        used, steps = torch.zeros_like(failed), torch.zeros_like(failed)
        attempt, escaped = torch.zeros_like(failed), torch.zeros_like(failed, dtype=torch.bool)

        def observe(going: Tensor, state: Any, estimate: Estimate) -> None:
            testing, before = ~escaped[going], attempt[going]
            left = testing & (state.escapes > 0)
            per_step = estimate.num_gradients if name == "fresh noise" else state.oracle.meter.used - used[going]
            # By masks: rows picked by one would make the host wait for a GPU in every step.
            failed[going] = torch.where(left, before - 1, failed[going])
            used[going] += torch.where(testing, per_step, 0)
            steps[going] += testing
            escaped[going] |= left
            attempt[going] = torch.where(state.attempt > 0, state.attempt, before)

        # After an escape a run tests the next point, which is not watched: a run ends with its last attempt, or here.
        attempt += 1
        drive(method, oracle, method.init(x, oracle), streams, most, observe=observe)
        return {"failed": failed, "used": used, "steps": steps}

    return context.in_chunks(run, spec["repeats"], 8 * 60 * spec["dim"])


@tabulated
def failures(frame: pd.DataFrame) -> Rows:
    """One row an oracle and Q: how often all of Q attempts failed, p^Q, their 95% intervals, and examples used."""
    for name, part in frame.groupby("oracle", sort=False):
        runs, most = int(part["runs"].sum()), int(part["failed"].max())
        fails = [int(part.loc[part["failed"] >= count, "runs"].sum()) for count in range(1, most + 1)]
        low, high = proportion(fails[0], runs)
        one = {"independent": fails[0] / runs, "independent_low": low, "independent_high": high}
        for count, hits in enumerate(fails, 1):
            low, high = proportion(hits, runs)
            row = {"oracle": name, "Q": count, "fails": hits / runs, "low": low, "high": high}
            yield {**row, **{key: chance**count for key, chance in one.items()}, "used": part["used"].sum() / runs}


def decide(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The rule in the spec."""
    rows = {(row.oracle, row.Q): row for row in failures(frame).itertuples()}

    def overlap(row: Any) -> bool:
        return row.low <= row.independent_high and row.independent_low <= row.high

    shared, one = rows["restored", 8], rows["restored", 1]
    independent = all(overlap(rows[name, count]) for name in ("fresh noise", "forced") for count in (2, 4))
    dependent = shared.low > 10 * shared.independent_high and shared.low > one.fails / 10
    worse = any(rows[name, 4].low > rows[name, 4].independent_high for name in ("fresh noise", "forced"))
    facts = "; ".join(
        f"{name}: one attempt fails in {rows[name, 1].fails:.1%}, eight in {rows[name, 8].fails:.2%} "
        f"(independent: {rows[name, 8].independent:.2g}), {rows[name, 1].used:.3g} examples"
        for name in ORACLES
    )
    return Decision.by(facts, failed=worse or overlap(shared), passed=independent and dependent)


# ---------------------------------------------------------------- simulated results
# Chances that an attempt fails, the first and those after failures, as they were with 50,000 runs of an earlier seed.
_FAILS = {
    "fresh noise": [0.50], "restored": [0.13, 0.81, 0.88, 0.92, 0.93, 0.94, 0.95], "forced": [0.13],
    "jump": [0.13, 0.63, 0.66],
}  # fmt: skip


@tabulated
def simulated(spec: Spec, generator: np.random.Generator, right: bool) -> Rows:
    """Attempts that fail with these chances; of the rival a forced gradient's with twice its own after a failure."""
    for name, chances in _FAILS.items():
        if name == "forced" and not right:
            chances = [chances[0], 2 * chances[0]]
        left, counts = spec["repeats"], []
        for attempt in range(spec["attempts"]):
            fail = int(generator.binomial(left, chances[min(attempt, len(chances) - 1)]))
            counts.append(left - fail)
            left = fail
        runs = np.array([*counts, left])
        yield {"oracle": name, "failed": np.arange(len(runs)), "runs": runs, "used": runs}


EXPERIMENT = study(
    WORDS, [QUICK, PAPER], (cells, run_cell, decide, simulated), chances={"quick": (0.995, 0.0), "paper": (0.97, 0.0)},
)  # fmt: skip
