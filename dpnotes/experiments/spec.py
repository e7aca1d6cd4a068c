"""Experiments: parameters, cells, and the rule by which an outcome is judged.

An `Experiment` is a handful of functions beside one `Spec` a profile. The runner calls `cells` and `run_cell`, glues
the columns together into one frame, and asks `decide` what came out. The rule that `decide` follows stands in words in
the spec, before the run, and cells do not see it: it may be reworded, and nothing is computed again.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from dpnotes.experiments.chunks import Chunking, cpu_cache_bytes, run_in_chunks
from dpnotes.experiments.outcomes import Answers
from dpnotes.util import validate
from dpnotes.util.validate import checked

if TYPE_CHECKING:
    import pandas as pd

    from dpnotes.experiments.chances import Simulation
    from dpnotes.experiments.costs import Cost
    from dpnotes.util.processes import Processes

PROFILES = ("quick", "cpu", "paper")
# Tolerances: more than ten times what the instructions of another processor were seen to change.
FLOAT64: Mapping[str, float | None] = {"*": 1e-9}
FLOAT32: Mapping[str, float | None] = {"*": 1e-5}
Cell = dict[str, Any]
Columns = Mapping[str, Any]
Report = Callable[[str], None]  # is called with a line for the person who watches
Arrays = dict[str, np.ndarray]


def canonical_json(value: object, name: str = "value") -> str:
    """The one JSON text of a value: sorted keys, no spaces, ASCII, no NaN.

    Args:
      value: built from None, bool, int, finite float, str, list and dict.
      name: what the value is called in errors.

    Raises:
      TypeError: for any other type.
      ValueError: for a NaN or an infinity.

    >>> canonical_json({"b": [1, 2.5], "a": None})
    '{"a":null,"b":[1,2.5]}'
    >>> canonical_json({"rates": {0.1}}, "parameters")
    Traceback (most recent call last):
    TypeError: Expected parameters to be JSON: Object of type set is not JSON serializable.
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"Expected {name} to be JSON: {error}.") from None


def _check_name(**named: str) -> None:
    for name, value in named.items():
        if not re.fullmatch(r"[a-z][a-z0-9_]*", value):
            raise ValueError(f"Expected {name}={value!r} to be lower-case letters, digits and underscores.")


# A rule can decide if it says "reproduced" so often where the prediction holds, and so rarely where its rival does.
_POWER, _LEVEL = 0.9, 0.05


@dataclass(frozen=True)
class Chances:
    """The shares of simulated results that a rule calls "reproduced", stated before the run (see `chances.simulate`).

    Args:
      prediction: the case in which what is asked is so, in words.
      rival: the nearest case in which it is not, in words.
      if_right: share of the simulated results of the prediction that are judged "reproduced".
      if_rival: the same of the rival.
      simulations: simulated results of either.

    >>> print(Chances("slope -1/2", "slope -0.4", 0.82, 0.01, 200))
    "reproduced" in 82% of 200 simulations of the prediction (slope -1/2), and in 1% of its nearest rival (slope
    -0.4): underpowered
    """

    prediction: str
    rival: str
    if_right: float
    if_rival: float
    simulations: int

    @property
    def underpowered(self) -> bool:
        """Return whether under 90% of the prediction's results pass, or over 5% of the rival's."""
        return self.if_right < _POWER or self.if_rival > _LEVEL

    def __str__(self) -> str:
        return (
            f'"reproduced" in {100 * self.if_right:.3g}% of {self.simulations} simulations of the prediction '
            f"({self.prediction}), and in {100 * self.if_rival:.3g}% of its nearest rival ({self.rival})"
            f"{': underpowered' if self.underpowered else ''}"
        )


