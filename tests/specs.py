"""Specs with changed parameters, and the frame of a run without the runner and the store."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from dpnotes.experiments import Context, Spec


def changed(spec: Spec, **parameters: Any) -> Spec:
    return Spec(spec.paper, spec.experiment, spec.profile, {**spec.parameters, **parameters})


def frame_of(experiment: Any, spec: Spec, cells: Iterable[Any] | None = None) -> pd.DataFrame:
    """Return the columns of all cells, or of some, for an experiment or the module that defines it."""
    chosen = experiment.cells(spec) if cells is None else cells
    parts = [pd.DataFrame(experiment.run_cell(spec, cell, Context("cpu", 10**9))) for cell in chosen]
    assert all(set(part) == set(parts[0]) for part in parts)
    return pd.concat(parts, ignore_index=True)


def simulated(study: Any, spec: Spec | None = None) -> pd.DataFrame:
    """Return results of a study's prediction as its `Simulation` draws them, for rules to be tried on."""
    return study.simulated(spec or study.QUICK, np.random.default_rng(0), True)
