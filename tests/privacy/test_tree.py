"""Correlated noise: the tree, Honaker's combination and the square root against exact matrices, and the laws."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from dp_accounting import dp_event, rdp
from dp_accounting.privacy_accountant import NeighboringRelation
from torch import Tensor

from dpnotes.core import FRESH, WHOLE, Ledger, Relation, Request, Sampling, Sensitive, Status
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive as loop
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.privacy.events import CombinationError
from dpnotes.privacy.factorisation import SCHEMES, BandedSquareRoot, noise_of_sums
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.privacy.tree import Tree
from dpnotes.problems.quadratics import Quadratic
from dpnotes.random.streams import Streams
from dpnotes.util.states import flatten, restore

MECHANISMS: dict[str, Callable[[int], Any]] = {
    "tree": Tree,
    "optimal tree": lambda t: Tree(t, optimal=True),
    "square root": lambda t: BandedSquareRoot(t, t),
    "band of 3": lambda t: BandedSquareRoot(t, min(3, t)),
}
each_mechanism = pytest.mark.parametrize("name", MECHANISMS)


@dataclass
class UnitDraws:
    """Streams whose draw number k is the k-th unit vector, so that noise appears as its exact coefficients."""

    keys: Tensor
    calls: list[tuple[str, int]] = field(default_factory=list)
    secret: bool = False

    def normal(self, purpose: str, call: Tensor, size: int) -> Tensor:
        self.calls.append((purpose, size))
        return torch.eye(size, dtype=torch.float64)[call]


def request(
    runs: int,
    dim: int,
    call: int,
    *,
    sampling: Sampling = FRESH,
    std: float = 1.0,
    sensitivity: float = 1.0,
    restart: list[bool] | None = None,
    active: list[bool] | None = None,
    value: Tensor | None = None,
) -> Request:
    value = torch.zeros(runs, dim, dtype=torch.float64) if value is None else value
    answer = Sensitive(value, torch.full((runs,), sensitivity).double(), Relation.ZERO_OUT, "proved", sampling)
    return Request(
        answer,
        torch.full((runs,), std).double(),
        torch.full((runs,), call),
        torch.tensor(active or [True] * runs),
        None if restart is None else torch.tensor(restart),
    )


def coefficients(mechanism: Any, steps: int, **options: Any) -> tuple[np.ndarray, UnitDraws]:
    """Return the noise of each released term as coefficients of the draws, `(steps, steps)`."""
    streams = UnitDraws(torch.zeros(1, 2, dtype=torch.int64))
    state = mechanism.init(torch.zeros(1, steps, dtype=torch.float64))
    rows = []
    for call in range(steps):
        state, value, _ = mechanism.release(state, request(1, steps, call, **options), streams)
        rows.append(value[0].numpy())
    return np.stack(rows), streams


def covariance_of_sums(mechanism: Any, steps: int) -> np.ndarray:
    sums = coefficients(mechanism, steps)[0].cumsum(0)
    return sums @ sums.T


# ---------------------------------------------------------------- what the noise has to be, written another way
def blocks_of(t: int) -> list[tuple[int, int]]:
    """Return NODE(t): the binary expansion of t, largest block first."""
    found, k = [], 0
    for level in range(t.bit_length() - 1, -1, -1):
        if k + 2**level <= t:
            found.append((k + 1, k + 2**level))
            k += 2**level
    assert k == t
    return found


def nodes(steps: int) -> np.ndarray:
    """Return sums with a draw for each block of their binary expansion."""
    sets = [{*blocks_of(t)} for t in range(1, steps + 1)]
    return np.array([[float(len(a & b)) for b in sets] for a in sets])


def honaker(steps: int) -> np.ndarray:
    """Return sums from a fully drawn tree; each block is the inverse-variance mean of its node and its halves."""
    names = [(u, u + 2**b - 1) for b in range(steps.bit_length()) for u in range(1, steps + 2 - 2**b, 2**b)]
    place = {name: i for i, name in enumerate(names)}

    def block(u: int, v: int) -> tuple[np.ndarray, float]:
        own = np.eye(len(names))[place[u, v]]
        if u == v:
            return own, 1.0
        middle = (u + v) // 2
        left, right = block(u, middle), block(middle + 1, v)
        below = left[1] + right[1]
        weight = below / (1 + below)
        return weight * own + (1 - weight) * (left[0] + right[0]), weight

    sums = np.stack([sum(block(u, v)[0] for u, v in blocks_of(t)) for t in range(1, steps + 1)])  # type: ignore[misc]
    return sums @ sums.T


def square_root(steps: int, bandwidth: int) -> np.ndarray:
    encoder = np.zeros((steps, steps))
    for k in range(min(bandwidth, steps)):
        encoder += math.comb(2 * k, k) / 4**k * np.eye(steps, k=-k)
    decoder = np.tril(np.ones((steps, steps))) @ np.linalg.inv(encoder)
    return decoder @ decoder.T


WRITTEN: dict[str, Callable[[int], np.ndarray]] = {
    "tree": nodes,
    "optimal tree": honaker,
    "square root": lambda steps: square_root(steps, steps),
    "band of 3": lambda steps: square_root(steps, 3),
}


# ---------------------------------------------------------------- covariance
@each_mechanism
def test_the_covariance_of_the_sums_is_exact(name):
    for steps in (*range(1, 18), 33, 64):
        found = covariance_of_sums(MECHANISMS[name](steps), steps)
        assert np.allclose(found, WRITTEN[name](steps), rtol=0, atol=1e-10), steps
    others = [other(64) for key, other in WRITTEN.items() if key != name]
    assert not any(np.allclose(found, other, atol=1e-3) for other in others), "control"


@each_mechanism
def test_a_restart_begins_with_fresh_noise(name):
    steps, cut = 24, 11
    mechanism = MECHANISMS[name](steps)
    streams = UnitDraws(torch.zeros(1, 2, dtype=torch.int64))
    state, rows = mechanism.init(torch.zeros(1, steps, dtype=torch.float64)), []
    for call in range(steps):
        state, value, _ = mechanism.release(state, request(1, steps, call, restart=[call == cut]), streams)
        rows.append(value[0].numpy())
    second = np.stack(rows[cut:]).cumsum(0)
    assert not second[:, :cut].any(), "a new sum has none of the old noise"
    expected = covariance_of_sums(MECHANISMS[name](steps), steps)[: steps - cut, : steps - cut]
    assert np.allclose(second @ second.T, expected, atol=1e-12)
    unrestarted = coefficients(MECHANISMS[name](steps), steps)[0][cut:].cumsum(0)
    assert unrestarted[:, :cut].any(), "control: a sum that is not restarted has"


@each_mechanism
def test_a_step_draws_once(name):
    for steps in (1, 2, 5, 64):
        streams = coefficients(replace(MECHANISMS[name](steps), purpose="its own"), steps)[1]
        assert streams.calls == [("its own", steps)] * steps


# ---------------------------------------------------------------- prices: exact, from the covariance alone
def exact_costs(covariance: np.ndarray) -> tuple[float, float]:
    """Return the zCDP of the noisy sums for unit noise and sensitivity: for an example in one term, or in all."""
    total = np.tril(np.ones_like(covariance))
    information = total.T @ np.linalg.solve(covariance, total)  # of the Gaussian shift caused by the terms
    return 0.5 * float(information.diagonal().max()), 0.5 * float(information.sum())


def charged(mechanism: Any, steps: int, sampling: Sampling, std: float = 1.0, sensitivity: float = 1.0) -> float:
    streams, ledger = Streams.of(0, ["a"]), Ledger()
    state = mechanism.init(torch.zeros(1, 1, dtype=torch.float64))
    for call in range(steps):
        asked = float(mechanism.cost(state, torch.tensor([std / sensitivity]), sampling, None))
        release = request(1, 1, call, sampling=sampling, std=std, sensitivity=sensitivity)
        state, _, price = mechanism.release(state, release, streams)
        assert float(price.rho()) == pytest.approx(asked, rel=1e-12), "the filter is told what is charged"
        ledger.add(price)
    return float(ledger.rho()[0])


@each_mechanism
def test_what_is_charged_is_the_exact_cost(name):
    for steps in [*range(1, 10), 15, 16, 17, 33, 64]:
        once, always = exact_costs(covariance_of_sums(MECHANISMS[name](steps), steps))
        assert charged(MECHANISMS[name](steps), steps, FRESH) == pytest.approx(once, rel=1e-9), steps
        assert charged(MECHANISMS[name](steps), steps, WHOLE) == pytest.approx(always, rel=1e-9), steps
        assert MECHANISMS[name](steps).max_cost(1.0) == pytest.approx(once, rel=1e-9)
    # The controls: one level too few, and reused data priced as fresh data.
    assert once > 1.05 * charged(MECHANISMS[name](64), 64, FRESH, std=math.sqrt(7 / 6))
    assert always > 10 * once
    assert charged(MECHANISMS[name](64), 64, FRESH, std=3.0, sensitivity=0.5) == pytest.approx(once / 36, rel=1e-9)


def test_the_tree_costs_its_levels():
    for steps in [*range(1, 10), 15, 16, 17, 33, 64]:
        levels = math.floor(math.log2(steps)) + 1
        assert charged(Tree(steps), steps, FRESH) == pytest.approx(levels / 2, rel=1e-12)
        accountant = rdp.RdpAccountant([2.0], NeighboringRelation.REPLACE_SPECIAL)
        accountant.compose(dp_event.SingleEpochTreeAggregationDpEvent(1.0, steps))
        assert accountant.rdp[0] == pytest.approx(2 * charged(Tree(steps), steps, FRESH))
    for k in range(6):  # reused data
        assert charged(Tree(2**k), 2**k, WHOLE) == pytest.approx(2**k * (3 * 2**k - 1) / 4)


def test_the_optimal_tree_s_worst_leaf_is_found(steps=1000):
    from dpnotes.privacy.tree import _touch

    worst = max(_touch(leaf, steps, True) for leaf in range(1, steps + 1))
    assert 2 * Tree(steps, optimal=True).max_cost(1.0) == pytest.approx(worst, rel=1e-12)
    assert worst < math.floor(math.log2(steps)) + 1, "a combination of nodes reveals less than all of them"


def test_leaves_of_different_sensitivity_pay_their_own():
    tree, streams, ledger = Tree(4), Streams.of(0, ["a"]), Ledger()
    state = tree.init(torch.zeros(1, 1, dtype=torch.float64))
    for call, sensitivity in enumerate((1.0, 2.0, 0.0, 1.5)):
        state, _, price = tree.release(state, request(1, 1, call, sensitivity=sensitivity), streams)
        ledger.add(price)
    # Leaf 1 is in three blocks, 2 in two, 4 in one; 3 moves nothing.
    assert [2 * float(p.rho()) for p in ledger.prices] == pytest.approx([3.0, 8.0, 0.0, 2.25])
    assert float(ledger.rho()) == pytest.approx(4.0)
    state, again = tree.init(torch.zeros(1, 1, dtype=torch.float64)), Ledger()
    for call, sensitivity in enumerate((1.0, 2.0, 0.0, 1.5)):
        state, _, price = tree.release(state, request(1, 1, call, sensitivity=sensitivity, sampling=WHOLE), streams)
        again.add(price)
    assert [2 * float(p.rho()) for p in again.prices] == pytest.approx([1.0, 9.0, 0.0, 4.5**2])


@each_mechanism
def test_what_is_asked_before_a_restart_is_the_cost_of_a_first_term(name):
    mechanism, streams, ledger = MECHANISMS[name](9), Streams.of(0, ["a"]), Ledger()
    state = mechanism.init(torch.zeros(1, 1, dtype=torch.float64))
    first = {s: float(mechanism.cost(state, torch.ones(1), s, None)) for s in (WHOLE, FRESH)}
    for call in range(12):
        again = torch.tensor([call == 7])
        asked = float(mechanism.cost(state, torch.ones(1), FRESH, again))
        state, _, price = mechanism.release(state, request(1, 1, call, restart=again.tolist()), streams)
        assert float(price.rho()) == pytest.approx(asked, rel=1e-12)
        ledger.add(price)
    assert float(ledger.prices[7].rho()) == pytest.approx(first[FRESH], rel=1e-12)
    # Two trees of fresh data are paid in parallel, by their worst leaf; a longer sum has no worse leaf.
    assert float(ledger.rho()) == pytest.approx(max(float(p.rho()) for p in ledger.prices[:7]), rel=1e-12)
    assert float(ledger.rho()) <= mechanism.max_cost(1.0) * (1 + 1e-12)
    restarted = float(mechanism.cost(state, torch.ones(1), WHOLE, torch.tensor([True])))
    assert restarted == pytest.approx(first[WHOLE], rel=1e-12)
    going_on = float(mechanism.cost(replace(state, leaf=torch.tensor([7])), torch.ones(1), WHOLE, None))
    assert going_on > restarted, "control"


@each_mechanism
def test_in_an_oracle_the_filter_stops_what_the_plan_did_not_price(name):
    # Repeated full batches are the worst case of this noise: the plan's budget is for independent noise.
    steps, task = 12, Quadratic.sample(torch.tensor([1.0, 0.1], dtype=torch.float64), 20, 0.5, seed=0)
    for generous in (1, 1000):
        plan = FixedNoise.of([uniform(0.5, steps), uniform(2.0, steps)])
        plan = replace(plan, budget=plan.budget * generous)
        oracle, method, ledger = (
            ClippedGradient(task, 1.0, plan, mechanism=MECHANISMS[name](steps)),
            Descent(0.1),
            Ledger(),
        )
        state = method.init(torch.ones(2, 2, dtype=torch.float64), oracle)
        state = loop(method, oracle, state, Streams.of(0, range(2)), steps + 1, ledger)
        assert torch.allclose(ledger.rho(), state.oracle.meter.spent, rtol=1e-9)
        assert (ledger.rho() <= plan.budget * (1 + 1e-9)).all()
        if generous == 1:
            assert (state.status == Status.BUDGET_EXHAUSTED).all() and (state.steps < steps).all()
        else:
            _, always = exact_costs(covariance_of_sums(MECHANISMS[name](steps), steps))
            assert (state.status == Status.FINISHED).all()
            assert torch.allclose(ledger.rho(), torch.tensor([1.0, 4.0]).double() * always / steps, rtol=1e-9)


# ---------------------------------------------------------------- states
@each_mechanism
def test_resumed_is_uninterrupted_to_the_bit(name, tmp_path):
    mechanism, streams = MECHANISMS[name](20), Streams.of(1, ["a", "b"])

    def go(state: Any, calls: range) -> tuple[Any, list[Tensor]]:
        released = []
        for call in calls:
            state, value, _ = mechanism.release(state, request(2, 3, call), streams)
            released.append(value)
        return state, released

    whole, expected = go(mechanism.init(torch.zeros(2, 3)), range(20))
    half, first = go(mechanism.init(torch.zeros(2, 3)), range(7))
    torch.save(flatten(half), tmp_path / "half.pt")
    back = restore(mechanism.init(torch.zeros(2, 3)), torch.load(tmp_path / "half.pt", weights_only=True))
    resumed, second = go(back, range(7, 20))
    assert all(torch.equal(a, b) for a, b in zip(first + second, expected, strict=True))
    assert all(torch.equal(a, flatten(resumed)[name]) for name, a in flatten(whole).items())


def test_an_older_state_stays_what_it_was():
    tree, streams = Tree(8), Streams.of(0, ["a"])
    state, _, _ = tree.release(tree.init(torch.zeros(1, 3)), request(1, 3, 0), streams)
    before = {name: tensor.clone() for name, tensor in flatten(state).items()}
    later = state
    for call in range(1, 8):
        later, _, _ = tree.release(later, request(1, 3, call), streams)
    assert all(torch.equal(before[name], tensor) for name, tensor in flatten(state).items())


# ---------------------------------------------------------------- comparison
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_noise_of_sums_is_that_of_the_mechanism_at_the_price_of_one_release(scheme):
    for steps in (1, 2, 5, 16, 33):
        if scheme in MECHANISMS:
            covariance = covariance_of_sums(MECHANISMS[scheme](steps), steps)
            expected = np.sqrt(covariance.diagonal() * 2 * exact_costs(covariance)[0])
        else:
            expected = np.sqrt(np.arange(1, steps + 1) if scheme == "terms" else np.full(steps, steps))
        assert np.allclose(noise_of_sums(scheme, steps), expected, rtol=1e-9)


def test_the_order_of_the_mechanisms_at_equal_privacy():
    rms = {s: math.sqrt(float(np.mean(noise_of_sums(s, 1024) ** 2))) for s in SCHEMES}
    assert rms["square root"] < rms["optimal tree"] < rms["tree"] < rms["terms"]
    # Root mean square noise of sums at (1, 1e-6): the tree's 31.3 and independent terms' 95.6 at 1,024 steps.
    from dpnotes.privacy.calibration import gaussian_std

    sigma = gaussian_std(1.0, 1e-6)
    assert round(rms["tree"] * sigma, 1) == 31.3 and round(rms["terms"] * sigma, 1) == 95.6


# ---------------------------------------------------------------- bad input
@each_mechanism
def test_bad_input_is_refused(name):
    mechanism, streams = MECHANISMS[name](4), Streams.of(0, ["a"])
    state = mechanism.init(torch.zeros(1, 2))
    for sampling, relation in (
        (Sampling.poisson(0.5), Relation.ZERO_OUT),
        (Sampling.fixed_size(1, 2), Relation.REPLACE_ONE),
    ):
        asked = request(1, 2, 0, sampling=sampling)
        asked = replace(asked, answer=replace(asked.answer, relation=relation))
        with pytest.raises(CombinationError, match="Expected sampling=whole or fresh"):
            mechanism.release(state, asked, streams)
        with pytest.raises(CombinationError, match="Expected sampling=whole or fresh"):
            mechanism.cost(state, torch.ones(1), sampling, None)
    for std, sensitivity in ((0.0, 1.0), (math.inf, 1.0), (math.nan, 1.0), (1.0, -1.0), (1.0, math.nan)):
        with pytest.raises(ValueError, match="Expected 0 < noise_std="):
            mechanism.release(state, request(1, 2, 0, std=std, sensitivity=sensitivity), streams)
    state, _, _ = mechanism.release(state, request(1, 2, 0), streams)
    with pytest.raises(ValueError, match="Expected noise_std=2.0 in run 0 to be 1.0"):
        mechanism.release(state, request(1, 2, 1, std=2.0), streams)
    mechanism.release(state, request(1, 2, 1, std=2.0, restart=[True]), streams)  # a new sum may have other noise
    for call in range(1, 4):
        state, _, _ = mechanism.release(state, request(1, 2, call), streams)
    with pytest.raises(ValueError, match="Expected leaf=5 of run 0 <= max_leaves=4"):
        mechanism.release(state, request(1, 2, 4), streams)


@pytest.mark.parametrize("mechanism", [Tree(4), Tree(4, optimal=True), BandedSquareRoot(4, 4)])
def test_a_sum_keeps_the_sampling_of_its_first_term_and_cannot_be_rolled_back(mechanism):
    streams, one = Streams.of(0, ["run"]), torch.ones(1)
    for first, second in ((WHOLE, FRESH), (FRESH, WHOLE)):
        state, _, _ = mechanism.release(mechanism.init(torch.zeros(1, 2)), request(1, 2, 0, sampling=first), streams)
        assert (
            torch.isinf(mechanism.cost(state, one, second)).all() and mechanism.cost(state, one, first).isfinite().all()
        )
        with pytest.raises(CombinationError, match="the sampling of its first"):
            mechanism.release(state, request(1, 2, 1, sampling=second), streams)
        mechanism.release(state, request(1, 2, 1, sampling=second, restart=[True]), streams)
    # Fresh terms are paid for once: from an older state the sum may only start anew.
    later, _, _ = mechanism.release(state, request(1, 2, 1, sampling=FRESH), streams)
    mechanism.release(later, request(1, 2, 2, sampling=FRESH), streams)
    with pytest.raises(CombinationError, match="was restored"):
        mechanism.release(state, request(1, 2, 2, sampling=FRESH), streams)
    mechanism.release(state, request(1, 2, 2, sampling=FRESH, restart=[True]), streams)


def test_a_cost_is_double_whatever_the_multiplier_is():
    tree, multiplier = Tree(4), 1.1
    state = tree.init(torch.zeros(1, 2))
    coarse, fine = (
        tree.cost(state, torch.tensor([multiplier], dtype=kind), WHOLE) for kind in (torch.float32, torch.float64)
    )
    assert coarse.dtype == fine.dtype == torch.float64 and torch.allclose(coarse, fine, rtol=1e-6)
