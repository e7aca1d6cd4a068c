"""The takeovers, where another method becomes the best: exact, because orders are piecewise linear in logarithms."""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from dpnotes.atlas.methods import methods
from dpnotes.atlas.question import FIELDS, LIMITS, Question, for_orders, limit, promises
from dpnotes.theory.calculators import Measure
from dpnotes.theory.orders import ROUNDING, TIE, Named, Order, as_named, log_of, text
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
    logs = {name: math.log(value) for name, value in given.items()} | {along: 0.0, "2": math.log(2)}
    orders = orders_of(question, measure, reading)
    ones = {name for order in orders.values() for name in order.normalised} - {along}  # 1, and so not in formulas

    def lines(monomials: Iterable[Named]) -> list[_Line]:
        return [_Line.of(monomial, logs, along, ones) for monomial in monomials]

    one, tops = lines([()])[0], dict(zip(LIMITS, lines(LIMITS.values()), strict=True))
    accuracy = {name: lines(order.monomials) for name, order in orders.items()}
    ends = {name: lines(order.limits) for name, order in orders.items()}
    pairs = [*itertools.combinations([*tops.values(), *itertools.chain(*accuracy.values())], 2)]
    pairs += [(line, one) for line in itertools.chain(*ends.values())]
    edges, high = [math.log(field.least)], math.log(field.most)
    for edge in sorted(left.meets(right) for left, right in pairs if left.slope != right.slope):
        if edges[-1] + TIE < edge < high:  # else one place, found twice
            edges.append(edge)
    result: list[Takeover] = []
    for left, right in itertools.pairwise([*edges, high]):
        middle = (left + right) / 2
        able = [name for name in orders if all(line.at(middle) <= ROUNDING for line in ends[name])]
        top = tops[limit(measure, {**question.given, along: math.exp(middle)})[1]]
        best = leaders({n: max(line.at(middle) for line in accuracy[n]) for n in able}, top.at(middle))
        before = result[-1].best if result else ()
        if not result or before != best:
            sides = [[line for name in names for line in accuracy[name]] or [top] for names in (before, best)]
            met = [*itertools.product(*sides), *((line, one) for name in {*before} ^ {*best} for line in ends[name])]
            formulas = [first.formula(second, along) for first, second in met if first.crosses(second, left)]
            result.append(Takeover(math.exp(left), best, formulas[0] if result and formulas else ""))
    return result


@dataclass(frozen=True)
class _Line:
    """The logarithm of a monomial as a line in the logarithm of one name."""

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
        return self.slope != other.slope and abs(self.at(place) - other.at(place)) < TIE

    def formula(self, other: "_Line", along: str) -> str:
        """The value of `along` at which both are equal, as a monomial."""
        difference = dict(as_named(self.powers, {name: -power for name, power in other.powers.items()}))
        slope = difference.pop(along)
        return text(as_named({name: -power / slope for name, power in difference.items()}))


def leaders(logs: dict[str, float], largest: float) -> tuple[str, ...]:
    """Return the names with the smallest logarithm, of those below the largest; several if they tie."""
    informative = {name: value for name, value in logs.items() if value < largest - TIE}
    least = min(informative.values(), default=0.0)
    return tuple(name for name, value in informative.items() if value <= least + TIE)
