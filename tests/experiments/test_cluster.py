"""A run's cells on other machines: in shards that are merged, and on the workers of a dask cluster."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import call
from toy_package import Toy

from dpnotes.experiments import runner
from dpnotes.experiments.cells import Cells
from dpnotes.experiments.cluster import ClusterError, workers

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


@pytest.mark.parametrize("shard", ["0/3", "4/3", "3", "a/b", "-1/2"])
def test_what_is_no_shard_is_refused(folders: Any, shard: str):
    folders("here")
    assert "to be like 3/16" in call("run", EXPERIMENT, "--shard", shard, code=2).output


def test_a_shard_among_processes_that_share_cells_is_refused():
    from dpnotes.papers.drift_escape.experiments import clients

    with pytest.raises(ValueError, match="Expected no shard 1/2 in 4 processes"):
        runner.refuse(clients.EXPERIMENT, "cpu", 1, 4, (1, 2))


def test_a_worker_with_other_source_is_refused_before_it_computes(toy: Toy):
    cells, plan = Cells(toy.experiment, "quick", code={"source": "0" * 64}), runner.RunPlan("cpu", 1, 1, elsewhere=True)
    with pytest.raises(ValueError, match="Expected the source of dpnotes on .* to be that of the machine that runs"):
        runner.execute(cells, {"stage": "tune", "index": 0}, plan)
    assert not toy.computed()


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
