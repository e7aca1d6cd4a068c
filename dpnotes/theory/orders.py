"""Orders of accuracies: maxima of monomials in the names that papers share, with every constant and logarithm 1.

In logarithms such a maximum is piecewise linear. Its inverse and its crossings are therefore exact, and no root is
searched for.
"""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import sympy

from dpnotes.theory.monomials import monomials, powers_of
from dpnotes.theory.rates import Rate
from dpnotes.theory.symbols import PaperSymbol
from dpnotes.theory.units import LENGTH, LOSS, NONE, Unit, UnitsDiffer, equal_modulo

GRADIENT = LOSS / LENGTH
UNITS: Mapping[str, Unit] = {
    "num_examples": NONE,
    "dim": NONE,
    "epsilon": NONE,
    "clients": NONE,
    "lipschitz": GRADIENT,
    "gradient_noise": GRADIENT,
    "smoothness": GRADIENT / LENGTH,
    "hessian_lipschitz": GRADIENT / LENGTH**2,
    "initial_gap": LOSS,
    "radius": LENGTH,
    "distance": LENGTH,
}
TIE, ROUNDING = 1e-9, 1e-12  # logarithms of two orders that count as equal; the error of one logarithm
Named = tuple[tuple[str, Fraction], ...]  # a monomial: powers by common name, in alphabetical order


@dataclass(frozen=True)
class Order:
    """The largest of some monomials, as the order of an accuracy in units of a gradient.

    Args:
      monomials: the powers of each monomial by common name.
      normalised: the names that the source sets to 1, and that the units do not determine.
      limits: monomials that must be at most 1; elsewhere nothing is promised, and the order is infinite.

    Raises:
      UnitsDiffer: a monomial has not the unit of a gradient, up to the normalised names.
      ValueError: there is no monomial.

    >>> half = Order(((("lipschitz", Fraction(1)), ("num_examples", Fraction(-1, 2))),))
    >>> str(half), round(half({"lipschitz": 2.0, "num_examples": 100}), 12)
    ('lipschitz num_examples^(-1/2)', 0.2)
    """

    monomials: tuple[Named, ...]
    normalised: tuple[str, ...] = ()
    limits: tuple[Named, ...] = ()

    def __post_init__(self) -> None:
        if not self.monomials:
            raise ValueError("Expected an order of at least one monomial, got none.")
        for monomial in self.monomials:
            unit = _unit(monomial)
            if not equal_modulo(unit, GRADIENT, [UNITS[name] for name in self.normalised]):
                raise UnitsDiffer(f"Expected {text(monomial)} in units of a gradient, {GRADIENT}, got {unit}.")

    @classmethod
    def of(cls, source: Rate | sympy.Expr, *logs: str) -> "Order":
        """The order of a rate: of an accuracy, or of the sample size that an accuracy needs, which is inverted.

        Constants that the source sets to 1 are put back where the units determine their powers.

        Args:
          source: the statement of a claim, or a sum of monomials in a paper's letters.
          *logs: letters of logarithms, beside those that the statement names.

        Raises:
          ValueError: the rate has a letter without a common name that is no logarithm.
          UnitsDiffer: it is not homogeneous.

        >>> from dpnotes.papers import claim
        >>> str(Order.of(claim("goldstein.own.plain_multi").statement))
        'dim^(1/3) epsilon^(-2/3) initial_gap^(1/3) lipschitz^(2/3) num_examples^(-2/3) radius^(-1/3)'
        """
        rate = source if isinstance(source, Rate) else None
        value = rate.value if rate else source
        ones = [s.common for s in rate.normalised if isinstance(s, PaperSymbol) and s.common] if rate else []
        size = rate is not None and getattr(rate.subject, "common", None) == "num_examples"
        found = []
        for monomial in monomials(value):
            powers: dict[str, Fraction] = {}
            wanted = Fraction(-1)  # power of the accuracy in a sample size
            for symbol, power in powers_of(monomial).items():
                if isinstance(symbol, PaperSymbol) and symbol.common:
                    powers[symbol.common] = Fraction(power)
                elif size and isinstance(symbol, PaperSymbol) and symbol.unit == GRADIENT:
                    wanted = Fraction(power)
                elif symbol.name not in logs and (rate is None or symbol not in rate.logs):
                    raise ValueError(f"Expected common names in {value}, got {symbol}.")
            if size:  # n = rest * accuracy^wanted, so that accuracy = (rest/n)^(-1/wanted)
                powers = {n: -p / wanted for n, p in {**powers, "num_examples": Fraction(-1)}.items()}
            found.append(powers)
        restored = [_restored(powers, ones) for powers in found]
        unique = all(known for _, known in restored)
        return cls(tuple(dict.fromkeys(as_named(p) for p, _ in restored)), () if unique else tuple(sorted(ones)))

    def __or__(self, other: "Order") -> "Order":
        """The maximum of both."""
        ones = tuple(sorted({*self.normalised, *other.normalised}))
        return Order(tuple(dict.fromkeys((*self.monomials, *other.monomials))), ones, (*self.limits, *other.limits))

    def where(self, name: str, power: int = 1) -> "Order":
        """The monomials that contain a name, each raised to a power; units are checked again."""
        found = tuple(as_named({n: p * power for n, p in m}) for m in self.monomials if name in dict(m))
        return replace(self, monomials=found)

    def renamed(self, **names: str) -> "Order":
        """The same order with other names for some quantities, for example `gradient_noise="lipschitz"`."""
        changed = [as_named(*(((names.get(name, name), power),) for name, power in m)) for m in self.monomials]
        return replace(self, monomials=tuple(dict.fromkeys(changed)))

    def __call__(self, given: Mapping[str, Any]) -> Any:
        """The value at numbers, or arrays that broadcast, by common name."""
        with np.errstate(over="ignore"):
            return _plain(np.exp(self.log({name: np.log(given[name]) for name in UNITS if name in given})))

    def log(self, logs: Mapping[str, Any]) -> Any:
        """The logarithm of the value at logarithms by common name."""
        value, *limits = (
            np.maximum.reduce(np.broadcast_arrays(*(log_of(m, logs) for m in some)))
            for some in (self.monomials, self.limits)
            if some
        )
        return _plain(np.where(limits[0] <= ROUNDING, value, np.inf) if limits else value)

    def least(self, given: Mapping[str, float], accuracy: float, along: str = "num_examples") -> float:
        """The least value of `along` at which the order is at most `accuracy`; 0 if any will do, inf if none does.

        >>> half = Order(((("lipschitz", Fraction(1)), ("num_examples", Fraction(-1, 2))),))
        >>> round(half.least({"lipschitz": 2.0}, 0.2), 9)
        100.0
        """
        logs = {name: math.log(value) for name, value in given.items() if name in UNITS} | {along: 0.0}
        low, high, most = -math.inf, math.inf, math.log(accuracy) if accuracy else -math.inf
        for monomial, most in [(m, most) for m in self.monomials] + [(m, 0.0) for m in self.limits]:
            slope, rest = float(dict(monomial).get(along, 0)), log_of(monomial, logs) - most
            if slope < 0:
                low = max(low, rest / -slope)
            elif slope > 0:
                high = min(high, -rest / slope)
            elif rest > TIE:  # up to rounding
                return math.inf
        with np.errstate(over="ignore"):
            return float(np.exp(low)) if low <= high + TIE else math.inf

    def __str__(self) -> str:
        return " + ".join(map(text, self.monomials))


