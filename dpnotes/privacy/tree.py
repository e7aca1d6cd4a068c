"""The tree mechanism, whose noise of a running sum grows only with the logarithm of the sum's length.

Binary counting of Dwork, Naor, Pitassi and Rothblum (2010, doi:10.1145/1806689.1806787) and Chan, Shi and Song (2011,
doi:10.1145/2043621.2043626). Leaf j of the tree is the j-th term of a sum. The noise of the sum of the first j terms is
the sum of one draw for each block of the binary expansion of j, largest block first (13 = 8 + 4 + 1: leaves 1-8, 9-12
and 13), so it has `popcount(j)` draws, and only the block that ends at j is new.

Nodes and noise follow the corrected NODE. As printed in Liu and Talwar (2024, arXiv:2410.07502v1, Algorithm 1), the
comparison `k' <= k` is never true, so that no sum gets noise, and the levels omit the root, so that the last leaf of a
tree of 2^k leaves gets no noise of its own; Kornowski, Liu and Talwar (2024, Algorithm 1) correct only the comparison.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from dpnotes.core import Price, Request
from dpnotes.guarantees import FRESH, Noise, Sampling
from dpnotes.privacy.mechanisms import rounded_to_grid
from dpnotes.privacy.sums import SumMechanism, SumState, check_shared
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.validate import AtLeastOne, checked

_TABLE = 2**16  # the most leaves for which a table is built


@checked
@dataclass(frozen=True)
class Tree(SumMechanism):
    """The tree mechanism, which releases term j with the noise `TREE(j) - TREE(j - 1)`.

    The sum of the releases is the noisy prefix sum, so no exact sum is kept. A step draws exactly one Gaussian vector,
    adds it and subtracts the noise of the blocks that it replaces (one on average); the state holds at most
    `floor(log2 max_leaves) + 2` vectors of the answer's size, and levels not yet reached share their memory.

    With `optimal` the noise of a block is the best combination of its own draw with the noise of its two halves, which
    have been released already (estimation from below; Honaker 2015, "Efficient use of differentially private binary
    trees"): the noise of a block of 2^l leaves has `2^l / (2^(l+1) - 1)` times the variance of one draw. Usual
    implementations draw two vectors per step (a tree of T leaves has 2 T - 1 nodes). One is enough: only one weighted
    sum of the nodes that complete at a step is ever used again, and it is Gaussian. These releases reveal less than all
    nodes of the tree would, and their exact sensitivity is smaller than the tree's (1.8 against 2 squared sensitivities
    of a term for two leaves).

    Formal guarantees:
      Every release is the post-processing of one Gaussian release, that of the block which completes. Its price is the
      zCDP cost of that release under the answer's sampling, with s the sensitivity of a term and sigma the noise of a
      node:

      * FRESH: an example touches one leaf, and pays once for every block that its leaf will be in: the price of leaf j
        is `(s / sigma)^2 / 2` times the number of j's blocks that a tree of `max_leaves` leaves completes. Examples of
        different leaves, and of different trees, pay in parallel (the ledger's maximum), so a full tree costs exactly
        `(floor(log2 max_leaves) + 1) (s / sigma)^2 / 2`, the price of its first leaf. A tree that is restarted early is
        charged for its full length, since a filter needs the cost in advance.
      * WHOLE: every example may touch every leaf. A release costs `(S / sigma)^2 / 2`, with S the sum of the
        sensitivities of the leaves in its block, and releases compose sequentially (the ledger's sum). For a tree of
        T = 2^k leaves that is `T (3 T - 1) / 2` times `(s / sigma)^2 / 2`, against T times that for independent noise
        on the terms: trees are for data that are used once.

      Random batches have no accountant here: amplification by sampling does not apply when steps share noise.

    Args:
      max_leaves: T, the length of the longest sum, at least 1, not only powers of two. Public.
      optimal: whether blocks use the noise of their halves.
      purpose: names the noise stream; two mechanisms of one run need two purposes.

    Raises:
      ValueError: if `max_leaves` is below 1.

    Example:
      >>> from dpnotes.core import Relation, Sensitive
      >>> tree, streams = Tree(max_leaves=8), Streams.of(0, ["run"])
      >>> state, total, popcounts = tree.init(torch.zeros(1, 3)), 0.0, []
      >>> for call in range(8):
      ...     answer = Sensitive(torch.zeros(1, 3), torch.ones(1), Relation.ZERO_OUT, "proved", FRESH)
      ...     request = Request(answer, torch.ones(1), torch.tensor([call]), torch.tensor([True]))
      ...     state, value, price = tree.release(state, request, streams)
      ...     total = total + value
      >>> torch.allclose(total, streams.normal(tree.purpose, 7, 3).float())  # all 8 leaves are one block, drawn last
      True
      >>> round(float(tree.cost(tree.init(torch.zeros(1, 3)), torch.ones(1), FRESH)), 12)  # leaf 1 is in four blocks
      2.0
    """

    max_leaves: AtLeastOne
    optimal: bool = False
    purpose: str = "tree mechanism"
    noise: ClassVar[Noise] = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_leaves", int(self.max_leaves))  # numpy's whole numbers count no bits

    @property
    def levels(self) -> int:
        """The largest number of blocks that a leaf is in, floor(log2 T) + 1."""
        return self.max_leaves.bit_length()

    def init(self, x: Tensor) -> SumState:
        """The state before the first term, for answers shaped like `x` `(runs, dim)`."""
        node = torch.zeros(x.shape, dtype=torch.float64, device=x.device)
        return SumState.start(x, [node] * self.levels)

    def release(self, state: SumState, request: Request, streams: Streams) -> tuple[SumState, Tensor, Price]:
        """Release the next term of the active runs.

        Returns:
          The next state, the term with its noise `(runs, dim)`, and its price.

        Raises:
          CombinationError: if the answer's sampling is neither WHOLE nor FRESH.
          ValueError: as `Gaussian.release`; or if an active run's sum is longer than `max_leaves`, or its noise differs
            from that of its tree's first leaf.
        """
        term = self.accept(state, request, streams)
        value, leaf, active = request.answer.value, term.leaf, term.active
        combine, own = _tables(self.levels, self.optimal, value.device)
        level = _level_of(leaf.clamp_max(self.max_leaves))  # a refused run may be past the last leaf
        nodes = [*state.layers]
        scale = term.noise_std * own[level] if self.optimal else term.noise_std
        drawn = streams.normal(self.purpose, request.call, value.shape[1]).mul_(scale[:, None])
        released = drawn
        # The host waits here once per step: processing all levels instead would read one vector per level.
        levels = torch.where(active, level, -1).tolist()
        completes = {*levels} - {-1}
        together = len({*levels}) == 1  # runs in step complete blocks of one size
        for low in range(max(completes, default=0)):
            # When a block completes, every lower block is live and becomes part of it.
            old = nodes[low] if together else torch.where((active & (level > low))[:, None], nodes[low], 0.0)
            released = released - old if released is drawn else released.sub_(old)
            if self.optimal:  # not fused, since the bits of a fused operation depend on the device
                part = old * combine[level, low][:, None]
                released.add_(part)
                drawn.add_(part)
        if streams.secret:
            released = rounded_to_grid(released, value, term.noise_std).to(value.dtype)
        else:
            released = (released + value if released is drawn else released.add_(value)).to(value.dtype)
        if -1 in levels:
            released.masked_fill_(~active[:, None], 0)
        for full in completes:
            here = (active & (level == full))[:, None]
            nodes[full] = drawn if together else torch.where(here, drawn, nodes[full])

        each = torch.arange(self.levels, device=value.device)
        reach = 1 / term.multiplier + torch.where(each < level[:, None], state.reach, 0.0).sum(1)
        reach = torch.where(each == level[:, None], reach[:, None], state.reach)
        return state.after(term, request, active, reach, nodes), released, term.price

    def max_cost(self, noise_multiplier: float) -> float:
        """The largest zCDP that an example pays in a tree of fresh leaves, for a node's noise multiplier.

        Example:
          >>> Tree(7).max_cost(1.0), Tree(8).max_cost(1.0)
          (1.5, 2.0)
        """
        validate.between(1e-150, 1e150, noise_multiplier=noise_multiplier)  # outside, its square is 0 or infinite
        return 0.5 * _largest_touch(self.max_leaves, self.optimal) / noise_multiplier**2

    def _effective(self, state: SumState, leaf: Tensor, multiplier: Tensor, sampling: Sampling) -> Tensor:
        """The noise multiplier of a single Gaussian release with the same cost, `(runs,)`."""
        leaf = leaf.clamp_max(self.max_leaves)
        if sampling == FRESH:
            return multiplier / self._touches(leaf)
        check_shared(type(self).__name__, sampling)
        combine, own = _tables(self.levels, self.optimal, multiplier.device)
        level = _level_of(leaf)
        lower = torch.arange(self.levels, device=multiplier.device) < level[:, None]
        seen = torch.where(lower, (1 - combine[level]) * state.reach, 0.0).sum(1)
        return own[level] / (1 / multiplier + seen)

    def _touches(self, leaf: Tensor) -> Tensor:
        """The square root of `_touch` for each leaf, `(runs,)`."""
        if leaf.device.type != "cpu" and self.max_leaves <= _TABLE:
            return _touch_table(self.max_leaves, self.optimal, leaf.device)[leaf]
        touch = [_touch(each, self.max_leaves, self.optimal) ** 0.5 for each in leaf.tolist()]
        return torch.tensor(touch, dtype=torch.float64, device=leaf.device)


def _level_of(leaf: Tensor) -> Tensor:
    """The level of the block that ends at a leaf: the exponent of two in its number, exact in floating point."""
    return torch.frexp((leaf & -leaf).double()).exponent.long() - 1


@lru_cache(maxsize=64)
def _weights(levels: int, optimal: bool) -> tuple[list[list[float]], list[float]]:
    """The weights that form a completed block's noise from the noises of the lower live blocks and one draw.

    `combine[level][low]` multiplies the noise of the live block of 2^low leaves, `own[level]` the draw.
    """
    combine, own = [[0.0] * levels for _ in range(levels)], [1.0] * levels
    # A block of 2^l leaves has weight w_l = 2^l / (2^(l+1) - 1) for its own node, and 1 - w_l for its halves; w_l is
    # also its variance.
    share = [2.0**level / (2.0 ** (level + 1) - 1) for level in range(levels)]
    for level in range(levels if optimal else 0):
        passed = [1.0] * (level + 1)  # the weight of a block of 2^low leaves in one of 2^level
        for low in reversed(range(level)):
            passed[low] = passed[low + 1] * (1 - share[low + 1])
            combine[level][low] = passed[low]
        # The nodes that complete at this step, of 2^0 to 2^level leaves: their weighted sum is one draw.
        own[level] = sum((p * w) ** 2 for p, w in zip(passed, share, strict=False)) ** 0.5
    return combine, own


@lru_cache(maxsize=64)
def _tables(levels: int, optimal: bool, device: torch.device) -> tuple[Tensor, Tensor]:
    combine, own = (torch.tensor(each, dtype=torch.float64, device=device) for each in _weights(levels, optimal))
    return combine, own


def _swallowed(level: int, above: int, levels: int, optimal: bool) -> float:
    """The squared sensitivity of a draw of level `above` to a block of 2^level leaves, in units of its variance."""
    combine, own = _weights(levels, optimal)
    return ((1 - combine[above][level]) / own[above]) ** 2


@lru_cache(maxsize=65536)
def _touch(leaf: int, max_leaves: int, optimal: bool) -> float:
    """The total squared sensitivity of all draws of a full tree to one leaf, in units of the draws' variances."""
    levels = max_leaves.bit_length()
    size = leaf & -leaf
    level = size.bit_length() - 1
    total = _weights(levels, optimal)[1][level] ** -2
    while (leaf := leaf + size) <= max_leaves:  # the last leaf of the next larger block that contains it
        size = leaf & -leaf
        above = size.bit_length() - 1
        total += _swallowed(level, above, levels, optimal)
        level = above
    return total


@lru_cache(maxsize=16)
def _touch_table(max_leaves: int, optimal: bool, device: torch.device) -> Tensor:
    """The square root of `_touch` by leaf number, with 1 at index 0: a table for devices, where the host would wait."""
    roots = [1.0, *(_touch(leaf, max_leaves, optimal) ** 0.5 for leaf in range(1, max_leaves + 1))]
    return torch.tensor(roots, dtype=torch.float64, device=device)


@lru_cache(maxsize=64)
def _largest_touch(max_leaves: int, optimal: bool) -> float:
    """The largest `_touch`: since some leaf has every ascending sequence of levels, it is the longest such path."""
    levels = max_leaves.bit_length()
    best: list[float] = []
    for level in range(levels):
        start = _weights(levels, optimal)[1][level] ** -2
        best.append(max([start, *(best[low] + _swallowed(low, level, levels, optimal) for low in range(level))]))
    return max(best)