@dataclass(frozen=True)
class Spec:
    """The parameters of an experiment in one profile; two specs are equal when their canonical JSON is.

    Args:
      paper: the paper's folder name, such as "budget_schedules".
      experiment: the experiment's name within the paper.
      profile: "quick" (2 CPU cores, seconds), "cpu" (hours on 2 cores, where that is not what the paper did) or "paper"
        (what the figures show).
      parameters: JSON only. An experiment needs `decision_rule` (str); `seed` is the seed of every stream, if there are
        draws.
      chances: of the verdicts, as they were simulated; not part of the spec.

    Example:
      >>> spec = Spec("toy", "mean", "quick", {"seed": 1, "decision_rule": "reproduced when under 0.1"})
      >>> spec.json[:66]
      '{"experiment":"mean","paper":"toy","parameters":{"decision_rule":"'
      >>> Spec.from_json(spec.json) == spec
      True
      >>> spec["seed"]
      1
    """

    paper: str
    experiment: str
    profile: str
    parameters: Mapping[str, Any] = field(compare=False)
    chances: Chances | None = field(default=None, compare=False)
    json: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_name(paper=self.paper, experiment=self.experiment)
        validate.one_of(PROFILES, profile=self.profile)
        # A copy of our own: what the caller does to its dict later changes nothing here.
        object.__setattr__(self, "parameters", json.loads(canonical_json(dict(self.parameters), "parameters")))
        body = {name: getattr(self, name) for name in ("paper", "experiment", "profile", "parameters")}
        object.__setattr__(self, "json", canonical_json(body))

    def __getitem__(self, name: str) -> Any:
        return self.parameters[name]

    @staticmethod
    def from_json(text: str) -> "Spec":
        """The spec whose `json` is `text`."""
        return Spec(**json.loads(text))


@checked
@dataclass(frozen=True)
class Decision:
    """The outcome by the rule in the spec; "not run" where there is no result that may be shown.

    >>> print(Decision("undecided", "the interval [-0.2, 0.1] contains 0"))
    undecided: the interval [-0.2, 0.1] contains 0
    """

    verdict: Literal["reproduced", "not reproduced", "undecided", "not run"]
    reason: str

    def __str__(self) -> str:
        return f"{self.verdict}: {self.reason}"

    @staticmethod
    def by(reason: str, *, failed: object, passed: object) -> "Decision":
        """The decision of a rule with two conditions, the first of which comes first; undecided if neither holds.

        >>> print(Decision.by("the interval is [0.1, 0.3]", failed=False, passed=True))
        reproduced: the interval is [0.1, 0.3]
        """
        return Decision("not reproduced" if failed else "reproduced" if passed else "undecided", reason)


NOT_STATED = "not stated"


class Setting(NamedTuple):
    """One thing that a figure of the paper was made with, beside ours.

    Args:
      what: its name, such as "repeats".
      paper: as the paper says it, or `NOT_STATED`.
      ours: the same of a spec, in the same words where it is the same.
      why: the reason why ours differs, or of our choice where the paper says nothing.
    """

    what: str
    paper: str
    ours: "Callable[[Spec], str]"
    why: str = ""

    def differs(self, spec: Spec) -> bool:
        """Return whether the paper has another setting."""
        return self.paper not in (NOT_STATED, self.ours(spec))


class PaperFigure(NamedTuple):
    """A figure of the paper that an experiment makes again.

    Args:
      name: such as "Figure 1, left".
      shows: what the paper says that it shows, with the numbers that are printed.
      settings: what it was made with.
    """

    name: str
    shows: str
    settings: tuple[Setting, ...]


def alone() -> "Processes":
    """This process, by itself."""
    from dpnotes.util.processes import ALONE

    return ALONE


