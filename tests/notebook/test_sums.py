"""Pictures of running sums: positions of the drawn objects, and refusals."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from dpnotes.notebook import plots
from dpnotes.notebook.sums import blocks_of, draw_blocks, draw_drift
from dpnotes.privacy.museum.releases import node


def axes():
    return plots.new_figure()[1][0]


@pytest.mark.parametrize("num_leaves", [1, 2, 7, 8, 13, 64])
def test_a_leaf_is_in_as_many_blocks_as_the_tree_has_levels_at_most(num_leaves):
    blocks = blocks_of(num_leaves)
    counts = [sum(first <= leaf <= last for first, last in blocks) for leaf in range(1, num_leaves + 1)]
    assert len(set(blocks)) == len(blocks) and max(counts) == counts[0] == num_leaves.bit_length()


@pytest.mark.parametrize("num_leaves", [1, 7, 8, 13])
def test_the_tree_has_every_block_that_a_sum_takes(num_leaves):
    blocks = {*blocks_of(num_leaves)}
    assert all(block in blocks for step in range(1, num_leaves + 1) for block in node(step))


def test_what_a_sum_takes_is_filled_and_lies_before_its_end():
    drawn = axes()
    draw_blocks(drawn, 13, 11, node(11))
    past, future, taken = drawn.collections
    assert np.allclose(taken.get_facecolor(), to_rgba(plots.COLOURS[0]))
    edges, later = ([np.asarray(shape.vertices)[:, 0] for shape in kind.get_paths()] for kind in (taken, future))
    assert max(edge.max() for edge in edges) < 11.5 < min(edge.max() for edge in later)
    assert len(past.get_paths()) + len(later) + len(edges) == len(blocks_of(13))
    # Together they cover leaves 1 to 11 once.
    leaves = np.concatenate([np.arange(np.ceil(edge.min()), np.floor(edge.max()) + 1) for edge in edges])
    assert sorted(leaves) == [*range(1, 12)]


def test_drift_marks_what_happened_when():
    drawn = axes()
    draw_drift(drawn, [0.0, 1.0, 2.0, 0.0], 3.0, [True, False, False, True], [False, False, True, False])
    drift, threshold, fresh, moved = drawn.lines
    assert np.array_equal(drift.get_ydata(), [0, 1, 2, 0]) and np.array_equal(threshold.get_ydata(), [3, 3])
    assert np.array_equal(fresh.get_xydata(), [[0, 0], [3, 0]]) and np.array_equal(moved.get_xydata(), [[2, 2]])
    assert drawn.get_ylim()[1] > 3
