"""Claims as functions of plain numbers."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpnotes import validate
from dpnotes.theory.symbols import PaperSymbol


@dataclass(frozen=True)
class Calculator:
    """A function of keyword numbers or numpy arrays, which broadcast; every argument is checked against its domain.

    Where a paper hides its constants in an O, or prints wrong ones, `constants` names the sets of constants that the
    function knows, for example `("paper", "corrected", "one")`: those printed, those that the proof gives, and all
    equal to 1. A call then takes `constants="corrected"`; without it, the first set is used.

    Args:
      function: called with one positional argument a parameter, and with `constants=` where sets of them are named.
      symbols: the parameters.
      outputs: what the function returns by name, with what each means.
      constants: names of sets of constants, the default first; none where every constant is explicit and right.

    Raises:
      TypeError: an argument is missing, unknown or not a number.
      ValueError: an argument is outside its domain, or so large or small that floating point holds no result; or the
        set of constants is unknown.

    >>> from dpnotes.theory.symbols import PaperSymbols
    >>> x = PaperSymbols("example").symbol("x", "a number")
    >>> factor = {"paper": 2.0, "one": 1.0}
    >>> scale = Calculator(lambda x, constants: {"y": factor[constants] * x}, (x,), {"y": "scaled"}, tuple(factor))
    >>> scale(x=3.0), scale(x=3.0, constants="one")
    ({'y': 6.0}, {'y': 3.0})
    >>> scale(x=3.0, constants="two")
    Traceback (most recent call last):
    ValueError: Expected constants='two' to be one of: paper, one.
    """

    function: Callable[..., Mapping[str, Any]]
    symbols: tuple[PaperSymbol, ...]
    outputs: Mapping[str, str]
    constants: tuple[str, ...] = ()

    @property
    def parameters(self) -> dict[str, PaperSymbol]:
        """The parameters by name; each knows its meaning, unit and domain."""
        return {symbol.name: symbol for symbol in self.symbols}

    def __call__(self, **arguments: Any) -> dict[str, Any]:
        """The outputs by name: plain floats where all arguments are."""
        numbers, options = dict(arguments), {}
        if self.constants:
            options["constants"] = numbers.pop("constants", self.constants[0])
            validate.one_of(self.constants, **options)
        names = [symbol.name for symbol in self.symbols]
        if numbers.keys() != set(names):
            missing = [name for name in names if name not in numbers]
            unknown = [name for name in numbers if name not in names]
            parts = [f"missing {', '.join(missing)}"] * bool(missing) + [f"unknown {', '.join(unknown)}"] * bool(
                unknown
            )
            raise TypeError(f"Expected the arguments {', '.join(names)}: {'; '.join(parts)}.")
        for symbol in self.symbols:
            symbol.domain.check(symbol.name, numbers[symbol.name])
        given = [_float_if_large(numbers[name]) for name in names]
        if any(map(np.ndim, given)):
            return _plain(self.function(*given, **options))
        shown = ", ".join(f"{name}={value!r}" for name, value in zip(names, given, strict=True))
        try:
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                found = _plain(self.function(*given, **options))
        except ArithmeticError as error:
            raise ValueError(f"Expected numbers within reach of floating point, got {shown}: {error}.") from error
        for name, value in found.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"Expected numbers within reach of floating point, got {shown}: {name}={value!r}.")
        return found


def _plain(found: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers of Python's where numpy gave its own."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in found.items()}


def _float_if_large(value: Any) -> Any:
    """A whole number that numpy would keep as a Python object, as the float next to it."""
    return float(value) if isinstance(value, int) and abs(value) > 2**53 else value
