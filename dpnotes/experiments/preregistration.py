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

_NEEDED = ("Question", "The paper", "Rule", "If reproduced", "If not reproduced", "Prediction", "Rival")
_FURTHER = ("If undecided", "Earlier rule")
_PAPER: dict[str, Literal["Yes", "No"] | None] = {"Yes": "Yes", "No": "No", "No claim": None}


@dataclass(frozen=True)
class Preregistration:
    """The words of a study.

    Args:
      title: one line, for lists and figures.
      question: one that Yes or No answers.
      answers: by verdict, and the paper's.
      rule: says when the result is reproduced, not reproduced and undecided; "" if profiles have rules of their own.
      earlier_rule: the rule that this one replaced; its verdict is shown beside the new one.
      prediction: the case in which what is asked is so (see `chances.Simulation`).
      rival: the nearest case in which it is not.
    """

    title: str
    question: str
    answers: Answers
    rule: str = ""
    earlier_rule: str = ""
    prediction: str = ""
    rival: str = ""

    @staticmethod
    def of(docstring: str | None) -> "Preregistration":
        '''Read the words from a module's docstring.

        Its first paragraph is the title; further ones before the first section are for its readers. The paper's answer
        is "Yes: " or "No: " with the place, or "No claim: " with what the paper says instead.

        Raises:
          ValueError: a section is missing, empty, there twice, not indented or of an unknown name; there is no
            docstring (python -OO removes it); the two answers do not begin with Yes and No.

        >>> words = Preregistration.of("""The mean of coins.
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
        ...
        ... Prediction:
        ...   half are heads
        ...
        ... Rival:
        ...   two in five are
        ... """)
        >>> words.title, words.rule
        ('The mean of coins', 'Reproduced if the interval lies above 0.4, not reproduced if below it.')
        >>> words.answers.paper, words.answers.where
        ('Yes', 'Theorem 1')
        '''
        head, *rest = re.split(r"^(\w[\w ]*):[ \t]*$", cleandoc(docstring or ""), flags=re.MULTILINE)
        names, texts = rest[::2], rest[1::2]
        title = " ".join(head.split("\n\n")[0].split()).removesuffix(".")
        known = not ({*names} ^ {*_NEEDED}) - {*_FURTHER} and len({*names}) == len(names)
        if not title or not known or any(not text.strip() or re.search(r"^\S", text, re.MULTILINE) for text in texts):
            needed = f"{', '.join(_NEEDED)} and perhaps {', '.join(_FURTHER)}, each once, indented and not empty"
            raise ValueError(f"Expected the docstring {title!r} (python -OO removes it) to have {needed}; got {names}.")
        words = {name: " ".join(text.split()) for name, text in zip(names, texts, strict=True)}
        paper, _, where = words["The paper"].removesuffix(".").partition(": ")
        validate.one_of((*_PAPER,), paper=paper)
        undecided = words.get("If undecided", Answers.undecided)
        answers = Answers(words["If reproduced"], words["If not reproduced"], _PAPER[paper], where, undecided)
        rules, cases = (words["Rule"], words.get("Earlier rule", "")), (words["Prediction"], words["Rival"])
        return Preregistration(title, words["Question"], answers, *rules, *cases)
