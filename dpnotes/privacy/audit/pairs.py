"""What two neighbouring data sets give, in closed form, and the best attack on it.

Both kinds of pair answer the same questions: the `epsilon` that the pair forces on any claim (no sampling), the `score`
of an output, and for the event `score > threshold` its `rates` on either data set and the `threshold` that tells most.
They are read off the code under audit: what it gives for unit draws of its noise is its covariance.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpnotes import validate
from dpnotes.privacy.audit.bounds import epsilon_from_counts

_MOST_OUTPUTS = 10_000
_NOISELESS = 1e-9  # relative: a direction whose noise is smaller than this has none but rounding


@dataclass(frozen=True, eq=False)
class GaussianPair:
    """Outputs `mean + noise_row` against `mean + shift + noise_row`, Gaussian with one covariance.

    With S the covariance, the pair is as far apart as N(0, 1) and N(mu, 1), `mu^2 = shift' S^-1 shift`, and its epsilon
    at delta is that of one Gaussian mechanism (Dong, Roth and Su 2019, arXiv:1905.02383v3; Balle and Wang 2018,
    arXiv:1805.06530v2, Theorem 8). A shift along a direction without noise makes both infinite.

    Args:
      mean: `(outputs,)` float64, without the example.
      shift: `(outputs,)`, what the example adds.
      noise: `(draws, outputs)`: the outputs' noise is `z @ noise` for `draws` standard normals z.

    Raises:
      ValueError: for shapes that disagree, NaN or infinite numbers, or more than 10,000 outputs.

    Example:
      >>> pair = GaussianPair(torch.zeros(2), torch.ones(2), 2 * torch.eye(2))
      >>> round(pair.mu, 4), round(pair.epsilon(1e-5), 4)
      (0.7071, 2.9432)
      >>> GaussianPair(torch.zeros(2), torch.tensor([1.0, -1.0]), torch.ones(1, 2)).epsilon(1e-5)  # one draw for two
      inf
    """

    mean: Tensor
    shift: Tensor
    noise: Tensor

    def __post_init__(self) -> None:
        if self.mean.dim() != 1 or self.shift.shape != self.mean.shape or self.noise.shape[1:] != self.mean.shape:
            raise ValueError(
                f"Expected mean {tuple(self.mean.shape)}, shift {tuple(self.shift.shape)} and noise "
                f"{tuple(self.noise.shape)} to be (outputs,), (outputs,) and (draws, outputs)."
            )
        if len(self.mean) > _MOST_OUTPUTS:
            raise ValueError(f"Expected outputs={len(self.mean)} <= {_MOST_OUTPUTS}: their covariance is dense.")
        for name in ("mean", "shift", "noise"):
            tensor = getattr(self, name).detach().double().cpu()
            if not bool(tensor.isfinite().all()):
                raise ValueError(f"Expected {name} without NaN or infinite entries.")
            object.__setattr__(self, name, tensor)
        direction, mu = self._attack()
        object.__setattr__(self, "_direction", direction)
        object.__setattr__(self, "_mu", mu)

    @staticmethod
    def of(
        release: Callable[[Tensor, Tensor], Tensor], without: Tensor, included: Tensor, num_draws: int
    ) -> "GaussianPair":
        """The pair of a release that is linear in its noise, found by giving it unit draws.

        Args:
          release: `release(data, noise)`, `(runs, ...)` and `(runs, draws)` to `(runs, outputs)`.
          without: one data set, without a runs axis.
          included: its neighbour.
          num_draws: how many standard normals the release asks for.

        Example:
          >>> pair = GaussianPair.of(lambda x, z: x + 3 * z, torch.zeros(2), torch.ones(2), 2)
          >>> pair.noise
          tensor([[3., 0.],
                  [0., 3.]], dtype=torch.float64)
        """
        validate.at_least(1, num_draws=num_draws)
        unit = torch.cat([torch.zeros(1, num_draws, dtype=torch.float64), torch.eye(num_draws, dtype=torch.float64)])
        outputs = release(without.expand(len(unit), *without.shape), unit)
        moved = release(included[None], unit[:1])
        return GaussianPair(outputs[0], moved[0] - outputs[0], outputs[1:] - outputs[0])

    @property
    def mu(self) -> float:
        """The distance, infinite where the example can be read off without noise."""
        return self._mu  # type: ignore[attr-defined]

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon that holds for this pair, at `delta` in (0, 1); exact."""
        from dpnotes.privacy.accounting import rho_to_epsilon

        return math.inf if math.isinf(self.mu) else rho_to_epsilon(self.mu**2 / 2, delta, "exact")

    def score(self, outputs: Tensor) -> Tensor:
        """The log likelihood ratio up to an affine map, `(runs,)` for outputs `(runs, outputs)`.

        Standard normal without the example and around `mu` with it; 0 and 1 where it can be read off.
        """
        direction = self._direction.to(outputs.device)  # type: ignore[attr-defined]
        return (outputs.double() - self.mean.to(outputs.device)) @ direction

    def rates(self, threshold: float) -> tuple[float, float]:
        """How probable `score > threshold` is with the example, and without it."""
        from scipy.special import ndtr

        validate.real(threshold=threshold)
        if math.isinf(self.mu):
            return float(threshold < 1), float(threshold < 0)
        return float(ndtr(self.mu - threshold)), float(ndtr(-threshold))

    def threshold(self, epsilon: float, delta: float) -> float:
        """The threshold at which the fewest runs refute the claim (epsilon, delta), as the normal law has it."""
        _check(epsilon, delta)
        if math.isinf(self.mu):
            return 0.5
        return _surest(self.rates, self._grid, epsilon, delta)

    def strongest_threshold(self, runs: int, delta: float, level: float) -> float:
        """The threshold that promises the largest bound from so many runs on each side."""
        validate.at_least(1, runs=runs)
        return 0.5 if math.isinf(self.mu) else _strongest(self.rates, self._grid, runs, delta, level)

    @property
    def _grid(self) -> NDArray[np.float64]:
        return np.linspace(-6, 10 + self.mu, 1000)

    def _attack(self) -> tuple[Tensor, float]:
        if not bool(self.shift.any()):
            return torch.zeros_like(self.shift), 0.0
        _, scales, rows = torch.linalg.svd(self.noise, full_matrices=True)
        spread = torch.zeros(len(rows), dtype=torch.float64)
        spread[: len(scales)] = scales
        along = rows @ self.shift
        noisy = spread > _NOISELESS * spread.max()
        blank = torch.where(noisy, 0.0, along)
        if float(blank.norm()) > _NOISELESS * float(self.shift.norm()):
            return rows.T @ blank / blank.norm() ** 2, math.inf
        whitened = torch.where(noisy, along / torch.where(noisy, spread, 1.0), 0.0)
        mu = float(whitened.norm())
        return rows.T @ torch.where(noisy, whitened / torch.where(noisy, spread, 1.0), 0.0) / mu, mu


