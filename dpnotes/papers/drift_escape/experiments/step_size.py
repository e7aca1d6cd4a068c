"""The step of the escape lemma: a boundary in eta for every batch size.

Question:
  Is the paper's step sqrt(rho alpha) / M^2 needed, because 1 / M does not leave the saddle with small batches?

The paper:
  Yes: Section 3, on the stochastic gradients' variance.

Rule:
  The example's loss is (-lambda + (M - lambda) z) x_1^2 / 2 with z normal, and growth is ln|x_1| over the steps. The
  boundary of minibatch SGD is the root of E ln|1 + eta lambda - eta (M - lambda) z / sqrt(b)| in eta. Reproduced if
  (1) for every batch size b with 2 b lambda / M^2 < 2 / M growth is positive at a step below the boundary by the
  margin and negative at one above it, by 3 standard errors, and the boundary is within 25% of 2 b lambda / M^2; (2)
  at eta = 1/M growth is positive exactly for the b above M / (2 lambda), and at the paper's step lambda / M^2 for all
  b, by 4 standard errors; (3) growth is the expectation everywhere, within 4 standard errors. Not reproduced if a
  sign in (1) or (2) is wrong by as much, or (3) is off by 6. Undecided otherwise. SPIDER is reported beside it. A run
  is so short that |x_1| neither under- nor overflows: it is left where it has changed by e^most_growth in
  expectation.

If reproduced:
  Yes: with small batches the step 1 / M stays at the saddle, and the paper's step leaves it.

If not reproduced:
  No: the step 1 / M leaves the saddle with small batches, or the paper's step stays.

Prediction:
  growth is the expectation, and scatters as sums of independent steps do

Rival:
  batches are worth half as much again, so that boundaries are at 1.5 times the step
"""

import math
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dpnotes.core import Estimate
from dpnotes.experiments import Cell, Context, Decision, Preregistration, Spec
from dpnotes.experiments.sweeps import Each, Rows, columns_of, grid, profiles, study, tabulated
from dpnotes.methods.loop import drive
from dpnotes.methods.spider_descent import StochasticSpider
from dpnotes.oracles.samples import VirtualSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.privacy.mechanisms import Exact
from dpnotes.problems.separable import Linear, Parabola, Separable
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams

WORDS = Preregistration.of(__doc__)
QUICK, PAPER = profiles("drift_escape.step_size", {
    "decision_rule": WORDS.rule, "seed": "step size",
    "curvature": 0.05,  # lambda, over M = 1
    "batches": [1, 4, 16, 64],
    "first": 1_000_000,  # SPIDER's fresh gradients
    "every": 20,  # estimates between them
    "start": 1e-3,
    "factor": 10.0,  # by which |x_1| has grown when it has escaped
    "most_growth": 350.0,  # of ln|x_1|, either way: e^350 squared is a float64, with room for chance
    "dim": Each(2, 10), "num_steps": Each(2000, 10_000), "repeats": Each(160, 1000), "margin": Each(0.2, 0.05),
})  # fmt: skip


def boundary(batch: float, curvature: float) -> float:
    """2 b lambda / M^2 with M = 1: where eta lambda is the loss by noise, (eta M)^2 / (2 b)."""
    return 2 * batch * curvature


def exact_growth(step_size: float, batch: float, curvature: float) -> float:
    """`E ln|1 + eta lambda - eta (1 - lambda) z / sqrt(b)|` for standard normal z.

    Example:
      >>> round(exact_growth(0.01, 1e9, 0.05) / math.log(1 + 0.01 * 0.05), 6)
      1.0
    """
    from scipy.integrate import quad

    centre, spread = 1 + step_size * curvature, step_size * (1 - curvature) / batch**0.5

    def integrand(z: float) -> float:
        return math.log(abs(centre - spread * z) or 1e-300) * math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)

    zero = centre / spread  # the logarithm's pole
    return float(quad(integrand, -12, 12, points=[zero] if zero < 12 else None, limit=400)[0])


