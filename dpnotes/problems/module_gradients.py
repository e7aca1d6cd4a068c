"""Gradients by example of a network, from the passes of its `ModuleProblem`."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from dpnotes.problems.factors import Factors
from dpnotes.problems.passes import Examples, Values


class ModuleGradients:
    """Gradients by example of a `ModuleProblem` at one point a run, computed when they are asked for.

    `weighted_sum` alone takes one forward and one backward pass, as a step of plain SGD does. After `norms` it takes
    none: `norms` keeps the inputs of each layer and the errors at its outputs, which the sum contracts. A batch of
    several chunks keeps nothing, and the sum passes again. `losses` alone takes a forward pass, but none after `norms`,
    or on a CPU after a sum in which all took part. So ask for losses last.

    Passes read nothing back from a GPU, but for the weights where a batch normalisation has to know who takes part.
    """

    def __init__(self, problem: Any, x: Tensor, examples: Tensor | None) -> None:
        self._problem, self._x, self._examples = problem, x, examples
        self._losses: Tensor | None = None
        self._norms: Tensor | None = None
        self._factors: list[Factors] | None = None  # one a run

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self._x), self._problem.num_examples if self._examples is None else self._examples.shape[1]

    def _indices(self, run: int) -> Tensor:
        if self._examples is None:
            return torch.arange(self._problem.num_examples, device=self._x.device)
        return self._examples[run]

    def _chunks(self) -> Iterator[tuple[int, slice, Tensor]]:
        """The chunks of all runs: the run, the places that a chunk fills in its batch, and the examples."""
        for run in range(len(self._x)):
            for block, examples in self._problem._chunks(self._indices(run)):
                yield run, block, examples

    def _given(self, run: int, examples: Tensor) -> tuple[Values, Examples]:
        """The parameters and the examples that a pass is given."""
        return self._problem._parameters.split(self._x[run]), self._problem._batch(run, examples)

    @property
    def losses(self) -> Tensor:
        """Losses of the examples, `(runs, batch)`; with batch normalisation, those in this batch."""
        if self._losses is None:
            losses = self._x.new_empty(self._shape)
            with torch.no_grad(), self._problem._memory(self._shape[1]):
                for run, block, examples in self._chunks():
                    losses[run, block] = self._problem._passes.losses(*self._given(run, examples))
            self._losses = losses
        return self._losses

    def norms(self) -> Tensor:
        """Euclidean norms of the examples' gradients, `(runs, batch)`.

        Raises:
          ExamplesMix: for batch normalisation, which mixes the examples of a batch.
          ValueError: for a module that draws random numbers, or that a pass has changed.
          OutOfMemory: if the batch does not fit.

        Where a layer adds terms up over positions they are upper bounds, with room for the rounding of terms that
        cancel (`problems.factors`).
        """
        if self._norms is None:
            problem = self._problem
            problem._refuse_mixing()
            losses, norms = self._x.new_empty(self._shape), self._x.new_empty(self._shape)
            kept = []
            with problem._memory(self._shape[1]):
                for run, block, examples in self._chunks():
                    losses[run, block], found = problem._passes.factors(*self._given(run, examples))
                    norms[run, block] = found.norms()
                    if len(examples) == self._shape[1]:
                        kept.append(found)
            self._losses, self._norms = losses, norms
            self._factors = kept or None
        return self._norms

    def weighted_sum(self, weights: Tensor) -> Tensor:
        """`sum_i weights[:, i] * gradient_i`, `(runs, dim)`, for weights `(runs, batch)`.

        An example of weight 0 takes no part, whatever its gradient: it is left out of the pass, and so of the
        statistics of a batch normalisation, of which this is the gradient of the weighted sum of the losses.

        Raises:
          ValueError: for weights of another shape.
          OutOfMemory: if the batch does not fit.
        """
        if tuple(weights.shape) != self._shape:
            raise ValueError(f"Expected weights.shape={tuple(weights.shape)} to be {self._shape}.")
        total = torch.zeros_like(self._x)
        with self._problem._memory(self._shape[1]):
            add = self._pass if self._norms is None else self._contract
            add(weights, total)
        return total

    def _contract(self, weights: Tensor, total: Tensor) -> None:
        """Add the weighted sum of the very factors that gave the norms.

        Where they were not kept they are made again. Code may make others the second time (Python's random numbers): a
        gradient that is longer now is scaled down to the norm that was told, whatever the weight was chosen for.
        """
        assert self._norms is not None
        for run, block, examples in self._chunks():
            own = weights[run, block]
            if self._factors is None:
                found = self._problem._passes.factors(*self._given(run, examples))[1]
                told, now = self._norms[run, block], found.norms()
                own = torch.where(now > told, own * (told / now), own)
            else:
                found = self._factors[run]
            total[run] += self._problem._parameters.flat(found.weighted_sums(own))

    def _pass(self, weights: Tensor, total: Tensor) -> None:
        """Add the gradient of the weighted sum of the losses."""
        problem = self._problem
        looks = weights.is_cpu or problem.mixes_examples  # who is absent
        complete = looks and bool(weights.all())
        losses = self._x.new_empty(self._shape)
        for run in range(len(self._x)):
            indices, own = self._indices(run), weights[run]
            present = own != 0
            if looks and not complete:
                indices, own = indices[present], own[present]
            elif not looks:
                # Whoever is absent repeats, with its weight of 0, one who is not: its own gradient may be infinite.
                indices = torch.where(present, indices, indices.gather(0, present.int().argmax(0, keepdim=True)))
            for block, examples in problem._chunks(indices):
                found, gradients = problem._passes.summed(*self._given(run, examples), own[block])
                total[run] += torch.cat([gradient.reshape(-1) for gradient in gradients])
                if complete:
                    losses[run, block] = found
            if not looks:
                total[run].masked_fill_(~present.any(), 0)
        if complete and self._losses is None:
            self._losses = losses
