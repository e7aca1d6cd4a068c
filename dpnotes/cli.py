"""The command line: `dpnotes`, or `python -m dpnotes`.

Plain text, one thing a line, columns two spaces apart; `--json` for programs. What went wrong in a way that a person
can mend is one line on standard error and exit status 2; Ctrl-C is 130. Claims load sympy; experiments load torch, and
only the commands that need them load them.
"""

import csv as csv_format
import difflib
import importlib
import importlib.util
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

import dpnotes
from dpnotes import files, papers, validate
from dpnotes.console import ExperimentName, Json, Profile, app, columns, command, fail, in_one_line, print_json

if TYPE_CHECKING:
    from dpnotes.experiments import Experiment, Result
    from dpnotes.processes import Processes
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


LONG_UNVERIFIED = 60  # commits
INDEX = "experiments.json"  # beside the results, so that names and titles can be had without loading torch


def main() -> None:
    """Run the command line and exit."""
    app(prog_name="dpnotes")


# ---------------------------------------------------------------- what there is
def all_experiments() -> "list[Experiment]":
    """The experiments of all papers that have some; loads torch."""
    names = [f"dpnotes.papers.{paper}.experiments" for paper in papers.PAPERS]
    modules = [importlib.import_module(name) for name in names if importlib.util.find_spec(name) is not None]
    return [experiment for module in modules for experiment in module.EXPERIMENTS]


def index_of(experiments: "Iterable[Experiment]") -> list[dict[str, Any]]:
    """Names, titles and profiles."""
    return [{"id": e.id, "title": e.title, "profiles": sorted(e.specs)} for e in experiments]


def listed_experiments() -> list[dict[str, Any]]:
    """Names, titles and profiles of the experiments, from the list beside the stored results: it loads no torch."""
    package = Path(dpnotes.__file__).parent
    for folder in (package / "carried" / "notebooks", package.parent / "notebooks"):
        if (path := folder / "results" / INDEX).exists():
            return json.loads(path.read_text())
    return index_of(all_experiments())


def _experiment(name: str) -> "Experiment":
    """One experiment by its whole name."""
    known = {experiment.id: experiment for experiment in all_experiments()}
    return known[_one_of(name, known, "experiment")]


def _one_of(name: str, known: Iterable[str], kind: str) -> str:
    """The name itself, or an error that offers the nearest ones."""
    known = list(known)
    if name in known:
        return name
    inside = [other for other in known if name and name in other]
    near = inside[:5] or difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    offer = f"did you mean {', '.join(near)}?" if near else "`dpnotes list` shows all."
    raise ValueError(f"Expected {name!r} to be the name of one {kind}; {offer}")


@app.callback(invoke_without_command=True)
def _version(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"dpnotes {dpnotes.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise typer.BadParameter("Expected a command.", context)


# ---------------------------------------------------------------- the commands
@command("list")
def list_(as_json: Json = False) -> None:
    """Papers, claims and experiments."""
    cards, claims, experiments = [papers.paper(key) for key in papers.PAPERS], papers.claims(), listed_experiments()
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
    """Check claims: a line each, the counts last."""
    from dpnotes.theory.cache import Verdicts

    if write and (not errata or claims):
        raise ValueError("Expected --write with --errata and without names: the page holds all papers.")
    chosen = papers.claims(*(claims or ()))
    if certificates is not None:
        _check_place(certificates)
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


def _check_place(certificates: Path) -> None:
    """Refuse, before the work, a file that cannot be written after it."""
    folder = certificates.absolute().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"Expected a folder for --certificates {certificates}: {error.strerror}.") from error
    if certificates.is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(f"Expected --certificates {certificates} to be a file that can be written.")


