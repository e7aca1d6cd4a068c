"""Results as a notebook shows them: each with its setting; a result that was not run has no verdict."""

import ast
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpnotes.cli.catalogue import all_experiments
from dpnotes.experiments import NOT_STATED, Decision, Experiment, PaperFigure, Setting, Spec, store
from dpnotes.notebook import copies, plots, results

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
PAPERS = [path for path in copies.notebooks() if re.match("0[1-9]", path.name)]
OWN = "our own experiment, profile quick"
FIGURE = PaperFigure(
    "Figure 7",
    "a line",
    (
        Setting("repeats", "100", lambda spec: f"{spec['repeats']}", "time"),
        Setting("step size", "0.1", lambda spec: "0.1"),
        Setting("batch", NOT_STATED, lambda spec: "16", "our choice"),
    ),
)


def test_the_results_table_formats_columns():
    frame = pd.DataFrame({"n": [250, 1000], "mean": [0.5, 0.25], "error": [0.01, 0.02], "unused": [1, 2]})
    table = results.results_table(frame, {"N": "{n:,}", "loss": "{mean:.2f} ± {error:.2f}"}, caption="Loss")
    assert repr(table) == "Loss\nN      loss\n250    0.50 ± 0.01\n1,000  0.25 ± 0.02"


def result(state: str, manifest: dict[str, Any], figure: PaperFigure | None = None, repeats: int = 100) -> store.Result:
    spec = Spec("toy", "mean", "quick", {"decision_rule": "always"} | ({"repeats": repeats} if figure else {}))
    experiment = Experiment(
        paper="toy",
        name="mean",
        title="A toy",
        question="?",
        specs={"quick": spec},
        cells=lambda spec: [{}],
        run_cell=lambda spec, cell, context: {"x": 1},
        decide=lambda frame, spec: Decision("reproduced", ""),
        unaccounted=("the scaling",),
        figure=figure,
    )
    reason = {"disputed": "numbers to be changed by new draws", "mismatched": "of other parameters or data: seed"}
    facts = manifest, state, reason.get(state, ""), Decision("undecided", "")
    return store.Result(experiment, spec, pd.DataFrame(), *facts)  # type: ignore[arg-type]


MANIFEST = {
    "experiment": "toy.mean",
    "git_commit": "fedcba9876543210",
    "git_dirty": True,
    "environments": [{"device": "cpu", "name": "a processor", "versions": {"torch": "2.13.0"}}],
    "cell_seconds": 12.3,
}
COMPUTED = "computed at fedcba987654, with uncommitted changes"
DISPUTED = "DISPUTED: numbers to be changed by new draws"
MISMATCHED = "MISMATCHED: of other parameters or data: seed"


@pytest.mark.parametrize(
    ("stored", "shown"),
    [(("quick",), "quick"), (("quick", "cpu"), "cpu"), (("quick", "cpu", "paper"), "paper"), (("cpu",), "cpu")],
)
def test_the_stored_result_of_the_largest_profile_is_shown(stored, shown, monkeypatch: pytest.MonkeyPatch):
    one = result("stored", MANIFEST)
    specs = {profile: replace(one.spec, profile=profile) for profile in ("quick", "cpu", "paper")}
    experiment = replace(one.experiment, specs=specs)

    def load(_: Any, profile: str) -> store.Result:
        state = "stored" if profile in stored else "missing"
        return replace(one, experiment=experiment, spec=specs[profile], state=state)

    monkeypatch.setattr(results.store, "load", load)
    assert results.Results([experiment]).show("mean").spec.profile == shown


def test_the_answer_is_the_first_word_and_the_rule_is_folded():
    one = result("stored", MANIFEST)
    shown = results.Shown(one, one)._repr_html_()
    assert "<p><b>Undecided</b>: the rule is met for neither answer. " in shown and "always" not in re.sub(
        "(?s)<details>.*?</details>", "", shown
    )
    assert "<summary>rule</summary><p>always</p></details>" in shown


def test_that_nothing_is_outstanding_is_said(monkeypatch: pytest.MonkeyPatch):
    for state, said in (("stored", "none"), ("missing", "A toy"), ("mismatched", "A toy"), ("disputed", "A toy")):
        one = result(state, MANIFEST)
        monkeypatch.setattr(results.store, "load", lambda *_, one=one: one)
        assert results.Results([one.experiment]).outstanding().rows[0][0] == said


