"""The clipped, noised full-batch gradient, released while the budget lasts."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from dpnotes.core import WHOLE, Mechanism, Problem, Relation
from dpnotes.guarantees import Assumption, examples_apart
from dpnotes.oracles.release import Answer, Ask, Bound, Desk, Meter, OnDesk, Plan, State
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.privacy.noise import TOLERANCE, NoisePlan
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.precision import flushed

_LOSS_MECHANISM = Gaussian("clipped gradient: loss")


@dataclass(frozen=True)
class Belief:
    """What follows from what was released, and may be restored: the memories of the mechanism and of the noise plan."""

    noise: Any
    plan: Any


@dataclass(frozen=True)
class ClippedGradient(OnDesk):
    """Algorithm 1 "Privatizing Gradients" (lines 1 to 4) of Hong, Wang and Zhou (2022), doi:10.1145/3531146.3533070.

    The algorithm, by its lines:
      1. request the cost of this step (`ask`) and average the gradients (`answer`), each scaled down to the norm
         `clip` if it is longer, and left out if it is not finite;
      2. if the residual budget covers the cost (`Filter.grant`, in `Desk.plan`):
      3.   subtract the cost (`Filter.grant`, `Meter.spent`);
      4.   release the average plus Gaussian noise (`mechanism.release`, in `Desk.release`);
      7. else the run ends with the status BUDGET_EXHAUSTED, before anything is drawn.

    Differences from the paper: the comparison in line 2 is `<=`, because with the printed `<` a schedule that sums to
    its budget loses its last step, and for a schedule fixed in advance it has a relative tolerance of 1e-9; the
    neighbouring relation is named, and the noise scales with the sensitivity under it (the paper's is zero-out,
    `clip / num_examples`); a plan that listens to the loss pays for the losses it hears.

    Formal guarantees:
      Under `relation`, the releases of a run cost at most `noise.budget` in zCDP (Theorem 3.5 of the paper, with
      `R = 2 rho`). The sensitivity is enforced by clipping, for any loss of a problem that keeps its examples
      apart (of another one it is assumed); it is that of exact arithmetic, which
      rounding in float32 exceeded by up to 1e-5 of itself in our tests, by 1e-4 with 16,384 examples. The number of
      examples is public.

    Args:
      problem: what is minimised.
      clip: the largest norm an example's gradient keeps, in units of loss over length, above 0.
      noise: the plan, for as many runs as the points have rows.
      relation: which data sets are neighbours, zero-out or replace-one; adding or removing an example would change
        the number of examples that the mean is divided by.
      mechanism: `Gaussian`; or `Exact` for a run that guarantees nothing (with the plan `FixedNoise.none`: a finite
        budget refuses it). Of one that does not say that its noise is Gaussian the budget is claimed as zCDP.
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
        _ = self.desk

    @cached_property
    def desk(self) -> Desk:
        """The terms of its releases."""
        return Desk(
            self.noise.budget,
            self.relation,
            WHOLE,
            "enforced",
            self.mechanism,
            # A fixed schedule is known to fit; only the order in which its costs are summed may round otherwise.
            TOLERANCE if self.noise.fixed else 0.0,
            apart=examples_apart(self.problem),
            draws=(_LOSS_MECHANISM.purpose,),
        )

    @cached_property
    def _gradient(self) -> Bound:
        return self.desk.bound(self.clip, self.problem.num_examples)

    @cached_property
    def _loss(self) -> Bound:
        return self.desk.bound(self.loss_clip, self.problem.num_examples, span=True)

    def begin(self, x: Tensor) -> Belief:
        """What it believes before the first release."""
        return Belief(self.mechanism.init(x), self.noise.init())

    def ask(self, state: State, x: Tensor) -> tuple[Ask, ...]:
        """The mean gradient with the plan's noise; and the mean loss, if the plan listens to it."""
        multiplier, exists = self.noise.propose(state.belief.plan, state.meter.calls)
        num_examples, loss_multiplier = self.problem.num_examples, self.noise.loss_noise_multiplier()
        evaluations = None if loss_multiplier is None else num_examples
        work: Any = {"gradients": num_examples, "evaluations": evaluations, "exists": exists}
        gradient = Ask.with_multiplier(self._gradient, multiplier, **work)
        if loss_multiplier is None:
            return (gradient,)
        return gradient, Ask.with_multiplier(self._loss, loss_multiplier, mechanism=_LOSS_MECHANISM)

    def answer(self, plan: Plan, streams: Streams) -> tuple[Answer, ...]:
        """The clipped means."""
        gradients = self.problem.gradients(plan.x)
        norms = gradients.norms().nan_to_num(nan=torch.inf, posinf=torch.inf)
        # An example without a finite gradient counts as zero: it must not decide what becomes of the run.
        scale = self.clip / self.problem.num_examples / norms.clamp_min(self.clip)
        mean = Answer(gradients.weighted_sum(flushed(scale)))
        if len(plan.asks) == 1:
            return (mean,)
        losses = gradients.losses.nan_to_num(nan=self.loss_clip).clamp(0, self.loss_clip)
        return mean, Answer(losses.mean(1, keepdim=True))

    def believe(self, plan: Plan, noise: Any, values: list[Tensor]) -> tuple[Belief, Tensor]:
        """The plan takes in the released loss."""
        heard = plan.state.belief.plan
        if len(values) > 1:
            heard = self.noise.observe(heard, values[1][:, 0], plan.granted)
        return Belief(noise, heard), values[0]

    def bounds(self, meter: Meter, run: int) -> tuple[Assumption, ...]:
        """Clipping needs no assumption but the desk's, that an example's gradient is its own."""
        return ()
