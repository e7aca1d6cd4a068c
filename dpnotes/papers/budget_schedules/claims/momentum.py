"""Momentum: Section 4.2, with its proofs."""

from dataclasses import replace
from typing import Any

import sympy
from sympy import Add, Derivative, Integer, Ne, Rational, Sum, diff, log, sqrt

from dpnotes.papers.budget_schedules.calculators import MOMENTUM_STEP
from dpnotes.papers.budget_schedules.notation import *
from dpnotes.papers.budget_schedules.notation import symbol
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.statements import Identity
from dpnotes.theory.symbols import REAL, expand

at, CLAIMS = PAPER.section()


unbiased = symbol("m_t", "bias-corrected moving average of gradients", LOSS / LENGTH)
private_gradient = symbol("g_t", "private gradient", LOSS / LENGTH)
moving = symbol("v_t", "moving average of gradients", LOSS / LENGTH)
at("eq3", "eq. (3) and eq. (13)", "Bias correction")(
    Identity(
        symbol("m_{t+1}", "bias-corrected moving average", LOSS / LENGTH),
        (beta * (1 - beta ** (x - 1)) * unbiased + (1 - beta) * private_gradient) / (1 - beta**x),
        (beta * moving + (1 - beta) * private_gradient) / (1 - beta**x),
        where={unbiased: moving / (1 - beta ** (x - 1))},
        conditions=(x > 1,),
    ),
    "m_{t+1} = v_{t+1}/(1 - beta^t), at step t = x.",
)

average = symbol("v_{t+1}", "moving average of gradients", LOSS / LENGTH)
recursion = (1 - beta) * (beta**2 * g[1] + beta * g[2] + g[3])
at("eq13", "eq. (13)", "Moving average written out")(
    Identity(average, (1 - beta) * Sum(beta ** (t - i) * g[t], (i, 1, t)), recursion, instances=({t: 3},)),
    "The recursion v_{t+1} = beta v_t + (1 - beta) g_t from v_1 = 0.",
    Severity.TYPOGRAPHICAL("g_t inside the sum should be g_i.", (1 - beta) * Sum(beta ** (t - i) * g[i], (i, 1, t))),
)
at("eq28", "eq. (28)", "Polarisation identity")(
    Identity(
        -private_gradient * moving,
        (private_gradient - moving) ** 2 - private_gradient**2 - moving**2,
        -private_gradient * moving,
    ),
    "One coordinate, with b_t nabla_t written as g_t.",
    Severity.CONSTANT(
        "A factor 1/2 is lost, and with it the theorem: see thm4.6.bound.",
        ((private_gradient - moving) ** 2 - private_gradient**2 - moving**2) / 2,
    ),
)
at("thm4.6.slow", "Theorem 4.6", "Contraction with momentum")(
    Inequality((1 - eta0 / (2 * kappa)) ** 2, 1 - eta0 / kappa, example={eta0: 0.5, kappa: 2}),
    "f = mu theta^2/2 without noise, T = 1: the step eta_0/(2M) reduces f by (1 - eta_0/(2 kappa))^2; the hypothesis "
    "on eta_0 holds for small beta. (Lipschitz on a bounded interval, which the run does not leave.)",
    Severity.CONSTANT(
        "gamma = 1 - eta_0/kappa should be 1 - eta_0/(2 kappa), for the step size eta_0/(2M).", 1 - eta0 / (2 * kappa)
    ),
)


def second_moment(coefficients: dict[int, Any]) -> sympy.Expr:
    """Return the second moment of a combination of the mean and independent noises with these coefficients."""
    return Add(*(value**2 * (R * alpha * u * noise[key] if key else 1) for key, value in coefficients.items()))


