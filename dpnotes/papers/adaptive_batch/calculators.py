"""Theorem 3.11 of Liu and Talwar, its inverse and the noise of the tree, as functions of plain numbers or numpy arrays.

`constants="paper"` is the printed result, with 1 for every hidden constant. Its noise is not private (see the errata);
`delta_reached` is the delta that it does give. `"one"` is the best balance of the same terms, with the first query of
O1 and the units corrected, reached by kappa = max(G, alpha sqrt(d)/epsilon): the largest of its monomials, with
constants and logarithms 1. Its noise comes from the accountant, for data sets that differ in one example, and for an
algorithm that begins a new tree at each call of O1 (with a single tree it would be too small, see alg2.reset).
`"corrected"` exists for the tree alone, because no proof gives the constants of the theorem.
"""

from functools import reduce
from typing import Any

import numpy as np

from dpnotes.papers.adaptive_batch import notation as s
from dpnotes.privacy.calibration import gaussian_delta, gaussian_std
from dpnotes.theory import blocks
from dpnotes.theory.calculators import Calculator, Measure, accuracies, evaluations, parameters, sample_sizes
from dpnotes.theory.refusals import require, require_informative

_least_noise = np.vectorize(gaussian_std, otypes=[float])  # noise of a Gaussian mechanism with sensitivity 1
Terms = tuple[Any, Any, Any, Any, Any]


def _coefficients(G: Any, M: Any, B: Any, constants: str) -> Terms:
    """Return the coefficients of the terms of alpha, with p = sqrt(d)/(n epsilon).

    The five terms are sqrt(p), n^(-1/3), n^(-1/2), and for the first query of O1 p and n^(-1/2).
    """
    product, root = np.asarray(B, dtype=float) * M, np.sqrt(np.asarray(B, dtype=float) * M)
    if constants == "one":
        return root, np.cbrt(product * G), root, G, G
    private = np.cbrt(product * G) + root
    sampling = product ** (2 / 9) * np.asarray(G) ** (5 / 9) + product ** (4 / 9) * np.asarray(G) ** (1 / 9)
    return private, sampling, root, 0.0, 0.0


def _accuracy(n: Any, noise: Any, coefficients: Terms, constants: str) -> Any:
    private, sampling, steps, first_private, first_sampling = coefficients
    n = np.asarray(n, dtype=float)
    share, root = noise / n, np.sqrt(n)
    terms = private * np.sqrt(share), sampling / np.cbrt(n), steps / root, first_sampling / root, first_private * share
    return reduce(np.maximum, terms) if constants == "one" else sum(terms)


def _threshold(alpha: Any, noise: Any, G: Any, M: Any, B: Any, constants: str) -> Any:
    floor = G if constants == "one" else np.cbrt(np.asarray(B, dtype=float) * G * M)
    return np.maximum(alpha * noise, floor)


