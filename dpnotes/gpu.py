"""An hour, or nine minutes, on a GPU that is lent: `dpnotes gpu` does what is worth most, and leaves it in one folder.

First whether the machine is right: packages, the tests that want a GPU, known answers of the streams. Then benchmarks,
then cells of paper profiles that are missing, those of the greatest value per minute first. Each step leaves a record,
each cell is kept as it ends: a call that was interrupted, by SIGKILL too, is followed by another that goes on. Nothing
is begun that is not expected to fit, and what takes longer than was expected is given up when the time is over.
"""

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import dpnotes
from dpnotes import doctor, files, validate
from dpnotes.experiments import runner, store
from dpnotes.experiments.costs import Cost
from dpnotes.experiments.entered import Notes
from dpnotes.experiments.sources import Fingerprint
from dpnotes.experiments.spec import Cell, Experiment

PROFILE = "paper"
_LAST = 5.0  # seconds that are left for records when work is given up
_SHARES = {"tests": 0.35, "benchmarks": 0.15}  # of the time that is left, at most: cells are what a GPU is wanted for
_BENCHMARKS = {"networks": ("benchmarks/networks.py", "cuda"), "draws": ("benchmarks/draws.py",)}
_MARGIN = 1.25  # a cell may take so much longer than those before


class _TimeIsUp(BaseException):
    """Not an `Exception`, which a cell might catch."""


@dataclass
class _Clock:
    """The time that is left."""

    end: float

    @staticmethod
    def of(minutes: float) -> "_Clock":
        return _Clock(time.monotonic() + 60 * minutes - min(_LAST, 6 * minutes))

    @property
    def left(self) -> float:
        return max(0.0, self.end - time.monotonic())

    @contextmanager
    def alarm(self) -> Iterator[None]:
        """Give up what is done inside when the time is over."""

        def ring(number: int, frame: object) -> None:
            raise _TimeIsUp

        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, max(self.left, 0.001))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True)
