"""The terms of releasing the mean gradient of a batch: constant noise, a bound on the norms, a number of steps.

What `MinibatchGradient` and `FreshGradient` share: the sensitivity, the filter, the release, and what may be claimed.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from dpnotes import checks, validate
from dpnotes.core import FRESH, Estimate, Mechanism, Price, Problem, Relation, Release, Sampling, Sensitive, Status
from dpnotes.guarantees import (
    EXAMPLES_APART,
    EXAMPLES_MIX,
    OVERSPENT,
    STATISTICS_WITHOUT_NOISE,
    Assumption,
    Basis,
    Guarantee,
    bound_was_checked,
)
from dpnotes.privacy.accounting import Method, account, assumptions_of
from dpnotes.privacy.discrete import DiscreteGaussian
from dpnotes.privacy.events import Event, clipped_sensitivity
from dpnotes.privacy.filter import Filter, Spent
from dpnotes.privacy.mechanisms import Gaussian, Laplace
from dpnotes.privacy.noise import TOLERANCE
from dpnotes.streams import Streams

# Relative: how much longer than the bound a mean may be by its own rounding, in float32.
_ROUNDING = 1e-5


def statuses(active: Tensor, granted: Tensor, exists: Tensor) -> Tensor:
    """The status of each run, `(runs,)` int64: OK but for the active ones that were granted nothing.

    Of those the budget does not cover the next release (BUDGET_EXHAUSTED), or there is none (FINISHED).

    Example:
      >>> granted, exists = torch.tensor([True, False, False]), torch.tensor([True, True, False])
      >>> [Status(code).name for code in statuses(torch.ones(3).bool(), granted, exists).tolist()]
      ['OK', 'BUDGET_EXHAUSTED', 'FINISHED']
    """
    # In three kernels, which their numbers allow: BUDGET_EXHAUSTED is one more than FINISHED, and OK is 0.
    return (exists + int(Status.FINISHED)) * (active ^ granted)


def examples_apart(problem: Problem) -> tuple[Assumption, ...]:
    """What it rests on that an example's gradient is its own: nothing more where it is so by construction.

    Example:
      >>> from dpnotes.problems.quadratics import Quadratic
      >>> examples_apart(Quadratic.sample(torch.tensor([1.0]), num_examples=5, spread=0.5, seed=0))
      ()
    """
    if getattr(problem, "keeps_examples_apart", False):  # without the attribute nothing is known
        return ()
    return (EXAMPLES_MIX if getattr(problem, "mixes_examples", False) else EXAMPLES_APART,)


@dataclass(frozen=True)
class Meter:
    """What never goes back, `(runs,)` each: releases so far, and what the filter let through.

    `exceeded` of the `checked` gradients were longer than the bound. Both are exact counts over the data: they belong
    to whoever may see the data, and are covered by no guarantee.
    """

    calls: Tensor
    filter: Spent
    exceeded: Tensor
    checked: Tensor

    @property
    def spent(self) -> Tensor:
        """zCDP spent, without amplification, `(runs,)`."""
        return self.filter.total


@dataclass(frozen=True)
class BatchGradientState:
    """`belief` is the mechanism's memory and may be restored; `meter` may not."""

    belief: Any
    meter: Meter


