"""Finished cells that are carried to another machine, in one file or in a folder that is brought back.

What is carried are records (`cells`), each with its sha256, after one that says what they are of. There is no path in
them: where a cell goes follows from the experiment's name, which this version has to know. Cells of other code, of
another spec or of other data are refused.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpnotes import files
from dpnotes.experiments import parts, runner, store
from dpnotes.experiments.cells import ABOUT, SUFFIX, Shelf, packed, places, raw, read
from dpnotes.experiments.sources import Fingerprint
from dpnotes.experiments.spec import Experiment
from dpnotes.files import DamagedFileError


@dataclass
class Carried:
    """What came of an import.

    Args:
      added: cells by result, such as "toy.mean quick".
      known: cells that were here before, by result.
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
      DamagedFileError: a cell is not what was written.
    """
    found, content = dict[str, int](), list[bytes]()
    for experiment, profile in pairs:
        fingerprint = Fingerprint.of(experiment, profile)
        cached = Shelf(store.cells_folder(fingerprint.spec, fingerprint.key), {fingerprint.key})
        beside = parts.shelf(fingerprint.spec, None)
        beside.keys = {fingerprint.key}  # of this code itself: what goes with the cells says so of all
        cells = {**beside.all_places()}
        for name, here in cached.all_places().items():
            cells[name] = [*cells.get(name, []), *here]
        if cells:
            about = parts.about(experiment, fingerprint, runner.commit_of(experiment)) | parts.plan(cached.folder)
            content += [packed({}, about), *(parts.whole(cells[name]) for name in sorted(cells))]
            found[f"{experiment.id} {profile}"] = len(cells)
    if not found:
        raise ValueError("Expected finished cells of this code, in the cache or beside the results; found none.")
    files.write({path: files.sealed(b"".join(content))})
    return found


def bring(experiments: Iterable[Experiment], path: Path) -> Carried:
    """Take cells from a file that was exported, or from a folder of a run elsewhere, so that `run` finds them.

    All are read before the first is taken. A record of a folder that was cut short by a crash is passed over.

    Raises:
      DamagedFileError: the file, or a record, is not what was written; nothing is taken.
      FileNotFoundError: there is none.
    """
    if not path.exists():
        raise FileNotFoundError(f"Expected {path} to be a file that was exported, or a folder; there is none.")
    known = {experiment.id: experiment for experiment in experiments}
    carried, waiting, here = Carried(), dict[Path, list[bytes]](), dict[Path, set[str]]()
    sources = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
    for source in sources:
        start = 0 if path.is_dir() else len(source.read_bytes()) - len(files.unsealed(source))
        target, about, label = None, dict[str, Any](), ""
        for name, place in places(source, start):
            if not path.is_dir() and place.start != start:
                raise DamagedFileError(f"Expected {source} to hold records and nothing else.")
            start = place.start + place.length
            table = read(place)
            if name == ABOUT:
                about = table.manifest
                label = f"{about.get('experiment')} {about.get('profile')}"
                target = None
                if reason := _refusal(known, about):
                    carried.refused[label] = reason
                    continue
                spec = known[about["experiment"]].spec(about["profile"])
                target = store.cells_folder(spec, about["key"])
                if target not in here:
                    shelves = Shelf(target, {about["key"]}), parts.shelf(spec, about["key"])
                    here[target], waiting[target] = {name for shelf in shelves for name in shelf.all_places()}, []
            elif not about:
                raise DamagedFileError(f"Expected {source} to begin with what its cells are of.")
            elif target is not None:
                counts = carried.known if name in here[target] else carried.added
                counts[label] = counts.get(label, 0) + 1
                if name not in here[target]:
                    here[target].add(name)
                    waiting[target] += [packed({}, about)] * (not waiting[target]) + [raw(place)]
    contents = {target: b"".join(records) for target, records in waiting.items() if records}
    files.write(
        {target / f"{hashlib.sha256(each).hexdigest()[:16]}{SUFFIX}": each for target, each in contents.items()}
    )
    return carried


def _refusal(known: dict[str, Experiment], about: dict[str, Any]) -> str:
    """Why cells are not of an experiment as it is now; empty when they are."""
    experiment = known.get(str(about.get("experiment")))
    if experiment is None or str(about.get("profile")) not in experiment.specs:
        return "there is no such experiment or profile here"
    fingerprint = Fingerprint.of(experiment, str(about["profile"]))
    if about["key"] == fingerprint.key:
        return ""
    try:
        changes = fingerprint.changes(about)
    except (TypeError, KeyError, AttributeError, ValueError):
        return "what its cells are of is not said as this version says it"
    return "; ".join(f"{kind} differs: {what}" for kind, what in changes.items()) or "it has another key"
