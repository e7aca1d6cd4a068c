"""Risk bounds, best numbers of steps and schedules of Hong, Wang and Zhou (2022), as functions of plain numbers."""

from typing import Any

import numpy as np

from dpnotes.papers.budget_schedules import notation as s
from dpnotes.privacy.calibration import gaussian_std
from dpnotes.theory.calculators import Calculator, Measure, accuracies, evaluations, parameters
from dpnotes.theory.refusals import require

_LARGEST_EXPONENT = 600  # of e, with room for the other factors below the largest floating point number


def _stable_log_inverse(kappa: Any) -> Any:
    """Return ln(1/gamma) for gamma = 1 - 1/kappa."""
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


def _best(erub: Any, kappa: Any, alpha: Any, steps: Any, least: Any) -> dict[str, Any]:
    """Return the best number of steps and its bound, of real numbers and of integers (at least 1).

    Both bounds first decrease and then increase, so the best integer is a neighbour of the best real number.
    """
    below = np.maximum(np.floor(steps), 1.0)
    at_below, at_above = erub(below, kappa, alpha), erub(below + 1.0, kappa, alpha)
    integer = np.where(at_below <= at_above, below, below + 1.0)
    found = {"steps": steps, "erub": least, "integer_steps": integer, "integer_erub": np.minimum(at_below, at_above)}
    return {name: value[()] for name, value in found.items()}


def _uniform_steps(kappa: Any, alpha: Any) -> Any:
    from scipy.special import wrightomega

    rate = _stable_log_inverse(kappa)
    excess = rate / (alpha * kappa)
    # For a small excess, w - 1 = excess/2 + ...; computing the difference directly would lose its digits.
    small = excess < 1e-5
    logarithm = np.where(small, excess / 2 * (1 - excess / 8), np.log(np.real(wrightomega(1.0 + excess))))
    return logarithm / rate


def _uniform(kappa: Any, alpha: Any) -> dict[str, Any]:
    steps = _uniform_steps(kappa, alpha)
    return _best(_erub_uniform, kappa, alpha, steps, _erub_uniform(steps, kappa, alpha))


def _dynamic(kappa: Any, alpha: Any) -> dict[str, Any]:
    rate = _stable_log_inverse(kappa)
    root = -np.expm1(-0.5 * rate)  # 1 - sqrt(gamma)
    square = alpha / root**2
    return _best(_erub_dynamic, kappa, alpha, 2 / rate * np.log1p(root**2 / alpha), square / (1 + square))


def _schedule(t: Any, T: Any, kappa: Any, R: Any) -> dict[str, Any]:
    require(np.less_equal(t, T), "Expected t={t:g} <= T={T:g}.", t=t, T=T)
    half = 0.5 * _stable_log_inverse(kappa)
    too_long = "Expected T={T:g} so small that the noise of step t={t:g}, of the order gamma^((t-T)/2), is a number; "
    require(half * (np.asarray(T) - t) <= _LARGEST_EXPONENT, too_long + f"it passes e^{_LARGEST_EXPONENT}.", t=t, T=T)
    # sigma_t^2 = (gamma^{-T/2} - 1) gamma^{t/2} / (R (1 - sqrt gamma)), rearranged so that no power overflows.
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


def _risk(N: Any, kappa: Any, D: Any, G: Any, M: Any, Delta: Any, epsilon: Any, delta: Any) -> dict[str, Any]:
    """Return the risk bounds at whole numbers of steps, with the budget R that (epsilon, delta) allow a Gaussian.

    Neighbours are the paper's: one example's gradient becomes zero, which moves the mean by G/N (see eq18.replacement).
    """
    budget = 1 / _gaussian_std(epsilon, delta) ** 2
    level = _noise_level(D, G, budget, M, N, Delta)
    (first, uniform), (last, dynamic) = (
        (best["integer_steps"], best["integer_erub"]) for best in (_uniform(kappa, level), _dynamic(kappa, level))
    )
    return {
        "uniform": uniform,
        "dynamic": dynamic,
        "uniform_steps": first,
        "dynamic_steps": last,
        "uniform_noise": G / N * np.sqrt(first / budget),
        "dynamic_noise": G / N * _schedule(last, last, kappa, budget)["noise_multiplier"],
        "R": budget,
    }


def _least_dynamic(kappa: Any, alpha: Any) -> dict[str, Any]:
    square = np.asarray(kappa, dtype=float) ** 2 * alpha
    share = square / (square + 1)
    return {"lower": share / 4, "upper": 4 * share}


