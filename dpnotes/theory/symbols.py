"""Symbols that belong to a paper: each carries its unit, its domain and its meaning.

Two papers may both write kappa; their symbols are different objects, and a claim that mixes them, or uses a bare
sympy symbol, is refused.
"""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import sympy
from numpy.typing import NDArray
from sympy.printing.latex import tex_greek_dictionary
from sympy.tensor.indexed import Indexed, IndexedBase

from dpnotes.theory.units import NONE, Unit
from dpnotes.util import validate

tex_greek_dictionary["epsilon"] = r"\varepsilon"  # the one sign of texts, pictures and formulas; sympy's is \epsilon


@dataclass(frozen=True)
class Domain:
    """An interval of real numbers or of integers.

    >>> str(Domain(0, 1)), str(Domain(1, math.inf, closed=True, integer=True))
    ('0 < _ < 1', '_ >= 1, an integer')
    """

    low: float = -math.inf
    high: float = math.inf
    closed: bool = False  # whether its finite ends, low and high, belong to it
    integer: bool = False

    def __str__(self) -> str:
        return self.describe("_") + (", an integer" if self.integer else "")

    def describe(self, text: str) -> str:
        """The condition that `text` is in the domain, for example `kappa > 1`."""
        less, more = ("<=", ">=") if self.closed else ("<", ">")
        if math.isfinite(self.low) and math.isfinite(self.high):
            return f"{self.low:g} {less} {text} {less} {self.high:g}"
        if math.isfinite(self.low):
            return f"{text} {more} {self.low:g}"
        return f"{text} {less} {self.high:g}" if math.isfinite(self.high) else f"{text} real"

    def holds(self, value: Any) -> bool:
        """Return whether one number is in the domain."""
        if not math.isfinite(value):
            return False
        inside = self.low < value < self.high or (self.closed and value in (self.low, self.high))
        return bool(inside) and (not self.integer or value == int(value))

    def check(self, name: str, value: Any) -> None:
        """Raise an error for a number outside the domain, or an array with an entry outside.

        >>> Domain(1).check("kappa", 0.5)
        Traceback (most recent call last):
        ValueError: Expected kappa=0.5 > 1.
        """
        if isinstance(value, float | int) and not isinstance(value, bool):
            validate.real(**{name: value})
            if not self.holds(value):
                raise ValueError(self.refusal(name, value))
            return
        inside = self.inside(name, value)
        if not inside.all():
            raise ValueError(self.refusal(name, np.asarray(value)[~inside].flat[0].item()))

    def inside(self, name: str, values: Any) -> NDArray[np.bool_]:
        """A mask of the entries of an array that are in the domain.

        Raises:
          TypeError: `values` is no array of real numbers.
        """
        array = np.asarray(values)
        if array.dtype.kind not in "iuf":
            raise TypeError(f"Expected {validate.shown(name, values)} to be a real number or an array of them.")
        inside = (array >= self.low) & (array <= self.high) if self.closed else (array > self.low) & (array < self.high)
        inside = inside & np.isfinite(array)
        return inside & (array == np.floor(array)) if self.integer else inside

    def refusal(self, name: str, value: float) -> str:
        """The one-line message that refuses a number outside the domain."""
        if not math.isfinite(value):
            return f"Expected {name}={value!r} to be finite."
        integer = " and an integer" if self.integer else ""
        return f"Expected {self.describe(f'{name}={value!r}')}{integer}."

    def draw(self, generator: random.Random) -> sympy.Rational:
        """A seeded rational in the domain, of moderate size, for exact evaluation."""
        low = self.low if math.isfinite(self.low) else (-4.0 if not math.isfinite(self.high) else self.high - 8)
        high = self.high if math.isfinite(self.high) else low + 8
        if self.integer:
            return sympy.Integer(generator.randint(math.ceil(low), math.floor(min(high, low + 5))))
        return sympy.Rational(round(low * 97)) / 97 + sympy.Rational(generator.randint(1, 96), 97) * round(high - low)


Interval = tuple[float, float]
# Quantities for which papers have their own letters. The gap is the initial one or, at least as large, a bound on it
# everywhere.
CommonName = Literal[
    "num_examples",
    "dim",
    "epsilon",
    "delta",
    "lipschitz",
    "smoothness",
    "hessian_lipschitz",
    "initial_gap",
    "clients",
    "radius",
    "distance",
    "condition_number",
    "failure",
    "gradient_noise",
    "batch_size",
]
COMMON_NAMES: tuple[CommonName, ...] = get_args(CommonName)


class PaperSymbol(sympy.Symbol):
    """A sympy symbol of one paper; sympy offers no other way to attach a namespace than a subclass."""

    __slots__ = ("common", "domain", "latex", "meaning", "paper", "unit", "usual")

    def __new__(
        cls,
        name: str,
        paper: str,
        unit: Unit,
        domain: Domain,
        meaning: str,
        latex: str | None = None,
        usual: Interval | None = None,
        common: CommonName | None = None,
    ) -> "PaperSymbol":
        """Create a symbol; use `PaperSymbols.symbol` instead."""
        symbol = sympy.Symbol.__xnew__(cls, name, **_assumptions(domain))
        symbol.paper, symbol.unit, symbol.domain, symbol.meaning, symbol.latex = paper, unit, domain, meaning, latex
        symbol.usual, symbol.common = usual, common
        return symbol

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        carried = (self.meaning, self.latex, self.usual, self.common)
        return (self.name, self.paper, self.unit, self.domain, *carried), {}

    def _latex(self, printer: Any) -> str:
        return self.latex or printer._print_Symbol(self)

    def _hashable_content(self) -> tuple[Any, ...]:
        # All that a symbol carries is hashed: otherwise sympy's cache would put one kappa in place of another.
        carried = (str(self.domain), str(self.unit), self.meaning, str(self.latex), str(self.usual), str(self.common))
        return (self.paper, *sympy.Symbol._hashable_content(self), *carried)


