"""The map of n and d: who has the best order where, with borders that are exact."""

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes.theory.orders import Named, Order, log_of

_TIE = 1e-9  # of two logarithms


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
    values = np.where(values < math.log(largest) - _TIE, values, np.inf)
    least = values.min(axis=0, initial=np.inf)
    codes = np.tensordot(2 ** np.arange(len(orders)), (values <= least + _TIE) & np.isfinite(values), axes=1)
    found, places = np.unique(codes, return_inverse=True)
    named = [tuple(name for k, name in enumerate(orders) if int(code) >> k & 1) for code in found]
    return places.reshape(shape), named


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
    box, top = np.log(np.array([n, d], dtype=float)), math.log(largest)
    logs = {name: math.log(value) for name, value in given.items()} | {"num_examples": 0.0, "dim": 0.0}

    def plane(monomial: Named) -> tuple[float, float, float]:
        powers = dict(monomial)
        return log_of(monomial, logs), float(powers.get("num_examples", 0)), float(powers.get("dim", 0))

    planes = [np.array([plane(monomial) for monomial in order.monomials]) for order in orders.values()]
    lines: list[NDArray[np.float64]] = []
    for one, left in enumerate(planes):
        for two in [None, *range(one + 1, len(planes))]:
            right = np.array([[top, 0.0, 0.0]]) if two is None else planes[two]
            for p, q in itertools.product(left, right):
                if (ends := _clipped(p - q, box)) is not None:
                    lines += _parts(ends, p, [one] if two is None else [one, two], planes, top)
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
    ends: NDArray[np.float64], here: NDArray[np.float64], of: list[int], planes: list[NDArray[np.float64]], top: float
) -> list[NDArray[np.float64]]:
    """The parts of a line where these orders meet, no other one is smaller, and none but the border is vacuous."""
    first, step = ends[:, 0], ends[:, 1] - ends[:, 0]
    others = np.vstack([*(plane - here for plane in planes), *(plane - [top, 0, 0] for plane in planes)])
    with np.errstate(divide="ignore", invalid="ignore"):
        breaks = -(others @ first) / (others @ step)
    breaks = np.unique([0.0, 1.0, *breaks[(breaks > 0) & (breaks < 1)]])
    middles = first[:, None] + step[:, None] * (breaks[1:] + breaks[:-1]) / 2
    values, level = np.array([(plane @ middles).max(axis=0) for plane in planes]), here @ middles
    lead = np.where(values < top - _TIE, values, np.inf).min(axis=0)
    good = (abs(values[of] - level) < _TIE).all(axis=0) & (lead >= level - _TIE)
    if len(of) == 2:
        good &= level < top - _TIE
    found = []
    for begin, end, kept in zip(breaks, breaks[1:], good, strict=False):
        if kept and found and found[-1][1] == begin:
            found[-1][1] = end
        elif kept:
            found.append([begin, end])
    return [(first + step * np.array(pair)[:, None])[:, 1:] for pair in found]
