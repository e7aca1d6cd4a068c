"""Hong, Wang and Zhou (FAccT 2022), "Dynamic Privacy Budget Allocation ...": its claims, checked.

Letters are the paper's. Steps are counted from 1. The text was read in the arXiv version named in `PAPER`.
"""

from typing import Any

import numpy as np
import sympy
from sympy import Integer, Rational, exp, log, oo, sqrt

from dpnotes.papers.budget_schedules import calculators
from dpnotes.papers.budget_schedules.notation import (
    FROM_ONE,
    SYMBOLS,
    D,
    G,
    M,
    N,
    R,
    T,
    That,
    alpha,
    beta,
    c,
    delta,
    ell,
    epsilon,
    eta,
    eta0,
    g,
    gamma,
    gap,
    i,
    k,
    kappa,
    last,
    mu,
    n,
    noise,
    order,
    other,
    p,
    part,
    q,
    rate,
    rho,
    s,
    sigma,
    steps,
    t,
    u,
    w,
    x,
)
from dpnotes.theory.asymptotics import Limit, Ratio
from dpnotes.theory.claims import Claim, Paper, Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Rate
from dpnotes.theory.statements import Allocation, Identity, Optimum, Reason, Uncheckable
from dpnotes.theory.symbols import REAL, expand
from dpnotes.theory.units import LENGTH, LOSS

PAPER = Paper(
    key="budget_schedules",
    title="Dynamic Privacy Budget Allocation Improves Data Efficiency of Differentially Private Gradient Descent",
    authors=("Junyuan Hong", "Zhangyang Wang", "Jiayu Zhou"),
    venue="ACM Conference on Fairness, Accountability, and Transparency (FAccT)",
    year=2022,
    doi="10.1145/3531146.3533070",
    arxiv="2101.07413",
    version="arXiv:2101.07413, the text with the abstract of v3 and the FAccT 2022 front matter",
    bibtex="""@inproceedings{hong2022dynamic,
  title     = {Dynamic Privacy Budget Allocation Improves Data Efficiency of Differentially Private Gradient Descent},
  author    = {Hong, Junyuan and Wang, Zhangyang and Zhou, Jiayu},
  booktitle = {2022 ACM Conference on Fairness, Accountability, and Transparency (FAccT '22)},
  year      = {2022},
  publisher = {Association for Computing Machinery},
  doi       = {10.1145/3531146.3533070},
  isbn      = {978-1-4503-9352-2}
}""",
)

# ---------------------------------------------------------------- what the claims share
_GD = {gamma: 1 - 1 / kappa}
_UNIFORM_MIN = SYMBOLS.symbol(
    "ERUB_min(uniform)", "least bound of the uniform schedule", latex="\\mathrm{ERUB}^{uniform}_{\\min}"
)
_DYNAMIC_MIN = SYMBOLS.symbol(
    "ERUB_min(dynamic)", "least bound of the dynamic schedule", latex="\\mathrm{ERUB}^{dynamic}_{\\min}"
)
_STEPS = SYMBOLS.symbol("T*", "step count", latex="T^*")
_ALPHA = D * G**2 / (2 * R * M * N**2 * gap)


_claim, _own, _erratum = PAPER.claim, PAPER.own, PAPER.erratum


# ---------------------------------------------------------------- zCDP
_L = log(1 / delta)
_RIGHT_RHO = epsilon + 2 * _L - 2 * sqrt(_L * (epsilon + _L))
_ROOT_SQUARED = sympy.expand((sqrt(_L + epsilon) - sqrt(_L)) ** 2)
_HEADLINE = {epsilon: 4, delta: 1e-8}
_HEADLINE_RHO = _RIGHT_RHO.xreplace({epsilon: Integer(4), delta: Integer(10) ** -8})
_PER_ORDER = SYMBOLS.symbol("D_a", "Renyi divergence over its order")
_RESIDUAL, _NEXT_RESIDUAL = (
    SYMBOLS.symbol("R_T", "residual budget before step T"),
    SYMBOLS.symbol("R_{T+1}", "residual budget after step T"),
)
_SPENT = {_RESIDUAL: R - sympy.Sum(1 / noise[t], (t, 1, T - 1)), _NEXT_RESIDUAL: R - sympy.Sum(1 / noise[t], (t, 1, T))}
_SUBSAMPLED = log(
    sympy.Sum(
        sympy.binomial(n, k - 1) * (1 - p) ** (n - k + 1) * p ** (k - 1) * exp((k - 1) * (k - 2) / (2 * sigma**2)),
        (k, 1, n + 1),
    )
) / (n * (n - 1))
_SENSITIVITY = {G: (0.1, 10), N: (1, 1e4), part: (1e-3, 1), other: (1e-3, 1)}


def _privacy() -> tuple[Claim, ...]:
    return (
        _claim(
            "lemmaC.1",
            "Composition and post-processing",
            "Lemma C.1",
            Uncheckable(
                "the composition of two mechanisms is zCDP with the sum of their parameters", Reason.ALL_MECHANISMS
            ),
            "Bun and Steinke (2016), Lemma 1.7. The lemma says (rho_1, a)-zCDP, but rho-zCDP has no second parameter.",
        ),
        _claim(
            "lemmaC.3",
            "zCDP of the Gaussian mechanism",
            "Lemma C.3",
            Identity(
                _PER_ORDER,
                1 / (2 * sigma**2),
                -(order * (1 - order) ** 2 + (1 - order) * order**2) / (2 * sigma**2) / (order * (order - 1)),
            ),
            "Two Gaussians one sensitivity apart: the integral of p^a q^{1-a} is the exponential of its exponent "
            "-(a z^2 + (1 - a)(z - 1)^2)/(2 sigma^2) at the peak z = 1 - a, since the variance is the same.",
        ),
        _claim(
            "lemmaC.4.conversion",
            "From zCDP to (epsilon, delta)",
            "Lemma C.4",
            Optimum(
                rho * (1 + steps) + _L / steps,
                steps,
                sqrt(_L / rho),
                rho + 2 * sqrt(rho * _L),
                example={rho: 0.1963, delta: 1e-8},
            ),
            "rho-zCDP bounds epsilon by rho a + ln(1/delta)/(a - 1) for every order a; this is the least over T = a - "
            "1 > 0.",
        ),
        _claim(
            "lemmaC.4.inversion",
            "From (epsilon, delta) to zCDP",
            "below Lemma C.4, and Section 4.1.3",
            Identity(rho, epsilon + 2 * _L + 2 * sqrt(_L * (epsilon + _L)), _ROOT_SQUARED, example=_HEADLINE),
            "x = sqrt(rho) is the positive root of x^2 + 2 x sqrt(L) = epsilon, with L = ln(1/delta).",
            erratum=_erratum(
                Severity.PRIVACY,
                "The sign before the root should be minus. With plus, the budget for (4, 1e-8) would be rho = 81.49, "
                "which gives only (159, 1e-8); the paper's own numbers (0.1963, R = 0.3927) use the right root.",
                Identity(rho, _RIGHT_RHO, _ROOT_SQUARED, example=_HEADLINE),
            ),
            calculation=calculators.ZCDP,
        ),
        _claim(
            "sec5.budget",
            "Budget of the experiments as zCDP",
            "Section 5",
            Identity(rho, Rational(1963, 10000), _HEADLINE_RHO, digits=4),
            "(4, 1e-8)-DP through Lemma C.4, by the right root.",
            calculation=calculators.ZCDP,
        ),
        _claim(
            "sec5.R",
            "Budget R of the experiments",
            "Section 5",
            Identity(R, Rational(3927, 10000), 2 * _HEADLINE_RHO, digits=4),
            "R = 2 rho.",
            calculation=calculators.ZCDP,
        ),
        _claim(
            "sec4.1.3.budgets",
            "zCDP against the moments accountant",
            "Section 4.1.3 and Appendix B",
            Inequality(
                epsilon**2 / _L,
                2 * _RIGHT_RHO,
                {epsilon: (1e-3, 50), delta: (1e-12, 0.3)},
                "<",
                conditions=(epsilon <= 2 * _L,),
                example=_HEADLINE,
            ),
            "R_MA = epsilon^2/ln(1/delta) against R_zCDP = 2 rho by the right root, for epsilon <= 2 ln(1/delta).",
            erratum=_erratum(
                Severity.CONSTANT,
                "R_zCDP > R_MA is false for every (epsilon, delta): R_zCDP/R_MA = 2/(1 + sqrt(1 + "
                "epsilon/ln(1/delta)))^2 < 1/2. It seemed true through the wrong sign in Lemma C.4. R_MA hides a "
                "constant, so that the comparison says nothing.",
                Inequality(
                    2 * epsilon**2 / (sqrt(epsilon + _L) + sqrt(_L)) ** 2,
                    epsilon**2 / (2 * _L),
                    {epsilon: (1e-3, 50), delta: (1e-12, 0.3)},
                ),
            ),
        ),
        _claim(
            "thm3.5.residual",
            "Cost after T steps",
            "Theorem 3.5, proof",
            Inequality(
                sympy.Sum(1 / (2 * noise[t]), (t, 1, T)),
                (R - _RESIDUAL) / 2,
                {noise: (0.1, 100), R: (1, 10)},
                where=_SPENT,
                instance={T: 3},
            ),
            "R_1 = R and R_{t+1} = R_t - 1/sigma_t^2; half the spent budget is the zCDP parameter.",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "R - R_T should be R - R_{T+1}: R_T is what is left before step T. Likewise the theorem says that "
                "theta_T is the output, while its proof and the excess risk speak of theta_{T+1}.",
                Inequality(
                    sympy.Sum(1 / (2 * noise[t]), (t, 1, T)),
                    (R - _NEXT_RESIDUAL) / 2,
                    {noise: (0.1, 100), R: (1, 10)},
                    where=_SPENT,
                    instance={T: 3},
                ),
            ),
        ),
        _claim(
            "alg1.guard",
            "Budget test of Algorithm 1",
            "Algorithm 1, line 2",
            Inequality(
                1 / noise[T],
                _RESIDUAL,
                {noise: (0.1, 100)},
                "<",
                where={**_SPENT, R: sympy.Sum(1 / noise[t], (t, 1, T))},
                instance={T: 3},
            ),
            "The last step of a schedule that spends R exactly, as Theorems 4.3, 4.5 and Lemma 4.4 ask for.",
            erratum=_erratum(
                Severity.CONSTANT,
                "The test should be rho_t <= R_t, with a tolerance for rounding: with the strict one a schedule with "
                "sum rho_t = R stops after T - 1 steps, and floating point decides at random.",
                Inequality(
                    1 / noise[T],
                    _RESIDUAL,
                    {noise: (0.1, 100)},
                    where={**_SPENT, R: sympy.Sum(1 / noise[t], (t, 1, T))},
                    instance={T: 3},
                ),
            ),
        ),
        _claim(
            "eq18.removal",
            "Sensitivity when one example is zeroed out",
            "eq. (18)",
            Inequality(G * part / N, G / N, _SENSITIVITY),
            "An example's gradient of norm u G leaves a mean over a fixed N.",
        ),
        _claim(
            "eq18.replacement",
            "Sensitivity when one example differs",
            "Section 3 and eq. (18)",
            Inequality(G * (part + other) / N, G / N, _SENSITIVITY, example={G: 1, N: 100, part: 1, other: 1}),
            "Two data sets that differ in one example: its gradients, of norms u G and v G, may point in opposite "
            "directions.",
            erratum=_erratum(
                Severity.PRIVACY,
                "Section 3 calls data sets adjacent that differ in one sample, and Definition 3.4 takes them of equal "
                "size. Then the sensitivity is 2G/N and the cost four times as large; eq. (18) holds for zeroing out "
                "one example at fixed N.",
                Inequality(G * (part + other) / N, 2 * G / N, _SENSITIVITY),
            ),
        ),
        _claim(
            "sec4.3.cost",
            "Cost of a subsampled step",
            "Section 4.3",
            Identity(
                SYMBOLS.symbol("rho_t", "cost of a step"),
                c * p**2 / sigma,
                c * p**2 * full_batch,
                {full_batch: 1 / sigma**2},
                example={c: 0.5, p: 0.01, sigma: 2},
            ),
            "c p^2 times the cost of the full batch, which the sentence says is 1/sigma_t^2.",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "c p^2/sigma_t should be c p^2/sigma_t^2.",
                Identity(
                    SYMBOLS.symbol("rho_t", "cost of a step"),
                    c * p**2 / sigma**2,
                    c * p**2 * full_batch,
                    {full_batch: 1 / sigma**2},
                ),
            ),
        ),
        _claim(
            "sec4.3.zcdp",
            "Subsampling as zCDP",
            "Section 4.3",
            Inequality(
                _SUBSAMPLED,
                10 * p**2 / (2 * sigma**2),
                {p: (1e-3, 0.999), sigma: (1, 10)},
                instance={n: 20},
                example={p: 0.01, sigma: 1},
                subject=_PER_ORDER,
            ),
            "Renyi divergence of order n = 20 of the subsampled Gaussian from the Gaussian, over its order, with c = "
            "10.",
            erratum=_erratum(
                Severity.PRIVACY,
                "A subsampled Gaussian does not satisfy c p^2/(2 sigma^2)-zCDP for any constant c: at high orders "
                "nothing is gained over 1/(2 sigma^2). Amplification by p^2 holds up to orders of about sigma^2 "
                "ln(1/p) (truncated CDP), so that neither R' = R/p^2 nor Lemma C.4 applies.",
                Inequality(_SUBSAMPLED, 1 / (2 * sigma**2), {p: (1e-3, 0.999), sigma: (1, 10)}, instance={n: 20}),
            ),
        ),
        _claim(
            "lemmaC.5",
            "Sensitivity of the squared loss",
            "Lemma C.5",
            Inequality(
                _SQUARED_LOSS,
                (theta**2 + 1) / 2,
                {theta: (1e-2, 1e2), part: (1e-3, 1), other: (1e-3, 1)},
                instance={N: 2},
                example={theta: 0.5, part: 1, other: 1},
                subject=SYMBOLS.symbol("sensitivity", "sensitivity of the gradient", latex="\\mathrm{sensitivity}"),
            ),
            "One of N = 2 examples, x = 1 and x = -1: the gradient |x| |theta x - 1| is at most u (u |theta| + v), "
            "with "
            "|x| = u and a target of size v; it is |theta| + 1 at x = -1. D = M = 1.",
            erratum=_erratum(
                Severity.CONSTANT,
                "The mean of the losses is bounded where their maximum is needed. (|theta| + 1)/N is right. The lemma "
                "is not used.",
                Inequality(
                    _SQUARED_LOSS,
                    (theta + 1) / N,
                    {theta: (1e-2, 1e2), part: (1e-3, 1), other: (1e-3, 1)},
                    instance={N: 2},
                ),
            ),
        ),
    )


