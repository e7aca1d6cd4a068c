"""Formulas of Avdiukhin et al. (2024), arXiv:2410.06878, as functions of numbers.

There are four sets of constants. `corrected`: the formulas that the claims confirm, with the factors of the proofs and
the exact accountant's noise. `given`: the same formulas with the noise of Theorem 3.1 and the caller's c_1 and c_2.
`paper`: as printed, even where the units are inconsistent. `one`: the largest monomial of the corrected formulas, every
factor and logarithm 1, with the accountant's noise. The absolute constants that the paper does not give (c, c_1, c_2,
c_eta) are arguments, except where a set does not use them.

Theorem 3.1 states that constants c_1 and c_2 exist for randomly drawn batches, but no proof gives their values.
Therefore `corrected` requires full batches, B = n, where the smallest sufficient noise is known exactly, and ignores
c_1 and c_2; the accuracy does not depend on B. `delta_reached` is the delta of any noise at epsilon: exact for full
batches and, because amplification by subsampling is ignored, an upper bound for smaller ones. `SPENT` uses the
accountant for fixed-size batches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from dpnotes.papers.noisy_sgd import notation as s
from dpnotes.privacy.calibration import gaussian_delta, gaussian_std
from dpnotes.theory.calculators import Calculator, Measure, accuracies, evaluations, parameters, sample_sizes
from dpnotes.theory.refusals import NoRoot, require, require_informative

SETS = ("corrected", "paper", "one")
NOISE_SETS = (*SETS, "given")
_least_noise = np.vectorize(gaussian_std, otypes=[float])  # noise of a Gaussian at sensitivity 1
TOLERANCE = 1e-12  # relative tolerance of closed loops
_ROUNDS = 200
_NO_PROOF = "of smaller batches no proof gives c_1 and c_2"


def _require_batch(B: Any, n: Any) -> None:
    require(np.less_equal(B, n), "Expected B={B:g} <= n={n:g}: a batch of data.", B=B, n=n)


def _require_two(n: Any) -> None:
    require(np.greater(n, 1), "Expected n > 1: two data sets that differ in one of n examples.")


# ---------------------------------------------------------------- noise and gradients
def _require_whole(B: Any, n: Any, instead: str = "constants='given' takes yours") -> None:
    require(np.equal(B, n), "Expected B={B:g} = n={n:g}: " + f"{_NO_PROOF}; {instead}.", B=B, n=n)


def _reached(B: Any, epsilon: Any, C: Any, Delta: Any, T: Any) -> Any:
    """Return the delta at `epsilon` of T steps on full batches."""
    return gaussian_delta(epsilon, Delta * B / (2 * C * np.sqrt(np.ceil(T))))


def _privacy_noise(
    n: Any, T: Any, B: Any, epsilon: Any, delta: Any, C: Any, c_1: Any, c_2: Any, constants: str
) -> dict[str, Any]:
    _require_batch(B, n)
    largest = c_1 * T * (B / n) ** 2
    if constants == "corrected":  # replacing one example moves the mean gradient by at most 2 C/n
        _require_whole(B, n, "constants='paper' takes yours, and noisy_sgd.spent says what that noise is worth")
        noise = 2 * C * np.sqrt(T) * _least_noise(epsilon, delta) / n
    else:
        noise = c_2 * C * np.sqrt(-T * np.log(delta)) / (n * epsilon)
        outside = "Expected epsilon={epsilon:g} < c_1 T B^2/n^2 = {largest:g}: the condition of Theorem 3.1 fails."
        require(np.less(epsilon, largest), outside, epsilon=epsilon, largest=largest)
    found = {"Delta": noise, "noise_multiplier": noise * B / C, "largest_epsilon": largest}
    return {**found, "delta_reached": _reached(B, epsilon, C, noise, T)}


@partial(np.vectorize, otypes=[float, float])
def _spent(n: float, T: float, B: float, epsilon: float, delta: float, C: float, Delta: float) -> tuple[float, float]:
    """Return the accounted epsilon at `delta`, and delta at `epsilon`, of fixed-size batches (replace-one)."""
    from dpnotes.papers.accountant import delta_at, steps_on_batches
    from dpnotes.privacy.accounting import account

    events = steps_on_batches(float(Delta * B / (2 * C)), int(T), int(B), int(n))
    return account(events, float(delta)).epsilon, delta_at(events, float(epsilon))


def _worth(n: Any, T: Any, B: Any, epsilon: Any, delta: Any, C: Any, Delta: Any) -> dict[str, Any]:
    """Return the accounted epsilon and delta of T steps with noise Delta (replace-one); each entry takes seconds."""
    _require_batch(B, n)
    at_delta, at_epsilon = _spent(n, T, B, epsilon, delta, C, Delta)
    return {"epsilon_reached": at_delta[()], "delta_reached": at_epsilon[()]}


def _spread(sigma: Any, n: Any) -> Any:
    """Return sigma sqrt(ln(1 + (e-1) n)), how far an example's gradient is at most from the mean under Assumption B."""
    return sigma * np.sqrt(np.log1p((np.e - 1) * n))


