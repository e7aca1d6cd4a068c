"""Avdiukhin, Dinitz, Fan and Yaroslavtsev (2024), arXiv:2410.06878: one run, as one would write it on a board.

Read it first. `algorithms.py` does the same for many runs at once, with guarantees and refusals; `tests/papers/
test_reference.py` holds the two together. What begins with `private_` is known to the data holder alone; all else in a
step is released or follows from what is. A number in `printed` makes that line the paper's own, where ours differs.
The paper numbers no lines; we count those in the loop.
"""

import math
from typing import NamedTuple

from torch import Tensor


class Step(NamedTuple):
    """What became of step t."""

    t: int
    private_batch: Tensor  # who was sampled: what sampling gains rests on nobody learning it
    private_longer: int  # how many of their gradients are longer than C
    private_mean: Tensor  # (d,)
    g: Tensor  # (d,), released
    x: Tensor  # (d,), x_{t+1}
    paid: float  # zCDP of this release, before what sampling gains
    left: float  # zCDP of those to come


class Answer(NamedTuple):
    """What became of question i."""

    i: int
    private_value: float  # f_i
    private_threshold: float  # T'
    yes: bool  # released
    paid: float  # zCDP: the first question pays for all
    left: float  # zCDP


def clipped_noisy_sgd(gradients, x, minibatch, B, T, C, Delta, eta, noise, moves=2.0, printed=frozenset()):
    """Algorithm 1 "Differentially private Clipped SGD".

    Args:
      gradients: from x and examples to `(examples, d)`, a row an example, in units of loss over length.
      x: `(d,)`, x_0, chosen without looking at the data.
      minibatch: from t to the examples of B_t.
      B: batch size; of Poisson batches the expected one.
      T: number of steps.
      C: clipping threshold, in units of loss over length.
      Delta: standard deviation of each coordinate of the noise, in units of loss over length.
      eta: step size, in units of length squared over loss.
      noise: from t to a draw of N(0, I_d).
      moves: how far a neighbour moves the sum, over C: 2 if an example is replaced, 1 if one is put to zero (left
        out of the sum, while B stays).
      printed: {4}: the average is over the batch's own size, which of a Poisson batch is no public number.

    Yields:
      A `Step`. The generator's value is why it ended, and x_T.

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
        rows = gradients(x, private_batch)
        lengths = rows.norm(dim=1, keepdim=True)
        rows = rows / (lengths / C).clamp_min(1)  # 2
        private_mean = rows.sum(dim=0) / (len(rows) if 4 in printed else B)
        g = private_mean + Delta * noise(t)  # 3
        x = x - eta * g  # 4
        yield Step(t, private_batch, int((lengths > C).sum()), private_mean, g, x, rho, rho * (T - 1 - t))
    return "FINISHED", x


def noisy_sgd(gradients, x, minibatch, B, T, C, Delta, eta, noise, moves=2.0, printed=frozenset()):
    """Algorithm 2 "Differentially private SGD without clipping".

    Delta was chosen for a C that no gradient may exceed. Nothing enforces that: it is counted, and `paid` is what a
    release cost if none did.

    Args and yields:
      As for `clipped_noisy_sgd`; `printed` is {3}, the same.

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
        rows = gradients(x, private_batch)
        private_longer = int((rows.norm(dim=1) > C).sum())  # ours: the presumption, looked at
        private_mean = rows.sum(dim=0) / (len(rows) if 3 in printed else B)
        g = private_mean + Delta * noise(t)  # 2
        x = x - eta * g  # 3
        yield Step(t, private_batch, private_longer, private_mean, g, x, rho, rho * (T - 1 - t))
    return "FINISHED", x


