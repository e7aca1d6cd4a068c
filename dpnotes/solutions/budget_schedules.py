"""The solutions of notebooks/01_budget_schedules."""

import math

from dpnotes.papers.budget_schedules.reference import clipped
from dpnotes.solutions import Solution

SHARE = (1 - math.sqrt(0.9)) / (1 - 0.9**20)


def one_step(rows, G, sigma, nu, left):
    rho = 1 / sigma**2
    if rho > left:
        return None
    return clipped(rows, G).mean(dim=0) + G * sigma * nu / len(rows), left - rho


def mean_clipped(rows, G, sigma, nu, left):
    return one_step(clipped(rows.mean(dim=0)[None], G).expand(len(rows), -1), G, sigma, nu, left)


def guard_as_printed(rows, G, sigma, nu, left):
    return one_step(rows, G, sigma, nu, left) if 1 / sigma**2 < left else None


def never_refuses(rows, G, sigma, nu, left):
    return clipped(rows, G).mean(dim=0) + G * sigma * nu / len(rows), left - 1 / sigma**2


def cost_in_zcdp(rows, G, sigma, nu, left):
    found = one_step(rows, G, sigma, nu, left)
    return found and (found[0], left - 1 / (2 * sigma**2))


def noise_of_the_sum(rows, G, sigma, nu, left):
    return one_step(rows, G, sigma, len(rows) * nu, left)


SOLUTIONS = {
    "last_step": Solution(
        SHARE,
        # In proportion to the influence itself; uniform; without the first steps' part.
        [0.1 / (1 - 0.9**40), 1 / 40, 1 - math.sqrt(0.9), "much"],
        f"With gamma = 0.9: (1 - sqrt(0.9)) / (1 - 0.9^20) = {SHARE:.4f}.",
    ),
    "private_step": Solution(
        one_step,
        [
            lambda rows, G, sigma, nu, left: one_step(rows, 1e6, sigma, 1e-6 * G * nu, left),  # nothing clipped
            mean_clipped,
            lambda rows, G, sigma, nu, left: one_step(1e6 * rows, G, sigma, nu, left),  # stretched
            noise_of_the_sum,
            guard_as_printed,
            never_refuses,
            cost_in_zcdp,
            lambda rows, G, sigma, nu, left: one_step(rows, G, sigma, 0 * nu, left),
            lambda rows, G, sigma, nu, left: one_step(-rows, G, sigma, nu, left),
            lambda rows, G, sigma, nu, left: None,
            lambda rows, G, sigma, nu, left: (rows, left),
        ],
    ),
}
