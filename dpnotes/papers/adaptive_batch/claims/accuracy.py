"""Lemmas 3.9 and 3.10, Theorem 3.11, and Appendix A.2."""

from typing import Any

from sympy import Max, Min, Rational, sqrt

from dpnotes.papers.adaptive_batch.calculators import CROSSOVER, SAMPLE_SIZE, THEOREM
from dpnotes.papers.adaptive_batch.claims.descent import change, progress
from dpnotes.papers.adaptive_batch.claims.introduction import chosen, ground_origin, ground_up, small_noise, steps
from dpnotes.papers.adaptive_batch.claims.oracles import batch, reached
from dpnotes.papers.adaptive_batch.notation import *
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Choice, Crossover, Rate

at, CLAIMS = PAPER.section()


# ---------------------------------------------------------------- Lemmas 3.9 and 3.10, Theorem 3.11
example = {eta: 1, gamma: 1, share: 1, stretch: 1}
large = {g: stretch * gamma, error: share * gamma}
at("lemma3.9.large", "Lemma 3.9, proof", "Decrease where the noisy gradient is at least gamma")(
    Inequality(progress, -eta * g**2 / 16, where=large, example=example, subject=change),
    "Lemma 3.2's first inequality with errors up to gamma, as Lemma 3.8 gives them.",
    Severity.CONSTANT(
        "Lemma 3.2 needs errors of at most a quarter of the threshold. At g = gamma, F may increase by eta gamma^2/2; "
        "from g = 3 gamma on it decreases by eta g^2/6. The set S should be that of norms at most 3 gamma; eq. (2) "
        "remains.",
        Inequality(progress, -eta * g**2 / 6, where={g: 3 * stretch * gamma, error: share * gamma}, subject=change),
    ),
)
small = {g: other_share * gamma, error: share * gamma}
at("lemma3.9.small", "Lemma 3.9, proof", "Increase where the noisy gradient is at most gamma")(
    Inequality(progress, eta * gamma**2, {other_share: (1e-3, 1)}, where=small, subject=change),
    "Lemma 3.2's first inequality.",
)
step_lengths = {
    "large steps, squares over gamma": (B / eta / gamma).subs(eta, 1 / M),
    "small steps, at most gamma each": steps[gamma] * gamma,
}
at("eq2", "eq. (2)", "Length of the path")(
    Rate(path, B * M / gamma, step_lengths, tilde=True),
    "The squares of the large steps sum to B/eta; T = B M/gamma^2 steps in all.",
    premises=("prop3.4.T",),
)

total = SYMBOLS.symbol("N", "number of examples used")
printed_total = b * B * M / (kappa * gamma) + B * M * (sqrt(d) / (gamma**2 * epsilon) + kappa / gamma**3 + 1 / gamma**2)
path_lengths = {accuracy: B * M / accuracy for accuracy in (alpha, gamma)}
batch_per_gradient = {accuracy: noise / accuracy + kappa / accuracy**2 for accuracy in (alpha, gamma)}
calls = {
    "first call of O1": b,
    "later calls of O1": b * path_lengths[gamma] / kappa,
    "O2": batch_per_gradient[gamma] * path_lengths[gamma],
    "an example a step": steps[gamma],
}
at("lemma3.9", "Lemma 3.9", "Number of examples")(
    Rate(total, printed_total, calls, tilde=True),
    "O1 is asked at the start, and whenever the path has grown by kappa; O2 takes b_t at each step.",
    Severity.RATE(
        "The first call of O1 is not counted: the drift begins at kappa, so that b examples are used whatever the "
        "path. The other calls cover it only if kappa <= B M/gamma.",
        b + printed_total,
    ),
    premises=("eq2",),
)


def alone(value: Any, count: Any, threshold: Any = kappa) -> Rate:
    """Return the rate for alpha from one of the requirements on n, at one branch of kappa."""
    count = (count / n).xreplace({kappa: threshold})
    return Rate(alpha, value, {"alpha": alpha}, (alpha,), {"count": count}, tilde=True)


