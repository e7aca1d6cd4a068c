"""Figure 1, left: how much the noise of each step counts in the end, estimated by retraining."""

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch

from dpnotes.core import Status
from dpnotes.experiments import Context, Decision, Experiment, Spec
from dpnotes.experiments.spec import Cell
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.papers.budget_schedules.algorithms import bytes_per_run
from dpnotes.papers.budget_schedules.experiments import figures
from dpnotes.privacy.accounting import epsilon_to_rho
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.problems import preprocessing
from dpnotes.problems.datasets.dataset import Dataset, subset
from dpnotes.problems.datasets.mnist import MNIST_SHA256, load_mnist
from dpnotes.problems.networks import TwoLayerNetwork
from dpnotes.states import flatten, restore
from dpnotes.streams import Streams

if TYPE_CHECKING:
    import pandas as pd

RULE = (
    "Reproduced if at every data scale the mean influence is positive at every probed step, a straight line in t "
    "explains at least 90% of the variance of ln(influence), and the 95% bootstrap interval of its slope is above 0. "
    "Not reproduced if at some scale the influence is below 0 at a probed step (one-sided t-tests over repeats, 5% "
    "over all scales and probes by Bonferroni), or the line explains less than 70%. Undecided otherwise, and if a run "
    "did not finish."
)
COMMON = {
    "decision_rule": RULE,
    "seed": "influence",
    "num_components": 60,
    "num_hidden": 1000,
    "activation": "tanh",
    "clip": 4.0,
    "step_size": 0.1,
    "epsilon": 4.0,
    "delta": 1e-8,
}
QUICK = Spec(
    "budget_schedules",
    "influence",
    "quick",
    {
        **COMMON,
        "max_norms": [5.0, 10.0, 20.0],
        "num_examples": 1000,
        "num_steps": 50,
        "probes": [1, 10, 25, 40, 50],
        "repeats": 4,
    },
)
PAPER = Spec(
    "budget_schedules",
    "influence",
    "paper",
    {
        **COMMON,
        "max_norms": [2.5, 5.0, 10.0, 20.0],
        "num_examples": 1000,
        "num_steps": 100,
        "probes": [1, *range(5, 101, 5)],
        "repeats": 50,
    },
)


def cells(spec: Spec) -> list[Cell]:
    """One cell a data scale."""
    return [{"max_norm": max_norm} for max_norm in spec["max_norms"]]


def run_cell(spec: Spec, cell: Cell, context: Context) -> dict[str, np.ndarray]:
    """Train privately under the uniform schedule; then again with more noise at one step and all else the same.

    The influence of step t is the change of the final training loss over the variance added at step t, in units of
    sigma_t^2. The added noise is as large as the step's own and used with both signs, which cancels the linear part
    of the change. What happens before step t is not touched by it, so retraining starts there.
    """
    data = subset(_mnist(), spec["num_examples"], spec["seed"])
    projection = preprocessing.fit(data.train_inputs, spec["num_components"], cell["max_norm"])
    inputs, labels = projection.apply(data.train_inputs).to(context.device), data.train_labels.to(context.device)
    problem = TwoLayerNetwork(inputs, labels, spec["num_hidden"], data.num_classes, spec["activation"])
    schedule = uniform(epsilon_to_rho(spec["epsilon"], spec["delta"], "classic"), spec["num_steps"])
    sigma = float(schedule.noise_multipliers[0])
    added_std = spec["step_size"] * sigma * spec["clip"] / spec["num_examples"]
    method = Descent(spec["step_size"])

    def train(repeats: range) -> dict[str, np.ndarray]:
        names = [f"repeat {repeat}" for repeat in repeats]
        streams = Streams.of(spec["seed"], names, context.device)
        oracle = ClippedGradient(problem, spec["clip"], FixedNoise.of([schedule] * len(names), context.device))
        state = method.init(problem.initial(streams), oracle)
        states = [state]
        for _ in range(spec["num_steps"]):
            state = drive(method, oracle, state, streams, 1)
            states.append(state)
        losses = [problem.evaluate(states[-1].x, inputs, labels)[0]]
        finished = states[-1].status == Status.OK
        for step in spec["probes"]:
            added = (added_std * streams.normal("added noise", step, problem.dim)).to(inputs.dtype)
            for shift in (added, -added):
                # A copy: what if the path had gone on from here with the same noise? Nothing of it is published.
                copy = restore(states[step], flatten(states[step]))
                shifted = replace(copy, x=copy.x + shift)
                end = drive(method, oracle, shifted, streams, spec["num_steps"] + 1)
                finished &= end.status == Status.FINISHED
                losses.append(problem.evaluate(end.x, inputs, labels)[0])
        return {
            "losses": torch.stack(losses, dim=1).double().cpu().numpy(),
            "finished": finished.cpu().numpy(),
        }

    # Beside the working set of a run, its whole path is kept: a point a step.
    path = spec["num_steps"] * problem.dim * inputs.element_size()
    columns = context.in_chunks(train, spec["repeats"], bytes_per_run(problem) + path)
    losses = columns["losses"]
    context.record_spent(
        mechanism="gaussian",
        rho=schedule.rho,
        relation="zero-out-one",
        data="mnist",
        runs=losses.size,
        shared_noise=True,
    )
    change = (losses[:, 1::2] + losses[:, 2::2]) / 2 - losses[:, :1]
    repeats, steps = np.meshgrid(np.arange(spec["repeats"]), spec["probes"], indexing="ij")
    return {
        "max_norm": np.full(change.size, cell["max_norm"]),
        "repeat": repeats.ravel(),
        "step": steps.ravel(),
        "influence": change.ravel() / sigma**2,
        "loss": np.repeat(losses[:, 0], change.shape[1]),
        "finished": np.repeat(columns["finished"], change.shape[1]),
    }


