"""The experiments of Avdiukhin et al. (2024): saddles, and networks on images and text."""

from dpnotes.experiments import answering, wanting
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

_SADDLES = [study.EXPERIMENT for study in (escape, slopes, fraction, lemma_3_2, appendix_c)]
_NETWORKS = [*images.EXPERIMENTS, *finetuning.EXPERIMENTS, pretraining.EXPERIMENT]
EXPERIMENTS = answering(wanting([*_SADDLES, *_NETWORKS], COSTS), ANSWERS)
