"""Clients and selection: Section 6, Theorem 3."""

from typing import Any

from sympy import Integer, Rational, exp, log, sqrt

from dpnotes.papers.drift_escape.calculators import SELECTION, SHARED_RATE, SHARED_SAMPLES
from dpnotes.papers.drift_escape.claims.descent import fails
from dpnotes.papers.drift_escape.claims.escape import one_third, probability
from dpnotes.papers.drift_escape.claims.oracle import (
    PROOF_OF_RATES,
    as_read,
    data_noise,
    gaussian_mechanism,
    gaussian_noise,
    level_at_batches,
    level_in_alpha,
    log_delta,
    ones,
    private_error,
    rate_terms,
    rates,
    sampling_error,
    small_errors,
    tuned,
    variance,
)
from dpnotes.papers.drift_escape.notation import *
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Choice, Crossover, Rate
from dpnotes.theory.statements import Identity

at, CLAIMS = PAPER.section()


at("lemma9.sigma", "Lemma 9, eq. (9)", "Data noise of the distributed oracle")(
    data_noise(m), "A mean over m independent clients, each as in Lemma 7.", premises=("lemma7.jump",)
)
at("lemma9.r", "Lemma 9, eq. (9)", "Gaussian noise of the distributed oracle")(
    gaussian_noise(m), "A mean over m clients with independent noise.", premises=("lemma7.jump",)
)

shared = (m * n, sqrt(m) * n * epsilon)
at("eq94", "eq. (94)", "Noise level of the distributed oracle at the printed batches")(
    level_at_batches(*shared, m), "The noise level of Lemma 9 with b_1 and b_2 put in."
)
at("eq95", "eq. (95)", "Noise level of the distributed oracle in terms of alpha")(
    level_in_alpha(*shared), "(94) with eta = sqrt(rho alpha)/M^2 and chi = alpha."
)
rates(at, "thm3", "Appendix F.2", *shared, m, SHARED_RATE, SHARED_SAMPLES)


def of_kind(kind: str) -> dict[str, Any]:
    """Return the rate's conditions for one kind of noise alone (data or privacy), with those of neither kind."""
    other = {"data": ": privacy", "privacy": ": data"}[kind]
    conditions = {name: term for name, term in rate_terms(m).items() if not name.endswith(other)}
    regime = small_errors(*shared)
    return {"terms": {"alpha": alpha}, "tuned": tuned, "constraints": conditions, "regime": regime}


at("remark2.sampling", "Remark 2, first term", "What m clients are worth without privacy")(
    Rate(alpha, sampling_error(m * n), **of_kind("data")),
    "The terms of Theorem 3's proof without those of privacy, from Lemma 9: n examples of each client, noise averaged "
    "over m clients. The balance has m n where one client has n.",
    premises=PROOF_OF_RATES,
)
at("remark2.privacy", "Remark 2, second term", "What m clients are worth under privacy")(
    Rate(alpha, private_error(sqrt(m) * n * epsilon), **of_kind("privacy")),
    "The terms of Theorem 3's proof without those of the data. The balance has sqrt(m) n where one client has n.",
    premises=PROOF_OF_RATES,
)
at("alg4.gradient", "Algorithm 4, line 3", "Noise of a gradient in Algorithm 4")(
    Rate(variance, G**2 * T * log_delta / (n**2 * epsilon**2), gaussian_mechanism(2 * G / n, T)),
    "A mean of n gradients has sensitivity 2G/n; T releases cost sqrt(T).",
)

hessian_variance = symbol(
    "entry variance", "variance of an entry of H", (LOSS / LENGTH**2) ** 2, latex="\\mathrm{var}(H)"
)
at("alg4.hessian", "Algorithm 4, line 4", "Noise of a Hessian in Algorithm 4")(
    Rate(hessian_variance, M**2 * d * T * log_delta / (n**2 * epsilon**2), gaussian_mechanism(2 * M * sqrt(d) / n, T)),
    "The difference of two Hessians has spectral norm 2M/n, so Frobenius norm at most 2M sqrt(d)/n.",
)

