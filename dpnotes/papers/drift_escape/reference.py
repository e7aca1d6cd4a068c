"""Private Stochastic Optimization for Achieving Second-Order Stationary Points, arXiv:2505.15647: one run on a board.

Read it first. `algorithms.py` does the same for many runs at once, with guarantees and refusals; `tests/papers/
test_reference.py` holds the two together. What begins with `private_` is known to the data holder alone; all else in a
step is released or follows from what is. A number in `printed` makes that line the paper's own, where ours differs;
each algorithm has numbers, and sets, of its own.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Release(NamedTuple):
    """What became of query t of the oracle, and all that it remembers."""

    t: int
    asked: Tensor  # (d,), x_{t-1}
    fresh: bool  # whether O1 was asked, or O2
    batch: int  # examples of this query
    private_mean: Tensor  # (d,)
    g: Tensor  # (d,), released
    drift: float  # in units of length squared
    paid: float  # zCDP of the examples of this query
    left: int  # examples


class Round(NamedTuple):
    """What became of query t of the clients: as a `Release`, with what each of m clients sent."""

    t: int
    asked: Tensor  # (d,), x_{t-1}
    fresh: bool
    batch: int  # examples of each client
    private_mean: Tensor  # (m, d), each known to its client alone
    g: Tensor  # (d,), the server's
    drift: float
    paid: float  # zCDP of the examples of this query, of each client
    left: int  # examples, of the client that has fewest
    sent: Tensor  # (m, d), released


class Model(NamedTuple):
    """What became of model t of a list; d' = d + d(d+1)/2, a gradient and the upper triangle of a Hessian, scaled."""

    t: int
    x: Tensor  # (d,), x_t
    private_means: Tensor  # (m, d'), each known to its client alone
    sent: Tensor  # (m, d'), released
    gradient: Tensor  # (d,), the server's
    hessian: Tensor  # (d, d), the server's
    longest: float  # a gradient that is accepted, in units of loss over length
    least: float  # eigenvalue that is accepted, in units of loss over length squared
    yes: bool
    paid: float  # zCDP of the examples of each client
    left: float  # zCDP


class Step(NamedTuple):
    """A move of Algorithm 1, and the query that it follows."""

    q: int  # attempt; 0: descending
    tau: int  # step of the attempt
    esc: bool  # whether it left the ball
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
    sent: Any = None  # (m, d), by clients, where it is a `Round`


