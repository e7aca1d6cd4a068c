"""The takeovers, where another method becomes the best: exact, because orders are piecewise linear in logarithms."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dpnotes.atlas.methods import methods
from dpnotes.atlas.question import FIELDS, Question, for_orders, limit, masked, promises
from dpnotes.theory.calculators import Measure
from dpnotes.theory.orders import UNITS, Named, Order, log_of, text
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
    top, field = math.log(limit(measure, question.given)[0]), FIELDS.get(along, FIELDS["lipschitz"])
    logs = {name: math.log(value) for name, value in given.items()} | {along: 0.0}
    orders = orders_of(question, measure, reading)
    ones = {name for order in orders.values() for name in order.normalised}  # they are 1, and so not in formulas
    lines = {name: [_Line.of(monomial, logs, along, ones) for monomial in o.monomials] for name, o in orders.items()}
    everything = [_Line(top, 0.0, {}), *itertools.chain(*lines.values())]
    low, high = math.log(field.least), math.log(field.most)
    found = {one.meets(two) for one, two in itertools.combinations(everything, 2) if one.slope != two.slope}
    edges = [low]
    for edge in sorted(edge for edge in found if low < edge < high):
        if edge - edges[-1] > _TIE:  # else one place, found twice
            edges.append(edge)
    result: list[Takeover] = []
    for left, right in itertools.pairwise([*edges, high]):
        middle = (left + right) / 2
        best = leaders({name: max(line.at(middle) for line in some) for name, some in lines.items()}, top)
        before = result[-1].best if result else None
        if before != best:
            ends = [
                [line for name in names for line in lines[name]] or everything[:1] for names in (before or (), best)
            ]
            formula = next(
                (one.formula(two, along) for one, two in itertools.product(*ends) if one.crosses(two, left)), ""
            )
            result.append(Takeover(math.exp(left), best, formula if result else ""))
    return result


@dataclass(frozen=True)
class _Line:
    """The logarithm of a monomial, or of a limit, as a line in the logarithm of one name."""

    rest: float
    slope: float
    powers: Mapping[str, Fraction]

    @classmethod
    def of(cls, monomial: Named, logs: Mapping[str, float], along: str, ones: set[str]) -> "_Line":
        powers = {name: power for name, power in monomial if name not in ones}
        return cls(log_of(monomial, logs), float(powers.get(along, 0)), powers)

    def at(self, place: float) -> float:
        return self.rest + self.slope * place

    def meets(self, other: "_Line") -> float:
        return (other.rest - self.rest) / (self.slope - other.slope)

    def crosses(self, other: "_Line", place: float) -> bool:
        return self.slope != other.slope and abs(self.at(place) - other.at(place)) < _TIE

    def formula(self, other: "_Line", along: str) -> str:
        """The value of `along` at which both are equal, as a monomial; a limit other than 1 is a number in front."""
        names = [name for name in sorted(UNITS) if name != along]
        powers = {name: self.powers.get(name, 0) - other.powers.get(name, Fraction(0)) for name in names}
        slope = self.powers.get(along, 0) - other.powers.get(along, Fraction(0))
        limits = [line for line in (self, other) if not line.powers and abs(line.rest) > _TIE]
        number = [f"{math.exp(line.rest):.6g}^({(-1 if line is self else 1) / slope})" for line in limits]
        return " ".join([*number, text(tuple((name, -power / slope) for name, power in powers.items() if power))])


def leaders(logs: dict[str, float], largest: float) -> tuple[str, ...]:
    """Return the names with the smallest logarithm, of those below the largest; several if they tie."""
    informative = {name: value for name, value in logs.items() if value < largest - _TIE}
    least = min(informative.values(), default=0.0)
    return tuple(name for name, value in informative.items() if value <= least + _TIE)
