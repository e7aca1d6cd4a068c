"""The common parts of problems: checks of points and of example indices, the rows at these indices, shared examples."""

from typing import Self

import torch
from torch import Tensor


class SharedExamples:
    """The base of problems whose runs share their examples, each with a gradient that depends on its own rows alone."""

    keeps_examples_apart = True

    def take(self, index: Tensor | slice) -> Self:
        """Return this problem: all runs share its examples."""
        return self


def rows(data: Tensor, examples: Tensor | None, runs: int) -> Tensor:
    """The rows of a tensor at each run's indices; a view of all rows if `examples` is None.

    Args:
      data: `(1, examples, ...)`, shared by all runs, or `(runs, examples, ...)`.
      examples: `(runs, batch)` int64 indices, or None.
      runs: the number of runs.

    Returns:
      `(runs, batch, ...)`.

    Raises:
      ValueError: if `examples` has another shape or type, or, on a CPU, an index outside `0 ... examples - 1`; on a GPU
        torch's own assertion fails when the rows are read.

    Example:
      >>> rows(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[2, 0], [1, 1]]), runs=2)
      tensor([[3., 1.],
              [2., 2.]])
    """
    if examples is None:
        return data.expand(runs, *data.shape[1:])
    check(examples, runs, data.shape[1])
    if len(data) == 1:
        return data[0][examples]
    return data[torch.arange(runs, device=data.device)[:, None], examples]


def check_finite(**named: Tensor) -> None:
    """Raise an error unless all entries of these tensors are finite.

    Raises:
      ValueError: for the first tensor with another entry.

    Example:
      >>> check_finite(x=torch.tensor([1.0, torch.nan]))
      Traceback (most recent call last):
      ValueError: Expected x without NaN or infinite entries.
    """
    for name, tensor in named.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"Expected {name} without NaN or infinite entries.")


def check_data(like: Tensor, axes: tuple[str, ...], **named: Tensor) -> None:
    """Raise an error unless each tensor is finite, and has these axes and the type of `like`.

    Raises:
      ValueError: for another shape or type, no entries, NaN or infinite ones.

    Example:
      >>> check_data(torch.ones(2), ("n", "dim"), targets=torch.ones(2))
      Traceback (most recent call last):
      ValueError: Expected targets, torch.float32 of shape (2,), to be floating point, not empty, of axes (n, dim).
    """
    for name, tensor in named.items():
        if tensor.dim() != len(axes) or not tensor.numel() or not tensor.is_floating_point():
            raise ValueError(
                f"Expected {name}, {tensor.dtype} of shape {tuple(tensor.shape)}, to be floating point, not empty, of "
                f"axes ({', '.join(axes)})."
            )
        if tensor.dtype != like.dtype:
            raise ValueError(f"Expected {name}, {tensor.dtype}, to be {like.dtype}, as the other data.")
    check_finite(**named)


def check_points(x: Tensor, dim: int, dtype: torch.dtype | None = None, *, many: bool = False) -> None:
    """Raise an error unless `x` has shape `(runs, dim)`, or `(runs, points, dim)`, and, if one is given, this type.

    Raises:
      ValueError: for another shape or type.

    Example:
      >>> check_points(torch.zeros(2), dim=2, dtype=torch.float32)
      Traceback (most recent call last):
      ValueError: Expected x, torch.float32 of shape (2,), to be torch.float32 of shape (runs, 2).
    """
    dtype, axes = dtype or x.dtype, "runs, points" if many else "runs"
    if x.dim() != 2 + many or x.shape[-1] != dim or x.dtype != dtype:
        raise ValueError(f"Expected x, {x.dtype} of shape {tuple(x.shape)}, to be {dtype} of shape ({axes}, {dim}).")


def check(examples: Tensor, runs: int, num_examples: int) -> None:
    """Raise an error unless `examples` holds indices `(runs, batch)` of examples.

    Raises:
      ValueError: see `rows`.

    Example:
      >>> check(torch.tensor([[0, 7]]), runs=1, num_examples=5)
      Traceback (most recent call last):
      ValueError: Expected examples in 0 ... 4, got 0 ... 7.
    """
    if examples.dim() != 2 or len(examples) != runs or not examples.shape[1] or examples.dtype != torch.int64:
        raise ValueError(
            f"Expected examples, {examples.dtype} of shape {tuple(examples.shape)}, to be int64 of shape "
            f"({runs}, batch)."
        )
    if not examples.is_cpu:
        return  # reading the smallest index would make every step wait for the device
    low, high = (int(end) for end in examples.aminmax())
    if low < 0 or high >= num_examples:
        raise ValueError(f"Expected examples in 0 ... {num_examples - 1}, got {low} ... {high}.")
