"""Times of several functions, measured in turn within one run."""

import statistics
import time
from collections.abc import Callable


def medians(*columns: Callable[[], object], rounds: int) -> list[float]:
    """Return the median milliseconds of each column, timed in turn, after two warm-up rounds."""
    times: list[list[float]] = [[] for _ in columns]
    for number in range(-2, rounds):
        for column, kept in zip(columns, times, strict=True):
            start = time.perf_counter()
            column()
            if number >= 0:
                kept.append(1e3 * (time.perf_counter() - start))
    return [statistics.median(kept) for kept in times]
