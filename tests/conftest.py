"""The settings of all tests: few threads, derandomised hypothesis, markers that report missing requirements."""

import os
from typing import Any

import hypothesis
import pytest

from dpnotes import papers
from dpnotes.cli import doctor

# This must precede the import of numpy and torch: two workers with the default number of threads slow each other down.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault("MPLBACKEND", "agg")

hypothesis.settings.register_profile("dpnotes", derandomize=True, deadline=None, max_examples=50)
hypothesis.settings.load_profile("dpnotes")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--paper KEY`: leave out the tests of other papers' claims. `dpnotes check-paper` adds `--parts PARTS`."""
    parser.addoption("--paper", metavar="KEY", help="leave out tests that are parametrised by other papers' claims")
    parser.addoption("--parts", metavar="PARTS", default="", help="with --paper: only tests of these parts of a paper")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a paper that is not there; without one, the tests are of the papers here, whatever else is installed."""
    if (key := config.getoption("--paper")) is None:
        papers._entry_points = tuple
    elif key not in papers.packages():
        raise pytest.UsageError(f"Expected --paper={key} to be one of: {', '.join(papers.packages())}.")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests with the marks `each_paper` and `obligation` for every paper here, or for the one that is named."""
    if any(map(metafunc.definition.get_closest_marker, ("each_paper", "obligation"))):
        key = metafunc.config.getoption("--paper")
        metafunc.parametrize("paper", [key] if key else papers.PAPERS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that are parametrised by another paper, or by a claim of one; note the part of the others."""
    if (key := config.getoption("--paper")) is None:
        return
    others, parts = {*papers.PAPERS} - {key}, f"{config.getoption('--parts')}".split()
    kept = []
    for item in items:
        mark = item.get_closest_marker("obligation")
        own = "comparison" if f"tests/papers/{key}/" in item.path.as_posix() else ""
        part = mark.args[0] if mark else own
        if not _papers(item) & others and (not parts or part in parts):
            item.user_properties.append(("obligation", part))
            kept.append(item)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def _papers(item: pytest.Item) -> set[str]:
    """The first parts of the names that a test is parametrised by: of `noisy_sgd` and of `noisy_sgd.thm3.1`."""
    given: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}  # type: ignore[attr-defined]
    return {str(getattr(value, "id", value)).partition(".")[0] for value in given.values()}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test of the browser or the GPU with the missing requirement; in CI a missing browser is a failure."""
    if item.get_closest_marker("browser") and doctor.chromium() is None:
        message = "chromium was not found: apt-get install chromium (Debian) or set DPNOTES_CHROMIUM to its path"
        if os.environ.get("CI"):
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("no CUDA device: torch.cuda.is_available() is False")
