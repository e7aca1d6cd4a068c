"""The clipped, noised full-batch gradient, released while the budget lasts."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from dpnotes import checks, validate
from dpnotes.core import WHOLE, Estimate, Mechanism, Price, Problem, Relation, Release, Sensitive
from dpnotes.guarantees import Basis
from dpnotes.oracles.terms import examples_apart, statuses
from dpnotes.privacy.events import clipped_sensitivity
from dpnotes.privacy.filter import Filter, Spent
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.privacy.noise import TOLERANCE, NoisePlan
from dpnotes.streams import Streams

_LOSS_MECHANISM = Gaussian("clipped gradient: loss")


@dataclass(frozen=True)
class Meter:
    """What never goes back: releases so far `(runs,)`, what the filter let through, and the noise plan's state."""

    calls: Tensor
    filter: Spent
    plan: Any

    @property
    def spent(self) -> Tensor:
        """zCDP spent, `(runs,)`."""
        return self.filter.total


@dataclass(frozen=True)
class ClippedGradientState:
    """`belief` is the mechanism's memory and may be restored; `meter` may not."""

    belief: Any
    meter: Meter


@dataclass(frozen=True)
class ClippedGradient:
    """Algorithm 1 "Privatizing Gradients" (lines 1 to 4) of Hong, Wang and Zhou (2022), doi:10.1145/3531146.3533070.

    The algorithm, by its lines:
      1. request the cost of this step (`noise.propose`) and average the gradients (`problem.gradients`), each
         scaled down to the norm `clip` if it is longer, and left out if it is not finite;
      2. if the residual budget covers the cost (`Filter.grant`):
      3.   subtract the cost (`Filter.grant`, `Meter.spent`);
      4.   release the average plus Gaussian noise (`mechanism.release`);
      7. else the run ends with the status BUDGET_EXHAUSTED, before anything is drawn.

    Differences from the paper: the comparison in line 2 is `<=`, because with the printed `<` a schedule that sums to
    its budget loses its last step, and for a schedule fixed in advance it has a relative tolerance of 1e-9; the
    neighbouring relation is named, and the noise scales with the sensitivity under it (the paper's is zero-out,
    `clip / num_examples`); a plan that listens to the loss pays for the losses it hears.

    Formal guarantees:
      Under `relation`, the releases of a run cost at most `noise.budget` in zCDP (Theorem 3.5 of the paper, with
      `R = 2 rho`). The sensitivity is enforced by clipping, for any loss of a problem that keeps its examples
      apart (of another one it is assumed); it is that of exact arithmetic, which
      rounding in float32 exceeded by up to 1e-5 of itself in our tests. The number of examples is public.

    Args:
      problem: what is minimised.
      clip: the largest norm an example's gradient keeps, in units of loss over length, above 0.
      noise: the plan, for as many runs as the points have rows.
      relation: which data sets are neighbours, zero-out or replace-one; adding or removing an example would change
        the number of examples that the mean is divided by.
      mechanism: `Gaussian`; or `Exact` for a run that guarantees nothing (with the plan `FixedNoise.none`: a finite
        budget refuses it). Of `DiscreteGaussian` and `Laplace` the budget holds as zCDP, which `privacy.accounting`
        converts with `guarantee(..., fixed_noise=False)`.
      loss_clip: the largest loss an example keeps where the plan listens to losses, above 0.

    Raises:
      ValueError: if `clip` or `loss_clip` is not positive, the relation is another one, or the mechanism has the
        purpose that losses draw for.
    """

    problem: Problem
    clip: float
    noise: NoisePlan
    relation: Relation = Relation.ZERO_OUT
    mechanism: Mechanism = Gaussian()
    loss_clip: float = 1.0

    def __post_init__(self) -> None:
        validate.provides("gradients", "num_examples", problem=self.problem)
        validate.provides("propose", "budget", noise=self.noise)
        validate.provides("release", "cost", mechanism=self.mechanism)
        validate.instance(Relation, relation=self.relation)
        validate.positive(clip=self.clip, loss_clip=self.loss_clip)
        validate.one_of((Relation.ZERO_OUT, Relation.REPLACE_ONE), relation=self.relation)
        if getattr(self.mechanism, "purpose", None) == _LOSS_MECHANISM.purpose:
            raise ValueError(
                f"Expected mechanism={self.mechanism!r} to have another purpose: losses draw from this one."
            )

    def init(self, x: Tensor) -> ClippedGradientState:
        """The state before the first release, for points `x` `(runs, dim)`."""
        validate.same_length(x=x, noise_plan=self.noise.budget)
        calls = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        return ClippedGradientState(self.mechanism.init(x), Meter(calls, self._filter.init(), self.noise.init()))

    @cached_property
    def _filter(self) -> Filter:
        # A fixed schedule is known to fit; only the order in which its costs are summed may round otherwise.
        return Filter(self.noise.budget, TOLERANCE if self.noise.fixed else 0.0)

    @cached_property
    def _basis(self) -> Basis:
        return "assumed" if examples_apart(self.problem) else "enforced"

    @cached_property
    def _sensitivity(self) -> Tensor:
        value = clipped_sensitivity(self.clip, self.problem.num_examples, self.relation)
        return torch.full_like(self.noise.budget, value)

    def estimate(
        self, state: ClippedGradientState, x: Tensor, streams: Streams, active: Tensor
    ) -> tuple[ClippedGradientState, Estimate]:
        """One private gradient at `x` for the runs in `active` whose budget covers it.

        Args:
          state: from `init` or the last call.
          x: `(runs, dim)`.
          streams: the runs' randomness.
          active: `(runs,)` bool.

        Returns:
          The next state, and the estimate; rows that were refused are zeros and carry their status.
        """
        meter = state.meter
        multiplier, exists = self.noise.propose(meter.plan, meter.calls)
        loss_multiplier = self.noise.loss_noise_multiplier()
        cost = self.mechanism.cost(state.belief, multiplier, WHOLE, None)
        if loss_multiplier is not None:
            cost = cost + _LOSS_MECHANISM.cost(x, loss_multiplier)
        granted, spent = self._filter.grant(meter.filter, cost, active & exists)
        status = statuses(active, granted, exists)
        if checks.known_empty(granted):
            nothing = Price(multiplier, granted, self.relation)
            return state, Estimate(torch.zeros_like(x), nothing, torch.zeros_like(meter.calls), status)

        gradients = self.problem.gradients(x)
        num_examples = self.problem.num_examples
        norms = gradients.norms().nan_to_num(nan=torch.inf, posinf=torch.inf)
        # An example without a finite gradient counts as zero: it must not decide what becomes of the run.
        scale = self.clip / num_examples / norms.clamp_min(self.clip)
        belief, gradient, price = self.mechanism.release(
            state.belief,
            Release(
                Sensitive(gradients.weighted_sum(scale), self._sensitivity, self.relation, self._basis),
                noise_std=multiplier * self._sensitivity,
                call=meter.calls,
                active=granted,
            ),
            streams,
        )
        plan = meter.plan
        if loss_multiplier is not None:
            plan, price = self._listen(plan, gradients.losses, loss_multiplier, price, meter.calls, granted, streams)
        new = ClippedGradientState(belief, Meter(meter.calls + granted, spent, plan))
        return new, Estimate(gradient, price, granted * num_examples, status)

    def _listen(
        self,
        plan: Any,
        losses: Tensor,
        loss_multiplier: Tensor,
        price: Price,
        calls: Tensor,
        granted: Tensor,
        streams: Streams,
    ) -> tuple[Any, Price]:
        """Release the mean clipped loss to the plan; both releases of the step as one price.

        Gaussian if both were; of any other pair the sum of their costs in zCDP is what is known.
        """
        # Losses lie in [0, loss_clip] once clipped, so replacing one moves the mean no further than removing it.
        sensitivity = torch.full_like(loss_multiplier, self.loss_clip / self.problem.num_examples)
        mean = losses.nan_to_num(nan=self.loss_clip).clamp(0, self.loss_clip).mean(1, keepdim=True)
        answer = Sensitive(mean, sensitivity, self.relation, self._basis)
        request = Release(answer, noise_std=loss_multiplier * sensitivity, call=calls, active=granted)
        _, released, loss_price = _LOSS_MECHANISM.release(_LOSS_MECHANISM.init(mean), request, streams)
        both = (price.noise_multiplier**-2 + loss_price.noise_multiplier**-2) ** -0.5
        price = replace(price, noise_multiplier=both, noise="gaussian" if price.noise == "gaussian" else "zcdp")
        return self.noise.observe(plan, released[:, 0], granted), price

    def declared(self) -> Tensor:
        """The zCDP that no run exceeds, `(runs,)`."""
        return self.noise.budget

    def take(self, index: Tensor) -> "ClippedGradient":
        """The oracle of some of the runs."""
        return replace(self, problem=self.problem.take(index), noise=self.noise.take(index))
