"""Experiments without a figure in the paper: norms of estimates, generalisation, the tree; and their rules."""

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from specs import changed, frame_of, simulated

from dpnotes.papers.goldstein.experiments import generalisation, sensitivity, tree
from dpnotes.papers.goldstein.experiments.estimates import Estimated, exponents
from dpnotes.problems.robust import RobustRegression
from dpnotes.random.streams import Streams


# ---------------------------------------------------------------- exponents
def test_exponents_and_their_standard_errors():
    draws, knob, other = np.random.default_rng(0), np.tile([1.0, 2, 4, 8], 3), np.repeat([1.0, 10, 100], 4)
    means = 3 * knob**-0.5 * other**0.25
    errors = 0.02 * means
    found = [exponents(means + errors * draws.normal(size=12), errors, knob=knob, other=other) for _ in range(2000)]
    for name, exponent in (("knob", -0.5), ("other", 0.25)):
        off = np.array([each[name].off(exponent) for each in found])
        # For 2000 normal numbers: the mean within 5 standard errors, and the variance within 5 standard errors.
        assert abs(off.mean()) < 5 / math.sqrt(2000) and abs(off.var() - 1) < 5 * math.sqrt(2 / 2000)
        assert abs((0.9 * off).var() - 1) > 5 * math.sqrt(2 / 2000)  # control
    assert Estimated(1.0, 0.0).off(1.0) == 0 and Estimated(1.0, 0.0).off(2.0) == -math.inf


# ---------------------------------------------------------------- lengths of estimates
ESTIMATE, COMMON, INDEPENDENT = "move == 0", "move > 0 & directions == 'common'", "directions == 'independent'"


@pytest.mark.parametrize(
    ("rows", "factor", "verdict"),
    [
        (ESTIMATE, "1 + 0 * dim", "reproduced"),
        (ESTIMATE, "0.5 * (dim / 256) ** 0.5", "not reproduced"),
        (ESTIMATE, "0.9 * (dim / 256) ** 0.1", "undecided"),
        (ESTIMATE, "0.5 * ratio ** 0.2", "undecided"),
        (COMMON, "1 / move", "not reproduced"),
        (COMMON, "num_directions ** -0.2", "undecided"),
        (INDEPENDENT, "move ** 0.5", "undecided"),
        (ESTIMATE, "1.2 + 0 * dim", "not reproduced"),
        (ESTIMATE, "0.8 + 0 * dim", "undecided"),
    ],
)
def test_the_rule_on_lengths(rows, factor, verdict):
    frame = simulated(sensitivity)
    changed_rows = frame.eval(rows)
    frame.loc[changed_rows, ["length", "error"]] *= frame[changed_rows].eval(factor).to_numpy()[:, None]
    assert sensitivity.decide(frame, sensitivity.QUICK).verdict == verdict


# ---------------------------------------------------------------- generalisation
def gaps(off: float = 1.0, smoothed: float = -0.5, **others: float) -> pd.DataFrame:
    """Return simulated gaps: this share of the Goldstein norms is off by 1/2, other gaps have these exponents."""
    frame = simulated(generalisation)
    n, near = frame["num_examples"], frame["gap_of"] == generalisation.NORM
    exponents = frame["gap_of"].map(others).fillna(smoothed).mask(near, -0.5)
    frame["gap"] *= n ** (exponents + 0.5)
    few = near & (frame.groupby(["gap_of", "num_examples", "dim"]).cumcount() >= off * 200)
    return frame.assign(gap=frame["gap"].mask(few, 0.9 * n**-0.5))


@pytest.mark.parametrize(
    ("frame", "verdict"),
    [
        (gaps(), "reproduced"),
        (gaps(off=0.0), "not reproduced"),
        (gaps(off=0.8), "undecided"),
        (gaps(smoothed=0.0), "not reproduced"),
        (gaps(smoothed=-0.35), "undecided"),
        (gaps(**{generalisation.TRAINED: 0.0}), "not reproduced"),
        (gaps(**{generalisation.LARGEST: -0.8}), "undecided"),
    ],
)
def test_the_rule_on_generalisation(frame, verdict):
    assert generalisation.decide(frame, generalisation.QUICK).verdict == verdict


def test_cells_fall_as_often_as_the_binomial_law_says():
    """The share of cells in which the empirical norm is 0: 200,000 cells, 4 standard errors."""
    slopes = generalisation.average_slopes(Streams.of("cells", range(10)), 10, 20_000)
    assert set((slopes * 5).round().unique().tolist()) <= set(range(-5, 6))
    found, law = float((slopes <= 0).double().mean()), 0.07812690734863281  # Pr[Bin(10, 1/4) >= 5]
    error = math.sqrt(law * (1 - law) / 200_000)
    assert abs(found - law) < 4 * error < abs(found - 0.0197)  # control: the probability of 6 or more


