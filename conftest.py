"""Kernels that `pytest --nbval` starts inherit the environment in which the stored outputs were written."""

import importlib.util
import os
from collections import defaultdict
from pathlib import Path

import pytest

# Doctests import every module: those of compilers that are not installed are left out.
collect_ignore = [
    f"dpnotes/random/{module}_kernel.py"
    for module, compiler in (("cpu", "numba"), ("gpu", "triton"))
    if importlib.util.find_spec(compiler) is None
]


# Run after the last cell of each notebook: what its predictions call right has to come true.
PREDICTIONS_HOLD = """\
from dpnotes.notebook.teaching import Prediction
unsound = {name: one.unsound() for name, one in [*globals().items()] if isinstance(one, Prediction)}
assert not any(unsound.values()), unsound"""


def pytest_configure(config: pytest.Config) -> None:
    """Set it before the first kernel starts."""
    if config.getoption("nbval", default=False):
        from dpnotes.notebook.write import environment

        os.environ.update(environment())
        os.environ.pop("MPLBACKEND", None)  # Agg would swallow inline figures
        rules = str(Path(__file__).parent / "tests" / "nbval.cfg")
        config.option.nbval_sanitize_with = config.option.nbval_sanitize_with or rules
        _check_predictions()


def _check_predictions() -> None:
    import nbformat
    from nbval.plugin import IPyNbCell, IPyNbFile

    cells_of = IPyNbFile.collect

    def collect(file: IPyNbFile):
        yield from cells_of(file)
        cell, unchecked = nbformat.v4.new_code_cell(PREDICTIONS_HOLD), defaultdict(bool)
        yield IPyNbCell.from_parent(file, name="predictions", cell_num=-1, cell=cell, options=unchecked)

    IPyNbFile.collect = collect