@dataclass(frozen=True)
class Terms:
    """The terms of `num_steps` releases of a sum of gradients over a batch, divided by a public number.

    Args:
      noise_std: `(runs,)` float64, at least 0: the standard deviation of each coordinate of the noise on the *mean*.
      num_steps: releases of a run, at least 1.
      norm_bound: the longest a gradient can be, above 0.
      basis: what that rests on: enforced (clipped), proved, measured (on the data themselves) or assumed.
      divisor: the public number, above 0.
      sampling: how the batch was drawn.
      relation: which data sets are neighbours.
      mechanism: what adds the noise.
      apart: what it rests on that an example's gradient is its own (`examples_apart`).

    Raises:
      CombinationError: if no accountant knows this sampling under this relation.
      ValueError: outside these domains, or for a mechanism whose noise is not Gaussian.

    Example:
      >>> std = torch.tensor([0.5], dtype=torch.float64)
      >>> terms = Terms(std, 10, 1.0, "assumed", 4, Sampling.fixed_size(4, 100), Relation.REPLACE_ONE)
      >>> terms.sensitivity, terms.event(0).noise_multiplier, terms.declared()
      (0.5, 1.0, tensor([5.], dtype=torch.float64))
    """

    noise_std: Tensor
    num_steps: int
    norm_bound: float
    basis: Basis
    divisor: float
    sampling: Sampling
    relation: Relation
    mechanism: Mechanism = Gaussian()
    apart: tuple[Assumption, ...] = ()

    def __post_init__(self) -> None:
        validate.at_least(1, num_steps=self.num_steps)
        validate.one_of(("enforced", "proved", "measured", "assumed"), basis=self.basis)
        validate.instance(Tensor, noise_std=self.noise_std)
        validate.provides("release", "cost", mechanism=self.mechanism)
        if isinstance(self.mechanism, DiscreteGaussian | Laplace):
            raise ValueError(f"Expected mechanism={self.mechanism!r} to add Gaussian noise, which is what is claimed.")
        validate.positive(norm_bound=self.norm_bound, divisor=self.divisor)
        clipped_sensitivity(self.norm_bound, self.divisor, self.relation, self.sampling)
        valid = (self.noise_std >= 0) & self.noise_std.isfinite()
        if self.noise_std.dim() != 1 or self.noise_std.dtype != torch.float64 or not bool(valid.all()):
            raise ValueError(
                f"Expected noise_std={self.noise_std} to be finite numbers >= 0, (runs,) and float64: one a run."
            )

    @cached_property
    def sensitivity(self) -> float:
        """How far a neighbour moves the mean."""
        return clipped_sensitivity(self.norm_bound, self.divisor, self.relation, self.sampling)

    @cached_property
    def noise_multiplier(self) -> Tensor:
        """Noise over sensitivity, `(runs,)`, as the mechanism computes it: a tensor divided by a tensor."""
        return self.noise_std / self._sensitivities

    @cached_property
    def _sensitivities(self) -> Tensor:
        return torch.full_like(self.noise_std, self.sensitivity)

    def declared(self) -> Tensor:
        """The zCDP that no run exceeds, `(runs,)`, without amplification; infinite without noise."""
        one = 0.5 / self.noise_multiplier**2
        return one if self.sampling == FRESH else one * self.num_steps

    def event(self, run: int) -> Event:
        """All releases of a run, as the accountant reads them.

        Raises:
          ValueError: if they have no noise, or there is no such run.
        """
        validate.index(len(self.noise_std), run=run)
        count = 1 if self.sampling == FRESH else self.num_steps
        return Event(float(self.noise_multiplier[run]), self.relation, self.sampling, count)

    def take(self, index: Tensor) -> "Terms":
        """The terms of some of the runs."""
        return replace(self, noise_std=self.noise_std[index])

    # ------------------------------------------------------------ a release
    def init(self, x: Tensor) -> BatchGradientState:
        """The state before the first release, for points `x` `(runs, dim)`."""
        validate.same_length(x=x, noise_std=self.noise_std)
        zeros = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        meter = Meter(zeros, self._filter.init(), zeros.clone(), zeros.clone())
        return BatchGradientState(self.mechanism.init(x), meter)

    @cached_property
    def _filter(self) -> Filter:
        # What is declared is known to fit; only the sum of equal costs may round otherwise than their product.
        return Filter(self.declared(), TOLERANCE)

    def grant(self, state: BatchGradientState, active: Tensor) -> tuple[Tensor, Tensor, Spent]:
        """Which of the active runs get their next release, `(runs,)` bool, every run's status, what is spent then."""
        exists = state.meter.calls < self.num_steps
        cost = self.mechanism.cost(state.belief, self.noise_multiplier, self.sampling, None)
        granted, spent = self._filter.grant(state.meter.filter, cost, active & exists, self.sampling)
        return granted, statuses(active, granted, exists), spent

    def refuse(self, x: Tensor, granted: Tensor, status: Tensor) -> Estimate:
        """The estimate where no run was granted one."""
        price = Price(self.noise_multiplier, granted, self.relation, self.sampling)
        return Estimate(torch.zeros_like(x), price, torch.zeros_like(status), status)

    def release(
        self,
        state: BatchGradientState,
        mean: Tensor,
        granted: Tensor,
        spent: Spent,
        seen: tuple[Tensor, Tensor] | None,
        streams: Streams,
    ) -> tuple[BatchGradientState, Tensor, Price]:
        """Release the means of the granted runs, `(runs, dim)`.

        Args:
          state: as it was when they were granted.
          mean: the sum over the batch divided by the public number.
          granted: `(runs,)` bool, from `grant`.
          spent: from `grant`.
          seen: how many gradients exceeded the bound, and of how many that were looked at, `(runs,)` int64 each; None
            where nothing was compared, as where gradients are clipped.
          streams: the runs' randomness.
        """
        meter = state.meter
        basis = self.basis if self.basis in ("enforced", "proved") and not self.apart else "assumed"
        answer = Sensitive(mean, self._sensitivities, self.relation, basis, self.sampling)
        request = Release(answer, self.noise_std, meter.calls, granted)
        belief, gradient, price = self.mechanism.release(state.belief, request, streams)
        counts = meter.exceeded, meter.checked
        if seen is not None:
            counts = counts[0] + granted * seen[0], counts[1] + granted * seen[1]
        new = Meter(meter.calls + granted, spent, *counts)
        return BatchGradientState(belief, new), gradient, price

    def too_long(self, mean: Tensor, batch: Tensor | float) -> Tensor:
        """Whether a mean proves that one of its gradients exceeded the bound, `(runs,)` bool.

        Args:
          mean: `(runs, dim)`, the sum of gradients divided by the public number.
          batch: how many they were, `(runs,)` or one number.
        """
        length = torch.linalg.vector_norm(mean, dim=1, dtype=torch.float64)
        return ~(length <= self.norm_bound / self.divisor * (1 + _ROUNDING) * batch)

    # ------------------------------------------------------------ what may be claimed
    def assumptions(self, meter: Meter, run: int) -> tuple[Assumption, ...]:
        """What the sensitivity of a run rests on, with what the run saw of it."""
        validate.index(len(self.noise_std), run=run)
        if self.basis == "enforced":
            return self.clipping
        exceeded, checked = int(meter.exceeded[run]), int(meter.checked[run])
        if exceeded or (checked and self.basis != "proved"):
            bound = bound_was_checked(self.norm_bound, exceeded, checked)
        else:
            bound = Assumption(f"every gradient norm is at most {self.norm_bound:g}", self.basis)
        if self.basis == "proved":
            return bound, *self.apart
        neighbour = Assumption(f"a neighbour's own example has no gradient above {self.norm_bound:g} either", "assumed")
        return bound, neighbour, *self.apart

    @property
    def clipping(self) -> tuple[Assumption, ...]:
        """What the sensitivity of clipped gradients rests on."""
        return Assumption(f"gradients are clipped to {self.norm_bound:g}", "enforced", True), *self.apart

    def guarantee(
        self,
        state: BatchGradientState,
        delta: float,
        streams: Streams,
        *,
        not_covered: tuple[str, ...] = (),
        method: Method | None = None,
    ) -> tuple[Guarantee, ...]:
        """What each run may claim for its `num_steps` releases, whenever it stopped.

        Args:
          state: after the run.
          delta: in (0, 1).
          streams: the runs' randomness; whether it is a secret, and whether runs share it, is part of the claim.
          not_covered: what else depends on the data, such as `guarantees.TUNED_ON_PRIVATE_DATA`.
          method: the accountant, as `privacy.accounting.account`.

        Returns:
          One a run. A run that saw the bound exceeded claims nothing (`Guarantee.holds`): its epsilon is infinite, as
          it is without noise.
        """
        checks.settle()
        validate.between(0, 1, delta=delta)
        claims, about_runs = [], assumptions_of(streams)
        for run, multiplier in enumerate(self.noise_multiplier.tolist()):
            assumptions = (*about_runs, *self.assumptions(state.meter, run))
            if bool(state.meter.spent[run] > self.declared()[run] * (1 + TOLERANCE)):
                assumptions = (*assumptions, OVERSPENT)
            left = not_covered
            if (self.basis == "measured" or int(state.meter.checked[run])) and STATISTICS_WITHOUT_NOISE not in left:
                left = (*left, STATISTICS_WITHOUT_NOISE)
            if multiplier:
                claims.append(account([self.event(run)], delta, method, assumptions=assumptions, not_covered=left))
            else:
                claims.append(Guarantee(math.inf, delta, self.relation, "no noise", assumptions, left))
        return tuple(claims)
