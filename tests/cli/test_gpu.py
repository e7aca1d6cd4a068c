"""The command `dpnotes gpu` for a borrowed GPU: rehearsal on the pretend GPU, restart after a kill, refusals."""

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from command import call
from pretend_device import PretendCuda
from toy_package import TOY, Toy, silent

from dpnotes.cli import gpu
from dpnotes.experiments import bring, provenance, records
from dpnotes.random import draws
from dpnotes.util import files

# The toy, computed on the device, as sums of draws from its streams.
IMPORTS = "import numpy as np\n"
ON_A_DEVICE = TOY.replace(IMPORTS, f"{IMPORTS}from dpnotes.random.streams import Streams\n").replace(
    'np.array([scaled(np.random.default_rng([spec["seed"], index, run]).normal()) for run in runs])',
    'scaled(Streams.of(spec["seed"], [f"{index} {run}" for run in runs], context.device).normal("noise", 0, 3)).sum(1)',
)
RESULTS = """
import signal
from command import call
from pretend_device import PretendCuda
from dpnotes.experiments import run
from toys.experiment import EXPERIMENT
signal.signal(signal.SIGINT, signal.default_int_handler)
with PretendCuda():
    run(EXPERIMENT, "paper", device="cuda")
"""
PROGRAMS = {
    "tests": ("-c", "print('passed')"),
    "benchmark one": ("-c", "import sys; sys.exit(3)"),
    "results": ("-c", RESULTS),
}
SLOW = """
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(90)"])
print(child.pid, flush=True)
child.wait()
"""
DRIVER = """
import sys
from tests.cli import test_gpu
test_gpu.session(sys.argv[1])
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    provenance.environment.cache_clear()
    return Toy(tmp_path / "toy", ON_A_DEVICE).enter(monkeypatch)


def session(folder: str | Path, minutes: float = 2.0, **more: Any) -> dict[str, str]:
    with PretendCuda():
        return gpu.session(Path(folder), minutes, **{"report": silent, "programs": PROGRAMS, **more})


def columns(folder: Path) -> dict[str, dict[str, list[Any]]]:
    """Return the columns of all cells in a folder, by name."""
    found = records.Records(folder, pattern="**/*.cells").by_name()
    return {name: {key: of.tolist() for key, of in each.table.columns.items()} for name, each in found.items()}


@pytest.mark.slow
def test_killed_twice_and_gone_on_with_the_same_bits(toy: Toy, tmp_path: Path):
    expected = {"environment": "passed", "streams": "passed", "tests": "passed", "benchmark one": "failed"}
    assert session(tmp_path / "whole") == expected | {"results": "passed"}
    toy.without_result()
    toy.computed(clear=True)
    folder, lines = tmp_path / "lent", list[str]()
    for hang in (1, 3):
        process = toy.started(hang, DRIVER, str(folder))
        for each in [*psutil.Process(process.pid).children(recursive=True), process]:  # as when the machine disappears
            each.kill()
        process.communicate()
    assert session(folder, report=lines.append) == expected | {"results": "passed"}
    assert "tests: passed before" in lines and "benchmark one: failed before" in lines, "steps are not done again"
    assert toy.computed()[:5] == ["0", "1", "1", "2", "3"] and len(toy.computed()) == 7
    assert columns(folder) == columns(tmp_path / "whole") and len(columns(folder)) == 5
    # Brought back to a machine without a GPU, and stored there.
    toy.without_result()
    assert bring([toy.experiment], folder).added == {"toy.mean paper": 5}
    provenance.environment.cache_clear()
    result = toy.run("paper")
    assert result.state == "stored" and len(toy.computed()) == 7, "no cell is computed here"
    assert {each["device"] for each in result.manifest["environments"]} == {"cuda"}


@pytest.mark.slow
def test_what_takes_too_long_is_cut_with_its_children(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gpu, "_LAST", 4.0)
    monkeypatch.setitem(gpu._SHARES, "tests", 0.25)
    monkeypatch.setenv("TOY_HANG", "2")
    started = time.monotonic()
    done = session(tmp_path, minutes=0.6, programs=PROGRAMS | {"tests": ("-c", SLOW)})
    assert time.monotonic() - started < 90, "it hangs for ever"
    assert (done["tests"], done["benchmark one"], done["results"]) == ("cut", "failed", "cut")
    assert files.unsealed_json(tmp_path / "steps" / "tests.json", name="tests")["seconds"] < 20
    child = int((tmp_path / "tests.txt").read_text())
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
    text = (tmp_path / "results.txt").read_text()
    assert "\nInterrupted. 2 of 4 or more cells are finished" in text and len(columns(tmp_path)) == 2
    monkeypatch.delenv("TOY_HANG")
    done = session(tmp_path)
    assert (done["tests"], done["results"]) == ("passed", "passed"), "what was cut is done once more"
    assert toy.computed()[:4] == ["0", "1", "2", "2"] and len(columns(tmp_path)) == 5


@pytest.mark.slow
def test_a_machine_that_draws_other_numbers_is_refused(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with PretendCuda():
        backend = draws.backend(torch.device("cuda"))
    real = backend.module
    off = SimpleNamespace(uniforms=real.uniforms, normals=lambda *given: real.normals(*given) * (1 + 2**-52))
    monkeypatch.setattr(draws, "backend", lambda device: replace(backend, module=off))
    with pytest.raises(ValueError, match=r"Expected the streams to draw the CPU's numbers here: .*streams.json"):
        session(tmp_path / "lent")
    assert not toy.computed()


@pytest.mark.parametrize("minutes", [0.0, -1.0, np.nan, np.inf, True, "1", None, 10**400])
def test_minutes_and_jobs_that_are_none_are_refused(tmp_path: Path, minutes: Any):
    with pytest.raises((ValueError, TypeError), match="Expected minutes="):
        gpu.session(tmp_path, minutes)
    with pytest.raises(ValueError, match="Expected jobs=0 >= 1"):
        gpu.session(tmp_path, 1.0, jobs=0)
    assert not list(tmp_path.iterdir())


def test_without_a_gpu_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    said = call("gpu", "--minutes", "1", "--out", tmp_path / "lent", code=2).output
    assert "Expected a GPU that torch can use: see dpnotes doctor" in said
    assert not (tmp_path / "lent").exists()


def test_the_steps_are_the_tests_of_a_gpu_benchmarks_and_missing_paper_results():
    root = Path(gpu.__file__).parents[2]
    steps = gpu._programs(root, 3)
    assert [*steps] == ["tests", "benchmark networks", "benchmark draws", "results"]
    assert any(word.endswith("tests/random/test_draws.py") for word in steps["tests"])
    assert " ".join(steps["results"]) == "-m dpnotes run --missing --profile paper --device cuda --jobs 3"
