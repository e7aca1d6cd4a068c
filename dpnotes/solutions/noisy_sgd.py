"""The solutions of notebooks/02_noisy_sgd."""

import math

from dpnotes.core import Relation, Sampling
from dpnotes.papers.noisy_sgd.algorithms import theorem_3_1_noise
from dpnotes.solutions import Solution
from dpnotes.train.noise import calibrated_noise

STEPS = -(-24 * 50_000 // 512)
NEEDED = calibrated_noise(
    2.0, 0.01, norm_bound=2.5, sampling=Sampling.poisson(512 / 50_000), relation=Relation.ZERO_OUT, num_steps=STEPS,
    divisor=512,
)  # fmt: skip
NOMINAL = theorem_3_1_noise(
    2.0, 0.01, norm_bound=2.5, batch_size=512, num_examples=50_000, num_steps=STEPS, c_1=1.0, c_2=1.0
)
CONSTANT = NEEDED.std / NOMINAL.std
TOTAL = 1e-5 + (1 + math.e) * 1e-5


def released(gradients, C, B, Delta, xi):
    lengths = gradients.norm(dim=1, keepdim=True)
    clipped = gradients / (lengths / C).clamp_min(1)
    return clipped.sum(dim=0) / B + Delta * xi


def mean_clipped(gradients, C, B, Delta, xi):
    mean = gradients.sum(dim=0) / B
    return mean / max(1.0, float(mean.norm()) / C) + Delta * xi


SOLUTIONS = {
    "released_gradient": Solution(
        released,
        [
            lambda gradients, C, B, Delta, xi: gradients.sum(dim=0) / B + Delta * xi,
            mean_clipped,
            lambda gradients, C, B, Delta, xi: released(gradients, C, len(gradients), Delta, xi),
            lambda gradients, C, B, Delta, xi: released(gradients, C, B, Delta / B, xi),
            lambda gradients, C, B, Delta, xi: released(1e9 * gradients, C, B, Delta, xi),
            lambda gradients, C, B, Delta, xi: released(gradients, C, B, 0, xi),
        ],
    ),
    "enough": Solution(
        CONSTANT,
        [1 / CONSTANT, 4.245, 1.0],  # upside down; the ratio of the epsilons; the printed constant
        f"The ratio of the two noise multipliers: needed(2.0) / accounted(2.0)[0] = {CONSTANT:.3f}.",
    ),
    "honest_delta": Solution(TOTAL, [2e-5, TOTAL - 1e-5, 1e-5], f"1e-5 + (1 + e) 1e-5 = {TOTAL:.3g}."),
}
