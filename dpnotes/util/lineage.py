"""The number of releases of each run, shared by all copies of a state so that no state releases twice.

A state is a value: it may be kept, copied, split by run and recombined, but none of this undoes a release. Releasing
again from an older state would reuse noise on seeded streams, so that the difference of the two answers is exact; on
secret streams it would draw fresh noise for a release that no meter counts. Therefore all copies of a state share one
count, which only increases. It is valid in one process: a forked process has a copy of the count.
"""

import os
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dpnotes.util import validate


class _Count:
    """The releases of all runs: counts `most` `(num_runs,)` and the latest update, which is kept apart as given.

    A step from the newest state is then recognised by comparing two objects, without comparing numbers.
    """

    def __init__(self, num_runs: int, device: torch.device) -> None:
        self.lock, self.process = threading.Lock(), os.getpid()
        self.most = torch.zeros(num_runs, dtype=torch.int64, device=device)
        self.rows: Tensor | None = None
        self.calls: Tensor | None = None

    def settled(self) -> Tensor:
        """The counts after applying the latest update."""
        if self.rows is not None and self.calls is not None:
            self.most = self.most.scatter_reduce(0, self.rows, self.calls, "amax")  # a run may have several rows
            self.rows = self.calls = None
        return self.most


class Lineage:
    """The runs of a state, and the release count that it shares with its copies; never stored in a checkpoint.

    Example:
      >>> state = Lineage.of(2)
      >>> before, both = torch.tensor([0, 0]), torch.tensor([True, True])
      >>> after, late = state.advance(before, both)
      >>> after, state.late(after, both), state.late(before, both)
      (tensor([1, 1]), None, tensor([True, True]))
    """

    __slots__ = ("_count", "_rows")

    def __init__(self, count: _Count, rows: Tensor) -> None:
        self._count, self._rows = count, rows

    @staticmethod
    def of(num_runs: int, device: torch.device | str = "cpu") -> "Lineage":
        """The lineage of `num_runs` runs that have released nothing, with their indices on `device`."""
        validate.at_least(0, num_runs=num_runs)
        rows = torch.arange(num_runs, device=device)
        return Lineage(_Count(num_runs, rows.device), rows)

    def late(self, calls: Tensor, asked: Tensor) -> Tensor | None:
        """The runs in `asked`, `(runs,)` bool, that have released since; None if the state is known to be the newest.

        Args:
          calls: `(runs,)` int64, the number of releases according to the state.
          asked: the runs to check.
        """
        with self._count.lock:
            return self._late(calls, asked)

    def advance(self, calls: Tensor, granted: Tensor) -> tuple[Tensor, Tensor | None]:
        """Count the next release of the runs in `granted`, before its noise is drawn.

        Returns:
          The release counts of the next state, `(runs,)`, and `late` for the granted runs, which must not release if
          they are late. On the CPU, where this is known without waiting, a late run prevents the count for all runs.

        Raises:
          RuntimeError: in another process than the first one: both would release, but each counts only its own.
        """
        if os.getpid() != self._count.process:  # before the lock, which a fork may have copied in its locked state
            raise RuntimeError(
                f"Expected process {self._count.process} to release from the states that it began, got {os.getpid()}, "
                "a fork: begin a run in it."
            )
        with self._count.lock:
            late = self._late(calls, granted)
            if late is not None and late.device.type == "cpu" and bool(late.any()):
                return calls, late
            after = calls + granted
            self._count.rows, self._count.calls = self._rows, after
            return after, late

    def _late(self, calls: Tensor, asked: Tensor) -> Tensor | None:
        if calls is self._count.calls and self._rows is self._count.rows:
            return None
        return asked & (calls < self._count.settled()[self._rows])

    def mapped(self, function: Callable[..., Tensor], *others: "Lineage") -> "Lineage":
        """The lineage of the runs that `function` selects from this and the other lineages; see `states.map_state`.

        Raises:
          ValueError: if the lineages have different origins.
        """
        if any(other._count is not self._count for other in others):
            raise ValueError("Expected states of one beginning: these states do not share a release count.")
        return Lineage(self._count, function(self._rows, *(other._rows for other in others)))

    def renewed(self) -> "Lineage":
        """A new lineage of as many runs without releases, for a state that is restored."""
        return Lineage.of(len(self._rows), self._rows.device)

    def __copy__(self) -> "Lineage":
        return self

    def __deepcopy__(self, memo: Any) -> "Lineage":
        return self

    def __reduce__(self) -> Any:
        raise TypeError("Expected a state that is stored by states.flatten or methods.checkpoint, not by pickle.")
