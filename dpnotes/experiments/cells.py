"""Finished cells in files that only grow: a record a cell, whole or not there.

A record is a line with the name of its cell, the sha256 of what follows and its length, then columns and manifest,
compressed. Each process appends to a file of its own, whose first record says what its cells are of: spec, code, data
and commit. A record that was cut short by a crash is passed over, and its cell is computed again. The same records,
with nothing around them, are what stands beside the results (`parts`) and what is carried to another machine.
"""

import hashlib
import json
import os
import re
import secrets
import time
import zlib
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpnotes.experiments.spec import Cell, canonical_json
from dpnotes.files import DamagedFileError

ABOUT = "about"
SUFFIX = ".cells"
_LINE = re.compile(rb"dpnotes record (about|[0-9a-f]{16}) ([0-9a-f]{64}) ([0-9]{1,12})\n")
_LONGEST = 128  # bytes of such a line
_DTYPE = re.compile(r"[|<]([biuf][1248]|U[0-9]{1,9})")
_MAX_BYTES = 2**30  # of a record's content, so that a forged one cannot fill the memory
# The file to which this process adds, by folder and key, as it left it: in one that was damaged nothing would be found.
_OWN: dict[tuple[int, Path, str], tuple[Path, tuple[int, int]]] = {}
_SYNCED: dict[Path, float] = {}
_SYNC_SECONDS = 1.0  # a disk takes 8 ms to write for good, and some cells less to compute; a power cut may cost so much
_OF_ABOUT = ("experiment", "profile", "key", "spec", "modules", "data", "format", "git_commit")
_OF_A_CELL = ("cell", "seconds", "environment", "chunking", "spent", "functions")


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length and the manifest that was stored with them."""

    columns: dict[str, np.ndarray]
    manifest: dict[str, Any]


class Place(NamedTuple):
    """Where a record stands: the whole of it is `length` bytes from `start`."""

    path: Path
    start: int
    length: int


def name_of(cell: Cell) -> str:
    """The name of a cell: of its content, so its place in a list does not matter.

    >>> name_of({"repeat": 1})
    '05f13bb05a61cbcb'
    """
    return hashlib.sha256(canonical_json(cell, "cell").encode()).hexdigest()[:16]


# ---------------------------------------------------------------- one record
def packed(columns: Mapping[str, np.ndarray], manifest: Mapping[str, Any]) -> bytes:
    """The record of a cell, or of what cells are of (no columns, and no "cell" in the manifest)."""
    kinds = [[name, array.dtype.str, len(array)] for name, array in columns.items()]
    for name, kind, _ in kinds:
        if not _DTYPE.fullmatch(kind):
            raise TypeError(f"Expected column {name!r} of type {kind} to be of bool, int, float or str.")
    head = canonical_json({"manifest": dict(manifest), "columns": kinds}, "record").encode()
    content = zlib.compress(b"\n".join([head, b"".join(array.tobytes() for array in columns.values())]), 6)
    name = name_of(manifest["cell"]) if "cell" in manifest else ABOUT
    return f"dpnotes record {name} {_sha256(name, content)} {len(content)}\n".encode() + content


def unpacked(record: bytes, where: object) -> Table:
    """What was packed.

    Args:
      record: all its bytes.
      where: it stands; for the error.

    Raises:
      DamagedFileError: these are not the bytes that were packed.
    """
    line = _LINE.match(record[:_LONGEST])
    content = record[line.end() :] if line else b""
    if not line or len(content) != int(line[3]) or _sha256(line[1].decode(), content) != line[2].decode():
        raise DamagedFileError(f"Expected {where} to match the sha256 in its first line; it was changed or cut short.")
    try:
        work = zlib.decompressobj()
        plain = work.decompress(content, _MAX_BYTES)
        head, _, numbers = plain.partition(b"\n")
        body, columns, start = json.loads(head), dict[str, np.ndarray](), 0
        for name, kind, length in body["columns"]:
            if not _DTYPE.fullmatch(kind) or not work.eof:
                raise ValueError(kind)
            end = start + np.dtype(kind).itemsize * length
            columns[name] = np.frombuffer(numbers[start:end], kind).copy()
            start = end
        manifest = body["manifest"]
        named = name_of(manifest["cell"]) if "cell" in manifest else ABOUT
        whole = start == len(numbers) and len({len(column) for column in columns.values()}) <= 1
        complete = all(entry in manifest for entry in (_OF_ABOUT if named == ABOUT else _OF_A_CELL))
        if not whole or not complete or bool(columns) != (named != ABOUT) or named != line[1].decode():
            raise ValueError(named)
    except (ValueError, KeyError, TypeError, zlib.error, RecursionError) as error:
        raise DamagedFileError(f"Expected {where} to be the record of a cell ({error}).") from None
    return Table(columns, manifest)


def _sha256(name: str, content: bytes) -> str:
    return hashlib.sha256(name.encode() + b"\n" + content).hexdigest()


def places(path: Path, start: int = 0) -> Iterator[tuple[str, Place]]:
    """Names and places of the records that are in a file as a whole, by their first lines; contents are not read."""
    size = path.stat().st_size
    with path.open("rb") as file:
        while start < size:
            file.seek(start)
            line = _LINE.match(file.read(_LONGEST))
            length = line.end() + int(line[3]) if line else 0
            if line and start + length <= size:
                yield line[1].decode(), Place(path, start, length)
                start += length
            else:  # cut short, or damaged: on to the next that begins
                start = _next(file, start + 1)


def _next(file: Any, start: int) -> int:
    file.seek(start)
    rest = file.read()
    found = rest.find(b"dpnotes record ")
    return start + (found if found >= 0 else len(rest))


def raw(place: Place) -> bytes:
    """The bytes of a record."""
    with place.path.open("rb") as file:
        file.seek(place.start)
        return file.read(place.length)


def read(place: Place) -> Table:
    """What a record holds.

    Raises:
      DamagedFileError: with where it stands.
    """
    return unpacked(raw(place), f"the record at byte {place.start} of {place.path}")


def best(here: Sequence[Place]) -> tuple[Place, Table]:
    """Of the records of one cell the last that is whole: one that was damaged may have been computed again.

    Raises:
      DamagedFileError: none is.
      FileNotFoundError: nor is the file of the first one there any more.
    """
    damage = None
    for place in reversed(here):
        try:
            return place, read(place)
        except (DamagedFileError, FileNotFoundError) as error:
            damage = error
    raise damage or DamagedFileError("Expected a record, found none.")


# ---------------------------------------------------------------- many
class Shelf:
    """The records in some files of a folder; further ones are seen as they come.

    Args:
      folder: in which the files are; it need not be there yet.
      keys: of what the cells have to be, as the first record of their file says; None: of anything.
      about: what the first record of a new file says; without it nothing can be added.
      pattern: of the files' names.
    """

    def __init__(
        self,
        folder: Path,
        keys: Container[str] | None,
        about: Mapping[str, Any] | None = None,
        pattern: str = f"*{SUFFIX}",
    ) -> None:
        self.folder, self.keys, self.about, self.pattern = folder, keys, about, pattern
        self.abouts: dict[Path, dict[str, Any]] = {}
        self._places: dict[str, list[Place]] = {}
        self._sizes: dict[Path, int] = {}
        self._ends: dict[Path, int] = {}

    def __reduce__(self) -> Any:
        return Shelf, (self.folder, self.keys, self.about, self.pattern)  # another process looks for itself

    def refresh(self) -> None:
        """See what has come since."""
        there = sorted(self.folder.glob(self.pattern))
        for path in there:
            try:
                self._look(path)
            except FileNotFoundError:  # removed in the meantime: its result was stored
                self._forget(path)
        for path in {*self._sizes} - {*there}:
            self._forget(path)

    def _look(self, path: Path) -> None:
        before, size = self._sizes.get(path, 0), path.stat().st_size
        if size == before:
            return
        if size < before:
            self._forget(path)
        self._sizes[path] = size
        for name, place in places(path, self._ends.get(path, 0)):
            self._ends[path] = place.start + place.length
            if name != ABOUT:
                self._places.setdefault(name, []).append(place)
            elif path not in self.abouts:
                with suppress(DamagedFileError):  # `damage` tells
                    self.abouts[path] = read(place).manifest

    def _forget(self, path: Path) -> None:
        self._ends.pop(path, None)
        self._sizes.pop(path, None)
        for here in self._places.values():
            here[:] = [place for place in here if place.path != path]

    def damage(self) -> list[str]:
        """The files that hold cells without a whole record of what they are of, a sentence each."""
        self.refresh()
        holding = {place.path for here in self._places.values() for place in here}
        return [f"Expected {path} to begin with what its cells are of." for path in sorted(holding - {*self.abouts})]

    def all_places(self) -> dict[str, list[Place]]:
        """Where the records of each cell are that are of these keys, by its name."""
        self.refresh()
        return {name: here for name in self._places if (here := self._mine(name))}

    def table(self, cell: Cell) -> Table | None:
        """What is kept of a cell, with the "key" of what it is of in its manifest, or None.

        Raises:
          DamagedFileError: what is kept is not what was written.
        """
        name = name_of(cell)
        if not self._mine(name):
            self.refresh()
        if not (here := self._mine(name)):
            return None
        try:
            place, table = best(here)
        except DamagedFileError:
            self._places.pop(name)  # what is computed again is seen
            raise
        except FileNotFoundError:  # as in `refresh`
            return None
        return Table(table.columns, {**table.manifest, "key": self.abouts[place.path]["key"]})

    def add(self, columns: Mapping[str, np.ndarray], manifest: Mapping[str, Any]) -> None:
        """Keep a cell: out of this process when this returns, and on the disk a second later, when there is another.

        Raises:
          OSError: with the path, a full disk among others; what was there before stays as it was.
        """
        if self.about is None:
            raise ValueError(f"Expected the cells in {self.folder} to be read only.")
        record, own = packed(columns, manifest), (os.getpid(), self.folder, self.about["key"])
        path, last = _OWN.get(own, (self.folder, (0, 0)))
        if not path.is_file() or _touched(path) != last:
            path = self.folder / f"{secrets.token_hex(8)}{SUFFIX}"
            record = packed({}, self.about) + record
        is_due = time.monotonic() - _SYNCED.get(path, 0.0) >= _SYNC_SECONDS
        append(path, record, sync=is_due)
        if is_due:
            _SYNCED[path] = time.monotonic()
        _OWN[own] = path, _touched(path)

    def _mine(self, name: str) -> list[Place]:
        return [
            place
            for place in self._places.get(name, ())
            if (about := self.abouts.get(place.path)) is not None and (self.keys is None or about["key"] in self.keys)
        ]


def _touched(path: Path) -> tuple[int, int]:
    return path.stat().st_size, path.stat().st_mtime_ns


def append(path: Path, content: bytes, sync: bool = True) -> None:
    """Put bytes at the end of a file, all or none; with `sync` they are on the disk when this returns.

    Raises:
      OSError: with the path.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        with path.open("ab") as file:
            before = file.tell()
            try:
                write(file, content, sync)
            except OSError:
                file.truncate(before)
                raise
        if is_new:
            descriptor = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except OSError as error:
        if path.exists() and not path.stat().st_size:
            path.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error


def write(file: Any, content: bytes, sync: bool) -> None:
    """Write, and wait until it is on the disk if asked to."""
    file.write(content)
    file.flush()
    if sync:
        os.fsync(file.fileno())
