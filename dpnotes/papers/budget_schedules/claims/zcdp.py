"""zCDP: Theorem 3.5, eq. (18), Section 4.3 and Appendix C, with the budget of the experiments."""

import sympy
from sympy import Integer, Rational, Sum, binomial, exp, log, sqrt

from dpnotes.papers.budget_schedules import calculators
from dpnotes.papers.budget_schedules.notation import *
from dpnotes.papers.budget_schedules.notation import symbol
from dpnotes.theory.claims import Breach, Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.statements import Identity, Optimum, Reason, Uncheckable

at, CLAIMS = PAPER.section()

at("lemmaC.1", "Lemma C.1", "Composition and post-processing")(
    Uncheckable("the composition of two mechanisms is zCDP with the sum of their parameters", Reason.ALL_MECHANISMS),
    "Bun and Steinke (2016), Lemma 1.7. The lemma says (rho_1, a)-zCDP, but rho-zCDP has no second parameter.",
)

per_order = symbol("D_a", "Renyi divergence over its order")
at("lemmaC.3", "Lemma C.3", "zCDP of the Gaussian mechanism")(
    Identity(
        per_order,
        1 / (2 * sigma**2),
        -(order * (1 - order) ** 2 + (1 - order) * order**2) / (2 * sigma**2) / (order * (order - 1)),
    ),
    "Two Gaussians one sensitivity apart: the integral of p^a q^{1-a} is the exponential of its exponent -(a z^2 + (1 "
    "- a)(z - 1)^2)/(2 sigma^2) at the peak z = 1 - a, since the variance is the same.",
)

L = log(1 / delta)
at("lemmaC.4.conversion", "Lemma C.4", "From zCDP to (epsilon, delta)")(
    Optimum(
        rho * (1 + steps) + L / steps, steps, sqrt(L / rho), rho + 2 * sqrt(rho * L), example={rho: 0.1963, delta: 1e-8}
    ),
    "rho-zCDP bounds epsilon by rho a + ln(1/delta)/(a - 1) for every order a; this is the least over T = a - 1 > 0.",
)

root_squared = sympy.expand((sqrt(L + epsilon) - sqrt(L)) ** 2)
headline = {epsilon: 4, delta: 1e-8}
right_rho = epsilon + 2 * L - 2 * sqrt(L * (epsilon + L))
at("lemmaC.4.inversion", "below Lemma C.4, and Section 4.1.3", "From (epsilon, delta) to zCDP")(
    Identity(rho, epsilon + 2 * L + 2 * sqrt(L * (epsilon + L)), root_squared, example=headline),
    "x = sqrt(rho) is the positive root of x^2 + 2 x sqrt(L) = epsilon, with L = ln(1/delta).",
    Severity.PRIVACY(
        "The sign before the root should be minus. With plus, the budget for (4, 1e-8) would be rho = 81.49, which "
        "gives only (159, 1e-8); the paper's own numbers (0.1963, R = 0.3927) use the right root.",
        right_rho,
        Breach(4, 1e-8, 1, "a Gaussian mechanism of zCDP 81.49", "budget of Algorithm 1 from (epsilon, delta)"),
    ),
    calculation=calculators.ZCDP,
)

headline_rho = right_rho.xreplace({epsilon: Integer(4), delta: Integer(10) ** -8})
at("sec5.budget", "Section 5", "Budget of the experiments as zCDP")(
    Identity(rho, Rational(1963, 10000), headline_rho, digits=4),
    "(4, 1e-8)-DP through Lemma C.4, by the right root.",
    calculation=calculators.ZCDP,
)
at("sec5.R", "Section 5", "Budget R of the experiments")(
    Identity(R, Rational(3927, 10000), 2 * headline_rho, digits=4), "R = 2 rho.", calculation=calculators.ZCDP
)
at("sec4.1.3.budgets", "Section 4.1.3 and Appendix B", "zCDP against the moments accountant")(
    Inequality(epsilon**2 / L, 2 * right_rho, sense="<", conditions=(epsilon <= 2 * L,), example=headline),
    "R_MA = epsilon^2/ln(1/delta) against R_zCDP = 2 rho by the right root, for epsilon <= 2 ln(1/delta).",
    Severity.CONSTANT(
        "R_zCDP > R_MA is false for every (epsilon, delta): R_zCDP/R_MA = 2/(1 + sqrt(1 + epsilon/ln(1/delta)))^2 < "
        "1/2. It seemed true through the wrong sign in Lemma C.4. R_MA hides a constant, so that the comparison says "
        "nothing.",
        Inequality(2 * epsilon**2 / (sqrt(epsilon + L) + sqrt(L)) ** 2, epsilon**2 / (2 * L)),
    ),
)

