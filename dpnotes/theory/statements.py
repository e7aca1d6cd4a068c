"""Kinds of statement, each of which computes its own verdict.

A statement holds what the paper prints and, apart from it, what the printed formula is compared with. Algebra is
tried first; where sympy finds no proof, a seeded search looks for a counterexample and says how far it looked. No
statement stores its verdict, and every one can fail: `printed` may be replaced by a mutant (`restate`).
"""

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, Protocol

import mpmath
import numpy as np
import sympy
from sympy import log
from sympy.core.relational import Relational
from sympy.tensor.indexed import IndexedBase

from dpnotes.theory.symbols import POSITIVE, expand, symbols_of
from dpnotes.theory.units import UnitsDiffer, unit_of
from dpnotes.theory.verdicts import Kind, Verdict

Values = Mapping[sympy.Symbol, Any]
_DIGITS = 40  # of the multiple-precision comparisons
_AGREE = 25  # digits to which two equal formulas must agree
_POINTS = 8
_DRAWS = 4000
_SHARP = 1.005  # a bound this close to the quantity somewhere counts as attained


class Statement(Protocol):
    """What a claim says, and how it is checked."""

    @property
    def printed(self) -> tuple[sympy.Expr, ...]:
        """The expressions of the paper, those that a mutant replaces."""
        ...

    @property
    def expressions(self) -> tuple[sympy.Basic, ...]:
        """All expressions, printed and derived."""
        ...

    def restate(self, *printed: sympy.Expr) -> "Statement":
        """The same statement about other printed expressions."""
        ...

    def latex(self) -> str:
        """The statement as printed."""
        ...

    def plain(self) -> str:
        """The same as one line of plain text."""
        ...

    def verdict(self) -> Verdict:
        """Check it."""
        ...


# ---------------------------------------------------------------- shared pieces
def _define(expression: sympy.Basic, where: Values) -> Any:
    for symbol, value in where.items():
        expression = expression.xreplace({symbol: sympy.sympify(value)})
    return expression


def number(value: Any) -> str:
    """A number as evidence shows it: four digits.

    >>> number(1 / 3), number(10**6), number(1e6), number(2 + 0.5j)
    ('0.3333', '1000000', '1e+06', '2+0.5i')
    """
    if isinstance(value, sympy.Integer | int):
        return str(value)
    converted = complex(value)
    if converted.imag:
        return f"{converted.real:.4g}{converted.imag:+.4g}i"
    return f"{converted.real:.4g}"


def _place(point: Values) -> str:
    return ", ".join(f"{symbol} = {number(value)}" for symbol, value in sorted(point.items(), key=lambda p: str(p[0])))


def _instance(instance: Values) -> str:
    return f" for {_place(instance)}" if instance else ""


def _evaluator(symbols: Sequence[sympy.Symbol], expression: sympy.Basic) -> Callable[[Values], Any]:
    function = sympy.lambdify(symbols, expression, "mpmath")

    def evaluate(point: Values) -> Any:
        with mpmath.workdps(_DIGITS):
            try:
                value = function(*(_exact(point[symbol]) for symbol in symbols))
            except (ZeroDivisionError, ValueError, OverflowError):
                return mpmath.nan
            return value if isinstance(value, bool | np.bool_) else mpmath.mpmathify(value)

    return evaluate


def _exact(value: Any) -> Any:
    if isinstance(value, sympy.Rational):
        return mpmath.mpf(int(value.p)) / int(value.q)
    return mpmath.mpf(str(value)) if isinstance(value, float) else mpmath.mpmathify(value)


def _agree(left: Any, right: Any, digits: int = _AGREE) -> bool:
    with mpmath.workdps(_DIGITS):
        if not (mpmath.isfinite(left) and mpmath.isfinite(right)):
            return False
        return abs(left - right) <= mpmath.mpf(10) ** -digits * max(abs(left), abs(right), mpmath.mpf(10) ** -digits)


def _points(symbols: Sequence[Any], example: Values, conditions: Sequence[Relational] = ()) -> list[dict[Any, Any]]:
    """The example, if it names every symbol, then seeded rationals in the domains at which the conditions hold."""
    generator = random.Random(0)
    points: list[dict[Any, Any]] = []
    if all(symbol in example for symbol in symbols):
        points.append({symbol: example[symbol] for symbol in symbols})
    tests = [_evaluator(symbols, condition) for condition in conditions]
    for _ in range(1000):
        if len(points) >= (_POINTS if symbols else 1):
            break
        point = {symbol: symbol.domain.draw(generator) for symbol in symbols}
        if all(bool(test(point)) for test in tests):
            points.append(point)
    return points


