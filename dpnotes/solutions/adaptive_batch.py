"""The solutions of notebooks/03_adaptive_batch."""

import torch

from dpnotes.papers.adaptive_batch.reference import node
from dpnotes.solutions import Solution

SAVING = 1000 / (10 + 990 * 0.02)


def tree_sums(terms, Sigma, sigma, noise):
    released, exact = [], 0.0
    for t, term in enumerate(terms, start=1):
        exact = exact + term
        released.append(exact + sigma * sum(noise(end) for _, end in node(t, Sigma)))
    return released


def leaves(terms, sigma, noise):
    return sigma * torch.stack([noise(t) for t in range(1, len(terms) + 1)])


SOLUTIONS = {
    "write_the_sums": Solution(
        tree_sums,
        [
            lambda terms, Sigma, sigma, noise: terms.cumsum(0),
            lambda terms, Sigma, sigma, noise: (terms + leaves(terms, sigma, noise)).cumsum(0),  # independent
            lambda terms, Sigma, sigma, noise: terms.cumsum(0) + leaves(terms, sigma, noise),  # of outputs
            lambda terms, Sigma, sigma, noise: [terms[0], *tree_sums(terms, Sigma, sigma, noise)[:-1]],  # t from 0
            lambda terms, Sigma, sigma, noise: tree_sums(terms, Sigma, 2 * sigma, noise),
            lambda terms, Sigma, sigma, noise: tree_sums(terms, Sigma, sigma, noise)[1:],
        ],
    ),
    "saving": Solution(SAVING, [50, 100, 1000], f"1000 / (10 + 990 * 0.02) = {SAVING:.1f}."),
}
