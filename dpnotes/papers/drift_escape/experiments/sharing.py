"""Theorem 3: the accuracy that m clients reach with n examples each.

Question:
  Is the accuracy of m clients m^(-1/3) of that of one where examples decide, and m^(-1/5) where privacy does?

The paper:
  Yes: Theorem 3.

Rule:
  Clients have the parameters of `drift_escape.distributed.practical` for a ladder of accuracies alpha, and runs start
  on a strict saddle. That a client of m needs 1/m (where examples decide) or 1/sqrt(m) (where privacy does) of the
  batches of one is built into these; that runs then return an alpha-SOSP, after how many steps, fresh gradients,
  escapes and attempts, is not. Reproduced if (1) the accuracy that a fixed number of examples a client buys falls as
  m^(-1/3) and as m^(-1/5), the whole interval within `window`; (2) runs return an alpha-SOSP, by exact gradients and
  eigenvalues, before T steps: for every regime and m the interval of the probability lies above `least_success`, and
  every one escapes; (3) the error that a client may have until half of the runs fail grows as m^(1/2), the whole
  interval within 0.1: that is the 1/sqrt(m) without the parameters' word for it; (4) the control fails: of clients
  from m = 16 on with four times the error, as if noise fell as 1/m, fewer than half the runs succeed by the
  interval's upper end; (5) the noise that is not to decide has at most 5% of the other's mean square, and each
  accuracy of (1) lies on its ladder. Not reproduced if an interval of (1) or (3) misses its range, or one of (2) lies
  below. Undecided otherwise. Intervals of (1) and (3) hold jointly with 95% (bootstrap over runs), those of
  probabilities each. Window and least success are 0.06 and 0.7 in the quick profile, 0.02 and 0.85 in the paper one:
  the attempts at the end, of lower order in 1/alpha, use 0.42 of all examples of one client and 0.15 of one of
  sixteen there, 0.08 and 0.02 here, and make alpha fall faster. In a pilot of the quick profile with another seed the
  exponents were -0.365 and -0.236, with standard errors of 0.003, and 0.49 and 0.51, with 0.015; all 144 runs of (2)
  succeeded, and none of the 64 of (4). Drawn anew from it, 0.99 of experiments are reproduced and the others
  undecided; with the exponent of the other regime in place of one's own, with an error of the mean that falls as 1/m
  or not at all, or with a success of one half, none is.

If reproduced:
  Yes: the accuracy falls as m^(-1/3) where examples decide, and as m^(-1/5) where privacy does.

If not reproduced:
  No: the accuracy falls with another exponent, or runs miss it.

Prediction:
  the exponents are the theorem's and what the attempts at the end add; examples scatter by 0.05

Rival:
  each regime has the other one's exponent
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dpnotes.core import Estimate, Status
from dpnotes.experiments import Cell, Context, Decision, Preregistration, Spec
from dpnotes.experiments.fits import Slope, fitted, resampled
from dpnotes.experiments.sweeps import SYNTHETIC, Each, Rows, grid, profiles, proportion, study, tabulated
from dpnotes.measure.stationarity import sosp_level
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.samples import VirtualSamples
from dpnotes.papers.drift_escape.algorithms import DriftEscapeParameters, practical_escape
from dpnotes.papers.drift_escape.distributed import distributed_drift_escape, practical
from dpnotes.papers.drift_escape.experiments.ladder import half_way
from dpnotes.problems.separable import LogCosh, Separable, Sine, Suprema
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams
from dpnotes.util.validate import Positive, checked

WORDS = Preregistration.of(__doc__)

_MARGIN_WINDOW, _TOO_MUCH = 0.1, 0.05
_BOOTSTRAP, _CONFIDENCE = 4000, 1 - 0.05 / 4  # four intervals, jointly 95%
EXPONENTS = {"sampling": -1 / 3, "private": -1 / 5}
QUICK, PAPER = profiles("drift_escape.sharing", {
    "decision_rule": WORDS.rule, "seed": "sharing", "dim": 4,
    "gradient_bound": 2.0,  # and M = rho = 1
    "delta": 1e-6, "epsilon": {"sampling": 100.0, "private": 1e-3}, "error_share": 0.25, "attempts": 8,
    "length_factor": 5.0,
    "hill": 1.2,  # of curvatures, over sqrt(alpha)
    "bowl": 0.6,
    "accuracy": 0.6,  # of one client; of m in a regime, that times m to the theorem's exponent
    "clients": Each([1, 4, 16], [1, 4, 16, 64]),
    "rungs": Each([1.1, 0.91], [1.15, 1.0, 0.87]),  # accuracies that are run, over the one that the theorem promises
    "repeats": Each(12, 16), "height": Each(130.0, 1000.0),
    "examples": Each({"sampling": 4.6e5, "private": 1.05e8}, {"sampling": 2.8e6, "private": 5.9e8}),
    "window": Each(0.06, 0.02), "least_success": Each(0.7, 0.85),
    "margin": {
        "clients": Each([1, 16], [1, 4, 16]), "multiples": [2.0, 2.83, 4.0], "height": 60.0, "repeats": Each(32, 60),
    },
})  # fmt: skip


@checked
@dataclass(frozen=True)
class Roof:
    """`(slope / frequency) asin(cos(frequency t) / sqrt(1 + r^2))`: ridges and valleys that even slopes join.

    A wave of straight lines, rounded where they meet: on a ridge, at 0, the curvature is `-curvature`, in a valley, at
    `pi / frequency`, it is `curvature`, and r is `slope frequency / curvature`.

    Args:
      slope: above 0, of the lines; a derivative is nowhere larger.
      frequency: above 0.
      curvature: above 0.

    Example:
      >>> roof = Roof(slope=0.1, frequency=0.01, curvature=0.5)
      >>> points = torch.tensor([0.0, 100.0, math.pi / 0.01], dtype=torch.float64)
      >>> roof.first(points).round(decimals=4).abs().tolist(), roof.second(points).round(decimals=4).tolist()
      ([0.0, 0.1, 0.0], [-0.5, -0.0, 0.5])
    """

    slope: Positive
    frequency: Positive
    curvature: Positive

    @property
    def rounding(self) -> float:
        """r."""
        return self.slope * self.frequency / self.curvature

    @property
    def suprema(self) -> Suprema:
        """The curvature of ridges and valleys, and a bound of the third derivative.

        The third derivative's factors are largest where the squared sine is `r^2 / 4`, and at 0.
        """
        third = (3 + self.rounding**2) * 0.5 / 1.25**2.5 * self.curvature**2 / self.slope
        return Suprema(self.curvature, third)

    def value(self, t: Tensor) -> Tensor:
        """As above."""
        return self.slope / self.frequency * torch.asin(torch.cos(self.frequency * t) / math.hypot(1, self.rounding))

    def first(self, t: Tensor) -> Tensor:
        """Its derivative."""
        sine = torch.sin(self.frequency * t)
        return -self.slope * sine / (self.rounding**2 + sine.square()).sqrt()

    def second(self, t: Tensor) -> Tensor:
        """Its second one."""
        angle = self.frequency * t
        rounded = self.rounding**2 / (self.rounding**2 + torch.sin(angle).square()).pow(1.5)
        return -self.slope * self.frequency * rounded * torch.cos(angle)


def setting(spec: Spec, cell: Cell) -> VirtualData:
    """A roof from whose ridge, a strict saddle, runs descend with a slope of twice alpha, by U; bowls elsewhere.

    Gradients of examples deviate by at most G in root mean square, and their deviations change by at most M = 1 times
    the move. The examples' z are normal, so that these are no bounds of every example: epsilon is nominal. U is the
    height of the roof; runs start at the bottom of the bowls.
    """
    accuracy, dim = cell["accuracy"], spec["dim"]
    slope, curvature = 2 * accuracy, math.sqrt(accuracy)
    roof = Roof(slope, math.pi * slope / cell["height"], spec["hill"] * curvature)
    slope_of_features = spec["gradient_bound"] / math.sqrt(dim)
    features = Sine(slope_of_features**2, 1 / slope_of_features)
    return VirtualData(
        Separable([(roof, 1), (LogCosh(spec["bowl"] * curvature), dim - 1)]), Separable([(features, dim)])
    )


def parameters(spec: Spec, cell: Cell) -> DriftEscapeParameters:
    """Those of `drift_escape.distributed.practical`; T is four times the way down, and eight times for a margin."""
    escape = practical_escape(
        cell["accuracy"], smoothness=1.0, hessian_lipschitz=1.0, risk_range=cell["height"],
        length_factor=spec["length_factor"], attempts=spec["attempts"],
        steps_factor=1 / 16 if cell["kind"] == "rate" else 1 / 8,
    )  # fmt: skip
    return practical(
        escape, spec["dim"], spec["epsilon"][cell["regime"]], spec["delta"], cell["clients"],
        gradient_bound=spec["gradient_bound"], error_share=spec["error_share"] * cell["multiple"],
    )  # fmt: skip


def minor_noise(found: DriftEscapeParameters, dim: int, regime: str) -> float:
    """The mean square of the noise, the mechanism's or the examples', that should not decide, over the other's."""
    ratios = [4 * found.noise_multiplier**2 * dim / math.ceil(batch) for batch in (found.first_batch, found.batch)]
    return max(ratios) if regime == "sampling" else 1 / min(ratios)


