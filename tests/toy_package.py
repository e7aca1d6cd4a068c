"""A toy experiment in its own package, which tests edit, clone, run in other processes and kill."""

import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from specs import changed

from dpnotes.experiments import Experiment, Result, run, runner, status
from dpnotes.experiments.cells import Cells
from dpnotes.experiments.provenance import code_of
from dpnotes.experiments.runner import Standing

REPOSITORY = Path(__file__).parents[1]

# Four cells, then a stage that continues with the best of them.
HELPER = '''"""What the toy rests on."""


def scaled(values):
    # A comment.
    return 2.0 * values
'''
TOY = '''"""A toy experiment in two stages."""

import os
import time
from pathlib import Path

import numpy as np

from dpnotes.experiments import Decision, Experiment, Spec
from toys.helper import scaled

RULE = "reproduced when the mean of the best cell is above 0"


def cells(spec):
    return [{"stage": "tune", "index": index} for index in range(spec["num_cells"])]


def chosen(spec, frame):
    best = int(frame.groupby("index")["value"].mean().idxmax())
    return [{"stage": "main", "index": best + 100}]


def run_cell(spec, cell, context):
    index = cell["index"]
    if log := os.environ.get("TOY_LOG"):
        with open(log, "a") as file:
            file.write(f"{index}\\n")
    while os.environ.get("TOY_HANG") == str(index):
        time.sleep(0.05)
    context.record_spent(mechanism="gaussian", rho=0.125)

    def values(runs):
        return {"value": np.array([scaled(np.random.default_rng([spec["seed"], index, run]).normal()) for run in runs])}

    columns = context.in_chunks(values, spec["num_runs"], bytes_per_run=1000)
    value = columns["value"]
    return {"stage": cell["stage"], "index": index, "value": value, "rough": value / 3, "above": value > 0}


def told(*given):
    """In which process, and with which environment."""
    return os.getpid(), dict(os.environ)


def decide(frame, spec):
    mean = frame.loc[frame["stage"] == "main", "value"].mean()
    return Decision("reproduced" if mean > spec["limit"] else "not reproduced", f"mean {mean:.3f}")


def spec(profile):
    return Spec("toy", "mean", profile, {"seed": 7, "num_cells": 4, "num_runs": 5, "limit": 0, "decision_rule": RULE})


EXPERIMENT = Experiment(
    paper="toy",
    name="mean",
    title="A mean",
    question="Is it positive?",
    specs={profile: spec(profile) for profile in ("quick", "paper")},
    cells=cells,
    run_cell=run_cell,
    decide=decide,
    stages=(chosen,),
    rule=("limit",),
    tolerances={"value": 1e-6, "rough": None},
    data=("numbers sha256:01",),
    unaccounted=("the choice of the best cell",),
)
'''
DRIVER = """
import signal
from dpnotes.experiments import run
from toys.experiment import EXPERIMENT
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's "&" makes children deaf to it
run(EXPERIMENT, "quick", device="cpu")
"""


def silent(line: str) -> None:
    """Report nothing."""


