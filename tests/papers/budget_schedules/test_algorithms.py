"""Algorithm 1 end to end, its schedules, and the paper's statements about them."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpnotes.core import Relation, Status
from dpnotes.guarantees import (
    GIVEN_IS_PUBLIC,
    REAL_NUMBERS,
    SEED_IS_PUBLIC,
    STATISTICS_WITHOUT_NOISE,
    TUNED_ON_PRIVATE_DATA,
)
from dpnotes.papers.budget_schedules.algorithms import (
    momentum_influence,
    momentum_influence_majorant,
    momentum_schedule,
    private_gradient_descent,
    theorem_4_5_schedule,
    turning_step,
)
from dpnotes.privacy.accounting import epsilon_to_rho
from dpnotes.privacy.noise import LossAdaptiveNoise
from dpnotes.privacy.schedules import exponential, step_decay, uniform
from dpnotes.problems.quadratics import Quadratic, log_spectrum
from dpnotes.random.streams import Streams

DELTA = 1e-8
RHO = epsilon_to_rho(4.0, DELTA, "classic")
PROBLEM = Quadratic.sample(log_spectrum(4, condition_number=10.0), num_examples=60, spread=0.5, seed=0)


def train(noise, runs: int, **changes: Any):
    settings: dict[str, Any] = {"clip": 4.0, "step_size": 0.5, "delta": DELTA} | changes
    x = torch.ones(runs, 4, dtype=torch.float64)
    return private_gradient_descent(PROBLEM, noise, x, Streams.of(0, range(runs)), **settings)


def test_schedules_budgets_and_lengths_are_one_program():
    schedules = [
        uniform(RHO, 20),
        theorem_4_5_schedule(0.9, RHO, 35),
        exponential(0.95, 2 * RHO, 10),
        momentum_schedule(0.5, 0.9, RHO, 15),
        step_decay(0.5, 10, RHO, 25),
    ]
    runs = train(schedules, 5)
    assert runs.state.steps.tolist() == [20, 35, 10, 15, 25]
    assert (runs.state.status == Status.FINISHED).all()
    assert torch.allclose(runs.ledger.rho(), torch.tensor([s.rho for s in schedules], dtype=torch.float64), rtol=1e-9)
    assert [round(g.epsilon, 4) for g in runs.guarantees] == [3.4565, 3.4565, 5.0521, 3.4565, 3.4565]
    assert runs.guarantees[0].relation == Relation.ZERO_OUT
    assert runs.guarantees[0].assumptions[0].basis == "assumed"


def test_replacing_an_example_costs_four_times_the_budget_at_the_same_noise():
    half = train([uniform(RHO, 5)], 1)
    whole = train([uniform(RHO, 5)], 1, relation=Relation.REPLACE_ONE)
    assert whole.guarantees[0].epsilon == half.guarantees[0].epsilon  # twice the noise, the same claim
    assert whole.guarantees[0].relation == Relation.REPLACE_ONE
    assert not torch.allclose(whole.x, half.x)


def test_the_loss_adaptive_baseline_claims_its_budget_and_no_more():
    ones = torch.ones(2, dtype=torch.float64)
    noise = LossAdaptiveNoise(RHO * ones, RHO * ones / 30, 1.2, 40 * ones)
    runs = train(noise, 2)
    assert (runs.state.status == Status.BUDGET_EXHAUSTED).all()
    assert (runs.ledger.rho() <= RHO * (1 + 1e-9)).all()
    assert runs.guarantees[0].accountant == "exact Gaussian"
    assert runs.guarantees[0].epsilon == pytest.approx(train([uniform(RHO, 5)], 1).guarantees[0].epsilon)


def test_a_run_that_stops_early_claims_what_it_declared():
    runs = train([uniform(RHO, 50)], 1, step_size=1e300, clip=1e9)
    assert int(runs.state.status[0]) == Status.DIVERGED and float(runs.ledger.rho()[0]) < RHO / 2
    assert round(runs.guarantees[0].epsilon, 4) == 3.4565


def test_a_run_s_guarantee_names_what_it_rests_on_and_what_the_caller_says_it_leaves_out():
    silent = train([uniform(RHO, 5)], 1).guarantees[0]
    assert silent.not_covered == () and "NOT covered" not in str(silent)
    assert silent.assumptions == (SEED_IS_PUBLIC, REAL_NUMBERS, GIVEN_IS_PUBLIC)
    left_out = (TUNED_ON_PRIVATE_DATA, STATISTICS_WITHOUT_NOISE, "the choice of the classes")
    for claim in train([uniform(RHO, 5), uniform(RHO, 6)], 2, not_covered=left_out).guarantees:
        assert claim.not_covered == left_out and claim.epsilon == silent.epsilon
        assert str(claim).endswith(f"; NOT covered: {'; '.join(left_out)}")


@given(st.floats(0.3, 0.999), st.floats(1e-3, 10), st.integers(1, 400))
@pytest.mark.slow
def test_the_closed_form_of_theorem_4_5_is_the_optimal_exponential(gamma, rho, num_steps):
    closed, optimal = theorem_4_5_schedule(gamma, rho, num_steps), exponential(gamma, rho, num_steps)
    np.testing.assert_allclose(closed.noise_multipliers, optimal.noise_multipliers, rtol=1e-9)
    assert closed.spent <= rho


@pytest.mark.parametrize(("momentum", "gamma"), [(0.9, 0.99), (0.5, 0.9), (0.1, 0.9), (0.8, 0.95), (0.3, 0.6)])
@pytest.mark.parametrize("num_steps", [1, 3, 20, 300])
def test_the_corrected_majorant_bounds_the_exact_influence(momentum, gamma, num_steps):
    exact = momentum_influence(momentum, gamma, num_steps)
    majorant = momentum_influence_majorant(momentum, gamma, num_steps)
    assert (exact <= majorant).all()
    turn = turning_step(momentum, gamma)
    if num_steps > turn > 1:  # the control: with gamma^{2 T-hat} in c_2, as printed, it is no bound
        steps = np.arange(1, num_steps + 1)
        printed = np.where(steps <= turn, majorant, majorant * gamma**turn)
        assert (exact > printed).any()


def test_the_momentum_influence_is_its_double_sum():
    beta, gamma, num_steps = 0.7, 0.9, 25
    for i, value in enumerate(momentum_influence(beta, gamma, num_steps), start=1):
        terms = [
            gamma ** (num_steps - t) * ((1 - beta) / (1 - beta**t)) ** 2 * beta ** (2 * (t - i))
            for t in range(i, num_steps + 1)
        ]
        assert value == pytest.approx(math.fsum(terms), rel=1e-12)


def test_the_schedule_from_the_majorant_can_be_worse_than_uniform():
    beta, gamma, num_steps = 0.9, 0.99, 460
    exact = momentum_influence(beta, gamma, num_steps)
    by_majorant = np.sqrt(momentum_influence_majorant(beta, gamma, num_steps))
    value = exact @ (by_majorant.sum() / by_majorant)
    assert (round(value), round(num_steps * exact.sum()), round(np.sqrt(exact).sum() ** 2)) == (2663, 2411, 1755)
