"""Anonymous authors, "Private Stochastic Optimization for ... Stationary Points": the paper's claims, checked.

The letters are the paper's, except that its script T, S and F (steps of an escape, radius, decrease) are `T_esc`, `S`
and `F_esc`, and its number of fresh gradients is `R`. Logarithms are natural. `PAPER` names the version that was read.
"""

from dpnotes.papers.drift_escape.claims import descent, distributed, escape, oracle, own, products, tools
from dpnotes.papers.drift_escape.notation import PAPER
from dpnotes.theory.claims import Claim

__all__ = ["CLAIMS", "PAPER"]

SECTIONS = (escape, descent, oracle, distributed, tools, own, products)
CLAIMS: tuple[Claim, ...] = tuple(claim for section in SECTIONS for claim in section.CLAIMS)
