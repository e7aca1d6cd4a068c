"""Experiments with a pedigree: a spec, a runner that survives being killed, results that know when they are stale."""

from dpnotes.experiments.chunks import Chunking, parse_memory, run_in_chunks
from dpnotes.experiments.runner import Freshness, run, status
from dpnotes.experiments.spec import (
    NOT_STATED,
    Context,
    Decision,
    Experiment,
    PaperFigure,
    Setting,
    Spec,
    canonical_json,
)
from dpnotes.experiments.store import DamagedFileError, Result, clean, load, outstanding, results_folder, stamp
from dpnotes.experiments.verify import Verification, verify

__all__ = [
    "NOT_STATED",
    "Chunking",
    "Context",
    "DamagedFileError",
    "Decision",
    "Experiment",
    "Freshness",
    "PaperFigure",
    "Result",
    "Setting",
    "Spec",
    "Verification",
    "canonical_json",
    "clean",
    "load",
    "outstanding",
    "parse_memory",
    "results_folder",
    "run",
    "run_in_chunks",
    "stamp",
    "status",
    "verify",
]
