"""Decrease, number of steps and Theorem 1."""

from sympy import Rational, exp, log, sqrt

from dpnotes.papers.drift_escape.calculators import PARAMETERS
from dpnotes.papers.drift_escape.claims.escape import by_iota, by_radius, by_steps, other_way, probability, step, way
from dpnotes.papers.drift_escape.notation import *
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Crossover, Rate
from dpnotes.theory.statements import Identity
from dpnotes.theory.symbols import Domain

at, CLAIMS = PAPER.section()


product = symbol("-g (g + nu)", "product of gradient and estimate", (LOSS / LENGTH) ** 2, latex="-g\\hat{g}")
noise = symbol("nu", "the same component of the noise", GRADIENT, domain=Domain(), latex="\\nu")
grad = symbol("g", "a component of the gradient", GRADIENT, domain=Domain())
example = {grad: 1, noise: 2}
step_smoothness = symbol("eta M", "step size times smoothness", domain=Domain(0, 1, closed=True))
change = symbol("F(x_t) - F(x_{t-1})", "change of the risk in a step", LOSS, latex="F(x_t)-F(x_{t-1})")
by_smoothness = -eta * grad * (grad + noise) + M * eta**2 * (grad + noise) ** 2 / 2
printed = -eta / 2 * grad**2 + eta / 2 * noise**2
box = {step_smoothness: (1e-3, 1), grad: (0.01, 10), noise: (0.01, 10)}
at("lemma3", "Lemma 3, eq. (6)", "Descent in one step")(
    Inequality(by_smoothness, printed, box, where={M: step_smoothness / eta}, subject=change),
    "M-smoothness along the step -eta (g + nu), component by component, with eta M <= 1; (6) sums t such steps.",
)
at("lemma3.product", "Lemma 3, proof, (49) to (51)", "Product of gradient and estimate")(
    Identity(product, noise**2 / 2 - grad**2 / 2 - (grad + noise) ** 2 / 2, -grad * (grad + noise), example=example),
    "Component by component. The index of the estimate in (49) to (51) should be t, since x_t = x_{t-1} - eta g_t.",
)

gain = symbol("gain", "decrease of the risk by an escape", LOSS)
noises = {"data": eta * sigma**2 * (T + iota), "Gaussian": eta * (2 * sqrt(2) * r * sqrt(d)) ** 2 * (T + iota)}
at("cor2", "Corollary 2, eq. (7)", "Noise in the descent lemma")(
    Rate(gain, eta * (sigma**2 + r**2 * d) * (T + iota), noises),
    "Lemma 13 for the noise of the data, nSG(sigma), and for the Gaussian noise, nSG(2 sqrt(2) r sqrt(d)); psi^2 is "
    "written out as sigma^2 + r^2 d.",
)
at("eq58", "eq. (58)", "Sum of the noises of an escape")(
    Inequality(T * psi, c * psi**2 * (T + iota)),
    "All noises at their level psi; c >= 1.",
    Severity.TYPOGRAPHICAL(
        "The norms on the left have to be squared.", Inequality(T * psi**2, c * psi**2 * (T + iota))
    ),
)

squared = symbol("|move|^2", "squared distance", LENGTH**2, latex="\\|x_{t_0+\\tau}-x_{t_0}\\|^2")
printed = 4 * eta * T * U + 4 * c * eta**2 * T * psi**2 * (T + iota)
noise_sum = c * psi**2 * (T + iota)
at("eq60", "eq. (60)", "Distance of an escape")(
    Identity(squared, printed, 2 * eta**2 * T * (2 / eta * U + noise_sum) + 2 * eta**2 * T * noise_sum),
    "(57) with (58) and (59) put in; U stands for the decrease, T for the number of steps.",
)

moved = radius**2 / (4 * eta * escape_steps)  # the decrease that (62) gives without noise
definitions = {**by_steps, **by_radius}
example = {s: 1, iota: 10, alpha: 1, rho: 1}
at("lemma4", "Lemma 4, (4), (63) to (65)", "Decrease by an escape")(
    Identity(gain, s / (8 * iota**3) * sqrt(alpha**3 / rho), moved / 2, where=definitions, example=example),
    "Half of S^2/(4 eta T_esc), the first term of (63), with S and T_esc as defined.",
    Severity.CONSTANT(
        "S^2/(4 eta T_esc) = (s/(4 iota^4)) sqrt(alpha^3/rho): the power of iota is 4, and F_esc has to be (s/(8 "
        "iota^4)) sqrt(alpha^3/rho).",
        s / (8 * iota**4) * sqrt(alpha**3 / rho),
    ),
)

