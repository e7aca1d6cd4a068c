"""The stored results: today's parameters and data, today's rule, the claimed privacy, and agreement.

Every check is a list of faults of one result, and is shown to fail.
"""

import csv
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dpnotes.cli import catalogue
from dpnotes.core import Relation, Sampling
from dpnotes.experiments import Decision, Experiment, Result, load, outstanding, store
from dpnotes.experiments.agreement import Children, Rerun, compare
from dpnotes.experiments.outcomes import AGAINST, AS_PREDICTED, outcome
from dpnotes.experiments.provenance import git, now
from dpnotes.experiments.store import MAX_RESULT_BYTES, pending
from dpnotes.papers.budget_schedules.experiments import subsampled
from dpnotes.privacy.accounting import account, rho_to_epsilon
from dpnotes.privacy.events import Event
from dpnotes.privacy.schedules import exponential, uniform
from dpnotes.problems.published import DataNotFound
from tests.attack.samples import draw
from tests.results import contradictions, mismatch, undecided, without_tolerance

STORED = Path(__file__).parents[1] / "notebooks" / "results"
EXPERIMENTS = {experiment.id: experiment for experiment in catalogue.all_experiments()}
NAMES = {path.stem for path in STORED.glob("*.npz")} | {f"{name}.quick" for name in EXPERIMENTS}
PAIRS = [(one, profile) for one in EXPERIMENTS.values() for profile in one.specs if f"{one.id}.{profile}" in NAMES]
# These results release values that depend on examples, under a guarantee: the manifest must list the cost.
PRIVATE = {
    "budget_schedules": "mnist35 momentum quadratic subsampled",
    "drift_escape": "mnist_clients sensing",
    "goldstein": "complexity mnist orders",
    "noisy_sgd": "convnet convnet_clipped pretraining",
}


