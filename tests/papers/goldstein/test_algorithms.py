"""Goldstein stationarity end to end: the algorithms reach it, what they claim is exact, and refusals are by name."""

from typing import Any

import pytest
import torch

from dpnotes.core import Status
from dpnotes.papers.goldstein.algorithms import Parameters, multi_pass, online_to_nonconvex, plain, single_pass
from dpnotes.problems.custom import CustomProblem
from dpnotes.streams import Streams

DIM, EPSILON, DELTA = 3, 16.0, 1e-6
SIZES: dict[str, Any] = {"radius": 0.5, "lipschitz": 1.0, "initial_gap": 2.0}


def distances(num_examples: int, seed: int = 0) -> CustomProblem:
    """`|x - a|` around 0, whose median is there: 1-Lipschitz, with kinks."""
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


def choice(name: str, epsilon: float = EPSILON, **more: Any) -> Parameters:
    make, n, own = CHOICES[name]
    return make(n, DIM, epsilon, DELTA, **SIZES | own | more)


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
