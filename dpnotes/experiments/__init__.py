"""Experiments with a pedigree: a spec, a runner that survives being killed, results that know when they are stale."""

from dpnotes.experiments.carry import Carried, bring, export
from dpnotes.experiments.chances import Worlds, simulate, stating
from dpnotes.experiments.chunks import Chunking, parse_memory, run_in_chunks
from dpnotes.experiments.costs import Cost, wanting
from dpnotes.experiments.parts import keep
from dpnotes.experiments.runner import Freshness, run, status
from dpnotes.experiments.spec import (
    NOT_STATED,
    Chances,
    Context,
    Decision,
    Experiment,
    PaperFigure,
    Setting,
    Spec,
    canonical_json,
)
from dpnotes.experiments.store import DamagedFileError, Result, clean, load, outstanding, results_folder, stamp
from dpnotes.experiments.verify import Verification, verify, verify_kept

__all__ = [
    "NOT_STATED",
    "Carried",
    "Chances",
    "Chunking",
    "Context",
    "Cost",
    "DamagedFileError",
    "Decision",
    "Experiment",
    "Freshness",
    "PaperFigure",
    "Result",
    "Setting",
    "Spec",
    "Verification",
    "Worlds",
    "bring",
    "canonical_json",
    "clean",
    "export",
    "keep",
    "load",
    "outstanding",
    "parse_memory",
    "results_folder",
    "run",
    "run_in_chunks",
    "simulate",
    "stamp",
    "stating",
    "status",
    "verify",
    "verify_kept",
    "wanting",
]
