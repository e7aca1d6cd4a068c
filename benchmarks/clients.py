"""Clients against one run with as many gradients, and messages of two processes against a bare all_gather.

    python benchmarks/clients.py            # a minute

The targets: a step of 64 runs of 256 clients each, as one batch, takes at most 1.5 times as long as a step of 64 runs
with 256 times the examples each; a round's messages between two processes take at most twice the time of a bare
all_gather of the same bytes, at 10^6 coordinates. The columns of a line are timed in turn. The exit status is 1 if a
target is missed.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from _timing import medians

from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.clients import Clients
from dpnotes.oracles.holdings import ClientSamples
from dpnotes.oracles.samples import DataSetSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.problems.networks import TwoLayerNetwork
from dpnotes.random.streams import Streams
from dpnotes.util.processes import Together

RUNS, CLIENTS, BATCH, STEPS, ROUNDS = 64, 256, 8, 4, 5
MOST_STEP, MOST_MESSAGE, DIM = 1.5, 2.0, 10**6


def spider(samples: Any, rows: int, batch: int) -> Spider:
    """Return a Spider oracle with a fresh gradient at every second step."""
    budget = torch.full((rows,), 1.0, dtype=torch.float64)
    return Spider(samples, Gaussian(), 2.0, budget, Refresh.every(2), BatchSizes(batch, batch), 1.0, 1.0)


def steps(oracle: Any, dim: int) -> Callable[[], None]:
    """Return a function that takes a few steps from the start."""
    streams, every = Streams.of("benchmark", range(RUNS)), torch.ones(RUNS, dtype=torch.bool)

    def go() -> None:
        x = torch.full((RUNS, dim), 0.1, dtype=torch.float64)
        state = oracle.init(x)
        for _ in range(STEPS):
            state, estimate = oracle.estimate(state, x, streams, every)
            x = x - 0.01 * estimate.gradient

    return go


def one_process() -> bool:
    """Return whether 256 clients in one process meet the time target."""
    held = STEPS * BATCH
    inputs = Streams.of("benchmark", ["inputs"]).normal("x", 0, CLIENTS * held * 20).view(-1, 20)
    problem = TwoLayerNetwork(inputs, (inputs[:, 0] > 0).long(), num_hidden=4)
    parts = torch.arange(CLIENTS * held).split(held)
    clients = Clients.of(
        lambda members: spider(ClientSamples.of(problem, parts, RUNS), RUNS * len(members), BATCH),
        Blocks(CLIENTS, CLIENTS),
        RUNS,
    )
    alone = spider(DataSetSamples(problem), RUNS, CLIENTS * BATCH)
    together, single = medians(steps(clients, problem.dim), steps(alone, problem.dim), rounds=ROUNDS)
    ratio = together / single
    print(f"  {RUNS} runs of {CLIENTS} clients {together:8.0f} ms, of one {single:8.0f} ms   {ratio:.2f}")
    return ratio <= MOST_STEP


def messages() -> None:
    """Run one of two processes: print the milliseconds of a round and of a bare all_gather of its bytes."""
    group = Together(timeout=60)
    blocks = Blocks(2, 1, group)
    sent, calls = [torch.full((1, 1, DIM), float(group.rank))], torch.tensor([0])
    plan = torch.zeros(1, 5, dtype=torch.int64)
    parts, own = [torch.zeros(DIM), torch.zeros(DIM)], torch.zeros(DIM)

    def round_() -> None:
        group.gather(plan)
        blocks.sum(sent, calls)

    taken, bare = medians(round_, lambda: dist.all_gather(parts, own), rounds=30)
    if group.rank == 0:
        print(f"{taken} {bare}")
    group.close()


def two_processes() -> bool:
    """Return whether the messages of two processes meet the time target."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, __file__, "messages"], stdout=subprocess.PIPE, text=True,
            env=os.environ | address | {"RANK": str(rank)},
        )
        for rank in range(2)
    ]  # fmt: skip
    taken, bare = map(float, [each.communicate()[0] for each in started][0].split())
    print(f"  a round of two processes {taken:8.2f} ms, a bare all_gather {bare:8.2f} ms   {taken / bare:.2f}")
    return taken <= MOST_MESSAGE * bare


def main() -> int:
    """Print the lines; return 1 if a target is missed."""
    print(f"{torch.get_num_threads()} threads")
    return int(not all([one_process(), two_processes()]))


if __name__ == "__main__":
    sys.exit(messages() if sys.argv[1:] == ["messages"] else main())
