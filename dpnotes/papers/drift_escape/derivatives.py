"""Gradients and Hessians of a client's examples as one vector of bounded norm."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor, nn

from dpnotes.guarantees import SHOWN_ALONE, Assumption, Basis
from dpnotes.problems.closed import Open, closed, compare_losses, refuse_code_of_tensors
from dpnotes.problems.passes import nothing_beneath, refuse_what_sees_all
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.precision import full_precision
from dpnotes.util.validate import checked


def with_triangle(gradient: Tensor, hessian: Tensor, weight: float) -> Tensor:
    """Return a gradient `(..., dim)` and the weighted upper triangle of `(..., dim, dim)`, row by row, as one vector.

    Example:
      >>> with_triangle(torch.tensor([1.0, 2.0]), torch.tensor([[3.0, 4.0], [4.0, 5.0]]), 0.5)
      tensor([1.0000, 2.0000, 1.5000, 2.0000, 2.5000])
    """
    rows, columns = torch.triu_indices(hessian.shape[-1], hessian.shape[-1], device=hessian.device)
    return torch.cat([gradient, weight * hessian[..., rows, columns]], -1)


def apart_again(vector: Tensor, dim: int, weight: float) -> tuple[Tensor, Tensor]:
    """Return gradient and symmetric Hessian of a vector: the inverse of `with_triangle`.

    Example:
      >>> apart_again(torch.tensor([1.0, 2.0, 1.5, 2.0, 2.5]), 2, 0.5)
      (tensor([1., 2.]), tensor([[3., 4.],
              [4., 5.]]))
    """
    hessian = vector.new_zeros(*vector.shape[:-1], dim, dim)
    rows, columns = torch.triu_indices(dim, dim, device=vector.device)
    hessian[..., rows, columns] = vector[..., dim:] / weight
    return vector[..., :dim], hessian + hessian.triu(1).mT


def smallest_eigenvalues(hessians: Tensor) -> Tensor:
    """Return the smallest eigenvalues `(rows,)` of symmetric `(rows, dim, dim)`; NaN where a matrix is not finite.

    Example:
      >>> smallest_eigenvalues(torch.stack([torch.eye(5), torch.full((5, 5), torch.nan)]))
      tensor([1., nan])
    """
    finite = hessians.isfinite().flatten(1).all(1)
    found = torch.linalg.eigvalsh(hessians.masked_fill(~finite[:, None, None], 0))[:, 0]
    return found.masked_fill(~finite, torch.nan)


class Derivatives(Protocol):
    """The examples of several clients, one row per client and run, with first and second derivatives of the losses."""

    @property
    def total(self) -> Tensor:
        """The number of examples, `(rows,)` int64."""
        ...

    @property
    def basis(self) -> Basis:
        """The basis of the bound on an example: proved, enforced or assumed."""
        ...

    @property
    def apart(self) -> tuple[Assumption, ...]:
        """The assumptions that an example's derivatives depend on no other example."""
        ...

    def mean(self, x: Tensor, weight: float, longest: float) -> Tensor:
        """Return each row's mean of `with_triangle` at `x` `(rows, dim)`, clipped if the bound is enforced."""
        ...

    def take(self, index: Tensor) -> "Derivatives":
        """Return the examples of the rows in `index`."""
        ...


