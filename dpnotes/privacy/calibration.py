"""How much noise a guarantee needs: from (epsilon, delta) and a sensitivity to a scale, never on the wrong side."""

import math
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dpnotes.util import validate

# Papers' calculators ask here how much noise there has to be, and load no torch: the accountants of events, which do,
# are loaded by what needs them.
if TYPE_CHECKING:
    from dpnotes.privacy.accounting import Accountant
    from dpnotes.privacy.events import Event

_MOST_STD = 1e9  # in sensitivities: beyond, differences of probabilities are rounded away
# Beyond, they have lost digits. What is added covers that, and what `accounting` adds to an epsilon that small.
_LARGE_STD = 1e4


def gaussian_std(epsilon: float, delta: float, l2_sensitivity: float = 1.0) -> float:
    """The least standard deviation of Gaussian noise that is (epsilon, delta)-DP.

    The analytic Gaussian mechanism of Balle and Wang (2018), arXiv:1805.06530v2, Algorithm 1: exact for every epsilon
    (the textbook's `sqrt(2 ln(1.25 / delta)) / epsilon` is not private for large epsilon, and wasteful for small).
    Below a delta of 1e-100 double precision lets the delta that is reached be above it, by a millionth of itself.

    Args:
      epsilon: above 0 and at most 1e150, beyond which its square is infinite.
      delta: in (0, 1).
      l2_sensitivity: above 0 and finite, under the neighbouring relation that is claimed.

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


@lru_cache(maxsize=4096)  # a slider, or a grid, asks for the same (epsilon, delta) at every point
def _gaussian_level(epsilon: float, delta: float) -> float:
    """The least standard deviation for a sensitivity of 1, to the last bits."""
    from dp_accounting import get_sigma_gaussian

    # To the last bits; a little more is added above, which is more than they and the product there can be wrong by.
    with warnings.catch_warnings():  # a tiny delta takes the logarithm of 0 on the way
        warnings.simplefilter("ignore", RuntimeWarning)
        std = get_sigma_gaussian(epsilon, delta, tol=1e-300)
    if std > _MOST_STD:  # the root of what is rounded to 0: what suffices by the classic conversion instead
        log = math.log(1 / delta)
        std = (math.sqrt(epsilon + log) + math.sqrt(log)) / (math.sqrt(2) * epsilon)
    elif std > _LARGE_STD:
        std *= 1 + 2e-5
    return float(std)


def gaussian_delta(epsilon: Any, noise_multiplier: Any) -> Any:
    """The least delta at which Gaussian noise is (epsilon, delta)-DP: what noise that was not calibrated is worth.

    Balle and Wang (2018), arXiv:1805.06530v2, Theorem 8. Releases whose costs add up are one with their sum.

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
    # Nothing is released where there is too much noise for floating point; all of it where there is none.
    return np.where(noise > 0, np.where(above == -np.inf, 0.0, delta), 1.0)[()]


def tree_std(epsilon: float, delta: float, l2_sensitivity: float, max_leaves: int, optimal: bool = False) -> float:
    """The standard deviation of a tree's node, for sums of at most `max_leaves` terms that share no example.

    `sqrt(floor(log2 T) + 1)` times the exact Gaussian's, less with `optimal`. The printed
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
    """The least noise multiplier at which events are (epsilon, delta)-DP, up to a millionth, on the private side.

    Args:
      events: from a noise multiplier to what is released with it; more noise may not cost more.
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
        except ValueError:  # so little noise that the accountant does not hold it; more is private too
            return high
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
