"""Separable landscapes `F(x) = sum_i phi_i(x_i)`: strict saddles in any dimension at the cost of a few sines.

The Hessian is diagonal, so its smallest eigenvalue is its least entry. Each profile `phi` has global constants, the
suprema of its derivatives; the constants of the sum follow from them: see `Separable.constants`.
"""
# ruff: noqa: D102 (what a profile's methods do stands in the docstring of the protocol)

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from dpnotes.core import Constant
from dpnotes.problems.landscapes import Saddle, check_points
from dpnotes.util import validate
from dpnotes.util.validate import Finite, NonNegative, Positive, checked


class Suprema(NamedTuple):
    """The suprema of the absolute values of a function's second and third derivative over the real line."""

    smoothness: float
    hessian_lipschitz: float


class Profile(Protocol):
    """A function of one number, applied to each entry, with its bounds, its first and its second derivative."""

    @property
    def suprema(self) -> Suprema: ...
    def value(self, t: Tensor) -> Tensor: ...
    def first(self, t: Tensor) -> Tensor: ...
    def second(self, t: Tensor) -> Tensor: ...


@checked
@dataclass(frozen=True)
class Linear:
    """The profile `slope t`; as a feature of `VirtualData` it is additive noise of standard deviation `slope`."""

    slope: NonNegative

    @property
    def suprema(self) -> Suprema:
        return Suprema(0.0, 0.0)

    def value(self, t: Tensor) -> Tensor:
        return self.slope * t

    def first(self, t: Tensor) -> Tensor:
        return torch.full_like(t, self.slope)

    def second(self, t: Tensor) -> Tensor:
        return torch.zeros_like(t)


@checked
@dataclass(frozen=True)
class Parabola:
    """The profile `curvature t^2 / 2`; with a negative curvature it has no minimum, and descent moves away for ever."""

    curvature: Finite

    def __post_init__(self) -> None:
        if not self.curvature:
            raise ValueError("Expected curvature=0 to be another number: Linear(0.0) is the profile that is zero.")

    @property
    def suprema(self) -> Suprema:
        return Suprema(abs(self.curvature), 0.0)

    def value(self, t: Tensor) -> Tensor:
        return 0.5 * self.curvature * t.square()

    def first(self, t: Tensor) -> Tensor:
        return self.curvature * t

    def second(self, t: Tensor) -> Tensor:
        return torch.full_like(t, self.curvature)


@checked
@dataclass(frozen=True)
class LogCosh:
    """The profile `curvature width^2 log cosh(t / width)`: a bowl whose slope levels off at `curvature width`.

    Its second derivative is `curvature sech^2`, and the third, `-2 curvature / width sech^2 tanh`, is largest where
    `tanh^2 = 1/3`.
    """

    curvature: Positive
    width: Positive = 1.0

    @property
    def suprema(self) -> Suprema:
        return Suprema(self.curvature, 4 / (3 * math.sqrt(3)) * self.curvature / self.width)

    def value(self, t: Tensor) -> Tensor:
        # log cosh u = log(1 + 2 sinh^2(u / 2)) for small u, where |u| + softplus(-2 |u|) - log 2 would cancel.
        u = (t / self.width).abs()
        near = torch.log1p(2 * torch.sinh(u.clamp(max=2) / 2).square())
        far = u + torch.log1p(torch.exp(-2 * u)) - math.log(2)
        return self.curvature * self.width**2 * torch.where(u < 1, near, far)

    def first(self, t: Tensor) -> Tensor:
        return self.curvature * self.width * torch.tanh(t / self.width)

    def second(self, t: Tensor) -> Tensor:
        return self.curvature * (1 - torch.tanh(t / self.width).square())


@checked
@dataclass(frozen=True)
class _Wave:
    """The parameters and bounds that a sine and a cosine share."""

    amplitude: Positive
    frequency: Positive = 1.0

    @property
    def suprema(self) -> Suprema:
        return Suprema(self.amplitude * self.frequency**2, self.amplitude * self.frequency**3)


@checked
@dataclass(frozen=True)
class Cosine(_Wave):
    """The profile `amplitude cos(frequency t)`: at 0 a hill of curvature `-amplitude frequency^2`; all bounded."""

    def value(self, t: Tensor) -> Tensor:
        return self.amplitude * torch.cos(self.frequency * t)

    def first(self, t: Tensor) -> Tensor:
        return -self.amplitude * self.frequency * torch.sin(self.frequency * t)

    def second(self, t: Tensor) -> Tensor:
        return -self.suprema.smoothness * torch.cos(self.frequency * t)


