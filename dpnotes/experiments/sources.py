"""What the code of a result was: a digest a module, and what git knows of it.

Imports are followed in the text, without executing anything: from the modules of an experiment to every module of
the same packages that they import, inside functions too. A package's `__init__` counts where a name is imported from
it, not for being passed on the way to one of its modules: a new experiment in a list does not make the others stale.
An import by a computed name (`importlib`) is not seen.
The runner and the store themselves (`dpnotes.experiments`) are left out, as their results do not depend on how
cells are executed and kept (that is tested); `FORMAT` stands for them in the key. Fits do count, as decisions follow
from them.

Where a digest is another one, the module's source is read from the commit of the result, and compared function by
function (`dpnotes.experiments.functions`).
"""

import ast
import hashlib
import importlib.util
import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from dpnotes.experiments.functions import Code, Place, changed, imported_from, normalised
from dpnotes.experiments.spec import Experiment, Spec, canonical_json

FORMAT = 2  # raise it when a change of the runner, or of all draws, changes results
_RUNNER = "dpnotes.experiments"
_FITS = f"{_RUNNER}.fits"
_MOST_SAID = 12  # places in a line
_COMMIT = re.compile("[0-9a-f]{40,64}")  # what a file from elsewhere says is no option of git


@lru_cache(maxsize=2048)
def digest(source: str) -> str:
    """The digest of a module's text."""
    return hashlib.sha256(normalised(source).encode()).hexdigest()[:16]


@lru_cache(maxsize=1024)
def _imports(source: str) -> tuple[ast.Import | ast.ImportFrom, ...]:
    return tuple(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom))


def find(name: str) -> Path | None:
    """The file of a module, found without importing it; None for what is no module."""
    top, *rest = name.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin)
    if rest:
        if path.name != "__init__.py":
            return None
        path = path.parent.joinpath(*rest)
        path = path / "__init__.py" if path.is_dir() else path.with_name(f"{path.name}.py")
    return path if path.is_file() else None


def sources(modules: Iterable[str]) -> dict[str, str]:
    """The source of every module that the named ones rest on, within their own packages and dpnotes.

    Args:
      modules: names of modules, such as "dpnotes.papers.budget_schedules.experiments".

    Raises:
      ValueError: a named module has no source file (it was typed into a notebook, say).

    >>> [*sources(["dpnotes.streams"])]
    ['dpnotes.checks', 'dpnotes.draws', 'dpnotes.draws.reference', 'dpnotes.register', 'dpnotes.streams',
    'dpnotes.validate']
    """
    waiting = sorted(set(modules))
    tops = {"dpnotes", *(name.split(".")[0] for name in waiting)}
    for name in waiting:
        if name == "__main__" or find(name) is None:
            raise ValueError(
                f"Expected module {name!r} to have a source file: put the experiment into a module of its own."
            )
    found: dict[str, str] = {}
    seen = set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or f"{name}.".startswith(f"{_RUNNER}.") and name != _FITS:
            continue
        seen.add(name)
        path = find(name)
        if path is None:
            continue
        found[name] = path.read_text(encoding="utf-8")
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for node in _imports(found[name]):
            names = [alias.name for alias in node.names]
            module = imported_from(node, package) if isinstance(node, ast.ImportFrom) else ""
            if module.split(".")[0] in tops:
                inner = [f"{module}.{item}" for item in names]
                waiting += [item if find(item) else module for item in inner]
            elif not module:
                waiting += [item for item in names if item.split(".")[0] in tops]
    return dict(sorted(found.items()))


# ---------------------------------------------------------------- git
def git(folder: Path, *arguments: str) -> str | None:
    """What git says in a folder, or None where it or what was asked for is missing."""
    return output("git", "-C", str(folder), *arguments)


def output(*command: str) -> str | None:
    """What a program prints, or None where it is missing or fails."""
    try:
        return subprocess.run(command, capture_output=True, check=True, timeout=20).stdout.decode()
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None


@lru_cache(maxsize=1024)
def _at(commit: str, module: str) -> str | None:
    """The source of a module at a commit of the repository that its package is in."""
    stem, folder = module.replace(".", "/"), _folder(module) if _COMMIT.fullmatch(commit) else None
    shown = (git(folder, "show", f"{commit}:./{path}") for path in (f"{stem}.py", f"{stem}/__init__.py") if folder)
    return next((text for text in shown if text is not None), None)


