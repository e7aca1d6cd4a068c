"""Appendix B: Definition B.1 and its consequences."""

from dataclasses import replace
from typing import Any

import sympy
from sympy import Integer, Min, Rational, Sum, diff, integrate, log, sqrt

from dpnotes.papers.noisy_sgd.claims.convergence import longer
from dpnotes.papers.noisy_sgd.claims.privacy import noise_variance
from dpnotes.papers.noisy_sgd.notation import *
from dpnotes.papers.noisy_sgd.notation import SCALES, symbol
from dpnotes.theory.asymptotics import Ratio
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Choice, Crossover, Rate
from dpnotes.theory.statements import Identity

at, CLAIMS = PAPER.section()


k = symbol("k", "coordinate, or member of a batch", domain=d.domain)
variance = sqrt(Sum(sigma**2 / B**2, (k, 1, B)) + Sum(Delta**2, (k, 1, d)))
sizes = ({d: 3, B: 2}, {d: 1, B: 4})
at("defB.1.variance", "Definition B.1", "Total noise")(
    Identity(total, noise_variance, variance, instances=sizes),
    "The root of the summed variances: B gradients in the mean of a batch, and d coordinates of the noise.",
    Severity.TYPOGRAPHICAL(
        "sigma_t = sigma^2/B + d Delta^2 should be sigma_t^2 = ..., as in Section 3.2. Read literally, the step size "
        "falls like Delta^-4.",
        sqrt(noise_variance),
    ),
)

curvature = {"eigenvalues below -sqrt(rho alpha) are possible, with a logarithm to spare": ell * sqrt(rho * alpha) / L}


def parameters(step: Any) -> Choice:
    """Return the step size and number of iterations, checked by the conditions of Lemma B.3 and Corollary B.5."""
    variance = total**2
    gradient = {"descent": f_max / (eta * T), "noise": eta * L * variance, "concentration": variance * ell / T}
    limits = {"step size": eta * L, "escape": eta * variance * ell / sqrt(alpha**3 / rho)}
    return Choice({eta: step, T: SCALES[T]}, gradient, alpha**2, limits, curvature)


at("defB.1.eta", "Definition B.1", "Step size")(
    parameters(Min(alpha**2 / (L * (1 + total**2)), f_max / (L * total**2))),
    "Lemma B.3 (descent, noise, concentration), eta < 1/L of Lemma B.2, and the condition of Corollary B.5 where L >= "
    "sqrt(rho alpha), up to a logarithm.",
    Severity.CONSTANT(
        "1 + sigma_t^2 adds a number to a squared gradient: for alpha > 1 and little noise the step size exceeds 1/L; "
        "alpha^2 in place of 1 repairs both. The second branch has an L too many and its logarithm on the wrong side: "
        "f_max/(sigma_t^2 log(1/delta_t)), see Lemma B.3.",
        parameters(Min(alpha**2 / (L * (alpha**2 + total**2)), f_max / (total**2 * ell))),
    ),
)
at("defB.1.scales", "Definition B.1, and the proof of Lemma B.10", "Radius times duration")(
    Identity(radius * escape, c_R * c_I / (rho * eta), radius * escape, where=SCALES), "R and I of Definition B.1."
)

cost = symbol("R^2/(c eta I)", "decrease by Lemma B.4", LOSS, latex="\\mathcal{R}^2/(c\\eta\\mathcal{I})")
at("defB.1.localize", "Corollary B.5, proof", "Decrease that a distance R costs")(
    Identity(cost, c_R**2 / (c * c_I) * sqrt(alpha**3 / rho), radius**2 / (c * eta * escape), where=SCALES),
    "R and I of Definition B.1.",
)
used_up = symbol("f_max I/F", "iterations until f_max is used up", latex="f_{\\max}\\mathcal{I}/\\mathcal{F}")
without_constants = {escape: 1 / (eta * sqrt(rho * alpha)), decrease: sqrt(alpha**3 / rho)}
at("defB.1.iterations", "Appendix B, choice of parameters", "Number of iterations, from decrease and duration")(
    Identity(used_up, f_max / (eta * alpha**2), f_max * escape / decrease, where=without_constants),
    "f_max I/F with the constants c_I and c_F left out. With them there is a factor c_I/c_F, which the constants of "
    "the proof make large, see defB.1.constants.",
)

