"""The data of each client: its own part of a data set, or its own distribution."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpnotes.core import ExampleGradients, Problem
from dpnotes.guarantees import Basis
from dpnotes.oracles.samples import Batch, DataSetSamples, Samples
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.per_run import part_of
from dpnotes.util.validate import AtLeastOne, Positive, checked


@checked
def dirichlet_split(labels: Tensor, num_clients: AtLeastOne, concentration: Positive, seed: str | int) -> list[Tensor]:
    """A random split of examples over clients, with Dirichlet-distributed shares of each label.

    The split of Hsu, Qi and Brown ("Measuring the effects of non-identical data distribution", arXiv:1909.06335), by
    label: the smaller the concentration, the fewer clients have most of a label. A client without examples gets one
    from the client with the most. The split reads the labels; afterwards each client's data are regarded as given.

    Args:
      labels: `(examples,)` int64.
      num_clients: m, from 1 to the number of examples.
      concentration: the Dirichlet parameter of all clients, above 0.
      seed: the seed of shares and order.

    Returns:
      The examples of each client, int64, in random order.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> parts = dirichlet_split(torch.arange(100) % 2, 3, 0.5, "example")
      >>> sorted(torch.cat(parts).tolist()) == list(range(100)), [len(part) for part in parts]
      (True, [53, 3, 44])
    """
    if labels.dim() != 1 or len(labels) < num_clients:
        raise ValueError(f"Expected labels of shape {tuple(labels.shape)} to be (examples,), one a client or more.")
    rng = np.random.default_rng(int(Streams.of(seed, ["split"]).words("split", 0, 1)[0]))
    parts: list[list[np.ndarray]] = [[] for _ in range(num_clients)]
    for kind in labels.unique().tolist():
        mine = rng.permutation((labels == kind).nonzero()[:, 0].cpu().numpy())
        shares = rng.dirichlet(np.full(num_clients, float(concentration)))
        ends = np.rint(shares.cumsum()[:-1] * len(mine)).astype(np.int64)
        for part, dealt in zip(parts, np.split(mine, ends), strict=True):
            part.append(dealt)
    found = [rng.permutation(np.concatenate(part)) for part in parts]
    for client, part in enumerate(found):
        if not len(part):
            most = max(range(num_clients), key=lambda other: len(found[other]))
            found[client], found[most] = found[most][:1], found[most][1:]
    return [torch.from_numpy(part).long() for part in found]


@dataclass(frozen=True, eq=False)
class _Held:
    """The gradients of a problem whose rows have different examples: `table` `(rows, held)` int64, distinct per row."""

    problem: Problem
    table: Tensor

    @property
    def num_examples(self) -> int:
        return self.table.shape[1]

    def gradients(self, x: Tensor, examples: Tensor) -> ExampleGradients:
        """The gradients of `Problem.gradients`, with `examples` as places in each row's own examples."""
        return self.problem.gradients(x, self.table.gather(1, examples))

    def take(self, index: Tensor) -> "_Held":
        return part_of(self, index)


@checked
@dataclass(frozen=True, eq=False)
class ClientSamples:
    """The examples of clients: each client has its own part of a data set and uses it once, in its own order.

    Rows with equally many examples are computed together.

    Args:
      problem: the data set, whose runs share it.
      holdings: the examples of each client of a block, int64, one or more.
      clients: `(rows,)` int64, the client of each row; see `of`.
      examples_at_once: as `DataSetSamples`.

    Raises:
      ValueError: for a client without examples, or with unknown examples.

    Example:
      >>> from dpnotes.problems.quadratics import Quadratic
      >>> problem = Quadratic.sample(torch.tensor([1.0, 0.1]), num_examples=50, spread=0.5, seed=0)
      >>> ClientSamples.of(problem, [torch.arange(30), torch.arange(30, 50)], num_runs=2).total
      tensor([30, 20, 30, 20])
    """

    problem: Problem
    holdings: tuple[Tensor, ...]
    clients: Tensor
    examples_at_once: AtLeastOne = 4096

    @staticmethod
    @checked
    def of(
        problem: Problem, holdings: Sequence[Tensor], num_runs: AtLeastOne, examples_at_once: int = 4096
    ) -> "ClientSamples":
        """The examples for `num_runs` runs of all these clients; row `run * clients + place` is one client."""
        return ClientSamples(problem, tuple(holdings), torch.arange(len(holdings)).repeat(num_runs), examples_at_once)

    def __post_init__(self) -> None:
        for client, held in enumerate(self.holdings):
            validate.instance(Tensor, holdings=held)
            known = len(held) > 0 and int(held.min()) >= 0 and int(held.max()) < self.problem.num_examples
            if not known or len(held.unique()) < len(held):  # an example that occurs twice has twice the influence
                raise ValueError(
                    f"Expected the {len(held)} examples of client {client} to be one or more of "
                    f"{self.problem.num_examples}, from 0 on, each once."
                )

    @property
    def _sizes(self) -> Tensor:
        return torch.tensor([len(held) for held in self.holdings], device=self.clients.device)

    @property
    def total(self) -> Tensor:
        """The number of examples, `(rows,)`."""
        return self._sizes[self.clients]

    @property
    def basis(self) -> Basis:
        """The basis of the bounds, as for `DataSetSamples.basis`."""
        return DataSetSamples(self.problem).basis

    def batch(self, start: Tensor, count: Tensor, streams: Streams, call: Tensor) -> "ClientsBatch":
        """The batch of examples at these places of each client's order."""
        total, parts = self.total, []
        for size in self._sizes.unique().tolist():
            rows = (total == size).nonzero()[:, 0]
            same = [held for held in self.holdings if len(held) == size]
            place = (self._sizes == size).int().cumsum(0)[self.clients[rows]] - 1
            held: Any = _Held(self.problem.take(rows), torch.stack(same).to(rows.device)[place])
            source = DataSetSamples(held, self.examples_at_once)
            parts.append((rows, source.batch(start[rows], count[rows], streams.take(rows), call[rows])))
        return ClientsBatch(parts)

    def take(self, index: Tensor) -> "ClientSamples":
        """The source of some of the rows."""
        return replace(self, clients=self.clients[index])


