"""The exercises of notebooks/evidence/01_budget_schedules_evidence."""

import math

from dpnotes.notebook.teaching import exercise, near
from dpnotes.papers.budget_schedules import calculators
from dpnotes.privacy.accounting import epsilon_to_rho, readings


@exercise
def best_number(function):
    r"""Write the function that gives the best number of steps of the dynamic schedule, as a real number, for any
    $\kappa$ and $\alpha$.

    Hints:
      In *Where it comes from*, `best_y` is the best value of gamma^(T/2).

      Set gamma^(T/2) equal to `best_y`, with K = 1 / (1 - sqrt(gamma)), and solve for T.
    """
    for kappa, alpha in ((10.0, 1e-3), (10.0, 1e-5), (100.0, 1e-6), (1000.0, 1e-5)):
        answer = float(function(kappa, alpha))
        best = calculators.DYNAMIC(kappa=kappa, alpha=alpha)["steps"]
        if not math.isclose(answer, best, rel_tol=1e-6):
            better = "fewer" if answer > best else "more"
            return f"at kappa = {kappa:g}, alpha = {alpha:g} the bound is lower with {better} steps."
    return ""


@exercise
def replaced(number):
    r"""A colleague publishes a run as $(1, 10^{-6})$-DP, by the paper's sensitivity and the classic conversion, but a
    reader defines neighbours as data sets in which one example was *replaced*. Which $\varepsilon$ is exact under this
    definition, at the same $\delta$?

    Hints:
      Replacing an example moves the mean of clipped gradients twice as far as zeroing it out.

      rho grows with the square of the sensitivity.

      Undo the classic conversion by `epsilon_to_rho`, multiply rho, and convert it by `rho_to_epsilon` with 'exact'.
    """
    _, zeroed, exact = readings(epsilon_to_rho(1.0, 1e-6, "classic"), 1e-6)
    if near(zeroed.epsilon)(number) == "":
        return "this is exact for the paper's neighbours, of which one example is zeroed out."
    return near(exact.epsilon)(number)
