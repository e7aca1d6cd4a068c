"""Stale results that are current again: what is a change, which cells are run again, what is said of a difference.

The toy has arms, repeats and a second stage, and a repository of its own, as its result is compared with its commit.
"""

import ast
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpnotes import cli, files
from dpnotes.experiments import runner, store
from dpnotes.experiments.entered import Notes
from dpnotes.experiments.functions import Code, functions, normalised
from dpnotes.experiments.sources import sources
from dpnotes.experiments.spec import Experiment
from dpnotes.experiments.verify import Verification, in_order, verify
from tests.attack import mutants

REPOSITORY = Path(__file__).parents[2]

HELPER = '''"""What the toy rests on."""

import functools
import math

RATE = 0.5


def scaled(value, power=2):
    if power < 0:
        raise ValueError(f"Expected power={power} >= 0.")
    return RATE * math.pow(value, power)


@functools.cache
def length(name):
    return len(name) + 1


def never(value):
    return value - 1


def elsewhere():
    return 7
'''
ARMS = '''"""The arms."""

from toys import helper


def plain(draws, noise):
    steps = int(draws.integers(3, 9))
    total = 0.0
    for step in range(steps):
        total += helper.scaled(noise * draws.normal() + 1.0 / (step + 1))
    return steps, total


def clipped(draws, noise):
    steps = 4 + int(draws.integers(0, 2))
    value = min(max(noise * draws.normal() * 3, -1.0), 1.0)
    return steps, steps * value - 0.25


def late(draws, noise):
    walk = [noise * draws.normal() for _ in range(helper.length("late"))]
    return len(walk), sum(abs(each) for each in walk) / len(walk)


def rare(draws, noise):
    return plain(draws, noise / 2)


ALL = {"plain": plain, "clipped": clipped, "late": late}
'''
TOY = '''"""A toy experiment of arms, in two stages."""

import os
import time

import numpy as np

from dpnotes.experiments import Decision, Experiment, Spec
from toys.arms import ALL, rare

RULE = "reproduced when the best arm is above 0"


def cells(spec):
    return [
        {"stage": "tune", "arm": arm, "noise": noise, "repeat": repeat}
        for arm in ALL for noise in spec["noises"] for repeat in range(3)
    ]


def chosen(spec, frame):
    means = frame.groupby("arm")["value"].mean()
    return [{"stage": "main", "arm": str(means.idxmax()), "noise": 0.5, "repeat": repeat} for repeat in (3, 4)]


def run_cell(spec, cell, context):
    if log := os.environ.get("TOY_LOG"):
        with open(log, "a") as file:
            file.write(f"{cell['stage']}\\n")
    while os.environ.get("TOY_HANG") == cell["stage"]:
        time.sleep(0.05)
    rows = []
    arm = ALL[cell["arm"]]
    if cell["noise"] == 2.0 and cell["repeat"] == 1:
        arm = rare
    for run in range(spec["runs"] + cell["repeat"]):
        steps, value = arm(np.random.default_rng([spec["seed"], run, cell["repeat"]]), cell["noise"])
        rows.append((run, steps, value, "done" if value < 4 else "large"))
    run, steps, value, status = zip(*rows)
    labels = {"stage": cell["stage"], "arm": cell["arm"], "noise": cell["noise"], "repeat": cell["repeat"]}
    return {**labels, "run": list(run), "steps": list(steps), "value": list(value), "status": list(status)}


def decide(frame, spec):
    best = frame[frame["stage"] == "main"]["value"].mean()
    return Decision("reproduced" if best > 0 else "not reproduced", f"mean {best:.3f}")


PARAMETERS = {"seed": 7, "runs": 3, "noises": [0.1, 0.5, 2.0], "decision_rule": RULE}
EXPERIMENT = Experiment(
    paper="toy",
    name="arms",
    title="Arms",
    question="Which one?",
    specs={"quick": Spec("toy", "arms", "quick", PARAMETERS)},
    cells=cells,
    run_cell=run_cell,
    decide=decide,
    stages=(chosen,),
)
'''
MODULES = {"helper": HELPER, "arms": ARMS, "experiment": TOY}
CELLS = 27 + 2


def silent(line: str) -> None:
    pass


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=toy", "-c", "user.email=toy@example.org")
    subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True)


