"""The papers and experiments that commands can name."""

import difflib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dpnotes
from dpnotes import papers
from dpnotes.util import validate

if TYPE_CHECKING:
    from dpnotes.experiments import Experiment

INDEX = "experiments.json"  # beside the results, so that reading names and titles loads no torch


def all_experiments() -> "list[Experiment]":
    """The experiments of all papers; loads torch."""
    return [experiment for module in papers.parts("experiments") for experiment in module.EXPERIMENTS]


def index_of(experiments: "Iterable[Experiment]") -> list[dict[str, Any]]:
    """The names, titles and profiles of experiments."""
    return [{"id": e.id, "title": e.title, "profiles": sorted(e.specs)} for e in experiments]


def listed_experiments() -> list[dict[str, Any]]:
    """The names, titles and profiles of all experiments.

    Those of this repository come from the list beside the stored results, which loads no torch.
    """
    package = Path(dpnotes.__file__).parent
    for folder in (package / "carried" / "notebooks", package.parent / "notebooks"):
        if (path := folder / "results" / INDEX).exists():
            outside = [key for key in papers.packages() if key not in papers.PAPERS]
            more = index_of(each for each in all_experiments() if each.paper in outside) if outside else []
            return json.loads(path.read_text()) + more
    return index_of(all_experiments())


def experiment(name: str) -> "Experiment":
    """The experiment with this full name."""
    known = {experiment.id: experiment for experiment in all_experiments()}
    return known[one_of(name, known, "experiment")]


def one_of(name: str, known: Iterable[str], kind: str) -> str:
    """Return the name if it is known, else raise an error that offers the nearest names."""
    known = list(known)
    if name in known:
        return name
    inside = [other for other in known if name and name in other]
    near = inside[:5] or difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    offer = f"did you mean {', '.join(near)}?" if near else "`dpnotes list` shows all."
    raise ValueError(f"Expected {name!r} to be the name of one {kind}; {offer}")


def experiments_of(names: Sequence[str]) -> "list[Experiment]":
    """The experiments of these names; the name of a paper means all of its experiments, `all` means all."""
    known = {experiment.id: experiment for experiment in all_experiments()}
    chosen: dict[str, Experiment] = {}
    for name in names:
        found = [e for e in known.values() if name == "all" or e.paper == name]
        if not found and name in papers.packages():
            able = sorted({e.paper for e in known.values()})
            raise ValueError(f"Expected a paper with experiments, got {name}; there are {', '.join(able)}.")
        chosen |= {e.id: e for e in found or [known[one_of(name, known, "experiment or paper")]]}
    return list(chosen.values())


def check_profile(profile: str | None) -> None:
    """Raise an error if a profile is named that no experiment has."""
    if profile is not None:
        validate.one_of(sorted({name for e in all_experiments() for name in e.specs}), profile=profile)


def refuse_an_installation(experiments: "Iterable[Experiment | None]" = (None,)) -> None:
    """Raise an error if results would be written into an installed package, which an update replaces."""
    from dpnotes import experiments as parts

    package = Path(dpnotes.__file__).resolve().parent
    if any(package in parts.results_folder(experiment).resolve().parents for experiment in experiments):
        raise ValueError("Expected DPNOTES_RESULTS to be a folder of yours: an installed package is not written into.")