def cells(spec: Spec) -> list[Cell]:
    """One cell a regime, number of clients and accuracy; then those of more error, at the accuracy of one client."""
    margin, common = spec["margin"], {"multiple": 1.0, "height": spec["height"], "accuracy": spec["accuracy"]}
    rate = grid(kind=["rate"], regime=EXPONENTS, clients=spec["clients"], accuracy=spec["rungs"])
    for cell in rate:
        cell["accuracy"] *= spec["accuracy"] * cell["clients"] ** EXPONENTS[cell["regime"]]
    more = grid(kind=["margin"], regime=EXPONENTS, clients=margin["clients"], multiple=margin["multiples"])
    return [{**common, **cell, "accuracy": float(f"{cell['accuracy']:.4g}")} for cell in rate] + [
        {**common, "height": margin["height"], **cell} for cell in more
    ]


def run_cell(spec: Spec, cell: Cell, context: Context) -> dict[str, Any]:
    """Runs from the ridge until they return their points, judged by exact gradients and eigenvalues, on the CPU."""
    data, choice, dim, clients = setting(spec, cell), parameters(spec, cell), spec["dim"], cell["clients"]
    repeats = spec["repeats"] if cell["kind"] == "rate" else spec["margin"]["repeats"]

    def run(chosen: range) -> dict[str, Tensor]:
        names = [f"{cell['kind']}/{cell['regime']}/{clients}/{cell['multiple']}/{cell['accuracy']}/{r}" for r in chosen]
        streams = Streams.of(spec["seed"], names)
        x = torch.zeros(len(chosen), dim, dtype=torch.float64)
        seen = {name: torch.zeros_like(x[:, 0]) for name in ("attempt", "used", "in_attempts", "square")}
        points = x.clone()

        def observe(going: Tensor, state: Any, estimate: Estimate) -> None:
            off = estimate.gradient - data.landscape.gradient(points[going])
            seen["square"][going] += off.square().sum(1)
            used = state.oracle.meter.used[:, 0].double()
            tested = (seen["attempt"][going] > 0) | (state.attempt > 0)
            seen["in_attempts"][going] += tested * (used - seen["used"][going])
            seen["attempt"][going], seen["used"][going], points[going] = state.attempt.double(), used, state.x

        runs = distributed_drift_escape(
            lambda members: VirtualSamples(data, 10**18), choice, x, streams, blocks=Blocks(clients, clients),
            delta=spec["delta"], observe=observe,
        )  # fmt: skip
        state, land = runs.state, data.landscape
        level = sosp_level(land.gradient(runs.x).norm(dim=1), land.smallest_eigenvalue(runs.x), 1.0)
        return {
            "used": state.oracle.meter.used.amax(1), "in_attempts": seen["in_attempts"], "steps": state.steps,
            "fresh": state.oracle.meter.refreshes[:, 0], "tests": state.tests, "escapes": state.escapes,
            "returned": state.status == Status.FINISHED, "level": level / cell["accuracy"],
            "error": (seen["square"] / state.steps).sqrt() / (choice.escape.threshold / 3),
        }  # fmt: skip

    columns = context.in_chunks(run, repeats, 8 * 40 * dim * clients)
    multiplier = choice.noise_multiplier
    context.record_spent(mechanism="gaussian", noise_multiplier=multiplier, nominal=True, **SYNTHETIC)
    return {**cell, "minor": minor_noise(choice, dim, cell["regime"]), "repeat": np.arange(repeats), **columns}


