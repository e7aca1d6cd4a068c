"""A wheel in an environment without the repository: it opens a notebook with its results."""

import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import dpnotes
from dpnotes.notebook import copies
from dpnotes.notebook.write import environment

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
NOTEBOOK = "01_budget_schedules.ipynb"  # shows stored results
CARRIED = ("notebooks/**/*.ipynb", "notebooks/results/*.npz", "notebooks/results/*.json", "docs/**/*.md")
# What a paper outside of the package is written from, and checked by.
CARRIED += ("docs/template/*.*", "pyproject.toml", "conftest.py", "tests/inventory/formulas/counts.csv")
CARRIED += tuple(f"tests/{name}" for name in ("__init__.py", "conftest.py", "modules.py", "drawing.py", "results.py"))
CARRIED += ("tests/laws*.py", "tests/nbval*", "tests/papers/test_claims.py", "tests/papers/test_obligations.py")
CARRIED += ("tests/papers/test_reference_names.py", "tests/shown.py", "tests/statement_mutants.py", "README.md")


def run(*command: str | Path, cwd: Path, code: int = 0, **variables: str) -> str:
    """Return what a program says that has nothing of the repository in its environment; of a success the output."""
    hidden = {"PYTHONPATH", "DPNOTES_RESULTS", "VIRTUAL_ENV"}
    kept = {name: value for name, value in environment().items() if name not in hidden}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=kept | variables, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + (done.stderr if code else "")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the sources of a wheel out of the repository, because building leaves folders behind."""
    folder = tmp_path_factory.mktemp("source")
    for name in ("dpnotes", "notebooks", "docs", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "conftest.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # Uses this environment's setuptools and other packages, without the network.
    run(sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "-w", folder, cwd=source)
    (built,) = folder.glob("*.whl")
    return built


def python_with(folder: Path, *package: str | Path) -> Path:
    """The Python of an environment with this package as pip installs it, and with this environment's other packages."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    (site,) = (folder / "lib").glob("python*/site-packages")
    # A folder named in a .pth is searched, but not its own .pth files, such as that of an editable install.
    (site / "packages.pth").write_text(sysconfig.get_path("purelib"))
    options = ["--no-deps", "--no-index", "--no-build-isolation", *package]
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, cwd=folder)
    return python


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return python_with(tmp_path_factory.mktemp("environment"), wheel)


@pytest.fixture(scope="module")
def reader(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a reader who has only the wheel, with copies of the notebooks."""
    folder = tmp_path_factory.mktemp("reader")
    assert "files copied into dpnotes_notebooks." in run(installed, "-m", "dpnotes", "lab", "--copy-only", cwd=folder)
    return folder / "dpnotes_notebooks"


def test_a_wheel_carries_notebooks_results_and_pages_and_so_does_what_it_is_built_from(wheel: Path, source: Path):
    carried = {path.relative_to(ROOT).as_posix() for pattern in CARRIED for path in ROOT.glob(pattern)}
    names = {*zipfile.ZipFile(wheel).namelist()}
    start = "dpnotes/carried/"
    assert {name.removeprefix(start) for name in names if name.startswith(start)} == carried
    assert not [
        name for name in names if not name.startswith(("dpnotes/", f"dpnotes-{dpnotes.__version__}.dist-info/"))
    ]
    with zipfile.ZipFile(wheel) as opened:
        metadata = opened.read(f"dpnotes-{dpnotes.__version__}.dist-info/METADATA").decode()
    assert "dpnotes/py.typed" in names and "Typing :: Typed" in metadata
    assert metadata.count("](https://") > 30 and not re.findall(r"\]\((?!https?:|#)", metadata), "links lead somewhere"
    program = "from setuptools import build_meta; print(build_meta.build_sdist('.'))"
    archive = source / run(sys.executable, "-c", program, cwd=source).splitlines()[-1]
    with tarfile.open(archive) as tar:
        packed = {name.partition("/")[2] for name in tar.getnames()}
    assert carried | {"setup.py", "dpnotes/cli/main.py"} <= packed


def test_the_copies_are_those_of_the_repository(reader: Path, installed: Path):
    where = run(installed, "-c", "import dpnotes; print(dpnotes.__file__)", cwd=reader).strip()
    assert Path(where).is_relative_to(installed.parents[1]), "control: the wheel is what is tested"
    for name, content in copies.originals().items():
        assert (reader / name).read_bytes() == content, name


def test_a_notebook_there_gives_its_stored_outputs(reader: Path, installed: Path, tmp_path: Path):
    options = ["-q", "-p", "no:cacheprovider", "-W", "default", "--nbval", "--nbval-current-env", NOTEBOOK]
    options += ["--nbval-sanitize-with", str(ROOT / "tests/nbval.cfg")]
    run(installed, "-m", "pytest", *options, cwd=reader)
    said = run(installed, "-m", "pytest", *options, cwd=reader, code=1, DPNOTES_RESULTS=str(tmp_path))
    assert "failed" in said, "control: without its results it gives others"


def test_nothing_is_written_into_an_installation(reader: Path, installed: Path):
    for arguments in (["run", "goldstein.tree"], ["verify", "--write"], ["status", "--write"]):
        said = run(installed, "-m", "dpnotes", *arguments, cwd=reader, code=2)
        assert "Expected DPNOTES_RESULTS to be a folder of yours" in said
    (carried,) = installed.parents[1].glob("lib/python*/site-packages/dpnotes/carried/notebooks")
    originals = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert {path.name for path in carried.iterdir()} == originals | {"evidence", "results"}


def test_a_paper_of_its_own_is_written_and_checked(wheel: Path, installed: Path, tmp_path: Path):
    card = ("--title", "A paper of mine", "--authors", "Ada Lovelace", "--arxiv", "2601.00001", "--year", "2026")
    said = run(installed, "-m", "dpnotes", "new-paper", "mine", *card, cwd=tmp_path, code=2)
    assert "Expected --outside FOLDER" in said
    run(installed, "-m", "dpnotes", "new-paper", "mine", *card, "--outside", "mine", cwd=tmp_path)
    python = python_with(tmp_path / "environment", wheel, "-e", tmp_path / "mine")
    told = run(python, "-m", "dpnotes", "check-paper", "mine", cwd=tmp_path, code=1).splitlines()
    rows = {line.split()[0]: line for line in told}
    assert {name for name, line in rows.items() if not line.endswith("  ok")} == {"experiment", "notebook", "example"}
    run(python, "-m", "dpnotes", "run", "mine.correction", cwd=tmp_path)
    assert (tmp_path / "mine/notebooks/results/mine.correction.quick.npz").is_file()


def test_students_install_a_wheel_without_solutions(reader: Path, installed: Path, tmp_path: Path):
    said = run(installed, "-m", "dpnotes", "handout", tmp_path / "handout", cwd=reader)
    (wheel,) = (tmp_path / "handout" / "students").glob("*.whl")
    assert f"{wheel.name}: the package without solutions" in said
    students = python_with(tmp_path / "environment", wheel)
    program = "from dpnotes.exercises.rates import crossing; crossing.solution(); crossing.check(1)"
    told = run(students, "-c", program, cwd=tmp_path)
    assert told.startswith("This copy of dpnotes has no solutions") and "Not yet: at this epsilon" in told
    run(students, "-m", "dpnotes", "lab", "--copy-only", cwd=tmp_path)
    copied = (tmp_path / "dpnotes_notebooks" / NOTEBOOK).read_bytes()
    assert copied == (reader / NOTEBOOK).read_bytes(), "its notebooks are those of the teacher"
