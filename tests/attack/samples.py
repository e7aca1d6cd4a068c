"""The cells of stored results that the tests run again."""

import random
from collections.abc import Iterable
from itertools import zip_longest

from dpnotes.experiments import agreement, store

SHORT = 30.0  # seconds of a cell that `make test-all` draws; longer ones are run by `dpnotes verify` alone


def draw(
    results: Iterable[store.Result], seed: str, cpu_seconds: float, longest: float = SHORT
) -> list[agreement.Sample]:
    """Cells of some results for so many seconds, one of each result in turn, none over `longest` seconds."""
    results = [result for result in results if result.state == "stored"]
    random.Random(seed).shuffle(results)
    queues = [
        [one for part in agreement.samples_of(result, seed) for one in part if one.seconds <= longest]
        for result in results
    ]
    chosen, left = list[agreement.Sample](), cpu_seconds
    for turn in zip_longest(*queues):
        for sample in filter(None, turn):
            if sample.seconds <= left:
                chosen.append(sample)
                left -= sample.seconds
    return chosen
