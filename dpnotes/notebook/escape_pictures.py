"""Pictures of drift escape: how often all attempts fail, and fixed-point iterations for implicit parameters."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from dpnotes.notebook import plots


def draw_failures(axes: Axes, table: pd.DataFrame) -> None:
    """Draw how often all of Q attempts fail, one curve for each oracle, beside the curve of independent attempts.

    Args:
      axes: where to draw.
      table: one row for each oracle and `Q`, from 1 on: `fails` and its interval from `low` to `high`; `independent`,
        drawn for the first oracle only.

    >>> row = {"oracle": "fresh noise", "Q": 1, "fails": 0.5, "low": 0.4, "high": 0.6, "independent": 0.5}
    >>> _, (axes,) = plots.new_figure()
    >>> draw_failures(axes, pd.DataFrame([row]))
    >>> [line.get_label() for line in axes.lines]
    ['fresh noise', 'p^Q, p of fresh noise']
    """
    for style, (name, part) in enumerate(table.groupby("oracle", sort=False)):
        band = part["low"], part["high"]
        plots.curve(axes, part["Q"], part["fails"], interval=band, label=str(name), style=style, log="y", marked=True)
    alone = table[table["oracle"] == table["oracle"].iloc[0]]
    label = f"p^Q, p of {alone['oracle'].iloc[0]}"
    plots.curve(axes, alone["Q"], alone["independent"], label=label, style=6, log="y")
    axes.set_xlim(0.5, table["Q"].max() + 0.5)
    plots.log_axis(axes, "y", 1e-3, 1)
    plots.label(axes, x="attempts Q", y="all of them fail", title="how often all attempts fail (95%)", legend=True)


def draw_stairs(axes: Axes, x: ArrayLike, values: ArrayLike, path: ArrayLike, label: str, log: plots.Log = "") -> None:
    """Draw a map, the diagonal, and the first 20 iterations of the map as stairs between the two.

    Args:
      axes: where to draw.
      x: `(points,)`, ascending; its ends are the limits of both axes.
      values: `(points,)`, the values of the map.
      path: `(iterates,)`, starting with the initial value.
      label: the map's name in the legend.
      log: "xy" to draw both as log10, or "".

    >>> _, (axes,) = plots.new_figure()
    >>> draw_stairs(axes, [1, 5], [2.5, 4.5], [1, 2.5, 3.25], "2 + x/2")
    >>> axes.lines[2].get_xydata().tolist()
    [[1.0, 1.0], [1.0, 2.5], [2.5, 2.5], [2.5, 3.25], [3.25, 3.25]]
    """
    x, path = np.asarray(x, dtype=float), np.asarray(path, dtype=float)[:21]
    low, high = x[0], x[-1]
    plots.curve(axes, x, values, label=label, style=0, log=log)
    scale = np.log10 if log else np.asarray
    axes.plot(scale([low, high]), scale([low, high]), color="black", linewidth=0.8)
    corners = np.repeat(path, 2)[:-1], np.r_[path[0], np.repeat(path[1:], 2)]
    axes.plot(*map(scale, corners), color=plots.COLOURS[1], linewidth=1.2, label="iteration")
    if log:
        plots.log_axis(axes, "x", low, high)
        plots.log_axis(axes, "y", low, high)
    else:
        axes.set(xlim=(low, high), ylim=(low, high))
