"""Registration of commands, and the format of their output."""

import functools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn

import typer

app = typer.Typer(
    help="Differentially private non-convex optimisation, from theorem to experiment.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="For programs: one JSON document.")]
Profile = Annotated[
    str, typer.Option(help="quick (2 CPU cores, seconds to minutes), cpu (hours) or paper (what the figures show).")
]
ExperimentName = Annotated[str, typer.Argument(metavar="PAPER.EXPERIMENT")]


def fail(message: object) -> NoReturn:
    """Exit with one line on standard error and status 2."""
    typer.echo(f"dpnotes: {in_one_line(message)}", err=True)
    raise typer.Exit(2)


def in_one_line(text: object) -> str:
    """The text on one line."""
    return " ".join(str(text).split())


def columns(*parts: tuple[str, int] | str) -> str:
    """One line of parts, two spaces apart; a pair of text and width is padded to the width."""
    padded = [f"{part[0]:<{part[1]}}" if isinstance(part, tuple) else in_one_line(part) for part in parts]
    return "  ".join(padded).rstrip()


def parsed(numbers: Sequence[str], texts: Sequence[str] = ()) -> dict[str, Any]:
    """The values of arguments NAME=VALUE: numbers, whole where they are written so, and texts for these names."""
    values: dict[str, Any] = {}
    for text in numbers:
        name, _, value = text.partition("=")
        try:
            if name in texts:
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


def print_json(value: object) -> None:
    """Print a JSON document."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def counted(total: int, one: str, many: str, counts: Counter[str]) -> str:
    """The text of a number of things, with the counts of their kinds."""
    listed = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return f"{total} {one if total == 1 else many}{': ' if listed else ''}{listed}"


def command(name: str, of: typer.Typer = app) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command whose expected errors print one line and exit with status 2."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def guarded(*arguments: Any, **options: Any) -> None:
            try:
                function(*arguments, **options)
            except BrokenPipeError:
                raise  # `dpnotes list | head -1`: typer ends quietly
            except (ValueError, OSError, MemoryError) as error:
                fail(error)

        return of.command(name)(guarded)

    return register
