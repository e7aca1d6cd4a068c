"""The needs of stochastic Spider: saddle perturbation, tree, and a drift that is not reset.

Question:
  May a perturbation reset the drift without a fresh gradient, as printed?

The paper:
  Yes: Algorithm 2, lines 9 and 10.

Rule:
  Every combination of saddle perturbation, tree noise and printed lines 9 and 10 (a perturbation resets the drift
  without a fresh gradient) runs on the ramp along a ridge on which the examples agree. Growth is the mean squared
  error of the estimates in the last eighth of the steps over that in the first. Reproduced if at least 95% of the
  runs with perturbation or tree leave the ridge and none without either does; and if, in every combination, growth is
  at least 2 with the lines as printed, and at most 1.25 without. Not reproduced if a run without either leaves, at
  most half of the runs leave in a combination with either, or growth is below 1.25 as printed or above 2 as corrected
  in some combination. Undecided otherwise.

If reproduced:
  No: with the drift reset as printed the error of the estimates grows, without the reset it does not.

If not reproduced:
  Yes: the error does not grow with the reset, or runs stay on the ridge without it.

Prediction:
  errors grow as in stored results, whose scatter over runs is that of gamma laws

Rival:
  the same, but with the tree and the printed lines the squared error grows 1.5 times
"""

import math
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dpnotes.experiments import Cell, Context, Decision, Preregistration, Spec
from dpnotes.experiments.sweeps import SYNTHETIC, Each, Rows, columns_of, grid, profiles, study, tabulated
from dpnotes.papers.adaptive_batch.algorithms import AdaptiveBatchParameters, stochastic_spider
from dpnotes.papers.adaptive_batch.experiments.ramps import Ramps, RampSamples
from dpnotes.random.streams import Streams

WORDS = Preregistration.of(__doc__)
PARAMETERS = {
    "decision_rule": WORDS.rule, "seed": "adaptive_batch.necessity: ramps", "dim": 4, "ratio": 12.0, "amplitude": 8.0,
    # Both hold on all of the ramp: its slope is below the threshold, and a window below kappa.
    "threshold": 6.0, "window": 0.6,
    # Of those that the whole ramp takes, 0.21 B / gamma^2: the errors are those on the ramp.
    "share": 0.15, "accuracy": Each(0.02, 0.005), "repeats": Each(20, 100),
}  # fmt: skip
QUICK, PAPER = profiles("adaptive_batch.necessity", PARAMETERS)
_PARTS = 8  # of the steps


def cells(spec: Spec) -> list[Cell]:
    """One cell a combination of tree and printed lines; runs with and without perturbation are one batch."""
    return grid(tree=(True, False), as_printed=(True, False))


def num_steps(spec: Spec) -> int:
    """The number of steps of a run."""
    return int(spec["share"] * spec["amplitude"] / spec["accuracy"] ** 2)


def ramps(spec: Spec, runs: int) -> Ramps:
    """The instance, with a ridge on which the examples agree, once a run."""
    accuracy, amplitude = (torch.full((runs,), spec[name], dtype=torch.float64) for name in ("accuracy", "amplitude"))
    return Ramps(accuracy, amplitude, spec["dim"], quiet_ridge=True)


def parameters(spec: Spec, perturbed: bool, tree: bool) -> AdaptiveBatchParameters:
    """The parameters of a run, with the theorem's exponents and without logarithms; G = M = 1, alpha = gamma / ratio.

    Batches are those of the sampling regime, and the noise of a tree's node is what they allow for, alpha / sqrt(d).

    Example:
      >>> [round(parameters(QUICK, True, tree).noise_multiplier) for tree in (True, False)]
      [150, 0]
    """
    gamma, alpha = spec["accuracy"], spec["accuracy"] / spec["ratio"]
    kappa = spec["amplitude"] ** (1 / 3)
    sensitivity = 2 * alpha**2 / min(1.0, kappa)
    return AdaptiveBatchParameters(
        accuracy=gamma, gradient_bound=1.0, smoothness=1.0, hessian_lipschitz=float(ramps(spec, 1).hessian_lipschitz),
        drift_threshold=kappa, first_batch=1 / alpha**2, batch_per_gradient=kappa / alpha**2,
        noise_multiplier=alpha / math.sqrt(spec["dim"]) / sensitivity if tree else 0.0, num_steps=num_steps(spec),
        step_size=1.0, threshold=spec["threshold"] * gamma, window=math.floor(spec["window"] * kappa / (4 * gamma)),
        perturbation=gamma / 3 if perturbed else 0.0, max_leaves=num_steps(spec),
        origin="the exponents of Theorem 3.11",
    )  # fmt: skip


