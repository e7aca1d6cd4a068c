"""Output distributions on two neighbouring data sets, in closed form, and the best attack on them.

All kinds of pair have the interface of `Pair` and need no samples. The distributions are derived from the code under
audit: its outputs for unit draws of its noise give the covariance, if it is linear in its noise and processes each run
separately. Both conditions are tested on both data sets: an irregular draw, its negative and 8 times it must give the
outputs predicted from unit draws, and a single run the same output as among other runs. These tests do not prove
linearity: the results are exact for code that is linear.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpnotes.privacy.audit.bounds import epsilon_from_counts
from dpnotes.util import validate

_SAME = 1e-6  # relative: smaller differences between noises are rounding
_NOISELESS = 1e-9  # relative: smaller noise in a direction is rounding only
_MULTIPLES = (1.0, -1.0, 8.0)  # of the irregular draw; a clamp beyond 8 standard deviations hardly matters
_MOST_DRAWS = 2**14  # each is passed as a unit draw: 2 GiB in all


class Pair(ABC):
    """The interface of all pairs; each kind has its own closed form."""

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """A lower bound on every valid epsilon for this pair, at `delta` in (0, 1)."""

    @abstractmethod
    def score(self, outputs: Tensor) -> Tensor:
        """The attack's score of outputs, `(runs,)`; high if the example seems to be included."""

    @abstractmethod
    def rates(self, threshold: float) -> tuple[float, float]:
        """The probabilities of `score > threshold` with the example and without it."""

    def threshold(self, epsilon: float, delta: float) -> float:
        """The threshold at which the fewest runs refute the claim (epsilon, delta), by the normal approximation."""
        validate.non_negative(epsilon=epsilon, delta=delta)
        if delta >= 1:
            raise ValueError(f"Expected 0 <= delta={delta!r} < 1.")
        factor = math.exp(min(epsilon, 354.0))  # its square is finite

        def signal(threshold: float) -> float:  # hit - delta - exp(epsilon) false_hit, in units of its standard error
            hit, false_hit = self.rates(threshold)
            # The small constant keeps very rare events from looking certain.
            error = math.sqrt(hit * (1 - hit) + factor**2 * false_hit * (1 - false_hit) + 1e-12)
            return (hit - delta - factor * false_hit) / error

        return float(max(self._grid, key=signal))

    def strongest_threshold(self, runs: int, delta: float, level: float) -> float:
        """The threshold whose expected counts in `runs` runs per data set, rounded safely, give the largest bound."""
        validate.at_least(1, runs=runs)
        grid = self._grid
        both = np.array([self.rates(threshold) for threshold in grid])
        hits, false_hits = np.floor(runs * both[:, 0]), np.ceil(runs * both[:, 1])
        return float(grid[np.argmax(epsilon_from_counts(hits, runs, false_hits, runs, delta=delta, level=level))])

    @property
    @abstractmethod
    def _grid(self) -> NDArray[np.float64]:
        """The candidate thresholds."""


