"""A two-layer network whose per-example gradients are never materialised.

The gradient of one example with respect to a dense layer is the outer product of the layer's input and the error at
its output, so its norm is the product of their norms (Goodfellow, "Efficient per-example gradient computations",
arXiv:1510.01799v2, section 4), and a weighted sum of such gradients is one matrix product. One forward and one
backward pass therefore give the losses, the norms, and any weighted sum that clipping needs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from dpnotes.core import Constant
from dpnotes.problems.examples import check_finite, check_points, rows
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.precision import full_precision, row_norms
from dpnotes.util.validate import AtLeastOne, AtLeastTwo, checked

Activation = Literal["tanh", "relu"]

_aten = torch.ops.aten
_ZERO = torch.zeros(())  # on the host: a kernel takes it as an argument, while a GPU's tensor would be created first


def _tanh_(z: Tensor) -> Tensor:
    """The hyperbolic tangent in place; on a CPU as 2 sigmoid(2 z) - 1: five times faster, 2e-7 off in float32."""
    if not z.is_cpu:
        return z.tanh_()
    return torch.add(z.new_tensor(-1.0), z.mul_(2).sigmoid_(), alpha=2, out=z)


# For each activation: the function, in place, and the backward pass, which maps `(error after it, its output, into)` to
# # the error before it, written to `into`.
_ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor, Tensor], Tensor]]] = {
    "tanh": (_tanh_, lambda error, out, into: _aten.tanh_backward.grad_input(error, out, grad_input=into)),
    "relu": (torch.relu_, lambda error, out, into: _aten.threshold_backward.grad_input(error, out, 0, grad_input=into)),
}


@dataclass(frozen=True, eq=False)
class NetworkGradients:
    """The gradients of all examples of a `TwoLayerNetwork`, as the factors of their outer products.

    Args:
      losses: `(runs, examples)`.
      inputs: `(runs, examples, num_inputs + 1)`; the last column is 1 and belongs to the bias.
      input_norms: `(runs, examples)`, the norms of these rows.
      hidden: `(runs, examples, num_hidden)`, after the activation.
      hidden_errors: `(runs, examples, num_hidden)`, derivatives of the losses before the activation, divided by
        `scales`.
      errors: `(runs, examples, num_classes)`, derivatives of the losses with respect to the logits.
      scales: `(runs, examples)`; None: 1.
    """

    losses: Tensor
    inputs: Tensor
    input_norms: Tensor
    hidden: Tensor
    hidden_errors: Tensor
    errors: Tensor
    scales: Tensor | None = None

    def norms(self) -> Tensor:
        """The Euclidean norms of the examples' gradients, `(runs, examples)`."""
        return self._norms

    @cached_property
    def _norms(self) -> Tensor:
        first = self.input_norms * row_norms(self.hidden_errors)
        if self.scales is not None:
            first = first.mul_(self.scales).abs_()
        # The second layer's input is `hidden` with a 1 for the bias.
        second = row_norms(self.hidden).square_().add_(1).sqrt_()
        return torch.hypot(first, second.mul_(row_norms(self.errors)))

    @full_precision()
    def weighted_sum(self, weights: Tensor) -> Tensor:
        """The weighted sum `sum_i weights[:, i] * gradient_i`, `(runs, dim)`, for weights `(runs, examples)`.

        An example of weight 0 contributes nothing, whatever its gradient.
        """
        absent = weights == 0
        # 0 times an infinite gradient is not 0. On a GPU this is not tested: the test would wait for all queued work.
        harmless = weights.is_cpu and not (bool(absent.any()) and bool((absent & ~self._norms.isfinite()).any()))

        def present(factor: Tensor) -> Tensor:
            return factor if harmless else torch.where(absent[..., None], _ZERO, factor)

        # Weights multiply the narrow factor of each outer product, never a `(examples, num_hidden)` array.
        errors = present(self.errors * weights[..., None])
        inputs = present(self.inputs * (weights if self.scales is None else weights * self.scales)[..., None])
        (runs, _, fan_in), num_hidden, num_classes = inputs.shape, self.hidden.shape[2], errors.shape[2]
        split = fan_in * num_hidden
        total = errors.new_empty(runs, split + (num_hidden + 1) * num_classes)
        first, hidden_errors = total[:, :split].unflatten(1, (fan_in, num_hidden)), present(self.hidden_errors)
        if runs == 1:
            torch.bmm(inputs.mT, hidden_errors, out=first)
        else:  # faster than writing into memory with gaps between the runs
            first.copy_(torch.bmm(inputs.mT, hidden_errors))
        second = total[:, split:].unflatten(1, (num_hidden + 1, num_classes))
        second[:, :-1] = torch.bmm(errors.mT, present(self.hidden)).mT
        torch.sum(errors, 1, out=second[:, -1])
        return total


