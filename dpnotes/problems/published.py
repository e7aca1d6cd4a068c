"""Published files: found on this machine or downloaded, and used only if their sha256 is the published one.

A file is looked for, in this order, in `$DPNOTES_DATA/<folder>`, `$DPNOTES_DATA` and `<folder>` of the cache
(`$DPNOTES_CACHE`, by default pooch's folder for this package), then downloaded into the cache.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpnotes.util.files import cache_folder


class DataNotFound(FileNotFoundError):
    """The error for a file that is neither on this machine nor downloadable; its message says where to put the file."""


class DataCorrupt(OSError):
    """The error for a file that is not the published one; its message names the file and the difference."""


@dataclass(frozen=True)
class PublishedFile:
    """A published file, with the sha256 of its content.

    Args:
      name: its file name, without folders.
      sha256: the sha256 of its content, in hexadecimal digits.
      urls: download addresses, in the order in which they are tried; empty if it is published nowhere.

    Example:
      >>> print(PublishedFile("example.txt", "9f86d081"))
      example.txt sha256:9f86d081
    """

    name: str
    sha256: str
    urls: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} sha256:{self.sha256}"


def files_at(sums: Mapping[str, str], *folders: str) -> tuple[PublishedFile, ...]:
    """The files with these sha256, by name, each of which is published in these folders.

    Example:
      >>> files_at({"a.txt": "9f86d081"}, "https://example.org/")[0].urls
      ('https://example.org/a.txt',)
    """
    return tuple(
        PublishedFile(name, sha256, tuple(folder + name for folder in folders)) for name, sha256 in sums.items()
    )


def fetch(folder: str, file: PublishedFile) -> Path:
    """The path of a published file, which is downloaded if it is not on this machine.

    Args:
      folder: its folder within `$DPNOTES_DATA` and the cache.
      file: the published file.

    Raises:
      DataNotFound: when the file is not on this machine and cannot be downloaded.
      DataCorrupt: when the file on this machine is not the published one.
    """
    cache = cache_folder() / folder
    for place in (*_local_folders(folder), cache):
        if (place / file.name).is_file():
            _check(place / file.name, file)
            return place / file.name
    failures = []
    for url in file.urls:
        import pooch

        try:
            return Path(pooch.retrieve(url, f"sha256:{file.sha256}", fname=file.name, path=cache))
        except (OSError, ValueError) as error:  # no network, no such page, a read-only cache, other bytes
            failures.append(f"{url}: {type(error).__name__}")
    if not file.urls:
        reason, advice = "it is published nowhere", "Put it, as it is,"
    else:
        reason = f"no download succeeded ({'; '.join(failures)})"
        advice = f"Fetch {file.urls[0]} on a machine with a network and put it, as it is,"
    raise DataNotFound(
        f"Expected the {folder} file {file}, found it neither in DPNOTES_DATA={os.environ.get('DPNOTES_DATA')!r} "
        f"nor in the cache, and {reason}. {advice} into {cache} or into $DPNOTES_DATA/{folder}."
    )


def find(folder: str, files: Sequence[PublishedFile]) -> tuple[bool, str, str]:
    """Return whether all files are present as published, their folder (or where to put them), and advice if not."""
    places = [*_local_folders(folder), cache_folder() / folder]
    paths: list[Path] = []
    for file in files:
        path = next((place / file.name for place in places if (place / file.name).is_file()), None)
        if path is None:
            how = "downloaded when first needed; without a network put it" if file.urls else "published nowhere: put it"
            return False, str(places[0]), f"{file.name} is missing: it is {how} there by hand."
        paths.append(path)
    try:
        for path, file in zip(paths, files, strict=True):
            _check(path, file)
    except DataCorrupt as error:
        return False, str(paths[0].parent), str(error)
    return True, str(paths[0].parent), ""


def _check(path: Path, file: PublishedFile) -> None:
    with path.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != file.sha256:
        raise DataCorrupt(f"Expected {path} to have sha256 {file.sha256}, found {found}. Delete it and fetch it again.")


def _local_folders(folder: str) -> list[Path]:
    data = os.environ.get("DPNOTES_DATA")
    return [Path(data) / folder, Path(data)] if data else []
