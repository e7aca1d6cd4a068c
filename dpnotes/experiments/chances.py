"""Chances of a rule: its verdicts on simulated results, before any result is there.

A rule that says "reproduced" whatever comes out shows nothing, and one that hardly ever can shows no more. So each rule
is tried out on two kinds of simulated results: in one what is asked is so, in the other, the nearest rival, it is not.
Both scatter as the results do. How often either is judged "reproduced" stands in the specs, beside the rule.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpnotes.experiments.spec import Chances, Experiment, Spec
from dpnotes.util import validate

if TYPE_CHECKING:
    import pandas as pd

SIMULATIONS = 200


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """Simulated results of an experiment: by the prediction and by its nearest rival.

    Args:
      prediction: the case in which what is asked is so, in words: what holds exactly, and how results scatter.
      rival: the nearest case in which it is not.
      frame: `frame(spec, generator, right)` draws one result as all cells together would give it, by the prediction if
        `right`, else by the rival.
      stated: by profile, the shares judged "reproduced" of either, of `SIMULATIONS` results.
    """

    prediction: str
    rival: str
    frame: "Callable[[Spec, np.random.Generator, bool], pd.DataFrame]"
    stated: Mapping[str, tuple[float, float]]

    def chances(self, profile: str) -> Chances | None:
        """The chances that are stated of one profile."""
        shares = self.stated.get(profile)
        return Chances(self.prediction, self.rival, *shares, SIMULATIONS) if shares else None


def simulate(
    experiment: Experiment, profile: str, simulations: int = SIMULATIONS, seed: int = 0
) -> tuple[Chances, dict[str, dict[str, int]]]:
    """Try an experiment's rule out on simulated results.

    Args:
      experiment: with a simulation.
      profile: whose spec.
      simulations: results to draw of either case.
      seed: of the draws; one that is not used elsewhere.

    Returns:
      The shares judged "reproduced"; and by case, "prediction" and "rival", how often each verdict was given.

    Raises:
      ValueError: an experiment without simulation, an unknown profile, simulations < 1.
    """
    validate.at_least(1, simulations=simulations)
    simulation, spec = experiment.simulation, experiment.spec(profile)
    if simulation is None:
        raise ValueError(f"Expected {experiment.id} to have a simulation of its results.")
    counts: dict[str, dict[str, int]] = {}
    for number, case in enumerate(("prediction", "rival")):
        generators = np.random.default_rng((seed, number)).spawn(simulations)
        frames = (simulation.frame(spec, generator, case == "prediction") for generator in generators)
        counts[case] = Counter(experiment.decide(frame, spec).verdict for frame in frames)
    right, rival = (verdicts.get("reproduced", 0) / simulations for verdicts in counts.values())
    return Chances(simulation.prediction, simulation.rival, right, rival, simulations), counts
