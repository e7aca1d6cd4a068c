"""Avdiukhin, Dinitz, Fan and Yaroslavtsev (2024), "Noise is All You Need ...": the paper's claims, checked.

The letters are the paper's (`notation`). An O with a tilde in Section 3 hides powers of L, rho and f_max and
logarithms. Our own results, marked as derived here, have their proofs in docs/derivations/noisy_sgd.md.
"""

from dpnotes.papers.noisy_sgd.claims import convergence, lemmas, own, parameters, privacy
from dpnotes.papers.noisy_sgd.notation import PAPER
from dpnotes.theory.claims import Claim

__all__ = ["CLAIMS", "PAPER"]

SECTIONS = (privacy, convergence, parameters, lemmas, own)
CLAIMS: tuple[Claim, ...] = tuple(claim for section in SECTIONS for claim in section.CLAIMS)
