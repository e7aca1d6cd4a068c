"""From a spec to a stored result and back: identification, resumption, faults."""

import errno
import importlib
import json
import os
import zipfile
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from pretend_device import PretendCuda
from toy_package import REPOSITORY, Toy, silent

from dpnotes.experiments import Cost, cells, chunks, decide_again, provenance, run, runner, store
from dpnotes.experiments.spec import Context, Decision, Experiment, Spec
from dpnotes.util import files


def run_of(experiment: Experiment, **settings) -> store.Result:
    return run(experiment, "quick", **{"device": "cpu", "report": silent, **settings})


def count_kept(toy: Toy) -> int:
    return len(cells.Cells(toy.experiment, "quick").finished())


# ---------------------------------------------------------------- a result
def test_run_store_load(toy: Toy):
    result = toy.run()
    assert toy.computed()[:4] == ["0", "1", "2", "3"] and len(toy.computed()) == 5
    assert result.state == "stored" and result.is_shown and result.reason == "" and store.stamp(result) is None
    assert list(result.frame.columns) == ["stage", "index", "value", "rough", "above"] and len(result.frame) == 25
    values = np.asarray(result.frame["value"])[:20].reshape(4, 5)
    best = int(values.mean(axis=1).argmax())
    assert set(result.frame.loc[result.frame["stage"] == "main", "index"]) == {best + 100}
    assert values[1, 2] == 2.0 * np.random.default_rng([7, 1, 2]).normal()
    mean = result.frame.loc[result.frame["stage"] == "main", "value"].mean()
    assert str(result.decision) == f"{'reproduced' if mean > 0 else 'not reproduced'}: mean {mean:.3f}"


def test_the_manifest_says_how_it_came_about(toy: Toy):
    manifest, experiment = toy.run().manifest, toy.experiment
    assert manifest["spec"] == json.loads(experiment.specs["quick"].json) and manifest["seed"] == 7
    assert manifest["identity"] == experiment.identity("quick") and manifest["data"] == ["numbers sha256:01"]
    assert manifest["rule"] == experiment.rule_record("quick") and manifest["agreed"] == []
    assert manifest["chunking"] == [{"num_runs": 5, "chunk_size": 5, "halvings": 0, "count": 5}]
    assert manifest["spent"] == [{"mechanism": "gaussian", "rho": 0.125, "count": 5}]
    (environment,) = manifest["environments"]
    assert environment["device"] == "cpu" and environment["name"] and environment["threads"] >= 1
    assert {"python", "torch", "numpy", "scipy", "dp-accounting", "dpnotes"} <= set(environment["versions"])
    assert manifest["cells"] == 5 and manifest["cell_rows"] == [5] * 5 and manifest["jobs"] == 1
    assert manifest["wall_seconds"] >= manifest["cell_seconds"] == pytest.approx(sum(manifest["cell_seconds_each"]))


def test_a_stored_result_is_not_computed_again_unless_asked(toy: Toy, monkeypatch: pytest.MonkeyPatch):
    toy.run()
    first, lines = toy.stored(), list[str]()
    toy.run(report=lines.append)
    assert len(toy.computed()) == 5 and "toy.mean quick: stored, computed at" in lines[0]
    monkeypatch.setattr(chunks, "cpu_cache_bytes", lambda: 2000)
    assert toy.run(resume=False).manifest["chunking"][0]["chunk_size"] == 2
    assert len(toy.computed()) == 10 and toy.stored() == first, "whatever the chunks"
    run_of(toy.changed(seed=8))
    assert toy.stored() != first, "control of all comparisons of bytes: another seed"


@pytest.mark.slow
def test_two_jobs_give_the_bytes_of_one(toy: Toy):
    toy.run()
    alone = toy.stored()
    assert toy.run(jobs=2, resume=False).manifest["jobs"] == 2
    assert len(toy.computed()) == 10 and toy.stored() == alone


def test_the_example_of_the_documentation_runs(toy: Toy):
    page = (REPOSITORY / "docs" / "experiments.md").read_text()
    (toy.folder / "toys" / "documented.py").write_text(page.split("```python\n")[1].split("```")[0])
    result = run_of(importlib.import_module("toys.documented").EXPERIMENT)
    assert result.state == "stored" and result.decision.verdict == "reproduced" and len(result.frame) == 400


