"""The exercise of notebooks/evidence/02_noisy_sgd_evidence."""

import math

from dpnotes.notebook.teaching import exercise
from dpnotes.papers.noisy_sgd.experiments.escape import spread


@exercise
def how_far(function):
    """Write the function that gives the standard deviation, along the escape direction, of a *single* run after $t$
    steps from the saddle of a quadratic.

    Hints:
      y_{t+1} = (1 + eta gamma) y_t - eta xi_t, with y_0 = 0: a sum of independent Gaussians.

      The variances add up: the draw of a step has been multiplied by (1 + eta gamma) once for each later step.
    """
    for noise, step_size, curvature, steps in ((0.01, 0.1, 1.0, 30), (1e-4, 0.05, 0.5, 200), (0.2, 0.1, 2.0, 1)):
        answer = float(function(noise, step_size, curvature, steps))
        growth, one_step = 1 + step_size * curvature, step_size * noise
        right = one_step * spread(step_size * curvature, steps)
        if math.isclose(answer, right, rel_tol=1e-6):
            continue
        reasons = {
            "this is the distance of a run and its mirror image.": 2 * right,
            "this is a random walk: nothing pushes what is off the saddle.": one_step * math.sqrt(steps),
            "this is what the first step's noise becomes; later steps add theirs.": one_step * growth**steps,
            "standard deviations were added; of independent draws it is the variances that add.": one_step
            * (growth**steps - 1)
            / (growth - 1),
        }
        found = [said for said, value in reasons.items() if math.isclose(answer, value, rel_tol=1e-6)]
        at = f"noise {noise:g}, eta {step_size:g}, gamma {curvature:g}, t = {steps}"
        return found[0] if found else f"at {at} it is too {'small' if answer < right else 'large'}."
    return ""
