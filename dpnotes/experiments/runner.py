"""Running an experiment: cell by cell, each kept as soon as it is finished, then one result with its manifest.

Cells go through joblib, or to the workers of a cluster (`cluster.workers`), which return records; this process keeps
them, so that no disk is shared. A shard of a run computes every n-th cell and leaves the others
to other machines. A run that was interrupted, by Ctrl-C, kill -9 or a full disk, goes on where it stopped and ends in
the same bytes.

Of processes that torchrun has started all compute the same cells, which share their work out. What is done next is rank
0's to say: it alone looks at what is kept, and keeps, stores and reports; the others compare what they found with it.
"""

import errno
import hashlib
import json
import platform
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from dpnotes.experiments import cells as cells_of
from dpnotes.experiments import store
from dpnotes.experiments.cells import Cells
from dpnotes.experiments.chunks import format_bytes, parse_memory
from dpnotes.experiments.provenance import code_of, commit_in_words, environment, now, source_hash
from dpnotes.experiments.records import Table, name_of
from dpnotes.experiments.spec import Cell, Context, Decision, Experiment, Report, Spec, alone, canonical_json
from dpnotes.util import allocator, validate

if TYPE_CHECKING:
    from dpnotes.experiments.cluster import Cluster
    from dpnotes.util.processes import Processes

_MARGIN = 0.8  # of the free memory is planned for: allocators round up, libraries keep buffers
# Threads of one process take turns: tracing a network, precision and warnings are settings of the whole process.
_ONE_CELL = threading.Lock()
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def run(
    experiment: Experiment,
    profile: str,
    *,
    device: str = "auto",
    memory: str | int | None = None,
    resume: bool = True,
    jobs: int = 1,
    shard: tuple[int, int] = (1, 1),
    cluster: "Cluster | None" = None,
    processes: "Processes | None" = None,
    report: Report = print,
) -> store.Result:
    """Compute a result, store it, and return it as `load` would.

    Args:
      experiment: what to run.
      profile: "quick", "cpu" or "paper", as far as the experiment has them.
      device: "cpu", "cuda", or "auto" for a GPU where there is one. An experiment that is `cpu_only` runs on the CPU.
      memory: a limit such as "4GB" on what all jobs together hold, of the GPU's memory where runs are on a GPU; None
        plans with most of what is free.
      resume: keep finished cells, whatever code computed them, and a result that is stored; otherwise start afresh.
      jobs: cells executed at once, in processes of their own if more than one.
      shard: (3, 16) computes every 16th cell from the third on.
      cluster: whose workers compute the cells (`cluster.workers`), in place of jobs here; or None.
      processes: that compute each cell together, and all call this; None: this one alone.
      report: called with one line at a time, by rank 0.

    Raises:
      ValueError: an unknown profile or device, jobs < 1, a malformed memory, a result over 1 MB; what several processes
        cannot do (`refuse`).
      MemoryError: one run needs more than the memory that there is.
      OthersWait: the cells of this shard are finished, and those of other shards are not here.
      ClusterError: workers or the scheduler died; finished cells are kept.
      ProcessLost: naming a process that differs in code, spec, versions or threads, died or hangs, or finds other
        numbers.
      KeyboardInterrupt: Ctrl-C; the message says what is finished and how to go on.
      OSError: a full disk among others; names the path, finished cells are kept.
    """
    from dpnotes.util.processes import ProcessLost

    experiment.spec(profile)
    validate.at_least(1, jobs=jobs)
    if not 1 <= shard[0] <= shard[1]:
        raise ValueError(f"Expected shard={shard} to be a number from 1 on and how many there are.")
    limit = None if memory is None else parse_memory(memory)
    processes = processes or alone()
    refuse(experiment, device, jobs, processes.size, shard)
    first = processes.rank == 0
    report = report if first else lambda line: None
    # Before anything is cleared or skipped: an argument that is refused must not have done so.
    device = "cpu" if processes.size > 1 else resolve(device, experiment, report)
    cells = Cells(experiment, profile, resume, code_of(experiment))
    _agree(processes, cells, device, {"memory": limit, "resume": resume})
    if resume and processes.gather_json(first and _is_stored(experiment, profile, report))[0]:
        return store.load(experiment, profile)
    store.check_folders(experiment)  # before hours of work
    if first and not resume:
        shutil.rmtree(cells.folder, ignore_errors=True)
        cells_of.remove(experiment, profile)
    if first:
        cells.discard_refused()
    started = time.perf_counter()
    try:
        jobs, worker_bytes = (cluster.jobs, cluster.worker_bytes) if cluster else (jobs, None)
        memory_plan = plan_memory(cells, device, limit, jobs * processes.size, worker_bytes) if first else {}
        cells.plan.update(processes.gather_json(memory_plan)[0])
        plan = RunPlan(device, cells.plan["memory_bytes"], jobs, processes, shard, cluster is not None)
        tables = _finish(cells, plan, report, cluster)
        if first:
            columns = store.concatenate([table.columns for table in tables])
            decision = experiment.decide(store.frame_of(columns), experiment.spec(profile))
            manifest = _manifest(cells, tables, decision, jobs, time.perf_counter() - started)
            store.write_table(store.result_stem(experiment, profile), columns, manifest)
            store.settle(experiment, profile)
            cells_of.remove(experiment, profile)
            report(f"{experiment.id} {profile}: {decision}")
        processes.gather_json("stored")  # nobody leaves before
    except KeyboardInterrupt:
        report(message := f"Interrupted. {cells.kept()}")
        raise KeyboardInterrupt(message) from None
    except ProcessLost:
        report(cells.kept())
        raise
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        message = f"No space left while writing {error.filename}. Make room; {cells.kept()}"
        raise OSError(error.errno, message, error.filename) from error
    return store.load(experiment, profile)


