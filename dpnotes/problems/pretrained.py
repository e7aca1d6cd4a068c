"""Published weights of networks that were trained on public data. BERT's are in `problems.text`."""

import torch
from torch import Tensor

from dpnotes.problems.published import fetch, files_at

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
      DataCorrupt: when the file is not the published one.
    """
    state = torch.load(fetch("resnet18", RESNET18_FILES[0]), map_location="cpu", weights_only=True)
    return {name: value.detach() for name, value in state.items()}
