"""Verifying a result: some of its cells are run again with today's code, and have to give the numbers that are stored.

The cells are at least one for each level of every factor and every stage, in an order that the code's key draws; then
further ones, until every function that changed and that a full run enters was entered. A full run keeps the list of
what it enters in its manifest. Where that cannot tell (the function is new, or the list is of some cells only), a
function counts if the code that was entered names it. If all cells were run, what none of them enters does not count.

Cells that are kept beside the results (`parts`) are verified in the same way, as if they were all there are.

Integers, labels, statuses and the decision have to be equal, and floats to the bit with the versions and on the device
of the result. Elsewhere sums are taken in another order, and floats have to be equal up to 1e-9 of themselves, and to
`tolerances` of the spec, which says by column how far off a float may be; the manifest then says so.
"""

import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from dpnotes import validate
from dpnotes.experiments import parts, runner, store
from dpnotes.experiments.cells import best, packed
from dpnotes.experiments.chunks import parse_memory
from dpnotes.experiments.entered import Notes
from dpnotes.experiments.functions import Code, Place, changed
from dpnotes.experiments.sources import Fingerprint, code_at, in_words, is_here, records
from dpnotes.experiments.spec import Cell, Decision, Experiment, Spec, canonical_json

# They are read by torch, its convolutions (oneDNN), numpy, and numpy's matrix products (OpenBLAS), in this order.
_AVX2 = (
    'ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR" '
    "OPENBLAS_CORETYPE=Zen"
)
_ROUNDING = 1e-9  # of a number: far above what float64 loses, far below what anyone reads off a result


@dataclass(frozen=True)
class Verification:
    """What came of it.

    Args:
      state: "current" (nothing had to be run), "verified", "different", or "stale" (not all that counts was run).
      lines: what differs, or what was not run.
    """

    state: Literal["current", "verified", "different", "stale"]
    lines: tuple[str, ...] = ()


def verify(
    experiment: Experiment,
    profile: str,
    *,
    seconds: float | None = None,
    device: str = "auto",
    memory: str | int | None = None,
    report: Callable[[str], None] = print,
) -> Verification:
    """Make a result current whose code changed, if its numbers did not.

    Finished cells are kept, as those of `run` are: what was interrupted goes on where it stopped.

    Args:
      experiment: whose result.
      profile: "quick", "cpu" or "paper".
      seconds: begin no cell after so long; None has no limit.
      device: as in `run`.
      memory: as in `run`.
      report: called with one line at a time.

    Raises:
      ValueError: there is no result, its spec or data changed, or it is not known what its code was.
      DamagedFileError: a stored file is not what was written.
    """
    if seconds is not None:
        validate.positive(seconds=seconds)
    limit = None if memory is None else parse_memory(memory)
    device = runner.resolve(device, experiment, report)
    result, fingerprint = store.load(experiment, profile), Fingerprint.of(experiment, profile)
    commit = runner.commit_of(experiment)
    if result.state == "missing" or {*result.changes} - {"code"}:
        raise ValueError(f"Expected {experiment.id} {profile} to be stale by its code alone: {result.reason}")
    if result.state == "current":
        same = [record for record in records(result.manifest) if record["key"] == fingerprint.key]
        is_lost = not any(is_here(experiment.run_cell.__module__, record["git_commit"]) for record in same)
        if not same or is_lost and commit["git_dirty"] is False:
            _write(result, fingerprint, commit, None)  # from now on without git, or with a commit that it knows
        report(f"{experiment.id} {profile}: current, nothing to do.")
        return Verification("current")
    codes = [code_at(record, fingerprint.sources) for record in records(result.manifest)]
    then = next((code for code in codes if isinstance(code, Code)), None)
    if then is None:
        raise ValueError(f"Expected the code of {experiment.id} {profile} to be known: {result.reason}")
    progress = runner.Progress.of(experiment, fingerprint, report, commit, kept=False)
    table = store.read_table(store.result_stem(result.spec))
    assert table is not None
    again = _Again(result, table.columns, progress, device, limit, seconds)
    found = again.verification(then, fingerprint)
    if not found.lines:
        _write(result, fingerprint, commit, again)
        report(f"{experiment.id} {profile}: {store.load(experiment, profile).pedigree}")
    return found