def test_smoothed_gradients_of_phase_retrieval_are_means_over_the_ball():
    dim, radius, count = 3, 0.4, 100_000
    problem = RobustRegression.sample(torch.ones(dim, 1).double() / 3**0.5, 20, 1, "absolute", noise_std=0.5)
    x = torch.tensor([[0.3, -0.2, 0.1]]).double()
    normal = Streams.of("balls", [0]).normal("points", 0, count * (dim + 2)).view(count, dim + 2)
    points = x + radius * (normal / normal.norm(dim=1, keepdim=True))[:, :dim]
    sums = problem.gradients(points).weighted_sum(torch.full((count, 20), 1 / 20).double())
    error, exact = sums.std(0) / math.sqrt(count), generalisation.smoothed_gradients(problem, x, radius)[0]
    assert (((sums.mean(0) - exact) / error).abs() < 4.5).all()
    assert (
        ((sums.mean(0) - problem.gradients(x).weighted_sum(torch.full((1, 20), 1 / 20).double())[0]) / error).abs()
        > 4.5
    ).any()
    drawn = torch.tensor([[1, 1, 4], [0, 2, 3]])
    both = generalisation.smoothed_gradients(problem, x.expand(2, -1), radius, drawn)
    rows = RobustRegression(problem.inputs[[1, 1, 4]], problem.targets[[1, 1, 4]], "absolute")
    assert torch.allclose(both[0], generalisation.smoothed_gradients(rows, x, radius)[0], atol=1e-14)


# ---------------------------------------------------------------- the tree
def noise(tree_square=None, epsilon: float = 1.0, spread: float = 0.0) -> pd.DataFrame:
    """Return simulated mean squares, of the tree's as this function of the period, with this scatter on top."""
    frame = simulated(tree).assign(epsilon=epsilon)
    if tree_square:
        frame["square"] *= np.where(frame["arm"] == "tree", tree_square(frame["period"]) / frame["exact"], 1.0)
    return frame.assign(square=frame["square"] * (1 + spread * np.random.default_rng(1).normal(size=len(frame))))


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (partial(noise), "reproduced"),
        (partial(noise, epsilon=1.01), "not reproduced"),
        (partial(noise, epsilon=0.9), "undecided"),
        (partial(noise, lambda period: 10.0 * period), "not reproduced"),
        (partial(noise, lambda period: period**0.9), "not reproduced"),
        (partial(noise, lambda period: 12 * (np.log2(period) + 0.5)), "undecided"),
        (partial(noise, lambda period: 9.0 * (np.log2(period) + 0.5) ** 2), "undecided"),
        (partial(noise, spread=1.5), "undecided"),
    ],
)
def test_the_rule_on_the_tree(seen, verdict):
    assert tree.decide(seen(), tree.QUICK).verdict == verdict


def test_exact_squares_are_those_of_the_blocks():
    for period in (1, 2, 5, 8, 21, 64):
        blocks = sum(bin(t).count("1") for t in range(1, period + 1))
        assert tree.exact_square("tree", period, 2.0) == pytest.approx(4 * blocks / period)
        assert tree.exact_square("independent", period, 2.0) == pytest.approx(4 * (period + 1) / 2)
        assert tree.exact_square("optimal tree", period, 2.0) <= tree.exact_square("tree", period, 2.0)
    for power in (4, 7, 11):
        square = tree.exact_square("tree", 2**power, math.sqrt(power + 1))
        assert math.sqrt(2 * square) == pytest.approx(power + 0.5, rel=0.01)
    # A node of the tree has the root of the number of its levels times the noise of a release at the same cost. Beyond
    # 300 there is no doubt: the square of the one grows as log2(Sigma)^2 / 2, of the other as Sigma / 2.
    noisier = [p for p in range(1, 301) if tree.exact_square("tree", p, p.bit_length() ** 0.5) >= (p + 1) / 2]
    assert max(noisier) == 20, "the tree has less noise from 21 on"


def test_a_tiny_tree_runs_and_the_ledger_charges_epsilon():
    spec = changed(tree.QUICK, periods=[4, 32, 33, 48, 64], repeats=20, dim=50)
    frame = frame_of(tree, spec)
    table = tree.summary(frame)
    assert list(table["arm"].unique()) == list(tree.ARMS) and (table["off"].abs() < 5).all()
    spent = table.groupby("arm")["epsilon"].agg(["min", "max"])
    assert np.allclose(spent.loc[["independent", "tree"]], 1.0, rtol=1e-6) and spent.loc["printed tree", "max"] < 0.4
    assert tree.decide(frame, spec).verdict == "undecided"
    # The control: with half of the noise the ledger charges more.
    with pytest.MonkeyPatch.context() as patch:
        halved = tree.mechanism("tree", 32, 1.0, 1e-6)
        patch.setattr(tree, "mechanism", lambda *_: (halved[0], halved[1] / 2))
        part = frame_of(tree, spec, [{"arm": "tree", "period": 32}])
    assert float(part["epsilon"].max()) > 1.9
