"""Running an experiment: cell by cell, each kept as soon as it is finished, then one result with its manifest.

Cells go through joblib, so a `joblib.parallel_config(backend="dask")` takes them to a cluster (whose machines then
share `$DPNOTES_CACHE`). A run that was interrupted, by Ctrl-C, kill -9 or a full disk, goes on where it stopped and
ends in the same bytes.

Of processes that torchrun has started all compute the same cells, which share their work out. What is done next is rank
0's to say: it alone looks at what is kept, and keeps, stores and reports; the others compare what they found with it.
"""

import errno
import hashlib
import json
import platform
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dpnotes
from dpnotes import files, validate
from dpnotes.experiments import allocator, parts, store
from dpnotes.experiments.cells import Shelf, name_of
from dpnotes.experiments.chunks import format_bytes, parse_memory
from dpnotes.experiments.entered import Notes
from dpnotes.experiments.sources import FORMAT, Fingerprint, find, git, output
from dpnotes.experiments.spec import Cell, Context, Decision, Experiment, Spec, alone, canonical_json

if TYPE_CHECKING:
    from dpnotes.processes import Processes

_SAMPLE = 0.05  # of the largest result: from so much on its size is projected; less does not show how it is compressed
_MARGIN = 0.8  # of the free memory is planned for: allocators round up, libraries keep buffers
_PACKAGES = ("torch", "numpy", "scipy", "dp-accounting", "pandas", "joblib")
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def run(
    experiment: Experiment,
    profile: str,
    *,
    device: str = "auto",
    memory: str | int | None = None,
    resume: bool = True,
    jobs: int = 1,
    processes: "Processes | None" = None,
    report: Callable[[str], None] = print,
) -> store.Result:
    """Compute a result, store it, and return it as `load` would.

    Args:
      experiment: what to run.
      profile: "quick", "cpu" or "paper", as far as the experiment has them.
      device: "cpu", "cuda", or "auto" for a GPU where there is one. An experiment that is `cpu_only` runs on the CPU.
      memory: a limit such as "4GB" on what all jobs together hold, of the GPU's memory where runs are on a GPU; None
        plans with most of what is free.
      resume: keep finished cells, and a result that is current; otherwise start afresh.
      jobs: cells executed at once, in processes of their own if more than one.
      processes: that compute each cell together, and all call this; None: this one alone.
      report: called with one line at a time, by rank 0.

    Raises:
      ValueError: an unknown profile or device, jobs < 1, a malformed memory, a result over 1 MB; what several processes
        cannot do (`refuse`).
      MemoryError: one run needs more than the memory that there is.
      ProcessLost: naming a process that differs in code, spec, versions or threads, died or hangs, or finds other
        numbers.
      KeyboardInterrupt: Ctrl-C; the message says what is finished and how to go on.
      OSError: a full disk among others; names the path, finished cells are kept.
    """
    from dpnotes.processes import ProcessLost

    spec = experiment.spec(profile)
    validate.at_least(1, jobs=jobs)
    limit = None if memory is None else parse_memory(memory)
    processes = processes or alone()
    refuse(experiment, device, jobs, processes.size)
    first = processes.rank == 0
    report = report if first else _silent
    # Before anything is cleared or skipped: an argument that is refused must not have done so.
    device = "cpu" if processes.size > 1 else resolve(device, experiment, report)
    fingerprint, commit = Fingerprint.of(experiment, profile), commit_of(experiment)
    _agree(processes, experiment, fingerprint, device, {"memory": limit, "resume": resume})
    folder = store.cells_folder(spec, fingerprint.key)
    if resume:
        if processes.gather_objects(first and _is_current(experiment, profile, report))[0]:
            return store.load(experiment, profile)
    store.check_folders()  # before hours of work
    if first and not resume:
        shutil.rmtree(folder, ignore_errors=True)
    started = time.perf_counter()
    progress = Progress.of(experiment, fingerprint, report, commit, kept=resume)
    notes = Notes.of(experiment.all_modules(), str(folder))
    try:
        budget = memory_budget(folder, device, limit, jobs * processes.size, progress.plans()) if first else 0
        plan = Plan(device, processes.gather_objects(budget)[0], jobs, processes)
        tables = progress.finish_all(plan)
        if first:
            columns = store.concatenate([table.columns for table in tables])
            decision = experiment.decide(store.frame_of(columns), spec)
            if not isinstance(decision, Decision):
                raise TypeError(f"Expected decide to return a Decision, got {type(decision).__name__}.")
            seconds = time.perf_counter() - started
            manifest = _manifest(experiment, fingerprint, commit, tables, decision, notes, jobs, seconds)
            store.write_table(store.result_stem(spec), columns, manifest, store.MAX_RESULT_BYTES)
            parts.remove(spec)
            report(f"{experiment.id} {profile}: {decision}")
        processes.gather_objects("stored")  # nobody leaves before
    except KeyboardInterrupt:
        report(message := f"Interrupted. {progress.kept()}")
        raise KeyboardInterrupt(message) from None
    except ProcessLost:
        report(progress.kept())
        raise
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        message = f"No space left while writing {error.filename}. Make room; {progress.kept()}"
        raise OSError(error.errno, message, error.filename) from error
    finally:
        notes.end()
    return store.load(experiment, profile)


