"""Privacy loss distributions of Gaussian noise on random batches and of pure mechanisms, for many noise levels.

The library dp_accounting converts a composed distribution to epsilon. The discretisation and the truncation after a
composition (pessimistic in both) follow the library's algorithms, but in numpy: the library evaluates every point in
Python, which takes minutes for a schedule of a thousand levels. Tests compare the two.

The grid of losses is as fine as the accuracy needs, and coarser where losses are many and large; the rounding to the
grid is pessimistic in either case. The mass that the rounding of Fourier transforms may take from a tail is counted as
lost privacy, and a delta below it has no finite epsilon here (`near_least` tells where the result is nearly tight).
A distribution of more than 2^22 points, which needs about a gigabyte, is refused before it is allocated
(`LimitError`). In both cases `dpnotes.privacy.accounting` uses Renyi divergences.
"""

import math
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotes.privacy.events import LEAST_NOISE, Event
from dpnotes.util import validate

_POINTS = 2**17  # the most points of one level; fewer where there are hundreds of levels
_ALL_POINTS = 2**25  # the most points of all levels together
_COMPOSED_POINTS = 2**22  # the most points of a composition
_LOSSES = 2**15  # the most points of a privacy profile
_LEAST_TAIL = math.exp(-50)  # mass cut off a single level; it is counted as lost privacy
_TAIL = 1e-15  # mass cut off a composition, counted likewise; half of it for each of several levels
# The mass per release that rounding in a convolution may move, counted likewise. Compared with sums over binomials
# (tests/privacy/test_accounting.py) the error is up to a fifth of this; a power of a spectrum multiplies it.
_ROUNDING = 2.0**-52
_NOTICEABLE = 1e-3  # of delta: if more mass is counted as lost, epsilon is noticeably too large
_QUIETEST = 1e6  # the largest noise multiplier: above it losses are smaller than the rounding of their probabilities
_LOUDEST = 0.05  # the smallest noise multiplier: below it epsilon is in the hundreds, and exp(epsilon) soon overflows


class LimitError(ValueError):
    """The error for a privacy loss distribution that is unknown, or too large or too narrow to compute."""


class _Level(NamedTuple):
    noise: str
    multiplier: float
    rate: float
    count: int
    replaced: bool = False  # an example of a batch of fixed size


def epsilon(events: tuple[Event, ...], delta: float) -> float:
    """A nearly tight upper bound on the epsilon of these events together.

    Args:
      events: of one relation; Gaussian noise on whole, Poisson or fixed-size batches, Laplace and pure on whole ones.
      delta: in (0, 1).

    Raises:
      LimitError: if a noise multiplier is below 0.05 or above 1e6, if the distribution of all events would have over
        2^22 points, or if rounding errors overflow for very many releases.

    Example:
      >>> from dpnotes.core import Relation, Sampling
      >>> round(epsilon((Event(1.0, Relation.ADD_OR_REMOVE, Sampling.poisson(0.01), 1000),), 1e-5), 2)
      1.83
    """
    validate.between(0, 1, delta=delta)
    return _epsilon(events, delta)


@lru_cache(maxsize=64)
def _epsilon(events: tuple[Event, ...], delta: float) -> float:
    composed, *_ = _composed(events)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(composed.get_epsilon_for_delta(delta))


def near_least(events: tuple[Event, ...], delta: float) -> bool:
    """Return whether `epsilon` is nearly tight: delta far exceeds the mass counted as lost, and the grid is fine.

    Then no other accountant needs to be tried: Renyi divergences lose some percent in their conversion.

    Example:
      >>> from dpnotes.core import Relation, Sampling
      >>> sampled = (Event(1.0, Relation.ADD_OR_REMOVE, Sampling.poisson(0.01), 1000),)
      >>> near_least(sampled, 1e-5), near_least(sampled, 1e-13)
      (True, False)
    """
    validate.between(0, 1, delta=delta)
    composed, fine, _ = _composed(events)
    return fine and bool(composed.get_delta_for_epsilon(math.inf) <= _NOTICEABLE * delta)


