"""Parts of a study: specs of two profiles from one list of parameters, cells of a grid, columns of runs, intervals."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotes.experiments.chances import Simulation
from dpnotes.experiments.preregistration import Preregistration
from dpnotes.experiments.spec import FLOAT64, Cell, Experiment, Spec
from dpnotes.util import validate

if TYPE_CHECKING:
    import pandas as pd
Given = Mapping[str, Any]
SYNTHETIC: Given = {"relation": "replace-one", "data": "synthetic"}  # of a spent event, where data are made up
Rows = Iterator[Any]  # what a generator of rows or columns gives


@dataclass(frozen=True)
class Each:
    """A parameter that differs between the quick and the paper profile."""

    quick: Any
    paper: Any


def profiles(name: str, parameters: Given, quick: Given | None = None, paper: Given | None = None) -> tuple[Spec, Spec]:
    """The quick and the paper spec of a study.

    Args:
      name: `paper.experiment`.
      parameters: of both; a value that differs is an `Each`, also inside a dictionary.
      quick: parameters of the quick profile alone.
      paper: parameters of the paper profile alone.

    Example:
      >>> [spec["repeats"] for spec in profiles("toy.mean", {"decision_rule": "under 0.1", "repeats": Each(5, 100)})]
      [5, 100]
    """
    folder, experiment = name.split(".")

    def chosen(value: Any, profile: str) -> Any:
        if isinstance(value, Each):
            return getattr(value, profile)
        return {key: chosen(each, profile) for key, each in value.items()} if isinstance(value, dict) else value

    def of(profile: str, alone: Given | None) -> Spec:
        return Spec(folder, experiment, profile, chosen({**parameters, **(alone or {})}, profile))

    return of("quick", quick), of("paper", paper)


def study(words: Preregistration, specs: Sequence[Spec], functions: tuple[Any, ...], **more: Any) -> Experiment:
    """The experiment of some specs, with its chances in them.

    Args:
      words: of the study.
      specs: one a profile.
      functions: `cells`, `run_cell` and `decide`; then `simulated`, the `frame` of the study's `Simulation`, unless
        `simulation` is among the further fields.
      **more: further fields of `Experiment`; and `chances`, by profile the shares of simulated results that are judged
        "reproduced", of the prediction and of the rival. Tolerances are those of float64 if not given.

    Raises:
      ValueError: a spec with another rule than the words.
    """
    cells, run_cell, decide, *frame = functions
    rules = words.rule, words.earlier_rule
    if words.rule and any((s["decision_rule"], s.parameters.get("earlier_rule", "")) != rules for s in specs):
        raise ValueError(f"Expected the rules in the specs of {words.title!r} to be those of its words.")
    if frame:
        said = {"prediction": words.prediction, "rival": words.rival, "stated": more.pop("chances", {})}
        more["simulation"] = Simulation(frame=frame[0], **said)
    if simulation := more.get("simulation"):
        specs = [replace(spec, chances=simulation.chances(spec.profile)) for spec in specs]
    return Experiment(
        paper=specs[0].paper, name=specs[0].experiment, title=words.title, question=words.question, cells=cells,
        run_cell=run_cell, decide=decide, specs={spec.profile: spec for spec in specs}, answers=words.answers,
        **{"tolerances": FLOAT64, **more},
    )  # fmt: skip


def grid(**knobs: Iterable[Any]) -> list[Cell]:
    """One cell for each combination of values, the last knob moving fastest.

    >>> grid(dim=[2, 3], noise=[True])
    [{'dim': 2, 'noise': True}, {'dim': 3, 'noise': True}]
    """
    return [dict(zip(knobs, values, strict=True)) for values in product(*knobs.values())]


def columns_of(names: str, rows: Sequence[Sequence[Any]]) -> dict[str, np.ndarray]:
    """The first columns of rows, one a name.

    >>> columns_of("ratio repeat", [(0.5, 0, "a"), (0.5, 1, "b")])
    {'ratio': array([0.5, 0.5]), 'repeat': array([0, 1])}
    """
    return {name: np.array([row[place] for row in rows]) for place, name in enumerate(names.split())}


def joined(parts: "Callable[..., Iterable[Mapping[str, Any]]]") -> "Callable[..., dict[str, np.ndarray]]":
    """Decorator of a generator of columns: those of all parts one below the other. A scalar is a constant column.

    >>> joined(lambda: [{"knob": "n", "slope": [-0.5, -0.4]}, {"knob": "d", "slope": 0.3}])()
    {'knob': array(['n', 'n', 'd'], dtype='<U1'), 'slope': array([-0.5, -0.4,  0.3])}
    """

    @wraps(parts)
    def columns(*given: Any, **named: Any) -> dict[str, np.ndarray]:
        found = []
        for part in map(dict, parts(*given, **named)):
            arrays = np.broadcast_arrays(*map(np.atleast_1d, part.values()))
            found.append(dict(zip(part, arrays, strict=True)))
        return {name: np.concatenate([part[name] for part in found]) for name in found[0]}

    return columns


def tabulated(parts: "Callable[..., Iterable[Any]]") -> "Callable[..., pd.DataFrame]":
    """Decorator of a generator of rows, or of column mappings or frames: one frame of all, one below the other.

    >>> tabulated(lambda: [{"knob": "n", "slope": -0.5}])()["slope"].tolist()
    [-0.5]
    >>> tabulated(lambda: [{"dim": dim, "repeat": range(2)} for dim in (2, 3)])()["dim"].tolist()
    [2, 2, 3, 3]
    """

    @wraps(parts)
    def frame(*given: Any, **named: Any) -> "pd.DataFrame":
        import pandas as pd

        found = list(parts(*given, **named))
        if found and not isinstance(found[0], pd.DataFrame) and not any(map(np.ndim, found[0].values())):
            return pd.DataFrame(found)
        return pd.concat([pd.DataFrame(part) for part in found], ignore_index=True)

    return frame


def spaced(ends: Sequence[float], count: int) -> list[float]:
    """Numbers with a constant ratio between two ends, to four digits so that they can be read.

    >>> spaced([1.0, 100.0], 3)
    [1.0, 10.0, 100.0]
    """
    return [float(f"{value:.4g}") for value in np.geomspace(ends[0], ends[1], count)]


def mean_interval(values: Any, level: float = 0.95) -> tuple[float, float, float]:
    """Mean and t-interval of values, such as paired differences; of one value the interval is everything."""
    from scipy import stats

    values = np.asarray(values, dtype=np.float64)
    mean = float(values.mean())
    if len(values) == 1:
        return mean, -math.inf, math.inf
    error = float(stats.sem(values))
    low, high = stats.t.interval(level, len(values) - 1, mean, error) if error else (mean, mean)
    return mean, float(low), float(high)


def proportion(hits: int, runs: int, level: float = 0.05) -> tuple[float, float]:
    """Clopper and Pearson's interval (1934, doi:10.1093/biomet/26.4.404) of a probability.

    Args:
      hits: from 0 to `runs`.
      runs: at least 1.
      level: one minus the probability that the interval holds it.

    Example:
      >>> [round(end, 4) for end in proportion(0, 100)], [round(end, 4) for end in proportion(100, 100)]
      ([0.0, 0.0362], [0.9638, 1.0])
    """
    from scipy.special import betaincinv

    validate.at_least(1, runs=runs)
    validate.at_least(0, hits=hits, misses=runs - hits)
    low = float(betaincinv(hits, runs - hits + 1, level / 2)) if hits else 0.0
    high = float(betaincinv(hits + 1, runs - hits, 1 - level / 2)) if hits < runs else 1.0
    return low, high
