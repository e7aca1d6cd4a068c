"""Tools that all kinds of statement share: evaluation to many digits, seeded points, and the texts of evidence."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import mpmath
import numpy as np
import sympy
from sympy import log
from sympy.core.relational import Relational

from dpnotes.theory import certificates
from dpnotes.theory.symbols import symbols_of
from dpnotes.theory.units import UnitsDiffer, unit_of
from dpnotes.theory.verdicts import Kind, Verdict

Values = Mapping[sympy.Symbol, Any]
DIGITS = 40  # of the multiple-precision comparisons
AGREE = 25  # digits to which two equal formulas must agree
_POINTS = 8


def substitute(expression: sympy.Basic, where: Values) -> Any:
    """The expression with the definitions substituted, one after the other.

    >>> x, y = sympy.symbols("x y")
    >>> substitute(x + y, {x: y**2, y: 3})
    12
    """
    for symbol, value in where.items():
        expression = expression.xreplace({symbol: sympy.sympify(value)})
    return expression


def number(value: Any) -> str:
    """The text of a number in evidence: four digits.

    >>> number(1 / 3), number(10**6), number(1e6), number(2 + 0.5j)
    ('0.3333', '1000000', '1e+06', '2+0.5i')
    """
    if isinstance(value, sympy.Integer | int):
        return str(value)
    converted = complex(value)
    if converted.imag:
        return f"{converted.real:.4g}{converted.imag:+.4g}i"
    return f"{converted.real:.4g}"


def place_text(point: Values) -> str:
    """The text of a point in evidence.

    >>> place_text({sympy.Symbol("n"): 100, sympy.Symbol("d"): 2.0})
    'd = 2, n = 100'
    """
    return ", ".join(f"{symbol} = {number(value)}" for symbol, value in sorted(point.items(), key=lambda p: str(p[0])))


def evaluator(symbols: Sequence[sympy.Symbol], expression: sympy.Basic) -> Callable[[Values], Any]:
    """The expression as a function of points, to 40 digits; nan where it has no value.

    >>> x = sympy.Symbol("x")
    >>> evaluator([x], 1 / x)({x: 4}), evaluator([x], 1 / x)({x: 0})
    (mpf('0.25'), mpf('nan'))
    """
    function = sympy.lambdify(symbols, expression, "mpmath")

    def evaluate(point: Values) -> Any:
        with mpmath.workdps(DIGITS):
            try:
                value = function(*(to_mpf(point[symbol]) for symbol in symbols))
            except (ZeroDivisionError, ValueError, OverflowError):
                return mpmath.nan
            return value if isinstance(value, bool | np.bool_) else mpmath.mpmathify(value)

    return evaluate


def to_mpf(value: Any) -> Any:
    """A number at the working precision; a float stands for the decimal that it prints.

    >>> with mpmath.workdps(30):
    ...     print(to_mpf(0.1))
    0.1
    """
    if isinstance(value, sympy.Rational):
        return mpmath.mpf(int(value.p)) / int(value.q)
    return mpmath.mpf(str(value)) if isinstance(value, float) else mpmath.mpmathify(value)


def agree(left: Any, right: Any, digits: int = AGREE) -> bool:
    """Return whether two numbers are equal to a number of digits.

    >>> agree(mpmath.mpf(1), mpmath.mpf("1.001")), agree(mpmath.mpf(1), mpmath.mpf("1.001"), digits=2)
    (False, True)
    """
    with mpmath.workdps(DIGITS):
        if not (mpmath.isfinite(left) and mpmath.isfinite(right)):
            return False
        return abs(left - right) <= mpmath.mpf(10) ** -digits * max(abs(left), abs(right), mpmath.mpf(10) ** -digits)


def check_example(example: Values, symbols: Sequence[Any], conditions: Sequence[Relational] = ()) -> bool:
    """Return whether an example names every symbol; it must then be a point at which the statement is claimed.

    Raises:
      ValueError: a value is outside its symbol's domain, or a condition does not hold there.

    >>> from dpnotes.theory.symbols import UNIT_INTERVAL, PaperSymbols
    >>> u = PaperSymbols("example").symbol("u", "a fraction", domain=UNIT_INTERVAL)
    >>> check_example({u: 1 / 2}, [u])
    True
    >>> check_example({u: 1}, [u])
    Traceback (most recent call last):
    ValueError: Expected an example with 0 < u < 1, got u = 1.
    """
    if not all(symbol in example for symbol in symbols):
        return False
    for symbol in symbols:
        if not symbol.domain.holds(example[symbol]):
            described = symbol.domain.describe(str(symbol))
            raise ValueError(f"Expected an example with {described}, got {symbol} = {number(example[symbol])}.")
    for condition in conditions:
        if not bool(evaluator(symbols, condition)(example)):
            raise ValueError(f"Expected an example with {condition}, got {place_text(example)}.")
    return True


def seeded_points(
    symbols: Sequence[Any], example: Values, conditions: Sequence[Relational] = ()
) -> list[dict[Any, Any]]:
    """The example, if it names every symbol, then seeded rationals in the domains at which the conditions hold.

    >>> from dpnotes.theory.symbols import UNIT_INTERVAL, PaperSymbols
    >>> u = PaperSymbols("example").symbol("u", "a fraction", domain=UNIT_INTERVAL)
    >>> [0 < point[u] < 1 / 2 for point in seeded_points([u], {}, [u < 1 / 2])] == [True] * 8
    True
    """
    generator = random.Random(0)
    points: list[dict[Any, Any]] = []
    if check_example(example, symbols, conditions):
        points.append({symbol: example[symbol] for symbol in symbols})
    tests = [evaluator(symbols, condition) for condition in conditions]
    for _ in range(1000):
        if len(points) >= (_POINTS if symbols else 1):
            break
        point = {symbol: symbol.domain.draw(generator) for symbol in symbols}
        if all(bool(test(point)) for test in tests):
            points.append(point)
    return points


def is_zero(difference: sympy.Expr) -> bool:
    """Return whether algebra reduces the difference to 0; cheap methods come first.

    >>> from dpnotes.theory.symbols import PaperSymbols
    >>> x = PaperSymbols("example").symbol("x", "a number")
    >>> is_zero((x + 1) ** 2 - x**2 - 2 * x - 1), is_zero(x - 1)
    (True, False)
    """
    for symbol in symbols_of(difference):
        if symbol.domain.low == 0 and symbol.domain.high == 1:  # sympy does not know that ln(1/delta) is positive
            positive = sympy.Dummy(positive=True)
            difference = difference.xreplace({log(1 / symbol): positive, log(symbol): -positive})
    for reduce in (sympy.expand, lambda e: sympy.cancel(sympy.together(e)), sympy.simplify, _radicals):
        if reduce(difference) == 0:
            return True
    return False


def _radicals(difference: sympy.Expr) -> sympy.Expr:
    dense = sympy.powdenest(sympy.expand_log(difference, force=True), force=True)
    return sympy.simplify(sympy.expand(sympy.radsimp(dense)))


def compare_units(*expressions: sympy.Basic) -> Verdict | None:
    """The verdict `units differ`; None if all expressions are homogeneous and have the same unit.

    >>> from dpnotes.theory.symbols import PaperSymbols
    >>> from dpnotes.theory.units import LENGTH
    >>> paper = PaperSymbols("example")
    >>> print(compare_units(paper.symbol("x", "a number"), paper.symbol("r", "a distance", LENGTH)))
    units differ: stated in 1, derived in x
    """
    sides = {f"side {k}": sympy.sympify(e) for k, e in enumerate(expressions, 1)}
    certificate = partial(certificates.units, sides, {})
    try:
        units = [unit for expression in expressions if (unit := unit_of(expression)) is not None]
    except UnitsDiffer as error:
        return Verdict(Kind.UNITS_DIFFER, str(error), certificate)
    if len(set(units)) > 1:
        return Verdict(Kind.UNITS_DIFFER, f"stated in {units[0]}, derived in {units[1]}", certificate)
    return None


def contradicted(
    evidence: str, relation: certificates.Relation, point: Values, values: Sequence[Any], within: Any = 0
) -> Verdict:
    """The verdict `contradicted`, whose certificate is a point at which a relation fails.

    >>> from dpnotes.theory.symbols import PaperSymbols
    >>> x = PaperSymbols("example").symbol("x", "a number")
    >>> print(contradicted("at x = 2", certificates.Relation(x, "<=", 1), {x: 2}, [mpmath.mpf(2), mpmath.mpf(1)]))
    contradicted: at x = 2
    """
    return Verdict(Kind.CONTRADICTED, evidence, partial(certificates.witness, relation, point, values, within))


def name_of(quantity: sympy.Expr, subject: sympy.Expr | None) -> sympy.Expr:
    """The name of a quantity: its subject, or the quantity itself if it has none.

    >>> name_of(sympy.Symbol("x") ** 2, None), name_of(sympy.Symbol("x") ** 2, sympy.Symbol("square"))
    (x**2, square)
    """
    return quantity if subject is None else subject


def writer(latex: bool) -> Callable[[Any], str]:
    """The function that writes an expression: in LaTeX, or as plain text.

    >>> writer(latex=False)(sympy.Symbol("x_1")), writer(latex=True)(sympy.Symbol("x_1"))
    ('x_1', 'x_{1}')
    """
    return sympy.latex if latex else str


def held_for(conditions: Sequence[str], latex: bool = False) -> str:
    """The text ` for a, b` of the conditions; empty if there are none.

    >>> held_for(["x <= y"]), held_for([])
    (' for x <= y', '')
    """
    if not conditions:
        return ""
    return f" \\quad \\text{{for }} {', '.join(conditions)}" if latex else f" for {', '.join(conditions)}"


def relations(conditions: Sequence[Relational], latex: bool = False) -> list[str]:
    """The texts of relations.

    >>> relations([sympy.Symbol("x") < 2])
    ['x < 2']
    """
    return [sympy.latex(c) if latex else f"{c.lhs} {c.rel_op} {c.rhs}" for c in conditions]


def at_most_one(monomials: Iterable[sympy.Expr], latex: bool = False) -> list[str]:
    """The texts of monomials that are at most 1, as numerator at most denominator.

    >>> d, m = sympy.symbols("d m", positive=True)
    >>> at_most_one([d / m])
    ['d <= m']
    """
    sides = [sympy.fraction(sympy.together(monomial)) for monomial in monomials]
    show, sign = writer(latex), "\\leq" if latex else "<="
    return [f"{show(lower)} {sign} {show(upper)}" for lower, upper in sides]
