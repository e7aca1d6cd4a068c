"""Kinds of statement that compute their own verdicts: identities, optima, and statements that cannot be checked.

A statement holds the printed formula and, separately, the derivation that the printed formula is compared with. Algebra
is tried first; where sympy finds no proof, seeded points are tried. No statement stores its verdict, and every one can
fail: `printed` may be replaced by a mutant (`restate`). Inequalities, asymptotics and rates have modules of their own.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar, Protocol, Self

import mpmath
import sympy
from sympy.core.relational import Relational
from sympy.tensor.indexed import IndexedBase

from dpnotes.theory import certificates
from dpnotes.theory.certificates import Relation
from dpnotes.theory.evaluation import (
    AGREE,
    Values,
    agree,
    compare_units,
    contradicted,
    evaluator,
    held_for,
    is_zero,
    number,
    place_text,
    relations,
    seeded_points,
    substitute,
    writer,
)
from dpnotes.theory.symbols import expand, symbols_of
from dpnotes.theory.verdicts import Kind, Verdict


class Statement(Protocol):
    """The statement of a claim, which can check itself: a dataclass that names its printed fields in `PRINTED`."""

    PRINTED: ClassVar[tuple[str, ...]] = ()
    ASIDE: ClassVar[tuple[str, ...]] = ("subject", "example", "region")  # fields that are only shown or searched

    @property
    def printed(self) -> tuple[sympy.Expr, ...]:
        """The printed expressions of the paper, which a mutant replaces."""
        return tuple(getattr(self, name) for name in self.PRINTED)

    @property
    def expressions(self) -> tuple[sympy.Basic, ...]:
        """All expressions, printed and derived, for checks of symbols and units."""
        named = (field.name for field in fields(self) if field.name not in self.ASIDE)  # type: ignore[arg-type]
        return tuple(part for name in named for part in _expressions_in(getattr(self, name)))

    def restate(self, *printed: sympy.Expr) -> Self:
        """Return the same statement with other printed expressions."""
        return replace(self, **dict(zip(self.PRINTED, printed, strict=True)))  # type: ignore[type-var]

    def said(self, latex: bool) -> str:
        """The statement as printed, in LaTeX or as one line of plain text."""
        ...

    def latex(self) -> str:
        """Return the statement as printed, in LaTeX."""
        return self.said(latex=True)

    def plain(self) -> str:
        """Return the statement as printed, as one line of plain text."""
        return self.said(latex=False)

    def verdict(self) -> Verdict:
        """Check the statement."""
        ...


def _expressions_in(value: Any) -> Iterator[sympy.Basic]:
    if isinstance(value, sympy.Basic):
        yield value
    elif isinstance(value, Mapping | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _expressions_in(part)


# ---------------------------------------------------------------- identities
@dataclass(frozen=True)
class Identity(Statement):
    """The statement `subject = value`, whose printed value is compared with a derived one.

    Args:
      subject: the left side of the formula, only shown.
      value: as printed.
      derived: the expression that it must equal.
      where: definitions, substituted before anything else, for example gamma -> 1 - 1/kappa.
      instances: integers for the ends of sums; the identity is proved for each.
      example: the point that a counterexample is shown at.
      conditions: relations that the seeded points must satisfy.
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

    PRINTED = ("value",)
    ASIDE = ("example",)

    def said(self, latex: bool) -> str:
        """The statement as printed."""
        show = writer(latex)
        return f"{show(self.subject)} = {show(self.value)}{held_for(relations(self.conditions, latex), latex)}"

    def verdict(self) -> Verdict:
        """The verdict: exact, not refuted, contradicted or units differ."""
        if problem := compare_units(self.value, self.derived):
            return problem

        def relation(*instances: Values) -> Relation:
            return Relation(self.value, "==", self.derived, self.where, self.conditions, instances)

        proved, num_points = True, 0
        for instance in self.instances:
            value, derived = (expand(substitute(e, self.where), instance) for e in (self.value, self.derived))
            symbols = symbols_of(value, derived)
            conditions = [expand(substitute(c, self.where), instance) for c in self.conditions]
            stated, expected = evaluator(symbols, value), evaluator(symbols, derived)
            for point in seeded_points(symbols, self.example, conditions):
                num_points += 1
                left, right = stated(point), expected(point)
                same = agree(left, right) if self.digits is None else abs(left - right) < 10.0**-self.digits
                if not same:
                    at = f"at {place_text({**instance, **point})}: " if {**instance, **point} else ""
                    within = 0 if self.digits is None else sympy.Rational(1, 10**self.digits)
                    said = f"{at}stated {number(left)}, derived {number(right)}"
                    return contradicted(said, relation(instance), point, (left, right), within)
            proved = proved and (self.digits is not None or is_zero(value - derived))
        if self.digits is not None:
            return Verdict(
                Kind.EXACT,
                f"derived {mpmath.nstr(right, 10)}, within one unit of the last printed digit",
                partial(certificates.rounded, relation(*self.instances), self.digits or 0, (left, right)),
            )
        certificate = partial(relation(*self.instances).data, "identity")
        cases = "; ".join(dict.fromkeys(place_text(instance) for instance in self.instances if instance))
        cases = f" ({cases})" if cases else ""
        if proved:
            return Verdict(Kind.EXACT, f"stated minus derived reduces to 0{cases}", certificate)
        return Verdict(Kind.NOT_REFUTED, f"equal to {AGREE} digits at {num_points} seeded points{cases}", certificate)


