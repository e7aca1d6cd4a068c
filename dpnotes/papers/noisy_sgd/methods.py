"""The methods of Avdiukhin et al., for `dpnotes.atlas`."""

import math
from fractions import Fraction
from typing import Any

from dpnotes.papers.noisy_sgd.calculators import CLOSED_LOOP
from dpnotes.papers.noisy_sgd.claims import CLAIMS
from dpnotes.theory.calculators import Measure
from dpnotes.theory.methods import Condition, Given, Method, named, order, run, stated

accuracy, simple, privacy, noise = named(CLAIMS, "thm3.5.sigma", "thm3.5.alpha", "thm3.3.privacy", "own.noise")


def _whole(given: Given) -> dict[str, Any]:
    """The same numbers with whole batches, and the noise of a gradient bounded by its norm."""
    return {**given, "batch_size": given["num_examples"], "gradient_noise": given["lipschitz"]}


def _parameters(given: Given, accuracy: float) -> dict[str, Any]:
    found = CLOSED_LOOP.at(_whole(given), constants="one")
    n = float(given["num_examples"])
    letters = {"noise": "Delta", "steps": "T", "step_size": "eta"}
    return {"gradients": n * math.ceil(found["T"]), "batch": n, **run(found, **letters)}


# Section B assumes L >= sqrt(rho alpha); Definition B.1 has another step size where alpha^2 is above L f_max.
_DOMAIN = (
    Condition(
        "expected alpha={accuracy:.4g} <= M^2/rho={limit:.4g}: the paper assumes it",
        {"accuracy": 1, "hessian_lipschitz": 1, "smoothness": -2},
    ),
    Condition(
        "expected alpha={accuracy:.4g} <= sqrt(M gap)={limit:.4g}: beyond, the step size has another form",
        {"accuracy": 1, "smoothness": Fraction(-1, 2), "initial_gap": Fraction(-1, 2)},
    ),
)
METHODS = (
    Method(
        "noisy SGD", Measure.SECOND_ORDER_EMPIRICAL, (accuracy, simple, privacy, noise),
        order(accuracy).renamed(gradient_noise="lipschitz"), stated(accuracy), parameters=_parameters,
        proved=lambda given: CLOSED_LOOP.at(_whole(given), c=1.0, c_eta=1.0, constants="corrected")["alpha"],
        assumed="if c = c_eta = 1", experiment="noisy_sgd.slopes", domain=_DOMAIN,
        note="No Lipschitz constant is assumed: gradients are bounded by the larger of sqrt(M gap), even where G is "
        "smaller, and their noise sigma, which is taken as G.",
    ),
)  # fmt: skip
