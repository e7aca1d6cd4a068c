"""CIFAR-10 and CIFAR-100 (Krizhevsky, "Learning multiple layers of features from tiny images", 2009).

The published archives hold pickles of Python 2. A pickle can run any code; these are read after their sha256 was
compared with that of the published archive.
"""

import contextlib
import hashlib
import io
import pickle
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpnotes.problems.datasets.dataset import Dataset
from dpnotes.problems.published import PublishedFile, cache_folder, fetch, files_at
from dpnotes.util import files

# The authors publish md5 sums, c58f30108f718f92721af3b95e74349a and eb9058c3a382ffc7106e4002c42a8d85. Different files
# with the same md5 can be constructed, so the sha256 of the files that have these sums is compared.
_FOLDER = "https://www.cs.toronto.edu/~kriz/"
CIFAR10_FILES = files_at(
    {"cifar-10-python.tar.gz": "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"}, _FOLDER
)
CIFAR100_FILES = files_at(
    {"cifar-100-python.tar.gz": "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7"}, _FOLDER
)
# The same images and labels, each image coded as a JPEG of quality about 75: 18 MB instead of 170 MB.
CIFAR10_JPEG_FILES = (
    PublishedFile("cifar10-jpeg.npz", "29df5199b8597e17f7c2702992e7ba00896fc007f0f5208fa3c8096de4c0cd94"),
    PublishedFile("train_labels.npy", "fad921ba16b0efeebb54393d1351545d1fe1a357f6f81324c821e3e11b956c70"),
    PublishedFile("test_labels.npy", "19004b019bd095265b4ce6637c9ff979c66abcbc8e658a665f791b487cdea5eb"),
)
LICENCE = "none stated; the authors ask to cite Krizhevsky (2009)"
_SOURCE = f"A. Krizhevsky, V. Nair and G. Hinton, {_FOLDER}cifar.html"
_SHAPE = (3, 32, 32)  # channels (red, green, blue), height, width
_Part = tuple[np.ndarray, np.ndarray]  # images and labels


def load_cifar10() -> Dataset:
    """Load CIFAR-10: 50,000 training and 10,000 test images of ten classes, `(examples, 3, 32, 32)`, pixels in [0, 1].

    Raises:
      DataNotFound: when the archive is not here and cannot be downloaded.
      DataCorrupt: when the archive is not the published one.
    """
    folder = "cifar-10-batches-py"
    names = [*(f"{folder}/data_batch_{i}" for i in range(1, 6)), f"{folder}/test_batch"]
    *batches, test = _parts(fetch("cifar10", CIFAR10_FILES[0]), names, b"labels")
    train_images, train_labels = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
    return _dataset("cifar10", (train_images, train_labels), test, 10)


def load_cifar100() -> Dataset:
    """Load CIFAR-100: 50,000 training and 10,000 test images of the hundred fine classes, as `load_cifar10` does."""
    names = ["cifar-100-python/train", "cifar-100-python/test"]
    train, test = _parts(fetch("cifar100", CIFAR100_FILES[0]), names, b"fine_labels")
    return _dataset("cifar100", train, test, 100)


def load_cifar10_jpeg() -> Dataset:
    """Load CIFAR-10 from a JPEG-coded copy: the official order and labels, but not the official pixels.

    The pixels went through JPEG of quality about 75 and differ from the official ones by a root mean square of about 7
    of 255, as the maker of the copy measured. So a result on the copy is not a result on CIFAR-10; `name` and `source`
    say so. Decoding takes seconds, so the decoded images are cached, 184 MB, separately for each version of the
    decoder.

    Raises:
      DataNotFound: when a file is not on this machine; the copy is published nowhere.
      DataCorrupt: when a file is not the known one.
    """
    packed_path, *label_paths = (fetch("cifar10", file) for file in CIFAR10_JPEG_FILES)
    labels = [np.load(path, allow_pickle=False) for path in label_paths]
    images = _decoded(packed_path, labels)
    train, test = zip(np.split(images, [len(labels[0])]), labels, strict=True)
    copy = "JPEG-coded copy, not the official bytes"
    return _dataset(f"cifar10-jpeg ({copy})", train, test, 10, f"{_SOURCE}; {copy}")


