"""MNIST: four gzipped idx files."""

import gzip

import numpy as np
import torch

from dpnotes.problems.datasets.dataset import Dataset
from dpnotes.problems.published import fetch, files_at
from dpnotes.util.validate import AtLeastOne, checked

# Mirrors in the order they are tried: the one that torchvision uses, then the page of the data set's authors.
_MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/")
MNIST_SHA256 = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
FILES = files_at(MNIST_SHA256, *_MIRRORS)
MEAN = 0.1307  # of all pixels, as it is usually given
LICENCE = "CC BY-SA 3.0"
_SOURCE = (
    "Y. LeCun, C. Cortes and C. Burges, The MNIST database of handwritten digits, http://yann.lecun.com/exdb/mnist/"
)


def load_mnist() -> Dataset:
    """Load 60,000 training and 10,000 test images, flat: `(examples, 784)`, pixels in [0, 1].

    Raises:
      DataNotFound: when a file is not on this machine and cannot be downloaded.
      DataCorrupt: when a file is not the published one.
    """
    arrays = [_array(gzip.decompress(fetch("mnist", file).read_bytes())) for file in FILES]
    images, labels = arrays[::2], arrays[1::2]
    inputs = [torch.from_numpy(array.reshape(len(array), -1).astype(np.float32)).div_(255) for array in images]
    targets = [torch.from_numpy(array.astype(np.int64)) for array in labels]
    return Dataset("mnist", inputs[0], targets[0], inputs[1], targets[1], 10, LICENCE, _SOURCE)


@checked
def pooled(images: torch.Tensor, size: AtLeastOne) -> torch.Tensor:
    """Means over squares of `size` pixels of flat images, less the mean of all pixels as it is usually given.

    Example:
      >>> pooled(torch.ones(2, 784), 14).shape
      torch.Size([2, 4])
    """
    return torch.nn.functional.avg_pool2d(images.view(-1, 1, 28, 28), size).flatten(1) - MEAN


def _array(content: bytes) -> np.ndarray:
    """The array in an idx file of bytes: two zeros, type 8, number of axes, big-endian sizes, data."""
    axes = content[3]
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(np.frombuffer(content, ">u4", axes, offset=4))
