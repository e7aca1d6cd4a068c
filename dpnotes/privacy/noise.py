"""Noise plans, which determine the noise of the next release: fixed in advance, or adapted to released losses.

A plan is for a batch of runs. The `budget` limits the spending of each run; the oracle that uses the plan sums the
costs, and refuses a release that would exceed the budget before its noise is drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from dpnotes.privacy.schedules import NoiseSchedule
from dpnotes.util import validate
from dpnotes.util.validate import Finite, checked

# Relative rounding tolerance when the running sum of a fixed schedule's costs is compared with its budget. The sum of a
# schedule's costs is rounded down, so the tolerance admits its last step and no further one.
TOLERANCE = 1e-9


class NoisePlan(Protocol):
    """Noise multipliers for a batch of runs, step by step."""

    @property
    def budget(self) -> Tensor:
        """The zCDP that no run may exceed, `(runs,)` float64."""
        ...

    @property
    def fixed(self) -> bool:
        """Return whether the multipliers were fixed before the run."""
        ...

    def init(self) -> Any:
        """The plan's state before the first release."""
        ...

    def propose(self, state: Any, call: Tensor) -> tuple[Tensor, Tensor]:
        """The multiplier of the next release, and whether there is a next one, `(runs,)` each; `call` counts from 0."""
        ...

    def loss_noise_multiplier(self) -> Tensor | None:
        """The noise multiplier, `(runs,)`, of the loss that every step also releases; None: no loss is released."""
        ...

    def observe(self, state: Any, released_loss: Tensor, active: Tensor) -> Any:
        """The state after observing the released losses, `(runs,)`, of the runs in `active`."""
        ...

    def take(self, index: Tensor) -> "NoisePlan":
        """The plan of some of the runs."""
        ...


@checked
@dataclass(frozen=True)
class FixedNoise:
    """Schedules fixed in advance, one per run; equal schedules are stored once.

    Args:
      multipliers: `(schedules, steps)` float64, rows padded at the end with 1.
      num_steps: `(runs,)` int64, the number of each run's steps, without padding.
      budget: `(runs,)` float64, zCDP.
      rows: `(runs,)` int64, each run's row of the multipliers; None: run i has row i.

    Example:
      >>> from dpnotes.privacy.schedules import uniform
      >>> FixedNoise.of([uniform(0.5, 1), uniform(0.5, 2)]).multipliers.round(decimals=3)
      tensor([[1.0000, 1.0000],
              [1.4140, 1.4140]], dtype=torch.float64)
    """

    multipliers: Tensor
    num_steps: Tensor
    budget: Tensor
    fixed: bool = True
    rows: Tensor | None = None

    @staticmethod
    def of(schedules: Sequence[NoiseSchedule], device: torch.device | str = "cpu") -> "FixedNoise":
        """The plan with one run per schedule, in order."""
        validate.at_least(1, num_schedules=len(schedules))
        texts = [s.noise_multipliers.tobytes() for s in schedules]
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        different = [torch.frombuffer(bytearray(text), dtype=torch.float64) for text in places]
        return FixedNoise(
            torch.nn.utils.rnn.pad_sequence(different, batch_first=True, padding_value=1.0).to(device),
            torch.tensor([s.num_steps for s in schedules], device=device),
            torch.tensor([s.rho for s in schedules], dtype=torch.float64, device=device),
            rows=torch.tensor([places[text] for text in texts], device=device),
        )

    @staticmethod
    def none(num_steps: Sequence[int], device: torch.device | str = "cpu") -> "FixedNoise":
        """The plan for the mechanism `Exact`, with an infinite budget, since no finite budget covers it."""
        validate.at_least(1, num_runs=len(num_steps), fewest_steps=min(num_steps, default=0))
        ones = torch.ones(len(num_steps), 1, dtype=torch.float64, device=device)
        return FixedNoise(ones, torch.tensor(num_steps, device=device), torch.full_like(ones[:, 0], torch.inf))

    def init(self) -> Tensor:
        """The empty state of a fixed plan, a `(runs, 0)` tensor."""
        return self.budget.new_zeros(len(self.budget), 0)

    def propose(self, state: Tensor, call: Tensor) -> tuple[Tensor, Tensor]:
        """The multiplier of step `call + 1`, and whether the schedule has that step."""
        column = call.clamp_max(self.multipliers.shape[1] - 1)
        return self.multipliers[self._row_of_runs(), column], call < self.num_steps

    def loss_noise_multiplier(self) -> None:
        """Return None: a fixed plan releases no losses."""
        return None

    def observe(self, state: Tensor, released_loss: Tensor, active: Tensor) -> Tensor:
        """The unchanged state, since a fixed plan does not adapt."""
        return state

    def take(self, index: Tensor) -> "FixedNoise":
        """The plan of some of the runs, which shares this plan's table of schedules."""
        return replace(
            self, num_steps=self.num_steps[index], budget=self.budget[index], rows=self._row_of_runs()[index]
        )

    def _row_of_runs(self) -> Tensor:
        return torch.arange(len(self.budget), device=self.budget.device) if self.rows is None else self.rows


