"""The solution of notebooks/evidence/02_noisy_sgd_evidence."""

import math

from dpnotes.solutions import Solution


def deviation(noise, step_size, curvature, steps):
    growth = (1 + step_size * curvature) ** 2
    return step_size * noise * math.sqrt((growth**steps - 1) / (growth - 1))


SOLUTIONS = {
    "how_far": Solution(
        deviation,
        [
            lambda *setting: 2 * deviation(*setting),  # two mirrored runs
            lambda noise, step_size, curvature, steps: step_size * noise * math.sqrt(steps),
            lambda noise, step_size, curvature, steps: step_size * noise * (1 + step_size * curvature) ** steps,
            lambda noise, step_size, curvature, steps: (
                step_size * noise * sum((1 + step_size * curvature) ** age for age in range(steps))
            ),
        ],
    )
}
