"""Copies of the notebooks for a reader to work in, since JupyterLab saves the files that it opens by itself.

A working folder holds the notebooks and, in `docs/`, the pages that they link to, so that every link leads to another
copy and none to an original. Existing files are never overwritten.
"""

import contextlib
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
_RECORD = ".copies.json"  # the sha256 of the original that each copy was made from
# A link to a file or folder, not to an address or a heading; mathematics such as [0, 1](x) has no suffix.
_LINK = re.compile(r"\[([^\[\]]*)\]\(((?:\.\.?/)*[\w-][\w./-]*(?:\.[a-z]+|/))(#[^()\s]*)?\)")


@dataclass(frozen=True)
class Copies:
    """The result of copying.

    Args:
      folder: the working folder.
      added: names of the files that were missing, or were renewed.
      older: names of copies that were made from an original that has changed, or moved, since.
      backup: the folder that the reader's older copies were moved to; None if none were moved.
    """

    folder: Path
    added: tuple[str, ...]
    older: tuple[str, ...]
    backup: Path | None


def in_repository() -> bool:
    """Return whether the notebooks are in a repository, and not in an installed package.

    >>> in_repository() == (notebooks_folder().parent.name != "carried")
    True
    """
    return Path(dpnotes.__file__).parent not in notebooks_folder().parents


def default_folder() -> Path:
    """The default working folder: `my_notebooks` in the repository (git ignores it), else `dpnotes_notebooks` here.

    >>> default_folder().name in ("my_notebooks", "dpnotes_notebooks")
    True
    """
    return notebooks_folder().parent / "my_notebooks" if in_repository() else Path("dpnotes_notebooks")


def originals() -> dict[str, bytes]:
    """The notebooks and the pages, by their names in a working folder; their links lead to files of that folder.

    >>> "docs/theory.md" in originals() and FIRST in originals()
    True
    """
    paths = _paths()
    places = {path.relative_to(notebooks_folder().parent).as_posix(): name for name, path in paths.items()}
    return {name: _mended(old, paths[name].read_bytes(), places) for old, name in places.items()}


def notebooks(folder: Path | None = None) -> list[Path]:
    """The paths of the notebooks: core notebooks, then those with the evidence.

    Args:
      folder: where they are; None: those of this package.

    >>> notebooks()[0].name, notebooks()[-1].name
    ('00_start_here.ipynb', '05_goldstein_evidence.ipynb')
    """
    place = folder or notebooks_folder()
    return [*sorted(place.glob("*.ipynb")), *sorted(place.glob("evidence/*.ipynb"))]


