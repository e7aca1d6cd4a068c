"""Refusals of calculators: typed one-line errors that know the cells of an array that they concern."""

from collections.abc import Iterator
from typing import Any

import numpy as np


class OutsideRegime(ValueError):
    """The error for numbers outside a theorem's assumptions.

    Args:
      refused: the refused cells, a flag or an array of flags.
      text: the line, with `{name}` for a value of the first cell that is refused.
      values: numbers or arrays by name, which broadcast with `refused`.
    """

    def __init__(self, refused: Any, text: str, values: dict[str, Any]) -> None:
        self.refused, self._text, self._values = np.asarray(refused, dtype=bool), text, values
        super().__init__(next(line for _, line in self.reasons(self._shape)))

    @property
    def _shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(self.refused.shape, *(np.shape(value) for value in self._values.values()))

    def reasons(self, shape: tuple[int, ...]) -> Iterator[tuple[int, str]]:
        """The line of each refused cell, with the cell's place in a flattened array of this shape."""
        spread = {name: np.broadcast_to(value, shape).reshape(-1) for name, value in self._values.items()}
        for place in np.flatnonzero(np.broadcast_to(self.refused, shape)):
            yield int(place), self._text.format(**{name: value[place] for name, value in spread.items()})


class Vacuous(OutsideRegime):
    """The error for a vacuous bound: every point, or the start, has a gradient that small."""


class NoRoot(OutsideRegime):
    """The error for an equation without a solution, or curves that do not cross."""


class NoConstants(ValueError):
    """The error for a set of constants that no proof gives."""


class MixedLetters(ValueError):
    """The error for a letter of one paper where another paper's letter, or a common name, is meant."""


def require(holds: Any, text: str, error: type[OutsideRegime] = OutsideRegime, **values: Any) -> None:
    """Raise an error for numbers at which a condition fails.

    Args:
      holds: the condition, a flag or an array of flags.
      text: one line, with `{name}` for a value; formats as in `{name:.4g}` are allowed.
      error: the type of the error.
      values: numbers or arrays by name.

    Raises:
      OutsideRegime: with the values of the first cell at which it fails.

    >>> require([True, False], "Expected x={x:g} <= {most:g}.", x=np.array([1.0, 3.0]), most=2.0)
    Traceback (most recent call last):
    dpnotes.theory.refusals.OutsideRegime: Expected x=3 <= 2.
    """
    inside = np.asarray(holds)
    if not inside.all():
        raise error(~inside, text, values)


_ALL = "every point has that"


def require_informative(
    name: str, accuracy: Any, bound: str, limit: Any, *, why: str = _ALL, closed: bool = False
) -> None:
    """Raise an error for an accuracy no better than a trivial bound, in the same words in every paper.

    Args:
      name: the letter of the accuracy.
      accuracy: a bound of a gradient's norm, or an array of them.
      bound: the bound that every point, or the start, satisfies, as the paper writes it.
      limit: its value.
      why: the reason why the bound is trivial.
      closed: whether the limit itself is allowed, as in some papers.

    Raises:
      Vacuous: above the limit.

    >>> require_informative("alpha", 2.0, "G", 1.0)
    Traceback (most recent call last):
    dpnotes.theory.refusals.Vacuous: Expected alpha=2 < G=1: the bound is vacuous, every point has that.
    """
    sign = "<=" if closed else "<"
    text = f"Expected {name}={{accuracy:.4g}} {sign} {bound}={{limit:.4g}}: the bound is vacuous, {why}."
    inside = np.less_equal(accuracy, limit) if closed else np.less(accuracy, limit)
    require(inside, text, Vacuous, accuracy=accuracy, limit=limit)
