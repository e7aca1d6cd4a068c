"""Data sets: found, verified by sha256, parsed, and cut down to classes and sizes.

`digits` comes with scikit-learn and is always there. `mnist` is looked for, in this order, in `$DPNOTES_DATA/mnist`,
`$DPNOTES_DATA` and the cache (`$DPNOTES_CACHE`, by default pooch's folder for this package), then downloaded into the
cache. A file is used only if its sha256 is the published one.
"""

import gzip
import hashlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dpnotes import validate
from dpnotes.streams import Streams

# Mirrors in the order they are tried: the one that torchvision uses, then the page of the data set's authors.
MNIST_MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/")
MNIST_SHA256 = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
_DIGITS_NUM_TRAIN = 1437  # four fifths of the 1797 images


class DataNotFound(FileNotFoundError):
    """A data set's file is neither here nor to be had; the message says which file goes where."""


class DataCorrupt(OSError):
    """A data set's file is not the published one; the message names it, and both sha256."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs and labels, split into training and test examples.

    Args:
      name: what it is, with what was done to it.
      train_inputs: `(examples, features)`, floating point, finite.
      train_labels: `(examples,)`, int64 in `0 ... num_classes - 1`.
      test_inputs: as `train_inputs`, with the same number of features.
      test_labels: as `train_labels`.
      num_classes: at least 2.
      licence: of the data.
      source: where it comes from.

    Raises:
      ValueError: for sizes that disagree, NaN or infinite inputs, labels out of range.
    """

    name: str
    train_inputs: Tensor
    train_labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor
    num_classes: int
    licence: str
    source: str

    def __post_init__(self) -> None:
        validate.at_least(2, num_classes=self.num_classes)
        validate.same_length(train_inputs=self.train_inputs, train_labels=self.train_labels)
        validate.same_length(test_inputs=self.test_inputs, test_labels=self.test_labels)
        for part, inputs, labels in (
            ("train", self.train_inputs, self.train_labels),
            ("test", self.test_inputs, self.test_labels),
        ):
            if inputs.shape[1:] != self.train_inputs.shape[1:] or inputs.dim() != 2:
                raise ValueError(f"Expected {part}_inputs.shape={tuple(inputs.shape)} to be (examples, features).")
            if not bool(torch.isfinite(inputs).all()):
                raise ValueError(f"Expected {part}_inputs of {self.name} without NaN or infinite entries.")
            if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < self.num_classes:
                raise ValueError(f"Expected {part}_labels of {self.name} in 0 ... {self.num_classes - 1}.")

    @cached_property
    def fingerprint(self) -> str:
        """The sha256 of the content (types, shapes, numbers), whatever the name: part of a result's key."""
        digest = hashlib.sha256(str(self.num_classes).encode())
        for tensor in (self.train_inputs, self.train_labels, self.test_inputs, self.test_labels):
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Location:
    """Where a data set is, or what to do to have it; `path` is where it was found or would be put."""

    name: str
    found: bool
    path: str
    licence: str
    advice: str


# ---------------------------------------------------------------- the registry
def load(name: str) -> Dataset:
    """A data set by its name; pixels are scaled to [0, 1].

    Args:
      name: one of `NAMES`.

    Raises:
      ValueError: for an unknown name.
      DataNotFound: when a file is not here and cannot be downloaded.
      DataCorrupt: when a file is not the published one.

    Example:
      >>> digits = load("digits")
      >>> digits.train_inputs.shape, digits.test_inputs.shape
      (torch.Size([1437, 64]), torch.Size([360, 64]))
    """
    validate.one_of(NAMES, name=name)
    return _SOURCES[name].load()


def locate(name: str) -> Location:
    """Where a data set is, without downloading anything.

    Example:
      >>> locate("digits").found
      True
    """
    validate.one_of(NAMES, name=name)
    source = _SOURCES[name]
    found, path, advice = source.find()
    return Location(name, found, path, source.licence, advice)


@dataclass(frozen=True)
class _Source:
    licence: str
    origin: str
    load: Callable[[], Dataset]
    find: Callable[[], tuple[bool, str, str]]


# ---------------------------------------------------------------- digits
def _load_digits() -> Dataset:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    inputs, targets = torch.as_tensor(images / 16, dtype=torch.float32), torch.as_tensor(labels, dtype=torch.int64)
    # Neighbours in scikit-learn's order are by one writer, so the fixed split is a fixed permutation.
    order = _permutation("digits split", 0, len(inputs))
    train, test = order[:_DIGITS_NUM_TRAIN], order[_DIGITS_NUM_TRAIN:]
    source = _SOURCES["digits"]
    return Dataset(
        "digits", inputs[train], targets[train], inputs[test], targets[test], 10, source.licence, source.origin
    )