def _check(claims: "Sequence[Claim]", verdicts: "Verdicts", as_json: bool) -> None:
    width = max(len(claim.id) for claim in claims)
    found: list[dict[str, str]] = []
    counts: dict[str, Counter[str]] = {}
    for claim in claims:
        verdict = verdicts.of(claim)
        counts.setdefault(claim.paper, Counter())[str(verdict.kind)] += 1
        row = {"id": claim.id, "verdict": str(verdict.kind), "evidence": verdict.evidence}
        found.append({**row, "anchor": f"docs/errata.md#{claim.anchor}", "version": claim.version})
        if not as_json:
            typer.echo(columns((claim.id, width), (str(verdict.kind), 15), verdict.evidence))
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
            breaks = {"breaks": row["breach"]} if row["breach"] else {}
            lines = {**breaks, "printed": row["printed"], **corrected, "evidence": row["evidence"], **holds}
            lines |= {"wording": row["wording"], "where": f"{row['locator']}; {row['version']}"}
            lines |= {"newer": f"{row['newer_versions']} in newer versions"}
            for name, text in lines.items():
                typer.echo("  " + columns((name, 9), str(text)))
    _total("errata", found, counts, as_json)


def _total(kind: str, found: Sequence[object], counts: dict[str, Counter[str]], as_json: bool) -> None:
    """The counts: of each paper, where there are several, and of all."""
    everything = sum(counts.values(), Counter())
    if as_json:
        print_json({kind: found, "counts": everything, "counts_by_paper": counts})
        return
    words = {"claims": ("claim", "claims"), "errata": ("erratum", "errata")}[kind]
    if len(counts) > 1:
        width = max(map(len, counts))
        for paper, some in counts.items():
            typer.echo(columns((paper, width), _counted(some.total(), *words, some)))
    typer.echo(_counted(len(found), *words, everything))


def _write_errata(claims: "Sequence[Claim]", verdicts: "Verdicts") -> None:
    from dpnotes.theory.errata import page

    path = Path(dpnotes.__file__).parents[1] / "docs" / "errata.md"
    if not path.parent.is_dir():
        raise FileNotFoundError(f"Expected {path.parent}: the page is part of the repository, not of an installation.")
    cards = [papers.paper(key) for key in papers.PAPERS]
    files.write({path: page(cards, claims, verdicts, dpnotes.__version__).encode()})
    typer.echo(f"dpnotes: {path} written", err=True)


def _counted(total: int, one: str, many: str, counts: Counter[str]) -> str:
    listed = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return f"{total} {one if total == 1 else many}{': ' if listed else ''}{listed}"


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
    if not numbers and claim in (*papers.PAPERS, "privacy"):
        _list_calculators(claim, as_json)
        return
    calculator = _calculator(claim)
    if not numbers:
        _list_calculator(calculator, as_json)
        return
    arguments = _parsed(numbers, calculator.constants)
    try:
        results = calculator(**arguments)
    except TypeError as error:
        raise ValueError(str(error)) from error
    if claim not in _named_calculators(claim) and papers.claim(claim).erratum is not None:
        constants = str(arguments.get("constants", (*calculator.constants, "")[0]))
        instead = "as printed" if constants == "paper" else "of what holds instead"
        typer.echo(
            f"dpnotes: {claim} does not stand as printed; the numbers are {instead}: dpnotes check --errata {claim}",
            err=True,
        )
    if results.get("delta_reached", 0) > arguments.get("delta", 1) * (1 + 1e-6):  # but for rounding
        asked = f"({arguments['epsilon']:g}, {arguments['delta']:g})-DP"
        reached = f"delta_reached={results['delta_reached']:.3g}"
        typer.echo(f"dpnotes: this noise is not shown to be {asked}: {reached}", err=True)
    plain = {name: getattr(value, "tolist", lambda value=value: value)() for name, value in results.items()}
    if as_json:
        print_json(plain)
        return
    width = max(len(name) for name in plain)
    for name, value in plain.items():
        typer.echo(columns((name, width), f"{value:.10g}" if isinstance(value, float) else str(value)))


def _named_calculators(name: str) -> "dict[str, Calculator]":
    """Those of the paper, or of privacy, that a name begins with."""
    key = name.split(".", 1)[0]
    return papers.calculators(key) if key in (*papers.PAPERS, "privacy") else {}


def _list_calculators(key: str, as_json: bool) -> None:
    found = {name: ", ".join(calculator.outputs) for name, calculator in papers.calculators(key).items()}
    if as_json:
        print_json(found)
        return
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
    """The calculator of a claim; an error names those that there are."""
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


