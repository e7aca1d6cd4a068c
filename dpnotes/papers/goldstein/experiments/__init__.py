"""Experiments on Kornowski, Liu and Talwar (2025); the paper has none of its own."""

from dpnotes.experiments import stating
from dpnotes.papers.goldstein.experiments import complexity, generalisation, mnist, orders, sensitivity, tree
from dpnotes.papers.goldstein.experiments.worlds import WORLDS

EXPERIMENTS = stating(
    (
        sensitivity.EXPERIMENT,
        generalisation.EXPERIMENT,
        tree.EXPERIMENT,
        complexity.EXPERIMENT,
        orders.EXPERIMENT,
        mnist.EXPERIMENT,
    ),
    WORLDS,
)
