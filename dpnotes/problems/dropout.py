"""Dropout whose masks are a function of (run, call, example, element), and not of the batch.

Torch draws all masks of a batch from one generator. Whoever knows its seed knows the masks, and one more example in a
batch shifts the masks of all later ones: every gradient of the batch changes, and their sum moves by far more than one
clipped gradient. Here the traced code of a network (`problems.closed`) receives its masks as inputs, a row for each
example. Neighbouring data sets that keep the examples' numbers (zero-out, replace-one) then differ in one clipped
gradient, whatever the masks. Under add-or-remove-one the later examples change their numbers, and masks that nobody
knows have the same distribution for both: the streams have to be secret.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from dpnotes.problems.augmentation import Draws

# By function: the number of last axes that fall together.
_TOGETHER = {functional.dropout: 0, functional.dropout1d: 1, functional.dropout2d: 2, functional.dropout3d: 3}
_LAYERS = {nn.Dropout: 0, nn.Dropout1d: 1, nn.Dropout2d: 2, nn.Dropout3d: 3}
_KINDS = nn.modules.dropout._DropoutNd, nn.RNNBase, nn.MultiheadAttention


@dataclass(frozen=True)
class Site:
    """A place where a network drops elements: the shape of one example's mask there, and the share that falls."""

    shape: tuple[int, ...]
    p: float


def drops(module: nn.Module) -> bool:
    """Return whether a layer of torch in the module has active dropout.

    Example:
      >>> drops(nn.Sequential(nn.Dropout(0.5))), drops(nn.Dropout(0.5).eval()), drops(nn.LSTM(2, 2, 2, dropout=0.1))
      (True, False, True)
    """
    return any(
        m.training and (m.p if isinstance(m, nn.modules.dropout._DropoutNd) else m.dropout) > 0
        for m in module.modules()
        if isinstance(m, _KINDS)
    )


def with_masks(code: nn.Module, inputs: Sequence[Tensor]) -> tuple[nn.Module, tuple[Site, ...]]:
    """The traced code with a mask as a further input for each active dropout, and these places.

    Args:
      code: of `problems.closed.closed`.
      inputs: of one example, `(1, ...)` each, on which the shapes of the masks are measured.

    Raises:
      ValueError: for a random operation that is no ordinary dropout, naming it.

    Example:
      >>> from dpnotes.problems.closed import closed
      >>> code, sites = with_masks(closed(nn.Sequential(nn.Dropout(0.5), nn.ReLU()), 1), [torch.ones(1, 3)])
      >>> code(torch.ones(1, 3), torch.tensor([[[0.0, 2.0, 2.0]]])), sites
      (tensor([[0., 2., 2.]]), (Site(shape=(1, 3), p=0.5),))
    """
    if not isinstance(code, fx.GraphModule):
        return code, ()
    found = [node for node in code.graph.nodes if _dropout(code, node)]
    shapes = _Shapes(code)
    with torch.random.fork_rng([inputs[0].device] if inputs[0].is_cuda else []), torch.no_grad():
        shapes.run(*inputs)
    arguments = [node for node in code.graph.nodes if node.op == "placeholder"]
    sites: list[Site] = []
    for node in found:
        given, p, together = _dropout(code, node) or (node, 0.0, 0)
        if not p:
            node.replace_all_uses_with(given)
        else:
            shape = shapes.found[node]
            if together and len(shape) != together + 2:
                raise ValueError(f"Expected the input of Dropout{together}d, of shape {shape}, to have a batch axis.")
            sites.append(Site((*shape[: len(shape) - together], *[1] * together), p))
            with code.graph.inserting_after(arguments[-1]):
                arguments.append(code.graph.placeholder(f"mask_{len(sites)}"))
            with code.graph.inserting_before(node):
                node.replace_all_uses_with(code.graph.call_function(_kept, (given, arguments[-1])))
        code.graph.erase_node(node)
    if found:
        code.graph.lint()
        code.recompile()
    return code, tuple(sites)


def masks(draws: Draws, run: int, examples: Tensor, sites: Sequence[Site], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """The masks of some examples of one run: for each site 0 or 1 / (1 - p), `(batch, *shape)`.

    Args:
      draws: the streams and step numbers.
      run: the number of the run.
      examples: `(batch,)` int64, whose numbers the draws are named by.
      sites: of `with_masks`.
      dtype: of the masks.

    Example:
      >>> from dpnotes.random.streams import Streams
      >>> draws, sites = Draws(Streams.of("example", ["run"]), 7), [Site((1, 4), 0.5)]
      >>> both = masks(draws, 0, torch.tensor([5, 9]), sites, torch.float32)[0]
      >>> torch.equal(both[1:], masks(draws, 0, torch.tensor([9]), sites, torch.float32)[0])
      True
    """
    sizes = [math.prod(site.shape) for site in sites]
    own = draws.of_examples(run, examples)
    words = torch.stack(own.words(f"dropout {draws.call(run)}", examples, -(-sum(sizes) // 4)), dim=-1).flatten(1)
    parts = words[:, : sum(sizes)].split(sizes, dim=1)
    return tuple(
        # A word is below p * 2^32 with probability p, up to 2^-32.
        (part >= math.ceil(site.p * 2**32)).to(dtype).div_(1 - site.p if site.p < 1 else 1).view(-1, *site.shape)
        for part, site in zip(parts, sites, strict=True)
    )


def _kept(given: Tensor, mask: Tensor) -> Tensor:
    return given * mask[0].to(given.dtype)


def _dropout(code: fx.GraphModule, node: fx.Node) -> tuple[fx.Node, float, int] | None:
    """The node whose result is dropped, the share (0: nothing) and the number of axes together; None for no dropout."""
    if node.op == "call_module":
        layer = code.get_submodule(str(node.target))
        if not drops(layer):
            return None
        if type(layer) not in _LAYERS:
            raise ValueError(
                f"Expected {node.target}, a {type(layer).__name__}, to have no active dropout: its draws cannot be "
                "replayed for each example. Set its dropout to 0, or use nn.Dropout."
            )
        return node.args[0], float(layer.p), _LAYERS[type(layer)]  # type: ignore[arg-type, return-value]
    if node.op != "call_function":
        return None
    if node.target in _TOGETHER:
        names = "input", "p", "training"
        given = dict(zip(names, node.args, strict=False)) | node.kwargs
        p = float(given.get("p", 0.5)) if given.get("training", True) else 0.0  # type: ignore[arg-type]
        return given["input"], p, _TOGETHER[node.target]  # type: ignore[return-value]
    name = getattr(node.target, "__name__", "")
    if "dropout" in name or node.kwargs.get("dropout_p") and node.kwargs.get("training", True):
        raise ValueError(
            f"Expected {name} to drop nothing: its draws cannot be replayed for each example; use nn.Dropout."
        )
    return None


class _Shapes(fx.Interpreter):
    """An interpreter that keeps the shapes of all results."""

    def __init__(self, code: fx.GraphModule) -> None:
        super().__init__(code)
        self.found: dict[fx.Node, tuple[int, ...]] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, Tensor):
            self.found[n] = tuple(result.shape)
        return result