def _gradient_terms(
    n: Any, T: Any, delta: Any, L: Any, f_max: Any, sigma: Any, c: Any, c_eta: Any, constants: str
) -> tuple[Any, Any]:
    """Return two terms: the gradient bound C is the first plus alpha times the second."""
    if constants == "deterministic":  # replaces C by the sensitivity of a batch under Assumption B
        return _spread(sigma, n) * n / (n - 1), 0.0
    if constants == "paper":
        logs = L * np.sqrt(np.log(T / delta)) + sigma * np.sqrt(np.log(n * T)) + np.sqrt(-sigma * np.log(delta))
        return 2 * np.sqrt(L * f_max) + c * logs, 0.0
    if constants == "one":
        return np.maximum(np.sqrt(L * f_max), sigma), 0.0  # alpha is at most sqrt(L f_max)
    tail = np.sqrt(np.log(T / delta))
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
    """Return the total delta, at most 1; at 1 the argument is vacuous, because every algorithm has delta 1."""
    if constants == "paper":
        return _transcript_delta(delta, failure)
    # Where e^epsilon exceeds 1/failure its value no longer matters; the cut avoids overflow.
    both = 1 + np.exp(np.minimum(epsilon, 700.0)) if constants == "corrected" else 1.0
    return _transcript_delta(delta, both * failure)


def _transcript_delta(delta: Any, failure: Any) -> dict[str, Any]:
    return {"delta": np.minimum(delta + failure, 1.0)}


# ---------------------------------------------------------------- the closed loop of Theorem 3.5
def _settle(step: Callable[[Any], Any], start: Any, several: int = 0) -> Any:
    """Return the fixed point of a contraction in logarithms; the last `several` axes have to converge together."""
    here = start
    settled = np.asarray(False)
    for _ in range(_ROUNDS):
        there = step(here)
        settled = np.abs(there - here) <= TOLERANCE
        if np.all(settled):
            return there
        here = there
    no_root = f"Expected the loop of alpha, T and C to have a root, none within {_ROUNDS} rounds."
    require(settled.all(axis=tuple(range(np.ndim(settled) - several, np.ndim(settled)))), no_root, NoRoot)


