"""The experiments of drift escape: what it returns, what its repeats and steps do, what it spends, and real data."""

from dpnotes.experiments import stating, wanting
from dpnotes.papers.drift_escape.experiments import (
    audit,
    clients,
    mnist_clients,
    repeats,
    returned_point,
    selection,
    sensing,
    sharing,
    step_size,
)
from dpnotes.papers.drift_escape.experiments.costs import COSTS
from dpnotes.papers.drift_escape.experiments.worlds import WORLDS

EXPERIMENTS = wanting(
    stating(
        (
            returned_point.EXPERIMENT,
            repeats.EXPERIMENT,
            step_size.EXPERIMENT,
            audit.EXPERIMENT,
            clients.EXPERIMENT,
            sharing.EXPERIMENT,
            selection.EXPERIMENT,
            mnist_clients.EXPERIMENT,
            sensing.EXPERIMENT,
        ),
        WORLDS,
    ),
    COSTS,
)