def verify_kept(
    experiment: Experiment,
    profile: str,
    *,
    seconds: float | None = None,
    device: str = "auto",
    memory: str | int | None = None,
    report: Callable[[str], None] = print,
) -> Verification | None:
    """Make the cells that are kept beside the results current: those of one code, the most there are.

    Args:
      experiment: whose cells.
      profile: "quick", "cpu" or "paper".
      seconds: as in `verify`.
      device: as in `run`.
      memory: as in `run`.
      report: called with one line at a time.

    Returns:
      None if no cells are kept that are of this spec and these data.

    Raises:
      ValueError: it is not known what their code was.
      DamagedFileError: a kept file is not what was written.
    """
    if seconds is not None:
        validate.positive(seconds=seconds)
    limit = None if memory is None else parse_memory(memory)
    device = runner.resolve(device, experiment, report)
    spec, fingerprint = experiment.spec(profile), Fingerprint.of(experiment, profile)
    every, current = parts.shelf(spec, None), parts.shelf(spec, fingerprint.key)
    abouts = [each for each in every.abouts.values() if not {*fingerprint.changes(each)} - {"code"}]
    groups = {each["key"]: parts.shelf(spec, each["key"]) for each in abouts}
    if not any(shelf.all_places() for shelf in groups.values()):
        return None
    here = current.all_places()
    waiting = {key: there for key, shelf in groups.items() if (there := shelf.all_places()).keys() - here.keys()}
    if not waiting:
        report(f"{experiment.id} {profile}: the {len(here)} cells that are kept are current, nothing to do.")
        return Verification("current")
    codes = {key: code_at(next(each for each in abouts if each["key"] == key), fingerprint.sources) for key in waiting}
    known = {key: code for key, code in codes.items() if isinstance(code, Code)}
    if not known:
        why = next(iter(codes.values()))
        raise ValueError(f"Expected the code of the kept cells of {experiment.id} {profile} to be known: {why}")
    most = max(known, key=lambda key: (len(waiting[key]), key))
    kept, then = waiting[most], known[most]
    commit = runner.commit_of(experiment)
    progress = runner.Progress.of(experiment, fingerprint, report, commit, kept=False)
    tables = [best(kept[name])[1] for name in sorted(kept)]
    again = _Again(*_as_a_result(experiment, spec, tables), progress, device, limit, seconds)
    found = again.verification(then, fingerprint)
    if not found.lines:
        cells = [again.cells[number] for number in sorted(again.compared)]
        equal = {key for one in (most, fingerprint.key) for key in parts.equal_keys(every.abouts.values(), one)}
        rounding = _ROUNDING if again.rounded else 0.0
        body = {"equal": sorted(equal), "verified_cells": cells, "rounding": rounding, "finished_at": runner.now()}
        parts.write(spec, packed({}, parts.about(experiment, fingerprint, commit) | body))
        words = f"the same numbers{store.up_to(rounding)}"
        report(f"{experiment.id} {profile}: {len(cells)} of {len(kept)} kept cells run again, {words}")
    return found


def _as_a_result(
    experiment: Experiment, spec: Spec, tables: list[store.Table]
) -> tuple[store.Result, dict[str, np.ndarray]]:
    """The cells that there are, as the result of an experiment that has no others and no rule; and its columns."""
    decision = Decision("undecided", "not all cells are finished")
    whole = replace(
        experiment,
        cells=lambda _: [table.manifest["cell"] for table in tables],
        decide=lambda *_: decision,
        stages=(),
        modules=experiment.all_modules(),
    )
    rows = [len(next(iter(table.columns.values()))) for table in tables]
    manifest = {
        "cells": len(tables),
        "rows": sum(rows),
        "cell_rows": rows,
        "decision": asdict(decision),
        "environments": [table.manifest["environment"] for table in tables],
        "functions": store.listed(set().union(*(store.unlisted(table.manifest["functions"]) for table in tables))),
        "functions_cells": len(tables),
    }
    columns = store.concatenate([table.columns for table in tables])
    return store.Result(whole, spec, store.frame_of(columns), manifest, "stale", {}, decision), columns


