"""Lemma 3.2: a quadratic whose gradients are the privacy noise.

Question:
  Does the bound of Lemma 3.2, which leaves the noise out, hold where the noise is large?

The paper:
  Yes: Lemma 3.2.

Rule:
  Lemma 3.2 promises, for eta <= min(1/L, 1/(sigma sqrt(T))), that no gradient of the run is above C but with
  probability delta. On f_i = L |x|^2/2 + <a_i, x> with eta = 1/L = 1/(sigma sqrt(T)) the gradient is the last step's
  noise, so the largest one is the largest of T - 1 norms of noise, but for the a_i, which are not longer than sigma.
  Reproduced (the counterexample is one) if in every dimension the median largest gradient is within 2 sigma, and 4
  standard errors, of that law's median, at the largest dimension every run exceeds C, at the smallest none, and the
  privacy by Assumption B alone is within the nominal epsilon. Not reproduced if a median is off by more than twice
  that, or no run exceeds C at the largest dimension. Undecided otherwise.

If reproduced:
  No: in high dimensions the noise alone makes gradients longer than C, in every run.

If not reproduced:
  Yes: no run exceeds the bound in high dimensions.

Prediction:
  gradients are the noise and examples' own, in as many draws as the profile has steps and repeats

Rival:
  the noise is so small that the bound holds
"""

import math
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dpnotes.core import Sampling
from dpnotes.experiments import Cell, Context, Decision, Preregistration, Spec
from dpnotes.experiments.sweeps import SYNTHETIC, Each, Rows, grid, profiles, study, tabulated
from dpnotes.papers.noisy_sgd.algorithms import noisy_sgd, theorem_3_1_noise
from dpnotes.papers.noisy_sgd.calculators import GRADIENT_BOUND
from dpnotes.papers.noisy_sgd.readings import Premises, readings
from dpnotes.problems.quadratics import Quadratic
from dpnotes.random.streams import Streams
from dpnotes.train.noise import NoiseChoice

WORDS = Preregistration.of(__doc__)
QUICK, PAPER = profiles("noisy_sgd.lemma_3_2", {
    "decision_rule": WORDS.rule, "seed": "lemma 3.2", "epsilon": 1.0, "delta": 1e-5, "sigma": 1.0,
    # The start is the minimum; the bound on the gap is strict.
    "f_max": 1e-6,
    # The paper gives no constants.
    "constants": {"c": 1.0, "c_1": 1.0, "c_2": 1.0},
    "dims": Each([10, 100, 1000], [10, 30, 100, 300, 1000]), "num_examples": Each(500, 1000),
    "batch_size": Each(50, 100), "num_steps": Each(250, 1000), "repeats": Each(10, 50),
})  # fmt: skip


def cells(spec: Spec) -> list[Cell]:
    """One cell a dimension."""
    return grid(dim=spec["dims"])


def largest_norm(noise_std: float, dim: int, num_steps: int, share: float = 0.5) -> float:
    """A quantile of the largest of `num_steps - 1` norms of N(0, noise_std^2 I).

    Example:
      >>> round(largest_norm(1.0, 10_000, 1000) / 100, 3)  # a norm is its root of dim, within a few times 1/sqrt(2)
      1.023
    """
    from scipy import stats

    return noise_std * math.sqrt(float(stats.chi2.ppf(share ** (1 / (num_steps - 1)), dim)))


def bound_and_noise(spec: Spec) -> tuple[float, NoiseChoice]:
    """The bound C of the lemma as printed, and the noise of Theorem 3.1 for it."""
    T, sigma, constants = spec["num_steps"], spec["sigma"], spec["constants"]
    given = {"n": spec["num_examples"], "T": T, "delta": spec["delta"], "L": sigma * math.sqrt(T), "sigma": sigma}
    # Alpha and c_eta stand in the corrected bound alone.
    free = {"f_max": spec["f_max"], "c": constants["c"], "alpha": 1.0, "c_eta": 1.0}
    bound = float(GRADIENT_BOUND(**given, **free, constants="paper")["C"])
    sizes = {"batch_size": spec["batch_size"], "num_examples": spec["num_examples"], "num_steps": T}
    how = {"c_1": constants["c_1"], "c_2": constants["c_2"], "norm_bound": bound}
    return bound, theorem_3_1_noise(spec["epsilon"], spec["delta"], **sizes, **how)


