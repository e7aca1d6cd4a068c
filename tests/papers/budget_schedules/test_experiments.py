"""The decision rules on simulated outcomes: each verdict is reached by the outcome that implies it."""

import numpy as np
import pandas as pd
import pytest
import torch
from specs import changed, frame_of, simulated

from dpnotes.experiments.sweeps import grid
from dpnotes.papers.budget_schedules.experiments import (
    digits,
    erub_gain,
    influence,
    mnist35,
    momentum,
    quadratic,
    subsampled,
)
from dpnotes.privacy.accounting import account
from dpnotes.random.streams import Streams


# ---------------------------------------------------------------- (a) influence
def influences(*shapes, noise: float = 1e-3) -> pd.DataFrame:
    """Return readings with these shapes, functions of step and number of steps, in turn."""
    spec = influence.PAPER
    draws = np.random.default_rng(0)
    rows = [
        {**cell, "repeat": repeat, "step": step, "influence": value * (1 + noise * draws.normal()), "finished": True}
        for number, cell in enumerate(influence.cells(spec))
        for repeat in range(spec["repeats"])
        for step in influence.probes(spec, cell["num_steps"])
        for value in [shapes[number % len(shapes)](step, cell["num_steps"])]
    ]
    return pd.DataFrame(rows)


def exponential(step, num_steps):
    return np.exp(0.05 * step)


def straight(step, num_steps):
    return 0.2 + step / num_steps


def negative(step, num_steps):
    return step - num_steps / 2


@pytest.mark.parametrize(
    ("shapes", "verdict", "counted"),
    [
        ([exponential], "reproduced", "exponential, by steps and output scale: 50 steps at 1, 50"),
        ([negative], "not reproduced", "not counted, data scale 5: 6 not exponential"),
        ([straight], "not reproduced", "not counted, data scale 20: 6 not exponential"),
        ([lambda t, T: np.exp(-0.05 * t)], "undecided", "undecided, by steps and output scale: 50 steps at 1, 50"),
        ([exponential, negative], "undecided", "data scale 5: 3 exponential, 3 not exponential"),
    ],
)
def test_the_rule_on_influences(shapes, verdict, counted):
    decision = influence.decide(influences(*shapes), influence.PAPER)
    assert decision.verdict == verdict and counted in decision.reason


def test_three_quarters_of_the_readings_are_enough_if_none_fails():
    frame = influences(exponential)
    for output_scales, verdict in (([1.0], "reproduced"), ([1.0, 5.0], "undecided")):  # 5 of 6 readings, 4 of 6
        # An influence that cannot be distinguished from 0 leaves its reading undecided.
        unclear = (frame["step"] == 1) & (frame["num_steps"] == 50) & frame["output_scale"].isin(output_scales)
        other = frame.copy()
        other.loc[unclear, "influence"] *= np.where(other.loc[unclear, "repeat"] % 2, 40.0, -38.0)
        assert influence.decide(other, influence.PAPER).verdict == verdict


# ---------------------------------------------------------------- (b) MNIST35
def trained(gain: float, accuracy: float, growth: float = 0.0, **changes) -> pd.DataFrame:
    """Return losses in which exponential beats uniform by `gain`, accuracy by `accuracy`, at 1,000 examples.

    The gain in loss grows by `growth` per unit of ln N.
    """
    sizes, repeats = mnist35.QUICK["num_examples"], range(mnist35.QUICK["repeats"])
    runs = grid(
        num_examples=sizes, repeat=repeats, num_steps=mnist35.QUICK["num_steps"], schedule=["uniform", "exponential"]
    )
    frame = pd.DataFrame(runs).assign(stage="main", all_steps=True, finished=True)
    better, scatter = frame["schedule"] == "exponential", 1e-3 * np.random.default_rng(0).normal(size=(2, len(frame)))
    gained = (gain + growth * np.log(frame["num_examples"] / 1000)) * better
    loss = 0.5 - gained + scatter[0] + 1e-4 * frame["num_steps"]
    chosen = {"rate": np.where(better, 0.98, 1.0), "chosen": frame["num_steps"] == 100}
    return frame.assign(train_loss=loss, test_accuracy=0.9 + accuracy * better + scatter[1], **chosen | changes)


@pytest.mark.parametrize(
    ("gain", "accuracy", "growth", "verdict"),
    [
        (0.02, 0.02, 0.01, "reproduced"),
        (0.02, 0.0, 0.01, "undecided"),
        (0.0, 0.0, 0.0, "undecided"),
        (0.02, 0.02, -0.01, "reproduced"),  # growth is not the paper's claim
        (-0.02, 0.02, 0.01, "not reproduced"),
        (0.02, -0.02, 0.01, "not reproduced"),
    ],
)
def test_the_rules_on_mnist35(gain, accuracy, growth, verdict):
    assert mnist35.decide(trained(gain, accuracy, growth), mnist35.QUICK).verdict == verdict


def test_a_run_that_did_not_finish_is_not_chosen():
    tuned = trained(0.02, 0.02, stage="tune")
    assert mnist35.choose(tuned, 250)["exponential"] == {"rate": 0.98, "num_steps": 50}
    tuned.loc[tuned["num_steps"] == 50, "finished"] = False
    assert mnist35.choose(tuned, 250)["exponential"] == {"rate": 0.98, "num_steps": 100}


def test_steps_chosen_on_private_data_are_chosen_on_one_half_and_reported_on_the_other():
    frame = trained(0.02, 0.02)
    table = mnist35.differences(frame)
    private = table[(table["choice"] == "private") & (table["num_examples"] == 1000)]
    assert set(private["repeats"]) == {4}
    reported = (frame["repeat"] % 2 == 1) & (frame["num_steps"] == 150)
    frame.loc[reported, "train_loss"] = -1.0  # only seen in the half reported
    pd.testing.assert_frame_equal(table, mnist35.differences(frame))


