"""Slopes of power laws: the exponent, the coverage of its interval, and refusals."""

import numpy as np
import pytest

from dpnotes.experiments.fits import power_law

KNOB = np.geomspace(0.01, 1.0, 7)


def test_intervals_cover_the_exponent_as_often_as_they_claim():
    draws, trials = np.random.default_rng(0), 300
    fits = [
        power_law(KNOB, KNOB**-2 * np.exp(0.3 * draws.normal(size=(30, 7))), num_bootstrap=400) for _ in range(trials)
    ]
    covered = sum(fit.contains(-2.0) for fit in fits)
    # 95% minus the loss of the bootstrap with 30 repeats; 4 standard errors of 300 trials are 5%.
    assert 0.88 < covered / trials < 0.99
    assert sum(fit.contains(-1.9) for fit in fits) < 0.5 * trials  # control


def test_a_next_order_of_known_form_is_taken_out():
    exact = (KNOB**0.5 * np.exp(0.7 * KNOB))[None]
    assert power_law(KNOB, exact).slope > 0.55
    assert power_law(KNOB, exact, correction=KNOB).slope == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("knob", "outcomes", "said"), [
        (KNOB, np.zeros((3, 7)), "outcomes > 0"), (KNOB, np.full((3, 7), np.nan), "finite"),
        (-KNOB, np.ones((3, 7)), "a knob > 0"), (np.ones(7), np.ones((3, 7)), "two values"),
    ],
)  # fmt: skip
def test_what_has_no_slope_is_refused(knob, outcomes, said):
    with pytest.raises(ValueError, match=said):
        power_law(knob, outcomes)
