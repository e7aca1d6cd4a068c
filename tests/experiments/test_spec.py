"""Specs, canonical JSON, and the digest of the code that a result rests on."""

import ast
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpnotes.experiments.functions import normalised
from dpnotes.experiments.sources import sources
from dpnotes.experiments.spec import Decision, Experiment, Spec, canonical_json

REPOSITORY = Path(__file__).parents[2]


def spec(**parameters) -> Spec:
    return Spec("toy", "mean", "quick", {"decision_rule": "always", **parameters})


def test_importing_experiments_loads_nothing_heavy():
    heavy = "{'torch', 'pandas', 'joblib', 'pooch', 'psutil', 'scipy', 'sympy', 'matplotlib', 'dp_accounting'}"
    program = f"import sys, dpnotes.experiments; print(*{heavy} & set(sys.modules))"
    command = [sys.executable, "-c", program]
    output = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=True).stdout
    assert output.strip() == ""


# ---------------------------------------------------------------- canonical JSON
def test_the_order_of_the_keys_does_not_matter_and_the_type_does():
    assert spec(a=1, b={"c": 2, "d": 3}) == spec(b={"d": 3, "c": 2}, a=1)
    assert spec(a=1, b=2).key == spec(b=2, a=1).key
    assert len({spec(a=value).key for value in (1, 1.0, True, "1", [1], None)}) == 6
    assert hash(spec(a=[1])) == hash(spec(a=[1]))


def test_names_and_profile_are_part_of_the_key():
    specs = [Spec(p, e, f, {"decision_rule": "x"}) for p in "ab" for e in "cd" for f in ("quick", "paper")]
    assert len({s.key for s in specs}) == 8


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), r"Expected parameters.a=nan to be finite"),
        ([1, {"b": float("inf")}], r"Expected parameters.a\[1\].b=inf to be finite"),
        (np.float64(1.0), r"Expected parameters.a to be JSON \(scalars, lists and dicts\), got float64"),
        ((1, 2), r"Expected parameters.a to be JSON .*, got tuple"),
        ({1: 2}, r"Expected the keys of parameters.a to be strings, got 1"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(value, message: str):
    with pytest.raises((TypeError, ValueError), match=message):
        spec(a=value)


def test_the_text_does_not_change_with_the_callers_dict():
    parameters = {"decision_rule": "always", "sizes": [1, 2]}
    made = Spec("toy", "mean", "quick", parameters)
    key = made.key
    parameters["sizes"].append(3)  # type: ignore[union-attr]
    assert made.key == key and made["sizes"] == [1, 2]
    made["sizes"].append(3)
    assert made.key == key and Spec.from_json(made.json)["sizes"] == [1, 2]


def test_a_spec_survives_json_and_pickle():
    made = spec(seed=3, rates=[0.1, 1e-8], nothing=None)
    assert Spec.from_json(made.json) == made == pickle.loads(pickle.dumps(made))
    assert canonical_json({"a": "é"}) == '{"a":"\\u00e9"}'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Toy", "mean", "quick", {"decision_rule": "x"}), "Expected paper='Toy' to be lower-case"),
        (("toy", "a.b", "quick", {"decision_rule": "x"}), "Expected experiment='a.b' to be lower-case"),
        (("toy", "mean", "fast", {"decision_rule": "x"}), "Expected profile='fast' to be one of: quick, cpu, paper"),
        (("toy", "mean", "quick", {}), "Expected parameters.decision_rule=None to say when"),
        (("toy", "mean", "quick", {"decision_rule": " "}), "Expected parameters.decision_rule=' ' to say when"),
    ],
)
def test_bad_specs_are_named(arguments: tuple, message: str):
    with pytest.raises(ValueError, match=message):
        Spec(*arguments)


def test_an_unknown_verdict_is_refused():
    with pytest.raises(
        ValueError, match="Expected verdict='maybe' to be one of: reproduced, not reproduced, undecided"
    ):
        Decision("maybe", "who knows")  # type: ignore[arg-type]


def nothing(*_):
    raise NotImplementedError


def test_an_experiment_refuses_the_spec_of_another():
    with pytest.raises(ValueError, match="Expected the spec of toy.median.quick, got that of toy.mean.quick"):
        Experiment(
            paper="toy",
            name="median",
            title="",
            question="",
            specs={"quick": spec()},
            cells=nothing,
            run_cell=nothing,
            decide=nothing,
        )


