"""Statements about limits, and about the order of magnitude of quantities that are no posynomials."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import mpmath
import sympy

from dpnotes.theory import certificates
from dpnotes.theory.evaluation import (
    Values,
    compare_units,
    evaluator,
    is_zero,
    name_of,
    number,
    place_text,
    substitute,
    to_mpf,
    writer,
)
from dpnotes.theory.statements import Statement
from dpnotes.theory.symbols import symbols_of
from dpnotes.theory.verdicts import Kind, Verdict


@dataclass(frozen=True)
class Limit(Statement):
    """The statement that `quantity` tends to `value` as `variable` goes to `point`.

    Args:
      quantity: an expression in `variable`.
      variable: the symbol that varies.
      point: the value that the variable goes to, `sympy.oo` allowed.
      value: the limit as printed.
      where: definitions, substituted first.
      example: values of the other symbols and of `variable`, at which the evidence shows the quantity.
      subject: the name of the quantity.
    """

    quantity: sympy.Expr
    variable: sympy.Symbol
    point: sympy.Expr
    value: sympy.Expr
    where: Values = field(default_factory=dict)
    example: Values = field(default_factory=dict)
    subject: sympy.Expr | None = None

    PRINTED = ("value",)

    def said(self, latex: bool) -> str:
        """The statement as printed."""
        show = writer(latex)
        name = show(name_of(self.quantity, self.subject))
        if not latex:
            return f"limit of {name} for {self.variable} -> {self.point} = {self.value}"
        return f"\\lim_{{{show(self.variable)} \\to {show(self.point)}}} {name} = {show(self.value)}"

    def verdict(self) -> Verdict:
        """The verdict: exact, contradicted or units differ."""
        if self.value.is_finite is not False and (problem := compare_units(self.value, self.quantity)):
            return problem
        quantity = substitute(self.quantity, self.where)
        symbols_of(quantity)
        limit = sympy.limit(quantity, self.variable, self.point)
        value = substitute(self.value, self.where)
        symbols = symbols_of(quantity)
        shown = ""
        if all(symbol in self.example for symbol in symbols):
            point = {symbol: self.example[symbol] for symbol in symbols}
            shown = f"; {number(evaluator(symbols, quantity)(point))} at {place_text(point)}"
        moves = {"variable": self.variable, "point": self.point}
        certificate = partial(certificates.other, "limit", quantity=quantity, value=value, found=limit, **moves)
        same = limit == value or (limit.is_finite and value.is_finite and is_zero(limit - value))
        if same:
            return Verdict(Kind.EXACT, f"the limit is {limit}{shown}", certificate)
        return Verdict(Kind.CONTRADICTED, f"the limit is {limit}, stated {value}{shown}", certificate)


@dataclass(frozen=True)
class Ratio(Statement):
    """The statement that `quantity` is of the order of `rate` (Theta or O), asymptotically along the given axes.

    The ratio is evaluated to 200 digits on a grid in the logarithms of the symbols, over 16, 32 and 64 decades: its
    extremes converge (up to constants), or change by ever smaller factors (up to logs), or diverge.

    Args:
      quantity: the true quantity.
      rate: as printed.
      axes: for each symbol its starting value and whether it grows (+1) or shrinks (-1).
      sense: Theta or O.
      where: definitions, substituted first.
      example: a point that the evidence shows if the ratio diverges.
      subject: the name of the quantity.
    """

    quantity: sympy.Expr
    rate: sympy.Expr
    axes: Mapping[sympy.Symbol, tuple[float, int]]
    sense: Literal["Theta", "O"] = "Theta"
    where: Values = field(default_factory=dict)
    example: Values = field(default_factory=dict)
    subject: sympy.Expr | None = None

    PRINTED = ("rate",)

    def said(self, latex: bool) -> str:
        """The statement as printed."""
        show = writer(latex)
        name = show(name_of(self.quantity, self.subject))
        if not latex:
            return f"{name} = {self.sense}({self.rate})"
        order = "\\Theta" if self.sense == "Theta" else "\\mathcal{O}"
        return f"{name} = {order}\\left({show(self.rate)}\\right)"

    def verdict(self) -> Verdict:
        """The verdict: up to constants, up to logs, improvable, not implied, contradicted or units differ."""
        if problem := compare_units(self.quantity, self.rate):
            return problem
        quantity, rate = substitute(self.quantity, self.where), substitute(self.rate, self.where)
        symbols = symbols_of(quantity, rate)
        top, bottom = (sympy.lambdify(symbols, e, "mpmath") for e in (quantity, rate))
        certificate = partial(certificates.other, "growth", quantity=quantity, rate=rate, axes=self.axes)
        steps = 8 if len(symbols) > 1 else 16
        extremes = []
        with mpmath.workdps(200):
            values: dict[tuple[int, ...], Any] = {}
            for decades in (16, 32, 64):
                ratios = []
                for place in itertools.product(range(steps + 1), repeat=len(symbols)):
                    exact = tuple(index * decades * 60 // steps for index in place)
                    if exact not in values:
                        values[exact] = self._ratio(symbols, exact, top, bottom)
                    ratios.append(values[exact])
                bad = [r for r in ratios if not (isinstance(r, mpmath.mpf) and mpmath.isfinite(r) and r > 0)]
                if bad:
                    found = f"quantity over rate is {number(bad[0])} within {decades} decades"
                    return Verdict(Kind.CONTRADICTED, found, certificate)
                extremes.append((float(mpmath.log(min(ratios))), float(mpmath.log(max(ratios)))))
        (low16, high16), (low, high), (low64, high64) = extremes
        upper, lower = _growth(high16, high, high64), _growth(-low16, -low, -low64)
        span = f"quantity / rate in [{number(mpmath.exp(low))}, {number(mpmath.exp(high))}] over 32 decades"
        if upper == "power":
            found = f"the quantity outgrows the rate: {span}{self._shown(symbols, quantity, rate)}"
            return Verdict(Kind.NOT_IMPLIED, found, certificate)
        if lower == "power":
            kind = Kind.CONTRADICTED if self.sense == "Theta" else Kind.IMPROVABLE
            found = f"the rate outgrows the quantity: {span}{self._shown(symbols, quantity, rate)}"
            return Verdict(kind, found, certificate)
        if "log" in (upper, lower):
            return Verdict(Kind.UP_TO_LOGS, span, certificate)
        return Verdict(Kind.UP_TO_CONSTANTS, span, certificate)

    def _ratio(self, symbols: Sequence[Any], place: tuple[int, ...], top: Any, bottom: Any) -> Any:
        arguments = []
        for symbol, sixtieths in zip(symbols, place, strict=True):
            start, direction = self.axes[symbol]
            arguments.append(to_mpf(start) * mpmath.mpf(10) ** (mpmath.mpf(direction * sixtieths) / 60))
        try:
            return mpmath.mpmathify(top(*arguments)) / mpmath.mpmathify(bottom(*arguments))
        except (ZeroDivisionError, ValueError, OverflowError):
            return mpmath.nan

    def _shown(self, symbols: Sequence[Any], quantity: Any, rate: Any) -> str:
        if not all(symbol in self.example for symbol in symbols):
            return ""
        point = {symbol: self.example[symbol] for symbol in symbols}
        left, right = evaluator(symbols, quantity)(point), evaluator(symbols, rate)(point)
        return f"; at {place_text(point)}: quantity {number(left)}, rate {number(right)}"


def _growth(first: float, second: float, third: float) -> Literal["none", "log", "power"]:
    """The growth of a ratio, from its logarithm after 16, 32 and 64 decades: none, log or power.

    From doubling to doubling a constant adds nothing, a power of a logarithm the same again, a power twice as much.
    """
    early, late = second - first, third - second
    # A ratio that converges adds less and less; a logarithm to the power 1/12 adds as little at first, but not less and
    # less.
    if late < 0.01 or (late < 0.05 and late < 0.9 * early):
        return "none"
    return "power" if late > 1.5 * max(early, 1e-9) else "log"