def _is_stored(experiment: Experiment, profile: str, report: Report) -> bool:
    try:
        result = store.load(experiment, profile)
    except store.DamagedFileError as error:
        report(f"{error.__cause__} It is made again.")
        return False
    if result.state == "stored":
        cells_of.remove(experiment, profile)  # a run that was killed at its very end leaves them
        how = f"dpnotes verify {experiment.id} compares it with today's code, --no-resume computes it again"
        report(f"{experiment.id} {profile}: stored, {result.computed}; {how}.")
    return result.state == "stored"


# ---------------------------------------------------------------- several processes
def refuse(experiment: Experiment, device: str, jobs: int, num_processes: int, shard: tuple[int, int] = (1, 1)) -> None:
    """Refuse what several processes cannot do.

    Raises:
      ValueError: in more than one process, an experiment that is not `distributed`, several jobs, a shard, or a GPU.
    """
    several = f"in {num_processes} processes, which share every cell out"
    how = "(--jobs computes several cells at once)"
    refused = {
        f"one process: {experiment.id} does not share its work out; run it without torchrun {how}":
            not experiment.distributed,
        f"jobs={jobs} to be 1 {several}": jobs > 1,
        f"no shard {shard[0]}/{shard[1]} {several}": shard[1] > 1,
        f"device={device!r} to be 'cpu' or 'auto' {several}": device not in ("auto", "cpu"),
    }  # fmt: skip
    for expected, refuses in refused.items():
        if num_processes > 1 and refuses:
            raise ValueError(f"Expected {expected}.")


def _agree(processes: "Processes", cells: Cells, device: str, arguments: dict[str, Any]) -> None:
    """Refuse processes in which something differs that decides what is computed, or its bits."""
    if processes.size == 1:
        return
    from dpnotes.util.processes import agree

    here, experiment = environment(device), cells.experiment
    facts = {"experiment": experiment.id, "profile": cells.profile, **arguments}
    facts |= {"spec and data": experiment.identity(cells.profile)[:16], "source": cells.code["source"][:16]}
    agree(processes, {**facts, **here["versions"], "threads": here["threads"], "processor": here["name"]})


