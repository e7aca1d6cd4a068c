"""The solutions of notebooks/evidence/01_budget_schedules_evidence."""

import math

from dpnotes.privacy.accounting import epsilon_to_rho, rho_to_epsilon
from dpnotes.solutions import Solution

HERS = epsilon_to_rho(1.0, 1e-6, "classic")
EXACT = rho_to_epsilon(4 * HERS, 1e-6, "exact")


def best_steps(kappa, alpha):
    gamma = 1 - 1 / kappa
    K = 1 / (1 - math.sqrt(gamma))
    return 2 * math.log(alpha * K**2 / (1 + alpha * K**2)) / math.log(gamma)


SOLUTIONS = {
    "best_number": Solution(
        best_steps,
        [
            lambda kappa, alpha: 2 * kappa * math.log(1 + 1 / (kappa * alpha)),  # Theorem 4.5, as printed
            lambda kappa, alpha: best_steps(kappa, alpha) / 2,  # gamma^T in place of gamma^(T/2)
        ],
    ),
    "replaced": Solution(
        EXACT,
        # For her own neighbours; twice the printed one; the classic conversion; rho doubled only.
        [
            rho_to_epsilon(HERS, 1e-6, "exact"), 2.0, rho_to_epsilon(4 * HERS, 1e-6, "classic"),
            rho_to_epsilon(2 * HERS, 1e-6, "exact"),
        ],
        f"rho_to_epsilon(4 * {HERS:.5f}, 1e-6, 'exact') = {EXACT:.4f}.",
    ),
}  # fmt: skip
