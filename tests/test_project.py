"""The project's own files agree with one another, and the public functions are documented."""

import ast
import doctest
import importlib
import importlib.metadata
import json
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from test_layers import EVERYTHING_BELOW_PAPERS, LEAVES, MAY_IMPORT, imports

import dpnotes
from dpnotes import papers
from dpnotes.notebook import copies
from dpnotes.notebook.copies import FIRST

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# The same package under conda-forge's name; matplotlib-base is matplotlib without the Qt window.
CONDA_NAMES = {"pytorch": "torch", "matplotlib-base": "matplotlib"}
PROVIDED_BY = importlib.metadata.packages_distributions()
NEED_EXAMPLES = ("privacy/**/*.py", "theory/**/*.py", "util/validate.py")


def specifiers(lines: list[str]) -> dict[str, str]:
    requirements = [Requirement(line) for line in lines]
    return {canonicalize_name(CONDA_NAMES.get(r.name, r.name)): str(r.specifier) for r in requirements}


def extra(name: str) -> dict[str, str]:
    return specifiers([line for line in PROJECT["optional-dependencies"][name] if not line.startswith("dpnotes[")])


def disagreements(environment: dict, project: dict) -> list[str]:
    """Return the disagreements between environment.yml and pyproject's dependencies with the `lab` extra."""
    *conda, last = environment["dependencies"]
    pip = last["pip"]
    editable = [line for line in pip if line.startswith("--editable")]
    said = specifiers([line for line in conda if line != "pip"] + [line for line in pip if line not in editable])
    meant = specifiers(project["dependencies"]) | extra("lab") | extra("fast") | {"python": project["requires-python"]}
    differ = sorted(name for name in said | meant if said.get(name) != meant.get(name))
    found = [f"{name}: {said.get(name)} in environment.yml, {meant.get(name)} in pyproject.toml" for name in differ]
    return found + ([] if editable == ["--editable .[dev]"] else [f"editable: {editable}"])


def test_the_conda_environment_agrees_with_pyproject():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert environment["channels"][0] == "conda-forge"
    assert not disagreements(environment, PROJECT)


@pytest.mark.parametrize(
    ("old", "new"),
    [("pytorch>=2.11", "pytorch>=2.10"), ("  - sympy>=1.14\n", ""), ("python>=3.11", "python>=3.10"), ("[dev]", "")],
)
def test_control_a_different_conda_environment_is_seen(old: str, new: str):
    text = (ROOT / "environment.yml").read_text()
    assert old in text
    assert disagreements(yaml.safe_load(text.replace(old, new)), PROJECT)


def test_the_constraints_pin_every_dependency_within_its_bounds():
    pins = specifiers([line for line in (ROOT / "constraints.txt").read_text().splitlines() if line[0] != "#"])
    assert pins["torch"] == "==2.13.0"
    asked = specifiers(PROJECT["dependencies"])
    for name in PROJECT["optional-dependencies"]:
        asked |= extra(name)
    for name, bounds in asked.items():
        version = pins[name].removeprefix("==")
        assert Requirement(f"{name}{bounds}").specifier.contains(version), f"{name} {version} is outside {bounds}"


def undeclared(source: str, declared: set[str]) -> set[str]:
    """Return the packages that a module imports and pyproject.toml does not list."""
    tops = {name.split(".")[0] for name in imports(source, "dpnotes.module")}
    tops -= {*sys.stdlib_module_names, "dpnotes"}
    # A package that is not installed here is assumed to have the name of its module.
    return {top for top in tops if not declared & {canonicalize_name(name) for name in PROVIDED_BY.get(top, [top])}}


@pytest.mark.slow
def test_every_import_is_declared():
    # The notebook part needs the extra `lab`, exact noise the extra `exact`, BERT the extra `text`.
    core = set(specifiers(PROJECT["dependencies"]))
    extras = {"cluster.py": "cluster", "discrete.py": "exact", "text.py": "text", "cpu_kernel.py": "fast"}
    # triton is not listed: it comes with PyTorch where there is a GPU for it.
    for path in sorted((ROOT / "dpnotes").rglob("*.py")):
        optional = "lab" if "notebook" in path.parts else extras.get(path.name, "")
        fetched = {"triton"} if path.name == "gpu_kernel.py" else set()
        declared = core | set(extra(optional) if optional else {}) | fetched
        assert not undeclared(path.read_text(), declared), path


def test_control_an_undeclared_import_is_seen():
    assert undeclared("def f():\n    from yaml import safe_load", {"numpy"}) == {"yaml"}
    assert undeclared("import sklearn.datasets", {"scikit-learn"}) == set()


def test_the_version_is_said_once():
    assert "version" in PROJECT["dynamic"]
    assert f"version: {dpnotes.__version__}\n" in (ROOT / "CITATION.cff").read_text()