def above_threshold(values, T, D, epsilon, laplace):
    """Algorithm 1 "AboveThreshold" of Dwork and Roth (2014), doi:10.1561/0400000042, Section 3.6, printed for D = 1.

    Args:
      values: f_1, f_2, ..., which no neighbour moves by more than D.
      T: threshold, in the units of a value.
      D: sensitivity, in the units of a value.
      epsilon: of all answers together.
      laplace: from a purpose, "threshold" or "question", and a number to a draw of Lap(1).

    Yields:
      An `Answer`. The generator's value is why it ended, and the place of the yes, if there was one.

    >>> [answer.yes for answer in above_threshold([0, 1, 9, 9], 3, 1, 50, lambda purpose, i: 0.5)]
    [False, False, True]
    """
    rho = epsilon**2 / 2
    private_threshold = T + 2 * D / epsilon * laplace("threshold", 0)  # 1: drawn once, and a secret
    for i, private_value in enumerate(values):  # 2
        nu = 4 * D / epsilon * laplace("question", i)  # 3
        yes = private_value + nu >= private_threshold  # 4, 5
        yield Answer(i, private_value, private_threshold, yes, 0.0 if i else rho, 0.0)
        if yes:
            return "FINISHED", i  # 4: halt
    return "FINISHED", None


def select_stationary_point(
    points, norm, eigenvalue, epsilon, alpha, rho, C, L, n, k, beta, laplace, moves=2.0, printed=frozenset()
):
    """Section 3.4: the first of some released points that is, up to noise, a second-order stationary point.

    Both questions of the paper are one, the smaller margin over its sensitivity, which is how AboveThreshold pays for
    the yes alone.

    Args:
      points: `(d,)` each, at most k, drawn at random from the released iterates.
      norm: from a point to |grad f|, over all data, in units of loss over length.
      eigenvalue: from a point to the smallest eigenvalue of the Hessian, in units of loss over length squared.
      epsilon: of the search.
      alpha: accuracy, in units of loss over length.
      rho: Hessian-Lipschitz constant, in units of loss over length cubed.
      C: the longest gradient of an example.
      L: smoothness of every example.
      n: number of examples.
      k: number of candidates that the slack is for.
      beta: probability that an answer is further off than the slack.
      laplace: as for `above_threshold`.
      moves: how far a neighbour moves the mean, over C / n: 2 if an example is replaced, 1 if one is put to zero (a
        mean over the others moves by 2, too).
      printed: {1}: two questions a point, with the noises Lap(C / (n epsilon)) and Lap(L / (n epsilon)) of numbers that
        are published once, and none on the thresholds alpha and -sqrt(rho alpha); `paid` is infinite, as no bound on
        the number of answers is known.

    Yields:
      An `Answer`. The generator's value is why it ended, and which point is published.

    >>> found = select_stationary_point(
    ...     [0.5, 0.0, 0.3], abs, lambda x: 1.0, 1.0, 0.01, 1.0, 1.0, 1.0, 10**6, 3, 0.05, lambda purpose, i: 0.0
    ... )  # of the loss x^2 / 2
    >>> [answer.yes for answer in found]
    [False, True]
    """
    slack = 8 * (math.log(k) + math.log(2 / beta)) / epsilon  # of AboveThreshold, Theorem 3.24 of Dwork and Roth
    of_norm, of_eigenvalue = moves * C / n, moves * L / n  # how far a neighbour moves each

    def margin(x):
        small = (alpha + slack * of_norm - norm(x)) / of_norm
        convex = (eigenvalue(x) + math.sqrt(rho * alpha) + slack * of_eigenvalue) / of_eigenvalue
        return min(small, convex)  # at least 0: both are so

    if 1 not in printed:
        return (yield from above_threshold(map(margin, points), 0.0, 1.0, epsilon, laplace))
    for i, x in enumerate(points):
        length = norm(x) + C / (n * epsilon) * laplace("question", 2 * i)
        least = eigenvalue(x) + L / (n * epsilon) * laplace("question", 2 * i + 1)
        yes = length <= alpha and least >= -math.sqrt(rho * alpha)
        yield Answer(i, norm(x), alpha, yes, math.inf, 0.0)
        if yes:
            return "FINISHED", i
    return "FINISHED", None
