"""A small `dpnotes run drift_escape.clients` for `experiments/test_processes.py`; the last rank may have a fault.

    FAULT=die torchrun --nproc-per-node 3 -m tests.run_worker run drift_escape.clients

"die", "hang" and "columns" happen in the fifth cell, "spec" and "arguments" at the start.
"""

import os
import signal
import sys
import time
from dataclasses import replace
from typing import Any

from dpnotes.cli import catalogue
from dpnotes.cli import main as command_line
from dpnotes.experiments import Spec
from dpnotes.oracles.blocks import Blocks
from dpnotes.papers.drift_escape.experiments import clients

SMALL = {"clients": [2, 12], "repeats": 8, "steps": 6, "first": 400, "least": 40}
FAULTY_CELL = {"noise": "mechanism", "tilted": False, "clients": 12}


def small(**more: Any) -> Any:
    spec = Spec("drift_escape", "clients", "quick", {**clients.QUICK.parameters, **SMALL, **more})
    return replace(clients.EXPERIMENT, specs={"quick": spec})


def faulty(fault: str) -> Any:
    """Return the experiment with a fault."""
    if fault == "arguments":
        sys.argv[2] = "drift_escape.other"
    experiment = small(first=401) if fault == "spec" else small()

    def run_cell(spec: Spec, cell: Any, context: Any) -> Any:
        if cell != FAULTY_CELL:
            return experiment.run_cell(spec, cell, context)
        if fault == "columns":
            found = experiment.run_cell(spec, cell, context)
            return found | {"error": found["error"] * (1 + 2**-50)}
        plain, rounds = Blocks.sum, []

        def sum_(self: Blocks, *given: Any) -> Any:
            rounds.append(1)
            if len(rounds) == 3:
                {"die": _die, "hang": lambda: time.sleep(1000)}[fault]()
            return plain(self, *given)

        Blocks.sum = sum_  # type: ignore[method-assign]
        return experiment.run_cell(spec, cell, context)

    run_cell.__module__ = clients.__name__  # the experiment's code is looked up there
    return replace(experiment, run_cell=run_cell) if fault in ("die", "hang", "columns") else experiment


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    is_last = int(os.environ.get("RANK", "0")) == int(os.environ.get("WORLD_SIZE", "1")) - 1
    experiment = faulty(os.environ.get("FAULT", "") if is_last else "")
    catalogue.all_experiments = lambda: [experiment]
    command_line.main()


if __name__ == "__main__":
    main()
