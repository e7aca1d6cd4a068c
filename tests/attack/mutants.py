"""Seeded mutants of one line in oracles/, privacy/ and methods/, each against the tests of its part.

A mutant changes one thing on one line: a sign, a bound, an index, a dropped clamp, or a swapped purpose or state. It is
written into a copy of the repository, where the tests of its part run (`PARTS`); it is killed if one of them fails.
The choice of lines depends on their text, not on their position: added or removed code elsewhere leaves the other
lines in the sample, and an interrupted run continues where it ended.
"""

import ast
import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from hashlib import blake2b
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from xml.etree import ElementTree

from coverage import CoverageData

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).parent / "mutants.csv"
# Folders, and modules of two papers.
FOLDERS = (
    "dpnotes/oracles", "dpnotes/privacy", "dpnotes/methods", "dpnotes/papers/drift_escape/escaping.py",
    "dpnotes/papers/goldstein/conversion.py", "dpnotes/papers/goldstein/smoothed.py",
)  # fmt: skip
SEED, NUMBER, LEAST_KILLED = 0, 300, 0.95
_QUOTED = "Expected exactly one line"  # error of `museum.exhibit.with_line_replaced` for a missing line
_SHORTEST_LIMIT = 60.0  # seconds, in addition to five times the time of the tests without a mutant