def _is_zero(difference: sympy.Expr) -> bool:
    """Whether algebra reduces the difference to 0; cheap means first."""
    for symbol in symbols_of(difference):
        if symbol.domain.low == 0 and symbol.domain.high == 1:  # sympy does not know that ln(1/delta) is positive
            positive = sympy.Dummy(positive=True)
            difference = difference.xreplace({log(1 / symbol): positive, log(symbol): -positive})
    for reduce in (sympy.expand, lambda e: sympy.cancel(sympy.together(e)), sympy.simplify, _radicals):
        if reduce(difference) == 0:
            return True
    return False


def _radicals(difference: sympy.Expr) -> sympy.Expr:
    return sympy.simplify(
        sympy.expand(sympy.radsimp(sympy.powdenest(sympy.expand_log(difference, force=True), force=True)))
    )


def _compare_units(*expressions: sympy.Basic) -> Verdict | None:
    """None where all expressions are homogeneous and of one unit."""
    try:
        units = [unit for expression in expressions if (unit := unit_of(expression)) is not None]
    except UnitsDiffer as error:
        return Verdict(Kind.UNITS_DIFFER, str(error))
    if len(set(units)) > 1:
        return Verdict(Kind.UNITS_DIFFER, f"stated in {units[0]}, derived in {units[1]}")
    return None


def _called(statement: "Inequality | Limit | Ratio") -> sympy.Expr:
    return statement.quantity if statement.subject is None else statement.subject


def _for(conditions: Sequence[str], latex: bool) -> str:
    if not conditions:
        return ""
    return f" \\quad \\text{{for }} {', '.join(conditions)}" if latex else f" for {', '.join(conditions)}"


def _conditions(conditions: Sequence[Relational], latex: bool) -> list[str]:
    return [sympy.latex(c) if latex else f"{c.lhs} {c.rel_op} {c.rhs}" for c in conditions]


# ---------------------------------------------------------------- identities
@dataclass(frozen=True)
class Identity:
    """`subject = value`: the printed value is compared with a derived one.

    Args:
      subject: what the formula is for, shown on its left side.
      value: as printed.
      derived: what it must equal.
      where: definitions put in before anything else, for example gamma -> 1 - 1/kappa.
      instances: integers for the ends of sums; the identity is proved for each.
      example: the point that a counterexample is shown at.
      conditions: what the seeded points must satisfy.
      digits: decimal places of a printed number, where the paper gives a rounded (or truncated) one.
    """

    subject: sympy.Expr
    value: sympy.Expr
    derived: sympy.Expr
    where: Values = field(default_factory=dict)
    instances: tuple[Values, ...] = ({},)
    example: Values = field(default_factory=dict)
    conditions: tuple[Relational, ...] = ()
    digits: int | None = None

    @property
    def printed(self) -> tuple[sympy.Expr, ...]:
        """The value."""
        return (self.value,)

    @property
    def expressions(self) -> tuple[sympy.Basic, ...]:
        """All of them."""
        return (
            self.subject,
            self.value,
            self.derived,
            *(sympy.sympify(v) for v in self.where.values()),
            *self.conditions,
        )

    def restate(self, *printed: sympy.Expr) -> "Identity":
        """With another value."""
        return replace(self, value=printed[0])

    def latex(self) -> str:
        """An equation."""
        return f"{sympy.latex(self.subject)} = {sympy.latex(self.value)}"

    def plain(self) -> str:
        """An equation."""
        return f"{self.subject} = {self.value}"

    def verdict(self) -> Verdict:
        """Exact, not refuted, contradicted or units differ."""
        if problem := _compare_units(self.value, self.derived):
            return problem
        proved, num_points = True, 0
        for instance in self.instances:
            value, derived = (expand(_define(e, self.where), instance) for e in (self.value, self.derived))
            symbols = symbols_of(value, derived)
            conditions = [expand(_define(c, self.where), instance) for c in self.conditions]
            stated, expected = _evaluator(symbols, value), _evaluator(symbols, derived)
            for point in _points(symbols, self.example, conditions):
                num_points += 1
                left, right = stated(point), expected(point)
                same = _agree(left, right) if self.digits is None else abs(left - right) < 10.0**-self.digits
                if not same:
                    at = f"at {_place({**instance, **point})}: " if {**instance, **point} else ""
                    return Verdict(Kind.CONTRADICTED, f"{at}stated {number(left)}, derived {number(right)}")
            proved = proved and (self.digits is not None or _is_zero(value - derived))
        if self.digits is not None:
            return Verdict(Kind.EXACT, f"derived {mpmath.nstr(right, 10)}, within one unit of the last printed digit")
        cases = ", ".join(dict.fromkeys(_place(instance) for instance in self.instances if instance))
        cases = f" ({cases})" if cases else ""
        if proved:
            return Verdict(Kind.EXACT, f"stated minus derived reduces to 0{cases}")
        return Verdict(Kind.NOT_REFUTED, f"equal to {_AGREE} digits at {num_points} seeded points{cases}")


