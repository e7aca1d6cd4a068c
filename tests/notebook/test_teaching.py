"""Predictions and tables of the notebooks; exercises: test_exercises.py."""

import re
from pathlib import Path

import nbformat
import pytest

from dpnotes.notebook.teaching import Prediction, Table, claims_table
from dpnotes.notebook.write import to_text
from dpnotes.papers.budget_schedules.claims import CLAIMS
from dpnotes.theory.claims import select
from tests.nbval_run import nbval


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
    assert asked.readout.value == "The picture appears when you press “Record my prediction and run”."
    asked.explorer.run_button.click()
    assert ran and asked.data == {"sum": 4, "prediction": "yes & no"}
    assert asked.readout.value == "You expected “yes &amp; no”: right. It is. It is 4."
    asked.controls["prediction"].value = "no"
    assert asked.readout.value == "The picture follows when you press “Record my prediction and run”."


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


def test_a_run_that_does_not_bear_the_right_choice_out_is_found():
    assert asked_about()[0].unsound() == []
    assert asked_about(total=5)[0].unsound() == ["the run does not bear out 'yes & no'"]


@pytest.mark.slow
def test_nbval_finds_a_prediction_that_does_not_come_true(tmp_path: Path):
    cell = """\
from dpnotes.notebook.teaching import Prediction
even = Prediction(
    "Even?", {"yes": "It is.", "no": "Halve it."}, lambda: {"sum": SUM}, lambda data, axes: None, str,
    right="yes", holds=lambda data: data["sum"] % 2 == 0,
)"""
    for name, total in (("true", "4"), ("false", "5")):
        made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.replace("SUM", total))])
        (tmp_path / f"{name}.ipynb").write_text(to_text(made))
    done = nbval(*sorted(tmp_path.iterdir()))
    assert "does not bear out 'yes'" in done.stdout and "1 failed, 3 passed" in done.stdout


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
    assert whole == ["5.6 · 10<sup>−5</sup>", "2018-06-14"]
