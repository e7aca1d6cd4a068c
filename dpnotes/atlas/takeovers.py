"""The takeovers, where another method becomes the best: exact, because orders are piecewise linear in logarithms."""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpnotes.atlas.methods import methods
from dpnotes.atlas.question import FIELDS, LIMITS, Question, for_orders, limit, promises
from dpnotes.theory.calculators import Measure
from dpnotes.theory.orders import TIE, Named, Order, as_named, log_of, text
from dpnotes.util import validate

READINGS = ("order", "printed")


@dataclass(frozen=True)
class Takeover:
    """A place from which on these methods have the best order.

    Args:
      value: the value of the varied name there.
      best: the names of the methods; several if they tie, none if every order is vacuous.
      formula: the formula of that value; empty where the range begins.
    """

    value: float
    best: tuple[str, ...]
    formula: str = ""


def orders_of(question: Question, measure: Measure, reading: str = "order") -> dict[str, Order]:
    """Return the orders that are compared for a measure, by method; infinite where a promise is masked or refused.

    Raises:
      ValueError: the reading is unknown.
    """
    validate.one_of(READINGS, reading=reading)
    found = {}
    for method in methods():
        if promises(method, measure) and not method.floor and (order := method.applies(getattr(method, reading))):
            found[method.name] = order
    return found


def takeovers(
    question: Question, measure: Measure, along: str = "num_examples", reading: str = "order"
) -> list[Takeover]:
    """Find from where on which methods have the best order, along one name and over the range of its slider.

    Args:
      question: the other numbers.
      measure: the measure whose promises are compared.
      along: "num_examples", "dim", or another name of `FIELDS` that orders depend on.
      reading: "order" (as re-derived) or "printed".

    Raises:
      ValueError: `along` or `reading` is unknown.

    >>> from dpnotes.atlas.question import ask
    >>> found = takeovers(ask(n=60_000, d=800_000, epsilon=2.0, delta=1e-5), Measure.GOLDSTEIN_EMPIRICAL)
    >>> f"{found[-1].value:g}", found[-1].formula
    ('400000', 'dim distance epsilon^-1 initial_gap^-1 lipschitz')
    """
    given = for_orders(question.given)
    validate.one_of([*given], along=along)
    field = FIELDS.get(along, FIELDS["lipschitz"])
    logs: dict[str, Any] = {name: math.log(value) for name, value in given.items()} | {along: 0.0, "2": math.log(2)}
    orders = orders_of(question, measure, reading)

    def place(ratio: Named) -> float:
        """The logarithm of the value at which a monomial is 1; infinite if there is none."""
        slope = float(dict(ratio).get(along, 0))
        return -log_of(ratio, logs) / slope if slope else math.inf

    # What a source sets to 1, and is 1, is not in formulas.
    ones = {name for order in orders.values() for name in order.normalised if name != along and given[name] == 1}

    def solved(ratio: Named) -> str:
        """Return that value as a monomial."""
        slope = dict(ratio)[along]
        return text(as_named({name: -power / slope for name, power in ratio if name not in (along, *ones)}))

    every = [*LIMITS.values(), *itertools.chain(*(order.monomials for order in orders.values()))]
    ratios = {_ratio(*pair) for pair in itertools.combinations(every, 2)}
    edges, high = [math.log(field.least)], math.log(field.most)
    for edge in sorted(map(place, ratios.union(*(order.limits for order in orders.values())))):
        if edges[-1] + TIE < edge < high - TIE:  # else one place, found twice
            edges.append(edge)
    middles = (np.array(edges) + [*edges[1:], high]) / 2
    values = [np.broadcast_to(order.log(logs | {along: middles}), len(edges)) for order in orders.values()]
    result: list[Takeover] = []
    for left, middle, *here in zip(edges, middles, *values, strict=True):
        largest, words = limit(measure, {**question.given, along: math.exp(middle)})
        best = leaders(dict(zip(orders, here, strict=True)), math.log(largest))
        before = result[-1].best if result else ()
        if not result or before != best:
            sides = [
                [m for name in names for m in orders[name].monomials] or [LIMITS[words]] for names in (before, best)
            ]
            met = [_ratio(*pair) for pair in itertools.product(*sides)]
            met += [m for name in {*before} ^ {*best} for m in orders[name].limits]
            formulas = [solved(ratio) for ratio in met if abs(place(ratio) - left) < TIE]
            result.append(Takeover(math.exp(left), best, formulas[0] if result and formulas else ""))
    return result


def _ratio(above: Named, below: Named) -> Named:
    return as_named(above, {name: -power for name, power in below})


def leaders(logs: dict[str, float], largest: float) -> tuple[str, ...]:
    """Return the names with the smallest logarithm, of those below the largest; several if they tie."""
    informative = {name: value for name, value in logs.items() if value < largest - TIE}
    least = min(informative.values(), default=0.0)
    return tuple(name for name, value in informative.items() if value <= least + TIE)
