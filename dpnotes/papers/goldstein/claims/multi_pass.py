"""Sections 4 to 6: many passes, generalisation, first-order oracles."""

from collections.abc import Mapping

from sympy import Expr, Integer, Max, Min, Rational, expand, log, sign, sqrt

from dpnotes.papers.goldstein import calculators as calculate
from dpnotes.papers.goldstein.claims.introduction import general, multi_origin, n31, sample_size
from dpnotes.papers.goldstein.claims.single_pass import (
    accuracies,
    enough_samples,
    errors,
    log_wording,
    m_printed,
    sigma_lemma,
    stated_tree,
)
from dpnotes.papers.goldstein.claims.terms import *
from dpnotes.papers.goldstein.notation import *
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Choice, Rate
from dpnotes.theory.statements import Identity

at, CLAIMS = PAPER.section()


# ---------------------------------------------------------------- Section 4
n41 = sqrt(Phi) * L * d ** Rational(3, 4) / (epsilon * sqrt(alpha) * beta ** Rational(3, 2))
at("thm4.1.rate", "Theorem 4.1", "Sample size of many passes")(
    sample_size(n41, MULTI_PASS, (n, D, T, period), logs=(ell,)), multi_origin, calculation=calculate.MULTI_PASS
)

sigmas = {sigma1: L * sqrt(T * ell / period) / (n * epsilon), sigma2: L * D * sqrt(T * d * ell) / (alpha * n * epsilon)}
multi_terms = {
    "descent": Phi / (D * T),
    "regret": L * sqrt(D / alpha),
    "noise of the reset": sigma1 * root,
    "noise of increments": sigma2 * sqrt(d * period),
}


def multi_parameters(move: Expr, steps: Expr, directions: Expr, regime: Mapping[str, Expr]) -> Choice:
    """Return the parameters of Theorem 4.1 for a given largest move, number of steps and number of directions."""
    return Choice(
        {n: n41 * sqrt(ell), D: move, T: steps, period: PERIOD, **sigmas, m: directions},
        {**multi_terms, "directions": L * d * sqrt(period / (m * n))},
        beta,
        {"Sigma >= 1": 1 / period},
        {**REGIME, **regime},
    )


move, steps = alpha * beta**2 / L**2, Phi * L**2 / (alpha * beta**3)
m41 = L**2 * d * period / (n * sigma1**2) + L**2 * d / (n * sigma2**2)
fine = {"beta <= L d^(-1/4)": beta * d ** Rational(1, 4) / L}
at("thm4.1.parameters", "Theorem 4.1, and its proof", "Parameters of many passes")(
    multi_parameters(alpha * move, steps / alpha, m41, fine),
    "The terms of the proof at the printed parameters and n, against beta.",
    Severity.TYPOGRAPHICAL(
        "D = alpha^2 beta^2/L^2 is no length, and T = Phi L^2/(alpha^2 beta^3) no number: from L sqrt(D/alpha) = beta "
        "and Phi/(D T) = beta follow D = alpha beta^2/L^2 and T = Phi L^2/(alpha beta^3). In units with alpha > 1 the "
        "printed D misses beta (alpha = 4, beta = 0.1, L = 1: the second term is 0.2); for alpha < 1 it takes 1/alpha "
        "times too many steps. n depends on D T only, and is right.",
        multi_parameters(move, steps, m41, fine),
    ),
    calculation=calculate.MULTI_PASS_PARAMETERS,
)

