"""The store of results: one columnar file and its manifest an experiment and profile, and cells in a cache.

A table is a pair of files, `NAME.npz` (columns, no pickles, same bytes for same columns) and `NAME.manifest.json`
(what they are and how they came about, with the sha256 of both; `dpnotes.util.files`). Results stand in
`notebooks/results` of the repository, or of the wheel that carries them (or in `$DPNOTES_RESULTS`), cells in the user's
cache (or `$DPNOTES_CACHE`).
"""

import hashlib
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

import dpnotes
from dpnotes.experiments.chunks import format_bytes
from dpnotes.experiments.provenance import commit_in_words, commits_since, now, source_hash
from dpnotes.experiments.records import Table
from dpnotes.experiments.spec import Columns, Decision, Experiment, Spec, canonical_json
from dpnotes.util import files
from dpnotes.util.files import DamagedFileError

if TYPE_CHECKING:
    import pandas as pd

MAX_RESULT_BYTES = 10**6
FORMAT = 3  # of a manifest
_KINDS = {"b": "bool", "i": "number", "u": "number", "f": "number", "U": "text"}


# ---------------------------------------------------------------- folders
def notebooks_folder() -> Path:
    """The folder of the notebooks: inside the package where a wheel carries them, beside it in the repository.

    Raises:
      FileNotFoundError: in neither place.
    """
    package = Path(dpnotes.__file__).parent
    carried, repository = package / "carried" / "notebooks", package.parent / "notebooks"
    folder = carried if carried.is_dir() else repository
    if not folder.is_dir():
        raise FileNotFoundError(f"Expected {repository}: set DPNOTES_RESULTS to the folder of the results.")
    return folder


def results_folder(experiment: Experiment | None = None) -> Path:
    """The folder of results: `$DPNOTES_RESULTS`, or `results` among the notebooks; of another project in its own ones.

    Args:
      experiment: whose results; None for those of dpnotes.
    """
    chosen = os.environ.get("DPNOTES_RESULTS")
    project = _project(experiment) if experiment and not chosen else None
    return Path(chosen) if chosen else (project / "notebooks" if project else notebooks_folder()) / "results"


def _project(experiment: Experiment) -> Path | None:
    """The folder with the pyproject.toml above the code of an experiment outside of dpnotes."""
    module = experiment.run_cell.__module__
    path = getattr(sys.modules.get(module), "__file__", None)
    if path is None or module.partition(".")[0] == dpnotes.__name__:
        return None
    return next((folder for folder in Path(path).parents if (folder / "pyproject.toml").exists()), None)


def cache_folder() -> Path:
    """The folder where finished cells wait: `$DPNOTES_CELLS`, or a folder of `$DPNOTES_CACHE` or the user's cache."""
    return files.cache_folder("DPNOTES_CELLS", "cells")


