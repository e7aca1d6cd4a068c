"""Stored results against today's code: the choice of repeated cells, allowed differences, and records."""

import os
import random
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import call
from toy_package import Toy, silent

from dpnotes.cli import catalogue
from dpnotes.experiments import Experiment, agreement, keep, provenance, runner, store, verify
from dpnotes.experiments.agreement import Children, Rerun, Sample, cells_in, compare, in_order, samples_of
from dpnotes.util import files
from tests.attack import samples

ROW = "| toy.mean quick | new draws | other numbers | a minute |"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run cells again in this process, which starts faster."""
    monkeypatch.setattr(Children, "run", lambda self, sample, device="auto": compare(sample, device))


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to be another processor from now on."""
    other = {**provenance.environment("cpu"), "name": "another processor"}
    monkeypatch.setattr(agreement, "environment", lambda device: other)


def one_cell(toy: Toy, number: int = 1) -> Rerun:
    return compare(Sample(toy.experiment, "quick", number), "cpu")


def verified(toy: Toy, **settings: Any) -> tuple[agreement.Agreement, list[str]]:
    lines = list[str]()
    (found,) = verify([(toy.experiment, "quick")], device="cpu", report=lines.append, **settings)
    return found, lines


# ---------------------------------------------------------------- what may differ
def test_on_the_machine_of_the_result_one_bit_is_a_difference_named_by_cell_column_and_row(toy: Toy):
    stored = toy.run().frame["value"].to_numpy()[5:10]
    outcome = one_cell(toy)
    assert (outcome.differences, outcome.largest, outcome.skipped) == ((), 0.0, ()), "the control"
    toy.edit("experiment", '"value": value,', '"value": np.where(value == value[3], np.nextafter(value, 9), value),')
    (line,) = one_cell(toy).differences
    assert line.startswith("toy.mean quick cell 1 {'stage': 'tune', 'index': 1}, column 'value', row 3: stored ")
    assert f"{stored[3]!r}, now {np.nextafter(stored[3], 9)!r}" in line


@pytest.mark.parametrize(("after", "differs"), [("0.125 + 1e-12", False), ("0.126", True), ("0.125, runs=1", True)])
def test_a_privacy_event_that_is_not_on_record_is_a_difference(toy: Toy, elsewhere: None, after: str, differs: bool):
    toy.run()
    assert one_cell(toy).differences == (), "the control"
    toy.edit("experiment", "rho=0.125", f"rho={after}")
    said = [line for line in one_cell(toy).differences if "the stored privacy events do not include {'mech" in line]
    assert len(said) == differs


# For each result of the toy: its column that differs on another processor, and the distance.
ELSEWHERE = [
    ('"value": value,', '"value": value * (1 + 9e-7),', "", 9e-7),
    ('"value": value,', '"value": value * (1 + 2e-6),', "column 'value', row 0", 0.0),
    ('"value": value,', '"value": np.where(value == value[1], np.nan, value),', "column 'value', row 1", 0.0),
    ('"value": value,', '"value": value, "more": 1,', "stored columns", 0.0),
    ('"index": index, "v', '"index": index * (1 + 1e-9), "v', "column 'index'", 0.0),
    ('"index": index, "v', '"index": index + 1, "v', "column 'index', row 0", 0.0),
    ('"stage": cell["stage"], "i', '"stage": "Tune", "i', "column 'stage'", 0.0),
    ("value > 0", "value < 0", "column 'above'", 0.0),
    ('spec["num_runs"], b', 'spec["num_runs"] + 1, b', "stored 5 rows, now 6", 0.0),
    ("value / 3", "value / 7", "", 0.0),
]


@pytest.mark.parametrize(("before", "after", "said", "largest"), ELSEWHERE)
def test_on_another_processor_only_floats_may_differ(toy: Toy, elsewhere, before, after, said: str, largest: float):
    toy.run()
    toy.edit("experiment", before, after)
    outcome = one_cell(toy)
    assert len(outcome.differences) == bool(said) and all(said in line for line in outcome.differences)
    assert outcome.largest == pytest.approx(largest)
    assert outcome.skipped == (("rough",) if "7" in after and not said and not largest else ())
    for tolerance, differs in ((1e-7, True), (None, bool(said) and "value" not in said)):  # tolerances are for floats
        experiment = replace(toy.experiment, tolerances={"*": tolerance})
        assert bool(compare(Sample(experiment, "quick", 1), "cpu").differences) == differs


