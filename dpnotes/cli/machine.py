"""Commands about this machine: checks of its state, JupyterLab on copies of the notebooks, a session on a GPU."""

import importlib.util
import os
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dpnotes.cli.console import Json, columns, command, print_json


@command("gpu")
def gpu(
    minutes: Annotated[float, typer.Option(help="At most.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="For records and cells; of an earlier call: goes on.")],
    jobs: Annotated[int, typer.Option(help="Cells computed at once.")] = 4,
) -> None:
    """On a GPU: tests, benchmarks, and cells of missing paper results, in the order of OUTSTANDING.md.

    Each cell is stored when it ends; an interrupted session continues. Carry the folder back: dpnotes cells import
    FOLDER.
    """
    from dpnotes.cli.gpu import session

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
        copies.trust(found.folder)
        sys.stdout.flush()
        command = copies.jupyterlab(found.folder, port, browser)
        os.execve(command[0], command, os.environ | copies.settings())


@command("export")
def export(
    notebook: Annotated[Path, typer.Argument(help="An .ipynb file.")],
    out: Annotated[Path | None, typer.Option(help="Default: the notebook's name with .html, here.")] = None,
) -> None:
    """Write a notebook as a page to read anywhere; what is folded in JupyterLab opens with a click."""
    from dpnotes.notebook import copies

    if notebook.suffix != ".ipynb" or not notebook.is_file():
        raise ValueError(f"Expected NOTEBOOK={str(notebook)!r} to be an .ipynb file.")
    page = out or Path(notebook.with_suffix(".html").name)
    copies.to_page(notebook, page)
    typer.echo(f"{page} written")


@command("handout")
def handout(folder: Annotated[Path, typer.Argument(help="For students/ and instructor/.")] = Path("handout")) -> None:
    """Write copies of the notebooks for a class: students' without solutions, with a package, and an instructor's."""
    from dpnotes.notebook.handout import write

    write(folder, say=typer.echo)
    typer.echo(f"{folder / 'students'} and {folder / 'instructor'} written")


@command("doctor")
def doctor(as_json: Json = False) -> None:
    """Check whether this machine is ready, with advice if it is not."""
    from dpnotes.cli.doctor import examine

    findings = [*examine()]
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
