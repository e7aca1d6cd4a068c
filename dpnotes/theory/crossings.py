"""Crossings of the accuracies that two papers promise, computed from their calculators in common names."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpnotes.theory.calculators import Calculator, Measure, Numbers, Role
from dpnotes.theory.refusals import MixedLetters, NoRoot
from dpnotes.theory.symbols import COMMON_NAMES, CommonName, PaperSymbol
from dpnotes.util import validate

_POINTS = 257  # grid points of the search for sign changes: closer crossings are not distinguished
_TOLERANCE = 1e-12  # relative accuracy of a crossing


@dataclass(frozen=True)
class Curve:
    """An accuracy of a paper, as a function of the names that papers share (`symbols.COMMON_NAMES`).

    Counts may be real numbers, since two curves need not cross at a whole number.

    Args:
      calculator: a calculator with one accuracy, or several, of which `output` names one.
      own: numbers for the letters that have no common name.
      constants: the set of constants, if the calculator has sets. "one" is for comparisons: two papers' own constants
        would compare their conventions.
      output: the name of the accuracy.

    Raises:
      MixedLetters: `own` has a letter that is not this paper's, or has a common name.
      ValueError: there is no such accuracy, or no such set of constants.
      TypeError: a letter of its own is missing.

    >>> from dpnotes.papers.adaptive_batch.calculators import THEOREM
    >>> Curve(THEOREM, {"iota": 0.01}).letters["initial_gap"]
    'B'
    >>> Curve(THEOREM, {"U": 1.0})
    Traceback (most recent call last):
    dpnotes.theory.refusals.MixedLetters: Expected only iota of adaptive_batch, got U.
    """

    calculator: Calculator
    own: Mapping[str, float] = field(default_factory=dict)
    constants: str = "one"
    output: str = ""

    def __post_init__(self) -> None:
        known = {name: symbol.common for name, symbol in self.calculator.parameters.items()}
        theirs = [name for name, common in known.items() if not common]
        for name in self.own:
            if known.get(name):
                raise MixedLetters(f"Expected {known[name]} in place of {name}, which is its letter in {self.paper}.")
            if name not in known:
                raise MixedLetters(f"Expected only {', '.join(theirs) or 'common names'} of {self.paper}, got {name}.")
        if missing := [name for name in theirs if name not in self.own]:
            raise TypeError(f"Expected the letters {', '.join(theirs)} of {self.paper}: missing {', '.join(missing)}.")
        if self.calculator.constants:
            self.calculator.choose(self.constants)
        found = [name for name, output in self.calculator.outputs.items() if output.role is Role.ACCURACY]
        if self.output not in found and (self.output or len(found) != 1):
            there = f"one of {', '.join(found)}" if found else "an accuracy, of which there is none"
            raise ValueError(f"Expected output={self.output!r} of {self.paper} to be {there}.")

    @property
    def paper(self) -> str:
        """The key of the paper."""
        return self.calculator.symbols[0].paper

    @property
    def letters(self) -> dict[CommonName, str]:
        """The paper's letters by their common names."""
        return {symbol.common: symbol.name for symbol in self.calculator.symbols if symbol.common}

    @property
    def measure(self) -> Measure | None:
        """The measure of the accuracy."""
        return self.calculator.outputs[self._output].measure

    @property
    def _output(self) -> str:
        accuracies = (name for name, output in self.calculator.outputs.items() if output.role is Role.ACCURACY)
        return self.output or next(accuracies)

    @cached_property
    def _real(self) -> Calculator:
        return replace(self.calculator, symbols=tuple(map(_real, self.calculator.symbols)))

    def __call__(self, **common: Any) -> Any:
        """The accuracy: a number, or an array, NaN where the calculator refuses.

        Args:
          **common: numbers or arrays by common name; names that the paper does not use have no effect.

        Raises:
          MixedLetters: a name is a letter of the paper.
          TypeError: a name is missing, or is no common name.
          ValueError: as the calculator.
        """
        return self._numbers(common)[self._output]

    def _numbers(self, common: Mapping[str, Any]) -> Numbers:
        _check_names(common, self)
        letters = self.letters
        if missing := [name for name in letters if name not in common]:
            raise TypeError(f"Expected {', '.join(letters)} for {self.paper}: missing {', '.join(missing)}.")
        constants = {"constants": self.constants} if self.calculator.constants else {}
        return self._real(**{letter: common[name] for name, letter in letters.items()}, **self.own, **constants)


@dataclass(frozen=True)
class Crossing:
    """A point at which two accuracies are equal.

    Args:
      along: the common name of the varied quantity.
      value: its value there.
      accuracy: the accuracy of both.
      better_below: the paper whose accuracy is the better one at smaller values.
    """

    along: str
    value: float
    accuracy: float
    better_below: str


