"""Where another method becomes the best: exact, because orders are piecewise linear in logarithms."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpnotes.atlas.methods import methods
from dpnotes.atlas.question import FIELDS, Question, for_orders, limit, masked, promises
from dpnotes.theory.calculators import Measure
from dpnotes.theory.orders import Order, meetings
from dpnotes.util import validate

_TIE = 1e-9  # of two logarithms
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
    """Return the orders that are compared for a measure, by method: neither masked nor refused.

    Raises:
      ValueError: the reading is unknown.
    """
    validate.one_of(READINGS, reading=reading)
    found = {}
    for method in methods():
        order: Order | None = getattr(method, reading)
        if promises(method, measure) and order is not None and not method.floor:
            if not masked(method, question.given, order.normalised):
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
    orders, largest = orders_of(question, measure, reading), limit(measure, question.given)[0]
    field = FIELDS.get(along, FIELDS["lipschitz"])
    low, high = math.log(field.least), math.log(field.most)
    marks: dict[float, dict[frozenset[str], str]] = {low: {}, high: {}}
    names = [*orders]
    for place, one in enumerate(names):
        for two in [None, *names[place + 1 :]]:
            for found in meetings(orders[one], orders[two] if two else largest, given, along):
                pair = frozenset((one, two) if two else (one,))
                marks.setdefault(math.log(found.value), {})[pair] = found.formula
    edges: list[float] = []
    for edge in sorted(edge for edge in marks if low <= edge <= high):
        if edges and edge - edges[-1] < _TIE:  # one place, found twice
            marks[edges[-1]] |= marks[edge]
        else:
            edges.append(edge)
    result: list[Takeover] = []
    for left, right in zip(edges, edges[1:], strict=False):
        logs = {name: math.log(value) for name, value in given.items()} | {along: (left + right) / 2}
        best = leaders({name: order.log(logs) for name, order in orders.items()}, math.log(largest))
        before = result[-1].best if result else ()
        if not result or best != before:
            result.append(Takeover(math.exp(left), best, _formula(marks[left], before, best) if result else ""))
    return result


def leaders(logs: dict[str, float], largest: float) -> tuple[str, ...]:
    """Return the names with the smallest logarithm, of those below the largest; several if they tie."""
    informative = {name: value for name, value in logs.items() if value < largest - _TIE}
    least = min(informative.values(), default=0.0)
    return tuple(name for name, value in informative.items() if value <= least + _TIE)


def _formula(marks: dict[frozenset[str], str], before: Sequence[str], best: Sequence[str]) -> str:
    pairs = [frozenset((one, two)) for one in before for two in best] + [frozenset((n,)) for n in (*best, *before)]
    return next((marks[pair] for pair in pairs if pair in marks), "")
