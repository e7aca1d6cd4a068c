"""The cache of verdicts: it returns the verdicts of a check, and checks again when anything relevant has changed."""

import json
import os
import subprocess
import sys
import time
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


@pytest.mark.parametrize("content", ["", "[]", '{"key": "KEY", "verdicts": {"ID printed": ["exact"]}}', "\x00\xff"])
def test_a_damaged_file_only_costs_time(stored: Path, content: str):
    (claim,) = papers.claims(f"{PAPER}.lemmaC.3")
    stored.parent.mkdir()
    key = cache.key(PAPER)
    assert key is not None
    stored.write_bytes(content.replace("KEY", key).replace("ID", claim.id).encode("latin1"))
    assert cache.verdicts([claim]) == {claim.id: claim.check()}
    assert json.loads(stored.read_text())["key"] == key, "and it is mended"


def test_a_damaged_verdict_is_not_believed(stored: Path):
    (claim,) = papers.claims(f"{PAPER}.lemmaC.3")
    found = cache.verdicts([claim])
    whole = stored.read_bytes()
    flipped = whole.replace(b"stated minus derived", b"stated minus derivee")  # one bit
    assert flipped != whole
    stored.write_bytes(flipped)
    assert cache.verdicts([claim]) == found and stored.read_bytes() == whole, "and it is mended"


def test_a_folder_that_cannot_be_written_only_costs_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    file = tmp_path / "file"
    file.write_text("no folder")
    monkeypatch.setenv("DPNOTES_CACHE", str(file))
    monkeypatch.setattr(cache, "_LOADED", time.time() + 1)
    assert cache.verdicts(CLAIMS[:1]) == {CLAIMS[0].id: CLAIMS[0].check()}


def test_nothing_is_left_beside_the_file(stored: Path):
    cache.verdicts(CLAIMS)
    assert [path.name for path in stored.parent.iterdir()] == [stored.name]


def test_what_two_processes_find_adds_up(stored: Path):
    with cache.Verdicts() as one, cache.Verdicts() as two:
        one.of(CLAIMS[0])
        two.of(CLAIMS[1])
    known = json.loads(stored.read_text())["verdicts"]
    assert {name.split()[0] for name in known} == {CLAIMS[0].id, CLAIMS[1].id}


def test_what_was_found_before_an_interruption_is_kept(stored: Path):
    with pytest.raises(KeyboardInterrupt), cache.Verdicts() as verdicts:
        verdicts.of(CLAIMS[0])
        raise KeyboardInterrupt
    assert len(json.loads(stored.read_text())["verdicts"]) == 1


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
    sources = {
        "theory/cache.py": "",
        "theory/engine.py": "x = 1",
        "util/__init__.py": "",
        "util/files.py": "",
        "util/validate.py": "",
        "privacy/__init__.py": "",
        "privacy/accounts.py": "z = 3\n",
        "privacy/never.py": "",
        "papers/one/__init__.py": "",
        "papers/one/claims/__init__.py": "",
        "papers/one/claims/section.py": "from dpnotes.papers.one import (\n    notation,\n)\nimport sympy\n",
        "papers/one/notation.py": "from dpnotes.papers.one.deep.inner import y\n",
        "papers/one/deep/inner.py": "from dpnotes.privacy.accounts import z\n",
        "papers/one/algorithms.py": "import torch\n",
        "papers/two/claims/__init__.py": "",
    }
    for name, text in sources.items():
        path = tmp_path / "dpnotes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "dpnotes" / "theory" / "cache.py"))
    monkeypatch.setattr(cache, "_LOADED", time.time() + 60)
    return tmp_path / "dpnotes"


@pytest.mark.parametrize(
    ("name", "matters"),
    [
        ("theory/engine.py", True),
        ("util/validate.py", True),
        ("papers/one/__init__.py", True),
        ("papers/one/claims/__init__.py", True),
        ("papers/one/claims/section.py", True),
        ("papers/one/notation.py", True),
        ("papers/one/deep/inner.py", True),
        ("privacy/accounts.py", True),
        ("privacy/never.py", False),
        ("papers/one/algorithms.py", False),
        ("papers/two/claims/__init__.py", False),
    ],
)
def test_the_key_follows_the_source(copied: Path, name: str, matters: bool):
    before = cache.key("one")
    assert before is not None and cache.key("one") == before
    (copied / name).write_text((copied / name).read_text() + "z = 3\n")
    assert (cache.key("one") != before) == matters


def test_the_key_follows_new_files_of_the_engine_and_the_versions(copied: Path, monkeypatch: pytest.MonkeyPatch):
    before = cache.key("one")
    (copied / "theory" / "new.py").write_text("")
    assert cache.key("one") != before
    for owner, attribute in (
        (cache.importlib.metadata, "version"),
        (cache.platform, "python_version"),
        (cache.platform, "machine"),
    ):
        before = cache.key("one")
        monkeypatch.setattr(owner, attribute, lambda *names: "another")
        assert cache.key("one") != before
        monkeypatch.undo()
        monkeypatch.setattr(cache, "__file__", str(copied / "theory" / "cache.py"))
        monkeypatch.setattr(cache, "_LOADED", time.time() + 60)


def test_there_is_no_key_for_what_was_edited_after_loading_or_is_not_there(
    copied: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cache, "_LOADED", time.time() - 60)
    assert cache.key("one") is None
    monkeypatch.setattr(cache, "_LOADED", time.time() + 60)
    assert cache.key("one") is not None and cache.key("nowhere") is None


def test_a_process_whose_source_was_edited_neither_reads_nor_writes(stored: Path, monkeypatch: pytest.MonkeyPatch):
    cache.verdicts(CLAIMS[:1])
    plant(stored)
    content = stored.read_text()
    monkeypatch.setattr(cache, "_LOADED", 0.0)
    assert cache.verdicts(CLAIMS[:1]) == {CLAIMS[0].id: CLAIMS[0].check()}
    assert stored.read_text() == content


@pytest.mark.slow
@pytest.mark.parametrize("paper", papers.PAPERS)
def test_the_sources_are_what_a_process_loads(paper: str):
    """Control of the search for imports: it finds every module that the claims load, except the entry module."""
    code = (
        "import sys; from dpnotes import papers; papers.claims(%r)\n"
        "for name, module in list(sys.modules.items()):\n"
        "    if name.startswith('dpnotes') and module.__file__: print(module.__file__)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code % paper]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    package = ROOT / "dpnotes"
    loaded = {Path(line).resolve() for line in out.splitlines()}
    loaded -= {(package / name).resolve() for name in ("__init__.py", "papers/__init__.py")}
    assert loaded <= {path.resolve() for path in cache.sources(paper)}
