"""A hundred audits by likelihood ratio: of every public algorithm as a user calls it, every oracle, every mechanism.

Each audit uses a worst-case pair of neighbouring data sets (`signals.py`), and a score whose distribution is computed
from the papers alone (`doors.py`). This distribution determines, before any run, the event to count and the number of
runs such that the same audit of code with half of the noise refutes the claim with probability at least `POWER`. The
claim is the algorithm's own `Guarantee`.
"""

import math
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache

import numpy as np

from dpnotes.core import Guarantee
from dpnotes.privacy.audit import LowerBound, from_scores, power, runs_for_power
from dpnotes.privacy.audit.bounds import epsilon_from_counts
from dpnotes.random.streams import Streams
from tests.attack.doors import doors
from tests.attack.signals import each_claim_once

LEVEL, POWER = 0.01, 0.95
MOST_REJECTIONS, CHANCE_OF_MORE = 4, 0.0034  # of 100 at LEVEL; checked by a test


# ---------------------------------------------------------------- an audit
@dataclass(frozen=True)
class Plan:
    """The plan of an audit, fixed before any draw: the event `score > threshold`, the runs per side, and the power."""

    threshold: float
    runs: int
    power: float


_DRAWS = 1_000_000


@cache
def plan(name: str) -> Plan:
    """Choose the event that refutes the claim with the fewest runs if the noise is halved, from the law alone."""
    door = doors()[name]
    claim = door.attack(True, Streams.of("plan", [0, 1]))[1]
    draw = np.random.default_rng(sum(name.encode()))
    sides = [np.sort(door.law(included, 0.5, _DRAWS, draw)) for included in (True, False)]
    thresholds = np.unique(np.quantile(np.concatenate(sides), np.linspace(0, 1, 1001)[:-1]))
    hits, false_hits = (len(s) - np.searchsorted(s, thresholds, side="right") for s in sides)
    # Conservative rates from a million draws: a margin of three standard errors plus three draws.
    hit = np.maximum(hits - 3 * np.sqrt(hits), 0) / _DRAWS
    false_hit = np.minimum((false_hits + 3 * np.sqrt(false_hits) + 3) / _DRAWS, 1)
    error = np.sqrt(hit + math.exp(2 * claim.epsilon) * false_hit)
    best = int(np.argmax((hit - claim.delta - math.exp(claim.epsilon) * false_hit) / np.maximum(error, 1e-9)))
    rates, of = (float(hit[best]), float(false_hit[best])), {"epsilon": claim.epsilon, "delta": claim.delta}
    runs = max(door.least_runs, runs_for_power(*rates, **of, level=LEVEL, at_least=POWER, most=2_000_000))
    return Plan(float(thresholds[best]), runs, power(*rates, runs, **of, level=LEVEL))


@dataclass(frozen=True)
class Audit:
    """The result of one audit.

    Args:
      door: the name of the audited algorithm.
      claim: the guarantee that the algorithm claims, at `DELTA`.
      bound: the lower bound that the audit proves.
      p_value: the least level at which the audit refutes the claim, 1 if there is none.
      power: the power at `LEVEL` against half of the noise.
    """

    door: str
    claim: Guarantee
    bound: LowerBound
    p_value: float
    power: float


def audit(name: str, seed: int | str, halved: bool = False) -> Audit:
    """Run one audit of a door, with the event and number of runs of its plan; with `halved` it is the control."""
    door, made = doors()[name], plan(name)
    with each_claim_once(), door.halved() if halved else nullcontext():
        sides = [
            door.attack(included, Streams.of(f"attack on {name}, {seed}, {included}", range(made.runs)))
            for included in (True, False)
        ]
    (with_canary, claim), (without, _) = sides
    bound = from_scores(
        with_canary, without, delta=claim.delta, relation=claim.relation, level=LEVEL, threshold=made.threshold
    )
    hits, false_hits = (int((side > made.threshold).sum()) for side, _ in sides)
    return Audit(name, claim, bound, p_value(hits, false_hits, made.runs, claim), made.power)


def p_value(hits: int, false_hits: int, runs: int, claim: Guarantee) -> float:
    """Return the least level at which these counts refute the claim, by bisection of its logarithm."""

    def refutes(exponent: float) -> bool:
        level = 10.0**exponent
        return float(epsilon_from_counts(hits, runs, false_hits, runs, delta=claim.delta, level=level)) > claim.epsilon

    low, high = -30.0, math.log10(1 - 1e-9)
    if not refutes(high):
        return 1.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if refutes(middle) else (middle, high)
    return 10.0**high


def attacked(number: int = 100) -> tuple[list[Audit], list[Audit]]:
    """Run `number` audits, with the doors in turn, and one control per door."""
    names = list(doors())
    audits = [audit(names[i % len(names)], i // len(names)) for i in range(number)]
    return audits, [audit(name, "control", halved=True) for name in names[:number]]


def verdict(audits: list[Audit], controls: list[Audit]) -> list[str]:
    """Return the faults, one per line: too many rejections, too many for one door, a control that is not rejected."""
    wrong = []
    rejected = [a for a in audits if a.p_value <= LEVEL]
    if len(rejected) > MOST_REJECTIONS:
        wrong.append(
            f"{len(rejected)} of {len(audits)} audits refute their claim: {', '.join(a.door for a in rejected)}"
        )
    family = Counter(a.door for a in audits)
    for a in audits:
        if a.p_value <= LEVEL / family[a.door]:
            wrong.append(f"{a.door}: {a.bound}, {a.claim.epsilon:.4g} is claimed (p = {a.p_value:.2g})")
    wrong += [f"{a.door}: a power of {a.power:.3f}" for a in audits if a.power < 0.9]
    wrong += [f"{c.door}: half of the noise goes unnoticed ({c.bound})" for c in controls if c.p_value > LEVEL]
    return wrong
