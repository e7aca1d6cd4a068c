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
        if (ends := _clipped(difference, box)) is not None:
            lines += _parts(ends, difference, np.vstack([every - here, limits]), codes)
    return list({tuple(line.round(9).flat): line for line in lines}.values())


def _clipped(difference: NDArray[np.float64], box: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """The ends (1, log n, log d), as columns, of the line in the box at which a difference of monomials is 0."""
    rest, *slopes = difference
    along = 0 if abs(slopes[1]) >= abs(slopes[0]) else 1  # the coordinate that varies
    a, b = slopes[along], slopes[1 - along]
    if abs(b) < 1e-12:
        return None
    low, high = box[along]
    if abs(a) > 1e-12:
        cuts = sorted(-(rest + b * edge) / a for edge in box[1 - along])
        low, high = max(low, cuts[0]), min(high, cuts[1])
    elif not box[1 - along][0] < -rest / b < box[1 - along][1]:
        return None
    if low >= high:
        return None
    ends = np.ones((3, 2))
    ends[1 + along] = low, high
    ends[2 - along] = -(rest + a * ends[1 + along]) / b
    return ends


def _parts(
    ends: NDArray[np.float64], difference: NDArray[np.float64], others: NDArray[np.float64], codes: Callable[[Any], Any]
) -> list[NDArray[np.float64]]:
    """The parts of a line with different leaders on its sides; between places where others are 0 all is the same."""
    first, step = ends[:, 0], ends[:, 1] - ends[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        breaks = -(others @ first) / (others @ step)
    breaks = np.unique([0.0, 1.0, *breaks[(breaks > TIE) & (breaks < 1 - TIE)]])
    breaks = breaks[np.diff(breaks, prepend=-1.0) > TIE]
    side = _ASIDE * np.array([0.0, *difference[1:]])[:, None] / np.hypot(*difference[1:])
    border = np.ones(len(breaks) - 1, dtype=bool)
    for share in (0.37, 0.59):  # two places: one may be on another border by chance
        places = first[:, None] + step[:, None] * (breaks[:-1] + share * np.diff(breaks))
        border &= codes(places + side) != codes(places - side)
    found = []
    for begin, end, kept in zip(breaks, breaks[1:], border, strict=False):
        if kept and found and found[-1][1] == begin:
            found[-1][1] = end
        elif kept:
            found.append([begin, end])
    return [(first + step * np.array(pair)[:, None])[:, 1:] for pair in found]
