"""Gradient descent, with or without momentum, on the gradient estimates of any oracle."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpnotes.core import Estimate, Oracle
from dpnotes.methods.step import arrive, ask
from dpnotes.random.streams import Streams
from dpnotes.util.states import select
from dpnotes.util.validate import EachPositive, NonNegative, checked


@dataclass(frozen=True)
class DescentState:
    """The point and the moving average `(runs, dim)`, steps taken and status `(runs,)`, and the oracle's state."""

    x: Tensor
    average: Tensor
    steps: Tensor
    status: Tensor
    oracle: Any


@checked
@dataclass(frozen=True)
class Descent:
    """The method `x <- x - step_size * m`, with m the gradient estimate or its bias-corrected moving average.

    Equations (1) to (3) of Hong, Wang and Zhou (2022), doi:10.1145/3531146.3533070: with `b_t = 1 - momentum^t`,
    `m_t = (momentum b_{t-1} m_{t-1} + (1 - momentum) g_t) / b_t`, which is g_t when `momentum` is 0.

    Args:
      step_size: in units of length squared over loss, above 0; one number, or one per step, `(num_steps,)`; after the
        last entry it stays constant.
      momentum: in [0, 1).

    Raises:
      ValueError: outside these domains.
    """

    step_size: EachPositive[float | Tensor]
    momentum: NonNegative = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.step_size, Tensor) and (self.step_size.dim() != 1 or not len(self.step_size)):
            raise ValueError(f"Expected step_size of shape {tuple(self.step_size.shape)} to be (num_steps,).")
        if self.momentum >= 1:
            raise ValueError(f"Expected 0 <= momentum={self.momentum!r} < 1.")

    def settings(self) -> dict[str, Any]:
        """The settings that determine the steps, as JSON, for a checkpoint."""
        sizes = self.step_size.tolist() if isinstance(self.step_size, Tensor) else self.step_size
        return {"step_size": sizes, "momentum": self.momentum}

    def init(self, x: Tensor, oracle: Oracle) -> DescentState:
        """Start every run at its row of `x`, `(runs, dim)`."""
        steps = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        average = torch.zeros_like(x) if self.momentum else x.new_zeros(len(x), 0)
        return DescentState(x, average, steps, steps, oracle.init(x))

    def step(self, state: DescentState, oracle: Oracle, streams: Streams) -> tuple[DescentState, Estimate]:
        """Make one step in the runs whose status is OK; the other runs do not move."""
        oracle_state, estimate, moves = ask(state, oracle, streams)
        direction = estimate.gradient
        average = state.average
        if self.momentum:
            weight = (1 - self.momentum) / (1 - self.momentum ** (state.steps + 1).double())
            direction = average = torch.lerp(average, direction, weight.to(direction.dtype)[:, None])
        x = state.x - self._step_sizes(state, direction) * direction
        moved, status = arrive(state, estimate, moves, x)
        new = DescentState(
            select(moved, x, state.x),
            select(moved, average, state.average) if self.momentum else average,
            state.steps + moved,
            status,
            oracle_state,
        )
        return new, estimate

    def _step_sizes(self, state: DescentState, like: Tensor) -> float | Tensor:
        if not isinstance(self.step_size, Tensor):
            return self.step_size
        return self.step_size.to(like)[state.steps.clamp_max(len(self.step_size) - 1)][:, None]

    def output(self, state: DescentState) -> Tensor:
        """The last iterate, `(runs, dim)`."""
        return state.x