least = Min(move, alpha / root)
at("thm4.1.period", "Theorem 4.1", "Period of many passes, once D and T have the right units")(
    multi_parameters(move, steps, m41, {}),
    "The printed D and T with alpha for alpha^2, which thm4.1.parameters corrects; the other parameters as printed, "
    "for every beta <= L.",
    Severity.RATE(
        "Here D and T are those that the units ask for, not those in print. Then Sigma = alpha/(D sqrt d) = "
        "L^2/(beta^2 sqrt d) is a number of steps only where beta <= L d^(-1/4), which the theorem does not assume. "
        "With D = min(alpha beta^2/L^2, alpha/sqrt d) and T = Phi/(D beta) the same n suffices for every beta <= L.",
        multi_parameters(least, Phi / (D * beta), m41, {}),
    ),
)
in_units = {
    name: term.xreplace(sigmas).xreplace({period: PERIOD}).xreplace({T: steps}).xreplace({D: move})
    for name, term in multi_terms.items()
}
accuracy = beta + L * d ** Rational(3, 4) * sqrt(Phi) / (n * epsilon * sqrt(alpha * beta))
at("thm4.1.accuracy", "Section 7.2, proof of Theorem 4.1", "Accuracy of many passes")(
    Rate(norm, accuracy, in_units, logs=(ell,)), "The terms of the proof at D and T in the right units."
)
noises = {name: multi_terms[name].xreplace(sigmas) for name in ("noise of the reset", "noise of increments")}
at("thm4.1.G0", "Section 7.2, proof of Theorem 4.1", "Error of the oracle of many passes")(
    Rate(G0, L * sqrt(D * T) * d ** Rational(3, 4) / (n * epsilon * sqrt(alpha)), noises, (period,), logs=(ell,)),
    "Lemma 4.4's noise, at the best period.",
)
at("remark4.2", "Remark 4.2", "Sample size of many passes for the population")(
    sample_size(n41 + L**2 * d / beta**2, {**MULTI_PASS, **general}, (n, D, T, period), logs=(ell, ell_net)),
    "Theorem 4.1, and a generalisation error of at most beta, which the paper takes from Proposition 5.1 (for smoothed "
    "gradients see own.generalisation).",
    premises=("prop5.1",),
)
of_resets = {"composition": sqrt(T / period) * (L / n) / sigma1 * sqrt(ell) / epsilon}
at("lemma4.3.sigma1", "Lemma 4.3", "Noise of resets")(
    Rate(sigma1, sigmas[sigma1], {"sigma_1": sigma1}, (sigma1,), of_resets),
    "T/Sigma Gaussian releases of sensitivity L/n: sqrt(T/Sigma) (L/n)/sigma_1 is their joint ratio, at most "
    "epsilon/sqrt(ln(1/delta)).",
)
of_increments = {"composition": sqrt(T) * (root * L / alpha * 2 * D / n) / sigma2 * sqrt(ell) / epsilon}
at("lemma4.3.sigma2", "Lemma 4.3", "Noise of increments")(
    Rate(sigma2, sigmas[sigma2], {"sigma_2": sigma2}, (sigma2,), of_increments),
    "T Gaussian releases of sensitivity L sqrt(d) D/(alpha n).",
)

resets, ln = T / period, log(1 / delta)
by_zcdp = sqrt(2 * resets) * L / n / (sqrt(ln + epsilon) - sqrt(ln))
large_loss = {T: 1, period: 1, L: 1, n: 1, epsilon: 1000, delta: 1e-6, c: 10}
at("lemma4.3.epsilon", "Lemma 4.3, and Theorem 4.1", "Noise of resets for a large privacy loss")(
    Inequality(
        sqrt(resets) * 2 * L / n / sqrt(2 * epsilon),
        c * L * sqrt(T * ln / period) / (n * epsilon),
        {epsilon: (1, 1e6), c: (1, 100), n: (1, 1e6), T: (1, 1e6), period: (1, 1e6)},
        example=large_loss,
        subject=sigma1,
    ),
    "T/Sigma Gaussian releases of sensitivity 2L/n have the ratio mu = sqrt(T/Sigma) (2L/n)/sigma_1; as in "
    "prop2.5.epsilon, delta <= 1/4 at epsilon >= 1 takes mu < sqrt(2 epsilon). The O is taken with a constant c.",
    Severity.EDGE(
        "No constant serves for every epsilon > 0, which Theorem 4.1 allows: with the constant 10 and T/Sigma = 1, "
        "delta is 1.0 at epsilon = 1,000. Assume epsilon <= log(1/delta), or take sqrt(T/Sigma) (2L/n) (sqrt(l + "
        "epsilon) + sqrt(l))/(epsilon sqrt 2) with l = ln(1/delta), which always suffices.",
        Identity(sigma1, sqrt(2 * resets) * L / n * (sqrt(ln + epsilon) + sqrt(ln)) / epsilon, by_zcdp),
    ),
)

multi_sensitivity = {
    "sensitivity to directions at a reset": d * n / sqrt(m),
    "sensitivity to directions of increments": sqrt(d / m) * alpha * n / D,
}
multi_noise = sigma1 * root + sigma2 * sqrt(d * period)
few_directions = {period: PERIOD, **sigmas, m: m41}
of_directions = {"directions": L * d * sqrt(period / (m * n))}
whole_steps = {"Sigma >= 1": D * root / alpha, "n >= 1": 1 / n}
at("lemma4.3.m", "Lemma 4.3 and Theorem 4.1", "Directions for privacy of many passes")(
    Choice(few_directions, {"noise": multi_noise, **of_directions}, multi_noise, multi_sensitivity, whole_steps),
    "Lemma 3.4 with B = n, to which the text refers: the errors L d/sqrt(m) of the directions must not exceed the "
    "sensitivities L/n and L sqrt(d) D/(alpha n) for which the noise is made.",
    Severity.PROOF(
        "This m makes the directions' variance as small as the noise (Lemma 4.4), but the proof of privacy is Lemma "
        "3.4 with B = n, which asks for m >= d^2 n^2 and m >= d n^2 alpha^2/D^2 (times a logarithm, with a union "
        "over all T steps). At Phi = L = 1, d = 100, alpha = beta = 0.1, epsilon = 1, delta = 1e-6 and n = 11754 the "
        "printed m is about 1.7e3, those are 1.4e12 and 1.4e14. So the proof does not cover the noise. The "
        "sensitivity is bounded all the same, by 2 L d/n at a reset, since every estimate is at most L d long, and "
        "nothing is known to break at these numbers: for a linear loss the estimate is about (1 + sqrt(d/m))^2 L = "
        "1.5 L long. Clipping each sample's estimate and increment bounds it by what the noise is made for, with few "
        "directions.",
        (PERIOD, *sigmas.values(), m41 + d**2 * n**2 + d * n**2 * alpha**2 / D**2),
    ),
    calculation=calculate.MULTI_PASS_PARAMETERS,
)
at("lemma4.4.m", "Section 7.2, proof of Theorem 4.1", "Directions for accuracy of many passes")(
    Choice(few_directions, of_directions, multi_noise),
    "The first term of Lemma 4.4 against the other two, which is what this m is for.",
)

