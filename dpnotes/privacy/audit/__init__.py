"""Audits: what an attack proves about epsilon from below.

An accountant proves "at most"; an audit attacks the code that runs and proves "at least", with a stated probability of
being wrong. Where the second exceeds the first, one of the two is broken, and it is not the audit.

* `bounds`: from counts of hits to a bound (Clopper and Pearson), thresholds, and the power of an audit.
* `pairs`: what two neighbouring data sets give, in closed form: Gaussians of one scale or two, and mixtures.
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
