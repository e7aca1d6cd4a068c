"""Kornowski, Liu and Talwar (ICML 2025): its claims, checked.

Letters are the paper's; `alpha` and `beta` are the radius and the norm of Goldstein stationarity. A rate is compared
with the best balance of the terms from which its proof starts: Proposition 2.6 for the online-to-nonconvex conversion,
the variance lemmas for the oracle, the sensitivity lemmas for the noise. What the paper's O hides is hidden here.

log is the natural logarithm, except where levels of a tree are counted: to base 2, as in Algorithm 1. The paper names
no base; what is said to break does so with either.
"""

from dpnotes.papers.goldstein.claims import appendices, introduction, multi_pass, own, preliminaries, single_pass
from dpnotes.papers.goldstein.notation import PAPER
from dpnotes.theory.claims import Claim

__all__ = ["CLAIMS", "PAPER"]

SECTIONS = (introduction, preliminaries, single_pass, multi_pass, appendices, own)
CLAIMS: tuple[Claim, ...] = tuple(claim for section in SECTIONS for claim in section.CLAIMS)
