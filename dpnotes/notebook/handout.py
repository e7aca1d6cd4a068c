"""The notebooks for a class: students' copies without solutions, an instructor's with each solution shown and checked.

    python -m dpnotes.notebook.handout FOLDER

A notebook with exercises must follow these rules, else it is refused:

* `NAME = teaching.Exercise(question, mistake, hints=..., solution=..., wrong=...)` is at the top level of a cell, with
  `answer=` where the solution is words; a solution that is code is a function called `_solution_...`;
* code that only solutions and wrong answers use is in top-level functions called `_solution_...` or `_wrong_...`;
* the reader's cell ends with `NAME.check(...)`, and the notebook has `teaching.proved(globals())` in a cell of its own.

Students can read how an answer is checked: the exercises are for self-assessment, not for examination.
"""

import argparse
import ast
import copy
import io
import sys
import tempfile
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import nbformat
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from dpnotes.notebook import copies
from dpnotes.notebook.teaching import RIGHT
from dpnotes.notebook.write import execute, to_text
from dpnotes.util import files

_HIDDEN = ("solution", "answer", "wrong")
_HELPERS = ("_solution_", "_wrong_")
_LONG = 20  # characters: a shorter solution may occur anywhere by chance
_PROVED = "teaching.proved(globals())"


# ---------------------------------------------------------------- one notebook
def students(notebook: NotebookNode) -> NotebookNode:
    """A copy without solutions, answers and wrong answers, with the rest of its text unchanged; it is not run.

    Args:
      notebook: a notebook that follows the rules; without exercises it is copied unchanged.

    Raises:
      ValueError: the notebook breaks a rule; the message names the cell and the exercise.

    >>> source = ["six = teaching.Exercise('6 * 7?', near(42), [], solution='42.', answer=42, wrong=[36])",
    ...           "six.check(...)", "teaching.proved(globals())"]
    >>> [cell.source for cell in students(_of_code(source)).cells]
    ["six = teaching.Exercise('6 * 7?', near(42), [])", 'six.check(...)']
    """
    _exercises(notebook)
    notebook = copy.deepcopy(notebook)
    for number, cell in _code(notebook):
        was, cell.source = cell.source, _without_solutions(cell.source)
        if cell.source != was:
            cell.outputs = []
        if left := _helpers_in(cell.source):
            raise ValueError(
                f"cell {number}: Expected {', '.join(left)} in solutions and wrong answers only, not in what stays."
            )
    notebook.cells = [cell for cell in notebook.cells if cell.source.strip()]
    return notebook


def instructors(notebook: NotebookNode) -> NotebookNode:
    r"""A copy with a cell after each reader's cell that shows the solution and checks the answer; it is not run.

    Args:
      notebook: a notebook that follows the rules; without exercises it is copied unchanged.

    Raises:
      ValueError: the notebook breaks a rule; the message names the cell and the exercise.

    >>> source = ["six = teaching.Exercise('6 * 7?', near(42), [], solution='42.', answer=42, wrong=[36])",
    ...           "six.check(...)", "teaching.proved(globals())"]
    >>> [cell.source for cell in instructors(_of_code(source)).cells][2]
    'six.solution()\nsix.check(six.answer)'
    """
    found = _exercises(notebook)
    notebook = copy.deepcopy(notebook)
    cells = []
    for number, cell in enumerate(notebook.cells):
        shown = [nbformat.v4.new_code_cell(_shown(name)) for name, at in found.items() if at == number]
        cells += [cell, *shown]
    notebook.cells = cells
    return notebook


def _shown(name: str) -> str:
    return f"{name}.solution()\n{name}.check({name}.answer)"


def _of_code(sources: Sequence[str]) -> NotebookNode:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])


# ---------------------------------------------------------------- the rules
def _exercises(notebook: NotebookNode) -> dict[str, int]:
    """The number of the reader's cell of each exercise, by the exercise's name."""
    trees = {number: _parsed(number, cell.source) for number, cell in _code(notebook)}
    calls = {number: sum(map(_is_exercise, ast.walk(tree))) for number, tree in trees.items()}
    defined: dict[str, int] = {}
    for number, tree in trees.items():
        for name, call in _assigned(tree):
            calls[number] -= 1
            if why := _unfit(call):
                raise ValueError(f"cell {number}: {name}: Expected {why}.")
            if name in defined:
                raise ValueError(f"cell {number}: Expected {name} once, got another in cell {defined[name]}.")
            defined[name] = number
    if odd := [number for number, count in calls.items() if count]:
        raise ValueError(f"cell {odd[0]}: Expected every exercise as NAME = teaching.Exercise(...) at the top.")
    if defined and not any(map(_is_proved, (statement for tree in trees.values() for statement in tree.body))):
        raise ValueError(f"Expected a cell {_PROVED} after the exercises {', '.join(defined)}.")
    readers = {name: _readers(name, at, trees) for name, at in defined.items()}
    if missing := [name for name, at in readers.items() if at is None]:
        raise ValueError(f"Expected a reader's cell with {missing[0]}.check(...), found none.")
    return {name: at for name, at in readers.items() if at is not None}


