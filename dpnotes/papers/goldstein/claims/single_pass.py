"""Section 3: one pass."""

from sympy import Integer, Rational, sqrt

from dpnotes.papers.goldstein import calculators as calculate
from dpnotes.papers.goldstein.claims.introduction import n31, sample_size, single, single_origin
from dpnotes.papers.goldstein.claims.terms import *
from dpnotes.papers.goldstein.notation import *
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Choice, Rate
from dpnotes.theory.statements import Identity

at, CLAIMS = PAPER.section()

at("thm3.1.rate", "Theorem 3.1", "Sample size of one pass")(
    sample_size(n31, single), single_origin, calculation=calculate.SINGLE_PASS
)

errors = {"reset": L / sqrt(B1), "increments": L * D * sqrt(d * period) / (alpha * sqrt(B2)), "tree": sigma * root}
accuracies = {
    "sampling": (Phi * L**2 * root / (n * alpha)) ** third,
    "privacy": sqrt(Phi * d * L / (n * alpha * epsilon)),
    "both": (Phi**2 * L**3 * d ** Rational(3, 2) / (n**2 * alpha**2 * epsilon)) ** Rational(1, 5),
}
accuracy = accuracies["sampling"] + accuracies["privacy"]
choice_counts = {name: COUNTS[name] for name in ("Sigma >= 1", "B1 >= 1")}
enough_samples = {
    "sampling error <= L": Phi * root / (n * alpha * L),
    "private error <= L": Phi * d / (n * alpha * epsilon * L),
}
at("thm3.1.parameters", "Theorem 3.1", "Parameters of one pass")(
    Choice(
        {T: n, D: MOVE, period: PERIOD_PRINTED, B1: period, B2: Integer(1), M: alpha / (4 * D), sigma: SIGMA_PRINTED},
        {"descent": Phi / (D * T), "regret": L / sqrt(M), **errors},
        accuracy,
        {**SAMPLES, **choice_counts, "M >= 1": 1 / M, **NOISE_PER_COORDINATE},
        enough_samples,
    ),
    "The terms of Theorem 3.1's proof at its parameters, against the accuracy that n samples give; for n so large "
    "that this is at most L.",
    calculation=calculate.SINGLE_PASS_PARAMETERS,
)

m_printed = d**2 * B1**2 + d * alpha**2 * B2**2 / D**2
sensitivities = L / B1 + L * root * D / (alpha * B2)
at("thm3.1.m", "Theorem 3.1", "Directions of one pass")(
    Choice(
        {period: PERIOD, B1: period, B2: Integer(1), m: m_printed},
        {"error of the directions": L * d / sqrt(m)},
        sensitivities,
        regime={"Sigma >= 1": D * root / alpha},
    ),
    "Lemma 3.4: the error of the directions must not exceed the sensitivities of exact smoothed gradients.",
)

at_period = {B1: period, B2: Integer(1)}
final = {name: term.xreplace(at_period) for name, term in BOUND.items()}
oracle_error = L / sqrt(period) + L * D * sqrt(d * period) / alpha
oracle_error = oracle_error + L * root / (period * epsilon) + L * D * d / (alpha * epsilon)
at("thm3.1.bound", "Section 3, proof of Theorem 3.1, display below eq. (9)", "Bound before tuning")(
    Rate(norm, Phi / (D * T) + L * sqrt(D / alpha) + oracle_error, final, tilde=True),
    "Proposition 2.6 and Lemmas 3.4 and 3.6 with B1 = Sigma, B2 = 1.",
)

