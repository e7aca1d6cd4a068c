"""The claims of papers as a table to search: each row opens the printed statement, its origin, and the evidence.

Claims and their verdicts are passed in; nothing here depends on a paper.
"""

import html
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import ipywidgets
import sympy

from dpnotes.notebook import markup
from dpnotes.notebook.balances import latex_of, meeting
from dpnotes.notebook.teaching import Table
from dpnotes.theory.cache import Verdicts
from dpnotes.theory.claims import Claim, Severity, mechanisms, worst_breach
from dpnotes.theory.premises import fallen, word
from dpnotes.theory.rates import Choice, Rate
from dpnotes.theory.statements import Statement
from dpnotes.theory.symbols import symbols_of
from dpnotes.theory.verdicts import CONFIRMING, SILENT, Kind, Verdict

EVERY, CONFIRMED, UNCONFIRMED = "all", "all that confirm", "all that do not"
ERRATA, OURS = "any erratum", "derived here"
UNPUBLISHED = "derived here, unpublished"
_SEVERITIES: dict[str, Callable[[Claim], bool]] = {
    EVERY: lambda claim: True,
    ERRATA: lambda claim: claim.erratum is not None,
    **{
        each: lambda claim, each=each: claim.erratum is not None and claim.erratum.severity == each for each in Severity
    },
    OURS: lambda claim: claim.derived_here,
}
_VERDICTS: dict[str, Collection[Kind]] = {
    EVERY: [*Kind],
    CONFIRMED: CONFIRMING,
    UNCONFIRMED: {*Kind} - CONFIRMING - SILENT,
    **{kind: [kind] for kind in Kind},
}
# The parts of a statement that its row shows, by attribute, with their names.
_OF_RATE = dict(terms="terms", constraints="at most 1", tuned="tuned", normalised="put to 1", logs="logarithms")
_OF_CHOICE = dict(terms="every term", rate="at most the rate", constraints="at most 1")
_OF_OTHERS = dict(derived="derived independently", objective="minimised", quantity="quantity", expression="expression")
_OF_OTHERS |= dict(left="left side", right="right side")
_LETTERS_SHOWN = 900  # a longer formula is shown in a box that scrolls


def counts_table(claims: Iterable[Claim], verdicts: Mapping[str, Verdict]) -> Table:
    """A table of the number of claims by paper and verdict, and of those that rest on a claim that falls.

    Args:
      claims: claims of any papers, with the claims that they rest on.
      verdicts: their verdicts by id.
    """
    claims = list(claims)
    known = {claim.id: claim for claim in claims}
    conditional = [
        claim
        for claim in claims
        if verdicts[claim.id].confirms and {*claim.premises} <= {*known}
        if fallen(claim, known, lambda one: verdicts[one.id])
    ]
    kinds = {str(kind): [claim for claim in claims if verdicts[claim.id].kind == kind] for kind in Kind}
    kinds = {name: some for name, some in kinds.items() if some}
    papers, rows = _papers(claims), []
    for name, some in {**kinds, "claims": claims, "confirmed conditionally": conditional}.items():
        counts = Counter(claim.paper for claim in some)
        rows.append([name, *(str(counts[paper]) for paper in papers), str(len(some))])
    return Table(["verdict", *papers, "all papers"], rows)


def errata_counts(claims: Iterable[Claim]) -> Table:
    """A table of the number of errata by paper and severity, and of results derived here.

    Privacy-breaking errata are counted by flawed mechanism; the number of their misprints stands in brackets.
    """
    claims, rows = list(claims), []
    by_paper = {paper: [claim for claim in claims if claim.paper == paper] for paper in _papers(claims)}
    for name, chosen in {**by_paper, "all papers": claims}.items():
        found = Counter(claim.erratum.severity for claim in chosen if claim.erratum)
        ours = sum(claim.derived_here for claim in chosen)
        cells = {severity: str(found[severity]) for severity in Severity}
        cells[Severity.PRIVACY] = f"{len(mechanisms(chosen))} ({found[Severity.PRIVACY]})"
        rows.append([name, *cells.values(), str(found.total()), str(ours)])
    return Table(["paper", *map(str, Severity), "errata", "derived here"], rows)


def breaches_table(claims: Iterable[Claim]) -> Table:
    """A table of the flawed mechanisms, each with the breach that reaches the largest delta and its misprints."""
    rows = [
        [paper, mechanism, str(worst_breach(some)), ", ".join(claim.id.split(".", 1)[1] for claim in some)]
        for (paper, mechanism), some in mechanisms(claims).items()
    ]
    return Table(["paper", "mechanism", "at worst", "misprints"], rows)


def _papers(claims: Iterable[Claim]) -> list[str]:
    return list(dict.fromkeys(claim.paper for claim in claims))


