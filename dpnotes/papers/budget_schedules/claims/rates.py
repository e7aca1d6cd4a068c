"""Headline rates of momentum and of stochastic gradients: Theorems 4.7 to 4.10."""

import sympy
from sympy import Rational, Sum, log, sqrt

from dpnotes.papers.budget_schedules import calculators
from dpnotes.papers.budget_schedules.claims.descent import best_steps, by_curvature, noise_level
from dpnotes.papers.budget_schedules.claims.population import horizon, private_rate, sigma_g
from dpnotes.papers.budget_schedules.notation import *
from dpnotes.papers.budget_schedules.notation import symbol
from dpnotes.theory.asymptotics import Ratio
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.statements import Identity

at, CLAIMS = PAPER.section()


log_steps = log(1 + eta0 / (kappa * alpha))
momentum = {gamma: 1 - eta0 / kappa, beta: Rational(1, 2), eta0: Rational(1, 5)}
far = {kappa: (2, 1), alpha: (0.1, -1)}
at("thm4.7.T", "Theorem 4.7", "Number of steps of the uniform schedule with momentum")(
    Ratio(log_steps / ell, kappa / eta0 * log_steps, far, "O", where=momentum, subject=best_steps),
    "The proof chooses gamma^T = 1/(1 + eta_0/(kappa alpha)).",
)

two_phases = gamma ** (steps - 1) * (That + (gamma ** (That - steps) - 1) / (1 - gamma))
momentum_min = symbol("ERUB_min", "least bound of the dynamic schedule", latex="\\mathrm{ERUB}_{\\min}")
two_phase_bound = gamma**steps + 2 * eta0 * alpha * steps * two_phases
static_rate = kappa**2 / (kappa + eta0 / alpha) * gamma ** (That - 1) * log_steps
at_thirty_five = {steps: log_steps / ell, **momentum, kappa: 10, That: 35}
at("thm4.7.rate", "Theorem 4.7", "Rate of the uniform schedule with momentum, T > That")(
    Ratio(two_phase_bound, static_rate, {alpha: (1e-4, -1)}, "O", where=at_thirty_five, subject=momentum_min),
    "Theorem 4.6 with U_3 by its two phases, at the T of the theorem; beta = 1/2, eta_0 = 1/5, kappa = 10 (where That "
    "is 35), and alpha to 0.",
)
at("thm4.8.T", "Theorem 4.8", "Number of steps of the dynamic schedule with momentum")(
    Ratio(2 * log_steps / ell, 2 * kappa / eta0 * log_steps, far, "O", where=momentum, subject=best_steps),
    "The proof chooses gamma^{T/2} = kappa alpha/(kappa alpha + eta_0).",
)

inverse_gap = 1 / (1 - sqrt(gamma))


def least_over_steps(factor: sympy.Expr) -> sympy.Expr:
    """Return the least of y^2 + factor alpha K^2 (1 - y)^2 over y = gamma^{T/2}, with K = 1/(1 - sqrt gamma)."""
    weight = factor * alpha * inverse_gap**2
    return weight / (1 + weight)


from_below = 2 * eta0 * (1 - beta) ** 2  # w_t lies between this times gamma^{T-t} / (2 eta_0) and twice that
from_above = 2 * eta0 * gamma / (gamma - beta**2)
low, printed_rate = least_over_steps(from_below), kappa * alpha / (kappa * alpha + eta0)
farther = {kappa: (10, 1), alpha: (1e-2, -1)}
at("thm4.8.rate", "Theorem 4.8", "Rate of the dynamic schedule with momentum")(
    Ratio(low, printed_rate, farther, "O", where=momentum, example={kappa: 1000, alpha: 1e-6}, subject=momentum_min),
    "A bound from below on what any schedule and any T make of Theorem 4.6: the exact influence of step t is at least "
    "its own term, gamma^{T-t} (1 - beta)^2. beta = 1/2, eta_0 = 1/5.",
    Severity.RATE(
        "A factor kappa is hidden in the O. With the best schedule and T, the bound of Theorem 4.6 is of the order "
        "kappa^2 alpha/(kappa^2 alpha + eta_0); kappa alpha in place of kappa^2 alpha is too small by a factor of the "
        "order kappa where kappa^2 alpha is small.",
        Ratio(least_over_steps(from_above), kappa**2 * alpha / (kappa**2 * alpha + eta0), farther, where=momentum),
    ),
)

