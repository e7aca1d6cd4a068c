"""Kills -9 at random moments, of a run of an experiment and of a training; what is stored then is compared by bytes.

A job keeps what is finished as it goes. It is killed at a moment drawn between the first thing that it kept and its
end, begun again, and left alone; what it stores has to be what it stores without a kill, but for `LEFT_OUT`.
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
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.problems.datasets.dataset import Dataset
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams
from dpnotes.train.loop import Checkpoint, Evaluation, train

# Of a result's manifest: when and how long, and the digest of a manifest that says so.
LEFT_OUT = {"finished_at", "cell_seconds", "cell_seconds_each", "wall_seconds", "manifest_sha256"}
EXPERIMENT = "noisy_sgd.escape"
_LIMIT = 300.0  # seconds that a job may take: longer is a hang
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__])  # so that a job begins with what it imports


def run(folder: Path) -> None:
    """`dpnotes run` of a small experiment."""
    os.environ |= {"DPNOTES_CACHE": str(folder / "kept"), "DPNOTES_RESULTS": str(folder / "stored")}
    app(["run", EXPERIMENT, "--profile", "quick"], standalone_mode=False)


def training(folder: Path, num_steps: int = 80) -> None:
    """A training that is kept every second step; its end is stored."""
    points = Streams.of("kills", [0]).normal("points", 0, 400).view(100, 4).float()
    labels = (points[:, 0] + points[:, 1] > 0).long()
    data = Dataset("kills", points[:60], labels[:60], points[60:], labels[60:], 2, "none needed", "here")
    problem = ModuleProblem(torch.nn.Linear(4, 2), data.train_inputs, data.train_labels)
    streams, std = Streams.of("kills", ["a", "b"]), torch.full((2,), 0.02, dtype=torch.float64)
    oracle = MinibatchGradient(problem, Sampling.fixed_size(10, 60), std, 1.0, num_steps, clipped=True)
    kept = Checkpoint(folder / "kept" / "run.pt", 2, {"data": "kills"})
    end = train(oracle, problem.initial(streams), streams, Evaluation(data, every=50), step_size=0.3, checkpoint=kept)
    (folder / "stored").mkdir(exist_ok=True)
    meter = end.oracle_state.meter
    np.savez(
        folder / "stored" / "training.npz", x=end.x, curves=end.curves, spent=meter.spent, calls=meter.calls
    )  # fmt: skip


def careless(folder: Path) -> None:
    """The control: keeps something, and stores what no second start stores again."""
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
    """Whether something finished was kept."""
    return any(path.suffix in (".npz", ".cells", ".pt") for path in (folder / "kept").rglob("*"))


def has_stored(folder: Path) -> bool:
    """Whether a job has come to its end, but for leaving."""
    return any((folder / "stored").rglob("*.npz"))


def stored(folder: Path) -> dict[str, bytes]:
    """What a job stored, by name, without what is `LEFT_OUT`."""
    found = {}
    for path in sorted((folder / "stored").rglob("*")):
        content = path.read_bytes()
        if path.name.endswith(".manifest.json"):
            manifest = {name: value for name, value in json.loads(content).items() if name not in LEFT_OUT}
            content = json.dumps(manifest, sort_keys=True).encode()
        found[path.name] = content
    return found


def different(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """The names of what is not the same in both."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _until(process: multiprocessing.Process, ready: Callable[[Path], bool], folder: Path, seconds: float) -> float:
    """Wait until something is there, the process has ended, or time is up; how long that took."""
    begun = time.monotonic()
    while process.is_alive() and not ready(folder) and time.monotonic() - begun < seconds:
        time.sleep(0.001)
    return time.monotonic() - begun


def finish(job: Callable[[Path], None], folder: Path) -> float:
    """Let a job come to its end; how long it took from the first thing that it kept to what it stored.

    Raises:
      RuntimeError: if it fails, or hangs.
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
    """Kill a job so long after the first thing that it kept; False if it had stored its end by then."""
    process = _start(job, folder)
    _until(process, has_kept, folder, _LIMIT)
    _until(process, has_stored, folder, wait)
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL and not has_stored(folder)


@dataclass(frozen=True)
class Kills:
    """What came of the kills of one job: how many, how many came too late and were not counted, what differed."""

    job: str
    kills: int
    too_late: int
    different: tuple[str, ...]


def attack(name: str, number: int, seed: int = 0, job: Callable[[Path], None] | None = None) -> Kills:
    """Kill a job so many times, each time a new one, and let it come to its end."""
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
