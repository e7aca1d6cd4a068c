"""Seeded mutants of the experiments against sampled reruns of stored quick results: python -m tests.attack.samples

Mutants of `FOLDERS` are drawn until quick cells run the lines of `NUMBER` of them. Each is written into a copy of the
repository, where the cells that a commit may sample run again. An interrupted run continues where it ended.
"""

import ast
import csv
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import zip_longest
from pathlib import Path
from typing import Any

from coverage import Coverage

from dpnotes.cli import catalogue
from dpnotes.experiments import agreement, store
from dpnotes.experiments.provenance import environment, variables_for
from tests.attack.mutants import ROOT, TABLE, Mutant, around, chosen, copied, statement

FOLDERS = ("dpnotes/experiments", *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("dpnotes/papers/*/experiments")))
OUTCOMES, LINES = TABLE.with_name("samples.csv"), ROOT / ".cache" / "lines_of_cells.json"
NUMBER, DRAWS, COVERED = 30, 100, 20.0  # COVERED: seconds of each result's cells whose lines are recorded
ENOUGH, LONGEST = 5.0, 60.0  # seconds of cells run again for a mutant that one of them noticed, and for any other
Lines = dict[str, dict[str, list[int]]]  # by experiment and module
SHORT = 30.0  # seconds of a cell that `make test-all` draws; longer ones are run by `dpnotes verify` alone


def draw(
    results: Iterable[store.Result], seed: str, cpu_seconds: float, longest: float = SHORT
) -> list[agreement.Sample]:
    """Cells of some results for so many seconds, one of each result in turn, none over `longest` seconds."""
    results = [result for result in results if result.state == "stored"]
    random.Random(seed).shuffle(results)
    queues = [
        [one for part in agreement.samples_of(result, seed) for one in part if one.seconds <= longest]
        for result in results
    ]
    chosen, left = list[agreement.Sample](), cpu_seconds
    for turn in zip_longest(*queues):
        for sample in filter(None, turn):
            if sample.seconds <= left:
                chosen.append(sample)
                left -= sample.seconds
    return chosen


def results() -> list[store.Result]:
    return [store.load(one, "quick") for one in catalogue.all_experiments() if "quick" in one.specs]


def cells(ids: set[str]) -> list[tuple[str, int]]:
    """Return the cells of these experiments that a commit may sample, those with new levels first, cheapest first."""
    parts = [agreement.samples_of(result, "0") for result in results() if result.experiment.id in ids]
    found = [(place, s.seconds, s.experiment.id, s.number) for both in parts for place in (0, 1) for s in both[place]]
    return [cell[2:] for cell in sorted(found) if cell[1] <= SHORT]


def refuse() -> None:
    """Raise the error that a draw of cells meets, or a ValueError that says which result is not drawn from."""
    for result in results():
        if result.state != "stored":
            raise ValueError(f"{result.state}: {result.reason}")
        agreement.samples_of(result, "0")


def rerun(wanted: list[tuple[str, int]], enough: float, longest: float) -> Iterator[tuple[tuple[str, int], float, str]]:
    """Yield each cell, its seconds and its differences."""
    known, differ, seconds = {one.id: one for one in catalogue.all_experiments()}, False, 0.0
    for name, number in wanted:
        if seconds > (enough if differ else longest):
            return
        took, said = 0.0, ""
        try:
            outcome = agreement.compare(agreement.Sample(known[name], "quick", number), "cpu")
            took, said = outcome.seconds, "; ".join(outcome.differences)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        differ, seconds = differ or bool(said), seconds + took
        yield (name, number), round(took, 2), said[:200]


def report(wanted: list[tuple[str, int]], enough: float, longest: float, measure: bool) -> None:
    """Print what `rerun` yields, a line each; then the lines of code that it ran in `FOLDERS`, if they are measured."""
    refuse()
    measured = Coverage(data_file=None, include=[f"{ROOT}/{folder}/*" for folder in FOLDERS])
    with measured.collect() if measure else nullcontext():
        for row in rerun(wanted, enough, longest):
            print(json.dumps(row), flush=True)
    ran = measured.get_data()
    print(json.dumps({str(Path(f).relative_to(ROOT)): sorted(ran.lines(f) or ()) for f in ran.measured_files()}))