def theorem(
    n: Any, d: Any, epsilon: Any, delta: Any, G: Any, M: Any, rho: Any, B: Any, iota: Any, constants: str
) -> dict[str, Any]:
    """Return the accuracy and the parameters of Theorem 3.11, with gamma set equal to alpha.

    Raises:
      Vacuous: the accuracy is at least G, so that every point satisfies it.
      OutsideRegime: a printed logarithm is not positive.
    """
    noise = np.sqrt(d) / epsilon
    coefficients = _coefficients(G, M, B, constants)
    alpha = _accuracy(n, noise, coefficients, constants)
    require_informative("alpha", alpha, "G", G, why="every point has that, more examples are needed")
    scale, product = np.sqrt(rho * alpha), np.asarray(B, dtype=float) * M
    steps = np.maximum(product / alpha**2, 1.0)
    kappa = _threshold(alpha, noise, G, M, B, constants)
    batch_per_gradient = np.maximum(noise / alpha, kappa / alpha**2)
    levels = _levels(np.ceil(steps))  # of the tree that a run builds: rounding up to whole leaves may add a level
    if constants == "paper":
        window_log = np.log(d * product / (rho * alpha * iota))
        threshold_log = np.log(d * product / (rho * iota))
        for name, value in (("rho*alpha*iota", window_log), ("rho*iota", threshold_log)):
            require(value > 0, f"Expected d*M*B > {name}: the printed logarithm is not positive.")
        batch = G * (noise / alpha + 1 / alpha**2)
    else:
        window_log = threshold_log = np.ones_like(alpha)
        batch = np.maximum(G * noise / alpha, (G / alpha) ** 2)
    # When an example is replaced, a mean moves by twice the largest norm over the batch size, and so do the nodes that
    # contain it: one node per level if O1 begins a new tree, up to 2 K - 1 of the K + 1 levels with a single tree
    # (alg2.reset).
    nodes = np.maximum(levels, 2 * levels - 3) if constants == "paper" else levels
    leaf = 2 * np.maximum(G / batch, 1 / batch_per_gradient) * np.sqrt(nodes)
    sigma = alpha / np.sqrt(d) if constants == "paper" else leaf * _least_noise(epsilon, delta)
    private, sampling, root, first_private, first_sampling = coefficients
    share, count = noise / np.asarray(n, dtype=float), np.asarray(n, dtype=float)
    perturbation = alpha if constants == "one" else alpha / np.sqrt(np.log(d / np.asarray(iota)))
    return {
        "alpha": alpha,
        "kappa": kappa,
        "batch": batch,
        "batch_per_gradient": batch_per_gradient,
        "sigma": sigma,
        "delta_reached": gaussian_delta(epsilon, sigma / leaf),
        "steps": steps,
        "window": M / scale * window_log,
        "threshold": alpha * threshold_log**3,
        "perturbation": perturbation,
        "step_size": 1 / np.asarray(M, dtype=float) + 0 * alpha,
        "private": np.maximum(private * np.sqrt(share), first_private * share),
        "sampling": np.maximum(sampling / np.cbrt(count), np.maximum(root, first_sampling) / np.sqrt(count)),
    }


def sample_size(alpha: Any, d: Any, epsilon: Any, G: Any, M: Any, B: Any, constants: str) -> dict[str, Any]:
    """Return the n at which the accuracy is alpha, by bisection in log n to a relative error of 1e-12 (paper).

    Raises:
      Vacuous: alpha is at least G.
    """
    require_informative("alpha", alpha, "G", G)
    noise = np.sqrt(d) / epsilon
    coefficients = _coefficients(G, M, B, constants)
    private, sampling, steps, first_private, first_sampling = coefficients
    target = np.asarray(alpha, dtype=float)
    # Each term alone needs at most n examples; with at most a fifth of alpha for each term, n examples suffice.
    alone = [
        (private / target) ** 2 * noise,
        (sampling / target) ** 3,
        (steps / target) ** 2,
        (first_sampling / target) ** 2,
        first_private / target * noise,
    ]
    low = np.log(np.maximum.reduce(np.broadcast_arrays(*alone)))
    high = low if constants == "one" else low + np.log(125.0)
    for _ in range(0 if constants == "one" else 48):
        middle = (low + high) / 2
        above = _accuracy(np.exp(middle), noise, coefficients, constants) > target
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return {"n": np.exp(high)[()], "kappa": _threshold(target, noise, G, M, B, constants)}


def tree(G: Any, b: Any, Sigma: Any, epsilon: Any, delta: Any, constants: str) -> dict[str, Any]:
    """Return a node's noise for prefix sums of batch means: by Theorem 2.2, or by the exact replace-one delta."""
    levels, replaced = _levels(Sigma), 2 * G / np.asarray(b, dtype=float)
    if constants == "paper":
        sensitivity = replaced / 2
        sigma = 4 * sensitivity * np.sqrt(np.log(Sigma) * -np.log(delta)) / epsilon
    else:
        sensitivity = replaced
        sigma = sensitivity * np.sqrt(levels) * _least_noise(epsilon, delta)
    reached = gaussian_delta(epsilon, sigma / (replaced * np.sqrt(levels)))
    return {"sigma": sigma, "sensitivity": sensitivity, "levels": levels, "delta_reached": reached}