def run_cell(spec: Spec, cell: Cell, context: Context) -> dict[str, Any]:
    """Algorithm 2 from the minimum; the gradients of all examples are looked at in every iterate x_0 .. x_{T-1}."""
    n, T, sigma, dim = spec["num_examples"], spec["num_steps"], spec["sigma"], cell["dim"]
    L = sigma * math.sqrt(T)
    spectrum = torch.full((dim,), L, dtype=torch.float64, device=context.device)
    problem = Quadratic.sample(spectrum, n, sigma, spec["seed"])
    bound, choice = bound_and_noise(spec)

    def run(repeats: range) -> dict[str, Any]:
        streams = Streams.of(spec["seed"], [f"{dim}/{repeat}" for repeat in repeats], context.device)
        start = torch.zeros(len(repeats), dim, dtype=torch.float64, device=context.device)
        norms = [problem.gradients(start).norms().amax(1)]

        def observe(going: Tensor, state: Any, estimate: Any) -> None:
            if len(norms) < T:
                norms.append(problem.gradients(state.x).norms().amax(1))

        noise = [choice] * len(repeats)
        runs = noisy_sgd(
            problem, noise, start, streams, sampling=Sampling.fixed_size(spec["batch_size"], n), norm_bound=bound,
            step_size=1 / L, num_steps=T, delta=spec["delta"], check=0, observe=observe,
        )  # fmt: skip
        seen = torch.stack(norms)
        known = Premises(sigma=sigma, smoothness=L)
        claims = [arguments["assumption B"].accounted for arguments in readings(runs, noise, known)]
        above, epsilons = (seen > bound).double().mean(0), [claim.epsilon for claim in claims]
        return {"largest": seen.amax(0), "share_above": above, "epsilon_assumption_b": epsilons}

    # A batch of examples is copied for each run, and the norms of all examples are kept.
    columns = context.in_chunks(run, spec["repeats"], 8 * (3 * spec["batch_size"] * dim + 4 * n))
    budget = {"epsilon": spec["epsilon"], "delta": spec["delta"]}
    context.record_spent(mechanism="gaussian", **budget, nominal=True, **SYNTHETIC)
    about = {"bound": bound, "noise_std": choice.std, "law": largest_norm(choice.std, dim, T)}
    return {**cell, "repeat": np.arange(spec["repeats"]), **about, **columns}


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a dimension: the largest gradient, simulated and by the law, and how many runs and iterates exceed C."""
    found = frame.assign(exceeds=frame["largest"] > frame["bound"])
    return found.groupby("dim", as_index=False).agg(
        bound=("bound", "first"), median=("largest", "median"),
        # The standard error of a median, for tails no heavier than normal ones.
        standard_error=("largest", lambda column: 1.2533 * column.sem()),
        law=("law", "first"), runs_above=("exceeds", "mean"), iterates_above=("share_above", "mean"),
        epsilon=("epsilon_assumption_b", "max"),
    )  # fmt: skip


def decide(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The rule in the spec."""
    table = summary(frame)
    allowed = 2 * spec["sigma"] + 4 * table["standard_error"]
    off = float(((table["median"] - table["law"]).abs() / allowed).max())
    smallest, largest = table.iloc[0], table.iloc[-1]
    facts = "; ".join(
        f"d = {row.dim}: largest gradient {row.median / row.bound:.2f} C (by the law {row.law / row.bound:.2f}), above "
        f"C in {row.runs_above:.0%} of the runs and {row.iterates_above:.0%} of the iterates"
        for row in table.itertuples()
    )
    facts += f"; by Assumption B alone epsilon <= {table['epsilon'].max():.3g} (nominal {spec['epsilon']:g})"
    private = table["epsilon"].max() <= spec["epsilon"]
    clear = largest["runs_above"] == 1 and smallest["runs_above"] == 0
    return Decision.by(facts, failed=not off <= 2 or largest["runs_above"] == 0, passed=off <= 1 and clear and private)


# ---------------------------------------------------------------- simulated results
@tabulated
def simulated(spec: Spec, generator: np.random.Generator, right: bool) -> Rows:
    """The largest of as many norms of noise as there are steps; C and the privacy are those of the spec."""
    T, sigma = spec["num_steps"], spec["sigma"]
    bound, choice = bound_and_noise(spec)
    std = choice.std
    for dim in spec["dims"]:
        # By the rival the bound holds.
        noise = std if right else std * min(1.0, 0.9 * bound / largest_norm(std, max(spec["dims"]), T, 0.99))
        norms = noise * np.sqrt(generator.chisquare(dim, (spec["repeats"], T - 1)))
        moved = norms + sigma * generator.uniform(-1, 1, norms.shape) / math.sqrt(dim)
        about = {"dim": dim, "bound": bound, "law": largest_norm(std, dim, T), "epsilon_assumption_b": 0.15}
        shares = (moved > bound).mean(1)
        yield {**about, "repeat": range(len(moved)), "largest": moved.max(1), "share_above": shares}


EXPERIMENT = study(
    WORDS, [QUICK, PAPER], (cells, run_cell, decide, simulated), chances={"quick": (1.0, 0.0), "paper": (1.0, 0.0)},
)  # fmt: skip
