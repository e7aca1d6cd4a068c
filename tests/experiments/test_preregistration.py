"""Preregistrations: the words of a study are read from its docstring, and an incomplete docstring is refused."""

import pytest

from dpnotes.experiments import Preregistration
from dpnotes.experiments.sweeps import study
from dpnotes.papers.drift_escape.experiments import repeats

TEXT = repeats.__doc__ or ""


def test_the_words_of_a_study_are_those_of_its_experiment():
    one = repeats.EXPERIMENT
    assert one.title == TEXT.splitlines()[0][:-1] and one.question.endswith("when the oracle is SPIDER?")
    assert one.answers.passed.startswith("No: with") and one.simulation and "twice as often" in one.simulation.rival


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (TEXT, None, r"Expected the docstring '' \(python -OO removes it\) to have Question, "),
        (TEXT[: TEXT.index("\n")], "", "Expected the docstring ''"),
        ("\nRule:\n", "\nRules:\n", "got .*'Rules', "),
        ("\nRival:\n", "\nIf Undecided:\n", "got .*'If Undecided'"),
        ("\nRival:\n", "\nRule:\n", "each once, "),
        ("\nRival:\n  ", "\nRival: ", "indented"),
        ("\nRival:\n", "\nRival:\n\nEarlier rule:\n", "not empty"),
        ("No claim: ", "Perhaps: ", "paper='Perhaps'"),
        ("  No: with", "  With", "begin with Yes and No"),
    ],
)
def test_a_docstring_that_states_no_study_is_refused(before: str, after: str | None, message: str):
    assert before in TEXT
    with pytest.raises(ValueError, match=message):
        Preregistration.of(after if after is None else TEXT.replace(before, after))


def test_a_study_has_the_rule_of_its_words():
    functions = (repeats.cells, repeats.run_cell, repeats.decide, repeats.simulated)
    with pytest.raises(ValueError, match="Expected the rules in the specs of 'Lemma 2: .*' to be those of its words"):
        study(Preregistration.of(TEXT.replace("Lemma 2 is for", "It is for")), [repeats.QUICK], functions)
