"""Theorem 1: the returned point against the noise, and the escapes it rests on.

Question:
  Is the error of the returned point proportional to psi, and do attempts and repeats do what is promised?

The paper:
  Yes: Theorem 1, Corollary 1 and Lemma 2.

Rule:
  Parameters are equations (4) with practical constants, and what is returned is judged by exact gradients and
  Hessians: its error is max(|gradient|, lambda_-^2 / rho). Which of the two parts binds depends on the landscape, so
  there are two. From the top of all hills of the ladder runs return where the gradient binds. On one hill of a given
  curvature lambda, wells elsewhere, they return where the curvature does, if they stay; lambda_half is where half of
  them do (Spearman and Karber over a grid of curvatures; at its least 0.9 stay, at its largest 0.1). Reproduced if
  for every step size that was run (1) on the ladder the bootstrap interval (95%) of the slope of ln error against ln
  psi is at most 0.05 to either side and reaches above the slope of psi mu^2, the theorem's alpha: it falls no more
  slowly; (2) on hills the interval (95%) of the slope of ln lambda_half^2 is at most 0.05 to either side and comes
  within 0.03 of that of the linear theory behind the proof (noise that grows by 1 + eta lambda a step reaches the
  radius in none of Q attempts), which is 1 up to logarithms, and lambda_half^2 is at most alpha; (3) the 95% interval
  of the probability that an attempt leaves an alpha-strict saddle lies above 1/4 (Corollary 1), and that one of two
  coupled ones does above 1/2 (Lemma 1), at every tilt, with the step of equations (4), which both are about; (4)
  false stops at full length are no more often than (3/4)^Q, by the interval's lower end. Not reproduced if an
  interval of that width misses in (1) or (2), an interval of (3) lies below its bound, (4) fails, or a run does not
  end. Undecided otherwise. The rule before asked (3) of attempts with the step 1/M, which neither statement is about.
  Of the paper profile it said: not reproduced, since at psi = 0.01 and d = 1000 two coupled attempts leave in 0.44.
  What it says of these runs is given beside.

If reproduced:
  Yes: the error is proportional to psi, and attempts and repeats do what is promised.

If not reproduced:
  No: the error is not proportional to psi, or attempts or repeats fail more often than promised.

Prediction:
  the error on the ladder is proportional to psi, that on hills is the linear theory's; attempts leave in 0.77 at 10
  dimensions to 0.55 at 1,000, as in a pilot, and fail independently; errors scatter by 0.2

Rival:
  the error falls as psi^0.85 on the ladder, by an exponent that is 0.1 less than the theory's on hills
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dpnotes.core import Estimate, Status
from dpnotes.experiments import Cell, Context, Decision, Preregistration, Spec
from dpnotes.experiments.fits import Slope, fitted
from dpnotes.experiments.sweeps import Each, Rows, grid, joined, profiles, proportion, study, tabulated
from dpnotes.measure.stationarity import sosp_level
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive
from dpnotes.papers.drift_escape.escaping import DriftEscape
from dpnotes.papers.drift_escape.experiments import ladder
from dpnotes.papers.drift_escape.experiments.ladder import LadderParameters, half_way
from dpnotes.random.streams import Streams

WORDS = Preregistration.of(__doc__)
QUICK, PAPER = profiles("drift_escape.returned_point", {
    "decision_rule": WORDS.rule, "seed": "returned point, hills and both steps", "attempts": 8,
    "steps_at_most": 100,  # attempt lengths of a run
    "tilts": [0.0, 0.01, 0.1, 1.0], "repeats_of_attempts": Each(400, 4000), "Q": [1, 2, 4, 8], "shorter": [1.0, 0.6],
    "repeats_of_stops": Each(400, 4000), "psi_of_stops": 0.01, "dim_of_stops": 10,
    "psi": Each(
        {"1/M": [1e-4, 1e-3, 1e-2]},
        {"1/M": [10 ** (k / 2) for k in range(-12, -3)], "theorem": [10 ** (k / 4) for k in range(-16, -7)]},
    ),
    "psi_of_hills": Each(
        {"1/M": [1e-4, 1e-2]},
        {"1/M": [10 ** (k / 2) for k in range(-12, -3)], "theorem": [10 ** (k / 2) for k in range(-7, -3)]},
    ),
    # Curvatures over sqrt(rho psi).
    "hills": Each([2 ** (k / 4) for k in range(-2, 6)], [2 ** (k / 4) for k in range(-2, 7)]),
    "repeats_of_hills": Each(48, 100), "dim_of_hills": 10, "repeats": Each(24, 100),
    # At 1e-4 an attempt with the theorem's step is 11,000 steps long.
    "psi_of_attempts": Each({"1/M": [0.01], "theorem": [0.01]}, {"1/M": [1e-4, 1e-3, 1e-2], "theorem": [1e-3, 1e-2]}),
    "dims": Each([10], [10, 100, 1000]),
})  # fmt: skip


_WIDTH, _NEAR = 0.05, 0.03  # of the intervals of slopes, to either side; and how near to the linear theory


def cells(spec: Spec) -> list[Cell]:
    """Runs of the algorithm over psi, on the ladder and on hills; single attempts; runs with few or short ones."""
    common = {"dim": 0, "Q": spec["attempts"], "shorter": 1.0, "hill": 0.0}

    def over(name: str) -> list[Cell]:
        return [{**common, "step": step, "psi": psi} for step, values in spec[name].items() for psi in values]

    stop = {**common, "step": "1/M", "psi": spec["psi_of_stops"], "dim": spec["dim_of_stops"]}
    hills = grid(kind=["hill"], dim=[spec["dim_of_hills"]], hill=spec["hills"])
    return [
        *({**each, "kind": "level"} for each in over("psi")),
        *({**each, **hill} for each in over("psi_of_hills") for hill in hills),
        *({**each, "kind": "attempt", "dim": dim, "Q": 1} for each in over("psi_of_attempts") for dim in spec["dims"]),
        *({**stop, **each} for each in grid(kind=["stop"], Q=spec["Q"], shorter=spec["shorter"])),
    ]


def run_cell(spec: Spec, cell: Cell, context: Context) -> dict[str, Any]:
    """One kind of run; the columns are those of all kinds."""
    rows = (_attempts if cell["kind"] == "attempt" else _runs)(spec, cell, context)
    numbers = ("tilt", "level", "gradient", "curvature", "last", "steps", "tests", "num_coordinates", "step_size")
    blank = dict.fromkeys(numbers, math.nan)
    flags = dict.fromkeys(("finished", "false_stop", "escaped", "coupled", "curvature_binds"), False)
    return {**blank, **flags, **cell, **rows}


def parameters(spec: Spec, cell: Cell, dim: int) -> tuple[LadderParameters, int]:
    """Those of a cell, and the length of its attempts."""
    found = LadderParameters(cell["psi"], dim, 1.0)
    if cell["step"] == "theorem":
        found = replace(found, step_size=found.alpha**0.5)
    return found, max(2, round(cell["shorter"] * found.attempt_length))


def _runs(spec: Spec, cell: Cell, context: Context) -> dict[str, Any]:
    """Algorithm 1 until it returns, from the top of all hills, or of one: at a stop its curvature is just too much."""
    if cell["kind"] == "level":
        same = [psi for step, values in spec["psi"].items() if step == cell["step"] for psi in values]
        curvatures = ladder.rungs_down_to(LadderParameters(min(same), 1, 1.0).alpha ** 0.5 / ladder.DEPTH)
        begin = torch.zeros_like(curvatures)
    else:
        squared = cell["hill"] ** 2 * cell["psi"] or LadderParameters(cell["psi"], 1, 1.0).alpha
        curvatures, begin = single_hill(cell["dim"], squared**0.5)
    found, length = parameters(spec, cell, len(begin))
    # The last iterate is what is printed; the tested point is in the state all the same.
    method = DriftEscape(
        found.step_size, found.threshold, length, found.radius, cell["Q"], "go on", return_tested=False
    )
    most = spec["steps_at_most"] * length
    repeats = spec[{"level": "repeats", "hill": "repeats_of_hills", "stop": "repeats_of_stops"}[cell["kind"]]]
    about = f"{cell['kind']}/{cell['step']}/{cell['psi']:g}/{cell['Q']}/{cell['shorter']}/{cell['hill']:g}"

    def run(chosen: range) -> dict[str, Tensor]:
        streams = Streams.of(spec["seed"], [f"{about}/{r}" for r in chosen], context.device)
        oracle = found.oracle(curvatures, len(chosen), most, context.device)
        x = begin.to(context.device).repeat(len(chosen), 1)
        end = drive(method, oracle, method.init(x, oracle), streams, most)
        land = ladder.landscape(curvatures.to(context.device))

        def judged(points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            norms = torch.linalg.vector_norm(land.gradient(points), dim=1)
            least = land.smallest_eigenvalue(points)
            return sosp_level(norms, least, 1.0), norms, least.clamp_max(0).square()

        level, gradient, curvature = judged(end.anchor)
        columns = {
            "level": level, "curvature_binds": curvature > gradient,
            "false_stop": curvature >= found.alpha * (1 - 1e-9), "finished": end.status == Status.FINISHED,
            "steps": end.steps.double(), "tests": end.tests.double(),
        }  # fmt: skip
        if cell["kind"] == "level":  # nobody asks for the parts of the others
            columns |= {"gradient": gradient, "curvature": curvature, "last": judged(end.x)[0]}
        return columns

    columns = context.in_chunks(run, repeats, 8 * 40 * len(begin))
    settings = {"num_coordinates": float(len(begin)), "step_size": found.step_size}
    return {"repeat": np.arange(repeats), **settings, **columns}


def hill(alpha: float, tilt: float) -> tuple[float, float]:
    """Curvature at the top of a hill, and the place on its side with slope `tilt alpha` and curvature -sqrt(alpha).

    With `a sqrt(alpha)` on top, an angle away from it the curvature is `a cos` and the slope `a^2 sin` of theirs.

    Example:
      >>> import math
      >>> curvature, place = hill(0.01, 1.0)
      >>> round(curvature * math.cos(place / curvature), 6), round(curvature**2 * math.sin(place / curvature), 6)
      (0.1, 0.01)
    """
    a = math.sqrt((1 + math.sqrt(1 + 4 * tilt**2)) / 2)
    curvature = a * math.sqrt(alpha)
    return curvature, curvature * math.acos(min(1.0, 1 / a))


def single_hill(dim: int, curvature: float, place: float = 0.0) -> tuple[Tensor, Tensor]:
    """The curvatures of a hill in the first coordinate and of wells, all 1, in the others; and the point on the hill.

    Example:
      >>> curvatures, point = single_hill(3, 0.1)
      >>> land = ladder.landscape(curvatures)
      >>> float(land.gradient(point).norm()) < 1e-12, round(float(land.smallest_eigenvalue(point)), 12)
      (True, -0.1)
    """
    curvatures = torch.ones(dim, dtype=torch.float64)
    curvatures[0] = curvature
    point = math.pi * curvatures
    point[0] = place
    return curvatures, point


@joined
def _attempts(spec: Spec, cell: Cell, context: Context) -> Rows:
    """Single attempts from the side of one hill, at every tilt."""
    for tilt in spec["tilts"]:
        yield {"repeat": np.arange(spec["repeats_of_attempts"]), "tilt": tilt, **_at(tilt, spec, cell, context)}


def _at(tilt: float, spec: Spec, cell: Cell, context: Context) -> dict[str, np.ndarray]:
    """Single attempts, in coupled pairs (Definition 4), from the side of one hill, all else at its minimum.

    F is even, so the coupled path, with the noise along the hill reversed, is the mirror image of the one that starts
    at the mirror image with the same noise. Data noise has no part along the hill: it is shared.
    """
    found, length = parameters(spec, cell, cell["dim"])
    curvatures, begin = single_hill(cell["dim"], *hill(found.alpha, tilt))
    both = begin.repeat(2, 1)
    both[1, 0] *= -1

    def run(chosen: range) -> dict[str, Tensor]:
        names = [f"attempt/{cell['step']}/{cell['psi']:g}/{cell['dim']}/{tilt:g}/{r}" for r in chosen]
        streams = Streams.of(spec["seed"], names * 2, context.device)  # the same noise on either side
        start = both.to(context.device).repeat_interleave(len(names), 0)
        oracle = found.oracle(curvatures, len(start), length, context.device, ladder.quiet_first(cell["dim"]))
        farthest = torch.zeros_like(start[:, 0])

        def observe(going: Tensor, state: Any, estimate: Estimate) -> None:
            moved = torch.linalg.vector_norm(state.x - start[going], dim=1)
            farthest[going] = torch.maximum(farthest[going], moved)

        method = Descent(found.step_size)
        drive(method, oracle, method.init(start, oracle), streams, length, observe=observe)
        one, other = (farthest >= found.radius).view(2, -1)
        return {"escaped": one, "coupled": one | other}

    return context.in_chunks(run, spec["repeats_of_attempts"], 2 * 8 * 40 * cell["dim"])


@tabulated
def shares_by(frame: pd.DataFrame, keys: list[str], *hits: str) -> Rows:
    """One row a group: its `runs`; and of each column of hits their share, with `proportion`'s interval.

    >>> import pandas as pd
    >>> shares_by(pd.DataFrame({"knob": [1, 1], "left": [True, False]}), ["knob"], "left").round(2).to_dict("records")
    [{'knob': 1, 'runs': 2, 'left': 0.5, 'left_low': 0.01, 'left_high': 0.99}]
    """
    for values, part in frame.groupby(keys):
        row = {**dict(zip(keys, values, strict=True)), "runs": len(part)}
        for name in hits:
            count = int(part[name].sum())
            low, high = proportion(count, len(part))
            row |= {name: count / len(part), f"{name}_low": low, f"{name}_high": high}
        yield row


@tabulated
def slopes(frame: pd.DataFrame) -> Rows:
    """One row a step size: the slope of each level against psi, with its interval.

    `level` is that of the tested point, `last` of the last iterate, as printed; `gradient` and `curvature` are the
    tested point's parts.
    """
    for step, part in frame[frame["kind"] == "level"].groupby("step", sort=False):
        settings = part.groupby("psi")[["num_coordinates", "step_size"]].first()
        mus = [LadderParameters(float(psi), int(dim), float(step)).mu for psi, dim, step in settings.itertuples()]
        log_psi = np.log(settings.index.to_numpy(dtype=np.float64))
        with_logarithms = float(np.polyfit(log_psi, log_psi + 2 * np.log(mus), 1)[0])
        for column in ("level", "last", "gradient"):
            fit, over_psi = fitted(part, "psi", column), float(np.exp(np.log(part[column] / part["psi"]).mean()))
            row = {"step": step, "of": column, "slope": fit.slope, "low": fit.low, "high": fit.high}
            yield {**row, "half_width": fit.half_width, "over_psi": over_psi, "with_logarithms": with_logarithms}


def stays(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each step size with the share of runs that stay, by psi and hill."""
    for step, part in frame[frame["kind"] == "hill"].groupby("step", sort=False):
        yield str(step), part.groupby(["psi", "hill"])["curvature_binds"].mean().unstack()