@dataclass(frozen=True)
class _Given:
    """The arguments of a closed loop except n, B and alpha, in the order of its symbols; and the gradient bound."""

    d: Any
    epsilon: Any
    delta: Any
    L: Any
    f_max: Any
    sigma: Any
    rho: Any
    c: Any
    c_1: Any
    c_2: Any
    c_eta: Any
    constants: str
    bound: str

    @property
    def dim(self) -> Any:
        """Return the dimension, plus 1 because s~^2 <= (d + 1) Delta^2."""
        return np.asarray(self.d, dtype=float) + (0.0 if self.constants == "one" else 1.0)

    @property
    def factors(self) -> tuple[float, Any]:
        """Return the factor in T, and the constant of the step size."""
        return (1.0, 1.0) if self.constants == "one" else (64.0, self.c_eta)

    def gradients(self, n: Any, T: Any) -> tuple[Any, Any]:
        """Return the two terms of the gradient bound, as `_gradient_terms` does."""
        return _gradient_terms(n, T, self.delta, self.L, self.f_max, self.sigma, self.c, self.c_eta, self.bound)

    def noise_floor(self, B: Any, alpha: Any, C: Any) -> Any:
        """Return the least Delta: at least sigma/sqrt(B), with an allowed epsilon and a step size of at most 1/L."""
        if self.constants == "one":
            floors = self.sigma / np.sqrt(B), alpha / np.sqrt(self.dim), C / (B * np.sqrt(self.epsilon))
            return reduce(np.maximum, floors)
        floor = np.maximum(self.sigma / np.sqrt(B), alpha * np.sqrt(self.c_eta / self.dim))
        if self.constants != "corrected":
            floor = np.maximum(floor, self.c_2 * C / B * np.sqrt(-np.log(self.delta) / (self.c_1 * self.epsilon)))
        if self.constants == "paper":  # eta <= 1/(sigma sqrt(T))
            floor = np.maximum(floor, 8 * self.sigma * np.sqrt(self.f_max / (self.L * self.dim)))
        return floor

    def reach(self) -> tuple[Any, Any]:
        """Return numerator and denominator of alpha^2 n / C for a real-valued number of steps; the noise cancels."""
        if self.constants == "one":
            return np.sqrt(self.L * self.f_max * self.dim), self.epsilon
        inside = 64.0 / self.c_eta * self.L * self.f_max * self.dim
        if self.constants == "corrected":
            return np.sqrt(inside) * 2 * _least_noise(self.epsilon, self.delta), 1.0
        return self.c_2 * np.sqrt(inside * -np.log(self.delta)), self.epsilon

    def steps(self, noise: Any, alpha: Any) -> Any:
        """Return T, the number of steps that this noise needs for this accuracy."""
        scale, step_constant = self.factors
        return scale * self.L * self.f_max * self.dim * noise**2 / (step_constant * alpha**4)

    def rounding_up(self, steps: Any) -> Any:
        """Return the ratio of the noise for the steps rounded up to the noise for their real number."""
        return np.sqrt(1 + 1 / steps) if self.constants == "corrected" else 1.0

    def private(self, found: dict[str, Any], B: Any) -> None:
        """Put the least noise of the accountant in place of its order, and add the delta that the noise reaches."""
        if self.constants == "one":
            least = 2 * _least_noise(self.epsilon, self.delta)
            found["Delta"] = least * found["C"] * np.sqrt(np.ceil(found["T"])) / B
        found["delta_reached"] = _reached(B, self.epsilon, found["C"], found["Delta"], found["T"])

    def require_alpha(self, alpha: Any, T: Any) -> None:
        """Refuse an accuracy for which the loop says nothing."""
        first = np.sqrt(2 * self.L * np.asarray(self.f_max))
        require_informative("alpha", alpha, "sqrt(2 L f_max)", first, why="x_0 itself has that", closed=True)
        if self.constants != "paper":
            largest = np.sqrt(self.L * self.f_max / (1.0 if self.constants == "one" else np.log(T / self.delta)))
            another = "Expected alpha={alpha:.4g} <= {largest:.4g}: beyond, the step size has another form."
            require(np.less_equal(alpha, largest), another, alpha=alpha, largest=largest)
        flat = self.L**2 / self.rho
        convex = "Expected alpha={alpha:.4g} <= L^2/rho = {flat:.4g}: beyond, no eigenvalue is below -sqrt(rho alpha)."
        require(np.less_equal(alpha, flat), convex, alpha=alpha, flat=flat)


def _loop(n: Any, d: Any, B: Any, *numbers: Any, constants: str, bound: str = "") -> dict[str, Any]:
    given = _Given(d, *numbers, constants=constants, bound=bound or constants)
    _require_batch(B, n)
    if constants == "corrected":
        _require_whole(B, n)
    size = np.asarray(n, dtype=float)
    top, bottom = given.reach()
    most = top / (size * bottom)
    found: dict[str, Any] = {}

    def step(log_steps: Any) -> Any:
        reach = most * given.rounding_up(np.exp(log_steps))
        first, second = given.gradients(size, np.exp(log_steps))
        alpha = (reach * second + np.sqrt((reach * second) ** 2 + 4 * reach * first)) / 2
        C = first + alpha * second
        noise = given.noise_floor(B, alpha, C)
        step_size = given.factors[1] * alpha**2 / (given.L * given.dim * noise**2)
        found.update(alpha=alpha, eta=step_size, T=given.steps(noise, alpha), Delta=noise, C=C)
        return np.log(found["T"])

    _settle(step, np.zeros(np.broadcast(size, d, B, *numbers[:5]).shape) + 5.0)
    given.require_alpha(found["alpha"], found["T"])
    given.private(found, B)
    return found


def _deterministic_loop(n: Any, d: Any, B: Any, *numbers: Any, constants: str) -> dict[str, Any]:
    """Return the loop with the deterministic gradient bound, which has no constant c."""
    _require_two(n)
    return _loop(n, d, B, *numbers[:6], 1.0, *numbers[6:], constants=constants, bound="deterministic")


