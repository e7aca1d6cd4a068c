"""The minibatch oracles against the laws: neighbours, budgets, exactness, noise, bits, and the runs' guarantees."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from stand_ins import Spy
from torch import Tensor, nn

from dpnotes.core import FRESH, WHOLE, Ledger, Relation, Request, Sampling, Status
from dpnotes.guarantees import (
    BATCH_NORM,
    EXAMPLES_APART,
    EXAMPLES_MIX,
    STATISTICS_WITHOUT_NOISE,
    TUNED_ON_PRIVATE_DATA,
    examples_apart,
)
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive
from dpnotes.oracles.fresh import FreshGradient
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.oracles.release import Releases
from dpnotes.privacy.accounting import account
from dpnotes.privacy.discrete import DiscreteGaussian
from dpnotes.privacy.events import CombinationError, events_of, merged
from dpnotes.privacy.mechanisms import Exact, Gaussian, Laplace
from dpnotes.problems.custom import CustomProblem
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams
from dpnotes.util.states import flatten, restore
from tests.oracles.test_clipped import linear, network, points

C = 0.5
N = 12
FIXED, POISSON = Sampling.fixed_size(4, N), Sampling.poisson(0.4)
STREAMS = Streams.of(1, range(4))
REPLACE, ZERO, ADD = Relation.REPLACE_ONE, Relation.ZERO_OUT, Relation.ADD_OR_REMOVE
PAIRS = [
    (WHOLE, REPLACE), (WHOLE, ZERO), (WHOLE, ADD), (FIXED, REPLACE), (POISSON, ZERO), (POISSON, ADD),
]  # fmt: skip


def vectors(length: float = C, num_examples: int = N, dim: int = 3) -> Tensor:
    """Return gradients of one length, each followed by its opposite."""
    drawn = Streams.of("vectors", ["a"]).normal("rows", 0, num_examples * dim).view(num_examples, dim)
    drawn = length * drawn / torch.linalg.vector_norm(drawn, dim=1, keepdim=True)
    return torch.where(torch.arange(num_examples)[:, None] % 2 == 0, drawn, -drawn.roll(1, 0))


def noise(runs: int, std: float = 0.3) -> Tensor:
    return torch.full((runs,), std, dtype=torch.float64)


def oracle_of(problem: Any, runs: int, sampling: Sampling = FIXED, relation: Relation = REPLACE, **more: Any):
    options: dict[str, Any] = {"norm_bound": C, "num_steps": 5, "noise_std": noise(runs)} | more
    if relation == ADD:
        options.setdefault("divisor", sampling.rate * N)
    return MinibatchGradient(problem, sampling, relation=relation, **options)


def every(runs: int) -> Tensor:
    return torch.ones(runs, dtype=torch.bool)


def answer(oracle: Any, runs: int = 200) -> Request:
    """Return the release that one estimate requests, for many runs with different batches."""
    spy = Spy()
    oracle = replace(oracle, mechanism=spy)
    x = torch.zeros(runs, 3, dtype=torch.float64)
    oracle.estimate(oracle.init(x), x, Streams.of("answer", range(runs)), every(runs))
    return spy.requests[0]


# ---------------------------------------------------------------- law 1: neighbours


def test_sampling_and_relation_go_together():
    problem = linear(vectors())
    for sampling, relation in ((FIXED, ZERO), (FIXED, ADD), (POISSON, REPLACE)):
        with pytest.raises(CombinationError, match="Expected sampling="):
            oracle_of(problem, 1, sampling, relation)


# ---------------------------------------------------------------- law 2: budgets
def run(oracle: Any, x: Tensor, *, step_size: float = 0.2, max_steps: int = 50, seed: int = 1, names: Any = None):
    method = Descent(step_size)
    ledger = Ledger()
    streams = Streams.of(seed, range(len(x)) if names is None else names)
    return drive(method, oracle, method.init(x, oracle), streams, max_steps, ledger), ledger


@pytest.mark.parametrize(("sampling", "relation"), PAIRS)
@pytest.mark.slow
def test_a_run_spends_what_it_declares_and_takes_every_step(sampling, relation):
    problem = network()
    oracle = oracle_of(problem, 3, sampling, relation, noise_std=noise(3) * torch.tensor([1, 2, 3]), clipped=True)
    state, ledger = run(oracle, points(problem, 3))
    assert state.steps.tolist() == [5] * 3 and (state.status == Status.FINISHED).all()
    assert torch.allclose(state.oracle.meter.spent, oracle.declared(), rtol=1e-12)
    for i in range(3):
        assert merged(events_of(ledger, i)) == oracle.events(i)
    claims = oracle.guarantee(state.oracle, 1e-5, STREAMS)
    assert [c.epsilon for c in claims] == [account(oracle.events(i), 1e-5).epsilon for i in range(3)]
    assert claims[0].epsilon > claims[1].epsilon > claims[2].epsilon
    if sampling == WHOLE:
        assert torch.allclose(ledger.rho(), oracle.declared(), rtol=1e-12)
    else:  # the control: amplification by sampling is in the claim, but not in the zCDP
        whole = [replace(e, sampling=WHOLE) for e in oracle.events(0)]
        assert claims[0].epsilon < 0.95 * account(whole, 1e-5).epsilon


def test_no_finite_budget_affords_a_release_without_noise():
    problem = network()
    x = points(problem, 1)
    state, _ = run(oracle_of(problem, 1, mechanism=Exact()), x)
    assert state.status.tolist() == [Status.BUDGET_EXHAUSTED] and state.steps.tolist() == [0]
    with pytest.raises(ValueError, match="asked for with Exact"):
        run(oracle_of(problem, 1, noise_std=noise(1, 0.0)), x)
    oracle = oracle_of(problem, 1, noise_std=noise(1, 0.0), mechanism=Exact(), clipped=True)
    state, _ = run(oracle, x)
    assert state.status.tolist() == [Status.FINISHED] and state.steps.tolist() == [5]
    assert math.isinf(oracle.guarantee(state.oracle, 1e-5, STREAMS)[0].epsilon)


@pytest.mark.parametrize("mechanism", [DiscreteGaussian(), Laplace()], ids=lambda m: type(m).__name__)
def test_noise_that_is_not_gaussian_is_not_claimed_to_be(mechanism):
    with pytest.raises(ValueError, match="to add Gaussian noise, which is what is claimed"):
        oracle_of(network(), 1, mechanism=mechanism)


def test_the_noise_shares_no_draws_with_the_batches():
    with pytest.raises(ValueError, match="to have another purpose: oracles draw from it"):
        oracle_of(network(), 1, mechanism=Gaussian("minibatch: examples"))


# ---------------------------------------------------------------- law 5: bits, batches, resumption


@pytest.mark.parametrize(("sampling", "relation"), PAIRS)
def test_resumed_is_uninterrupted_to_the_bit(sampling, relation, tmp_path):
    problem = network()
    x = points(problem, 3)
    oracle = oracle_of(problem, 3, sampling, relation, norm_bound=2.0, check=2)
    method, streams = Descent(0.2), Streams.of(1, range(3))
    whole = drive(method, oracle, method.init(x, oracle), streams, 50)
    half = drive(method, oracle, method.init(x, oracle), streams, 3)
    torch.save(flatten(half), tmp_path / "half.pt")
    back = restore(method.init(x, oracle), torch.load(tmp_path / "half.pt", weights_only=True))
    resumed = drive(method, oracle, back, streams, 50)
    for name, tensor in flatten(whole).items():
        assert torch.equal(tensor, flatten(resumed)[name]), name
    assert not torch.equal(half.x, whole.x)


# ---------------------------------------------------------------- the bound that nobody enforces
@pytest.mark.slow
def test_a_run_below_its_bound_claims_and_says_what_it_checked():
    problem = network()
    oracle = oracle_of(problem, 1, norm_bound=50.0, noise_std=noise(1, 20.0))
    state, _ = run(oracle, points(problem, 1), step_size=1e-3)
    (claim,) = oracle.guarantee(state.oracle, 1e-5, STREAMS, not_covered=(TUNED_ON_PRIVATE_DATA,))
    assert claim.holds and claim.not_covered == (TUNED_ON_PRIVATE_DATA, STATISTICS_WITHOUT_NOISE)
    said = str(claim)
    assert "checked: every gradient norm is at most 50 (exceeded by 0 of 20)" in said
    assert "a neighbour's own example has no gradient above 50 either" in said
    assert "a demonstration" in said
    assert "noise came from the operating system" in str(oracle.guarantee(state.oracle, 1e-5, Streams.secure(1))[0])


@pytest.mark.parametrize("check", [0, 1, 2])
def test_a_run_above_its_bound_claims_nothing(check):
    rows = vectors()
    rows[:6] = rows[0] * 1.5  # half of the examples, in one direction
    oracle = oracle_of(linear(rows), 4, WHOLE, norm_bound=0.9 * C, check=check)
    state, _ = run(oracle, torch.zeros(4, 3, dtype=torch.float64))
    meter = state.oracle.meter
    seen = {0: (0, 0), 1: (60, 60), 2: (36, 36)}[check]
    assert meter.exceeded.tolist() == [seen[0]] * 4 and meter.checked.tolist() == [seen[1]] * 4
    (claim, *_) = oracle.guarantee(state.oracle, 1e-5, STREAMS)
    if check:
        assert not claim.holds and str(claim).startswith("no guarantee, since this did not hold")
    else:  # unchecked bounds are declared as assumed
        assert claim.holds and "checked" not in str(claim) and "every gradient norm is at most 0.45" in str(claim)


def test_a_mean_above_the_bound_is_noticed_without_any_norm():
    rows = vectors()[:1].expand(N, 3) * 1.01
    for sampling, relation in PAIRS:
        oracle = oracle_of(linear(rows), 2, sampling, relation, check=0)
        state, _ = run(oracle, torch.zeros(2, 3, dtype=torch.float64))
        assert not oracle.guarantee(state.oracle, 1e-5, STREAMS)[0].holds
        below = oracle_of(linear(rows / 1.01), 2, sampling, relation, check=0)  # the control: just at the bound
        state, _ = run(below, torch.zeros(2, 3, dtype=torch.float64))
        assert below.guarantee(state.oracle, 1e-5, STREAMS)[0].holds


def test_clipped_there_is_nothing_to_exceed():
    oracle = oracle_of(linear(vectors(100.0)), 1, clipped=True)
    state, _ = run(oracle, torch.zeros(1, 3, dtype=torch.float64))
    (claim,) = oracle.guarantee(state.oracle, 1e-5, STREAMS)
    assert claim.holds and "enforced: gradients are clipped to 0.5" in str(claim)
    assert int(state.oracle.meter.checked) == 0 and claim.not_covered == ()


@pytest.mark.parametrize("check", [0, 1])
def test_an_example_without_a_finite_gradient_ends_an_unclipped_run_and_its_claim(check):
    scale = torch.ones(N, dtype=torch.float64)
    scale[5] = 1e200
    problem = CustomProblem(lambda x, row, s: (x @ row) * s * s, 3, vectors(), scale)
    oracle = oracle_of(problem, 2, WHOLE, check=check)
    state, _ = run(oracle, torch.zeros(2, 3, dtype=torch.float64))
    assert state.status.tolist() == [Status.DIVERGED] * 2 and state.x.isfinite().all()
    assert state.oracle.meter.exceeded.tolist() == [1, 1]
    assert not any(c.holds for c in oracle.guarantee(state.oracle, 1e-5, STREAMS))


def test_what_is_known_of_examples_that_mix_or_may_mix_is_said():
    class Told:
        def __init__(self, **known: bool):
            vars(self).update(known)

    assert examples_apart(Told(keeps_examples_apart=True)) == ()  # type: ignore[arg-type]
    assert examples_apart(Told()) == (EXAMPLES_APART,)  # type: ignore[arg-type]
    (mixed,) = examples_apart(Told(keeps_examples_apart=False, mixes_examples=True))  # type: ignore[arg-type]
    assert mixed == EXAMPLES_MIX and mixed.holds is False and EXAMPLES_APART.holds is None


def test_what_a_bound_rests_on_is_said():
    problem = linear(vectors())
    x = torch.zeros(1, 3, dtype=torch.float64)
    proved = oracle_of(problem, 1, bound_basis="proved", check=0)
    assert answer(replace(proved, noise_std=noise(200))).answer.basis == "proved"
    said = str(proved.guarantee(proved.init(x), 1e-5, STREAMS)[0])
    assert "proved: every gradient norm is at most 0.5" in said and "neighbour" not in said
    measured = oracle_of(problem, 1, bound_basis="measured", check=0)
    assert answer(replace(measured, noise_std=noise(200))).answer.basis == "assumed"
    claim = measured.guarantee(measured.init(x), 1e-5, STREAMS)[0]
    assert STATISTICS_WITHOUT_NOISE in claim.not_covered and "measured: every gradient" in str(claim)


# ---------------------------------------------------------------- what the problem is asked for
@dataclass
class Counted:
    """A problem that counts its calls, can be augmented, and mixes its examples."""

    inner: Any
    asked: list[str] = field(default_factory=list)
    mixes_examples: bool = True
    dim = property(lambda self: self.inner.dim)
    num_examples = property(lambda self: self.inner.num_examples)
    constants = property(lambda self: self.inner.constants)

    def augmented(self, streams: Streams, calls: Tensor) -> Any:
        self.asked.append(f"augmented {calls.tolist()}")
        return self

    def take(self, index: Tensor) -> Any:
        return self

    def gradients(self, x: Tensor, examples: Tensor | None = None) -> Any:
        found, asked = self.inner.gradients(x, examples), self.asked
        asked.append(f"gradients {None if examples is None else tuple(examples.shape)}")

        class Watched:
            losses = found.losses

            def norms(self) -> Tensor:
                asked.append("norms")
                return found.norms()

            def weighted_sum(self, weights: Tensor) -> Tensor:
                asked.append("weighted_sum")
                return found.weighted_sum(weights)

        return Watched()


@pytest.mark.parametrize(
    ("options", "norms"), [({"check": 0}, 0), ({"check": 1}, 5), ({"check": 2}, 3), ({"clipped": True, "check": 0}, 5)]
)
def test_norms_are_asked_for_only_where_they_are_needed(options, norms):
    problem = Counted(linear(vectors()))
    run(oracle_of(problem, 2, **options), torch.zeros(2, 3, dtype=torch.float64))
    assert problem.asked.count("norms") == norms
    assert problem.asked.count("gradients (2, 4)") == problem.asked.count("weighted_sum") == 5


def test_augmented_examples_are_asked_for_by_call():
    problem = Counted(linear(vectors()))
    oracle = oracle_of(problem, 2, augment=True)
    state, _ = run(oracle, torch.zeros(2, 3, dtype=torch.float64))
    assert [a for a in problem.asked if "augmented" in a] == [f"augmented [{i}, {i}]" for i in range(5)]
    assert BATCH_NORM in oracle.guarantee(state.oracle, 1e-5, STREAMS)[0].not_covered


# ---------------------------------------------------------------- fresh batches
@dataclass(frozen=True)
class Sphere:
    """Half the squared norm, with example gradients that are off by a unit normal vector."""

    def fresh(self, batch_size: int, streams: Streams, purpose: str, call: int | Tensor) -> "Sphere.Batch":
        return Sphere.Batch(streams.normal(purpose, call, 3) / batch_size**0.5)

    @dataclass(frozen=True)
    class Batch:
        mean: Tensor

        def gradient(self, x: Tensor) -> Tensor:
            return x + self.mean


def fresh(runs: int, batch_size: int = 100, **more: Any) -> FreshGradient:
    options: dict[str, Any] = {"norm_bound": 5.0, "num_steps": 5} | more
    return FreshGradient(Sphere(), batch_size, noise(runs), **options)


@pytest.mark.slow
def test_fresh_batches_cost_one_release_and_sampled_ones_what_the_accountant_says():
    x = torch.ones(2, 3, dtype=torch.float64)
    oracle = fresh(2)
    state, ledger = run(oracle, x)
    assert state.steps.tolist() == [5, 5]
    assert torch.allclose(ledger.rho(), oracle.declared()) and torch.allclose(
        state.oracle.meter.spent, oracle.declared()
    )
    assert float(oracle.declared()[0]) == pytest.approx(0.5 * (2 * 5 / 100 / 0.3) ** 2)
    sampled = fresh(2, sampling=Sampling.fixed_size(100, 1000))
    again, _ = run(sampled, x)
    assert torch.equal(again.x, state.x)
    assert torch.allclose(sampled.declared(), 5 * oracle.declared())
    claims = oracle.guarantee(state.oracle, 1e-5, STREAMS)[0], sampled.guarantee(again.oracle, 1e-5, STREAMS)[0]
    assert claims[0].epsilon != claims[1].epsilon
    assert "batches were drawn from 1000" in str(claims[1]) and "batches were drawn" not in str(claims[0])
    assert "no example is in two batches" in str(claims[0]) and "two batches" not in str(claims[1])


def test_fresh_batches_differ_by_call_and_run_and_their_noise_is_the_batch_size_s():
    spy = Spy()
    oracle = replace(fresh(4000, batch_size=10**14, num_steps=2), mechanism=spy)
    run(oracle, torch.zeros(4000, 3, dtype=torch.float64), step_size=1e-30)
    first, second = (request.answer.value for request in spy.requests)
    assert (torch.pdist(torch.cat([first, second])[::10]) > 1e-12).all()
    assert float(first.std()) == pytest.approx(1e-7, rel=0.03)


def test_a_fresh_mean_above_the_bound_is_noticed():
    x = torch.full((1, 3), 10.0, dtype=torch.float64)
    oracle = fresh(1)
    state, _ = run(oracle, x, step_size=1e-3)
    assert state.oracle.meter.exceeded.tolist() == [5]
    assert not oracle.guarantee(state.oracle, 1e-5, STREAMS)[0].holds
    half = oracle.take(torch.tensor([0]))
    assert torch.equal(half.noise_std, oracle.noise_std)


def test_the_meter_never_goes_back_and_counts_nothing_of_runs_that_are_not_active():
    problem = network()
    oracle = oracle_of(problem, 3, norm_bound=1e-3)
    x = points(problem, 3)
    active = torch.tensor([True, False, True])
    state, estimate = oracle.estimate(oracle.init(x), x, Streams.of(0, range(3)), active)
    assert state.meter.calls.tolist() == [1, 0, 1] and state.meter.exceeded.tolist() == [4, 0, 4]
    assert (estimate.gradient[1] == 0).all() and estimate.num_gradients.tolist() == [4, 0, 4]


def test_the_cost_tells_no_secret_size():
    problem = network()
    x = points(problem, 3)
    for relation, expected in ((ZERO, POISSON.rate * N), (ADD, 6.0)):
        oracle = oracle_of(problem, 3, POISSON, relation, divisor=6.0)
        _, estimate = oracle.estimate(oracle.init(x), x, Streams.of(0, range(3)), every(3))
        assert estimate.num_gradients.tolist() == pytest.approx([expected] * 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: oracle_of(p, 1, FRESH), "Expected sampling='fresh' to be one of: whole, fixed-size, poisson"),
        (
            lambda p: oracle_of(p, 1, Sampling.fixed_size(2, 9)),
            "Expected sampling.num_examples=9 to be the problem's 12",
        ),
        (lambda p: oracle_of(p, 1, POISSON, ADD, divisor=None), "Expected a divisor under add-or-remove-one"),
        (lambda p: oracle_of(p, 1, noise_std=noise(1, -1.0)), "Expected noise_std=.* to be finite numbers >= 0"),
        (lambda p: oracle_of(p, 2, noise_std=torch.tensor([1.0, -1.0]).double()), "Expected noise_std=.* numbers >= 0"),
        (lambda p: oracle_of(p, 1, noise_std=torch.ones(1)), "Expected noise_std=.* float64"),
        (lambda p: oracle_of(p, 1, bound_basis="enforced"), "Expected bound_basis='enforced' to be one of"),
        (lambda p: oracle_of(p, 2).init(torch.zeros(3, 3)), "Expected equal lengths, got x: 3, runs: 2"),
        (lambda p: fresh(1, sampling=WHOLE), "Expected sampling='whole' to be one of: fresh, fixed-size"),
        (lambda p: fresh(1, sampling=Sampling.fixed_size(9, 100)), "Expected batch_size=100 to be the sampling's 9"),
        (lambda p: fresh(1, bound_basis="enforced"), "Expected bound_basis='enforced' to be one of"),
        (
            lambda p: Releases.fixed(C, 4, noise(1), 1, REPLACE, FIXED, "checked", Gaussian(), gradients=4),
            "Expected basis='checked' to be one of: enforced, proved, measured, assumed",
        ),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make(linear(vectors()))


# ---------------------------------------------------------------- a network
@pytest.mark.parametrize("norm", [nn.GroupNorm(2, 4), nn.BatchNorm2d(4)], ids=["group", "batch"])
@pytest.mark.slow
def test_a_module_is_trained_on_augmented_batches_and_batch_norm_is_named(norm):
    pixels = Streams.of("images", ["a"]).normal("pixels", 0, N * 75).view(N, 3, 5, 5).float()
    layers = [nn.Conv2d(3, 4, 3), norm, nn.GELU(), nn.Flatten(), nn.Linear(36, 2)]
    problem = ModuleProblem(nn.Sequential(*layers), pixels, torch.arange(N) % 2)
    x = problem.initial(Streams.of("points", range(2)))
    mixes = isinstance(norm, nn.BatchNorm2d)
    for sampling, relation in ((FIXED, REPLACE), (POISSON, ZERO)):
        oracle = oracle_of(problem, 2, sampling, relation, norm_bound=50.0, check=0 if mixes else 1, augment=True)
        state, _ = run(oracle, x)
        assert (state.status == Status.FINISHED).all() and (state.x != x).any(1).all()
        (claim, _) = oracle.guarantee(state.oracle, 1e-5, STREAMS)
        assert (BATCH_NORM in claim.not_covered) == mixes
        assert (int(state.oracle.meter.checked[0]) > 0) == (not mixes)
        plain, _ = run(replace(oracle, augment=False), x)
        assert not torch.equal(plain.x, state.x)
