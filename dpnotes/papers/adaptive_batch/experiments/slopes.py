"""Samples until a second-order stationary point: six methods against gamma, and against d and epsilon.

Question:
  Do adaptive batches with the tree need gamma^-2 samples where SPIDER or either alone needs gamma^(-7/3)?

The paper:
  Yes: Section 1, comparison with Ganesh et al. (2023).

Rule:
  The exponents are those of a limit, small gamma. On the instance, what comes next is less by one power of gamma: the
  way down from the ridge beside that along it, the first fresh gradient beside the differences, a step beside kappa.
  So ln(samples used) is fitted by a + b ln(gamma) + c gamma, and of adaptive batches with the tree in d and in
  epsilon by a + b ln(d) + c / sqrt(d) and a + b ln(epsilon) + c epsilon, since fresh gradients cost 1 / kappa of the
  differences; with bootstrap intervals of b over seeds, and the plain slope printed beside. Intervals are of 99.75%,
  so that the eight below hold jointly with 98%. A method passes if the interval contains its exponent (-2 tree and
  adaptive batches, -7/3 independent noise and fixed batches, which is SPIDER, -7/3 with either ingredient alone, -3
  adaptive batches without noise, -5/2 SPIDER at a step size of sqrt(gamma)) and no other of these, reaches at most
  0.05 to either side, and rests on two decades of gamma. The exponents in d (1/2) and in epsilon (-1) pass likewise
  if, beside, every run of theirs asks for a fresh gradient more than once. Reproduced if all eight pass, every run
  arrives, and no estimate along any run is off by more than gamma. Not reproduced if a run does not arrive, an
  estimate is off by more, an interval lies more than 0.05 to the side of more samples than its exponent promises, or
  that of one ingredient alone to the side of fewer. Undecided otherwise.

Earlier rule:
  Six laws, without the two of one ingredient alone, each with an interval of 99.17%; those in d and epsilon by their
  plain slopes, at values where kappa is longer than the whole path. It said reproduced: -2.516, -2.003, -2.990,
  -2.335, +0.504 and -0.997; but no run of the last two asked for a fresh gradient more than once.

If reproduced:
  Yes: the exponent is -2 with both, and -7/3 with either alone or with none.

If not reproduced:
  No: some method needs more samples than its exponent says.

Prediction:
  the eight laws with their next orders, in proportion to the amplitude, 2% of scatter beside it

Rival:
  the same, but -2.1 for adaptive batches with the tree, a third of the way back to SPIDER
"""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import torch

from dpnotes.experiments import Cell, Context, Decision, Preregistration, Spec
from dpnotes.experiments.fits import Slope, fitted
from dpnotes.experiments.sweeps import SYNTHETIC, Each, Rows, columns_of, profiles, spaced, study, tabulated
from dpnotes.papers.adaptive_batch.experiments.ramps import RampParameters, Ramps, first_stationary
from dpnotes.random.streams import Streams

WORDS = Preregistration.of(__doc__)
# In the order of how long they take. Noise of the tree and batches that adapt to moves are the two ingredients of
# Section 1.2; "spider" has neither, "private" has both.
EXPONENTS = {
    "spider_sqrt": -5 / 2, "private": -2.0, "sampling": -3.0, "spider": -7 / 3, "tree_alone": -7 / 3,
    "adaptive_alone": -7 / 3,
}  # fmt: skip
ALONE = ("tree_alone", "adaptive_alone")
SWEEPS = {"d": 0.5, "epsilon": -1.0}
# `range` of gamma; `amplitude`, the base. A larger one brings the slope nearer to its limit, since the ridge costs less
# of the way and a fresh gradient less of the samples, and more steps. The step size sqrt(gamma) takes 10^5 times as
# many steps at the small end as at the large one, so it starts from as few as it can. In the sweeps kappa, which is
# `alpha sqrt(d) / epsilon`, goes from 8 to 80 or 800 along paths of 0.6 B / gamma and more, and is reached three times.
AMPLITUDES = {
    "spider_sqrt": 1.65, "private": 5.0, "sampling": 5.0, "spider": 3.3, "tree_alone": 3.3, "adaptive_alone": 3.3,
}  # fmt: skip
_SWEEP = {"points": 9, "accuracy": Each(0.02, 0.01)}
PARAMETERS = {
    "decision_rule": WORDS.rule, "earlier_rule": WORDS.earlier_rule, "seed": "adaptive_batch.slopes: eight laws",
    # Every run has an instance of its own, with an amplitude B between the base and so many times as much.
    "spread": 1.6,
    # alpha = gamma / 12: noise of a tree of 10^6 leaves is up to sqrt(19) alpha on some estimates.
    "ratio": 12.0,
    "epsilon": 1e-5, "max_steps": 20_000_000, "dim": Each(4, 20), "points": Each(9, 17), "repeats": Each(30, 40),
    "arms": {arm: {"range": Each([0.002, 0.2], [0.001, 0.1]), "amplitude": size} for arm, size in AMPLITUDES.items()},
    "sweeps": {
        "d": {
            **_SWEEP, "range": Each([4.0, 400.0], [10.0, 1000.0]), "repeats": Each(60, 80),
            "amplitude": Each(13.0, 6.5), "epsilon": Each(4e-4, 3.3e-4),
        },
        "epsilon": {
            **_SWEEP, "range": Each([4e-6, 4e-4], [4.5e-6, 4.5e-4]), "repeats": Each(40, 60),
            "amplitude": Each(100.0, 50.0),
        },
    },
}  # fmt: skip
QUICK, PAPER = profiles("adaptive_batch.slopes", PARAMETERS)


