"""The experiments of Liu and Talwar (2024): exponents, escape, what is needed, and what is private."""

from dpnotes.papers.adaptive_batch.experiments import audit, escape, necessity, slopes

EXPERIMENTS = tuple(study.EXPERIMENT for study in (slopes, escape, necessity, audit))