@dataclass(frozen=True, eq=False)
class GaussianPair(Pair):
    """A pair of Gaussians with one covariance and the means `mean` and `mean + shift`.

    With S the covariance, the pair is equivalent to N(0, 1) and N(mu, 1), `mu^2 = shift' S^-1 shift`, and its epsilon
    at delta is that of one Gaussian mechanism (Dong, Roth and Su 2019, arXiv:1905.02383v3; Balle and Wang 2018,
    arXiv:1805.06530v2, Theorem 8). A shift along a direction without noise makes both infinite.

    Args:
      mean: `(outputs,)` float64, without the example.
      shift: `(outputs,)`, what the example adds.
      noise: `(draws, outputs)`: the outputs' noise is `z @ noise` for `draws` standard normals z.

    Raises:
      ValueError: for shapes that disagree, NaN or infinite numbers.

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
        """The pair of a release that is linear in its noise, determined from its outputs for unit draws.

        Args:
          release: `release(data, noise)` maps `(runs, ...)` and `(runs, draws)` to `(runs, outputs)`, run by run.
          without: one data set, without a runs axis.
          included: its neighbour.
          num_draws: the number of standard normals that the release uses, at most 16,384.

        Raises:
          ValueError: if the noise is not the same on both data sets, or tests show that the release is not linear in
            it or mixes runs. (No number of tests proves the opposite.)

        Example:
          >>> pair = GaussianPair.of(lambda x, z: x + 3 * z, torch.zeros(2), torch.ones(2), 2)
          >>> pair.noise
          tensor([[3., 0.],
                  [0., 3.]], dtype=torch.float64)
        """
        mean, noise = _by_unit_draws(release, without, num_draws)
        moved = _outputs(release, included, _probes(num_draws))  # a draw in all coordinates: one row shows a difference
        if not _as_unit_draws_say(moved, noise):
            raise ValueError("Expected a release with the same noise on both data sets: for two scales see ScaledPair.")
        return GaussianPair(mean, moved[0].double() - mean, noise)

    @property
    def mu(self) -> float:
        """The distance of the pair, infinite if some output shows the example without noise."""
        return self._mu  # type: ignore[attr-defined]

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon that holds for this pair, at `delta` in (0, 1); exact."""
        from dpnotes.privacy.accounting import rho_to_epsilon

        return math.inf if math.isinf(self.mu) else rho_to_epsilon(self.mu**2 / 2, delta, "exact")

    def score(self, outputs: Tensor) -> Tensor:
        """The log likelihood ratio up to an affine map, `(runs,)` for outputs `(runs, outputs)`.

        It is standard normal without the example and normal around `mu` with it; 0 and 1 if `mu` is infinite.
        """
        direction = self._direction.to(outputs.device)  # type: ignore[attr-defined]
        return (outputs.double() - self.mean.to(outputs.device)) @ direction

    def rates(self, threshold: float) -> tuple[float, float]:
        """The probabilities of `score > threshold` with the example and without it."""
        from scipy.special import ndtr

        validate.real(threshold=threshold)
        if math.isinf(self.mu):
            return float(threshold < 1), float(threshold < 0)
        return float(ndtr(self.mu - threshold)), float(ndtr(-threshold))

    @property
    def _grid(self) -> NDArray[np.float64]:
        return np.array([0.5]) if math.isinf(self.mu) else np.linspace(-6, 10 + self.mu, 1000)

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
        scale = torch.where(noisy, spread, 1.0)
        whitened = torch.where(noisy, along / scale, 0.0)
        mu = float(whitened.norm())
        return rows.T @ (whitened / scale) / mu, mu


