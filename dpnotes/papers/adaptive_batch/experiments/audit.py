"""Privacy audit of stochastic Spider, as printed and as corrected.

Question:
  Are the printed variants of the algorithm as private as they claim?

The paper:
  Yes: Theorem 2.2 and Lemma 3.7, read literally.

Rule:
  A claim is refuted exactly if the densities of two neighbours force a larger epsilon at its delta, and by samples if
  the lower bound of an audit at level 1% exceeds it. Reproduced if every printed variant is refuted both ways, by an
  audit whose power was at least 99% beforehand, and no corrected one is either way, the library's own oracle
  included; of that the bound is to be at least half of the claim, and half of its noise would be caught with the same
  power. Not reproduced if the densities refute a corrected variant or do not refute a printed one. Undecided
  otherwise.

If reproduced:
  No: densities and audits refute every printed variant, and no corrected one.

If not reproduced:
  Yes: some printed variant stands, or a corrected one falls, too.

Prediction:
  densities are exact; audits have a power of 99% and refute what is private in 1%

Rival:
  one printed line is private after all
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dpnotes.core import Guarantee, Relation
from dpnotes.experiments import Cell, Context, Decision, Preregistration, Spec
from dpnotes.experiments.sweeps import Each, Rows, grid, joined, profiles, study
from dpnotes.guarantees import Basis
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.privacy.accounting import account, epsilon_to_rho
from dpnotes.privacy.audit import GaussianPair, LowerBound, from_scores, power
from dpnotes.privacy.calibration import tree_std
from dpnotes.privacy.museum import Exhibit, exhibits
from dpnotes.privacy.museum.exhibit import LEVEL, POWER, Setting
from dpnotes.privacy.museum.releases import prefix_sums
from dpnotes.privacy.tree import Tree
from dpnotes.random.streams import Streams

WORDS = Preregistration.of(__doc__)
PARAMETERS = {
    "decision_rule": WORDS.rule, "seed": "adaptive_batch.audit", "epsilon": 1.0, "delta": 1e-5, "leaves": 16,
    # Of the library's oracle: samples see more of a claim at a larger epsilon and delta.
    "oracle_epsilon": 3.0, "oracle_delta": 1e-3, "runs": Each(20_000, 500_000),
}  # fmt: skip
QUICK, PAPER = profiles("adaptive_batch.audit", PARAMETERS)
ORACLE = "Spider with Tree"
# The exact epsilon of a calibrated release is its claim, up to the root that was found.
_ROUNDING = 1e-6
_BATCH = 2000


def gradient_sums(terms: Tensor, noise: Tensor, epsilon: float, delta: float, alpha: float, dim: int) -> Tensor:
    """Running sums of terms with the tree's noise, at the batch sizes of Liu and Talwar's Theorem 3.11.

    The batches make a term's sensitivity `2 alpha epsilon / sqrt(dim)` when an example is replaced.

    Example:
      >>> gradient_sums(torch.ones(1, 2), torch.zeros(1, 2), 1.0, 1e-5, alpha=0.1, dim=4)
      tensor([[1., 2.]])
    """
    length = terms.shape[1]
    sensitivity = 2 * alpha * epsilon / math.sqrt(dim)
    noise_std = tree_std(epsilon, delta, sensitivity, length)
    return prefix_sums(terms, noise, noise_std, period=length)


def printed_noise(spec: Spec) -> Exhibit:
    """The noise of Theorem 3.11, alpha / sqrt(d): Lemma 3.8's `2 log(1 / delta)` is gone."""
    epsilon, delta, leaves = spec["epsilon"], spec["delta"], spec["leaves"]
    alpha, dim = 0.1, 100
    changed = torch.eye(leaves, dtype=torch.float64)[0] * 2 * alpha * epsilon / math.sqrt(dim)
    return Exhibit(
        name="printed noise: alpha / sqrt(d)",
        mistake="The theorem drops the factor 2 log(1/delta) of its lemma, and with it the dependence on delta.",
        seen="Liu and Talwar (2024), arXiv:2410.07502v1, Theorem 3.11", correct=gradient_sums,
        line="noise_std = tree_std(epsilon, delta, sensitivity, length)", instead="noise_std = alpha / math.sqrt(dim)",
        claim=Guarantee(epsilon, delta, Relation.REPLACE_ONE, "exact Gaussian"),
        setting=Setting(
            torch.zeros(leaves, dtype=torch.float64), changed, leaves,
            {"epsilon": epsilon, "delta": delta, "alpha": alpha, "dim": dim},
        ),
    )  # fmt: skip


