"""Data sets: located, verified, parsed, reduced; offline, corrupt and unknown ones raise errors with their names."""

import gzip
import hashlib
import io
import math
import os
import pickle
import struct
import tarfile
import threading
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dpnotes.problems import datasets, pretrained, text
from dpnotes.problems.datasets import DataCorrupt, DataNotFound, Dataset, cifar, cola, mnist
from dpnotes.problems.published import PublishedFile

REAL = Path(os.environ.get("DPNOTES_DATA", "/nowhere"))
NOWHERE = "http://127.0.0.1:9/"  # the discard port, which refuses at once


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def published(folder: Path, names: Iterable[str], *mirrors: str) -> tuple[PublishedFile, ...]:
    """Return the files of a folder as files published on the mirrors."""
    sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    return tuple(PublishedFile(name, sha, tuple(mirror + name for mirror in mirrors)) for name, sha in sums.items())


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with four small files in MNIST's format, whose sha256 are the expected ones, and no network."""
    folder = tmp_path / "served"
    folder.mkdir()
    images = np.arange(3 * 4 * 4).reshape(3, 4, 4) * 5
    content = {
        "train-images-idx3-ubyte.gz": images,
        "train-labels-idx1-ubyte.gz": np.array([3, 5, 0]),
        "t10k-images-idx3-ubyte.gz": images[:2],
        "t10k-labels-idx1-ubyte.gz": np.array([5, 3]),
    }
    for name, array in content.items():
        (folder / name).write_bytes(gzip.compress(idx(array), mtime=0))
    monkeypatch.setattr(mnist, "FILES", published(folder, content, NOWHERE))
    monkeypatch.setenv("DPNOTES_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DPNOTES_DATA", raising=False)
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def server(small: Path) -> Iterator[str]:
    """A web server with the same files."""
    with HTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(small))) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}/"
        http.shutdown()
        thread.join()


@pytest.mark.slow
def test_digits_are_always_there() -> None:
    digits = datasets.load("digits")
    assert (len(digits.train_inputs), len(digits.test_inputs), digits.num_classes) == (1437, 360, 10)
    assert (float(digits.train_inputs.min()), float(digits.train_inputs.max())) == (0, 1)
    assert sorted(set(digits.test_labels.tolist())) == list(range(10))
    location = datasets.locate("digits")
    assert location.found
    assert Path(location.path).is_dir()
    # The split is part of every result on digits and must not change.
    assert digits.fingerprint == "18c4a3bbeb661d255888904b0c8439394c6e64c9d12acbe82dfe0eed53a0a016"


@pytest.mark.parametrize("inside", ("", "mnist"))
def test_local_copies_are_used(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str) -> None:
    folder = tmp_path / "data" / inside
    folder.parent.mkdir(exist_ok=True)
    small.rename(folder)
    monkeypatch.setenv("DPNOTES_DATA", str(tmp_path / "data"))
    loaded = datasets.load("mnist")
    assert loaded.train_labels.tolist() == [3, 5, 0]
    torch.testing.assert_close(loaded.train_inputs[1], torch.arange(16, 32) * 5 / 255)
    assert loaded.licence == "CC BY-SA 3.0"
    location = datasets.locate("mnist")
    assert (location.found, Path(location.path), location.advice) == (True, folder, "")
    assert not (tmp_path / "cache").exists()


