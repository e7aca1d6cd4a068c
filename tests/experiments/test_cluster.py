"""A run's cells on other machines: in shards that are merged, and on the workers of a dask cluster."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command import call
from toy_package import Toy

from dpnotes.cli import catalogue
from dpnotes.experiments import provenance, runner
from dpnotes.experiments.cells import Cells
from dpnotes.experiments.cluster import ClusterError, workers
from dpnotes.experiments.spec import Context

EXPERIMENT = "drift_escape.audit"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that switches to a machine with a cache of its own, and the results' folder of all."""
    monkeypatch.setenv("DPNOTES_RESULTS", str(tmp_path / "results"))
    (tmp_path / "results").mkdir()

    def machine(name: str) -> Path:
        monkeypatch.setenv("DPNOTES_CACHE", str(tmp_path / name))
        return tmp_path / name

    yield machine


def table(folder: Path) -> bytes:
    (path,) = folder.glob(f"{EXPERIMENT}*quick*.npz")
    return path.read_bytes()


@pytest.fixture(scope="module")
def serial(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The table of a run on one machine."""
    root = tmp_path_factory.mktemp("serial")
    before = {name: os.environ.get(name) for name in ("DPNOTES_RESULTS", "DPNOTES_CACHE")}
    (root / "results").mkdir()
    os.environ |= {"DPNOTES_RESULTS": str(root / "results"), "DPNOTES_CACHE": str(root / "cache")}
    try:
        call("run", EXPERIMENT)
        return table(root / "results")
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def test_three_shards_with_caches_of_their_own_are_merged_to_the_bytes_of_one_run(
    folders: Any, tmp_path: Path, serial: bytes
):
    for number in (1, 2, 3):
        folders(f"machine {number}")
        done = call("run", EXPERIMENT, "--shard", f"{number}/3", code=3)
        assert f"shard {number}/3 is finished" in done.output and "of other shards are not here" in done.output
        again = call("run", EXPERIMENT, "--shard", f"{number}/3", code=3)
        assert "were finished before" in again.output, "a shard that is started again computes nothing"
        call("cells", "export", str(tmp_path / f"{number}.cells"), EXPERIMENT)
    folders("home")
    for number in (1, 2, 3):
        call("cells", "import", str(tmp_path / f"{number}.cells"))
    done = call("run", EXPERIMENT)
    assert "0.0 s" not in done.output.partition("were finished before")[0]
    assert table(tmp_path / "results") == serial


def test_the_last_shard_on_one_cache_stores_the_result(folders: Any, tmp_path: Path, serial: bytes):
    folders("shared")
    call("run", EXPERIMENT, "--shard", "2/2", code=3)
    call("run", EXPERIMENT, "--shard", "1/2")
    assert table(tmp_path / "results") == serial


def test_two_shards_of_one_index_cost_time_and_nothing_else(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    toy.run()
    whole, archives = toy.stored(), [str(tmp_path / name) for name in ("first", "second")]
    for archive in archives:
        machine = Toy(Path(f"{archive} machine")).enter(monkeypatch)
        with pytest.raises(runner.OthersWait, match="shard 1/2 is finished; 2 cells of other shards are not here"):
            machine.run(shard=(1, 2))
        monkeypatch.setattr(catalogue, "all_experiments", lambda machine=machine: [machine.experiment])
        call("cells", "export", archive)
    home = Toy(tmp_path / "home").enter(monkeypatch)
    home.some(0, 2)
    home.some(0, 2)  # both wrote into one cache
    monkeypatch.setattr(catalogue, "all_experiments", lambda: [home.experiment])
    for archive in archives:
        assert call("cells", "import", archive).output == "toy.mean quick: 2 cells here before\n"
    lines: list[str] = []
    home.run(report=lines.append)
    assert lines[0] == "toy.mean quick: 2 of 4 cells were finished before" and home.stored() == whole


def test_cells_that_other_code_computed_are_taken_and_the_run_says_so_in_a_line(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    archive = str(tmp_path / "carried")
    monkeypatch.setattr(catalogue, "all_experiments", lambda: [toy.experiment])
    monkeypatch.setattr(provenance, "source_hash", lambda: "0" * 64)
    toy.some(0, 1)
    monkeypatch.undo()
    other = Toy(tmp_path / "other").enter(monkeypatch)
    monkeypatch.setattr(catalogue, "all_experiments", lambda: [other.experiment])
    monkeypatch.setenv("DPNOTES_CACHE", str(toy.cache))
    call("cells", "export", archive)
    monkeypatch.setenv("DPNOTES_CACHE", str(other.cache))
    assert call("cells", "import", archive).output == "toy.mean quick: 2 cells taken\n"
    lines: list[str] = []
    assert len(other.run(report=lines.append).manifest["codes"]) == 2
    assert lines[0].startswith("toy.mean quick: 2 of 4 cells were finished before (some at ")
    assert lines[0].endswith("by other code; --no-resume starts afresh)")


@pytest.mark.parametrize("shard", ["0/3", "4/3", "3", "a/b", "-1/2"])
def test_what_is_no_shard_is_refused(folders: Any, shard: str):
    folders("here")
    assert "to be like 3/16" in call("run", EXPERIMENT, "--shard", shard, code=2).output


def test_a_shard_among_processes_that_share_cells_is_refused():
    from dpnotes.papers.drift_escape.experiments import clients

    with pytest.raises(ValueError, match="Expected no shard 1/2 in 4 processes"):
        runner.refuse(clients.EXPERIMENT, "cpu", 1, 4, (1, 2))


def test_a_worker_with_less_memory_than_planned_says_so():
    with pytest.raises(MemoryError, match="Expected .* to be free on .* --memory"):
        runner._refuse_a_small_worker(10**18)


def test_a_worker_with_other_source_is_refused_before_it_computes(toy: Toy):
    cells, plan = Cells(toy.experiment, "quick", code={"source": "0" * 64}), runner.RunPlan("cpu", 1, 1, elsewhere=True)
    with pytest.raises(ValueError, match="Expected the source of dpnotes on .* to be that of the machine that runs"):
        runner.execute(cells, {"stage": "tune", "index": 0}, plan)
    assert not toy.computed()


def test_the_memory_of_a_worker_is_looked_at_when_its_other_threads_hold_no_cell(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
):
    alone: list[bool] = []
    monkeypatch.setattr(runner, "_refuse_a_small_worker", lambda wanted: alone.append(runner._ONE_CELL.locked()))
    cells = Cells(toy.experiment, "quick", code=provenance.code_of(toy.experiment))
    runner.execute(cells, {"stage": "tune", "index": 0}, runner.RunPlan("cpu", 10**9, 1, elsewhere=True))
    assert alone == [True]


def test_a_cell_that_exits_is_an_error_for_which_no_worker_dies(toy: Toy):
    def leaves(spec: Any, cell: Any, context: Any) -> Any:
        sys.exit(3)

    with pytest.raises(RuntimeError, match="Expected a cell that returns, not one that exits with 3"):
        runner.compute(replace(toy.experiment, run_cell=leaves), toy.experiment.spec("quick"), {}, Context("cpu", 1))


# ---------------------------------------------------------------- dask
def test_an_address_without_a_scheduler_is_one_line():
    pytest.importorskip("distributed")
    with pytest.raises(ClusterError, match="Expected a dask scheduler at nowhere"), workers("nowhere"):
        pass


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_two_threads_of_a_worker_with_another_cache_give_the_bytes_of_one_run(
    folders: Any, tmp_path: Path, serial: bytes
):
    distributed = pytest.importorskip("distributed")
    folders("worker")  # inherited by the worker
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None) as cluster:
        folders("home")
        call("run", EXPERIMENT, "--dask", cluster.scheduler_address)
    assert table(tmp_path / "results") == serial
    assert not [*(tmp_path / "worker").rglob("*.cells")], "the head keeps the records"


def local_cluster(**how: Any) -> Any:
    """Return a cluster of one worker on this machine, which gives a task up when its worker has died once."""
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    one: dict[str, Any] = {"n_workers": 1, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        return distributed.LocalCluster(**one | how)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("dies", ["worker", "scheduler"])
def test_what_dies_in_a_run_ends_it_in_a_line_and_nothing_is_lost(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: str
):
    whole = Toy(tmp_path / "whole").enter(monkeypatch)
    whole.run()
    toy.enter(monkeypatch)
    monkeypatch.setenv("TOY_HANG", "3")
    with local_cluster(memory_limit="2GB") as local:

        def kill() -> None:
            end = time.monotonic() + 60
            while ("3" not in toy.computed() or not toy.cells()) and time.monotonic() < end:
                time.sleep(0.02)
            os.kill(local.workers[0].pid, signal.SIGKILL) if dies == "worker" else local.sync(local.scheduler.close)

        threading.Thread(target=kill, daemon=True).start()
        said = r"the worker .* died, 1 time\(s\)" if dies == "worker" else "a scheduler that lives: it is gone"
        with (
            pytest.raises(ClusterError, match=f"^Expected .*{said}. Finished cells are kept.$"),
            workers(local.scheduler_address) as cluster,
        ):
            assert cluster.jobs == 1 and cluster.worker_bytes <= 2 * 10**9
            toy.run(cluster=cluster)
    monkeypatch.delenv("TOY_HANG")
    before, lines = len(Cells(toy.experiment, "quick").finished()), list[str]()
    toy.run(report=lines.append)
    assert lines[0] == f"toy.mean quick: {before} of 4 cells were finished before" and before >= 1
    assert toy.stored() == whole.stored()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_worker_without_a_limit_that_has_less_memory_than_the_plan_is_one_line(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(catalogue, "experiments_of", lambda names: [toy.experiment])
    monkeypatch.setattr(catalogue, "refuse_an_installation", lambda *_: None)
    monkeypatch.setattr(runner, "_MARGIN", 10.0**6)
    with local_cluster(memory_limit=0) as local:
        done = call("run", "toy.mean", "--dask", local.scheduler_address, code=2)
    assert "GB to be free on " in done.stderr and "give --memory for all jobs together" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not toy.cells()
