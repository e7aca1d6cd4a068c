"""The schedules of Hong, Wang and Zhou, for `dpnotes.atlas`."""

from typing import Any

from dpnotes.papers.budget_schedules.calculators import RISK
from dpnotes.papers.budget_schedules.claims import CLAIMS
from dpnotes.privacy.calibration import gaussian_delta
from dpnotes.theory.calculators import Measure
from dpnotes.theory.methods import Given, Method, named, run

uniform, dynamic, schedule = named(CLAIMS, "thm4.3.minimum", "thm4.5.minimiser", "thm4.5.schedule")


def _method(name: str, kind: str, *claims: Any) -> Method:
    def parameters(given: Given, accuracy: float) -> dict[str, Any]:
        found = RISK.at(given)
        n, steps = float(given["num_examples"]), found[f"{kind}_steps"]
        reached = float(gaussian_delta(given["epsilon"], found["R"] ** -0.5))  # zCDP R/2 in all
        known = run({**found, "delta_reached": reached}, noise=f"{kind}_noise", steps=f"{kind}_steps")
        return {"gradients": n * steps, "batch": n, "step_size": 1 / given["smoothness"], **known}

    return Method(
        name,
        Measure.EXCESS_RISK,
        claims,
        parameters=parameters,
        proved=lambda given: RISK.at(given)[kind],
        assumed="under the Polyak-Lojasiewicz condition with condition number {condition_number}",
        relation="zero-out-one",
        experiment="budget_schedules.quadratic",
        note="The noise is that of every step."
        if kind == "uniform"
        else "The noise is that of the last step, the least.",
    )


METHODS = (
    _method("gradient descent, uniform schedule", "uniform", uniform),
    _method("gradient descent, dynamic schedule", "dynamic", dynamic, schedule),
)
