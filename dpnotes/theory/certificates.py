"""Certificates: for each verdict the data from which it can be checked again, without dpnotes.

Expressions are texts that Python's own parser reads: names, rational numbers, `+ - * / **`, and `sqrt`, `log`, `exp`,
`Max`, ... by name. Only the sides of a relation at a point are rounded, to 30 digits. `tests/recheck.py` reads the file
without dpnotes and without sympy.
"""

import keyword
import math
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import mpmath
import sympy

from dpnotes.theory.balance import Balance, Certificate, Named, Witness, at_most
from dpnotes.theory.monomials import monomial_of, powers_of, put_in
from dpnotes.theory.symbols import expand, symbols_of
from dpnotes.theory.units import Unit, UnitsDiffer, unit_of

if TYPE_CHECKING:
    from dpnotes.theory.claims import Claim

FORMAT = 1  # version of the file's format
Data = dict[str, Any]
Lemma = tuple[sympy.Expr, Sequence[sympy.Expr], Named, Certificate]  # a monomial, larger ones, the regime, the proof
Point = Mapping[Any, Any]


# ---------------------------------------------------------------- texts
def plain_name(name: str) -> str:
    """The name in a form that Python's parser accepts.

    >>> plain_name("lambda'"), plain_name("lambda"), plain_name("q_1")
    ('lambda_prime', 'lambda_', 'q_1')
    """
    plain = re.sub(r"\W", "_", name.replace("'", "_prime"))
    return f"{plain}_" if keyword.iskeyword(plain) else plain


def text(expression: Any) -> str:
    """The text of an expression in Python's syntax.

    >>> x = sympy.Symbol("lambda", positive=True)
    >>> text(sympy.sqrt(x) / 3 + sympy.log(2 * x))
    'sqrt(lambda_)/3 + log(2*lambda_)'
    """
    expression = sympy.sympify(expression)
    renamed = {s: sympy.Symbol(plain_name(s.name), **s.assumptions0) for s in expression.atoms(sympy.Symbol)}
    return str(expression.xreplace({s: other for s, other in renamed.items() if s.name != other.name}))


def exact(value: Any) -> str:
    """A number as the text of a rational; a float stands for the decimal that it prints, as everywhere in the theory.

    >>> exact(0.1), exact(sympy.Rational(2, 3)), exact(5)
    ('1/10', '2/3', '5')
    """
    if isinstance(value, int | Fraction | sympy.Rational):
        return str(value)
    return str(Fraction(mpmath.nstr(value, 30) if isinstance(value, mpmath.mpf) else str(float(value))))


def _named(group: Named) -> dict[str, str]:
    return {name: text(expression) for name, expression in group.items()}


def domains(*expressions: sympy.Basic) -> dict[str, Data]:
    """The domains of the symbols of expressions; an infinite end is None.

    >>> from dpnotes.theory.symbols import PaperSymbols
    >>> domains(PaperSymbols("example").symbol("x", "a length"))
    {'x': {'low': '0', 'high': None, 'closed': False, 'integer': False}}
    """
    ends = {}
    for symbol in symbols_of(*expressions):
        domain = symbol.domain
        low, high = (exact(end) if math.isfinite(end) else None for end in (domain.low, domain.high))
        ends[plain_name(symbol.name)] = {"low": low, "high": high, "closed": domain.closed, "integer": domain.integer}
    return ends


def _sides(values: Sequence[Any]) -> list[str | None]:
    """Sides of a relation at a point, to 30 digits; None for a value that is not a real number."""
    real = [isinstance(value, mpmath.mpf) and not mpmath.isnan(value) for value in values]
    return [mpmath.nstr(value, 30) if is_real else None for value, is_real in zip(values, real, strict=True)]


