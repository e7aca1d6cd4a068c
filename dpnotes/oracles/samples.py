"""Sources of examples that are used once, and batches from them whose gradients are computed at several points."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from dpnotes.core import ExampleGradients, Problem
from dpnotes.guarantees import Basis, examples_apart
from dpnotes.random.streams import Streams
from dpnotes.util import checks, validate
from dpnotes.util.precision import flushed, full_precision, row_norms

PURPOSE = "samples"
ORDER_PURPOSE = "samples: order"
DIRECTIONS_PURPOSE = "samples: directions"
PREVIOUS_PURPOSE = "samples: directions at the previous point"
PURPOSES = PURPOSE, ORDER_PURPOSE, DIRECTIONS_PURPOSE, PREVIOUS_PURPOSE  # which no mechanism may use
_ROUNDS = 8
_WRITTEN_OUT = 2**24  # the most numbers in memory for gradients of examples in dense form


class Batch(Protocol):
    """A batch of drawn examples per run, whose gradients can be computed at several points at once."""

    def term(self, x: Tensor, previous: Tensor, new: Tensor, bound: Tensor) -> Tensor:
        """The next term of SPIDER's sum, `(runs, dim)`; arbitrary in runs whose batch is empty.

        The term is the mean of `grad f(x; z)` where the sum is `new`, and of `grad f(x; z) - grad f(previous; z)` in
        the other runs. `x` and `previous` are `(runs, dim)`. An example's contribution has norm at most `bound`,
        `(runs,)`: a source with the basis "enforced" scales it down to that.
        """
        ...


class Samples(Protocol):
    """A source of `total` examples per run (int64, `()` or `(runs,)`); `basis` is the basis of the bounds.

    A source that needs more than one gradient per example has `queries(count, new)`: the numbers of gradients and of
    losses of single examples, `(runs,)` each or None, for the terms of `count` examples where the sum is `new` or not.
    """

    @property
    def total(self) -> Tensor: ...  # noqa: D102
    @property
    def basis(self) -> Basis: ...  # noqa: D102
    def batch(self, start: Tensor, count: Tensor, streams: Streams, call: Tensor) -> Batch:
        """The examples `start ... start + count - 1` of each run, `(runs,)` int64 each; none where `count` is 0.

        `call` `(runs,)` is a number that identifies the batch.
        """
        ...

    def take(self, index: Tensor) -> "Samples": ...  # noqa: D102


# ---------------------------------------------------------------- virtual data
class DistributionBatch(Protocol):
    """A batch drawn from a distribution, one per run, with its mean gradient at points `(runs, dim)`."""

    def gradient(self, x: Tensor) -> Tensor: ...  # noqa: D102


class FreshData(Protocol):
    """A distribution, which supplies unlimited new examples."""

    def fresh(self, batch_size: Any, streams: Streams, purpose: str, call: Tensor) -> DistributionBatch:
        """A batch of `batch_size` new examples (one number or `(runs,)` float64), which are not stored singly."""
        ...


@dataclass(frozen=True, eq=False)
class VirtualBatch:
    """The `Batch` made of a distribution's batch, without clipping."""

    examples: DistributionBatch

    def term(self, x: Tensor, previous: Tensor, new: Tensor, bound: Tensor) -> Tensor:
        """The next term, as for `Batch.term`; the bound is not enforced."""
        mean = self.examples.gradient(x)
        if checks.known_empty(~new):
            return mean
        return mean - self.examples.gradient(previous).masked_fill(new[:, None], 0)


@dataclass(frozen=True, eq=False)
class VirtualSamples:
    """A number of examples of a distribution whose batches are drawn as a whole (`problems.virtual.VirtualData`).

    Args:
      data: the distribution.
      total: the number of examples, a whole number from 1 to 1e18, one for all runs or `(runs,)`.
      basis: the basis of the examples' bounds, "assumed" or "proved": single examples do not exist for clipping.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> from dpnotes.problems.separable import Cosine, Separable, Sine
      >>> from dpnotes.problems.virtual import VirtualData
      >>> data = VirtualData(Separable([(Cosine(1.0), 4)]), Separable([(Sine(0.5), 4)]))
      >>> samples = VirtualSamples(data, 10**15)
      >>> batch = samples.batch(torch.tensor([0]), torch.tensor([10**6]), Streams.of(0, ["a"]), torch.tensor([0]))
      >>> batch.term(torch.zeros(1, 4), torch.zeros(1, 4), torch.tensor([True]), torch.ones(1)).shape
      torch.Size([1, 4])
    """

    data: FreshData
    total: Any  # int64, whatever was given
    basis: Basis = "assumed"

    def __post_init__(self) -> None:
        validate.one_of(("assumed", "proved"), basis=self.basis)
        validate.every(validate.real, total=self.total)
        # Clamped to int64, so that a number outside it is refused below, too.
        count = self.total if isinstance(self.total, Tensor) else torch.tensor(max(-1, min(self.total, 2**62)))
        if count.dim() > 1 or not bool(((count >= 1) & (count <= 1e18) & (count == count.floor())).all()):
            raise ValueError(f"Expected total={self.total} to be whole numbers from 1 to 1e18, one or (runs,).")
        object.__setattr__(self, "total", count.long())

    def batch(self, start: Tensor, count: Tensor, streams: Streams, call: Tensor) -> VirtualBatch:
        """A new batch for every call, whatever its `start`."""
        return VirtualBatch(self.data.fresh(count.double().clamp_min(1), streams, PURPOSE, call))

    def take(self, index: Tensor) -> "VirtualSamples":
        """The source of some of the runs."""
        return VirtualSamples(self.data, self.total[index], self.basis) if self.total.dim() else self


