"""Exponents of power laws through means, with their standard errors."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


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
        """The excess over the expected value in standard errors; without an error it is zero or infinite."""
        if self.standard_error == 0:
            return 0.0 if self.value == expected else math.copysign(math.inf, self.value - expected)
        return (self.value - expected) / self.standard_error

    def __str__(self) -> str:
        return f"{self.value:+.3f} ({self.standard_error:.3f})"


def exponents(means: ArrayLike, standard_errors: ArrayLike, **knobs: ArrayLike) -> dict[str, Estimated]:
    """The exponents of `mean ~ knob_1^b_1 knob_2^b_2 ...` by least squares of logarithms, with the errors of the means.

    The means share no draws, so that their errors are independent.

    Args:
      means: `(values,)`, above 0.
      standard_errors: `(values,)`, at least 0, of the means; small beside them.
      **knobs: `(values,)` each, above 0, none a power of others.

    Returns:
      By the names of the knobs.

    Example:
      >>> print(exponents([3.0, 0.3, 0.03], [0.03, 0.003, 0.0003], knob=[1.0, 10.0, 100.0])["knob"])
      -1.000 (0.003)
    """
    mean, error, *values = (np.asarray(given, dtype=float) for given in (means, standard_errors, *knobs.values()))
    matrix = np.stack([np.ones(len(mean)), *(np.log(knob) for knob in values)], 1)
    # An exponent is a fixed combination of the logarithms.
    weights = np.linalg.pinv(matrix)[1:]
    errors = np.linalg.norm(weights * error / mean, axis=1)
    return {
        name: Estimated(float(row @ np.log(mean)), float(one))
        for name, row, one in zip(knobs, weights, errors, strict=True)
    }
