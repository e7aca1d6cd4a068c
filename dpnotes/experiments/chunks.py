"""Runs in chunks: as many at once as the cache and the memory allow.

On a CPU a run whose working set is larger than the cache gains nothing from company: it is executed alone. Smaller
ones are executed together as far as they fit into the cache. On a GPU as many are executed as fit into memory, and
when memory runs out all the same the chunk is halved and the work goes on.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dpnotes.util import validate

_DEFAULT_CACHE_BYTES = 2**20  # where the system does not tell; the second-level cache of common cores


def parse_memory(memory: str | int) -> int:
    """A number of bytes from "512MB", "4GB", "1.5 GiB", or a number of bytes.

    >>> parse_memory("4GB")
    4000000000
    >>> parse_memory("lots")
    Traceback (most recent call last):
    ValueError: Expected memory='lots' to be a size such as '512MB' or '4GB'.
    """
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])(I?))?B\s*", memory.upper())
        if match is None:
            raise ValueError(f"Expected memory={memory!r} to be a size such as '512MB' or '4GB'.")
        memory = int(float(match[1]) * (1024 if match[3] else 1000) ** " KMGT".index(match[2] or " "))
    validate.at_least(1, memory=memory)
    return int(memory)


def format_bytes(size: float) -> str:
    """A size that reads well.

    >>> format_bytes(3_200_000)
    '3.2 MB'
    """
    for unit in ("B", "kB", "MB"):
        if abs(size) < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


@cache
def cpu_cache_bytes() -> int:
    """Size of the largest cache of the first core, as Linux tells it; 1 MiB where nothing does."""
    told = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    return max(_DEFAULT_CACHE_BYTES, *(int(path.read_text().strip().removesuffix("K")) * 1024 for path in told))


Work = Callable[[range], Mapping[str, Any]]  # computes the columns of some runs


@dataclass(frozen=True)
class Chunking:
    """The record of an execution: the final `chunk_size` of runs at once, and the `halvings` before it."""

    num_runs: int
    chunk_size: int
    halvings: int = 0


def chunk_size(
    num_runs: int, bytes_per_run: int, memory_bytes: int, device: str, cache_bytes: int | None = None
) -> int:
    """The number of runs to execute at once.

    Args:
      num_runs: runs in all.
      bytes_per_run: the working set of one run at its peak.
      memory_bytes: what the runs that are held at once may take.
      device: "cpu" or "cuda".
      cache_bytes: size of the CPU's cache; None asks the system.

    Raises:
      MemoryError: not even one run fits.

    >>> chunk_size(100, 2_000_000, 10**9, "cpu", cache_bytes=8_000_000)
    4
    >>> chunk_size(100, 20_000_000, 10**9, "cpu", cache_bytes=8_000_000)
    1
    >>> chunk_size(100, 20_000_000, 10**9, "cuda")
    50
    """
    validate.at_least(1, num_runs=num_runs, bytes_per_run=bytes_per_run, memory_bytes=memory_bytes)
    if bytes_per_run > memory_bytes:
        raise MemoryError(
            f"Expected bytes_per_run={format_bytes(bytes_per_run)} <= {format_bytes(memory_bytes)}, the memory there "
            "is for the runs: allow more (--memory) or take a smaller profile."
        )
    in_cache = max(1, (cache_bytes or cpu_cache_bytes()) // bytes_per_run) if device == "cpu" else num_runs
    return min(memory_bytes // bytes_per_run, in_cache, num_runs)


def run_in_chunks(
    function: Work, num_runs: int, bytes_per_run: int, memory_bytes: int, device: str, cache_bytes: int | None = None
) -> tuple[dict[str, np.ndarray], Chunking]:
    """Columns of `num_runs` runs, and how they were executed.

    Args:
      function: takes the indices of the runs to execute, returns columns (arrays or tensors) with one entry a
        run. A run's numbers depend on its index alone, so the chunks leave no trace.
      num_runs: runs in all.
      bytes_per_run: the working set of one run at its peak.
      memory_bytes: what the runs that are held at once may take.
      device: "cpu" or "cuda".
      cache_bytes: size of the CPU's cache; None asks the system.

    Raises:
      MemoryError: not even one run fits, by its declared size or in fact.

    >>> run_in_chunks(lambda runs: {"square": np.array(runs) ** 2}, 3, 100, 250, "cpu")
    ({'square': array([0, 1, 4])}, Chunking(num_runs=3, chunk_size=2, halvings=0))
    """
    size = chunk_size(num_runs, bytes_per_run, memory_bytes, device, cache_bytes)
    parts, start, halvings = list[dict[str, np.ndarray]](), 0, 0
    while start < num_runs:
        runs = range(start, min(start + size, num_runs))
        part, shortage = _attempt(function, runs)
        if part is not None:
            parts.append(part)
            start = runs.stop
        elif len(runs) == 1:
            raise MemoryError(f"Expected one run to fit into the memory of device={device!r}, got: {shortage}")
        else:
            size, halvings = len(runs) // 2, halvings + 1
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return columns, Chunking(num_runs, size, halvings)


def _attempt(function: Work, runs: range) -> tuple[dict[str, np.ndarray] | None, str]:
    """The columns of some runs, or None and the message when memory ran out.

    The exception dies here, with the frames that it holds: they keep the chunk's tensors alive.
    """
    import torch

    try:
        columns = {name: _array(value) for name, value in function(runs).items()}
    except (MemoryError, torch.OutOfMemoryError) as error:
        shortage = str(error) or type(error).__name__
    else:
        for name, column in columns.items():
            if column.shape[:1] != (len(runs),):
                found = f"got shape {column.shape}"
                raise ValueError(f"Expected column {name!r} to have {len(runs)} entries, one a run, {found}.")
        return columns, ""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None, shortage


def _array(value: Any) -> np.ndarray:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