def loaded() -> Experiment:
    """The toy as its files are now."""
    for name in [name for name in sys.modules if name.split(".")[0] == "toys"]:
        del sys.modules[name]
    importlib.invalidate_caches()
    return importlib.import_module("toys.experiment").EXPERIMENT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The toy's files, committed, and empty results and cache."""
    (tmp_path / "toys").mkdir()
    for name, text in {"__init__": "", **MODULES}.items():
        (tmp_path / "toys" / f"{name}.py").write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "toys")
    git(tmp_path, "commit", "-qm", "toys")
    monkeypatch.setenv("DPNOTES_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("DPNOTES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{REPOSITORY}")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # an edit within a second is an edit
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == "toys"]:
        del sys.modules[name]


@pytest.fixture
def ran(folder: Path) -> Path:
    """The same after a full run."""
    runner.run(loaded(), "quick", device="cpu", report=silent)
    (folder / "log").unlink()
    return folder


def edit(folder: Path, module: str, before: str, after: str) -> None:
    path = folder / "toys" / f"{module}.py"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def state() -> tuple[str, str]:
    result = store.load(loaded(), "quick")
    return result.state, result.reason


def verified(**settings) -> Verification:
    return verify(loaded(), "quick", device="cpu", report=silent, **settings)


def computed(folder: Path) -> int:
    log = folder / "log"
    return len(log.read_text().split()) if log.exists() else 0


def manifest_path(folder: Path) -> Path:
    return folder / "results" / "toy.arms.quick.manifest.json"


def with_manifest(folder: Path, **changes) -> None:
    """Another manifest with its seal; None leaves an entry out."""
    body = files.unsealed_json(manifest_path(folder)) | changes
    files.write({manifest_path(folder): files.sealed_json({n: v for n, v in body.items() if v is not None})})


# ---------------------------------------------------------------- what is a change
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("raise ValueError('a')", "raise ValueError('b')", True),
        ("raise ValueError(f'a {x}' 'b')", "raise ValueError(f'{x!s:>9} c')", False),  # how a value is written counts
        ("raise ValueError(f'a {x:.2f}')", "raise ValueError(f'b {x:.3f}')", True),
        ("raise ValueError(f'a {x}')", "raise ValueError(f'a {y}')", False),
        ("raise ValueError(f'a {x[0]}')", "raise ValueError(f'a {x[1]}')", False),
        ("raise ValueError('a')", "raise TypeError('a')", False),
        ("raise ValueError('a', 1)", "raise ValueError('a', 2)", False),
        ("raise UnitsDiffer('a')", "raise UnitsDiffer('b')", False),  # its words become a verdict
        ("raise module.Error('a')", "raise module.Error('b')", False),
        ("warnings.warn('a', RuntimeWarning)", "warnings.warn('b', RuntimeWarning)", True),
        ("warnings.warn('a', RuntimeWarning)", "warnings.warn('a', UserWarning)", False),
        ("print('a')", "print('b')", False),
        ("return Decision('a')", "return Decision('b')", False),
    ],
)
def test_the_words_of_errors_are_no_code(one: str, other: str, same: bool):
    assert (normalised(f"def f():\n    {one}") == normalised(f"def f():\n    {other}")) is same


def test_a_reworded_error_keeps_results_current(ran: Path):
    edit(ran, "helper", 'f"Expected power={power} >= 0."', 'f"The power {power} is negative!"')
    assert state() == ("current", "")


def test_a_changed_value_in_an_error_does_not(ran: Path):
    edit(ran, "helper", "power={power} >=", "power={value} >=")
    assert state() == ("stale", "code changed: toys.helper.scaled")


@pytest.mark.parametrize("why", ["no commit", "another commit", "uncommitted"])
@pytest.mark.slow
def test_what_git_does_not_know_stays_stale_and_says_why(ran: Path, why: str):
    if why == "uncommitted":
        edit(ran, "arms", "- 0.25", "- 0.125")
        runner.run(loaded(), "quick", device="cpu", report=silent)
        expected = "what toys.arms was is not known: it was not yet committed at"
    elif why == "another commit":
        with_manifest(ran, git_commit="1" * 40)
        expected = "what toys.arms was is not known: commit 111111111 is not here, or git is not"
    else:
        with_manifest(ran, git_commit="")
        expected = "what toys.arms was is not known: no git commit is on record"
    assert state() == ("current", "")
    edit(ran, "arms", "3, 9", "2 + 1, 9")
    assert state()[0] == "stale" and expected in state()[1]
    with pytest.raises(ValueError, match="Expected the code of toy.arms quick to be known: code changed: toys.arms"):
        verified()


