"""The experiments of Liu and Talwar (2024): exponents, escape, what is needed, and what is private."""

from dpnotes.papers.adaptive_batch.experiments import audit, escape, necessity, slopes

EXPERIMENTS = (slopes.EXPERIMENT, escape.EXPERIMENT, necessity.EXPERIMENT, audit.EXPERIMENT)
