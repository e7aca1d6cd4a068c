"""The networks of the experiments: the ConvNet of Avdiukhin et al. and ResNet-18."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Literal

from torch import Tensor, nn

from dpnotes.util.validate import AtLeastOne, AtLeastTwo, Finite, checked

Norm = Literal["batch", "group"]


def _group_norm(channels: int) -> nn.GroupNorm:
    """A group normalisation with up to 32 groups (Wu and He's default), a power of 2, of at least two channels each."""
    groups = max((g for g in (2, 4, 8, 16, 32) if channels % g == 0 and channels >= 2 * g), default=1)
    return nn.GroupNorm(groups, channels)


def _norm(norm: Norm, channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels) if norm == "batch" else _group_norm(channels)


class Residual(nn.Module):
    """A residual connection: `x + body(x)`."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for inputs `(batch, ...)`."""
        return x + self.body(x)


class Scale(nn.Module):
    """A multiplication by a constant: `factor * x`."""

    @checked
    def __init__(self, factor: Finite) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for inputs `(batch, ...)`."""
        return self.factor * x

    def extra_repr(self) -> str:
        """Return the factor as text."""
        return f"{self.factor}"


@checked
def conv_net(num_classes: AtLeastTwo = 10, *, norm: Norm = "batch", width: AtLeastOne = 64) -> nn.Sequential:
    """The ConvNet for 3 x 32 x 32 images of Avdiukhin, Dinitz, Fan and Yaroslavtsev, arXiv:2410.06878, section 4.

    Eight times convolution, normalisation and activation, four of these in two residual blocks; then a linear layer
    without bias, and outputs times 0.2. With 10 classes it has 2,274,880 parameters; with biases of the convolutions it
    would have 2,276,224, and the paper does not specify which. Its batch normalisation mixes examples: to clip
    gradients by example take `norm="group"`. Its ReLU and its maxima have kinks.

    Args:
      num_classes: at least 2.
      norm: "batch" as in the paper, or "group", of 32 groups (Wu and He, arXiv:1803.08494; fewer where they would have
        fewer than two channels).
      width: channels of the first convolution, 64 in the paper; the others are in proportion.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> sum(parameter.numel() for parameter in conv_net().parameters())
      2274880
      >>> import torch
      >>> conv_net(width=4, norm="group")(torch.zeros(2, 3, 32, 32)).shape
      torch.Size([2, 10])
    """

    def block(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, padding: int = 1) -> nn.Sequential:
        convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        return nn.Sequential(convolution, _norm(norm, outputs), nn.ReLU())

    return nn.Sequential(
        block(3, width),
        block(width, 2 * width, kernel=5, stride=2, padding=2),
        Residual(block(2 * width, 2 * width), block(2 * width, 2 * width)),
        block(2 * width, 4 * width),
        nn.MaxPool2d(2),
        Residual(block(4 * width, 4 * width), block(4 * width, 4 * width)),
        block(4 * width, 2 * width, padding=0),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, num_classes, bias=False),
        Scale(0.2),
    )


class BasicBlock(nn.Module):
    """Two convolutions and a shortcut, which is a convolution where the shape changes."""

    @checked
    def __init__(self, inputs: AtLeastOne, outputs: AtLeastOne, stride: AtLeastOne, norm: Norm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = _norm(norm, outputs)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = _norm(norm, outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), _norm(norm, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for inputs `(batch, ...)`."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(x)) + shortcut)


@checked
def resnet18(
    num_classes: AtLeastTwo = 1000,
    *,
    norm: Norm = "batch",
    stem: Literal["imagenet", "cifar"] = "imagenet",
    width: AtLeastOne = 64,
) -> nn.Sequential:
    """ResNet-18 of He, Zhang, Ren and Sun, "Deep residual learning for image recognition", arXiv:1512.03385, Table 1.

    Parameters and buffers have torchvision's names and shapes, so that its weights can be loaded (`load_pretrained`).
    With 1000 classes it has 11,689,512 parameters. Layers start as torch's defaults do; torchvision draws convolutions
    from `kaiming_normal_` instead.

    Args:
      num_classes: at least 2.
      norm: "batch", or "group" as in `conv_net`, whose layers keep the names `bn...`.
      stem: "imagenet", a convolution of 7 x 7 with stride 2 and max pooling; "cifar", one of 3 x 3 with stride 1 and no
        pooling, as for the 32 x 32 images of He et al., section 4.2.
      width: channels of the first stage, 64 in the paper.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> import torch
      >>> network = resnet18(10, stem="cifar", width=4)
      >>> network(torch.zeros(2, 3, 32, 32)).shape
      torch.Size([2, 10])
    """
    imagenet = stem == "imagenet"
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    parts["conv1"] = nn.Conv2d(3, width, *((7, 2, 3) if imagenet else (3, 1, 1)), bias=False)
    parts["bn1"] = _norm(norm, width)
    parts["relu"] = nn.ReLU()
    if imagenet:
        parts["maxpool"] = nn.MaxPool2d(3, 2, 1)
    channels = width
    for stage in range(4):
        outputs, stride = width * 2**stage, 1 if stage == 0 else 2
        parts[f"layer{stage + 1}"] = nn.Sequential(
            BasicBlock(channels, outputs, stride, norm), BasicBlock(outputs, outputs, 1, norm)
        )
        channels = outputs
    parts["avgpool"] = nn.AdaptiveAvgPool2d(1)
    parts["flatten"] = nn.Flatten()
    parts["fc"] = nn.Linear(channels, num_classes)
    return nn.Sequential(parts)


def load_pretrained(module: nn.Module, state: Mapping[str, Tensor], head: str = "fc") -> bool:
    """Load a state dict, such as torchvision's; a head with another number of classes keeps its own weights.

    Draw such a head with `ModuleProblem.initial(streams, only=["fc."])`.

    Args:
      module: changed in place.
      state: tensors by name.
      head: the name of the last layer.

    Returns:
      True if the head was loaded too.

    Raises:
      RuntimeError: if names are missing or unknown, or a shape outside the head differs.

    Example:
      >>> load_pretrained(resnet18(100, width=2), resnet18(1000, width=2).state_dict())
      False
    """
    kept = {
        name: tensor
        for name, tensor in module.state_dict().items()
        if name.startswith(f"{head}.") and name in state and state[name].shape != tensor.shape
    }
    module.load_state_dict({**state, **kept})
    return not kept
