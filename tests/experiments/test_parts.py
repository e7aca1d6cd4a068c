"""Finished cells outlive their machine: kept beside the results, verified, carried; what is not theirs is refused."""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from toy_package import DRIVER, HELPER, TOY
from typer.testing import CliRunner

from dpnotes import cli, files
from dpnotes.experiments import bring, cells, export, keep, parts, runner, store, verify, verify_kept
from dpnotes.experiments.sources import Fingerprint, code_at
from dpnotes.experiments.spec import Experiment

REPOSITORY = Path(__file__).parents[2]
COMMIT = {"git_commit": None, "git_dirty": None}


def silent(line: str) -> None:
    pass


class Clone:
    """A clone of a repository: code, results and a cache of its own, and the toy's log."""

    def __init__(self, folder: Path, origin: "Clone | None" = None) -> None:
        self.folder = folder
        package = folder / "toys"
        package.mkdir(parents=True)
        for name, text in {"__init__": "", "helper": HELPER, "experiment": TOY}.items():
            (package / f"{name}.py").write_text(text)
        if origin:
            shutil.copytree(origin.folder / "results", folder / "results")  # all that a clone brings along
        for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "toys")):
            self.git(*words)

    def git(self, *words: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *identity, *words], cwd=self.folder, check=True, capture_output=True)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "DPNOTES_RESULTS": str(self.folder / "results"),
            "DPNOTES_CACHE": str(self.folder / "cache"),
            "TOY_LOG": str(self.folder / "log"),
            "PYTHONPATH": f"{self.folder}{os.pathsep}{REPOSITORY}",
        }

    def enter(self, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
        """Work in this clone from now on; its toy."""
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)  # an edit within a second is an edit
        for name in [name for name in sys.modules if name.split(".")[0] == "toys"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.syspath_prepend(self.folder)
        importlib.invalidate_caches()
        return importlib.import_module("toys.experiment")

    def killed_in(self, cell: int) -> None:
        """Run the toy, and kill it in the middle of a cell."""
        environment = {**os.environ, **self.environment, "TOY_HANG": str(cell)}
        process = subprocess.Popen([sys.executable, "-c", DRIVER], env=environment, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while str(cell) not in self.computed():
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.02)
        process.kill()
        assert process.wait() == -signal.SIGKILL

    def computed(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().split() if log.exists() else []

    def parts(self) -> list[Path]:
        return sorted((self.folder / "results" / "parts").glob("*"))

    def result(self) -> bytes:
        return (self.folder / "results" / "toy.mean.quick.npz").read_bytes()


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    """One, which was entered."""
    made = Clone(tmp_path / "one")
    made.enter(monkeypatch)
    return made


def experiment() -> Experiment:
    return sys.modules["toys.experiment"].EXPERIMENT


def run(**settings) -> store.Result:
    return runner.run(experiment(), "quick", **{"device": "cpu", "report": silent, **settings})


def some_cells(clone: Clone, *indices: int) -> None:
    """Compute some of the toy's cells, and no others."""
    commit = runner.commit_of(experiment())
    progress = runner.Progress.of(experiment(), Fingerprint.of(experiment(), "quick"), silent, commit)
    plan = runner.Plan("cpu", runner.memory_budget(progress.folder, "cpu", None, 1), 1)
    for index in indices:
        runner.execute(experiment(), progress.spec.json, {"stage": "tune", "index": index}, progress.shelf, plan)
    (clone.folder / "log").unlink(missing_ok=True)


def kept_now() -> int:
    return keep(experiment(), "quick", runner.commit_of(experiment()))


def standing() -> str:
    return str(runner.status([experiment()])[0])


# ---------------------------------------------------------------- kept beside the results
@pytest.mark.slow
def test_killed_in_one_clone_and_gone_on_with_in_another_from_committed_parts(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    whole = Clone(tmp_path / "whole")
    whole.enter(monkeypatch)
    uninterrupted = run()
    clone.enter(monkeypatch)
    clone.killed_in(2)
    assert kept_now() == 2 and kept_now() == 0, "what is kept is not kept again"
    clone.killed_in(3)
    assert clone.computed() == ["0", "1", "2", "2", "3"] and kept_now() == 1
    assert len(clone.parts()) == 2, "a part that stands is not changed"
    other = Clone(tmp_path / "two", origin=clone)
    other.enter(monkeypatch)
    assert standing().startswith("toy.mean quick partial 3 of 4 or more cells finished; missing: no result stored;")
    assert "3 of them kept beside the results" in standing()
    other.killed_in(3)
    resumed = run()
    assert other.computed()[:2] == ["3", "3"] and len(other.computed()) == 3
    assert resumed.state == "current" and other.result() == whole.result()
    assert resumed.decision == uninterrupted.decision and resumed.manifest["key"] == uninterrupted.manifest["key"]
    assert not other.parts() and not (other.folder / "results" / "parts").exists(), "complete: its parts are removed"


def test_nothing_is_kept_of_a_result_that_is_there(clone: Clone):
    run()
    assert kept_now() == 0 and not clone.parts()


def test_parts_are_small_whole_and_without_checkpoints(clone: Clone, monkeypatch: pytest.MonkeyPatch):
    some_cells(clone, 0, 1, 2)
    (folder,) = (clone.folder / "cache" / "cells").glob("*/*")
    (folder / "0123456789abcdef.pt").write_bytes(bytes(10**6))
    size = sum(path.stat().st_size for path in folder.glob("*.cells"))
    monkeypatch.setattr(parts, "MAX_PART_BYTES", size // 2 + 200)
    assert kept_now() == 3 and len(clone.parts()) > 1
    assert all(path.suffix == ".cells" and path.stat().st_size <= size // 2 + 200 for path in clone.parts())
    shutil.rmtree(clone.folder / "cache")
    assert standing().startswith("toy.mean quick partial 3 of 4 or more")
    monkeypatch.setattr(parts, "MAX_PART_BYTES", 300)
    some_cells(clone, 3)
    with pytest.raises(ValueError, match="Expected a cell of .* bytes <= .* to be kept"):
        kept_now()


def test_a_damaged_part_costs_its_cell_and_says_so(clone: Clone):
    some_cells(clone, 0, 1)
    kept_now()
    shutil.rmtree(clone.folder / "cache")
    (part,) = clone.parts()
    content = bytearray(part.read_bytes())
    content[-5] ^= 1
    part.write_bytes(content)
    lines: list[str] = []
    run(report=lines.append)
    assert [line for line in lines if line.startswith("Warning:") and str(part) in line]
    assert len(clone.computed()) == 4


def test_a_fresh_start_takes_no_kept_cells(clone: Clone):
    some_cells(clone, 0, 1)
    kept_now()
    run(resume=False)
    assert len(clone.computed()) == 5


# ---------------------------------------------------------------- other code
def edited(clone: Clone, before: str, after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = clone.folder / "toys" / "helper.py"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    clone.git("commit", "-qam", "edited")
    clone.enter(monkeypatch)


def test_kept_cells_of_other_code_are_used_after_they_were_verified(clone: Clone, monkeypatch: pytest.MonkeyPatch):
    some_cells(clone, 0, 1, 2)
    kept_now()
    shutil.rmtree(clone.folder / "cache")
    edited(clone, "2.0 * values", "values * 2.0", monkeypatch)
    assert standing().startswith("toy.mean quick missing") and "3 more are kept of other code" in standing()
    lines: list[str] = []
    found = verify_kept(experiment(), "quick", device="cpu", report=lines.append)
    assert found and found.state == "verified" and "kept cells run again, the same numbers" in lines[-1]
    again = len(clone.computed())
    assert 1 <= again <= 3 and standing().startswith("toy.mean quick partial 3 of 4")
    found = verify_kept(experiment(), "quick", device="cpu", report=silent)
    assert found and found.state == "current" and len(clone.computed()) == again
    edited(clone, "values * 2.0", "values * 2.0 + 0.0", monkeypatch)
    found = verify_kept(experiment(), "quick", device="cpu", report=silent)
    assert found and found.state == "verified" and standing().startswith("toy.mean quick partial 3 of 4"), "twice"
    shutil.rmtree(clone.folder / "cache")
    (clone.folder / "log").unlink()
    with pytest.raises(ValueError, match="Expected finished cells of this code"):
        export([(experiment(), "quick")], clone.folder / "archive")
    assert run().state == "current" and len(clone.computed()) == 2
    assert store.load(experiment(), "quick").pedigree == (
        "run with this code, but for 3 cells of code that gave the same numbers"
    )


def test_a_run_beside_another_that_ends_first_goes_on_without_its_parts(clone: Clone):
    some_cells(clone, 0, 1)
    kept_now()
    shutil.rmtree(clone.folder / "cache")
    spec, key = experiment().spec("quick"), Fingerprint.of(experiment(), "quick").key
    shelf = parts.shelf(spec, key)
    assert len(shelf.all_places()) == 2
    parts.remove(spec)  # as the other run does
    assert shelf.table({"stage": "tune", "index": 0}) is None and shelf.all_places() == {}


def test_parts_that_outlive_their_result_are_removed(clone: Clone):
    some_cells(clone, 0, 1)
    kept_now()
    copies = {path: path.read_bytes() for path in clone.parts()}
    for remove in (run, kept_now):
        run()
        files.write(copies)  # a run that was killed at its very end leaves them
        remove()
        assert not clone.parts(), remove


def test_a_cell_that_was_mended_is_kept_from_its_mended_record(clone: Clone):
    some_cells(clone, 0)
    (folder,) = (clone.folder / "cache" / "cells").glob("*/*")
    (path,) = folder.glob("*.cells")
    content = bytearray(path.read_bytes())
    (folder / "0000000000000000.cells").write_bytes(content)  # before it by name
    content[-5] ^= 1
    path.write_bytes(content)
    path.rename(folder / "ffffffffffffffff.cells")
    assert kept_now() == 1 and export([(experiment(), "quick")], clone.folder / "archive") == {"toy.mean quick": 1}


def test_a_part_without_its_beginning_is_named(clone: Clone):
    some_cells(clone, 0, 1)
    kept_now()
    shutil.rmtree(clone.folder / "cache")
    (part,) = clone.parts()
    content = bytearray(part.read_bytes())
    content[300] ^= 1
    part.write_bytes(content)
    words = f"Expected {part} to begin with what its cells are of."
    lines: list[str] = []
    assert words in standing()
    with pytest.raises(files.DamagedFileError, match="to match the sha256 in its first line"):
        bring([experiment()], part.parent)
    run(report=lines.append)
    assert f"Warning: {words} They are computed again." in lines


def test_kept_cells_of_code_that_nobody_knows_hide_no_others(clone: Clone, monkeypatch: pytest.MonkeyPatch):
    some_cells(clone, 0)
    kept_now()
    helper = clone.folder / "toys" / "helper.py"
    committed = helper.read_text()
    helper.write_text(committed.replace("2.0 * values", "values * 2.0 * 1.0"))  # and never committed
    clone.enter(monkeypatch)
    some_cells(clone, 1, 2, 3)
    kept_now()
    helper.write_text(committed)
    edited(clone, "2.0 * values", "values * 2.0", monkeypatch)
    shutil.rmtree(clone.folder / "cache")
    found = verify_kept(experiment(), "quick", device="cpu", report=silent)
    assert found and found.state == "verified" and "partial 1 of 4" in standing()


def test_kept_cells_that_came_out_otherwise_stay_out(clone: Clone, monkeypatch: pytest.MonkeyPatch):
    some_cells(clone, 0, 1, 2)
    kept_now()
    shutil.rmtree(clone.folder / "cache")
    edited(clone, "2.0", "3.0", monkeypatch)
    found = verify_kept(experiment(), "quick", device="cpu", report=silent)
    assert found and found.state == "different" and "column 'value'" in found.lines[0]
    shutil.rmtree(clone.folder / "cache")
    (clone.folder / "log").unlink()
    run()
    assert len(clone.computed()) == 5


def test_cells_in_the_cache_of_earlier_code_are_kept_too(clone: Clone, monkeypatch: pytest.MonkeyPatch):
    """Code was edited while a long run went on."""
    some_cells(clone, 0, 1)
    edited(clone, "2.0 * values", "values * 2.0", monkeypatch)
    assert kept_now() == 2 and "2 more are kept of other code" in standing()
    found = verify_kept(experiment(), "quick", device="cpu", report=silent)
    assert found and found.state == "verified" and standing().startswith("toy.mean quick partial 2 of 4")


def test_kept_cells_of_another_spec_are_of_no_use(clone: Clone):
    some_cells(clone, 0)
    kept_now()
    spec = experiment().specs["quick"]
    changed = replace(experiment(), specs={"quick": replace(spec, parameters={**spec.parameters, "num_runs": 6})})
    assert verify_kept(changed, "quick", device="cpu", report=silent) is None
    assert "of other code or another spec" in str(runner.status([changed])[0])
    with pytest.raises(ValueError, match="stale by its code alone"):
        verify(changed, "quick", device="cpu", report=silent)


# ---------------------------------------------------------------- carried
def test_cells_are_carried_in_one_file(clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    some_cells(clone, 0, 1)
    kept_now()
    shutil.rmtree(clone.folder / "cache")
    some_cells(clone, 3)
    archive = tmp_path / "carried"
    assert export([(experiment(), "quick"), (experiment(), "paper")], archive) == {"toy.mean quick": 3}
    other = Clone(tmp_path / "two")
    other.enter(monkeypatch)
    found = bring([experiment()], archive)
    assert (found.added, found.known, found.refused) == ({"toy.mean quick": 3}, {}, {})
    assert bring([experiment()], archive).known == {"toy.mean quick": 3}
    assert run().state == "current" and other.computed()[0] == "2" and len(other.computed()) == 2
    with pytest.raises(ValueError, match="Expected finished cells of this code"):
        export([(experiment(), "paper")], archive)


def test_a_folder_of_a_run_elsewhere_is_brought_back_and_a_torn_record_passed_over(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    some_cells(clone, 0, 1)
    (path,) = (clone.folder / "cache").rglob("*.cells")
    os.truncate(path, path.stat().st_size - 3)
    Clone(tmp_path / "two").enter(monkeypatch)
    assert bring([experiment()], clone.folder / "cache").added == {"toy.mean quick": 1}


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def reseal(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(files.sealed(change(files.unsealed(path))))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a bit": flip,
    "a cut": lambda path: os.truncate(path, path.stat().st_size - 200),
    "nothing": lambda path: path.write_bytes(b""),
    "another file": lambda path: path.write_bytes(b"PK\x03\x04"),
    "sealed again with a bit changed": lambda path: reseal(path, lambda c: c[:-5] + bytes([c[-5] ^ 1]) + c[-4:]),
    "sealed again with more in it": lambda path: reseal(path, lambda c: b"../../etc/passwd\n" + c),
    "sealed again, cut": lambda path: reseal(path, lambda c: c[:-3] + c[:40]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.slow
def test_a_damaged_archive_is_refused_and_nothing_taken(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], object]
):
    some_cells(clone, 0, 1)
    archive = tmp_path / "carried"
    export([(experiment(), "quick")], archive)
    damage(archive)
    Clone(tmp_path / "two").enter(monkeypatch)
    with pytest.raises(store.DamagedFileError, match="Expected .*carried"):
        bring([experiment()], archive)
    assert not list((tmp_path / "two").rglob("*.cells"))


def test_cells_of_other_code_spec_or_data_are_refused_by_name(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    some_cells(clone, 0, 1)
    archive = tmp_path / "carried"
    export([(experiment(), "quick")], archive)
    toy, spec = experiment(), experiment().specs["quick"]
    changed = replace(toy, specs={"quick": replace(spec, parameters={**spec.parameters, "num_runs": 6})})
    for other, reason in (
        (changed, "spec differs: num_runs"),
        (replace(toy, data=("numbers sha256:02",)), "data differs: numbers"),
        (replace(toy, name="median", specs={}), "there is no such experiment or profile here"),
    ):
        found = bring([other], archive)
        assert not found.added and reason in found.refused["toy.mean quick"]
    edited(clone, "2.0", "3.0", monkeypatch)
    assert "code differs: toys.helper" in bring([experiment()], archive).refused["toy.mean quick"]


def test_a_path_in_an_archive_leads_nowhere(clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The name of an experiment is looked up among those that there are; it is never part of a path before that."""
    about = parts.about(experiment(), Fingerprint.of(experiment(), "quick"), COMMIT)
    columns = {"value": np.array([1.0])}
    manifest = dict.fromkeys(("seconds", "environment", "chunking", "spent", "functions"), 0) | {"cell": {"index": 9}}
    archive = tmp_path / "carried"
    for entry in ({"experiment": "../../evil"}, {"profile": "../../evil"}, {"key": "../../evil"}):
        records = cells.packed({}, about | entry) + cells.packed(columns, manifest)
        archive.write_bytes(files.sealed(records))
        assert bring([experiment()], archive).refused and not list(tmp_path.rglob("*evil*"))
    archive.write_bytes(files.sealed(cells.packed({}, about) + cells.packed(columns, manifest)))
    assert bring([experiment()], archive).added == {"toy.mean quick": 1}, "the control"


@pytest.mark.parametrize(
    "forged",
    [{"profile": ["quick"]}, {"modules": []}, {"spec": "none"}, {"data": None}, {"git_commit": 7}],
    ids=lambda forged: next(iter(forged)),
)
def test_what_cells_are_said_to_be_of_is_refused_if_it_is_nothing(clone: Clone, tmp_path: Path, forged: dict):
    some_cells(clone, 0)
    fingerprint = Fingerprint.of(experiment(), "quick")
    about = parts.about(experiment(), fingerprint, COMMIT) | {"key": "0" * 64} | forged
    archive = tmp_path / "forged"
    archive.write_bytes(files.sealed(cells.packed({}, about)))
    assert list(bring([experiment()], archive).refused.values())


def test_a_commit_from_elsewhere_is_no_option_of_git(tmp_path: Path):
    record = {"git_commit": f"--output={tmp_path / 'written'}", "modules": {"dpnotes.core": "0" * 16}}
    assert "is not here" in str(code_at(record, {})) and not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["O", "V8", "M8[s]", "<f8,<f8", "S4"])
def test_a_record_of_another_kind_of_column_is_refused(kind: str):
    record = cells.packed({"a": np.zeros(2)}, dict.fromkeys(cells._OF_A_CELL, 0) | {"cell": {}})
    body = json.dumps({"columns": [["a", kind, 1]], "manifest": {"cell": {}}}).encode() + b"\n" + bytes(8)
    content = cells.zlib.compress(body)
    name = record.split(b" ")[2].decode()
    forged = f"dpnotes record {name} {cells._sha256(name, content)} {len(content)}\n".encode() + content
    with pytest.raises(store.DamagedFileError, match="Expected it to be the record of a cell"):
        cells.unpacked(forged, "it")
    assert cells.unpacked(record, "it").columns["a"].tolist() == [0.0, 0.0], "the control"


# ---------------------------------------------------------------- the command line
def test_the_command_line_keeps_exports_imports_and_verifies(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cli, "all_experiments", lambda: [experiment()])

    def call(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(cli.app, list(words))
        assert result.exit_code == code, result.output
        return result.output

    some_cells(clone, 0, 1)
    archive = str(tmp_path / "carried")
    assert "toy.mean quick: 2 cells" in call("cells", "export", archive, "toy.mean", "--profile", "quick")
    assert "toy.mean quick: 2 cells kept" in call("cells", "keep")
    shutil.rmtree(clone.folder / "cache")
    assert "2 cells here before" in call("cells", "import", archive), "kept, though not in the cache"
    assert "partial  2 of 4 or more cells finished" in call("status")
    edited(clone, "2.0 * values", "values * 2.0", monkeypatch)
    assert "toy.mean quick: refused: code differs: toys.helper" in call("cells", "import", archive, code=1)
    assert "1 result: 1 verified" in call("verify", "toy.mean", "--profile", "quick")
    assert "Expected" in call("cells", "import", str(tmp_path / "none"), code=2)
    assert "Expected an experiment with profile='huge'" in call("cells", "keep", "--profile", "huge", code=2)