def copy_to(folder: Path, fresh: bool = False) -> Copies:
    """Copy the notebooks and pages that `folder` does not have.

    Args:
      folder: the working folder, made if it is missing.
      fresh: whether to renew copies, too; copies that differ from today's originals move into a dated folder beside
        them.

    Raises:
      ValueError: the folder holds originals, itself or by a link; or its record is damaged.
      OSError: a file cannot be written, for instance on a full disk; the message has the path.

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
    made_from = folder / _RECORD
    record = files.unsealed_json(made_from)["made_from"] if made_from.is_file() else {}
    backup = _set_aside(folder, {*today, *record} if fresh else (), today)
    added = [name for name in today if not os.path.lexists(folder / name)]
    files.write({folder / name: today[name] for name in added})
    older = []
    for name, content in today.items():
        digest = hashlib.sha256(content).hexdigest()
        if record.get(name) != digest and (folder / name).read_bytes() != content:
            older.append(name)
        else:
            record[name] = digest
    kept_record = {name: digest for name, digest in record.items() if os.path.lexists(folder / name)}
    older += sorted(kept_record.keys() - today)
    files.write({made_from: files.sealed_json({"made_from": kept_record})})
    return Copies(folder, tuple(added), tuple(older), backup)


def trust(folder: Path) -> None:
    """Sign the notebooks of `folder` that are as they left this package, so that JupyterLab shows all they store.

    From the outputs of an unsigned notebook it strips styles, and charts stay light in a dark theme. What a reader
    changed is theirs to trust. Where the signatures cannot be written, nothing is signed.
    """
    import nbformat
    from jupyter_core.paths import jupyter_data_dir
    from nbformat.sign import NotebookNotary

    place = Path(jupyter_data_dir())
    with contextlib.suppress(OSError):
        place.mkdir(parents=True, exist_ok=True)
        notary = NotebookNotary(data_dir=str(place))  # found by itself it would configure this process's logging
        for name, content in originals().items():
            if name.endswith(".ipynb") and (folder / name).read_bytes() == content:
                notary.sign(nbformat.reads(content.decode(), as_version=4))


def jupyterlab(folder: Path, port: int, browser: bool) -> list[str]:
    """The command that opens JupyterLab on the first copy, and serves nothing but the working folder.

    >>> jupyterlab(Path("/tmp"), 8888, browser=True)[3:6]
    ['jupyterlab', '--port=8888', '--ServerApp.root_dir=/tmp']
    """
    options = [f"--port={port}", f"--ServerApp.root_dir={folder.resolve()}", f"--LabApp.default_url=/lab/tree/{FIRST}"]
    options += [] if browser else ["--no-browser"]
    options += ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # not on Windows
    return [sys.executable, "-P", "-m", "jupyterlab", *options]


def settings() -> dict[str, str]:
    """The environment variables that name the package's settings and page template, then those of this process.

    They are defaults: what a user sets in JupyterLab comes before them.

    >>> {name: Path(paths.split(os.pathsep)[0]).name for name, paths in settings().items()}
    {'JUPYTER_CONFIG_PATH': 'lab', 'JUPYTER_PATH': 'lab'}
    """
    theirs = {name: os.environ.get(name) for name in ("JUPYTER_CONFIG_PATH", "JUPYTER_PATH")}
    ours = str(Path(__file__).with_name("lab"))
    return {name: os.pathsep.join([ours, *([paths] if paths else [])]) for name, paths in theirs.items()}


def to_page(notebook: Path, page: Path) -> None:
    """Write a notebook as an HTML page on which folded code and outputs stay folded.

    Args:
      notebook: a file of nbformat 4.
      page: the file to write; one that is there is replaced.

    Raises:
      OSError: the notebook cannot be read, or the page not be written.
      nbformat.reader.NotJSONError: the file is no notebook.
    """
    from nbconvert import HTMLExporter

    templates = str(Path(__file__).with_name("lab") / "nbconvert/templates")
    exporter = HTMLExporter(template_name="dpnotes", extra_template_basedirs=[templates])
    files.write({page: exporter.from_filename(str(notebook))[0].encode()})


def carried() -> list[Path]:
    """The files beside the package that a wheel carries: notebooks, results and pages.

    >>> all(path.is_relative_to(notebooks_folder().parent) for path in carried())
    True
    """
    results = [*notebooks_folder().glob("results/*.npz"), *notebooks_folder().glob("results/*.json")]
    return sorted([*_paths().values(), *results])


def _paths() -> dict[str, Path]:
    """The path of the original of each name."""
    folder = notebooks_folder()
    pages = folder.parent / "docs"
    named = {path.relative_to(folder).as_posix(): path for path in notebooks()}
    return named | {f"docs/{path.relative_to(pages).as_posix()}": path for path in sorted(pages.rglob("*.md"))}


def _mended(old: str, content: bytes, places: dict[str, str]) -> bytes:
    """A notebook or page whose links lead to copies; a link to a file without a copy becomes plain text.

    Args:
      old: its name in the repository.
      content: the content of the file.
      places: maps names in the repository to names in a working folder.
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
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = _LINK.sub(mend, "".join(cell["source"])).splitlines(keepends=True)
    return (json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _set_aside(folder: Path, names: Iterable[str], today: dict[str, bytes]) -> Path | None:
    """Move files that differ from today's originals into a new folder beside them; return it, or None if all agree."""
    found = [name for name in names if (path := folder / name).is_file() and path.read_bytes() != today.get(name, b"")]
    if not found:
        return None
    backup = folder / f"backup_{datetime.datetime.now():%Y-%m-%d_%H%M%S_%f}"
    backup.mkdir()  # a second folder in the same microsecond is an error, and nothing is moved
    for name in sorted(found):
        (backup / name).parent.mkdir(parents=True, exist_ok=True)
        os.rename(folder / name, backup / name)
    return backup