def parameters(
    arm: str, accuracy: np.ndarray, epsilon: np.ndarray, dim: int, amplitude: float, largest: float, ratio: float
) -> RampParameters:
    """The parameters of a method, with the papers' exponents and without logarithms; G = M = 1, alpha = gamma / ratio.

    Adaptive batches are Theorem 3.11's, with the sensitivity of a replaced example, `b_t` of the last gradient, and a
    node's noise of alpha / sqrt(d); epsilon is one over the noise multiplier of a node. What that costs in zCDP grows
    with the logarithm of the number of steps, as all that is left out does. For SPIDER, `kappa = 64 (eta gamma)^(4/3)`
    and the batches balance the terms of the error.

    One ingredient alone leaves SPIDER's exponent, by our balances (G = M = B = 1, alpha = gamma, gamma^-2 steps, a path
    of 1 / gamma; `kappa` tuned):

    * The tree with fixed batches. A node's noise has to cover the longest move that the drift allows, sqrt(kappa); so
      batches are SPIDER's, `sqrt(kappa d) / (epsilon alpha)`, and fresh gradients as often, 1 / kappa times.
    * Adaptive batches with independent noise. With batches in proportion to moves all differences have one noise, and
      kappa / gamma of them add up before a fresh gradient; so batches are `sqrt(kappa / gamma)` times those of the
      tree, `gamma^-2 sqrt(kappa / gamma)` examples in all, beside `1 / (gamma kappa)` fresh gradients of 1 / gamma. At
      the best kappa, `gamma^(1/3)`, that is `gamma^(-7/3)`. The constant makes fresh gradients 1/64 of the examples.

    Args:
      arm: of `EXPONENTS`.
      accuracy: gamma, `(runs,)`.
      epsilon: `(runs,)`.
      dim: d.
      amplitude: B, of the class.
      largest: gamma at which the step size of "spider_sqrt" is 1 / M.
      ratio: gamma over alpha, at least 1.
    """
    one, alpha = np.ones_like(accuracy), accuracy / ratio
    step_size = np.sqrt(accuracy / largest) if arm == "spider_sqrt" else one
    base, fresh = one * amplitude ** (1 / 3), 2 * dim**0.5 / (epsilon * alpha)
    # The differences' batches are at least `least`, and `per_gradient` over the last gradient estimate.
    least, per_gradient, sensitivity, power, mechanism = fresh, 0 * one, np.inf * one, 2, "gaussian"
    if arm in ("sampling", "private"):
        kappa = base if arm == "sampling" else np.maximum(alpha * dim**0.5 / epsilon, base)
        fresh, least, per_gradient, power, mechanism = 1 / alpha**2, one, kappa / alpha**2, 1, "none"
        if arm == "private":
            sensitivity, mechanism = alpha * epsilon / dim**0.5, "tree"
    elif arm == "adaptive_alone":
        kappa = 16 * accuracy ** (1 / 3)
        least, per_gradient, power = one, fresh * np.sqrt(kappa / accuracy), 1
    else:
        kappa = 64 * (step_size * accuracy) ** (4 / 3)
        least = fresh * kappa**0.5
        if arm == "tree_alone":
            sensitivity, mechanism = 2 / fresh, "tree"
    return RampParameters(
        step_size=step_size, saddle=accuracy, perturbation=accuracy / 3, kappa=kappa, first=fresh, least=least,
        # Escape from a ridge of curvature 2 sqrt(gamma) takes a few times one over it.
        window=np.ceil(10 / (step_size * np.sqrt(accuracy))), per_gradient=per_gradient, term_sensitivity=sensitivity,
        noise_multiplier=0 * one if mechanism == "none" else 1 / epsilon, power=power, mechanism=mechanism,
    )  # fmt: skip