def test_moved_code_is_not_changed_code(ran: Path):
    """Functions to another module with their imports, a class and a whole module to other names."""
    source = HELPER[HELPER.index("def never") : HELPER.index("def elsewhere")]
    edit(ran, "helper", source, "")
    (ran / "toys" / "kept.py").write_text(f'"""Moved."""\n\n{source}')
    edit(ran, "arms", "from toys import helper\n", "from toys import helper\nfrom toys.kept import never\n")
    assert state() == ("current", "")
    (ran / "toys" / "arms.py").rename(ran / "toys" / "branches.py")
    edit(ran, "experiment", "from toys.arms import", "from toys.branches import")
    assert state() == ("current", "")
    edit(ran, "kept", "value - 1", "value - 2")
    assert state() == ("stale", "code changed: toys.kept.never"), "the control"


def test_a_moved_function_that_finds_another_value_there_has_changed(ran: Path):
    source = ARMS[ARMS.index("def clipped") : ARMS.index("def late")].replace("0.25", "QUARTER")
    edit(ran, "arms", ARMS[ARMS.index("def clipped") : ARMS.index("def late")], source)
    edit(ran, "helper", "RATE = 0.5", "RATE = 0.5\nQUARTER = 0.25")
    edit(ran, "arms", "from toys import helper\n", "from toys import helper\nfrom toys.helper import QUARTER\n")
    git(ran, "commit", "-qam", "a constant")
    runner.run(loaded(), "quick", device="cpu", report=silent)
    edit(ran, "arms", source, "")
    edit(ran, "arms", "from toys import helper\n", "from toys import helper\nfrom toys.kept import clipped\n")
    (ran / "toys" / "kept.py").write_text(f"from toys.helper import QUARTER\n\n\n{source}")
    # The same name for the same value, whatever module it is in; then for another one.
    assert "toys.kept.clipped" not in state()[1]
    (ran / "toys" / "kept.py").write_text(f"QUARTER = 0.5\n\n\n{source}")
    assert "toys.kept.clipped" in state()[1]


def test_functions_of_one_name_that_change_places_have_changed(ran: Path):
    """Who calls either of them by its module now gets the other."""
    edit(ran, "helper", "def elsewhere():\n    return 7\n", "def late(draws, noise):\n    return 3, 7.0\n")
    git(ran, "commit", "-qam", "another of the name")
    runner.run(loaded(), "quick", device="cpu", report=silent)
    source = ARMS[ARMS.index("def late") : ARMS.index("def rare")]
    edit(ran, "helper", "def late(draws, noise):\n    return 3, 7.0\n", source.replace("helper.length", "length"))
    edit(ran, "arms", source, "def late(draws, noise):\n    return 3, 7.0\n\n\n")
    assert state() == ("stale", "code changed: toys.arms.late, toys.helper.late")


def test_what_a_decision_is_fitted_with_counts_and_the_runner_does_not():
    found = sources(["dpnotes.papers.adaptive_batch.experiments.slopes"])
    assert [name for name in found if name.startswith("dpnotes.experiments")] == ["dpnotes.experiments.fits"]


def test_another_import_of_a_name_is_a_change(ran: Path):
    edit(ran, "helper", "import math\n", "import cmath as math\n")
    assert state() == ("stale", "code changed: toys.helper.scaled")


# ---------------------------------------------------------------- which cells are run again
def test_every_level_of_every_factor_and_both_stages_are_run_again(ran: Path):
    edit(ran, "arms", "3, 9", "2 + 1, 9")
    assert verified().state == "verified"
    (record,) = [files.unsealed_json(manifest_path(ran))["verified"]]
    cells = record["cells"]
    assert {cell["arm"] for cell in cells if cell["stage"] == "tune"} == {"plain", "clipped", "late"}
    assert {cell["noise"] for cell in cells if cell["stage"] == "tune"} == {0.1, 0.5, 2.0}
    assert {cell["repeat"] for cell in cells} == {0, 1, 2, 3, 4}
    assert computed(ran) == len(cells) < 10
    assert len(record["git_commit"]) == 40 and record["git_dirty"] and record["finished_at"]
    result = store.load(loaded(), "quick")
    assert result.state == "current" and f": {len(cells)} of {CELLS} cells run again" in result.pedigree
    assert result.pedigree.startswith(f"verified at {record['git_commit'][:12]} with uncommitted changes")


