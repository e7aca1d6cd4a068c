"""A fixed time on a borrowed GPU, spent on the most valuable outstanding results: `dpnotes gpu`.

First the machine is checked: versions, draws, the tests that need a GPU, benchmarks. Then
`dpnotes run --missing`, which computes paper results in the order of results/OUTSTANDING.md. Every step writes a
record, and every cell is stored when it ends, all in one folder to carry back; after a call that was killed, the next
call continues.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import dpnotes
from dpnotes.cli import doctor
from dpnotes.experiments.provenance import environment, now
from dpnotes.util import files, validate

_LAST = 10.0  # seconds for interrupted cells to write their checkpoints
_SHARES = {"tests": 0.35, "benchmark networks": 0.15, "benchmark draws": 0.15}  # of the time that is left, at most
_BENCHMARKS = {"networks": ("benchmarks/networks.py", "cuda"), "draws": ("benchmarks/draws.py",)}


def session(
    folder: Path,
    minutes: float,
    *,
    jobs: int = 4,
    report: Callable[[str], None] = print,
    programs: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, str]:
    """Run as many steps as fit into the time.

    Args:
      folder: the folder for records and cells; the folder of an earlier call continues that call.
      minutes: the time, at most.
      jobs: cells computed at once: one alone leaves a large GPU idle for most of the time.
      report: called with one line at a time.
      programs: arguments to Python by name, in place of tests, benchmarks and runs.

    Returns:
      The state of each step: "passed", "failed", or "cut" (it took longer than its share of the time).

    Raises:
      ValueError: minutes that are not above 0, jobs < 1, no GPU, a machine on which the streams draw other numbers.
      FileNotFoundError: this is not a repository: an installation has neither tests nor benchmarks.
    """
    import torch

    validate.positive(minutes=minutes)
    validate.at_least(1, jobs=jobs)
    if not torch.cuda.is_available():
        raise ValueError("Expected a GPU that torch can use: see dpnotes doctor.")
    end, root, folder = time.monotonic() + 60 * minutes - _LAST, Path(dpnotes.__file__).parents[1], folder.resolve()
    if not (root / "tests").is_dir():
        raise FileNotFoundError(f"Expected {root / 'tests'}: tests and benchmarks are part of the repository.")
    steps: dict[str, str] = {}
    report(f"{minutes:g} minutes, records and cells in {folder}")
    for name, work in (("environment", _environment), ("streams", _streams)):
        body = {"name": name, **work(), "finished_at": now()}
        files.write({folder / "steps" / f"{name}.json": files.sealed_json(body)})
        report(f"{name}: {body['state']}")
        steps[name] = body["state"]
    if steps["streams"] != "passed":
        raise ValueError(f"Expected the streams to draw the CPU's numbers here: {folder / 'steps' / 'streams.json'}")
    for name, words in (programs or _programs(root, jobs)).items():
        seconds = _SHARES.get(name, 1.0) * max(end - time.monotonic(), 0.0)
        steps[name] = _program(folder, name, words, root, seconds, report)
    report(f"carry the folder back, and there: dpnotes cells import {folder.name}")
    return steps


def _programs(root: Path, jobs: int) -> dict[str, Sequence[str]]:
    # Only modules with GPU tests: others import packages that a GPU machine may lack, and a failed import ends the
    # tests.
    modules = [str(path) for path in sorted((root / "tests").rglob("test_*.py")) if "mark.gpu" in path.read_text()]
    return {
        "tests": ("-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", "--timeout=600", *modules),
        **{f"benchmark {name}": words for name, words in _BENCHMARKS.items()},
        "results": (
            *("-m", "dpnotes", "run", "--missing", "--profile", "paper", "--device", "cuda", "--jobs", str(jobs)),
        ),
    }


def _environment() -> dict[str, Any]:
    """The state of the machine, and the problems that `dpnotes doctor` finds."""
    findings = [asdict(finding) for finding in doctor.examine()]
    problems = [finding["subject"] for finding in findings if finding["level"] == "problem"]
    here = {"environment": environment("cuda"), "cores": os.cpu_count(), "findings": findings}
    return {"state": f"failed: {', '.join(problems)}" if problems else "passed", **here}


def _streams() -> dict[str, Any]:
    """Compare 10^5 draws of either kind with the CPU's, which tests compare with known answers."""
    import torch

    from dpnotes.random import draws
    from dpnotes.random.streams import Streams

    wrong = list[str]()
    here, there = (Streams.of("gpu", ["a", "b"], device) for device in ("cpu", "cuda"))
    for kind in ("normal", "uniform"):
        one, other = getattr(here, kind)("noise", 3, 10**5), getattr(there, kind)("noise", 3, 10**5).cpu()
        if not torch.equal(one, other):
            wrong.append(f"{kind}: {int((one != other).sum())} of {one.numel()} numbers are not those of the CPU")
    about = draws.backend(torch.device("cuda")).about
    return {"state": "failed" if wrong else "passed", "kernels": about, "wrong": wrong}


def _program(
    folder: Path, name: str, words: Sequence[str], root: Path, seconds: float, report: Callable[[str], None]
) -> str:
    """Run a program, unless an earlier call finished it; one that takes too long is stopped, to be run again."""
    record, started = folder / "steps" / f"{name.replace(' ', '_')}.json", time.monotonic()
    if record.exists() and (before := files.unsealed_json(record, name=name)["state"]) != "cut" and name != "results":
        report(f"{name}: {before} before")
        return before
    environment = os.environ | {"DPNOTES_CELLS": str(folder / "cells")}
    environment["PYTHONPATH"] = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    output = folder / f"{record.stem}.txt"
    with output.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, *words], cwd=root, env=environment, stdout=file, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            state = "failed" if process.wait(max(seconds, 0.001)) else "passed"
        except subprocess.TimeoutExpired:
            state = "cut"
            _signal(process, signal.SIGINT)  # a run then reports its finished cells
            time.sleep(min(_LAST, seconds) / 2)
        finally:
            if process.poll() is None or state == "cut":  # the process and its children
                _signal(process, None)
                process.wait()
    body = {"name": name, "state": state, "seconds": round(time.monotonic() - started, 3), "output": output.name}
    files.write({record: files.sealed_json(body | {"finished_at": now()})})
    report(f"{name}: {state} after {body['seconds']:.0f} s, {output}")
    return state


def _signal(process: subprocess.Popen[bytes], number: signal.Signals | None) -> None:
    """Send a signal to a process and its children, or kill them; on Windows, which has no groups, the process ends."""
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL if number is None else number)
        else:
            process.kill()
