"""Statements about monomials whose exponents depend on a letter: they are checked for every value of its interval.

The check runs at five values, and then on open intervals between them, with exponents that are functions of the letter
(`dpnotes.theory.exponents`): weights and slacks of its linear programs keep their signs there. Where one would change
its sign, the interval is split. The verdict is the worst that was found.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

import sympy

from dpnotes.theory import certificates
from dpnotes.theory.exponents import Parameter, Split
from dpnotes.theory.monomials import branches, monomial_of
from dpnotes.theory.statements import Statement
from dpnotes.theory.units import has_interval
from dpnotes.theory.verdicts import Kind, Verdict

S = TypeVar("S", bound=Statement)
_REFUTING = (Kind.CONTRADICTED, Kind.NOT_IMPLIED, Kind.IMPROVABLE)  # one value of the letter shows them
_FALSE = (Kind.CONTRADICTED, Kind.NOT_IMPLIED)
_ORDER = (*_REFUTING, Kind.UP_TO_LOGS, Kind.UP_TO_CONSTANTS, Kind.RESTATED)  # from the worst verdict to the best
_MOST_PARTS = 40  # of an interval
_NARROW = 16  # an interval with an irrational change of sign is not halved below this part of the whole


def parameter_of(statement: Statement) -> Any:
    """The letter that the exponents of a statement depend on; None if they are numbers.

    Raises:
      ValueError: there are several such letters, or its domain is no bounded interval.

    >>> from dpnotes.theory.rates import Rate
    >>> from dpnotes.theory.symbols import Domain, PaperSymbols
    >>> letter = PaperSymbols("example").symbol
    >>> x, kappa = letter("x", "a number"), letter("kappa", "an exponent", domain=Domain(1, 2, closed=True))
    >>> parameter_of(Rate(x, x**kappa, {"term": x})), parameter_of(Rate(x, x, {"term": x**2}))
    (kappa, None)
    """
    powers = {power for e in statement.expressions for part in e.atoms(sympy.Pow) for power in part.args[1:]}
    found = sorted({symbol for power in powers for symbol in power.free_symbols}, key=str)
    if len(found) > 1 or not all(map(has_interval, found)):
        listed = ", ".join(map(str, found))
        raise ValueError(f"Expected exponents that depend on one letter, with a bounded domain, got {listed}.")
    return found[0] if found else None


def parts_of(expression: sympy.Expr, letter: Any) -> list[sympy.Expr]:
    """The monomials that an expression is built of; its exponents may depend on the letter.

    >>> x = sympy.Symbol("x", positive=True)
    >>> parts_of((x + x**2) ** sympy.Rational(1, 2), None)
    [sqrt(x), x]
    """
    if letter is None:
        return [monomial_of(branch.powers) for branch in branches(expression)]
    low, high = _ends(letter)
    middle = (low + high) / 2
    near = Parameter.within(letter.name, middle, middle + Fraction(1, 10**9))  # no sign changes so near
    pieces = branches(expression.xreplace({letter: near}))
    return [monomial_of(branch.powers).xreplace({near: letter}) for branch in pieces]


def interval_text(statement: Statement, latex: bool) -> list[str]:
    """The condition that the letter in exponents is in its interval; empty without such a letter.

    >>> from dpnotes.theory.rates import Rate
    >>> from dpnotes.theory.symbols import Domain, PaperSymbols
    >>> letter = PaperSymbols("example").symbol
    >>> x, kappa = letter("x", "a number"), letter("kappa", "an exponent", domain=Domain(1, 2, closed=True))
    >>> interval_text(Rate(x, x**kappa, {"term": x}), latex=False)
    ['1 <= kappa <= 2']
    """
    letter = parameter_of(statement)
    if letter is None:
        return []
    said = letter.domain.describe(sympy.latex(letter) if latex else str(letter))
    return [said.replace("<=", "\\leq") if latex else said]


def for_every_value(statement: S, check: Callable[[S], Verdict]) -> Verdict:
    """The verdict on a statement for all values of the letter in its exponents.

    Args:
      statement: with or without such a letter.
      check: the check of a statement whose exponents are numbers.

    >>> from dpnotes.theory.rates import Rate
    >>> from dpnotes.theory.symbols import Domain, PaperSymbols
    >>> letter = PaperSymbols("example").symbol
    >>> x, kappa = letter("x", "a number"), letter("kappa", "an exponent", domain=Domain(1, 2, closed=True))
    >>> check = lambda one: Verdict(Kind.UP_TO_CONSTANTS, f"{one.value} is no constant")
    >>> for_every_value(Rate(x, x**kappa, {"term": x}), check).evidence
    'exactly, for all 1 <= kappa <= 2: x**kappa is no constant'
    """
    letter = parameter_of(statement)
    if letter is None:
        return check(statement)
    low, high = _ends(letter)
    found: dict[Any, Verdict] = {}  # by value, and by open interval
    waiting: list[Any] = [(low, high)]
    waiting += [low + (high - low) * k / 4 for k in (4, 3, 2, 1, 0) if letter.domain.closed or 0 < k < 4]
    undecided = ""
    while waiting:
        place = waiting.pop()
        within = isinstance(place, tuple)
        try:
            one = put_in(statement, letter, Parameter.within(letter.name, *place) if within else place)
            found[place] = check(one)
        except Split as split:
            at = split.at
            if at is None and place[1] - place[0] > (high - low) / _NARROW:
                at = sum(place) / 2  # not where the sign changes, but values on both sides of it are then looked at
            if at is None or len(found) > _MOST_PARTS:
                where = "no rational value" if at is None else "more values than are tried"
                undecided = f"a sign changes between {letter} = {place[0]} and {place[1]}, at {where}"
            else:
                waiting += [(at, place[1]), (place[0], at), at]
            continue
        if within and found[place].kind in _REFUTING:
            waiting.append(sum(place) / 2)  # where the same is seen in numbers
        elif found[place].kind in _FALSE:
            break  # what is improvable at one value may be false at another
    return _worst(letter, found, undecided)


def _worst(letter: Any, found: Mapping[Any, Verdict], undecided: str) -> Verdict:
    """The worst of the verdicts that were found; `undecided` says why an interval was not checked."""
    values = [place for place in found if isinstance(place, Fraction)]
    worst = min(values, key=lambda value: _ORDER.index(found[value].kind))
    if found[worst].kind in _REFUTING:
        certificate = partial(_at, found[worst], letter, worst)
        unproved = f"; nothing is proved elsewhere: {undecided}" if undecided else ""
        return Verdict(found[worst].kind, f"at {letter} = {worst}: {found[worst].evidence}{unproved}", certificate)
    kind = min((verdict.kind for verdict in found.values()), key=_ORDER.index)
    certificate = partial(certificates.other, "family", letter=letter, values=[str(value) for value in values])
    if undecided:
        said = (
            f"{kind} at {letter} = {', '.join(map(str, sorted(values)))}, and not proved for all between: {undecided}"
        )
        return Verdict(Kind.NOT_REFUTED, said, certificate)
    said = {}
    intervals = sorted(place for place in found if isinstance(place, tuple))
    for evidence, neighbours in groupby(intervals, key=lambda place: found[place].evidence):
        ends = [end for place in neighbours for end in place]
        said[f"for {ends[0]} < {letter} < {ends[-1]}: {evidence}"] = evidence
    everywhere = f"exactly, for all {letter.domain.describe(str(letter))}"
    return Verdict(kind, f"{everywhere}: {'; '.join(said if len(said) > 1 else said.values())}", certificate)


def _ends(letter: Any) -> list[Fraction]:
    """The ends of the letter's interval, as simple as they are meant."""
    exact = [Fraction(end) for end in (letter.domain.low, letter.domain.high)]
    simple = [end.limit_denominator(1000) for end in exact]
    return [one if float(one) == float(end) else end for one, end in zip(simple, exact, strict=True)]