class Session:
    """One call: how much of what was done.

    Args:
      steps: state of each step, "passed", "failed", or "cut" (it took longer than its share of the time).
      cells: of each result, how many are finished and how many are known.
    """

    steps: dict[str, str] = field(default_factory=dict)
    cells: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether no cell is left to do."""
        return all(finished == known for finished, known in self.cells.values())


def session(
    experiments: Iterable[Experiment],
    folder: Path,
    minutes: float,
    *,
    report: Callable[[str], None] = print,
    programs: Mapping[str, Sequence[str]] | None = None,
) -> Session:
    """Do as much as fits.

    Args:
      experiments: whose paper profiles are wanted.
      folder: for records and cells; of an earlier call, which is gone on with.
      minutes: at most.
      report: called with one line at a time.
      programs: by name, in place of the tests and benchmarks; their arguments to Python.

    Raises:
      ValueError: minutes that are not above 0, no GPU, a machine on which the streams draw other numbers.
      FileNotFoundError: this is not a repository: an installation has neither tests nor benchmarks.
    """
    import torch

    validate.positive(minutes=minutes)
    if not torch.cuda.is_available():
        raise ValueError("Expected a GPU that torch can use: see dpnotes doctor.")
    clock, root, folder = _Clock.of(minutes), Path(dpnotes.__file__).parents[1], folder.resolve()
    if not (root / "tests").is_dir():
        raise FileNotFoundError(f"Expected {root / 'tests'}: tests and benchmarks are part of the repository.")
    if programs is None:
        # Their modules alone: others import what a GPU machine need not have, and a failed import would end the session.
        wanting = [str(path) for path in sorted((root / "tests").rglob("test_*.py")) if "mark.gpu" in path.read_text()]
        programs = {"tests": ("-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", "--timeout=600", *wanting)}
        programs |= {f"benchmark {name}": words for name, words in _BENCHMARKS.items()}
    steps: dict[str, str] = {}
    report(f"{minutes:g} minutes, records and cells in {folder}")
    steps["environment"] = _step(folder, "environment", _environment, report)
    steps["streams"] = _step(folder, "streams", lambda: _streams(root), report)
    if steps["streams"] != "passed":
        raise ValueError(f"Expected the streams to draw known numbers here: {folder / 'steps' / 'streams.json'}")
    for name, words in programs.items():
        share = _SHARES["tests" if name == "tests" else "benchmarks"]
        steps[name] = _program(folder, name, words, root, share * clock.left, report)
    with _cache(folder):
        done = Session(steps, _cells(experiments, clock, report))
    report("complete" if done.complete else "the same command goes on from here")
    report(f"carry the folder back, and there: dpnotes cells import {folder.name}")
    return done


# ---------------------------------------------------------------- steps
def _record(folder: Path, name: str) -> Path:
    return folder / "steps" / f"{name.replace(' ', '_')}.json"


def _step(folder: Path, name: str, work: Callable[[], dict[str, Any]], report: Callable[[str], None]) -> str:
    """Do a short step, at every call: the machine may be another one."""
    body = {"name": name, **work(), "finished_at": runner.now()}
    files.write({_record(folder, name): files.sealed_json(body)})
    report(f"{name}: {body['state']}")
    return body["state"]


def _environment() -> dict[str, Any]:
    """What the machine is, and what is missing."""
    findings = [asdict(finding) for finding in doctor.examine()]
    problems = [finding["subject"] for finding in findings if finding["level"] == "problem"]
    here = {"environment": runner.environment("cuda"), "cores": os.cpu_count(), "findings": findings}
    return {"state": f"failed: {', '.join(problems)}" if problems else "passed", **here}


def _streams(root: Path) -> dict[str, Any]:
    """Known answers of every draw, by another program (`tests/draws_by_mpmath.py`), and many numbers as on the CPU."""
    import torch

    from dpnotes import draws
    from dpnotes.streams import Streams

    device = torch.device("cuda")
    backend = draws.backend(device)
    wrong, count = list[str](), 0
    with (root / "tests" / "known_draws.csv").open(newline="") as file:
        for row in csv.reader(file):
            k0, k1, p0, p1, call, element = (int(word) for word in row[:6])
            key, calls = torch.tensor([[k0, k1]], device=device), torch.tensor([call], device=device)
            found = [
                number
                for draw in (backend.module.uniforms, backend.module.normals)
                for number in draw(key, calls, (p0, p1), element // 2, 1).flatten().tolist()
            ]
            count += 1
            if found != [float.fromhex(word) for word in row[6:]]:
                wrong.append(f"{row}: {[number.hex() for number in found]}")
    here, there = (Streams.of("gpu", ["a", "b"], each) for each in ("cpu", device))
    for kind in ("normal", "uniform"):
        one, other = getattr(here, kind)("noise", 3, 10**5), getattr(there, kind)("noise", 3, 10**5).cpu()
        if not torch.equal(one, other):
            wrong.append(f"{kind}: {int((one != other).sum())} of {one.numel()} numbers are not those of the CPU")
    return {"state": "failed" if wrong else "passed", "kernels": backend.about, "known": count, "wrong": wrong}


def _program(
    folder: Path, name: str, words: Sequence[str], root: Path, seconds: float, report: Callable[[str], None]
) -> str:
    """Run a program, unless it was run before; cut where it takes too long, and taken up again with twice the time."""
    path = _record(folder, name)
    if path.exists():
        before = files.unsealed_json(path, name=name)
        if before["state"] != "cut" or seconds < 2 * before["seconds"]:
            report(f"{name}: {before['state']} before")
            return before["state"]
    started = time.monotonic()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    output = folder / f"{path.stem}.txt"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, *words], cwd=root, env=environment, stdout=file, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(max(seconds, 0.001))
            state = "failed" if status else "passed"
        except subprocess.TimeoutExpired:
            state = "cut"
        finally:
            if process.poll() is None:  # its children, too
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    body = {"name": name, "state": state, "seconds": round(time.monotonic() - started, 3), "output": output.name}
    files.write({path: files.sealed_json(body | {"finished_at": runner.now()})})
    report(f"{name}: {state} after {body['seconds']:.0f} s, {output}")
    return state


# ---------------------------------------------------------------- cells
@contextmanager
def _cache(folder: Path) -> Iterator[None]:
    """Cells are kept in the folder; those that are kept beside the results are found as ever."""
    before = os.environ.get("DPNOTES_CELLS")
    os.environ["DPNOTES_CELLS"] = str(folder / "cells")
    try:
        yield
    finally:
        os.environ.pop("DPNOTES_CELLS")
        if before is not None:
            os.environ["DPNOTES_CELLS"] = before


@dataclass
class _Work:
    """One result that is missing: what is finished of it, and how long a cell takes."""

    experiment: Experiment
    cost: Cost
    progress: runner.Progress
    tables: list[store.Table] = field(default_factory=list)  # of the cells that are finished
    waiting: list[Cell] = field(default_factory=list)
    error: str = ""

    def look(self) -> None:
        """See what waits: of the first stage that is not finished."""
        self.tables, self.waiting, _ = self.progress.so_far()

    @property
    def finished(self) -> int:
        return len(self.tables)

    @property
    def known(self) -> int:
        return len(self.tables) + len(self.waiting)

    @property
    def a_cell(self) -> float:
        """Expected seconds of a cell: as long as those before, or as the whole's cost says."""
        computed = [table.manifest for table in self.tables]
        seconds = [each["seconds"] for each in computed if each["environment"]["device"] == "cuda"]
        if seconds:
            return _MARGIN * sum(seconds) / len(seconds)
        return 60 * (self.cost.minutes or 0.0) / max(self.known, 1)

    @property
    def rate(self) -> float:
        """Value per second of what is left of it."""
        return self.cost.value / max(len(self.waiting) * self.a_cell, 1e-9)