# ---------------------------------------------------------------- relations
@dataclass(frozen=True)
class Relation:
    """A relation as the paper states it; a reader has to substitute definitions and integers, and write sums out.

    Args:
      left: its left side.
      sign: `==`, `<=` or `<`.
      right: its right side.
      where: definitions, substituted one after the other.
      conditions: conditions under which it is claimed.
      instances: integers for the ends of sums; it is claimed for each.
    """

    left: Any
    sign: str
    right: Any
    where: Point = field(default_factory=dict)
    conditions: Sequence[Any] = ()
    instances: Sequence[Point] = ({},)

    def definitions(self) -> dict[Any, Any]:
        """The definitions that the relation uses."""
        found, left = {}, [sympy.sympify(e) for e in (self.left, self.right, *self.conditions)]
        for symbol, value in self.where.items():
            if any(symbol in expression.free_symbols for expression in left):
                found[symbol] = sympy.sympify(value)
                left = [expression.xreplace({symbol: found[symbol]}) for expression in left]
        return found

    def symbols(self) -> list[Any]:
        """The free symbols of the relation, including symbols that cancel once definitions are substituted."""
        definitions = self.definitions()
        parts = [sympy.sympify(e) for e in (self.left, self.right, *self.conditions, *definitions.values())]
        free = symbols_of(*(expand(part, one) for part in parts for one in self.instances))
        return [symbol for symbol in free if symbol not in definitions]

    def data(self, kind: str, **more: Any) -> Data:
        """The data of a certificate of this kind about the relation."""
        return {
            "certificate": kind,
            "left": text(self.left),
            "relation": self.sign,
            "right": text(self.right),
            "definitions": [[text(symbol), text(value)] for symbol, value in self.definitions().items()],
            "instances": [{text(symbol): int(value) for symbol, value in one.items()} for one in self.instances],
            "conditions": [text(condition) for condition in self.conditions],
            "symbols": domains(*self.symbols()),
            **more,
        }


def _place(relation: Relation, point: Point) -> dict[str, str]:
    """The point as texts; free symbols of the relation that cancel get an arbitrary value of their domain."""
    drawn = {s: point[s] if s in point else s.domain.draw(random.Random(0)) for s in relation.symbols()}
    return {plain_name(symbol.name): exact(value) for symbol, value in drawn.items()}


def witness(relation: Relation, point: Point, values: Sequence[Any], within: sympy.Rational | int = 0) -> Data:
    """A point at which a relation fails, and the values of both sides; values closer than `within` count as equal.

    >>> from dpnotes.theory.symbols import PaperSymbols
    >>> x = PaperSymbols("example").symbol("x", "a number")
    >>> found = witness(Relation(x, "<=", 1), {x: 2}, [mpmath.mpf(2), mpmath.mpf(1)])
    >>> found["point"], found["sides"]
    ({'x': '2'}, ['2.0', '1.0'])
    """
    place = _place(relation, point)
    return relation.data("witness", point=place, sides=_sides(values), within=exact(within))


def rounded(relation: Relation, digits: int, values: Sequence[Any]) -> Data:
    """A printed number that equals a derived number, to within one unit of its last digit.

    >>> rounded(Relation(sympy.Rational(1, 3), "==", sympy.Rational(33, 100)), 2, [])["digits"]
    2
    """
    return relation.data("rounded", digits=digits, sides=_sides(values))


def inequality(
    relation: Relation, box: Point, num_points: int, closest: Point, values: Sequence[Any], factor: float
) -> Data:
    """A relation that holds at every point of a search.

    Args:
      relation: `<=` or `<`.
      box: the interval of each symbol.
      num_points: the number of points that were tried.
      closest: the point at which the sides came closest.
      values: the values of both sides there.
      factor: the left side times this factor is at most the right side, too.

    >>> from dpnotes.theory.symbols import PaperSymbols
    >>> x = PaperSymbols("example").symbol("x", "a number")
    >>> found = inequality(Relation(x, "<=", 2 * x), {x: (1, 9)}, 50, {x: 1}, [mpmath.mpf(1), mpmath.mpf(2)], 2.0)
    >>> found["box"], found["closest"]
    ({'x': ['1', '9']}, {'x': '1'})
    """
    ends = {plain_name(str(symbol)): [exact(end) for end in interval] for symbol, interval in box.items()}
    found = {"closest": _place(relation, closest), "sides": _sides(values), "factor": exact(factor)}
    return relation.data("inequality", box=ends, points=num_points, **found)


def optimum(objective: Any, variable: sympy.Symbol, argument: Any, least: Any) -> Data:
    """A certificate that an objective is least at an argument, over positive values of a variable, with its value.

    >>> from dpnotes.theory.symbols import PaperSymbols
    >>> x = PaperSymbols("example").symbol("x", "a number")
    >>> optimum(x + 1 / x, x, sympy.Integer(1), sympy.Integer(2))["least"]
    '2'
    """
    texts = {"objective": text(objective), "variable": text(variable), "argument": text(argument), "least": text(least)}
    return {"certificate": "optimum", **texts, "symbols": domains(objective, argument, least)}


