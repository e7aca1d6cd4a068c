"""Running sums (the paper's claim): the tree's noise against independent noise at the same (epsilon, delta).

Question:
  Does the tree's noise grow as the logarithm of the period only, where independent noise grows as its root?

The paper:
  Yes: Section 2, before Proposition 2.5.

Rule:
  Sums of Sigma terms, each from fresh data, are released with independent noise on the terms, and with the tree's.
  Noise is the root mean square of the running sums' over a period, a coordinate, in sensitivities of a term. Both
  have the least noise that is (epsilon, delta)-DP. The paper (before Proposition 2.5) promises Sigma^(1/2) and O(log
  Sigma). By exact variances the tree has less noise from a period of 21 on, and the laws are (Sigma + 1)^(1/2) and
  log2(Sigma) + 1/2, the latter within 1% from 16 on. Reproduced if, by what the ledger charged, each of the two
  spends epsilon, up to a millionth of it; every mean square is within 4 standard errors of the exact one; over
  periods of 32 and more the exponents in Sigma + 1, 1/2 of independent noise, and in log2(Sigma) + 1/2, 1 of the
  tree's, are met within 0.02, with standard errors of at most 0.004; and by 4 standard errors the tree has less noise
  at every period of 32 and more, and more at every one from 2 to 16. Not reproduced if either spends more than that,
  independent noise is not above the tree's at the largest period, or the tree's exponent in Sigma over the largest
  four periods is above 1/3 by 4 standard errors. Undecided otherwise.

If reproduced:
  Yes: the tree's noise grows as the logarithm of the period, independent noise as its root.

If not reproduced:
  No: one of the two laws is missed.

Prediction:
  exact variances; mean squares scatter as in the quick result

Rival:
  the same, but the tree's noise grows as log2(Sigma) + 1/2 to the power 1.1
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch

from dpnotes.core import Ledger, Mechanism, Request, Sensitive
from dpnotes.experiments import Cell, Context, Decision, Preregistration, Spec
from dpnotes.experiments.sweeps import SYNTHETIC, Each, Rows, grid, profiles, study, tabulated
from dpnotes.guarantees import FRESH, Relation
from dpnotes.papers.goldstein.experiments.estimates import Estimated, exponents
from dpnotes.privacy.accounting import rho_to_epsilon
from dpnotes.privacy.calibration import gaussian_std, tree_std
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.privacy.tree import Tree
from dpnotes.random.streams import Streams

WORDS = Preregistration.of(__doc__)
PARAMETERS = {
    "decision_rule": WORDS.rule, "seed": "goldstein.tree: running sums", "epsilon": 1.0, "delta": 1e-6,
    # Coordinates are as good as repeats; a repeat is a mean over so many.
    "dim": 400,
    # By resampling runs with other seeds, with their means put to a law: 500 times this one, 100 times each rival.
    "chances": {
        "exact variances": "reproduced 1", "tree's noise as Sigma^(1/2)": "not reproduced 1",
        "tree's noise as log(Sigma)^(1/2) or log(Sigma)^(3/2)": "undecided 1",
    },
    "periods": Each([4, 8, 16, 32, 64, 128, 256, 512, 1024], [2**power for power in range(2, 15)]), "repeats": 100,
}  # fmt: skip
QUICK, PAPER = profiles("goldstein.tree", PARAMETERS)
# What is compared; the rule is on the first two.
ARMS = ("independent", "tree", "optimal tree", "printed tree")
FIRST = 32  # period of those that exponents rest on


def cells(spec: Spec) -> list[Cell]:
    """One cell an arm and period. The longest come first."""
    return grid(period=spec["periods"][::-1], arm=ARMS)


def printed_std(epsilon: float, delta: float, period: int) -> float:
    """Noise of a node for terms of sensitivity 1 as Proposition 2.5 prints it, its first logarithm to base 2.

    Example:
      >>> round(printed_std(1.0, 1e-6, 16), 2), round(tree_std(1.0, 1e-6, 1.0, 16), 2)
      (29.74, 9.45)
    """
    return 4 * math.sqrt(math.log2(period) * math.log(1 / delta)) / epsilon


def mechanism(arm: str, period: int, epsilon: float, delta: float) -> tuple[Mechanism, float]:
    """The mechanism that releases the terms, of sensitivity 1, and the noise of one draw."""
    if arm == "independent":
        return Gaussian(), gaussian_std(epsilon, delta)
    if arm == "printed tree":
        return Tree(period), printed_std(epsilon, delta, period)
    optimal = arm == "optimal tree"
    return Tree(period, optimal), tree_std(epsilon, delta, 1.0, period, optimal)


def exact_square(arm: str, period: int, noise_std: float) -> float:
    """The mean square of the running sums' noise over a period, a coordinate.

    The sum of the first t terms has t draws of independent noise, and of the tree's one for every block of the binary
    expansion of t; of the optimal tree a block of 2^l terms has `2^l / (2^(l+1) - 1)` times the variance of a draw.

    Example:
      >>> [exact_square("independent", 4, 1.0), exact_square("tree", 4, 1.0)]
      [2.5, 1.25]
    """
    if arm == "independent":
        return noise_std**2 * (period + 1) / 2
    share = [2.0**level / (2.0 ** (level + 1) - 1) if arm == "optimal tree" else 1.0 for level in range(64)]
    blocks = (share[level] for t in range(1, period + 1) for level in range(t.bit_length()) if t >> level & 1)
    return noise_std**2 * sum(blocks) / period


def run_cell(spec: Spec, cell: Cell, context: Context) -> dict[str, Any]:
    """Sums of terms that are 0, so that what is released is the noise."""
    arm, period, dim = cell["arm"], cell["period"], spec["dim"]
    releases, noise_std = mechanism(arm, period, spec["epsilon"], spec["delta"])

    def run(repeats: range) -> dict[str, torch.Tensor]:
        streams = Streams.of(spec["seed"], [f"{arm}/{period}/{repeat}" for repeat in repeats])
        total = torch.zeros(len(repeats), dim, dtype=torch.float64)
        state, ledger = releases.init(total), Ledger()
        zero, one = torch.zeros_like(total), torch.ones(len(repeats), dtype=torch.float64)
        square = torch.zeros_like(one)
        for call in range(period):
            answer = Sensitive(zero, one, Relation.REPLACE_ONE, "proved", FRESH)
            request = Request(answer, noise_std * one, torch.full_like(one, call).long(), one.bool())
            state, released, price = releases.release(state, request, streams)
            ledger.add(price)
            total = total + released
            square += total.square().mean(1) / period
        return {"square": square, "rho": ledger.rho()}

    # A vector a level of the tree, and those of a release.
    columns = context.in_chunks(run, spec["repeats"], 8 * dim * (period.bit_length() + 6))
    rho = float(columns["rho"].max())
    context.record_spent(mechanism="gaussian" if arm == "independent" else "tree", rho=rho, **SYNTHETIC)
    exact, epsilon = exact_square(arm, period, noise_std), rho_to_epsilon(rho, spec["delta"])
    return {**cell, "repeat": np.arange(spec["repeats"]), "exact": exact, "epsilon": epsilon, **columns}


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """One row an arm and period: noise with its standard error, exact noise, epsilon by what the ledger charged."""
    groups = frame.groupby(["arm", "period"], sort=False)
    table = groups.agg(
        square=("square", "mean"), sem=("square", "sem"), exact=("exact", "first"), epsilon=("epsilon", "max")
    ).reset_index()
    noise, off = table["square"] ** 0.5, (table["square"] - table["exact"]) / table["sem"]
    # Of a root: the error of the square over twice the root.
    table = table.assign(
        noise=noise, standard_error=table["sem"] / (2 * noise), exact_noise=table["exact"] ** 0.5, off=off
    )
    order = table.assign(place=table["arm"].map(ARMS.index)).sort_values(["place", "period"], ignore_index=True)
    return order[["arm", "period", "noise", "standard_error", "exact_noise", "off", "epsilon"]]


def laws(frame: pd.DataFrame) -> dict[str, Estimated]:
    """Of independent noise in Sigma + 1, of the tree's in log2(Sigma) + 1/2, and of the tree's in Sigma at last."""
    table = summary(frame)

    def fit(arm: str, part: pd.DataFrame, knob: Callable[[pd.Series], pd.Series]) -> Estimated:
        rows = part[part["arm"] == arm]
        return exponents(rows["noise"], rows["standard_error"], period=knob(rows["period"]))["period"]

    long, largest = table[table["period"] >= FIRST], sorted(table["period"].unique())[-4:]
    return {
        "independent": fit("independent", long, lambda period: period + 1),
        "tree": fit("tree", long, lambda period: np.log2(period) + 0.5),
        "tree at last": fit("tree", table[table["period"].isin(largest)], lambda period: period),
    }


def ratios(frame: pd.DataFrame) -> dict[int, Estimated]:
    """The tree's noise over independent noise, by period."""
    table = summary(frame).pivot(index="period", columns="arm", values=["noise", "standard_error"])
    found = {}
    for period, row in table.iterrows():
        ratio = row["noise", "tree"] / row["noise", "independent"]
        parts = [row["standard_error", arm] / row["noise", arm] for arm in ("tree", "independent")]
        found[int(str(period))] = Estimated(float(ratio), float(ratio * math.hypot(*parts)))
    return found


