"""Pictures in one style: a few drawing functions for matplotlib axes, and the bytes of a sharp picture.

Colours are those of Okabe and Ito, which readers with any colour vision tell apart, and no two series that share a
colour share their line style or marker. Data on log scales are drawn as log10 on linear axes: that redraws three times
as fast as a log axis. Nothing here touches pyplot or a global setting, so a figure is the same wherever it is drawn.
"""

import io
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox, ScaledTranslation, TransformedBbox
from numpy.typing import ArrayLike
from PIL import Image

from dpnotes.notebook import markup

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY, RED = "#595959", "#B00020"
Log = Literal["", "x", "y", "xy"]
INCH = 100  # page pixels of an inch of a figure; drawn with twice as many, which a dense screen shows


def new_figure(
    widths: Sequence[float] = (1,), size: tuple[float, float] = (7.2, 3.6)
) -> tuple[Figure, tuple[Axes, ...]]:
    """Make a figure with one row of panels, drawn by Agg, 200 pixels an inch and shown as 100.

    Args:
      widths: relative widths of the panels, one or more.
      size: width and height in inches.

    Returns:
      The figure and its axes.

    >>> figure, (left, right) = new_figure((2, 1))
    >>> figure.canvas.get_width_height()
    (1440, 720)
    """
    # The padding leaves room for wider tick labels once an explorer has frozen its layout.
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.06)
    figure = Figure(figsize=size, dpi=2 * INCH, layout=layout, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0]
    return figure, tuple(axes)


def make_room(figure: Figure) -> None:
    """Make a drawn figure higher by the height of its legends and of the texts above and below it.

    >>> figure, (axes,) = new_figure()
    >>> curve(axes, [1, 2], [3, 4], label="a line")
    >>> label(axes, legend=True)
    >>> make_room(figure)
    >>> bool(figure.get_figheight() > 3.6)
    True
    """
    figure.canvas.draw()
    legends = [legend.get_window_extent().height for axes in figure.axes if (legend := axes.get_legend())]
    said = [text.get_window_extent().height for text in figure.texts]
    figure.set_figheight(figure.get_figheight() + (max(legends, default=0) + sum(said)) / figure.dpi)


def png(figure: Figure) -> bytes:
    """Draw `figure` and return it as PNG: the same figure gives the same bytes, without a date.

    Args:
      figure: a figure of `new_figure`.

    >>> figure, _ = new_figure()
    >>> png(figure)[1:4]
    b'PNG'
    """
    canvas: Any = figure.canvas
    canvas.draw()
    buffer = io.BytesIO()
    # Little compression, since redraws must be fast.
    Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").save(buffer, "png", compress_level=1)
    return buffer.getvalue()


def for_storing(picture: bytes) -> bytes:
    """A lossless WebP of 256 colours, which takes a third of the room in a notebook and looks the same.

    Args:
      picture: a PNG of `png`.

    >>> figure, (axes,) = new_figure()
    >>> heat_map(axes, range(9), range(9), np.add.outer(range(9), range(9)), contours=[4])
    >>> len(for_storing(png(figure))) < len(png(figure)) / 2
    True
    """
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(picture)) as image:
        image.quantize(256, dither=Image.Dither.NONE).convert("RGB").save(buffer, "webp", lossless=True)
    return buffer.getvalue()


def shown(figure: Figure, picture: bytes, words: str) -> str:
    """HTML of a picture of a figure, with its alternative text.

    In a dark theme line charts become dark; heat maps and landscapes, whose colours mean numbers, stay as they are.

    Args:
      figure: a figure of `new_figure`.
      picture: its bytes, from `png` or `for_storing`.
      words: a description of it.

    >>> figure, (axes,) = new_figure()
    >>> curve(axes, [1, 2], [3, 4])
    >>> "dpnotes-chart" in shown(figure, png(figure), "a line")
    True
    >>> heat_map(axes, range(9), range(9), np.add.outer(range(9), range(9)), contours=[4])
    >>> "dpnotes-chart" in shown(figure, png(figure), "a map")
    False
    """
    coloured = any(
        axes.images or any(isinstance(c, ContourSet) and c.filled for c in axes.collections) for axes in figure.axes
    )
    return markup.image(picture, words, round(figure.get_figwidth() * INCH), chart=not coloured)


