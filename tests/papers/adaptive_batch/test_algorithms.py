"""Stochastic Spider with parameters of the theory and with practical ones."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from dpnotes.core import Relation, Status
from dpnotes.oracles.samples import DataSetSamples, VirtualSamples
from dpnotes.papers.adaptive_batch.algorithms import (
    AdaptiveBatchParameters,
    method_of,
    practical,
    spider_of,
    stochastic_spider,
)
from dpnotes.problems.sensing import QuadraticSensing
from dpnotes.problems.separable import Cosine, Separable, Sine
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams

DIM, DELTA = 4, 1e-6
SIZES: Any = {"gradient_bound": 4.0, "smoothness": 4.0, "hessian_lipschitz": 1.0, "initial_gap": 8.0}
DATA = VirtualData(Separable([(Cosine(1.0), DIM)]), Separable([(Sine(0.5), DIM)]))
SADDLE = torch.zeros(3, DIM, dtype=torch.float64)


def choice(accuracy: float = 0.1, epsilon: float = 1.0, **more: Any) -> AdaptiveBatchParameters:
    return practical(accuracy, DIM, epsilon, DELTA, **SIZES | more)


@pytest.mark.parametrize("epsilon", [1.0, 0.01, math.inf])
@pytest.mark.slow
def test_runs_find_a_second_order_stationary_point_within_their_claim(epsilon):
    streams, seen = Streams.of("sosp", range(3)), []
    runs = stochastic_spider(
        VirtualSamples(DATA, 10**14), choice(epsilon=epsilon), SADDLE, streams, delta=DELTA, max_steps=120,
        observe=lambda going, state, estimate: seen.append((state.oracle.memory.point, estimate.gradient)),
    )  # fmt: skip
    assert (DATA.landscape.gradient(runs.x).norm(dim=1) < 0.1).all()
    assert (DATA.landscape.smallest_eigenvalue(runs.x) > -math.sqrt(0.1)).all()
    assert (DATA.landscape.smallest_eigenvalue(SADDLE) < -math.sqrt(0.1)).all(), "control: where they began"
    errors = torch.stack([(DATA.landscape.gradient(x) - gradient).norm(dim=1) for x, gradient in seen])
    assert 0.005 < errors.square().mean().sqrt() < 0.1 / 2
    for claim in runs.guarantees:
        assert claim.holds and claim.relation == Relation.REPLACE_ONE
        assert claim.epsilon == pytest.approx(epsilon, rel=1e-6) and claim.epsilon <= epsilon
    if epsilon < math.inf:
        assert (runs.ledger.rho() <= runs.state.oracle.meter.spent * (1 + 1e-9)).all()


@pytest.mark.slow
def test_a_data_set_is_clipped_and_ends_where_its_examples_do():
    signal = torch.ones(DIM, 1, dtype=torch.float64)
    problem = QuadraticSensing.sample(signal, 5_000, seed=0)
    loose = replace(choice(2.0, 10.0, smoothness=8.0), num_steps=1600)
    streams = Streams.of("sensing", range(2))
    x = problem.initial(streams, 0.5)
    runs = stochastic_spider(DataSetSamples(problem), loose, x, streams, delta=DELTA, max_steps=200)
    assert (runs.state.status == Status.DATA_EXHAUSTED).all() and (runs.state.oracle.meter.used <= 5_000).all()
    assert all(c.holds and "(clipped)" in str(c) and c.epsilon <= 10 for c in runs.guarantees)
    assert (problem.gradients(runs.x).losses.mean(1) < 0.7 * problem.gradients(x).losses.mean(1)).all()


def test_what_is_wrong_is_said_with_by_how_much():
    samples, streams = VirtualSamples(DATA, 10**6), Streams.of(0, range(3))
    with pytest.raises(ValueError, match=r"Expected total=1000000 >= \d+, .*too few examples in run 0 by \d+"):
        stochastic_spider(samples, choice(0.001), SADDLE, streams, delta=DELTA)
    with pytest.raises(ValueError, match=r"Expected M=4 >= sqrt\(rho alpha\)=10: too small by a factor of 2.5"):
        choice(0.1, hessian_lipschitz=1000.0)
    with pytest.raises(ValueError, match=r"Expected step_size=0.5 <= 1/M=0.25: too large by a factor of 2"):
        AdaptiveBatchParameters(**{**choice().__dict__, "step_size": 0.5})
    with pytest.raises(ValueError, match="runs share their mechanism"):
        spider_of([choice(), choice(epsilon=math.inf)], VirtualSamples(DATA, 10**14))
    with pytest.raises(ValueError, match="parameters: 2"):
        stochastic_spider(samples, [choice(), choice()], SADDLE, streams, delta=DELTA)
    assert method_of([choice(), choice(0.2)]).num_steps.tolist() == [12800, 3200]  # type: ignore[union-attr]