@dataclass(frozen=True, eq=False)
class MixturePair(Pair):
    """A pair of Gaussian mixtures with one standard deviation, one number per run, as sampling gives.

    Args:
      included: values and weights of the components with the example, `(2, components)` float64.
      without: the same without it, with any number of components.
      std: the standard deviation of every component, above 0.

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
        """The pair of a release on a sample, determined from all outcomes of its coins and from unit draws.

        Args:
          release: `release(data, coins, noise)` gives one number per run, `(runs,)`, run by run; it is linear in its
            noise, whose effect depends neither on the coins nor on the data.
          without: one data set, without a runs axis.
          included: its neighbour.
          coins: `(outcomes, ...)`, one of each kind.
          weights: `(outcomes,)`, their probabilities.
          num_draws: the number of standard normals that the release uses, at most 16,384.

        Raises:
          ValueError: for outputs of another shape, or if tests show that the effect of the noise is not as stated, or
            that runs are mixed.
        """
        probes, mixtures, outcomes = _probes(num_draws), [], []
        for data in (included, without):
            several = data.expand(len(coins), *data.shape)
            values = [release(several, coins, draws.expand(len(coins), num_draws)) for draws in probes]
            mixtures.append(_mixture(weights, values[0]))
            _check_alone(release(data[None], coins[-1:], probes[-1:]), values[-1][-1:])
            outcomes.append(torch.stack(values))

        def at_first_coin(values: Tensor, noise: Tensor) -> Tensor:
            return release(values, coins[:1].expand(len(noise), *coins.shape[1:]), noise)[:, None]

        _, each = _by_unit_draws(at_first_coin, without, num_draws)
        if not all(_as_unit_draws_say(values, each.expand(num_draws, len(coins))) for values in outcomes):
            raise ValueError("Expected a release with the same noise on both data sets, whatever its coins.")
        return MixturePair(mixtures[0], mixtures[1], float(each.norm()))

    def epsilon(self, delta: float) -> float:
        """A lower bound on this pair's epsilon at `delta` in (0, 1), for the worse direction; infinite above 700.

        The output is discretised into cells, of which only the probabilities are used. That is post-processing, so the
        result never exceeds the pair's epsilon; with 4,000 cells it is lower by less than a thousandth.
        """
        validate.between(0, 1, delta=delta)
        cells = self._cells()

        def excess(epsilon: float) -> float:  # the delta of the cells, in the worse direction
            one, other = (np.maximum(p - math.exp(epsilon) * q, 0).sum() for p, q in (cells, cells[::-1]))
            return float(max(one, other))

        return _smallest_epsilon(excess, delta)

    def score(self, outputs: Tensor) -> Tensor:
        """The output, `(runs,)`, with the sign for which the example does not lower its mean."""
        return self._sign * outputs.double()

    def rates(self, threshold: float) -> tuple[float, float]:
        """The probabilities of `score > threshold` with the example and without it."""
        validate.real(threshold=threshold)
        return self._tail(self.included, threshold), self._tail(self.without, threshold)

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
            values, weights = mixture
            z = (edges[:, None] - values) / self.std
            # From the nearer tail, since small probabilities would be lost in rounding.
            below, above = ndtr(z), ndtr(-z)
            return np.where(z[1:] <= 0, below[1:] - below[:-1], above[:-1] - above[1:]) @ weights

        return of(self.included), of(self.without)


@dataclass(frozen=True, eq=False)
class ScaledPair(Pair):
    """A pair of Gaussians N(means[i], stds[i]^2 I) whose noise scale differs with and without the example.

    The log likelihood ratio is affine in `|x - c|^2` for some centre c, which is noncentral chi-squared up to scale.
    Each output is a further observation of the scale, and many outputs identify it almost surely.

    Args:
      means: `(2, outputs)` float64, with the example and without it.
      stds: the standard deviations with the example and without it, above 0 and not equal.

    Raises:
      ValueError: for means of another shape or not finite, or standard deviations that are equal or not positive.

    Example:
      >>> [round(ScaledPair(torch.zeros(2, outputs), (1 / 3, 1 / 2)).epsilon(1e-5), 2) for outputs in (1, 10, 100)]
      [11.06, 20.98, 66.16]
    """

    means: Tensor
    stds: tuple[float, float]

    def __post_init__(self) -> None:
        if self.means.dim() != 2 or len(self.means) != 2 or not bool(self.means.isfinite().all()):
            raise ValueError(f"Expected means {tuple(self.means.shape)} to be (2, outputs), and finite.")
        included, without = self.stds
        validate.positive(std_included=included, std_without=without)
        if math.isclose(included, without, rel_tol=_NOISELESS):
            raise ValueError(f"Expected stds={self.stds} to differ: of one scale, they are a GaussianPair.")
        object.__setattr__(self, "means", self.means.detach().double().cpu())

    @staticmethod
    def of(
        release: Callable[[Tensor, Tensor], Tensor], without: Tensor, included: Tensor, num_draws: int
    ) -> "ScaledPair | GaussianPair":
        """The pair of a release that is linear in its noise, determined from unit draws on both data sets.

        If the noise has the same scale on both, the result is a `GaussianPair`.

        Args:
          release: `release(data, noise)` maps `(runs, ...)` and `(runs, draws)` to `(runs, outputs)`.
          without: one data set, without a runs axis.
          included: its neighbour.
          num_draws: the number of standard normals that the release uses, at most 16,384: one per output.

        Raises:
          ValueError: if the noise of an output is not its own draw times a factor common to all outputs, or tests show
            that the release is not linear in it or mixes runs.
        """
        means, stds = [], []
        for data in (included, without):
            mean, noise = _by_unit_draws(release, data, num_draws)
            std, alone = float(noise[0, 0]), torch.eye(num_draws, dtype=torch.float64)
            if noise.shape != alone.shape or not torch.allclose(noise, std * alone, rtol=_NOISELESS, atol=1e-12):
                raise ValueError("Expected a release whose noise is a multiple of the draws, the same for all outputs.")
            means.append(mean)
            stds.append(std)
        if math.isclose(*stds, rel_tol=_NOISELESS):
            return GaussianPair(means[1], means[0] - means[1], stds[0] * alone)
        return ScaledPair(torch.stack(means), (stds[0], stds[1]))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon that holds for this pair in both directions, `delta` in (0, 1); infinite above 700."""
        validate.between(0, 1, delta=delta)
        slope, level, _, _ = self._square

        def excess(epsilon: float) -> float:  # the delta of the best event, in the worse direction
            radius, other = ((side * epsilon - level) / slope for side in (1, -1))
            one, of_one = self._masses(radius, slope > 0)
            two, of_two = self._masses(other, slope < 0)
            return max(one - math.exp(epsilon) * of_one, of_two - math.exp(epsilon) * two)

        return _smallest_epsilon(excess, delta)

    def score(self, outputs: Tensor) -> Tensor:
        """The log likelihood ratio up to an affine map, `(runs,)` for outputs `(runs, outputs)`.

        It has mean 0 and variance 1 without the example.
        """
        slope, _, center, _ = self._square
        middle, spread = self._moments
        square = ((outputs.double() - center.to(outputs.device)) ** 2).sum(1)
        return math.copysign(1.0, slope) * (square - middle) / spread

    def rates(self, threshold: float) -> tuple[float, float]:
        """The probabilities of `score > threshold` with the example and without it."""
        validate.real(threshold=threshold)
        slope, *_ = self._square
        middle, spread = self._moments
        return self._masses(middle + math.copysign(spread, slope) * threshold, slope > 0)

    @property
    def _square(self) -> tuple[float, float, Tensor, tuple[float, float]]:
        """The log likelihood ratio as `slope |x - centre|^2 + level`; and the noncentrality of each side."""
        weights = [std**-2 for std in self.stds]
        slope = (weights[1] - weights[0]) / 2
        center = (weights[1] * self.means[1] - weights[0] * self.means[0]) / (2 * slope)
        away = [weight * float(((mean - center) ** 2).sum()) for weight, mean in zip(weights, self.means, strict=True)]
        level = self.means.shape[1] * math.log(self.stds[1] / self.stds[0]) + (away[1] - away[0]) / 2
        return slope, level, center, (away[0], away[1])

    def _masses(self, square: float, above: bool) -> tuple[float, float]:
        """The probabilities that `|x - centre|^2` is above `square`, or below it, with the example and without it."""
        from scipy.stats import ncx2

        *_, away = self._square
        tail = ncx2.sf if above else ncx2.cdf
        included, without = (
            float(tail(max(square, 0.0) / std**2, self.means.shape[1], noncentral))
            for std, noncentral in zip(self.stds, away, strict=True)
        )
        return included, without

    @property
    def _moments(self) -> tuple[float, float]:
        """The mean and standard deviation of `|x - centre|^2` without the example."""
        outputs, (*_, away) = self.means.shape[1], self._square
        return self.stds[1] ** 2 * (outputs + away[1]), self.stds[1] ** 2 * math.sqrt(2 * outputs + 4 * away[1])

    @property
    def _grid(self) -> NDArray[np.float64]:
        from scipy.stats import ncx2

        *_, away = self._square
        middle, spread = self._moments
        ends = [
            std**2 * ncx2.ppf(chance, self.means.shape[1], noncentral)
            for std, noncentral in zip(self.stds, away, strict=True)
            for chance in (1e-9, 1 - 1e-9)
        ]
        scores = math.copysign(1.0, self._square[0]) * (np.array(ends) - middle) / spread
        return np.linspace(scores.min(), scores.max(), 1000)


