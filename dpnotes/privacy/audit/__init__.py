"""Audits: statistical lower bounds on epsilon, from attacks.

An accountant proves an upper bound on epsilon; an audit attacks the code that runs and proves a lower bound, with a
stated probability of error. If the lower bound exceeds the upper one, the accounting or the mechanism is wrong.

* `bounds`: the bound from counts of hits (Clopper and Pearson), thresholds, and the power of an audit.
* `pairs`: output distributions on two neighbouring data sets, in closed form: Gaussians of one scale or two, mixtures.
* `training`: many runs of training, with a canary and without it.
* `one_run`: many canaries in one run.
"""

from dpnotes.privacy.audit.bounds import (
    LowerBound,
    choose_threshold,
    epsilon_from_counts,
    from_scores,
    power,
    runs_for_power,
)
from dpnotes.privacy.audit.one_run import guess, one_run, one_run_p_value
from dpnotes.privacy.audit.pairs import GaussianPair, MixturePair, Pair, ScaledPair
from dpnotes.privacy.audit.training import transcript_scores

__all__ = [
    "GaussianPair",
    "LowerBound",
    "MixturePair",
    "Pair",
    "ScaledPair",
    "choose_threshold",
    "epsilon_from_counts",
    "from_scores",
    "guess",
    "one_run",
    "one_run_p_value",
    "power",
    "runs_for_power",
    "transcript_scores",
]
