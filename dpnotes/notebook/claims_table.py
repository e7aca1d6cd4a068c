"""The claims of papers as a table to search: each row opens the printed statement, its origin, and the evidence.

Claims and their verdicts are passed in; nothing here depends on a paper.
"""

import html
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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

EVERY, CONFIRMED, UNCONFIRMED, ERRATA, OURS = (
    "all",
    "all that confirm",
    "all that do not",
    "any erratum",
    "derived here",
)
_MARKS = {True: "✓", False: "✗"}
_CONDITIONAL = "(✓)"
_LETTERS_SHOWN = 900  # a longer formula is shown in a box that scrolls


def counts_table(claims: Iterable[Claim], verdicts: Mapping[str, Verdict]) -> Table:
    """A table of the number of claims by paper and verdict, and of those that rest on a claim that falls.

    Args:
      claims: claims of any papers, with the claims that they rest on.
      verdicts: their verdicts by id.
    """
    claims = list(claims)
    known = {claim.id: claim for claim in claims}
    conditional = Counter(
        claim.paper
        for claim in claims
        if verdicts[claim.id].confirms and {*claim.premises} <= {*known}
        if fallen(claim, known, lambda one: verdicts[one.id])
    )
    kinds = [kind for kind in Kind if any(verdicts[claim.id].kind == kind for claim in claims)]
    papers = list(dict.fromkeys(claim.paper for claim in claims))
    found = Counter((claim.paper, verdicts[claim.id].kind) for claim in claims)
    rows = [[str(kind), *(found[paper, kind] for paper in papers)] for kind in kinds]
    rows.append(["claims", *(sum(claim.paper == paper for claim in claims) for paper in papers)])
    rows.append(["confirmed conditionally", *(conditional[paper] for paper in papers)])
    rows = [[name, *map(str, counts), str(sum(counts))] for name, *counts in rows]
    return Table(["verdict", *papers, "all papers"], rows)


