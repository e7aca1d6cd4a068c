"""The table of claims: filters, expandable rows, counts, and the view of a reader without a kernel."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch

from dpnotes.notebook.claims_table import (
    CONFIRMED,
    ERRATA,
    EVERY,
    OURS,
    UNCONFIRMED,
    ClaimsTable,
    breaches_table,
    counts_table,
    details,
    errata_counts,
)
from dpnotes.notebook.markup import typeset
from dpnotes.notebook.teaching import claims_table
from dpnotes.papers import claim, claims
from dpnotes.theory.cache import Verdicts
from dpnotes.theory.claims import Severity
from dpnotes.theory.symbols import symbols_of
from dpnotes.theory.verdicts import CONFIRMING, Kind, Verdict

INVERSION = "budget_schedules.lemmaC.4.inversion"
CLAIMS = claims("budget_schedules", "drift_escape.thm2")


@pytest.fixture(scope="module")
def checked():
    with Verdicts() as known:
        yield known


@pytest.fixture
def table(checked):
    return ClaimsTable(CLAIMS, checked, rows=5, severity=EVERY)


def test_without_filters_everything_is_there(table):
    assert table.data["ids"] == [one.id for one in CLAIMS]
    assert sum(table.data["kinds"].values()) == len(CLAIMS)
    assert table.data["page"] == [one.id for one in CLAIMS[:5]] and table.data["open"] == []
    assert repr(table) == f"ClaimsTable({len(CLAIMS)} claims, {len(CLAIMS)} shown)"


def test_each_filter_keeps_what_it_says(table, checked):
    def left(**filters):
        for name in ("paper", "severity", "verdict"):
            table.controls[name].value = filters.get(name, EVERY)
        table.controls["text"].value = filters.get("text", "")
        found = set(table.data["ids"])
        return [one for one in CLAIMS if one.id in found]

    everything = len(CLAIMS)
    for paper in ("budget_schedules", "drift_escape"):
        found = left(paper=paper)
        assert 0 < len(found) < everything and {one.paper for one in found} == {paper}
    assert [one for one in CLAIMS if one.erratum] == left(severity=ERRATA)
    assert [one for one in CLAIMS if one.derived_here] == left(severity=OURS) != []
    for severity in Severity:
        found = left(severity=str(severity))
        assert found and all(one.erratum is not None and one.erratum.severity == severity for one in found)
    by_kind = [left(verdict=str(kind)) for kind in Kind]
    assert sum(map(len, by_kind)) == everything
    for kind, found in zip(Kind, by_kind, strict=True):
        assert all(checked.of(one).kind == kind for one in found)
    assert all(checked.of(one).kind in CONFIRMING for one in left(verdict=CONFIRMED))
    unconfirmed = left(verdict=UNCONFIRMED)
    assert unconfirmed and all(one.erratum is not None for one in unconfirmed)
    assert INVERSION in [one.id for one in left(text="sign  ROOT")], "words in any case, all of them"
    assert left(text="no such words") == []
    assert table.data["page"] == [] and "<b>0</b>" in table.readout.value


def test_pages_turn_and_come_back(table):
    pages = table.controls["page"].max
    assert pages == -(-len(CLAIMS) // 5)
    seen = []
    for _ in range(pages):
        seen += table.data["page"]
        table.next.click()
    assert seen == [one.id for one in CLAIMS] and table.controls["page"].value == 1
    table.controls["page"].value = pages
    table.controls["severity"].value = OURS
    assert table.controls["page"].value == 1 and table.data["page"] == table.data["ids"][:5]


def test_a_row_opens_and_closes(table):
    table.controls["text"].value = INVERSION
    row = table._rows[0]
    assert row.detail.value == "" and row.detail.layout.display == "none" and "▸" in row.button.description
    row.button.click()
    assert table.data["open"] == [INVERSION] and "▾" in row.button.description and row.detail.layout.display is None
    shown = row.detail.value
    one = claim(INVERSION)
    assert one.erratum is not None
    assert "stated 81.49, derived 0.1964" in shown and one.erratum.wording[:40] in shown
    for formula in (one.printed, one.corrected):
        assert f"$\\displaystyle {formula}$" in shown, "both formulas as mathematics"
    for word in ("verdict", "its verdict", "wording for the authors", "newer versions: ", f"dpnotes check {INVERSION}"):
        assert word in shown
    table.toggle(INVERSION)
    assert table.data["open"] == [] and row.detail.value == ""
    with pytest.raises(ValueError, match=r"a claim on this page, got drift_escape\.thm2"):
        table.toggle("drift_escape.thm2")


def test_the_row_of_a_rate_shows_what_meets(table):
    shown = table.details(claim("drift_escape.thm2"))
    assert "fresh gradients: data (2/17)" in shown and "differences: privacy (2/17)" in shown
    assert shown.count("meet (weight)") == 3 and "tuned" in shown and "regime" in shown and "put to 1" in shown


def test_the_evidence_shown_is_that_of_the_verdict_given():
    one = claim(INVERSION)
    assert "made up" in details(one, Verdict(Kind.CONTRADICTED, "made up"), None)
    assert "81.49, derived" not in details(one, Verdict(Kind.CONTRADICTED, "made up"), None)


def test_a_claim_whose_premise_falls_is_shown_as_conditional(checked):
    one = claim("adaptive_batch.prop3.4.T")
    said = "up to logs, given lemma3.3.decrease"
    table = ClaimsTable([one, claim("adaptive_batch.lemma3.3.window")], checked, severity=EVERY)
    assert f"(✓) {said}" in table._rows[0].summary.value and said in table.details(one)
    assert "rests on" in table.details(one) and "adaptive_batch.lemma3.3.decrease" in table.details(one)
    assert said in table._repr_mimebundle_()["text/html"]
    assert claims_table([one]).rows[0][1] == said
    counted = counts_table([one, claim("adaptive_batch.lemma3.3.decrease")], {c.id: checked.of(c) for c in claims()})
    assert counted.rows[-1] == ["confirmed conditionally", "1", "1"]


def test_what_is_ours_is_called_so(table):
    ours = next(one for one in CLAIMS if one.derived_here)
    assert "derived here, unpublished" in table.details(ours)
    table.controls["severity"].value = OURS
    assert "derived here" in table._rows[0].summary.value


@pytest.mark.slow
def test_every_row_of_every_paper_can_be_opened(checked):
    for one in claims():
        shown = details(one, Verdict(Kind.EXACT, "a < b & c"), None)
        assert "a &lt; b &amp; c" in shown
        formulas = "".join(re.findall(r"\$([^$]*)\$", shown))
        assert shown.count("$") % 2 == 0 and "<" not in formulas and ">" not in formulas, one.id


def test_counts_add_up(checked):
    verdicts = {one.id: checked.of(one) for one in CLAIMS}
    table = counts_table(CLAIMS, verdicts)
    *kinds, total, conditional = table.rows
    assert conditional[0] == "confirmed conditionally" and 0 < int(conditional[-1]) < int(total[-1])
    assert int(total[-1]) == len(CLAIMS) == sum(int(row[-1]) for row in kinds)
    assert table.columns == ["verdict", "budget_schedules", "drift_escape", "all papers"]
    (contradicted,) = [row for row in kinds if row[0] == "contradicted"]
    assert int(contradicted[-1]) == sum(v.kind == Kind.CONTRADICTED for v in verdicts.values())
    errata = errata_counts(CLAIMS)
    assert int(errata.rows[-1][-2]) == sum(one.erratum is not None for one in CLAIMS)
    breaches = breaches_table(CLAIMS)
    assert [row[0] for row in breaches.rows] == ["budget_schedules"] * 3
    assert f"{len(breaches.rows)} ({sum(row[-1].count(',') + 1 for row in breaches.rows)})" == errata.rows[-1][1]


def test_readers_without_a_kernel_see_the_list(table):
    table.controls["severity"].value = ERRATA
    bundle = table._repr_mimebundle_()
    assert bundle["text/html"].count("<tr>") == len(table.data["ids"]) + 1
    assert bundle["text/plain"] == repr(table) and "application/vnd.jupyter.widget-view+json" in bundle


# ---------------------------------------------------------------- the exercises of the notebooks
FOLDER = Path(__file__).parents[2] / "notebooks"


@pytest.fixture(autouse=True, scope="module")
def _default_dtype():
    """Notebooks compute in float64; later tests must not."""
    before = torch.get_default_dtype()
    yield
    torch.set_default_dtype(before)


def cells_of(name: str, *starts: str) -> dict[str, Any]:
    """Run a notebook's imports and the cells that start with these texts; return the names they define."""
    sources = [cell.source for cell in nbformat.read(FOLDER / name, as_version=4).cells if cell.cell_type == "code"]
    defined: dict[str, Any] = {}
    exec(sources[0].partition("\nclaims = ")[0], defined)
    for start in starts:
        exec(next(source for source in sources if source.startswith(start)), defined)
    return defined


