"""Experiments with a pedigree: a spec, a runner that survives being killed, results that know when they are stale."""

from dpnotes.experiments.carry import bring, export
from dpnotes.experiments.chances import Worlds, simulate, stating
from dpnotes.experiments.chunks import parse_memory
from dpnotes.experiments.costs import Cost, wanting
from dpnotes.experiments.parts import keep
from dpnotes.experiments.runner import run, status
from dpnotes.experiments.spec import (
    NOT_STATED,
    Chances,
    Context,
    Decision,
    Experiment,
    PaperFigure,
    Setting,
    Spec,
)
from dpnotes.experiments.store import Result, clean, load, outstanding, results_folder
from dpnotes.experiments.verify import verify, verify_kept

__all__ = [
    "NOT_STATED",
    "Chances",
    "Context",
    "Cost",
    "Decision",
    "Experiment",
    "PaperFigure",
    "Result",
    "Setting",
    "Spec",
    "Worlds",
    "bring",
    "clean",
    "export",
    "keep",
    "load",
    "outstanding",
    "parse_memory",
    "results_folder",
    "run",
    "simulate",
    "stating",
    "status",
    "verify",
    "verify_kept",
    "wanting",
]
