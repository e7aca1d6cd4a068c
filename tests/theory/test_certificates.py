"""The output of `dpnotes check --certificates` suffices for others: `tests/recheck.py` uses no dpnotes, no sympy."""

import ast
import copy
import json
import random
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from command import call

from dpnotes import papers
from dpnotes.theory.certificates import document
from tests import recheck

PROGRAM = Path(recheck.__file__)
NUMBERS = PROGRAM.with_name("recheck_numbers.py")
SOME = ("budget_schedules.lemmaC.3", "noisy_sgd.lemmaB.12", "drift_escape.remark2", "goldstein.eq2", "goldstein.eq4")


def entries(*names: str) -> list[dict[str, Any]]:
    return document(papers.claims(*names), "test")["certificates"]


@pytest.fixture(scope="module")
def some() -> list[dict[str, Any]]:
    return entries(*SOME)


@pytest.fixture(scope="module")
def everything() -> list[dict[str, Any]]:
    return entries()


def outcome(entry: dict[str, Any]) -> str:
    try:
        recheck.recheck(entry)
    except recheck.WrongError:
        return "wrong"
    except recheck.OpenError:
        return "open"
    return "holds"


# ---------------------------------------------------------------- spoiling
Place = tuple[Any, Any, str]  # the container of the number, its key, and the replacement


def changed(number: str) -> str:
    """Return another number: an integer plus 1, a fraction or a decimal times 8/7."""
    value = Fraction(number)
    return str(value + 1 if value.denominator == 1 else value * Fraction(8, 7))


def numbers_in(entry: dict[str, Any], key: str) -> list[Place]:
    """Return each number in the text of an expression, plus 1."""
    tree, places = ast.parse(entry[key], mode="eval"), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
            node.value += 1
            places.append((entry, key, ast.unparse(tree)))
            node.value -= 1
    return places


def ends(entry: dict[str, Any], point: dict[str, str]) -> list[float | None]:
    """Return both sides at a point, to 9 digits; None for a side that is no number, or where the relation is void."""
    try:
        return [None if side is None else float(f"{float(side.low):.9g}") for side in recheck.both_sides(entry, point)]
    except (recheck.WrongError, recheck.OpenError, OverflowError):
        return []


def places(entry: dict[str, Any]) -> list[Place]:
    """Return the numbers of a certificate without which it proves nothing.

    For a point: each side, as noted; and each coordinate that affects a side there, because the noted value of that
    side is then wrong even if the moved point is still a witness. For a balance or a choice: the multipliers of linear
    programs, but not the direction, which may still work after a small change. For an identity: its printed side.
    """
    match entry["certificate"]:
        case "witness" | "inequality":
            point = entry["point" if entry["certificate"] == "witness" else "closest"]
            moved = [(point, name, changed(value)) for name, value in point.items()]
            before = ends(entry, point)
            moved = [place for place in moved if ends(entry, {**point, place[1]: place[2]}) != before]
            sides = [(entry["sides"], k, changed(side)) for k, side in enumerate(entry["sides"]) if side]
            return [*moved, *sides]
        case "balance" | "choice":
            groups = [lemma[side] for lemma in entry["lemmas"] for side in ("larger", "where")]
            return [(group, key, changed(value)) for group in groups for key, value in group.items()]
        case "units":
            found = [] if entry["normalised"] else [unit for unit in entry["found"].values() if unit]
            return [(unit, k, changed(unit[k])) for unit in found for k in (0, 1)]
        case "identity" | "rounded":
            return numbers_in(entry, "left")
        case "crossover":
            return numbers_in(entry, "value")
        case "optimum":
            return numbers_in(entry, "argument")
        case _:
            return []


