"""The allowed imports between layers: the table of CONTRIBUTING.md as a test, over the syntax trees of all modules."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "dpnotes"

# Rooms that all others may use, and that import only each other.
LEAVES = {"util", "random", "guarantees"}
EVERYTHING_BELOW_PAPERS = {
    "core", "theory", "privacy", "problems", "oracles", "methods", "measure", "experiments", "train", *LEAVES,
}  # fmt: skip
MAY_IMPORT: dict[str, set[str]] = {
    "util": set(),
    "random": {"util"},
    "guarantees": {"util"},
    "core": {*LEAVES},
    "theory": {"util"},
    "privacy": {"core", *LEAVES},
    "problems": {"core", *LEAVES},
    "methods": {"core", *LEAVES},
    "measure": {"core", *LEAVES},
    "oracles": {"privacy", "core", *LEAVES},
    "train": {"privacy", "problems", "oracles", "methods", "core", *LEAVES},
    "experiments": {"core", "problems", "privacy", "measure", *LEAVES},
    "papers": EVERYTHING_BELOW_PAPERS,
    "atlas": {"papers", "experiments", "theory", "privacy", *LEAVES},
    "notebook": {"experiments", "measure", "theory", "atlas", *LEAVES},
    # An exercise finds its solution by name; no source imports one.
    "exercises": {"papers", "notebook", *EVERYTHING_BELOW_PAPERS},
    "solutions": {"papers", "notebook", *EVERYTHING_BELOW_PAPERS},
    # The command line finds the papers by name and imports none of them in its source.
    "cli": {"papers", "notebook", "atlas", *EVERYTHING_BELOW_PAPERS},
    "__main__": {"cli"},
}
HEAVY = {"torch", "sympy", "scipy", "dp_accounting", "matplotlib", "pandas", "sklearn", "pooch"}


def imports(source: str, module: str) -> Iterator[str]:
    """Yield every module that a module's source imports, anywhere in it, by its absolute name."""
    package = module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) + 1 - node.level] + ([node.module] if node.module else []))
            name = base if node.level else node.module or ""
            yield name
            if name == "dpnotes" or name.startswith("dpnotes."):
                yield from (f"{name}.{alias.name}" for alias in node.names)


def is_of_claims(module: str) -> bool:
    """Return whether a module belongs to the claims of a paper."""
    return module.split(".")[1:4:2] == ["papers", "claims"]


def violations(source: str, module: str) -> list[str]:
    """Return the imports of a module that its layer does not allow."""
    layer = module.split(".")[1]
    found = []
    for name in imports(source, module):
        parts = name.split(".")
        if parts[0] == "dpnotes" and len(parts) > 1:
            target = parts[1]
            if target in MAY_IMPORT and target != layer and target not in MAY_IMPORT[layer]:
                found.append(f"{module} imports {name}")
            if target == layer == "papers" and parts[2:3] not in ([], ["accountant"], module.split(".")[2:3]):
                found.append(f"{module} imports another paper, {name}")
        elif parts[0] == "torch" and (layer == "theory" or is_of_claims(module)):
            found.append(f"{module} imports torch")
    return found


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts), path


def test_every_module_has_a_layer():
    assert {name.split(".")[1] for name, _ in modules()} - {"__init__"} <= set(MAY_IMPORT)


def test_no_module_imports_above_its_layer():
    found = [v for name, path in modules() if name != "dpnotes.__init__" for v in violations(path.read_text(), name)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("dpnotes.theory.claims", "def f():\n    from torch import Tensor"),
        ("dpnotes.theory.claims", "from .. import core"),
        ("dpnotes.papers.budget_schedules.claims.zcdp", "import torch.nn"),
        ("dpnotes.papers.budget_schedules.algorithms", "from dpnotes.papers.noisy_sgd import claims"),
        ("dpnotes.exercises.rates", "from dpnotes.solutions import rates"),
    ],
)
def test_control_a_forbidden_import_is_seen(module: str, source: str):
    assert violations(source, module)
    assert not violations("import torch\nfrom dpnotes.core import Price\nfrom . import claims", "dpnotes.papers.x.y")


# ---------------------------------------------------------------- no circle, inside rooms too
def graph(sources: dict[str, str]) -> dict[str, set[str]]:
    """The modules that each module imports when it runs, anywhere in it, but for type checkers alone."""
    found: dict[str, set[str]] = {}
    for module, source in sources.items():
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                node.body = [ast.Pass()]
        targets = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                inner = {f"{base}.{alias.name}" for alias in node.names}
                targets |= inner & {*sources} or {base}
        found[module] = targets & {*sources} - {module}
    return found


def circle(edges: dict[str, set[str]]) -> list[str]:
    """The modules on circles and between them: what is left after those that import nothing left, and nobody left."""
    left = {module: set(targets) for module, targets in edges.items()}
    while True:
        imported = set().union(*left.values())
        ends = {module for module, targets in left.items() if not targets or module not in imported}
        if not ends:
            return sorted(left)
        left = {module: targets - ends for module, targets in left.items() if module not in ends}


def test_no_import_goes_in_a_circle():
    sources = {name.removesuffix(".__init__"): path.read_text() for name, path in modules()}
    assert circle(graph(sources)) == []


def test_control_a_circle_is_seen():
    sources = {"a": "import b", "b": "def f():\n    from c import d", "c": "import a, e", "e": ""}
    assert circle(graph(sources)) == ["a", "b", "c"]


def loaded_by(statement: str, names: set[str]) -> set[str]:
    """Return which of these modules a statement loads in a new interpreter."""
    program = f"import sys\n{statement}\nprint(*sorted({names!r} & set(sys.modules)))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE.parent, check=True)
    return set(done.stdout.splitlines()[-1].split())


NAMES = [name.removesuffix(".__init__") for name, _ in modules()]
THEORY = ", ".join(name for name in NAMES if name.split(".")[1:2] == ["theory"])
CLAIMS = ", ".join(name for name, path in modules() if is_of_claims(name) and path.stem != "__init__")
CALC = ["calc", "budget_schedules.thm4.5.T", "kappa=10", "alpha=0.1"]
LOADS: dict[str, tuple[str, set[str]]] = {
    "the package": ("import dpnotes", HEAVY),
    "the theory": (f"import {THEORY}", HEAVY - {"sympy", "scipy"}),
    "training": ("import dpnotes.train.plan", {"sympy"}),
    "claims": (f"import {CLAIMS}", {"torch"}),
    "experiments": ("import dpnotes.experiments", HEAVY | {"joblib", "psutil"}),
    "copies of notebooks": ("import dpnotes.notebook.copies", {"torch", "sympy", "nbformat", "ipywidgets"}),
    "widgets": ("import dpnotes.notebook.widgets", {"matplotlib.pyplot", "torch"}),
    "the list": ("from dpnotes.cli import catalogue; catalogue.listed_experiments()", {"torch"}),
    "an order": (
        "from dpnotes.atlas.ranking import choose; choose(60_000, 800_000, 2.0, 1e-5, details=False)",
        {"torch"},
    ),
    "calc": (f"from dpnotes.cli.main import app; app({CALC}, standalone_mode=False)", {"torch"}),
}


QUICK = ("experiments", "copies of notebooks", "the list")
EACH = [pytest.param(what, marks=() if what in QUICK else pytest.mark.slow) for what in LOADS]


@pytest.mark.parametrize("what", EACH)
def test_no_more_is_loaded_than_must_be(what: str):
    statement, kept_away = LOADS[what]
    assert not loaded_by(statement, kept_away)
