"""The map of n and d, and its borders."""

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from counting import python_calls

from dpnotes.atlas.borders import borders, regions
from dpnotes.atlas.question import ask, for_orders, limit
from dpnotes.atlas.takeovers import orders_of
from dpnotes.notebook.algorithm_map import algorithm_map, mapped
from dpnotes.theory.calculators import Measure
from dpnotes.theory.orders import Order

ONES = {"lipschitz": 1.0, "epsilon": 1.0}


def order(**powers: str) -> Order:
    named = {"lipschitz": Fraction(1), **{name: Fraction(power) for name, power in powers.items()}}
    return Order((tuple(sorted(named.items())),))


ROOT = order(num_examples="-1/2")
NOISE = order(num_examples="-1", dim="1/2")


def test_the_map_finds_the_crossover():
    """n^(-1/2) against sqrt(d)/n: equal at n = d."""
    shown = algorithm_map({"printed": {"one": ROOT, "other": NOISE}}, "accuracy")
    assert shown.data is not None
    shown.controls["d"].value = 1e4
    (line,) = [line for line in shown.data["borders"] if line[0][0] != line[1][0]]
    assert np.allclose(line[:, 0], line[:, 1]) and np.allclose(np.exp(line[:, 0]), [100, 1e8])
    shown.controls["n"].value = 1e8
    assert shown.data["best"] == ["other"] and "Smallest: <b>other</b>" in shown.readout.value
    shown.controls["n"].value = 1e3
    assert shown.data["best"] == ["one"] and "you are here" in {t.get_text() for t in shown.axes[0].texts}
    assert sum(shown.data["share"].values()) == pytest.approx(1)


def test_equal_orders_share_the_map_and_vacuous_ones_have_none():
    found = mapped({"one": ROOT, "same": ROOT}, {**ONES, "num_examples": 1e6, "dim": 1.0})
    assert found["best"] == ["one", "same"] and found["share"] == {"one = same": 1.0}
    useless = algorithm_map({"printed": {"one": order(num_examples="1")}}, "accuracy")
    assert useless.data is not None and useless.data["best"] == [] and "none says anything" in useless.readout.value


@pytest.mark.parametrize(
    "constants",
    [
        {"epsilon": 0.05},
        {"epsilon": 2.0},
        {"epsilon": 2.0, "lipschitz": 0.4, "hessian_lipschitz": 30.0, "distance": 1e-3},  # conditions end on the map
        {"epsilon": 1.0, "initial_gap": 0.01, "hessian_lipschitz": 3.0, "radius": 0.01, "distance": 1e-5},
    ],
)
@pytest.mark.parametrize("measure", [Measure.SECOND_ORDER, Measure.GOLDSTEIN, Measure.GOLDSTEIN_EMPIRICAL])
def test_borders_are_where_regions_end(measure: Measure, constants: dict[str, Any]):
    question = ask(n=60_000, d=800_000, delta=1e-5, **constants)
    given, largest = for_orders(question.given), limit(measure, question.given)[0]
    orders = orders_of(question, measure)
    box = (1e2, 1e12), (1.0, 1e8)
    lines = borders(orders, given, largest, *box)
    assert lines
    for line in lines:  # on both sides of the middle of a border the best differ
        (x, y), (dx, dy) = line.mean(axis=0), np.diff(line, axis=0)[0]
        normal = np.array([-dy, dx]) / math.hypot(dx, dy) * 1e-4
        sides = []
        for sign in (1, -1):
            at = np.exp(np.array([x, y]) + sign * normal)
            places, named = regions(orders, given, largest, at[:1], at[1:])
            sides.append(named[places[0, 0]])
        assert sides[0] != sides[1], (line, sides)
    # Along a row, every change of the best is at a border.
    size, dims = np.geomspace(1.1e2, 0.9e12, 4001), np.geomspace(1.3, 0.8e8, 7)
    places, _ = regions(orders, given, largest, size, dims)
    changes = 0
    for row, d in zip(places, np.log(dims), strict=True):
        for k in np.flatnonzero(row[1:] != row[:-1]):
            low, high = np.log(size[k : k + 2])
            crossing = [np.interp(d, *line[line[:, 1].argsort()].T[::-1]) for line in lines
                        if line[:, 1].min() <= d <= line[:, 1].max()]  # fmt: skip
            assert any(low - 1e-9 <= place <= high + 1e-9 for place in crossing), (d, low, high)
            changes += 1
    assert changes >= 3


@pytest.mark.slow
def test_a_redraw_of_the_map_is_quick():
    shown = algorithm_map({"printed": {"one": ROOT, "other": NOISE}}, "accuracy")
    for value in (100.0, 1e4, 1e6, 1e5, 1e3):
        calls = python_calls(partial(setattr, shown.controls["d"], "value", value))
        assert 1000 < calls.total() < 100_000 and calls["sympy"] < 100, calls
