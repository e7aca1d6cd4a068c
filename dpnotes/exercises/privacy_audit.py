"""The exercises of notebooks/privacy_audit."""

import torch

from dpnotes.notebook.teaching import exercise, near
from dpnotes.privacy.accounting import rho_to_epsilon
from dpnotes.privacy.audit import epsilon_from_counts, from_scores
from dpnotes.privacy.museum import exhibits
from dpnotes.random.streams import Streams


@exercise
def fewest(number):
    r"""An attack is always right: its event occurs in every run with the example and in no run without it. How many
    runs on each side does it need to refute $\varepsilon = 3$ at $\delta = 0$ and level 1%? Give the smallest number.

    Hints:
      With N hits of N, the lower end for p is 0.005^(1/N): half of the level goes to each side.

      With no hit of N, the upper end for p' is 1 - 0.005^(1/N).

      Look for the least N at which the ratio of the two ends exceeds e^3.
    """
    if number != int(number) or number < 2:
        return "it should be a whole number of runs, at least 2."
    runs, bound = int(number), lambda runs: float(epsilon_from_counts(runs, runs, 0, runs, delta=0.0, level=0.01))
    if bound(runs) <= 3:
        return f"{runs} runs are too few: they only show epsilon >= {bound(runs):.5g}."
    return "fewer runs are enough." if bound(runs - 1) > 3 else ""


@exercise
def attack_reuse(function):
    """Four answers, each with noise of standard deviation 2; the example moves them by $+1, -1, +1, -1$. The program
    *noise reused* draws the same noise for all four. Write the attack: a function from outputs `(runs, 4)` to one score
    for each run, high if the example was included.

    Hints:
      What is the noise of the difference of the first two outputs?

      In which combination of columns does the noise cancel, but not the example?
    """
    (exhibit,) = (one for one in exhibits() if one.name == "noise reused")
    sides = []
    for side, data in (("True", exhibit.setting.included), ("False", exhibit.setting.without)):
        noise = Streams.of("exercise", [side]).normal("noise", 0, 4 * 1200)[0].view(-1, 4)
        outputs = exhibit.broken(data.expand(1200, 4), noise, **exhibit.setting.options)
        sides.append(torch.as_tensor(function(outputs)))
    bound = from_scores(*sides, delta=exhibit.claim.delta, relation=exhibit.claim.relation)
    shown = f"it shows epsilon >= {bound.epsilon:.2f}, and {exhibit.claim.epsilon:.2f} is claimed."
    return "" if bound.exceeds(exhibit.claim) else shown


@exercise
def right_root(number):
    r"""Solve $\rho + 2\sqrt{\rho \ln(1/\delta)} = \varepsilon$ for $\rho$ at $\varepsilon = 2$, $\delta = 10^{-6}$.
    Which root is private?

    Hints:
      It is a quadratic equation in the square root of rho.

      The quadratic has two roots, and a square root of rho is not negative.
    """
    epsilon = rho_to_epsilon(number, 1e-6, "classic")
    return near(2.0, 1e-3)(epsilon) and f"a release with this rho has epsilon = {epsilon:.3g}."