def _compare(processes: "Processes", columns: dict[str, Any]) -> None:
    """Refuse processes that found other columns, to the bit, than rank 0."""
    from dpnotes.util.processes import agree

    digests = {name: hashlib.sha256(f"{c.dtype}{c.shape}".encode() + c.tobytes()) for name, c in columns.items()}
    agree(processes, {f"the sha256 of column {name}": each.hexdigest()[:16] for name, each in digests.items()})


# ---------------------------------------------------------------- cells
@dataclass(frozen=True)
class RunPlan:
    """The device, memory and number of parallel jobs with which cells are executed, and which of them here."""

    device: str
    memory_bytes: int
    jobs: int
    processes: "Processes" = field(default_factory=alone)
    shard: tuple[int, int] = (1, 1)
    elsewhere: bool = False  # whether jobs run on other machines


@dataclass(frozen=True)
class Computed:
    """A computed cell: its columns and manifest, which its caller keeps, and the notes to report."""

    columns: dict[str, Any]
    manifest: dict[str, Any]
    notes: list[str]


class OthersWait(Exception):
    """The cells of this shard are finished, and those of other shards are not here yet."""


def _finish(cells: Cells, plan: RunPlan, report: Report, cluster: "Cluster | None" = None) -> list[Table]:
    """Tables of all cells of all stages, in order; what is not kept already is computed. Rank 0 alone has any."""
    import joblib

    tables: list[Table] = []
    label, processes = f"{cells.experiment.id} {cells.profile}", plan.processes
    for sentence in cells.damage() if processes.rank == 0 else ():
        report(f"Warning: {sentence} Its cells are computed again.")
    for stage in range(1 + len(cells.experiment.stages)):
        if processes.rank > 0:
            for cell in processes.gather_json([])[0]:
                execute(cells, cell, plan)
            continue
        listed = cells.listed(stage, tables)
        finished = cells.finished()
        own, among = plan.shard
        waiting = [cell for cell in listed[own - 1 :: among] if name_of(cell) not in finished]
        processes.gather_json(waiting)
        if before := [finished[name_of(cell)].header for cell in listed if name_of(cell) in finished]:
            report(f"{label}: {len(before)} of {len(listed)} cells were finished before{_by_other_code(cells, before)}")
        if cluster:
            work = cluster.results(execute, ((cells, cell, plan) for cell in waiting))
        else:
            # None leaves the choice to a surrounding joblib.parallel_config, and means one without it.
            parallel = joblib.Parallel(n_jobs=None if plan.jobs == 1 else plan.jobs, return_as="generator_unordered")
            work = parallel(joblib.delayed(execute)(cells, cell, plan) for cell in waiting)
        for number, done in enumerate(work, start=1):
            cells.add(done.columns, done.manifest)
            text, seconds = canonical_json(done.manifest["cell"]), done.manifest["seconds"]
            progress = f"{label}: {number}/{len(waiting)} {text} {seconds:.1f} s"
            report("\n  ".join([progress, *done.notes]))
            if number & (number - 1) == 0 and number < len(waiting):  # seldom: each time all rows are written anew
                so_far = [record.table.columns for record in cells.finished().values()]
                store.compressed(cells.experiment.id, store.concatenate(so_far))  # refuses what is too large already
        finished = cells.finished()
        if missing := sum(name_of(cell) not in finished for cell in listed):
            raise OthersWait(f"{label}: shard {own}/{among} is finished; {missing} cells of other shards are not here.")
        tables += [finished[name_of(cell)].table for cell in listed]
    return tables


def _by_other_code(cells: Cells, headers: list[dict[str, Any]]) -> str:
    """In words, which other code computed some of the cells: the one thing to know before going on from them."""
    others = {commit_in_words(header) for header in headers if header.get("source") != cells.code["source"]}
    return f" (some at {', '.join(sorted(others))}, by other code; --no-resume starts afresh)" if others else ""


