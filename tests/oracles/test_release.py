"""Plans and releases: plans that cost nothing until they are released, states that release once, and valid claims."""

import contextlib
import copy
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from dpnotes.core import Relation, Sampling, Status
from dpnotes.guarantees import Assumption
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive, run
from dpnotes.oracles import minibatch, release
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.oracles.fresh import FreshGradient
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.oracles.release import ReleasePlan, State
from dpnotes.oracles.samples import VirtualSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.privacy.mechanisms import Exact, Gaussian
from dpnotes.privacy.noise import FixedNoise, LossAdaptiveNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.privacy.tree import Tree
from dpnotes.problems.custom import CustomProblem
from dpnotes.problems.separable import Cosine, Separable, Sine
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams
from dpnotes.util.states import flatten, map_state, restore, select

RUNS, DIM, N = 3, 2, 8
REPLACE, ZERO = Relation.REPLACE_ONE, Relation.ZERO_OUT
FIXED, POISSON = Sampling.fixed_size(2, N), Sampling.poisson(0.3)
EVERY = torch.ones(RUNS, dtype=torch.bool)


def rows(*values: float) -> Tensor:
    return torch.tensor((values * RUNS)[:RUNS], dtype=torch.float64)


def normal(name: str, *shape: int) -> Tensor:
    return Streams.of(name, ["a"]).normal("x", 0, math.prod(shape)).view(shape)


def cubes(examples: Tensor) -> CustomProblem:
    return CustomProblem(lambda x, a: ((x - a) ** 3).sum() / 3 + 0.5 * (x @ x), DIM, examples)


def population() -> VirtualData:
    return VirtualData(Separable([(Cosine(1.0), DIM)]), Separable([(Sine(0.5), DIM)]))


PROBLEM = cubes(normal("examples", N, DIM))
LISTENING = LossAdaptiveNoise(rows(0.5), rows(0.02), 1.3, rows(6.0))
ORACLES: dict[str, Callable[[], Any]] = {
    "clipped": lambda: ClippedGradient(PROBLEM, 0.5, FixedNoise.of([uniform(0.5, 9)] * RUNS)),
    "listening": lambda: ClippedGradient(PROBLEM, 0.5, LISTENING),
    "minibatch": lambda: MinibatchGradient(PROBLEM, FIXED, rows(0.3), 0.5, 9, clipped=True),
    "Poisson": lambda: MinibatchGradient(PROBLEM, POISSON, rows(0.3), 0.5, 9, ZERO, clipped=True),
    "fresh": lambda: FreshGradient(population(), 100, rows(0.1), 5.0, 9),
    "Spider": lambda: spider(VirtualSamples(population(), 10**6)),
    "Spider with a tree": lambda: spider(VirtualSamples(population(), 10**6), Tree(16), term_sensitivity=0.1),
}
each_oracle = pytest.mark.parametrize("name", ORACLES)


def spider(samples: Any, mechanism: Any = Gaussian(), **more: Any) -> Spider:  # noqa: B008
    options = {
        "refresh": Refresh.every(4),
        "batches": BatchSizes(100, 10),
        "gradient_bound": 5.0,
        "smoothness": 5.0,
    } | more
    return Spider(samples, mechanism, 1.0, rows(50.0), **options)


def begun(oracle: Any, seed: int = 0) -> tuple[State, Tensor, Streams]:
    return oracle.init(torch.zeros(RUNS, DIM)), torch.ones(RUNS, DIM).double() / 2, Streams.of(seed, range(RUNS))


def copied(state: Any) -> Any:
    return restore(state, flatten(state))


def same(one: Any, other: Any) -> bool:
    left, right = flatten(one), flatten(other)
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


