"""Our own unpublished results on private Goldstein stationarity.

Each has a short proof in docs/derivations/goldstein.md, under the same name, and a check here that could refute it.
"""

from typing import Any

from sympy import Expr, Integer, Min, Rational, Symbol, gamma, pi, sqrt

from dpnotes.papers.goldstein import calculators as calculate
from dpnotes.papers.goldstein.claims.multi_pass import deviation, net
from dpnotes.papers.goldstein.claims.terms import *
from dpnotes.papers.goldstein.notation import *
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Choice, Crossover, Rate
from dpnotes.theory.statements import Identity, Optimum

at, CLAIMS = PAPER.section()


def fewest(value: Expr, tuned: tuple[Symbol, ...], constraints: Named, regime: Named = REGIME, **more: Any) -> Rate:
    """Return the rate of the least of the first tuned symbol."""
    return Rate(tuned[0], value, {tuned[0].name: tuned[0]}, tuned, constraints, regime, **more)


# ---------------------------------------------------------------- parameters of Theorem 3.1
longest = Min(alpha * beta**2 / (L**2 * root), alpha * epsilon * beta / (L * d))
chosen = {D: longest, T: Phi / (D * beta), period: PERIOD, B1: period, B2: Integer(1), n: T}
at.own("parameters", "Two terms suffice for the move, one for the period")(
    Choice(chosen, BOUND, beta, {**SAMPLES, **COUNTS}, REGIME),
    "Theorem 3.1 prints four terms for D and two for Sigma.",
    calculation=calculate.SINGLE_PASS_PARAMETERS,
)
at.own("superfluous.first", "The first term of the move never counts")(
    Identity(ratio, d ** Rational(1, 6), MOVES["a"] / MOVES["d"]),
    "The first over the fourth term of Theorem 3.1's minimum for D.",
)
at.own("superfluous.third", "The third term of the move never counts")(
    Identity(D, MOVES["b"] ** Rational(2, 5) * MOVES["d"] ** Rational(3, 5), MOVES["c"]),
    "A weighted geometric mean of the second and the fourth term, so never the least.",
)

small = L * root / (period * epsilon)
at.own("superfluous.period", "The reset's noise is that of increments")(
    Identity(sigma, L * D * d / (alpha * epsilon), small.xreplace({period: PERIOD})),
    "Noise of a reset at Sigma = B1 = alpha/(D sqrt d), against that of an increment at B2 = 1.",
)

sampling = Phi * L**2 * root / (alpha * beta**3)  # of Theorem 3.1
in_batches = {B1: L**2 / beta**2, B2: root, period: L**2 / (beta**2 * root), n: sampling}
fewer = {D: alpha * beta**2 / L**2, T: Phi / (D * beta), **in_batches}
non_private = {"epsilon >= sqrt(d) beta/L": root * beta / (L * epsilon)}
at.own("steps", "The same sample size with sqrt(d) times fewer steps")(
    Choice(fewer, BOUND, beta, {**SAMPLES, **COUNTS}, {**REGIME, **non_private, "Sigma >= 1": beta**2 * root / L**2}),
    "Theorem 3.1's terms with B2 = sqrt(d); T is then Phi L^2/(alpha beta^3).",
)