def exact_boundary(batch: float, curvature: float) -> float:
    """The step at which the exact growth is 0, for batches with a boundary below 2 / M.

    Example:
      >>> round(exact_boundary(1, 0.001) / boundary(1, 0.001), 2)
      1.0
    """
    from scipy.optimize import brentq

    guess = boundary(batch, curvature)
    # Far beyond, where a step overshoots by more than the way, growth is positive again.
    return float(brentq(lambda eta: exact_growth(eta, batch, curvature), guess / 4, 1.5 * guess))  # type: ignore[arg-type]


def settings(spec: Spec) -> list[tuple[int, str, float]]:
    """Batch sizes, names of step sizes, and step sizes."""
    found = []
    for batch in spec["batches"]:
        if boundary(batch, spec["curvature"]) < 2:
            edge, margin = exact_boundary(batch, spec["curvature"]), spec["margin"]
            found += [(batch, "below", edge * (1 - margin)), (batch, "above", edge * (1 + margin))]
        found += [(batch, "1/M", 1.0), (batch, "paper", spec["curvature"])]
    return found


def num_steps(spec: Spec, oracle: str, batch: float, step_size: float) -> int:
    """The spec's, or as many as change ln|x_1| by `most_growth`.

    SPIDER's fresh gradients keep its growth at that of exact gradients, or below.

    Example:
      >>> of_descent = [num_steps(PAPER, "minibatch", 1, step_size) for step_size in (0.05, 1.0)]
      >>> *of_descent, num_steps(PAPER, "SPIDER", 1, 1.0)
      (10000, 1921, 7173)
    """
    exact = exact_growth(step_size, batch, spec["curvature"])
    most = exact if oracle == "minibatch" else math.log1p(step_size * spec["curvature"])
    return min(spec["num_steps"], int(spec["most_growth"] / abs(most)))


def cells(spec: Spec) -> list[Cell]:
    """One cell an oracle."""
    return grid(oracle=("minibatch", "SPIDER"))


def run_cell(spec: Spec, cell: Cell, context: Context) -> dict[str, Any]:
    """All batch sizes and steps as one batch, `repeats` runs each: growth, and when they had escaped."""
    curvature, dim = spec["curvature"], spec["dim"]
    rows = [
        (batch, step, eta, repeat, num_steps(spec, cell["oracle"], batch, eta))
        for batch, step, eta in settings(spec)
        for repeat in range(spec["repeats"])
    ]
    data = VirtualData(
        Separable([(Parabola(-curvature), 1), (Parabola(curvature), dim - 1)]),
        Separable([(Parabola(1 - curvature), 1), (Linear(0.0), dim - 1)]),
    )

    def run(chosen: range) -> dict[str, Tensor]:
        part = rows[chosen.start : chosen.stop]
        names = [f"{cell['oracle']}/{b}/{step}/{eta:g}/{r}" for b, step, eta, r, _ in part]
        streams = Streams.of(spec["seed"], names, context.device)
        batches, _, etas, _, steps = zip(*part, strict=True)
        batch, eta = torch.tensor([batches, etas], dtype=torch.float64, device=context.device)
        steps = torch.tensor(steps, device=context.device)
        if cell["oracle"] == "minibatch":
            refresh, batches = Refresh.every(1), BatchSizes(batch)
        else:
            refresh, batches = Refresh.every(spec["every"]), BatchSizes(float(spec["first"]), batch)
        oracle = Spider(
            VirtualSamples(data, 10**15), Exact(), 0.0, torch.full_like(eta, torch.inf), refresh, batches, 1.0, 1.0
        )
        method = StochasticSpider(steps, eta, 1e-300, 1, 0.0)  # plain steps
        x = torch.full((len(part), dim), spec["start"], dtype=torch.float64, device=context.device)
        escaped = torch.full_like(eta, torch.inf)

        def observe(going: Tensor, state: Any, estimate: Estimate) -> None:
            out = (state.x[:, 0].abs() >= spec["factor"] * spec["start"]) & escaped[going].isinf()
            escaped[going] = torch.where(out, state.steps.double(), escaped[going])

        end = drive(method, oracle, method.init(x, oracle), streams, spec["num_steps"], observe=observe)
        growth = (end.x[:, 0].abs() / spec["start"]).log() / end.steps
        if not bool(growth.isfinite().all()):
            name = cell["oracle"]
            raise ArithmeticError(f"Expected growth to be finite for {name}: |x_1| left what a float64 holds.")
        return {"growth": growth, "escaped_after": escaped}

    columns = context.in_chunks(run, len(rows), 8 * 60 * dim)
    return {**cell, **columns_of("batch step step_size repeat", rows), **columns}


