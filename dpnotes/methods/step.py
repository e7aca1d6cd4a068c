"""The common parts of a method's step: the estimate, the move and the new status of each run."""

from dataclasses import fields
from typing import Any, TypeVar

import torch
from torch import Tensor

from dpnotes.core import Estimate, Oracle, Status
from dpnotes.random.streams import Streams
from dpnotes.util.per_run import rows
from dpnotes.util.states import finite

Settings = TypeVar("Settings")


def settings_of(method: object, kind: type[Settings], x: Tensor, whole: tuple[str, ...] = ()) -> Settings:
    """The parameters of each run, `(runs,)`, so that runs with different parameters form one batch.

    Args:
      method: has the fields of `kind`, each one number for all runs or `(runs,)`.
      kind: a dataclass of tensors.
      x: `(runs, dim)`.
      whole: the fields that are int64; the others are float64.

    Raises:
      ValueError: for a parameter of another shape.
    """
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    kinds = {name: torch.int64 if name in whole else torch.float64 for name in names}
    return kind(**{name: rows(getattr(method, name), x, kinds[name]) for name in names})


def ask(state: Any, oracle: Oracle, streams: Streams) -> tuple[Any, Estimate, Tensor]:
    """Ask for an estimate in the runs whose status is OK.

    Args:
      state: of a method: it has points `x` `(runs, dim)`, a `status` per run, and the state of the `oracle`.
      oracle: the source of the estimate.
      streams: one key per run.

    Returns:
      The oracle's state (complete: an oracle keeps the rows of the runs that it did not answer), the estimate, and
      which runs move, `(runs,)` bool.
    """
    running = state.status == Status.OK
    oracle_state, estimate = oracle.estimate(state.oracle, state.x, streams, running)
    return oracle_state, estimate, running & (estimate.status == Status.OK)


def arrive(state: Any, estimate: Estimate, moves: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Move to the points `x`, unless they are not finite.

    Returns:
      Which runs have moved, `(runs,)` bool, and each run's status: the estimate's status if it was refused, DIVERGED if
      the new point was not finite.
    """
    moved = moves & finite(x)
    # A run for which no estimate was requested has the estimate status OK, which is 0.
    return moved, torch.maximum(state.status, estimate.status).masked_fill(moves ^ moved, Status.DIVERGED)
