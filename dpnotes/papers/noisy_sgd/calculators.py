"""Avdiukhin et al. (2024), arXiv:2410.06878: their formulas as functions of numbers.

Three sets of constants: `corrected` (the formulas that the claims confirm, with the factors of the proofs), `paper`
(as printed, units or not), `one` (the corrected formulas with every factor 1). The absolute constants that the paper
does not give (c, c_1, c_2, c_eta) are arguments.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpnotes.papers.noisy_sgd import notation as s
from dpnotes.theory.calculators import Calculator

SETS = ("corrected", "paper", "one")
TOLERANCE = 1e-12  # relative, of closed loops
_ROUNDS = 200


def _first(values: Any, wrong: Any) -> float:
    """The first entry of values at which something is wrong, for a message."""
    return float(np.broadcast_to(values, np.shape(wrong))[wrong].flat[0])


def _require(holds: Any, message: Callable[[Any], str]) -> None:
    wrong = ~np.asarray(holds)
    if wrong.any():
        raise ValueError(message(wrong))


def _require_batch(B: Any, n: Any) -> None:
    _require(
        np.less_equal(B, n),
        lambda wrong: f"Expected B={_first(B, wrong):g} <= n={_first(n, wrong):g}: a batch of data.",
    )


def _require_two(n: Any) -> None:
    _require(np.greater(n, 1), lambda wrong: "Expected n > 1: two data sets that differ in one of n examples.")


# ---------------------------------------------------------------- noise and gradients
def _privacy_noise(n: Any, T: Any, B: Any, epsilon: Any, delta: Any, C: Any, c_1: Any, c_2: Any) -> dict[str, Any]:
    _require_batch(B, n)
    largest = c_1 * T * (B / n) ** 2
    _require(
        np.less(epsilon, largest),
        lambda wrong: (
            f"Expected epsilon={_first(epsilon, wrong):g} < c_1 T B^2/n^2 = {_first(largest, wrong):g}: "
            "the condition of Theorem 3.1 fails."
        ),
    )
    noise = c_2 * C * np.sqrt(-T * np.log(delta)) / (n * epsilon)
    return {"Delta": noise, "noise_multiplier": noise * B / C, "largest_epsilon": largest}


def _spread(sigma: Any, n: Any) -> Any:
    """How far a sample's gradient may be from the mean gradient under Assumption B."""
    return sigma * np.sqrt(np.log1p((np.e - 1) * n))


def _gradient_terms(
    n: Any, T: Any, delta: Any, L: Any, f_max: Any, sigma: Any, c: Any, c_eta: Any, constants: str
) -> tuple[Any, Any]:
    """The gradient bound is the first plus alpha times the second."""
    if constants == "deterministic":  # in place of C, by the sensitivity of a batch under Assumption B
        return _spread(sigma, n) * n / (n - 1), 0.0
    if constants == "paper":
        logs = L * np.sqrt(np.log(T / delta)) + sigma * np.sqrt(np.log(n * T)) + np.sqrt(-sigma * np.log(delta))
        return 2 * np.sqrt(L * f_max) + c * logs, 0.0
    tail = np.sqrt(np.log(T / delta))
    if constants == "one":
        return np.sqrt(L * f_max) + _spread(sigma, n), tail
    return np.sqrt(2 * L * f_max * (1 + 64 * c * c_eta)) + _spread(sigma, n), np.sqrt(2 * c * c_eta) * tail


def _gradient_bound(
    n: Any, T: Any, delta: Any, L: Any, f_max: Any, sigma: Any, alpha: Any, c: Any, c_eta: Any, constants: str
) -> dict[str, Any]:
    first, second = _gradient_terms(n, T, delta, L, f_max, sigma, c, c_eta, constants)
    return {"C": first + alpha * second}


def _sensitivity(n: Any, B: Any, sigma: Any) -> dict[str, Any]:
    _require_batch(B, n)
    _require_two(n)
    one = _spread(sigma, n)
    return {"sample": one, "difference": 2 * one * n / (n - 1), "batch": 2 * one * n / ((n - 1) * B)}


def _total_delta(epsilon: Any, delta: Any, failure: Any, constants: str) -> dict[str, Any]:
    """At most 1, which every algorithm has: beyond, the argument says nothing."""
    if constants == "paper":
        return _transcript_delta(delta, failure)
    # Past 1/failure the exponential does not matter any more: it is cut where it may still be computed.
    both = 1 + np.exp(np.minimum(epsilon, 700.0)) if constants == "corrected" else 1.0
    return _transcript_delta(delta, both * failure)


def _transcript_delta(delta: Any, failure: Any) -> dict[str, Any]:
    return {"delta": np.minimum(delta + failure, 1.0)}


# ---------------------------------------------------------------- the closed loop of Theorem 3.5
def _settle(step: Callable[[Any], Any], start: Any) -> Any:
    """The fixed point of a contraction of logarithms, to `TOLERANCE`."""
    here = start
    for _ in range(_ROUNDS):
        there = step(here)
        if np.all(np.abs(there - here) <= TOLERANCE):
            return there
        here = there
    raise ValueError(f"Expected the loop of alpha, T and C to have a root, none within {_ROUNDS} rounds.")