def _parsed(numbers: Sequence[str], constants: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for text in numbers:
        name, _, value = text.partition("=")
        try:
            if constants and name == "constants":
                number = value
            else:
                number = int(value) if value.strip("+-").isdecimal() else float(value)
        except ValueError:
            number = None
        if number is None or not name.isidentifier():
            raise ValueError(f"Expected {text!r} to be a name and a number, such as kappa=100 or delta=1e-8.")
        if name in values:
            raise ValueError(f"Expected {name} once, got it twice.")
        values[name] = number
    return values


@command("cite")
def cite(name: Annotated[str, typer.Argument(metavar="CLAIM", help="A claim, its beginning, or a paper.")]) -> None:
    """BibTeX of a claim's paper and of this package."""
    card = papers.paper(papers.claims(name)[0].paper)
    typer.echo(f"{card.bibtex.strip()}\n\n{_BIBTEX}")


@command("run")
def run(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="PAPER.EXPERIMENT", help="Or a paper for all of its, or all.")
    ] = None,
    profile: Profile = "quick",
    missing: Annotated[bool, typer.Option(help="What is not stored, the greatest value for its time first.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    memory: Annotated[
        str | None, typer.Option(help="What the run may hold, such as 4GB; default: most of what is free.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Keep finished cells and a stored result, or start afresh.")] = True,
    jobs: Annotated[int, typer.Option(help="Cells computed at once.")] = 1,
    timeout: Annotated[float, typer.Option(help="Under torchrun: seconds that one process waits for another.")] = 120.0,
) -> None:
    """Run experiments and store their results.

    What was interrupted goes on where it stopped, and ends in the same bytes. Clients of drift_escape may be shared out
    over processes: torchrun --nproc-per-node 4 -m dpnotes run drift_escape.clients.
    """
    from dpnotes import experiments as parts

    with _joined(timeout) as processes:
        refusal, chosen = "", []
        try:
            refuse_an_installation()
            chosen = _to_run(names or [], missing, profile, device, jobs, processes.size)
        except ValueError as error:
            refusal = str(error)
        for rank, each in enumerate(processes.gather_json(refusal)):
            if each and processes.rank == 0:
                fail(f"rank {rank}: {each}" if rank else each)
            if each:
                raise typer.Exit(2)
        settings: dict[str, Any] = {"device": device, "memory": memory, "resume": resume, "jobs": jobs}
        failed: list[str] = []
        for experiment in chosen:
            try:
                fitting: dict[str, Any] = settings | (
                    {"jobs": _jobs_that_fit(experiment, profile, device, jobs)} if missing else {}
                )
                parts.run(experiment, profile, **fitting, processes=processes, report=lambda line: typer.echo(line))
            except Exception as error:  # one that cannot run here keeps no other from running
                if not missing:
                    raise
                failed.append(experiment.id)
                what = f"{type(error).__name__}: {in_one_line(error)}"
                typer.echo(f"dpnotes: {experiment.id} {profile}: {what}", err=True)
        if failed:
            raise typer.Exit(1)


def _jobs_that_fit(experiment: "Experiment", profile: str, device: str, jobs: int) -> int:
    """How many cells a GPU holds at once, by what the experiment states that one takes."""
    from dpnotes.experiments import runner

    cost = experiment.wants.get(profile)
    if cost is None or not cost.gigabytes or not runner.has_gpu(device):
        return jobs
    return max(1, min(jobs, int(runner.free_memory("cuda")[1] / 1e9 / cost.gigabytes)))


def refuse_an_installation() -> None:
    """What hours of work have found does not go into an installed package, which an update replaces."""
    from dpnotes import experiments as parts

    if Path(dpnotes.__file__).resolve().parent in parts.results_folder().resolve().parents:
        raise ValueError("Expected DPNOTES_RESULTS to be a folder of yours: an installed package is not written into.")


def _to_run(
    names: Sequence[str], missing: bool, profile: str, device: str, jobs: int, num_processes: int
) -> "list[Experiment]":
    """The experiments that are meant; what is wrong with one of them is said before the first long run."""
    from dpnotes.experiments import runner, store

    if not names and not missing:
        raise ValueError("Expected the name of an experiment or a paper, all, or --missing.")
    chosen = experiments_of(names or ["all"])
    if missing:
        _check_profile(profile)
        return store.wanted(chosen, profile, on_gpu=runner.has_gpu(device))
    # A paper stands for those of its experiments that have the profile.
    chosen = [experiment for experiment in chosen if profile in experiment.specs or experiment.id in names] or chosen
    for experiment in chosen:
        experiment.spec(profile)
        runner.refuse(experiment, device, jobs, num_processes)
    return chosen


