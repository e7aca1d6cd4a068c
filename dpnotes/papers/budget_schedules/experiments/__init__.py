"""The experiments of Hong, Wang and Zhou (2022): Figure 1, and what its theory predicts exactly."""

from dpnotes.papers.budget_schedules.experiments import erub_gain, influence, mnist35, quadratic

EXPERIMENTS = (influence.EXPERIMENT, mnist35.EXPERIMENT, quadratic.EXPERIMENT, erub_gain.EXPERIMENT)