def _factors(constants: str) -> tuple[float, float]:
    """Of T, and what is added to the dimension: s~^2 <= (d + 1) Delta^2."""
    return (1.0, 0.0) if constants == "one" else (64.0, 1.0)


def _noise_floor(
    n: Any, B: Any, epsilon: Any, delta: Any, L: Any, f_max: Any, sigma: Any, alpha: Any, C: Any, dim: Any,
    c_1: Any, c_2: Any, c_eta: Any, constants: str,
) -> Any:  # fmt: skip
    """The least Delta: at least sigma/sqrt(B), within the window of epsilon, and with a step size of at most 1/L."""
    window = c_2 * C / B * np.sqrt(-np.log(delta) / (c_1 * epsilon))
    floor = np.maximum(np.maximum(sigma / np.sqrt(B), window), alpha * np.sqrt(c_eta / dim))
    if constants == "paper":  # eta <= 1/(sigma sqrt(T))
        floor = np.maximum(floor, 8 * sigma * np.sqrt(f_max / (L * dim)))
    return floor


def _loop(
    n: Any, d: Any, B: Any, epsilon: Any, delta: Any, L: Any, f_max: Any, sigma: Any, rho: Any,
    c: Any, c_1: Any, c_2: Any, c_eta: Any, constants: str,
) -> dict[str, Any]:  # fmt: skip
    _require_batch(B, n)
    scale, more = _factors(constants)
    dim = np.asarray(d, dtype=float) + more
    size = np.asarray(n, dtype=float)
    # Delta cancels: alpha^2 = reach * C.
    reach = c_2 * np.sqrt(scale / c_eta * L * f_max * dim * -np.log(delta)) / (size * epsilon)
    found: dict[str, Any] = {}

    def step(log_steps: Any) -> Any:
        first, second = _gradient_terms(size, np.exp(log_steps), delta, L, f_max, sigma, c, c_eta, constants)
        alpha = (reach * second + np.sqrt((reach * second) ** 2 + 4 * reach * first)) / 2
        bound = first + alpha * second
        noise = _noise_floor(size, B, epsilon, delta, L, f_max, sigma, alpha, bound, dim, c_1, c_2, c_eta, constants)
        steps = scale * L * f_max * dim * noise**2 / (c_eta * alpha**4)
        found.update(alpha=alpha, Delta=noise, C=bound, T=steps, eta=c_eta * alpha**2 / (L * dim * noise**2))
        return np.log(steps)

    _settle(step, np.zeros(np.broadcast(size, dim, epsilon, L, f_max, sigma, B, delta).shape) + 5.0)
    _require_alpha(found["alpha"], found["T"], delta, L, f_max, rho, constants)
    return {name: found[name] for name in ("alpha", "eta", "T", "Delta", "C")}


def _deterministic_loop(
    n: Any, d: Any, B: Any, epsilon: Any, delta: Any, L: Any, f_max: Any, sigma: Any, rho: Any,
    c_1: Any, c_2: Any, c_eta: Any,
) -> dict[str, Any]:  # fmt: skip
    _require_two(n)
    return _loop(n, d, B, epsilon, delta, L, f_max, sigma, rho, 1.0, c_1, c_2, c_eta, "deterministic")


def _require_alpha(alpha: Any, T: Any, delta: Any, L: Any, f_max: Any, rho: Any, constants: str) -> None:
    largest = np.sqrt(2 * L * f_max) if constants == "paper" else np.sqrt(L * f_max / np.log(T / delta))
    reason = (
        "beyond, x_0 itself has so small a gradient"
        if constants == "paper"
        else "beyond, the step size has another form"
    )
    _require(
        np.less_equal(alpha, largest),
        lambda wrong: f"Expected alpha={_first(alpha, wrong):.4g} <= {_first(largest, wrong):.4g}: {reason}.",
    )
    flat = L**2 / rho
    _require(
        np.less_equal(alpha, flat),
        lambda wrong: (
            f"Expected alpha={_first(alpha, wrong):.4g} <= L^2/rho = {_first(flat, wrong):.4g}: "
            "beyond, no eigenvalue is below -sqrt(rho alpha)."
        ),
    )


