"""A problem with the user's own loss: per-example gradients through `torch.func`, materialised."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dpnotes.core import Constant
from dpnotes.problems.closed import closed_loss, refuse_code_of_tensors
from dpnotes.problems.examples import check_finite, check_points, rows
from dpnotes.problems.passes import nothing_beneath, refuse_what_sees_all
from dpnotes.util import validate
from dpnotes.util.precision import full_precision, row_norms


@dataclass(frozen=True, eq=False)
class MaterialisedGradients:
    """The gradients of all examples, materialised.

    Args:
      losses: `(runs, examples)`.
      each: `(runs, examples, dim)`.
    """

    losses: Tensor
    each: Tensor

    def norms(self) -> Tensor:
        """The Euclidean norms of the examples' gradients, `(runs, examples)`."""
        return row_norms(self.each)

    @full_precision()
    def weighted_sum(self, weights: Tensor) -> Tensor:
        """The weighted sum `sum_i weights[:, i] * gradient_i`, `(runs, dim)`, for weights `(runs, examples)`."""
        each = self.each
        if not (weights.is_cpu and bool(weights.all())):  # 0 times an infinite gradient is not 0
            each = torch.where(weights[..., None] == 0, 0, each)
        return torch.bmm(weights[:, None], each).squeeze(1)


class CustomProblem:
    """The mean over examples of the user's own differentiable loss, a `core.Problem`.

    The gradients of all examples are materialised, `(runs, examples, dim)`: right for small problems and as a
    reference; a network with closed forms (`TwoLayerNetwork`) needs far less.

    Args:
      loss: `loss(parameters, *example) -> scalar`, with `parameters` `(dim,)` and one row of each data tensor.
        It is traced by `torch.func.vmap`: no `.item()`, no branch on values, no random numbers. A loss of torch's
        operations alone is closed (`problems.closed`); for any other loss the guarantee lists what it assumes
        (`opens`).
      dim: number of parameters.
      *data: tensors with one row an example, shared by all runs, finite.
      constants: known constants of the loss, such as `{"lipschitz": Constant(1.0, "proved", "where")}`.

    Raises:
      TypeError: for data that are no `torch.Tensor`, or of a subclass.
      ValueError: for no data, lengths that disagree, NaN or infinite data.

    Example:
      >>> def loss(parameters, features, target):
      ...     return 0.5 * (features @ parameters - target) ** 2
      >>> problem = CustomProblem(loss, 3, torch.eye(3), torch.ones(3))
      >>> problem.gradients(torch.zeros(2, 3)).norms()
      tensor([[1., 1., 1.],
              [1., 1., 1.]])
    """

    def __init__(
        self, loss: Callable[..., Tensor], dim: int, *data: Tensor, constants: dict[str, Constant] | None = None
    ) -> None:
        validate.at_least(1, dim=dim, num_data_tensors=len(data))
        for i, tensor in enumerate(data):
            validate.instance(Tensor, **{f"data[{i}]": tensor})
            refuse_code_of_tensors(**{f"data[{i}]": tensor})
        validate.same_length(**{f"data[{i}]": tensor for i, tensor in enumerate(data)})
        validate.at_least(1, num_examples=len(data[0]))
        check_finite(**{f"data[{i}]": tensor for i, tensor in enumerate(data)})
        self._dim, self._data, self._constants = dim, data, dict(constants or {})
        self._loss, self.opens = closed_loss(loss, dim, data)  # the reason why its own code runs, or None
        loss = self._loss
        by_example = torch.func.vmap(torch.func.grad_and_value(loss), in_dims=(None, *[0] * len(data)))
        self._by_run = torch.func.vmap(by_example, in_dims=(0, *[None] * len(data)))
        self._by_run_and_batch = torch.func.vmap(by_example)

    @property
    def dim(self) -> int:
        """The number of parameters."""
        return self._dim

    @property
    def num_examples(self) -> int:
        """The number of examples."""
        return len(self._data[0])

    @property
    def keeps_examples_apart(self) -> bool:
        """True if the loss consists of known operations alone, so that no example can see another."""
        return self.opens is None

    @property
    def constants(self) -> dict[str, Constant]:
        """The constants that the caller gave, and no others."""
        return dict(self._constants)

    @property
    def bytes_per_run(self) -> int:
        """Twice the bytes of one run's float64 gradients by example: `torch.func` holds intermediates as large."""
        return 2 * self.num_examples * self._dim * 8

    def take(self, index: Tensor | slice) -> "CustomProblem":
        """Return this problem: all runs share its examples."""
        return self

    def gradients(self, x: Tensor, examples: Tensor | None = None) -> MaterialisedGradients:
        """The losses and the gradients by example at the points `x`, `(runs, dim)`.

        Args:
          x: `(runs, dim)`.
          examples: `(runs, batch)` int64 indices of examples; all examples if None.

        Raises:
          ValueError: for shapes that disagree, an index of no example, or a mode or global hook around the call.
        """
        check_points(x, self._dim)
        refuse_what_sees_all()
        with nothing_beneath():
            if examples is None:
                each, losses = self._by_run(x, *self._data)
            else:
                each, losses = self._by_run_and_batch(x, *(rows(data[None], examples, len(x)) for data in self._data))
        return MaterialisedGradients(losses, each)

    def losses(self, x: Tensor, examples: Tensor | None = None) -> Tensor:
        """The losses by example, without gradients, at several points of each run.

        Args:
          x: `(runs, points, dim)`.
          examples: `(runs, batch)` int64 indices of examples; all examples if None.

        Returns:
          `(runs, batch, points)`.

        Raises:
          ValueError: as `gradients`.

        Example:
          >>> problem = CustomProblem(lambda x, a: (x @ a).abs(), 2, torch.eye(2))
          >>> problem.losses(torch.tensor([[[1.0, -2.0], [0.0, 3.0], [1.0, 1.0]]]))
          tensor([[[1., 0., 1.],
                   [2., 3., 1.]]])
        """
        check_points(x.flatten(0, -2), self._dim)
        shared = examples is None
        data = self._data if shared else [rows(data[None], examples, len(x)) for data in self._data]
        at_points = torch.func.vmap(self._loss, in_dims=(0, *[None] * len(data)))
        by_example = torch.func.vmap(at_points, in_dims=(None, *[0] * len(data)))
        refuse_what_sees_all()
        with nothing_beneath(), torch.no_grad():
            losses = torch.func.vmap(by_example, in_dims=(0, *[None if shared else 0] * len(data)))(x, *data)
        return losses
