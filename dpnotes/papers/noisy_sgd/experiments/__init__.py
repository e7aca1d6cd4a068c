"""The experiments of Avdiukhin et al. (2024): saddles, and networks on images and text."""

from dpnotes.experiments import stating, wanting
from dpnotes.papers.noisy_sgd.experiments import appendix_c, escape, finetuning, fraction, images, lemma_3_2, slopes
from dpnotes.papers.noisy_sgd.experiments.costs import COSTS
from dpnotes.papers.noisy_sgd.experiments.worlds import WORLDS

EXPERIMENTS = wanting(
    stating(
        (
            escape.EXPERIMENT,
            slopes.EXPERIMENT,
            fraction.EXPERIMENT,
            lemma_3_2.EXPERIMENT,
            appendix_c.EXPERIMENT,
            *images.EXPERIMENTS,
            *finetuning.EXPERIMENTS,
        ),
        WORLDS,
    ),
    COSTS,
)