def collection(spec: Spec) -> tuple[Exhibit, ...]:
    """The mistakes in the paper: those of the museum, and the noise of its theorem."""
    return (*(each for each in exhibits() if "2410.07502" in each.seen), printed_noise(spec))


# ---------------------------------------------------------------- the library's oracle
@dataclass(frozen=True, eq=False)
class _Constant:
    """A batch whose mean gradient is the same everywhere, `(runs, 1)`: its differences are 0."""

    value: Tensor

    def term(self, x: Tensor, previous: Tensor, new: Tensor, bound: Tensor) -> Tensor:
        return torch.where(new[:, None], self.value, 0.0)


@dataclass(frozen=True)
class _OneExample:
    """Examples with gradient 0 but the first of all, whose gradient is G or -G."""

    value: float
    total: Tensor = field(default_factory=partial(torch.tensor, 10**12), init=False)
    basis: Basis = field(default="proved", init=False)

    def batch(self, start: Tensor, count: Tensor, streams: Streams, call: Tensor) -> _Constant:
        return _Constant(torch.where(start == 0, self.value / count.clamp_min(1).double(), 0.0)[:, None])

    def take(self, index: Tensor) -> "_OneExample":
        return self


def oracle(spec: Spec, value: float, runs: int) -> Spider:
    """Sums of `leaves` terms, each of the sensitivity that the noise is for, at the whole of a budget."""
    rho, leaves = epsilon_to_rho(spec["oracle_epsilon"], spec["oracle_delta"], "exact"), spec["leaves"]
    multiplier = (Tree(leaves).max_cost(1.0) / rho) ** 0.5 * (1 + 1e-9)  # so that rounding overspends nothing
    return Spider(
        _OneExample(value), Tree(leaves), multiplier, torch.full((runs,), rho, dtype=torch.float64),
        Refresh.every(leaves), BatchSizes(_BATCH), gradient_bound=1.0, smoothness=1.0, term_sensitivity=2 / _BATCH,
    )  # fmt: skip


