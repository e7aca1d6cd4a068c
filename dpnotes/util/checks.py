"""Checks of tensor values, deferred where reading a value would make the host wait for a device.

On the CPU a check raises at once. On a device the check is queued and raises when the host waits for the device anyway
(`settle`, which the loop over steps, checkpoints and guarantees call). Until then nothing about the data may leave: the
caller must make sure that no answer is computed from a bad value.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_MOST = 256  # checks in the queue before `require` itself settles them

_waiting = threading.local()


def require(holds: Tensor, error: Callable[[], Exception]) -> None:
    """Raise `error()` unless all of `holds`: now on the CPU, on a device at the next `settle`.

    Args:
      holds: bool, of any shape.
      error: makes the exception; called only if an entry does not hold.

    Example:
      >>> require(torch.tensor([True, False]), lambda: ValueError("Expected both."))
      Traceback (most recent call last):
      ValueError: Expected both.
    """
    if holds.device.type == "cpu":
        if not bool(holds.all()):
            raise error()
        return
    pending = _pending()
    pending.append((holds, error))
    if len(pending) > _MOST:
        settle()


def known_empty(mask: Tensor) -> bool:
    """Return whether a mask on the CPU has no true entry; False for a mask on a device, which is not read.

    Example:
      >>> known_empty(torch.tensor([False, False]))
      True
    """
    return mask.device.type == "cpu" and not bool(mask.any())


def settle() -> None:
    """Wait for the device, and raise the error of the first queued check of this thread that does not hold.

    Example:
      >>> settle()
    """
    pending = _pending()
    if not pending:
        return
    held = bool(torch.cat([holds.flatten() for holds, _ in pending]).all())
    errors = [] if held else [error for holds, error in pending if not bool(holds.all())]
    pending.clear()  # only now, so that an interrupted wait loses no check
    if errors:
        raise errors[0]()


@contextmanager
def settled() -> Iterator[None]:
    """A context whose checks are settled separately, before it ends; if an error ends it, they are dropped.

    Example:
      >>> with settled():
      ...     require(torch.tensor([True]), lambda: ValueError("Expected it."))
    """
    before, _waiting.checks = _pending(), []
    try:
        yield
        settle()
    finally:
        _waiting.checks = before


def _pending() -> list[tuple[Tensor, Callable[[], Exception]]]:
    if not hasattr(_waiting, "checks"):
        _waiting.checks = []
    return _waiting.checks