def crossover(left: Any, right: Any, variable: sympy.Symbol, value: Any) -> Data:
    """A certificate that two monomials are equal at one value of a variable and nowhere else.

    >>> from dpnotes.theory.symbols import PaperSymbols
    >>> x = PaperSymbols("example").symbol("x", "a number")
    >>> crossover(x**2, 3 * x, x, sympy.Integer(3))["value"]
    '3'
    """
    texts = {"left": text(left), "right": text(right), "variable": text(variable), "value": text(value)}
    return {"certificate": "crossover", **texts, "symbols": domains(left, right, value)}


def units(alike: Named, pure: Named, normalised: Sequence[sympy.Symbol] = ()) -> Data:
    """A certificate that the units of `alike` differ, or that `pure` has an expression with a unit; the symbols' units.

    The powers of loss and length of each expression are recorded; None if the expression's own terms differ.

    >>> from dpnotes.theory.symbols import PaperSymbols
    >>> from dpnotes.theory.units import LENGTH
    >>> x = PaperSymbols("example").symbol("x", "a length", LENGTH)
    >>> units({"left": x, "right": x**2}, {})["found"]
    {'left': ['0', '1'], 'right': ['0', '2']}
    """
    everything = {**alike, **pure}
    atoms = {s for e in everything.values() for s in sympy.sympify(e).atoms(sympy.Symbol)} | {*normalised}

    def powers(unit: Unit | None) -> list[str] | None:
        return None if unit is None else [str(unit.loss), str(unit.length)]

    def found(expression: Any) -> list[str] | None:
        try:
            return powers(unit_of(expression))
        except UnitsDiffer:
            return None

    plain = all(unit is None or unit.is_plain for unit in map(unit_of, atoms))
    return {
        "certificate": "units" if plain else "family",
        "alike": _named(alike),
        "pure": _named(pure),
        "normalised": sorted(plain_name(s.name) for s in normalised),
        "units": {plain_name(s.name): powers(unit_of(s)) for s in sorted(atoms, key=str)},
        "found": {name: found(expression) for name, expression in everything.items()},
    }


def other(kind: str, **data: Any) -> Data:
    """A certificate whose data do not suffice to check it again; expressions are written as texts.

    >>> other("growth", order=sympy.Symbol("x") ** 2)
    {'certificate': 'growth', 'order': 'x**2'}
    """

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {plain_name(str(key)): plain(part) for key, part in value.items()}
        return [plain(part) for part in value] if isinstance(value, list | tuple) else text(value)

    return {"certificate": kind, **{name: value if value is None else plain(value) for name, value in data.items()}}


# ---------------------------------------------------------------- balances
def _lemma(monomial: sympy.Expr, larger: Sequence[sympy.Expr], regime: Named) -> Lemma:
    """A proof that a monomial is at most the largest of others in a regime."""
    found = at_most(monomial, larger, regime)
    if isinstance(found, Witness):
        raise ValueError(f"Expected {monomial} to be at most one of {', '.join(map(str, larger))}.")
    return monomial, larger, regime, found


def _as_data(lemmas: Iterable[Lemma]) -> list[Data]:
    """The lemmas `monomial = prod larger ** weight * prod where ** power`, without repetitions and trivial lemmas."""
    texts = [
        {
            "monomial": text(monomial),
            "larger": _powers((larger[k], weight) for k, weight in found.weights.items()),
            "where": _powers((regime[name], power) for name, power in found.multipliers.items()),
        }
        for monomial, larger, regime, found in lemmas
    ]
    return list({str(one): one for one in texts if one["larger"] != {one["monomial"]: "1"}}.values())


def _powers(pairs: Iterable[tuple[sympy.Expr, Fraction]]) -> dict[str, str]:
    found: dict[str, Fraction] = {}
    for expression, power in pairs:
        found[text(expression)] = found.get(text(expression), Fraction(0)) + power
    return {name: str(power) for name, power in found.items()}


