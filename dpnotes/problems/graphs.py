"""The graph of a loss: its functions without a second derivative, and the memory that it holds."""

import re
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.autograd.graph import Node

# Functions without a second derivative somewhere: torch's names of their backward nodes.
_KINKS = re.compile(
    r"(Mkldnn)?(Relu|LeakyRelu|PreluKernel|RreluWithNoise|Elu|Celu|Hard\w+|Softshrink|Threshold|Abs|Sgn|Sign|Clamp\w*"
    r"|Max\w*|Min\w*|Amax|Amin|Aminmax|(Adaptive|Fractional)?MaxPool\w*|Sort|Topk|Median|Kthvalue|Round|Floor|Ceil)Backward\d+"
)


def kinks_of(losses: Tensor) -> list[str]:
    """The functions that losses are made of and that are not twice differentiable everywhere, by torch's names.

    Example:
      >>> kinks_of(torch.relu(torch.ones(1, requires_grad=True)).square())
      ['Relu']
    """
    names = {node.name() for node in _nodes(losses)}
    return sorted(re.sub(r"Backward\d+", "", name) for name in names if _KINKS.fullmatch(name))


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


def _nodes(tensor: Tensor) -> Iterator[Node]:
    """Every node of the graph behind a tensor."""
    waiting, seen = [tensor.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting += [following for following, _ in node.next_functions]
