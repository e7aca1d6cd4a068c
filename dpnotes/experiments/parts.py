"""Cells of results that are not complete, beside the results: committed, they outlive the machine that computed them.

Each part is a file of at most 1 MB, which no later one changes: what its cells are of, then their records (`cells`),
without checkpoints. Its name is of its content, so that parts from two clones can be merged. A run goes on from the
parts whose key is today's, and from those of code that was verified to give the same numbers: a part without cells says
which these are. When the result is stored its parts are removed.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dpnotes import files
from dpnotes.experiments import store
from dpnotes.experiments.cells import SUFFIX, Place, Shelf, best, packed, raw
from dpnotes.experiments.sources import FORMAT, Fingerprint
from dpnotes.experiments.spec import Experiment, Spec

MAX_PART_BYTES = 10**6


def folder() -> Path:
    """Where the parts stand."""
    return store.results_folder() / "parts"


def about(experiment: Experiment, fingerprint: Fingerprint, commit: dict[str, Any]) -> dict[str, Any]:
    """What cells are of: the first record of every file of theirs."""
    return {
        "format": FORMAT,
        "key": fingerprint.key,
        "experiment": experiment.id,
        "profile": fingerprint.spec.profile,
        "spec": json.loads(fingerprint.spec.json),
        "modules": fingerprint.modules,
        "data": list(fingerprint.data),
        **commit,
    }


def plan(place: Path) -> dict[str, Any]:
    """By which plan of memory the cells in a folder of the cache were computed, as an entry of `about`."""
    path = place / "plan.json"
    if not path.exists():
        return {}
    stored = files.unsealed_json(path)
    return {"plan": {name: stored[name] for name in ("question", "memory_bytes")}}


def shelf(spec: Spec, key: str | None) -> Shelf:
    """The cells that are kept: those that are of a key, or of code that gives the same numbers; None: all."""
    found = Shelf(folder(), None, pattern=f"{spec.paper}.{spec.experiment}.{spec.profile}.*{SUFFIX}")
    found.refresh()
    if key is not None:
        found.keys = equal_keys(found.abouts.values(), key)
    return found


def equal_keys(abouts: Iterable[dict[str, Any]], key: str) -> set[str]:
    """The key itself, and those of code that was verified to give the same numbers."""
    return {key}.union(*(each.get("equal", ()) for each in abouts if each["key"] == key))


def origin(spec: Spec, key: str, keys: Iterable[str]) -> dict[str, Any]:
    """Of how many cells the code is another one, which gave the same numbers, and up to what; empty of none.

    Args:
      spec: whose parts say so.
      key: of today's code.
      keys: of the code of each cell.
    """
    others = [each for each in keys if each != key]
    roundings = [each.get("rounding", 0.0) for each in shelf(spec, None).abouts.values() if each["key"] == key]
    return {"cells": len(others), "keys": sorted({*others}), "rounding": max(roundings, default=0.0)} if others else {}


def remark(spec: Spec, usable: Shelf | None) -> str:
    """What a status has to say of cells that are kept."""
    every = shelf(spec, None).all_places()
    mine = usable.all_places() if usable is not None else {}
    lines = [f"; {len(mine)} of them kept beside the results"] if mine else []
    lines += [f"; {sentence}" for sentence in shelf(spec, None).damage()]
    if others := len({*every} - {*mine}):
        name = f"{spec.paper}.{spec.experiment} --profile {spec.profile}"
        lines.append(f"; {others} more are kept of other code or another spec: dpnotes verify {name}")
    return "".join(lines)


def keep(experiment: Experiment, profile: str, commit: dict[str, Any]) -> int:
    """Put finished cells of a result that is not complete beside the results; those of earlier code, too.

    Returns:
      How many there are that were not there before.

    Raises:
      ValueError: no such profile, or a cell of more than 1 MB.
      DamagedFileError: a cell is not what was written.
    """
    from dpnotes.experiments.runner import Progress

    spec, fingerprint = experiment.spec(profile), Fingerprint.of(experiment, profile)
    if store.load(experiment, profile).state == "current":
        remove(spec)  # a run that was killed at its very end leaves them
        return 0
    progress = Progress.of(experiment, fingerprint, lambda line: None, commit, kept=False)
    count = 0
    for place in sorted(progress.folder.parent.glob("*/")):
        cached = Shelf(place, None)
        cached.refresh()
        for key in sorted({each["key"] for each in cached.abouts.values()}):
            count += _keep(spec, key, place, cached)
    return count


def _keep(spec: Spec, key: str, place: Path, cached: Shelf) -> int:
    there = shelf(spec, key).all_places()
    cached.keys = {key}
    records = [whole(here) for name, here in sorted(cached.all_places().items()) if name not in there]
    entries = next(each for each in cached.abouts.values() if each["key"] == key)
    for content in _in_parts(packed({}, entries | plan(place)), records):
        write(spec, content)
    return len(records)


def whole(here: Sequence[Place]) -> bytes:
    """The bytes of a cell's record that is what was written."""
    return raw(best(here)[0])


def _in_parts(first: bytes, records: list[bytes]) -> Iterator[bytes]:
    part: list[bytes] = []
    size = len(first)
    for record in records:
        if len(first) + len(record) > MAX_PART_BYTES:
            raise ValueError(f"Expected a cell of {len(record)} bytes <= {MAX_PART_BYTES - len(first)} to be kept.")
        if part and size + len(record) > MAX_PART_BYTES:
            yield b"".join([first, *part])
            part, size = [], len(first)
        part.append(record)
        size += len(record)
    if part:
        yield b"".join([first, *part])


def write(spec: Spec, content: bytes) -> None:
    """Write one part."""
    name = f"{spec.paper}.{spec.experiment}.{spec.profile}.{hashlib.sha256(content).hexdigest()[:12]}{SUFFIX}"
    files.write({folder() / name: content})


def remove(spec: Spec) -> None:
    """Remove the parts of a result, which is complete."""
    for path in folder().glob(f"{spec.paper}.{spec.experiment}.{spec.profile}.*{SUFFIX}"):
        path.unlink(missing_ok=True)
    with suppress(OSError):  # there are others, or it is gone
        folder().rmdir()
