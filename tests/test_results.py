"""The stored results belong to the code, the specs and the data as they are now; each check is shown to fail."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dpnotes import cli
from dpnotes.cli import all_experiments
from dpnotes.experiments import Decision, Experiment, Result, load, outstanding, results_folder
from dpnotes.experiments.store import MAX_RESULT_BYTES, DamagedFileError, command, write_table

EXPERIMENTS = all_experiments()
QUICK = [experiment for experiment in EXPERIMENTS if "quick" in experiment.specs]
NO_REASON = "no reason is stated"
STORED = Path(__file__).parents[1] / "notebooks" / "results"
# They release what depends on examples, under a guarantee: the manifest has to say what was spent.
PRIVATE = {
    "budget_schedules.mnist35",
    "budget_schedules.momentum",
    "budget_schedules.quadratic",
    "budget_schedules.subsampled",
    "drift_escape.mnist_clients",
    "drift_escape.sensing",
    "goldstein.complexity",
    "goldstein.mnist",
    "goldstein.orders",
    "noisy_sgd.convnet",
    "noisy_sgd.convnet_clipped",
}


def not_current(experiment: Experiment, profile: str = "quick") -> str | None:
    """Why the stored result cannot be shown, and the command that mends it; None for a current one."""
    try:
        result = load(experiment, profile)
    except DamagedFileError as error:
        return str(error)
    if result.state == "current":
        return None
    return f"{experiment.id} {profile} is {result.state}: {result.reason}; run: {command(result.spec)}"


def other_decision(result: Result) -> str | None:
    """Where the stored decision is not what the rule says of the stored numbers."""
    again = result.experiment.decide(result.frame, result.spec)
    return None if again == result.decision else f"stored {result.decision}, by the rule {again}"


def too_large(folder: Path) -> list[str]:
    """Files that are too large to be kept with the code."""
    return [path.name for path in folder.iterdir() if path.stat().st_size > MAX_RESULT_BYTES]


def nothing_spent(manifest: dict) -> bool:
    """Whether the manifest records no privacy event with a positive cost and a relation."""
    return not any(event.get("rho", 0) > 0 and event.get("relation") for event in manifest["spent"])


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the results that may be altered."""
    monkeypatch.setenv("DPNOTES_RESULTS", str(tmp_path / "results"))
    shutil.copytree(STORED, tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture(autouse=True)
def stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The results of the repository, whatever the environment says."""
    monkeypatch.setenv("DPNOTES_RESULTS", str(STORED))


def alter(folder: Path, name: str, **changes: object) -> None:
    """Change a manifest so that its checksums are still right."""
    stem = folder / f"{name}.quick"
    manifest = json.loads(stem.with_name(f"{stem.name}.manifest.json").read_text())
    del manifest["manifest_sha256"]
    experiment = next(e for e in EXPERIMENTS if e.id == name)
    columns = {column: values.to_numpy() for column, values in load(experiment, "quick").frame.items()}
    columns = {str(c): v.astype(str) if v.dtype.kind not in "bif" else v for c, v in columns.items()}
    write_table(stem, columns, manifest | changes)


# ---------------------------------------------------------------- what is stored
@pytest.mark.parametrize("experiment", QUICK, ids=lambda e: e.id)
def test_the_quick_result_is_current(experiment: Experiment):
    assert not not_current(experiment)


@pytest.mark.slow
@pytest.mark.parametrize("experiment", QUICK, ids=lambda e: e.id)
def test_the_stored_decision_is_the_rule_s(experiment: Experiment):
    result = load(experiment, "quick")
    assert result.state == "current" and other_decision(result) is None


def test_outstanding_paper_results_are_listed():
    assert (STORED / "OUTSTANDING.md").read_text() == outstanding(EXPERIMENTS), "run: dpnotes status --write"


def test_the_list_of_experiments_is_that_of_the_experiments():
    assert json.loads((STORED / cli.INDEX).read_text()) == cli.index_of(EXPERIMENTS), "run: dpnotes status --write"


def test_each_outstanding_result_has_a_reason():
    lines = outstanding(EXPERIMENTS).splitlines()[6:]
    assert not [line for line in lines if NO_REASON in line], "papers/PAPER/experiments/costs.py"
    bare = [replace(experiment, wants={}) for experiment in EXPERIMENTS]
    assert all(NO_REASON in line for line in outstanding(bare).splitlines() if "| missing |" in line), "the control"


def test_the_files_are_small_and_belong_to_an_experiment():
    assert not too_large(STORED) and not ((STORED / "parts").exists() and too_large(STORED / "parts"))
    ends = (".npz", ".manifest.json")
    known = {f"{e.id}.{profile}{end}" for e in EXPERIMENTS for profile in e.specs for end in ends}
    assert {path.name for path in STORED.iterdir()} <= known | {"OUTSTANDING.md", "experiments.json", "parts"}
    kept = {path.name.rpartition(".")[0].rpartition(".")[0] for path in (STORED / "parts").glob("*")}
    assert kept <= {f"{e.id}.{profile}" for e in EXPERIMENTS for profile in e.specs}


@pytest.mark.parametrize("experiment", QUICK, ids=lambda e: e.id)
def test_what_was_spent_is_on_record(experiment: Experiment):
    if experiment.id in PRIVATE:
        assert not nothing_spent(load(experiment, "quick").manifest)
    else:
        assert bool(experiment.unaccounted) == bool(experiment.data), "what was not paid for is said"


# ---------------------------------------------------------------- controls
def test_control_a_missing_result_is_named_with_its_command(copied: Path):
    for path in copied.glob("budget_schedules.quadratic.*"):
        path.unlink()
    (quadratic,) = (e for e in EXPERIMENTS if e.id == "budget_schedules.quadratic")
    message = not_current(quadratic)
    assert message and "missing" in message and "dpnotes run budget_schedules.quadratic --profile quick" in message


@pytest.mark.slow
def test_control_a_stale_result_is_seen():
    (quadratic,) = (e for e in EXPERIMENTS if e.id == "budget_schedules.quadratic")
    message = not_current(replace(quadratic, data=("other data",)))
    assert message and "stale" in message and "data changed" in message and "run: dpnotes run" in message


def test_control_a_damaged_result_is_seen(copied: Path):
    path = copied / "budget_schedules.quadratic.quick.npz"
    path.write_bytes(path.read_bytes()[:-1])
    (quadratic,) = (e for e in EXPERIMENTS if e.id == "budget_schedules.quadratic")
    assert "changed or cut short" in (not_current(quadratic) or "")


def test_control_another_decision_is_seen(copied: Path):
    (quadratic,) = (e for e in EXPERIMENTS if e.id == "budget_schedules.quadratic")
    honest = load(quadratic, "quick").decision
    wrong = Decision("not reproduced" if honest.verdict != "not reproduced" else "reproduced", honest.reason)
    alter(copied, "budget_schedules.quadratic", decision={"verdict": wrong.verdict, "reason": wrong.reason})
    assert other_decision(load(quadratic, "quick"))


@pytest.mark.slow
def test_control_an_unwritten_list_is_seen(copied: Path):
    assert results_folder() == copied
    (copied / f"{EXPERIMENTS[0].id}.paper.npz").write_bytes(b"")
    assert (copied / "OUTSTANDING.md").read_text() != outstanding(EXPERIMENTS), "a paper result that was damaged"


def test_control_a_large_file_and_an_unrecorded_cost_are_seen(copied: Path):
    (copied / "large.npz").write_bytes(bytes(MAX_RESULT_BYTES + 1))
    assert too_large(copied) == ["large.npz"]
    alter(copied, "budget_schedules.quadratic", spent=[])
    (quadratic,) = (e for e in EXPERIMENTS if e.id == "budget_schedules.quadratic")
    assert nothing_spent(load(quadratic, "quick").manifest)
