"""The method of the drift escape paper, for `dpnotes.atlas`."""

from typing import Any

from dpnotes.papers.drift_escape.calculators import SHARED_RATE
from dpnotes.papers.drift_escape.claims import CLAIMS
from dpnotes.theory.calculators import Measure
from dpnotes.theory.methods import Given, Method, named, order, printed_delta, run, stated

shared, alone, fresh = named(CLAIMS, "thm3.constants", "thm2.constants", "alg2.fresh")


def _parameters(given: Given, accuracy: float) -> dict[str, Any]:
    found = SHARED_RATE.at(given, constants="one")
    gradients = 2 * given["num_examples"] * given["clients"]
    letters = {"batch": "b_1", "noise": "r", "steps": "T", "step_size": "eta"}
    return {"gradients": gradients, **run(found, **letters), **printed_delta(SHARED_RATE, given)}


METHODS = (
    Method(
        "drift escape with adaptive DP-SPIDER", Measure.SECOND_ORDER, (shared, alone, fresh), order(shared),
        stated(shared), parameters=_parameters, relation="replace-one, of one client",
        experiment="drift_escape.sensing", by_clients=True,
    ),
)  # fmt: skip
