"""Pictures of functions of two numbers: level lines, the paths of runs over them, and where the runs ended."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from numpy.typing import ArrayLike

from dpnotes.notebook import plots


def draw_level_lines(
    axes: Axes,
    value: Callable[[np.ndarray], ArrayLike],
    x_limits: tuple[float, float],
    y_limits: tuple[float, float],
    points: int = 81,
) -> None:
    """Fill the axes with the levels of a function; dark is low.

    Levels lie closer where the function is low, so that the shape of its valleys shows.

    Args:
      axes: where to draw.
      value: maps points `(points, 2)` to values `(points,)`.
      x_limits: left and right end, on a linear scale.
      y_limits: lower and upper end.
      points: points of the grid on each side; the function is evaluated at `points**2` places.

    >>> _, (axes,) = plots.new_figure()
    >>> draw_level_lines(axes, lambda p: (p**2).sum(1), (-1, 1), (-2, 2))
    >>> [float(end) for end in (*axes.get_xlim(), *axes.get_ylim())]
    [-1.0, 1.0, -2.0, 2.0]
    """
    x, y = np.linspace(*x_limits, points), np.linspace(*y_limits, points)
    places = np.stack([*np.meshgrid(x, y)], axis=-1).reshape(-1, 2)
    height = np.asarray(value(places), dtype=float).reshape(points, points)
    low, high = height.min(), height.max()
    levels = low + (high - low) * np.linspace(0, 1, 25) ** 2  # 24 shades
    axes.contourf(x, y, height, levels=levels, cmap="bone")
    axes.set(xlim=x_limits, ylim=y_limits)


def draw_paths(axes: Axes, paths: ArrayLike, chosen: Sequence[bool] | np.ndarray, names: tuple[str, str]) -> None:
    """Draw the paths of runs as thin lines and their ends as marks, in one of two colours each, and the common start.

    Args:
      axes: where to draw.
      paths: `(iterates, runs, 2)`.
      chosen: `(runs,)`, True for runs of the first kind.
      names: the names of the first and of the second kind, for the legend.

    >>> _, (axes,) = plots.new_figure()
    >>> draw_paths(axes, np.zeros((5, 3, 2)), [True, False, True], ("escaped", "still there"))
    >>> len(axes.collections), len(axes.lines)
    (2, 3)
    """
    paths, chosen = np.asarray(paths, dtype=float), np.asarray(chosen, dtype=bool)
    for style, (name, kind) in enumerate(zip(names, (chosen, ~chosen), strict=True)):
        look: dict[str, Any] = {"color": (plots.COLOURS[4], plots.COLOURS[5])[style]}
        axes.add_collection(LineCollection(list(paths[:, kind].swapaxes(0, 1)), linewidths=0.5, alpha=0.5, **look))
        ends = paths[-1, kind]
        label = f"{name}: {kind.sum()}"
        axes.plot(
            ends[:, 0], ends[:, 1], plots.MARKERS[style], markersize=4, markeredgecolor="black",
            markeredgewidth=0.4, label=label, **look,
        )  # fmt: skip
    start = paths[0, 0]
    axes.plot(start[0], start[1], "+", color=plots.COLOURS[1], markersize=11, markeredgewidth=2, zorder=5)
