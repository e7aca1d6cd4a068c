"""Mechanisms: the only code that opens a `Sensitive`."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dpnotes.core import Price, Release
from dpnotes.streams import Streams


@dataclass(frozen=True)
class Gaussian:
    """Adds independent Gaussian noise to every release.

    Formal guarantees:
      A release with standard deviation `s` of an answer of L2 sensitivity `D` is `(D / s)^2 / 2`-zCDP (Bun and
      Steinke 2016, arXiv:1605.02065v1, Proposition 1.6). What is not charged is not released: the rows of runs that
      are not active come back as zeros.

    Args:
      purpose: names the noise stream; two mechanisms of one run need two purposes.
    """

    purpose: str = "gaussian mechanism"

    def init(self, x: Tensor) -> Tensor:
        """Independent noise has no memory: an empty `(runs, 0)` tensor."""
        return x.new_zeros(len(x), 0)

    def cost(self, noise_multiplier: Tensor) -> Tensor:
        """The zCDP of one release, `(runs,)`."""
        return 0.5 / noise_multiplier.double() ** 2

    def release(self, state: Tensor, request: Release, streams: Streams) -> tuple[Tensor, Tensor, Price]:
        """Release the answer of the active runs.

        Returns:
          The state as it was, the noisy answer `(runs, dim)` and its price.

        Raises:
          ValueError: if an active run's noise is not positive and finite, or its sensitivity is negative, infinite
            or NaN. A release without noise is asked for by name, with `Exact`.
        """
        _check(request)
        value = request.answer.value
        noise = streams.normal(self.purpose, request.call, value.shape[1])
        # In float64, and rounded to the answer's type only after the noise is on it: see `Streams.normal`.
        noisy = noise.mul_(request.noise_std[:, None].double()).add_(value).to(value.dtype)
        price = Price(request.noise_std / request.answer.l2_sensitivity, request.active, request.answer.relation)
        return state, noisy.masked_fill_(~request.active[:, None], 0), price


@dataclass(frozen=True)
class Exact:
    """Adds no noise and guarantees nothing: its price is infinite. For tests and for non-private baselines."""

    def init(self, x: Tensor) -> Tensor:
        """No memory: an empty `(runs, 0)` tensor."""
        return x.new_zeros(len(x), 0)

    def cost(self, noise_multiplier: Tensor) -> Tensor:
        """Infinite, `(runs,)`: no finite budget affords a release without noise."""
        return torch.full_like(noise_multiplier, torch.inf, dtype=torch.float64)

    def release(self, state: Tensor, request: Release, streams: Streams) -> tuple[Tensor, Tensor, Price]:
        """The answers of the active runs themselves, whatever noise is asked for, at a noise multiplier of 0."""
        price = Price(torch.zeros_like(request.noise_std), request.active, request.answer.relation)
        return state, request.answer.value.masked_fill(~request.active[:, None], 0), price


def _check(request: Release) -> None:
    noise_std, l2_sensitivity = request.noise_std, request.answer.l2_sensitivity
    valid = (noise_std > 0) & noise_std.isfinite() & (l2_sensitivity >= 0) & l2_sensitivity.isfinite()
    if bool((request.active & ~valid).any()):
        run = int((request.active & ~valid).nonzero()[0])
        raise ValueError(
            f"Expected 0 < noise_std={noise_std[run].item()} < inf and 0 <= l2_sensitivity="
            f"{l2_sensitivity[run].item()} < inf in run {run}; a release without noise is asked for with Exact()."
        )
