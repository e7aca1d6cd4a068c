"""From a spec to a stored result, and back: pedigree, staleness, resumption, faults."""

import errno
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from pretend_device import PretendCuda
from toy_package import DRIVER, HELPER, TOY

from dpnotes import files
from dpnotes.experiments import Cost, cells, chunks, runner, sources, store, wanting
from dpnotes.experiments.spec import Context, Decision, Experiment, Spec

REPOSITORY = Path(__file__).parents[2]


def silent(line: str) -> None:
    pass


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty results and cache of the test's own, and the toy's files."""
    package = tmp_path / "toys"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text(HELPER)
    (package / "experiment.py").write_text(TOY)
    monkeypatch.setenv("DPNOTES_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("DPNOTES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{REPOSITORY}")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == "toys"]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


@pytest.fixture
def toy(folder: Path) -> ModuleType:
    return importlib.import_module("toys.experiment")


def run(toy: ModuleType, profile: str = "quick", report: Callable[[str], None] = silent, **settings) -> store.Result:
    return runner.run(toy.EXPERIMENT, profile, **{"device": "cpu", "report": report, **settings})


def computed(folder: Path) -> list[str]:
    """Indices of the cells that were started, in order."""
    log = folder / "log"
    return log.read_text().split() if log.exists() else []


def result_bytes(folder: Path) -> bytes:
    return (folder / "results" / "toy.mean.quick.npz").read_bytes()


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def with_spec(toy: ModuleType, **changes) -> Experiment:
    spec = toy.EXPERIMENT.specs["quick"]
    return replace(toy.EXPERIMENT, specs={"quick": replace(spec, parameters={**spec.parameters, **changes})})


def kept(folder: Path) -> dict[Path, list[cells.Place]]:
    """Where the cache holds cells, by file."""
    found = {path: list(cells.places(path)) for path in (folder / "cache").rglob("*.cells")}
    return {path: [place for name, place in places if name != cells.ABOUT] for path, places in found.items()}


def count_kept(folder: Path) -> int:
    return sum(map(len, kept(folder).values()))


# ---------------------------------------------------------------- a result
def test_run_store_load(folder: Path, toy: ModuleType):
    result = run(toy)
    assert computed(folder)[:4] == ["0", "1", "2", "3"] and len(computed(folder)) == 5
    assert result.state == "current" and not result.stale and result.reason == "" and store.stamp(result) is None
    assert list(result.frame.columns) == ["stage", "index", "value"] and len(result.frame) == 25
    values = np.asarray(result.frame["value"])[:20].reshape(4, 5)
    best = int(values.mean(axis=1).argmax())
    assert set(result.frame.loc[result.frame["stage"] == "main", "index"]) == {best + 100}
    assert values[1, 2] == 2.0 * np.random.default_rng([7, 1, 2]).normal()
    assert result.decision.verdict in ("reproduced", "not reproduced")
    assert result.unaccounted == ("the choice of the best cell",)
    again = store.load(toy.EXPERIMENT, "quick")
    assert again.frame.equals(result.frame) and again.decision == result.decision


def test_a_cell_keeps_the_memory_that_it_frees(toy: ModuleType, monkeypatch: pytest.MonkeyPatch):
    within: list[bool] = []
    inside = [False]

    @contextmanager
    def watched():
        inside[0] = True
        yield
        inside[0] = False

    monkeypatch.setattr(runner.allocator, "kept_until_the_end", watched)
    run_cell = toy.EXPERIMENT.run_cell
    experiment = replace(toy.EXPERIMENT, run_cell=lambda *given: within.append(inside[0]) or run_cell(*given))
    runner.run(experiment, "quick", device="cpu", report=silent)
    assert within == [True] * 5 and not inside[0]


def test_manifest_says_how_it_came_about(folder: Path, toy: ModuleType):
    manifest = run(toy).manifest
    assert manifest["spec"] == json.loads(toy.EXPERIMENT.specs["quick"].json) and manifest["seed"] == 7
    assert manifest["spec"]["parameters"]["decision_rule"] == toy.RULE
    assert set(manifest["modules"]) == {"toys.experiment", "toys.helper"}
    assert manifest["chunking"] == [{"num_runs": 5, "chunk_size": 5, "halvings": 0, "count": 5}]
    assert manifest["spent"] == [{"mechanism": "gaussian", "rho": 0.125, "count": 5}]
    (environment,) = manifest["environments"]
    assert environment["device"] == "cpu" and environment["name"] and environment["threads"] >= 1
    assert {"python", "torch", "numpy", "scipy", "dp-accounting", "dpnotes"} <= set(environment["versions"])
    assert manifest["cells"] == 5 and manifest["rows"] == 25 and manifest["jobs"] == 1
    assert len(manifest["git_commit"]) == 40 and isinstance(manifest["git_dirty"], bool)
    assert manifest["key"] == sources.Fingerprint.of(toy.EXPERIMENT, "quick").key
    assert manifest["wall_seconds"] >= manifest["cell_seconds"] >= 0


def test_the_commit_of_a_result_is_that_of_the_code_that_ran(
    folder: Path, toy: ModuleType, monkeypatch: pytest.MonkeyPatch
):
    """Another one is checked out while cells are computed."""
    heads = iter(["a" * 40, *["b" * 40] * 9])
    monkeypatch.setattr(runner, "git", lambda *words: next(heads) if "rev-parse" in words else "")
    assert run(toy).manifest["git_commit"] == "a" * 40 and next(heads) == "b" * 40


def test_a_current_result_is_not_computed_again_unless_asked(folder: Path, toy: ModuleType):
    run(toy)
    first = result_bytes(folder)
    lines = []
    run(toy, report=lines.append)
    assert len(computed(folder)) == 5 and "current" in lines[0]
    run(toy, resume=False)
    assert len(computed(folder)) == 10 and result_bytes(folder) == first


@pytest.mark.slow
def test_two_jobs_give_the_bytes_of_one(folder: Path, toy: ModuleType):
    run(toy)
    alone = result_bytes(folder)
    run(toy, jobs=2, resume=False)
    assert len(computed(folder)) == 10 and result_bytes(folder) == alone
    assert store.load(toy.EXPERIMENT, "quick").manifest["jobs"] == 2


def test_results_do_not_depend_on_the_chunks(folder: Path, toy: ModuleType, monkeypatch: pytest.MonkeyPatch):
    run(toy)
    together = result_bytes(folder)
    monkeypatch.setattr(chunks, "cpu_cache_bytes", lambda: 2000)
    result = run(toy, resume=False)
    assert result.manifest["chunking"][0]["chunk_size"] == 2 and result_bytes(folder) == together


def test_another_seed_gives_other_bytes(folder: Path, toy: ModuleType):
    """Control of the comparisons of bytes in this file."""
    run(toy)
    first = result_bytes(folder)
    runner.run(with_spec(toy, seed=8), "quick", device="cpu", report=silent)
    assert result_bytes(folder) != first


def test_the_example_of_the_documentation_runs(folder: Path, monkeypatch: pytest.MonkeyPatch):
    page = (REPOSITORY / "docs" / "experiments.md").read_text()
    (folder / "documented.py").write_text(page.split("```python\n")[1].split("```")[0])
    monkeypatch.delitem(sys.modules, "documented", raising=False)
    result = runner.run(importlib.import_module("documented").EXPERIMENT, "quick", report=silent)
    assert result.state == "current" and result.decision.verdict == "reproduced" and len(result.frame) == 400


# ---------------------------------------------------------------- staleness
def test_a_changed_spec_makes_it_stale(toy: ModuleType):
    run(toy)
    result = store.load(with_spec(toy, num_runs=6), "quick")
    assert result.stale and result.reason == "spec changed: num_runs"
    assert store.stamp(result) == "STALE: spec changed"
    assert result.decision == Decision("stale", "spec changed")


def test_a_changed_rule_makes_it_stale(toy: ModuleType):
    run(toy)
    assert store.load(with_spec(toy, decision_rule="always"), "quick").reason == "spec changed: decision_rule"


@pytest.mark.parametrize("module", ["helper", "experiment"])
def test_changed_code_makes_it_stale(folder: Path, toy: ModuleType, module: str):
    run(toy)
    path = folder / "toys" / f"{module}.py"
    edit(path, "return", "pass; return")
    reason = store.load(toy.EXPERIMENT, "quick").reason
    assert reason.startswith(f"code changed: toys.{module} (what toys.{module} was is")
    edit(path, "pass; return", "return")
    assert store.load(toy.EXPERIMENT, "quick").state == "current", "put back, it is current again"


def test_changed_data_make_it_stale(toy: ModuleType):
    run(toy)
    result = store.load(replace(toy.EXPERIMENT, data=("numbers sha256:02",)), "quick")
    assert result.reason == "data changed: numbers sha256:01, numbers sha256:02"


def test_comments_docstrings_and_layout_do_not(folder: Path, toy: ModuleType):
    run(toy)
    edit(folder / "toys" / "helper.py", "# A comment.", "# Another one.\n")
    edit(folder / "toys" / "helper.py", "What the toy rests on", "Other words")
    edit(folder / "toys" / "helper.py", "2.0 * values", "(2.0*values)  # twice")
    assert store.load(toy.EXPERIMENT, "quick").state == "current"


def test_a_raised_format_makes_it_stale(toy: ModuleType, monkeypatch: pytest.MonkeyPatch):
    run(toy)
    before = sources.FORMAT
    monkeypatch.setattr(sources, "FORMAT", 99)
    assert store.load(toy.EXPERIMENT, "quick").reason == f"format changed: {before} became 99"


def test_a_stale_result_is_computed_again(folder: Path, toy: ModuleType):
    run(toy)
    changed = with_spec(toy, num_runs=6)
    assert runner.run(changed, "quick", device="cpu", report=silent).state == "current"
    assert len(store.load(changed, "quick").frame) == 30


# ---------------------------------------------------------------- status, outstanding, clean
def test_missing_result_says_so(toy: ModuleType):
    result = store.load(toy.EXPERIMENT, "paper")
    assert result.state == "missing" and result.frame.empty
    assert store.stamp(result) == "MISSING: dpnotes run toy.mean --profile paper"
    assert result.decision == Decision("not run", "dpnotes run toy.mean --profile paper")


def test_status_of_every_state(folder: Path, toy: ModuleType):
    def states():
        return {standing.profile: (standing.state, standing.reason) for standing in runner.status([toy.EXPERIMENT])}

    assert states()["quick"] == ("missing", "no result stored; compute it: dpnotes run toy.mean --profile quick")
    run(toy)
    assert states()["quick"] == ("current", "run with this code")
    os.truncate(folder / "results" / "toy.mean.quick.npz", 100)
    store.clean()
    assert states()["quick"][0] == "damaged"
    run(toy)
    edit(folder / "toys" / "helper.py", "2.0", "3.0")
    assert states()["quick"][0] == "stale" and states()["quick"][1].startswith("code changed: toys.helper (what")
    assert str(runner.status([toy.EXPERIMENT])[0]).startswith("toy.mean quick stale code changed: toys.helper")


def test_status_counts_the_cells_of_an_unfinished_run(folder: Path, toy: ModuleType):
    run(toy)
    for path in (folder / "results").iterdir():
        path.unlink()
    (path, records), *_ = kept(folder).items()
    assert cells.read(records[-1]).manifest["cell"]["stage"] == "main"
    os.truncate(path, records[-1].start)
    standing = runner.status([toy.EXPERIMENT])[0]
    assert standing.state == "partial" and standing.reason.startswith("4 of 5 cells finished; missing: ")


def test_outstanding_lists_missing_and_stale_paper_results(folder: Path, toy: ModuleType):
    line = "| toy.mean | paper | A mean | missing | no reason is stated | `dpnotes run toy.mean --profile paper` |"
    assert line in store.outstanding([toy.EXPERIMENT])
    (wanted,) = wanting([toy.EXPERIMENT], {"mean": {"paper": Cost(why="hours", hours=3, basis="a guess")}})
    assert "| missing | hours: 3 on two cores (a guess) | `dpnotes run" in store.outstanding([wanted])
    assert sources.Fingerprint.of(wanted, "paper").key == sources.Fingerprint.of(toy.EXPERIMENT, "paper").key
    with pytest.raises(ValueError, match=r"Expected costs=\['mean huge'\] to be those of an experiment and a profile"):
        wanting([toy.EXPERIMENT], {"mean": {"huge": Cost(why="hours", hours=3, basis="a guess")}})
    run(toy, "paper")
    assert store.outstanding([toy.EXPERIMENT]).endswith("\n\nNone.\n")
    edit(folder / "toys" / "helper.py", "2.0", "3.0")
    assert "| stale: code changed |" in store.outstanding([toy.EXPERIMENT])
    os.truncate(folder / "results" / "toy.mean.paper.npz", 100)
    assert "| damaged |" in store.outstanding([toy.EXPERIMENT])


def test_clean_removes_cells_and_no_result(folder: Path, toy: ModuleType):
    run(toy)
    run(toy, "paper")
    assert store.clean(toy.EXPERIMENT, "paper") > 0
    assert store.clean(toy.EXPERIMENT, "paper") == 0
    assert store.clean() > 0 and not list((folder / "cache" / "cells").iterdir())
    assert store.load(toy.EXPERIMENT, "paper").state == store.load(toy.EXPERIMENT, "quick").state == "current"


# ---------------------------------------------------------------- interruptions
def started(folder: Path, hang: int) -> subprocess.Popen:
    """A process that runs the toy and has arrived in the cell where it hangs."""
    # A shell's "&" has made children deaf to SIGINT, if the tests run in the background.
    hear = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", hear + DRIVER],
        env={**os.environ, "TOY_HANG": str(hang)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    end = time.monotonic() + 60
    while str(hang) not in computed(folder):
        assert process.poll() is None and time.monotonic() < end, process.communicate()[0]
        time.sleep(0.02)
    return process


def test_killed_and_resumed_gives_the_same_bytes(folder: Path, toy: ModuleType):
    process = started(folder, hang=2)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not list((folder / "results").glob("*"))
    assert runner.status([toy.EXPERIMENT])[0].reason.startswith("2 of 4 or more cells finished")
    process.communicate()
    log = folder / "log"
    log.unlink()
    lines = []
    resumed = run(toy, report=lines.append)
    assert lines[0] == "toy.mean quick: 2 of 4 cells were finished before"
    assert computed(folder)[:2] == ["2", "3"] and len(computed(folder)) == 3, "finished cells are kept"
    interrupted = result_bytes(folder)
    uninterrupted = run(toy, resume=False)
    assert result_bytes(folder) == interrupted
    times = {"finished_at", "cell_seconds", "wall_seconds"}
    differing = {name for name in resumed.manifest if resumed.manifest[name] != uninterrupted.manifest[name]}
    assert differing <= times


@pytest.mark.slow
def test_ctrl_c_says_what_is_finished_and_how_to_go_on(folder: Path, toy: ModuleType):
    process = started(folder, hang=3)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    # Left alone, Python dies of the signal itself, which a shell reports as 130.
    assert process.returncode == -signal.SIGINT
    assert "Interrupted. 3 of 4 or more cells are finished and kept in" in output
    assert "the same command goes on from there: dpnotes run toy.mean --profile quick" in output
    (folder / "log").unlink()
    run(toy)
    assert computed(folder)[0] == "3" and len(computed(folder)) == 2


def test_an_error_in_a_cell_names_the_cell_and_keeps_the_others(folder: Path, toy: ModuleType):
    def run_cell(spec, cell, context):
        if cell["index"] == 2:
            raise ZeroDivisionError("nothing to divide by")
        return toy.run_cell(spec, cell, context)

    with pytest.raises(ZeroDivisionError) as caught:
        runner.run(replace(toy.EXPERIMENT, run_cell=run_cell, modules=("toys.experiment",)), "quick", report=silent)
    assert caught.value.__notes__ == ['in cell {"index":2,"stage":"tune"} of toy.mean']
    assert computed(folder) == ["0", "1"]


# ---------------------------------------------------------------- a full disk
@pytest.mark.parametrize("writes", [0, 1, 2, 3, 6])
def test_full_disk(folder: Path, toy: ModuleType, monkeypatch: pytest.MonkeyPatch, writes: int):
    """Full at the plan, a cell, a later cell, the result: nothing half-written, nothing lost."""
    real, room = {files: files._write_and_sync, cells: cells.write}, [writes]

    def writing(of, name: str):
        def write(file, content, *more):
            room[0] -= 1
            if room[0] < 0:
                file.write(content[: len(content) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real[of](file, content, *more)

        monkeypatch.setattr(of, name, write)

    writing(files, "_write_and_sync")
    writing(cells, "write")
    with pytest.raises(OSError, match="No space left while writing") as caught:
        run(toy)
    assert caught.value.errno == errno.ENOSPC and str(folder) in caught.value.filename
    finished = max(0, writes - 1)
    assert f"{finished} of" in str(caught.value) and "goes on from there: dpnotes run toy.mean" in str(caught.value)
    assert not list(folder.rglob("*.tmp"))
    assert count_kept(folder) == finished
    sizes = {path: records[-1].start + records[-1].length for path, records in kept(folder).items()}
    assert {path: path.stat().st_size for path in sizes} == sizes
    assert not list((folder / "results").glob("*"))
    monkeypatch.setattr(files, "_write_and_sync", real[files])
    monkeypatch.setattr(cells, "write", real[cells])
    (folder / "log").unlink(missing_ok=True)
    assert run(toy).state == "current" and len(computed(folder)) == 5 - finished


def test_full_disk_keeps_the_result_that_was_there(folder: Path, toy: ModuleType, monkeypatch: pytest.MonkeyPatch):
    run(toy)
    before = result_bytes(folder)

    def full(file, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "_write_and_sync", full)
    with pytest.raises(OSError, match="No space left"):
        run(toy, resume=False)
    assert result_bytes(folder) == before and store.load(toy.EXPERIMENT, "quick").state == "current"


@pytest.mark.parametrize("variable", ["DPNOTES_RESULTS", "DPNOTES_CACHE", "DPNOTES_CELLS"])
@pytest.mark.parametrize("place", ["/proc/none", "a file"])
def test_folders_that_cannot_be_written_into_are_refused_before_the_first_cell(
    folder: Path, toy: ModuleType, monkeypatch: pytest.MonkeyPatch, variable: str, place: str
):
    run(toy)
    (folder / "a file").touch()
    (folder / "log").unlink()
    monkeypatch.setenv(variable, str(folder / place))
    with pytest.raises(ValueError, match=f"Expected {variable}='{folder / place}' to name a folder that can be writ"):
        run(toy, resume=False)
    assert not computed(folder)
    assert count_kept(folder) == 5, "what was there is not cleared"
    assert not list(folder.rglob("*.tmp"))


def test_a_current_result_in_a_folder_that_is_only_read_is_current(
    folder: Path, toy: ModuleType, monkeypatch: pytest.MonkeyPatch
):
    run(toy)
    monkeypatch.setenv("DPNOTES_CACHE", "/proc/none")
    assert run(toy).state == "current"
    with pytest.raises(ValueError, match="Expected DPNOTES_CACHE='/proc/none'"):
        run(toy, resume=False)


# ---------------------------------------------------------------- damaged files
def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


DAMAGES = {"a bit": flip, "a cut": lambda path: os.truncate(path, 50), "a loss": lambda path: path.unlink()}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("suffix", ["npz", "manifest.json"])
def test_a_damaged_result_is_refused_and_made_again_from_its_cells(folder: Path, toy: ModuleType, suffix: str, damage):
    run(toy)
    before = result_bytes(folder)
    damage(folder / "results" / f"toy.mean.quick.{suffix}")
    with pytest.raises(
        store.DamagedFileError, match="compute it again: dpnotes run toy.mean --profile quick"
    ) as caught:
        store.load(toy.EXPERIMENT, "quick")
    assert str(folder / "results" / "toy.mean.quick") in str(caught.value)
    lines = []
    run(toy, report=lines.append)
    assert "It is made again." in lines[0]
    assert result_bytes(folder) == before and len(computed(folder)) == 5, "no cell was computed twice"


def flip_at(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


def put(path: Path, place: int, words: bytes) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:place] + words + content[place + len(words) :])


# What is done to the file with all five cells, how many of them are lost, and whether it can be seen that they were.
HARMS: dict[str, tuple[Callable[[Path, list[cells.Place]], object], int, bool]] = {
    "a bit of a cell": (lambda path, here: flip_at(path, here[1].start + here[1].length - 9), 1, True),
    "its sha256": (lambda path, here: put(path, here[1].start + 40, b"0123456789"), 1, True),
    "a bit of its first line": (lambda path, here: flip_at(path, here[1].start + 2), 1, False),
    "a cut": (lambda path, here: os.truncate(path, here[3].start + 20), 2, False),
    "a bit of what they are of": (lambda path, here: flip_at(path, here[0].start - 9), 5, True),
    "a loss": (lambda path, here: path.unlink(), 5, False),
}


@pytest.mark.parametrize(("harm", "lost", "seen"), HARMS.values(), ids=HARMS)
@pytest.mark.slow
def test_a_damaged_cell_is_computed_again(folder: Path, toy: ModuleType, harm, lost: int, seen: bool):
    run(toy)
    before = result_bytes(folder)
    for path in (folder / "results").iterdir():
        path.unlink()
    ((path, here),) = kept(folder).items()
    harm(path, here)
    lines = []
    run(toy, report=lines.append)
    warned = [line for line in lines if line.startswith("Warning: Expected") and "computed again" in line]
    assert bool(warned) == seen and all(str(path) in line for line in warned)
    assert len(computed(folder)) == 5 + lost and result_bytes(folder) == before
    for result in (folder / "results").iterdir():
        result.unlink()
    run(toy)
    assert len(computed(folder)) == 5 + lost and result_bytes(folder) == before, "what is whole now is found"


def edited(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"0", b"1", 1))


def sealed_again(path: Path) -> None:
    path.write_bytes(files.sealed_json({"question": {}, "memory_bytes": 1}))


NO_MANIFESTS = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "a list": lambda path: path.write_bytes(b"[]"),
    "a text": lambda path: path.write_bytes(b'"text"'),
    "no entries": lambda path: path.write_bytes(b"{}"),
    "edited": edited,
    "of something else": sealed_again,
}


@pytest.mark.parametrize("damage", NO_MANIFESTS.values(), ids=NO_MANIFESTS)
def test_a_damaged_plan_is_refused_by_name(folder: Path, toy: ModuleType, damage: Callable[[Path], object]):
    run(toy)
    before = result_bytes(folder)
    for path in (folder / "results").iterdir():
        path.unlink()
    (plan,) = (folder / "cache").rglob("plan.json")
    whole = plan.read_bytes()
    damage(plan)
    with pytest.raises(store.DamagedFileError, match=f"^Expected {plan} to .* Delete it to plan again") as caught:
        run(toy)
    assert "\n" not in str(caught.value) and len(computed(folder)) == 5
    plan.write_bytes(whole)
    run(toy)
    assert result_bytes(folder) == before and len(computed(folder)) == 5, "the control"


@pytest.mark.parametrize("damage", NO_MANIFESTS.values(), ids=NO_MANIFESTS)
def test_a_damaged_manifest_is_named_by_all_that_read_it(
    folder: Path, toy: ModuleType, damage: Callable[[Path], object]
):
    run(toy, "paper")
    manifest = folder / "results" / "toy.mean.paper.manifest.json"
    damage(manifest)
    with pytest.raises(store.DamagedFileError, match=f"^Expected {manifest} to ") as caught:
        store.load(toy.EXPERIMENT, "paper")
    assert "\n" not in str(caught.value)
    (standing,) = (s for s in runner.status([toy.EXPERIMENT]) if s.profile == "paper")
    assert "damaged" in f"{standing.state} {standing.reason}" and str(manifest) in standing.reason
    assert "| damaged |" in store.outstanding([toy.EXPERIMENT])
    lines = []
    run(toy, "paper", report=lines.append)
    assert str(manifest) in lines[0] and store.load(toy.EXPERIMENT, "paper").state == "current"


def test_a_cell_under_another_s_name_is_computed_again(folder: Path, toy: ModuleType):
    run(toy)
    before = result_bytes(folder)
    for path in (folder / "results").iterdir():
        path.unlink()
    ((path, here),) = kept(folder).items()
    content = path.read_bytes()
    one, two = (content[place.start + 15 : place.start + 31] for place in here[:2])
    path.write_bytes(content.replace(one, b"x" * 16).replace(two, one).replace(b"x" * 16, two))
    lines = []
    run(toy, report=lines.append)
    assert len({line for line in lines if line.startswith("Warning: Expected")}) == 2
    assert len(computed(folder)) == 7 and result_bytes(folder) == before


# ---------------------------------------------------------------- bad input
def test_bad_settings_are_named(folder: Path, toy: ModuleType):
    with pytest.raises(ValueError, match="Expected profile='huge' to be one of: quick, paper"):
        run(toy, "huge")
    with pytest.raises(ValueError, match="Expected device='tpu' to be one of: auto, cpu, cuda"):
        run(toy, device="tpu")
    with pytest.raises(ValueError, match="Expected jobs=0 >= 1"):
        run(toy, jobs=0)
    with pytest.raises(ValueError, match="Expected memory='lots' to be a size"):
        run(toy, memory="lots")
    with pytest.raises(MemoryError, match="Expected memory=1 MB > .* what 1 process"):
        run(toy, memory="1MB")
    assert computed(folder) == []


def test_a_refused_device_neither_passes_unseen_nor_clears_what_was_finished(folder: Path, toy: ModuleType):
    run(toy)
    before = kept(folder)
    for resume in (True, False):  # with a current result there is nothing to do, and the argument is wrong all the same
        with pytest.raises(ValueError, match="Expected device='tpu'"):
            run(toy, device="tpu", resume=resume)
    assert before and kept(folder) == before


def test_an_experiment_of_the_cpu_gets_no_gpu_and_its_manifest_says_so(folder: Path, toy: ModuleType):
    lines: list[str] = []

    def device_of(experiment: Experiment, device: str) -> str:
        result = runner.run(experiment, "quick", device=device, resume=False, report=lines.append)
        (environment,) = result.manifest["environments"]
        return environment["device"]

    with PretendCuda():
        alone = replace(toy.EXPERIMENT, cpu_only=True)
        assert [device_of(alone, device) for device in ("auto", "cpu", "cuda")] == ["cpu"] * 3
        assert device_of(toy.EXPERIMENT, "auto") == "cuda"  # the control
    runner.environment.cache_clear()
    assert lines.count("toy.mean runs on the CPU: its cells have no use for a GPU.") == 1


@pytest.mark.slow
def test_too_large_a_result_is_refused_and_its_cells_are_kept(folder: Path, toy: ModuleType):
    with pytest.raises(
        ValueError, match=r"Expected toy.mean.quick.npz of 1.* MB <= 1 MB: let the cells return summaries"
    ):
        runner.run(with_spec(toy, num_runs=30_000), "quick", report=silent)
    assert count_kept(folder) == 5 and not list((folder / "results").glob("*"))


@pytest.mark.slow
def test_a_result_that_will_be_too_large_is_refused_after_few_cells(folder: Path, toy: ModuleType):
    with pytest.raises(ValueError, match=r"Expected toy.mean.quick.npz <= 1 MB: 1 of 40 cells fill .*, all of them"):
        runner.run(with_spec(toy, num_runs=20_000, num_cells=40), "quick", report=silent)
    assert count_kept(folder) == 1
    (folder / "log").unlink()
    lines = []
    with pytest.raises(ValueError, match="2 of 40 cells fill"):
        runner.run(with_spec(toy, num_runs=20_000, num_cells=40), "quick", report=lines.append)
    assert computed(folder) == ["1"] and "1 of 40 cells were finished before" in lines[0]
    runner.run(with_spec(toy, num_runs=2_000, num_cells=40), "quick", report=silent)  # 700 kB: the control


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1, 2], "b": [1]}, "Expected columns of equal length"),
        ({}, "Expected columns of equal length"),
        ({"a": [[1, 2]]}, "Expected column 'a' to have one axis"),
        ({"a": [None]}, "Expected column 'a' to hold bool, int, float or str"),
        ({"a b": [1]}, "Expected column name 'a b' to be an identifier"),
        ({"file": [1]}, "Expected column name 'file' to be an identifier"),
    ],
)
def test_bad_columns_are_refused(columns, message: str):
    with pytest.raises((ValueError, TypeError), match=message):
        store.as_columns(columns)


def test_cells_that_disagree_are_refused():
    with pytest.raises(ValueError, match="Expected column 'a' to be of one kind in all cells, got number, text"):
        store.concatenate([{"a": np.array([1])}, {"a": np.array(["x"])}])


def test_cells_listed_twice_are_refused(folder: Path, toy: ModuleType):
    def twice(spec):
        return [{"index": 1}, {"index": 1}]

    def none(spec):
        return []

    for listing in (twice, none):
        with pytest.raises(ValueError, match="Expected toy.mean to list at least one cell, and none twice"):
            runner.run(replace(toy.EXPERIMENT, cells=listing), "quick", report=silent)


def test_a_cell_cannot_change_the_spec_of_another(folder: Path, toy: ModuleType):
    seen = []

    def run_cell(spec: Spec, cell: dict, context: Context):
        seen.append(spec["seed"])
        spec.parameters["seed"] = 0  # type: ignore[index]
        return {"stage": "main", "index": cell.pop("index"), "value": 1.0}

    runner.run(replace(toy.EXPERIMENT, run_cell=run_cell, stages=()), "quick", report=silent)
    assert seen == [7, 7, 7, 7]


def test_tables_hold_no_pickles_and_have_the_same_bytes_each_time(tmp_path: Path):
    columns = {"a": np.array([1, 2]), "b": np.array(["x", "yy"]), "c": np.array([True, False])}
    store.write_table(tmp_path / "one", columns, {})
    with zipfile.ZipFile(tmp_path / "one.npz") as file:
        assert {entry.date_time for entry in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}, "no time of writing"
    store.write_table(tmp_path / "two", columns, {})
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    table = store.read_table(tmp_path / "one")
    assert table is not None and {name: column.tolist() for name, column in table.columns.items()} == {
        "a": [1, 2],
        "b": ["x", "yy"],
        "c": [True, False],
    }
