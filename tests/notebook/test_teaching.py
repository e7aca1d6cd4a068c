"""Exercises, predictions and tables of the notebooks."""

import re
from typing import Any

import pytest

from dpnotes.notebook.teaching import Exercise, Prediction, Table, claims_table, near, proved
from dpnotes.papers.budget_schedules.claims import CLAIMS
from dpnotes.theory.claims import select


def exercise(mistake=None):
    return Exercise("How many?", mistake or near(2.0), ["More than one.", "Fewer than three."], "Two.", 2, [3])


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


def double(x):
    return 2 * x


def test_a_solution_that_is_a_function_is_the_answer_and_its_source_the_words(capsys):
    asked = Exercise("Twice?", lambda f: "" if f(3) == 6 else f"f(3) is {f(3)}.", ["Add."], double, wrong=[abs])
    asked.solution()
    asked.check(asked.answer)
    assert capsys.readouterr().out == "def double(x):\n    return 2 * x\nRight.\n" and asked.unsound() == []


def test_a_copy_without_solutions_says_so(capsys):
    Exercise("How many?", near(2.0), ["More than one."]).solution()
    assert capsys.readouterr().out == "This copy has no solutions.\n"


@pytest.mark.parametrize(
    "answer, wrong, found",
    [
        (2, [3], []),
        (3, [4], ["its answer fails: Not yet: 3 is too large."]),
        (..., [4], ["its answer fails: Not answered yet: put your answer in place of the dots."]),
        (2, [3, 2.001], ["passes, though wrong: 2.001"]),
        (2, [], ["has no wrong answer to refuse"]),
    ],
)
def test_an_unsound_exercise_is_named(answer: Any, wrong: list[Any], found: list[str]):
    asked = Exercise("How many?", near(2.0), ["More than one."], "Two.", answer, wrong)
    assert asked.unsound() == found
    if found:
        with pytest.raises(AssertionError, match=f"pair: {found[0]}"):
            proved({"pair": asked, "other": 1})


def asked_about(total=4, right="yes & no", **choices: str):
    ran = []
    asked = Prediction(
        "Is it <b>even</b>?", choices or {"yes & no": "It is.", "no": "Halve $4$."},
        lambda: ran.append(1) or {"sum": total}, lambda data, axes: None, lambda data: f"It is {data['sum']}.",
        right=right, holds=lambda data: data["sum"] % 2 == 0,
    )  # fmt: skip
    return asked, ran


def test_nothing_runs_before_a_prediction_is_recorded():
    asked, ran = asked_about()
    asked.explorer.run_button.click()
    assert not ran and asked.data is None and asked.error == "First choose what you expect."
    asked.controls["prediction"].value = "yes & no"
    assert not ran, "choosing is not yet recording"
    asked.explorer.run_button.click()
    assert ran and asked.data == {"sum": 4, "prediction": "yes & no"}
    assert asked.readout.value == "You expected “yes &amp; no”: right. It is. It is 4."


def test_a_wrong_prediction_is_told_why():
    asked, _ = asked_about()
    asked.controls["prediction"].value = "no"
    asked.run()
    assert asked.readout.value == "You expected “no”: not so. Halve $4$. It is 4."


def test_readers_without_a_kernel_see_question_and_choices_and_the_answer_folded():
    asked, ran = asked_about()
    page = asked._repr_mimebundle_()["text/html"]
    before, _, folded = page.partition("<details>")
    assert "<b>even</b>" in before and "<li>yes &amp; no</li><li>no</li>" in before and "It is." not in before
    assert "“yes &amp; no”: right. It is." in folded and "“no”: not so. Halve" in folded and not ran


@pytest.mark.parametrize(
    "right, choices, named",
    [("b", {"a": "why", "c": "why"}, "right='b'"), ("a", {"a": "why"}, "choices="), ("a", {"a": "x", "b": ""}, "cho")],
)
def test_a_prediction_without_reasons_or_a_right_choice_is_refused(right: str, choices: dict[str, str], named: str):
    with pytest.raises(ValueError, match=f"Expected {named}"):
        asked_about(4, right, **choices)


def test_a_run_that_does_not_bear_the_right_choice_out_is_found(capsys):
    proved({"even": asked_about()[0]})
    assert capsys.readouterr().out.endswith("\n1 prediction is borne out by its run.\n")
    with pytest.raises(AssertionError, match="even: the run does not bear out 'yes & no'"):
        proved({"even": asked_about(total=5)[0]})


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
    assert [row[1] for row in table.rows] == ["exact", "contradicted"]
    (_, _, parts) = table.rows[1]
    assert "stated 81.49" in parts[0] and parts[1].startswith("printed: $") and parts[2].startswith("ours, exact: $")


@pytest.mark.slow
def test_what_is_derived_here_is_ours_and_not_printed():
    own = [claim for claim in CLAIMS if claim.derived_here]
    said = [part for row in claims_table(own).rows for part in row[2]]
    assert own and not any(part.startswith("printed") for part in said)
    assert sum(part.startswith("ours: ") for part in said) == len(own)


def test_a_number_is_not_broken_at_its_hyphen_and_an_address_is_left_alone():
    rows = [["5.6e-05 (2018-06-14)", "https://example.org/2018-06-14/x"], ["a-1", "$10^{-2}$"]]
    shown = Table(["", ""], rows)
    whole = re.findall(r'<span style="white-space: nowrap">(.*?)</span>', shown._repr_html_())
    assert whole == ["5.6e-05", "2018-06-14"]
