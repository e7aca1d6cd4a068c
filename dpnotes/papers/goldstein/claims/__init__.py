"""Kornowski, Liu and Talwar (ICML 2025): the paper's claims, checked.

The letters are the paper's; `alpha` and `beta` are the radius and the norm of Goldstein stationarity. Each rate is
compared with the best balance of the terms that its proof starts from: Proposition 2.6 for the online-to-nonconvex
conversion, the variance lemmas for the oracle, the sensitivity lemmas for the noise. Factors that the paper's O hides
are hidden here too.

log is the natural logarithm, except in the number of levels of a tree: there it is to base 2, as in Algorithm 1. The
paper names no base; an erratum that says that privacy breaks holds with either base.
"""

from dpnotes.papers.goldstein.claims import appendices, introduction, multi_pass, own, preliminaries, single_pass
from dpnotes.papers.goldstein.notation import PAPER
from dpnotes.theory.claims import Claim

__all__ = ["CLAIMS", "PAPER"]

SECTIONS = (introduction, preliminaries, single_pass, multi_pass, appendices, own)
CLAIMS: tuple[Claim, ...] = tuple(claim for section in SECTIONS for claim in section.CLAIMS)
