"""Exercises, predictions and tables of the notebooks."""

from typing import Any

import pytest

from dpnotes.notebook.teaching import Exercise, Table, claims_table, near, predict
from dpnotes.papers.budget_schedules.claims import CLAIMS
from dpnotes.theory.claims import select


def exercise(mistake=None):
    return Exercise("How many?", mistake or near(2.0), hints=["More than one.", "Fewer than three."], solution="Two.")


@pytest.mark.parametrize(
    "answer, said",
    [
        (..., "Not answered yet: put your answer in place of the dots.\n"),
        (2, "Right.\n"),
        (2.01, "Right.\n"),
        (1.9, "Not yet: 1.9 is too small.\n"),
        (float("nan"), "Not yet: nan is no number.\n"),
        ("two", "Not yet: 'two' is not a number.\n"),
        (None, "Not yet: None is not a number.\n"),
    ],
)
def test_an_exercise_says_what_is_wrong(capsys, answer: Any, said: str):
    exercise().check(answer)
    assert capsys.readouterr().out == said


def test_an_answer_that_raises_is_a_wrong_answer(capsys):
    exercise(lambda function: "" if function(0) == 1 else "f(0) should be 1.").check(lambda x: 1 / x)
    assert capsys.readouterr().out == "Not yet: it raises ZeroDivisionError: division by zero\n"


def test_hints_come_one_at_a_time_and_then_again(capsys):
    asked = exercise()
    for _ in range(3):
        asked.hint()
    asked.solution()
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["Hint 1 of 2: More than one.", "Hint 2 of 2: Fewer than three.", *lines[:1], "Two."]


def test_nothing_runs_before_a_prediction_is_recorded():
    ran = []
    asked = predict("Is it <b>even</b>?", ["yes & no", "no"], lambda: ran.append(1) or {"sum": 4},
                    lambda data, axes: None, lambda data: f"It is {data['sum']}.")  # fmt: skip
    asked.run_button.click()
    assert not ran and asked.data is None and asked.error == "First choose what you expect."
    asked.controls["prediction"].value = "yes & no"
    assert not ran, "choosing is not yet recording"
    asked.run_button.click()
    assert ran and asked.data == {"sum": 4, "prediction": "yes & no"}
    assert asked.readout.value == "You expected “yes &amp; no”. It is 4."


def test_a_folded_table_names_itself_and_is_the_same_inside():
    table, folded = Table(["a"], [["1"]]), Table(["a"], [["1"]], folded="the <rest>")
    inside = f"<details><summary>the &lt;rest&gt;</summary>{table._repr_html_()}</details>"
    assert folded._repr_html_() == inside and repr(folded) == repr(table)


def test_a_table_escapes_what_it_shows():
    table = Table(["a<b"], [["x<y & $z$"]], caption="c>d")
    assert "x&lt;y &amp; $z$" in table._repr_html_() and "<b>" not in table._repr_html_()
    assert repr(table) == "c>d\na<b\nx<y & $z$"


def test_an_address_in_a_table_is_a_link_named_by_its_last_part():
    table = Table(["thread"], [['https://example.org/a/issues/7 https://example.org/a/"><b>']])
    link = '<a href="https://example.org/a/issues/7">7</a>'
    assert link in table._repr_html_() and "<b>" not in table._repr_html_() and table._repr_html_().count("<a ") == 2
    assert repr(table).startswith("thread\nhttps://example.org/a/issues/7 ")
    assert "<a " not in Table(["thread"], [["issues/7"]])._repr_html_()  # the control


def test_the_claims_table_computes_its_verdicts():
    right, wrong = select(CLAIMS, ["budget_schedules.thm4.5.schedule", "budget_schedules.lemmaC.4.inversion"])
    table = claims_table([right, wrong])
    assert [row[1] for row in table.rows] == ["printed", "printed", "ours"]
    assert [row[3].split(":")[0] for row in table.rows] == ["exact", "contradicted", "exact"]


def test_what_is_derived_here_is_ours_and_not_printed():
    own = [claim for claim in CLAIMS if claim.derived_here]
    assert own and {row[1] for row in claims_table(own).rows} == {"ours"}
