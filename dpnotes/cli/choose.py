"""The command that answers which algorithm: `dpnotes choose`."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from dpnotes.cli.console import Json, columns, command, parsed

if TYPE_CHECKING:
    import pandas as pd

# What a line of the table shows, in the order of its columns.
_SHOWN = {"order": 9, "printed": 9, "proved": 9, "needed": 13, "standing": 11}


@command("choose")
def choose(
    numbers: Annotated[list[str], typer.Argument(metavar="NAME=VALUE")],
    details: Annotated[bool, typer.Option(help="Parameters and accuracies with constants, or orders only.")] = True,
    as_csv: Annotated[bool, typer.Option("--csv", help="The whole table as comma-separated values.")] = False,
    as_json: Json = False,
) -> None:
    """Rank the papers' algorithms for your numbers: n=60000 d=800000 epsilon=2 delta=1e-5.

    Also goal=sosp, fosp, goldstein or risk; alpha=, the accuracy that is wanted; lipschitz=, smoothness=,
    hessian_lipschitz=, initial_gap=, clients=, radius=, distance=, condition_number=, failure=.
    """
    if as_csv and as_json:
        raise ValueError("Expected --csv or --json, got both.")
    from dpnotes.atlas.question import ask
    from dpnotes.atlas.ranking import ranked

    table = ranked(ask(**parsed(numbers, texts=("goal",))), details=details)
    if as_csv:
        typer.echo(table.to_csv(index=False), nl=False)
    elif as_json:
        question = table.attrs["question"]
        asked = {"given": dict(question.given), "goal": question.goal, "alpha": question.alpha}
        typer.echo(json.dumps({"question": asked, "rows": json.loads(table.to_json(orient="records"))}, indent=2))
    else:
        _print(table, details)


def _print(table: "pd.DataFrame", details: bool) -> None:
    from dpnotes.atlas.ranking import MORE
    from dpnotes.atlas.report import amount, sentences
    from dpnotes.theory.methods import PARAMETERS

    for line in sentences(table):
        typer.echo(line)
    typer.echo("Orders: every constant and logarithm is 1; 'order' is re-derived here, 'printed' is the paper's.")
    for measure, rows in table.groupby("measure", sort=False):
        typer.echo(f"\n{measure}")
        typer.echo(columns(*_SHOWN.items(), "method"))
        for row in rows.to_dict("records"):
            said = {name: value for name, value in row.items() if isinstance(value, str)}  # a missing text is NaN
            cells = [(said[name] if name in said else amount(row[name]), _SHOWN[name]) for name in _SHOWN]
            why = f"{row['state']}: {row['reason']}" if row["state"] != "informative" else row["reason"]
            if row["state"] == "informative" and amount(row["order"]) == "-":
                why = "; ".join(filter(None, [why, said.get("proved_reason")]))
            name = f"{row['method']} *" if row["note"].startswith(MORE) else row["method"]
            typer.echo(columns(*cells, "; ".join(filter(None, [name, why, row["because"]]))))
            found = [
                f"{name} {amount(row[name], up=name == 'noise')}" for name in PARAMETERS if amount(row[name]) != "-"
            ]
            if details and found:
                typer.echo(f"    {', '.join(found)}; {row['relation']}")
            for text in (said.get("parameters_reason") if row["state"] == "informative" else "", row["note"]):
                if text:
                    typer.echo(f"    {text}")
        if rows["note"].str.startswith(MORE).any():
            typer.echo("* It promises more, and is ranked here too.")