@dataclass(frozen=True)
class Context:
    """The resources of a cell, and its record of what happened.

    Args:
      device: "cpu" or "cuda".
      memory_bytes: what the runs that are held at once may take.
      chunking: how each call of `in_chunks` went; goes into the manifest.
      spent: privacy events, as `record_spent` was told; goes into the manifest.
      notes: lines for the person who watches; shown when the cell is finished.
      checkpoint: a path of this cell's own, for work in a long one that is to survive a crash; it belongs to these
        parameters and data. Its folder may not be there yet; the cell removes the file in the end.
      processes: that compute this cell together, all with the same arguments; see `sharing`.
    """

    device: str
    memory_bytes: int
    chunking: list[Chunking] = field(default_factory=list)
    spent: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    checkpoint: Path | None = None
    processes: "Processes" = field(default_factory=alone)

    def sharing(self, pieces: int) -> "Processes":
        """Those that share so many pieces of work out: where there are too few for all, each computes all of them."""
        return self.processes if pieces >= self.processes.size else alone()

    def in_chunks(self, function: Callable[[range], Columns], num_runs: int, bytes_per_run: int) -> Arrays:
        """Columns of `num_runs` runs, executed in chunks that fit the memory (see `dpnotes.experiments.chunks`).

        Several processes have the chunks of rank 0. One of them that is out of memory ends the run: the others wait in
        the middle of the chunk, and cannot halve theirs.

        Raises:
          ProcessLost: if this one of several processes is out of memory.
        """
        from dpnotes.util.processes import ProcessLost

        def or_none(runs: range) -> Columns:
            try:
                return function(runs)
            except MemoryError as error:
                raise ProcessLost((self.processes.rank,), f"is out of memory ({error})") from None

        several = self.processes.size > 1
        cache_bytes = self.processes.gather_json(cpu_cache_bytes())[0] if several else None
        work = or_none if several else function
        columns, chunking = run_in_chunks(work, num_runs, bytes_per_run, self.memory_bytes, self.device, cache_bytes)
        self.chunking.append(chunking)
        if chunking.halvings:
            self.report(f"out of memory on {self.device}: went on with {chunking.chunk_size} runs a chunk")
        return columns

    def record_spent(self, **event: Any) -> None:
        """Put a spent privacy event on record, as JSON values: mechanism, rho, relation, whatever names it."""
        canonical_json(event, "event")
        self.spent.append(event)

    def report(self, line: str) -> None:
        """Say something to the person who watches the run."""
        self.notes.append(line)


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """An experiment of a paper.

    Args:
      paper: the paper's folder name.
      name: lower case; the command line calls the experiment `paper.name`.
      title: one line, for lists and figures.
      question: what the experiment answers.
      specs: one `Spec` a profile.
      cells: `cells(spec)` lists the independent pieces of work, each a JSON dict; cheap, loads no data.
      run_cell: `run_cell(spec, cell, context)` returns columns of equal length (bool, int, float or str; a scalar
        stands for a constant column). It depends on its arguments alone: every draw comes from the seed in the spec.
      decide: `decide(frame, spec)` applies the spec's decision rule to the frame of all cells.
      rule: names of the parameters that only `decide` reads, beside `decision_rule`. Cells and stages do not see them,
        and a change computes nothing again.
      rule_version: raised when the rule itself changes, not only its words.
      tolerances: by column of floats, the part of a stored number by which the same cell may differ on another
        processor, or None if its numbers are not comparable there; "*" stands for the columns that are not named.
        Measured by `dpnotes verify` on such a processor. On the same one all bits are the same.
      stages: later stages, for experiments that choose something first (tuning on auxiliary data, say):
        `stage(spec, frame)` sees the frame of all earlier cells and lists further ones. What a later cell needs to
        know of the earlier ones stands in its dict.
      unaccounted: what depends on private data without being paid for; shown on the figure.
      data: one string a data set, such as "mnist sha256:..."; a result of other data does not match.
      cpu_only: its cells compute on the CPU whatever `Context.device` says, and the runner gives them no GPU.
      distributed: its cells share their work out over `Context.processes`, with the same columns on all of them, to the
        bit, for any number; torchrun may start it.
      figure: the paper's own, if it has one.
      simulation: of its results, by which its rule is tried out before the run.
      wants: by profile, what it costs and why it is outstanding, if it is.
      answers: the answers to the question, ours and the paper's.
    """

    paper: str
    name: str
    title: str
    question: str
    specs: Mapping[str, Spec]
    cells: Callable[[Spec], list[Cell]]
    run_cell: Callable[[Spec, Cell, Context], Columns]
    decide: "Callable[[pd.DataFrame, Spec], Decision]"
    stages: "tuple[Callable[[Spec, pd.DataFrame], list[Cell]], ...]" = ()
    unaccounted: tuple[str, ...] = ()
    rule: tuple[str, ...] = ()
    rule_version: int = 1
    tolerances: Mapping[str, float | None] = field(default_factory=dict)
    data: tuple[str, ...] = ()
    cpu_only: bool = False
    distributed: bool = False
    figure: PaperFigure | None = None
    simulation: "Simulation | None" = None
    wants: "Mapping[str, Cost]" = field(default_factory=dict)
    answers: Answers = Answers()

    def __post_init__(self) -> None:
        _check_name(paper=self.paper, name=self.name)
        for profile, spec in self.specs.items():
            expected, got = (self.paper, self.name, profile), (spec.paper, spec.experiment, spec.profile)
            if got != expected:
                raise ValueError(f"Expected the spec of {'.'.join(expected)}, got that of {'.'.join(got)}.")
            words = spec.parameters.get("decision_rule")
            if not isinstance(words, str) or not words.strip():
                raise ValueError(f"Expected decision_rule={words!r} of {self.id} to say when the result is reproduced.")

    @property
    def id(self) -> str:
        """`paper.name`, as on the command line."""
        return f"{self.paper}.{self.name}"

    def spec(self, profile: str) -> Spec:
        """The spec of one profile; an error names the profiles that there are."""
        validate.one_of(tuple(self.specs), profile=profile)
        return self.specs[profile]

    def setting(self, profile: str) -> str:
        """The stamp on pictures of this profile: the differences from the paper's figure, or that it is our own."""
        spec = self.spec(profile)
        if self.figure is None:
            repeats = spec.parameters.get("repeats")
            return f"our own experiment, profile {profile}" + (f", {repeats} repeats" if repeats else "")
        differing = [one for one in self.figure.settings if one.differs(spec)]
        if not differing:
            return f"the paper's setting as far as it is stated, profile {profile}"
        words = "; ".join(f"{one.what} {one.ours(spec)} (paper: {one.paper})" for one in differing)
        return f"not the paper's setting, profile {profile}: {words}"

    # ---------------------------------------------------------------- what a result is known by
    def computing(self, profile: str) -> Spec:
        """The spec as cells and stages see it: without what only the rule reads."""
        spec = self.spec(profile)
        return replace(spec, parameters=self.without_rule(spec.parameters))

    def identity(self, profile: str, record: Mapping[str, Any] | None = None) -> str:
        """The sha256 of what is computed: the parameters that cells may read, seeds among them, and the data.

        Args:
          profile: of which.
          record: a manifest or a header whose spec and data are meant; None: today's.
        """
        parameters = self.spec(profile).parameters if record is None else record["spec"]["parameters"]
        body = {"experiment": self.id, "profile": profile, "parameters": self.without_rule(parameters)}
        data = list(self.data) if record is None else record["data"]
        return hashlib.sha256(canonical_json({**body, "data": data}).encode()).hexdigest()

    def without_rule(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters that cells may read."""
        return {name: value for name, value in parameters.items() if name not in ("decision_rule", *self.rule)}

    def rule_record(self, profile: str) -> dict[str, Any]:
        """Version and sha256 of the rule, apart from the identity."""
        spec = self.spec(profile)
        rule = {name: spec[name] for name in ("decision_rule", *self.rule) if name in spec.parameters}
        return {"version": self.rule_version, "sha256": hashlib.sha256(canonical_json(rule).encode()).hexdigest()}

    def tolerance(self, column: str) -> float | None:
        """The relative tolerance of a float column on another processor; None: not comparable."""
        return self.tolerances.get(column, self.tolerances.get("*", 0.0))
