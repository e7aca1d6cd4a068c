"""A cache of computed verdicts: one JSON file for each paper, in the user's cache or `$DPNOTES_CACHE`.

A cached verdict was computed by `Claim.check`; it is stored with a key of everything that it depends on: the source of
the engine, of privacy and of the paper, and the versions of Python and of the numerical libraries. With another key, a
damaged file or a folder that cannot be written, the claim is checked again. The repository holds no verdict.

A claim is looked up only if it is the same object as one of its paper's `CLAIMS`: a claim that was made or changed by
hand is always checked. A process whose source was edited after it started neither reads nor writes the cache, since the
key would not describe the code that it has loaded.
"""

import contextlib
import hashlib
import importlib.metadata
import platform
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from dpnotes.theory.verdicts import Kind, Verdict
from dpnotes.util import files

if TYPE_CHECKING:
    from dpnotes.theory.claims import Claim

_LIBRARIES = ("mpmath", "numpy", "scipy", "sympy")
_LOADED = time.time()
_MODULES: dict[str, ModuleType] = {}  # the modules of claims of papers outside of dpnotes, by key


def remember(paper: str, module: ModuleType) -> None:
    """Remember the module of a paper's claims, which may lie outside of dpnotes.

    >>> from dpnotes.papers.budget_schedules import claims
    >>> remember("budget_schedules", claims)
    >>> claims_of("budget_schedules") == tuple(claims.CLAIMS)
    True
    """
    _MODULES[paper] = module


def folder() -> Path:
    """The folder of the cache's files: `$DPNOTES_VERDICTS`, or a folder of `$DPNOTES_CACHE` or of the user's cache.

    >>> folder().name
    'verdicts'
    """
    return files.cache_folder("DPNOTES_VERDICTS", "verdicts")


def sources(paper: str) -> list[Path]:
    """The files that a verdict may depend on: the engine, privacy, the helpers of all, and the paper's folder.

    >>> [path.name for path in sources("budget_schedules")][:2]
    ['__init__.py', 'asymptotics.py']
    """
    package = Path(__file__).parents[1]
    front = package / "papers" / paper
    if (module := _MODULES.get(paper)) is not None:
        path = Path(f"{module.__file__}")
        front = path.parents[path.stem == "__init__"]
    folders = (package / "theory", package / "privacy", package / "util", front)
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


def key(paper: str) -> str | None:
    """A digest of everything that a paper's verdicts depend on; None if a source was edited after it was loaded.

    >>> key("budget_schedules") == key("goldstein")
    False
    """
    versions = [importlib.metadata.version(name) for name in _LIBRARIES]
    digest = hashlib.sha256(repr([platform.python_version(), sys.platform, platform.machine(), *versions]).encode())
    for path in sources(paper):
        if path.stat().st_mtime >= _LOADED:
            return None
        digest.update(f"{path.parent.name}/{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()


class Verdicts:
    """A context that gives verdicts of claims, from the cache if it has them, and stores new verdicts at its end.

    Args:
      cached: whether to read the cache; new verdicts are written either way.

    >>> from dpnotes.papers import claim
    >>> with Verdicts(cached=False) as verdicts:
    ...     print(verdicts.of(claim("budget_schedules.lemmaC.3")))
    exact: stated minus derived reduces to 0
    """

    def __init__(self, cached: bool = True) -> None:
        self._cached = cached
        self._keys: dict[str, str | None] = {}
        self._known: dict[str, dict[str, Verdict]] = {}
        self._new: set[str] = set()  # papers with verdicts that the cache lacks

    def __enter__(self) -> "Verdicts":
        return self

    def __exit__(self, *_: object) -> None:
        for paper in self._new:
            _write(paper, self._keys[paper], self._known[paper])

    def of(self, claim: "Claim") -> Verdict:
        """The verdict of the claim as printed."""
        return self._get(claim, claim, "printed")

    def of_correction(self, claim: "Claim") -> Verdict | None:
        """The verdict of the claim's correction, None if it has no correction."""
        corrected = claim.correction()
        return corrected and self._get(claim, corrected, "corrected")

    def fallen(self, claim: "Claim") -> tuple[str, ...]:
        """The ids of the claims that it rests on and that do not stand, looked up among the claims of its paper."""
        from dpnotes.theory.premises import fallen

        if not claim.premises:
            return ()
        return fallen(claim, {other.id: other for other in claims_of(claim.paper)}, self.of)

    def word(self, claim: "Claim") -> str:
        """The word of its verdict: "exact, given lemma3.3.decrease" where it rests on a claim that falls."""
        from dpnotes.theory.premises import word

        return word(self.of(claim), self.fallen(claim))

    def _get(self, claim: "Claim", checked: "Claim", which: str) -> Verdict:
        paper, name = claim.paper, f"{claim.id} {which}"
        if not any(claim is other for other in claims_of(paper)):
            return checked.check()
        if paper not in self._keys:
            self._keys[paper] = key(paper)
            self._known[paper] = _read(paper, self._keys[paper]) if self._cached else {}
        if name not in self._known[paper]:
            self._known[paper][name] = checked.check()
            self._new.add(paper)
        return self._known[paper][name]


def verdicts(claims: "Iterable[Claim]", cached: bool = True) -> dict[str, Verdict]:
    """The verdicts of claims by id, from the cache if it has them.

    >>> from dpnotes.papers import claims
    >>> {name: str(found.kind) for name, found in verdicts(claims("budget_schedules.lemma4.4")).items()}
    {'budget_schedules.lemma4.4.optimum': 'exact', 'budget_schedules.lemma4.4.gap': 'contradicted'}
    """
    with Verdicts(cached) as known:
        return {claim.id: known.of(claim) for claim in claims}


def claims_of(paper: str) -> "tuple[Claim, ...]":
    """The claims of a paper, once they are loaded.

    >>> claims_of("of_nobody")
    ()
    """
    module = _MODULES.get(paper) or sys.modules.get(f"dpnotes.papers.{paper}.claims")
    return tuple(getattr(module, "CLAIMS", ()))


def _read(paper: str, digest: str | None) -> dict[str, Verdict]:
    """The cached verdicts under this key; none if the file is missing, damaged or of another key."""
    if digest is None:
        return {}
    try:
        document = files.unsealed_json(folder() / f"{paper}.json", key=digest)
    except (OSError, files.DamagedFileError):
        return {}
    return {name: Verdict(Kind(kind), evidence) for name, (kind, evidence) in document["verdicts"].items()}


def _write(paper: str, digest: str | None, found: dict[str, Verdict]) -> None:
    kept = {name: [str(verdict.kind), verdict.evidence] for name, verdict in found.items()}
    with contextlib.suppress(OSError):  # without room the claims are just checked again
        if digest is not None:
            files.write({folder() / f"{paper}.json": files.sealed_json({"key": digest, "verdicts": kept})})