# ---------------------------------------------------------------- optima
@dataclass(frozen=True)
class Optimum:
    """`variable = argument` minimises `objective`, and the least value is `least` where it is stated.

    Args:
      objective: in `variable`.
      variable: minimised over all positive values.
      argument: as printed.
      least: the printed value of the minimum, or None.
      where: definitions put in first.
      example: the point that a counterexample is shown at.
      conditions: what the seeded points must satisfy.
    """

    objective: sympy.Expr
    variable: sympy.Symbol
    argument: sympy.Expr
    least: sympy.Expr | None = None
    where: Values = field(default_factory=dict)
    example: Values = field(default_factory=dict)
    conditions: tuple[Relational, ...] = ()

    @property
    def printed(self) -> tuple[sympy.Expr, ...]:
        """Argument and, if stated, least value."""
        return (self.argument,) if self.least is None else (self.argument, self.least)

    @property
    def expressions(self) -> tuple[sympy.Basic, ...]:
        """All of them."""
        return (
            self.objective,
            self.variable,
            *self.printed,
            *(sympy.sympify(v) for v in self.where.values()),
            *self.conditions,
        )

    def restate(self, *printed: sympy.Expr) -> "Optimum":
        """With another argument and least value."""
        return replace(self, argument=printed[0], least=printed[1] if len(printed) > 1 else None)

    def latex(self) -> str:
        """`argmin ... = argument`."""
        variable, objective = sympy.latex(self.variable), sympy.latex(self.objective)
        text = f"\\arg\\min_{{{variable}}} \\left({objective}\\right) = {sympy.latex(self.argument)}"
        return text if self.least is None else text + f", \\quad \\min = {sympy.latex(self.least)}"

    def plain(self) -> str:
        """`argmin over ... = argument`."""
        text = f"argmin over {self.variable} of {self.objective} = {self.argument}"
        return text if self.least is None else f"{text}, min = {self.least}"

    def verdict(self) -> Verdict:
        """Exact, not refuted, contradicted or units differ."""
        if problem := _compare_units(self.variable, self.argument):
            return problem
        if self.least is not None and (problem := _compare_units(self.least, self.objective)):
            return problem
        objective, argument = _define(self.objective, self.where), _define(self.argument, self.where)
        least = objective.xreplace({self.variable: argument}) if self.least is None else _define(self.least, self.where)
        slope = sympy.diff(objective, self.variable)
        symbols = [s for s in symbols_of(objective, argument, least) if s != self.variable]
        conditions = [_define(c, self.where) for c in self.conditions]
        at, height, steepness = (_evaluator([self.variable, *symbols], e) for e in (self.variable, objective, slope))
        place, value = _evaluator(symbols, argument), _evaluator(symbols, least)
        points = _points(symbols, self.example, conditions)[:5]
        for point in points:
            where = place(point)
            if not (isinstance(where, mpmath.mpf) and mpmath.isfinite(where) and where > 0):
                return Verdict(
                    Kind.CONTRADICTED, f"at {_place(point)}: {self.variable} = {number(where)} is not positive"
                )
            reached = height({**point, self.variable: where})
            best_at, best = _descend(lambda v, p=point: height({**p, self.variable: v}), where)
            scale = max(abs(reached), abs(best), mpmath.mpf(10) ** -_AGREE)
            relative = abs(steepness({**point, self.variable: where}) * where) / scale
            if best < reached - scale * mpmath.mpf(10) ** -9 or not relative < mpmath.mpf(10) ** -_AGREE:
                return Verdict(
                    Kind.CONTRADICTED,
                    f"at {_place(point)}: {self.variable} = {number(where)} gives {number(reached)}, "
                    f"but {self.variable} = {number(best_at)} gives {number(best)}",
                )
            if not _agree(reached, value(point)):
                return Verdict(
                    Kind.CONTRADICTED,
                    f"at {_place(point)}: least value stated {number(value(point))}, derived {number(reached)}",
                )
        lower = f"no lower value at {len(points)} seeded points"
        proved = _is_zero(slope.xreplace({self.variable: argument}))
        if proved and (self.least is None or _is_zero(objective.xreplace({self.variable: argument}) - least)):
            return Verdict(Kind.EXACT, f"the derivative reduces to 0 there; {lower}")
        return Verdict(Kind.NOT_REFUTED, f"the derivative is 0 to {_AGREE} digits; {lower}")


