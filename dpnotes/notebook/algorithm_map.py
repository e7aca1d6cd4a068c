"""The map of n and d: who has the smallest order where, with exact borders, and orders along n beside it."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import ipywidgets
import numpy as np
from matplotlib.colors import ListedColormap

from dpnotes.atlas.borders import borders, regions
from dpnotes.notebook import plots
from dpnotes.notebook.widgets import Explorer, log_slider
from dpnotes.theory.orders import UNITS, Order

_TINTS = ("#f6e8a6", "#9ecae1", "#fdc9a2", "#d9d2e9", "#a8ddb5", "#c7e9f1", "#f4cccc", "#e3c4de", "#ffe0b3", "#cfe8cf")
N, D = (1e2, 1e12), (1.0, 1e8)
# The grid avoids round numbers, so that no point lies on a border by accident and looks like a tie.
_N, _D = 1.0017 * np.logspace(2, 12, 151), 1.0013 * np.logspace(0, 8, 121)


def mapped(orders: Mapping[str, Order], given: Mapping[str, float], largest: float = 1.0) -> dict[str, Any]:
    """Return the data of a map: values here, leaders, shares of the map, borders, and curves over n.

    Args:
      orders: by name.
      given: numbers by common name, with n and d of the marked point.
      largest: from here on an order is vacuous.

    >>> from dpnotes.papers import claim
    >>> from dpnotes.theory.methods import order
    >>> plain = {"plain": order(claim("goldstein.own.plain_multi"))}
    >>> ones = dict.fromkeys(("lipschitz", "initial_gap", "radius", "epsilon"), 1.0)
    >>> mapped(plain, {**ones, "num_examples": 1e6, "dim": 1e4})["best"]
    ['plain']
    """
    here = {name: order(given) for name, order in orders.items()}
    places, named = regions(orders, given, largest, _N, _D)
    informative = [value for value in here.values() if value < largest]
    best = [name for name, value in here.items() if informative and value <= min(informative) * (1 + 1e-9)]
    counts = np.bincount(places.reshape(-1), minlength=len(named))
    total = sum(count for count, names in zip(counts, named, strict=True) if names)
    share = {" = ".join(names): float(count / total) for count, names in zip(counts, named, strict=True) if names}
    curves = {name: order({**given, "num_examples": _N}) for name, order in orders.items()}
    lines = borders(orders, given, largest, N, D)
    return {"given": given, "here": here, "best": best, "share": share, "curves": curves,
            "places": places, "named": named, "borders": lines}  # fmt: skip


def algorithm_map(
    readings: Mapping[str, Mapping[str, Order]], subject: str, given: Mapping[str, float] | None = None
) -> Explorer:
    """A map with sliders for epsilon, d and n, for orders of one quantity, which is vacuous from 1 on.

    Args:
      readings: reading ("printed", "corrected", ...) to the orders by name.
      subject: the quantity that the orders bound, in one word.
      given: the other numbers by common name; 1 for those that are not given.

    Returns:
      The widget; its `.data` is that of `mapped`.
    """
    others = dict.fromkeys(UNITS, 1.0) | dict(given or {})

    def compute(epsilon: float, d: float, n: float, reading: str) -> dict[str, Any]:
        found = mapped(readings[reading], {**others, "epsilon": epsilon, "dim": d, "num_examples": n})
        return {**found, "reading": reading}

    return Explorer(
        controls={
            "epsilon": log_slider("privacy loss epsilon", 1e-3, 10, value=1.0, per_decade=4),
            "d": log_slider("dimension d", *D, value=1e3, per_decade=2),
            "n": log_slider("examples n", *N, value=1e6, per_decade=2),
            "reading": ipywidgets.Dropdown(options=[*readings], description="rates"),
        },
        compute=compute,
        draw=partial(draw_map, subject),
        describe=lambda data: described(data, subject),
        widths=(1, 1),
        size=(9.6, 4.4),
        columns=2,
    )


def draw_map(subject: str, data: Mapping[str, Any], area: Any, over_n: Any) -> None:
    """Draw the data of `mapped` on two axes."""
    given, named = data["given"], data["named"]
    tints = [_TINTS[place % len(_TINTS)] if names else "#ededed" for place, names in enumerate(named)]
    ends = (*np.log10(N), *np.log10(D))
    area.imshow(data["places"], extent=ends, origin="lower", aspect="auto", vmin=-0.5, vmax=len(named) - 0.5,
                cmap=ListedColormap(tints), interpolation="nearest")  # fmt: skip
    for line in data["borders"]:
        area.plot(*(line.T / np.log(10)), color="black", linewidth=1.1)
    _name_regions(area, data["places"], named)
    x, y = np.log10(given["num_examples"]), np.log10(given["dim"])
    area.plot([x], [y], marker="*", markersize=14, color="black", markeredgecolor="white", zorder=6)
    area.annotate("you are here", (x, y), (6, 6), textcoords="offset points", fontsize=8, zorder=6)
    plots.log_axis(area, "x", *N)
    plots.log_axis(area, "y", *D)
    plots.label(area, x="examples n", y="dimension d", title=f"smallest {subject}, {data['reading']}")
    for style, (name, heights) in enumerate(data["curves"].items()):
        plots.curve(over_n, _N, heights, label=name, style=style, log="xy")
    over_n.axvline(x, color=plots.GREY, linewidth=0.8)
    plots.log_axis(over_n, "x", *N)
    plots.log_axis(over_n, "y", 1e-6, 10.0)
    plots.label(over_n, x="examples n", title=f"over n at d = {given['dim']:g}")
    over_n.legend(frameon=False, fontsize=8, loc="lower left")


def _name_regions(area: Any, places: np.ndarray, named: Sequence[Sequence[str]]) -> None:
    """Write the leaders into their regions, in the row where a region is widest; none where the words do not fit."""
    for place, leaders in enumerate(named):
        words = "\n= ".join(leaders) or "no order says anything"
        lines = words.split("\n")
        if found := room(places == place, 2 * max(map(len, lines)) + 4, 6 * len(lines)):
            row, column = found
            area.text(np.log10(_N[column]), np.log10(_D[row]), words, ha="center", va="center", fontsize=8)


def room(mask: np.ndarray, width: int, height: int) -> tuple[int, int] | None:
    """Return the middle of a rectangle of cells inside a mask, in the row where the mask is widest; None without one.

    >>> mask = np.zeros((5, 9), bool)
    >>> mask[1:4, 2:] = True
    >>> room(mask, width=4, height=3), room(mask, width=4, height=5)
    ((2, 5), None)
    """
    tall = np.asarray(np.lib.stride_tricks.sliding_window_view(mask, height, axis=0).all(axis=-1))
    best = (width - 1, 0, 0)
    for row, line in enumerate(tall):
        edges = np.flatnonzero(np.diff([0, *line, 0]))
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            best = max(best, (int(end - begin), row + height // 2, int(begin + end) // 2), key=lambda found: found[0])
    return best[1:] if best[0] >= width else None


def described(data: Mapping[str, Any], subject: str) -> str:
    """Return the values at the star, and the shares of the map, in words."""
    given = data["given"]
    values = ", ".join(f"{name} {value:.3g}" for name, value in data["here"].items() if np.isfinite(value))
    vacuous = " None is below its limit: with these constants none says anything." if not data["best"] else ""
    largest = sorted(data["share"].items(), key=lambda item: -item[1])
    share = ", ".join(f"{name} {100 * part:.0f}%" for name, part in largest if part >= 0.005)
    lines = [
        f"<b>At the star</b> (n = {given['num_examples']:g}, d = {given['dim']:g}, ε = {given['epsilon']:g}), "
        f"{subject}: {values}. Smallest: <b>{' = '.join(data['best']) or 'none'}</b>.{vacuous}",
        f"<b>Smallest on the map</b>, where some order is informative: {share or 'nowhere'}.",
    ]
    return "".join(f'<div style="line-height: 1.6">{line}</div>' for line in lines)
