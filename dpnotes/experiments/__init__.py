"""Experiments with a pedigree: a spec, a runner that survives being killed, results held to sampled reruns."""

from dpnotes.experiments.agreement import verify
from dpnotes.experiments.cells import bring, export, keep
from dpnotes.experiments.chances import Simulation, simulate
from dpnotes.experiments.costs import Cost
from dpnotes.experiments.outcomes import Answers, Outcome, outcome
from dpnotes.experiments.preregistration import Preregistration
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

__all__ = [
    "FLOAT32", "FLOAT64", "NOT_STATED", "Answers", "Cell", "Chances", "Context", "Cost", "Decision", "Experiment",
    "Outcome", "PaperFigure", "Preregistration", "Result", "Setting", "Simulation", "Spec", "bring", "clean",
    "decide_again", "export", "keep", "load", "outcome", "outstanding", "results_folder", "run",
    "simulate", "status", "verify",
]  # fmt: skip