by_step_size = {eta: step}
in_units = s * eta * sqrt(rho * alpha)
at("eq64.noise", "below (65)", "s eta sqrt(rho alpha), which is to be below 1")(
    Identity(in_units, rho * alpha / (M**2 * s * mu**2), in_units, where={**by_step_size, **by_iota}),
    "With it eta (T_esc + iota) <= 2 iota/(s sqrt(rho alpha)), the noise term of (64).",
)

halved = (moved / 2).xreplace(definitions).xreplace(by_iota)
noise_part = (2 * C * psi**2 * iota / (s * sqrt(rho * alpha))).xreplace(by_iota)
at("eq64.threshold", "below (65)", "Error above which the decrease outweighs the noise")(
    Crossover(halved, noise_part, alpha, 4 * sqrt(C) * s * mu**2 * psi, example={s: 1, mu: 100, C: 1, psi: 1}),
    "Half of the first term of (63) against the second term of (64).",
    Severity.CONSTANT(
        "With the power 4 of iota, alpha has to be at least 4 sqrt(C) s^(3/2) mu^(5/2) psi; the printed alpha of (4), "
        "four times 4 sqrt(C) s mu^2 psi, is enough only for iota <= 16.",
        4 * sqrt(C) * s ** Rational(3, 2) * mu ** Rational(5, 2) * psi,
    ),
)

noise_bound = symbol("||nu_t||", "bound of the noise of a step", GRADIENT, latex="\\|\\nu_t\\|")
fails = symbol("p", "probability that one bound fails")
tail = C * psi * sqrt(2 * log(2 / fails))  # Definition 6, inverted
each = {fails: omega / (2 * T)}
at("lemma5.level", "Lemma 5, eq. (66)", "Noise of a step")(
    Identity(noise_bound, sqrt(2) * C * psi * sqrt(log(4 * T / omega)), tail, each),
    "Definition 6 for nSG(C psi), inverted at the probability omega/(2T). That the sum of the two noises is nSG(C "
    "psi) follows from a union bound; Corollary 3, which is cited, would add sqrt(log d).",
)
at("lemma5.probability", "Lemma 5", "Probability of the bound of the noise")(
    Identity(probability, omega / 2, 1 - T * fails, each, example={omega: 0.1, T: 1}),
    "A union bound over T steps, each of failure probability omega/(2T).",
    Severity.TYPOGRAPHICAL("The probability is at least 1 - omega/2, as the proof says.", 1 - omega / 2),
)

estimate = symbol(
    "g_t", "norm of a gradient, or of its estimate", GRADIENT, latex="\\|\\hat{g}_t\\|", usual=(1e-3, 1e3)
)
error = symbol("nu_t", "norm of the error of the estimate", GRADIENT, latex="\\|\\nu_t\\|")
gradient = symbol(
    "|grad F(x_{t-1})|", "norm of the gradient at the iterate", GRADIENT, latex="\\|\\nabla F(x_{t-1})\\|"
)
at("lemma6.far", "proof of Lemma 6", "Gradient outside of an escape")(
    Inequality(estimate - error, 2 * chi, {chi: (1e-3, 1)}, ">=", {estimate: 3 * chi, error: chi}, subject=gradient),
    "The estimate is above 3 chi, its error at most chi.",
)

average = symbol("F_esc/T_esc", "decrease a step", LOSS, latex="\\mathcal{F}/\\mathcal{T}")
by_decrease = {decrease: s / (8 * iota**3) * sqrt(alpha**3 / rho)}
by_error = {alpha: 4 * chi}
by_all = {**by_decrease, **by_steps, **by_error, **by_iota}
at("eq67", "eq. (67)", "Decrease a step during an escape")(
    Identity(average, 2 * chi**2 * eta / (s**2 * mu**4), decrease / escape_steps, where=by_all),
    "F_esc over T_esc as defined in (4). (With the F_esc that Lemma 4 gives, mu^5 s^3 stands for mu^4 s^2.)",
    premises=("lemma4",),
)

