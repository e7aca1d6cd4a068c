"""Sampled reruns: cells of stored results, run with today's code, have to give the numbers that are stored.

On the processor, with the instructions, threads and versions of the result all bits have to be the same; so cells are
run in a child process with those instructions and threads. Elsewhere sums are taken in another order: floats may differ
by what the experiment states for their column (`Experiment.tolerances`), everything else has to be equal. What a
commit changes on purpose stands in results/PENDING.md until it is run again.
"""

import math
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpnotes.experiments import runner, store
from dpnotes.experiments.provenance import code_of, environment, now, same_machine, variables_for
from dpnotes.experiments.records import Table, name_of
from dpnotes.experiments.spec import Cell, Context, Experiment, Report, canonical_json
from dpnotes.util.validate import Positive, checked


@dataclass(frozen=True)
class Sample:
    """One cell of a stored result, by its number, and the seconds that its last rerun, or else its run, took."""

    experiment: Experiment
    profile: str
    number: int
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.experiment.id} {self.profile} cell {self.number}"


@dataclass(frozen=True)
class Rerun:
    """The outcome of running one cell again.

    Args:
      sample: which cell.
      cell: its content.
      seconds: that it took.
      differences: what differs by more than it may, a line each.
      largest: by which part of itself a float differs that may; 0 if all bits are the same.
      skipped: columns whose floats are not comparable on this processor.
    """

    sample: Sample
    cell: Cell
    seconds: float
    differences: tuple[str, ...]
    largest: float
    skipped: tuple[str, ...]


# ---------------------------------------------------------------- which cells
def cells_in(result: store.Result) -> list[list[Cell]]:
    """The cells of a stored result, by stage: later stages are listed from the stored rows of the earlier ones.

    Raises:
      ValueError: today's experiment lists another number of cells.
    """
    experiment, spec = result.experiment, result.experiment.computing(result.spec.profile)
    starts, stages = _starts(result), [experiment.cells(spec)]
    for stage in experiment.stages:
        stages.append(stage(spec, result.frame.iloc[: starts[sum(map(len, stages))]]))
    if (count := sum(map(len, stages))) != result.manifest["cells"]:
        raise ValueError(f"Expected {experiment.id} to list the {result.manifest['cells']} stored cells, not {count}.")
    return stages


def _starts(result: store.Result) -> list[int]:
    return [0, *np.cumsum(result.manifest["cell_rows"], dtype=int).tolist()]


def in_order(cells: Sequence[Cell], generator: random.Random) -> tuple[list[int], list[int]]:
    """Numbers of cells that have each level of every factor among them, and of the others, in a random order.

    Which `repeats` a cell has is no factor: it says which runs the cell computes at once.

    >>> cells = [{"arm": arm, "repeat": repeat} for arm in "ab" for repeat in range(3)]
    >>> some, others = in_order(cells, random.Random(0))
    >>> len(some), len(others)
    (3, 3)
    """
    levels = [{(name, canonical_json(of)) for name, of in cell.items() if name != "repeats"} for cell in cells]
    others, chosen = generator.sample(range(len(cells)), len(cells)), list[int]()
    missing = set[tuple[str, str]]().union(*levels)
    while others and (missing or not chosen):
        best = max(others, key=lambda number: len(missing & levels[number]))
        others.remove(best)
        chosen.append(best)
        missing -= levels[best]
    return chosen, others


def samples_of(result: store.Result, seed: str) -> tuple[list[Sample], list[Sample]]:
    """The cells of a result in an order drawn by the seed: those of each stage that show all its levels; the others."""
    generator, first = random.Random(f"{seed} {result.experiment.id}"), 0
    some, others = list[Sample](), list[Sample]()
    for cells in cells_in(result):
        for numbers, samples in zip(in_order(cells, generator), (some, others), strict=True):
            samples += [_sample(result, first + number, cells[number]) for number in numbers]
        first += len(cells)
    generator.shuffle(some)
    return some, others


def _sample(result: store.Result, number: int, cell: Cell) -> Sample:
    """The sample of one cell; the mean time of all cells stands for a time that is not on record."""
    manifest = result.manifest
    each = manifest.get("cell_seconds_each") or [manifest["cell_seconds"] / manifest["cells"]] * manifest["cells"]
    agreed = manifest.get("agreed", [])
    known = {name: took for one in agreed for name, took in zip(one["cells"], one.get("seconds", ()), strict=False)}
    return Sample(result.experiment, result.spec.profile, number, known.get(name_of(cell), each[number]))