at_most_n = {"samples": T / n, **{name: COUNTS[name] for name in ("Sigma >= 1", "M >= 1")}}
at("thm3.1.accuracy", "Section 3, proof of Theorem 3.1", "Accuracy of one pass")(
    Rate(norm, accuracy, final, (D, period, T), at_most_n, enough_samples, tilde=True),
    "The bound before tuning, minimised over D, Sigma and T <= n. The third printed term is between these two.",
    calculation=calculate.SINGLE_PASS_ACCURACY,
)
mixed = {name: final[name] for name in ("descent", "increments", "noise of the reset")}
at("thm3.1.accuracy.third", "Section 3, proof of Theorem 3.1", "Third term of the accuracy of one pass")(
    Rate(norm, accuracies["both"], mixed, (D, period, T), {"samples": T / n}, tilde=True),
    "Descent, the sampling of increments and the noise of resets, minimised over D, Sigma and T <= n.",
)
third_term = Phi * L ** Rational(3, 2) * d ** Rational(3, 4) / (sqrt(epsilon) * alpha * beta ** Rational(5, 2))
at("thm3.1.third", "Section 3, proof of Theorem 3.1", "Third term of the sample size of one pass")(
    sample_size(third_term, {"both": accuracies["both"] / beta}, (n,)),
    "The third term of the accuracy at most beta, solved for n.",
)
at("thm3.1.mean", "Section 3, end of the proof of Theorem 3.1", "The third term is negligible")(
    Inequality(third_term, n31, {d: (1, 1e4), epsilon: (1e-2, 1e2), alpha: (0.01, 1), beta: (0.01, 1)}),
    "The square of the third term is the product of the other two, so that it is at most half their sum.",
)
at("eq6", "eq. (6)", "Initial gap of the smoothed objective")(
    Inequality(Phi + L * alpha, 2 * Phi, where={alpha: u * Phi / L}),
    "Smoothing raises F(x_0) by at most L alpha and lowers no infimum; alpha = u Phi/L with u <= 1.",
)
at("eq7", "eq. (7)", "Second moment of the oracle")(
    Rate(G1, G0 + L, {"error": G0, "gradient": L}),
    "Lemma 3.6: the second bound is the first with L^2, the square of the true gradient, added.",
)
with_error = {"descent": Phi / (D * T), "regret": (G0 + L) / sqrt(M), "error": G0}
at("eq8", "eq. (8)", "Bound with the oracle's error")(
    Rate(norm, Phi / (D * T) + L / sqrt(M) + G0, with_error, regime={"M >= 1": 1 / M}), "Equation (7) in equation (6)."
)

sampled = {  # squared errors of Lemma 3.6, for a single sample and a single direction
    "reset": L**2 / B1,
    "directions at the reset": (d * L) ** 2 / m / B1,
    "increments": period * (root * L / alpha * 2 * D) ** 2 / B2,
    "directions of increments": period * (d * L) ** 2 / m / B2,
    "tree": d * sigma**2 * ell_sum,
}
with_noise = {
    **sampled,
    "tree": d * (L / (B1 * epsilon)) ** 2,
    "tree, increments": d * (L * D * root / (alpha * B2 * epsilon)) ** 2,
}
to_directions = {
    "sensitivity to directions at a reset": d * period / sqrt(m),
    "sensitivity to directions of increments": sqrt(d / m) * alpha / D,
}
errors_at_period = {name: sqrt(term).xreplace(at_period) for name, term in with_noise.items()}
at("eq9", "eq. (9)", "Error of the oracle")(
    Rate(G0, oracle_error, errors_at_period, (m,), to_directions, tilde=True),
    "Lemma 3.6 with the noise of Lemma 3.5 and m as large as that lemma wants; logarithms put to 1.",
)
noiseless = {name: term for name, term in SINGLE_PASS.items() if "noise" not in name}
at("remark3.2", "Remark 3.2", "Sample size without privacy")(
    sample_size(Phi * L**2 * root / (alpha * beta**3), noiseless, (n, D, T, period, B1, B2)),
    "Theorem 3.1's terms without noise.",
)
evaluated = {"resets": T / period * 2 * m * B1, "increments": T * 4 * m * B2}
at("remark3.3", "Remark 3.3", "Oracle calls")(
    Rate(calls, T * m, {name: count.xreplace(at_period) for name, count in evaluated.items()}),
    "T/Sigma resets of 2 m B1 evaluations, increments of 4 m B2, with B1 = Sigma and B2 = 1.",
    calculation=calculate.CALLS,
)
of_all = 2 * B1 * (d * L * sqrt(ell_union / m)) / B1
one_reset = {"smoothed gradients": 2 * L / B1, "directions of all samples": of_all}
at("lemma3.4.reset", "Lemma 3.4, first case", "Sensitivity of a reset")(
    Rate(sensitivity, L / B1 + L * d * sqrt(ell_union) / sqrt(m), one_reset),
    "The paper's proof: one smoothed gradient is replaced, and all 2 B1 estimates have errors of their own.",
)
one_increment = {
    "smoothed gradients": 2 * (root * L / alpha) * 2 * D / B2,
    "directions of all samples": 4 * B2 * (d * L * sqrt(ell_union / m)) / B2,
}
at("lemma3.4.increments", "Lemma 3.4, second case", "Sensitivity of an increment")(
    Rate(sensitivity, L * root * D / (alpha * B2) + L * d * sqrt(ell_union) / sqrt(m), one_increment),
    "As at a reset; smoothed gradients are (L sqrt(d)/alpha)-Lipschitz, and points move by at most 2D.",
)
at("lemma3.4.log", "Lemma 3.4, second case", "Logarithm of an increment's sensitivity")(
    Rate(ratio, d * B1 / delta, {"failures": d / (delta / B2)}),
    "A union over the estimates of B2 samples, each of which may fail with probability of the order delta/B2.",
    Severity.TYPOGRAPHICAL(
        "The logarithm of the second case should have B2 in place of B1, as Lemma 6.3 has it.", d * B2 / delta
    ),
)

