"""What a wheel needs beside pyproject.toml: notebooks, results and pages inside it, and a README with full links.

They stand beside the package in the repository, where an editable install finds them. In a wheel they are
`dpnotes/carried/notebooks` and `dpnotes/carried/docs`; `dpnotes lab` copies them out, and opens the copies.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CARRIED = ("notebooks/*.ipynb", "notebooks/evidence/*.ipynb", "notebooks/results/*.npz", "notebooks/results/*.json")
CARRIED += ("docs/**/*.md",)
# What `dpnotes new-paper` writes, and the tests that `dpnotes check-paper` runs.
CARRIED += ("docs/template/*.*", "pyproject.toml", "conftest.py", "tests/__init__.py", "tests/conftest.py")
CARRIED += ("tests/laws*.py", "tests/modules.py", "tests/drawing.py", "tests/results.py", "tests/nbval*")
CARRIED += ("tests/inventory/formulas/counts.csv", "tests/papers/test_claims.py", "tests/papers/test_obligations.py")
CARRIED += ("tests/papers/test_reference_names.py", "tests/shown.py", "tests/statement_mutants.py", "README.md")


class BuildWithNotebooks(build_py):
    """Copies what is carried where the package is built; an editable install needs no copy."""

    def run(self) -> None:
        """Build the package, then put beside it what it carries."""
        super().run()
        if self.editable_mode:
            return
        for source, built in self._carried().items():
            self.mkpath(str(Path(built).parent))
            self.copy_file(source, built)

    def get_source_files(self) -> list[str]:
        """A source distribution has them too, or no wheel could be built from it."""
        return [*super().get_source_files(), *self._carried()]

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """What was built."""
        return [*super().get_outputs(include_bytecode), *self._carried().values()]

    def _carried(self) -> dict[str, str]:
        sources = sorted(path.as_posix() for pattern in CARRIED for path in Path().glob(pattern))
        return {source: str(Path(self.build_lib, "dpnotes/carried", source)) for source in sources}


def readme() -> str:
    """Return README.md for a package index, where links relative to the repository would lead nowhere."""
    source = tomllib.loads(Path("pyproject.toml").read_text())["project"]["urls"]["Source"]
    pictures = re.sub(r"!(\[[^]]*\])\((?!https?:)", rf"!\1({source}/raw/HEAD/", Path("README.md").read_text())
    return re.sub(r"\]\((?!https?:|#)", rf"]({source}/blob/HEAD/", pictures)


setup(
    cmdclass={"build_py": BuildWithNotebooks},
    long_description=readme(),
    long_description_content_type="text/markdown",
)
