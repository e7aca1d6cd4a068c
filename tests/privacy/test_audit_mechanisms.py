"""The library's own mechanisms under attack: exact densities, samples, and copies with one wrong line."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from stand_ins import UnitRuns
from torch import Tensor

from dpnotes.core import FRESH, Ledger, Relation, Request, Sensitive
from dpnotes.privacy import factorisation, mechanisms, tree
from dpnotes.privacy.accounting import rho_to_epsilon
from dpnotes.privacy.audit import GaussianPair, from_scores, runs_for_power
from dpnotes.privacy.museum import exhibits, module_with_line_replaced
from dpnotes.random.streams import Streams

STEPS, DELTA = 16, 1e-5


def sums(mechanism: Any, increments: Tensor, streams: Any) -> tuple[Tensor, float]:
    """Return running sums `(runs, steps)` of released increments, and an example's largest cost."""
    runs, ones = len(streams.keys), torch.ones(len(streams.keys), dtype=torch.float64)
    state, total, outputs, ledger = mechanism.init(torch.zeros(runs, 1, dtype=torch.float64)), 0.0, [], Ledger()
    for step in range(STEPS):
        answer = Sensitive(increments[step].expand(runs, 1).clone(), ones, Relation.ZERO_OUT, "proved", FRESH)
        request = Request(answer, 2 * ones, torch.full((runs,), step), ones.bool())
        state, value, price = mechanism.release(state, request, streams)
        ledger.add(price)
        total = total + value
        outputs.append(total)
    return torch.cat(outputs, 1), float(ledger.rho()[0])


def pair_of(mechanism: Any, step: int) -> tuple[GaussianPair, float]:
    """Return the exact densities of the mechanism's running sums with and without the increment of one step."""
    unit = UnitRuns(torch.zeros(STEPS + 1, 2, dtype=torch.int64))
    without, rho = sums(mechanism, torch.zeros(STEPS, dtype=torch.float64), unit)
    included, _ = sums(mechanism, torch.eye(STEPS, dtype=torch.float64)[step], unit)
    return GaussianPair(without[0], included[0] - without[0], without[1:] - without[0]), rho


CORRECT = {
    "gaussian": lambda: mechanisms.Gaussian(),
    "tree": lambda: tree.Tree(STEPS),
    "optimal tree": lambda: tree.Tree(STEPS, optimal=True),
    "banded square root": lambda: factorisation.BandedSquareRoot(STEPS, 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CORRECT)
def test_what_is_sampled_has_these_densities_and_an_audit_does_not_accuse_it(name: str):
    make = CORRECT[name]
    step = max(range(STEPS), key=lambda s: pair_of(make(), s)[0].mu)
    pair, rho = pair_of(make(), step)
    scores = []
    for included in (True, False):
        increments = torch.eye(STEPS, dtype=torch.float64)[step] * included
        outputs, _ = sums(make(), increments, Streams.of(f"{name} {included}", range(20_000)))
        scores.append(pair.score(outputs))
        expected = stats.norm(included * pair.mu, 1).cdf
        assert stats.kstest(scores[-1].numpy(), expected).pvalue > 1e-4
        assert stats.kstest(1.1 * scores[-1].numpy(), expected).pvalue < 1e-4  # the control
    claim = rho_to_epsilon(rho, DELTA)
    threshold = pair.strongest_threshold(20_000, DELTA, 0.01)
    bound = from_scores(*scores, delta=DELTA, relation=Relation.ZERO_OUT, threshold=threshold)
    assert 0.2 * claim < bound.epsilon < claim


# Lines of the library's tree, and their replacements.
DRAW = "drawn = streams.normal(self.purpose, request.call, value.shape[1]).mul_(scale[:, None])"
TAKE = "for low in range(max(completes, default=0)):"
BROKEN = {
    "every call draws the same noise": (DRAW, DRAW.replace("request.call", "0")),
    "one block too many is taken away": (TAKE, TAKE.replace("default=0)", "default=0) + (max(completes) == 0)")),
    "noise divided by its size": (DRAW, DRAW.replace(".mul_(scale", ".div_(scale")),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.slow
def test_a_copy_of_the_tree_with_one_line_wrong_exceeds_its_claim_both_ways(name: str):
    broken = module_with_line_replaced(tree, *BROKEN[name])
    step = max(range(STEPS), key=lambda s: pair_of(broken.Tree(STEPS), s)[0].mu)
    pair, rho = pair_of(broken.Tree(STEPS), step)
    claim = rho_to_epsilon(rho, DELTA)
    assert pair.epsilon(DELTA) > 1.2 * claim  # shown by densities
    threshold = pair.threshold(claim, DELTA)
    runs = runs_for_power(*pair.rates(threshold), epsilon=claim, delta=DELTA)
    assert runs <= 200_000
    scores = []
    for included in (True, False):
        increments = torch.eye(STEPS, dtype=torch.float64)[step] * included
        outputs, _ = sums(broken.Tree(STEPS), increments, Streams.of(f"{name} {included}", range(runs)))
        scores.append(pair.score(outputs))
    bound = from_scores(*scores, delta=DELTA, relation=Relation.ZERO_OUT, threshold=threshold)
    assert bound.epsilon > claim  # shown by an audit


def test_the_museum_s_tree_claim_is_what_the_library_charges():
    exhibit = next(e for e in exhibits() if "no node" in e.name)
    _, rho = pair_of(tree.Tree(STEPS), 0)
    assert exhibit.claim.epsilon == pytest.approx(rho_to_epsilon(rho, exhibit.claim.delta), rel=1e-9)
    assert math.isinf(exhibit.exact(True)) and np.isfinite(exhibit.exact(False))