def _silent(line: str) -> None:
    pass


def _is_current(experiment: Experiment, profile: str, report: Callable[[str], None]) -> bool:
    try:
        state = store.load(experiment, profile).state
    except store.DamagedFileError as error:
        report(f"{error.__cause__} It is made again.")
        return False
    if state == "current":
        parts.remove(experiment.spec(profile))  # a run that was killed at its very end leaves them
        report(f"{experiment.id} {profile}: current, nothing to do.")
    return state == "current"


# ---------------------------------------------------------------- several processes
def refuse(experiment: Experiment, device: str, jobs: int, num_processes: int) -> None:
    """Refuse what several processes cannot do.

    Raises:
      ValueError: in more than one process, an experiment that is not `distributed`, several jobs, or a GPU.
    """
    if num_processes == 1:
        return
    if not experiment.distributed:
        raise ValueError(
            f"Expected one process, got {num_processes}: {experiment.id} does not share its work out; run it without "
            "torchrun (--jobs computes several cells at once)."
        )
    if jobs > 1:
        raise ValueError(f"Expected jobs={jobs} to be 1 in {num_processes} processes, which share every cell out.")
    if device not in ("auto", "cpu"):
        raise ValueError(f"Expected device={device!r} to be 'cpu' or 'auto' in {num_processes} processes.")


def _agree(
    processes: "Processes", experiment: Experiment, fingerprint: Fingerprint, device: str, arguments: dict[str, Any]
) -> None:
    """Refuse processes in which something differs that decides what is computed, or its bits."""
    if processes.size == 1:
        return
    from dpnotes.processes import agree

    here = environment(device)
    facts = {"experiment": experiment.id, "profile": fingerprint.spec.profile, **arguments}
    facts |= {"spec": fingerprint.spec.key[:16], "data": list(fingerprint.data)}
    facts |= {f"code of {name}": digest for name, digest in fingerprint.modules.items()}
    facts |= {"all code": fingerprint.key[:16]}
    agree(processes, {**facts, **here["versions"], "threads": here["threads"], "processor": here["name"]})


def _compare(processes: "Processes", columns: dict[str, Any]) -> None:
    """Refuse processes that found other columns, to the bit, than rank 0."""
    from dpnotes.processes import agree

    digests = {name: hashlib.sha256(f"{c.dtype}{c.shape}".encode() + c.tobytes()) for name, c in columns.items()}
    agree(processes, {f"the sha256 of column {name}": each.hexdigest()[:16] for name, each in digests.items()})


# ---------------------------------------------------------------- cells
@dataclass(frozen=True)
class Plan:
    """How cells are executed: where, with how much memory each, and how many at once."""

    device: str
    memory_bytes: int
    jobs: int
    processes: "Processes" = field(default_factory=alone)