full_batch = SYMBOLS.symbol("rho_full", "cost of a step with the full batch")
theta = SYMBOLS.symbol("theta", "norm of the parameters")
_SQUARED_LOSS = part * (part * theta + other) / N

# ---------------------------------------------------------------- gradient descent
_W = sympy.LambertW(exp(1 + ell / (alpha * kappa)))
# The same as _GD by ln(1/gamma), in which algebra is several times faster.
_BY_RATE = {kappa: 1 / (1 - gamma), gamma: exp(-rate)}
_BY_OMEGA = {alpha: ell / (kappa * (w - 1 + log(w))), **_BY_RATE}
_UNIFORM = gamma**steps + alpha * kappa * (1 - gamma**steps) * steps
_DYNAMIC = gamma**steps + alpha * ((1 - gamma ** (steps / 2)) / (1 - sqrt(gamma))) ** 2
_K2 = (1 - sqrt(gamma)) ** -2
_T23 = log(ell / (kappa * alpha)) / ell
_T24 = log(1 + ell / alpha) / ell
_T27 = 2 * log(alpha / (alpha + (1 - sqrt(gamma)) ** 2)) / log(gamma)
_UNIFORM_LEAST = (w - 1 + w * log(w)) / (w * (w - 1 + log(w)))
_UNIFORM_EXACT = _UNIFORM_LEAST.xreplace({w: _W})
_DYNAMIC_EXACT = alpha * _K2 / (alpha * _K2 + 1)
_FAR = {kappa: (2, 1), alpha: (0.1, -1)}
_SHARP = {kappa: 1000, alpha: 1e-4}
_CURVATURES = {kappa: (1 + 1e-6, 1e6)}
_MEAN, _MEAN_ROOT = sympy.Sum(q[t], (t, 1, T)) / T, sympy.Sum(sqrt(q[t]), (t, 1, T)) / T
_FOUR_INFLUENCES = {expand(q[index], {}): index**2 for index in range(1, 5)}
_GAIN_LAW = (1 + 1 / s) * log(1 + s)


