"""Privacy loss distributions of Gaussian noise on Poisson batches, many levels at once.

The library dp_accounting (its PLD, its composition, its truncation with the mass on the safe side) does the work. Only
the discretisation is written out, in numpy: the library's own evaluates every point in Python, which takes minutes for
a schedule of a thousand levels. The tests hold the two together.
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes.privacy.events import Event

_POINTS = 2**17  # at most, of one level; fewer of each where there are hundreds
_ALL_POINTS = 2**25  # of all levels
_LOG_TAIL = -50.0  # of the mass cut off a level; it is counted as lost privacy
_LOUDEST = 0.05  # the smallest noise multiplier: below it epsilon is in the hundreds, and exp(epsilon) soon overflows


@lru_cache(maxsize=64)
def epsilon(events: tuple[Event, ...], delta: float) -> float:
    """An upper bound on the epsilon of these events together, close to the least.

    Args:
      events: one relation; Gaussian noise on whole or Poisson batches, Laplace and pure ones on whole batches.
      delta: in (0, 1).

    Raises:
      ValueError: if a noise multiplier is below 0.05.

    Example:
      >>> from dpnotes.core import Relation, Sampling
      >>> round(epsilon((Event(1.0, Relation.ADD_OR_REMOVE, Sampling.poisson(0.01), 1000),), 1e-5), 2)
      1.83
    """
    composed = _composed(events)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(composed.get_epsilon_for_delta(delta))


@lru_cache(maxsize=16)
def _composed(events: tuple[Event, ...]) -> Any:
    """The distribution of all events, as a `PrivacyLossDistribution` of dp_accounting."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as library

    whole = math.fsum(e.count / e.noise_multiplier**2 for e in events if e.noise == "gaussian" and e.sampling.rate == 1)
    levels = [(1 / math.sqrt(whole), 1.0, 1)] if whole else []
    sampled = [e for e in events if e.noise == "gaussian" and e.sampling.rate < 1]
    levels += [(e.noise_multiplier, e.sampling.rate, e.count) for e in sampled]
    pure = [e for e in events if e.noise != "gaussian"]
    for multiplier in [level[0] for level in levels] + [e.noise_multiplier for e in pure]:
        if multiplier < _LOUDEST:
            raise ValueError(
                f"Expected noise_multiplier={multiplier:.4g} >= {_LOUDEST} (of all whole batches together): "
                "less noise has an epsilon of hundreds, and a distribution too large to hold."
            )
    interval = _interval(levels)

    def parts() -> Iterator[Any]:
        for level in levels:
            yield _level(*level, interval)
        for event in pure:
            if event.noise == "laplace":
                part = library.from_laplace_mechanism(event.noise_multiplier, value_discretization_interval=interval)
            else:
                worst = common.DifferentialPrivacyParameters(1 / event.noise_multiplier, 0.0)
                part = library.from_privacy_parameters(worst, value_discretization_interval=interval)
            yield part.self_compose(event.count) if event.count > 1 else part

    # In pairs, so that no long distribution meets many short ones, and few are held at a time.
    waiting: list[tuple[int, Any]] = []
    for part in parts():
        size = 1
        while waiting and waiting[-1][0] == size:
            size, part = 2 * size, waiting.pop()[1].compose(part)
        waiting.append((size, part))
    composed = waiting.pop()[1]
    while waiting:
        composed = waiting.pop()[1].compose(composed)
    return composed