def cells(spec: Spec) -> list[Cell]:
    """One cell, a batch of runs, a method; then one a dimension, and one of all epsilons. The longest come first."""
    found: list[Cell] = [
        {"law": arm, "arm": arm, "dim": spec["dim"], "amplitude": spec["arms"][arm]["amplitude"],
         "epsilons": [spec["epsilon"]], "accuracies": spaced(spec["arms"][arm]["range"], spec["points"])}
        for arm in EXPONENTS
    ]  # fmt: skip
    for law in SWEEPS:
        given = spec["sweeps"][law]
        values = spaced(given["range"], given["points"])
        same = {"law": law, "arm": "private", "amplitude": given["amplitude"], "accuracies": [given["accuracy"]]}
        if law == "d":
            found += [{**same, "dim": round(value), "epsilons": [given["epsilon"]]} for value in values]
        else:
            found.append({**same, "dim": spec["dim"], "epsilons": values})
    return found


def repeats(spec: Spec, law: str) -> int:
    """Runs of each value; those of sweeps are short, and their intervals wider."""
    return spec["sweeps"][law]["repeats"] if law in SWEEPS else spec["repeats"]


def run_cell(spec: Spec, cell: Cell, context: Context) -> dict[str, Any]:
    """All runs of a cell as one batch, on the CPU: a step is too little work for a GPU."""
    asked = [*product(cell["accuracies"], cell["epsilons"], range(repeats(spec, cell["law"])))]
    largest = max(cell["accuracies"])

    def run(chosen: range) -> dict[str, Any]:
        part = [asked[i] for i in chosen]
        accuracy, epsilon = (np.array([row[place] for row in part]) for place in (0, 1))
        names = [f"{cell['law']}/{cell['dim']}/{a:g}/{e:g}/{repeat}" for a, e, repeat in part]
        streams = Streams.of(spec["seed"], names)
        amplitude = cell["amplitude"] * spec["spread"] ** streams.uniform("instance", 0, 1)[:, 0]
        ramps = Ramps(torch.from_numpy(accuracy), amplitude, cell["dim"])
        size = cell["amplitude"] * spec["spread"]
        given = parameters(cell["arm"], accuracy, epsilon, cell["dim"], size, largest, spec["ratio"])
        return {"amplitude": amplitude, **first_stationary(ramps, given, streams, spec["max_steps"])}

    columns = context.in_chunks(run, len(asked), 8 * 60 * (cell["dim"] + 1))
    if cell["arm"] != "sampling":
        mechanism = "tree" if cell["arm"] in ("private", "tree_alone") else "gaussian"
        multiplier = 1 / max(cell["epsilons"])
        context.record_spent(mechanism=mechanism, noise_multiplier=multiplier, nominal=True, **SYNTHETIC)
    return {"law": cell["law"], "dim": cell["dim"], **columns_of("accuracy epsilon repeat", asked), **columns}


def knob_of(law: str) -> str:
    """The column that moves: a method's laws are in gamma."""
    return {"d": "dim", "epsilon": "epsilon"}.get(law, "accuracy")


def fits(frame: pd.DataFrame, corrected: bool = True) -> dict[str, Slope]:
    """The slope of each law, with the next order unless plain ones are asked for."""
    found = {}
    for law, part in frame.groupby("law", sort=False):
        name = knob_of(str(law))
        knob = np.unique(part[name]).astype(np.float64)
        correction = (knob**-0.5 if law == "d" else knob) if corrected else None
        found[str(law)] = fitted(part, name, "used", correction=correction, confidence=1 - 0.02 / 8)
    return found


