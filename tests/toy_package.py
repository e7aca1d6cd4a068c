"""A package with a toy experiment, as text: its code can be edited, and another process can run it."""

# A package of its own, so that its code can be edited: four cells, then a stage that goes on with the best of them.
HELPER = '''"""What the toy rests on."""


def scaled(values):
    # A comment.
    return 2.0 * values
'''
TOY = '''"""A toy experiment in two stages."""

import os
import time
from pathlib import Path

import numpy as np

from dpnotes.experiments import Decision, Experiment, Spec
from toys.helper import scaled

RULE = "reproduced when the mean of the best cell is above 0"


def cells(spec):
    return [{"stage": "tune", "index": index} for index in range(spec["num_cells"])]


def chosen(spec, frame):
    best = int(frame.groupby("index")["value"].mean().idxmax())
    return [{"stage": "main", "index": best + 100}]


def run_cell(spec, cell, context):
    index = cell["index"]
    if log := os.environ.get("TOY_LOG"):
        with open(log, "a") as file:
            file.write(f"{index}\\n")
    while os.environ.get("TOY_HANG") == str(index):
        time.sleep(0.05)
    context.record_spent(mechanism="gaussian", rho=0.125)

    def values(runs):
        return {"value": np.array([scaled(np.random.default_rng([spec["seed"], index, run]).normal()) for run in runs])}

    columns = context.in_chunks(values, spec["num_runs"], bytes_per_run=1000)
    return {"stage": cell["stage"], "index": index, **columns}


def decide(frame, spec):
    mean = frame.loc[frame["stage"] == "main", "value"].mean()
    return Decision("reproduced" if mean > 0 else "not reproduced", f"mean {mean:.3f}")


def spec(profile):
    return Spec("toy", "mean", profile, {"seed": 7, "num_cells": 4, "num_runs": 5, "decision_rule": RULE})


EXPERIMENT = Experiment(
    paper="toy",
    name="mean",
    title="A mean",
    question="Is it positive?",
    specs={profile: spec(profile) for profile in ("quick", "paper")},
    cells=cells,
    run_cell=run_cell,
    decide=decide,
    stages=(chosen,),
    data=("numbers sha256:01",),
    unaccounted=("the choice of the best cell",),
)
'''
DRIVER = """
from dpnotes.experiments import run
from toys.experiment import EXPERIMENT
run(EXPERIMENT, "quick", device="cpu")
"""