def test_provenance_of_a_stored_result():
    assert results.provenance(result("stored", MANIFEST)).splitlines() == [
        "toy.mean, profile quick",
        f"{COMPUTED}; torch 2.13.0 on a processor; 12 s of computing",
        "not accounted: the scaling",
    ]


def test_agreement_is_no_part_of_what_a_notebook_shows():
    """Agreement changes with every commit, and stored outputs are compared."""
    record = {"cells": ["0", "1"], "largest": 0.0, "git_commit": "abcdef9876543210", "git_dirty": False, "source": "0"}
    agreed = result("stored", MANIFEST | {"cells": 9, "agreed": [record]})
    assert agreed.agreed == "last agreed at abcdef987654: 2 of 9 cells; code changed since"
    assert results.provenance(agreed) == results.provenance(result("stored", MANIFEST))
    drawn = results.picture(agreed, lambda axes: None, lambda: "A line.")
    assert " ".join(drawn.figure.get_supxlabel().split()) == f"{COMPUTED}; not accounted: the scaling"


def test_provenance_says_first_when_a_result_is_disputed_mismatched_or_missing():
    assert results.provenance(result("disputed", MANIFEST)).startswith(f"{DISPUTED}\n")
    assert results.provenance(result("mismatched", MANIFEST)).startswith(f"{MISMATCHED}\n")
    assert results.provenance(result("missing", {})).splitlines() == [
        "MISSING: dpnotes run toy.mean --profile quick",
        "not accounted: the scaling",
    ]


def test_the_picture_of_a_result_says_what_has_to_be_said():
    def finished(state: str) -> tuple[str, str, list[str], str]:
        shown = results.picture(result(state, MANIFEST), lambda axes: None, lambda: "A line.")
        (axes,) = shown.figure.axes
        said = shown.figure.get_suptitle(), [text.get_text() for text in axes.texts], shown.figure.get_supxlabel()
        return repr(shown), *said

    below = f"{COMPUTED}; not accounted: the scaling"
    assert finished("stored") == (f"{OWN}. A line.", OWN, [], below)
    said = f"{DISPUTED}; {OWN}"
    assert finished("disputed") == (f"{said}. A line.", said, ["DISPUTED"], below)
    said = f"{MISMATCHED}; {OWN}"
    assert finished("mismatched") == (f"{said}. Nothing to see yet.", said, ["MISMATCHED"], below)


def test_what_is_not_the_papers_setting_is_said_on_picture_and_table():
    shown = result("stored", MANIFEST, FIGURE, repeats=3)
    said = "not the paper's setting, profile quick: repeats 3 (paper: 100)"
    drawn = results.picture(shown, lambda axes: None, lambda: "A line.")
    assert drawn.figure.get_suptitle() == said and repr(drawn) == f"{said}. A line."
    assert results.table(shown, lambda frame: pd.DataFrame({"x": [1]}), {"x": "{x}"}).caption == said
    same = results.setting(result("stored", MANIFEST, FIGURE))
    assert same == "the paper's setting as far as it is stated, profile quick"


def test_the_comparison_says_what_differs_and_why():
    *rows, last = results.compared(result("stored", MANIFEST, FIGURE, repeats=3)).rows
    same = ["step size", "0.1", "0.1", ""]
    assert rows == [["repeats", "100", "3", "time"], same, ["batch", NOT_STATED, "16", "our choice"]]
    found = "Undecided: the rule is met for neither answer. This is not the paper's claim."
    assert last == ["what it shows", "a line", found, ""]


def test_a_missing_result_has_empty_axes_and_a_table_without_rows():
    def refuse(*_: Any) -> Any:
        raise AssertionError("there is nothing to draw")

    missing = result("missing", {})
    shown = results.picture(missing, refuse, refuse, widths=(1, 2))
    assert repr(shown) == f"MISSING: dpnotes run toy.mean --profile quick; {OWN}. Nothing to see yet."
    assert [text.get_text() for axes in shown.figure.axes for text in axes.texts] == ["MISSING"] * 2
    table = results.table(missing, refuse, {"x": "{x}"})
    assert (table.columns, table.rows) == (["x"], []) and table.caption.startswith("MISSING")