def _find_digits() -> tuple[bool, str, str]:
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        return False, "", "Install scikit-learn, which carries it: pip install scikit-learn."
    return True, str(Path(spec.origin).parent / "datasets" / "data"), ""


# ---------------------------------------------------------------- MNIST
def cache_folder() -> Path:
    """Where downloads go: `$DPNOTES_CACHE`, by default pooch's folder for this package."""
    if folder := os.environ.get("DPNOTES_CACHE"):
        return Path(folder)
    import pooch

    return Path(pooch.os_cache("dpnotes"))


def parse_idx(content: bytes, name: str) -> np.ndarray:
    """The array in an idx file of bytes: two zeros, type 8, number of axes, big-endian sizes, data.

    Args:
      content: the file, decompressed.
      name: for the error message.

    Raises:
      DataCorrupt: when the magic number or the sizes do not fit the content.

    Example:
      >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), "example").tolist()
      [7, 9]
    """
    axes = content[3] if len(content) >= 4 else 0
    start = 4 + 4 * axes
    if content[:3] != b"\x00\x00\x08" or not axes or len(content) < start:
        raise DataCorrupt(f"Expected {name} to start as an idx file of bytes, found {content[:4].hex(' ')!r}.")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", axes, offset=4))
    data = np.frombuffer(content, np.uint8, offset=start)
    if data.size != np.prod(shape, dtype=object):
        raise DataCorrupt(f"Expected {name} to hold {shape} numbers, found {data.size}.")
    return data.reshape(shape)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check(path: Path) -> None:
    found, expected = _sha256(path), MNIST_SHA256[path.name]
    if found != expected:
        raise DataCorrupt(f"Expected {path} to have sha256 {expected}, found {found}. Delete it and fetch it again.")


def _local_folders() -> list[Path]:
    folder = os.environ.get("DPNOTES_DATA")
    return [Path(folder) / "mnist", Path(folder)] if folder else []


def _fetch(file: str) -> Path:
    for folder in _local_folders():
        if (folder / file).is_file():
            _check(folder / file)
            return folder / file
    import pooch

    cache = cache_folder() / "mnist"
    reasons = []
    for mirror in MNIST_MIRRORS:
        try:
            return Path(pooch.retrieve(mirror + file, f"sha256:{MNIST_SHA256[file]}", fname=file, path=cache))
        except (OSError, ValueError) as error:  # no network, no such page, a read-only cache, other bytes
            reasons.append(f"{mirror}: {type(error).__name__}")
    if (cache / file).is_file():
        _check(cache / file)
    raise DataNotFound(
        f"Expected the MNIST file {file}, found it neither in DPNOTES_DATA={os.environ.get('DPNOTES_DATA')!r} "
        f"nor in the cache, and no download succeeded ({'; '.join(reasons)}). Fetch {MNIST_MIRRORS[0]}{file} "
        f"on a machine with a network and put it, as it is, into {cache} or into $DPNOTES_DATA/mnist."
    )


def _load_mnist() -> Dataset:
    arrays = [parse_idx(gzip.decompress(_fetch(file).read_bytes()), file) for file in MNIST_SHA256]
    images, labels = arrays[::2], arrays[1::2]
    inputs = [torch.from_numpy(array.reshape(len(array), -1).astype(np.float32)).div_(255) for array in images]
    targets = [torch.from_numpy(array.astype(np.int64)) for array in labels]
    source = _SOURCES["mnist"]
    return Dataset("mnist", inputs[0], targets[0], inputs[1], targets[1], 10, source.licence, source.origin)


def _find_mnist() -> tuple[bool, str, str]:
    folders = [*_local_folders(), cache_folder() / "mnist"]
    paths: list[Path] = []
    for file in MNIST_SHA256:
        path = next((folder / file for folder in folders if (folder / file).is_file()), None)
        if path is None:
            advice = f"{file} is missing: it is downloaded when first needed; without a network put it there by hand."
            return False, str(folders[0]), advice
        paths.append(path)
    try:
        for path in paths:
            _check(path)
    except DataCorrupt as error:
        return False, str(paths[0].parent), str(error)
    return True, str(paths[0].parent), ""


