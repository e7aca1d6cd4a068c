"""Kernels that `pytest --nbval` starts inherit the environment in which the stored outputs were written."""

import importlib.util
import os
from pathlib import Path

import pytest

# Doctests import every module: those of compilers that are not installed are left out.
collect_ignore = [
    f"dpnotes/random/{module}_kernel.py"
    for module, compiler in (("cpu", "numba"), ("gpu", "triton"))
    if importlib.util.find_spec(compiler) is None
]


def pytest_configure(config: pytest.Config) -> None:
    """Set it before the first kernel starts."""
    if config.getoption("nbval", default=False):
        from dpnotes.notebook.write import environment

        os.environ.update(environment())
        os.environ.pop("MPLBACKEND", None)  # Agg would swallow inline figures
        rules = str(Path(__file__).parent / "tests" / "nbval.cfg")
        config.option.nbval_sanitize_with = config.option.nbval_sanitize_with or rules
