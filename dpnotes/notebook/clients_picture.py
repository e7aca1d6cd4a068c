"""Pictures of federated clients: where noise is added, who must be trusted, who sees what, and what clients send."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from numpy.typing import ArrayLike

from dpnotes.notebook import plots

TRUSTED, GUARDED, LOOKS = "#FFE3B3", "#CFE8F7", "#F6B48A"  # black on each is 10:1 and more
STATIONS = ("a person", "a client", "the server", "the public")
# The name of a trust model, the number of stations that see an example without noise, and the noise of a mean.
MODELS = (("local", 1, "2Gz / √(mb)"), ("inter-client", 2, "2Gz / (√m b)"), ("central", 3, "2Gz / (mb)"))


def _box(axes: Axes, x: float, y: float, width: float, height: float, text: str, colour: str) -> None:
    corner = (x - width / 2, y - height / 2)
    shape = FancyBboxPatch(corner, width, height, boxstyle="round,pad=0,rounding_size=0.12", facecolor=colour)
    shape.set_edgecolor(plots.GREY)
    axes.add_patch(shape)
    axes.text(x, y, text, ha="center", va="center", fontsize=9)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str = plots.GREY) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 1.4})


def draw_models(axes: Axes) -> None:
    """Draw local, inter-client and central privacy as three chains: who sees bare examples, and where noise is added.

    >>> _, (axes,) = plots.new_figure()
    >>> draw_models(axes)
    >>> len(axes.patches), [text.get_text() for text in axes.texts].count("+ noise")
    (12, 3)
    """
    places = (1.85, 3.55, 5.25, 6.95)
    axes.text(8.0, 3.55, "noise of a mean\nof mb gradients", va="center", fontsize=9)
    for row, (name, bare, noise) in enumerate(MODELS):
        y = 2.75 - row
        axes.text(0.0, y, name, va="center", fontsize=9, fontweight="bold")
        for place, (x, station) in enumerate(zip(places, STATIONS, strict=True)):
            _box(axes, x, y, 0.95, 0.5, station, TRUSTED if place < bare else GUARDED)
            if place:
                _arrow(axes, (places[place - 1] + 0.5, y), (x - 0.5, y))
            if place == bare:
                axes.text(x - 0.85, y + 0.12, "+ noise", ha="center", va="bottom", fontsize=8.5, color=plots.RED)
        axes.text(8.0, y, noise, va="center", fontsize=9.5)
    axes.set_xlim(0, 9.4)
    axes.set_ylim(0.35, 3.85)
    axes.set_axis_off()


def draw_who_sees(axes: Axes, num_clients: int, others: int, server: bool) -> None:
    """Draw client j, the other clients, the server and the public; parties that work together against j are marked.

    Args:
      axes: where to draw.
      num_clients: from 2 to 10.
      others: the number of other clients that look, less than `num_clients`.
      server: whether the server looks.

    >>> _, (axes,) = plots.new_figure()
    >>> draw_who_sees(axes, 8, 3, server=False)
    >>> from matplotlib.colors import to_hex
    >>> [to_hex(box.get_facecolor()).upper() for box in axes.patches].count(LOOKS)
    4
    """
    heights = np.linspace(3.6, 0.2, num_clients)
    for place, y in enumerate(heights):
        looks = place > num_clients - 1 - others
        name = "client j" if place == 0 else "looks" if looks else "a client"
        _box(axes, 0.9, y, 1.3, 0.36, name, TRUSTED if place == 0 else LOOKS if looks else GUARDED)
        seen = looks or server
        _arrow(axes, (1.6, y), (3.3, 1.9 + 0.25 * (y - 1.9)), plots.COLOURS[1] if seen else plots.GREY)
    _box(axes, 4.0, 1.9, 1.3, 1.2, "the server,\nlooks" if server else "the server", LOOKS if server else GUARDED)
    _arrow(axes, (4.7, 1.9), (5.8, 1.9), plots.COLOURS[1])
    _box(axes, 6.5, 1.9, 1.3, 1.2, "the points:\neverybody", LOOKS)
    axes.text(1.7, 3.72, "mean + noise of j", fontsize=8.5, va="bottom", color="black")
    axes.set_xlim(0.1, 7.3)
    axes.set_ylim(-0.1, 4.1)
    axes.set_axis_off()


def draw_messages(axes: Axes, place: ArrayLike, messages: ArrayLike, mean: ArrayLike, gradient: ArrayLike) -> None:
    """Draw the steps along clients' messages as arrows, with the steps along their mean and along the true gradient.

    Args:
      axes: where to draw, over level lines.
      place: `(2,)`, the point of the gradients.
      messages: `(clients, 2)`, the gradients that were sent, drawn reversed; at most eight, evenly chosen, are drawn.
      mean: `(2,)`, the mean that the server follows.
      gradient: `(2,)`, the gradient of the mean of all clients' functions.

    >>> _, (axes,) = plots.new_figure()
    >>> draw_messages(axes, [0, 0], [[1, 0], [0, 1]], [0.5, 0.5], [0.4, 0.6])
    >>> [kind.get_label() for kind in axes.collections]
    ['2 of 2 clients', 'their mean', 'the gradient of F']
    """
    messages = np.asarray(messages, dtype=float)
    chosen = messages[np.linspace(0, len(messages), min(8, len(messages)), endpoint=False).astype(int)]
    kinds = (
        (chosen, f"{len(chosen)} of {len(messages)} clients", plots.COLOURS[4], 0.006),
        (np.asarray(mean, dtype=float)[None], "their mean", plots.COLOURS[1], 0.014),
        (np.asarray(gradient, dtype=float)[None], "the gradient of F", "white", 0.006),
    )
    x, y = np.asarray(place, dtype=float)
    for order, (arrows, name, colour, width) in enumerate(kinds):
        axes.quiver(
            np.full(len(arrows), x), np.full(len(arrows), y), *(-arrows.T), angles="xy", scale_units="xy",
            scale=1, color=colour, width=width, edgecolor="black", linewidth=0.4, label=name, zorder=4 + order,
        )  # fmt: skip
