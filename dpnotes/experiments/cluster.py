"""The workers of a dask cluster, on which the cells of a run are computed."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


class ClusterError(RuntimeError):
    """The error for a cluster that cannot be reached, or whose workers or scheduler died."""


@dataclass(frozen=True)
class Cluster:
    """The workers of a dask cluster.

    Args:
      client: of dask's distributed.
      jobs: the number of workers.
      worker_bytes: the free memory of the smallest worker.
    """

    client: Any
    jobs: int
    worker_bytes: int

    def results(self, function: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """The results of calls of a function, each as soon as a worker returns it.

        joblib's backend for dask would wait for ever for a call whose worker died.

        Args:
          function: called on a worker.
          calls: its arguments.

        Raises:
          ClusterError: if a call's worker died several times, or the scheduler is gone.
        """
        from distributed import KilledWorker, as_completed
        from distributed.comm.core import CommClosedError

        futures = [self.client.submit(function, *arguments, pure=False) for arguments in calls]
        try:
            for future in as_completed(futures):
                yield future.result()
        except KilledWorker as error:
            times = error.allowed_failures + 1
            said = f"the worker that computed a cell died, {times} time(s)"
            raise ClusterError(f"Expected workers that live: {said}. Finished cells are kept.") from None
        except (CancelledError, CommClosedError):
            raise ClusterError("Expected a scheduler that lives: it is gone. Finished cells are kept.") from None


def _available() -> int:
    import psutil

    return psutil.virtual_memory().available


@contextmanager
def workers(address: str) -> Iterator[Cluster]:
    """A context with the workers of a scheduler, for `runner.run`.

    A worker computes one cell at a time, so that more than one thread a worker gains nothing.

    Args:
      address: of the scheduler, such as "tcp://10.0.0.1:8786".

    Raises:
      ClusterError: if there is no scheduler, or it has no workers.
      ImportError: without the extra `cluster`.
    """
    try:
        from distributed import Client
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
        free: dict[str, int] = client.run(_available)  # type: ignore[assignment]
        limits = [each["memory_limit"] for each in found if each["memory_limit"]]  # 0: no limit
        yield Cluster(client, len(found), min([*limits, *free.values()]))
