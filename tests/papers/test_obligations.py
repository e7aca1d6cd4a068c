"""What `dpnotes check-paper` asks of a paper beside its claims and its reference: laws, experiment, notebook."""

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import laws
import pytest

from dpnotes import papers
from dpnotes.cli.new_paper import checkout, file_of, worked_example
from dpnotes.experiments import Decision, load, outcome
from tests.results import contradictions, is_judged, mismatch, undecided, without_tolerance

obligation = pytest.mark.obligation
VERDICTS = ("reproduced", "not reproduced", "undecided")


def loaded(path: Path) -> ModuleType:
    """Return the module in a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def factories_of(paper: str) -> dict[type, dict[type, dict[str, Any]]]:
    """Return the factories that the paper's own test brings."""
    path = checkout(paper) / file_of(paper, "tests/papers/{key}/test_algorithms.py")
    return getattr(loaded(path), "FACTORIES", {}) if path.exists() else {}


@obligation("laws")
def test_every_class_has_a_factory_for_which_every_law_holds(paper: str):
    """The laws of classes with a factory in tests/laws.py are tested in test_laws.py."""
    package, own = importlib.import_module(papers.packages()[paper]), factories_of(paper)
    where = f"FACTORIES of {file_of(paper, 'tests/papers/{key}/test_algorithms.py')}"
    for kind, classes in laws.found(package).items():
        faults = laws.complaints(classes - laws.FACTORIES[kind].keys(), own.get(kind, {}), where)
        assert not faults, " ".join(faults)
    for name, holds in laws.cases(own).items():
        try:
            holds()
        except (Exception, pytest.fail.Exception) as error:
            faults.append(f"{name}: {error}".splitlines()[0])
    assert not faults, "; ".join(faults)


@obligation("experiment")
def test_experiments_can_decide_answer_their_question_and_have_a_quick_result(
    paper: str, monkeypatch: pytest.MonkeyPatch
):
    module = papers.part(paper, "experiments")
    assert module is not None and module.EXPERIMENTS, "Expected EXPERIMENTS, with one experiment or more."
    monkeypatch.delenv("DPNOTES_RESULTS", raising=False)
    for experiment in module.EXPERIMENTS:
        for spec in experiment.specs.values():
            assert is_judged(experiment, spec), f"Expected {experiment.id} to have cells, and a rule for each verdict."
            assert spec.chances, f"Expected {experiment.id} to state the chances of its verdicts: dpnotes chances."
        decided = [Decision(verdict, "a: 1") for verdict in VERDICTS]
        if "quick" in experiment.specs:
            result = load(experiment, "quick")
            faults = mismatch(result) or [*undecided(result), *without_tolerance(result)]
            assert not faults, f"{experiment.id}: {'; '.join(faults)}"
            decided.append(result.decision)
        for decision in decided:
            faults = contradictions(outcome(experiment, decision), experiment.answers.paper or "")
            assert not faults, f"{experiment.id}: {'; '.join(faults)}"


@obligation("notebook")
@pytest.mark.slow
def test_the_notebook_is_stored_as_it_runs(paper: str, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config):
    if pytestconfig.getoption("--paper") is None:
        pytest.skip("make check-notebooks runs all notebooks")
    from dpnotes.notebook.write import violations
    from tests.nbval_run import nbval

    monkeypatch.delenv("DPNOTES_RESULTS", raising=False)
    root = checkout(paper)
    paths = sorted((root / "notebooks").glob(f"*{paper}.ipynb"))
    assert paths, f"Expected {file_of(paper, 'notebooks/{key}.ipynb')}."
    for path in paths:
        faults = [*violations(path.read_text(encoding="utf-8"))]
        assert not faults, f"{faults[0]}: python -m dpnotes.notebook.write {path}"
        ran = nbval(path)
        assert ran.returncode == 0, f"Expected {path.name} to print what is stored: {ran.stdout.splitlines()[-1]}"


@obligation("example")
def test_no_file_is_the_worked_example_s_any_more(paper: str):
    card, root, package = papers.paper(paper), checkout(paper), papers.packages()[paper]
    example = worked_example(package, card)
    folder = root / file_of(paper, "{package}")
    left = [
        n
        for n, text in example.items()
        if n != "__init__.py" and (folder / n).exists() and (folder / n).read_text() == text
    ]
    assert not left, f"Expected what is yours in {', '.join(left)}, got the worked example."
