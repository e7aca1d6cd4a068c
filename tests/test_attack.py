"""A small part of each attack, so that it cannot decay: each part must detect a planted fault."""

import importlib
import inspect
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_device
from scipy import stats

from dpnotes import oracles, papers, privacy
from dpnotes.core import Guarantee, Relation
from dpnotes.privacy.mechanisms import Exact
from dpnotes.random.streams import Streams
from tests.attack import audits, beneath, doors, kills, mutants, signals
from tests.attack.__main__ import PAGE, SIZES, with_figures


@pytest.mark.slow
def test_the_command_starts_where_pytest_is_not_there_to_find_helpers():
    command = [sys.executable, "-m", "tests.attack", "--help"]
    found = subprocess.run(command, cwd=PAGE.parents[1], capture_output=True, text=True, check=False)
    assert found.returncode == 0 and "audits" in found.stdout, found.stderr


# ---------------------------------------------------------------- beneath
@pytest.mark.parametrize("kind", beneath.KINDS)
def test_code_that_shows_one_example_to_another_is_refused_named_or_harmless(kind: str):
    found, controls = beneath.attack(kind)
    assert beneath.verdict(found, controls) == []
    assert len(beneath.verdict(controls, found)) >= len(found), (
        "controls are caught, and what moves nothing is no control"
    )


# ---------------------------------------------------------------- kills
@pytest.mark.slow
def test_a_killed_training_stores_the_same_bytes():
    found = kills.attack("training", 1)
    assert (found.kills, found.different) == (1, ())


@pytest.mark.slow
def test_control_a_job_that_is_not_the_same_after_a_kill_is_noticed():
    found = kills.attack("careless", 1, job=kills.careless)
    assert (found.kills, found.different) == (1, ("kill 1: a.npz",))


def test_control_a_byte_that_differs_is_noticed(tmp_path: Path):
    (tmp_path / "stored").mkdir()
    (tmp_path / "stored" / "a.npz").write_bytes(b"abc")
    (tmp_path / "stored" / "a.manifest.json").write_text('{"wall_seconds": 1, "key": "b"}')
    before = kills.stored(tmp_path)
    (tmp_path / "stored" / "a.manifest.json").write_text('{"wall_seconds": 2, "key": "b"}')
    assert kills.different(before, kills.stored(tmp_path)) == []
    (tmp_path / "stored" / "a.npz").write_bytes(b"abd")
    assert kills.different(before, kills.stored(tmp_path)) == ["a.npz"]
    (tmp_path / "stored" / "a.manifest.json").write_text('{"wall_seconds": 2, "key": "c"}')
    assert kills.different(before, kills.stored(tmp_path)) == ["a.manifest.json", "a.npz"]


# ---------------------------------------------------------------- audits
def front_doors() -> set[Callable[..., Any]]:
    """Return the public functions of papers and of training that run an algorithm on data."""
    parts = ("algorithms", "baseline", "distributed", "selection")
    names = [f"dpnotes.papers.{paper}.{part}" for paper in papers.PAPERS for part in parts]
    modules = [importlib.import_module(n) for n in (*names, "dpnotes.train.loop") if doors.find_spec(n) is not None]
    members = {value for module in modules for value in vars(module).values() if inspect.isfunction(value)}
    ours = {f for f in members if sys.modules[f.__module__] in modules and not f.__name__.startswith("_")}
    asked = {f: inspect.signature(f).parameters.keys() for f in ours}
    return {f for f, names in asked.items() if "streams" in names and {"x", "models"} & names}


def test_every_door_has_an_audit():
    covered = {part for door in doors.doors().values() for part in door.covers}
    mechanisms = test_device.classes(privacy, "release", "cost") - {Exact}
    if doors.find_spec("opendp") is None:
        mechanisms -= {doors.discrete.DiscreteGaussian}
    assert len(front_doors()) == 12
    assert front_doors() | test_device.classes(oracles, "estimate", "declared") | mechanisms <= covered


def test_so_many_rejections_have_the_chance_that_is_said():
    chance = stats.binom.sf(audits.MOST_REJECTIONS, SIZES["audits"], audits.LEVEL)
    assert chance == pytest.approx(audits.CHANCE_OF_MORE, abs=5e-5)


@pytest.mark.slow
def test_an_audit_passes_what_is_right_and_catches_half_of_the_noise():
    for name in ("Gaussian", "clipped_noisy_sgd, Poisson, zero-out"):
        found, control = audits.audit(name, "test"), audits.audit(name, "test", halved=True)
        assert found.power >= 0.9 and not found.bound.exceeds(found.claim) and 0.2 < found.bound.epsilon
        assert control.bound.exceeds(control.claim) and control.p_value < audits.LEVEL < found.p_value
        assert audits.verdict([found], [control]) == []
        assert len(audits.verdict([control], [found])) == 2  # a refuted claim, and a control that is not rejected