def momentum_run(num_steps: int) -> tuple[sympy.Expr, sympy.Expr]:
    """Return the excess risk and the momentum-effect sum for f = u M theta^2/2 in one dimension, both relative to f_1.

    Quantities are normalised: M = 1, theta_1 = 1, f_1 = u/2. The noise of step t has variance R alpha u s_t, which
    equals (G sigma_t/N)^2 because alpha = G^2/(2 R M N^2 f_1).
    """
    place, average = {0: Integer(1)}, {}  # coefficients: key 0 for the mean, key t for the noise of step t
    effect = Integer(0)
    for step in range(1, num_steps + 1):
        query = {key: u * value for key, value in place.items()} | {step: Integer(1)}
        average = {key: beta * average.get(key, 0) + (1 - beta) * query[key] for key in query}
        place = {key: place.get(key, 0) - eta0 / 2 / (1 - beta**step) * average[key] for key in average}
        effect += gamma ** (num_steps - step) * second_moment(average)
    return second_moment(place), effect / (u / 2)


def weight(index: int, num_steps: int) -> sympy.Expr:
    """Return the exact influence w_i of step i's noise with momentum, from U_3 of Theorem 4.6."""
    terms = (
        gamma ** (num_steps - step) * ((1 - beta) / (1 - beta**step)) ** 2 * beta ** (2 * (step - index))
        for step in range(index, num_steps + 1)
    )
    return Add(*terms)


zeta = symbol("zeta", "coefficient of the momentum effect", domain=REAL)
variance_u3 = symbol("U_3", "noise variance of Theorem 4.6")
risk_and_effect = symbol(
    "(EER + zeta * momentum effect)/(f(theta_1) - f(theta*))",
    "excess risk and momentum effect over the initial excess risk",
    latex="\\frac{\\mathrm{EER} + \\zeta \\cdot \\mathrm{momentum\\ effect}}{f(\\theta_1) - f(\\theta^*)}",
)


def momentum_bound(
    factor: sympy.Expr, contraction: sympy.Expr, zeta_value: sympy.Expr, share: sympy.Expr
) -> Inequality:
    """EER <= (gamma^T + factor R eta_0 alpha U_3) (f_1 - f^*) - zeta share eta_0/M (momentum effect), at T = 2."""
    excess, effect = momentum_run(2)
    variance = Add(*(weight(index, 2) * noise[index] for index in (1, 2)))
    return Inequality(
        excess + zeta * share * eta0 * effect,
        gamma**T + factor * R * eta0 * alpha * variance_u3,
        {u: (1e-3, 0.9999), beta: (1e-3, 0.95), eta0: (1e-3, 4), noise: (1e-3, 1e3)},
        where={zeta: zeta_value, variance_u3: variance, T: 2, gamma: contraction},
        conditions=(u * kappa >= 1, zeta >= 0, gamma > beta),
        example={u: 0.5, kappa: 2, beta: 0.1, eta0: 0.5, R: 1, alpha: 1e-6}
        | {expand(noise[index], {}): 1 for index in (1, 2)},
        subject=risk_and_effect,
    )


absorbed = symbol(
    "Var(nu_t)", "variance of a coordinate of the absorbed noise", (LOSS / LENGTH) ** 2, latex="\\mathrm{Var}(\\nu_t)"
)
at("thm4.6.absorbed", "Appendix D.2, first line", "Noise with its scale absorbed")(
    Identity(absorbed, G * sigma**2 / N, (G * sigma / N) ** 2, example={G: 2, sigma: 1, N: 10}),
    "nu_t times C sigma_t/N, where the appendix writes C for G.",
    Severity.TYPOGRAPHICAL(
        "N(0, (C sigma_t^2/N) I) should be N(0, (C sigma_t/N)^2 I), as the lines below have it.", (G * sigma / N) ** 2
    ),
)

