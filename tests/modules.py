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
