"""Published weights of networks that were trained on public data. BERT's are in `problems.text`."""

import pickle
from typing import Any

import torch
from torch import Tensor

from dpnotes.problems.published import DataCorrupt, fetch, files_at

RESNET18_FILES = files_at(
    {"resnet18-f37072fd.pth": "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec"},
    "https://download.pytorch.org/models/",
)


def pretrained_resnet18() -> dict[str, Tensor]:
    """The state dict of torchvision's ResNet-18, trained on ImageNet (its `IMAGENET1K_V1`), on the CPU.

    He, Zhang, Ren and Sun (arXiv:1512.03385). It has a classifier of 1000 classes and expects images normalised by
    `datasets.IMAGENET_MEAN` and `datasets.IMAGENET_STD`. torchvision is not needed; the file is read with
    `weights_only`, so no code in it is run. The file is looked for in `$DPNOTES_DATA/resnet18`, then in the cache.

    Raises:
      DataNotFound: when the file is not on this machine and cannot be downloaded; the message says where to put it.
      DataCorrupt: when the file is not the published one, or holds something else than tensors.
    """
    path = fetch("resnet18", RESNET18_FILES[0])
    try:
        state: Any = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise DataCorrupt(f"Expected {path} to hold tensors and nothing else: {error}") from None
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise DataCorrupt(f"Expected {path} to hold a dictionary of tensors.")
    return {name: value.detach() for name, value in state.items()}