def _interval(levels: Sequence[tuple[float, float, int]]) -> float:
    """The grid of losses: fine enough that rounding adds less than 0.03% to the composed standard deviation."""
    if not levels:
        return 1e-4
    # Connecting the dots adds at most a quarter, on average a sixth, of a squared interval to each level's variance.
    releases = sum(count for _, _, count in levels)
    variance = sum(c * q * q * math.expm1(min(1 / z**2, 50.0)) for z, q, c in levels) / releases
    widest = max(_bounds(z, q, "REMOVE")[1] - _bounds(z, q, "REMOVE")[0] for z, q, _ in levels)
    points = min(_POINTS, max(2**13, _ALL_POINTS // len(levels)))
    return max(min(math.sqrt(3e-3 * variance), 1e-3), widest / points)


def _loss(multiplier: float, rate: float, side: str) -> Any:
    from dp_accounting.pld import privacy_loss_mechanism as library

    return library.GaussianPrivacyLoss(
        multiplier,
        sampling_prob=rate,
        log_mass_truncation_bound=_LOG_TAIL,
        adjacency_type=library.AdjacencyType[side],
    )


@lru_cache(maxsize=4096)
def _bounds(multiplier: float, rate: float, side: str) -> tuple[float, float]:
    bounds = _loss(multiplier, rate, side).connect_dots_bounds()
    return bounds.epsilon_lower, bounds.epsilon_upper


def _level(multiplier: float, rate: float, count: int, interval: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as library

    remove = _mass(multiplier, rate, "REMOVE", interval)
    add = None if rate == 1 else _mass(multiplier, rate, "ADD", interval)
    part = library.PrivacyLossDistribution(remove, add)
    return part.self_compose(count) if count > 1 else part


def _mass(multiplier: float, rate: float, side: str, interval: float) -> Any:
    """Algorithm 1 of Doroshenko, Ghazi, Kamath, Kumar and Manurangsi (2022), arXiv:2207.04380, on a uniform grid."""
    from dp_accounting.pld import pld_pmf as library

    low, high = _bounds(multiplier, rate, side)
    first, last = math.floor(low / interval), math.ceil(high / interval)
    deltas = hockey_stick(np.arange(first, last + 1) * interval, multiplier, rate, side)
    deltas = np.minimum.accumulate(np.clip(deltas, 0.0, 1.0))
    steps = np.diff(deltas)
    mass = np.empty_like(deltas)
    mass[0] = 1 - deltas[0] + steps[0] / math.expm1(interval)
    mass[1:-1] = (steps[1:] - steps[:-1] * math.exp(interval)) / math.expm1(interval)
    mass[-1] = steps[-1] / math.expm1(-interval)
    return library.DensePLDPmf(interval, first, np.maximum(mass, 0.0), float(deltas[-1]), True)


def hockey_stick(
    epsilons: NDArray[np.floating[Any]], noise_multiplier: float, rate: float, side: str
) -> NDArray[np.floating[Any]]:
    """The least delta of a Gaussian mechanism on a Poisson batch, for each epsilon (negative ones too).

    With phi the density of noise of standard deviation z: between `(1 - q) phi(x) + q phi(x - 1)` and `phi(x)` if the
    example is removed ("REMOVE"), the other way round if it is added ("ADD"). Theorem 11 of Zhu, Dong and Wang (2022),
    arXiv:2106.08567, says that these two pairs dominate all others.

    Args:
      epsilons: any shape.
      noise_multiplier: z, above 0.
      rate: q, in (0, 1].
      side: "REMOVE" or "ADD".

    Example:
      >>> hockey_stick(np.array([0.0, 1.0]), 1.0, 0.1, "ADD").round(4)
      array([0.0383, 0.    ])
    """
    from scipy.special import ndtr

    z, q = noise_multiplier, rate
    sign = 1.0 if side == "REMOVE" else -1.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Where the loss of removing is sign * epsilon; below log(1 - q) it never is.
        threshold = z * z * np.log((np.exp(sign * epsilons) - (1 - q)) / q) + 0.5
    threshold = np.where(np.isnan(threshold), -np.inf, threshold)
    if side == "REMOVE":
        lower = ndtr(-threshold / z)
        upper = (1 - q) * lower + q * ndtr((1 - threshold) / z)
    else:
        upper = ndtr(threshold / z)
        lower = (1 - q) * upper + q * ndtr((threshold - 1) / z)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.nan_to_num(upper - np.exp(epsilons) * lower, nan=0.0)
