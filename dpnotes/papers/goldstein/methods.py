"""The methods of Kornowski, Liu and Talwar, the prior work and our plain ones, for `dpnotes.atlas`."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dpnotes.papers.goldstein import calculators as c
from dpnotes.papers.goldstein.claims import CLAIMS
from dpnotes.privacy.calibration import gaussian_delta
from dpnotes.theory.calculators import Calculator, Measure
from dpnotes.theory.methods import Condition, Given, Method, named, order, printed_delta, run, stated

_POPULATION, _DATA = Measure.GOLDSTEIN, Measure.GOLDSTEIN_EMPIRICAL
single, directions, multi, for_privacy, deviation, population, prior, plain_single, plain_multi, lasry, start = named(
    CLAIMS, "thm3.1.rate", "thm3.1.m", "thm4.1.rate", "lemma4.3.m", "own.generalisation", "remark4.2", "table1.zhang",
    "own.plain_single", "own.plain_multi", "thmB.5.rate", "thmB.5.start",
)  # fmt: skip
GENERALISES = stated(deviation, "ell_R")


def _runs(calculator: Calculator, batch: str, noise: str) -> Callable[[Given, float], dict[str, Any]]:
    """The parameters of Theorem 3.1 or 4.1 at an accuracy."""

    def parameters(given: Given, accuracy: float) -> dict[str, Any]:
        found = calculator.at(given, beta=accuracy, constants="one")
        fresh = found[batch] / found["Sigma"] + 2 * found.get("B2", found["n"])  # points, a step
        calls = 2 * found["m"] * found["T"] * fresh
        known = run(found, batch=batch, noise=noise, steps="T", step_size="eta")
        return {"function_values": calls, **known, **printed_delta(calculator, given, beta=accuracy)}

    return parameters


def _plain(passes: str) -> Callable[[Given, float], dict[str, Any]]:
    """The parameters of the plain methods at an accuracy: a batch of fresh gradients in each step, or all of them."""

    def parameters(given: Given, accuracy: float) -> dict[str, Any]:
        found = c.PLAIN_PARAMETERS.at(given, beta=accuracy, constants="one")
        batch = found["B"] if passes == "single" else float(given["num_examples"])
        releases = 1 if passes == "single" else found["T"]  # of one example: a fresh batch touches it once
        level = found[f"sigma_{passes}"] * batch / (2 * given["lipschitz"] * math.sqrt(releases))
        reached = float(gaussian_delta(given["epsilon"], level))
        known = run({**found, "delta_reached": reached}, noise=f"sigma_{passes}", steps="T", step_size="eta")
        return {"gradients": found["T"] * batch, "batch": batch, **known}

    return parameters


def _proved(calculator: Calculator) -> Callable[[Given], float]:
    return lambda given: calculator.at(given, constants="corrected")["beta"]


_NEAR = Condition(
    "expected radius={radius:.4g} <= gap/L={limit:.4g}: the theorems assume it",
    {"radius": 1, "lipschitz": 1, "initial_gap": -1},
)
_FAR = Condition(
    "expected R={distance:.4g} >= radius/sqrt(d)={limit:.4g}: nearer points are stationary already",
    {"distance": -1, "radius": 1, "dim": Fraction(-1, 2)},
)
_ONE = _runs(c.SINGLE_PASS_PARAMETERS, "B1", "sigma")
_MANY = _runs(c.MULTI_PASS_PARAMETERS, "n", "sigma2")
METHODS = (
    Method(
        "one pass with a tree (Theorem 3.1)", _POPULATION, (single, directions), order(single), stated(single),
        parameters=_ONE, proved=_proved(c.SINGLE_PASS_ACCURACY), experiment="goldstein.complexity",
        note="By function values; with gradients (Theorem 6.1) the same examples and one direction.", domain=(_NEAR,),
    ),
    Method(
        "many passes and uniform deviation (Remark 4.2)", _POPULATION, (population, multi, for_privacy, deviation),
        order(population) | GENERALISES, stated(population), parameters=_MANY, experiment="goldstein.generalisation",
        domain=(_NEAR,),
    ),
    Method(
        "one plain pass (ours)", _POPULATION, (plain_single,), order(plain_single), parameters=_plain("single"),
        proved=_proved(c.PLAIN_SINGLE_PASS_ACCURACY), experiment="goldstein.complexity",
        note="Without variance reduction.", domain=(_NEAR,),
    ),
    Method(
        "many plain passes and uniform deviation (ours)", _POPULATION, (plain_multi, deviation),
        order(plain_multi) | GENERALISES, parameters=_plain("multi"), experiment="goldstein.complexity",
        note="Without variance reduction.", domain=(_NEAR,),
    ),
    Method(
        "one pass, prior work", _POPULATION, (prior,), order(prior), stated(prior), source="Zhang et al. (2024)",
        domain=(_NEAR,),
    ),
    Method(
        "many passes (Theorem 4.1)", _DATA, (multi, for_privacy), order(multi), stated(multi), parameters=_MANY,
        proved=_proved(c.MULTI_PASS_ACCURACY), experiment="goldstein.mnist", domain=(_NEAR,),
    ),
    Method(
        "many plain passes (ours)", _DATA, (plain_multi,), order(plain_multi), parameters=_plain("multi"),
        proved=_proved(c.PLAIN_MULTI_PASS_ACCURACY), experiment="goldstein.mnist", note="Without variance reduction.",
        domain=(_NEAR,),
    ),
    Method(
        "Lasry-Lions smoothing and a warm start (Theorem B.5)", _DATA, (lasry,), order(lasry), premises=(start,),
        note="Inefficient: the start is drawn by the exponential mechanism. As printed its units differ.",
        domain=(_FAR,),
    ),
)  # fmt: skip