@dataclass(frozen=True, eq=False)
class Progress:
    """Which cells there are, and which are finished: in the cache, or kept beside the results."""

    experiment: Experiment
    spec: Spec
    folder: Path
    report: Callable[[str], None]
    shelf: Shelf
    beside: Shelf | None = None

    @staticmethod
    def of(
        experiment: Experiment,
        fingerprint: Fingerprint,
        report: Callable[[str], None],
        commit: dict[str, Any] | None = None,
        kept: bool = True,
    ) -> "Progress":
        """Of a spec, code and data; with a commit, so that cells can be added."""
        spec, key = fingerprint.spec, fingerprint.key
        folder = store.cells_folder(spec, key)
        about = None if commit is None else parts.about(experiment, fingerprint, commit)
        beside = parts.shelf(spec, key) if kept else None
        return Progress(experiment, spec, folder, report, Shelf(folder, {key}, about), beside)

    def plans(self) -> list[dict[str, Any]]:
        """The plans of memory by which cells were computed that came from elsewhere."""
        self.shelf.refresh()
        abouts = [*self.shelf.abouts.values(), *(self.beside.abouts.values() if self.beside else ())]
        return [about["plan"] for about in abouts if "plan" in about]

    def finish_all(self, plan: Plan) -> list[store.Table]:
        """Tables of all cells of all stages, in order; what is not kept already is computed. Rank 0 alone has any."""
        tables: list[store.Table] = []
        for shelf in (self.shelf, self.beside):
            for sentence in shelf.damage() if shelf is not None and plan.processes.rank == 0 else ():
                self.report(f"Warning: {sentence} They are computed again.")
        for stage in range(1 + len(self.experiment.stages)):
            if plan.processes.rank > 0:
                self._compute(plan.processes.gather_objects([])[0], plan, _Size.unknown())
                continue
            cells = self.cells(stage, tables)
            found = {canonical_json(cell): table for cell in cells if (table := self.table(cell)) is not None}
            size = _Size(self.spec, [*tables, *found.values()], len(tables) + len(cells))
            waiting = [cell for cell in cells if canonical_json(cell) not in found]
            plan.processes.gather_objects(waiting)
            if len(waiting) < len(cells):
                kept = len(cells) - len(waiting)
                self.report(
                    f"{self.experiment.id} {self.spec.profile}: {kept} of {len(cells)} cells were finished before"
                )
            self._compute(waiting, plan, size)
            for cell in cells:
                table = found.get(canonical_json(cell)) or self.table(cell)
                if table is None:
                    raise FileNotFoundError(
                        f"Expected the cells in {self.folder}: let all machines share one DPNOTES_CACHE."
                    )
                tables.append(table)
        return tables

    def cells(self, stage: int, earlier: list[store.Table]) -> list[Cell]:
        """The cells of one stage, given the tables of the stages before."""
        if stage == 0:
            cells = self.experiment.cells(self.spec)
        else:
            frame = store.frame_of(store.concatenate([table.columns for table in earlier]))
            cells = self.experiment.stages[stage - 1](self.spec, frame)
        texts = [canonical_json(cell, "cell") for cell in cells]
        if not cells and stage == 0 or len(set(texts)) < len(texts):
            raise ValueError(f"Expected {self.experiment.id} to list at least one cell, and none twice.")
        return cells

    def so_far(self) -> tuple[list[store.Table], list[Cell], bool]:
        """Tables of the cells that are finished, cells that wait, and whether stages cannot list their cells yet."""
        tables: list[store.Table] = []
        for stage in range(1 + len(self.experiment.stages)):
            found = [(cell, self.table(cell)) for cell in self.cells(stage, tables)]
            waiting = [cell for cell, table in found if table is None]
            tables += [table for _, table in found if table is not None]
            if waiting:
                return tables, waiting, stage < len(self.experiment.stages)
        return tables, [], False

    def count(self) -> tuple[int, int, bool]:
        """Cells finished, cells known, and whether stages wait that cannot list their cells yet."""
        tables, waiting, more = self.so_far()
        return len(tables), len(tables) + len(waiting), more

    def kept(self) -> str:
        """What is finished and how to go on, in one line."""
        finished, known, more = self.count()
        counted = f"{finished} of {known}{' or more' if more else ''} cells are finished and kept in {self.folder}"
        return f"{counted}; the same command goes on from there: {store.command(self.spec)}"

    def table(self, cell: Cell) -> store.Table | None:
        """What is kept of a cell that is finished."""
        for shelf in (self.shelf, self.beside):
            try:
                if shelf is not None and (table := shelf.table(cell)) is not None:
                    return table
            except store.DamagedFileError as error:
                self.report(f"Warning: {error} The cell is computed again.")
        return None

    def _compute(self, cells: list[Cell], plan: Plan, size: "_Size") -> None:
        import joblib

        if plan.processes.size > 1:
            self._say(cells, (execute(self.experiment, self.spec.json, cell, self.shelf, plan) for cell in cells), size)
            return
        # None leaves the choice to a surrounding joblib.parallel_config, and means one without it.
        parallel = joblib.Parallel(n_jobs=None if plan.jobs == 1 else plan.jobs, return_as="generator_unordered")
        calls = (joblib.delayed(execute)(self.experiment, self.spec.json, cell, self.shelf, plan) for cell in cells)
        self._say(cells, parallel(calls), size)  # type: ignore[arg-type]

    def _say(self, cells: list[Cell], finished: Iterable[tuple[str, float, list[str]]], size: "_Size") -> None:
        texts: list[str] = []
        for number, (text, seconds, notes) in enumerate(finished, start=1):
            self.report(f"{self.experiment.id} {self.spec.profile}: {number}/{len(cells)} {text} {seconds:.1f} s")
            for note in notes:
                self.report(f"  {note}")
            texts.append(text)
            if number & (number - 1) == 0 and number < len(cells):  # seldom: each time all rows are written anew
                size.refuse([table for text in texts if (table := self.table(json.loads(text))) is not None])


