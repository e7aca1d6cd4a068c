"""Closed forms of smoothed losses, against integrals, draws and minima computed independently."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from scipy import integrate
from torch import Tensor

from dpnotes.problems.smoothing import (
    lasry_lions_absolute,
    lasry_lions_phase,
    moreau_absolute,
    smoothed_absolute,
    smoothed_norm,
    smoothing_constant,
)

closely = partial(torch.testing.assert_close, rtol=1e-8, atol=1e-9)
POINTS = torch.tensor([0.0, 0.05, 0.4, 0.8, 0.999, 1.0, 1.3, 5.0], dtype=torch.float64)  # in units of the radius


def tensor(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


# ---------------------------------------------------------------- means over a ball
@pytest.mark.parametrize("dim", (1, 2, 3, 10, 100, 1000))
def test_the_absolute_value_is_its_integral(dim: int):
    def density(y: float) -> float:
        return smoothing_constant(dim) / 2 * (1 - y**2) ** ((dim - 1) / 2)

    def mean(of: Callable[[float], float], t: float) -> float:
        kinks = [max(-1.0, min(1.0, -t)), *(s / math.sqrt(dim) for s in (-1, 1) if dim > 1)]
        return integrate.quad(lambda y: of(t + y) * density(y), -1, 1, points=sorted(kinks), epsabs=1e-12, limit=400)[0]

    assert mean(lambda _: 1.0, 0.3) == pytest.approx(1), "the constant is that of the density"
    value, slope = smoothed_absolute(-2 * POINTS, 2.0, dim)
    closely(value, tensor([2 * mean(abs, -t) for t in POINTS.tolist()]))
    closely(slope, tensor([mean(lambda t: float(np.sign(t)), -t) for t in POINTS.tolist()]))
    other = smoothed_absolute(-2 * POINTS, 2.0, dim + 1)[0]
    assert float((other - value).abs().max()) > 1e-5, "control"


@pytest.mark.parametrize("dim", (2, 3, 4, 10, 101, 1000))
def test_the_distance_is_its_integral(dim: int):
    """The integral runs over the radius of y and the sine of its angle, by rules of 400 nodes."""
    tolerance = max(1e-7, 1e-3 / dim**2)  # the kink at 0 costs digits in few dimensions
    value, slope = smoothed_norm(2 * POINTS, 2.0, dim)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    radii = ((nodes + 1) / 2)[:, None] ** (1 / dim)  # uniform in the ball
    sines, density = np.sin(nodes * math.pi / 2), weights * np.cos(nodes * math.pi / 2) ** (dim - 2.0)

    def mean(of: Callable[[np.ndarray], np.ndarray]) -> float:
        return float(weights / 2 @ of(radii * sines) @ (density / density.sum()))

    for k, r in enumerate(POINTS.tolist()):
        lengths = np.sqrt(np.maximum(r**2 + 2 * r * radii * sines + radii**2, 1e-300))
        assert float(value[k]) == pytest.approx(2 * mean(lambda _, lengths=lengths: lengths), rel=tolerance)
        assert float(slope[k]) == pytest.approx(
            mean(lambda y, r=r, lengths=lengths: (r + y) / lengths), abs=50 * tolerance
        )
    assert float((smoothed_norm(2 * POINTS, 2.0, dim + 1)[0] / value - 1).abs().max()) > 5 * tolerance, "control"


@pytest.mark.parametrize("dim", (1, 2, 3, 100))
def test_constants_of_smoothing_are_sharp(dim: int):
    """Fact 2.3: the error `dim / (dim + 1)` is attained by the norm at 0, the smoothness kappa by `|x_1|` at 0."""
    at = torch.linspace(0, 3, 1000, dtype=torch.float64)
    error = smoothed_norm(at, 1.0, dim)[0] - at
    assert float(error[0]) == pytest.approx(dim / (dim + 1))
    assert bool((error <= dim / (dim + 1) + 1e-12).all()) and bool((error >= -1e-12).all())
    steepest = (smoothed_absolute(at, 1.0, dim)[1].diff() / at.diff()).max()
    assert float(steepest) == pytest.approx(smoothing_constant(dim), rel=1e-3)
    assert float(steepest) <= smoothing_constant(dim) * (1 + 1e-9)
    assert smoothing_constant(100) == pytest.approx(7.998817, abs=1e-6)


# ---------------------------------------------------------------- envelopes
GRID = torch.linspace(-6, 6, 1201, dtype=torch.float64)


def moreau_on_grid(h: Tensor, parameter: float, at: Tensor) -> Tensor:
    return (h + (at[:, None] - GRID).square() / (2 * parameter)).amin(1)


def lasry_lions_on_grid(h: Tensor, parameter: float, at: Tensor) -> Tensor:
    return -moreau_on_grid(-moreau_on_grid(h, 2 * parameter, GRID), parameter, at)


AT = torch.linspace(-3, 3, 61, dtype=torch.float64)


@pytest.mark.parametrize("slope", (1.0, 2.0, -1.0, -2.0))
@pytest.mark.parametrize("parameter", (0.5, 1.0))
def test_envelopes_of_the_absolute_value_are_minima_on_a_grid(slope: float, parameter: float):
    """Accurate to 1e-4: with the grid's spacing of 1/100 each minimum is off by 1/10^4 over 8 times the parameter."""
    h = slope * GRID.abs()
    for closed, on_grid in ((moreau_absolute, moreau_on_grid), (lasry_lions_absolute, lasry_lions_on_grid)):
        value, derivative = closed(AT, parameter, slope)
        torch.testing.assert_close(value, on_grid(h, parameter, AT), rtol=0, atol=1e-4)
        step = 1e-6
        differences = (closed(AT + step, parameter, slope)[0] - closed(AT - step, parameter, slope)[0]) / (2 * step)
        smooth = (
            AT.abs() > 0.01 if closed is moreau_absolute else AT < math.inf
        )  # Moreau's envelope keeps the kink of a hill
        torch.testing.assert_close(derivative[smooth], differences[smooth], rtol=0, atol=1e-5)
        with pytest.raises(AssertionError):  # control
            torch.testing.assert_close(
                closed(AT, 1.1 * parameter, slope)[0], on_grid(h, parameter, AT), rtol=0, atol=1e-4
            )


