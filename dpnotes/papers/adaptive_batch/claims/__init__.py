"""Liu and Talwar (2024), "Adaptive Batch Size for Privately Finding Second-Order Stationary Points": claims, checked.

Letters are the paper's; what it writes as the norm of the noisy gradient is `g` here, and `p = sqrt(d)/(n epsilon)`
stands in rates. Lengths of gradients, the drift threshold kappa among them, are measured in [F/x].
"""

from dpnotes.papers.adaptive_batch.calculators import CROSSOVER, THEOREM
from dpnotes.papers.adaptive_batch.claims import accuracy, descent, introduction, oracles, own, tools
from dpnotes.papers.adaptive_batch.notation import PAPER
from dpnotes.theory.claims import Claim

__all__ = ["CLAIMS", "CROSSOVER", "PAPER", "THEOREM"]

SECTIONS = (introduction, tools, descent, oracles, accuracy, own)
CLAIMS: tuple[Claim, ...] = tuple(claim for section in SECTIONS for claim in section.CLAIMS)