@pytest.mark.parametrize("state, said", [("stored", OWN), ("disputed", f"{DISPUTED}; {OWN}")])
def test_a_result_that_is_shown_is_drawn_and_tabulated(state: str, said: str):
    shown = results.picture(result(state, MANIFEST), lambda axes: plots.curve(axes, [1, 2], [3, 4]), lambda: "A line.")
    assert len(shown.figure.axes[0].lines) == 1 and repr(shown) == f"{said}. A line."
    table = results.table(result(state, MANIFEST), lambda frame: pd.DataFrame({"x": [1.5]}), {"x": "{x:.2f}"})
    assert table.rows == [["1.50"]] and table.caption == said


def test_a_result_that_is_shown_may_not_lack_a_column():
    for state in ("stored", "disputed"):
        with pytest.raises(KeyError, match="renamed"):
            results.table(result(state, MANIFEST), lambda frame: frame[["renamed"]], {"x": "{x}"})
    table = results.table(result("mismatched", MANIFEST), lambda frame: frame[["renamed"]], {"x": "{x}"})
    assert table.rows == [] and table.caption == f"{MISMATCHED}; {OWN}"


# ---------------------------------------------------------------- the notebooks
def test_every_figure_of_a_paper_says_how_ours_differs():
    figures = {one.id: one for one in all_experiments() if one.figure}
    assert {"budget_schedules.influence", "budget_schedules.mnist35", "noisy_sgd.convnet"} <= figures.keys()
    for experiment in figures.values():
        for profile, spec in experiment.specs.items():
            assert experiment.figure
            assert all(one.why for one in experiment.figure.settings if one.differs(spec)), experiment.id
            assert profile in experiment.setting(profile)
    quick = figures["noisy_sgd.convnet"].setting("quick")
    for word in ("not the paper's", "classes 2 (paper: 10)", "pixels a side 16 (paper: 32)", "images 1,000", "runs 8"):
        assert word in quick


def cells_of_results(notebook: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the cells that read or pass on the frame of a shown result, with their source."""
    found, names = [], set[str]()
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and "shown.show(" in ast.unparse(node.value):
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        if used & names:
            found.append((source, cell))
    return found


def unstamped(notebook: dict[str, Any]) -> list[str]:
    """Return pictures and tables of results that lack their setting."""
    settings = [one.setting(profile) for one in all_experiments() for profile in one.specs]
    wrong = []
    for source, cell in cells_of_results(notebook):
        for output in cell["outputs"]:
            data = output.get("data", {})
            text = "".join(data.get("text/plain", ""))
            shows = "text/html" in data and not text.startswith("question: ")  # text that `show` prints before
            if shows and not any(setting in text for setting in settings):
                wrong.append(source)
    return wrong


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
@pytest.mark.slow
def test_no_picture_or_table_of_a_result_lacks_its_setting(path: Path):
    notebook = json.loads(path.read_text())
    shown = cells_of_results(notebook)
    assert shown or not any("shown.show(" in "".join(cell["source"]) for cell in notebook["cells"])
    assert not unstamped(notebook)
    for _, cell in shown:  # the control: the same without its text
        for output in cell["outputs"]:
            if "<img" in "".join(output.get("data", {}).get("text/html", "")):
                output["data"]["text/plain"] = "Two curves."
                assert unstamped(notebook)


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
@pytest.mark.slow
def test_what_was_not_run_has_no_verdict(path: Path):
    for cell in json.loads(path.read_text())["cells"]:
        if "".join(cell["source"]) == "shown.outcomes()":
            text = "".join(cell["outputs"][0]["data"]["text/plain"])
            rows = [line for line in text.splitlines() if any(line.startswith(title) for title in missing())]
            assert all("  Not run." in row and not re.search("(Yes|No|Undecided):", row) for row in rows)


@cache  # loading all results takes seconds
def missing() -> set[str]:
    def is_shown(one: Experiment) -> bool:
        return any(store.load(one, profile).is_shown for profile in one.specs)

    return {one.title for one in all_experiments() if not is_shown(one)}
