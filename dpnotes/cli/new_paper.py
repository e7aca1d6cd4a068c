"""Commands of an author: `new-paper` writes a worked example, `check-paper` lists what a paper lacks."""

import importlib.util
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from xml.etree import ElementTree

import typer

import dpnotes
from dpnotes import papers
from dpnotes.cli.console import Json, columns, command, in_one_line, print_json
from dpnotes.util import files, validate

if TYPE_CHECKING:
    from dpnotes.theory.claims import Paper

# The folder with the tests and the template: the repository, or what a wheel carries of it.
_BESIDE = Path(dpnotes.__file__).parents[1]
HOME = _BESIDE if (_BESIDE / "docs/template").is_dir() else Path(dpnotes.__file__).parent / "carried"
TESTS = ("test_claims.py", "test_reference_names.py", "test_obligations.py")  # in tests/papers


@dataclass(frozen=True)
class Obligation:
    """A part that every paper has: its file, where {package} and {key} are the paper's, and what the file holds."""

    name: str
    file: str
    holds: str


OBLIGATIONS = (
    Obligation("notation", "{package}/notation.py", "`PAPER`, the letters with their units, `__all__`"),
    Obligation("claims", "{package}/claims.py", "`CLAIMS`; a claim that is not confirmed has an erratum"),
    Obligation("verdicts", "tests/expected_verdicts.csv", "the verdict of each claim and of its correction"),
    Obligation("anchors", "tests/anchors.txt", "the id of each claim, in order; an id stays"),
    Obligation("inventory", "tests/inventory/{key}.csv", "every item that the paper numbers, with its scope"),
    Obligation("derivations", "docs/derivations/{key}.md", "a proof of each result of your own, if there is one"),
    Obligation("reference", "{package}/reference.py", "the algorithm for one run; unreleased data are `private_`"),
    Obligation("comparison", "tests/papers/{key}/test_algorithms.py", "the library's path equals the reference's"),
    Obligation("laws", "{package}/algorithms.py", "what every law holds for, with `FACTORIES` in its test"),
    Obligation("experiment", "{package}/experiments.py", "`EXPERIMENTS` with rule, answers, chances, quick result"),
    Obligation("notebook", "notebooks/{key}.ipynb", "run and stored; it prints the same when it runs again"),
    Obligation("example", "{package}", "your paper: no file is the worked example's any more"),
)

# The places of the template's files; those that are not named are modules of the package.
_PLACES = {
    "pyproject.toml": "pyproject.toml",
    "inventory.csv": "tests/inventory/{key}.csv",
    "expected_verdicts.csv": "tests/expected_verdicts.csv",
    "anchors.txt": "tests/anchors.txt",
    "test_algorithms.py": "tests/papers/{key}/test_algorithms.py",
    "notebook.ipynb": "notebooks/{key}.ipynb",
}
_OF_ALL = ("expected_verdicts.csv", "anchors.txt")  # one file for all papers of a checkout
_NAMED = ("notation.py", "notebook.ipynb", "pyproject.toml")  # these name the paper


def checkout(key: str) -> Path:
    """The folder with the tests, pages and notebooks of a paper: this repository, or the paper's own project.

    Raises:
      ValueError: there is no such paper, or it is installed without its project.
    """
    if (package := papers.packages().get(key)) is None:
        raise ValueError(f"Expected {key!r} to be one of: {', '.join(papers.packages())}.")
    if key in papers.PAPERS:
        return HOME
    for folder in _folder(package).parents:
        if (folder / "pyproject.toml").exists():
            return folder
    raise ValueError(f"Expected the project of {package}, with its tests: pip install -e FOLDER.")


def _folder(package: str) -> Path:
    """The folder of an importable package."""
    spec = importlib.util.find_spec(package)
    return Path(f"{spec and spec.origin}").parent


def file_of(key: str, pattern: str) -> str:
    """The file of a paper in its checkout."""
    here = key in papers.PAPERS
    package = f"dpnotes/papers/{key}" if here else _folder(papers.packages()[key]).relative_to(checkout(key)).as_posix()
    return pattern.format(key=key, package=package)


def worked_example(package: str, card: "Paper") -> dict[str, str]:
    """The template's files for a paper, by their names in the template."""
    folder = HOME / "docs" / "template"
    theirs = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["dpnotes"]
    renamed = {
        " ".join(f'"{name}",' for name in theirs["authors"]): " ".join(f'"{name}",' for name in card.authors),
        " and ".join(theirs["authors"]): " and ".join(card.authors),
        theirs["title"]: card.title, theirs["arxiv"]: card.arxiv, str(theirs["year"]): str(card.year),
    }  # fmt: skip
    found = {}
    for path in sorted(path for path in folder.iterdir() if path.is_file() and path.suffix != ".md"):
        text = path.read_text(encoding="utf-8").replace("dpnotes.papers.storm", package)
        for old, new in renamed.items() if path.name in _NAMED else ():
            text = text.replace(old, new)
        found[path.name] = text.partition("\n# The names in")[0].replace("storm", card.key)
    return found