def _assumptions(domain: Domain) -> dict[str, bool]:
    known = {"integer": True} if domain.integer else {"real": True}
    if domain.low > 0 or (domain.low == 0 and not domain.closed):
        known["positive"] = True
    elif domain.low == 0:
        known["nonnegative"] = True
    return known


POSITIVE = Domain(0)
REAL = Domain()
UNIT_INTERVAL = Domain(0, 1)
COUNT = Domain(1, math.inf, closed=True, integer=True)


@dataclass(frozen=True)
class PaperSymbols:
    """The notation of one paper.

    >>> ours, theirs = PaperSymbols("one"), PaperSymbols("another")
    >>> ours.symbol("kappa", "condition number") == theirs.symbol("kappa", "curvature of a path")
    False
    """

    paper: str

    def symbol(
        self,
        name: str,
        meaning: str,
        unit: Unit = NONE,
        domain: Domain = POSITIVE,
        latex: str | None = None,
        usual: Interval | None = None,
        common: CommonName | None = None,
    ) -> PaperSymbol:
        """A symbol of the paper with its meaning.

        Args:
          name: its name in plain text.
          meaning: its meaning in words.
          unit: its unit, in the problem's loss and length.
          domain: its domain.
          latex: its LaTeX, if sympy would not derive it from the name.
          usual: the interval that a search for a counterexample covers, if the statement names no other.
          common: the common name by which papers are compared, if this is the paper's letter for it.
        """
        return PaperSymbol(name, self.paper, unit, domain, meaning, latex, usual, common)

    def sequence(
        self, name: str, meaning: str, unit: Unit = NONE, domain: Domain = POSITIVE, usual: Interval | None = None
    ) -> IndexedBase:
        """A sequence of the paper, indexed as `q[t]`."""
        return IndexedBase(self.symbol(name, meaning, unit, domain, usual=usual))


def letters(namespace: Mapping[str, Any]) -> list[str]:
    """The `__all__` of a notation: a star import brings its letters, the makers of letters, and the paper, no more.

    The makers of letters are the paper's `PaperSymbols`, units and domains.

    >>> ours = PaperSymbols("example")
    >>> letters({"SYMBOLS": ours, "q": ours.sequence("q", "influence"), "math": math, "COUNT": COUNT, "_u": NONE})
    ['SYMBOLS', 'q', 'COUNT']
    """
    kinds = (sympy.Basic, PaperSymbols, Domain, Unit)
    return [name for name, value in namespace.items() if name[0] != "_" and isinstance(value, kinds) or name == "PAPER"]


def expand(expression: sympy.Basic, instance: Mapping[sympy.Symbol, int]) -> Any:
    """Substitute integers for the symbols of `instance`, expand sums, and name the terms of sequences `q_1`, `q_2`, ...

    >>> q, t = PaperSymbols("example").sequence("q", "influence"), PaperSymbols("example").symbol("t", "step")
    >>> T = PaperSymbols("example").symbol("T", "number of steps")
    >>> expand(sympy.Sum(q[t], (t, 1, T)), {T: 3})
    q_1 + q_2 + q_3
    """
    written = _write_out(expression.xreplace({symbol: sympy.Integer(value) for symbol, value in instance.items()}))
    return written.xreplace({term: _term(term) for term in written.atoms(Indexed)})


def _write_out(expression: sympy.Basic) -> sympy.Basic:
    """Write sums as sums of their terms; sympy's own `doit` looks for closed forms first, and may not return."""
    if not expression.has(sympy.Sum):
        return expression
    if isinstance(expression, sympy.Sum):
        ((index, low, high),) = expression.limits
        values = (sympy.Integer(value) for value in range(int(low), int(high) + 1))
        return sympy.Add(*(_write_out(expression.function.xreplace({index: value})) for value in values))
    return expression.func(*(_write_out(argument) for argument in expression.args))


def _term(term: Indexed) -> PaperSymbol:
    label = term.base.label
    name = f"{label.name}_{'_'.join(str(index) for index in term.indices)}"
    return PaperSymbol(name, label.paper, label.unit, label.domain, label.meaning, usual=label.usual)


def symbols_of(*expressions: sympy.Basic) -> list[PaperSymbol]:
    """The free symbols of expressions, by name.

    Raises:
      ValueError: one of them is a bare symbol, or they belong to different papers.

    >>> symbols_of(sympy.Symbol("kappa"))
    Traceback (most recent call last):
    ValueError: Expected symbols of a paper, got the bare symbol kappa.
    """
    found: dict[str, PaperSymbol] = {}
    for expression in expressions:
        for symbol in expression.atoms(sympy.Symbol):
            if not isinstance(symbol, PaperSymbol):
                raise ValueError(f"Expected symbols of a paper, got the bare symbol {symbol}.")
            other = found.setdefault(symbol.name, symbol)
            if other.paper != symbol.paper:
                raise ValueError(f"Expected symbols of one paper, got {symbol} of {other.paper} and of {symbol.paper}.")
    papers = sorted({symbol.paper for symbol in found.values()})
    if len(papers) > 1:
        raise ValueError(f"Expected symbols of one paper, got symbols of {' and '.join(papers)}.")
    free = {s.name for expression in expressions for s in expression.free_symbols if isinstance(s, sympy.Symbol)}
    return [found[name] for name in sorted(free)]