def _readers(name: str, defined: int, trees: Mapping[int, ast.Module]) -> int | None:
    """The number of the cell that ends with a check of an exercise."""
    calls = {number: tree.body[-1] for number, tree in trees.items() if number >= defined and tree.body}
    return next((at for at, last in calls.items() if ast.unparse(last).startswith(f"{name}.check(")), None)


def _unfit(call: ast.Call) -> str:
    """The parts that a call of Exercise lacks, in words; empty if it follows the rules."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if len(call.args) > 3 or None in given:
        return "question, mistake and hints by place and the rest by name"
    missing = [f"{name}=..." for name in ("solution", "wrong") if name not in given]
    if missing:
        return f"{' and '.join(missing)}, without which nothing proves it"
    solution = given["solution"]
    if isinstance(solution, ast.Name) and solution.id.startswith("_solution_") or "answer" in given:
        return ""
    return "answer=..., as its solution is words, or a function called _solution_... as its solution"


def _code(notebook: NotebookNode) -> Iterator[tuple[int, NotebookNode]]:
    return ((number, cell) for number, cell in enumerate(notebook.cells) if cell.cell_type == "code")


def _parsed(number: int, source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        raise ValueError(f"cell {number}: Expected Python, got {error.msg} in line {error.lineno}.") from error


def _is_exercise(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("teaching.Exercise", "Exercise")


def _is_proved(statement: ast.stmt) -> bool:
    return ast.unparse(statement) in (_PROVED, _PROVED.removeprefix("teaching."))


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """The exercises at the top level of a cell."""
    for statement in tree.body:
        if (
            isinstance(statement, ast.Assign)
            and isinstance(statement.value, ast.Call)
            and _is_exercise(statement.value)
        ):
            (target,) = statement.targets
            yield ast.unparse(target), statement.value


def _is_helper(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.FunctionDef) and statement.name.startswith(_HELPERS)


def _helpers_in(source: str) -> list[str]:
    """The names of the solutions' helpers that a source uses."""
    names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    return sorted(name for name in names if name.startswith(_HELPERS))


# ---------------------------------------------------------------- what is left of a cell
def _without_solutions(source: str) -> str:
    r"""The source of a cell without solutions and the code that only they use, otherwise unchanged to the letter.

    >>> _without_solutions("x = 1\n\n\ndef _wrong_x():\n    return 2\n\n\nteaching.proved(globals())")
    'x = 1'
    """
    expected = ast.parse(source)
    expected.body = [statement for statement in expected.body if not (_is_helper(statement) or _is_proved(statement))]
    for _, call in _assigned(expected):
        call.keywords = [keyword for keyword in call.keywords if keyword.arg not in _HIDDEN]
    while spans := _Text(source).next_solution():
        for start, end in sorted(spans, reverse=True):
            source = (source[:start] + source[end:]).rstrip("\n")
    if ast.dump(ast.parse(source)) != ast.dump(expected):
        raise ValueError(f"Expected solutions on lines of their own, else other code goes with them:\n{source}")
    return source


class _Text:
    """The positions of a source's parts in its text."""

    def __init__(self, source: str):
        self._tree = ast.parse(source)
        self._lines = source.splitlines(keepends=True)
        self._starts = [sum(map(len, self._lines[:number])) for number in range(len(self._lines) + 1)]
        tokens = [*tokenize.generate_tokens(io.StringIO(source).readline)]
        silent = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT)
        self._comments = [token for token in tokens if token.type == tokenize.COMMENT]
        self._tokens = [token for token in tokens if token.type not in silent]

    def next_solution(self) -> list[tuple[int, int]]:
        """The spans of the first part to remove; empty if nothing is left to remove."""
        for statement in self._tree.body:
            if _is_helper(statement) or _is_proved(statement):
                return [self._lines_of(statement)]
        for _, call in _assigned(self._tree):
            for keyword in call.keywords:
                if keyword.arg in _HIDDEN:
                    return self._argument(keyword)
        return []

    def _lines_of(self, statement: ast.stmt) -> tuple[int, int]:
        """The lines of a statement, with comments and decorators right above it, and the empty lines between."""
        decorators = getattr(statement, "decorator_list", [])
        first = min(node.lineno for node in [statement, *decorators]) - 1
        while first and self._lines[first - 1].startswith("#"):
            first -= 1
        after = statement.end_lineno or len(self._lines)
        while after < len(self._lines) and not self._lines[after].strip():
            after += 1
        return self._starts[first], self._starts[after]

    def _argument(self, keyword: ast.keyword) -> list[tuple[int, int]]:
        """A named argument, with a comma and the comments around it."""
        line, byte = keyword.end_lineno or 0, keyword.end_col_offset or 0
        start, end = self._position(keyword.lineno, keyword.col_offset), self._position(line, byte)
        before = [token for token in self._tokens if self._at(token.end) <= start][-1]
        after = next(token for token in self._tokens if self._at(token.start) >= end)
        comments = [self._comment(token) for token in self._comments if token.start[0] == line]
        if before.string == ",":
            start = self._at(before.start)
        elif after.string == ",":  # the first argument
            following = next(token for token in self._tokens if self._at(token.start) > self._at(after.start))
            line, column = following.start
            alone = not self._lines[line - 1][:column].strip()  # then the following argument stays on a line of its own
            start, comments = self._at(before.end), []
            end = self._starts[line - 1] - 1 if alone else self._at((line, column))
        return [(start, end), *comments]

    def _comment(self, token: tokenize.TokenInfo) -> tuple[int, int]:
        """A comment at the end of a line, with the spaces before it."""
        line, column = token.start
        return self._at((line, len(self._lines[line - 1][:column].rstrip()))), self._at(token.end)

    def _position(self, line: int, byte: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:byte].decode())

    def _at(self, place: tuple[int, int]) -> int:
        return self._starts[place[0] - 1] + place[1]


