"""Tests of the claims of all papers. The expected verdicts stand in expected_verdicts.csv and nowhere else.

Most tests here read verdicts from the cache of `dpnotes.theory.cache`, whose key is the source of the engine and the
claims (../theory/test_cache.py tests the key). The tests about another process, and the slow suite, check anew.
"""

import ast
import csv
import functools
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from statement_mutants import mutants, still_true

import dpnotes
from dpnotes import papers
from dpnotes.cli.new_paper import checkout, file_of
from dpnotes.theory import certificates, errata
from dpnotes.theory.cache import Verdicts, sources
from dpnotes.theory.claims import Claim, Paper, Severity, mechanisms
from dpnotes.theory.premises import fallen, word
from dpnotes.theory.statements import Identity, Reason, Statement, Uncheckable
from dpnotes.theory.symbols import PaperSymbols
from dpnotes.theory.verdicts import CONFIRMING, SILENT, Kind, Verdict
from dpnotes.util import another_processor
from tests.drawing import drawn
from tests.shown import README, SHOWN

ROOT = Path(__file__).parents[2]
SCOPES = {"checked", "algorithm", "no formula"}
FORMULA_SCOPES = ("checked", "proof step", "algorithm", "definition", "cited")
_X = PaperSymbols("example").symbol("x", "a number")
each_paper = pytest.mark.each_paper
obligation = pytest.mark.obligation  # also of each paper: `dpnotes check-paper` runs it