def _descend(height: Callable[[Any], Any], start: Any) -> tuple[Any, Any]:
    """The least of `height` on a grid of twelve decades around `start`, refined by golden section in the logarithm."""
    ratio = (math.sqrt(5) - 1) / 2
    center = float(mpmath.log(start))
    grid = [center + step * math.log(10) / 4 for step in range(-24, 25)]
    heights = [height(mpmath.exp(g)) for g in grid]
    best = min(range(len(grid)), key=lambda i: heights[i])
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    for _ in range(40):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if height(mpmath.exp(left)) < height(mpmath.exp(right)):
            high = right
        else:
            low = left
    found = mpmath.exp((low + high) / 2)
    return found, height(found)


@dataclass(frozen=True)
class Allocation:
    """`noise[t] = share` minimises a sum over steps under `sum_t 1/noise[t] = budget`, with least value `least`.

    Checked by the conditions of Karush, Kuhn and Tucker in `1/noise[t]`, in which the objective is convex and the
    constraint affine, so that they are sufficient.

    Args:
      objective: in `noise[t]`, a sum over steps.
      noise: the sequence that is chosen.
      step: the index of `share`.
      share: the printed `noise[step]`.
      least: the printed least value.
      budget: what the budget sums to.
      num_steps: the symbol of the number of steps, and the numbers that are tried.
      where: definitions put in first.
    """

    objective: sympy.Expr
    noise: IndexedBase
    step: sympy.Symbol
    share: sympy.Expr
    least: sympy.Expr
    budget: sympy.Expr
    num_steps: tuple[sympy.Symbol, tuple[int, ...]]
    where: Values = field(default_factory=dict)

    @property
    def printed(self) -> tuple[sympy.Expr, ...]:
        """Share and least value."""
        return (self.share, self.least)

    @property
    def expressions(self) -> tuple[sympy.Basic, ...]:
        """All of them."""
        return (self.objective, self.noise[self.step], self.share, self.least, self.budget, self.num_steps[0])

    def restate(self, *printed: sympy.Expr) -> "Allocation":
        """With another share and least value."""
        return replace(self, share=printed[0], least=printed[1])

    def latex(self) -> str:
        """Minimiser and minimum."""
        left = f"\\min {sympy.latex(self.objective)} = {sympy.latex(self.least)}"
        return f"{left} \\text{{ at }} {sympy.latex(self.noise[self.step])} = {sympy.latex(self.share)}"

    def plain(self) -> str:
        """Minimiser and minimum."""
        return f"min {self.objective} = {self.least} at {self.noise[self.step]} = {self.share}"

    def verdict(self) -> Verdict:
        """Exact, contradicted or units differ."""
        if problem := _compare_units(self.noise[self.step], self.share) or _compare_units(self.least, self.objective):
            return problem
        symbol, numbers = self.num_steps
        for steps in numbers:
            if problem := self._check({symbol: steps}, steps):
                return problem
        tried = ", ".join(map(str, numbers))
        return Verdict(Kind.EXACT, f"budget met, equal marginal costs, convex ({symbol} = {tried})")

    def _check(self, instance: Values, steps: int) -> Verdict | None:
        shares = [expand(_define(self.share, self.where), {**instance, self.step: t}) for t in range(1, steps + 1)]
        objective = expand(_define(self.objective, self.where), instance)
        least = expand(_define(self.least, self.where), instance)
        noises = [expand(self.noise[t], {}) for t in range(1, steps + 1)]
        spend = [sympy.Dummy(positive=True) for _ in noises]
        in_spend = objective.xreplace({n: 1 / s for n, s in zip(noises, spend, strict=True)})
        margins = [sympy.diff(in_spend, s) for s in spend]
        at = {s: 1 / share for s, share in zip(spend, shares, strict=True)}
        curved = all(sympy.diff(m, s).is_positive for m, s in zip(margins, spend, strict=True))
        crossed = any(m.has(s) for (i, m), (j, s) in itertools.product(enumerate(margins), enumerate(spend)) if i != j)
        if not curved or crossed:
            raise ValueError(f"Expected an objective that is a sum of terms convex in 1/{self.noise}.")
        differences = [(f"budget {self.budget}", sum(1 / share for share in shares), self.budget)]
        differences += [
            (f"marginal cost of step {t + 2}", m.xreplace(at), margins[0].xreplace(at))
            for t, m in enumerate(margins[1:])
        ]
        differences.append(("least value", least, in_spend.xreplace(at)))
        for what, left, right in differences:
            symbols = symbols_of(left, right)
            stated, expected = _evaluator(symbols, left), _evaluator(symbols, right)
            for point in _points(symbols, {})[:3]:
                if not _agree(stated(point), expected(point)):
                    place = _place({**instance, **point})
                    return Verdict(
                        Kind.CONTRADICTED,
                        f"{what} at {place}: {number(stated(point))} against {number(expected(point))}",
                    )
            if not _is_zero(left - right):
                raise ValueError(f"Expected sympy to prove what agrees numerically: {what} for {steps} steps.")
        return None