@pytest.fixture(autouse=True)
def stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The results of the repository, whatever the environment variables."""
    monkeypatch.setenv("DPNOTES_RESULTS", str(STORED))


@cache  # several tests read it, and none changes it
def loaded(experiment: Experiment, profile: str) -> Result:
    return load(experiment, profile)


def each_result(test: Any) -> Any:
    return pytest.mark.parametrize(("experiment", "profile"), PAIRS, ids=[f"{e.id}-{p}" for e, p in PAIRS])(test)


# ---------------------------------------------------------------- it matches, and is decided today
@each_result
def test_a_stored_result_matches_and_is_decided_today(experiment: Experiment, profile: str):
    result = loaded(experiment, profile)
    assert not mismatch(result)
    assert not undecided(result), "after a change of the rule: dpnotes status --write"
    assert experiment.tolerances and not without_tolerance(result)


def test_control_another_result_decision_rule_or_tolerance_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    experiment, profile = EXPERIMENTS["budget_schedules.quadratic"], "quick"
    result = loaded(experiment, profile)
    assert "of other parameters or data: data" in mismatch(load(replace(experiment, data=("other",)), profile))[0]
    other = Decision("undecided" if result.decision.verdict != "undecided" else "reproduced", result.decision.reason)
    assert "by today's rule" in undecided(replace(result, decision=other))[0]
    assert "by today's rule" in undecided(replace(result, frame=result.frame.iloc[:-9]))[0]
    assert "decided by rule {" in undecided(replace(result, experiment=replace(experiment, rule_version=2)))[0]
    assert without_tolerance(replace(result, experiment=replace(experiment, tolerances={"predicted": 0.1})))
    monkeypatch.setenv("DPNOTES_RESULTS", str(tmp_path))
    assert mismatch(load(experiment, profile))[0].startswith("missing: no result stored; compute it: dpnotes run budg")


# ---------------------------------------------------------------- the words answer the question
with (Path(__file__).parent / "paper_answers.csv").open() as file:
    PAPERS_ANSWERS = {row["id"]: row["answer"] for row in csv.DictReader(file)}


def test_the_verdict_words_of_every_result_agree_with_its_answer():
    assert {*PAPERS_ANSWERS} <= {*EXPERIMENTS}
    silent = [one for name, one in EXPERIMENTS.items() if name not in PAPERS_ANSWERS]
    assert not [one.id for one in silent if one.answers.paper], "the paper's answer stands in paper_answers.csv, too"
    verdicts = ("reproduced", "not reproduced", "undecided")
    for name, experiment in EXPERIMENTS.items():
        decisions = [Decision(verdict, "a: 1; b: 2") for verdict in verdicts]  # those of today, and all others
        decisions += [loaded(one, profile).decision for one, profile in PAIRS if one is experiment]
        for decision in decisions:
            assert contradictions(outcome(experiment, decision), PAPERS_ANSWERS.get(name, "")) == []


def test_control_a_word_that_contradicts_the_answer_is_seen():
    against = EXPERIMENTS["goldstein.generalisation"]
    found = outcome(against, Decision("reproduced", "a gap of 1"))
    assert found.answer == "No" and AGAINST in found.standing and contradictions(found, "Yes") == []
    assert len(contradictions(found, "No")) == 1  # the paper's answer is declared wrongly
    assert len(contradictions(replace(found, standing=f"This is {AS_PREDICTED}."), "Yes")) == 1
    assert len(contradictions(replace(found, sentence=f"Reproduced: {found.sentence}"), "Yes")) == 2
    assert len(contradictions(replace(found, answer="Yes"), "Yes")) == 2
    assert len(contradictions(replace(found, question="How often do attempts fail?"), "Yes")) == 1


# ---------------------------------------------------------------- what was spent, and what that is worth
def nothing_spent(manifest: dict[str, Any]) -> bool:
    """Return whether the manifest records no privacy event with a positive cost and a relation."""
    return not any(event.get("rho", 0) > 0 and event.get("relation") for event in manifest["spent"])


@each_result
def test_what_was_spent_is_on_record(experiment: Experiment, profile: str):
    if experiment.name in PRIVATE.get(experiment.paper, "").split():
        assert not nothing_spent(loaded(experiment, profile).manifest)
        assert nothing_spent({"spent": []}) and nothing_spent({"spent": [{"rho": 0.0, "relation": "replace-one"}]})
    else:
        assert bool(experiment.unaccounted) == bool(experiment.data), "what was not paid for is said"


def claims(result: Result, event: dict[str, Any], place: int) -> Iterator[tuple[str, float, float]]:
    """Yield each epsilon of an event: its name, the value computed now, and the precision of the stored one.

    It is computed from the recorded zCDP and the parameters of the experiment; the noise multiplier of `steps` equal
    releases follows from rho = steps / (2 z^2).
    """
    if "accounted" in event:  # rounded to six digits
        batch, examples = result.spec["batch_size"], result.spec["data"]["train"]
        rate, size = Sampling.poisson(batch / examples), Sampling.fixed_size(batch, examples)
        noise = (event["steps"] / (2 * event["rho"])) ** 0.5
        replaced = event["sampling"] == "fixed-size"  # which moves a sum twice as far as leaving it out
        kinder = Event(noise * (2 if replaced else 1), Relation.ZERO_OUT, rate, event["steps"])
        drawn = Event(noise, Relation.REPLACE_ONE, size, event["steps"]) if replaced else kinder
        yield "accounted", account([drawn], event["delta"]).epsilon, 1e-4
        yield "accounted_poisson", account([kinder], event["delta"]).epsilon, 1e-4
    elif result.experiment.name == "subsampled" and "rho" in event:  # the shape of its schedule, scaled to its rho
        rate = [*dict.fromkeys(result.frame.query("stage == 'main'")["rate"])][place]
        steps = result.spec["num_steps"]
        shape = (uniform(1.0, steps) if rate == 1 else exponential(rate, 1.0, steps)).noise_multipliers
        levels = shape * (sum(0.5 / shape**2) / event["rho"]) ** 0.5
        released = subsampled.released(levels, result.spec["sampling_rate"])
        yield "epsilon", account(released, event["delta"], "RDP").epsilon, 1e-4
    elif "rho" in event and "epsilon" in event:
        yield "epsilon", rho_to_epsilon(event["rho"], event["delta"]), 1e-6


def false_claims(result: Result) -> list[str]:
    """Return stored epsilons that the accountants do not confirm, and those that no check here covers."""
    found = []
    for place, event in enumerate(result.manifest["spent"]):
        judged = list(claims(result, event, place))
        for name, epsilon, precise in judged:
            above = 1e-12 if precise == 1e-6 else precise
            if not -precise * epsilon <= epsilon - event[name] <= above * epsilon:
                found.append(f"{result.experiment.id} {result.spec.profile}: {event}: {name} is {epsilon:.9g}")
        # DP-SGD's noise is in the spec, and tests/papers/drift_escape checks it with the accountant.
        if "epsilon" in event and not judged and not event.get("nominal") and event["mechanism"] != "DP-SGD":
            found.append(f"{result.experiment.id} {result.spec.profile}: {event}: nobody has looked at this epsilon")
    return found


def test_every_stored_epsilon_is_what_its_noise_is_worth():
    results = [loaded(*pair) for pair in PAIRS]
    spent = [event for result in results for event in result.manifest["spent"] if {"epsilon", "accounted"} & {*event}]
    assert len(spent) > 40
    assert not (found := [line for result in results for line in false_claims(result)]), "\n".join(found)


@pytest.mark.parametrize(("experiment", "name", "factor"), [
    ("goldstein.mnist", "epsilon", 1 - 1e-9), ("goldstein.mnist", "epsilon", 1 + 1e-5),
    ("budget_schedules.subsampled", "epsilon", 1 - 1e-3), ("noisy_sgd.convnet_clipped", "accounted", 1 - 1e-3),
    ("noisy_sgd.convnet_clipped", "accounted_poisson", 1 + 1e-3), ("noisy_sgd.convnet_clipped", "rho", 1.01),
])  # fmt: skip
def test_control_an_altered_epsilon_is_caught(experiment: str, name: str, factor: float):
    result = loaded(EXPERIMENTS[experiment], "quick")
    first, *others = result.manifest["spent"]
    assert not false_claims(result)
    changed, unseen = first | {name: first[name] * factor}, {"epsilon": 1.0, "delta": 1e-6, "mechanism": "gaussian"}
    (line, *_) = false_claims(replace(result, manifest={"spent": [changed, *others]}))
    (more,) = false_claims(replace(result, manifest={"spent": [first, *others, unseen]}))
    assert line.startswith(f"{experiment} quick: ") and " is " in line and "nobody has looked" in more


# ---------------------------------------------------------------- it agrees
def disagreements(results: list[Result], seed: str, seconds: float) -> tuple[int, list[str]]:
    """Return the number of cells that were run again, and every difference."""
    outcomes = list[Rerun]()
    with Children() as children:
        for sample in draw(results, seed, seconds):
            with suppress(DataNotFound):  # tests of real data are skipped without them
                outcomes.append(children.run(sample))
    return len(outcomes), [line for outcome in outcomes for line in outcome.differences]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:A worker stopped while some jobs were given")  # it is restarted with less memory
def test_sampled_cells_agree():
    """Run 120 seconds of quick cells with today's code, drawn by the commit; disputed results are not drawn."""
    results = [loaded(*pair) for pair in PAIRS if pair[1] == "quick"]
    cells, found = disagreements(results, (git("rev-parse", "HEAD") or now()[:10]).strip(), 120.0)
    assert cells > 5 and not found, "\n".join(found)


