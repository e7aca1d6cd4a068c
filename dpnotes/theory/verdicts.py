"""The verdicts of checks."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """The kinds of verdict. The first five confirm a statement, the next three do not, the last two say nothing."""

    EXACT = "exact"  # proved by algebra, and for a bound: attained
    NOT_REFUTED = (
        "not refuted"  # agrees wherever the seeded search looked, and a bound is approached; no proof by algebra
    )
    UP_TO_CONSTANTS = "up to constants"
    UP_TO_LOGS = "up to logs"
    IMPROVABLE = "improvable"  # true, but a better bound follows from the same terms
    NOT_IMPLIED = "not implied"  # better than the terms allow
    CONTRADICTED = "contradicted"  # the evidence has a numeric counterexample
    UNITS_DIFFER = "units differ"
    RESTATED = "restated"  # printed and derived side are one formula: nothing is balanced, so nothing is proved
    NOT_CHECKABLE = "not checkable"


CONFIRMING = frozenset({Kind.EXACT, Kind.NOT_REFUTED, Kind.UP_TO_CONSTANTS, Kind.UP_TO_LOGS, Kind.IMPROVABLE})
SILENT = frozenset({Kind.RESTATED, Kind.NOT_CHECKABLE})


@dataclass(frozen=True)
class Verdict:
    """The verdict of a check, with one line of evidence that is the same in every run.

    Args:
      kind: the kind of verdict.
      evidence: one line.
      certificate: a function that makes the data from which others can check it again (`dpnotes.theory.certificates`);
        None if there are none, or if the verdict was read from the cache.

    >>> print(Verdict(Kind.CONTRADICTED, "at x = 2: stated 4, derived 5"))
    contradicted: at x = 2: stated 4, derived 5
    """

    kind: Kind
    evidence: str
    certificate: Callable[[], dict[str, Any]] | None = field(default=None, compare=False, repr=False)

    @property
    def confirms(self) -> bool:
        """True if the verdict confirms the statement as printed."""
        return self.kind in CONFIRMING

    def __str__(self) -> str:
        return f"{self.kind}: {self.evidence}"
