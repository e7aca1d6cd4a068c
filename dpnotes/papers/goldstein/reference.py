"""Kornowski, Liu and Talwar (2025), arXiv:2410.05880: one run, as one would write it on a board.

Read it first. `algorithms.py` does the same for many runs at once, with guarantees and refusals; `tests/papers/
test_reference.py` holds the two together. What begins with `private_` is known to the data holder alone; all else in a
step is released or follows from what is. A number in `printed` makes that line the paper's own, where ours differs.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Release(NamedTuple):
    """What became of the query at z_t."""

    t: int
    z: Tensor  # (d,)
    fresh: bool  # whether a period began, or an increment was asked for
    batch: int  # examples of this query
    queries: int  # losses, or gradients, of single examples that were computed
    blocks: list[tuple[int, int]]  # of the tree, whose noise is in the estimate; of Algorithm 4 none
    private_g: Tensor  # (d,), g_t
    g: Tensor  # (d,), the estimate g~_t, released
    paid: float  # zCDP of the examples of this query; infinite without noise, which lays bare those summed before, too
    left: int  # examples


class Step(NamedTuple):
    """What became of step t."""

    x: Tensor  # (d,), x_t
    Delta: Tensor  # (d,), Delta_{t+1}
    windows: int  # whole ones
    average: Tensor  # (d,), of the last of them; x_0 before
    t: int  # this and what follows is its `Release`
    z: Tensor
    fresh: bool
    batch: int
    queries: int
    blocks: list[tuple[int, int]]
    private_g: Tensor
    g: Tensor
    paid: float
    left: int


def clipped(rows: Tensor, longest: float) -> Tensor:
    """Vectors `(examples, d)`, those that are longer scaled down to `longest`.

    >>> clipped(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    lengths = rows.norm(dim=1, keepdim=True)
    return torch.where(lengths > longest, rows * (longest / lengths), rows)


def node(t, Sigma, printed=frozenset()):
    """NODE(t) of Algorithm 1: the blocks that the leaves 1 ... t fall into, first and last leaf, largest first.

    Args:
      t: leaf.
      Sigma: length of the period.
      printed: {11}: without the largest block of a period of 2^k.

    >>> node(13, 16), node(8, 8), node(8, 8, printed={11}), node(7, 8, printed={11})
    ([(1, 8), (9, 12), (13, 13)], [(1, 8)], [(1, 4), (5, 6), (7, 7)], [(1, 4), (5, 6), (7, 7)])
    """
    S, k = [], 0  # 10
    levels = (Sigma - 1).bit_length() if 11 in printed else Sigma.bit_length()  # printed: ceil(log2 Sigma)
    for level in reversed(range(levels)):  # 11
        end = k + 2**level  # 12: k'
        if end <= t:  # 13
            S, k = [*S, (k + 1, end)], end  # 14
    return S


def touched(leaf, Sigma):
    """How many of the blocks in NODE(1) ... NODE(Sigma) hold this leaf: so often its examples pay.

    >>> [touched(leaf, 8) for leaf in range(1, 9)], touched(1, 7)
    ([4, 3, 3, 2, 3, 2, 2, 1], 3)
    """
    numbers = [(2**level, math.ceil(leaf / 2**level)) for level in range(Sigma.bit_length())]
    return sum(number % 2 == 1 and number * size <= Sigma for size, number in numbers)  # an even one is never a NODE


def two_point(losses, z, places, alpha, y):
    """The estimate of each example's smoothed gradient from losses, `(examples, d)`: equation (4), which lacks `y_j`.

    >>> y = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])  # of |x|^2 / 2, along both axes
    >>> two_point(lambda at, places: at.square().sum(dim=2) / 2, torch.tensor([3.0, 1.0]), range(1), 0.5, y)
    tensor([[3., 1.]])
    """
    slopes = (losses(z + alpha * y, places) - losses(z - alpha * y, places)) * len(z) / (2 * alpha)
    return (slopes[..., None] * y).mean(dim=1)


def single_pass_from_losses(
    points, losses, n, Sigma, B1, B2, alpha, m, C1, C2, sigma, y, noise, printed=frozenset()
):  # fmt: skip
    """Algorithm 3 "Single-pass instantiation of O(z_t)".

    Args:
      points: z_1, z_2, ..., each `(d,)`; they may depend on what was yielded for those before.
      losses: from points `(examples, m, d)` and places to `(examples, m)`: the losses of the examples at these places
        of an order in which each example stands once, each at points of its own.
      n: number of examples.
      Sigma: period.
      B1: batch of a fresh estimate.
      B2: batch of an increment.
      alpha: radius, in units of length.
      m: directions of an example and point.
      C1: the longest estimate of an example, in units of loss over length: `(1 + tau) L`; not printed.
      C2: the longest increment of an example: `(1 + tau) kappa 2 D L / alpha`; not printed.
      sigma: standard deviation of each coordinate of a block's noise, in units of loss over length.
      y: from t, the number of examples, that of directions, and "sphere" or "ball" to points that are uniform there,
        `(examples, directions, d)`.
      noise: from 1, 2, ... to draws of N(0, I_d), for the blocks of the tree.
      printed: {12}: an increment's directions are in the ball of radius alpha; {14}: they are others at z_{t-1}; {18}:
        the leaf is t mod Sigma, which is none for the last of a period.

    Yields:
      A `Release`. The generator's value is why it ended.

    >>> y = lambda t, examples, number, where: torch.eye(2).expand(examples, 2, 2)
    >>> found = single_pass_from_losses(
    ...     [torch.ones(2)] * 3, lambda at, places: at.norm(dim=2), n=9, Sigma=2, B1=4, B2=1, alpha=0.1, m=2, C1=9.0,
    ...     C2=9.0, sigma=0.1, y=y, noise=lambda i: torch.ones(2),
    ... )
    >>> [(step.fresh, step.queries, step.blocks, step.left) for step in found]
    [(True, 16, [(1, 1)], 5), (False, 8, [(1, 2)], 4), (True, 16, [(1, 1)], 0)]
    """
    used, private_g, before = 0, torch.zeros(()), None
    for t, z in enumerate(points, start=1):
        p = (t - 1) % Sigma + 1  # place in the period
        fresh = p == 1  # 2: printed: t mod Sigma = 1, which never is at Sigma = 1
        batch, longest = (B1, C1) if fresh else (B2, C2)
        if used + batch > n:
            return "DATA_EXHAUSTED"  # 3, 10
        places, used = range(used, used + batch), used + batch
        if fresh:
            terms = two_point(losses, z, places, alpha, y(t, batch, m, "sphere"))  # 5, 6
            private_g = clipped(terms, longest).mean(dim=0)  # 8
        else:
            drawn = alpha * y(t, batch, 2 * m, "ball") if 12 in printed else y(t, batch, 2 * m, "sphere")  # 12
            here, there = drawn[:, :m], drawn[:, m:] if 14 in printed else drawn[:, :m]
            now = two_point(losses, z, places, alpha, here)  # 13
            then = two_point(losses, before, places, alpha, there)  # 14
            private_g = private_g + clipped(now - then, longest).mean(dim=0)  # 16
        before, blocks = z, node(t % Sigma if 18 in printed else p, Sigma)
        g = private_g + sigma * sum(noise(t - p + end) for _, end in blocks)  # 18; a block by its last leaf
        paid = touched(p, Sigma) * (2 * longest / batch / sigma) ** 2 / 2 if blocks else math.inf
        yield Release(t, z, fresh, batch, (2 if fresh else 4) * m * batch, blocks, private_g, g, paid, n - used)


def multi_pass_from_losses(points, losses, n, Sigma, alpha, m, C1, C2, sigma1, sigma2, y, noise, printed=frozenset()):
    """Algorithm 4 "Multi-pass instantiation of O(z_t)".

    Args:
      points: as of `single_pass_from_losses`, and what is not said here, too.
      losses: of all examples, the places are 0 ... n - 1.
      n: number of examples.
      Sigma: period.
      alpha: radius.
      m: directions of an example and point.
      C1: the longest estimate of an example.
      C2: the longest increment of an example.
      sigma1: standard deviation of each coordinate of the noise of a fresh estimate.
      sigma2: of an increment.
      y: directions.
      noise: from t = 1, 2, ... to a draw of N(0, I_d).
      printed: {11}: an increment's directions are in the ball of radius alpha; {13}: they are others at z_{t-1}.

    Yields:
      A `Release`, without end.

    >>> y = lambda t, examples, number, where: torch.eye(2).expand(examples, 2, 2)
    >>> found = multi_pass_from_losses(
    ...     [torch.ones(2)] * 3, lambda at, places: at.norm(dim=2), n=9, Sigma=2, alpha=0.1, m=2, C1=1.5, C2=0.1,
    ...     sigma1=0.5, sigma2=0.05, y=y, noise=lambda i: torch.ones(2),
    ... )
    >>> [(step.fresh, step.queries, round(step.paid, 3), step.left) for step in found]
    [(True, 36, 0.222, 9), (False, 72, 0.099, 9), (True, 36, 0.222, 9)]
    """
    places, g, before = range(n), torch.zeros(()), None
    for t, z in enumerate(points, start=1):
        fresh = (t - 1) % Sigma == 0  # 2: printed: t mod Sigma = 1
        longest, sigma = (C1, sigma1) if fresh else (C2, sigma2)
        if fresh:
            terms = two_point(losses, z, places, alpha, y(t, n, m, "sphere"))  # 4, 5
            private_g = clipped(terms, longest).mean(dim=0)  # 7
        else:
            drawn = alpha * y(t, n, 2 * m, "ball") if 11 in printed else y(t, n, 2 * m, "sphere")  # 11
            here, there = drawn[:, :m], drawn[:, m:] if 13 in printed else drawn[:, :m]
            now = two_point(losses, z, places, alpha, here)  # 12
            then = two_point(losses, before, places, alpha, there)  # 13
            private_g = g + clipped(now - then, longest).mean(dim=0)  # 15: on the noisy estimate
        before, g = z, private_g + sigma * noise(t)  # 8, 16
        paid = (2 * longest / n / sigma) ** 2 / 2
        yield Release(t, z, fresh, n, (2 if fresh else 4) * m * n, [], private_g, g, paid, n)


def single_pass_from_gradients(points, gradients, n, Sigma, B1, B2, m, C1, C2, sigma, y, noise, printed=frozenset()):
    """Algorithm 5 "First-order instantiation of O(z_t)".

    Args:
      points: as of `single_pass_from_losses`, and what is not said here, too.
      gradients: from points `(examples, number, d)` and places to gradients of the same shape.
      n: number of examples.
      Sigma: period; 1: without variance reduction.
      B1: batch of a fresh estimate.
      B2: batch of an increment.
      m: points of an example around z, in increments.
      C1: the longest gradient of an example, L.
      C2: the longest increment of an example, `(1 + tau) kappa 2 D L / alpha`.
      sigma: standard deviation of each coordinate of a block's noise.
      y: from t, the number of examples and that of points to points that are uniform in the ball of radius alpha.
      noise: from 1, 2, ... to draws of N(0, I_d), for the blocks of the tree.
      printed: {11}: an increment's points are others around z_{t-1}; {15}: the leaf is t mod Sigma.

    Yields:
      A `Release`. The generator's value is why it ended.

    >>> found = single_pass_from_gradients(
    ...     [torch.ones(2)] * 3, lambda at, places: at, n=9, Sigma=2, B1=4, B2=1, m=3, C1=9.0, C2=9.0, sigma=0.1,
    ...     y=lambda t, examples, number: torch.zeros(examples, number, 2), noise=lambda i: torch.ones(2),
    ... )
    >>> [(step.fresh, step.queries, step.blocks, step.left) for step in found]
    [(True, 4, [(1, 1)], 5), (False, 6, [(1, 2)], 4), (True, 4, [(1, 1)], 0)]
    """
    used, private_g, before = 0, torch.zeros(()), None
    for t, z in enumerate(points, start=1):
        p = (t - 1) % Sigma + 1  # place in the period
        fresh = p == 1  # 2: printed: t mod Sigma = 1, which never is at Sigma = 1
        batch, longest = (B1, C1) if fresh else (B2, C2)
        if used + batch > n:
            return "DATA_EXHAUSTED"  # 3, 7
        places, used = range(used, used + batch), used + batch
        if fresh:
            terms = gradients(z + y(t, batch, 1), places)[:, 0]  # 4
            private_g = clipped(terms, longest).mean(dim=0)  # 5
        else:
            drawn = y(t, batch, 2 * m)  # 9
            here, there = drawn[:, :m], drawn[:, m:] if 11 in printed else drawn[:, :m]
            now = gradients(z + here, places).mean(dim=1)  # 10
            then = gradients(before + there, places).mean(dim=1)  # 11
            private_g = private_g + clipped(now - then, longest).mean(dim=0)  # 13
        before, blocks = z, node(t % Sigma if 15 in printed else p, Sigma)
        g = private_g + sigma * sum(noise(t - p + end) for _, end in blocks)  # 15; a block by its last leaf
        paid = touched(p, Sigma) * (2 * longest / batch / sigma) ** 2 / 2 if blocks else math.inf
        yield Release(t, z, fresh, batch, batch if fresh else 2 * m * batch, blocks, private_g, g, paid, n - used)


def o2nc(oracle, x, D, eta, M, T, s, lot):
    """Algorithm 2 "Nonsmooth Nonconvex Algorithm (based on O2NC)".

    Args:
      oracle: from points to `Release`s, as the three above.
      x: `(d,)`, x_0, chosen without looking at the data.
      D: the longest move, in units of length.
      eta: step size, in units of length squared over loss.
      M: steps of a window.
      T: steps.
      s: from t to a number that is uniform in [0, 1].
      lot: from t to another one, for the choice of the window that is returned.

    Yields:
      A `Step`. The generator's value is why it ended, and the average that is returned.

    >>> def oracle(points):  # of the loss x^2 / 2, without data
    ...     return (Release(t, z, True, 1, 1, [], z, z, 0.0, 0) for t, z in enumerate(points, start=1))
    >>> steps = o2nc(oracle, torch.ones(1), D=0.25, eta=0.5, M=2, T=4, s=lambda t: 0.5, lot=lambda t: 0.1)
    >>> [(float(step.z), float(step.x), float(step.Delta), float(step.average)) for step in steps]
    [(1.0, 1.0, -0.25, 1.0), (0.875, 0.75, -0.25, 0.9375), (0.625, 0.5, -0.25, 0.9375), (0.375, 0.25, -0.25, 0.5)]
    """
    Delta, total, windows, average, chosen, z = torch.zeros_like(x), 0.0, 0, x, None, x  # 2

    def points():
        while True:
            yield z

    queries = oracle(points())
    for t in range(1, T + 1):  # 3
        z, x = x + s(t) * Delta, x + Delta  # 4, 6, 5
        last = next(queries, None)  # 7
        if last is None:
            return "DATA_EXHAUSTED", z if chosen is None else chosen  # ours: of the windows that are whole
        free = Delta - eta * last.g
        Delta = D / max(D, float(free.norm())) * free  # 8
        total = total + z
        if t % M == 0:
            windows, average, total = windows + 1, total / M, 0.0  # 12
            chosen = average if lot(t) * windows < 1 else chosen  # 14: of k windows the last, with a chance of 1 / k
        yield Step(x, Delta, windows, average, *last)
    return "FINISHED", z if chosen is None else chosen  # 15