def test_download_goes_into_the_cache_once(server: str, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not datasets.locate("mnist").found
    names = [file.name for file in mnist.FILES]
    monkeypatch.setattr(mnist, "FILES", published(small, names, NOWHERE, server))  # the first mirror is down
    first = datasets.load("mnist")
    assert datasets.locate("mnist").found
    monkeypatch.setattr(mnist, "FILES", published(small, names, NOWHERE))
    assert datasets.load("mnist").fingerprint == first.fingerprint


def test_corrupt_download_is_refused(server: str, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mnist, "FILES", published(small, [file.name for file in mnist.FILES], server))
    (small / "train-images-idx3-ubyte.gz").write_bytes(b"<html>moved</html>")
    with pytest.raises(DataNotFound, match="train-images-idx3-ubyte.gz"):
        datasets.load("mnist")


def test_offline_says_which_file_goes_where(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for file in list(small.iterdir()):
        if "t10k-labels" not in file.name:
            file.rename(folder / file.name)
    monkeypatch.setenv("DPNOTES_DATA", str(folder.parent))
    with pytest.raises(FileNotFoundError) as caught:
        datasets.load("mnist")
    assert isinstance(caught.value, DataNotFound)
    message = str(caught.value)
    for part in ("t10k-labels-idx1-ubyte.gz", str(folder.parent), str(tmp_path / "cache" / "mnist"), NOWHERE):
        assert part in message
    location = datasets.locate("mnist")
    assert not location.found
    assert Path(location.path) == folder
    assert "t10k-labels-idx1-ubyte.gz" in location.advice


@pytest.mark.parametrize("where", ("data", "cache"))
def test_corrupt_file_is_named_with_both_sums(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    folder = tmp_path / where / "mnist"
    folder.parent.mkdir()
    small.rename(folder)
    monkeypatch.setenv("DPNOTES_DATA", str(tmp_path / "data"))
    broken = folder / "t10k-images-idx3-ubyte.gz"
    expected = hashlib.sha256(broken.read_bytes()).hexdigest()
    broken.write_bytes(broken.read_bytes()[:-1] + b"x")
    with pytest.raises(DataCorrupt) as caught:
        datasets.load("mnist")
    message = str(caught.value)
    for part in (str(broken), expected, hashlib.sha256(broken.read_bytes()).hexdigest()):
        assert part in message
    location = datasets.locate("mnist")
    assert not location.found
    assert str(broken) in location.advice


@pytest.mark.parametrize(
    ("content", "message"),
    (
        (b"", "start as an idx file"),
        (b"\x00\x00\x08", "start as an idx file"),
        (b"\x00\x00\x0d\x01\x00\x00\x00\x01\x07", "start as an idx file"),  # floats
        (b"\x00\x00\x08\x02\x00\x00\x00\x01", "start as an idx file"),  # cut off in the sizes
        (b"\x00\x00\x08\x01\x00\x00\x00\x02\x07", r"hold \(2,\) numbers, found 1"),
        (b"\x00\x00\x08\x01\x00\x00\x00\x01\x07\x07", r"hold \(1,\) numbers, found 2"),
    ),
)
def test_malformed_idx_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(DataCorrupt, match=f"Expected labels to {message}"):
        mnist.parse_idx(content, "labels")


def test_idx_round_trip() -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    np.testing.assert_array_equal(mnist.parse_idx(idx(array), "array"), array)


@pytest.mark.skipif(
    not (REAL / "mnist").is_dir(), reason="DPNOTES_DATA names no folder with mnist/: real MNIST not tested"
)
@pytest.mark.slow
def test_real_mnist() -> None:
    assert datasets.locate("mnist").found
    loaded = datasets.load("mnist")
    assert (loaded.train_inputs.shape, loaded.test_inputs.shape) == ((60_000, 784), (10_000, 784))
    assert loaded.train_labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert float(loaded.train_inputs.max()) == 1
    mnist35 = datasets.keep_classes(loaded, (3, 5))
    assert (len(mnist35.train_inputs), len(mnist35.test_inputs)) == (11_552, 1_902)


def test_unknown_names_list_the_known_ones() -> None:
    for call in (datasets.load, datasets.locate):
        with pytest.raises(ValueError, match="name='imagenet' to be one of: digits, mnist, cifar10"):
            call("imagenet")


def test_keep_classes_relabels_in_the_given_order() -> None:
    digits = datasets.load("digits")
    kept = datasets.keep_classes(digits, (5, 3))
    threes = digits.train_inputs[digits.train_labels == 3]
    assert torch.equal(kept.train_inputs[kept.train_labels == 1], threes)
    assert int((kept.test_labels == 0).sum()) == int((digits.test_labels == 5).sum())
    assert kept.num_classes == 2
    for classes in ((3,), (3, 3), (3, 10), (-1, 3)):
        with pytest.raises(ValueError, match="classes="):
            datasets.keep_classes(digits, classes)


def test_subsets_are_nested_and_seeded() -> None:
    digits = datasets.load("digits")
    large, small = datasets.subset(digits, 200, seed=7), datasets.subset(digits, 50, seed=7)
    assert torch.equal(large.train_inputs[:50], small.train_inputs)
    assert torch.equal(large.train_labels[:50], small.train_labels)
    assert not torch.equal(datasets.subset(digits, 50, seed=8).train_inputs, small.train_inputs)
    everything = datasets.subset(digits, 1437, seed=7)
    assert sorted(everything.train_labels.tolist()) == sorted(digits.train_labels.tolist())
    assert torch.equal(small.test_inputs, digits.test_inputs)
    for size in (0, 1438):
        with pytest.raises(ValueError, match=f"num_examples={size}"):
            datasets.subset(digits, size, seed=7)


def test_fingerprint_is_of_the_content() -> None:
    digits = datasets.load("digits")
    assert replace(digits, name="other").fingerprint == digits.fingerprint
    changed = digits.train_inputs.clone()
    changed[0, 0] += 1e-3
    for other in (
        replace(digits, train_inputs=changed),
        replace(digits, num_classes=11),
        replace(digits, train_inputs=digits.test_inputs, train_labels=digits.test_labels),
    ):
        assert other.fingerprint != digits.fingerprint


def test_gaussian_auxiliary_data_can_be_learnt_and_are_no_ones() -> None:
    auxiliary = datasets.gaussian_like(2000, 20, 3, seed=0)
    assert auxiliary.train_inputs.shape == auxiliary.test_inputs.shape == (2000, 20)
    assert abs(float(auxiliary.train_inputs.var()) - 1) < 0.03
    assert auxiliary.train_labels.bincount().min() > 300
    # Least squares on the training half predicts the test half: both have the same teacher, but different inputs.
    one_hot = torch.nn.functional.one_hot(auxiliary.train_labels).float()
    fit = torch.linalg.lstsq(auxiliary.train_inputs, one_hot - one_hot.mean(0)).solution
    assert float(((auxiliary.test_inputs @ fit).argmax(1) == auxiliary.test_labels).float().mean()) > 0.85
    assert not torch.equal(auxiliary.train_inputs, auxiliary.test_inputs)
    assert datasets.gaussian_like(2000, 20, 3, seed=0).fingerprint == auxiliary.fingerprint
    assert datasets.gaussian_like(2000, 20, 3, seed=1).fingerprint != auxiliary.fingerprint
    with pytest.raises(ValueError, match="num_classes=1"):
        datasets.gaussian_like(10, 2, 1, seed=0)


@pytest.mark.parametrize(
    ("change", "message"),
    (
        ({"train_inputs": torch.tensor([[math.nan, 0.0]])}, "train_inputs of toy without NaN"),
        ({"test_inputs": torch.tensor([[math.inf, 0.0]])}, "test_inputs of toy without NaN"),
        ({"train_labels": torch.tensor([0, 1])}, "train_inputs: 1, train_labels: 2"),
        ({"test_labels": torch.tensor([], dtype=torch.int64)}, "test_inputs: 1, test_labels: 0"),
        ({"test_inputs": torch.zeros(1, 3)}, "test_inputs.shape"),
        ({"train_inputs": torch.zeros(1), "test_inputs": torch.zeros(1)}, "train_inputs.shape"),
        ({"train_labels": torch.tensor([2])}, "train_labels of toy in 0 ... 1"),
        ({"num_classes": 1}, "num_classes=1 >= 2"),
    ),
)
def test_bad_data_are_named(change: dict, message: str) -> None:
    toy = Dataset("toy", torch.zeros(1, 2), torch.tensor([0]), torch.ones(1, 2), torch.tensor([1]), 2, "none", "here")
    with pytest.raises(ValueError, match=message):
        replace(toy, **change)


def test_images_are_data_too() -> None:
    images, labels = torch.rand(6, 3, 2, 2), torch.tensor([0, 1, 2, 0, 1, 2])
    toy = Dataset("toy", images, labels, images, labels, 3, "none", "here")
    assert datasets.subset(toy, 4, seed=0).train_inputs.shape == (4, 3, 2, 2)
    assert torch.equal(datasets.keep_classes(toy, (2, 0)).test_inputs, images[labels != 1])
    whole = datasets.normalise(toy, mean=(0.25, 0.5, 0.75), std=(1, 2, 4))
    torch.testing.assert_close(whole.train_inputs[:, 2], (images[:, 2] - 0.75) / 4)
    torch.testing.assert_close(whole.test_inputs[:, 0], images[:, 0] - 0.25)
    assert "normalised" in whole.name and torch.equal(toy.train_inputs, images), "the old one stays as it was"
    for bad, message in (
        (replace(toy, train_inputs=images.flatten(1), test_inputs=images.flatten(1)), "channels, height, width"),
        (replace(toy, train_inputs=images[:, :1], test_inputs=images[:, :1]), "to be 1 numbers each"),
    ):
        with pytest.raises(ValueError, match=message):
            datasets.normalise(bad, datasets.IMAGENET_MEAN, datasets.IMAGENET_STD)
    with pytest.raises(ValueError, match="std=0.0 > 0"):
        datasets.normalise(toy, (0.5, 0.5, 0.5), (0.5, 0.0, 0.5))


# ---------------------------------------------------------------- CIFAR
PurePython: Any = pickle._Pickler


class Python2Pickler(PurePython):
    """A pickler that writes Python 2's format, with every string as bytes, and an opcode that Python 3 never writes."""

    dispatch = PurePython.dispatch.copy()

    def save_bytes(self, content: bytes) -> None:
        self.write(pickle.BINSTRING + struct.pack("<i", len(content)) + content)
        self.memoize(content)

    def save_str(self, text: str) -> None:
        self.save_bytes(text.encode())

    dispatch[bytes] = save_bytes
    dispatch[str] = save_str


def python2_pickle(value: object) -> bytes:
    file = io.BytesIO()
    Python2Pickler(file, protocol=2).dump(value)
    return file.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def archive(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as opened:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            opened.addfile(info, io.BytesIO(content))


def images(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder and an empty cache, without a network."""
    monkeypatch.setenv("DPNOTES_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DPNOTES_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def test_cifar10_is_read_in_the_order_of_its_batches(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    batches = {name: images(3, seed) for seed, name in enumerate(names)}
    members = {
        f"cifar-10-batches-py/{name}": python2_pickle({"data": array.reshape(3, -1), "labels": [seed, 9, 0]})
        for seed, (name, array) in enumerate(batches.items())
    }
    archive(data / "cifar-10-python.tar.gz", members)
    monkeypatch.setattr(cifar, "CIFAR10_FILES", published(data, ["cifar-10-python.tar.gz"]))
    assert datasets.locate("cifar10").found
    loaded = datasets.load("cifar10")
    assert loaded.train_labels.tolist() == [0, 9, 0, 1, 9, 0, 2, 9, 0, 3, 9, 0, 4, 9, 0]
    assert loaded.test_labels.tolist() == [5, 9, 0]
    expected = torch.from_numpy(np.concatenate(list(batches.values())[:-1])) / 255
    torch.testing.assert_close(loaded.train_inputs, expected)
    assert loaded.name == "cifar10" and loaded.num_classes == 10


def test_cifar100_has_its_fine_labels(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = {"data": images(2, 0).reshape(2, -1), "fine_labels": [99, 3], "coarse_labels": [1, 1]}
    archive(
        data / "cifar-100-python.tar.gz",
        {f"cifar-100-python/{name}": python2_pickle(part) for name in ("train", "test")},
    )
    monkeypatch.setattr(cifar, "CIFAR100_FILES", published(data, ["cifar-100-python.tar.gz"]))
    loaded = datasets.load("cifar100")
    assert (loaded.train_labels.tolist(), loaded.num_classes) == ([99, 3], 100)
    assert loaded.test_inputs.shape == (2, 3, 32, 32)


@pytest.mark.parametrize(
    ("members", "message"),
    (
        ({}, "to be an archive with"),
        ({"cifar-100-python/train": b"no pickle"}, "to be a pickle of plain data"),
        ({"cifar-100-python/train": python2_pickle({"data": [1]})}, "to be an archive with|to hold images"),
        (
            {
                f"cifar-100-python/{name}": python2_pickle({"data": images(2, 0), "fine_labels": [0]})
                for name in ("train", "test")
            },
            "to hold images of 3 x 32 x 32 and a label each",
        ),
    ),
)
def test_a_malformed_archive_is_named(
    data: Path, monkeypatch: pytest.MonkeyPatch, members: dict[str, bytes], message: str
) -> None:
    archive(data / "cifar-100-python.tar.gz", members)
    monkeypatch.setattr(cifar, "CIFAR100_FILES", published(data, ["cifar-100-python.tar.gz"]))
    with pytest.raises(DataCorrupt, match=message):
        datasets.load("cifar100")


@pytest.mark.parametrize("name", ("cifar10", "cifar100"))
def test_another_archive_is_refused_unread_with_both_sums(data: Path, name: str) -> None:
    file = {"cifar10": cifar.CIFAR10_FILES, "cifar100": cifar.CIFAR100_FILES}[name][0]
    archive(data / file.name, {"cifar-100-python/train": pickle.dumps(Malice())})
    with pytest.raises(DataCorrupt) as caught:
        datasets.load(name)
    for part in (file.sha256, hashlib.sha256((data / file.name).read_bytes()).hexdigest()):
        assert part in str(caught.value)


class Malice:
    """An object whose pickle runs code when it is loaded."""

    def __reduce__(self) -> tuple:
        return os.putenv, ("DPNOTES_TEST_OF_MALICE", "1")


def test_a_malicious_pickle_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(os, "putenv", lambda *arguments: called.append(arguments))
    monkeypatch.setattr(os.putenv, "__module__", "os")
    monkeypatch.setattr(os.putenv, "__qualname__", "putenv")
    content = pickle.dumps({"data": Malice()})
    with pytest.raises(DataCorrupt, match="os.putenv is not allowed"):
        cifar.unpickle(content, "batch")
    assert not called
    pickle.loads(content)
    assert called, "control: the ordinary unpickler runs it"


def test_arrays_survive_the_restricted_unpickler_without_numpy_s_help() -> None:
    for array in (images(2, 1), np.asfortranarray(np.arange(6, dtype=np.uint8).reshape(2, 3))):
        for content, key in ((python2_pickle({"x": array}), b"x"), (pickle.dumps({"x": array}, protocol=4), "x")):
            np.testing.assert_array_equal(cifar.unpickle(content, "array")[key], array)
    with pytest.raises(DataCorrupt, match="plain data"):
        cifar.unpickle(pickle.dumps(np.arange(3.0), protocol=4), "floats")


# ---------------------------------------------------------------- the JPEG-coded copy
def jpeg(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(array.transpose(1, 2, 0)).save(file, "JPEG", quality=95)
    return file.getvalue()


@pytest.fixture
def copy(data: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """A copy of 7 plain images, one grey each, sorted by split and class; returns the greys in the official order."""
    labels = {True: np.array([2, 0, 1, 0], np.uint8), False: np.array([1, 0, 1], np.uint8)}
    greys = {True: np.array([10, 60, 110, 160]), False: np.array([200, 90, 30])}
    order = {split: np.argsort(labels[split], kind="stable") for split in labels}
    files = [jpeg(np.full((3, 32, 32), grey, np.uint8)) for split in labels for grey in greys[split][order[split]]]
    np.savez(
        data / "cifar10-jpeg.npz",
        jpeg=np.frombuffer(b"".join(files), np.uint8),
        offsets=np.cumsum([0, *map(len, files)]),
        labels=np.concatenate([labels[split][order[split]] for split in labels]),
        train=np.array([True] * 4 + [False] * 3),
    )
    np.save(data / "train_labels.npy", labels[True])
    np.save(data / "test_labels.npy", labels[False])
    monkeypatch.setattr(cifar, "CIFAR10_JPEG_FILES", published(data, COPY))
    return np.concatenate([greys[True], greys[False]])


COPY = ("cifar10-jpeg.npz", "train_labels.npy", "test_labels.npy")


def test_the_copy_comes_in_the_official_order_and_says_what_it_is(copy: np.ndarray, tmp_path: Path) -> None:
    loaded = datasets.load("cifar10-jpeg")
    assert loaded.train_labels.tolist() == [2, 0, 1, 0] and loaded.test_labels.tolist() == [1, 0, 1]
    mine = torch.cat([loaded.train_inputs, loaded.test_inputs]).mean((1, 2, 3)) * 255
    np.testing.assert_allclose(mine, copy, atol=1)
    assert "not the official bytes" in loaded.name and "not the official bytes" in loaded.source
    (cached,) = (tmp_path / "cache" / "cifar10").iterdir()
    before = cached.read_bytes()
    # The second time, decoded images come from the cache; a damaged cache is decoded again.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cifar, "decode_jpegs", lambda *_: pytest.fail("decoded twice"))
        assert datasets.load("cifar10-jpeg").fingerprint == loaded.fingerprint
    for damaged in (before[: len(before) // 2], before.replace(bytes([10] * 64), bytes([11] * 64)), b""):
        assert damaged != before
        cached.write_bytes(damaged)
        assert datasets.load("cifar10-jpeg").fingerprint == loaded.fingerprint
        assert cached.read_bytes() == before


def test_the_copy_needs_no_cache(copy: np.ndarray, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder would be")
    assert len(datasets.load("cifar10-jpeg").train_inputs) == 4


def test_a_copy_whose_counts_disagree_is_refused(copy: np.ndarray, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(data / "test_labels.npy", np.array([1, 1, 1], np.uint8))
    monkeypatch.setattr(cifar, "CIFAR10_JPEG_FILES", published(data, COPY))
    with pytest.raises(DataCorrupt, match="as many test images of each class"):
        datasets.load("cifar10-jpeg")


def test_a_copy_that_is_missing_or_other_is_named(copy: np.ndarray, data: Path) -> None:
    known = {file.name: file.sha256 for file in cifar.CIFAR10_JPEG_FILES}
    np.save(data / "test_labels.npy", np.array([1, 1, 0], np.uint8))
    with pytest.raises(DataCorrupt, match=known["test_labels.npy"]):
        datasets.load("cifar10-jpeg")
    (data / "test_labels.npy").unlink()
    with pytest.raises(DataNotFound, match=f"test_labels.npy sha256:{known['test_labels.npy']}.*published nowhere"):
        datasets.load("cifar10-jpeg")
    assert "test_labels.npy is missing" in datasets.locate("cifar10-jpeg").advice


def test_what_is_no_jpeg_of_the_size_is_refused() -> None:
    for content in (b"GIF89a", jpeg(np.zeros((3, 16, 16), np.uint8)), jpeg(images(1, 0)[0])[:300]):
        with pytest.raises(DataCorrupt, match="image 0 to be a JPEG"):
            cifar.decode_jpegs(content, np.array([0, len(content)]))


@pytest.mark.skipif(
    not (REAL / "cifar10" / "cifar10-jpeg.npz").is_file(),
    reason="DPNOTES_DATA names no folder with cifar10/cifar10-jpeg.npz: the real copy not tested",
)
class TestTheRealCopy:
    def test_begins_as_cifar10_does(self) -> None:
        assert datasets.locate("cifar10-jpeg").found  # all three sha256
        train_labels, test_labels = (np.load(REAL / "cifar10" / file) for file in COPY[1:])
        assert train_labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]  # frog, truck, truck, deer, ...
        assert test_labels[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
        with np.load(REAL / "cifar10" / COPY[0]) as packed:
            train, _ = cifar.official_order(packed["train"], packed["labels"], (train_labels, test_labels))
            content, offsets = packed["jpeg"].tobytes(), packed["offsets"]
        frog = cifar.decode_jpegs(content, offsets[train[0] : train[0] + 2])[0]
        # The official first image has these pixels at its upper left corner, by channel.
        assert np.abs(frog[:, 0, 0].astype(int) - [59, 62, 63]).max() < 20

    @pytest.mark.slow
    def test_loads_as_a_whole(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DPNOTES_CACHE", str(tmp_path))
        loaded = datasets.load("cifar10-jpeg")
        assert (loaded.train_inputs.shape, loaded.test_inputs.shape) == ((50_000, 3, 32, 32), (10_000, 3, 32, 32))
        assert loaded.train_labels.bincount().tolist() == [5000] * 10
        assert loaded.test_labels.bincount().tolist() == [1000] * 10
        # The official means are 0.4914, 0.4822 and 0.4465.
        means = loaded.train_inputs.mean((0, 2, 3))
        torch.testing.assert_close(means, torch.tensor([0.4914, 0.4822, 0.4465]), atol=2e-3, rtol=0)
        assert datasets.load("cifar10-jpeg").fingerprint == loaded.fingerprint, "from the cache"


# ---------------------------------------------------------------- CoLA
@pytest.mark.parametrize(
    ("content", "message"),
    (
        (b"ad-03\t2\t\tA sentence.\n", "line 1 of part to be source, 0 or 1"),
        (b"ad-03\t1\t\tA sentence.\nad-03\t1\tA sentence.\n", "line 2 of part"),
        (b"", "line 1 of part"),
        (b"ad-03\t1\t\t\xff\n", "part to be UTF-8"),
    ),
)
def test_malformed_sentences_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(DataCorrupt, match=message):
        cola.parse_tsv(content, "part")


def test_an_archive_that_is_not_cola_is_refused(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = data / "cola_public_1.1.zip"
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("cola_public/raw/in_domain_train.tsv", "ad-03\t1\t\tA sentence.\n")
    with pytest.raises(DataCorrupt, match=f"{cola.FILES[0].sha256}, found"):
        datasets.load_cola()
    monkeypatch.setattr(cola, "FILES", published(data, [path.name]))
    with pytest.raises(DataCorrupt, match="in_domain_dev"):
        datasets.load_cola()


@pytest.mark.skipif(
    not (REAL / "cola").is_dir(), reason="DPNOTES_DATA names no folder with cola/: real sentences not tested"
)
def test_real_cola() -> None:
    assert datasets.locate("cola").found
    corpus = datasets.load_cola()
    parts = (corpus.train, corpus.in_domain, corpus.out_of_domain)
    assert [len(part) for part in parts] == [8551, 527, 516]
    assert [int(part.labels.sum()) for part in parts] == [6023, 365, 354]
    assert corpus.train.texts[0] == "Our friends won't buy this analysis, let alone the next one we propose."


def test_the_documentation_lists_every_file() -> None:
    page = (Path(__file__).parents[2] / "docs/experiments.md").read_text()
    files = (
        *mnist.FILES,
        *(*cifar.CIFAR10_FILES, *cifar.CIFAR10_JPEG_FILES, *cifar.CIFAR100_FILES),
        *(*cola.FILES, *pretrained.RESNET18_FILES, *text.BERT_FILES),
    )
    assert not [file.name for file in files if f"| `{file.name}` | {file.sha256[:16]} |" not in page]
    assert not [name for name in (*datasets.NAMES, *datasets.CORPORA) if f"| `{name}` |" not in page]


# ---------------------------------------------------------------- weights
def test_pretrained_weights_are_tensors_and_nothing_else(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = pretrained.RESNET18_FILES[0].name
    with pytest.raises(DataNotFound, match=f"(?s){name}.*f37072fd.*resnet18"):
        monkeypatch.setattr(pretrained, "RESNET18_FILES", (replace(pretrained.RESNET18_FILES[0], urls=(NOWHERE,)),))
        pretrained.pretrained_resnet18()
    (data / "resnet18").mkdir()
    state = {"conv1.weight": torch.ones(2, 3), "fc.bias": torch.zeros(4)}
    for content, message in ((state, None), ([1], "dictionary of tensors"), ({"x": Malice()}, "nothing else")):
        torch.save(content, data / "resnet18" / name)
        monkeypatch.setattr(pretrained, "RESNET18_FILES", published(data / "resnet18", [name]))
        if message:
            with pytest.raises(DataCorrupt, match=message):
                pretrained.pretrained_resnet18()
        else:
            found = pretrained.pretrained_resnet18()
            assert found.keys() == state.keys() and torch.equal(found["conv1.weight"], state["conv1.weight"])
