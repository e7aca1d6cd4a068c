"""Strict saddles that are not separable: the monkey saddle, matrix factorisation, phase retrieval, linear networks.

They grow like fourth powers, so smoothness and the Hessian's Lipschitz constant exist within a radius only; there they
are suprema, attained at a point that the proof names.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dpnotes import validate
from dpnotes.core import Constant
from dpnotes.problems.landscapes import Saddle, check_points, hessian_by_columns


def _within(
    everywhere: dict[str, Constant], radius: float, smoothness: float, hessian_lipschitz: float, where: str
) -> dict[str, Constant]:
    where = f"{where}; attained, within {radius:g} of the origin"
    return everywhere | {
        "smoothness": Constant(smoothness, "proved", where),
        "hessian_lipschitz": Constant(hessian_lipschitz, "proved", where),
    }


def _check_matrix(**named: Tensor) -> None:
    for name, matrix in named.items():
        if matrix.dim() != 2 or not matrix.is_floating_point() or not matrix.numel():
            raise ValueError(f"Expected {name}, {matrix.dtype} of shape {tuple(matrix.shape)}, to be a real matrix.")
        if not bool(torch.isfinite(matrix).all()):
            raise ValueError(f"Expected {name} without NaN or infinite entries.")


@dataclass(frozen=True)
class MonkeySaddle:
    """`F(x, y) = cubic (x^3 - 3 x y^2) + quartic (x^2 + y^2)^2 / 4 - tilt (x^2 + y^2) / 2`, of two numbers.

    With `tilt = 0` the origin is the monkey saddle: gradient and Hessian vanish, so it passes as second-order
    stationary with any accuracy, and no guarantee says that it is left. The tilt makes it a hill of curvature `-tilt`.
    Around it stand, 60 degrees apart, three minima and three strict saddles, at the positive roots of
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

    cubic: float = 1.0
    quartic: float = 1.0
    tilt: float = 0.0

    def __post_init__(self) -> None:
        validate.positive(cubic=self.cubic, quartic=self.quartic)
        validate.non_negative(tilt=self.tilt)

    @property
    def dim(self) -> int:
        """Two."""
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
        """Smoothness and the Hessian's Lipschitz constant, both attained on the positive x axis.

        Proof: at distance r the cubic part's Hessian has the eigenvalues `+-6 cubic r`, the quartic's `quartic r^2`
        and `3 quartic r^2`; sums of largest and of smallest ones bound F's, and there the eigenvectors agree. The
        third derivatives have the norms `6 cubic` and `6 quartic r`, attained along x at `(r, 0)`.
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
        """`F(x)`, `(...)`."""
        x, y, square = self._coordinates(x)
        return self.cubic * x * (x * x - 3 * y * y) + square * (self.quartic * square / 4 - self.tilt / 2)

    def gradient(self, x: Tensor) -> Tensor:
        """`(..., 2)`."""
        x, y, square = self._coordinates(x)
        radial = self.quartic * square - self.tilt
        cubic = 3 * self.cubic * torch.stack([x * x - y * y, -2 * x * y], -1)
        return cubic + radial[..., None] * torch.stack([x, y], -1)

    def hessian(self, x: Tensor) -> Tensor:
        """Dense, `(..., 2, 2)`."""
        return hessian_by_columns(self, x)

    def hessian_vector(self, x: Tensor, v: Tensor) -> Tensor:
        """Hessian times `v`, `(..., 2)`."""
        centre, even, odd = self._entries(x)
        return torch.stack(
            [(centre + even) * v[..., 0] + odd * v[..., 1], odd * v[..., 0] + (centre - even) * v[..., 1]], -1
        )

    def smallest_eigenvalue(self, x: Tensor) -> Tensor:
        """Closed form, `(...)`."""
        centre, even, odd = self._entries(x)
        return centre - torch.hypot(even, odd)

    def _entries(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The Hessian is `[[centre + even, odd], [odd, centre - even]]`."""
        x, y, square = self._coordinates(x)
        even = 6 * self.cubic * x + self.quartic * (x * x - y * y)
        return 2 * self.quartic * square - self.tilt, even, 2 * y * (self.quartic * x - 3 * self.cubic)

    def _coordinates(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        check_points(x, 2)
        x, y = x.unbind(-1)
        return x, y, x * x + y * y


@dataclass(frozen=True, eq=False)
class MatrixFactorisation:
    """`F(U) = |U U' - target|^2 / 4` in the Frobenius norm, for matrices U of `rank` columns, flat and by rows.

    Every local minimum is global and every other critical point is a strict saddle: where U leaves out an eigenvector
    for one of a smaller eigenvalue, exchanging them goes down (Ge, Jin and Zheng 2017, arXiv:1704.00708v1, treat
    targets of this rank and noisy ones). A gradient costs two matrix products, `4 m^2 rank` operations; the dense
    Hessian holds `(m rank)^2` numbers.

    Args:
      target: `(m, m)`, symmetric and positive semidefinite, not 0; on the device and in the type of the points it
        costs no copy.
      rank: columns of U, from 1 to m.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> landscape = MatrixFactorisation(torch.diag(torch.tensor([2.0, 1.0, 0.5])), rank=2)
      >>> landscape.dim, landscape.constants["minimum"].value
      (6, 0.0625)
      >>> landscape.smallest_eigenvalue(torch.zeros(6))
      tensor(-2.)
    """

    target: Tensor
    rank: int = 1
    _eigenvalues: Tensor = field(init=False, repr=False)  # ascending, float64
    _vectors: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_matrix(target=self.target)
        if self.target.shape[0] != self.target.shape[1] or not bool(torch.allclose(self.target, self.target.mT)):
            raise ValueError(f"Expected target of shape {tuple(self.target.shape)} to be a symmetric matrix.")
        validate.at_least(1, rank=self.rank)
        if self.rank > len(self.target):
            raise ValueError(f"Expected rank={self.rank} <= {len(self.target)}, the size of the target.")
        values, vectors = torch.linalg.eigh(self.target.double())
        validate.positive(largest_eigenvalue=float(values[-1]))
        if float(values[0]) < -1e-6 * float(values[-1]):
            raise ValueError(f"Expected target with smallest_eigenvalue={float(values[0])} >= 0.")
        object.__setattr__(self, "_eigenvalues", values)
        object.__setattr__(self, "_vectors", vectors)

    @property
    def dim(self) -> int:
        """Entries of U."""
        return len(self.target) * self.rank

    @property
    def constants(self) -> dict[str, Constant]:
        """The minimum: the best approximation of this rank keeps the largest eigenvalues."""
        left_out = self._eigenvalues[: len(self.target) - self.rank]
        return {"minimum": Constant(float(left_out.square().sum()) / 4, "proved", "Eckart and Young")}

    def constants_within(self, radius: float) -> dict[str, Constant]:
        """Smoothness and the Hessian's Lipschitz constant, for U of Frobenius norm up to `radius`.

        Proof: `D^2 F[V, V] = |U V' + V U'|^2 / 2 + <U U' - target, V V'>` lies between `-l_max` (at U = 0) and
        `3 |U|^2 - l_min`, and `D^3 F[V, V, V] = 6 <U, V V' V>` is at most `6 |U|`; both upper bounds are attained
        where U and V are multiples of one matrix of rank one, whose column is an eigenvector of `l_min`.
        """
        validate.positive(radius=radius)
        low, high = float(self._eigenvalues[0]), float(self._eigenvalues[-1])
        return _within(
            self.constants, radius, max(3 * radius**2 - low, high), 6 * radius, "second and third derivative"
        )

    @property
    def saddle(self) -> Saddle:
        """The origin; the escape direction is the target's first eigenvector, in the first column."""
        direction = torch.zeros(len(self.target), self.rank, dtype=torch.float64, device=self.target.device)
        direction[:, 0] = self._vectors[:, -1]
        direction = direction.flatten()
        return Saddle(torch.zeros_like(direction), direction, float(self._eigenvalues[-1]))

    def value(self, x: Tensor) -> Tensor:
        """`F(U)`, `(...)`."""
        return self._residual(self._matrix(x)).square().sum((-2, -1)) / 4

    def gradient(self, x: Tensor) -> Tensor:
        """`(U U' - target) U`, `(..., dim)`."""
        u = self._matrix(x)
        return (self._residual(u) @ u).flatten(-2)

    def hessian(self, x: Tensor) -> Tensor:
        """Dense, `(..., dim, dim)`."""
        return hessian_by_columns(self, x)

    def hessian_vector(self, x: Tensor, v: Tensor) -> Tensor:
        """`(U V' + V U') U + (U U' - target) V`, `(..., dim)`."""
        u, v = self._matrix(x), self._matrix(v)
        return (u @ (v.mT @ u) + v @ (u.mT @ u) + self._residual(u) @ v).flatten(-2)

    def smallest_eigenvalue(self, x: Tensor) -> Tensor:
        """Of the dense Hessian, `(...)`."""
        return torch.linalg.eigvalsh(self.hessian(x))[..., 0]

    def _matrix(self, x: Tensor) -> Tensor:
        check_points(x, self.dim)
        return x.unflatten(-1, (-1, self.rank))

    def _residual(self, u: Tensor) -> Tensor:
        return u @ u.mT - self.target.to(u)


@dataclass(frozen=True, eq=False)
class PopulationSensing:
    """`F(U) = E (|U'a|^2 - |S'a|^2)^2 / 4` over standard normal `a`: the mean of all quadratic measurements of S.

    With one column this is phase retrieval of a real signal, whose sign is lost (Sun, Qu and Wright 2016,
    arXiv:1602.06664, where every local minimum is shown to be global); with more, quadratic sensing (Li, Ma, Chen and
    Chi 2018, arXiv:1802.06286). By Isserlis' theorem it is `|D|^2 / 2 + (tr D)^2 / 4` in the Frobenius
    norm, with `D = U U' - S S'`. `dpnotes.problems.sensing.QuadraticSensing` has the examples. Points are U, flat and
    by rows. With `m` rows and `r` columns a gradient or a product with the Hessian costs `O(m r^2)` operations, the
    smallest eigenvalue as much for `r = 1` and one of a dense `(m r, m r)` matrix otherwise.

    Args:
      signal: `(m, r)`, S, not 0; on the device and in the type of the points it costs no copy.

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
        _check_matrix(signal=self.signal)
        rows, columns = self.signal.shape
        if rows < max(2, columns):
            raise ValueError(f"Expected signal.shape={(rows, columns)} to have 2 rows, and as many rows as columns.")
        left, values, _ = torch.linalg.svd(self.signal.double(), full_matrices=False)
        validate.positive(norm_of_signal=float(values[0]))
        object.__setattr__(self, "_eigenvalues", values.square().flip(0))
        object.__setattr__(self, "_vector", left[:, 0])

    @property
    def rank(self) -> int:
        """Columns of U."""
        return self.signal.shape[1]

    @property
    def dim(self) -> int:
        """Entries of U."""
        return self.signal.numel()

    @property
    def constants(self) -> dict[str, Constant]:
        """The minimum, 0 at the signal."""
        return {"minimum": Constant(0.0, "proved", "a mean of squares, 0 at the signal")}

    def constants_within(self, radius: float) -> dict[str, Constant]:
        """Smoothness and the Hessian's Lipschitz constant, for U of Frobenius norm up to `radius`.

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
        """`F(U)`, `(...)`."""
        u, signal = self._matrices(x)
        # 2 D = A B' + B A' with A = U - S and B = U + S, which does not cancel near S, nor holds m^2 entries.
        a, b = u - signal, u + signal
        own, cross = (a.mT @ a) * (b.mT @ b), a.mT @ b
        trace = cross.diagonal(dim1=-2, dim2=-1).sum(-1)
        return (own + cross * cross.mT).sum((-2, -1)) / 4 + trace.square() / 4

    def gradient(self, x: Tensor) -> Tensor:
        """`(2 D + tr(D) I) U`, `(..., dim)`."""
        u, signal = self._matrices(x)
        return self._apply(u, signal, u).flatten(-2)

    def hessian(self, x: Tensor) -> Tensor:
        """Dense, `(..., dim, dim)`."""
        return hessian_by_columns(self, x)

    def hessian_vector(self, x: Tensor, v: Tensor) -> Tensor:
        """`2 (U V' + V U') U + 2 <U, V> U + (2 D + tr(D) I) V`, `(..., dim)`."""
        u, signal = self._matrices(x)
        v, _ = self._matrices(v)
        inner = (u * v).sum((-2, -1), keepdim=True)
        return (2 * (u @ (v.mT @ u) + v @ (u.mT @ u) + inner * u) + self._apply(u, signal, v)).flatten(-2)

    def smallest_eigenvalue(self, x: Tensor) -> Tensor:
        """Exact, `(...)`; for one column from the two-dimensional span of the point and the signal."""
        if self.rank > 1:
            return torch.linalg.eigvalsh(self.hessian(x))[..., 0]
        u, signal = self._matrices(x)
        u, s = u[..., 0], signal[..., 0]
        # The Hessian is (3 |u|^2 - |s|^2) I + 6 u u' - 2 s s': the last two terms have trace p and, on the span of
        # u and s, the determinant -12 (|u|^2 |s|^2 - <u, s>^2), never positive, so the smaller root is that of all.
        square, length = u.square().sum(-1), s.square().sum()
        along = u @ (s / length.sqrt())
        across = (u - along[..., None] * (s / length.sqrt())).square().sum(-1)
        half = 3 * square - length
        return 3 * square - length + half - torch.sqrt(half.square() + 12 * across * length)

    def _matrices(self, x: Tensor) -> tuple[Tensor, Tensor]:
        check_points(x, self.dim)
        return x.unflatten(-1, (-1, self.rank)), self.signal.to(x)

    def _apply(self, u: Tensor, signal: Tensor, v: Tensor) -> Tensor:
        """`(2 D + tr(D) I) v`."""
        a, b = u - signal, u + signal
        return a @ (b.mT @ v) + b @ (a.mT @ v) + (a * b).sum((-2, -1), keepdim=True) * v


@dataclass(frozen=True, eq=False)
class LinearNetwork:
    """`F(W1, W2) = |W2 W1 - target|^2 / 2`: a linear network with one hidden layer and white inputs.

    Every local minimum is global (Baldi and Hornik 1989, doi:10.1016/0893-6080(89)90014-2; Kawaguchi 2016,
    arXiv:1605.07110), and the origin is a strict saddle. A point holds `W1` `(num_hidden, inputs)` and then `W2`
    `(outputs, num_hidden)`, flat and by rows.

    Args:
      target: `(outputs, inputs)`, not 0; on the device and in the type of the points it costs no copy.
      num_hidden: at least 1.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> landscape = LinearNetwork(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), num_hidden=1)
      >>> landscape.dim, landscape.constants["minimum"].value
      (4, 0.5)
      >>> landscape.smallest_eigenvalue(torch.zeros(4))
      tensor(-2.)
    """

    target: Tensor
    num_hidden: int
    _svd: tuple[Tensor, Tensor, Tensor] = field(init=False, repr=False)  # of the target, float64

    def __post_init__(self) -> None:
        _check_matrix(target=self.target)
        validate.at_least(1, num_hidden=self.num_hidden)
        svd = torch.linalg.svd(self.target.double(), full_matrices=False)
        validate.positive(norm_of_target=float(svd[1][0]))
        object.__setattr__(self, "_svd", tuple(svd))

    @property
    def dim(self) -> int:
        """Entries of both layers."""
        return self.num_hidden * sum(self.target.shape)

    @property
    def constants(self) -> dict[str, Constant]:
        """The minimum: the best approximation of rank `num_hidden` keeps the largest singular values."""
        left_out = self._svd[1][self.num_hidden :]
        return {"minimum": Constant(float(left_out.square().sum()) / 2, "proved", "Eckart and Young")}

    def constants_within(self, radius: float) -> dict[str, Constant]:
        """Smoothness and the Hessian's Lipschitz constant, for layers of joint Frobenius norm up to `radius`.

        Proof: with `B = V2 W1 + W2 V1` and `C = V2 V1`, `D^2 F[V, V] = |B|^2 + 2 <W2 W1 - target, C>` and
        `D^3 F[V, V, V] = 6 <B, C>`; for `|V| = 1`, `|B| <= |W|` and `|C| <= 1/2`, and `|W2 W1| <= |W|^2 / 2`. The
        bounds `3 |W|^2 / 2 + s_max` and `3 |W|` are attained at layers of rank one and equal norm, the first with
        `W2 W1` opposite to the target's first singular pair.
        """
        validate.positive(radius=radius)
        return _within(
            self.constants, radius, 1.5 * radius**2 + float(self._svd[1][0]), 3 * radius, "second and third derivative"
        )

    @property
    def saddle(self) -> Saddle:
        """The origin; the escape direction is the target's first singular pair, through the first hidden unit."""
        left, values, right = self._svd
        first = torch.zeros(self.num_hidden, self.target.shape[1], dtype=torch.float64, device=self.target.device)
        second = torch.zeros(self.target.shape[0], self.num_hidden, dtype=torch.float64, device=self.target.device)
        first[0], second[:, 0] = right[0], left[:, 0]
        direction = torch.cat([first.flatten(), second.flatten()]) / math.sqrt(2)
        return Saddle(torch.zeros_like(direction), direction, float(values[0]))

    def layers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Views of a point: `W1` `(..., num_hidden, inputs)` and `W2` `(..., outputs, num_hidden)`."""
        check_points(x, self.dim)
        split = self.num_hidden * self.target.shape[1]
        first, second = x[..., :split], x[..., split:]
        return first.unflatten(-1, (self.num_hidden, -1)), second.unflatten(-1, (-1, self.num_hidden))

    def value(self, x: Tensor) -> Tensor:
        """`F(x)`, `(...)`."""
        first, second = self.layers(x)
        return (second @ first - self.target.to(x)).square().sum((-2, -1)) / 2

    def gradient(self, x: Tensor) -> Tensor:
        """`(W2' E, E W1')` with `E = W2 W1 - target`, `(..., dim)`."""
        first, second = self.layers(x)
        error = second @ first - self.target.to(x)
        return self._flat(second.mT @ error, error @ first.mT)

    def hessian(self, x: Tensor) -> Tensor:
        """Dense, `(..., dim, dim)`."""
        return hessian_by_columns(self, x)

    def hessian_vector(self, x: Tensor, v: Tensor) -> Tensor:
        """Hessian times `v`, `(..., dim)`."""
        first, second = self.layers(x)
        v_first, v_second = self.layers(v)
        error, change = second @ first - self.target.to(x), v_second @ first + second @ v_first
        return self._flat(v_second.mT @ error + second.mT @ change, change @ first.mT + error @ v_first.mT)

    def smallest_eigenvalue(self, x: Tensor) -> Tensor:
        """Of the dense Hessian, `(...)`."""
        return torch.linalg.eigvalsh(self.hessian(x))[..., 0]

    @staticmethod
    def _flat(first: Tensor, second: Tensor) -> Tensor:
        return torch.cat([first.flatten(-2), second.flatten(-2)], -1)