def _gradient_descent() -> tuple[Claim, ...]:
    risk = SYMBOLS.symbol("E", "excess risk bound")
    recursion = Integer(1)
    for step in (1, 2, 3):
        recursion = gamma * recursion + R * alpha * noise[step]
    propagated = SYMBOLS.symbol("Q", "propagated noise, the sum of q_t sigma_t^2")
    bound = gamma**T + R * sympy.Sum(gamma ** (T - t) * alpha * noise[t], (t, 1, T))
    return (
        _claim(
            "assumptions",
            "Bounded gradients and Polyak-Lojasiewicz on the whole space",
            "Section 3, assumptions, and Definition 4.1",
            Inequality(
                u * exp(2 * steps), Integer(1), {u: (1e-6, 0.999), steps: (1e-3, 10)}, example={u: 0.01, steps: 3}
            ),
            "f(theta) - f^* = u G^2/(2 mu), at most G^2/(2 mu) by both assumptions; gradient ascent for a time T/mu "
            "multiplies it by at least e^{2T}.",
            erratum=_erratum(
                Severity.RATE,
                "On the whole space only constant losses satisfy both. A bounded domain is needed (left by gradient "
                "ascent in time), or clipping, whose bias Theorem 4.2 does not treat.",
                Inequality(
                    u * exp(2 * steps),
                    Integer(1),
                    {u: (1e-6, 0.999), steps: (1e-3, 10)},
                    conditions=(2 * steps <= log(1 / u),),
                ),
            ),
        ),
        _claim(
            "sec4.influence",
            "Influence as a derivative",
            "Section 4",
            Identity(_DERIVATIVE, q[t], sympy.diff(R * q[t] * sigma**2, sigma), instances=({t: 1},)),
            "ERUB = gamma^T + R sum_t q_t sigma_t^2, eq. (7).",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "q_t is not the derivative of ERUB by sigma_t, but the coefficient of R sigma_t^2; the derivative is "
                "2 R q_t sigma_t.",
                Identity(
                    _DERIVATIVE, 2 * R * q[t] * sigma, sympy.diff(R * q[t] * sigma**2, sigma), instances=({t: 1},)
                ),
            ),
        ),
        _claim(
            "eq4.nonprivate",
            "alpha as the error of noise-free descent",
            "eq. (4)",
            Identity(gamma**steps, alpha, gamma ** (log(1 / alpha) / rate), where={gamma: exp(-rate)}),
            "gamma^T at T = ln(1/alpha)/ln(1/gamma). Without noise there is no R, so this compares stopping times, "
            "not algorithms.",
        ),
        _claim(
            "thm4.2.noise",
            "Noise of one step",
            "Theorem 4.2, proof",
            Identity(alpha, _ALPHA, M / 2 * (eta * G / N) ** 2 * D / (R * gap), {eta: 1 / M}),
            "Smoothness adds (M/2) eta^2 E|G sigma nu/N|^2 at eta = 1/M, with E|nu|^2 = D; this is R alpha sigma^2 "
            "times the initial gap.",
        ),
        _claim(
            "thm4.2.rate",
            "Contraction of one step",
            "Theorem 4.2, proof, and eq. (6)",
            Identity(gamma, 1 - 1 / kappa, 1 - 2 * mu * eta * (1 - M * eta / 2), where={eta: 1 / M, M: kappa * mu}),
            "Smoothness and the Polyak-Lojasiewicz condition at eta = 1/M.",
        ),
        _claim(
            "thm4.2.recursion",
            "Excess risk bound",
            "Theorem 4.2, eq. (7)",
            Identity(risk, bound, recursion, instances=({T: 3},)),
            "E_{t+1} = gamma E_t + R alpha sigma_t^2 from E_1 = 1.",
            calculation=calculators.CURVE,
        ),
        _claim(
            "thm4.2.bound",
            "Excess risk bound against quadratics",
            "Theorem 4.2, eq. (7)",
            Inequality(
                (1 - u) ** (2 * T) + R * alpha * u * sympy.Sum((1 - u) ** (2 * (T - t)) * noise[t], (t, 1, T)),
                gamma**T + R * propagated,
                {u: (1e-3, 0.9999), kappa: (1.001, 1e3), R: (0.1, 10), alpha: (1e-6, 10), noise: (1e-3, 1e3)},
                where={propagated: sympy.Sum(gamma ** (T - t) * alpha * noise[t], (t, 1, T)), **_GD},
                conditions=(u * kappa >= 1,),
                instance={T: 3},
                subject=risk,
            ),
            "The exact excess risk of f = u M theta^2/2, with 1/kappa <= u <= 1, relative to the initial one.",
        ),
        _claim(
            "eq9",
            "Bound of the uniform schedule",
            "eq. (9)",
            Identity(
                risk,
                gamma**T + alpha * kappa * (1 - gamma**T) * T,
                gamma**T + sympy.Sum(gamma ** (T - t) * alpha * T, (t, 1, T)),
                where={kappa: 1 / (1 - gamma)},
                instances=({T: 1}, {T: 2}, {T: 5}),
            ),
            "Eq. (7) at sigma_t^2 = T/R.",
            calculation=calculators.CURVE,
        ),
        _claim(
            "eq22.gradient",
            "Derivative of the uniform bound",
            "Theorem 4.3, sketch of proof",
            Identity(
                sympy.Derivative(_UNIFORM, steps),
                gamma**steps * log(gamma)
                + alpha * kappa * (1 - gamma**steps)
                - alpha * kappa * steps * gamma**steps * log(gamma),
                sympy.diff(_UNIFORM, steps),
            ),
            "The paper calls its root intractable; it is Wright's omega function, see thm4.3.minimum.",
        ),
        _claim(
            "eq23.minimiser",
            "Minimiser of the surrogate",
            "eq. (23)",
            Optimum(
                gamma**steps + alpha * kappa * steps, steps, _T23, where=_BY_RATE, conditions=(ell > kappa * alpha,)
            ),
            "The uniform bound without the factor 1 - gamma^T.",
        ),
        _claim(
            "eq23.limit",
            "Surrogate step count for large kappa",
            "Theorem 4.3, proof, below eq. (23)",
            Limit(_T23, kappa, oo, oo, where=_GD, example={kappa: 1e6, alpha: 1e-3}, subject=_STEPS),
            "The paper says that T suffers from explosion as kappa grows, and changes it to eq. (24) for that reason.",
            erratum=_erratum(
                Severity.RATE,
                "For fixed alpha the T of eq. (23) falls below 0 once kappa^2 alpha is above about 1, where its own "
                "condition fails and T = 0 is the minimiser; it does not explode.",
                Limit(_T23, kappa, oo, -oo, where=_GD, example={kappa: 1e6, alpha: 1e-3}),
            ),
        ),
        _claim(
            "eq24.limit",
            "Uniform step count for large kappa",
            "Theorem 4.3, below eq. (24)",
            Limit(_T24, kappa, oo, Integer(0), where=_GD, example={kappa: 1e6, alpha: 1e-3}, subject=_STEPS),
            "The paper says that eq. (24) converges to 0 as kappa grows.",
            erratum=_erratum(
                Severity.RATE,
                "The limit is 1/alpha, not 0. (The exact minimiser does go to 0.)",
                Limit(_T24, kappa, oo, 1 / alpha, where=_GD, example={kappa: 1e6, alpha: 1e-3}),
            ),
        ),
        _claim(
            "eq24.order",
            "Order of the uniform step count",
            "Theorem 4.3",
            Ratio(_T24, kappa * log(1 + 1 / (kappa * alpha)), _FAR, "O", where=_GD, subject=_STEPS),
            "Eq. (24), with ln(1/gamma) between 1/kappa and 2/kappa for kappa >= 2.",
        ),
        _claim(
            "eq25",
            "Uniform bound at eq. (24)",
            "eq. (25)",
            Identity(
                risk,
                (1 + kappa * log(1 + rate / alpha)) / (1 + rate / alpha),
                _UNIFORM.xreplace({steps: log(1 + rate / alpha) / rate}),
                where={gamma: exp(-rate)},
            ),
            "Eq. (24) put into eq. (22).",
        ),
        _claim(
            "thm4.3.log_lower",
            "Lower bound of ln(1/gamma)",
            "Theorem 4.3, proof",
            Inequality(ell, 1 / kappa, _CURVATURES, ">=", where=_GD),
            "-ln(1 - y) >= y.",
        ),
        _claim(
            "thm4.3.log_upper",
            "Upper bound of ln(1/gamma)",
            "Theorem 4.3, proof",
            Inequality(
                ell,
                1 / (c * kappa),
                {**_CURVATURES, c: (1e-3, 1 - 1e-4)},
                where=_GD,
                conditions=(kappa * (1 - c) >= 1,),
            ),
            "ln(1 + 1/(kappa - 1)) <= 1/(kappa - 1) <= 1/(c kappa) for kappa >= 1/(1 - c).",
        ),
        _claim(
            "thm4.3.minimum",
            "Step count of the uniform schedule",
            "eq. (24), for ERUB_min in eq. (8)",
            Optimum(_UNIFORM, steps, _T24, where=_GD, example=_SHARP),
            "Eq. (24) stands for the minimiser of eq. (22) in the proof, and its value is called ERUB_min.",
            erratum=_erratum(
                Severity.RATE,
                "Eq. (24) does not minimise eq. (22). The minimiser is T = ln(w)/ln(1/gamma) with w + ln w = 1 + "
                "ln(1/gamma)/(alpha kappa) (Wright's omega function); at kappa = 1000, alpha = 1e-4 the bound at (24) "
                "is 218 times the initial error.",
                Optimum(_UNIFORM, steps, log(w) / ell, _UNIFORM_LEAST, where=_BY_OMEGA),
            ),
            calculation=calculators.UNIFORM,
        ),
        _claim(
            "thm4.3.rate",
            "Rate of the uniform schedule",
            "Theorem 4.3, eq. (8)",
            Ratio(
                _UNIFORM_EXACT,
                kappa**2 / (kappa + 1 / alpha) * log(1 + 1 / (kappa * alpha)),
                _FAR,
                where=_GD,
                example=_SHARP,
                subject=_UNIFORM_MIN,
            ),
            "The exact minimum of eq. (22), by Wright's omega function.",
            erratum=_erratum(
                Severity.RATE,
                "Eq. (8) is the bound at eq. (24), not its minimum; it holds for kappa^2 alpha << 1 only, so that "
                "alpha_0 depends on kappa.",
                Ratio(_UNIFORM_EXACT, kappa**2 * alpha * log(1 + 1 / (kappa**2 * alpha)), _FAR, where=_GD),
            ),
            calculation=calculators.UNIFORM,
        ),
        _own(
            "relaxation",
            "Relaxed noise term of the uniform schedule",
            Inequality(kappa * (1 - gamma**x) * x, x**2, {kappa: (1.001, 1e4), x: (1, 1e4)}, where=_GD),
            "Compare the sketch of proof of Theorem 4.3, which relaxes to alpha kappa T^2, and finds that it explodes "
            "with kappa; that kappa is superfluous, as kappa (1 - gamma^T) <= T.",
        ),
        _claim(
            "lemma4.4.optimum",
            "Best schedule for any influence",
            "Lemma 4.4, eq. (10)",
            Allocation(
                R * sympy.Sum(q[t] * noise[t], (t, 1, T)),
                noise,
                t,
                sympy.Sum(sqrt(q[i] / q[t]), (i, 1, T)) / R,
                sympy.Sum(sqrt(q[t]), (t, 1, T)) ** 2,
                R,
                (T, (1, 2, 3, 4)),
            ),
            "Cauchy and Schwarz; checked by the optimality conditions in 1/sigma_t^2.",
        ),
        _claim(
            "lemma4.4.gap",
            "What the uniform schedule loses",
            "Lemma 4.4, eq. (26)",
            Identity(
                T**2 * _MEAN - (T * _MEAN_ROOT) ** 2,
                T**2 * (sympy.Sum(q[t] ** 2, (t, 1, T)) / T - _MEAN**2),
                T * sympy.Sum(q[t], (t, 1, T)) - sympy.Sum(sqrt(q[t]), (t, 1, T)) ** 2,
                instances=({T: 4}, {T: 2}),
                example=_FOUR_INFLUENCES,
            ),
            "Printed T^2 Var[q_t], written out.",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "The right-hand side of eq. (26) should be T^2 Var[sqrt(q_t)], as in the text of the lemma.",
                Identity(
                    T**2 * _MEAN - (T * _MEAN_ROOT) ** 2,
                    T**2 * (_MEAN - _MEAN_ROOT**2),
                    T * sympy.Sum(q[t], (t, 1, T)) - sympy.Sum(sqrt(q[t]), (t, 1, T)) ** 2,
                    instances=({T: 4}, {T: 2}),
                    example=_FOUR_INFLUENCES,
                ),
            ),
        ),
        _claim(
            "thm4.5.schedule",
            "Dynamic schedule in closed form",
            "Theorem 4.5",
            Identity(
                noise[t],
                (sqrt((1 / gamma) ** T) - 1) / (1 - sqrt(gamma)) * sqrt(gamma**t) / R,
                sympy.Sum(sqrt(gamma ** (T - i) / gamma ** (T - t)), (i, 1, T)) / R,
                instances=({T: 1, t: 1}, {T: 3, t: 1}, {T: 4, t: 3}, {T: 6, t: 6}),
            ),
            "Lemma 4.4 at q_t = gamma^{T-t} alpha, with steps counted from 1.",
            calculation=calculators.SCHEDULE,
        ),
        _claim(
            "thm4.5.bound",
            "Bound of the dynamic schedule",
            "Theorem 4.5, proof",
            Identity(
                risk,
                gamma**T + alpha * ((1 - gamma ** (T / 2)) / (1 - sqrt(gamma))) ** 2,
                gamma**T + alpha * sympy.Sum(sqrt(gamma ** (T - t)), (t, 1, T)) ** 2,
                instances=({T: 1}, {T: 2}, {T: 5}),
            ),
            "Lemma 4.4 in eq. (7).",
            calculation=calculators.CURVE,
        ),
        _claim(
            "thm4.5.minimiser",
            "Best step count of the dynamic schedule",
            "eq. (27)",
            Optimum(_DYNAMIC, steps, _T27, _DYNAMIC_EXACT, where=_GD, example={kappa: 10, alpha: 1e-3}),
            "With y = gamma^{T/2} the bound is a quadratic in y.",
            calculation=calculators.DYNAMIC,
        ),
        _claim(
            "thm4.5.T",
            "Step count of Theorem 4.5",
            "Theorem 4.5",
            Optimum(
                _DYNAMIC, steps, 2 * kappa * log(1 + 1 / (kappa * alpha)), where=_GD, example={kappa: 1000, alpha: 1e-5}
            ),
            "The theorem says that this T minimises ERUB (up to rounding).",
            erratum=_erratum(
                Severity.RATE,
                "The T of Theorem 4.5 is not the minimiser, eq. (27), of its proof: (1 - sqrt(gamma))^2 is about 1/(4 "
                "kappa^2), not 1/kappa. It does no harm while kappa^2 alpha is below 0.001.",
                Optimum(_DYNAMIC, steps, _T27, where=_GD, example={kappa: 1000, alpha: 1e-5}),
            ),
            calculation=calculators.DYNAMIC,
        ),
        _claim(
            "thm4.5.K",
            "The square of 1/(1 - sqrt(gamma))",
            "Theorem 4.5, proof",
            Identity(_K2, kappa * (2 * kappa - 1 + 2 * sqrt(kappa * (kappa - 1))), _K2, where=_GD),
            "gamma = 1 - 1/kappa.",
        ),
        _claim(
            "thm4.5.K_lower",
            "Lower bound of 1/(1 - sqrt(gamma))",
            "Theorem 4.5, proof",
            Inequality(1 / (1 - sqrt(gamma)), kappa, _CURVATURES, ">=", where=_GD),
            "1/(1 - sqrt(gamma)) = kappa (1 + sqrt(gamma)).",
        ),
        _claim(
            "thm4.5.K_upper",
            "Upper bound of 1/(1 - sqrt(gamma))",
            "Theorem 4.5, proof",
            Inequality(1 / (1 - sqrt(gamma)), 2 * kappa, _CURVATURES, where=_GD),
            "1/(1 - sqrt(gamma)) = kappa (1 + sqrt(gamma)).",
        ),
        _claim(
            "thm4.5.upper",
            "Upper bound of the least dynamic bound",
            "Theorem 4.5, proof",
            Inequality(
                _DYNAMIC_EXACT,
                4 * kappa**2 * alpha / (kappa**2 * alpha + 1),
                {**_CURVATURES, alpha: (1e-16, 1)},
                where=_GD,
                subject=_DYNAMIC_MIN,
            ),
            "The minimum is alpha K^2/(1 + alpha K^2) with K <= 2 kappa.",
        ),
        _claim(
            "thm4.5.lower",
            "Lower bound of the least dynamic bound",
            "Theorem 4.5, proof",
            Inequality(
                _DYNAMIC_EXACT,
                kappa**2 * alpha / (kappa**2 * alpha + 1) / 4,
                {**_CURVATURES, alpha: (1e-16, 1)},
                ">=",
                where=_GD,
                subject=_DYNAMIC_MIN,
            ),
            "The minimum is alpha K^2/(1 + alpha K^2) with K >= kappa, so that the factor 1/4 is not needed.",
        ),
        _claim(
            "thm4.5.rate",
            "Rate of the dynamic schedule",
            "Theorem 4.5, eq. (11)",
            Ratio(_DYNAMIC_EXACT, kappa**2 / (kappa**2 + 1 / alpha), _FAR, where=_GD, subject=_DYNAMIC_MIN),
            "The exact minimum, at eq. (27).",
            calculation=calculators.DYNAMIC,
        ),
        _claim(
            "thm4.5.kappa",
            "Condition on kappa",
            "Theorem 4.5",
            Inequality(Integer(0), alpha * (1 - 1 / flat), {flat: (1, 1e3), alpha: (1e-6, 1)}, "<"),
            "Lemma 4.4 needs q_1 = gamma^{T-1} alpha > 0, here at T = 2, while the theorem allows kappa >= 1.",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "kappa >= 1 should be kappa > 1: at kappa = 1 the influence of all steps but the last is 0, and the "
                "schedule divides by it.",
                Inequality(Integer(0), alpha * (1 - 1 / kappa), {kappa: (1.001, 1e3), alpha: (1e-6, 1)}, "<"),
            ),
        ),
        _claim(
            "eq12.uniform",
            "Uniform rate for many examples",
            "eq. (12)",
            Ratio(
                _UNIFORM_EXACT,
                kappa**2 * alpha * log(1 / (kappa * alpha)),
                {alpha: (1e-4, -1)},
                "O",
                where={**_GD, kappa: 10},
                subject=_UNIFORM_MIN,
            ),
            "Fixed kappa, here 10, and alpha to 0.",
        ),
        _claim(
            "eq12.dynamic",
            "Dynamic rate for many examples",
            "Section 4.1.3",
            Ratio(_DYNAMIC_EXACT, alpha, {alpha: (1e-4, -1)}, "O", where={**_GD, kappa: 10}, subject=_DYNAMIC_MIN),
            "Fixed kappa, here 10, and alpha to 0.",
        ),
        _claim(
            "eq12.regime",
            "alpha for many examples",
            "Section 4.1.3",
            Limit(_ALPHA, N, oo, oo, subject=alpha),
            "The paper takes N large enough that alpha >> 1.",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL, "alpha >> 1 should be alpha << 1.", Limit(_ALPHA, N, oo, Integer(0))
            ),
        ),
        _claim(
            "sec4.1.3.eq8_limit",
            "Eq. (8) for large kappa",
            "Section 4.1.3, stability",
            Limit(kappa**2 / (kappa + 1 / alpha) * log(1 + 1 / (kappa * alpha)), kappa, oo, 1 / alpha),
            "The limit of the formula (8); it is not the limit of the least bound, see the next claim.",
        ),
        _claim(
            "sec4.1.3.uniform_limit",
            "Least uniform bound for large kappa",
            "Section 4.1.3, stability",
            Limit(_UNIFORM_LEAST, w, Integer(1), 1 / alpha, subject=_UNIFORM_MIN),
            "For fixed alpha, w + ln w = 1 + ln(1/gamma)/(alpha kappa) falls to 1 as kappa grows.",
            erratum=_erratum(
                Severity.RATE,
                "The least uniform bound tends to 1, not to 1/alpha: T = 0 already gives 1. Both schedules are "
                "Theta(1), and the dynamic one is not more stable.",
                Limit(_UNIFORM_LEAST, w, Integer(1), Integer(1)),
            ),
        ),
        _claim(
            "sec4.1.3.dynamic_limit",
            "Least dynamic bound for large kappa",
            "Section 4.1.3, stability",
            Limit(_DYNAMIC_EXACT, kappa, oo, Integer(1), where=_GD, subject=_DYNAMIC_MIN),
            "The exact minimum.",
        ),
        _claim(
            "intro.stricter",
            "Where the dynamic schedule gains",
            "Section 1, end",
            Inequality(_GAIN_LAW.xreplace({s: 2 * s}), _GAIN_LAW, {s: (1e-6, 1e12)}, example={s: 10}),
            "s = 1/(kappa^2 alpha) doubles with the budget; the introduction expects more gain from smaller samples "
            "and budgets.",
            erratum=_erratum(
                Severity.RATE,
                "The gain grows with sample size and budget, as Section 5 also finds.",
                Inequality(_GAIN_LAW.xreplace({s: 2 * s}), _GAIN_LAW, {s: (1e-6, 1e12)}, ">="),
            ),
            calculation=calculators.GAIN,
        ),
        _own(
            "gain",
            "Least uniform over least dynamic bound",
            Ratio(
                _UNIFORM_EXACT / _DYNAMIC_EXACT,
                _GAIN_LAW.xreplace({s: 1 / (kappa**2 * alpha)}),
                _FAR,
                where=_GD,
                subject=_UNIFORM_MIN / _DYNAMIC_MIN,
            ),
            "Compare Section 4.1.3. Both minima are exact. The gain is at most logarithmic, and depends, up to "
            "constants, on kappa^2 alpha alone.",
            calculation=calculators.GAIN,
        ),
    )


