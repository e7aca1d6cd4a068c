"""Atomic writing of files, and detection of damage when they are read.

A file is written under a temporary name, synced to the disk and then renamed: a crash or a full disk leaves the older
file. It contains a sha256 of its content, which is compared before the content is used. This detects accidental damage,
not manipulation: a person who changes a file on purpose can recompute the sha256.
"""

import errno
import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_OWN_DIGEST = "manifest_sha256"  # the entry of a JSON file that holds the sha256 of the others


class DamagedFileError(ValueError):
    """The error for a stored file whose content is not what was written."""


def cache_folder(own: str = "", part: str = "") -> Path:
    """The folder of a part of the cache: `$own`, or `part` of `$DPNOTES_CACHE` or of the user's cache.

    Example:
      >>> cache_folder(part="cells").name
      'cells'
    """
    import platformdirs

    if chosen := os.environ.get(own):
        return Path(chosen)
    return Path(os.environ.get("DPNOTES_CACHE") or platformdirs.user_cache_path("dpnotes")) / part


def write(contents: Mapping[Path, bytes], mode: int = 0o644) -> None:
    """Write several files: all are on the disk under temporary names before the first one is renamed.

    Where a path is a symbolic link, the file that it points to is replaced.

    Args:
      contents: the content by path; missing folders are created.
      mode: the permission bits of the files.

    Raises:
      OSError: with the path, for example on a full disk; the older files stay.

    Example:
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     write({Path(folder) / "new" / "note.txt": b"kept"})
      ...     (Path(folder) / "new" / "note.txt").read_bytes()
      b'kept'
    """
    with _temporary_names(contents, mode) as names:
        for path, content in contents.items():
            with _named(path), names[path].open("wb") as file:
                write_and_sync(file, content)
        for path in contents:
            with _named(path):
                os.replace(names[path], _linked(path))
    for path in contents:
        with _named(path):
            _sync(_linked(path).parent)


def sealed(content: bytes) -> bytes:
    """The content preceded by a line with its sha256; `unsealed` reads such a file.

    Example:
      >>> sealed(b"state")[:30]
      b'dpnotes sha256 4ba69735ca53765'
    """
    return _seal(content) + content


def unsealed(path: Path) -> bytes:
    """The content of a file that was written with `sealed`.

    Raises:
      DamagedFileError: if the content is not what was written.
      FileNotFoundError: if there is no file.

    Example:
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     write({Path(folder) / "run.pt": sealed(b"state")})
      ...     unsealed(Path(folder) / "run.pt")
      b'state'
    """
    stored = path.read_bytes()
    start = stored.find(b"\n") + 1
    content = stored[start:]
    if stored[:start] != _seal(content):
        raise DamagedFileError(
            f"Expected {path} to match the sha256 in its first line; it was changed or cut short, or is of an older "
            "version."
        )
    return content


def sealed_json(body: Mapping[str, Any]) -> bytes:
    """The canonical JSON file of a dict, with one more entry for the sha256; `unsealed_json` reads it.

    Args:
      body: JSON only, no NaN.

    Example:
      >>> print(sealed_json({"jobs": 2}).decode(), end="")
      {
       "jobs": 2,
       "manifest_sha256": "ea07bd4df78c5c2d910a82aa60d7bd01cbabcd3d1bfebaada9bd6efaa9cdea0b"
      }
    """
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    return (json.dumps({**body, _OWN_DIGEST: digest}, indent=1, sort_keys=True) + "\n").encode()


def unsealed_json(path: Path, **about: Any) -> dict[str, Any]:
    """The entries of a sealed JSON file.

    Args:
      path: of the file.
      about: entries that the file must have, to identify it as the expected one.

    Raises:
      DamagedFileError: if the file is not what was written, to the byte, or has other entries than `about`.
      FileNotFoundError: if there is no file.

    Example:
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     write({Path(folder) / "plan.json": sealed_json({"jobs": 2})})
      ...     unsealed_json(Path(folder) / "plan.json", jobs=2)
      {'jobs': 2}
    """
    content = path.read_bytes()
    try:
        body = json.loads(content)
        whole = isinstance(body, dict) and body.pop(_OWN_DIGEST, None) and content == sealed_json(body)
    except (ValueError, RecursionError):
        whole = False
    if not whole:
        raise DamagedFileError(
            f"Expected {path} to match its own sha256; it was changed or cut short, or is of an older version."
        )
    if other := [name for name, expected in about.items() if body.get(name) != expected]:
        raise DamagedFileError(f"Expected {path} to be the file for this use; it has another {', '.join(other)}.")
    return body


def _seal(content: bytes) -> bytes:
    return f"dpnotes sha256 {hashlib.sha256(content).hexdigest()}\n".encode()


def write_and_sync(file: io.BufferedWriter, content: bytes) -> None:
    """Write a content to an open file, and wait until it is on the disk.

    Example:
      >>> with tempfile.TemporaryDirectory() as folder, (Path(folder) / "note.txt").open("wb") as file:
      ...     write_and_sync(file, b"kept")
    """
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Sync the directory entries of a folder to the disk, where the system can: Windows opens no folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems sync files alone
            raise
    finally:
        os.close(descriptor)


def _linked(path: Path) -> Path:
    """The file that a path points to after resolving symbolic links, which stay as they are."""
    return Path(os.path.realpath(path))


@contextmanager
def _temporary_names(paths: Iterable[Path], mode: int) -> Iterator[dict[Path, Path]]:
    names: dict[Path, Path] = {}
    try:
        for path in paths:
            with _named(path):
                folder = _linked(path).parent
                made = [each for each in (folder, *folder.parents) if not each.exists()]
                folder.mkdir(parents=True, exist_ok=True)
                for each in made:  # a folder's entry is stored in its parent
                    _sync(each.parent)
                descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=folder)
                os.close(descriptor)
                names[path] = Path(name)
                os.chmod(name, mode)
        yield names
    finally:
        for name in names.values():
            name.unlink(missing_ok=True)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """A context that puts the requested path into an OSError, which has none or a temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