@dataclass(frozen=True, eq=False)
class MixturePair:
    """One number a run, a mixture of Gaussians of one standard deviation on either data set: what sampling gives.

    Args:
      included: values and weights of the components with the example, `(2, components)` float64.
      without: the same without it, the components in any number.
      std: of every component, above 0.

    Raises:
      ValueError: for weights that are negative or do not sum to 1, or a `std` that is not positive.

    Example:
      >>> coin = MixturePair(np.array([[0.0, 1.0], [0.5, 0.5]]), np.array([[0.0], [1.0]]), std=1.0)
      >>> round(coin.epsilon(1e-5), 2)  # half of the runs leave the example out
      3.53
    """

    included: NDArray[np.float64]
    without: NDArray[np.float64]
    std: float

    def __post_init__(self) -> None:
        validate.positive(std=self.std)
        for name in ("included", "without"):
            mixture = np.asarray(getattr(self, name), dtype=np.float64)
            if mixture.ndim != 2 or len(mixture) != 2 or not np.isfinite(mixture).all() or (mixture[1] < 0).any():
                raise ValueError(f"Expected {name} to be finite values and weights >= 0, (2, components).")
            if not math.isclose(mixture[1].sum(), 1, rel_tol=1e-9):
                raise ValueError(f"Expected the weights of {name} to sum to 1, not {mixture[1].sum()!r}.")
            object.__setattr__(self, name, mixture)

    @staticmethod
    def of(
        release: Callable[[Tensor, Tensor, Tensor], Tensor],
        without: Tensor,
        included: Tensor,
        coins: Tensor,
        weights: Tensor,
        num_draws: int,
    ) -> "MixturePair":
        """The pair of a sampled release, found by giving it every outcome of its coins, and then unit draws.

        Args:
          release: `release(data, coins, noise)` to one number a run, `(runs,)`; linear in its noise, whose effect
            does not depend on the coins.
          without: one data set, without a runs axis.
          included: its neighbour.
          coins: `(outcomes, ...)`, one of each kind.
          weights: `(outcomes,)`, their probabilities.
          num_draws: how many standard normals the release asks for.
        """
        validate.at_least(1, num_draws=num_draws)
        zeros = torch.zeros(len(coins), num_draws, dtype=torch.float64)
        mixtures = [
            torch.stack([release(data.expand(len(coins), *data.shape), coins, zeros), weights]).numpy()
            for data in (included, without)
        ]
        unit = torch.eye(num_draws, dtype=torch.float64)
        first = coins[:1].expand(num_draws, *coins.shape[1:])
        each = release(without.expand(num_draws, *without.shape), first, unit) - mixtures[1][0, 0]
        return MixturePair(mixtures[0], mixtures[1], float(each.norm()))

    def epsilon(self, delta: float) -> float:
        """An epsilon that this pair forces, at `delta` in (0, 1), in either direction; infinite above 700.

        The line is cut into cells and only a cell's whole probability is used. That is post-processing, so the result
        never exceeds the pair's epsilon; with 4,000 cells it is below it by less than a thousandth.
        """
        validate.between(0, 1, delta=delta)
        cells = self._cells()

        def excess(epsilon: float) -> float:  # the delta of the cells, in the worse direction
            one, other = (np.maximum(p - math.exp(epsilon) * q, 0).sum() for p, q in (cells, cells[::-1]))
            return float(max(one, other))

        if excess(0.0) <= delta:
            return 0.0
        if excess(700.0) > delta:
            return math.inf
        low, high = 0.0, 700.0
        while high - low > 1e-9:
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > delta else (low, middle)
        return low

    def score(self, outputs: Tensor) -> Tensor:
        """The output itself, `(runs,)`, turned so that the example raises its mean."""
        return self._sign * outputs.double()

    def rates(self, threshold: float) -> tuple[float, float]:
        """How probable `score > threshold` is with the example, and without it."""
        validate.real(threshold=threshold)
        return self._tail(self.included, threshold), self._tail(self.without, threshold)

    def threshold(self, epsilon: float, delta: float) -> float:
        """The threshold at which the fewest runs refute the claim (epsilon, delta), as the normal law has it."""
        _check(epsilon, delta)
        return _surest(self.rates, self._grid, epsilon, delta)

    def strongest_threshold(self, runs: int, delta: float, level: float) -> float:
        """The threshold that promises the largest bound from so many runs on each side."""
        validate.at_least(1, runs=runs)
        return _strongest(self.rates, self._grid, runs, delta, level)

    @property
    def _grid(self) -> NDArray[np.float64]:
        values = self._sign * np.concatenate([self.included[0], self.without[0]])
        return np.linspace(values.min() - 6 * self.std, values.max() + 8 * self.std, 1000)

    @property
    def _sign(self) -> float:
        return 1.0 if self.included[0] @ self.included[1] >= self.without[0] @ self.without[1] else -1.0

    def _tail(self, mixture: NDArray[np.float64], threshold: float) -> float:
        from scipy.special import ndtr

        return float(ndtr((self._sign * mixture[0] - threshold) / self.std) @ mixture[1])

    def _cells(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        from scipy.special import ndtr

        values = np.concatenate([self.included[0], self.without[0]])
        edges = np.linspace(values.min() - 10 * self.std, values.max() + 10 * self.std, 4001)

        def of(mixture: NDArray[np.float64]) -> NDArray[np.float64]:
            total = np.zeros(len(edges) - 1)
            for first in range(0, mixture.shape[1], 200):  # components at once
                values, weights = mixture[:, first : first + 200]
                z = (edges[:, None] - values) / self.std
                # From the nearer tail, or the small probabilities would drown in rounding.
                below, above = ndtr(z), ndtr(-z)
                total += np.where(z[1:] <= 0, below[1:] - below[:-1], above[:-1] - above[1:]) @ weights
            return total

        return of(self.included), of(self.without)


def _check(epsilon: float, delta: float) -> None:
    validate.non_negative(epsilon=epsilon, delta=delta)


def _surest(
    rates: Callable[[float], tuple[float, float]], grid: NDArray[np.float64], epsilon: float, delta: float
) -> float:
    """Where `hit - delta - exp(epsilon) false_hit` is largest in units of its standard error."""
    factor = math.exp(min(epsilon, 700.0))

    def signal(threshold: float) -> float:
        hit, false_hit = rates(threshold)
        # The floor keeps events that hardly ever happen from looking certain.
        error = math.sqrt(hit * (1 - hit) + factor**2 * false_hit * (1 - false_hit) + 1e-12)
        return (hit - delta - factor * false_hit) / error

    return float(max(grid, key=signal))


def _strongest(
    rates: Callable[[float], tuple[float, float]], grid: NDArray[np.float64], runs: int, delta: float, level: float
) -> float:
    """Where the expected counts, rounded to the safe side, give the largest bound."""
    both = np.array([rates(threshold) for threshold in grid])
    hits, false_hits = np.floor(runs * both[:, 0]), np.ceil(runs * both[:, 1])
    return float(grid[np.argmax(epsilon_from_counts(hits, runs, false_hits, runs, delta=delta, level=level))])