def crossover(n: Any, d: Any, G: Any, M: Any, B: Any, constants: str) -> dict[str, Any]:
    """Return the epsilon at which the leading privacy term and the leading sampling term of alpha are equal."""
    private, sampling, *_ = _coefficients(G, M, B, constants)
    count = np.asarray(n, dtype=float)
    noise = (sampling / private) ** 2 * np.cbrt(count)
    return {"epsilon": np.sqrt(d) / noise, "alpha": sampling / np.cbrt(count)}


def _levels(leaves: Any) -> Any:
    """Return the number of nodes that contain a leaf, floor(log2(leaves)) + 1; exact at powers of two."""
    return np.frexp(np.floor(np.asarray(leaves, dtype=float)))[1].astype(float)[()]


def lower_bound(n: Any, d: Any, constants: str) -> dict[str, Any]:
    """Return the lower bound on alpha for any algorithm without privacy, with G = M = B = 1; the paper quotes it.

    Raises:
      OutsideRegime: the dimension is too small for the bound.
    """
    alpha = np.asarray(n, dtype=float) ** (-1 / 3)
    require(
        np.greater_equal(d, alpha**-4.0 * (1 - 1e-12)),
        "Expected d={d:g} >= alpha^-4={least:.4g}: the bound is for high dimension.",
        d=d,
        least=alpha**-4.0,
    )
    return {"alpha": alpha[()]}


def node(t: Any, rank: Any) -> dict[str, Any]:
    """Return a node of NODE(t), largest first; TREE(t) is the sum of the noise of these nodes.

    >>> [(found["first"], found["last"]) for found in (NODE(t=13, rank=rank) for rank in (1, 2, 3))]
    [(1.0, 8.0), (9.0, 12.0), (13.0, 13.0)]
    """
    first, last, count = blocks.block(t, rank, 2.0**53)
    return {"first": first, "last": last, "num_nodes": count}


def tree_size(Sigma: Any) -> dict[str, Any]:
    """Return the size of a tree with Sigma leaves: its levels, its nodes, and the most nodes in one NODE(t).

    >>> TREE_SIZE(Sigma=8)
    {'levels': 4.0, 'nodes': 15.0, 'most_nodes': 3.0}
    """
    levels, nodes, most = blocks.sizes(Sigma)
    return {"levels": levels, "nodes": nodes, "most_nodes": most}


_MOST_SIGNS = 10**6


def _exponent(u: float, b: float) -> float:
    from scipy.special import gammaln

    signs = np.arange(b + 1)
    weights = np.exp(gammaln(b + 1) - gammaln(signs + 1) - gammaln(b - signs + 1) - b * np.log(2))
    return float(weights @ np.log1p(u - (1 - u) * (2 * signs - b) / b) / weights.sum())


_exponents = np.vectorize(_exponent, otypes=[float])


def lyapunov(u: Any, b: Any) -> dict[str, Any]:
    """Return the Lyapunov exponent of a step at f(x; z) = ((M - lambda) z - lambda) x^2/2, z a sign, eta = 1/M.

    If it is negative, runs converge to the saddle (claim own.lyapunov). `minimum_batch` is M/(2 lambda): for small
    lambda the exponent changes its sign there.

    >>> [round(LYAPUNOV(u=0.05, b=b)["exponent"], 4) for b in (1, 9, 11)]
    [-0.8047, -0.0052, 0.0063]
    """
    require(np.less_equal(b, _MOST_SIGNS), f"Expected b={{b:g}} <= {_MOST_SIGNS}: a sum over b + 1 outcomes.", b=b)
    return {"exponent": _exponents(u, b)[()], "minimum_batch": 1 / (2 * np.asarray(u, dtype=float))[()]}