@tabulated
def summary(frame: pd.DataFrame) -> Rows:
    """One row a law: slope, interval, exponent, the plain slope, steps, fresh gradients, and errors over gamma."""
    plain = fits(frame, corrected=False)
    for law, fit in fits(frame).items():
        part = frame[frame["law"] == law]
        yield {
            "law": law, "slope": fit.slope, "low": fit.low, "high": fit.high, "exponent": {**EXPONENTS, **SWEEPS}[law],
            "plain": plain[law].slope, "decades": fit.decades, "most_steps": part["steps"].max(),
            "least_fresh": part["fresh"].min(), "largest_error": part["error"].max(),
            "typical_error": part["typical_error"].mean(),
        }  # fmt: skip


def decide(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The rule in the spec."""
    lost = int((~frame["reached"]).sum())
    if lost:
        return Decision("not reproduced", f"{lost} of {len(frame)} runs did not arrive")
    words, bad, passed, plain = [], False, True, fits(frame, corrected=False)
    least = frame.groupby("law")["fresh"].min()
    for law, fit in fits(frame).items():
        exponent = {**EXPONENTS, **SWEEPS}[law]
        rivals = {other for other in EXPONENTS.values() if law in EXPONENTS and other != exponent}
        # More samples than promised: a faster rise as gamma or epsilon falls, or as d rises.
        bad |= (fit.low - exponent if law == "d" else exponent - fit.high) > 0.05
        bad |= law in ALONE and fit.low - exponent > 0.05
        if fit.half_width > 0.05:
            comment = "too wide"
        elif fit.decades < 1.999:
            comment = f"{fit.decades:.1f} decades only"
        elif any(fit.contains(other) for other in rivals):
            comment = "the exponent of another method is in it"
        elif law in SWEEPS and least[law] < 2:
            comment = "some run asks for one fresh gradient only"
        else:
            comment = "ok" if fit.contains(exponent) else "missed"
        passed &= comment == "ok"
        words.append(f"{law}: {fit}, plain {plain[law].slope:+.3f}, predicted {exponent:+.3f} ({comment})")
    worst = float(frame["error"].max())
    words.append(f"estimates are off by {worst:.2f} gamma at most")
    return Decision.by("; ".join(words), failed=bad or worst > 1, passed=passed)


# ---------------------------------------------------------------- simulated results
# The next order in gamma, c of exp(c gamma), and the scatter of ln(samples) of instances with the same amplitude: of
# the quick result under the earlier rule, and for the two that it had not of a pilot. At most two fresh gradients are
# asked for at the largest gamma, where whether it is one or two is a sixth of the samples.
_NEXT_ORDER = {
    "spider_sqrt": 0.1, "private": 0.45, "sampling": -1.1, "spider": -0.35, "tree_alone": -0.35,
    "adaptive_alone": -0.35,
}  # fmt: skip
_SCATTER, _SCATTER_OF_LARGEST = 0.02, 0.17


@tabulated
def simulated(spec: Spec, generator: np.random.Generator, right: bool) -> Rows:
    """Samples by the laws, in proportion to the amplitude of each run; by the rival one law is off."""
    exponents = {**EXPONENTS, **SWEEPS} | ({} if right else {"private": -2.1})
    for cell in cells(spec):
        law, alpha = cell["law"], cell["accuracies"][0] / spec["ratio"]
        pairs = [(accuracy, epsilon) for accuracy in cell["accuracies"] for epsilon in cell["epsilons"]]
        part = pd.DataFrame(pairs, columns=["accuracy", "epsilon"]).assign(law=law, dim=cell["dim"])
        part = part.merge(pd.DataFrame({"repeat": range(repeats(spec, law))}), how="cross")
        knob = part[knob_of(law)].to_numpy(dtype=float)
        if law in SWEEPS:
            # A fresh gradient costs 1 / kappa of the differences until the next one.
            order = np.log1p(part["epsilon"] / (alpha * part["dim"] ** 0.5)).to_numpy()
            scatter = np.full(len(part), _SCATTER)
        else:
            order = _NEXT_ORDER[law] * knob
            scatter = np.where(knob == knob.max(), _SCATTER_OF_LARGEST, _SCATTER)
        amplitude = np.log(spec["spread"]) * generator.random(len(part))
        logs = exponents[law] * np.log(knob) + order + amplitude + scatter * generator.standard_normal(len(part))
        yield part.assign(used=np.exp(logs), reached=True, error=0.7, typical_error=0.2, steps=1, fresh=4)


EXPERIMENT = study(
    WORDS, [QUICK, PAPER], (cells, run_cell, decide, simulated), chances={"quick": (0.96, 0.0), "paper": (0.985, 0.0)},
    rule=("earlier_rule",), cpu_only=True,
)  # fmt: skip
