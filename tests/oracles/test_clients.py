"""Clients: sums that do not depend on who computes them, plans before any payment, faults that are named."""

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dpnotes.core import Status
from dpnotes.methods import checkpoint
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive
from dpnotes.oracles.blocks import Blocks, Node, pairwise_sum, tree_sum, whole_nodes
from dpnotes.oracles.clients import Clients
from dpnotes.oracles.samples import VirtualSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.problems.separable import Cosine, Separable, Sine
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams
from dpnotes.util.processes import ALONE, ProcessLost, Together, agree
from tests.clients_worker import DIM, RUNS, path

ROOT = Path(__file__).parents[2]
ACTIVE = torch.ones(RUNS, dtype=torch.bool)
STREAMS = Streams.of(0, ["a", "b"])
X = torch.ones(RUNS, DIM, dtype=torch.float64)


# ---------------------------------------------------------------- sums
class Thread:
    """One of several processes, here a thread."""

    def __init__(self, rank: int, meeting: threading.Barrier, table: list[Any]) -> None:
        self.rank, self.size, self.meeting, self.table = rank, meeting.parties, meeting, table

    def gather_json(self, value: Any) -> list[Any]:
        self.table[self.rank] = value
        self.meeting.wait(60)
        found = [*self.table]
        self.meeting.wait(60)
        return found

    def gather(self, values: Tensor) -> Tensor:
        return torch.stack(self.gather_json(values))


def together(size: int, work: Callable[[Any], Any]) -> list[Any]:
    """Run `work` in `size` pretend processes; return their results."""
    meeting, table = threading.Barrier(size), [None] * size
    with ThreadPoolExecutor(size) as pool:
        return [*pool.map(work, [Thread(rank, meeting, table) for rank in range(size)])]


def summed(rows: list[Tensor], size: int, num_processes: int) -> list[tuple[Tensor, Tensor]]:
    """Return each pretend process's sum of the rows `(runs, dim)` of all clients."""

    def work(processes: Any) -> tuple[Tensor, Tensor]:
        blocks = Blocks(len(rows), size, processes)
        sent = [torch.stack(rows[members.start : members.stop], 1) for members in blocks.members]
        return blocks.sum(sent, torch.tensor([3] * len(rows[0])))

    return together(num_processes, work)