def execute(cells: Cells, cell: Cell, plan: RunPlan) -> Computed:
    """Compute one cell, for the caller to keep. Cell and spec are copies, so that no cell can change another's."""
    if plan.elsewhere and source_hash() != cells.code["source"]:
        where = f"on {platform.node()} to be that of the machine that runs {cells.experiment.id}"
        raise ValueError(f"Expected the source of dpnotes {where}: results name one code.")
    # A checkpoint is of this code: a cell that other code began is begun again.
    checkpoint = cells.folder / f"{name_of(cell)}-{cells.code['source'][:12]}.pt"
    context = Context(plan.device, plan.memory_bytes, checkpoint=checkpoint, processes=plan.processes)
    with _ONE_CELL:
        if plan.elsewhere and plan.device == "cpu":
            _refuse_a_small_worker(plan.memory_bytes)
        started = time.perf_counter()
        columns = compute(cells.experiment, cells.spec, cell, context)
    if plan.processes.size > 1:
        _compare(plan.processes, columns)
    seconds = time.perf_counter() - started
    manifest = {
        "cell": json.loads(canonical_json(cell)), "seconds": round(seconds, 3), "environment": environment(plan.device),
        "processes": plan.processes.size, "chunking": [asdict(chunking) for chunking in context.chunking],
        "spent": context.spent,
    }  # fmt: skip
    return Computed(columns, manifest, context.notes)


def _refuse_a_small_worker(wanted: int) -> None:
    """Raise a MemoryError if this machine has less memory than the runs were planned for on another one."""
    import psutil

    if wanted > (free := psutil.virtual_memory().available):
        raise MemoryError(
            f"Expected {format_bytes(wanted)} to be free on {platform.node()}, which has {format_bytes(free)}: "
            "give --memory for all jobs together."
        )


def compute(experiment: Experiment, spec: Spec, cell: Cell, context: Context) -> dict[str, Any]:
    """The columns of one cell; an error says in which."""
    text = canonical_json(cell, "cell")
    try:
        with allocator.kept_until_the_end():
            return store.as_columns(experiment.run_cell(Spec.from_json(spec.json), json.loads(text), context))
    except SystemExit as error:  # for which a worker's thread would end, and its head wait
        raise RuntimeError(f"Expected a cell that returns, not one that exits with {error.code}: {text}.") from None
    except Exception as error:
        error.add_note(f"in cell {text} of {experiment.id}")
        raise


# ---------------------------------------------------------------- device and memory
def resolve(device: str, experiment: Experiment, report: Report = lambda line: None) -> str:
    """The device that is meant, which the machine has."""
    validate.one_of(("auto", "cpu", "cuda"), device=device)
    if device == "cuda" and not has_gpu(device):
        raise ValueError("Expected device='cuda' to have a GPU that torch can use: see dpnotes doctor.")
    if experiment.cpu_only and device == "cuda":
        report(f"{experiment.id} runs on the CPU: its cells have no use for a GPU.")
    return "cuda" if not experiment.cpu_only and has_gpu(device) else "cpu"


def has_gpu(device: str) -> bool:
    """Return whether a GPU is requested and present."""
    import torch

    return device != "cpu" and torch.cuda.is_available()


