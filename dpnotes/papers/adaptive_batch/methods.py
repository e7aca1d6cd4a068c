"""The methods of Liu and Talwar, and those that they compare with, for `dpnotes.atlas`."""

from fractions import Fraction
from typing import Any

from dpnotes.papers.adaptive_batch.calculators import THEOREM
from dpnotes.papers.adaptive_batch.claims import CLAIMS
from dpnotes.theory.calculators import Measure
from dpnotes.theory.methods import Condition, Given, Method, named, order, printed_delta, run, stated

_POPULATION, _DATA = Measure.SECOND_ORDER, Measure.SECOND_ORDER_EMPIRICAL
best, theorem, sigma, decrease, fixed, first_order, lower, combined, deviation, hessian = named(
    CLAIMS, "own.best_rate", "thm3.11.alpha", "thm3.11.sigma", "lemma3.3.decrease", "own.spider_gaussian",
    "sec1.1.arora", "sec1.1.lower_bound", "secA.2.alpha", "thmA.2.gradient", "own.net_hessian",
)  # fmt: skip
_GANESH = named(CLAIMS, "sec1.1.ganesh.private", "sec1.1.ganesh.sampling")
EMPIRICAL = order(combined).where("epsilon")  # the quoted rate for the data, without the deviation of Theorem A.2


def _parameters(given: Given, accuracy: float) -> dict[str, Any]:
    found = THEOREM.at(given, constants="one")
    letters = {"batch": "batch", "noise": "sigma", "steps": "steps", "step_size": "step_size"}
    # O2 asks for two gradients at each example.
    return {"gradients": 2 * given["num_examples"], **run(found, **letters), **printed_delta(THEOREM, given)}


_HIGH = Condition(
    "expected d={dim:g} >= alpha^-4 = n^(4/3) = {limit:.4g}: the bound is for high dimension",
    {"dim": -1, "num_examples": Fraction(4, 3)},
)
METHODS = (
    Method(
        "SPIDER with a tree and adaptive batches", _POPULATION, (best, theorem, sigma), order(best), stated(theorem),
        premises=(decrease,), parameters=_parameters, experiment="adaptive_batch.slopes",
        note="Each call of O1 begins a new tree.",
    ),
    Method(
        "SPIDER with Gaussian noise and fixed batches", _POPULATION, (fixed, *_GANESH), order(fixed),
        stated(_GANESH[0]) | stated(_GANESH[1]), source="Ganesh et al. (2023)", experiment="adaptive_batch.slopes",
    ),
    # The last formula of A.2 misprints the deviation of its own Theorem A.2, whose print counts here.
    Method(
        "DP-ERM for saddles, and uniform deviation", _POPULATION, (combined, deviation), order(combined),
        EMPIRICAL | stated(deviation), source="Ganesh et al. (2023)",
    ),
    Method(
        "DP-ERM for saddles", _DATA, (combined,), EMPIRICAL, EMPIRICAL, source="Ganesh et al. (2023)",
    ),
    Method(
        "DP-SPIDER", Measure.FIRST_ORDER, (first_order,), order(first_order), stated(first_order),
        source="Arora et al. (2023)", note="Saddles are not left.",
    ),
    # The bound n^(-1/3) is quoted in words; as a formula it is the sampling term that is quoted beside it.
    Method(
        "no algorithm does better, even without privacy", _POPULATION, (lower,), stated(_GANESH[1]),
        source="Arjevani et al. (2023)", domain=(_HIGH,), floor=True,
    ),
)  # fmt: skip
