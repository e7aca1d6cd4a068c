"""Copies of the notebooks for a reader to work in: JupyterLab saves by itself, and what it opens is written to.

A working folder holds the notebooks and, in `docs/`, the pages that they link to, so that every link leads to another
copy and none to an original. What is there already is never overwritten.
"""

import datetime
import hashlib
import json
import os
import posixpath
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import dpnotes
from dpnotes.experiments.store import notebooks_folder
from dpnotes.util import files

FIRST = "00_start_here.ipynb"
_RECORD = ".copies.json"  # of each copy, the sha256 of the original that it was made from
# A link to a file or folder, not to an address or a heading; mathematics such as [0, 1](x) has no suffix.
_LINK = re.compile(r"\[([^\[\]]*)\]\(((?:\.\.?/)*[\w-][\w./-]*(?:\.[a-z]+|/))(#[^()\s]*)?\)")


@dataclass(frozen=True)
class Copies:
    """What copying has done.

    Args:
      folder: the working folder.
      added: names of what was missing, or was renewed.
      older: names of copies that were made from an original that has changed since.
      backup: the folder that the reader's older copies were moved to; None: none were.
    """

    folder: Path
    added: tuple[str, ...]
    older: tuple[str, ...]
    backup: Path | None


def in_repository() -> bool:
    """Whether the notebooks stand in a repository, and not in an installed package.

    >>> in_repository() == (notebooks_folder().parent.name != "carried")
    True
    """
    return Path(dpnotes.__file__).parent not in notebooks_folder().parents


def default_folder() -> Path:
    """`my_notebooks` in the repository, which git ignores; `dpnotes_notebooks` here, of an installed package.

    >>> default_folder().name in ("my_notebooks", "dpnotes_notebooks")
    True
    """
    return notebooks_folder().parent / "my_notebooks" if in_repository() else Path("dpnotes_notebooks")


def originals() -> dict[str, bytes]:
    """The notebooks and the pages, by their names in a working folder; their links are those of the folder.

    >>> "docs/theory.md" in originals() and FIRST in originals()
    True
    """
    paths = _paths()
    places = {f"notebooks/{name}" if "/" not in name else name: name for name in paths}
    return {places[old]: _mended(old, paths[places[old]].read_bytes(), places) for old in places}


def copy_to(folder: Path, fresh: bool = False) -> Copies:
    """Copy the notebooks and pages that `folder` does not have.

    Args:
      folder: made if it is missing.
      fresh: renew copies too; those that differ from today's originals are moved into a dated folder beside them.

    Raises:
      ValueError: the folder holds originals, itself or by a link.
      OSError: with the path; a full disk among others.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     first, second = copy_to(Path(place)), copy_to(Path(place))
    >>> FIRST in first.added, second.added, second.older
    (True, (), ())
    """
    kept = {path.resolve() for path in _paths().values()}
    today = originals()
    if any((folder / name).resolve() in kept for name in today):
        raise ValueError(f"Expected folder={str(folder)!r} to be apart from the notebooks that it takes copies of.")
    record = _read(folder / _RECORD)
    backup = _set_aside(folder, {*today, *record} if fresh else (), today)
    added, older = [], []
    for name, content in today.items():
        digest, path = hashlib.sha256(content).hexdigest(), folder / name
        if _add(path, content):
            added.append(name)
        elif record.get(name) != digest and path.read_bytes() != content:
            older.append(name)
            continue
        record[name] = digest
    kept_record = {name: digest for name, digest in record.items() if os.path.lexists(folder / name)}
    files.write({folder / _RECORD: files.sealed_json({"made_from": kept_record})})
    return Copies(folder, tuple(added), tuple(older), backup)


def jupyterlab(folder: Path, port: int, browser: bool) -> list[str]:
    """The command that opens JupyterLab on the first copy, and serves nothing but the working folder.

    >>> jupyterlab(Path("/tmp"), 8888, browser=True)[3:6]
    ['jupyterlab', '--port=8888', '--ServerApp.root_dir=/tmp']
    """
    options = [f"--port={port}", f"--ServerApp.root_dir={folder.resolve()}", f"--LabApp.default_url=/lab/tree/{FIRST}"]
    options += [] if browser else ["--no-browser"]
    options += ["--allow-root"] if os.geteuid() == 0 else []
    return [sys.executable, "-P", "-m", "jupyterlab", *options]


def _paths() -> dict[str, Path]:
    """Where the original of each name stands."""
    folder = notebooks_folder()
    pages = folder.parent / "docs"
    named = {path.name: path for path in sorted(folder.glob("*.ipynb"))}
    return named | {f"docs/{path.relative_to(pages).as_posix()}": path for path in sorted(pages.rglob("*.md"))}


def _mended(old: str, content: bytes, places: dict[str, str]) -> bytes:
    """A notebook or page whose links lead to copies; what has no copy is named without a link.

    Args:
      old: where it stands in the repository.
      content: of the file.
      places: from names in the repository to names in a working folder.
    """

    def mend(match: re.Match[str]) -> str:
        text, target, heading = match.groups()
        there = posixpath.normpath(posixpath.join(posixpath.dirname(old), target))
        if there not in places:
            return text
        return f"[{text}]({posixpath.relpath(places[there], posixpath.dirname(places[old]) or '.')}{heading or ''})"

    if old.endswith(".md"):
        return _LINK.sub(mend, content.decode()).encode()
    notebook = json.loads(content)
    before = [cell["source"] for cell in notebook["cells"]]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            source = "".join(cell["source"])
            cell["source"] = _LINK.sub(mend, source).splitlines(keepends=True)
    if [cell["source"] for cell in notebook["cells"]] == before:
        return content
    return (json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _read(path: Path) -> dict[str, str]:
    """The record of a folder; none, where it is missing or is not what was written."""
    try:
        return dict(files.unsealed_json(path)["made_from"])
    except (FileNotFoundError, files.DamagedFileError):
        return {}


def _set_aside(folder: Path, names: Iterable[str], today: dict[str, bytes]) -> Path | None:
    """Move what differs from today's originals into a new folder beside it, which is given; None: nothing does."""
    found = [name for name in names if (path := folder / name).is_file() and path.read_bytes() != today.get(name, b"")]
    if not found:
        return None
    backup = folder / f"backup_{datetime.datetime.now():%Y-%m-%d_%H%M%S_%f}"
    backup.mkdir()  # a second that was made in the same microsecond is an error, and nothing is moved
    for name in sorted(found):
        (backup / name).parent.mkdir(parents=True, exist_ok=True)
        os.rename(folder / name, backup / name)
    return backup


def _add(path: Path, content: bytes) -> bool:
    """Write a file that is not there; whether it was so. A file that is there, the reader's, is not opened."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = path.open("xb")
    except FileExistsError:
        return False
    try:
        with file:
            file.write(content)
    except BaseException as error:
        path.unlink()  # or half a notebook would be taken for the reader's
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    return True
