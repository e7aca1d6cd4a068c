"""The papers that README's table shows; only these stand in the tests' other tables: calls, launches, counts."""

from pathlib import Path

from dpnotes import papers

README = " ".join((Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8").split())
SHOWN = tuple(key for key in papers.PAPERS if papers.paper(key).title in README)