def log_of(monomial: Named, logs: Mapping[str, Any]) -> Any:
    """The logarithm of a monomial at logarithms by common name.

    >>> log_of((("dim", Fraction(1, 2)),), {"dim": 3.0})
    1.5
    """
    return _plain(np.asarray(sum(float(power) * np.asarray(logs[name]) for name, power in monomial)))


def text(monomial: Named) -> str:
    """A monomial as plain text.

    >>> text((("dim", Fraction(1, 2)), ("epsilon", Fraction(-1))))
    'dim^(1/2) epsilon^-1'
    """

    def part(name: str, power: Fraction) -> str:
        shown = str(power) if power.denominator == 1 else f"({power})"
        return name if power == 1 else f"{name}^{shown}"

    return " ".join(part(*pair) for pair in monomial) or "1"


def _plain(value: Any) -> Any:
    return value if np.ndim(value) else float(value)


def as_named(*powers: Mapping[str, Fraction | int] | Iterable[tuple[str, Fraction | int]]) -> Named:
    """Return the product of monomials, each given by its powers.

    >>> text(as_named({"dim": 1, "epsilon": -1}, {"epsilon": 1}))
    'dim'
    """
    product: dict[str, Fraction] = {}
    for name, power in itertools.chain.from_iterable(dict(some).items() for some in powers):
        product[name] = product.get(name, Fraction(0)) + power
    return tuple((name, power) for name, power in sorted(product.items()) if power)


def _unit(monomial: Iterable[tuple[str, Fraction]]) -> Unit:
    unit = NONE
    for name, power in monomial:
        unit = unit * UNITS[name] ** power
    return unit


def _restored(powers: dict[str, Fraction], ones: list[str]) -> tuple[dict[str, Fraction], bool]:
    """The monomial with the constants that were set to 1, and whether the units determine them."""
    lacks = GRADIENT / _unit(powers.items())
    units = sympy.Matrix([[getattr(UNITS[name], part) for name in ones] for part in ("loss", "length")])
    if ones and units.rank() == len(ones):
        for found in sympy.linsolve((units, sympy.Matrix([lacks.loss, lacks.length]))):
            return powers | dict(zip(ones, map(Fraction, found), strict=True)), True
    return powers, not ones