def test_the_seed_chooses_the_cells():
    cells = [{"arm": arm, "repeat": repeat} for arm in range(3) for repeat in range(9)]
    chosen = [in_order(cells, seed) for seed in ("a", "a", "b")]
    assert chosen[0] == chosen[1] != chosen[2]
    assert all(sorted(some + others) == list(range(27)) and len(some) == 9 for some, others in chosen)
    shares = [{"arm": arm, "repeats": [arm, share]} for arm in range(3) for share in range(9)]
    assert len(in_order(shares, "a")[0]) == 3, "how the repeats are shared out is no factor"


def test_cells_are_run_until_a_changed_function_that_a_run_enters_was_entered(ran: Path):
    """`rare` is entered by 3 of 29 cells, and by none of its own arm or noise alone."""
    edit(ran, "arms", "noise / 2", "noise * 0.5")
    assert verified().state == "verified"
    cells = files.unsealed_json(manifest_path(ran))["verified"]["cells"]
    assert any(cell["noise"] == 2.0 and cell["repeat"] == 1 for cell in cells)
    edit(ran, "arms", "noise * 0.5", "noise * 0.25")
    assert verified().state == "different"


def test_a_changed_function_that_no_cell_enters_does_not_count(ran: Path):
    edit(ran, "helper", "value - 1", "value - 2")
    assert state() == ("stale", "code changed: toys.helper.never")
    assert verified().state == "verified" and computed(ran) < 10
    assert state() == ("current", "")


CHECK = "power >= 0 or errors.append(lambda: {})\n    return RATE"


@pytest.mark.parametrize(("error", "others"), [("power", False), ("value + power", True)])
def test_an_error_that_is_never_raised_does_not_make_all_cells_run(ran: Path, error: str, others: bool):
    """A lambda that hands on a value is a part of its function; one that computes is a function of its own."""
    edit(ran, "helper", "RATE = 0.5", "RATE = 0.5\nerrors = []")
    edit(ran, "helper", "return RATE", CHECK.format(error))
    assert verified().state == "verified"
    assert (computed(ran) == CELLS) == others and state()[0] == "current"
    edit(ran, "helper", f"lambda: {error}", f"lambda: {error.replace('power', 'errors')}")
    assert state()[0] == "stale"


def test_one_that_may_be_entered_and_was_not_is_named(ran: Path):
    """Without the list of a full run, `elsewhere` counts as soon as code that was entered names it."""
    with_manifest(ran, functions={}, functions_cells=0)
    edit(ran, "helper", "return 7", "return 8")
    edit(ran, "arms", "return len(walk)", "walk = walk or helper.elsewhere()\n    return len(walk)")
    found = verified(seconds=1e-9)
    assert found == Verification("stale", ("the time is up before a cell of each level was run",))
    assert verified().state == "verified" and computed(ran) == CELLS, "all cells were run, and none enters it"
    edit(ran, "helper", "return 8", "return 9")
    assert verified().state == "verified" and computed(ran) < 2 * CELLS, "now the list is whole"


@pytest.mark.parametrize(("walks", "others"), [("spare = 1", False), ("spare = helper.spare if not walk else 1", True)])
def test_a_new_function_does_not_count_for_a_variable_of_its_name(ran: Path, walks: str, others: bool):
    with (ran / "toys" / "helper.py").open("a") as file:
        file.write("\n\ndef spare():\n    return 1\n")
    edit(ran, "arms", "    return len(walk), sum", f"    {walks}\n    return len(walk), spare * sum")
    assert verified().state == "verified" and (computed(ran) == CELLS) == others


@pytest.mark.parametrize(
    "code",
    [
        "def f(y=x): x = 1; return x + y",
        "@x\ndef f(x): return x",
        "def f(y: x): x = y; return x",
        "def f(): from m import x; return x",
        "def f(): import x; return x",
        "def f(x): return x + x.x",
        "def f(y): return [x for x in y], x",
        "def f(y): return x, (lambda x: x)(y)",
        "def f(y):\n  global x\n  x = y\n  return x",
        "def f(y):\n  def x(): return y\n  return x()",
        "def f(y):\n  class x: pass\n  return x()",
        "def f(x):\n  class c: y = x\n  return c",
        "def f(x):\n  def g():\n    global x\n    return x\n  return g() + x",
    ],
)
def test_a_name_that_may_stand_for_a_function_is_not_a_variable_only(code: str):
    """`x` of each; and a variable beside it is one."""
    unit = Code({"m": code}).units["m", "f"]
    assert "x" not in unit.own
    assert "own" in Code({"m": code.replace("def f(", "def f(own, ", 1)}).units["m", "f"].own


