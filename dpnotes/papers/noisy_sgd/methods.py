"""The methods of Avdiukhin et al., for `dpnotes.atlas`."""

import math
from typing import Any

from dpnotes.papers.noisy_sgd.calculators import CLOSED_LOOP
from dpnotes.papers.noisy_sgd.claims import CLAIMS
from dpnotes.theory.calculators import Measure
from dpnotes.theory.methods import Given, Method, named, order, run, stated

accuracy, simple, privacy, noise = named(CLAIMS, "thm3.5.sigma", "thm3.5.alpha", "thm3.3.privacy", "own.noise")


def _whole(given: Given) -> dict[str, Any]:
    """The same numbers with whole batches, and the noise of a gradient bounded by its norm."""
    return {**given, "batch_size": given["num_examples"], "gradient_noise": given["lipschitz"]}


def _parameters(given: Given, accuracy: float) -> dict[str, Any]:
    found = CLOSED_LOOP.at(_whole(given), constants="one")
    n = float(given["num_examples"])
    letters = {"noise": "Delta", "steps": "T", "step_size": "eta"}
    return {"gradients": n * math.ceil(found["T"]), "batch": n, **run(found, **letters)}


METHODS = (
    Method(
        "noisy SGD", Measure.SECOND_ORDER_EMPIRICAL, (accuracy, simple, privacy, noise),
        order(accuracy).renamed(gradient_noise="lipschitz"), stated(accuracy), parameters=_parameters,
        proved=lambda given: CLOSED_LOOP.at(_whole(given), c=1.0, c_eta=1.0, constants="corrected")["alpha"],
        assumed="c = c_eta = 1", experiment="noisy_sgd.slopes", note="The noise sigma of a gradient is taken as G.",
    ),
)  # fmt: skip