def check_folders(experiment: Experiment | None = None) -> None:
    """Make the folders of results and cells, and a file in either that goes at once: a run keeps nothing otherwise.

    Raises:
      ValueError: where that fails, naming the environment variable that chooses another folder.
    """
    of_cells = "DPNOTES_CELLS" if os.environ.get("DPNOTES_CELLS") else "DPNOTES_CACHE"
    for variable, folder in (("DPNOTES_RESULTS", results_folder(experiment)), (of_cells, cache_folder())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            named = f"{variable}={os.environ.get(variable)!r}"
            why = f"{folder}: {error.strerror}"
            raise ValueError(f"Expected {named} to name a folder that can be written into ({why}).") from error


def cells_folder(experiment: Experiment, profile: str) -> Path:
    """The folder where the cells of one result wait."""
    return cache_folder() / f"{experiment.id}.{profile}" / experiment.identity(profile)[:16]


def result_stem(experiment: Experiment, profile: str) -> Path:
    """The path of a result, up to the suffix."""
    return results_folder(experiment) / f"{experiment.id}.{profile}"


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
        kinds = sorted({_KINDS[part[name].dtype.kind] for part in parts})
        if len(kinds) > 1:
            raise ValueError(f"Expected column {name!r} to be of one kind in all cells, got {', '.join(kinds)}.")
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def frame_of(columns: Mapping[str, np.ndarray]) -> "pd.DataFrame":
    """The columns as a pandas frame."""
    import pandas as pd

    return pd.DataFrame(dict(columns))


def write_table(stem: Path, columns: Mapping[str, np.ndarray], manifest: dict[str, Any]) -> None:
    """Write both files of a table, or neither.

    Raises:
      ValueError: more than 1 MB.
      OSError: with the path; a full disk among them.
    """
    content = compressed(stem.name, columns)
    body = json.loads(canonical_json(manifest, "manifest")) | {"sha256": hashlib.sha256(content).hexdigest()}
    files.write({_npz(stem): content, _json(stem): files.sealed_json(body)})


def compressed(name: str, columns: Mapping[str, np.ndarray]) -> bytes:
    """The content of the columns' file.

    Raises:
      ValueError: more than 1 MB.
    """
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **columns)  # type: ignore[arg-type]
    if (size := buffer.tell()) > MAX_RESULT_BYTES:
        raise ValueError(
            f"Expected {name}.npz of {format_bytes(size)} <= {format_bytes(MAX_RESULT_BYTES)}: let the cells return "
            "summaries instead of every number."
        )
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
    if len(lost := [path for path in (_npz(stem), _json(stem)) if not path.exists()]) == 2:
        return None
    if lost:
        raise DamagedFileError(f"Expected {lost[0]} beside its other half, found nothing.")
    manifest = files.unsealed_json(_json(stem), **about)
    content = _npz(stem).read_bytes()
    if hashlib.sha256(content).hexdigest() != manifest.get("sha256"):
        raise DamagedFileError(f"Expected {_npz(stem)} to match its manifest's sha256; it was changed or cut short.")
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return Table({name: stored[name] for name in stored.files}, manifest)


def _npz(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}.npz")


def _json(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}.manifest.json")


# ---------------------------------------------------------------- results
class Pending(NamedTuple):
    """A row of results/PENDING.md: a result whose numbers were changed on purpose and that is to be run again."""

    changed_by: str
    why: str
    takes: str


_PENDING = ["result", "changed by", "why", "what it takes"]


def pending() -> dict[tuple[str, str], Pending]:
    """The results that are disputed, by experiment and profile.

    Raises:
      ValueError: a row that is not `| paper.experiment profile | changed by | why | what it takes |`.
    """
    path = results_folder() / "PENDING.md"
    lines = path.read_text().splitlines() if path.exists() else []
    found = {}
    for row in map(_cells_of_a_row, lines):
        if row in ([], _PENDING) or set("".join(row)) <= {"-"}:
            continue
        names = row[0].split()
        if len(row) != len(_PENDING) or len(names) != 2 or not all(row):
            raise ValueError(f"Expected {row} in {path} to be: paper.experiment profile, {', '.join(_PENDING[1:])}.")
        found[names[0], names[1]] = Pending(*row[1:])
    return found


def _cells_of_a_row(line: str) -> list[str]:
    """The cells of a row of a table in markdown, in single spaces; none of another line."""
    row = line.strip()
    return [" ".join(cell.split()) for cell in row.strip("|").split("|")] if row.startswith("|") else []


def settle(experiment: Experiment, profile: str) -> None:
    """Remove the row of a result that was run again from PENDING.md."""
    path = results_folder() / "PENDING.md"
    if (experiment.id, profile) in pending():
        lines = path.read_text().splitlines(keepends=True)
        kept = [line for line in lines if _cells_of_a_row(line)[:1] != [f"{experiment.id} {profile}"]]
        files.write({path: "".join(kept).encode()})