# ---------------------------------------------------------------- all notebooks
def write(folder: Path, originals: Mapping[str, bytes] | None = None) -> list[str]:
    """Write `students/` and `instructor/` into a folder, both or neither, after running all copies.

    Args:
      folder: made if it is missing; existing files of the same names are replaced.
      originals: notebooks and pages by name; None: those of this package. Files without exercises are copied.

    Returns:
      The notebooks with exercises, each with their number.

    Raises:
      ValueError: a notebook breaks the rules, fails when it runs, or shows a solution elsewhere; the message names it.

    >>> with tempfile.TemporaryDirectory() as place:
    ...     write(Path(place), {"page.md": b"words"}), sorted(path.name for path in Path(place).iterdir())
    ([], ['instructor', 'students'])
    """
    made: dict[Path, bytes] = {}
    said = []
    for name, content in (copies.originals() if originals is None else originals).items():
        for_students = for_instructor = content
        if name.endswith(".ipynb"):
            try:
                notebook = nbformat.reads(content.decode(), as_version=4)
                if found := _exercises(notebook):
                    for_students, for_instructor = (text.encode() for text in _both(notebook, [*found]))
                    said.append(f"{name}: {len(found)} exercise{'s' * (len(found) > 1)}")
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        made |= {folder / "students" / name: for_students, folder / "instructor" / name: for_instructor}
    files.write(made)
    return said


def _both(notebook: NotebookNode, exercises: Sequence[str]) -> tuple[str, str]:
    """The texts of the students' copy and of the instructor's, after both were run and checked."""
    with tempfile.TemporaryDirectory() as place:
        for_students = _run(students(notebook), "students'", Path(place))
        for_instructor = _run(instructors(notebook), "instructor's", Path(place))
    shown = {cell.source: _printed(cell) for _, cell in _code(for_instructor)}
    readable = _stripped("\n".join([*_texts(for_students)]))
    for name in exercises:
        *solution, verdict = shown[_shown(name)].splitlines()
        if verdict != RIGHT:
            raise ValueError(f"{name}: Expected its answer to be right, got {verdict!r}.")
        words = _stripped("\n".join(solution[1:] if solution[0].startswith("def ") else solution))
        if len(words) >= _LONG and words in readable:
            raise ValueError(f"{name}: Expected its solution nowhere else, but students can read {words[:80]!r}.")
    return to_text(for_students), to_text(for_instructor)


def _run(notebook: NotebookNode, whose: str, folder: Path) -> NotebookNode:
    try:
        return execute(notebook, folder)
    except CellExecutionError as error:
        raise ValueError(f"the {whose} copy does not run: {error.ename}: {error.evalue}") from error
    except (CellTimeoutError, DeadKernelError) as error:
        raise ValueError(f"the {whose} copy does not run: {error}") from error


def _printed(cell: NotebookNode) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


def _texts(notebook: NotebookNode) -> Iterator[str]:
    """The texts that a reader of a notebook sees: cells and outputs, without pictures."""
    for cell in notebook.cells:
        yield cell.source
        for output in cell.get("outputs", []):
            yield output.get("text", "")
            yield from (text for kind, text in output.get("data", {}).items() if kind.startswith("text/"))


def _stripped(text: str) -> str:
    """The lines without surrounding space and without empty lines, so that code is the same at any indentation."""
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def main(arguments: Sequence[str] | None = None) -> int:
    """Write handouts; the exit status is 1 if a notebook was refused, and then nothing is written.

    Args:
      arguments: as on the command line.
    """
    parser = argparse.ArgumentParser(prog="python -m dpnotes.notebook.handout", description="Copies for a class.")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="for students/ and instructor/")
    folder = parser.parse_args(arguments).folder
    try:
        for line in write(folder):
            print(line)
    except (ValueError, OSError) as error:
        print(f"dpnotes: {error}", file=sys.stderr)
        return 1
    print(f"{folder / 'students'} and {folder / 'instructor'} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
