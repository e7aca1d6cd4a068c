"""Experiments of our own on Kornowski, Liu and Talwar (2025), which has none."""

from dpnotes.papers.goldstein.experiments import complexity, mnist, orders

EXPERIMENTS = (complexity.EXPERIMENT, orders.EXPERIMENT, mnist.EXPERIMENT)