averaged = symbol(
    "E|sum beta^(t-i) nu_i|^2",
    "mean squared norm of the averaged noise, over D (G/N)^2",
    latex="\\mathbb{E}\\|\\sum_i \\beta^{t-i} \\nu_i\\|^2",
)
by_recursion = noise[1] * beta**4 + noise[2] * beta**2 + noise[3]  # beta times the average so far, plus new noise
squared_powers = Sum(beta ** (2 * (t - i)) * noise[i], (i, 1, t))
at("thm4.6.powers", "Appendix D.2, before the expectation is written out", "Variance of the averaged noise")(
    Identity(averaged, Sum(beta ** (t - i) * noise[i], (i, 1, t)), by_recursion, instances=({t: 3},)),
    "Three independent noises; their sum is multiplied by beta in every step.",
    Severity.TYPOGRAPHICAL(
        "beta^{t-i} E|nu_i|^2 should be beta^{2(t-i)} E|nu_i|^2, in two lines; the next one has it.", squared_powers
    ),
)
at("thm4.6.index", "Appendix D.2, after the expectation is written out", "Which noise the average is made of")(
    Identity(averaged, Sum(beta ** (2 * (t - i)) * noise[t], (i, 1, t)), by_recursion, instances=({t: 3},)),
    "As above.",
    Severity.TYPOGRAPHICAL(
        "sigma_t^2 inside the sum over i should be sigma_i^2, here and in the line that names U_3; Theorem 4.6 has it.",
        squared_powers,
    ),
)

A = beta * gamma / ((gamma - beta) ** 2 * (1 - beta) ** 3)
at("thm4.6.bound", "Theorem 4.6, eq. (14)", "Excess risk bound with momentum")(
    momentum_bound(Integer(2), 1 - eta0 / kappa, 1 - eta0 / 4 - A * eta0**2, Rational(1, 2)),
    "The exact excess risk of two steps on f = u M theta^2/2 with noise, 1/kappa <= u <= 1, under the proof's zeta >= "
    "0, beta < gamma. (Lipschitz on a bounded interval, where the run stays but for rare noise.)",
    Severity.CONSTANT(
        "The factor 1/2 lost in eq. (28) makes the theorem false. With the step size eta_0/(2M) it holds with gamma = "
        "1 - eta_0/(2 kappa), R eta_0 alpha U_3 in place of 2 R eta_0 alpha U_3, zeta = 1 - eta_0/2 - A eta_0^2, A = "
        "beta gamma (gamma - beta)^-2 (1 - beta)^-3, eta_0/(4M) in place of eta_0/(2M), and beta < gamma.",
        momentum_bound(Integer(1), 1 - eta0 / (2 * kappa), 1 - eta0 / 2 - A * eta0**2, Rational(1, 4)),
    ),
)

step_limit = symbol("max eta_0", "largest relative step size", latex="\\max\\eta_0")
coefficient = symbol("A", "beta gamma / ((gamma - beta)^2 (1 - beta)^3)")
largest_step = 8 / (sqrt(1 + 64 * coefficient) + 1)
root = (sqrt(Rational(1, 16) + 4 * coefficient) - Rational(1, 4)) / (2 * coefficient)
at("thm4.6.step", "Theorem 4.6", "Largest step size")(
    Identity(step_limit, largest_step, root),
    "The positive root of 1 - eta_0/4 - A eta_0^2, the zeta of the proof.",
    calculation=MOMENTUM_STEP,
)

statement_zeta = 1 - eta0**2 / (beta * (1 - beta) ** 3) - eta0 / 4
variance_constant = symbol("C", "constant of the gradient variance", LENGTH**2 / LOSS)
proved_zeta = 1 - eta0 / 4 - 2 * M / eta0 * variance_constant
of_C6 = eta0**3 * beta * gamma / (2 * M * (1 - beta) ** 3 * (gamma - beta) ** 2)
at("thm4.6.zeta", "Theorem 4.6", "Coefficient of the momentum effect")(
    Identity(
        zeta, statement_zeta, proved_zeta, {variance_constant: of_C6}, example={beta: 0.1, gamma: 0.9, eta0: 0.5, M: 1}
    ),
    "The zeta of the proof: 1 - eta_0/4, less the constant of Lemma C.6 in units of eta_0/(2M).",
    Severity.CONSTANT(
        "1/(beta (1 - beta)^3) in the statement should be beta gamma/((gamma - beta)^2 (1 - beta)^3), as in the proof.",
        1 - eta0 / 4 - A * eta0**2,
    ),
)