c_B4 = symbol("c_B4", "constant of Lemma B.4: at least 16 by its proof", latex="c_{B.4}", usual=(16, 100))
c_B9 = symbol("c_B9", "constant of Lemmas B.9 and B.10", latex="c_{B.9}", usual=(1, 10))
longest = symbol("T*eta*alpha^2/f_max", "iterations, over those of Theorem 3.4", latex="T\\eta\\alpha^2/f_{\\max}")
largest = {c_F: c_R**2 / (2 * c_B4 * c_I), c_R: Rational(1, 20) / (2 * c_B9 * c_I)}
example = {c_I: 2, c_B4: 16, c_B9: 1}
at("defB.1.constants", "Definition B.1 and the proofs of B.5, B.8 to B.12", "The constants of escaping fit together")(
    Inequality(10 * c_I / c_F, Integer(64), {c_I: (2, 20)}, where=largest, example=example, subject=longest),
    "B.12 needs T eta alpha^2/f_max > 10 c_I/c_F, B.5 needs c_F <= c_R^2/(2 c c_I) with the c of Lemma B.4, which is "
    "at least 16 by its proof; B.10 with B.11 needs 2 c c_R c_I <= 1/20 with the c of Lemma B.9, at least 1; B.8, and "
    "with it B.9, needs I >= 2/(eta gamma), that is c_I >= 2.",
    Severity.PROOF(
        "c_I, c_R and c_F cannot be chosen as the proofs ask with T = 64 f_max/(eta alpha^2): together they give "
        "c_I^4 <= 0.002 (for constants c of 1), but escaping takes c_I >= 2, and in fact a logarithm. T must be "
        "longer by a factor of about c_I^4, that is polylogarithmically.",
        32000 * c_B4 * c_B9**2 * c_I**4,
    ),
)
at("defB.1.growth", "Appendix B, choice of parameters", "Growth along the escaping direction")(
    Ratio(log(1 + small), 1 / small, {small: (0.1, -1)}, example={small: 0.001}),
    "ln(1 + x) for the exponent per iteration, x = eta gamma; the text has e^{t/(eta gamma)}.",
    Severity.TYPOGRAPHICAL(
        "(1 + eta gamma)^t is about e^{t eta gamma}, not e^{t/(eta gamma)}; the boundary is reached after "
        "log(R/scale)/(eta gamma) iterations, not (t log R)/(eta gamma).",
        small,
    ),
)

position = sympy.Symbol("x", positive=True)
summed_up = integrate(-2 * eigenvalue * position, (position, 0, radius))
at("defB.1.improvement", "Appendix B, choice of parameters", "Decrease at the boundary of the ball")(
    Identity(decrease, radius**2 * gamma, summed_up, where={eigenvalue: -gamma}),
    "f = x^T H x there, and -gamma is the smallest eigenvalue of that H: the slope along v_1 at distance x is -2 "
    "gamma x, summed up from 0 to R.",
)

factor = symbol("x_{t+1}/x_t", "growth in one iteration", latex="x_{t+1}/x_t")
slope_of = diff(eigenvalue * position**2, position)
example = {eta: 0.1, gamma: 1}
# The factor by which a step multiplies x, for the slope that is the derivative of eigenvalue * x^2.
at("defB.1.step_growth", "Appendix B, choice of parameters", "Growth along the escaping direction in one iteration")(
    Identity(factor, 1 + eta * gamma, 1 - eta * slope_of / position, where={eigenvalue: -gamma}, example=example),
    "By the text's own update, x - eta 2 H x, for f = x^T H x with the eigenvalue -gamma of H.",
    Severity.TYPOGRAPHICAL(
        "For f = x^T H x the factor is 1 + 2 eta gamma, as the text says two paragraphs above; 1 + eta gamma, which "
        "all lemmas have, belongs to f = x^T H x/2, where -gamma is an eigenvalue of the Hessian.",
        1 + 2 * eta * gamma,
    ),
)