def rates(frame: pd.DataFrame, spec: Spec) -> tuple[dict[str, Slope], pd.DataFrame]:
    """The exponent in m of the accuracy that a number of examples buys, of each regime, and a row for each m of it.

    For every m a line through ln(examples) against ln(accuracy) says which accuracy the spec's number of examples buys,
    and its slope is the exponent of the examples in it.
    """
    found, rows = {}, []
    for regime in EXPONENTS:
        drawn = []
        for clients in spec["clients"]:
            part = frame[(frame["kind"] == "rate") & (frame["regime"] == regime) & (frame["clients"] == clients)]
            table = part.pivot(index="repeat", columns="accuracy", values="used")
            logs = np.log(table.columns.to_numpy(dtype=np.float64))
            means, center = resampled(np.log(table.to_numpy()), _BOOTSTRAP, clients), logs.mean()
            away = logs - center
            reached = center + (math.log(spec["examples"][regime]) - means.mean(1)) / (means @ away / (away @ away))
            drawn.append(reached)
            hits = int((part["returned"] & (part["level"] < 1)).sum())
            rows.append({
                "regime": regime, "clients": clients, "accuracy": math.exp(reached[0]),
                "promised": spec["accuracy"] * clients ** EXPONENTS[regime],
                "exponent": fitted(part, "accuracy", "used", confidence=_CONFIDENCE),
                "within": logs.min() <= reached[0] <= logs.max(), "hits": hits, "runs": len(part),
                "success": proportion(hits, len(part)), "escapes": int(part["escapes"].min()),
                "in_attempts": float((part["in_attempts"] / part["used"]).mean()),
                "error": float(part["error"].mean()), "minor": float(part["minor"].max()),
            })  # fmt: skip
        found[regime] = Slope.of(spec["clients"], np.stack(drawn, 1), _CONFIDENCE)
    return found, pd.DataFrame(rows)


