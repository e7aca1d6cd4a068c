"""The terms from which the proofs start: what must be small, what a noise must cover, what a sample pays for.

Every entry is a monomial that is at most 1 (as a constraint), up to the constants that the paper's O hides.
"""

from collections.abc import Mapping

from sympy import Expr, Min, Rational, sqrt

from dpnotes.papers.goldstein.notation import *

Named = Mapping[str, Expr]


def over(terms: Named, bound: Expr) -> dict[str, Expr]:
    """Terms that must be at most a bound, as constraints."""
    return {name: term / bound for name, term in terms.items()}


REGIME: dict[str, Expr] = {"beta <= L": beta / L, "alpha <= Phi/L": alpha * L / Phi}

# Proposition 2.6 with M = alpha/D: descent, and regret of a second moment that is L^2 up to the oracle's error.
CONVERSION: dict[str, Expr] = {"descent": Phi / (D * T), "regret": L * sqrt(D / alpha)}
# The range of what is chosen; M = alpha/D is a number of steps.
COUNTS: dict[str, Expr] = {"Sigma >= 1": 1 / period, "B1 >= 1": 1 / B1, "B2 >= 1": 1 / B2, "M >= 1": D / alpha}
# No sample is used twice.
SAMPLES: dict[str, Expr] = {"samples of resets": B1 * T / (period * n), "samples of increments": B2 * T / n}

# Lemma 3.6: sampling at a reset, and of increments of gradients that are (L sqrt(d)/alpha)-Lipschitz, moves at most 2D.
SAMPLING: dict[str, Expr] = {"reset": L / sqrt(B1), "increments": L * D / alpha * sqrt(d * period / B2)}
# Lemma 3.4 through Proposition 2.5: the noise that the sensitivities ask for, in all coordinates.
NOISE: dict[str, Expr] = {
    "noise of the reset": root / epsilon * L / B1,
    "noise of increments": root / epsilon * L * root * D / (alpha * B2),
}
BOUND: dict[str, Expr] = {**CONVERSION, **SAMPLING, **NOISE}
# Lemmas 3.4 and 3.6: what finitely many directions add; the error must stay below the sensitivities, too.
DIRECTIONS: dict[str, Expr] = {
    "directions at a reset": L * d / sqrt(B1 * m) / beta,
    "directions of increments": L * d * sqrt(period / (B2 * m)) / beta,
    "sensitivity to directions at a reset": d * B1 / sqrt(m),
    "sensitivity to directions of increments": sqrt(d / m) * alpha * B2 / D,
}
SINGLE_PASS: dict[str, Expr] = {**over(BOUND, beta), **SAMPLES, **COUNTS}

# The predecessor: d directions, shared by both points, whose worst case is d times a gradient.
PRIOR: dict[str, Expr] = {
    **over(
        {
            **CONVERSION,
            "reset": L * root / sqrt(B1),
            "increments": L * D / alpha * sqrt(d * period / B2),
            "noise of the reset": root / epsilon * L * d / B1,
            "noise of increments": root / epsilon * L * d * D / (alpha * B2),
        },
        beta,
    ),
    **SAMPLES,
    **COUNTS,
}

# Theorem 4.1: the whole data set at every step, T Gaussian releases of which T/Sigma are resets.
MULTI_NOISE: dict[str, Expr] = {
    "noise of the reset": root * L * sqrt(T * ell / period) / (n * epsilon),
    "noise of increments": sqrt(d * period) * L * D * sqrt(T * d * ell) / (alpha * n * epsilon),
}
MULTI_PASS: dict[str, Expr] = {
    **over({**CONVERSION, **MULTI_NOISE}, beta),
    "Sigma >= 1": 1 / period,
    "M >= 1": D / alpha,
}

# Theorem 3.1's largest move, for T steps.
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
