"""Files are read whole or refused, by a one-line error with the path; a full disk leaves the old file unchanged."""

import errno
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpnotes.cli import gpu
from dpnotes.notebook import copies
from dpnotes.util import files

resource = pytest.importorskip("resource")  # which Windows lacks

STATE = bytes(random.Random(0).randrange(256) for _ in range(3000))
MANIFEST = {"cell": {"index": 3, "rate": 1e-05}, "name": "Schrödinger", "seconds": 0.25, "spent": []}


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Limit the size of files in the kernel, which then refuses to write as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def refused(read: Callable[[Path], object], path: Path) -> str:
    with pytest.raises(files.DamagedFileError) as caught:
        read(path)
    message = str(caught.value)
    assert str(path) in message and "\n" not in message
    return message


# ---------------------------------------------------------------- written whole or not at all
def test_what_is_written_is_there_and_nothing_beside_it(tmp_path: Path):
    one, two = tmp_path / "new" / "one", tmp_path / "two"
    files.write({one: b"1", two: b"2"})
    files.write({two: b"3"}, mode=0o600)
    assert one.read_bytes() == b"1" and two.read_bytes() == b"3"
    assert one.stat().st_mode & 0o777 == 0o644 and two.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["new", "one", "two"]


def test_a_link_stays_a_link_to_what_was_written(tmp_path: Path):
    place, link = tmp_path / "large_disk" / "run.pt", tmp_path / "run.pt"
    files.write({place: b"old"})
    link.symlink_to(place)
    files.write({link: b"new"}, mode=0o600)
    assert link.is_symlink() and place.read_bytes() == b"new" and place.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in place.parent.iterdir()] == ["run.pt"]


def test_on_a_full_disk_both_old_files_stay_and_the_one_without_room_is_named(tmp_path: Path):
    small, large = tmp_path / "small", tmp_path / "large"
    files.write({small: b"old", large: b"old"})
    with largest_file(4096), pytest.raises(OSError, match=str(large)) as caught:
        files.write({small: b"new", large: bytes(10_000)})
    assert caught.value.errno == errno.EFBIG and caught.value.filename == str(large)
    assert small.read_bytes() == large.read_bytes() == b"old" and len([*tmp_path.iterdir()]) == 2
    files.write({small: b"new", large: bytes(10_000)})  # the control: with room it is written
    assert small.read_bytes() == b"new"


@pytest.mark.parametrize("call", ["os.fsync", "os.replace", "tempfile.mkstemp", "os.chmod"])
def test_whatever_fails_the_path_that_was_asked_for_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "some temporary name")

    files.write({tmp_path / "note": b"old"})
    monkeypatch.setattr(call, full)
    with pytest.raises(OSError, match="No space left") as caught:
        files.write({tmp_path / "note": b"new"})
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(tmp_path / "note")
    assert (tmp_path / "note").read_bytes() == b"old" and len([*tmp_path.iterdir()]) == 1


# ---------------------------------------------------------------- damage
def damaged(content: bytes, seed: int) -> Iterator[bytes]:
    """Yield every cut of the first and last hundred bytes, one extra byte, and 300 single flipped bits."""
    yield from (content[:size] for size in (*range(100), *range(len(content) - 100, len(content))))
    yield content + b"\n"
    draws = random.Random(seed)
    for _ in range(300):
        other = bytearray(content)
        other[draws.randrange(len(content))] ^= 1 << draws.randrange(8)
        yield bytes(other)


def test_every_damage_of_a_sealed_file_is_refused(tmp_path: Path):
    path = tmp_path / "state"
    for other in damaged(files.sealed(STATE), seed=1):
        path.write_bytes(other)
        refused(files.unsealed, path)
    for content in (STATE, b"", b"\n" * 300):  # the control; also for no content, and for line breaks
        files.write({path: files.sealed(content)})
        assert files.unsealed(path) == content


@pytest.mark.slow
def test_every_damage_of_a_sealed_json_file_is_refused(tmp_path: Path):
    path, content = tmp_path / "plan.json", files.sealed_json(MANIFEST)
    for other in damaged(content, seed=2):
        path.write_bytes(other)
        refused(files.unsealed_json, path)
    path.write_bytes(content)
    assert files.unsealed_json(path) == MANIFEST, "the control"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"3", b"{}", b"\x00\xff", b"[" * 100_000, b'{"rate": NaN}', b'{"manifest_sha256": 3}'],
)
def test_what_is_no_sealed_json_is_refused(tmp_path: Path, content: bytes):
    (tmp_path / "plan.json").write_bytes(content)
    refused(files.unsealed_json, tmp_path / "plan.json")


def test_what_was_edited_is_refused_and_so_is_what_belongs_elsewhere(tmp_path: Path):
    path = tmp_path / "plan.json"
    path.write_bytes(files.sealed_json(MANIFEST).replace(b"0.25", b"0.26"))
    refused(files.unsealed_json, path)
    path.write_bytes(json.dumps(json.loads(files.sealed_json(MANIFEST))).encode())
    refused(files.unsealed_json, path)  # the same entries with other spaces
    path.write_bytes(files.sealed_json(MANIFEST))
    assert "another cell, key" in refused(lambda path: files.unsealed_json(path, cell={}, spent=[], key=1), path)
    assert files.unsealed_json(path, cell=MANIFEST["cell"], spent=[]) == MANIFEST, "the control"


# ---------------------------------------------------------------- systems that cannot do everything
@pytest.fixture(params=["Windows", "a network file system"])
def other_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A system that opens no folder, or one that does not sync folders, and has no groups of processes."""
    plain_open, plain_sync = os.open, os.fsync

    def opened(path: os.PathLike[str] | str, *rest: int) -> int:
        if Path(path).is_dir() and request.param == "Windows":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return plain_open(path, *rest)

    def synced(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EINVAL, "Invalid argument")
        plain_sync(descriptor)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "fsync", synced)
    for name in ("geteuid", "killpg"):
        monkeypatch.delattr(os, name)
    return request.param


def test_files_are_written_where_folders_cannot_be_synced(tmp_path: Path, other_system: str):
    path = tmp_path / "new" / "state.pt"
    files.write({path: files.sealed(STATE)})
    assert files.unsealed(path) == STATE
    with pytest.raises(IsADirectoryError):
        files.write({tmp_path: STATE})


def test_a_lab_is_started_and_a_program_ended_there(tmp_path: Path, other_system: str):
    assert "--allow-root" not in copies.jupyterlab(tmp_path, 8888, browser=False)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    gpu._signal(process, None)
    assert process.wait(10) != 0


def test_control_another_error_of_a_sync_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fails(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="Input/output error"):
        files.write({tmp_path / "state.pt": STATE})
