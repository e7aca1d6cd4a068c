"""Per-run numbers: parameters given once or per run, and norms."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

Number = float | Tensor  # one for all runs, or (runs,)
Rules = TypeVar("Rules")


def rows(value: Number, like: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """The parameter of each run, `(runs,)`, on the device of `like`, which has one row per run.

    Raises:
      ValueError: if it is neither one number nor one number per run.

    Example:
      >>> rows(3, torch.zeros(2, 5), torch.int64)
      tensor([3, 3])
    """
    if not isinstance(value, Tensor):  # filled on the device, without a copy from the host
        return torch.full((len(like),), value, dtype=dtype, device=like.device)
    if value.shape not in ((), (len(like),)):
        raise ValueError(f"Expected a parameter of shape {tuple(value.shape)} to be () or {(len(like),)}: one a run.")
    return value.to(like.device, dtype).expand(len(like))


def column(settings: Sequence[object], name: str, device: torch.device | str = "cpu") -> Tensor:
    """The attribute `name` of each run's settings, `(runs,)` float64.

    Example:
      >>> column([1 + 2j, 3 + 4j], "imag")
      tensor([2., 4.], dtype=torch.float64)
    """
    return torch.tensor([getattr(setting, name) for setting in settings], dtype=torch.float64, device=device)


def norms(vectors: Tensor) -> Tensor:
    """The Euclidean norms of vectors `(runs, dim)`, `(runs,)`; float64 holds the squares of float32 numbers.

    Example:
      >>> norms(torch.tensor([[3.0, 4.0]]))
      tensor([5.], dtype=torch.float64)
    """
    return torch.linalg.vector_norm(vectors, dim=1, dtype=torch.float64)


def part_of(rules: Rules, index: Tensor | slice) -> Rules:
    """A dataclass of settings for some of the runs: the rows of its tensors, and the parts of its parts.

    Example:
      >>> from dataclasses import make_dataclass
      >>> part_of(make_dataclass("Settings", ["clip"])(torch.tensor([1.0, 2.0])), torch.tensor([1])).clip
      tensor([2.])
    """
    parts: Any = {f.name: getattr(rules, f.name) for f in fields(rules)}  # type: ignore[arg-type]
    for name, value in parts.items():
        if isinstance(value, Tensor):
            parts[name] = value[index] if value.dim() else value
        elif hasattr(value, "take"):
            parts[name] = value.take(index)
    return replace(rules, **parts)  # type: ignore[type-var]
