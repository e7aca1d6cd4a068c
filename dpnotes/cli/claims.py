"""Commands about claims: list, check, calculate, cite."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dpnotes
from dpnotes import papers
from dpnotes.cli import catalogue
from dpnotes.cli.console import Json, columns, command, counted, parsed, print_json
from dpnotes.util import files

if TYPE_CHECKING:
    from dpnotes.theory.cache import Verdicts
    from dpnotes.theory.calculators import Calculator
    from dpnotes.theory.claims import Claim
    from dpnotes.theory.symbols import PaperSymbol

_BIBTEX = f"""\
@software{{dpnotes,
  title = {{dpnotes: differentially private non-convex optimisation, from theorem to experiment}},
  author = {{{{The dpnotes authors}}}},
  version = {{{dpnotes.__version__}}},
  license = {{Apache-2.0}}
}}"""


@command("list")
def list_(as_json: Json = False) -> None:
    """List papers, claims and experiments."""
    cards, claims = papers.cards(), papers.claims()
    experiments = catalogue.listed_experiments()
    if as_json:
        print_json(
            {
                "papers": [asdict(card) for card in cards],
                "claims": [{"id": c.id, "title": c.title, "locator": c.locator} for c in claims],
                "experiments": experiments,
            }
        )
        return
    rows = [("paper", card.key, f"{card.title} ({card.venue} {card.year})") for card in cards]
    rows += [("claim", claim.id, f"{claim.title} ({claim.locator})") for claim in claims]
    rows += [("experiment", e["id"], f"{e['title']} ({', '.join(e['profiles'])})") for e in experiments]
    width = max(len(identifier) for _, identifier, _ in rows)
    for kind, identifier, text in rows:
        typer.echo(columns((kind, 10), (identifier, width), text))


@command("check")
def check(
    claims: Annotated[
        list[str] | None, typer.Argument(metavar="CLAIM", help="Ids, or their beginnings, such as a paper.")
    ] = None,
    errata: Annotated[bool, typer.Option("--errata", help="Only what is wrong in print, with its correction.")] = False,
    write: Annotated[bool, typer.Option("--write", help="With --errata: also rewrite docs/errata.md.")] = False,
    cache: Annotated[bool, typer.Option(help="Use verdicts that the same source has found, or check again.")] = True,
    certificates: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also check again, and write what lets others check: JSON.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check claims: one line for each, the counts last."""
    from dpnotes.theory.cache import Verdicts

    if write and (not errata or claims):
        raise ValueError("Expected --write with --errata and without names: the page holds all papers.")
    chosen = papers.claims(*(claims or (papers.PAPERS if write else ())))  # the page is of the papers here
    if certificates is not None:  # before the work, which takes a minute
        certificates.absolute().parent.mkdir(parents=True, exist_ok=True)
        certificates.open("ab").close()
    with Verdicts(cached=cache) as verdicts:
        if errata:
            _check_errata(chosen, verdicts, as_json)
        else:
            _check(chosen, verdicts, as_json)
        if write:
            _write_errata(chosen, verdicts)
    if certificates is not None:
        from dpnotes.theory.certificates import document

        found = document(chosen, dpnotes.__version__)
        files.write({certificates: (json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode()})


def _check(claims: "Sequence[Claim]", verdicts: "Verdicts", as_json: bool) -> None:
    width = max(len(claim.id) for claim in claims)
    found: list[dict[str, Any]] = []
    counts: dict[str, Counter[str]] = {}
    for claim in claims:
        verdict, word, fallen = verdicts.of(claim), verdicts.word(claim), verdicts.fallen(claim)
        conditional = word != verdict.kind
        counts.setdefault(claim.paper, Counter())[f"{verdict.kind}{' (conditional)' if conditional else ''}"] += 1
        row: dict[str, Any] = {"id": claim.id, "verdict": str(verdict.kind), "evidence": verdict.evidence}
        row |= {"given": fallen if conditional else ()}
        found.append({**row, "anchor": f"docs/errata.md#{claim.anchor}", "version": claim.version})
        if not as_json:
            typer.echo(columns((claim.id, width), (word, 15), verdict.evidence))
    _total("claims", found, counts, as_json)


def _check_errata(claims: "Sequence[Claim]", verdicts: "Verdicts", as_json: bool) -> None:
    from dpnotes.theory.errata import entries

    found: list[dict[str, str | None]] = []
    counts: dict[str, Counter[str]] = {}
    for entry in entries(claims, verdicts):
        row = entry.row()
        found.append(row)
        counts.setdefault(entry.claim.paper, Counter())[str(entry.erratum.severity)] += 1
        if not as_json:
            typer.echo(columns(entry.claim.id, str(entry.erratum.severity)))
            corrected = {"corrected": row["corrected"]} if entry.claim.corrected_text else {}
            holds = {"now": row["evidence_of_correction"]} if entry.verdict_of_correction else {}
            breaks = {"mechanism": row["mechanism"], "breaks": row["breach"]} if row["breach"] else {}
            lines = {**breaks, "printed": row["printed"], **corrected, "evidence": row["evidence"], **holds}
            lines |= {"wording": row["wording"], "where": f"{row['locator']}; {row['version']}"}
            lines |= {"newer": f"{row['newer_versions']} in newer versions"}
            for name, text in lines.items():
                typer.echo("  " + columns((name, 9), str(text)))
    _total("errata", found, counts, as_json)


def _total(kind: str, found: Sequence[object], counts: dict[str, Counter[str]], as_json: bool) -> None:
    """Print the counts of each paper, if there are several, and of all."""
    everything = sum(counts.values(), Counter())
    if as_json:
        print_json({kind: found, "counts": everything, "counts_by_paper": counts})
        return
    words = {"claims": ("claim", "claims"), "errata": ("erratum", "errata")}[kind]
    if len(counts) > 1:
        width = max(map(len, counts))
        for paper, some in counts.items():
            typer.echo(columns((paper, width), counted(some.total(), *words, some)))
    typer.echo(counted(len(found), *words, everything))


def _write_errata(claims: "Sequence[Claim]", verdicts: "Verdicts") -> None:
    from dpnotes.theory.errata import page

    path = Path(dpnotes.__file__).parents[1] / "docs" / "errata.md"
    if not path.parent.is_dir():
        raise FileNotFoundError(f"Expected {path.parent}: the page is part of the repository, not of an installation.")
    cards = [papers.paper(key) for key in papers.PAPERS]
    files.write({path: page(cards, claims, verdicts, dpnotes.__version__).encode()})
    typer.echo(f"dpnotes: {path} written", err=True)


@command("claims")
def claims(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="CLAIM", help="Ids, or their beginnings, such as a paper.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List claims with their verdicts, or by --json everything that others need to cite and check one."""
    from dpnotes.theory.cache import Verdicts

    chosen = papers.claims(*(names or ()))
    with Verdicts() as verdicts:
        if as_json:
            records = [_record(claim, verdicts) for claim in chosen]
            print_json({"version": dpnotes.__version__, "claims": records})
            return
        width = max(len(claim.id) for claim in chosen)
        for claim in chosen:
            typer.echo(columns((claim.id, width), (verdicts.word(claim), 15), f"{claim.title} ({claim.locator})"))


def _record(claim: "Claim", verdicts: "Verdicts") -> dict[str, Any]:
    """A claim with its paper, its verdict and its erratum, as texts."""
    from dpnotes.theory.errata import entries

    card = asdict(papers.paper(claim.paper))
    errata = [entry.row() for entry in entries([claim], verdicts)]
    named = ("severity", "wording", "corrected", "corrected_latex", "evidence_of_correction", "breach")
    return {
        "id": claim.id,
        "anchor": f"docs/errata.md#{claim.anchor}",
        "title": claim.title,
        "locator": claim.locator,
        "paper": {name: card[name] for name in ("key", "title", "authors", "year", "venue", "doi", "arxiv", "version")},
        "derived_here": claim.derived_here,
        "printed": claim.printed_text,
        "printed_latex": claim.printed,
        "verdict": verdicts.word(claim),
        "evidence": verdicts.of(claim).evidence,
        "premises": claim.premises,
        "fallen_premises": verdicts.fallen(claim),
        "erratum": {name: errata[0][name] for name in (*named, "newer_versions")} if errata else None,
        "check": f"dpnotes check {claim.id}",
    }


@command("calc")
def calc(
    claim: Annotated[str, typer.Argument(metavar="CLAIM", help="Or a calculator: its paper, or privacy, and name.")],
    numbers: Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE")] = None,
    as_json: Json = False,
) -> None:
    """Put numbers into a claim's formula, or into a calculator such as adaptive_batch.node.

    Without numbers, list what it takes and what it gives. Where it lists sets of constants, choose one by
    constants=NAME. A paper alone, or privacy, lists its calculators.
    """
    if not numbers and claim in (*papers.packages(), "privacy"):
        _list_calculators(claim, as_json)
        return
    calculator = _calculator(claim)
    if not numbers:
        _list_calculator(calculator, as_json)
        return
    arguments = parsed(numbers, texts=("constants",) if calculator.constants else ())
    try:
        results = calculator(**arguments)
    except TypeError as error:
        raise ValueError(str(error)) from error
    constants = str(arguments.get("constants", (*calculator.constants, "")[0]))
    if claim not in _named_calculators(claim) and papers.claim(claim).erratum is not None:
        instead = "as printed" if constants == "paper" else "of what holds instead"
        said = f"{claim} does not stand as printed; the numbers are {instead}: dpnotes check --errata {claim}"
        typer.echo(f"dpnotes: {said}", err=True)
    if results.get("delta_reached", 0) > arguments.get("delta", 1) * (1 + 1e-6):  # up to rounding
        asked = f"({arguments['epsilon']:g}, {arguments['delta']:g})-DP"
        reached = f"delta_reached={results['delta_reached']:.3g}"
        typer.echo(f"dpnotes: this noise is not shown to be {asked}: {reached}", err=True)
    plain = {name: getattr(value, "tolist", lambda value=value: value)() for name, value in results.items()}
    if as_json:
        print_json(plain)
        return
    if calculator.says is not None:
        typer.echo(calculator.says(**arguments))
    width = max(len(name) for name in plain)
    for name, value in plain.items():
        shown = f"{value:.10g}" if isinstance(value, float) else str(value)
        typer.echo(columns((name, width), (shown, 16), _unit(name, value, calculator)))
    if constants in _DROPPED:
        typer.echo(f"dpnotes: {_DROPPED[constants]}", err=True)


_DROPPED = {
    "one": "an order: every constant and logarithm is 1, errata are corrected",
    "paper": "as printed: a constant that the paper hides in an O is 1",
}


def _unit(name: str, value: Any, calculator: "Calculator") -> str:
    """The unit of a result, and the next whole number where only whole numbers make sense."""
    from dpnotes.theory.calculators import Measure, Role

    output = calculator.outputs[name]
    if output.role is Role.ACCURACY:
        return "" if output.measure is Measure.EXCESS_RISK else "F x^-1"
    if output.role is not Role.PARAMETER:
        unit = "examples" if output.role is Role.SAMPLE_SIZE else ""
        whole = value >= 2**53 or value == int(value)
        return unit if whole else ", ".join(filter(None, [unit, f"rounded up: {math.ceil(value):,}"]))
    if (paper := calculator.symbols[0].paper) not in papers.packages():
        return ""
    letters = vars(papers.part(paper, "notation")).values()
    units = [str(letter.unit) for letter in letters if getattr(letter, "name", "") == name]
    return units[0] if units and units[0] != "1" else ""


def _named_calculators(name: str) -> "dict[str, Calculator]":
    """The calculators of the paper, or of privacy, that a name begins with."""
    key = name.split(".", 1)[0]
    return papers.calculators(key) if key in (*papers.packages(), "privacy") else {}


def _list_calculators(key: str, as_json: bool) -> None:
    found = {name: ", ".join(calculator.outputs) for name, calculator in papers.calculators(key).items()}
    if as_json:
        print_json(found)
        return
    if not found:
        raise ValueError(f"Expected a paper with calculators, got {key}, which has none.")
    width = max(map(len, found))
    for name, outputs in found.items():
        typer.echo(columns((name, width), outputs))


def _list_calculator(calculator: "Calculator", as_json: bool) -> None:
    takes = {name: _described(symbol) for name, symbol in calculator.parameters.items()}
    sets = list(calculator.constants)
    if as_json:
        print_json(
            {
                "takes": takes,
                "common": {name: symbol.common for name, symbol in calculator.parameters.items() if symbol.common},
                "gives": {name: asdict(output) for name, output in calculator.outputs.items()},
                "constants": sets,
            }
        )
        return
    gives = {name: str(output) for name, output in calculator.outputs.items()}
    if sets:
        takes["constants"] = f"one of {', '.join(sets)}; {sets[0]} where nothing is said"
    width = max(map(len, [*takes, *gives]))
    for kind, pairs in (("takes", takes), ("gives", gives)):
        for name, meaning in pairs.items():
            typer.echo(columns(kind, (name, width), meaning))


def _calculator(name: str) -> "Calculator":
    """The calculator of a claim; an error lists the claims that have one."""
    if name in (named := _named_calculators(name)):
        return named[name]
    if name.split(".", 1)[0] == "privacy":
        raise ValueError(f"Expected {name!r} to be one of: {', '.join(named)}.")
    claim = papers.claim(name)
    if claim.calculation is None:
        able = [other.id for other in papers.claims(claim.paper) if other.calculation is not None]
        there = f"there are {', '.join(able)}" if able else f"{claim.paper} has none"
        raise ValueError(f"Expected a claim with a formula to calculate, got {name}; {there}.")
    return claim.calculator()


def _described(symbol: "PaperSymbol") -> str:
    unit = "" if str(symbol.unit) == "1" else f" [{symbol.unit}]"
    integer = ", an integer" if symbol.domain.integer else ""
    common = f" ({symbol.common})" if symbol.common and symbol.common != symbol.name else ""
    return f"{symbol.meaning}{unit}{common}; {symbol.domain.describe(symbol.name)}{integer}"


@command("cite")
def cite(name: Annotated[str, typer.Argument(metavar="CLAIM", help="A claim, its beginning, or a paper.")]) -> None:
    """Print the BibTeX of a claim's paper and of this package."""
    card = papers.paper(papers.claims(name)[0].paper)
    typer.echo(f"{card.bibtex.strip()}\n\n{_BIBTEX}")
