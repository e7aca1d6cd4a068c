"""Run notebooks and store their outputs: the only writer of the notebooks in this repository.

    python -m dpnotes.notebook.write [--once | --check | --as-another-processor | --time] [FILE ...]

Without files, all of `notebooks/`. `--check` runs nothing and only checks that each file has the form in which it would
be written.

A second run gives the stored outputs again, to the byte: kernels get one thread and a fixed hash seed, streams are
joined, and all that changes from run to run (times, cell ids, widget models that die with their kernel) is left out. A
notebook with an error is not written. The rules of `violations` hold for every notebook in the repository.

The stored outputs must also hold on another processor. So each notebook is run once more, without newer processor
instructions, and is not written if that run prints anything else; `--once` skips this for a draft.
`--as-another-processor` writes nothing and compares the stored outputs with such a run. `--time` measures, on an idle
machine, the run times that texts state, and writes them there.
"""

import argparse
import copy
import math
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from nbformat import NotebookNode
from traitlets.config import Config

from dpnotes.notebook import copies
from dpnotes.util import another_processor
from dpnotes.util.files import write as write_files

LARGEST = 1_000_000  # bytes
FAILURES = (CellExecutionError, CellTimeoutError, DeadKernelError)
WIDGET = "application/vnd.jupyter.widget-view+json"
# Outputs that nbval does not compare; in the other kinds it ignores the texts that the rules of its file replace.
UNCOMPARED = {"image/png", "image/jpeg", WIDGET}
RULES = Path(__file__).parents[2] / "tests" / "nbval.cfg"
STATED_TIME = re.compile(r"(?<=Running all cells takes about )[\w ]+(?= on one processor core)")
# The folds of cells that draw, and of outputs that would give a prediction away until the cell is run.
FOLDS = ("source_hidden", "outputs_hidden")
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def environment() -> dict[str, str]:
    """Return the environment that kernels run in: one thread, a fixed hash seed, inline figures.

    >>> environment()["OMP_NUM_THREADS"], "MPLBACKEND" in environment()
    ('1', False)
    """
    fixed = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    return {name: value for name, value in os.environ.items() if name != "MPLBACKEND"} | fixed


def execute(
    notebook: NotebookNode, folder: Path, timeout: int = 600, another: Mapping[str, str] | None = None
) -> NotebookNode:
    """Run a copy of `notebook` in a fresh kernel that starts in `folder`.

    Args:
      notebook: of nbformat 4.
      folder: the folder in which the kernel starts.
      timeout: seconds for each cell.
      another: environment variables of another processor; their effect is checked after the last cell.

    Returns:
      The copy with its outputs, tidied.

    Raises:
      CellExecutionError: if a cell raises; it names the cell and shows the traceback.
      CellTimeoutError: if a cell takes longer than `timeout`.
    """
    notebook = copy.deepcopy(notebook)
    if another:
        notebook.cells.append(nbformat.v4.new_code_cell(another_processor.CHECK_OF_ANOTHER))
    client = NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
        # Without this, ipykernel warns at each start that it uses plain TCP.
        config=Config({"KernelManager": {"transport_encryption": "auto"}}),
    )
    done = client.execute(env={**environment(), **(another or {})})
    if another:
        done.cells.pop()
    return tidy(done)


def tidy(notebook: NotebookNode) -> NotebookNode:
    """Return a copy of `notebook` without the parts that change from run to run.

    >>> cell = nbformat.v4.new_code_cell("1", metadata={"collapsed": True})
    >>> tidy(nbformat.v4.new_notebook(cells=[cell], metadata={"widgets": {}})).metadata.keys()
    dict_keys(['kernelspec', 'language_info'])
    """
    notebook = copy.deepcopy(notebook)
    notebook.update(metadata=nbformat.from_dict(METADATA), nbformat=4, nbformat_minor=5)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"
        folds = cell.metadata.get("jupyter", {})
        folded = {name: True for name in FOLDS if folds.get(name)}
        kept = {"jupyter": folded, "tags": sorted(cell.metadata.get("tags", []))}
        cell.metadata = nbformat.from_dict({name: value for name, value in kept.items() if value})
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET, None)
            if "metadata" in output:
                output.metadata = nbformat.from_dict({})
    return CoalesceStreamsPreprocessor().preprocess(notebook, {})[0]  # the cuts into messages depend on timing


