"""Goldstein stationarity end to end: the algorithms reach it, guarantees are exact, errors name the argument."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from dpnotes.core import Status
from dpnotes.papers.goldstein.algorithms import (
    GoldsteinParameters,
    least_directions,
    multi_pass,
    online_to_nonconvex,
    oracle_of,
    plain,
    single_pass,
)
from dpnotes.papers.goldstein.smoothed import SmoothedSamples
from dpnotes.privacy.accounting import rho_to_epsilon
from dpnotes.problems.custom import CustomProblem
from dpnotes.random.streams import Streams

DIM, EPSILON, DELTA = 3, 16.0, 1e-6
SIZES: dict[str, Any] = {"radius": 0.5, "lipschitz": 1.0, "initial_gap": 2.0}


def sizes(**more: Any) -> dict[str, Any]:
    return SIZES | more


def distances(num_examples: int, seed: int = 0) -> CustomProblem:
    """Return the losses `|x - a|` around 0, which is their median: 1-Lipschitz, with kinks."""
    a = 0.3 * Streams.of("distances", [seed]).normal("a", 0, num_examples * DIM).view(num_examples, DIM)
    return CustomProblem(lambda x, a: (x - a).norm(), DIM, a)


FAR: dict[str, Any] = {"largest_move": 0.1}
CHOICES: dict[str, tuple[Any, int, dict[str, Any]]] = {
    "Algorithm 3": (single_pass, 1000, FAR),
    "Algorithm 5": (single_pass, 1000, FAR | {"order": "first", "directions": 8}),
    "Algorithm 4": (multi_pass, 150, FAR | {"num_steps": 100}),
    "plain, one pass": (plain, 1000, FAR),
    "plain, many passes": (plain, 150, FAR | {"num_steps": 100, "passes": "many"}),
}


def choice(name: str, epsilon: float = EPSILON, **more: Any) -> GoldsteinParameters:
    make, n, own = CHOICES[name]
    return make(n, DIM, epsilon, DELTA, **sizes(**own | more))


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOICES)
def test_a_run_gets_from_afar_to_the_median_and_claims_what_was_asked_for(name: str):
    start = torch.tensor([[1.5, -1.0, 0.5]] * 2, dtype=torch.float64)
    chosen = choice(name)
    runs = online_to_nonconvex(
        distances(chosen.num_examples), chosen, start, Streams.of("end to end", ["a", "b"]), delta=DELTA
    )
    assert runs.state.status.tolist() == [Status.FINISHED] * 2 and runs.state.steps.tolist() == [chosen.num_steps] * 2
    assert (runs.state.average.norm(dim=1) < 0.9).all() and (start.norm(dim=1) > 1.8).all()
    assert [claim.epsilon for claim in runs.guarantees] == pytest.approx([EPSILON] * 2, rel=1e-6)
    assert all(claim.epsilon <= EPSILON for claim in runs.guarantees)


# ---------------------------------------------------------------- parameters
def test_noise_is_the_least_that_is_private_and_steps_are_all_that_the_examples_last_for():
    for name in CHOICES:
        chosen = choice(name)
        assert rho_to_epsilon(chosen.budget, DELTA) == pytest.approx(EPSILON, rel=1e-6)
        assert rho_to_epsilon(chosen.budget, DELTA) <= EPSILON
        assert chosen.window * chosen.largest_move <= chosen.radius * (1 + 1e-12)
        assert chosen.num_steps % chosen.window == 0
        if chosen.difference_multiplier is None:
            resets = math.ceil(chosen.num_steps / chosen.period)
            used = resets * chosen.first_batch + (chosen.num_steps - resets) * chosen.batch
            more = chosen.window * max(chosen.batch, chosen.first_batch)
            assert used <= chosen.num_examples < used + more + chosen.first_batch
    assert choice("Algorithm 4", math.inf).budget == choice("Algorithm 3", math.inf).budget == math.inf


def test_noise_of_many_passes_is_shared_out_so_that_the_error_is_least():
    chosen = multi_pass(500, DIM, 1.0, DELTA, **sizes(largest_move=0.02, num_steps=2000))
    assert chosen.period > 4 and chosen.difference_multiplier

    def error(share: float) -> float:
        """Return the error if resets get this share of the cost and increments the rest."""
        resets = math.ceil(chosen.num_steps / chosen.period)
        first = share * resets / chosen.noise_multiplier**2 / 2
        later = (chosen.num_steps - resets) / (2 * (chosen.budget - first))
        one, two = chosen.sensitivities
        return chosen.noise_multiplier**2 / share * one**2 + chosen.period * later * two**2

    assert error(1.0) <= min(error(0.9), error(1.1)) and error(1.0) < 0.999 * min(error(0.6), error(1.6))


def test_runs_without_noise_claim_nothing():
    for name in ("Algorithm 3", "Algorithm 4"):
        chosen = choice(name, math.inf)
        start = torch.ones(1, DIM, dtype=torch.float64)
        runs = online_to_nonconvex(
            distances(chosen.num_examples), chosen, start, Streams.of(0, ["a"]), delta=DELTA, max_steps=10
        )
        assert runs.guarantees[0].epsilon == math.inf and runs.state.steps.tolist() == [10]


def test_bounds_that_hold_with_high_probability_alone_are_assumed_and_cost_a_part_of_delta():
    how: dict[str, Any] = {"largest_move": 0.5, "failure": 1e-7}
    common = single_pass(1000, DIM, EPSILON, DELTA, **sizes(**how))
    independent = single_pass(1000, DIM, EPSILON, DELTA, **sizes(**how), independent=True)
    assert common.directions == max(least_directions(common, 0.5e-7))
    assert independent.directions == max(least_directions(independent, 0.5e-7)) and independent.budget == common.budget
    runs = online_to_nonconvex(
        distances(50), replace(common, num_steps=10), torch.ones(1, DIM).double(), Streams.of(0, ["a"]), delta=DELTA
    )
    (claim,) = runs.guarantees
    assert claim.holds and claim.delta == DELTA and claim.epsilon == pytest.approx(EPSILON, rel=1e-6)
    assert any("part of delta" in assumption.statement for assumption in claim.assumptions)
    enforced = single_pass(1000, DIM, EPSILON, DELTA, **sizes(largest_move=0.5))
    assert enforced.noise_multiplier < common.noise_multiplier, "a part of delta is the directions'"
    with pytest.raises(ValueError, match=r"Expected delta=1e-08 > failure=1e-07"):
        online_to_nonconvex(distances(50), common, torch.ones(1, DIM).double(), Streams.of(0, ["a"]), delta=1e-8)


def test_the_probability_that_is_promised_of_directions_holds():
    """A linear loss at a failure probability of 5%, in 2,000 estimates; the control has 1% of the directions."""
    chosen = replace(single_pass(1000, DIM, EPSILON, DELTA, **sizes(largest_move=0.1)), slack=0.5)
    slope = torch.nn.functional.normalize(torch.ones(1, DIM).double())
    problem = CustomProblem(lambda x, a: x @ a, DIM, slope)
    none = torch.zeros(2000, dtype=torch.int64)

    def exceeded(directions: int) -> float:
        samples = SmoothedSamples(problem, chosen.radius, directions, clipped=False)
        batch = samples.batch(none, none + 1, Streams.of("exceeded", range(2000)), none)
        x = torch.zeros(2000, DIM).double()
        return float((batch.term(x, x, none == 0, x[:, 0]).norm(dim=1) > 1.5).double().mean())

    least, _ = least_directions(chosen, 0.05)
    assert exceeded(least) <= 0.05 < exceeded(max(1, least // 100))


REFUSED: dict[str, tuple[Any, int, int, dict[str, Any], str]] = {
    "alpha > Phi/L": (plain, 1000, 3, {"radius": 2.5}, "radius=2.5 <= .*=2: too large by a factor of 1.25"),
    "D > alpha": (multi_pass, 1000, 3, {"largest_move": 0.6}, "largest_move=0.6 <="),
    "m too small": (single_pass, 1000, 9, FAR | {"directions": 6}, "first_directions=6 >= 7: .*: they are clipped"),
    "m too small for a probability": (
        single_pass, 1000, 9, FAR | {"directions": 100, "failure": 1e-7},
        r"first_directions=100 >= \d+: .* with probability 1 - 1e-07",
    ),
    "failure above delta": (single_pass, 1000, 3, {"failure": 1e-5}, "failure=1e-05 < delta=1e-06"),
    "less than a window": (single_pass, 20, 3, {"largest_move": 0.01}, ".* to last for a window of 50 steps"),
}  # fmt: skip
MISMATCHED: dict[str, tuple[Any, int, str]] = {
    "another size": (lambda: [choice("Algorithm 4")], 149, "num_examples=150 to be the problem's 149"),
    "another dimension": (lambda: [replace(choice("Algorithm 4"), dim=4)], 150, "dim=4 to be"),
    "passes mixed": (
        lambda: [choice("Algorithm 4"), choice("Algorithm 3", directions=24)],
        150,
        "parameters all of one",
    ),
    "a window beyond the radius": (lambda: [replace(choice("Algorithm 3"), window=6)], 150, "window=6 <= radius/"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_choices_that_cannot_be_meant_are_refused_by_name(name: str):
    make, num_examples, dim, more, message = REFUSED[name]
    with pytest.raises(ValueError, match=f"Expected {message}"):
        make(num_examples, dim, 1.0, DELTA, **sizes(**more))


@pytest.mark.parametrize("name", MISMATCHED)
def test_parameters_that_do_not_fit_are_refused_by_name(name: str):
    chosen, num_examples, message = MISMATCHED[name]
    with pytest.raises(ValueError, match=f"Expected {message}"):
        oracle_of(chosen(), distances(num_examples))


@pytest.mark.slow
def test_runs_of_their_own_numbers_are_one_batch():
    choices = [choice("plain, one pass"), choice("plain, one pass", 4.0)]
    choices[1] = replace(choices[1], num_steps=50)
    start, streams = torch.ones(2, DIM, dtype=torch.float64), Streams.of("own", ["a", "b"])
    both = online_to_nonconvex(distances(1000), choices, start, streams, delta=DELTA, max_steps=60)
    for run, chosen in enumerate(choices):
        index = torch.tensor([run])
        alone = online_to_nonconvex(
            distances(1000), chosen, start[index], streams.take(index), delta=DELTA, max_steps=60
        )
        assert torch.allclose(both.x[index], alone.x, atol=1e-10) and both.guarantees[run] == alone.guarantees[0]
