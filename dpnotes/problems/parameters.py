"""The trainable parameters of a module as one flat vector."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpnotes.problems.passes import Values
from dpnotes.random.streams import Streams


@dataclass(frozen=True, eq=False)
class FlatParameters:
    """Names and shapes of the trainable parameters of a module, in the order of `named_parameters`.

    Args:
      shapes: by name.
      start: the parameters that the module has, `(dim,)`.
    """

    shapes: Mapping[str, torch.Size]
    start: Tensor

    @classmethod
    def of(cls, module: nn.Module, device: torch.device | str = "cpu") -> "FlatParameters":
        """The parameters of a module that require gradients, on a device.

        Raises:
          ValueError: if none does.

        Example:
          >>> FlatParameters.of(nn.Linear(2, 3)).shapes
          {'weight': torch.Size([3, 2]), 'bias': torch.Size([3])}
        """
        named = {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}
        if not named:
            raise ValueError("Expected a module with trainable parameters (requires_grad).")
        start = torch.cat([parameter.reshape(-1) for parameter in named.values()]).to(device)
        return cls({name: parameter.shape for name, parameter in named.items()}, start)

    def split(self, points: Tensor) -> Values:
        """Views of points `(..., dim)` by the parameters' names, `(..., *shape)`."""
        parts = points.split([shape.numel() for shape in self.shapes.values()], dim=-1)
        return {
            name: part.view((*points.shape[:-1], *shape))
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    def flat(self, values: Values) -> Tensor:
        """The inverse of `split` for one point; a parameter without a value is 0."""
        zeros = ((name, self.start.new_zeros(shape)) for name, shape in self.shapes.items() if name not in values)
        values = values | dict(zeros)
        return torch.cat([values[name].reshape(-1) for name in self.shapes])

    def drawn(self, module: nn.Module, streams: Streams, only: Collection[str] | None) -> Tensor:
        """A starting point `(runs, dim)`; arguments and errors as `ModuleProblem.initial`."""
        for start in only or ():
            if not any(name.startswith(start) for name in self.shapes):
                raise ValueError(f"Expected only={start!r} to begin a parameter's name: {', '.join(self.shapes)}.")
        x = self.start.repeat(len(streams), 1)
        for name, view in self.split(x).items():
            if only is None or name.startswith(tuple(only)):
                view.copy_(_default(module, name, streams, view.shape[1:]))
        return x


def _default(module: nn.Module, name: str, streams: Streams, shape: torch.Size) -> Tensor:
    """The values that torch's layers start a parameter with, `(runs, *shape)` or one number for all."""
    path, _, local = name.rpartition(".")
    layer = module.get_submodule(path)
    purpose = f"initial {name}"
    if isinstance(layer, nn.Linear | nn.modules.conv._ConvNd) and not getattr(layer, "transposed", False):
        bound = 1 / math.sqrt(layer.weight[0].numel())
        return streams.uniform(purpose, 0, shape.numel()).mul_(2).sub_(1).mul_(bound).view(-1, *shape)
    if isinstance(layer, nn.GroupNorm | nn.LayerNorm | nn.modules.batchnorm._NormBase):
        return torch.tensor(1.0 if local == "weight" else 0.0)
    if isinstance(layer, nn.Embedding):
        drawn = streams.normal(purpose, 0, shape.numel()).view(-1, *shape)
        if layer.padding_idx is not None:
            drawn[:, layer.padding_idx] = 0
        return drawn
    raise ValueError(f"Expected {name} to be of a layer with a known default, not of a {type(layer).__name__}.")
