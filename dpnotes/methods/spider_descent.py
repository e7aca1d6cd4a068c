"""Descent on gradient estimates with occasional perturbations that leave saddles: Liu and Talwar's loop."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dpnotes.core import Estimate, Oracle, Status
from dpnotes.methods.step import arrive, ask, settings_of
from dpnotes.random.streams import Streams
from dpnotes.util import checks, validate
from dpnotes.util.per_run import norms
from dpnotes.util.states import select
from dpnotes.util.validate import EachAtLeastOne, EachNonNegative, EachPositive, checked

_PURPOSE = "spider descent: saddle perturbation"


@dataclass(frozen=True)
class Settings:
    """The parameters of each run, `(runs,)`, so that runs with different parameters form one batch."""

    num_steps: Tensor
    step_size: Tensor
    threshold: Tensor
    window: Tensor
    perturbation: Tensor


@dataclass(frozen=True)
class SpiderDescentState:
    """The method's state, for each run.

    `x` `(runs, dim)`; `frozen`, the number of steps until the next perturbation is allowed; `previous`, the norm of the
    last direction; `steps`, `perturbations` and `status`; all `(runs,)`. Then the settings and the oracle's state.
    """

    x: Tensor
    frozen: Tensor
    previous: Tensor
    steps: Tensor
    perturbations: Tensor
    status: Tensor
    settings: Settings
    oracle: Any


@checked
@dataclass(frozen=True)
class StochasticSpider:
    """Algorithm 2 "Stochastic Spider" of Liu and Talwar (2024), arXiv:2410.07502v1, apart from its oracle.

    The algorithm, by its lines, t = 0 ... T-1:
       2: frozen_{-1} = 1                                                    (`init`)
       3: while t < T                                                        (FINISHED after the last step)
     4-8: grad_t from O1 or O2, drift                                        (`oracle.estimate`, `oracles.spider`)
     5,7: frozen_t = frozen_{t-1} - 1                                        (`step`)
       9: if the gradient is at most gamma log^3(..) and frozen_{t-1} <= 0   (`step`: `saddle`)
      10:   frozen_t = Gamma, drift_t = 0                                    (`step`; the drift as printed only)
      11:   direction = grad_t + TREE(t) + g_t, g_t ~ N(0, zeta^2 / d I)     (`step`)
      13: else direction = grad_t + TREE(t)
      15: x_{t+1} = x_t - eta direction                                      (`step`)
    gamma log^3(..) is `threshold`, Gamma is `window`, zeta is `perturbation`.

    Two lines differ from the paper, unless `as_printed`:
       9: the gradient estimate at x_t is compared with the threshold. The printed test uses the last direction,
          |grad_{t-1}|, which belongs to x_{t-1} and contains that step's perturbation. Either test costs no privacy,
          since it uses released values only.
      10: the drift is not changed. If it is set to 0 without a query of O1, it no longer bounds the estimate's error,
          which then grows with the square root of the number of windows.
    A window is a whole number of steps, rounded up.

    The theorem is about the list of all points: record them with `observe` of `methods.loop.drive`.

    Args:
      num_steps: T, whole numbers of at least 1.
      step_size: eta, above 0; the paper's is 1 / M.
      threshold: above 0, in the units of a gradient.
      window: Gamma, at least 1.
      perturbation: zeta, at least 0, in the units of a gradient: the perturbation's approximate length.
      as_printed: whether lines 9 and 10 are the printed ones; needs an oracle with `forget_drift`, as `Spider` has.

    Each number is the same for all runs, or `(runs,)`.

    Raises:
      TypeError: at the start, for an oracle that lacks `forget_drift` and needs it.
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
      >>> method, saddle = StochasticSpider(40, 0.5, 0.05, 20, 0.05), torch.zeros(1, 4, dtype=torch.float64)
      >>> state = drive(method, oracle, method.init(saddle, oracle), Streams.of(0, ["a"]), 100)
      >>> state.status.tolist(), state.steps.tolist(), bool(data.landscape.gradient(state.x).norm() < 0.1)
      ([1], [40], True)
    """

    num_steps: EachAtLeastOne[int | Tensor]
    step_size: EachPositive[float | Tensor]
    threshold: EachPositive[float | Tensor]
    window: EachPositive[float | Tensor]
    perturbation: EachNonNegative[float | Tensor]
    as_printed: bool = False

    def init(self, x: Tensor, oracle: Oracle) -> SpiderDescentState:
        """Start every run at its row of `x`, `(runs, dim)`."""
        if self.as_printed:
            validate.provides("forget_drift", oracle=oracle)
        steps = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        settings = settings_of(self, Settings, x, whole=("num_steps",))
        settings = replace(settings, window=settings.window.ceil().long())
        previous = torch.full_like(settings.threshold, torch.inf)
        return SpiderDescentState(x, steps + 1, previous, steps, steps, steps, settings, oracle.init(x))

    def step(self, state: SpiderDescentState, oracle: Any, streams: Streams) -> tuple[SpiderDescentState, Estimate]:
        """Make one step in the runs whose status is OK; the other runs do not move."""
        settings = state.settings
        oracle_state, estimate, moves = ask(state, oracle, streams)
        direction = estimate.gradient
        # ---- line 9
        tested = state.previous if self.as_printed else norms(direction)
        saddle = moves & (tested <= settings.threshold) & (state.frozen <= 0)
        # ---- line 10
        frozen = torch.where(saddle, settings.window, state.frozen - 1)
        if self.as_printed:
            oracle_state = oracle.forget_drift(oracle_state, saddle)
        # ---- line 11
        if not checks.known_empty(saddle):
            dim = state.x.shape[1]
            scale = (saddle * settings.perturbation * dim**-0.5)[:, None]
            direction = direction + (scale * streams.normal(_PURPOSE, state.steps, dim)).to(direction)
        # ---- line 15
        x = state.x - (settings.step_size[:, None] * direction).to(state.x)
        moved, status = arrive(state, estimate, moves, x)
        steps = state.steps + 1
        status = status.masked_fill(moved & (steps >= settings.num_steps), Status.FINISHED)
        new = SpiderDescentState(
            select(moved, x, state.x),
            select(moved, frozen, state.frozen),
            select(moved, norms(direction), state.previous),
            select(moved, steps, state.steps),
            state.perturbations + saddle,
            status,
            settings,
            oracle_state,
        )
        return new, estimate

    def output(self, state: SpiderDescentState) -> Tensor:
        """The last iterate, `(runs, dim)`."""
        return state.x
