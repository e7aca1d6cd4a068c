"""What is done on a GPU that is lent: rehearsed on the pretend one, killed and gone on with; what is refused."""

import importlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from pretend_device import PretendCuda
from toy_package import HELPER, TOY
from typer.testing import CliRunner

from dpnotes import cli, draws, files, gpu
from dpnotes.experiments import Cost, bring, cells, run, runner, store, wanting
from dpnotes.experiments.spec import Experiment

REPOSITORY = Path(__file__).parents[1]
# The toy, computed on the device: a private mean of draws, by its streams.
ON_A_DEVICE = TOY.replace(
    "    columns = context.in_chunks(values, spec",
    """    from dpnotes.streams import Streams

    def values(runs):
        streams = Streams.of(spec["seed"], [f"{index} {run}" for run in runs], context.device)
        found = scaled(streams.normal("noise", 0, 3)).sum(dim=1)
        assert found.device.type == "cuda"
        return {"value": found.cpu().numpy()}

    columns = context.in_chunks(values, spec""",
)
PROGRAMS = {"tests": ("-c", "print('passed')"), "benchmark one": ("-c", "import sys; sys.exit(3)")}
DRIVER = """
import sys
from pathlib import Path
from pretend_device import PretendCuda
from dpnotes import gpu
from dpnotes.experiments import Cost, wanting
from toys.experiment import EXPERIMENT
cost = Cost(why="a GPU", hours=100, minutes=0.1, gigabytes=1, basis="a guess")
experiments = wanting([EXPERIMENT], {"mean": {"paper": cost}})
programs = {"tests": ("-c", "print('passed')"), "benchmark one": ("-c", "import sys; sys.exit(3)")}
with PretendCuda():
    gpu.session(experiments, Path(sys.argv[1]), 2.0, programs=programs)
"""


def silent(line: str) -> None:
    pass


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    package = tmp_path / "toys"
    package.mkdir()
    for name, text in {"__init__": "", "helper": HELPER, "experiment": ON_A_DEVICE}.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.setenv("DPNOTES_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("DPNOTES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (tmp_path, REPOSITORY / "tests", REPOSITORY))))
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == "toys"]:
        monkeypatch.delitem(sys.modules, name)
    runner.environment.cache_clear()
    return importlib.import_module("toys.experiment")


def computed(folder: Path) -> list[str]:
    return (folder / "log").read_text().split() if (folder / "log").exists() else []


def costing(experiment: Experiment, minutes: float, value: float = 1.0) -> Experiment:
    cost = Cost(why="a GPU", hours=100, minutes=minutes, gigabytes=1, value=value, basis="a guess")
    return wanting([experiment], {experiment.name: {"paper": cost}})[0]


def session(experiments: list[Experiment], folder: Path, minutes: float = 2.0, **more: Any) -> gpu.Session:
    with PretendCuda():
        return gpu.session(experiments, folder, minutes, **{"report": silent, "programs": PROGRAMS, **more})


def tables(folder: Path) -> dict[str, dict[str, list[Any]]]:
    """The columns of all cells that a folder holds, by name."""
    found = {}
    for path in folder.rglob("*.cells"):
        for name, place in cells.places(path):
            if name != cells.ABOUT:
                found[name] = {each: column.tolist() for each, column in cells.read(place).columns.items()}
    return found


# ---------------------------------------------------------------- the rehearsal
@pytest.mark.slow
def test_killed_twice_and_gone_on_with_the_same_bits(toy: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = session([costing(toy.EXPERIMENT, 0.1)], tmp_path / "whole")
    assert whole.complete and whole.cells == {"toy.mean": (5, 5)}
    (tmp_path / "log").unlink()
    folder = tmp_path / "lent"
    for hang in ("1", "3"):
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(folder)], env={**os.environ, "TOY_HANG": hang}, stdout=subprocess.PIPE
        )
        end = time.monotonic() + 120
        while hang not in computed(tmp_path):
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.05)
        process.kill()
        assert process.communicate() and process.returncode == -signal.SIGKILL
    lines: list[str] = []
    done = session([costing(toy.EXPERIMENT, 0.1)], folder, report=lines.append)
    assert "tests: passed before" in lines and "benchmark one: failed before" in lines, "steps are not done again"
    assert done.complete and computed(tmp_path)[:5] == ["0", "1", "1", "2", "3"] and len(computed(tmp_path)) == 7
    assert tables(folder) == tables(tmp_path / "whole") and len(tables(folder)) == 5
    # Carried back to a machine without a GPU, and stored there.
    assert bring([toy.EXPERIMENT], folder).added == {"toy.mean paper": 5}
    runner.environment.cache_clear()
    result = run(toy.EXPERIMENT, "paper", device="cpu", report=silent)
    assert result.state == "current" and len(computed(tmp_path)) == 7, "no cell is computed here"
    assert {each["device"] for each in result.manifest["environments"]} == {"cuda"}


