"""Stochastic Spider with parameters of the theory and with practical ones."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from dpnotes.core import Relation, Status
from dpnotes.oracles.samples import DataSetSamples, VirtualSamples
from dpnotes.papers.adaptive_batch.algorithms import (
    AdaptiveBatchParameters,
    method_of,
    practical,
    spider_of,
    stochastic_spider,
    theorem_3_11,
)
from dpnotes.papers.adaptive_batch.calculators import SAMPLE_SIZE
from dpnotes.privacy.search import Search, random_steps, select_stationary_point
from dpnotes.problems.custom import CustomProblem
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
def test_runs_of_their_own_accuracy_are_one_batch():
    choices = [choice(accuracy) for accuracy in (0.05, 0.1, 0.2)]
    streams = Streams.of("own", range(3))
    whole = stochastic_spider(VirtualSamples(DATA, 10**14), choices, SADDLE, streams, delta=DELTA, max_steps=60)
    for run, one in enumerate(choices):
        index = torch.tensor([run])
        alone = stochastic_spider(
            VirtualSamples(DATA, 10**14), one, SADDLE[index], streams.take(index), delta=DELTA, max_steps=60
        )
        assert torch.allclose(alone.x[0], whole.x[run], atol=1e-9)
    used = whole.state.oracle.meter.used
    assert used[0] > used[1] > used[2]


def test_the_paper_s_parameters_are_vacuous_and_its_noise_is_not_private():
    sizes = {"gradient_bound": 1.0, "smoothness": 1.0, "hessian_lipschitz": 1.0, "initial_gap": 1.0}
    for n in (1e8, 1e9):
        found = theorem_3_11(n, 100, 1.0, DELTA, **sizes, constants="paper")
        assert found.threshold > found.gradient_bound, "every point is taken for a saddle"
    samples, x, claims = VirtualSamples(DATA, 10**10), SADDLE[:1], {}
    for constants in ("paper", "one"):
        # Privacy requires more examples than sampling does.
        oracle = spider_of([theorem_3_11(1e10, 100, 0.01, DELTA, **sizes, constants=constants)], samples)
        (claims[constants],) = oracle.guarantee(oracle.init(x), DELTA, Streams.of(0, ["a"]))
    assert claims["one"].epsilon == pytest.approx(0.01, rel=1e-6) and claims["one"].epsilon <= 0.01
    assert claims["paper"].epsilon > 0.1
    with pytest.raises(ValueError, match="'corrected' to be one of: one, paper; the proof rests on Lemma 3.3"):
        theorem_3_11(1e10, 100, 0.01, DELTA, **sizes, constants="corrected")


def test_the_noise_is_for_the_tree_that_a_run_has():
    """T is rounded up to a power of two, so that the tree has one level more than for the real T."""
    sizes = {"gradient_bound": 1.0, "smoothness": 1.0, "hessian_lipschitz": 1.0, "initial_gap": 1.0}
    steps = 2**16 - 0.5
    n = SAMPLE_SIZE(alpha=steps**-0.5, d=100, epsilon=1.0, G=1.0, M=1.0, B=1.0)["n"]
    found = theorem_3_11(n, 100, 1.0, DELTA, **sizes, constants="one")
    assert found.max_leaves == 2**16
    oracle = spider_of([found], VirtualSamples(DATA, 10**18))
    (claim,) = oracle.guarantee(oracle.init(SADDLE[:1]), DELTA, Streams.of(0, ["a"]))
    assert 0.999 < claim.epsilon <= 1.0


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


@pytest.mark.slow
def test_an_iterate_is_published_by_the_private_search_on_top_of_the_run():
    # f_i(x) = -x_1^2/4 + x_1^4/4 + x_2^2/2 + <a_i, x>: a saddle at 0, minima at x_1^2 = 1/2 with Hessian (1, 1).
    half, steps = 20_000, 40
    draws = Streams.of("saddle", ["a"]).normal("offsets", 0, 2 * half).view(half, 2).clamp(-1, 1)
    offsets = torch.cat([draws, -draws])
    problem = CustomProblem(lambda x, a: -(x[0] ** 2) / 4 + x[0] ** 4 / 4 + x[1] ** 2 / 2 + a @ x, 2, offsets)
    bounds: Any = {"gradient_bound": 3.0, "smoothness": 4.0, "hessian_lipschitz": 0.5}
    parameters = practical(0.3, 2, 4.0, DELTA, **bounds, initial_gap=1.0, max_leaves=64)
    streams, saddle = Streams.of("search", range(3)), torch.zeros(3, 2, dtype=torch.float64)
    iterates: list[Tensor] = []
    runs = stochastic_spider(
        DataSetSamples(problem), parameters, saddle, streams, delta=DELTA, max_steps=steps,
        observe=lambda going, state, estimate: iterates.append(state.x),
    )  # fmt: skip
    assert len(iterates) == steps and (runs.state.status == Status.OK).all()
    search = Search(
        epsilon=1.0, alpha=0.3, hessian_lipschitz=0.5, norm_bound=3.0, smoothness=4.0, num_examples=2 * half,
        num_candidates=8, failure=0.05,
    )  # fmt: skip

    def norm(x: Tensor) -> Tensor:
        uniform = torch.full((len(x), 2 * half), 0.5 / half, dtype=torch.float64)
        return problem.gradients(x).weighted_sum(uniform).norm(dim=1)

    def eigenvalue(x: Tensor) -> Tensor:
        return (3 * x[:, 0] ** 2 - 0.5).clamp_max(1.0)

    points = torch.stack(iterates)[random_steps(streams, steps, 8), torch.arange(3)]
    selection = select_stationary_point(search, points, norm, eigenvalue, streams)
    assert selection.found.all()
    chosen = points[selection.index, torch.arange(3)]
    assert (norm(chosen) <= search.gradient_norm).all() and (eigenvalue(chosen) >= search.smallest_eigenvalue).all()
    at_the_saddle = select_stationary_point(search, saddle.expand(8, 3, 2), norm, eigenvalue, streams)
    assert not at_the_saddle.found.any(), "control"
    oracle = spider_of([parameters] * 3, DataSetSamples(problem))
    for run, alone in enumerate(runs.guarantees):
        claim = search.guarantee(oracle.events(run), alone, streams)
        assert alone.holds and alone.epsilon + 0.5 < claim.epsilon <= alone.epsilon + 1 + 1e-3
        assert "(clipped)" in str(claim) and "4-smooth" in str(claim)


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
    with pytest.raises(ValueError, match="the bound is vacuous"):
        theorem_3_11(100.0, 10, 1.0, DELTA, **SIZES)
    with pytest.raises(ValueError, match="parameters: 2"):
        stochastic_spider(samples, [choice(), choice()], SADDLE, streams, delta=DELTA)
    assert method_of([choice(), choice(0.2)]).num_steps.tolist() == [12800, 3200]  # type: ignore[union-attr]
