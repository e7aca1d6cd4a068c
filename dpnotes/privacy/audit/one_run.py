"""Many canaries in one run: Steinke, Nasr and Jagielski (2023), "Privacy auditing with one (1) training run".

arXiv:2305.08846v1. Each of m canaries is included or not by the toss of a fair coin; the run's output is scored, and
the auditor guesses for some canaries whether they were included, and abstains on the rest. Too many correct guesses
refute the claim.
"""

import functools
import math

import numpy as np
import torch
from torch import Tensor

from dpnotes.core import Relation
from dpnotes.privacy.audit.bounds import LowerBound
from dpnotes.util import validate


def one_run_p_value(num_canaries: int, num_guesses: int, num_correct: int, *, epsilon: float, delta: float) -> float:
    """The largest probability of so many correct guesses if the run was (epsilon, delta)-DP.

    Theorem 5.2 of Steinke, Nasr and Jagielski (2023), arXiv:2305.08846v1. With B binomial with `num_guesses` trials of
    success probability `exp(epsilon) / (1 + exp(epsilon))`:

      P(correct >= v) <= P(B >= v) + 2 m delta max_{i=1..m} P(v > B >= v - i) / i.

    Args:
      num_canaries: m, each included independently with probability 1/2; abstentions count.
      num_guesses: r, at most m; chosen without looking at the coins.
      num_correct: v, at most r.
      epsilon: the claim, at least 0.
      delta: in [0, 1]; two data sets are neighbours if one canary's coin differs.

    Example:
      >>> round(one_run_p_value(100, 100, 60, epsilon=0.0, delta=0.0), 4)
      0.0284
    """
    from scipy.stats import binom

    validate.at_least(1, num_canaries=num_canaries)
    validate.at_least(0, num_guesses=num_guesses, num_correct=num_correct)
    if not num_correct <= num_guesses <= num_canaries:
        raise ValueError(
            f"Expected num_correct={num_correct} <= num_guesses={num_guesses} <= num_canaries={num_canaries}."
        )
    validate.non_negative(epsilon=epsilon, delta=delta)
    if delta > 1:
        raise ValueError(f"Expected 0 <= delta={delta!r} <= 1.")
    accuracy = 1 / (1 + math.exp(-epsilon))
    pure = float(binom.sf(num_correct - 1, num_guesses, accuracy))
    if delta == 0 or num_correct == 0:
        return min(1.0, pure)
    below = np.cumsum(binom.pmf(np.arange(num_correct - 1, -1, -1), num_guesses, accuracy))
    worst = float(np.max(below / np.arange(1, num_correct + 1)))  # for i > v the sum is constant
    return min(1.0, pure + 2 * num_canaries * delta * worst)


def guess(scores: Tensor, num_included: int, num_excluded: int) -> Tensor:
    """The guesses from scores: included for the highest, excluded for the lowest, abstain for the rest.

    Args:
      scores: `(canaries,)`, or `(runs, canaries)`; high for canaries that seem to be included.
      num_included: the number of guesses "included".
      num_excluded: the number of guesses "excluded".

    Returns:
      1, -1 and 0, of the shape of `scores`.

    Raises:
      ValueError: for NaN, or for more guesses than canaries.

    Example:
      >>> guess(torch.tensor([0.1, 3.0, -2.0, 0.0]), 1, 1)
      tensor([ 0,  1, -1,  0])
    """
    validate.at_least(0, num_included=num_included, num_excluded=num_excluded)
    canaries = scores.shape[-1]
    if num_included + num_excluded > canaries:
        raise ValueError(
            f"Expected num_included={num_included} + num_excluded={num_excluded} <= {canaries}, the number of canaries."
        )
    if bool(scores.isnan().any()):
        raise ValueError("Expected scores without NaN.")
    order = scores.argsort(dim=-1, stable=True)
    guesses = torch.zeros_like(order)
    guesses.scatter_(-1, order[..., canaries - num_included :], 1)
    return guesses.scatter_(-1, order[..., :num_excluded], -1)


def one_run(included: Tensor, guesses: Tensor, *, delta: float, relation: Relation, level: float = 0.01) -> LowerBound:
    """The largest epsilon that the guesses about one run's canaries refute.

    Args:
      included: `(canaries,)` bool, the coins, fair and independent; flipping one gives a neighbouring data set.
      guesses: `(canaries,)`, 1 for included, -1 for excluded, 0 to abstain; their number is fixed beforehand.
      delta: in [0, 1).
      relation: the relation of two data sets that differ in one coin.
      level: in (0, 1), the largest probability with which the bound exceeds the true epsilon.

    Raises:
      ValueError: for lengths that disagree or other guesses.

    Example:
      >>> coins = torch.arange(1000) % 2 == 0
      >>> print(one_run(coins, 2 * coins.long() - 1, delta=0.0, relation=Relation.ZERO_OUT))
      epsilon >= 5.378 at delta = 0, zero-out-one, confidence 99%, from 1 run by 1000 right guesses of 1000
    """
    validate.same_length(included=included, guesses=guesses)
    validate.at_least(1, num_canaries=len(included))
    validate.between(0, 1, level=level)
    if included.dtype != torch.bool or bool(((guesses != 0) & (guesses.abs() != 1)).any()):
        raise ValueError("Expected included to be bool and guesses to be 1, 0 or -1.")
    canaries, made = len(included), int(guesses.ne(0).sum())
    correct = int(((guesses == 1) & included | (guesses == -1) & ~included).sum())

    low = _largest_refuted(canaries, made, correct, delta, level)
    return LowerBound(low, delta, relation, level, 1, f"{correct} right guesses of {made}")


@functools.lru_cache  # a study of many runs asks again and again for the same few counts
def _largest_refuted(canaries: int, made: int, correct: int, delta: float, level: float) -> float:
    """The largest epsilon with a p-value below the level, rounded down by at most 1e-9 of it; 0 if there is none."""

    def refuted(epsilon: float) -> bool:
        return one_run_p_value(canaries, made, correct, epsilon=epsilon, delta=delta) < level

    low = 0.0
    if made and refuted(0.0):
        high = 1.0
        while refuted(high):
            low, high = high, 2 * high
        while high - low > 1e-9 * high:  # `low` is always refuted
            middle = (low + high) / 2
            low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
