"""Strict saddles that are not separable: the monkey saddle and phase retrieval.

They grow like fourth powers, so neither their gradients nor their Hessians have a Lipschitz constant.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dpnotes.core import Constant
from dpnotes.problems.landscapes import Saddle, check_points
from dpnotes.util.validate import NonNegative, Positive, checked


@checked
@dataclass(frozen=True)
class MonkeySaddle:
    """The landscape `F(x, y) = cubic (x^3 - 3 x y^2) + quartic (x^2 + y^2)^2 / 4 - tilt (x^2 + y^2) / 2`.

    With `tilt = 0` the origin is the monkey saddle: gradient and Hessian vanish, so it counts as second-order
    stationary at any accuracy, and no guarantee says that a method leaves it. The tilt makes it a hill of curvature
    `-tilt`. Around it stand, 60 degrees apart, three minima and three strict saddles, at the positive roots of
    `quartic r^2 -+ 3 cubic r = tilt`.

    Args:
      cubic: > 0.
      quartic: > 0; it bounds F below.
      tilt: >= 0.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> monkey = MonkeySaddle(tilt=0.5)
      >>> monkey.saddle.point, round(monkey.saddle.gamma, 4)
      (tensor([0.1583, 0.0000], dtype=torch.float64), 1.4248)
      >>> monkey.smallest_eigenvalue(monkey.saddle.point)
      tensor(-1.4248, dtype=torch.float64)
    """

    cubic: Positive = 1.0
    quartic: Positive = 1.0
    tilt: NonNegative = 0.0

    @property
    def dim(self) -> int:
        """The number of coordinates, 2."""
        return 2

    @property
    def _root(self) -> float:
        return math.sqrt(9 * self.cubic**2 + 4 * self.quartic * self.tilt)

    @property
    def constants(self) -> dict[str, Constant]:
        """None: the landscape grows like a fourth power."""
        return {}

    @property
    def saddle(self) -> Saddle:
        """The strict saddle on the positive x axis; the escape direction is y.

        Raises:
          ValueError: without a tilt: the monkey saddle is not strict.
        """
        if not self.tilt:
            raise ValueError("Expected tilt=0.0 > 0: the monkey saddle itself is not strict.")
        # The root of quartic r^2 + 3 cubic r = tilt, without cancellation.
        r = 2 * self.tilt / (3 * self.cubic + self._root)
        point, direction = torch.tensor([[r, 0], [0, 1]], dtype=torch.float64)
        return Saddle(point, direction, 9 * self.cubic * r)

    def value(self, x: Tensor) -> Tensor:
        """The value `F(x)`, `(...)`."""
        x, y, square = self._coordinates(x)
        return self.cubic * x * (x * x - 3 * y * y) + square * (self.quartic * square / 4 - self.tilt / 2)

    def gradient(self, x: Tensor) -> Tensor:
        """The gradient, `(..., 2)`."""
        x, y, square = self._coordinates(x)
        radial = self.quartic * square - self.tilt
        cubic = 3 * self.cubic * torch.stack([x * x - y * y, -2 * x * y], -1)
        return cubic + radial[..., None] * torch.stack([x, y], -1)

    def hessian(self, x: Tensor) -> Tensor:
        """The dense Hessian, `(..., 2, 2)`."""
        centre, even, odd = self._entries(x)
        return torch.stack([centre + even, odd, odd, centre - even], -1).unflatten(-1, (2, 2))

    def hessian_vector(self, x: Tensor, v: Tensor) -> Tensor:
        """The Hessian times `v`, `(..., 2)`."""
        return (self.hessian(x) @ v[..., None])[..., 0]

    def smallest_eigenvalue(self, x: Tensor) -> Tensor:
        """The smallest eigenvalue of the Hessian in closed form, `(...)`."""
        centre, even, odd = self._entries(x)
        return centre - torch.hypot(even, odd)

    def _entries(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The numbers `centre`, `even` and `odd` of the Hessian `[[centre + even, odd], [odd, centre - even]]`."""
        x, y, square = self._coordinates(x)
        even = 6 * self.cubic * x + self.quartic * (x * x - y * y)
        return 2 * self.quartic * square - self.tilt, even, 2 * y * (self.quartic * x - 3 * self.cubic)

    def _coordinates(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        check_points(x, 2)
        x, y = x.unbind(-1)
        return x, y, x * x + y * y


@dataclass(frozen=True, eq=False)
class PopulationSensing:
    """The landscape `F(U) = E (|U'a|^2 - |S'a|^2)^2 / 4` over standard normal `a`, of quadratic measurements of S.

    With one column this is phase retrieval of a real signal, whose sign is lost (Sun, Qu and Wright 2016,
    arXiv:1602.06664, where every local minimum is shown to be global); with more, quadratic sensing (Li, Ma, Chen and
    Chi 2018, arXiv:1802.06286). By Isserlis' theorem F equals `|D|^2 / 2 + (tr D)^2 / 4` in the Frobenius norm, with
    `D = U U' - S S'`. `dpnotes.problems.sensing.QuadraticSensing` is its mean over finitely many examples. Points are
    U, flat and by rows. With `m` rows and `r` columns a gradient or a product with the Hessian costs `O(m r^2)`
    operations.

    Args:
      signal: `(m, r)`, S; if it has the device and the type of the points, no copy is made.

    Example:
      >>> landscape = PopulationSensing(torch.tensor([[2.0], [0.0], [0.0]]))
      >>> landscape.value(torch.tensor([[-2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
      tensor([ 0., 12.])
    """

    signal: Tensor

    @property
    def rank(self) -> int:
        """The number of columns of U."""
        return self.signal.shape[1]

    @property
    def dim(self) -> int:
        """The number of entries of U."""
        return self.signal.numel()

    def value(self, x: Tensor) -> Tensor:
        """The value `F(U)`, `(...)`."""
        u, signal = self._matrices(x)
        # 2 D = A B' + B A' with A = U - S and B = U + S: a form that neither cancels near S nor needs m^2 entries.
        a, b = u - signal, u + signal
        own, cross = (a.mT @ a) * (b.mT @ b), a.mT @ b
        trace = cross.diagonal(dim1=-2, dim2=-1).sum(-1)
        return (own + cross * cross.mT).sum((-2, -1)) / 4 + trace.square() / 4

    def gradient(self, x: Tensor) -> Tensor:
        """The gradient `(2 D + tr(D) I) U`, `(..., dim)`."""
        u, signal = self._matrices(x)
        return self._apply(u, signal, u).flatten(-2)

    def hessian_vector(self, x: Tensor, v: Tensor) -> Tensor:
        """The Hessian times `v`, `2 (U V' + V U') U + 2 <U, V> U + (2 D + tr(D) I) V`, `(..., dim)`."""
        u, signal = self._matrices(x)
        v, _ = self._matrices(v)
        inner = (u * v).sum((-2, -1), keepdim=True)
        return (2 * (u @ (v.mT @ u) + v @ (u.mT @ u) + inner * u) + self._apply(u, signal, v)).flatten(-2)

    def _matrices(self, x: Tensor) -> tuple[Tensor, Tensor]:
        check_points(x, self.dim)
        return x.unflatten(-1, (-1, self.rank)), self.signal.to(x)

    def _apply(self, u: Tensor, signal: Tensor, v: Tensor) -> Tensor:
        """Return `(2 D + tr(D) I) v`."""
        a, b = u - signal, u + signal
        return a @ (b.mT @ v) + b @ (a.mT @ v) + (a * b).sum((-2, -1), keepdim=True) * v