@contextmanager
def _joined(timeout: float) -> "Iterator[Processes]":
    """The processes that torchrun has started, or this one alone."""
    from dpnotes.processes import ALONE, ProcessLost, Together

    validate.positive(timeout=timeout)
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    # If one dies torchrun ends the others by SIGTERM at once: they have five seconds to find out who, and to say so.
    signal.signal(signal.SIGTERM, lambda number, frame: signal.alarm(5))
    try:
        processes = Together(timeout)
    except RuntimeError as error:
        fail(error)
    try:
        yield processes
    except (ProcessLost, ValueError, OSError, MemoryError) as error:
        parts = [in_one_line(error).rstrip("."), *getattr(error, "__notes__", [])]
        typer.echo(f"dpnotes: rank {processes.rank}: {', '.join(parts)}.", err=True)
        _leave(2)
    except KeyboardInterrupt:
        _leave(130)
    except typer.Exit:
        processes.close()
        raise
    processes.close()


def _leave(status: int) -> NoReturn:
    """End this process without waiting for others, which may be gone."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


@command("chances")
def chances(
    name: ExperimentName,
    profile: Profile = "quick",
    simulations: Annotated[int, typer.Option(help="Results to draw in either world.")] = 200,
    as_json: Json = False,
) -> None:
    """How often an experiment's rule is right, simulated: where the paper's prediction holds, and its nearest rival."""
    from dpnotes import experiments as parts

    found, counts = parts.simulate(_experiment(name), profile, simulations)
    if as_json:
        print_json({**asdict(found), "underpowered": found.underpowered, "verdicts": counts})
        return
    for world, words in (("prediction", found.prediction), ("rival", found.rival)):
        typer.echo(columns((world, 10), _counted(simulations, "result", "results", Counter(counts[world])), words))
    typer.echo("underpowered" if found.underpowered else "the rule can decide")


@command("verify")
def verify(
    names: Annotated[list[str] | None, typer.Argument(metavar="PAPER.EXPERIMENT", help="Default: all.")] = None,
    profile: Annotated[str | None, typer.Option(help="Only this profile.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Begin no cell that is not expected to end by then.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Put what agreed on record in the manifests.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Run cells of stored results again, longest unverified first; their numbers have to be the stored ones.

    Of each result at least one cell for every level of every factor. A difference is named by cell, column and row, and
    the exit status is 1, unless notebooks/results/PENDING.md says that the numbers are to change.
    """
    from dpnotes import experiments as parts

    chosen = experiments_of(names) if names else all_experiments()
    _check_profile(profile)
    if minutes is not None:
        validate.positive(minutes=minutes)
    validate.one_of(("auto", "cpu", "cuda"), device=device)
    if write:
        refuse_an_installation()
    pairs = [(experiment, each) for experiment in chosen for each in experiment.specs if profile in (None, each)]
    report = lambda line: typer.echo(line)  # noqa: E731
    found = parts.verify(pairs, minutes=minutes, write=write, device=device, report=report)
    if not found:
        wanted = f"{' '.join(names or ['any experiment'])}{f' with profile={profile!r}' if profile else ''}"
        raise ValueError(f"Expected a stored result of {wanted}, found none.")
    words = ["different" if each.differences else "agree" for each in found]
    typer.echo(_counted(len(found), "result", "results", Counter(words)))
    if any(each.differences and each.result.state == "stored" for each in found):
        raise typer.Exit(1)


def _check_profile(profile: str | None) -> None:
    """Whether some experiment has a profile of this name, if one is named."""
    if profile is not None:
        validate.one_of(sorted({name for e in all_experiments() for name in e.specs}), profile=profile)