def violations(text: str) -> Iterator[str]:
    """Yield the reasons that keep a notebook out of the repository, one line each.

    Args:
      text: the content of the file.

    Yields:
      The cell's number, from 0, and its fault.

    >>> cell = nbformat.v4.new_code_cell("1 + 1;")
    >>> list(violations(to_text(nbformat.v4.new_notebook(cells=[cell]))))
    ['cell 0: was never run, so nothing compares it', 'cell 0: ends with a semicolon, which fails a comparison']
    """
    if len(text.encode()) > LARGEST:
        yield f"has {len(text.encode())} bytes, more than {LARGEST}"
    notebook = nbformat.reads(text, as_version=4)
    if "widgets" in notebook.metadata:
        yield "metadata.widgets stores widget models that no longer exist"
    bound: dict[str, int] = {}
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            for reason in _cell_violations(cell):
                yield f"cell {number}: {reason}"
            for widget, name in re.findall(r"^(@\w+\.(?:draws|says)\n)?(?:def|class) (\w+)", cell.source, re.MULTILINE):
                if not widget and (first := bound.setdefault(name, number)) != number:
                    yield f"cell {number}: defines {name}, as cell {first} does, which then fails when it runs again"
    if text != to_text(notebook):
        yield "is not as python -m dpnotes.notebook.write writes it"


def _cell_violations(cell: NotebookNode) -> Iterator[str]:
    if cell.execution_count is None:
        yield "was never run, so nothing compares it"
    if cell.source.rstrip().endswith(";"):
        yield "ends with a semicolon, which fails a comparison"
    for output in cell.outputs:
        if output.output_type == "error":
            yield f"stores an error, {output.ename}"
        if output.get("name") == "stderr":
            yield f"stores a warning: {output.text.strip().splitlines()[-1]}"
        data: dict[str, Any] = output.get("data", {})
        if WIDGET in data:
            yield "stores a view of a widget whose model no longer exists"
        if "image/svg+xml" in data or "<svg" in "".join(data.get("text/html", "")):
            yield "stores svg, whose identifiers change with each run"
        pictures = re.findall("<img[^>]*>", "".join(data.get("text/html", "")))
        if "image/png" in data or not all(re.search(r' alt="[^"]*\w[^"]*"', picture) for picture in pictures):
            yield "stores a picture without an alternative text"


def to_text(notebook: NotebookNode) -> str:
    """Return the file content for a notebook, tidied.

    >>> to_text(nbformat.v4.new_notebook()).splitlines()[-1]
    '}'
    """
    return nbformat.writes(tidy(notebook)) + "\n"


def differences(stored: NotebookNode, other: NotebookNode) -> Iterator[str]:
    """Yield the differences of two runs of a notebook in the parts that nbval compares, one line for each output.

    Args:
      stored: the run that is stored.
      other: the other run.

    Yields:
      The cell's number, from 0, the first line that differs, and its two texts.

    >>> def ran(text):
    ...     output = nbformat.v4.new_output("stream", text=text)
    ...     return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(outputs=[output])])
    >>> list(differences(ran("steps: 3, epsilon: 0.042"), ran("steps: 3, epsilon: 0.041")))
    ["cell 0, line 1 of stdout: stored 'steps: 3, epsilon: 0.042', another processor 'steps: 3, epsilon: 0.041'"]
    """
    for number, cells in enumerate(zip(stored.cells, other.cells, strict=True)):
        ours, theirs = (_compared(cell) for cell in cells)
        for kind in dict.fromkeys([*ours, *theirs]):
            lines = zip_longest(ours.get(kind, "").split("\n"), theirs.get(kind, "").split("\n"), fillvalue="")
            differing = [(line, *pair) for line, pair in enumerate(lines, 1) if pair[0] != pair[1]]
            for line, one, two in differing[:1]:
                start = max(0, len(os.path.commonprefix([one, two])) - 40)
                texts = f"stored {one[start : start + 80]!r}, another processor {two[start : start + 80]!r}"
                yield f"cell {number}, line {line} of {kind}: {texts}"