def enough_iterations(value: Any, share: int, **more: Any) -> Identity:
    """Return the T at which T/4 gradients of norm alpha decrease the objective by 2 f_max, by Lemma B.2 or C.1."""
    a_step = symbol("eta*alpha^2/share", "decrease of a step at a gradient of norm alpha", LOSS)
    return Identity(T, value, 2 * f_max / (a_step / 4), where={a_step: eta / share * alpha**2}, **more)


at("lemmaB.3.iterations", "Lemma B.3, proof", "Number of iterations")(
    enough_iterations(64 * f_max / (eta * alpha**2), 8),
    "A quarter of T gradients of norm alpha decreases the objective by (eta/8) (T/4) alpha^2 (Lemma B.2), which is to "
    "be 2 f_max.",
)
at("lemmaB.3.first", "Lemma B.3, proof", "First condition on the step size")(
    Crossover(64 * c * total**2 * eta * L, alpha**2 / 2, eta, alpha**2 / (128 * c * total**2 * L)),
    "The first part of the noise, 64 c sigma_t^2 eta L, is to be at most alpha^2/2.",
)

second_part = 64 * c * total**2 * ell / SCALES[T]
at("lemmaB.3.second", "Lemma B.3, proof", "Second condition on the step size")(
    Crossover(second_part, alpha**2 / 2, eta, f_max * ell / (2 * c * total**2 * L)),
    "The second part of the noise, 64 c sigma_t^2 ell/T at T = 64 f_max/(eta alpha^2), is to be at most alpha^2/2; "
    "ell = ln(1/delta_t).",
    Severity.CONSTANT(
        "f_max log(1/delta_t)/(2 c sigma_t^2 L) should be f_max/(2 c sigma_t^2 log(1/delta_t)): the logarithm is on "
        "the wrong side, and the L does not belong there. Definition B.1 inherits it.",
        f_max / (2 * c * total**2 * ell),
    ),
)

worse = symbol("a", "L/sqrt(rho alpha)", domain=FROM_ONE)
noise_of_escape = eta * total**2 * (c_I * L / sqrt(rho * alpha) + ell)
largest_step = {eta: alpha**2 / (L * total**2) * c_F / (c_I + ell), L: worse * sqrt(rho * alpha)}
at("corB.5.step", "Corollary B.5, proof", "Condition on the step size for escaping")(
    Inequality(noise_of_escape, c_F * sqrt(alpha**3 / rho), {worse: (1, 100)}, where=largest_step),
    "At the largest step size that is allowed there, with L = a sqrt(rho alpha), a >= 1.",
)

distance = symbol("|x_t-x_0|^2", "squared distance", LENGTH**2, latex="\\|x_{t_0+\\tau}-x_{t_0}\\|^2")
needed = sqrt(alpha**3 / rho) * eta / (eta * sqrt(rho * alpha))  # F eta I
at("corB.5.distance", "Corollary B.5", "Distance after which the objective has decreased")(
    Rate(distance, sqrt(alpha / rho), {"squared distance": distance}, (distance,), {"decrease": needed / distance}),
    "Lemma B.4: a distance r within I iterations costs r^2/(c eta I), up to noise, which is to be F.",
    Severity.TYPOGRAPHICAL(
        "|x - x_0|^2 >= R should be |x - x_0| >= R: a squared length is compared with a length. (And the right-hand "
        "side in the proof is to be at least F, not at most.)",
        alpha / rho,
    ),
)

