"""The decision rules on made-up outcomes: each verdict is reached by the outcome that deserves it."""

import numpy as np
import pandas as pd
import pytest

from dpnotes.experiments import Context, Spec
from dpnotes.papers.budget_schedules.experiments import EXPERIMENTS, erub_gain, influence, mnist35, quadratic


def test_every_experiment_has_both_profiles_and_a_rule():
    assert [e.name for e in EXPERIMENTS] == ["influence", "mnist35", "quadratic", "erub_gain"]
    for experiment in EXPERIMENTS:
        for profile in ("quick", "paper"):
            rule = experiment.spec(profile)["decision_rule"].lower()
            assert all(outcome in rule for outcome in ("reproduced if", "not reproduced if", "undecided"))
            assert experiment.cells(experiment.spec(profile))


# ---------------------------------------------------------------- (a) influence
def influences(shape, noise: float = 1e-3) -> pd.DataFrame:
    spec = influence.QUICK
    draws = np.random.default_rng(0)
    rows = [
        {"max_norm": m, "repeat": r, "step": t, "influence": shape(t) * (1 + noise * draws.normal()), "finished": True}
        for m in spec["max_norms"]
        for r in range(spec["repeats"])
        for t in spec["probes"]
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("shape", "verdict"),
    [
        (lambda t: np.exp(0.05 * t), "reproduced"),
        (lambda t: np.exp(-0.05 * t), "undecided"),  # exponential, but falling
        (lambda t: t - 20.0, "not reproduced"),  # negative at the first steps
        (lambda t: 1.0 + 1e-9 * t, "not reproduced"),  # no trend that a line could explain
        (lambda t: 1.0 + (t / 40) ** 8, "undecided"),
    ],
)
def test_the_rule_on_influences(shape, verdict):
    assert influence.decide(influences(shape), influence.QUICK).verdict == verdict


def test_an_influence_that_is_negative_by_chance_alone_decides_nothing():
    frame = influences(lambda t: np.exp(0.05 * t), noise=1e-3)
    first = (frame["step"] == 1) & (frame["max_norm"] == 5.0)
    frame.loc[first, "influence"] = [-2.0, 1.0, -1.5, 0.9]
    assert influence.decide(frame, influence.QUICK).verdict == "undecided"
    frame.loc[first, "finished"] = False
    assert "did not finish" in influence.decide(frame, influence.QUICK).reason


# ---------------------------------------------------------------- (b) MNIST35
def trained(gain: float, accuracy: float, **changes) -> pd.DataFrame:
    """Exponential better than uniform by `gain` in loss and by `accuracy`, with a little noise."""
    spec = mnist35.QUICK
    draws = np.random.default_rng(0)
    rows = []
    for size in spec["num_examples"]:
        for repeat in range(spec["repeats"]):
            for num_steps in spec["num_steps"]:
                for kind in ("uniform", "exponential"):
                    better = kind == "exponential"
                    rows.append(
                        {
                            "stage": "main",
                            "num_examples": size,
                            "repeat": repeat,
                            "schedule": kind,
                            "rate": 0.98 if better else 1.0,
                            "num_steps": num_steps,
                            "chosen": num_steps == 100,
                            "train_loss": 0.5 - gain * better + 1e-3 * draws.normal() + 1e-4 * num_steps,
                            "test_accuracy": 0.9 + accuracy * better + 1e-3 * draws.normal(),
                            "finished": True,
                        }
                    )
    return pd.DataFrame(rows).assign(**changes)


@pytest.mark.parametrize(
    ("gain", "accuracy", "verdict"),
    [
        (0.02, 0.02, "reproduced"),
        (0.02, 0.0, "undecided"),
        (0.0, 0.0, "undecided"),
        (-0.02, 0.02, "not reproduced"),
        (0.02, -0.02, "not reproduced"),
    ],
)
def test_the_rule_on_mnist35(gain, accuracy, verdict):
    assert mnist35.decide(trained(gain, accuracy), mnist35.QUICK).verdict == verdict


def test_a_run_that_did_not_finish_decides_nothing_and_is_not_chosen():
    frame = trained(0.02, 0.02)
    frame.loc[(frame["schedule"] == "exponential") & (frame["num_examples"] == 1000), "finished"] = False
    decision = mnist35.decide(frame, mnist35.QUICK)
    assert decision.verdict == "undecided" and "8 of 16 runs" in decision.reason
    tuned = trained(0.02, 0.02, stage="tune")
    assert mnist35.choose(tuned, 250)["exponential"] == {"rate": 0.98, "num_steps": 50}
    tuned.loc[tuned["num_steps"] == 50, "finished"] = False
    assert mnist35.choose(tuned, 250)["exponential"] == {"rate": 0.98, "num_steps": 100}