# ---------------------------------------------------------------- inequalities
@dataclass(frozen=True)
class Inequality:
    """`quantity <= bound` (or `<`, `>=`) everywhere in a region.

    Args:
      quantity: what is bounded; derived, not mutated.
      bound: as printed.
      region: for each free symbol or sequence the interval that the search covers, uniformly in the logarithm; integers
        for symbols of an integer domain.
      sense: the relation.
      where: definitions put in first.
      conditions: what points must satisfy.
      instance: integers for the ends of sums.
      example: a counterexample that is shown in preference to those that the search finds.
      subject: what the quantity is called, where it is too long to show.
    """

    quantity: sympy.Expr
    bound: sympy.Expr
    region: Mapping[Any, tuple[float, float]]
    sense: Literal["<=", "<", ">="] = "<="
    where: Values = field(default_factory=dict)
    conditions: tuple[Relational, ...] = ()
    instance: Values = field(default_factory=dict)
    example: Values = field(default_factory=dict)
    subject: sympy.Expr | None = None

    @property
    def printed(self) -> tuple[sympy.Expr, ...]:
        """The bound."""
        return (self.bound,)

    @property
    def expressions(self) -> tuple[sympy.Basic, ...]:
        """All of them."""
        return (self.quantity, self.bound, *(sympy.sympify(v) for v in self.where.values()), *self.conditions)

    def restate(self, *printed: sympy.Expr) -> "Inequality":
        """With another bound."""
        return replace(self, bound=printed[0])

    def latex(self) -> str:
        """The relation."""
        relation = {"<=": "\\leq", "<": "<", ">=": "\\geq"}[self.sense]
        return f"{sympy.latex(_called(self))} {relation} {sympy.latex(self.bound)}{self._where_it_holds(latex=True)}"

    def plain(self) -> str:
        """The relation."""
        return f"{_called(self)} {self.sense} {self.bound}{self._where_it_holds(latex=False)}"

    def _where_it_holds(self, latex: bool) -> str:
        """Conditions, and domains that are not just the positive numbers."""
        shown = [s for s in symbols_of(_called(self), self.bound) if not s.domain.integer and s.domain != POSITIVE]
        domains = [s.domain.describe(sympy.latex(s) if latex else s.name) for s in shown]
        if latex:
            domains = [text.replace("<=", "\\leq").replace(">=", "\\geq") for text in domains]
        return _for([*domains, *_conditions(self.conditions, latex)], latex)

    def verdict(self) -> Verdict:
        """Exact, not refuted, improvable, contradicted or units differ."""
        if problem := _compare_units(self.quantity, self.bound):
            return problem
        quantity, bound = (expand(_define(e, self.where), self.instance) for e in (self.quantity, self.bound))
        conditions = [expand(_define(c, self.where), self.instance) for c in self.conditions]
        lower, upper = (bound, quantity) if self.sense == ">=" else (quantity, bound)
        symbols = symbols_of(lower, upper, *conditions)
        if all(symbol in self.example for symbol in symbols):
            point = {symbol: self.example[symbol] for symbol in symbols}
            if broken := self._broken(point, symbols, lower, upper):
                return broken
        search = _Search(symbols, lower, upper, conditions, self.region)
        closest, point = search.run()
        if not math.isfinite(closest):
            broken = self._broken(point, symbols, lower, upper)
            return broken or Verdict(Kind.CONTRADICTED, f"at {_place(point)}: the bound is not a real number")
        for candidate in (_rounded(point), point):
            if all(s.domain.holds(v) for s, v in candidate.items()) or candidate is point:
                if broken := self._broken(candidate, symbols, lower, upper, conditions):
                    return broken
        effort = f"{search.evaluations} seeded points"
        factor = search.ratio(point)
        if factor is not None and factor > _SHARP:
            return Verdict(Kind.IMPROVABLE, f"holds with a factor of at least {factor:.3g} to spare at all of {effort}")
        if factor is None and closest > _SHARP - 1 and lower != 0 and upper != 0:
            return Verdict(Kind.IMPROVABLE, f"holds with room to spare at all of {effort}")
        close = "" if factor is None else _closeness(factor)
        if not conditions and _is_non_negative(upper - lower, strict=self.sense == "<"):
            return Verdict(Kind.EXACT, f"the difference has a sign by algebra{close}")
        return Verdict(Kind.NOT_REFUTED, f"no counterexample at {effort}{close}")

    def _broken(
        self, point: Values, symbols: Sequence[Any], lower: Any, upper: Any, conditions: Sequence[Any] = ()
    ) -> Verdict | None:
        """The counterexample at `point`, confirmed to 40 digits, or None."""
        if not all(bool(_evaluator(symbols, c)(point)) for c in conditions):
            return None
        left, right = _evaluator(symbols, lower)(point), _evaluator(symbols, upper)(point)
        real = all(isinstance(v, mpmath.mpf) and not mpmath.isnan(v) for v in (left, right))
        if real:
            with mpmath.workdps(_DIGITS):
                slack = right - left
                if slack > 0 or (
                    self.sense != "<" and slack >= -(mpmath.mpf(10) ** -_AGREE) * max(abs(left), abs(right))
                ):
                    return None
        names = ("bound", "quantity") if self.sense == ">=" else ("quantity", "bound")
        place = _place({**self.instance, **point}) or "every point"
        return Verdict(Kind.CONTRADICTED, f"at {place}: {names[0]} {number(left)}, {names[1]} {number(right)}")