_DERIVATIVE = SYMBOLS.symbol(
    "dERUB/dsigma_t", "derivative of the excess risk bound", latex="\\partial ERUB/\\partial\\sigma_t"
)
flat = SYMBOLS.symbol("kappa", "condition number, 1 allowed", domain=FROM_ONE)

# ---------------------------------------------------------------- momentum
zeta = SYMBOLS.symbol("zeta", "coefficient of the momentum effect", domain=REAL)
_v = SYMBOLS.symbol("v_t", "moving average of gradients", LOSS / LENGTH)
_m = SYMBOLS.symbol("m_t", "bias-corrected moving average of gradients", LOSS / LENGTH)
_grad = SYMBOLS.symbol("g_t", "private gradient", LOSS / LENGTH)
_AVERAGE = SYMBOLS.symbol("v_{t+1}", "moving average of gradients", LOSS / LENGTH)
_A = beta * gamma / ((gamma - beta) ** 2 * (1 - beta) ** 3)
_COEFFICIENT = SYMBOLS.symbol("A", "beta gamma / ((gamma - beta)^2 (1 - beta)^3)")
_SLOW = {gamma: 1 - eta0 / kappa}
_PEAK = gamma ** (x - 1) * (1 - beta**x)  # h of Lemma C.8
_FACTOR = (1 - beta) / (1 - beta**x)
_BEFORE_THAT = gamma ** (last - 1) * (1 - beta**last) >= 1 - beta
_MOMENTUM_REGION = {beta: (0.01, 0.99), gamma: (0.02, 0.99999), x: (1, 200), last: (1, 200)}
_SMALL = kappa * alpha / (kappa * alpha + eta0)  # gamma^{T/2} at the T of Theorem 4.8
_HALF = gamma ** ((That - 1) / 2)
_LATE = gamma ** (2 * That - 2) * (gamma ** (T + 1 - i) - beta ** (2 * (T + 1 - i))) / (gamma - beta**2)
_EARLY = 2 * gamma ** (T + i) / (gamma * (gamma - beta**2))
_INFLUENCES = {beta: (0.05, 0.95), gamma: (0.1, 0.999), That: (1, 40), T: (2, 80), i: (1, 80)}
_PRINTED_TAIL = gamma ** (That - 1) * gamma ** (2 * That) / (gamma - beta**2) * gamma ** (T - i)
_CORRECT_TAIL = gamma ** (That - 1) * gamma**That / (gamma - beta**2) * gamma ** (T - i)


_U3 = SYMBOLS.symbol("U_3", "noise variance of Theorem 4.6")
_VARIANCE_CONSTANT = SYMBOLS.symbol("C", "constant of the gradient variance", LENGTH**2 / LOSS)
_SUM_CONSTANT = SYMBOLS.symbol("C_7", "constant of Lemma C.7")
_RISK_AND_EFFECT = SYMBOLS.symbol(
    "(EER + zeta * momentum effect)/(f(theta_1) - f(theta*))",
    "excess risk and momentum effect over the initial excess risk",
    latex="\\frac{\\mathrm{EER} + \\zeta \\cdot \\mathrm{momentum\\ effect}}{f(\\theta_1) - f(\\theta^*)}",
)


def _weight(index: int, num_steps: int) -> sympy.Expr:
    """The exact influence w_i of the noise of step i with momentum, from U_3 of Theorem 4.6."""
    terms = (
        gamma ** (num_steps - step) * ((1 - beta) / (1 - beta**step)) ** 2 * beta ** (2 * (step - index))
        for step in range(index, num_steps + 1)
    )
    return sympy.Add(*terms)


def _exact_influence(step: sympy.Expr) -> sympy.Expr:
    """The same for symbolic numbers of steps."""
    factor = ((1 - beta) / (1 - beta**k)) ** 2
    return sympy.Sum(gamma ** (T - k) * factor * beta ** (2 * (k - step)), (k, step, T))


def _before(step: sympy.Expr) -> Any:
    """That a step is at most That, which is the last at which this holds."""
    return gamma ** (step - 1) * (1 - beta**step) >= 1 - beta


_NEXT_INFLUENCE = SYMBOLS.symbol("w_{t+1}", "exact influence of the next step")


def _momentum_run(num_steps: int) -> tuple[sympy.Expr, sympy.Expr]:
    """Excess risk after some steps, and the momentum effect sum, on f = u M theta^2/2 in one dimension, over f_1.

    Everything is relative: M = 1, theta_1 = 1, f_1 = u/2; the noise of step t has variance R alpha u s_t, which is what
    alpha = G^2/(2 R M N^2 f_1) makes of (G sigma_t/N)^2.
    """
    place, average = {0: Integer(1)}, {}  # coefficients: 0 of the mean, t of the noise of step t
    effect = Integer(0)
    for step in range(1, num_steps + 1):
        query = {key: u * value for key, value in place.items()} | {step: Integer(1)}
        average = {key: beta * average.get(key, 0) + (1 - beta) * query[key] for key in query}
        place = {key: place.get(key, 0) - eta0 / 2 / (1 - beta**step) * average[key] for key in average}
        effect += gamma ** (num_steps - step) * _second_moment(average)
    return _second_moment(place), effect / (u / 2)


def _second_moment(coefficients: dict[int, Any]) -> sympy.Expr:
    return sympy.Add(*(value**2 * (R * alpha * u * noise[key] if key else 1) for key, value in coefficients.items()))


def _momentum_bound(
    factor: sympy.Expr, contraction: sympy.Expr, zeta_value: sympy.Expr, share: sympy.Expr
) -> Inequality:
    """EER <= (gamma^T + factor R eta_0 alpha U_3) (f_1 - f^*) - zeta share eta_0/M (momentum effect), at T = 2."""
    excess, effect = _momentum_run(2)
    variance = sympy.Add(*(_weight(index, 2) * noise[index] for index in (1, 2)))
    return Inequality(
        excess + zeta * share * eta0 * effect,
        gamma**T + factor * R * eta0 * alpha * _U3,
        {
            u: (1e-3, 0.9999),
            kappa: (1.001, 1e3),
            beta: (1e-3, 0.95),
            eta0: (1e-3, 4),
            R: (0.1, 10),
            alpha: (1e-6, 10),
            noise: (1e-3, 1e3),
        },
        where={zeta: zeta_value, _U3: variance, T: 2, gamma: contraction},
        conditions=(u * kappa >= 1, zeta >= 0, gamma > beta),
        subject=_RISK_AND_EFFECT,
        example={u: 0.5, kappa: 2, beta: 0.1, eta0: 0.5, R: 1, alpha: 1e-6}
        | {expand(noise[index], {}): 1 for index in (1, 2)},
    )


