"""The workers of a dask cluster, on which the cells of a run are computed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class ClusterError(RuntimeError):
    """The error for a cluster that cannot be reached, or whose workers died."""


def _available() -> int:
    import psutil

    return psutil.virtual_memory().available


@contextmanager
def workers(address: str) -> Iterator[tuple[int, int]]:
    """A context in which joblib's jobs go to the workers of a scheduler.

    A worker computes one cell at a time, so that more than one thread a worker gains nothing.

    Args:
      address: of the scheduler, such as "tcp://10.0.0.1:8786".

    Yields:
      The number of workers, and the free memory in bytes of the smallest one.

    Raises:
      ClusterError: if there is no scheduler, or it has no workers; within, if workers died. Finished cells are kept.
      ImportError: without the extra `cluster`.
    """
    try:
        import joblib
        from distributed import Client, KilledWorker
    except ImportError:
        raise ImportError("Expected dask's distributed to be installed: pip install 'dpnotes[cluster]'.") from None
    try:
        client = Client(address, timeout=10)
    except (OSError, ValueError, TimeoutError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ClusterError(f"Expected a dask scheduler at {address}: {said}") from None
    with client:
        found: list[dict[str, Any]] = [*client.scheduler_info(n_workers=-1)["workers"].values()]
        if not found:
            raise ClusterError(f"Expected the scheduler at {address} to have workers; it has none.")
        with joblib.parallel_config(backend="dask", n_jobs=len(found)):
            try:
                free: dict[str, int] = client.run(_available)  # type: ignore[assignment]
                yield len(found), min([*(each["memory_limit"] for each in found), *free.values()])
            except KilledWorker as error:
                said = f"the worker that computed a cell died {error.allowed_failures} times"
                raise ClusterError(f"Expected workers that live: {said}. Finished cells are kept.") from None