@dataclass(frozen=True, eq=False)
class ClientsBatch:
    """The batches of rows whose data sets differ in size: pairs of row indices and their batch."""

    parts: Sequence[tuple[Tensor, Any]]

    def term(self, x: Tensor, previous: Tensor, new: Tensor, bound: Tensor) -> Tensor:
        """The next term of each row, as for `Batch.term`."""
        found = x.new_zeros(len(x), x.shape[-1])
        for rows, batch in self.parts:
            found[rows] = batch.term(x[rows], previous[rows], new[rows], bound[rows])
        return found


@dataclass(frozen=True, eq=False)
class TiltedSamples:
    """Examples `f(x; z) + a'x` with a tilt a per row, for clients with different losses; tilts may add up to 0.

    Differences of gradients do not change by a tilt; a fresh gradient may be longer by `|a|`.

    Args:
      samples: of a distribution, without clipping, which would act before the tilt.
      tilts: `(rows, dim)`.

    Raises:
      ValueError: for samples that clip, or tilts of another shape.

    Example:
      >>> from dpnotes.oracles.samples import VirtualSamples
      >>> from dpnotes.problems.separable import Cosine, Separable, Sine
      >>> from dpnotes.problems.virtual import VirtualData
      >>> data = VirtualData(Separable([(Cosine(1.0), 2)]), Separable([(Sine(0.5), 2)]))
      >>> samples = TiltedSamples(VirtualSamples(data, 10**9), torch.tensor([[0.1, 0.0], [-0.1, 0.0]]))
      >>> x, new = torch.zeros(2, 2), torch.tensor([True, True])
      >>> batch = samples.batch(new.long(), new.long() * 10**8, Streams.of(0, ["a", "b"]), new.long())
      >>> batch.term(x, x, new, new.double()).round(decimals=1)
      tensor([[ 0.1000,  0.0000],
              [-0.1000,  0.0000]])
    """

    samples: Samples
    tilts: Tensor

    def __post_init__(self) -> None:
        validate.instance(Tensor, tilts=self.tilts)
        if self.samples.basis == "enforced":
            raise ValueError("Expected samples without clipping: a tilt that is added later is not clipped.")
        if self.tilts.dim() != 2 or not bool(self.tilts.isfinite().all()):
            raise ValueError(f"Expected tilts of shape {tuple(self.tilts.shape)} to be finite, (rows, dim).")

    @property
    def total(self) -> Tensor:
        """The number of examples, as without tilts."""
        return self.samples.total

    @property
    def basis(self) -> Basis:
        """The basis of the bounds, which must hold with the tilts."""
        return self.samples.basis

    def batch(self, start: Tensor, count: Tensor, streams: Streams, call: Tensor) -> "TiltedBatch":
        """The batch of the untilted samples, with the tilts."""
        return TiltedBatch(self.samples.batch(start, count, streams, call), self.tilts)

    def take(self, index: Tensor) -> "TiltedSamples":
        """The source of some of the rows."""
        return TiltedSamples(self.samples.take(index), self.tilts[index])


@dataclass(frozen=True, eq=False)
class TiltedBatch:
    """A batch together with the tilt of each row."""

    batch: Batch
    tilts: Tensor

    def term(self, x: Tensor, previous: Tensor, new: Tensor, bound: Tensor) -> Tensor:
        """The next term of each row, as for `Batch.term`."""
        return self.batch.term(x, previous, new, bound) + torch.where(new[:, None], self.tilts.to(x), 0)
