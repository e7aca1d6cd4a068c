"""Our own unpublished results, with proofs in docs/derivations/drift_escape.md."""

from sympy import Rational, log, sqrt

from dpnotes.papers.drift_escape.calculators import PARAMETERS, RATE, REPEATS
from dpnotes.papers.drift_escape.claims.descent import by_error, effective_steps
from dpnotes.papers.drift_escape.claims.escape import by_iota, by_radius, by_steps, one_fifth, one_third, worst
from dpnotes.papers.drift_escape.claims.oracle import (
    PROOF_OF_RATES,
    mixed_error,
    ones,
    private_error,
    rate_terms,
    sampling_error,
    single,
    small_errors,
    tuned,
)
from dpnotes.papers.drift_escape.notation import *
from dpnotes.theory.rates import Crossover, Rate
from dpnotes.theory.statements import Identity

at, CLAIMS = PAPER.section()

errors = sampling_error(n) + private_error(n * epsilon) + mixed_error(n, n * epsilon)
at.own("rate", "Rate of the adaptive oracle, with constants and logarithms")(
    Rate(alpha, errors, {"alpha": alpha}, tuned, rate_terms(logs=ell), small_errors(*single), logs=(ell,)),
    "The terms of Theorem 2 with the logarithms of (4), Lemma 7 and (72), each written as ell.",
    calculation=RATE,
    premises=PROOF_OF_RATES,
)

sampling, privacy, mixed = n**-one_third, p ** Rational(2, 5), (p**2 / n) ** Rational(2, 17)
at.own("window.low", "Where the lost term overtakes the sampling error")(
    Crossover(mixed, sampling, p, n ** Rational(-11, 12)),
    "The third vertex of the balance against the first; G = M = rho = U = 1, p = sqrt(d)/(n epsilon).",
    premises=("own.rate",),
)
at.own("window.high", "Where the privacy error overtakes the lost term")(
    Crossover(mixed, privacy, p, n ** Rational(-5, 7)),
    "The third vertex of the balance against the second.",
    premises=("own.rate",),
)
at.own("loss", "Error where the two printed terms are equal")(
    Crossover(a, mixed.xreplace({p: n ** Rational(-5, 6)}), a, n ** Rational(-16, 51)),
    "At p = n^(-5/6) both printed terms are n^(-1/3); the lost one is larger by n^(1/51).",
    premises=("own.rate",),
)

share = sqrt(d) / (n * epsilon)
errors, plain = sampling + share ** Rational(3, 7) + (share**2 / n) ** Rational(1, 8), {"privacy error small": share}
at.own("step_one_over_M", "Rate with step size 1/M and the same oracle")(
    Rate(alpha, errors, {"alpha": alpha}, tuned, rate_terms(step=1 / M), plain, normalised=ones),
    "The terms of Theorem 2 with eta <= 1/M in place of (4). The exponent 3/7 of prior work comes from the step size "
    "alone; a third term appears here as well.",
    premises=PROOF_OF_RATES,
)

saddles = {**rate_terms(), "fresh gradients at saddles": b1 * U * sqrt(rho) / (alpha ** Rational(3, 2) * n)}
errors = n ** Rational(-2, 7) + share ** Rational(2, 5)
at.own("restarts", "Rate with a fresh gradient at each saddle")(
    Rate(alpha, errors, {"alpha": alpha}, tuned, saddles, plain, normalised=ones),
    "The terms of Theorem 2, and U sqrt(rho)/alpha^(3/2) more fresh gradients, one at each saddle.",
    premises=PROOF_OF_RATES,
)

third = (d / n**3) ** Rational(2, 17)
at.own("selection", "Dimension up to which noisy Hessians can be selected from, at the corrected rate")(
    Crossover(d / (n * third ** Rational(3, 4)), third, d, n ** Rational(13, 27)),
    "One client, epsilon = 1: there the lost term, (d/n^3)^(2/17), is alpha; n^(6/13) in Remark 3.",
    premises=("own.rate",),
)
at.own("repeats", "Attempts that are needed")(
    Identity(omega0, Rational(3, 4) ** (log(1 / omega0) / log(Rational(4, 3))), omega0),
    "(3/4)^Q = omega_0 at Q = log(1/omega_0)/log(4/3), for either base.",
    calculation=REPEATS,
)
noise_sum, step = eta * M * sqrt(iota / (s * eta * sqrt(rho * alpha))) * iota, sqrt(rho * alpha) / (M**2 * iota**3)
at.own("parameters.eta", "Step size, repaired")(
    Crossover(noise_sum, 1 / sqrt(s), eta, step), "The eta at which eta M sqrt(T_esc) iota = 1/sqrt(s)."
)
power = sqrt(C) * s ** Rational(3, 2) * mu ** Rational(5, 2)
at.own("parameters.mu", "Third entry of mu, repaired")(
    Crossover(power, C * sqrt(2 * ell), mu, (2 * C * ell) ** one_fifth / s ** Rational(3, 5)),
    "The mu at which both members of chi = max{sqrt(C) s^(3/2) mu^(5/2), C sqrt(2 log(4T/omega))} psi are equal; ell "
    "stands for log(4T/omega).",
)

repaired = {eta: step}
at.own("parameters.doubling", "Second entry of mu, repaired")(
    Identity(2**mu, 40 * sqrt(2) * M * sqrt(alpha / rho) / r, worst, where={**repaired, **by_radius}),
    "The growth 2^mu that (46), corrected, asks for: with the repaired step size all powers of iota cancel.",
)
a_step = radius**2 / (8 * eta * escape_steps) / escape_steps
by_all = {**by_steps, **by_radius, **by_error, **by_iota}
at.own("parameters.steps", "Number of effective steps, repaired")(
    Identity(effective_steps, U * s**3 * mu**5 / (2 * chi**2 * eta), U / a_step, where=by_all),
    "The whole decrease U over half of S^2/(4 eta T_esc) a T_esc.",
    calculation=PARAMETERS,
)
