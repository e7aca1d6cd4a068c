"""The table of claims: filters, expandable rows, counts, and the view of a reader without a kernel."""

import re

import pytest

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
