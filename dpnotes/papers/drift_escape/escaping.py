"""Descent that attempts to escape wherever the gradient is small, and returns a point where all attempts fail."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from dpnotes.core import Estimate, Oracle, Status
from dpnotes.methods.step import arrive, ask, settings_of
from dpnotes.random.streams import Streams
from dpnotes.util import checks, validate
from dpnotes.util.per_run import norms
from dpnotes.util.states import select
from dpnotes.util.validate import EachAtLeastOne, EachPositive, checked

Repeat = Literal["restore", "refresh", "go on"]


@dataclass(frozen=True)
class Settings:
    """The parameters of each run, `(runs,)`, so that runs with different parameters form one batch."""

    step_size: Tensor
    threshold: Tensor
    attempt_length: Tensor
    radius: Tensor
    attempts: Tensor


@dataclass(frozen=True)
class DriftEscapeState:
    """The method's state, for each run.

    `x` `(runs, dim)`; `anchor` and `anchor_gradient` `(runs, dim)`, the point under test and the estimate there;
    `attempt` (0: descending) and `elapsed`, the steps of the current attempt; `steps`, `tests` (points tested so far),
    `escapes`, and `status`; all `(runs,)`. Then the settings, the oracle's state, and the oracle's state at the anchor.
    """

    x: Tensor
    anchor: Tensor
    anchor_gradient: Tensor
    attempt: Tensor
    elapsed: Tensor
    steps: Tensor
    tests: Tensor
    escapes: Tensor
    status: Tensor
    settings: Settings
    oracle: Any
    saved: Any


@checked
@dataclass(frozen=True)
class DriftEscape:
    """Algorithm 1 of "Private Stochastic Optimization for Achieving Second-Order Stationary Points".

    The paper is an anonymous submission to ICLR; a later version is Tao et al., "Second-Order Convergence in Private
    Stochastic Non-Convex Optimization", arXiv:2505.15647.

    Gaussian-perturbed SGD: the oracle's privacy noise is the perturbation. The algorithm, by its lines:
      g_t <- P_Grad_Oracle                                       (`oracle.estimate`)
      if |g_t| <= 3 chi: x~ <- x_{t-1}                           (`step`: `trigger`)
        for q = 1 ... Q:                                         (`step`: `again`)
          x_t <- x~; for tau = 1 ... T_esc: x_t <- x_{t-1} - eta g_t
            if |x_t - x~| >= S: escaped                          (`step`: `escaped`)
        if not escaped in any: return                            (`step`: `done`, FINISHED)
      else x_t <- x_{t-1} - eta g_t
    3 chi is `threshold`, T_esc is `attempt_length`, S is `radius`, Q is `attempts`.

    Differences from the paper: the method returns the tested point x~; the printed algorithm returns the last iterate,
    up to a radius away (`return_tested=False`). The first step of an attempt uses the estimate at x~ that is already
    known: for a second estimate at the same point, an incremental oracle would spend a batch on a difference of 0. The
    paper does not say what the oracle does when the point jumps back to x~; `repeat` decides:
      "restore": the oracle's memory is restored with the point. This uses no further examples, but all attempts share
        the noise of the sum, so that Q attempts succeed hardly more often than one. A `Tree` refuses it.
      "refresh": the next estimate is a fresh gradient. Attempts are independent, and each costs a large batch.
      "go on": the oracle estimates the difference over the jump. Attempts share noise, and the noise grows.

    Args:
      step_size: eta, above 0.
      threshold: above 0, in the units of a gradient.
      attempt_length: the steps of an attempt, at least 2.
      radius: above 0, in the units of a length.
      attempts: Q, at least 1.
      repeat: the oracle's memory at the start of a repeated attempt; the first two options need an oracle with
        `rollback`, as `Spider` has.
      return_tested: whether to return x~ instead of the last iterate.

    Each number is the same for all runs, or `(runs,)`.

    Raises:
      TypeError: at a repeated attempt, for an oracle that lacks `rollback` and needs it.
      ValueError: outside these domains.

    Example:
      >>> from dpnotes.methods.loop import drive
      >>> from dpnotes.oracles.samples import VirtualSamples
      >>> from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
      >>> from dpnotes.privacy.mechanisms import Gaussian
      >>> from dpnotes.problems.separable import Cosine, Separable, Sine
      >>> from dpnotes.problems.virtual import VirtualData
      >>> data = VirtualData(Separable([(Cosine(1.0), 4)]), Separable([(Sine(0.1), 4)]))
      >>> oracle = Spider(
      ...     VirtualSamples(data, 10**12), Gaussian(), 5.0, torch.tensor([0.02], dtype=torch.float64),
      ...     Refresh.squared_moves(0.5), BatchSizes(10_000, 1000), gradient_bound=2.0, smoothness=2.0,
      ... )
      >>> method, saddle = DriftEscape(0.5, 0.1, 12, 0.3, attempts=3), torch.zeros(1, 4, dtype=torch.float64)
      >>> state = drive(method, oracle, method.init(saddle, oracle), Streams.of(0, ["a"]), 200)
      >>> state.status.tolist(), bool(data.landscape.smallest_eigenvalue(state.x) > 0)
      ([1], True)
    """

    step_size: EachPositive[float | Tensor]
    threshold: EachPositive[float | Tensor]
    attempt_length: int | Tensor
    radius: EachPositive[float | Tensor]
    attempts: EachAtLeastOne[int | Tensor]
    repeat: Repeat = "refresh"
    return_tested: bool = True

    def __post_init__(self) -> None:
        validate.every(validate.at_least, 2, attempt_length=self.attempt_length)

    def init(self, x: Tensor, oracle: Oracle) -> DriftEscapeState:
        """Start every run at its row of `x`, `(runs, dim)`."""
        none, state = torch.zeros(len(x), dtype=torch.int64, device=x.device), oracle.init(x)
        settings = settings_of(self, Settings, x, whole=("attempt_length", "attempts"))
        return DriftEscapeState(x, x, torch.zeros_like(x), none, none, none, none, none, none, settings, state, state)

    def step(self, state: DriftEscapeState, oracle: Any, streams: Streams) -> tuple[DriftEscapeState, Estimate]:
        """Make one estimate and one move in the runs whose status is OK; the other runs do not move."""
        settings = state.settings
        oracle_state, estimate, moves = ask(state, oracle, streams)
        gradient = estimate.gradient
        trigger = moves & (state.attempt == 0) & (norms(gradient) <= settings.threshold)
        anchor = select(trigger, state.x, state.anchor)
        anchor_gradient = select(trigger, gradient, state.anchor_gradient)
        saved = state.saved
        if self.repeat == "restore" and not checks.known_empty(trigger):
            saved = select(trigger, oracle_state, saved)

        step_size = settings.step_size[:, None]
        x = state.x - (step_size * gradient).to(state.x)
        moved, status = arrive(state, estimate, moves, x)
        attempt = torch.where(trigger, 1, state.attempt)
        elapsed = (attempt > 0) * (state.elapsed.masked_fill(trigger, 0) + 1)
        testing = moved & (attempt > 0)
        escaped = testing & (norms(x - anchor) >= settings.radius)
        failed = testing & ~escaped & (elapsed >= settings.attempt_length)
        done = failed & (attempt >= settings.attempts)
        again = failed & ~done

        if not checks.known_empty(again):
            back = anchor
            if self.repeat != "go on":
                validate.provides("rollback", oracle=oracle)
            if self.repeat == "restore":
                oracle_state = oracle.rollback(oracle_state, saved, again, refresh=False)
                back = anchor - (step_size * anchor_gradient).to(anchor)
            elif self.repeat == "refresh":
                oracle_state = oracle.rollback(oracle_state, oracle_state, again, refresh=True)
            x = select(again, back, x)
        if self.return_tested:
            x = select(done, anchor, x)
        # In a restored attempt the first step has already been made.
        elapsed = torch.where(again, int(self.repeat == "restore"), elapsed)
        attempt = torch.where(escaped, 0, torch.where(again, attempt + 1, attempt))
        new = DriftEscapeState(
            select(moved, x, state.x),
            anchor,
            anchor_gradient,
            select(moved, attempt, state.attempt),
            select(moved, elapsed, state.elapsed),
            state.steps + moved,
            state.tests + trigger,
            state.escapes + escaped,
            status.masked_fill(done, Status.FINISHED),
            settings,
            oracle_state,
            saved,
        )
        return new, estimate

    def output(self, state: DriftEscapeState) -> Tensor:
        """The returned point of the runs that finished, the last iterate of the others, `(runs, dim)`."""
        return state.x