def experiments_of(names: Sequence[str]) -> "list[Experiment]":
    """Experiments by name; a paper stands for all of its own, `all` for all."""
    known = {experiment.id: experiment for experiment in all_experiments()}
    chosen: dict[str, Experiment] = {}
    for name in names:
        found = [e for e in known.values() if name == "all" or e.paper == name]
        if not found and name in papers.PAPERS:
            able = sorted({e.paper for e in known.values()})
            raise ValueError(f"Expected a paper with experiments, got {name}; there are {', '.join(able)}.")
        chosen |= {e.id: e for e in found or [known[_one_of(name, known, "experiment or paper")]]}
    return list(chosen.values())


@command("status")
def status(
    write: Annotated[
        bool, typer.Option("--write", help="Also rewrite the lists, and put today's decisions on record.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Which results are stored, when they were computed and last agreed with today's code, and what is missing."""
    from dpnotes import experiments as parts

    experiments = all_experiments()
    results = parts.status(experiments)
    if write:
        refuse_an_installation()
        for experiment in experiments:
            for line in filter(None, (parts.decide_again(experiment, each) for each in experiment.specs)):
                typer.echo(line, err=True)
        index = json.dumps(index_of(experiments), indent=1) + "\n"
        texts = {"OUTSTANDING.md": parts.outstanding(experiments), INDEX: index}
        files.write({parts.results_folder() / name: text.encode() for name, text in texts.items()})
    if as_json:
        print_json([asdict(result) for result in results])
        return
    width = max((len(result.experiment) for result in results), default=0)
    for result in results:
        typer.echo(columns((result.experiment, width), (result.profile, 5), (result.state, 10), result.reason))
    typer.echo(_counted(len(results), "result", "results", Counter(result.state for result in results)))
    long = [f"{each.experiment} {each.profile}" for each in results if (each.unverified or 0) >= LONG_UNVERIFIED]
    if long:
        typer.echo(f"not verified for {LONG_UNVERIFIED} commits: {', '.join(long)} (dpnotes verify --write)")


@command("results")
def results(
    name: ExperimentName,
    profile: Profile = "quick",
    csv: Annotated[bool, typer.Option("--csv")] = False,
    as_json: Json = False,
) -> None:
    """A stored result as a table, with its decision."""
    from dpnotes import experiments as parts

    if csv and as_json:
        raise ValueError("Expected --csv or --json, got both.")
    result = parts.load(_experiment(name), profile)
    if not result.is_shown:
        raise ValueError(f"{name} {profile}: {result.reason}")
    if csv:
        if result.state != "stored":
            typer.echo(f"dpnotes: {name} {profile} is {result.state}: {in_one_line(result.reason)}", err=True)
        writer = csv_format.writer(sys.stdout, lineterminator="\n")
        writer.writerow(result.frame.columns)
        writer.writerows(result.frame.itertuples(index=False, name=None))
        sys.stdout.flush()
    elif as_json:
        rows = json.loads(result.frame.to_json(orient="records", double_precision=15) or "[]")
        print_json(
            {
                "state": result.state,
                "reason": result.reason,
                "decision": asdict(result.decision),
                "rows": rows,
                "manifest": result.manifest,
            }
        )
    else:
        typer.echo(result.frame.to_string(index=False))
        for line in _remarks(result):
            typer.echo(line)


def _remarks(result: "Result") -> Iterable[str]:
    remarks = [("state", result.state), ("reason", result.reason), ("computed", f"{result.computed}; {result.agreed}")]
    remarks += [("decision", result.decision)]
    remarks += [("rule", result.spec["decision_rule"]), ("chances", result.chances)]
    remarks += [("unaccounted", text) for text in result.unaccounted]
    return [columns((name, 11), str(text)) for name, text in remarks if str(text)]


@command("clean")
def clean(
    names: Annotated[list[str] | None, typer.Argument(metavar="PAPER.EXPERIMENT", help="Default: all.")] = None,
    profile: Annotated[str | None, typer.Option(help="Only this profile.")] = None,
) -> None:
    """Remove the cached cells of runs; results stay."""
    from dpnotes import experiments as parts

    _check_profile(profile)
    chosen = experiments_of(names) if names else [None]
    freed = sum(parts.clean(experiment, profile) for experiment in chosen)
    typer.echo(f"{freed / 1e6:.1f} MB removed; results stay.")


# The other commands, which are of the same `app`.
from dpnotes import commands as _commands  # noqa: E402

app.add_typer(_commands.cells, name="cells")
