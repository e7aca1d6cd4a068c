"""The solutions of notebooks/evidence/03_adaptive_batch_evidence."""

import math

from dpnotes.papers.adaptive_batch.reference import node
from dpnotes.privacy.calibration import tree_std
from dpnotes.solutions import Solution

FACTOR = tree_std(1.0, 1e-6, 2.0, 1024)


def blocks_of_sum(t):
    blocks, end = [], 0
    for level in reversed(range(t.bit_length())):
        if end + 2**level <= t:
            blocks.append((end + 1, end + 2**level))
            end += 2**level
    return blocks


SOLUTIONS = {
    "which_blocks": Solution(
        blocks_of_sum,
        [
            lambda t: node(t, t, printed=frozenset({12, 14})),
            lambda t: node(t, t, printed=frozenset({12})),  # without the root
            lambda t: [(leaf, leaf) for leaf in range(1, t + 1)],
            lambda t: [(1, t)],
            lambda t: [(t - last + 1, t - first + 1) for first, last in blocks_of_sum(t)],  # smallest first
        ],
    ),
    "enough_noise": Solution(
        FACTOR,
        [tree_std(1.0, 1e-6, 1.0, 1024), 2 * math.log(1e6), 1.0],
        f"tree_std(1.0, 1e-6, 2.0, 1024) = {FACTOR:.2f}: eleven blocks, and the exact Gaussian.",
    ),
}
