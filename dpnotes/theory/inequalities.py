"""Inequalities and monotonicity, checked by algebra if it shows a sign, else by a seeded search of a stated box."""

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import mpmath
import numpy as np
import sympy
from sympy.core.relational import Relational
from sympy.tensor.indexed import IndexedBase

from dpnotes.theory import certificates
from dpnotes.theory.certificates import Relation
from dpnotes.theory.evaluation import (
    AGREE,
    DIGITS,
    Values,
    check_example,
    compare_units,
    contradicted,
    evaluator,
    held_for,
    name_of,
    number,
    place_text,
    relations,
    substitute,
    writer,
)
from dpnotes.theory.statements import Statement
from dpnotes.theory.symbols import POSITIVE, Interval, expand, symbols_of
from dpnotes.theory.verdicts import Kind, Verdict

_DRAWS = 4000
_SPECIAL = (sympy.erf, sympy.erfc, sympy.gamma, sympy.loggamma)  # functions that scipy has and numpy lacks
_SHARP = 1.005  # a bound this close to the quantity somewhere counts as attained


@dataclass(frozen=True)
class Inequality(Statement):
    """The statement that `quantity <= bound` (or `<`, `>=`) everywhere in a region.

    Args:
      quantity: the bounded quantity; derived, so no mutant changes it.
      bound: as printed.
      region: for a free symbol or sequence the interval that the search covers, uniformly in the logarithm, if it is
        not the symbol's usual interval; integers for symbols of an integer domain.
      sense: the relation.
      where: definitions, substituted first.
      conditions: relations that the points must satisfy.
      instance: integers for the ends of sums.
      example: a counterexample that is shown in preference to those that the search finds.
      subject: the name of the quantity, if it is too long to show.
    """

    quantity: sympy.Expr
    bound: sympy.Expr
    region: Mapping[Any, Interval] = field(default_factory=dict)
    sense: Literal["<=", "<", ">="] = "<="
    where: Values = field(default_factory=dict)
    conditions: tuple[Relational, ...] = ()
    instance: Values = field(default_factory=dict)
    example: Values = field(default_factory=dict)
    subject: sympy.Expr | None = None

    PRINTED = ("bound",)

    def said(self, latex: bool) -> str:
        """The statement as printed."""
        show = writer(latex)
        name = show(name_of(self.quantity, self.subject))
        sign = {"<=": "\\leq", "<": "<", ">=": "\\geq"}[self.sense] if latex else self.sense
        return f"{name} {sign} {show(self.bound)}{self._where_it_holds(latex)}"

    def _where_it_holds(self, latex: bool) -> str:
        """The text of the conditions, and of domains other than the positive numbers."""
        shown = [
            s
            for s in symbols_of(name_of(self.quantity, self.subject), self.bound)
            if not s.domain.integer and s.domain != POSITIVE
        ]
        domains = [s.domain.describe(sympy.latex(s) if latex else s.name) for s in shown]
        if latex:
            domains = [text.replace("<=", "\\leq").replace(">=", "\\geq") for text in domains]
        return held_for([*domains, *relations(self.conditions, latex)], latex)

    def proved(self) -> bool:
        """Return whether algebra alone proves it: the difference of the sides has one sign, term by term."""
        lower, upper, conditions = self._sides()
        return not conditions and _is_non_negative(upper - lower, strict=self.sense == "<")

    def _sides(self) -> tuple[Any, Any, list[Any]]:
        """The smaller side, the larger side and the conditions, with definitions substituted and sums written out."""
        quantity, bound = (expand(substitute(e, self.where), self.instance) for e in (self.quantity, self.bound))
        conditions = [expand(substitute(c, self.where), self.instance) for c in self.conditions]
        return (bound, quantity, conditions) if self.sense == ">=" else (quantity, bound, conditions)

    def verdict(self) -> Verdict:
        """The verdict: exact, not refuted, improvable, contradicted or units differ."""
        if problem := compare_units(self.quantity, self.bound):
            return problem
        lower, upper, conditions = self._sides()
        symbols = symbols_of(lower, upper, *conditions)
        if check_example(self.example, symbols, conditions):
            point = {symbol: self.example[symbol] for symbol in symbols}
            if broken := self._broken(point):
                return broken
        search = _Search(symbols, lower, upper, conditions, self.region)
        closest, point = search.run()
        if not math.isfinite(closest):
            broken = self._broken(point)
            return broken or Verdict(Kind.CONTRADICTED, f"at {place_text(point)}: the bound is not a real number")
        for candidate in (_rounded(point), point):
            if candidate is point or search.inside(candidate):
                if broken := self._broken(candidate):
                    return broken
        effort = f"{search.evaluations} seeded points{search.place()}"
        factor = search.ratio(point)
        values = [evaluator(symbols, side)(point) for side in (lower, upper)]
        certificate = partial(
            certificates.inequality, self._relation(), search.region, search.evaluations, point, values, factor=1
        )
        if factor is not None and factor > _SHARP:
            evidence = f"holds with a factor of at least {factor:.3g} to spare at all of {effort}"
            return Verdict(Kind.IMPROVABLE, evidence, partial(certificate, factor=_SHARP))
        if factor is None and closest > _SHARP - 1 and lower != 0 and upper != 0:
            return Verdict(Kind.IMPROVABLE, f"holds with room to spare at all of {effort}", certificate)
        close = "" if factor is None else _closeness(factor)
        if self.proved():
            return Verdict(Kind.EXACT, f"the difference has a sign by algebra{close}", certificate)
        return Verdict(Kind.NOT_REFUTED, f"no counterexample at {effort}{close}", certificate)

    def _relation(self) -> Relation:
        """The relation that a certificate states."""
        sides = (self.bound, self.quantity) if self.sense == ">=" else (self.quantity, self.bound)
        sign = "<" if self.sense == "<" else "<="
        return Relation(sides[0], sign, sides[1], self.where, self.conditions, [self.instance])

    def _broken(self, point: Values) -> Verdict | None:
        """The counterexample at `point`, confirmed to 40 digits, or None."""
        lower, upper, conditions = self._sides()
        symbols = symbols_of(lower, upper, *conditions)
        if not all(bool(evaluator(symbols, c)(point)) for c in conditions):
            return None
        left, right = evaluator(symbols, lower)(point), evaluator(symbols, upper)(point)
        real = all(isinstance(v, mpmath.mpf) and not mpmath.isnan(v) for v in (left, right))
        if real:
            with mpmath.workdps(DIGITS):
                slack = right - left
                if slack > 0 or (
                    self.sense != "<" and slack >= -(mpmath.mpf(10) ** -AGREE) * max(abs(left), abs(right))
                ):
                    return None
        names = ("bound", "quantity") if self.sense == ">=" else ("quantity", "bound")
        place = place_text({**self.instance, **point}) or "every point"
        said = f"at {place}: {names[0]} {number(left)}, {names[1]} {number(right)}"
        return contradicted(said, self._relation(), point, (left, right))