@dataclass(frozen=True, repr=False)
class Picture:
    """A still picture for the end of a cell, with a description for readers who cannot see it.

    Args:
      figure: the figure to show.
      description: a description of it: the alternative text, and the cell's plain text.

    >>> Picture(new_figure()[0], "Two curves that meet at N = 250.")
    Two curves that meet at N = 250.
    """

    figure: Figure
    description: str

    def __repr__(self) -> str:
        return self.description

    def _repr_html_(self) -> str:
        return shown(self.figure, for_storing(png(self.figure)), self.description)


# ---------------------------------------------------------------- axes
def label(axes: Axes, x: str = "", y: str = "", title: str = "", legend: bool = False) -> None:
    """Set the texts and the common look of axes, after drawing: a heat map gets no grid, a legend lists the curves.

    The legend stands below the axes, where it covers no data.

    >>> _, (axes,) = new_figure()
    >>> label(axes, x="step", y="influence")
    >>> axes.get_xlabel()
    'step'
    """
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(not axes.images, **({} if axes.images else {"color": "#e0e0e0", "linewidth": 0.6}))
    axes.set_axisbelow(True)
    if legend:
        _legend_below(axes)


def _legend_below(axes: Axes) -> None:
    figure = axes.get_figure(root=True)
    handles, names = axes.get_legend_handles_labels()
    if figure is None or not names:
        return
    entry = 0.5 + 0.065 * max(map(len, names))  # inches, for a line with its name
    columns = max(1, int(figure.get_figwidth() * axes.get_position().width / entry))
    below = ScaledTranslation(0, -0.52 if axes.get_xlabel() else -0.28, figure.dpi_scale_trans)
    axes.legend(
        handles, names, loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=axes.transAxes + below,
        ncols=min(columns, len(names)), frameon=False, fontsize=8.5, borderaxespad=0, columnspacing=1.2,
    )  # fmt: skip