# ---------------------------------------------------------------- the code and the rule
@pytest.fixture
def package(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """The toy, committed, in place of this package: its source is hashed, and its commits are counted."""
    toy.commit()
    here = SimpleNamespace(__file__=str(toy.folder / "toys" / "__init__.py"), __version__="0")
    monkeypatch.setattr(provenance, "dpnotes", here)
    monkeypatch.setattr(provenance, "source_hash", provenance.source_hash.__wrapped__)
    monkeypatch.setattr(store, "source_hash", provenance.source_hash)
    return toy


EDITS = {
    "a function was renamed": lambda toy: [toy.edit(each, "scaled", "doubled") for each in ("helper", "experiment")],
    "a module was moved": lambda toy: (
        (toy.folder / "toys/helper.py").rename(toy.folder / "toys/scaling.py"),
        toy.edit("experiment", "toys.helper", "toys.scaling"),
    ),
    "the rule was reworded": lambda toy: toy.edit("experiment", "is above 0", "exceeds 0"),
    "what the rule reads": lambda toy: toy.edit("experiment", '"limit": 0', '"limit": 99'),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_no_edit_of_code_or_rule_changes_a_state(package: Toy, edit):
    before = package.run()
    assert before.agreed == "never run again" and before.computed
    edit(package)
    after = store.load(package.experiment, "quick")
    assert (after.state, after.decision) == ("stored", before.decision) and after.frame.equals(before.frame)
    assert after.agreed == "never run again, code changed since"
    assert package.run().state == "stored" and len(package.computed()) == 5, "nothing is computed again"
    package.edit("experiment", '"num_runs": 5', '"num_runs": 6')
    control = store.load(package.experiment, "quick")
    assert control.state == "mismatched" and not control.is_shown and control.frame.empty
    assert "of other parameters or data: num_runs; compute it again: dpnotes run toy.mean" in control.reason
    assert control.decision.verdict == "not run" and (store.stamp(control) or "").startswith("MISMATCHED: ")
    assert len(package.run().frame) == 30


def test_other_data_make_it_mismatched_and_so_does_an_earlier_version(toy: Toy):
    toy.run()
    other = store.load(replace(toy.experiment, data=("numbers sha256:02",)), "quick")
    assert other.reason.startswith("of other parameters or data: data; compute it again")
    files.write({toy.manifest(): files.sealed_json(files.unsealed_json(toy.manifest()) | {"format": 2})})
    result = store.load(toy.experiment, "quick")
    assert result.state == "mismatched" and "stored by an earlier version of dpnotes" in result.reason


def test_a_changed_rule_is_decided_again_and_the_earlier_decision_stays(toy: Toy):
    before, columns = toy.run(), toy.stored()
    assert decide_again(toy.experiment, "quick") == "", "control: nothing has changed"
    toy.edit("experiment", '"limit": 0', '"limit": 99')
    said = decide_again(replace(toy.experiment, rule_version=2), "quick")
    assert said.startswith("toy.mean quick: ") and "-> not reproduced" in said and "(rule version 2)" in said
    after = store.load(toy.experiment, "quick")
    assert after.decision.verdict == "not reproduced" and after.manifest["rule"]["version"] == 2
    (earlier,) = after.manifest["decided_before"]
    assert earlier["decision"] == asdict(before.decision) and earlier["rule"] == before.manifest["rule"]
    assert toy.stored() == columns and len(toy.computed()) == 5


@pytest.mark.parametrize("name", ["limit", "decision_rule"])
def test_a_cell_and_a_stage_cannot_read_what_only_the_rule_reads(toy: Toy, name: str):
    reading = {"run_cell": lambda spec, *_: spec[name], "stages": (lambda spec, frame: spec[name],)}
    for part, function in (reading | {"cells": lambda spec: spec[name]}).items():
        with pytest.raises(KeyError, match=name):
            run_of(replace(toy.experiment, **{part: function}))


def test_the_code_of_a_result_is_the_commit_before_the_work_and_whether_the_tree_was_dirty(package: Toy):
    def run_cell(*given):
        package.git("commit", "-q", "--allow-empty", "-m", "another, while cells are computed")
        return package.experiment.run_cell(*given)

    head, run_cell.__module__ = package.commit(), "toys.experiment"
    manifest = run_of(replace(package.experiment, run_cell=run_cell)).manifest
    assert (manifest["git_commit"], manifest["git_dirty"]) == (head, False) and len(manifest["codes"]) == 1
    package.edit("helper", "# A comment.", "# Not committed.")
    code = provenance.code_of(package.experiment)
    assert code["git_dirty"] and code["git_commit"] != head and code["source"] != manifest["source"]
    assert package.run(resume=False).computed.endswith(", with uncommitted changes")


def test_without_git_a_result_is_stored_and_shown_all_the_same(package: Toy, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(provenance, "output", lambda *command: None)
    result = package.run()
    assert (result.state, result.computed, result.unverified) == ("stored", "computed at an unknown commit", None)
    assert (result.manifest["git_commit"], result.manifest["git_dirty"]) == (None, None)
    assert package.standing().reason == "computed at an unknown commit; never run again"


def test_a_shallow_clone_knows_its_results(package: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package.run()
    for expected in (1, 2):
        package.commit()
        assert store.load(package.experiment, "quick").unverified == expected
    shallow = package.clone(tmp_path / "shallow", "--depth", "1").enter(monkeypatch)
    monkeypatch.setattr(provenance.dpnotes, "__file__", str(shallow.folder / "toys" / "__init__.py"))
    result = store.load(shallow.experiment, "quick")
    assert (result.state, result.unverified, result.agreed) == ("stored", None, "never run again")


# ---------------------------------------------------------------- status, outstanding
def test_status_of_every_state(toy: Toy):
    how = "dpnotes run toy.mean --profile quick"
    missing = store.load(toy.experiment, "quick")
    assert missing.state == "missing" and not missing.is_shown and missing.frame.empty
    assert store.stamp(missing) == f"MISSING: {how}" and missing.decision == Decision("not run", how)
    assert toy.standing().state == "missing" and toy.standing().reason.endswith(how)
    toy.run()
    assert toy.standing().state == "stored" and toy.standing().reason.startswith("computed at ")
    toy.pending("| toy.mean quick | new draws | other numbers | a minute |")
    assert toy.standing().state == "disputed" and "never run again" in toy.standing().reason
    assert all(words in toy.standing().reason for words in ("new draws", "other numbers", "a minute", "computed at"))
    os.truncate(toy.results / "toy.mean.quick.npz", 100)
    toy.pending()
    assert toy.standing().state == "partial" and "5 of 5 cells finished; damaged: Expected" in toy.standing().reason
    assert store.clean(toy.experiment, "paper") == 0 < store.clean(toy.experiment, "quick") and not toy.cells()
    assert toy.standing().state == "damaged", "results are not removed"
    toy.run()
    toy.edit("experiment", '"seed": 7', '"seed": 8')
    assert toy.standing().state == "mismatched" and "of other parameters or data: seed" in toy.standing().reason


def test_outstanding_and_wanted_have_the_greatest_value_per_minute_first(toy: Toy):
    def costing(name: str, **cost) -> Experiment:
        wants = {"paper": Cost(**{"why": "a GPU", "hours": 3, "gigabytes": 1, "basis": "a guess", **cost})}
        return toy.named(name, cpu_only=name == "here", wants=wants)

    many = [costing("dear", minutes=2.0), costing("cheap", minutes=1.0), costing("here", minutes=0.1)]
    many += [costing("slow", why="hours"), costing("weights", why="missing weights", missing="BERT", minutes=0.1)]
    rows = [row for row in store.outstanding(many).splitlines() if row.startswith("| toy.")]
    assert [row.split()[1][4:] for row in rows] == ["here", "cheap", "dear", "slow", "weights"]
    assert "| missing | hours: 3 on two cores (a guess) | `dpnotes run toy.slow --profile paper` |" in rows[3]
    assert [one.name for one in store.wanted(many, "paper", on_gpu=True)] == ["cheap", "dear"]
    assert [one.name for one in store.wanted(many, "paper", on_gpu=False)] == ["slow"]
    assert "| missing | no reason is stated |" in store.outstanding([toy.experiment])
    toy.run("paper")
    for prepare, said in (
        (lambda: None, "\n\nNone.\n"),
        (lambda: toy.pending("| toy.mean paper | new draws | other numbers | a minute |"), "| disputed: "),
        (lambda: os.truncate(toy.results / "toy.mean.paper.npz", 100), "| damaged |"),
    ):
        prepare()
        assert said in store.outstanding([toy.experiment])
        assert bool(store.wanted([toy.experiment], "paper", on_gpu=True)) == ("None" not in said)


# ---------------------------------------------------------------- interruptions
def test_killed_and_resumed_gives_the_same_bytes(toy: Toy):
    toy.killed(2)
    assert not list(toy.results.glob("*"))
    assert toy.standing().reason.startswith("2 of 4 or more cells finished; missing: no result")
    toy.computed(clear=True)
    lines = list[str]()
    resumed = toy.run(report=lines.append)
    assert lines[0] == "toy.mean quick: 2 of 4 cells were finished before"
    assert toy.computed()[:2] == ["2", "3"] and len(toy.computed()) == 3, "finished cells are kept"
    interrupted = toy.stored()
    uninterrupted = toy.run(resume=False)
    assert toy.stored() == interrupted
    times = {"finished_at", "cell_seconds", "cell_seconds_each", "wall_seconds"}
    assert {name for name in resumed.manifest if resumed.manifest[name] != uninterrupted.manifest[name]} <= times


def test_a_resumed_run_takes_the_plan_in_the_header(toy: Toy, monkeypatch: pytest.MonkeyPatch):
    def stopping(spec: Spec, cell: dict, context: Context):
        plans.append(context.memory_bytes)
        if len(plans) == 2:
            raise ZeroDivisionError("nothing to divide by")
        return run_cell(spec, cell, context)

    plans, run_cell, free, stopping.__module__ = list[int](), toy.experiment.run_cell, [8], "toys.experiment"
    experiment = replace(toy.experiment, run_cell=stopping)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=free[0] * 10**9))
    with pytest.raises(ZeroDivisionError) as caught:
        run_of(experiment)
    assert caught.value.__notes__ == ['in cell {"index":1,"stage":"tune"} of toy.mean'] and toy.computed() == ["0"]
    free[0], lines = 9, list[str]()
    monkeypatch.setattr(provenance, "source_hash", lambda: "0" * 64)
    result = run_of(experiment, report=lines.append)
    assert plans == [64 * 10**8] * 6, "not what is free now, which is more"
    assert "by other code; --no-resume starts afresh)" in lines[0] and len(result.manifest["codes"]) == 2
    for free[0], limit, expected in ((9, 10**12, 72 * 10**8), (6, None, 48 * 10**8)):  # another question; no room
        found = runner.plan_memory(cells.Cells(experiment, "quick"), "cpu", limit, jobs=1)
        assert found["memory_bytes"] == expected


# ---------------------------------------------------------------- a full disk, damaged results
@pytest.mark.parametrize("writes", [0, 1, 2, 5])
def test_a_full_disk_loses_nothing(toy: Toy, monkeypatch: pytest.MonkeyPatch, writes: int):
    """The disk is full at a cell, at a later cell, at a cell of the second stage, or at the result."""

    def filling(descriptor: int) -> None:
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fails(**settings) -> str:
        with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left while writing") as caught:
            patch.setattr(os, "fsync", filling)
            toy.run(**settings)
        assert caught.value.errno == errno.ENOSPC and str(toy.folder) in caught.value.filename
        assert not list(toy.folder.rglob("*.tmp"))
        return str(caught.value)

    room = [writes]
    said = fails()
    assert f"{writes or 'No'} " in said and "goes on from there: dpnotes run toy.mean" in said
    assert count_kept(toy) == writes and not list(toy.results.glob("*"))
    assert all(path.read_bytes().endswith(b"\n") for path in toy.cells())
    toy.computed(clear=True)
    assert toy.run().state == "stored" and len(toy.computed()) == 5 - writes
    before, room[0] = toy.stored(), writes
    fails(resume=False)
    assert toy.stored() == before and store.load(toy.experiment, "quick").state == "stored", "the result stays"


@pytest.mark.parametrize("variable", ["DPNOTES_RESULTS", "DPNOTES_CACHE", "DPNOTES_CELLS"])
def test_folders_that_cannot_be_written_into_are_refused_before_the_first_cell(toy: Toy, monkeypatch, variable: str):
    toy.run()
    for place in ("/proc/none", str(toy.folder / "log")):
        with monkeypatch.context() as patch:
            patch.setenv(variable, place)
            with pytest.raises(ValueError, match=f"Expected {variable}='{place}' to name a folder that can be written"):
                toy.run(resume=False)
            assert variable != "DPNOTES_CACHE" or toy.run().state == "stored", "what is stored is only read"
        assert len(toy.computed()) == 5 == count_kept(toy), "what was there is not cleared"


DAMAGES = {
    "a bit": lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
    "a cut": lambda content: content[:50],
    "a list": lambda content: b"[]",
    "of something else": lambda content: files.sealed_json({"experiment": "toy.median"}),
    "a loss": lambda content: None,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("suffix", ["npz", "manifest.json"])
def test_a_damaged_result_is_named_and_made_again_from_its_cells(toy: Toy, suffix: str, damage):
    toy.run("paper")
    before, path, lines = toy.stored("paper"), toy.results / f"toy.mean.paper.{suffix}", list[str]()
    content = damage(path.read_bytes())
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(store.DamagedFileError, match="compute it again: dpnotes run toy.mean --pro") as caught:
        store.load(toy.experiment, "paper")
    assert str(caught.value).startswith(f"Expected {path} ") and "\n" not in str(caught.value)
    assert "damaged" in toy.standing("paper").reason and str(path) in toy.standing("paper").reason
    toy.run("paper", report=lines.append)
    assert str(path) in lines[0] and "It is made again." in lines[0]
    assert toy.stored("paper") == before and len(toy.computed()) == 5, "no cell was computed twice"


# ---------------------------------------------------------------- bad input
def test_bad_settings_are_named_even_where_nothing_is_to_be_done_and_clear_nothing(toy: Toy):
    toy.run()
    for setting, value in {"profile": "huge", "device": "tpu", "jobs": 0, "memory": "lots"}.items():
        for resume in (True, False):
            with pytest.raises(ValueError, match=f"Expected {setting}={value!r} (to be one of: |>= 1|to be a size)"):
                toy.run(**{setting: value, "resume": resume})
    assert count_kept(toy) == 5 == len(toy.computed())
    with pytest.raises(MemoryError, match="Expected memory=1 MB > .* what 1 process"):
        toy.run("paper", memory="1MB")


def test_an_experiment_of_the_cpu_gets_no_gpu_and_its_manifest_says_so(toy: Toy):
    def device_of(experiment: Experiment, device: str) -> str:
        result = run_of(experiment, device=device, resume=False, report=lines.append)
        return result.manifest["environments"][0]["device"]

    lines, alone = list[str](), replace(toy.experiment, cpu_only=True)
    with PretendCuda():
        assert [device_of(alone, device) for device in ("auto", "cpu", "cuda")] == ["cpu"] * 3
        assert device_of(toy.experiment, "auto") == "cuda", "the control"
    provenance.environment.cache_clear()
    assert lines.count("toy.mean runs on the CPU: its cells have no use for a GPU.") == 1


@pytest.mark.slow
def test_too_large_a_result_is_refused_after_the_first_cells_that_show_it(toy: Toy):
    for cells_run, sizes in ((4, {"num_runs": 20_000, "num_cells": 40}), (5, {"num_runs": 16_000})):
        with pytest.raises(ValueError, match=r"Expected toy.mean.*npz of 1.* <= 1 MB: let the cells"):
            run_of(toy.changed(**sizes))
        assert len(toy.computed(clear=True)) == cells_run and not list(toy.results.glob("*"))
    run_of(toy.changed(num_runs=1_000, num_cells=40))  # the control


def test_columns_and_cells_that_are_none_are_refused(toy: Toy):
    for columns, message in (
        ({"a": [1, 2], "b": [1]}, "columns of equal length"), ({}, "columns of equal length"),
        ({"a": [[1, 2]]}, "column 'a' to have one axis"), ({"a": [None]}, "'a' to hold bool, int, float or str"),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=message):
            store.as_columns(columns)
    with pytest.raises(ValueError, match="Expected column 'a' to be of one kind in all cells, got number, text"):
        store.concatenate([{"a": np.array([1])}, {"a": np.array(["x"])}])
    for listed in ([{"index": 1}, {"index": 1}], []):
        with pytest.raises(ValueError, match="Expected toy.mean to list at least one cell, and none twice"):
            run_of(replace(toy.experiment, cells=lambda spec, listed=listed: listed))


def test_a_cell_cannot_change_the_spec_of_another(toy: Toy):
    def run_cell(spec: Spec, cell: dict, context: Context):
        seen.append(spec["seed"])
        spec.parameters["seed"] = 0  # type: ignore[index]
        return {"stage": "main", "index": cell.pop("index"), "value": 1.0}

    seen = list[int]()
    run_of(replace(toy.experiment, run_cell=run_cell, stages=()))
    assert seen == [7, 7, 7, 7]


def test_tables_hold_no_pickles_and_have_the_same_bytes_each_time(tmp_path: Path):
    columns = {"a": np.array([1, 2]), "b": np.array(["x", "yy"]), "c": np.array([True, False])}
    for name in ("one", "two"):
        store.write_table(tmp_path / name, columns, {})
    with zipfile.ZipFile(tmp_path / "one.npz") as file:
        assert {entry.date_time for entry in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}, "no time of writing"
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    assert (table := store.read_table(tmp_path / "one")) and table.columns["b"].tolist() == ["x", "yy"]
