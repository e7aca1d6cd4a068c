"""Correlated noise as a matrix factorisation, to compare the tree mechanism with later ones.

The running sums of `x_1, ..., x_T` are `A x`, with A the lower triangle of ones. A mechanism that factors `A = B C`
releases `A x + B z` with independent Gaussian z: post-processing of `C x + z`, whose sensitivity determines the price.
If every example is in one term of norm at most s, this sensitivity is s times the largest column norm of C; the noise
of the t-th sum is the t-th row of B times z. Independent noise on the terms is `C = I`; on the sums, `C = A`; the tree
is one factorisation (`tree.py`); taking `C` as the square root of A (Fichtenberger, Henzinger and Upadhyay 2022,
arXiv:2202.11205; Henzinger, Upadhyay and Upadhyay 2023, arXiv:2211.05006) is optimal up to lower-order terms. Denisov,
McMahan, Rush, Smith and Thakurta (2022, arXiv:2202.08312) optimise B and C numerically; Kalinin and Lampert (2024,
arXiv:2405.13763) restrict the square root to a band, which makes a step cheap and several participations of an example
affordable (Choquette-Choo et al. 2023, arXiv:2306.08153).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpnotes.core import Price, Request
from dpnotes.guarantees import FRESH, Noise, Sampling
from dpnotes.privacy import tree
from dpnotes.privacy.mechanisms import rounded_to_grid
from dpnotes.privacy.sums import SumMechanism, SumState, check_shared
from dpnotes.random.streams import Streams
from dpnotes.util import checks, validate
from dpnotes.util.validate import AtLeastOne, checked

Scheme = Literal["terms", "sums", "tree", "optimal tree", "square root"]
SCHEMES: tuple[Scheme, ...] = ("terms", "sums", "tree", "optimal tree", "square root")


def square_root_coefficients(num: int) -> NDArray[np.float64]:
    """The first column of the square root of the lower triangle of ones: `binomial(2k, k) / 4^k`.

    Example:
      >>> square_root_coefficients(4)
      array([1.    , 0.5   , 0.375 , 0.3125])
    """
    validate.at_least(1, num=num)
    k = np.arange(1, num)
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


@dataclass(frozen=True)
class BandedSquareRoot(SumMechanism):
    """The mechanism whose running sums have the noise of the banded square root factorisation.

    The noise y of the terms solves `C y = z`, with C the lower-triangular Toeplitz matrix of the first `bandwidth`
    coefficients of the square root of A: `y_t = z_t - sum_{k=1}^{p-1} c_k y_{t-k}`. A step draws one Gaussian vector
    and combines it with `bandwidth - 1` earlier noises, which are kept. `bandwidth = max_leaves` gives the square root
    itself; `bandwidth = 1` gives independent noise.

    Formal guarantees:
      As `Tree`: a release reveals the t-th row of `C x + z`. FRESH: the price of a term is proportional to the squared
      norm of its column of C, cut off at `max_leaves`; WHOLE: to its row's squared weighted sum of sensitivities.

    Args:
      max_leaves: T, the length of the longest sum, at least 1. Public.
      bandwidth: p, from 1 to `max_leaves`.
      purpose: names the noise stream; two mechanisms of one run need two purposes.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> float(BandedSquareRoot(max_leaves=4, bandwidth=2).max_cost(1.0))  # half of 1 + 1/4
      0.625
    """

    max_leaves: int
    bandwidth: int
    purpose: str = "square root mechanism"
    noise: ClassVar[Noise] = "gaussian"

    def __post_init__(self) -> None:
        validate.at_least(1, bandwidth=self.bandwidth)
        validate.at_least(self.bandwidth, max_leaves=self.max_leaves)

    def init(self, x: Tensor) -> SumState:
        """The state before the first term, for answers shaped like `x` `(runs, dim)`; the newest noise is first."""
        return SumState.start(x, [torch.zeros(x.shape, dtype=torch.float64, device=x.device)] * (self.bandwidth - 1))

    def release(self, state: SumState, request: Request, streams: Streams) -> tuple[SumState, Tensor, Price]:
        """Release the next term of the active runs; as `Tree.release`."""
        term = self.accept(state, request, streams)
        value, leaf, active = request.answer.value, term.leaf, term.active
        past = state.layers
        drawn = streams.normal(self.purpose, request.call, value.shape[1])
        noise = drawn.mul_(term.noise_std[:, None])
        for k, (coefficient, old) in enumerate(zip(self._coefficients()[1:], past, strict=True), start=1):
            old = old if checks.known_empty(leaf <= k) else torch.where((leaf > k)[:, None], old, 0.0)
            noise.sub_(old * float(coefficient))  # not fused, since the bits of a fused operation depend on the device
        released = rounded_to_grid(noise, value, term.noise_std) if streams.secret else noise + value
        released = released.to(value.dtype).masked_fill_(~active[:, None], 0)
        shifted = [noise, *past][: len(past)]
        reach = torch.cat([1 / term.multiplier[:, None], state.reach], dim=1)[:, : len(past)]
        if not checks.known_empty(~active):
            shifted = [torch.where(active[:, None], new, old) for new, old in zip(shifted, past, strict=True)]
        return state.after(term, request, active, reach, shifted), released, term.price

    def max_cost(self, noise_multiplier: float) -> float:
        """The largest zCDP that an example pays, that of the first term, when every example is in one term.

        Example:
          >>> round(BandedSquareRoot(1000, 1000).max_cost(1.0), 3)
          1.633
        """
        validate.between(1e-150, 1e150, noise_multiplier=noise_multiplier)  # outside, its square is 0 or infinite
        return 0.5 * float(np.sum(self._coefficients() ** 2)) / noise_multiplier**2

    def _coefficients(self) -> NDArray[np.float64]:
        return _cached_coefficients(self.bandwidth)

    def _effective(self, state: SumState, leaf: Tensor, multiplier: Tensor, sampling: Sampling) -> Tensor:
        """The noise multiplier of a single Gaussian release with the same cost, `(runs,)`."""
        coefficients = _coefficients_on(self.bandwidth, multiplier.device)
        if sampling == FRESH:
            seen = (self.max_leaves - leaf).clamp(0, self.bandwidth - 1)
            return multiplier / (coefficients**2).cumsum(0)[seen].sqrt()
        check_shared(type(self).__name__, sampling)
        lag = torch.arange(1, self.bandwidth, device=multiplier.device)
        seen = torch.where(lag < leaf[:, None], coefficients[1:] * state.reach, 0.0).sum(1)
        return 1 / (1 / multiplier + seen)


@lru_cache(maxsize=16)
def _cached_coefficients(num: int) -> NDArray[np.float64]:
    coefficients = square_root_coefficients(num)
    coefficients.setflags(write=False)
    return coefficients


@lru_cache(maxsize=16)
def _coefficients_on(num: int, device: torch.device) -> Tensor:
    return torch.tensor(_cached_coefficients(num), device=device)


@checked
def noise_of_sums(scheme: Scheme, num_steps: AtLeastOne) -> NDArray[np.float64]:
    """The noise of each running sum if the total cost is that of one Gaussian release with multiplier 1.

    It is a standard deviation in units of a term's sensitivity, for examples in one term each. The closed form allows
    a million steps.

    Args:
      scheme: "terms" (C = I), "sums" (C = A), "tree", "optimal tree" (Honaker's combination), or "square root".
      num_steps: T, at least 1.

    Returns:
      `(num_steps,)`: the norms of the rows of B times the largest column norm of C.

    Example:
      >>> noise_of_sums("tree", 4).round(3)
      array([1.732, 1.732, 2.449, 1.732])
    """
    t = np.arange(1, num_steps + 1)
    if scheme == "terms":
        return np.sqrt(t)
    if scheme == "sums":
        return np.full(num_steps, np.sqrt(num_steps))
    if scheme == "square root":
        coefficients = square_root_coefficients(num_steps)  # of both factors
        return np.sqrt(np.cumsum(coefficients**2) * np.sum(coefficients**2))
    levels = int(num_steps).bit_length()
    optimal = scheme == "optimal tree"
    variance = np.zeros(num_steps)
    for level in range(levels):
        share = 2.0**level / (2.0 ** (level + 1) - 1) if optimal else 1.0
        variance += ((t >> level) & 1) * share
    return np.sqrt(variance * tree._largest_touch(num_steps, optimal))
