"""The worlds in which the rules are tried out: how results would scatter if what is asked is so, and if it is not."""

from functools import lru_cache

import numpy as np
import pandas as pd

from dpnotes.experiments import Context, Spec, Simulation
from dpnotes.papers.budget_schedules.experiments import erub_gain, influence, quadratic
from dpnotes.privacy.accounting import epsilon_to_rho


def influences(spec: Spec, generator: np.random.Generator, right: bool) -> pd.DataFrame:
    """Influence 0.98^(T - t), or a straight line between the same ends, with the scatter of pilots of 3 repeats."""
    parts = []
    for cell in influence.cells(spec):
        steps = np.array(influence.probes(spec, cell["num_steps"]), dtype=np.float64)
        mean = 0.98 ** (cell["num_steps"] - steps)
        if not right:
            mean = mean[0] + (1 - mean[0]) * (steps - steps[0]) / (steps[-1] - steps[0])
        # A tenth of itself at the last step, and a twentieth of the last one where it is near 0.
        scatter = np.hypot(0.1 * mean, 0.05) * generator.standard_normal((spec["repeats"], len(steps)))
        repeats, step = np.meshgrid(np.arange(spec["repeats"]), steps.astype(np.int64), indexing="ij")
        columns = {"repeat": repeats.ravel(), "step": step.ravel(), "influence": (mean + scatter).ravel()}
        parts.append(pd.DataFrame({**cell, **columns, "finished": True}))
    return pd.concat(parts, ignore_index=True)


def digits_trained(spec: Spec, generator: np.random.Generator, right: bool) -> pd.DataFrame:
    """Gains in loss and accuracy that grow with ln N, or are the same at all sizes; paired scatter of the quick run."""
    parts = []
    for size in spec["num_examples"]:
        growth = 1 + np.log(size / 1000) / 4 if right else 1.0
        shrunk = (size / 1000) ** -0.6
        gains = {"train_loss": (-0.008, 0.0024), "test_accuracy": (0.0018, 0.0019)}
        for all_steps, first, count in (
            (True, 0, spec["repeats_of_all_steps"]),
            (False, spec["repeats_of_all_steps"], spec["repeats"] - spec["repeats_of_all_steps"]),
        ):
            levels = {name: generator.standard_normal(count) * 0.006 * shrunk for name in gains}
            for num_steps in spec["num_steps"] if all_steps else [100]:
                for kind in ("uniform", "exponential"):
                    columns = {
                        name: 0.5
                        + levels[name]
                        + (kind == "exponential")
                        * (growth * gain + scatter * shrunk * generator.standard_normal(count))
                        for name, (gain, scatter) in gains.items()
                    }
                    found = {"num_examples": size, "schedule": kind, "num_steps": num_steps, "all_steps": all_steps}
                    found |= {"chosen": num_steps == 100, "finished": True, "stage": "main"}
                    parts.append(pd.DataFrame({**found, "repeat": first + np.arange(count), **columns}))
    return pd.concat(parts, ignore_index=True)


def with_momentum(spec: Spec, generator: np.random.Generator, right: bool) -> pd.DataFrame:
    """A gain that momentum halves, or leaves as it is; gain and scatter without momentum are those of pilots."""
    small = spec["num_hidden"] < 1000
    gain, scatter = (0.0124, 0.0042) if small else (0.0078, 0.0018)
    parts = []
    for momentum in spec["momenta"]:
        level = 0.15 + 0.013 * generator.standard_normal(spec["repeats"])
        gained = (gain / 2 if momentum and right else gain) + scatter * generator.standard_normal(spec["repeats"])
        for kind, loss in (("uniform", level), ("dynamic", level - gained)):
            columns = {"repeat": np.arange(spec["repeats"]), "train_loss": loss, "test_accuracy": 1 - loss}
            found = {"stage": "main", "momentum": momentum, "schedule": kind, "finished": True}
            parts.append(pd.DataFrame({**found, **columns}))
    return pd.concat(parts, ignore_index=True)


def of_batches(spec: Spec, generator: np.random.Generator, right: bool) -> pd.DataFrame:
    """Half the gain that a pilot of 8 repeats found, or none; its paired scatter."""
    gain, scatter = 0.0016, 0.0012
    level = 0.15 + 0.01 * generator.standard_normal(spec["repeats"])
    gained = gain * right + scatter * generator.standard_normal(spec["repeats"])
    parts = [
        pd.DataFrame(
            {
                "stage": "main", "schedule": kind, "rate": rate, "repeat": np.arange(spec["repeats"]),
                "train_loss": loss, "test_accuracy": 1 - loss, "finished": True,
            }
        )
        for kind, rate, loss in (("uniform", 1.0, level), ("exponential", 0.98, level - gained))
    ]  # fmt: skip
    return pd.concat(parts, ignore_index=True)


