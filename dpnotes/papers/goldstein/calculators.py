"""Sample sizes, accuracies and parameters of Kornowski, Liu and Talwar (2025) as functions of plain numbers.

The paper states orders of magnitude: every constant is 1 here. `constants="corrected"`, the default, has the errata
mended and sqrt(ln(1/delta)) beside epsilon, `"paper"` the printed formulas without their hidden logarithms, `"one"` the
errata mended and no logarithms.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpnotes.papers.goldstein.notation import (
    G0,
    G1,
    D,
    L,
    M,
    Phi,
    R,
    T,
    alpha,
    beta,
    d,
    delta,
    epsilon,
    n,
    sensitivity,
    spread,
    whole_period,
)
from dpnotes.theory.calculators import Calculator

_TOLERANCE = 1e-12  # of a bisection, relative


# ---------------------------------------------------------------- the domain of a theorem
def _require(holds: Any, name: str, value: Any, condition: str) -> None:
    """Refuse numbers outside the domain of a theorem, naming the first that is."""
    inside = np.asarray(holds)
    if not inside.all():
        bad = np.broadcast_to(np.asarray(value, dtype=float), inside.shape)[~inside].flat[0]
        raise ValueError(f"Expected {name}={bad:g} {condition}.")


def _domain(alpha: Any, beta: Any, Phi: Any, L: Any) -> None:
    limit = Phi / L
    # The division rounds: alpha = Phi/L itself must pass.
    _require(alpha <= limit * (1 + 1e-12), "alpha", alpha, "<= Phi/L: the theorems assume it")
    _at_most_lipschitz(beta, L)


def _at_most_lipschitz(beta: Any, L: Any) -> None:
    _require(beta <= L, "beta", beta, "<= L: every point is L-stationary")


def _far(d: Any, alpha: Any, R: Any) -> None:
    _require(R * np.sqrt(d) >= alpha * (1 - 1e-12), "R", R, ">= alpha/sqrt(d): nearer points are stationary already")


def _floats(*values: Any) -> tuple[Any, ...]:
    # Plain floats stay plain: numpy scalars cost three times as much.
    return tuple(float(v) if isinstance(v, int | float) else np.asarray(v, dtype=float) for v in values)


# ---------------------------------------------------------------- sample sizes: sums of coefficient * beta**-power
_Terms = list[tuple[Any, float]]


def _prior(d: Any, alpha: Any, epsilon: Any, Phi: Any, L: Any) -> _Terms:
    return [(Phi * L**2 * d / alpha, 3.0), (Phi * L * d**1.5 / (epsilon * alpha), 2.0)]


def _single(d: Any, alpha: Any, epsilon: Any, Phi: Any, L: Any) -> _Terms:
    return [(Phi * L**2 * d**0.5 / alpha, 3.0), (Phi * L * d / (epsilon * alpha), 2.0)]


def _multi(d: Any, alpha: Any, epsilon: Any, Phi: Any, L: Any) -> _Terms:
    return [((Phi / alpha) ** 0.5 * L * d**0.75 / epsilon, 1.5)]


def _generalisation(d: Any, alpha: Any, epsilon: Any, Phi: Any, L: Any) -> _Terms:
    return [(L**2 * d, 2.0)]


def _plain_single(d: Any, alpha: Any, epsilon: Any, Phi: Any, L: Any) -> _Terms:
    return [(Phi * L**2 / alpha * (1 + d**0.5 / epsilon), 3.0)]


def _plain_multi(d: Any, alpha: Any, epsilon: Any, Phi: Any, L: Any) -> _Terms:
    return [((Phi / alpha) ** 0.5 * L * d**0.5 / epsilon, 1.5)]


_METHODS: dict[str, tuple[tuple[Callable[..., _Terms], ...], str]] = {
    "prior": ((_prior,), "eq. (1), Zhang et al. (2024)"),
    "single_pass": ((_single,), "Theorems 3.1 and 6.1"),
    "multi_pass_empirical": ((_multi,), "Theorem 4.1, for the empirical objective"),
    "multi_pass": ((_multi, _generalisation), "Theorem 4.1 and Remark 4.2"),
    "plain_single_pass": ((_plain_single,), "one pass without variance reduction, own result"),
    "plain_multi_pass_empirical": ((_plain_multi,), "many passes without variance reduction, own result"),
    "plain_multi_pass": ((_plain_multi, _generalisation), "the same, for the population"),
}


def _terms(name: str, *problem: Any) -> _Terms:
    return [term for part in _METHODS[name][0] for term in part(*problem)]


def _size(name: str, d: Any, alpha: Any, beta: Any, epsilon: Any, Phi: Any, L: Any) -> Any:
    return sum(term * beta**-power for term, power in _terms(name, d, alpha, epsilon, Phi, L))


def _effective(epsilon: Any, delta: Any, constants: str) -> Any:
    """Privacy enters every rate as epsilon/sqrt(ln(1/delta)); the paper hides the root."""
    return epsilon / np.sqrt(-np.log(delta)) if constants == "corrected" else epsilon


def _smoothing_size(d: Any, alpha: Any, beta: Any, epsilon: Any, L: Any, R: Any, constants: str) -> Any:
    power = 4 / 3 if constants == "paper" else 1.0
    return R ** (1 / 3) * L**power * d ** (2 / 3) / (epsilon * alpha ** (1 / 3) * beta)


def _sizes(
    d: Any, alpha: Any, beta: Any, epsilon: Any, delta: Any, Phi: Any, L: Any, R: Any, constants: str
) -> dict[str, Any]:
    d, alpha, beta, epsilon, delta, Phi, L, R = _floats(d, alpha, beta, epsilon, delta, Phi, L, R)
    _domain(alpha, beta, Phi, L)
    _far(d, alpha, R)
    epsilon = _effective(epsilon, delta, constants)
    found = {name: _size(name, d, alpha, beta, epsilon, Phi, L) for name in _METHODS}
    return {**found, "lasry_lions": _smoothing_size(d, alpha, beta, epsilon, L, R, constants)}


def _one_size(name: str) -> Callable[..., dict[str, Any]]:
    def size(
        d: Any, alpha: Any, beta: Any, epsilon: Any, delta: Any, Phi: Any, L: Any, constants: str
    ) -> dict[str, Any]:
        d, alpha, beta, epsilon, delta, Phi, L = _floats(d, alpha, beta, epsilon, delta, Phi, L)
        _domain(alpha, beta, Phi, L)
        return {"n": _size(name, d, alpha, beta, _effective(epsilon, delta, constants), Phi, L)}

    return size


def _lasry_lions(
    d: Any, alpha: Any, beta: Any, epsilon: Any, delta: Any, L: Any, R: Any, constants: str
) -> dict[str, Any]:
    d, alpha, beta, epsilon, delta, L, R = _floats(d, alpha, beta, epsilon, delta, L, R)
    _at_most_lipschitz(beta, L)
    _far(d, alpha, R)
    size = _smoothing_size(d, alpha, beta, _effective(epsilon, delta, constants), L, R, constants)
    return {"n": size, "lambda": alpha / (3 * L)}


# ---------------------------------------------------------------- accuracy for a sample size
def _accuracies(
    n: Any, d: Any, alpha: Any, epsilon: Any, delta: Any, Phi: Any, L: Any, constants: str
) -> dict[str, Any]:
    n, d, alpha, epsilon, delta, Phi, L = _floats(n, d, alpha, epsilon, delta, Phi, L)
    _domain(alpha, L, Phi, L)
    epsilon = _effective(epsilon, delta, constants)
    return {name: _accuracy(_terms(name, d, alpha, epsilon, Phi, L), n, L, name) for name in _METHODS}


def _accuracy(terms: _Terms, n: Any, L: Any, name: str) -> Any:
    """The beta at which the sum of terms is n, by bisection in the logarithm."""
    least = sum(term * L**-power for term, power in terms)
    _require(n >= least, "n", n, f"large enough for beta <= L in {name}: below it the theorem says nothing")
    alone = [(term / n) ** (1 / power) for term, power in terms]
    if len(terms) == 1:
        return np.minimum(alone[0], L)[()]
    low = np.log(np.maximum(*alone))
    # Each of two terms is at most n; at 2^(1/1.5) times the larger root each is at most n/2.
    high = low + math.log(2) / min(power for _, power in terms)
    for _ in range(math.ceil(math.log2(math.log(2) / _TOLERANCE))):
        middle = (low + high) / 2
        above = sum(term * np.exp(-power * middle) for term, power in terms) > n
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.minimum(np.exp((low + high) / 2), L)[()]


# ---------------------------------------------------------------- parameters
def _single_parameters(d: Any, alpha: Any, beta: Any, epsilon: Any, Phi: Any, L: Any, constants: str) -> dict[str, Any]:
    d, alpha, beta, epsilon, Phi, L = _floats(d, alpha, beta, epsilon, Phi, L)
    _domain(alpha, beta, Phi, L)
    root = np.sqrt(d)
    if constants == "paper":
        steps = _size("single_pass", d, alpha, beta, epsilon, Phi, L)
        pieces = (
            (Phi**2 * alpha / (L**2 * steps**2)) ** (1 / 3),
            (Phi * alpha * epsilon / (d * L * steps)) ** 0.5,
            (Phi**3 * alpha**2 * epsilon / (d**1.5 * L**3 * steps**3)) ** 0.2,
            (Phi**2 * alpha / (L**2 * steps**2 * root)) ** (1 / 3),
        )
        move = np.minimum(np.minimum(pieces[0], pieces[1]), np.minimum(pieces[2], pieces[3]))
        period = (alpha / (epsilon * move)) ** (2 / 3) + alpha / (move * root)
        directions = d**2 * period**2 + d * alpha**2 / move**2
        block = alpha / (4 * move)
    else:
        move = np.minimum(alpha * beta**2 / (L**2 * root), alpha * epsilon * beta / (L * d))
        steps = Phi / (move * beta)
        period = alpha / (move * root)
        directions = d + 0 * move
        block = alpha / move
    noise = L / (period * epsilon) + L * move * root / (alpha * epsilon)
    first_order = alpha**2 / (move**2 * d) if constants == "paper" else 1.0 + 0 * move
    return {
        "n": 2 * steps,
        "T": steps,
        "D": move,
        "Sigma": period,
        "B1": period,
        "B2": 1.0 + 0 * move,
        "M": block,
        "sigma": noise,
        "m": directions,
        "m_first_order": first_order,
    }


def _multi_parameters(
    d: Any, alpha: Any, beta: Any, epsilon: Any, delta: Any, Phi: Any, L: Any, constants: str
) -> dict[str, Any]:
    d, alpha, beta, epsilon, delta, Phi, L = _floats(d, alpha, beta, epsilon, delta, Phi, L)
    _domain(alpha, beta, Phi, L)
    root, logarithm = np.sqrt(d), -np.log(delta)
    size = _size("multi_pass_empirical", d, alpha, beta, epsilon, Phi, L) * np.sqrt(logarithm)
    if constants == "paper":
        move, steps = alpha**2 * beta**2 / L**2, Phi * L**2 / (alpha**2 * beta**3)
        _require(alpha >= move * root, "beta", beta, "small enough for Sigma = L^2/(alpha beta^2 sqrt(d)) >= 1")
    else:
        move = np.minimum(alpha * beta**2 / L**2, alpha / root)
        steps = Phi / (move * beta)
    period = alpha / (move * root)
    first = L * np.sqrt(steps * logarithm / period) / (size * epsilon)
    second = L * move * np.sqrt(steps * d * logarithm) / (alpha * size * epsilon)
    printed = L**2 * d * period / (size * first**2) + L**2 * d / (size * second**2)
    at_reset, at_increment = d**2 * size**2, d * size**2 * (alpha / move) ** 2
    return {
        "n": size,
        "T": steps,
        "D": move,
        "Sigma": period,
        "M": alpha / move,
        "sigma1": first,
        "sigma2": second,
        "m": printed if constants == "paper" else np.maximum(np.maximum(printed, at_reset), at_increment),
        "m_accuracy": printed,
        "m_reset": at_reset,
        "m_increment": at_increment,
    }


def _tree_noise(Sigma: Any, S: Any, epsilon: Any, delta: Any, constants: str) -> dict[str, Any]:
    Sigma, S, epsilon, delta = _floats(Sigma, S, epsilon, delta)
    logarithm = -np.log(delta)
    # frexp is exact, the logarithm is not: Sigma = mantissa * 2^exponent with a mantissa in [1/2, 1).
    num_levels = np.frexp(Sigma)[1]
    if constants == "paper":
        _require(np.asarray(Sigma) >= 2, "Sigma", Sigma, ">= 2: the printed noise for one step is 0")
        return {"sigma": 4 * S * np.sqrt(np.log(Sigma) * logarithm) / epsilon, "levels": num_levels}
    noise = S * np.sqrt(num_levels / 2) * (np.sqrt(logarithm + epsilon) + np.sqrt(logarithm)) / epsilon
    return {"sigma": noise, "levels": num_levels}


def _conversion(
    Phi: Any, alpha: Any, D: Any, T: Any, M: Any, G0: Any, G1: Any, s: Any, constants: str
) -> dict[str, Any]:
    Phi, alpha, D, T, M, G0, G1, s = _floats(Phi, alpha, D, T, M, G0, G1, s)
    _require(M * D <= alpha * (1 + 1e-12), "M", M, "<= alpha/D: a block must stay within alpha")
    first, second = (1.5, 1.0) if constants == "paper" else (2.5, 2.0)
    gap = Phi / (D * T)
    return {
        "bound": gap + first * G1 / np.sqrt(M) + second * G0,
        "unbiased_bound": gap + (2.5 * G1 + s) / np.sqrt(M),
        "eta": D / (G1 * np.sqrt(M)),
    }


def _crossovers(d: Any, alpha: Any, beta: Any, epsilon: Any, Phi: Any, L: Any, R: Any) -> dict[str, Any]:
    d, alpha, beta, epsilon, Phi, L, R = _floats(d, alpha, beta, epsilon, Phi, L, R)
    _domain(alpha, beta, Phi, L)
    return {
        "epsilon_privacy_free": np.sqrt(d) * beta / L,
        "epsilon_generalisation": Phi / (L * alpha),
        "d_generalisation": (Phi / (alpha * beta)) ** 2,
        "beta_plain_single_pass": L / np.sqrt(d),
        "d_plain_single_pass": (Phi / (epsilon * alpha * beta)) ** 2,
        "d_lasry_lions": Phi**3 / (alpha * beta**3 * R**2),
    }


# ---------------------------------------------------------------- plain oracles with every constant
def _gaussian_ratio(epsilon: Any, delta: Any) -> Any:
    """The largest mean, in standard deviations, at which a Gaussian is (epsilon, delta)-DP, by bisection."""
    from scipy.special import log_ndtr, ndtr  # scipy costs a fifth of a second, and few callers need it

    low = np.sqrt(2.0) * (np.sqrt(epsilon - np.log(delta)) - np.sqrt(-np.log(delta)))  # what zCDP allows
    high = 10 * (low + 1) + np.sqrt(2 * epsilon)
    for _ in range(40):
        middle = (low + high) / 2
        needed = ndtr(middle / 2 - epsilon / middle) - np.exp(epsilon + log_ndtr(-middle / 2 - epsilon / middle))
        safe = needed <= delta
        low, high = np.where(safe, middle, low), np.where(safe, high, middle)
    return low  # the private side of the root


def _explicit(
    d: Any, alpha: Any, beta: Any, epsilon: Any, delta: Any, Phi: Any, L: Any, constants: str
) -> dict[str, Any]:
    d, alpha, beta, epsilon, delta, Phi, L = _floats(d, alpha, beta, epsilon, delta, Phi, L)
    _domain(alpha, beta, Phi, L)
    _require(epsilon <= 500, "epsilon", epsilon, "<= 500: exp(epsilon) must be a number")
    regret = 2.5 if constants == "corrected" else 2.0
    gap = Phi + L * alpha * d / (d + 1)
    ratio = _gaussian_ratio(epsilon, delta)
    noise = 4 * d / ratio**2  # d sigma^2 B^2/L^2, for the sensitivity 2L/B

    def cost(logarithm: Any) -> Any:
        batch = np.exp(logarithm)
        scaled = noise / batch**2
        return batch * (regret * np.sqrt(1 + scaled) + np.sqrt(1 / batch + scaled)) ** 2

    low, high = 0 * noise, np.log(1 + 10 * np.sqrt(noise))
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(30):
        left, right = high - golden * (high - low), low + golden * (high - low)
        better = cost(left) <= cost(right)
        low, high = np.where(better, low, left), np.where(better, right, high)
    batch = np.exp((low + high) / 2)
    factor = 27 * gap * L**2 / (4 * alpha * beta**3)
    single = factor * cost((low + high) / 2)
    # Many passes at d sigma^2 = L^2, where less noise would save steps and more would save samples.
    steps = factor * (regret * math.sqrt(2) + 1 + 0 * noise) ** 2
    many = 2 * np.sqrt(d * steps) / ratio
    steps = steps * (1 + 1 / many)  # sampling of the points in the balls: (a + sqrt(1 + 1/n))^2 <= (a + 1)^2 (1 + 1/n)
    return {
        "n_single_pass": single,
        "B": batch,
        "T_single_pass": single / batch,
        "n_multi_pass": many * np.sqrt(1 + 1 / many),
        "T_multi_pass": steps,
        "ratio": ratio,
    }


# ---------------------------------------------------------------- as calculators
_SETS = ("corrected", "paper", "one")
_PROBLEM = (d, alpha, beta, epsilon, delta, Phi, L)
_SAMPLES = {name: f"sample size: {what}" for name, (_, what) in _METHODS.items()}
_PARAMETERS = {
    "n": "sample size",
    "T": "steps",
    "D": "largest move per step",
    "Sigma": "steps between two resets",
    "M": "steps in a block",
    "m": "directions per sample and point",
}
SIZES = Calculator(
    _sizes, (*_PROBLEM, R), {**_SAMPLES, "lasry_lions": "sample size: Theorem B.5, component-wise, empirical"}, _SETS
)
SINGLE_PASS = Calculator(_one_size("single_pass"), _PROBLEM, {"n": "sample size"}, _SETS)
MULTI_PASS = Calculator(_one_size("multi_pass_empirical"), _PROBLEM, {"n": "sample size"}, _SETS)
PLAIN_SINGLE_PASS = Calculator(_one_size("plain_single_pass"), _PROBLEM, {"n": "sample size"}, _SETS)
PLAIN_MULTI_PASS = Calculator(_one_size("plain_multi_pass_empirical"), _PROBLEM, {"n": "sample size"}, _SETS)
LASRY_LIONS = Calculator(
    _lasry_lions,
    (d, alpha, beta, epsilon, delta, L, R),
    {"n": "sample size", "lambda": "smoothing parameter"},
    _SETS,
)
ACCURACY = Calculator(
    _accuracies,
    (n, d, alpha, epsilon, delta, Phi, L),
    {name: f"beta: {what}" for name, (_, what) in _METHODS.items()},
    _SETS,
)
SINGLE_PASS_PARAMETERS = Calculator(
    _single_parameters,
    (d, alpha, beta, epsilon, Phi, L),
    {
        **_PARAMETERS,
        "B1": "minibatch at a reset",
        "B2": "minibatch at an increment",
        "sigma": "noise per coordinate",
        "m_first_order": "directions with gradients",
    },
    ("corrected", "paper"),
)
MULTI_PASS_PARAMETERS = Calculator(
    _multi_parameters,
    _PROBLEM,
    {
        **_PARAMETERS,
        "sigma1": "noise at a reset",
        "sigma2": "noise at an increment",
        "m_accuracy": "directions that accuracy asks for, as printed",
        "m_reset": "directions that a reset's sensitivity asks for",
        "m_increment": "directions that an increment's sensitivity asks for",
    },
    ("corrected", "paper"),
)
TREE_NOISE = Calculator(
    _tree_noise,
    (whole_period, sensitivity, epsilon, delta),
    {"sigma": "noise per node and coordinate", "levels": "nodes that hold a query"},
    ("corrected", "paper"),
)
CONVERSION = Calculator(
    _conversion,
    (Phi, alpha, D, T, M, G0, G1, spread),
    {
        "bound": "Proposition 2.6",
        "unbiased_bound": "for a conditionally unbiased oracle, own result",
        "eta": "step size of the online learner",
    },
    ("corrected", "paper"),
)
CROSSOVERS = Calculator(
    _crossovers,
    (d, alpha, beta, epsilon, Phi, L, R),
    {
        "epsilon_privacy_free": "privacy is free in one pass from here on",
        "epsilon_generalisation": "one pass pays less for privacy than many for generalisation from here on",
        "d_generalisation": "one pass pays less for sampling than many for generalisation from here on",
        "beta_plain_single_pass": "one plain pass pays less for privacy than Theorem 3.1 from here on",
        "d_plain_single_pass": "one plain pass pays less for privacy than many for generalisation from here on",
        "d_lasry_lions": "many plain passes pay less than Theorem B.5 from here on",
    },
)
EXPLICIT = Calculator(
    _explicit,
    _PROBLEM,
    {
        "n_single_pass": "samples with which one plain pass is proved to reach beta at radius 2 alpha, unrounded",
        "B": "its minibatch",
        "T_single_pass": "its steps",
        "n_multi_pass": "samples with which many plain passes are proved to, for the empirical objective",
        "T_multi_pass": "their steps",
        "ratio": "sensitivity over noise that (epsilon, delta) allows one Gaussian",
    },
    ("corrected", "best"),
)
