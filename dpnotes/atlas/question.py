"""A question: sizes, privacy, constants of the problem, and what is wanted."""

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpnotes import papers
from dpnotes.theory.calculators import Measure
from dpnotes.theory.methods import Method
from dpnotes.theory.orders import ROUNDING, UNITS, Named, as_named, log_of
from dpnotes.theory.refusals import MixedLetters, require
from dpnotes.theory.symbols import COUNT, POSITIVE, UNIT_INTERVAL, Domain, PaperSymbol
from dpnotes.util import validate

_HALF = Fraction(1, 2)
GOALS: Mapping[str, tuple[Measure, ...]] = {
    "sosp": (Measure.SECOND_ORDER, Measure.SECOND_ORDER_EMPIRICAL),
    "fosp": (Measure.FIRST_ORDER, Measure.FIRST_ORDER_EMPIRICAL),
    "goldstein": (Measure.GOLDSTEIN, Measure.GOLDSTEIN_EMPIRICAL),
    "risk": (Measure.EXCESS_RISK,),
}
# A point with the first promise also has the second, on the same objective.
IMPLIES = {Measure.SECOND_ORDER: Measure.FIRST_ORDER, Measure.SECOND_ORDER_EMPIRICAL: Measure.FIRST_ORDER_EMPIRICAL}


@dataclass(frozen=True)
class Field:
    """A number that a question has.

    Args:
      label: its meaning, with the letter in which it is usually written.
      domain: the numbers that it may be.
      default: its value if none is given.
      least: the smallest value on a slider.
      most: the largest value on a slider.
    """

    label: str
    domain: Domain = POSITIVE
    default: float = 1.0
    least: float = 1e-3
    most: float = 1e3


FIELDS: Mapping[str, Field] = {
    "num_examples": Field("examples n, of each client", Domain(2, math.inf, True, True), math.nan, 2, 1e15),
    "dim": Field("dimension d", COUNT, math.nan, 1, 1e12),
    "epsilon": Field("privacy loss epsilon", default=math.nan, most=100),
    "delta": Field("privacy failure delta", UNIT_INTERVAL, math.nan, 1e-12, 0.1),
    "lipschitz": Field("Lipschitz constant G of an example's loss"),
    "smoothness": Field("smoothness M"),
    "hessian_lipschitz": Field("Lipschitz constant rho of the Hessian"),
    "initial_gap": Field("initial gap F(x_0) - inf F"),
    "clients": Field("clients m", COUNT, 1, 1, 1e4),
    "radius": Field("Goldstein radius", most=1),
    "distance": Field("distance R to a minimiser"),
    "condition_number": Field("condition number kappa", Domain(1), 10.0, 1.001, 1e4),
    "failure": Field("failure probability of the optimiser", UNIT_INTERVAL, 0.01, 1e-6, 0.5),
}
# The limits of accuracies that say something, as monomials, by the reason; "2" is the number.
LIMITS: Mapping[str, Named] = {
    "the start has that risk": (),
    "every point has that, G": as_named({"lipschitz": 1}),
    "every point has that, L": as_named({"lipschitz": 1}),
    "every point has that, M^2/rho": as_named({"smoothness": 2, "hessian_lipschitz": -1}),
    "the start has that, sqrt(2 M gap)": as_named({"2": _HALF, "smoothness": _HALF, "initial_gap": _HALF}),
    "the start has that, gap/radius": as_named({"initial_gap": 1, "radius": -1}),
}
SHORT = {"n": "num_examples", "d": "dim"}


