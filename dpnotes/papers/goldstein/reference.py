"""Kornowski, Liu and Talwar (2025), arXiv:2410.05880: each algorithm for one run, in its plainest form.

Read this file first. `algorithms.py` implements the same algorithms for many runs at once, with guarantees and
refusals; `tests/papers/test_reference.py` checks that both give the same results. Values whose names begin with
`private_` are known to the data holder alone; every other value is released, given, or computed from such values.
A line number in `printed` selects the paper's version of that line where ours differs.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Release(NamedTuple):
    """The result of the query at z_t."""

    t: int  # number of the query, from 1
    z: Tensor  # (d,), where the gradient is asked
    fresh: bool  # True at the first query of a period, False for an increment
    batch: int  # examples of this query
    queries: int  # number of losses, or gradients, of single examples that were evaluated
    blocks: list[tuple[int, int]]  # blocks of the tree whose noise is in the estimate; empty for Algorithm 4
    private_g: Tensor  # (d,), g_t
    g: Tensor  # (d,), the estimate g~_t, released
    paid: float  # zCDP of the examples of this query; infinite without noise, which exposes earlier examples too
    left: int  # number of unused examples


class Step(NamedTuple):
    """The result of step t."""

    x: Tensor  # (d,), x_t
    Delta: Tensor  # (d,), Delta_{t+1}
    windows: int  # number of completed windows
    average: Tensor  # (d,), mean of the last completed window; x_0 before the first
    # those of its `Release`
    t: int
    z: Tensor
    fresh: bool
    batch: int
    queries: int
    blocks: list[tuple[int, int]]
    private_g: Tensor
    g: Tensor
    paid: float
    left: int


def clipped(private_rows: Tensor, longest: float) -> Tensor:
    """Scale down the vectors `(examples, d)` that are longer than `longest`.

    >>> clipped(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    private_lengths = private_rows.norm(dim=1, keepdim=True)
    return torch.where(private_lengths > longest, private_rows * (longest / private_lengths), private_rows)


def node(t, Sigma, printed=frozenset()):
    """Return NODE(t) of Algorithm 1: the blocks that partition the leaves 1 ... t, largest first, each (first, last).

    Args:
      t: leaf.
      Sigma: length of the period.
      printed: {11}: without the largest block of a period of length 2^k.

    >>> node(13, 16), node(8, 8), node(8, 8, printed={11}), node(7, 8, printed={11})
    ([(1, 8), (9, 12), (13, 13)], [(1, 8)], [(1, 4), (5, 6), (7, 7)], [(1, 4), (5, 6), (7, 7)])
    """
    S, k = [], 0  # 10
    levels = (Sigma - 1).bit_length() if 11 in printed else Sigma.bit_length()  # 11: printed: ceil(log2 Sigma)
    for level in reversed(range(levels)):  # 11
        end = k + 2**level  # 12: k'
        if end <= t:  # 13
            S, k = [*S, (k + 1, end)], end  # 14
    return S


def touched(leaf, Sigma):
    """Return the number of blocks in NODE(1) ... NODE(Sigma) that contain this leaf: its examples pay once for each.

    >>> [touched(leaf, 8) for leaf in range(1, 9)], touched(1, 7)
    ([4, 3, 3, 2, 3, 2, 2, 1], 3)
    """
    numbers = [(2**level, math.ceil(leaf / 2**level)) for level in range(Sigma.bit_length())]
    return sum(number % 2 == 1 and number * size <= Sigma for size, number in numbers)  # an even one is never a NODE


def two_point(losses, z, places, alpha, y):
    """Return each example's gradient estimate `(examples, d)` from losses: equation (4), with its missing y_j.

    >>> y = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])  # of |x|^2 / 2, along both axes
    >>> two_point(lambda at, places: at.square().sum(dim=2) / 2, torch.tensor([3.0, 1.0]), range(1), 0.5, y)
    tensor([[3., 1.]])
    """
    private_slopes = (losses(z + alpha * y, places) - losses(z - alpha * y, places)) * len(z) / (2 * alpha)
    return (private_slopes[..., None] * y).mean(dim=1)


def single_pass_from_losses(
    points, losses, n, Sigma, B1, B2, alpha, m, C1, C2, sigma, y, noise, printed=frozenset()
):  # fmt: skip
    """Algorithm 3 "Single-pass instantiation of O(z_t)".

    Args:
      points: z_1, z_2, ..., each `(d,)`; they may depend on the previously yielded values.
      losses: from points `(examples, m, d)` and positions to `(examples, m)`: the losses of the examples at these
        positions, each at its own points. The positions refer to an order that contains each example once.
      n: number of examples.
      Sigma: length of a period, in queries.
      B1: batch size of a fresh estimate.
      B2: batch size of an increment.
      alpha: smoothing radius, in units of length.
      m: number of directions per example and point.
      C1: clipping norm of an example's estimate, in units of loss over length: `(1 + tau) L`; the paper does not clip.
      C2: clipping norm of an example's increment: `(1 + tau) kappa 2 D L / alpha`; the paper does not clip.
      sigma: standard deviation of each coordinate of a block's noise, in units of loss over length.
      y: from t, the number of examples, the number of directions, and "sphere" or "ball" to uniform points there,
        `(examples, directions, d)`.
      noise: from 1, 2, ... to draws of N(0, I_d), for the blocks of the tree.
      printed: {12}: the directions of an increment are drawn in the ball of radius alpha; {14}: z_{t-1} gets other
        directions than z_t; {18}: the leaf is t mod Sigma, which leaves the last query of a period without a leaf.

    Yields:
      A `Release` each time. The generator's return value is the reason it ended.

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
            private_terms = two_point(losses, z, places, alpha, y(t, batch, m, "sphere"))  # 5, 6
            private_g = clipped(private_terms, longest).mean(dim=0)  # 8
        else:
            drawn = alpha * y(t, batch, 2 * m, "ball") if 12 in printed else y(t, batch, 2 * m, "sphere")  # 12
            here, there = drawn[:, :m], drawn[:, m:] if 14 in printed else drawn[:, :m]  # 14
            private_now = two_point(losses, z, places, alpha, here)  # 13
            private_then = two_point(losses, before, places, alpha, there)  # 14
            private_g = private_g + clipped(private_now - private_then, longest).mean(dim=0)  # 16
        before, blocks = z, node(t % Sigma if 18 in printed else p, Sigma)  # 18: the leaf
        g = private_g + sigma * sum(noise(t - p + end) for _, end in blocks)  # 18; a block by its last leaf
        paid = touched(p, Sigma) * (2 * longest / batch / sigma) ** 2 / 2 if blocks else math.inf
        yield Release(t, z, fresh, batch, (2 if fresh else 4) * m * batch, blocks, private_g, g, paid, n - used)


def multi_pass_from_losses(points, losses, n, Sigma, alpha, m, C1, C2, sigma1, sigma2, y, noise, printed=frozenset()):
    """Algorithm 4 "Multi-pass instantiation of O(z_t)".

    Args:
      points: as in `single_pass_from_losses`, as are the arguments that are not explained here.
      losses: the losses of all examples, at the positions 0 ... n - 1.
      n: number of examples.
      Sigma: length of a period, in queries.
      alpha: smoothing radius, in units of length.
      m: number of directions per example and point.
      C1: clipping norm of an example's estimate, in units of loss over length.
      C2: clipping norm of an example's increment, in units of loss over length.
      sigma1: standard deviation of each coordinate of the noise of a fresh estimate.
      sigma2: standard deviation of each coordinate of the noise of an increment.
      y: directions, as in `single_pass_from_losses`.
      noise: from t = 1, 2, ... to a draw of N(0, I_d).
      printed: {11}: the directions of an increment are drawn in the ball of radius alpha; {13}: z_{t-1} gets other
        directions than z_t.

    Yields:
      A `Release` each time, without end.

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
            private_terms = two_point(losses, z, places, alpha, y(t, n, m, "sphere"))  # 4, 5
            private_g = clipped(private_terms, longest).mean(dim=0)  # 7
        else:
            drawn = alpha * y(t, n, 2 * m, "ball") if 11 in printed else y(t, n, 2 * m, "sphere")  # 11
            here, there = drawn[:, :m], drawn[:, m:] if 13 in printed else drawn[:, :m]  # 13
            private_now = two_point(losses, z, places, alpha, here)  # 12
            private_then = two_point(losses, before, places, alpha, there)  # 13
            private_g = g + clipped(private_now - private_then, longest).mean(dim=0)  # 15: on the noisy estimate
        before, g = z, private_g + sigma * noise(t)  # 8, 16
        paid = (2 * longest / n / sigma) ** 2 / 2
        yield Release(t, z, fresh, n, (2 if fresh else 4) * m * n, [], private_g, g, paid, n)


def single_pass_from_gradients(points, gradients, n, Sigma, B1, B2, m, C1, C2, sigma, y, noise, printed=frozenset()):
    """Algorithm 5 "First-order instantiation of O(z_t)".

    Args:
      points: as in `single_pass_from_losses`, as are the arguments that are not explained here.
      gradients: from points `(examples, number, d)` and positions to gradients of the same shape.
      n: number of examples.
      Sigma: length of a period, in queries; 1 means no variance reduction.
      B1: batch size of a fresh estimate.
      B2: batch size of an increment.
      m: number of points around z per example of an increment.
      C1: clipping norm of an example's gradient, L.
      C2: clipping norm of an example's increment, `(1 + tau) kappa 2 D L / alpha`.
      sigma: standard deviation of each coordinate of a block's noise.
      y: from t, the number of examples and the number of points to uniform points in the ball of radius alpha.
      noise: from 1, 2, ... to draws of N(0, I_d), for the blocks of the tree.
      printed: {11}: an increment uses other points around z_{t-1} than around z_t; {15}: the leaf is t mod Sigma.

    Yields:
      A `Release` each time. The generator's return value is the reason it ended.

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
            private_terms = gradients(z + y(t, batch, 1), places)[:, 0]  # 4
            private_g = clipped(private_terms, longest).mean(dim=0)  # 5
        else:
            drawn = y(t, batch, 2 * m)  # 9
            here, there = drawn[:, :m], drawn[:, m:] if 11 in printed else drawn[:, :m]  # 11
            private_now = gradients(z + here, places).mean(dim=1)  # 10
            private_then = gradients(before + there, places).mean(dim=1)  # 11
            private_g = private_g + clipped(private_now - private_then, longest).mean(dim=0)  # 13
        before, blocks = z, node(t % Sigma if 15 in printed else p, Sigma)  # 15: the leaf
        g = private_g + sigma * sum(noise(t - p + end) for _, end in blocks)  # 15; a block by its last leaf
        paid = touched(p, Sigma) * (2 * longest / batch / sigma) ** 2 / 2 if blocks else math.inf
        yield Release(t, z, fresh, batch, batch if fresh else 2 * m * batch, blocks, private_g, g, paid, n - used)


def o2nc(oracle, x, D, eta, M, T, s, lot):
    """Algorithm 2 "Nonsmooth Nonconvex Algorithm (based on O2NC)".

    Args:
      oracle: from points to `Release`s, as the three oracles above.
      x: `(d,)`, x_0, chosen without looking at the data.
      D: largest length of a move, in units of length.
      eta: step size, in units of length squared over loss.
      M: number of steps of a window.
      T: number of steps.
      s: from t to a uniform random number in [0, 1].
      lot: from t to another one, for choosing the window whose mean is returned.

    Yields:
      A `Step` each time. The generator's return value is the reason it ended, and the returned average.

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