def profile(events: tuple[Event, ...]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The privacy profile of these events together: losses epsilon from 0 on, and an upper bound on delta at each.

    Between the losses delta is linear in e^epsilon, so that no more is known. Where there are over 2^15 some are left
    out, which leaves the others valid.

    Args:
      events: as `epsilon`.

    Raises:
      LimitError: as `epsilon`.

    Example:
      >>> from dpnotes.core import Relation
      >>> epsilons, deltas = profile((Event(1.0, Relation.ZERO_OUT, noise="laplace"),))
      >>> epsilons[[0, -1]], deltas[[0, -1]].round(4)
      (array([0., 1.]), array([0.3935, 0.    ]))
    """
    composed, _, losses = _composed(events)
    return losses, np.asarray(composed.get_delta_for_epsilon(losses))


@lru_cache(maxsize=16)
def _composed(events: tuple[Event, ...]) -> tuple[Any, bool, NDArray[Any]]:
    """The distribution of all events, a `PrivacyLossDistribution` of dp_accounting; if it is nearly tight; its losses.

    The losses are those from 0 on that may have mass, at most 2^15 of them.
    """
    from dp_accounting.pld import privacy_loss_distribution as library

    validate.at_least(1, num_events=len(events))
    if any(e.noise == "zcdp" for e in events):
        raise LimitError("Expected events with a known distribution, got noise='zcdp'; Renyi divergences know them.")
    whole = [e for e in events if e.noise == "gaussian" and e.sampling.rate == 1]
    others = [e for e in events if e.noise != "gaussian" or e.sampling.rate < 1]
    levels = [
        _Level(e.noise, e.noise_multiplier, e.sampling.rate, e.count, e.sampling.scheme == "fixed-size") for e in others
    ]
    if whole:  # together they are one Gaussian mechanism
        levels.append(_Level("gaussian", math.fsum(e.count / e.noise_multiplier**2 for e in whole) ** -0.5, 1.0, 1))
    for level in levels:
        if level.multiplier < _LOUDEST:
            raise LimitError(
                f"Expected noise_multiplier={level.multiplier:.4g} >= {_LOUDEST} (of all whole batches together): "
                "less noise has an epsilon of hundreds, and a distribution too large to hold."
            )
        if level.multiplier > _QUIETEST:
            raise LimitError(
                f"Expected noise_multiplier={level.multiplier:.4g} <= {_QUIETEST:g}: rounding would decide the answer."
            )
    tail = _TAIL / 2 if len(levels) > 1 else _LEAST_TAIL
    interval, fine = _interval(levels, tail)
    symmetric = all(level.rate == 1 or level.replaced for level in levels)
    sides = [_one_side(levels, side, interval, tail) for side in (("REMOVE",) if symmetric else ("REMOVE", "ADD"))]
    # If losses are near the rounding of their probabilities, the mass exceeds 1: the bound holds but is not tight.
    fine = fine and all(side.mass.sum() <= 1 + _NOTICEABLE for side in sides)
    last = max(0, *(side.first + len(side.mass) - 1 for side in sides))
    losses = np.append(np.arange(0, last, last // _LOSSES + 1), last) * interval
    return library.PrivacyLossDistribution(*(side.on_grid(interval) for side in sides)), fine, losses


def _one_side(levels: Sequence[_Level], side: str, interval: float, tail: float) -> "_Masses":
    """The composition of all levels in pairs, so that convolved lengths are similar and few are in memory."""
    waiting: list[tuple[int, _Masses]] = []
    rounding = _ROUNDING if sum(level.count for level in levels) > 1 else 0.0
    for level in levels:
        size, part = 1, _mass(level, side, interval, tail, rounding)
        while waiting and waiting[-1][0] == size:
            size, part = 2 * size, _joined(waiting.pop()[1], part)
        waiting.append((size, part))
    composed = waiting.pop()[1]
    while waiting:
        composed = _joined(waiting.pop()[1], composed)
    return composed


class _Masses(NamedTuple):
    """The mass on the grid from point `first` on, and the mass that was lost."""

    first: int
    mass: NDArray[Any]
    lost: float

    def on_grid(self, interval: float) -> Any:
        """The library's object for this mass."""
        from dp_accounting.pld import pld_pmf as library

        return library.DensePLDPmf(interval, self.first, self.mass, self.lost, True)


def _joined(one: _Masses, other: _Masses) -> _Masses:
    """The composition of two masses; each tail up to half of `_TAIL` is cut off, and the right one counts as lost."""
    from scipy import fft

    _check_size(points := len(one.mass) + len(other.mass) - 1)
    length = fft.next_fast_len(points, real=True)
    mass = fft.irfft(fft.rfft(one.mass, length) * fft.rfft(other.mass, length), length)[:points]  # type: ignore[operator]
    left = _prefix(mass, _TAIL / 2)
    right = max(len(mass) - _prefix(mass[::-1], _TAIL / 2), left + 1)
    kept = mass[left:right]
    kept[0] += mass[:left].sum()
    lost = one.lost + other.lost - one.lost * other.lost + mass[right:].sum()
    return _Masses(one.first + other.first + left, kept, float(lost))


def _prefix(mass: NDArray[Any], most: float) -> int:
    """The number of first points whose total mass is at most `most`; rounding makes some of them negative."""
    seen = 256  # mostly enough
    while not (above := np.cumsum(mass[:seen]) > most).any():
        if seen >= len(mass):
            return len(mass)
        seen *= 8
    return int(above.argmax())


def _check_size(points: int) -> None:
    if points > _COMPOSED_POINTS:
        raise LimitError(
            f"Expected a distribution of {points} <= {_COMPOSED_POINTS} points; Renyi divergences (method='RDP') need "
            "no such memory."
        )


def _interval(levels: Sequence[_Level], tail: float) -> tuple[float, bool]:
    """The grid of losses: fine enough that rounding adds less than 0.03% to the composed standard deviation.

    With batches of fixed size less than 0.005%. The grid is no coarser than 1e-3 (1e-4 without Gaussian noise) or,
    if larger, a ten-thousandth of that deviation, at most 0.1. Where that would take too many points the grid is
    coarser, and the second value returned is False.
    """
    # The "connect the dots" grid adds at most 1/4, on average 1/6, of a squared interval to each release's variance.
    variance = math.fsum(level.count * _variance(level) for level in levels)
    releases = sum(level.count for level in levels)
    coarsest = 1e-4 if all(level.noise != "gaussian" for level in levels) else 1e-3
    coarsest = max(coarsest, min(1e-4 * math.sqrt(variance), 0.1))
    widest = max(high - low for low, high in (_bounds(level, tail) for level in levels))
    points = min(_POINTS, max(2**13, _ALL_POINTS // len(levels)))
    finest = widest / points
    share = 5e-4 if any(level.replaced for level in levels) else 3e-3
    interval = max(asked := min(math.sqrt(share * variance / releases), coarsest), finest)
    # The largest loss of a pure mechanism is often attained, so it should lie on the grid.
    largest = max((1 / level.multiplier for level in levels if level.noise != "gaussian"), default=interval)
    return largest / math.ceil(largest / interval), finest <= asked


def _variance(level: _Level) -> float:
    """The approximate variance of the privacy loss of one release."""
    z, q = level.multiplier, level.rate
    if level.noise == "laplace":
        return min(z**-2, 3.0)
    if level.noise == "pure":
        return (z * math.cosh(0.5 / z)) ** -2
    return min(q * q * math.expm1(min(z**-2, 50.0)), q * z**-2 + q * (1 - q) * z**-4 / 4)


@lru_cache(maxsize=4096)
def _bounds(level: _Level, tail: float) -> tuple[float, float]:
    """The range of losses for removing the example, up to about this tail in all releases; `_mass` counts the rest."""
    if level.noise != "gaussian":
        return -1 / level.multiplier, 1 / level.multiplier
    from scipy.special import ndtri

    # The largest loss without sampling, up to half of the tail; the smallest is its mirror image.
    half = max(tail / level.count, _LEAST_TAIL) / 2
    exponent = (0.5 / level.multiplier - float(ndtri(half))) / level.multiplier
    if level.rate == 1:
        return -exponent, exponent
    high = math.log1p(level.rate * math.expm1(exponent))
    return -high if level.replaced else math.log1p(level.rate * math.expm1(-exponent)), high


def _mass(level: _Level, side: str, interval: float, tail: float, rounding: float = 0.0) -> _Masses:
    """The mass by Algorithm 1 of Doroshenko, Ghazi, Kamath, Kumar and Manurangsi (2022), arXiv:2207.04380."""
    low, high = _bounds(level, tail)
    low, high = (low, high) if side == "REMOVE" else (-high, -low)
    first, last = math.floor(low / interval), math.ceil(high / interval)
    epsilons = np.arange(first, last + 1) * interval
    if level.replaced:
        deltas = fixed_size_hockey_stick(epsilons, level.multiplier, level.rate)
    elif level.noise == "gaussian":
        deltas = hockey_stick(epsilons, level.multiplier, level.rate, side)
    else:
        deltas = pure_hockey_stick(epsilons, level.multiplier, level.noise)
    # Where rounding makes a delta larger than the one before it, the larger is used for both.
    deltas = np.maximum.accumulate(np.clip(deltas, 0.0, 1.0)[::-1])[::-1]
    steps = np.diff(deltas)
    mass = np.empty_like(deltas)
    mass[0] = 1 - deltas[0] + steps[0] / math.expm1(interval)
    mass[1:-1] = (steps[1:] - steps[:-1] * math.exp(interval)) / math.expm1(interval)
    mass[-1] = steps[-1] / math.expm1(-interval)
    mass = np.maximum(mass, 0.0)
    lost = float(deltas[-1])
    if level.count > 1:
        shift, mass = _self_convolved(mass, level.count)
        first, lost = first * level.count + shift, _TAIL - math.expm1(level.count * math.log1p(-lost))
    return _Masses(first, mass, lost + level.count * rounding)


def _self_convolved(mass: NDArray[Any], count: int) -> tuple[int, NDArray[Any]]:
    """The `count`-fold self-convolution, by a power of the spectrum: the index of its start, and the mass.

    The tails omitted by Chernoff bounds hold at most `_TAIL`. (The library's `common.self_convolve` tries orders that
    suit few releases; with many, the bounds are loose and the distribution fills the memory.)
    """
    from scipy import fft

    steps = np.arange(len(mass))
    mean = mass @ steps / mass.sum()
    variance = mass @ (steps - mean) ** 2 / mass.sum()
    # Every order gives a bound. The best order is near `gaussian` if the sum is nearly Gaussian, and near the library's
    # orders, `few`, if a few large losses dominate.
    gaussian, few = math.sqrt(-2 * math.log(_TAIL / 2) / (count * max(variance, 1e-2))), 1 / len(mass)
    orders = np.geomspace(min(gaussian / 3, few), max(gaussian * 3, 20 * few), 20)
    high = min(_chernoff(mass, count, orders), (len(mass) - 1) * count)
    low = max((len(mass) - 1) * count - _chernoff(mass[::-1], count, orders), 0)
    _check_size(high - low + 1)
    length = fft.next_fast_len(max(high - low + 1, len(mass)), real=True)
    spectrum = fft.rfft(mass, length)
    with np.errstate(over="ignore", invalid="ignore"):
        composed = fft.irfft(spectrum**count, length)  # type: ignore[operator]
    if not np.isfinite(composed).all():
        raise LimitError(f"Expected {count} releases with losses above the rounding of their probabilities.")
    return low, np.roll(composed, -low)[: high - low + 1]


def _chernoff(mass: NDArray[Any], count: int, orders: NDArray[Any]) -> int:
    """The Chernoff bound, best of some orders: the mass of the `count`-fold sum above it is at most half of `_TAIL`.

    The mass is first moved to the ends of some 500 blocks with its mean kept, which decreases no moment.
    """
    from scipy.special import logsumexp

    width = len(mass) // 512 + 1
    blocks = np.pad(mass, (0, -len(mass) % width)).reshape(-1, width)
    right = blocks @ (np.arange(width) / width)
    moved = np.append(blocks.sum(1) - right, 0.0) + np.append(0.0, right)
    with np.errstate(divide="ignore"):
        logs = np.log(moved) + orders[:, None] * width * np.arange(len(moved))
    bounds = (count * logsumexp(logs, axis=1) + math.log(2 / _TAIL)) / orders
    return math.ceil(np.nanmin(bounds))


def pure_hockey_stick(
    epsilons: NDArray[np.floating[Any]], noise_multiplier: float, noise: str
) -> NDArray[np.floating[Any]]:
    """The least delta of an (epsilon, 0)-DP mechanism on all examples, for each epsilon (negative ones too).

    For Laplace noise, or for randomised response of one bit, which is the worst case of all such mechanisms ("pure";
    Kairouz, Oh and Viswanath 2015, arXiv:1311.0776).

    Args:
      epsilons: any shape.
      noise_multiplier: 1 / epsilon, above 0.
      noise: "laplace" or "pure".

    Example:
      >>> pure_hockey_stick(np.array([0.0, 0.5, 1.0]), 1.0, "laplace").round(4)
      array([0.3935, 0.2212, 0.    ])
    """
    validate.positive(noise_multiplier=noise_multiplier)
    epsilons, largest = np.asarray(epsilons, np.float64), 1 / noise_multiplier
    inside = np.clip(epsilons, -largest, largest)
    if noise == "laplace":
        deltas = -np.expm1((inside - largest) / 2)
    else:
        deltas = -np.expm1(inside - largest) / (1 + math.exp(-largest))
    return np.where(epsilons < -largest, -np.expm1(np.minimum(epsilons, 0.0)), deltas) + 0.0  # no negative zero


def hockey_stick(
    epsilons: NDArray[np.floating[Any]], noise_multiplier: float, rate: float, side: str
) -> NDArray[np.floating[Any]]:
    """The least delta of a Gaussian mechanism on a Poisson batch, for each epsilon (negative ones too).

    With phi the density of noise of standard deviation z, the two distributions are `(1 - q) phi(x) + q phi(x - 1)` and
    `phi(x)` if the example is removed ("REMOVE"), and the reverse if it is added ("ADD"). By Theorem 11 of Zhu, Dong
    and Wang (2022), arXiv:2106.08567, these two pairs dominate all others.

    Args:
      epsilons: any shape.
      noise_multiplier: z, at least `events.LEAST_NOISE`.
      rate: q, in (0, 1].
      side: "REMOVE" or "ADD".

    Example:
      >>> hockey_stick(np.array([0.0, 1.0]), 1.0, 0.1, "ADD").round(4)
      array([0.0383, 0.    ])
    """
    from scipy.special import ndtr

    validate.positive(noise_multiplier=noise_multiplier, rate=rate)
    if rate > 1 or noise_multiplier < LEAST_NOISE:
        raise ValueError(f"Expected rate={rate!r} <= 1 and noise_multiplier={noise_multiplier!r} >= {LEAST_NOISE:g}.")
    validate.one_of(("REMOVE", "ADD"), side=side)
    epsilons, z, q = np.asarray(epsilons, np.float64), noise_multiplier, rate
    sign = 1.0 if side == "REMOVE" else -1.0
    with np.errstate(divide="ignore", over="ignore"):
        # The point where the loss of "REMOVE" is sign * epsilon; there is none below log(1 - q).
        ratio, factor = np.exp(sign * epsilons), np.exp(epsilons)
        above = np.maximum(ratio - (1 - q), 0.0)
        odds = above / q
        exponent = np.where(np.isinf(odds), np.log(above) - math.log(q), np.log(odds))
        beyond = np.isinf(ratio) | ((ratio == 0) & (q == 1))  # the range of float64
        threshold = z * z * np.where(beyond, sign * epsilons - math.log(q), exponent) + 0.5
    if side == "REMOVE":
        lower = ndtr(-threshold / z)
        upper = (1 - q) * lower + q * ndtr((1 - threshold) / z)
    else:
        upper = ndtr(threshold / z)
        lower = (1 - q) * upper + q * ndtr((threshold - 1) / z)
    with np.errstate(over="ignore", invalid="ignore"):
        # Where the factor overflows, the subtracted term is taken as 0, an upper bound.
        return np.where(np.isinf(factor), upper, np.fmax(upper - factor * lower, 0.0))


def fixed_size_hockey_stick(
    epsilons: NDArray[np.floating[Any]], noise_multiplier: float, rate: float
) -> NDArray[np.floating[Any]]:
    """A delta of a Gaussian mechanism on a batch of fixed size when an example is replaced, for each epsilon.

    For epsilon >= 0 it is `q H(log(1 + (e^epsilon - 1) / q))`, with H the least delta of the mechanism without sampling
    (Balle, Barthe and Gaboardi 2018, arXiv:1807.01647, Theorem 2); for epsilon < 0 it follows by exchanging the
    neighbours. It is tight for one release, and composes (docs/derivations/noisy_sgd.md, own.fixed_size).

    Args:
      epsilons: any shape, of any sign.
      noise_multiplier: z, the noise over the sensitivity to *replacing* an example, at least `events.LEAST_NOISE`.
      rate: q, batch size over examples, in (0, 1].

    Example:
      >>> fixed_size_hockey_stick(np.array([-1.0, 0.0, 1.0]), 1.0, 0.1).round(4)
      array([6.322e-01, 3.830e-02, 2.000e-04])
    """
    validate.positive(noise_multiplier=noise_multiplier, rate=rate)
    if rate > 1:
        raise ValueError(f"Expected rate={rate!r} <= 1.")
    sizes = np.abs(np.asarray(epsilons, np.float64))
    with np.errstate(over="ignore"):
        odds = np.expm1(sizes) / rate
        unsampled = np.where(np.isinf(odds), sizes - math.log(rate), np.log1p(odds))
        deltas = rate * hockey_stick(unsampled, noise_multiplier, 1.0, "REMOVE")
        mirrored = np.exp(-sizes) * deltas - np.expm1(-sizes)
    return np.where(np.asarray(epsilons) < 0, mirrored, deltas)
