"""Data sets: located, verified, parsed, reduced; offline, corrupt and unknown ones raise errors with their names."""

import gzip
import hashlib
import math
import os
import struct
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest
import torch

from dpnotes.problems import datasets
from dpnotes.problems.datasets import DataCorrupt, DataNotFound, Dataset, mnist
from dpnotes.problems.published import PublishedFile

REAL = Path(os.environ.get("DPNOTES_DATA", "/nowhere"))
NOWHERE = "http://127.0.0.1:9/"  # the discard port, which refuses at once


def fingerprint(dataset: Dataset) -> str:
    """Return the sha256 of the content: types, shapes, numbers."""
    digest = hashlib.sha256(str(dataset.num_classes).encode())
    for tensor in (dataset.train_inputs, dataset.train_labels, dataset.test_inputs, dataset.test_labels):
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().reshape(-1).numpy().data)
    return digest.hexdigest()


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
    assert fingerprint(digits) == "18c4a3bbeb661d255888904b0c8439394c6e64c9d12acbe82dfe0eed53a0a016"


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
    assert fingerprint(datasets.load("mnist")) == fingerprint(first)


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
    with pytest.raises(ValueError, match="name='imagenet' to be one of: digits, mnist, cifar10"):
        datasets.load("imagenet")


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
    assert fingerprint(datasets.gaussian_like(2000, 20, 3, seed=0)) == fingerprint(auxiliary)
    assert fingerprint(datasets.gaussian_like(2000, 20, 3, seed=1)) != fingerprint(auxiliary)
    with pytest.raises(ValueError, match="num_classes=1"):
        datasets.gaussian_like(10, 2, 1, seed=0)


@pytest.mark.parametrize(
    ("change", "message"),
    (
        ({"train_inputs": torch.tensor([[math.nan, 0.0]])}, "train_inputs of toy without NaN"),
        ({"train_labels": torch.tensor([0, 1])}, "train_inputs: 1, train_labels: 2"),
        ({"test_inputs": torch.zeros(1, 3)}, "test_inputs.shape"),
        ({"train_labels": torch.tensor([2])}, "train_labels of toy in 0 ... 1"),
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