allowed = G * sqrt(d * T * log(1 / delta) * log(16 / omega_s)) / (sqrt(m) * n * epsilon)
noise = {sigma1: G * sqrt(c1 * T * log(1 / delta)) / (n * epsilon)}
example = {c1: 9.67, c2: 9.67, omega_s: 0.05, d: 60, m: 1, n: 1000, T: 50, epsilon: 1, delta: 1e-5, G: 1, M: 1}
# By Lemma 10 the error is nSG(2 sqrt(2) sigma_1 sqrt(d/m)); its tail bound is inverted at the probability omega'/8.
tail_of_p, eighth = 2 * sqrt(2) * sigma1 * sqrt(d / m) * sqrt(2 * log(2 / fails)), {fails: omega_s / 8}
tail = tail_of_p.xreplace(eighth)
place = "Algorithm 4, line 7, and Theorem 4, first part"
at("alg4.gradient_threshold", place, "Threshold of the gradient against its noise")(
    Inequality(sigma1 * sqrt(d / m), allowed, where=noise, example=example),
    "The root mean square of the noise, against what the threshold allows for it; c_1 at least 8, as "
    "Definition 7 asks for." + as_read,
    Severity.CONSTANT(
        "The noise carries c_1, the threshold does not: where the noise is more than alpha and the sampling error, "
        "which the threshold allows for too, a critical point is likely rejected unless log(16/omega') >= c_1. Lemma "
        "10 asks for the factor 4 sqrt(c_1) in the threshold. (The noise of the chosen one of T points takes log(16 T/"
        "omega'), see thm4.union.)",
        Inequality(tail, 4 * sqrt(c1) * allowed, where=noise),
    ),
)

allowed_curvature = M * d * sqrt(T * log(1 / delta) * log(32 / omega_s)) / (sqrt(m) * n * epsilon)
curvature_noise = {sigma2: M * sqrt(c2 * d * T * log(1 / delta)) / (n * epsilon)}
# The norm is a sqrt(2)-Lipschitz function of the independent entries, and its mean is at most 2 sqrt(d).
curvature_tail = sigma2 / sqrt(m) * (2 * sqrt(d) + sqrt(2) * sqrt(2 * log(2 / (omega_s / 8))))
mended = 2 * M * sqrt(c2 * d * T * log(1 / delta)) * (sqrt(d) + sqrt(log(16 / omega_s))) / (sqrt(m) * n * epsilon)
at("alg4.hessian_threshold", place, "Threshold of the Hessian against its noise")(
    Inequality(2 * sigma2 * sqrt(d / m), allowed_curvature, where=curvature_noise, example=example),
    "The edge 2 sqrt(d) of the spectrum of a symmetric matrix with independent standard Gaussian entries." + as_read,
    Severity.CONSTANT(
        "The noise carries c_2, the threshold does not: where the noise is more than the other terms of the threshold, "
        "even a zero Hessian is likely rejected unless log(32/omega') >= 4 c_2. 2 sigma_2 (sqrt(d) + "
        "sqrt(log(16/omega')))/sqrt(m) is exceeded with probability omega'/8 at most, for a fixed point; for the "
        "chosen one of T points log(16 T/omega') stands for log(16/omega') (thm4.union).",
        Inequality(curvature_tail, mended, where=curvature_noise),
    ),
)

# ---------------------------------------------------------------- Theorem 4, second part
may_fail = symbol("p_o", "how often a bound may fail for one candidate, so that all hold with 1 - omega'/2")
of_each = 1 - (1 - omega_s / 2) ** (1 / T)
box, example = {omega_s: (1e-9, 0.5), T: (1, 1000)}, {omega_s: 0.1, T: 100}
at("thm4.union", "Appendix F.3, (114) to (121)", "Bounds of a point that is chosen by its noise")(
    Inequality(of_each, omega_s / 2, box, ">=", example=example, subject=may_fail),
    "(114) to (117) follow 'the same arguments as for x_p', a fixed point, with probability 1 - omega'/2. But x_o is "
    "the first of T candidates whose noisy values pass: where a bound fails with probability p for each of them, "
    "independently, it fails for some with 1 - (1 - p)^T, which is to be at most omega'/2.",
    Severity.PROOF(
        "A union bound over the T candidates is missing: omega'/(2T) for omega'/2, so that log(T/omega') stands for "
        "log(1/omega') in (114) to (121), with data S_j that the candidates do not depend on. The thresholds of "
        "Algorithm 4 serve the fixed x_p of the first part, and may stay; (10) hides the logarithm.",
        omega_s / (2 * T),
    ),
)