@pytest.mark.parametrize(
    "value, said",
    [
        ("sympy.sqrt(L * f_max) * d ** sympy.Rational(1, 4) / sympy.sqrt(n * epsilon)", "Right."),
        ("f_max * d ** sympy.Rational(1, 4) / sympy.sqrt(n * epsilon)", "Not yet: units differ"),
        ("sympy.sqrt(L * f_max) * d ** sympy.Rational(1, 2) / sympy.sqrt(n * epsilon)", "Not yet: improvable"),
        ("sympy.sqrt(L * f_max) * d ** sympy.Rational(1, 5) / sympy.sqrt(n * epsilon)", "Not yet: not implied"),
    ],
)
def test_the_exercise_takes_the_right_rate_only(capsys, value: str, said: str):
    defined = cells_of("errata.ipynb", "paper = PaperSymbols", "def _mistake(answer)")
    exec(f"find_exponent.check(Rate(alpha, {value}, terms, tuned, constraints))", defined)
    assert capsys.readouterr().out.startswith(said)


def test_the_exercise_takes_no_other_terms(capsys):
    defined = cells_of("errata.ipynb", "paper = PaperSymbols", "def _mistake(answer)")
    exec('find_exponent.check(Rate(alpha, alpha, {"other": alpha}))', defined)
    exec("find_exponent.check(0.5)", defined)
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == ["Not yet", "Not yet"]