def decide(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The rule in the spec."""
    compared = summary(frame[frame["arm"].isin(ARMS[:2])])
    found, epsilon = laws(frame), spec["epsilon"]
    against = ratios(frame)
    largest, worst = max(against), float(compared["off"].abs().max())
    facts = (
        f"independent noise grows as Sigma + 1 to the power {found['independent']}, the tree's as log2(Sigma) + 1/2 to "
        f"{found['tree']}, at last as Sigma to {found['tree at last']}; tree over independent: "
        + ", ".join(f"{period}: {ratio.value:.3f} ({ratio.standard_error:.3f})" for period, ratio in against.items())
        + f"; mean squares are off the exact ones by {worst:.1f} standard errors at most; epsilon is "
        f"{compared['epsilon'].max():.6f} at most"
    )
    overspent = float(compared["epsilon"].max()) > epsilon * (1 + 1e-6)
    fits = ((found["independent"], 0.5), (found["tree"], 1.0))
    lawful = all(abs(fit.value - law) <= 0.02 and fit.standard_error <= 0.004 for fit, law in fits)
    pays = all(ratio.off(1.0) < -4 for period, ratio in against.items() if period >= FIRST)
    pays &= all(ratio.off(1.0) > 4 for period, ratio in against.items() if 2 <= period <= 16)
    spent = float(compared["epsilon"].min()) >= epsilon * (1 - 1e-6)
    failed = overspent or against[largest].value >= 1 or found["tree at last"].off(1 / 3) > 4
    return Decision.by(facts, failed=failed, passed=lawful and pays and spent and worst <= 4)


# ---------------------------------------------------------------- simulated results
@tabulated
def simulated(spec: Spec, generator: np.random.Generator, right: bool) -> Rows:
    """Mean squares that scatter by 6% over runs, the tree's by 4.3% at 4 terms and less with more.

    By the rival the tree's noise grows as log2(Sigma) + 1/2 to the power 1.1.
    """
    count = spec["repeats"]
    for cell in cells(spec):
        arm, period = cell["arm"], cell["period"]
        exact = exact_square(arm, period, mechanism(arm, period, spec["epsilon"], spec["delta"])[1])
        scatter = 0.06 if arm == "independent" else 0.043 * (4 / period) ** 0.2
        law = 1.0 if right or arm != "tree" else (np.log2(period) + 0.5) ** 0.2
        squares = exact * law * (1 + scatter * generator.standard_normal(count))
        yield {**cell, "square": squares, "exact": exact, "epsilon": spec["epsilon"]}


EXPERIMENT = study(
    WORDS, [QUICK, PAPER], (cells, run_cell, decide, simulated), chances={"quick": (1.0, 0.0), "paper": (1.0, 0.0)},
    rule=("chances",), cpu_only=True,
)  # fmt: skip
