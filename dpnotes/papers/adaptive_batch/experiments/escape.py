"""Escape from a saddle against batch size: the counterexample to Lemma 3.3.

Question:
  Does descent at the step size 1 / M leave a saddle of curvature -lambda with batches of every size?

The paper:
  Yes: Lemma 3.3, from Wang et al. (2019), which asks for accurate estimates alone.

Rule:
  On f(x; z) = ((M - lambda) z - lambda) x^2 / 2 the Lyapunov exponent of descent on batches of b changes its sign
  where eta = 2 b lambda / M^2, to first order in lambda: at the step size 1 / M where b = M / (2 lambda). Reproduced
  if, for both laws of z and in every row, the exponent's sign changes once, at 0.8 to 1.25 times that boundary by
  interpolation, and exponents outside of that range are over 4 standard errors from 0; at most 10% of runs escape at
  half the boundary or less, and at least 90% at twice the boundary or more; and, with coins and batches of 1 at the
  step size 1 / M, the exponent is ln(4 lambda / M) / 2 within 4 standard errors. Not reproduced if an exponent has
  the other sign by more than 4 standard errors at half or twice the boundary or beyond, or either fraction is on the
  other side of 50%. Undecided otherwise.

If reproduced:
  No: batches of fewer than about M / (2 lambda) examples do not leave the saddle.

If not reproduced:
  Yes: some batch below the boundary M / (2 lambda) leaves, or some batch above it stays.

Prediction:
  exponents are those of the first order in lambda, and logarithms of lengths are random walks

Rival:
  the same, with the sign's change at 1.5 times the predicted boundary
"""

from functools import partial

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dpnotes.experiments import Cell, Context, Decision, Preregistration, Spec
from dpnotes.experiments.sweeps import Each, Rows, grid, joined, profiles, study, tabulated
from dpnotes.random.streams import Streams

WORDS = Preregistration.of(__doc__)
PARAMETERS = {
    "decision_rule": WORDS.rule, "seed": "adaptive_batch.escape",
    # Both in units of the deterministic escape: ln of the ratio of lengths, and steps times eta lambda.
    "leaves_at": 8.0, "window": 50.0, "ratios": [0.25, 0.5, 0.8, 1.25, 2.0, 4.0], "repeats": Each(100, 400),
    "curvatures": Each([0.0125, 0.025, 0.05], [0.003125, 0.00625, 0.0125, 0.025, 0.05]),
    "batches": Each([1, 4], [1, 4, 16]), "curvature": Each(0.05, 0.025),
}  # fmt: skip
QUICK, PAPER = profiles("adaptive_batch.escape", PARAMETERS)


def cells(spec: Spec) -> list[Cell]:
    """One cell a row: a curvature at the step size 1 / M, or a batch size at one curvature; for either law of z."""
    rows = grid(curvature=spec["curvatures"], batch=[0]) + grid(curvature=[spec["curvature"]], batch=spec["batches"])
    return [{"law": law, **row} for law in ("coins", "normal") for row in rows]


def points(spec: Spec, cell: Cell) -> list[Cell]:
    """The points of a row: batch size and step size, in units of 1 / M, of which one moves."""
    lam, batch = cell["curvature"], cell["batch"]
    about = {"law": cell["law"], "row": f"b = {batch}" if batch else "eta = 1 / M", "curvature": lam}
    sizes = sorted({1, *(max(1, round(ratio / (2 * lam))) for ratio in spec["ratios"])})
    pairs = [(size, 1.0) for size in sizes]
    if batch:
        pairs = [(batch, step) for ratio in spec["ratios"] if (step := 2 * batch * lam / ratio) <= 1]
    return [{**about, "ratio": 2 * size * lam / step, "batch": size, "step_size": step} for size, step in pairs]


def num_steps(spec: Spec, point: Cell) -> int:
    """The number of steps at a point."""
    return round(spec["window"] / (point["step_size"] * point["curvature"]))


def batch_means(law: str, batch: int, streams: Streams, num_steps: int) -> Tensor:
    """The mean of z over fresh batches, `(runs, num_steps)`: standard normals, or coins of +1 and -1.

    Example:
      >>> batch_means("coins", 1, Streams.of(0, ["a"]), 4).abs()
      tensor([[1., 1., 1., 1.]], dtype=torch.float64)
    """
    if law == "normal":
        return streams.normal("batches", 0, num_steps) / batch**0.5
    from scipy.stats import binom

    below = torch.from_numpy(binom.cdf(np.arange(batch), batch, 0.5))
    heads = torch.searchsorted(below, streams.uniform("batches", 0, num_steps))
    return 2 * heads.double() / batch - 1


def factors(means: Tensor, curvature: float, step_size: float) -> Tensor:
    """The factor of x in one step, in units where M = 1: `1 + eta (lambda - (1 - lambda) z)`."""
    return 1 + step_size * (curvature - (1 - curvature) * means)


def products(spec: Spec, point: Cell, repeats: range) -> dict[str, Tensor]:
    """Runs at a point; a run is a product of random factors."""
    law, lam, size, step = (point[name] for name in ("law", "curvature", "batch", "step_size"))
    steps = num_steps(spec, point)
    streams = Streams.of(spec["seed"], [f"{law}/{lam:g}/{size}/{step:g}/{repeat}" for repeat in repeats])
    logs = factors(batch_means(law, size, streams, steps), lam, step).abs().log().cumsum(1)
    return {"exponent": logs[:, -1] / steps, "escaped": logs.amax(1) >= spec["leaves_at"]}