share = symbol("share", "decrease of a bucket over F, on average")
least = {first_share: Rational(1, 4), second_share: Rational(1, 2)}
escaping = first_share * second_share * longer / 3
at("lemmaB.12.share", "Lemma B.12, proof", "Share of the buckets that decrease the objective")(
    Inequality(
        escaping - Rational(1, 100), Rational(1, 10), {longer: (1, 10)}, ">=", least, example={longer: 1}, subject=share
    ),
    "At least a quarter of the buckets have a saddle point, half of these are not adjacent, a third of these escape, "
    "w times as many in all; every bucket may lose F/100 (Lemma B.11).",
    Severity.CONSTANT(
        "1/10 should be at most 1/24 - 1/100 = 19/600, about 1/32, even if exactly a third of the escapes succeed. T "
        "is then longer by the factor 3.2.",
        Rational(19, 600),
    ),
)

tried = symbol("k", "number of buckets with a saddle point that may escape", domain=COUNT)
none_escapes = symbol("P[no escape]", "probability that no bucket escapes", latex="P[\\mathrm{no~escape}]")
rarely = {tried: (1, 100), T: (1, 1e6), delta_t: (1e-9, 1e-3)}
few = Inequality(Rational(2, 3) ** tried, T * delta_t, rarely, subject=none_escapes)
at("lemmaB.12.probability", "Lemma B.12, with its proof", "Probability that enough buckets escape")(
    replace(few, example={tried: 8, T: 1000, delta_t: 1e-6}),
    "Each bucket with a saddle point escapes with probability 1/3 (Lemma B.11), here independently: none of k does "
    "with (2/3)^k, which does not depend on delta_t.",
    Severity.PROOF(
        "The chance of 1/3 for a bucket becomes 1 - T delta_t for a share of all of them without a step of "
        "concentration, and no least number of buckets is asked for: of 8, none escapes with probability 0.039. One in "
        "k escapes where k >= log(1/(T delta_t))/log(3/2); one in six of k does with probability 1 - exp(-k/18), by "
        "Hoeffding's inequality for martingales. For alpha small against f_max there are enough, T/I of the order "
        "sqrt(rho) f_max/alpha^(3/2).",
        replace(few, conditions=(tried >= log(1 / (T * delta_t)) / log(Rational(3, 2)),)),
    ),
)

buckets = symbol("T/I", "number of buckets", latex="T/\\mathcal{I}")
at("lemmaB.12.buckets", "Lemma B.12, proof", "Number of buckets")(
    Identity(buckets, 64 * f_max * sqrt(rho * alpha) / c_I, T / escape, where=SCALES),
    "T and I of Definition B.1.",
    Severity.TYPOGRAPHICAL(
        "64 f_max sqrt(rho alpha)/c_I should be divided by alpha^2: 64 f_max sqrt(rho)/(c_I alpha^{3/2}).",
        64 * f_max * sqrt(rho) / (c_I * alpha ** Rational(3, 2)),
    ),
)

gained = symbol("TF/(10I)", "decrease", LOSS, latex="T\\mathcal{F}/(10\\mathcal{I})")
at("lemmaB.12.progress", "Lemma B.12, proof", "Decrease over all buckets")(
    Identity(gained, f_max * 64 * c_F / (10 * c_I), T * decrease / (10 * escape), where=SCALES),
    "T, F and I of Definition B.1.",
    premises=("lemmaB.12.share",),
)

error = {"minibatch error over difference": eta * sigma * sqrt(ell / B) / (eta * Delta)}
at("thmB.13.noise", "Theorem B.13, and Lemmas B.10 and B.11", "Privacy noise against minibatch noise")(
    Rate(Delta, sigma / sqrt(B), {"Delta": Delta}, (Delta,), error, order="Omega"),
    "B.11 needs the minibatch error below the difference of the coupled iterates: eta sigma beta sqrt(log/B) (B.10) "
    "against beta eta Delta/10 (B.9), without a logarithm.",
    Severity.CONSTANT(
        "At Delta^2 = sigma^2/B the minibatch error is as large as the difference that escapes. Lemma B.11 quotes B.9 "
        "with a logarithm and B.10 without its constant; Delta^2 >= K log(1/delta_t) sigma^2/B with a large K is "
        "needed.",
        sigma * sqrt(ell / B),
    ),
)
