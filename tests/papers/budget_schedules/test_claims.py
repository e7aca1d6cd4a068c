"""The claims of Hong, Wang and Zhou: counterexamples and calculators. Tests of all papers are one folder up."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.signal import lfilter

from dpnotes.papers import claim
from dpnotes.papers.budget_schedules import calculators
from dpnotes.papers.budget_schedules import notation as s
from dpnotes.papers.budget_schedules.algorithms import momentum_influence, momentum_influence_majorant, turning_step
from dpnotes.papers.budget_schedules.claims import rates


# ---------------------------------------------------------------- calculators
def calculate(name, **numbers):
    return claim(f"budget_schedules.{name}").calculator()(**numbers)


def test_zcdp_conversion_is_the_papers_own_number():
    found = calculate("lemmaC.4.inversion", epsilon=4.0, delta=1e-8)
    assert found["rho"] == pytest.approx(0.1963518534, abs=1e-10) and found["R"] == 2 * found["rho"]
    assert type(found["rho"]) is float
    tiny = calculate("lemmaC.4.inversion", epsilon=1e-9, delta=1e-5)["rho"]
    assert tiny == pytest.approx(1e-18 / (4 * math.log(1e5)), rel=1e-6)


def uniform(steps, kappa, alpha):
    power = math.exp(steps * math.log1p(-1 / kappa))
    return power + alpha * kappa * (1 - power) * steps


def dynamic(steps, kappa, alpha):
    power = math.exp(steps * math.log1p(-1 / kappa))
    return power + alpha * ((1 - math.sqrt(power)) / (1 - math.sqrt(1 - 1 / kappa))) ** 2


@pytest.mark.parametrize(("name", "bound"), [("thm4.3.minimum", uniform), ("thm4.5.minimiser", dynamic)])
@pytest.mark.parametrize(("kappa", "alpha"), [(10, 1e-3), (1000, 1e-4), (1.01, 0.3), (3, 1e-12), (200, 1e-8)])
def test_optima_against_a_search(name, bound, kappa, alpha):
    found = calculate(name, kappa=kappa, alpha=alpha)
    grid = np.linspace(-15, 15, 601)
    near = grid[int(np.argmin([bound(math.exp(log), kappa, alpha) for log in grid]))]
    around = {"bounds": (near - 0.1, near + 0.1), "method": "bounded", "options": {"xatol": 1e-10}}
    best = minimize_scalar(lambda log: bound(math.exp(log), kappa, alpha), **around)
    assert found["erub"] == pytest.approx(best.fun, rel=1e-7)
    assert found["steps"] == pytest.approx(math.exp(best.x), rel=1e-3)
    integers = [bound(steps, kappa, alpha) for steps in range(1, math.ceil(2 * found["steps"]) + 3)]
    assert found["integer_steps"] == 1 + int(np.argmin(integers))
    assert found["integer_erub"] == pytest.approx(min(integers), rel=1e-9)


@pytest.mark.parametrize("name", ["thm4.3.minimum", "thm4.5.minimiser"])
def test_optima_stay_finite_at_the_ends(name):
    kappa, alpha = np.meshgrid(np.logspace(0.01, 7, 40), np.logspace(-16, 0, 40))
    found = calculate(name, kappa=kappa, alpha=alpha)
    assert all(np.isfinite(v).all() and (v > 0).all() for v in found.values())
    assert (found["erub"] <= 1 + 1e-9).all() and (found["integer_erub"] >= found["erub"] * (1 - 1e-9)).all()


def test_schedule_spends_the_budget_and_meets_the_least_bound():
    steps, kappa, budget, alpha = 25, 10.0, 0.3927, 1e-3
    found = calculate("thm4.5.schedule", t=np.arange(1, steps + 1), T=steps, kappa=kappa, R=budget)
    squared = found["squared_noise_multiplier"]
    assert (1 / squared).sum() == pytest.approx(budget, rel=1e-12)
    influence = (1 - 1 / kappa) ** (steps - np.arange(1, steps + 1)) * alpha
    reached = (1 - 1 / kappa) ** steps + budget * (influence * squared).sum()
    assert reached == pytest.approx(calculate("thm4.5.bound", T=steps, kappa=kappa, alpha=alpha)["dynamic"], rel=1e-12)
    zero_based = (
        (np.sqrt((1 - 1 / kappa) ** -steps) - 1)
        / (1 - np.sqrt(1 - 1 / kappa))
        * np.sqrt((1 - 1 / kappa) ** np.arange(steps))
    )
    assert (budget / zero_based).sum() < 0.96 * budget  # the control: steps counted from 0 waste budget


@pytest.mark.parametrize(("steps", "beta", "gamma"), [(460, 0.9, 0.99), (20, 0.5, 0.9), (40, 0.1, 0.8)])
def test_the_sums_of_the_long_run_are_those_of_the_algorithms_influences(steps: int, beta: float, gamma: float):
    exact, majorant = momentum_influence(beta, gamma, steps), momentum_influence_majorant(beta, gamma, steps)
    theorem = exact @ (np.sqrt(majorant).sum() / np.sqrt(majorant))
    found = calculators._theorem_over_uniform(turning_step(beta, gamma), steps, beta, gamma)
    assert found == pytest.approx(theorem / (steps * exact.sum()), rel=1e-10)


@pytest.mark.parametrize("kappa", [10.0, 1000.0])
@pytest.mark.parametrize("alpha", [1e-3, 1e-9])
def test_the_least_bound_with_momentum_is_between_its_two_estimates(kappa, alpha):
    """The quantity of Theorem 4.8, by a search over integer T with exact influences at beta = 1/2, eta_0 = 1/5."""
    beta, eta0 = 0.5, 0.2
    gamma = 1 - eta0 / kappa
    best = 1.0
    for steps in sorted({int(x) for x in np.geomspace(1, 60 * kappa / eta0, 60)}):
        index = np.arange(1, steps + 1)
        own = gamma ** (steps - index) * ((1 - beta) / (1 - beta**index)) ** 2
        exact = lfilter([1], [1, -(beta**2)], own[::-1])  # w_t = own_t + beta^2 w_{t+1}, from the last step on
        best = min(best, gamma**steps + 2 * eta0 * alpha * np.sqrt(exact).sum() ** 2)
    values = {s.beta: beta, s.eta0: eta0, s.gamma: gamma, s.alpha: alpha}
    low, high = (float(rates.least_over_steps(f).subs(values)) for f in (rates.from_below, rates.from_above))
    assert low <= best <= 1.1 * high
    assert best > 2 * kappa * alpha / (kappa * alpha + eta0) or alpha == 1e-3, "the printed order is too small"


def test_gain_in_the_papers_experiments():
    sizes = np.array([1_000, 3_000, 10_000, 100_000, 1_000_000, 10_000_000])
    found = calculate("own.gain", N=sizes, kappa=10.0, D=60, G=4.0, R=0.3927, M=1.0, Delta=math.log(2))["gain"]
    assert found == pytest.approx([1.035, 1.32, 1.86, 3.0, 4.1, 5.3], rel=0.02)


@pytest.mark.parametrize(
    ("t", "T", "message"), [(1, 10**12, r"so small that the noise of"), (5, 4, r"Expected t=5 <= T=4\.")]
)
def test_a_step_after_the_last_one_and_noise_that_is_no_number_are_refused(t: int, T: int, message: str):
    with pytest.raises(ValueError, match=message):
        calculate("thm4.5.schedule", t=t, T=T, kappa=10.0, R=1.0)


def test_the_numbers_of_section_4_3_are_those_of_its_sampling():
    """The sampling error is n^2 Var(mean): n with replacement, n (N - n)/(N - 1) without."""
    n = round(1000 * math.sqrt(0.3927))
    assert n == 627 and round(n * (1000 - n) / 999) == 234
