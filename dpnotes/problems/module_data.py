"""Inputs and labels of a module, as its passes are given them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor

from dpnotes.problems.closed import refuse_code_of_tensors, stand_ins
from dpnotes.problems.examples import check_finite
from dpnotes.problems.passes import Examples
from dpnotes.problems.rows import Rows
from dpnotes.util import validate


@dataclass(frozen=True, eq=False)
class ModuleData:
    """The examples of a `ModuleProblem`.

    Args:
      inputs: `(examples, ...)` each, one for each argument of the module, of tensors or of a data set's rows.
      labels: `(examples,)`.
      channels_last: whether images are given in this memory format.
      example: inputs and label of a public example, `(1, ...)` each; None: made-up ones stand in.
      dtype: of the parameters, to which images in bytes are converted, as 0 to 1.

    Raises:
      TypeError: for a subclass of `torch.Tensor`.
    """

    inputs: tuple[Tensor | Rows, ...]
    labels: Tensor
    channels_last: bool = False
    example: tuple[Tensor, ...] | None = None
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        refuse_code_of_tensors(labels=self.labels, **self._named)

    @property
    def _named(self) -> dict[str, Any]:
        return {f"inputs[{i}]": tensor for i, tensor in enumerate(self.inputs)}

    @property
    def shapes(self) -> str:
        """The shapes of the inputs of one example, for an error."""
        return ", ".join(str(tuple(tensor.shape[1:])) for tensor in self.inputs)

    def check(self) -> None:
        """Refuse tensors that disagree with a ValueError, and inputs that are not finite or not of the type `dtype`."""
        validate.at_least(1, num_examples=len(self.labels))
        validate.same_length(labels=self.labels, **self._named)
        for name, tensor in self._named.items():
            if tensor.device != self.labels.device:
                place = self.labels.device
                raise ValueError(f"Expected {name} on {tensor.device} to be where labels are, on {place}.")
            if tensor.is_floating_point() and tensor.dtype != self.dtype:
                raise ValueError(f"Expected {name} of type {tensor.dtype} to have the parameters' {self.dtype}.")
            if isinstance(tensor, Tensor):  # a row is looked at when it is fetched
                check_finite(**{name: tensor})

    @cached_property
    def stand_ins(self) -> Examples:
        """Examples that are none of the data's, or the public one that was given."""
        data = (*self.inputs, self.labels)
        found = self.example or stand_ins(cast("Sequence[Tensor]", data))  # `Rows` has what is asked of a tensor there
        validate.same_length(inputs_and_label=data, example=found)
        for given, tensor in zip(found, data, strict=True):
            if given.shape[1:] != tensor.shape[1:] or given.dtype != tensor.dtype:
                raise ValueError(
                    f"Expected example of shape {tuple(given.shape)} and {given.dtype} to be as the data: "
                    f"(1, {', '.join(map(str, tensor.shape[1:]))}) and {tensor.dtype}."
                )
        *inputs, labels = (tensor.to(self.labels.device) for tensor in found)
        return self.formatted(*inputs), labels

    def batch(self, examples: Tensor, change: Callable[[Tensor], Tensor] | None = None) -> Examples:
        """The examples with these numbers, their first input after a change."""
        fetched = [tensor[examples] for tensor in self.inputs]
        for name, tensor, own in zip(self._named, self.inputs, fetched, strict=True):
            if isinstance(tensor, Rows):
                check_finite(**{name: own})
        inputs = tuple(self._scaled(tensor) for tensor in fetched)
        if change is not None:
            inputs = (change(inputs[0]), *inputs[1:])
        return self.formatted(*inputs), self.labels[examples]

    def formatted(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The inputs, of which images are numbers from 0 to 1, in the memory format that convolutions want."""
        return tuple(self._formatted(self._scaled(tensor)) for tensor in inputs)

    def _scaled(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.dtype) / 255 if tensor.dtype == torch.uint8 and tensor.dim() == 4 else tensor

    def _formatted(self, tensor: Tensor) -> Tensor:
        if tensor.dim() != 4:
            return tensor
        # The strides of one image alone may fit both formats, and torch's batch normalisation then reads its error in
        # the wrong one, or past its end.
        last = self.channels_last and len(tensor) > 1
        return tensor.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
