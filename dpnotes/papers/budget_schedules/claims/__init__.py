"""Hong, Wang and Zhou (FAccT 2022), "Dynamic Privacy Budget Allocation ...": the paper's claims, checked.

The letters are the paper's. Steps are counted from 1. `PAPER` names the arXiv version that was read.
"""

from dpnotes.papers.budget_schedules.claims import descent, momentum, population, rates, tables, zcdp
from dpnotes.papers.budget_schedules.notation import PAPER
from dpnotes.theory.claims import Claim

__all__ = ["CLAIMS", "PAPER"]

SECTIONS = (zcdp, descent, momentum, population, rates, tables)
CLAIMS: tuple[Claim, ...] = tuple(claim for section in SECTIONS for claim in section.CLAIMS)
