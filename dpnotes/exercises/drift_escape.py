"""The exercises of notebooks/04_drift_escape."""

import math

import torch

from dpnotes.exercises.releases import Release
from dpnotes.notebook.teaching import exercise
from dpnotes.papers.drift_escape.reference import adaptive_dp_spider, clipped
from dpnotes.random.streams import Streams


@exercise
def how_many(function):
    r"""Write the function that gives the least number of *independent* attempts, each of which escapes with probability
    `chance`, that all fail with probability at most `failure`. (The paper prints $\frac52\ln\frac1{\omega_0}$ for a
    chance of $\frac14$. Is it enough?)

    Hints:
      All of Q attempts fail with probability (1 - chance)^Q.

      Take logarithms, solve for Q, and round up. For chance = 1/4 the factor before ln(1/failure) is 3.476.
    """
    for chance, failure in ((0.25, 0.01), (0.25, 1e-6), (0.5, 0.001), (0.9, 0.05)):
        number = function(chance, failure)
        if number != int(number):
            return "it should give a whole number."
        fail, where = (1 - chance) ** number, f"a chance of {chance:g} and a failure probability of {failure:g}"
        if fail > failure:
            return f"at {where} it gives {number}, and all of {number} fail with probability {fail:.4g}."
        if (1 - chance) ** (number - 1) <= failure:
            return f"at {where} it gives {number}: fewer are enough."
    return ""


@exercise
def covered(function):
    """Write lines 9 to 12 of Algorithm 2: a difference that is private *for every previous point*. `now` and `before`
    are the gradients of the batch at `x` and at `last.asked`, `(b, d)`; `last.g` is the estimate so far, `last.drift`
    the drift; `xi` is a draw of $N(0, I_d)$, `eta` the step size. Clip each example's difference to what $M$ allows;
    the noise is `multiplier` times the sensitivity of their mean, if an example is replaced. Return the new estimate,
    `(d,)`, and the new drift. `clipped(rows, longest)` is at hand.

    Hints:
      How far did the point move? Not every move is a step.

      An example's difference has at most the length M times the move. Replacing it changes the mean of b differences by
      at most twice this length over b.

      Add the noisy difference to last.g; the drift grows by the square of the move.
    """
    normal = Streams.of("exercise", ["one"]).normal("numbers", 0, 44)[0]
    tilts, xi, M, multiplier, eta = 3 * normal[:40].view(20, 2), normal[40:42], 1.5, 4.0, 0.5
    gradients = lambda x, z: tilts[z.start : z.stop] * x.cos() - x.sin()

    def oracle(x, last, printed=frozenset()):
        sizes = {"n": 20, "b1": 20, "b2": 20, "kappa": 9.0, "G": 2.0, "M": M, "multiplier": multiplier, "eta": eta}
        return next(adaptive_dp_spider([(x, last)], gradients, **sizes, noise=lambda t: xi, printed=printed))

    last = oracle(torch.tensor([0.2, -1.2]), None)._replace(drift=0.25)
    x = torch.tensor([-1.0, 0.3])  # not a step from there
    right, stepped = oracle(x, last), oracle(x, last, printed=frozenset({12}))
    now, before = gradients(x, range(20)), gradients(last.asked, range(20))
    rows = now - before
    answer = lambda draw: function(now, before, x, last, M, multiplier, draw, eta)
    if not isinstance(answer(xi), (tuple, list)) or len(answer(xi)) != 2:
        return "it should return two things: the estimate g, (d,), and the drift."
    clean, step = last.g + right.private_mean, float(eta * last.g.norm())
    scale = float((right.g - clean).norm() / xi.norm())
    slips = {
        "that is the difference alone: the estimate is a sum, g of before and what is new.": right.private_mean,
        "no difference was clipped: the sensitivity is not bounded.": last.g + rows.mean(dim=0),
        "the differences are clipped for a step, eta |g|; the point has jumped farther.": last.g
        + clipped(rows, M * step).mean(dim=0),
    }
    scales = {
        "that is the sensitivity if an example is left out, and here one is replaced.": 0.5,
        "the noise is that of a step, eta |g|; the point has jumped farther.": step / float((x - last.asked).norm()),
    }
    if mistake := Release(clean, scale, slips, scales).mistake(lambda draw: answer(draw)[0], xi):
        return mistake
    drift = float(answer(xi)[1])
    if math.isclose(drift, stepped.drift, rel_tol=1e-6):
        return "the drift counts a step, eta |g|; the point has moved by another length."
    return "" if math.isclose(drift, right.drift, rel_tol=1e-6) else "the drift did not grow by the square of the move."