bgm = (B * G * M) ** third
queries = path_lengths[alpha] / kappa
at("lemma3.10.O1_private", "Lemma 3.10, proof, First", "Private part of O1")(
    alone(bgm * sqrt(p), G * noise / alpha * queries, bgm),
    "The first term of b, with kappa >= (B G M)^(1/3).",
    premises=("eq2",),
)
at("lemma3.10.O1_sampling", "Lemma 3.10, proof, First", "Sampling part of O1")(
    alone((B * M) ** Rational(2, 9) * G ** Rational(5, 9) / n**third, G**2 / alpha**2 * queries, bgm),
    "The second term of b, with kappa >= (B G M)^(1/3).",
    premises=("eq2",),
)
at("lemma3.10.O2_private", "Lemma 3.10, proof, Secondly", "Private part of O2")(
    alone(sqrt(B * M) * sqrt(p), noise / alpha * path_lengths[alpha]),
    "The first term of b_t over the path.",
    premises=("eq2",),
)
at("lemma3.10.O2_sampling", "Lemma 3.10, proof, Thirdly", "Sampling part of O2")(
    alone((B * M) ** Rational(4, 9) * G ** Rational(1, 9) / n**third, kappa / alpha**2 * path_lengths[alpha], bgm),
    "The second term of b_t over the path, where kappa = (B G M)^(1/3).",
    premises=("eq2",),
)
at("lemma3.10.O2_drift", "Lemma 3.10, proof, Thirdly", "Sampling part of O2 where kappa is private")(
    alone(sqrt(B * M) * sqrt(p), kappa / alpha**2 * path_lengths[alpha], alpha * noise),
    "The second term of b_t over the path, where kappa = alpha sqrt(d)/epsilon.",
    premises=("eq2",),
)
at("lemma3.10.steps", "Lemma 3.10, proof, Finally", "At least one example a step")(
    alone(sqrt(M * B) / sqrt(n), steps[alpha]), "T examples.", premises=("prop3.4.T",)
)

printed_private = (bgm + sqrt(B * M)) * sqrt(p)
of_O1, of_O2 = (B * M) ** Rational(2, 9) * G ** Rational(5, 9), (B * M) ** Rational(4, 9) * G ** Rational(1, 9)
printed_sampling = (of_O1 + of_O2) / n**third
printed_rate = printed_private + printed_sampling + sqrt(M * B) / sqrt(n)
printed_kappa = Max(alpha * noise, bgm)
later_queries = {
    "O1": batch * path_lengths[alpha] / kappa / n,
    "O2": batch_per_gradient[alpha] * path_lengths[alpha] / n,
    "an example a step": steps[alpha] / n,
}
at("lemma3.10.kappa", "Lemma 3.10", "Drift threshold")(
    Choice({alpha: printed_rate, kappa: printed_kappa}, {"alpha": alpha}, printed_rate, later_queries),
    "Every count of Lemma 3.9 as printed is at most n at the printed alpha and kappa.",
    premises=("lemma3.9",),
)

tuned = {"terms": {"alpha": alpha}, "tuned": (alpha, kappa)}
at("lemma3.10.alpha", "Lemma 3.10", "Accuracy from the counts of Lemma 3.9")(
    Rate(alpha, printed_rate, constraints=later_queries, **tuned),
    "The best balance of the counts of Lemma 3.9 as printed, over alpha and kappa.",
    calculation=SAMPLE_SIZE,
    premises=("lemma3.9",),
)

# Every x_0 has a gradient of norm below sqrt(2 B M), so only smaller accuracies are informative.
below_start = {"G/sqrt(n) <= sqrt(B M)": G / sqrt(n * B * M), "G p <= sqrt(B M)": G * p / sqrt(B * M)}
ground = {"terms": {"alpha": alpha}, "tuned": (alpha, *chosen)}
first_query = G * p + G / sqrt(n)
needed_rate = printed_rate + first_query
at("thm3.11.alpha", "Theorem 3.11", "Accuracy")(
    Rate(alpha, printed_rate, constraints=ground_up, regime=below_start, **ground),
    f"{ground_origin}. Where G/sqrt(n) and G p are below sqrt(B M), which bounds the gradient at x_0.",
    Severity.RATE(
        "The first call of O1 takes b examples, so that alpha >= G/sqrt(n) and alpha >= G sqrt(d)/(n epsilon) are "
        "needed, too. They are not implied where G is large against sqrt(B M): for G = n^(7/16) sqrt(B M), G/sqrt(n) "
        "is n^(-1/16) sqrt(B M), more than the n^(-13/144) sqrt(B M) that is printed. With constants put to 1 (Remark "
        "3.12) nothing changes. (And O should be O~.)",
        Rate(alpha, needed_rate, constraints=ground_up, **ground),
    ),
    calculation=THEOREM,
    premises=("prop3.4.T",),
)

counts = {"first O1": batch / n, **later_queries}
at("thm3.11.kappa", "Theorem 3.11", "Drift threshold, first call of O1 included")(
    Choice({alpha: printed_rate, kappa: printed_kappa}, {"alpha": alpha}, printed_rate, counts, below_start),
    "Every count is at most n at the printed alpha and kappa.",
    Severity.RATE(
        "The first call of O1 breaks the count, as for alpha; with alpha larger by G/sqrt(n) + G sqrt(d)/(n epsilon) "
        "it does not.",
        Choice({alpha: needed_rate, kappa: printed_kappa}, {"alpha": alpha}, needed_rate, counts),
    ),
    premises=("prop3.4.T",),
)
at("thm3.11.b", "Theorem 3.11", "Batch size of the first oracle")(
    Choice({b: G * (sqrt(d) / (epsilon * alpha) + 1 / alpha**2)}, reached, alpha),
    "As in Lemma 3.8.",
    Severity.TYPOGRAPHICAL(
        "G/alpha^2 has a unit, and should be G^2/alpha^2, as in Lemma 3.8; with G/alpha^2 the sampling error would be "
        "sqrt(G) alpha.",
        G * sqrt(d) / (epsilon * alpha) + G**2 / alpha**2,
    ),
)

