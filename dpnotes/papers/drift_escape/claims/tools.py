"""Appendix C: concentration inequalities and other tools."""

from typing import Any

from sympy import Add, Integer, Rational, binomial, exp, log, sqrt

from dpnotes.papers.drift_escape.notation import *
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.statements import Identity, Optimum, Reason, Uncheckable

at, CLAIMS = PAPER.section()


cited = [
    ("lemma10", "Sub-Gaussian vectors are norm-sub-Gaussian", "Lemma 10", "SG(r) implies nSG(2 sqrt(2) r sqrt(d))"),
    ("lemma11", "Hoeffding inequality for norms", "Lemma 11", "sums of nSG vectors with fixed scales"),
    ("lemma12", "The same with random scales", "Lemma 12", "sums of nSG vectors with random scales"),
    ("lemma13", "Sums of squares", "Lemma 13", "sum of |v_i|^2 at most C zeta^2 (p + iota)"),
    ("lemma15", "Norm of a symmetric random matrix", "Lemma 15", "norm at most C K (sqrt(d) + t)"),
    ("lemma16", "Parallel composition", "Lemma 16", "mechanisms on disjoint data"),
]
for place, title, locator, text in cited:
    at(place, locator, title)(Uncheckable(text, Reason.CITED), "Cited from the literature.")

log_ratio = symbol("log ratio", "log(2d/omega)/log(2/omega)", latex="\\frac{\\log(2d/\\omega)}{\\log(2/\\omega)}")
example = {d: 2, omega: 0.5}
unsigned = symbol("|sum v_i|", "norm of a sum of p random vectors", GRADIENT, latex="\\|\\sum_i v_i\\|")
variances = symbol("V", "max of the sum of the squared scales and b", (LOSS / LENGTH) ** 2)
failing = symbol("p", "probability that a bound fails")
by_tail, point = C * sqrt(variances * log(1 / failing)), {C: 1, variances: 1, iota: 4}
at("lemma12.root", "Lemma 12, eq. (15)", "Logarithm of a sum with random scales")(
    Identity(unsigned, C * sqrt(variances) * iota, by_tail, {failing: exp(-iota)}, example=point),
    "Lemma 11 for fixed scales, with log(1/p) for log(2d/p), at p = e^-iota: where the scales do not vary, Lemma 12 is "
    "that lemma. (40) and eq. (4) use it with iota under the root.",
    Severity.TYPOGRAPHICAL(
        "iota belongs under the root, as in Lemma 11, in the source, and where the lemma is used. As printed it is "
        "true for iota >= 1, but gives sqrt(iota) more than (40) takes from it.",
        C * sqrt(variances * iota),
    ),
)
of_logs = log(2 * d / omega) / log(2 / omega)
at("cor3", "proof of Corollary 3", "Logarithm in the scale of a sum")(
    Inequality(of_logs, 2 * log(d), {omega: (1e-9, 0.999)}, example=example, subject=log_ratio),
    "What the proof needs for all omega in (0, 1).",
    Severity.EDGE(
        "In one dimension, where the printed scale is 0, it fails; with natural logarithms in up to six "
        "(eq47.logarithm). 1 + log(d)/log(2) is the least that holds for all omega.",
        Inequality(of_logs, 1 + log(d) / log(2), {omega: (1e-9, 1 - 1e-9)}, subject=log_ratio),
    ),
)

sum_scale = symbol("zeta_+", "scale of a sum", GRADIENT, latex="\\zeta_+")
squares = symbol("sum of squares", "sum of the squared scales", (LOSS / LENGTH) ** 2, latex="\\sum_i\\psi_i^2")
at("cor3.scale", "proof of Corollary 3", "Scale of a sum, in the proof")(
    Identity(sum_scale, sqrt(C * log(d) * T * psi), C * sqrt(log(d) * squares), {squares: T * psi**2}),
    "The corollary's own scale, for T equal scales psi.",
    Severity.TYPOGRAPHICAL(
        "The scales under the root have to be squared, and C is C^2.", sqrt(C**2 * log(d) * T * psi**2)
    ),
)

