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
from dpnotes.theory.symbols import COUNT, POSITIVE, REAL, UNIT_INTERVAL, Domain, PaperSymbols
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
_HEADLINE = {epsilon: 4, delta: 1e-8}

_PRIVACY = (
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
        "rho-zCDP bounds epsilon by rho a + ln(1/delta)/(a - 1) for every order a; this is its least value over a - 1 > 0.",
    ),
    _claim(
        "lemmaC.4.inversion",
        "From (epsilon, delta) to zCDP",
        "below Lemma C.4, and Section 4.1.3",
        Identity(
            rho,
            epsilon + 2 * _L + 2 * sqrt(_L * (epsilon + _L)),
            sympy.expand((sqrt(_L + epsilon) - sqrt(_L)) ** 2),
            example=_HEADLINE,
        ),
        "x = sqrt(rho) is the positive root of x^2 + 2 x sqrt(L) = epsilon, with L = ln(1/delta).",
        erratum=_erratum(
            Severity.PRIVACY,
            "The sign before the root should be minus. With plus, the budget for (4, 1e-8) would be rho = 81.49, which gives "
            "only (159, 1e-8); the paper's own numbers (0.1963, R = 0.3927) use the right root.",
            Identity(rho, _RIGHT_RHO, sympy.expand((sqrt(_L + epsilon) - sqrt(_L)) ** 2), example=_HEADLINE),
        ),
        calculation=ZCDP,
    ),
)

# ---------------------------------------------------------------- gradient descent
_W = sympy.LambertW(exp(1 + ell / (alpha * kappa)))  # w + ln w = 1 + ln(1/gamma)/(alpha kappa)
_BY_OMEGA = {alpha: ell / (kappa * (w - 1 + log(w))), **_GD}
_UNIFORM = gamma**steps + alpha * kappa * (1 - gamma**steps) * steps
_DYNAMIC = gamma**steps + alpha * ((1 - gamma ** (steps / 2)) / (1 - sqrt(gamma))) ** 2
_K2 = (1 - sqrt(gamma)) ** -2
_T24 = log(1 + ell / alpha) / ell
_T27 = 2 * log(alpha / (alpha + (1 - sqrt(gamma)) ** 2)) / log(gamma)

_GRADIENT = (
    _claim(
        "thm4.2.noise",
        "Noise of one step",
        "Theorem 4.2, proof",
        Identity(
            R * alpha * sigma**2 * gap,
            R * _ALPHA * sigma**2 * gap,
            M / 2 * (G * sigma / (M * N)) ** 2 * D,
        ),
        "Smoothness adds (M/2) eta^2 E|G sigma nu/N|^2 at eta = 1/M, and E|nu|^2 = D.",
    ),
    _claim(
        "thm4.3.minimum",
        "Step count of the uniform schedule",
        "eq. (24), for ERUB_min in eq. (8)",
        Optimum(_UNIFORM, steps, _T24, where=_GD, example={kappa: 1000, alpha: 1e-4}),
        "Eq. (24) stands for the minimiser of eq. (22) in the proof, and its value is called ERUB_min.",
        erratum=_erratum(
            Severity.RATE,
            "Eq. (24) does not minimise eq. (22). The minimiser is T = ln(w)/ln(1/gamma), where w is Wright's omega function "
            "of 1 + ln(1/gamma)/(alpha kappa); at kappa = 1000, alpha = 1e-4 the bound at (24) is 218 times the initial error.",
            Optimum(_UNIFORM, steps, log(w) / ell, (w - 1 + w * log(w)) / (w * (w - 1 + log(w))), where=_BY_OMEGA),
        ),
        calculation=UNIFORM,
    ),
    _claim(
        "thm4.5.minimiser",
        "Best step count of the dynamic schedule",
        "eq. (27)",
        Optimum(_DYNAMIC, steps, _T27, alpha * _K2 / (alpha * _K2 + 1), where=_GD, example={kappa: 10, alpha: 1e-3}),
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
        "thm4.3.rate",
        "Rate of the uniform schedule",
        "Theorem 4.3, eq. (8)",
        Ratio(
            (_W - 1 + _W * log(_W)) / (_W * (_W - 1 + log(_W))),
            kappa**2 / (kappa + 1 / alpha) * log(1 + 1 / (kappa * alpha)),
            {kappa: (2, 1), alpha: (0.1, -1)},
            where=_GD,
            example={kappa: 1000, alpha: 1e-4},
        ),
        "The exact minimum of eq. (22), by Wright's omega function.",
        erratum=_erratum(
            Severity.RATE,
            "Eq. (8) is the bound at eq. (24), not its minimum; it holds only for kappa^2 alpha << 1, so that alpha_0 depends on kappa.",
            Ratio(
                (_W - 1 + _W * log(_W)) / (_W * (_W - 1 + log(_W))),
                kappa**2 * alpha * log(1 + 1 / (kappa**2 * alpha)),
                {kappa: (2, 1), alpha: (0.1, -1)},
                where=_GD,
            ),
        ),
    ),
    _claim(
        "thm4.5.rate",
        "Rate of the dynamic schedule",
        "Theorem 4.5, eq. (11)",
        Ratio(
            alpha * _K2 / (alpha * _K2 + 1),
            kappa**2 / (kappa**2 + 1 / alpha),
            {kappa: (2, 1), alpha: (0.1, -1)},
            where=_GD,
        ),
        "The exact minimum, at eq. (27).",
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
)

CLAIMS: tuple[Claim, ...] = (*_PRIVACY, *_GRADIENT)
