"""More of the command line: cells that are carried and kept, copies of the notebooks, the state of the machine.

What is of experiments is asked of `cli` when a command runs: `cli` knows them all.
"""

import importlib.util
import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpnotes.console import Json, columns, command, print_json

if TYPE_CHECKING:
    from dpnotes.doctor import Finding
    from dpnotes.experiments import Experiment

cells = typer.Typer(help="Finished cells of long runs: keep them beside the results, or carry them elsewhere.")
Names = Annotated[
    list[str] | None, typer.Argument(metavar="PAPER.EXPERIMENT", help="Or a paper for all of its; default: all.")
]
OneProfile = Annotated[str | None, typer.Option("--profile", help="Only this profile.")]


# ---------------------------------------------------------------- cells
def _pairs(names: Sequence[str] | None, profile: str | None) -> "list[tuple[Experiment, str]]":
    """Experiments and profiles that are meant."""
    from dpnotes import cli

    chosen = cli.experiments_of(names) if names else cli.all_experiments()
    pairs = [(experiment, each) for experiment in chosen for each in experiment.specs if profile in (None, each)]
    if not pairs:
        raise ValueError(f"Expected an experiment with profile={profile!r}, found none.")
    return pairs


@command("keep", cells)
def keep(names: Names = None, profile: OneProfile = None) -> None:
    """Put finished cells of results that are not complete beside the results, in parts of at most 1 MB to commit.

    `run` goes on from them, here and in another clone; they go when the result is stored.
    """
    from dpnotes import cli, experiments
    from dpnotes.experiments.cells import parts_folder

    cli.refuse_an_installation()
    total = 0
    for experiment, each in _pairs(names, profile):
        if count := experiments.keep(experiment, each):
            typer.echo(f"{experiment.id} {each}: {count} cells kept")
            total += count
    typer.echo(f"{total} cells kept in {parts_folder()}{': commit them' if total else ''}")


@command("export", cells)
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="To be written.")],
    names: Names = None,
    profile: OneProfile = None,
) -> None:
    """Write finished cells into one file, for another machine."""
    from dpnotes import experiments

    for name, count in experiments.export(_pairs(names, profile), file).items():
        typer.echo(f"{name}: {count} cells")
    typer.echo(f"{file}: {file.stat().st_size / 1e6:.1f} MB; there: dpnotes cells import {shlex.quote(str(file))}")


@command("import", cells)
def import_(file: Annotated[Path, typer.Argument(metavar="FILE", help="Or a folder of dpnotes gpu.")]) -> None:
    """Take cells from another machine; `run` goes on from them.

    Refused are cells of other parameters or other data; then the exit status is 1.
    """
    from dpnotes import cli, experiments

    found = experiments.bring(cli.all_experiments(), file)
    for words, counts in (("taken", found.added), ("here before", found.known), ("refused", found.refused)):
        for name, count in counts.items():
            typer.echo(f"{name}: {words}: {count}" if words == "refused" else f"{name}: {count} cells {words}")
    if not (found.added or found.known or found.refused):
        raise ValueError(f"Expected {file} to hold finished cells, found none.")
    if found.refused:
        raise typer.Exit(1)


@command("gpu")
def gpu(
    minutes: Annotated[float, typer.Option(help="At most.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="For records and cells; of an earlier call: goes on.")],
    jobs: Annotated[int, typer.Option(help="Cells computed at once.")] = 4,
) -> None:
    """On a GPU: tests, benchmarks, and cells of missing paper results, in the order of OUTSTANDING.md.

    Each cell is kept as it ends; what was interrupted goes on. Carry the folder back: dpnotes cells import FOLDER.
    """
    from dpnotes.gpu import session

    done = session(out, minutes, jobs=jobs, report=typer.echo)
    if wrong := [name for name, state in done.items() if state.startswith("failed")]:
        typer.echo(f"dpnotes: failed: {', '.join(wrong)}", err=True)
        raise typer.Exit(1)


# ---------------------------------------------------------------- notebooks, and this machine
@command("lab")
def lab(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Default: my_notebooks of the repository, or dpnotes_notebooks here.", show_default=False),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Renew copies; yours move into a dated folder there.")] = False,
    copy_only: Annotated[bool, typer.Option("--copy-only", help="Copy, and open nothing.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of JupyterLab.")] = 8888,
    browser: Annotated[bool, typer.Option(help="Open one; on a server there is none.")] = True,
) -> None:
    """Copy the notebooks into a folder of yours, and open the first in JupyterLab.

    A copy that is there stays as you left it. JupyterLab saves by itself every two minutes: it saves copies.
    """
    from dpnotes.notebook import copies

    if not copy_only and importlib.util.find_spec("jupyterlab") is None:
        raise ValueError("Expected jupyterlab, which is not installed: pip install 'dpnotes[lab]'")
    found = copies.copy_to(folder or copies.default_folder(), fresh)
    if found.backup:
        typer.echo(f"Yours are in {found.backup}.")
    if found.added:
        typer.echo(f"{len(found.added)} files copied into {found.folder}.")
    elif copy_only and not found.older:
        typer.echo(f"Nothing to copy: {found.folder} is up to date.")
    if found.older:
        named = f"{found.older[0]}{f' and {len(found.older) - 1} more' if len(found.older) > 1 else ''}"
        here = "make lab FRESH=1" if folder is None and copies.in_repository() else "dpnotes lab --fresh"
        renew = here if folder is None else f"dpnotes lab {shlex.quote(str(folder))} --fresh"
        typer.echo(f"Changed since you took your copy: {named}. To renew, and keep yours in a folder: {renew}")
    if not copy_only:
        sys.stdout.flush()
        command = copies.jupyterlab(found.folder, port, browser)
        os.execv(command[0], command)


@command("doctor")
def doctor(as_json: Json = False) -> None:
    """Is this machine ready, and what to do if not."""
    from dpnotes.doctor import examine

    findings = [*examine(), *_standing_of_results()]
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            advice = f"-> {finding.advice}" if finding.advice else ""
            typer.echo(columns((finding.level, 7), (finding.subject, 14), finding.found, advice))
    problems = sum(finding.level == "problem" for finding in findings)
    if problems:
        typer.echo(f"dpnotes: {problems} of {len(findings)} findings are problems.", err=True)
        raise typer.Exit(1)


def _standing_of_results() -> "Iterable[Finding]":
    """How many results are stored, and how many are not what they should be."""
    from dpnotes.doctor import Finding

    try:
        from dpnotes import cli, experiments

        results = experiments.status(cli.all_experiments())
    except (ImportError, FileNotFoundError):
        return  # a package that is missing was named before; not every installation has results
    counts = Counter(standing.state for standing in results)
    listed = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    if {*counts} - {"stored", "missing"}:
        yield Finding("results", "note", listed, "dpnotes status names them; dpnotes run computes them")
    else:
        yield Finding("results", "ok", listed)
