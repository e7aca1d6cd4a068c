"""Hong, Wang and Zhou (FAccT 2022), "Dynamic Privacy Budget Allocation ...": its claims, checked.

Letters are the paper's. Steps are counted from 1. The text was read in the arXiv version named in `PAPER`.
"""

import math
from typing import Any

import numpy as np
import sympy
from sympy import Integer, Rational, exp, log, oo, sqrt

from dpnotes.theory.calculators import Calculator
from dpnotes.theory.claims import Claim, Erratum, Paper, Severity
from dpnotes.theory.statements import (
    Allocation,
    Identity,
    Inequality,
    Limit,
    Optimum,
    Ratio,
    Reason,
    Statement,
    Uncheckable,
)
from dpnotes.theory.symbols import COUNT, UNIT_INTERVAL, Domain, PaperSymbols, expand
from dpnotes.theory.units import LENGTH, LOSS

PAPER = Paper(
    key="budget_schedules",
    title="Dynamic Privacy Budget Allocation Improves Data Efficiency of Differentially Private Gradient Descent",
    authors=("Junyuan Hong", "Zhangyang Wang", "Jiayu Zhou"),
    venue="ACM Conference on Fairness, Accountability, and Transparency (FAccT)",
    year=2022,
    doi="10.1145/3531146.3533070",
    arxiv="2101.07413",
    version="arXiv:2101.07413, as rendered in HTML with the FAccT 2022 front matter",
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

# ---------------------------------------------------------------- notation
_S = PaperSymbols("budget_schedules")
_ABOVE_ONE = Domain(1)
_FROM_ONE = Domain(1, math.inf, closed=True)

N = _S.symbol("N", "number of training examples", domain=COUNT)
n = _S.symbol("n", "batch size", domain=COUNT)
D = _S.symbol("D", "dimension of the parameters", domain=COUNT)
G = _S.symbol("G", "Lipschitz constant of the loss of one example, or clipping norm", LOSS / LENGTH)
M = _S.symbol("M", "smoothness", LOSS / LENGTH**2)
mu = _S.symbol("mu", "constant of Polyak and Lojasiewicz", LOSS / LENGTH**2)
gap = _S.symbol("Delta", "initial excess risk f(theta_1) - f(theta^*)", LOSS)
kappa = _S.symbol("kappa", "condition number M/mu", domain=_ABOVE_ONE)
gamma = _S.symbol("gamma", "convergence rate 1 - 1/kappa; 1 - eta_0/kappa with momentum", domain=UNIT_INTERVAL)
alpha = _S.symbol("alpha", "D G^2 / (2 R M N^2 (f(theta_1) - f(theta^*)))")
R = _S.symbol("R", "privacy budget: twice the zCDP parameter")
rho = _S.symbol("rho", "zCDP parameter")
epsilon = _S.symbol("epsilon", "privacy loss")
delta = _S.symbol("delta", "failure probability of privacy", domain=UNIT_INTERVAL)
order = _S.symbol("a", "order of the Renyi divergence", domain=_ABOVE_ONE)
T = _S.symbol("T", "number of steps", domain=COUNT)
steps = _S.symbol("T", "number of steps, as a real number")
t = _S.symbol("t", "step", domain=COUNT)
i = _S.symbol("i", "step", domain=COUNT)
eta = _S.symbol("eta", "step size", LENGTH**2 / LOSS)
sigma = _S.symbol("sigma", "noise multiplier")
noise = _S.sequence("s", "squared noise multiplier sigma_t^2 of step t")
q = _S.sequence("q", "influence of the noise of step t")
w = _S.symbol("w", "Wright's omega of 1 + ln(1/gamma)/(alpha kappa): w + ln w is that number", domain=_ABOVE_ONE)
ell = log(1 / gamma)
rate = _S.symbol("ell", "ln(1/gamma)")
beta = _S.symbol("beta", "momentum", domain=UNIT_INTERVAL)
eta0 = _S.symbol("eta_0", "relative step size of momentum, 2 M eta")
That = _S.symbol("That", "last step t at which gamma^{t-1} >= (1-beta)/(1-beta^t)", domain=COUNT)
k = _S.symbol("k", "summation index", domain=COUNT)
x = _S.symbol("x", "a step, as a real number", domain=_FROM_ONE)
last = _S.symbol("y", "the step That, as a real number", domain=_FROM_ONE)
u = _S.symbol("u", "a fraction", domain=UNIT_INTERVAL)
v = _S.symbol("v", "a fraction", domain=UNIT_INTERVAL)
c = _S.symbol("c", "a constant", domain=UNIT_INTERVAL)
p = _S.symbol("p", "a probability", domain=UNIT_INTERVAL)
s = _S.symbol("s", "1/(kappa^2 alpha)")
g = _S.sequence("g", "gradient of step t, one coordinate", LOSS / LENGTH)

_GD = {gamma: 1 - 1 / kappa}
_ALPHA = D * G**2 / (2 * R * M * N**2 * gap)


def _claim(place: str, title: str, locator: str, statement: Statement, origin: str, **more: Any) -> Claim:
    return Claim(f"{PAPER.key}.{place}", title, locator, statement, origin, **more)


def _erratum(severity: Severity, wording: str, corrected: Statement | None) -> Erratum:
    return Erratum(severity, wording, corrected, PAPER.version)


# ---------------------------------------------------------------- calculators
def _stable_log_inverse(kappa: Any) -> Any:
    """ln(1/gamma) for gamma = 1 - 1/kappa."""
    return -np.log1p(-1.0 / np.asarray(kappa, dtype=float))


def _zcdp(epsilon: Any, delta: Any) -> dict[str, Any]:
    logarithm = -np.log(delta)
    value = epsilon**2 / (np.sqrt(epsilon + logarithm) + np.sqrt(logarithm)) ** 2
    return {"rho": value, "R": 2 * value}


def _erub_uniform(steps: Any, kappa: Any, alpha: Any) -> Any:
    decay = -steps * _stable_log_inverse(kappa)
    return np.exp(decay) - alpha * kappa * steps * np.expm1(decay)


def _erub_dynamic(steps: Any, kappa: Any, alpha: Any) -> Any:
    half = -0.5 * steps * _stable_log_inverse(kappa)
    root = -np.expm1(-0.5 * _stable_log_inverse(kappa))  # 1 - sqrt(gamma)
    return np.exp(2 * half) + alpha * (np.expm1(half) / root) ** 2


def _best_integer(erub: Any, steps: Any, kappa: Any, alpha: Any) -> tuple[Any, Any]:
    """Both bounds fall, then rise: the best integer is next to the best real number; at least one step."""
    below = np.maximum(np.floor(steps), 1.0)
    above = below + 1.0
    at_below, at_above = erub(below, kappa, alpha), erub(above, kappa, alpha)
    return np.where(at_below <= at_above, below, above)[()], np.minimum(at_below, at_above)[()]


def _uniform_steps(kappa: Any, alpha: Any) -> Any:
    from scipy.special import wrightomega

    rate = _stable_log_inverse(kappa)
    excess = rate / (alpha * kappa)
    # w - 1 = excess/2 + ... for a small excess, where the difference itself would lose its digits.
    small = excess < 1e-5
    logarithm = np.where(small, excess / 2 * (1 - excess / 8), np.log(np.real(wrightomega(1.0 + excess))))
    return logarithm / rate


def _uniform(kappa: Any, alpha: Any) -> dict[str, Any]:
    best = _uniform_steps(kappa, alpha)
    integer, value = _best_integer(_erub_uniform, best, kappa, alpha)
    return {"steps": best[()], "erub": _erub_uniform(best, kappa, alpha)[()], "integer_steps": integer, "integer_erub": value}


def _dynamic_steps(kappa: Any, alpha: Any) -> Any:
    rate = _stable_log_inverse(kappa)
    root = -np.expm1(-0.5 * rate)
    return 2 / rate * np.log1p(root**2 / alpha)


def _dynamic(kappa: Any, alpha: Any) -> dict[str, Any]:
    best = _dynamic_steps(kappa, alpha)
    integer, value = _best_integer(_erub_dynamic, best, kappa, alpha)
    square = alpha / np.expm1(-0.5 * _stable_log_inverse(kappa)) ** 2
    return {"steps": best[()], "erub": (square / (1 + square))[()], "integer_steps": integer, "integer_erub": value}


def _schedule(t: Any, T: Any, kappa: Any, R: Any) -> dict[str, Any]:
    if np.any(np.asarray(t) > np.asarray(T)):
        raise ValueError(f"Expected t={t!r} <= T={T!r}.")
    half = 0.5 * _stable_log_inverse(kappa)
    # sigma_t^2 = (gamma^{-T/2} - 1) gamma^{t/2} / (R (1 - sqrt gamma)), with the growing power taken into gamma^{t/2}.
    value = np.exp(half * (T - t)) * -np.expm1(-half * T) / (R * -np.expm1(-half))
    return {"noise_multiplier": np.sqrt(value), "squared_noise_multiplier": value}


def _curve(steps: Any, kappa: Any, alpha: Any) -> dict[str, Any]:
    return {"uniform": _erub_uniform(steps, kappa, alpha), "dynamic": _erub_dynamic(steps, kappa, alpha)}


def _noise_level(D: Any, G: Any, R: Any, M: Any, N: Any, Delta: Any) -> Any:
    return D * G**2 / (2 * R * M * np.asarray(N, dtype=float) ** 2 * Delta)


def _gain(N: Any, kappa: Any, D: Any, G: Any, R: Any, M: Any, Delta: Any) -> dict[str, Any]:
    level = _noise_level(D, G, R, M, N, Delta)
    uniform, dynamic = _uniform(kappa, level), _dynamic(kappa, level)
    return {
        "gain": uniform["erub"] / dynamic["erub"],
        "integer_gain": uniform["integer_erub"] / dynamic["integer_erub"],
        "uniform": uniform["erub"],
        "dynamic": dynamic["erub"],
        "alpha": level[()],
    }


_ERUB_OUTPUTS = {
    "steps": "best number of steps, real",
    "erub": "excess risk bound there, relative to the initial excess risk",
    "integer_steps": "best integer number of steps, at least 1",
    "integer_erub": "excess risk bound there",
}
ZCDP = Calculator(_zcdp, (epsilon, delta), {"rho": "zCDP parameter", "R": "budget 2 rho"})
UNIFORM = Calculator(_uniform, (kappa, alpha), _ERUB_OUTPUTS)
DYNAMIC = Calculator(_dynamic, (kappa, alpha), _ERUB_OUTPUTS)
SCHEDULE = Calculator(
    _schedule,
    (t, T, kappa, R),
    {"noise_multiplier": "sigma_t", "squared_noise_multiplier": "sigma_t^2"},
)
CURVE = Calculator(
    _curve,
    (steps, kappa, alpha),
    {"uniform": "excess risk bound of the uniform schedule", "dynamic": "of the dynamic schedule"},
)
GAIN = Calculator(
    _gain,
    (N, kappa, D, G, R, M, gap),
    {
        "gain": "least uniform over least dynamic bound",
        "integer_gain": "the same with integer numbers of steps",
        "uniform": "least uniform bound",
        "dynamic": "least dynamic bound",
        "alpha": "noise level",
    },
)

# ---------------------------------------------------------------- zCDP
_L = log(1 / delta)
_RIGHT_RHO = epsilon + 2 * _L - 2 * sqrt(_L * (epsilon + _L))
_ROOT_SQUARED = sympy.expand((sqrt(_L + epsilon) - sqrt(_L)) ** 2)
_HEADLINE = {epsilon: 4, delta: 1e-8}
_HEADLINE_RHO = _RIGHT_RHO.xreplace({epsilon: Integer(4), delta: Integer(10) ** -8})
_PER_ORDER = _S.symbol("D_a", "Renyi divergence over its order")
_RESIDUAL, _NEXT_RESIDUAL = _S.symbol("R_T", "residual budget before step T"), _S.symbol("R_{T+1}", "residual budget after step T")
_SPENT = {_RESIDUAL: R - sympy.Sum(1 / noise[t], (t, 1, T - 1)), _NEXT_RESIDUAL: R - sympy.Sum(1 / noise[t], (t, 1, T))}
_SUBSAMPLED = log(
    sympy.Sum(sympy.binomial(n, k - 1) * (1 - p) ** (n - k + 1) * p ** (k - 1) * exp((k - 1) * (k - 2) / (2 * sigma**2)), (k, 1, n + 1))
) / (n * (n - 1))
_SENSITIVITY = {G: (0.1, 10), N: (1, 1e4), u: (1e-3, 1), v: (1e-3, 1)}


def _privacy() -> tuple[Claim, ...]:
    return (
        _claim(
            "lemmaC.1",
            "Composition and post-processing",
            "Lemma C.1",
            Uncheckable("the composition of two mechanisms is zCDP with the sum of their parameters", Reason.ALL_MECHANISMS),
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
                rho * (1 + steps) + _L / steps, steps, sqrt(_L / rho), rho + 2 * sqrt(rho * _L), example={rho: 0.1963, delta: 1e-8}
            ),
            "rho-zCDP bounds epsilon by rho a + ln(1/delta)/(a - 1) for every order a; this is the least over T = a - 1 > 0.",
        ),
        _claim(
            "lemmaC.4.inversion",
            "From (epsilon, delta) to zCDP",
            "below Lemma C.4, and Section 4.1.3",
            Identity(rho, epsilon + 2 * _L + 2 * sqrt(_L * (epsilon + _L)), _ROOT_SQUARED, example=_HEADLINE),
            "x = sqrt(rho) is the positive root of x^2 + 2 x sqrt(L) = epsilon, with L = ln(1/delta).",
            erratum=_erratum(
                Severity.PRIVACY,
                "The sign before the root should be minus. With plus, the budget for (4, 1e-8) would be rho = 81.49, which gives "
                "only (159, 1e-8); the paper's own numbers (0.1963, R = 0.3927) use the right root.",
                Identity(rho, _RIGHT_RHO, _ROOT_SQUARED, example=_HEADLINE),
            ),
            calculation=ZCDP,
        ),
        _claim(
            "sec5.budget",
            "Budget of the experiments as zCDP",
            "Section 5",
            Identity(rho, Rational(1963, 10000), _HEADLINE_RHO, digits=4),
            "(4, 1e-8)-DP through Lemma C.4, by the right root.",
            calculation=ZCDP,
        ),
        _claim(
            "sec5.R",
            "Budget R of the experiments",
            "Section 5",
            Identity(R, Rational(3927, 10000), 2 * _HEADLINE_RHO, digits=4),
            "R = 2 rho.",
            calculation=ZCDP,
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
                "R_zCDP > R_MA is false for every (epsilon, delta): R_zCDP/R_MA = 2/(1 + sqrt(1 + epsilon/ln(1/delta)))^2 < 1/2. It "
                "seemed true through the wrong sign in Lemma C.4. R_MA hides a constant, so that the comparison says nothing.",
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
                "R - R_T should be R - R_{T+1}: R_T is what is left before step T. Likewise the theorem says that theta_T is the "
                "output, while its proof and the excess risk speak of theta_{T+1}.",
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
                "The test should be rho_t <= R_t, with a tolerance for rounding: with the strict one a schedule with sum rho_t = R "
                "stops after T - 1 steps, and floating point decides at random.",
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
            Inequality(G * u / N, G / N, _SENSITIVITY),
            "An example's gradient of norm u G leaves a mean over a fixed N.",
        ),
        _claim(
            "eq18.replacement",
            "Sensitivity when one example differs",
            "Section 3 and eq. (18)",
            Inequality(G * (u + v) / N, G / N, _SENSITIVITY, example={G: 1, N: 100, u: 1, v: 1}),
            "Two data sets that differ in one example: its gradients, of norms u G and v G, may point in opposite directions.",
            erratum=_erratum(
                Severity.PRIVACY,
                "Section 3 calls data sets adjacent that differ in one sample, and Definition 3.4 takes them of equal size. Then the "
                "sensitivity is 2G/N and the cost four times as large; eq. (18) holds for zeroing out one example at fixed N.",
                Inequality(G * (u + v) / N, 2 * G / N, _SENSITIVITY),
            ),
        ),
        _claim(
            "sec4.3.cost",
            "Cost of a subsampled step",
            "Section 4.3",
            Identity(_S.symbol("rho_t", "cost of a step"), c * p**2 / sigma, c * p**2 / sigma**2),
            "The constraint in the next sentence: the sum of p^2/sigma_t^2 is R.",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "c p^2/sigma_t should be c p^2/sigma_t^2.",
                Identity(_S.symbol("rho_t", "cost of a step"), c * p**2 / sigma**2, c * p**2 / sigma**2),
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
            ),
            "Renyi divergence of order n = 20 of the subsampled Gaussian from the Gaussian, over its order, with c = 10.",
            erratum=_erratum(
                Severity.PRIVACY,
                "A subsampled Gaussian does not satisfy c p^2/(2 sigma^2)-zCDP for any constant c: at high orders nothing is gained over "
                "1/(2 sigma^2). Amplification by p^2 holds up to orders of about sigma^2 ln(1/p) (truncated CDP), so that neither "
                "R' = R/p^2 nor Lemma C.4 applies.",
                Inequality(_SUBSAMPLED, 1 / (2 * sigma**2), {p: (1e-3, 0.999), sigma: (1, 10)}, instance={n: 20}),
            ),
        ),
        _claim(
            "lemmaC.5",
            "Sensitivity of the squared loss",
            "Lemma C.5",
            Inequality(
                (theta + 1) / N, (theta**2 + 1) / 2, {theta: (1e-2, 1e2)}, instance={N: 2}, example={theta: 0.5}
            ),
            "Two examples x = 1 and x = -1, so that D = M = 1 and the gradient of x = -1 has norm |theta| + 1.",
            erratum=_erratum(
                Severity.PRIVACY,
                "The mean of the losses is bounded where their maximum is needed. (|theta| + 1)/N is right. The lemma is not used.",
                Inequality((theta + 1) / N, (theta + 1) / N, {theta: (1e-2, 1e2)}, instance={N: 2}),
            ),
        ),
    )


