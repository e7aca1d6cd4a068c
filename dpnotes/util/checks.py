"""Checks of values in tensors, where reading a value may make the host wait for a device.

On the CPU a check raises at once. On a device it is written down, and raises when the host waits for the device anyway
(`settle`, which the loop over steps calls, as do checkpoints and guarantees). Until then nothing about the data may
have left: whoever checks so has to make sure that what is computed from a bad value is no answer.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
    pending.append((holds, error))
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
    """Wait for the device, and raise the first of what was required in this thread and does not hold.

    How many others do not hold is added to the error as a note.

    Example:
      >>> settle()
    """
    pending = _pending()
    if not pending:
        return
    by_device: dict[torch.device, list[Tensor]] = {}
    for holds, _ in pending:
        by_device.setdefault(holds.device, []).append(holds.flatten())
    held = all([bool(torch.cat(masks).all()) for masks in by_device.values()])
    errors = [] if held else [error for holds, error in pending if not bool(holds.all())]
    pending.clear()  # only now: whoever interrupts the wait loses nothing
    if errors:
        first = _made(errors[0])
        if len(errors) > 1:
            first.add_note(f"{len(errors) - 1} more of what was required on a device does not hold either.")
        raise first


@contextmanager
def settled() -> Iterator[None]:
    """What is required inside is settled before its end and nowhere else; an error that ends it drops the rest.

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


def _made(error: Callable[[], Exception]) -> Exception:
    try:
        return error()
    except Exception:  # it looks at tensors that somebody has changed since
        return ValueError("Expected what a step required on a device to hold; its values were changed since.")


def _pending() -> list[tuple[Tensor, Callable[[], Exception]]]:
    if not hasattr(_waiting, "checks"):
        _waiting.checks = []
    return _waiting.checks
