"""The experiments of Hong, Wang and Zhou (2022): Figure 1, and what its theory predicts, exactly and in training."""

from dpnotes.experiments import stating, wanting
from dpnotes.papers.budget_schedules.experiments import (
    erub_gain,
    influence,
    mnist35,
    momentum,
    quadratic,
    subsampled,
)
from dpnotes.papers.budget_schedules.experiments.costs import COSTS
from dpnotes.papers.budget_schedules.experiments.worlds import WORLDS

EXPERIMENTS = wanting(
    stating(
        (
            influence.EXPERIMENT,
            mnist35.EXPERIMENT,
            momentum.EXPERIMENT,
            subsampled.EXPERIMENT,
            quadratic.EXPERIMENT,
            erub_gain.EXPERIMENT,
        ),
        WORLDS,
    ),
    COSTS,
)