@dataclass(frozen=True, eq=False)
class _Size:
    """How large the result will be, from the cells that are finished."""

    spec: Spec | None
    tables: list[store.Table]
    known: int  # cells of this stage and of those before

    @staticmethod
    def unknown() -> "_Size":
        """For a process that keeps nothing."""
        return _Size(None, [], 0)

    def refuse(self, further: list[store.Table]) -> None:
        """Refuse to go on if the result will be too large, even if each cell that is left is half as large.

        Raises:
          ValueError: saying how large it is and will be.
        """
        if self.spec is None:
            return
        tables = [*self.tables, *further]
        columns = store.concatenate([table.columns for table in tables])
        size = store.size_of(columns)
        if size < _SAMPLE * store.MAX_RESULT_BYTES:
            return
        projected = size * self.known / len(tables)
        if (size + projected) / 2 > store.MAX_RESULT_BYTES:
            raise ValueError(
                f"Expected {store.result_stem(self.spec).name}.npz <= {format_bytes(store.MAX_RESULT_BYTES)}: "
                f"{len(tables)} of {self.known} cells fill {format_bytes(size)}, all of them some "
                f"{format_bytes(int(projected))}: let the cells return summaries instead of every number."
            )


def execute(experiment: Experiment, spec: str, cell: Cell, shelf: Shelf, plan: Plan) -> tuple[str, float, list[str]]:
    """Compute one cell and keep it. Cell and spec are copies, so that no cell can change another's."""
    text = canonical_json(cell, "cell")
    checkpoint = shelf.folder / f"{name_of(cell)}.pt"
    context = Context(plan.device, plan.memory_bytes, checkpoint=checkpoint, processes=plan.processes)
    notes = Notes.of(experiment.all_modules(), str(shelf.folder))  # those of the run, or of this process of several
    started = time.perf_counter()
    try:
        with allocator.kept_until_the_end():
            columns = store.as_columns(experiment.run_cell(Spec.from_json(spec), json.loads(text), context))
        if plan.processes.size > 1:
            _compare(plan.processes, columns)
    except Exception as error:
        error.add_note(f"in cell {text} of {experiment.id}")
        raise
    seconds = time.perf_counter() - started
    manifest = {
        "cell": json.loads(text),
        "seconds": round(seconds, 3),
        "environment": environment(plan.device),
        "processes": plan.processes.size,
        "chunking": [asdict(chunking) for chunking in context.chunking],
        "spent": context.spent,
        # Of the earlier cells of this process, too: what they left in a cache is not entered in this one.
        "functions": store.listed(notes.places),
    }
    if plan.processes.rank == 0:
        shelf.add(columns, manifest)
    return text, seconds, context.notes