theta = _S.symbol("theta", "norm of the parameters")

# ---------------------------------------------------------------- gradient descent
_W = sympy.LambertW(exp(1 + ell / (alpha * kappa)))
_BY_OMEGA = {alpha: ell / (kappa * (w - 1 + log(w))), **_GD}
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
    risk = _S.symbol("E", "excess risk bound")
    recursion = Integer(1)
    for step in (1, 2, 3):
        recursion = gamma * recursion + R * alpha * noise[step]
    bound = gamma**T + R * sympy.Sum(gamma ** (T - t) * alpha * noise[t], (t, 1, T))
    return (
        _claim(
            "assumptions",
            "Bounded gradients and Polyak-Lojasiewicz on the whole space",
            "Section 3, assumptions, and Definition 4.1",
            Inequality(
                u * exp(2 * steps), Integer(1), {u: (1e-6, 0.999), steps: (1e-3, 10)}, example={u: 0.01, steps: 3}
            ),
            "f(theta) - f^* = u G^2/(2 mu), at most G^2/(2 mu) by both assumptions; gradient ascent for a time T/mu multiplies it by at "
            "least e^{2T}.",
            erratum=_erratum(
                Severity.RATE,
                "On the whole space only constant losses satisfy both. A bounded domain is needed (left by gradient ascent in time), or "
                "clipping, whose bias Theorem 4.2 does not treat.",
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
                "q_t is not the derivative of ERUB by sigma_t, but the coefficient of R sigma_t^2; the derivative is 2 R q_t sigma_t.",
                Identity(_DERIVATIVE, 2 * R * q[t] * sigma, sympy.diff(R * q[t] * sigma**2, sigma), instances=({t: 1},)),
            ),
        ),
        _claim(
            "eq4.nonprivate",
            "alpha as the error of noise-free descent",
            "eq. (4)",
            Identity(gamma**steps, alpha, gamma ** (log(1 / alpha) / rate), where={gamma: exp(-rate)}),
            "gamma^T at T = ln(1/alpha)/ln(1/gamma). Without noise there is no R, so this compares stopping times, not algorithms.",
        ),
        _claim(
            "thm4.2.noise",
            "Noise of one step",
            "Theorem 4.2, proof",
            Identity(alpha, _ALPHA, M / 2 * (G / (M * N)) ** 2 * D / (R * gap)),
            "Smoothness adds (M/2) eta^2 E|G sigma nu/N|^2 at eta = 1/M, with E|nu|^2 = D; this is R alpha sigma^2 times the initial gap.",
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
            calculation=CURVE,
        ),
        _claim(
            "thm4.2.bound",
            "Excess risk bound against quadratics",
            "Theorem 4.2, eq. (7)",
            Inequality(
                (1 - u) ** (2 * T) + R * alpha * u * sympy.Sum((1 - u) ** (2 * (T - t)) * noise[t], (t, 1, T)),
                bound,
                {u: (1e-3, 0.9999), kappa: (1.001, 1e3), R: (0.1, 10), alpha: (1e-6, 10), noise: (1e-3, 1e3)},
                where=_GD,
                conditions=(u * kappa >= 1,),
                instance={T: 3},
            ),
            "The exact excess risk of f = u M theta^2/2, with 1/kappa <= u <= 1, relative to the initial one.",
        ),
        _claim(
            "eq9",
            "Bound of the uniform schedule",
            "eq. (9)",
            Identity(risk, gamma**T + alpha * kappa * (1 - gamma**T) * T, gamma**T + sympy.Sum(gamma ** (T - t) * alpha * T, (t, 1, T)),
                     where={kappa: 1 / (1 - gamma)}, instances=({T: 1}, {T: 2}, {T: 5})),
            "Eq. (7) at sigma_t^2 = T/R.",
            calculation=CURVE,
        ),
        _claim(
            "eq22.gradient",
            "Derivative of the uniform bound",
            "Theorem 4.3, sketch of proof",
            Identity(
                sympy.Derivative(_UNIFORM, steps),
                gamma**steps * log(gamma) + alpha * kappa * (1 - gamma**steps) - alpha * kappa * steps * gamma**steps * log(gamma),
                sympy.diff(_UNIFORM, steps),
            ),
            "The paper calls its root intractable; it is Wright's omega function, see thm4.3.minimum.",
        ),
        _claim(
            "eq23.minimiser",
            "Minimiser of the surrogate",
            "eq. (23)",
            Optimum(gamma**steps + alpha * kappa * steps, steps, _T23, where=_GD, conditions=(ell > kappa * alpha,)),
            "The uniform bound without the factor 1 - gamma^T.",
        ),
        _claim(
            "eq23.limit",
            "Surrogate step count for large kappa",
            "Theorem 4.3, proof, below eq. (23)",
            Limit(_T23, kappa, oo, oo, where=_GD, example={kappa: 1e6, alpha: 1e-3}),
            "The paper says that T suffers from explosion as kappa grows, and changes it to eq. (24) for that reason.",
            erratum=_erratum(
                Severity.RATE,
                "For fixed alpha the T of eq. (23) falls below 0 once kappa^2 alpha is above about 1, where its own condition fails and T = 0 "
                "is the minimiser; it does not explode.",
                Limit(_T23, kappa, oo, -oo, where=_GD, example={kappa: 1e6, alpha: 1e-3}),
            ),
        ),
        _claim(
            "eq24.limit",
            "Uniform step count for large kappa",
            "Theorem 4.3, below eq. (24)",
            Limit(_T24, kappa, oo, Integer(0), where=_GD, example={kappa: 1e6, alpha: 1e-3}),
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
            Ratio(_T24, kappa * log(1 + 1 / (kappa * alpha)), _FAR, "O", where=_GD),
            "Eq. (24), with ln(1/gamma) between 1/kappa and 2/kappa for kappa >= 2.",
        ),
        _claim(
            "eq25",
            "Uniform bound at eq. (24)",
            "eq. (25)",
            Identity(risk, (1 + kappa * log(1 + rate / alpha)) / (1 + rate / alpha), _UNIFORM.xreplace({steps: log(1 + rate / alpha) / rate}),
                     where={gamma: exp(-rate)}),
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
            Inequality(ell, 1 / (c * kappa), {**_CURVATURES, c: (1e-3, 1 - 1e-4)}, where=_GD, conditions=(kappa * (1 - c) >= 1,)),
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
                "Eq. (24) does not minimise eq. (22). The minimiser is T = ln(w)/ln(1/gamma) with w + ln w = 1 + ln(1/gamma)/(alpha kappa) "
                "(Wright's omega function); at kappa = 1000, alpha = 1e-4 the bound at (24) is 218 times the initial error.",
                Optimum(_UNIFORM, steps, log(w) / ell, _UNIFORM_LEAST, where=_BY_OMEGA),
            ),
            calculation=UNIFORM,
        ),
        _claim(
            "thm4.3.rate",
            "Rate of the uniform schedule",
            "Theorem 4.3, eq. (8)",
            Ratio(_UNIFORM_EXACT, kappa**2 / (kappa + 1 / alpha) * log(1 + 1 / (kappa * alpha)), _FAR, where=_GD, example=_SHARP),
            "The exact minimum of eq. (22), by Wright's omega function.",
            erratum=_erratum(
                Severity.RATE,
                "Eq. (8) is the bound at eq. (24), not its minimum; it holds for kappa^2 alpha << 1 only, so that alpha_0 depends on kappa.",
                Ratio(_UNIFORM_EXACT, kappa**2 * alpha * log(1 + 1 / (kappa**2 * alpha)), _FAR, where=_GD),
            ),
            calculation=UNIFORM,
        ),
        _claim(
            "sec4.1.1.wang",
            "Relaxation attributed to Wang et al.",
            "Theorem 4.3, sketch of proof",
            Inequality(alpha * kappa * (1 - gamma**x) * x, alpha * kappa * x**2, {alpha: (1e-6, 1), kappa: (2, 1e4), x: (1, 1e4)}, where=_GD),
            "kappa (1 - gamma^T) <= T, so that alpha T^2 would do as well, without the factor kappa that is said to explode.",
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
            calculation=SCHEDULE,
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
            calculation=CURVE,
        ),
        _claim(
            "thm4.5.minimiser",
            "Best step count of the dynamic schedule",
            "eq. (27)",
            Optimum(_DYNAMIC, steps, _T27, _DYNAMIC_EXACT, where=_GD, example={kappa: 10, alpha: 1e-3}),
            "With y = gamma^{T/2} the bound is a quadratic in y.",
            calculation=DYNAMIC,
        ),
        _claim(
            "thm4.5.T",
            "Step count of Theorem 4.5",
            "Theorem 4.5",
            Optimum(_DYNAMIC, steps, 2 * kappa * log(1 + 1 / (kappa * alpha)), where=_GD, example={kappa: 1000, alpha: 1e-5}),
            "The theorem says that this T minimises ERUB (up to rounding).",
            erratum=_erratum(
                Severity.RATE,
                "The T of Theorem 4.5 is not the minimiser, eq. (27), of its proof: (1 - sqrt(gamma))^2 is about 1/(4 kappa^2), "
                "not 1/kappa. It does no harm while kappa^2 alpha is below 0.001.",
                Optimum(_DYNAMIC, steps, _T27, where=_GD, example={kappa: 1000, alpha: 1e-5}),
            ),
            calculation=DYNAMIC,
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
            Inequality(_DYNAMIC_EXACT, 4 * kappa**2 * alpha / (kappa**2 * alpha + 1), {**_CURVATURES, alpha: (1e-16, 1)}, where=_GD),
            "The minimum is alpha K^2/(1 + alpha K^2) with K <= 2 kappa.",
        ),
        _claim(
            "thm4.5.lower",
            "Lower bound of the least dynamic bound",
            "Theorem 4.5, proof",
            Inequality(_DYNAMIC_EXACT, kappa**2 * alpha / (kappa**2 * alpha + 1) / 4, {**_CURVATURES, alpha: (1e-16, 1)}, ">=", where=_GD),
            "The minimum is alpha K^2/(1 + alpha K^2) with K >= kappa, so that the factor 1/4 is not needed.",
        ),
        _claim(
            "thm4.5.rate",
            "Rate of the dynamic schedule",
            "Theorem 4.5, eq. (11)",
            Ratio(_DYNAMIC_EXACT, kappa**2 / (kappa**2 + 1 / alpha), _FAR, where=_GD),
            "The exact minimum, at eq. (27).",
            calculation=DYNAMIC,
        ),
        _claim(
            "thm4.5.kappa",
            "Condition on kappa",
            "Theorem 4.5",
            Inequality(Integer(0), alpha * (1 - 1 / flat), {flat: (1, 1e3), alpha: (1e-6, 1)}, "<"),
            "Lemma 4.4 needs q_1 = gamma^{T-1} alpha > 0, here at T = 2, while the theorem allows kappa >= 1.",
            erratum=_erratum(
                Severity.TYPOGRAPHICAL,
                "kappa >= 1 should be kappa > 1: at kappa = 1 the influence of all steps but the last is 0, and the schedule divides by it.",
                Inequality(Integer(0), alpha * (1 - 1 / kappa), {kappa: (1.001, 1e3), alpha: (1e-6, 1)}, "<"),
            ),
        ),
        _claim(
            "eq12.uniform",
            "Uniform rate for many examples",
            "eq. (12)",
            Ratio(_UNIFORM_EXACT, kappa**2 * alpha * log(1 / (kappa * alpha)), {alpha: (1e-4, -1)}, "O", where={**_GD, kappa: 10}),
            "Fixed kappa, here 10, and alpha to 0.",
        ),
        _claim(
            "eq12.dynamic",
            "Dynamic rate for many examples",
            "Section 4.1.3",
            Ratio(_DYNAMIC_EXACT, alpha, {alpha: (1e-4, -1)}, "O", where={**_GD, kappa: 10}),
            "Fixed kappa, here 10, and alpha to 0.",
        ),
        _claim(
            "eq12.regime",
            "alpha for many examples",
            "Section 4.1.3",
            Limit(_ALPHA, N, oo, oo),
            "The paper takes N large enough that alpha >> 1.",
            erratum=_erratum(Severity.TYPOGRAPHICAL, "alpha >> 1 should be alpha << 1.", Limit(_ALPHA, N, oo, Integer(0))),
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
            Limit(_UNIFORM_LEAST, w, Integer(1), 1 / alpha),
            "For fixed alpha, w + ln w = 1 + ln(1/gamma)/(alpha kappa) falls to 1 as kappa grows.",
            erratum=_erratum(
                Severity.RATE,
                "The least uniform bound tends to 1, not to 1/alpha: T = 0 already gives 1. Both schedules are Theta(1), and the "
                "dynamic one is not more stable.",
                Limit(_UNIFORM_LEAST, w, Integer(1), Integer(1)),
            ),
        ),
        _claim(
            "sec4.1.3.dynamic_limit",
            "Least dynamic bound for large kappa",
            "Section 4.1.3, stability",
            Limit(_DYNAMIC_EXACT, kappa, oo, Integer(1), where=_GD),
            "The exact minimum.",
        ),
        _claim(
            "intro.stricter",
            "Where the dynamic schedule gains",
            "Section 1, end",
            Inequality(_GAIN_LAW.xreplace({s: 2 * s}), _GAIN_LAW, {s: (1e-6, 1e12)}, example={s: 10}),
            "s = 1/(kappa^2 alpha) doubles with the budget; the introduction expects more gain from smaller samples and budgets.",
            erratum=_erratum(
                Severity.RATE,
                "The gain grows with sample size and budget, as Section 5 also finds.",
                Inequality(_GAIN_LAW.xreplace({s: 2 * s}), _GAIN_LAW, {s: (1e-6, 1e12)}, ">="),
            ),
            calculation=GAIN,
        ),
        _claim(
            "gain",
            "Least uniform over least dynamic bound",
            "compare Section 4.1.3",
            Ratio(
                _UNIFORM_EXACT / _DYNAMIC_EXACT,
                _GAIN_LAW.xreplace({s: 1 / (kappa**2 * alpha)}),
                _FAR,
                where=_GD,
            ),
            "Both minima are exact. The gain is at most logarithmic, and depends on kappa^2 alpha alone.",
            derived_here=True,
            calculation=GAIN,
        ),
    )


_DERIVATIVE = _S.symbol("\\partial ERUB/\\partial\\sigma_t", "derivative of the excess risk bound")
flat = _S.symbol("kappa", "condition number, 1 allowed", domain=_FROM_ONE)

CLAIMS: tuple[Claim, ...] = (*_privacy(), *_gradient_descent())