@tabulated
def hills(frame: pd.DataFrame, spec: Spec) -> Rows:
    """One row a step size and psi: the squared curvature at which half the runs stay, over psi, and the theory's.

    `least` and `most` are how many stay on the first and on the last hill.
    """
    for step, shares in stays(frame):
        psi = shares.index.to_numpy()
        each = [parameters(spec, {"psi": x, "step": step, "shorter": 1.0}, spec["dim_of_hills"])[0] for x in psi]
        half = np.exp(half_way(shares.columns.to_numpy(), shares.to_numpy()))
        predicted = np.array([found.largest_curvature(spec["attempts"], 0.5) for found in each])
        yield {
            "step": step, "psi": psi, "curvature": half**2, "linear_theory": predicted**2 / psi,
            "alpha": np.array([found.alpha for found in each]) / psi, "least": shares.iloc[:, 0].to_numpy(),
            "most": shares.iloc[:, -1].to_numpy(),
        }  # fmt: skip


@tabulated
def slopes_of_hills(frame: pd.DataFrame, spec: Spec) -> Rows:
    """One row a step size: the slope of ln lambda_half^2 against ln psi, its interval, and the linear theory's."""
    table, repeats = hills(frame, spec), spec["repeats_of_hills"]
    for step, shares in stays(frame):
        psi = shares.index.to_numpy()
        drawn = np.random.default_rng(0).binomial(repeats, shares.to_numpy(), (4000, *shares.shape)) / repeats
        halves = half_way(shares.columns.to_numpy(), np.concatenate([shares.to_numpy()[None], drawn]))
        fit = Slope.of(psi, 2 * halves + np.log(psi))
        predicted = np.log(table.loc[table["step"] == step, "linear_theory"].to_numpy() * psi)
        row = {"step": step, "slope": fit.slope, "low": fit.low, "high": fit.high, "half_width": fit.half_width}
        yield {**row, "linear_theory": Slope.of(psi, [predicted] * 2).slope}


