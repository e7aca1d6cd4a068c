"""Papers by `dpnotes new-paper`, inside and outside of the package; `check-paper` accepts them, and no mistake."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpnotes import papers
from dpnotes.cli.main import app
from dpnotes.cli.new_paper import OBLIGATIONS

ROOT = Path(__file__).parents[2]
CARD = ("--title", "A paper of mine", "--authors", "Ada Lovelace, Charles Babbage", "--arxiv", "2601.00001")
CARD += ("--year", "2026")
# What the author changes in the worked example, by module.
CHANGES = {
    "notation.py": [('"momentum"', '"weight of the new gradient"'), (", the newest version", "v2")],
    "claims.py": [("import Identity\n", "import Identity\nfrom dpnotes.theory.claims import Severity\n")],
    **{f"{name}.py": [("recursive_momentum", "recursion")] for name in ("reference", "test_algorithms")},
    **{f"{name}.py": [("Storm", "Recursion")] for name in ("algorithms", "experiments")},
}
CHANGES["test_algorithms.py"].append(("Storm", "Recursion"))
MORE = """
at("lemma1", "Lemma 1", "The direction without momentum")(Identity(d, direction.subs(a, 1), g), "The correction is 0.")

at("lemma2", "Lemma 2", "The error by its definition")(
    Identity(error, 2 * (direction - F), direction - F),
    "The definition of the error.",
    Severity.CONSTANT("There is no factor of 2.", direction - F),
)
"""
ROWS = {
    "expected_verdicts.csv": "mine.lemma1,exact,\nmine.lemma2,contradicted,exact\n",
    "inventory/mine.csv": "lemma1,Lemma 1,checked\nlemma2,Lemma 2,checked\n",
}


def call(root: Path, *words: str | Path, program: str = "dpnotes", code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a program of dpnotes in a checkout: the package there, or else the package here."""
    path = os.pathsep.join(map(str, dict.fromkeys((root / "src", root, ROOT))))
    kept = {name: value for name, value in os.environ.items() if name != "DPNOTES_RESULTS"}
    here = kept | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", program, *map(str, words)]
    done = subprocess.run(command, cwd=root, env=here, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def write(root: Path, package: str) -> None:
    """Make the worked example a paper of four claims, with its stored result and notebook."""
    for name, changes in CHANGES.items():
        path = root / ("tests/papers/mine" if name.startswith("test") else package) / name
        text = path.read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path.write_text(text + MORE * (name == "claims.py"))
    for name, rows in ROWS.items():
        path = root / "tests" / name
        path.write_text(path.read_text() + rows)
    anchors = root / "tests/anchors.txt"
    anchors.write_text("\n".join(sorted([*anchors.read_text().split(), "mine.lemma1", "mine.lemma2"])) + "\n")
    call(root, "run", "mine.correction", "--profile", "quick")
    call(root, "--once", "notebooks/mine.ipynb", program="dpnotes.notebook.write")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A paper in a project of its own, of which the environment knows what pip would tell it."""
    root = tmp_path_factory.mktemp("outside") / "mine"
    call(ROOT, "new-paper", "mine", *CARD, "--outside", root)
    subprocess.run(
        [sys.executable, "-c", "import setuptools; setuptools.setup()", "-q", "egg_info"], cwd=root, check=True
    )
    write(root, "src/mine")
    return root


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_paper_outside_of_the_package_is_accepted_and_found(project: Path):
    rows = call(project, "check-paper", "mine").stdout.splitlines()
    assert [re.split(r"  +", row)[::2] for row in rows] == [[one.name, "ok"] for one in OBLIGATIONS]
    listed = call(project, "list").stdout
    assert all(name in listed for name in ("A paper of mine", "mine.lemma2", "mine.correction"))
    assert "4 claims: 3 exact, 1 contradicted" in call(project, "check", "mine").stdout
    assert "Charles Babbage" in call(project, "cite", "mine").stdout
    assert "answer       Yes" in call(project, "results", "mine.correction").stdout
    assert not [path for path in (ROOT / "notebooks/results").glob("mine*")], "results lie in the paper's project"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_paper_in_the_package_is_accepted_and_no_list_of_papers_is_edited(tmp_path: Path):
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    call(tmp_path, "new-paper", "mine", *CARD)
    write(tmp_path, "dpnotes/papers/mine")
    call(tmp_path, "check", "--errata", "--write")
    call(tmp_path, "status", "--write")
    changed = {path.relative_to(tmp_path).as_posix() for path, text in before.items() if path.read_bytes() != text}
    written = {"docs/errata.md", *(f"notebooks/results/{name}" for name in ("OUTSTANDING.md", "experiments.json"))}
    assert changed == {"tests/anchors.txt", "tests/expected_verdicts.csv", *written}, "the first two by new-paper, too"
    assert call(tmp_path, "check-paper", "mine").stdout.count("  ok\n") == len(OBLIGATIONS)
    files = ("tests/test_project.py", "tests/theory/test_orders.py", "tests/test_results.py")
    call(tmp_path, "-q", "-m", "not slow", *files, program="pytest")
    call(tmp_path, "-q", "-k", "list_names or json", "tests/cli/test_cli.py", program="pytest")
    call(tmp_path, "-q", "-k", "readme or row_is_left or published", "tests/papers/test_claims.py", program="pytest")


# ---------------------------------------------------------------- planted mistakes
BOUND = "(1 - weight) * change, self.batch_size)"
MISTAKES = {
    "a sensitivity that is halved": (
        "laws", "algorithms.py", BOUND, BOUND.replace("self", "2 * self"), "sensitivity: Expected l2_sensitivity to be",
    ),
    "a wrong correction": (
        "verdicts", "claims.py", 'of 2.", direction - F)', 'of 2.", direction + F)', "the correction of mine.lemma2 is",
    ),
    "a letter without a unit": (
        "verdicts", "notation.py", 't at x_t", _GRADIENT, REAL', 't at x_t", domain=REAL', "units differ",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_with_a_sentence_that_names_it(name: str, project: Path, tmp_path: Path):
    part, module, line, instead, sentence = MISTAKES[name]
    root = Path(shutil.copytree(project, tmp_path / "copy"))
    path = root / "src/mine" / module
    text = path.read_text()
    assert text.count(line) == 1
    path.write_text(text.replace(line, instead))
    rows = call(root, "check-paper", "mine", part, code=1).stdout.splitlines()
    assert rows and all(row.split()[0] == part for row in rows) and any(sentence in row for row in rows), rows


# ---------------------------------------------------------------- papers that are left out
def elsewhere(root: Path, **sources: str) -> None:
    """Write packages with an entry point each, whose key is the package's name or stands in a comment of its source."""
    info = root / "others-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1\n")
    keys = {name: source.partition("# ")[2].strip() or name for name, source in sources.items()}
    lines = [f"{key} = {name}" for name, key in keys.items()]
    (info / "entry_points.txt").write_text("\n".join(["[dpnotes.papers]", *lines]))
    for name, source in sources.items():
        (root / name).mkdir()
        (root / name / "__init__.py").touch()
        (root / name / "claims.py").write_text(source)