def table(name: str, root: Path = ROOT) -> list[dict[str, str]]:
    with open(root / "tests" / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def expected(paper: str) -> dict[str, dict[str, str]]:
    rows = table("expected_verdicts.csv", checkout(paper))
    return {row["claim"]: row for row in rows if row["claim"].startswith(f"{paper}.")}


@functools.cache
def verdicts(paper: str) -> dict[str, Verdict]:
    with Verdicts() as known:
        return {claim.id: known.of(claim) for claim in papers.claims(paper)}


@functools.cache
def words(paper: str) -> dict[str, str]:
    """The words of the verdicts, with the premises that fall."""
    with Verdicts() as known:
        return {claim.id: known.word(claim) for claim in papers.claims(paper)}


def kind(row: dict[str, str]) -> str:
    """The kind of an expected verdict, without the premises that fall."""
    return row["verdict"].partition(", given ")[0]


@functools.cache
def corrections(paper: str) -> dict[str, Verdict]:
    with Verdicts() as known:
        return {c.id: found for c in papers.claims(paper) if (found := known.of_correction(c)) is not None}


def place_of(claim: Claim, places: list[str]) -> str:
    """Return the longest place that the id begins with, after the paper's key, or else the id itself."""
    _, name = claim.id.split(".", 1)
    return max((other for other in places if f"{name}.".startswith(f"{other}.")), key=len, default=name)


def python(code: str, **environment: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | environment
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


# ---------------------------------------------------------------- verdicts
def test_no_row_is_left_over():
    rows = [row["claim"] for row in table("expected_verdicts.csv")]
    assert len(rows) == len(set(rows))
    assert {name.split(".")[0] for name in rows} == set(papers.PAPERS)


def rows_of(paper: str, names: set[str]) -> list[str]:
    """Return the rows that the table of expected verdicts should have for claims."""
    return [
        f"{name},{words(paper)[name]},{getattr(corrections(paper).get(name), 'kind', '')}" for name in sorted(names)
    ]


@obligation("verdicts")
def test_every_claim_has_an_expected_verdict_and_stores_none(paper: str):
    claims = papers.claims(paper)
    ids = {claim.id for claim in claims}
    assert ids <= {*expected(paper)}, f"Expected the rows {rows_of(paper, ids - {*expected(paper)})}."
    assert {*expected(paper)} <= ids, f"Expected no rows of {sorted({*expected(paper)} - ids)}, which are no claims."
    assert len(ids) == len(claims), "Expected every claim to have an id of its own."
    assert not any("verdict" in name for claim in claims for name in vars(claim))
    for path in sources(paper):
        if file_of(paper, "{package}/") in f"{path.as_posix()}":
            assert "theory.verdicts" not in path.read_text(encoding="utf-8"), f"{path} knows of verdicts"


@obligation("verdicts")
def test_verdicts_are_the_expected_ones(paper: str):
    faults = [
        f"{name} is {words(paper)[name]!r}, not {row['verdict']!r}: {verdicts(paper)[name].evidence}"
        for name, row in expected(paper).items()
        if words(paper).get(name, row["verdict"]) != row["verdict"]
    ]
    assert not faults, "; ".join(faults)
    assert all(v.evidence and v.evidence == " ".join(v.evidence.split()) for v in verdicts(paper).values())


@pytest.mark.slow
@obligation("verdicts")
def test_corrections_are_confirmed_as_expected(paper: str):
    right = CONFIRMING | {Kind.RESTATED}
    wrong = [
        f"the correction of {name} is {v.kind}: {v.evidence}"
        for name, v in corrections(paper).items()
        if v.kind not in right
    ]
    assert not wrong, "; ".join(wrong)
    found = {name: str(verdict.kind) for name, verdict in corrections(paper).items()}
    rows = {name: row["corrected"] for name, row in expected(paper).items()}
    faults = [f"{n}: {found.get(n, '')!r}, not {rows[n]!r}" for n in rows if found.get(n, "") != rows[n]]
    assert not faults, f"Expected other verdicts of corrections, {'; '.join(faults)}"


@obligation("claims")
def test_a_claim_has_an_erratum_exactly_when_it_is_not_confirmed(paper: str):
    for claim in papers.claims(paper):
        verdict = verdicts(paper)[claim.id]
        if verdict.kind != Kind.IMPROVABLE:  # a true but weak statement may have a better one beside it
            wrong = verdict.kind not in CONFIRMING | SILENT
            should = "an erratum" if wrong else "no erratum"
            assert (claim.erratum is not None) == wrong, f"Expected {should} of {claim.id}, which is {verdict}"


@obligation("claims")
def test_few_claims_are_uncheckable_and_for_listed_reasons(paper: str):
    silent = [claim for claim in papers.claims(paper) if isinstance(claim.statement, Uncheckable)]
    assert len(silent) <= 0.15 * len(papers.claims(paper)), "Expected fewer claims that are not checkable."
    assert all(isinstance(claim.statement, Uncheckable) and claim.statement.reason in Reason for claim in silent)
    assert {c.id for c in silent} == {k for k, v in verdicts(paper).items() if v.kind == Kind.NOT_CHECKABLE}


# A program that prints everything computed for a paper's claims, on any processor; `PAPER` is prepended.
COMPUTED = """
import json, sys, dpnotes
from dpnotes import papers
from dpnotes.theory import certificates, errata
from dpnotes.theory.cache import Verdicts

claims = papers.claims(PAPER)
with Verdicts(cached=False) as known:
    corrections = {c.id: str(found.kind) for c in claims if (found := known.of_correction(c))}
    page = errata.page([papers.paper(PAPER)], claims, known, dpnotes.__version__)
    found = [{c.id: str(known.of(c).kind) for c in claims}, corrections, page.splitlines()]
assert "torch" not in sys.modules
print(json.dumps([*found, certificates.document(claims, dpnotes.__version__)]))
"""


@pytest.mark.slow
@pytest.mark.skipif(another_processor.another_processor() is None, reason="takes glibc on x86-64")
def test_verdicts_errata_and_certificates_of_a_drawn_paper_hold_on_another_processor():
    (paper,) = drawn(papers.PAPERS)
    code = f"PAPER = {paper!r}\n{COMPUTED}\n{another_processor.CHECK_OF_ANOTHER}"
    other = another_processor.another_processor() or {}
    kinds, corrected, lines, certified = json.loads(python(code, PYTHONHASHSEED="7", **other))
    assert kinds == {name: kind(row) for name, row in expected(paper).items()}, paper
    assert corrected == {name: row["corrected"] for name, row in expected(paper).items() if row["corrected"]}, paper
    entries = [line for line in lines if line.startswith("* ")]
    assert len(entries) > 10 and not {*entries} - {*page().splitlines()}, paper
    here = json.loads(json.dumps(certificates.document(papers.claims(paper), dpnotes.__version__)))
    for one in (*certified["certificates"], *here["certificates"]):
        for found in ("closest", "sides"):  # where a search ended: of points that are as close, the last digit decides
            one.pop(found, None)
    assert certified == here, paper


# ---------------------------------------------------------------- premises
@obligation("claims")
def test_no_claim_whose_premise_falls_is_unconditional(paper: str):
    claims = {claim.id: claim for claim in papers.claims(paper)}
    for claim in claims.values():
        assert set(claim.premises) <= set(claims), f"{claim.id} rests on what is no claim of its paper"
        below = [name for premise in claim.premises for name in (premise, *known_premises(claims, premise))]
        falls = [name for name in below if verdicts(paper)[name].kind not in CONFIRMING | SILENT]
        conditional = ", given " in words(paper)[claim.id]
        assert conditional == (bool(falls) and verdicts(paper)[claim.id].confirms), claim.id
        assert not conditional or all(name.split(".", 1)[1] in words(paper)[claim.id] for name in falls)


def known_premises(claims: dict[str, Claim], name: str) -> list[str]:
    """All that a claim rests on, by a walk of its own."""
    direct = claims[name].premises
    return [*direct, *(other for premise in direct for other in known_premises(claims, premise))]


def chain(*verdict: tuple[str, bool, tuple[str, ...]]) -> dict[str, Claim]:
    """Claims of an example: place, whether it is true, and what it rests on."""
    card = Paper("example", "title", ("author",), "venue", 2024, "", "", "version 1", "")
    at, claims = card.section()
    for place, right, premises in verdict:
        wrong = (Severity.PROOF, "wrong", _X)
        at(place, "here", "title")(
            Identity(_X, _X if right else 2 * _X, _X), "here", None if right else wrong, premises=premises
        )
    return {claim.id: claim for claim in claims}


def test_control_a_claim_is_unconditional_until_its_premise_falls():
    def said(right: bool) -> list[str]:
        claims = chain(("lemma", right, ()), ("theorem", True, ("lemma",)), ("remark", True, ("theorem",)))
        found = {name: fallen(claim, claims, Claim.check) for name, claim in claims.items()}
        return [word(claims[name].check(), below) for name, below in found.items()]

    assert said(True) == ["exact", "exact", "exact"]
    assert said(False) == ["contradicted", "exact, given lemma", "exact, given lemma"], "through another claim, too"


def test_premises_are_claims_and_have_no_circle():
    for claims, message in (
        (chain(("theorem", True, ("lemma",))), "premises of example.theorem to be claims, got example.lemma"),
        (chain(("a", True, ("a",))), "without a circle, got example.a -> example.a"),
        (chain(("a", True, ("b",)), ("b", True, ("a",))), "without a circle, got example.a -> example.b -> example.a"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            fallen(next(iter(claims.values())), claims, Claim.check)


# ---------------------------------------------------------------- a check can fail
def answer(statement: Statement) -> Verdict | None:
    """Return the verdict, or None if the statement is refused: a symbol without an interval, or no monomial."""
    try:
        return statement.verdict()
    except (LookupError, TypeError, ValueError):
        return None


# ---------------------------------------------------------------- the letters
# ---------------------------------------------------------------- the letters
def bound_names(source: str) -> set[str]:
    """Return every name that a module binds, at top level or inside a function or a comprehension."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.arg(arg=name) | ast.alias(name=name, asname=None) | ast.alias(asname=name):
                found.add(name)
    return found


@obligation("notation")
def test_no_module_of_claims_binds_a_letter(paper: str):
    notation = papers.part(paper, "notation")
    assert notation is not None, "Expected a module of the paper's letters."
    letters = set(notation.__all__)
    assert {"PAPER", "SYMBOLS"} <= letters, "Expected PAPER, SYMBOLS and the letters in __all__ = letters(vars())."
    folder = checkout(paper) / file_of(paper, "{package}")
    for path in [*folder.glob("claims.py"), *(folder / "claims").glob("[!_]*.py")]:
        again = bound_names(path.read_text(encoding="utf-8")) & letters
        assert not again, f"Expected {path.name} to bind no letter of the notation again, got {sorted(again)}."


def test_control_a_letter_that_is_bound_again_is_seen():
    sources = ["alpha = 1", "alpha, x = 1, 2", "y = [alpha for alpha in (1, 2)]", "from sympy import gamma as alpha"]
    sources += ["def f():\n    for alpha in (1, 2):\n        pass", "def f(alpha):\n    return alpha"]
    assert all("alpha" in bound_names(source) for source in [*sources, "def alpha():\n    pass"])
    assert "alpha" not in bound_names("from dpnotes.papers.one.notation import *\nx = 2 * alpha")


# ---------------------------------------------------------------- the inventory
@obligation("inventory")
def test_the_inventory_and_the_claims_agree(paper: str):
    rows = table(f"inventory/{paper}.csv", checkout(paper))
    places = [row["place"] for row in rows]
    assert len(places) == len(set(places)) and all(row["what"].strip() for row in rows), "Expected one row a place."
    assert {row["scope"] for row in rows} <= SCOPES, f"Expected each scope to be one of {sorted(SCOPES)}."
    claimed = {place_of(claim, places) for claim in papers.claims(paper) if not claim.derived_here}
    assert claimed <= {*places}, f"Expected rows of {sorted(claimed - {*places})}, which have claims."
    alone = {row["place"] for row in rows if row["scope"] == "checked"} - claimed
    assert not alone, f"Expected claims of {sorted(alone)}, which are said to be checked."


def formula_faults(paper: str, rows: list[dict[str, str]], counted: dict[str, str]) -> list[str]:
    """Return the faults of the inventory of formulas: counts that differ, and rows that nothing covers."""
    items = {row["place"]: row["scope"] for row in table(f"inventory/{paper}.csv")}
    scopes = Counter(row["scope"] for row in rows)
    faults = [f"{len(rows)} rows, {counted['rows']} are counted"] * (str(len(rows)) != counted["rows"])
    faults += [f"{one}: {scopes[one]}" for one in FORMULA_SCOPES if str(scopes[one]) != counted[one]]
    for row in rows:
        here = f"line {row['line']}, {row['formula'][:30]}"
        if row["covered by"] not in items or row["scope"] not in FORMULA_SCOPES:
            faults.append(f"{here}: nothing covers it")
        elif row["scope"] == "checked" and items[row["covered by"]] != "checked":
            faults.append(f"{here}: {row['covered by']} has no claim")
    return faults


@pytest.mark.parametrize("counted", table("inventory/formulas/counts.csv"), ids=lambda row: row["paper"])
def test_every_displayed_formula_is_covered(counted: dict[str, str]):
    paper = counted["paper"]
    rows = table(f"inventory/formulas/{paper}.csv")
    assert formula_faults(paper, rows, counted) == []
    assert counted["of these without a row"] == "0" and int(counted["set as displays"]) > 40
    # The controls: a row that is lost, and one that no place covers.
    assert len(formula_faults(paper, rows[1:], counted)) == 2
    assert len(formula_faults(paper, [{**rows[0], "covered by": "thm99"}, *rows[1:]], counted)) == 1


@obligation("derivations")
def test_results_of_our_own_are_marked_and_proved(paper: str):
    path = checkout(paper) / "docs" / "derivations" / f"{paper}.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    proofs = re.findall(r"^## (\S+)$\n+(.*?)(?=^## |\Z)", text, re.M | re.S)
    own = {claim.id for claim in papers.claims(paper) if claim.derived_here}
    missing = own - {name for name, _ in proofs}
    assert not missing, f"Expected the sections {[f'## {name}' for name in sorted(missing)]}, each with its proof."
    assert all(len(text.split()) > 20 for _, text in proofs), "a proof has more words"
    for claim in papers.claims(paper):
        assert claim.derived_here == claim.id.startswith(f"{paper}.own."), claim.id
        assert claim.derived_here == claim.locator.startswith("derived here, unpublished"), claim.id


# ---------------------------------------------------------------- what readers see
@obligation("claims")
@pytest.mark.slow
def test_what_notebooks_and_the_command_line_print_is_whole_and_shows_the_difference(paper: str):
    for claim in papers.claims(paper):
        for text in (claim.printed, claim.corrected or "x"):
            assert text and text.count("{") == text.count("}") and "Symbol" not in text, claim.id
        for text in (claim.printed_text, claim.corrected_text or "x"):
            assert text and text == " ".join(text.split()) and "\\" not in text, claim.id
        assert claim.title and claim.locator and claim.origin, claim.id
        if claim.erratum is not None:
            assert claim.printed_text != claim.corrected_text and claim.printed != claim.corrected, claim.id
            assert claim.erratum.wording.strip() and claim.erratum.version == claim.version, claim.id


@obligation("notation")
def test_citations_and_the_version_that_was_read(paper: str):
    card = papers.paper(paper)
    assert card.version.strip() and all(claim.version == card.version for claim in papers.claims(paper))
    cited = card.title in card.bibtex.replace("{", "").replace("}", "") and card.doi in card.bibtex
    assert card.key == paper and cited, "Expected the bibtex of PAPER to have its title and doi."
    assert card.bibtex.count("{") == card.bibtex.count("}"), "Expected as many { as } in the bibtex of PAPER."


def test_a_paper_that_is_none_is_named():
    with pytest.raises(ValueError, match="Expected 'nobody' to be one of: .*budget_schedules"):
        papers.paper("nobody")


# ---------------------------------------------------------------- anchors
@functools.cache
def page() -> str:
    return (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")


def published(root: Path = ROOT) -> list[str]:
    """Return all ids ever published: the file only grows, and no id is renamed or reused."""
    return (root / "tests" / "anchors.txt").read_text(encoding="utf-8").split()


def broken_links(names: list[str], text: str) -> set[str]:
    """Return the ids whose anchor does not occur exactly once on a page."""
    anchors = Counter(re.findall(r'<a id="([^"]+)"></a>', text))
    return {name for name in names if anchors[name] != 1}


def test_every_id_that_was_published_is_a_claim_with_its_anchor():
    names = published()
    assert names == sorted(set(names))
    assert names == sorted(claim.id for claim in papers.claims()), "a new id is added, an old one stays"
    assert not broken_links(names, page())
    assert all(claim.anchor == claim.id and re.fullmatch(r"[\w.]+", claim.id) for claim in papers.claims())


@obligation("anchors")
def test_the_ids_of_a_paper_are_published_and_stay(paper: str):
    names = [name for name in published(checkout(paper)) if name.startswith(f"{paper}.")]
    ids = {claim.id for claim in papers.claims(paper)}
    assert ids <= {*names}, f"Expected the lines {sorted(ids - {*names})}."
    assert {*names} <= ids, f"Expected the claims {sorted({*names} - ids)}: an id that was published stays."
    assert paper not in papers.PAPERS or not broken_links(names, page()), (
        "write docs/errata.md: dpnotes check --errata --write"
    )


def test_control_a_renamed_claim_breaks_its_link_and_a_heading_is_no_anchor():
    name = published()[0]
    assert broken_links([name], page().replace(f'id="{name}"', f'id="{name}.renamed"')) == {name}
    assert broken_links([name], re.sub(r'<a id="[^"]+"></a>', "", page())) == {name}
    slugs = Counter(re.sub(r"[^\w-]", "", name.lower()) for name in published())  # the anchor that a heading would get
    assert slugs.keys().isdisjoint(published())


# ---------------------------------------------------------------- what is restated
def test_statements_print_their_regime():
    printed = papers.claim("goldstein.own.independent")
    assert printed.printed_text.endswith("d <= m") and "d \\leq m" in printed.printed
    for claim in papers.claims():
        statement = claim.statement
        if getattr(statement, "regime", None) or getattr(statement, "conditions", None):
            assert " for " in statement.plain() and "\\text{for }" in statement.latex(), claim.id


def test_a_correction_of_a_definition_is_shown():
    at, claims = Paper("example", "title", ("author",), "venue", 2024, "", "", "version 1", "").section()
    gamma = PaperSymbols("example").symbol("gamma", "decay")
    printed = Identity(_X, _X * gamma, _X * (1 - 1 / _X), where={gamma: 1 - 2 / _X})
    corrected = replace(printed, where={gamma: 1 - 1 / _X})
    at("thm1", "Theorem 1", "title")(printed, "origin", Severity.CONSTANT("gamma is 1 - 1/x.", corrected))
    assert claims[0].printed_text == "x = gamma*x" and claims[0].corrected_text == "x = gamma*x with gamma = 1 - 1/x"
    assert claims[0].corrected == "x = \\gamma x \\quad \\text{with } \\gamma = 1 - \\frac{1}{x}"
    assert claims[0].erratum is not None
    row = errata.Entry(claims[0], claims[0].erratum, claims[0].check(), corrected.verdict()).row()
    assert str(row["evidence"]).startswith("contradicted") and str(row["corrected"]).endswith("with gamma = 1 - 1/x")


def test_the_page_of_errata_is_current():
    """The page has the evidence of every verdict: the counterexamples, and what is lost."""
    with Verdicts() as known:
        cards = [papers.paper(key) for key in papers.PAPERS]
        current = errata.page(cards, papers.claims(), known, dpnotes.__version__)
    assert page() == current, "write it again: dpnotes check --errata --write"


def counts() -> str:
    """Return README's sentence about the number of claims with each verdict, of the papers that it lists."""
    claims = papers.claims(*SHOWN)
    kinds = Counter(verdict.kind for paper in SHOWN for verdict in verdicts(paper).values())
    severities = Counter(claim.erratum.severity for claim in claims if claim.erratum)
    conditional = sum(", given " in text for paper in SHOWN for text in words(paper).values())
    confirmed = sum(kinds[kind] for kind in CONFIRMING) - conditional
    listed = ", ".join(f"{severities[severity]} {severity}" for severity in Severity if severity != Severity.PRIVACY)
    return (
        f"Of {kinds.total()} claims {confirmed} are confirmed, {conditional} confirmed only given a refuted claim, "
        f"{kinds[Kind.RESTATED]} restated (compared with the same formula, which proves nothing), "
        f"{kinds[Kind.NOT_CHECKABLE]} not checkable, and the others have an erratum. Privacy breaks in "
        f"{len(mechanisms(claims))} mechanisms, by {severities[Severity.PRIVACY]} misprints; the other errata "
        f"are {listed}."
    )


def test_readme_counts_the_verdicts():
    assert counts() in README
    assert counts().replace("restated", "confirmed") not in README  # a control


# ---------------------------------------------------------------- the slow suite
@pytest.mark.slow
@pytest.mark.timeout(1800)
@each_paper
def test_mutants_are_killed(paper: str):
    counts: dict[str, Counter[str]] = {}
    survivors = []
    for claim in papers.claims(paper):
        base = (claim.correction() or claim).statement
        count = counts.setdefault(type(base).__name__, Counter())
        kind, every = base.verdict().kind, [*mutants(base)]
        for change, mutant in random.Random(claim.id).sample(every, min(len(every), 12)):  # some claims have hundreds
            found = answer(mutant)
            if found is None or found.kind != kind:
                count["killed"] += 1
            elif still_true(base, mutant):
                count["still true"] += 1
            else:
                count["survived"] += 1
                survivors.append(f"{claim.id}: {change}")
    total = sum(counts.values(), Counter())
    print(f"\n{paper:30} killed  survived  still true")
    for name, count in [*sorted(counts.items()), ("all", total)]:
        print(f"{name:30} {count['killed']:6}  {count['survived']:8}  {count['still true']:10}")
    assert total["killed"] >= 0.95 * (total["killed"] + total["survived"]), "\n".join(survivors)
