"""Dropout whose masks are a function of (run, call, example, element), and not of the batch.

Torch draws all masks of a batch from one generator. Whoever knows its seed knows the masks, and one more example in a
batch shifts the masks of all later ones: every gradient of the batch changes, and their sum moves by far more than one
clipped gradient. Here a network receives its masks as inputs, a row for each example, and every dropout in it, in a
layer, a function or inside attention, multiplies by the next one (`masked`). Neighbouring data sets that keep the
examples' numbers (zero-out, replace-one) then differ in one clipped gradient, whatever the masks. Under
add-or-remove-one the later examples change their numbers, and masks that nobody knows have the same distribution for
both: the streams have to be secret.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._autograd import _top_saved_tensors_default_hooks  # type: ignore[attr-defined]
from torch._C._functorch import TransformType, get_interpreter_stack  # type: ignore[attr-defined]
from torch.autograd.graph import disable_saved_tensors_hooks
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from dpnotes.problems.augmentation import Draws

# By function: the number of last axes that fall together.
_TOGETHER = {functional.dropout: 0, functional.dropout1d: 1, functional.dropout2d: 2, functional.dropout3d: 3}
_LAYERS = nn.modules.dropout._DropoutNd, nn.RNNBase, nn.MultiheadAttention
# Torch's attention in a copy that does not ask whether a mode is on: the mode is asked by the dropout inside it.
_whole = functional.multi_head_attention_forward
_attention = FunctionType(_whole.__code__, vars(functional) | {"has_torch_function": lambda _: False})
_attention.__defaults__ = _whole.__defaults__


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
    layers = [layer for layer in module.modules() if isinstance(layer, _LAYERS)]
    return any(layer.training and getattr(layer, "p", getattr(layer, "dropout", 0)) > 0 for layer in layers)


def sites_of(run: Callable[[], Any]) -> tuple[Site, ...]:
    """The places where code drops elements, in the order in which it comes to them; nothing is drawn.

    Args:
      run: passes one example, a batch of one.

    Raises:
      ValueError: for a random operation that is no ordinary dropout, naming it.

    Example:
      >>> sites_of(lambda: nn.Sequential(nn.Dropout(0.5), nn.ReLU())(torch.ones(1, 3)))
      (Site(shape=(1, 3), p=0.5),)
    """
    found: list[Site] = []

    def ones(site: Site) -> Tensor:
        found.append(site)
        return torch.ones(())

    with torch.no_grad(), _Dropout(ones):
        run()
    return tuple(found)


@contextmanager
def masked(masks: Iterable[tuple[Site, Tensor]]) -> Iterator[None]:
    """A context in which the dropouts of code multiply by these masks, one after the other.

    Torch raises an error in it for a checkpoint, which would pass through dropouts again outside of the context.

    Args:
      masks: of one example, `(1, *site.shape)` each, with their sites.

    Example:
      >>> with masked([(Site((1, 3), 0.5), torch.tensor([[[0.0, 2.0, 2.0]]]))]):
      ...     nn.Dropout(0.5)(torch.ones(1, 3))
      tensor([[0., 2., 2.]])
    """
    left = iter(masks)

    def following(site: Site) -> Tensor:
        expected, mask = next(left, (None, torch.empty(0)))
        if expected != site:
            raise ValueError("Expected a module whose dropouts do not depend on the example: it comes to another one.")
        return mask[0]

    again = "Expected no checkpointing around dropout: its masks would be drawn again in the backward pass."
    # Torch's own hooks around a pass, which move tensors, cannot be disabled.
    hooks = nullcontext() if _top_saved_tensors_default_hooks(False) else disable_saved_tensors_hooks(again)
    with hooks, _Dropout(following):
        yield


def masks(draws: Draws, run: int, examples: Tensor, sites: Sequence[Site], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """The masks of some examples of one run: for each site 0 or 1 / (1 - p), `(batch, *shape)`.

    Args:
      draws: the streams and step numbers.
      run: the number of the run.
      examples: `(batch,)` int64, whose numbers the draws are named by.
      sites: of `sites_of`.
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


class _Dropout(TorchFunctionMode):
    """A mode in which dropout multiplies by a mask for its site."""

    def __init__(self, mask: Callable[[Site], Tensor]) -> None:
        super().__init__()
        self._mask, self._vmaps = mask, _vmaps()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, with masks in place of what it would draw."""
        kwargs = kwargs or {}
        if "dropout" in (name := getattr(func, "__name__", "")):
            given = dict(zip(("input", "p", "training", "inplace"), args, strict=False)) | kwargs
            p = given.get("p", 0.5) if given.get("training", True) else 0.0
            if func in _TOGETHER:
                return self._kept(given["input"], p, _TOGETHER[func], given.get("inplace", False))
            if p:
                raise ValueError(
                    f"Expected {name} to drop nothing: its draws cannot be replayed for each example; use nn.Dropout."
                )
        if func is functional.multi_head_attention_forward:
            with self:
                return _attention(*args, **kwargs)
        if func is functional.scaled_dot_product_attention:
            return self._attended(*args, **kwargs)
        return func(*args, **kwargs)

    def _kept(self, input: Tensor, p: float, together: int = 0, inplace: bool = False) -> Tensor:
        if not p or not input.numel():
            return input
        if _vmaps() != self._vmaps:
            raise ValueError("Expected no dropout inside torch.func.vmap: one mask would serve all that it maps over.")
        if together and input.dim() != together + 2:
            raise ValueError(
                f"Expected the input of Dropout{together}d, of shape {tuple(input.shape)}, to have a batch axis."
            )
        shape = *input.shape[: input.dim() - together], *[1] * together
        mask = self._mask(Site(shape, p)).to(input)
        return input.mul_(mask) if inplace else input * mask

    def _attended(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **how: Any,
    ) -> Tensor:
        """Attention whose weights fall: with the unit matrix as values, torch's function returns the weights."""
        attention = functional.scaled_dot_product_attention
        if not dropout_p:
            return attention(query, key, value, attn_mask, 0.0, is_causal, **how)
        unit = torch.eye(key.shape[-2], dtype=value.dtype, device=value.device).expand(*key.shape[:-1], -1)
        weights = attention(query, key, unit, attn_mask, 0.0, is_causal, **how)
        if how.get("enable_gqa"):
            value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
        return self._kept(weights, dropout_p) @ value


def _vmaps() -> int:
    """The number of torch's vmaps that are running."""
    return sum(each.key() == TransformType.Vmap for each in get_interpreter_stack() or [])
