"""Copies of the notebooks: no work of a reader is lost, the originals stay unchanged, all links lead to copies."""

import importlib.util
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from command import call
from nbformat.sign import NotebookNotary

import dpnotes
from dpnotes.experiments import results_folder
from dpnotes.notebook import copies

ROOT = Path(__file__).parents[2]
MINE = "what I found out"


def lab(*arguments: str | Path, code: int = 0) -> str:
    return call("lab", *arguments, code=code).output


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A repository with two notebooks and a page, the originals of this test."""
    root = tmp_path / "repository"
    (root / "dpnotes").mkdir(parents=True)
    (root / "notebooks").mkdir()
    for name, text in {
        "00_start_here": "Go to [rates](rates.ipynb).",
        "rates": "See [docs/page.md](../docs/page.md).",
    }.items():
        cell = {"cell_type": "markdown", "id": "cell-00", "metadata": {}, "source": [text]}
        notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        (root / f"notebooks/{name}.ipynb").write_text(json.dumps(notebook, indent=1, sort_keys=True) + "\n")
    (root / "docs/deeper").mkdir(parents=True)
    links = "[one](../notebooks/rates.ipynb#Top) [two](deeper/proof.md) [three](../README.md)"
    (root / "docs/page.md").write_text(links)
    (root / "docs/deeper/proof.md").write_text("[back](../page.md), $[0, 1](x)$, [out](https://example.org/a.md)")
    monkeypatch.setattr(dpnotes, "__file__", str(root / "dpnotes" / "__init__.py"))
    monkeypatch.delenv("DPNOTES_RESULTS", raising=False)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    monkeypatch.chdir(tmp_path)
    return root


# ---------------------------------------------------------------- what is there stays
def test_a_first_copy_goes_into_the_repositorys_own_folder_and_says_so(repository: Path):
    assert "4 files copied into " in lab("--copy-only")
    made = contents(repository / "my_notebooks")
    assert made.keys() == {".copies.json", "00_start_here.ipynb", "rates.ipynb", "docs/page.md", "docs/deeper/proof.md"}
    assert made["00_start_here.ipynb"] == (repository / "notebooks/00_start_here.ipynb").read_bytes()
    assert lab("--copy-only").startswith("Nothing to copy: "), "a second time"


def test_what_a_reader_wrote_is_never_overwritten_and_what_is_new_is_added(repository: Path, tmp_path: Path):
    lab("mine", "--copy-only")
    (tmp_path / "mine/00_start_here.ipynb").write_text(MINE)
    (tmp_path / "mine/rates.ipynb").unlink()
    (tmp_path / "mine/own.ipynb").write_text(MINE)
    shutil.copy(repository / "notebooks/rates.ipynb", repository / "notebooks/another.ipynb")
    assert "2 files copied into mine." in lab("mine", "--copy-only")
    for name in ("00_start_here.ipynb", "own.ipynb"):
        assert (tmp_path / "mine" / name).read_text() == MINE
    assert (tmp_path / "mine/another.ipynb").is_file() and (tmp_path / "mine/rates.ipynb").is_file()


@pytest.mark.parametrize("wrote", [True, False])
def test_a_copy_of_an_older_original_is_named_in_one_line_until_it_is_renewed(
    repository: Path, tmp_path: Path, wrote: bool
):
    lab("my folder", "--copy-only")
    copy, original = tmp_path / "my folder/rates.ipynb", repository / "notebooks/rates.ipynb"
    if wrote:
        copy.write_text(MINE)
    before = copy.read_bytes()
    original.write_text(original.read_text().replace("See", "Look at"))
    for _ in range(2):
        (line,) = lab("my folder", "--copy-only").splitlines()
        assert "rates.ipynb" in line and line.endswith("dpnotes lab 'my folder' --fresh")
        assert copy.read_bytes() == before
    assert "Yours are in my folder/backup_" in lab("my folder", "--copy-only", "--fresh")
    assert b"Look at" in copy.read_bytes()
    (backup,) = (tmp_path / "my folder").glob("backup_*")
    assert contents(backup) == {"rates.ipynb": before}
    assert lab("my folder", "--copy-only") == "Nothing to copy: my folder is up to date.\n"


def test_renewing_loses_nothing_however_often(repository: Path, tmp_path: Path):
    lab("mine", "--copy-only")
    (tmp_path / "mine/figure.png").write_text(MINE)
    written = []
    for number in range(3):
        for name in ("rates.ipynb", "docs/page.md"):
            (tmp_path / "mine" / name).write_text(f"{MINE} {number} {name}")
            written.append(f"{MINE} {number} {name}".encode())
        lab("mine", "--copy-only", "--fresh")
    kept = contents(tmp_path / "mine")
    assert set(written) <= {*kept.values()} and kept["figure.png"].decode() == MINE
    assert {kept[name] for name in copies.originals()} == {*copies.originals().values()}


def test_a_copy_whose_original_moved_is_kept_beside_the_new_one(repository: Path, tmp_path: Path):
    lab("mine", "--copy-only")
    old, new = tmp_path / "mine/rates.ipynb", tmp_path / "mine/evidence/rates.ipynb"
    old.write_text(MINE)
    (repository / "notebooks/evidence").mkdir()
    original = repository / "notebooks/rates.ipynb"
    (repository / "notebooks/evidence/rates.ipynb").write_text(original.read_text().replace("../docs", "../../docs"))
    original.unlink()
    done = copies.copy_to(Path("mine"))
    assert done.added == ("evidence/rates.ipynb",) and "rates.ipynb" in done.older
    assert old.read_text() == MINE and b"[docs/page.md](../docs/page.md)" in new.read_bytes()
    lab("mine", "--copy-only", "--fresh")
    (backup,) = (tmp_path / "mine").glob("backup_*")
    assert not old.exists() and new.exists() and (backup / "rates.ipynb").read_text() == MINE


def test_a_lost_record_costs_a_line_and_no_work(repository: Path, tmp_path: Path):
    lab("mine", "--copy-only")
    (tmp_path / "mine/rates.ipynb").write_text(MINE)
    (tmp_path / "mine/.copies.json").unlink()
    assert "rates.ipynb" in lab("mine", "--copy-only")
    assert (tmp_path / "mine/rates.ipynb").read_text() == MINE


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)); "
    command = [sys.executable, "-c", f"{limit}from dpnotes.cli.main import main; main()", "lab", "mine", "--copy-only"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.returncode == 2 and "File too large: 'mine/" in run.stderr and len(run.stderr.splitlines()) == 1
    assert not contents(tmp_path / "mine")


# ---------------------------------------------------------------- the originals are out of reach
@pytest.mark.parametrize("folder", [".", "notebooks", "notebooks/../notebooks"])
def test_a_folder_of_originals_is_refused(repository: Path, folder: str):
    before = contents(repository)
    assert "Expected folder=" in lab(repository / folder, "--copy-only", "--fresh", code=2)
    assert contents(repository) == before


def test_a_link_to_an_original_is_refused(repository: Path, tmp_path: Path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/rates.ipynb").symlink_to(repository / "notebooks/rates.ipynb")
    assert "Expected folder='mine'" in lab("mine", "--copy-only", "--fresh", code=2)


def test_jupyterlab_serves_the_working_folder_and_nothing_above(repository: Path, monkeypatch: pytest.MonkeyPatch):
    run: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr(os, "execve", lambda program, *rest: run.append(rest))
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/theirs")
    lab("mine", "--port", "9000", "--no-browser")
    ((command, environment),) = run
    ours, theirs = environment["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert theirs == "/theirs" and (Path(ours) / "labconfig/default_setting_overrides.json").exists()
    assert f"--ServerApp.root_dir={Path('mine').resolve()}" in command and "--no-browser" in command
    assert "--port=9000" in command and "--LabApp.default_url=/lab/tree/00_start_here.ipynb" in command


def test_jupyterlab_trusts_copies_that_are_as_they_left_the_package(repository: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "execve", lambda program, *rest: None)
    lab("mine", "--copy-only")
    changed = Path("mine/rates.ipynb")
    changed.write_text(changed.read_text().replace("See", MINE))
    lab("mine")
    signed = NotebookNotary(data_dir=os.environ["JUPYTER_DATA_DIR"]).check_signature
    assert signed(nbformat.read("mine/00_start_here.ipynb", 4)) and not signed(nbformat.read(changed, 4))


def test_without_jupyterlab_one_line_says_what_to_install(repository: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (line,) = lab("mine", code=2).splitlines()
    assert line == "dpnotes: Expected jupyterlab, which is not installed: pip install 'dpnotes[lab]'"
    assert not Path("mine").exists()
    lab("mine", "--copy-only")


# ---------------------------------------------------------------- an installation
@pytest.mark.slow
def test_what_a_wheel_carries_is_copied_into_the_current_folder_and_is_not_written_into(repository: Path):
    carried = repository / "dpnotes" / "carried"
    for name in ("notebooks", "docs"):
        shutil.move(repository / name, carried / name)
    (repository / "notebooks").mkdir()  # those of another package, at the same place
    assert results_folder() == carried / "notebooks" / "results"
    assert lab("--copy-only") == "4 files copied into dpnotes_notebooks.\n"
    rates = carried / "notebooks" / "rates.ipynb"
    rates.write_text(rates.read_text().replace("See", "Look at"))
    assert lab("--copy-only").endswith(": dpnotes lab --fresh\n")
    before = contents(carried)
    assert "Expected folder=" in lab(carried / "notebooks", "--copy-only", code=2)
    assert contents(carried) == before


# ---------------------------------------------------------------- links
def broken(made: dict[str, bytes]) -> list[str]:
    """Return links that lead nowhere in the folder or out of it, including those in stored outputs."""
    found = []
    for name, content in made.items():
        for target in re.findall(r"\]\(([^()\s]+)\)|href=\\?[\"']([^\"'\\]+)", content.decode()):
            path = "".join(target).partition("#")[0]
            if re.search(r"\.(ipynb|md|py|toml|png)$|/$|^\.\.", path) and "://" not in path:
                there = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
                found += [f"{name}: {path}"] if there not in made else []
    return found


def test_every_link_leads_to_a_copy(repository: Path):
    made = copies.originals()
    assert made["docs/page.md"] == b"[one](../rates.ipynb#Top) [two](deeper/proof.md) three"
    assert made["docs/deeper/proof.md"] == (repository / "docs/deeper/proof.md").read_bytes()
    assert b"[docs/page.md](docs/page.md)" in made["rates.ipynb"]
    assert not broken(made)
    (repository / "docs/page.md").unlink()
    assert not broken(copies.originals()), "a page that no wheel carries is named without a link"


def test_the_links_of_the_real_notebooks_and_pages_lead_to_copies():
    made = copies.originals()
    named = {path.relative_to(ROOT / "notebooks").as_posix() for path in copies.notebooks()}
    assert named <= made.keys() and "docs/theory.md" in made
    assert not broken(made)


def test_a_copy_is_its_original_but_for_its_links():
    def without_links(text: str) -> str:
        return re.sub(r"\[([^\[\]]*)\]\([^()\s]+\)", r"\1", text)

    for name, content in copies.originals().items():
        original = ROOT / ("notebooks" if name.endswith(".ipynb") else "") / name
        assert without_links(content.decode()) == without_links(original.read_text()), name


def test_an_exported_page_folds_what_the_notebook_folds_and_shows_stills(tmp_path: Path):
    page = tmp_path / "page.html"
    copies.to_page(ROOT / "notebooks/00_start_here.ipynb", page)
    notebook, text = nbformat.read(ROOT / "notebooks/00_start_here.ipynb", as_version=4), page.read_text()
    folds = [cell.metadata.get("jupyter", {}) for cell in notebook.cells if cell.cell_type == "code"]
    for fold, words in (("source_hidden", "code that draws"), ("outputs_hidden", "what it gives")):
        assert text.count(f">{words}") == sum(bool(cell.get(fold)) for cell in folds)
    assert text.count("<figure>") == sum("<figure>" in str(cell.get("outputs")) for cell in notebook.cells) > 0
