"""The solutions of notebooks/04b_clients."""

import math

import torch

from dpnotes.papers.drift_escape.reference import clipped
from dpnotes.solutions import Solution


def one_round(terms, G, multiplier, noise):
    scales = [multiplier * (2 * G / len(of_j)) for of_j in terms]
    means = [clipped(of_j, G).mean(dim=0) for of_j in terms]
    sent = torch.stack([mean + scale * xi for mean, scale, xi in zip(means, scales, noise, strict=True)])
    return sent, sent.mean(dim=0)


def by_the_server(terms, G, multiplier, noise):
    sent, mean = one_round(terms, G, 0.0, noise)
    return sent, mean + multiplier * 2 * G / (len(terms) * len(terms[0])) * noise[0]


def summed(terms, G, multiplier, noise):
    sent, _ = one_round(terms, G, multiplier, noise)
    return sent, sent.sum(dim=0)


def noise_against(multiplier, m, others):
    return multiplier * math.sqrt(m - others)


SOLUTIONS = {
    "round_of_clients": Solution(
        one_round,
        [
            by_the_server, summed,
            lambda terms, G, multiplier, noise: one_round(terms, G, multiplier / 2, noise),
            lambda terms, G, multiplier, noise: one_round(terms, G, multiplier / 3, noise),
            lambda terms, G, multiplier, noise: one_round(terms, G, multiplier, [noise[0]] * len(terms)),
            lambda terms, G, multiplier, noise: one_round(terms, 1e6 * G, 1e-6 * multiplier, noise),  # not clipped
            lambda terms, G, multiplier, noise: one_round(terms, G, multiplier, noise)[0],
            lambda terms, G, multiplier, noise: (one_round(terms, G, multiplier, noise)[0], 0.0),
        ],
    ),
    "coalition": Solution(
        noise_against,
        [
            lambda multiplier, m, others: multiplier * math.sqrt(m),  # all noise
            lambda multiplier, m, others: multiplier,  # the client's own
            lambda multiplier, m, others: multiplier * (m - others),
            lambda multiplier, m, others: multiplier / 0,
        ],
    ),
}  # fmt: skip
