"""Preregistrations: the words of a study, stated in its module's docstring before the run.

The question, the rule by which the outcome is judged, and the answer that each verdict gives stand at the top of the
file whose code follows them, so that both are read together.
"""

import re
from dataclasses import dataclass
from inspect import cleandoc
from typing import Literal

from dpnotes.experiments.outcomes import Answers
from dpnotes.util import validate

_NEEDED = {"Question", "The paper", "Rule", "If reproduced", "If not reproduced"}
_FURTHER = {"If undecided", "Earlier rule", "Prediction", "Rival"}
_PAPER: dict[str, Literal["Yes", "No"] | None] = {"Yes": "Yes", "No": "No", "No claim": None}


@dataclass(frozen=True)
class Preregistration:
    """The words of a study.

    Args:
      title: one line, for lists and figures.
      question: one that Yes or No answers.
      answers: by verdict, and the paper's.
      rule: says when the result is reproduced, not reproduced and undecided.
      earlier_rule: whose verdict is told beside, if there was one.
      prediction: the case in which what is asked is so (see `chances.Simulation`).
      rival: the nearest case in which it is not.
    """

    title: str
    question: str
    answers: Answers
    rule: str
    earlier_rule: str = ""
    prediction: str = ""
    rival: str = ""

    @staticmethod
    def of(docstring: str | None) -> "Preregistration":
        '''The words in a module's docstring: its first line is the title; text before the sections is free.

        The paper's answer is "Yes: " or "No: " with the place, or "No claim: " with what the paper says instead.

        Raises:
          ValueError: a section that is missing or of an unknown name; no docstring (python -OO leaves it out); answers
            that are none.

        >>> stated = Preregistration.of("""The mean of coins.
        ...
        ... Question:
        ...   Are more than two in five heads?
        ...
        ... The paper:
        ...   Yes: Theorem 1.
        ...
        ... Rule:
        ...   Reproduced if the interval lies above 0.4,
        ...   not reproduced if below it.
        ...
        ... If reproduced:
        ...   Yes: half of them are.
        ...
        ... If not reproduced:
        ...   No: fewer are.
        ... """)
        >>> stated.title, stated.rule
        ('The mean of coins', 'Reproduced if the interval lies above 0.4, not reproduced if below it.')
        >>> stated.answers.paper, stated.answers.where
        ('Yes', 'Theorem 1')
        '''
        head, *rest = re.split(r"^([A-Z][a-z ]*):\n", cleandoc(docstring or ""), flags=re.MULTILINE)
        words = {name: " ".join(text.split()) for name, text in zip(rest[::2], rest[1::2], strict=True)}
        title = " ".join(head.split("\n\n")[0].split()).removesuffix(".")
        if ({*words} ^ _NEEDED) - _FURTHER:
            raise ValueError(f"Expected the sections {sorted(_NEEDED)} of {title!r}, got {sorted(words)}.")
        paper, _, where = words["The paper"].removesuffix(".").partition(": ")
        validate.one_of((*_PAPER,), paper=paper)
        undecided = words.get("If undecided", Answers.undecided)
        answers = Answers(words["If reproduced"], words["If not reproduced"], _PAPER[paper], where, undecided)
        further = {name.lower().replace(" ", "_"): words.get(name, "") for name in _FURTHER - {"If undecided"}}
        return Preregistration(title, words["Question"], answers, words["Rule"], **further)
