"""The cells of a result that is being computed: which there are, which are finished, and how they travel.

Finished cells stand as records in the cache. `keep` puts them beside the results, in files of at most 1 MB to commit;
`export` and `bring` carry them to another machine. They are known by their parameters and data, not by their code: the
result's manifest says at which commits they were computed.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from dpnotes.experiments import store
from dpnotes.experiments.provenance import code_of
from dpnotes.experiments.records import SUFFIX, Record, Records, Table, append, cell_line, contents, name_of
from dpnotes.experiments.spec import Cell, Experiment, Spec, canonical_json
from dpnotes.util import files

MAX_PART_BYTES = 10**6
_OWN: dict[tuple[int, str], Path] = {}  # the file of a run to which this process appends


def parts_folder() -> Path:
    """The folder of cells that are kept beside the results."""
    return store.results_folder() / "parts"


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of one experiment and profile: in the cache, and kept beside the results.

    Args:
      experiment: and
      profile: whose cells.
      resume: whether cells that are kept beside the results count.
      code: that computes further ones (`code_of`).
      plan: the memory plan of further ones.
      run: by which processes tell the file that they append to.
    """

    experiment: Experiment
    profile: str
    resume: bool = True
    code: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    run: str = field(default_factory=lambda: uuid4().hex)

    @property
    def spec(self) -> Spec:
        """The parameters that cells see."""
        return self.experiment.computing(self.profile)

    @property
    def folder(self) -> Path:
        """The folder of the cache that holds them."""
        return store.cells_folder(self.experiment, self.profile)

    @cached_property
    def _pending(self) -> str | None:
        row = store.pending().get((self.experiment.id, self.profile))
        return row.changed_by if row else None

    @property
    def header(self) -> dict[str, Any]:
        """The experiment and profile of these cells, in words."""
        return {
            "experiment": self.experiment.id, "profile": self.profile,
            "spec": json.loads(self.experiment.spec(self.profile).json), "data": list(self.experiment.data),
            **({"pending": self._pending} if self._pending else {}), **({"plan": self.plan} if self.plan else {}),
            **(self.code or code_of(self.experiment)),
        }  # fmt: skip

    def accepts(self, header: dict[str, Any]) -> bool:
        """Return whether cells have this result's parameters and data; of a disputed one, whether they are newer."""
        return (
            (header["experiment"], header["profile"]) == (self.experiment.id, self.profile)
            and self.experiment.identity(self.profile, header) == self.experiment.identity(self.profile)
            and (self._pending is None or header.get("pending") == self._pending)
        )

    @cached_property
    def cached(self) -> Records:
        """Finished cells in the cache."""
        return Records(self.folder, self.accepts)

    @cached_property
    def beside(self) -> Records:
        """Finished cells that are kept beside the results."""
        return Records(parts_folder(), self.accepts, f"{self.experiment.id}.{self.profile}.*{SUFFIX}")

    def finished(self) -> dict[str, Record]:
        """The finished cells that count, by name."""
        return {**(self.beside.by_name() if self.resume else {}), **self.cached.by_name()}

    def damage(self) -> list[str]:
        """The parts that are not as they were written, one sentence each."""
        self.finished()
        return [*self.cached.damage, *(self.beside.damage if self.resume else [])]

    def discard_refused(self) -> None:
        """Remove from the cache what was computed before the change that a disputed result waits for."""
        self.cached.by_name()
        for path in self.cached.refused if self._pending else ():
            path.unlink(missing_ok=True)

    def listed(self, stage: int, earlier: list[Table]) -> list[Cell]:
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

    def counted(self) -> str:
        """The number of finished cells, such as "2 of 4 or more cells"; empty if there is none."""
        finished, tables, waiting = self.finished(), list[Table](), 0
        for stage in range(1 + len(self.experiment.stages)):
            names = [name_of(cell) for cell in self.listed(stage, tables)]
            tables += [finished[name].table for name in names if name in finished]
            if waiting := sum(name not in finished for name in names):
                break
        more = " or more" if waiting and stage < len(self.experiment.stages) else ""
        return f"{len(tables)} of {len(tables) + waiting}{more} cells" if tables else ""

    def kept(self) -> str:
        """The progress and the command that continues it, in one line."""
        how = f"the same command goes on from there: {store.command(self.experiment, self.profile)}"
        return f"{self.counted() or 'No cells'} are finished and kept in {self.folder}; {how}"

    def add(self, columns: dict[str, np.ndarray], manifest: dict[str, Any]) -> None:
        """Keep a finished cell.

        Raises:
          OSError: with the path, a full disk among others; what was there before stays as it was.
        """
        own = os.getpid(), self.run
        _OWN[own] = append(_OWN.get(own), self.folder, self.header, cell_line(columns, manifest))