@dataclass(frozen=True)
class Monotone(Statement):
    """The statement that `quantity` grows, or falls, in `variable` in a region; its derivative is checked.

    Only its direction can be mutated: a test of such a claim states the opposite, whose check must fail.

    Args:
      quantity: an expression in `variable`.
      variable: the symbol that varies.
      sense: increasing or decreasing.
      region: as for `Inequality`.
      where: definitions, substituted first; none may hide the variable.
      conditions: relations that the points must satisfy.
      example: a counterexample that is shown in preference to those that the search finds.
      subject: the name of the quantity.
    """

    quantity: sympy.Expr
    variable: sympy.Symbol
    sense: Literal["increasing", "decreasing"]
    region: Mapping[Any, Interval] = field(default_factory=dict)
    where: Values = field(default_factory=dict)
    conditions: tuple[Relational, ...] = ()
    example: Values = field(default_factory=dict)
    subject: sympy.Expr | None = None

    def said(self, latex: bool) -> str:
        """The statement as printed."""
        show = writer(latex)
        relation = f"\\text{{ is {self.sense} in }}" if latex else f"is {self.sense} in"
        return f"{show(name_of(self.quantity, self.subject))} {relation} {show(self.variable)}"

    def verdict(self) -> Verdict:
        """The verdict: exact, not refuted, contradicted or units differ."""
        if problem := compare_units(self.quantity):
            return problem
        slope = sympy.diff(substitute(self.quantity, self.where), self.variable)
        name = f"the derivative in {self.variable}"
        zero, sense = sympy.Integer(0), "<=" if self.sense == "decreasing" else ">="
        found = Inequality(
            slope, zero, self.region, sense, {}, self.conditions, {}, self.example, sympy.Symbol(name)
        ).verdict()
        kind = Kind.NOT_REFUTED if found.kind == Kind.IMPROVABLE else found.kind
        certificate = partial(
            certificates.other, "monotone", quantity=self.quantity, variable=self.variable, where=self.where
        )
        return Verdict(kind, f"{name}: {found.evidence}", certificate)


