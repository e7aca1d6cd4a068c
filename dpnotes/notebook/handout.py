"""Handouts for a class: students get notebooks and a package without solutions, teachers notebooks with them.

`dpnotes handout FOLDER` writes them. A reader's cell of an exercise has the tag "exercise" and ends with
`NAME.check(...)`; the notebook imports NAME from its module of `dpnotes.exercises`. In both handouts the cell has
nbgrader's metadata, and a locked cell after it gives the points. Students can read how an answer is checked: the
exercises are for self-assessment, not for examination.
"""

import base64
import contextlib
import copy
import hashlib
import importlib
import importlib.metadata
import importlib.util
import io
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import nbformat
from nbconvert.preprocessors import TagRemovePreprocessor
from nbformat import NotebookNode

import dpnotes
from dpnotes.experiments.store import notebooks_folder
from dpnotes.notebook import copies
from dpnotes.notebook.teaching import Exercise
from dpnotes.util import files

_IMPORT = re.compile(r"^from (dpnotes\.exercises\.\w+) import ([\w, ]+)$", re.MULTILINE)
_CHECK = re.compile(r"^(\w+)\.check\((\w+)\)$", re.MULTILINE)


def exercises(notebook: NotebookNode) -> dict[str, Exercise]:
    """The exercises that a notebook imports, by name.

    >>> code = nbformat.v4.new_code_cell("from dpnotes.exercises.rates import crossing")
    >>> list(exercises(nbformat.v4.new_notebook(cells=[code])))
    ['crossing']
    """
    found = [match for cell in notebook.cells for match in _IMPORT.findall(cell.source) if cell.cell_type == "code"]
    modules = {name: importlib.import_module(module) for module, names in found for name in names.split(", ")}
    return {name: getattr(module, name) for name, module in modules.items()}


def instructors(notebook: NotebookNode) -> NotebookNode:
    """A copy in which each exercise is followed by its solution, in a cell with the tag "solution", and by its points.

    Args:
      notebook: of nbformat 4; without exercises it is copied unchanged.

    >>> code = ("from dpnotes.exercises.rates import crossing", "crossing.check(answer)")
    >>> cells = [nbformat.v4.new_code_cell(source, metadata={"tags": ["exercise"]}) for source in code]
    >>> [cell.source for cell in instructors(nbformat.v4.new_notebook(cells=cells)).cells][2:]
    ['crossing.solution()', 'crossing.points(answer)']
    """
    known, made = exercises(notebook), copy.deepcopy(notebook)
    made.cells = []
    for cell in copy.deepcopy(notebook.cells):
        made.cells.append(cell)
        found = _CHECK.findall(cell.source) if "exercise" in cell.metadata.get("tags", []) else []
        for name, answer in found:
            cell.metadata.nbgrader = _grading(name, solution=True)
            text = io.StringIO()
            with contextlib.redirect_stdout(text):
                known[name].solution()
            said = nbformat.v4.new_output("stream", text=text.getvalue())
            points = nbformat.v4.new_output("execute_result", data={"text/plain": "0"}, execution_count=1)
            grading = _grading(f"{name}-points", grade=True, locked=True, points=1)
            made.cells.append(_cell(f"{name}.solution()", said, tags=["solution"]))
            made.cells.append(_cell(f"{name}.points({answer})", points, nbgrader=grading))
    return made


def students(notebook: NotebookNode) -> NotebookNode:
    """The instructor's copy without the solutions.

    >>> students(nbformat.v4.new_notebook()).cells
    []
    """
    return TagRemovePreprocessor(remove_cell_tags={"solution"}).preprocess(instructors(notebook), {})[0]


def _cell(source: str, output: NotebookNode, **metadata: object) -> NotebookNode:
    return nbformat.v4.new_code_cell(source, execution_count=1, outputs=[output], metadata=metadata)


def _grading(grade_id: str, **given: object) -> dict[str, object]:
    """A cell's metadata for nbgrader, of its schema 3."""
    usual = {"grade": False, "locked": False, "solution": False, "task": False}
    return {**usual, "schema_version": 3, "cell_type": "code", "grade_id": grade_id, **given}


# ---------------------------------------------------------------- the package
def students_wheel() -> tuple[str, bytes]:
    """The file name and the content of a wheel of this package, with its notebooks and results, without its solutions.

    >>> name, content = students_wheel()
    >>> names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    >>> name.startswith("dpnotes-"), "dpnotes/core.py" in names, [name for name in names if "solutions" in name]
    (True, True, [])
    """
    root, installed = Path(dpnotes.__file__).parent, importlib.metadata.distribution("dpnotes")
    inside = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    inside |= {f"carried/{path.relative_to(notebooks_folder().parent).as_posix()}": path for path in copies.carried()}
    left_out = {"__pycache__", "solutions"}
    parts = {f"dpnotes/{name}": path.read_bytes() for name, path in inside.items() if not left_out & {*name.split("/")}}
    about = f"dpnotes-{installed.version}.dist-info"
    tags = "Wheel-Version: 1.0\nGenerator: dpnotes\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    parts[f"{about}/WHEEL"] = tags.encode()
    for name in ("METADATA", "entry_points.txt"):
        parts[f"{about}/{name}"] = (installed.read_text(name) or "").encode()
    record = ""
    for name, content in parts.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        record += f"{name},sha256={digest},{len(content)}\n"
    parts[f"{about}/RECORD"] = f"{record}{about}/RECORD,,\n".encode()
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(parts, key=lambda name: (name.startswith(about), name)):
            archive.writestr(name, parts[name])
    return f"dpnotes-{installed.version}-py3-none-any.whl", wheel.getvalue()


# ---------------------------------------------------------------- all notebooks
def write(
    folder: Path, originals: Mapping[str, bytes] | None = None, say: Callable[[str], object] = lambda line: None
) -> None:
    """Write `students/` and `instructor/` into a folder, both or neither.

    Args:
      folder: made if it is missing; existing files of the same names are replaced.
      originals: notebooks and pages by name; None: those of this package. Files without exercises are copied.
      say: receives a line about each notebook when it is done.

    Raises:
      ValueError: this copy of dpnotes has no solutions.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     write(Path(place), {"page.md": b"words"})
    ...     sorted(path.name for path in Path(place).glob("*/*.md"))
    ['page.md', 'page.md']
    """
    if importlib.util.find_spec("dpnotes.solutions") is None:
        raise ValueError("Expected dpnotes.solutions, which this copy lacks: it is a students' copy.")
    made: dict[Path, bytes] = {}
    for name, content in (copies.originals() if originals is None else originals).items():
        both = {"students": content, "instructor": content}
        if name.endswith(".ipynb"):
            notebook = nbformat.reads(content.decode(), as_version=4)
            both = {"students": students(notebook), "instructor": instructors(notebook)}
            both = {reader: (nbformat.writes(copied) + "\n").encode() for reader, copied in both.items()}
            number = len(exercises(notebook))
            say(f"{name}: {number} exercise{'s' * (number != 1)}")
        made |= {folder / reader / name: copied for reader, copied in both.items()}
    name, content = students_wheel()
    say(f"{name}: the package without solutions, for students to install")
    files.write({**made, folder / "students" / name: content})