@dataclass(frozen=True, eq=False)
class ExampleDerivatives:
    """The derivatives of a user's loss, with each example's vector clipped.

    Args:
      loss: `loss(parameters, *example) -> scalar`, differentiable twice; as `problems.custom.CustomProblem`.
      data: for each row, its tensors, whose first axis counts examples.
      examples_at_once: the number of Hessians held in memory at once, at least 1.

    Raises:
      TypeError: the data are not plain `torch.Tensor` objects; subclasses are refused.
      ValueError: there are no data, or the tensors of one row differ in length.

    Example:
      >>> own = (torch.eye(2),), (torch.tensor([[0.0, 1.0]]),)
      >>> of_two = ExampleDerivatives(lambda x, a: (x - a).square().sum() / 2, own)
      >>> of_two.mean(torch.zeros(2, 2), weight=0.5, longest=100.0)
      tensor([[-0.5000, -0.5000,  0.5000,  0.0000,  0.5000],
              [ 0.0000, -1.0000,  0.5000,  0.0000,  0.5000]])
    """

    loss: Callable[..., Tensor]
    data: tuple[tuple[Tensor, ...], ...]
    examples_at_once: int = 1024
    basis: Basis = field(default="enforced", init=False)
    apart: tuple[Assumption, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        validate.provides("__call__", loss=self.loss)
        validate.instance(tuple, data=self.data)
        validate.at_least(1, examples_at_once=self.examples_at_once, num_rows=len(self.data))
        for row, own in enumerate(self.data):
            validate.instance(tuple, **{f"data[{row}]": own})
            named = {f"data[{row}][{i}]": tensor for i, tensor in enumerate(own)}
            validate.instance(Tensor, **named)
            refuse_code_of_tensors(**named)
            lengths = [len(tensor) if tensor.dim() else 0 for tensor in own]
            validate.at_least(1, num_data_tensors=len(own), num_examples=min(lengths, default=0))
            validate.same_length(**named)
        if self._known is None:
            object.__setattr__(self, "apart", (SHOWN_ALONE,))

    @cached_property
    def _known(self) -> nn.Module | None:
        """The loss as a module of vetted operations (`problems.closed`); None if it uses others."""
        with suppress(Open):
            return closed(self.loss, 1 + len(self.data[0]))
        return None

    @property
    def total(self) -> Tensor:
        """The number of examples, as `Derivatives.total`."""
        return torch.tensor([len(own[0]) for own in self.data], device=self.data[0][0].device)

    def mean(self, x: Tensor, weight: float, longest: float) -> Tensor:
        """Return the means, as `Derivatives.mean`; a vector that is not finite counts as a gradient of norm `longest`.

        Raises:
          Open: the vetted operations and the loss itself give different numbers.
        """
        if self._known is not None:
            compare_losses(self._known, self.loss, x.shape[1], self.data[0])
        found = x.new_empty(len(x), x.shape[1] * (x.shape[1] + 3) // 2)
        for size in self.total.unique().tolist():  # rows with equally many examples form one batch
            alike = (self.total == size).nonzero()[:, 0]
            for rows in alike.split(max(1, self.examples_at_once // size)):
                own = [torch.stack(tensors) for tensors in zip(*(self.data[i] for i in rows.tolist()), strict=True)]
                found[rows] = self._sum(x[rows], own, weight, longest) / size
        return found

    @full_precision()
    def _sum(self, x: Tensor, own: list[Tensor], weight: float, longest: float) -> Tensor:
        """Return the sum of clipped vectors over the second axis of `own`, `(rows, examples, ...)`."""
        gradient, alike, total = torch.func.grad(self._known or self.loss), (None, *[0] * len(own)), 0
        for start in range(0, own[0].shape[1], self.examples_at_once):
            part = [tensor[:, start : start + self.examples_at_once] for tensor in own]
            refuse_what_sees_all()
            with nothing_beneath():
                gradients = torch.func.vmap(torch.func.vmap(gradient, alike))(x, *part)
                hessians = torch.func.vmap(torch.func.vmap(torch.func.jacrev(gradient), alike))(x, *part)
            terms = with_triangle(gradients, hessians, weight)
            # Norms are in float64, where squares of float32 numbers neither overflow nor underflow. An example with a
            # subnormal weight counts as not finite.
            lengths = torch.linalg.vector_norm(terms, dim=2, dtype=torch.float64)
            weights = (longest / lengths).clamp_max(1).to(terms)
            lost = ~lengths.isfinite() | (weights < torch.finfo(terms.dtype).tiny)
            weights, terms = weights.masked_fill(lost, 1), terms.masked_fill(lost[..., None], 0)
            terms[..., 0].masked_fill_(lost, longest)
            total = total + torch.bmm(weights[:, None], terms)[:, 0]
        return total  # type: ignore[return-value]

    def take(self, index: Tensor) -> "ExampleDerivatives":
        """Return some rows, as `Derivatives.take`."""
        return replace(self, data=tuple(self.data[i] for i in index.tolist()))


@checked
@dataclass(frozen=True, eq=False)
class VirtualDerivatives:
    """A fixed sample of a distribution, stored only as the mean of its latent z.

    Args:
      data: the distribution.
      total: `(rows,)` int64, at least 1.
      means: `(rows, dim)` float64, the mean of z over the examples of each row; see `drawn`.

    Raises:
      ValueError: a shape is wrong.

    Example:
      >>> from dpnotes.problems.separable import Cosine, Separable, Sine
      >>> data = VirtualData(Separable([(Cosine(1.0), 2)]), Separable([(Sine(0.5), 2)]))
      >>> many = VirtualDerivatives.drawn(data, torch.tensor([10**12]), Streams.of(0, ["client"]))
      >>> many.mean(torch.zeros(1, 2, dtype=torch.float64), weight=1.0, longest=10.0).round(decimals=2)
      tensor([[-0., -0., -1.,  0., -1.]], dtype=torch.float64)
    """

    data: VirtualData
    total: Tensor
    means: Tensor
    basis: Basis = field(default="assumed", init=False)
    apart: tuple[Assumption, ...] = field(default=(), init=False)

    @staticmethod
    def drawn(data: VirtualData, total: Tensor, streams: Streams) -> "VirtualDerivatives":
        """Return a sample for each row, drawn from the row's stream."""
        return VirtualDerivatives(data, total, data.fresh(total, streams, "selection: examples", 0).mean)

    def __post_init__(self) -> None:
        if self.total.dim() != 1 or self.total.dtype != torch.int64 or not bool((self.total >= 1).all()):
            given = validate.shown("total", self.total)
            raise ValueError(f"Expected {given} to be whole numbers >= 1, (rows,) and int64.")
        if self.means.shape != (len(self.total), self.data.dim):
            raise ValueError(f"Expected means of shape {tuple(self.means.shape)} to be ({len(self.total)}, dim).")

    def mean(self, x: Tensor, weight: float, longest: float) -> Tensor:
        """Return the means, as `Derivatives.mean`, without clipping."""
        landscape, features, means = self.data.landscape, self.data.features, self.means.to(x)
        gradient = landscape.gradient(x) + means * features.gradient(x)
        hessian = landscape.hessian(x) + torch.diag_embed(means * features.curvatures(x))
        return with_triangle(gradient, hessian, weight)

    def take(self, index: Tensor) -> "VirtualDerivatives":
        """Return some rows, as `Derivatives.take`."""
        return VirtualDerivatives(self.data, self.total[index], self.means[index])