def margins(frame: pd.DataFrame, spec: Spec) -> dict[str, Slope]:
    """The exponent in m of the error that a client may have until runs fail, of each regime.

    The error is the one at which half of the runs fail, by the estimate of Spearman and Karber: that of practical
    parameters, which is `sqrt(m)` by construction, times a multiple that is measured.
    """
    margin, found = spec["margin"], {}
    for regime in EXPONENTS:
        part = frame[(frame["kind"] == "margin") & (frame["regime"] == regime)]
        good = part.assign(good=part["returned"] & (part["level"] < 1))
        table = good.groupby(["clients", "multiple"])["good"].mean().unstack().to_numpy(dtype=np.float64)
        again = np.random.default_rng(0).binomial(margin["repeats"], table, (_BOOTSTRAP, *table.shape))
        shares = np.concatenate([table[None], again / margin["repeats"]])
        errors = half_way(margin["multiples"], shares) + 0.5 * np.log(margin["clients"])
        found[regime] = Slope.of(margin["clients"], errors, _CONFIDENCE)
    return found


def control(frame: pd.DataFrame, spec: Spec) -> dict[str, tuple[int, int]]:
    """The successes among runs whose clients have parameters for noise that falls as 1/m, or milder ones."""
    most = max(spec["margin"]["multiples"])
    wrong = frame[(frame["kind"] == "margin") & (frame["multiple"] == most) & (frame["clients"] >= most**2)]
    good = wrong["returned"] & (wrong["level"] < 1)
    return {regime: (int(part.sum()), len(part)) for regime, part in good.groupby(wrong["regime"])}


