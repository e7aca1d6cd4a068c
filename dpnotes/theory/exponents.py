"""Exponents that depend on a parameter, such as `kappa / (4 - kappa)` for kappa in [1, 2], as numbers with a sign.

Linear programs ask for sums, products and signs of exponents. `Exponent` answers for all values within an open interval
at once: where a sign changes inside, it raises `Split` with the value, and the caller asks again on both sides.
"""

import operator
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache, total_ordering
from typing import Any

import sympy

_X = sympy.Symbol("x")
_FIELD = sympy.QQ.frac_field(_X)


class Parameter(sympy.Symbol):
    """A symbol for all values of a parameter within an open interval; it occurs in exponents and constants only.

    >>> Parameter.within("kappa", Fraction(1), Fraction(2))
    kappa
    """

    __slots__ = ("high", "low")

    @staticmethod
    def within(name: str, low: Fraction, high: Fraction) -> "Parameter":
        """The parameter of this name within `(low, high)`."""
        symbol = sympy.Symbol.__xnew__(Parameter, name, real=True, **({"positive": True} if low >= 0 else {}))
        symbol.low, symbol.high = low, high
        return symbol

    def _hashable_content(self) -> tuple[Any, ...]:
        return (*sympy.Symbol._hashable_content(self), str(self.low), str(self.high))


class Split(Exception):  # noqa: N818 - no error: the caller goes on with both parts of the interval
    """The signal that a sign changes within the interval, at the value `at`; None if this value is irrational."""

    def __init__(self, at: Fraction | None) -> None:
        super().__init__(at)
        self.at = at


@total_ordering
class Exponent:
    """A rational function of a parameter; constants are plain `Fraction`s.

    >>> kappa = exponent_of(Parameter.within("kappa", Fraction(1), Fraction(2)))
    >>> kappa * 2 - 1, kappa > 1, kappa - kappa
    (2*kappa - 1, True, Fraction(0, 1))
    >>> kappa > Fraction(3, 2)
    Traceback (most recent call last):
    dpnotes.theory.exponents.Split: 3/2
    """

    def __init__(self, value: Any, parameter: Parameter) -> None:
        self.value, self.parameter = value, parameter

    def _with(self, act: Callable[[Any, Any], Any], other: Any, swapped: bool = False) -> Any:
        pair = self.value, _element(other)
        return _number(act(*(pair[::-1] if swapped else pair)), self.parameter)

    def __add__(self, other: Any) -> Any:
        return self._with(operator.add, other)

    def __mul__(self, other: Any) -> Any:
        return self._with(operator.mul, other)

    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other: Any) -> Any:
        return self._with(operator.sub, other)

    def __rsub__(self, other: Any) -> Any:
        return self._with(operator.sub, other, swapped=True)

    def __truediv__(self, other: Any) -> Any:
        return self._with(operator.truediv, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(operator.truediv, other, swapped=True)

    def __neg__(self) -> Any:
        return 0 - self

    def __lt__(self, other: Any) -> bool:
        return _sign(self - other) < 0

    def __eq__(self, other: object) -> bool:
        return _sign(self - other) == 0

    def __bool__(self) -> bool:
        return _sign(self) != 0

    def __hash__(self) -> int:
        return hash((self.value, self.parameter))

    def __float__(self) -> float:
        return float(in_the_middle(self))

    def __repr__(self) -> str:
        return str(expression_of(self))


def exponent_of(expression: sympy.Basic) -> Any:
    """The exponent as a `Fraction` or an `Exponent`; None if it is neither a number nor a function of one parameter.

    >>> exponent_of(sympy.Rational(1, 2)), exponent_of(sympy.Symbol("y")), exponent_of(sympy.sqrt(2))
    (Fraction(1, 2), None, None)
    """
    if isinstance(expression, sympy.Rational):
        return Fraction(int(expression.p), int(expression.q))
    (parameter, *others) = sorted(expression.free_symbols, key=str) or [None]
    if others or not isinstance(parameter, Parameter):
        return None
    try:
        return _number(_FIELD.from_sympy(expression.xreplace({parameter: _X})), parameter)
    except (ValueError, sympy.CoercionFailed):  # no rational function with rational coefficients
        return None


def expression_of(power: Any) -> sympy.Expr:
    """The exponent as a sympy expression.

    >>> expression_of(Fraction(1, 2))
    1/2
    """
    if isinstance(power, Exponent):
        return _FIELD.to_sympy(power.value).xreplace({_X: power.parameter})
    return sympy.Rational(power.numerator, power.denominator)


def in_the_middle(power: Any) -> Fraction:
    """The value of an exponent in the middle of its interval.

    >>> in_the_middle(exponent_of(Parameter.within("kappa", Fraction(1), Fraction(2))))
    Fraction(3, 2)
    """
    if not isinstance(power, Exponent):
        return Fraction(power)
    middle = (power.parameter.low + power.parameter.high) / 2
    top, bottom = (part.evaluate(0, _plain(middle)) for part in (power.value.numer, power.value.denom))
    return _fraction(top / bottom)


def field_of(values: Iterable[Any]) -> tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]:
    """The field that some exponents are in, and the functions that take exponents to its elements and back.

    >>> field, element, number = field_of([Fraction(1, 2)])
    >>> field, number(element(Fraction(1, 2)))
    (QQ, Fraction(1, 2))
    """
    parameter = next((value.parameter for value in values if isinstance(value, Exponent)), None)
    if parameter is None:
        return sympy.QQ, _plain, _fraction
    return _FIELD, _element, lambda element: _number(element, parameter)


def _plain(value: Any) -> Any:
    return sympy.QQ(value.numerator, value.denominator)


def _fraction(element: Any) -> Fraction:
    return Fraction(int(element.numerator), int(element.denominator))


def _element(value: Any) -> Any:
    return value.value if isinstance(value, Exponent) else _FIELD(_plain(value))


def _number(element: Any, parameter: Parameter) -> Any:
    if element.numer.is_ground and element.denom.is_ground:
        return _fraction(sympy.QQ(element.numer.coeff(1)) / sympy.QQ(element.denom.coeff(1)))
    return Exponent(element, parameter)


def _sign(power: Any) -> int:
    if not isinstance(power, Exponent):
        return (power > 0) - (power < 0)
    return _sign_within(power.value, power.parameter.low, power.parameter.high, in_the_middle(power) > 0)


@lru_cache(maxsize=4096)
def _sign_within(value: Any, low: Fraction, high: Fraction, positive: bool) -> int:
    """The sign of a rational function on an open interval in which it has neither root nor pole."""
    for part in (value.numer, value.denom):
        for factor in _factors(part):
            if factor.degree() == 1:
                root = -factor.nth(0) / factor.nth(1)
                if low < Fraction(int(root.p), int(root.q)) < high:
                    raise Split(Fraction(int(root.p), int(root.q)))
            elif factor.count_roots(sympy.Rational(str(low)), sympy.Rational(str(high))):
                raise Split(None)
    return 1 if positive else -1


@lru_cache(maxsize=4096)
def _factors(part: Any) -> list[sympy.Poly]:
    """The irreducible factors of a polynomial, which are the same on every interval."""
    return [factor for factor, _ in sympy.Poly(part.as_expr(), _X, domain="QQ").factor_list()[1]]
