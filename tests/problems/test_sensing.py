"""Quadratic sensing: infinite gradients, the population, samples and starting points."""

import math
from functools import partial

import pytest
import torch
from torch import Tensor

from dpnotes.problems.saddles import PopulationSensing
from dpnotes.problems.sensing import QuadraticSensing
from dpnotes.random.streams import Streams

exactly = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-12)


def signal(rows: int = 5, rank: int = 2) -> Tensor:
    return Streams.of("signal", [0]).normal("signal", 0, rows * rank).view(rows, rank)


def points(problem: QuadraticSensing, runs: int = 3) -> Tensor:
    return problem.initial(Streams.of("sensing", range(runs)), radius=1.5)


def test_weight_zero_leaves_an_infinite_gradient_out() -> None:
    problem = QuadraticSensing.sample(signal().float(), 4, seed=0)
    x = points(problem)
    x[1] = 1e30
    gradients = problem.gradients(x)
    assert bool(gradients.norms()[1].isinf().all()) and bool(gradients.norms()[0].isfinite().all())
    assert gradients.weighted_sum(torch.zeros(3, 4))[1].abs().max() == 0
    chosen = problem.gradients(x, torch.tensor([[0], [1], [2]]))
    assert chosen.weighted_sum(torch.zeros(3, 1))[1].abs().max() == 0


def test_the_mean_over_many_examples_is_the_population() -> None:
    """30 comparisons within five standard errors, about 2e-5 for normal errors; another signal is detected."""
    truth = signal(3, 2)
    problem = QuadraticSensing.sample(truth, 200_000, seed=0)
    x = points(problem)
    count = problem.num_examples
    mean = problem.gradients(x).weighted_sum(torch.full((3, count), 1 / count, dtype=torch.float64))
    norms = problem.gradients(x).norms()
    error = norms.square().mean(1, keepdim=True).sqrt() / math.sqrt(count)
    assert bool(((mean - PopulationSensing(truth).gradient(x)).abs() < 5 * error).all())
    assert not bool(((mean - PopulationSensing(1.1 * truth).gradient(x)).abs() < 5 * error).all())


def test_examples_depend_on_the_seed_and_their_number_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (QuadraticSensing.sample(signal(), n, seed="s", noise_std=0.1) for n in (5, 12))
    assert torch.equal(small.measurements, large.measurements[:5])
    assert torch.equal(small.targets, large.targets[:5])
    monkeypatch.setattr("dpnotes.problems.sensing._DRAWN_AT_ONCE", 10)
    assert torch.equal(QuadraticSensing.sample(signal(), 12, seed="s", noise_std=0.1).targets, large.targets)
    other = QuadraticSensing.sample(signal(), 5, seed="t")
    assert not bool((other.measurements == small.measurements).any())
    single = QuadraticSensing.sample(signal().float(), 5, seed="s")
    assert single.measurements.dtype == torch.float32
    torch.testing.assert_close(single.measurements.double(), small.measurements, rtol=1e-6, atol=1e-6)


def test_noise_of_the_targets_has_the_stated_size() -> None:
    clean, noisy = (QuadraticSensing.sample(signal(), 20_000, seed=1, noise_std=std) for std in (0.0, 0.5))
    noise = noisy.targets - clean.targets
    assert abs(float(noise.std()) / 0.5 - 1) < 4 / math.sqrt(2 * 20_000)
    assert torch.equal(clean.targets, (clean.measurements @ signal()).square().sum(1))


def test_starting_points_lie_on_the_sphere() -> None:
    problem = QuadraticSensing.sample(signal(), 5, seed=1)
    x = problem.initial(Streams.of("start", range(4)), radius=0.1)
    torch.testing.assert_close(torch.linalg.vector_norm(x, dim=1), torch.full((4,), 0.1).double())
    assert len(torch.unique(x)) == x.numel()
