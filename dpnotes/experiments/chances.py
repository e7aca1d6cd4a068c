"""What a rule would say: its verdicts on simulated results, before any result is there.

A rule that says "reproduced" whatever comes out shows nothing, and one that hardly ever can shows no more. So each rule
is tried out in two worlds: in one what is asked is so, in the other, the nearest rival, it is not. Both scatter as the
results do. How often either is judged "reproduced" stands in the specs, beside the rule.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpnotes.experiments.spec import Chances, Experiment, Spec
from dpnotes.util import validate

if TYPE_CHECKING:
    import pandas as pd

SIMULATIONS = 200


@dataclass(frozen=True, kw_only=True)
class Worlds:
    """Two worlds in which an experiment's rule is tried out.

    Args:
      prediction: the one in which what is asked is so, in words: what holds exactly, and how results scatter.
      rival: the nearest one in which it is not.
      frame: `frame(spec, generator, right)` draws one result as all cells together would give it, in the world of the
        prediction if `right`, else in the rival's.
      stated: by profile, the shares judged "reproduced" in either world, of `SIMULATIONS` results.
    """

    prediction: str
    rival: str
    frame: "Callable[[Spec, np.random.Generator, bool], pd.DataFrame]"
    stated: Mapping[str, tuple[float, float]]

    def chances(self, profile: str) -> Chances | None:
        """What is stated of one profile."""
        shares = self.stated.get(profile)
        return Chances(self.prediction, self.rival, *shares, SIMULATIONS) if shares else None


def stating(experiments: Iterable[Experiment], worlds: Mapping[str, Worlds]) -> tuple[Experiment, ...]:
    """The experiments with their worlds, and with the chances in their specs, which stay the same specs.

    Raises:
      ValueError: worlds of no experiment.
    """
    experiments = tuple(experiments)
    if unknown := {*worlds} - {experiment.name for experiment in experiments}:
        raise ValueError(f"Expected worlds={sorted(unknown)} to be those of an experiment.")
    return tuple(
        replace(
            experiment,
            worlds=worlds[experiment.name],
            specs={
                profile: replace(spec, chances=worlds[experiment.name].chances(profile))
                for profile, spec in experiment.specs.items()
            },
        )
        if experiment.name in worlds
        else experiment
        for experiment in experiments
    )


def simulate(
    experiment: Experiment, profile: str, simulations: int = SIMULATIONS, seed: int = 0
) -> tuple[Chances, dict[str, dict[str, int]]]:
    """Try an experiment's rule out in its two worlds.

    Args:
      experiment: with worlds.
      profile: whose spec.
      simulations: results to draw in either world.
      seed: of the draws; one that is not used elsewhere.

    Returns:
      The shares judged "reproduced"; and by world, "prediction" and "rival", how often each verdict was given.

    Raises:
      ValueError: an experiment without worlds, an unknown profile, simulations < 1.
    """
    validate.at_least(1, simulations=simulations)
    worlds, spec = experiment.worlds, experiment.spec(profile)
    if worlds is None:
        raise ValueError(f"Expected {experiment.id} to have worlds in which its rule is simulated.")
    counts: dict[str, dict[str, int]] = {}
    for number, world in enumerate(("prediction", "rival")):
        counts[world] = {}
        for generator in np.random.default_rng((seed, number)).spawn(simulations):
            frame = worlds.frame(spec, generator, world == "prediction")
            verdict = experiment.decide(frame, spec).verdict
            counts[world][verdict] = counts[world].get(verdict, 0) + 1
    right, rival = (verdicts.get("reproduced", 0) / simulations for verdicts in counts.values())
    return Chances(worlds.prediction, worlds.rival, right, rival, simulations), counts