def _cells(
    experiments: Iterable[Experiment], clock: _Clock, report: Callable[[str], None]
) -> dict[str, tuple[int, int]]:
    """Compute cells until nothing that is left fits."""
    works = [work for experiment in experiments if (work := _wanted(experiment, report)) is not None]
    for work in works:
        work.look()
    while fitting := [w for w in works if w.waiting and not w.error and w.a_cell <= clock.left]:
        work = max(fitting, key=lambda work: (work.rate, work.experiment.id))
        name, cell = work.experiment.id, work.waiting[0]
        try:
            with clock.alarm():
                folder = work.progress.folder
                plan = runner.Plan("cuda", runner.memory_budget(folder, "cuda", None, 1, work.progress.plans()), 1)
                text, seconds, notes = runner.execute(
                    work.experiment, work.progress.spec.json, cell, work.progress.shelf, plan
                )
        except _TimeIsUp:
            report(f"{name} {PROFILE}: the time is over in the middle of a cell")
            break
        except Exception as error:  # data that are not here, a GPU too small: whatever it is, others may still run
            work.error = f"{type(error).__name__}: {error}"
            report(f"{name} {PROFILE}: {' '.join(work.error.split())}")
            continue
        work.look()
        report(f"{name} {PROFILE}: {work.finished}/{work.known} {text} {seconds:.1f} s")
        for note in notes:
            report(f"  {note}")
    if Notes.current is not None:
        Notes.current.end()
    for work in works:
        report(f"{work.experiment.id} {PROFILE}: {work.finished} of {work.known} cells known are finished")
    return {work.experiment.id: (work.finished, work.known) for work in works}


def _wanted(experiment: Experiment, report: Callable[[str], None]) -> _Work | None:
    """What is missing of an experiment, if a GPU is of use and nothing else is missing."""
    cost = experiment.wants.get(PROFILE)
    if PROFILE not in experiment.specs or cost is None or not cost.rate or experiment.cpu_only:
        return None
    with suppress(store.DamagedFileError):  # it is made again
        if store.load(experiment, PROFILE).state == "current":
            return None
    fingerprint, commit = Fingerprint.of(experiment, PROFILE), runner.commit_of(experiment)
    return _Work(experiment, cost, runner.Progress.of(experiment, fingerprint, report, commit))


# ---------------------------------------------------------------- the page
def page(experiments: Iterable[Experiment]) -> str:
    """The text of docs/gpu.md."""
    rows = [(experiment, cost) for experiment in experiments if (cost := experiment.wants.get(PROFILE))]
    able = sorted((pair for pair in rows if pair[1].minutes), key=lambda pair: (-pair[1].rate, pair[0].id))
    lines = [
        f"| {experiment.id} | {experiment.figure.name if experiment.figure else 'our own'} | {cost.minutes:g} | "
        f"{cost.gigabytes:g} | {cost.hours:g} | {cost.value:g} | "
        f"{cost.missing or cost.basis} | `{store.command(experiment.specs[PROFILE])}` |"
        for experiment, cost in able
    ]
    return _PAGE.replace("TABLE", "\n".join(lines))


_PAGE = """# When there is a GPU

Generated by `dpnotes status --write`; do not edit.

    make gpu MINUTES=9 OUT=gpu        # or: dpnotes gpu --minutes 9 --out gpu

does, in this order: looks at the machine, draws known numbers, runs the tests that want a GPU (`pytest -m gpu`) and the
benchmarks, and then cells of those paper profiles below that are missing, the greatest value per minute first. It takes
no longer than the minutes that are named: a cell that is not expected to fit is not begun. Every step leaves a record
in the folder, every cell is kept as it ends, long ones checkpoint themselves; if it is killed, the same command goes
on. The folder is all that has to be carried back:

    dpnotes cells import gpu          # refuses cells of other code, another spec or other data
    dpnotes run PAPER.EXPERIMENT --profile paper      # stores what is complete, or computes the rest

| experiment | figure | minutes on a GPU | GB | hours on two cores | value | from, or what is missing | command |
|---|---|---|---|---|---|---|---|
TABLE

Value is in figures of the paper: 1 for a whole one. Minutes and memory are for one large GPU, and are estimates until
the first cell is finished: from then on a cell is expected to take as long as those before, and a quarter more.
"""