@joined
def run_cell(spec: Spec, cell: Cell, context: Context) -> Rows:
    """All runs of a row, point by point."""
    count = spec["repeats"]
    for point in points(spec, cell):
        columns = context.in_chunks(partial(products, spec, point), count, 8 * 12 * num_steps(spec, point))
        yield {**point, "repeat": range(count), **columns}


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a point: exponent over eta lambda with its standard error, and the fraction that escaped."""
    keys = ["law", "row", "curvature", "batch", "step_size", "ratio"]
    groups = frame.groupby(keys, sort=False)
    table = groups[["exponent", "escaped"]].mean().assign(standard_error=groups["exponent"].sem())
    return table.reset_index()[[*keys, "exponent", "standard_error", "escaped"]]


@tabulated
def boundaries(frame: pd.DataFrame) -> Rows:
    """One row a row of the map: where the exponent changes its sign, over the prediction; NaN unless it does so once.

    The exponent over eta lambda is `1 - 1 / ratio` to first order, so it is interpolated against `1 / ratio`.
    """
    for (law, row, curvature), part in summary(frame).groupby(["law", "row", "curvature"], sort=False):
        part = part.sort_values("ratio")
        inverse, exponent = 1 / part["ratio"].to_numpy(), (part["exponent"] / part["step_size"]).to_numpy()
        changes = np.flatnonzero(np.sign(exponent[1:]) != np.sign(exponent[:-1]))
        found = np.nan
        if len(changes) == 1:
            i = int(changes[0])
            share = exponent[i] / (exponent[i] - exponent[i + 1])
            found = 1 / (inverse[i] + share * (inverse[i + 1] - inverse[i]))
        yield {"law": law, "row": row, "curvature": curvature, "boundary": found}


def decide(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The rule in the spec."""
    table, found = summary(frame), boundaries(frame)
    z = table["exponent"] / table["standard_error"]
    below, above = table["ratio"] < 0.55, table["ratio"] > 1.8
    stays, leaves = float(table.loc[below, "escaped"].max()), float(table.loc[above, "escaped"].min())
    low, high = float(found["boundary"].min()), float(found["boundary"].max())
    one = table[(table["law"] == "coins") & (table["batch"] == 1) & (table["step_size"] == 1.0)]
    exact = np.log(4 * one["curvature"]) / 2
    off = float(((one["exponent"] - exact) / one["standard_error"]).abs().max())
    facts = (
        f"the sign changes at {low:.2f} to {high:.2f} of the predicted boundary; at most {stays:.0%} of runs escape at "
        f"half of it, at least {leaves:.0%} at twice of it; batches of one coin are {off:.1f} standard errors from "
        f"ln(4 lambda / M) / 2"
    )
    away = ~table["ratio"].between(0.8, 1.25)
    sure = found["boundary"].between(0.8, 1.25).all() and (z[away].abs() > 4).all()
    good = sure and stays <= 0.1 and leaves >= 0.9 and off <= 4
    bad = (z[below] > 4).any() or (z[above] < -4).any() or stays > 0.5 or leaves < 0.5
    return Decision.by(facts, failed=bad, passed=good)


# ---------------------------------------------------------------- simulated results
@tabulated
def simulated(spec: Spec, generator: np.random.Generator, right: bool) -> Rows:
    """Exponents of random walks of logarithms, to first order; the rival's boundary is at half as large batches again.

    A step of the logarithm has the mean `eta lambda (1 - 1 / ratio)` and the variance `2 eta lambda / ratio`. One coin
    at the step size 1 / M is exact. A walk of t steps with drift m and deviation s has passed a height by the law of an
    inverse Gaussian.
    """
    from scipy.stats import norm

    height, count = spec["leaves_at"], spec["repeats"]
    for point in (point for cell in cells(spec) for point in points(spec, cell)):
        lam, ratio, step, steps = point["curvature"], point["ratio"], point["step_size"], num_steps(spec, point)
        mean, std = step * lam * (1 - (1.0 if right else 1.5) / ratio), (2 * step * lam / ratio) ** 0.5
        if point["law"] == "coins" and point["batch"] == 1 and step == 1.0:
            mean, std = np.log(4 * lam) / 2, np.log(1 / lam) / 2
        length = std * steps**0.5
        # The second term is of walks that are below the height again at the end.
        passed = norm.sf((height - mean * steps) / length)
        passed += np.exp(min(2 * height * mean / std**2, 700)) * norm.sf((height + mean * steps) / length)
        exponent = mean + std / steps**0.5 * generator.standard_normal(count)
        escaped = generator.random(count) < min(passed, 1.0)
        yield {**point, "repeat": range(count), "exponent": exponent, "escaped": escaped}


EXPERIMENT = study(
    WORDS, [QUICK, PAPER], (cells, run_cell, decide, simulated), chances={"quick": (1.0, 0.0), "paper": (1.0, 0.0)},
    cpu_only=True,
)  # fmt: skip