normalised = {**ground, "regime": small_noise, "normalised": (B, G, M)}
at("remark3.12", "Remark 3.12, abstract and Section 1.1", "Accuracy with constants put to 1")(
    Rate(alpha, sqrt(p) + n**-third, constraints=ground_up, **normalised, tilde=True),
    f"{ground_origin}. At B = G = M = 1, for p <= 1; the rate quoted for an FOSP is the same.",
    calculation=CROSSOVER,
    premises=("prop3.4.T",),
)

# ---------------------------------------------------------------- Appendix A.2
gradient, hessian = (SYMBOLS.symbol(f"Delta_{k}", f"deviation of the {k}") for k in ("gradient", "Hessian"))
uniform = sqrt(d / n)
gradients_off = {"concentration on the net": G * sqrt(d * ell / n), "off the net": M * distance}
hessians_off = {"concentration on the net": M * sqrt(d * ell / n), "off the net": rho * distance}
at("thmA.2.gradient", "Theorem A.2", "Uniform deviation of gradients")(
    Rate(gradient, G * uniform, gradients_off, (distance,), logs=(ell,)),
    "eq. (3) and the distance r to the net, which may be taken small: it is hidden in ell = log(R/r). The last line of "
    "the proof has the factor G (written L); the theorem leaves it out.",
)
at("thmA.2.hessian", "Theorem A.2", "Uniform deviation of Hessians")(
    Rate(hessian, uniform, hessians_off, (distance,), logs=(ell,), normalised=(M,)), "As for gradients."
)

nets = {"gradient on the net": M * distance / G, "Hessian on the net": rho * distance / M}
at("thmA.2.net", "Theorem A.2, proof", "Width of the net")(
    Choice({distance: Min(1, M / rho) * uniform}, nets, uniform),
    "Off the net gradients move by M r and Hessians by rho r, which should be at most sqrt(d/n) times G and M.",
    Severity.TYPOGRAPHICAL(
        "min{1, M/rho} compares a number with a length. min{G/M, M/rho} is what both lines need; as the proof writes "
        "L for G, the gradient line needs r <= (L/M) sqrt(d/n).",
        Min(G / M, M / rho) * uniform,
    ),
)

within = {"d <= n": d / n}
last_line = {"on the net": M * uniform, "off the net": rho * distance}
at("thmA.2.hessian_line", "Theorem A.2, proof, last line", "Hessian off the net")(
    Rate(hessian, (M + rho * distance) * uniform, last_line, regime=within, tilde=True),
    "Concentration on the net, and Lipschitz Hessians off it.",
    Severity.TYPOGRAPHICAL(
        "(M + rho r) sqrt(d/n) should be M sqrt(d/n) + rho r; with r <= (M/rho) sqrt(d/n) the result is the same.",
        M * uniform + rho * distance,
    ),
)

empirical = {
    "empirical SOSP": p ** Rational(2, 3) / alpha,
    "gradient": G * uniform / alpha,
    "Hessian": M**2 * d / n / (rho * alpha),
}
last_formula, ones = sqrt(d) / n + p ** Rational(2, 3), (G, M, rho)
at("secA.2.alpha", "Appendix A.2, last formula", "From empirical to population SOSP")(
    Rate(alpha, last_formula, {"alpha": alpha}, (alpha,), empirical, within, normalised=ones, tilde=True),
    "The quoted empirical rate p^(2/3), and Theorem A.2: the gradient adds sqrt(d/n), the Hessian needs sqrt(rho "
    "alpha) >= M sqrt(d/n).",
    Severity.RATE(
        "sqrt(d)/n should be sqrt(d/n), which is what Theorem A.2 gives for the gradient (and what Section 4 says).",
        uniform + p ** Rational(2, 3),
    ),
)
at.own("net_private", "Where the net's deviation is below the private term")(
    Crossover(uniform, sqrt(p), d, epsilon**-2),
    "The corrected Appendix A.2 beats the private term of Theorem 3.11 only for d < epsilon^(-2) (constants 1).",
)
at.own("net_hessian", "Where the Hessian decides in the corrected Appendix A.2")(
    Crossover(G * uniform, M**2 * d / (rho * n), n, d * M**4 / (rho * G) ** 2),
    "The gradient needs alpha >= G sqrt(d/n), the Hessian alpha >= M^2 d/(rho n), which is more for smaller n.",
)
at.own("net_sampling", "Where the net's deviation is below the sampling term")(
    Crossover(uniform, n**-third, d, n**third), "And the sampling term only for d < n^(1/3)."
)