longest = symbol("sum sigma_t^2 w_t, Theorem 4.8 over uniform", "ratio of noise variances")
long_run = calculators._theorem_over_uniform(230, 460, 0.9, 0.99)  # That = 230 at beta = 0.9, gamma = 0.99
at.own("long_run", "Schedule of Theorem 4.8 against the uniform one")(
    Identity(longest, Rational(1104, 1000), sympy.Float(long_run), digits=3),
    "Compare Theorem 4.8. beta = 0.9, gamma = 0.99, T = 460, That = 230: with its majorant of the influence, "
    "corrected as in the errata, the dynamic schedule has more noise variance than the uniform one.",
)

level = D / (2 * mu * N**2 * R * gap)
run = {N: (10, 1e4), kappa: (1.0001, 100)}
batch = {n: N * sqrt(R)}
at("thm4.9.bound", "Theorem 4.9", "Excess risk of stochastic gradients")(
    Inequality(
        Sum(gamma ** (T - t) * D * (sigma_g**2 + G**2 * noise[t]) / n**2 / (2 * M * gap), (t, 1, T)),
        level * sigma_g**2 + Sum(gamma ** (T - t) * noise_level * noise[t], (t, 1, T)),
        run,
        where={**by_curvature, **batch, M: kappa * mu},
        instance={T: 3},
        subject=symbol("ERUB - gamma^T", "excess risk bound without its first term"),
    ),
    "The recursion of Theorem 4.2 with the variance (sigma_g^2 + G^2 sigma_t^2) D/n^2, at n = N sqrt(R), where R' = "
    "1; printed with an equality sign.",
    premises=("thm4.9.sampling",),
)

factor = (1 - beta) / (1 - beta**t) * (1 + beta**t) / (1 + beta)
stochastic = Sum(gamma ** (T - t) * factor, (t, 1, T)) * sigma_g**2 / G**2
at("thm4.10", "Theorem 4.10", "Excess risk of stochastic gradients with momentum")(
    Inequality(
        noise_level * stochastic,
        level * sigma_g**2,
        {**run, eta0: (0.01, 1)},
        where={gamma: 1 - eta0 / kappa, M: kappa * mu},
        instance={T: 60},
        example={**dict.fromkeys((D, mu, R, gap, G, sigma_g), 1), N: 10, beta: 0.5, eta0: 0.2, kappa: 10},
        subject=symbol("alpha R' U_3^g", "share of the stochastic gradient in the bound"),
    ),
    "U_3 at the constant sigma_g/G, R' = 1, gamma = 1 - eta_0/kappa.",
    Severity.CONSTANT(
        "alpha_g sigma_g^2 should be alpha_g sigma_g^2/eta_0, as 1/(1 - gamma) is kappa/eta_0 with momentum.",
        level * sigma_g**2 / eta0,
    ),
    premises=("thm4.9.sampling",),
)
by_sampling, large = 1 / (2 * horizon * sqrt(R)), {horizon: (1e4, 1)}
added = symbol(
    "ERUB - ERUB(full batch)",
    "what sampling adds to the excess risk bound",
    latex="\\mathrm{ERUB} - \\mathrm{ERUB}(\\text{full batch})",
)
at("thm4.9.conclusions", "Section 4.3, below Theorem 4.10", "What stochastic gradients add to the excess risk")(
    Ratio(by_sampling, private_rate / D, large, "O", where={R: Rational(2, 5)}, example={horizon: 1e6}, subject=added),
    "The section says that the sampling adds alpha_g sigma_g^2 of the order D/(N^2 R), which fits the dynamic "
    "schedule, so that its conclusions remain the same. Here the variance of a mean of n gradients, sigma_g^2 D/n, at "
    "n = N sqrt(R), goes through the same recursion: D kappa sigma_g^2/(2 M n), at D = mu = sigma_g = 1, an initial "
    "gap of 1, R = 2/5, and N to infinity.",
    Severity.RATE(
        "With a sampling error of the order 1/sqrt(n) the term is D/(N sqrt(R)), which dominates D/(N^2 R), and even D "
        "ln(N)/(N^2 R): at this batch size the bounds of both schedules are the same up to constants, and the "
        "advantage of the dynamic one is lost in it.",
        1 / (horizon * sqrt(R)),
    ),
)
