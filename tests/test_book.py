"""The book that `make book` builds: every link works, and a browser shows it offline without errors."""

import ast
import contextlib
import functools
import http.server
import json
import re
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser import complaints, launched

from dpnotes.notebook import copies

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[1]
NOTEBOOKS = copies.notebooks()


def build(source: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command of `make book`, with output into `folder`."""
    (line,) = re.findall(r"-m sphinx (.*) \. build/book$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    places = {"docs/book": str(ROOT / "docs/book"), ".cache/book": str(folder / "cache")}
    options = [places.get(option, option) for option in line.split()]
    command = [sys.executable, "-m", "sphinx", *options, str(source), str(folder / "html")]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("book")
    run = build(ROOT, folder)
    assert run.returncode == 0, run.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def served(book: Path) -> Iterator[str]:
    """Serve the book on this machine; yield its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(book))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def opened(served: str) -> Iterator:
    """Open a page of the book by its path, wait for its formulas, and finally return the browser's errors."""

    @contextlib.contextmanager
    def open_page(path: str, width: int = 1300) -> Iterator["Page"]:
        page = chromium.new_page(viewport={"width": width, "height": 1000})
        page.set_default_timeout(120_000)  # a busy machine is slow
        heard = complaints(page, served)
        try:
            page.goto(f"{served}/{path}")
            settle(page)
            yield page
            assert heard == []
        finally:
            page.close()

    with launched() as chromium:
        yield open_page


def settle(page: "Page") -> None:
    page.wait_for_load_state("networkidle")
    page.evaluate("() => window.MathJax?.startup?.promise")


# ---------------------------------------------------------------- links, without a browser
class Links(HTMLParser):
    """The anchors of a page, and the targets of its links, pictures, styles and scripts."""

    def __init__(self, text: str):
        self.anchors: set[str] = {"", "top"}
        self.targets: list[str] = []
        HTMLParser.__init__(self)
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key in ("id", "name") and value:
                self.anchors.add(value)
            if key in ("href", "src") and value:
                self.targets.append(value)


