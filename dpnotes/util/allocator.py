"""The C library's allocator, told to keep what a cell frees until the cell ends.

A step of a method frees the arrays of megabytes that the next one makes. glibc gives such memory back to the system at
once, which clears every page of it before it is used again: for one run of 11,552 examples and 1,000 hidden units that
was a third of a step (`benchmarks/allocator.py`).
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_AHEAD = 64 * 1024**2  # bytes asked from the system beyond what is needed, so that it is asked seldom
# By their numbers in glibc's malloc.h: M_MMAP_MAX, M_TRIM_THRESHOLD and M_TOP_PAD while a cell runs; the same and
# M_MMAP_THRESHOLD, at its largest, afterwards.
_WITHIN = {-4: 0, -1: -1, -2: _AHEAD}
_AFTERWARDS = {-4: 65536, -3: 32 * 1024**2, -1: 128 * 1024, -2: 128 * 1024}


@cache
def _glibc() -> Any:
    """The C library of this process; None if it is another one."""
    try:
        library = ctypes.CDLL(None)
        return library if library.gnu_get_libc_version and library.mallopt and library.malloc_trim else None
    except (OSError, TypeError, AttributeError):
        return None


@contextmanager
def kept_until_the_end() -> Iterator[None]:
    """Within it memory that is freed stays with the process; then it goes back. Does nothing where there is no glibc.

    It holds for all threads. Afterwards settings are glibc's defaults, whatever the environment had said, but for the
    size from which memory is mapped: glibc raises it by itself until it is set, so it is left at the largest.

    Example:
      >>> with kept_until_the_end():
      ...     total = sum(len(bytes(50_000_000)) for _ in range(3))
      >>> total
      150000000
    """
    glibc = _glibc()
    if glibc is None:
        yield
        return
    for setting in _WITHIN.items():
        glibc.mallopt(*setting)
    try:
        yield
    finally:
        for setting in _AFTERWARDS.items():
            glibc.mallopt(*setting)
        glibc.malloc_trim(0)
