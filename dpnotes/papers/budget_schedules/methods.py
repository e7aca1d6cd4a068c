"""The schedules of Hong, Wang and Zhou, for `dpnotes.atlas`."""

from typing import Any

from dpnotes.papers.budget_schedules.calculators import RISK
from dpnotes.papers.budget_schedules.claims import CLAIMS
from dpnotes.theory.calculators import Measure
from dpnotes.theory.methods import Given, Method, named

uniform, dynamic, schedule = named(CLAIMS, "thm4.3.minimum", "thm4.5.minimiser", "thm4.5.schedule")


def _method(name: str, kind: str, *claims: Any) -> Method:
    def parameters(given: Given, accuracy: float) -> dict[str, Any]:
        found = RISK.at(given)
        steps = found[f"{kind}_steps"]
        return {
            "gradients": given["num_examples"] * steps,
            "batch": float(given["num_examples"]),
            "noise": found[f"{kind}_noise"],
            "steps": steps,
            "step_size": 1 / given["smoothness"],
            "delta_reached": given["delta"],
        }

    return Method(
        name,
        Measure.EXCESS_RISK,
        claims,
        parameters=parameters,
        proved=lambda given: RISK.at(given)[kind],
        relation="zero-out-one",
        experiment="budget_schedules.quadratic",
        note="Under the condition of Polyak and Lojasiewicz; the noise is that of the last step.",
    )


METHODS = (
    _method("gradient descent, uniform schedule", "uniform", uniform),
    _method("gradient descent, dynamic schedule", "dynamic", dynamic, schedule),
)