example = {coefficient: A, beta: Rational(9, 10), gamma: Rational(99, 100)}
at("thm4.6.example", "Section 4.2, below Theorem 4.6", "Step size at beta = 0.9, gamma = 0.99")(
    Identity(step_limit, Rational(98, 100) / M, largest_step, where=example, digits=2),
    "The bound on eta_0 of the theorem.",
    Severity.CONSTANT(
        "At beta = 0.9, gamma = 0.99 the bound is eta_0 <= 0.0030, not 0.98/M; eta_0 has no unit, so that 1/M cannot "
        "stand there.",
        Identity(step_limit, Rational(30, 10000), largest_step, where=example, digits=4),
    ),
)

ratio = symbol("r", "beta/gamma", usual=(1e-3, 30))
sum_of_ratios, apart = Sum(k * ratio**k, (k, 1, T)), (Ne(ratio, 1),)
at("thm4.6.beta", "Theorem 4.6 and Lemma C.7", "Condition on beta and gamma")(
    Inequality(sum_of_ratios, ratio / (1 - ratio) ** 2, conditions=apart, instance={T: 8}, example={ratio: 2}),
    "Lemma C.7 sums k a^k with a = beta/gamma, where only beta != gamma is asked for.",
    Severity.TYPOGRAPHICAL(
        "beta != gamma should be beta < gamma.", Inequality(Sum(k * u**k, (k, 1, T)), u / (1 - u) ** 2, instance={T: 8})
    ),
)

sum_constant, apart = symbol("C_7", "constant of Lemma C.7"), (beta < gamma,)
of_C7 = {sum_constant: 2 * beta * gamma / ((gamma - beta) ** 2 * (1 - beta))}
at("lemmaC.6", "Lemma C.6", "Constant of the gradient variance")(
    Identity(variance_constant, of_C6, eta0**3 / (4 * M * (1 - beta) ** 2) * sum_constant, of_C7, conditions=apart),
    "The line before times the constant of Lemma C.7.",
)

closed = symbol("U_1", "sum of k beta^k")
power_sum = Sum(k * beta**k, (k, t - i, t - 1))
shape = ({t: 5, i: 3}, {t: 4, i: 1}, {t: 6, i: 4})
without_last = ((t - i) * beta ** (t - i) + (beta ** (t - i + 1) - beta) / (1 - beta)) / (1 - beta)
at("lemmaC.7.sum", "Lemma C.7, proof", "Closed form of U_1")(
    Identity(closed, without_last, power_sum, instances=shape, example={beta: 0.9}),
    "The sum of k beta^k from t - i to t - 1.",
    Severity.TYPOGRAPHICAL(
        "The sum over j has t - 1 terms beta^t, not a geometric series. The final bound of the lemma holds for beta < "
        "gamma.",
        ((t - i) * beta ** (t - i) + (beta ** (t - i + 1) - beta**t) / (1 - beta) - (t - 1) * beta**t) / (1 - beta),
    ),
)

