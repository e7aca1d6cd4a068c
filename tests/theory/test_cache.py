"""The cache of verdicts: it returns the verdicts of a check, and checks again when anything relevant has changed."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dpnotes import papers
from dpnotes.theory import cache
from dpnotes.theory.claims import Claim
from dpnotes.theory.statements import Identity
from dpnotes.theory.symbols import PaperSymbols
from dpnotes.theory.verdicts import Kind, Verdict
from dpnotes.util import files

ROOT = Path(__file__).parents[2]
PAPER = "budget_schedules"
CLAIMS = papers.claims(f"{PAPER}.lemmaC.4", f"{PAPER}.lemma4.4")
WRONG = Verdict(Kind.UP_TO_LOGS, "planted")


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of the paper's verdicts in an empty cache, for a process whose source was not edited since its start."""
    monkeypatch.setenv("DPNOTES_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "_LOADED", time.time() + 1)
    return tmp_path / "verdicts" / f"{PAPER}.json"


def plant(stored: Path) -> None:
    """Replace every stored verdict by a wrong one, to detect whether it is read."""
    document = json.loads(stored.read_text())
    document["verdicts"] = {name: [str(WRONG.kind), WRONG.evidence] for name in document["verdicts"]}
    del document["manifest_sha256"]
    stored.write_bytes(files.sealed_json(document))


@pytest.mark.slow
def test_it_says_what_the_check_says(stored: Path):
    checked = {claim.id: claim.check() for claim in CLAIMS}
    assert cache.verdicts(CLAIMS) == checked
    assert {name.split()[0] for name in json.loads(stored.read_text())["verdicts"]} == set(checked)
    assert cache.verdicts(CLAIMS) == checked
    plant(stored)
    assert set(cache.verdicts(CLAIMS).values()) == {WRONG}, "control: it is read"
    assert cache.verdicts(CLAIMS, cached=False) == checked
    assert cache.verdicts(CLAIMS) == checked, "what was found without the cache is kept"


def test_corrections_have_their_own_verdicts(stored: Path):
    wrong = papers.claim(f"{PAPER}.lemmaC.4.inversion")
    for _ in range(2):
        with cache.Verdicts() as verdicts:
            found = verdicts.of(wrong), verdicts.of_correction(wrong)
            assert verdicts.of_correction(papers.claim(f"{PAPER}.lemmaC.3")) is None
        correction = wrong.correction()
        assert correction is not None and found == (wrong.check(), correction.check())
    plant(stored)
    with cache.Verdicts() as verdicts:
        assert verdicts.of_correction(wrong) == WRONG


@pytest.mark.parametrize("spoil", [lambda whole: b"[]", lambda whole: whole.replace(b"derived", b"derivee")])
def test_a_damaged_file_only_costs_time(stored: Path, spoil: Callable[[bytes], bytes]):
    (claim,) = papers.claims(f"{PAPER}.lemmaC.3")
    found, whole = cache.verdicts([claim]), stored.read_bytes()
    stored.write_bytes(spoil(whole))
    assert spoil(whole) != whole
    assert cache.verdicts([claim]) == found and stored.read_bytes() == whole, "and it is mended"


def test_a_folder_that_cannot_be_written_only_costs_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    file = tmp_path / "file"
    file.write_text("no folder")
    monkeypatch.setenv("DPNOTES_CACHE", str(file))
    monkeypatch.setattr(cache, "_LOADED", time.time() + 1)
    assert cache.verdicts(CLAIMS[:1]) == {CLAIMS[0].id: CLAIMS[0].check()}


def test_a_claim_made_by_hand_is_always_checked(stored: Path):
    (claim,) = papers.claims(f"{PAPER}.lemmaC.3")
    assert isinstance(claim.statement, Identity)
    cache.verdicts([claim])
    mutant = replace(claim, statement=replace(claim.statement, value=2 * claim.statement.value))
    assert cache.verdicts([mutant])[claim.id].kind == Kind.CONTRADICTED
    assert cache.verdicts([claim])[claim.id].kind == Kind.EXACT, "and its verdict is not kept"
    x = PaperSymbols("example").symbol("x", "a number")
    stranger = Claim("example.one", "title", "Theorem 1", Identity(x, x, x), "here")
    assert cache.verdicts([stranger])["example.one"].kind == Kind.EXACT
    assert [path.name for path in stored.parent.iterdir()] == [stored.name]


# ---------------------------------------------------------------- the key
@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A package of a few small files in place of ours."""
    for name in ("theory/cache.py", "util/files.py", "privacy/tree.py", "papers/one/claims.py", "papers/two/claims.py"):
        path = tmp_path / "dpnotes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "dpnotes" / "theory" / "cache.py"))
    monkeypatch.setattr(cache, "_LOADED", time.time() + 60)
    return tmp_path / "dpnotes"


def test_the_key_follows_the_source_and_the_versions(copied: Path, monkeypatch: pytest.MonkeyPatch):
    before = cache.key("one")
    (copied / "papers/two/claims.py").write_text("")
    assert before is not None and cache.key("one") == before
    for name in ("theory/engine.py", "util/files.py", "privacy/tree.py", "papers/one/claims.py"):
        (copied / name).write_text("x = 2\n")
        assert cache.key("one") != before
        before = cache.key("one")
    monkeypatch.setattr(cache.importlib.metadata, "version", lambda name: "another")
    assert cache.key("one") != before


def test_a_process_whose_source_was_edited_neither_reads_nor_writes(stored: Path, monkeypatch: pytest.MonkeyPatch):
    cache.verdicts(CLAIMS[:1])
    plant(stored)
    content = stored.read_text()
    monkeypatch.setattr(cache, "_LOADED", 0.0)
    assert cache.verdicts(CLAIMS[:1]) == {CLAIMS[0].id: CLAIMS[0].check()}
    assert stored.read_text() == content


@pytest.mark.slow
def test_the_sources_are_what_a_process_loads():
    """Control of the folders: the claims load nothing else of ours, except the entry modules."""
    code = (
        "import sys; from dpnotes import papers; papers.claims()\n"
        "for name, module in list(sys.modules.items()):\n"
        "    if name.startswith('dpnotes') and module.__file__: print(module.__file__)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    loaded = {Path(line).resolve() for line in out.stdout.splitlines()}
    loaded -= {ROOT / "dpnotes" / name for name in ("__init__.py", "papers/__init__.py")}
    assert loaded and loaded <= {path.resolve() for paper in papers.PAPERS for path in cache.sources(paper)}