def _momentum() -> tuple[Claim, ...]:
    step_limit = SYMBOLS.symbol("max eta_0", "largest relative step size", latex="\\max\\eta_0")
    term = SYMBOLS.symbol("V", "a part of U_3")
    recursion = (1 - beta) * (beta**2 * g[1] + beta * g[2] + g[3])
    closed = SYMBOLS.symbol("U_1", "sum of k beta^k")
    power_sum = sympy.Sum(k * beta**k, (k, t - i, t - 1))
    shape = ({t: 5, i: 3}, {t: 4, i: 1}, {t: 6, i: 4})
    shrinking = {That: 2, T: 5}, {That: 3, T: 4}
    static = sympy.Sum(
        gamma ** (T - t) * ((1 - beta) / (1 - beta**t)) ** 2 * sympy.Sum(beta ** (2 * (t - i)), (i, 1, t)), (t, 1, T)
    )
    first = gamma ** (That - 2) * sympy.Sum(
        gamma**t * sympy.Sum(beta ** (2 * (t - i)) * noise[i], (i, 1, t)), (t, 1, That)
    )
    first_inner = sympy.Sum(
        (gamma ** (i - That - 1) - beta ** (2 * (That + 1 - i))) / (1 - gamma * beta**2) * noise[i], (i, 1, That)
    )
    second = sympy.Sum(gamma ** (T - t) * sympy.Sum(beta ** (2 * (t - i)) * noise[i], (i, 1, t)), (t, That + 1, T))
    second_closed = sympy.Sum(
        (gamma ** (T + 1 - i) - beta ** (2 * (T + 1 - i))) / (gamma - beta**2) * noise[i], (i, That + 1, T)
    ) + sympy.Sum(
        (gamma ** (T - That) - beta ** (2 * (T - That))) / (gamma - beta**2) * beta ** (2 * (That + 1 - i)) * noise[i],
        (i, 1, That),
    )
    tail = gamma ** ((That - 1) / Integer(2)) * sympy.Sum(gamma ** (-t / Integer(2)), (t, That + 1, T))
    tail_power = gamma ** ((That - T - 1) / Integer(2))
    proved_zeta = 1 - eta0 / 4 - 2 * M / eta0 * _VARIANCE_CONSTANT
    variance = {_VARIANCE_CONSTANT: eta0**3 * beta * gamma / (2 * M * (1 - beta) ** 3 * (gamma - beta) ** 2)}
    statement_zeta = 1 - eta0**2 / (beta * (1 - beta) ** 3) - eta0 / 4
    return (
        _claim(
            "eq3",
            "Bias correction",
            "eq. (3) and eq. (13)",
            Identity(
                SYMBOLS.symbol("m_{t+1}", "bias-corrected moving average", LOSS / LENGTH),
                (beta * (1 - beta ** (x - 1)) * _m + (1 - beta) * _grad) / (1 - beta**x),
                (beta * _v + (1 - beta) * _grad) / (1 - beta**x),
                where={_m: _v / (1 - beta ** (x - 1))},
                conditions=(x > 1,),
            ),
            "m_{t+1} = v_{t+1}/(1 - beta^t), at step t = x.",
        ),
        _claim(
            "eq13",
            "Moving average written out",
            "eq. (13)",
            Identity(
                _AVERAGE, (1 - beta) * sympy.Sum(beta ** (t - i) * g[t], (i, 1, t)), recursion, instances=({t: 3},)
            ),
            "The recursion v_{t+1} = beta v_t + (1 - beta) g_t from v_1 = 0.",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "g_t inside the sum should be g_i.",
                Identity(
                    _AVERAGE, (1 - beta) * sympy.Sum(beta ** (t - i) * g[i], (i, 1, t)), recursion, instances=({t: 3},)
                ),
            ),
        ),
        _claim(
            "eq28",
            "Polarisation identity",
            "eq. (28)",
            Identity(-_grad * _v, (_grad - _v) ** 2 - _grad**2 - _v**2, -_grad * _v),
            "One coordinate, with b_t nabla_t written as g_t.",
            erratum=_erratum(
                Severity.CONSTANT,
                "A factor 1/2 is lost, and with it the theorem: see thm4.6.bound.",
                Identity(-_grad * _v, ((_grad - _v) ** 2 - _grad**2 - _v**2) / 2, -_grad * _v),
            ),
        ),
        _claim(
            "thm4.6.slow",
            "Contraction with momentum",
            "Theorem 4.6",
            Inequality(
                (1 - eta0 / (2 * kappa)) ** 2,
                1 - eta0 / kappa,
                {eta0: (1e-3, 1), kappa: (1.001, 1e3)},
                example={eta0: 0.5, kappa: 2},
            ),
            "f = mu theta^2/2 without noise, T = 1: the step eta_0/(2M) reduces f by (1 - eta_0/(2 kappa))^2; the "
            "hypothesis on eta_0 holds for small beta.",
            erratum=_erratum(
                Severity.CONSTANT,
                "gamma = 1 - eta_0/kappa should be 1 - eta_0/(2 kappa), for the step size eta_0/(2M).",
                Inequality(
                    (1 - eta0 / (2 * kappa)) ** 2, 1 - eta0 / (2 * kappa), {eta0: (1e-3, 1), kappa: (1.001, 1e3)}
                ),
            ),
        ),
        _claim(
            "thm4.6.bound",
            "Excess risk bound with momentum",
            "Theorem 4.6, eq. (14)",
            _momentum_bound(Integer(2), 1 - eta0 / kappa, 1 - eta0 / 4 - _A * eta0**2, Rational(1, 2)),
            "The exact excess risk of two steps on f = u M theta^2/2 with noise, 1/kappa <= u <= 1, under the proof's "
            "zeta >= 0, beta < gamma.",
            erratum=_erratum(
                Severity.CONSTANT,
                "The factor 1/2 lost in eq. (28) makes the theorem false. With the step size eta_0/(2M) it holds with "
                "gamma = 1 - eta_0/(2 kappa), R eta_0 alpha U_3 in place of 2 R eta_0 alpha U_3, zeta = 1 - eta_0/2 - "
                "A eta_0^2, A = beta gamma (gamma - beta)^-2 (1 - beta)^-3, eta_0/(4M) in place of eta_0/(2M), and "
                "beta < gamma.",
                _momentum_bound(Integer(1), 1 - eta0 / (2 * kappa), 1 - eta0 / 2 - _A * eta0**2, Rational(1, 4)),
            ),
        ),
        _claim(
            "thm4.6.step",
            "Largest step size",
            "Theorem 4.6",
            Identity(
                step_limit,
                8 / (sqrt(1 + 64 * _COEFFICIENT) + 1),
                (sqrt(Rational(1, 16) + 4 * _COEFFICIENT) - Rational(1, 4)) / (2 * _COEFFICIENT),
            ),
            "The positive root of 1 - eta_0/4 - A eta_0^2, the zeta of the proof.",
        ),
        _claim(
            "thm4.6.zeta",
            "Coefficient of the momentum effect",
            "Theorem 4.6",
            Identity(zeta, statement_zeta, proved_zeta, variance, example={beta: 0.1, gamma: 0.9, eta0: 0.5, M: 1}),
            "The zeta of the proof: 1 - eta_0/4, less the constant of Lemma C.6 in units of eta_0/(2M).",
            erratum=_erratum(
                Severity.CONSTANT,
                "1/(beta (1 - beta)^3) in the statement should be beta gamma/((gamma - beta)^2 (1 - beta)^3), as in "
                "the proof.",
                Identity(zeta, 1 - eta0 / 4 - _A * eta0**2, proved_zeta, variance),
            ),
        ),
        _claim(
            "thm4.6.example",
            "Step size at beta = 0.9, gamma = 0.99",
            "Section 4.2, below Theorem 4.6",
            Identity(step_limit, Rational(98, 100) / M, _STEP_LIMIT, where=_EXAMPLE, digits=2),
            "The bound on eta_0 of the theorem.",
            erratum=_erratum(
                Severity.CONSTANT,
                "At beta = 0.9, gamma = 0.99 the bound is eta_0 <= 0.0030, not 0.98/M; eta_0 has no unit, so that 1/M "
                "cannot stand there.",
                Identity(step_limit, Rational(30, 10000), _STEP_LIMIT, where=_EXAMPLE, digits=4),
            ),
        ),
        _claim(
            "thm4.6.beta",
            "Condition on beta and gamma",
            "Theorem 4.6 and Lemma C.7",
            Inequality(
                sympy.Sum(k * u**k, (k, 1, T)).xreplace({u: ratio}),
                ratio / (1 - ratio) ** 2,
                {ratio: (1e-3, 30)},
                conditions=(sympy.Ne(ratio, 1),),
                instance={T: 8},
                example={ratio: 2},
            ),
            "Lemma C.7 sums k a^k with a = beta/gamma, where only beta != gamma is asked for.",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "beta != gamma should be beta < gamma.",
                Inequality(
                    sympy.Sum(k * u**k, (k, 1, T)),
                    u / (1 - u) ** 2,
                    {u: (1e-3, 0.999)},
                    instance={T: 8},
                ),
            ),
        ),
        _claim(
            "lemmaC.6",
            "Constant of the gradient variance",
            "Lemma C.6",
            Identity(
                _VARIANCE_CONSTANT,
                eta0**3 * beta * gamma / (2 * M * (1 - beta) ** 3 * (gamma - beta) ** 2),
                eta0**3 / (4 * M * (1 - beta) ** 2) * _SUM_CONSTANT,
                {_SUM_CONSTANT: 2 * beta * gamma / ((gamma - beta) ** 2 * (1 - beta))},
                conditions=(beta < gamma,),
            ),
            "The line before times the constant of Lemma C.7.",
        ),
        _claim(
            "lemmaC.7.sum",
            "Closed form of U_1",
            "Lemma C.7, proof",
            Identity(
                closed,
                ((t - i) * beta ** (t - i) + (beta ** (t - i + 1) - beta) / (1 - beta)) / (1 - beta),
                power_sum,
                instances=shape,
                example={beta: 0.9},
            ),
            "The sum of k beta^k from t - i to t - 1.",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "The sum over j has t - 1 terms beta^t, not a geometric series. The final bound of the lemma holds "
                "for beta < gamma.",
                Identity(
                    closed,
                    ((t - i) * beta ** (t - i) + (beta ** (t - i + 1) - beta**t) / (1 - beta) - (t - 1) * beta**t)
                    / (1 - beta),
                    power_sum,
                    instances=shape,
                    example={beta: 0.9},
                ),
            ),
        ),
        _claim(
            "lemmaC.7.bound",
            "Sum of the gradient variance",
            "Lemma C.7",
            Inequality(
                (u / (1 - u) ** 2 + beta / (1 - beta) * u / (1 - u)) / (1 - beta),
                2 * beta * gamma / ((gamma - beta) ** 2 * (1 - beta)),
                {u: (1e-3, 0.999), gamma: (1e-2, 0.99999)},
                where={beta: gamma * u},
            ),
            "The coefficient of |v_{i+1}|^2 for T and i to infinity, where it is largest; u = beta/gamma.",
        ),
        _claim(
            "lemmaC.7.line",
            "A line of the proof of Lemma C.7",
            "Lemma C.7, proof",
            Inequality(
                (u / (1 - u) ** 2 + beta / (1 - beta) * u / (1 - u)) / (1 - beta),
                u / ((1 - u) ** 2 * (1 - beta)),
                {u: (1e-3, 0.999), gamma: (1e-2, 0.99999)},
                where={beta: gamma * u},
                example={u: 0.5, gamma: 0.9},
            ),
            "The third line after 'Thus', with a = u.",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "The line without the factor 2 is false; the next one, with it, is right.",
                Inequality(
                    (u / (1 - u) ** 2 + beta / (1 - beta) * u / (1 - u)) / (1 - beta),
                    2 * u / ((1 - u) ** 2 * (1 - beta)),
                    {u: (1e-3, 0.999), gamma: (1e-2, 0.99999)},
                    where={beta: gamma * u},
                ),
            ),
        ),
        _claim(
            "lemmaC.8.derivative",
            "Derivative of h",
            "Lemma C.8, proof",
            Identity(
                sympy.Derivative(_PEAK, x),
                gamma ** (x - 1) * (1 - beta**x * (1 + log(beta) / log(gamma))) * log(gamma),
                sympy.diff(_PEAK, x),
            ),
            "h(t) = gamma^{t-1} (1 - beta^t).",
        ),
        _claim(
            "lemmaC.8.concave",
            "Concavity of h",
            "Lemma C.8, proof",
            Inequality(
                sympy.diff(_PEAK, x, 2),
                Integer(0),
                {beta: (0.01, 0.99), gamma: (0.02, 0.999), x: (1, 200)},
                example={beta: 0.5, gamma: 0.9, x: 20},
                subject=sympy.Derivative(_PEAK, (x, 2)),
            ),
            "The second derivative.",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "h is not concave; it is log-concave, hence unimodal, which is all that the proof needs.",
                Inequality(
                    sympy.diff(log(_PEAK), x, 2),
                    Integer(0),
                    {beta: (0.01, 0.99), gamma: (0.02, 0.999), x: (1, 50)},
                    subject=sympy.Derivative(log(_PEAK), (x, 2)),
                ),
            ),
        ),
        _claim(
            "lemmaC.8.monotone",
            "Monotonicity of (1 - beta)/(1 - beta^t)",
            "Lemma C.8, proof",
            Inequality(
                _FACTOR, _FACTOR.xreplace({x: x + 1}), {beta: (0.01, 0.99), x: (1, 200)}, example={beta: 0.5, x: 1}
            ),
            "The proof says that it increases with t.",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "'Increases' should be 'decreases'; the conclusion needs the latter.",
                Inequality(_FACTOR, _FACTOR.xreplace({x: x + 1}), {beta: (0.01, 0.99), x: (1, 200)}, ">="),
            ),
        ),
        _claim(
            "lemmaC.8.first",
            "Before That",
            "Lemma C.8",
            Inequality(_FACTOR, gamma ** (x - 1), _MOMENTUM_REGION, conditions=(_BEFORE_THAT, x <= last)),
            "h is unimodal and h(1) = 1 - beta <= h(That); x <= y = That.",
        ),
        _claim(
            "lemmaC.8.second",
            "After That",
            "Lemma C.8",
            Inequality(_FACTOR, gamma ** (last - 1), _MOMENTUM_REGION, conditions=(_BEFORE_THAT, x >= last)),
            "(1 - beta)/(1 - beta^t) decreases; x >= y = That.",
        ),
        _claim(
            "sec4.2.factor",
            "The momentum factor at the beginning",
            "Section 4.2",
            Inequality(_FACTOR, gamma**x, {gamma: (0.01, 0.999), beta: (0.01, 0.99), x: (1, 1)}, conditions=(x <= 1,)),
            "The text says that (1 - beta)/(1 - beta^t) is less than gamma^t at the beginning; t = 1.",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "gamma^t should be gamma^{t-1}, as in Lemma C.8.",
                Inequality(_FACTOR, gamma ** (x - 1), _MOMENTUM_REGION, conditions=(_BEFORE_THAT, x <= last)),
            ),
        ),
        _claim(
            "thm4.7.U3",
            "Noise variance of the uniform schedule",
            "Theorem 4.7, proof",
            Identity(
                SYMBOLS.symbol("U_3", "noise variance"),
                sympy.Sum(gamma ** (T - t) * (1 - beta) / (1 - beta**t) * (1 + beta**t) / (1 + beta), (t, 1, T)),
                static,
                instances=({T: 1}, {T: 2}, {T: 4}),
            ),
            "U_3 of Theorem 4.6 at a constant sigma, over sigma^2.",
        ),
        _claim(
            "thm4.7.factor",
            "Momentum factor of the uniform schedule",
            "Theorem 4.7, proof",
            Inequality(_FACTOR * (1 + beta**x) / (1 + beta), Integer(1), {beta: (1e-3, 0.99), x: (1, 200)}),
            "Both (1 - beta)/(1 - beta^t) and (1 + beta^t)/(1 + beta) are at most 1.",
        ),
        _claim(
            "thm4.7.sum",
            "Sum of the two phases",
            "Theorem 4.7, proof",
            Identity(
                SYMBOLS.symbol("U_3", "noise variance"),
                gamma**T / gamma * (That + (gamma ** (That - T) - 1) / (1 - gamma)),
                sympy.Sum(gamma ** (T - t) * gamma ** (t - 1), (t, 1, That))
                + sympy.Sum(gamma ** (T - t) * gamma ** (That - 1), (t, That + 1, T)),
                instances=shrinking,
            ),
            "Lemma C.8 in U_3, over sigma^2.",
        ),
        _claim(
            "thm4.7.log",
            "Logarithm and root",
            "Theorem 4.7, proof",
            Inequality(log(1 + s), sqrt(s), {s: (1e-6, 1e6)}),
            "The least ratio of sqrt(x) to ln(1 + x) is 1.24, at x = 3.92.",
        ),
        _claim(
            "thm4.7.constant",
            "Constant of the first phase",
            "Theorem 4.7, proof",
            Identity(
                SYMBOLS.symbol("C", "a constant"),
                4 * kappa / gamma,
                8 * kappa**2 * alpha / (eta0 * gamma) * s,
                {s: eta0 / (kappa * alpha)},
                example={kappa: 10, gamma: 0.98},
            ),
            "ln^2(1 + x) <= x at x = eta_0/(kappa alpha) in the line before.",
            erratum=_erratum(
                Severity.CONSTANT,
                "4 kappa/gamma should be 8 kappa/gamma; it vanishes in the O, and the constant c of the theorem is "
                "not used.",
                Identity(
                    SYMBOLS.symbol("C", "a constant"),
                    8 * kappa / gamma,
                    8 * kappa**2 * alpha / (eta0 * gamma) * s,
                    {s: eta0 / (kappa * alpha)},
                ),
            ),
        ),
        _claim(
            "thm4.7.contraction",
            "1/(1 - gamma) with momentum",
            "Theorem 4.7, proof, and Theorem 4.10, proof",
            Identity(1 / (1 - gamma), kappa, 1 / (1 - gamma), where=_SLOW, example={kappa: 10, eta0: 0.2}),
            "gamma = 1 - eta_0/kappa in Section 4.2.",
            erratum=_erratum(
                Severity.CONSTANT,
                "kappa should be kappa/eta_0; then the bound of Theorem 4.10 is alpha R' U_3^g <= alpha_g "
                "sigma_g^2/eta_0.",
                Identity(1 / (1 - gamma), kappa / eta0, 1 / (1 - gamma), where=_SLOW, example={kappa: 10, eta0: 0.2}),
            ),
        ),
        _own(
            "early",
            "Error while T <= That",
            Inequality(
                gamma**x,
                gamma * (1 - beta),
                {beta: (0.01, 0.99), gamma: (0.02, 0.99999), x: (1, 2000)},
                ">=",
                conditions=(gamma ** (x - 1) * (1 - beta**x) >= 1 - beta,),
            ),
            "Compare Theorems 4.7 and 4.8 and Appendix B: the bound stays above gamma (1 - beta), so that their first "
            "branch never applies to small errors, whatever N.",
        ),
        _claim(
            "thm4.8.V1",
            "First part of the noise variance",
            "Theorem 4.8, proof",
            Identity(term, gamma ** (2 * That - 3) * first_inner, first, instances=({That: 2}, {That: 3})),
            "Geometric sums, exchanged.",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "The exponent 2 That - 3 should be 2 That - 1; the following line has the right power.",
                Identity(term, gamma ** (2 * That - 1) * first_inner, first, instances=({That: 2}, {That: 3})),
            ),
        ),
        _claim(
            "thm4.8.V2",
            "Second part of the noise variance",
            "Theorem 4.8, proof",
            Identity(term, second_closed, second, instances=shrinking),
            "Geometric sums, exchanged.",
        ),
        _claim(
            "thm4.8.c2",
            "Constant of the late influence",
            "Theorem 4.8, proof",
            Inequality(
                _LATE,
                _PRINTED_TAIL,
                _INFLUENCES,
                conditions=(beta < gamma, That < i, i <= T),
                example={beta: 0.5, gamma: 0.9, That: 7, T: 20, i: 10},
            ),
            "The exact late influence in the line before, for That < i <= T.",
            erratum=_erratum(
                Severity.CONSTANT,
                "c_2 = gamma^{2 That}/(gamma - beta^2) should be gamma^{That}/(gamma - beta^2); as printed, q_t is no "
                "upper bound.",
                Inequality(_LATE, _CORRECT_TAIL, _INFLUENCES, conditions=(beta < gamma, That < i, i <= T)),
            ),
        ),
        _claim(
            "thm4.8.indicator",
            "Which influence holds when",
            "Theorem 4.8",
            Inequality(
                _EARLY,
                _CORRECT_TAIL,
                _INFLUENCES,
                conditions=(beta < gamma, i <= That, That < T),
                example={beta: 0.5, gamma: 0.9, That: 7, T: 20, i: 3},
                subject=SYMBOLS.symbol("q_i", "influence of step i"),
            ),
            "The early influence, i <= That < T, against what the indicator of T > That gives it (with the corrected "
            "c_2).",
            erratum=_erratum(
                Severity.CONSTANT,
                "The indicators should be of t <= That and t > That, not of T.",
                Inequality(
                    _exact_influence(i),
                    _EARLY,
                    _INFLUENCES,
                    conditions=(beta < gamma, _before(That), gamma**That * (1 - beta ** (That + 1)) < 1 - beta),
                    instance={T: 12, That: 6, i: 3},
                ),
            ),
        ),
        _claim(
            "thm4.8.decreasing",
            "Where the influence is least before That",
            "Section 4.2, discussion",
            Inequality(
                _exact_influence(i + 1),
                _exact_influence(i),
                _INFLUENCES,
                conditions=(_before(i + 1),),
                instance={T: 20, i: 6},
                example={beta: 0.5, gamma: 0.9},
                subject=_NEXT_INFLUENCE,
            ),
            "The text says that the influence decreases while t <= That. Exact influences of the steps 6 and 7 of T = "
            "20, 7 <= That.",
            erratum=_erratum(
                Severity.RATE,
                "Only the majorant q_t decreases up to That; the exact influence may rise before (at beta = 1/2, gamma "
                "= 9/10 and T = 20 from step 4 on, That = 7), so that the preferred noise does not increase up to "
                "That.",
                Inequality(
                    _EARLY.xreplace({i: i + 1}),
                    _EARLY,
                    _INFLUENCES,
                    conditions=(beta < gamma, _before(i + 1)),
                    instance={T: 20, i: 6},
                ),
            ),
        ),
        _claim(
            "thm4.8.early_sum",
            "Sum of the early influence",
            "Theorem 4.8, proof",
            Identity(
                term,
                gamma ** (T + 1) * ((1 - gamma ** (T / Integer(2))) / (1 - sqrt(gamma))) ** 2,
                gamma**T * sympy.Sum(gamma ** (t / Integer(2)), (t, 1, T)) ** 2,
                instances=({T: 1}, {T: 2}, {T: 5}),
            ),
            "A geometric sum.",
        ),
        _claim(
            "thm4.8.late_sum",
            "Sum of the late influence",
            "Theorem 4.8, proof",
            Identity(term, (tail_power - 1) / (1 - sqrt(gamma)), tail, instances=shrinking),
            "A geometric sum, without sqrt(c_2).",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "-1 should be -gamma^{-1/2}.",
                Identity(term, (tail_power - 1 / sqrt(gamma)) / (1 - sqrt(gamma)), tail, instances=shrinking),
            ),
        ),
        _claim(
            "thm4.8.late_value",
            "Late influence at the chosen T",
            "Theorem 4.8, proof",
            Identity(
                term,
                (_HALF - (1 - _HALF) * kappa * alpha) / (kappa * alpha + eta0),
                _HALF - _SMALL,
                instances=({That: 3},),
            ),
            "gamma^{T/2} = kappa alpha/(kappa alpha + eta_0).",
            erratum=_erratum(
                Severity.CONSTANT,
                "The first term of the numerator should be eta_0 gamma^{(That-1)/2}.",
                Identity(
                    term,
                    (eta0 * _HALF - (1 - _HALF) * kappa * alpha) / (kappa * alpha + eta0),
                    _HALF - _SMALL,
                    instances=({That: 3},),
                ),
            ),
        ),
        _claim(
            "thm4.8.early_value",
            "Early influence at the chosen T",
            "Theorem 4.8, proof",
            Identity(term, 1 / (kappa * alpha + 1), 1 - _SMALL),
            "gamma^{T/2} = kappa alpha/(kappa alpha + eta_0).",
            erratum=_erratum(
                Severity.CONSTANT,
                "1/(kappa alpha + 1) should be eta_0/(kappa alpha + eta_0).",
                Identity(term, eta0 / (kappa * alpha + eta0), 1 - _SMALL),
            ),
        ),
    )


