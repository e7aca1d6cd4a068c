"""Avdiukhin, Dinitz, Fan and Yaroslavtsev (2024), arXiv:2410.06878: each algorithm for one run, in its plainest form.

Read this file first. `algorithms.py` implements the same algorithms for many runs at once, with guarantees and
refusals; `tests/papers/test_reference.py` checks that both give the same results. Values whose names begin with
`private_` are known to the data holder alone; every other value is released, given, or computed from such values.
A line number in `printed` selects the paper's version of that line where ours differs. The paper numbers no lines; the
numbers here count the lines inside the loop.
"""

import math
from typing import NamedTuple

from torch import Tensor


class Step(NamedTuple):
    """The result of step t."""

    t: int  # number of the step, from 0
    private_batch: Tensor  # indices of the sampled examples; amplification by sampling needs them to stay secret
    private_longer: int  # number of their gradients that are longer than C
    private_mean: Tensor  # (d,), sum of the clipped gradients over B
    g: Tensor  # (d,), released
    x: Tensor  # (d,), x_{t+1}
    paid: float  # zCDP of this release, without amplification by sampling
    left: float  # zCDP of the remaining releases


class Answer(NamedTuple):
    """The result of question i."""

    i: int
    private_value: float  # f_i
    private_threshold: float  # T'
    yes: bool  # released
    paid: float  # zCDP; the first question pays for all
    left: float  # zCDP that remains to be paid


def clipped_noisy_sgd(gradients, x, minibatch, B, T, C, Delta, eta, noise, moves=2.0, printed=frozenset()):
    """Algorithm 1 "Differentially private Clipped SGD".

    Args:
      gradients: from x and examples to `(examples, d)`, one row per example, in units of loss over length.
      x: `(d,)`, x_0, chosen without looking at the data.
      minibatch: from t to the examples of B_t.
      B: batch size; for Poisson batches the expected batch size.
      T: number of steps.
      C: clipping threshold, in units of loss over length.
      Delta: standard deviation of each coordinate of the noise, in units of loss over length.
      eta: step size, in units of length squared over loss.
      noise: from t to a draw of N(0, I_d).
      moves: sensitivity of the sum divided by C: 2 if an example is replaced, 1 if one is zeroed out (left out of the
        sum, while B stays).
      printed: {4}: the average divides by the actual batch size, which is not public for a Poisson batch.

    Yields:
      A `Step` each time. The generator's return value is the reason it ended, and x_T.

    >>> import torch
    >>> data, draws = torch.tensor([[3.0], [1.0], [0.0]]), torch.tensor([[0.5], [-0.5]])
    >>> batches = [torch.tensor([0, 1]), torch.tensor([1, 2])]
    >>> descent = (lambda x, i: x - data[i], torch.zeros(1), lambda t: batches[t], 2, 2)
    >>> steps = clipped_noisy_sgd(*descent, C=2.0, Delta=1.0, eta=0.1, noise=lambda t: draws[t])
    >>> [(step.t, step.private_longer, step.left, round(float(step.g), 3)) for step in steps]
    [(0, 1, 2.0, -1.0), (1, 0, 0.0, -0.9)]
    """
    rho = (moves * C / B / Delta) ** 2 / 2
    for t in range(T):
        private_batch = minibatch(t)  # 1
        private_rows = gradients(x, private_batch)
        private_lengths = private_rows.norm(dim=1, keepdim=True)
        private_rows = private_rows / (private_lengths / C).clamp_min(1)  # 2
        private_mean = private_rows.sum(dim=0) / (len(private_rows) if 4 in printed else B)  # 4: the average
        g = private_mean + Delta * noise(t)  # 3
        x = x - eta * g  # 4
        private_longer = int((private_lengths > C).sum())
        yield Step(t, private_batch, private_longer, private_mean, g, x, rho, rho * (T - 1 - t))
    return "FINISHED", x


def noisy_sgd(gradients, x, minibatch, B, T, C, Delta, eta, noise, moves=2.0, printed=frozenset()):
    """Algorithm 2 "Differentially private SGD without clipping".

    Delta was chosen under the assumption that no gradient is longer than C. Nothing enforces this assumption:
    violations are counted, and `paid` is the cost of a release if there are none.

    Args and yields:
      As for `clipped_noisy_sgd`; `printed` is {3}, with the meaning of its {4}.

    >>> import torch
    >>> data, draws = torch.tensor([[3.0], [1.0]]), torch.tensor([[0.5]])
    >>> descent = (lambda x, i: x - data[i], torch.zeros(1), lambda t: torch.tensor([0, 1]), 2, 1)
    >>> steps = noisy_sgd(*descent, C=2.0, Delta=1.0, eta=0.1, noise=lambda t: draws[t])
    >>> [(step.private_longer, float(step.g)) for step in steps]
    [(1, -1.5)]
    """
    rho = (moves * C / B / Delta) ** 2 / 2
    for t in range(T):
        private_batch = minibatch(t)  # 1
        private_rows = gradients(x, private_batch)
        private_longer = int((private_rows.norm(dim=1) > C).sum())  # ours: the presumption, looked at
        private_mean = private_rows.sum(dim=0) / (len(private_rows) if 3 in printed else B)  # 3: the average
        g = private_mean + Delta * noise(t)  # 2
        x = x - eta * g  # 3
        yield Step(t, private_batch, private_longer, private_mean, g, x, rho, rho * (T - 1 - t))
    return "FINISHED", x