# ---------------------------------------------------------------- plans
@each_oracle
def test_a_plan_that_is_voided_costs_nothing(name: str):
    oracle = ORACLES[name]()
    state, x, streams = begun(oracle)
    before = copied(state)
    plan = oracle.plan(state, x, EVERY)
    assert bool(plan.granted.all()) and bool((plan.spent.total > 0).all())
    plan.close(oracle.releases)
    none = oracle.plan(state, x, EVERY).only(~EVERY, torch.full((RUNS,), int(Status.DATA_EXHAUSTED)))
    kept, estimate = oracle.release(none, streams)
    assert kept is state and same(state, before) and not estimate.gradient.any() and not estimate.price.charged.any()
    assert estimate.status.tolist() == [Status.DATA_EXHAUSTED] * RUNS and not estimate.num_gradients.any()
    after, given = oracle.estimate(state, x, streams, EVERY)
    unplanned, expected = ORACLES[name]().estimate(before, x, streams, EVERY)
    assert torch.equal(given.gradient, expected.gradient) and same(after, unplanned)
    evaluations = [N] * RUNS if name == "listening" else None
    assert evaluations == (None if given.num_evaluations is None else given.num_evaluations.tolist())
    assert bool((after.meter.spent > 0).all()), "control: what is released is paid for"


@each_oracle
def test_a_plan_is_released_once_by_its_own_oracle_and_for_its_own_state(name: str):
    oracle, other = ORACLES[name](), ORACLES[name]()
    state, x, streams = begun(oracle)
    plan, second, voided = (oracle.plan(state, x, EVERY) for _ in range(3))
    voided.close(oracle.releases)
    for wrong in (lambda: other.release(plan, streams), lambda: oracle.release(voided, streams)):
        with pytest.raises(ValueError, match="Expected plan to be this oracle's, neither released nor voided"):
            wrong()
    assert bool(oracle.release(plan, streams)[1].gradient.any()), "the control"
    with pytest.raises(ValueError, match="Expected plan to be this oracle's"):
        oracle.release(plan, streams)
    with pytest.raises(ValueError, match="Expected state to have released nothing yet"):
        oracle.release(second, streams)


@each_oracle
def test_a_plan_may_be_void_for_some_of_the_runs(name: str):
    oracle = ORACLES[name]()
    state, x, streams = begun(oracle)
    alone, expected = ORACLES[name]().estimate(copied(state), x, streams, torch.tensor([True, False, True]))
    first = oracle.plan(state, x, EVERY)
    plan = first.only(torch.tensor([True, False, True]), torch.full((RUNS,), int(Status.BUDGET_EXHAUSTED)))
    after, estimate = oracle.release(plan, streams)
    assert estimate.status.tolist() == [0, Status.BUDGET_EXHAUSTED, 0] and same(after, alone)
    assert torch.equal(estimate.gradient, expected.gradient) and after.meter.calls.tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="voided"):
        oracle.release(first, streams)


# ---------------------------------------------------------------- a state releases once
@each_oracle
def test_a_state_that_has_released_is_refused_whatever_stands_beside_its_meter(name: str, monkeypatch):
    oracle = ORACLES[name]()
    state, x, streams = begun(oracle)
    stored = copied(state)
    after, estimate = oracle.estimate(state, x, streams, EVERY)
    for again in (state, replace(state, memory=after.memory)):
        with pytest.raises(ValueError, match="Expected state to have released nothing yet"):
            oracle.estimate(again, x, streams, EVERY)
        with pytest.raises(ValueError, match="Expected state to have released nothing yet"):
            oracle.plan(again, x, EVERY)
    replayed, _ = oracle.estimate(stored, x, streams, EVERY)
    assert same(replayed, after), "a checkpoint is replayed to the bit"
    _, following = oracle.estimate(after, x, streams, EVERY)
    assert bool((following.status == Status.OK).all())
    # The control: without the rule two answers have the same noise, and their difference is exact.
    monkeypatch.setattr(release, "on_time", lambda late, asked: asked)
    _, elsewhere = oracle.estimate(state, x / 2, streams, EVERY)
    if name == "clipped":
        silent = ClippedGradient(PROBLEM, 0.5, FixedNoise.none([9] * RUNS), mechanism=Exact())
        fresh = silent.init(x)
        _, one = silent.estimate(fresh, x, streams, EVERY)
        _, two = silent.estimate(fresh, x / 2, streams, EVERY)
        exact, noise = one.gradient - two.gradient, estimate.gradient - one.gradient
        assert torch.allclose(estimate.gradient - elsewhere.gradient, exact, atol=1e-12) and noise.norm() > 0.01