fall = symbol("fall", "decrease of F in one step outside of an escape", LOSS)
outside = {gradient: 2 * chi, error: chi}
by_estimate = eta * estimate * ((1 - eta * M / 2) * estimate - error)
box, granted = {x: (1e-3, 10) for x in (chi, eta, M)}, (eta * M <= Rational(8, 9),)
at("eq68", "eq. (68)", "Decrease of a step outside of an escape")(
    Identity(fall, 2 * chi**2 * eta, eta / 2 * (gradient**2 - error**2), outside, example={chi: 1, eta: 1}),
    "Lemma 3 for one step, with a gradient of at least 2 chi and a noise of at most chi.",
    Severity.PROOF(
        "The noise term of Lemma 3 is forgotten: by it alone the decrease is (eta/2)(4 - 1) chi^2 = (3/2) chi^2 eta. "
        "With an estimate above 3 chi and a noise of at most chi, smoothness gives (6 - (9/2) eta M) chi^2 eta, which "
        "is at least 2 chi^2 eta for eta M <= 8/9, as (4) grants.",
        Inequality(by_estimate, 2 * chi**2 * eta, box, ">=", {estimate: 3 * chi, error: chi}, granted, subject=fall),
    ),
)

effective_steps = symbol("T_eff", "number of effective steps", latex="T_{effective}")
effective = U * s**2 * mu**4 / (2 * chi**2 * eta)
at("eq69", "eq. (69)", "Number of effective steps")(
    Identity(effective_steps, effective, U / (decrease / escape_steps), where=by_all),
    "The whole decrease U over the decrease a step during escapes.",
    premises=("eq67",),
)

example = {U: 1, s: 1, iota: 1, rho: 1, chi: 1}
printed = 8 * iota**3 * U / s * sqrt(rho / chi**3)
at("eq70", "eq. (70)", "Number of saddles")(
    Identity(N, printed, U / decrease, where={**by_decrease, **by_error}, example=example),
    "The whole decrease U over F_esc of (4), at alpha = 4 chi.",
    Severity.CONSTANT(
        "chi^3 should be alpha^3 = 64 chi^3: the printed number is 8 times too large (harmless for an upper bound).",
        printed / 8,
    ),
)

gap, five_halves = {N: printed}, Rational(5, 2)
logarithm = log(16 * iota**3 * U / (s * omega) * sqrt(rho / chi**3))
at("eq71", "eq. (71)", "Attempts at each saddle")(
    Identity(Q, five_halves * logarithm, five_halves * log(1 / omega0), where={omega0: omega / (2 * N), **gap}),
    "Lemma 2 as printed with omega_0 = omega/(2 N), and N as printed in (70).",
)

