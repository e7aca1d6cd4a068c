"""Solutions of the exercises, and tempting wrong answers; each module has the name of a module of `dpnotes.exercises`.

Nothing imports this package but `.solution()` of an exercise and the tests; a copy for students does not have it. Each
module has `SOLUTIONS`, a solution by the name of its exercise. A function stands as a reader would write it in the
notebook, under the notebook's name for it; the names that it uses are at hand there.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Solution:
    """A right answer, and wrong ones that a check has to refuse.

    Args:
      answer: the right answer; a function is shown by its source.
      wrong: wrong answers, the tempting ones first.
      words: the way to an answer that is not a function.

    >>> print(Solution(42, [36], "6 * 7 = 42."))
    6 * 7 = 42.
    """

    answer: Any
    wrong: Sequence[Any]
    words: str = ""

    def __str__(self) -> str:
        return self.words or inspect.getsource(self.answer).rstrip()