# ---------------------------------------------------------------- oracles without variance reduction
block = (2 * D) ** 2 / (2 * eta) + eta * M * G1**2 / 2
total = (Phi + T / M * (block + D * spread * sqrt(M))) / (D * T)
at.own("prop2.6", "Online to nonconvex with a conditionally unbiased oracle")(
    Identity(norm, Phi / (D * T) + (5 * G1 / 2 + spread) / sqrt(M), total.expand(), {eta: D / (G1 * sqrt(M))}),
    "The gap, a block's regret from anywhere in the ball, and D times the norm of the sum of a block's noises, over D "
    "T. Noise enters through 1/sqrt(M), and not as a bias.",
    calculation=calculate.CONVERSION,
)
at.own("prop2.6.step", "A better step size for the online learner")(
    Optimum(block, eta, 2 * D / (G1 * sqrt(M)), 2 * D * G1 * sqrt(M)),
    "A block's regret from anywhere in the ball; the paper's step is half as long, and gives 5/2.",
)
at.own("explicit", "The best move, with every constant")(
    Optimum(
        Phi / (D * T) + spread * sqrt(D / alpha),
        D,
        (2 * Phi * sqrt(alpha) / (spread * T)) ** (2 * third),
        3 * (Phi * spread**2 / (4 * alpha * T)) ** third,
    ),
    "The conditionally unbiased conversion with M = alpha/D, where s stands for 5 G1/2 + s: it gives T = 27 Phi "
    "s^2/(4 alpha beta^3) steps for beta.",
    calculation=calculate.EXPLICIT,
)

plain_multi = sqrt(Phi) * L * root / (epsilon * sqrt(alpha) * beta ** Rational(3, 2))
plain: dict[str, Expr] = {"descent": Phi / (D * T), "regret": L * sqrt(D / alpha), "noise": sigma * sqrt(d * D / alpha)}
block_range = {"M >= 1": D / alpha}
multi = {**over(plain, beta), **block_range, "composition": L * sqrt(T * ell) / (sigma * n * epsilon)}
at.own("plain_multi", "Many passes without variance reduction")(
    fewest(plain_multi, (n, D, T, sigma), multi, logs=(ell,), order="Omega"),
    "A full batch of gradients, one a sample, at random points of the ball, with Gaussian noise at every step: the "
    "conditionally unbiased conversion, and T Gaussian releases of sensitivity 2L/n.",
    calculation=calculate.PLAIN_MULTI_PASS,
)
whole_batch = {D: alpha * beta**2 / L**2, T: Phi * L**2 / (alpha * beta**3), sigma: L * sqrt(T * ell) / (n * epsilon)}
at.own("plain_multi.parameters", "Parameters of many plain passes")(
    Choice({n: plain_multi * sqrt(ell), **whole_batch}, plain, beta, block_range, REGIME),
    "The same terms; d sigma^2 is then at most L^2.",
)

smooth = sqrt(d * Phi * smoothness) * L / (epsilon * beta**2)
at.own("plain_multi.smooth", "Many plain passes on a smooth loss")(
    Identity(n, smooth, plain_multi, {alpha: beta / smoothness}),
    "alpha = beta/H for H-smooth losses: the sample size of noisy gradient descent; Theorem 4.1 is d^(1/4) above.",
)

plain_single = Phi * L**2 * root / (epsilon * alpha * beta**3)
fresh_batches = {"privacy": L * sqrt(ell) / (sigma * B * epsilon), "samples": T * B / n, "B >= 1": 1 / B}
single = {**over(plain, beta), **block_range, **fresh_batches}
without_privacy = Phi * L**2 / (alpha * beta**3)
at.own("plain_single", "One pass without variance reduction")(
    fewest(without_privacy + plain_single, (n, D, T, sigma, B), single, logs=(ell,), order="Omega"),
    "Fresh batches of B gradients, with Gaussian noise for sensitivity 2L/B: without privacy no dimension.",
    calculation=calculate.PLAIN_SINGLE_PASS,
)

