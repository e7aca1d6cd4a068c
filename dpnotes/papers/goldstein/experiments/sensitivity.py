"""Lengths of estimates from losses and of their increments: ours, sqrt(d / m), against Lemma 3.4's d / sqrt(m).

The sensitivity of an oracle is what one example can do, so it is these lengths over the batch. Lemma 3.4 of the paper
bounds a pair of losses by d L, and so the error of m pairs by `d L / sqrt(m)`, whatever the move. Two losses on
opposite sides of a sphere differ by less: the error is at most `d L / sqrt((d - 1) m)` in root mean square, about
`L sqrt(d / m)` (claim goldstein.own.norm), and that of an increment is in proportion to the move, if both points
are asked in the same directions (goldstein.own.common).

Question:
  Is an estimate off by sqrt(d/m) only, and does an increment need the same directions at both points?

The paper:
  No claim: Lemma 3.4 has the larger bound d/sqrt(m), which is true, and directions that are not common.

Rule:
  Root mean squares over estimates of one example; L = alpha = 1, m directions. Lemma 3.4, with a norm of d for a
  pair, promises an error of d / m^(1/2) whatever the move: at a fixed m/d it grows as d^(1/2). Reproduced (the sharp
  norm is right, and common directions pay) if exponents are met within 0.05, with standard errors of at most 0.0125:
  for every loss of the error of an estimate, -1/2 in m/d and 0 in d at a fixed m/d; for every curved loss of the
  length of an increment, with common directions and m of 32 d and more 0 in m and 1 in the move, with independent
  ones -1/2 in m and 0 in the move; and if no error is above the bound d / ((d - 1) m)^(1/2) by 4 standard errors, and
  the squared errors of the linear loss over their expectation, (d - 1) / m, are 1 on average within 4. Not reproduced
  if an exponent in d at a fixed m/d is above 1/4, or with common directions one in the move below 1/2, by 4 standard
  errors, or an error is above the bound by as much. Undecided otherwise.

If reproduced:
  Yes: the error of an estimate is sqrt(d/m), and an increment is short only with common directions.

If not reproduced:
  No: the error of an estimate or the length of an increment has another exponent.

Prediction:
  the sharp norm, and increments in proportion to the move; lengths scatter as in the quick result

Rival:
  the same, but errors at a fixed m/d grow as d^(1/4), half of Lemma 3.4's exponent
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dpnotes.experiments import Cell, Context, Decision, Preregistration, Spec
from dpnotes.experiments.sweeps import Each, Rows, grid, joined, profiles, study, tabulated
from dpnotes.papers.goldstein.experiments.estimates import Estimated, exponents
from dpnotes.papers.goldstein.experiments.generalisation import smoothed_gradients
from dpnotes.papers.goldstein.smoothed import PointLosses, SmoothedSamples
from dpnotes.problems.nonsmooth import MinOfNorms
from dpnotes.problems.robust import RobustRegression
from dpnotes.problems.smoothing import smoothed_absolute, smoothed_norm
from dpnotes.random.streams import Streams

WORDS = Preregistration.of(__doc__)
PARAMETERS = {
    "decision_rule": WORDS.rule, "seed": "goldstein.sensitivity: lengths", "repeats": 100,
    # By resampling estimates of other seeds, multiplied to follow a law: 300 times this one, 100 times each rival.
    "chances": {
        "sharp norm, increments in proportion to the move": "reproduced 1",
        "errors at a fixed m/d as d^(1/2), Lemma 3.4": "not reproduced 1",
        "errors at a fixed m/d as d^(1/4)": "undecided 0.86, not reproduced 0.14",
        "increments with common directions whatever the move": "not reproduced 1",
    },
    "estimates": Each(
        {"dims": [16, 64, 256], "ratios": [0.25, 1.0, 4.0]},
        {"dims": [16, 64, 256, 1024], "ratios": [0.25, 0.5, 1.0, 2.0, 4.0]},
    ),
    "increments": {"dim": Each(16, 32), "ratios": [32.0, 64.0, 128.0, 256.0], "moves": [1e-5, 1e-4, 1e-3]},
}  # fmt: skip
QUICK, PAPER = profiles("goldstein.sensitivity", PARAMETERS)
LOSSES = ("linear", "phase", "norm")
CURVED = LOSSES[1:]  # increments of a linear loss with common directions are 0


@dataclass(frozen=True, eq=False)
class Loss:
    """A loss with Lipschitz constant 1 whose smoothed gradient is known; alpha = 1.

    Args:
      problem: one example.
      x: `(dim,)`, where it is asked.
      direction: `(dim,)`, of length 1, of the move.
    """

    problem: PointLosses
    x: Tensor
    direction: Tensor

    def gradient(self, x: Tensor) -> Tensor:
        """Of the smoothed loss, `(dim,)`."""
        if isinstance(self.problem, MinOfNorms):
            differences = x - self.problem.centers[0]
            distance = differences.norm()
            return smoothed_norm(distance, 1.0, len(x))[1] * differences / distance
        assert isinstance(self.problem, RobustRegression)
        if self.problem.link == "absolute":
            return smoothed_gradients(self.problem, x[None], 1.0)[0]
        (row,), (target,) = self.problem.inputs, self.problem.targets
        return smoothed_absolute(row @ x - target, 1.0, len(x))[1] * row


def loss(name: str, dim: int) -> Loss:
    """The losses that are asked, each where a direction sees as much of it in any dimension.

    * "linear": `a'x`, as an absolute error far from its kink; the longest estimates that there are.
    * "phase": `||a'x| - b|` with its kinks within half a standard deviation of `a'y`; it is moved along a.
    * "norm": `|x - c|` at a distance of 1; it is moved half along the distance.

    Example:
      >>> one = loss("norm", 100)
      >>> one.gradient(one.x).norm().round(decimals=2)
      tensor(0.7100, dtype=torch.float64)
    """
    axes = torch.eye(2, dim, dtype=torch.float64)
    first, both = axes[0], axes.sum(0) / math.sqrt(2)
    if name == "norm":
        return Loss(MinOfNorms(0 * axes[:1], 0 * axes[:1]), first, both)
    unit = 1 / math.sqrt(dim)
    if name == "linear":
        return Loss(RobustRegression(axes[:1], first[:1] * -10), 0 * first, both)
    return Loss(RobustRegression(axes[:1], first[:1] * unit, "absolute"), 0.5 * unit * first, first)


def cells(spec: Spec) -> list[Cell]:
    """One cell a loss and dimension; then one a loss, move and way of drawing directions."""
    estimates, increments = spec["estimates"], spec["increments"]
    longest = sorted(estimates["dims"], reverse=True)
    return [
        *grid(dim=longest, loss=LOSSES, ratios=[estimates["ratios"]], move=[0.0], directions=["common"]),
        *grid(
            directions=("independent", "common"), move=increments["moves"], loss=CURVED, dim=[increments["dim"]],
            ratios=[increments["ratios"]],
        ),
    ]  # fmt: skip


@joined
def run_cell(spec: Spec, cell: Cell, context: Context) -> Rows:
    """Estimates through the oracle's own source of them, unclipped: a run is one estimate of the one example."""
    given, dim, move = loss(cell["loss"], cell["dim"]), cell["dim"], cell["move"]
    after = given.x + move * given.direction
    exact = given.gradient(after) - (given.gradient(given.x) if move else 0.0)
    about = {name: cell[name] for name in ("loss", "dim", "move", "directions")}
    for ratio in cell["ratios"]:
        directions = round(ratio * dim)
        independent = cell["directions"] == "independent"
        samples = SmoothedSamples(given.problem, 1.0, directions, independent=independent, clipped=False)

        def run(repeats: range, samples: SmoothedSamples = samples) -> dict[str, Tensor]:
            place = f"{cell['loss']}/{dim}/{samples.directions}/{move}/{cell['directions']}"
            streams = Streams.of(spec["seed"], [f"{place}/{repeat}" for repeat in repeats])
            zero = torch.zeros(len(repeats), dtype=torch.int64)
            batch = samples.batch(zero, zero + 1, streams, zero)
            at, before = (point.expand(len(repeats), dim) for point in (after, given.x))
            found = batch.term(at, before, zero == (1 if move else 0), torch.full((len(repeats),), torch.inf))
            return {"length": found.norm(dim=1), "error": (found - exact).norm(dim=1)}

        columns = context.in_chunks(run, spec["repeats"], 8 * 16 * directions * dim)
        named = {"ratio": ratio, "num_directions": directions, "repeat": np.arange(spec["repeats"])}
        yield {**about, **named, "exact": float(exact.norm()), **columns}


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a loss, dimension, move, way and number of directions: root mean squares with their standard errors."""
    keys = ["loss", "dim", "move", "directions", "ratio", "num_directions"]
    squares = frame.assign(length=frame["length"] ** 2, error=frame["error"] ** 2)
    groups = squares.assign(largest=frame["length"]).groupby(keys, sort=False)
    table = groups.agg(
        exact=("exact", "first"), largest=("largest", "max"), length=("length", "mean"), length_sem=("length", "sem"),
        error=("error", "mean"), error_sem=("error", "sem"),
    ).reset_index()  # fmt: skip
    for name in ("length", "error"):
        table[name] **= 0.5
        table[f"{name}_sem"] /= 2 * table[name]  # of a root
    # In root mean square no estimate at a point is farther off.
    table["bound"] = table["dim"] / ((table["dim"] - 1) * table["num_directions"]) ** 0.5
    return table


def laws(frame: pd.DataFrame) -> dict[tuple[str, str, str], Estimated]:
    """Exponents by loss, of what ("estimate", or an increment's directions) and in which knob.

    Of the error of an estimate in m/d and in d; of the length of an increment in m and in the move.
    """
    table, found = summary(frame), {}
    for name, part in table[table["move"] == 0].groupby("loss", sort=False):
        fits = exponents(part["error"], part["error_sem"], ratio=part["ratio"], dim=part["dim"])
        found |= {(str(name), "estimate", knob): fit for knob, fit in fits.items()}
    for (name, directions), part in table[table["move"] > 0].groupby(["loss", "directions"], sort=False):
        fits = exponents(part["length"], part["length_sem"], directions=part["num_directions"], move=part["move"])
        found |= {(str(name), str(directions), knob): fit for knob, fit in fits.items()}
    return found


EXPECTED = {
    ("estimate", "ratio"): -0.5, ("estimate", "dim"): 0.0, ("independent", "directions"): -0.5,
    ("independent", "move"): 0.0, ("common", "directions"): 0.0, ("common", "move"): 1.0,
}  # fmt: skip


def decide(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The rule in the spec."""
    table, found = summary(frame), laws(frame)
    estimates = table[table["move"] == 0]
    above = float(((estimates["error"] - estimates["bound"]) / estimates["error_sem"]).max())
    linear = frame[(frame["loss"] == "linear") & (frame["move"] == 0)]
    shares = linear["error"] ** 2 * linear["num_directions"] / (linear["dim"] - 1)
    share = Estimated(float(shares.mean()), float(shares.sem()))
    words, wrong, met = [], above > 4, abs(share.off(1.0)) <= 4
    for (name, what, knob), fit in found.items():
        expected = EXPECTED[what, knob]
        words.append(f"{name}, {what} in {knob}: {fit} for {expected:g}")
        met &= abs(fit.value - expected) <= 0.05 and fit.standard_error <= 0.0125
        wrong |= (what, knob) == ("estimate", "dim") and fit.off(0.25) > 4
        wrong |= (what, knob) == ("common", "move") and fit.off(0.5) < -4
    words.append(
        f"errors are above the bound by {above:.1f} standard errors at most, and the squared ones of the linear loss "
        f"over their expectation are {share}"
    )
    return Decision.by("; ".join(words), failed=wrong, passed=met)


# ---------------------------------------------------------------- simulated results
# The squared error of an estimate in multiples of (d - 1) / m; of increments the length over the move, its scatter with
# 32 directions a coordinate, and the length with independent directions over m^(-1/2).
_ERROR = {"linear": 1.0, "phase": 0.105, "norm": 0.5}
_INCREMENT = {"phase": (1.04, 0.113, 1.8), "norm": (0.57, 0.052, 3.97)}


@tabulated
def simulated(spec: Spec, generator: np.random.Generator, right: bool) -> Rows:
    """Lengths and errors by the laws; by the rival errors at a fixed m/d grow as d^(1/4)."""
    count = spec["repeats"]
    for cell, ratio in [(one, ratio) for one in cells(spec) for ratio in one["ratios"]]:
        loss, dim, move = cell["loss"], cell["dim"], cell["move"]
        many = round(ratio * dim)
        draws = generator.standard_normal(count)
        if move:
            length, scatter, independent = _INCREMENT[loss]
            length, scatter = length * move, scatter * (32 / ratio) ** 0.5
            if cell["directions"] == "independent":
                length, scatter = independent / many**0.5, 0.18
            lengths = length * (1 + scatter * draws)
        else:
            law = 1.0 if right else (dim / min(spec["estimates"]["dims"])) ** 0.25
            # A squared error is a mean of about so many terms.
            scatter = 4 * (0.55 + 0.32 / ratio) / dim
            squares = generator.gamma(1 / scatter, scatter, count)
            lengths = law * (_ERROR[loss] * (dim - 1) / many * squares) ** 0.5
        about = {"loss": loss, "dim": dim, "move": move, "directions": cell["directions"], "exact": 1.0}
        yield {**about, "ratio": ratio, "num_directions": many, "length": lengths, "error": lengths}


EXPERIMENT = study(
    WORDS, [QUICK, PAPER], (cells, run_cell, decide, simulated), chances={"quick": (1.0, 0.0), "paper": (1.0, 0.0)},
    rule=("chances",), cpu_only=True,
)  # fmt: skip
