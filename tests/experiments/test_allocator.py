"""Memory that a cell frees stays with the process until the cell ends."""

import resource

import pytest
import torch

from dpnotes.experiments import allocator
from dpnotes.experiments.allocator import kept_until_the_end

PAGES = 2**25 // resource.getpagesize()  # of the arrays below, of 32 MiB each


def touched(times: int) -> int:
    """Pages touched for the first time while arrays are made and freed."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        torch.ones(2**25, dtype=torch.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


pytestmark = pytest.mark.skipif(allocator._glibc() is None, reason="the C library is not glibc")


def test_pages_are_touched_once_within_and_every_time_without():
    touched(2)
    assert touched(10) > 5 * PAGES
    with kept_until_the_end():
        touched(2)
        assert touched(10) < PAGES


def test_what_was_kept_goes_back_even_after_an_error():
    def held() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1])

    before = held()
    with pytest.raises(ZeroDivisionError), kept_until_the_end():
        arrays = [torch.ones(2**25, dtype=torch.uint8) for _ in range(4)]
        del arrays
        kept = held()
        raise ZeroDivisionError
    assert kept - before > 3 * PAGES > PAGES > held() - before
    assert touched(10) > 5 * PAGES


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(allocator, "_glibc", lambda: None)
    touched(2)
    with kept_until_the_end():
        assert touched(10) > 5 * PAGES
