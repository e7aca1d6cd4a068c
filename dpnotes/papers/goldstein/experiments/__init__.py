"""Experiments on Kornowski, Liu and Talwar (2025); the paper has none of its own."""

from dpnotes.papers.goldstein.experiments import complexity, generalisation, mnist, orders, sensitivity, tree

EXPERIMENTS = tuple(one.EXPERIMENT for one in (sensitivity, generalisation, tree, complexity, orders, mnist))
