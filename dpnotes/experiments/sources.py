"""What the code of a result was: a digest a module, blind to comments, docstrings and layout.

Imports are followed in the text, without executing anything: from the modules of an experiment to every module of
the same packages that they import, inside functions too. A package's `__init__` counts where a name is imported from
it, not for being passed on the way to one of its modules: a new experiment in a list does not make the others stale.
An import by a computed name (`importlib`) is not seen.
The runner and the store themselves (`dpnotes.experiments`) are left out, as their results do not depend on how
cells are executed and kept (that is tested); `FORMAT` stands for them in the key.
"""

import ast
import hashlib
import importlib.util
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dpnotes.experiments.spec import Experiment, Spec, canonical_json

FORMAT = 2  # raise it when a change of the runner, or of all draws, changes results
_RUNNER = "dpnotes.experiments"
_IGNORED_FIELDS = {"type_comment", "type_ignores", "kind"}


def normalised(source: str) -> str:
    """The syntax tree of a module as text, without comments, docstrings, positions and `__version__`.

    `ast.dump` would do, were its output not different from one Python version to the next.

    >>> normalised("x = 1  # one") == normalised("x  =  1")
    True
    >>> normalised("x = 1") == normalised("x = 1.0")
    False
    """
    return _text(ast.parse(source))


def _text(node: Any) -> str:
    if isinstance(node, list):
        return f"[{','.join(_text(item) for item in node if not _is_silent(item))}]"
    if isinstance(node, ast.Constant):
        return ascii(node.value)
    if not isinstance(node, ast.AST):
        return ascii(node)
    values = {name: getattr(node, name, None) for name in node._fields if name not in _IGNORED_FIELDS}
    inside = ",".join(f"{name}={_text(value)}" for name, value in values.items() if value not in (None, []))
    return f"{type(node).__name__}({inside})"


def _is_silent(node: Any) -> bool:
    """A string that stands alone does nothing; neither does the version change any number."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return isinstance(node, ast.Assign) and [getattr(target, "id", None) for target in node.targets] == ["__version__"]


@lru_cache(maxsize=1024)
def _analysed(source: str) -> tuple[str, tuple[tuple[str | None, int, tuple[str, ...]], ...]]:
    """Digest of a module's text, and its imports as (module, level, names)."""
    imports: list[tuple[str | None, int, tuple[str, ...]]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imports += [(alias.name, 0, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imports.append((node.module, node.level, tuple(alias.name for alias in node.names)))
    return hashlib.sha256(normalised(source).encode()).hexdigest()[:16], tuple(imports)


def _find(name: str) -> Path | None:
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


def digests(modules: Iterable[str]) -> dict[str, str]:
    """Digest of every module that the named ones rest on, within their own packages and dpnotes.

    Args:
      modules: names of modules, such as "dpnotes.papers.budget_schedules.experiments".

    Raises:
      ValueError: a named module has no source file (it was typed into a notebook, say).

    >>> sorted(digests(["dpnotes.streams"]))
    ['dpnotes.checks', 'dpnotes.draws', 'dpnotes.draws.reference', 'dpnotes.register', 'dpnotes.streams',
    'dpnotes.validate']
    """
    waiting = sorted(set(modules))
    tops = {"dpnotes", *(name.split(".")[0] for name in waiting)}
    for name in waiting:
        if name == "__main__" or _find(name) is None:
            raise ValueError(
                f"Expected module {name!r} to have a source file: put the experiment into a module of its own."
            )
    found: dict[str, str] = {}
    seen = set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or f"{name}.".startswith(f"{_RUNNER}."):
            continue
        seen.add(name)
        path = _find(name)
        if path is None:
            continue
        found[name], imports = _analysed(path.read_text(encoding="utf-8"))
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for module, level, names in imports:
            if level:
                base = ".".join(package.split(".")[: len(package.split(".")) - level + 1])
                module = f"{base}.{module}" if module else base
            assert module is not None
            if module.split(".")[0] in tops:
                inner = [f"{module}.{item}" for item in names]
                waiting += [item if _find(item) else module for item in inner] or [module]
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class Fingerprint:
    """What a result rests on: when any part of it changes, the result is stale."""

    spec: Spec
    modules: dict[str, str]
    data: tuple[str, ...]

    @staticmethod
    def of(experiment: Experiment, profile: str) -> "Fingerprint":
        """The fingerprint of the spec, code and data as they are now."""
        return Fingerprint(experiment.spec(profile), digests(experiment.all_modules()), experiment.data)

    @property
    def key(self) -> str:
        """The sha256 under which the result is kept."""
        parts = {"format": FORMAT, "spec": self.spec.key, "modules": self.modules, "data": list(self.data)}
        return hashlib.sha256(canonical_json(parts).encode()).hexdigest()

    def changes(self, manifest: dict[str, Any]) -> dict[str, str]:
        """What differs from the manifest of a stored result, by kind: "spec", "code", "data", "format"."""
        if manifest["key"] == self.key:
            return {}
        changes = {}
        if manifest["spec"] != (now := json.loads(self.spec.json)):
            changes["spec"] = _different(_flat(manifest["spec"]), _flat(now))
        if manifest["modules"] != self.modules:
            changes["code"] = _different(manifest["modules"], self.modules)
        if manifest["data"] != list(self.data):
            changes["data"] = ", ".join(sorted({*manifest["data"]} ^ {*self.data})) or "their order"
        return changes or {"format": f"{manifest['format']} became {FORMAT}"}


def _flat(spec: dict[str, Any]) -> dict[str, Any]:
    return {**spec, **spec["parameters"], "parameters": None}


def _different(before: dict[str, Any], now: dict[str, Any]) -> str:
    missing = object()
    return ", ".join(n for n in sorted({*before, *now}) if before.get(n, missing) != now.get(n, missing))
