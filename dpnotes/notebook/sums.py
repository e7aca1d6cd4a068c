"""Pictures of running sums: the blocks of a tree that carry the noise of a sum, and the restarts of a sum."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from dpnotes.notebook import plots

Block = tuple[int, int]


def blocks_of(num_leaves: int) -> list[Block]:
    """All blocks of a tree, as first and last leaf: blocks of 1, 2, 4, ... leaves that end by the last leaf.

    Args:
      num_leaves: at least 1.

    >>> blocks_of(5)
    [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (1, 2), (3, 4), (1, 4)]
    """
    sizes = [2**level for level in range(num_leaves.bit_length())]
    return [(end - size + 1, end) for size in sizes for end in range(size, num_leaves + 1, size)]


def draw_blocks(axes: Axes, num_leaves: int, step: int, taken: Sequence[Block]) -> None:
    """Draw a tree as rows of blocks, leaves lowest: the blocks of a sum are filled, blocks beyond its end are pale.

    Args:
      axes: where to draw.
      num_leaves: the number of leaves of the tree, at least 1.
      step: the last leaf in the sum.
      taken: blocks whose noise the sum has, as first and last leaf.

    >>> _, (axes,) = plots.new_figure()
    >>> draw_blocks(axes, 8, 6, [(1, 4), (5, 6)])
    >>> [len(kind.get_paths()) for kind in axes.collections]
    [8, 5, 2]
    """
    chosen = set(taken)
    kinds: tuple[list[Block], ...] = ([], [], [])
    for block in dict.fromkeys([*blocks_of(num_leaves), *taken]):
        kinds[2 if block in chosen else 1 if block[1] > step else 0].append(block)
    looks = (("white", "#7a7a7a"), ("white", "#dcdcdc"), (plots.COLOURS[0], "black"))
    for blocks, (face, edge) in zip(kinds, looks, strict=True):
        shapes = [_shape(first, last) for first, last in blocks]
        axes.add_collection(PatchCollection(shapes, facecolor=face, edgecolor=edge, linewidth=0.8))
    axes.axvline(step + 0.5, color=plots.COLOURS[1], linewidth=1.4, linestyle="--")
    axes.set_xlim(0.3, num_leaves + 0.7)
    axes.set_ylim(-0.3, num_leaves.bit_length())


def _shape(first: int, last: int) -> Rectangle:
    level = (last - first + 1).bit_length() - 1
    return Rectangle((first - 0.44, level), last - first + 0.88, 0.72)


def draw_drift(axes: Axes, drift: ArrayLike, threshold: float, fresh: ArrayLike, moved: ArrayLike) -> None:
    """Draw the drift of the points at which a sum was evaluated, its threshold, restarts and perturbations.

    Args:
      axes: where to draw.
      drift: `(steps,)`, after each step; 0 where a fresh gradient was evaluated.
      threshold: the threshold of the drift.
      fresh: `(steps,)` bool, True where the sum was restarted.
      moved: `(steps,)` bool, True where the step was perturbed.

    >>> _, (axes,) = plots.new_figure()
    >>> draw_drift(axes, [0.0, 0.5, 0.0], 0.8, [True, False, True], [False, True, False])
    >>> [line.get_label() for line in axes.lines]
    ['drift', 'threshold', 'fresh gradient: 2', 'perturbed: 1']
    """
    drift, fresh, moved = np.asarray(drift, dtype=float), np.asarray(fresh, dtype=bool), np.asarray(moved, dtype=bool)
    steps = np.arange(len(drift))
    plots.curve(axes, steps, drift, label="drift")
    axes.axhline(threshold, color="black", linewidth=0.9, linestyle=":", label="threshold")
    for style, (name, places) in enumerate((("fresh gradient", fresh), ("perturbed", moved)), start=1):
        at = steps[places]
        axes.plot(
            at, drift[at], plots.MARKERS[style], color=plots.COLOURS[style], markersize=5, linestyle="none",
            label=f"{name}: {len(at)}",
        )  # fmt: skip
    axes.set_xlim(-0.5, max(len(drift) - 0.5, 0.5))
    axes.set_ylim(0, 1.15 * max(threshold, float(drift.max(initial=0))))