def errata_counts(claims: Iterable[Claim]) -> Table:
    """A table of the number of errata by paper and severity, and of results derived here.

    Privacy-breaking errata are counted by flawed mechanism; the number of their misprints stands in brackets.
    """
    claims = list(claims)
    papers = list(dict.fromkeys(claim.paper for claim in claims))
    rows = []
    for name, chosen in [*((p, [c for c in claims if c.paper == p]) for p in papers), ("all papers", claims)]:
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
        self._open: set[str] = set()
        papers = list(dict.fromkeys(claim.paper for claim in self._claims))
        kinds = [str(kind) for kind in Kind]
        self.controls: dict[str, Any] = {
            "paper": ipywidgets.Dropdown(options=[EVERY, *papers], description="paper"),
            "severity": ipywidgets.Dropdown(
                options=[EVERY, ERRATA, *map(str, Severity), OURS], value=severity, description="severity"
            ),
            "verdict": ipywidgets.Dropdown(options=[EVERY, CONFIRMED, UNCONFIRMED, *kinds], description="verdict"),
            "text": ipywidgets.Text(description="text", placeholder="for example: Theorem 3", continuous_update=False),
            "page": ipywidgets.BoundedIntText(value=1, min=1, max=1, description="page"),
        }
        for name, control in self.controls.items():
            control.style.description_width = "5em"
            control.layout.width = "min(100%, 20em)"
            control.observe(self._turned if name == "page" else self._filtered, "value")
        self.controls["page"].layout.width = "10em"
        self.next = ipywidgets.Button(description="next page", layout={"width": "auto"})
        self.next.on_click(lambda _: self._next())
        self.readout = ipywidgets.HTMLMath()
        self.readout.add_class("dpnotes-readout")
        self._rows = [_Row(self) for _ in range(rows)]
        filters = [self.controls[name] for name in ("paper", "severity", "verdict", "text")]
        self.box = ipywidgets.VBox(
            [
                ipywidgets.Box(filters, layout={"flex_flow": "row wrap"}),
                self.readout,
                *(row.box for row in self._rows),
                ipywidgets.HBox([self.controls["page"], self.next]),
            ]
        )
        self.box.add_class("dpnotes-claims")
        self._filtered(None)

    @property
    def data(self) -> dict[str, Any]:
        """The ids that pass the filters, counts by verdict, the ids on the page, and the open rows."""
        return {
            "ids": [claim.id for claim in self._left],
            "kinds": Counter(str(self._found[claim.id].kind) for claim in self._left),
            "page": [row.claim.id for row in self._rows if row.claim is not None],
            "open": [row.claim.id for row in self._rows if row.claim is not None and row.claim.id in self._open],
        }

    def toggle(self, name: str) -> None:
        """Open the row of a claim on this page, or close it.

        Raises:
          ValueError: the claim is not on this page.
        """
        row = next((row for row in self._rows if row.claim is not None and row.claim.id == name), None)
        if row is None:
            raise ValueError(f"Expected a claim on this page, got {name}.")
        self._open ^= {name}
        row.show(row.claim)

    def details(self, claim: Claim) -> str:
        """The text that the row of a claim opens: HTML, with mathematics between dollar signs."""
        return details(claim, self._found[claim.id], self._verdicts.of_correction(claim), self._fallen[claim.id])

    def _keeps(self, claim: Claim) -> bool:
        chosen = {name: control.value for name, control in self.controls.items()}
        kind, severity = self._found[claim.id].kind, chosen["severity"]
        right_severity = {
            EVERY: True,
            ERRATA: claim.erratum is not None,
            OURS: claim.derived_here,
        }.get(severity, bool(claim.erratum and claim.erratum.severity == severity))
        right_kind = {
            EVERY: True,
            CONFIRMED: kind in CONFIRMING,
            UNCONFIRMED: kind not in CONFIRMING | SILENT,
        }.get(chosen["verdict"], kind == chosen["verdict"])
        words = chosen["text"].lower().split()
        text = self._texts[claim.id]
        right_paper = chosen["paper"] in (EVERY, claim.paper)
        return all([right_paper, right_severity, right_kind, *(word in text for word in words)])

    def _filtered(self, _: Any) -> None:
        self._left = [claim for claim in self._claims if self._keeps(claim)]
        pages = max(1, -(-len(self._left) // len(self._rows)))
        page = self.controls["page"]
        page.value, page.max = 1, pages
        self._turned(None)

    def _next(self) -> None:
        page = self.controls["page"]
        page.value = page.value % page.max + 1

    def _turned(self, _: Any) -> None:
        self._open.clear()
        page, size = self.controls["page"], len(self._rows)
        shown = self._left[(page.value - 1) * size : page.value * size]
        for place, row in enumerate(self._rows):
            row.show(shown[place] if place < len(shown) else None)
        kinds = Counter(str(self._found[claim.id].kind) for claim in self._left)
        listed = ", ".join(f"{kinds[kind]} {kind}" for kind in Kind if kinds[kind])
        self.readout.value = (
            f"<b>{len(self._left)}</b> of {len(self._claims)} claims{': ' if listed else ''}{listed}. "
            f"Page {page.value} of {page.max}; press a name to open its row."
        )

    def __repr__(self) -> str:
        return f"ClaimsTable({len(self._claims)} claims, {len(self._left)} shown)"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        still = _still(
            self._left, {claim.id: word(self._found[claim.id], self._fallen[claim.id]) for claim in self._left}
        )
        return {**(self.box._repr_mimebundle_() or {}), "text/plain": repr(self), "text/html": still}


class _Row:
    """One line of the table: a button with the claim's name, a summary, and its derivation below when open."""

    def __init__(self, table: ClaimsTable):
        self._table = table
        self.claim: Claim | None = None
        left = {"display": "flex", "justify_content": "flex-start"}
        self.button = ipywidgets.Button(layout={"width": "21em", "min_width": "12em", **left})
        self.button.style.text_color = "var(--jp-content-link-color, #0b4f7a)"  # readable in a dark theme too
        self.button.style.button_color = "transparent"
        self.button.add_class("dpnotes-claim")
        self.button.on_click(lambda _: self.claim is not None and table.toggle(self.claim.id))
        self.summary = ipywidgets.HTML(layout={"flex": "1 1 22em", "min_width": "0"})
        self.detail = ipywidgets.HTMLMath()
        line = ipywidgets.HBox([self.button, self.summary], layout={"align_items": "center"})
        self.box = ipywidgets.VBox([line, self.detail], layout={"border_top": "1px solid #d8d8d8"})

    def show(self, claim: Claim | None) -> None:
        """Show a claim, open or closed, or nothing."""
        self.claim = claim
        self.box.layout.display = "none" if claim is None else None
        if claim is None:
            self.detail.value = ""
            return
        is_open = claim.id in self._table._open
        self.button.description = f"{'▾' if is_open else '▸'} {claim.id}"
        self.button.tooltip = f"{'close' if is_open else 'open'} {claim.id}"
        self.summary.value = _summary(claim, self._table._found[claim.id], self._table._fallen[claim.id])
        self.detail.value = self._table.details(claim) if is_open else ""
        self.detail.layout.display = None if is_open else "none"


# ---------------------------------------------------------------- the texts of a row
def _searched(claim: Claim, verdict: Verdict) -> str:
    wording = claim.erratum.wording if claim.erratum else ""
    parts = (claim.id, claim.title, claim.locator, claim.printed_text, claim.origin, wording, verdict.evidence)
    return " ".join(parts).lower()


def _verdict(verdict: Verdict, given: tuple[str, ...] = ()) -> str:
    if verdict.kind in SILENT:
        return f"– {verdict.kind}"
    mark = _CONDITIONAL if given and verdict.confirms else _MARKS[verdict.confirms]
    return f"<b>{mark} {html.escape(word(verdict, given))}</b>"


def _evidence(claim: Claim, verdict: Verdict) -> str:
    return markup.numbers(html.escape(markup.typeset(verdict.evidence, symbols_of(*claim.statement.expressions))))


def _summary(claim: Claim, verdict: Verdict, given: tuple[str, ...]) -> str:
    parts = [f"<b>{html.escape(claim.title)}</b> ({html.escape(claim.locator)})", _verdict(verdict, given)]
    if claim.erratum:
        parts.append(f"{claim.erratum.severity} erratum")
    if claim.derived_here and claim.locator != "derived here, unpublished":
        parts.append("derived here, unpublished")
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
    ours = claim.derived_here
    lines = [("derived here, unpublished" if ours else "printed", _formula(claim.printed, claim.statement))]
    lines.append(("verdict", f"{_verdict(verdict, given)}: {_evidence(claim, verdict)}"))
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
        lines.append(("wording for the authors", html.escape(erratum.wording)))
        severity = f"{erratum.severity}{f': {erratum.mechanism}' if erratum.mechanism else ''}"
        lines.append(("severity", html.escape(severity)))
        lines.append(("seen in", f"{html.escape(erratum.version)}; newer versions: {erratum.later}"))
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


def _named(formulas: Mapping[Any, Any]) -> str:
    return "".join(
        f'<div style="padding: 3px 0">{html.escape(name) if isinstance(name, str) else _math(name)}: '
        f"{_math(formula)}</div>"
        for name, formula in formulas.items()
    )


def _derivation(statement: Statement) -> list[tuple[str, str]]:
    """The formulas that the printed one is compared with, by the kind of statement."""
    if isinstance(statement, Rate):
        return _balanced(statement)
    lines: list[tuple[str, str]] = []
    if isinstance(statement, Choice):
        lines.append(("every term", _named(statement.terms)))
        lines.append(("at most the rate", _math(statement.rate)))
        if statement.constraints:
            lines.append(("at most 1", _named(statement.constraints)))
        return lines
    names = {
        "derived": "derived independently",
        "objective": "minimised",
        "quantity": "quantity",
        "expression": "expression",
        "left": "left side",
        "right": "right side",
    }
    for attribute, name in names.items():
        formula = getattr(statement, attribute, None)
        if isinstance(formula, sympy.Basic):
            lines.append((name, _math(formula)))
    where = getattr(statement, "where", None)
    if where:
        lines.append(("with", ", ".join(f"{_math(symbol)} → {_math(value)}" for symbol, value in where.items())))
    return lines


def _balanced(statement: Rate) -> list[tuple[str, str]]:
    lines = [("terms", _named(statement.terms))]
    if statement.constraints:
        lines.append(("at most 1", _named(statement.constraints)))
    if statement.tuned:
        lines.append(("tuned", ", ".join(map(_math, statement.tuned))))
    if statement.normalised:
        lines.append(("put to 1", ", ".join(map(_math, statement.normalised))))
    if statement.logs:
        lines.append(("logarithms", ", ".join(map(_math, statement.logs))))
    try:
        found = statement.balance()
    except ValueError as error:
        return [*lines, ("balance", html.escape(str(error)))]
    if found.regime:
        at_most_one = {
            n: "" if " >= " in n or " <= " in n else latex_of(m) + " \\leq 1" for n, m in found.regime.items()
        }
        regime = (f"{html.escape(name)}{': ' * bool(m)}{_math(m) if m else ''}" for name, m in at_most_one.items())
        lines.append(("regime", "; ".join(regime)))
    for vertex in found.vertices:
        weights = ", ".join(f"{html.escape(name)} ({weight})" for name, weight in vertex.weights.items())
        lines.append(("meet (weight)", f"{weights}<br>{_math(meeting(found, vertex))}"))
    return lines


def _still(claims: Sequence[Claim], words: Mapping[str, str]) -> str:
    """The static table for readers without a kernel."""
    head = "".join(f'<th style="text-align: left">{name}</th>' for name in ("claim", "what", "verdict", "severity"))
    rows = []
    for claim in claims:
        severity = str(claim.erratum.severity) if claim.erratum else ""
        severity = severity or ("derived here" if claim.derived_here else "")
        cells = [claim.id, f"{claim.title} ({claim.locator})", words[claim.id], severity]
        rows.append("".join(f'<td style="text-align: left">{html.escape(cell)}</td>' for cell in cells))
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