def power_of_ten(exponent: int) -> str:
    """The text of 10^exponent, without the slow mathematics parser.

    >>> power_of_ten(-3), power_of_ten(0), power_of_ten(1)
    ('10⁻³', '1', '10')
    """
    if exponent in (0, 1):
        return str(10**exponent)
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def log_axis(axes: Axes, which: Literal["x", "y"], low: float, high: float, most_ticks: int = 6) -> None:
    """Let a linear axis that carries log10 data read as a log axis from `low` to `high`.

    Args:
      axes: where the log10 of the data was or will be drawn.
      which: "x" or "y".
      low: least value shown, > 0.
      high: largest value shown, > low.
      most_ticks: decades are skipped evenly to have no more ticks than this.

    >>> _, (axes,) = new_figure()
    >>> log_axis(axes, "x", 1e-4, 1)
    >>> [tick.get_text() for tick in axes.get_xticklabels()]
    ['10⁻⁴', '10⁻³', '10⁻²', '10⁻¹', '1']
    """
    first, last = np.log10([low, high])
    decades = np.arange(np.ceil(first - 1e-9), np.floor(last + 1e-9) + 1).astype(int)
    if len(decades) < 2:  # less than a decade: label the 1, 2, 5 in between
        values = [m * 10.0**k for k in range(int(np.floor(first)), int(np.ceil(last)) + 1) for m in (1, 2, 5)]
        values = [value for value in values if low * 0.999 <= value <= high * 1.001]
        ticks, names = np.log10(values).tolist(), [f"{value:g}" for value in values]
    else:
        decades = decades[:: -(-len(decades) // most_ticks)]
        ticks, names = decades.tolist(), [power_of_ten(k) for k in decades.tolist()]
    axes.set(**{f"{which}lim": (first, last)})
    getattr(axes, f"{which}axis").set_ticks(ticks, names)


def curve(
    axes: Axes,
    x: ArrayLike,
    y: ArrayLike,
    interval: tuple[ArrayLike, ArrayLike] | None = None,
    label: str | None = None,
    style: int = 0,
    log: Log = "",
    marked: bool = False,
    floor: float | None = None,
) -> None:
    """Draw one curve, with a band from the lower to the upper end of its interval.

    Args:
      axes: where to draw.
      x: `(points,)`.
      y: `(points,)`.
      interval: lower and upper ends, `(points,)` each.
      label: name in the legend.
      style: its place in the list of looks.
      log: which of "x" and "y" to draw as log10; pair it with `log_axis`. Values <= 0 leave a gap.
      marked: put a marker at every point; a lone point always has one.
      floor: with y on a log scale, where values <= 0 are marked by a hollow triangle that points down.

    >>> _, (axes,) = new_figure()
    >>> curve(axes, [1, 10], [1, 100], label="bound", log="xy")
    >>> axes.lines[0].get_ydata().tolist()
    [0.0, 2.0]
    """
    x, (colour, line, marker) = _scaled(x, "x" in log), look(style)
    if interval is not None:
        low, high = (_scaled(end, "y" in log) for end in interval)
        axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    drawn = _scaled(y, "y" in log)
    marked = marked or np.isfinite(x + drawn).sum() == 1  # a lone point has no line
    (shown,) = axes.plot(
        x, drawn, color=colour, linestyle=line, linewidth=1.8,
        marker=marker if marked else None, markersize=5, label=label,
    )  # fmt: skip
    if marked:
        _keep_whole(axes, shown)
    if floor is not None and (none := (np.asarray(y) <= 0)).any():
        axes.plot(x[none], np.full(none.sum(), math.log10(floor)), "v", color=colour, fillstyle="none", clip_on=False)


def points(
    axes: Axes,
    x: ArrayLike,
    y: ArrayLike,
    label: str | None = None,
    style: int = 0,
    log: Log = "",
    size: float = 5,
    hollow: bool = False,
) -> None:
    """Draw marks alone, with the look of a marked `curve` of the same style.

    Args:
      axes: where to draw.
      x: `(points,)`.
      y: `(points,)`.
      label: name in the legend.
      style: its place in the list of looks.
      log: as for `curve`.
      size: size of a mark, in points.
      hollow: leave the marks unfilled.

    >>> _, (axes,) = new_figure()
    >>> points(axes, [1, 10], [1, 100], log="x")
    >>> axes.lines[0].get_xdata().tolist()
    [0.0, 1.0]
    """
    colour, _, marker = look(style)
    (shown,) = axes.plot(
        _scaled(x, "x" in log), _scaled(y, "y" in log), marker, color=colour, markersize=size, label=label,
        fillstyle="none" if hollow else "full",
    )  # fmt: skip
    _keep_whole(axes, shown)


def _keep_whole(axes: Axes, marks: Line2D) -> None:
    """Show marks on the border whole, and no marks beyond it."""
    marks.set_clip_box(TransformedBbox(Bbox([[-0.03, -0.03], [1.03, 1.03]]), axes.transAxes))


def look(style: int) -> tuple[str, Any, str]:
    """The colour, line style and marker of a style; no two of 49 share both colour and marker, nor colour and line.

    >>> look(0), look(7)
    (('#0072B2', '-', 'o'), ('#0072B2', '--', 's'))
    """
    turn, place = divmod(style, len(COLOURS))
    return COLOURS[place], LINES[(place + turn) % len(LINES)], MARKERS[(place + turn) % len(MARKERS)]


def heat_map(
    axes: Axes, x: ArrayLike, y: ArrayLike, values: ArrayLike, contours: Sequence[float], log: Log = ""
) -> None:
    """Draw values on a grid as colours with labelled contours on top, so that no colour bar is needed.

    Args:
      axes: where to draw.
      x: `(columns,)`, evenly spaced on the scale that is drawn.
      y: `(rows,)`, likewise.
      values: `(rows, columns)`.
      contours: the levels to mark, ascending.
      log: which of "x" and "y" to draw as log10; pair it with `log_axis`.

    >>> _, (axes,) = new_figure()
    >>> heat_map(axes, [1, 10, 100], [0, 1], [[1, 2, 3], [2, 3, 4]], contours=[2.5], log="x")
    >>> axes.images[0].get_extent()
    [-0.5, 2.5, -0.5, 1.5]
    """
    x, y, values = _scaled(x, "x" in log), _scaled(y, "y" in log), np.asarray(values, dtype=float)
    extent = (*_edges(x), *_edges(y))
    axes.imshow(values, extent=extent, origin="lower", aspect="auto", cmap="cividis", interpolation="nearest")
    lines = axes.contour(x, y, values, levels=list(contours), colors="white", linewidths=1)
    axes.clabel(lines, fmt=lambda level: f"{level:g}", fontsize=8)


def budget_bar(axes: Axes, shares: ArrayLike, names: Sequence[str]) -> None:
    """Draw how each of several schedules spreads one budget over its steps, as one bar each.

    A segment is a step, its width the part of the budget that the step spends; a bar that ends before the line at 1
    leaves budget unspent.

    Args:
      axes: where to draw.
      shares: `(schedules, steps)`, the part of the budget spent at each step; zeros pad short schedules.
      names: one name for each schedule.

    >>> _, (axes,) = new_figure()
    >>> budget_bar(axes, [[0.5, 0.5], [0.25, 0.75]], ["uniform", "dynamic"])
    >>> [tick.get_text() for tick in axes.get_yticklabels()]
    ['uniform', 'dynamic']
    """
    shares = np.asarray(shares, dtype=float)
    for row, share in enumerate(shares):
        edges = np.concatenate([[0.0], np.cumsum(share[share > 0])])
        # Two alternating tints make single steps visible; one mesh for each bar draws 150 steps as fast as 2.
        tint = np.arange(len(edges) - 1)[None] % 2
        colour = to_rgb(COLOURS[row % len(COLOURS)])
        pale = tuple(0.55 + 0.45 * part for part in colour)
        axes.pcolormesh(edges, [row - 0.35, row + 0.35], tint, cmap=ListedColormap([colour, pale]))
    axes.axvline(1.0, color="black", linewidth=1.2)
    axes.set_xlim(0, 1.02)
    axes.set_ylim(len(shares) - 0.5, -0.5)
    axes.set_yticks(range(len(shares)), [*names])


# ---------------------------------------------------------------- texts on a picture
def footnote(figure: Figure, text: str) -> None:
    """Put a small text below the figure, for instance on gaps in the privacy accounting.

    >>> figure, _ = new_figure()
    >>> footnote(figure, "not accounted: PCA, scaling, T search")
    """
    figure.supxlabel(_wrapped(figure, text), x=0.01, ha="left", fontsize=8, color=GREY)


def headline(figure: Figure, text: str, grave: bool = True) -> None:
    """Put a text above the figure, for instance that a setting is not the paper's.

    Args:
      figure: the figure that the text is about.
      text: the text.
      grave: whether a reader may be misled without it.

    >>> figure, _ = new_figure()
    >>> headline(figure, "not the paper's setting: 2 classes (paper: 10)")
    """
    figure.suptitle(_wrapped(figure, text), x=0.01, ha="left", fontsize=8, color=RED if grave else GREY)


def stamp(axes: Axes, text: str) -> None:
    """Put a large word across the axes, for instance "MISSING".

    >>> _, (axes,) = new_figure()
    >>> stamp(axes, "MISSING")
    """
    axes.text(
        0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", rotation=18,
        fontsize=34, fontweight="bold", color=RED, alpha=0.45, zorder=10,
    )  # fmt: skip


def wipe(axes: Axes) -> None:
    """Remove the drawings from axes but leave their labels, ticks and place: half the cost of `axes.clear()`.

    >>> _, (axes,) = new_figure()
    >>> curve(axes, [1, 2], [3, 4])
    >>> wipe(axes)
    >>> len(axes.lines)
    0
    """
    for kind in ("collections", "lines", "images", "patches", "texts"):  # contours take their labels with them
        for artist in [*getattr(axes, kind)]:
            artist.remove()
    axes.containers.clear()  # containers of bars would stay in the legend
    axes.relim()


def _wrapped(figure: Figure, text: str) -> str:
    return "\n".join(textwrap.wrap(text, int(figure.get_figwidth() * 15)))


def _scaled(values: ArrayLike, log: bool) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    return np.log10(np.where(values > 0, values, np.nan)) if log else values


def _edges(centres: np.ndarray) -> tuple[float, float]:
    half = (centres[1] - centres[0]) / 2
    return float(centres[0] - half), float(centres[-1] + half)