@dataclass(frozen=True, eq=False)
class Result:
    """A stored result, compared with the experiment as it is now.

    Args:
      experiment: what it is a result of.
      spec: the spec as it is now.
      frame: the rows of all cells; empty unless the result matches.
      manifest: how it came about; empty when the result is missing.
      state: "stored" (its parameters and data are today's), "disputed" (the same, but its numbers are to change, as
        PENDING.md says), "mismatched" (other parameters or data: not shown) or "missing".
      reason: why it is not "stored".
      decision: by the rule in the spec; "not run" where the result is not shown.
    """

    experiment: Experiment
    spec: Spec
    frame: "pd.DataFrame"
    manifest: dict[str, Any]
    state: Literal["stored", "disputed", "mismatched", "missing"]
    reason: str
    decision: Decision

    @property
    def computed(self) -> str:
        """The commits at which it was computed, in words."""
        codes = self.manifest.get("codes") or ([self.manifest] if self.manifest else [])
        return f"computed at {', '.join(dict.fromkeys(map(commit_in_words, codes)))}" if codes else ""

    @property
    def agreed(self) -> str:
        """The commit at which sampled cells last gave the same numbers, and whether code changed since."""
        records = self.manifest.get("agreed", [])
        if not records:
            changed = "" if self.manifest.get("source") == source_hash() else ", code changed since"
            return f"never run again{changed}"
        last = records[-1]
        changed = "the code is the same" if last.get("source") == source_hash() else "code changed since"
        within = f", to within {last['largest']:.1g} of a number" if last["largest"] else ""
        cells = f"{len(last['cells'])} of {self.manifest['cells']} cells"
        return f"last agreed at {commit_in_words(last)}: {cells}{within}; {changed}"

    @property
    def unverified(self) -> int | None:
        """The number of commits since sampled cells last agreed, or since the run; None if git does not know."""
        return commits_since([self.manifest, *self.manifest.get("agreed", [])][-1]["git_commit"])

    @property
    def chances(self) -> str:
        """The simulated chances of the rule, and whether they were known before the run; empty if unknown."""
        chances = self.spec.chances
        if chances is None:
            return ""
        before = self.state == "missing" or self.manifest.get("chances") is not None
        return f"{chances}{'' if before else '; simulated after the run'}"

    @property
    def is_shown(self) -> bool:
        """Return whether rows and decision may be shown."""
        return self.state in ("stored", "disputed")


def command(experiment: Experiment, profile: str) -> str:
    """The command that computes a result."""
    return f"dpnotes run {experiment.id} --profile {profile}"


def load(experiment: Experiment, profile: str) -> Result:
    """The stored result of an experiment; its `state` says whether it may be shown.

    Raises:
      ValueError: no such profile.
      DamagedFileError: a stored file is not what was written; the message says what to do.
    """
    spec, stem, how = experiment.spec(profile), result_stem(experiment, profile), command(experiment, profile)
    try:
        table = read_table(stem, experiment=experiment.id)
    except DamagedFileError as error:
        restore = f"git checkout -- {_npz(stem)} {_json(stem)}"
        raise DamagedFileError(f"{error} Restore it ({restore}) or compute it again: {how}") from error
    empty, not_run = frame_of({}), Decision("not run", how)
    if table is None:
        return Result(experiment, spec, empty, {}, "missing", f"no result stored; compute it: {how}", not_run)
    manifest = table.manifest
    if manifest["format"] < FORMAT or experiment.identity(profile, manifest) != experiment.identity(profile):
        old = "stored by an earlier version of dpnotes" if manifest["format"] < FORMAT else ""
        reason = f"{old or differences(experiment, manifest)}; compute it again: {how}"
        return Result(experiment, spec, empty, manifest, "mismatched", reason, not_run)
    state, reason = "stored", ""
    if row := pending().get((experiment.id, profile)):
        state, reason = "disputed", f"numbers to be changed by {row.changed_by} ({row.why}); run it again: {row.takes}"
    return Result(experiment, spec, frame_of(table.columns), manifest, state, reason, Decision(**manifest["decision"]))


