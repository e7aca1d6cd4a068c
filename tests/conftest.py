"""The settings of all tests: few threads, derandomised hypothesis, markers that report missing requirements."""

import os

import hypothesis
import pytest

from dpnotes.cli import doctor

# This must precede the import of numpy and torch: two workers with the default number of threads slow each other down.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault("MPLBACKEND", "agg")

hypothesis.settings.register_profile("dpnotes", derandomize=True, deadline=None, max_examples=50)
hypothesis.settings.load_profile("dpnotes")


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
