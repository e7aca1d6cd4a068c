"""Gradients of chosen examples are those examples' rows of the gradients of all, in networks."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from dpnotes.core import Problem
from dpnotes.problems.networks import TwoLayerNetwork
from dpnotes.random.streams import Streams

RUNS, EXAMPLES = 3, 8
CHOSEN = torch.tensor([[5, 0, 7, 5], [1, 2, 3, 4], [6, 6, 6, 6]])  # an example may occur more than once
NAMES = ("shared network", "network", "three classes")


def problem(name: str) -> Any:
    draws = Streams.of("examples", [name])
    inputs = draws.normal("inputs", 0, RUNS * EXAMPLES * 4).view(RUNS, EXAMPLES, 4)
    if name == "shared network":
        return TwoLayerNetwork(inputs[0], (inputs[0, :, 0] > 0).long(), num_hidden=3)
    classes = 3 if name == "three classes" else 2
    return TwoLayerNetwork(inputs, (inputs[..., 0] > 0).long(), num_hidden=3, num_classes=classes, activation="relu")


def points(task: Problem) -> Tensor:
    return Streams.of("points", range(RUNS)).normal("x", 0, task.dim)


@pytest.mark.parametrize("name", NAMES)
def test_chosen_examples_are_rows_of_all(name: str) -> None:
    task = problem(name)
    x = points(task)
    whole, found = task.gradients(x), task.gradients(x, CHOSEN)
    same = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-12)
    same(found.losses, whole.losses.gather(1, CHOSEN))
    same(found.norms(), whole.norms().gather(1, CHOSEN))
    weights = torch.linspace(-1, 2, CHOSEN.numel(), dtype=torch.float64).view(CHOSEN.shape)
    spread = torch.zeros(RUNS, EXAMPLES, dtype=torch.float64).scatter_add_(1, CHOSEN, weights)
    same(found.weighted_sum(weights), whole.weighted_sum(spread))
    # The control: with the lists of two runs exchanged, all results differ.
    exchanged = CHOSEN[[1, 0, 2]]
    assert not torch.allclose(found.norms(), whole.norms().gather(1, exchanged), rtol=1e-3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("examples", "message"),
    [
        (torch.zeros(2, 4, dtype=torch.int64), r"to be int64 of shape \(3, batch\)"),
        (torch.zeros(3, 4), r"to be int64 of shape \(3, batch\)"),
        (torch.full((3, 4), 8), r"Expected examples in 0 ... 7, got 8 ... 8"),
        (torch.full((3, 4), -1), r"Expected examples in 0 ... 7, got -1 ... -1"),
    ],
)
def test_no_such_example(name: str, examples: Tensor, message: str) -> None:
    task = problem(name)
    with pytest.raises(ValueError, match=message):
        task.gradients(points(task), examples)
