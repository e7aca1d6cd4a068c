"""Figure 1, middle and right: exponential against uniform schedules on MNIST35.

Question:
  Does an exponentially decaying schedule train better than a uniform one at every training size?

The paper:
  Yes: Section 5 and Figure 1, middle and right.

Rule:
  The paper: 'as the training size increases, exp outperforms uni both on the training loss and the test accuracy'.
  That is read as better at each size, by 95% intervals of the paired differences over common seeds, at the steps and
  decay rate chosen on the auxiliary set. Reproduced if both metrics are better at every size; not reproduced if one
  is worse at more sizes than it is better; undecided otherwise, and if a run that these intervals use did not finish.
  This reading was chosen when these runs were known (post hoc). The rule before joined two, and is named beside. Its
  first: Main result: number of steps and decay rate chosen on the Gaussian auxiliary set. At the largest training
  size: reproduced if the 95% intervals of the paired differences over common seeds show both a lower training loss
  and a higher test accuracy for the exponential schedule; not reproduced if either interval shows the uniform
  schedule ahead; undecided otherwise, and if a run that these intervals use did not finish. In tuning, a run that did
  not finish counts as an infinite loss. Its second, which the paper does not claim: each repeat has a slope of its
  gain in training loss, uniform less exponential, against ln N over all sizes; reproduced if the 95% t-interval of
  their mean is above 0, not reproduced if it is below. Together: reproduced if both say so, not reproduced if either
  says so, undecided otherwise.

If reproduced:
  Yes: at every training size it has the lower training loss and the higher test accuracy.

If not reproduced:
  No: it is worse at more training sizes than it is better, in training loss or in test accuracy.

If undecided:
  Training loss or test accuracy is not better at every size, and neither is worse at most.

Prediction:
  the gains in loss and accuracy are 0.008 and 0.0018 at every size, as in an earlier run of 8 repeats at 1,000
  examples; repeats scatter as they did there

Rival:
  no gain at any size
"""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from dpnotes.experiments import FLOAT32, Cell, Context, Decision, Preregistration, Spec
from dpnotes.experiments.sweeps import Each, Rows, grid, mean_interval, profiles, study, tabulated
from dpnotes.papers.budget_schedules.experiments import digits, figures
from dpnotes.privacy.accounting import epsilon_to_rho
from dpnotes.privacy.schedules import NoiseSchedule, exponential, uniform

WORDS = Preregistration.of(__doc__)
PARAMETERS = {
    "decision_rule": WORDS.rule, "seed": "mnist35, second", **digits.SETTING,
    "num_examples": Each([250, 1000], [250, 500, 1000, 3000, 6000, 11552]),
    "num_steps": Each([50, 100], [50, 75, 100, 125, 150]),
    "rates": Each([0.95, 0.98, 0.99], [0.9, 0.95, 0.97, 0.98, 0.99]), "repeats": Each(8, 100),
    "repeats_of_all_steps": Each(4, 20), "repeats_a_cell": Each(4, 20), "auxiliary_repeats": Each(1, 3),
}  # fmt: skip
QUICK, PAPER = profiles("budget_schedules.mnist35", PARAMETERS)


def tuning_cells(spec: Spec) -> list[Cell]:
    """First stage: every schedule on auxiliary data of each size, which cost no privacy."""
    repeats = [[repeat] for repeat in range(spec["auxiliary_repeats"])]
    return grid(stage=["tune"], num_examples=spec["num_examples"], repeats=repeats)


