"""The methods of Kornowski, Liu and Talwar, the prior work and our plain ones, for `dpnotes.atlas`."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

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


def _one_pass(given: Given, accuracy: float) -> dict[str, Any]:
    """The parameters of Theorem 3.1 at an accuracy."""
    found = c.SINGLE_PASS_PARAMETERS.at(given, beta=accuracy, constants="one")
    fresh = found["B1"] / found["Sigma"] + 2 * found["B2"]  # points, a step
    known = run(found, batch="B1", noise="sigma", steps="T", step_size="eta")
    printed = printed_delta(c.SINGLE_PASS_PARAMETERS, given, beta=accuracy)
    return {"function_values": 2 * found["m"] * found["T"] * fresh, **known, **printed}


def _many_passes(given: Given, accuracy: float) -> dict[str, Any]:
    """The parameters of Theorem 4.1 at an accuracy, on all examples: there may be more than the theorem asks for."""
    found = c.MULTI_PASS_PARAMETERS.at(given, beta=accuracy, constants="one")
    n = float(given["num_examples"])
    more = n / found["n"]  # sensitivities and noise are proportional to 1/n
    directions = max(found["m_accuracy"] * more, found["m_increment"] * more**2, found["m_reset"] * more**2)
    points = n * (1 / found["Sigma"] + 2)  # a step
    noise = max(found["sigma1"], found["sigma2"]) / more  # of a reset, of an increment
    known = run({**found, "noise": noise}, noise="noise", steps="T", step_size="eta")
    printed = printed_delta(c.MULTI_PASS_PARAMETERS, given, beta=accuracy)
    return {"function_values": 2 * directions * found["T"] * points, "batch": n, **known, **printed}


def _plain(passes: str) -> Callable[[Given, float], dict[str, Any]]:
    """The parameters of the plain methods at an accuracy: a batch of fresh gradients in each step, or all of them."""

    def parameters(given: Given, accuracy: float) -> dict[str, Any]:
        found = c.PLAIN_PARAMETERS.at(given, beta=accuracy, constants="one")
        n, noise = float(given["num_examples"]), found[f"sigma_{passes}"]
        batch, releases = (found["B"], 1.0) if passes == "single" else (n, float(np.ceil(found["T"])))  # of an example
        if passes == "multi":  # for the examples there are, which may be more than the accuracy needs
            noise *= found["n"] / n
        level = noise * batch / (2 * given["lipschitz"] * math.sqrt(releases))
        reached = float(gaussian_delta(given["epsilon"], level))
        known = run({**found, "noise": noise, "delta_reached": reached}, noise="noise", steps="T", step_size="eta")
        steps = found["T"] if passes == "single" else releases
        return {"gradients": steps * batch, "batch": batch, **known}

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
_LARGER = "Resets and increments have their own noise; this is the larger one, which is private for both."
METHODS = (
    Method(
        "one pass with a tree (Theorem 3.1)", _POPULATION, (single, directions), order(single), stated(single),
        parameters=_one_pass, proved=_proved(c.SINGLE_PASS_ACCURACY), experiment="goldstein.complexity",
        note="By function values; with gradients (Theorem 6.1) the same examples and one direction.", domain=(_NEAR,),
    ),
    Method(
        "many passes and uniform deviation (Remark 4.2)", _POPULATION, (population, multi, for_privacy, deviation),
        order(population) | GENERALISES, stated(population), parameters=_many_passes,
        experiment="goldstein.generalisation", domain=(_NEAR,), note=_LARGER,
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
        "many passes (Theorem 4.1)", _DATA, (multi, for_privacy), order(multi), stated(multi), parameters=_many_passes,
        proved=_proved(c.MULTI_PASS_ACCURACY), experiment="goldstein.mnist", domain=(_NEAR,), note=_LARGER,
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
