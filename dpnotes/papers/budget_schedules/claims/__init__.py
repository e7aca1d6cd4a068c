"""Hong, Wang and Zhou (FAccT 2022), "Dynamic Privacy Budget Allocation ...": its claims, checked.

Letters are the paper's. Steps are counted from 1. The text was read in the arXiv version named in `PAPER`.
"""

from dpnotes.papers.budget_schedules.claims import descent, momentum, population, rates, tables, zcdp
from dpnotes.papers.budget_schedules.notation import PAPER
from dpnotes.theory.claims import Claim

__all__ = ["CLAIMS", "PAPER"]

SECTIONS = (zcdp, descent, momentum, population, rates, tables)
CLAIMS: tuple[Claim, ...] = tuple(claim for section in SECTIONS for claim in section.CLAIMS)
