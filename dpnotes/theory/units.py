"""Units of measurement, and a check that a formula is homogeneous in them.

Two base units are enough for optimisation: the loss `[F]` and the length `[x]` of a parameter step. A gradient is
`F/x`, a smoothness constant `F/x^2`, a probability or a number of examples has no unit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import sympy
from sympy.tensor.indexed import Indexed

Power = Fraction | sympy.Expr  # of a unit: a number, or a rational function of a letter that exponents may depend on


@dataclass(frozen=True)
class Unit:
    """The unit `F^loss x^length`; powers are rational, or depend on a letter without unit that has an interval.

    >>> gradient = LOSS / LENGTH
    >>> str(gradient**2 / LOSS)
    'F x^-2'
    >>> from dpnotes.theory.symbols import Domain, PaperSymbols
    >>> kappa = PaperSymbols("example").symbol("kappa", "an exponent", domain=Domain(1, 2, closed=True))
    >>> str(LOSS ** (1 / kappa - 1) * LENGTH)
    'F^((1 - kappa)/kappa) x'
    """

    loss: Power = Fraction(0)
    length: Power = Fraction(0)

    def __mul__(self, other: "Unit") -> "Unit":
        return Unit(_power(self.loss + other.loss), _power(self.length + other.length))

    def __truediv__(self, other: "Unit") -> "Unit":
        return self * other**-1

    def __pow__(self, power: Power | int) -> "Unit":
        return Unit(_power(self.loss * power), _power(self.length * power))

    @property
    def is_plain(self) -> bool:
        """True if the powers are numbers."""
        return isinstance(self.loss, Fraction) and isinstance(self.length, Fraction)

    def __str__(self) -> str:
        powers = (("F", self.loss), ("x", self.length))
        shown = [(name, f"({p})" if isinstance(p, sympy.Expr) else str(p)) for name, p in powers if p != 0]
        return " ".join(name if power == "1" else f"{name}^{power}" for name, power in shown) or "1"


def _power(value: Power) -> Power:
    """The power in the one form that equal powers have."""
    if isinstance(value, Fraction):
        return value
    simple = value if isinstance(value, sympy.Rational) else sympy.cancel(value)
    return Fraction(int(simple.p), int(simple.q)) if isinstance(simple, sympy.Rational) else simple


NONE = Unit()
LOSS = Unit(loss=Fraction(1))
LENGTH = Unit(length=Fraction(1))


class UnitsDiffer(ValueError):
    """The error for a formula that adds or compares different units; its message names the terms and both units."""


def unit_of(expression: sympy.Basic) -> Unit | None:
    """The unit of an expression in paper symbols; None stands for zero, which fits every unit.

    Args:
      expression: built from `dpnotes.theory.symbols` and numbers.

    Raises:
      UnitsDiffer: two terms of a sum, or the argument of a function or an exponent, do not fit.
      TypeError: a symbol carries no unit, so it does not come from a paper's symbols.

    >>> from dpnotes.theory.symbols import PaperSymbols
    >>> paper = PaperSymbols("example")
    >>> smoothness = paper.symbol("M", "smoothness", unit=LOSS / LENGTH**2)
    >>> distance = paper.symbol("r", "distance", unit=LENGTH)
    >>> str(unit_of(smoothness * distance**2 / 2))
    'F'
    >>> unit_of(smoothness * distance + distance)
    Traceback (most recent call last):
    dpnotes.theory.units.UnitsDiffer: Expected equal units in M*r + r, got r: x, M*r: F x^-1.
    """
    if isinstance(expression, sympy.Number | sympy.NumberSymbol):
        return None if expression.is_zero or not expression.is_finite else NONE
    if isinstance(expression, Indexed):
        return unit_of(expression.base.label)
    if isinstance(expression, sympy.Symbol):
        if not isinstance(getattr(expression, "unit", None), Unit):
            raise TypeError(f"Expected a symbol with a unit, got the bare symbol {expression}.")
        return expression.unit  # type: ignore[attr-defined]
    if isinstance(expression, sympy.Mul):
        units = [unit_of(argument) for argument in expression.args]
        return None if None in units else math.prod(units, start=NONE)  # type: ignore[arg-type]
    if isinstance(expression, sympy.Pow):
        base, exponent = expression.args
        _require_none(exponent, expression)
        unit = unit_of(base)
        if unit is None or unit == NONE:
            return NONE
        if not (isinstance(exponent, sympy.Rational) or all(map(has_interval, exponent.free_symbols or [None]))):
            raise UnitsDiffer(f"Expected {base} without unit under the power {exponent}, got {unit}.")
        return unit**exponent
    if isinstance(expression, sympy.Sum | sympy.Abs):
        return unit_of(expression.args[0])
    if isinstance(expression, sympy.Add | sympy.Max | sympy.Min | sympy.Piecewise | sympy.core.relational.Relational):
        terms = [p[0] for p in expression.args] if isinstance(expression, sympy.Piecewise) else list(expression.args)
        units = {str(term): unit for term in terms if (unit := unit_of(term)) is not None}
        if len(set(units.values())) > 1:
            listed = [f"{term}: {units[term]}" for term in sorted(units, key=lambda term: (len(term), term))]
            raise UnitsDiffer(f"Expected equal units in {expression}, got {', '.join(listed)}.")
        return next(iter(units.values()), None)
    for argument in expression.args:
        _require_none(argument, expression)
    return NONE


def has_interval(symbol: sympy.Basic) -> bool:
    """Return whether a letter may be in the powers of what has a unit: its domain is a bounded interval.

    >>> from dpnotes.theory.symbols import UNIT_INTERVAL, PaperSymbols
    >>> paper = PaperSymbols("example")
    >>> has_interval(paper.symbol("a", "a power", domain=UNIT_INTERVAL)), has_interval(paper.symbol("b", "a number"))
    (True, False)
    """
    domain = getattr(symbol, "domain", None)
    return domain is not None and math.isfinite(domain.low) and math.isfinite(domain.high) and not domain.integer


def _require_none(argument: sympy.Basic, expression: sympy.Basic) -> None:
    unit = unit_of(argument)
    if unit not in (None, NONE):
        raise UnitsDiffer(f"Expected {argument} without unit in {expression}, got {unit}.")


def equal_modulo(unit: Unit, other: Unit, free: Sequence[Unit]) -> bool:
    """Return whether two units are equal once every unit of `free` is set to 1, for all values of a letter in powers.

    >>> equal_modulo(LOSS, LENGTH, [LOSS / LENGTH]), equal_modulo(LOSS, LENGTH, [LOSS])
    (True, False)
    """
    difference = unit / other
    directions = [one for one in free if one != NONE]
    if difference == NONE:
        return True
    if not directions:
        return False

    def across(left: Unit, right: Unit) -> Power:
        return _power(left.loss * right.length - left.length * right.loss)

    areas = [across(directions[0], one) for one in directions[1:]]
    if not any(areas) and across(difference, directions[0]) != 0:
        return False
    # Where one of these powers is 0, fewer units are free.
    for power in (*areas, directions[0].loss, directions[0].length):
        top, _ = sympy.fraction(power)
        if len(top.free_symbols) != 1 or not top.is_polynomial():
            continue
        (letter,) = top.free_symbols
        for value in filter(letter.domain.holds, sympy.real_roots(top)):
            here, *others = (_at(one, letter, value) for one in (difference, *directions))
            if not equal_modulo(here, NONE, others):
                return False
    return True


def _at(unit: Unit, letter: sympy.Basic, value: sympy.Expr) -> Unit:
    return Unit(*(_power(sympy.sympify(power).xreplace({letter: value})) for power in (unit.loss, unit.length)))