def test_a_machine_is_its_device_threads_and_versions_but_this_package_s_own():
    here = provenance.environment("cpu")
    assert provenance.same_machine(here, {**here, "count": 3, "versions": {**here["versions"], "dpnotes": "9"}})
    for other in ({"threads": 9}, {"name": "EPYC"}, {"versions": {**here["versions"], "torch": "1"}}, {"driver": "5"}):
        assert not provenance.same_machine(here, {**here, **other})


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/cpuinfo")
def test_processors_of_one_name_are_told_apart(monkeypatch: pytest.MonkeyPatch):
    cpuinfo = "model name\t: EPYC\ncpu family\t: 25\nmodel\t\t: {model}\n"
    names = set()
    for model, instructions in ((1, "AVX2"), (1, "AVX512"), (17, "AVX512")):
        monkeypatch.setattr(Path, "read_text", lambda path, model=model: cpuinfo.format(model=model))
        monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda instructions=instructions: instructions)
        names.add(provenance._processor())
    assert len(names) == 3 and "EPYC (family 25, model 17), AVX512" in names


def test_a_child_has_the_instructions_and_threads_of_the_result(toy: Toy, monkeypatch: pytest.MonkeyPatch):
    (stored,), body = toy.run().manifest["environments"], files.unsealed_json(toy.manifest())
    monkeypatch.setattr(agreement, "compare", sys.modules["toys.experiment"].told)  # type: ignore[attr-defined]
    monkeypatch.setattr(agreement, "environment", lambda device: {**stored, "name": "EPYC, AVX512"})
    with Children() as children:
        for name, threads in (("EPYC, AVX2", 3), ("EPYC, AVX512", 1)):
            body["environments"] = [{**stored, "name": name, "threads": threads}]
            files.write({toy.manifest(): files.sealed_json(body)})
            pid, variables = children.run(Sample(toy.experiment, "quick", 0))  # type: ignore[misc]
            assert pid != os.getpid() and variables["OMP_NUM_THREADS"] == str(threads)
            assert ("ATEN_CPU_CAPABILITY" in variables) == ("AVX2" in name)
        again, _ = children.run(Sample(toy.experiment, "quick", 1))  # type: ignore[misc]
        assert again == pid, "one child for one set of variables"
    assert "ATEN_CPU_CAPABILITY" not in os.environ


# ---------------------------------------------------------------- which cells
def test_every_level_of_every_factor_is_among_the_first_and_the_seed_chooses_the_cells():
    cells = [{"arm": arm, "repeat": repeat} for arm in range(3) for repeat in range(9)]
    chosen = [in_order(cells, random.Random(seed)) for seed in ("a", "a", "b")]
    assert chosen[0] == chosen[1] != chosen[2]
    for some, others in chosen:
        assert sorted(some + others) == list(range(27)) and len(some) == 9
        assert {cells[number]["arm"] for number in some} == {0, 1, 2}
    shares = [{"arm": arm, "repeats": [arm, share]} for arm in range(3) for share in range(9)]
    assert len(in_order(shares, random.Random("a"))[0]) == 3, "how the repeats are shared out is no factor"


def test_cells_of_later_stages_are_listed_from_the_stored_rows_and_another_number_is_refused(toy: Toy):
    result = toy.run()
    assert [len(cells) for cells in cells_in(result)] == [4, 1] and one_cell(toy, 4).differences == ()
    some, others = samples_of(result, "seed")
    assert {sample.number for sample in some} == {0, 1, 2, 3, 4} and not others
    two = replace(result, experiment=replace(toy.experiment, cells=lambda spec: [{"index": 0}, {"index": 1}]))
    with pytest.raises(ValueError, match="Expected toy.mean to list the 5 stored cells, not 3"):
        cells_in(two)


