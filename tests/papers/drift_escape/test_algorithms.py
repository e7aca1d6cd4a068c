"""Drift escape with parameters of the theory and with practical ones."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from dpnotes.core import Relation, Status
from dpnotes.oracles.samples import VirtualSamples
from dpnotes.papers.drift_escape.algorithms import (
    DriftEscapeParameters,
    drift_escape,
    practical,
    practical_escape,
    spider_of,
    theorem_2,
)
from dpnotes.papers.drift_escape.calculators import PARAMETERS, PLAN
from dpnotes.papers.drift_escape.escaping import DriftEscape
from dpnotes.problems.separable import Cosine, Separable, Sine
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams

DIM, DELTA = 4, 1e-6
SIZES: Any = {"smoothness": 4.0, "hessian_lipschitz": 1.0, "risk_range": 8.0}
UNIT: Any = {"smoothness": 1.0, "hessian_lipschitz": 1.0, "risk_range": 1.0}
DATA = VirtualData(Separable([(Cosine(1.0), DIM)]), Separable([(Sine(0.5), DIM)]))
SADDLE = torch.zeros(3, DIM, dtype=torch.float64)


def choice(accuracy: float = 0.2, epsilon: float = 1.0, **more: Any) -> DriftEscapeParameters:
    options: Any = SIZES | {"step_size": 0.25, "attempts": 3} | more
    escape = practical_escape(accuracy, **options)
    return practical(escape, DIM, epsilon, DELTA, gradient_bound=4.0)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "repeat"), [(1.0, "refresh"), (0.01, "restore"), (math.inf, "go on")])
def test_runs_return_a_second_order_stationary_point_within_their_claim(epsilon, repeat):
    streams, seen = Streams.of("sosp", range(3)), []
    runs = drift_escape(
        VirtualSamples(DATA, 10**15), choice(epsilon=epsilon), SADDLE, streams, delta=DELTA, repeat=repeat,
        max_steps=1500,
        observe=lambda going, state, estimate: seen.append((state.oracle.memory.point, estimate.gradient)),
    )  # fmt: skip
    assert (runs.state.status == Status.FINISHED).all()
    assert (DATA.landscape.gradient(runs.x).norm(dim=1) < 0.2).all()
    assert (DATA.landscape.smallest_eigenvalue(runs.x) > -math.sqrt(0.2)).all()
    assert (DATA.landscape.smallest_eigenvalue(SADDLE) < -math.sqrt(0.2)).all(), "control: where they began"
    errors = torch.cat([(DATA.landscape.gradient(x) - gradient).norm(dim=1) for x, gradient in seen])
    assert errors.square().mean().sqrt() < 0.2 / 4 / 2
    for claim in runs.guarantees:
        assert claim.holds and claim.relation == Relation.REPLACE_ONE
        assert claim.epsilon == pytest.approx(epsilon, rel=1e-6) and claim.epsilon <= epsilon
    if epsilon < math.inf:
        assert (runs.ledger.rho() <= runs.state.oracle.meter.spent * (1 + 1e-9)).all()


def test_runs_of_their_own_accuracy_are_one_batch():
    choices, streams = [choice(accuracy) for accuracy in (0.15, 0.2, 0.4)], Streams.of("own", range(3))
    whole = drift_escape(VirtualSamples(DATA, 10**15), choices, SADDLE, streams, delta=DELTA, max_steps=60)
    for run, one in enumerate(choices):
        index = torch.tensor([run])
        alone = drift_escape(
            VirtualSamples(DATA, 10**15), one, SADDLE[index], streams.take(index), delta=DELTA, max_steps=60
        )
        assert torch.allclose(alone.x[0], whole.x[run], atol=1e-9)


def test_a_run_that_ended_in_the_last_step_of_an_attempt_is_not_called_finished():
    method, oracle = DriftEscape(0.25, 1.0, 5, 0.3, attempts=1), spider_of([choice()], VirtualSamples(DATA, 10**15))
    state, one = method.init(SADDLE[:1], oracle), torch.ones(1, dtype=torch.int64)
    for status, after in (Status.OK, Status.FINISHED), (Status.BUDGET_EXHAUSTED, Status.BUDGET_EXHAUSTED):
        last = replace(state, status=int(status) * one, attempt=one, elapsed=4 * one)
        assert method.step(last, oracle, Streams.of("ended", [0]))[0].status.tolist() == [after]


def test_the_paper_s_parameters_are_vacuous():
    epsilons = {}
    for constants in ("paper", "corrected"):
        found = theorem_2(1e20, 100, 1.0, DELTA, gradient_bound=1.0, **UNIT, constants=constants)
        assert found.batch * found.escape.num_steps > 100 * 1e20, "the batches add up to more than there is"
        oracle = spider_of([found], VirtualSamples(DATA, 10**18))
        (claim,) = oracle.guarantee(oracle.init(SADDLE[:1]), DELTA, Streams.of(0, ["a"]))
        epsilons[constants] = claim.epsilon
    assert epsilons["corrected"] == pytest.approx(1.0, rel=1e-6)
    assert epsilons["paper"] > 2, "with 1 for its constants"


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("constants", ["paper", "corrected", "one"])
def test_the_escape_is_planned_for_the_noise_that_is_drawn(constants: str, epsilon: float):
    n = 1e24 if constants == "paper" else 1e20
    found = theorem_2(n, 100, epsilon, DELTA, gradient_bound=1.0, **UNIT, constants=constants)
    # A fresh gradient and the differences until their squared moves add up to kappa, drawn as in Algorithm 2.
    moves = torch.full((1000,), math.sqrt(found.drift_threshold / 1000), dtype=torch.float64)
    drawn = found.noise_multiplier * torch.cat([torch.tensor([2 / found.first_batch]), 2 * moves / found.batch]).norm()
    planned = PLAN(n=n, d=100, epsilon=epsilon, delta=DELTA, G=1.0, M=1.0, rho=1.0, U=1.0, constants=constants)
    at = dict(sigma=planned["sigma"], d=100, C=1.0, s=1.0, M=1.0, rho=1.0, U=1.0, omega=0.1, constants=constants)
    accuracy = found.escape.accuracy
    assert accuracy == pytest.approx(PARAMETERS(**at, r=float(drawn))["alpha"], rel=1e-9)
    control = PARAMETERS(**at, r=float(drawn) / 1.95)["alpha"]
    assert abs(control / accuracy - 1) > 1e-3, "less noise is another plan"
    if constants != "one":
        assert float(drawn) == pytest.approx(planned["r"], rel=1e-9)


def test_kappa_balances_what_privacy_or_sampling_asks_for():
    private, sampling = choice(epsilon=1e-4), choice(epsilon=math.inf)
    chi, step = 0.05, 0.25 * 0.05
    assert private.drift_threshold == pytest.approx(64 * step ** (4 / 3))
    assert sampling.drift_threshold == pytest.approx(16 * step)
    error = chi / 4
    assert sampling.first_batch == pytest.approx((4 / error) ** 2)
    assert sampling.batch == pytest.approx(16 * sampling.drift_threshold / error**2)
    ratio = private.batch / private.first_batch
    assert ratio == pytest.approx(math.sqrt(private.drift_threshold)), "noise is proportional to what is averaged"


def test_what_is_wrong_is_said_with_by_how_much():
    good = choice()
    with pytest.raises(ValueError, match=r"Expected total=1000 >= \d+, .*too few examples in run 0 by \d+"):
        drift_escape(VirtualSamples(DATA, 1000), good, SADDLE, Streams.of(0, range(3)), delta=DELTA)
    with pytest.raises(ValueError, match=r"Expected M=1 >= sqrt\(rho alpha\)=2: too small by a factor of 2"):
        practical_escape(4.0, **UNIT)
    with pytest.raises(ValueError, match=r"Expected step_size=0.5 <= 1/M=0.25: too large by a factor of 2"):
        choice(step_size=0.5)
    with pytest.raises(ValueError, match="runs share their mechanism"):
        spider_of([good, choice(epsilon=math.inf)], VirtualSamples(DATA, 10**12))