def _closeness(factor: float) -> str:
    # Only the power of ten: the last bits of a search differ between processors, and its evidence must not.
    return "; attained" if factor < 1 + 1e-9 else f"; approached within 1e{math.ceil(math.log10(factor - 1)):+03d}"


def _rounded(point: Values) -> dict[Any, Any]:
    """The point to two significant digits, so that a counterexample can be checked by hand."""
    return {s: v if isinstance(v, int) else float(f"{float(v):.2g}") for s, v in point.items()}


def _is_non_negative(difference: sympy.Expr, strict: bool) -> bool:
    """Return whether all coefficients have one sign with each symbol written as its least value plus a positive one."""
    shifted = difference
    for symbol in symbols_of(difference):
        rest, domain = sympy.Dummy(positive=True), symbol.domain
        if domain.low == 0 and domain.high == 1:
            shifted = shifted.xreplace({symbol: 1 / (1 + rest)})
        elif math.isfinite(domain.low) and not math.isfinite(domain.high):
            low = sympy.nsimplify(domain.low)
            shifted = shifted.xreplace({symbol: low + (sympy.Dummy(nonnegative=True) if domain.closed else rest)})
        else:
            return False
    if not shifted.is_rational_function():
        return False
    numerator, denominator = sympy.fraction(sympy.cancel(sympy.together(shifted)))
    numerator, denominator = sympy.expand(numerator), sympy.expand(denominator)
    if denominator.is_negative:
        numerator, denominator = -numerator, -denominator
    return bool(denominator.is_positive and (numerator.is_positive if strict else numerator.is_nonnegative))