# ---------------------------------------------------------------- calculators
# The default is not "paper", because the noise that the theorem prints is not private.
_ORDERS = ("one", "paper")
_NO_PROOF = {"corrected": "the proof rests on Lemma 3.3, which is false as stated and leaves its constants in an Omega"}
_THEOREM_OUTPUTS = {
    **accuracies(Measure.SECOND_ORDER, alpha="accuracy"),
    **evaluations(steps="T"),
    **parameters(
        kappa="drift threshold",
        batch="b, batch size of O1",
        batch_per_gradient="b_t for a noisy gradient of norm 1; it is at least 1",
        sigma="standard deviation of a node's noise; one: private if each call of O1 begins a new tree",
        delta_reached="delta at epsilon of that noise, if an example differs; paper: of one tree throughout",
        window="Gamma",
        threshold="norm below which a saddle is suspected",
        perturbation="zeta, scale of the perturbation there",
        step_size="eta",
        private="largest private term of alpha",
        sampling="largest sampling term of alpha",
    ),
}
THEOREM = Calculator(
    theorem, (s.n, s.d, s.epsilon, s.delta, s.G, s.M, s.rho, s.B, s.iota), _THEOREM_OUTPUTS, _ORDERS, _NO_PROOF
)
SAMPLE_SIZE = Calculator(
    sample_size,
    (s.alpha, s.d, s.epsilon, s.G, s.M, s.B),
    {**sample_sizes(n="examples that reach alpha, real"), **parameters(kappa="drift threshold")},
    _ORDERS,
    _NO_PROOF,
)
_TREE_OUTPUTS = parameters(
    sigma="standard deviation of a node's noise, for prefix sums: each call of O1 begins a new tree",
    sensitivity="of a leaf",
    levels="nodes that a leaf belongs to",
    delta_reached="delta at epsilon of prefix sums, for data sets that differ in one example",
)
TREE = Calculator(tree, (s.G, s.b, s.Sigma, s.epsilon, s.delta), _TREE_OUTPUTS, ("corrected", "paper"))
_CROSSOVER_OUTPUTS = {
    **parameters(epsilon="where the private and the sampling term are equal"),
    **accuracies(Measure.SECOND_ORDER, alpha="each of them there"),
}
CROSSOVER = Calculator(crossover, (s.n, s.d, s.G, s.M, s.B), _CROSSOVER_OUTPUTS, _ORDERS, _NO_PROOF)
LOWER_BOUND = Calculator(
    lower_bound,
    (s.n, s.d),
    accuracies(Measure.SECOND_ORDER, alpha="no algorithm does better", floor=True),
    ("one",),
    {"corrected": "the bound is cited as an Omega"},
)
rank = s.SYMBOLS.symbol("rank", "which node, largest first", domain=s.COUNT)
signs = s.SYMBOLS.symbol("b", "batch size", domain=s.COUNT)
NODE = Calculator(
    node,
    (s.t, rank),
    parameters(first="first leaf of the node", last="last leaf", num_nodes="nodes in the sum TREE(t)"),
)
_TREE_SIZE_OUTPUTS = parameters(
    levels="nodes that a leaf belongs to, at most",
    nodes="nodes that are complete after Sigma leaves",
    most_nodes="nodes in a sum, at most",
)
TREE_SIZE = Calculator(tree_size, (s.Sigma,), _TREE_SIZE_OUTPUTS)
_LYAPUNOV_OUTPUTS = parameters(
    exponent="mean logarithm of what a step multiplies the distance from the saddle by", minimum_batch="M/(2 lambda)"
)
LYAPUNOV = Calculator(lyapunov, (s.u, signs), _LYAPUNOV_OUTPUTS)