def test_second_stage_cells_carry_what_the_first_chose():
    tuned = pd.concat([trained(0.02, 0.02, stage="tune").assign(num_examples=n) for n in (250, 1000, 11552)])
    spec = changed(mnist35.PAPER, num_examples=[250, 1000, 11552])
    cells = mnist35.main_cells(spec, tuned)
    assert cells[0]["chosen"]["uniform"] == {"rate": 1.0, "num_steps": 50}
    few = mnist35._plans(spec, {**cells[-1]}, 0.2)
    many = mnist35._plans(spec, {**cells[-1], "all_steps": True}, 0.2)
    assert len(few) == 2 and len(many) == 10 and {plan[:2] for plan in few} == {("uniform", 1.0), ("exponential", 0.98)}


# ---------------------------------------------------------------- momentum, random batches
TINY = {"num_components": 5, "num_hidden": 5, "num_examples": 30, "num_steps": 4, "auxiliary_repeats": 2}


def repeated(runs: list[dict]) -> pd.DataFrame:
    """Return 16 repeats of each run, whose loss is less by its gain."""
    frame = pd.DataFrame(runs).merge(pd.DataFrame({"repeat": range(16)}), how="cross")
    loss = 0.5 - frame.pop("gain") + 1e-3 * np.random.default_rng(1).normal(size=len(frame))
    return frame.assign(stage="main", finished=True, train_loss=loss, test_accuracy=0.9)


@pytest.mark.parametrize(
    ("without", "with_it", "verdict"),
    [
        (0.01, 0.004, "reproduced"),
        (0.01, 0.01, "undecided"),
        (0.01, 0.02, "not reproduced"),
        (-0.01, -0.02, "not reproduced"),
    ],
)
def test_the_rule_on_momentum(without, with_it, verdict):
    runs = [
        {"momentum": beta, "schedule": kind, "gain": gain * (kind == "dynamic")}
        for beta, gain in ((0.0, without), (0.9, with_it))
        for kind in ("uniform", "dynamic")
    ]
    assert momentum.decide(repeated(runs), momentum.QUICK).verdict == verdict


@pytest.mark.parametrize(("gain", "verdict"), [(0.01, "reproduced"), (0.0, "undecided"), (-0.01, "not reproduced")])
def test_the_rule_on_random_batches(gain, verdict):
    exponential = {"schedule": "exponential", "rate": 0.98, "gain": gain}
    frame = repeated([{"schedule": "uniform", "rate": 1.0, "gain": 0.0}, exponential])
    assert subsampled.decide(frame, subsampled.QUICK).verdict == verdict


@pytest.mark.slow
def test_schedules_of_random_batches_have_the_budget_and_the_shape():
    for rate in (1.0, 0.9):
        levels = subsampled.multipliers(rate, 10, 0.1, 4.0, 1e-8)
        assert account(subsampled.released(levels, 0.1), 1e-8, "RDP").epsilon <= 4.0
        assert account(subsampled.released(0.999 * np.array(levels), 0.1), 1e-8, "RDP").epsilon > 4.0
        np.testing.assert_allclose(np.array(levels[1:]) / np.array(levels[:-1]), rate**0.25, rtol=1e-9)


def test_a_random_batch_of_everything_is_the_whole_data_set_s_step():
    spec = changed(subsampled.QUICK, **TINY, sampling_rate=0.999999999)
    sets = digits.Sets.of(spec, "tune", 30, [0], "cpu")
    problem = sets.network([0, 0])
    ends, finished = subsampled.train(spec, problem, np.full((2, 4), 1e-6), ["a", "b"])
    x = problem.initial(Streams.of(spec["seed"], ["a", "b"]))
    for _ in range(4):
        gradients = problem.gradients(x)
        x = x - 0.1 * gradients.weighted_sum(4.0 / 30 / gradients.norms().clamp_min(4.0))
    torch.testing.assert_close(ends, x, rtol=0, atol=1e-5)
    assert finished.all()


# ---------------------------------------------------------------- (c) quadratic
def test_the_quadratic_is_judged_and_each_way_to_fail_is_seen():
    frame = simulated(quadratic)
    assert quadratic.decide(frame, quadratic.QUICK).verdict == "reproduced"
    for wrong in (
        {"predicted": frame["predicted"] * 1.5}, {"bound": frame["predicted"] * 0.5}, {"excess_risk": np.nan},
    ):  # fmt: skip
        assert quadratic.decide(frame.assign(**wrong), quadratic.QUICK).verdict == "not reproduced"
    swapped = frame.copy()
    uniform, dynamic = (swapped["schedule"] == name for name in ("uniform", "Theorem 4.5"))
    swapped.loc[uniform, "schedule"], swapped.loc[dynamic, "schedule"] = "Theorem 4.5", "uniform"
    assert quadratic.decide(swapped, quadratic.QUICK).verdict == "not reproduced"


# ---------------------------------------------------------------- (d) gain of the bounds
@pytest.mark.parametrize("profile", ["quick", "paper"])
def test_the_gain_is_judged_and_each_way_to_fail_is_seen(profile):
    spec = erub_gain.EXPERIMENT.spec(profile)
    frame = frame_of(erub_gain, spec)
    assert erub_gain.decide(frame, spec).verdict == "reproduced"
    assert erub_gain.decide(frame.assign(integer_gain=frame["integer_gain"] ** 2), spec).verdict == "not reproduced"
    assert erub_gain.decide(frame.assign(integer_gain=1 / frame["integer_gain"]), spec).verdict == "not reproduced"
    small = frame[frame["num_examples"] < 1e5]
    assert erub_gain.decide(small, spec).verdict == "undecided"
