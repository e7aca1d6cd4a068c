"""Liu and Talwar (2024), "Adaptive Batch Size for Privately Finding ... Stationary Points": its claims, checked.

The letters are the paper's. The norm of the noisy gradient is `g` here, and rates use `p = sqrt(d)/(n epsilon)`. Norms
of gradients, including the drift threshold kappa, are measured in [F/x].

log is the natural logarithm, except in the number of levels of a tree: there it is to base 2, as in Algorithm 1. The
paper names no base; an erratum that says that privacy breaks holds with either base.
"""

from dpnotes.papers.adaptive_batch.calculators import CROSSOVER, THEOREM
from dpnotes.papers.adaptive_batch.claims import accuracy, descent, introduction, oracles, own, tools
from dpnotes.papers.adaptive_batch.notation import PAPER
from dpnotes.theory.claims import Claim

__all__ = ["CLAIMS", "CROSSOVER", "PAPER", "THEOREM"]

SECTIONS = (introduction, tools, descent, oracles, accuracy, own)
CLAIMS: tuple[Claim, ...] = tuple(claim for section in SECTIONS for claim in section.CLAIMS)
