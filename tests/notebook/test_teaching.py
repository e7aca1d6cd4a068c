"""Exercises, predictions and tables of the notebooks."""

from typing import Any

import pandas as pd
import pytest

from dpnotes.experiments import Context, Decision, Experiment, Spec, store
from dpnotes.notebook import plots
from dpnotes.notebook.teaching import (
    Exercise,
    Table,
    claims_table,
    near,
    picture,
    picture_if_any,
    predict,
    provenance,
    results_table,
    table_if_any,
)
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


def test_the_results_table_formats_columns():
    frame = pd.DataFrame({"n": [250, 1000], "mean": [0.5, 0.25], "error": [0.01, 0.02], "unused": [1, 2]})
    table = results_table(frame, {"N": "{n:,}", "loss": "{mean:.2f} ± {error:.2f}"}, caption="Loss")
    assert repr(table) == "Loss\nN      loss\n250    0.50 ± 0.01\n1,000  0.25 ± 0.02"


def result(state: str, manifest: dict[str, Any]) -> store.Result:
    spec = Spec("toy", "mean", "quick", {"decision_rule": "always"})

    def run_cell(spec: Spec, cell: dict[str, Any], context: Context) -> dict[str, Any]:
        return {"x": 1}

    experiment = Experiment(
        paper="toy",
        name="mean",
        title="A toy",
        question="?",
        specs={"quick": spec},
        cells=lambda spec: [{}],
        run_cell=run_cell,
        decide=lambda frame, spec: Decision("reproduced", ""),
        unaccounted=("the scaling",),
    )
    changes = {"code": "dpnotes.core"} if state == "stale" else {}
    return store.Result(experiment, spec, pd.DataFrame(), manifest, state, changes, Decision("undecided", ""))  # type: ignore[arg-type]


MANIFEST = {
    "experiment": "toy.mean",
    "key": "0123456789abcdef",
    "git_commit": "fedcba9876543210",
    "git_dirty": True,
    "environments": [{"device": "cpu", "name": "a processor", "versions": {"torch": "2.13.0"}}],
    "cell_seconds": 12.3,
}


def test_provenance_of_a_current_result():
    assert provenance(result("current", MANIFEST)).splitlines() == [
        "toy.mean, profile quick, key 0123456789ab",
        "code fedcba987654, with uncommitted changes; torch 2.13.0 on a processor; 12 s of computing",
        "run with this code",
        "not accounted: the scaling",
    ]


def test_a_verified_result_says_so_with_its_cells_and_its_commit():
    record = {"cells": [{"arm": "a"}, {"arm": "b"}], "git_commit": "abcdef9876543210", "git_dirty": False}
    shown = result("current", MANIFEST | {"cells": 9, "verified": record})
    expected = "verified at abcdef987654: 2 of 9 cells run again, the same numbers"
    assert provenance(shown).splitlines()[2] == expected
    figure, _ = plots.new_figure()
    picture(shown, figure, "A line.")
    assert " ".join(figure.get_supxlabel().split()) == f"{expected}; not accounted: the scaling"
    assert not result("stale", MANIFEST | {"cells": 9, "verified": record}).pedigree


def test_provenance_says_first_when_a_result_is_stale_or_missing():
    assert provenance(result("stale", MANIFEST)).startswith("STALE: code changed\n")
    assert provenance(result("missing", {})).splitlines() == [
        "MISSING: dpnotes run toy.mean --profile quick",
        "not accounted: the scaling",
    ]


def test_the_picture_of_a_result_says_what_has_to_be_said():
    def finished(state: str) -> tuple[str, list[str], str]:
        figure, (axes,) = plots.new_figure()
        shown = picture(result(state, MANIFEST), figure, "A line.")
        return repr(shown), [text.get_text() for text in axes.texts], figure.get_supxlabel()

    assert finished("current") == ("A line.", [], "run with this code; not accounted: the scaling")
    assert finished("stale") == ("STALE: code changed. A line.", ["STALE"], "not accounted: the scaling")


def test_a_missing_result_has_empty_axes_and_a_table_without_rows():
    def refuse(*_: Any) -> Any:
        raise AssertionError("there is nothing to draw")

    missing = result("missing", {})
    shown = picture_if_any(missing, refuse, refuse, widths=(1, 2))
    assert repr(shown) == "MISSING: dpnotes run toy.mean --profile quick. Nothing to see yet."
    assert [text.get_text() for axes in shown.figure.axes for text in axes.texts] == ["MISSING"] * 2
    table = table_if_any(missing, refuse, {"x": "{x}"})
    assert (table.columns, table.rows) == (["x"], []) and table.caption.startswith("MISSING")


@pytest.mark.parametrize("state, said", [("current", ""), ("stale", "STALE: code changed")])
def test_any_other_result_is_drawn_and_tabulated(state: str, said: str):
    shown = picture_if_any(result(state, MANIFEST), lambda axes: plots.curve(axes, [1, 2], [3, 4]), lambda: "A line.")
    assert len(shown.figure.axes[0].lines) == 1 and repr(shown) == f"{said}. A line.".removeprefix(". ")
    table = table_if_any(result(state, MANIFEST), lambda frame: pd.DataFrame({"x": [1.5]}), {"x": "{x:.2f}"})
    assert table.rows == [["1.50"]] and table.caption == said


def test_a_stale_result_may_lack_a_column_and_a_current_one_may_not():
    def rows(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[["renamed"]]

    table = table_if_any(result("stale", MANIFEST), rows, {"x": "{x}"})
    assert table.rows == [] and table.caption == "STALE: code changed"
    shown = picture_if_any(result("stale", MANIFEST), lambda axes: rows(result("stale", MANIFEST).frame), lambda: "")
    assert repr(shown) == "STALE: code changed. Nothing to see yet."
    with pytest.raises(KeyError, match="renamed"):
        table_if_any(result("current", MANIFEST), rows, {"x": "{x}"})