_SOURCES = {
    "digits": _Source(
        "CC BY 4.0",
        "E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI, doi:10.24432/C50P49; "
        "the test part, as scikit-learn ships it",
        _load_digits,
        _find_digits,
    ),
    "mnist": _Source(
        "CC BY-SA 3.0",
        "Y. LeCun, C. Cortes and C. Burges, The MNIST database of handwritten digits, http://yann.lecun.com/exdb/mnist/",
        _load_mnist,
        _find_mnist,
    ),
}
NAMES = tuple(_SOURCES)


# ---------------------------------------------------------------- cutting down
def keep_classes(dataset: Dataset, classes: Sequence[int]) -> Dataset:
    """Only the examples of some classes, relabelled `0 ... len(classes) - 1` in the order given.

    Example:
      >>> three_and_five = keep_classes(load("digits"), [3, 5])
      >>> three_and_five.num_classes, sorted(set(three_and_five.train_labels.tolist()))
      (2, [0, 1])

    Raises:
      ValueError: for less than two classes, a repeated or an unknown one.
    """
    if len(set(classes)) != len(classes) or len(classes) < 2:
        raise ValueError(f"Expected classes={list(classes)} to be at least two different ones.")
    if not all(0 <= label < dataset.num_classes for label in classes):
        raise ValueError(f"Expected classes={list(classes)} among 0 ... {dataset.num_classes - 1}.")
    relabel = torch.full((dataset.num_classes,), -1)
    relabel[list(classes)] = torch.arange(len(classes))
    train, test = relabel[dataset.train_labels], relabel[dataset.test_labels]
    return replace(
        dataset,
        name=f"{dataset.name}, classes {', '.join(map(str, classes))}",
        train_inputs=dataset.train_inputs[train >= 0],
        train_labels=train[train >= 0],
        test_inputs=dataset.test_inputs[test >= 0],
        test_labels=test[test >= 0],
        num_classes=len(classes),
    )


def subset(dataset: Dataset, num_examples: int, seed: str | int) -> Dataset:
    """A random choice of training examples, nested: for one seed a smaller one is the beginning of a larger one.

    Args:
      dataset: what to choose from; its test examples stay.
      num_examples: training examples to keep, at most all.
      seed: of the choice.

    Example:
      >>> digits = load("digits")
      >>> torch.equal(subset(digits, 100, 0).train_inputs[:50], subset(digits, 50, 0).train_inputs)
      True
    """
    validate.at_least(1, num_examples=num_examples)
    if num_examples > len(dataset.train_inputs):
        raise ValueError(f"Expected num_examples={num_examples} <= {len(dataset.train_inputs)} of {dataset.name}.")
    index = _permutation("subset", seed, len(dataset.train_inputs))[:num_examples]
    return replace(
        dataset,
        name=f"{dataset.name}, {num_examples} of seed {seed}",
        train_inputs=dataset.train_inputs[index],
        train_labels=dataset.train_labels[index],
    )


def gaussian_like(num_examples: int, dim: int, num_classes: int, seed: str | int) -> Dataset:
    """An auxiliary data set on which hyper-parameters may be tuned at no privacy cost: it is drawn from no one's data.

    Hong, Wang and Zhou (FAccT 2022), section 5, tune on a set "randomly sampled from Gaussian distribution" of the
    size of the private one and say nothing of its labels. Here inputs are standard normal and the label is the class
    on which a random linear teacher (standard normal, one column a class) is largest. Coin-flip labels would leave
    nothing to learn but noise; a teacher gives a task that rewards training, as the private one does, and commits to
    nothing about the private data.

    Args:
      num_examples: training examples, and as many test examples.
      dim: features.
      num_classes: at least 2.
      seed: of the draw.

    Example:
      >>> gaussian_like(100, 60, 2, seed=0).train_inputs.shape
      torch.Size([100, 60])
    """
    validate.at_least(1, num_examples=num_examples, dim=dim)
    validate.at_least(2, num_classes=num_classes)
    streams = Streams.of("gaussian_like", [seed])
    teacher = streams.normal("teacher", 0, dim * num_classes).view(dim, num_classes)

    def draw(purpose: str) -> tuple[Tensor, Tensor]:
        inputs = streams.normal(purpose, 0, num_examples * dim).view(num_examples, dim)
        return inputs.float(), (inputs @ teacher).argmax(1)

    name = f"gaussian, {num_examples} x {dim} of seed {seed}"
    return Dataset(name, *draw("train"), *draw("test"), num_classes, "none needed", "drawn by dpnotes")


def _permutation(purpose: str, seed: str | int, size: int) -> Tensor:
    return Streams.of(purpose, [seed]).uniform("permutation", 0, size)[0].argsort()
