"""Claims as functions of plain numbers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpnotes.theory.symbols import PaperSymbol


@dataclass(frozen=True)
class Calculator:
    """A function of keyword numbers or numpy arrays, which broadcast; every argument is checked against its domain.

    Args:
      function: called with one positional argument a parameter.
      symbols: the parameters.
      outputs: what the function returns by name, with what each means.

    Raises:
      TypeError: an argument is missing, unknown or not a number.
      ValueError: an argument is outside its domain.
    """

    function: Callable[..., Mapping[str, Any]]
    symbols: tuple[PaperSymbol, ...]
    outputs: Mapping[str, str]

    @property
    def parameters(self) -> dict[str, PaperSymbol]:
        """The parameters by name; each knows its meaning, unit and domain."""
        return {symbol.name: symbol for symbol in self.symbols}

    def __call__(self, **numbers: Any) -> dict[str, Any]:
        """The outputs by name: plain floats where all arguments are."""
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
        found = self.function(*(numbers[name] for name in names))
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in found.items()}