def clipped(rows: Tensor, longest: float) -> Tensor:
    """Vectors `(examples, d)`, those that are longer scaled down to `longest`.

    >>> clipped(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    lengths = rows.norm(dim=1, keepdim=True)
    return torch.where(lengths > longest, rows * (longest / lengths), rows)


def adaptive_dp_spider(
    models: Iterable[tuple[Tensor, Any]], gradients, n, b1, b2, kappa, G, M, multiplier, eta, noise, printed=frozenset()
):
    """Algorithm 2 "Adaptive DP-SPIDER".

    Args:
      models: x_0, x_1, ..., each `(d,)` and with the `Release` to go on from, None to begin anew; they may depend on
        what was yielded for those before.
      gradients: from x and places to `(places, d)`: the gradients, in units of loss over length, of the examples at
        these places of an order in which each example stands once.
      n: number of examples.
      b1: batch of O1. A batch is rounded up to a whole number.
      b2: batch of O2.
      kappa: drift at which O1 is asked, in units of length squared.
      G: the longest gradient, in units of loss over length.
      M: smoothness, in units of loss over length squared.
      multiplier: the noise over how far an example that is replaced moves the mean; printed is `sqrt(c_1 log(1 /
        delta)) / epsilon`.
      eta: step size of the moves, in units of length squared over loss; of the printed line 12 alone.
      noise: from t = 1, 2, ... to a draw of N(0, I_d).
      printed: {5}, {10}: an example that is replaced is taken to move a mean by half of what it does; {12}: moves are
        taken to be `eta |g|` long, which a jump back is not. (In print lines 12 and 13 stand inside the else branch, so
        that a fresh gradient is overwritten at once; they always follow both here, claim drift_escape.alg2.update.)

    Ours throughout: gradients longer than G are scaled down, and so are differences longer than M times the move. The
    paper presumes that none is.

    Yields:
      A `Release`. The generator's value is why it ended.

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
        length = eta * last.g.norm() if last and 12 in printed else move
        drift = last.drift + length**2 if last else kappa  # 12, before the next query: now the move is known; 1
        fresh = bool(drift >= kappa)  # 3
        longest = G if fresh else M * move  # of an example's term
        batch = math.ceil(b1 if fresh else b2)  # 4, 9
        if used + batch > n:
            return "DATA_EXHAUSTED"  # ours: an example is used once
        z, used = range(used, used + batch), used + batch
        terms = gradients(x, z) if fresh else gradients(x, z) - gradients(last.asked, z)
        private_mean = clipped(terms, longest).mean(dim=0)
        moves = 1 if (5 if fresh else 10) in printed else 2
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
      models: as in `adaptive_dp_spider`, with the `Round` to go on from.
      gradients: of each client, as there.
      n: numbers of examples, one a client.
      b1: batch of O1, of each client.
      b2: batch of O2.
      kappa: drift at which O1 is asked, in units of length squared.
      G: the longest gradient, in units of loss over length.
      M: smoothness, in units of loss over length squared.
      multiplier: as there.
      eta: as there; of the printed line 17 alone.
      noise: from t = 1, 2, ... and a client to a draw of N(0, I_d).
      printed: {6}, {13}: an example that is replaced is taken to move a client's mean by half of what it does; {17}:
        moves are taken to be `eta |g|` long.

    Ours throughout: clipped as there.

    Yields:
      A `Round`. The generator's value is why it ended.

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
        length = eta * last.g.norm() if last and 17 in printed else move
        drift = last.drift + length**2 if last else kappa  # 17, before the next query; 1
        fresh = bool(drift >= kappa)  # 3
        longest = G if fresh else M * move
        batch = math.ceil(b1 if fresh else b2)  # 5, 12
        if used + batch > min(n):
            return "DATA_EXHAUSTED"  # ours: all clients are asked before one of them draws
        z, used = range(used, used + batch), used + batch
        private_means, sent = [], []
        for j, of_j in enumerate(gradients):  # 4, 11
            terms = of_j(x, z) if fresh else of_j(x, z) - of_j(last.asked, z)
            private_means.append(clipped(terms, longest).mean(dim=0))
            moves = 1 if (6 if fresh else 13) in printed else 2
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

    Both derivatives of an example are one vector here, whose parts are scaled so that each is at most G long.

    Args:
      models: x_1, x_2, ..., T at most, each `(d,)`, chosen without looking at these examples.
      gradients: of each client, from x to those of its examples, `(n_j, d)`, in units of loss over length.
      hessians: of each client, from x to `(n_j, d, d)`, in units of loss over length squared.
      n: numbers of examples, one a client.
      T: number of models that are paid for.
      alpha: accuracy, in units of loss over length.
      rho: Hessian-Lipschitz constant, in units of loss over length cubed.
      G: the longest gradient.
      M: smoothness.
      epsilon: of each client.
      delta: of each client.
      c: c_1 and c_2, from an accountant; 9.671 at epsilon = 1, delta = 1e-5.
      omega: the probability that an answer is wrong.
      noise: from t = 1, 2, ... and a client to a draw of N(0, I_d').
      printed: {7}: nothing is allowed for c, nor for more than one model.

    Yields:
      A `Model`. The generator's value is why it ended, and which model is published.

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
            terms = torch.cat([gradients[j](x), w * hessians[j](x)[:, upper[0], upper[1]]], dim=1)
            private_means.append(clipped(terms, math.sqrt(2) * G).mean(dim=0))
            sent.append(private_means[j] + sigmas[j] * noise(t, j))  # 3, 4, 5: theta_{j,t}, and H_{j,t} times w
        mean = torch.stack(sent).mean(dim=0)  # 6
        hessian = torch.zeros(d, d, dtype=mean.dtype).index_put(tuple(upper), mean[d:] / w)
        gradient, hessian = mean[:d], hessian + hessian.triu(1).T
        off, bent = errors(d, n, T, G, M, sigmas, c, omega, printed)
        longest, least = alpha + off, -(math.sqrt(rho * alpha) + bent)
        yes = bool(gradient.norm() <= longest and torch.linalg.eigvalsh(hessian)[0] >= least)  # 7
        rows = torch.stack(private_means), torch.stack(sent)
        yield Model(t, x, *rows, gradient, hessian, longest, least, yes, paid, (T - t) * paid)
        if yes:
            return "FINISHED", t  # 8
    return "FINISHED", None


def errors(d, n, T, G, M, sigmas, c, omega, printed):
    """How far the server's gradient and its smallest eigenvalue are off at most, with probability 1 - omega.

    The arguments are those of `distributed_model_selection`; `sigmas` is the noise of each client's gradient.

    >>> [round(error, 3) for error in errors(1, [50] * 100, 2, 1.0, 1.0, [0.1] * 100, 9.671, 0.1, frozenset())]
    [0.099, 0.108]
    """
    m, w = len(n), G / (M * math.sqrt(d))
    spread, sigma = math.sqrt(sum(1 / n_j for n_j in n)) / m, math.sqrt(sum(s**2 for s in sigmas)) / m
    if 7 in printed:
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
      oracle: `P_Grad_Oracle`: from models to `Release`s, as `adaptive_dp_spider`, or to `Round`s of clients.
      x: `(d,)`, x_0, chosen without looking at the data.
      eta: step size, in units of length squared over loss.
      chi: a gradient of at most 3 chi is small, in units of loss over length.
      Q: attempts.
      S: radius, in units of length.
      T_esc: steps of an attempt.
      repeat: what becomes of the oracle in a further attempt, of which the paper says nothing: "refresh", it begins
        anew; "restore", it remembers what it did at x~, the query there included.
      printed: {9}: nothing becomes of it, it sees a jump; {11}: the first step of an attempt asks once more at x~;
        {21}: the last point is returned, not x~, which was tested.

    Yields:
      A `Step`; one that a restored oracle need not be asked for has the t of its query. The generator's value is why it
      ended, and the point that is returned.

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
            x, known = tested, (q == 1 or repeat == "restore") and 11 not in printed  # 9
            if q > 1 and 9 not in printed:
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