# ---------------------------------------------------------------- cells
def in_order(cells: list[Cell], seed: str) -> tuple[list[int], list[int]]:
    """Numbers of cells: those that have each level of every factor among them, and the others.

    Which `repeats` a cell has is no factor: the list says which runs it computes at once, and may differ from cell to
    cell.

    >>> some, others = in_order([{"arm": arm, "repeat": repeat} for arm in "ab" for repeat in range(3)], "seed")
    >>> len(some), len(others)
    (3, 3)
    """
    levels = [{(name, canonical_json(of)) for name, of in cell.items() if name != "repeats"} for cell in cells]
    others = random.Random(seed).sample(range(len(cells)), len(cells))
    chosen: list[int] = []
    missing = set().union(*levels)
    while others and (missing or not chosen):
        best = max(others, key=lambda number: len(missing & levels[number]))
        others.remove(best)
        chosen.append(best)
        missing -= levels[best]
    return chosen, others


@dataclass
class _Again:
    """The cells that are run again, by their number in the whole run, and what was found."""

    result: store.Result
    stored: dict[str, np.ndarray]  # its columns
    progress: runner.Progress
    device: str
    limit: int | None  # of memory
    seconds: float | None
    cells: list[Cell] = field(default_factory=list)  # of the stages so far
    compared: set[int] = field(default_factory=set)  # their numbers
    differences: list[str] = field(default_factory=list)
    rounded: bool = False  # some floats are not equal to the bit

    def verification(self, then: Code, fingerprint: Fingerprint) -> Verification:
        """Run what has to be run, and report what came of it."""
        experiment, folder, report = self.progress.experiment, self.progress.folder, self.progress.report
        self._starts = [0, *np.cumsum(self.result.manifest["cell_rows"], dtype=int).tolist()]
        self._deadline = float("inf") if self.seconds is None else time.monotonic() + self.seconds
        self._plan = runner.Plan(self.device, runner.memory_budget(folder, self.device, self.limit, 1), 1)
        self._environment = runner.environment(self.device)
        self.notes = Notes.of(experiment.all_modules(), str(folder))
        try:
            lines = self._run(then, Code(fingerprint.sources), fingerprint.key)
        finally:
            self.notes.end()
        state = "verified" if not lines else "different" if self.differences else "stale"
        for line in lines:
            report(f"{experiment.id} {self.progress.spec.profile}: {state}: {line}")
        if self.differences and (advice := _advice(self.result.manifest["environments"], self._environment)):
            report(f"{experiment.id} {self.progress.spec.profile}: {advice}")
        return Verification(state, tuple(lines))

    def _run(self, then: Code, now: Code, seed: str) -> list[str]:
        """Run what has to be run; what differs, or else what was left out, a line each."""
        waiting: list[int] = []
        rows, last = 0, len(self.result.experiment.stages)
        for stage in range(1 + last):
            earlier = {name: column[:rows] for name, column in self.stored.items()}
            first, listed = len(self.cells), self._listed(stage, [store.Table(earlier, {})])
            self.cells += listed
            count = self.result.manifest["cells"]
            if len(self.cells) > count or stage == last and len(self.cells) < count:
                self.differences.append(f"stored {count} cells, now {len(self.cells)}")
                return self.differences
            chosen, others = in_order(listed, seed)
            kept = [number for number in others if self.progress.table(listed[number]) is not None]
            for number in dict.fromkeys(chosen + kept):
                if not self._compare(first + number):
                    return self.differences or ["the time is up before a cell of each level was run"]
            waiting += [first + number for number in others if first + number not in self.compared]
            rows = self._starts[len(self.cells)]
        self._compare_decision()
        while not self.differences and (unseen := self._unseen(then, now)):
            if not waiting or not self._compare(waiting.pop(0)):
                return [f"changed, but entered by none of {len(self.compared)} cells: {in_words(unseen)}"]
        return self.differences

    def _listed(self, stage: int, earlier: list[store.Table]) -> list[Cell]:
        return replace(self.progress, experiment=self.result.experiment).cells(stage, earlier)

    def _unseen(self, then: Code, now: Code) -> list[Place]:
        """The functions that changed, that count and that were not entered."""
        entered, manifest = self.notes.places, self.result.manifest
        if len(self.compared) == len(self.cells):
            return []
        full = store.unlisted(manifest["functions"])
        is_whole = manifest["functions_cells"] == manifest["cells"]
        named = set[str]().union(
            *(unit.names - unit.own for place, unit in now.units.items() if place in entered or not unit.is_function)
        )

        def counts(place: Place) -> bool:
            parts = [part.rstrip("'") for part in place[1].split(".") if part[0] != "<" and part[:2] != "__"]
            return place in full or not (is_whole and place in then.units) and named.issuperset(parts)

        functions = [place for place in changed(then, now) if place in now.units and now.units[place].is_function]
        return [place for place in functions if place not in entered and counts(place)]

    def _compare(self, number: int) -> bool:
        """Run a cell again, or take what is kept of it, and compare it; False when the time is up."""
        cell, experiment = self.cells[number], self.progress.experiment
        table = self.progress.table(cell)
        lines, is_rounded = self._look(number, table) if table is not None else ([], False)
        # A kept cell that differs may do so because another machine computed it.
        if table is None or lines and _machine(table.manifest["environment"]) != _machine(self._environment):
            if time.monotonic() > self._deadline:
                return False
            spec = self.result.spec
            text, seconds, notes = runner.execute(experiment, spec.json, cell, self.progress.shelf, self._plan)
            for line in (f"{experiment.id} {spec.profile}: again {text} {seconds:.1f} s", *notes):
                self.progress.report(line)
            self.progress.shelf.refresh()
            table = self.progress.table(cell)
            assert table is not None
            lines, is_rounded = self._look(number, table)
        self.notes.places |= store.unlisted(table.manifest["functions"])
        self.compared.add(number)
        self.differences += lines
        self.rounded |= is_rounded
        return True

    def _look(self, number: int, table: store.Table) -> tuple[list[str], bool]:
        """What differs of a cell, a line each, and whether some floats are not equal to the bit."""
        lines, is_rounded = list[str](), False
        length = len(next(iter(table.columns.values())))
        start, end = self._starts[number : number + 2]
        where = f"cell {canonical_json(self.cells[number])}"
        if {*self.stored} != {*table.columns}:
            return [f"{where}, columns: stored {', '.join(self.stored)}, now {', '.join(table.columns)}"], False
        if end - start != length:
            return [f"{where}, rows: stored {end - start}, now {length}"], False
        for name, column in self.stored.items():
            stored, now = column[start:end], table.columns[name]
            rows = np.flatnonzero(_differs(stored, now, *self._allowed(name, table.manifest["environment"])))
            is_rounded |= bool(_differs(stored, now).any())
            if len(rows):
                more = f"; and {len(rows) - 1} more rows" if len(rows) > 1 else ""
                values = f"stored {stored[rows[0]].item()!r}, now {now[rows[0]].item()!r}"
                lines.append(f"{where}, column {name!r}, row {start + rows[0]}: {values}{more}")
        return lines, is_rounded

    def in_words(self, fingerprint: Fingerprint) -> dict[str, Any]:
        """What a full run enters, as far as it is known, and how many cells say so."""
        manifest, known = self.result.manifest, self.notes.places
        if len(self.compared) < len(self.cells):
            here = Code(fingerprint.sources).units
            known = known | {place for place in store.unlisted(manifest["functions"]) if place in here}
        count = max(len(self.compared), manifest["functions_cells"])
        return {"functions": store.listed(known), "functions_cells": count}

    def _allowed(self, name: str, environment: dict[str, Any]) -> tuple[float, float]:
        """How far off a column's floats may be, and by what part of themselves: 0 and 0 on the same machine."""
        before = self.result.manifest["environments"]
        if {_machine(each) for each in before} == {_machine(environment)}:
            return 0.0, 0.0
        tolerance = self.result.spec.parameters.get("tolerances", {}).get(name, 0.0)
        # Other threads or versions are a choice, and can be chosen again; a processor is the one that there is.
        others = all((each["device"], each["name"]) != (environment["device"], environment["name"]) for each in before)
        return tolerance, _ROUNDING if others else 0.0

    def _compare_decision(self) -> None:
        """Compare the decision, which follows from what is stored."""
        decision = asdict(self.result.experiment.decide(self.result.frame, self.result.spec))
        for name, stored in self.result.manifest["decision"].items():
            if decision[name] != stored:
                self.differences.append(f"decision, {name}: stored {stored!r}, now {decision[name]!r}")