multi_variance = L**2 * d**2 * period / (m * n) + sigma1**2 * d + sigma2**2 * d * period
multi_sampled = {
    "directions": (period + 1) * (d * L) ** 2 / (m * n),
    "noise of the reset": d * sigma1**2,
    "noise of increments": period * d * sigma2**2,
}
at("lemma4.4.error", "Lemma 4.4, first bound", "Error of the oracle of many passes")(
    Rate(variance, multi_variance, multi_sampled, regime={"Sigma >= 1": 1 / period}),
    "n independent sets of m directions a step, for at most Sigma steps, and the noise of as many.",
)
at("lemma4.4.moment", "Lemma 4.4, second bound", "Second moment of the oracle of many passes")(
    Rate(second, multi_variance + L**2, {**multi_sampled, "gradient": L**2}, regime={"Sigma >= 1": 1 / period}),
    "The first bound, and the square of the true gradient.",
)

# ---------------------------------------------------------------- Sections 5 and 6
deviation = L * sqrt(d * ell_net / n)
net = {"Hoeffding on the net": deviation, "between net points": root * L / alpha * radius}
at("prop5.1", "Proposition 5.1, and eq. (15)", "From the empirical to the population objective")(
    Rate(gap, deviation, {"a flat cell": L / 2}, regime={"n >= d": d / n}, logs=(ell_net,)),
    "One dimension, L = 1: the slope of a sample's loss on each of N cells of the line is 1 with probability 3/4, "
    "else -1, independently. The population has slope 1/2 everywhere; with N large, some cell within alpha has an "
    "empirical slope of at most 0, so that the empirical Goldstein norm is 0, for every n.",
    Severity.RATE(
        "False under Assumption 2.2 alone: the cited uniform convergence (Mei et al. 2018, Theorem 1) needs Hessians, "
        "and gradients of nonsmooth losses do not converge uniformly. The smoothed losses have (L "
        "sqrt(d)/alpha)-Lipschitz gradients; for them the same bound follows from a net of X + B_alpha and "
        "Hoeffding's inequality for vectors. Theorem 4.1's proof bounds the smoothed norm, so that Remark 4.2 stands; "
        "that every empirical Goldstein point generalises does not.",
        Rate(gap_smooth, deviation, net, (radius,), regime={"n >= d": d / n}),
    ),
)
at("sec5.size", "Section 5, below Proposition 5.1", "Samples for generalisation")(
    Rate(n, d / beta**2, {"n": n}, (n,), general, logs=(ell_net,), order="O"),
    "The generalisation error at most beta.",
    Severity.TYPOGRAPHICAL("n = O(d/beta^2) lacks the factor L^2 that Remark 4.2 has.", L**2 * d / beta**2),
)

directions_first = {
    "directions of increments": L * sqrt(period / (B2 * m)) / beta,
    "sensitivity to directions of increments": alpha * B2 / (D * sqrt(d * m)),
}
at("thm6.1.rate", "Theorem 6.1", "Sample size with gradients")(
    sample_size(n31, {**SINGLE_PASS, **directions_first}),
    "As Theorem 3.1, with the directions of Lemmas 6.3 and 6.5.",
    calculation=calculate.SINGLE_PASS_FIRST_ORDER,
)

