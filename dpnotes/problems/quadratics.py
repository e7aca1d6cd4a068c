"""Quadratics with a known spectrum, on which the expected excess risk of noisy descent is exact.

On `f(x) = (x - c)' A (x - c) / 2` descent with Gaussian noise is a linear recursion in each coordinate, so the mean
of `f` after any number of steps is known, and every bound and every simulation can be compared with it.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from dpnotes.core import Constant
from dpnotes.problems.examples import SharedExamples, check_finite, check_points, rows
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.validate import AtLeastOne, AtLeastTwo, Finite, NonNegative, Positive, Seed, checked


@checked
def log_spectrum(dim: AtLeastTwo, condition_number: Positive, smoothness: Positive = 1.0) -> Tensor:
    """Eigenvalues spaced evenly in the logarithm, from `smoothness` down to `smoothness / condition_number`, float64.

    Example:
      >>> log_spectrum(3, condition_number=100.0)
      tensor([1.0000, 0.1000, 0.0100], dtype=torch.float64)
    """
    if condition_number < 1:
        raise ValueError(f"Expected condition_number={condition_number} >= 1.")
    return smoothness * torch.logspace(0, -np.log10(condition_number), dim, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class QuadraticGradients:
    """The gradients `common + offsets[i]` of a `Quadratic`, which are never materialised.

    Args:
      losses: `(runs, examples)`.
      common: `(runs, dim)`.
      offsets: `(examples, dim)`, or `(runs, examples, dim)`.
    """

    losses: Tensor
    common: Tensor
    offsets: Tensor

    def norms(self) -> Tensor:
        """The Euclidean norms of the examples' gradients, `(runs, examples)`."""
        # Not by |a|^2 + 2 a.b + |b|^2, which cancels near the minimum of an example.
        common = -self.common if self.offsets.dim() == 2 else -self.common[:, None]
        return torch.cdist(common, self.offsets, compute_mode="donot_use_mm_for_euclid_dist").view_as(self.losses)

    def weighted_sum(self, weights: Tensor) -> Tensor:
        """The weighted sum `sum_i weights[:, i] * gradient_i`, `(runs, dim)`, for weights `(runs, examples)`."""
        offsets = weights @ self.offsets if self.offsets.dim() == 2 else (weights[:, None] @ self.offsets)[:, 0]
        return self.common * weights.sum(1, keepdim=True) + offsets


