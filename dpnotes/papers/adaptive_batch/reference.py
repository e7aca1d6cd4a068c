"""Liu and Talwar (2024), arXiv:2410.07502v1: each algorithm for one run, in its plainest form.

Read this file first. `algorithms.py` implements the same algorithms for many runs at once, with guarantees and
refusals; `tests/papers/test_reference.py` checks that both give the same results. Values whose names begin with
`private_` are known to the data holder alone; every other value is released, given, or computed from such values.
A line number in `printed` selects the paper's version of that line where ours differs.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Sum(NamedTuple):
    """The result of releasing the sum of the first t terms."""

    t: int
    blocks: list[tuple[int, int]]  # first and last leaf of each block in NODE(t)
    private_sum: Tensor  # (d,)
    private_noise: Tensor  # (d,), TREE(t): with it and X_t anyone could compute the exact sum
    released: Tensor  # (d,), X_t
    paid: float  # zCDP of the examples of term t; infinite without noise
    left: int  # number of terms that the tree can still take


class Step(NamedTuple):
    """The result of step t."""

    t: int  # number of the step, from 0
    fresh: bool  # True if O1 was called, False if O2
    batch: int  # examples of this step
    blocks: list[tuple[int, int]]  # blocks of the tree whose noise is in the estimate
    private_grad: Tensor  # (d,), grad_t
    estimate: Tensor  # (d,), grad_t + TREE(t), released
    saddle: bool  # whether x_t counts as a saddle point
    x: Tensor  # (d,), x_{t+1}
    drift: float  # drift_{t+1}, in units of loss over length
    paid: float  # zCDP of the examples of this step, one of which is replaced; infinite without noise
    left: int  # number of unused examples


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
      Sigma: length of the longest sum.
      printed: {12}: without the largest block; {14}: the condition `k' <= k`, which never holds.

    >>> node(13, 16), node(8, 8), node(8, 8, printed={12}), node(13, 16, printed={14}), node(14, 13)[-1]
    ([(1, 8), (9, 12), (13, 13)], [(1, 8)], [(1, 4), (5, 6), (7, 7)], [], (13, 13))
    """
    S, k = [], 0  # 11
    levels = (Sigma - 1).bit_length() if 12 in printed else Sigma.bit_length()  # 12: printed: ceil(log2 Sigma)
    for level in reversed(range(levels)):  # 12
        end = k + 2**level  # 13: k'
        if end <= (k if 14 in printed else min(t, Sigma)):  # 14
            S, k = [*S, (k + 1, end)], end  # 15
    return S  # ours: printed without


def held(leaf, Sigma, printed=frozenset()):
    """The last leaves of the blocks in NODE(1) ... NODE(Sigma) that contain this leaf; no two of them end at one leaf.

    >>> sorted(held(1, 8)), sorted(held(6, 8)), sorted(held(1, 8, printed={12}))
    ([1, 2, 4, 8], [6, 8], [1, 2, 4])
    """
    levels = (Sigma - 1).bit_length() if 12 in printed else Sigma.bit_length()  # 12
    numbers = [(2**level, math.ceil(leaf / 2**level)) for level in range(levels)]
    return {number * size for size, number in numbers if number % 2 == 1 and number * size <= Sigma}  # even: no NODE


def touched(leaf, Sigma, printed=frozenset()):
    """Return the number of blocks that contain this leaf, if no sum is begun anew: its examples pay once for each.

    >>> [touched(leaf, 8) for leaf in range(1, 9)], touched(1, 7)
    ([4, 3, 3, 2, 3, 2, 2, 1], 3)
    """
    return len(held(leaf, Sigma, printed))


def shifted(leaf, Sigma):
    """The same, where the sum may be begun anew at a later leaf while the tree goes on: at the worst leaf.

    The sum is shifted from this leaf until that one, so that blocks that hold one of the two are.

    >>> [shifted(leaf, 8) for leaf in range(1, 9)], touched(8, 16), shifted(8, 16)
    ([5, 4, 4, 3, 3, 2, 2, 1], 2, 4)
    """
    return max(len(held(leaf, Sigma) ^ held(later, Sigma)) for later in range(leaf + 1, Sigma + 2))  # the last: never


def hidden(leaf, blocks):
    """Return whether a block of NODE(t) contains the leaf; if not, its term is first released without new noise.

    >>> hidden(8, node(8, 8)), hidden(8, node(8, 8, printed={12})), hidden(0, node(0, 8)), hidden(17, node(17, 8))
    (True, False, False, False)
    """
    return any(u <= leaf <= v for u, v in blocks)


def tree_mechanism(terms, Sigma, sigma, s, noise, printed=frozenset()):
    """Algorithm 1 "Tree Mechanism", with the prefix sums of Theorem 2.2.

    Args:
      terms: at most Sigma vectors `(d,)`; no example contributes to two terms.
      Sigma: length of the longest sum.
      sigma: standard deviation of each coordinate of a block's noise, in the units of a term.
      s: sensitivity of a term when an example is replaced.
      noise: from the last leaf of a block to a draw of N(0, I_d); no two blocks in use end at the same leaf.
      printed: as for `node`.

    Yields:
      A `Sum` each time. The generator's return value is the reason it ended, and the last released sum.

    >>> sums = tree_mechanism(torch.ones(4, 1), 4, 1.0, 1.0, lambda end: torch.tensor([10.0**-end]))
    >>> [(each.blocks, round(float(each.released), 4), each.paid) for each in sums][2:]
    [([(1, 2), (3, 3)], 3.011, 1.0), ([(1, 4)], 4.0001, 0.5)]
    """
    private_zeta, private_sum, released = {}, 0.0, None
    for t, private_term in enumerate(terms, start=1):  # 4
        blocks = node(t, Sigma, printed)
        private_zeta |= {(u, v): sigma * noise(v) for u, v in blocks if (u, v) not in private_zeta}  # 3: at first use
        private_noise = sum((private_zeta[block] for block in blocks), torch.zeros_like(private_term))  # 5: TREE(t)
        private_sum = private_sum + private_term
        released = private_sum + private_noise
        paid = touched(t, Sigma, printed) * (s / sigma) ** 2 / 2 if hidden(t, blocks) else math.inf
        yield Sum(t, blocks, private_sum, private_noise, released, paid, Sigma - t)
    return "FINISHED", released  # 7