def test_control_a_number_that_is_not_today_s_is_seen(monkeypatch: pytest.MonkeyPatch):
    result = loaded(EXPERIMENTS["drift_escape.audit"], "quick")
    name = next(str(name) for name, column in result.frame.items() if column.dtype.kind == "f")
    altered = replace(result, frame=result.frame.assign(**{name: result.frame[name] * (1 + 1e-6)}))
    monkeypatch.setattr(store, "load", lambda *_: altered)
    monkeypatch.setattr(Children, "run", lambda self, sample: compare(sample))
    cells, found = disagreements([altered], "a", 1.0)
    assert cells and len(found) == cells and all(f"column {name!r}" in line for line in found)


# ---------------------------------------------------------------- lists and files
def test_outstanding_paper_results_and_the_list_of_experiments_are_up_to_date(monkeypatch, tmp_path: Path):
    experiments = list(EXPERIMENTS.values())
    text = outstanding(experiments)
    assert (STORED / "OUTSTANDING.md").read_text() == text, "run: dpnotes status --write"
    assert json.loads((STORED / catalogue.INDEX).read_text()) == catalogue.index_of(experiments), (
        "run: dpnotes status --write"
    )
    assert not [line for line in text.splitlines() if "no reason is" in line], "give the experiment wants="
    bare = outstanding([replace(experiment, wants={}) for experiment in experiments])
    assert all("no reason is" in line for line in bare.splitlines() if "| missing |" in line), "the control"
    monkeypatch.setenv("DPNOTES_RESULTS", str(tmp_path))
    assert len(outstanding(experiments)) > len(text), "control: without the results there are more"


def too_large(folder: Path) -> list[str]:
    """Return files that are too large to be stored with the code."""
    return [path.name for path in folder.rglob("*") if path.is_file() and path.stat().st_size > MAX_RESULT_BYTES]


def test_the_files_are_small_and_belong_to_an_experiment(tmp_path: Path):
    assert not too_large(STORED)
    names = {f"{experiment.id}.{profile}" for experiment in EXPERIMENTS.values() for profile in experiment.specs}
    known = {f"{name}{end}" for name in names for end in (".npz", ".manifest.json")}
    others = {"OUTSTANDING.md", "PENDING.md", "experiments.json", "fingerprints.json.gz", "parts"}
    assert {path.name for path in STORED.iterdir()} <= known | others
    assert {path.name.rpartition(".")[0].rpartition(".")[0] for path in (STORED / "parts").glob("*")} <= names
    assert {" ".join(pair) for pair in pending()} <= {name[::-1].replace(".", " ", 1)[::-1] for name in names}
    (tmp_path / "large.npz").write_bytes(bytes(MAX_RESULT_BYTES + 1))
    assert too_large(tmp_path) == ["large.npz"], "the control"
