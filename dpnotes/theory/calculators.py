"""Calculators: formulas of claims as functions of plain numbers."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes.theory.refusals import NoConstants, OutsideRegime
from dpnotes.theory.symbols import PaperSymbol
from dpnotes.util import validate


class Role(StrEnum):
    """The role of an output in a comparison of papers."""

    ACCURACY = "accuracy"
    SAMPLE_SIZE = "sample size"
    EVALUATIONS = "evaluations"  # of gradients or of the loss, or steps
    PARAMETER = "parameter"


class Measure(StrEnum):
    """The quantity that an accuracy bounds; accuracies of different measures are not compared."""

    SECOND_ORDER = "second-order stationarity for the population"
    SECOND_ORDER_EMPIRICAL = "second-order stationarity for the data"
    FIRST_ORDER = "first-order stationarity for the population"
    FIRST_ORDER_EMPIRICAL = "first-order stationarity for the data"
    GOLDSTEIN = "Goldstein stationarity for the population"
    GOLDSTEIN_EMPIRICAL = "Goldstein stationarity for the data"
    EXCESS_RISK = "excess risk for the data, relative to the initial one"


@dataclass(frozen=True)
class Output:
    """A number that a calculator returns.

    Args:
      meaning: its meaning in words.
      role: its role in a comparison.
      measure: the measure, for an accuracy.
      floor: whether it is a lower bound that no method beats; all other outputs can be attained.

    Raises:
      ValueError: an accuracy without a measure, or a measure of something else.
    """

    meaning: str
    role: Role
    measure: Measure | None = None
    floor: bool = False

    def __post_init__(self) -> None:
        if (self.role is Role.ACCURACY) != (self.measure is not None):
            raise ValueError(f"Expected a measure of an accuracy, and of nothing else, got {self}.")

    def __str__(self) -> str:
        """The line for this output in a list of outputs."""
        kind = f"{'floor of the ' * self.floor}{self.role}" + (f": {self.measure}" if self.measure else "")
        return self.meaning if self.role is Role.PARAMETER else f"{self.meaning} [{kind}]"


def accuracies(measure: Measure, *, floor: bool = False, **meanings: str) -> dict[str, Output]:
    """Outputs with the role of accuracies, of one measure.

    >>> print(accuracies(Measure.SECOND_ORDER, alpha="accuracy")["alpha"])
    accuracy [accuracy: second-order stationarity for the population]
    """
    return {name: Output(meaning, Role.ACCURACY, measure, floor) for name, meaning in meanings.items()}


def sample_sizes(**meanings: str) -> dict[str, Output]:
    """Outputs with the role of sample sizes.

    >>> str(sample_sizes(n="a number")["n"].role)
    'sample size'
    """
    return {name: Output(meaning, Role.SAMPLE_SIZE) for name, meaning in meanings.items()}


def evaluations(**meanings: str) -> dict[str, Output]:
    """Outputs that count evaluations of gradients or function values, or steps.

    >>> str(evaluations(n="a number")["n"].role)
    'evaluations'
    """
    return {name: Output(meaning, Role.EVALUATIONS) for name, meaning in meanings.items()}


def parameters(**meanings: str) -> dict[str, Output]:
    """Outputs that are parameters, the role of all other outputs.

    >>> str(parameters(n="a number")["n"].role)
    'parameter'
    """
    return {name: Output(meaning, Role.PARAMETER) for name, meaning in meanings.items()}


class Numbers(dict[str, Any]):
    """The results of a calculator, by name.

    `reasons` has the shape of the arrays; in a cell with a reason all results are NaN. For plain numbers it is empty,
    since a refusal is raised as an error.
    """

    reasons: Any = ""


@dataclass(frozen=True)
class Calculator:
    """A function of keyword numbers or numpy arrays, which broadcast; every argument is checked against its domain.

    With plain numbers a refusal is an error. With arrays a refused cell is NaN in every output, and `reasons` of the
    result says why; each cell has the result, or the reason, of a call with that cell's plain numbers.

    Where a paper hides its constants in an O, or prints wrong ones, `constants` names the sets of constants that the
    function knows. A call then takes `constants="corrected"`; without it, the first set is used. A name means the same
    in every paper:

    * "paper": as printed, with 1 for hidden constants; the printed noise, with the privacy that the accountant finds.
    * "corrected": the result of the proof, with its constants and logarithms; noise is private by the exact accountant.
      Where no proof gives them, the set is missing, and `missing` says why.
    * "one": the order only: errata corrected, constants and logarithms 1.

    Args:
      function: called with one positional argument for each parameter, and with `constants=` if `constants` names sets.
      symbols: the parameters.
      outputs: the numbers that the function returns, by name, with the meaning of each.
      constants: names of sets of constants, the default first; empty if every constant is explicit and right.
      missing: the sets that cannot exist, each with the reason; a call with one raises an error that gives the reason.
      says: the results in a sentence, from the same plain numbers as keywords; None if the numbers say it all.
      unused: the parameters that a set does not use, by set; a call may leave them out.

    Raises:
      TypeError: an argument is missing, unknown or not a number, or arrays do not broadcast.
      ValueError: an argument is outside its domain, or so large or small that floating point holds no result; or the
        set of constants is unknown.
      OutsideRegime: the function refuses the numbers, by `refusals.require`; `Vacuous` and `NoRoot` are subclasses.
      NoConstants: the set of constants cannot exist.

    >>> from dataclasses import replace
    >>> from dpnotes.theory.symbols import PaperSymbols
    >>> x = PaperSymbols("example").symbol("x", "a number")
    >>> factor = {"paper": 2.0, "one": 1.0}
    >>> scaled = parameters(y="scaled")
    >>> scale = Calculator(lambda x, constants: {"y": factor[constants] * x}, (x,), scaled, tuple(factor))
    >>> scale(x=3.0), scale(x=3.0, constants="one")
    ({'y': 6.0}, {'y': 3.0})
    >>> found = scale(x=np.array([3.0, -1.0]))
    >>> found, found.reasons
    ({'y': array([ 6., nan])}, array(['', 'Expected x=-1.0 > 0.'], dtype=object))
    >>> scale(x=3.0, constants="two")
    Traceback (most recent call last):
    ValueError: Expected constants='two' to be one of: paper, one.
    >>> replace(scale, missing={"corrected": "the proof says O(x)"})(x=3.0, constants="corrected")
    Traceback (most recent call last):
    dpnotes.theory.refusals.NoConstants: Expected constants='corrected' to be one of: paper, one; the proof says O(x).
    """

    function: Callable[..., Mapping[str, Any]]
    symbols: tuple[PaperSymbol, ...]
    outputs: Mapping[str, Output]
    constants: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    says: Callable[..., str] | None = None
    unused: Mapping[str, tuple[PaperSymbol, ...]] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, PaperSymbol]:
        """The parameters by name; each carries its meaning, unit and domain."""
        return {symbol.name: symbol for symbol in self.symbols}

    def choose(self, constants: Any) -> str:
        """Return the name of a set of constants, after checking that the set exists.

        Raises:
          NoConstants: a set of this name cannot exist; the message gives the reason.
          ValueError: no set has this name.
        """
        if isinstance(constants, str) and (reason := self.missing.get(constants)):
            raise NoConstants(f"Expected constants={constants!r} to be one of: {', '.join(self.constants)}; {reason}.")
        validate.one_of(self.constants, constants=constants)
        return constants

    def __call__(self, **arguments: Any) -> Numbers:
        """Return the outputs by name: plain floats if all arguments are plain numbers."""
        numbers, options = dict(arguments), {}
        if self.constants:
            options["constants"] = self.choose(numbers.pop("constants", self.constants[0]))
            numbers = {symbol.name: 1.0 for symbol in self.unused.get(options["constants"], ())} | numbers
        names = [symbol.name for symbol in self.symbols]
        if numbers.keys() != set(names):
            missing, unknown = ([n for n in names if n not in numbers], [n for n in numbers if n not in names])
            parts = [f"{kind} {', '.join(some)}" for kind, some in (("missing", missing), ("unknown", unknown)) if some]
            raise TypeError(f"Expected the arguments {', '.join(names)}: {'; '.join(parts)}.")
        for symbol in self.symbols:
            if not np.ndim(numbers[symbol.name]):
                symbol.domain.check(symbol.name, numbers[symbol.name])
        given = {name: _float_if_large(numbers[name]) for name in names}
        return (self._of_arrays if any(map(np.ndim, given.values())) else self._of_numbers)(given, options)

    def at(self, common: Mapping[str, Any], **own: Any) -> Numbers:
        """Return the outputs at numbers by common name (`symbols.COMMON_NAMES`); `own` has the other letters.

        Names that the calculator does not use have no effect.
        """
        letters = {s.name: common[s.common] for s in self.symbols if s.common and s.name not in own}
        return self(**letters, **own)

    def _of_numbers(self, given: Mapping[str, Any], options: Mapping[str, str]) -> Numbers:
        shown = ", ".join(f"{name}={value!r}" for name, value in given.items())
        try:
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                found = _plain(self.function(*given.values(), **options))
        except ArithmeticError as error:
            raise ValueError(f"Expected numbers within reach of floating point, got {shown}: {error}.") from error
        for name, value in found.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"Expected numbers within reach of floating point, got {shown}: {name}={value!r}.")
        return Numbers(found)

    def _of_arrays(self, given: Mapping[str, Any], options: Mapping[str, str]) -> Numbers:
        """Evaluate all cells at once, and again without the refused cells, until no cell is refused."""
        arrays = {name: np.asarray(value) for name, value in given.items() if np.ndim(value)}
        masks = {name: self.parameters[name].domain.inside(name, array) for name, array in arrays.items()}
        try:
            shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
        except ValueError as error:
            shapes = ", ".join(f"{name} of {array.shape}" for name, array in arrays.items())
            raise TypeError(f"Expected arrays that broadcast, got {shapes}.") from error
        flat = {name: np.broadcast_to(array, shape).reshape(-1) for name, array in arrays.items()}
        reasons = np.full(math.prod(shape), "", dtype=object)
        for name, mask in masks.items():
            for place in np.flatnonzero(~np.broadcast_to(mask, shape).reshape(-1) & (reasons == "")):
                reasons[place] = self.parameters[name].domain.refusal(name, flat[name][place].item())
        found: dict[str, NDArray[np.float64]] = {}
        waiting = [np.flatnonzero(reasons == "")]
        while waiting:
            cells = waiting.pop()
            if not cells.size:
                continue
            whole = cells.size == reasons.size
            here = shape if whole else cells.shape
            try:
                if cells.size == 1:  # as plain numbers, for the same reason
                    alone = {name: flat[name][cells[0]].item() for name in flat}
                    values = self._of_numbers({**given, **alone}, options)
                else:
                    picked = {} if whole else {name: array[cells] for name, array in flat.items()}
                    with np.errstate(over="raise", divide="raise", invalid="raise"):
                        values = self.function(*{**given, **picked}.values(), **options)
                    if not all(np.isfinite(value).all() for value in values.values()):
                        raise FloatingPointError
            except OutsideRegime as error:
                refused = dict(error.reasons(here))
                reasons[cells[list(refused)]] = list(refused.values())
                waiting.append(np.delete(cells, list(refused)))
            except (ArithmeticError, ValueError) as error:  # the error does not tell the cells that it concerns
                if cells.size == 1:
                    reasons[cells[0]] = str(error)
                else:
                    waiting += np.array_split(cells, 2)
            else:
                for name, value in values.items():
                    into = found.setdefault(name, np.full(reasons.size, np.nan))
                    into[cells] = np.broadcast_to(np.asarray(value, dtype=float), here).reshape(-1)
        names = found or self.outputs
        numbers = Numbers({name: found.get(name, np.full(reasons.size, np.nan)).reshape(shape) for name in names})
        numbers.reasons = reasons.reshape(shape)
        return numbers


def _plain(found: Mapping[str, Any]) -> dict[str, Any]:
    """Convert numpy scalars, and arrays of one number, to Python numbers."""
    numpy = np.generic | np.ndarray
    return {name: value.item() if isinstance(value, numpy) else value for name, value in found.items()}


def _float_if_large(value: Any) -> Any:
    """Convert an integer that numpy would keep as a Python object to the nearest float."""
    return float(value) if isinstance(value, int) and abs(value) > 2**53 else value