@checked
@dataclass(frozen=True, eq=False)
class TwoLayerNetwork:
    """The softmax cross-entropy of `activation(inputs @ W1 + b1) @ W2 + b2`, a `core.Problem`.

    A point `(runs, dim)` holds, flat, two matrices `(inputs + 1, outputs)`, each with its bias as the last row;
    `layers` gives them as views. With `n` examples, `h` hidden units and `r` runs one call of `gradients` creates two
    arrays of `r n h` numbers. Norms create no third, and weighted sums one at most, a copy without the examples of
    weight 0: on a GPU always, on a CPU where such an example is not finite. The per-example gradients, `r n dim`
    numbers, are never materialised.

    Args:
      inputs: `(examples, num_inputs)`, shared by all runs, or `(runs, examples, num_inputs)`; floating point, finite.
      labels: `(examples,)` or `(runs, examples)`, int64 in `0 ... num_classes - 1`.
      num_hidden: hidden units, at least 1.
      num_classes: at least 2.
      activation: "tanh" or "relu". Hong, Wang and Zhou (FAccT 2022) name none; tanh is smooth, as their theorems ask.

    Raises:
      ValueError: for shapes that disagree, labels out of range, NaN or infinite inputs.

    Example:
      >>> digits = TwoLayerNetwork(torch.randn(5, 60), torch.tensor([0, 1, 1, 0, 1]), num_hidden=1000)
      >>> digits.dim
      63002
      >>> gradients = digits.gradients(digits.initial(Streams.of("example", ["run 0", "run 1"])))
      >>> gradients.norms().shape, gradients.weighted_sum(torch.full((2, 5), 1 / 5)).shape
      (torch.Size([2, 5]), torch.Size([2, 63002]))
    """

    inputs: Tensor
    labels: Tensor
    num_hidden: AtLeastOne
    num_classes: AtLeastTwo = 2
    activation: Activation = "tanh"
    keeps_examples_apart = True  # each example's gradient depends on that example's rows alone
    _extended: Tensor = field(init=False, repr=False)  # inputs with a column of ones, (1 or runs, examples, inputs + 1)
    _norms: Tensor = field(init=False, repr=False)
    _labels: Tensor = field(init=False, repr=False)  # (1 or runs, examples)

    def __post_init__(self) -> None:
        extended = _extend(self.inputs, self.labels, self.num_classes)
        object.__setattr__(self, "_extended", extended)
        object.__setattr__(self, "_norms", row_norms(extended))
        object.__setattr__(self, "_labels", self.labels.expand(len(extended), -1))

    @property
    def num_inputs(self) -> int:
        """The number of features of an example."""
        return self.inputs.shape[-1]

    @property
    def num_examples(self) -> int:
        """The number of examples of a run."""
        return self.inputs.shape[-2]

    @property
    def dim(self) -> int:
        """The number of parameters; 63,002 for 60 inputs, 1000 hidden units and 2 classes."""
        return (self.num_inputs + 1) * self.num_hidden + (self.num_hidden + 1) * self.num_classes

    @property
    def constants(self) -> dict[str, Constant]:
        """The known constants: the infimum of the loss is at least 0.

        Neither a Lipschitz nor a smoothness constant is listed: over all parameters there is none, since the gradient
        with respect to the first layer grows with the second. Clipping enforces the sensitivity instead.
        """
        return {"lower_bound": Constant(0.0, "proved", "cross-entropy is a negative log-probability")}

    @property
    def bytes_per_run(self) -> int:
        """The peak memory of one more run in `gradients`, `norms` and `weighted_sum`, its point included."""
        wide = (2 if self.inputs.is_cpu else 3) * self.num_examples * self.num_hidden
        narrow = self.num_examples * (2 * (self.num_inputs + 1) + 4 * self.num_classes + 6)
        return (wide + narrow + 4 * self.dim) * self.inputs.element_size()

    def take(self, index: Tensor | slice) -> "TwoLayerNetwork":
        """The problem restricted to some of the runs; this problem itself if all runs share the examples."""
        if self.inputs.dim() == 2:
            return self
        return replace(self, inputs=self.inputs[index], labels=self.labels[index])

    def layers(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Views of a point: weights `(runs, inputs, outputs)` and biases `(runs, outputs)` of both layers."""
        first, second = self._matrices(x)
        return first[:, :-1], first[:, -1], second[:, :-1], second[:, -1]

    def initial(self, streams: Streams) -> Tensor:
        """A starting point `(runs, dim)`: weights and biases uniform in +-1/sqrt(number of inputs of the layer).

        This is what `torch.nn.Linear` does by default (torch 2.13); the paper does not specify its initialisation. The
        draws are float64 ones rounded to the type of the inputs, so that both types start at the same place.
        """
        unit = streams.uniform("initial", 0, self.dim).mul_(2).sub_(1)
        first, second = self._matrices(unit)
        first *= 1 / math.sqrt(self.num_inputs)  # times a host number: division would round differently on a GPU
        second *= 1 / math.sqrt(self.num_hidden)
        return unit.to(self.inputs)

    def gradients(self, x: Tensor, examples: Tensor | None = None) -> NetworkGradients:
        """The losses and the factored per-example gradients at the points `x`, `(runs, dim)`.

        Args:
          x: `(runs, dim)`.
          examples: `(runs, batch)` int64 indices of examples; all examples if None.

        Raises:
          ValueError: for shapes that disagree, or an index of no example.
        """
        if self.inputs.dim() == 3:
            validate.same_length(x=x, inputs=self.inputs)
        first, second = self._matrices(x)
        inputs, input_norms, labels = (rows(t, examples, len(x)) for t in (self._extended, self._norms, self._labels))
        hidden = self._hidden(inputs, first)
        logits = _logits(hidden, second)
        labels = labels[..., None]
        log_probabilities = torch.log_softmax(logits, dim=-1)
        losses = log_probabilities.gather(-1, labels).squeeze(-1).neg_()
        # The error of the true class is minus the sum of the others: p - 1 would cancel where the network is sure.
        errors = log_probabilities.exp_().scatter_(-1, labels, 0)
        errors.scatter_(-1, labels, -errors.sum(-1, keepdim=True))
        # The errors of an example sum to 0, so one class drops out; with two classes a single outer product remains.
        rest, weights = errors[..., 1:], (second[:, :-1, 1:] - second[:, :-1, :1]).mT
        before = _ACTIVATIONS[self.activation][1]
        if self.num_classes == 2:
            hidden_errors = before(weights.expand_as(hidden), hidden, torch.empty_like(hidden))
            return NetworkGradients(losses, inputs, input_norms, hidden, hidden_errors, errors, rest[..., 0])
        hidden_errors = torch.bmm(rest, weights)
        before(hidden_errors, hidden, hidden_errors)
        return NetworkGradients(losses, inputs, input_norms, hidden, hidden_errors, errors)

    def evaluate(self, x: Tensor, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The mean loss and accuracy, `(runs,)` each, at the points `x` on other examples, in blocks of `num_examples`.

        Args:
          x: `(runs, dim)`.
          inputs: `(examples, num_inputs)` or `(runs, examples, num_inputs)`, of any number of examples.
          labels: `(examples,)` or `(runs, examples)`.
        """
        if inputs.shape[-1] != self.num_inputs:
            raise ValueError(f"Expected inputs.shape={tuple(inputs.shape)} to have {self.num_inputs} features.")
        first, second = self._matrices(x)
        extended = _extend(inputs, labels, self.num_classes).expand(len(x), -1, -1)
        labels = labels.expand(len(x), -1)
        loss, correct = x.new_zeros(len(x)), x.new_zeros(len(x))
        for block, truth in zip(extended.split(self.num_examples, 1), labels.split(self.num_examples, 1), strict=True):
            logits = _logits(self._hidden(block, first), second)
            loss -= torch.log_softmax(logits, dim=-1).gather(-1, truth[..., None]).sum((1, 2))
            correct += (logits.argmax(-1) == truth).sum(1)
        return loss / labels.shape[1], correct / labels.shape[1]

    def _matrices(self, x: Tensor) -> tuple[Tensor, Tensor]:
        check_points(x, self.dim)
        split = (self.num_inputs + 1) * self.num_hidden
        return x[:, :split].unflatten(1, (-1, self.num_hidden)), x[:, split:].unflatten(1, (-1, self.num_classes))

    def _hidden(self, inputs: Tensor, first: Tensor) -> Tensor:
        return _ACTIVATIONS[self.activation][0](torch.bmm(inputs, first))


def _logits(hidden: Tensor, second: Tensor) -> Tensor:
    weights = second[:, :-1]
    if weights.is_cpu:  # rows of outputs in contiguous memory make this narrow product six times faster (MKL)
        weights = weights.mT.contiguous().mT
    return torch.baddbmm(second[:, -1:], hidden, weights)


def _extend(inputs: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Check the examples and append the column of ones, `(1 or runs, examples, num_inputs + 1)`."""
    if inputs.dim() not in (2, 3) or not inputs.is_floating_point() or not inputs.numel():
        raise ValueError(
            f"Expected inputs, {inputs.dtype} of shape {tuple(inputs.shape)}, to be floating point, not empty, "
            "of shape (examples, num_inputs) or (runs, examples, num_inputs)."
        )
    if labels.shape != inputs.shape[:-1] or labels.dtype != torch.int64:
        raise ValueError(
            f"Expected labels, {labels.dtype} of shape {tuple(labels.shape)}, to be int64 of shape "
            f"{tuple(inputs.shape[:-1])}."
        )
    check_finite(inputs=inputs)
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= num_classes:
        raise ValueError(f"Expected labels in 0 ... {num_classes - 1}, got {low} ... {high}.")
    extended = torch.cat([inputs, inputs.new_ones(*inputs.shape[:-1], 1)], dim=-1)
    return extended if inputs.dim() == 3 else extended[None]