limit = (u / (1 - u) ** 2 + beta / (1 - beta) * u / (1 - u)) / (1 - beta)
by_ratio, gammas = {beta: gamma * u}, {gamma: (1e-2, 0.99999)}
at("lemmaC.7.bound", "Lemma C.7", "Sum of the gradient variance")(
    Inequality(limit, 2 * beta * gamma / ((gamma - beta) ** 2 * (1 - beta)), gammas, where=by_ratio),
    "The coefficient of |v_{i+1}|^2 for T and i to infinity, where it is largest; u = beta/gamma.",
)
at("lemmaC.7.line", "Lemma C.7, proof", "A line of the proof of Lemma C.7")(
    Inequality(limit, u / ((1 - u) ** 2 * (1 - beta)), gammas, where=by_ratio, example={u: 0.5, gamma: 0.9}),
    "The third line after 'Thus', with a = u.",
    Severity.TYPOGRAPHICAL(
        "The line without the factor 2 is false; the next one, with it, is right.", 2 * u / ((1 - u) ** 2 * (1 - beta))
    ),
)

peak = gamma ** (x - 1) * (1 - beta**x)  # h of Lemma C.8
at("lemmaC.8.derivative", "Lemma C.8, proof", "Derivative of h")(
    Identity(
        Derivative(peak, x), gamma ** (x - 1) * (1 - beta**x * (1 + log(beta) / log(gamma))) * log(gamma), diff(peak, x)
    ),
    "h(t) = gamma^{t-1} (1 - beta^t).",
)

example = {beta: 0.5, gamma: 0.9, x: 20}
at("lemmaC.8.concave", "Lemma C.8, proof", "Concavity of h")(
    Inequality(diff(peak, x, 2), Integer(0), {gamma: (0.02, 0.999)}, example=example, subject=Derivative(peak, (x, 2))),
    "The second derivative.",
    Severity.TYPOGRAPHICAL(
        "h is not concave; it is log-concave, hence unimodal, which is all that the proof needs.",
        Inequality(
            diff(log(peak), x, 2), Integer(0), {gamma: (0.02, 0.999), x: (1, 50)}, subject=Derivative(log(peak), (x, 2))
        ),
    ),
)

factor = (1 - beta) / (1 - beta**x)
at("lemmaC.8.monotone", "Lemma C.8, proof", "Monotonicity of (1 - beta)/(1 - beta^t)")(
    Inequality(factor, factor.xreplace({x: x + 1}), example={beta: 0.5, x: 1}),
    "The proof says that it increases with t.",
    Severity.TYPOGRAPHICAL(
        "'Increases' should be 'decreases'; the conclusion needs the latter.",
        Inequality(factor, factor.xreplace({x: x + 1}), sense=">="),
    ),
)

momentum_region = {gamma: (0.02, 0.99999)}
before_that = gamma ** (last - 1) * (1 - beta**last) >= 1 - beta
at("lemmaC.8.first", "Lemma C.8", "Before That")(
    Inequality(factor, gamma ** (x - 1), momentum_region, conditions=(before_that, x <= last)),
    "h is unimodal and h(1) = 1 - beta <= h(That); x <= y = That.",
)
at("lemmaC.8.second", "Lemma C.8", "After That")(
    Inequality(factor, gamma ** (last - 1), momentum_region, conditions=(before_that, x >= last)),
    "(1 - beta)/(1 - beta^t) decreases; x >= y = That.",
)
at("sec4.2.factor", "Section 4.2", "The momentum factor at the beginning")(
    Inequality(factor, gamma**x, {gamma: (0.01, 0.999), x: (1, 1)}, conditions=(x <= 1,)),
    "The text says that (1 - beta)/(1 - beta^t) is less than gamma^t at the beginning; t = 1.",
    Severity.TYPOGRAPHICAL(
        "gamma^t should be gamma^{t-1}, as in Lemma C.8.",
        Inequality(factor, gamma ** (x - 1), momentum_region, conditions=(before_that, x <= last)),
    ),
)

