"""The handwritten digits that come with scikit-learn, so that they are always available."""

import importlib.util
from pathlib import Path

import torch

from dpnotes.problems.datasets.dataset import Dataset, permutation

LICENCE = "CC BY 4.0"
_SOURCE = (
    "E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI, doi:10.24432/C50P49; "
    "the test part, as scikit-learn ships it"
)
_NUM_TRAIN = 1437  # four fifths of the 1797 images


def load_digits() -> Dataset:
    """Load 1437 training and 360 test images, flat: `(examples, 64)`, pixels in [0, 1].

    Example:
      >>> load_digits().train_inputs.shape
      torch.Size([1437, 64])
    """
    from sklearn.datasets import load_digits as bundled

    images, labels = bundled(return_X_y=True)
    inputs, targets = torch.as_tensor(images / 16, dtype=torch.float32), torch.as_tensor(labels, dtype=torch.int64)
    # Neighbours in scikit-learn's order are by one writer, so the split is a fixed random permutation.
    order = permutation("digits split", 0, len(inputs))
    train, test = order[:_NUM_TRAIN], order[_NUM_TRAIN:]
    return Dataset("digits", inputs[train], targets[train], inputs[test], targets[test], 10, LICENCE, _SOURCE)


def find_digits() -> tuple[bool, str, str]:
    """Return whether scikit-learn is installed, the folder of its data, and advice if it is not."""
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        return False, "", "Install scikit-learn, which carries it: pip install scikit-learn."
    return True, str(Path(spec.origin).parent / "datasets" / "data"), ""
