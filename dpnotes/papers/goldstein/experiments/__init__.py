"""Experiments on Kornowski, Liu and Talwar (2025); the paper has none of its own."""

from dpnotes.papers.goldstein.experiments import tree

EXPERIMENTS = (tree.EXPERIMENT,)