# ---------------------------------------------------------------- running them again
class Children:
    """Child processes that run cells again, one for each set of instructions and threads that results need."""

    def __init__(self) -> None:
        self._executors: dict[tuple[tuple[str, str], ...], Any] = {}

    def __enter__(self) -> "Children":
        return self

    def __exit__(self, *error: object) -> None:
        for executor in self._executors.values():
            executor.shutdown(kill_workers=True)

    def run(self, sample: Sample, device: str = "auto") -> Rerun:
        """Run one cell again, and compare it with what is stored."""
        from joblib.externals.loky.process_executor import ProcessPoolExecutor

        stored = store.load(sample.experiment, sample.profile).manifest["environments"][0]
        variables = variables_for(stored, environment("cpu")["name"])
        key = tuple(sorted(variables.items()))
        if key not in self._executors:
            self._executors[key] = ProcessPoolExecutor(max_workers=1, env=variables)
        return self._executors[key].submit(compare, sample, device).result()


def compare(sample: Sample, device: str = "auto") -> Rerun:
    """Run one cell again, here, and compare it with what is stored."""
    experiment, result = sample.experiment, store.load(sample.experiment, sample.profile)
    cell = [cell for cells in cells_in(result) for cell in cells][sample.number]
    device = runner.resolve(device, experiment)
    started = time.perf_counter()
    spec, context = experiment.computing(sample.profile), Context(device, runner.free_memory(device)[0])
    columns = runner.compute(experiment, spec, cell, context)
    seconds = time.perf_counter() - started
    here = environment(device)
    exact = all(same_machine(each, here) for each in result.manifest["environments"])
    start, end = _starts(result)[sample.number : sample.number + 2]
    stored = Table({name: result.frame[name].to_numpy()[start:end] for name in result.frame}, {})
    where = f"{sample} {cell}"
    differences, largest, skipped = _compared(experiment, where, stored, Table(columns, {}), exact)
    others = [event for event in context.spent if not _recorded(event, result.manifest["spent"], exact)]
    differences += tuple(f"{where}: the stored privacy events do not include {event}" for event in others)
    return Rerun(sample, cell, seconds, differences, largest, skipped)


def _recorded(event: dict[str, Any], stored: list[dict[str, Any]], exact: bool) -> bool:
    """Return whether a manifest has a privacy event; elsewhere than on its processor, with floats within 10^-9.

    >>> stored = [{"mechanism": "gaussian", "rho": 0.125, "count": 4}]
    >>> rhos = (0.125, 0.125 + 1e-12, 0.126)
    >>> [_recorded({"mechanism": "gaussian", "rho": rho}, stored, exact=False) for rho in rhos]
    [True, True, False]
    """

    def same(one: Any, other: Any) -> bool:
        close = isinstance(one, float) and isinstance(other, float) and math.isclose(one, other, rel_tol=1e-9)
        return one == other or (close and not exact)

    alike = [known for known in stored if {*known} == {*event, "count"}]
    return any(all(same(value, known[name]) for name, value in event.items()) for known in alike)


# Differences, the largest allowed one, and the columns that were skipped.
_Compared = tuple[tuple[str, ...], float, tuple[str, ...]]


def _compared(experiment: Experiment, where: str, stored: Table, now: Table, exact: bool) -> _Compared:
    lines, largest, skipped = list[str](), 0.0, list[str]()
    if {*stored.columns} != {*now.columns}:
        lines.append(f"{where}: stored columns {', '.join(stored.columns)}, now {', '.join(now.columns)}")
    elif stored.rows != now.rows:
        lines.append(f"{where}: stored {stored.rows} rows, now {now.rows}")
    for name, before in stored.columns.items() if not lines else ():
        off = _parts_off(before, now.columns[name])
        tolerance = 0.0 if exact else experiment.tolerance(name)
        if tolerance is None and before.dtype.kind == "f":
            if off.any():
                skipped.append(name)
        elif (wrong := np.flatnonzero(off > (tolerance or 0.0))).size:
            more = f"; and {wrong.size - 1} more rows" if wrong.size > 1 else ""
            values = f"stored {before[wrong[0]]!r}, now {now.columns[name][wrong[0]]!r}"
            lines.append(f"{where}, column {name!r}, row {wrong[0]}: {values}{more}")
        else:
            largest = max(largest, float(off.max(initial=0.0)))
    return tuple(lines), largest, tuple(skipped)


