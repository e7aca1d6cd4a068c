"""The distribution of clients over processes, and a fixed order for summing the clients' messages.

A sum of floating-point numbers depends on the order of its terms, and torch's sum on their number. So clients are
computed in blocks of a stated size, independent of the number of processes; a block sums its clients pairwise, and the
blocks are the leaves of one binary tree. A process has some consecutive blocks, and sends the sums of the largest
subtrees that it owns. Each process then sums the rest of the tree, to the same bits.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpnotes.util import checks, validate
from dpnotes.util.processes import ALONE, Processes, ProcessLost


class Node(NamedTuple):
    """A node of the tree, the sum of `length` blocks, a power of two, from block `start`, a multiple of `length`."""

    start: int
    length: int


def pairwise_sum(terms: Tensor) -> Tensor:
    """The pairwise sum over the second axis of `(runs, terms, ...)`: pairs, then pairs of pairs; `(runs, ...)`.

    Example:
      >>> pairwise_sum(torch.tensor([[1e16, 1.0, -1e16]], dtype=torch.float64))
      tensor([0.], dtype=torch.float64)
    """
    while terms.shape[1] > 1:
        pairs = terms.shape[1] // 2 * 2
        terms = torch.cat([terms[:, 0:pairs:2] + terms[:, 1:pairs:2], terms[:, pairs:]], 1)
    return terms[:, 0]


def whole_nodes(first: int, last: int) -> list[Node]:
    """The smallest set of nodes of the tree that covers the blocks `first ... last - 1`.

    Example:
      >>> whole_nodes(3, 9)
      [Node(start=3, length=1), Node(start=4, length=4), Node(start=8, length=1)]
    """
    nodes = []
    while first < last:
        length = first & -first or 1 << last.bit_length()
        while first + length > last:
            length //= 2
        nodes.append(Node(first, length))
        first += length
    return nodes


def tree_sum(known: dict[Node, Tensor], node: Node) -> Tensor | None:
    """The sum of a node, computed from the known nodes below it; None if none is known.

    Example:
      >>> leaves = {Node(block, 1): torch.tensor(float(block)) for block in range(5)}
      >>> tree_sum(leaves, Node(0, 8))
      tensor(10.)
    """
    if node in known or node.length == 1:
        return known.get(node)
    half = node.length // 2
    left, right = (tree_sum(known, Node(start, half)) for start in (node.start, node.start + half))
    return left if right is None else right if left is None else left + right


@dataclass(frozen=True)
class Blocks:
    """The assignment of all clients to blocks and processes.

    Args:
      num_clients: m, at least 1.
      size: the number of clients in a block, at least 1; the last block may have fewer.
      processes: the group of processes; their numbers of blocks differ by at most one.

    Raises:
      ValueError: outside these domains, or for fewer blocks than processes.

    Example:
      >>> Blocks(5, 2).members
      [range(0, 2), range(2, 4), range(4, 5)]
    """

    num_clients: int
    size: int
    processes: Processes = ALONE

    def __post_init__(self) -> None:
        validate.at_least(1, num_clients=self.num_clients, size=self.size)
        if self._count < self.processes.size:
            raise ValueError(f"Expected num_blocks={self._count} >= {self.processes.size}, the number of processes.")

    @property
    def _count(self) -> int:
        return -(-self.num_clients // self.size)

    def _share(self, rank: int) -> tuple[int, int]:
        """The blocks of a process, from the first one to the one after the last."""
        return rank * self._count // self.processes.size, (rank + 1) * self._count // self.processes.size

    def clients(self, rank: int) -> range:
        """The clients of a process."""
        first, last = self._share(rank)
        return range(first * self.size, min(last * self.size, self.num_clients))

    @cached_property
    def members(self) -> list[range]:
        """The clients of each block of this process."""
        own = self.clients(self.processes.rank)
        return [range(start, min(start + self.size, own.stop)) for start in own[:: self.size]]

    def named(self, ranks: tuple[int, ...]) -> str:
        """The text that names the clients of these processes, for error messages."""
        each = [self.clients(rank) for rank in ranks]
        if not each:
            return "with unknown clients"
        return "clients " + ", ".join(f"{clients.start} to {clients.stop - 1}" for clients in each)

    def sum(self, sent: list[Tensor], calls: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of the messages of all clients.

        Args:
          sent: the messages of the clients in each block of this process, `(runs, clients, dim)`.
          calls: `(runs,)` int64, the number of the round.

        Returns:
          The sum, `(runs, dim)`, and the first client whose message is not finite, `(runs,)` int64; -1: none.

        Raises:
          ProcessLost: if another process does not take part, or is in another round.
        """
        first = self._share(self.processes.rank)[0]
        known = {Node(first + place, 1): pairwise_sum(rows) for place, rows in enumerate(sent)}
        if self.processes.size > 1:
            known = self._exchanged(known, calls)
        total = tree_sum(known, Node(0, 1 << (self._count - 1).bit_length()))
        assert total is not None  # noqa: S101
        bad = ~_finite(total)
        if checks.known_empty(bad):  # a number that is not finite stays visible in a sum
            return total, torch.full_like(calls, -1)
        everyone = self.processes.gather(self._wrong(sent))
        first_wrong = torch.where(everyone < 0, self.num_clients, everyone).amin(0)
        return total, torch.where(bad, first_wrong.clamp_max(self.num_clients - 1), -1)

    def _wrong(self, sent: list[Tensor]) -> Tensor:
        """The first client of this process whose message is not finite, `(runs,)`; -1: none."""
        numbers = torch.cat([_finite(rows) for rows in sent], 1)
        start = self.clients(self.processes.rank).start
        return torch.where(numbers.all(1), -1, (~numbers).int().argmax(1) + start)

    def _exchanged(self, known: dict[Node, Tensor], calls: Tensor) -> dict[Node, Tensor]:
        """The nodes of all processes, after an exchange of the round's number and of each process's own nodes."""
        rounds = self.processes.gather(calls)
        stale = (rounds != calls).any(1)
        if bool(stale.any()):
            raise ProcessLost(tuple(stale.nonzero()[:, 0].tolist()), f"sent another round than {calls[0]}")
        shares = [whole_nodes(*self._share(rank)) for rank in range(self.processes.size)]
        own: Any = [tree_sum(known, node) for node in shares[self.processes.rank]]
        most = max(map(len, shares))
        nodes = torch.stack([*own, *[torch.zeros_like(own[0])] * (most - len(own))]) if most > 1 else own[0][None]
        values = self.processes.gather(nodes)
        return {node: values[rank, place] for rank, nodes in enumerate(shares) for place, node in enumerate(nodes)}


def _finite(rows: Tensor) -> Tensor:
    """Return whether the sum over the last axis is finite, as for finite entries unless they are near 1e308."""
    return rows.sum(-1, dtype=torch.float64).isfinite()