@each_oracle
@pytest.mark.parametrize("how", ["cloned", "selected", "a new meter", "copied"])
def test_no_copy_of_a_state_forgets_what_it_released(name: str, how: str):
    oracle = ORACLES[name]()
    state, x, streams = begun(oracle)
    some = torch.tensor([True, False, True])
    copies: dict[str, Callable[[], State]] = {
        "cloned": lambda: map_state(torch.clone, state),
        "selected": lambda: select(some, state, map_state(torch.clone, state)),
        "a new meter": lambda: replace(state, meter=replace(state.meter)),
        "copied": lambda: copy.deepcopy(state),
    }
    again = copies[how]()
    after, _ = oracle.estimate(state, x, streams, EVERY)
    with pytest.raises(ValueError, match="Expected state to have released nothing yet"):
        oracle.estimate(again, x, streams, EVERY)
    assert bool((oracle.estimate(map_state(torch.clone, after), x, streams, EVERY)[1].status == Status.OK).all())


def test_a_state_of_which_a_run_had_ended_is_driven_once():
    schedules = [uniform(0.2, steps) for steps in (2, 5, 3)]
    oracle, method = ClippedGradient(PROBLEM, 0.5, FixedNoise.of(schedules)), Descent(0.1)
    _, x, streams = begun(oracle)
    middle = drive(method, oracle, method.init(x, oracle), streams, 3)
    assert middle.status.tolist() == [Status.FINISHED, 0, 0]
    stored = copied(middle)
    end = drive(method, oracle, middle, streams, 6)
    with pytest.raises(ValueError, match="Expected state to have released nothing yet"):
        drive(method, oracle, middle, streams, 6)
    assert same(drive(method, oracle, stored, streams, 6), end), "a checkpoint is replayed to the bit"


Held = tuple[Any, Any, Streams, list[int]]  # a state, its oracle, its streams, and the indices of its runs


def something_done(choose: random.Random, method: Descent, pool: list[Held]) -> Held:
    """Do one random thing: a step, some steps, a copy, a new meter, a mix with another state, or a subset of runs."""
    state, oracle, streams, rows = choose.choice(pool)
    other = choose.choice([other for other, _, _, runs in pool if runs == rows])
    index = torch.tensor(sorted(choose.sample(range(len(rows)), choose.randint(1, len(rows)))))
    some, meter = torch.tensor([choose.random() < 0.5 for _ in rows]), state.oracle.meter
    acts: list[Callable[[], Any]] = [
        lambda: method.step(state, oracle, streams)[0],
        lambda: drive(method, oracle, state, streams, choose.randint(1, 3)),
        lambda: map_state(torch.clone, state),
        lambda: replace(state, oracle=replace(state.oracle, meter=replace(meter, calls=meter.calls.clone()))),
        lambda: select(some, state, other),
    ]
    if (act := choose.randint(0, len(acts))) < len(acts):
        return acts[act](), oracle, streams, rows
    part = map_state(lambda t: t[index], state)
    return part, oracle.take(index), streams.take(index), [rows[i] for i in index.tolist()]


def drawn_twice(trial: int) -> bool:
    """Return whether noise is drawn twice in 25 random operations on states: step, drive, copy, subset, mix."""
    choose, drawn = random.Random(trial), Counter[tuple[int, int]]()

    class Counting(Gaussian):
        noise = "gaussian"

        def release(self, state: Any, request: Any, streams: Streams) -> Any:
            released = super().release(state, request, streams)
            keys = zip(streams.keys[:, 0].tolist(), request.call.tolist(), request.active.tolist(), strict=True)
            drawn.update((key, call) for key, call, active in keys if active)
            return released

    schedules = [uniform(0.5, choose.randint(1, 8)) for _ in range(RUNS)]
    oracle, method = ClippedGradient(PROBLEM, 1.0, FixedNoise.of(schedules), mechanism=Counting()), Descent(0.1)
    _, x, streams = begun(oracle, trial)
    pool: list[Held] = [(method.init(x, oracle), oracle, streams, [*range(RUNS)])]
    for _ in range(25):
        with contextlib.suppress(ValueError):
            pool.append(something_done(choose, method, pool))
    assert drawn, "something was released"
    return max(drawn.values()) > 1