@pytest.mark.parametrize(("target", "parameter"), ((1.0, 0.5), (1.5, 0.5), (2.0, 0.25)))
def test_the_double_envelope_of_phase_retrieval_is_that_on_a_grid(target: float, parameter: float):
    h = (GRID.abs() - target).abs()
    value, derivative = lasry_lions_phase(AT, target, parameter)
    torch.testing.assert_close(value, lasry_lions_on_grid(h, parameter, AT), rtol=0, atol=1e-4)
    step = 1e-6
    above, below = (lasry_lions_phase(AT + sign * step, target, parameter)[0] for sign in (1, -1))
    torch.testing.assert_close(derivative, (above - below) / (2 * step), rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="target=1 >= 2 parameter=0.6"):
        lasry_lions_phase(AT, 1.0, 0.6)


@pytest.mark.parametrize("slope", (4.0, -4.0))
def test_the_corrected_constants_of_lasry_and_lions_are_reached(slope: float):
    """Fact B.2 (ii), (iv): error at most `L^2 parameter`, smoothness `1 / parameter`; as printed both fail."""
    parameter, at = 0.5, torch.linspace(-8, 8, 3201, dtype=torch.float64)
    value, derivative = lasry_lions_absolute(at, parameter, slope)
    error = (value - slope * at.abs()).abs().max()
    assert float(error) <= slope**2 * parameter * (1 + 1e-12)
    if slope < 0:
        assert float(error) == pytest.approx(slope**2 * parameter)
        assert float(error) > abs(slope) * parameter, "the printed L lambda is too small"
    steepest = (derivative.diff() / at.diff()).abs().max()
    assert float(steepest) == pytest.approx(1 / parameter, rel=1e-6)
    assert float(derivative.abs().max()) == pytest.approx(abs(slope)), "(i): as Lipschitz as before"
    assert int(value.argmin()) in ((1600,) if slope > 0 else (0, 3200)), "(iii): the minimum stays"
