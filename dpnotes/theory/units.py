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


@dataclass(frozen=True)
class Unit:
    """The unit `F^loss x^length`; powers are rational.

    >>> gradient = LOSS / LENGTH
    >>> str(gradient**2 / LOSS)
    'F x^-2'
    """

    loss: Fraction = Fraction(0)
    length: Fraction = Fraction(0)

    def __mul__(self, other: "Unit") -> "Unit":
        return Unit(self.loss + other.loss, self.length + other.length)

    def __truediv__(self, other: "Unit") -> "Unit":
        return self * other**-1

    def __pow__(self, power: Fraction | int) -> "Unit":
        return Unit(self.loss * power, self.length * power)

    def __str__(self) -> str:
        shown = [(name, str(power)) for name, power in (("F", self.loss), ("x", self.length)) if power]
        return " ".join(name if power == "1" else f"{name}^{power}" for name, power in shown) or "1"


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
        if not isinstance(exponent, sympy.Rational):
            raise UnitsDiffer(f"Expected {base} without unit under the power {exponent}, got {unit}.")
        return unit ** Fraction(int(exponent.p), int(exponent.q))
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


def _require_none(argument: sympy.Basic, expression: sympy.Basic) -> None:
    unit = unit_of(argument)
    if unit not in (None, NONE):
        raise UnitsDiffer(f"Expected {argument} without unit in {expression}, got {unit}.")


def equal_modulo(unit: Unit, other: Unit, free: Sequence[Unit]) -> bool:
    """Return whether two units are equal once every unit of `free` is set to 1.

    >>> equal_modulo(LOSS, LENGTH, [LOSS / LENGTH]), equal_modulo(LOSS, LENGTH, [LOSS])
    (True, False)
    """
    difference = unit / other
    directions = [one for one in free if one != NONE]
    if difference == NONE:
        return True
    if not directions:
        return False

    def across(left: Unit, right: Unit) -> Fraction:
        return left.loss * right.length - left.length * right.loss

    return any(across(directions[0], one) for one in directions[1:]) or not across(difference, directions[0])
