"""The origin of numbers: the commit, a hash of the source, and the machine."""

import hashlib
import importlib.util
import platform
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dpnotes

if TYPE_CHECKING:
    from dpnotes.experiments.spec import Experiment

_PACKAGES = ("torch", "numpy", "scipy", "dp-accounting", "pandas", "joblib")
# With these torch, oneDNN (convolutions), numpy and OpenBLAS (matrix products) use AVX2 on a newer processor.
_AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR", "OPENBLAS_CORETYPE": "Zen",
}  # fmt: skip


def now() -> str:
    """The time, for a record."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def output(*command: str) -> str | None:
    """The text that a program prints, or None where the program is missing or fails."""
    try:
        return subprocess.run(command, capture_output=True, check=True, timeout=20).stdout.decode()
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None


def git(*arguments: str, folder: Path | None = None) -> str | None:
    """The text that git prints in a folder (default: the package's), or None where git or the answer is missing."""
    return output("git", "-C", str(folder or Path(dpnotes.__file__).parent), *arguments)


def code_of(experiment: "Experiment") -> dict[str, Any]:
    """The code that computes now: commit of the experiment's repository, else of this package's, and a source hash.

    Ask before the work: what the folder holds when the work is done may be another commit.
    """
    spec = importlib.util.find_spec(experiment.run_cell.__module__.partition(".")[0])
    folders = [Path(path).parent for path in (spec and spec.origin, dpnotes.__file__) if path]
    commits = ((folder, head.strip()) for folder in folders if (head := git("rev-parse", "HEAD", folder=folder)))
    folder, commit = next(commits, (folders[-1], None))
    dirty = bool(git("status", "--porcelain", "--", ".", folder=folder)) if commit else None
    return {"git_commit": commit, "git_dirty": dirty, "source": source_hash()}


def commit_in_words(record: Mapping[str, Any]) -> str:
    """The commit of a record, and whether there were uncommitted changes.

    >>> commit_in_words({"git_commit": "0123456789abcdef", "git_dirty": True})
    '0123456789ab, with uncommitted changes'
    """
    commit = (record["git_commit"] or "")[:12] or "an unknown commit"
    return f"{commit}, with uncommitted changes" if record["git_dirty"] else commit


def commits_since(commit: str | None) -> int | None:
    """The number of commits since one; None where git does not know it."""
    counted = git("rev-list", "--count", f"{commit}..HEAD", "--") if commit else None
    return int(counted) if counted else None


@cache
def source_hash() -> str:
    """One hash of all source of this package: it says that some code changed, not that it matters."""
    folder, digest = Path(dpnotes.__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()


@cache
def environment(device: str) -> dict[str, Any]:
    """The environment that numbers may depend on beside the code: versions, device, driver, threads."""
    import torch

    versions = {"python": platform.python_version(), "dpnotes": dpnotes.__version__}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    name, driver = _processor(), ""
    if device == "cuda":
        name = torch.cuda.get_device_name()
        query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        driver = (output(*query) or "").partition("\n")[0]
    return {"device": device, "name": name, "driver": driver, "threads": torch.get_num_threads(), "versions": versions}


def _processor() -> str:
    """The processor's name, and its instructions as torch sees them: one name may stand for several."""
    import torch

    name, instructions = platform.processor() or platform.machine(), torch.backends.cpu.get_cpu_capability()
    if sys.platform == "linux":
        lines = (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
        facts = {key.strip(): value.strip() for key, _, value in lines}
        if "model name" in facts:
            name = f"{facts['model name']} (family {facts.get('cpu family')}, model {facts.get('model')})"
    return f"{name}, {instructions}"


def same_machine(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two environments compute the same bits: equal device, threads and versions (of other packages)."""
    bare = [{**each, "versions": {**each["versions"], "dpnotes": ""}, "count": 0} for each in (one, other)]
    return bare[0] == bare[1]


def variables_for(environment: Mapping[str, Any], name: str) -> dict[str, str]:
    """Environment variables of a process that repeats the instructions and threads of an environment.

    Args:
      environment: of a stored result.
      name: of the processor that is here.

    >>> variables_for({"device": "cpu", "name": "EPYC, AVX2", "threads": 1}, "EPYC, AVX2")
    {'OMP_NUM_THREADS': '1'}
    >>> len(variables_for({"device": "cpu", "name": "EPYC, AVX2", "threads": 1}, "Xeon, AVX512"))
    5
    """
    newer = name.endswith(", AVX512") and environment["name"].endswith(", AVX2")
    return {"OMP_NUM_THREADS": str(environment["threads"]), **(_AVX2 if newer else {})}
