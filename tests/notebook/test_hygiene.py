"""The notebooks of the repository follow the rules, and each rule can fail."""

import copy
import re

import nbformat
import pytest

from dpnotes.notebook import copies
from dpnotes.notebook.handout import exercises
from dpnotes.notebook.write import LARGEST, WIDGET, execute, to_text, violations

NOTEBOOKS = copies.notebooks()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_the_notebook_keeps_the_rules(path):
    assert [*violations(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_hint_that_a_text_speaks_of_is_that_of_an_exercise(path):
    source = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells)
    called = {*re.findall(r"`(\w+)\.(?:hint|solution)\(\)`", source)}
    assert called <= {*exercises(nbformat.read(path, as_version=4))}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["00_start_here", "02_noisy_sgd", "04_drift_escape"])
def test_once_all_cells_have_run_they_run_from_last_to_first(name: str):
    path = NOTEBOOKS[0].with_name(f"{name}.ipynb")
    notebook = nbformat.read(path, as_version=4)
    again = [nbformat.v4.new_code_cell(cell.source) for cell in reversed(notebook.cells) if cell.cell_type == "code"]
    notebook.cells += again
    execute(notebook, path.parent)


def good():
    """A notebook with one executed cell."""
    data = {"text/plain": "2", "text/html": '<img alt="A line." src="data:image/png;base64,aaaa">'}
    output = nbformat.v4.new_output("execute_result", data=data, execution_count=1)
    cell = nbformat.v4.new_code_cell("1 + 1", execution_count=1, outputs=[output])
    return nbformat.reads(to_text(nbformat.v4.new_notebook(cells=[cell])), as_version=4)


def test_a_good_notebook_is_let_through():
    assert [*violations(to_text(good()))] == []


def never_run(notebook):
    notebook.cells[0].execution_count = None


def error(notebook):
    notebook.cells[0].outputs = [nbformat.v4.new_output("error", ename="ValueError", evalue="", traceback=[])]


def warning(notebook):
    notebook.cells[0].outputs = [nbformat.v4.new_output("stream", name="stderr", text="UserWarning: hm\n")]


def widget_state(notebook):
    notebook.metadata.widgets = {"application/vnd.jupyter.widget-state+json": {}}


def widget_view(notebook):
    notebook.cells[0].outputs[0].data[WIDGET] = {"model_id": "1"}


def svg(notebook):
    notebook.cells[0].outputs[0].data["image/svg+xml"] = "<svg/>"


def svg_in_html(notebook):
    notebook.cells[0].outputs[0].data["text/html"] = "<p><svg></svg></p>"


def no_alternative_text(notebook):
    notebook.cells[0].outputs[0].data["text/html"] = '<img alt="" src="data:image/png;base64,aaaa">'


def bare_picture(notebook):
    notebook.cells[0].outputs[0].data["image/png"] = "aaaa"


def semicolon(notebook):
    notebook.cells[0].source = "1 + 1;\n"


def too_large(notebook):
    notebook.cells[0].outputs[0].data["text/html"] += "a" * LARGEST


def two_functions_of_one_name(notebook):
    notebook.cells = [copy.deepcopy(notebook.cells[0]) for _ in range(2)]
    for number, cell in enumerate(notebook.cells):
        cell.update(id=f"cell-{number:02d}", source="def draw(data): ...")


def foreign_metadata(notebook):
    notebook.metadata.kernelspec.display_name = "my kernel"


@pytest.mark.parametrize(
    "break_it, reason",
    [
        (never_run, "cell 0: was never run"),
        (error, "cell 0: stores an error, ValueError"),
        (warning, "cell 0: stores a warning: UserWarning: hm"),
        (widget_state, "metadata.widgets"),
        (widget_view, "cell 0: stores a view of a widget"),
        (svg, "cell 0: stores svg"),
        (svg_in_html, "cell 0: stores svg"),
        (no_alternative_text, "cell 0: stores a picture without an alternative text"),
        (bare_picture, "cell 0: stores a picture without an alternative text"),
        (semicolon, "cell 0: ends with a semicolon"),
        (too_large, "bytes, more than"),
        (two_functions_of_one_name, "cell 1: defines draw, as cell 0 does"),
        (foreign_metadata, "is not as python -m dpnotes.notebook.write writes it"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_control_each_rule_catches_its_breach(break_it, reason):
    notebook = good()
    break_it(notebook)
    found = [*violations(nbformat.writes(notebook) + "\n")]
    assert any(reason in line for line in found), found
