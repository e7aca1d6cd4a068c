"""The experiments of Hong, Wang and Zhou (2022): Figure 1, and what its theory predicts, exactly and in training."""

from dpnotes.papers.budget_schedules.experiments import erub_gain, influence, mnist35, momentum, quadratic, subsampled

_STUDIES = (influence, mnist35, momentum, subsampled, quadratic, erub_gain)
EXPERIMENTS = tuple(study.EXPERIMENT for study in _STUDIES)