def test_the_crossing_of_the_rates_is_where_the_terms_are_equal(capsys):
    exercise = cells_of("rates.ipynb", "crossing = ")["crossing"]
    n, d, powers = 1e6, 1e3, (2 / 17 - 1 / 5, 6 / 17 - 2 / 5, 4 / 17 - 2 / 5)
    equal = (d ** powers[0] / n ** powers[1]) ** (1 / powers[2])
    exercise.check(equal)
    exercise.check(1.1 * equal)
    assert capsys.readouterr().out.splitlines()[0] == "Right."


# The private step of Algorithm 1, and the message for each wrong version.
STEPS = {
    "": "_solution_private_step",
    "no gradient was clipped": "_wrong_without_clipping",
    "the mean was clipped": "_wrong_mean_clipped",
    "every gradient was given the length G": "_wrong_stretched",
    "the noise is N times too strong": "_wrong_noise",
    "it refuses a step that costs exactly": "_wrong_guard_as_printed",
    "it releases although": "_wrong_never_refuses",
    "after a step with sigma = 2": "_wrong_cost",
    "nothing hides the mean": "lambda rows, G, sigma, nu, left: (clipped(rows, G).mean(dim=0), left - 1 / sigma**2)",
    "the function still returns the dots": "lambda *asked: ...",
    "it refuses a step that costs a quarter": "lambda *asked: None",
    "g should be a vector": "lambda *asked: (asked[0], asked[4])",
    "g is [": "lambda *asked: (-_solution_private_step(*asked)[0], asked[4])",
}


