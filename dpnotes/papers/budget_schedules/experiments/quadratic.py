"""A quadratic, where the expected excess risk is exact: predicted against simulated, and against the bound."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from dpnotes.core import Status
from dpnotes.experiments import Context, Decision, Experiment, Spec
from dpnotes.experiments.spec import Cell
from dpnotes.papers.budget_schedules.algorithms import private_gradient_descent, theorem_4_5_schedule
from dpnotes.privacy.accounting import epsilon_to_rho
from dpnotes.privacy.schedules import NoiseSchedule, exponential, from_influence, uniform
from dpnotes.problems.quadratics import Quadratic, log_spectrum
from dpnotes.streams import Streams

if TYPE_CHECKING:
    import pandas as pd

RULE = (
    "Reproduced if, for every schedule and size, the simulated mean is within 4 standard errors of the exact "
    "prediction and below the theorem's bound, the bootstrap interval of the slope of ln(excess risk) against "
    "ln(num_examples) contains the predicted slope for all four schedules (98.75% each, so 95% jointly), and Theorem "
    "4.5's schedule beats the uniform one at every size by more than 2 standard errors of the difference. Not "
    "reproduced if a run diverged, a mean is off by more than 4 standard errors, a bound is exceeded by more than 2, "
    "or the uniform schedule wins by more than 2. Undecided otherwise."
)
COMMON = {
    "decision_rule": RULE,
    "seed": "quadratic",
    "epsilon": 4.0,
    "delta": 1e-8,
    "dim": 10,
    "condition_number": 10.0,
    "spread": 1.0,
    "clip": 4.0,
    "initial_gap": 0.6931471805599453,
    "max_num_steps": 80,
}
QUICK = Spec("budget_schedules", "quadratic", "quick", {**COMMON, "num_examples": [250, 500, 1000], "repeats": 200})
PAPER = Spec(
    "budget_schedules",
    "quadratic",
    "paper",
    {**COMMON, "num_examples": [250, 500, 1000, 2000, 4000, 8000, 16000], "repeats": 2000},
)
SCHEDULES = ("uniform", "Theorem 4.5", "squared influence", "exact influence")


def schedule(name: str, problem: Quadratic, rho: float, num_steps: int) -> NoiseSchedule:
    """One of `SCHEDULES`, for step size 1 over the smoothness (which is 1).

    "squared influence" decays as the influence on this quadratic's slow directions does, gamma^{2(T-t)}; "exact
    influence" is the best schedule there is for this quadratic.
    """
    gamma = 1 - problem.constants["polyak_lojasiewicz"].value / problem.constants["smoothness"].value
    match name:
        case "uniform":
            return uniform(rho, num_steps)
        case "Theorem 4.5":
            return theorem_4_5_schedule(gamma, rho, num_steps)
        case "squared influence":
            return exponential(gamma**2, rho, num_steps)
        case _:
            return from_influence(problem.noise_influence(1.0, num_steps), rho)


def utility_bound(spec: Spec, schedule: NoiseSchedule, num_examples: int) -> float:
    """Theorem 4.2 on the expected excess risk: gap times `gamma^T + R sum_t gamma^{T-t} alpha sigma_t^2`."""
    gamma = 1 - 1 / spec["condition_number"]
    steps_left = np.arange(schedule.num_steps - 1, -1, -1)
    # alpha R = D G^2 / (2 M N^2 gap), with smoothness M = 1.
    noise = spec["dim"] * spec["clip"] ** 2 / (2 * num_examples**2 * spec["initial_gap"])
    variances = schedule.noise_multipliers**2
    return float(spec["initial_gap"] * (gamma**schedule.num_steps + noise * (gamma**steps_left @ variances)))


def setting(spec: Spec, num_examples: int) -> tuple[Quadratic, Tensor]:
    """The quadratic with this many examples, and the starting point whose gap is the spec's."""
    spectrum = log_spectrum(spec["dim"], spec["condition_number"])
    problem = Quadratic.sample(spectrum, num_examples, spec["spread"], spec["seed"])
    start = torch.full((1, spec["dim"]), 1.0, dtype=torch.float64)
    return problem, start * torch.sqrt(spec["initial_gap"] / problem.excess_risk(start))[:, None]


def best_schedule(spec: Spec, problem: Quadratic, x0: Tensor, name: str, rho: float) -> tuple[NoiseSchedule, float]:
    """The schedule at its own best number of steps, and the excess risk that is predicted for it, exactly."""
    best: tuple[NoiseSchedule, float] | None = None
    for num_steps in range(1, spec["max_num_steps"] + 1):
        candidate = schedule(name, problem, rho, num_steps)
        noise_std = candidate.noise_multipliers * spec["clip"] / problem.num_examples
        risk = float(problem.expected_excess_risk(x0[0], 1.0, noise_std))
        if best is None or risk < best[1]:
            best = candidate, risk
    assert best is not None
    return best


def cells(spec: Spec) -> list[Cell]:
    """One cell a size."""
    return [{"num_examples": size} for size in spec["num_examples"]]


