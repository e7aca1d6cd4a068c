"""Noise schedules fixed in advance, which allocate a zCDP budget over the steps of a run.

A schedule is a numpy array of noise multipliers, without torch. It computes its total cost, and its constructor refuses
a total above the budget. A step with noise multiplier `s` costs `1 / (2 s^2)` in zCDP, and costs add up (Bun and
Steinke 2016, arXiv:1605.02065v1, Proposition 1.6 and Lemma 1.7). The papers' budget `R` is `2 rho`.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotes.util import validate
from dpnotes.util.validate import AtLeastOne, UnitInterval, checked


@dataclass(frozen=True, eq=False)
class NoiseSchedule:
    """Noise multipliers for steps 1 to T under a zCDP budget.

    Args:
      noise_multipliers: `(num_steps,)`, positive; noise standard deviation over sensitivity.
      rho: the zCDP budget, above 0.
      name: the label in plots and tables.

    Raises:
      ValueError: if a multiplier is not positive and finite, or the schedule spends more than `rho`.

    Example:
      >>> NoiseSchedule(np.array([1.0, 1.0]), rho=0.9, name="too loud")
      Traceback (most recent call last):
      ValueError: Expected 'too loud' to spend at most rho=0.9, but its 2 steps spend 1.
    """

    noise_multipliers: NDArray[np.float64]
    rho: float
    name: str

    def __post_init__(self) -> None:
        validate.positive(rho=self.rho)
        multipliers = np.array(self.noise_multipliers, dtype=np.float64)
        validate.at_least(1, num_steps=multipliers.size)
        if multipliers.ndim != 1:
            raise ValueError(f"Expected noise_multipliers of shape (num_steps,), got {multipliers.shape}.")
        _check_positive("noise_multipliers", multipliers)
        multipliers.setflags(write=False)
        object.__setattr__(self, "noise_multipliers", multipliers)
        if self.spent > self.rho:
            raise ValueError(
                f"Expected {self.name!r} to spend at most rho={self.rho:.12g}, "
                f"but its {self.num_steps} steps spend {self.spent:.12g}."
            )

    @property
    def num_steps(self) -> int:
        """The number of steps, T."""
        return len(self.noise_multipliers)

    @property
    def costs(self) -> NDArray[np.float64]:
        """The zCDP cost of each step, `(num_steps,)`."""
        return 0.5 / self.noise_multipliers**2

    @property
    def spent(self) -> float:
        """The zCDP cost of all steps, summed without intermediate rounding."""
        return math.fsum(self.costs)


def _check_positive(name: str, values: NDArray[np.float64]) -> None:
    for step in np.flatnonzero(~((values > 0) & np.isfinite(values)))[:1]:
        raise ValueError(f"Expected 0 < {name}[{step}]={values[step]} < inf.")


def from_shares(shares: ArrayLike, rho: float, name: str) -> NoiseSchedule:
    """The schedule that gives step t the fraction `shares[t] / sum(shares)` of the budget.

    Args:
      shares: `(num_steps,)`, positive; only their ratios matter.
      rho: the zCDP budget, above 0; it is spent completely, up to rounding down.
      name: the label in plots and tables.

    Raises:
      ValueError: if a share is not positive, or so small compared with the others that its noise overflows.

    Example:
      >>> from_shares([1, 3], rho=0.5, name="rising").costs.round(3)
      array([0.125, 0.375])
    """
    validate.positive(rho=rho)
    share = np.asarray(shares, dtype=np.float64)
    validate.at_least(1, num_steps=share.size)
    _check_positive("shares", share)
    return on_the_private_side(np.sqrt(math.fsum(share) / (2 * rho * share)), rho, name)


def on_the_private_side(noise_multipliers: NDArray[np.float64], rho: float, name: str) -> NoiseSchedule:
    """The schedule with its noise increased in the last bits, so that its total cost does not exceed the budget.

    Args:
      noise_multipliers: `(num_steps,)`, positive, spending at most `rho` up to a relative 1e-9.
      rho: the zCDP budget, above 0.
      name: the label in plots and tables.

    Raises:
      ValueError: if the total exceeds the budget by more than rounding.

    Example:
      >>> on_the_private_side(np.full(10, 5**0.5), rho=1.0, name="ten steps").spent <= 1.0
      True
    """
    validate.positive(rho=rho)
    spent = NoiseSchedule(noise_multipliers, rho * (1 + 1e-9), name).spent
    lifted = noise_multipliers * math.sqrt(max(1.0, spent / rho))
    while math.fsum(0.5 / lifted**2) > rho:
        lifted = lifted * (1 + 2**-52)
    return NoiseSchedule(lifted, rho, name)


def uniform(rho: float, num_steps: int) -> NoiseSchedule:
    """The schedule with the same noise at every step: `sigma_t^2 = T / (2 rho)`.

    Example:
      >>> float(uniform(rho=0.5, num_steps=4).noise_multipliers[0])
      2.0
    """
    validate.at_least(1, num_steps=num_steps)
    return from_shares(np.ones(num_steps), rho, "uniform")


def from_influence(influence: ArrayLike, rho: float, name: str = "dynamic") -> NoiseSchedule:
    """The schedule that minimises `sum_t influence_t sigma_t^2` under the budget.

    By Cauchy and Schwarz the cost of step t is proportional to `sqrt(influence_t)` (Lemma 4.4 of Hong, Wang and
    Zhou 2022, doi:10.1145/3531146.3533070).

    Args:
      influence: `(num_steps,)`, positive: the increase of the final loss per unit of noise variance at step t.
      rho: the zCDP budget, above 0.
      name: the label in plots and tables.

    Example:
      >>> from_influence([1, 4], rho=0.75).costs.round(3)
      array([0.25, 0.5 ])
    """
    values = np.asarray(influence, dtype=np.float64)
    _check_positive("influence", values)
    return from_shares(np.sqrt(values), rho, name)


@checked
def exponential(rate: UnitInterval, rho: float, num_steps: AtLeastOne) -> NoiseSchedule:
    """The optimal schedule for the influence `q_t = rate^(T - t)`: noise variance times `sqrt(rate)` per step.

    Args:
      rate: in (0, 1); 1 would be uniform.
      rho: the zCDP budget, above 0.
      num_steps: T, at least 1.

    Example:
      >>> schedule = exponential(rate=0.81, rho=0.5, num_steps=3)
      >>> (schedule.noise_multipliers[1:] ** 2 / schedule.noise_multipliers[:-1] ** 2).round(6)
      array([0.9, 0.9])
    """
    steps_left = np.arange(num_steps - 1, -1, -1)
    return from_shares(np.exp(0.5 * steps_left * math.log(rate)), rho, f"exponential {rate:g}")


@checked
def step_decay(factor: UnitInterval, period: AtLeastOne, rho: float, num_steps: AtLeastOne) -> NoiseSchedule:
    """The step decay of Yu et al. (2019), arXiv:1904.02200v1: the multiplier falls by `factor` every `period` steps.

    Args:
      factor: in (0, 1).
      period: steps between two falls, at least 1.
      rho: the zCDP budget, above 0.
      num_steps: T, at least 1.

    Example:
      >>> step_decay(factor=0.5, period=1, rho=2.5, num_steps=2).costs.round(3)
      array([0.5, 2. ])
    """
    return from_shares(factor ** (-2.0 * (np.arange(num_steps) // period)), rho, f"step decay {factor:g}/{period}")