class ClaimsTable:
    """A table of claims with filters; each row opens its derivation.

    Args:
      claims: claims of any papers.
      verdicts: the source of the verdicts; all claims are checked at once, corrections when their row opens.
      rows: the number of rows on a page.
      severity: the severity that the filter has at first.

    Attributes:
      controls: the filters "paper", "severity", "verdict" and "text", and the "page".
      readout: a summary of the claims that pass the filters.
      data: the ids that pass the filters, counts by verdict, the ids on the page, and the open rows.
      box: the ipywidget that is shown.

    >>> from dpnotes.papers.budget_schedules.claims import CLAIMS
    >>> table = ClaimsTable(CLAIMS[3:5], Verdicts())
    >>> table.data["ids"]
    ['budget_schedules.lemmaC.4.inversion']
    >>> table.controls["severity"].value = "all"
    >>> len(table.data["ids"])
    2
    """

    def __init__(self, claims: Sequence[Claim], verdicts: Verdicts, rows: int = 10, severity: str = ERRATA):
        self._claims, self._verdicts = list(claims), verdicts
        self._found = {claim.id: verdicts.of(claim) for claim in self._claims}
        self._fallen = {claim.id: verdicts.fallen(claim) for claim in self._claims}
        self._texts = {claim.id: _searched(claim, self._found[claim.id]) for claim in self._claims}
        severities, verdicts_shown = [*map(str, _SEVERITIES)], [*map(str, _VERDICTS)]
        self.controls: dict[str, Any] = {
            "paper": ipywidgets.Dropdown(options=[EVERY, *_papers(self._claims)], description="paper"),
            "severity": ipywidgets.Dropdown(options=severities, value=severity, description="severity"),
            "verdict": ipywidgets.Dropdown(options=verdicts_shown, description="verdict"),
            "text": ipywidgets.Text(description="text", placeholder="for example: Theorem 3", continuous_update=False),
            "page": ipywidgets.BoundedIntText(value=1, min=1, max=1, description="page"),
        }
        for name, control in self.controls.items():
            control.style.description_width = "5em"
            control.layout.width = "min(100%, 20em)"
            control.observe(self._turned if name == "page" else self._filtered, "value")
        self.controls["page"].layout.width = "10em"
        self.next = ipywidgets.Button(description="next page", layout={"width": "auto"})
        self.next.on_click(self._next)
        self.readout = ipywidgets.HTMLMath()
        self.readout.add_class("dpnotes-readout")
        self._rows = [_Row(self) for _ in range(rows)]
        filters = [self.controls[name] for name in ("paper", "severity", "verdict", "text")]
        above = ipywidgets.Box(filters, layout={"flex_flow": "row wrap"})
        below = ipywidgets.HBox([self.controls["page"], self.next])
        self.box = ipywidgets.VBox([above, self.readout, *(row.box for row in self._rows), below])
        self.box.add_class("dpnotes-claims")
        self._filtered(None)

    @property
    def data(self) -> dict[str, Any]:
        """The ids that pass the filters, counts by verdict, the ids on the page, and the open rows."""
        return {
            "ids": [claim.id for claim in self._left],
            "kinds": Counter(str(self._found[claim.id].kind) for claim in self._left),
            "page": [row.claim.id for row in self._rows if row.claim],
            "open": [row.claim.id for row in self._rows if row.claim and row.is_open],
        }

    def toggle(self, name: str) -> None:
        """Open the row of a claim on this page, or close it.

        Raises:
          ValueError: the claim is not on this page.
        """
        row = next((row for row in self._rows if row.claim and row.claim.id == name), None)
        if row is None:
            raise ValueError(f"Expected a claim on this page, got {name}.")
        row.turn()

    def details(self, claim: Claim) -> str:
        """The text that the row of a claim opens: HTML, with mathematics between dollar signs."""
        return details(claim, self._found[claim.id], self._verdicts.of_correction(claim), self._fallen[claim.id])

    def _keeps(self, claim: Claim) -> bool:
        chosen = {name: control.value for name, control in self.controls.items()}
        return (
            chosen["paper"] in (EVERY, claim.paper)
            and _SEVERITIES[chosen["severity"]](claim)
            and self._found[claim.id].kind in _VERDICTS[chosen["verdict"]]
            and all(word in self._texts[claim.id] for word in chosen["text"].lower().split())
        )

    def _filtered(self, _: Any) -> None:
        self._left = [claim for claim in self._claims if self._keeps(claim)]
        page = self.controls["page"]
        page.value, page.max = 1, max(1, -(-len(self._left) // len(self._rows)))
        self._turned(None)

    def _next(self, _: Any) -> None:
        page = self.controls["page"]
        page.value = page.value % page.max + 1

    def _turned(self, _: Any) -> None:
        page, size = self.controls["page"], len(self._rows)
        shown = self._left[(page.value - 1) * size : page.value * size]
        for row, claim in zip_longest(self._rows, shown):
            row.show(claim)
        kinds = self.data["kinds"]
        listed = ", ".join(f"{kinds[kind]} {kind}" for kind in Kind if kinds[kind])
        self.readout.value = (
            f"<b>{len(self._left)}</b> of {len(self._claims)} claims{': ' if listed else ''}{listed}. "
            f"Page {page.value} of {page.max}; press a name to open its row."
        )

    def __repr__(self) -> str:
        return f"ClaimsTable({len(self._claims)} claims, {len(self._left)} shown)"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        words = {claim.id: word(self._found[claim.id], self._fallen[claim.id]) for claim in self._left}
        shown = {"text/plain": repr(self), "text/html": _still(self._left, words)}
        return {**(self.box._repr_mimebundle_() or {}), **shown}


class _Row:
    """One line of the table: a button with the claim's name, a summary, and its derivation below when open."""

    def __init__(self, table: ClaimsTable):
        self._table = table
        left = {"display": "flex", "justify_content": "flex-start"}
        self.button = ipywidgets.Button(layout={"width": "21em", "min_width": "12em", **left})
        self.button.style.text_color = "var(--jp-content-link-color, #0b4f7a)"  # readable in a dark theme too
        self.button.style.button_color = "transparent"
        self.button.add_class("dpnotes-claim")
        self.button.on_click(lambda _: self.turn())
        self.summary = ipywidgets.HTML(layout={"flex": "1 1 22em", "min_width": "0"})
        self.detail = ipywidgets.HTMLMath()
        line = ipywidgets.HBox([self.button, self.summary], layout={"align_items": "center"})
        self.box = ipywidgets.VBox([line, self.detail], layout={"border_top": "1px solid #d8d8d8"})

    def show(self, claim: Claim | None, is_open: bool = False) -> None:
        """Show a claim, open or closed, or nothing."""
        self.claim, self.is_open = claim, is_open
        self.box.layout.display = None if claim else "none"
        self.detail.value = self._table.details(claim) if claim and is_open else ""
        self.detail.layout.display = None if is_open else "none"
        if claim:
            self.button.description = f"{'▾' if is_open else '▸'} {claim.id}"
            self.button.tooltip = f"{'close' if is_open else 'open'} {claim.id}"
            self.summary.value = _summary(claim, self._table._found[claim.id], self._table._fallen[claim.id])

    def turn(self) -> None:
        """Open the row if it is closed, else close it."""
        self.show(self.claim, not self.is_open)


# ---------------------------------------------------------------- the texts of a row
def _searched(claim: Claim, verdict: Verdict) -> str:
    wording = claim.erratum.wording if claim.erratum else ""
    parts = (claim.id, claim.title, claim.locator, claim.printed_text, claim.origin, wording, verdict.evidence)
    return " ".join(parts).lower()


def _verdict(verdict: Verdict, given: tuple[str, ...] = ()) -> str:
    if verdict.kind in SILENT:
        return f"– {verdict.kind}"
    mark = "✗" if not verdict.confirms else "(✓)" if given else "✓"
    return f"<b>{mark} {html.escape(word(verdict, given))}</b>"


def _evidence(claim: Claim, verdict: Verdict) -> str:
    return markup.numbers(html.escape(markup.typeset(verdict.evidence, symbols_of(*claim.statement.expressions))))


def _summary(claim: Claim, verdict: Verdict, given: tuple[str, ...]) -> str:
    parts = [f"<b>{html.escape(claim.title)}</b> ({html.escape(claim.locator)})", _verdict(verdict, given)]
    if claim.erratum:
        parts.append(f"{claim.erratum.severity} erratum")
    if claim.derived_here and claim.locator != UNPUBLISHED:
        parts.append(UNPUBLISHED)
    return f'<div style="line-height: 1.35; padding: 3px 0">{" · ".join(parts)}</div>'


def details(claim: Claim, verdict: Verdict, correction: Verdict | None, given: tuple[str, ...] = ()) -> str:
    """The details of a claim and of its verdicts: HTML, with mathematics between dollar signs.

    Args:
      claim: the claim.
      verdict: the verdict on the statement as printed.
      correction: the verdict on the corrected statement, if there is one.
      given: ids of the claims that it rests on and that fall.

    >>> from dpnotes.papers.budget_schedules.claims import CLAIMS
    >>> "stated 81.49, derived 0.1964" in details(CLAIMS[3], CLAIMS[3].check(), None)
    True
    """
    lines = [
        (UNPUBLISHED if claim.derived_here else "printed", _formula(claim.printed, claim.statement)),
        ("verdict", f"{_verdict(verdict, given)}: {_evidence(claim, verdict)}"),
    ]
    if claim.premises:
        lines.append(("rests on", html.escape(", ".join(claim.premises))))
    lines.append(("where it comes from", html.escape(claim.origin)))
    lines += _derivation(claim.statement)
    erratum = claim.erratum
    if erratum is not None:
        if erratum.corrected is None:
            lines.append(("correction", "to be left out"))
        else:
            lines.append(("corrected", _formula(erratum.corrected.latex(), erratum.corrected)))
            if correction is not None:
                lines.append(("its verdict", f"{_verdict(correction, given)}: {_evidence(claim, correction)}"))
            if isinstance(claim.statement, Rate) != isinstance(erratum.corrected, Rate):
                lines += _derivation(erratum.corrected)
        severity = f"{erratum.severity}{f': {erratum.mechanism}' if erratum.mechanism else ''}"
        lines += [
            ("wording for the authors", html.escape(erratum.wording)),
            ("severity", html.escape(severity)),
            ("seen in", f"{html.escape(erratum.version)}; newer versions: {erratum.later}"),
        ]
    lines.append(("rerun", f"<code>dpnotes check {html.escape(claim.id)}</code>"))
    body = "".join(
        f'<tr><td style="vertical-align: top; text-align: right; padding: 2px 10px 2px 0; '
        f'white-space: nowrap">{name}</td><td style="vertical-align: top; text-align: left; padding: 2px 0">'
        f'<div style="overflow-x: auto; max-width: 56em; line-height: 1.45">{text}</div></td></tr>'
        for name, text in lines
    )
    return f'<table style="margin: 0 0 8px 1.5em">{body}</table>'


def _formula(latex: str, statement: Statement) -> str:
    # Words that are typeset as mathematics do not wrap.
    if latex.startswith("\\text{"):
        return html.escape(statement.plain())
    return _math(latex)


def _math(formula: Any) -> str:
    latex = formula if isinstance(formula, str) else latex_of(formula)
    if len(latex) > _LETTERS_SHOWN:
        plain = formula if isinstance(formula, str) else str(formula)
        return f"<code>{html.escape(plain)}</code>"
    return f"$\\displaystyle {latex.replace('<', chr(92) + 'lt ').replace('>', chr(92) + 'gt ')}$"


def _part(formulas: Any) -> str:
    """A formula, several in a row, or several by name."""
    if isinstance(formulas, Mapping):
        names = {name: html.escape(name) if isinstance(name, str) else _math(name) for name in formulas}
        return "".join(f'<div style="padding: 3px 0">{names[n]}: {_math(f)}</div>' for n, f in formulas.items())
    return ", ".join(map(_math, formulas if isinstance(formulas, tuple) else [formulas]))


def _derivation(statement: Statement) -> list[tuple[str, str]]:
    """The formulas that the printed one is compared with, by the kind of statement."""
    names = {Rate: _OF_RATE, Choice: _OF_CHOICE}.get(type(statement), _OF_OTHERS)
    parts = {name: getattr(statement, attribute, None) for attribute, name in names.items()}
    some = [
        (name, p) for name, p in parts.items() if isinstance(p, sympy.Basic) or isinstance(p, tuple | Mapping) and p
    ]
    lines = [(name, _part(part)) for name, part in some]
    if isinstance(statement, Rate):
        return lines + _vertices(statement)
    if not isinstance(statement, Choice) and (where := getattr(statement, "where", None)):
        lines.append(("with", ", ".join(f"{_math(symbol)} → {_math(value)}" for symbol, value in where.items())))
    return lines


def _vertices(statement: Rate) -> list[tuple[str, str]]:
    try:
        found = statement.balance()
    except ValueError as error:
        return [("balance", html.escape(str(error)))]
    lines = []
    if found.regime:
        at_most_one = {name: f"{latex_of(most)} \\leq 1" for name, most in found.regime.items()}
        said = {n: "" if " >= " in n or " <= " in n else f": {_math(formula)}" for n, formula in at_most_one.items()}
        lines.append(("regime", "; ".join(html.escape(name) + more for name, more in said.items())))
    for vertex in found.vertices:
        weights = ", ".join(f"{html.escape(name)} ({weight})" for name, weight in vertex.weights.items())
        lines.append(("meet (weight)", f"{weights}<br>{_math(meeting(found, vertex))}"))
    return lines


def _still(claims: Sequence[Claim], words: Mapping[str, str]) -> str:
    """The static table for readers without a kernel."""
    head = "".join(f'<th style="text-align: left">{name}</th>' for name in ("claim", "what", "verdict", "severity"))
    rows = []
    for claim in claims:
        severity = str(claim.erratum.severity) if claim.erratum else OURS if claim.derived_here else ""
        cells = [claim.id, f"{claim.title} ({claim.locator})", words[claim.id], severity]
        rows.append("".join(f'<td style="text-align: left">{html.escape(cell)}</td>' for cell in cells))
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
