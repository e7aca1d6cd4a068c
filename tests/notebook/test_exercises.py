"""Exercises: solutions pass, wrong answers are refused without telling the right one, and no student's file has one."""

import ast
import builtins
import importlib
import inspect
import pkgutil
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch

import dpnotes.exercises
from dpnotes.notebook import copies, handout
from dpnotes.notebook.teaching import Exercise, near
from dpnotes.solutions import Solution

ROOT = Path(__file__).parents[2]
NOTEBOOKS = {path.stem: nbformat.read(path, as_version=4) for path in copies.notebooks()}
MODULES = [name for _, name, _ in pkgutil.iter_modules(dpnotes.exercises.__path__)]
ASKED = {
    (module, name): one
    for module in MODULES
    for name, one in vars(importlib.import_module(f"dpnotes.exercises.{module}")).items()
    if isinstance(one, Exercise)
}
SOLUTIONS: dict[tuple[str, str], Solution] = {
    (module, name): solution
    for module in {module: 1 for module, _ in ASKED}
    for name, solution in importlib.import_module(f"dpnotes.solutions.{module}").SOLUTIONS.items()
}
# The mistake that a check says of each wrong answer, in the order of `wrong`.
MISTAKES = Path(__file__).with_name("mistakes.txt")
FUNCTIONS = {place: solution.answer for place, solution in SOLUTIONS.items() if callable(solution.answer)}


# ---------------------------------------------------------------- checks
def unsound(asked: Exercise, solution: Solution) -> list[str]:
    """Return the faults: a right answer that fails, a wrong one that passes, or whose mistake tells the right one."""
    mistakes = [asked.mistake(one) for one in solution.wrong]
    found = [f"the right answer fails: {asked.mistake(solution.answer)}"] * bool(asked.mistake(solution.answer))
    found += [f"wrong answer {place} passes" for place, mistake in enumerate(mistakes) if not mistake]
    return found + [f"tells the answer: {mistake}" for mistake in mistakes if tells(mistake, solution.answer)]


def tells(mistake: str, answer: Any) -> bool:
    """Return whether words contain a vector, or the right number to 0.1%."""
    numbers = [float(number) for number in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", mistake)]
    return "[" in mistake or isinstance(answer, float | int) and any(near(answer, 1e-3)(each) == "" for each in numbers)


def test_each_exercise_has_a_solution_and_wrong_answers():
    assert len(ASKED) == 31 and ASKED.keys() == SOLUTIONS.keys()
    assert all(len(solution.wrong) > 1 for solution in SOLUTIONS.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("place", ASKED, ids=".".join)
def test_a_check_takes_the_solution_and_says_the_mistake_in_other_answers(place: tuple[str, str], dtype: torch.dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)  # notebooks compute in either
    try:
        assert unsound(ASKED[place], SOLUTIONS[place]) == []
        said = [ASKED[place].mistake(one) for one in SOLUTIONS[place].wrong]
    finally:
        torch.set_default_dtype(before)
    stored = MISTAKES.read_text().splitlines()
    assert said == [line.partition(": ")[2] for line in stored if line.startswith(f"{'.'.join(place)}: ")]


@pytest.mark.parametrize(
    ("solution", "mistake", "found"),
    [
        (Solution(3, [1]), lambda number: near(2)(number), "the right answer fails: 3 is too large."),
        (Solution(2, [1, 2.001]), lambda number: near(2)(number), "wrong answer 1 passes"),
        (Solution(2, [1]), lambda number: "" if number == 2 else "right is 2.", "tells the answer: right is 2."),
        (Solution(2, [1]), lambda number: "" if number == 2 else "it is [0.1].", "tells the answer: it is [0.1]."),
    ],
)
def test_control_an_unsound_exercise_is_seen(solution: Solution, mistake: Any, found: str):
    assert unsound(Exercise("?", [], mistake, 1.0), solution) == [found]


# ---------------------------------------------------------------- odd answers
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (..., "Not answered yet: put your answer in place of the dots."),
        (2.01, "Right."),
        (1.9, "Not yet: 1.9 is too small."),
        (float("nan"), "Not yet: nan is not a number."),
        ("two", "Not yet: 'two' is not a number."),
        (None, "Not yet: None is not a number."),
    ],
)
def test_a_check_of_a_number_says_what_is_wrong(capsys: pytest.CaptureFixture[str], answer: Any, said: str):
    asked = Exercise("How many?", [], lambda number: near(2.0)(number), 1.0)
    asked.check(answer)
    assert capsys.readouterr().out == f"{said}\n" and asked.points(answer) == (said == "Right.")


def never_ends(x: float) -> None:
    while True:
        try:
            x += 1
        except Exception:
            pass


def raises(x: float) -> None:
    raise OSError("no such thing")


