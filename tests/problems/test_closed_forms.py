"""Problems in closed form against `torch.func`: losses, norms and weighted sums, of all examples and of chosen ones."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from dpnotes.core import Problem
from dpnotes.problems.custom import CustomProblem
from dpnotes.problems.quadratics import Quadratic
from dpnotes.problems.sensing import QuadraticSensing
from tests.problems import test_nonsmooth, test_quadratics, test_sensing
from tests.problems.test_nonsmooth import CHOSEN, EXAMPLES, RUNS, exactly, normal


def sensing(rank: int) -> tuple[QuadraticSensing, Callable[..., Tensor], tuple[Tensor, ...]]:
    made = QuadraticSensing.sample(test_sensing.signal(rank=rank), EXAMPLES, seed=0, noise_std=0.3)
    loss = lambda x, a, y: 0.25 * ((a @ x.view(-1, rank)).square().sum() - y) ** 2  # noqa: E731
    return made, loss, (made.measurements, made.targets)


def quadratic() -> tuple[Quadratic, Callable[..., Tensor], tuple[Tensor, ...]]:
    made = test_quadratics.problem(num_examples=EXAMPLES)
    curvature = torch.diag(made.spectrum)
    return made, lambda x, b: (0.5 * curvature @ (x - made.center) + b) @ (x - made.center), (made.offsets,)


CASES: dict[str, tuple[Any, Callable[..., Tensor], tuple[Tensor, ...]]] = {
    **test_nonsmooth.CASES,
    "phase retrieval": sensing(1),
    "quadratic sensing": sensing(2),
    "quadratic": quadratic(),
}


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_torch_func(case: str):
    problem, loss, data = CASES[case]
    reference = CustomProblem(loss, problem.dim, *data)
    x = normal("points", RUNS, problem.dim)
    weights = normal("weights", RUNS, EXAMPLES)
    weights[:, 4] = 0
    for chosen in (None, CHOSEN):
        found, expected = problem.gradients(x, chosen), reference.gradients(x, chosen)
        kept = weights if chosen is None else weights.gather(1, chosen)
        exactly(found.losses, expected.losses)
        exactly(found.norms(), expected.norms())
        exactly(found.weighted_sum(kept), expected.weighted_sum(kept))
        with pytest.raises(AssertionError):  # control
            exactly(found.weighted_sum(kept + 1e-6), expected.weighted_sum(kept))
    as_problem: Problem = problem
    assert as_problem.num_examples == EXAMPLES and as_problem.keeps_examples_apart
    assert problem.take(torch.tensor([0])) is problem