class Toy:
    """A folder with the toy's code, results, cells and log.

    Args:
      folder: created if it does not exist.
      text: the source of the experiment's module.
    """

    def __init__(self, folder: Path, text: str = TOY) -> None:
        self.folder, self.results, self.cache = folder, folder / "results", folder / "cache"
        if not folder.exists():
            (folder / "toys").mkdir(parents=True)
            for name, content in {"__init__": "", "helper": HELPER, "experiment": text}.items():
                (folder / "toys" / f"{name}.py").write_text(content)

    def enter(self, patch: pytest.MonkeyPatch) -> "Toy":
        """Use this folder from now on."""
        self.environment = {
            "DPNOTES_RESULTS": str(self.results),
            "DPNOTES_CACHE": str(self.cache),
            "TOY_LOG": str(self.folder / "log"),
            "PYTHONPATH": os.pathsep.join(map(str, (self.folder, REPOSITORY / "tests", REPOSITORY))),
            "PYTHONDONTWRITEBYTECODE": "1",  # otherwise an edit within the same second would be missed
        }
        for name, value in self.environment.items():
            patch.setenv(name, value)
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.syspath_prepend(self.folder)
        return self.reload()

    def reload(self) -> "Toy":
        """Forget the loaded code."""
        for name in [name for name in sys.modules if name.split(".")[0] == "toys"]:
            del sys.modules[name]
        importlib.invalidate_caches()
        return self

    # ---------------------------------------------------------------- code
    @property
    def experiment(self) -> Experiment:
        """The experiment as its files were at the last `enter` or `edit`."""
        return importlib.import_module("toys.experiment").EXPERIMENT

    def changed(self, **parameters: Any) -> Experiment:
        """Return the experiment with one profile and changed parameters."""
        return replace(self.experiment, specs={"quick": changed(self.experiment.specs["quick"], **parameters)})

    def named(self, name: str, **parts: Any) -> Experiment:
        """Return the experiment under another name."""
        specs = {profile: replace(spec, experiment=name) for profile, spec in self.experiment.specs.items()}
        return replace(self.experiment, name=name, specs=specs, **parts)

    def edit(self, module: str, before: str, after: str) -> None:
        """Replace a text in a module."""
        path = self.folder / "toys" / f"{module}.py"
        assert before in path.read_text()
        path.write_text(path.read_text().replace(before, after))
        self.reload()

    def git(self, *words: str) -> str:
        """Run git in the folder; return its output."""
        who = ("-c", "user.name=toy", "-c", "user.email=toy@example.org")
        return subprocess.run(["git", *who, *words], cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def commit(self) -> str:
        """Commit code and results in the toy's own repository; return the hash."""
        if not (self.folder / ".git").exists():
            self.git("init", "-q")
            (self.folder / ".gitignore").write_text("cache\nlog\n")
        self.git("add", ".")
        self.git("commit", "-qm", "toys", "--allow-empty")
        return self.git("rev-parse", "HEAD").strip()

    def clone(self, folder: Path, *options: str) -> "Toy":
        """Return a clone of the committed state."""
        self.git("clone", "-q", *options, self.folder.as_uri(), str(folder))
        return Toy(folder)

    # ---------------------------------------------------------------- runs
    def run(self, profile: str = "quick", report: Callable[[str], None] = silent, **settings: Any) -> Result:
        """Run the experiment in this process."""
        return run(self.experiment, profile, **{"device": "cpu", "report": report, **settings})

    def some(self, *indices: int) -> None:
        """Compute some cells of the first stage only, into one file of the cache."""
        cells = Cells(self.experiment, "quick", code=code_of(self.experiment))
        for index in indices:
            done = runner.execute(cells, {"stage": "tune", "index": index}, runner.RunPlan("cpu", 10**9, 1))
            cells.add(done.columns, done.manifest)
        self.computed(clear=True)

    def started(self, hang: int, program: str = DRIVER, *arguments: str) -> subprocess.Popen:
        """Start a process that runs the toy; return it when it has reached the cell in which it hangs."""
        before = self.computed().count(str(hang))
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments], env=os.environ | {"TOY_HANG": str(hang)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        end = time.monotonic() + 60
        while self.computed().count(str(hang)) == before:
            assert process.poll() is None and time.monotonic() < end, process.communicate()[0]
            time.sleep(0.02)
        return process

    def killed(self, hang: int, program: str = DRIVER, *arguments: str) -> None:
        """Run the toy in a process, and kill the process in the middle of a cell."""
        process = self.started(hang, program, *arguments)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL

    def computed(self, clear: bool = False) -> list[str]:
        """Return the indices of the cells that were started, in order; `clear` empties the log."""
        log = self.folder / "log"
        found = log.read_text().split() if log.exists() else []
        if clear:
            log.unlink(missing_ok=True)
        return found

    def standing(self, profile: str = "quick") -> Standing:
        """Return the status of the result."""
        return next(each for each in status([self.experiment]) if each.profile == profile)

    # ---------------------------------------------------------------- files
    def stored(self, profile: str = "quick") -> bytes:
        """Return the stored columns as bytes."""
        return (self.results / f"toy.mean.{profile}.npz").read_bytes()

    def manifest(self, profile: str = "quick") -> Path:
        """Return the path of the manifest."""
        return self.results / f"toy.mean.{profile}.manifest.json"

    def cells(self) -> list[Path]:
        """Return the files of the cache."""
        return sorted(self.cache.rglob("*.cells"))

    def parts(self) -> list[Path]:
        """Return the files of cells that are kept beside the results."""
        return sorted((self.results / "parts").glob("*"))

    def without_result(self) -> None:
        """Remove the stored result, but keep the cells."""
        shutil.rmtree(self.results, ignore_errors=True)

    def pending(self, *rows: str) -> None:
        """Write PENDING.md."""
        self.results.mkdir(exist_ok=True)
        head = "# Pending\n\n| result | changed by | why | what it takes |\n|---|---|---|---|\n"
        (self.results / "PENDING.md").write_text(head + "".join(f"{row}\n" for row in rows))