@dataclass(frozen=True)
class Question:
    """A question to the atlas.

    Args:
      given: a number for each of `FIELDS`.
      goal: a key of `GOALS`, or "all".
      alpha: the accuracy that is wanted, if one is.

    Raises:
      ValueError: a number is outside its domain, the goal is unknown, or alpha is vacuous.

    >>> ask(n=100, d=2.5, epsilon=1.0, delta=1e-5)
    Traceback (most recent call last):
    ValueError: Expected d=2.5 >= 1 and an integer.
    """

    given: Mapping[str, float]
    goal: str = "all"
    alpha: float | None = None

    def __post_init__(self) -> None:
        validate.one_of(("all", *GOALS), goal=self.goal)
        if self.alpha is None:
            return
        validate.positive(alpha=self.alpha)
        if self.goal == "all":
            raise ValueError(f"Expected a goal with alpha={self.alpha!r}, one of: {', '.join(GOALS)}.")
        value, words = limit(self.measures[0], self.given)
        require(
            self.alpha < value * (1 - ROUNDING),
            f"Expected alpha={{alpha:g}} < {{value:.6g}}: {words}.",
            alpha=self.alpha,
            value=value,
        )

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures that are shown."""
        goals = GOALS if self.goal == "all" else (self.goal,)
        return tuple(measure for goal in goals for measure in GOALS[goal])


def ask(goal: str = "all", alpha: float | None = None, **numbers: Any) -> Question:
    """Return a question, with the defaults of `FIELDS`.

    Args:
      goal: "sosp", "fosp", "goldstein", "risk" or "all".
      alpha: the accuracy that is wanted; needs a goal.
      **numbers: by the names of `FIELDS`, or `n` and `d`; n, d, epsilon and delta have no defaults.

    Raises:
      MixedLetters: a name is the letter of a paper.
      ValueError: a name is unknown or missing, or as `Question`.
      TypeError: a number is none.

    >>> ask(n=100, d=2, epsilon=1.0, delta=1e-5, U=1.0)
    Traceback (most recent call last):
    dpnotes.theory.refusals.MixedLetters: Expected common names, got U, a letter of drift_escape: initial_gap is its
        common name.
    """
    given: dict[str, float] = {}
    for typed, value in numbers.items():
        name = SHORT.get(typed, typed)
        if name not in FIELDS:
            raise _unknown(typed)
        if name in given:
            raise ValueError(f"Expected {name} once, got it twice.")
        validate.real(**{typed: value})
        FIELDS[name].domain.check(typed, value)
        given[name] = float(value) if value > 2**53 else value
    if missing := [name for name, field in FIELDS.items() if name not in given and math.isnan(field.default)]:
        raise ValueError(f"Expected {', '.join(missing)}: there is no usual value.")
    return Question({name: given.get(name, field.default) for name, field in FIELDS.items()}, goal, alpha)


def _unknown(name: str) -> ValueError:
    within = [field for field in FIELDS if name in field.split("_")]
    near = within or difflib.get_close_matches(name, FIELDS, n=1)
    for notation in papers.parts("notation"):
        for symbol in vars(notation).values():
            if isinstance(symbol, PaperSymbol) and symbol.name == name and not within:
                common = symbol.common if symbol.common in FIELDS else None
                instead = f"{common} is its common name" if common else "no question has it"
                return MixedLetters(f"Expected common names, got {name}, a letter of {symbol.paper}: {instead}.")
    offer = f"; did you mean {near[0]}?" if near else "."
    return ValueError(f"Expected {name!r} to be one of: n, d, {', '.join([*FIELDS][2:])}{offer}")


def limit(measure: Measure, given: Mapping[str, float]) -> tuple[float, str]:
    """Return the accuracy from which on a promise is vacuous, and the reason in words.

    >>> given = {"lipschitz": 2.0, "smoothness": 3.0, "hessian_lipschitz": 0.5, "initial_gap": 4.0, "radius": 0.5}
    >>> [f"{value:.6g}, {words}" for value, words in (limit(goal[0], given) for goal in GOALS.values())]
    ['18, every point has that, M^2/rho', '2, every point has that, G', '2, every point has that, L',
        '1, the start has that risk']
    """
    logs = {name: math.log(value) for name, value in given.items() if name in UNITS} | {"2": math.log(2)}
    with np.errstate(over="ignore"):
        risk, G, L, curvature, start, near = (
            (float(np.exp(log_of(powers, logs))), words) for words, powers in LIMITS.items()
        )
    if measure is Measure.EXCESS_RISK:
        return risk
    if measure in GOALS["goldstein"]:
        return min(L, near)
    gradient = min(G, start)
    return gradient if measure in GOALS["fosp"] else max(gradient, curvature, key=lambda pair: pair[0])


def promises(method: Method, measure: Measure) -> bool:
    """Return whether a method promises this measure, itself or by a stronger promise on the same objective.

    >>> from dpnotes.papers import methods
    >>> [promises(methods()[0], goal[0]) for goal in GOALS.values()]
    [True, True, False, False]
    """
    return method.measure is measure or (not method.floor and IMPLIES.get(method.measure) is measure)


def for_orders(given: Mapping[str, float]) -> dict[str, float]:
    """The numbers that orders depend on; the noise of a gradient is taken as the Lipschitz constant."""
    return {name: given[name] for name in UNITS if name in given} | {"gradient_noise": given["lipschitz"]}
