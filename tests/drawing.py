"""Random choices of slow tests, different at each commit."""

import random
from collections.abc import Iterable

from dpnotes.experiments import provenance


def drawn(choices: Iterable[str], number: int = 1) -> list[str]:
    """Return `number` of the choices, drawn by the commit's hash, or without git by the date."""
    seed = provenance.git("rev-parse", "HEAD") or provenance.now()[:10]
    return random.Random(seed.strip()).sample(sorted(choices), number)