# ---------------------------------------------------------------- optima
@dataclass(frozen=True)
class Optimum(Statement):
    """The statement that `variable = argument` minimises `objective`, with the value `least` if that is stated.

    Args:
      objective: an expression in `variable`.
      variable: minimised over all positive values.
      argument: as printed.
      least: the printed value of the minimum, or None.
      where: definitions, substituted first.
      example: the point that a counterexample is shown at.
      conditions: relations that the seeded points must satisfy.
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
        """The printed argument and, if stated, the least value."""
        return (self.argument,) if self.least is None else (self.argument, self.least)

    def restate(self, *printed: sympy.Expr) -> "Optimum":
        """Return the statement with another printed argument and least value."""
        return replace(self, argument=printed[0], least=printed[1] if len(printed) > 1 else None)

    def said(self, latex: bool) -> str:
        """The statement as printed."""
        show = writer(latex)
        variable, objective, least = show(self.variable), show(self.objective), ", min = "
        text = f"argmin over {variable} of {objective} = {show(self.argument)}"
        if latex:
            least = ", \\quad \\min = "
            text = f"\\arg\\min_{{{variable}}} \\left({objective}\\right) = {show(self.argument)}"
        text = text if self.least is None else text + least + show(self.least)
        return text + held_for(relations(self.conditions, latex), latex)

    def verdict(self) -> Verdict:
        """The verdict: exact, not refuted, contradicted or units differ."""
        if problem := compare_units(self.variable, self.argument):
            return problem
        if self.least is not None and (problem := compare_units(self.least, self.objective)):
            return problem
        objective, argument = substitute(self.objective, self.where), substitute(self.argument, self.where)
        there = objective.xreplace({self.variable: argument})
        least = there if self.least is None else substitute(self.least, self.where)
        slope = sympy.diff(objective, self.variable)
        symbols = [s for s in symbols_of(objective, argument, least) if s != self.variable]
        conditions = [substitute(c, self.where) for c in self.conditions]
        at, height, steepness = (evaluator([self.variable, *symbols], e) for e in (self.variable, objective, slope))
        place, value = evaluator(symbols, argument), evaluator(symbols, least)
        points = seeded_points(symbols, self.example, conditions)[:5]
        for point in points:
            where = place(point)
            if not (isinstance(where, mpmath.mpf) and mpmath.isfinite(where) and where > 0):
                said = f"at {place_text(point)}: {self.variable} = {number(where)} is not positive"
                return contradicted(said, Relation(0, "<", argument), point, (mpmath.mpf(0), where))
            reached = height({**point, self.variable: where})
            best_at, best = _descend(lambda v, p=point: height({**p, self.variable: v}), where)
            scale = max(abs(reached), abs(best), mpmath.mpf(10) ** -AGREE)
            relative = abs(steepness({**point, self.variable: where}) * where) / scale
            if best < reached - scale * mpmath.mpf(10) ** -9 or not relative < mpmath.mpf(10) ** -AGREE:
                said = f"at {place_text(point)}: {self.variable} = {number(where)} gives {number(reached)}, "
                said += f"but {self.variable} = {number(best_at)} gives {number(best)}"
                better = {**point, self.variable: best_at}
                return contradicted(said, Relation(there, "<=", objective), better, (reached, best))
            if not agree(reached, value(point)):
                said = f"at {place_text(point)}: least value stated {number(value(point))}, derived {number(reached)}"
                return contradicted(said, Relation(least, "==", there), point, (value(point), reached))
        lower = f"no lower value at {len(points)} seeded points"
        proved = is_zero(slope.xreplace({self.variable: argument}))
        certificate = partial(certificates.optimum, objective, self.variable, argument, least)
        if proved and (self.least is None or is_zero(there - least)):
            return Verdict(Kind.EXACT, f"the derivative reduces to 0 there; {lower}", certificate)
        return Verdict(Kind.NOT_REFUTED, f"the derivative is 0 to {AGREE} digits; {lower}", certificate)


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
class Allocation(Statement):
    """The statement that `noise[t] = share` minimises a sum under `sum_t 1/noise[t] = budget`, with the value `least`.

    Checked by the conditions of Karush, Kuhn and Tucker in `1/noise[t]`, in which the objective is convex and the
    constraint affine, so that they are sufficient.

    Args:
      objective: in `noise[t]`, a sum over steps.
      noise: the sequence that is chosen.
      step: the index of `share`.
      share: the printed `noise[step]`.
      least: the printed least value.
      budget: the sum of `1/noise[t]`.
      num_steps: the symbol of the number of steps, and the numbers that are tried.
      where: definitions, substituted first.
    """

    objective: sympy.Expr
    noise: IndexedBase
    step: sympy.Symbol
    share: sympy.Expr
    least: sympy.Expr
    budget: sympy.Expr
    num_steps: tuple[sympy.Symbol, tuple[int, ...]]
    where: Values = field(default_factory=dict)

    PRINTED = ("share", "least")

    def said(self, latex: bool) -> str:
        """The statement as printed."""
        show = writer(latex)
        least, at = ("\\min", "\\text{ at }") if latex else ("min", "at")
        noise = show(self.noise[self.step])
        return f"{least} {show(self.objective)} = {show(self.least)} {at} {noise} = {show(self.share)}"

    def verdict(self) -> Verdict:
        """The verdict: exact, contradicted or units differ."""
        if problem := compare_units(self.noise[self.step], self.share) or compare_units(self.least, self.objective):
            return problem
        symbol, numbers = self.num_steps
        for steps in numbers:
            if problem := self._check({symbol: steps}, steps):
                return problem
        tried = ", ".join(map(str, numbers))
        facts = {name: getattr(self, name) for name in ("objective", "budget", "share", "least")}
        certificate = partial(certificates.other, "allocation", **facts)
        return Verdict(Kind.EXACT, f"budget met, equal marginal costs, convex ({symbol} = {tried})", certificate)

    def _check(self, instance: Values, steps: int) -> Verdict | None:
        shares = [expand(substitute(self.share, self.where), {**instance, self.step: t}) for t in range(1, steps + 1)]
        objective = expand(substitute(self.objective, self.where), instance)
        least = expand(substitute(self.least, self.where), instance)
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
            stated, expected = evaluator(symbols, left), evaluator(symbols, right)
            for point in seeded_points(symbols, {})[:3]:
                values = stated(point), expected(point)
                if not agree(*values):
                    place = place_text({**instance, **point})
                    said = f"{what} at {place}: {number(values[0])} against {number(values[1])}"
                    return contradicted(said, Relation(left, "==", right), point, values)
            if not is_zero(left - right):
                raise ValueError(f"Expected sympy to prove what agrees numerically: {what} for {steps} steps.")
        return None


# ---------------------------------------------------------------- statements that are not checked
class Reason(StrEnum):
    """The possible reasons why a statement is not checked."""

    CITED = "a result of another paper, restated without proof"
    ALL_MECHANISMS = "a statement about all mechanisms, beyond algebra"
    NO_FORMULA = "no formula is stated"
    EMPIRICAL = "a sentence about experiments, which experiments decide"


@dataclass(frozen=True)
class Uncheckable(Statement):
    """A statement that is listed with the reason why it is not checked."""

    text: str
    reason: Reason

    def said(self, latex: bool) -> str:
        """The statement as printed."""
        return f"\\text{{{self.text}}}" if latex else self.text

    def verdict(self) -> Verdict:
        """The verdict: not checkable."""
        return Verdict(Kind.NOT_CHECKABLE, str(self.reason))
