"""Theorems 3.1 and 4.1 of Kornowski, Liu and Talwar (2025), and plain oracles, with every constant of a proof."""

import math
from typing import Any

import numpy as np

from dpnotes.privacy.calibration import gaussian_std
from dpnotes.theory.refusals import Vacuous, require, require_informative

# Of a Gaussian at its least private: elementwise, for arrays.
least_noise = np.vectorize(gaussian_std, otypes=[float])


# ---------------------------------------------------------------- the domain of a theorem
def domain(alpha: Any, beta: Any, Phi: Any, L: Any) -> None:
    """Refuse a radius or an accuracy that the theorems exclude."""
    # The division rounds: alpha = Phi/L itself must pass.
    require(alpha <= Phi / L * (1 + 1e-12), "Expected alpha={alpha:g} <= Phi/L: the theorems assume it.", alpha=alpha)
    below_lipschitz(beta, L)


def below_lipschitz(beta: Any, L: Any) -> None:
    """Refuse an accuracy that every point has."""
    require_informative("beta", beta, "L", L, closed=True)


def far(d: Any, alpha: Any, R: Any) -> None:
    """Refuse an initial distance within which every point is stationary."""
    nearer = "Expected R={R:g} >= alpha/sqrt(d): the bound is vacuous, nearer points are stationary already."
    require(R * np.sqrt(d) >= alpha * (1 - 1e-12), nearer, Vacuous, R=R)


def floats(*values: Any) -> tuple[Any, ...]:
    """The numbers as floats or arrays; floats stay plain, as numpy scalars cost three times as much."""
    return tuple(float(v) if isinstance(v, int | float) else np.asarray(v, dtype=float) for v in values)


# ---------------------------------------------------------------- steps and noise
def tree_levels(num_leaves: Any) -> Any:
    """The number of nodes that hold a leaf."""
    # frexp is exact, the logarithm is not: mantissa * 2^exponent, from 1/2 to 1.
    return np.frexp(num_leaves)[1]


def resets_of(steps: Any, period: Any) -> tuple[Any, Any]:
    """The numbers of resets and of increments among the steps."""
    resets = np.ceil(np.asarray(steps) / period)
    return resets, np.maximum(np.ceil(steps) - resets, 0.0)


def _steps(d: Any, alpha: Any, beta: Any, Phi: Any, L: Any, least_block: Any) -> dict[str, Any]:
    """The steps, where the oracle's error is at most beta/6.

    The radius alpha is shared by smoothing and the way of a block. Of Proposition 2.6, as corrected, with G1 <= L + G0,
    each of gap/(D T), (5/2) G1/sqrt(M) and 2 G0 is at most beta/3.
    """
    radius = alpha / 2
    block = np.ceil(np.maximum(np.maximum((7.5 * (L + beta / 6) / beta) ** 2, np.sqrt(d)), least_block))
    move = radius / block
    gap = Phi + L * radius * d / (d + 1)  # own.smoothing_error
    likely = np.maximum(np.log(360 * d * L / beta), 1.0)  # clipping moves the mean by at most 6 d L e^-likely: beta/60
    return {
        "T": block * np.ceil(3 * gap / (move * beta) / block),
        "D": move,
        "Sigma": np.floor(block / np.sqrt(d)),
        "M": block,
        # Hoeffding's inequality for vectors: all but e^-likely of the means of so many estimates are not clipped.
        "m": np.ceil(2 * d * likely),
        "m_reset": np.ceil(8 * d**2 * likely),
        "clip_reset": 2 * L + 0 * move,
        "clip_increment": 6 * np.sqrt(d) * L / block,
    }


def single_pass(
    d: Any, alpha: Any, beta: Any, epsilon: Any, delta: Any, Phi: Any, L: Any
) -> tuple[dict[str, Any], Any]:
    """Theorem 3.1 with every constant, and the sensitivity of a leaf.

    Directions are shared by neighbours and by the two points of an increment, and the mean of a sample's directions is
    clipped (own.coupled, own.common, own.clipping): so the sensitivity holds always, and is twice the clipping norm
    over the minibatch. Variances are those of Lemma 3.6, of which the directions are at most as much again; they are to
    be at most (0.15 beta)^2, and what clipping moves the mean beta/60. With B1 = Sigma and B2 = 1 the increment's
    sensitivity, 12 sqrt(d) L/M, is the larger one, and 12 sqrt(d)/M + 144 (d levels noise/M)^2 <= (0.15 beta/L)^2.
    """
    domain(alpha, beta, Phi, L)
    noise, share = least_noise(epsilon, delta), (0.15 * beta / L) ** 2
    levels = 0 * share + 1.0
    while True:
        private = 24 * d * levels * noise
        block = (12 * np.sqrt(d) + np.sqrt(144 * d + private**2 * share)) / (2 * share)
        found = _steps(d, alpha, beta, Phi, L, block)
        more = tree_levels(found["Sigma"])
        if np.all(more <= levels):
            break
        levels = np.maximum(more, levels)
    resets, increments = resets_of(found["T"], found["Sigma"])
    sensitivity = 2 * found["clip_increment"]
    return {
        "n": resets * found["Sigma"] + increments,
        **found,
        "B1": found["Sigma"],
        "B2": 1.0 + 0 * block,
        "sigma": sensitivity * np.sqrt(more) * noise,
    }, sensitivity


def multi_pass(
    d: Any, alpha: Any, beta: Any, epsilon: Any, delta: Any, Phi: Any, L: Any
) -> tuple[dict[str, Any], Any, Any]:
    """Theorem 4.1 with every constant, and the sensitivities of a reset and of an increment.

    As `single_pass`, but each query is of all n samples: no minibatch errs, and all releases compose to one
    Gaussian. Its noise is shared out so that the error d (sigma1^2 + Sigma sigma2^2) is least.
    """
    domain(alpha, beta, Phi, L)
    found, noise = _steps(d, alpha, beta, Phi, L, 0.0), least_noise(epsilon, delta)
    resets, increments = resets_of(found["T"], found["Sigma"])
    # Root of the number of releases times n times their sensitivity; and what a sigma weighs in the error.
    first, second = (
        np.sqrt(np.maximum(count, 1.0)) * 2 * clip
        for count, clip in ((resets, found["clip_reset"]), (increments, found["clip_increment"]))
    )
    weight_first, weight_second = np.sqrt(d), np.sqrt(d * found["Sigma"])
    error = first * weight_first + second * weight_second
    share, directions = (0.15 * beta) ** 2, L**2 / 4 + 2 * np.sqrt(d) * L**2 / found["M"]
    size = np.ceil((directions + np.sqrt(directions**2 + 4 * (noise * error) ** 2 * share)) / (2 * share))
    return (
        {
            "n": size,
            **found,
            "sigma1": np.sqrt(first / weight_first * error) * noise / size,
            "sigma2": np.sqrt(second / weight_second * error) * noise / size,
        },
        2 * found["clip_reset"] / size,
        2 * found["clip_increment"] / size,
    )


def plain(d: Any, alpha: Any, beta: Any, epsilon: Any, delta: Any, Phi: Any, L: Any, constants: str) -> dict[str, Any]:
    """Samples and steps without variance reduction, in one pass and in many."""
    d, alpha, beta, epsilon, delta, Phi, L = floats(d, alpha, beta, epsilon, delta, Phi, L)
    domain(alpha, beta, Phi, L)
    regret = 2.5 if constants == "corrected" else 2.0
    gap = Phi + L * alpha * d / (d + 1)
    ratio = 1 / least_noise(epsilon, delta)
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