static = Sum(gamma ** (T - t) * ((1 - beta) / (1 - beta**t)) ** 2 * Sum(beta ** (2 * (t - i)), (i, 1, t)), (t, 1, T))
at("thm4.7.U3", "Theorem 4.7, proof", "Noise variance of the uniform schedule")(
    Identity(
        symbol("U_3", "noise variance"),
        Sum(gamma ** (T - t) * (1 - beta) / (1 - beta**t) * (1 + beta**t) / (1 + beta), (t, 1, T)),
        static,
        instances=({T: 1}, {T: 2}, {T: 4}),
    ),
    "U_3 of Theorem 4.6 at a constant sigma, over sigma^2.",
)
at("thm4.7.factor", "Theorem 4.7, proof", "Momentum factor of the uniform schedule")(
    Inequality(factor * (1 + beta**x) / (1 + beta), Integer(1), {beta: (1e-3, 0.99)}),
    "Both (1 - beta)/(1 - beta^t) and (1 + beta^t)/(1 + beta) are at most 1.",
)

shrinking = {That: 2, T: 5}, {That: 3, T: 4}
at("thm4.7.sum", "Theorem 4.7, proof", "Sum of the two phases")(
    Identity(
        symbol("U_3", "noise variance"),
        gamma**T / gamma * (That + (gamma ** (That - T) - 1) / (1 - gamma)),
        Sum(gamma ** (T - t) * gamma ** (t - 1), (t, 1, That))
        + Sum(gamma ** (T - t) * gamma ** (That - 1), (t, That + 1, T)),
        instances=shrinking,
    ),
    "Lemma C.8 in U_3, over sigma^2.",
)
at("thm4.7.log", "Theorem 4.7, proof", "Logarithm and root")(
    Inequality(log(1 + s), sqrt(s), {s: (1e-6, 1e6)}), "The least ratio of sqrt(x) to ln(1 + x) is 1.24, at x = 3.92."
)
at("thm4.7.constant", "Theorem 4.7, proof", "Constant of the first phase")(
    Identity(
        symbol("C", "a constant"),
        4 * kappa / gamma,
        8 * kappa**2 * alpha / (eta0 * gamma) * s,
        {s: eta0 / (kappa * alpha)},
        example={kappa: 10, gamma: 0.98},
    ),
    "ln^2(1 + x) <= x at x = eta_0/(kappa alpha) in the line before.",
    Severity.CONSTANT(
        "4 kappa/gamma should be 8 kappa/gamma; it vanishes in the O, and the constant c of the theorem is not used.",
        8 * kappa / gamma,
    ),
)

slow = {gamma: 1 - eta0 / kappa}
at("thm4.7.contraction", "Theorem 4.7, proof, and Theorem 4.10, proof", "1/(1 - gamma) with momentum")(
    Identity(1 / (1 - gamma), kappa, 1 / (1 - gamma), where=slow, example={kappa: 10, eta0: 0.2}),
    "gamma = 1 - eta_0/kappa in Section 4.2.",
    Severity.CONSTANT(
        "kappa should be kappa/eta_0; then the bound of Theorem 4.10 is alpha R' U_3^g <= alpha_g sigma_g^2/eta_0.",
        kappa / eta0,
    ),
)
until_That, region = (gamma ** (x - 1) * (1 - beta**x) >= 1 - beta,), {gamma: (0.02, 0.99999), x: (1, 2000)}
at.own("early", "Error while T <= That")(
    Inequality(gamma**x, gamma * (1 - beta), region, ">=", conditions=until_That),
    "Compare Theorems 4.7 and 4.8 and Appendix B: the bound stays above gamma (1 - beta), so that their first branch "
    "never applies to small errors, whatever N.",
)

term = symbol("V", "a part of U_3")
first_inner = Sum(
    (gamma ** (i - That - 1) - beta ** (2 * (That + 1 - i))) / (1 - gamma * beta**2) * noise[i], (i, 1, That)
)
first = gamma ** (That - 2) * Sum(gamma**t * Sum(beta ** (2 * (t - i)) * noise[i], (i, 1, t)), (t, 1, That))
at("thm4.8.V1", "Theorem 4.8, proof", "First part of the noise variance")(
    Identity(term, gamma ** (2 * That - 3) * first_inner, first, instances=({That: 2}, {That: 3})),
    "Geometric sums, exchanged.",
    Severity.TYPOGRAPHICAL(
        "The exponent 2 That - 3 should be 2 That - 1, here and in the following line; the inequality after them has "
        "the right power.",
        gamma ** (2 * That - 1) * first_inner,
    ),
)

