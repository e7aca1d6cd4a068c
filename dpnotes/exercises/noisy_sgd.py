"""The exercises of notebooks/02_noisy_sgd."""

import torch

from dpnotes.core import Relation, Sampling
from dpnotes.exercises.releases import Release
from dpnotes.notebook.teaching import exercise, near
from dpnotes.papers.noisy_sgd import calculators
from dpnotes.papers.noisy_sgd.algorithms import theorem_3_1_noise
from dpnotes.papers.noisy_sgd.reference import clipped_noisy_sgd
from dpnotes.privacy.accounting import account
from dpnotes.privacy.events import Event
from dpnotes.random.streams import Streams


def mistake_in_step(answer, B, C, Delta):
    """The mistake in what a step of Algorithm 1 releases, in words; "" if there is none.

    Args:
      answer: maps the gradients of a batch, `(examples, 3)`, and a draw `(3,)` to the release.
      B: expected batch size.
      C: clipping threshold.
      Delta: standard deviation of the noise on the mean.
    """
    numbers = Streams.of("exercise", ["one run"]).normal("numbers", 0, 24)[0].view(8, 3)
    rows, xi = numbers[:7] * torch.linspace(0.2, 4, 7)[:, None] * (2 * C), numbers[7]

    def mean(rows=rows, C=C, printed=frozenset()):
        gradients, start = lambda x, batch: rows, torch.zeros(3, dtype=rows.dtype)
        step = clipped_noisy_sgd(gradients, start, lambda t: None, B, 1, C, Delta, 1.0, lambda t: xi, printed=printed)
        return next(step).private_mean

    bare = mean(C=1e9)
    slips = {
        "nothing was clipped: one example can move the mean by any amount.": bare,
        "the mean was clipped: one long gradient can still turn it.": C * bare / bare.norm(),
        "the sum was divided by the batch's own size, which depends on who was sampled.": mean(printed=frozenset({4})),
        "short gradients were made longer: only those above the threshold are to be scaled.": mean(1e9 * rows),
    }
    scales = {"the noise was divided by the batch size once more.": 1 / B}
    return Release(mean(), Delta, slips, scales).mistake(lambda draw: answer(rows, draw), xi)


@exercise
def released_gradient(function):
    r"""Write lines 2 and 3 of Algorithm 1: the release of a step. `gradients` has one row for each example of the
    batch, `(examples, d)`; the batch is a Poisson sample of expected size `B`; `xi` is a draw of $\mathcal N(0, I_d)$.
    The answer is checked against a step of the listing above, so write it without looking there.

    Hints:
      gradients.norm(dim=1, keepdim=True) has the length of each row; clamp_min(1) leaves short ones alone.

      Clip row by row, add up, divide by B. Delta is the standard deviation of the noise on that mean.
    """
    C, B, Delta = 0.5, 5, 0.3
    return mistake_in_step(lambda rows, xi: function(rows, C, B, Delta, xi), B, C, Delta)


@exercise
def enough(number):
    r"""In the setting of *Which epsilon?* ($\delta = 0.01$, batches of 512, 24 epochs), what is the smallest $c_2$ at
    which a nominal $\varepsilon = 2$ is confirmed? `accounted` and `needed` of that section are at hand.

    Hints:
      The noise is proportional to c_2.

      needed(2.0) is a noise multiplier, and so is the first of accounted(2.0).
    """
    examples, batch, norm_bound, delta = 50_000, 512, 2.5, 0.01
    steps = -(-24 * examples // batch)
    sizes = {"batch_size": batch, "num_examples": examples, "num_steps": steps}
    std = theorem_3_1_noise(2.0, delta, norm_bound=norm_bound, **sizes, c_1=1.0, c_2=number).std
    sampling = Sampling.poisson(batch / examples)
    epsilon = account([Event(std * batch / norm_bound, Relation.ZERO_OUT, sampling, steps)], delta).epsilon
    return near(2.0)(epsilon) and f"with c_2 = {number:.3g} the accountant finds epsilon = {epsilon:.3g}."


@exercise
def honest_delta(number):
    r"""Clipped SGD is $(1, 10^{-5})$-DP, and without clipping the bound fails with probability at most $10^{-5}$ for
    each data set, in its own run. Which $\delta$ follows for the unclipped run, at $\varepsilon = 1$?

    Hints:
      Not 2 delta: a failure under the neighbour is multiplied by e^epsilon.

      Three terms add up: the delta of clipped SGD, the failure on the data set, and the failure on the neighbour.
    """
    total = float(calculators.TOTAL_DELTA(epsilon=1.0, delta=1e-5, failure=1e-5, constants="corrected")["delta"])
    if near(2e-5)(number) == "":
        return "this is what Theorem 3.3 prints: it counts a failure on the neighbour once, and not e^epsilon times."
    if near(total - 1e-5)(number) == "":
        return "these are the failures of the bound; the delta of clipped SGD comes on top."
    return near(total)(number)
