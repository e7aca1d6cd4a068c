"""The clipped, noised full-batch gradient, which is released while the budget lasts."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from dpnotes.core import WHOLE, Mechanism, Problem, Relation
from dpnotes.guarantees import Assumption, examples_apart
from dpnotes.oracles.release import Answer, Ask, Bound, Meter, ReleasePlan, Releases, ReleasingOracle, State
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.privacy.noise import TOLERANCE, NoisePlan
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.precision import flushed
from dpnotes.util.validate import Positive, checked

_LOSS_MECHANISM = Gaussian("clipped gradient: loss")


@dataclass(frozen=True)
class Memory:
    """The restorable part of the state: the states of the mechanism and of the noise plan."""

    noise: Any
    plan: Any


@checked
@dataclass(frozen=True)
class ClippedGradient(ReleasingOracle):
    """Algorithm 1 "Privatizing Gradients" (lines 1 to 4) of Hong, Wang and Zhou (2022), doi:10.1145/3531146.3533070.

    The algorithm, by its lines:
      1. request the cost of this step (`ask`) and average the gradients (`answer`), each scaled down to the norm
         `clip` if it is longer, and left out if it is not finite;
      2. if the residual budget covers the cost (`Filter.grant`, in `Releases.plan`):
      3.   subtract the cost (`Filter.grant`, `Meter.spent`);
      4.   release the average plus Gaussian noise (`mechanism.release`, in `Releases.release`);
      7. else the run ends with the status BUDGET_EXHAUSTED, before anything is drawn.

    Differences from the paper: the comparison in line 2 is `<=`, because with the printed `<` a schedule that sums to
    its budget loses its last step, and for a schedule fixed in advance it has a relative tolerance of 1e-9; the
    neighbouring relation is stated, and the noise scales with the sensitivity under it (the paper's is zero-out,
    `clip / num_examples`); a plan that uses losses pays for their release.

    Formal guarantees:
      Under `relation`, the releases of a run cost at most `noise.budget` in zCDP (Theorem 3.5 of the paper, with
      `R = 2 rho`). The sensitivity is enforced by clipping, for any loss of a problem that keeps its examples
      apart (for other problems it is assumed). It is that of exact arithmetic;
      rounding in float32 exceeded it by up to 1e-5 of itself in our tests, by 1e-4 with 16,384 examples. The number of
      examples is public.

    Args:
      problem: the problem to minimise.
      clip: the norm to which longer gradients of examples are scaled down, in units of loss over length, above 0.
      noise: the noise plan, for as many runs as the points have rows.
      relation: which data sets are neighbours, zero-out or replace-one; adding or removing an example would change
        the number of examples that the mean is divided by.
      mechanism: `Gaussian`; or `Exact` for a run without a guarantee (with the plan `FixedNoise.none`: a finite budget
        refuses it). If a mechanism does not declare Gaussian noise, the guarantee uses only that the budget is zCDP.
      loss_clip: the value to which larger losses of examples are clipped, where the plan uses losses, above 0.

    Raises:
      ValueError: if `clip` or `loss_clip` is not positive, the relation is another one, or the mechanism has the
        stream purpose of the losses' noise.
    """

    problem: Problem
    clip: Positive
    noise: NoisePlan
    relation: Relation = Relation.ZERO_OUT
    mechanism: Mechanism = Gaussian()
    loss_clip: Positive = 1.0

    def __post_init__(self) -> None:
        validate.one_of((Relation.ZERO_OUT, Relation.REPLACE_ONE), relation=self.relation)
        _ = self.releases

    @cached_property
    def releases(self) -> Releases:
        """The planning, making and accounting of this oracle's releases."""
        return Releases(
            self.noise.budget,
            self.relation,
            WHOLE,
            "enforced",
            self.mechanism,
            # A fixed schedule is known to fit the budget; only another order of summation may round differently.
            TOLERANCE if self.noise.fixed else 0.0,
            apart=examples_apart(self.problem),
            draws=(_LOSS_MECHANISM.purpose,),
        )

    @cached_property
    def _gradient(self) -> Bound:
        return self.releases.bound(self.clip, self.problem.num_examples)

    @cached_property
    def _loss(self) -> Bound:
        return self.releases.bound(self.loss_clip, self.problem.num_examples, span=True)

    def begin(self, x: Tensor) -> Memory:
        """The memory before the first release."""
        return Memory(self.mechanism.init(x), self.noise.init())

    def ask(self, state: State, x: Tensor) -> tuple[Ask, ...]:
        """The request for the mean gradient with the plan's noise, and for the mean loss if the plan uses losses."""
        multiplier, exists = self.noise.propose(state.memory.plan, state.meter.calls)
        num_examples, loss_multiplier = self.problem.num_examples, self.noise.loss_noise_multiplier()
        evaluations = None if loss_multiplier is None else num_examples
        work: Any = {"gradients": num_examples, "evaluations": evaluations, "exists": exists}
        gradient = Ask.with_multiplier(self._gradient, multiplier, **work)
        if loss_multiplier is None:
            return (gradient,)
        return gradient, Ask.with_multiplier(self._loss, loss_multiplier, mechanism=_LOSS_MECHANISM)

    def answer(self, plan: ReleasePlan, streams: Streams) -> tuple[Answer, ...]:
        """The means of clipped gradients and, if requested, of clipped losses."""
        gradients = self.problem.gradients(plan.x)
        norms = gradients.norms().nan_to_num(nan=torch.inf, posinf=torch.inf)
        # An example without a finite gradient counts as zero: it must not determine the run's status.
        scale = self.clip / self.problem.num_examples / norms.clamp_min(self.clip)
        mean = Answer(gradients.weighted_sum(flushed(scale)))
        if len(plan.asks) == 1:
            return (mean,)
        losses = gradients.losses.nan_to_num(nan=self.loss_clip).clamp(0, self.loss_clip)
        return mean, Answer(losses.mean(1, keepdim=True))

    def remember(self, plan: ReleasePlan, noise: Any, values: list[Tensor]) -> tuple[Memory, Tensor]:
        """The memory after a release, in which the plan has observed any released loss; and the gradient."""
        heard = plan.state.memory.plan
        if len(values) > 1:
            heard = self.noise.observe(heard, values[1][:, 0], plan.granted)
        return Memory(noise, heard), values[0]

    def bounds(self, meter: Meter, run: int) -> tuple[Assumption, ...]:
        """Return no assumption: clipping needs only the oracle's own, that no example enters another one's gradient."""
        return ()
