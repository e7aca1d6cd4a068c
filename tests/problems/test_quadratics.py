"""Quadratics: constants, and the exact expected excess risk against recursions and simulation."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from dpnotes.core import Problem
from dpnotes.problems.quadratics import Quadratic, log_spectrum
from dpnotes.random.streams import Streams


def problem(dim: int = 6, num_examples: int = 9, spread: float = 0.7) -> Quadratic:
    base = Quadratic.sample(log_spectrum(dim, condition_number=20.0), num_examples, spread, seed=1)
    return Quadratic(base.spectrum, base.offsets, torch.linspace(-1, 1, dim, dtype=torch.float64))


def points(quadratic: Quadratic, runs: int = 4) -> torch.Tensor:
    return Streams.of("points", range(runs)).normal("x", 0, quadratic.dim)


def test_the_offsets_cancel_in_the_mean() -> None:
    quadratic, exactly = problem(), partial(torch.testing.assert_close, rtol=1e-10, atol=1e-12)
    x = points(quadratic)
    found = quadratic.gradients(x)
    mean = found.weighted_sum(torch.full((4, 9), 1 / 9, dtype=torch.float64))
    exactly(mean, quadratic.spectrum * (x - quadratic.center))
    exactly(found.losses.mean(1), quadratic.excess_risk(x))


def test_norm_of_a_vanishing_gradient_does_not_cancel() -> None:
    quadratic = problem()
    x = (quadratic.center - quadratic.offsets[3] / quadratic.spectrum)[None]
    assert float(quadratic.gradients(x).norms()[0, 3]) < 1e-14


def test_constants_hold_and_are_attained() -> None:
    quadratic = problem()
    as_protocol: Problem = quadratic  # for the type checker
    constants = as_protocol.constants
    slowest = quadratic.center + torch.eye(6, dtype=torch.float64)[-1:]
    squared = float(
        quadratic.gradients(slowest).weighted_sum(torch.full((1, 9), 1 / 9, dtype=torch.float64)).square().sum()
    )
    assert squared == pytest.approx(2 * constants["polyak_lojasiewicz"].value * float(quadratic.excess_risk(slowest)))
    assert constants["smoothness"].value / constants["polyak_lojasiewicz"].value == pytest.approx(20)
    assert float(quadratic.excess_risk(quadratic.center[None])) == constants["minimum"].value == 0
    assert float(quadratic.offsets.norm(dim=1).max()) == pytest.approx(0.7)


def moments(quadratic: Quadratic, x0: np.ndarray, step_size: float, std: np.ndarray, momentum: float) -> float:
    """Expected excess risk by propagating means and covariances of (point, average) forwards."""
    total = 0.0
    for eigenvalue, start in zip(quadratic.spectrum.numpy(), x0 - quadratic.center.numpy(), strict=True):
        mean, covariance = np.array([start, 0.0]), np.zeros((2, 2))
        for t, s in enumerate(std, 1):
            unbias = 1 - momentum**t
            to_average = np.array([(1 - momentum) * eigenvalue, momentum])
            matrix = np.stack([np.array([1.0, 0.0]) - step_size / unbias * to_average, to_average])
            noise = (1 - momentum) * np.array([-step_size / unbias, 1.0])
            mean, covariance = matrix @ mean, matrix @ covariance @ matrix.T + s**2 * np.outer(noise, noise)
        total += 0.5 * eigenvalue * (mean[0] ** 2 + covariance[0, 0])
    return total


@pytest.mark.parametrize("momentum", (0.0, 0.6, 0.9))
def test_expected_excess_risk_agrees_with_forward_moments(momentum: float) -> None:
    quadratic = problem()
    x0 = np.linspace(2, -1, 6)
    schedules = np.stack([np.full(30, 0.3), np.geomspace(1, 0.01, 30), np.zeros(30)])
    found = quadratic.expected_excess_risk(x0, 0.8, schedules, momentum)
    assert found.shape == (3,)
    for value, schedule in zip(found, schedules, strict=True):
        assert value == pytest.approx(moments(quadratic, x0, 0.8, schedule, momentum), rel=1e-12)
    assert quadratic.expected_excess_risk(x0, 0.8, schedules.reshape(3, 1, 30), momentum).shape == (3, 1)


def test_influence_is_its_closed_form_and_the_derivative() -> None:
    quadratic = problem()
    eigenvalues, steps = quadratic.spectrum.numpy(), np.arange(1, 41)
    found = quadratic.noise_influence(0.8, 40)
    closed = 0.32 * (eigenvalues * (1 - 0.8 * eigenvalues) ** (2 * (40 - steps[:, None]))).sum(1)
    np.testing.assert_allclose(found, closed, rtol=1e-12)
    for momentum in (0.0, 0.7):
        influence = quadratic.noise_influence(0.8, 40, momentum)
        one_noisy_step = 2.0 * np.eye(40)
        quiet, *noisy = quadratic.expected_excess_risk(
            np.ones(6), 0.8, np.concatenate([np.zeros((1, 40)), one_noisy_step]), momentum
        )
        np.testing.assert_allclose((np.array(noisy) - quiet) / 4, influence, rtol=1e-9)
    # The control: the influence of the printed bound's shape, (1 - 1/kappa)^(T-t), differs.
    assert np.abs(found / found[-1] / (1 - 1 / 20) ** (40.0 - steps) - 1).max() > 0.5


def test_spectrum_and_sampling() -> None:
    spectrum = log_spectrum(5, condition_number=100.0, smoothness=3.0)
    torch.testing.assert_close(spectrum[:-1] / spectrum[1:], torch.full((4,), 100**0.25, dtype=torch.float64))
    assert float(spectrum[0]) == 3.0
    assert Quadratic.sample(torch.ones(3), 4, 1.0, seed=0).offsets.dtype == torch.float32
    assert Quadratic.sample(torch.ones(3), 4, 0.0, seed=0).offsets.abs().max() == 0
    first, again, other = (Quadratic.sample(spectrum, 6, 1.0, seed).offsets for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("spectrum", "offsets", "center", "message"),
    (
        ([1.0, 0.0], [[0.0, 0.0]], [0.0, 0.0], "smallest_eigenvalue=0.0 > 0"),
        ([1.0, 1.0], [[0.0, 0.0]], [0.0], "to be"),
        ([1.0, 1.0], [[1.0, 0.0]], [0.0, 0.0], "mean 0"),
        ([1.0, 1.0], [[math.nan, 0.0]], [0.0, 0.0], "offsets without NaN"),
    ),
)
def test_bad_problems_are_named(spectrum: list, offsets: list, center: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Quadratic(torch.tensor(spectrum), torch.tensor(offsets), torch.tensor(center))
