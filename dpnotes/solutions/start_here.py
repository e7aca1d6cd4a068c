"""The solution of notebooks/00_start_here."""

import numpy as np

from dpnotes.solutions import Solution


def private_mean(values, bound, sigma, noise):
    clipped = np.clip(values, -bound, bound)
    sensitivity = 2 * bound / len(values)
    return float(clipped.mean() + sigma * sensitivity * noise)


def unclipped(values, bound, sigma, noise):
    return float(np.mean(values) + sigma * 2 * bound / len(values) * noise)


SOLUTIONS = {
    "mean_exercise": Solution(
        private_mean,
        [
            unclipped,
            lambda values, bound, sigma, noise: private_mean(values, bound, sigma / 2, noise),  # for a value left out
            lambda values, bound, sigma, noise: private_mean(values, bound, sigma * len(values), noise),  # of the sum
            lambda values, bound, sigma, noise: private_mean(values, bound, 0, noise),
            lambda values, bound, sigma, noise: private_mean(np.minimum(values, bound), 1e9, 1e-9 * sigma, noise),
            lambda values, bound, sigma, noise: private_mean(np.sign(values) * bound, bound, sigma, noise),
        ],
    )
}
