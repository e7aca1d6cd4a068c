"""Experiments with a pedigree: a spec, a runner that survives being killed, results held to sampled reruns."""

from dpnotes.experiments.agreement import verify
from dpnotes.experiments.cells import bring, export, keep
from dpnotes.experiments.chances import Simulation, simulate, stating
from dpnotes.experiments.chunks import parse_memory
from dpnotes.experiments.costs import Cost, wanting
from dpnotes.experiments.runner import run, status
from dpnotes.experiments.spec import (
    FLOAT32,
    FLOAT64,
    NOT_STATED,
    Cell,
    Chances,
    Context,
    Decision,
    Experiment,
    PaperFigure,
    Setting,
    Spec,
)
from dpnotes.experiments.store import Result, clean, decide_again, load, outstanding, results_folder
from dpnotes.experiments.sweeps import (
    Each,
    columns_of,
    grid,
    mean_interval,
    profiles,
    proportion,
    spaced,
    stacked,
    study,
)

__all__ = [
    "FLOAT32", "FLOAT64", "NOT_STATED", "Cell", "Chances", "Context", "Cost", "Decision", "Each", "Experiment",
    "PaperFigure", "Result", "Setting", "Simulation", "Spec", "bring", "clean", "columns_of", "decide_again", "export",
    "grid", "keep", "load", "mean_interval", "outstanding", "parse_memory", "profiles", "proportion", "results_folder",
    "run", "simulate", "spaced", "stacked", "stating", "status", "study", "verify", "wanting",
]  # fmt: skip
