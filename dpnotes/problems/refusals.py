"""Modules and labels that a `ModuleProblem` refuses, in words that say what to do."""

from torch import Tensor, nn

from dpnotes.problems.closed import TENSORS


class ExamplesMix(ValueError):
    """A module makes the loss of an example depend on its batch, on purpose, so it has no gradient of its own."""


class OutOfMemory(MemoryError):
    """The activations of a batch do not fit into the device's memory."""


def refuse_by_name(module: nn.Module) -> None:
    """Refuse layers and tensors that are known to look at all examples, before anything is computed.

    No claim rests on this.

    Raises:
      ValueError: with the name of the layer or the tensor.
    """
    for name, layer in module.named_modules():
        if any(type(hook).__name__ == "WeightNorm" for hook in layer._forward_pre_hooks.values()):
            raise ValueError(
                f"Expected {name} without torch.nn.utils.weight_norm, which cannot be copied: use "
                "torch.nn.utils.parametrizations.weight_norm."
            )
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
            if layer.scale_grad_by_freq or layer.sparse:
                flag = "scale_grad_by_freq" if layer.scale_grad_by_freq else "sparse"
                raise ValueError(
                    f"Expected {name}.{flag}=True to be False: clipping needs each example's own gradient."
                )
            if layer.max_norm is not None:
                raise ValueError(
                    f"Expected {name}.max_norm={layer.max_norm} to be None: it changes the weights of the words that a "
                    "batch holds."
                )
        if isinstance(layer, nn.AlphaDropout | nn.FeatureAlphaDropout) and layer.training and layer.p:
            kind = type(layer).__name__
            raise ValueError(
                f"Expected {name}, a {kind}, to have no active dropout: its draws cannot be "
                "replayed for each example. Set its dropout to 0, or use nn.Dropout."
            )
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if type(tensor) not in TENSORS and "__torch_dispatch__" in vars(type(tensor)):
            kind = type(tensor).__name__
            raise ValueError(f"Expected {name} to be a torch.Tensor, not a {kind} with code of its own.")


def refuse_labels(labels: Tensor, outputs: Tensor, made_up: Tensor) -> None:
    """Refuse labels and outputs that cross-entropy does not take with a ValueError.

    Args:
      labels: of the data.
      outputs: of made-up examples.
      made_up: labels of these.
    """
    if outputs.dim() != 2 or len(outputs) != len(made_up):
        raise ValueError(f"Expected outputs of shape {tuple(outputs.shape)} to be ({len(made_up)}, num_classes).")
    low, high = (int(end) for end in labels.aminmax())
    if low < 0 or high >= outputs.shape[1]:
        raise ValueError(f"Expected labels in 0 ... {outputs.shape[1] - 1}, got {low} ... {high}.")