@cache
def _mnist() -> Dataset:
    return load_mnist()


def summary(frame: "pd.DataFrame", num_bootstrap: int = 2000) -> "pd.DataFrame":
    """One row a data scale.

    Columns: influence at the first and last probed step; the most negative influence in standard errors; slope of
    ln(mean influence) against the step with its 95% bootstrap interval and R squared (NaN unless all are positive);
    R squared of a straight line through the influence itself, for comparison.
    """
    import pandas as pd

    generator = np.random.default_rng(0)
    rows = []
    for max_norm, part in frame.groupby("max_norm"):
        table = part.pivot(index="repeat", columns="step", values="influence")
        steps, mean, error = table.columns.to_numpy(dtype=np.float64), table.mean().to_numpy(), table.sem().to_numpy()
        row = {"max_norm": max_norm, "first": mean[0], "last": mean[-1], "lowest_z": (mean / error).min()}
        row |= dict.fromkeys(("slope", "low", "high", "r_squared"), np.nan)
        if (mean > 0).all():
            row["slope"], row["r_squared"] = _line(steps, np.log(mean))
            resampled = table.to_numpy()[generator.integers(len(table), size=(num_bootstrap, len(table)))].mean(1)
            slopes = [_line(steps, np.log(means))[0] for means in resampled if (means > 0).all()]
            row["low"], row["high"] = np.quantile(slopes, [0.025, 0.975])
        row["r_squared_linear"] = _line(steps, mean)[1]
        rows.append(row)
    return pd.DataFrame(rows)


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Slope and R squared of a straight line."""
    slope, intercept = np.polyfit(x, y, 1)
    return float(slope), float(1 - np.var(y - slope * x - intercept) / np.var(y))


def decide(frame: "pd.DataFrame", spec: Spec) -> Decision:
    """The rule in the spec."""
    from scipy import stats

    if lost := int((~frame["finished"] | ~np.isfinite(frame["influence"])).sum()):
        return Decision("undecided", f"{lost} of {len(frame)} influences come from runs that did not finish")
    table = summary(frame)
    tests = frame.groupby(["max_norm", "step"]).ngroups
    negative = -float(stats.t.isf(0.05 / tests, spec["repeats"] - 1))
    facts = "; ".join(
        f"data scale {row['max_norm']:g}: "
        + (
            f"slope {row['slope']:.3f} a step in [{row['low']:.3f}, {row['high']:.3f}], R^2 {row['r_squared']:.2f}"
            if np.isfinite(row["slope"])
            else f"lowest influence {row['lowest_z']:.1f} standard errors (critical: {negative:.1f})"
        )
        for _, row in table.iterrows()
    )
    if (table["lowest_z"] < negative).any() or (table["r_squared"] < 0.7).any():
        return Decision("not reproduced", facts)
    if (table["r_squared"] >= 0.9).all() and (table["low"] > 0).all():
        return Decision("reproduced", facts)
    return Decision("undecided", facts)


EXPERIMENT = Experiment(
    paper="budget_schedules",
    name="influence",
    title="Figure 1, left: influence of each step's noise, by retraining",
    question="Does the influence of a step's noise on the final loss grow exponentially with the step?",
    specs={"quick": QUICK, "paper": PAPER},
    cells=cells,
    run_cell=run_cell,
    decide=decide,
    unaccounted=(
        preprocessing.UNACCOUNTED,
        "All runs of a repeat share their noise, so publishing two of them cancels it.",
        "The influence is a difference of exact training losses: the figure is covered by no guarantee.",
    ),
    data=tuple(f"{file} sha256:{digest}" for file, digest in MNIST_SHA256.items()),
    figure=figures.LEFT,
)
