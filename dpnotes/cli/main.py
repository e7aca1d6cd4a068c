"""The command line: `dpnotes`, or `python -m dpnotes`.

Output is plain text, one item a line, columns two spaces apart; `--json` is for programs. An error that the user can
correct is one line on standard error and exit status 2; Ctrl-C is 130. Claims load sympy; experiments load torch, and
only the commands that need them load them.
"""

import functools
import warnings
from typing import Annotated, Any

import typer

import dpnotes
from dpnotes import papers
from dpnotes.cli import choose, claims, machine, new_paper, results  # noqa: F401 - each registers its commands
from dpnotes.cli.console import app, in_one_line


def main() -> None:
    """Run the command line and exit."""
    warnings.showwarning = _told
    app(prog_name="dpnotes")


_showwarning = warnings.showwarning


def _told(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    """Say in one line that a paper is left out; show other warnings as ever."""
    if issubclass(category, papers.PaperWarning):
        _say_once(f"dpnotes: {in_one_line(message)}")
    else:
        _showwarning(message, category, *place, **more)


@functools.cache
def _say_once(line: str) -> None:
    typer.echo(line, err=True)


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