# ---------------------------------------------------------------- what fits
@pytest.mark.slow
def test_a_cell_that_does_not_fit_is_not_begun(toy: ModuleType, tmp_path: Path):
    done = session([costing(toy.EXPERIMENT, 60)], tmp_path / "lent", minutes=1.0)
    assert done.cells == {"toy.mean": (0, 4)} and not done.complete and not computed(tmp_path)
    assert session([costing(toy.EXPERIMENT, 0.1)], tmp_path / "lent", minutes=1.0).complete, "the control"


@pytest.mark.slow
def test_a_cell_that_takes_longer_than_expected_is_given_up_in_time(
    toy: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TOY_HANG", "2")
    started = time.monotonic()
    done = session([costing(toy.EXPERIMENT, 0.1)], tmp_path / "lent", minutes=0.3)
    assert time.monotonic() - started < 120 and done.cells == {"toy.mean": (2, 4)}, "it hangs for ever"
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.slow
def test_the_greatest_value_per_minute_comes_first_and_what_fails_is_passed_over(toy: ModuleType, tmp_path: Path):
    def broken(spec: Any, cell: Any, context: Any) -> Any:
        raise FileNotFoundError("Expected the data here")

    def named(name: str, **more: Any) -> Experiment:
        specs = {each: replace(spec, experiment=name) for each, spec in toy.EXPERIMENT.specs.items()}
        return replace(toy.EXPERIMENT, name=name, specs=specs, stages=(), **more)

    broken.__module__ = "toys.experiment"
    lines: list[str] = []
    wanted = [
        costing(named("dear"), 0.2),
        costing(named("cheap"), 0.1),
        costing(named("broken", run_cell=broken), 0.01),
    ]
    unwanted = [named("ours"), replace(costing(named("here"), 0.1), cpu_only=True)]
    done = session([*wanted, *unwanted], tmp_path / "lent", report=lines.append)
    assert done.cells == {"toy.dear": (4, 4), "toy.cheap": (4, 4), "toy.broken": (0, 4)}
    order = [line.split()[0].removeprefix("toy.") for line in lines if "/4 {" in line]
    assert order == ["cheap"] * 4 + ["dear"] * 4
    assert len([line for line in lines if "Expected the data here" in line]) == 1


# ---------------------------------------------------------------- steps
@pytest.mark.slow
def test_programs_leave_records_and_a_slow_one_is_cut_with_its_children(toy: ModuleType, tmp_path: Path):
    slow = (
        "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).wait()"
    )
    programs = {"tests": ("-c", slow), "benchmark one": ("-c", "print('a line')")}
    done = session([], tmp_path, minutes=0.6, programs=programs)
    assert done.steps == {"environment": "passed", "streams": "passed", "tests": "cut", "benchmark one": "passed"}
    record = files.unsealed_json(tmp_path / "steps" / "tests.json", name="tests")
    assert record["state"] == "cut" and record["seconds"] < 0.35 * 36
    assert (tmp_path / "benchmark_one.txt").read_text() == "a line\n"
    lines: list[str] = []
    assert session([], tmp_path, minutes=0.6, programs=programs, report=lines.append).steps["tests"] == "cut"
    assert "tests: cut before" in lines
    quick = programs | {"tests": ("-c", "print()")}
    assert session([], tmp_path, minutes=3.0, programs=quick).steps["tests"] == "passed", "with more time, once more"


@pytest.mark.slow
def test_a_machine_that_draws_other_numbers_is_refused(
    toy: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with PretendCuda():
        backend = draws.backend(torch.device("cuda"))
    real = backend.module.normals

    class Off:
        uniforms = staticmethod(backend.module.uniforms)

        @staticmethod
        def normals(*given: Any) -> Any:
            return real(*given) * (1 + 2**-52)

    monkeypatch.setattr(draws, "backend", lambda device: replace(backend, module=Off))
    with pytest.raises(ValueError, match=r"Expected the streams to draw known numbers here: .*streams.json"):
        session([costing(toy.EXPERIMENT, 0.1)], tmp_path / "lent")
    assert not computed(tmp_path)


@pytest.mark.parametrize("minutes", [0.0, -1.0, np.nan, np.inf, True, "1", None, 10**400])
def test_minutes_that_are_none_are_refused(tmp_path: Path, minutes: Any):
    with pytest.raises((ValueError, TypeError), match="Expected minutes="):
        gpu.session([], tmp_path, minutes)


def test_without_a_gpu_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = CliRunner().invoke(cli.app, ["gpu", "--minutes", "1", "--out", str(tmp_path / "lent")])
    assert result.exit_code == 2 and "Expected a GPU that torch can use: see dpnotes doctor" in result.output
    assert not (tmp_path / "lent").exists()


def test_the_page_is_what_the_costs_say():
    text = (REPOSITORY / "docs" / "gpu.md").read_text()
    assert text == gpu.page(cli.all_experiments()), "run: dpnotes status --write"
    assert "| noisy_sgd.convnet | Figure" in text and "`dpnotes run noisy_sgd.convnet --profile paper` |" in text
    assert store.command(cli.all_experiments()[0].specs["quick"]) not in text
