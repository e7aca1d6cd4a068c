"""Experiments on Kornowski, Liu and Talwar (2025); the paper has none of its own."""

from dpnotes.experiments import answering
from dpnotes.papers.goldstein.experiments import complexity, generalisation, mnist, orders, sensitivity, tree
from dpnotes.papers.goldstein.experiments.answers import ANSWERS

_STUDIES = (sensitivity, generalisation, tree, complexity, orders, mnist)
EXPERIMENTS = answering((study.EXPERIMENT for study in _STUDIES), ANSWERS)
