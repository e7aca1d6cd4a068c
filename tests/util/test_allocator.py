"""Memory that a cell frees stays with its process until the cell ends; tested in processes with an empty heap."""

import json
import resource
import subprocess
import sys

import pytest

from dpnotes.util import allocator

PAGES = 2**26 // resource.getpagesize()  # pages of an array of 64 MiB, which does not fit into an empty heap
MEASURED = f"""
import contextlib, json, resource
from dpnotes.util import allocator

def touched():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        made = b"x" * 2**26
        del made
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / {PAGES}

def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) / {PAGES}

found = {{"without": touched(), "before": held()}}
with contextlib.suppress(ZeroDivisionError), allocator.kept_until_the_end():
    found["within"] = touched()
    arrays = [b"x" * 2**26 for _ in range(4)]
    del arrays
    found["kept"] = held()
    1 / 0
found["after"] = held()
print(json.dumps(found))
"""


def measured(before: str = "") -> dict[str, float]:
    """Return the pages that ten arrays touch for the first time, and the pages held, in units of an array."""
    done = subprocess.run([sys.executable, "-c", MEASURED.replace("\nfound", f"\n{before}\nfound", 1)],
                          capture_output=True, text=True, check=True)  # fmt: skip
    return json.loads(done.stdout)


pytestmark = pytest.mark.skipif(allocator._glibc() is None, reason="the C library is not glibc")


def test_pages_are_touched_once_and_go_back_at_the_end_even_after_an_error():
    found = measured()
    assert found["without"] > 9 and found["within"] < 2
    assert found["kept"] - found["before"] > 3.5 and found["after"] - found["before"] < 0.5


def test_another_c_library_is_left_alone():
    found = measured("allocator._glibc = lambda: None")
    assert found["within"] > 9 and found["kept"] - found["before"] < 0.5
