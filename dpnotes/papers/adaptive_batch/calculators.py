"""Theorem 3.11 of Liu and Talwar, its inverse and the noise of the tree, as functions of plain numbers or numpy arrays.

Three sets of constants. `paper` is what is printed, with 1 for every hidden constant; its noise is not private (see
the errata). `corrected` repairs what is wrong: noise for data sets that differ in one example, at the exact delta, for
an algorithm that begins a new tree at each call of O1 (with one tree throughout it is too small, see alg2.reset); the
first query of O1 is paid for; the units of the batch size and of the logarithms are mended. `one` is the best balance
of the same terms, reached by kappa = max(G, alpha sqrt(d)/epsilon), with 1 for constants and logarithms; its noise is
that of `corrected`.
"""

from typing import Any

import numpy as np

from dpnotes.papers.adaptive_batch.notation import B, G, M, Sigma, alpha, b, d, delta, epsilon, iota, n, rho
from dpnotes.theory.calculators import Calculator

Terms = tuple[Any, Any, Any, Any, Any]


def _coefficients(G: Any, M: Any, B: Any, constants: str) -> Terms:
    """Those of sqrt(p), n^(-1/3), n^(-1/2), and for the first query of O1 p and n^(-1/2); p = sqrt(d)/(n epsilon)."""
    product, root = np.asarray(B, dtype=float) * M, np.sqrt(np.asarray(B, dtype=float) * M)
    if constants == "one":
        return root, np.cbrt(product * G), root, G, G
    private = np.cbrt(product * G) + root
    sampling = product ** (2 / 9) * np.asarray(G) ** (5 / 9) + product ** (4 / 9) * np.asarray(G) ** (1 / 9)
    first = 0.0 if constants == "paper" else G
    return private, sampling, root, first, first


def _accuracy(n: Any, noise: Any, coefficients: Terms) -> Any:
    private, sampling, steps, first_private, first_sampling = coefficients
    n = np.asarray(n, dtype=float)
    share = noise / n
    return (
        private * np.sqrt(share) + sampling / np.cbrt(n) + (steps + first_sampling) / np.sqrt(n) + first_private * share
    )


def _threshold(alpha: Any, noise: Any, G: Any, M: Any, B: Any, constants: str) -> Any:
    floor = G if constants == "one" else np.cbrt(np.asarray(B, dtype=float) * G * M)
    return np.maximum(alpha * noise, floor)


def _require(condition: Any, message: str) -> None:
    if not np.all(condition):
        raise ValueError(message)


def theorem(
    n: Any, d: Any, epsilon: Any, delta: Any, G: Any, M: Any, rho: Any, B: Any, iota: Any, constants: str
) -> dict[str, Any]:
    """Accuracy and parameters of Theorem 3.11; gamma is taken equal to alpha.

    Raises:
      ValueError: the accuracy is no better than G, which every point has; or a printed logarithm is not positive.
    """
    noise = np.sqrt(d) / epsilon
    coefficients = _coefficients(G, M, B, constants)
    alpha = _accuracy(n, noise, coefficients)
    _require(alpha < G, f"Expected n={n!r} to be so large that alpha < G={G!r}: the theorem says nothing otherwise.")
    scale, product = np.sqrt(rho * alpha), np.asarray(B, dtype=float) * M
    steps = np.maximum(product / alpha**2, 1.0)
    if constants == "paper":
        window_log = np.log(d * product / (rho * alpha * iota))
        threshold_log = np.log(d * product / (rho * iota))
        for name, value in (("rho*alpha*iota", window_log), ("rho*iota", threshold_log)):
            _require(value > 0, f"Expected d*M*B > {name}: the printed logarithm is not positive.")
    elif constants == "corrected":
        window_log = threshold_log = np.maximum(np.log(d * steps / iota), 1.0)
    else:
        window_log = threshold_log = np.ones_like(alpha)
    kappa = _threshold(alpha, noise, G, M, B, constants)
    batch_per_gradient = np.maximum(noise / alpha, kappa / alpha**2)
    if constants == "paper":
        batch, sigma = G * (noise / alpha + 1 / alpha**2), alpha / np.sqrt(d)
    else:
        batch = G * noise / alpha + (G / alpha) ** 2
        # A mean moves by twice the largest norm over its batch when an example is replaced.
        sensitivity = 2 * np.maximum(G / batch, 1 / batch_per_gradient)
        sigma = sensitivity * np.sqrt(_levels(steps)) / _gaussian_parameter(epsilon, delta)
    private, sampling, root, first_private, first_sampling = coefficients
    share, count = noise / np.asarray(n, dtype=float), np.asarray(n, dtype=float)
    perturbation = alpha if constants == "one" else alpha / np.sqrt(np.log(d / np.asarray(iota)))
    return {
        "alpha": alpha,
        "kappa": kappa,
        "batch": batch,
        "batch_per_gradient": batch_per_gradient,
        "sigma": sigma,
        "steps": steps,
        "window": M / scale * window_log,
        "threshold": alpha * threshold_log**3,
        "perturbation": perturbation,
        "step_size": 1 / np.asarray(M, dtype=float) + 0 * alpha,
        "private": np.maximum(private * np.sqrt(share), first_private * share),
        "sampling": np.maximum(sampling / np.cbrt(count), np.maximum(root, first_sampling) / np.sqrt(count)),
    }