@pytest.mark.parametrize("said, function", STEPS.items())
def test_what_is_wrong_with_a_private_step_is_said(capsys, said, function):
    defined = cells_of("01_budget_schedules.ipynb", "def _share")
    exec(f"private_step.check({function})", defined)
    assert capsys.readouterr().out.startswith(f"Not yet: {said}" if said else "Right.")


ASKED = "losses, z, before, places, alpha, y, longest"
# All versions but the first omit something.
INCREMENTS = {
    "Right.": "clipped(now - then, longest).mean(dim=0)",
    "Not yet: nothing was clipped": "(now - then).mean(dim=0)",
    "Not yet: the mean was clipped": "clipped((now - then).mean(dim=0)[None], longest)[0]",
    "Not yet: it should return a vector": "clipped(now - then, longest)",
    "Not yet: it gives": "(clipped(now, longest) - clipped(then, longest)).mean(dim=0)",
    "Not yet: it gives [": "-clipped(now - then, longest).mean(dim=0)",
}


@pytest.fixture(scope="module")
def goldstein_exercises() -> dict[str, Any]:
    """Return the names that the cells of goldstein's exercises define, and those they need from earlier cells."""
    return cells_of("05_goldstein.ipynb", "from dpnotes.oracles.smoothed import", "def _asked")


@pytest.mark.parametrize("said, value", INCREMENTS.items())
def test_every_example_of_the_increment_is_clipped(capsys, goldstein_exercises, said, value):
    terms = "two_point(losses, z, places, alpha, y), two_point(losses, before, places, alpha, y)"
    exec(f"def increment({ASKED}):\n    now, then = {terms}\n    return {value}", goldstein_exercises)
    exec("private_increment.check(increment)", goldstein_exercises)
    assert capsys.readouterr().out.startswith(said)


def test_the_increment_at_other_directions_is_wrong(capsys, goldstein_exercises):
    terms = "two_point(losses, z, places, alpha, y) - two_point(losses, before, places, alpha, y.flip(0))"
    exec(f"private_increment.check(lambda {ASKED}: clipped({terms}, longest).mean(dim=0))", goldstein_exercises)
    assert capsys.readouterr().out.startswith("Not yet: it gives")


# The client's message and the server's step; all versions but the first omit something.
MEAN, NOISE = "clipped(of_j, G).mean(dim=0)", "multiplier * (2 * G / len(of_j)) * xi"
ROUNDS = {
    "Right.": (f"{MEAN} + {NOISE}", "sent.mean(dim=0)"),
    "Not yet: the server sees clients' means without": (
        MEAN,
        f"sent.mean(dim=0) + {NOISE.replace('of_j', 'terms[0]').replace('xi', 'noise[0]')}",
    ),
    "Not yet: no example was clipped": (f"of_j.mean(dim=0) + {NOISE}", "sent.mean(dim=0)"),
    "Not yet: an example that is replaced": (f"{MEAN} + {NOISE} / 2", "sent.mean(dim=0)"),
    "Not yet: each client's noise is a third": (f"{MEAN} + {NOISE} / 3", "sent.mean(dim=0)"),
    "Not yet: all clients add the same draw": (f"{MEAN} + {NOISE.replace('xi', 'noise[0]')}", "sent.mean(dim=0)"),
    "Not yet: the messages are right": (f"{MEAN} + {NOISE}", "sent.sum(dim=0)"),
    "Not yet: client 0 sends": (f"-{MEAN} - {NOISE}", "sent.mean(dim=0)"),
    "Not yet: what was sent should be of shape": (f"{MEAN} + {NOISE}", "sent.mean()"),
}


@pytest.fixture(scope="module")
def clients_exercises() -> dict[str, Any]:
    """Return the names that the cells of the clients' exercises define, and those they need from earlier cells."""
    starts = ("DATA =", "def epsilon_against", "COUNTS =", "def _messages_mistake")
    return cells_of("04b_clients.ipynb", *starts)


@pytest.mark.parametrize("said, parts", ROUNDS.items())
def test_a_round_of_clients_has_noise_of_each(capsys, clients_exercises, said, parts):
    sent, followed = parts
    listed = f"torch.stack([{sent} for of_j, xi in zip(terms, noise)])"
    body = f"    sent = {listed}\n    return sent, {followed}"
    exec(f"def one_round(terms, G, multiplier, noise):\n{body}\nround_of_clients.check(one_round)", clients_exercises)
    assert capsys.readouterr().out.startswith(said)