def transcripts(spec: Spec, included: bool, runs: int) -> Tensor:
    """The releases of `Spider` at fixed points on one of two neighbours, `(runs, 1.5 leaves)`: one sum and a half."""
    asked = oracle(spec, 1.0 if included else -1.0, runs)
    streams = Streams.of(spec["seed"], [f"{ORACLE}/{included}/{run}" for run in range(runs)])
    x, active = torch.zeros(runs, 1, dtype=torch.float64), torch.ones(runs, dtype=torch.bool)
    state, released = asked.init(x), []
    for _ in range(3 * spec["leaves"] // 2):
        state, estimate = asked.estimate(state, x, streams, active)
        released.append(estimate.gradient[:, 0])
        x = x + 0.5
    return torch.stack(released, 1)


def oracle_pair(spec: Spec) -> GaussianPair:
    """The two neighbours' transcripts in closed form, from the museum's tree and not from the oracle's."""
    length = 3 * spec["leaves"] // 2
    noise_std = float(oracle(spec, 1.0, 1).noise_multiplier) * 2 / _BATCH
    first = torch.eye(length, dtype=torch.float64)[0] / _BATCH
    return GaussianPair.of(
        lambda terms, noise: prefix_sums(terms, noise, noise_std, period=spec["leaves"]), -first, first, length
    )


def oracle_row(spec: Spec) -> dict[str, Any]:
    """The audit of `Spider`: its own claim, the exact epsilon of the pair, and the bound from its transcripts."""
    pair, runs = oracle_pair(spec), spec["runs"]
    claim = account(oracle(spec, 1.0, 1).events(0), spec["oracle_delta"])
    threshold = pair.strongest_threshold(runs, claim.delta, LEVEL)
    sides = [pair.score(transcripts(spec, included, runs)) for included in (True, False)]
    bound = from_scores(*sides, delta=claim.delta, relation=claim.relation, level=LEVEL, threshold=threshold)
    # With half of the noise, so many runs would have refuted the claim with this probability.
    loud = GaussianPair(pair.mean, pair.shift, pair.noise / 2)
    rates = loud.rates(loud.threshold(claim.epsilon, claim.delta))
    found = power(*rates, runs, epsilon=claim.epsilon, delta=claim.delta, level=LEVEL)
    return _row(ORACLE, False, claim, pair.epsilon(claim.delta), bound, found)


def _row(name: str, printed: bool, claim: Guarantee, exact: float, bound: LowerBound, found: float) -> dict[str, Any]:
    return {
        "release": name, "printed": printed, "claim": claim.epsilon, "delta": claim.delta, "exact": exact,
        "bound": bound.epsilon, "runs": bound.runs, "power": found,
        "refuted_exactly": exact > claim.epsilon * (1 + _ROUNDING), "refuted_by_samples": bound.exceeds(claim),
    }  # fmt: skip


def cells(spec: Spec) -> list[Cell]:
    """One cell a release."""
    return grid(release=[*(each.name for each in collection(spec)), ORACLE])


@joined
def run_cell(spec: Spec, cell: Cell, context: Context) -> Rows:
    """Both audits of the library's oracle, or of a release as printed and as corrected."""
    if cell["release"] == ORACLE:
        yield oracle_row(spec)
    for one in collection(spec):
        for printed in (True, False) if one.name == cell["release"] else ():
            bound = one.audit(printed, spec["seed"])
            yield _row(one.name, printed, one.claim, one.exact(printed), bound, one.design[2])


def decide(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The rule in the spec."""
    printed = frame["printed"].to_numpy(dtype=bool)
    exactly, sampled = (frame[name].to_numpy(dtype=bool) for name in ("refuted_exactly", "refuted_by_samples"))
    own = frame[frame["release"] == ORACLE].iloc[0]
    facts = (
        f"of {printed.sum()} printed variants {exactly[printed].sum()} are refuted by densities and "
        f"{sampled[printed].sum()} by samples, of {(~printed).sum()} corrected ones {exactly[~printed].sum()} and "
        f"{sampled[~printed].sum()}; least power {frame['power'].min():.3f}; {ORACLE} claims {own['claim']:.2f} and "
        f"is audited at {own['bound']:.2f}"
    )
    strong = frame["power"].min() >= POWER and own["bound"] >= own["claim"] / 2
    good = sampled[printed].all() and not sampled[~printed].any() and strong
    return Decision.by(facts, failed=not exactly[printed].all() or exactly[~printed].any(), passed=good)


# ---------------------------------------------------------------- simulated results
def simulated(spec: Spec, generator: np.random.Generator, right: bool) -> pd.DataFrame:
    """Audits with the least power that is allowed, at their level; by the rival one printed line is private."""
    names = [each.name for each in collection(spec)]
    frame = pd.DataFrame([*grid(release=names, printed=(True, False)), {"release": ORACLE, "printed": False}])
    # The bound of the library's oracle: 2.16 of a claim of 3 in the quick result, and 2.73 in the paper's.
    claim, bound = spec["oracle_epsilon"], 2.16 if spec.profile == "quick" else 2.73
    broken = frame["printed"] & (right | (frame["release"] != names[0]))
    refuted = generator.random(len(frame)) < np.where(broken, POWER, LEVEL)
    return frame.assign(
        claim=claim, exact=claim, bound=bound + 0.15 * generator.standard_normal(), power=POWER,
        refuted_exactly=broken, refuted_by_samples=refuted,
    )  # fmt: skip


EXPERIMENT = study(
    WORDS, [QUICK, PAPER], (cells, run_cell, decide, simulated),
    chances={"quick": (0.915, 0.0), "paper": (0.915, 0.0)}, cpu_only=True,
)  # fmt: skip
