"""Lower bounds on epsilon from the hit counts of an attack.

An attack is an event of the released values. If the mechanism is (epsilon, delta)-DP, then for two neighbouring data
sets and any event `P(event | one) <= exp(epsilon) P(event | other) + delta`. Repeated runs bound the first probability
from below and the second from above (Clopper and Pearson 1934, doi:10.1093/biomet/26.4.404), each at half the level,
and `ln((lower - delta) / upper)` is the bound on epsilon (Jagielski, Ullman and Oprea 2020, arXiv:2006.07709v1).

The event must be chosen without looking at the runs on which it is counted: from known densities, or on other runs.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from dpnotes.core import Guarantee, Relation
from dpnotes.guarantees import CombinationError
from dpnotes.util import validate
from dpnotes.util.validate import AtLeastOne, NonNegative, Probability, checked


@checked
@dataclass(frozen=True)
class LowerBound:
    """The result of an audit: a lower bound on epsilon that is wrong with probability at most `level`.

    Args:
      epsilon: the bound, at least 0; 0 says nothing.
      delta: the delta for which the bound holds.
      relation: the relation of the two data sets.
      level: the largest probability with which the bound exceeds the true epsilon.
      runs: the number of runs.
      method: the method of computation, in words.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> print(LowerBound(1.25, 1e-5, Relation.ZERO_OUT, 0.01, 2000, "Clopper-Pearson"))
      epsilon >= 1.25 at delta = 1e-05, zero-out-one, confidence 99%, from 2,000 runs by Clopper-Pearson
    """

    epsilon: NonNegative
    delta: float
    relation: Relation
    level: float
    runs: AtLeastOne
    method: str

    def __post_init__(self) -> None:
        _check(self.delta, self.level)

    def exceeds(self, claim: Guarantee) -> bool:
        """Return whether the bound refutes the claim.

        Raises:
          CombinationError: if the bound and the claim have different neighbouring relations.
          ValueError: if they have different deltas.
        """
        if claim.relation != self.relation:
            raise CombinationError(
                f"Expected the claim's relation={claim.relation} to be the audit's, {self.relation}."
            )
        if claim.delta != self.delta:
            raise ValueError(f"Expected the claim's delta={claim.delta!r} to be the audit's, {self.delta!r}.")
        return self.epsilon > claim.epsilon

    def __str__(self) -> str:
        runs = f"{self.runs:,} run{'s' * (self.runs != 1)}"
        confidence = f"confidence {100 * (1 - self.level):g}%"
        return (
            f"epsilon >= {self.epsilon:.4g} at delta = {self.delta:g}, {self.relation}, {confidence}, from {runs} by "
            f"{self.method}"
        )


def epsilon_from_counts(
    hits: ArrayLike, runs: int, false_hits: ArrayLike, false_runs: int, *, delta: float, level: float
) -> NDArray[np.float64]:
    """The lower bounds on epsilon from counts, one for each entry of the counts.

    Args:
      hits: the number of the `runs` runs on one data set in which the event happened.
      runs: at least 1.
      false_hits: the number of the `false_runs` runs on its neighbour in which it happened; broadcast with `hits`.
      false_runs: at least 1.
      delta: in [0, 1).
      level: in (0, 1), half of which is used for each of the two probabilities.

    Returns:
      One bound per entry, 0 where the counts prove nothing.

    Raises:
      ValueError: outside these domains, for no runs, or for counts outside 0 to the number of runs.

    Example:
      >>> epsilon_from_counts([500, 990], 1000, [500, 10], 1000, delta=1e-5, level=0.01).round(3)
      array([0.   , 3.829])
    """
    from scipy.special import betaincinv

    _check(delta, level)
    validate.at_least(1, runs=runs, false_runs=false_runs)
    first, second = np.broadcast_arrays(np.asarray(hits, np.float64), np.asarray(false_hits, np.float64))
    for name, counts, most in (("hits", first, runs), ("false_hits", second, false_runs)):
        wrong = ~((counts >= 0) & (counts <= most) & (counts == np.floor(counts)))
        if wrong.any():
            raise ValueError(f"Expected {name}={counts[wrong].flat[0].item()!r} to be a whole number from 0 to {most}.")
    # The ends of the interval are quantiles of Beta distributions; at 0 or all hits one of them is 0 or 1.
    lower = np.where(first > 0, betaincinv(np.maximum(first, 1), runs - first + 1, level / 2), 0.0)
    upper = np.where(
        second < false_runs, betaincinv(second + 1, np.maximum(false_runs - second, 1), 1 - level / 2), 1.0
    )
    return np.log(np.maximum((lower - delta) / upper, 1.0))


def choose_threshold(scores: Tensor, false_scores: Tensor, *, delta: float, level: float) -> float:
    """The threshold whose event `score > threshold` gives the largest bound on runs reserved for this choice.

    Args:
      scores: `(runs,)`, on the data set where scores should be high.
      false_scores: `(runs,)`, on its neighbour.
      delta: in [0, 1).
      level: in (0, 1), of the later bound.

    Returns:
      One of 200 quantiles of the pooled scores; the later bound must use other runs.

    Raises:
      ValueError: for no scores or NaN.

    Example:
      >>> import torch
      >>> choose_threshold(torch.arange(10, 20.0), torch.arange(10.0), delta=0.0, level=0.1)
      9.0
    """
    first, second = _scores(scores=scores), _scores(false_scores=false_scores)
    pooled = np.sort(np.concatenate([first, second]))
    candidates = np.unique(pooled[np.linspace(0, len(pooled) - 1, 200).round().astype(int)])
    hits, false_hits = (len(s) - np.searchsorted(np.sort(s), candidates, side="right") for s in (first, second))
    bounds = epsilon_from_counts(hits, len(first), false_hits, len(second), delta=delta, level=level)
    return float(candidates[np.argmax(bounds)])


def from_scores(
    scores: Tensor,
    false_scores: Tensor,
    *,
    delta: float,
    relation: Relation,
    level: float = 0.01,
    threshold: float | None = None,
) -> LowerBound:
    """A lower bound on epsilon from an attack's scores of runs on two neighbouring data sets.

    If densities are known, the best score is the likelihood ratio (Neyman and Pearson), and its threshold is known
    beforehand (`GaussianPair.threshold`). Otherwise the threshold is chosen on the first half of the runs, and only the
    second half is counted. Either way the bound exceeds the true epsilon with probability at most `level`.

    Args:
      scores: `(runs,)`, on the data set where scores should be high, independent draws.
      false_scores: `(runs,)`, on its neighbour, independent of the others.
      delta: in [0, 1).
      relation: the relation of the two data sets.
      level: in (0, 1).
      threshold: chosen without these scores, or None.

    Raises:
      ValueError: outside these domains, for fewer than two runs per data set, or for NaN.

    Example:
      >>> from dpnotes.random.streams import Streams
      >>> import torch
      >>> noise = Streams.of(0, ["audit"]).normal("runs", 0, 4000)[0]
      >>> bound = from_scores(noise[:2000] + 2, noise[2000:], delta=1e-5, relation=Relation.ZERO_OUT, threshold=2.0)
      >>> round(bound.epsilon, 2)
      2.51
    """
    first, second = _scores(scores=scores), _scores(false_scores=false_scores)
    validate.at_least(2, num_scores=len(first), num_false_scores=len(second))
    validate.or_none(validate.real, threshold=threshold)
    if threshold is None:
        half, false_half = len(first) // 2, len(second) // 2
        threshold = choose_threshold(scores[:half], false_scores[:false_half], delta=delta, level=level)
        first, second = first[half:], second[false_half:]
        method = "Clopper-Pearson, threshold chosen on other runs"
    else:
        method = "Clopper-Pearson"
    hits, false_hits = int((first > threshold).sum()), int((second > threshold).sum())
    epsilon = float(epsilon_from_counts(hits, len(first), false_hits, len(second), delta=delta, level=level))
    return LowerBound(epsilon, delta, relation, level, len(first) + len(second), method)


# ---------------------------------------------------------------- the number of runs
def power(
    hit_rate: float, false_hit_rate: float, runs: int, *, epsilon: float, delta: float, level: float = 0.01
) -> float:
    """The probability that an audit of an event with these rates refutes the claim `epsilon`, summed exactly.

    Args:
      hit_rate: the event's probability on one data set.
      false_hit_rate: on its neighbour.
      runs: on each of the two.
      epsilon: the claim, at least 0.
      delta: in [0, 1).
      level: in (0, 1).

    Example:
      >>> round(power(1.0, 0.0, 100, epsilon=1.0, delta=1e-5), 3)
      1.0
      >>> power(0.5, 0.5, 100, epsilon=1.0, delta=1e-5) < 1e-6
      True
    """
    from scipy.special import betaincinv
    from scipy.stats import binom

    _check(delta, level)
    validate.at_least(1, runs=runs)
    validate.non_negative(epsilon=epsilon, hit_rate=hit_rate, false_hit_rate=false_hit_rate)
    if max(hit_rate, false_hit_rate) > 1:
        raise ValueError(f"Expected hit_rate={hit_rate!r} and false_hit_rate={false_hit_rate!r} <= 1.")
    spread = 12 * math.sqrt(runs * false_hit_rate * (1 - false_hit_rate)) + 12
    centre = runs * false_hit_rate
    false_hits = np.arange(max(0, math.floor(centre - spread)), min(runs, math.ceil(centre + spread)) + 1)
    upper = np.where(
        false_hits < runs, betaincinv(false_hits + 1, np.maximum(runs - false_hits, 1), 1 - level / 2), 1.0
    )
    # The claim is refuted if the lower confidence limit of the hit rate exceeds this, that is, if so many hits have
    # probability below level/2 under it.
    needed = delta + math.exp(min(epsilon, 700.0)) * upper
    fewest = binom.isf(level / 2, runs, np.minimum(needed, 1.0)) + 1
    caught = np.where(needed < 1, binom.sf(fewest - 1, runs, hit_rate), 0.0)
    return float(np.minimum(1.0, binom.pmf(false_hits, runs, false_hit_rate) @ caught))


@checked
def runs_for_power(
    hit_rate: float,
    false_hit_rate: float,
    *,
    epsilon: float,
    delta: float,
    level: float = 0.01,
    at_least: Probability = 0.99,
    most: AtLeastOne = 10_000_000,
) -> int:
    """The number of runs on each side with which an audit refutes the claim with probability `at_least`.

    Args:
      hit_rate: the event's probability on one data set.
      false_hit_rate: on its neighbour.
      epsilon: the claim, at least 0.
      delta: in [0, 1).
      level: in (0, 1).
      at_least: in (0, 1), the power asked for.
      most: the largest number of runs to try.

    Returns:
      A number with that power, found by doubling and bisection: the least one up to 200, at most 0.5% above it beyond.
      (The power is not monotone in the number of runs: a smaller number may have it, and a larger one just miss it.)

    Raises:
      ValueError: if `most` runs do not have that power.

    Example:
      >>> runs_for_power(1.0, 0.0, epsilon=1.0, delta=1e-5)
      17
    """

    def enough(runs: int) -> bool:
        return power(hit_rate, false_hit_rate, runs, epsilon=epsilon, delta=delta, level=level) >= at_least

    high = 1
    while not enough(high):
        if high >= most:
            raise ValueError(
                f"Expected most={most} runs to refute epsilon={epsilon:.4g}: hit_rate={hit_rate:.3g} and "
                f"false_hit_rate={false_hit_rate:.3g} do not differ enough for power {at_least}."
            )
        high = min(2 * high, most)
    low = high // 2
    while high - low > max(1, high // 200):  # `high` always has the power; 0.5% more runs do not matter
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@checked
def _check(delta: NonNegative, level: Probability) -> None:
    if delta >= 1:
        raise ValueError(f"Expected 0 <= delta={delta!r} < 1.")


def _scores(**named: Tensor) -> NDArray[np.float64]:
    """The checked scores of one argument as a numpy array."""
    ((name, scores),) = named.items()
    values = scores.detach().double().cpu().numpy()
    if values.ndim != 1 or not len(values):
        raise ValueError(f"Expected {name} of shape (runs,) with at least one run, got {values.shape}.")
    if np.isnan(values).any():
        raise ValueError(f"Expected {name} without NaN.")
    return values
