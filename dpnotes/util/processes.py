"""Communication of processes that compute one result together: an all-gather of tensors and of JSON.

`ALONE` is the single process of a notebook. `Together` represents the processes that `torchrun` starts
(torch.distributed: gloo on CPUs, nccl on GPUs). Every process gathers the same values, so none is a master.

No process runs code from another one: a message is numbers or JSON, and its kind is compared before its bytes are
received.
"""

import datetime
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from dpnotes.util import validate

_KEY = "dpnotes/round"
_DIGEST = 24  # bytes
_MOMENT = 3.0  # seconds in which living processes may still join a failed round


class ProcessLost(RuntimeError):
    """The error for a process that died, hangs or sends an unexpected message; `ranks` are the failing processes."""

    def __init__(self, ranks: tuple[int, ...], reason: str) -> None:
        super().__init__(f"Expected all processes to answer: {_named(ranks)} {reason}.")
        self.ranks, self.reason = ranks, reason


def _named(ranks: tuple[int, ...]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}" if ranks else "one of them"


class Processes(Protocol):
    """A group of `size` processes, at least 1, of which this one has the number `rank`, from 0 on.

    `gather` returns the tensors of all processes, `(size, *shape)`, to the bit; all call it with the same shape and
    type. `gather_json` returns the values of all processes after a round trip through JSON: tuples become lists.
    """

    @property
    def rank(self) -> int: ...  # noqa: D102
    @property
    def size(self) -> int: ...  # noqa: D102
    def gather(self, values: Tensor) -> Tensor: ...  # noqa: D102
    def gather_json(self, value: Any) -> list[Any]: ...  # noqa: D102


class _Alone:
    rank, size = 0, 1

    def gather(self, values: Tensor) -> Tensor:
        return values[None]

    def gather_json(self, value: Any) -> list[Any]:
        return [json.loads(_json(value))]


ALONE: Processes = _Alone()


class Together:
    """The processes that `torchrun` started, of which this is one.

    Each process writes the number of its round into the launcher's store before it sends. A process that waits in vain
    can therefore name the missing ones, within the timeout.

    Args:
      timeout: seconds that a process waits for another one, above 0.
      backend: "gloo", or "nccl" for tensors on GPUs.

    Raises:
      RuntimeError: if `torchrun` has not started this process.
    """

    def __init__(self, timeout: float = 60.0, backend: str = "gloo") -> None:
        validate.positive(timeout=timeout)
        validate.one_of(("gloo", "nccl"), backend=backend)
        if "RANK" not in os.environ:
            raise RuntimeError("Expected RANK in the environment: start the processes by torchrun.")
        self._wait = datetime.timedelta(seconds=timeout)
        if not dist.is_initialized():
            dist.init_process_group(backend, timeout=self._wait)
        self.rank, self.size, self._round = dist.get_rank(), dist.get_world_size(), 0
        self._store = dist.distributed_c10d._get_default_store()  # noqa: SLF001

    def gather(self, values: Tensor) -> Tensor:
        """Gather tensors as `Processes.gather`.

        Raises:
          ProcessLost: naming the processes that did not send, or sent another kind of message.
        """
        kind = f"{values.dtype} of shape {tuple(values.shape)}"
        sent = values.detach().contiguous().cpu().reshape(-1).view(torch.uint8)
        found = self._exchanged(kind, sent)
        return torch.stack([each.view(values.dtype).view(values.shape) for each in found]).to(values.device)

    def gather_json(self, value: Any) -> list[Any]:
        """Gather values as `Processes.gather_json`, with the errors of `gather`."""
        sent = torch.frombuffer(bytearray(_json(value)), dtype=torch.uint8)
        return [json.loads(each.numpy().tobytes()) for each in self._exchanged("JSON", sent)]

    def _exchanged(self, kind: str, sent: Tensor) -> list[Tensor]:
        """The bytes of all processes, exchanged after headers of one size with the kind and length."""
        told = hashlib.blake2b(kind.encode(), digest_size=_DIGEST).digest()
        head = told + len(sent).to_bytes(8, "little")
        heads = [t.numpy().tobytes() for t in self._all(torch.frombuffer(bytearray(head), dtype=torch.uint8))]
        kinds, sizes = [each[:_DIGEST] for each in heads], [int.from_bytes(each[_DIGEST:], "little") for each in heads]
        # The kind that most processes send is taken as right; in a tie, this process's own.
        usual = max(kinds, key=lambda each: (kinds.count(each), each == told))
        if strange := tuple(rank for rank, each in enumerate(kinds) if each != usual):
            others = kind if usual == told else "the others"
            raise ProcessLost(strange, f"sent something else than {others} in round {self._round}")
        padded = sent.new_zeros(max(sizes))
        padded[: len(sent)] = sent
        return [each[:size] for each, size in zip(self._all(padded), sizes, strict=True)]

    def _all(self, message: Tensor) -> list[Tensor]:
        """The messages of all processes, which have one length."""
        found = message.new_empty(self.size, len(message), device="cuda" if dist.get_backend() == "nccl" else "cpu")
        self._meet(lambda: dist.all_gather([*found], message.to(found.device)))
        return [*found.cpu()]

    def close(self) -> None:
        """Leave the group of processes at the end of a program; not after a `ProcessLost`."""
        dist.destroy_process_group()

    def _meet(self, send: Callable[[], Any]) -> None:
        self._round += 1
        try:
            self._store.set(f"{_KEY}/{self.rank}", str(self._round))
            send()
        except RuntimeError as error:
            raise ProcessLost(self._behind(), f"did not come to round {self._round} ({_short(error)})") from None

    def _behind(self) -> tuple[int, ...]:
        """The processes that have not reached this round; none if all have, or if the store is gone, too.

        When a process dies, some processes notice before others have reached the round, so these get a moment.
        """
        until = time.monotonic() + _MOMENT
        while True:
            try:
                late = tuple(rank for rank in range(self.size) if not self._came(rank))
            except RuntimeError:
                return ()
            if len(late) < 2 or time.monotonic() > until:
                return late
            time.sleep(0.05)

    def _came(self, rank: int) -> bool:
        key = f"{_KEY}/{rank}"
        told = self._store.get(key) if self._store.check([key]) else b""
        return told.isdigit() and int(told) >= self._round


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _short(error: Exception) -> str:
    return str(error).splitlines()[0].split("] ")[-1].split(". ")[0][:100].rstrip(".")


def agree(processes: Processes, facts: Mapping[str, Any]) -> None:
    """Refuse processes whose facts differ from those of rank 0, such as threads, versions or a run's settings.

    Args:
      processes: the group; all its processes call this function.
      facts: names and values that must be the same everywhere, as JSON.

    Raises:
      ProcessLost: naming the first fact that differs, both values, and the ranks that differ from rank 0.

    Example:
      >>> agree(ALONE, {"threads": 1})
    """
    everyone = processes.gather_json(dict(facts))
    for name, value in everyone[0].items():
        others = tuple(rank for rank, given in enumerate(everyone) if given.get(name) != value)
        if others:
            reason = f"has {name}={everyone[others[0]].get(name)!r}, rank 0 has {value!r}"
            raise ProcessLost(others, reason)


def common_facts() -> dict[str, Any]:
    """The facts that affect the bits of a sum, apart from its terms: torch's version and number of threads.

    Example:
      >>> sorted(common_facts())
      ['threads', 'torch']
    """
    return {"torch": torch.__version__, "threads": torch.get_num_threads()}
