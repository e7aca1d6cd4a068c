"""Slopes of power laws with bootstrap intervals."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpnotes.util import validate


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

    def contains(self, exponent: float) -> bool:
        """Return whether the interval contains an exponent."""
        return self.low <= exponent <= self.high

    def __str__(self) -> str:
        return f"{self.slope:+.3f} in [{self.low:+.3f}, {self.high:+.3f}]"


def power_law(
    knob: ArrayLike,
    outcomes: ArrayLike,
    *,
    correction: ArrayLike | None = None,
    confidence: float = 0.95,
    num_bootstrap: int = 4000,
    seed: int = 0,
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
      ValueError: outside these domains.

    Example:
      >>> knob = np.array([1.0, 10.0, 100.0])
      >>> noise = np.exp(0.1 * np.random.default_rng(1).normal(size=(20, 3)))
      >>> print(power_law(knob, knob**-0.5 * noise))
      -0.497 in [-0.508, -0.486]
      >>> exact = (knob**-0.5 * (1 + 1 / knob))[None]
      >>> print(power_law(knob, exact), "or", power_law(knob, exact, correction=np.log1p(1 / knob)))
      -0.648 in [-0.648, -0.648] or -0.500 in [-0.500, -0.500]
    """
    validate.between(0, 1, confidence=confidence)
    validate.at_least(1, num_bootstrap=num_bootstrap)
    values, table = np.asarray(knob, dtype=np.float64), np.asarray(outcomes, dtype=np.float64)
    if values.ndim != 1 or table.ndim != 2 or table.shape[1] != len(values) or not len(table):
        raise ValueError(f"Expected outcomes.shape={table.shape} to be (repeats, {values.size}), one column a value.")
    if not ((values > 0).all() and (table > 0).all() and np.isfinite(table).all() and len(np.unique(values)) > 1):
        raise ValueError("Expected finite outcomes > 0 and at least two values of a knob > 0.")
    columns = [np.ones(len(values)), np.log(values)]
    if correction is not None:
        columns.append(np.broadcast_to(np.asarray(correction, dtype=np.float64), values.shape))
    # The least-squares exponent is a fixed combination of the means.
    weights, logs = np.linalg.pinv(np.stack(columns, 1))[1], np.log(table)
    drawn = np.random.default_rng(seed).integers(len(logs), size=(num_bootstrap, *logs.shape))
    slopes = np.take_along_axis(logs[None], drawn, 1).mean(1) @ weights
    low, high = np.quantile(slopes, [(1 - confidence) / 2, (1 + confidence) / 2])
    decades = float(np.log10(values.max() / values.min()))
    return Slope(float(logs.mean(0) @ weights), float(low), float(high), decades)
