"""Section 4.2, trained: a dynamic schedule with momentum and without.

Question:
  Does a dynamic schedule gain less where momentum averages the gradients?

The paper:
  Yes: discussion of Theorem 4.8.

Rule:
  The gain is the training loss under the uniform schedule less that under the dynamic one, over common seeds: without
  momentum the exponential schedule of Theorem 4.5, with momentum the best one for the exact influence in the bound of
  Theorem 4.6, each at the gamma that does best on Gaussian auxiliary data. Reproduced if the 95% intervals show a
  gain without momentum above 0 and a smaller one with it, as the discussion of Theorem 4.8 says. Not reproduced if
  the gain without momentum is below 0, or the one with momentum larger. Undecided otherwise, and if a run that these
  intervals use did not finish. Whether momentum itself trains better is said beside it.

If reproduced:
  Yes: the gain with momentum is smaller.

If not reproduced:
  No: the gain with momentum is larger, or there is no gain without it.

Prediction:
  the gain is the one of pilots of 16 and 8 repeats without momentum, and half of it with momentum

Rival:
  the same gain with momentum
"""

import numpy as np
import pandas as pd

from dpnotes.experiments import FLOAT32, Cell, Context, Decision, Preregistration, Spec
from dpnotes.experiments.sweeps import Each, Rows, joined, mean_interval, profiles, study, tabulated
from dpnotes.papers.budget_schedules.algorithms import momentum_schedule
from dpnotes.papers.budget_schedules.experiments import digits
from dpnotes.papers.budget_schedules.experiments.digits import tuning_cells
from dpnotes.privacy.accounting import epsilon_to_rho
from dpnotes.privacy.schedules import NoiseSchedule, exponential, uniform

WORDS = Preregistration.of(__doc__)
PARAMETERS = {
    "decision_rule": WORDS.rule, "seed": "momentum, training", **digits.SETTING, "momenta": [0.0, 0.9],
    "num_examples": Each(500, 1000), "num_steps": 100,
    "gammas": Each([0.95, 0.98, 0.99], [0.93, 0.95, 0.97, 0.98, 0.99, 0.995]), "repeats": Each(16, 100),
    "repeats_a_cell": Each(8, 20), "auxiliary_repeats": Each(2, 6),
}  # fmt: skip
QUICK, PAPER = profiles("budget_schedules.momentum", PARAMETERS, quick={"num_hidden": 200})


def plan(momentum: float, gamma: float, rho: float, num_steps: int) -> NoiseSchedule:
    """The dynamic schedule: the best for the influence in the bound, at this contraction."""
    return momentum_schedule(momentum, gamma, rho, num_steps) if momentum else exponential(gamma, rho, num_steps)


def main_cells(spec: Spec, frame: pd.DataFrame) -> list[Cell]:
    """Second stage: the private data, each cell carrying the gammas that the auxiliary data chose."""
    chosen = [choose(frame, momentum) for momentum in spec["momenta"]]
    parts = digits.in_parts(spec["repeats"], spec["repeats_a_cell"])
    return [{"stage": "main", "repeats": repeats, "gammas": chosen} for repeats in parts]


def choose(frame: pd.DataFrame, momentum: float) -> float:
    """The gamma whose schedule has the lowest mean training loss on auxiliary data."""
    tuned = frame[(frame["stage"] == "tune") & (frame["momentum"] == momentum) & (frame["schedule"] == "dynamic")]
    return float(digits.best(tuned, "gamma"))


@joined
def run_cell(spec: Spec, cell: Cell, context: Context) -> Rows:
    """Both schedules with each momentum; the runs of a repeat share examples, start and noise."""
    tuning = cell["stage"] == "tune"
    rho = epsilon_to_rho(spec["epsilon"], spec["delta"], spec["conversion"])
    sets = digits.Sets.of(spec, cell["stage"], spec["num_examples"], cell["repeats"], context.device)
    for number, momentum in enumerate(spec["momenta"]):
        gammas = spec["gammas"] if tuning else [cell["gammas"][number]]
        plans = [("uniform", 1.0, uniform(rho, spec["num_steps"]))]
        plans += [("dynamic", gamma, plan(momentum, gamma, rho, spec["num_steps"])) for gamma in gammas]
        columns = digits.trained(sets, cell, "schedule gamma", plans, context, digits.descent(spec, momentum))
        if not tuning:
            context.record_spent(rho=rho, runs=len(columns["repeat"]), **digits.SPENT)
        yield {"momentum": momentum, **columns}


def gains(frame: pd.DataFrame, metric: str = "train_loss") -> pd.DataFrame:
    """One row a repeat, one column a momentum: the metric under the uniform schedule less it under the dynamic one."""
    main = frame[frame["stage"] == "main"]
    table = main.pivot(index="repeat", columns=["schedule", "momentum"], values=metric)
    return table["uniform"] - table["dynamic"]


@tabulated
def summary(frame: pd.DataFrame) -> Rows:
    """One row a metric and a comparison: its mean over common seeds, with its 95% interval.

    The gains at each momentum, the gain without momentum less that with it, and what momentum changes by itself under
    the uniform schedule (without less with).
    """
    main = frame[frame["stage"] == "main"]
    least, most = main["momentum"].min(), main["momentum"].max()
    for metric in ("train_loss", "test_accuracy"):
        gain = gains(frame, metric)
        level = main[main["schedule"] == "uniform"].pivot(index="repeat", columns="momentum", values=metric)
        compared = {
            "gain without momentum": gain[least], "gain with momentum": gain[most],
            "the first less the second": gain[least] - gain[most], "momentum alone": level[least] - level[most],
        }  # fmt: skip
        for name, values in compared.items():
            mean, low, high = mean_interval(values.to_numpy())
            yield {"metric": metric, "comparison": name, "mean": mean, "low": low, "high": high}


def decide(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The rule in the spec."""
    main = frame[frame["stage"] == "main"]
    if unfinished := digits.unfinished(main):
        return unfinished
    table = summary(frame)
    rows = table[table["metric"] == "train_loss"].set_index("comparison")[["mean", "low", "high"]]
    without, _, less, alone = (tuple(map(float, row)) for row in rows.to_numpy())
    words = ", ".join(f"{name} {digits.shown((mean, low, high))}" for name, mean, low, high in rows.itertuples())
    better = "better" if alone[0] > 0 else "no better"
    facts = f"training loss, uniform less dynamic: {words} (above 0: momentum trains {better})"
    return Decision.by(facts, failed=without[2] < 0 or less[2] < 0, passed=without[1] > 0 and less[1] > 0)


# ---------------------------------------------------------------- simulated results
@tabulated
def simulated(spec: Spec, generator: np.random.Generator, right: bool) -> Rows:
    """A gain that momentum halves, or leaves as it is; gain and scatter without momentum are those of pilots."""
    small = spec["num_hidden"] < 1000
    gain, scatter = (0.0124, 0.0042) if small else (0.0078, 0.0018)
    for momentum in spec["momenta"]:
        mean = gain / 2 if momentum and right else gain
        for rows in digits.simulated_pair(generator, spec["repeats"], "dynamic", 0.013, mean, scatter):
            yield {**rows, "momentum": momentum}


EXPERIMENT = study(
    WORDS, [QUICK, PAPER], (tuning_cells, run_cell, decide, simulated),
    chances={"quick": (0.985, 0.015), "paper": (1.0, 0.04)}, tolerances=FLOAT32, stages=(main_cells,),
    unaccounted=digits.UNACCOUNTED, data=digits.DATA,
)  # fmt: skip
