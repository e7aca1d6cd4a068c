"""Kornowski, Liu and Talwar (ICML 2025): its claims, checked.

Letters are the paper's; `alpha` and `beta` are the radius and the norm of Goldstein stationarity. A rate is compared
with the best balance of the terms from which its proof starts: Proposition 2.6 for the online-to-nonconvex conversion,
the variance lemmas for the oracle, the sensitivity lemmas for the noise. What the paper's O hides is hidden here.
"""

from sympy import Expr, Integer, Rational, sqrt

from dpnotes.papers.goldstein import calculators as calculate
from dpnotes.papers.goldstein.notation import (
    B1,
    B2,
    PAPER,
    D,
    L,
    Phi,
    T,
    alpha,
    beta,
    claim,
    d,
    ell,
    ell_net,
    epsilon,
    m,
    n,
    period,
    ratio,
    root,
)
from dpnotes.papers.goldstein.terms import (
    DIRECTIONS,
    MULTI_PASS,
    PRIOR,
    REGIME,
    SINGLE_PASS,
)
from dpnotes.theory.claims import Claim
from dpnotes.theory.rates import Rate
from dpnotes.theory.statements import Identity

__all__ = ["CLAIMS", "PAPER"]

_CHOSEN = (n, D, T, period, B1, B2, m)
_ONES = (Phi, L)  # "ignoring dependence on Lipschitz constant, initialization"
_N31 = Phi * L**2 * root / (alpha * beta**3) + Phi * L * d / (epsilon * alpha * beta**2)
_N1 = Phi * L**2 * d / (alpha * beta**3) + Phi * L * d ** Rational(3, 2) / (epsilon * alpha * beta**2)
_N41 = sqrt(Phi) * L * d ** Rational(3, 4) / (epsilon * sqrt(alpha) * beta ** Rational(3, 2))
_SHORT31 = root / (alpha * beta**3) + d / (epsilon * alpha * beta**2)
_SHORT41 = d ** Rational(3, 4) / (epsilon * sqrt(alpha) * beta ** Rational(3, 2))
_ZHANG = _N1.xreplace({Phi: Integer(1), L: Integer(1)})
_SINGLE_ORIGIN = (
    "Proposition 2.6 with M = alpha/D, the errors of Lemma 3.6, and noise for the sensitivities of Lemma 3.4; n counts "
    "B1 samples a reset and B2 an increment. Minimised over D, T, Sigma, B1, B2 and m."
)
_MULTI_ORIGIN = (
    "Proposition 2.6 with M = alpha/D and the noise of T Gaussian releases, T/Sigma of them resets. Minimised over D, T "
    "and Sigma."
)


def _sample_size(value: Expr, constraints: dict[str, Expr], tuned: tuple = _CHOSEN, **more: object) -> Rate:
    return Rate(n, value, {"n": n}, tuned, constraints, REGIME, order="Omega", **more)  # type: ignore[arg-type]


_SINGLE = {**SINGLE_PASS, **DIRECTIONS}
_GENERAL = {"generalisation": L * sqrt(d * ell_net / n) / beta}


def _introduction() -> tuple[Claim, ...]:
    short31 = _sample_size(_SHORT31, _SINGLE, normalised=_ONES)
    short41 = _sample_size(_SHORT41, MULTI_PASS, (n, D, T, period), normalised=_ONES, logs=(ell,))
    population = _sample_size(
        d / beta**2 + _SHORT41, {**MULTI_PASS, **_GENERAL}, (n, D, T, period), normalised=_ONES, logs=(ell, ell_net)
    )
    prior = _sample_size(_ZHANG, PRIOR, (n, D, T, period, B1, B2), normalised=_ONES)
    prior_origin = (
        "The paper's account of Zhang et al. (2024): m = d directions, shared by both points of an increment; the "
        "sensitivities are then d L/B1 and d L D/(alpha B2) at worst, and a single estimate has a second moment d L^2."
    )
    return (
        claim("eq1", "Sample size of the prior work", "eq. (1)", prior, prior_origin, calculation=calculate.SIZES),
        claim("eq2", "Sample size of one pass", "eq. (2)", short31, _SINGLE_ORIGIN),
        claim(
            "eq2.factor",
            "Gain over the prior work",
            "below eq. (2), and abstract",
            Identity(ratio, root, _N1 / _N31),
            "(1) over (2).",
        ),
        claim("eq3", "Sample size of many passes", "eq. (3)", short41, _MULTI_ORIGIN),
        claim("table1.zhang", "Table 1, Zhang et al.", "Table 1, first row", prior, prior_origin),
        claim("table1.thm3.1", "Table 1, one pass", "Table 1, second row", short31, _SINGLE_ORIGIN),
        claim(
            "table1.thm4.1.empirical", "Table 1, many passes, empirical", "Table 1, third row", short41, _MULTI_ORIGIN
        ),
        claim(
            "table1.thm4.1.stochastic",
            "Table 1, many passes, stochastic",
            "Table 1, third row, and abstract",
            population,
            f"{_MULTI_ORIGIN} To this, the generalisation error of Proposition 5.1, which must be at most beta.",
        ),
    )


def _single_pass() -> tuple[Claim, ...]:
    return (
        claim(
            "thm3.1.rate",
            "Sample size of one pass",
            "Theorem 3.1",
            _sample_size(_N31, _SINGLE),
            _SINGLE_ORIGIN,
            calculation=calculate.SINGLE_PASS,
        ),
    )


def _multi_pass() -> tuple[Claim, ...]:
    return (
        claim(
            "thm4.1.rate",
            "Sample size of many passes",
            "Theorem 4.1",
            _sample_size(_N41, MULTI_PASS, (n, D, T, period), logs=(ell,)),
            _MULTI_ORIGIN,
            calculation=calculate.MULTI_PASS,
        ),
    )


CLAIMS: tuple[Claim, ...] = (*_introduction(), *_single_pass(), *_multi_pass())
