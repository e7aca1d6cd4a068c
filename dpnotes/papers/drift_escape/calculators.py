"""Parameters, rates and sample sizes of the drift escape paper, as functions of plain numbers.

Sets of constants: `paper`, as printed, with 1 for the constants that an O hides; `corrected`, the constants and
logarithms that the proofs give, with the paper's unspecified C and s as arguments; `one`, the largest monomial, all
constants and logarithms 1, with the accountant's noise. The error of Theorems 2, 3 and 4 has no corrected constants,
because their O hides C, s and the logarithm mu. `algorithms.theorem_2` gives parameters under all three sets, with
noise that is private under the last two.

Two circular systems are solved to `TOLERANCE`: the equation (5) for mu, whose entries contain mu, by iteration, and the
error of Theorems 2 and 3, on which the oracle's noise depends, by bisection (under `one` it is a closed form).
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np

from dpnotes.papers.drift_escape import notation as s
from dpnotes.privacy.calibration import gaussian_delta, gaussian_std
from dpnotes.theory.calculators import Calculator, Measure, accuracies, evaluations, parameters, sample_sizes
from dpnotes.theory.refusals import NoRoot, require, require_informative

_least_noise = np.vectorize(gaussian_std, otypes=[float])  # noise of a Gaussian mechanism with sensitivity 1
TOLERANCE = 1e-12  # relative
_MOST_STEPS = 1000


def _floats(*values: Any) -> tuple[Any, ...]:
    """Return integers as floating-point numbers, so that their squares do not overflow."""
    return tuple(np.asarray(value, dtype=float)[()] for value in values)


def _check_smoothness(smoothness: Any, curvature: Any) -> None:
    """Refuse M < sqrt(rho alpha): the paper assumes the opposite, without which (4) gives a step size above 1/M."""
    text = (
        "Expected M={M:.6g} >= sqrt(rho alpha)={curvature:.6g}: the error alpha is too large by a factor {factor:.4g} "
        "for the assumption of Section 2."
    )
    require(smoothness >= curvature, text, M=smoothness, curvature=curvature, factor=(curvature / smoothness) ** 2)


# ---------------------------------------------------------------- repeats
def _repeats(omega_0: Any, constants: str) -> dict[str, Any]:
    most = np.log(1 / omega_0)
    attempts = 2.5 * most if constants == "paper" else most / math.log(4 / 3)
    return {"Q": attempts, "attempts": np.ceil(attempts), "failure": 0.75**attempts}


# ---------------------------------------------------------------- (4) and (5)
def _at(mu: Any, given: dict[str, Any], constants: str) -> dict[str, Any]:
    """Return all quantities of (4), and of (69) to (72), at one value of mu."""
    C, s, psi, M, rho, U, omega = (given[name] for name in ("C", "s", "psi", "M", "rho", "U", "omega"))
    iota = s * mu
    printed = constants == "paper"
    chi = 4 * np.sqrt(C) * s * mu**2 * psi if printed else np.sqrt(C) * s**1.5 * mu**2.5 * psi
    alpha = 4 * chi
    curvature = np.sqrt(rho * alpha)
    power = 0 if printed else 1  # power of the iota that Lemmas 1 and 4 lack
    eta = curvature / (M**2 * iota ** (2 + power))
    steps = iota / (s * eta * curvature)
    decrease = s / (8 * iota ** (3 + power)) * alpha * np.sqrt(alpha / rho)
    if printed:
        saddles = 8 * iota**3 * U / s * np.sqrt(rho / chi**3)
        repeats = 2.5 * np.log(2 * saddles / omega)
        total = U * s**2 * mu**4 / (2 * chi**2 * eta) * repeats
    else:
        saddles = np.maximum(U / decrease, 1.0)
        repeats = np.log(4 * saddles / omega) / math.log(4 / 3)
        # Each descent step decreases the risk by 3/2 chi^2 eta; the last point takes all of its attempts.
        total = (U / np.minimum(decrease / steps, 1.5 * chi**2 * eta) + steps) * repeats
    found = {"mu": mu, "iota": iota, "psi": psi, "chi": chi, "alpha": alpha, "eta": eta, "T_esc": steps}
    return {**found, "S": iota**-1.5 * np.sqrt(alpha / rho), "F_esc": decrease, "N": saddles, "Q": repeats, "T": total}


def _entries(found: dict[str, Any], given: dict[str, Any], constants: str) -> Any:
    """Return the largest entry of (5), as printed or as repaired."""
    C, s, psi, rho, d, r, omega = (given[name] for name in ("C", "s", "psi", "rho", "d", "r", "omega"))
    eta = found["eta"]
    if constants == "paper":
        root = C**0.25 * np.sqrt(psi / rho)
        inner = np.log(4 * root / (s * eta * r))
        text = (
            "Expected S/(eta r) > 1 and N > omega/2, got log(S/(eta r))={inner:.4g} and Q={Q:.4g}: the logarithms of "
            "(5) and (71) have no value as printed."
        )
        require((inner > 0) & (found["Q"] > 0), text, inner=inner, Q=found["Q"])
        level = np.maximum(np.log(4 * found["T"] / omega), 0)
        first = np.log(9 * d / (C**0.25 * eta * np.sqrt(s * rho * psi)) * inner) / s
        second = np.log(160 * math.sqrt(2) * root / (s * np.sqrt(eta * r)))
        third = (C * level) ** 0.25 / (2**0.75 * np.sqrt(s))
        return reduce(np.maximum, (first, second, third, 1.0))
    inner = np.maximum(np.log(found["S"] / (eta * r)), 1.0)
    first = np.log(np.maximum(36 * d * found["T_esc"] * inner, 1.0)) / s
    growth = 40 * math.sqrt(2) * found["S"] * (rho * found["alpha"]) ** 0.25 / (np.sqrt(eta) * r)
    second = np.log(growth) / math.log(2)
    third = (2 * C * np.maximum(np.log(4 * found["T"] / omega), 0)) ** 0.2 / s**0.6
    fourth = np.log(8 * found["N"] / omega) / s
    return reduce(np.maximum, (first, second, third, fourth, 1.0))


def _parameters(*given: Any, constants: str) -> dict[str, Any]:
    C, s, sigma, r, d, M, rho, U, omega = _floats(*given)
    psi = np.sqrt(sigma**2 + r**2 * d)
    number = {"C": C, "s": s, "psi": psi, "M": M, "rho": rho, "U": U, "omega": omega, "d": d, "r": r}
    if constants == "one":
        found = _plain(psi, M, rho, U)
    else:
        mu = np.ones(np.broadcast_shapes(*(np.shape(value) for value in number.values())))[()]
        for _ in range(_MOST_STEPS):
            new = _entries(_at(mu, number, constants), number, constants)
            settled = np.abs(new - mu) <= TOLERANCE * new
            mu = new
            if np.all(settled):
                break
        else:
            no_fixed_point = f"Expected (5) to have a fixed point, got mu={{mu:.6g}} after {_MOST_STEPS} steps."
            require(settled, no_fixed_point, NoRoot, mu=mu)
        found = _at(mu, number, constants)
    _check_smoothness(M, np.sqrt(rho * found["alpha"]))
    return found


def _plain(psi: Any, M: Any, rho: Any, U: Any) -> dict[str, Any]:
    """Return the quantities of (4) with all constants and logarithms 1."""
    curvature = np.sqrt(rho * psi)
    eta = curvature / M**2
    one = np.ones_like(np.asarray(curvature, dtype=float))[()]
    decrease = psi * np.sqrt(psi / rho)
    values = {"mu": one, "iota": one, "psi": psi, "chi": psi, "alpha": psi, "eta": eta, "T_esc": 1 / (eta * curvature)}
    return {**values, "S": np.sqrt(psi / rho), "F_esc": decrease, "N": U / decrease, "Q": one, "T": U / (eta * psi**2)}


# ---------------------------------------------------------------- Theorems 2 and 3
def _constants(d: Any, delta: Any, epsilon: Any, constants: str) -> tuple[float, float, float, Any, Any]:
    """Return alpha/psi, chi/psi, the factor 2 of the batch sizes, and the logarithms of sigma^2 and of r^2."""
    if constants == "one":
        return 1.0, 1.0, 1.0, 1.0, 1.0
    if constants == "paper":
        silent = (
            "Expected d={d:.6g} > 1: the data noise of Lemma 7 has the factor log(d), as printed, and so would be 0."
        )
        require(np.greater(d, 1), silent, d=d)
        return 16.0, 4.0, 2.0, np.log(d) ** 2, np.log(1 / np.asarray(delta, dtype=float))[()]
    # A release has twice the sensitivity of the paper's formulas, because an example is replaced, and the least noise.
    private = (2 * epsilon * _least_noise(epsilon, delta)) ** 2
    return 4.0, 1.0, 2.0, (1 + np.log(d) / math.log(2)) ** 2, private


def _coefficients(constant: Any, n: Any, d: Any, epsilon: Any, G: Any, M: Any, rho: Any, U: Any, m: Any) -> Any:
    """Return a, b, e, f of psi^2 = a sqrt(alpha)/kappa + b alpha/kappa^2 + kappa (e alpha^{-5/2} + f alpha^{-5}).

    This is (83), or (95) with clients.

    The batches are b_1 = n kappa/(k U eta) and b_2 = n eta chi^2/(k U), with chi = alpha chi_over/alpha_over.
    """
    alpha_over, chi_over, k, data, private = constant
    share = (chi_over / alpha_over) ** 2
    root = np.sqrt(rho)
    fresh_data = data * k * G**2 * U * root / (m * n * M**2)
    fresh_private = private * d * k**2 * G**2 * U**2 * rho / (m * (n * epsilon) ** 2 * M**4)
    difference_data = data * k * M**4 * U / (m * n * root * share)
    difference_private = private * d * k**2 * M**6 * U**2 / (m * (n * epsilon) ** 2 * rho * share**2)
    return fresh_data, fresh_private, difference_data, difference_private


def _balanced_kappa(square: Any, error: Any, fresh_data: Any, fresh_private: Any) -> Any:
    """Return the kappa at which fresh gradients contribute half of psi^2."""
    linear, quadratic = fresh_data * np.sqrt(error), fresh_private * error
    # 1/kappa is the positive root of quadratic x^2 + linear x = psi^2/2; written so that nothing cancels.
    return (linear + np.sqrt(linear**2 + 2 * quadratic * square)) / square


def _printed_kappa(n: Any, d: Any, epsilon: Any, G: Any, M: Any, rho: Any, U: Any, m: Any) -> Any:
    count, scale = m * n, np.sqrt(m) * n * epsilon
    return np.maximum(
        G**1.5 * np.sqrt(U * rho / count) / M**2.5,
        G ** (14 / 15) * d**0.4 * U**0.8 * rho ** (8 / 15) / (M ** (34 / 15) * scale**0.8),
    )


def _excess(error: Any, numbers: tuple[Any, ...], constant: Any, constants: str) -> Any:
    """Return the noise at this error divided by the noise that it allows; it decreases with the error and n."""
    fresh_data, fresh_private, difference_data, difference_private = _coefficients(constant, *numbers)
    square = (error / constant[0]) ** 2
    tail = difference_data * error**-2.5 + difference_private * error**-5.0
    if constants == "paper":
        kappa = _printed_kappa(*numbers)
        return (fresh_data * np.sqrt(error) / kappa + fresh_private * error / kappa**2 + kappa * tail) / square
    return 2 * _balanced_kappa(square, error, fresh_data, fresh_private) * tail / square


def _bisect(excess: Callable[[Any], Any], start: Any, what: str) -> Any:
    """Return the point at which a decreasing function crosses 1, by bisection in the logarithm around a start."""
    start = np.asarray(start, dtype=float)[()]
    low = high = np.log(start)
    up = down = start > 0
    for _ in range(60):
        up, down = excess(np.exp(high)) > 1, excess(np.exp(low)) < 1
        if not (np.any(up) or np.any(down)):
            break
        high, low = np.where(up, high + 4, high)[()], np.where(down, low - 4, low)[()]
    else:
        nowhere = f"Expected a root {what}, got none within 240 powers of e of {{start:.3g}}."
        require(~(up | down), nowhere, NoRoot, start=start)
    while np.any(high - low >= 4 * TOLERANCE * (1 + np.abs(high))):
        middle = (low + high) / 2
        above = excess(np.exp(middle)) > 1
        low, high = np.where(above, middle, low)[()], np.where(above, high, middle)[()]
    return np.exp((low + high) / 2)


def _scales(d: Any, G: Any, M: Any, rho: Any, U: Any) -> tuple[Any, Any, Any]:
    """Return the m n that sampling needs for alpha = 1, the sqrt(m) n epsilon of privacy, and (m n epsilon)^2 n."""
    privacy = np.sqrt(d) * U * (G**2 * M**8 / rho) ** (1 / 6)
    return G * U * M, privacy, G**2 * M**4 * U**3 * d / np.sqrt(rho)


def _closed_form(n: Any, d: Any, epsilon: Any, G: Any, M: Any, rho: Any, U: Any, m: Any) -> Any:
    """Return the largest monomial of the corrected Theorem 3 (claim thm3.constants)."""
    sampling, privacy, mixed = _scales(d, G, M, rho, U)
    by_sampling, by_privacy = (sampling / (m * n)) ** (1 / 3), (privacy / (np.sqrt(m) * n * epsilon)) ** (2 / 5)
    return reduce(np.maximum, (by_sampling, by_privacy, (mixed / ((m * n * epsilon) ** 2 * n)) ** (2 / 17)))


def _inverse_form(alpha: Any, d: Any, epsilon: Any, G: Any, M: Any, rho: Any, U: Any, m: Any) -> Any:
    """Return the n at which the closed form is alpha."""
    sampling, privacy, mixed = _scales(d, G, M, rho, U)
    by_sampling, by_privacy = sampling / (m * alpha**3), privacy / (np.sqrt(m) * epsilon * alpha**2.5)
    return reduce(np.maximum, (by_sampling, by_privacy, np.cbrt(mixed / ((m * epsilon) ** 2 * alpha**8.5))))


def largest_sensitivity(b_1: Any, b_2: Any, kappa: Any, G: Any, M: Any) -> Any:
    """Return the replace-one sensitivity of an estimate: a fresh gradient and all differences until the next one.

    The difference of a move has sensitivity at most `2 M |move| / b_2`, and the squared moves add up to at most kappa.
    Noise of a fixed multiple of every release's sensitivity is the same multiple of this total sensitivity.
    """
    return 2 * np.sqrt((G / b_1) ** 2 + M**2 * kappa / b_2**2)


def _described(error: Any, numbers: tuple[Any, ...], delta: Any, constant: Any, constants: str) -> dict[str, Any]:
    """Return all parameters at a given error; under "one" with the least noise of the accountant."""
    n, d, epsilon, G, M, rho, U, m = numbers
    alpha_over, chi_over, k, data, private = constant
    require_informative("alpha", error, "G", G, why="every point has that, there are too few examples for more")
    psi = error / alpha_over
    chi = chi_over * psi
    eta = np.sqrt(rho * error) / M**2
    fresh_data, fresh_private, _, _ = _coefficients(constant, *numbers)
    if constants == "paper":
        kappa = _printed_kappa(*numbers)
    elif constants == "one":
        kappa = np.maximum(fresh_data * np.sqrt(error) / psi**2, np.sqrt(fresh_private * error) / psi)
    else:
        kappa = _balanced_kappa(psi**2, error, fresh_data, fresh_private)
    b1, b2 = n * kappa / (k * U * eta), n * eta * chi**2 / (k * U)
    sigma = np.sqrt(data / m * (G**2 / b1 + M**2 * kappa / b2))
    sensitivity = largest_sensitivity(b1, b2, kappa, G, M)
    if constants == "one":
        r = _least_noise(epsilon, delta) * sensitivity / np.sqrt(m)
    else:
        r = np.sqrt(private / m * (G**2 / b1**2 + M**2 * kappa / b2**2)) / epsilon
    _check_smoothness(M, np.sqrt(rho * error))
    for name, batch in (("b_1", b1), ("b_2", b2)):
        too_few = f"Expected {name}={{batch:.4g}} >= 1: there are too few examples for a batch of one."
        require(batch >= 1, too_few, batch=batch)
    steps = U / (eta * chi**2)
    too_many = "Expected b_1={b_1:.4g} <= n={n:.6g}: a fresh gradient takes more examples than there are."
    require(b1 <= n, too_many, b_1=b1, n=n)
    require(steps >= 1, "Expected T={T:.4g} >= 1: the batches are for less than one step.", T=steps)
    # Each of the m clients adds its own noise, which is sqrt(m) times the noise of their mean.
    reached = gaussian_delta(epsilon, np.sqrt(m) * r / sensitivity)
    found = {"alpha": error, "eta": eta, "kappa": kappa, "b_1": b1, "b_2": b2, "T": steps, "R": U * eta / kappa}
    return {**found, "sigma": sigma, "r": r, "delta_reached": reached}


def _shared_rate(
    n: Any, d: Any, epsilon: Any, delta: Any, G: Any, M: Any, rho: Any, U: Any, m: Any, constants: str
) -> dict[str, Any]:
    numbers = _floats(n, d, epsilon, G, M, rho, U, m)
    constant = _constants(d, delta, epsilon, constants)
    error = constant[0] * _closed_form(*numbers)
    if constants != "one":
        error = _bisect(lambda e: _excess(e, numbers, constant, constants), error, "for alpha")
    return _described(error, numbers, delta, constant, constants)


def _shared_samples(
    alpha: Any, d: Any, epsilon: Any, delta: Any, G: Any, M: Any, rho: Any, U: Any, m: Any, constants: str
) -> dict[str, Any]:
    alpha, *rest = _floats(alpha, d, epsilon, G, M, rho, U, m)
    d, epsilon = rest[:2]
    constant = _constants(d, delta, epsilon, constants)
    count = _inverse_form(alpha / constant[0], *rest)
    if constants != "one":
        count = _bisect(lambda c: _excess(alpha, (c, *rest), constant, constants), count, "for n")
    found = _described(alpha, (count, *rest), delta, constant, constants)
    return {"n": count, **{name: value for name, value in found.items() if name != "alpha"}}


def _root(n: Any, d: Any, epsilon: Any, G: Any, M: Any, rho: Any, U: Any, m: Any, kappa: Any) -> dict[str, Any]:
    """Return the alpha that solves (83), or (95) with m clients, for chi = alpha, every constant 1 and the given kappa.

    >>> round(ROOT(n=1e12, d=100, epsilon=1.0, G=1.0, M=1.0, rho=1.0, U=1.0, m=1, kappa=1e-6)["alpha"], 6)
    0.000136
    """
    *numbers, kappa = _floats(n, d, epsilon, G, M, rho, U, m, kappa)
    fresh_data, fresh_private, difference_data, difference_private = _coefficients((1.0,) * 5, *numbers)

    def excess(error: Any) -> Any:
        fresh = fresh_data * np.sqrt(error) / kappa + fresh_private * error / kappa**2
        return (fresh + kappa * (difference_data * error**-2.5 + difference_private * error**-5.0)) / error**2

    error = _bisect(excess, _closed_form(*numbers), "of (83)")
    require_informative("alpha", error, "G", G)
    return {"alpha": error}


# ---------------------------------------------------------------- Theorem 4
def _check_examples(count: Any, d: Any, omega_s: Any, constants: str) -> None:
    """Check the condition of Theorem 4 on m n; the norm of a Hessian needs 2d where the paper has d (Lemma 14)."""
    needed = 4 / 9 * np.log((8 if constants == "paper" else 16) * d / omega_s)
    too_few = "Expected m n={count:.6g} >= {needed:.4g}: the condition of Theorem 4 on the number of examples."
    require(count >= needed, too_few, count=count, needed=needed)


def _selected(a: Any, count: Any, gradient: Any, curvature: Any) -> Any:
    """Return the error of the selected point, from the noise of the gradient and of the curvature that clients send."""
    sampling = 1 / np.sqrt(count)
    return np.maximum(a + sampling + gradient, (np.sqrt(a) + sampling + curvature) ** 2)


def _selection(a: Any, m: Any, n: Any, d: Any, epsilon: Any, omega_s: Any, constants: str) -> dict[str, Any]:
    a, m, n, d, epsilon = _floats(a, m, n, d, epsilon)
    count, scale = m * n, np.sqrt(m) * n * epsilon
    _check_examples(count, d, omega_s, constants)
    gradient = np.sqrt(d) / (scale * a**1.25)
    if constants == "paper":
        hessian = d / (scale * a**0.75) + d**2 / (scale**2 * a**2.5)
        out = a + 1 / count + 1 / np.sqrt(count) + a / np.sqrt(count) + gradient + hessian
    else:
        out = _selected(a, count, gradient, d / (scale * a**1.25))
    require_informative("alpha_out", out, "G", 1.0)
    return {"alpha_out": out, "loss": out / a, "d_gradient": scale**2, "d_hessian": scale ** (6 / 13)}


def _selection_by_products(
    a: Any, m: Any, n: Any, d: Any, epsilon: Any, omega_s: Any, constants: str
) -> dict[str, Any]:
    a, m, n, d, epsilon = _floats(a, m, n, d, epsilon)
    count, scale = m * n, np.sqrt(m) * n * epsilon
    _check_examples(count, d, omega_s, constants)
    gradient, products = np.sqrt(d) / (scale * a**1.25), a**-0.25
    out = _selected(a, count, gradient, np.sqrt(products) * gradient)
    whole = _selected(a, count, gradient, np.sqrt(d) * gradient)  # shown although it is vacuous
    require_informative("alpha_out", out, "G", 1.0)
    by_products = {"alpha_out": out, "loss": out / a, "K": products, "d_products": scale**2}
    return {**by_products, "alpha_out_hessian": whole, "loss_hessian": whole / a, "d_hessian": scale ** (6 / 13)}


_CONSTANTS, _ORDERS = ("corrected", "paper", "one"), ("one", "paper")
_HIDDEN = {"corrected": "the theorem's O hides C and s of (4), which nobody gives, and the logarithm mu of (5)"}
_REACHED = accuracies(Measure.SECOND_ORDER, alpha="error that is reached")
_PARAMETERS = {
    **evaluations(T="steps that the batches count with"),
    **parameters(
        eta="step size",
        kappa="threshold of the drift: as printed (paper), or balanced (corrected, one)",
        b_1="batch of a fresh gradient",
        b_2="batch of a gradient difference",
        R="fresh gradients that the batches count with",
        sigma="scale of the data noise",
        r="standard deviation of the Gaussian noise, each coordinate, at most; an order of magnitude",
        delta_reached="delta at epsilon of that noise, for data sets that differ in one example",
    ),
}
_RATE_OUTPUTS = {**_REACHED, **_PARAMETERS}
_SAMPLE_OUTPUTS = {**sample_sizes(n="examples (of each client) that the error needs"), **_PARAMETERS}

_FAILURE = "(3/4)^Q, the bound of the probability that all Q fail"
_ATTEMPTS = parameters(Q="attempts, as a real number", attempts="attempts, rounded up", failure=_FAILURE)
REPEATS = Calculator(_repeats, (s.omega0,), _ATTEMPTS, ("corrected", "paper"))
_ESCAPE = {
    **_REACHED,
    **evaluations(T="steps at most"),
    **parameters(
        mu="logarithmic factor, the fixed point of (5)",
        iota="s mu",
        psi="level of the noise",
        chi="bound of the error of a gradient",
        eta="step size",
        T_esc="steps of an attempt to escape",
        S="drift that counts as an escape",
        F_esc="decrease by an escape",
        N="saddles at most",
        Q="attempts at each",
    ),
}
_GIVEN = (s.C, s.s, s.sigma, s.r, s.d, s.M, s.rho, s.U, s.omega)
PARAMETERS = Calculator(_parameters, _GIVEN, _ESCAPE, _CONSTANTS)
_PROBLEM = (s.d, s.epsilon, s.delta, s.G, s.M, s.rho, s.U)
RATE = Calculator(partial(_shared_rate, m=1), (s.n, *_PROBLEM), _RATE_OUTPUTS, _ORDERS, _HIDDEN)
SHARED_RATE = Calculator(_shared_rate, (s.n, *_PROBLEM, s.m), _RATE_OUTPUTS, _ORDERS, _HIDDEN)
ROOT = Calculator(_root, (s.n, s.d, s.epsilon, s.G, s.M, s.rho, s.U, s.m, s.kappa), _REACHED)
SAMPLES = Calculator(partial(_shared_samples, m=1), (s.alpha, *_PROBLEM), _SAMPLE_OUTPUTS, _ORDERS, _HIDDEN)
SHARED_SAMPLES = Calculator(_shared_samples, (s.alpha, *_PROBLEM, s.m), _SAMPLE_OUTPUTS, _ORDERS, _HIDDEN)
# The calculator that `algorithms.theorem_2` takes its oracle from: the printed batch sizes with the accountant's noise.
# Theorem 1 gives the error of an escape at that noise.
_BALANCED = {**_RATE_OUTPUTS, **parameters(alpha="what the batches balance")}
PLAN, SHARED_PLAN = (replace(each, outputs=_BALANCED, constants=_CONSTANTS, missing={}) for each in (RATE, SHARED_RATE))
_CANDIDATES = (s.a, s.m, s.n, s.d, s.epsilon, s.omega_s)
_SELECTED = {
    **accuracies(Measure.SECOND_ORDER, alpha_out="error of the selected point, up to constants and logarithms"),
    **parameters(
        loss="the same over alpha",
        d_gradient="dimension up to which noisy gradients cost nothing",
        d_hessian="dimension up to which noisy Hessians cost nothing",
    ),
}
_HIDES = {"corrected": "the O of Theorem 4 hides its constants and logarithms"}
SELECTION = Calculator(_selection, _CANDIDATES, _SELECTED, _ORDERS, _HIDES)
_BY_PRODUCTS = {
    **accuracies(
        Measure.SECOND_ORDER, alpha_out="error of the point selected by products, up to constants and logarithms"
    ),
    **parameters(
        loss="the same over alpha",
        K="products of a Hessian with a vector for one candidate",
        d_products="dimension up to which noisy products, and gradients, cost nothing",
        alpha_out_hessian="error of the point selected by whole Hessians; vacuous from 1 on",
        loss_hessian="the same over alpha",
        d_hessian="dimension up to which noisy Hessians cost nothing",
    ),
}
_MISSING = {
    "paper": "the paper sends whole Hessians, drift_escape.selection",
    "corrected": "the number of candidates is that of Theorem 1, whose O hides its constants and logarithms",
}
SELECTION_BY_PRODUCTS = Calculator(_selection_by_products, _CANDIDATES, _BY_PRODUCTS, ("one",), _MISSING)