after_restart = eval("lambda x: helper(x)")  # a helper whose cell was not run


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (lambda x: x + 1, ""),
        (lambda x: x, "f(0) should be 1."),
        (lambda x: ..., "the function still returns the dots."),
        (3, "3 is not a function."),
        (raises, "it raises OSError: no such thing"),
        (sys.exit, "it raises SystemExit: 0"),
        (after_restart, "it uses `helper`, which does not exist: run the cell that defines it, or correct the name."),
        (never_ends, "there is no result after 0.1 seconds. Does a loop never end?"),
    ],
)
def test_a_check_of_a_function_ends_whatever_the_function_does(answer: Any, mistake: str):
    before = signal.getsignal(signal.SIGALRM)
    asked = Exercise("Add 1.", [], lambda function: "" if function(0) == 1 else "f(0) should be 1.", 0.1)
    assert asked.mistake(answer) == mistake
    assert signal.getsignal(signal.SIGALRM) is before


def test_a_name_without_a_value_is_said():
    def answer(x):
        if x > 1:
            found = x
        return found  # pyright: ignore[reportPossiblyUnbound]

    asked = Exercise("?", [], lambda function: str(function(0)), 1.0)
    assert asked.mistake(answer).startswith("it raises UnboundLocalError: cannot access local variable 'found'")


def test_outside_the_main_thread_a_check_has_no_limit_and_works():
    said = []
    asked = Exercise("?", [], lambda number: near(2)(number), 1.0)
    other = threading.Thread(target=lambda: said.append(asked.mistake(3)))
    other.start()
    other.join()
    assert said == ["3 is too large."]


def test_a_function_cannot_change_what_the_checker_compares_with():
    given = [1, 2]
    asked = Exercise("?", [], lambda function: "" if function(given) is None and given == [1, 2] else "changed", 1.0)
    assert asked.mistake(list.clear) == "" and given == [1, 2]


def test_hints_come_one_at_a_time_and_then_again(capsys: pytest.CaptureFixture[str]):
    asked = Exercise("How many?", ["More than one.", "Fewer than three."], lambda number: "", 1.0)
    for _ in range(3):
        asked.hint()
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["Hint 1 of 2: More than one.", "Hint 2 of 2: Fewer than three.", *lines[:1]]


# ---------------------------------------------------------------- the notebooks
def code(notebook: nbformat.NotebookNode) -> list[ast.Module]:
    return [ast.parse(cell.source) for cell in notebook.cells if cell.cell_type == "code"]


def readers_cells() -> Iterator[tuple[tuple[str, str], ast.Module, set[str]]]:
    """Yield each exercise's module and name, the reader's cell, and the names that its notebook defines."""
    for notebook in NOTEBOOKS.values():
        module = {name: one for name, one in handout.exercises(notebook).items()}
        names = {*dir(builtins)}
        for tree in code(notebook):
            for node in ast.walk(tree):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
            names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node not in tree.body}
        for cell in notebook.cells:
            if "exercise" in cell.metadata.get("tags", []):
                name = ast.unparse(ast.parse(cell.source).body[-1]).partition(".")[0]
                place = next(place for place, one in ASKED.items() if one is module[name])
                yield place, ast.parse(cell.source), names


def test_each_exercise_is_in_one_notebook():
    assert sorted(place for place, _, _ in readers_cells()) == sorted(ASKED)
    for notebook in NOTEBOOKS.values():
        handout.instructors(notebook)  # which refuses an exercise without a reader's cell


def test_a_solution_is_the_readers_function_and_uses_what_the_notebook_has():
    for place, cell, names in readers_cells():
        if place in FUNCTIONS:
            (asked,) = (node for node in cell.body if isinstance(node, ast.FunctionDef))
            (solved,) = ast.parse(inspect.getsource(FUNCTIONS[place])).body
            assert isinstance(solved, ast.FunctionDef)
            assert (solved.name, ast.unparse(solved.args)) == (asked.name, ast.unparse(asked.args)), place
            assert {*FUNCTIONS[place].__code__.co_names} - names <= attributes(solved), place


def attributes(tree: ast.AST) -> set[str]:
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


# ---------------------------------------------------------------- planted solutions
def squeezed(text: str) -> str:
    return re.sub(r"\s", "", text)


def planted(text: str) -> list[str]:
    """Return the places whose solution a student's file contains: the body of its function, or its words."""
    shown, found = squeezed(text), re.findall(r"\bSOLUTIONS\b|import.* solutions", text)
    for place, solution in SOLUTIONS.items():
        told = str(solution).partition(":\n")[2] if place in FUNCTIONS else solution.words
        found += [".".join(place)] * (squeezed(told) in shown)
    return found


def readable(notebook: nbformat.NotebookNode) -> str:
    """Return the cells of a notebook and what they printed."""
    printed = [output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join([*(cell.source for cell in notebook.cells), *printed])


def test_no_students_file_has_a_solution():
    files = [(ROOT / f"dpnotes/exercises/{module}.py").read_text() for module in MODULES]
    files += [readable(handout.students(notebook)) for notebook in NOTEBOOKS.values()]
    for text in files:
        assert planted(text) == []
    for place, solution in SOLUTIONS.items():
        assert ".".join(place) in planted(f"{files[0]}\n{solution}"), "control"