def stochastic_spider(
    gradients, x, n, T, b, c, kappa, sigma, Sigma, G, M, threshold, Gamma, zeta, noise, kick, printed=frozenset()
):
    """Algorithm 2 "Stochastic Spider", with the oracles of Algorithm 3.

    Args:
      gradients: from x and positions to `(positions, d)`: the gradients of the examples at these positions, in units of
        loss over length. The positions refer to an order that contains each example once.
      x: `(d,)`, x_0, chosen without looking at the data.
      n: number of examples.
      T: number of steps.
      b: batch size of O1. Batch sizes are rounded up to a whole number.
      c: the batch size of O2 is b_t = max(c |grad~_{t-1}|, 1), with c = `max(sqrt(d) / (alpha epsilon), kappa /
        alpha^2)` in Lemma 3.8. The paper prints |grad~_t|, which is not known before b_t is chosen.
      kappa: drift at which O1 is called, in units of loss over length.
      sigma: standard deviation of each coordinate of a block's noise, in units of loss over length.
      Sigma: length of the longest sum of the tree; a new tree is begun after it.
      G: clipping norm of the gradients, in units of loss over length.
      M: smoothness, in units of loss over length squared. The step size is 1 / M.
      threshold: `gamma log^3(B M d / (rho omega))`, in units of loss over length.
      Gamma: number of steps until the next perturbation.
      zeta: approximate length of a perturbation, in units of loss over length.
      noise: from 1, 2, ... to draws of N(0, I_d), for the blocks of the tree.
      kick: from t to a draw of N(0, I_d), for the perturbation.
      printed: {3}: more than b examples must be left, whatever the batch size; {9}: the last direction is compared with
        the threshold, not the estimate at x_t; {10}: the drift is reset although O1 was not called; {13}: one tree
        serves the whole run. Step 0 and the steps beyond Sigma then have no leaf and no noise, so that `paid` is
        infinite. An example leaves the sum when O1 begins it anew, which shifts blocks again: `paid` is for the worst
        such step.

    Ours throughout: gradients longer than G are scaled down, and so are differences longer than M |x_t - x_{t-1}|. The
    paper assumes that none is. Neighbours replace one example.

    Yields:
      A `Step` each time. The generator's return value is the reason it ended, and the last point; the theorem is about
      the list of all points.

    >>> data = torch.tensor([[0.1], [-0.1]]).repeat(20, 1)
    >>> found = stochastic_spider(
    ...     lambda x, z: x.sin() + data[z.start : z.stop], torch.ones(1), n=40, T=4, b=10, c=10.0, kappa=1.0, sigma=0.1,
    ...     Sigma=4, G=1.0, M=2.0, threshold=0.1, Gamma=3, zeta=0.1, noise=lambda i: torch.ones(1), kick=torch.ones,
    ... )
    >>> [(step.fresh, step.batch, step.blocks, step.left) for step in found]
    [(True, 10, [(1, 1)], 30), (False, 10, [(1, 2)], 20), (True, 10, [(1, 1)], 10), (False, 4, [(1, 2)], 6)]
    """
    drift, frozen, used, tau, before, private_grad, last = kappa, 1, 0, 0, x, 0.0, math.inf  # 2
    for t in range(T):  # 3
        fresh = bool(drift >= kappa) or t - tau == Sigma  # 4; ours: or the tree is full
        longest = G if fresh else M * (x - before).norm()  # of an example's term
        batch = math.ceil(b if fresh else max(c * longest, 1))
        if n - used <= b if 3 in printed else n - used < batch:  # 3
            return "DATA_EXHAUSTED", x
        z, used = range(used, used + batch), used + batch
        if fresh:
            private_grad, drift, tau = clipped(gradients(x, z), longest).mean(dim=0), 0.0, t  # 5: O1; a new tree
        else:
            private_grad = private_grad + clipped(gradients(x, z) - gradients(before, z), longest).mean(dim=0)  # 7: O2
        root, leaf = (0, t) if 13 in printed else (tau, t - tau + 1)  # 13: where the tree begins, and the leaf
        blocks = node(leaf, Sigma)
        estimate = private_grad + sigma * sum(noise(root + end) for _, end in blocks)  # 13: TREE; by its last leaf
        saddle = bool((last if 9 in printed else estimate.norm()) <= threshold) and frozen <= 0  # 9
        frozen = Gamma if saddle else frozen - 1  # 5, 7, 10
        drift = 0.0 if saddle and 10 in printed else drift  # 10
        direction = estimate + zeta / math.sqrt(len(x)) * kick(t) if saddle else estimate  # 11: no data in the kick
        before, x, last = x, x - direction / M, direction.norm()  # 15
        drift = drift + M * (x - before).norm()  # 15: |direction|
        shifts = (shifted if 13 in printed else touched)(leaf, Sigma) if hidden(leaf, blocks) else math.inf  # 13
        paid = float(shifts * (2 * longest / batch / sigma) ** 2 / 2)  # an example that is replaced moves by 2
        yield Step(t, fresh, batch, blocks, private_grad, estimate, saddle, x, float(drift), paid, n - used)
    return "FINISHED", x  # 17: printed: x_1 ... x_T, which were yielded
