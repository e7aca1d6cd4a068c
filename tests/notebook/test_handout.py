"""Handouts: students' copies contain no solution and still check answers; the instructor's copy shows all solutions."""

import ast
import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from dpnotes.notebook import handout
from dpnotes.notebook.write import execute, to_text

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SETUP = "import math\n\nfrom dpnotes.notebook import teaching"
DEFINITIONS = '''\
CONSTANT = math.e  # kept


def _solution_halve(value):
    """SECRET-A of a docstring."""
    return value * _solution_factor()  # SECRET-B


def _halve_mistake(function):
    answer = function(8)
    return "" if answer == 4 else f"at 8 it gives {answer}."


# SECRET-C, of the comment above a function that goes.
@staticmethod
def _solution_factor():
    return 0.5


def _wrong_halve(value):
    return value - 1  # SECRET-D


halve = teaching.Exercise(
    "Écrivez halve: „½“ of a value.",
    _halve_mistake,
    hints=["Der Faktor ist ½, nämlich 1/2."],  # kept or gone
    # SECRET-E, above a solution
    solution=_solution_halve,
    wrong=[_wrong_halve, lambda value: value / 3],  # SECRET-F
)

first = teaching.Exercise(  # SECRET-I
    # SECRET-J
    solution=("SECRET-G: it really is " f"{6 * 7}."),
    question="6 · 7?",
    mistake=teaching.near(42), answer=42,
    hints=["It is even.", "It is solution=40 + 2, (or: so)."], wrong=[36, (41, 43)[0]])
tiny = teaching.Exercise("1 + 1?", teaching.near(2), [], solution="SECRET-H.", wrong=[1], answer=2); kept = 3'''
SOURCES = [
    SETUP,
    DEFINITIONS,
    "halve",
    "def half(value):\n    return ...\n\n\nhalve.check(half)",
    "answer = ...\nfirst.check(answer)",
    "answer = ...\ntiny.check(answer)",
    "first.solution()",
    "teaching.proved(globals())",
]
SECRETS = "SECRET", "_solution", "_wrong", "proved", "solution=", "answer=", "wrong="


def notebook(sources: list[str] = SOURCES) -> NotebookNode:
    cells = [nbformat.v4.new_markdown_cell("# Title"), *map(nbformat.v4.new_code_cell, sources)]
    return nbformat.v4.new_notebook(cells=cells)


def printed(made: NotebookNode) -> list[str]:
    return ["".join(output.get("text", "") for output in cell.get("outputs", [])) for cell in made.cells]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both handouts of the notebook above, of a notebook without exercises, and of a page."""
    folder = tmp_path_factory.mktemp("handout")
    plain = to_text(notebook(["1 + 1"])).encode()
    said = handout.write(folder, {"a.ipynb": to_text(notebook()).encode(), "b.ipynb": plain, "docs/c.md": b"words"})
    assert said == ["a.ipynb: 3 exercises"]
    return folder


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


# ---------------------------------------------------------------- students
@pytest.mark.slow
def test_students_are_given_no_solution_and_the_rest_to_the_letter(written: Path):
    text = (written / "students/a.ipynb").read_text()
    # The hint that only resembles a solution stays.
    assert not [secret for secret in SECRETS if secret in text.replace("solution=40", "")]
    cells = [cell.source for cell in read(written / "students/a.ipynb").cells]
    definitions = cells.pop(2)
    assert cells == ["# Title", SETUP, *SOURCES[2:-1]]
    assert (
        definitions
        == """\
CONSTANT = math.e  # kept


def _halve_mistake(function):
    answer = function(8)
    return "" if answer == 4 else f"at 8 it gives {answer}."


halve = teaching.Exercise(
    "Écrivez halve: „½“ of a value.",
    _halve_mistake,
    hints=["Der Faktor ist ½, nämlich 1/2."],
)

first = teaching.Exercise(
    question="6 · 7?",
    mistake=teaching.near(42),
    hints=["It is even.", "It is solution=40 + 2, (or: so)."])