@lru_cache(maxsize=32)
def _exact(spec_json: str, num_examples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, list[float]]]:
    """What the law of the runs is made of, by coordinate and schedule.

    Curvature; where the schedules end in the mean; a root of their covariance under common noise; and steps,
    prediction and bound of each schedule.
    """
    spec = Spec.from_json(spec_json)
    problem, x0 = quadratic.setting(spec, num_examples)
    rho = epsilon_to_rho(spec["epsilon"], spec["delta"], "classic")
    chosen = [quadratic.best_schedule(spec, problem, x0, name, rho) for name in quadratic.SCHEDULES]
    curvature = problem.spectrum.numpy()
    longest = max(schedule.num_steps for schedule, _ in chosen)
    start = (x0[0] - problem.center).numpy()
    mean = np.stack([(1 - curvature) ** schedule.num_steps * start for schedule, _ in chosen], axis=1)
    reached = np.zeros((len(curvature), len(chosen), longest))
    for place, (schedule, _) in enumerate(chosen):
        left = np.arange(schedule.num_steps - 1, -1, -1)
        std = schedule.noise_multipliers * spec["clip"] / num_examples
        reached[:, place, : schedule.num_steps] = (1 - curvature)[:, None] ** left * std
    values, vectors = np.linalg.eigh(reached @ reached.transpose(0, 2, 1))
    root = vectors * np.sqrt(values.clip(0))[:, None, :]
    facts = {
        "num_steps": [schedule.num_steps for schedule, _ in chosen],
        "predicted": [risk for _, risk in chosen],
        "bound": [quadratic.utility_bound(spec, schedule, num_examples) for schedule, _ in chosen],
    }
    return curvature, mean, root, facts


def quadratics(spec: Spec, generator: np.random.Generator, right: bool) -> pd.DataFrame:
    """The law of the runs itself; in the rival's world Theorem 4.5's runs end where uniform ones of other noise do."""
    parts = []
    for size in spec["num_examples"]:
        curvature, mean, root, facts = _exact(spec.json, size)

        def risks(curvature=curvature, mean=mean, root=root) -> np.ndarray:
            noise = generator.standard_normal((spec["repeats"], *mean.shape))
            points = mean + np.einsum("jsk,rjk->rjs", root, noise)
            return np.einsum("j,rjs->rs", curvature, points**2) / 2

        risk = risks()
        if not right:
            risk[:, quadratic.SCHEDULES.index("Theorem 4.5")] = risks()[:, quadratic.SCHEDULES.index("uniform")]
        for place, name in enumerate(quadratic.SCHEDULES):
            columns = {key: values[place] for key, values in facts.items()}
            repeats = {"repeat": np.arange(spec["repeats"]), "excess_risk": risk[:, place], "finished": True}
            parts.append(pd.DataFrame({"num_examples": size, "schedule": name, **repeats, **columns}))
    return pd.concat(parts, ignore_index=True)


@lru_cache(maxsize=4)
def _bounds(spec_json: str) -> pd.DataFrame:
    spec = Spec.from_json(spec_json)
    cells = [erub_gain.run_cell(spec, cell, Context("cpu", 10**9)) for cell in erub_gain.cells(spec)]
    return pd.concat([pd.DataFrame(cell) for cell in cells], ignore_index=True)


def bounds(spec: Spec, generator: np.random.Generator, right: bool) -> pd.DataFrame:
    """The bounds themselves, in which nothing is random; the rival's gain grows by a fifth less."""
    frame = _bounds(spec.json)
    return frame if right else frame.assign(integer_gain=1 + 0.8 * (frame["integer_gain"] - 1))


WORLDS = {
    "influence": Simulation(
        prediction="the influence is 0.98^(T - t) under every reading; each repeat scatters by a tenth of it, and by a "
        "twentieth of the last one, as in pilots of 3 repeats",
        rival="it grows along a straight line between the same ends",
        frame=influences,
        stated={"quick": (0.08, 0.0), "paper": (0.995, 0.0)},
    ),
    "mnist35": Simulation(
        prediction="the gains in loss and accuracy are 0.008 and 0.0018 at 1,000 examples, as in an earlier run of 8 "
        "repeats, and grow by a quarter of that a unit of ln N; repeats scatter as they did there",
        rival="the same gains at every size",
        frame=digits_trained,
        stated={"quick": (0.115, 0.01), "paper": (1.0, 0.03)},
    ),
    "momentum": Simulation(
        prediction="the gain is the one of pilots of 16 and 8 repeats without momentum, and half of it with momentum",
        rival="the same gain with momentum",
        frame=with_momentum,
        stated={"quick": (0.985, 0.015), "paper": (1.0, 0.04)},
    ),
    "subsampled": Simulation(
        prediction="half the gain of a pilot of 8 repeats, scattered as there",
        rival="no gain",
        frame=of_batches,
        stated={"quick": (1.0, 0.015), "paper": (1.0, 0.025)},
    ),
    "quadratic": Simulation(
        prediction="the runs follow their exact law, under common noise",
        rival="Theorem 4.5's schedule ends where the uniform one does",
        frame=quadratics,
        stated={"quick": (0.95, 0.0), "paper": (0.985, 0.0)},
    ),
    "erub_gain": Simulation(
        prediction="the bounds are what they are; nothing is random",
        rival="the gain grows with ln N by a fifth less",
        frame=bounds,
        stated={"quick": (1.0, 0.0), "paper": (1.0, 0.0)},
    ),
}
