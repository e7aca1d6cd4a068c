"""The experiments of drift escape: what it returns, what its repeats and steps do, what it spends, and real data."""

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

_STUDIES = (returned_point, repeats, step_size, audit, clients, sharing, selection, mnist_clients, sensing)
EXPERIMENTS = tuple(study.EXPERIMENT for study in _STUDIES)
