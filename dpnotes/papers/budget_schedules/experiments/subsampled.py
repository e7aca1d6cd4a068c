"""Section 4.3, trained: schedules of random batches.

Question:
  Does an exponentially decaying schedule train better where every step sees a random batch?

The paper:
  Yes: Section 4.3, which carries the results over to random batches.

Rule:
  At equal (epsilon, delta), by the Renyi divergences of the subsampled Gaussian and not by the paper's R / p^2, which
  is not private, at the decay rate that does best on Gaussian auxiliary data: reproduced if the 95% interval of the
  paired differences over common seeds shows a lower training loss for the exponential schedule, as Section 4.3
  carries over from whole data sets to random batches. Not reproduced if it shows a higher one. Undecided otherwise,
  and if a run that the interval uses did not finish.

If reproduced:
  Yes: its training loss is lower.

If not reproduced:
  No: its training loss is higher.

Prediction:
  half the gain of a pilot of 8 repeats, scattered as there

Rival:
  no gain
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dpnotes.core import Relation, Sampling, Status
from dpnotes.experiments import FLOAT32, Cell, Context, Decision, Preregistration, Spec
from dpnotes.experiments.sweeps import Each, Rows, mean_interval, profiles, study, tabulated
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.papers.budget_schedules.experiments import digits
from dpnotes.papers.budget_schedules.experiments.digits import tuning_cells
from dpnotes.privacy.accounting import account
from dpnotes.privacy.calibration import noise_multiplier
from dpnotes.privacy.events import Event
from dpnotes.privacy.schedules import exponential, uniform
from dpnotes.problems.networks import TwoLayerNetwork
from dpnotes.random.streams import Streams

WORDS = Preregistration.of(__doc__)
PARAMETERS = {
    "decision_rule": WORDS.rule, "seed": "subsampled, training", **digits.SETTING, "num_steps": 100,
    "sampling_rate": 0.1, "num_examples": 1000, "repeats": Each(16, 100),
    "rates": Each([0.95, 0.98], [0.93, 0.95, 0.97, 0.98, 0.99, 0.995]),
    "repeats_a_cell": Each(16, 50), "auxiliary_repeats": Each(2, 10),
}  # fmt: skip
QUICK, PAPER = profiles("budget_schedules.subsampled", PARAMETERS, quick={"num_hidden": 200})


def main_cells(spec: Spec, frame: pd.DataFrame) -> list[Cell]:
    """Second stage: the private data, each cell carrying the rate that the auxiliary data chose."""
    tuned = frame[(frame["stage"] == "tune") & (frame["schedule"] == "exponential")]
    rate = float(digits.best(tuned, "rate"))
    parts = digits.in_parts(spec["repeats"], spec["repeats_a_cell"])
    return [{"stage": "main", "repeats": repeats, "rate": rate} for repeats in parts]


@lru_cache
def multipliers(rate: float, num_steps: int, sampling_rate: float, epsilon: float, delta: float) -> tuple[float, ...]:
    """Noise over sensitivity of every step: the shape of a schedule, scaled until its batches are (epsilon, delta)-DP.

    The shape of a whole data set's schedule: the cost of a batch is about p^2 times a whole step's as long as the
    noise is not small, which is the paper's argument. The scale is the accountant's.
    """
    shape = (uniform(1.0, num_steps) if rate == 1 else exponential(rate, 1.0, num_steps)).noise_multipliers

    def events(scale: float) -> list[Event]:
        return released(scale * shape, sampling_rate)

    return tuple(float(level) for level in noise_multiplier(events, epsilon, delta, "RDP") * shape)


def released(levels: Sequence[float] | np.ndarray, sampling_rate: float) -> list[Event]:
    """The releases of a run, a Poisson batch each."""
    sampling = Sampling.poisson(sampling_rate)
    return [Event(float(level), Relation.ZERO_OUT, sampling) for level in levels]


def train(spec: Spec, problem: TwoLayerNetwork, levels: Any, names: list[str]) -> tuple[Tensor, Tensor]:
    """The end of descent, each step with its own noise, `levels` being `(runs, steps)`; and which runs finished.

    An oracle of random batches has one level of noise, so each step has an oracle, and draws, of its own. Descent
    without momentum remembers its point and nothing else. What is claimed for all steps together is `released`.
    """
    method, device = Descent(spec["step_size"]), problem.inputs.device
    sampling = Sampling.poisson(spec["sampling_rate"])
    sensitivity = spec["clip"] / (spec["sampling_rate"] * spec["num_examples"])
    stds = torch.as_tensor(np.array(levels) * sensitivity, dtype=torch.float64, device=device)
    x = problem.initial(Streams.of(spec["seed"], names, device))
    finished = torch.ones(len(names), dtype=torch.bool, device=device)
    for step in range(spec["num_steps"]):
        std = stds[:, step].clone()
        oracle = MinibatchGradient(problem, sampling, std, spec["clip"], 1, Relation.ZERO_OUT, clipped=True)
        streams = Streams.of(spec["seed"], [f"{name}/step {step}" for name in names], device)
        state = drive(method, oracle, method.init(x, oracle), streams, 1)
        x, finished = state.x, finished & (state.status == Status.OK)
    return x, finished


def run_cell(spec: Spec, cell: Cell, context: Context) -> dict[str, Any]:
    """Both schedules; the runs of a repeat share examples, start, batches and noise."""
    tuning = cell["stage"] == "tune"
    rates = [1.0, *(spec["rates"] if tuning else [cell["rate"]])]
    budget = [spec[name] for name in ("num_steps", "sampling_rate", "epsilon", "delta")]
    of_rate = {rate: multipliers(rate, *budget) for rate in rates}
    sets = digits.Sets.of(spec, cell["stage"], spec["num_examples"], cell["repeats"], context.device)
    for levels in of_rate.values() if not tuning else ():
        claim = account(released(levels, spec["sampling_rate"]), spec["delta"], "RDP")
        sampling = f"poisson {spec['sampling_rate']:g}, which the rho does not count"
        spent = {"rho": sum(0.5 / level**2 for level in levels), "sampling": sampling, **digits.SPENT}
        context.record_spent(epsilon=claim.epsilon, delta=spec["delta"], runs=len(cell["repeats"]), **spent)
    kinds = {rate: "uniform" if rate == 1 else "exponential" for rate in rates}
    plans = [(kinds[rate], rate, levels[-1], levels) for rate, levels in of_rate.items()]
    return digits.trained(sets, cell, "schedule rate last_multiplier", plans, context, partial(train, spec))


@tabulated
def summary(frame: pd.DataFrame) -> Rows:
    """One row a metric: both means, and exponential minus uniform over common seeds with its 95% interval."""
    main = frame[frame["stage"] == "main"]
    for metric in ("train_loss", "test_accuracy"):
        table = main.pivot(index="repeat", columns="schedule", values=metric)
        mean, low, high = mean_interval((table["exponential"] - table["uniform"]).to_numpy())
        means = {kind: float(table[kind].mean()) for kind in ("exponential", "uniform")}
        yield {"metric": metric, **means, "difference": mean, "low": low, "high": high}


def decide(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The rule in the spec."""
    main = frame[frame["stage"] == "main"]
    if unfinished := digits.unfinished(main):
        return unfinished
    table = summary(frame).set_index("metric")
    rate = main.loc[main["schedule"] == "exponential", "rate"].iloc[0]
    loss, accuracy = (tuple(table.loc[metric, ["difference", "low", "high"]]) for metric in table.index)
    facts = (
        f"batches of {spec['sampling_rate']:.0%}, rate {rate:g}, exponential minus uniform: training loss "
        f"{digits.shown(loss)}, test accuracy {digits.shown(accuracy)}"
    )
    return Decision.by(facts, passed=loss[2] < 0, failed=loss[1] > 0)


# ---------------------------------------------------------------- simulated results
@tabulated
def simulated(spec: Spec, generator: np.random.Generator, right: bool) -> Rows:
    """Half the gain that a pilot of 8 repeats found, or none; its paired scatter."""
    gain, scatter = 0.0016 * right, 0.0012
    for rows in digits.simulated_pair(generator, spec["repeats"], "exponential", 0.01, gain, scatter):
        yield {**rows, "rate": 1.0 if rows["schedule"] == "uniform" else 0.98}


EXPERIMENT = study(
    WORDS, [QUICK, PAPER], (tuning_cells, run_cell, decide, simulated),
    chances={"quick": (1.0, 0.015), "paper": (1.0, 0.025)}, stages=(main_cells,), tolerances=FLOAT32,
    unaccounted=digits.UNACCOUNTED, data=digits.DATA,
)  # fmt: skip
