"""Exact noise for small releases: OpenDP's discrete Gaussian on a grid, without floating-point leaks.

`Gaussian` adds a floating-point number, and the set of possible sums depends on the exact answer. This mechanism rounds
the answer to a grid and adds a whole number of grid steps, drawn with exact arithmetic from the operating system's
randomness (Canonne, Kamath and Steinke 2020, "The discrete Gaussian for differential privacy", arXiv:2004.00010v6,
implemented by OpenDP, https://opendp.org). A number takes about 15 microseconds, so use it for a table, a score or a
last iterate, not for training. It needs the extra `exact`: `pip install 'dpnotes[exact]'`.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpnotes.core import Price, Request
from dpnotes.guarantees import WHOLE, Sampling
from dpnotes.privacy.mechanisms import check_release, price_of
from dpnotes.random.streams import Streams
from dpnotes.util import validate

_LARGEST = 2.0**62  # the largest answer in grid steps: noise is added to it in 64 bits


@dataclass(frozen=True)
class DiscreteGaussian:
    """A mechanism that rounds the answer to multiples of `grid`, and adds an exact discrete Gaussian on that grid.

    The released value is a multiple of `grid`. There is no seed: two releases never draw the same noise, and no run can
    be repeated (`streams` only gives the device of the answer).

    Formal guarantees:
      Rounding to the nearest multiple moves each coordinate by at most half a step, so the answers of neighbours are at
      most `D + grid sqrt(dim)` apart afterwards, where D is the answer's sensitivity, and equal answers stay equal. The
      noise is increased in proportion, and the release costs `(D / s)^2 / 2` in zCDP with s the requested standard
      deviation (Theorem 4 of Canonne, Kamath and Steinke). Only zCDP holds: on a coarse grid the true epsilon is larger
      than that of continuous noise, so the price has the noise "zcdp" and is converted as such. The answer itself is
      computed in floating point: its sensitivity is that of exact arithmetic.

      An answer further from 0 than 2^62 steps is clamped to that distance (which moves no two answers apart), and
      one that is not a number (NaN) is released as 0: an error would depend on the data. A sensitivity that was
      declared for such an answer does not hold, and no mechanism can repair that.

    Args:
      grid: 2^-k for a whole number k, so that rounding is exact.

    Raises:
      ValueError: if `grid` is not a power of two.
      ModuleNotFoundError: if OpenDP is not installed, at the first release.
    """

    grid: float = 2.0**-20

    def __post_init__(self) -> None:
        validate.positive(grid=self.grid)
        if math.frexp(self.grid)[0] != 0.5:
            raise ValueError(f"Expected grid={self.grid!r} to be a power of two.")

    def init(self, x: Tensor) -> Tensor:
        """The empty state of a mechanism without memory, a `(runs, 0)` tensor."""
        return x.new_zeros(len(x), 0)

    def cost(
        self, state: Tensor, noise_multiplier: Tensor, sampling: Sampling = WHOLE, restart: Tensor | None = None
    ) -> Tensor:
        """The zCDP of one release, `(runs,)`."""
        return 0.5 / noise_multiplier.double() ** 2

    def release(self, state: Tensor, request: Request, streams: Streams) -> tuple[Tensor, Tensor, Price]:
        """Release the answer of the active runs.

        Raises:
          CombinationError: if the answer's sampling is a random batch: no accountant knows this noise on one.
          ValueError: as `Gaussian.release`.
        """
        valid = check_release(request, streams, "zcdp")
        value = request.answer.value.detach().double()
        steps = (value / self.grid).round().nan_to_num(nan=0.0).clamp(-_LARGEST, _LARGEST)
        rounding = self.grid * math.sqrt(value.shape[1])
        released = torch.zeros_like(value)
        for run in valid.nonzero()[:, 0].tolist():
            sensitivity = float(request.answer.l2_sensitivity[run])
            wider = (sensitivity + rounding) / sensitivity if sensitivity > 0 else 1.0
            scale = float(request.noise_std[run]) * wider / self.grid
            noisy = _measurement(scale)([int(step) for step in steps[run].tolist()])
            released[run] = torch.tensor(noisy, dtype=torch.float64) * self.grid
        return state, released.to(request.answer.value.dtype), price_of(request, "zcdp")


def _measurement(scale: float) -> Any:
    """The discrete Gaussian of OpenDP on vectors of integers, with `scale` in grid steps."""
    try:
        from opendp.domains import atom_domain, vector_domain  # type: ignore
        from opendp.measurements import make_gaussian  # type: ignore
        from opendp.metrics import l2_distance  # type: ignore
        from opendp.mod import enable_features  # type: ignore
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("Expected OpenDP to be installed: pip install 'dpnotes[exact]'.") from error
    enable_features("contrib")
    return make_gaussian(vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale=scale)