def _compared(cell: NotebookNode) -> dict[str, str]:
    """The parts of a cell's outputs that nbval compares, by stream or mime type."""
    found: dict[str, str] = {}
    for output in cell.get("outputs", []):
        shown = {output.name: output.text} if output.output_type == "stream" else output.get("data", {})
        for kind, text in shown.items():
            if kind not in UNCOMPARED:
                found[kind] = found.get(kind, "") + str(text)
    rules = RULES.read_text(encoding="utf-8") if RULES.is_file() else ""
    for pattern, replacement in re.findall("^regex: (.*)\nreplace: (.*)$", rules, re.MULTILINE):
        found = {kind: re.sub(pattern, replacement, text) for kind, text in found.items()}
    return found


def _in_words(error: Exception) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", str(error)).strip()  # without colour codes, since the text goes into logs


def hold(notebook: NotebookNode, folder: Path, another: Mapping[str, str]) -> list[str]:
    """Run a notebook as another processor would, and return the differences of its outputs.

    Args:
      notebook: the notebook with its outputs.
      folder: the folder in which its kernel starts.
      another: environment variables of the other processor.
    """
    try:
        return [*differences(notebook, execute(notebook, folder, another=another))]
    except FAILURES as error:
        return [f"as another processor: {_in_words(error)}"]


def write(path: Path, another: Mapping[str, str] | None) -> list[str]:
    """Run the notebook at `path` and store it there, unless it breaks a rule or another processor gives other outputs.

    Args:
      path: a notebook; it is replaced in one step.
      another: environment variables of the other processor; None skips that run.

    Returns:
      The reasons why it was not written, empty if it was.
    """
    run = execute(nbformat.read(path, as_version=4), path.parent)
    text = to_text(run)
    found = [*violations(text)] or (hold(run, path.parent, another) if another else [])
    if not found:
        write_files({path: text.encode()}, path.stat().st_mode)
    return found


def state_time(path: Path) -> list[str]:
    """Run the notebook at `path` and write its run time, rounded up, into the sentence that states it.

    Args:
      path: a notebook; one without such a sentence is not run.

    Returns:
      The reasons why it was not timed, empty if it was.
    """
    notebook = nbformat.read(path, as_version=4)
    stating = [cell for cell in notebook.cells if cell.cell_type == "markdown" and STATED_TIME.search(cell.source)]
    if not stating:
        return []
    if (load := os.getloadavg()[0]) > 1:
        return [f"Expected an idle machine, found a load of {load:.1f}: wait until other programs have ended"]
    started = time.monotonic()
    execute(notebook, path.parent)
    seconds = time.monotonic() - started
    minutes = math.ceil(seconds / 60)
    words = f"{10 * math.ceil(seconds / 10)} seconds" if seconds <= 50 else f"{minutes} minute{'s' * (minutes > 1)}"
    for cell in stating:
        cell.source = STATED_TIME.sub(words, cell.source)
    write_files({path: to_text(notebook).encode()}, path.stat().st_mode)
    return []


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check notebooks; the exit status is 1 if any was refused.

    Args:
      arguments: as on the command line.
    """
    parser = argparse.ArgumentParser(prog="python -m dpnotes.notebook.write", description="Run and store notebooks.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="default: all in notebooks/")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--once", action="store_true", help="a draft: do not run it again as another processor would")
    ways.add_argument("--check", action="store_true", help="run nothing, only look whether the files are in order")
    ways.add_argument("--as-another-processor", action="store_true", help="write nothing, only run it as another would")
    ways.add_argument("--time", action="store_true", help="on an idle machine, measure the run times that texts state")
    options = parser.parse_args(arguments)
    once = options.once or options.check or options.time
    another = None if once else another_processor.another_processor()
    if another is None and not once:
        print("Left out: no run as another processor, which takes glibc on x86-64.", file=sys.stderr)
    files = options.files or copies.notebooks(Path("notebooks"))
    refused = False
    for path in files:
        done = "in order" if options.check else "timed" if options.time else "written"
        try:
            if options.check:
                found = [*violations(path.read_text(encoding="utf-8"))]
            elif options.time:
                found = state_time(path)
            elif options.as_another_processor:
                found = hold(nbformat.read(path, as_version=4), path.parent, another) if another else []
                done = "the same on another processor" if another else "left out"
            else:
                found = write(path, another)
        except FAILURES as error:
            found = [_in_words(error)]
        refused |= bool(found)
        for reason in found:
            print(f"{path}: {reason}", file=sys.stderr)
        if not found:
            print(f"{path}: {done}", flush=True)
    return int(refused)


if __name__ == "__main__":
    sys.exit(main())
