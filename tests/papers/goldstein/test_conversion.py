"""Online-to-nonconvex conversion: windows, the returned one, clipped moves, and its bound."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from dpnotes.core import Estimate as Answer
from dpnotes.core import Oracle, Price, Relation, Status
from dpnotes.methods.loop import drive
from dpnotes.papers.goldstein.conversion import OnlineToNonconvex
from dpnotes.random.streams import Streams


class Field:
    """An oracle without data whose gradient is a function of the point, for a number of steps."""

    def __init__(self, gradient: Any, runs: int, steps: int = 10**6) -> None:
        self.gradient, self.runs, self.steps = gradient, runs, steps

    def init(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x), dtype=torch.int64)

    def estimate(self, state: Tensor, x: Tensor, streams: Streams, active: Tensor) -> tuple[Tensor, Answer]:
        status = torch.where(active & (state >= self.steps), int(Status.DATA_EXHAUSTED), 0)
        price = Price(torch.ones(len(x)), active, Relation.REPLACE_ONE)
        return state + active, Answer(self.gradient(x), price, torch.zeros_like(state), status)

    def declared(self) -> Tensor:
        return torch.zeros(self.runs)

    def take(self, index: Tensor) -> "Field":
        return Field(self.gradient, len(index), self.steps)


def driven(method: OnlineToNonconvex, oracle: Any, x: Tensor, steps: int = 10**4) -> tuple[Any, list[Any]]:
    seen: list[Any] = []
    field: Oracle = oracle
    state = drive(
        method, field, method.init(x, field), Streams.of("windows", range(len(x))), steps,
        observe=lambda going, state, estimate: seen.append(state),
    )  # fmt: skip
    return state, seen


def test_windows_are_means_of_the_points_that_were_asked_and_each_is_returned_as_often():
    runs, num_windows, window = 6000, 4, 3
    start, asked = torch.zeros(runs, 1, dtype=torch.float64), []

    def gradient(x: Tensor) -> Tensor:
        asked.append(x)
        return -torch.ones_like(x)

    method = OnlineToNonconvex(num_windows * window + 2, 1.0, 0.5, window)  # two more steps, which do not count
    state, seen = driven(method, Field(gradient, runs), start)
    averages = torch.stack(asked)[: num_windows * window].view(num_windows, window, runs).mean(1)
    assert (state.status == Status.FINISHED).all() and (state.windows == num_windows).all()
    assert torch.equal(seen[-1].windows, state.windows) and torch.allclose(state.average[:, 0], averages[-1])
    returned = (method.output(state)[:, 0] - averages).abs() < 1e-12
    assert (returned.sum(0) == 1).all()
    counts = returned.double().mean(1)
    assert (counts - 1 / num_windows).abs().max() < 4.5 * (0.25 * 0.75 / runs) ** 0.5, "errs once in 10,000 times"
    uneven = torch.tensor([0.25, 0.25, 0.2, 0.3]).double()
    assert (counts - uneven).abs().max() > 4.5 * (0.25 * 0.75 / runs) ** 0.5, "control"


def test_a_window_begins_at_rest_with_restart():
    start = torch.zeros(1, 1, dtype=torch.float64)
    for restart in (True, False):
        _, seen = driven(OnlineToNonconvex(9, 1.0, 0.5, 3, restart), Field(lambda x: -torch.ones_like(x), 1), start)
        assert [bool(state.move == 0) for state in seen] == [False, False, restart] * 3


def test_a_run_that_ends_early_returns_a_window_that_is_whole_or_where_it_is():
    start = torch.zeros(40, 1, dtype=torch.float64)
    gradient = lambda x: -torch.ones_like(x)  # noqa: E731
    state, _ = driven(OnlineToNonconvex(30, 1.0, 0.5, 3), Field(gradient, 40, steps=8), start)
    assert (state.status == Status.DATA_EXHAUSTED).all() and (state.windows == 2).all()
    assert torch.equal(state.x, state.chosen) and len(state.x.round(decimals=6).unique()) > 20
    state, seen = driven(OnlineToNonconvex(30, 1.0, 0.5, 3), Field(gradient, 40, steps=2), start)
    assert (state.status == Status.DATA_EXHAUSTED).all() and torch.equal(state.x, seen[1].x)
    state, _ = driven(OnlineToNonconvex(30, 1.0, 0.5, 3), Field(lambda x: x / 0, 40), start)
    assert (state.status == Status.DIVERGED).all() and (state.x == 0).all()


@pytest.mark.slow
def test_regret_of_a_window_reaches_the_corrected_constant_and_not_the_printed_one():
    """Slopes that reverse the learner and then keep it there: 5/2 D G1 sqrt(M), printed as 3/2."""
    window = 400
    turn = 2 * round(window**0.5)  # number of steps of D / sqrt(M) from D to -D
    later = ([-1.0] * 4 + [1.0] * 4) * window
    slopes = torch.tensor([-1.0] * window + [1.0] * turn + later[: window - turn], dtype=torch.float64)
    asked: list[float] = []

    def gradient(x: Tensor) -> Tensor:
        asked.append(float(slopes[len(asked)]))
        return torch.full_like(x, asked[-1])

    method = OnlineToNonconvex(2 * window, 1 / math.sqrt(window), 1.0, window)
    _, seen = driven(method, Field(gradient, 1), torch.zeros(1, 1, dtype=torch.float64))
    moves = torch.stack([state.move[0, 0] for state in seen])[window - 1 : 2 * window - 1]
    of_window = slopes[window : 2 * window]
    regret = float((of_window * moves).sum() + of_window.sum().abs())
    assert 2.4 * math.sqrt(window) < regret <= 2.5 * math.sqrt(window) * (1 + 1e-9)


def test_less_than_a_window_is_refused():
    with pytest.raises(ValueError, match="Expected num_steps=5 >= window=6"):
        OnlineToNonconvex(5, 0.1, 0.1, 6)
