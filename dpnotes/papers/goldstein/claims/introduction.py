"""Section 1: the rates, and Table 1."""

from sympy import Expr, Integer, Rational, sqrt

from dpnotes.papers.goldstein import calculators as calculate
from dpnotes.papers.goldstein.claims.terms import *
from dpnotes.papers.goldstein.notation import *
from dpnotes.theory.rates import Rate
from dpnotes.theory.statements import Identity

at, CLAIMS = PAPER.section()


chosen = (n, D, T, period, B1, B2, m)


def sample_size(value: Expr, constraints: dict[str, Expr], tuned: tuple = chosen, **more: object) -> Rate:
    """Return the rate of the least number of samples, with everything else tuned."""
    return Rate(n, value, {"n": n}, tuned, constraints, REGIME, order="Omega", tilde=True, **more)  # type: ignore[arg-type]


n1 = Phi * L**2 * d / (alpha * beta**3) + Phi * L * d ** Rational(3, 2) / (epsilon * alpha * beta**2)
zhang = n1.xreplace({Phi: Integer(1), L: Integer(1)})
ones = (Phi, L)  # "ignoring dependence on Lipschitz constant, initialization"
prior = sample_size(zhang, PRIOR, (n, D, T, period, B1, B2), normalised=ones)
prior_origin = (
    "Zhang et al. (2024) as eq. (5) tells it: m = d directions, taken here as shared by both points of an increment; "
    "the sensitivities are then d L/B1 and d L D/(alpha B2) at worst, and a single estimate has a second moment d L^2."
)
at("eq1", "eq. (1)", "Sample size of the prior work")(prior, prior_origin, calculation=calculate.SIZES)

short_31 = root / (alpha * beta**3) + d / (epsilon * alpha * beta**2)
single = {**SINGLE_PASS, **DIRECTIONS}
one_pass = sample_size(short_31, single, normalised=ones)
single_origin = (
    "Proposition 2.6 with M = alpha/D, the errors of Lemma 3.6, and noise for the sensitivities of Lemma 3.4; n "
    "counts B1 samples a reset and B2 an increment. Minimised over D, T, Sigma, B1, B2 and m."
)
at("eq2", "eq. (2)", "Sample size of one pass")(one_pass, single_origin)

n31 = Phi * L**2 * root / (alpha * beta**3) + Phi * L * d / (epsilon * alpha * beta**2)
at("eq2.factor", "below eq. (2), and abstract", "Gain over the prior work")(
    Identity(ratio, root, n1 / n31), "(1) over (2)."
)

short_41 = d ** Rational(3, 4) / (epsilon * sqrt(alpha) * beta ** Rational(3, 2))
many_passes = sample_size(short_41, MULTI_PASS, (n, D, T, period), normalised=ones, logs=(ell,))
multi_origin = (
    "Proposition 2.6 with M = alpha/D and the noise of T Gaussian releases, T/Sigma of them resets. Minimised over D, "
    "T and Sigma."
)
at("eq3", "eq. (3)", "Sample size of many passes")(many_passes, multi_origin)
at("table1.zhang", "Table 1, first row", "Table 1, Zhang et al.")(prior, prior_origin)
at("table1.thm3.1", "Table 1, second row", "Table 1, one pass")(one_pass, single_origin)
at("table1.thm4.1.empirical", "Table 1, third row", "Table 1, many passes, empirical")(many_passes, multi_origin)

general = {"generalisation": L * sqrt(d * ell_net / n) / beta}
population = sample_size(
    d / beta**2 + short_41, {**MULTI_PASS, **general}, (n, D, T, period), normalised=ones, logs=(ell, ell_net)
)
at("table1.thm4.1.stochastic", "Table 1, third row, and abstract", "Table 1, many passes, stochastic")(
    population,
    f"{multi_origin} To this, a generalisation error, which must be at most beta (Proposition 5.1 in the paper).",
    premises=("prop5.1",),
)