def escapes(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a saddle: how often single attempts and coupled pairs leave it, with 95% intervals."""
    return shares_by(frame[frame["kind"] == "attempt"], ["step", "psi", "dim", "tilt"], "escaped", "coupled")


def false_stops(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a Q and length: how often what is returned is a strict saddle, with 95% intervals, against (3/4)^Q."""
    found = shares_by(frame[frame["kind"] == "stop"], ["shorter", "Q"], "false_stop")
    names = {"false_stop": "false_stops", "false_stop_low": "low", "false_stop_high": "high"}
    return found.rename(columns=names).drop(columns="runs").assign(bound=0.75 ** found["Q"])


def decide(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The rule in the spec."""
    whole = frame[frame["kind"] != "attempt"]
    if lost := int((~whole["finished"]).sum()):
        return Decision("not reproduced", f"{lost} of {len(whole)} runs did not end")
    fits, left, stops = slopes(frame), escapes(frame), false_stops(frame)
    on_ladder, table, on_hills = fits[fits["of"] == "level"], hills(frame, spec), slopes_of_hills(frame, spec)
    full = stops[stops["shorter"] == 1]
    narrow = on_ladder["half_width"] <= _WIDTH
    kept = on_ladder["high"] >= on_ladder["with_logarithms"]
    narrow_hills = on_hills["half_width"] <= _WIDTH
    near = on_hills["linear_theory"].between(on_hills["low"] - _NEAR, on_hills["high"] + _NEAR)
    bad = (full["low"] > full["bound"]).any() or (narrow & ~kept).any() or (narrow_hills & ~near).any()
    bad |= (table["curvature"] > table["alpha"]).any()
    good = (narrow & kept).all() and (narrow_hills & near).all()
    good &= (table["least"] >= 0.9).all() and (table["most"] <= 0.1).all()

    pairs = [(row, f"on the ladder, predicted {row.with_logarithms:.3f} to 1") for row in on_ladder.itertuples()]
    pairs += [(row, f"on hills, linear theory {row.linear_theory:.3f}") for row in on_hills.itertuples()]
    words = [
        f"eta = {row.step}: slope {row.slope:+.3f} in [{row.low:+.3f}, {row.high:+.3f}] {what}" for row, what in pairs
    ]
    binds = frame.groupby("kind")["curvature_binds"].agg(["sum", "size"])
    (ladders, of_ladders), (tops, of_tops) = binds.loc["level"], binds.loc["hill"]
    over = fits.groupby("of")["over_psi"].mean()
    words += [
        f"the curvature binds in {ladders} of {of_ladders} runs on the ladder and {tops} of {of_tops} runs on hills",
        f"the tested point's error on the ladder is {over['level']:.2f} psi, the last iterate's {over['last']:.2f}",
    ]
    words += [
        f"eta = {step}: single attempts leave in {escaped:.0%} or more, coupled in {coupled:.0%}"
        for step, escaped, coupled in left.groupby("step")[["escaped", "coupled"]].min().itertuples()
    ]
    words.append("false stops " + ", ".join(f"{r['false_stops']:.1%} at Q = {r['Q']}" for r in full.to_dict("records")))

    def decided(step: str) -> Decision:
        """With (3) asked of attempts with this step."""
        found = left[left["step"] == step]
        stay = found["escaped_high"].min() < 0.25 or found["coupled_high"].min() < 0.5
        leave = found["escaped_low"].min() > 0.25 and found["coupled_low"].min() > 0.5
        return Decision.by("; ".join(words), failed=bad or stay, passed=good and leave)

    words.append(f"by the rule before: {decided('1/M').verdict}")
    return decided("theorem")


# ---------------------------------------------------------------- simulated results
@tabulated
def simulated(spec: Spec, generator: np.random.Generator, right: bool) -> Rows:
    """Runs whose errors scatter by 0.2, attempts as in a pilot, stops as in the quick runs, and hills by theory."""
    exponent = (1.0, 0.0) if right else (0.85, -0.1)
    flags = dict.fromkeys(("false_stop", "escaped", "coupled", "curvature_binds"), False)
    for cell in cells(spec):
        found, _ = parameters(spec, cell, cell["dim"] or 30)
        about = {"finished": True, **flags, **cell, "step_size": found.step_size, "num_coordinates": 30.0}
        if cell["kind"] == "level":
            level = 0.5 * cell["psi"] ** exponent[0] * np.exp(generator.normal(0, 0.2, spec["repeats"]))
            yield {**about, "repeat": np.arange(len(level)), "level": level, "last": level, "gradient": level}
        elif cell["kind"] == "hill":
            half = found.largest_curvature(spec["attempts"], 0.5) * (cell["psi"] / 1e-3) ** (exponent[1] / 2)
            stays = 1 / (1 + (cell["hill"] * cell["psi"] ** 0.5 / half) ** 15)
            binds = generator.random(spec["repeats_of_hills"]) < stays
            yield {**about, "repeat": np.arange(len(binds)), "curvature_binds": binds}
        elif cell["kind"] == "attempt":
            for tilt in spec["tilts"]:
                leaves = {10: 0.77, 100: 0.7, 1000: 0.55}[cell["dim"]] if tilt < 0.1 else 1.0
                drawn = generator.random((2, spec["repeats_of_attempts"])) < leaves
                coupled = drawn.any(0) if tilt else drawn[0]  # at the top of an even hill the two are one
                yield {**about, "tilt": tilt, "escaped": drawn[0], "coupled": coupled}
        else:
            fails = 0.17 if cell["shorter"] == 1 else 0.84
            yield {**about, "false_stop": generator.random(spec["repeats_of_stops"]) < fails ** cell["Q"]}


EXPERIMENT = study(
    WORDS, [QUICK, PAPER], (cells, run_cell, decide, simulated), chances={"quick": (1.0, 0.0), "paper": (1.0, 0.0)},
)  # fmt: skip