@pytest.mark.parametrize(
    "said, value",
    {
        "Right.": "multiplier * (m - others) ** 0.5",
        "Not yet: with m = 8 and 1 that look": "multiplier * m ** 0.5",
        "Not yet: with m = 8 and 0 that look": "multiplier",
        "Not yet: it raises": "multiplier / 0",
    }.items(),
)
def test_a_coalition_takes_off_its_own_noise(capsys, clients_exercises, said, value):
    exec(f"coalition.check(lambda multiplier, m, others: {value})", clients_exercises)
    assert capsys.readouterr().out.startswith(said)


def test_the_questions_of_the_clients_are_sound(clients_exercises):
    for exercise in ("round_of_clients", "coalition"):
        assert clients_exercises[exercise].unsound() == []


@pytest.fixture(scope="module")
def escape_exercises() -> dict[str, Any]:
    """Return the names that the cells of the exercises on drift escape define."""
    return cells_of("04_drift_escape.ipynb", "def _attempts_mistake")


# A reader's possible answers for g and the drift, and the messages about them.
MOVE = "(x - last.asked).norm()"
DIFFERENCE = f"clipped(now - before, M * {MOVE}).mean(dim=0)"
COVERED = f"multiplier * (2 * M * {MOVE} / len(now)) * xi"
DRIFT = f"last.drift + {MOVE} ** 2"
DIFFERENCES = {
    "Right.": (f"last.g + {DIFFERENCE} + {COVERED}", DRIFT),
    "Not yet: that is the difference alone": (f"{DIFFERENCE} + {COVERED}", DRIFT),
    "Not yet: no difference was clipped": (f"last.g + (now - before).mean(dim=0) + {COVERED}", DRIFT),
    "Not yet: an example that is replaced": (f"last.g + {DIFFERENCE} + {COVERED} / 2", DRIFT),
    "Not yet: there is no noise": (f"last.g + {DIFFERENCE}", DRIFT),
    "Not yet: the noise is that of a step": (
        f"last.g + {DIFFERENCE} + {COVERED.replace(MOVE, '(eta * last.g.norm())')}",
        DRIFT,
    ),
    "Not yet: the drift counts a step": (
        f"last.g + {DIFFERENCE} + {COVERED}",
        "last.drift + (eta * last.g.norm()) ** 2",
    ),
    "Not yet: the drift is": (f"last.g + {DIFFERENCE} + {COVERED}", "last.drift"),
    "Not yet: it should return two things": ("last.g", ""),
}


@pytest.mark.parametrize("said, parts", DIFFERENCES.items())
def test_a_difference_is_covered_wherever_the_point_comes_from(capsys, escape_exercises, said, parts):
    g, drift = parts
    returned = f"{g}, {drift}" if drift else g
    body = f"def difference(now, before, x, last, M, multiplier, xi, eta):\n    return {returned}"
    exec(f"{body}\ncovered.check(difference)", escape_exercises)
    assert capsys.readouterr().out.startswith(said)


def test_the_questions_of_drift_escape_are_sound(escape_exercises):
    for exercise in ("how_many", "covered"):
        assert escape_exercises[exercise].unsound() == []


def test_the_evidence_of_every_claim_is_typeset(checked):
    shown = []
    for one in claims():
        letters = symbols_of(*one.statement.expressions)
        shown.append(typeset(checked.of(one).evidence, letters))
    outside = [re.sub(r"\$[^$]*\$", "", text) for text in shown]
    assert [text for text in outside if "**" in text or "sqrt(" in text] == []
    assert sum("\\frac" in text for text in shown) > 50  # the control: there are formulas
    found = claim("adaptive_batch.remark3.12")
    assert "d^{1/4}" in details(found, checked.of(found), None) and "d^{1/4}" in claims_table([found])._repr_html_()
