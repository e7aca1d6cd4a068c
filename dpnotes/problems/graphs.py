"""The memory that the graph of a loss holds."""

from collections.abc import Callable

import torch
from torch import Tensor


def saved_bytes(loss: Callable[[], Tensor], apart: Tensor) -> int:
    """The bytes that a forward pass keeps for its backward pass, without those of the tensor `apart`.

    Example:
      >>> x = torch.ones(10, requires_grad=True)
      >>> saved_bytes(lambda: (x * 2).square().sum(), x)
      40
    """
    held: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        held[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        kept = loss()
    del kept
    own = {apart.untyped_storage().data_ptr()}
    return sum(size for pointer, size in held.items() if pointer not in own)
