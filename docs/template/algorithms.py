"""STORM (Cutkosky and Orabona 2019, arXiv:1905.10018, Algorithm 1) with private releases: an oracle for `loop.run`."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from dpnotes.core import FRESH, Assumption, Relation
from dpnotes.oracles.release import Answer, Ask, Meter, ReleasePlan, Releases, ReleasingOracle, State, norms_within
from dpnotes.oracles.samples import ORDER_PURPOSE, PURPOSE, DataSetSamples
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.random.streams import Streams
from dpnotes.util.per_run import norms


@dataclass(frozen=True)
class Memory:
    """The last point and direction `(runs, dim)`, and the mechanism's memory."""

    point: Tensor
    direction: Tensor
    noise: Tensor


@dataclass(frozen=True)
class Storm(ReleasingOracle):
    """`d_t = (1 - a) d_{t-1} + release of the mean of a g(x_t) + (1 - a) (g(x_t) - g(x_{t-1}))`, on a fresh batch."""

    samples: DataSetSamples
    noise_multiplier: Tensor  # (runs,) float64
    batch_size: int
    momentum: float  # a, in (0, 1]; 1 in the first step
    gradient_bound: float
    smoothness: float

    @cached_property
    def releases(self) -> Releases:
        """An example is in one batch, and pays for it alone."""
        how = {"total": self.samples.total, "draws": (PURPOSE, ORDER_PURPOSE), "mechanism": Gaussian()}
        return Releases(0.5 * self.noise_multiplier**-2, Relation.REPLACE_ONE, FRESH, self.samples.basis, **how)

    def begin(self, x: Tensor) -> Memory:
        """No direction yet."""
        return Memory(x, torch.zeros_like(x), self.releases.mechanism.init(x))

    def ask(self, state: State, x: Tensor) -> tuple[Ask, ...]:
        """A mean, whose terms are as long as their two clipped parts together."""
        change = self.smoothness * norms(x - state.memory.point)
        weight = torch.where(state.meter.calls == 0, torch.ones_like(change), self.momentum)
        bound = self.releases.bound(weight * self.gradient_bound + (1 - weight) * change, self.batch_size)
        work = {"gradients": 2 * self.batch_size, "examples": torch.full_like(state.meter.calls, self.batch_size)}
        return (Ask.with_multiplier(bound, self.noise_multiplier, note=(weight, change), **work),)

    def answer(self, plan: ReleasePlan, streams: Streams) -> tuple[Answer, ...]:
        """The mean on the next batch."""
        meter, previous, (weight, change) = plan.state.meter, plan.state.memory.point, plan.asks[0].note
        batch, yes = self.samples.batch(meter.used, plan.uses, streams, meter.calls), torch.ones_like(plan.granted)
        gradient = batch.term(plan.x, previous, yes, torch.full_like(change, self.gradient_bound))
        return (Answer(torch.lerp(batch.term(plan.x, previous, ~yes, change), gradient, weight[:, None].to(gradient))),)

    def remember(self, plan: ReleasePlan, noise: Tensor, values: list[Tensor]) -> tuple[Memory, Tensor]:
        """The direction goes on where something was released; before the first it is 0."""
        old, granted = plan.state.memory, plan.granted[:, None]
        direction = torch.where(granted, (1 - self.momentum) * old.direction + values[0], old.direction)
        return Memory(torch.where(granted, plan.x, old.point), direction, noise), direction * granted

    def bounds(self, meter: Meter, run: int) -> tuple[Assumption, ...]:
        """Both parts are clipped, where the samples are."""
        return norms_within(self.gradient_bound, self.samples.basis, meter, run)