def test_whatever_is_done_to_states_no_noise_is_drawn_twice(monkeypatch):
    assert not any(drawn_twice(trial) for trial in range(20))
    monkeypatch.setattr(release, "on_time", lambda late, asked: asked)
    assert sum(drawn_twice(trial) for trial in range(20)) > 15, "the control: without the rule nearly always"


def test_a_release_that_failed_uses_its_state_up():
    class Failing(Gaussian):
        noise = "gaussian"

        def release(self, state: Any, request: Any, streams: Streams) -> Any:
            raise RuntimeError("interrupted")

    oracle = replace(ORACLES["clipped"](), mechanism=Failing())
    state, x, streams = begun(oracle)
    with pytest.raises(RuntimeError, match="interrupted"):
        oracle.estimate(state, x, streams, EVERY)
    with pytest.raises(ValueError, match="Expected state to have released nothing yet"):
        oracle.estimate(state, x, streams, EVERY)


# ---------------------------------------------------------------- what is claimed is what was promised
@each_oracle
def test_what_is_declared_is_a_copy(name: str):
    oracle = ORACLES[name]()
    state, x, streams = begun(oracle)
    claim = oracle.guarantee(state, 1e-5, streams)[0]
    oracle.declared().mul_(0.5)
    assert oracle.guarantee(state, 1e-5, streams)[0] == claim


def test_a_state_does_not_go_to_a_data_set_that_grew_nor_to_other_premises():
    """With more examples the order changes: used examples would be used again after paying once."""
    releases = ORACLES["Spider"]().releases
    others = [
        replace(releases, total=releases.total + 20),
        replace(releases, total=None),
        replace(releases, apart=(Assumption("nothing of an example enters another one's gradient", "assumed"),)),
        replace(releases, not_covered=("data",)),
    ]
    assert torch.equal(releases.terms, replace(releases).terms)
    assert not any(torch.equal(releases.terms, other.terms) for other in others)


@pytest.mark.slow
def test_what_a_caller_does_to_a_tensor_afterwards_changes_no_claim():
    std = rows(0.3)
    oracle = MinibatchGradient(PROBLEM, FIXED, std, 0.5, 9, clipped=True)
    state, x, streams = begun(oracle)
    expected = MinibatchGradient(PROBLEM, FIXED, rows(0.3), 0.5, 9, clipped=True)
    std.fill_(1e-3)
    after, estimate = oracle.estimate(state, x, streams, EVERY)
    same_noise = expected.estimate(*begun(expected), EVERY)[1]
    assert torch.equal(estimate.gradient, same_noise.gradient)
    assert oracle.guarantee(after, 1e-5, streams)[0] == expected.guarantee(expected.init(x), 1e-5, streams)[0]
    with pytest.raises(ValueError, match="other terms"):  # a part is made of the current settings
        index = torch.tensor([0, 2])
        part = oracle.take(index)
        part.estimate(map_state(lambda t: t[index], after), x[index], streams.take(index), EVERY[:2])
    budget = rows(50.0)
    spent = Spider(VirtualSamples(population(), 10**6), Gaussian(), 1.0, budget, Refresh.every(4),
                   BatchSizes(100, 10), 5.0, 5.0)  # fmt: skip
    claim = spent.guarantee(spent.init(x), 1e-5, streams)[0]
    budget.fill_(1e-3)
    assert spent.guarantee(spent.init(x), 1e-5, streams)[0] == claim


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("Poisson", {"relation": Relation.ADD_OR_REMOVE, "divisor": 2.4}),
        ("minibatch", {"noise_std": rows(0.6)}),
        ("minibatch", {"noise_std": rows(0.3, 0.3, 0.6)}),
        ("minibatch", {"num_steps": 8}),
        ("minibatch", {"clipped": False}),
        ("minibatch", {"sampling": Sampling.fixed_size(3, N)}),
        ("clipped", {"relation": REPLACE}),
        ("clipped", {"noise": FixedNoise.of([uniform(0.4, 9)] * RUNS)}),
        ("clipped", {"mechanism": Gaussian("another one")}),
        ("Spider", {"budget": rows(40.0)}),
        ("Spider", {"relation": ZERO}),
    ],
)
@pytest.mark.slow
def test_a_state_of_another_oracle_is_no_ground_for_a_claim(name: str, change: dict[str, Any]):
    oracle = ORACLES[name]()
    other = replace(oracle, **change)
    state, x, streams = begun(oracle)
    after, _ = oracle.estimate(state, x, streams, EVERY)
    later, _ = oracle.estimate(oracle.init(x), x, streams, EVERY)
    for wrong in (lambda: other.guarantee(after, 1e-5, streams), lambda: other.estimate(after, x, streams, EVERY)):
        with pytest.raises(ValueError, match="Expected state to be this oracle's: its releases were made on other"):
            wrong()
    with pytest.raises(ValueError, match="other terms"):
        other.guarantee(restore(other.init(x), flatten(later)), 1e-5, streams)
    assert len(replace(oracle).guarantee(after, 1e-5, streams)) == RUNS, "the control: equal terms"


