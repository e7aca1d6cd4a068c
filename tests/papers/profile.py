"""The exact privacy of a Gaussian mechanism, from scipy alone: what the library's accountants are compared with."""

import math

from scipy.stats import norm


def gaussian(epsilon: float, ratio: float) -> float:
    """Return the least delta of a Gaussian mechanism whose sensitivity is `ratio` standard deviations."""
    upper, lower = ratio / 2 - epsilon / ratio, -ratio / 2 - epsilon / ratio
    return float(norm.cdf(upper) - math.exp(epsilon + norm.logcdf(lower)))  # e^epsilon alone may overflow
