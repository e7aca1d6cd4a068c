"""Releases: SPIDER on all data, whose noise is claimed, bounds, amplification, noise that a run chooses."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm
from stand_ins import Wrapped
from torch import Tensor

from dpnotes.core import FRESH, WHOLE, Ledger, Request, Sensitive, Status
from dpnotes.guarantees import Assumption
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.oracles.release import Answer, Ask, Meter, ReleasePlan, Releases, ReleasingOracle, State
from dpnotes.oracles.samples import DataSetSamples, VirtualSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.privacy.accounting import rho_to_epsilon
from dpnotes.privacy.discrete import DiscreteGaussian
from dpnotes.privacy.factorisation import BandedSquareRoot
from dpnotes.privacy.mechanisms import Exact, Gaussian, Laplace, says_gaussian
from dpnotes.privacy.tree import Tree
from dpnotes.random.streams import Streams
from tests.oracles.test_release import (
    DIM,
    EVERY,
    FIXED,
    LISTENING,
    ORACLES,
    POISSON,
    PROBLEM,
    REPLACE,
    RUNS,
    ZERO,
    N,
    begun,
    population,
    rows,
    spider,
)

# ---------------------------------------------------------------- SPIDER on all data


def walked(oracle: Any, steps: int) -> list[tuple[State, Tensor, Any]]:
    (state, x, streams), seen = begun(oracle), []
    for step in range(steps):
        state, estimate = oracle.estimate(state, x, streams, EVERY)
        seen.append((state, x, estimate))
        x = x + 0.1 * Streams.of("walk", range(RUNS)).normal("step", step, DIM)
    return seen


def test_a_gradient_of_all_data_costs_what_both_multipliers_say():
    samples = DataSetSamples(PROBLEM, 3)
    options = {"refresh": Refresh.every(3), "batches": BatchSizes(1), "gradient_bound": 2.0, "smoothness": 1.0}
    oracle = Spider(samples, Gaussian(), 4.0, rows(0.085), sampling=WHOLE, difference_multiplier=9.0, **options)
    ledger, seen = Ledger(), walked(oracle, 6)
    for _, _, estimate in seen:
        ledger.add(estimate.price)
    meter = seen[-1][0].meter
    each = [0.5 / 16, 0.5 / 81, 0.5 / 81]
    assert [e.num_gradients.tolist() for _, _, e in seen[:3]] == [[N] * RUNS] + [[2 * N] * RUNS] * 2
    assert [int(e.status[0]) for _, _, e in seen] == [0] * 5 + [Status.BUDGET_EXHAUSTED]
    assert torch.allclose(ledger.rho(), meter.spent, rtol=1e-12) and not meter.used.any()
    assert torch.allclose(meter.spent, rows(sum(each) + sum(each[:2])), rtol=1e-9)
    assert all(price.sampling == WHOLE for price in ledger.prices)
    once = replace(oracle, sampling=FRESH, batches=BatchSizes(N), refresh=Refresh.every(9))
    assert walked(once, 2)[-1][2].status.tolist() == [Status.DATA_EXHAUSTED] * RUNS, "control: examples used up"


def test_what_does_not_go_with_two_multipliers_or_a_sampling_is_refused():
    samples = VirtualSamples(population(), 10**6)
    for options, message in (
        ({"sampling": POISSON}, "Expected sampling='poisson' to be one of: fresh, whole"),
        ({"mechanism": Tree(8), "term_sensitivity": 1.0, "difference_multiplier": 2.0}, "or no difference_multiplier"),
    ):
        with pytest.raises(ValueError, match=message):
            spider(samples, **options)


# ---------------------------------------------------------------- whose noise is claimed as Gaussian
@dataclass(frozen=True)
class SaysGaussian(Wrapped):
    noise: str = "gaussian"


def test_a_mechanism_of_one_s_own_claims_zcdp_unless_it_says_that_its_noise_is_gaussian():
    x, streams = begun(ORACLES["clipped"]())[1:]
    ways: dict[str, str] = {}
    for mechanism in (Gaussian(), SaysGaussian(Gaussian()), Wrapped(Gaussian()), Laplace(), Wrapped(Laplace())):
        oracle = replace(ORACLES["clipped"](), mechanism=mechanism)
        ways[str(mechanism)] = oracle.guarantee(oracle.init(x), 1e-5, streams)[0].accountant
    gaussian, says, *others = ways.values()
    assert gaussian == says and {*others} == {"zCDP, tight conversion"} and "Gaussian" in gaussian
    with pytest.raises(ValueError, match="to add Gaussian noise, which is what is claimed"):
        MinibatchGradient(PROBLEM, FIXED, rows(0.3), 0.5, 9, clipped=True, mechanism=Wrapped(Gaussian()))
    with pytest.raises(ValueError, match="to add Gaussian noise, which is what is claimed"):
        replace(ORACLES["Spider"](), mechanism=Wrapped(Gaussian()))


@dataclass(frozen=True)
class Quarter(Gaussian):
    """A class with its own `release`: a quarter of the noise, and the matching price."""

    def release(self, state: Any, request: Any, streams: Streams) -> Any:
        return super().release(state, replace(request, noise_std=request.noise_std / 4), streams)


class Labelled(Gaussian):
    """A class that declares Gaussian noise for its inherited release."""

    noise = "gaussian"


class Says:
    noise = "gaussian"


@dataclass(frozen=True)
class Given(Gaussian):
    """A class whose release is passed to its constructor."""

    release: Any = field(default=None, kw_only=True)


class InSlots(SaysGaussian):
    __slots__ = ("noise",)

    def release(self, state: Any, request: Any, streams: Streams) -> Any:
        return Quarter().release(state, request, streams)


class Renamed(Gaussian):
    purpose = "renamed"


RESPONSIBLE = type("Responsible", (Quarter,), {"noise": "gaussian"})()
SPEAKING = [
    Gaussian(),
    Exact(),
    Tree(4),
    BandedSquareRoot(4, 2),
    Renamed(),
    Labelled(),
    SaysGaussian(Gaussian()),
    RESPONSIBLE,
]
OF_ITS_OWN = [
    Quarter(),
    type("Both", (Labelled, Quarter), {})(),
    type("Mixed", (Says, Quarter), {})(),
    type("Priceless", (Exact,), {"cost": Laplace.cost})(),
    type("Ones", (BandedSquareRoot,), {"_coefficients": lambda self: np.ones(self.bandwidth)})(4, 2),
    type("Accepting", (Tree,), {"accept": lambda self, *given: given})(4),
    Given(release=Quarter().release),
    Laplace(),
    DiscreteGaussian(),
    Wrapped(Gaussian()),
    object(),
]


def test_what_a_class_inherits_says_nothing_of_methods_of_its_own():
    for mechanism in SPEAKING:
        assert says_gaussian(mechanism), mechanism
    for mechanism in OF_ITS_OWN:
        assert not says_gaussian(mechanism), mechanism
    slots = InSlots.__new__(InSlots)
    object.__setattr__(slots, "noise", "gaussian")
    assert not says_gaussian(slots)
    with pytest.raises(ValueError, match="to add Gaussian noise, which is what is claimed"):
        MinibatchGradient(PROBLEM, FIXED, rows(0.3), 0.5, 9, clipped=True, mechanism=Quarter())
    MinibatchGradient(PROBLEM, FIXED, rows(0.3), 0.5, 9, clipped=True, mechanism=RESPONSIBLE)


def test_a_price_above_the_cost_that_was_said_before_is_no_release():
    for mechanism in (Quarter(), type("Free", (Exact,), {"cost": lambda self, state, std, *rest: 0 * std})()):
        oracle = replace(ORACLES["clipped"](), mechanism=mechanism)
        state, x, streams = begun(oracle)
        with pytest.raises(ValueError, match="to be at most the cost that its mechanism said before"):
            oracle.estimate(state, x, streams, EVERY)
        assert state.meter.calls.tolist() == [0] * RUNS
    oracle = replace(ORACLES["clipped"](), mechanism=Gaussian())
    state, x, streams = begun(oracle)
    plan = oracle.plan(state, x, EVERY)
    _, estimate = oracle.release(plan, streams)
    torch.testing.assert_close(estimate.price.rho(), plan.cost, rtol=1e-12, atol=0)


def test_a_state_does_not_go_from_noise_that_is_not_said_to_be_gaussian_to_one_that_is():
    silent, speaking = (
        type("Own", (Gaussian,), {"release": Gaussian.release, **says}) for says in ({}, {"noise": "gaussian"})
    )
    before, after = (replace(ORACLES["clipped"](), mechanism=mechanism()) for mechanism in (silent, speaking))
    state, x, streams = begun(before)
    state, _ = before.estimate(state, x, streams, EVERY)
    with pytest.raises(ValueError, match="its releases were made on other terms"):
        after.guarantee(state, 1e-5, streams)
    assert before.guarantee(state, 1e-5, streams)


def test_a_state_does_not_go_from_one_tree_to_another():
    """Noise combined from two draws does not match the blocks that a plain tree pays for."""
    releases = ORACLES["Spider"]().releases
    terms = [replace(releases, mechanism=tree).terms for tree in (Tree(8), Tree(8), Tree(8, optimal=True), Tree(9))]
    assert torch.equal(terms[0], terms[1])
    assert not any(torch.equal(terms[0], other) for other in terms[2:])


def test_a_ledger_says_no_more_of_noise_than_the_claim_does():
    says_nothing, plain = replace(ORACLES["clipped"](), mechanism=Wrapped(Gaussian())), ORACLES["clipped"]()
    prices = [oracle.estimate(*begun(oracle), EVERY)[1].price for oracle in (says_nothing, plain)]
    assert [price.noise for price in prices] == ["zcdp", "gaussian"]
    assert torch.equal(prices[0].rho(), prices[1].rho())


def test_a_mechanism_whose_price_is_another_noise_s_is_caught():
    oracle = replace(ORACLES["clipped"](), mechanism=SaysGaussian(DiscreteGaussian()))
    with pytest.raises(ValueError, match="Expected a price of zcdp noise to be Gaussian"):
        oracle.estimate(*begun(oracle), EVERY)


def test_a_second_answer_is_claimed_as_gaussian_only_if_its_noise_is(monkeypatch):
    monkeypatch.setattr("dpnotes.oracles.clipped._LOSS_MECHANISM", Laplace("loss"))
    oracle = ClippedGradient(PROBLEM, 0.5, LISTENING)
    with pytest.raises(ValueError, match="all to add Gaussian noise, which is what is claimed"):
        oracle.plan(*begun(oracle)[:2], EVERY)


def test_points_and_answers_of_16_bits_are_refused():
    oracle = ORACLES["clipped"]()
    state, x, streams = begun(oracle)
    for dtype in (torch.float16, torch.bfloat16):
        with pytest.raises(ValueError, match=rf"Expected x of {dtype} to be float32 or float64"):
            oracle.plan(state, x.to(dtype), EVERY)
        answer = Sensitive(torch.zeros(1, 1, dtype=dtype), torch.ones(1), ZERO, "proved")
        request = Request(answer, torch.ones(1), torch.zeros(1, dtype=torch.int64), torch.tensor([True]))
        for mechanism in (Gaussian(), Exact(), Laplace()):
            with pytest.raises(ValueError, match=rf"Expected an answer of {dtype} to be float32 or float64"):
                mechanism.release(mechanism.init(torch.zeros(1, 1)), request, Streams.of(0, ["a"]))


# ---------------------------------------------------------------- what is amplified is counted
class Quieter(MinibatchGradient):
    """An oracle whose noise differs from its claim from the third step on."""

    def ask(self, state: State, x: Tensor) -> tuple[Ask, ...]:
        factor = torch.where(state.meter.calls < 2, 1.0, self.divisor or 1.0)
        (ask,) = self.releases.claimed
        return (replace(Ask.with_std(ask.bound, ask.noise_std * factor), gradients=ask.gradients),)


def test_a_claim_that_is_amplified_counts_its_steps_and_compares_each_ask():
    for factor, message in ((0.5, "Expected noise_multiplier to be at least the one that is claimed"), (1.5, None)):
        oracle = Quieter(PROBLEM, POISSON, rows(0.3), 0.5, 4, ZERO, True, divisor=factor)
        state, x, streams = begun(oracle)
        for step in range(4):
            if message and step == 2:
                with pytest.raises(ValueError, match=message):
                    oracle.estimate(state, x, streams, EVERY)
                break
            state, estimate = oracle.estimate(state, x, streams, EVERY)
            assert not estimate.status.any()
        else:  # more noise than claimed is allowed, and the steps are counted
            assert oracle.plan(state, x, EVERY).status.tolist() == [Status.FINISHED] * RUNS
            assert oracle.events(0)[0].count == 4 and all(c.holds for c in oracle.guarantee(state, 1e-5, streams))
    oracle = ORACLES["Poisson"]()
    state, x, _ = begun(oracle)
    (ask,) = oracle.releases.claimed
    with pytest.raises(ValueError, match="Expected num_asks=2 to be 1, as is claimed"):
        oracle.releases.plan(state, x, (ask, replace(ask, mechanism=Gaussian("another"))), EVERY)


def test_two_answers_of_a_step_do_not_draw_from_one_stream():
    oracle = ORACLES["listening"]()
    state, x, _ = begun(oracle)
    gradient, loss = oracle.ask(state, x)
    for mechanism in (None, Gaussian(oracle.mechanism.purpose)):
        with pytest.raises(ValueError, match="a mechanism with a purpose of its own"):
            oracle.releases.plan(state, x, (gradient, replace(loss, mechanism=mechanism)), EVERY)
    assert bool(oracle.releases.plan(state, x, (gradient, loss), EVERY).granted.all()), "the control"


# ---------------------------------------------------------------- noise that a run chooses
@dataclass(frozen=True)
class Heard:
    noise: Tensor
    last: Tensor


@dataclass(frozen=True, eq=False)
class Chooser(ReleasingOracle):
    """An oracle of one number that spends its remaining budget if the first answer is above 0, else nothing."""

    value: float
    budget: Tensor
    first: float = 0.2

    @cached_property
    def releases(self) -> Releases:
        return Releases(self.budget, REPLACE, WHOLE, "proved", Gaussian())

    def begin(self, x: Tensor) -> Heard:
        return Heard(self.releases.mechanism.init(x), torch.zeros_like(self.budget))

    def ask(self, state: State, x: Tensor) -> tuple[Ask, ...]:
        rest = torch.where(state.memory.last > 0, self.budget - self.first, 1e-20) * (1 - 1e-12)
        cost = torch.where(state.meter.calls == 0, self.first, rest)
        return (Ask.with_multiplier(self.releases.bound(0.5, 1), (0.5 / cost).sqrt()),)

    def answer(self, plan: ReleasePlan, streams: Streams) -> tuple[Answer, ...]:
        return (Answer(torch.full_like(plan.x, self.value)),)

    def remember(self, plan: ReleasePlan, noise: Any, values: list[Tensor]) -> tuple[Heard, Tensor]:
        return Heard(noise, torch.where(plan.granted, values[0][:, 0], plan.state.memory.last)), values[0]

    def bounds(self, meter: Meter, run: int) -> tuple[Assumption, ...]:
        return ()


class GivenNoise:
    """Streams with given noise."""

    secret = False

    def __init__(self, noise: Tensor) -> None:
        self.noise, self.keys = noise, Streams.of(0, ["a"]).keys.expand(len(noise), -1)

    def normal(self, purpose: str, call: Tensor, size: int) -> Tensor:
        return self.noise.clone()


def exact_delta(epsilon: float, budget: float, side: float) -> float:
    """Return delta of the first answer and the following one, for the values 1/2 and -1/2, at the requested levels."""
    grid = torch.linspace(-9, 9, 20_001, dtype=torch.float64)
    oracle = Chooser(side, torch.full((len(grid),), budget, dtype=torch.float64))
    x, active, streams = grid[:, None], torch.ones(len(grid), dtype=torch.bool), GivenNoise(grid[:, None])
    state, first = oracle.estimate(oracle.init(x), x, streams, active)  # type: ignore[arg-type]
    _, second = oracle.estimate(state, x, streams, active)  # type: ignore[arg-type]
    assert bool((second.status == 0).all()) and len(second.price.noise_multiplier.unique()) == 2
    level = first.price.noise_multiplier.numpy()
    loss = 2 * side * first.gradient[:, 0].numpy() / level**2  # log of the density ratio, for sensitivity 1
    mu, left = 1 / second.price.noise_multiplier.numpy(), epsilon - loss
    tail = (
        norm.cdf(mu / 2 - left / mu) - norm.cdf(-mu / 2 - left / mu) * torch.tensor(left).clamp_max(600).exp().numpy()
    )
    return float((norm.pdf(grid.numpy()) * tail).sum() * float(grid[1] - grid[0]))


def test_noise_that_a_run_chooses_is_claimed_exactly_and_no_transcript_exceeds_it():
    rho, delta = 0.5, 1e-3
    oracle = Chooser(0.5, rows(rho))
    x = torch.zeros(RUNS, 1, dtype=torch.float64)
    claim = oracle.guarantee(oracle.init(x), delta, Streams.of(0, range(RUNS)))[0]
    assert claim.accountant == "exact Gaussian" and claim.epsilon == pytest.approx(rho_to_epsilon(rho, delta, "exact"))
    assert claim.epsilon < 0.95 * rho_to_epsilon(rho, delta, "tight")
    found = [exact_delta(claim.epsilon, rho, side) for side in (0.5, -0.5)]
    assert 0.5 * delta < max(found) <= delta * (1 + 1e-6)
    # Controls: a filter that forgets the first answer accepts this; and there is less noise than claimed.
    assert max(exact_delta(claim.epsilon, rho + 0.2, side) for side in (0.5, -0.5)) > 1.2 * delta
    listening = ORACLES["listening"]()
    claims = listening.guarantee(begun(listening)[0], delta, Streams.of(0, range(RUNS)))
    assert {c.epsilon for c in claims} == {claim.epsilon}, "and so by the clipped oracle with a plan that listens"


@pytest.mark.parametrize("name", ORACLES)
def test_points_and_masks_of_other_shapes_are_refused_by_name(name: str):
    oracle = ORACLES[name]()
    state, x, streams = begun(oracle)
    for given, words in (
        ((x[:1], EVERY), r"x of shape \(1, .*\) to be \(.*, dim\)"),
        ((x[0], EVERY), "a row a run"),
        ((x, EVERY[:1]), r"active of shape \(1,\), torch.bool to be"),
        ((x, EVERY[:, None]), "active of shape"),
        ((x, EVERY.double()), r"active of shape \(3,\), torch.float64 to be"),
    ):
        with pytest.raises(ValueError, match=words):
            oracle.estimate(state, given[0], streams, given[1])
    with pytest.raises(TypeError, match="Expected active="):
        oracle.estimate(state, x, streams, [True] * RUNS)
    assert (oracle.estimate(state, x, streams, EVERY)[1].status == Status.OK).all()  # control