def run_cell(spec: Spec, cell: Cell, context: Context) -> dict[str, np.ndarray]:
    """Every schedule at its best number of steps, `repeats` runs each, as one program."""
    problem, x0 = setting(spec, cell["num_examples"])
    rho = epsilon_to_rho(spec["epsilon"], spec["delta"], "classic")
    chosen = {name: best_schedule(spec, problem, x0, name, rho) for name in SCHEDULES}
    names = np.repeat(SCHEDULES, spec["repeats"])
    repeats = np.tile(np.arange(spec["repeats"]), len(SCHEDULES))
    on_device = Quadratic(*(t.to(context.device) for t in (problem.spectrum, problem.offsets, problem.center)))

    def run(rows: range) -> dict[str, np.ndarray]:
        part = slice(rows.start, rows.stop)
        # Common random numbers: the noise of a repeat is the same for every schedule.
        streams = Streams.of(spec["seed"], [f"{cell['num_examples']}/{r}" for r in repeats[part]], context.device)
        runs = private_gradient_descent(
            on_device,
            [chosen[name][0] for name in names[part]],
            x0.to(context.device).expand(len(rows), -1).clone(),
            streams,
            clip=spec["clip"],
            step_size=1.0,
            delta=spec["delta"],
        )
        risk = on_device.excess_risk(runs.x).cpu().numpy()
        return {"excess_risk": risk, "finished": (runs.state.status == Status.FINISHED).cpu().numpy()}

    # Two (runs, examples) arrays of float64, losses and norms, are held at once.
    columns = context.in_chunks(run, len(names), 8 * (4 * problem.num_examples + 20 * problem.dim))
    for name in SCHEDULES:
        spent = chosen[name][0].spent
        context.record_spent(mechanism="gaussian", rho=spent, relation="zero-out-one", schedule=name, data="synthetic")
    return {
        "num_examples": np.full(len(names), cell["num_examples"]),
        "schedule": names,
        "repeat": repeats,
        "num_steps": np.array([chosen[name][0].num_steps for name in names]),
        "predicted": np.array([chosen[name][1] for name in names]),
        "bound": np.array([utility_bound(spec, chosen[name][0], cell["num_examples"]) for name in names]),
        **columns,
    }


def summary(frame: "pd.DataFrame") -> "pd.DataFrame":
    """One row a schedule and size: simulated mean and its standard error beside prediction and bound."""
    groups = frame.groupby(["num_examples", "schedule"], sort=False)
    table = groups.agg(
        num_steps=("num_steps", "first"),
        simulated=("excess_risk", "mean"),
        standard_error=("excess_risk", "sem"),
        predicted=("predicted", "first"),
        bound=("bound", "first"),
    ).reset_index()
    table["z"] = (table["simulated"] - table["predicted"]) / table["standard_error"]
    return table


def slopes(frame: "pd.DataFrame", num_bootstrap: int = 2000) -> "pd.DataFrame":
    """Slope of ln(excess risk) against ln(num_examples) for each schedule, its bootstrap interval, the prediction.

    Four intervals of 98.75% hold together with 95%.
    """
    import pandas as pd

    generator = np.random.default_rng(0)
    rows = []
    for name, part in frame.groupby("schedule", sort=False):
        table = part.pivot(index="repeat", columns="num_examples", values="excess_risk")
        log_size = np.log(table.columns.to_numpy(dtype=np.float64))
        resampled = table.to_numpy()[generator.integers(len(table), size=(num_bootstrap, len(table)))].mean(1)
        fits = np.polynomial.polynomial.polyfit(log_size, np.log(resampled).T, 1)[1]
        predicted = part.groupby("num_examples")["predicted"].first().to_numpy()
        rows.append(
            {
                "schedule": name,
                "slope": np.polynomial.polynomial.polyfit(log_size, np.log(table.to_numpy().mean(0)), 1)[1],
                "low": np.quantile(fits, 0.00625),
                "high": np.quantile(fits, 0.99375),
                "predicted": np.polynomial.polynomial.polyfit(log_size, np.log(predicted), 1)[1],
            }
        )
    return pd.DataFrame(rows)


def decide(frame: "pd.DataFrame", spec: Spec) -> Decision:
    """The rule in the spec."""
    lost = int((~frame["finished"] | ~np.isfinite(frame["excess_risk"])).sum())
    if lost:
        return Decision("not reproduced", f"{lost} of {len(frame)} runs did not finish")
    table, fitted = summary(frame), slopes(frame)
    paired = frame.pivot(index=["num_examples", "repeat"], columns="schedule", values="excess_risk")
    gain = (paired["uniform"] - paired["Theorem 4.5"]).groupby("num_examples").agg(["mean", "sem"])
    wins = gain["mean"] / gain["sem"]
    worst = table.loc[table["z"].abs().idxmax()]
    over = ((table["simulated"] - table["bound"]) / table["standard_error"]).max()
    missed = fitted[(fitted["predicted"] < fitted["low"]) | (fitted["predicted"] > fitted["high"])]
    facts = (
        f"largest deviation {worst['z']:+.1f} standard errors ({worst['schedule']}, N = {worst['num_examples']}); "
        f"means stay {-over:.0f} or more standard errors below the bounds; "
        f"Theorem 4.5 beats uniform by {wins.min():.1f} or more"
    )
    if abs(worst["z"]) > 4 or over > 2 or wins.min() < -2:
        return Decision("not reproduced", facts)
    if over > 0 or wins.min() < 2 or len(missed):
        return Decision(
            "undecided", facts + (f"; slope missed for {', '.join(missed['schedule'])}" if len(missed) else "")
        )
    return Decision("reproduced", facts)


EXPERIMENT = Experiment(
    paper="budget_schedules",
    name="quadratic",
    title="Quadratic: exact expected excess risk, simulated and bounded",
    question="Does noisy descent do what the algebra says, and does a dynamic schedule beat a uniform one?",
    specs={"quick": QUICK, "paper": PAPER},
    cells=cells,
    run_cell=run_cell,
    decide=decide,
)
