"""docs/template is a paper: copied into the package, its claim, algorithm and experiment hold, the laws check it."""

import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import laws
import pandas
import pytest

import dpnotes
from dpnotes import papers
from dpnotes.cli import catalogue
from dpnotes.core import Oracle
from dpnotes.experiments import Context

TEMPLATE = Path(__file__).parents[1] / "docs/template"
BOUND = "bound = self.releases.bound(weight * self.gradient_bound + (1 - weight) * change, self.batch_size)"
GRADIENT = "gradient = batch.term(plan.x, previous, yes, torch.full_like(change, self.gradient_bound))"
BATCH = "batch, yes = self.samples.batch(meter.used, plan.uses, streams, meter.calls)"
MOMENTUM = "direction = torch.where(granted, (1 - self.momentum) * old.direction + values[0], old.direction)"
RETURNED = "return Memory(torch.where(granted, plan.x, old.point), direction, noise), direction * granted"
LOSS = "self.samples.problem.gradients(plan.x).losses.mean(1)[:, None]"


@pytest.fixture
def storm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """A copy as `dpnotes.papers.storm`, with text replaced where a test requests it."""
    line, instead, _ = getattr(request, "param", ("", "", ""))
    shutil.copytree(TEMPLATE, tmp_path / "storm", ignore=shutil.ignore_patterns("__pycache__"))
    if line:
        path = tmp_path / "storm/algorithms.py"
        text = path.read_text()
        assert text.count(line) == 1
        path.write_text(text.replace(line, instead))
    monkeypatch.setattr(papers, "__path__", [*papers.__path__, str(tmp_path)])
    monkeypatch.setattr(papers, "PAPERS", (*papers.PAPERS, "storm"))
    yield import_module("dpnotes.papers.storm")
    for name in [name for name in sys.modules if name.startswith("dpnotes.papers.storm")]:
        del sys.modules[name]
    delattr(papers, "storm")


def part(name: str) -> Any:
    return import_module(f"dpnotes.papers.storm.{name}")


def test_its_claim_has_its_verdict(storm: ModuleType) -> None:
    assert [str(claim.check().kind) for claim in papers.claims("storm")] == ["exact", "exact"]
    assert papers.paper("storm").year == 2019


def test_the_command_line_finds_its_experiment(storm: ModuleType) -> None:
    assert [found.id for found in catalogue.all_experiments() if found.paper == "storm"] == ["storm.correction"]


@pytest.mark.slow
def test_its_algorithm_is_its_reference_and_its_experiment_decides(storm: ModuleType) -> None:
    part("test_algorithms").test_the_algorithm_is_its_reference()
    experiment, context = part("experiments").EXPERIMENTS[0], Context("cpu", 2**30)
    spec = experiment.spec("quick")
    frames = [pandas.DataFrame(experiment.run_cell(spec, cell, context)) for cell in experiment.cells(spec)]
    assert experiment.decide(pandas.concat(frames), spec).verdict == "reproduced"


def registered() -> dict[type, Any]:
    return part("test_algorithms").FACTORIES


@pytest.mark.slow
def test_the_laws_find_its_classes_and_hold(storm: ModuleType) -> None:
    for kind, classes in laws.found(storm).items():
        assert not laws.complaints(classes, registered().get(kind, {}), "tests/laws.py")
        assert classes == set() or kind is Oracle
    (missing,) = laws.complaints(laws.found(storm)[Oracle], {}, "tests/laws.py")
    assert missing == "Expected dpnotes.papers.storm.algorithms.Storm to have a factory in tests/laws.py."
    assert laws.found(dpnotes)[Oracle] >= laws.found(storm)[Oracle], "in the package it is found by itself"
    for holds in laws.cases(registered()).values():
        holds()


MISTAKES = {
    "a sensitivity 7 times too small": (BOUND, BOUND.replace("self.batch_size", "7 * self.batch_size"), "sensitivity"),
    "that of the gradient alone": (BOUND, BOUND.replace("(1 - weight) * change", "0 * change"), "sensitivity"),
    "half of it, as of leaving out": (BOUND, BOUND.replace("self.batch_size", "2 * self.batch_size"), "sensitivity"),
    "one that is never reached": (BOUND, BOUND.replace("self.batch_size", "self.batch_size / 2"), "sensitivity"),
    "gradients longer than the bound": (GRADIENT, GRADIENT.replace("change, self", "change, 10 * self"), "sensitivity"),
    "one batch again and again": (BATCH, BATCH.replace("meter.used", "0 * meter.used"), "claims"),
    "a sum in place of momentum": (MOMENTUM, MOMENTUM.replace("(1 - self.momentum) * ", ""), "unbiased"),
    "an estimate that tells a loss": (RETURNED, f"{RETURNED} + {LOSS}", "leaks"),
    "a direction that hears other runs": (RETURNED, f"{RETURNED} - direction.mean(0)", "alone"),
}


@pytest.mark.slow
@pytest.mark.parametrize("storm", MISTAKES.values(), ids=MISTAKES, indirect=True)
def test_control_a_mistake_is_caught_by_the_laws_alone(storm: ModuleType, request: pytest.FixtureRequest) -> None:
    caught = []
    for name, holds in laws.cases(registered()).items():
        try:
            holds()
        except AssertionError as error:
            assert str(error).startswith("Expected")
            caught.append(name.removeprefix("papers.storm.algorithms.Storm, STORM: "))
    assert MISTAKES[request.node.callspec.id][2] in caught
