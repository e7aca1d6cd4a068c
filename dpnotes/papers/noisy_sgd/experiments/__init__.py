"""The experiments of Avdiukhin et al. (2024) on saddles: what its theory predicts, simulated."""

from dpnotes.papers.noisy_sgd.experiments import slopes

EXPERIMENTS = (slopes.EXPERIMENT,)