# ---------------------------------------------------------------- how many directions
at.own("norm", "An estimate has norm sqrt(d) L, not d L")(
    Inequality(d * L**2, L**2 * d**2 / (d - 1), {d: (2, 1e5)}, conditions=(d >= 2,)),
    "The second moment of one two-point estimate of a linear loss, against d^2 times the Poincare inequality on the "
    "sphere, L^2/(d - 1), for every L-Lipschitz loss.",
)
one_reset = {"smoothed gradients": 2 * L / B1, "directions of one sample": 2 * (root * L) * sqrt(ell_union / m) / B1}
at.own("coupled", "Sensitivity of a reset with shared directions")(
    Rate(sensitivity, L / B1 + L * sqrt(d * ell_union / m) / B1, one_reset),
    "Neighbours that share the directions of all common samples differ in one sample's estimate only.",
)
one_increment = {
    "smoothed gradients": 2 * (root * L / alpha) * 2 * D / B2,
    "directions of one sample": 2 * (d / (2 * alpha) * 2 * L * 2 * D) * sqrt(ell_union / m) / B2,
}
at.own("common", "Sensitivity of an increment with the same directions at both points")(
    Rate(sensitivity, L * root * D / (alpha * B2), one_increment, (m,), {"m <= d ell": m / (d * ell_union)}),
    "One direction's increment has norm at most 2 d L D/alpha always; m = d ell directions.",
)
at.own("clipping", "Directions after which clipping changes nothing")(
    Rate(m, d * ell_union, {"m": m}, (m,), {"error of the directions": root * L * sqrt(ell_union / m) / L}),
    "The error of a mean of m estimates is at most L, so that clipping at 2L, which bounds the sensitivity always, "
    "does nothing but with a small probability. The guarantee can then be zCDP.",
)


def accounting(at_reset: Expr, at_increment: Expr) -> dict[str, Expr]:
    """Return Theorem 3.1's terms plus those of one sample's directions, divided by the minibatch size everywhere."""
    directions = {
        "directions at a reset": at_reset / sqrt(B1),
        "directions of increments": at_increment * sqrt(period / B2),
        "noise for directions at a reset": root / epsilon * at_reset / B1,
        "noise for directions of increments": root / epsilon * at_increment / B2,
    }
    return {**SINGLE_PASS, **over(directions, beta)}


common = accounting(L * sqrt(d / m), d * L * D / alpha / sqrt(m))
added = {name: term * beta for name, term in common.items() if "directions" in name}
at.own("directions", "As many directions as dimensions suffice")(
    Choice({**chosen, m: d}, {**BOUND, **added}, beta, {**SAMPLES, **COUNTS}, REGIME),
    "The simplified parameters of Theorem 3.1 with m = d shared directions, against d^2 Sigma^2 in the paper.",
)

privacy = Phi * L * d / (epsilon * alpha * beta**2)
tuned = (n, D, T, period, B1, B2)
at.own("directions.samples", "Samples against directions, the same at both points")(
    fewest(
        sampling * (1 + d / m) + privacy * (1 + sqrt(d / m)), tuned, common, {**REGIME, "m >= 1": 1 / m}, order="Omega"
    ),
    "All terms, minimised with m kept: nothing is gained beyond m = d.",
)
fewest_calls = root**3 * Phi * L**2 / (alpha * beta**3) + Phi * L * root**3 / (epsilon * alpha * beta**2)
at.own("directions.calls", "Fewest oracle calls")(
    Rate(calls, fewest_calls, {"calls": n * m}, (*tuned, m), {**common, "m >= 1": 1 / m}, REGIME),
    "n m with the same directions at both points; m is tuned, too.",
)

independent = accounting(L * sqrt(d / m), L * sqrt(d / m))
separately = without_privacy * sqrt(d / m) * (L**2 / beta**2 + L * root / (epsilon * beta))
at.own("independent", "Samples against directions, independent at both points")(
    fewest(separately + sampling + privacy, tuned, independent, {**REGIME, "m >= d": d / m}, order="Omega"),
    "All terms with the sharp norm and shared directions of common samples, minimised with m >= d kept.",
)

directions = {
    "directions at a reset": L * d / sqrt(m * B1),
    "directions of increments": L * d * sqrt(period / (m * B2)),
    "noise for directions": root / epsilon * L * d / sqrt(m),
}
fixed = {name: term.xreplace({n: sampling}) for name, term in {**SINGLE_PASS, **over(directions, beta)}.items()}
least_directions = d * L**4 / beta**4 + d**2 + L**2 * d**3 / (epsilon**2 * beta**2)
at.own("printed_directions", "Directions that the printed analysis needs")(
    fewest(least_directions, (m, D, T, period, B1, B2), fixed, {**REGIME, **non_private}),
    "Theorem 3.1's n where privacy is free, with Lemmas 3.4 and 3.6 as printed: the least m over all batches; the "
    "theorem's own m is L^4 d^2/beta^4.",
)