def _sample_size(
    alpha: Any, d: Any, B: Any, epsilon: Any, delta: Any, L: Any, f_max: Any, sigma: Any, rho: Any,
    c: Any, c_1: Any, c_2: Any, c_eta: Any, constants: str,
) -> dict[str, Any]:  # fmt: skip
    scale, more = _factors(constants)
    dim = np.asarray(d, dtype=float) + more
    reach = c_2 * np.sqrt(scale / c_eta * L * f_max * dim * -np.log(delta)) / (epsilon * np.asarray(alpha) ** 2)
    found: dict[str, Any] = {}

    def step(logs: Any) -> Any:
        size, steps = np.exp(logs)
        first, second = _gradient_terms(size, steps, delta, L, f_max, sigma, c, c_eta, constants)
        bound = first + alpha * second
        noise = _noise_floor(size, B, epsilon, delta, L, f_max, sigma, alpha, bound, dim, c_1, c_2, c_eta, constants)
        found.update(n=reach * bound, C=bound, Delta=noise, T=scale * L * f_max * dim * noise**2 / (c_eta * alpha**4))
        return np.log(np.stack(np.broadcast_arrays(found["n"], found["T"])))

    shape = np.broadcast(alpha, dim, epsilon, L, f_max, sigma, B, delta).shape
    _settle(step, np.zeros((2, *shape)) + 5.0)
    _require_batch(B, found["n"])
    _require_alpha(alpha, found["T"], delta, L, f_max, rho, constants)
    return {name: found[name] for name in ("n", "T", "Delta", "C")}


# ---------------------------------------------------------------- selection, Section 3.4
def _selection(d: Any, epsilon: Any, L: Any, rho: Any, f_max: Any, constants: str) -> dict[str, Any]:
    d = np.asarray(d, dtype=float)
    if constants == "paper":
        size = 1 / (epsilon * f_max**2 * np.sqrt(d))
        return {"n": size, "gradient": size, "eigenvalue": size}
    # C/(n epsilon) <= alpha/2 and L/(n epsilon) <= sqrt(rho alpha)/2 at alpha^2 = C sqrt(L f_max d)/(n epsilon).
    half, double = (1.0, 1.0) if constants == "one" else (2.0, 2.0)  # C = 2 sqrt(L f_max)
    gradient = half**2 * double / np.sqrt(d) / epsilon
    curvature = (half * L) ** 4 / (rho**2 * double * L * f_max * np.sqrt(d))
    eigenvalue = np.cbrt(curvature) / epsilon
    return {"n": np.maximum(gradient, eigenvalue), "gradient": gradient, "eigenvalue": eigenvalue}


_FREE = (s.c, s.c_1, s.c_2, s.c_eta)
failure = s.SYMBOLS.symbol("failure", "probability that some gradient exceeds C", domain=s.UNIT_INTERVAL)
PRIVACY_NOISE = Calculator(
    _privacy_noise,
    (s.n, s.T, s.B, s.epsilon, s.delta, s.C, s.c_1, s.c_2),
    {
        "Delta": "noise of a coordinate of the mean gradient",
        "noise_multiplier": "Delta B/C",
        "largest_epsilon": "c_1 T B^2/n^2",
    },
)
GRADIENT_BOUND = Calculator(
    _gradient_bound,
    (s.n, s.T, s.delta, s.L, s.f_max, s.sigma, s.alpha, s.c, s.c_eta),
    {"C": "bound of the gradients' norms"},
    SETS,
)
SENSITIVITY = Calculator(
    _sensitivity,
    (s.n, s.B, s.sigma),
    {
        "sample": "how far a sample's gradient is from the mean gradient",
        "difference": "how far gradients of exchanged samples are apart",
        "batch": "sensitivity of the mean gradient of a batch of fixed size, one example replaced",
    },
)
TOTAL_DELTA = Calculator(
    _total_delta,
    (s.epsilon, s.delta, failure),
    {"delta": "delta of the whole; 1 where the argument says nothing"},
    SETS,
)
TRANSCRIPT_DELTA = Calculator(
    _transcript_delta, (s.delta, failure), {"delta": "delta of the whole; 1 where the argument says nothing"}
)
_LOOP_OUTPUTS = {
    "alpha": "gradient norm",
    "eta": "step size",
    "T": "number of iterations, to be rounded up",
    "Delta": "noise of a coordinate of the mean gradient",
    "C": "bound of the gradients' norms",
}
CLOSED_LOOP = Calculator(
    _loop, (s.n, s.d, s.B, s.epsilon, s.delta, s.L, s.f_max, s.sigma, s.rho, *_FREE), _LOOP_OUTPUTS, SETS
)
DETERMINISTIC_LOOP = Calculator(
    _deterministic_loop,
    (s.n, s.d, s.B, s.epsilon, s.delta, s.L, s.f_max, s.sigma, s.rho, s.c_1, s.c_2, s.c_eta),
    {**_LOOP_OUTPUTS, "C": "half of how far gradients of exchanged samples are apart"},
)
SAMPLE_SIZE = Calculator(
    _sample_size,
    (s.alpha, s.d, s.B, s.epsilon, s.delta, s.L, s.f_max, s.sigma, s.rho, *_FREE),
    {"n": "number of examples", **{k: v for k, v in _LOOP_OUTPUTS.items() if k in ("T", "Delta", "C")}},
    SETS,
)
SELECTION = Calculator(
    _selection,
    (s.d, s.epsilon, s.L, s.rho, s.f_max),
    {
        "n": "number of examples that selection needs",
        "gradient": "for the gradient norm",
        "eigenvalue": "for the smallest eigenvalue",
    },
    SETS,
)