ratio = SYMBOLS.symbol("r", "beta/gamma")
_EXAMPLE = {_COEFFICIENT: _A, beta: Rational(9, 10), gamma: Rational(99, 100)}
_STEP_LIMIT = 8 / (sqrt(1 + 64 * _COEFFICIENT) + 1)

# ---------------------------------------------------------------- stochastic gradients and population risk
sigma_g = SYMBOLS.symbol("sigma_g", "scale of the stochastic gradient", LOSS / LENGTH)
m = SYMBOLS.symbol("m", "strong convexity", LOSS / LENGTH**2)
r = SYMBOLS.symbol("r", "distance to the mean", LENGTH)
horizon = SYMBOLS.symbol("N", "number of training examples, as a real number", domain=FROM_ONE)


def _stochastic_and_population() -> tuple[Claim, ...]:
    risk = SYMBOLS.symbol("TER", "true excess risk", LOSS)
    quadratic = {mu: (0.01, 10), G: (0.01, 100), r: (0.1, 10), N: (1, 1e8), p: (1e-3, 0.999)}
    private_rate = D / (horizon**2 * R)
    sixty = {D: 60, R: Rational(2, 5)}
    return (
        _claim(
            "thm4.9.alpha",
            "Stochastic noise level",
            "Theorem 4.9, proof",
            Identity(
                SYMBOLS.symbol("alpha_g", "stochastic noise level", LENGTH**2 / LOSS**2),
                D / (2 * mu * n**2 * gap),
                N**2 * R / n**2 * kappa * _ALPHA / G**2,
                where={kappa: M / mu},
            ),
            "R' kappa alpha/G^2 with R' = N^2 R/n^2 and eq. (4), in which n^2 R' = N^2 R.",
        ),
        _claim(
            "thm4.9.variance",
            "Variance of a stochastic private gradient",
            "Theorem 4.9, proof",
            Identity(
                SYMBOLS.symbol("Var", "variance", (LOSS / LENGTH) ** 2),
                sigma_g**2 + (G * sigma / n) ** 2,
                D * sigma_g**2 / n**2 + D * G**2 * sigma**2 / n**2,
            ),
            "E|sigma_g xi/n + G sigma nu/n|^2 for independent xi and nu with E|xi|^2 = E|nu|^2 = D.",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "1/n^2 and D are missing: (sigma_g^2 + G^2 sigma_t^2) D/n^2. (Besides, the deviation of a mean of n "
                "gradients falls like 1/sqrt(n), not like 1/n, and then the term is not of the order D/(N^2 R).)",
                Identity(
                    SYMBOLS.symbol("Var", "variance", (LOSS / LENGTH) ** 2),
                    (sigma_g**2 + G**2 * sigma**2) * D / n**2,
                    D * sigma_g**2 / n**2 + D * G**2 * sigma**2 / n**2,
                ),
            ),
        ),
        _claim(
            "thm4.9.batch",
            "Batch size",
            "Theorem 4.9",
            Inequality(N * sqrt(R), N, {N: (1, 1e6), R: (0.01, 100)}, example={N: 1000, R: 4}),
            "n = max(N sqrt(R), 1) is a batch of at most N examples.",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "N sqrt(R) is above N for R > 1, and not small against N for moderate R (0.63 N in the paper's "
                "experiments); R <= 1 is needed.",
                Inequality(N * sqrt(R), N, {N: (1, 1e6), R: (0.01, 100)}, conditions=(R <= 1,)),
            ),
        ),
        _claim(
            "thm4.11",
            "Population risk with high probability",
            "Theorem 4.11, eq. (15)",
            Inequality(
                mu * r**2 / 2,
                sqrt(2 * G**2 / (mu * N)) * sqrt(mu * r**2 / 2) + 4 * G**2 / (p * mu * N),
                quadratic,
                conditions=(G >= mu * r,),
                example={mu: 1, G: 1, r: 1, N: 10**6, p: 0.1},
            ),
            "All examples equal, f = mu |theta - x|^2/2 at distance r <= G/mu: true and empirical excess risk are "
            "both mu r^2/2.",
            erratum=_erratum(
                Severity.RATE,
                "The 1/N under the first root should go: it belongs to the version for sums. Equations (16), (17) and "
                "Table 2 inherit it.",
                Inequality(
                    mu * r**2 / 2,
                    sqrt(2 * G**2 / mu) * sqrt(mu * r**2 / 2) + 4 * G**2 / (p * mu * N),
                    quadratic,
                    conditions=(G >= mu * r,),
                ),
            ),
        ),
        _claim(
            "sec4.4.markov",
            "From expectation to probability",
            "Section 4.4, above eq. (16)",
            Identity(risk, gap, gap / p, {p: Rational(1, 2)}),
            "Delta stands for F(R/k). Markov's inequality at failure probability 1/2 a run, so that k runs fail with "
            "probability 2^-k.",
            erratum=_erratum(
                Severity.CONSTANT,
                "One of k runs is below 2 F(R/k), not F(R/k), with probability 1 - 2^-k; and to know which one takes "
                "a private selection with a budget of its own.",
                Identity(risk, 2 * gap, gap / p, {p: Rational(1, 2)}),
            ),
        ),
        _claim(
            "thm4.13",
            "Stability and generalisation",
            "Theorem 4.13",
            Uncheckable("a uniformly stable algorithm generalises", Reason.CITED),
            "Shalev-Shwartz and Ben-David (2014).",
        ),
        _claim(
            "thm4.14",
            "Stability of private gradient descent",
            "Theorem 4.14",
            Uncheckable("private gradient descent is uniformly stable", Reason.CITED),
            "Bassily et al. (2019), who assume convexity, which the theorem does not state.",
        ),
        _claim(
            "sec4.4.dropped",
            "The dropped stability term",
            "Section 4.4, below Theorem 4.14",
            Ratio(
                private_rate + log(horizon**2 * R / D) / horizon,
                private_rate,
                {horizon: (1e4, 1)},
                "O",
                where=sixty,
                example={horizon: 1e5},
            ),
            "G = M = 1, D = 60, R = 0.4: the excess risk of the dynamic schedule plus G^2 eta T/N, against Table 2.",
            erratum=_erratum(
                Severity.RATE,
                "The term G^2 eta T/N, about ln(N^2 R/D)/N, is not constant, and it dominates D/(N^2 R); TER <= EER "
                "does not follow.",
                Ratio(
                    private_rate + log(horizon**2 * R / D) / horizon,
                    log(horizon**2 * R / D) / horizon,
                    {horizon: (1e4, 1)},
                    "O",
                    where=sixty,
                ),
            ),
        ),
    )