# ---------------------------------------------------------------- device and memory
def resolve(device: str, experiment: Experiment, report: Callable[[str], None]) -> str:
    """The device that is meant, which the machine has."""
    import torch

    validate.one_of(("auto", "cpu", "cuda"), device=device)
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "Expected device='cuda' to have a GPU that torch can use: see dpnotes doctor, or take device='cpu'."
        )
    if experiment.cpu_only:
        if device == "cuda":
            report(f"{experiment.id} runs on the CPU: its cells have no use for a GPU.")
        return "cpu"
    return device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"


def memory_budget(folder: Path, device: str, limit: int | None, jobs: int, plans: Iterable[dict[str, Any]] = ()) -> int:
    """Bytes for the runs that one job holds at once.

    Kept with the cells: what is free differs from minute to minute, and a resumed run has to chunk as before. So a
    damaged plan is refused, where a damaged cell is computed again with a warning: its numbers come out the same.
    `plans` came with cells from elsewhere: theirs is taken where it answers the same question and there is room.
    """
    import psutil
    import torch

    path = folder / "plan.json"
    question = {"device": device, "limit": limit, "jobs": jobs}
    run = f"{folder.parent.name}/{folder.name}"
    if path.exists():
        try:
            plan = files.unsealed_json(path, run=run)
        except files.DamagedFileError as error:
            advice = "Delete it to plan again; what is left to compute may then differ in its last bits."
            raise files.DamagedFileError(f"{error} {advice}") from None
        if plan["question"] == question:
            return plan["memory_bytes"]
    held = 0
    if device == "cuda":
        free = torch.cuda.mem_get_info()[0]
    else:
        free = psutil.virtual_memory().available
        held = psutil.Process().memory_info().rss
    share = free // jobs if limit is None else min(limit // jobs - held, free // jobs)
    if share <= 0:
        raise MemoryError(
            f"Expected memory={format_bytes(limit or 0)} > {format_bytes(held * jobs)}, what {jobs} process(es) hold "
            "before the first run."
        )
    budget = int(_MARGIN * share)
    budget = next(
        (p["memory_bytes"] for p in plans if p["question"] == question and p["memory_bytes"] <= share), budget
    )
    files.write({path: files.sealed_json({"run": run, "question": question, "memory_bytes": budget})})
    return budget


@cache
def environment(device: str) -> dict[str, Any]:
    """What the numbers may depend on beside the code: versions, device, driver, threads."""
    import torch

    versions = {"python": platform.python_version(), "dpnotes": dpnotes.__version__}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    if device == "cuda":
        name = torch.cuda.get_device_name()
        query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        driver = (output(*query) or "").partition("\n")[0]
    else:
        name, driver = _processor(), ""
    return {"device": device, "name": name, "driver": driver, "threads": torch.get_num_threads(), "versions": versions}


