"""The answer in a few sentences: what holds with constants, the best order that stands, and what comes next."""

import math
from decimal import ROUND_CEILING, Context
from typing import TYPE_CHECKING

from dpnotes.atlas.question import Question
from dpnotes.atlas.takeovers import takeovers
from dpnotes.theory.calculators import Measure

if TYPE_CHECKING:
    import pandas as pd


def sentences(table: "pd.DataFrame") -> list[str]:
    """Return the first lines of the answer.

    Args:
      table: of `dpnotes.atlas.ranking.choose`, with details.

    >>> from dpnotes.atlas.ranking import choose
    >>> table = choose(60_000, 800_000, 2.0, 1e-5, goal="goldstein")
    >>> for line in sentences(table)[:2]:
    ...     print(line)
    With constants: no promise about gradients says anything here.
    Goldstein stationarity for the population: the best order that stands is 0.1953 (one plain pass (ours)).
    """
    question: Question = table.attrs["question"]
    lines = with_constants(table) if table.attrs["details"] else []
    for measure in question.measures:
        every = table[table["measure"] == str(measure)]
        rows = every[every["state"] == "informative"]
        if rows.empty:
            states = dict.fromkeys(state for state in every["state"] if state != "floor")
            lines.append(f"{_capital(measure)}: every order is {' or '.join(states)} here.")
        elif measure is Measure.EXCESS_RISK:
            continue
        else:
            lines.append(f"{_capital(measure)}: {_best(rows)}")
        lines += _next(question, measure)
    return lines


def with_constants(table: "pd.DataFrame") -> list[str]:
    """Return the promises that hold with constants; the first line says if none about gradients does.

    >>> from dpnotes.atlas.ranking import choose
    >>> with_constants(choose(10**15, 1, 2.0, 1e-5, goal="goldstein"))[0].split(" <=")[0]
    'With constants: Goldstein stationarity for the population'
    """
    holds = table[(table["state"] == "informative") & table["proved"].notna()]
    holds = holds[~holds["proved_reason"].fillna("").astype(str).str.startswith("vacuous")]
    gradient = holds[holds["measure"] != str(Measure.EXCESS_RISK)]
    lines = []
    if gradient.empty and (table["measure"] != str(Measure.EXCESS_RISK)).any():
        lines.append("With constants: no promise about gradients says anything here.")
    for measure, rows in holds.groupby("measure", sort=False):
        best = rows.loc[rows["proved"].idxmin()]
        parts = [best["method"], best["standing"] if best["standing"] != "stands" else "", best["proved_reason"]]
        words = ", ".join(filter(None, parts))
        lines.append(f"With constants: {measure} <= {best['proved']:.4g} ({words}).")
    return lines


def _best(rows: "pd.DataFrame") -> str:
    stands, least = rows[rows["standing"] == "stands"], rows["order"].min()
    better = rows[rows["order"] <= least * (1 + 1e-9)]
    reasons = ", ".join(dict.fromkeys(better["standing"]))
    if not len(stands):
        return f"no order that stands says anything; the smallest is {reasons}: {_named(better)}."
    first = f"the best order that stands is {_named(stands)}."
    return first if "stands" in reasons else f"{first} Smaller, but {reasons}: {_named(better)}."


def _named(rows: "pd.DataFrame") -> str:
    least = rows["order"].min()
    names = rows[rows["order"] <= least * (1 + 1e-9)]["method"]
    return f"{least:.4g} ({'; '.join(names)})"


def _next(question: Question, measure: Measure) -> list[str]:
    for one in takeovers(question, measure):
        if one.value > question.given["num_examples"] and one.formula:
            names = "; ".join(one.best) or "none"
            return [f"  From n = {amount(one.value)} = {one.formula} on, the best order is that of: {names}."]
    return []


def amount(value: float, *, up: bool = False) -> str:
    """Return a number for people: `60,000`, `2.56e+12`, `0.0863`, or a dash if it is missing.

    Args:
      value: the number.
      up: whether it is rounded up, and not to the nearest, as private noise is.

    >>> amount(60_000.0), amount(0.086334), amount(0.086334, up=True), amount(math.nan)
    ('60,000', '0.08633', '0.08634', '-')
    """
    if not math.isfinite(value):
        return "-" if math.isnan(value) else "none"
    if up:
        value = float(Context(prec=4, rounding=ROUND_CEILING).create_decimal(value))
    if 1e4 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _capital(measure: Measure) -> str:
    return str(measure)[0].upper() + str(measure)[1:]
