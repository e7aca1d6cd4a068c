"""One process of clients for `tests/oracles/test_clients.py`: it writes the path of its runs, or its error.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python -m tests.clients_worker OUT CLIENTS SIZE [FAULT]

A fault of the last rank is "die", "hang", "stale", "nan", "float32" or "words" after the third round, or "threads" from
the beginning. If the environment variable KEPT names a folder, the runs store a checkpoint there every second step and
continue from it. The process then writes their last points, and the fault "kill7" is a kill -9 at the seventh file.
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dpnotes.core import Status
from dpnotes.methods import client_checkpoint
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.clients import Clients
from dpnotes.oracles.holdings import ClientSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.problems.quadratics import Quadratic
from dpnotes.random.streams import Streams
from dpnotes.util import files
from dpnotes.util.processes import ALONE, Processes, ProcessLost, Together

RUNS, DIM, STEPS = 2, 7, 12
CURVATURES = torch.linspace(0.1, 1.0, DIM, dtype=torch.float64)


def sizes(num_clients: int) -> list[int]:
    """Return the number of examples of each client; consecutive clients have different numbers."""
    return [400 + 37 * (client % 5) for client in range(num_clients)]


def oracle(num_clients: int, size: int, processes: Processes) -> Clients:
    total = sum(sizes(num_clients))
    problem = Quadratic.sample(CURVATURES, num_examples=total, spread=0.5, seed=0)
    parts = torch.arange(total).split(sizes(num_clients))

    def oracle_of(members: range) -> Spider:
        samples = ClientSamples.of(problem, [parts[client] for client in members], RUNS)
        budget = torch.full((RUNS * len(members),), 0.6, dtype=torch.float64)
        return Spider(
            samples, Gaussian(), 1.0, budget, Refresh.squared_moves(0.3), BatchSizes(40, 10), gradient_bound=2.0,
            smoothness=1.0,
        )  # fmt: skip

    return Clients.of(oracle_of, Blocks(num_clients, size, processes), RUNS)


def path(num_clients: int, size: int, processes: Processes, break_: Any = lambda step, clients: None) -> Tensor:
    """Return the points of all steps, `(steps, runs, dim)`."""
    clients, points = oracle(num_clients, size, processes), []
    method, x = Descent(0.3), torch.linspace(-2, 2, RUNS * DIM, dtype=torch.float64).view(RUNS, DIM)

    def observe(going: Tensor, state: Any, estimate: Any) -> None:
        points.append(state.x)
        break_(len(points), clients)

    state = drive(method, clients, method.init(x, clients), Streams.of(0, ["a", "b"]), STEPS, observe=observe)
    assert state.status.tolist() == [Status.OK] * RUNS, state
    return torch.stack(points)


def kept_path(num_clients: int, size: int, processes: Processes, folder: Path) -> Tensor:
    """Return the last points, `(runs, dim)`, of runs that continue from their checkpoint."""
    clients, method, streams = oracle(num_clients, size, processes), Descent(0.3), Streams.of(0, ["a", "b"])
    x = torch.linspace(-2, 2, RUNS * DIM, dtype=torch.float64).view(RUNS, DIM)
    state = method.init(x, clients)
    if (folder / "server.pt").exists():
        state, streams = client_checkpoint.resume(folder, state, clients, streams)
    while int(state.steps[0]) < STEPS:
        state = drive(method, clients, state, streams, 2)
        client_checkpoint.save(folder, state, clients, streams)
    return state.x


def kill_at(number: int) -> None:
    plain, written = files.write, []

    def write(*given: Any, **how: Any) -> None:
        written.append(1)
        if len(written) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        plain(*given, **how)

    files.write = write


def broken(fault: str) -> Any:
    def at(step: int, clients: Clients) -> None:
        if step != 3:
            return
        if fault == "die":
            os._exit(9)
        if fault == "hang":
            time.sleep(1000)
        sums = type(clients.blocks).sum
        lies: Any = {
            "stale": lambda self, sent, calls: sums(self, sent, calls - 1),
            "nan": lambda self, sent, calls: sums(self, [rows * torch.nan for rows in sent], calls),
            "float32": lambda self, sent, calls: sums(self, [rows.float() for rows in sent], calls),
            "words": lambda self, sent, calls: self.processes.gather_json("words"),
        }
        type(clients.blocks).sum = lies[fault]

    return at


def main() -> None:
    out, num_clients, size, *faults = sys.argv[1:]
    torch.set_num_threads(2 if faults == ["threads"] else 1)
    processes = Together(timeout=8.0) if "RANK" in os.environ else ALONE
    kills = faults and faults[0].startswith("kill")
    if kills:
        kill_at(int(faults[0].removeprefix("kill")))
    extra = [broken(faults[0])] if faults and faults != ["threads"] and not kills else []
    try:
        given = (int(num_clients), int(size), processes)
        kept = os.environ.get("KEPT")
        result: Any = kept_path(*given, Path(kept)) if kept else path(*given, *extra)
    except (ProcessLost, AssertionError) as error:
        result = " ".join(f"{type(error).__name__}: {error}".split())
    torch.save(result, Path(out) / f"{processes.rank}.pt")
    if isinstance(result, str):
        time.sleep(5 * (processes.rank == 0))  # rank 0 holds the store in which the others look up the missing process
        os._exit(1)  # exit without waiting for the other processes
    if isinstance(processes, Together):
        processes.close()


if __name__ == "__main__":
    main()