m_first = B2**2 * alpha**2 / (D**2 * d)
with_gradients = {
    "descent": Phi / (D * T),
    "regret": L / sqrt(M),
    "reset": errors["reset"],
    "increments": errors["increments"],
    "directions of increments": L * sqrt(period / (m * B2)),
    **NOISE,
}
at("thm6.1.parameters", "Theorem 6.1", "Parameters with gradients")(
    Choice(
        {T: n, D: MOVE, period: PERIOD_PRINTED, B1: period, B2: Integer(1), M: alpha / (4 * D), m: m_first},
        with_gradients,
        accuracies["sampling"] + accuracies["privacy"],
        {**SAMPLES, "M >= 1": 1 / M, "privacy": L / sqrt(m) / (L * root * D / (alpha * B2))},
        enough_samples,
    ),
    "The terms of the proof at its parameters, against the accuracy that n samples give.",
    calculation=calculate.SINGLE_PASS_PARAMETERS_FIRST_ORDER,
)
at("eq10", "eq. (10), and the sentence below it", "Mean of the first-order estimator")(
    Identity(mean, (sign(1 + u) + sign(u - 1)) / 2, (1 + u) / 2 - (1 - u) / 2, example={u: half}),
    "d = 1, loss |x| at x = u alpha with u < 1: the mean of the slopes at x + alpha and x - alpha (the sphere), "
    "against the zero-order estimate (|x + alpha| - |x - alpha|)/(2 alpha) = u.",
    Severity.TYPOGRAPHICAL(
        "y ~ Unif(S^{d-1}) should be uniform in the ball, as Algorithm 5 has it: directions on the sphere do not give "
        "the mean of the zero-order estimator, 0 against 1/2 at u = 1/2.",
        Identity(mean, (1 + u) / 2 - (1 - u) / 2, (Max(1 + u, 0) - Max(1 - u, 0)) / 2),
    ),
)

at_period = {B1: PERIOD, B2: Integer(1)}
at("remark6.2", "Remark 6.2, and Section 1.1", "Oracle calls with and without gradients")(
    Rate(ratio, d**2, {"directions": expand((m_printed / m_first).xreplace(at_period))}, order="Omega", tilde=True),
    "The m of Theorem 3.1 over that of Theorem 6.1, with B1 = Sigma = alpha/(D sqrt d) and B2 = 1.",
    calculation=calculate.CALLS,
)
at("lemma6.3.reset", "Lemma 6.3, first case", "Sensitivity of a reset with gradients")(
    Inequality((u + v) * L / B1, L / B1, example={L: 1, B1: 10, u: 1, v: 1}),
    "One of B1 gradients, of norm u L, is replaced by another of norm v L, which may be opposite.",
    Severity.CONSTANT(
        "The exact bound L/B1 should be 2L/B1: f = L x_1 and f = -L x_1. With the logarithms of Proposition 2.5 to "
        "base 2, as those of Algorithm 1, its constant 4 makes up for the factor: at delta = 1e-6 nothing breaks for "
        "epsilon up to 20, whatever the period. (With ln, it would not at a period of 2, from epsilon = 2 on.)",
        2 * L / B1,
    ),
)
one_increment = {
    "smoothed gradients": 2 * (root * L / alpha) * 2 * D / B2,
    "directions of all samples": 4 * B2 * (L * sqrt(ell_union / m)) / B2,
}
at("lemma6.3.increments", "Lemma 6.3, second case", "Sensitivity of an increment with gradients")(
    Rate(sensitivity, L * root * D / (alpha * B2) + L * sqrt(ell_union) / sqrt(m), one_increment),
    "The paper's proof: smoothed gradients are (L sqrt(d)/alpha)-Lipschitz, and a gradient has norm L.",
)
at("lemma6.4.m", "Lemma 6.4, and Theorem 6.1", "Directions for privacy with gradients")(
    Choice({m: ell_union * m_first}, {"error of the directions": L * sqrt(ell_union / m)}, L * root * D / (alpha * B2)),
    "The error of the directions must not exceed the sensitivity of the smoothed increments.",
)
at("lemma6.4.sigma", "Lemma 6.4", "Noise of one pass with gradients")(
    Rate(sigma, sigma_lemma, stated_tree),
    "Proposition 2.5 with the sensitivities of Lemma 6.3.",
    Severity.CONSTANT(log_wording, sigma_lemma * sqrt(ell_sum)),
)

first_variance = L**2 / B1 + L**2 * d * D**2 * period / (alpha**2 * B2) + sigma**2 * d * ell_sum
first_variance = first_variance + L**2 * period / (m * B2)
first_sampled = {
    "reset": L**2 / B1,
    "increments": period * (root * L / alpha * 2 * D) ** 2 / B2,
    "directions of increments": period * L**2 / m / B2,
    "tree": d * sigma**2 * ell_sum,
}
at("lemma6.5.error", "Lemma 6.5, first bound", "Error of the first-order oracle")(
    Rate(variance, first_variance, first_sampled),
    "As Lemma 3.6, with gradients of norm L in place of estimates of norm d L.",
)
at("lemma6.5.moment", "Lemma 6.5, second bound", "Second moment of the first-order oracle")(
    Rate(second, first_variance - L**2 / B1 + L**2, {**first_sampled, "gradient": L**2}, regime={"B1 >= 1": 1 / B1}),
    "The first bound, and the square of the true gradient.",
)