# The tests of each part, fastest first; the module's own doctests run before them. A folder stands for all files in it.
PARTS: dict[str, tuple[str, ...]] = {
    "oracles/clipped": ("oracles/clipped", "papers/budget_schedules/algorithms", "privacy/audit", "laws"),
    "oracles/asks": ("oracles/release", "oracles/release_claims", "oracles/minibatch", "oracles/clipped", "laws"),
    "oracles/batches": ("oracles/batches", "oracles/minibatch", "laws"),
    "oracles/minibatch": ("oracles/minibatch", "papers/noisy_sgd/algorithms", "train/loop", "laws"),
    "oracles/release": (
        "oracles/release", "oracles/release_claims", "oracles/minibatch", "oracles/spider", "oracles/spider_rules",
        "oracles/clipped", "laws",
    ),
    "oracles/fresh": ("oracles/minibatch", "papers/noisy_sgd/algorithms", "laws"),
    "oracles/samples": ("oracles/spider", "oracles/spider_rules", "methods/methods", "problems/virtual", "laws"),
    "oracles/spider": (
        "oracles/spider", "oracles/spider_rules", "methods/methods", "papers/adaptive_batch/algorithms",
        "papers/drift_escape/algorithms", "laws",
    ),
    "oracles/clients": ("oracles/clients", "oracles/client_files", "laws"),
    "oracles/blocks": ("oracles/clients", "oracles/client_files"),
    "oracles/holdings": ("oracles/clients", "oracles/client_files"),
    "papers/goldstein/smoothed": ("papers/goldstein/smoothed", "papers/goldstein/algorithms", "laws"),
    "methods/checkpoint": ("util/states", "random/streams", "train/loop"),
    "methods/client_checkpoint": ("oracles/clients", "oracles/client_files"),
    "methods/descent": ("papers/budget_schedules/algorithms", "oracles/clipped", "papers/noisy_sgd/algorithms", "laws"),
    "papers/drift_escape/escaping": ("methods/methods", "papers/drift_escape/algorithms", "laws"),
    "methods/spider_descent": ("methods/methods", "papers/adaptive_batch/algorithms", "laws"),
    "papers/goldstein/conversion": ("papers/goldstein/conversion", "papers/goldstein/algorithms", "laws"),
    "methods/step": ("papers/budget_schedules/algorithms", "methods/methods", "laws"),
    "methods/loop": ("papers/budget_schedules/algorithms", "methods/methods", "oracles/spider", "launches"),
    "privacy/accounting": ("privacy/privacy", "privacy/accounting", "privacy/accounting_edges"),
    "privacy/pld": ("privacy/accounting", "privacy/accounting_edges"),
    "privacy/events": ("privacy/accounting", "privacy/accounting_edges", "oracles/minibatch"),
    "privacy/calibration": ("privacy/privacy", "privacy/accounting", "privacy/accounting_edges"),
    "privacy/schedules": ("privacy/privacy",),
    "privacy/noise": ("privacy/privacy", "privacy/filter", "oracles/clipped"),
    "privacy/filter": ("privacy/filter", "oracles/clipped", "laws"),
    "privacy/mechanisms": (
        "privacy/privacy", "privacy/selection", "privacy/audit_mechanisms", "device", "oracles/clipped",
        "random/secret_streams", "laws",
    ),
    "privacy/discrete": ("privacy/discrete",),
    "privacy/sums": ("privacy/tree", "privacy/audit_mechanisms", "random/secret_streams", "laws"),
    "privacy/tree": ("privacy/tree", "privacy/audit_mechanisms", "random/secret_streams", "laws"),
    "privacy/factorisation": ("privacy/tree", "privacy/audit_mechanisms", "random/secret_streams", "laws"),
    "privacy/selection": ("privacy/selection", "privacy/search"),
    "privacy/risk": ("privacy/risk",),
    "privacy/report": ("privacy/report",),
    "privacy/search": ("privacy/search",),
    "privacy/museum": ("privacy/museum",),
    "privacy/audit": ("privacy/audit", "privacy/audit_training", "privacy/audit_mechanisms", "privacy/museum"),
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of a line: the old and the new text between two columns."""

    file: str
    line: int
    said: str
    number: int
    start: int
    stop: int
    old: str
    new: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}:{self.number}"

    def source(self, text: str) -> str:
        """Return the module's source with this change."""
        lines = text.encode().splitlines(keepends=True)
        line = lines[self.line - 1]
        lines[self.line - 1] = line[: self.start] + self.new.encode() + line[self.stop :]
        return b"".join(lines).decode()


# ---------------------------------------------------------------- possible changes
_COMPARES: dict[type, str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
_OPERATORS: dict[type, str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.Pow: "*", ast.FloorDiv: "*", ast.Mod: "*",
    ast.BitAnd: "|", ast.BitOr: "&", ast.BitXor: "&",
}  # fmt: skip
_SWAPS = {
    "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "clamp_min": "clamp_max",
    "clamp_max": "clamp_min", "floor": "ceil", "ceil": "floor", "any": "all", "all": "any", "mul_": "div_",
    "add_": "sub_", "sub_": "add_", "log": "exp", "exp": "log", "zeros_like": "ones_like", "ones_like": "zeros_like",
}  # fmt: skip
_DROPS = {"clamp", "clamp_", "clamp_min", "clamp_max", "nan_to_num", "abs", "masked_fill", "masked_fill_", "sqrt"}
_MODULES = {"torch", "np", "math"}
_DROPS |= {"double", "ceil", "floor", "cumsum", "clone", "float"}


def _changes(
    node: ast.AST, parents: dict[ast.AST, ast.AST], of: Callable[[ast.AST], str]
) -> Iterator[tuple[ast.expr, str]]:
    """Yield nodes and their replacements; `of` returns the source of a node on one line, and "" for other nodes."""

    def infix(left: ast.expr, sign: str, right: ast.expr) -> str:
        return f"({of(left)}) {sign} ({of(right)})" if sign else ""

    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield node, infix(node.left, _COMPARES[type(node.ops[0])], node.comparators[0])
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        yield node, f"({infix(node.left, _OPERATORS[type(node.op)], node.right)})"
    elif isinstance(node, ast.UnaryOp):
        yield node, f"({of(node.operand)})"
    elif isinstance(node, ast.BoolOp):
        sign = " or " if isinstance(node.op, ast.And) else " and "
        yield node, f"({sign.join(f'({of(value)})' for value in node.values)})"
    elif isinstance(node, ast.IfExp):
        yield node, f"({of(node.orelse)} if {of(node.test)} else {of(node.body)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        yield node, f"({of(node)} + 1)"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node, str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_purpose(node, parents):
        yield node, '"gaussian mechanism"' if node.value != "gaussian mechanism" else '"samples"'
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        inside = ", ".join([of(a) for a in node.args] + [of(k) for k in node.keywords])
        receiver = of(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        owner = f"({receiver})." if receiver else ""
        if name in _SWAPS:
            yield node, f"{owner}{_SWAPS[name]}({inside})"
        if name in _DROPS and receiver:
            yield node, f"({of(node.args[0]) if receiver in _MODULES and node.args else receiver})"
        if name == "where" and len(node.args) == 3:
            yield node, f"{owner}where({of(node.args[0])}, {of(node.args[2])}, {of(node.args[1])})"
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and node.value.elts:
        first = node.value.elts[0]
        if "state" in _arguments(node, parents) and of(first) != "state":
            yield first, "state"


def _is_purpose(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Return whether a string names the purpose of a stream: assigned to such a name, or passed to a draw."""
    parent = parents[node]
    if isinstance(parent, ast.Assign | ast.AnnAssign):
        target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
        return isinstance(target, ast.Name) and "purpose" in target.id.lower()
    return isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "Gaussian"


def _arguments(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> set[str]:
    while not isinstance(node, ast.FunctionDef | ast.Module):
        node = parents[node]
    return {argument.arg for argument in node.args.args} if isinstance(node, ast.FunctionDef) else set()


def _is_spoken(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Return whether a node belongs to an annotation or to text for readers: errors, f-strings, accountants' names."""
    while node in parents:
        parent = parents[node]
        if isinstance(parent, ast.Raise | ast.JoinedStr | ast.Assert):
            return True
        if node in (getattr(parent, "annotation", None), getattr(parent, "returns", None)):
            return True
        if node in getattr(parent, "decorator_list", ()):  # decorators such as frozen=True do not affect the algorithm
            return True
        node = parent
    return False


def mutants_of(path: str, text: str) -> list[Mutant]:
    """Return all mutants of a module, in the order of its lines."""
    tree = ast.parse(text)
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    lines = text.encode().splitlines()
    found: dict[int, list[Mutant]] = {}

    def of(part: Any) -> str:
        if part.lineno != part.end_lineno:
            return ""
        return lines[part.lineno - 1][part.col_offset : part.end_col_offset].decode()

    for node in ast.walk(tree):
        if node in parents and not _is_spoken(node, parents):
            for changed, new in _changes(node, parents, of):
                old = of(changed)
                if not old or old == new:
                    continue
                others = found.setdefault(changed.lineno, [])
                columns = changed.col_offset, changed.end_col_offset or 0
                said = lines[changed.lineno - 1].decode().strip()
                others.append(Mutant(path, changed.lineno, said, len(others), *columns, old, new))
    return [mutant for line in sorted(found) for mutant in found[line]]


def modules(folder: str) -> list[Path]:
    """Return the modules in a folder of the repository, or the module of this name."""
    path = ROOT / folder
    return [path] if path.suffix else sorted(path.rglob("*.py"))


def chosen(number: int = NUMBER) -> list[Mutant]:
    """Choose `number` mutants in random order, at most one per line, with every changeable line equally likely.

    The order of a line comes from a hash of its text and of its index among equal lines of its module.
    """
    drawn: list[tuple[int, Mutant]] = []
    for folder in FOLDERS:
        for path in modules(folder):
            name, text = str(path.relative_to(ROOT)), path.read_text()
            lines: dict[int, list[Mutant]] = {}
            for mutant in mutants_of(name, text):
                lines.setdefault(mutant.line, []).append(mutant)
            seen = Counter[str]()
            for _, others in sorted(lines.items()):
                said = others[0].said
                digest = blake2b(f"{SEED}/{name}/{said}/{seen[said]}".encode(), digest_size=8).digest()
                drawn.append((lot := int.from_bytes(digest), others[lot % len(others)]))
                seen[said] += 1
    return [mutant for _, mutant in sorted(drawn, key=lambda one: one[0])[:number]]


# ---------------------------------------------------------------- running the tests
def part_of(file: str) -> str:
    """Return the part that a module belongs to: its own, or its folder's."""
    name = file.removeprefix("dpnotes/").removesuffix(".py")
    return name if name in PARTS else name.rsplit("/", 1)[0]


def tests_of(part: str) -> list[str]:
    own = f"dpnotes/{part}.py" if (ROOT / f"dpnotes/{part}.py").exists() else f"dpnotes/{part}"
    names = (Path("tests", name) for name in (*PARTS[part], "bad_arguments"))
    return [own, *(str(name.with_name(f"test_{name.name}.py")) for name in names)]


def tested(copy: Path, tests: list[str], limit: float, *before: str) -> tuple[str, float]:
    """Run tests in a copy of the repository; return "" or the failed test (or a timeout), and the seconds.

    `before` is inserted between `python -m` and `pytest`. A control that quotes the mutated line fails because the
    quotation no longer matches, whatever the line does: such controls are deselected, and the other tests run.
    """
    command = [sys.executable, "-m", *before, "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTHONPATH"] = str(copy)
    command += ["-p", "no:nbval", "-m", "not slow and not browser and not gpu", *tests]
    begun = time.monotonic()
    while True:
        try:
            done = subprocess.run(
                command, cwd=copy, env=environment, capture_output=True, text=True,
                timeout=begun + limit - time.monotonic(), preexec_fn=lambda: os.nice(10),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "time was up", time.monotonic() - begun
        first = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        if not (first and done.returncode == 1 and _QUOTED in done.stdout):
            failed = (first.group(1) if first else "the tests could not begin") if done.returncode else ""
            # pytest's status 5 means that all tests were deselected.
            return ("" if done.returncode == 5 and "--deselect" in command else failed), time.monotonic() - begun
        command += ["--deselect", first.group(1)]


@dataclass(frozen=True)
class Coverage:
    """The lines that each test runs, and the time that each test takes.

    Args:
      functions: for each file and line the tests that run it, by pytest's names without parameters.
      seconds: time of each test, over all its parameters.
    """

    functions: dict[tuple[str, int], set[str]]
    seconds: dict[str, float]

    @staticmethod
    def of(copy: Path, tests: list[str]) -> "Coverage":
        """Run the tests without a mutant, and record the lines that they run.

        Raises:
          RuntimeError: if one of them fails.
        """
        data, report, settings = (copy / name for name in ("lines.coverage", "seconds.xml", "coverage.ini"))
        lines = ",".join(folder if folder.endswith(".py") else f"{folder}/*" for folder in FOLDERS)
        settings.write_text(f"[run]\ninclude = {lines}\ndynamic_context = test_function\n")
        before = ("coverage", "run", f"--rcfile={settings}", f"--data-file={data}", "-m")
        failed, _ = tested(copy, [f"--junitxml={report}", *tests], 3600, *before)
        if failed:
            raise RuntimeError(f"the tests fail without a mutant: {failed}")
        files = {test.removesuffix(".py").replace("/", "."): test for test in tests}
        seconds: dict[str, float] = {}
        for case in ElementTree.parse(report).iter("testcase"):
            module = case.attrib["classname"]
            name = f"{files.get(module, module)}::{case.attrib['name'].partition('[')[0]}"
            seconds[name] = seconds.get(name, 0) + float(case.attrib["time"])
        lines = CoverageData(str(data))
        lines.read()
        functions: dict[tuple[str, int], set[str]] = {}
        for file in lines.measured_files():
            for line, contexts in lines.contexts_by_lineno(file).items():
                named = (context.rpartition(".") for context in contexts if context)
                found = {f"{files[module]}::{name}" for module, _, name in named if module in files}
                functions[str(Path(file).relative_to(copy)), line] = found
        return Coverage(functions, seconds)

    def quickest(self, mutant: "Mutant", text: str, within: set[str]) -> list[str]:
        """Return the tests in these files that run the statement of a mutant, fastest first.

        The list is empty if the statement runs at import, because then every test runs it.
        """
        if not any(isinstance(node, ast.FunctionDef) for node in around(text, mutant.line)):
            return []
        found = set[str]().union(
            *(self.functions.get((mutant.file, line), ()) for line in statement(text, mutant.line))
        )
        return sorted((f for f in found if f.partition("::")[0] in within), key=lambda f: self.seconds.get(f, 0.0))

    def limit(self, tests: list[str]) -> float:
        """Return the time limit of these tests: five times their time without a mutant, plus a constant."""
        chosen = [s for f, s in self.seconds.items() if f in tests or f.partition("::")[0] in tests]
        return _SHORTEST_LIMIT + 5 * sum(chosen)


def around(text: str, line: int) -> list[ast.stmt]:
    """Return the statements that contain a line, the largest first."""
    inside = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt))
    return [node for node in inside if node.lineno <= line <= (node.end_lineno or node.lineno)]


def statement(text: str, line: int) -> range:
    """Return the lines of the smallest statement that contains a line, without its body."""
    smallest = around(text, line)[-1]
    body = getattr(smallest, "body", None)
    return range(smallest.lineno, (body[0].lineno - 1 if body else smallest.end_lineno or line) + 1)


@dataclass(frozen=True)
class Outcome:
    """A mutant, the test that killed it (or ""), and for a survivor the hand-written reason why it changes nothing."""

    file: str
    line: int
    said: str
    number: int
    old: str
    new: str
    killed_by: str
    seconds: float
    why: str = ""


def read(table: Path = TABLE) -> list[Outcome]:
    """Return the stored outcomes."""
    if not table.exists():
        return []
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        Outcome(**{**r, "line": int(r["line"]), "number": int(r["number"]), "seconds": float(r["seconds"])})
        for r in rows
    ]


def write(outcomes: list[Outcome], table: Path = TABLE) -> None:
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Outcome)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(outcome) for outcome in outcomes)