# ---------------------------------------------------------------- beside the results
def keep(experiment: Experiment, profile: str) -> int:
    """Put finished cells of a result that is not complete beside the results.

    Returns:
      How many there are that were not there before.

    Raises:
      ValueError: no such profile, or a cell of more than 1 MB.
    """
    if store.load(experiment, profile).state == "stored":
        remove(experiment, profile)  # a run that was killed at its very end leaves them
        return 0
    cells = Cells(experiment, profile)
    there = cells.beside.by_name()
    new = {name: record for name, record in cells.cached.by_name().items() if name not in there}
    for content in contents(new, MAX_PART_BYTES):
        stem = f"{experiment.id}.{profile}.{hashlib.sha256(content).hexdigest()[:12]}"
        files.write({parts_folder() / f"{stem}{SUFFIX}": content})
    return len(new)


def remove(experiment: Experiment, profile: str) -> None:
    """Remove what is kept beside the results of a result that is complete."""
    for path in parts_folder().glob(f"{experiment.id}.{profile}.*{SUFFIX}"):
        path.unlink(missing_ok=True)
    with suppress(OSError):  # there are others, or it is gone
        parts_folder().rmdir()


# ---------------------------------------------------------------- carried
@dataclass
class Carried:
    """The outcome of an import.

    Args:
      added: number of new cells by result, such as "toy.mean quick".
      known: number of cells that were here before, by result.
      refused: why the cells of a result were refused.
    """

    added: dict[str, int] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def export(pairs: Iterable[tuple[Experiment, str]], path: Path) -> dict[str, int]:
    """Write the finished cells of some experiments and profiles into one file.

    Returns:
      How many there are of each result that has some.

    Raises:
      ValueError: no cell is finished.
    """
    found = {f"{experiment.id} {profile}": Cells(experiment, profile).finished() for experiment, profile in pairs}
    if not any(found.values()):
        raise ValueError("Expected finished cells, in the cache or beside the results; found none.")
    files.write({path: b"".join(content for records in found.values() for content in contents(records))})
    return {label: len(records) for label, records in found.items() if records}


def bring(experiments: Iterable[Experiment], path: Path) -> Carried:
    """Take cells from a file that was exported, or from a folder of a run elsewhere, so that `run` finds them.

    A record that a crash cut short is passed over.

    Raises:
      DamagedFileError: a record is not what was written, or of an earlier version; nothing is taken.
      FileNotFoundError: there is none.
    """
    if not path.exists():
        raise FileNotFoundError(f"Expected {path} to be a file that was exported, or a folder; there is none.")
    known, carried, taken = {one.id: one for one in experiments}, Carried(), dict[Path, bytes]()

    def wanted(header: dict[str, Any]) -> bool:
        if reason := _refusal(known, header):
            carried.refused[f"{header.get('experiment')} {header.get('profile')}"] = reason
        return not reason

    records = Records(path, wanted, f"**/*{SUFFIX}")
    found = records.by_name()
    if records.damage:
        raise files.DamagedFileError(records.damage[0])
    for label in {f"{record.header['experiment']} {record.header['profile']}" for record in found.values()}:
        name, profile = label.split()
        cells = Cells(known[name], profile)
        here = cells.finished()
        mine = {key: record for key, record in found.items() if cells.accepts(record.header)}
        new = {key: record for key, record in mine.items() if key not in here}
        if len(mine) > len(new):
            carried.known[label] = len(mine) - len(new)
        for content in contents(new):
            carried.added[label] = len(new)
            taken[cells.folder / f"{hashlib.sha256(content).hexdigest()[:16]}{SUFFIX}"] = content
    files.write(taken)
    return carried


def _refusal(known: dict[str, Experiment], header: dict[str, Any]) -> str:
    """The reason why cells are not of an experiment as it is now; empty when they are."""
    experiment = known.get(str(header.get("experiment")))
    if experiment is None or str(header.get("profile")) not in experiment.specs:
        return "there is no such experiment or profile here"
    if Cells(experiment, header["profile"]).accepts(header):
        return ""
    disputed = "the result is disputed (results/PENDING.md), and these were computed before the change"
    return store.differences(experiment, header) or disputed
