"""The clipped oracle and the loop, held against the laws: neighbours, budgets, exactness, bits, batches."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from stand_ins import Spy
from torch import Tensor

from dpnotes.core import WHOLE, Ledger, Relation, Request, Status
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive
from dpnotes.oracles import clipped, minibatch, samples
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.oracles.samples import DataSetSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.privacy import schedules
from dpnotes.privacy.accounting import account, rho_to_epsilon
from dpnotes.privacy.discrete import DiscreteGaussian
from dpnotes.privacy.events import events_of
from dpnotes.privacy.mechanisms import Exact, Gaussian, Laplace
from dpnotes.privacy.noise import FixedNoise, LossAdaptiveNoise, NoisePlan
from dpnotes.privacy.tree import Tree
from dpnotes.problems.custom import CustomProblem
from dpnotes.problems.networks import TwoLayerNetwork
from dpnotes.random.streams import Streams
from dpnotes.util.states import flatten, restore

CLIP = 0.5


def network(num_examples: int = 12, scale: float = 3.0, dtype: torch.dtype = torch.float64) -> TwoLayerNetwork:
    draws = Streams.of("network", ["data"])
    inputs = scale * draws.normal("inputs", 0, num_examples * 4).view(num_examples, 4).to(dtype)
    return TwoLayerNetwork(inputs, (inputs[:, 0] > 0).long(), num_hidden=6, num_classes=2)


def points(problem: TwoLayerNetwork, runs: int) -> Tensor:
    dtype = problem.inputs.dtype
    return 0.5 * Streams.of("points", range(runs)).normal("x", 0, problem.dim).to(dtype)


def plan(runs: int, rho: float = 0.5, steps: int = 5) -> FixedNoise:
    return FixedNoise.of([schedules.uniform(rho, steps)] * runs)


def answer(problem: Any, x: Tensor, relation: Relation) -> Request:
    spy = Spy()
    oracle = ClippedGradient(problem, CLIP, plan(len(x)), relation, spy)
    oracle.estimate(oracle.init(x), x, Streams.of(0, range(len(x))), torch.ones(len(x), dtype=torch.bool))
    return spy.requests[0]


# ---------------------------------------------------------------- law 1: neighbours
FAR = torch.zeros(2, 1025)  # norms of more than 1,024 numbers are summed in float64, and so are finite up to 3e38
FAR[0, 0] = 3.3e38
LITTLE = 5e-7  # half of it over 3.3e38 rounds up to the least float32 number, 1.85 times as large


def linear(examples: Tensor) -> CustomProblem:
    """Return examples with these gradients at every point."""
    return CustomProblem(lambda x, a: x @ a, examples.shape[1], examples)


TO_ZERO_OUT: dict[str, Any] = {
    "clipped": lambda problem: ClippedGradient(problem, LITTLE, FixedNoise.none([1]), Relation.ZERO_OUT, Exact()),
    "minibatch": lambda problem: MinibatchGradient(
        problem, WHOLE, torch.zeros(1).double(), LITTLE, 1, Relation.ZERO_OUT, clipped=True, mechanism=Exact()
    ),
    "SPIDER": lambda problem: Spider(
        DataSetSamples(problem), Exact(), 0.0, torch.full((1,), torch.inf).double(), Refresh.every(1), BatchSizes(2),
        LITTLE, 1.0, relation=Relation.ZERO_OUT,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TO_ZERO_OUT)
def test_no_weight_is_rounded_up_from_next_to_nothing(name, monkeypatch):
    def moved() -> float:
        """Return how far one example with a gradient of 3.3e38 moves the mean, in units of the claimed sensitivity."""
        x, streams, means = torch.zeros(1, 1025), Streams.of(0, ["run"]), []
        for examples in (FAR, torch.zeros_like(FAR)):
            oracle = TO_ZERO_OUT[name](linear(examples))
            means.append(oracle.estimate(oracle.init(x), x, streams, torch.tensor([True]))[1].gradient.double())
        return float((means[0] - means[1]).norm()) / (LITTLE / 2)

    assert moved() <= 1
    for module in (clipped, minibatch, samples):
        monkeypatch.setattr(module, "flushed", lambda weights: weights)
    assert moved() > 1.5, "control: the least weight that there is would let it"


def test_clipping_enforces_a_sensitivity_only_where_examples_are_kept_apart():
    problem = network()

    class Mixing:
        keeps_examples_apart = False

        def __getattr__(self, name: str) -> Any:
            return getattr(problem, name)

    for of, basis in ((problem, "enforced"), (Mixing(), "assumed")):
        assert answer(of, points(problem, 1), Relation.ZERO_OUT).answer.basis == basis


@pytest.mark.slow
def test_a_loss_that_is_not_finite_counts_as_the_largest():
    def loss(parameters: Tensor, feature: Tensor) -> Tensor:
        return -torch.log(torch.sigmoid(parameters[0] * feature))

    features = torch.tensor([1.0, 2.0, -2000.0])
    problem = CustomProblem(loss, 1, features)
    x = torch.ones(1, 1)
    assert not problem.gradients(x).losses.isfinite().all()
    ones = torch.ones(1, dtype=torch.float64)
    oracle = ClippedGradient(problem, CLIP, LossAdaptiveNoise(ones, ones / 9, 2.0, ones * 9))
    state, estimate = oracle.estimate(oracle.init(x), x, Streams.of(0, ["a"]), torch.ones(1, dtype=torch.bool))
    assert estimate.gradient.isfinite().all() and state.memory.plan.last_loss.isfinite().all()


def test_the_noise_grows_with_the_relation():
    problem = network()
    x = points(problem, 1)
    zero_out, replace_one = (answer(problem, x, r).noise_std for r in (Relation.ZERO_OUT, Relation.REPLACE_ONE))
    assert float(replace_one) == pytest.approx(2 * float(zero_out))
    with pytest.raises(ValueError, match="Expected relation=.*to be one of: zero-out-one, replace-one"):
        ClippedGradient(problem, CLIP, plan(1), Relation.ADD_OR_REMOVE)


# ---------------------------------------------------------------- law 2: budgets
def run(
    problem: Any, noise: NoisePlan, x: Tensor, *, momentum: float = 0.0, mechanism: Any = None, max_steps: int = 50
):
    oracle = ClippedGradient(problem, CLIP, noise, mechanism=mechanism or Gaussian())
    method = Descent(0.2, momentum)
    ledger = Ledger()
    state = drive(method, oracle, method.init(x, oracle), Streams.of(1, range(len(x))), max_steps, ledger)
    return state, ledger, oracle


def test_a_fixed_schedule_spends_what_it_declares_and_takes_every_step():
    problem = network()
    lengths = [1, 2, 9, 10, 33]
    noise = FixedNoise.of([schedules.exponential(0.8, 0.1 * n, n) for n in lengths])
    state, ledger, oracle = run(problem, noise, points(problem, 5))
    assert state.steps.tolist() == lengths
    assert (state.status == Status.FINISHED).all()
    assert torch.allclose(ledger.rho(), oracle.declared(), rtol=1e-9)
    assert torch.allclose(ledger.rho(), state.oracle.meter.spent, rtol=1e-12)


def test_the_filter_refuses_before_it_releases():
    problem = network()
    spy = Spy()
    honest = plan(2, rho=0.5, steps=5)
    overdrawn = replace(honest, budget=torch.tensor([0.5, 0.25], dtype=torch.float64))  # row 1 affords two steps
    state, ledger, _ = run(problem, overdrawn, points(problem, 2), mechanism=spy)
    assert state.steps.tolist() == [5, 2]
    assert state.status.tolist() == [Status.FINISHED, Status.BUDGET_EXHAUSTED]
    assert (ledger.rho() <= overdrawn.budget * (1 + 1e-9)).all()
    assert [r.active.tolist() for r in spy.requests] == [[True, True]] * 2 + [[True, False]] + [[True]] * 2


def test_the_adaptive_plan_never_overspends_and_pays_for_the_losses_it_hears():
    problem = network()
    ones = torch.ones(4, dtype=torch.float64)
    noise = LossAdaptiveNoise(0.5 * ones, torch.tensor([0.01, 0.02, 0.05, 0.4]).double(), 1.3, 5 * ones)
    state, ledger, _ = run(problem, noise, points(problem, 4), max_steps=200)
    assert (state.status == Status.BUDGET_EXHAUSTED).all() and (state.steps > 0).all()
    assert (ledger.rho() <= 0.5 * (1 + 1e-9)).all()
    gradients_alone = 0.4
    assert float(ledger.rho()[3]) == pytest.approx(gradients_alone + 0.5 / 25)


def line_fit() -> CustomProblem:
    def loss(parameters: Tensor, feature: Tensor) -> Tensor:
        return (parameters[0] - feature).abs() / 4

    return CustomProblem(loss, 1, torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64))


@pytest.mark.parametrize(
    ("mechanism", "alone", "with_losses"),
    [(Gaussian(), "gaussian", "gaussian"), (Laplace(), "laplace", "zcdp"), (Tree(8), "gaussian", "gaussian")],
    ids=lambda v: getattr(v, "purpose", v),
)
@pytest.mark.slow
def test_a_step_that_also_releases_a_loss_is_priced_as_what_both_are_known_to_be(mechanism, alone, with_losses):
    problem, ones = line_fit(), torch.ones(2, dtype=torch.float64)
    x = torch.tensor([[0.0], [3.0]], dtype=torch.float64)
    listening = LossAdaptiveNoise(ones, ones / 20, 1.1, 5 * ones)
    for noise, label in ((plan(2, rho=1.0), alone), (listening, with_losses)):
        state, ledger, _ = run(problem, noise, x, mechanism=mechanism, max_steps=4)
        assert {price.noise for price in ledger.prices if price.charged.any()} == {label}
        assert torch.allclose(ledger.rho(), state.oracle.meter.spent, rtol=1e-12)
        claim = account(events_of(ledger, 0), 1e-5)
        # The control: the claim of Gaussian noise at this cost, which a wrong label would give.
        if label == "zcdp":
            assert claim.epsilon > rho_to_epsilon(float(ledger.rho()[0]), 1e-5, "exact")
        elif label == "gaussian":
            assert claim.epsilon == pytest.approx(rho_to_epsilon(float(ledger.rho()[0]), 1e-5, "exact"))


@pytest.mark.parametrize("name", ["budget", "first_cost", "loss_multiplier"])
def test_a_plan_of_which_one_run_has_no_number_above_zero_is_refused(name: str):
    ones = torch.ones(3, dtype=torch.float64)
    given = {"budget": 9 * ones, "first_cost": ones, "growth": 1.5, "loss_multiplier": ones}
    for wrong in (0.0, -1.0):
        with pytest.raises(ValueError, match=f"Expected {name}={wrong} > 0"):
            LossAdaptiveNoise(**{**given, name: torch.tensor([1.0, wrong, 2.0]).double()})


def test_what_a_caller_does_to_a_plan_s_tensor_later_does_not_reach_a_run():
    first = torch.full((2,), 0.1, dtype=torch.float64)
    noise = LossAdaptiveNoise(torch.ones(2).double(), first, 1.5, torch.ones(2).double())
    state = noise.init()
    first.mul_(100)
    assert state.cost.tolist() == [0.1, 0.1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_discrete_noise_spends_the_same_and_claims_no_more_than_zcdp(dtype):
    pytest.importorskip("opendp", reason="pip install -e '.[exact]'")
    problem = network(dtype=dtype)
    ones = torch.ones(2, dtype=torch.float64)
    for noise in (plan(2), LossAdaptiveNoise(ones, ones / 9, 1.5, 9 * ones)):
        state, ledger, oracle = run(problem, noise, points(problem, 2), mechanism=DiscreteGaussian(), max_steps=3)
        assert state.x.dtype == dtype and state.x.isfinite().all()
        assert {price.noise for price in ledger.prices if price.charged.any()} == {"zcdp"}
        assert torch.allclose(ledger.rho(), state.oracle.meter.spent, rtol=1e-6)
        assert (ledger.rho() <= oracle.declared() * (1 + 1e-6)).all()
        claim = account(events_of(ledger, 0), 1e-5)
        assert claim.accountant == "zCDP, tight conversion"
        state, ledger, _ = run(problem, noise, points(problem, 2), max_steps=3)
        assert claim.epsilon > 1.01 * account(events_of(ledger, 0), 1e-5).epsilon, "control: Gaussian noise claims less"


# ---------------------------------------------------------------- law 5: bits, batches, resumption


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_resumed_is_uninterrupted_to_the_bit(momentum, tmp_path):
    problem = network()
    x = points(problem, 3)
    noise = FixedNoise.of([schedules.uniform(2.0, n) for n in (4, 9, 12)])
    oracle, method, streams = ClippedGradient(problem, CLIP, noise), Descent(0.2, momentum), Streams.of(1, range(3))
    whole = drive(method, oracle, method.init(x, oracle), streams, 50)
    half = drive(method, oracle, method.init(x, oracle), streams, 6)
    torch.save(flatten(half), tmp_path / "half.pt")
    back = restore(method.init(x, oracle), torch.load(tmp_path / "half.pt", weights_only=True))
    resumed = drive(method, oracle, back, streams, 50)
    for name, tensor in flatten(whole).items():
        assert torch.equal(tensor, flatten(resumed)[name]), name
    assert not torch.equal(half.x, whole.x)


def test_the_noise_of_gradients_and_of_losses_share_no_draws():
    for mechanism in (Gaussian("clipped gradient: loss"), Tree(8, purpose="clipped gradient: loss")):
        with pytest.raises(ValueError, match="to have another purpose"):
            ClippedGradient(network(), CLIP, plan(1), mechanism=mechanism)
    ClippedGradient(network(), CLIP, plan(1), mechanism=Gaussian("another"))  # the control


# ---------------------------------------------------------------- methods


def test_a_run_that_has_ended_keeps_its_average_and_one_that_goes_on_changes_it():
    problem = network()
    oracle = ClippedGradient(problem, CLIP, FixedNoise.of([schedules.uniform(0.5, steps) for steps in (1, 5)]))
    method, streams = Descent(0.2, 0.7), Streams.of(0, ["short", "long"])
    first, _ = method.step(method.init(points(problem, 2), oracle), oracle, streams)
    second, _ = method.step(first, oracle, streams)
    assert second.status.tolist() == [Status.FINISHED, Status.OK]
    for one, other in ((first.x, second.x), (first.average, second.average)):
        assert torch.equal(one[0], other[0]) and not torch.equal(one[1], other[1])


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="Expected 0 <= momentum=1.0 < 1"):
        Descent(0.1, 1.0)
    with pytest.raises(ValueError, match="Expected equal lengths, got x: 3, runs: 2"):
        ClippedGradient(network(), 1.0, plan(2)).init(points(network(), 3))