@dataclass(frozen=True)
class LossAdaptiveState:
    """The cost of the next step and the last released loss, `(runs,)` each; the loss is infinite before the first."""

    cost: Tensor
    last_loss: Tensor


@checked
@dataclass(frozen=True)
class LossAdaptiveNoise:
    """The plan that spends more on the next gradient whenever the released loss did not decrease.

    After Lee and Kifer (2018, "Concentrated differentially private gradient descent with adaptive per-iteration
    privacy budget", arXiv:1808.09501v1), with one difference: they choose the step size by a noisy minimum over
    candidates and raise the budget when the choice is 0; this plan releases the loss at the current point with
    Gaussian noise and compares it with the last released loss. Every comparison uses released numbers only.

    Args:
      budget: `(runs,)` float64, zCDP of gradients and losses together.
      first_cost: `(runs,)` float64, zCDP of the first gradient.
      growth: factor above 1 on the cost of the next gradient when the loss did not fall.
      loss_multiplier: `(runs,)` float64, noise multiplier of the loss released at each step.
    """

    budget: Tensor
    first_cost: Tensor
    growth: Finite
    loss_multiplier: Tensor
    fixed: bool = False

    def __post_init__(self) -> None:
        validate.same_length(budget=self.budget, first_cost=self.first_cost, loss_multiplier=self.loss_multiplier)
        for name in ("budget", "first_cost", "loss_multiplier"):
            validate.positive(**{name: float(getattr(self, name).min())})
        if not self.growth > 1:
            raise ValueError(f"Expected growth={self.growth!r} > 1.")

    def init(self) -> LossAdaptiveState:
        """The initial state, with the first cost and an infinite last loss, so that the first loss counts as lower."""
        return LossAdaptiveState(self.first_cost.clone(), torch.full_like(self.first_cost, torch.inf))

    def propose(self, state: LossAdaptiveState, call: Tensor) -> tuple[Tensor, Tensor]:
        """The multiplier for the current cost; there is always a next step, until the filter refuses it."""
        return (0.5 / state.cost).sqrt(), torch.ones_like(call, dtype=torch.bool)

    def loss_noise_multiplier(self) -> Tensor:
        """The noise multiplier of the released losses, `(runs,)`."""
        return self.loss_multiplier

    def observe(self, state: LossAdaptiveState, released_loss: Tensor, active: Tensor) -> LossAdaptiveState:
        """The state with a higher cost in the runs whose released loss did not decrease."""
        worse = active & ~(released_loss < state.last_loss)
        return LossAdaptiveState(
            torch.where(worse, state.cost * self.growth, state.cost),
            torch.where(active, released_loss.double(), state.last_loss),
        )

    def take(self, index: Tensor) -> "LossAdaptiveNoise":
        """The plan of some of the runs."""
        return LossAdaptiveNoise(self.budget[index], self.first_cost[index], self.growth, self.loss_multiplier[index])