def test_a_claim_is_for_the_last_state_of_a_run():
    """An estimate that an observer requests in the last step is a release that the run's claim would miss."""
    oracle, method = ORACLES["clipped"](), Descent(0.1)
    _, x, streams = begun(oracle)

    def asks_too(going: Tensor, state: Any, estimate: Any) -> None:
        if int(state.steps[0]) == 2:
            oracle.estimate(state.oracle, state.x, streams, EVERY)

    with pytest.raises(ValueError, match="Expected state to have released nothing yet"):
        run(method, oracle, x, streams, delta=1e-5, max_steps=2, observe=asks_too)
    assert len(run(method, oracle, x, streams, delta=1e-5, max_steps=2).guarantees) == RUNS, "the control"


@each_oracle
def test_a_plan_is_released_by_who_made_it(name: str):
    oracle = ORACLES[name]()
    state, x, streams = begun(oracle)
    plan = oracle.plan(state, x, torch.tensor([True, False, True]))
    forged = ReleasePlan(plan.state, plan.x, plan.asks, plan.granted, plan.status, plan.spent, plan.cost)
    for wrong in (replace(plan, granted=EVERY), replace(plan, spent=state.meter.filter), forged):
        with pytest.raises(ValueError, match="Expected plan to be this oracle's"):
            oracle.release(wrong, streams)
    with pytest.raises(ValueError, match="Expected plan to be this oracle's"):
        forged.only(EVERY, plan.status)
    assert oracle.release(plan, streams)[0].meter.calls.tolist() == [1, 0, 1], "the control"


# ---------------------------------------------------------------- nothing is looked at
class Untouchable:
    """Data that fail the test when used."""

    num_examples, dim, constants, basis = N, DIM, {}, "assumed"
    total = torch.tensor(150)

    def take(self, index: Tensor) -> "Untouchable":
        return self

    def __getattr__(self, name: str) -> Any:
        if name in ("gradients", "fresh", "batch"):
            return self._refuse
        raise AttributeError(name)

    def _refuse(self, *arguments: Any) -> Any:
        raise AssertionError("the data were asked")


def test_a_plan_refuses_by_public_numbers_and_asks_no_data(monkeypatch):
    def drawn(*arguments: Any) -> Any:
        raise AssertionError("a batch was drawn")

    monkeypatch.setattr(minibatch, "draw", drawn)
    data: Any = Untouchable()
    oracles = {
        Status.FINISHED: MinibatchGradient(data, POISSON, rows(0.3), 0.5, 2, ZERO),
        Status.BUDGET_EXHAUSTED: ClippedGradient(data, 0.5, replace(FixedNoise.of([uniform(1.0, 9)] * RUNS),
                                                                   budget=rows(0.2))),
        Status.DATA_EXHAUSTED: spider(data),
    }  # fmt: skip
    for status, oracle in oracles.items():
        state, x, streams = begun(oracle)
        plan = oracle.plan(state, x, EVERY)
        assert bool(plan.granted.all()) and not plan.status.any()
        far = replace(state.meter, calls=state.meter.calls + 2, used=state.meter.used + 149)
        far = replace(far, filter=replace(far.filter, reused=rows(0.15) * (status == Status.BUDGET_EXHAUSTED)))
        refused = oracle.plan(replace(state, meter=far), x, EVERY)
        assert refused.status.tolist() == [status] * RUNS and not refused.granted.any()
        with pytest.raises(AssertionError, match="the data were asked|a batch was drawn"):  # the control
            oracle.release(plan, streams)
