"""The solutions of notebooks/privacy_audit."""

import math

from dpnotes.privacy.accounting import epsilon_to_rho
from dpnotes.privacy.audit import runs_for_power
from dpnotes.solutions import Solution

RUNS = runs_for_power(1.0, 0.0, epsilon=3.0, delta=0.0)
RHO = epsilon_to_rho(2.0, 1e-6, "classic")
OTHER = (math.sqrt(math.log(1e6) + 2) + math.sqrt(math.log(1e6))) ** 2


def attack(outputs):
    return outputs[:, 0] - outputs[:, 1]


SOLUTIONS = {
    "fewest": Solution(
        RUNS,
        [RUNS - 1, RUNS + 1, math.ceil(math.exp(3)), "many"],
        f"0.005^(1/N) > e^3 / (1 + e^3), so N > ln(0.005) / ln(e^3 / (1 + e^3)) = "
        f"{math.log(0.005) / math.log(math.exp(3) / (1 + math.exp(3))):.1f}: {RUNS} runs.",
    ),
    "attack_reuse": Solution(attack, [lambda outputs: outputs[:, 0], lambda outputs: outputs.sum(1)]),
    "right_root": Solution(
        RHO,
        [OTHER, 2.0],
        f"rho = (sqrt(L + 2) - sqrt(L))^2 with L = ln(10^6): {RHO:.5f}. The other sign gives {OTHER:.1f}.",
    ),
}