tiny = teaching.Exercise("1 + 1?", teaching.near(2), []); kept = 3"""
    )


@pytest.mark.slow
def test_students_copies_run_say_that_they_have_no_solution_and_take_right_answers(written: Path, tmp_path: Path):
    made = read(written / "students/a.ipynb")
    assert printed(made)[-1] == "This copy has no solutions.\n"
    assert all(cell.execution_count for cell in made.cells if cell.cell_type == "code")
    for right, wrong in (("lambda value: value / 2", "lambda value: value"), ("42", "41")):
        name = "halve" if "value" in right else "first"
        made.cells += map(nbformat.v4.new_code_cell, [f"{name}.check({right})", f"{name}.check({wrong})"])
    *_, right, wrong, also_right, also_wrong = printed(execute(made, tmp_path))
    assert right == also_right == "Right.\n"
    assert wrong.startswith("Not yet") and also_wrong.startswith("Not yet")


# ---------------------------------------------------------------- the instructor
def test_an_instructor_sees_each_solution_and_that_it_is_right(written: Path):
    made = read(written / "instructor/a.ipynb")
    shown = {cell.source: said for cell, said in zip(made.cells, printed(made), strict=True)}
    assert shown["first.solution()\nfirst.check(first.answer)"] == "SECRET-G: it really is 42.\nRight.\n"
    function = shown["halve.solution()\nhalve.check(halve.answer)"]
    assert function.startswith("def _solution_halve(value):") and function.endswith("# SECRET-B\nRight.\n")
    assert [cell.source for cell in made.cells if cell.source in SOURCES] == SOURCES
    assert shown[SOURCES[-1]].endswith("wrong answers do not.\n")


def test_what_has_no_exercises_is_copied(written: Path):
    for reader in ("students", "instructor"):
        assert (written / reader / "docs/c.md").read_bytes() == b"words"
        assert [cell.source for cell in read(written / reader / "b.ipynb").cells] == ["# Title", "1 + 1"]


# ---------------------------------------------------------------- what is refused
def changed(old: str, new: str) -> list[str]:
    assert any(old in source for source in SOURCES), old
    return [source.replace(old, new) for source in SOURCES]


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (changed('solution="SECRET-H.", ', ""), "cell 2: tiny: Expected solution=..., without which"),
        (changed("wrong=[1], ", ""), "cell 2: tiny: Expected wrong=..., without which"),
        (changed("wrong=[1], answer=2", "wrong=[1]"), "cell 2: tiny: Expected answer=..., as its solution is words"),
        (changed('[], solution="SECRET-H."', '[], "SECRET-H."'), "cell 2: tiny: Expected question, mistake and hints"),
        (changed("_solution_halve", "_halved"), "cell 2: halve: Expected answer=..., as its solution is words, or a"),
        (changed("tiny.check(answer)", "tiny"), "Expected a reader's cell with tiny.check(...), found none"),
        (changed("teaching.proved(globals())", "1"), "Expected a cell teaching.proved(globals()) after the exercises"),
        (changed("tiny = teaching", "first = teaching"), "cell 2: Expected first once, got another in cell 2"),
        (changed("tiny = teaching", "tiny = [1], teaching"), "cell 2: Expected every exercise as NAME = teaching"),
        (changed("kept = 3", "kept = _solution_halve"), "cell 2: Expected _solution_halve in solutions and wrong"),
        (changed("halve.check(half)", "halve.check(half"), "cell 4: Expected Python, got '(' was never closed in line"),
        (changed("answer=42", "answer=41"), "its answer fails"),
        (changed("near(2)", "near(3, 0.9)"), "passes, though wrong: 1"),
        ([*SOURCES, "# By the way, SECRET-G: it really is 42."], "first: Expected its solution nowhere else, but"),
        ([*SOURCES, "print('SECRET-G', 'it really is 42.', sep=': ')"], "first: Expected its solution nowhere else"),
        ([*SOURCES, "halve.answer(1) + 0"], "the students' copy does not run: TypeError: 'ellipsis'"),
    ],
)
@pytest.mark.slow
def test_a_notebook_that_breaks_the_rules_is_named_and_nothing_is_written(
    sources: list[str], message: str, tmp_path: Path
):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        handout.write(tmp_path / "made", {"a.md": b"words", "n.ipynb": to_text(notebook(sources)).encode()})
    assert str(error.value).startswith("n.ipynb: ") and not (tmp_path / "made").exists()


def test_the_command_line_says_what_was_written_or_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    originals = {"n.ipynb": to_text(notebook(["1"])).encode()}
    monkeypatch.setattr(handout.copies, "originals", lambda: originals)
    assert handout.main([str(tmp_path / "made")]) == 0 and "students and " in capsys.readouterr().out
    originals["m.ipynb"] = to_text(notebook(SOURCES[:-1])).encode()
    assert handout.main([str(tmp_path / "other")]) == 1 and not (tmp_path / "other").exists()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dpnotes: m.ipynb: Expected a cell teaching.proved")


# ---------------------------------------------------------------- the real ones
def solutions(made: NotebookNode) -> dict[str, str]:
    """Return, by name, the source of each exercise's right answer: its function, or `answer`."""
    found = {}
    for cell in made.cells:
        for statement in ast.parse(cell.source).body if cell.cell_type == "code" else ():
            if isinstance(statement, ast.Assign) and ".Exercise(" in ast.unparse(statement.value)[:20]:
                given = {each.arg: ast.unparse(each.value) for each in statement.value.keywords}  # type: ignore[attr-defined]
                found[ast.unparse(statement.targets[0])] = given.get("answer") or given["solution"]
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.slow
def test_every_notebook_keeps_to_the_rules(path: Path):
    made = handout.students(read(path))
    for cell in made.cells:
        if cell.cell_type == "code":
            names = {node.arg for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.keyword)}
            assert (
                not names & {"solution", "wrong"} and "_solution_" not in cell.source and "_wrong_" not in cell.source
            )
    assert len(handout.instructors(read(path)).cells) == len(read(path).cells) + len(solutions(read(path)))