# ---------------------------------------------------------------- the README's commands, as text
@pytest.mark.parametrize("old", dpnotes._MOVED)
def test_the_old_name_of_a_module_says_the_new_one(old: str):
    importlib.import_module(new := dpnotes._MOVED[old])
    with pytest.raises(ModuleNotFoundError, match=f"^{old} is now {new}; CHANGELOG.md"):
        importlib.import_module(old)


def test_the_readme_names_make_targets_that_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = "".join((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", ".ci/run"))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE))
    assert {"lab", "test", "test-all"} <= named <= targets
    assert "no-such-target" not in targets, "control"


def test_the_readme_s_plain_pip_lines_are_what_make_runs():
    readme, makefile = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    create, open_lab = re.search(r"Without make:\n\n```bash\n(.*)\n(.*)\n```", readme).groups()  # type: ignore[union-attr]
    venv, _, install = create.partition(" && ")
    assert venv == "python3 -m venv .venv"
    assert install == ".venv/bin/python -m pip install -c constraints.txt -e '.[dev]'"
    assert "-m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'" in makefile
    assert open_lab == ".venv/bin/dpnotes lab" and "$(BIN)/dpnotes lab --port" in makefile
    assert "jupyter lab" not in readme + makefile, "it would save a reader's work into the originals"
    assert (ROOT / "notebooks" / FIRST).exists()


def test_the_readme_s_commands_are_those_of_the_command_line():
    from dpnotes.cli.main import app

    named = set(re.findall(r"^\| `dpnotes ([a-z-]+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert named == {command.name for command in (*app.registered_commands, *app.registered_groups)}


def test_the_readme_lists_every_notebook_with_its_link():
    table = (ROOT / "README.md").read_text().partition("## The notebooks")[2].partition("\n## ")[0]
    listed = re.findall(r"\[(\w+)\]\(notebooks/(?:evidence/)?(\w+)\.ipynb\)", table)
    there, names = {path.stem for path in copies.notebooks()}, [name for _, name in listed]
    assert len({*names}) == len(names) and {*names} <= there
    assert there - {*names} <= {*papers.PAPERS}, "a paper that README does not show yet"
    assert all(
        name in (shown, f"{before}_evidence")
        for (_, before), (shown, name) in zip([("", ""), *listed], listed, strict=False)
    )


def test_the_readme_lists_papers_by_their_titles():
    rows = [line for line in (ROOT / "README.md").read_text().splitlines() if "| checked |" in line]
    titles = [papers.paper(paper).title for paper in papers.PAPERS]
    assert rows and all(sum(title in row for title in titles) == 1 for row in rows), "a paper that is there"
    assert all(sum(title in row for row in rows) <= 1 for title in titles), "once"


def test_the_picture_of_the_house_names_every_part():
    picture = (ROOT / "CONTRIBUTING.md").read_text().partition("    dpnotes/\n")[2].partition("    notebooks/")[0]
    named = set(re.findall(r"^ {6}(\w+)(?:/|\.py)\s", picture, re.MULTILINE))
    parts = {path.stem for path in (ROOT / "dpnotes").iterdir() if not path.name.startswith(("__", "py.typed"))}
    assert parts == named, f"in the picture or in the house alone: {sorted(parts ^ named)}"
    lines = [line for line in picture.splitlines() if line.strip()]
    assert len(lines) == len(parts), "one line a room"


def test_the_walks_through_the_code_are_as_short_as_they_say():
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## Two walks")[2].partition("\n## ")[0]
    first, own = text.partition("*An algorithm of your own*")[::2]
    files = [name for name in re.findall(r"`([\w/]+\.py)`", first) if name != "oracles/release.py"]
    lines = sum(len((ROOT / "dpnotes" / name).read_text().splitlines()) for name in files)
    said = int(re.findall(r"([\d,]+) lines", first)[0].replace(",", ""))
    assert len(files) <= 10 and lines <= 1200 and abs(lines - said) < 50, (len(files), lines)
    counts = [int(count) for count in re.findall(r"\((\d+) lines\)", own)]
    template = [(ROOT / "docs/template" / name).read_text() for name in ("algorithms.py", "test_algorithms.py")]
    written = [len(text.splitlines()) for text in template]
    assert sum(written) <= 100 and all(abs(a - b) < 5 for a, b in zip(written, counts, strict=True)), written


def test_the_layers_in_words_are_those_that_are_tested():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text.partition("Who may import whom")[2].partition("are\nleaves")[0]
    leaves = set(re.findall(r"`(\w+)(?:\.py|/)`", table.partition("nothing of ours but leaves")[2]))
    assert leaves == LEAVES
    targets = "everything below it|papers and below, notebook|nothing|[a-z]+(?:, [a-z]+)*"
    arrows = re.findall(rf"([a-z]+(?:, [a-z]+)*) +-> ({targets})", table)
    below = EVERYTHING_BELOW_PAPERS - LEAVES
    of = {"everything below it": below, "nothing": set[str]()}
    of["papers and below, notebook"] = {"papers", "notebook", *below}
    named = ((name, imported) for names, imported in arrows for name in names.split(", "))
    said = {name: of.get(imported, set(imported.split(", "))) for name, imported in named}
    not_in_sources = {"cli", "__main__", "exercises", "solutions"}
    assert said.pop("cli") == {"all"} and MAY_IMPORT["cli"] == {*MAY_IMPORT} - not_in_sources
    assert said == {name: MAY_IMPORT[name] - LEAVES for name in said}
    assert said.keys() == {*below, "papers", "atlas", "notebook", "exercises", "solutions"}


def test_the_links_of_the_documentation_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
    index = (ROOT / "docs/README.md").read_text()
    assert not [page.name for page in (ROOT / "docs").glob("*.md") if page.name not in index], "pages not listed"


def test_the_page_s_growth_is_what_was_stored():
    script = runpy.run_path(str(ROOT / "benchmarks" / "scaling.py"))
    table = script["table"](json.loads((ROOT / "docs" / "scaling.json").read_text()))
    assert table in (ROOT / "docs" / "benchmarks.md").read_text()


@pytest.mark.slow
def test_the_examples_of_the_pages_run():
    pages = [page for page in (ROOT / "docs").glob("*.md") if ">>> " in page.read_text()]
    assert ROOT / "docs/theory.md" in pages
    for page in pages:
        failures, examples = doctest.testfile(str(page), module_relative=False)
        assert examples and not failures, page.name


# ---------------------------------------------------------------- make on a machine that lacks something
@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, "needs Python 3.11 or newer"),
        ("#!/bin/sh\nexit 1\n", "needs Python 3.11 or newer"),
        ('#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\n', "needs Python's venv module"),
    ],
)
def test_make_says_in_one_line_what_is_missing(tmp_path: Path, script: str | None, message: str):
    python = tmp_path / "python3"
    if script:
        python.write_text(script)
        python.chmod(0o755)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    run = subprocess.run(["make", "lab", f"PYTHON={python}"], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode != 0
    lines = [line for line in run.stderr.splitlines() if not line.startswith("make")]
    assert len(lines) == 1 and message in lines[0] and str(python) in lines[0]
    assert not (tmp_path / ".venv").exists()


def test_the_package_runs_as_a_module():
    run = subprocess.run([sys.executable, "-m", "dpnotes", "--version"], cwd=ROOT, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, f"dpnotes {dpnotes.__version__}\n", "")


# ---------------------------------------------------------------- documentation of the public interface
def without_example(source: str) -> list[str]:
    """Return the public functions without an example in their docstring; ruff sees that they have a docstring."""
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return [f.name for f in functions if f.name[0] != "_" and ">>>" not in (ast.get_docstring(f) or "")]


@pytest.mark.slow
def test_every_public_function_has_an_example():
    for path in (path for pattern in NEED_EXAMPLES for path in (ROOT / "dpnotes").glob(pattern)):
        assert not without_example(path.read_text()), path


def test_control_a_function_without_an_example_is_seen():
    assert without_example('def f():\n    """Half."""\n\ndef g():\n    """>>> 1"""\n\ndef _h(): ...\n') == ["f"]


# ---------------------------------------------------------------- the first words of docstrings
def riddles(source: str) -> Iterator[str]:
    """Yield the first lines of docstrings that begin with a question word, and so name neither a thing nor an act."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            if re.match(r"((The )?[Ww]hat|Whether|Who|How|Which|That)\b", first):
                yield f"{getattr(node, 'name', 'the module')}: {first}"


def test_no_docstring_begins_with_a_question_word():
    found = []
    for path in sorted((ROOT / "dpnotes").rglob("*.py")):
        found += [f"{path.relative_to(ROOT)}, {line}" for line in riddles(path.read_text())]
    assert not found, "\n".join(found)


def test_control_a_docstring_that_begins_with_a_question_word_is_seen():
    source = 'class A:\n    """The what of A."""\n\n    def f(self):\n        """That it holds."""\n'
    assert list(riddles(source)) == ["A: The what of A.", "f: That it holds."]
    assert not list(riddles('def f():\n    """Return how far and what it moved."""\n'))


def uncredited(text: str) -> list[str]:
    """Return the mentions of arXiv:2505.15647 in a text that do not name its authors just before it."""
    places = [match.start() for match in re.finditer(re.escape("2505.15647"), text)]
    return [text[max(0, at - 80) : at + 10] for at in places if "Tao et" not in text[max(0, at - 160) : at]]


def test_the_arxiv_paper_is_never_given_the_title_of_the_anonymous_submission():
    found = []
    for folder, ending in (("dpnotes", "*.py"), ("docs", "*.md"), ("notebooks", "0*.ipynb")):
        found += [part for path in sorted((ROOT / folder).rglob(ending)) for part in uncredited(path.read_text())]
    assert found == []
    assert len(uncredited('"Private Stochastic Optimization for ..." (arXiv:2505.15647)')) == 1  # the control