def plan_memory(
    cells: Cells, device: str, limit: int | None, jobs: int, worker_bytes: int | None = None
) -> dict[str, Any]:
    """The bytes for the runs that one job holds at once, and the question that they answer.

    A resumed run has to chunk as before, while what is free differs from minute to minute: the plan of finished cells
    is taken where it answers the same question and there is room.
    """
    question = {"device": device, "limit": limit, "jobs": jobs}
    if worker_bytes is None:
        share = free_memory(device, limit, jobs)[1]
    else:
        share = worker_bytes if limit is None else min(limit // jobs, worker_bytes)
    plans = [record.header.get("plan") for record in cells.finished().values()]
    same = [plan for plan in plans if plan and plan["question"] == question and plan["memory_bytes"] <= share]
    return same[0] if same else {"question": question, "memory_bytes": int(_MARGIN * share)}


def free_memory(device: str, limit: int | None = None, jobs: int = 1) -> tuple[int, int]:
    """Bytes that a job may plan with, and its share of what is free.

    Raises:
      MemoryError: the limit is below what the processes hold already.
    """
    import psutil
    import torch

    gpu = device == "cuda"
    free = torch.cuda.mem_get_info()[0] if gpu else psutil.virtual_memory().available
    held = 0 if gpu else psutil.Process().memory_info().rss
    share = free // jobs if limit is None else min(limit // jobs - held, free // jobs)
    if share <= 0:
        raise MemoryError(
            f"Expected memory={format_bytes(limit or 0)} > {format_bytes(held * jobs)}, what {jobs} process(es) hold "
            "before the first run."
        )
    return int(_MARGIN * share), share


# ---------------------------------------------------------------- the manifest
def _manifest(cells: Cells, tables: list[Table], decision: Decision, jobs: int, seconds: float) -> dict[str, Any]:
    experiment, spec = cells.experiment, cells.experiment.spec(cells.profile)
    parts = [table.manifest for table in tables]
    codes = {canonical_json(part["code"]): part["code"] for part in parts}
    header = {name: value for name, value in cells.header.items() if name not in ("pending", "plan")}
    return {
        "format": store.FORMAT, **header, "identity": experiment.identity(cells.profile), "codes": list(codes.values()),
        "title": experiment.title, "question": experiment.question, "unaccounted": list(experiment.unaccounted),
        "seed": spec.parameters.get("seed"), "decision": asdict(decision),
        "rule": experiment.rule_record(cells.profile), "chances": asdict(spec.chances) if spec.chances else None,
        "cells": len(parts), "rows": sum(table.rows for table in tables), "cell_rows": [table.rows for table in tables],
        "cell_seconds_each": [part["seconds"] for part in parts],
        "chunking": _counted(chunking for part in parts for chunking in part["chunking"]),
        "spent": _counted(event for part in parts for event in part["spent"]),
        "environments": _counted(part["environment"] for part in parts), "jobs": jobs,
        "processes": _counted({"processes": part.get("processes", 1)} for part in parts), "finished_at": now(),
        "cell_seconds": round(sum(part["seconds"] for part in parts), 3), "wall_seconds": round(seconds, 3),
        "agreed": [],
    }  # fmt: skip


def _counted(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each different entry once, with how often it came."""
    counts = Counter(canonical_json(entry) for entry in entries)
    return [{**json.loads(text), "count": count} for text, count in counts.items()]


# ---------------------------------------------------------------- where things stand
@dataclass(frozen=True)
class Standing:
    """The standing of one result.

    Args:
      experiment: `paper.name`.
      profile: of which the result is.
      state: "stored", "disputed", "mismatched", "missing", "damaged", or "partial" (some cells are finished).
      reason: at which commit it was computed and last agreed, or why it is not stored.
      unverified: commits since it was computed or last agreed; None if git does not know.
    """

    experiment: str
    profile: str
    state: str
    reason: str
    unverified: int | None = None


def status(experiments: Iterable[Experiment]) -> list[Standing]:
    """The standing of the results of some experiments, by profile; loads no data and computes nothing."""
    return [_standing(experiment, profile) for experiment in experiments for profile in experiment.specs]


def _standing(experiment: Experiment, profile: str) -> Standing:
    try:
        result = store.load(experiment, profile)
        state, reason = result.state, result.reason
        if result.is_shown:
            facts = [reason, result.computed, result.agreed]
            return Standing(experiment.id, profile, state, "; ".join(filter(None, facts)), result.unverified)
    except store.DamagedFileError as error:
        state, reason = "damaged", str(error)
    cells = Cells(experiment, profile)
    if counted := cells.counted():
        beside = len(cells.beside.by_name())
        kept = f"; {beside} of them kept beside the results" if beside else ""
        state, reason = "partial", f"{counted} finished; {state}: {reason}{kept}"
    return Standing(experiment.id, profile, state, "; ".join([reason, *cells.damage()]))