@pytest.mark.parametrize(("num_clients", "size"), [(5, 1), (37, 8), (64, 8), (7, 2), (1, 4), (9, 3)])
def test_a_sum_is_the_same_for_any_number_of_processes(num_clients: int, size: int):
    drawn = Streams.of(1, ["sum"]).normal("x", 0, num_clients * 6).view(num_clients, 2, 3)
    rows = [*(drawn * 10.0 ** (5 * drawn.abs().sin()))]
    ((alone, _),) = summed(rows, size, 1)
    torch.testing.assert_close(alone, torch.stack(rows).sum(0))
    for num_processes in range(2, min(6, -(-num_clients // size)) + 1):
        for found, wrong in summed(rows, size, num_processes):
            assert torch.equal(found, alone) and wrong.tolist() == [-1, -1]


def test_a_process_that_is_late_in_one_run_of_two_is_named():
    def work(processes: Any) -> str:
        with pytest.raises(ProcessLost) as error:
            Blocks(2, 1, processes).sum([torch.ones(2, 1, 3)], torch.tensor([3, 3 - processes.rank]))
        return str(error.value)

    assert "rank 1 sent another round" in together(2, work)[0]


def test_control_the_order_matters():
    rows = [torch.tensor([[x]], dtype=torch.float64) for x in (1e16, 1.0, -1e16, 1.0, 1.0)]
    ((alone, _),) = summed(rows, 1, 1)
    assert all(torch.equal(found, alone) for processes in (2, 3, 5) for found, _ in summed(rows, 1, processes))
    one_after_the_other = sum(rows[1:], rows[0])
    assert not torch.equal(alone, one_after_the_other)
    assert not torch.equal(alone, summed(rows, 3, 1)[0][0]), "blocks of another size are another sum"


def test_nodes_cover_each_block_once():
    for first in range(12):
        for last in range(first + 1, 20):
            nodes = whole_nodes(first, last)
            assert [k for node in nodes for k in range(node.start, node.start + node.length)] == [*range(first, last)]
            assert all(node.start % node.length == 0 and node.length & (node.length - 1) == 0 for node in nodes)
    assert tree_sum({}, Node(0, 4)) is None
    assert pairwise_sum(torch.ones(2, 5, 3)).tolist() == [[5.0] * 3] * 2


def test_who_sends_what_is_no_number_is_named():
    for bad in (torch.nan, torch.inf):
        rows = [torch.ones(3, 4) for _ in range(5)]
        rows[3][1, 2] = bad
        rows[4][1, 0] = rows[4][2, 0] = -bad
        for num_processes in (1, 2, 4):
            for total, wrong in summed(rows, 1, num_processes):
                assert wrong.tolist() == [-1, 3, 4] and total[0].tolist() == [5.0] * 4


# ---------------------------------------------------------------- processes
def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def start(out: Path, num_processes: int, num_clients: int, size: int, fault: str = "") -> list[subprocess.Popen]:
    port = free_port()
    out.mkdir(exist_ok=True)
    given = [str(out), str(num_clients), str(size)]
    faults = [[fault] * (fault != "" and rank == num_processes - 1) for rank in range(num_processes)]
    return [
        subprocess.Popen(
            [sys.executable, "-m", "tests.clients_worker", *given, *faults[rank]],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=os.environ | {
                "PYTHONPATH": str(ROOT), "RANK": str(rank), "WORLD_SIZE": str(num_processes),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            },
        )
        for rank in range(num_processes)
    ]  # fmt: skip


def ended(out: Path, started: list[subprocess.Popen], ranks: range | None = None) -> list[Any]:
    for rank in ranks or range(len(started)):
        said = started[rank].communicate(timeout=120)[0]
        assert (out / f"{rank}.pt").exists(), said
    for each in started:
        each.kill()
        each.communicate()
    return [torch.load(out / f"{rank}.pt") for rank in ranks or range(len(started))]


@pytest.mark.parametrize(("num_clients", "size"), [(5, 1), (37, 8)])
@pytest.mark.slow
def test_processes_go_one_path_to_the_bit(tmp_path: Path, num_clients: int, size: int):
    alone = path(num_clients, size, ALONE)
    for num_processes in (1, 2, 3, 4):
        out = tmp_path / str(num_processes)
        for found in ended(out, start(out, num_processes, num_clients, size)):
            assert torch.equal(found, alone)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("die", r"rank 2 \(clients 3 to 4\) did not come to round"),
        ("hang", r"rank 2 \(clients 3 to 4\) did not come to round"),
        ("stale", r"rank 2 \(clients 3 to 4\) sent another round"),
        ("threads", r"rank 2 \(clients 3 to 4\) has threads=2, rank 0 has 1"),
        ("nan", r"stopped=tensor\(\[3, 3\]\)"),
        ("float32", r"rank 2 \(clients 3 to 4\) sent something else than torch.float64 of shape \(2, 2, 7\)"),
        ("words", r"rank 2 \(clients 3 to 4\) sent something else than torch.int64 of shape \(2,\)"),
    ],
)
@pytest.mark.slow
def test_a_fault_is_named_in_time(tmp_path: Path, fault: str, message: str):
    since = time.monotonic()
    for said in ended(tmp_path, start(tmp_path, 3, 5, 1, fault), range(2)):
        assert re.search(message, said), said
    assert time.monotonic() - since < 60


@pytest.mark.slow
def test_the_program_of_the_docs_runs_under_torchrun(tmp_path: Path):
    text = (ROOT / "docs" / "clients.md").read_text()
    program = text.split("<!-- program: clients.py -->")[1].split("```python\n")[1].split("```")[0]
    (tmp_path / "clients.py").write_text(program)
    command = ["-m", "torch.distributed.run", "--nproc-per-node", "4", "--master-port", str(free_port()), "clients.py"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    for rank in range(4):
        assert f"rank {rank}: " in run.stdout
    assert run.stdout.count("epsilon (trusted server)") == 4


def test_processes_that_are_none_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(RuntimeError, match="torchrun"):
        Together()
    with pytest.raises(ValueError, match="timeout=-1"):
        Together(-1)
    with pytest.raises(ValueError, match="num_blocks=2 >= 3"):
        Blocks(4, 2, Thread(0, threading.Barrier(3), []))

    def differing(processes: Any) -> str:
        with pytest.raises(ProcessLost) as error:
            agree(processes, {"runs": 2, "dim": 7 + 2 * processes.rank})
        return str(error.value)

    assert all("rank 1 has dim=9, rank 0 has 7" in said for said in together(2, differing))


# ---------------------------------------------------------------- all plan before one pays
def clients_of(totals: list[float], runs: int = RUNS, **more: Any) -> Clients:
    data = VirtualData(Separable([(Cosine(1.0), DIM)]), Separable([(Sine(0.5), DIM)]))

    def oracle_of(members: range) -> Spider:
        total = torch.tensor([totals[client] for client in members]).repeat(runs)
        budget = torch.full((len(total),), 0.5 * (1 + 1e-9), dtype=torch.float64)
        return Spider(
            VirtualSamples(data, total), Gaussian(), 1.0, budget, Refresh.squared_moves(0.5), BatchSizes(100, 10),
            gradient_bound=2.0, smoothness=2.0, **more,
        )  # fmt: skip

    return Clients.of(oracle_of, Blocks(len(totals), 2), runs)


def test_who_cannot_go_on_ends_the_run_and_nobody_else_has_paid():
    clients = clients_of([1000, 1000, 205, 1000, 1000])
    state = clients.init(X)
    for step in range(3):
        state, estimate = clients.estimate(state, (1 + 2 * step) * X, STREAMS, ACTIVE)
    assert estimate.status.tolist() == [Status.DATA_EXHAUSTED] * 2
    assert state.stopped.tolist() == [2, 2]
    assert (estimate.gradient == 0).all() and not estimate.price.charged.any()
    assert estimate.num_gradients.tolist() == [0, 0]
    assert (state.meter.used == 200).all() and (state.meter.calls == 2).all()
    clients.estimate(state, X, STREAMS, ACTIVE)  # a refused round has released nothing


def test_one_run_ends_and_the_others_go_on():
    clients = clients_of([1000] * 3)
    state, x = clients.init(X), X.clone()
    only = torch.tensor([True, False])
    state, first = clients.estimate(state, x, STREAMS, only)
    assert state.meter.calls.tolist() == [[1] * 3, [0] * 3] and first.num_gradients.tolist() == [300, 0]
    assert (first.gradient[1] == 0).all()
    alone = clients_of([1000] * 3, 1)
    _, second = alone.estimate(alone.init(X[:1]), X[:1], STREAMS.take(slice(0, 1)), torch.tensor([True]))
    torch.testing.assert_close(first.gradient[:1], second.gradient, rtol=0, atol=1e-12)
    part = clients.take(torch.tensor([1]))
    assert part.num_runs == 1 and len(part.oracles[0].releases.budget) == 2


def test_a_state_is_released_once_and_noise_is_each_client_s_own():
    clients = clients_of([1000] * 4)
    state = clients.init(X)
    after, _ = clients.estimate(state, X, STREAMS, ACTIVE)
    with pytest.raises(ValueError, match="released nothing yet"):
        clients.estimate(state, X, STREAMS, ACTIVE)
    sent = after.memory.gradient
    assert sent.shape == (RUNS, 4, DIM) and len(sent.flatten(0, 1).unique(dim=0)) == 8
    with pytest.raises(ValueError, match="released nothing yet"):
        clients.claims(state, 1e-6, STREAMS)
    secret = Streams.secure(RUNS)
    one, two = clients_of([1000] * 4), clients_of([1000] * 4)
    values = [c.estimate(c.init(X), X, secret, ACTIVE)[1].gradient for c in (one, two)]
    assert not torch.equal(*values), "a client's secret keys are its own"
    assert all(own.secret for own in one.streams_of(secret)) and not one.streams_of(STREAMS)[0].secret


def test_a_plan_is_released_as_it_was_made():
    clients = clients_of([1000] * 4)
    state = clients.init(X)
    one, two = clients.plan(state, X, ACTIVE), clients.plan(state, 2 * X, ACTIVE)
    after, _ = clients.release(one, STREAMS)
    for plan in (one, two):
        with pytest.raises(ValueError, match="released nothing yet"):
            clients.release(plan, STREAMS)
    for altered in (replace(two, state=after), replace(two, state=clients.init(X)), replace(two, granted=~ACTIVE)):
        with pytest.raises(ValueError, match="this oracle's, released as it was made"):
            clients.release(altered, STREAMS)
    with pytest.raises(ValueError, match="this oracle's"):
        clients_of([1000] * 4).release(clients.plan(after, X, ACTIVE), STREAMS)
    three = clients.plan(after, X, ACTIVE)
    three.granted.zero_()
    last, estimate = clients.release(three, STREAMS)
    assert estimate.price.charged.all() and (last.meter.calls == 2).all()
    with pytest.raises(ValueError, match="released nothing yet"):
        clients.plan(after, X, ACTIVE)


def test_clients_go_on_from_a_checkpoint_with_the_same_bits(tmp_path: Path):
    clients, method = clients_of([5000] * 3), Descent(0.1)
    whole = drive(method, clients, method.init(X, clients), STREAMS, 6)
    half = drive(method, clients, method.init(X, clients), STREAMS, 3)
    checkpoint.save(tmp_path / "run.pt", half, STREAMS)
    again = clients_of([5000] * 3)
    state, streams = checkpoint.resume(tmp_path / "run.pt", method.init(X, again), STREAMS)
    found = drive(method, again, state, streams, 3)
    assert torch.equal(found.x, whole.x) and torch.equal(found.oracle.meter.used, whole.oracle.meter.used)
    secret = Streams.secure(RUNS)
    half = drive(method, clients, method.init(X, clients), secret, 3)
    with pytest.raises(ValueError, match="saved by methods.client_checkpoint"):
        checkpoint.save(tmp_path / "secret.pt", half, secret)


def test_clients_go_back_together():
    clients = clients_of([5000] * 3)
    first, _ = clients.estimate(clients.init(X), X, STREAMS, ACTIVE)
    then, _ = clients.estimate(first, 1.01 * X, STREAMS, ACTIVE)
    back = clients.rollback(then, first, torch.tensor([True, False]), refresh=False)
    assert torch.equal(back.memory.gradient[0], first.memory.gradient[0])
    assert torch.equal(back.memory.gradient[1], then.memory.gradient[1])
    assert torch.equal(back.meter.calls, then.meter.calls)
    anew = clients.rollback(then, then, torch.tensor([True, False]), refresh=True)
    _, estimate = clients.estimate(anew, 1.01 * X, STREAMS, ACTIVE)
    assert estimate.num_gradients.tolist() == [300, 60]
