"""Wrong variants of a statement, one small change each, to see whether its check can fail."""

from collections.abc import Iterator

import sympy
from sympy.tensor.indexed import Indexed

from dpnotes.theory.statements import Ratio, Statement

_SHIFT = sympy.Rational(1, 12)


def mutants(statement: Statement) -> Iterator[tuple[str, Statement]]:
    """Small changes of the printed expressions: one sign, one exponent by 1/12, one symbol dropped, one number doubled.

    Numbers are left alone in a statement about orders of magnitude, which does not see them.

    Yields:
      What was changed, and the statement that says so.
    """
    for place, expression in enumerate(statement.printed):
        seen = {expression}
        for change, mutant in [("sign", -expression), ("number", 2 * expression), *_of(expression)]:
            if change == "number" and isinstance(statement, Ratio):
                continue
            if mutant in seen or mutant.has(sympy.nan, sympy.zoo):
                continue
            seen.add(mutant)
            printed = [*statement.printed[:place], mutant, *statement.printed[place + 1 :]]
            yield f"{change}: {mutant}", statement.restate(*printed)


def _of(expression: sympy.Basic) -> Iterator[tuple[str, sympy.Expr]]:
    """Mutants of a tree: changes at its root, then those of each argument, put back."""
    yield from _at_root(expression)
    if isinstance(expression, Indexed | sympy.Symbol) or not expression.args:
        return
    # The second and later arguments of a sum are its limits, the conditions of a piecewise are no formulas.
    arguments = expression.args[:1] if isinstance(expression, sympy.Sum) else expression.args
    for index, argument in enumerate(arguments):
        if isinstance(argument, sympy.Tuple) or argument.is_Relational or argument.is_Boolean:
            continue
        for change, mutant in _of(argument):
            yield change, expression.func(*expression.args[:index], mutant, *expression.args[index + 1 :])


def _at_root(expression: sympy.Basic) -> Iterator[tuple[str, sympy.Expr]]:
    if isinstance(expression, sympy.Number):
        if expression not in (0, 1, -1):
            yield "number", 2 * expression
        return
    if isinstance(expression, sympy.Symbol | Indexed):
        yield "exponent", expression ** (1 + _SHIFT)
        yield "exponent", expression ** (1 - _SHIFT)
        yield "symbol dropped", sympy.Integer(1)
    elif isinstance(expression, sympy.Pow):
        base, exponent = expression.args
        yield "exponent", base ** (exponent + _SHIFT)
        yield "exponent", base ** (exponent - _SHIFT)
    elif isinstance(expression, sympy.Add):
        for index, term in enumerate(expression.args):
            others = expression.args[:index] + expression.args[index + 1 :]
            yield "sign", sympy.Add(*others, -term)
