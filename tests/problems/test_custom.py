"""Bring your own loss: agreement with closed forms, refusals. The notebook bring_your_own trains on one."""

import math

import pytest
import torch

from dpnotes.core import Constant
from dpnotes.problems.custom import CustomProblem
from dpnotes.problems.quadratics import Quadratic, log_spectrum


def test_mean_weights_give_the_gradient_of_the_mean_loss() -> None:
    quadratic = Quadratic.sample(log_spectrum(3, condition_number=5.0), 6, 0.5, seed=0)

    def loss(x: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
        return 0.5 * (quadratic.spectrum * x**2).sum() + offset @ x

    custom = CustomProblem(loss, 3, quadratic.offsets, constants=quadratic.constants)
    x = torch.ones(2, 3, dtype=torch.float64)
    mean = custom.gradients(x).weighted_sum(torch.full((2, 6), 1 / 6, dtype=torch.float64))
    torch.testing.assert_close(mean, quadratic.spectrum.expand(2, 3), rtol=1e-10, atol=1e-12)
    assert custom.constants["smoothness"] == Constant(1.0, "proved", "largest eigenvalue of the Hessian")
    assert custom.take(torch.tensor([1])) is custom


def test_bytes_per_run_covers_the_gradients() -> None:
    custom = CustomProblem(lambda x, row: (x * row).sum(), 7, torch.ones(5, 7))
    each = custom.gradients(torch.zeros(1, 7)).each
    assert custom.bytes_per_run >= each.numel() * each.element_size()


def test_bad_input_is_named() -> None:
    def loss(x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        return x @ row

    good = torch.ones(4, 2)
    for call, message in (
        (lambda: CustomProblem(loss, 2, good[:0]), "num_examples=0 >= 1"),
        (lambda: CustomProblem(loss, 2, good, good[:3]), r"data\[0\]: 4, data\[1\]: 3"),
        (lambda: CustomProblem(loss, 2, good * math.nan), r"data\[0\] without NaN"),
        (lambda: CustomProblem(loss, 2, good).gradients(torch.zeros(3)), "x, torch.float32 of shape"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
