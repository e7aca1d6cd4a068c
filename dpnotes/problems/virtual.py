"""Virtual data: examples for which the mean over a fresh batch of any size is drawn exactly.

An example is `f(x; z) = F(x) + sum_k z_k h_k(x_k)` with independent standard normal `z_k`, and the mean of b of them is
the same function with `z_k` of variance `1 / b`. So a data set of 10^14 examples costs one draw of `dim` numbers a
batch, the noise of a gradient is known in closed form, and F tells whether a point is stationary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from dpnotes.problems.landscapes import Landscape
from dpnotes.problems.separable import Separable
from dpnotes.random.streams import Streams
from dpnotes.util import checks, validate


@dataclass(frozen=True, eq=False)
class FreshBatch:
    """A batch of fresh examples for each run, whose mean gradient can be evaluated at any number of points.

    Differences of its gradients at two points are SPIDER's, since both gradients use the same examples.

    Args:
      data: the population that it was drawn from.
      size: `(runs,)` float64, examples in the batch.
      mean: `(runs, dim)` float64, the mean of the examples' z.
    """

    data: "VirtualData"
    size: Tensor
    mean: Tensor

    def gradient(self, x: Tensor) -> Tensor:
        """The mean gradient over the batch at `x` `(runs, dim)`, `(runs, dim)`."""
        if x.shape != self.mean.shape:
            raise ValueError(f"Expected x.shape={tuple(x.shape)} to be (runs, dim) = {tuple(self.mean.shape)}.")
        return torch.addcmul(self.data.landscape.gradient(x), self.mean.to(x), self.data.features.gradient(x))


@dataclass(frozen=True, eq=False)
class VirtualData:
    """A population of examples `f(x; z) = F(x) + sum_k z_k h_k(x_k)`, `z_k` independent standard normal.

    The features determine the noise of a gradient, at the cost of one more evaluation of their derivatives:
      * `Linear(s)`: Gaussian noise of standard deviation s in each coordinate, everywhere;
      * `Sine(a, w)`: noise of at most `a w`, which changes by at most `a w^2` times the distance, so that SPIDER helps;
      * `Parabola(c)`: noise of `c` times the coordinate, so none at the origin: from a saddle there of curvature
        `-gamma`, descent with step size `eta` and batches of `b` escapes only if about `eta c^2 < 2 b gamma`.

    Args:
      landscape: the mean function F.
      features: the terms `h_k`, as many as coordinates; `Linear(0.0)` for a coordinate without noise.

    Raises:
      ValueError: if the two have different numbers of coordinates.

    Example:
      >>> from dpnotes.problems.separable import DoubleWell, Linear
      >>> data = VirtualData(Separable([(DoubleWell(1.0), 3)]), Separable([(Linear(0.5), 3)]))
      >>> streams = Streams.of("example", ["run 0", "run 1"])
      >>> one, many = (data.fresh(size, streams, "descent", call) for call, size in enumerate((1, 1e14)))
      >>> x, y = torch.zeros(2, 3), torch.ones(2, 3)  # a saddle and a minimum, where F has no slope
      >>> one.gradient(x).norm() > 0.1, many.gradient(x).norm() < 1e-6, data.variance(x)
      (tensor(True), tensor(True), tensor([0.7500, 0.7500]))
      >>> (one.gradient(x) - one.gradient(y)).norm() < 1e-6  # additive noise cancels in SPIDER's differences
      tensor(True)
    """

    landscape: Landscape
    features: Separable

    def __post_init__(self) -> None:
        if self.features.dim != self.landscape.dim:
            raise ValueError(f"Expected features.dim={self.features.dim} to be landscape.dim={self.landscape.dim}.")

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return self.landscape.dim

    def variance(self, x: Tensor) -> Tensor:
        """The variance `E |grad f(x; z) - grad F(x)|^2 = sum_k h_k'(x_k)^2` of one example, `(...)`."""
        return self.features.gradient(x).square().sum(-1)

    def fresh(self, batch_size: float | Tensor, streams: Streams, purpose: str, call: int | Tensor) -> FreshBatch:
        """A batch that shares no example with a batch of another purpose or call: `dim` normal draws for each run.

        The same arguments give the same batch again, whose examples are then used twice (with secret streams they raise
        an error): keep the `FreshBatch` to evaluate several points, and count calls (and the examples used so far) in
        state that is never rolled back.

        Args:
          batch_size: whole numbers from 1 to 1e18, one for all runs or `(runs,)`; floats are accepted.
          streams: the runs' streams, on the device of the points.
          purpose: the name of the use of the batch.
          call: the number of the batch, one for all runs or `(runs,)`, from 0 to 2^32 - 1.

        Raises:
          ValueError: for other batch sizes or calls.
        """
        if not isinstance(batch_size, Tensor):
            validate.real(batch_size=batch_size)
        like = torch.empty((), dtype=torch.float64, device=streams.keys.device)
        size = batch_size.to(like) if isinstance(batch_size, Tensor) else torch.full_like(like, float(batch_size))
        if size.dim() > 1 or size.numel() not in (1, len(streams)):
            raise ValueError(f"Expected batch_size.shape={tuple(size.shape)} to be () or ({len(streams)},).")
        checks.require(
            (size >= 1) & (size <= 1e18) & (size == size.floor()),
            lambda: ValueError(f"Expected batch_size={batch_size} to be whole numbers from 1 to 1e18."),
        )
        size = size.expand(len(streams))
        return FreshBatch(self, size, streams.normal(purpose, call, self.dim) / size.sqrt()[:, None])

    def take(self, index: Tensor | slice) -> "VirtualData":
        """Return this problem: all runs draw from one population."""
        return self