@checked
@dataclass(frozen=True)
class Sine(_Wave):
    """The profile `amplitude sin(frequency t)`; as a feature of `VirtualData` it is noise that depends on x."""

    def value(self, t: Tensor) -> Tensor:
        return self.amplitude * torch.sin(self.frequency * t)

    def first(self, t: Tensor) -> Tensor:
        return self.amplitude * self.frequency * torch.cos(self.frequency * t)

    def second(self, t: Tensor) -> Tensor:
        return -self.suprema.smoothness * torch.sin(self.frequency * t)


@checked
@dataclass(frozen=True)
class DoubleWell:
    """The profile `gamma (t^4 / (4 width^2) - t^2 / 2)` up to `radius`, continued beyond it by a parabola.

    Minima at `+-width`, a hill of curvature `-gamma` at 0. Proof of the constants: the second derivative is
    `gamma (3 min(|t|, radius)^2 / width^2 - 1)` everywhere, which lies between `-gamma` and its value at `radius`, both
    attained; the third derivative is largest just inside `radius`, `6 gamma radius / width^2`.

    Args:
      gamma: > 0, the escape curvature.
      width: > 0, where the minima are.
      radius: at least `width`; None means `width`, which makes the smoothness `2 gamma`.
    """

    gamma: Positive
    width: Positive = 1.0
    radius: Finite | None = None

    def __post_init__(self) -> None:
        if self.radius is not None and self.radius < self.width:
            raise ValueError(f"Expected radius={self.radius} >= width={self.width}: the minima lie within it.")

    @property
    def suprema(self) -> Suprema:
        second = self.gamma * (3 * (self._edge / self.width) ** 2 - 1)
        return Suprema(second, 6 * self.gamma * self._edge / self.width**2)

    @property
    def _edge(self) -> float:
        return self.width if self.radius is None else self.radius

    def value(self, t: Tensor) -> Tensor:
        inner = t.clamp(-self._edge, self._edge)
        square, outer = inner.square(), t - inner
        quartic = self.gamma * square * (square / (4 * self.width**2) - 0.5)
        return quartic + outer * (self._cubic(inner) + 0.5 * self.suprema.smoothness * outer)

    def first(self, t: Tensor) -> Tensor:
        inner = t.clamp(-self._edge, self._edge)
        return torch.add(self._cubic(inner), t - inner, alpha=self.suprema.smoothness)

    def second(self, t: Tensor) -> Tensor:
        return self.gamma * (3 / self.width**2 * t.clamp(-self._edge, self._edge).square() - 1)

    def _cubic(self, inner: Tensor) -> Tensor:
        return inner * (self.gamma / self.width**2 * inner.square() - self.gamma)


