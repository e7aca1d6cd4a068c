"""Batch normalisation without running statistics: those of the batch, or of training examples at one point."""

import copy
from collections.abc import Iterable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def forget_statistics(module: nn.Module) -> list[str]:
    """Let batch normalisations that mix examples use the statistics of the batch alone, in training and out of it.

    Returns:
      Their names in the module.
    """
    mixing = {
        name: layer
        for name, layer in module.named_modules()
        if isinstance(layer, _BatchNorm) and (layer.training or layer.running_mean is None)
    }
    for layer in mixing.values():
        layer.running_mean = layer.running_var = layer.num_batches_tracked = None
        layer.track_running_stats = False
    return [*mixing]


def with_buffers(module: nn.Module, names: Sequence[str], like: Tensor) -> nn.Module:
    """A copy of a module with the statistics of these batch normalisations as buffers, of the type of `like`."""
    module = copy.deepcopy(module)
    for name in names:
        layer = module.get_submodule(name)
        assert isinstance(layer, _BatchNorm)
        layer.running_mean = torch.zeros(layer.num_features, dtype=like.dtype, device=like.device)
        layer.running_var = torch.ones_like(layer.running_mean)
        layer.eval()
    return module


def averaged_statistics(
    module: nn.Module, names: Sequence[str], passes: Iterable[object], dtype: torch.dtype
) -> dict[str, Tensor]:
    """Means and variances at the inputs of batch normalisations, averaged over batches, by the names of buffers.

    Args:
      module: that is passed.
      names: of its batch normalisations.
      passes: that send one batch each through the module when they are iterated.
      dtype: of the statistics.
    """
    moments: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in names}

    def record(name: str, layer: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        seen = arguments[0].to(torch.promote_types(arguments[0].dtype, torch.float32))
        axes = [axis for axis in range(seen.dim()) if axis != 1]
        variance, mean = torch.var_mean(seen, axes, correction=0)
        moments[name].append((mean, variance))

    handles = [module.get_submodule(name).register_forward_pre_hook(partial(record, name)) for name in names]
    try:
        for _ in passes:
            pass
    finally:
        for handle in handles:
            handle.remove()
    found = {}
    for name, seen in moments.items():
        means, variances = (torch.stack(part) for part in zip(*seen, strict=True))
        found[f"{name}.running_mean"] = means.mean(0).to(dtype)
        # The mean of second moments less the squared mean, without its cancellation.
        found[f"{name}.running_var"] = (variances.mean(0) + means.var(0, correction=0)).to(dtype)
    return found