def above_threshold(values, T, D, epsilon, laplace):
    """Algorithm 1 "AboveThreshold" of Dwork and Roth (2014), doi:10.1561/0400000042, Section 3.6, printed for D = 1.

    Args:
      values: f_1, f_2, ..., each with sensitivity at most D.
      T: threshold, in the units of the values.
      D: sensitivity, in the units of the values.
      epsilon: privacy parameter of all answers together.
      laplace: from a purpose, "threshold" or "question", and a number to a draw of Lap(1).

    Yields:
      An `Answer` each time. The generator's return value is the reason it ended, and the index of the first yes, or
      None.

    >>> [answer.yes for answer in above_threshold([0, 1, 9, 9], 3, 1, 50, lambda purpose, i: 0.5)]
    [False, False, True]
    """
    rho = epsilon**2 / 2
    private_threshold = T + 2 * D / epsilon * laplace("threshold", 0)  # 1: drawn once, and a secret
    for i, private_value in enumerate(values):  # 2
        private_nu = 4 * D / epsilon * laplace("question", i)  # 3
        yes = private_value + private_nu >= private_threshold  # 4, 5
        yield Answer(i, private_value, private_threshold, yes, 0.0 if i else rho, 0.0)
        if yes:
            return "FINISHED", i  # 4: halt
    return "FINISHED", None


def select_stationary_point(
    points, norm, eigenvalue, epsilon, alpha, rho, C, L, n, k, beta, laplace, moves=2.0, printed=frozenset()
):
    """Section 3.4: return the first released point that is, up to noise, a second-order stationary point.

    The paper asks two questions per point. Here they are a single one, about the smaller of the two margins in units of
    its sensitivity, because AboveThreshold then pays for a single yes.

    Args:
      points: at most k, each `(d,)`, drawn at random from the released iterates.
      norm: from a point to |grad f| over all data, in units of loss over length.
      eigenvalue: from a point to the smallest eigenvalue of the Hessian, in units of loss over length squared.
      epsilon: privacy parameter of the whole search.
      alpha: accuracy, in units of loss over length.
      rho: Hessian-Lipschitz constant, in units of loss over length cubed.
      C: bound on the norm of an example's gradient.
      L: smoothness of every example's loss.
      n: number of examples.
      k: number of candidates, for which the slack is computed.
      beta: probability that the error of some answer exceeds the slack.
      laplace: as for `above_threshold`.
      moves: sensitivity of the mean divided by C / n: 2 if an example is replaced, 1 if one is zeroed out (for a mean
        over the remaining examples it would be 2, too).
      printed: {1}: two questions per point, with the noise Lap(C / (n epsilon)) and Lap(L / (n epsilon)), which
        suffices to publish one number once, and no noise on the thresholds alpha and -sqrt(rho alpha); `paid` is
        infinite, because the number of answers is not bounded.

    Yields:
      An `Answer` each time. The generator's return value is the reason it ended, and the index of the published point.

    >>> found = select_stationary_point(
    ...     [0.5, 0.0, 0.3], abs, lambda x: 1.0, 1.0, 0.01, 1.0, 1.0, 1.0, 10**6, 3, 0.05, lambda purpose, i: 0.0
    ... )  # of the loss x^2 / 2
    >>> [answer.yes for answer in found]
    [False, True]
    """
    slack = 8 * (math.log(k) + math.log(2 / beta)) / epsilon  # of AboveThreshold, Theorem 3.24 of Dwork and Roth
    of_norm, of_eigenvalue = moves * C / n, moves * L / n  # how far a neighbour moves each

    def margin(x):
        private_small = (alpha + slack * of_norm - norm(x)) / of_norm
        private_convex = (eigenvalue(x) + math.sqrt(rho * alpha) + slack * of_eigenvalue) / of_eigenvalue
        return min(private_small, private_convex)  # at least 0: both are so

    if 1 not in printed:  # 1
        return (yield from above_threshold(map(margin, points), 0.0, 1.0, epsilon, laplace))
    for i, x in enumerate(points):
        length = norm(x) + C / (n * epsilon) * laplace("question", 2 * i)
        least = eigenvalue(x) + L / (n * epsilon) * laplace("question", 2 * i + 1)
        yes = length <= alpha and least >= -math.sqrt(rho * alpha)
        yield Answer(i, norm(x), alpha, yes, math.inf, 0.0)
        if yes:
            return "FINISHED", i
    return "FINISHED", None
