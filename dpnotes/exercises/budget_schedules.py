"""The exercises of notebooks/01_budget_schedules."""

import math

import torch

from dpnotes.exercises.releases import Release
from dpnotes.notebook.teaching import exercise, near
from dpnotes.papers.budget_schedules.algorithms import theorem_4_5_schedule
from dpnotes.papers.budget_schedules.reference import clipped, private_gradient_descent
from dpnotes.random.streams import Streams


@exercise
def last_step(number):
    r"""With $\kappa = 10$ and $T = 40$, which part of the budget does Theorem 4.5's schedule spend on the last step?
    Give a number between 0 and 1.

    Hints:
      A step's part of the budget is in proportion to the square root of its influence.

      The parts are 1, sqrt(gamma), gamma, ... counted back from the last step: a geometric series.

      The last step gets 1 over the sum of that series.
    """
    costs = theorem_4_5_schedule(gamma=0.9, rho=1.0, num_steps=40).costs
    if near(1 / 40)(number) == "":
        return "this is the part of a step if all are equal; the last step has the largest influence."
    if near((costs**2 / (costs**2).sum())[-1])(number) == "":
        return "this is in proportion to the influence; the budget follows its square root."
    return near(costs[-1])(number)


@exercise
def private_step(function):
    r"""Write lines 1 to 4 of Algorithm 1, with $\le$ in line 2: the step that adds noise to the data. `rows` are the
    gradients of the examples, `(N, D)`, each of which must be clipped to the length `G`; `nu` is the draw $\nu_t$, and
    `left` is $R_t$. Return $g_t$ and $R_{t+1}$, or `None` if the step costs more than what is left. `clipped(rows,
    longest)` of the listing is at hand.

    Hints:
      The step costs 1 / sigma**2. If that is more than what is left, nothing may be drawn or released.

      Clip example by example, and only then take the mean over the rows.

      The mean changes by at most G / N; the noise is sigma times this.
    """
    G, sigma = 1.2, 2.0
    numbers = Streams.of("exercise", ["one"]).normal("rows", 0, 21)[0]
    rows, nu = numbers[:18].view(6, 3), numbers[18:]
    rows[0] *= 0.3  # shorter than G: clipping leaves it alone
    step = lambda noise: next(
        private_gradient_descent(lambda x: rows, torch.zeros(3), [sigma], 1.0, G, 1.0, lambda t: noise)
    )
    if function(rows, G, sigma, nu, 1.0) is None:
        return "it refuses a step that costs a quarter of a budget of 1."
    mean, right = rows.mean(dim=0), step(nu)
    slips = {
        "no gradient was clipped: one example can move the mean by any amount.": mean,
        "the mean was clipped: one example can still move it by more than G/N.": clipped(mean[None], G)[0],
        "every gradient was given the length G: clipping leaves short ones as they are.": clipped(1e6 * rows, G).mean(
            0
        ),
    }
    scales = {"the noise is N times too strong: how far can one example move a mean?": 6.0}
    release = Release(right.private_mean, G * sigma / 6, slips, scales)
    if mistake := release.mistake(lambda noise: function(rows, G, sigma, noise, 1.0)[0], nu):
        return mistake
    if not math.isclose(function(rows, G, sigma, nu, 1.0)[1], right.left, rel_tol=1e-9):
        return "the budget that is left is not reduced by the cost of the step."
    if function(rows, G, sigma, nu, 1 / sigma**2) is None:
        return "it refuses a step that costs exactly what is left."
    return (
        "" if function(rows, G, sigma, nu, 0.2) is None else "it releases, although the step costs more than is left."
    )
