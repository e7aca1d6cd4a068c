"""The time of a slider: kernel time from setting its value to writing the traits, relative to a bare Agg redraw.

    python benchmarks/widget.py

Both are timed in turn in one run, on the same figure. The target is a ratio of at most 2 (a bare redraw takes about 25
ms); the exit status is 1 if it is missed.
"""

import statistics
import sys
import time
from functools import partial

import numpy as np

from dpnotes.notebook import plots
from dpnotes.notebook.widgets import Explorer, log_slider, slider

LIMIT = 2.0
REPEATS = 30


def two_curves() -> Explorer:
    """Return one panel with two curves of 200 points."""

    def draw(data, axes):
        for style, name in enumerate(("sine", "cosine")):
            plots.curve(axes, data["x"], data[name], label=name, style=style)
        plots.label(axes, x="x", y="value", title=f"frequency {data['frequency']}", legend=True)

    def compute(frequency):
        x = np.linspace(0, 1, 200)
        return {"x": x, "frequency": frequency, "sine": np.sin(frequency * x), "cosine": np.cos(frequency * x)}

    control = slider("frequency", 1, 100, value=10)
    return Explorer({"frequency": control}, compute, draw, lambda data: f"Frequency {data['frequency']}.")


def bar_and_log_curve() -> Explorer:
    """Return two panels: a budget bar of 100 steps twice, and a curve on log scales."""

    def draw(data, left, right):
        plots.budget_bar(left, data["shares"], ["uniform", "dynamic"])
        plots.label(left, x="part of the budget")
        plots.curve(right, data["n"], data["y"], log="xy")
        plots.log_axis(right, "x", 1, 1e6)
        plots.log_axis(right, "y", 1e-6, 1)
        plots.label(right, x="examples", y="bound")

    def compute(kappa):
        steps = np.arange(100)
        decay = (1 - 1 / kappa) ** (-steps / 2)
        n = np.logspace(0, 6, 200)
        shares = [np.full(100, 0.01), decay / decay.sum()]
        return {"shares": shares, "n": n, "y": 1 / (1 + n / kappa)}

    control = log_slider("condition number", 2, 1000, value=10)
    return Explorer({"kappa": control}, compute, draw, lambda _: "Two bars and a curve.", widths=(3, 2))


def milliseconds(function) -> float:
    """Return the wall time of one call."""
    start = time.perf_counter()
    function()
    return 1e3 * (time.perf_counter() - start)


def main() -> int:
    """Print one line per widget; return 1 if a target is missed."""
    print(f"{'widget':<20}{'bare redraw ms':>16}{'set to traits ms':>18}{'ratio':>8}")
    worst = 0.0
    for make in (two_curves, bar_and_log_curve):
        explorer = make()
        (control,) = explorer.controls.values()
        values = [option[1] for option in control.options] if hasattr(control, "options") else range(1, 101)
        bare, full = [], []
        for repeat in range(REPEATS):
            value = values[repeat % len(values)]
            full.append(milliseconds(partial(setattr, control, "value", value)))
            bare.append(milliseconds(explorer.figure.canvas.draw))
        ratio = statistics.median(full) / statistics.median(bare)
        worst = max(worst, ratio)
        print(f"{make.__name__:<20}{statistics.median(bare):>16.1f}{statistics.median(full):>18.1f}{ratio:>8.2f}")
    print(f"{'kept' if worst <= LIMIT else 'BROKEN'}: at most {LIMIT} times a bare redraw")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