# Three runs each for four notebooks with all kinds of answers. nbval runs `teaching.proved` in all notebooks.
RUN = [path for path in NOTEBOOKS if path.stem in ("00_start_here", "04b_clients", "bring_your_own", "errata")]


@pytest.mark.slow
@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_handouts_of_the_notebooks(path: Path, tmp_path: Path):
    handout.write(tmp_path, {path.name: path.read_bytes()})  # this checks that no solution is left, and runs all cells
    whole, for_students = read(path), read(tmp_path / "students" / path.name)
    right = solutions(whole)
    said = "".join(printed(read(tmp_path / "instructor" / path.name)))
    assert said.count("Right.\n") >= len(right)
    helpers = [
        ast.unparse(statement)
        for cell in whole.cells
        if cell.cell_type == "code"
        for statement in ast.parse(cell.source).body
        if isinstance(statement, ast.FunctionDef) and statement.name.startswith("_solution_")
    ]
    checks = [f"{name}.check({answer})" for name, answer in right.items()]
    for_students.cells += map(nbformat.v4.new_code_cell, ["\n".join(helpers), *checks])
    last = printed(execute(for_students, tmp_path))[len(for_students.cells) - len(checks) :]
    assert last == ["Right.\n"] * len(checks)


# ---------------------------------------------------------------- the syllabus
def misnamed(page: str, headings: dict[str, list[str]], exercises: dict[str, list[str]]) -> list[str]:
    """Return sections and exercises that a syllabus names and its notebooks lack, row by row."""
    found = []
    for row in re.findall(r"^\|.*notebooks/.*$", page, re.MULTILINE):
        parts = re.findall(r"notebooks/(\w+)\.ipynb\)([^\[|]*)", row)
        for name, sections in parts:
            named = re.findall(r"\*([^*]+)\*", sections)
            found += [f"{name}: {section}" for section in named if section not in headings.get(name, [])]
        known = [exercise for name, _ in parts for exercise in exercises.get(name, [])]
        found += [exercise for exercise in re.findall(r"`(\w+)`", row.split("|")[-2]) if exercise not in known]
    return found


def test_the_syllabus_names_sections_and_exercises_that_there_are():
    page = (ROOT / "docs/syllabus.md").read_text()
    headings = {path.stem: re.findall(r"^#+ (.*)$", text_of(path), re.MULTILINE) for path in NOTEBOOKS}
    exercises = {path.stem: [*solutions(read(path))] for path in NOTEBOOKS}
    assert not misnamed(page, headings, exercises)


def test_control_a_section_that_is_not_there_is_seen():
    row = "| 1 | [a](../notebooks/a.ipynb): *One*, *Two*; [b](../notebooks/b.ipynb): *Three* | `x`, `y` |"
    assert misnamed(row, {"a": ["One"], "b": ["Three"]}, {"b": ["y"], "c": ["x"]}) == ["a: Two", "x"]


def text_of(path: Path) -> str:
    """Return the text of a notebook."""
    return "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