deviation = symbol("deviation", "error of a gradient of all data", LOSS / LENGTH)
dev = symbol("log(d/omega')", "the logarithm of d/omega'", domain=FROM_ONE, latex="\\log\\frac{d}{\\omega'}")
averaged = {"Lemma 11": sqrt(m * (2 * G / (m * sqrt(n))) ** 2 * dev)}
at("eq96", "eq. (96)", "Error of a gradient of all data")(
    Rate(deviation, G * sqrt(dev) / (sqrt(m * n) * epsilon), averaged),
    "m independent deviations of scale 2G/sqrt(n), averaged. (Read as it stands; with sqrt(m) n epsilon, as "
    "elsewhere, it would not follow either.)",
    Severity.TYPOGRAPHICAL(
        "There is no epsilon in an error of sampling; (104) and Algorithm 4 have none.", G * sqrt(dev) / sqrt(m * n)
    ),
)

example = {sigma1: 1, m: 1, d: 100, omega_s: 0.1}
at("eq97", "eq. (97), first bound", "Norm of the noise of a gradient")(
    Identity(deviation, sqrt(2 * sigma1**2 * log(16 / omega_s) / m), tail_of_p, eighth, example=example),
    "Lemma 10 and Definition 6 at the probability omega'/8.",
    Severity.CONSTANT(
        "sqrt(d) is missing (the next member has it), and Lemma 10 gives another factor 2 sqrt(2). What the bound is "
        "for is theta_p, not xi_p.",
        4 * sigma1 * sqrt(d * log(16 / omega_s) / m),
    ),
)

num_examples = symbol("k", "number of examples m n")
log_8d = symbol("l", "log(8d/omega')", latex="\\log\\frac{8d}{\\omega'}")
left = 4 * M**2 * num_examples  # t^2/(2 l) - sigma^2, with t^2 = 16 M^2 k l and sigma^2 = 4 M^2 k
at("thm4.condition", "Theorem 4, and above (98)", "Examples that the Hessian's deviation needs")(
    Crossover(left, 2 * M * (4 * M * sqrt(num_examples * log_8d)) / 3, num_examples, Rational(4, 9) * log_8d),
    "Lemma 14 with the printed t, sigma^2 and B = 2M has the exponent l = log(8d/omega') or more exactly when t^2/(2 "
    "l) - sigma^2 >= B t/3; k stands for m n.",
)

needed = symbol("l", "exponent of Lemma 14")
at("eq98", "eq. (98) and (99)", "Logarithm that the deviation of a Hessian needs")(
    Identity(needed, log(8 * d / omega_s), -log(omega_s / 8 / (2 * d)), example={d: 10, omega_s: 0.1}),
    "2d e^-l is to be omega'/8, where l is the exponent of Lemma 14 at m n = (4/9) l, and 2d the factor that a norm "
    "needs.",
    Severity.CONSTANT(
        "The norm needs 2d: with the printed t the probability is omega'/4. log(16d/omega') for log(8d/omega'), in t "
        "and in the condition, repairs it for a fixed point; for that which "
        "is chosen out of T, log(16 T d/omega') (thm4.union).",
        log(16 * d / omega_s),
    ),
)
at("eq100", "eq. (100)", "Probability that the noise of the Hessian is large")(
    Identity(probability, omega_s / 8, 4 * exp(-(needed**2)), {needed: sqrt(log(32 / omega_s))}),
    "Lemma 15 at t = sqrt(log(32/omega')).",
)

error_out = symbol("alpha_out", "error of the selected point", GRADIENT, latex="\\alpha'")
scale, count = sqrt(m) * n * epsilon, m * n
gradient = alpha + G / sqrt(count) + G * sqrt(d * T) / scale
steps = {T: M**2 * U / (sqrt(rho) * alpha ** Rational(5, 2))}
curvature = (sqrt(rho * alpha) + M / sqrt(count) + M * d * sqrt(T) / scale) ** 2 / rho
sampled = alpha + 1 / count + 1 / sqrt(count) + alpha / sqrt(count)
private = sqrt(d) / (scale * alpha ** Rational(5, 4)) + d / (scale * alpha ** Rational(3, 4))
private += d**2 / (m * n**2 * epsilon**2 * alpha ** Rational(5, 2))
bounds, small = {"gradient": gradient.xreplace(steps), "curvature": curvature.xreplace(steps)}, {"alpha <= 1": alpha}
at("thm4", "Theorem 4, eq. (10)", "Error of the selected point")(
    Rate(error_out, sampled + private, bounds, regime=small, normalised=ones, tilde=True),
    "The gradient bound (120), and the square of the curvature bound (121) over rho, at T = M^2 U/(sqrt(rho) "
    "alpha^(5/2)). Cross terms of the square are at most the larger of their two squares." + as_read,
    calculation=SELECTION,
)