def judged(mutant: Mutant, copy: Path, limit: float, tests: list[str]) -> Outcome:
    """Write a mutant into the copy, run the tests, and put the module back."""
    path = copy / mutant.file
    whole = path.read_text()
    try:
        path.write_text(mutant.source(whole))
        killed_by, seconds = tested(copy, tests, limit)
    finally:
        path.write_text(whole)
    named = mutant.file, mutant.line, mutant.said, mutant.number, mutant.old, mutant.new
    return Outcome(*named, killed_by, round(seconds, 1))


def _with(copies: SimpleQueue[Path], act: Callable[[Path], Any]) -> Any:
    copy = copies.get()
    try:
        return act(copy)
    finally:
        copies.put(copy)


def copied(place: Path) -> Path:
    """Return a copy, in its own folder, of everything that the tests read."""
    leave = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".pytest_cache", ".cache", ".hypothesis")
    return Path(shutil.copytree(ROOT, place, ignore=leave))


def attack(
    mutants: list[Mutant], table: Path = TABLE, workers: int = 2, report: Callable[[str], None] = print
) -> list[Outcome]:
    """Judge the mutants that the table lacks, and store each outcome at once; return all outcomes in order.

    Raises:
      RuntimeError: the tests of a part fail without a mutant.
    """
    known, left = dict[Mutant, Outcome](), list(mutants)
    for outcome in read(table):  # the line may have moved since
        same = [m for m in left if (m.file, m.said, m.new) == (outcome.file, outcome.said, outcome.new)]
        if same:
            nearest = min(same, key=lambda mutant: abs(mutant.line - outcome.line))
            known[nearest] = replace(outcome, line=nearest.line)
            left.remove(nearest)
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(workers) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers if left else 0):
            copies.put(copied(Path(place, str(number))))

        files = sorted({test for m in left for test in tests_of(part_of(m.file))})
        shares = [share for share in (files[number::workers] for number in range(workers)) if share]
        coverage = Coverage({}, {})
        for part in pool.map(lambda share: _with(copies, lambda copy: Coverage.of(copy, share)), shares):
            coverage.seconds.update(part.seconds)
            for line, found in part.functions.items():
                coverage.functions.setdefault(line, set()).update(found)

        def one(mutant: Mutant) -> Outcome:
            own, *others = whole = tests_of(part_of(mutant.file))
            found = coverage.quickest(mutant, (ROOT / mutant.file).read_text(), set(others))
            tests = [own, *found] if found else whole
            return _with(copies, lambda copy: judged(mutant, copy, coverage.limit(tests), tests))

        for mutant, outcome in zip(left, pool.map(one, left), strict=True):
            known[mutant] = outcome
            write([known[mutant] for mutant in mutants if mutant in known], table)
            fate = f"killed by {outcome.killed_by}" if outcome.killed_by else "SURVIVED"
            report(f"{mutant.name}: {mutant.old} -> {mutant.new}: {fate} ({outcome.seconds:.0f} s)")
    return [known[mutant] for mutant in mutants]


def verdict(outcomes: list[Outcome]) -> list[str]:
    """Return the faults, one per line: unexplained survivors, and too small a share of killed mutants.

    A surviving mutant may be explained if it changes nothing that is promised: the values are equal, or as correct.
    """
    survived = [o for o in outcomes if not o.killed_by]
    open_ones = [o for o in survived if not o.why]
    wrong = [f"{o.file}:{o.line}: {o.old} -> {o.new} survives, and nobody says why" for o in open_ones]
    that_matter = len(outcomes) - len(survived) + len(open_ones)
    if len(open_ones) > (1 - LEAST_KILLED) * that_matter:
        wrong.append(f"{len(open_ones)} of {that_matter} mutants that matter survive: more than {1 - LEAST_KILLED:.0%}")
    return wrong
