"""Modules and inputs that several tests use."""

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from dpnotes.random.streams import Streams


def normal(*shape: int, name: str = "inputs") -> Tensor:
    return Streams.of("modules", [name]).normal(name, 0, math.prod(shape)).view(shape)


class Both(nn.Module):
    """Something of several layers, in a function of them."""

    def __init__(self, function: Callable[..., Tensor], **layers: Any) -> None:
        super().__init__()
        for name, layer in layers.items():
            setattr(self, name, layer)
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(self, *inputs)


def small_conv_net(num_classes: int, in_channels: int = 1) -> nn.Sequential:
    """Return a smooth ConvNet: two convolutions, group normalisation, average pooling."""
    return nn.Sequential(
        nn.Conv2d(in_channels, 8, 3, padding=1, bias=False),
        nn.GroupNorm(4, 8),
        nn.SiLU(),
        nn.AvgPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1, bias=False),
        nn.GroupNorm(8, 16),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, num_classes),
    )