def _closeness(factor: float) -> str:
    # Powers of ten: the last bits of a search differ between processors, its evidence must not.
    return "; attained" if factor < 1 + 1e-9 else f"; approached within 1e{math.ceil(math.log10(factor - 1)):+03d}"


def _rounded(point: Values) -> dict[Any, Any]:
    """Two significant digits, so that a counterexample can be checked by hand."""
    return {s: v if isinstance(v, int) else float(f"{float(v):.2g}") for s, v in point.items()}


def _is_non_negative(difference: sympy.Expr, strict: bool) -> bool:
    """Whether all coefficients have one sign once every symbol is its least value plus something positive."""
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
    """Seeded search for the least of `upper - lower`, in relative terms, over a box in logarithmic coordinates."""

    def __init__(
        self, symbols: Sequence[Any], lower: Any, upper: Any, conditions: Sequence[Any], region: Mapping[Any, Any]
    ):
        sequences = {base.label.name: ends for base, ends in region.items() if isinstance(base, IndexedBase)}
        region = {s: region.get(s, sequences.get(s.name.split("_")[0])) for s in symbols}
        missing = [str(s) for s, ends in region.items() if ends is None]
        if missing:
            raise ValueError(f"Expected an interval to search for {', '.join(missing)}.")
        self.symbols = list(symbols)
        self.function = sympy.lambdify(self.symbols, [lower, upper, *conditions], "numpy")
        self.box = [tuple(math.log(end) for end in region[s]) for s in self.symbols]
        self.evaluations = 0

    def values(self, logs: np.ndarray) -> tuple[np.ndarray, ...]:
        with np.errstate(all="ignore"):
            columns = [self._column(i, logs[:, i]) for i in range(len(self.symbols))]
            found = self.function(*columns)
        size = len(logs)
        return tuple(np.broadcast_to(np.asarray(f), (size,)) for f in found)

    def _column(self, index: int, logs: np.ndarray) -> np.ndarray:
        return np.rint(np.exp(logs)) if self.symbols[index].domain.integer else np.exp(logs)

    def slack(self, logs: np.ndarray) -> np.ndarray:
        """Relative slack at points; -inf where the bound is not real, +inf where a condition fails."""
        lower, upper, *conditions = self.values(logs)
        self.evaluations += len(logs)
        with np.errstate(all="ignore"):
            if np.iscomplexobj(upper) or np.iscomplexobj(lower):
                lower, upper = (
                    np.real(np.where(np.imag(lower) == 0, lower, np.nan)),
                    np.real(np.where(np.imag(upper) == 0, upper, np.nan)),
                )
            scale = np.maximum(np.maximum(np.abs(lower), np.abs(upper)), 1e-300)
            slack = (upper - lower) / scale
            slack = np.where(np.isnan(upper) & np.isfinite(lower), -np.inf, slack)
            slack = np.where(np.isnan(slack), np.inf, slack)
        for condition in conditions:
            slack = np.where(condition, slack, np.inf)
        return slack

    def run(self) -> tuple[float, dict[Any, Any]]:
        """The least slack found, and where."""
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
        """Upper over lower at a point, where both are positive."""
        logs = np.array([[math.log(float(point[s])) for s in self.symbols]])
        lower, upper, *_ = self.values(logs)
        return float(upper[0] / lower[0]) if lower[0] > 0 and upper[0] > 0 else None


