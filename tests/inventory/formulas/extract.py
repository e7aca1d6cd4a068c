"""Rows of every displayed formula and algorithm line of the five papers, with what covers each.

    python tests/inventory/formulas/extract.py FOLDER

FOLDER holds the papers' texts (`000_*.txt` to `004_*.txt`), which are not part of the repository. A line of a text is a
displayed formula if it is set as one (`$$`, or `\\displaystyle`), or if it holds a relation and no more than two words
of prose. A line of an algorithm begins with its number. Every line with `$$` or `\\displaystyle` has to be in a row,
which is counted. Columns: the line in the text, the statement that it stands in or proves, the formula's beginning,
scope, and the place in `../PAPER.csv` that covers it.

Scopes: "checked": the formula belongs to a statement with claims. "proof step": it is a step of the proof of the place,
and only the place's result is checked. "algorithm": a numbered line of an algorithm, which `reference.py` follows.
"definition": a definition, an assumption, or a quantity that other formulas use. "cited": a result of others, or a
statement that no claim covers.
"""

import csv
import re
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
TEXTS = {
    "noisy_sgd": "000",
    "adaptive_batch": "001",
    "drift_escape": "002",
    "budget_schedules": "003",
    "goldstein": "004",
}
KINDS = "Theorem Lemma Proposition Corollary Remark Definition Assumption Fact Condition Algorithm Table".split()
SHORT = {"Theorem": "thm", "Corollary": "cor", "Proposition": "prop", "Algorithm": "alg", "Definition": "def"}
ITEM = re.compile(rf"^\W*(?:\d+ )?({'|'.join(KINDS)})\s+([A-Z]?\.?\d+(?:\.\d+)*|[A-Z]\b)")
PROOF = re.compile(r"^\W*(?:\d+ )?(?:[A-Z]\.\d+ )?Proof\b(?:\W+of\W+(\w+)\W+([A-Z]?\.?\d+(?:\.\d+)*))?", re.IGNORECASE)
HEADING = re.compile(r"^(?:#+ )?(?:\d{3,4} )?(?:Appendix )?(?:[A-Z]|\d+)(?:\.\d+)*\.?\s+[A-Z][A-Za-z]")
NUMBERED = re.compile(r"^\(?(?:- )?\d{1,2}(?::| +(?=\S))")
RELATION = re.compile(r"[=<>≤≥∼:]|\\(?:leq?|geq?|sim|lesssim|gtrsim|leftarrow)\b")
TAG = re.compile(r"^\((\d+)\)|\s\((\d+)\)\W*$")
SPOKEN = set("log exp sup inf min max avg with for and where otherwise tree NODE TREE".split())


def prose(line: str) -> int:
    """Count the words of a line that are no part of a formula."""
    line = re.sub(r"\\(?:text\w*|math\w+|operatorname\*?|begin|end)\s*\{[^}]*\}|\\[A-Za-z]+", " ", line)
    line = re.sub(r"(?:italic|bold|roman|caligraphic|blackboard|start|end|over|square|divide)[_-]\w*", " ", line)
    line = re.sub(r"\w*(?:subscript|superscript|delimited|norm)\w*|[A-Z]{4,}", " ", line)
    return sum(word not in SPOKEN for word in re.findall(r"(?<![\\\w])[A-Za-z]{3,}(?!\w*[_{\\])", line))


def place_of(kind: str, number: str) -> str:
    """Return the place in the inventory: "Theorem", "4.5" is thm4.5."""
    return SHORT.get(kind, kind.lower()) + number.lstrip(".")


