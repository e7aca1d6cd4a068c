"""Checks of values in tensors, where reading a value may make the host wait for a device.

On the CPU a check raises at once. On a device it is written down, and raises when somebody waits for the device anyway
(`settle`, which the loop over steps calls, as do checkpoints and guarantees). Until then nothing about the data may
have left: whoever checks so has to make sure that what is computed from a bad value is no answer.
"""

import threading
from collections.abc import Callable

import torch
from torch import Tensor

_MOST = 256  # checks that wait in a loop which never settles

_waiting = threading.local()


def require(holds: Tensor, error: Callable[[], Exception]) -> None:
    """Raise `error()` unless all of `holds`: now on the CPU, on a device at the next `settle`.

    Args:
      holds: bool, of any shape.
      error: makes the exception; called only where something does not hold.

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
    pending.append((holds.all(), error))
    if len(pending) > _MOST:
        settle()


def known_empty(mask: Tensor) -> bool:
    """Whether no entry of a mask is true, as far as asking costs nothing: of one on a device nobody knows.

    Example:
      >>> known_empty(torch.tensor([False, False]))
      True
    """
    return mask.device.type == "cpu" and not bool(mask.any())


def settle() -> None:
    """Wait for the device, and raise what does not hold of all that was required there, the first first.

    Example:
      >>> settle()
    """
    pending = _pending()
    if not pending:
        return
    held, errors = torch.stack([holds for holds, _ in pending]).tolist(), [error for _, error in pending]
    pending.clear()
    for holds, error in zip(held, errors, strict=True):
        if not holds:
            raise error()


def _pending() -> list[tuple[Tensor, Callable[[], Exception]]]:
    if not hasattr(_waiting, "checks"):
        _waiting.checks = []
    return _waiting.checks