def test_steps_chosen_on_private_data_are_chosen_on_one_half_and_reported_on_the_other():
    frame = trained(0.02, 0.02)
    table = mnist35.differences(frame)
    private = table[(table["choice"] == "private") & (table["num_examples"] == 1000)]
    assert set(private["repeats"]) == {4}
    frame.loc[
        (frame["repeat"] % 2 == 1) & (frame["num_steps"] == 150), "train_loss"
    ] = -1.0  # only seen in the half reported
    pd.testing.assert_frame_equal(table, mnist35.differences(frame))


def test_second_stage_cells_carry_what_the_first_chose():
    cells = mnist35.main_cells(mnist35.QUICK, trained(0.02, 0.02, stage="tune"))
    assert len(cells) == 16 and cells[0]["chosen"]["uniform"] == {"rate": 1.0, "num_steps": 50}


def test_repeats_share_a_cell_and_are_what_they_are_alone():
    def cells_of(together):
        parameters = {
            **mnist35.QUICK.parameters,
            "num_components": 5,
            "num_hidden": 5,
            "num_steps": [3, 4],
            "repeats": 5,
        }
        spec = Spec("budget_schedules", "mnist35", "quick", {**parameters, "repeats_a_cell": together})
        return spec, mnist35.main_cells(spec, trained(0.02, 0.02, stage="tune"))

    spec, cells = cells_of(3)
    assert [cell["repeats"] for cell in cells] == [[0, 1, 2], [3, 4]] * 2
    # On auxiliary data, which need no file.
    cell = {"stage": "tune", "num_examples": 20}
    together = mnist35.run_cell(spec, {**cell, "repeats": [0, 1]}, Context("cpu", 10**9))
    alone = [mnist35.run_cell(spec, {**cell, "repeats": [repeat]}, Context("cpu", 10**9)) for repeat in (0, 1)]
    for name, column in together.items():
        expected = np.concatenate([part[name] for part in alone])
        if column.dtype.kind == "f":
            np.testing.assert_allclose(column, expected, rtol=1e-5)
        else:
            np.testing.assert_array_equal(column, expected)


# ---------------------------------------------------------------- (c) quadratic
@pytest.fixture(scope="module")
def simulated() -> pd.DataFrame:
    spec = quadratic.Spec("budget_schedules", "quadratic", "quick", {**quadratic.QUICK.parameters, "repeats": 120})
    parts = [quadratic.run_cell(spec, cell, Context("cpu", 10**9)) for cell in quadratic.cells(spec)]
    return pd.concat([pd.DataFrame(part) for part in parts])


def test_the_simulated_quadratic_is_judged_and_each_way_to_fail_is_seen(simulated):
    assert quadratic.decide(simulated, quadratic.QUICK).verdict in ("reproduced", "undecided")
    off = simulated.assign(predicted=simulated["predicted"] * 1.5)
    assert quadratic.decide(off, quadratic.QUICK).verdict == "not reproduced"
    low = simulated.assign(bound=simulated["predicted"] * 0.5)
    assert quadratic.decide(low, quadratic.QUICK).verdict == "not reproduced"
    swapped = simulated.copy()
    uniform, dynamic = (swapped["schedule"] == name for name in ("uniform", "Theorem 4.5"))
    swapped.loc[uniform, "schedule"], swapped.loc[dynamic, "schedule"] = "Theorem 4.5", "uniform"
    assert quadratic.decide(swapped, quadratic.QUICK).verdict == "not reproduced"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_quadratic_that_diverged_is_not_reproduced(simulated, value):
    frame = simulated.copy().reset_index(drop=True)
    frame.loc[3, "excess_risk"] = value
    assert quadratic.decide(frame, quadratic.QUICK) == quadratic.Decision(
        "not reproduced", f"1 of {len(frame)} runs did not finish"
    )


# ---------------------------------------------------------------- (d) gain of the bounds
@pytest.mark.parametrize("profile", ["quick", "paper"])
def test_the_gain_is_judged_and_each_way_to_fail_is_seen(profile):
    spec = erub_gain.EXPERIMENT.spec(profile)
    parts = [erub_gain.run_cell(spec, cell, Context("cpu", 10**9)) for cell in erub_gain.cells(spec)]
    frame = pd.concat([pd.DataFrame(part) for part in parts])
    assert erub_gain.decide(frame, spec).verdict == "reproduced"
    assert erub_gain.decide(frame.assign(integer_gain=frame["integer_gain"] ** 2), spec).verdict == "not reproduced"
    assert erub_gain.decide(frame.assign(integer_gain=1 / frame["integer_gain"]), spec).verdict == "not reproduced"
    small = frame[frame["num_examples"] < 1e5]
    assert erub_gain.decide(small, spec).verdict == "undecided"
