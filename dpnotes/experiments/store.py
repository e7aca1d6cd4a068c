"""Where results are kept: one columnar file and its manifest an experiment and profile, and cells in a cache.

A table is a pair of files, `NAME.npz` (columns, no pickles, same bytes for same columns) and `NAME.manifest.json`
(what they are and how they came about, with the sha256 of both; `dpnotes.files`). Results stand in `notebooks/results`
of the repository, or of the wheel that carries them (or in `$DPNOTES_RESULTS`), cells in the user's cache (or
`$DPNOTES_CACHE`).
"""

import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import dpnotes
from dpnotes import files
from dpnotes.experiments.cells import Table
from dpnotes.experiments.chunks import format_bytes
from dpnotes.experiments.functions import Place
from dpnotes.experiments.sources import Fingerprint
from dpnotes.experiments.spec import Columns, Decision, Experiment, Spec, canonical_json
from dpnotes.files import DamagedFileError

if TYPE_CHECKING:
    import pandas as pd

MAX_RESULT_BYTES = 10**6
_KINDS = {"b": "bool", "i": "number", "u": "number", "f": "number", "U": "text"}


# ---------------------------------------------------------------- folders
def notebooks_folder() -> Path:
    """Where the notebooks stand: inside the package where a wheel carries them, beside it in the repository.

    Raises:
      FileNotFoundError: in neither place.
    """
    package = Path(dpnotes.__file__).parent
    carried, repository = package / "carried" / "notebooks", package.parent / "notebooks"
    folder = carried if carried.is_dir() else repository
    if not folder.is_dir():
        raise FileNotFoundError(f"Expected {repository}: set DPNOTES_RESULTS to the folder of the results.")
    return folder


def results_folder() -> Path:
    """Where results stand: `$DPNOTES_RESULTS`, or `results` among the notebooks."""
    chosen = os.environ.get("DPNOTES_RESULTS")
    return Path(chosen) if chosen else notebooks_folder() / "results"


def cache_folder() -> Path:
    """Where finished cells wait for the rest: `$DPNOTES_CELLS`, or a folder of `$DPNOTES_CACHE` or the user's cache."""
    import pooch

    if own := os.environ.get("DPNOTES_CELLS"):
        return Path(own)
    chosen = os.environ.get("DPNOTES_CACHE")
    return (Path(chosen) if chosen else pooch.os_cache("dpnotes")) / "cells"