def _sample_size(alpha: Any, d: Any, B: Any, *numbers: Any, constants: str) -> dict[str, Any]:
    given = _Given(d, *numbers, constants=constants, bound=constants)
    top, bottom = given.reach()
    reach = top / (bottom * np.asarray(alpha) ** 2)
    found: dict[str, Any] = {}

    def step(logs: Any) -> Any:
        size, steps = np.moveaxis(np.exp(logs), -1, 0)
        first, second = given.gradients(size, steps)
        C = first + alpha * second
        noise = given.noise_floor(size if constants == "corrected" else B, alpha, C)
        more = given.steps(noise, alpha)
        found.update(n=reach * C * given.rounding_up(more), T=more, Delta=noise, C=C)
        return np.log(np.stack(np.broadcast_arrays(found["n"], found["T"]), axis=-1))

    shape = np.broadcast(alpha, d, B, *numbers[:5]).shape
    _settle(step, np.zeros((*shape, 2)) + 5.0, several=1)
    if constants == "corrected":
        whole = "Expected B={B:g} >= n={n:g}: whole batches; " + _NO_PROOF + " (constants='given')."
        require(np.greater_equal(B, found["n"]), whole, B=B, n=found["n"])
        B = found["n"]
    _require_batch(B, found["n"])
    given.require_alpha(alpha, found["T"])
    given.private(found, B)
    return found


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
_UNUSED = {"corrected": (s.c_1, s.c_2), "one": _FREE}
_PROBLEM = (s.d, s.B, s.epsilon, s.delta, s.L, s.f_max, s.sigma, s.rho)
_NOISE = parameters(Delta="noise of a coordinate of the mean gradient")
_WORTH = parameters(
    delta_reached="delta at epsilon of whole batches with that noise, an example replaced; of smaller ones at most"
)
_BOUND = parameters(C="bound of the gradients' norms")
_RUN = evaluations(T="number of iterations, to be rounded up") | _NOISE | _BOUND | _WORTH
_ACCURACY = accuracies(Measure.SECOND_ORDER_EMPIRICAL, alpha="gradient norm")
_LOOP_OUTPUTS = _ACCURACY | parameters(eta="step size") | _RUN
_TOTAL = parameters(delta="delta of the whole; 1 where the argument says nothing")
failure = s.SYMBOLS.symbol("failure", "probability that some gradient exceeds C", domain=s.UNIT_INTERVAL)
PRIVACY_NOISE = Calculator(
    _privacy_noise,
    (s.n, s.T, s.B, s.epsilon, s.delta, s.C, s.c_1, s.c_2),
    _NOISE | parameters(noise_multiplier="Delta B/C", largest_epsilon="c_1 T B^2/n^2") | _WORTH,
    ("corrected", "paper"),
)
SPENT = Calculator(
    _worth,
    (s.n, s.T, s.B, s.epsilon, s.delta, s.C, s.Delta),
    parameters(
        epsilon_reached="epsilon at delta of T steps with noise Delta, by the accountant, an example replaced",
        delta_reached="delta at epsilon",
    ),
)
_GRADIENTS = (s.n, s.T, s.delta, s.L, s.f_max, s.sigma, s.alpha, s.c, s.c_eta)
GRADIENT_BOUND = Calculator(_gradient_bound, _GRADIENTS, _BOUND, SETS, unused={"one": (s.c, s.c_eta)})
SENSITIVITY = Calculator(
    _sensitivity,
    (s.n, s.B, s.sigma),
    parameters(
        sample="how far a sample's gradient is from the mean gradient",
        difference="how far gradients of exchanged samples are apart",
        batch="sensitivity of the mean gradient of a batch of fixed size, one example replaced",
    ),
)
TOTAL_DELTA = Calculator(_total_delta, (s.epsilon, s.delta, failure), _TOTAL, SETS)
TRANSCRIPT_DELTA = Calculator(_transcript_delta, (s.delta, failure), _TOTAL)
CLOSED_LOOP = Calculator(_loop, (s.n, *_PROBLEM, *_FREE), _LOOP_OUTPUTS, NOISE_SETS, unused=_UNUSED)
DETERMINISTIC_LOOP = Calculator(
    _deterministic_loop,
    (s.n, *_PROBLEM, *_FREE[1:]),
    _LOOP_OUTPUTS | parameters(C="half of how far gradients of exchanged samples are apart"),
    ("corrected", "given"),
    unused={"corrected": (s.c_1, s.c_2)},
)
_SIZE = sample_sizes(n="number of examples")
SAMPLE_SIZE = Calculator(_sample_size, (s.alpha, *_PROBLEM, *_FREE), _SIZE | _RUN, NOISE_SETS, unused=_UNUSED)
SELECTION = Calculator(
    _selection,
    (s.d, s.epsilon, s.L, s.rho, s.f_max),
    sample_sizes(
        n="number of examples that selection needs",
        gradient="for the gradient norm",
        eigenvalue="for the smallest eigenvalue",
    ),
    SETS,
)