@pytest.mark.slow
def test_a_paper_that_is_broken_or_takes_a_key_is_named_and_the_others_work(tmp_path: Path):
    elsewhere(
        tmp_path,
        broken="import no_such_module",
        taken="# goldstein",
        other="from dpnotes.papers.goldstein.claims import *",
    )
    listed = call(tmp_path, "list")
    assert listed.stdout.count("\npaper ") == len(papers.PAPERS) - 1
    told = listed.stderr.splitlines()
    assert [line.partition(":")[0] for line in told] == ["dpnotes"] * 3, "a line for each"
    for sentence in (
        "the paper broken of broken to import, got ModuleNotFoundError at ",
        "The paper goldstein of taken is left out: dpnotes.papers.goldstein has this key.",
        "the paper other of other to import, got ValueError at ",
    ):
        assert sum(sentence in line for line in told) == 1, told
    refused = call(tmp_path, "check", "broken", code=2)
    assert refused.stdout == "" and "No module named 'no_such_module'" in refused.stderr.splitlines()[-1]
    call(tmp_path, "check-paper", "broken", code=2)
    assert "1 exact" in call(tmp_path, "check", "budget_schedules.lemma4.4.optimum").stdout
    chosen = call(tmp_path, "choose", "n=60000", "d=1000", "epsilon=2", "delta=1e-5", "--no-details")
    assert chosen.stdout and "goldstein of taken" in chosen.stderr


def test_a_paper_of_the_package_asks_for_no_entry_point(monkeypatch: pytest.MonkeyPatch):
    def refuse() -> None:
        raise AssertionError("entry points were read")

    monkeypatch.setattr(papers, "_entry_points", refuse)
    assert papers.claim("budget_schedules.lemma4.4.optimum") and papers.paper("goldstein").year == 2025
    with pytest.raises(AssertionError, match="were read"):
        papers.packages()


# ---------------------------------------------------------------- arguments, and the list
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("new-paper", "Mine", *CARD), "Expected 'Mine' to be a name in lower case"),
        (("new-paper", "privacy", *CARD), "Expected 'privacy' to be a name"),
        (("new-paper", "goldstein", *CARD), "Expected a new key, got goldstein, which is taken."),
        (("new-paper", "torch", *CARD, "--outside", "/nowhere"), "Expected a new key, got torch"),
        (("new-paper", "mine", *CARD, "--outside", str(ROOT)), "to be a new folder"),
        (("check-paper", "mine"), "Expected 'mine' to be one of: adaptive_batch"),
        (("check-paper", "goldstein", "law"), "Expected part='law' to be one of: notation, claims"),
    ],
)
def test_what_is_wrong_is_named(words: tuple[str, ...], message: str):
    result = CliRunner().invoke(app, [*words])
    assert result.exit_code == 2 and message in result.stderr and len(result.stderr.splitlines()) == 1


def test_what_is_not_given_is_asked_for(tmp_path: Path):
    words = ["new-paper", "mine", "--outside", str(tmp_path / "mine"), "--year", "2026"]
    result = CliRunner().invoke(app, words, input="A title\nAda Lovelace\n2601.00001\n")
    assert result.exit_code == 0 and "Title: " in result.stdout and "Year" not in result.stdout
    assert '"Ada Lovelace",' in (tmp_path / "mine/src/mine/notation.py").read_text()
    assert json.loads((tmp_path / "mine/notebooks/mine.ipynb").read_text())["cells"][0]["source"][0] == "# A title\n"


def test_the_list_of_contributing_is_that_of_the_command():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| (\w+) \| `([^`]+)` \| (.*) \|$", text.partition("## Adding a paper")[2], re.MULTILINE)
    assert rows == [(one.name, one.file, one.holds) for one in OBLIGATIONS]