def spoilt(certificates: list[dict[str, Any]], count: int, seed: int) -> list[dict[str, Any]]:
    """Return valid certificates with one number changed in each; claim and number are random."""
    generator, found = random.Random(seed), []
    for entry in generator.sample(certificates, len(certificates)):
        other = copy.deepcopy(entry)
        if outcome(entry) == "holds" and (numbers := places(other)):
            holder, key, instead = generator.choice(numbers)
            holder[key] = instead
            found.append(other)
        if len(found) == count:
            return found
    raise AssertionError(f"of {count} certificates {len(found)} hold")


# ---------------------------------------------------------------- the tests
def test_the_program_stands_alone():
    for path in (PROGRAM, NUMBERS):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert {name.split(".")[0] for name in names} <= {*sys.stdlib_module_names, "z3", NUMBERS.stem}


@pytest.mark.slow
def test_the_command_line_writes_what_the_program_confirms(tmp_path: Path):
    path = tmp_path / "certificates.json"
    call("check", *SOME, "--certificates", path)
    written = json.loads(path.read_text())
    claims = papers.claims(*SOME)
    assert [e["claim"] for e in written["certificates"] if e["statement"] == "printed"] == [
        claim.id for claim in claims
    ]
    confirmed = subprocess.run([sys.executable, PROGRAM, path], capture_output=True, text=True)
    assert confirmed.returncode == 0 and " 0 do not\n" in confirmed.stdout, confirmed.stdout

    entry = next(e for e in written["certificates"] if e["certificate"] == "witness")
    entry["sides"][0] = changed(entry["sides"][0])
    path.write_text(json.dumps(written))
    refused = subprocess.run([sys.executable, PROGRAM, path], capture_output=True, text=True)
    assert refused.returncode == 1 and f"wrong: {entry['claim']} (printed, witness)" in refused.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "to be what dpnotes check --certificates wrote: JSONDecodeError"),
        ("[]", "to be what dpnotes check --certificates wrote: TypeError"),
        ('{"certificates": []}', "to be what dpnotes check --certificates wrote: KeyError"),
        ('{"format": 2, "certificates": [{}]}', "to have format 1 and certificates in it"),
        ('{"format": 1, "certificates": []}', "to have format 1 and certificates in it"),
    ],
)
def test_a_file_with_nothing_to_check_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
):
    path = tmp_path / "certificates.json"
    path.write_text(text)
    assert recheck.main(path) == 2 and said in capsys.readouterr().out
    assert recheck.main(tmp_path / "none.json") == 2
    path.write_text('{"format": 1, "certificates": [{"claim": "a"}]}')
    assert recheck.main(path) == 1, "what is no certificate is wrong"


@pytest.mark.slow
def test_some_certificates_hold_and_spoilt_ones_do_not(some: list[dict[str, Any]]):
    assert "wrong" not in map(outcome, some)
    for entry in spoilt(some, 10, seed=1):
        assert outcome(entry) == "wrong", entry


@pytest.mark.slow
def test_control_a_verdict_that_a_certificate_does_not_carry_is_refused(some: list[dict[str, Any]]):
    for entry in some:
        if entry["certificate"] not in recheck.UNCHECKED:
            assert outcome({**entry, "verdict": "not checkable"}) == "wrong"


def test_control_what_may_be_negative_is_no_square():
    """The square root of a negative logarithm was once 0, so that every identity with it held."""
    (entry,) = [e for e in entries("noisy_sgd.thm3.3.noise") if e["statement"] == "corrected"]
    assert outcome(entry) == "holds"
    assert outcome({**entry, "left": entry["left"].replace("(sqrt(2)*sqrt(L)", "(sqrt(3)*sqrt(L)")}) == "wrong"


@pytest.mark.slow
def test_four_fifths_of_all_certificates_are_checked_again(everything: list[dict[str, Any]]):
    counts = Counter(map(outcome, everything))
    assert counts["wrong"] == 0
    assert counts["holds"] >= 0.8 * counts.total(), counts


@pytest.mark.slow
def test_fifty_spoilt_certificates_are_found(everything: list[dict[str, Any]]):
    missed = [entry for entry in spoilt(everything, 50, seed=0) if outcome(entry) != "wrong"]
    assert not missed