def main_cells(spec: Spec, frame: pd.DataFrame) -> list[Cell]:
    """Second stage: the private data, each cell carrying what the auxiliary data chose for its size.

    The first repeats try all numbers of steps, so that a choice on private data can be shown beside; the others have
    those alone that the auxiliary data chose. `repeats_a_cell` is of 1,000 examples, of more there are fewer.
    """
    found = []
    for size in spec["num_examples"]:
        together, tried = max(1, spec["repeats_a_cell"] * 1000 // size), spec["repeats_of_all_steps"]
        chosen = choose(frame, size)
        for first, count, all_steps in ((0, tried, True), (tried, spec["repeats"] - tried, False)):
            for part in digits.in_parts(count, together if all_steps else together * len(spec["num_steps"])):
                repeats = [first + place for place in part]
                cell = {"stage": "main", "num_examples": size, "repeats": repeats, "all_steps": all_steps}
                found.append({**cell, "chosen": chosen})
    return found


def choose(frame: pd.DataFrame, num_examples: int) -> Cell:
    """For each kind of schedule, the rate and number of steps with the lowest mean training loss on auxiliary data."""
    tuned = frame[(frame["stage"] == "tune") & (frame["num_examples"] == num_examples)]
    chosen = {}
    for kind in ("uniform", "exponential"):
        rate, num_steps = digits.best(tuned[tuned["schedule"] == kind], "rate", "num_steps")
        chosen[kind] = {"rate": float(rate), "num_steps": int(num_steps)}
    return chosen


def run_cell(spec: Spec, cell: Cell, context: Context) -> dict[str, Any]:
    """Every schedule on the training set of each repeat, as one program; a repeat's runs share noise and start."""
    tuning = cell["stage"] == "tune"
    rho = epsilon_to_rho(spec["epsilon"], spec["delta"], spec["conversion"])
    sets = digits.Sets.of(spec, cell["stage"], cell["num_examples"], cell["repeats"], context.device)
    names, size = "schedule rate num_steps chosen", f"{cell['num_examples']}/"
    columns = digits.trained(sets, cell, names, _plans(spec, cell, rho), context, digits.descent(spec), size)
    if not tuning:
        context.record_spent(rho=rho, runs=len(columns["repeat"]), **digits.SPENT)
    return {**columns, "all_steps": tuning or cell["all_steps"], "num_examples": cell["num_examples"]}


def _plans(spec: Spec, cell: Cell, rho: float) -> list[tuple[str, float, int, bool, NoiseSchedule]]:
    """The schedules of a cell: all in tuning, else those of the chosen rate, at all numbers of steps or the chosen."""
    tuning, found = cell["stage"] == "tune", []
    rates = spec["rates"] if tuning else [cell["chosen"]["exponential"]["rate"]]
    for num_steps, rate in product(spec["num_steps"], [1.0, *rates]):
        kind = "uniform" if rate == 1 else "exponential"
        schedule = uniform(rho, num_steps) if rate == 1 else exponential(rate, rho, num_steps)
        chosen = not tuning and cell["chosen"][kind]["num_steps"] == num_steps
        if tuning or cell["all_steps"] or chosen:
            found.append((kind, rate, num_steps, chosen, schedule))
    return found


@tabulated
def differences(frame: pd.DataFrame) -> Rows:
    """Exponential minus uniform over common seeds, with 95% intervals, for both ways of choosing the steps.

    "auxiliary" is the main result. "private" chooses each schedule's number of steps on the private training loss of
    the even repeats and reports the odd ones; that choice is not accounted for.
    """
    main = frame[frame["stage"] == "main"]
    for size, part in main.groupby("num_examples"):
        for choice in ("auxiliary", "private"):
            picked = {kind: _picked(part[part["schedule"] == kind], choice) for kind in ("exponential", "uniform")}
            for metric in ("train_loss", "test_accuracy"):
                values = {kind: table.set_index("repeat")[metric] for kind, table in picked.items()}
                mean, low, high = mean_interval((values["exponential"] - values["uniform"]).to_numpy())
                yield {
                    "num_examples": size, "choice": choice, "metric": metric,
                    "exponential": values["exponential"].mean(), "uniform": values["uniform"].mean(),
                    "difference": mean, "low": low, "high": high, "repeats": len(values["uniform"]),
                }  # fmt: skip


def _picked(part: pd.DataFrame, choice: str) -> pd.DataFrame:
    if choice == "auxiliary":
        return part[part["chosen"]]
    part = part[part["all_steps"]]
    choosing, reporting = part[part["repeat"] % 2 == 0], part[part["repeat"] % 2 == 1]
    return reporting[reporting["num_steps"] == digits.best(choosing, "num_steps")]


def slopes(frame: pd.DataFrame) -> np.ndarray:
    """Of every repeat the least-squares slope against ln N of uniform less exponential, at the chosen steps."""
    used = frame[(frame["stage"] == "main") & frame["chosen"]]
    table = used.pivot(index=["num_examples", "repeat"], columns="schedule", values="train_loss")
    gain = (table["uniform"] - table["exponential"]).unstack("num_examples")
    log_size = np.log(gain.columns.to_numpy(dtype=np.float64))
    centred = log_size - log_size.mean()
    return gain.to_numpy() @ centred / (centred @ centred)


def decide(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The rules in the spec."""
    used = frame[frame["chosen"]]
    if unfinished := digits.unfinished(used):
        return unfinished
    table = differences(frame)
    facts, counts = [], []
    for metric, part in table[table["choice"] == "auxiliary"].groupby("metric", sort=False):
        gain = (-1 if metric == "train_loss" else 1) * part[["low", "high"]]
        sizes, better, worse = len(part), int((gain > 0).all(axis=1).sum()), int((gain < 0).all(axis=1).sum())
        counts.append((better, worse, sizes))
        facts.append(
            f"{metric.replace('_', ' ')}: better at {better} of {sizes} sizes, worse at {worse}, "
            f"equal at {sizes - better - worse}"
        )
    first, second = _at_the_largest(frame, spec), _over_sizes(frame)
    before = "not reproduced" if "not reproduced" in (first.verdict, second.verdict) else "undecided"
    before = "reproduced" if first.verdict == second.verdict == "reproduced" else before
    facts += [
        f"growth, which is not the paper's claim: {second.reason}",
        f"by the rule before: {before}, {first.reason}",
    ]
    return Decision.by(
        "; ".join(facts),
        passed=all(better == sizes for better, _, sizes in counts),
        failed=any(worse > better for better, worse, _ in counts),
    )


def _at_the_largest(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The first rule."""
    largest = max(spec["num_examples"])
    table = differences(frame)
    rows = table[(table["choice"] == "auxiliary") & (table["num_examples"] == largest)].set_index("metric")
    loss, accuracy = (tuple(rows.loc[name, ["difference", "low", "high"]]) for name in ("train_loss", "test_accuracy"))
    facts = (
        f"at N = {largest:,} exponential minus uniform has training loss {digits.shown(loss)}, "
        f"test accuracy {digits.shown(accuracy)}"
    )
    return Decision.by(facts, passed=loss[2] < 0 and accuracy[1] > 0, failed=loss[1] > 0 or accuracy[2] < 0)


def _over_sizes(frame: pd.DataFrame) -> Decision:
    """The second rule."""
    slope = mean_interval(slopes(frame))
    facts = f"the gain in loss changes by {digits.shown(slope)} a unit of ln N"
    return Decision.by(facts, passed=slope[1] > 0, failed=slope[2] < 0)


# ---------------------------------------------------------------- simulated results
@tabulated
def simulated(spec: Spec, generator: np.random.Generator, right: bool) -> Rows:
    """Gains in loss and accuracy that are the same at all sizes, or no gains; paired scatter of the quick run."""
    for size in spec["num_examples"]:
        shrunk = (size / 1000) ** -0.6
        gains = {"train_loss": (-0.008, 0.0024), "test_accuracy": (0.0018, 0.0019)}
        tried = spec["repeats_of_all_steps"]
        for all_steps, first, count in ((True, 0, tried), (False, tried, spec["repeats"] - tried)):
            levels = {name: generator.standard_normal(count) * 0.006 * shrunk for name in gains}
            for num_steps in spec["num_steps"] if all_steps else [100]:
                for kind in ("uniform", "exponential"):
                    found = {"num_examples": size, "schedule": kind, "num_steps": num_steps, "all_steps": all_steps}
                    found |= {"chosen": num_steps == 100, "finished": True, "stage": "main"}
                    for name, (gain, scatter) in gains.items():
                        gained = right * gain + scatter * shrunk * generator.standard_normal(count)
                        found[name] = 0.5 + levels[name] + (kind == "exponential") * gained
                    yield {**found, "repeat": first + np.arange(count)}


EXPERIMENT = study(
    WORDS, [QUICK, PAPER], (tuning_cells, run_cell, decide, simulated),
    chances={"quick": (0.07, 0.0), "paper": (0.985, 0.0)}, tolerances=FLOAT32, stages=(main_cells,),
    unaccounted=(
        "The curve with steps chosen on private data pays nothing for that choice; the main result chooses on "
        "auxiliary data.",
        *digits.UNACCOUNTED,
    ),
    data=digits.DATA, figure=figures.MIDDLE_AND_RIGHT, rule_version=2,
)  # fmt: skip