def test_a_function_that_rebinds_another_s_variable_has_none_that_are_surely_its_own():
    units = Code({"m": "def f(x):\n  def g(y):\n    nonlocal x\n    x = y\n  g(x)"}).units
    assert (units["m", "f"].own, units["m", "f.g"].own) == ({"x", "y"}, set())


def test_changed_statements_of_a_module_are_stale_until_verified(ran: Path):
    edit(ran, "helper", "RATE = 0.5", "RATE = 1 / 2")
    assert state() == ("stale", "code changed: toys.helper")
    assert verified().state == "verified" and state() == ("current", "")


def test_a_list_of_functions_is_kept_by_runs_and_knows_caches(ran: Path):
    whole = store.unlisted(files.unsealed_json(manifest_path(ran))["functions"])
    entered = {"scaled", "length"}
    assert {name for module, name in whole if module == "toys.helper"} == entered
    assert {"cells", "chosen", "run_cell", "decide"} <= {name for module, name in whole if module == "toys.experiment"}
    assert Notes.current is None
    edit(ran, "helper", "len(name) + 1", "1 + len(name)")
    experiment = loaded()
    experiment.run_cell(experiment.spec("quick"), {"stage": "", "arm": "late", "noise": 1.0, "repeat": 0}, None)  # type: ignore[arg-type]
    assert verify(experiment, "quick", device="cpu", report=silent).state == "verified", "a full cache is emptied"


# ---------------------------------------------------------------- what differs
def test_a_difference_is_named_by_cell_column_row_and_values(ran: Path):
    before = {path: path.read_bytes() for path in (ran / "results").iterdir()}
    edit(ran, "arms", "- 0.25", "- 0.5")
    found = verified()
    assert found.state == "different" and all('"arm":"clipped"' in line for line in found.lines)
    frame = store.load(loaded(), "quick").frame
    for line in found.lines:
        cell = json.loads(line[len("cell ") : line.index("}") + 1])
        row = int(line.split(", row ")[1].split(":")[0])
        assert frame.loc[row, "arm"] == "clipped" and frame.loc[row, "repeat"] == cell["repeat"]
        value = float(frame.loc[row, "value"])  # type: ignore[arg-type]
        assert f"column 'value', row {row}: stored {value!r}, now {value - 0.25!r}" in line
    assert before == {path: path.read_bytes() for path in (ran / "results").iterdir()} and state()[0] == "stale"


SLOW = partial(pytest.param, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("before", "after", "column"),
    [
        ('"done" if value < 4 else "large"', '"done" if value < 0.3 else "large"', "'status'"),
        SLOW("rows.append((run, steps,", "rows.append((run, steps + (run == 2),", "'steps'"),
        ("(run, steps, value,", "(run, steps, np.nextafter(value, 9),", "'value'"),
        SLOW("(run, steps, value,", "(run, float(steps), value,", "'steps'"),
        SLOW('"repeat": cell["repeat"]}', '"repeat": cell["repeat"], "more": 1}', "columns"),
        SLOW('for run in range(spec["runs"]', 'for run in range(1 + spec["runs"]', "rows"),
        ('f"mean {best:.3f}"', 'f"the mean is {best:.3f}"', "decision, reason"),
        ("if best > 0", "if best > 99", "decision, verdict"),
        SLOW("for repeat in (3, 4)", "for repeat in (3, 4, 5)", "stored 29 cells, now 30"),
    ],
)
@pytest.mark.slow
def test_each_kind_of_difference_is_seen(ran: Path, before: str, after: str, column: str):
    edit(ran, "experiment", before, after)
    found = verified()
    assert found.state == "different" and any(column in line for line in found.lines), found


