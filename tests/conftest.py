"""The settings of all tests: few threads, derandomised hypothesis, markers that report missing requirements."""

import os

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
    parser.addoption("--paper", metavar="KEY", help="only the tests of this paper; `dpnotes check-paper` runs some")
    parser.addoption("--parts", metavar="PARTS", default="", help="with --paper, only those of these parts of it")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--paper"):
        papers._entry_points = tuple  # the tests are of the papers here, whatever else is installed


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests with the marks `each_paper` and `obligation` for every paper here, or for the one that is named."""
    if any(map(metafunc.definition.get_closest_marker, ("each_paper", "obligation"))):
        key = metafunc.config.getoption("--paper")
        metafunc.parametrize("paper", [key] if key else papers.PAPERS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the paper that is named, and note which part of a paper each of them is about."""
    if not (key := config.getoption("--paper")):
        return
    kept, parts = [], f"{config.getoption('--parts')}".split()
    for item in items:
        mark, given = item.get_closest_marker("obligation"), getattr(item, "callspec", None)
        part = mark.args[0] if mark else "comparison"
        own = f"tests/papers/{key}/" in item.path.as_posix() or given is not None and given.params.get("paper") == key
        if own and (not parts or part in parts):
            item.user_properties.append(("obligation", part))
            kept.append(item)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


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
