"""The calibration of noise: the scale for an (epsilon, delta) and a sensitivity, always rounded up."""

import math
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dpnotes.util import validate

# The papers' calculators use this module without loading torch: the accountants of events, which need torch, are
# imported inside the functions that use them.
if TYPE_CHECKING:
    from dpnotes.privacy.accounting import Accountant
    from dpnotes.privacy.events import Event

_MOST_STD = 1e9  # in sensitivities: above this, differences of probabilities are rounded to 0
# Above this, they lose digits. The margin added below covers that and the margin of `accounting` for small epsilon.
_LARGE_STD = 1e4


def gaussian_std(epsilon: float, delta: float, l2_sensitivity: float = 1.0) -> float:
    """The least standard deviation of Gaussian noise that is (epsilon, delta)-DP.

    The analytic Gaussian mechanism of Balle and Wang (2018), arXiv:1805.06530v2, Algorithm 1: exact for every epsilon
    (the textbook's `sqrt(2 ln(1.25 / delta)) / epsilon` is not private for large epsilon, and wasteful for small).
    For `delta` below 1e-100, rounding in double precision may let the true delta exceed it, by a relative 1e-6.

    Args:
      epsilon: above 0 and at most 1e150, beyond which its square is infinite.
      delta: in (0, 1).
      l2_sensitivity: above 0 and finite, under the neighbouring relation of the guarantee.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> round(gaussian_std(1.0, 1e-6), 4)
      4.2247
    """
    validate.positive(epsilon=epsilon, l2_sensitivity=l2_sensitivity)
    validate.between(0, 1, delta=delta)
    if not epsilon <= 1e150:
        raise ValueError(f"Expected epsilon={epsilon!r} <= 1e150.")
    return _gaussian_level(float(epsilon), float(delta)) * l2_sensitivity * (1 + 1e-11)


@lru_cache(maxsize=4096)  # a slider or a grid requests the same (epsilon, delta) at every point
def _gaussian_level(epsilon: float, delta: float) -> float:
    """The least standard deviation for a sensitivity of 1, up to rounding in the last bits."""
    from dp_accounting import get_sigma_gaussian

    # Exact up to the last bits; the factor in `gaussian_std` exceeds their error and that of the product there.
    with warnings.catch_warnings():  # a tiny delta takes the logarithm of 0 on the way
        warnings.simplefilter("ignore", RuntimeWarning)
        std = get_sigma_gaussian(epsilon, delta, tol=1e-300)
    if std > _MOST_STD:  # the solver's function is rounded to 0 here: use the classic conversion, which suffices
        log = math.log(1 / delta)
        std = (math.sqrt(epsilon + log) + math.sqrt(log)) / (math.sqrt(2) * epsilon)
    elif std > _LARGE_STD:
        std *= 1 + 2e-5
    return float(std)


def gaussian_delta(epsilon: Any, noise_multiplier: Any) -> Any:
    """The least delta at which Gaussian noise of a given multiplier is (epsilon, delta)-DP.

    Balle and Wang (2018), arXiv:1805.06530v2, Theorem 8. Several releases are equivalent to one whose cost is the sum.

    Args:
      epsilon: above 0; a number or an array.
      noise_multiplier: the standard deviation over the sensitivity, at least 0; a number or an array.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> f"{gaussian_delta(1.0, gaussian_std(1.0, 1e-6)):.3e}", f"{gaussian_delta(1.0, 1.0):.3f}"
      ('1.000e-06', '0.127')
    """
    import numpy as np
    from scipy.special import log_ndtr

    noise = np.asarray(noise_multiplier, dtype=float)
    validate.positive(epsilon=float(np.min(epsilon)))
    validate.non_negative(noise_multiplier=float(np.min(noise)))
    with np.errstate(divide="ignore", invalid="ignore"):
        tail, half = np.asarray(epsilon) * noise, 0.5 / noise
        above, below = log_ndtr(half - tail), epsilon + log_ndtr(-half - tail)
        delta = np.exp(above) * -np.expm1(np.minimum(below - above, 0.0))
    # Delta is 0 where there is too much noise for floating point, and 1 without noise.
    return np.where(noise > 0, np.where(above == -np.inf, 0.0, delta), 1.0)[()]


def tree_std(epsilon: float, delta: float, l2_sensitivity: float, max_leaves: int, optimal: bool = False) -> float:
    """The standard deviation of a tree's node, for sums of at most `max_leaves` terms that share no example.

    It is `sqrt(floor(log2 T) + 1)` times that of `gaussian_std`, and less with `optimal`. The printed
    `4 s sqrt(log T log(1 / delta)) / epsilon` (Liu and Talwar 2024, arXiv:2410.07502v1, Theorem 2.2) is 0 at T = 1 and
    two to three times as much elsewhere.

    Args:
      epsilon: above 0.
      delta: in (0, 1).
      l2_sensitivity: of a term, above 0.
      max_leaves: T, at least 1.
      optimal: as `Tree`.

    Example:
      >>> round(tree_std(1.0, 1e-6, 1.0, max_leaves=1024), 2)
      14.01
    """
    from dpnotes.privacy.tree import Tree

    touched = math.sqrt(2 * Tree(max_leaves, optimal).max_cost(1.0))
    return gaussian_std(epsilon, delta, l2_sensitivity) * touched * (1 + 2**-50)


def noise_multiplier(
    events: "Callable[[float], Sequence[Event]]", epsilon: float, delta: float, accountant: "Accountant | None" = None
) -> float:
    """The least noise multiplier at which events are (epsilon, delta)-DP, rounded up by a relative 1e-6 at most.

    Args:
      events: maps a noise multiplier to the events released with it; more noise must not cost more.
      epsilon: above 0.
      delta: in (0, 1).
      accountant: the accountant, as `account`.

    Raises:
      ValueError: outside these domains, or if a multiplier of a million is not enough.

    Example:
      >>> from dpnotes.core import Sampling
      >>> from dpnotes.guarantees import Relation
      >>> from dpnotes.privacy.events import Event
      >>> batch = Sampling.poisson(0.01)
      >>> needed = noise_multiplier(lambda z: [Event(z, Relation.ADD_OR_REMOVE, batch, 1000)], 1.0, 1e-5)
      >>> round(needed, 2)
      1.41
    """
    from dpnotes.privacy.accounting import account

    validate.positive(epsilon=epsilon)
    validate.between(0, 1, delta=delta)

    def enough(multiplier: float) -> bool:
        return account(events(multiplier), delta, accountant).epsilon <= epsilon

    low, high = 0.0, 1.0
    while not enough(high):
        low, high = high, 2 * high
        if high > 1e6:
            raise ValueError(f"Expected epsilon={epsilon!r} within reach of a noise multiplier of a million.")
    while low == 0:
        try:
            low, high = (0.0, high / 2) if enough(high / 2) else (high / 2, high)
        except ValueError:  # too little noise for the accountant's memory; the larger multiplier is private
            return high
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