def _folder(module: str) -> Path | None:
    """The folder that a module's package lies in."""
    top = find(module.split(".")[0])
    return top and (top.parents[1] if top.name == "__init__.py" else top.parent)


def is_here(module: str, commit: str | None) -> bool:
    """Whether the repository of a module has a commit: one that was rebased away, or squashed, it may not have."""
    folder = _folder(module)
    if folder is None or commit is None or not _COMMIT.fullmatch(commit):
        return False
    return git(folder, "cat-file", "-e", f"{commit}^{{commit}}") is not None


def code_at(record: Mapping[str, Any], today: Mapping[str, str]) -> Code | str:
    """The code of a record, each module as its digest says; or why it is not known.

    Args:
      record: with the digests of "modules", and a "git_commit".
      today: the sources as they are now.
    """
    commit, found = record["git_commit"], dict[str, str]()
    for module, expected in record["modules"].items():
        source = today.get(module)
        if source is None or expected != digest(source):
            if not isinstance(commit, str) or not commit:
                return f"what {module} was is not known: no git commit is on record"
            source = _at(commit, module)
            if source is None:
                return f"what {module} was is not known: commit {commit[:9]} is not here, or git is not"
            if expected != digest(source):
                return f"what {module} was is not known: it was not yet committed at {commit[:9]}"
        found[module] = source
    return Code(found)


# ---------------------------------------------------------------- a result
@dataclass(frozen=True)
class Fingerprint:
    """What a result rests on: when any part of it changes, the result is stale."""

    spec: Spec
    sources: dict[str, str]
    data: tuple[str, ...]

    @staticmethod
    def of(experiment: Experiment, profile: str) -> "Fingerprint":
        """The fingerprint of the spec, code and data as they are now."""
        return Fingerprint(experiment.spec(profile), sources(experiment.all_modules()), experiment.data)

    @cached_property
    def modules(self) -> dict[str, str]:
        """The digest of every module."""
        return {name: digest(source) for name, source in self.sources.items()}

    @property
    def key(self) -> str:
        """The sha256 under which the result is kept."""
        parts = {"format": FORMAT, "spec": self.spec.key, "modules": self.modules, "data": list(self.data)}
        return hashlib.sha256(canonical_json(parts).encode()).hexdigest()

    def changes(self, manifest: dict[str, Any]) -> dict[str, str]:
        """What differs from the manifest of a stored result, by kind: "spec", "code", "data", "format"."""
        if self.key in (manifest["key"], manifest.get("verified", {}).get("key")):
            return {}
        changes = {}
        if manifest["spec"] != (now := json.loads(self.spec.json)):
            changes["spec"] = _different(_flat(manifest["spec"]), _flat(now))
        if code := self._changed_code(manifest):
            changes["code"] = code
        if manifest["data"] != list(self.data):
            changes["data"] = ", ".join(sorted({*manifest["data"]} ^ {*self.data})) or "their order"
        if manifest["format"] != FORMAT:
            changes["format"] = f"{manifest['format']} became {FORMAT}"
        return changes

    def _changed_code(self, manifest: dict[str, Any]) -> str:
        """What changed since the result was verified, or else run; empty where nothing did."""
        why = ""
        for record in records(manifest):
            then = code_at(record, self.sources)
            if isinstance(then, Code):
                return in_words(changed(then, Code(self.sources)))
            if expected := _different(record["modules"], self.modules):
                why = f"{expected} ({then})"
        return why


def records(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """With which code a result's numbers were found, the last first: when it was verified, and when it was run."""
    if verified := manifest.get("verified"):
        modules = {**manifest["modules"], **verified["modules"]}
        verified = {**verified, "modules": {name: each for name, each in modules.items() if each is not None}}
    return [verified, manifest] if verified else [manifest]


def in_words(places: list[Place]) -> str:
    """Places in one line: the module's name alone for its own statements.

    >>> in_words([("toys.helper", ""), ("toys.helper", "scaled"), ("toys.run", "f")])
    'toys.helper, toys.helper.scaled, toys.run.f'
    """
    more = [f"{len(places) - _MOST_SAID} more"] if len(places) > _MOST_SAID else []
    return ", ".join([*(".".join(place).rstrip(".") for place in places[:_MOST_SAID]), *more])


def _flat(spec: dict[str, Any]) -> dict[str, Any]:
    return {**spec, **spec["parameters"], "parameters": None}


def _different(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    missing = object()
    return ", ".join(n for n in sorted({*before, *now}) if before.get(n, missing) != now.get(n, missing))
