"""Theorems 3.1 and 4.1 of Kornowski, Liu and Talwar (2025), and plain oracles, with explicit, proved constants."""

import math
from typing import Any

import numpy as np

from dpnotes.privacy.calibration import gaussian_std
from dpnotes.theory.refusals import Vacuous, require, require_informative

# The smallest noise multiplier of a Gaussian that is (epsilon, delta)-DP, elementwise on arrays.
least_noise = np.vectorize(gaussian_std, otypes=[float])


# ---------------------------------------------------------------- the domain of a theorem
def domain(alpha: Any, beta: Any, Phi: Any, L: Any) -> None:
    """Refuse a radius or an accuracy that the theorems exclude."""
    # The division rounds: alpha = Phi/L itself must pass.
    require(alpha <= Phi / L * (1 + 1e-12), "Expected alpha={alpha:g} <= Phi/L: the theorems assume it.", alpha=alpha)
    below_lipschitz(beta, L)


def below_lipschitz(beta: Any, L: Any) -> None:
    """Refuse an accuracy of at least L, which every point reaches."""
    require_informative("beta", beta, "L", L, closed=True)


def far(d: Any, alpha: Any, R: Any) -> None:
    """Refuse an initial distance within which every point is stationary."""
    nearer = "Expected R={R:g} >= alpha/sqrt(d): the bound is vacuous, nearer points are stationary already."
    require(R * np.sqrt(d) >= alpha * (1 - 1e-12), nearer, Vacuous, R=R)


def floats(*values: Any) -> tuple[Any, ...]:
    """Return the numbers as Python floats or arrays; numpy scalars would take three times as long."""
    return tuple(float(v) if isinstance(v, int | float) else np.asarray(v, dtype=float) for v in values)


# ---------------------------------------------------------------- steps and noise
def tree_levels(num_leaves: Any) -> Any:
    """Return the largest number of nodes of the tree that contain one leaf: floor(log2(leaves)) + 1."""
    # frexp is exact at powers of two and log2 is not: it returns a mantissa in [1/2, 1) and the exponent.
    return np.frexp(num_leaves)[1]


def resets_of(steps: Any, period: Any) -> tuple[Any, Any]:
    """Return the numbers of resets and of increments among the steps."""
    resets = np.ceil(np.asarray(steps) / period)
    return resets, np.maximum(np.ceil(steps) - resets, 0.0)


def _steps(d: Any, alpha: Any, beta: Any, Phi: Any, L: Any, least_block: Any) -> dict[str, Any]:
    """Return the parameters of a run whose oracle error is at most beta/6.

    Smoothing uses half of the radius alpha, the moves within a block the other half. In the corrected Proposition 2.6,
    with G1 <= L + G0, each of the three terms gap/(D T), (5/2) G1/sqrt(M) and 2 G0 is at most beta/3.
    """
    radius = alpha / 2
    block = np.ceil(np.maximum(np.maximum((7.5 * (L + beta / 6) / beta) ** 2, np.sqrt(d)), least_block))
    move = radius / block
    gap = Phi + L * radius * d / (d + 1)  # claim own.smoothing_error
    # Clipping moves the mean by at most 6 d L e^-likely, which is at most beta/60.
    likely = np.maximum(np.log(360 * d * L / beta), 1.0)
    return {
        "T": block * np.ceil(3 * gap / (move * beta) / block),
        "D": move,
        "Sigma": np.floor(block / np.sqrt(d)),
        "M": block,
        # By Hoeffding's inequality for vectors, the mean of this many estimates is clipped with probability at most
        # e^-likely.
        "m": np.ceil(2 * d * likely),
        "m_reset": np.ceil(8 * d**2 * likely),
        "clip_reset": 2 * L + 0 * move,
        "clip_increment": 6 * np.sqrt(d) * L / block,
    }


