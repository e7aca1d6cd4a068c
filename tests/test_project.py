"""The project's own files agree with one another, and the public functions are documented."""

import ast
import doctest
import importlib
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from test_layers import imports

import dpnotes
from dpnotes import papers
from dpnotes.notebook import copies

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# The same package under conda-forge's name; matplotlib-base is matplotlib without the Qt window.
CONDA_NAMES = {"pytorch": "torch", "matplotlib-base": "matplotlib"}
PROVIDED_BY = importlib.metadata.packages_distributions()


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


def test_the_picture_of_the_house_names_every_part():
    picture = (ROOT / "CONTRIBUTING.md").read_text().partition("    dpnotes/\n")[2].partition("    notebooks/")[0]
    named = set(re.findall(r"^ {6}(\w+)(?:/|\.py)\s", picture, re.MULTILINE))
    parts = {path.stem for path in (ROOT / "dpnotes").iterdir() if not path.name.startswith(("__", "py.typed"))}
    assert parts == named, f"in the picture or in the house alone: {sorted(parts ^ named)}"
    lines = [line for line in picture.splitlines() if line.strip()]
    assert len(lines) == len(parts), "one line a room"


def test_the_links_of_the_documentation_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
    index = (ROOT / "docs/README.md").read_text()
    assert not [page.name for page in (ROOT / "docs").glob("*.md") if page.name not in index], "pages not listed"


@pytest.mark.slow
def test_the_examples_of_the_pages_run():
    pages = [page for page in (ROOT / "docs").glob("*.md") if ">>> " in page.read_text()]
    assert ROOT / "docs/theory.md" in pages
    for page in pages:
        failures, examples = doctest.testfile(str(page), module_relative=False)
        assert examples and not failures, page.name


def test_the_package_runs_as_a_module():
    run = subprocess.run([sys.executable, "-m", "dpnotes", "--version"], cwd=ROOT, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, f"dpnotes {dpnotes.__version__}\n", "")


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