# ---------------------------------------------------------------- limits and two-sided ratios
@dataclass(frozen=True)
class Limit:
    """The limit of `quantity` as `variable` goes to `point` is `value`.

    Args:
      quantity: in `variable`.
      variable: what moves.
      point: where to, `sympy.oo` allowed.
      value: the limit as printed.
      where: definitions put in first.
      example: values of the other symbols and of `variable`, at which evidence shows the quantity.
      subject: what the quantity is called.
    """

    quantity: sympy.Expr
    variable: sympy.Symbol
    point: sympy.Expr
    value: sympy.Expr
    where: Values = field(default_factory=dict)
    example: Values = field(default_factory=dict)
    subject: sympy.Expr | None = None

    @property
    def printed(self) -> tuple[sympy.Expr, ...]:
        """The limit."""
        return (self.value,)

    @property
    def expressions(self) -> tuple[sympy.Basic, ...]:
        """All of them."""
        return (self.quantity, self.value, *(sympy.sympify(v) for v in self.where.values()))

    def restate(self, *printed: sympy.Expr) -> "Limit":
        """With another limit."""
        return replace(self, value=printed[0])

    def latex(self) -> str:
        """A limit."""
        target = f"{sympy.latex(self.variable)} \\to {sympy.latex(self.point)}"
        return f"\\lim_{{{target}}} {sympy.latex(_called(self))} = {sympy.latex(self.value)}"

    def plain(self) -> str:
        """A limit."""
        return f"limit of {_called(self)} for {self.variable} -> {self.point} = {self.value}"

    def verdict(self) -> Verdict:
        """Exact, contradicted or units differ."""
        if self.value.is_finite is not False and (problem := _compare_units(self.value, self.quantity)):
            return problem
        quantity = _define(self.quantity, self.where)
        symbols_of(quantity)
        limit = sympy.limit(quantity, self.variable, self.point)
        value = _define(self.value, self.where)
        symbols = symbols_of(quantity)
        shown = ""
        if all(symbol in self.example for symbol in symbols):
            point = {symbol: self.example[symbol] for symbol in symbols}
            shown = f"; {number(_evaluator(symbols, quantity)(point))} at {_place(point)}"
        same = limit == value or (limit.is_finite and value.is_finite and _is_zero(limit - value))
        if same:
            return Verdict(Kind.EXACT, f"the limit is {limit}{shown}")
        return Verdict(Kind.CONTRADICTED, f"the limit is {limit}, stated {value}{shown}")