# ---------------------------------------------------------------- normalised source
SOURCE = '''"""Docstring."""
import math


class Area:
    """Of a circle."""

    unit: str = "m2"
    """What it is in."""

    def of(self, radius, *, scale=1.0):
        """Return it."""
        # pi r squared
        return scale * math.pi * radius**2 if radius > 0 else None
'''


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# pi r squared", "# another comment"),
        ('"""Docstring."""', '"""Other words."""'),
        ('"""Return it."""\n', "\n"),
        ('"""What it is in."""', '"""Its unit."""'),
        ("radius**2", "(radius ** 2)"),
        ("\n\nclass", "\n\n\n\n__version__ = '2'\n\nclass"),
    ],
)
def test_what_does_nothing_does_not_count(before: str, after: str):
    assert before in SOURCE
    assert normalised(SOURCE.replace(before, after)) == normalised(SOURCE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("radius**2", "radius**3"),
        ("radius > 0", "radius >= 0"),
        ("scale=1.0", "scale=1"),
        ("else None", "else False"),
        ("else None", "else ''"),
        (", *, scale", ", scale"),
        ('"m2"', '"m"'),
        ("math.pi", "math.e"),
        ("def of", "def in_"),
        ("class Area:", "class Area(object):"),
        ("    def of", "    @property\n    def of"),
    ],
)
def test_what_does_something_counts(before: str, after: str):
    assert before in SOURCE
    assert normalised(SOURCE.replace(before, after)) != normalised(SOURCE)


@pytest.mark.slow
def test_normalised_source_tells_trees_apart_as_ast_dump_does():
    """Over the package itself: removing any one statement changes the text."""
    tree = ast.parse((REPOSITORY / "dpnotes" / "validate.py").read_text())
    whole = normalised(ast.unparse(tree))
    silent = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp | ast.Lambda):
            continue
        for index, statement in enumerate(list(getattr(node, "body", []))):
            del node.body[index]  # type: ignore[attr-defined]
            replaced = not node.body and not isinstance(node, ast.Module)  # type: ignore[attr-defined]
            if replaced:
                node.body.append(ast.Pass())  # type: ignore[attr-defined]
            same = normalised(ast.unparse(ast.fix_missing_locations(tree))) == whole
            docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            assert same == docstring
            silent += docstring
            if replaced:
                node.body.pop()  # type: ignore[attr-defined]
            node.body.insert(index, statement)  # type: ignore[attr-defined]
    assert silent > 5


# ---------------------------------------------------------------- following imports
@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {
        "__init__": "",
        "main": "import numpy\nfrom tree.sub import leaf\ndef f():\n    from . import lazy",
        "lazy": "from .sub.deep import number as n",
        "unused": "import tree.main",
        "sub/__init__": "from tree.sub import sibling",
        "sub/sibling": "",
        "sub/leaf": "from ..cousin import x\nimport dpnotes.validate",
        "sub/deep": "number = 1",
        "cousin": "from dpnotes.experiments import Spec\nfrom tree.listed import y\nx = 1",
        "listed/__init__": "from tree.listed import passed\nfrom tree.listed.shown import *",
        "listed/shown": "y = 1",
        "listed/passed": "",
    }
    for name, source in files.items():
        path = tmp_path / "tree" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "tree"


def test_imports_are_followed_within_the_packages(package: Path):
    names = {"main", "lazy", "sub.leaf", "sub.deep", "cousin", "listed", "listed.shown", "listed.passed"}
    assert set(sources(["tree.main"])) == {f"tree.{name}" for name in names} | {"dpnotes.validate"}
    assert "tree.main" not in sys.modules, "nothing was executed"


def test_each_followed_module_counts_and_no_other(package: Path):
    before = sources(["tree.main"])
    for path in package.rglob("*.py"):
        name = ".".join(("tree", *path.relative_to(package).with_suffix("").parts)).removesuffix(".__init__")
        source = path.read_text()
        path.write_text(f"{source}\nz = 3\n")
        now = sources(["tree.main"])
        silent = {"tree", "tree.sub", "tree.sub.sibling", "tree.unused"}
        assert {key for key in now if now[key] != before[key]} == {name} - silent
        path.write_text(source)


def test_a_module_without_source_is_refused():
    with pytest.raises(ValueError, match="Expected module '__main__' to have a source file"):
        sources(["__main__"])
    with pytest.raises(ValueError, match="Expected module 'dpnotes.nowhere' to have a source file"):
        sources(["dpnotes.nowhere"])


def test_the_runner_itself_is_left_out():
    assert not [name for name in sources(["dpnotes.experiments.runner", "dpnotes.validate"]) if "experiments" in name]