def _at(verdict: Verdict, letter: Any, value: Fraction) -> dict[str, Any]:
    data = verdict.certificate() if verdict.certificate else {"certificate": "none"}
    return {**data, "at": {certificates.plain_name(letter.name): str(value)}}


def put_in(statement: S, letter: sympy.Symbol, value: Any) -> S:
    """The statement with a value in place of a letter, in every expression.

    >>> from dpnotes.theory.rates import Rate
    >>> x, kappa = sympy.symbols("x kappa", positive=True)
    >>> put_in(Rate(x, x**kappa, {"term": x ** (1 / kappa)}), kappa, 2).terms
    {'term': sqrt(x)}
    """
    value = sympy.Rational(str(value)) if isinstance(value, Fraction) else sympy.sympify(value)

    def there(part: Any) -> Any:
        if isinstance(part, sympy.Basic):
            put: Any = part.xreplace({letter: value})
            if put.has(sympy.nan, sympy.zoo, sympy.oo):
                raise ValueError(f"Expected {part} to be defined at {letter} = {value}.")
            return put
        if isinstance(part, Mapping | tuple) and letter in part:
            raise ValueError(f"Expected {letter}, which exponents depend on, to be neither chosen nor set to 1.")
        return {key: there(inside) for key, inside in part.items()} if isinstance(part, Mapping) else part

    changed = {f.name: there(getattr(statement, f.name)) for f in fields(statement)}  # type: ignore[arg-type]
    return replace(statement, **changed)  # type: ignore[type-var]