def decide(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The rule in the spec."""
    found, rows = rates(frame, spec)
    margin, wrong = margins(frame, spec), control(frame, spec)
    targets = [(found[regime], exponent, spec["window"]) for regime, exponent in EXPONENTS.items()]
    targets += [(slope, 0.5, _MARGIN_WINDOW) for slope in margin.values()]
    words = [
        f"{regime}: alpha falls as m^{found[regime]}, the error of a client may grow as m^{margin[regime]}; "
        + ", ".join(
            f"m = {row['clients']}: examples as alpha^{row['exponent'].slope:.2f}, {row['hits']} of {row['runs']} runs"
            for row in part.to_dict("records")
        )
        + f"; control: {wrong[regime][0]} of {wrong[regime][1]}"
        for regime, part in rows.groupby("regime", sort=False)
    ]
    lows, highs = np.array(rows["success"].tolist()).T
    bad = any(slope.misses(exponent, width) for slope, exponent, width in targets)
    bad |= bool((highs < spec["least_success"]).any())
    good = all(slope.within(exponent, width) for slope, exponent, width in targets)
    good &= bool((lows >= spec["least_success"]).all() and rows["within"].all() and (rows["escapes"] > 0).all())
    good &= bool((frame["minor"] < _TOO_MUCH).all()) and all(proportion(*each)[1] < 0.5 for each in wrong.values())
    return Decision.by("; ".join(words), failed=bad, passed=good)


# ---------------------------------------------------------------- simulated results
@tabulated
def simulated(spec: Spec, generator: np.random.Generator, right: bool) -> Rows:
    """Examples that scatter by 0.05 about a power of the accuracy, as in the stored quick result; margins as there."""
    # The attempts at the end make the exponents steeper, by as much as they use of all examples.
    beyond = {"quick": 0.033, "paper": 0.006}[spec.profile]
    powers = {"sampling": -2.87, "private": -2.17}
    others = {"sampling": "private", "private": "sampling"}
    common = {"returned": True, "escapes": 3, "minor": 0.01, "error": 0.25, "in_attempts": 1.0}
    for cell in cells(spec):
        regime, repeats = cell["regime"], spec["repeats"] if cell["kind"] == "rate" else spec["margin"]["repeats"]
        if cell["kind"] == "rate":
            exponent = EXPONENTS[regime if right else others[regime]] - beyond
            bought = spec["accuracy"] * (1 + 2 * beyond) * cell["clients"] ** exponent
            mean = math.log(spec["examples"][regime]) + powers[regime] * math.log(cell["accuracy"] / bought)
            used, level = np.exp(generator.normal(mean, 0.05, repeats)), np.full(repeats, 0.5)
        else:
            chance = {2.0: 0.93, 2.83: 0.19, 4.0: 0.0}[cell["multiple"]]
            used, level = np.ones(repeats), np.where(generator.random(repeats) < chance, 0.5, 2.0)
        yield {**cell, **common, "repeat": np.arange(repeats), "used": used, "level": level}


EXPERIMENT = study(
    WORDS, [QUICK, PAPER], (cells, run_cell, decide, simulated), chances={"quick": (1.0, 0.0), "paper": (1.0, 0.0)},
    rule=("examples", "least_success", "window"), cpu_only=True,
)  # fmt: skip