each_fails = {one_fails: delta / (8 * B1)}
at("lemma3.4.union", "Section 7.1, proof of Lemma 3.4", "Failure probability in the proof")(
    Identity(probability, 1 - delta / 8, 2 * B1 * one_fails, each_fails, example={B1: 10, delta: 0.01}),
    "A union over 2 B1 estimates, each of which fails with probability at most delta/(8 B1).",
    Severity.TYPOGRAPHICAL(
        "Pr[... >= ...] <= 1 - delta/8 should be <= delta/4; the bound inside should be 2L/B1 + 2Ld "
        "sqrt(...)/sqrt(m), and eq. (11) and (16) lack the constant c of Theorem C.2.",
        delta / 4,
    ),
)
at("lemma3.5.m", "Lemma 3.5", "Directions for privacy")(
    Choice({m: ell_union * m_printed}, {"error of the directions": L * d * sqrt(ell_union / m)}, sensitivities),
    "The error of the directions must not exceed the largest sensitivity, for which the noise is made.",
)
at("lemma3.5.log", "Lemma 3.5", "Logarithm in the directions for privacy")(
    Rate(ratio, d * B2 / delta, {"resets": d / (delta / B1), "increments": d / (delta / B2)}),
    "The unions of Lemma 3.4 over B1 samples at a reset and B2 at an increment.",
    Severity.CONSTANT(
        "log(d B2/delta) is too small for resets: with B1 = Sigma > B2 = 1 it should be log(d max(B1, B2)/delta).",
        d * (B1 + B2) / delta,
    ),
)

sigma_lemma = L * sqrt(ell) / (B1 * epsilon) + L * D * sqrt(d * ell) / (alpha * B2 * epsilon)
stated_tree = {"tree": sensitivities * sqrt(ell_sum * ell) / epsilon}
log_wording = (
    "The noise of Proposition 2.5 has a factor sqrt(log Sigma), which the lemma's plain O does not hide: the noise it "
    "states is too small by it. (The theorem's O with a tilde hides it.)"
)
at("lemma3.5.sigma", "Lemma 3.5", "Noise of one pass")(
    Rate(sigma, sigma_lemma, stated_tree),
    "Proposition 2.5 with the sensitivities of Lemma 3.4. (Its delta and that lemma's failures share delta; the O "
    "hides the factor.)",
    Severity.CONSTANT(log_wording, sigma_lemma * sqrt(ell_sum)),
)

one_pass_variance = L**2 / B1 + L**2 * d**2 / (B1 * m) + L**2 * d * D**2 * period / (alpha**2 * B2)
one_pass_variance = one_pass_variance + sigma**2 * d * ell_sum + L**2 * d**2 * period / (m * B2)
at("lemma3.6.error", "Lemma 3.6, first bound", "Error of the oracle of one pass")(
    Rate(variance, one_pass_variance, sampled),
    "Independent samples and directions: a gradient has norm L, an estimate d L, an increment 2D sqrt(d) L/alpha; "
    "there are at most Sigma increments, and the tree adds d sigma^2 log Sigma.",
)
at("lemma3.6.moment", "Lemma 3.6, second bound", "Second moment of the oracle of one pass")(
    Rate(second, one_pass_variance - L**2 / B1 + L**2, {**sampled, "gradient": L**2}, regime={"B1 >= 1": 1 / B1}),
    "The first bound, and the square of the true gradient.",
)