def check_folders() -> None:
    """Make the folders of results and cells, and a file in either that goes at once: a run keeps nothing otherwise.

    Raises:
      ValueError: where that fails, naming the environment variable that chooses another folder.
    """
    of_cells = "DPNOTES_CELLS" if os.environ.get("DPNOTES_CELLS") else "DPNOTES_CACHE"
    for variable, folder in (("DPNOTES_RESULTS", results_folder()), (of_cells, cache_folder())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            named = f"{variable}={os.environ.get(variable)!r}"
            why = f"{folder}: {error.strerror}"
            raise ValueError(f"Expected {named} to name a folder that can be written into ({why}).") from error


def cells_folder(spec: Spec, key: str) -> Path:
    """Where the cells of one result wait."""
    return cache_folder() / f"{spec.paper}.{spec.experiment}.{spec.profile}" / key[:16]


def result_stem(spec: Spec) -> Path:
    """Where a result stands."""
    return results_folder() / f"{spec.paper}.{spec.experiment}.{spec.profile}"


# ---------------------------------------------------------------- tables
def as_columns(columns: Columns) -> dict[str, np.ndarray]:
    """Arrays of equal length from what a cell returned; a scalar is repeated.

    Raises:
      ValueError: columns of different lengths or of more than one axis, or none at all.
      TypeError: a column of anything but bool, int, float or str.

    >>> as_columns({"loss": [0.5, 0.25], "schedule": "uniform"})
    {'loss': array([0.5 , 0.25]), 'schedule': array(['uniform', 'uniform'], dtype='<U7')}
    """
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    for name, array in arrays.items():
        if not name.isidentifier() or name in ("file", "allow_pickle"):
            raise ValueError(f"Expected column name {name!r} to be an identifier (and not 'file' or 'allow_pickle').")
        if array.dtype.kind not in _KINDS:
            raise TypeError(f"Expected column {name!r} to hold bool, int, float or str, got {array.dtype}.")
        if array.ndim > 1:
            raise ValueError(f"Expected column {name!r} to have one axis, got shape {array.shape}.")
    lengths = {name: len(array) for name, array in arrays.items() if array.ndim}
    if not arrays or len(set(lengths.values())) > 1:
        raise ValueError(f"Expected columns of equal length, got {lengths}.")
    length = next(iter(lengths.values()), 1)
    return {name: array if array.ndim else np.full(length, array) for name, array in arrays.items()}


def concatenate(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The rows of all parts below each other; every part has the same columns, of the same kind.

    >>> concatenate([{"loss": np.array([1.0])}, {"loss": np.array([2.0])}])
    {'loss': array([1., 2.])}
    >>> concatenate([{"loss": np.array([1.0])}, {"accuracy": np.array([2.0])}])
    Traceback (most recent call last):
    ValueError: Expected every cell to return the columns accuracy; got loss.
    """
    if not parts:
        return {}
    names = list(parts[-1])
    for part in parts:
        if set(part) != set(names):
            raise ValueError(f"Expected every cell to return the columns {', '.join(names)}; got {', '.join(part)}.")
    for name in names:
        kinds = {_KINDS[part[name].dtype.kind] for part in parts}
        if len(kinds) > 1:
            raise ValueError(
                f"Expected column {name!r} to be of one kind in all cells, got {', '.join(sorted(kinds))}."
            )
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def frame_of(columns: Mapping[str, np.ndarray]) -> "pd.DataFrame":
    """The columns as a pandas frame."""
    import pandas as pd

    return pd.DataFrame(dict(columns))


def write_table(
    stem: Path, columns: Mapping[str, np.ndarray], manifest: dict[str, Any], max_bytes: int | None = None
) -> None:
    """Write both files of a table, or neither.

    Raises:
      ValueError: more than `max_bytes`.
      OSError: with the path; a full disk among them.
    """
    content = _compressed(columns)
    if max_bytes is not None and len(content) > max_bytes:
        raise ValueError(
            f"Expected {_npz(stem).name} of {format_bytes(len(content))} <= {format_bytes(max_bytes)}: "
            "let the cells return summaries instead of every number."
        )
    body = json.loads(canonical_json(manifest, "manifest")) | {"sha256": hashlib.sha256(content).hexdigest()}
    files.write({_npz(stem): content, _json(stem): files.sealed_json(body)})


def size_of(columns: Mapping[str, np.ndarray]) -> int:
    """Bytes of the columns' file."""
    return len(_compressed(columns))


def _compressed(columns: Mapping[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **columns)  # type: ignore[arg-type]
    return buffer.getvalue()


def write_manifest(stem: Path, manifest: dict[str, Any]) -> None:
    """Write another manifest beside the columns of a table, which stay as they are."""
    files.write({_json(stem): files.sealed_json(json.loads(canonical_json(manifest, "manifest")))})


def read_table(stem: Path, **about: Any) -> Table | None:
    """The table, or None where there is none.

    Args:
      stem: both paths, up to the suffix.
      about: entries that its manifest must have, by which it is known to be the one that belongs here.

    Raises:
      DamagedFileError: a file is missing, changed, cut short or that of another table.
    """
    if not _npz(stem).exists() and not _json(stem).exists():
        return None
    for path in (_npz(stem), _json(stem)):
        if not path.exists():
            raise DamagedFileError(f"Expected {path} beside its other half, found nothing.")
    manifest = files.unsealed_json(_json(stem), **about)
    content = _npz(stem).read_bytes()
    if hashlib.sha256(content).hexdigest() != manifest.get("sha256"):
        raise DamagedFileError(
            f"Expected {_npz(stem)} to match the sha256 in its manifest; it was changed or cut short."
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return Table({name: stored[name] for name in stored.files}, manifest)


def _npz(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}.npz")


def _json(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}.manifest.json")


def listed(places: Iterable[Place]) -> dict[str, str]:
    """Functions as a manifest has them: the names of a module in one line.

    >>> listed({("toys.helper", "scaled"), ("toys.helper", "Scale.of")})
    {'toys.helper': 'Scale.of scaled'}
    """
    lines: dict[str, str] = {}
    for module, name in sorted(places):
        lines[module] = f"{lines.get(module, '')} {name}".lstrip()
    return lines


def unlisted(lines: Mapping[str, str]) -> set[Place]:
    """What was `listed`."""
    return {(module, name) for module, names in lines.items() for name in names.split()}


def up_to(rounding: float) -> str:
    """Words that follow "the same numbers": none where they are the same to the bit."""
    return f" up to {rounding:g} of themselves" if rounding else ""


# ---------------------------------------------------------------- results
@dataclass(frozen=True, eq=False)
class Result:
    """A stored result, checked against the spec, code and data as they are now.

    Args:
      experiment: what it is a result of.
      spec: the spec as it is now.
      frame: the rows of all cells; empty when the result is missing.
      manifest: how it came about; empty when the result is missing.
      state: "current", "stale" (spec, code or data changed since) or "missing".
      changes: of a stale result, what changed, by kind: "spec", "code", "data", "format". `dpnotes verify` can make one
        current of which only the code changed.
      decision: by the rule in the spec; "not run" or "stale" unless the result is current.
    """

    experiment: Experiment
    spec: Spec
    frame: "pd.DataFrame"
    manifest: dict[str, Any]
    state: Literal["current", "stale", "missing"]
    changes: dict[str, str]
    decision: Decision

    @property
    def reason(self) -> str:
        """Why it is not current; empty when it is."""
        if self.state == "missing":
            return f"no result stored; compute it: {command(self.spec)}"
        return "; ".join(f"{kind} changed: {what}" for kind, what in self.changes.items())

    @property
    def pedigree(self) -> str:
        """By which code it is current: the one that it was run with, or another that gives the same numbers."""
        if self.state != "current":
            return ""
        verified, kept = self.manifest.get("verified"), self.manifest.get("kept")
        if not verified or not verified["cells"]:
            if not kept:
                return "run with this code"
            same = f"the same numbers{up_to(kept['rounding'])}"
            return f"run with this code, but for {kept['cells']} cells of code that gave {same}"
        cells, commit = len(verified["cells"]), (verified["git_commit"] or "an unknown commit")[:12]
        dirty = " with uncommitted changes" if verified["git_dirty"] else ""
        same = f"the same numbers{up_to(verified['rounding'])}"
        return f"verified at {commit}{dirty}: {cells} of {self.manifest['cells']} cells run again, {same}"

    @property
    def chances(self) -> str:
        """How often its rule is right, in simulations, and whether that was known before the run; empty if unknown."""
        chances = self.spec.chances
        if chances is None:
            return ""
        before = self.state == "missing" or self.manifest.get("chances") is not None
        return f"{chances}{'' if before else '; simulated after the run'}"

    @property
    def stale(self) -> bool:
        """Whether spec, code or data changed since."""
        return self.state == "stale"

    @property
    def unaccounted(self) -> tuple[str, ...]:
        """What depends on private data without being paid for; belongs on the figure."""
        return self.experiment.unaccounted


def command(spec: Spec) -> str:
    """The command that computes a result."""
    return f"dpnotes run {spec.paper}.{spec.experiment} --profile {spec.profile}"


def load(experiment: Experiment, profile: str) -> Result:
    """The stored result of an experiment; a missing or stale one says so in its `state`.

    Raises:
      ValueError: no such profile.
      DamagedFileError: a stored file is not what was written; the message says what to do.
    """
    spec = experiment.spec(profile)
    try:
        table = read_table(result_stem(spec), experiment=experiment.id)
    except DamagedFileError as error:
        raise DamagedFileError(
            f"{error} Restore it (git checkout -- {_npz(result_stem(spec))} {_json(result_stem(spec))}) "
            f"or compute it again: {command(spec)}"
        ) from error
    if table is None:
        return Result(experiment, spec, frame_of({}), {}, "missing", {}, Decision("not run", command(spec)))
    frame, manifest = frame_of(table.columns), table.manifest
    changes = Fingerprint.of(experiment, profile).changes(manifest)
    if changes:
        decision = Decision("stale", f"{' and '.join(changes)} changed")
        return Result(experiment, spec, frame, manifest, "stale", changes, decision)
    return Result(experiment, spec, frame, manifest, "current", {}, Decision(**manifest["decision"]))


def stamp(result: Result) -> str | None:
    """What a figure of this result has to say across it: None for a current one."""
    if result.state == "missing":
        return f"MISSING: {command(result.spec)}"
    if result.state == "stale":
        return f"STALE: {' and '.join(result.changes)} changed"
    return None


def outstanding(experiments: Iterable[Experiment]) -> str:
    """The text of results/OUTSTANDING.md: results of hours and of papers that are missing, stale or damaged, and why.

    Same state, same text. A result on two cores does not stand for the paper's: both are listed.
    """
    lines = []
    for experiment in sorted(experiments, key=lambda experiment: experiment.id):
        for profile in [name for name in ("cpu", "paper") if name in experiment.specs]:
            why: object = experiment.wants.get(profile)
            way = command(experiment.specs[profile])
            try:
                result = load(experiment, profile)
                state = "missing" if result.state == "missing" else (stamp(result) or "").lower()
                if {*result.changes} == {"code"}:
                    why, way = "code that changed: cells have to be run again", way.replace("run", "verify", 1)
                elif why is None and (seconds := result.manifest.get("cell_seconds")):
                    why = f"hours: {seconds / 3600:.2g} on one core (as the result that is stale took)"
            except DamagedFileError:
                state = "damaged"
            if state:
                row = (experiment.id, profile, experiment.title, state, str(why or "no reason is stated"), f"`{way}`")
                lines.append(f"| {' | '.join(row)} |")
    head = "# Paper results that are outstanding\n\nGenerated by `dpnotes status --write`; do not edit.\n\n"
    if not lines:
        return f"{head}None.\n"
    table = [
        "| experiment | profile | title | state | why, and what it would take | command |",
        "|---|---|---|---|---|---|",
    ]
    return f"{head}{chr(10).join([*table, *lines])}\n"


def clean(experiment: Experiment | None = None, profile: str | None = None) -> int:
    """Remove cached cells: of one experiment (and profile), or all of them. Results are never touched.

    Returns:
      The number of bytes that were freed.
    """
    if profile is not None and experiment is not None:
        experiment.spec(profile)
    pattern = "*" if experiment is None else f"{experiment.id}.{profile or '*'}"
    freed = 0
    for folder in cache_folder().glob(pattern):
        freed += sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        shutil.rmtree(folder)
    return freed