second_closed = Sum(
    (gamma ** (T + 1 - i) - beta ** (2 * (T + 1 - i))) / (gamma - beta**2) * noise[i], (i, That + 1, T)
) + Sum(
    (gamma ** (T - That) - beta ** (2 * (T - That))) / (gamma - beta**2) * beta ** (2 * (That + 1 - i)) * noise[i],
    (i, 1, That),
)
second = Sum(gamma ** (T - t) * Sum(beta ** (2 * (t - i)) * noise[i], (i, 1, t)), (t, That + 1, T))
at("thm4.8.V2", "Theorem 4.8, proof", "Second part of the noise variance")(
    Identity(term, second_closed, second, instances=shrinking), "Geometric sums, exchanged."
)

late = gamma ** (2 * That - 2) * (gamma ** (T + 1 - i) - beta ** (2 * (T + 1 - i))) / (gamma - beta**2)
printed_tail = gamma ** (That - 1) * gamma ** (2 * That) / (gamma - beta**2) * gamma ** (T - i)
influences = {beta: (0.05, 0.95)}
correct_tail = gamma ** (That - 1) * gamma**That / (gamma - beta**2) * gamma ** (T - i)
example = {beta: 0.5, gamma: 0.9, That: 7, T: 20, i: 10}
at("thm4.8.c2", "Theorem 4.8, proof", "Constant of the late influence")(
    Inequality(late, printed_tail, influences, conditions=(beta < gamma, That < i, i <= T), example=example),
    "The exact late influence in the line before, for That < i <= T.",
    Severity.CONSTANT(
        "c_2 = gamma^{2 That}/(gamma - beta^2) should be gamma^{That}/(gamma - beta^2); as printed, q_t is no upper "
        "bound.",
        correct_tail,
    ),
)

of_phase = symbol("alpha'", "factor of the noise where T > That", latex="\\alpha'")
late_constant = gamma**That / (gamma - beta**2)  # c_2, corrected
at("thm4.8.alpha", "Theorem 4.8, and its proof", "Factor alpha' where T > That")(
    Identity(of_phase, 2 * eta0 * alpha / (gamma * (1 - gamma * beta**2)), 2 * eta0 * late_constant * alpha),
    "The theorem defines alpha' = 2 eta_0 alpha/(gamma (1 - gamma beta^2)), and its proof alpha' = 2 eta_0 c_2 alpha "
    "(with the corrected c_2), for the phase in which alpha' is used.",
    Severity.TYPOGRAPHICAL(
        "alpha' is defined twice and differently. The theorem does not use its own, which is 2 eta_0 gamma c_1 alpha "
        "of the branch T <= That; the proof's is the one that its bound is made of.",
        2 * eta0 * late_constant * alpha,
    ),
)

early = 2 * gamma ** (T + i) / (gamma * (gamma - beta**2))


def exact_influence(step: sympy.Expr) -> sympy.Expr:
    """Return the influence that `weight` computes, for symbolic numbers of steps."""
    factor = ((1 - beta) / (1 - beta**k)) ** 2
    return Sum(gamma ** (T - k) * factor * beta ** (2 * (k - step)), (k, step, T))


def before(step: sympy.Expr) -> Any:
    """The condition that `step` is at most T-hat: T-hat is the last step at which it holds."""
    return gamma ** (step - 1) * (1 - beta**step) >= 1 - beta