def single_pass(
    d: Any, alpha: Any, beta: Any, epsilon: Any, delta: Any, Phi: Any, L: Any
) -> tuple[dict[str, Any], Any]:
    """Return the parameters of Theorem 3.1 with explicit constants, and the sensitivity of a leaf.

    Neighbouring data sets use the same directions, so do the two points of an increment, and the mean over a sample's
    directions is clipped (claims own.coupled, own.common, own.clipping). The sensitivity therefore always holds; it is
    twice the clipping norm divided by the minibatch size. The variances are those of Lemma 3.6; the random directions
    add at most as much again. The total must be at most (0.15 beta)^2, and the bias of clipping at most beta/60. With
    B1 = Sigma and B2 = 1 the increment has the larger sensitivity, 12 sqrt(d) L/M, and M must satisfy 12 sqrt(d)/M +
    144 (d levels noise/M)^2 <= (0.15 beta/L)^2.
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
    batches = {"B1": found["Sigma"], "B2": 1.0 + 0 * block, "sigma": sensitivity * np.sqrt(more) * noise}
    return {"n": resets * found["Sigma"] + increments, **found, **batches}, sensitivity


def multi_pass(
    d: Any, alpha: Any, beta: Any, epsilon: Any, delta: Any, Phi: Any, L: Any
) -> tuple[dict[str, Any], Any, Any]:
    """Return the parameters of Theorem 4.1 with explicit constants, and the sensitivities of reset and increment.

    The derivation is that of `single_pass`, but each query uses all n samples: there is no sampling error of a
    minibatch, and all releases compose to one Gaussian mechanism. Its budget is divided between resets and increments
    so that the error d (sigma1^2 + Sigma sigma2^2) is smallest.
    """
    domain(alpha, beta, Phi, L)
    found, noise = _steps(d, alpha, beta, Phi, L, 0.0), least_noise(epsilon, delta)
    resets, increments = resets_of(found["T"], found["Sigma"])
    # For resets and increments: sqrt(number of releases) * n * sensitivity, and the weight of their sigma in the error.
    first, second = (
        np.sqrt(np.maximum(count, 1.0)) * 2 * clip
        for count, clip in ((resets, found["clip_reset"]), (increments, found["clip_increment"]))
    )
    weight_first, weight_second = np.sqrt(d), np.sqrt(d * found["Sigma"])
    error = first * weight_first + second * weight_second
    share, directions = (0.15 * beta) ** 2, L**2 / 4 + 2 * np.sqrt(d) * L**2 / found["M"]
    size = np.ceil((directions + np.sqrt(directions**2 + 4 * (noise * error) ** 2 * share)) / (2 * share))
    noises = {
        "sigma1": np.sqrt(first / weight_first * error) * noise / size,
        "sigma2": np.sqrt(second / weight_second * error) * noise / size,
    }
    return {"n": size, **found, **noises}, 2 * found["clip_reset"] / size, 2 * found["clip_increment"] / size


def plain(d: Any, alpha: Any, beta: Any, epsilon: Any, delta: Any, Phi: Any, L: Any, constants: str) -> dict[str, Any]:
    """Return the samples and steps needed without variance reduction, in a single pass and in several passes."""
    d, alpha, beta, epsilon, delta, Phi, L = floats(d, alpha, beta, epsilon, delta, Phi, L)
    domain(alpha, beta, Phi, L)
    regret = 2.5 if constants == "corrected" else 2.0
    gap = Phi + L * alpha * d / (d + 1)
    ratio = 1 / least_noise(epsilon, delta)
    noise = 4 * d / ratio**2  # equals d sigma^2 B^2/L^2 at the sensitivity 2L/B

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
    # Several passes use d sigma^2 = L^2: less noise would need fewer steps, more noise fewer samples.
    steps = factor * (regret * math.sqrt(2) + 1 + 0 * noise) ** 2
    many = 2 * np.sqrt(d * steps) / ratio
    steps = steps * (1 + 1 / many)  # points sampled in the balls: (a + sqrt(1 + 1/n))^2 <= (a + 1)^2 (1 + 1/n)
    return {
        "n_single_pass": single,
        "B": batch,
        "T_single_pass": single / batch,
        "n_multi_pass": many * np.sqrt(1 + 1 / many),
        "T_multi_pass": steps,
        "ratio": ratio,
    }