class _Search:
    """A seeded search for the least relative slack `upper - lower` over a box in logarithmic coordinates."""

    def __init__(
        self, symbols: Sequence[Any], lower: Any, upper: Any, conditions: Sequence[Any], region: Mapping[Any, Any]
    ):
        sequences = {base.label.name: ends for base, ends in region.items() if isinstance(base, IndexedBase)}
        region = {s: region.get(s, sequences.get(s.name.split("_")[0], s.usual)) for s in symbols}
        missing = [str(s) for s, ends in region.items() if ends is None]
        if missing:
            raise ValueError(
                f"Expected an interval to search for {', '.join(missing)}: region={{...}} in the statement, or usual= "
                "where the letter is defined."
            )
        for symbol, (low, high) in region.items():  # type: ignore[misc]
            if not 0 < low <= high < math.inf:
                raise ValueError(f"Expected an interval within (0, inf) to search for {symbol}, got {(low, high)}.")
        self.symbols = list(symbols)
        everything = [lower, upper, *conditions]
        special = any(isinstance(f, _SPECIAL) for e in everything for f in sympy.sympify(e).atoms(sympy.Function))
        self.function = sympy.lambdify(self.symbols, everything, ["scipy", "numpy"] if special else "numpy")
        self.region = region
        self.box = [tuple(math.log(end) for end in region[s]) for s in self.symbols]
        self.evaluations = 0

    def place(self) -> str:
        """The text of the box for the evidence."""
        names = {str(s): f"[{low:g}, {high:g}]" for s, (low, high) in self.region.items()}
        return f" with {', '.join(f'{name} in {ends}' for name, ends in names.items())}" if names else ""

    def inside(self, point: Values) -> bool:
        """Return whether a point is in the domains and in the box."""
        return all(
            s.domain.holds(point[s]) and low <= math.log(point[s]) <= high
            for s, (low, high) in zip(self.symbols, self.box, strict=True)
        )

    def values(self, logs: np.ndarray) -> tuple[np.ndarray, ...]:
        with np.errstate(all="ignore"):
            columns = [
                np.rint(np.exp(c)) if s.domain.integer else np.exp(c) for s, c in zip(self.symbols, logs.T, strict=True)
            ]
            found = self.function(*columns)
        return tuple(np.broadcast_to(np.asarray(f), (len(logs),)) for f in found)

    def slack(self, logs: np.ndarray) -> np.ndarray:
        """The relative slack at points; -inf where the bound is not real, +inf where a condition fails."""
        lower, upper, *conditions = self.values(logs)
        self.evaluations += len(logs)
        with np.errstate(all="ignore"):
            if np.iscomplexobj(upper) or np.iscomplexobj(lower):
                lower, upper = (np.real(np.where(np.imag(side) == 0, side, np.nan)) for side in (lower, upper))
            scale = np.maximum(np.maximum(np.abs(lower), np.abs(upper)), 1e-300)
            slack = (upper - lower) / scale
            slack = np.where(np.isnan(upper) & np.isfinite(lower), -np.inf, slack)
            slack = np.where(np.isnan(slack), np.inf, slack)
        for condition in conditions:
            slack = np.where(condition, slack, np.inf)
        return slack

    def run(self) -> tuple[float, dict[Any, Any]]:
        """The least slack found, and its point."""
        dim = len(self.symbols)
        if dim == 0:
            return float(self.slack(np.zeros((1, 0)))[0]), {}
        generator = random.Random(0)
        low, high = (np.array([b[k] for b in self.box]) for k in (0, 1))
        unit = np.array([[generator.random() for _ in range(dim)] for _ in range(_DRAWS)])
        corners = np.array(list(itertools.product((0.0, 1.0), repeat=dim))) if dim <= 8 else np.zeros((0, dim))
        logs = low + np.concatenate([unit, corners]) * (high - low)
        slack = self.slack(logs)
        order = np.argsort(slack, kind="stable")[:4]
        best, best_slack = logs[order[0]], slack[order[0]]
        for start in order:
            here, value, width = logs[start], slack[start], 0.3
            for _ in range(12):
                if not math.isfinite(value):
                    break
                steps = np.array([[generator.gauss(0, 1) for _ in range(dim)] for _ in range(40)])
                trial = np.clip(here + width * steps * (high - low), low, high)
                found = self.slack(trial)
                least = int(np.argmin(found))
                if found[least] < value:
                    here, value = trial[least], found[least]
                else:
                    width *= 0.4
            if value < best_slack:
                best, best_slack = here, value
        point = {
            s: int(round(math.exp(v))) if s.domain.integer else math.exp(v)
            for s, v in zip(self.symbols, best, strict=True)
        }
        return float(best_slack), point

    def ratio(self, point: Values) -> float | None:
        """The ratio upper / lower at a point; None unless both are positive."""
        logs = np.array([[math.log(float(point[s])) for s in self.symbols]])
        lower, upper, *_ = self.values(logs)
        return float(upper[0] / lower[0]) if lower[0] > 0 and upper[0] > 0 else None
