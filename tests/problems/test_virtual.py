"""Virtual data: exact batch means, SPIDER's differences, the stated noise, and the escape boundary."""

import math

import pytest
import torch
from torch import Tensor

from dpnotes.problems.separable import DoubleWell, Linear, LogCosh, Parabola, Separable, Sine
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams

WELLS = Separable([(DoubleWell(0.5), 1), (LogCosh(1.0), 3)])
FEATURES = Separable([(Sine(0.8, 1.5), 2), (Linear(0.6), 1), (Parabola(0.4), 1)])
DATA = VirtualData(WELLS, FEATURES)
POINT = torch.tensor([0.3, -1.2, 0.7, 2.0], dtype=torch.float64)


def streams(runs: int) -> Streams:
    return Streams.of("virtual", range(runs))


@pytest.mark.parametrize("size", [1.0, 1e4, 1e14])
@pytest.mark.slow
def test_variances_are_the_stated_ones(size: float) -> None:
    """A mean of `runs` squares has a relative error of `sqrt(2 / runs)` at most: four of them, two comparisons."""
    runs = 100_000
    x, y = POINT.repeat(runs, 1), (POINT + 0.5).repeat(runs, 1)
    batch = DATA.fresh(size, streams(runs), "variance", 1)
    noise = batch.gradient(x) - WELLS.gradient(x)
    change = noise - (batch.gradient(y) - WELLS.gradient(y))
    for found, stated in ((noise, DATA.variance(x)), (change, difference_variance(DATA, x, y))):
        ratio = float(found.square().sum(1).mean() * size / stated[0])
        assert abs(ratio - 1) < 4 * math.sqrt(2 / runs)
        assert abs(1.05 * ratio - 1) > 4 * math.sqrt(2 / runs)  # control
    if size == 1e14:
        assert float(noise.abs().max()) < 1e-5  # and not zero: such a batch still has noise
        assert bool((noise[:, :3] != 0).any(0).all())


def difference_variance(data: VirtualData, x: Tensor, y: Tensor) -> Tensor:
    """Return the variance of one example's difference `grad f(x; z) - grad f(y; z)`, `(...)`."""
    return (data.features.gradient(x) - data.features.gradient(y)).square().sum(-1)


def test_batches_of_other_calls_purposes_and_runs_share_nothing() -> None:
    both = streams(2)
    means = [DATA.fresh(10, both, purpose, call).mean for purpose in ("a", "b") for call in (0, 1)]
    rows = torch.cat(means)
    assert len(torch.unique(rows)) == rows.numel()
    assert torch.equal(DATA.fresh(10, both, "a", 0).mean, means[0])  # control: the same call gives the same batch


def test_a_batch_of_runs_is_the_runs_one_by_one() -> None:
    all_runs = streams(3)
    sizes, calls = torch.tensor([2.0, 30.0, 1e9]), torch.tensor([5, 6, 7])
    x = POINT.repeat(3, 1) + torch.arange(3)[:, None]
    together = DATA.fresh(sizes, all_runs, "batch", calls).gradient(x)
    for run in range(3):
        index = slice(run, run + 1)
        alone = DATA.fresh(sizes[index], all_runs.take(index), "batch", calls[index]).gradient(x[index])
        assert torch.equal(alone, together[index])


def test_additive_noise_cancels_in_differences_and_the_rest_scales_with_the_move() -> None:
    x, y = POINT[None], POINT[None] + 1e-3
    batch = DATA.fresh(1, streams(1), "batch", 0)
    assert difference_variance(DATA, x, y)[0] < 1e-5 < 1e-2 < DATA.variance(x)[0]
    noise = (batch.gradient(x) - batch.gradient(y)) - (WELLS.gradient(x) - WELLS.gradient(y))
    assert abs(float(noise[0, 2])) < 1e-15 < 1e-6 < abs(float(noise[0, 0]))


# ------------------------------------------------------------------------------- what the instances are for


def test_bad_input_is_named() -> None:
    one = streams(1)
    for call, message in (
        (lambda: VirtualData(WELLS, Separable([(Linear(1.0), 3)])), "features.dim=3 to be landscape.dim=4"),
        (lambda: DATA.fresh(0, one, "a", 0), "batch_size=0 to be whole"),
        (lambda: DATA.fresh(2.5, one, "a", 0), "batch_size=2.5 to be whole"),
        (lambda: DATA.fresh(torch.ones(2), one, "a", 0), r"batch_size.shape=\(2,\) to be \(\) or \(1,\)"),
        (lambda: DATA.fresh(1, one, "a", 0).gradient(POINT), r"x.shape=\(4,\) to be \(runs, dim\) = \(1, 4\)"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
