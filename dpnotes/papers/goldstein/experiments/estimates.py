"""Means, and slopes of power laws through them, with their standard errors."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpnotes import validate


@dataclass(frozen=True)
class Estimated:
    """A number and its standard error.

    Example:
      >>> print(Estimated(0.52, 0.01))
      +0.520 (0.010)
      >>> round(Estimated(0.52, 0.01).off(0.5), 9)
      2.0
    """

    value: float
    standard_error: float

    def off(self, expected: float) -> float:
        """How many standard errors it lies above what was expected; one without error is off by none or infinitely."""
        if self.standard_error == 0:
            return 0.0 if self.value == expected else math.copysign(math.inf, self.value - expected)
        return (self.value - expected) / self.standard_error

    def __str__(self) -> str:
        return f"{self.value:+.3f} ({self.standard_error:.3f})"


def slope(knob: ArrayLike, means: ArrayLike, standard_errors: ArrayLike) -> Estimated:
    """The exponent b of `mean ~ knob^b` by least squares of logarithms, with the errors of the means carried through.

    The means of different values of the knob share no draws, so that their errors are independent.

    Args:
      knob: `(values,)`, above 0, at least two different ones.
      means: `(values,)`, above 0.
      standard_errors: `(values,)`, at least 0, of the means; small beside them.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> print(slope([1.0, 10.0, 100.0], [3.0, 0.3, 0.03], [0.03, 0.003, 0.0003]))
      -1.000 (0.003)
    """
    values, mean, error = (np.asarray(given, dtype=float) for given in (knob, means, standard_errors))
    validate.same_length(knob=values, means=mean, standard_errors=error)
    if not ((values > 0).all() and (mean > 0).all() and (error >= 0).all() and len(np.unique(values)) > 1):
        raise ValueError("Expected knob > 0 with at least two values, means > 0, standard_errors >= 0.")
    # The exponent is a fixed combination of the logarithms.
    weights = np.linalg.pinv(np.stack([np.ones(len(values)), np.log(values)], 1))[1]
    return Estimated(float(weights @ np.log(mean)), float(np.linalg.norm(weights * error / mean)))