def balanced(
    verdict: str, best: Balance, lemmas: Iterable[Lemma], direction: Witness | None = None, **statement: Any
) -> Data:
    """A certificate of a best balance: dual solutions at vertices, choices that reach them, comparison with the rate.

    Args:
      verdict: `constants`, `not implied` or `improvable`.
      best: the balance.
      lemmas: lemmas that compare the stated rate with the vertices.
      direction: a direction along which one side outgrows the other.
      statement: the claim: rate, terms, constraints, regime, tuned symbols, and symbols that are set to 1.

    >>> from dpnotes.papers import claim
    >>> found = claim("drift_escape.thm2").check().certificate()
    >>> found["certificate"], len(found["vertices"]) > 0
    ('balance', True)
    """
    one = [sympy.Integer(1)]
    region = {**best.regime, **{str(c): c for c in best.conditions}}
    vertices, used = [], [_lemma(condition, one, best.constraints) for condition in best.conditions]
    names = list(best.terms)
    for vertex in best.vertices:
        weights = {names.index(name): weight for name, weight in vertex.weights.items() if name in best.terms}
        multipliers = {name: weight for name, weight in vertex.weights.items() if name in best.constraints}
        used.append((vertex.rate, [*best.terms.values()], best.constraints, Certificate(weights, multipliers)))
        choice = best.parameters(vertex) if verdict != "not implied" else None
        vertices.append({"rate": text(vertex.rate), "choice": choice and {text(s): text(e) for s, e in choice.items()}})
        if choice is None:
            continue
        chosen_powers = {symbol: powers_of(monomial) for symbol, monomial in choice.items()}
        here = {f"{v.rate} is less": v.rate / vertex.rate for v in best.vertices if v != vertex}
        for group, bound in ((best.terms, vertex.rate), (best.constraints, one[0])):
            for expression in group.values():
                there = monomial_of(put_in(powers_of(expression), chosen_powers))
                used.append(_lemma(there, [bound], {**region, **here}))
    return {
        "certificate": "balance",
        "compares": verdict,
        **_statement(**statement),
        "conditions": [text(condition) for condition in best.conditions],
        "vertices": vertices,
        "lemmas": _as_data([*used, *lemmas]),
        "direction": direction and _direction(direction),
    }


def chosen(verdict: str, lemmas: Iterable[Lemma], direction: Witness | None = None, **statement: Any) -> Data:
    """A certificate of printed parameters: each term is at most the rate, or a direction along which one term is not.

    Args:
      verdict: `constants`, `not implied` or `improvable`.
      lemmas: proofs that each term is at most the rate, and each constraint at most 1, in each case.
      direction: a direction along which one side outgrows the other.
      statement: the claim.

    >>> from dpnotes.papers import claim
    >>> claim("goldstein.own.parameters").check().certificate()["certificate"]
    'choice'
    """
    return {
        "certificate": "choice",
        "compares": verdict,
        **_statement(**statement),
        "lemmas": _as_data(lemmas),
        "direction": direction and _direction(direction),
    }


def restated(**statement: Any) -> Data:
    """A certificate that a rate and its terms are the same monomials.

    >>> from dpnotes.theory.symbols import PaperSymbols
    >>> x = PaperSymbols("example").symbol("x", "a number")
    >>> restated(rate=x, terms={"x": x}, constraints={}, regime={}, ones=())["rate"]
    'x'
    """
    return {"certificate": "restated", **_statement(**statement)}


def _statement(
    rate: Any, terms: Named, constraints: Named, regime: Named, ones: Sequence[sympy.Symbol], **more: Any
) -> Data:
    expressions = [rate, *terms.values(), *constraints.values(), *regime.values()]
    parameters = more.get("parameters")
    return {
        "rate": text(rate),
        "terms": _named(terms),
        "constraints": _named(constraints),
        "regime": _named(regime),
        "ones": sorted(plain_name(s.name) for s in ones),
        "tuned": [text(s) for s in more.get("tuned", ())],
        "parameters": [[text(s), text(e)] for s, e in (parameters or {}).items()],
        "symbols": domains(*expressions, *(parameters or {}).values()),
    }


def _direction(found: Witness) -> dict[str, str]:
    return {text(symbol): str(power) for symbol, power in found.direction.items()}


# ---------------------------------------------------------------- the file
def document(claims: Iterable["Claim"], version: str) -> Data:
    """The certificates of claims as printed and of their corrections; every claim is checked for them.

    >>> from dpnotes.papers import claims
    >>> entries = document(claims("budget_schedules.lemmaC.3"), "1.0")["certificates"]
    >>> [(entry["claim"], entry["statement"], entry["verdict"], entry["certificate"]) for entry in entries]
    [('budget_schedules.lemmaC.3', 'printed', 'exact', 'identity')]
    """
    entries = []
    for claim in claims:
        for which, checked in (("printed", claim), ("corrected", claim.correction())):
            if checked is not None:
                verdict = checked.check()
                data = {"certificate": "none"} if verdict.certificate is None else verdict.certificate()
                about = {"claim": claim.id, "statement": which, "says": checked.printed_text}
                entries.append({**about, "verdict": str(verdict.kind), "evidence": verdict.evidence, **data})
    return {"format": FORMAT, "dpnotes": version, "certificates": entries}
