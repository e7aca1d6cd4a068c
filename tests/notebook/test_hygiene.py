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


def first(notebook):
    """Return the first cell and the data of its output."""
    return notebook.cells[0], notebook.cells[0].outputs[0].data


def outputs(notebook, kind, **content):
    notebook.cells[0].outputs = [nbformat.v4.new_output(kind, **content)]


def two_functions_of_one_name(notebook):
    notebook.cells = [copy.deepcopy(notebook.cells[0]) for _ in range(2)]
    for number, cell in enumerate(notebook.cells):
        cell.update(id=f"cell-{number:02d}", source="def draw(data): ...")


STATES = {"application/vnd.jupyter.widget-state+json": {}}
BREACHES = {
    "cell 0: was never run": lambda made: first(made)[0].update(execution_count=None),
    "cell 0: stores an error, E": lambda made: outputs(made, "error", ename="E", evalue="", traceback=[]),
    "cell 0: stores a warning: hm": lambda made: outputs(made, "stream", name="stderr", text="hm\n"),
    "metadata.widgets": lambda made: made.metadata.update(widgets=STATES),
    "cell 0: stores a view of a widget": lambda made: first(made)[1].update({WIDGET: {"model_id": "1"}}),
    "cell 0: stores svg": lambda made: first(made)[1].update({"image/svg+xml": "<svg/>"}),
    "cell 0: stores svg,": lambda made: first(made)[1].update({"text/html": "<p><svg></svg></p>"}),
    "stores a picture without": lambda made: first(made)[1].update({"text/html": '<img alt="" src="data:">'}),
    "a picture without an alternative text": lambda made: first(made)[1].update({"image/png": "aaaa"}),
    "cell 0: ends with a semicolon": lambda made: first(made)[0].update(source="1 + 1;\n"),
    "bytes, more than": lambda made: first(made)[1].update({"text/plain": "a" * LARGEST}),
    "cell 1: defines draw, as cell 0 does": two_functions_of_one_name,
    "is not as python -m dpnotes.notebook.write writes it": lambda made: made.metadata.kernelspec.update(name="mine"),
}


@pytest.mark.parametrize("reason", BREACHES)
def test_control_each_rule_catches_its_breach(reason):
    notebook = good()
    BREACHES[reason](notebook)
    found = [*violations(nbformat.writes(notebook) + "\n")]
    assert any(reason in line for line in found), found
