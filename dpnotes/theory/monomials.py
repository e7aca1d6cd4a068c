"""Monomials in positive symbols, as their exponents, and the monomials that an expression is built of.

Constants are dropped throughout: up to them a sum equals the largest of its terms.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import sympy

from dpnotes.theory.exponents import Parameter, exponent_of, expression_of

# A monomial without its coefficient; where exponents have a parameter, they are `Exponent`s.
Powers = Mapping[sympy.Symbol, Fraction]
_MOST_PIECES = 1000  # of a product of sums; a bound of more terms says little up to their number


def powers_of(monomial: sympy.Basic, name: str = "") -> dict[sympy.Symbol, Fraction]:
    """The exponents of a monomial; a positive coefficient is ignored.

    Args:
      monomial: a product of rational powers of positive symbols.
      name: what it is called in an error.

    Raises:
      ValueError: it is no such product; the message names it and the reason.

    >>> x, y = sympy.symbols("x y", positive=True)
    >>> powers_of(3 * x**2 / sympy.sqrt(y))
    {x: Fraction(2, 1), y: Fraction(-1, 2)}
    >>> powers_of(x**sympy.sqrt(2), "noise")
    Traceback (most recent call last):
    ValueError: Expected a monomial as the term 'noise', got x**(sqrt(2)): the power sqrt(2) is not rational.
    """
    found: dict[sympy.Symbol, Fraction] = {}
    _gather(monomial, Fraction(1), found, _Context(monomial, name))
    return {symbol: power for symbol, power in found.items() if power}


@dataclass(frozen=True)
class _Context:
    expression: sympy.Basic
    name: str

    def refuse(self, reason: str) -> ValueError:
        called = f" as the term {self.name!r}" if self.name else ""
        return ValueError(f"Expected a monomial{called}, got {self.expression}: {reason}.")

    def exponent(self, expression: sympy.Basic) -> Fraction:
        """The exponent as a number."""
        found = exponent_of(expression)
        if found is None:
            raise self.refuse(f"the power {expression} is not rational")
        return found

    def require_positive(self, factor: sympy.Basic) -> None:
        """Refuse a constant that may be zero or negative."""
        if not (factor.is_positive or (exponent_of(factor) or 0) > 0):
            raise self.refuse(f"the factor {factor} is not positive")


def _is_constant(part: sympy.Basic) -> bool:
    return all(isinstance(symbol, Parameter) for symbol in part.free_symbols)


def _gather(part: sympy.Basic, power: Fraction, found: dict[sympy.Symbol, Fraction], context: _Context) -> None:
    if _is_constant(part):
        context.require_positive(part)
    elif isinstance(part, sympy.Symbol):
        if not part.is_positive:
            raise context.refuse(f"{part} may be zero or negative")
        found[part] = found.get(part, Fraction(0)) + power
    elif isinstance(part, sympy.Mul):
        for factor in part.args:
            _gather(factor, power, found, context)
    elif isinstance(part, sympy.Pow) and part.args[0].free_symbols:
        _gather(part.args[0], power * context.exponent(part.args[1]), found, context)
    elif isinstance(part, sympy.Add):
        raise context.refuse(f"{part} is a sum")
    else:
        raise context.refuse(f"{part} is no power of a symbol")


def monomials(expression: sympy.Basic, name: str = "") -> list[sympy.Expr]:
    """The monomials whose maximum an expression is, up to constants: the terms of sums and of `Max`, multiplied out.

    Raises:
      ValueError: a part is no monomial, or a minimum (a sum under a negative power is one).

    >>> x, y = sympy.symbols("x y", positive=True)
    >>> monomials(x * sympy.sqrt(x + y))
    [x**(3/2), x*sqrt(y)]
    """
    pieces = branches(expression, name)
    if any("min" in piece.chosen_by for piece in pieces):
        raise _Context(expression, name).refuse("it contains a minimum")
    return list(dict.fromkeys(monomial_of(piece.powers) for piece in pieces))


def monomial_of(powers: Powers) -> sympy.Expr:
    """The monomial with these exponents.

    >>> x = sympy.Symbol("x", positive=True)
    >>> monomial_of({x: Fraction(1, 2)})
    sqrt(x)
    """
    return sympy.Mul(*(s ** expression_of(p) for s, p in powers.items()))


@dataclass(frozen=True)
class Branch:
    """A piece of an expression that is a monomial piece by piece.

    Args:
      powers: the exponents of the monomial.
      conditions: monomials that are at most 1 exactly where the piece is the value, up to constants.
      chosen_by: whether a maximum (of a sum, too) or a minimum chose it, or both did.
    """

    powers: Powers
    conditions: tuple[Powers, ...] = ()
    chosen_by: frozenset[str] = frozenset()


def branches(expression: sympy.Basic, name: str = "") -> list[Branch]:
    """The pieces of what is built of positive symbols by sums, `Max`, `Min`, products and rational powers.

    Raises:
      ValueError: it is built of something else.

    >>> x, y = sympy.symbols("x y", positive=True)
    >>> [(monomial_of(b.powers), [monomial_of(c) for c in b.conditions]) for b in branches(sympy.Min(x, y))]
    [(x, [x/y]), (y, [y/x])]
    """
    return _branches(expression, _Context(expression, name))


_FLIP = {"max": "min", "min": "max"}


def _branches(part: sympy.Basic, context: _Context) -> list[Branch]:
    if part.free_symbols and _is_constant(part):
        context.require_positive(part)
        return [Branch({})]
    if isinstance(part, sympy.Add | sympy.Max | sympy.Min):
        least = isinstance(part, sympy.Min)
        found = []
        for choice in product(*(_branches(argument, context) for argument in part.args)):
            inner = tuple(c for branch in choice for c in branch.conditions)
            by = frozenset({"min" if least else "max"}).union(*(branch.chosen_by for branch in choice))
            for chosen in choice:
                others = [other.powers for other in choice if other is not chosen]
                ratios = [over(chosen.powers, o) if least else over(o, chosen.powers) for o in others]
                found.append(Branch(chosen.powers, (*inner, *filter(None, ratios)), by))
        return found
    if isinstance(part, sympy.Mul):
        found = [Branch({})]
        for factor in part.args:
            found = [
                Branch(times(a.powers, b.powers), (*a.conditions, *b.conditions), a.chosen_by | b.chosen_by)
                for a, b in product(found, _branches(factor, context))
            ]
            if len(found) > _MOST_PIECES:
                raise context.refuse(f"it multiplies out to more than {_MOST_PIECES} monomials")
        return found
    if isinstance(part, sympy.Pow) and isinstance(part.args[0], sympy.Add | sympy.Max | sympy.Min | sympy.Mul):
        power = context.exponent(part.args[1])
        # Under a negative power a maximum becomes a minimum, and the other way round.
        return [
            Branch(
                {s: v * power for s, v in branch.powers.items() if power},
                branch.conditions,
                branch.chosen_by if power > 0 else frozenset(_FLIP[by] for by in branch.chosen_by),
            )
            for branch in _branches(part.args[0], context)
        ]
    powers: dict[sympy.Symbol, Fraction] = {}
    _gather(part, Fraction(1), powers, context)
    return [Branch({s: p for s, p in powers.items() if p})]


def times(left: Powers, right: Powers, power: Fraction | int = 1) -> dict[sympy.Symbol, Fraction]:
    """The exponents of `left * right**power`.

    >>> x, y = sympy.symbols("x y", positive=True)
    >>> times({x: Fraction(1)}, {x: Fraction(1, 2), y: Fraction(1)}, -2)
    {y: Fraction(-2, 1)}
    """
    sums = dict(left)
    for symbol, value in right.items():
        sums[symbol] = sums.get(symbol, Fraction(0)) + power * value
    return {symbol: value for symbol, value in sums.items() if value}


def over(left: Powers, right: Powers) -> dict[sympy.Symbol, Fraction]:
    """The exponents of `left / right`.

    >>> x = sympy.Symbol("x", positive=True)
    >>> over({}, {x: Fraction(1)})
    {x: Fraction(-1, 1)}
    """
    return times(left, right, -1)


def put_in(monomial: Powers, chosen: Mapping[sympy.Symbol, Powers]) -> dict[sympy.Symbol, Fraction]:
    """The exponents of a monomial with monomials in place of some symbols.

    >>> x, y = sympy.symbols("x y", positive=True)
    >>> put_in({x: Fraction(2)}, {x: {y: Fraction(1, 2)}})
    {y: Fraction(1, 1)}
    """
    found = {symbol: power for symbol, power in monomial.items() if symbol not in chosen}
    for symbol, powers in chosen.items():
        found = times(found, powers, monomial.get(symbol, 0))
    return found