def _parts_off(stored: np.ndarray, now: np.ndarray) -> np.ndarray:
    """By which part of the stored number each entry is off; infinite where it has to be equal and is not.

    What is left of numbers that cancel is rounding: the part is of a millionth of the largest number, if that is more.

    >>> _parts_off(np.array([1.0, np.nan, 0.0, np.inf]), np.array([1.5, np.nan, -0.0, 1.0]))
    array([0.5, 0. , inf, inf])
    >>> _parts_off(np.array([1.0, 3e-14]), np.array([1.0, 4e-14])).round(10)
    array([0.e+00, 1.e-08])
    >>> _parts_off(np.array([1, 2]), np.array([1, 3]))
    array([ 0., inf])
    """
    if stored.dtype.kind != "f" or now.dtype.kind not in "fiu":  # other cells' floats made this one's integers floats
        return np.where(np.asarray(stored == now), 0.0, np.inf)
    one, other = stored.astype(np.float64), now.astype(np.float64)
    same = (one.view(np.int64) == other.view(np.int64)) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = np.abs(one - other) / np.maximum(np.abs(one), 1e-6 * np.abs(one[np.isfinite(one)]).max(initial=0.0))
    return np.where(same, 0.0, np.where(np.isfinite(parts) & (parts > 0), parts, np.inf))


# ---------------------------------------------------------------- dpnotes verify
@dataclass(frozen=True)
class Agreement:
    """The outcome of verifying one result: the number of cells that agreed, and the differences."""

    result: store.Result
    cells: int
    differences: tuple[str, ...]

    def __str__(self) -> str:
        label = f"{self.result.experiment.id} {self.result.spec.profile}"
        if self.differences:
            return f"{label}: {'disputed' if self.result.state == 'disputed' else 'different'}"
        return f"{label}: {self.cells} of {self.result.manifest['cells']} cells agree"


@checked
def verify(
    pairs: Iterable[tuple[Experiment, str]],
    *,
    minutes: Positive | None = None,
    write: bool = False,
    device: str = "auto",
    report: Report = print,
) -> list[Agreement]:
    """Run cells of stored results again, of each at least one for every level of every factor.

    Results that nobody has verified for longest come first.

    Args:
      pairs: experiments and profiles.
      minutes: begin no cell that is not expected to end by then; None has no limit.
      write: put agreement on record in the manifests: commit, date, processor, cells and the largest difference.
      device: as in `run`.
      report: called with one line at a time.

    Raises:
      ValueError: minutes that are not above 0.
      DamagedFileError: a stored file is not what was written.
    """
    deadline = float("inf") if minutes is None else time.monotonic() + 60 * minutes
    results = [store.load(*pair) for pair in pairs]
    waiting = [(result.unverified, result) for result in results if result.is_shown]
    found = list[Agreement]()
    with Children() as children:
        for _, result in sorted(waiting, key=lambda pair: -(10**9 if pair[0] is None else pair[0])):
            found.append(_verify(result, children, deadline, write, device, report))
            report(str(found[-1]))
    return found


def _verify(
    result: store.Result, children: Children, deadline: float, write: bool, device: str, report: Report
) -> Agreement:
    code, done = code_of(result.experiment), list[Rerun]()
    some, _ = samples_of(result, f"{code['git_commit'] or now()}")
    for sample in some:
        if time.monotonic() + sample.seconds > deadline:
            continue  # a shorter one may fit
        outcome = children.run(sample, device)
        report(f"{sample} {canonical_json(outcome.cell)} {outcome.seconds:.1f} s")
        for line in outcome.differences:
            report(f"  differs: {line} ({result.agreed})")
        if outcome.skipped:
            report(f"  not comparable on this processor: {', '.join(outcome.skipped)}")
        done.append(outcome)
    differences = tuple(line for outcome in done for line in outcome.differences)
    if write and done and not differences:
        record = {
            **code, "finished_at": now(), "environment": environment(runner.resolve(device, result.experiment)),
            "cells": [name_of(outcome.cell) for outcome in done],
            "seconds": [round(outcome.seconds, 1) for outcome in done],
            "largest": max(outcome.largest for outcome in done),
            "skipped": sorted({name for outcome in done for name in outcome.skipped}),
        }  # fmt: skip
        agreed = [*result.manifest.get("agreed", []), record]
        stem = store.result_stem(result.experiment, result.spec.profile)
        store.write_manifest(stem, result.manifest | {"agreed": agreed})
    return Agreement(result, len(done), differences)