def _by_unit_draws(release: Callable[[Tensor, Tensor], Tensor], data: Tensor, num_draws: int) -> tuple[Tensor, Tensor]:
    """The output without noise, `(outputs,)`, and the change of the output by each unit draw, `(draws, outputs)`."""
    probes = _probes(num_draws)
    outputs = _outputs(release, data, torch.cat([torch.eye(num_draws, dtype=torch.float64), probes]))
    probed = outputs[num_draws:]
    mean = probed[0].double()
    noise = outputs[:num_draws].double() - mean
    if not _as_unit_draws_say(probed, noise):
        raise ValueError(
            "Expected a release linear in its noise: what it adds for an irregular draw, its negative or 8 times it is "
            "not what unit draws say."
        )
    return mean, noise


def _probes(num_draws: int) -> Tensor:
    """The test draws, `(4, draws)`: no noise, an irregular draw with both signs, its negative, and 8 times it."""
    validate.at_least(1, num_draws=num_draws)
    if num_draws > _MOST_DRAWS:
        raise ValueError(f"Expected {validate.shown('num_draws', num_draws)} to be at most {_MOST_DRAWS:,}.")
    place = torch.arange(1, num_draws + 1, dtype=torch.float64)
    irregular = torch.sin(place).sign() * (1 + place * (math.sqrt(5) + 1) / 2 % 1)  # of size 1 to 2
    return torch.stack([torch.zeros_like(place), *(multiple * irregular for multiple in _MULTIPLES)])


