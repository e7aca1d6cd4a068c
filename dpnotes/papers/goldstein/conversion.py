"""Online-to-nonconvex conversion: an online learner chooses each move, and windows of points are averaged."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpnotes.core import Estimate, Oracle, Status
from dpnotes.methods.step import arrive, ask, settings_of
from dpnotes.random.streams import Streams
from dpnotes.util import checks
from dpnotes.util.per_run import norms
from dpnotes.util.states import select
from dpnotes.util.validate import EachAtLeastOne, EachPositive, checked

_POINT_PURPOSE = "online to nonconvex: point of a move"
_WINDOW_PURPOSE = "online to nonconvex: window"


@dataclass(frozen=True)
class Settings:
    """The parameters of each run, `(runs,)`, so that runs with different parameters form one batch."""

    num_steps: Tensor
    step_size: Tensor
    largest_move: Tensor
    window: Tensor


@dataclass(frozen=True)
class OnlineToNonconvexState:
    """The method's state, for each run.

    `x` `(runs, dim)`, the next query point z_t, or the returned point of a run that ended; `iterate` and `move`,
    x_{t-1} and Delta_t; `total`, the sum of the current window's points so far; `average`, the average of the last
    complete window, and `chosen`, the average of a uniformly random complete window; `steps`, `windows` (complete
    ones) and `status`, `(runs,)`. Then the settings and the oracle's state.
    """

    x: Tensor
    iterate: Tensor
    move: Tensor
    total: Tensor
    average: Tensor
    chosen: Tensor
    steps: Tensor
    windows: Tensor
    status: Tensor
    settings: Settings
    oracle: Any


@checked
@dataclass(frozen=True)
class OnlineToNonconvex:
    """Algorithm 2 "O2NC" of Kornowski, Liu and Talwar (ICML 2025), arXiv:2410.05880, with any oracle.

    It is Algorithm 1 of Cutkosky, Mehta and Orabona (2023), arXiv:2302.03775, with online gradient descent on a ball as
    its learner. By its lines, t = 1 ... T:
      Delta_1 = 0                                                           (`init`)
      x_t = x_{t-1} + Delta_t                                               (`step`: `iterate`)
      z_t = x_{t-1} + s_t Delta_t, s_t ~ Unif[0, 1]                         (`step`: `x`, drawn a step ahead)
      g_t = O(z_t)                                                          (`oracle.estimate`)
      Delta_{t+1} = min(1, D / |Delta_t - eta g_t|) (Delta_t - eta g_t)     (`step`: `move`)
      averages of the windows of M points z_t                               (`step`: `average`)
      return one of the T / M averages, each as likely                      (`step`: `chosen`; FINISHED)
    T is `num_steps`, D is `largest_move`, eta is `step_size`, M is `window`.

    The mean norm of the least Goldstein subgradient, of radius alpha >= M D, is at most

      (h(x_0) - inf h) / (D T) + c G1 / sqrt(M) + 2 G0,    eta = D / (G1 sqrt(M)),

    where G1^2 bounds the second moment of g_t and G0^2 that of its error (Proposition 2.6; for an oracle that is
    conditionally unbiased `G0 / sqrt(M)` replaces `2 G0`, claim goldstein.own.prop2.6). c is 5/2: the printed 3/2
    would need every window to begin with Delta = 0, as it does with `restart`, where c is 1; the paper also prints `G0`
    instead of `2 G0`. A move has length at most D, but two consecutive points z are up to 2 D apart.

    Differences from the paper: a run that ends before T, because its oracle has no data or budget left, returns the
    average of one of its complete windows. Steps after the last complete window do not affect the output.

    Experiments that report the mean over all windows read `average` after every step in which `windows` grew.

    Args:
      num_steps: T, at least M.
      step_size: eta, above 0, length over gradient.
      largest_move: D, above 0, a length.
      window: M, at least 1.
      restart: whether every window begins with Delta = 0.

    Each number is the same for all runs, or `(runs,)`.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> from dpnotes.methods.loop import drive
      >>> from dpnotes.papers.goldstein.smoothed import SmoothedSamples
      >>> from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
      >>> from dpnotes.privacy.mechanisms import Gaussian
      >>> from dpnotes.problems.custom import CustomProblem
      >>> problem = CustomProblem(lambda x, a: (x - a).norm(), 2, torch.rand(4000, 2))
      >>> oracle = Spider(
      ...     SmoothedSamples(problem, 0.1, directions=1, order="first"), Gaussian(), 4.0,
      ...     torch.tensor([0.04], dtype=torch.float64), Refresh.every(1), BatchSizes(20), 1.0, 1.0,
      ... )
      >>> method, start = OnlineToNonconvex(200, 0.01, 0.02, 10), torch.tensor([[2.0, -1.0]])
      >>> state = drive(method, oracle, method.init(start, oracle), Streams.of(0, ["a"]), 300)
      >>> state.status.tolist(), state.windows.tolist()
      ([1], [20])
      >>> bool((state.average - 0.5).norm() < 0.4)
      True
    """

    num_steps: EachAtLeastOne[int | Tensor]
    step_size: EachPositive[float | Tensor]
    largest_move: EachPositive[float | Tensor]
    window: EachAtLeastOne[int | Tensor]
    restart: bool = False

    def __post_init__(self) -> None:
        if bool(torch.as_tensor(self.num_steps < self.window).any()):
            raise ValueError(f"Expected num_steps={self.num_steps} >= window={self.window}: no window would be whole.")

    def init(self, x: Tensor, oracle: Oracle) -> OnlineToNonconvexState:
        """Start every run at its row of `x`, `(runs, dim)`."""
        none, still = torch.zeros(len(x), dtype=torch.int64, device=x.device), torch.zeros_like(x)
        settings = settings_of(self, Settings, x, whole=("num_steps", "window"))
        return OnlineToNonconvexState(x, x, still, still, x, x, none, none, none, settings, oracle.init(x))

    def step(
        self, state: OnlineToNonconvexState, oracle: Oracle, streams: Streams
    ) -> tuple[OnlineToNonconvexState, Estimate]:
        """Make one step in the runs whose status is OK; the other runs do not move."""
        settings = state.settings
        oracle_state, estimate, moves = ask(state, oracle, streams)
        steps = state.steps + 1

        closes = steps % settings.window == 0

        # ---- the learner
        iterate, free = state.iterate + state.move, state.move - settings.step_size[:, None] * estimate.gradient
        length = norms(free)
        shrunk = torch.where(length > settings.largest_move, settings.largest_move / length, 1.0)
        move = (shrunk[:, None] * free).to(state.x)
        if self.restart:
            move = move.masked_fill(closes[:, None], 0)
        x = iterate + (streams.uniform(_POINT_PURPOSE, state.steps, 1) * move).to(state.x)
        moved, status = arrive(state, estimate, moves, x)
        status = status.masked_fill(moved & (steps >= settings.num_steps), Status.FINISHED)

        # ---- the window that z_t belongs to
        total, whole = state.total + state.x, moved & closes
        windows = state.windows + whole
        average = select(whole, (total / settings.window[:, None]).to(total), state.average)
        lot = streams.uniform(_WINDOW_PURPOSE, state.steps, 1)[:, 0]
        chosen = select(whole & (lot * windows < 1), average, state.chosen)  # the k-th of them with probability 1 / k

        x = select(moved, x, state.x)
        ended = (status != Status.OK) & (state.status == Status.OK) & (windows > 0)
        if not checks.known_empty(ended):
            x = select(ended, chosen, x)
        new = OnlineToNonconvexState(
            x,
            select(moved, iterate, state.iterate),
            select(moved, move, state.move),
            select(moved, total.masked_fill(whole[:, None], 0), state.total),
            average,
            chosen,
            select(moved, steps, state.steps),
            windows,
            status,
            settings,
            oracle_state,
        )
        return new, estimate

    def output(self, state: OnlineToNonconvexState) -> Tensor:
        """The average of a random window for runs that ended with a complete one, else the next query point."""
        return state.x