def rows(text: str) -> list[tuple[int, str, bool, str]]:
    """Return line, place, whether it is in a proof, and the formula, for every displayed formula and algorithm line."""
    lines, found, place, proving, number = text.split("\n"), [], "front", False, 0
    while number < len(lines):
        line = lines[number].strip()
        number += 1
        if match := PROOF.match(line):
            proving = True
            if match[1] and match[1].title() in KINDS:
                place = place_of(match[1].title(), match[2])
        elif (match := ITEM.match(line)) and (match[1] == "Algorithm" or len(line) < 160 or "**" in line[:40]):
            place, proving = place_of(match[1], match[2]), False
        elif HEADING.match(line) and len(line) < 120 and "\\" not in line and not NUMBERED.match(line):
            place, proving = "section " + re.sub(r"^[#\s]*(?:\d{3,4} )?", "", line).split(" ")[0].rstrip("."), False
        in_algorithm = place.startswith("alg") and not proving
        if (re.match(r"^\d{1,2}:", line) or (in_algorithm and NUMBERED.match(line))) and line.rstrip(": 0123456789"):
            found.append((number, place, False, line))
        elif line.startswith("$$"):
            first = number
            while not (line.endswith("$$") and len(line) > 3) and number < len(lines):
                line += " " + lines[number].strip()
                number += 1
            found.append((first, place, proving, line))
        elif "\\displaystyle" in line or (
            "\\" in line and len(line) > 12 and not ITEM.match(line) and prose(line) <= 2 and RELATION.search(line)
        ):
            found.append((number, place, proving, line))
    return found


def scope(paper: str, place: str, proving: bool, formula: str, line: int) -> tuple[str, str]:
    """Return the scope of a formula, and the place that covers it."""
    inventory = {row["place"]: row["scope"] for row in read(HERE.parent / f"{paper}.csv")}
    if (own := read_by_hand(paper).get(line)) is not None:
        place, given = own
        if given:
            return given, place
        proving = False
    tag = TAG.search(formula.replace("%", "").strip())
    if tag and inventory.get(f"eq{tag[1] or tag[2]}") == "checked":
        return "checked", f"eq{tag[1] or tag[2]}"
    if place.startswith("alg") and not proving:
        return "algorithm", place
    if proving:
        return "proof step", place
    if inventory.get(place) == "checked":
        return "checked", place
    return ("definition" if place.startswith(("def", "assumption", "sec", "front", "eq")) else "cited"), place


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read_by_hand(paper: str) -> dict[int, tuple[str, str]]:
    """Return place and scope, by line, of the formulas whose place the text does not tell."""
    path = HERE / "by_hand.csv"
    return {int(row["line"]): (row["place"], row["scope"]) for row in read(path) if row["paper"] == paper}


def shortened(formula: str) -> str:
    """Return the beginning of a formula, from its LaTeX where the text repeats it."""
    at = formula.find("\\")
    start = formula.rfind(" ", 0, at) + 1 if at > 60 else 0
    return " ".join(formula[start:].replace("$$", "").replace("\\displaystyle", "").split())[:70]


def main(folder: Path) -> None:
    counts = []
    for paper, number in TEXTS.items():
        (path,) = folder.glob(f"{number}_*.txt")
        text = path.read_text(encoding="utf-8")
        found = rows(text)
        marked = {at for at, line in enumerate(text.split("\n"), 1) if "\\displaystyle" in line}
        marked |= {at for at, line in enumerate(text.split("\n"), 1) if re.match(r"\s*\$\$.", line)}
        scopes = Counter()
        with (HERE / f"{paper}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["line", "stands in", "formula", "scope", "covered by"])
            for line, place, proving, formula in found:
                kind, cover = scope(paper, place, proving, formula, line)
                scopes[kind] += 1
                where = f"proof of {place}" if proving else place
                writer.writerow([line, where, shortened(formula), kind, cover])
        missed = len(marked - {line for line, *_ in found})
        counts.append([paper, len(found), len(marked), missed, *(scopes[one] for one in SCOPES)])
    with (HERE / "counts.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["paper", "rows", "set as displays", "of these without a row", *SCOPES])
        writer.writerows(counts)


SCOPES = ("checked", "proof step", "algorithm", "definition", "cited")
if __name__ == "__main__":
    main(Path(sys.argv[1]))