example = {beta: 0.5, gamma: 0.9, That: 7, T: 20, i: 3}
q_i = symbol("q_i", "influence of step i")
at("thm4.8.indicator", "Theorem 4.8", "Which influence holds when")(
    Inequality(
        early, correct_tail, influences, conditions=(beta < gamma, i <= That, That < T), example=example, subject=q_i
    ),
    "The early influence, i <= That < T, against what the indicator of T > That gives it (with the corrected c_2).",
    Severity.CONSTANT(
        "The indicators should be of t <= That and t > That, not of T.",
        Inequality(
            exact_influence(i),
            early,
            influences,
            conditions=(beta < gamma, before(That), gamma**That * (1 - beta ** (That + 1)) < 1 - beta),
            instance={T: 12, That: 6, i: 3},
        ),
    ),
)

next_influence = symbol("w_{t+1}", "exact influence of the next step")
decreasing = Inequality(exact_influence(i + 1), exact_influence(i), influences, instance={T: 20, i: 6})
at("thm4.8.decreasing", "Section 4.2, discussion", "Where the influence is least before That")(
    replace(decreasing, conditions=(before(i + 1),), example={beta: 0.5, gamma: 0.9}, subject=next_influence),
    "The text says that the influence decreases while t <= That. Exact influences of the steps 6 and 7 of T = 20, 7 "
    "<= That.",
    Severity.RATE(
        "Only the majorant q_t decreases up to That; the exact influence may rise before (at beta = 1/2, gamma = 9/10 "
        "and T = 20 from step 4 on, That = 7), so that the preferred noise does not increase up to That.",
        replace(decreasing, quantity=early.xreplace({i: i + 1}), bound=early, conditions=(beta < gamma, before(i + 1))),
    ),
)
at("thm4.8.early_sum", "Theorem 4.8, proof", "Sum of the early influence")(
    Identity(
        term,
        gamma ** (T + 1) * ((1 - gamma ** (T / Integer(2))) / (1 - sqrt(gamma))) ** 2,
        gamma**T * Sum(gamma ** (t / Integer(2)), (t, 1, T)) ** 2,
        instances=({T: 1}, {T: 2}, {T: 5}),
    ),
    "A geometric sum.",
)

tail_power = gamma ** ((That - T - 1) / Integer(2))
tail = gamma ** ((That - 1) / Integer(2)) * Sum(gamma ** (-t / Integer(2)), (t, That + 1, T))
at("thm4.8.late_sum", "Theorem 4.8, proof", "Sum of the late influence")(
    Identity(term, (tail_power - 1) / (1 - sqrt(gamma)), tail, instances=shrinking),
    "A geometric sum, without sqrt(c_2).",
    Severity.TYPOGRAPHICAL("-1 should be -gamma^{-1/2}.", (tail_power - 1 / sqrt(gamma)) / (1 - sqrt(gamma))),
)

half = gamma ** ((That - 1) / 2)
small = kappa * alpha / (kappa * alpha + eta0)  # gamma^{T/2} at the T of Theorem 4.8
at("thm4.8.late_value", "Theorem 4.8, proof", "Late influence at the chosen T")(
    Identity(term, (half - (1 - half) * kappa * alpha) / (kappa * alpha + eta0), half - small, instances=({That: 3},)),
    "gamma^{T/2} = kappa alpha/(kappa alpha + eta_0).",
    Severity.CONSTANT(
        "The first term of the numerator should be eta_0 gamma^{(That-1)/2}.",
        (eta0 * half - (1 - half) * kappa * alpha) / (kappa * alpha + eta0),
    ),
)
at("thm4.8.early_value", "Theorem 4.8, proof", "Early influence at the chosen T")(
    Identity(term, 1 / (kappa * alpha + 1), 1 - small),
    "gamma^{T/2} = kappa alpha/(kappa alpha + eta_0).",
    Severity.CONSTANT("1/(kappa alpha + 1) should be eta_0/(kappa alpha + eta_0).", eta0 / (kappa * alpha + eta0)),
)
