"""Experiments on Kornowski, Liu and Talwar (2025); the paper has none of its own."""

from dpnotes.papers.goldstein.experiments import complexity, generalisation, mnist, orders, sensitivity, tree

_STUDIES = (sensitivity, generalisation, tree, complexity, orders, mnist)
EXPERIMENTS = tuple(study.EXPERIMENT for study in _STUDIES)
