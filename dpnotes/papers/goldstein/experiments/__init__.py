"""Experiments on Kornowski, Liu and Talwar (2025); the paper has none of its own."""

from dpnotes.papers.goldstein.experiments import generalisation, sensitivity, tree

EXPERIMENTS = (sensitivity.EXPERIMENT, generalisation.EXPERIMENT, tree.EXPERIMENT)
