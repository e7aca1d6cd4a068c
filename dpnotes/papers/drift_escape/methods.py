"""The method of the drift escape paper, for `dpnotes.atlas`."""

from typing import Any

from dpnotes.papers.drift_escape.calculators import SHARED_RATE
from dpnotes.papers.drift_escape.claims import CLAIMS
from dpnotes.theory.calculators import Measure
from dpnotes.theory.methods import Condition, Given, Method, named, order, printed_delta, run, stated

shared, alone, fresh = named(CLAIMS, "thm3.constants", "thm2.constants", "alg2.fresh")


def _parameters(given: Given, accuracy: float) -> dict[str, Any]:
    found = SHARED_RATE.at(given, constants="one")
    gradients = 2 * given["num_examples"] * given["clients"]
    letters = {"batch": "b_1", "noise": "r", "steps": "T", "step_size": "eta"}
    return {"gradients": gradients, **run(found, **letters), **printed_delta(SHARED_RATE, given)}


# Section 2 assumes M >= sqrt(rho alpha), without which the step size of (4) is above 1/M.
_CURVED = Condition(
    "expected alpha={accuracy:.4g} <= M^2/rho={limit:.4g}: the paper assumes it",
    {"accuracy": 1, "hessian_lipschitz": 1, "smoothness": -2},
)
METHODS = (
    Method(
        "drift escape with adaptive DP-SPIDER", Measure.SECOND_ORDER, (shared, alone, fresh), order(shared),
        stated(shared), parameters=_parameters, relation="replace-one, of one client",
        experiment="drift_escape.sensing", by_clients=True, domain=(_CURVED,),
    ),
)  # fmt: skip
