"""The algorithms of "Private Stochastic Optimization for Achieving ... Stationary Points", each for one run.

The paper is an anonymous submission to ICLR; a later version is Tao et al., arXiv:2505.15647, with another title.

Read this file first. `algorithms.py` implements the same algorithms for many runs at once, with guarantees and
refusals; `tests/papers/test_reference.py` checks that both give the same results. Values whose names begin with
`private_` are known to the data holder alone; every other value is released, given, or computed from such values.
A line number in `printed` selects the paper's version of that line where ours differs; each algorithm has its own line
numbers and its own set.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Release(NamedTuple):
    """The result of query t of the oracle, which is also the oracle's whole memory."""

    t: int  # number of the query, from 1
    asked: Tensor  # (d,), x_{t-1}
    fresh: bool  # True if O1 was called, False if O2
    batch: int  # examples of this query
    private_mean: Tensor  # (d,), of the gradients, or of their differences
    g: Tensor  # (d,), released
    drift: float  # in units of length squared
    paid: float  # zCDP of the examples of this query
    left: int  # number of unused examples


class Round(NamedTuple):
    """The result of query t of the clients: the fields of a `Release`, and the vector that each of m clients sent."""

    t: int  # number of the query, from 1
    asked: Tensor  # (d,), x_{t-1}
    fresh: bool  # True if O1 was called, False if O2
    batch: int  # examples of each client
    private_mean: Tensor  # (m, d), each known to its client alone
    g: Tensor  # (d,), the server's
    drift: float  # in units of length squared
    paid: float  # zCDP of the examples of this query, of each client
    left: int  # number of unused examples of the client that has fewest
    sent: Tensor  # (m, d), released


class Model(NamedTuple):
    """The result of testing model t, with d' = d + d(d+1)/2: a gradient and the scaled upper triangle of a Hessian."""

    t: int
    x: Tensor  # (d,), x_t
    private_means: Tensor  # (m, d'), each known to its client alone
    sent: Tensor  # (m, d'), released
    gradient: Tensor  # (d,), the server's
    hessian: Tensor  # (d, d), the server's
    longest: float  # largest accepted norm of the gradient, in units of loss over length
    least: float  # smallest accepted eigenvalue, in units of loss over length squared
    yes: bool
    paid: float  # zCDP of the examples of each client
    left: float  # zCDP that remains for later models


class Step(NamedTuple):
    """A move of Algorithm 1, and the query on which it is based."""

    q: int  # number of the attempt; 0 while descending
    tau: int  # step within the attempt
    esc: bool  # whether the iterate left the ball around x~
    x: Tensor  # (d,), x_t
    t: int
    asked: Tensor
    fresh: bool
    batch: int
    private_mean: Tensor
    g: Tensor
    drift: float
    paid: float
    left: int
    sent: Any = None  # (m, d), for a `Round` of clients


