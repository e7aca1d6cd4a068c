"""The settings of all tests: few threads, derandomised hypothesis, markers that report missing requirements."""

import os
from typing import Any

import hypothesis
import pytest

from dpnotes.cli import doctor

# This must precede the import of numpy and torch: two workers with the default number of threads slow each other down.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault("MPLBACKEND", "agg")

hypothesis.settings.register_profile("dpnotes", derandomize=True, deadline=None, max_examples=50)
hypothesis.settings.load_profile("dpnotes")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--paper KEY`: leave out the tests of other papers' claims."""
    parser.addoption("--paper", metavar="KEY", help="leave out tests that are parametrised by other papers' claims")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a paper that is not there."""
    if key := config.getoption("--paper"):
        from dpnotes.papers import PAPERS

        if key not in PAPERS:
            raise pytest.UsageError(f"Expected --paper={key} to be one of: {', '.join(PAPERS)}.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that are parametrised by another paper, or by a claim of one."""
    if (key := config.getoption("--paper")) is None:
        return
    from dpnotes.papers import PAPERS

    others = {*PAPERS} - {key}
    left_out = [item for item in items if _papers(item) & others]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not _papers(item) & others]


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
