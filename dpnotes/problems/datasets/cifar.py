"""CIFAR-10 and CIFAR-100 (Krizhevsky, "Learning multiple layers of features from tiny images", 2009).

The published archives hold pickles of Python 2. A pickle can run any code, so they are read by an unpickler that builds
only dictionaries, lists, strings, numbers and arrays of bytes, and calls neither numpy nor other code.
"""

import contextlib
import hashlib
import io
import pickle
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpnotes.problems.datasets.dataset import Dataset
from dpnotes.problems.published import DataCorrupt, PublishedFile, cache_folder, fetch, files_at
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
    batches = _read_archive(
        fetch("cifar10", CIFAR10_FILES[0]), [*(f"{folder}/data_batch_{i}" for i in range(1, 6)), f"{folder}/test_batch"]
    )
    parts = [_images_and_labels(batch, b"labels", name) for name, batch in batches.items()]
    train_images, train_labels = (np.concatenate(arrays) for arrays in zip(*parts[:-1], strict=True))
    return _dataset("cifar10", (train_images, train_labels), parts[-1], 10)


def load_cifar100() -> Dataset:
    """Load CIFAR-100: 50,000 training and 10,000 test images of the hundred fine classes, as `load_cifar10` does."""
    names = ["cifar-100-python/train", "cifar-100-python/test"]
    batches = _read_archive(fetch("cifar100", CIFAR100_FILES[0]), names)
    train, test = (_images_and_labels(batches[name], b"fine_labels", name) for name in names)
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
@dataclass(repr=False)
class _Bytes:
    """A placeholder for a numpy array, or for its type, while a pickle is read: it holds data and no numpy method."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _make(*_arguments: Any) -> _Bytes:
    return _Bytes()


class _Unpickler(pickle.Unpickler):
    """An unpickler that allows only the three names in a pickled array, and replaces each by a harmless placeholder."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in {
            *((f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")),
            *(("numpy", kind) for kind in ("ndarray", "dtype")),
        }:
            return _make
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed")


def unpickle(content: bytes, name: str) -> Any:
    """Return the contents of a pickle: dictionaries, lists, byte strings, numbers, and arrays of bytes; no code is run.

    Args:
      content: the pickle.
      name: for the error message.

    Raises:
      DataCorrupt: when the content is no pickle, or needs anything else.

    Example:
      >>> unpickle(pickle.dumps({"labels": [3, 5]}), "example")
      {'labels': [3, 5]}
      >>> unpickle(pickle.dumps(print), "example")
      Traceback (most recent call last):
      dpnotes.problems.published.DataCorrupt: Expected example to be a pickle of plain data:
      builtins.print is not allowed.
    """
    try:
        return _arrays(_Unpickler(io.BytesIO(content), encoding="bytes").load())
    except (pickle.UnpicklingError, EOFError, AttributeError, ValueError, IndexError, KeyError, TypeError) as error:
        raise DataCorrupt(f"Expected {name} to be a pickle of plain data: {error}.") from None


def _arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _arrays(item) for key, item in value.items()}
    if isinstance(value, _Bytes):
        _, shape, _, by_columns, content = value.state
        # Elements of another size have another length, which reshape refuses. The copy is writable.
        array = np.frombuffer(content, np.uint8).copy()
        return array.reshape(shape[::-1]).T if by_columns else array.reshape(shape)
    return value


def _read_archive(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """The unpickled members of a tar archive, read in memory: nothing is extracted."""
    found = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for name in names:
                member = archive.extractfile(name)
                if member is None:
                    raise DataCorrupt(f"Expected {name} in {path} to be a file.")
                found[name] = unpickle(member.read(), f"{name} in {path}")
    except (KeyError, EOFError, tarfile.TarError, zlib.error) as error:
        raise DataCorrupt(f"Expected {path} to be an archive with {', '.join(names)}: {error}.") from None
    return found


def _images_and_labels(batch: Any, label_key: bytes, name: str) -> tuple[np.ndarray, np.ndarray]:
    try:
        images, labels = batch[b"data"], np.array(batch[label_key], dtype=np.int64)
        return images.reshape(len(labels), *_SHAPE), labels
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataCorrupt(f"Expected {name} to hold images of 3 x 32 x 32 and a label each: {error!r}.") from None


# ---------------------------------------------------------------- the JPEG-coded copy
def decode_jpegs(content: bytes, offsets: np.ndarray) -> np.ndarray:
    """The images in a string of JPEG files, `(images, 3, 32, 32)` uint8.

    Args:
      content: the files, one after another.
      offsets: `(images + 1,)`: where each begins, and where the last one ends.

    Raises:
      DataCorrupt: when one of them is no JPEG of 32 x 32 pixels.
    """
    from PIL import Image

    images = np.empty((len(offsets) - 1, *_SHAPE), np.uint8)
    for i, (start, end) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
        try:
            with Image.open(io.BytesIO(content[start:end]), formats=["JPEG"]) as image:
                images[i] = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
        except (OSError, ValueError) as error:
            raise DataCorrupt(f"Expected image {i} to be a JPEG of 32 x 32 pixels: {error}.") from None
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

    Raises:
      DataCorrupt: when a class has another number of images in the copy than in the official labels.

    Example:
      >>> split = np.array([True, True, True])
      >>> official_order(split, np.array([0, 0, 1]), [np.array([0, 1, 0]), np.array([], int)])[0].tolist()
      [0, 2, 1]
    """
    found = []
    for is_train, official in zip((True, False), official_labels, strict=True):
        (mine,) = np.nonzero(train == is_train)
        by_class, by_official_class = np.argsort(labels[mine], kind="stable"), np.argsort(official, kind="stable")
        if not np.array_equal(labels[mine][by_class], official[by_official_class]):
            part = "training" if is_train else "test"
            raise DataCorrupt(f"Expected as many {part} images of each class in the copy as official labels.")
        index = np.empty(len(official), np.int64)
        index[by_official_class] = mine[by_class]
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
