"""The experiments of Avdiukhin et al. (2024): saddles, and networks on images and text."""

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

_SADDLES = (escape, slopes, fraction, lemma_3_2, appendix_c)
_NETWORKS = (*images.EXPERIMENTS, *finetuning.EXPERIMENTS, pretraining.EXPERIMENT)
EXPERIMENTS = (*(study.EXPERIMENT for study in _SADDLES), *_NETWORKS)
