"""What every test of experiments runs under."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def little_to_search() -> Iterator[None]:
    """A run looks for the functions of its modules among all objects, of which a session of tests holds millions.

    What was there before the test is left out of that: a toy is imported by its test.
    """
    gc.freeze()
    yield
    gc.unfreeze()