@dataclass(frozen=True)
class Ratio:
    """`quantity` is of the order of `rate`, in both directions (Theta) or from above (O), far out along the given axes.

    The ratio is evaluated to 100 digits on a grid in the logarithms of the symbols, over 8, 16 and 32 decades: its
    extremes settle (up to constants), or go on by ever smaller factors (up to logs), or run away.

    Args:
      quantity: the true quantity.
      rate: as printed.
      axes: for each symbol where it starts and whether it grows (+1) or shrinks (-1).
      sense: Theta or O.
      where: definitions put in first.
      example: a point that evidence shows when the ratio runs away.
      subject: what the quantity is called.
    """

    quantity: sympy.Expr
    rate: sympy.Expr
    axes: Mapping[sympy.Symbol, tuple[float, int]]
    sense: Literal["Theta", "O"] = "Theta"
    where: Values = field(default_factory=dict)
    example: Values = field(default_factory=dict)
    subject: sympy.Expr | None = None

    @property
    def printed(self) -> tuple[sympy.Expr, ...]:
        """The rate."""
        return (self.rate,)

    @property
    def expressions(self) -> tuple[sympy.Basic, ...]:
        """All of them."""
        return (self.quantity, self.rate, *(sympy.sympify(v) for v in self.where.values()))

    def restate(self, *printed: sympy.Expr) -> "Ratio":
        """With another rate."""
        return replace(self, rate=printed[0])

    def latex(self) -> str:
        """`quantity = Theta(rate)`."""
        order = "\\Theta" if self.sense == "Theta" else "\\mathcal{O}"
        return f"{sympy.latex(_called(self))} = {order}\\left({sympy.latex(self.rate)}\\right)"

    def plain(self) -> str:
        """`quantity = Theta(rate)`."""
        return f"{_called(self)} = {self.sense}({self.rate})"

    def verdict(self) -> Verdict:
        """Up to constants, up to logs, improvable, not implied, contradicted or units differ."""
        if problem := _compare_units(self.quantity, self.rate):
            return problem
        quantity, rate = _define(self.quantity, self.where), _define(self.rate, self.where)
        symbols = symbols_of(quantity, rate)
        top, bottom = (sympy.lambdify(symbols, e, "mpmath") for e in (quantity, rate))
        steps = 8 if len(symbols) > 1 else 16
        extremes = []
        with mpmath.workdps(100):
            values: dict[tuple[int, ...], Any] = {}
            for decades in (8, 16, 32):
                ratios = []
                for place in itertools.product(range(steps + 1), repeat=len(symbols)):
                    exact = tuple(index * decades * 60 // steps for index in place)
                    if exact not in values:
                        values[exact] = self._ratio(symbols, exact, top, bottom)
                    ratios.append(values[exact])
                bad = [r for r in ratios if not (isinstance(r, mpmath.mpf) and mpmath.isfinite(r) and r > 0)]
                if bad:
                    return Verdict(
                        Kind.CONTRADICTED, f"quantity over rate is {number(bad[0])} within {decades} decades"
                    )
                extremes.append((float(mpmath.log(min(ratios))), float(mpmath.log(max(ratios)))))
        (low8, high8), (low16, high16), (low, high) = extremes
        upper, lower = _growth(high8, high16, high), _growth(-low8, -low16, -low)
        span = f"quantity / rate in [{number(mpmath.exp(low))}, {number(mpmath.exp(high))}] over 32 decades"
        if upper == "power":
            return Verdict(
                Kind.NOT_IMPLIED, f"the quantity outgrows the rate: {span}{self._shown(symbols, quantity, rate)}"
            )
        if lower == "power":
            kind = Kind.CONTRADICTED if self.sense == "Theta" else Kind.IMPROVABLE
            return Verdict(kind, f"the rate outgrows the quantity: {span}{self._shown(symbols, quantity, rate)}")
        if "log" in (upper, lower):
            return Verdict(Kind.UP_TO_LOGS, span)
        return Verdict(Kind.UP_TO_CONSTANTS, span)

    def _ratio(self, symbols: Sequence[Any], place: tuple[int, ...], top: Any, bottom: Any) -> Any:
        arguments = []
        for symbol, sixtieths in zip(symbols, place, strict=True):
            start, direction = self.axes[symbol]
            arguments.append(_exact(start) * mpmath.mpf(10) ** (mpmath.mpf(direction * sixtieths) / 60))
        try:
            return mpmath.mpmathify(top(*arguments)) / mpmath.mpmathify(bottom(*arguments))
        except (ZeroDivisionError, ValueError, OverflowError):
            return mpmath.nan

    def _shown(self, symbols: Sequence[Any], quantity: Any, rate: Any) -> str:
        if not all(symbol in self.example for symbol in symbols):
            return ""
        point = {symbol: self.example[symbol] for symbol in symbols}
        left, right = _evaluator(symbols, quantity)(point), _evaluator(symbols, rate)(point)
        return f"; at {_place(point)}: quantity {number(left)}, rate {number(right)}"


def _growth(first: float, second: float, third: float) -> Literal["none", "log", "power"]:
    """How a logarithm grows when the number of decades doubles, and doubles again.

    A constant adds nothing, a power of a logarithm adds the same again, a power twice as much.
    """
    early, late = second - first, third - second
    if late < 0.05:
        return "none"
    return "power" if late > 1.5 * max(early, 1e-9) else "log"


# ---------------------------------------------------------------- what no machine checks here
class Reason(StrEnum):
    """Why a statement is not checked; a closed list."""

    CITED = "a result of another paper, restated without proof"
    ALL_MECHANISMS = "a statement about all mechanisms, beyond algebra"
    NO_FORMULA = "no formula is stated"


@dataclass(frozen=True)
class Uncheckable:
    """A statement that is listed, but not checked, with the reason."""

    text: str
    reason: Reason

    @property
    def printed(self) -> tuple[sympy.Expr, ...]:
        """Nothing."""
        return ()

    @property
    def expressions(self) -> tuple[sympy.Basic, ...]:
        """Nothing."""
        return ()

    def restate(self, *printed: sympy.Expr) -> "Uncheckable":
        """Itself."""
        return self

    def latex(self) -> str:
        """The text."""
        return f"\\text{{{self.text}}}"

    def plain(self) -> str:
        """The text."""
        return self.text

    def verdict(self) -> Verdict:
        """Not checkable."""
        return Verdict(Kind.NOT_CHECKABLE, str(self.reason))
