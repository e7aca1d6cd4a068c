"""Strict saddles that are not separable: the monkey saddle and phase retrieval.

They grow like fourth powers, so smoothness and the Hessian's Lipschitz constant exist only within a radius, where both
suprema are attained at a point that the proof names.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dpnotes.core import Constant
from dpnotes.problems.examples import check_finite
from dpnotes.problems.landscapes import Saddle, check_points, hessian_by_columns
from dpnotes.util import validate
from dpnotes.util.validate import NonNegative, Positive, checked


def _within(
    everywhere: dict[str, Constant], radius: float, smoothness: float, hessian_lipschitz: float, where: str
) -> dict[str, Constant]:
    where = f"{where}; attained, within {radius:g} of the origin"
    return everywhere | {
        "smoothness": Constant(smoothness, "proved", where),
        "hessian_lipschitz": Constant(hessian_lipschitz, "proved", where),
    }


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
        """The minimum; it is attained where `x^3 - 3 x y^2 = -r^3`, at the larger of the two radii."""
        r = (3 * self.cubic + self._root) / (2 * self.quartic)
        value = -self.cubic * r**3 + self.quartic * r**4 / 4 - self.tilt * r**2 / 2
        return {"minimum": Constant(value, "proved", "the least of the critical values, in polar coordinates")}

    def constants_within(self, radius: float) -> dict[str, Constant]:
        """The smoothness and the Hessian's Lipschitz constant, both attained on the positive x axis.

        Proof: at distance r the cubic part's Hessian has the eigenvalues `+-6 cubic r`, the quartic's `quartic r^2`
        and `3 quartic r^2`; the sums of the largest and of the smallest eigenvalues bound those of F, and on the
        positive x axis the eigenvectors agree. The third derivatives have the norms `6 cubic` and `6 quartic r`,
        attained along x at `(r, 0)`.
        """
        validate.positive(radius=radius)
        a, b = self.cubic, self.quartic
        turn = min(radius, 3 * a / b)  # where the smallest eigenvalue, -tilt - 6 a r + b r^2, is least
        largest = 6 * a * radius + 3 * b * radius**2 - self.tilt
        smallest = -self.tilt - 6 * a * turn + b * turn**2
        where = "eigenvalues in polar coordinates"
        return _within(self.constants, radius, max(largest, -smallest), 6 * a + 6 * b * radius, where)

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
        return hessian_by_columns(self, x)

    def hessian_vector(self, x: Tensor, v: Tensor) -> Tensor:
        """The Hessian times `v`, `(..., 2)`."""
        centre, even, odd = self._entries(x)
        return torch.stack(
            [(centre + even) * v[..., 0] + odd * v[..., 1], odd * v[..., 0] + (centre - even) * v[..., 1]], -1
        )

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
    operations, the smallest eigenvalue as much for `r = 1` and one of a dense `(m r, m r)` matrix otherwise.

    Args:
      signal: `(m, r)`, S, not 0; if it has the device and the type of the points, no copy is made.

    Raises:
      ValueError: if the signal is not a finite matrix with `m >= r` and `m >= 2`, or is 0.

    Example:
      >>> landscape = PopulationSensing(torch.tensor([[2.0], [0.0], [0.0]]))
      >>> landscape.value(torch.tensor([[-2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
      tensor([ 0., 12.])
      >>> landscape.smallest_eigenvalue(torch.zeros(3)), landscape.saddle.gamma
      (tensor(-12.), 12.0)
    """

    signal: Tensor
    _eigenvalues: Tensor = field(init=False, repr=False)  # of S S' in the span of S, ascending, float64
    _vector: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        shape = tuple(self.signal.shape)
        if len(shape) != 2 or not self.signal.is_floating_point() or not self.signal.numel():
            raise ValueError(f"Expected signal, {self.signal.dtype} of shape {shape}, to be a real matrix.")
        check_finite(signal=self.signal)
        rows, columns = self.signal.shape
        if rows < max(2, columns):
            raise ValueError(f"Expected signal.shape={(rows, columns)} to have 2 rows, and as many rows as columns.")
        left, values, _ = torch.linalg.svd(self.signal.double(), full_matrices=False)
        validate.positive(norm_of_signal=float(values[0]))
        object.__setattr__(self, "_eigenvalues", values.square().flip(0))
        object.__setattr__(self, "_vector", left[:, 0])

    @property
    def rank(self) -> int:
        """The number of columns of U."""
        return self.signal.shape[1]

    @property
    def dim(self) -> int:
        """The number of entries of U."""
        return self.signal.numel()

    @property
    def constants(self) -> dict[str, Constant]:
        """The minimum, 0 at the signal."""
        return {"minimum": Constant(0.0, "proved", "a mean of squares, 0 at the signal")}

    def constants_within(self, radius: float) -> dict[str, Constant]:
        """The smoothness and the Hessian's Lipschitz constant, for U of Frobenius norm up to `radius`.

        Proof: `D^2 F[V, V] = |U V' + V U'|^2 + 2 <D, V V'> + 2 <U, V>^2 + tr(D) |V|^2` lies between
        `-2 l_max - tr S S'` (at U = 0) and `9 |U|^2 - 2 l_min - tr S S'`, and the third derivative,
        `12 <U, V V' V> + 6 <U, V> |V|^2`, is at most `18 |U|`; both upper bounds are attained where U and V are
        multiples of one matrix of rank one, whose column is an eigenvector of `l_min`.
        """
        validate.positive(radius=radius)
        low = 0.0 if self.signal.shape[0] > self.rank else float(self._eigenvalues[0])
        high, trace = float(self._eigenvalues[-1]), float(self._eigenvalues.sum())
        smoothness = max(9 * radius**2 - 2 * low - trace, 2 * high + trace)
        return _within(self.constants, radius, smoothness, 18 * radius, "second and third derivative")

    @property
    def saddle(self) -> Saddle:
        """The origin; the escape direction is the signal's first left singular vector, in the first column."""
        direction = torch.zeros(self.signal.shape, dtype=torch.float64, device=self.signal.device)
        direction[:, 0] = self._vector
        direction = direction.flatten()
        gamma = 2 * float(self._eigenvalues[-1]) + float(self._eigenvalues.sum())
        return Saddle(torch.zeros_like(direction), direction, gamma)

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

    def hessian(self, x: Tensor) -> Tensor:
        """The dense Hessian, `(..., dim, dim)`."""
        return hessian_by_columns(self, x)

    def hessian_vector(self, x: Tensor, v: Tensor) -> Tensor:
        """The Hessian times `v`, `2 (U V' + V U') U + 2 <U, V> U + (2 D + tr(D) I) V`, `(..., dim)`."""
        u, signal = self._matrices(x)
        v, _ = self._matrices(v)
        inner = (u * v).sum((-2, -1), keepdim=True)
        return (2 * (u @ (v.mT @ u) + v @ (u.mT @ u) + inner * u) + self._apply(u, signal, v)).flatten(-2)

    def smallest_eigenvalue(self, x: Tensor) -> Tensor:
        """The exact smallest eigenvalue of the Hessian, `(...)`; for one column from the span of point and signal."""
        if self.rank > 1:
            return torch.linalg.eigvalsh(self.hessian(x))[..., 0]
        u, signal = self._matrices(x)
        u, s = u[..., 0], signal[..., 0]
        # The Hessian is (3 |u|^2 - |s|^2) I + 6 u u' - 2 s s': the last two terms have trace p and, on the span of
        # u and s, the determinant -12 (|u|^2 |s|^2 - <u, s>^2), which is never positive, so the smaller root is the
        # smallest eigenvalue of all.
        square, length = u.square().sum(-1), s.square().sum()
        along = u @ (s / length.sqrt())
        across = (u - along[..., None] * (s / length.sqrt())).square().sum(-1)
        half = 3 * square - length
        return 3 * square - length + half - torch.sqrt(half.square() + 12 * across * length)

    def _matrices(self, x: Tensor) -> tuple[Tensor, Tensor]:
        check_points(x, self.dim)
        return x.unflatten(-1, (-1, self.rank)), self.signal.to(x)

    def _apply(self, u: Tensor, signal: Tensor, v: Tensor) -> Tensor:
        """Return `(2 D + tr(D) I) v`."""
        a, b = u - signal, u + signal
        return a @ (b.mT @ v) + b @ (a.mT @ v) + (a * b).sum((-2, -1), keepdim=True) * v
