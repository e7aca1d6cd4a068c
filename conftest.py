"""Kernels that `pytest --nbval` starts inherit the environment in which the stored outputs were written."""

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Set it before the first kernel starts."""
    if config.getoption("nbval", default=False):
        from dpnotes.notebook.write import environment

        os.environ.update(environment())
        os.environ.pop("MPLBACKEND", None)  # Agg would swallow inline figures