residual = symbol("R_T", "residual budget before step T")
next_residual = symbol("R_{T+1}", "residual budget after step T")
spent = {residual: R - Sum(1 / noise[t], (t, 1, T - 1)), next_residual: R - Sum(1 / noise[t], (t, 1, T))}
at("thm3.5.residual", "Theorem 3.5, proof", "Cost after T steps")(
    Inequality(Sum(1 / (2 * noise[t]), (t, 1, T)), (R - residual) / 2, {R: (30, 100)}, where=spent, instance={T: 3}),
    "R_1 = R and R_{t+1} = R_t - 1/sigma_t^2; half the spent budget is the zCDP parameter. R is not overspent.",
    Severity.TYPOGRAPHICAL(
        "R - R_T should be R - R_{T+1}: R_T is what is left before step T. Likewise the theorem says that theta_T is "
        "the output, while its proof and the excess risk speak of theta_{T+1}.",
        (R - next_residual) / 2,
    ),
)
at("alg1.guard", "Algorithm 1, line 2", "Budget test of Algorithm 1")(
    Inequality(1 / noise[T], residual, sense="<", where={**spent, R: Sum(1 / noise[t], (t, 1, T))}, instance={T: 3}),
    "The last step of a schedule that spends R exactly, as Theorems 4.3, 4.5 and Lemma 4.4 ask for.",
    Severity.CONSTANT(
        "The test should be rho_t <= R_t, with a tolerance for rounding: with the strict one a schedule with sum "
        "rho_t = R stops after T - 1 steps, and floating point decides at random.",
        Inequality(1 / noise[T], residual, where={**spent, R: Sum(1 / noise[t], (t, 1, T))}, instance={T: 3}),
    ),
)
at("eq18.removal", "eq. (18)", "Sensitivity when one example is zeroed out")(
    Inequality(G * part / N, G / N), "An example's gradient of norm u G leaves a mean over a fixed N."
)
at("eq18.replacement", "Section 3 and eq. (18)", "Sensitivity when one example differs")(
    Inequality(G * (part + other) / N, G / N, example={G: 1, N: 100, part: 1, other: 1}),
    "Two data sets that differ in one example: its gradients, of norms u G and v G, may point in opposite directions.",
    Severity.PRIVACY(
        "Section 3 calls data sets adjacent that differ in one sample, and Definition 3.4 takes them of equal size. "
        "Then the sensitivity is 2G/N and the cost four times as large; eq. (18) holds for zeroing out one example at "
        "fixed N.",
        2 * G / N,
        Breach(
            4,
            1e-8,
            0.0015,
            "R = 0.3927, as in Section 5, all spent; an example replaced",
            "full-batch gradients of Algorithm 1",
        ),
    ),
)

full_batch = symbol("rho_full", "cost of a step with the full batch")
rho_t = symbol("rho_t", "cost of a step")
example = {c: 0.5, p: 0.01, sigma: 2}
at("sec4.3.cost", "Section 4.3", "Cost of a subsampled step")(
    Identity(rho_t, c * p**2 / sigma, c * p**2 * full_batch, {full_batch: 1 / sigma**2}, example=example),
    "c p^2 times the cost of the full batch, which the sentence says is 1/sigma_t^2.",
    Severity.TYPOGRAPHICAL("c p^2/sigma_t should be c p^2/sigma_t^2.", c * p**2 / sigma**2),
)

subsampled = log(
    Sum(
        binomial(n, k - 1) * (1 - p) ** (n - k + 1) * p ** (k - 1) * exp((k - 1) * (k - 2) / (2 * sigma**2)),
        (k, 1, n + 1),
    )
) / (n * (n - 1))
at("sec4.3.zcdp", "Section 4.3", "Subsampling as zCDP")(
    Inequality(
        subsampled, 10 * p**2 / (2 * sigma**2), instance={n: 20}, example={p: 0.01, sigma: 1}, subject=per_order
    ),
    "Renyi divergence of order n = 20 of the subsampled Gaussian from the Gaussian, over its order, with c = 10.",
    Severity.PRIVACY(
        "A subsampled Gaussian does not satisfy c p^2/(2 sigma^2)-zCDP for any constant c: at high orders nothing is "
        "gained over 1/(2 sigma^2). Amplification by p^2 holds up to orders of about sigma^2 ln(1/p) (truncated CDP), "
        "so that neither R' = R/p^2 nor Lemma C.4 applies.",
        1 / (2 * sigma**2),
        Breach(
            1.71225813,
            1e-6,
            2.4e-5,
            "1000 steps, p = 0.01, sigma = 1, c = 1 (the paper leaves c out): epsilon by Lemma C.4 for zCDP 0.05, "
            "which is 1000 p^2/(2 sigma^2)",
            "subsampled gradients of Section 4.3",
        ),
    ),
)

theta = symbol("theta", "norm of the parameters", usual=(0.01, 100))
squared_loss = part * (part * theta + other) / N
example = {theta: 0.5, part: 1, other: 1}
sensitivity = symbol("sensitivity", "sensitivity of the gradient", latex="\\mathrm{sensitivity}")
at("lemmaC.5", "Lemma C.5", "Sensitivity of the squared loss")(
    Inequality(squared_loss, (theta**2 + 1) / 2, instance={N: 2}, example=example, subject=sensitivity),
    "One of N = 2 examples, x = 1 and x = -1: the gradient |x| |theta x - 1| is at most u (u |theta| + v), with |x| = "
    "u and a target of size v; it is |theta| + 1 at x = -1. D = M = 1.",
    Severity.CONSTANT(
        "The mean of the losses is bounded where their maximum is needed. (|theta| + 1)/N is right. The lemma is not "
        "used.",
        (theta + 1) / N,
    ),
)