def _dataset(name: str, train: _Part, test: _Part, num_classes: int, source: str = _SOURCE) -> Dataset:
    train_tensors, test_tensors = (
        (torch.from_numpy(images).to(torch.float32).div_(255), torch.from_numpy(labels.astype(np.int64)))
        for images, labels in (train, test)
    )
    return Dataset(name, *train_tensors, *test_tensors, num_classes, LICENCE, source)


# ---------------------------------------------------------------- the published pickles
def _parts(path: Path, names: Sequence[str], label_key: bytes) -> list[_Part]:
    """The images and labels in some members of a published archive, read in memory: nothing is extracted."""
    found = []
    with tarfile.open(path, "r:gz") as archive:
        for name in names:
            batch: Any = pickle.loads(archive.extractfile(name).read(), encoding="bytes")  # type: ignore[union-attr]
            labels = np.array(batch[label_key], dtype=np.int64)
            found.append((batch[b"data"].reshape(len(labels), *_SHAPE), labels))
    return found


# ---------------------------------------------------------------- the JPEG-coded copy
def decode_jpegs(content: bytes, offsets: np.ndarray) -> np.ndarray:
    """The images in a string of JPEG files, `(images, 3, 32, 32)` uint8.

    Args:
      content: the files, one after another.
      offsets: `(images + 1,)`: where each begins, and where the last one ends.
    """
    from PIL import Image

    images = np.empty((len(offsets) - 1, *_SHAPE), np.uint8)
    for i, (start, end) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
        with Image.open(io.BytesIO(content[start:end]), formats=["JPEG"]) as image:
            images[i] = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    return images


def official_order(
    train: np.ndarray, labels: np.ndarray, official_labels: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """The index in the copy of each official image, for the training and the test split.

    The copy is sorted by split and class, and keeps the official order within a class: the k-th image of a class is the
    k-th one of that class in the official order.

    Args:
      train: `(images,)` bool: whether an image of the copy is a training one.
      labels: `(images,)`: the class of each image of the copy.
      official_labels: the labels of the training and of the test images, in the official order.

    Example:
      >>> split = np.array([True, True, True])
      >>> official_order(split, np.array([0, 0, 1]), [np.array([0, 1, 0]), np.array([], int)])[0].tolist()
      [0, 2, 1]
    """
    found = []
    for is_train, official in zip((True, False), official_labels, strict=True):
        (mine,) = np.nonzero(train == is_train)
        index = np.empty(len(official), np.int64)
        index[np.argsort(official, kind="stable")] = mine[np.argsort(labels[mine], kind="stable")]
        found.append(index)
    return tuple(found)


def _decoded(packed_path: Path, official_labels: Sequence[np.ndarray]) -> np.ndarray:
    """All images of the copy in the official order, training images first; read from the cache if possible."""
    from PIL import features

    # Another decoder may round pixels differently.
    decoder = features.version("libjpeg_turbo") or features.version("jpg")
    known = hashlib.sha256("".join(map(str, CIFAR10_JPEG_FILES)).encode()).hexdigest()[:16]
    cached = cache_folder() / "cifar10" / f"decoded-{known}-{decoder}.sealed"
    try:
        return np.load(io.BytesIO(files.unsealed(cached)), allow_pickle=False)
    except (OSError, files.DamagedFileError):
        pass  # the cached file is missing or damaged: decode
    with np.load(packed_path, allow_pickle=False) as packed:
        index = np.concatenate(official_order(packed["train"], packed["labels"], official_labels))
        images = decode_jpegs(packed["jpeg"].tobytes(), packed["offsets"])[index]
    np.save(buffer := io.BytesIO(), images)
    with contextlib.suppress(OSError):  # a full or read-only cache only costs time
        files.write({cached: files.sealed(buffer.getvalue())})
    return images
