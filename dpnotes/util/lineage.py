"""What every copy of a state knows: how many releases its runs have made.

A state is a value. It may be kept, copied, taken apart by run and put together again, and none of this undoes a
release: a state whose run has gone on would draw, from seeded streams, the noise of the release that followed it, and
the difference of the two answers would be exact; from secret ones fresh noise, for a release that no meter counts. So
all copies of a state share one count, which only goes up, in one process: a fork has a copy of it.
"""

import os
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dpnotes.util import validate


class _Count:
    """Releases of all runs of a lineage: `most` `(num_runs,)` but for the last ones, which stand beside it as they are.

    So the usual step, which goes on from the newest state, compares two objects and no numbers.
    """

    def __init__(self, num_runs: int, device: torch.device) -> None:
        self.lock, self.process = threading.Lock(), os.getpid()
        self.most = torch.zeros(num_runs, dtype=torch.int64, device=device)
        self.rows: Tensor | None = None
        self.calls: Tensor | None = None

    def settled(self) -> Tensor:
        """With the last ones among them."""
        if self.rows is not None and self.calls is not None:
            self.most = self.most.scatter_reduce(0, self.rows, self.calls, "amax")  # a run may have several rows
            self.rows = self.calls = None
        return self.most


class Lineage:
    """Which runs a state is of, and the count that it shares with its copies; in memory alone, in no checkpoint.

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
        """Of so many runs that have released nothing, with their numbers on this device."""
        validate.at_least(0, num_runs=num_runs)
        rows = torch.arange(num_runs, device=device)
        return Lineage(_Count(num_runs, rows.device), rows)

    def late(self, calls: Tensor, asked: Tensor) -> Tensor | None:
        """The runs in `asked`, `(runs,)` bool, that have released since; None if by their looks none has.

        Args:
          calls: `(runs,)` int64, releases that the state knows of.
          asked: which runs matter.
        """
        with self._count.lock:
            return self._late(calls, asked)

    def advance(self, calls: Tensor, granted: Tensor) -> tuple[Tensor, Tensor | None]:
        """Write the next release of the runs in `granted` down, before anything of it is drawn.

        Returns:
          The releases that the next state knows of, `(runs,)`, and `late` of those granted: they may have none. Where
          that is known without waiting for a device (on the CPU) nothing is written down for any run.

        Raises:
          RuntimeError: in another process than the one that began it: both would make the release, and one count it.
        """
        if os.getpid() != self._count.process:  # before the lock, which a fork may have copied while it was held
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

    def withdraw(self, after: Tensor, before: Tensor) -> None:
        """Take back the `advance` from `before` to `after`, of which nothing has left: its release has failed."""
        with self._count.lock:
            if self._count.calls is after:
                self._count.calls = before

    def _late(self, calls: Tensor, asked: Tensor) -> Tensor | None:
        if calls is self._count.calls and self._rows is self._count.rows:
            return None
        return asked & (calls < self._count.settled()[self._rows])

    def mapped(self, function: Callable[..., Tensor], *others: "Lineage") -> "Lineage":
        """Of the runs that `function` makes of those of this and the others, as `states.map_state` does.

        Raises:
          ValueError: if one of them is of other runs.
        """
        if any(other._count is not self._count for other in others):
            raise ValueError("Expected states of one beginning: what other runs have released is not known to these.")
        return Lineage(self._count, function(self._rows, *(other._rows for other in others)))

    def renewed(self) -> "Lineage":
        """Of as many runs that know of no release: those of a state that is restored."""
        return Lineage.of(len(self._rows), self._rows.device)

    def __copy__(self) -> "Lineage":
        return self

    def __deepcopy__(self, memo: Any) -> "Lineage":
        return self

    def __reduce__(self) -> Any:
        raise TypeError("Expected a state that is stored by states.flatten or methods.checkpoint: a pickle forgets.")
