"""Differentially private non-convex optimisation, from theorem to experiment.

Importing this package loads nothing heavy: every part is imported where it is used. Start reading at
`dpnotes.core`, the nouns that all parts speak.
"""

import sys
from collections.abc import Sequence

__version__ = "0.1.0"

# For notebooks from before these modules moved: CHANGELOG.md lists the names that changed with them.
_MOVED = {
    "dpnotes.draws": "dpnotes.random.draws",
    "dpnotes.papers.drift_escape.clients": "dpnotes.papers.drift_escape.distributed",
    "dpnotes.papers.noisy_sgd.norms": "dpnotes.train.norms",
    "dpnotes.papers.noisy_sgd.plans": "dpnotes.train.plan",
    "dpnotes.papers.noisy_sgd.training": "dpnotes.train.loop",
    "dpnotes.problems.files": "dpnotes.problems.published",
    "dpnotes.sampling": "dpnotes.guarantees",
    "dpnotes.streams": "dpnotes.random.streams",
    **{f"dpnotes.{name}": f"dpnotes.cli.{name}" for name in ("console", "doctor", "gpu")},
    **{
        f"dpnotes.{name}": f"dpnotes.util.{name}"
        for name in ("checks", "files", "lineage", "per_run", "precision", "processes", "states", "validate")
    },
}


class _Moved:
    """The first finder of modules: it says where one is now, even if a folder of its old name was left behind."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> None:
        """Refuse a module by its old name.

        Raises:
          ModuleNotFoundError: with the new name.
        """
        if new := _MOVED.get(name):
            raise ModuleNotFoundError(f"{name} is now {new}; CHANGELOG.md lists the names that changed.", name=name)


sys.meta_path.insert(0, _Moved)