pairs = [2 * k - 9 for k in range(10)]  # sums of nine signs
sure = Add(*(binomial(9, (9 + v) // 2) for v in pairs if abs(v) >= 1)) / Integer(2) ** 9
signs = symbol("k", "number of matrices", domain=COUNT)
exponent = 1 / (2 * (signs + Rational(1, 3)))  # t = B = 1, sigma^2 = k
size_probability = symbol("Pr", "probability that the sum of k signs is at least 1 in size", latex="\\Pr")
at("lemma14", "Lemma 14", "Matrix Bernstein inequality for a norm")(
    Inequality(sure, exp(-exponent), {signs: (9, 9)}, example={signs: 9}, subject=size_probability),
    "d = 1: nine random signs, B = 1, sigma^2 = k = 9, t = 1; their sum is odd, so at least 1 in size.",
    Severity.CONSTANT(
        "The cited theorem bounds the largest eigenvalue; the norm needs the factor 2d.", 2 * exp(-exponent)
    ),
)


def least_epsilon(z: Any) -> Any:
    """Return an epsilon that is too small for the Gaussian mechanism with noise multiplier z at this delta.

    Its exact delta at epsilon is at least 1 - exp(-v^2/2) with v = z/2 - epsilon/z > 0.
    """
    return z**2 / 2 - z * sqrt(2 * log(1 / (1 - delta)))


multiplier = symbol("z", "sensitivity over noise, Delta_2/sigma_G")
epsilon_min = symbol("epsilon_min", "least privacy loss", latex="\\epsilon_{\\min}")
order = symbol("t", "order of the Renyi divergence, less 1")
least, printed = least_epsilon(multiplier), multiplier * sqrt(2 * log(Rational(5, 4) / delta))
box, example = {multiplier: (0.01, 100), delta: (1e-9, 0.5)}, {multiplier: 20, delta: 0.01}
by_order, best = multiplier**2 / 2 * (1 + order) + log(1 / delta) / order, sqrt(2 * log(1 / delta)) / multiplier
by_renyi = multiplier**2 / 2 + multiplier * sqrt(2 * log(1 / delta))
at("def7", "Definition 7, first sentence", "Privacy loss of the Gaussian mechanism for any noise")(
    Inequality(least, printed, box, example=example, subject=epsilon_min),
    "Two Gaussians z standard deviations apart: with epsilon = z^2/2 - z v the failure probability is at least 1 - "
    "exp(-v^2/2), since Phi(v) - e^epsilon Phi(v - z) is.",
    Severity.EDGE(
        "The sentence says any sigma > 0; the formula holds for epsilon < 1 only, as the next sentence assumes. "
        "(z^2/2 + z sqrt(2 log(1/delta)), delta) holds for every sigma: the least over orders a = 1 + t of the Renyi "
        "bound a z^2/2 + log(1/delta)/(a - 1).",
        Optimum(by_order, order, best, by_renyi, example=example),
    ),
)


def at_any_epsilon(loss: Any, constants: tuple[Any, ...]) -> Inequality:
    """Return the statement that noise with this multiplier is enough at every epsilon."""
    box = {epsilon: (0.01, 1e5), **dict.fromkeys(constants, (1, 100))}
    point = {epsilon: 1000, delta: 1e-5, **dict.fromkeys(constants, 10)}
    return Inequality(least, epsilon, box, where={multiplier: loss}, example=point, subject=epsilon_min)


def at_small_epsilon(where: Any, subject: Any) -> Inequality:
    """Return the statement that noise with these definitions is enough where epsilon is at most log(1/delta)."""
    small = (epsilon <= log(1 / delta),)
    return Inequality(by_renyi, epsilon, {epsilon: (0.01, 30)}, where=where, conditions=small, subject=subject)


of_all = 2 * epsilon * sqrt((1 / c1 + 1 / c2) / log(1 / delta))
enough_of = symbol("epsilon_all", "privacy loss of all releases that is not exceeded", latex="\\epsilon_{all}")
at("thm4.privacy", "Theorem 4, with Algorithm 4, lines 3 and 4", "Privacy of the selection for every epsilon")(
    at_any_epsilon(of_all, (c1, c2)),
    "T gradients of sensitivity 2G/n and T Hessians of 2M sqrt(d)/n, released with the printed noise, are one Gaussian "
    "of z = 2 epsilon sqrt((1/c_1 + 1/c_2)/log(1/delta)); the theorem asks for epsilon > 0 only.",
    Severity.EDGE(
        "As in Theorem 2: no constants c_1, c_2 serve for all epsilon. For epsilon <= log(1/delta) the constant 12 + 8 "
        "sqrt(2) = 23.3 is enough for both.",
        at_small_epsilon({multiplier: of_all.xreplace(dict.fromkeys((c1, c2), 12 + 8 * sqrt(2)))}, enough_of),
    ),
)

of_one = 2 * epsilon / sqrt(c1 * log(1 / delta))
enough = symbol("epsilon_enough", "privacy loss that is not exceeded", latex="\\epsilon_{enough}")
at("thm2.privacy", "Theorem 2, with Algorithm 2, line 5", "Privacy of a fresh gradient for every epsilon")(
    at_any_epsilon(of_one, (c1,)),
    "The printed noise makes z = 2 epsilon/sqrt(c_1 log(1/delta)); the theorem asks for epsilon > 0 only.",
    Severity.EDGE(
        "No constants c_1, c_2 serve for all epsilon: it takes epsilon of order log(1/delta) at most. For epsilon <= "
        "log(1/delta) the constant 6 + 4 sqrt(2) = 11.7 is enough.",
        at_small_epsilon({multiplier: of_one, c1: 6 + 4 * sqrt(2)}, enough),
    ),
)
