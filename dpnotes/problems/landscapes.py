"""Deterministic functions whose gradients, Hessians and constants are known exactly.

On a landscape every quantity of a theorem is known: its constants are proved, and the exact Hessian tells whether a
point is second-order stationary. `dpnotes.problems.separable` and `dpnotes.problems.saddles` define landscapes,
`dpnotes.problems.virtual` draws data around them.
"""
# ruff: noqa: D102 (what a protocol's methods do stands in the docstring of its class)

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dpnotes.core import Constant
from dpnotes.util import validate


@dataclass(frozen=True, eq=False)
class Saddle:
    """A strict saddle: a critical point whose Hessian has the eigenvalue `-gamma < 0`, the smallest.

    Args:
      point: `(dim,)` float64.
      direction: `(dim,)` float64, the escape direction: a unit eigenvector of `-gamma`.
      gamma: the escape curvature, > 0, in units of loss over squared length.
    """

    point: Tensor
    direction: Tensor
    gamma: float

    def __post_init__(self) -> None:
        validate.positive(gamma=self.gamma)


class Landscape(Protocol):
    """A function F of `dim` numbers. Points are `(..., dim)`, float32 or float64, on any device.

    `value` and `smallest_eigenvalue` (of the Hessian, exact) are `(...)`, `gradient` and `hessian_vector` are
    `(..., dim)`, `hessian` is dense, `(..., dim, dim)`. `constants` hold everywhere: "smoothness" and
    "hessian_lipschitz" (in the spectral norm); a missing constant does not exist or is not known. `saddle` is one of
    the strict saddles.
    """

    @property
    def dim(self) -> int: ...
    @property
    def constants(self) -> dict[str, Constant]: ...
    @property
    def saddle(self) -> Saddle: ...
    def value(self, x: Tensor) -> Tensor: ...
    def gradient(self, x: Tensor) -> Tensor: ...
    def hessian(self, x: Tensor) -> Tensor: ...
    def hessian_vector(self, x: Tensor, v: Tensor) -> Tensor: ...
    def smallest_eigenvalue(self, x: Tensor) -> Tensor: ...


def check_points(x: Tensor, dim: int) -> None:
    """Raise an error unless `x` has shape `(..., dim)`.

    Example:
      >>> check_points(torch.zeros(4, 3), dim=2)
      Traceback (most recent call last):
      ValueError: Expected x.shape=(4, 3) to be (..., 2).
    """
    if x.dim() == 0 or x.shape[-1] != dim:
        raise ValueError(f"Expected x.shape={tuple(x.shape)} to be (..., {dim}).")


@dataclass(frozen=True, eq=False)
class Reflected:
    """A reflected landscape: `G(x) = F(Q x)` with `Q = I - 2 n n'`, so that a diagonal Hessian becomes dense.

    A reflection keeps lengths and the origin, so all constants and eigenvalues are those of F, and each gradient costs
    two additional reflections of `dim` numbers.

    Args:
      landscape: F.
      normal: `(dim,)`, not 0, of any length; if it has the device and the type of the points, no copy is made.

    Raises:
      ValueError: for a normal that is 0 or not finite.

    Example:
      >>> from dpnotes.problems.separable import DoubleWell, Parabola, Separable
      >>> dense = Reflected(Separable([(DoubleWell(0.5), 1), (Parabola(1.0), 1)]), torch.tensor([1.0, 2.0]))
      >>> dense.hessian(torch.zeros(2)), dense.smallest_eigenvalue(torch.zeros(2))
      (tensor([[0.4600, 0.7200],
              [0.7200, 0.0400]]), tensor(-0.5000))
    """

    landscape: Landscape
    normal: Tensor

    def __post_init__(self) -> None:
        length = float(torch.linalg.vector_norm(self.normal))
        validate.positive(length_of_normal=length)
        object.__setattr__(self, "normal", self.normal / length)

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return self.landscape.dim

    @property
    def constants(self) -> dict[str, Constant]:
        """The constants of the original landscape."""
        return self.landscape.constants

    @property
    def saddle(self) -> Saddle:
        """The reflected saddle of the original landscape."""
        saddle = self.landscape.saddle
        return Saddle(self._reflect(saddle.point), self._reflect(saddle.direction), saddle.gamma)

    def value(self, x: Tensor) -> Tensor:
        """The value `F(Q x)`, `(...)`."""
        return self.landscape.value(self._reflect(x))

    def gradient(self, x: Tensor) -> Tensor:
        """The gradient `Q grad F(Q x)`, `(..., dim)`."""
        return self._reflect(self.landscape.gradient(self._reflect(x)))

    def hessian(self, x: Tensor) -> Tensor:
        """The Hessian `Q hess F(Q x) Q`, `(..., dim, dim)`."""
        return self._reflect(self._reflect(self.landscape.hessian(self._reflect(x))).mT)

    def hessian_vector(self, x: Tensor, v: Tensor) -> Tensor:
        """The Hessian times `v`, `(..., dim)`."""
        return self._reflect(self.landscape.hessian_vector(self._reflect(x), self._reflect(v)))

    def smallest_eigenvalue(self, x: Tensor) -> Tensor:
        """The smallest Hessian eigenvalue of F at `Q x`, `(...)`."""
        return self.landscape.smallest_eigenvalue(self._reflect(x))

    def _reflect(self, x: Tensor) -> Tensor:
        check_points(x, self.dim)
        normal = self.normal.to(x)
        return x - (2 * (x @ normal))[..., None] * normal
