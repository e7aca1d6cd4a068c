"""Experiments in several processes: the bytes of one process, one that prints, faults that are named in time."""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dpnotes
from dpnotes.cli import results
from dpnotes.experiments import Context, runner
from dpnotes.oracles import blocks
from dpnotes.papers.drift_escape.experiments import clients
from dpnotes.util.processes import ALONE, ProcessLost
from tests.run_worker import FAULTY_CELL, small

ROOT = Path(__file__).parents[2]
OURS = f"{Path(dpnotes.__file__).parent}{os.sep}"
NAME = "drift_escape.clients.quick"


# ---------------------------------------------------------------- in one process
class Fake:
    """One of several processes that all send the same."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def gather_json(self, value: Any) -> list[Any]:
        return [value] * self.size


def test_work_is_shared_out_where_there_is_enough_of_it():
    context = Context("cpu", 10**9, processes=Fake(1, 3))  # type: ignore[arg-type]
    assert context.sharing(3) is context.processes and context.sharing(2) is ALONE
    assert Context("cpu", 10**9).sharing(1) is ALONE


def test_who_is_out_of_memory_ends_the_run_where_one_process_alone_takes_less_at_once():
    asked = []

    def work(runs: range) -> dict[str, np.ndarray]:
        asked.append(len(runs))
        if len(runs) > 2:
            raise MemoryError("no room")
        return {"run": np.array(runs)}

    assert Context("cpu", 10**9).in_chunks(work, 8, 1)["run"].tolist() == [*range(8)]
    assert asked[0] == 8 and asked[-1] == 2
    asked.clear()
    with pytest.raises(ProcessLost, match=r"rank 1 is out of memory \(no room\)"):
        Context("cpu", 10**9, processes=Fake(1, 3)).in_chunks(work, 8, 1)  # type: ignore[arg-type]
    assert asked == [8]


def test_what_several_processes_cannot_do_is_refused():
    runner.refuse(clients.EXPERIMENT, "auto", 1, 4)
    single = replace(clients.EXPERIMENT, distributed=False)
    runner.refuse(single, "cuda", 2, 1)
    for experiment, device, jobs, message in (
        (single, "auto", 1, "drift_escape.clients does not share its work out"),
        (clients.EXPERIMENT, "auto", 2, "jobs=2 to be 1 in 4 processes"),
        (clients.EXPERIMENT, "cuda", 1, "device='cuda' to be 'cpu'"),
    ):
        with pytest.raises(ValueError, match=message):
            runner.refuse(experiment, device, jobs, 4)


def test_control_another_order_of_the_sum_gives_other_columns(monkeypatch: pytest.MonkeyPatch):
    def errors(experiment: Any, context: Context) -> np.ndarray:
        return np.asarray(experiment.run_cell(experiment.spec("quick"), FAULTY_CELL, context)["error"])

    plain = errors(small(), Context("cpu", 10**9))
    few = Context("cpu", 10**9, processes=Fake(2, 9))  # type: ignore[arg-type]
    assert np.array_equal(plain, errors(small(), few)), "three blocks are too few for nine processes"
    assert not np.array_equal(plain, errors(small(block=6), Context("cpu", 10**9)))
    monkeypatch.setattr(blocks, "pairwise_sum", lambda terms: terms.cumsum(1)[:, -1])
    other = errors(small(), Context("cpu", 10**9))
    assert not np.array_equal(plain, other)
    np.testing.assert_allclose(plain, other, rtol=1e-9)


# ---------------------------------------------------------------- under torchrun
def command(folder: Path, num_processes: int, fault: str = "", options: tuple[str, ...] = ()) -> Any:
    """Start `dpnotes run` of the small experiment, with results and cells in this folder."""
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(num_processes), "--standalone"]
    run = ["-m", "tests.run_worker", "run", "drift_escape.clients", "--timeout", "10", *options]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "FAULT": fault,
        "DPNOTES_RESULTS": str(folder / "results"), "DPNOTES_CACHE": str(folder / "cells"),
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, *launcher, *run],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def columns_of(folder: Path) -> bytes:
    return (folder / "results" / f"{NAME}.npz").read_bytes()


def manifest_of(folder: Path) -> Any:
    return json.loads((folder / "results" / f"{NAME}.manifest.json").read_text())


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The result folder of a single process."""
    monkeypatch.setenv("DPNOTES_RESULTS", str(tmp_path / "alone" / "results"))
    monkeypatch.setenv("DPNOTES_CACHE", str(tmp_path / "alone" / "cells"))
    torch.set_num_threads(1)
    runner.run(small(), "quick", device="cpu", report=lambda line: None)
    assert manifest_of(tmp_path / "alone")["processes"] == [{"processes": 1, "count": 8}]
    return tmp_path / "alone"


@pytest.mark.slow
def test_processes_store_the_bytes_of_one_and_one_of_them_speaks(alone: Path, tmp_path: Path):
    for num_processes in (2, 4):
        folder = tmp_path / str(num_processes)
        run = command(folder, num_processes)
        assert run.returncode == 0, run.stderr
        assert columns_of(folder) == columns_of(alone)
        manifest, one = manifest_of(folder), manifest_of(alone)
        assert manifest["processes"] == [{"processes": num_processes, "count": 8}]
        assert (manifest["identity"], manifest["decision"]) == (one["identity"], one["decision"])
        assert [line.split()[2] for line in run.stdout.splitlines()[:8]] == [f"{n}/8" for n in range(1, 9)]
        assert len(run.stdout.splitlines()) == 9 and "dpnotes:" not in run.stderr


@pytest.mark.slow
def test_who_dies_is_named_and_any_number_goes_on_from_what_is_finished(alone: Path, tmp_path: Path):
    folder = tmp_path / "died"
    run = command(folder, 3, "die")
    assert run.returncode != 0 and not [*(folder / "results").iterdir()]
    assert re.search(
        r"rank 0: .* rank 2 \(clients 8 to 11\) did not come to round .* in cell .*clients\":12", run.stderr
    )
    assert "5 of 8 cells are finished" in run.stdout and OURS not in run.stderr, "no traceback of ours"
    run = command(folder, 2)
    assert run.returncode == 0, run.stderr
    assert "5 of 8 cells were finished before" in run.stdout
    assert columns_of(folder) == columns_of(alone)
    assert manifest_of(folder)["processes"] == [{"processes": 3, "count": 5}, {"processes": 2, "count": 3}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("hang", r"rank 0: .* rank 1 \(clients 4 to 11\) did not come to round"),
        ("columns", "rank 0: .* rank 1 has the sha256 of column error="),
        ("spec", "rank 0: .* rank 1 has spec and data="),
        ("arguments", "dpnotes: rank 1: Expected 'drift_escape.other' to be the name of one experiment"),
    ],
)
def test_a_fault_is_named_in_time(tmp_path: Path, fault: str, message: str):
    since = time.monotonic()
    run = command(tmp_path, 2, fault)
    assert run.returncode != 0 and re.search(message, run.stderr), run.stderr
    assert time.monotonic() - since < 60 and OURS not in run.stderr
    assert ("1/8" in run.stdout) == (fault in ("hang", "columns"))


@pytest.mark.slow
def test_a_refusal_is_one_line(tmp_path: Path):
    run = command(tmp_path, 2, options=("--jobs", "2"))
    assert run.returncode != 0 and run.stderr.count("dpnotes: ") == 1
    assert "dpnotes: Expected jobs=2 to be 1 in 2 processes" in run.stderr


def test_one_process_needs_no_torchrun(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with results._joined(1.0) as processes:
        assert processes is ALONE