def _outputs(release: Callable[[Tensor, Tensor], Tensor], data: Tensor, draws: Tensor) -> Tensor:
    """The outputs of a release for these draws, `(runs, outputs)`; one draw is also tested alone."""
    outputs = release(data.expand(len(draws), *data.shape), draws)
    if outputs.dim() != 2 or len(outputs) != len(draws):
        raise ValueError(f"Expected release to give ({len(draws)}, outputs), got {tuple(outputs.shape)}.")
    if not outputs.is_floating_point():
        raise ValueError(f"Expected release to give floating-point numbers, got {outputs.dtype}.")
    _check_alone(release(data[None], draws[-2:-1]), outputs[-2:-1])  # not the last, which all runs might use
    return outputs


def _check_alone(alone: Tensor, among_others: Tensor) -> None:
    if alone.shape != among_others.shape or not _within(alone, among_others, _SAME * among_others.abs().max()):
        raise ValueError(
            "Expected a release that answers each run by itself, from the draws it is given: a run alone got another "
            "answer than among others. Data are (runs, ...): sums leave the first axis, as .sum(-1, keepdim=True) does."
        )


def _as_unit_draws_say(probed: Tensor, noise: Tensor) -> bool:
    """Return whether the outputs for `_probes` agree, up to rounding, with those predicted from unit draws."""
    rounding = 16 * torch.finfo(probed.dtype).eps * probed.double().abs().amax(0)
    irregular, multiples = _probes(len(noise))[1], torch.tensor(_MULTIPLES, dtype=torch.float64)
    added = (probed[1:].double() - probed[0].double()) / multiples[:, None]
    size = irregular.abs() @ noise.abs()
    return _within(added, irregular @ noise, _SAME * size + _NOISELESS * size.max() + rounding)


def _within(one: Tensor, other: Tensor, room: Tensor) -> bool:
    """Return whether two tensors differ by at most `room` everywhere; False for NaN."""
    return bool(((one - other).abs() <= room).all())


def _mixture(weights: Tensor, values: Tensor) -> NDArray[np.float64]:
    """The mixture of values and weights, `(2, outcomes)`."""
    if weights.shape != values.shape:
        raise ValueError(
            f"Expected weights, {tuple(weights.shape)}, and what release gives, {tuple(values.shape)}, "
            "to be (outcomes,)."
        )
    return torch.stack([values, weights]).numpy()


def _smallest_epsilon(excess: Callable[[float], float], delta: float) -> float:
    """The epsilon at which the decreasing function `excess` reaches `delta`; infinite above 700."""
    if excess(0.0) <= delta:
        return 0.0
    if excess(700.0) > delta:
        return math.inf
    low, high = 0.0, 700.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > delta else (low, middle)
    return low