def differences(experiment: Experiment, record: Mapping[str, Any]) -> str:
    """In which parameters and data a manifest, or a header of cells, is not today's experiment."""
    then = {**experiment.without_rule(record["spec"]["parameters"]), "data": list(record["data"])}
    today = {**experiment.computing(record["profile"]).parameters, "data": list(experiment.data)}
    absent = object()
    names = sorted(name for name in {*then, *today} if then.get(name, absent) != today.get(name, absent))
    return f"of other parameters or data: {', '.join(names)}" if names else ""


def decide_again(experiment: Experiment, profile: str) -> str:
    """Put today's decision on record, with the version of its rule; the one before stays in the manifest.

    Returns:
      What changed, in words; empty if nothing did, or if the result is not shown.
    """
    result = load(experiment, profile)
    if not result.is_shown:
        return ""
    decision, rule = experiment.decide(result.frame, result.spec), experiment.rule_record(profile)
    before = {name: result.manifest[name] for name in ("decision", "rule")}
    if before == {"decision": asdict(decision), "rule": rule}:
        return ""
    history = [*result.manifest.get("decided_before", []), {**before, "until": now()}]
    changed = {"decision": asdict(decision), "rule": rule, "spec": json.loads(result.spec.json)}
    write_manifest(result_stem(experiment, profile), {**result.manifest, **changed, "decided_before": history})
    return f"{experiment.id} {profile}: {result.decision} -> {decision} (rule version {rule['version']})"


def stamp(result: Result) -> str | None:
    """The warning across figures of this result; None for a stored result that nobody disputes."""
    if result.state == "missing":
        return f"MISSING: {command(result.experiment, result.spec.profile)}"
    return None if result.state == "stored" else f"{result.state.upper()}: {result.reason}"


def outstanding(experiments: Iterable[Experiment]) -> str:
    """The text of results/OUTSTANDING.md: results of hours and of papers that are not stored, and why.

    Those that a GPU would give come first, the greatest value per minute at the top. Same state, same text. A result on
    two cores does not stand for the paper's: both are listed.
    """
    lines = []
    pairs = [(one, profile) for one in experiments for profile in ("cpu", "paper") if profile in one.specs]
    for experiment, profile in sorted(pairs, key=_by_value):
        if state := _lack(experiment, profile):
            why = str(experiment.wants.get(profile) or "no reason is stated")
            row = (experiment.id, profile, experiment.title, state, why, f"`{command(experiment, profile)}`")
            lines.append(f"| {' | '.join(row)} |\n")
    head = "# Paper results that are outstanding\n\nGenerated by `dpnotes status --write`; do not edit.\n\n"
    names = ("experiment", "profile", "title", "state", "why, and what it would take", "command")
    table = f"| {' | '.join(names)} |\n{'|---' * len(names)}|\n"
    return head + (table + "".join(lines) if lines else "None.\n")


def wanted(experiments: Iterable[Experiment], profile: str, on_gpu: bool) -> list[Experiment]:
    """The experiments whose result is not stored and that can run here, in the order of `outstanding`."""
    found = [one for one in experiments if profile in one.specs and _lack(one, profile)]
    costs = [(one, one.wants.get(profile)) for one in sorted(found, key=lambda one: _by_value((one, profile)))]
    if on_gpu:
        return [one for one, cost in costs if not one.cpu_only and (cost is None or cost.rate)]
    return [one for one, cost in costs if cost is None or cost.why == "hours"]


def _by_value(pair: tuple[Experiment, str]) -> tuple[float, str, str]:
    cost = pair[0].wants.get(pair[1])
    return -(cost.rate if cost else 0.0), pair[0].id, pair[1]


def _lack(experiment: Experiment, profile: str) -> str:
    """The reason why a result is not stored, in words that stay the same from commit to commit; empty if it is."""
    try:
        result = load(experiment, profile)
    except DamagedFileError:
        return "damaged"
    if result.state in ("stored", "missing"):
        return result.state.replace("stored", "")
    return f"{result.state}: {result.reason}"


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
