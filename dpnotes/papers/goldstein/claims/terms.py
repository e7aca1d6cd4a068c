"""The terms that the proofs start from: the errors to bound, the sensitivities to cover, the samples to count.

Every entry is a monomial that is at most 1 (as a constraint), up to the constants that the paper's O hides. The claims
import all names by a star, like the letters.
"""

from collections.abc import Mapping

from sympy import Expr, Min, Rational, sqrt

from dpnotes.papers.goldstein.notation import *

Named = Mapping[str, Expr]


def over(terms: Named, bound: Expr) -> dict[str, Expr]:
    """Return constraints: each term divided by its upper bound."""
    return {name: term / bound for name, term in terms.items()}


REGIME: dict[str, Expr] = {"beta <= L": beta / L, "alpha <= Phi/L": alpha * L / Phi}

# Proposition 2.6 with M = alpha/D: descent, and the regret for a second moment of L^2 plus the oracle's squared error.
CONVERSION: dict[str, Expr] = {"descent": Phi / (D * T), "regret": L * sqrt(D / alpha)}
# The ranges of the tuned parameters; M = alpha/D is a number of steps.
COUNTS: dict[str, Expr] = {"Sigma >= 1": 1 / period, "B1 >= 1": 1 / B1, "B2 >= 1": 1 / B2, "M >= 1": D / alpha}
# Each sample is used once.
SAMPLES: dict[str, Expr] = {"samples of resets": B1 * T / (period * n), "samples of increments": B2 * T / n}

# Lemma 3.6: sampling error at a reset, and of increments, whose gradients are (L sqrt(d)/alpha)-Lipschitz and whose
# moves are at most 2D.
SAMPLING: dict[str, Expr] = {"reset": L / sqrt(B1), "increments": L * D / alpha * sqrt(d * period / B2)}
# Lemma 3.4 with Proposition 2.5: the norm of the noise that the sensitivities require.
NOISE: dict[str, Expr] = {
    "noise of the reset": root / epsilon * L / B1,
    "noise of increments": root / epsilon * L * root * D / (alpha * B2),
}
BOUND: dict[str, Expr] = {**CONVERSION, **SAMPLING, **NOISE}
# Lemmas 3.4 and 3.6: the error from finitely many directions, which must also stay below the sensitivities.
DIRECTIONS: dict[str, Expr] = {
    "directions at a reset": L * d / sqrt(B1 * m) / beta,
    "directions of increments": L * d * sqrt(period / (B2 * m)) / beta,
    "sensitivity to directions at a reset": d * B1 / sqrt(m),
    "sensitivity to directions of increments": sqrt(d / m) * alpha * B2 / D,
}
SINGLE_PASS: dict[str, Expr] = {**over(BOUND, beta), **SAMPLES, **COUNTS}

# The predecessor uses the same d directions at both points; their worst case is d times a gradient.
PRIOR_BOUND: dict[str, Expr] = {
    **CONVERSION,
    "reset": L * root / sqrt(B1),
    "increments": L * D / alpha * sqrt(d * period / B2),
    "noise of the reset": root / epsilon * L * d / B1,
    "noise of increments": root / epsilon * L * d * D / (alpha * B2),
}
PRIOR: dict[str, Expr] = {**over(PRIOR_BOUND, beta), **SAMPLES, **COUNTS}

# Theorem 4.1: every step uses the whole data set; T/Sigma of the T Gaussian releases are resets.
MULTI_NOISE: dict[str, Expr] = {
    "noise of the reset": root * L * sqrt(T * ell / period) / (n * epsilon),
    "noise of increments": sqrt(d * period) * L * D * sqrt(T * d * ell) / (alpha * n * epsilon),
}
WHOLE: dict[str, Expr] = {"Sigma >= 1": 1 / period, "M >= 1": D / alpha}
MULTI_PASS: dict[str, Expr] = {**over({**CONVERSION, **MULTI_NOISE}, beta), **WHOLE}

# The largest move of Theorem 3.1, as a function of the number of steps T.
MOVES: dict[str, Expr] = {
    "a": (Phi**2 * alpha / (L**2 * T**2)) ** third,
    "b": (Phi * alpha * epsilon / (d * L * T)) ** half,
    "c": (Phi**3 * alpha**2 * epsilon / (d ** (3 * half) * L**3 * T**3)) ** Rational(1, 5),
    "d": (Phi**2 * alpha / (L**2 * T**2 * root)) ** third,
}
MOVE = Min(*MOVES.values())
SIGMA_PRINTED = L / (B1 * epsilon) + L * D * root / (alpha * B2 * epsilon)
PERIOD_PRINTED = (alpha / (epsilon * D)) ** (2 * third) + alpha / (D * root)
PERIOD = alpha / (D * root)
NOISE_PER_COORDINATE: dict[str, Expr] = {
    "noise covers the reset": L / (B1 * epsilon) / sigma,
    "noise covers increments": L * D * root / (alpha * B2 * epsilon) / sigma,
}
