"""The blocks of a tree mechanism, as plain numbers: the nodes whose sum is a prefix sum, and their number."""

from typing import Any

import numpy as np

from dpnotes.theory.refusals import require

_LEVELS = 53  # whole numbers up to 2^53 are exact floating point numbers


def block(index: Any, rank: Any, largest: Any) -> tuple[Any, Any, Any]:
    """The first and the last leaf of a node in the sum of the first `index` leaves, and the number of its nodes.

    Args:
      index: the number of leaves of the sum; a whole number, or an array of them.
      rank: the rank of the node in the sum, from 1 for the largest.
      largest: the size of the largest block that exists, a power of 2; below 1 no block exists.

    Raises:
      OutsideRegime: the sum has fewer nodes than `rank`.

    >>> [tuple(map(int, block(13, rank, 16))) for rank in (1, 2, 3)]
    [(1, 8, 3), (9, 12, 3), (13, 13, 3)]
    """
    index, rank, largest = (np.asarray(value, dtype=float) for value in (index, rank, largest))
    start = count = first = last = np.zeros(np.broadcast_shapes(index.shape, rank.shape, largest.shape))
    for level in reversed(range(_LEVELS)):
        size = 2.0**level
        fits = (size <= largest) & (start + size <= index)
        count = count + fits
        here = fits & (count == rank)
        first, last = np.where(here, start + 1, first), np.where(here, start + size, last)
        start = start + size * fits
    few = "Expected rank={rank:g} <= {count:g}: the sum of the first {index:g} leaves has no more nodes."
    require(rank <= count, few, rank=rank, count=count, index=index)
    return first[()], last[()], count[()]


def sizes(leaves: Any) -> tuple[Any, Any, Any]:
    """The number of levels and of nodes of a binary tree over `leaves`, and the most nodes that a prefix sum uses.

    >>> [tuple(map(int, sizes(leaves))) for leaves in (1, 5, 8)]
    [(1, 1, 1), (3, 8, 2), (4, 15, 3)]
    """
    leaves = np.asarray(leaves, dtype=float)
    levels = np.frexp(leaves)[1].astype(float)
    nodes = sum(np.floor(leaves / 2.0**level) for level in range(_LEVELS))
    return levels[()], np.asarray(nodes)[()], (np.frexp(leaves + 1)[1] - 1.0)[()]