def sample_size(alpha: Any, d: Any, epsilon: Any, G: Any, M: Any, B: Any, constants: str) -> dict[str, Any]:
    """The n at which the accuracy is alpha, by bisection in its logarithm to a relative 1e-12.

    Raises:
      ValueError: alpha is no better than G.
    """
    _require(np.less(alpha, G), f"Expected alpha={alpha!r} < G={G!r}: the theorem says nothing otherwise.")
    noise = np.sqrt(d) / epsilon
    coefficients = _coefficients(G, M, B, constants)
    private, sampling, steps, first_private, first_sampling = coefficients
    target = np.asarray(alpha, dtype=float)
    # Each term alone needs at most n; with an (at most) fifth of alpha for each, n is enough.
    alone = [
        (private / target) ** 2 * noise,
        (sampling / target) ** 3,
        ((steps + first_sampling) / target) ** 2,
        first_private / target * noise,
    ]
    low = np.log(np.maximum.reduce(np.broadcast_arrays(*alone)))
    high = low + np.log(125.0)
    for _ in range(48):
        middle = (low + high) / 2
        above = _accuracy(np.exp(middle), noise, coefficients) > target
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return {"n": np.exp(high)[()], "kappa": _threshold(target, noise, G, M, B, constants)}


def tree(G: Any, b: Any, Sigma: Any, epsilon: Any, delta: Any, constants: str) -> dict[str, Any]:
    """Noise of a node for prefix sums of batch means: Theorem 2.2, or the exact delta for replaced examples."""
    levels, replaced = _levels(Sigma), 2 * G / np.asarray(b, dtype=float)
    if constants == "paper":
        sensitivity = replaced / 2
        sigma = 4 * sensitivity * np.sqrt(np.log(Sigma) * -np.log(delta)) / epsilon
    else:
        sensitivity = replaced
        sigma = sensitivity * np.sqrt(levels) / _gaussian_parameter(epsilon, delta)
    with np.errstate(divide="ignore"):
        parameter = replaced * np.sqrt(levels) / sigma
    reached = np.where(np.isinf(parameter), 1.0, _profile(epsilon, np.minimum(parameter, 1e6)))
    return {"sigma": sigma, "sensitivity": sensitivity, "levels": levels, "delta_reached": reached[()]}


def crossover(n: Any, d: Any, G: Any, M: Any, B: Any, constants: str) -> dict[str, Any]:
    """The epsilon at which the leading private and the leading sampling term of alpha are equal."""
    private, sampling, *_ = _coefficients(G, M, B, constants)
    count = np.asarray(n, dtype=float)
    noise = (sampling / private) ** 2 * np.cbrt(count)
    return {"epsilon": np.sqrt(d) / noise, "alpha": sampling / np.cbrt(count)}


def _levels(leaves: Any) -> Any:
    """How many nodes a leaf belongs to: floor(log2(leaves)) + 1, exact at powers of two."""
    return np.frexp(np.floor(np.asarray(leaves, dtype=float)))[1].astype(float)[()]


def _profile(epsilon: Any, parameter: Any) -> Any:
    """delta(epsilon) of Gaussian DP with this parameter (Dong, Roth, Su 2022, Corollary 2.13)."""
    from scipy.special import log_ndtr, ndtr

    ratio = epsilon / parameter
    return ndtr(parameter / 2 - ratio) - np.exp(epsilon + log_ndtr(-parameter / 2 - ratio))


def _gaussian_parameter(epsilon: Any, delta: Any) -> Any:
    """The largest parameter of Gaussian DP that gives (epsilon, delta), by bisection to a relative 1e-12."""
    epsilon, delta = np.asarray(epsilon, dtype=float), np.asarray(delta, dtype=float)
    shape = np.broadcast_shapes(epsilon.shape, delta.shape)
    low, high = np.full(shape, np.log(1e-9)), np.log(np.sqrt(2 * np.broadcast_to(epsilon, shape)) + 80.0)
    for _ in range(45):
        middle = (low + high) / 2
        above = _profile(epsilon, np.exp(middle)) > delta
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.exp(low)[()]


# ---------------------------------------------------------------- calculators
# `corrected` is the default, because the noise that the theorem prints is not private.
THEOREM = Calculator(
    theorem,
    (n, d, epsilon, delta, G, M, rho, B, iota),
    {
        "alpha": "accuracy",
        "kappa": "drift threshold",
        "batch": "b, batch size of O1",
        "batch_per_gradient": "b_t for a noisy gradient of norm 1; it is at least 1",
        "sigma": "standard deviation of a node's noise; corrected: private if each call of O1 begins a new tree",
        "steps": "T",
        "window": "Gamma",
        "threshold": "norm below which a saddle is suspected",
        "perturbation": "zeta, scale of the perturbation there",
        "step_size": "eta",
        "private": "largest private term of alpha",
        "sampling": "largest sampling term of alpha",
    },
    ("corrected", "paper", "one"),
)
SAMPLE_SIZE = Calculator(
    sample_size,
    (alpha, d, epsilon, G, M, B),
    {"n": "examples that reach alpha, real", "kappa": "drift threshold"},
    ("corrected", "paper", "one"),
)
TREE = Calculator(
    tree,
    (G, b, Sigma, epsilon, delta),
    {
        "sigma": "standard deviation of a node's noise, for prefix sums: each call of O1 begins a new tree",
        "sensitivity": "of a leaf",
        "levels": "nodes that a leaf belongs to",
        "delta_reached": "delta at epsilon of prefix sums, for data sets that differ in one example",
    },
    ("corrected", "paper"),
)
CROSSOVER = Calculator(
    crossover,
    (n, d, G, M, B),
    {"epsilon": "where the private and the sampling term are equal", "alpha": "each of them there"},
    ("corrected", "paper", "one"),
)
