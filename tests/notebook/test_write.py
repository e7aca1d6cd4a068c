"""The notebook writer: stored outputs, refusals, nbval's comparison, and the run as another processor."""

import json
import os
from pathlib import Path

import nbformat
import pytest

from dpnotes.notebook import copies
from dpnotes.notebook.write import differences, main, tidy
from dpnotes.util import another_processor
from tests.drawing import drawn
from tests.nbval_run import nbval

ROOT = Path(__file__).parents[2]
EXPLORER = """\
from dpnotes.notebook import plots
from dpnotes.notebook.widgets import Explorer, slider

explorer = Explorer(
    controls={"side": slider("side", 1, 9, value=3)},
    compute=lambda side: {"area": side**2},
    draw=lambda data, axes: plots.curve(axes, [0, 1], [0, data["area"]]),
    describe=lambda data: f"The area is {data['area']}.",
)
explorer"""
ENVIRONMENT = """\
import os
print(os.environ["OMP_NUM_THREADS"], os.environ["PYTHONHASHSEED"], os.path.basename(os.getcwd()))
print({"b", "a", "c"})"""


INSTRUCTIONS = "import torch\nprint(torch.backends.cpu.get_cpu_capability())"


def notebook(path: Path, *sources: str) -> Path:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = notebook(tmp_path_factory.mktemp("written") / "good.ipynb", EXPLORER, ENVIRONMENT)
    assert main(["--once", str(path)]) == 0
    return path


def test_what_is_stored(written: Path):
    stored = json.loads(written.read_text())
    explorer, environment = stored["cells"]
    assert explorer["outputs"][0]["data"].keys() == {"text/plain", "text/html"}
    assert explorer["outputs"][0]["data"]["text/plain"] == ["Explorer(side)"]
    assert environment["outputs"][0]["text"][0] == f"1 0 {written.parent.name}\n"
    assert [cell["execution_count"] for cell in stored["cells"]] == [1, 2]
    assert stored["metadata"].keys() == {"kernelspec", "language_info"}
    assert main(["--check", str(written)]) == 0


def test_what_is_folded_stays_folded():
    made = nbformat.v4.new_code_cell("1", metadata={"jupyter": {"outputs_hidden": True, "other": 1}, "collapsed": True})
    (kept,) = tidy(nbformat.v4.new_notebook(cells=[made])).cells
    assert kept.metadata == {"jupyter": {"outputs_hidden": True}}


@pytest.mark.slow
def test_nbval_compares_what_is_stored(written: Path, tmp_path: Path):
    # In a hostile environment and from another folder: the conftest at the root corrects it.
    hostile = {"OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "7"}
    same = nbval(written, cwd=tmp_path, **hostile)
    assert same.returncode == 0, same.stdout
    broken = tmp_path / written.parent.name / "broken.ipynb"
    broken.parent.mkdir()
    broken.write_text(written.read_text().replace("Explorer(side)", "Explorer(edge)"))
    assert nbval(broken, cwd=tmp_path, **hostile).returncode == 1, "control: a changed output must be seen"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "reason"),
    [("raise ValueError('no')", "ValueError: no"), ("import warnings; warnings.warn('hm')", "stores a warning")],
)
def test_a_bad_notebook_is_refused_and_left_alone(tmp_path: Path, capsys, source: str, reason: str):
    path = notebook(tmp_path / "bad.ipynb", source)
    before = path.read_bytes()
    assert main([str(path)]) == 1
    assert reason in capsys.readouterr().err
    assert path.read_bytes() == before and [*tmp_path.iterdir()] == [path]


# ---------------------------------------------------------------- as another processor
elsewhere = pytest.mark.skipif(another_processor.another_processor() is None, reason="takes glibc on x86-64")


@pytest.mark.slow
@elsewhere
def test_what_depends_on_the_processor_is_refused_and_left_alone(tmp_path: Path, capsys):
    path = notebook(tmp_path / "bad.ipynb", "print(1)\nprint(2)", "print(1)\n" + INSTRUCTIONS)
    before = path.read_bytes()
    assert main([str(path)]) == 1
    here, other = "AVX", "another processor 'DEFAULT'"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{path}: cell 1, line 2 of stdout: stored '{here}") and line.endswith(other)
    assert path.read_bytes() == before and [*tmp_path.iterdir()] == [path]
    assert main(["--once", str(path)]) == 0, "a draft"
    before = path.read_bytes()
    assert main(["--as-another-processor", str(path)]) == 1
    assert other in capsys.readouterr().err and path.read_bytes() == before


@pytest.mark.slow
def test_what_does_not_is_stored_and_a_second_run_gives_the_same_bytes(written: Path):
    before = written.read_bytes()
    assert main([str(written)]) == 0
    assert written.read_bytes() == before
    assert main(["--as-another-processor", str(written)]) == 0


@pytest.mark.slow
@elsewhere
def test_an_error_on_another_processor_alone_is_named_so(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    source = INSTRUCTIONS + "\nassert torch.backends.cpu.get_cpu_capability() != 'DEFAULT'"
    path = notebook(tmp_path / "bad.ipynb", source)
    assert main([str(path)]) == 1
    assert "as another processor: " in capsys.readouterr().err
    # Control: variables without effect are detected.
    path = notebook(tmp_path / "good.ipynb", "1 + 1")
    monkeypatch.setattr(another_processor, "another_processor", lambda: {"DPNOTES": "1"})
    assert main([str(path)]) == 1
    assert "this is no other processor" in capsys.readouterr().err


def test_pictures_and_readouts_are_not_compared(written: Path):
    run = nbformat.read(written, as_version=4)
    changes = {"base64,": ("base64,A", 0), "The area": ("An area", 0), "Explorer(side)": ("Explorer()", 1)}
    for old, (new, differ) in changes.items():
        other = nbformat.reads(nbformat.writes(run).replace(old, new), as_version=4)
        assert other != run and len([*differences(run, other)]) == differ


@pytest.mark.parametrize("load", [0.0, 3.0])
def test_a_stated_run_time_is_measured_on_an_idle_machine(tmp_path: Path, monkeypatch, capsys, load: float):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    path, sentence = tmp_path / "timed.ipynb", "Running all cells takes about {} on one processor core."
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(sentence.format("2 hours"))])
    made.cells.append(nbformat.v4.new_code_cell("import time; time.sleep(0.1)"))
    nbformat.write(made, path)
    assert main(["--time", str(path)]) == (load > 1)
    words = "2 hours" if load else "10 seconds"
    assert nbformat.read(path, as_version=4).cells[0].source == sentence.format(words)
    assert ("a load of 3.0" in capsys.readouterr().err) == (load > 1)


@pytest.mark.slow
@elsewhere
@pytest.mark.timeout(1800)
def test_two_stored_notebooks_hold_on_another_processor(capsys):
    chosen = drawn(map(str, copies.notebooks()), 2)
    assert main(["--as-another-processor", *chosen]) == 0, capsys.readouterr().err
