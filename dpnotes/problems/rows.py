"""Examples of a `torch.utils.data.Dataset`, fetched by index when a batch needs them."""

from typing import Any

import torch
from torch import Tensor


class Rows:
    """The first part of each row of a data set, as far as `ModuleProblem` uses a tensor `(examples, ...)`.

    All rows are read once, for their shapes, types and labels; then a batch reads its own. A data set that changes its
    examples at random must do so for each example alone; such a run cannot be repeated to the bit.

    Args:
      dataset: `dataset[i]` is a pair of an input and a label.
      device: where batches are put.

    Raises:
      TypeError: if a row is no pair of numbers.
      ValueError: if there are no rows; if one differs in shape or type, or raises an error (the message names it).

    Example:
      >>> from torch.utils.data import TensorDataset
      >>> rows = Rows(TensorDataset(torch.eye(3), torch.arange(3)))
      >>> rows.shape, rows[torch.tensor([2, 0])].tolist(), rows.labels.tolist()
      (torch.Size([3, 3]), [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], [0, 1, 2])
    """

    def __init__(self, dataset: Any, device: torch.device | str = "cpu") -> None:
        self._dataset, self.device = dataset, torch.device(device)
        if not len(dataset):
            raise ValueError("Expected dataset to have at least one row.")
        first, label = self._row(0)
        self.shape, self.dtype = torch.Size([len(dataset), *first.shape]), first.dtype
        self._ends = [first.min(), first.max()] if first.numel() else [first.new_zeros(())] * 2
        labels = [label]
        for index in range(1, len(dataset)):
            row, label = self._row(index)
            if label.shape != labels[0].shape or label.dtype != labels[0].dtype:
                raise ValueError(f"Expected the label of dataset[{index}], {label!r}, to be like that of dataset[0].")
            labels.append(label)
            if row.numel():
                self._ends = [torch.minimum(self._ends[0], row.min()), torch.maximum(self._ends[1], row.max())]
        self.labels = torch.stack(labels).to(self.device)

    def _row(self, index: int) -> tuple[Tensor, Tensor]:
        try:
            row, label = self._dataset[index]
            row, label = torch.as_tensor(row), torch.as_tensor(label)
        except Exception as error:  # a data set is arbitrary code
            said = (str(error) or type(error).__name__).splitlines()[0]
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"Expected dataset[{index}] to be a pair of tensors, arrays or numbers: {said}") from error
        if hasattr(self, "shape") and (row.shape != self.shape[1:] or row.dtype != self.dtype):
            raise ValueError(
                f"Expected dataset[{index}] of shape {tuple(row.shape)} and {row.dtype} to be like dataset[0]: "
                f"{tuple(self.shape[1:])} and {self.dtype}."
            )
        return row, label

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: int | slice | Tensor) -> Tensor:
        """Return the rows with these numbers, `(batch, ...)`, or one of them."""
        if isinstance(index, int):
            return self._row(index)[0].to(self.device)
        numbers = range(len(self))[index] if isinstance(index, slice) else index.tolist()
        rows = [self._row(number)[0] for number in numbers]
        return (torch.stack(rows) if rows else torch.empty(0, *self.shape[1:], dtype=self.dtype)).to(self.device)

    def dim(self) -> int:
        """The number of axes, with that of the examples."""
        return len(self.shape)

    def numel(self) -> int:
        """The number of entries of all examples."""
        return self.shape.numel()

    def is_floating_point(self) -> bool:
        """Return whether the entries are floating-point numbers."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Return whether the entries are complex numbers."""
        return self.dtype.is_complex

    def aminmax(self) -> tuple[Tensor, Tensor]:
        """The least and the largest entry, when all rows were read."""
        return self._ends[0], self._ends[1]


def as_examples(
    inputs: Any, labels: Any, device: torch.device | str = "cpu"
) -> tuple[tuple[Tensor | Rows, ...], Tensor]:
    """The inputs, one for each argument of a network, and the labels of tensors, arrays, lists or a data set.

    Args:
      inputs: `(examples, ...)` as a tensor, an array or a list, or a tuple of them; or a data set of pairs.
      labels: `(examples,)` likewise; None with a data set, which has them.
      device: where arrays, lists and rows of a data set are put.

    Raises:
      TypeError: for a `DataLoader` or an `IterableDataset`, or labels missing or in vain.
      ValueError: for lists of unequal lengths, and as `Rows`.

    Example:
      >>> inputs, labels = as_examples([[1.0, 2.0], [3.0, 4.0]], [0, 1])
      >>> inputs[0].shape, labels.dtype
      (torch.Size([2, 2]), torch.int64)
    """
    if isinstance(inputs, torch.utils.data.DataLoader):
        raise TypeError("Expected inputs=DataLoader to be its `.dataset`: the plan draws the batches, at random.")
    if isinstance(inputs, torch.utils.data.IterableDataset):
        raise TypeError("Expected inputs=IterableDataset to be a data set with rows by index: batches are random.")
    is_dataset = isinstance(inputs, torch.utils.data.Dataset)
    if is_dataset != (labels is None):
        how = "None with a data set, which has its own" if is_dataset else "given with inputs that are no Dataset"
        raise TypeError(f"Expected labels to be {how}.")
    if is_dataset:
        rows = Rows(inputs, device)
        return (rows,), _whole(rows.labels)
    parts = inputs if isinstance(inputs, tuple) else (inputs,)
    named = [_tensor(f"inputs[{i}]", part, device) for i, part in enumerate(parts)]
    return tuple(named), _whole(_tensor("labels", labels, device))


def _tensor(name: str, value: Any, device: torch.device | str) -> Tensor:
    if isinstance(value, Tensor):
        return value
    try:
        found = torch.as_tensor(value, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"Expected {name}, a {type(value).__name__}, to be numbers: {error}") from None
    # Lists and numpy are double by habit, networks single.
    return found.float() if found.dtype == torch.float64 else found


def _whole(labels: Tensor) -> Tensor:
    """The labels, whole numbers as int64, which cross-entropy takes."""
    return labels.long() if labels.dtype in (torch.uint8, torch.int8, torch.int16, torch.int32) else labels