def test_a_draw_takes_of_each_result_in_turn_for_so_many_seconds_and_none_that_is_too_long(toy: Toy):
    one = toy.run()
    results = list[store.Result]()
    for name, each in (("fast", [1.0] * 5), ("slow", [10.0] * 4 + [40.0]), ("disputed", [1.0] * 5)):
        state, manifest = "disputed" if name == "disputed" else "stored", one.manifest | {"cell_seconds_each": each}
        results.append(replace(one, experiment=toy.named(name), manifest=manifest, state=state))

    def drawn(seed: str, seconds: float, **how: float) -> list[tuple[str, int]]:
        return [(sample.experiment.name, sample.number) for sample in samples.draw(results, seed, seconds, **how)]

    assert drawn("a", 24.0) == drawn("a", 24.0) != drawn("b", 24.0)
    for seed in "abc":
        names = [name for name, _ in drawn(seed, 24.0)]
        assert (names.count("fast"), names.count("slow")) == (4, 2) and len({*names[:2]}) == 2
        assert ("slow", 4) not in drawn(seed, 1000.0) and len(drawn(seed, 1000.0)) == 9
        assert ("slow", 4) in drawn(seed, 1000.0, longest=50.0), "the control"
    again = {"cells": [agreement.name_of(cells_in(results[1])[1][0])], "seconds": [3.0]}
    faster = replace(results[1], manifest=results[1].manifest | {"agreed": [again]})
    assert 4 in [each.number for each in samples.draw([faster], "a", 1000.0)], (
        "as long as it took when it was last run again"
    )
    old = replace(results[0], manifest={**one.manifest, "cell_seconds": 500.0, "cell_seconds_each": None})
    assert not samples.draw([old], "a", 1000.0), "of results that did not keep it the mean counts, here 100 s"


def test_a_planted_difference_is_red_in_every_draw_that_holds_its_cell_and_in_no_other(toy: Toy):
    toy.run()
    toy.edit("experiment", '"above": value > 0', '"above": (value > 0) ^ (index == 2)')
    result = store.load(toy.experiment, "quick")
    each = replace(result, manifest=result.manifest | {"cell_seconds_each": [1.0] * 5})
    red = set[tuple[bool, bool]]()
    for seed in map(str, range(20)):
        drawn = samples.draw([each], seed, 2.0)
        differences = [line for sample in drawn for line in compare(sample, "cpu").differences]
        red.add((2 in [sample.number for sample in drawn], bool(differences)))
    assert red == {(True, True), (False, False)}


# ---------------------------------------------------------------- dpnotes verify
def test_agreement_is_put_on_record_and_earlier_records_stay(toy: Toy, here: None, monkeypatch: pytest.MonkeyPatch):
    before = toy.run()
    columns, commits, (found, lines) = toy.stored(), list[str | None](), verified(toy)
    assert str(found) == lines[-1] == "toy.mean quick: 5 of 5 cells agree"
    assert store.load(toy.experiment, "quick").manifest["agreed"] == [], "control: without --write nothing is written"
    for _ in range(2):
        commits.append(toy.commit())
        verified(toy, write=True)
    after = store.load(toy.experiment, "quick")
    first, second = after.manifest["agreed"]
    assert [first["git_commit"], second["git_commit"]] == commits and first["environment"]["device"] == "cpu"
    assert len(first["cells"]) == len(first["seconds"]) == 5 and (first["largest"], first["skipped"]) == (0.0, [])
    assert after.agreed == f"last agreed at {str(commits[1])[:12]}: 5 of 5 cells; the code is the same"
    assert toy.stored() == columns
    changed = {name for name, value in after.manifest.items() if value != before.manifest[name]}
    assert changed == {"agreed"}, "and neither the decision nor the rule"
    monkeypatch.setattr(store, "source_hash", lambda: "0" * 64)
    assert store.load(toy.experiment, "quick").agreed.endswith("; code changed since")


def test_rounding_of_another_processor_is_on_record(toy: Toy, here: None, elsewhere: None):
    toy.run()
    toy.edit("experiment", '"value": value, "rough": value / 3', '"value": value * (1 + 3e-7), "rough": value / 7')
    _, lines = verified(toy, write=True)
    assert "  not comparable on this processor: rough" in lines
    result = store.load(toy.experiment, "quick")
    assert result.manifest["agreed"][0]["skipped"] == ["rough"] and "5 of 5 cells, to within 3e-07" in result.agreed


