"""Finished cells in files that only grow: one format for the cache, for what is committed and for what is carried.

A record is a line: the sha256 of its JSON, then the JSON. A header says what the lines after it belong to (experiment,
parameters, data, commit); the others hold a cell each. A process appends to a file of its own. A line that a crash cut
short is passed over, and its cell is computed again.
"""

import base64
import hashlib
import json
import secrets
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpnotes.experiments.spec import Cell, canonical_json
from dpnotes.util import files
from dpnotes.util.files import DamagedFileError

SUFFIX = ".cells"


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length and the manifest that was stored with them."""

    columns: dict[str, np.ndarray]
    manifest: dict[str, Any]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values())))


@dataclass(frozen=True)
class Record:
    """A finished cell: its header and its line."""

    header: dict[str, Any]
    line: bytes

    @property
    def table(self) -> Table:
        """Columns and manifest of the cell, with the code of its header.

        Example:
          >>> Record({"git_commit": None}, cell_line({"loss": np.array([0.5])}, {"cell": {}})).table.columns
          {'loss': array([0.5])}
        """
        body = _body(self.line)
        code = {name: self.header.get(name) for name in ("git_commit", "git_dirty", "source")}
        coded = body["columns"].items()
        columns = {n: np.frombuffer(zlib.decompress(base64.b64decode(text)), k).copy() for n, (k, text) in coded}
        return Table(columns, {**body["manifest"], "code": code})


def name_of(cell: Cell) -> str:
    """The name of a cell: a hash of its content.

    >>> name_of({"repeat": 1})
    '05f13bb05a61cbcb'
    """
    return hashlib.sha256(canonical_json(cell, "cell").encode()).hexdigest()[:16]


def packed(body: Mapping[str, Any]) -> bytes:
    """The line of a record."""
    text = json.dumps(dict(body), separators=(",", ":"), allow_nan=False).encode()  # columns stay in their order
    return f"{hashlib.sha256(text).hexdigest()} ".encode() + text + b"\n"


def cell_line(columns: Mapping[str, np.ndarray], manifest: Mapping[str, Any]) -> bytes:
    """The line of a finished cell, whose manifest has it as "cell"."""
    coded = {name: [c.dtype.str, base64.b64encode(zlib.compress(c.tobytes())).decode()] for name, c in columns.items()}
    return packed({"columns": coded, "manifest": dict(manifest)})


def _body(line: bytes) -> dict[str, Any]:
    """The JSON of a line.

    Raises:
      ValueError: the line is not what was written.
    """
    digest, _, text = line.rstrip(b"\n").partition(b" ")
    if digest.decode("ascii", "replace") != hashlib.sha256(text).hexdigest():
        raise DamagedFileError("the line does not match its sha256")
    return json.loads(text)


@dataclass(eq=False)
class Records:
    """The finished cells in the files of a folder, or in one file, to which other processes may add.

    Args:
      place: the folder, or the file; it need not be there yet.
      accepts: whether the cells under a header are wanted.
      pattern: of the names of a folder's files.
    """

    place: Path
    accepts: Callable[[dict[str, Any]], bool] = lambda header: True
    pattern: str = f"*{SUFFIX}"
    damage: list[str] = field(default_factory=list)  # a sentence for each line that is not what was written
    refused: set[Path] = field(default_factory=set)  # files with cells that are not wanted

    def by_name(self) -> dict[str, Record]:
        """The finished cells that the files hold now, by name."""
        self.damage, self.refused, found = [], set(), dict[str, Record]()
        for path in [self.place] if self.place.is_file() else sorted(self.place.glob(self.pattern)):
            with suppress(FileNotFoundError), path.open("rb") as file:  # a result was stored, whose files are removed
                found |= self._read(path, file)
        return found

    def _read(self, path: Path, lines: Iterable[bytes]) -> dict[str, Record]:
        header, place, found = None, 0, dict[str, Record]()
        for line in lines:
            try:
                body = _body(line)
                if "header" in body:
                    header = body["header"]
                elif header is None:
                    self.damage.append(f"Expected {path} to begin with what its cells are of.")
                elif self.accepts(header):
                    found[name_of(body["manifest"]["cell"])] = Record(header, line)
                else:
                    self.refused.add(path)
            except ValueError as error:
                if line.endswith(b"\n"):  # the last line may still be written
                    self.damage.append(f"Expected byte {place} of {path} to begin a record of this version: {error}.")
            place += len(line)
        return found


def contents(records: Mapping[str, Record], most: float = float("inf")) -> list[bytes]:
    """Records under their headers, as the contents of files of at most so many bytes.

    Raises:
      ValueError: a cell does not fit.
    """
    found, last = list[bytes](), None
    for name, record in sorted(records.items(), key=lambda pair: (canonical_json(pair[1].header), pair[0])):
        first = packed({"header": record.header})
        if len(first) + len(record.line) > most:
            raise ValueError(f"Expected cell {name} of {len(record.line)} bytes <= {most - len(first)} to be kept.")
        if record.header != last or len(found[-1]) + len(record.line) > most:
            found.append(first)
        found[-1] += record.line
        last = record.header
    return found


def append(path: Path | None, folder: Path, header: Mapping[str, Any], line: bytes) -> Path:
    """Append a record to a file, and wait until it is on the disk.

    Args:
      path: the file, as an earlier call returned it; None, or one that is gone, begins another.
      folder: for a new file.
      header: of a new file.
      line: the record.

    Raises:
      OSError: with the path, a full disk among others; what was there before stays as it was.
    """
    if path is None or not path.is_file():
        path, line = folder / f"{secrets.token_hex(8)}{SUFFIX}", packed({"header": dict(header)}) + line
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            before = file.tell()
            try:
                files.write_and_sync(file, line)
            except OSError:
                file.truncate(before)
                raise
    except OSError as error:
        if path.exists() and not path.stat().st_size:
            path.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error
    return path
