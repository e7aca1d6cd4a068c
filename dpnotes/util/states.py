"""Functions on states, which are dataclasses, tuples and dicts of tensors with a leading runs axis: combine, store."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from dpnotes.util import checks
from dpnotes.util.lineage import Lineage

State = TypeVar("State")


def map_state(function: Callable[..., Tensor], *states: State, lineage: Lineage | None = None) -> State:
    """Apply `function` to the corresponding tensors of states of one type.

    The result has this `lineage`; None: of the runs that the function selects from the states' lineages.

    >>> map_state(torch.add, torch.ones(2), torch.ones(2))
    tensor([2., 2.])
    """
    return _walk(function, lambda first, *others: lineage or first.mapped(function, *others), *states)


def _walk(on_tensors: Callable[..., Tensor], on_lineages: Callable[..., Lineage], *states: State) -> State:
    first = states[0]
    if isinstance(first, Tensor):
        return on_tensors(*states)  # type: ignore[return-value]
    if isinstance(first, Lineage):
        return on_lineages(*states)  # type: ignore[return-value]
    if isinstance(first, tuple):
        return tuple(_walk(on_tensors, on_lineages, *parts) for parts in zip(*states, strict=True))  # type: ignore
    if isinstance(first, dict):
        return {name: _walk(on_tensors, on_lineages, *(state[name] for state in states)) for name in first}  # type: ignore
    if not is_dataclass(first) or isinstance(first, type):
        raise TypeError(f"Expected a state made of dataclasses, tuples, dicts and tensors, got {type(first).__name__}.")
    parts = {
        f.name: _walk(on_tensors, on_lineages, *(getattr(state, f.name) for state in states)) for f in fields(first)
    }
    return replace(first, **parts)


def select(mask: Tensor, new: State, old: State) -> State:
    """The state `new` where `mask`, `(runs,)` bool, is true, else `old`; `new` itself if a CPU mask is all true.

    >>> select(torch.tensor([True, False]), torch.ones(2, 1), torch.zeros(2, 1)).flatten()
    tensor([1., 0.])
    """
    if checks.known_empty(~mask):
        return new
    return map_state(lambda a, b: torch.where(mask.view(-1, *[1] * (a.dim() - 1)), a, b), new, old)


def finite(x: Tensor) -> Tensor:
    """Return whether each row of `x`, `(runs, dim)`, has finite entries only, `(runs,)` bool.

    >>> finite(torch.tensor([[1.0, 2.0], [1.0, torch.nan], [-torch.inf, 0.0]]))
    tensor([ True, False, False])
    """
    return torch.linalg.vector_norm(x, torch.inf, dim=1) < torch.inf


def flatten(state: Any, prefix: str = "") -> dict[str, Tensor]:
    """The state as a flat dict of tensors, as in checkpoints (`torch.save` it, load with `weights_only=True`).

    >>> flatten(torch.zeros(1), "x")
    {'x': tensor([0.])}
    """
    if isinstance(state, Tensor):
        return {prefix: state}
    if isinstance(state, Lineage):
        return {}
    state = dict(enumerate(state)) if isinstance(state, tuple) else state
    parts = state.items() if isinstance(state, dict) else ((f.name, getattr(state, f.name)) for f in fields(state))
    named = (flatten(part, f"{prefix}.{name}" if prefix else str(name)) for name, part in parts)
    return {name: tensor for some in named for name, tensor in some.items()}


def restore(template: State, tensors: dict[str, Tensor]) -> State:
    """The state that `flatten` stored, in the shape of `template` (a state of the same type, such as a fresh one).

    For resuming after a crash, or for counterfactual runs; of the runs that continue from copies of one state, only one
    may be published. A stored state knows the spending up to its storage: restoring it after its run went on forgets
    what was spent since, and draws the same noise again from seeded streams.

    Raises:
      ValueError: if the names differ, or a tensor's shape or dtype does.

    >>> restore(torch.zeros(1), {"": torch.ones(1)})
    tensor([1.])
    """
    expected = flatten(template)
    if expected.keys() != tensors.keys():
        raise ValueError(f"Expected a checkpoint with {sorted(expected)}, got {sorted(tensors)}.")
    for name, tensor in expected.items():
        if tensor.shape != tensors[name].shape or tensor.dtype != tensors[name].dtype:
            raise ValueError(
                f"Expected {name} of shape {tuple(tensor.shape)} and {tensor.dtype}, "
                f"got {tuple(tensors[name].shape)} and {tensors[name].dtype}."
            )
    # On the CPU first, where the constructors of states validate their values.
    values = iter(tensors[name].cpu() for name in expected)
    stored = _walk(lambda _: next(values), lambda lineage: lineage.renewed(), template)
    return _walk(lambda tensor, like: tensor.to(like.device), lambda lineage, _: lineage, stored, template)
