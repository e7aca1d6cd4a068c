"""The skeleton of a step: who is asked for, who moves, and what becomes of a run."""

from typing import Any, Protocol

import torch
from torch import Tensor

from dpnotes.core import Estimate, Oracle, Status
from dpnotes.random.streams import Streams
from dpnotes.util.states import finite


class Moving(Protocol):
    """What every method's state holds: points `(runs, dim)`, a status a run, and the oracle's state."""

    @property
    def x(self) -> Tensor:
        """Where the runs are."""
        ...

    @property
    def status(self) -> Tensor:
        """A `Status` a run."""
        ...

    @property
    def oracle(self) -> Any:
        """The state of the oracle."""
        ...


def ask(state: Moving, oracle: Oracle, streams: Streams) -> tuple[Any, Estimate, Tensor]:
    """Ask for an estimate in the runs whose status is OK.

    Returns:
      The oracle's state (as it is: an oracle keeps the rows of the runs that it did not answer), the estimate, and
      which runs move by it, `(runs,)` bool.
    """
    running = state.status == Status.OK
    oracle_state, estimate = oracle.estimate(state.oracle, state.x, streams, running)
    return oracle_state, estimate, running & (estimate.status == Status.OK)


def arrive(state: Moving, estimate: Estimate, moves: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Move to the points `x`, unless they are not finite.

    Returns:
      Which runs have moved, `(runs,)` bool, and every run's status: of one that was not answered the estimate's, of
      one that would have left the finite numbers DIVERGED.
    """
    moved = moves & finite(x)
    # The estimate of a run that was not asked for is OK, which is 0.
    return moved, torch.maximum(state.status, estimate.status).masked_fill(moves ^ moved, Status.DIVERGED)