def _momentum_step(beta: Any, gamma: Any, constants: str) -> dict[str, Any]:
    """Theorem 4.6: the root of zeta = 1 - eta_0/4 - A eta_0^2 ("paper") or of 1 - eta_0/2 - A eta_0^2 ("corrected").

    >>> round(MOMENTUM_STEP(beta=0.9, gamma=0.99, constants="paper")["eta_0"], 5)
    0.00301
    >>> MOMENTUM_STEP(beta=0.99, gamma=0.9)
    Traceback (most recent call last):
    dpnotes.theory.refusals.OutsideRegime: Expected beta=0.99 < gamma=0.9: the proof sums a series in beta/gamma.
    """
    if constants == "paper":
        require(np.not_equal(beta, gamma), "Expected beta={beta:g} other than gamma={gamma:g}.", beta=beta, gamma=gamma)
    else:
        diverges = "Expected beta={beta:g} < gamma={gamma:g}: the proof sums a series in beta/gamma."
        require(np.less(beta, gamma), diverges, beta=beta, gamma=gamma)
    coefficient = beta * gamma / ((gamma - beta) ** 2 * (1 - np.asarray(beta, dtype=float)) ** 3)
    scale = 8.0 if constants == "paper" else 4.0
    return {"eta_0": (scale / (np.sqrt(1 + scale**2 * coefficient) + 1))[()], "A": coefficient[()]}


_gaussian_std = np.vectorize(gaussian_std, otypes=[float])  # noise of a Gaussian at sensitivity 1
_ERUB_OUTPUTS = {
    **evaluations(steps="best number of steps, real"),
    **accuracies(Measure.EXCESS_RISK, erub="excess risk bound there, relative to the initial excess risk"),
    **evaluations(integer_steps="best integer number of steps, at least 1"),
    **accuracies(Measure.EXCESS_RISK, integer_erub="excess risk bound there"),
}
ZCDP = Calculator(_zcdp, (s.epsilon, s.delta), parameters(rho="zCDP parameter", R="budget 2 rho"))
UNIFORM = Calculator(_uniform, (s.kappa, s.alpha), _ERUB_OUTPUTS)
DYNAMIC = Calculator(_dynamic, (s.kappa, s.alpha), _ERUB_OUTPUTS)
LEAST_DYNAMIC = Calculator(
    _least_dynamic,
    (s.kappa, s.alpha),
    {
        **accuracies(Measure.EXCESS_RISK, lower="the least dynamic bound is at least this", floor=True),
        **accuracies(Measure.EXCESS_RISK, upper="and at most this"),
    },
)
SCHEDULE = Calculator(
    _schedule, (s.t, s.T, s.kappa, s.R), parameters(noise_multiplier="sigma_t", squared_noise_multiplier="sigma_t^2")
)
MOMENTUM_STEP = Calculator(
    _momentum_step,
    (s.beta, s.gamma),
    parameters(eta_0="largest relative step size", A="beta gamma/((gamma - beta)^2 (1 - beta)^3)"),
    ("corrected", "paper"),
)
CURVE = Calculator(
    _curve,
    (s.steps, s.kappa, s.alpha),
    accuracies(
        Measure.EXCESS_RISK, uniform="excess risk bound of the uniform schedule", dynamic="of the dynamic schedule"
    ),
)
_GAINS = {"gain": "least uniform over least dynamic bound", "integer_gain": "the same with integer numbers of steps"}
GAIN = Calculator(
    _gain,
    (s.N, s.kappa, s.D, s.G, s.R, s.M, s.gap),
    parameters(**_GAINS)
    | accuracies(Measure.EXCESS_RISK, uniform="least uniform bound", dynamic="least dynamic bound")
    | parameters(alpha="noise level"),
)
RISK = Calculator(
    _risk,
    (s.N, s.kappa, s.D, s.G, s.M, s.gap, s.epsilon, s.delta),
    {
        **accuracies(
            Measure.EXCESS_RISK,
            uniform="bound of the uniform schedule at its best whole number of steps",
            dynamic="of the dynamic schedule",
        ),
        **evaluations(uniform_steps="steps of the uniform schedule", dynamic_steps="of the dynamic schedule"),
        **parameters(
            uniform_noise="noise of a coordinate of the mean gradient",
            dynamic_noise="the same in the last step, which has the least",
            R="budget that (epsilon, delta) allow, by the exact delta of a Gaussian",
        ),
    },
)


def _theorem_over_uniform(before: int, num_steps: int, beta: float, gamma: float) -> float:
    """Return the noise variance R U_3 of momentum under Theorem 4.8's schedule, over that of the uniform schedule.

    For influences q, it is the sum of w_t sigma_t^2 R with sigma_t^2 = sum_i sqrt(q_i / q_t) / R.

    >>> round(_theorem_over_uniform(230, 460, 0.9, 0.99), 3)
    1.104
    """
    index = np.arange(1, num_steps + 1)
    exact, rest = np.zeros(num_steps), 0.0
    for step in range(num_steps, 0, -1):
        rest = gamma ** (num_steps - step) * ((1 - beta) / (1 - beta**step)) ** 2 + beta**2 * rest
        exact[step - 1] = rest
    early = 2 / (gamma * (gamma - beta**2)) * gamma ** (num_steps + index)
    late = gamma ** (2 * before - 1) / (gamma - beta**2) * gamma ** (num_steps - index)
    root = np.sqrt(np.where(index <= before, early, late))
    return float(root.sum() * (exact / root).sum() / (num_steps * exact.sum()))
