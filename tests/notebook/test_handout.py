"""Handouts: students get no solution, and a package without solutions that still checks; teachers get each solution."""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
from command import call
from nbformat import NotebookNode

from dpnotes.notebook import copies, handout
from dpnotes.notebook.write import environment, execute
from tests.notebook.test_exercises import ASKED, SOLUTIONS, planted, readable

ROOT = Path(__file__).parents[2]
SOURCES = ["from dpnotes.exercises.rates import crossing", "crossing", "answer = ...\ncrossing.check(answer)", "1 + 1"]
NOTEBOOKS = copies.notebooks()
NAMED = [name for name in copies.originals() if name.endswith(".ipynb")]


def notebook(sources: list[str] = SOURCES) -> NotebookNode:
    cells = [nbformat.v4.new_markdown_cell("# Title"), *map(nbformat.v4.new_code_cell, sources)]
    for cell in cells:
        if "crossing.check" in cell.source:
            cell.metadata.tags = ["exercise"]
    return nbformat.v4.new_notebook(cells=cells)


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def sources(made: NotebookNode) -> list[str]:
    return [cell.source for cell in made.cells]


# ---------------------------------------------------------------- one notebook
def test_an_instructor_sees_the_solution_between_the_readers_cell_and_its_points():
    made = handout.instructors(notebook())
    assert sources(made) == ["# Title", *SOURCES[:3], "crossing.solution()", "crossing.points(answer)", "1 + 1"]
    assert made.cells[4].outputs[0].text == f"{SOLUTIONS['rates', 'crossing'].words}\n"
    assert sources(handout.students(notebook())) == ["# Title", *SOURCES[:3], "crossing.points(answer)", "1 + 1"]


def test_a_copy_has_the_metadata_that_nbgrader_validates():
    cells = handout.students(notebook()).cells
    graded = {cell.source: cell.metadata.nbgrader for cell in cells if "nbgrader" in cell.metadata}
    usual = {"schema_version": 3, "cell_type": "code", "task": False}
    answered, points = graded.values()
    assert answered == {**usual, "grade_id": "crossing", "grade": False, "locked": False, "solution": True}
    name = {"grade_id": "crossing-points", "points": 1}
    assert points == {**usual, **name, "grade": True, "locked": True, "solution": False}
    assert [*graded] == SOURCES[2:3] + ["crossing.points(answer)"]


def test_a_notebook_without_exercises_is_copied():
    plain = notebook(["1 + 1"])
    assert handout.students(plain) == handout.instructors(plain) == plain


def test_the_command_line_says_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    originals = {"n.ipynb": nbformat.writes(notebook()).encode()}
    monkeypatch.setattr(handout.copies, "originals", lambda: originals)
    first, wheel, last = call("handout", tmp_path / "made").stdout.splitlines()
    assert first == "n.ipynb: 1 exercise" and wheel.startswith("dpnotes-") and last.endswith("written")


# ---------------------------------------------------------------- all of them
@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The handouts of all notebooks; the lines that were said are in said.json."""
    folder, said = tmp_path_factory.mktemp("handout"), list[str]()
    handout.write(folder, say=said.append)
    (folder / "said.json").write_text(json.dumps(said))
    return folder


@pytest.mark.slow
def test_a_full_handout_has_every_solution_for_teachers_and_none_for_students(written: Path):
    said = json.loads((written / "said.json").read_text())
    assert [line.partition(":")[0] for line in said[:-1]] == [*NAMED], "a line a notebook"
    shown, originals = [], copies.originals()
    for name in NAMED:
        for_students, for_instructor = (read(written / reader / name) for reader in ("students", "instructor"))
        original = nbformat.reads(originals[name].decode(), as_version=4)
        graded = [cell for cell in for_students.cells if not cell.metadata.get("nbgrader", {}).get("grade")]
        assert sources(original) == [cell.source for cell in graded]
        assert planted(readable(for_students)) == []
        assert bool(planted(readable(for_instructor))) == bool(handout.exercises(original)), "control"
        tagged = [cell for cell in for_instructor.cells if "solution" in cell.metadata.get("tags", [])]
        shown += [(cell.source, cell.outputs[0].text) for cell in tagged]
    assert sorted(shown) == sorted((f"{name}.solution()", f"{one}\n") for (_, name), one in SOLUTIONS.items())
    pages = [name for name in originals if name.endswith(".md")]
    assert all((written / reader / name).is_file() for name in pages for reader in ("students", "instructor"))


@pytest.mark.slow
def test_a_students_notebook_answered_gets_its_points(written: Path, tmp_path: Path):
    made = read(written / "students" / "00_start_here.ipynb")
    (place,) = (number for number, cell in enumerate(made.cells) if "exercise" in cell.metadata.get("tags", []))
    made.cells[place].source = made.cells[place].source.replace(
        "return ...", "return np.clip(values, -bound, bound).mean() + 2 * sigma * bound / len(values) * noise"
    )
    done = execute(made, tmp_path)
    assert done.cells[place].outputs[0].text == "Right.\n"
    assert done.cells[place + 1].outputs[0].data["text/plain"] == "1"


# ---------------------------------------------------------------- the students' package
@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    _, content = handout.students_wheel()
    zipfile.ZipFile(io.BytesIO(content)).extractall(folder)
    return folder


# An editable install answers for the modules that the package lacks.
ALONE = "import sys; sys.meta_path[:] = [one for one in sys.meta_path if 'editable' not in one.__module__]\n"


def run(package: Path, program: str) -> str:
    here = environment() | {"PYTHONPATH": str(package)}
    done = subprocess.run(
        [sys.executable, "-c", ALONE + program], cwd=package, env=here, capture_output=True, text=True
    )
    return done.stdout + done.stderr


def test_the_students_package_has_all_but_the_solutions(package: Path):
    ours = {path.relative_to(ROOT).as_posix() for path in (ROOT / "dpnotes").rglob("*.py")}
    theirs = {path.relative_to(package).as_posix() for path in (package / "dpnotes").rglob("*.py")}
    assert ours - theirs == {name for name in ours if name.startswith("dpnotes/solutions/")} and theirs < ours
    (record,) = package.glob("*.dist-info/RECORD")
    listed = {line.partition(",")[0] for line in record.read_text().splitlines()}
    assert listed == {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    assert (package / "dpnotes/carried/notebooks/rates.ipynb").is_file()


@pytest.mark.slow
def test_in_the_students_package_every_exercise_checks_and_none_has_a_solution(package: Path):
    modules = sorted({module for module, _ in ASKED})
    program = f"""\
import importlib, dpnotes
from dpnotes.notebook.teaching import Exercise
for name in {modules}:
    for one in vars(importlib.import_module(f"dpnotes.exercises.{{name}}")).values():
        if isinstance(one, Exercise):
            one.solution()
from dpnotes.exercises.rates import crossing
crossing.check(1000**0.5 / 1e6 ** (2 / 7))
print(dpnotes.__file__)"""
    *solutions, right, where = run(package, program).splitlines()
    assert solutions == ["This copy of dpnotes has no solutions: your teacher has them."] * len(ASKED)
    assert right == "Right." and where.startswith(str(package))
    refusal = run(package, "from dpnotes.notebook import handout; handout.write(None)")
    assert (
        refusal.splitlines()[-1]
        == "ValueError: Expected dpnotes.solutions, which this copy lacks: it is a students' copy."
    )