# ---------------------------------------------------------------- headline rates of momentum and stochastic gradients
_ROOT = 1 / (1 - sqrt(gamma))
_LAST = log(1 + eta0 / (kappa * alpha))
_MOMENTUM = {gamma: 1 - eta0 / kappa, beta: Rational(1, 2), eta0: Rational(1, 5)}
_TWO_PHASES = gamma ** (steps - 1) * (That + (gamma ** (That - steps) - 1) / (1 - gamma))
_BELOW = 2 * eta0 * (1 - beta) ** 2  # the exact influence w_t is between these two times gamma^{T-t} / (2 eta_0)
_ABOVE = 2 * eta0 * gamma / (gamma - beta**2)
_MOMENTUM_MIN = SYMBOLS.symbol("ERUB_min", "least bound of the dynamic schedule", latex="\\mathrm{ERUB}_{\\min}")
_FIRST_STEPS = 60


def _least_over_steps(factor: sympy.Expr) -> sympy.Expr:
    """The least of y^2 + factor alpha K^2 (1 - y)^2 over y = gamma^{T/2}, with K = 1/(1 - sqrt gamma)."""
    weight = factor * alpha * _ROOT**2
    return weight / (1 + weight)


def _influences_of(before: int, num_steps: int, beta: float, gamma: float) -> dict[str, float]:
    """R U_3 under four schedules of one budget: sum_t w_t sigma_t^2 R with sigma_t^2 = sum_i sqrt(q_i / q_t) / R."""
    index = np.arange(1, num_steps + 1)
    exact, rest = np.zeros(num_steps), 0.0
    for step in range(num_steps, 0, -1):
        rest = gamma ** (num_steps - step) * ((1 - beta) / (1 - beta**step)) ** 2 + beta**2 * rest
        exact[step - 1] = rest
    early = 2 / (gamma * (gamma - beta**2)) * gamma ** (num_steps + index)
    late = gamma ** (2 * before - 1) / (gamma - beta**2) * gamma ** (num_steps - index)
    schedules = {
        "uniform": np.ones(num_steps),
        "theorem": np.where(index <= before, early, late),
        "plain": gamma ** (num_steps - index),
        "exact": exact,
    }
    return {name: float(np.sqrt(q).sum() * (exact / np.sqrt(q)).sum()) for name, q in schedules.items()}


_LONG_RUN = _influences_of(230, 460, 0.9, 0.99)  # That = 230 at beta = 0.9, gamma = 0.99


def _headlines() -> tuple[Claim, ...]:
    factor = (1 - beta) / (1 - beta**t) * (1 + beta**t) / (1 + beta)
    stochastic = sympy.Sum(gamma ** (T - t) * factor, (t, 1, T)) * sigma_g**2 / G**2
    run = {D: (1, 100), mu: (0.1, 10), N: (10, 1e4), R: (0.1, 10), gap: (0.1, 10), G: (0.1, 10)}
    run |= {sigma_g: (0.01, 100), kappa: (1.0001, 100), noise: (0.1, 100)}
    level = D / (2 * mu * N**2 * R * gap)
    batch = {n: N * sqrt(R)}
    longest = SYMBOLS.symbol("sum sigma_t^2 w_t, Theorem 4.8 over uniform", "ratio of noise variances")
    return (
        _claim(
            "thm4.7.T",
            "Number of steps of the uniform schedule with momentum",
            "Theorem 4.7",
            Ratio(
                _LAST / ell, kappa / eta0 * _LAST, {kappa: (2, 1), alpha: (0.1, -1)}, where=_MOMENTUM, subject=_STEPS
            ),
            "The proof chooses gamma^T = 1/(1 + eta_0/(kappa alpha)).",
        ),
        _claim(
            "thm4.7.rate",
            "Rate of the uniform schedule with momentum, T > That",
            "Theorem 4.7",
            Ratio(
                gamma**steps + 2 * eta0 * alpha * steps * _TWO_PHASES,
                kappa**2 / (kappa + eta0 / alpha) * gamma ** (That - 1) * _LAST,
                {alpha: (1e-4, -1)},
                "O",
                where={steps: _LAST / ell, **_MOMENTUM, kappa: 10, That: 35},
                subject=_MOMENTUM_MIN,
            ),
            "Theorem 4.6 with U_3 by its two phases, at the T of the theorem; beta = 1/2, eta_0 = 1/5, kappa = 10 "
            "(where That is 35), and alpha to 0.",
        ),
        _claim(
            "thm4.8.T",
            "Number of steps of the dynamic schedule with momentum",
            "Theorem 4.8",
            Ratio(
                2 * _LAST / ell,
                2 * kappa / eta0 * _LAST,
                {kappa: (2, 1), alpha: (0.1, -1)},
                where=_MOMENTUM,
                subject=_STEPS,
            ),
            "The proof chooses gamma^{T/2} = kappa alpha/(kappa alpha + eta_0).",
        ),
        _claim(
            "thm4.8.rate",
            "Rate of the dynamic schedule with momentum",
            "Theorem 4.8",
            Ratio(
                _least_over_steps(_BELOW),
                kappa * alpha / (kappa * alpha + eta0),
                {kappa: (10, 1), alpha: (1e-2, -1)},
                "O",
                where=_MOMENTUM,
                example={kappa: 1000, alpha: 1e-6},
                subject=_MOMENTUM_MIN,
            ),
            "A bound from below on what any schedule and any T make of Theorem 4.6: the exact influence of step t is "
            "at least its own term, gamma^{T-t} (1 - beta)^2. beta = 1/2, eta_0 = 1/5.",
            erratum=_erratum(
                Severity.RATE,
                "A factor kappa is hidden in the O. With the best schedule and T, the bound of Theorem 4.6 is of the "
                "order kappa^2 alpha/(kappa^2 alpha + eta_0); kappa alpha in place of kappa^2 alpha is too small by a "
                "factor of the order kappa where kappa^2 alpha is small.",
                Ratio(
                    _least_over_steps(_ABOVE),
                    kappa**2 * alpha / (kappa**2 * alpha + eta0),
                    {kappa: (10, 1), alpha: (1e-2, -1)},
                    where=_MOMENTUM,
                ),
            ),
        ),
        _own(
            "long_run",
            "Schedule of Theorem 4.8 against the uniform one",
            Identity(longest, Rational(1104, 1000), sympy.Float(_LONG_RUN["theorem"] / _LONG_RUN["uniform"]), digits=3),
            "Compare Theorem 4.8. beta = 0.9, gamma = 0.99, T = 460, That = 230: with its majorant of the influence, "
            "corrected as in the errata, the dynamic schedule has more noise variance than the uniform one.",
        ),
        _claim(
            "thm4.9.bound",
            "Excess risk of stochastic gradients",
            "Theorem 4.9",
            Inequality(
                sympy.Sum(gamma ** (T - t) * D * (sigma_g**2 + G**2 * noise[t]) / n**2 / (2 * M * gap), (t, 1, T)),
                level * sigma_g**2 + sympy.Sum(gamma ** (T - t) * _ALPHA * noise[t], (t, 1, T)),
                run,
                where={**_GD, **batch, M: kappa * mu},
                instance={T: 3},
                subject=SYMBOLS.symbol("ERUB - gamma^T", "excess risk bound without its first term"),
            ),
            "The recursion of Theorem 4.2 with the variance (sigma_g^2 + G^2 sigma_t^2) D/n^2, at n = N sqrt(R), where "
            "R' = 1; printed with an equality sign.",
        ),
        _claim(
            "thm4.10",
            "Excess risk of stochastic gradients with momentum",
            "Theorem 4.10",
            Inequality(
                _ALPHA * stochastic,
                level * sigma_g**2,
                {**run, beta: (0.01, 0.99), eta0: (0.01, 1)},
                where={gamma: 1 - eta0 / kappa, M: kappa * mu},
                instance={T: _FIRST_STEPS},
                example={
                    **dict.fromkeys((D, mu, R, gap, G, sigma_g), 1),
                    N: 10,
                    beta: 0.5,
                    eta0: 0.2,
                    kappa: 10,
                },
                subject=SYMBOLS.symbol("alpha R' U_3^g", "share of the stochastic gradient in the bound"),
            ),
            "U_3 at the constant sigma_g/G, R' = 1, gamma = 1 - eta_0/kappa.",
            erratum=_erratum(
                Severity.CONSTANT,
                "alpha_g sigma_g^2 should be alpha_g sigma_g^2/eta_0, as 1/(1 - gamma) is kappa/eta_0 with momentum.",
                Inequality(
                    _ALPHA * stochastic,
                    level * sigma_g**2 / eta0,
                    {**run, beta: (0.01, 0.99), eta0: (0.01, 1)},
                    where={gamma: 1 - eta0 / kappa, M: kappa * mu},
                    instance={T: _FIRST_STEPS},
                ),
            ),
        ),
    )