def dead(folder: Path) -> list[str]:
    """Return broken links in the pages under `folder`, and everything that a page would load from elsewhere."""
    pages = {path: Links(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    found = []
    for path, links in pages.items():
        for target in links.targets:
            url = urllib.parse.urlsplit(target)
            if url.scheme in ("http", "https", "mailto", "data") or url.netloc:
                continue
            file = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
            anchor = urllib.parse.unquote(url.fragment)
            if not file.is_file() or (file in pages and anchor not in pages[file].anchors):
                found.append(f"{path.relative_to(folder)}: {target}")
    return found


def test_every_link_leads_somewhere(book: Path):
    assert dead(book) == []


def test_control_a_dead_link_is_seen(tmp_path: Path):
    (tmp_path / "one.html").write_text(
        '<h1 id="here"></h1><a href="#here"></a><a href="two.html#there"></a><a href="https://example.org/x"></a>'
        '<a href="two.html#gone"></a><a href="three.html"></a><img src="_images/none.png"><a href="#nor"></a>'
    )
    (tmp_path / "two.html").write_text('<p id="there">')
    assert dead(tmp_path) == [f"one.html: {x}" for x in ("two.html#gone", "three.html", "_images/none.png", "#nor")]


def test_control_the_build_refuses_a_link_that_leads_nowhere(tmp_path: Path):
    source = tmp_path / "source"
    (source / "notebooks").mkdir(parents=True)
    (source / "README.md").write_text("# A book\n\n[a page](docs/none.md), [a heading](#none)\n")
    cell = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# A notebook\n\n[there](#Nor-there)"}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (source / "notebooks/one.ipynb").write_text(json.dumps(notebook))
    run = build(source, tmp_path)
    assert run.returncode != 0
    for target in ("docs/none.md", "'none'", "'nor-there'"):
        assert re.search(rf"target not found: .*{target}", run.stderr), run.stderr


def test_every_notebook_and_page_is_in_the_book(book: Path):
    sources = [*NOTEBOOKS, *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/derivations").glob("*.md")]
    for path in sources:
        assert (book / path.relative_to(ROOT).with_suffix(".html")).is_file(), path


def test_every_public_function_has_its_entry(book: Path):
    pages = sorted((book / "docs/book/api").glob("*.html"))
    parts = {page.stem.split(".")[1] for page in pages if page.stem != "dpnotes"}
    assert {"core", "privacy", "oracles", "methods", "measure", "problems", "papers", "theory", "notebook"} <= parts
    names = {page.stem for page in pages}
    for paper in (ROOT / "dpnotes/papers").glob("*/reference.py"):
        assert f"dpnotes.papers.{paper.parent.name}.reference" in names
    for page in pages:
        module = ROOT / page.stem.replace(".", "/")
        tree = ast.parse((module / "__init__.py" if module.is_dir() else module.with_suffix(".py")).read_text())
        anchors = Links(page.read_text()).anchors
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                assert f"{page.stem}.{node.name}" in anchors, f"{page.stem}.{node.name} has no entry"


# ---------------------------------------------------------------- in a browser
UNSET = r"""() => {
    const unset = [], walker = document.createTreeWalker(document.querySelector('article'), NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode())
        if (/\$[^$\n]+\$|\\\(|\\\[|\\frac/.test(node.data) && !node.parentElement.closest('pre, code, mjx-container'))
            unset.push(node.data.trim().slice(0, 200));
    return unset.concat([...document.querySelectorAll('mjx-merror, [data-mjx-error]')].map(e => e.textContent));
}"""
WIDTH = "() => document.documentElement.scrollWidth"
BROKEN = "() => [...document.images].filter(i => !(i.complete && i.naturalWidth)).map(i => i.src.slice(0, 200))"


@pytest.mark.parametrize("path", [path.relative_to(ROOT) for path in NOTEBOOKS], ids=lambda path: path.stem)
def test_a_notebook_reads_without_a_kernel_and_fits(opened, path: Path):
    cells = json.loads(path.read_text())["cells"]
    folded = [cell for cell in cells if cell["cell_type"] == "code" and cell["metadata"].get("jupyter")]
    with opened(str(path.with_suffix(".html"))) as page:
        assert page.evaluate(UNSET) == []
        assert any("$" in "".join(cell["source"]) for cell in cells) == bool(page.locator("mjx-container").count())
        page.evaluate("() => document.querySelectorAll('img').forEach(image => image.loading = 'eager')")
        page.wait_for_load_state("networkidle")
        assert page.evaluate(BROKEN) == []
        assert page.locator("article img").count() > 0
        closed = page.locator("details.hide:not([open])")
        assert closed.count() == len(folded) and page.locator("details.hide[open]").count() == 0
        if folded:
            inside = closed.first.locator("pre, img, table").first
            assert not inside.is_visible()
            closed.first.locator("summary").click()
            page.locator("details.hide[open]").locator("pre, img, table").first.wait_for(state="visible")
        page.set_viewport_size({"width": 500, "height": 1000})
        assert page.evaluate(WIDTH) <= 500


@pytest.mark.parametrize("path", ["README.html", "docs/errata.html"])
def test_readme_and_errata_are_no_wider_than_the_window(opened, path: str):
    with opened(path, 500) as page:
        assert page.evaluate(WIDTH) <= 500


def test_control_what_goes_wrong_on_a_page_is_seen(book: Path, opened):
    (book / "faulty.html").write_text(
        '<article>$x^2$<code>$y$</code><img src="none.png"><script src="http://example.org/a.js"></script></article>'
        '<script src="_static/tex-svg-full.js"></script>'
    )
    try:
        with pytest.raises(AssertionError, match=r"external request: http://example.org/a.js"):
            with opened("faulty.html") as page:
                assert page.evaluate(UNSET) == ["$x^2$"], "these are not the delimiters that MathJax looks for"
                assert [Path(source).name for source in page.evaluate(BROKEN)] == ["none.png"]
    finally:
        (book / "faulty.html").unlink()
