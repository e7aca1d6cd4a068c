"""Outcomes in words: the question, its answer, and whether the paper predicts this answer.

A rule says "reproduced" of the prediction that it tests, and some predictions are that something fails. A reader sees
the answer to the experiment's question instead, then what the paper says about it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from dpnotes.experiments.spec import Decision, Experiment

AS_PREDICTED, AGAINST, NO_CLAIM = "as the paper predicts", "against the paper", "not the paper's claim"
Word = Literal["Yes", "No", "Undecided", "Not run"]


@dataclass(frozen=True)
class Answers:
    """The answers to an experiment's question, by the verdict of its rule.

    Args:
      passed: the answer if the rule says "reproduced": a sentence that begins with Yes or No.
      failed: the opposite answer, if the rule says "not reproduced".
      paper: the paper's answer, "Yes" or "No"; None if the paper makes no such claim.
      where: the place of the paper's answer; without one, what the paper says instead.
      undecided: the reason why the rule decides neither, if it is known.

    Raises:
      ValueError: the two answers do not begin with Yes and No, or the paper's answer has no place.

    >>> Answers("No: it grows.", "Yes: it does not grow.", "Yes")
    Traceback (most recent call last):
    ValueError: Expected the place of the paper's answer 'Yes' in where=''.
    """

    passed: str = "Yes."
    failed: str = "No."
    paper: Literal["Yes", "No"] | None = None
    where: str = ""
    undecided: str = "The rule is met for neither answer."

    def __post_init__(self) -> None:
        if {_first_word(self.passed), _first_word(self.failed)} != {"Yes", "No"}:
            raise ValueError(f"Expected {self.passed!r} and {self.failed!r} to begin with Yes and No.")
        if self.paper and not self.where:
            raise ValueError(f"Expected the place of the paper's answer {self.paper!r} in where={self.where!r}.")


@dataclass(frozen=True)
class Outcome:
    """The outcome of an experiment, as a reader sees it.

    Args:
      question: the question of the experiment.
      answer: "Yes", "No", "Undecided" or "Not run".
      sentence: the answer in a sentence, which begins with that word.
      standing: whether the paper predicts the answer; "" if there is no answer.
      facts: the measured facts, as a table of two columns.
    """

    question: str
    answer: Word
    sentence: str
    standing: str
    facts: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.sentence} {self.standing}".strip()


def outcome(experiment: "Experiment", decision: "Decision") -> Outcome:
    """Return the answer to an experiment's question that follows from the decision of its rule.

    >>> from dpnotes.experiments import Decision
    >>> from dpnotes.papers.drift_escape.experiments import EXPERIMENTS
    >>> repeats = next(one for one in EXPERIMENTS if one.name == "repeats")
    >>> found = outcome(repeats, Decision("reproduced", "restored: eight in 6.58%; forced: eight in 0.00%"))
    >>> found.answer, found.facts
    ('No', (('restored', 'eight in 6.58%'), ('forced', 'eight in 0.00%')))
    """
    answers = experiment.answers
    sentences = {
        "reproduced": answers.passed, "not reproduced": answers.failed,
        "undecided": f"Undecided: {answers.undecided[0].lower()}{answers.undecided[1:]}",
        "not run": f"Not run: {decision.reason}",
    }  # fmt: skip
    sentence = sentences[decision.verdict]
    answer = _first_word(sentence)
    facts = () if answer == "Not run" else tuple(_fact(part) for part in decision.reason.split("; "))
    return Outcome(experiment.question, answer, sentence, _standing(answers, answer), facts)


def _standing(answers: Answers, answer: Word) -> str:
    if answers.paper is None:
        return f"This is {NO_CLAIM}{f': {answers.where}' if answers.where else ''}."
    if answer not in ("Yes", "No"):
        return f"The paper's answer is {answers.paper} ({answers.where})."
    return f"This is {AS_PREDICTED if answer == answers.paper else AGAINST} ({answers.where})."


def _first_word(sentence: str) -> Word:
    found: list[Word] = [word for word in ("Yes", "No", "Not run") if sentence.startswith((f"{word}:", f"{word}."))]
    return found[0] if found else "Undecided"


def _fact(text: str) -> tuple[str, str]:
    name, mark, value = text.partition(": ")
    return (name, value) if mark else ("", text)