# ---------------------------------------------------------------- tables
_LEVEL = D / (horizon**2 * R)  # alpha of the tables, up to a constant: M = G = 1
_TABLE_STEPS = log(horizon**2 * R / D) / ell
_TABLE = {steps: _TABLE_STEPS, alpha: _LEVEL, **_GD, kappa: 10, D: 60, R: Rational(2, 5)}
_TABLE_MOMENTUM = {steps: _TABLE_STEPS, alpha: _LEVEL, **_MOMENTUM, kappa: 10, That: 35, D: 60, R: Rational(2, 5)}
_MANY = {horizon: (1e6, 1)}
_AT = "At T = ln(N^2 R/D)/ln(1/gamma), M = G = 1, kappa = 10, D = 60, R = 2/5, and N to infinity: "
log_N = SYMBOLS.symbol("ln N", "logarithm of the number of examples", domain=FROM_ONE, latex="\\ln N")
log_p = SYMBOLS.symbol("ln(1/p)", "logarithm of the failure probability", domain=FROM_ONE, latex="\\ln(1/p)")
log_T = SYMBOLS.symbol("ln(N^2 R/D)", "number of steps up to constants", domain=FROM_ONE, latex="\\ln(N^2 R/D)")
_RISK = SYMBOLS.symbol("TER", "true excess risk", LOSS)
_BARE_RISK = SYMBOLS.symbol("TER", "true excess risk, M = G = 1")
_EMPIRICAL = SYMBOLS.symbol("ERUB", "excess risk bound", latex="\\mathrm{ERUB}")


def _empirical_tables() -> tuple[Claim, ...]:
    uniform = gamma**steps + alpha * kappa * (1 - gamma**steps) * steps
    dynamic = gamma**steps + alpha * ((1 - gamma ** (steps / 2)) * _ROOT) ** 2
    schedule = gamma ** (x / 2) * (gamma ** (-steps / 2) - 1) / (1 - sqrt(gamma)) / R
    growing = {
        "where": {gamma: Rational(9, 10), R: Rational(2, 5)},
        "subject": SYMBOLS.symbol("sigma_t^2", "noise of step t"),
        "example": {steps: 20, x: 1},
    }

    def row(place: str, name: str, quantity: sympy.Expr, rate: sympy.Expr, origin: str, where: Any = None) -> Claim:
        ratio = Ratio(quantity, rate, _MANY, "O", where=where or _TABLE, subject=_EMPIRICAL)
        return _claim(f"table1.{place}", f"{name}: bound", f"Table 1, {name}", ratio, _AT + origin)

    def cited(place: str, name: str, text: str) -> Claim:
        return _claim(
            f"table1.{place}", name, f"Table 1, {name}", Uncheckable(text, Reason.CITED), "A result of the paper cited."
        )

    return (
        cited("GD_Adv", "GD+Adv", "the bound is O(D ln^3 N/(N R_MA)), for convex losses"),
        row(
            "GD_MA",
            "GD+MA",
            gamma**steps + alpha * steps**2,
            D * log(horizon) ** 2 / (horizon**2 * R),
            "eq. (9) with kappa (1 - gamma^T) relaxed to T, R for R_MA.",
        ),
        cited("GD_MA_adjusted", "GD+MA (adjusted)", "the bound is O(min(sqrt(D)/(N R_MA), D ln N/(N^2 R_MA^2)))"),
        cited("GD_Adv_BBImp", "GD+Adv+BBImp", "the bound is O(D^2 ln^2(1/p)/(R_MA N^{1-c})) with probability p"),
        cited("Adam_MA", "Adam+MA", "the bound is O(sqrt(D) ln(N D epsilon/(1-p))/(N R_MA)) with probability p"),
        row("non_private", "GD, non-private", gamma**steps, _LEVEL, "Theorem 4.2 without noise."),
        _claim(
            "table1.static_schedule",
            "GD+zCDP, static: schedule",
            "Table 1, GD+zCDP, static",
            Allocation(R * sympy.Sum(noise[t], (t, 1, T)), noise, t, T / R, T**2, R, (T, (1, 2, 3))),
            "What Lemma 4.4 gives where all influences are taken to be 1.",
        ),
        row("static", "GD+zCDP, static", uniform, _LEVEL * log(horizon), "eq. (9)."),
        _claim(
            "table1.dynamic_schedule",
            "GD+zCDP, dynamic: schedule",
            "Table 1, GD+zCDP, dynamic",
            Ratio(schedule, gamma ** ((x - steps) / 2) / R, {steps: (10, 1), x: (1, 1)}, **growing),
            "The schedule of Theorem 4.5; gamma = 9/10, R = 2/5, at any t, and T to infinity.",
        ),
        row("dynamic", "GD+zCDP, dynamic", dynamic, _LEVEL, "eq. (7) with the schedule of Theorem 4.5."),
        row(
            "momentum_static",
            "Momentum+zCDP, static, T > That",
            gamma**steps + 2 * eta0 * alpha * steps * _TWO_PHASES,
            _LEVEL * log(horizon),
            "Theorem 4.6 with U_3 by its two phases; beta = 1/2, eta_0 = 1/5, That = 35.",
            _TABLE_MOMENTUM,
        ),
        _claim(
            "table1.momentum_schedule",
            "Momentum+zCDP, dynamic: schedule for t > That",
            "Table 1, Momentum+zCDP, dynamic",
            Ratio(schedule, gamma ** ((steps - x) / 2) / R, {steps: (10, 1), x: (1, 1)}, "O", **growing),
            "Lemma 4.4 with influences that grow like gamma^{T-t}; gamma = 9/10, R = 2/5.",
            erratum=_erratum(
                Severity.RATE,
                "sigma_t^2 goes like 1/sqrt(q_t): the exponents should be -(T + t)/2 for t <= That and (t - T)/2 for "
                "t > That. The shape as printed is the reciprocal one, with most noise where it harms most.",
                Ratio(schedule, gamma ** ((x - steps) / 2) / R, {steps: (10, 1), x: (1, 1)}, "O", **growing),
            ),
        ),
        row(
            "momentum_dynamic",
            "Momentum+zCDP, dynamic, T > That",
            _least_over_steps(_ABOVE),
            _LEVEL,
            "the majorant of the influence, the best T; the second term in the bracket vanishes. beta = 1/2, "
            "eta_0 = 1/5.",
            _TABLE_MOMENTUM,
        ),
        _claim(
            "table1.momentum_indicator",
            "Momentum+zCDP, dynamic, T <= That",
            "Table 1, Momentum+zCDP, dynamic",
            Ratio(
                (kappa * alpha / (kappa * alpha + eta0)) ** 2,
                _LEVEL,
                _MANY,
                where=_TABLE_MOMENTUM,
                example={horizon: 1e5},
                subject=_EMPIRICAL,
            ),
            "The branch of Theorem 4.8 for T <= That. M = G = 1, kappa = 10, D = 60, R = 2/5, eta_0 = 1/5.",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "The indicator stands at the wrong term: by Theorem 4.8 the row should read D/(N^2 R) times D/(N^2 R) "
                "for T <= That, and times 1 for T > That. Table 2 has it from here. (The first branch never applies to "
                "small errors anyway.)",
                Ratio((kappa * alpha / (kappa * alpha + eta0)) ** 2, _LEVEL**2, _MANY, where=_TABLE_MOMENTUM),
            ),
        ),
    )


def _population_tables() -> tuple[Claim, ...]:
    sampling = 4 * G**2 / (p * mu * horizon)

    def probable(place: str, title: str, locator: str, logs: sympy.Expr) -> Claim:
        empirical = D * G**2 * logs * log_p / (mu * horizon**2 * R)
        printed = G**2 / (mu * horizon) * (sqrt(D * logs * log_p / (horizon * R)) + 4 / p)
        terms = {"empirical risk": sqrt(2 * G**2 / mu) * sqrt(empirical), "sampling": sampling}
        return _claim(
            place,
            title,
            locator,
            Rate(_RISK, printed, terms),
            "Eq. (15) without the 1/N under its first root (see its erratum), and the excess risk of the schedule with "
            "budget R/ln(1/p), kappa left out as the paper does.",
            erratum=_erratum(
                Severity.CONSTANT,
                "Inherits the erratum of Theorem 4.11, which is where the rate is lost: because of the 1/N in eq. "
                "(15), "
                "the first term is too small by a factor sqrt(N): it should be "
                f"G^2/(mu N) sqrt({'D ln(N) ln(1/p)' if logs != 1 else 'D ln(1/p)'}/R).",
                Rate(_RISK, G**2 / (mu * horizon) * (sqrt(D * logs * log_p / R) + 4 / p), terms),
            ),
        )

    def stable(place: str, title: str, logs: sympy.Expr) -> Claim:
        terms = {"empirical risk": D * logs / (horizon**2 * R), "stability": log_T / horizon}
        return _claim(
            f"table2.stability_{place}",
            title,
            f"Table 2, uniform stability, {title}",
            Rate(_BARE_RISK, terms["empirical risk"], terms),
            "TER <= EER + G^2 eta T/N with eta = 1/M, T of the order ln(N^2 R/D), M = G = 1.",
            erratum=_erratum(
                Severity.CONSTANT,
                "Inherits the term that Section 4.4 drops below Theorem 4.14 (sec4.4.dropped), which is where the rate "
                "is lost: ln(N^2 R/D)/N must be added; it is not constant, and it dominates for large N.",
                Rate(_BARE_RISK, D * logs / (horizon**2 * R) + log_T / horizon, terms),
            ),
        )

    def cited(place: str, name: str, text: str) -> Claim:
        return _claim(
            f"table2.{place}", name, f"Table 2, {name}", Uncheckable(text, Reason.CITED), "A result of the paper cited."
        )

    one, sentence = Integer(1), "Table 2, high probability, "
    return (
        probable("eq16", "True risk of the uniform schedule", "eq. (16)", log_N),
        probable("eq17", "True risk of the dynamic schedule", "eq. (17)", one),
        cited("GD_Adv", "GD+Adv", "the true risk is O(sqrt(D) ln^2(N) ln(1/p)/(p mu N R_MA)) at T = O(N^2)"),
        cited("SVRG_MA", "SVRG+MA", "the true risk is O(D ln(N)/(mu N^2 R_MA)) at T = O(ln(N^2 R_MA/D))"),
        cited("SSGD", "SSGD+zCDP", "the true risk is O((1/sqrt(N) + 2 sqrt(D)/(sqrt(R) N)) ln N)"),
        cited("SGD_MA", "SGD+MA", "the true risk is O(max(sqrt(D)/(N sqrt(R_MA)), 1/sqrt(N)))"),
        probable("table2.probability_static", "GD+zCDP, static", sentence + "GD+zCDP, static", log_N),
        probable("table2.probability_dynamic", "GD+zCDP, dynamic", sentence + "GD+zCDP, dynamic", one),
        probable(
            "table2.probability_momentum_static", "Momentum, static, T > That", sentence + "momentum, static", log_N
        ),
        probable("table2.probability_momentum_dynamic", "Momentum, dynamic", sentence + "momentum, dynamic", one),
        stable("non_private", "GD, non-private", one),
        stable("static", "GD+zCDP, static", log_N),
        stable("dynamic", "GD+zCDP, dynamic", one),
        stable("momentum_static", "Momentum, static, T > That", log_N),
        stable("momentum_dynamic", "Momentum, dynamic", one),
        _claim(
            "table2.T",
            "Number of steps in all rows of this paper",
            "Table 2",
            Ratio(
                log(1 + ell / alpha) / ell,
                log(horizon**2 * R / D),
                _MANY,
                "Theta",
                where={alpha: _LEVEL, **_GD, kappa: 10, D: 60, R: Rational(2, 5)},
                subject=_STEPS,
            ),
            "The T of eq. (24); M = G = 1, kappa = 10, D = 60, R = 2/5, and N to infinity.",
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    *_privacy(),
    *_gradient_descent(),
    *_momentum(),
    *_stochastic_and_population(),
    *_headlines(),
    *_empirical_tables(),
    *_population_tables(),
)