def test_the_longest_unverified_come_first_and_time_is_kept(toy: Toy, here: None, monkeypatch: pytest.MonkeyPatch):
    since, clock, pairs = {"a": 2, "b": None, "c": 7}, [0.0], list[tuple[Experiment, str]]()
    for name, seconds in (("a", 25.0), ("b", 25.0), ("c", 5.0)):
        pairs.append((toy.named(name), "quick"))
        runner.run(*pairs[-1], device="cpu", report=silent)
        path = toy.results / f"toy.{name}.quick.manifest.json"
        changes = {"git_commit": name, "cell_seconds_each": [25.0] * 4 + [seconds]}
        files.write({path: files.sealed_json(files.unsealed_json(path) | changes)})
    monkeypatch.setattr(store, "commits_since", lambda commit: since[commit])
    found = verify([*pairs, (toy.experiment, "paper")], device="cpu", report=silent)
    assert [each.result.experiment.name for each in found] == ["b", "c", "a"], "unknown, then the most commits"

    def run(self: Children, sample: Sample, device: str) -> Rerun:
        clock[0] += 25.0
        return compare(sample, device)

    monkeypatch.setattr(Children, "run", run)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    found = verify(pairs, minutes=1.0, write=True, device="cpu", report=silent)
    assert {each.result.experiment.name: each.cells for each in found if each.cells} == {"b": 2, "c": 1}
    assert [len(store.load(*pair).manifest["agreed"]) for pair in pairs] == [0, 1, 1]
    with pytest.raises(ValueError, match="Expected minutes=0"):
        verify([], minutes=0)


# ---------------------------------------------------------------- what is changed on purpose
def test_a_planted_difference_is_red_unless_pending_names_it(toy: Toy, here: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(catalogue, "all_experiments", lambda: [toy.experiment])

    def said(code: int) -> str:
        return call("verify", "toy.mean", "--write", code=code).output

    toy.run()
    assert "1 result: 1 agree" in said(0)
    toy.edit("helper", "2.0 * values", "2.0 * values + 1e-12")
    text = said(1)
    assert "  differs: toy.mean quick cell " in text and "column 'value', row 0: stored " in text
    assert "toy.mean quick: different" in text and "1 result: 1 different" in text
    toy.pending(ROW)
    result = store.load(toy.experiment, "quick")
    assert (result.state, result.is_shown) == ("disputed", True) and not result.frame.empty
    assert all(words in result.reason for words in ("new draws", "other numbers", "a minute"))
    assert store.stamp(result) == f"DISPUTED: {result.reason}"
    assert "toy.mean quick: disputed" in said(0)
    assert len(store.load(toy.experiment, "quick").manifest["agreed"]) == 1, "what differs is not put on record"
    toy.pending(ROW.replace("quick", "paper"))
    assert "toy.mean quick: different" in said(1), "control: the row of another result"


@pytest.mark.parametrize("beside", [False, True], ids=["in the cache", "beside the results"])
def test_a_disputed_result_is_run_again_without_the_cells_of_before_the_change(toy: Toy, beside: bool):
    before, (old,) = toy.run().frame, toy.cells()
    toy.pending("A line of words.", ROW, "| toy.mean paper | new draws | other numbers | a minute |")
    toy.edit("helper", "2.0", "3.0")
    toy.some(0, 3)
    if beside:
        assert keep(toy.experiment, "quick") == 2, "and not the five of before"
        store.clean()
    lines = list[str]()
    after = toy.run(report=lines.append)
    assert "2 of 4 cells were finished before" in lines[0] and toy.computed()[:2] == ["1", "2"]
    assert after.state == "stored" and np.allclose(after.frame["value"], 1.5 * before["value"])
    text = (toy.results / "PENDING.md").read_text()
    assert "toy.mean quick" not in text and "| toy.mean paper |" in text and "A line of words." in text
    assert "pending" not in after.manifest and not toy.parts() and not old.exists()


@pytest.mark.parametrize("row", [ROW.replace("other numbers", ""), ROW.replace(" quick", ""), ROW[:-11], f"{ROW} b |"])
def test_a_malformed_row_is_refused_and_named(toy: Toy, row: str):
    toy.pending(ROW)
    assert store.pending() == {("toy.mean", "quick"): store.Pending("new draws", "other numbers", "a minute")}
    toy.pending(row)
    with pytest.raises(ValueError, match=r"Expected \['toy.mean.*PENDING.md to be: paper.experiment profile, changed"):
        store.pending()
