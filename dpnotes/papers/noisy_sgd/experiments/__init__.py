"""The experiments of Avdiukhin et al. (2024): saddles, and networks on images and text."""

from dpnotes.papers.noisy_sgd.experiments import appendix_c, escape, finetuning, fraction, images, lemma_3_2, slopes

EXPERIMENTS = (
    escape.EXPERIMENT,
    slopes.EXPERIMENT,
    fraction.EXPERIMENT,
    lemma_3_2.EXPERIMENT,
    appendix_c.EXPERIMENT,
    *images.EXPERIMENTS,
    *finetuning.EXPERIMENTS,
)
