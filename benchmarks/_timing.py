"""Times of things that are compared, side by side in one run."""

import statistics
import time
from collections.abc import Callable


def medians(*columns: Callable[[], object], rounds: int) -> list[float]:
    """Median milliseconds of each column, taken in turn, after two rounds that do not count."""
    times: list[list[float]] = [[] for _ in columns]
    for number in range(-2, rounds):
        for column, kept in zip(columns, times, strict=True):
            start = time.perf_counter()
            column()
            if number >= 0:
                kept.append(1e3 * (time.perf_counter() - start))
    return [statistics.median(kept) for kept in times]
