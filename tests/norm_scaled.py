"""A release in two stages: the mean norm of the gradients, then the gradient, with clipping and noise that follow it.

The gold standard for noise whose scale is released. All scales of a step are fixed before anything is drawn, so the
norm that one step releases serves the next step. `test_norm_scaled.py` holds this oracle to the laws, and breaks it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from dpnotes.core import WHOLE, Problem, Relation
from dpnotes.guarantees import Assumption, examples_apart
from dpnotes.oracles.release import Answer, Ask, Meter, ReleasePlan, Releases, ReleasingOracle, State
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.privacy.noise import TOLERANCE
from dpnotes.random.streams import Streams
from dpnotes.util.precision import flushed

_NORM = Gaussian("mean norm")


@dataclass(frozen=True)
class Memory:
    """The mechanism's memory, and the mean norm that was released last, `(runs,)`; NaN before the first release."""

    noise: Any
    norm: Tensor


@dataclass(frozen=True)
class NormScaled(ReleasingOracle):
    """The mean of gradients clipped at twice the last released mean norm, and the mean norm here, for the next step.

    Args:
      problem: the problem; gradients are compared with `norm_bound` in the norms that are released.
      norm_bound: above 0, public; the norm before the first release, and the largest that is believed.
      noise_multiplier: `(runs,)` float64, noise over sensitivity, of either release.
      num_steps: the number of steps that the budget pays for.
    """

    problem: Problem
    norm_bound: float
    noise_multiplier: Tensor
    num_steps: int

    # The kinds of release in a step, in order. The laws ask each kind to reach its sensitivity, not each step: a clip
    # above all gradients reaches its own in no data.
    kinds: ClassVar[tuple[str, ...]] = ("gradient", "norm")

    @cached_property
    def releases(self) -> Releases:
        """Two releases a step, each of which costs `0.5 / noise_multiplier**2` in zCDP."""
        budget, apart = self.num_steps * self.noise_multiplier**-2, examples_apart(self.problem)
        more: dict[str, Any] = {"apart": apart, "draws": (_NORM.purpose,)}
        return Releases(budget, Relation.REPLACE_ONE, WHOLE, "enforced", Gaussian(), TOLERANCE, **more)

    def begin(self, x: Tensor) -> Memory:
        """No norm yet."""
        return Memory(self.releases.mechanism.init(x), torch.full_like(self.noise_multiplier, torch.nan))

    def ask(self, state: State, x: Tensor) -> tuple[Ask, ...]:
        """The gradient, with noise that follows the released norm, and the norm, with noise for its public bound."""
        clip = 2 * state.memory.norm.nan_to_num(nan=self.norm_bound).clamp(self.norm_bound / 10, self.norm_bound)
        gradient = self.releases.bound(clip, self.problem.num_examples)
        norm = self.releases.bound(self.norm_bound, self.problem.num_examples, span=True)
        asked = Ask.with_multiplier(gradient, self.noise_multiplier, gradients=self.problem.num_examples, note=clip)
        return asked, Ask.with_multiplier(norm, self.noise_multiplier, mechanism=_NORM)

    def answer(self, plan: ReleasePlan, streams: Streams) -> tuple[Answer, ...]:
        """The mean of clipped gradients, and the mean of their norms, each of at most `norm_bound`."""
        gradients, clip = self.problem.gradients(plan.x), plan.asks[0].note[:, None]
        norms = gradients.norms().nan_to_num(nan=torch.inf, posinf=torch.inf)
        scale = (clip / norms.double().maximum(clip) / self.problem.num_examples).to(norms)
        gradient, norm = gradients.weighted_sum(flushed(scale)), norms.clamp_max(self.norm_bound).mean(1, keepdim=True)
        return Answer(gradient), Answer(norm)

    def remember(self, plan: ReleasePlan, noise: Any, values: list[Tensor]) -> tuple[Memory, Tensor]:
        """The released norm, where something was released."""
        norm = values[1][:, 0].to(self.noise_multiplier)
        return Memory(noise, torch.where(plan.granted, norm, plan.state.memory.norm)), values[0]

    def bounds(self, meter: Meter, run: int) -> tuple[Assumption, ...]:
        """Return no assumption: both answers are clipped."""
        return ()
