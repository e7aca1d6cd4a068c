"""The book, `make book`: README, the pages of docs/, the stored notebooks, and the public functions; offline.

The source folder is the project's root, so that links between its files are links between pages.
"""

import ast
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

from sphinx.application import Sphinx

BOOK = Path(__file__).parent
ROOT = BOOK.parents[1]
API = BOOK / "api"  # written by `write`, ignored by git
# The parts that users call; a paper's claims and experiments are reached by their names.
PUBLIC = {"core", "guarantees", "sampling", "streams", "privacy", "problems", "oracles", "methods", "measure", "papers"}
PUBLIC |= {"theory", "experiments", "notebook"}
FOLDS = {"source_hidden": "input", "outputs_hidden": "output"}
LEFT_OUT = {"claims", "experiments", "notation"}
os.environ["OMP_NUM_THREADS"] = "1"

project = "dpnotes"
author = "The dpnotes authors"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx.ext.mathjax",
]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/derivations/*.md", "docs/book/**", "notebooks/*.ipynb"]
include_patterns += ["notebooks/evidence/*.ipynb", "docs/template/README.md"]
exclude_patterns = [".*", "build", "dpnotes", "tests", "benchmarks"]

html_theme = "furo"
html_title = "dpnotes"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_copyright = False
smartquotes = False
# A single file that loads no other: the MathJax version with which JupyterLab typesets the notebooks.
mathjax_path = "tex-svg-full.js"
mathjax3_config = {"tex": {"inlineMath": [["$", "$"], ["\\(", "\\)"]]}}
myst_mathjax_classes = "math|text_html"  # outside of these classes, dollars are plain text

nb_execution_mode = "off"
nb_render_markdown_format = "myst"
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "ignore-module-all": True}
napoleon_custom_sections = ["Formal guarantees", ("Args and returns", "Args"), ("Args and yields", "Args")]
napoleon_use_ivar = True
toc_object_entries = False  # a copy of them in every page's side bar would take most of the time

TOCTREE = "\n\n```{{toctree}}\n:hidden:\n:glob:\n:caption: {caption}\n\n{pages}\n```\n"
CONTENTS = {
    "README": [
        ("Notebooks", "notebooks/*"),
        ("Evidence", "notebooks/evidence/*"),
        ("Reference", "docs/README\nPublic functions <docs/book/api/dpnotes>"),
    ],
    "docs/README": [
        ("Pages", "*\ntemplate/README"),
        ("Derivations", "derivations/*"),
        ("Project", "../CONTRIBUTING\n../CHANGELOG\n../SECURITY\n../CODE_OF_CONDUCT"),
    ],
}
LINK = re.compile(r"(?<=\]\()(?P<path>[^()\s#:]*)(?:#(?P<anchor>(?:[^()\s]|\([^()\s]*\))+))?(?=\))")


def anchor(heading: str) -> str:
    """Return a heading's anchor as GitHub and MyST make it; JupyterLab's, with capitals and commas, maps to the same.

    >>> anchor("The-algorithm,-line-by-line"), anchor("the-algorithm-line-by-line")
    ('the-algorithm-line-by-line', 'the-algorithm-line-by-line')
    """
    return re.sub(r"[^\w\- ]", "", heading.strip().lower().replace(" ", "-"))


def linked(markdown: str, folder: Path) -> str:
    """Return Markdown of a file in `folder` with links to headings, modules and folders pointing into the book."""

    def link(match: re.Match[str]) -> str:
        path, heading = match["path"], match["anchor"]
        target = Path(os.path.normpath(folder / path))
        page = API / f"{'.'.join(target.relative_to(ROOT).with_suffix('').parts)}.rst" if path.endswith(".py") else None
        if page and page.exists():
            path = f"/{page.relative_to(ROOT)}"
        elif path and target.is_dir():
            path = "/docs/README.md"
        return path + (f"#{anchor(heading)}" if heading else "")

    return LINK.sub(link, markdown)


def prepare(app: Sphinx, docname: str, content: list[str]) -> None:
    """Prepare the source of a page for parsing: working links, folded cells, the table of contents."""
    folder = Path(app.env.doc2path(docname)).parent
    if app.env.doc2path(docname).suffix == ".ipynb":
        notebook = json.loads(content[0])
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = linked("".join(cell["source"]), folder)
            else:
                folds = cell["metadata"].get("jupyter", {})
                hidden = [f"hide-{part}" for fold, part in FOLDS.items() if folds.get(fold)]
                cell["metadata"]["tags"] = ["hide-cell"] if len(hidden) == 2 else hidden
        content[0] = json.dumps(notebook)
    elif app.env.doc2path(docname).suffix == ".md":
        content[0] = linked(content[0], folder)
    for caption, pages in CONTENTS.get(docname, []):
        content[0] += TOCTREE.format(caption=caption, pages=pages)


SECTION = re.compile(r"(Args|Returns|Yields|Raises|Example|Attributes|Formal guarantees)[a-z ]*:$")
TOKEN = re.compile(r"^\0(.*)$|`([^`]+)`|[|\\]", re.MULTILINE)  # a kept line, code, or a character that would be markup


def restructured(lines: list[str]) -> list[str]:
    r"""Convert a docstring to reStructuredText: single backticks are code, indented text keeps its layout.

    >>> restructured(["Lines of `Ledger`:", "  1: x = |y|", "", "Args:", "  y: `rho`s, |y|."])
    ['Lines of :py:obj:`Ledger`\\ :', '', '::', '', '  1: x = |y|', '', '', 'Args:', '  y: ``rho``\\ s, \\|y\\|.']
    """
    marked, head, example, layout = [], "", False, False
    for line in lines:
        indented = line.startswith(" ")
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if layout and line and not indented:
            layout = False
            marked.append("")
        elif indented and not (layout or example or SECTION.match(head) or head.startswith("* ")):
            layout = True
            marked += ["", "::", ""]
        marked.append("\0" + line if layout or example else line)
        head = head if indented or example or not line else line

    def token(match: re.Match[str]) -> str:
        stays, code = match.groups()
        if stays is not None:
            return stays
        if code is None:
            return "\\" + match[0]
        return f":py:obj:`{code}`\\ " if re.fullmatch(r"[A-Z]\w+|\w+(\.\w+)+", code) else f"``{code}``\\ "

    return TOKEN.sub(token, "\n".join(marked)).split("\n")


def stubs(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield a page, as file and text, for the module or package `path` and everything public in it."""
    modules = []
    if path.is_dir():
        modules = [file for file in sorted(path.iterdir()) if file.suffix == ".py" or (file / "__init__.py").exists()]
        modules = [file for file in modules if not file.stem.startswith("_")]
        root = path == ROOT / "dpnotes"
        modules = [file for file in modules if (file.stem in PUBLIC if root else file.stem not in LEFT_OUT)]
    for file in modules:
        yield from stubs(file)
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    lines = [name, "=" * len(name), "", f".. automodule:: {name}", ""]
    if path.parent == ROOT:
        lines += [".. toctree::", "   :hidden:", "", *(f"   {file.stem} <{name}.{file.stem}>" for file in modules)]
    elif path.parent.parent != ROOT:  # in no side bar: a tree of all modules beside every page doubles the time
        above = name.rpartition(".")[0]
        lines = [":orphan:", "", *lines[:3], f"In :doc:`{above} <{above}>`.", "", *lines[3:]]
    yield API / f"{name}.rst", "\n".join(lines) + "\n"


def write(pages: dict[Path, str]) -> None:
    """Make the folder contain exactly `pages`. A correct page is not rewritten, since another build may read it."""
    API.mkdir(exist_ok=True)
    for path in API.glob("*.rst"):
        if path not in pages:
            path.unlink(missing_ok=True)
    for path, text in pages.items():
        if not path.exists() or path.read_text() != text:
            new = path.with_suffix(f".{os.getpid()}")
            new.write_text(text)
            new.replace(path)


def contents(name: str, module: ModuleType) -> Iterator[str]:
    """Yield a table of a module's functions and classes and of its modules' pages, one per line."""
    rows = [
        (f":py:obj:`{key} <{name}.{key}>`", value.__doc__ or "")
        for key, value in vars(module).items()
        if not key.startswith("_") and isinstance(value, type | FunctionType) and value.__module__ == name
    ]
    for page in sorted(API.glob(f"{name}.*.rst")):
        stem = page.stem.removeprefix(f"{name}.")
        if "." not in stem:
            file = ROOT / page.stem.replace(".", "/")
            file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
            rows.append((f":doc:`{stem} <{page.stem}>`", ast.get_docstring(ast.parse(file.read_text())) or ""))
    if rows:
        yield from ["", ".. list-table::", "   :class: in-this-module", ""]
    for link, says in rows:
        first = restructured(says.partition("\n\n")[0].splitlines())
        yield from [f"   * - {link}", f"     - {' '.join(line.strip() for line in first)}"]


def docstring(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Convert a docstring to the text that autodoc reads, before napoleon finds the sections in it."""
    lines[:] = restructured(lines)
    if isinstance(thing, ModuleType):
        lines += contents(name, thing)


def finish(app: Sphinx, error: Exception | None) -> None:
    """Add the front page, which answers which algorithm, and MathJax."""
    if error is None:
        import importlib.metadata

        from dpnotes.atlas import page

        out = Path(app.outdir)
        page.write(out / "index.html")
        files = importlib.metadata.files("sphinx-mathjax-offline") or []
        (mathjax,) = (file for file in files if file.name == "tex-svg-full.js")
        shutil.copy(mathjax.locate(), out / "_static")


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    write(dict(stubs(ROOT / "dpnotes")))
    app.connect("source-read", prepare)
    app.connect("autodoc-process-docstring", docstring, priority=400)  # before napoleon
    app.connect("build-finished", finish)