# ---------------------------------------------------------------- data sets
@dataclass(frozen=True, eq=False)
class WrittenOut:
    """Gradients of examples in dense form, `(runs, examples, dim)`."""

    rows: Tensor

    @property
    def losses(self) -> Tensor:
        """The losses, which are unknown: `(runs, examples)` NaN."""
        return torch.full_like(self.rows[..., 0], torch.nan)

    def norms(self) -> Tensor:
        """The norms of the gradients, `(runs, examples)`."""
        return row_norms(self.rows)

    @full_precision()
    def weighted_sum(self, weights: Tensor) -> Tensor:
        """The weighted sum of the gradients, `(runs, dim)`."""
        return torch.bmm(weights[:, None], self.rows.masked_fill((weights == 0)[..., None], 0))[:, 0]

    def minus(self, other: "WrittenOut") -> "WrittenOut":
        """The differences, row by row."""
        return WrittenOut(self.rows - other.rows)


@dataclass(frozen=True, eq=False)
class DataSetBatch:
    """A batch of a data set's examples per run, with clipped terms.

    Args:
      problem: the data set.
      start: `(runs,)` int64, the first place in the run's order.
      count: `(runs,)` int64.
      streams: the streams that determine the order.
      examples_at_once: the number of examples per run beyond which the mean is summed in parts.
    """

    problem: Problem
    start: Tensor
    count: Tensor
    streams: Streams
    examples_at_once: int

    def term(self, x: Tensor, previous: Tensor, new: Tensor, bound: Tensor) -> Tensor:
        """The next term, as for `Batch.term`; runs with a new sum, whose batch size differs, come separately."""
        found = torch.zeros_like(x)
        for first in (True, False):
            index = ((new == first) & (self.count > 0)).nonzero()[:, 0]
            if len(index):
                part, at, most = self.take(index), x[index], bound[index]
                found[index] = part.gradient(at, most) if first else part.difference(at, previous[index], most)
        return found

    def gradient(self, x: Tensor, bound: Tensor) -> Tensor:
        """The mean of the gradients at `x`, each no longer than `bound`, `(runs, dim)`; no batch may be empty."""
        return self.mean(lambda examples, _: self.problem.gradients(x, examples), bound, self.examples_at_once)

    def difference(self, x: Tensor, previous: Tensor, bound: Tensor) -> Tensor:
        """The mean of the differences, each no longer than `bound`, `(runs, dim)`.

        Gradients without `minus`, a difference in factored form, are stored in dense form, with `dim` numbers each.
        """
        one = self.start[:, None].clamp_max(self.problem.num_examples - 1)
        gradients: Any = self.problem.gradients
        at_once = self.examples_at_once
        if not hasattr(gradients(x, one), "minus"):
            gradients, at_once = self._written_out, max(1, min(at_once, _WRITTEN_OUT // x.numel()))
        return self.mean(lambda which, _: gradients(x, which).minus(gradients(previous, which)), bound, at_once)

    def take(self, index: Tensor) -> "DataSetBatch":
        """The batch of some of the runs."""
        problem, streams = self.problem.take(index), self.streams.take(index)
        return DataSetBatch(problem, self.start[index], self.count[index], streams, self.examples_at_once)

    def _written_out(self, x: Tensor, examples: Tensor) -> WrittenOut:
        each = torch.arange(len(x), device=x.device).repeat_interleave(examples.shape[1])  # one run each
        gradients = self.problem.take(each).gradients(x[each], examples.reshape(-1, 1))
        return WrittenOut(gradients.weighted_sum(x.new_ones(len(each), 1)).view(*examples.shape, -1))

    def mean(
        self, terms_of: Callable[[Tensor, Tensor], ExampleGradients], bound: Tensor, examples_at_once: int
    ) -> Tensor:
        """The mean of the examples' terms, each no longer than `bound`, `(runs, dim)`.

        Args:
          terms_of: maps examples `(runs, some)` and their places in the batch `(some,)` to their terms.
          bound: `(runs,)`.
          examples_at_once: the number per run, at least 1.
        """
        last, total = self.problem.num_examples - 1, None
        for places in torch.arange(int(self.count.max()), device=self.count.device).split(examples_at_once):
            examples = shuffled((self.start[:, None] + places).clamp_max(last), last + 1, self.streams, ORDER_PURPOSE)
            terms = terms_of(examples, places)
            norms, most = terms.norms(), bound[:, None]
            # An example without a finite gradient counts as zero: it must not determine the run's status.
            kept = torch.where(norms.isfinite(), torch.where(norms > most, most / norms, 1.0), 0.0)
            weights = kept * (places < self.count[:, None]) / self.count[:, None]
            part = terms.weighted_sum(flushed(weights.to(norms.dtype)))
            total = part if total is None else total + part
        if total is None:
            raise ValueError("Expected count >= 1 in some run.")
        return total


@dataclass(frozen=True, eq=False)
class DataSetSamples:
    """The examples of a data set, each used once, in a separate random order for every run; terms are clipped.

    The order depends on the run's key, and a resumed run must have the same order, or it would use examples again.
    Secret keys are not stored (`methods.checkpoint` resumes with fresh ones), so all runs on secret streams have the
    same, public order. Privacy does not need a secret order, but requires that a run's streams do not change.

    Args:
      problem: the data set.
      examples_at_once: the number of examples per run, at least 1, beyond which a batch is summed in parts: memory is
        that of `problem.gradients` on so many. It affects the rounding of the sum only.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> from dpnotes.problems.quadratics import Quadratic
      >>> problem = Quadratic.sample(torch.tensor([1.0, 0.1]), num_examples=50, spread=0.5, seed=0)
      >>> samples, streams = DataSetSamples(problem), Streams.of(0, ["a"])
      >>> batch = samples.batch(torch.tensor([0]), torch.tensor([50]), streams, torch.tensor([0]))
      >>> batch.gradient(torch.ones(1, 2), torch.tensor([1e9])).shape, int(samples.total)
      (torch.Size([1, 2]), 50)
    """

    problem: Problem
    examples_at_once: int = 4096

    def __post_init__(self) -> None:
        validate.at_least(1, examples_at_once=self.examples_at_once)

    @property
    def total(self) -> Tensor:
        """The number of examples."""
        return torch.tensor(self.problem.num_examples)

    @property
    def basis(self) -> Basis:
        """The basis of the bounds: enforced, as terms are clipped; assumed if the problem may mix its examples."""
        return "assumed" if examples_apart(self.problem) else "enforced"

    def batch(self, start: Tensor, count: Tensor, streams: Streams, call: Tensor) -> DataSetBatch:
        """The batch of examples at these places of the order."""
        order = Streams(torch.zeros_like(streams.keys)) if streams.secret else streams
        return DataSetBatch(self.problem, start, count, order, self.examples_at_once)

    def take(self, index: Tensor) -> "DataSetSamples":
        """The source of some of the runs."""
        return replace(self, problem=self.problem.take(index))


def shuffled(places: Tensor, num_examples: int, streams: Streams, purpose: str) -> Tensor:
    """The entries at these places of a random permutation of `0 ... num_examples - 1`, one permutation per run.

    A Feistel network over a rectangle of about `sqrt(n)` by `sqrt(n)` with random round functions, applied again where
    it leaves the range (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002): it needs some
    `sqrt(n)` random numbers instead of a list of n. No two places hold the same example. The permutations are not all
    equally likely, which is no problem, since privacy does not need a random order.

    Args:
      places: `(runs, count)` int64 in `0 ... num_examples - 1`.
      num_examples: n, at least 1.
      streams: one key per run.
      purpose: names the stream.

    Example:
      >>> order = shuffled(torch.arange(10).expand(2, 10), 10, Streams.of(0, ["a", "b"]), "example")
      >>> order.sort(1).values.equal(torch.arange(10).expand(2, 10)), order[0].equal(order[1])
      (True, False)
    """
    validate.at_least(1, num_examples=num_examples)
    wide = math.isqrt(num_examples - 1) + 1
    tall = -(-num_examples // wide)
    tables = streams.uniform(purpose, 0, _ROUNDS * wide).split(wide, 1)

    def permuted(place: Tensor) -> Tensor:
        left, right = place // tall, place % tall
        for number, table in enumerate(tables):
            if number % 2:
                right = (right + (table.gather(1, left) * tall).long()) % tall
            else:
                left = (left + (table.gather(1, right) * wide).long()) % wide
        return left * tall + right

    found = permuted(places)
    while bool((outside := found >= num_examples).any()):
        found = torch.where(outside, permuted(found), found)
    return found
