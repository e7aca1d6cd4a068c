"""Mutants of a statement: variants with one small change each, which test whether its check can fail."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import sympy
from sympy.tensor.indexed import Indexed

from dpnotes.theory.asymptotics import Ratio
from dpnotes.theory.families import parameter_of
from dpnotes.theory.inequalities import Inequality, Monotone
from dpnotes.theory.rates import Choice, Rate
from dpnotes.theory.statements import Statement
from dpnotes.theory.verdicts import CONFIRMING, Kind

_SHIFT = sympy.Rational(1, 12)


def mutants(statement: Statement) -> Iterator[tuple[str, Statement]]:
    """Small changes to the printed expressions: one sign, one exponent by 1/12, one symbol dropped, one number doubled.

    A statement about orders of magnitude does not depend on constant factors, nor on symbols that are set to a number:
    neither is changed. Its exponents that depend on a letter change by 1/4, and by a slope that leaves them as they are
    at one end of the letter's interval.

    Yields:
      A description of the change, and the changed statement.

    >>> from dpnotes.theory.symbols import PaperSymbols
    >>> from dpnotes.theory.statements import Identity
    >>> x = PaperSymbols("example").symbol("x", "a number")
    >>> [change for change, _ in mutants(Identity(x, 3 * x, 3 * x))]
    ['sign: -3*x', 'number: 6*x', 'exponent: 3*x**(13/12)', 'exponent: 3*x**(11/12)', 'symbol dropped: 3']
    """
    orders = isinstance(statement, Ratio | Rate | Choice)
    fixed: set[sympy.Symbol] = set()
    if isinstance(statement, Ratio):
        fixed = {symbol for symbol, value in statement.where.items() if sympy.sympify(value).is_number}
    elif isinstance(statement, Rate | Choice):
        fixed = set(statement.normalised)
    letter = parameter_of(statement) if isinstance(statement, Rate | Choice) else None
    if isinstance(statement, Monotone):  # prints a direction and no formula
        opposite = "decreasing" if statement.sense == "increasing" else "increasing"
        yield f"sense: {opposite}", replace(statement, sense=opposite)
    for place, expression in enumerate(statement.printed):
        seen = {expression}
        for change, mutant in [("sign", -expression), ("number", 2 * expression), *_of(expression, fixed, letter)]:
            if mutant in seen or mutant.has(sympy.nan, sympy.zoo) or (orders and change == "number"):
                continue
            seen.add(mutant)
            printed = [*statement.printed[:place], mutant, *statement.printed[place + 1 :]]
            yield f"{change}: {mutant}", statement.restate(*printed)


def _of(expression: sympy.Basic, fixed: set[sympy.Symbol], letter: Any = None) -> Iterator[tuple[str, sympy.Expr]]:
    """The mutants of an expression tree: changes at its root, then changes within each argument."""
    if expression in fixed or (isinstance(expression, sympy.Pow) and expression.args[0] in fixed):
        return
    depends = letter is not None and isinstance(expression, sympy.Pow) and expression.exp.has(letter)
    yield from _slopes(expression, letter) if depends else _at_root(expression)
    if isinstance(expression, Indexed | sympy.Symbol):
        return
    # The second and later arguments of a sum are its limits.
    arguments = expression.args[:1] if isinstance(expression, sympy.Sum) or depends else expression.args
    for index, argument in enumerate(arguments):
        for change, mutant in _of(argument, fixed, letter):
            yield change, expression.func(*expression.args[:index], mutant, *expression.args[index + 1 :])


def _at_root(expression: sympy.Basic) -> Iterator[tuple[str, sympy.Expr]]:
    if isinstance(expression, sympy.Number):
        if expression not in (0, 1, -1):
            yield "number", 2 * expression
    elif isinstance(expression, sympy.Symbol | Indexed):
        yield "exponent", expression ** (1 + _SHIFT)
        yield "exponent", expression ** (1 - _SHIFT)
        yield "symbol dropped", sympy.Integer(1)
    elif isinstance(expression, sympy.Pow):
        base, exponent = expression.args
        yield "exponent", base ** (exponent + _SHIFT)
        yield "exponent", base ** (exponent - _SHIFT)
    elif isinstance(expression, sympy.Add):
        for index, term in enumerate(expression.args):
            yield "sign", sympy.Add(*expression.args[:index], *expression.args[index + 1 :], -term)


def _slopes(power: Any, letter: Any) -> Iterator[tuple[str, sympy.Expr]]:
    """Other exponents that depend on the letter: shifted by 1/4, or by a slope that is 0 at one end of its interval."""
    (base, exponent), quarter = power.args, sympy.Rational(1, 4)
    for change in (quarter, -quarter):
        yield "exponent", base ** (exponent + change)
        for end in (letter.domain.low, letter.domain.high):
            yield "slope", base ** (exponent + change * (letter - sympy.nsimplify(end, rational=True)))


def still_true(original: Statement, mutant: Statement) -> bool:
    """Return whether it is proved that a mutant with the verdict of the original is true as well.

    Such a mutant reveals no gap in the check, since there is nothing to refute. The proof is, for a rate or a choice of
    parameters, the engine's exact certificate; for an order of magnitude, that the two rates have the same order; for a
    bound, that the original implies it (which the search for a counterexample confirms), or algebra.

    >>> from dpnotes.theory.symbols import PaperSymbols
    >>> x = PaperSymbols("example").symbol("x", "a number")
    >>> bound = Inequality(x, 2 * x, {x: (1e-3, 1e3)})
    >>> still_true(bound, bound.restate(4 * x)), still_true(bound, bound.restate(x / 2))
    (True, False)
    """
    if isinstance(original, Choice | Rate) and isinstance(mutant, Choice | Rate):
        return mutant.verdict().kind in CONFIRMING | {Kind.RESTATED}
    if isinstance(original, Ratio) and isinstance(mutant, Ratio):
        same = Ratio(original.rate, mutant.rate, original.axes, "Theta", original.where)
        return same.verdict().kind == Kind.UP_TO_CONSTANTS
    if isinstance(original, Inequality) and isinstance(mutant, Inequality):
        ends = (original.bound, mutant.bound) if original.sense != ">=" else (mutant.bound, original.bound)
        implied = Inequality(*ends, original.region, "<=", original.where, original.conditions, original.instance)
        return implied.verdict().confirms or mutant.verdict().kind == Kind.EXACT
    return False