LAWS = (
    "private_gradient_descent",
    "clipped_noisy_sgd, fixed size",
    "stochastic_spider",
    "drift_escape, later batch",
    "a client, later batch",
    "online_to_nonconvex, one pass",
    "online_to_nonconvex, many passes",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*LAWS, "Tree, optimal", "Laplace"])
def test_scores_have_the_law_that_the_plan_rests_on(name: str):
    door = doors.doors()[name]
    for included in (True, False):
        with signals.each_claim_once():
            scores, _ = door.attack(included, Streams.of(f"law {included}", range(400)))
        expected = door.law(included, 1.0, 100_000, np.random.default_rng(0))
        halved = door.law(included, 0.5, 100_000, np.random.default_rng(0))
        assert stats.ks_2samp(scores.numpy(), expected).pvalue > 1e-4  # type: ignore[attr-defined]
        assert stats.ks_2samp(scores.numpy(), halved).pvalue < 1e-4  # type: ignore[attr-defined]  # the control


def test_the_p_value_is_the_level_at_which_the_claim_falls():
    claim = Guarantee(1.0, 1e-2, Relation.ZERO_OUT, "a test")
    found = audits.p_value(300, 60, 1000, claim)
    for level, refuted in ((found * 0.99, False), (found * 1.01, True)):
        bound = audits.epsilon_from_counts(300, 1000, 60, 1000, delta=1e-2, level=level)
        assert (float(bound) > claim.epsilon) is refuted
    assert audits.p_value(100, 100, 1000, claim) == 1


# ---------------------------------------------------------------- mutants
SMALL = "def clipped(x):\n    total = x * 1\n    return min(total, 5)\n"
TEST = """from small import clipped


def test_control_that_quotes_a_line():
    if "total = x * 1" not in open("small.py").read():
        raise ValueError("Expected exactly one line 'total = x * 1', to become another, found 0.")


def test_it():
    assert (clipped(3), clipped(9)) == (3, 5)
"""


@pytest.mark.slow
def test_a_mutant_that_matters_is_killed_and_an_equivalent_one_survives(tmp_path: Path):
    (tmp_path / "small.py").write_text(SMALL)
    (tmp_path / "test_small.py").write_text(TEST)
    found = {mutant.new: mutant for mutant in mutants.mutants_of("small.py", SMALL)}
    assert set(found) == {"((x) / (1))", "(1 + 1)", "max(total, 5)", "(5 + 1)"}
    killed = mutants.judged(found["max(total, 5)"], tmp_path, 60, ["test_small.py"])
    survived = mutants.judged(found["((x) / (1))"], tmp_path, 60, ["test_small.py"])
    assert killed.killed_by == "test_small.py::test_it" and survived.killed_by == ""
    assert (tmp_path / "small.py").read_text() == SMALL
    assert len(mutants.verdict([killed, survived])) == 2 and not mutants.verdict([killed])
    explained = replace(survived, why="x / 1 is x")
    assert not mutants.verdict([killed, explained])
    mutants.write([killed, survived], tmp_path / "table.csv")
    assert mutants.read(tmp_path / "table.csv") == [killed, survived]


@pytest.mark.slow
def test_every_module_has_a_part_whose_tests_are_there():
    drawn = mutants.chosen()
    assert len(drawn) == len({(m.file, m.line) for m in drawn}) == SIZES["mutants"] and drawn == mutants.chosen()
    for folder in mutants.FOLDERS:
        for path in mutants.modules(folder):
            part = mutants.part_of(str(path.relative_to(mutants.ROOT)))
            assert part in mutants.PARTS or path.name == "__init__.py", path
    for part in mutants.PARTS:
        assert all((mutants.ROOT / test).exists() for test in mutants.tests_of(part)), part
    for mutant in drawn[::10]:
        compile(mutant.source((mutants.ROOT / mutant.file).read_text()), mutant.file, "exec")


# ---------------------------------------------------------------- figures
def test_figures_go_between_their_markers():
    page = PAGE.read_text()
    for name in SIZES:
        written = with_figures(page, name, ["a figure"])
        assert "\n\na figure\n\n" in written and with_figures(written, name, ["a figure"]) == written
    with pytest.raises(ValueError, match="once each"):
        with_figures("no markers", "audits", [])