@dataclass(frozen=True)
class Separable:
    """The landscape `F(x) = sum_i phi_i(x_i)`, with one profile for each block of consecutive coordinates.

    A gradient costs one evaluation of a profile's derivative for each coordinate (a sine, a tanh, or a few products),
    and one copy if there is more than one part; it takes a few times the memory of the points.

    Args:
      parts: pairs `(profile, count)`: the profile of the next `count` coordinates, at least 1 each.

    Raises:
      ValueError: for no part, or a count below 1.

    Example:
      >>> landscape = Separable([(DoubleWell(0.5), 1), (Parabola(1.0), 2)])
      >>> landscape.gradient(torch.tensor([0.5, 1.0, 2.0]))
      tensor([-0.1875, 1.0000, 2.0000])
      >>> landscape.smallest_eigenvalue(landscape.saddle.point)
      tensor(-0.5000, dtype=torch.float64)
      >>> {name: constant.value for name, constant in landscape.constants.items()}
      {'smoothness': 1.0, 'hessian_lipschitz': 3.0}
    """

    parts: Sequence[tuple[Profile, int]]

    def __post_init__(self) -> None:
        validate.at_least(1, num_parts=len(self.parts))
        for _, count in self.parts:
            validate.at_least(1, count=count)
        object.__setattr__(self, "parts", tuple(self.parts))

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return sum(count for _, count in self.parts)

    @property
    def constants(self) -> dict[str, Constant]:
        """The smoothness and the Hessian's Lipschitz constant, both attained.

        Proof: a diagonal Hessian's norm is its largest entry, so the smoothness is the largest of the profiles', and so
        is the Hessian's Lipschitz constant, since `max_i |a_i (x_i - y_i)| <= max_i |a_i| |x - y|`.
        """
        largest = (max(each) for each in zip(*(profile.suprema for profile, _ in self.parts), strict=True))
        names = ("smoothness", "hessian_lipschitz")
        return {
            name: Constant(value, "proved", "the largest of the profiles'")
            for name, value in zip(names, largest, strict=True)
        }

    @property
    def saddle(self) -> Saddle:
        """The origin, critical for even profiles; the escape direction is the first coordinate of least curvature.

        Raises:
          ValueError: if the origin is not critical, or has no negative curvature.
        """
        origin = torch.zeros(self.dim, dtype=torch.float64)
        gamma, index = self.curvatures(origin).neg().max(0)
        if bool(self.gradient(origin).any()) or not gamma > 0:
            raise ValueError("Expected a strict saddle at the origin: even profiles, one of them with a hill at 0.")
        direction = torch.zeros_like(origin)
        direction[index] = 1.0
        return Saddle(origin, direction, float(gamma))

    def curvatures(self, x: Tensor) -> Tensor:
        """The diagonal of the Hessian, `(..., dim)`: its eigenvalues."""
        return self._each([profile.second for profile, _ in self.parts], x)

    def value(self, x: Tensor) -> Tensor:
        """The value `F(x)`, `(...)`."""
        return self._each([profile.value for profile, _ in self.parts], x).sum(-1)

    def gradient(self, x: Tensor) -> Tensor:
        """The gradient, with entries `phi_i'(x_i)`, `(..., dim)`."""
        return self._each([profile.first for profile, _ in self.parts], x)

    def hessian(self, x: Tensor) -> Tensor:
        """The dense Hessian, `(..., dim, dim)`."""
        return torch.diag_embed(self.curvatures(x))

    def hessian_vector(self, x: Tensor, v: Tensor) -> Tensor:
        """The Hessian times `v`, `(..., dim)`."""
        return self.curvatures(x) * v

    def smallest_eigenvalue(self, x: Tensor) -> Tensor:
        """The smallest eigenvalue of the Hessian, the least entry of its diagonal, `(...)`."""
        return self.curvatures(x).amin(-1)

    def _each(self, functions: list[Callable[[Tensor], Tensor]], x: Tensor) -> Tensor:
        check_points(x, self.dim)
        if len(functions) == 1:
            return functions[0](x)
        pieces = x.split([count for _, count in self.parts], -1)
        return torch.cat([function(piece) for function, piece in zip(functions, pieces, strict=True)], -1)


@checked
def hard_instance(accuracy: float, dim: int, amplitude: Positive = 1.0) -> tuple[Separable, Tensor]:
    """A landscape with a long ramp along a ridge, which shows the sample complexity of finding a stationary point.

    `F(x) = B cos(k x_1) + A cos(x_2) + sum_i>2 log cosh x_i` with `k = 4 accuracy / B` and `A = 2 sqrt(accuracy)`. The
    ramp has the slope `4 accuracy sin(k x_1)`, so descent gains about `accuracy^2` in each step and needs as many steps
    as a theorem allows. On the ridge `x_2 = 0` the smallest eigenvalue is `-2 sqrt(accuracy)`, and the Hessian's
    Lipschitz constant rho is below 2: no point of the ridge is second-order stationary, since the bound for that is
    `-sqrt(rho accuracy)`. Easier landscapes give steeper curves than the theorems predict. This instance is not from a
    paper.

    Args:
      accuracy: the gradient norm that is sought, > 0, below 1 and below `amplitude / 8`.
      dim: at least 3.
      amplitude: B, > 0; the ramp descends by less than `2 B`.

    Returns:
      The landscape, and a starting point `(dim,)` float64 on the ridge, where the slope of the ramp is twice
      `accuracy`.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> landscape, start = hard_instance(0.01, dim=20)
      >>> torch.linalg.vector_norm(landscape.gradient(start)), landscape.smallest_eigenvalue(start)
      (tensor(0.0200, dtype=torch.float64), tensor(-0.2000, dtype=torch.float64))
    """
    validate.at_least(3, dim=dim)
    validate.between(0, min(1.0, amplitude / 8), accuracy=accuracy)
    frequency = 4 * accuracy / amplitude
    parts = [(Cosine(amplitude, frequency), 1), (Cosine(2 * math.sqrt(accuracy)), 1), (LogCosh(1.0), dim - 2)]
    start = torch.zeros(dim, dtype=torch.float64)
    start[0] = math.asin(0.5) / frequency
    return Separable(parts), start