@command("new-paper")
def new_paper(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Lower case, such as noisy_sgd.")],
    title: Annotated[str, typer.Option(prompt="Title")],
    authors: Annotated[str, typer.Option(prompt="Authors, with commas between them")],
    arxiv: Annotated[str, typer.Option(prompt="arXiv id")],
    year: Annotated[int, typer.Option(prompt="Year")],
    outside: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A project of its own, instead of this repository.")
    ] = None,
) -> None:
    """Write a paper that is checked at once: a worked example, whose parts you replace one after the other."""
    from dpnotes.theory.claims import Paper

    if not key.isidentifier() or key != key.lower() or key in papers.RESERVED:
        raise ValueError(f"Expected {key!r} to be a name in lower case, such as noisy_sgd.")
    if key in papers.packages() or (outside and importlib.util.find_spec(key)):
        raise ValueError(f"Expected a new key, got {key}, which is taken.")
    if outside is None and HOME.name == "carried":
        raise ValueError("Expected --outside FOLDER: an installed package is not written into.")
    if outside and outside.exists() and any(outside.iterdir()):
        raise ValueError(f"Expected {outside} to be a new folder.")
    package, root = (key, outside) if outside else (f"dpnotes.papers.{key}", HOME)
    folder = f"src/{key}" if outside else f"dpnotes/papers/{key}"
    names = tuple(name.strip() for name in authors.split(","))
    card = Paper(key, title, names, "arXiv", year, doi="", arxiv=arxiv, version="", bibtex="")
    written: dict[Path, bytes] = {}
    for name, text in worked_example(package, card).items():
        if name == "pyproject.toml" and not outside:
            continue
        path = root / _PLACES.get(name, f"{{package}}/{name}").format(key=key, package=folder)
        if name in _OF_ALL and not outside:
            lines = [*path.read_text(encoding="utf-8").splitlines(), *text.splitlines()[name.endswith(".csv") :]]
            text = "\n".join(sorted(lines) if name == "anchors.txt" else lines) + "\n"
        written[path] = text.encode()
    files.write(written)
    for path in written:
        typer.echo(path)
    install = f"pip install -e {outside}; " if outside else ""
    typer.echo(f"dpnotes: {install}`dpnotes check-paper {key}` lists what is missing", err=True)


@command("check-paper")
def check_paper(
    key: Annotated[str, typer.Argument(metavar="KEY")],
    parts: Annotated[list[str] | None, typer.Argument(metavar="PART", help="Only these, such as laws.")] = None,
    as_json: Json = False,
) -> None:
    """Check one paper: each of its parts, with the file to write where one is missing or wrong."""
    for part in parts or ():
        validate.one_of([one.name for one in OBLIGATIONS], part=part)
    root = checkout(key)
    papers.paper(key)  # a paper that fails to import is named before the tests start
    chosen = [one for one in OBLIGATIONS if not parts or one.name in parts]
    found = _tested(key, root, [one.name for one in chosen])
    rows = [(one, file_of(key, one.file), found.get(one.name, ["no test of it ran"])) for one in chosen]
    if as_json:
        print_json([{"name": one.name, "file": file, "missing": faults} for one, file, faults in rows])
    else:
        for one, file, faults in rows:
            for line in faults or ["ok"]:
                typer.echo(columns((one.name, 12), (file, 40), line))
    if any(faults for _, _, faults in rows):
        raise typer.Exit(1)


def _tested(key: str, root: Path, parts: list[str]) -> dict[str, list[str]]:
    """The faults of each part of a paper whose tests ran."""
    own = [folder] if (folder := root / "tests/papers" / key).is_dir() else []
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary, "report.xml")
        chosen = [*(HOME / "tests/papers" / name for name in TESTS), *own]
        marked = "obligation or not each_paper and not slow"
        options = [f"--paper={key}", f"--parts={' '.join(parts)}", "-m", marked, f"--junitxml={report}"]
        options += ["-q", "-p", "no:cacheprovider", "-c", HOME / "pyproject.toml", "--rootdir", HOME]
        program = [sys.executable, "-m", "pytest", *options, *chosen]
        ran = subprocess.run(program, cwd=HOME, capture_output=True, text=True, check=False)
        if not report.exists():
            said = in_one_line((ran.stdout + ran.stderr)[-300:])
            raise ValueError(f"Expected the tests to run (pip install 'dpnotes[dev]'), got: {said}")
        cases = ElementTree.parse(report).findall(".//testcase")
    found: dict[str, list[str]] = {}
    for case in cases:
        part = case.find("properties/property[@name='obligation']")
        faults = found.setdefault(part.attrib["value"] if part is not None else "comparison", [])
        wrong = [each for kind in ("failure", "error") for each in case.findall(kind)]
        faults += [text for each in wrong if (text := _sentence(each)) not in faults]
    return found


def _sentence(failure: ElementTree.Element) -> str:
    """The sentence of a failed test."""
    told = [line[1:].strip() for line in f"{failure.text}".splitlines() if line.startswith("E  ")]
    lines = failure.attrib["message"].splitlines() if "collection failure" not in failure.attrib["message"] else told
    return in_one_line(lines[0].removeprefix("AssertionError: ") if lines else failure.attrib["message"])