@pytest.mark.slow
def test_another_machine_has_rounding_and_the_tolerance_of_the_spec_and_no_other(ran: Path):
    edit(ran, "arms", "- 0.25", "- 0.25000001")
    assert verified().state == "different"
    (environment,) = files.unsealed_json(manifest_path(ran))["environments"]
    with_manifest(ran, environments=[{**environment, "name": "another processor"}])
    assert verified().state == "different", "nothing was named beforehand"
    edit(ran, "experiment", '"runs": 3,', '"runs": 3, "tolerances": {"value": 1e-6},')
    assert verified_after_a_run(ran, environment["name"]).state == "different", "the same machine"
    assert verified_after_a_run(ran, "another processor").state == "verified"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/cpuinfo")
def test_processors_of_one_name_are_told_apart(monkeypatch: pytest.MonkeyPatch):
    cpuinfo = "model name\t: EPYC\ncpu family\t: 25\nmodel\t\t: {model}\n"
    names = set()
    for model, instructions in ((1, "AVX2"), (1, "AVX512"), (17, "AVX512")):
        monkeypatch.setattr(Path, "read_text", lambda path, model=model: cpuinfo.format(model=model))
        monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda instructions=instructions: instructions)
        names.add(runner._processor())
    assert len(names) == 3 and "EPYC (family 25, model 17), AVX512" in names


def test_a_commit_that_was_rebased_away_is_replaced_by_one_of_the_same_code(ran: Path):
    with_manifest(ran, git_commit="f" * 40)
    path = ran / "toys" / "arms.py"
    path.write_text(f"# Not committed.\n{path.read_text()}")
    assert verified().state == "current" and "verified" not in files.unsealed_json(manifest_path(ran))
    git(ran, "checkout", "-q", ".")
    assert verified().state == "current" and store.load(loaded(), "quick").pedigree == "run with this code"
    record = files.unsealed_json(manifest_path(ran))["verified"]
    assert record["cells"] == [] and record["git_commit"] == runner.commit_of(loaded())["git_commit"]
    edit(ran, "arms", "- 0.25", "- 1 / 4")
    assert verified().state == "verified"


def test_another_machine_s_rounding_is_let_pass_and_said(ran: Path):
    edit(ran, "experiment", "(run, steps, value,", "(run, steps, value * (1 + 1e-12),")
    assert verified().state == "different", "the same machine"
    (environment,) = files.unsealed_json(manifest_path(ran))["environments"]
    with_manifest(ran, environments=[{**environment, "name": "another processor"}])
    assert verified().state == "verified"
    assert "the same numbers up to 1e-09 of themselves" in store.load(loaded(), "quick").pedigree


def test_what_other_instructions_made_different_is_named_and_is_the_same_with_those_of_the_result(
    ran: Path, monkeypatch: pytest.MonkeyPatch
):
    def on(instructions: str, sums: str) -> tuple[Verification, str]:
        monkeypatch.setattr(runner, "environment", lambda device: {**environment, "name": f"EPYC, {instructions}"})
        monkeypatch.setenv("TOY_SUMS", sums)
        told = [""]
        return verify(loaded(), "quick", device="cpu", report=told.append), told[-1]

    (environment,) = files.unsealed_json(manifest_path(ran))["environments"]
    with_manifest(ran, environments=[{**environment, "name": "EPYC, AVX2"}])
    edit(ran, "experiment", "(run, steps, value,", '(run, steps, value + 1e-7 * (os.getenv("TOY_SUMS") == "other"),')
    found, last = on("AVX512", "other")
    assert found.state == "different"
    assert "the result was computed with AVX2 instructions, this with AVX512; to use the same, set ATEN_CPU" in last
    assert on("AVX512", "")[0].state == "different", "what is kept of the same machine stands"
    assert on("AVX2", "")[0].state == "verified"
    assert store.load(loaded(), "quick").pedigree.endswith("the same numbers")


def verified_after_a_run(ran: Path, name: str) -> Verification:
    """Of a result of a machine of that name, and code that changes a column by 1e-9."""
    runner.run(loaded(), "quick", device="cpu", report=silent, resume=False)
    git(ran, "commit", "-qam", name)
    runner.run(loaded(), "quick", device="cpu", report=silent, resume=False)
    (environment,) = files.unsealed_json(manifest_path(ran))["environments"]
    with_manifest(ran, environments=[{**environment, "name": name}])
    edit(ran, "arms", "- 0.25", "- 0.000000001 - 0.25")
    return verified()


