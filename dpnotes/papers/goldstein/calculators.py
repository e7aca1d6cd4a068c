"""Sample sizes, accuracies and parameters of Kornowski, Liu and Talwar (2025) as functions of plain numbers.

The paper states orders of magnitude, so that every constant and logarithm is 1 here; `constants="paper"` takes the
formulas as printed, `constants="corrected"` those with the errata and simplifications of the claims.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpnotes.papers.goldstein.notation import L, Phi, alpha, beta, d, epsilon
from dpnotes.theory.calculators import Calculator


def _require(holds: Any, name: str, value: Any, condition: str) -> None:
    """Refuse numbers outside the domain of a theorem, naming the first that is."""
    inside = np.asarray(holds)
    if not inside.all():
        bad = np.broadcast_to(np.asarray(value, dtype=float), inside.shape)[~inside].flat[0]
        raise ValueError(f"Expected {name}={bad:g} {condition}.")


def _domain(alpha: Any, beta: Any, Phi: Any, L: Any) -> None:
    _require(np.less_equal(alpha, np.divide(Phi, L)), "alpha", alpha, "<= Phi/L: the theorems assume it")
    _require(np.less_equal(beta, L), "beta", beta, "<= L: every point is L-stationary")


# Each sample size is a sum of terms, coefficient * beta**-power.
def _terms_prior(d: Any, alpha: Any, epsilon: Any, Phi: Any, L: Any) -> list[tuple[Any, float]]:
    return [(Phi * L**2 * d / alpha, 3.0), (Phi * L * d**1.5 / (epsilon * alpha), 2.0)]


def _terms_single(d: Any, alpha: Any, epsilon: Any, Phi: Any, L: Any) -> list[tuple[Any, float]]:
    return [(Phi * L**2 * np.sqrt(d) / alpha, 3.0), (Phi * L * d / (epsilon * alpha), 2.0)]


def _terms_multi(d: Any, alpha: Any, epsilon: Any, Phi: Any, L: Any) -> list[tuple[Any, float]]:
    return [(np.sqrt(Phi / alpha) * L * d**0.75 / epsilon, 1.5)]


def _terms_generalisation(d: Any, alpha: Any, epsilon: Any, Phi: Any, L: Any) -> list[tuple[Any, float]]:
    return [(L**2 * d + 0 * epsilon, 2.0)]


def _terms_plain_single(d: Any, alpha: Any, epsilon: Any, Phi: Any, L: Any) -> list[tuple[Any, float]]:
    return [(Phi * L**2 / alpha * (1 + np.sqrt(d) / epsilon), 3.0)]


def _terms_plain_multi(d: Any, alpha: Any, epsilon: Any, Phi: Any, L: Any) -> list[tuple[Any, float]]:
    return [(np.sqrt(Phi / alpha) * L * np.sqrt(d) / epsilon, 1.5)]


_METHODS: dict[str, tuple[tuple[Callable[..., list[tuple[Any, float]]], ...], str]] = {
    "prior": ((_terms_prior,), "eq. (1), Zhang et al. (2024)"),
    "single_pass": ((_terms_single,), "Theorems 3.1 and 6.1"),
    "multi_pass_empirical": ((_terms_multi,), "Theorem 4.1, for the empirical objective"),
    "multi_pass": ((_terms_multi, _terms_generalisation), "Theorem 4.1 and Remark 4.2"),
    "plain_single_pass": ((_terms_plain_single,), "one pass without variance reduction (own result)"),
    "plain_multi_pass_empirical": ((_terms_plain_multi,), "many passes without variance reduction (own result)"),
    "plain_multi_pass": ((_terms_plain_multi, _terms_generalisation), "the same, for the population"),
}


def _method_terms(name: str, *problem: Any) -> list[tuple[Any, float]]:
    return [term for part in _METHODS[name][0] for term in part(*problem)]


def _size(name: str, d: Any, alpha: Any, beta: Any, epsilon: Any, Phi: Any, L: Any) -> Any:
    return sum(term * beta**-power for term, power in _method_terms(name, d, alpha, epsilon, Phi, L))


def _floats(*values: Any) -> tuple[Any, ...]:
    # Plain floats stay plain: numpy scalars cost three times as much.
    return tuple(float(v) if isinstance(v, int | float) else np.asarray(v, dtype=float) for v in values)


def _sizes(d: Any, alpha: Any, beta: Any, epsilon: Any, Phi: Any, L: Any) -> dict[str, Any]:
    _domain(alpha, beta, Phi, L)
    problem = _floats(d, alpha, beta, epsilon, Phi, L)
    return {name: _size(name, *problem) for name in _METHODS}


def _one_size(name: str) -> Callable[..., dict[str, Any]]:
    def size(d: Any, alpha: Any, beta: Any, epsilon: Any, Phi: Any, L: Any) -> dict[str, Any]:
        _domain(alpha, beta, Phi, L)
        return {"n": _size(name, *_floats(d, alpha, beta, epsilon, Phi, L))}

    return size


_PROBLEM = (d, alpha, beta, epsilon, Phi, L)
SIZES = Calculator(_sizes, _PROBLEM, {name: f"sample size: {what}" for name, (_, what) in _METHODS.items()})
SINGLE_PASS = Calculator(_one_size("single_pass"), _PROBLEM, {"n": "sample size"})
MULTI_PASS = Calculator(_one_size("multi_pass_empirical"), _PROBLEM, {"n": "sample size"})
PLAIN_SINGLE_PASS = PLAIN_MULTI_PASS = TREE_NOISE = CONVERSION = SINGLE_PASS_PARAMETERS = ACCURACY = (
    MULTI_PASS_PARAMETERS
) = MULTI_PASS_DIRECTIONS = LASRY_LIONS = CROSSOVERS = None
