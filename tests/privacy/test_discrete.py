"""OpenDP's discrete Gaussian as a mechanism: on its grid, with the right noise, and the price that OpenDP computes."""

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from dpnotes.core import Ledger, Request
from dpnotes.privacy import discrete
from dpnotes.privacy.accounting import account
from dpnotes.privacy.discrete import DiscreteGaussian, _measurement
from dpnotes.privacy.events import events_of
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.random.streams import Streams
from tests.privacy.test_privacy import request

GRID = 2.0**-6


def released(mechanism, asked: Request) -> Tensor:
    return mechanism.release(mechanism.init(asked.answer.value), asked, Streams.secure(len(asked.noise_std)))[1]


def test_a_missing_opendp_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "opendp.domains", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'dpnotes\[exact\]'"):
        released(DiscreteGaussian(), request(torch.zeros(1, 1), 1.0))


@pytest.mark.parametrize("grid", [0.1, 3.0])
def test_a_grid_that_cannot_be_rounded_to_is_refused(grid: float):
    with pytest.raises(ValueError, match="Expected grid="):
        DiscreteGaussian(grid)


@pytest.mark.parametrize("sensitivity", [1e-3, 0.5, 2.0])
def test_the_noise_is_wider_by_what_rounding_adds(monkeypatch: pytest.MonkeyPatch, sensitivity: float):
    scales: list[float] = []

    def measurement(scale: float):
        scales.append(scale)
        return lambda steps: steps

    monkeypatch.setattr(discrete, "_measurement", measurement)
    released(DiscreteGaussian(GRID), request(torch.zeros(1, 4, dtype=torch.float64), 3.0, sensitivity))
    assert scales == [pytest.approx(3.0 * (sensitivity + 2 * GRID) / sensitivity / GRID)]


class TestWithOpenDP:
    """Tests that need the extra `exact`."""

    @pytest.fixture(autouse=True)
    def _opendp(self):
        pytest.importorskip("opendp", reason="pip install -e '.[exact]'")

    @pytest.mark.slow
    def test_releases_lie_on_the_grid_and_have_the_noise_that_was_asked_for(self):
        value = torch.full((1, 40_000), 0.3, dtype=torch.float64)
        # A coarse grid with few steps, and a sensitivity so large that rounding hardly increases the noise.
        noisy = released(DiscreteGaussian(GRID), request(value, 2.0, sensitivity=1e6))
        steps = noisy / GRID
        assert torch.equal(steps, steps.round())
        noise = (noisy - (0.3 / GRID - 0.2) * GRID).flatten()  # 0.3 is 19.2 steps, which rounds to 19
        # 40,000 draws: 2% is over 5 standard errors of a standard deviation, 5% over 14.
        assert float(noise.std()) == pytest.approx(2.0, rel=0.02)
        assert float(noise.mean()) == pytest.approx(0.0, abs=5 * 2.0 / 200)
        assert stats.kstest((noise / 2).numpy(), "norm").pvalue > 1e-6
        louder = released(DiscreteGaussian(GRID), request(value, 2.1, sensitivity=1e6))
        assert float(louder.std()) != pytest.approx(2.0, rel=0.02)  # the control
        plain = Gaussian().release(torch.zeros(1, 0), request(value, 2.0), Streams.of(0, ["a"]))[1]
        assert not torch.equal(plain / GRID, (plain / GRID).round())

    @pytest.mark.parametrize(("sensitivity", "dim"), [(1.0, 1), (0.1, 100), (0.01, 7)])
    def test_opendp_s_own_price_of_the_rounded_answer_is_not_above_ours(self, sensitivity: float, dim: int):
        asked = request(torch.zeros(1, dim), 2.0 * sensitivity, sensitivity)
        mechanism = DiscreteGaussian(GRID)
        _, _, price = mechanism.release(mechanism.init(torch.zeros(1, dim)), asked, Streams.secure(1))
        assert float(price.rho()[0]) == pytest.approx(0.125)
        apart = (sensitivity + GRID * math.sqrt(dim)) / GRID  # steps, after rounding
        scale = 2.0 * sensitivity / GRID * (1 + GRID * math.sqrt(dim) / sensitivity)
        assert _measurement(scale).map(apart) <= 0.125 * (1 + 1e-9)
        assert _measurement(2.0 * sensitivity / GRID).map(apart) > 0.125  # the control: rounding must be paid for

    @pytest.mark.parametrize(
        ("value", "nearest"), [(math.nan, 0.0), (math.inf, 2.0**42), (-math.inf, -(2.0**42)), (1e30, 2.0**42)]
    )
    def test_an_answer_off_the_grid_s_range_is_moved_into_it_and_no_error(self, value: float, nearest: float):
        answer = torch.tensor([[value, 3.0]], dtype=torch.float64)
        noisy = released(DiscreteGaussian(2.0**-20), request(answer, 1.0))
        # An error would reveal something about the data without noise. Fifty standard deviations are never exceeded.
        assert (noisy - torch.tensor([[nearest, 3.0]])).abs().max() < 50
        plain = Gaussian().release(torch.zeros(1, 0), request(answer, 1.0), Streams.of(0, ["a"]))[1]
        assert not (plain - torch.tensor([[nearest, 3.0]])).abs().max() < 50  # the control

    def test_its_price_is_converted_as_zcdp_and_the_exact_gaussian_one_would_be_too_small(self):
        # Two data sets whose answers differ by one grid step, at half a step and one and a half: they round to 0 and 2
        # steps.
        apart, multiplier, delta = GRID, 0.3, 0.1
        asked = request(torch.zeros(1, 1, dtype=torch.float64), multiplier * apart, apart)
        mechanism = DiscreteGaussian(GRID)
        _, _, price = mechanism.release(mechanism.init(torch.zeros(1, 1)), asked, Streams.secure(1))
        assert price.noise == "zcdp"
        steps = np.arange(-60, 61)
        weights = np.exp(-0.5 * (steps / (2 * multiplier)) ** 2)  # the noise was doubled for the rounding
        mass = weights / weights.sum()

        def true_delta(epsilon: float) -> float:
            return float(np.maximum(mass[2:] - math.exp(epsilon) * mass[:-2], 0).sum())

        events = events_of(Ledger([price]), 0)
        claim = account(events, delta)
        assert true_delta(claim.epsilon) <= delta
        as_gaussian = account([replace(events[0], noise="gaussian")], delta)
        assert true_delta(as_gaussian.epsilon) > delta  # the control