@pytest.mark.slow
def test_the_command_line_says_what_differs_and_how_a_result_is_current(ran: Path, monkeypatch: pytest.MonkeyPatch):
    def call(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(cli, "all_experiments", lambda: [loaded()])
        result = CliRunner().invoke(cli.app, arguments, prog_name="dpnotes")
        return result.exit_code, result.output

    assert "1 run with this code" in call("doctor")[1] and "run with this code" in call("status")[1]
    edit(ran, "arms", "- 0.25", "- 0.5")
    status, text = call("verify")
    assert status == 1 and "different: cell {" in text and "'value', row " in text and "1 result: 1 different" in text
    assert "1 partial  -> dpnotes status" in call("doctor")[1], "stale, and some cells are finished"
    edit(ran, "arms", "- 0.5", "- 1 / 4")
    status, text = call("verify", "toy.arms", "--profile", "quick", "--seconds", "600")
    assert status == 0 and "1 result: 1 verified" in text
    assert "1 verified with it" in call("doctor")[1] and "verified at" in call("status")[1]
    assert "verified at" in call("results", "toy.arms")[1]
    manifest_path(ran).write_bytes(b"{}")
    status, text = call("verify")
    assert status == 2 and "changed or cut short" in text


# ---------------------------------------------------------------- faults
def test_a_result_that_verify_cannot_help_is_refused(folder: Path):
    with pytest.raises(ValueError, match="Expected toy.arms quick to be stale by its code alone: no result stored"):
        verified()
    runner.run(loaded(), "quick", device="cpu", report=silent)
    assert verified().state == "current"
    edit(folder, "experiment", '"runs": 3', '"runs": 4')
    with pytest.raises(ValueError, match="to be stale by its code alone: spec changed: runs"):
        verified()
    with pytest.raises(ValueError, match="Expected seconds=0 > 0"):
        verified(seconds=0)


def test_a_tampered_manifest_is_refused(ran: Path):
    edit(ran, "arms", "3, 9", "2 + 1, 9")
    path = manifest_path(ran)
    whole = path.read_text()
    path.write_text(whole.replace('"cells": 29', '"cells": 2'))
    with pytest.raises(store.DamagedFileError, match="manifest.json to match its own sha256"):
        verified()
    path.write_text(whole)
    assert verified().state == "verified", "the control"


@pytest.mark.slow
def test_a_kill_loses_nothing(ran: Path):
    edit(ran, "arms", "3, 9", "2 + 1, 9")
    before = {path: path.read_bytes() for path in (ran / "results").iterdir()}
    script = "from dpnotes.experiments import verify\nfrom toys.experiment import EXPERIMENT\n"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{script}verify(EXPERIMENT, 'quick', device='cpu')"],
        env={**os.environ, "TOY_HANG": "main"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    end = time.monotonic() + 60
    while not computed(ran) or "main" not in (ran / "log").read_text():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    first = computed(ran)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.communicate()
    assert before == {path: path.read_bytes() for path in (ran / "results").iterdir()}
    assert verified().state == "verified"
    cells = files.unsealed_json(manifest_path(ran))["verified"]["cells"]
    assert computed(ran) == first + len(cells) - (first - 1), "the cells that were finished are not run again"


# ---------------------------------------------------------------- mutants
def full_run(experiment: Experiment) -> tuple[dict[str, list], object]:
    """Every column of every cell, and the decision, without the runner."""
    spec, parts = experiment.spec("quick"), []
    for stage in (experiment.cells, *experiment.stages):
        frame = store.frame_of(store.concatenate(parts))
        cells = stage(spec) if stage is experiment.cells else stage(spec, frame)  # type: ignore[call-arg]
        parts += [store.as_columns(experiment.run_cell(spec, cell, None)) for cell in cells]  # type: ignore[arg-type]
    columns = store.concatenate(parts)
    decision = experiment.decide(store.frame_of(columns), spec)
    return {name: column.tolist() for name, column in columns.items()}, decision


def outcome(mutate) -> object:
    """What comes of something that a mutant may break."""
    try:
        return mutate()
    except Exception as error:
        return type(error).__name__


@pytest.mark.slow
@pytest.mark.parametrize("number", [30])
def test_mutants_that_change_a_number_are_caught(ran: Path, number: int):
    """Mutants of the toy's modules, at random, and one of a single arm."""
    honest = full_run(loaded())
    every = [mutant for name, text in MODULES.items() for mutant in mutants.mutants_of(name, text)]
    single = next(mutant for mutant in every if mutant.file == "arms" and mutant.old == "steps * value - 0.25")
    some = [single, *random.Random(0).sample([mutant for mutant in every if mutant != single], number - 1)]
    whole, caught, changed = dict(MODULES), [], []
    stored = manifest_path(ran).read_bytes()
    for mutant in some:
        (ran / "toys" / f"{mutant.file}.py").write_text(mutant.source(whole[mutant.file]))
        if outcome(lambda: full_run(loaded())) != honest:
            changed.append(mutant)
            if getattr(outcome(verified), "state", "different") == "different":
                caught.append(mutant)
        else:
            assert outcome(verified).state == "verified"  # type: ignore[attr-defined]
            manifest_path(ran).write_bytes(stored)
        (ran / "toys" / f"{mutant.file}.py").write_text(whole[mutant.file])
    assert single in caught and len(changed) >= number / 2
    assert len(caught) >= 0.9 * len(changed), [mutant for mutant in changed if mutant not in caught]


# An experiment of the package in a copy of it: what all cells give, by column, and what `verify` says of it.
DRIVER = """
import json, sys
from dpnotes.cli import all_experiments
from dpnotes.experiments import Context, load, verify
from dpnotes.experiments.store import as_columns, concatenate
(experiment,) = [each for each in all_experiments() if each.id == sys.argv[1]]
spec, stored = experiment.spec("quick"), load(experiment, "quick")
try:
    parts = [as_columns(experiment.run_cell(spec, cell, Context("cpu", 2 * 10**9))) for cell in experiment.cells(spec)]
    columns = {name: column.tolist() for name, column in concatenate(parts).items()}
    changed = str(columns) != str({name: column.tolist() for name, column in stored.frame.items()})
    decision = experiment.decide(stored.frame, spec)
    changed |= stored.manifest["decision"] != {"verdict": decision.verdict, "reason": decision.reason}
except Exception:
    changed = True
try:
    state = verify(experiment, "quick", device="cpu", report=lambda line: None).state
except Exception:
    state = "different"
print(json.dumps([changed, state]))
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_mutants_of_a_real_experiment_are_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Twelve mutants in what an experiment of two laws and five factors enters; one is of a law alone."""
    name, own = "adaptive_batch.escape", "dpnotes/papers/adaptive_batch/experiments/escape.py"
    shutil.copytree(REPOSITORY / "dpnotes", tmp_path / "dpnotes", ignore=shutil.ignore_patterns("__pycache__"))
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "dpnotes")
    git(tmp_path, "commit", "-qm", "copy")
    monkeypatch.setenv("DPNOTES_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("DPNOTES_CACHE", str(tmp_path / "cache"))
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}

    def python(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    python("-m", "dpnotes", "run", name, "--device", "cpu")
    stem = tmp_path / "results" / f"{name}.quick.manifest.json"
    stored = stem.read_bytes()
    every = []
    for module, names in files.unsealed_json(stem)["functions"].items():
        path = f"{module.replace('.', '/')}.py"
        path = path if (tmp_path / path).exists() else path.replace(".py", "/__init__.py")
        text = (tmp_path / path).read_text()
        found = functions(ast.parse(text))
        lines = {line for each in names.split() for line in range(found[each].lineno, found[each].end_lineno + 1)}  # type: ignore[operator]
        every += [mutant for mutant in mutants.mutants_of(path, text) if mutant.line in lines]
    single = next(mutant for mutant in every if mutant.file == own and mutant.old.startswith("2 * heads.double()"))
    some = [single, *random.Random(0).sample([mutant for mutant in every if mutant != single], 11)]
    changed, caught = [], []
    for mutant in some:
        path = tmp_path / mutant.file
        whole = path.read_text()
        path.write_text(mutant.source(whole))
        try:
            is_changed, state = json.loads(python("-c", DRIVER, name))
        except AssertionError:
            is_changed, state = True, "different"  # it cannot even be imported
        path.write_text(whole)
        stem.write_bytes(stored)
        changed += [mutant] if is_changed else []
        caught += [mutant] if is_changed and state == "different" else []
        assert is_changed or state != "different", mutant
    assert single in caught and len(changed) >= 4
    assert len(caught) >= 0.9 * len(changed), [mutant for mutant in changed if mutant not in caught]
