"""Preregistrations: every study's docstring states its words, and one that does not is refused."""

import pytest

from dpnotes.experiments import Preregistration
from dpnotes.papers.drift_escape.experiments import repeats

STATED = repeats.__doc__ or ""


def test_the_words_of_a_study_are_those_of_its_experiment():
    one = repeats.EXPERIMENT
    assert one.specs["quick"]["decision_rule"].startswith("Lemma 2 is for independent attempts: all Q fail with")
    assert one.title == STATED.splitlines()[0][:-1] and one.question.endswith("when the oracle is SPIDER?")
    assert one.answers.passed.startswith("No: with") and one.simulation and "twice as often" in one.simulation.rival


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (STATED, None, r"Expected the sections \['If not reproduced', .*\] of '', got \[\]"),
        ("\nRule:\n", "\nRules:\n", r"got \[.*'Rules', .*\]"),
        ("\nRival:\n", "\nRivals:\n", r"got \[.*'Rivals', .*\]"),
        ("No claim: ", "Perhaps: ", "paper='Perhaps'"),
        ("  No: with", "  With", "begin with Yes and No"),
    ],
)
def test_a_docstring_that_states_no_study_is_refused(before: str, after: str | None, message: str):
    assert before in STATED
    with pytest.raises(ValueError, match=message):
        Preregistration.of(after and STATED.replace(before, after))