cross = symbol("cross term", "of the square of the curvature error", latex="cross")
square = symbol("square", "one of the squares of (10)")
at("thm4.cross.sampling", "eq. (10), fourth term", "Cross term of alpha and the deviation of the Hessian")(
    Identity(cross, a / sqrt(m * n), sqrt(a * square), {square: 1 / (m * n)}, example={a: 0.01, m: 1, n: 10**4}),
    "A cross term is the geometric mean of two squares, here of alpha and 1/(m n).",
    Severity.TYPOGRAPHICAL(
        "sqrt(alpha)/sqrt(m n); up to constants nothing changes, since a cross term is at most the larger of its two "
        "squares.",
        sqrt(a) / sqrt(m * n),
    ),
)
by_noise = {square: d**2 / (data**2 * a ** Rational(5, 2))}
at("thm4.cross.privacy", "eq. (10), sixth term", "Cross term of alpha and the noise of the Hessian")(
    Identity(cross, d / (data * a ** Rational(3, 4)), sqrt(a * square), by_noise),
    "The geometric mean of alpha and the last term of (10)." + as_read,
)

example = {a: 0.01, m: 1, n: 10**4, data: 10**4, d: 10}
at("thm4.cross.third", "eq. (10)", "Cross term of the deviation and the noise of the Hessian")(
    Identity(cross, Integer(0), sqrt(square / (m * n)), by_noise, example=example),
    "The geometric mean of 1/(m n) and the last term of (10), which has seven terms and not this one." + as_read,
    Severity.TYPOGRAPHICAL(
        "The third cross term of the square, d/(sqrt(m) n epsilon alpha^(5/4) sqrt(m n)), is missing in (10). Up to "
        "constants nothing changes, since it is at most the larger of its two squares, which are there.",
        d / (data * a ** Rational(5, 4) * sqrt(m * n)),
    ),
)

learned = (sqrt(d) / data) ** Rational(2, 5)
SELECTED_FROM = ("thm3",)  # the accuracy of the candidates
at("remark3.gradient", "Remark 3, first condition", "Dimension up to which noisy gradients can be selected from")(
    Crossover(sqrt(d) / (data * learned ** Rational(5, 4)), learned, d, data**2),
    "The fifth term of (10) against alpha = (sqrt(d)/(sqrt(m) n epsilon))^(2/5)." + as_read,
    premises=SELECTED_FROM,
)
title = "Dimension up to which noisy Hessians can be selected from"
at("remark3.cross", "Remark 3, second condition", f"{title}, by the cross term")(
    Crossover(d / (data * learned ** Rational(3, 4)), learned, d, data ** Rational(6, 13)),
    "The sixth term of (10) against alpha = (sqrt(d)/(sqrt(m) n epsilon))^(2/5)." + as_read,
    premises=SELECTED_FROM,
)
at("remark3.hessian", "Remark 3, third condition", title)(
    Crossover(d**2 / (data**2 * learned ** Rational(5, 2)), learned, d, data ** Rational(6, 13)),
    "The last term of (10) against alpha = (sqrt(d)/(sqrt(m) n epsilon))^(2/5).",
    premises=SELECTED_FROM,
)

dimension = symbol("d", "dimension, as a real number")
chosen = {dimension: scale ** Rational(6, 13), a: count**-one_third + (sqrt(dimension) / scale) ** Rational(2, 5)}
terms = {
    "gradient": sqrt(dimension) / (scale * a ** Rational(5, 4)),
    "cross": dimension / (scale * a ** Rational(3, 4)),
    "Hessian": dimension**2 / (scale**2 * a ** Rational(5, 2)),
}
at("remark3", "Remark 3", "Dimension up to which selection costs nothing")(
    Choice(chosen, terms, a, regime={"m n^2 epsilon^2 >= 1": scale**-2}),
    "At the printed dimension every term of (10) is at most alpha, now with its sampling part: the condition "
    "is sufficient. It is necessary only where the privacy part of alpha is the larger one." + as_read,
    calculation=SELECTION,
    premises=SELECTED_FROM,
)
