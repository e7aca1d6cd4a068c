"""kill -9 at random moments, of an experiment's run and of a training; the stored files are then compared by bytes.

A job stores finished parts as it goes. It is killed at a random moment between its first stored part and its end,
started again, and left to finish. Its stored files must equal those of a job that was not killed, except for
`LEFT_OUT`.
"""

import json
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from dpnotes.cli.main import app
from dpnotes.core import Sampling
from dpnotes.methods.descent import Descent
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.problems.datasets.dataset import Dataset
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams
from dpnotes.train.loop import Checkpoint, Evaluation, train

# Entries of a result's manifest that depend on the clock: times, durations, and the digest of a manifest.
LEFT_OUT = {"finished_at", "cell_seconds", "cell_seconds_each", "wall_seconds", "manifest_sha256"}
EXPERIMENT = "noisy_sgd.escape"
_LIMIT = 300.0  # seconds for a job; a longer job counts as hanging
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__])  # a job then starts with its imports done


def run(folder: Path) -> None:
    """Run `dpnotes run` of a small experiment."""
    os.environ |= {"DPNOTES_CACHE": str(folder / "kept"), "DPNOTES_RESULTS": str(folder / "stored")}
    app(["run", EXPERIMENT, "--profile", "quick"], standalone_mode=False)


def training(folder: Path, num_steps: int = 80) -> None:
    """Run a training that stores a checkpoint every second step, and its result at the end."""
    points = Streams.of("kills", [0]).normal("points", 0, 400).view(100, 4).float()
    labels = (points[:, 0] + points[:, 1] > 0).long()
    data = Dataset("kills", points[:60], labels[:60], points[60:], labels[60:], 2, "none needed", "here")
    problem = ModuleProblem(torch.nn.Linear(4, 2), data.train_inputs, data.train_labels)
    streams, std = Streams.of("kills", ["a", "b"]), torch.full((2,), 0.02, dtype=torch.float64)
    oracle = MinibatchGradient(problem, Sampling.fixed_size(10, 60), std, 1.0, num_steps, clipped=True)
    kept = Checkpoint(folder / "kept" / "run.pt", 2, {"data": "kills"})
    end = train(
        oracle, problem.initial(streams), streams, Evaluation(data, every=50), method=Descent(0.3), checkpoint=kept
    )
    (folder / "stored").mkdir(exist_ok=True)
    meter = end.oracle_state.meter
    np.savez(
        folder / "stored" / "training.npz", x=end.x, curves=end.curves, spent=meter.spent, calls=meter.calls
    )  # fmt: skip


def careless(folder: Path) -> None:
    """The control: a job whose second start stores other bytes than the first."""
    for name in ("kept", "stored"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "kept" / "a.npz").write_bytes(b"")
    time.sleep(0.3)
    (folder / "stored" / "a.npz").write_bytes(os.urandom(8))


JOBS: dict[str, Callable[[Path], None]] = {"run": run, "training": training}


def _silently(job: Callable[[Path], None], folder: Path) -> None:
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    torch.set_num_threads(1)
    job(folder)


def _start(job: Callable[[Path], None], folder: Path) -> multiprocessing.Process:
    process = _PROCESSES.Process(target=_silently, args=(job, folder))
    process.start()
    return process  # type: ignore[return-value]


def has_kept(folder: Path) -> bool:
    """Return whether a finished part was stored."""
    return any(path.suffix in (".npz", ".cells", ".pt") for path in (folder / "kept").rglob("*"))


def has_stored(folder: Path) -> bool:
    """Return whether a job has stored its result; it may not have exited yet."""
    return any((folder / "stored").rglob("*.npz"))


def stored(folder: Path) -> dict[str, bytes]:
    """Return the stored files by name, without the manifest entries in `LEFT_OUT`."""
    found = {}
    for path in sorted((folder / "stored").rglob("*")):
        content = path.read_bytes()
        if path.name.endswith(".manifest.json"):
            manifest = {name: value for name, value in json.loads(content).items() if name not in LEFT_OUT}
            content = json.dumps(manifest, sort_keys=True).encode()
        found[path.name] = content
    return found


def different(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """Return the names of the files that differ."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _until(process: multiprocessing.Process, ready: Callable[[Path], bool], folder: Path, seconds: float) -> float:
    """Wait until a condition holds, the process ends, or the time is up; return the seconds waited."""
    begun = time.monotonic()
    while process.is_alive() and not ready(folder) and time.monotonic() - begun < seconds:
        time.sleep(0.001)
    return time.monotonic() - begun


def finish(job: Callable[[Path], None], folder: Path) -> float:
    """Let a job finish; return the seconds from its first stored part to its stored result.

    Raises:
      RuntimeError: the job failed or hung.
    """
    process = _start(job, folder)
    _until(process, has_kept, folder, _LIMIT)
    seconds = _until(process, has_stored, folder, _LIMIT)
    process.join(_LIMIT)
    if process.exitcode != 0:
        process.kill()
        raise RuntimeError(f"{job.__name__} ended with {process.exitcode}; None: it hangs")
    return seconds


def kill(job: Callable[[Path], None], folder: Path, wait: float) -> bool:
    """Kill a job `wait` seconds after its first stored part; return False if it had stored its result by then."""
    process = _start(job, folder)
    _until(process, has_kept, folder, _LIMIT)
    _until(process, has_stored, folder, wait)
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL and not has_stored(folder)


@dataclass(frozen=True)
class Kills:
    """The result of killing one job repeatedly: kills, kills after the end (not counted), and differences."""

    job: str
    kills: int
    too_late: int
    different: tuple[str, ...]


def attack(name: str, number: int, seed: int = 0, job: Callable[[Path], None] | None = None) -> Kills:
    """Kill `number` newly started jobs at random moments, and let each finish after a restart."""
    job, moments, killed, too_late, found = job or JOBS[name], random.Random(f"{name} {seed}"), 0, 0, list[str]()
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place, "whole")
        lasts = finish(job, whole)
        expected = stored(whole)
        while killed < number and too_late < 3 * number:
            folder = Path(place, f"{killed}-{too_late}")
            if not kill(job, folder, moments.uniform(0, lasts)):
                too_late += 1
                continue
            killed += 1
            finish(job, folder)
            found += [f"kill {killed}: {what}" for what in different(expected, stored(folder))]
    return Kills(name, killed, too_late, tuple(found))
