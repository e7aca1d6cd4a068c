"""The map of n and d: who has the best order where, with borders that are exact."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes.theory.orders import ROUNDING, TIE, Named, Order, log_of

_ASIDE = 1e-6  # how far beside a border its sides are compared, in logarithms


def regions(
    orders: Mapping[str, Order], given: Mapping[str, float], largest: float, n: Any, d: Any
) -> tuple[NDArray[np.int64], list[tuple[str, ...]]]:
    """Return which orders are the smallest at each point of a grid.

    Args:
      orders: by name.
      given: the other numbers by common name.
      largest: from here on an order is vacuous.
      n: numbers of examples, `(columns,)`.
      d: dimensions, `(rows,)`.

    Returns:
      A `(rows, columns)` array of places in a list, and the list: names that tie, none where every order is vacuous.

    >>> from dpnotes.papers import claim
    >>> rate = Order.of(claim("goldstein.own.generalisation").statement, "ell_R")
    >>> regions({"deviation": rate}, {"lipschitz": 1.0}, 1.0, [10, 1000], [100])
    (array([[0, 1]]), [(), ('deviation',)])
    """
    logs = {name: math.log(value) for name, value in given.items()}
    logs |= {"num_examples": np.log(n)[None, :], "dim": np.log(d)[:, None]}
    shape = len(np.atleast_1d(d)), len(np.atleast_1d(n))
    values = np.array([np.broadcast_to(order.log(logs), shape) for order in orders.values()]).reshape(-1, *shape)
    found, places = np.unique(_codes(values, math.log(largest)), return_inverse=True)
    named = [tuple(name for k, name in enumerate(orders) if int(code) >> k & 1) for code in found]
    return places.reshape(shape), named


def _codes(values: NDArray[np.float64], top: float) -> NDArray[np.int64]:
    """The set of the smallest logarithms below the top, as a number; `values` has one array for each order."""
    values = np.where(values < top - TIE, values, np.inf)
    best = (values <= values.min(axis=0, initial=np.inf) + TIE) & np.isfinite(values)
    return np.tensordot(2 ** np.arange(len(values)), best, axes=1)


def borders(
    orders: Mapping[str, Order], given: Mapping[str, float], largest: float, n: Any, d: Any
) -> list[NDArray[np.float64]]:
    """Return the borders of `regions` as straight lines in logarithms.

    Args:
      orders: by name.
      given: the other numbers by common name.
      largest: from here on an order is vacuous.
      n: least and largest number of examples, a pair.
      d: least and largest dimension, a pair.

    Returns:
      Lines, each `(2, 2)`: the two ends, as natural logarithms of n and d.

    >>> from dpnotes.papers import claim
    >>> rate = Order.of(claim("goldstein.own.generalisation").statement, "ell_R")
    >>> (line,) = borders({"deviation": rate}, {"lipschitz": 1.0}, 1.0, (1, 1e6), (1, 1e3))
    >>> np.exp(line).round(6).tolist()
    [[1.0, 1.0], [1000.0, 1000.0]]
    """
    box, top = np.log(np.array([n, d], dtype=float)), np.array([[math.log(largest), 0.0, 0.0]])
    logs = {name: math.log(value) for name, value in given.items()} | {"num_examples": 0.0, "dim": 0.0}

    def planes(monomials: Iterable[Named]) -> NDArray[np.float64]:
        """Monomials as rows: the logarithm at n = d = 1, and the powers of n and d."""
        rows = [
            [log_of(m, logs), *(float(dict(m).get(name, 0)) for name in ("num_examples", "dim"))] for m in monomials
        ]
        return np.array(rows).reshape(-1, 3)

    parts = [(planes(order.monomials), planes(order.limits)) for order in orders.values()]
    pairs = [(p, p - top[0]) for accuracy, _ in parts for p in accuracy]
    pairs += [(p, limit) for accuracy, limits in parts for p, limit in itertools.product(accuracy, limits)]
    for (one, _), (two, _) in itertools.combinations(parts, 2):
        pairs += [(p, p - q) for p, q in itertools.product(one, two)]
    every = np.vstack([top, *(accuracy for accuracy, _ in parts)])
    limits = np.vstack([np.empty((0, 3)), *(limits for _, limits in parts)])

    def codes(points: NDArray[np.float64]) -> NDArray[np.int64]:
        values = [
            np.where((limits @ points <= ROUNDING).all(axis=0), (accuracy @ points).max(axis=0), np.inf)
            for accuracy, limits in parts
        ]
        return _codes(np.array(values), top[0, 0])

    lines: list[NDArray[np.float64]] = []
    for here, difference in pairs:
        lines += _parts(difference, np.vstack([every - here, limits]), box, codes)
    return list({tuple(line.round(9).flat): line for line in lines}.values())


def _parts(
    difference: NDArray[np.float64], others: NDArray[np.float64], box: NDArray[np.float64], codes: Callable[[Any], Any]
) -> list[NDArray[np.float64]]:
    """The parts of the line where a difference of monomials is 0 that have different leaders on their two sides.

    Between places where one of the others is 0 nothing changes.
    """
    if not (length := np.hypot(*difference[1:])):
        return []
    rest, *normal = difference / (length if (difference[2], -difference[1]) > (0, 0) else -length)  # from left to right
    normal = np.array([0.0, *normal])
    point, step = np.array([1.0, 0.0, 0.0]) - rest * normal, np.array([0.0, normal[2], -normal[1]])
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = (box.T - point[1:]) / step[1:]
        low, high = np.nanmax(ends.min(axis=0)), np.nanmin(ends.max(axis=0))
        breaks = -(others @ point) / (others @ step)
    if not low < high or (abs((point + step * (low + high) / 2)[1:, None] - box) < TIE).any():
        return []  # it is outside of the box, or along its edge
    breaks = np.unique([low, high, *breaks[(breaks > low + TIE) & (breaks < high - TIE)]])
    breaks = breaks[np.diff(breaks, prepend=-np.inf) > TIE]
    border = np.ones(len(breaks) - 1, dtype=bool)
    for share in (0.37, 0.59):  # two places: one may be on another border by chance
        places = point[:, None] + step[:, None] * (breaks[:-1] + share * np.diff(breaks))
        aside = _ASIDE * normal[:, None]
        border &= codes(places + aside) != codes(places - aside)
    edges = np.flatnonzero(np.diff([False, *border, False])).reshape(-1, 2)  # where runs of borders begin and end
    return [(point + step * breaks[pair][:, None])[:, 1:] for pair in edges]