sharp_zero = d * B1**2 + alpha**2 * B2**2 / D**2
sharp_first = alpha**2 * B2**2 / (D**2 * d)
at.own("ratio", "Zero-order against first-order directions")(
    Rate(ratio, d, {"directions": (sharp_zero / sharp_first).xreplace({B1: PERIOD, B2: Integer(1)}).expand()}),
    "Theorems 3.1 and 6.1 with the norm sqrt(d) L of an estimate in place of d L; Remark 6.2 has d^2.",
)

# ---------------------------------------------------------------- smoothing and generalisation
at.own("smoothing_error", "Sharp error of smoothing")(
    Identity(loss_error, L * alpha * d / (d + 1), L * alpha * (1 - 1 / (d + 1)), example={d: 3}),
    "L|x| at 0 attains it: the mean norm in the unit ball is the integral of 1 - r^d.",
)

kappa = 2 * gamma(d / 2 + 1) / (sqrt(pi) * gamma((d + 1) / 2))


def volume(dimension: Expr) -> Expr:
    """Return the volume of the unit ball."""
    return pi ** (dimension / 2) / gamma(dimension / 2 + 1)


at.own("smoothing_smoothness", "Sharp smoothness after smoothing")(
    Identity(smoothness, kappa * L / alpha, 2 * volume(d - 1) / volume(d) * L / alpha, example={d: 3, L: 1, alpha: 1}),
    "Two balls that are moved apart by h differ by at most 2 h V_{d-1} alpha^{d-1}; L|x_1| at 0 attains it.",
)
at.own("generalisation", "Smoothed gradients generalise")(
    Rate(gap_smooth, deviation, net, (radius,)),
    "A net of X + B_alpha with (R/r)^d points, at each of which n bounded vectors concentrate without a dimension.",
)

# ---------------------------------------------------------------- which one wins
at.own("crossover.privacy", "Where privacy is free in one pass")(
    Crossover(sampling, privacy, epsilon, root * beta / L),
    "The two terms of Theorem 3.1.",
    calculation=calculate.CROSSOVERS,
)

general = L**2 * d / beta**2
at.own("crossover.generalisation", "Where many passes pay more for generalisation than one pass for privacy")(
    Crossover(privacy, general, epsilon, Phi / (L * alpha)),
    "The private term of Theorem 3.1 against Remark 4.2's second term.",
)
at.own("crossover.dimension", "Where many passes pay more for generalisation than one pass for sampling")(
    Crossover(sampling, general, d, (Phi / (alpha * beta)) ** 2),
    "The non-private term of Theorem 3.1 against Remark 4.2's second term.",
)
at.own("crossover.plain.accuracy", "Where one plain pass wins over variance reduction")(
    Crossover(plain_single, privacy, beta, L / root), "The private term of one plain pass against that of Theorem 3.1."
)
at.own("crossover.plain.epsilon", "Where one plain pass costs no more than Theorem 3.1 without privacy")(
    Crossover(plain_single, sampling, epsilon, Integer(1)),
    "The private term of one plain pass against the non-private one of Theorem 3.1.",
)
at.own("crossover.plain.dimension", "Where one plain pass wins over many passes for the population")(
    Crossover(plain_single, general, d, (Phi / (epsilon * alpha * beta)) ** 2),
    "The private term of one plain pass against the generalisation term of Remark 4.2.",
)

lasry_lions = R**third * L * d ** (2 * third) / (epsilon * alpha**third * beta)
at.own("crossover.smoothing", "Where the inefficient algorithm stops winning")(
    Crossover(lasry_lions, plain_multi, d, Phi**3 / (alpha * beta**3 * R**2)),
    "Theorem B.5 in the right units against many plain passes.",
)
