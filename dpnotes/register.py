"""What secret streams have drawn: each number of a run once, whoever asks for it.

Two mechanisms of one purpose, two calls of an algorithm or a state that was put back would draw the noise of the first
again, and the difference of what they release has none. So all parts of secret streams share one register, in which the
numbers of a purpose only go up.
"""

import os
import secrets
import threading

import torch
from torch import Tensor

from dpnotes import checks

ELEMENTS = 2**32 - 1  # that a call of secret streams has at most: call and element are one number of 64 bits
_NONE = -(2**63)  # the position before any draw


def random_keys(num_runs: int, device: torch.device) -> Tensor:
    """Keys from the operating system's generator, `(num_runs, 2)` int64.

    Example:
      >>> random_keys(3, torch.device("cpu")).shape
      torch.Size([3, 2])
    """
    words = [[secrets.randbits(32), secrets.randbits(32)] for _ in range(num_runs)]
    return torch.tensor(words, dtype=torch.int64, device=device)


class Register:
    """Which draw of each of `num_runs` runs is the next that is allowed, for each purpose.

    A draw has a position, its call and after that its element, and is allowed if no later one was made. On the CPU any
    other is an error at once. On a device, where errors wait for the host (`dpnotes.checks`), its run is
    served nothing from then on.

    Example:
      >>> register, first = Register(2, torch.device("cpu")), torch.tensor([0])
      >>> register.claim("noise", "normals", first, 0, 3).tolist()
      [True, True]
      >>> register.claim("noise", "normals", first, 2, 3)
      Traceback (most recent call last):
      ValueError: Expected call=0 of run 0 to come after all that was drawn for purpose='noise', from element 2 on:
      secret streams draw a number once; give each mechanism, oracle or call of an algorithm a purpose or streams of its
      own, and make no step again.
    """

    def __init__(self, num_runs: int, device: torch.device) -> None:
        self._next: dict[str, Tensor] = {}
        self._replayed: dict[str, Tensor] = {}
        self._kinds: dict[str, str] = {}
        self._nothing = torch.full((num_runs,), _NONE, device=device)
        self._served = torch.ones(num_runs, dtype=torch.bool, device=device)
        self._process, self._lock = os.getpid(), threading.Lock()

    def claim(
        self,
        purpose: str,
        kind: str,
        calls: Tensor,
        start: int,
        size: int,
        runs: Tensor | None = None,
        active: Tensor | None = None,
    ) -> Tensor:
        """Write a draw down before it is made.

        Args:
          purpose: what it is for.
          kind: of numbers; those of two kinds are made of the same words.
          calls: `(1,)` or one a run, int64 from 0 to 2^32 - 1.
          start: the first element.
          size: how many elements, at least 1.
          runs: the runs that draw, each once; all of them if None.
          active: bool, one for each of those: the others' numbers are not used, and they may draw them later.

        Returns:
          The active runs that draw these numbers for the first time, bool, one a run.

        Raises:
          RuntimeError: in another process than the one that began the register: a fork has its parent's keys.
          ValueError: if an active run has drawn these elements or later ones, on a device as `dpnotes.checks` says; if
            the purpose has drawn numbers of another kind; for more elements than a call has.
        """
        self._check_process()
        if start + size > ELEMENTS:
            raise ValueError(f"Expected start + size={start + size} <= {ELEMENTS} of secret streams.")
        position = (calls - 2**31) * 2**32 + start
        with self._lock:
            if self._kinds.setdefault(purpose, kind) != kind:
                raise ValueError(
                    f"Expected purpose={purpose!r} to draw {self._kinds[purpose]} as before, got {kind}: they are made "
                    "of the same words."
                )
            drawn = self._next.get(purpose, self._nothing)
            before, served = (drawn, self._served) if runs is None else (drawn[runs], self._served[runs])
            asked = served if active is None else served & active
            allowed = asked & (position >= before)
            fine = ~(wrong := asked ^ allowed)
            if wrong.device.type == "cpu" and bool(wrong.any()):
                raise _error(purpose, calls, start, runs, wrong)
            after, served = torch.where(allowed, position + size, before), served & fine
            if runs is not None:
                after, served = drawn.index_copy(0, runs, after), self._served.index_copy(0, runs, served)
            self._next[purpose], self._served = after, served
        checks.require(fine, lambda: _error(purpose, calls, start, runs, wrong))
        return allowed

    def served(self, active: Tensor, runs: Tensor | None = None) -> Tensor:
        """Those of `active` of which no draw was refused, bool; all of them on the CPU, where that is an error.

        Example:
          >>> Register(2, torch.device("cpu")).served(torch.tensor([True, False])).tolist()
          [True, False]
        """
        if active.device.type == "cpu":
            return active
        return active & (self._served if runs is None else self._served[runs])

    def replayed_keys(self, purpose: str) -> Tensor:
        """Keys for what may be drawn again, `(runs, 2)` of all runs, the same at every call: no other draw has them.

        Example:
          >>> register = Register(2, torch.device("cpu"))
          >>> torch.equal(register.replayed_keys("example"), register.replayed_keys("example"))
          True
        """
        self._check_process()
        with self._lock:
            if purpose not in self._replayed:
                self._replayed[purpose] = random_keys(len(self._nothing), self._nothing.device)
            return self._replayed[purpose]

    def _check_process(self) -> None:  # before the lock, which a fork may have copied while it was held
        if os.getpid() != self._process:
            raise RuntimeError(
                f"Expected process {self._process} to draw from the secret streams that it made, got {os.getpid()}: a "
                "fork would draw its parent's noise; make streams in it with Streams.secure."
            )


def _error(purpose: str, calls: Tensor, start: int, runs: Tensor | None, wrong: Tensor) -> ValueError:
    row = int(wrong.nonzero()[0])
    call, run = int(calls.expand(len(wrong))[row]), row if runs is None else int(runs[row])
    return ValueError(
        f"Expected call={call} of run {run} to come after all that was drawn for purpose={purpose!r}, from element "
        f"{start} on: secret streams draw a number once; give each mechanism, oracle or call of an algorithm a purpose "
        "or streams of its own, and make no step again."
    )
