"""Data sets: found, verified by sha256, parsed, and cut down to classes and sizes.

`digits` comes with scikit-learn and is always available. The files of the other data sets are searched for, in this
order, in `$DPNOTES_DATA/<folder>`, `$DPNOTES_DATA` and the cache (`$DPNOTES_CACHE`, by default pooch's folder for this
package), then downloaded into the cache. A file is used only if its sha256 is the published one. The list is in
docs/experiments.md.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dpnotes.problems.datasets import cifar, cola, digits, mnist
from dpnotes.problems.datasets.cola import load_cola as load_cola
from dpnotes.problems.datasets.dataset import IMAGENET_MEAN as IMAGENET_MEAN
from dpnotes.problems.datasets.dataset import IMAGENET_STD as IMAGENET_STD
from dpnotes.problems.datasets.dataset import Dataset as Dataset
from dpnotes.problems.datasets.dataset import gaussian_like as gaussian_like
from dpnotes.problems.datasets.dataset import keep_classes as keep_classes
from dpnotes.problems.datasets.dataset import normalise as normalise
from dpnotes.problems.datasets.dataset import subset as subset
from dpnotes.problems.published import DataCorrupt as DataCorrupt
from dpnotes.problems.published import DataNotFound as DataNotFound
from dpnotes.problems.published import find
from dpnotes.util import validate

_LOADERS: dict[str, Callable[[], Dataset]] = {
    "digits": digits.load_digits,
    "mnist": mnist.load_mnist,
    "cifar10": cifar.load_cifar10,
    "cifar10-jpeg": cifar.load_cifar10_jpeg,
    "cifar100": cifar.load_cifar100,
}
NAMES = tuple(_LOADERS)
CORPORA = ("cola",)  # sentences, which `problems.text.tokenise` turns into data sets
_PLACES: dict[str, tuple[str, Callable[[], tuple[bool, str, str]]]] = {
    "digits": (digits.LICENCE, digits.find_digits),
    "mnist": (mnist.LICENCE, lambda: find("mnist", mnist.FILES)),
    "cifar10": (cifar.LICENCE, lambda: find("cifar10", cifar.CIFAR10_FILES)),
    "cifar10-jpeg": (cifar.LICENCE, lambda: find("cifar10", cifar.CIFAR10_JPEG_FILES)),
    "cifar100": (cifar.LICENCE, lambda: find("cifar100", cifar.CIFAR100_FILES)),
    "cola": (cola.LICENCE, lambda: find("cola", cola.FILES)),
}


@dataclass(frozen=True)
class Location:
    """The location of a data set, or advice to get it; `path` is where it was found or should be put."""

    name: str
    found: bool
    path: str
    licence: str
    advice: str


def load(name: str) -> Dataset:
    """A data set by its name; pixels are scaled to [0, 1].

    Args:
      name: one of `NAMES`. "cifar10-jpeg" is a JPEG-coded copy of CIFAR-10 with other pixels than "cifar10".

    Raises:
      ValueError: for an unknown name.
      DataNotFound: when a file is not on this machine and cannot be downloaded.
      DataCorrupt: when a file is not the published one.

    Example:
      >>> digits = load("digits")
      >>> digits.train_inputs.shape, digits.test_inputs.shape
      (torch.Size([1437, 64]), torch.Size([360, 64]))
    """
    validate.one_of(NAMES, name=name)
    return _LOADERS[name]()


def locate(name: str) -> Location:
    """Locate a data set without downloading anything.

    Args:
      name: one of `NAMES` or `CORPORA`.

    Raises:
      ValueError: for an unknown name.

    Example:
      >>> locate("digits").found
      True
    """
    validate.one_of((*NAMES, *CORPORA), name=name)
    licence, look = _PLACES[name]
    found, path, advice = look()
    return Location(name, found, path, licence, advice)