@tabulated
def summary(frame: pd.DataFrame, curvature: float) -> Rows:
    """One row a setting: growth with its standard error, the exact one of minibatch SGD, and who escaped when."""
    for (oracle, batch, step, eta), part in frame.groupby(["oracle", "batch", "step", "step_size"], sort=False):
        exact = exact_growth(eta, batch, curvature) if oracle == "minibatch" else math.nan
        yield {
            "oracle": oracle, "batch": batch, "step": step, "step_size": eta, "growth": part["growth"].mean(),
            "standard_error": part["growth"].sem(), "exact": exact,
            "escaped": np.isfinite(part["escaped_after"]).mean(), "median_steps": part["escaped_after"].median(),
        }  # fmt: skip


def decide(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The rule in the spec."""
    curvature = spec["curvature"]
    table = summary(frame, curvature)
    descent = table[table["oracle"] == "minibatch"]
    large = descent["batch"] > 1 / (2 * curvature)
    grows = (descent["step"] == "paper") | (descent["step"] == "below") | ((descent["step"] == "1/M") & large)
    z = np.where(grows, 1, -1) * descent["growth"] / descent["standard_error"]
    needed = np.where(descent["step"].isin(["below", "above"]), 3, 4)
    off = ((descent["growth"] - descent["exact"]) / descent["standard_error"]).abs().max()
    edges = {b: exact_boundary(b, curvature) for b in spec["batches"] if boundary(b, curvature) < 2}
    near = all(abs(edge / boundary(b, curvature) - 1) <= 0.25 for b, edge in edges.items())
    spider = table[(table["oracle"] == "SPIDER") & (table["step"] == "1/M")]
    facts = (
        f"within {spec['margin']:.0%} growth changes its sign at eta M = "
        + ", ".join(f"{edge:.3g} (b = {b}; 2 b lambda / M = {boundary(b, curvature):.3g})" for b, edge in edges.items())
        + f"; all signs by {z.min():.1f} standard errors or more, the expectation missed by {off:.1f} at most; "
        "SPIDER's growth at 1/M is "
        + ", ".join(f"{r['growth']:+.3f} (b = {r['batch']})" for r in spider.to_dict("records"))
    )
    return Decision.by(facts, failed=(z < -needed).any() or off > 6, passed=(z > needed).all() and off <= 4 and near)


# ---------------------------------------------------------------- simulated results
@tabulated
def simulated(spec: Spec, generator: np.random.Generator, right: bool) -> Rows:
    """Normal sums of steps with the exact mean and variance; of the rival those of batches larger by the half."""
    curvature = spec["curvature"]
    z = np.linspace(-8, 8, 40_001)
    weights = np.exp(-(z**2) / 2)
    weights /= weights.sum()
    for batch, step, eta in settings(spec):
        spread = eta * (1 - curvature) / (batch * (1 if right else 1.5)) ** 0.5
        logs = np.log(np.abs(1 + eta * curvature - spread * z))
        mean = float(logs @ weights)
        deviation = math.sqrt(float((logs - mean) ** 2 @ weights))
        for oracle in ("minibatch", "SPIDER"):
            steps = num_steps(spec, oracle, batch, eta)
            growth = generator.normal(mean, deviation / steps**0.5, spec["repeats"])
            about = {"oracle": oracle, "batch": batch, "step": step, "step_size": eta, "escaped_after": math.inf}
            yield {**about, "growth": growth}


EXPERIMENT = study(
    WORDS, [QUICK, PAPER], (cells, run_cell, decide, simulated), chances={"quick": (0.995, 0.0), "paper": (1.0, 0.0)},
)  # fmt: skip