total = symbol("T_max", "number of all steps", latex="T")
repeats = five_halves * log(2 * N / omega)
at("eq72", "eq. (72)", "Number of all steps")(
    Identity(total, 5 * U * s**2 * mu**4 / (4 * chi**2 * eta) * logarithm, effective * repeats, where=gap),
    "T_effective of (69) times Q of (71).",
    calculation=PARAMETERS,
    premises=("eq69",),
)
parts = {"escapes": ell * U * s**2 * mu**4 / (chi**2 * eta), "descent": ell * U / (chi**2 * eta)}
at("eq72.rate", "eq. (72)", "Number of all steps, in order")(
    Rate(total, U / (eta * chi**2), parts, logs=(ell, mu), normalised=(s,)),
    "The steps of the escapes and those of the descent, with the logarithm of (71) as ell and the constant s.",
)
parts = {"escapes": N * Q * escape_steps, "descent": U / (chi**2 * eta)}
constraints = {
    "escapes needed": U / sqrt(alpha**3 / rho) / N,
    "steps of an escape": 1 / (escape_steps * eta * sqrt(rho * alpha)),
    "gradient noise": eta * M**2 * iota**2 / sqrt(rho * alpha),
    "error": chi / alpha,
}
tuned, several, ones = (N, escape_steps, eta, chi), {"Q >= 1": 1 / Q}, (M, rho, U)
at("lemma6", "Lemma 6", "Number of steps")(
    Rate(total, alpha**-five_halves, parts, tuned, constraints, several, normalised=ones, logs=(iota, Q)),
    "U/F_esc saddles with Q attempts of T_esc steps, and U/(eta chi^2) steps of descent, with the largest step size "
    "of (4) and the largest chi, alpha/4.",
)
parts, constraints = (
    {"descent": U / (eta * alpha**2)},
    {"variance": eta * M * sigma**2 / alpha**2, "smoothness": eta * M},
)
at("remark1", "Remark 1", "Number of steps in the setting of prior work")(
    Rate(total, alpha**-4, parts, (eta,), constraints, {"alpha <= 1": alpha}, normalised=(M, U, sigma)),
    "One example a step: the variance eta M sigma^2 of the step must not exceed alpha^2, and a decrease of eta "
    "alpha^2 a step leaves U/(eta alpha^2) steps.",
)
constraints = {
    "whole decrease": ell * U / (T * eta * chi**2),
    "gradient noise": ell * eta * M**2 / sqrt(rho * alpha),
    "error": chi / alpha,
    "noise below its level": psi / chi,
}
at("thm1", "Theorem 1", "Number of steps of Algorithm 1")(
    Rate(total, alpha**-five_halves, {"all steps": T}, (T, eta, chi, psi), constraints, normalised=ones, logs=(ell,)),
    "U is spent at eta chi^2 a step, with eta = sqrt(rho alpha)/M^2 and alpha = 4 chi, up to logarithms.",
    calculation=PARAMETERS,
)
at("thm1.error", "Theorem 1, and the proof of Lemma 6", "Error of Algorithm 1")(
    Identity(alpha, 4 * chi, estimate + error, {estimate: 3 * chi, error: chi}),
    "Where the estimate is at most 3 chi and its error at most chi, the gradient is at most 4 chi.",
    calculation=PARAMETERS,
)

example = {alpha: 0.01, M: 1, rho: 1, iota: 2, way: 1}
shares = {x: (1e-3, 1) for x in (chi, way, other_way)}
where_tested = symbol("|grad F(x~)|", "gradient where it tests", GRADIENT, latex="\\|\\nabla F(\\tilde x)\\|")
at("alg1.return", "Algorithm 1, last return; Theorem 1", "Gradient at the point that is returned")(
    Inequality(alpha + M * way * radius, alpha, {way: (1e-3, 1)}, where=by_radius, example=example, subject=gradient),
    "The last iterate of the last attempt is returned, at a share w of the radius S from the point x~ that was "
    "tested; the gradient of an M-smooth risk may change by M w S on the way.",
    Severity.PROOF(
        "The point that was tested, x~, should be returned, since its gradient is bounded. That of the last iterate is "
        "not bounded in the proof: smoothness alone allows alpha + M S, where M S = M iota^{-3/2} sqrt(alpha/rho). "
        "Whether a run reaches it is not said here; on quadratics none did. (Line 9, x_t <- x~, does nothing: the next "
        "attempt begins from x_{t-1}, which is still x~.)",
        Inequality(3 * way * chi + other_way * chi, alpha, shares, where=by_error, subject=where_tested),
    ),
)
not_spent, example = (omega - omega / 2 - 2 * N * exp(-iota)) / N, {omega: 0.1, N: 100, iota: 10}
at("thm1.probability", "Theorem 1, proofs of Lemmas 4 to 6", "Failure probability of Algorithm 1")(
    Identity(omega0, omega / (2 * N), not_spent, example=example),
    "What is left of omega for each of N saddles after Lemma 5 (omega/2), and Lemma 4 (failure 2 e^-iota) at each of "
    "them.",
    Severity.CONSTANT(
        "omega is spent on Lemma 5 and the repeats; the failures of Lemma 4 are not covered. With (1/s) log(8 "
        "N/omega) as another entry of (5), omega_0 = omega/(4 N) is left.",
        Identity(omega0, omega / (4 * N), not_spent, where={iota: log(8 * N / omega)}),
    ),
)
