"""Archives of images and sentences: read as they are published; the copies come in order."""

import io
import pickle
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from dpnotes.problems import datasets, pretrained, text
from dpnotes.problems.datasets import cifar, cola, mnist
from tests.problems.test_datasets import REAL, fingerprint, published


# ---------------------------------------------------------------- CIFAR
def python2_pickle(value: object) -> bytes:
    """Return a pickle whose names are strings of Python 2, which are bytes."""
    content = pickle.dumps(value, protocol=2)
    return re.sub(rb"X(.{4})(data|(?:fine_|coarse_)?labels)", rb"T\1\2", content, flags=re.DOTALL)


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
    # The second time, decoded images come from the cache; a damaged cache is decoded again, and none is needed.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cifar, "decode_jpegs", lambda *_: pytest.fail("decoded twice"))
        assert fingerprint(datasets.load("cifar10-jpeg")) == fingerprint(loaded)
    for damaged in (before.replace(bytes([10] * 64), bytes([11] * 64)), b""):
        assert damaged != before
        cached.write_bytes(damaged)
        assert fingerprint(datasets.load("cifar10-jpeg")) == fingerprint(loaded)
        assert cached.read_bytes() == before
    cached.unlink()
    cached.parent.rmdir()
    cached.parent.write_text("a file where the folder would be")
    assert fingerprint(datasets.load("cifar10-jpeg")) == fingerprint(loaded)


# ---------------------------------------------------------------- CoLA


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