def _machine(environment: dict[str, Any]) -> str:
    """Versions and device, without this package's version and the number of cells."""
    versions = {name: version for name, version in environment["versions"].items() if name != "dpnotes"}
    return canonical_json({**environment, "versions": versions, "count": 0})


def _advice(before: list[dict[str, Any]], now: dict[str, Any]) -> str:
    """How to use the instructions of the result on a processor that has newer ones; "" where that is not known.

    >>> then, now = {"device": "cpu", "name": "EPYC, AVX2"}, {"device": "cpu", "name": "Xeon, AVX512"}
    >>> _advice([then], now).partition(" ATEN")[0]
    'the result was computed with AVX2 instructions, this with AVX512; to use the same, set'
    >>> _advice([now], then), _advice([then, now], now), _advice([{**then, "name": "EPYC"}], now)
    ('', '', '')
    """
    here, *there = (each["name"].rpartition(", ")[2] if each["device"] == "cpu" else "" for each in (now, *before))
    if here != "AVX512" or {*there} != {"AVX2"}:
        return ""
    return f"the result was computed with AVX2 instructions, this with AVX512; to use the same, set {_AVX2}"


def _differs(stored: np.ndarray, now: np.ndarray, tolerance: float = 0.0, rounding: float = 0.0) -> np.ndarray:
    """Where two columns differ; floats by their bits, but for NaN, unless more is allowed.

    >>> _differs(np.array([1.0, np.nan, 0.0]), np.array([1.0, np.nan, -0.0]))
    array([False, False,  True])
    >>> _differs(np.array([1.0, 2.0]), np.array([1.1, 2.5]), 0.2)
    array([False,  True])
    >>> _differs(np.array([1.0, 2.0, np.inf]), np.array([1.0 + 1e-10, 2.0 + 1e-8, 3.0]), 0.0, 1e-9)
    array([False,  True,  True])
    """
    kinds = [column.dtype.kind.replace("u", "i") for column in (stored, now)]
    if kinds == ["f", "f"] or kinds == ["f", "i"]:  # another cell's floats made this one's integers floats
        one, other = stored.astype(np.float64), now.astype(np.float64)
        same = (one.view(np.int64) == other.view(np.int64)) | (np.isnan(one) & np.isnan(other))
        if not (tolerance or rounding):
            return ~same
        with np.errstate(invalid="ignore"):
            return ~(same | np.isfinite(one) & (np.abs(one - other) <= tolerance + rounding * np.abs(one)))
    return stored != now if kinds[0] == kinds[1] else np.ones(len(stored), bool)


# ---------------------------------------------------------------- the manifest
def _write(result: store.Result, fingerprint: Fingerprint, commit: dict[str, Any], again: _Again | None) -> None:
    """Put on record that a result is of today's code: what was run again, or what was before if no code changed."""
    manifest = dict(result.manifest)
    names = {*manifest["modules"], *fingerprint.modules}
    before = manifest.get("verified") or {"key": "", "cells": [], "rounding": 0.0}
    if again is None and before["key"] != fingerprint.key:
        before = {"cells": [], "rounding": 0.0}
    now = {name: fingerprint.modules.get(name) for name in sorted(names)}
    manifest["verified"] = {
        "key": fingerprint.key,
        "modules": {name: each for name, each in now.items() if manifest["modules"].get(name) != each},
        "cells": [again.cells[number] for number in sorted(again.compared)] if again else before["cells"],
        "rounding": (_ROUNDING if again.rounded else 0.0) if again else before["rounding"],
        **commit,
        "finished_at": runner.now(),
    }
    if again:
        manifest |= again.in_words(fingerprint)
    store.write_manifest(store.result_stem(result.spec), manifest)
