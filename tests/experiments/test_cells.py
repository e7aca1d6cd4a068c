"""Finished cells outlive their machine: kept beside the results and transferred; damaged or foreign cells are named."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import call
from toy_package import Toy

from dpnotes.cli import catalogue
from dpnotes.experiments import bring, cells, export, keep, records
from dpnotes.experiments.cells import Cells
from dpnotes.experiments.records import Records, cell_line, packed
from dpnotes.util import files


def kept_alone(toy: Toy, *indices: int) -> Path:
    """Keep some cells in one part beside the results, and nowhere else."""
    toy.some(*indices)
    assert keep(toy.experiment, "quick") == len(indices)
    shutil.rmtree(toy.cache)
    (part,) = toy.parts()
    return part


# ---------------------------------------------------------------- kept beside the results
@pytest.mark.slow
def test_killed_and_gone_on_with_in_another_clone(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = Toy(tmp_path / "whole").enter(monkeypatch)
    uninterrupted = whole.run()
    toy.enter(monkeypatch).killed(2)
    assert keep(toy.experiment, "quick") == 2 and keep(toy.experiment, "quick") == 0, "what is kept is not kept again"
    toy.killed(3)
    assert toy.computed() == ["0", "1", "2", "2", "3"] and keep(toy.experiment, "quick") == 1
    assert len(toy.parts()) == 2, "a part that stands is not changed"
    toy.commit()
    other = toy.clone(tmp_path / "two").enter(monkeypatch)
    assert other.standing().reason.startswith("3 of 4 or more cells finished; missing: no result stored")
    assert "3 of them kept beside the results" in other.standing().reason
    other.killed(3)
    resumed = other.run()
    assert other.computed()[:2] == ["3", "3"] and len(other.computed()) == 3
    assert resumed.decision == uninterrupted.decision and other.stored() == whole.stored()
    assert not (other.results / "parts").exists(), "complete: its parts are removed"


def test_parts_are_small_whole_and_without_checkpoints(toy: Toy, monkeypatch: pytest.MonkeyPatch):
    toy.some(0, 1, 2)
    (file,) = toy.cells()
    (file.parent / "0123456789abcdef.pt").write_bytes(bytes(10**6))
    most = file.stat().st_size // 2 + 500
    monkeypatch.setattr(cells, "MAX_PART_BYTES", most)
    assert keep(toy.experiment, "quick") == 3 and len(toy.parts()) > 1
    assert all(path.suffix == ".cells" and path.stat().st_size <= most for path in toy.parts())
    shutil.rmtree(toy.cache)
    assert toy.standing().reason.startswith("3 of 4 or more cells finished")
    toy.some(3)
    monkeypatch.setattr(cells, "MAX_PART_BYTES", 1000)
    with pytest.raises(ValueError, match="Expected cell .* of .* bytes <= .* to be kept"):
        keep(toy.experiment, "quick")


def test_parts_go_when_the_result_is_stored_and_those_that_outlive_it_are_removed(toy: Toy):
    part = kept_alone(toy, 0, 1)
    content = part.read_bytes()
    for remove in (toy.run, toy.run, lambda: keep(toy.experiment, "quick")):
        files.write({part: content})  # left by a run that was killed at its very end
        remove()
        assert not toy.parts(), remove
    assert len(toy.computed(clear=True)) == 3
    toy.without_result()
    files.write({part: content})
    beside = Cells(toy.experiment, "quick")
    assert len(beside.finished()) == 5
    toy.run(resume=False)
    assert len(toy.computed()) == 5, "a fresh start takes no kept cells"
    part.unlink(missing_ok=True)
    assert not beside.beside.by_name(), "a run beside it goes on without them"


# ---------------------------------------------------------------- damage
def flipped(line: bytes, place: int = -9) -> bytes:
    return line[:place] + bytes([line[place] ^ 1]) + line[place:][1:]


# Changes to the lines of a file with all five cells, the number of lost cells, and the message.
HARMS: dict[str, tuple[Callable[[list[bytes]], list[bytes]], int, str]] = {
    "a bit of a cell": (lambda lines: [*lines[:2], flipped(lines[2]), *lines[3:]], 1, "begin a record"),
    "its sha256": (lambda lines: [*lines[:2], flipped(lines[2], 9), *lines[3:]], 1, "begin a record"),
    "a bit of what they are of": (lambda lines: [flipped(lines[0]), *lines[1:]], 5, "begin with what its cells are of"),
    "a line of something else": (lambda lines: [lines[0], b"PK\x03\x04\n", *lines[1:]], 0, "begin a record"),
    "a cut": (lambda lines: [*lines[:-1], lines[-1][:-20]], 1, ""),
    "a loss": (lambda lines: [], 5, ""),
}


@pytest.mark.parametrize(("harm", "lost", "said"), HARMS.values(), ids=HARMS)
@pytest.mark.parametrize("beside", [False, True], ids=["in the cache", "beside the results"])
def test_damage_is_named_and_costs_its_cells_alone(toy: Toy, harm, lost: int, said: str, beside: bool):
    toy.run()
    before = toy.stored()
    toy.without_result()
    if beside:
        assert keep(toy.experiment, "quick") == 5
        shutil.rmtree(toy.cache)
    (path,) = toy.parts() if beside else toy.cells()
    path.write_bytes(b"".join(harm(path.read_bytes().splitlines(keepends=True))))
    assert said in toy.standing().reason
    lines = list[str]()
    toy.run(report=lines.append)
    warned = [line for line in lines if line.startswith("Warning: Expected ")]
    assert all(str(path) in line and "computed again" in line for line in warned)
    assert [line for line in warned if said in line] if said else not warned
    assert len(toy.computed()) == 5 + lost and toy.stored() == before


def test_a_cell_that_was_damaged_in_one_file_is_taken_from_another(toy: Toy):
    toy.some(0)
    (path,) = toy.cells()
    for name in ("0" * 16, "f" * 16):  # names before it and after it
        path.with_stem(name).write_bytes(flipped(path.read_bytes()))
    assert keep(toy.experiment, "quick") == 1


def test_processes_that_append_see_each_other_s_cells(toy: Toy):
    reading = Records(toy.cache / "shared")
    for index in range(3):
        line = cell_line({"value": np.array([0.5])}, {"cell": {"index": index}})
        path = records.append(None, reading.place, {"git_commit": None}, line[:-9] if index == 2 else line)
        assert len(reading.by_name()) == min(index + 1, 2) and not reading.damage, "the last line is being written"
    with path.open("ab") as file:
        file.write(line[-9:])
    assert len(reading.by_name()) == 3


# ---------------------------------------------------------------- carried
def test_cells_are_carried_in_a_file_or_a_folder(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    kept_alone(toy, 0, 1)
    toy.some(3)
    archive = tmp_path / "carried"
    assert export([(toy.experiment, "quick"), (toy.experiment, "paper")], archive) == {"toy.mean quick": 3}
    with pytest.raises(ValueError, match="Expected finished cells, in the cache or beside the results; found none"):
        export([(toy.experiment, "paper")], tmp_path / "none")
    other = Toy(tmp_path / "two").enter(monkeypatch)
    found = bring([other.experiment], archive)
    assert (found.added, found.known, found.refused) == ({"toy.mean quick": 3}, {}, {})
    assert bring([other.experiment], archive).known == {"toy.mean quick": 3}
    assert other.run().state == "stored" and other.computed()[0] == "2" and len(other.computed()) == 2
    toy.enter(monkeypatch).some(2)
    os.truncate(toy.cells()[0], toy.cells()[0].stat().st_size - 9)  # a crash truncated one of two records
    third = Toy(tmp_path / "three").enter(monkeypatch)
    assert bring([third.experiment], toy.cache).added == {"toy.mean quick": 1}


def test_what_is_no_archive_is_refused_in_a_sentence_and_nothing_is_taken(toy: Toy, tmp_path: Path):
    toy.some(0, 1)
    archive = tmp_path / "carried"
    export([(toy.experiment, "quick")], archive)
    shutil.rmtree(toy.cache)
    whole = archive.read_bytes()
    for content in (flipped(whole), b"PK\x03\x04\n", whole + b"PK\x03\x04\n"):
        archive.write_bytes(content)
        with pytest.raises(files.DamagedFileError, match="Expected .*carried"):
            bring([toy.experiment], archive)
    with pytest.raises(FileNotFoundError, match="Expected .*none to be a file that was exported, or a folder"):
        bring([toy.experiment], tmp_path / "none")
    assert not toy.cells()
    archive.write_bytes(whole)
    assert bring([toy.experiment], archive).added, "the control"


NOBODY, OTHERS = "there is no such experiment or profile here", "of other parameters or data: "
FORGED: list[tuple[dict[str, Any], str]] = [
    ({"spec": {"parameters": {"num_runs": 6}}}, f"{OTHERS}num_cells, num_runs, seed"),
    ({"data": ["numbers sha256:02"]}, f"{OTHERS}data"),
    ({"experiment": "../../evil"}, NOBODY), ({"profile": "../../evil"}, NOBODY),
]  # fmt: skip


@pytest.mark.parametrize(("forged", "reason"), FORGED)
def test_cells_of_anything_else_are_refused_by_name_and_lead_nowhere(toy: Toy, tmp_path: Path, forged, reason: str):
    """The name of an experiment is first looked up among the existing ones, and only then becomes part of a path."""
    archive, header = tmp_path / "carried", Cells(toy.experiment, "quick").header
    line = cell_line({"value": np.array([1.0])}, {"cell": {"index": 9}})
    archive.write_bytes(packed({"header": header | forged}) + line)
    (said,) = bring([toy.experiment], archive).refused.values()
    assert reason in said and not list(tmp_path.rglob("*evil*")) and not toy.cells()
    archive.write_bytes(packed({"header": header | {"source": "0" * 64}}) + line)
    assert bring([toy.experiment], archive).added == {"toy.mean quick": 1}, "control: other code is no reason"
    toy.pending("| toy.mean quick | new draws | other numbers | a minute |")
    assert "the result is disputed" in bring([toy.experiment], archive).refused["toy.mean quick"]


# ---------------------------------------------------------------- the command line
def test_the_command_line_keeps_exports_and_imports(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def said(*words: str, code: int = 0) -> str:
        return call(*words, code=code).output

    monkeypatch.setattr(catalogue, "all_experiments", lambda: [toy.experiment])
    toy.some(0, 1)
    archive = str(tmp_path / "carried")
    assert "toy.mean quick: 2 cells" in said("cells", "export", archive, "toy.mean", "--profile", "quick")
    assert "toy.mean quick: 2 cells kept" in said("cells", "keep")
    shutil.rmtree(toy.cache)
    assert "2 cells here before" in said("cells", "import", archive), "kept, though not in the cache"
    assert "partial     2 of 4 or more cells finished" in said("status")
    toy.edit("experiment", '"seed": 7', '"seed": 8')
    assert "toy.mean quick: refused: of other parameters or data: seed" in said("cells", "import", archive, code=1)
    assert "Expected profile='huge' to be one of: paper, quick" in said("cells", "keep", "--profile", "huge", code=2)
