"""The experiments of Liu and Talwar (2024): exponents, escape, what is needed, and what is private."""

from dpnotes.experiments import answering
from dpnotes.papers.adaptive_batch.experiments import audit, escape, necessity, slopes
from dpnotes.papers.adaptive_batch.experiments.answers import ANSWERS

EXPERIMENTS = answering((one.EXPERIMENT for one in (slopes, escape, necessity, audit)), ANSWERS)
