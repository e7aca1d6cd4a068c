"""Landscapes: derivatives against autograd, eigenvalues, saddles, and constants that hold and are nearly attained."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from dpnotes.problems.landscapes import Landscape, Reflected
from dpnotes.problems.saddles import MonkeySaddle, PopulationSensing
from dpnotes.problems.separable import (
    Cosine,
    DoubleWell,
    Linear,
    LogCosh,
    Parabola,
    Profile,
    Separable,
    Sine,
    hard_instance,
)
from dpnotes.random.streams import Streams

exactly = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-10)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return Streams.of("landscapes", [seed]).normal("x", 0, math.prod(shape)).view(shape)


WELLS = Separable([(DoubleWell(0.5, 1.5, 2.0), 1), (Cosine(0.3, 1.2), 2), (LogCosh(0.7, 0.8), 1), (Parabola(1.0), 1)])
LANDSCAPES: dict[str, Landscape] = {
    "separable": WELLS,
    "reflected": Reflected(WELLS, normal(5, seed=2)),
    "hard instance": hard_instance(0.05, 4)[0],
    "monkey": MonkeySaddle(0.7, 1.3, 0.4),
}
each_landscape = pytest.mark.parametrize("name", LANDSCAPES)


def derivatives_agree(landscape: Landscape, value: Callable[[Tensor], Tensor], x: Tensor) -> None:
    exactly(landscape.value(x), torch.func.vmap(value)(x))
    exactly(landscape.gradient(x), torch.func.vmap(torch.func.grad(value))(x))
    exactly(landscape.hessian(x), torch.func.vmap(torch.func.jacrev(torch.func.grad(value)))(x))


@each_landscape
def test_derivatives_agree_with_autograd(name: str) -> None:
    landscape = LANDSCAPES[name]
    derivatives_agree(landscape, landscape.value, normal(20, landscape.dim, seed=6))


@pytest.mark.parametrize("rank", (1, 2))
def test_the_population_of_sensing_is_its_definition(rank: int) -> None:
    points, directions, signal = normal(20, 3 * rank, seed=7), normal(20, 3 * rank, seed=9), normal(3, rank, seed=8)

    def value(x: Tensor) -> Tensor:
        residual = x.view(3, rank) @ x.view(3, rank).mT - signal @ signal.mT
        return residual.square().sum() / 2 + residual.trace() ** 2 / 4

    def found(landscape: PopulationSensing) -> tuple[Tensor, ...]:
        return landscape.value(points), landscape.gradient(points), landscape.hessian_vector(points, directions)

    gradient = torch.func.grad(value)
    product = torch.func.vmap(torch.func.grad(lambda x, v: gradient(x) @ v))(points, directions)
    expected = torch.func.vmap(value)(points), torch.func.vmap(gradient)(points), product
    exactly(found(PopulationSensing(signal)), expected)
    with pytest.raises(AssertionError):  # control: the derivatives of another landscape are not accepted
        exactly(found(PopulationSensing(signal + 1e-6)), expected)


@pytest.mark.parametrize(
    ("profile", "function"),
    [
        (Linear(0.7), lambda t: 0.7 * t),
        (Parabola(-2.0), lambda t: -(t**2)),
        (LogCosh(0.6, 2.0), lambda t: 2.4 * torch.log(torch.cosh(t / 2))),
        (Cosine(0.6, 3.0), lambda t: 0.6 * torch.cos(3 * t)),
        (Sine(0.6, 3.0), lambda t: 0.6 * torch.sin(3 * t)),
        (DoubleWell(2.0, 1.5, 12.0), lambda t: t**4 / 4.5 - t**2),
    ],
)
def test_profiles_agree_with_their_formulas(profile: Profile, function: Callable[[Tensor], Tensor]) -> None:
    derivatives_agree(Separable([(profile, 1)]), lambda x: function(x).sum(), 3 * normal(50, 1))


def test_log_cosh_keeps_its_digits_at_both_ends() -> None:
    t = torch.tensor([1e-9, 1e-4, 0.999999, 1.000001, 800.0], dtype=torch.float64)
    with pytest.raises(AssertionError):  # control: the naive formula fails
        torch.testing.assert_close(torch.log(torch.cosh(t)), LogCosh(1.0).value(t), rtol=1e-12, atol=0)
    small = t[:2] ** 2 / 2 * (1 - t[:2] ** 2 / 6)
    torch.testing.assert_close(LogCosh(1.0).value(t)[:2], small, rtol=1e-12, atol=0)
    assert float(LogCosh(1.0).value(t)[-1]) == 800 - math.log(2)
    assert abs(float(LogCosh(1.0).value(t)[2:4].diff()) - 2e-6 * math.tanh(1)) < 1e-15


@each_landscape
def test_products_eigenvalues_and_batches(name: str) -> None:
    landscape = LANDSCAPES[name]
    x, v = normal(2, 3, landscape.dim), normal(2, 3, landscape.dim, seed=10)
    hessian = landscape.hessian(x)
    exactly(landscape.hessian_vector(x, v), (hessian @ v[..., None])[..., 0])
    exactly(landscape.smallest_eigenvalue(x), torch.linalg.eigvalsh(hessian)[..., 0])
    for found, alone in (
        (landscape.value(x), landscape.value),
        (landscape.gradient(x), landscape.gradient),
        (hessian, landscape.hessian),
        (landscape.smallest_eigenvalue(x), landscape.smallest_eigenvalue),
    ):
        exactly(found[1, 2], alone(x[1, 2]))
        single = alone(x.float())
        assert single.dtype == torch.float32
        torch.testing.assert_close(single.double(), found, rtol=1e-4, atol=1e-4)


@each_landscape
def test_the_saddle_is_a_strict_one(name: str) -> None:
    landscape = LANDSCAPES[name]
    saddle = landscape.saddle

    def is_saddle(point: Tensor, direction: Tensor, gamma: float) -> bool:
        return bool(
            gamma > 0
            and torch.linalg.vector_norm(landscape.gradient(point)) < 1e-12
            and torch.allclose(landscape.hessian_vector(point, direction), -gamma * direction, rtol=0, atol=1e-12)
            and torch.allclose(torch.linalg.vector_norm(direction), torch.ones(()).double(), rtol=1e-12)
            and abs(float(landscape.smallest_eigenvalue(point)) + gamma) < 1e-12
        )

    assert is_saddle(saddle.point, saddle.direction, saddle.gamma)
    assert not is_saddle(saddle.point + 1e-3, saddle.direction, saddle.gamma)
    assert not is_saddle(saddle.point, saddle.direction, 1.001 * saddle.gamma)
    downhill = landscape.value(saddle.point + 0.1 * saddle.direction) - landscape.value(saddle.point)
    assert -0.0051 * saddle.gamma < float(downhill) < -0.0025 * saddle.gamma


def largest_ratios(landscape: Landscape, radius: float, pairs: int = 10_000) -> tuple[float, float]:
    """Return the largest changes of gradient and Hessian per distance, over near and far pairs in the ball."""
    dim = landscape.dim
    streams = Streams.of("pairs", [0])
    direction = torch.nn.functional.normalize(streams.normal("points", 0, pairs * dim).view(pairs, dim))
    x = radius * streams.uniform("radius", 0, pairs).pow(1 / dim).T * direction
    step = torch.nn.functional.normalize(streams.normal("steps", 0, pairs * dim).view(pairs, dim))
    y = x + torch.where(torch.arange(pairs) % 4 == 0, radius, 1e-3 * radius)[:, None] * step
    inside = torch.linalg.vector_norm(y, dim=1) <= radius
    x, y = x[inside], y[inside]
    distance = torch.linalg.vector_norm(x - y, dim=1)
    gradients = torch.linalg.vector_norm(landscape.gradient(x) - landscape.gradient(y), dim=1)
    hessians = torch.linalg.eigvalsh(landscape.hessian(x) - landscape.hessian(y)).abs().amax(1)
    return float((gradients / distance).max()), float((hessians / distance).max())


TIGHT: dict[str, Landscape] = {
    "wells": Separable([(DoubleWell(1.0), 2)]),
    "wells, smoothed further out": Separable([(DoubleWell(1.0, 1.0, 1.5), 1), (Parabola(0.5), 1)]),
    "cosines": Separable([(Cosine(1.0, 2.0), 1), (Cosine(3.0), 1)]),
    "bowl": Separable([(LogCosh(2.0, 0.5), 1), (Cosine(0.1), 1)]),
}


@pytest.mark.parametrize("name", TIGHT)
def test_constants_hold_and_are_tight(name: str) -> None:
    found = largest_ratios(TIGHT[name], 1.9)
    for ratio, constant in zip(found, ("smoothness", "hessian_lipschitz"), strict=True):
        assert 0.9 < ratio / TIGHT[name].constants[constant].value <= 1 + 1e-9


def test_the_ridge_of_the_hard_instance_is_nowhere_second_order_stationary() -> None:
    for accuracy, amplitude in ((1e-6, 1.0), (0.01, 1.0), (0.1, 1.0), (0.9, 8.0)):
        landscape, start = hard_instance(accuracy, 6, amplitude)
        bound = -math.sqrt(landscape.constants["hessian_lipschitz"].value * accuracy)
        ridge = start.repeat(1001, 1)
        ridge[:, 0] = torch.linspace(0, math.pi * amplitude / (4 * accuracy), 1001)
        assert float(landscape.smallest_eigenvalue(ridge).max()) < bound
        assert abs(float(torch.linalg.vector_norm(landscape.gradient(start))) / accuracy - 2) < 1e-12
        off = ridge.clone()
        off[:, 1] = math.pi  # control: in the next valley every point has zero slope
        assert float(landscape.smallest_eigenvalue(off)[-1]) > 0
