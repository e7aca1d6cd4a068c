"""Noise on secret streams is real noise, rounded once: attacks on floating-point noise learn nothing."""

import copy
import math
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch
from mpmath import mp
from scipy import stats

from dpnotes.core import Relation, Request, Sensitive
from dpnotes.privacy.mechanisms import Gaussian, Laplace, grid_of, is_exact, noisy_on_grid
from dpnotes.privacy.selection import AboveThreshold
from dpnotes.random import secret
from dpnotes.random.streams import Streams
from tests.attack import lattice

CPU = torch.device("cpu")


# ---------------------------------------------------------------- the numbers
@pytest.mark.parametrize(("noise", "law"), [("normal", stats.norm), ("laplace", stats.laplace)])
def test_noise_has_its_law_and_its_errors_are_as_derived(noise: secret.Noise, law: stats.rv_continuous):
    drawn = secret._Drawn(noise, 40_000)
    assert stats.kstest(drawn.numbers, law.cdf).pvalue > 1e-4
    own, worst = 2 if noise == "normal" else 1, 0.0
    with mp.workprec(300):
        for place in range(400):
            half, word = mp.mpf(float(drawn.half[place // own])), int(drawn.word[place // own])
            length = -mp.log(1 - half if drawn.upper[place // own] else half)
            if noise == "laplace":
                exact, unit = length if word & 2 else -length, length
            else:
                angle = 2 * mp.pi * (word >> 11) / 2**53
                unit = mp.sqrt(2 * length)
                exact = unit * (mp.sin(angle) if place % 2 else mp.cos(angle))
            worst = max(worst, float(abs(mp.mpf(float(drawn.numbers[place])) - exact) / unit) * 2**53)
    assert worst < (2 if noise == "laplace" else 14), "of what was drawn; docs/derivations/rounded_noise.md"


def test_a_uniform_number_is_fine_near_both_ends(monkeypatch: pytest.MonkeyPatch):
    given = [[0, 0, 2**12], [0, 0, 0], [5, 2**63], [2**40]]  # two words without a one at the top, of which one has two
    words = iter(np.array(each, np.uint64) for each in given)
    monkeypatch.setattr(secret, "_bits", lambda *shape: next(words))
    found = secret._halves(3)
    assert found.tolist() == [2.0 ** -(53 + 53 + 23 + 2), 2.0 ** -(53 + 2), 2.0 ** -(51 + 2)]
    monkeypatch.undo()
    drawn = secret.uniforms(1, 2**19, CPU)
    assert 0 < drawn.min() < 2.0**-16 and 1 - 2.0**-16 < drawn.max() < 1
    assert len(torch.unique(drawn)) == drawn.numel(), "none twice"


def test_what_float64_does_not_tell_is_computed_with_more_digits(monkeypatch: pytest.MonkeyPatch):
    offset, scale = torch.rand(2, 60, dtype=torch.float64), torch.tensor([1024.0, 2047.0], dtype=torch.float64)
    drawn = {noise: secret._Drawn(noise, 120) for noise in get_args(secret.Noise)}
    for noise, numbers in drawn.items():
        monkeypatch.setattr(secret, "_Drawn", lambda *_, numbers=numbers: copy.deepcopy(numbers))
        clear = secret.rounded(noise, offset, scale)
        monkeypatch.setattr(secret, "ERROR", 1.0)  # no rounding is certain
        assert torch.equal(secret.rounded(noise, offset, scale), clear)
        monkeypatch.undo()
    # For a number so near to a half that float64 gives one answer, further bits decide; both answers occur.
    several = set()
    for place in range(4):
        real = 1024 * drawn["normal"].numbers[place]
        for offset in (math.floor(real) + 0.5 - real) % 1 + np.arange(-128, 128) * 2.0**-44:
            given = np.array([place] * 8), np.full(8, offset), np.full(8, 1024.0)
            several.add(len({drawn["normal"].nearest(*(each[:1] for each in given))[0] for _ in range(8)}))
            assert len({*drawn["normal"].nearest(*given)}) == 1, "one number is continued once"
    assert several == {1, 2}


# ---------------------------------------------------------------- what is released
def released(value: torch.Tensor, std: float, mechanism: Gaussian | Laplace | None = None) -> torch.Tensor:
    one = torch.ones(len(value), dtype=torch.float64)
    answer = Sensitive(value, one, Relation.ZERO_OUT, "proved")
    request = Request(answer, std * one, torch.zeros(len(value), dtype=torch.int64), one > 0)
    mechanism = mechanism or Gaussian()
    return mechanism.release(mechanism.init(value), request, Streams.secure(len(value)))[1]


@pytest.mark.parametrize("std", [1e-300, 3e-5, 1.0, 20.0, 1e300])
@pytest.mark.parametrize("mechanism", [Gaussian(), Laplace()], ids=str)
def test_a_release_is_on_the_public_grid_whatever_the_answer(std: float, mechanism: Gaussian | Laplace):
    size = 20_000 if isinstance(mechanism, Gaussian) else 1
    rows = 1 if size > 1 else 2_000
    for shift in (0.0, 1 / 3, -1e5, 1e14):
        value = torch.full((rows, size), shift * std, dtype=torch.float64)
        noisy = released(value, std, mechanism)
        step = grid_of(torch.tensor([std if size > 1 else std / 2**0.5], dtype=torch.float64))
        steps = noisy / step
        assert torch.equal(steps, steps.round()) and step <= std / 2**10
        if abs(shift) < 1e6:
            law = stats.norm if size > 1 else stats.laplace(scale=0.5**0.5)
            assert stats.kstest(((noisy - value) / std).flatten().numpy(), law.cdf).pvalue > 1e-5


def test_an_answer_that_is_no_number_or_too_large_is_no_error():
    noisy = released(torch.tensor([[torch.nan, torch.inf, -torch.inf, 1e308]], dtype=torch.float64), 1.0)
    assert (
        noisy.isfinite().all()
        and abs(noisy[0, 0]) < 50
        and torch.allclose(noisy[0, 1:].abs(), torch.tensor(2.0**52).double())
    )


def test_custom_release_is_not_known_to_be_exact():
    class Own(Gaussian):
        def release(self, state, request, streams):  # noqa: ANN001, ANN202
            return super().release(state, request, streams)

    class Named(Gaussian):
        pass

    assert is_exact(Gaussian()) and is_exact(Named()) and not is_exact(Own())


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 50.0])
def test_a_search_is_on_one_grid_and_its_sensitivity_is_rounded_up(epsilon: float, monkeypatch: pytest.MonkeyPatch):
    search, one = AboveThreshold(epsilon, 0.37, 1 / 3, Relation.REPLACE_ONE), torch.ones(1, dtype=torch.float64)
    given = []
    monkeypatch.setattr(
        "dpnotes.privacy.selection.noisy_on_grid",
        lambda noise, value, scale, *rest: (
            given.append((value, scale, rest[-1])) or noisy_on_grid(noise, value, scale, *rest)
        ),
    )
    streams = Streams.secure(1)
    state, _ = search.begin(search.init(streams), streams, one > 0)
    for value in (-1e300, 0.3, torch.nan, -torch.inf):
        question = Sensitive(torch.full((1, 1), value, dtype=torch.float64), one / 3, Relation.REPLACE_ONE, "proved")
        state, _ = search.ask(replace(state, halted=torch.zeros_like(state.halted)), question, streams, one > 0)
    steps = {float(step) for _, _, step in given}
    assert len(steps) == 1 and len(given) == 5
    (step,) = steps
    scales = [float(scale) for _, scale, _ in given]
    sensitivity = scales[0] * epsilon / 2
    assert 1 / 3 < sensitivity <= 1 / 3 + step and abs(sensitivity / step - round(sensitivity / step)) < 1e-6
    assert scales[1:] == [2 * scales[0]] * 4 and float(state.threshold / step).is_integer()


# ---------------------------------------------------------------- the limits that docs/privacy.md states
def test_what_seeded_noise_gives_away_is_not_understated():
    radii = np.sqrt(-2 * np.log(np.arange(1, 2**21, dtype=np.float64) * 2.0**-53))
    assert round(radii[0], 2) == 8.57, "the largest"
    # Coordinates from 4 to 8 are 2^-21 apart in float32, which distinguishes radii that are further apart.
    told = (radii[:-1] - radii[1:] > 2.0**-21).sum() * 2.0**-53
    assert 2e-11 < told < 4e-11 and told * 1e6 > 1e-5


def test_a_float32_sum_moves_by_more_than_its_sensitivity():
    terms = torch.rand(20_000, generator=torch.Generator().manual_seed(0)) * 0.2 + 0.8
    excess = terms.sum().double() - torch.stack([terms.index_fill(0, torch.tensor(row), 0).sum() for row in range(500)])
    worst = float((excess - terms[:500].double()).max())
    assert 0.0005 < worst < 0.01, "privacy.md says .0025; a processor adds in its own order"
    exact = terms.double().sum() - torch.stack(
        [terms.double().index_fill(0, torch.tensor(row), 0).sum() for row in range(500)]
    )
    assert float((exact - terms[:500].double()).max()) < 1e-9, "control: float64 moves by the term"


# ---------------------------------------------------------------- attacks
@pytest.mark.slow
@pytest.mark.parametrize("name", lattice.ATTACKS)
def test_attacks_are_at_chance_and_catch_the_control(name: str):
    ours, control = lattice.attack(name)
    low, high = lattice.chance()
    assert low <= ours <= high < control and control > 0.9 * lattice.RUNS
    assert lattice.verdict(name, ours, control) == [] and lattice.verdict(name, control, ours)
