"""The command line, through typer's runner and as a real process, on the real papers and on a toy experiment."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from command import call
from typer.testing import CliRunner

import dpnotes
from dpnotes import experiments, papers
from dpnotes.cli import catalogue, doctor
from dpnotes.cli.main import app
from dpnotes.experiments import Context, Cost, Decision, Experiment, Spec, runner
from dpnotes.random import draws
from dpnotes.theory import cache
from dpnotes.theory.calculators import Calculator, parameters
from dpnotes.util import files

ROOT = Path(__file__).parents[2]
A_CLAIM = "budget_schedules.thm4.5.T"
SECTION_3_4 = "noisy_sgd.sec3.4.n", "d=100", "epsilon=1", "L=1", "f_max=1"


def one_error(*arguments: str) -> str:
    """Return the single line on standard error with which a command refuses."""
    result = call(*arguments, code=2)
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("dpnotes: ")
    return line


PROGRAM = "from dpnotes.cli.main import main; main()"


def process(*arguments: str, program: str = PROGRAM, env: dict[str, str] | None = None) -> subprocess.Popen:
    whole = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"} | (env or {})
    # A shell's "&" makes children ignore SIGINT if the tests run in the background.
    hear = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    command = [sys.executable, "-c", hear + program, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=whole)


# ---------------------------------------------------------------- a toy experiment
def toy_cells(spec: Spec) -> list[dict[str, Any]]:
    return [{"number": number} for number in range(3)]


def toy_run_cell(spec: Spec, cell: dict[str, Any], context: Context) -> dict[str, Any]:
    if cell["number"] == 2 and os.environ.get("TOY_HANGS"):
        time.sleep(60)
    return {"number": [cell["number"]], "square": [cell["number"] ** 2 + 0.5]}


def toy_decide(frame: Any, spec: Spec) -> Decision:
    return Decision("reproduced", f"{len(frame)} rows")


TOY = Experiment(
    paper="toy",
    name="squares",
    title="Squares of small numbers",
    question="How large are they?",
    specs={"quick": Spec("toy", "squares", "quick", {"decision_rule": "always"})},
    cells=toy_cells,
    run_cell=toy_run_cell,
    decide=toy_decide,
    unaccounted=("the choice of the numbers",),
)
# The program of a process that also knows the toy.
WITH_TOY = (
    "from tests.cli.test_cli import TOY; from dpnotes.cli import catalogue, main; "
    "catalogue.all_experiments = lambda: [TOY]; main.main()"
)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(catalogue, "all_experiments", lambda: [TOY])
    monkeypatch.setenv("DPNOTES_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("DPNOTES_CACHE", str(tmp_path / "cache"))
    (tmp_path / "results").mkdir()
    return tmp_path


# ---------------------------------------------------------------- what there is
def test_list_names_papers_claims_and_experiments():
    lines = call("list").stdout.splitlines()
    assert {line.split()[0] for line in lines} == {"paper", "claim", "experiment"}
    names = {line.split()[1] for line in lines}
    assert {"budget_schedules", A_CLAIM} <= names
    assert names == set(papers.PAPERS) | {c.id for c in papers.claims()} | {e.id for e in catalogue.all_experiments()}
    document = json.loads(call("list", "--json").stdout)
    assert {entry["id"] for entry in document["claims"]} == {claim.id for claim in papers.claims()}


@pytest.mark.parametrize("line", [[], ["--"]])
def test_without_a_command_the_usage_and_status_2(line: list[str]):
    result = CliRunner().invoke(app, line, prog_name="dpnotes")
    assert result.exit_code == 2 and result.output.startswith("Usage: ")


def test_version_and_help_are_plain():
    assert call("--version").stdout.startswith("dpnotes 0.")
    for command in typer.main.get_command(app).list_commands(None):  # type: ignore[attr-defined]
        text = call(command, "--help").stdout
        assert text.startswith("Usage: ") and text.isascii(), "no boxes"


# ---------------------------------------------------------------- claims
def test_check_prints_a_line_a_claim_and_the_counts_last():
    *lines, last = call("check", A_CLAIM, "budget_schedules.lemma4.4").stdout.splitlines()
    claims = {claim.id: claim for claim in papers.claims()}
    assert lines[0].startswith(f"{A_CLAIM} ") and len(lines) >= 2
    for line in lines:
        verdict = claims[line.split()[0]].check()
        assert f" {verdict.kind} " in line and " ".join(verdict.evidence.split()) in line
    assert last.startswith(f"{len(lines)} claims: ")


def test_check_says_on_what_a_verdict_rests():
    first, last = call("check", "adaptive_batch.remark3.12").stdout.splitlines()
    assert "up to logs, given lemma3.3.decrease" in first and last == "1 claim: 1 up to logs (conditional)"
    (entry,) = json.loads(call("check", "adaptive_batch.remark3.12", "--json").stdout)["claims"]
    assert entry["verdict"] == "up to logs" and entry["given"] == ["adaptive_batch.lemma3.3.decrease"]
    assert "mechanism  private selection of Section 3.4" in call("check", "--errata", "noisy_sgd.sec3.4").stdout


def test_check_counts_by_paper_where_there_are_several(monkeypatch: pytest.MonkeyPatch):
    few = [claim for paper in papers.PAPERS for claim in papers.claims(paper)[:2]]
    monkeypatch.setattr(papers, "claims", lambda *names: tuple(few))
    *_, last = lines = call("check").stdout.splitlines()
    counts = [line.split()[0] for line in lines[len(few) : -1]]
    assert counts == (list(papers.PAPERS) if len(papers.PAPERS) > 1 else [])
    assert last.startswith(f"{len(few)} claims: ")
    document = json.loads(call("check", "--json").stdout)
    assert sum(sum(some.values()) for some in document["counts_by_paper"].values()) == len(few)


def test_check_errata_and_json():
    *lines, last = call("check", "--errata", "budget_schedules").stdout.splitlines()
    document = json.loads(call("check", "--errata", "budget_schedules", "--json").stdout)
    errata = document["errata"]
    assert {entry["id"] for entry in errata} == {c.id for c in papers.claims("budget_schedules") if c.erratum}
    assert last.startswith(f"{len(errata)} errata: ") and sum(document["counts"].values()) == len(errata)
    blocks = "\n".join(lines).replace("\n  ", "\t").splitlines()
    for block, entry in zip(blocks, errata, strict=True):
        head, *details = block.split("\t")
        assert head.split() == [entry["id"], *entry["severity"].split()]
        assert {"printed", "evidence", "wording", "where", "newer"} <= {detail.split()[0] for detail in details}
        for name in ("printed", "evidence", "wording", "version", "locator"):
            assert " ".join(entry[name].split()) in block
        assert entry["printed"] != entry["corrected"] and entry["printed_latex"] != entry["corrected_latex"]
        assert entry["newer_versions"] in ("fixed", "present", "not checked") and "\\" not in block


def test_claims_lists_what_others_need_to_cite_and_check_one():
    names = "adaptive_batch.remark3.12", "budget_schedules.lemmaC.4", "drift_escape.own", "noisy_sgd.sec3.4"
    document = json.loads(call("claims", *names, "--json").stdout)
    assert document["version"] == dpnotes.__version__
    chosen, published = papers.claims(*names), (ROOT / "tests/anchors.txt").read_text().split()
    for claim, entry, line in zip(chosen, document["claims"], call("claims", *names).stdout.splitlines(), strict=True):
        card, erratum = papers.paper(claim.paper), entry["erratum"]
        assert entry["id"] == claim.id in published and entry["anchor"].endswith(f"#{claim.id}")
        assert entry["paper"]["authors"] == [*card.authors] and entry["paper"]["version"] == card.version
        assert entry["printed"] == claim.printed_text and entry["check"] == f"dpnotes check {claim.id}"
        assert (erratum is None) == (claim.erratum is None) and (not erratum or erratum["wording"])
        assert claim.id in line and entry["verdict"] in line and entry["verdict"].startswith(claim.check().kind)
    conditional = next(entry for entry in document["claims"] if entry["id"] == names[0])
    assert conditional["verdict"] == "up to logs, given lemma3.3.decrease"
    assert conditional["fallen_premises"] == ["adaptive_batch.lemma3.3.decrease"] != conditional["premises"]
    breaches = [e["erratum"]["breach"] for e in document["claims"] if e["erratum"]]
    assert any(breaches) and not all(breaches)


def test_check_from_the_cache_says_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("DPNOTES_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "_LOADED", time.time() + 1)  # as if no source was edited since the start
    names = ("check", "budget_schedules.lemmaC.4")
    fresh = call(*names).stdout
    assert call(*names).stdout == call(*names, "--no-cache").stdout == fresh
    (stored,) = (tmp_path / "verdicts").glob("*.json")
    stored.write_bytes(files.sealed_json(json.loads(json.dumps(files.unsealed_json(stored)).replace("81.49", "81.5"))))
    assert "stated 81.5" in call(*names).stdout, "control: it was read"
    assert call(*names, "--no-cache").stdout == fresh
    assert call(*names).stdout == fresh, "and what --no-cache found is kept"


def test_the_page_of_errata_is_written_beside_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(dpnotes, "__file__", str(tmp_path / "dpnotes" / "__init__.py"))
    few = tuple(claim for paper in papers.PAPERS for claim in papers.claims(paper)[:5])
    monkeypatch.setattr(papers, "claims", lambda *names: few)
    assert "Expected" in call("check", "--errata", "--write", code=2).stderr.splitlines()[-1]
    (tmp_path / "docs").mkdir()
    call("check", "--errata", "--write")
    text = (tmp_path / "docs" / "errata.md").read_text()
    assert text.startswith("# Errata") and f"As of dpnotes {dpnotes.__version__};" in text
    for claim in few:
        assert (f"\n### {claim.id}\n" in text) == (claim.erratum is not None or claim.derived_here)


def test_calc():
    lines = call("calc", A_CLAIM).stdout.splitlines()
    assert any(line.startswith("takes  kappa") and "kappa > 1" in line for line in lines)
    assert any(line.startswith("gives") for line in lines)
    lines = call("calc", A_CLAIM, "kappa=1000", "alpha=1e-4").stdout.splitlines()
    printed = dict(line.split()[:2] for line in lines)
    assert any(line.startswith("steps") and "rounded up: " in line for line in lines)
    exact = json.loads(call("calc", A_CLAIM, "kappa=1000", "alpha=1e-4", "--json").stdout)
    claim = {claim.id: claim for claim in papers.claims()}[A_CLAIM]
    assert exact == pytest.approx(claim.calculator()(kappa=1000, alpha=1e-4))
    assert {name: float(value) for name, value in printed.items()} == pytest.approx(exact, rel=1e-9)
    assert "does not stand as printed" in call("calc", A_CLAIM, "kappa=10", "alpha=1").stderr
    assert call("calc", "budget_schedules.thm4.5.minimiser", "kappa=10", "alpha=1").stderr == "", "control"


def test_calc_says_the_risk_in_a_sentence_above_the_numbers():
    first, *numbers = call("calc", "privacy.risk", "epsilon=2", "delta=1e-5").stdout.splitlines()
    assert first.startswith("An attacker") and "is right at most 88.1% of the time" in first
    assert [line.split()[0] for line in numbers] == ["right", "found"]
    assert json.loads(call("calc", "privacy.risk", "epsilon=2", "delta=1e-5", "--json").stdout).keys() == {
        "right",
        "found",
    }
    pure = json.loads(call("calc", "privacy.risk", "epsilon=2", "delta=0", "--json").stdout)
    assert pure["right"] == pytest.approx(1 / (1 + math.exp(-2))), "pure privacy"
    alone = call("calc", A_CLAIM, "kappa=10", "alpha=1e-4").stdout.splitlines()
    assert all(re.match(r"\w+ +[\d.]+", line) for line in alone), "control: no sentence"


def test_calc_says_where_the_noise_does_not_give_the_delta_that_was_asked_for():
    numbers = ("d=100", "epsilon=1", "delta=1e-6", "G=1", "M=1", "rho=1", "U=1")
    said = call("calc", "drift_escape.own.rate", "n=1000000000", *numbers, "constants=paper").stderr.splitlines()
    assert said[0].startswith("dpnotes: this noise is not shown to be (1, 1e-06)-DP: delta_reached=0.")
    assert said[1] == "dpnotes: as printed: a constant that the paper hides in an O is 1"
    private = call("calc", "drift_escape.own.rate", "n=1000000000", *numbers, "constants=one")
    assert "every constant and logarithm is 1" in private.stderr and len(private.stderr.splitlines()) == 1
    assert any(line.startswith("alpha") and line.endswith("F x^-1") for line in private.stdout.splitlines())
    assert any(line.startswith("eta") and line.endswith("F^-1 x^2") for line in private.stdout.splitlines())
    sound = call("calc", "goldstein.tree_noise", "Sigma=8", "S=1", "epsilon=1", "delta=1e-6")
    assert "delta_reached" in sound.stdout and sound.stderr == "", "the control"


def test_calc_chooses_a_set_of_constants(monkeypatch: pytest.MonkeyPatch):
    factors = {"paper": 2.0, "corrected": 4.0, "one": 1.0}
    (claim,) = papers.claims(A_CLAIM)
    calculator = Calculator(
        lambda kappa, alpha, constants: {"T": factors[constants] * kappa * alpha},
        claim.calculator().symbols,
        parameters(T="a number"),
        tuple(factors),
    )
    monkeypatch.setattr(papers, "claim", lambda name: replace(claim, calculation=calculator))
    listed = call("calc", A_CLAIM).stdout
    assert "takes  constants  one of paper, corrected, one; paper where nothing is said" in listed
    assert json.loads(call("calc", A_CLAIM, "--json").stdout)["constants"] == list(factors)
    numbers = ("calc", A_CLAIM, "kappa=10", "alpha=0.1")
    for arguments, value, words in (
        ((), 2, "as printed"),
        (("constants=paper",), 2, "as printed"),
        (("constants=corrected",), 4, "of what holds instead"),
        (("constants=one",), 1, "of what holds instead"),
    ):
        result = call(*numbers, *arguments)
        assert result.stdout.split() == ["T", str(value)] and f"the numbers are {words}: " in result.stderr
    assert "Expected constants='two' to be one of: paper, corrected, one" in one_error(*numbers, "constants=two")
    assert "Expected constants='' to be one of" in one_error(*numbers, "constants=")
    assert "Expected constants once" in one_error(*numbers, "constants=one", "constants=paper")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("calc", A_CLAIM, "kappa=10", "alpha=1e-4", "constants=one"), "'constants=one' to be a name and a number"),
        (("check", "--write"), "Expected --write with --errata and without names"),
        (("check", "--errata", "--write", "budget_schedules"), "Expected --write with --errata and without names"),
        (("check", ""), "Expected '' to be a claim"),
        (("check", "--certificates", "/proc/none/x.json"), "No such file or directory: '/proc/none'"),
        (("check", "--certificates", "/proc"), "Is a directory: '/proc'"),
        (("results", "budget_schedules.quadratic", "--csv", "--json"), "Expected --csv or --json, got both"),
        (("calc", *SECTION_3_4, "rho=1e308"), "Expected numbers within reach of floating point, got"),
        (("calc", A_CLAIM, "kappa=10", "alpha=1e-4", "n=3"), "unknown n"),
        (("calc", A_CLAIM, "kappa=10", "kappa=11"), "Expected kappa once"),
        (("calc", A_CLAIM, "kappa"), "Expected 'kappa' to be a name and a number"),
        (("calc", A_CLAIM, "=3"), "Expected '=3' to be a name and a number"),
        (("calc", "budget_schedules.thm4.5.schedule", "t=1.5", "T=2", "kappa=3", "R=1"), "t=1.5 >= 1 and an integer"),
        (("calc", "budget_schedules.eq12.regime"), "Expected a claim with a formula to calculate"),
        (("calc", "budget_schedules.thm4.5"), "the beginning of budget_schedules.thm4.5.schedule, budget_schedules."),
        (("clean", "--profile", "slow"), "Expected profile='slow' to be one of: cpu, paper, quick"),
        (("calc", A_CLAIM[:-1] + "t"), f"did you mean {A_CLAIM}"),
        (("check", "budget_schedule.thm4.5.T"), A_CLAIM),
        (("cite", "no such claim"), "'no such claim'"),
        (("run", "budget_schedules.no_such"), "Expected 'budget_schedules.no_such'"),
        (("results", "nothing"), "Expected 'nothing'"),
    ],
)
def test_bad_input_is_one_line_that_names_it(arguments: tuple[str, ...], message: str):
    assert message in one_error(*arguments)


def test_cite_prints_the_paper_and_the_package():
    text = call("cite", A_CLAIM).stdout
    assert text.count("\n@") == 1 and text.startswith("@inproceedings{") and "@software{dpnotes" in text
    assert text.count("{") == text.count("}")


# ---------------------------------------------------------------- experiments
def test_run_results_status_and_clean(toy: Path):
    assert "missing" in call("status").stdout
    assert "no result stored" in one_error("results", "toy.squares")
    assert "Expected profile='paper' to be one of: quick" in one_error("run", "toy.squares", "--profile", "paper")
    assert "reproduced: 3 rows" in call("run", "toy.squares").stdout
    assert "toy.squares quick: stored, computed at " in call("run", "toy").stdout
    assert "stored" not in call("run", "all", "--no-resume").stdout
    table = call("results", "toy.squares").stdout
    for text in (
        "square",
        "4.5",
        "answer       Yes.",
        "profile      quick",
        "found        3 rows",
        "unaccounted  the choice of the numbers",
    ):
        assert text in table
    csv = call("results", "toy.squares", "--csv")
    assert (csv.stdout, csv.stderr) == ("number,square\n0,0.5\n1,1.5\n2,4.5\n", "")
    document = json.loads(call("results", "toy.squares", "--json").stdout)
    assert document["rows"][2] == {"number": 2, "square": 4.5} and document["state"] == "stored"
    *_, line, last = call("status", "--write").stdout.splitlines()
    assert line.split()[:3] == ["toy.squares", "quick", "stored"] and last == "1 result: 1 stored"
    assert (toy / "results/OUTSTANDING.md").exists()
    assert json.loads(call("status", "--json").stdout)[0]["state"] == "stored"
    assert any((toy / "cache").rglob("*.cells"))
    assert "results stay" in call("clean", "toy.squares").stdout
    assert not any((toy / "cache").rglob("*.cells"))
    assert "stored" in call("status").stdout
    call("clean", "--profile", "quick")


@pytest.mark.slow
def test_a_paper_stands_for_its_experiments_that_have_the_profile(toy: Path, monkeypatch: pytest.MonkeyPatch):
    spec = Spec("toy", "cubes", "paper", {"decision_rule": "always"})
    cubes = replace(TOY, name="cubes", specs={"paper": spec})
    monkeypatch.setattr(catalogue, "all_experiments", lambda: [TOY, cubes])
    said = call("run", "toy").stdout
    assert "toy.squares quick: reproduced" in said and "cubes" not in said
    assert "Expected profile='quick' to be one of: paper" in one_error("run", "toy.cubes")


def test_a_result_that_is_not_shown_or_disputed_says_so_beside_its_numbers(toy: Path, monkeypatch: pytest.MonkeyPatch):
    call("run", "toy.squares")
    head = "| result | changed by | why | what it takes |\n|---|---|---|---|\n"
    (toy / "results/PENDING.md").write_text(f"{head}| toy.squares quick | new squares | other numbers | a minute |\n")
    table, csv = call("results", "toy.squares").stdout, call("results", "toy.squares", "--csv")
    assert "state        disputed" in table and "answer       Yes." in table and "new squares" in table
    assert "toy.squares quick is disputed: " in csv.stderr and "disputed" not in csv.stdout
    (toy / "results/PENDING.md").write_text(f"{head}| toy.squares | new squares | other numbers | a minute |\n")
    assert "PENDING.md to be: paper.experiment profile" in one_error("results", "toy.squares")
    (toy / "results/PENDING.md").unlink()
    monkeypatch.setattr(catalogue, "all_experiments", lambda: [replace(TOY, data=("other data",))])
    assert "toy.squares quick: of other parameters or data: data; compute it" in one_error("results", "toy.squares")


def test_a_changed_rule_is_put_on_record_by_status(toy: Path, monkeypatch: pytest.MonkeyPatch):
    call("run", "toy.squares")
    changed = replace(TOY, rule_version=2, decide=lambda frame, spec: Decision("undecided", "who knows"))
    monkeypatch.setattr(catalogue, "all_experiments", lambda: [changed])
    assert "answer       Yes." in call("results", "toy.squares").stdout
    said = call("status", "--write").output
    assert "toy.squares quick: reproduced: 3 rows -> undecided: who knows (rule version 2)" in said
    assert "answer       Undecided: the rule is met for neither answer." in call("results", "toy.squares").stdout


def test_missing_results_are_run_as_many_cells_at_once_as_a_gpu_holds(toy: Path, monkeypatch: pytest.MonkeyPatch):
    cost = Cost(why="a GPU", hours=1, minutes=1, gigabytes=8, basis="a guess")
    asked = list[int]()
    monkeypatch.setattr(catalogue, "all_experiments", lambda: [replace(TOY, wants={"quick": cost})])
    monkeypatch.setattr(runner, "has_gpu", lambda device: True)
    monkeypatch.setattr(runner, "free_memory", lambda *_: (0, 20 * 10**9))
    monkeypatch.setattr(experiments, "run", lambda *_, jobs, **__: asked.append(jobs))
    for jobs in ("1", "4"):
        call("run", "--missing", "--jobs", jobs)
    assert asked == [1, 2]


def test_a_paper_may_have_no_experiments_yet(toy: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(papers, "PAPERS", (*papers.PAPERS, "no_experiments"))
    assert "Expected a paper with experiments, got no_experiments; there are toy." in one_error("run", "no_experiments")
    monkeypatch.undo()
    monkeypatch.setattr(papers, "PAPERS", ("budget_schedules",))
    (parts,) = {e.paper for e in catalogue.all_experiments()}
    real = papers.importlib.util.find_spec
    monkeypatch.setattr(
        papers.importlib.util, "find_spec", lambda name: None if name.endswith(".experiments") else real(name)
    )
    assert parts == "budget_schedules" and catalogue.all_experiments() == []
    monkeypatch.setattr(catalogue, "INDEX", "no such list")
    lines = call("list").stdout.splitlines()
    assert {line.split()[0] for line in lines} == {"paper", "claim"}
    assert call("status").stdout == "0 results\n" and json.loads(call("status", "--json").stdout) == []


# ---------------------------------------------------------------- as a real process
def kept(toy: Path) -> list[bytes]:
    """Return the lines in the cache."""
    return [line for path in (toy / "cache").rglob("*.cells") for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
@pytest.mark.slow
def test_what_is_finished_survives_a_signal(toy: Path, number: signal.Signals):
    run = process("run", "toy.squares", program=WITH_TOY, env={"TOY_HANGS": "1"})
    deadline = time.monotonic() + 30
    while len(kept(toy)) < 3 and time.monotonic() < deadline:  # a header, two cells
        time.sleep(0.05)
    run.send_signal(number)
    stdout, stderr = run.communicate(timeout=30)
    assert "Traceback" not in stderr and not list((toy / "results").iterdir())
    if number == signal.SIGINT:
        assert run.returncode == 130 and "Interrupted. 2 of 3 cells are finished" in stdout
    else:
        assert run.returncode == -signal.SIGKILL
    again = process("run", "toy.squares", program=WITH_TOY)
    stdout, stderr = again.communicate(timeout=30)
    assert (again.returncode, stderr) == (0, "")
    assert "2 of 3 cells were finished before" in stdout and "reproduced: 3 rows" in stdout
    (resumed,) = (toy / "results").glob("*.npz")
    content = resumed.read_bytes()
    call("run", "toy.squares", "--no-resume")
    assert resumed.read_bytes() == content, "the same bytes as without the interruption"


@pytest.mark.slow
def test_ctrl_c_in_a_check_is_quiet():
    run = process("check", "--no-cache", "budget_schedules")
    assert run.stdout is not None and run.stdout.readline()
    run.send_signal(signal.SIGINT)
    _, stderr = run.communicate(timeout=30)
    assert run.returncode == 130 and "Traceback" not in stderr


@pytest.mark.slow
def test_a_closed_pipe_is_quiet():
    run = process("check", "--no-cache", "budget_schedules")
    assert run.stdout is not None and run.stderr is not None
    run.stdout.close()
    assert run.stderr.read() == ""
    run.stderr.close()
    assert run.wait(timeout=30) == 1


@pytest.mark.slow
def test_an_error_of_a_process_is_one_line():
    run = process("calc", "nothing")
    stdout, stderr = run.communicate(timeout=30)
    assert (run.returncode, stdout, len(stderr.splitlines())) == (2, "", 1)


# ---------------------------------------------------------------- doctor
@pytest.mark.slow
def test_doctor_finds_this_machine_usable():
    text = call("doctor").stdout
    for subject in ("python", "torch", "gpu", "widget manager", "data digits", "data mnist", "licence", "chromium"):
        assert subject in text
    findings = json.loads(call("doctor", "--json").stdout)
    assert not [finding for finding in findings if finding["level"] == "problem"]
    assert all(finding["advice"] for finding in findings if finding["level"] != "ok")


def test_doctor_says_what_draws_on_each_device(monkeypatch: pytest.MonkeyPatch):
    from dpnotes.random import draws

    def subjects() -> list[str]:
        return [finding.subject for finding in doctor.examine() if finding.subject.startswith("draws")]

    monkeypatch.setattr(draws, "backend", lambda device: draws.Backend(draws.reference, False, str(device)))
    assert subjects() == ["draws cpu"]
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "a GPU")
    assert subjects() == ["draws cpu", "draws cuda"]


@pytest.mark.slow
def test_doctor_names_what_is_missing_and_what_to_do(monkeypatch: pytest.MonkeyPatch):
    def version(name: str) -> str:
        raise doctor.importlib.metadata.PackageNotFoundError(name)

    draws.backend(torch.device("cpu"))  # looks up the version of its compiler, once
    monkeypatch.setattr(doctor.importlib.metadata, "version", version)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    result = call("doctor", code=1)
    assert "pip install -c constraints.txt" in result.stdout and "apt-get install chromium" in result.stdout
    assert "problems" in result.stderr


def test_export_writes_a_page_and_refuses_what_is_no_notebook(tmp_path: Path):
    page = tmp_path / "page.html"
    assert call("export", str(ROOT / "notebooks/rates.ipynb"), "--out", str(page)).stdout == f"{page} written\n"
    assert page.stat().st_size > 10_000
    assert "to be an .ipynb file" in one_error("export", str(tmp_path / "none.ipynb"))