def run_cell(spec: Spec, cell: Cell, context: Context) -> dict[str, Any]:
    """Runs of equal length on one instance; nothing stops them at a stationary point."""
    asked = [(perturbed, repeat) for perturbed in (True, False) for repeat in range(spec["repeats"])]
    given = {perturbed: parameters(spec, perturbed, cell["tree"]) for perturbed in (True, False)}
    steps = num_steps(spec)

    def run(chosen: range) -> dict[str, Any]:
        part = [asked[i] for i in chosen]
        # The draws of a repeat are the same in every combination.
        streams = Streams.of(spec["seed"], [f"{repeat}" for _, repeat in part])
        landscape = ramps(spec, len(part))
        squares, left = torch.zeros(_PARTS, len(part)).double(), torch.zeros(len(part), dtype=torch.bool)
        points = [landscape.start]  # the last one is where the next estimate is asked for

        def observe(going: Tensor, state: Any, estimate: Any) -> None:
            x, step = points.pop(), int(state.steps.max()) - 1
            squares[step * _PARTS // steps] += (landscape.gradient(x) - estimate.gradient).square().sum(1)
            left.logical_or_(x[:, 1].abs() > math.pi / 2)
            points.append(state.x)

        runs = stochastic_spider(
            RampSamples(landscape), [given[perturbed] for perturbed, _ in part], landscape.start, streams, delta=1e-6,
            as_printed=cell["as_printed"], observe=observe,
        )  # fmt: skip
        counts = np.bincount(np.arange(steps) * _PARTS // steps, minlength=_PARTS)
        mean = squares.numpy() / counts[:, None] / spec["accuracy"] ** 2
        errors = {"early": mean[0], "middle": mean[_PARTS // 2], "late": mean[-1]}
        fresh, windows = runs.state.oracle.meter.refreshes.double(), runs.state.perturbations.double()
        return {"left": left, "fresh": fresh, "windows": windows, **errors}

    columns = context.in_chunks(run, len(asked), 8 * 60 * (spec["dim"] + 1))
    if cell["tree"]:
        multiplier = given[True].noise_multiplier
        context.record_spent(mechanism="tree", noise_multiplier=multiplier, nominal=True, **SYNTHETIC)
    return {**cell, **columns_of("perturbed repeat", asked), **columns}


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a combination: the fraction that left; squared errors over gamma^2 in three eighths of the steps."""
    columns = ["left", "fresh", "windows", "early", "middle", "late"]
    table = frame.groupby(["perturbed", "tree", "as_printed"])[columns].mean()
    return table.assign(growth=table["late"] / table["early"]).reset_index()


def decide(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The rule in the spec."""
    table = summary(frame)
    moved = table["perturbed"] | table["tree"]
    leaves, stays = float(table.loc[moved, "left"].min()), float(table.loc[~moved, "left"].max())
    printed = table["as_printed"].to_numpy(dtype=bool)
    grows, kept = float(table.loc[printed, "growth"].min()), float(table.loc[~printed, "growth"].max())
    facts = (
        f"{leaves:.0%} or more leave the ridge with perturbation or tree, {stays:.0%} without either; as printed the "
        f"squared error grows {grows:.1f} times or more, as corrected {kept:.2f} times or less"
    )
    good = leaves >= 0.95 and grows >= 2 and kept <= 1.25
    return Decision.by(facts, failed=stays > 0 or leaves <= 0.5 or grows < 1.25 or kept > 2, passed=good)


# ---------------------------------------------------------------- simulated results
# Mean and coefficient of variation over runs of squared errors over gamma^2 in the first and last eighth of the steps,
# by tree and printed lines, at either accuracy: of stored results, earlier quick ones of 20 repeats.
_ERRORS = {
    "quick": {
        (False, False): (0.0048, 0.25, 0.0048, 0.25), (True, False): (0.0225, 0.1, 0.0225, 0.1),
        (False, True): (0.0064, 0.6, 0.08, 1.05), (True, True): (0.0366, 0.2, 0.146, 1.05),
    },
    "paper": {
        (False, False): (0.0048, 0.15, 0.0048, 0.14), (True, False): (0.029, 0.04, 0.029, 0.04),
        (False, True): (0.02, 1.2, 0.35, 1.3), (True, True): (0.061, 0.37, 0.43, 1.05),
    },
}  # fmt: skip


@tabulated
def simulated(spec: Spec, generator: np.random.Generator, right: bool) -> Rows:
    """Errors with gamma laws; by the rival those of the printed lines with the tree grow by half."""

    def squares(mean: float, variation: float) -> np.ndarray:
        return generator.gamma(variation**-2, mean * variation**2, spec["repeats"])

    for cell in cells(spec):
        tree, printed = cell["tree"], cell["as_printed"]
        first, first_scatter, last, last_scatter = _ERRORS[spec.profile][tree, printed]
        if tree and printed and not right:
            last = 1.5 * first
        for perturbed in (True, False):
            errors = {"early": squares(first, first_scatter), "late": squares(last, last_scatter), "middle": first}
            yield {**cell, **errors, "perturbed": perturbed, "left": perturbed or tree, "fresh": 2, "windows": 188}


EXPERIMENT = study(
    WORDS, [QUICK, PAPER], (cells, run_cell, decide, simulated),
    chances={"quick": (0.995, 0.015), "paper": (1.0, 0.0)}, cpu_only=True,
)  # fmt: skip