def reran(copy: Path, *settings: Any) -> tuple[list[Any], dict[str, list[int]]]:
    """Run `report` with a copy's code and with the stored results' instructions and threads; return what it printed."""
    here, stored = environment("cpu")["name"], results()[0].manifest["environments"][0]
    variables = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"} | variables_for(stored, here)
    command = ["timeout", "900", sys.executable, "-m", "tests.attack.samples", json.dumps(settings)]
    done = subprocess.run(command, cwd=copy, env=variables, capture_output=True, text=True, check=False)
    printed = [json.loads(line) for line in done.stdout.splitlines() if line[:1] in ("[", "{")]
    if done.returncode:
        return [*printed, [None, 0.0, (done.stderr.strip() or "time was up").splitlines()[-1][:200]]], {}
    return printed[:-1], printed[-1]


def lines_of_cells() -> Lines:
    """Return the lines that the first cells of each result run; without a mutant they agree, which is the control."""
    known = json.loads(LINES.read_text()) if LINES.exists() else {}
    for name in (result.experiment.id for result in results() if result.experiment.id not in known):
        rows, known[name] = reran(ROOT, cells({name}), COVERED, COVERED, True)
        if different := [said for _, _, said in rows if said]:
            raise RuntimeError(f"Expected the cells to agree without a mutant: {different[0]}")
        LINES.parent.mkdir(exist_ok=True)
        LINES.write_text(json.dumps(known))
    return known


def users(mutant: Mutant, known: Lines) -> set[str]:
    """Return the experiments whose cells run the mutated statement.

    A statement outside of functions belongs to all that run a line of its module, else to all of its paper.
    """
    text, paper = (ROOT / mutant.file).read_text(), f"{mutant.file.split('/')[2]}."
    inside = around(text, mutant.line)
    functions = [node for node in inside if isinstance(node, ast.FunctionDef)]
    if inside[-1] in functions:  # a default: all lines of the function
        lines = range(inside[-1].lineno, (inside[-1].end_lineno or 0) + 1)
    else:
        lines = statement(text, mutant.line) if functions else range(len(text))
    found = {name for name, files in known.items() if not {*files.get(mutant.file, ())}.isdisjoint(lines)}
    return found or {name for name in known if not functions and name.startswith(paper)}


def share(rows: list[Any], draws: list[list[agreement.Sample]]) -> float:
    """Return the share of draws that notice a mutant; unknown cells of a result differ as often as its known ones."""
    differs = {tuple(name): float(bool(said)) for name, _, said in rows if name}
    if len(differs) < len(rows):
        return 1.0  # no draw can begin
    rates = {one: [d for (name, _), d in differs.items() if name == one] for one, _ in differs}
    mean = {name: sum(found) / len(found) for name, found in rates.items()}
    chances = [[differs.get((n := s.experiment.id, s.number), mean.get(n, 0.0)) for s in drawn] for drawn in draws]
    return sum(1 - math.prod(1 - chance for chance in of) for of in chances) / len(draws)


def judged(mutant: Mutant, copy: Path, ids: set[str], draws: list[list[agreement.Sample]]) -> dict[str, Any]:
    """Write a mutant into the copy, run cells of these experiments again, and put the module back."""
    path, rows = copy / mutant.file, list[Any]()
    whole = path.read_text()
    try:
        path.write_text(mutant.source(whole))
        if ids:
            rows, _ = reran(copy, cells(ids), ENOUGH, LONGEST, False)
    finally:
        path.write_text(whole)
    found = [said for _, _, said in rows if said]
    counts = {"results": len(ids), "cells": len(rows), "differ": len(found), "share": round(share(rows, draws), 3)}
    of_mutant = {name: getattr(mutant, name) for name in ("file", "line", "said", "old", "new")}
    return of_mutant | counts | {"first": found[0] if found else "", "why": ""}


def main() -> None:
    known, draws = lines_of_cells(), [draw(results(), str(seed), 120.0) for seed in range(DRAWS)]
    rows = list(csv.DictReader(OUTCOMES.open(newline=""))) if OUTCOMES.exists() else []
    with tempfile.TemporaryDirectory() as place:
        copy = copied(Path(place, "copy"))
        for mutant in chosen(1000, 0, FOLDERS)[len(rows) :]:
            if sum(int(row["results"]) > 0 for row in rows) >= NUMBER:
                return
            rows.append(judged(mutant, copy, users(mutant, known), draws))
            with OUTCOMES.open("w", newline="") as file:
                writer = csv.DictWriter(file, list(rows[-1]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)


if __name__ == "__main__":
    report(*json.loads(sys.argv[1])) if len(sys.argv) > 1 else main()
