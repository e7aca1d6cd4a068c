"""Pictures and tables of privacy: accountants and noise over steps, trade-off curves, scores of an attack, the museum.

Nothing here computes privacy: the notebook's cells compute the numbers, and this module shows them.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from dpnotes.notebook import plots
from dpnotes.notebook.teaching import Table


def draw_curves(
    axes: Axes,
    x: ArrayLike,
    curves: Mapping[str, ArrayLike],
    x_label: str,
    y_label: str,
    log: Literal["", "x", "y", "xy"] = "xy",
    legend: bool = True,
) -> None:
    """Draw several named curves over the same x values, on axes whose limits hold all of them.

    Args:
      axes: where to draw.
      x: `(points,)`.
      curves: name to `(points,)`, in a fixed order: a curve keeps its colour. A curve has a gap where it is nan.
      x_label: the label below the axes.
      y_label: the label beside the axes.
      log: which axes are logarithmic; their data must be above 0.
      legend: whether to name the curves.

    >>> _, (axes,) = plots.new_figure()
    >>> draw_curves(axes, [1, 10], {"tree": [1, 2], "independent": [1, 4]}, "step", "noise")
    >>> len(axes.lines)
    2
    """
    for style, (name, y) in enumerate(curves.items()):
        plots.curve(axes, x, y, label=name, style=style, log=log)
    for which, values in (("x", np.asarray(x)), ("y", np.concatenate([*map(np.atleast_1d, curves.values())]))):
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        if which in log:
            plots.log_axis(axes, which, low * 0.9, max(high, low * 1.1) * 1.1)  # type: ignore[arg-type]
        else:
            axes.set(**{f"{which}lim": (low, max(high, low + 1)) if which == "x" else (0, 1.08 * high)})
    plots.label(axes, x=x_label, y=y_label, legend=legend)


def trade_off_picture(risks: Mapping[str, Any]) -> plots.Picture:
    """A picture of trade-off curves: the least share of misses of an attack at each share of false alarms.

    A mark shows where both are equal: the errors of the best guess at even odds, which the legend gives in percent.

    Args:
      risks: by name, objects of `privacy.risk` with `missed(shares)`, `right` and `percentage`.

    >>> trade_off_picture({})
    Trade-off curves: the least share of misses of any attack over its share of false alarms. A blind guess is the
    straight line from 1 to 0; the further a curve is below it, the more an attack can tell. At even odds a guess is:
    """
    figure, (axes,) = plots.new_figure(size=(7.2, 3.8))
    shares = np.concatenate([np.geomspace(1e-6, 0.1, 60), np.linspace(0.1, 1, 90)])
    readings = {name: f"{name}: right at most {risk.percentage}" for name, risk in risks.items()}
    description = (
        "Trade-off curves: the least share of misses of any attack over its share of false alarms. A blind guess is "
        "the straight line from 1 to 0; the further a curve is below it, the more an attack can tell. At even odds a "
        f"guess is: {'; '.join(readings.values())}"
    )
    for style, (name, risk) in enumerate(risks.items()):
        plots.curve(axes, shares, risk.missed(shares), label=readings[name], style=style)
        plots.points(axes, [1 - risk.right], [1 - risk.right], style=style)
    axes.plot([0, 1], [1, 0], color=plots.GREY, linewidth=1, linestyle=":", label="blind guess: right 50%")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    title = "least errors of any attack; marks: the best guess at even odds"
    plots.label(axes, "false alarms", "misses", title, legend=True)
    plots.make_room(figure)
    return plots.Picture(figure, description)


def draw_scores(axes: Axes, included: ArrayLike, without: ArrayLike, threshold: float) -> None:
    """Draw the attack's scores on both data sets as histograms, and the threshold above which it says "included".

    Args:
      axes: where to draw.
      included: scores of the runs with the example, `(runs,)`.
      without: scores of the runs without it.
      threshold: the event is a score above it.

    >>> _, (axes,) = plots.new_figure()
    >>> draw_scores(axes, [1.0, 2.0], [0.0, 0.5], threshold=0.7)
    >>> len(axes.patches), len(axes.lines)
    (2, 1)
    """
    included, without = np.asarray(included, dtype=float), np.asarray(without, dtype=float)
    both = np.concatenate([included, without])
    low, high = min(both.min(), threshold), max(both.max(), threshold)
    margin = 0.05 * (high - low) or 1.0
    edges = np.linspace(low - margin, high + margin, 80)
    densities = [np.histogram(scores, edges, density=True)[0] for scores in (included, without)]
    for density, colour, name in zip(densities, plots.COLOURS, ("with the example", "without it"), strict=False):
        axes.stairs(density, edges, fill=True, color=colour, alpha=0.45, label=name)
    axes.axvline(threshold, color="black", linestyle="--", linewidth=1.4, label="threshold")
    axes.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.05 * np.max(densities)))
    plots.label(axes, x="score", y="density", title="what the attacker sees", legend=True)


def draw_verdict(axes: Axes, claim: float, exact: float, bound: float) -> None:
    """Draw the claimed epsilon, the exact one and the audit's bound as three bars; an infinite bar leaves the axes.

    Args:
      axes: where to draw.
      claim: the claimed epsilon, above 0.
      exact: epsilon from the densities, may be infinite.
      bound: the audit's lower bound.

    >>> _, (axes,) = plots.new_figure()
    >>> draw_verdict(axes, claim=4.377, exact=math.inf, bound=4.6)
    >>> [text.get_text() for text in axes.texts]
    ['4.38', '∞', '4.6']
    """
    largest = 1.6 * max([claim, bound] + [exact] * math.isfinite(exact))
    for row, style, value in ((2, 1, claim), (1, 2, exact), (0, 0, bound)):
        axes.barh(row, min(value, 2 * largest), color=plots.COLOURS[style], height=0.6)
        text = "∞" if math.isinf(value) else f"{value:.3g}"
        axes.text(min(value, 0.88 * largest) + 0.02 * largest, row, text, va="center", fontsize=9)
    axes.axvline(claim, color=plots.COLOURS[1], linewidth=1.4, linestyle="--")
    axes.set(xlim=(0, largest), ylim=(-0.6, 2.6))
    axes.set_yticks(range(3), ["audit", "exact", "claim"])
    plots.label(axes, x="ε", title="claimed, exact, audited")


def verdict_in_words(claim: float, exact: float, bound: float, runs: int, level: float) -> str:
    """The claimed, exact and audited epsilon in a sentence or two, for a readout.

    Args:
      claim: the claimed epsilon.
      exact: epsilon from the densities.
      bound: the audit's lower bound.
      runs: the number of runs on each data set.
      level: the error level of the bound.

    >>> verdict_in_words(4.377, math.inf, 4.6, 540, 0.01)
    'Claimed: ε = 4.377. The densities give ε = ∞, the audit of 2 × 540 runs ε ≥ 4.600 with confidence 99%: the claim is
    refuted.'
    """
    given = "∞" if math.isinf(exact) else f"{exact:.3f}"
    verdict = "the claim is refuted" if bound > claim else "the claim stands"
    return (
        f"Claimed: ε = {claim:.3f}. The densities give ε = {given}, the audit of 2 × {runs:,} runs ε ≥ {bound:.3f} "
        f"with confidence {100 * (1 - level):g}%: {verdict}."
    )


def museum_table(exhibits: Sequence[Any], audit: Mapping[str, tuple[float, float]]) -> Table:
    """A table of the museum: each line, its replacement, and the epsilon of both variants beside the claim.

    Args:
      exhibits: objects with `name`, `line`, `instead`, `claim`, `exact(broken)` and `design` (threshold, runs, power).
      audit: by name, the lower bounds of the broken and of the correct variant.

    >>> museum_table([], {}).columns[:3]
    ['mistake', 'correct line, and the broken one', 'δ']
    """
    columns = ["mistake", "correct line, and the broken one", "δ", "claimed ε", "exact ε, broken (correct)"]
    columns += ["audited ε ≥, broken (correct)", "runs a side", "power"]
    rows = []
    for exhibit in exhibits:
        _, runs, power = exhibit.design
        exact, right = exhibit.exact(True), exhibit.exact(False)
        bound, correct = audit[exhibit.name]
        rows.append(
            [
                exhibit.name,
                [exhibit.line, exhibit.instead],
                f"{exhibit.claim.delta:g}",
                f"{exhibit.claim.epsilon:.3f}",
                f"{'∞' if math.isinf(exact) else f'{exact:.3f}'} ({right:.3f})",
                f"{bound:.3f} ({correct:.3f})",
                f"{runs:,}",
                f"{math.floor(1000 * power) / 1000:.3f}",
            ]
        )
    return Table(columns, rows)


def wild_table(exhibits: Sequence[Any], audit: Mapping[str, tuple[float, float]]) -> Table:
    """A table of bugs in the wild: library, dates, the claimed and the exact epsilon of our excerpt, the audit's bound.

    Args:
      exhibits: objects with `name`, `claim`, `exact(broken)` and `source`.
      audit: by name, the lower bounds of the broken and of the correct variant.

    >>> wild_table([], {}).columns[:3]
    ['library', 'what happened', 'opened']
    """
    columns = ["library", "what happened", "opened", "mended", "claimed ε", "exact ε", "audited ε ≥ (correct)", "audit"]
    rows = []
    for exhibit in exhibits:
        source, (bound, correct) = exhibit.source, audit[exhibit.name]
        exact = exhibit.exact(True)
        rows.append(
            [
                source.repository,
                exhibit.name,
                source.opened,
                source.mended.split(",")[0] or "open",
                f"{exhibit.claim.epsilon:.2f}",
                "∞" if math.isinf(exact) else f"{exact:.3g}",
                f"{bound:.2f} ({correct:.2f})",
                "caught" if bound > exhibit.claim.epsilon else "finds nothing",
                " ".join(source.urls),
            ]
        )
    return Table([*columns, "thread"], rows)
