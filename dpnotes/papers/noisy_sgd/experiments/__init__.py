"""The experiments of Avdiukhin et al. (2024): saddles, and networks on images and text."""

from dpnotes.experiments import answering
from dpnotes.papers.noisy_sgd.experiments import (
    appendix_c,
    escape,
    finetuning,
    fraction,
    images,
    lemma_3_2,
    pretraining,
    slopes,
)
from dpnotes.papers.noisy_sgd.experiments.answers import ANSWERS
from dpnotes.papers.noisy_sgd.experiments.costs import COSTS

_SADDLES = (escape, slopes, fraction, lemma_3_2, appendix_c)
_NETWORKS = (*images.EXPERIMENTS, *finetuning.EXPERIMENTS, pretraining.EXPERIMENT)
EXPERIMENTS = answering((*(study.EXPERIMENT for study in _SADDLES), *_NETWORKS), ANSWERS, COSTS)