def crossing(first: Curve, second: Curve, along: CommonName, low: float, high: float, **common: float) -> Crossing:
    """Find where two papers promise the same accuracy, to a relative 1e-12.

    Args:
      first: the first curve.
      second: the second curve.
      along: the common name of the varied quantity.
      low: where the search begins, above 0.
      high: where it ends.
      **common: all other numbers, by common name.

    Raises:
      NoRoot: the curves do not cross there; the message gives the reason if one of them promises nothing.
      MixedLetters: a name is a letter of one of the papers, or the accuracies are of two measures.
      ValueError: the curves cross more than once, or a number is outside its domain.
      TypeError: a name is missing, or is no common name.

    >>> from dpnotes.papers.adaptive_batch.calculators import THEOREM
    >>> from dpnotes.papers.drift_escape.calculators import RATE
    >>> ones = dict.fromkeys(("lipschitz", "smoothness", "hessian_lipschitz", "initial_gap"), 1.0)
    >>> given = {"dim": 100, "epsilon": 0.01, "delta": 1e-6, **ones}
    >>> found = crossing(Curve(THEOREM, {"iota": 0.01}), Curve(RATE), "num_examples", 1e3, 1e12, **given)
    >>> f"{found.value:.6g}", f"{found.accuracy:.6g}", found.better_below
    ('13443.4', '0.406429', 'drift_escape')
    """
    validate.one_of(COMMON_NAMES, along=along)
    validate.positive(low=low, high=high)
    if not low < high:
        raise ValueError(f"Expected low={low!r} < high={high!r}.")
    if along in common:
        raise TypeError(f"Expected {along} once: it is what is varied.")
    _check_names(common, first, second)
    if first.measure is not second.measure:
        raise MixedLetters(
            f"Expected accuracies of one measure, got {first.measure} of {first.paper} and {second.measure} of "
            f"{second.paper}."
        )
    logarithms = np.linspace(math.log(low), math.log(high), _POINTS)
    # The ends are kept exact: exp(log(x)) may be outside a domain that contains x.
    grid = np.concatenate([[low], np.exp(logarithms[1:-1]), [high]])
    found = [curve._numbers({**common, along: grid}) for curve in (first, second)]
    values = [numbers[curve._output] for numbers, curve in zip(found, (first, second), strict=True)]
    ratio = np.log(values[0]) - np.log(values[1])
    both = np.isfinite(ratio[:-1]) & np.isfinite(ratio[1:])
    places = np.flatnonzero(both & (np.sign(ratio[:-1]) != np.sign(ratio[1:])) & (ratio[1:] != 0))
    names = f"{first.paper} and {second.paper}"
    if len(places) > 1:
        near = ", ".join(f"{grid[place]:.3g}" for place in places)
        raise ValueError(f"Expected one crossing of {names} for {low:g} <= {along} <= {high:g}, got them near {near}.")
    if not len(places):
        if np.isfinite(ratio).any():
            better = first.paper if np.nanmean(ratio) < 0 else second.paper
            why = f"{better} has the better accuracy wherever both promise one"
        else:
            why = next(str(reason) for numbers in found for reason in numbers.reasons.reshape(-1) if reason)
            why = f"nowhere both promise one. {why.removesuffix('.')}"
        text = f"Expected {names} to cross for {low:g} <= {along} <= {high:g}: {why}."
        raise NoRoot(True, "{text}", {"text": text})

    def difference(logarithm: float) -> float:
        here = {**common, along: math.exp(logarithm)}
        return math.log(first(**here)) - math.log(second(**here))

    from scipy.optimize import brentq

    (place,) = places
    root = float(brentq(difference, *logarithms[place : place + 2], xtol=_TOLERANCE, rtol=4 * np.finfo(float).eps))  # type: ignore[arg-type]
    value = math.exp(root)
    better = first.paper if ratio[place] < 0 or (ratio[place] == 0 and ratio[place + 1] > 0) else second.paper
    return Crossing(along, value, float(first(**{**common, along: value})), better)


def _check_names(common: Mapping[str, Any], *curves: Curve) -> None:
    for name in common:
        if name in COMMON_NAMES:
            continue
        for curve in curves:
            if name in curve.calculator.parameters:
                shared = curve.calculator.parameters[name].common
                raise MixedLetters(
                    f"Expected common names, got {name}, a letter of {curve.paper}: "
                    + (f"{shared} is its common name." if shared else "it goes with its own curve.")
                )
        raise TypeError(f"Expected the common names {', '.join(COMMON_NAMES)}, got {name}.")


def _real(symbol: PaperSymbol) -> PaperSymbol:
    """The same symbol with real numbers as its domain."""
    real = replace(symbol.domain, integer=False)
    return PaperSymbol(
        symbol.name, symbol.paper, symbol.unit, real, symbol.meaning, symbol.latex, symbol.usual, symbol.common
    )