def clipped(private_rows: Tensor, longest: float) -> Tensor:
    """Scale down the vectors `(examples, d)` that are longer than `longest`.

    >>> clipped(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    private_lengths = private_rows.norm(dim=1, keepdim=True)
    return torch.where(private_lengths > longest, private_rows * (longest / private_lengths), private_rows)


def adaptive_dp_spider(
    models: Iterable[tuple[Tensor, Any]], gradients, n, b1, b2, kappa, G, M, multiplier, eta, noise, printed=frozenset()
):
    """Algorithm 2 "Adaptive DP-SPIDER".

    Args:
      models: x_0, x_1, ..., each `(d,)` and paired with the `Release` to continue from, or None to start anew. They may
        depend on the previously yielded values.
      gradients: from x and positions to `(positions, d)`: the gradients of the examples at these positions, in units of
        loss over length. The positions refer to an order that contains each example once.
      n: number of examples.
      b1: batch size of O1. Batch sizes are rounded up to a whole number.
      b2: batch size of O2.
      kappa: drift at which O1 is called, in units of length squared.
      G: clipping norm of the gradients, in units of loss over length.
      M: smoothness, in units of loss over length squared.
      multiplier: the noise divided by the replace-one sensitivity of the mean; the paper prints `sqrt(c_1 log(1 /
        delta)) / epsilon`.
      eta: step size of the moves, in units of length squared over loss; only the printed line 12 uses it.
      noise: from t = 1, 2, ... to a draw of N(0, I_d).
      printed: {5}, {10}: the sensitivity is taken to be half of the replace-one sensitivity; {12}: moves are taken to
        have length `eta |g|`, which is wrong for a jump back. (The paper prints lines 12 and 13 inside the else branch,
        which would overwrite a fresh gradient at once; here they follow both branches, claim drift_escape.alg2.update.)

    Ours throughout: gradients longer than G are scaled down, and so are differences longer than M times the move. The
    paper assumes that none is.

    Yields:
      A `Release` each time. The generator's return value is the reason it ended.

    >>> data, points = torch.tensor([[0.1], [-0.1]]).repeat(20, 1), [torch.ones(1), torch.zeros(1), torch.ones(1)]
    >>> sums = adaptive_dp_spider(
    ...     zip(points, [None] * 3), lambda x, z: x.sin() + data[z.start : z.stop], 40, 16, 4, 0.5, 1.0, 1.0, 2.0, 0.1,
    ...     noise=lambda t: torch.ones(1),
    ... )
    >>> [(step.fresh, step.batch, step.paid, step.left) for step in sums]
    [(True, 16, 0.125, 24), (True, 16, 0.125, 8)]
    """
    used = 0
    for t, (x, last) in enumerate(models, start=1):  # 2, 13
        move = (x - last.asked).norm() if last else math.inf
        length = eta * last.g.norm() if last and 12 in printed else move  # 12
        drift = last.drift + length**2 if last else kappa  # 12, before the next query: now the move is known; 1
        fresh = bool(drift >= kappa)  # 3
        longest = G if fresh else M * move  # of an example's term
        batch = math.ceil(b1 if fresh else b2)  # 4, 9
        if used + batch > n:
            return "DATA_EXHAUSTED"  # ours: an example is used once
        z, used = range(used, used + batch), used + batch
        private_terms = gradients(x, z) if fresh else gradients(x, z) - gradients(last.asked, z)
        private_mean = clipped(private_terms, longest).mean(dim=0)
        moves = 1 if (5 if fresh else 10) in printed else 2  # 5, 10
        released = private_mean + multiplier * (moves * longest / batch) * noise(t)  # 5, 10: xi_t
        g = released if fresh else last.g + released  # 6, 11: the noise adds up
        drift = 0.0 if fresh else float(drift)  # 7
        paid = (2 / moves / multiplier) ** 2 / 2 if longest > 0 else 0.0  # a move of 0 has no answer to pay for
        yield Release(t, x, fresh, batch, private_mean, g, drift, paid, n - used)


def distributed_adaptive_dp_spider(
    models: Iterable[tuple[Tensor, Any]], gradients, n, b1, b2, kappa, G, M, multiplier, eta, noise, printed=frozenset()
):
    """Algorithm 3 "Distributed Adaptive DP-SPIDER".

    Args:
      models: as in `adaptive_dp_spider`, with the `Round` to continue from.
      gradients: one function per client, each as in `adaptive_dp_spider`.
      n: number of examples of each client.
      b1: batch size of O1, of each client.
      b2: batch size of O2, of each client.
      kappa: drift at which O1 is called, in units of length squared.
      G: clipping norm of the gradients, in units of loss over length.
      M: smoothness, in units of loss over length squared.
      multiplier: as in `adaptive_dp_spider`.
      eta: step size, which only the printed line 17 uses.
      noise: from t = 1, 2, ... and a client to a draw of N(0, I_d).
      printed: {6}, {13}: the sensitivity of a client's mean is taken to be half of the replace-one sensitivity; {17}:
        moves are taken to have length `eta |g|`.

    Ours throughout: clipped in the same way.

    Yields:
      A `Round` each time. The generator's return value is the reason it ended.

    >>> clients, points = [lambda x, z: x.expand(len(z), 1)] * 3, [torch.ones(1), torch.zeros(1)]
    >>> rounds = distributed_adaptive_dp_spider(
    ...     zip(points, [None] * 2), clients, [40, 50, 60], 16, 4, 0.5, 1.0, 1.0, 2.0, 0.1,
    ...     noise=lambda t, j: torch.full((1,), j - 1.0),
    ... )
    >>> [(step.sent.flatten().tolist(), step.g.tolist(), step.left) for step in rounds]
    [([0.75, 1.0, 1.25], [1.0], 24), ([-0.25, 0.0, 0.25], [0.0], 8)]
    """
    used = 0
    for t, (x, last) in enumerate(models, start=1):  # 2, 18
        move = (x - last.asked).norm() if last else math.inf
        length = eta * last.g.norm() if last and 17 in printed else move  # 17
        drift = last.drift + length**2 if last else kappa  # 17, before the next query; 1
        fresh = bool(drift >= kappa)  # 3
        longest = G if fresh else M * move
        batch = math.ceil(b1 if fresh else b2)  # 5, 12
        if used + batch > min(n):
            return "DATA_EXHAUSTED"  # ours: all clients are asked before one of them draws
        z, used = range(used, used + batch), used + batch
        private_means, sent = [], []
        for j, of_j in enumerate(gradients):  # 4, 11
            private_terms = of_j(x, z) if fresh else of_j(x, z) - of_j(last.asked, z)
            private_means.append(clipped(private_terms, longest).mean(dim=0))
            moves = 1 if (6 if fresh else 13) in printed else 2  # 6, 13
            released = private_means[j] + multiplier * (moves * longest / batch) * noise(t, j)  # 6, 13: xi_{j,t}
            sent.append(released if fresh else last.sent[j] + released)  # 7, 14; 8, 15
        g = torch.stack(sent).mean(dim=0)  # 16
        drift = 0.0 if fresh else float(drift)  # 9
        paid = (2 / moves / multiplier) ** 2 / 2 if longest > 0 else 0.0
        yield Round(t, x, fresh, batch, torch.stack(private_means), g, drift, paid, min(n) - used, torch.stack(sent))


def distributed_model_selection(
    models, gradients, hessians, n, T, alpha, rho, G, M, epsilon, delta, c, omega, noise, printed=frozenset()
):
    """Algorithm 4 "Distributed Private Model Selection", with c_1 = c_2.

    Gradient and Hessian of an example form one vector here, whose two parts are scaled to a length of at most G each.

    Args:
      models: x_1, x_2, ..., at most T, each `(d,)`, chosen without looking at these examples.
      gradients: one function per client, from x to the gradients of its examples, `(n_j, d)`, in units of loss over
        length.
      hessians: one function per client, from x to `(n_j, d, d)`, in units of loss over length squared.
      n: number of examples of each client.
      T: largest number of models; the noise is calibrated for T of them.
      alpha: accuracy, in units of loss over length.
      rho: Hessian-Lipschitz constant, in units of loss over length cubed.
      G: bound on the norm of an example's gradient.
      M: smoothness.
      epsilon: privacy parameter of each client.
      delta: privacy parameter of each client.
      c: c_1 and c_2, computed by an accountant; 9.671 at epsilon = 1, delta = 1e-5.
      omega: the probability that some answer is wrong.
      noise: from t = 1, 2, ... and a client to a draw of N(0, I_d').
      printed: {7}: the tolerance ignores c and the number of models.

    Yields:
      A `Model` each time. The generator's return value is the reason it ended, and the number of the published model.

    >>> data, flat = torch.linspace(-0.1, 0.1, 50)[:, None], torch.ones(50, 1, 1)  # of the losses (x - z)^2 / 2
    >>> found = distributed_model_selection(
    ...     [torch.tensor([0.9]), torch.tensor([0.0])], [lambda x: x - data] * 100, [lambda x: flat] * 100, [50] * 100,
    ...     2, 0.05, 1.0, 1.0, 1.0, 1.0, 1e-5, 9.671, 0.1, noise=lambda t, j: torch.zeros(2),
    ... )
    >>> [(step.yes, round(step.longest, 2), round(step.least, 2)) for step in found]
    [(False, 0.23, -0.46), (True, 0.23, -0.46)]
    """
    m, sigmas = len(n), [G * math.sqrt(c * T * math.log(1 / delta)) / (n_j * epsilon) for n_j in n]
    paid = 4 * epsilon**2 / (c * T * math.log(1 / delta))
    for t, x in enumerate(models, start=1):  # 1
        d = len(x)
        upper, w = torch.triu_indices(d, d), G / (M * math.sqrt(d))  # a triangle is at most sqrt(d) M long
        private_means, sent = [], []
        for j in range(m):  # 2
            private_terms = torch.cat([gradients[j](x), w * hessians[j](x)[:, upper[0], upper[1]]], dim=1)
            private_means.append(clipped(private_terms, math.sqrt(2) * G).mean(dim=0))
            sent.append(private_means[j] + sigmas[j] * noise(t, j))  # 3, 4, 5: theta_{j,t}, and H_{j,t} times w
        mean = torch.stack(sent).mean(dim=0)  # 6
        hessian = torch.zeros(d, d, dtype=mean.dtype).index_put(tuple(upper), mean[d:] / w)
        gradient, hessian = mean[:d], hessian + hessian.triu(1).T
        off, bent = errors(d, n, T, G, M, sigmas, c, omega, printed)
        longest, least = alpha + off, -(math.sqrt(rho * alpha) + bent)
        yes = bool(gradient.norm() <= longest and torch.linalg.eigvalsh(hessian)[0] >= least)  # 7
        private_and_sent = torch.stack(private_means), torch.stack(sent)
        yield Model(t, x, *private_and_sent, gradient, hessian, longest, least, yes, paid, (T - t) * paid)
        if yes:
            return "FINISHED", t  # 8
    return "FINISHED", None


def errors(d, n, T, G, M, sigmas, c, omega, printed):
    """Return bounds on the errors of the server's gradient and smallest eigenvalue, valid with probability 1 - omega.

    The arguments are those of `distributed_model_selection`; `sigmas` holds the noise of each client's gradient.

    >>> [round(error, 3) for error in errors(1, [50] * 100, 2, 1.0, 1.0, [0.1] * 100, 9.671, 0.1, frozenset())]
    [0.099, 0.108]
    """
    m, w = len(n), G / (M * math.sqrt(d))
    spread, sigma = math.sqrt(sum(1 / n_j for n_j in n)) / m, math.sqrt(sum(s**2 for s in sigmas)) / m
    if 7 in printed:  # 7
        of_all, bare = math.log(8 * d / omega), sigma / math.sqrt(c)
        off = G * of_all * spread + bare * math.sqrt(d * math.log(16 / omega))
        return off, M * math.sqrt(of_all) * spread + bare / w * math.sqrt(d * math.log(32 / omega))
    L = math.log(6 * T / omega)  # six ways to be off with each model: `papers.drift_escape.selection.Selection`
    b = 2 * (L + math.log(d)) / (3 * m * min(n))
    off = G * (1 + math.sqrt(2 * L)) * spread + sigma * (math.sqrt(d) + math.sqrt(2 * L))
    bent = M * (b + math.sqrt(b**2 + 2 * (L + math.log(d)) * spread**2))
    return off, bent + 2 * sigma / w * (math.sqrt(d) + math.sqrt(L))


def drift_escape(oracle, x, eta, chi, Q, S, T_esc, repeat="refresh", printed=frozenset()):
    """Algorithm 1 "Gaussian Perturbed Stochastic Gradient Descent".

    Args:
      oracle: `P_Grad_Oracle`, from models to `Release`s as in `adaptive_dp_spider`, or to `Round`s of clients.
      x: `(d,)`, x_0, chosen without looking at the data.
      eta: step size, in units of length squared over loss.
      chi: a gradient with norm at most 3 chi counts as small, in units of loss over length.
      Q: number of attempts.
      S: escape radius, in units of length.
      T_esc: number of steps of an attempt.
      repeat: state of the oracle at a further attempt, which the paper does not specify: "refresh", the oracle starts
        anew; "restore", it returns to its state at x~, including the query there.
      printed: {9}: the oracle's state is not changed, so that it sees a jump; {11}: the first step of an attempt
        queries x~ again; {21}: the last point is returned instead of x~, which was tested.

    Yields:
      A `Step` each time; a step that a restored oracle answers from memory has the t of the earlier query. The
      generator's return value is the reason it ended, and the returned point.

    >>> def oracle(models):  # of the loss x^2 / 2, without data
    ...     return (Release(t, x, True, 1, x, x, 0.0, 0.0, 0) for t, (x, _) in enumerate(models, start=1))
    >>> steps = drift_escape(oracle, torch.tensor([1.0]), eta=0.5, chi=0.1, Q=2, S=0.2, T_esc=2)
    >>> [(step.t, step.q, step.tau, float(step.x)) for step in steps]
    [(1, 0, 0, 0.5), (2, 0, 0, 0.25), (3, 1, 1, 0.125), (4, 1, 2, 0.0625), (5, 2, 1, 0.125), (6, 2, 2, 0.0625)]
    """
    last: Any = None

    def models():  # where the next query is, and what the oracle then remembers
        while True:
            yield x, last

    queries = oracle(models())
    for last in queries:  # 2, 3, 4
        if last.g.norm() > 3 * chi:  # 5, 22
            x = x - eta * last.g  # 24
            yield Step(0, 0, False, x, *last)
            continue
        tested, saved, esc = x, last, False  # 7: x~
        for q in range(1, Q + 1):  # 8
            x, known = tested, (q == 1 or repeat == "restore") and 11 not in printed  # 9, 11
            if q > 1 and 9 not in printed:  # 9
                last = saved._replace(paid=0.0) if repeat == "restore" else None
            for tau in range(1, T_esc + 1):  # 10
                if tau > 1 or not known:
                    last = next(queries, None)  # 11
                    if last is None:
                        return "DATA_EXHAUSTED", x
                x = x - eta * last.g  # 12
                esc = bool((x - tested).norm() >= S)  # 13, 14
                yield Step(q, tau, esc, x, *last)
                if esc:
                    break  # 15
            if esc:
                break  # 18, 19
        if not esc:  # 20
            return "FINISHED", x if 21 in printed else tested  # 21
    return "DATA_EXHAUSTED", x
