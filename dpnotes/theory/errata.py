"""The errata of the papers and the results derived here: the rows, and the page that is generated from them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dpnotes.theory.cache import Verdicts
from dpnotes.theory.claims import Claim, Erratum, Paper, Severity, mechanisms, worst_breach
from dpnotes.theory.premises import word
from dpnotes.theory.verdicts import Kind, Verdict


@dataclass(frozen=True)
class Entry:
    """An erratum with the engine's verdicts, computed now, on the statement as printed and as corrected.

    Args:
      claim: the claim.
      erratum: its erratum.
      verdict: the verdict on the statement as printed.
      verdict_of_correction: the verdict on the corrected statement, if there is one.
      fallen: ids of the claims that it rests on and that fall.
    """

    claim: Claim
    erratum: Erratum
    verdict: Verdict
    verdict_of_correction: Verdict | None
    fallen: tuple[str, ...] = ()

    @property
    def evidence_of_correction(self) -> str | None:
        """The verdict of the correction with its evidence; conditional where a premise falls."""
        found = self.verdict_of_correction
        return f"{word(found, self.fallen)}: {found.evidence}" if found else None

    def row(self) -> dict[str, str | None]:
        """The entry as texts, for a table or for a program."""
        return {
            "id": self.claim.id,
            "title": self.claim.title,
            "locator": self.claim.locator,
            "severity": str(self.erratum.severity),
            "breach": str(self.erratum.breach) if self.erratum.breach else None,
            "mechanism": self.erratum.mechanism,
            "printed": self.claim.printed_text,
            "corrected": self.claim.corrected_text or self.erratum.wording,
            "printed_latex": self.claim.printed,
            "corrected_latex": self.claim.corrected,
            "evidence": str(self.verdict),
            "evidence_of_correction": self.evidence_of_correction,
            "origin": self.claim.origin,
            "wording": self.erratum.wording,
            "version": self.erratum.version,
            "newer_versions": self.erratum.later,
            "reproduce": f"dpnotes check {self.claim.id}",
        }


def entries(claims: Iterable[Claim], verdicts: Verdicts) -> Iterator[Entry]:
    """The entries of all claims that have an erratum, in the order of the claims.

    >>> from dpnotes.papers import claims
    >>> with Verdicts() as verdicts:
    ...     (entry,) = entries(claims("budget_schedules.lemma4.4"), verdicts)
    >>> entry.row()["evidence"]
    'contradicted: at T = 4, q_1 = 1, q_2 = 4, q_3 = 9, q_4 = 16: stated 516, derived 20'
    """
    for claim in claims:
        if claim.erratum is not None:
            verdict, correction = verdicts.of(claim), verdicts.of_correction(claim)
            yield Entry(claim, claim.erratum, verdict, correction, verdicts.fallen(claim))


# ---------------------------------------------------------------- the page
_HEAD = """\
Each entry is a claim whose verdict, computed by [the engine](theory.md), does not confirm what is printed. The evidence
can be evaluated by hand, and the command repeats the check. A correction has passed the same check, or is the very
formula that the check compared with ("restated"). "exact, given lemma3.3.decrease" means that the claim follows from
another one of its paper, which falls: it is counted as conditional, not as confirmed. Formulas are in the letters of
the paper, in a form that can be compared: a sentence about a decrease may stand as an inequality, a lower bound as the
order of its inverse. Where an order of magnitude is stated, constants are dropped from the evidence, too, and "for ..."
after it is the regime that the check was made in, which the paper may leave to its reader.
Each entry names the version that was read, and what became of it in newer ones, where that is known. Its anchor is the
claim's id, which is never changed nor given to another claim.
Severities: "privacy-breaking", where who follows the print inside the paper's regime (more than one leaf or step,
epsilon and delta as assumed) publishes something that breaks the (epsilon, delta) it states, by the number that stands
there and that `tests/papers/test_breaches.py` computes anew: counted once for a flawed mechanism, below which its
misprints stand, each of them enough to break it; "rate", where an exponent, a term or a conclusion falls; "proof gap",
where the proof does not show it, and nothing breaks so far; "edge case", where it fails at an end of what is assumed
only: one leaf, one step, one dimension, a huge epsilon; "constant", where constants change, or where a claim only
passes on another one's erratum, so that one mistake counts once; and "typographical". A claim is "restated" where what
it is compared with is the same formula, so that nothing is proved: it is counted apart."""


_COUNTED = ("claims", "confirmed", "conditional", "restated", "not checkable", "errata")


def page(papers: Sequence[Paper], claims: Sequence[Claim], verdicts: Verdicts, version: str) -> str:
    """The errata as Markdown: counts, a section for each paper, then results derived here and claims not checked.

    Args:
      papers: the papers in the order of the page.
      claims: the claims of all papers.
      verdicts: the source of the verdicts.
      version: the version of this package.

    >>> from dpnotes.papers import claims, paper
    >>> with Verdicts() as verdicts:
    ...     text = page([paper("budget_schedules")], claims("budget_schedules.lemma4.4"), verdicts, "1.0")
    >>> text.splitlines()[0], text.count("* evidence: `contradicted")
    ('# Errata of the papers, and results of our own', 1)
    """
    found = list(entries(claims, verdicts))
    own = [claim for claim in claims if claim.derived_here]
    kinds = {claim.id: verdicts.of(claim) for claim in claims}
    words = {claim.id: verdicts.word(claim) for claim in claims}
    conditional = {claim.id for claim in claims if words[claim.id] != kinds[claim.id].kind}
    silent = [claim for claim in claims if kinds[claim.id].kind == Kind.NOT_CHECKABLE]
    lines = [
        "# Errata of the papers, and results of our own",
        "",
        "Generated by `dpnotes check --errata --write`, never written by hand. "
        f"As of dpnotes {version}; corrections welcome.",
        "",
        _HEAD,
        *_header("paper", *_COUNTED, *Severity, "derived here"),
    ]
    for paper in papers:
        ours = [claim for claim in claims if claim.paper == paper.key]
        errata = Counter(entry.erratum.severity for entry in found if entry.claim.paper == paper.key)
        flawed = mechanisms(ours)
        counted = {**errata, Severity.PRIVACY: f"{len(flawed)} ({errata[Severity.PRIVACY]})"}
        cells = [
            f"[{paper.key}](#{_anchor(paper.key)})",
            len(ours),
            sum(kinds[claim.id].confirms and claim.id not in conditional for claim in ours),
            sum(claim.id in conditional for claim in ours),
            *(sum(kinds[claim.id].kind == kind for claim in ours) for kind in (Kind.RESTATED, Kind.NOT_CHECKABLE)),
            sum(errata.values()),
            *(counted.get(severity, 0) for severity in Severity),
            sum(claim.derived_here for claim in ours),
        ]
        lines.append(_row(cells))
    lines += _what_breaks_privacy(claims)
    for paper in papers:
        lines += ["", f"## {paper.key}", "", *_about(paper)]
        chosen = [entry for entry in found if entry.claim.paper == paper.key]
        for (_, mechanism), some in mechanisms(entry.claim for entry in chosen).items():
            lines += ["", f"**Flawed mechanism: {_text(mechanism)}.** Misprints that break it: {_links(some)}."]
        for severity in Severity:
            for entry in chosen:
                if entry.erratum.severity == severity:
                    lines += _section(entry)
    said = "Results of our own, which no paper states. Each has a check that could refute it, and a proof in "
    lines += ["", "## Derived here, unpublished", "", f"{said}`docs/derivations`."]
    for claim in own:
        proof = f"derivations/{claim.paper}.md#{_anchor(claim.id)}"
        lines += ["", _mark(claim), f"### {claim.id}", "", f"{_text(claim.title)}.", ""]
        verdict = f"{words[claim.id]}: {kinds[claim.id].evidence}"
        lines += [f"* states: {_code(claim.printed_text)}", f"* verdict: {_code(verdict)}"]
        read = f"paper read in: {_text(claim.version)}; repeat: `dpnotes check {claim.id}`"
        lines.append(f"* proof: [{claim.id}]({proof}); {read}")
    lines += ["", "## Not checked, and why", *_header("claim", "where", "what", "why", "read in")]
    for claim in silent:
        evidence = kinds[claim.id].evidence
        cells = [f"{_mark(claim)}`{claim.id}`", claim.locator, claim.printed_text, evidence, claim.version]
        lines.append(_row([cells[0], *map(_text, cells[1:])]))
    lines += ["", "## All other claims", *_header("claim", "where", "verdict", "read in")]
    for claim in claims:
        if claim.erratum is None and not claim.derived_here and claim not in silent:
            cells = [f"{_mark(claim)}`{claim.id}`", _text(claim.locator), words[claim.id], _text(claim.version)]
            lines.append(_row(cells))
    return "\n".join(lines) + "\n"


def _what_breaks_privacy(claims: Sequence[Claim]) -> list[str]:
    """The first section: each flawed mechanism with its worst misprint, if there is any."""
    rows = [
        _row([paper, _text(mechanism), _text(str(worst_breach(some))), _links(some)])
        for (paper, mechanism), some in mechanisms(claims).items()
    ]
    said = "One line for each flawed mechanism, with the worst of its misprints."
    head = ["", "## What breaks privacy", "", said, *_header("paper", "mechanism", "at worst", "misprints")]
    return head + rows if rows else []


def _about(paper: Paper) -> list[str]:
    where = ", ".join(part for part in (paper.venue, str(paper.year), paper.arxiv and f"arXiv:{paper.arxiv}") if part)
    return [
        f"{', '.join(paper.authors)}: *{paper.title}*. {_text(where)}. "
        f"Read, and errata seen, in: {_text(paper.version)}."
    ]


def _section(entry: Entry) -> list[str]:
    claim, erratum = entry.claim, entry.erratum
    lines = ["", _mark(claim), f"### {claim.id}", ""]
    lines += [f"{_text(claim.title)}: {_text(claim.locator)}. **{erratum.severity}**", ""]
    if erratum.breach:
        lines += [f"* mechanism: {_text(erratum.breach.mechanism)}", f"* breaks: {_text(str(erratum.breach))}"]
    lines += [f"* printed: {_code(claim.printed_text)}"]
    lines += [f"* corrected: {_code(claim.corrected_text)}"] if claim.corrected_text else []
    lines += [f"* evidence: {_code(str(entry.verdict))}"]
    if entry.evidence_of_correction:
        lines += [f"* evidence of the correction: {_code(entry.evidence_of_correction)}"]
    lines += [f"* compared with: {_text(claim.origin)}", f"* to the authors: {_text(erratum.wording)}"]
    seen = f"read in: {_text(erratum.version)}; newer versions: {erratum.later}"
    return [*lines, f"* {seen}; repeat: `dpnotes check {claim.id}`"]


def _mark(claim: Claim) -> str:
    """The permanent anchor, since a heading's own link changes with its wording and drops the dots of an id."""
    return f'<a id="{claim.anchor}"></a>'


def _anchor(heading: str) -> str:
    """The link target of a heading: small letters, digits, dashes and underscores.

    >>> _anchor("budget_schedules.thm4.5.T")
    'budget_schedulesthm45t'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _code(text: str) -> str:
    return f"`{text}`" if "`" not in text else f"`` {text} ``"


def _text(text: str) -> str:
    r"""The text with Markdown's special characters escaped.

    >>> print(_text("f(theta^*) < a_1 [see _x_]"))
    f(theta^\*) \< a_1 \[see \_x\_\]
    """
    escaped = re.sub(r"([\\`*<>\[\]$|~#])", r"\\\1", " ".join(text.split()))
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", escaped)


def _links(claims: Iterable[Claim]) -> str:
    return ", ".join(f"[{claim.id.split('.', 1)[1]}](#{claim.anchor})" for claim in claims)


def _header(*names: str) -> list[str]:
    """The lines that begin a table, after an empty one."""
    return ["", _row(names), "|---" * len(names) + "|"]


def _row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
