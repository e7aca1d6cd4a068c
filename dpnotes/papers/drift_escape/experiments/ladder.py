"""A bounded landscape with saddles of every curvature, and the practical parameters of Algorithm 1 at a noise level.

Beside them `half_way`: the value of a knob at which half of the runs fail.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from dpnotes.oracles.fresh import FreshGradient
from dpnotes.problems.separable import Linear, Separable, Sine, Suprema
from dpnotes.problems.virtual import VirtualData

_LOG_FACTOR = 0.5  # of the length of an attempt
_RADIUS = 0.3  # over sqrt(alpha / rho)
DEPTH = 8.0  # how far below sqrt(rho alpha) the ladder's curvatures go


@dataclass(frozen=True, eq=False)
class Rungs:
    """The profiles `lam_k^3 cos(x_k / lam_k)` of as many coordinates: on top a hill of each curvature `lam_k`.

    A slope in coordinate k is at most `lam_k^2`. So noise at the level psi hides the hills whose squared curvature is
    below psi and no others, which makes their sum alike at all levels of noise. Whatever the curvatures, the Hessian's
    Lipschitz constant is 1; the other constants are those of the largest.

    Args:
      curvatures: `(dim,)` float64, above 0.
    """

    curvatures: Tensor

    @property
    def suprema(self) -> Suprema:
        """Its bounds: the largest curvature, and 1."""
        return Suprema(float(self.curvatures.max()), 1.0)

    def value(self, t: Tensor) -> Tensor:
        """The values, `(..., dim)`."""
        return self.curvatures**3 * torch.cos(t / self.curvatures)

    def first(self, t: Tensor) -> Tensor:
        """The first derivatives, `(..., dim)`."""
        return -(self.curvatures**2) * torch.sin(t / self.curvatures)

    def second(self, t: Tensor) -> Tensor:
        """The second derivatives, `(..., dim)`."""
        return -self.curvatures * torch.cos(t / self.curvatures)


def landscape(curvatures: Tensor) -> Separable:
    """The sum of `Rungs`: bounded, and its Hessian has the Lipschitz constant 1.

    Example:
      >>> curvatures = rungs_down_to(0.1)
      >>> ladder, origin = landscape(curvatures), torch.zeros_like(curvatures)
      >>> ladder.smallest_eigenvalue(origin), ladder.smallest_eigenvalue(math.pi * curvatures)
      (tensor(-1., dtype=torch.float64), tensor(0.0884, dtype=torch.float64))
    """
    return Separable([(Rungs(curvatures), len(curvatures))])


def rungs_down_to(curvature: float) -> Tensor:
    """Curvatures from 1 in steps of a factor `2^(-1/4)` to the first one that is at most `curvature`, below 1.

    Example:
      >>> len(rungs_down_to(0.1)), rungs_down_to(0.1)[:3]
      (15, tensor([1.0000, 0.8409, 0.7071], dtype=torch.float64))
    """
    return 2.0 ** (-torch.arange(math.ceil(-4 * math.log2(curvature)) + 1, dtype=torch.float64) / 4)


@dataclass(frozen=True)
class LadderParameters:
    """Equations (4) of the paper with constants that can be run: M = rho = 1, and powers of iota are 1.

    chi = 2 psi, `alpha` = 4 chi, S = `radius` = 0.3 sqrt(alpha), eta = `step_size` and T_esc = `attempt_length` =
    `0.5 mu / (eta sqrt(alpha))`, with the logarithm `mu = log2(40 sqrt2 S alpha^(1/4) / (sqrt(eta) r))`: the second
    entry of (5) as its proof gives it.
    """

    psi: float
    dim: int
    step_size: float

    @property
    def alpha(self) -> float:
        """The stationarity that the returned point should reach, 4 chi."""
        return 8 * self.psi

    @property
    def threshold(self) -> float:
        """3 chi."""
        return 6 * self.psi

    @property
    def radius(self) -> float:
        """S."""
        return _RADIUS * self.alpha**0.5

    @property
    def privacy_std(self) -> float:
        """r: of each coordinate of the Gaussian noise, whose square makes half of psi^2."""
        return self.psi / (2 * self.dim) ** 0.5

    @property
    def mu(self) -> float:
        """The logarithm."""
        ratio = self.radius * self.alpha**0.25 / (self.step_size**0.5 * self.privacy_std)
        return math.log2(40 * math.sqrt(2) * ratio)

    @property
    def attempt_length(self) -> int:
        """T_esc."""
        return math.ceil(_LOG_FACTOR * self.mu / (self.step_size * self.alpha**0.5))

    def largest_curvature(self, attempts: int, chance: float) -> float:
        """Of a hill from whose top no attempt gets away with this chance, by linear theory.

        There noise, of level `psi / sqrt(dim)` along the hill, grows by `1 + eta lam` a step, and so is normal after
        all of them. An attempt fails where it is then within the radius.

        Example:
          >>> found = LadderParameters(1e-3, 10, 1.0)
          >>> round(found.largest_curvature(8, 0.5) ** 2 / found.psi, 2), round(found.alpha / found.psi)
          (1.97, 8)
        """
        from scipy.optimize import brentq
        from scipy.special import ndtri

        # All of so many fail with the chance, where each ends within so many standard deviations.
        deviations = float(ndtri((1 + chance ** (1 / attempts)) / 2))
        step = self.step_size * self.psi / self.dim**0.5

        def beyond(log_curvature: float) -> float:
            growth = math.log1p(self.step_size * math.exp(log_curvature))
            squares = math.expm1(2 * self.attempt_length * growth) / math.expm1(2 * growth)
            return math.log(step * deviations * squares**0.5 / self.radius)

        ends = math.log(1e-3 * self.alpha**0.5), math.log(3 * self.alpha**0.5)
        return math.exp(float(brentq(beyond, *ends)))  # type: ignore[arg-type]

    def oracle(
        self, curvatures: Tensor, runs: int, num_steps: int, device: str, features: Separable | None = None
    ) -> FreshGradient:
        """Gradients with fresh noise: Gaussian of level `psi / sqrt2`, and that of a batch of at most the same level.

        The loss of an example is `F(x) + sum_k z_k sin(x_k) / sqrt(dim)`, z standard normal, so one gradient's variance
        is at most 1 in all; or it has other features.
        """
        features = features or Separable([(Sine(self.dim**-0.5), self.dim)])
        # The longest gradient: F's, and z is hardly ever longer than 6 sqrt(dim).
        bound = float(torch.linalg.vector_norm(curvatures**2)) + 6.0
        std = torch.full((runs,), self.privacy_std, dtype=torch.float64, device=device)
        data = VirtualData(landscape(curvatures.to(device)), features)
        return FreshGradient(data, math.ceil(2 / self.psi**2), std, bound, num_steps)


def quiet_first(dim: int) -> Separable:
    """Features without noise in the first coordinate, of total variance at most 1."""
    return Separable([(Linear(0.0), 1), (Sine((dim - 1) ** -0.5), dim - 1)])


def half_way(values: ArrayLike, shares: np.ndarray) -> np.ndarray:
    """The logarithm of the value at which a share falls below one half, `(...)`, by Spearman and Karber's estimate.

    Args:
      values: `(values,)`, of a constant ratio.
      shares: `(..., values)`, from about 1 to about 0.

    Example:
      >>> round(float(np.exp(half_way([1.0, 2.0, 4.0], np.array([1.0, 0.5, 0.0])))), 6)
      2.0
    """
    logs = np.log(values)
    step = (logs[-1] - logs[0]) / (len(logs) - 1)
    return logs[0] - step / 2 + step * shares.sum(-1)
