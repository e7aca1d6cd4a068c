"""Slopes of power laws with bootstrap intervals, and where half of the runs fail."""

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Slope:
    """A fitted exponent, its bootstrap interval, and how many decades of the knob it rests on."""

    slope: float
    low: float
    high: float
    decades: float

    @property
    def half_width(self) -> float:
        """The length of the longer side of the interval."""
        return max(self.high - self.slope, self.slope - self.low)

    @staticmethod
    def of(knob: ArrayLike, logs: ArrayLike, confidence: float = 0.95, correction: ArrayLike | None = None) -> "Slope":
        """The least-squares slope of logarithms against ln(knob): of the first row, with the interval of the others.

        Args:
          knob: `(values,)`, above 0.
          logs: `(1 + resamples, values)`.
          confidence: of the interval, in (0, 1).
          correction: `(values,)`, as `power_law`.
        """
        values = np.asarray(knob, dtype=np.float64)
        columns = [np.ones(len(values)), np.log(values)]
        if correction is not None:
            columns.append(np.broadcast_to(np.asarray(correction, dtype=np.float64), values.shape))
        # The least-squares exponent is a fixed combination of the logarithms.
        slopes = np.asarray(logs) @ np.linalg.pinv(np.stack(columns, 1))[1]
        low, high = np.quantile(slopes[1:], [(1 - confidence) / 2, (1 + confidence) / 2])
        return Slope(float(slopes[0]), float(low), float(high), float(np.log10(values.max() / values.min())))

    def contains(self, exponent: float) -> bool:
        """Return whether the interval contains an exponent."""
        return self.low <= exponent <= self.high

    def within(self, exponent: float, width: float) -> bool:
        """Return whether the whole interval is within a distance of an exponent."""
        return exponent - width <= self.low and self.high <= exponent + width

    def misses(self, exponent: float, width: float) -> bool:
        """Return whether the whole interval is farther from an exponent than that."""
        return self.high < exponent - width or self.low > exponent + width

    def __str__(self) -> str:
        return f"{self.slope:+.3f} in [{self.low:+.3f}, {self.high:+.3f}]"


def power_law(
    knob: ArrayLike,
    outcomes: ArrayLike,
    *,
    correction: ArrayLike | None = None,
    confidence: float = 0.95,
    num_bootstrap: int = 4000,
    seed: int | np.random.Generator = 0,
) -> Slope:
    """The exponent b of `outcome ~ knob^b`: least squares on the mean of ln(outcome) over repeats.

    Repeats of different values of the knob share nothing, so they are drawn anew for each value.

    A law that holds in a limit only has a next order. Where its form is known, `outcome ~ knob^b exp(c correction)` is
    fitted instead, with c free, and b is the exponent in the limit where the correction vanishes.

    Args:
      knob: `(values,)`, above 0, at least two different ones.
      outcomes: `(repeats, values)`, above 0.
      correction: `(values,)`, the form of the next order, or None.
      confidence: of the interval, in (0, 1).
      num_bootstrap: at least 1.
      seed: of the bootstrap.

    Raises:
      ValueError: an outcome or a knob that is not above 0, or a single value of the knob.

    Example:
      >>> knob = np.array([1.0, 10.0, 100.0])
      >>> noise = np.exp(0.1 * np.random.default_rng(1).normal(size=(20, 3)))
      >>> print(power_law(knob, knob**-0.5 * noise))
      -0.497 in [-0.508, -0.486]
      >>> exact = (knob**-0.5 * (1 + 1 / knob))[None]
      >>> print(power_law(knob, exact), "or", power_law(knob, exact, correction=np.log1p(1 / knob)))
      -0.648 in [-0.648, -0.648] or -0.500 in [-0.500, -0.500]
    """
    values, table = np.asarray(knob, dtype=np.float64), np.asarray(outcomes, dtype=np.float64)
    if not ((values > 0).all() and (table > 0).all() and np.isfinite(table).all() and len(np.unique(values)) > 1):
        raise ValueError("Expected finite outcomes > 0 and at least two values of a knob > 0.")
    return Slope.of(values, resampled(np.log(table), num_bootstrap, seed), confidence, correction)


def fitted(frame: "pd.DataFrame", knob: str, outcome: str, **options: Any) -> Slope:
    """The exponent of a column of outcomes in that of a knob, by `power_law`; `repeat` numbers the repeats."""
    table = frame.pivot(index="repeat", columns=knob, values=outcome)
    return power_law(table.columns.to_numpy(dtype=np.float64), table.to_numpy(), **options)


def resampled(table: np.ndarray, num_bootstrap: int = 4000, seed: int | np.random.Generator = 0) -> np.ndarray:
    """Means over repeats, `(1 + num_bootstrap, values)`: first of all, then of as many drawn anew for each value.

    Args:
      table: `(repeats, values)`.
      num_bootstrap: at least 1.
      seed: of the draws.
    """
    places = (_kept_places if isinstance(seed, int) else _places)(num_bootstrap, table.shape, seed)
    return np.concatenate([table.mean(0)[None], table.ravel()[places].mean(1)])


def _places(num_bootstrap: int, shape: tuple[int, int], seed: int | np.random.Generator) -> np.ndarray:
    """The drawn places in a table that is read row by row, `(num_bootstrap, *shape)`."""
    repeats, values = shape
    return np.random.default_rng(seed).integers(repeats, size=(num_bootstrap, *shape)) * values + np.arange(values)


_kept_places = functools.lru_cache(maxsize=2)(_places)  # a rule's simulations draw from many tables of one shape