def _processor() -> str:
    """Its name, and what else its sums go by: processors of one name may have other instructions."""
    import torch

    name, instructions = platform.processor() or platform.machine(), torch.backends.cpu.get_cpu_capability()
    if sys.platform == "linux":
        lines = (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
        facts = {key.strip(): value.strip() for key, _, value in lines}
        if "model name" in facts:
            name = f"{facts['model name']} (family {facts.get('cpu family')}, model {facts.get('model')})"
    return f"{name}, {instructions}"


# ---------------------------------------------------------------- the manifest
def _manifest(
    experiment: Experiment,
    fingerprint: Fingerprint,
    commit: dict[str, Any],
    tables: list[store.Table],
    decision: Decision,
    notes: Notes,
    jobs: int,
    seconds: float,
) -> dict[str, Any]:
    cells, chances = [table.manifest for table in tables], fingerprint.spec.chances
    rows = [len(next(iter(table.columns.values()))) for table in tables]
    functions = notes.places.union(*(store.unlisted(cell["functions"]) for cell in cells))
    key = fingerprint.key
    kept = parts.origin(fingerprint.spec, key, (cell.get("key", key) for cell in cells))
    return {
        "format": FORMAT,
        "key": key,
        **({"kept": kept} if kept else {}),
        "experiment": experiment.id,
        "title": experiment.title,
        "question": experiment.question,
        "unaccounted": list(experiment.unaccounted),
        "spec": json.loads(fingerprint.spec.json),
        "seed": fingerprint.spec.parameters.get("seed"),
        "modules": fingerprint.modules,
        "data": list(fingerprint.data),
        "decision": asdict(decision),
        "chances": asdict(chances) if chances else None,
        "cells": len(cells),
        "rows": sum(rows),
        "cell_rows": rows,
        "functions": store.listed(functions),
        "functions_cells": len(cells),
        "chunking": _counted(chunking for cell in cells for chunking in cell["chunking"]),
        "spent": _counted(event for cell in cells for event in cell["spent"]),
        "environments": _counted(cell["environment"] for cell in cells),
        "jobs": jobs,
        "processes": _counted({"processes": cell.get("processes", 1)} for cell in cells),
        **commit,
        "finished_at": now(),
        "cell_seconds": round(sum(cell["seconds"] for cell in cells), 3),
        "wall_seconds": round(seconds, 3),
    }


def commit_of(experiment: Experiment) -> dict[str, Any]:
    """The commit of the experiment's repository, or else of this package's; asked for before the work, as its code is.

    What the folder holds when the work is done may be another one.
    """
    top = find(experiment.run_cell.__module__.partition(".")[0])
    folders = [path.parent for path in (top, Path(dpnotes.__file__)) if path]
    commits = ((folder, head.strip()) for folder in folders if (head := git(folder, "rev-parse", "HEAD")))
    folder, commit = next(commits, (folders[-1], None))
    return {
        "git_commit": commit,
        "git_dirty": bool(git(folder, "status", "--porcelain", "--", ".")) if commit else None,
    }


def now() -> str:
    """The time, for a record."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _counted(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each different entry once, with how often it came."""
    counts = Counter(canonical_json(entry) for entry in entries)
    return [{**json.loads(text), "count": count} for text, count in counts.items()]


# ---------------------------------------------------------------- where things stand
@dataclass(frozen=True)
class Freshness:
    """Where one result stands.

    Args:
      experiment: `paper.name`.
      profile: of which the result is.
      state: "current", "stale", "missing", "damaged", or "partial" (some cells are finished and wait for the rest).
      reason: why it is not current, or by which code it is.
    """

    experiment: str
    profile: str
    state: str
    reason: str

    def __str__(self) -> str:
        return " ".join((self.experiment, self.profile, self.state, self.reason)).rstrip()


def status(experiments: Iterable[Experiment]) -> list[Freshness]:
    """Where the results of some experiments stand, by profile; loads no data and computes nothing."""
    return [_freshness(experiment, profile) for experiment in experiments for profile in experiment.specs]


def _freshness(experiment: Experiment, profile: str) -> Freshness:
    try:
        result = store.load(experiment, profile)
        state, reason = result.state, result.reason or result.pedigree
    except store.DamagedFileError as error:
        state, reason = "damaged", str(error)
    if state != "current":
        progress = Progress.of(experiment, Fingerprint.of(experiment, profile), _silent)
        finished, known, more = progress.count()
        reason = f"{reason}{parts.remark(progress.spec, progress.beside)}"
        if finished:
            reason = f"{finished} of {known}{' or more' if more else ''} cells finished; {state}: {reason}"
            state = "partial"
    return Freshness(experiment.id, profile, state, reason)