@dataclass(frozen=True, eq=False)
class Quadratic(SharedExamples):
    """The mean of `f_i(x) = (x - c)' A (x - c) / 2 + b_i' (x - c)`, with `A` diagonal and `sum_i b_i = 0`.

    So `f(x) = (x - c)' A (x - c) / 2`, with minimum 0 at `c`; the examples differ by their offsets `b_i` alone.

    Args:
      spectrum: `(dim,)`, the diagonal of A, > 0.
      offsets: `(examples, dim)`, the `b_i`; their mean is 0.
      center: `(dim,)`, the minimiser `c`.

    Raises:
      ValueError: for sizes that disagree, NaN, eigenvalues that are not positive, offsets whose mean is not 0.

    Example:
      >>> problem = Quadratic.sample(log_spectrum(4, condition_number=10.0), num_examples=8, spread=0.5, seed=0)
      >>> problem.gradients(torch.ones(1, 4, dtype=torch.float64)).norms().shape
      torch.Size([1, 8])
      >>> {name: constant.value for name, constant in problem.constants.items()}
      {'smoothness': 1.0, 'polyak_lojasiewicz': 0.1, 'minimum': 0.0}
    """

    spectrum: Tensor
    offsets: Tensor
    center: Tensor

    def __post_init__(self) -> None:
        dim = len(self.spectrum)
        if self.spectrum.dim() != 1 or self.offsets.shape[1:] != (dim,) or self.center.shape != (dim,):
            raise ValueError(
                f"Expected spectrum {tuple(self.spectrum.shape)}, offsets {tuple(self.offsets.shape)} and center "
                f"{tuple(self.center.shape)} to be (dim,), (examples, dim) and (dim,)."
            )
        validate.at_least(1, num_examples=len(self.offsets), dim=dim)
        check_finite(spectrum=self.spectrum, offsets=self.offsets, center=self.center)
        validate.positive(smallest_eigenvalue=float(self.spectrum.min()))
        tolerance = 100 * torch.finfo(self.offsets.dtype).eps * float(self.offsets.abs().max())
        if float(self.offsets.mean(0).abs().max()) > tolerance:
            raise ValueError(
                "Expected the offsets to have mean 0: subtract it, and move the center by -mean / spectrum."
            )

    @staticmethod
    @checked
    def sample(spectrum: Tensor, num_examples: AtLeastTwo, spread: NonNegative, seed: Seed) -> "Quadratic":
        """A problem with center 0 and random offsets, the longest of norm `spread`, in the type of `spectrum`.

        Args:
          spectrum: `(dim,)`.
          num_examples: at least 2.
          spread: the largest norm of an offset, >= 0; 0 makes all examples equal.
          seed: the seed of the draw.
        """
        dim = len(spectrum)
        offsets = Streams.of("quadratic", [seed]).normal("offsets", 0, num_examples * dim).view(num_examples, dim)
        offsets = offsets - offsets.mean(0)
        offsets = offsets * (spread / torch.linalg.vector_norm(offsets, dim=1).max())
        return Quadratic(spectrum, offsets.to(spectrum), torch.zeros_like(spectrum))

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return len(self.spectrum)

    @property
    def num_examples(self) -> int:
        """The number of examples."""
        return len(self.offsets)

    @property
    def constants(self) -> dict[str, Constant]:
        """The smoothness, Polyak-Lojasiewicz constant and minimum; no Lipschitz constant holds over all of space."""
        return {
            "smoothness": Constant(float(self.spectrum.max()), "proved", "largest eigenvalue of the Hessian"),
            "polyak_lojasiewicz": Constant(float(self.spectrum.min()), "proved", "smallest eigenvalue of the Hessian"),
            "minimum": Constant(0.0, "proved", "at the center, where the offsets cancel"),
        }

    def excess_risk(self, x: Tensor) -> Tensor:
        """The excess risk `f(x) - min f`, `(runs,)`; at the starting point it is the initial gap."""
        return 0.5 * ((x - self.center).square() @ self.spectrum)

    def gradients(self, x: Tensor, examples: Tensor | None = None) -> QuadraticGradients:
        """The losses and the gradients by example at the points `x`, `(runs, dim)`.

        Args:
          x: `(runs, dim)`.
          examples: `(runs, batch)` int64 indices of examples; all examples if None.

        Raises:
          ValueError: for shapes that disagree, or an index of no example.
        """
        check_points(x, self.dim, self.offsets.dtype)
        away = x - self.center
        if examples is None:
            offsets, linear = self.offsets, away @ self.offsets.mT
        else:
            offsets = rows(self.offsets[None], examples, len(x))
            linear = (offsets @ away[..., None])[..., 0]
        return QuadraticGradients(self.excess_risk(x)[:, None] + linear, away * self.spectrum, offsets)

    # ------------------------------------------------------------ noisy descent, in expectation
    def noise_influence(self, step_size: float, num_steps: int, momentum: float = 0.0) -> NDArray[np.float64]:
        """The influence of each step's noise, `dE[f(x_T+1)] / d variance_t`, `(num_steps,)`, exact.

        `variance_t` is the variance of one coordinate of the noise added to the gradient at step t. The method is
        descent, `x_t+1 = x_t - step_size m_t`, where `m_t` is the average of the noisy gradients with weights
        `momentum^(t-i)` that sum to 1 (Hong, Wang and Zhou, FAccT 2022, equations (3) and (13)). Without momentum the
        influence is `step_size^2 / 2 sum_j spectrum_j (1 - step_size spectrum_j)^(2(T-t))`. No gradient is clipped.

        Example:
          >>> one = Quadratic(torch.tensor([0.5]), torch.zeros(1, 1), torch.zeros(1))
          >>> one.noise_influence(step_size=1.0, num_steps=3).tolist()  # 0.25 * 0.5 ** (2 * (3 - t))
          [0.015625, 0.0625, 0.25]
        """
        responses, _ = self._responses(step_size, num_steps, momentum)
        return 0.5 * responses**2 @ self._eigenvalues

    def expected_excess_risk(
        self, x0: ArrayLike | Tensor, step_size: float, noise_std: ArrayLike | Tensor, momentum: float = 0.0
    ) -> NDArray[np.float64]:
        """The exact `E[f(x_T+1)] - min f` of noisy descent from `x0`, the method of `noise_influence`.

        Args:
          x0: `(dim,)`, the starting point.
          step_size: > 0.
          noise_std: `(..., num_steps)`, standard deviation of one coordinate of the gradient noise at each step, >= 0;
            leading axes are schedules.
          momentum: in [0, 1).

        Returns:
          One number for each schedule, shape `(...)`.

        Example:
          >>> one = Quadratic(torch.tensor([0.5]), torch.zeros(1, 1), torch.zeros(1))
          >>> one.expected_excess_risk([1.0], step_size=1.0, noise_std=[[0.0, 0.0], [1.0, 2.0]]).tolist()
          [0.015625, 1.078125]
        """
        std = np.asarray(noise_std, dtype=np.float64)
        if std.ndim == 0 or not np.isfinite(std).all() or (std < 0).any():
            raise ValueError("Expected noise_std to be an array (..., num_steps) of finite numbers >= 0.")
        start = np.asarray(x0, dtype=np.float64)
        if start.shape != (self.dim,):
            raise ValueError(f"Expected x0.shape={start.shape} to be ({self.dim},).")
        responses, decay = self._responses(step_size, std.shape[-1], momentum)
        influence = 0.5 * responses**2 @ self._eigenvalues
        away = start - np.asarray(self.center.cpu(), dtype=np.float64)
        return 0.5 * (decay * away) ** 2 @ self._eigenvalues + std**2 @ influence

    @property
    def _eigenvalues(self) -> NDArray[np.float64]:
        return np.asarray(self.spectrum.cpu(), dtype=np.float64)

    @checked
    def _responses(
        self, step_size: Positive, num_steps: AtLeastOne, momentum: Finite
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The derivatives of the last point by each step's noise, `(num_steps, dim)`, and by the first point, `(dim,)`.

        Computed backwards through `v <- momentum v + (1 - momentum) (A x + noise)`,
        `x <- x - step_size v / (1 - momentum^t)`.
        """
        if not 0 <= momentum < 1:
            raise ValueError(f"Expected 0 <= momentum={momentum} < 1.")
        eigenvalues = self._eigenvalues
        by_x, by_v = np.ones(self.dim), np.zeros(self.dim)
        responses = np.empty((num_steps, self.dim))
        for step in range(num_steps, 0, -1):
            by_v = by_v - step_size / (1 - momentum**step) * by_x
            responses[step - 1] = (1 - momentum) * by_v
            by_x = by_x + responses[step - 1] * eigenvalues
            by_v = momentum * by_v
        return responses, by_x
