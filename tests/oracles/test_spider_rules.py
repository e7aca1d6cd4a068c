"""SPIDER: examples are used once, rules, what may be claimed and what is refused."""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from stand_ins import Spy
from torch import Tensor

from dpnotes.core import Relation, Status
from dpnotes.methods import checkpoint
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive
from dpnotes.oracles import samples as samples_module
from dpnotes.oracles.samples import ORDER_PURPOSE, DataSetSamples, VirtualSamples, shuffled
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.privacy.discrete import DiscreteGaussian
from dpnotes.privacy.mechanisms import Exact, Gaussian, Laplace
from dpnotes.privacy.museum import module_with_line_replaced
from dpnotes.privacy.tree import Tree
from dpnotes.random.streams import Streams
from tests.oracles.test_spider import (
    DIM,
    PATH,
    REPLACE,
    G,
    M,
    bowls,
    budget,
    data,
    every,
    exact,
    normal,
    population,
    silent,
    small_oracle,
    use_again,
    walk,
)


# ---------------------------------------------------------------- examples are used once
@dataclass
class Counting:
    """A data set that records the requested examples."""

    problem: Any
    asked: list[int] = field(default_factory=list)

    @property
    def num_examples(self) -> int:
        return self.problem.num_examples

    @property
    def dim(self) -> int:
        return self.problem.dim

    @property
    def constants(self) -> dict:
        return {}

    def gradients(self, x: Tensor, examples: Tensor | None = None) -> Any:
        assert examples is not None
        self.asked += examples.flatten().tolist()
        return self.problem.gradients(x, examples)

    def take(self, index: Tensor) -> "Counting":
        return self


def places_of(spider: Any, total: int = 60) -> tuple[list[int], list[int]]:
    """Return the positions in the order of examples that each release used, until the data are exhausted."""
    used: list[int] = []

    @dataclass
    class Source:
        inner: Any

        total = torch.tensor(60)
        basis = "enforced"

        def batch(self, start, count, streams, call):
            used.extend(range(int(start), int(start + count)))
            return self.inner.batch(start, count, streams, call)

        def take(self, index):
            return self

    problem = bowls(normal("slopes", total, DIM), normal("curvatures", total))
    oracle = spider(Source(DataSetSamples(problem)), Exact(), 0.0, budget(1), PATH, BatchSizes(9, 4), 5.0, 5.0)
    seen = walk(oracle, torch.zeros(1, DIM, dtype=torch.float64), Streams.of(0, ["a"]), 15)
    return used, [int(e.status) for _, _, e in seen]


def test_no_example_is_used_twice_and_a_run_without_enough_of_them_ends(monkeypatch):
    used, status = places_of(Spider)
    assert len(used) == len(set(used)) and max(used) < 60 and len(used) > 50
    assert status[0] == Status.OK and status[-1] == Status.DATA_EXHAUSTED
    use_again(monkeypatch)
    used, status = places_of(Spider)
    assert len(used) > len(set(used)), "control: a cursor that goes back"


def test_exhausted_data_are_refused_before_anything_is_drawn_and_the_rest_goes_on():
    counts = []

    class Recording(VirtualSamples):
        def batch(self, start, count, streams, call):
            counts.append(count.tolist())
            return super().batch(start, count, streams, call)

    oracle = exact(Recording(silent(), torch.tensor([1000, 100])), 2, batches=BatchSizes(80, 15))
    state = oracle.init(torch.zeros(2, DIM, dtype=torch.float64))
    seen = walk(oracle, torch.zeros(2, DIM, dtype=torch.float64), Streams.of(0, range(2)), 3, 1e-4, state)
    assert [e.status.tolist() for _, _, e in seen] == [[0, 0], [0, 0], [0, Status.DATA_EXHAUSTED]]
    assert counts == [[80, 80], [15, 15], [15, 0]]
    assert seen[-1][0].meter.used.tolist() == [110, 95] and seen[-1][0].meter.calls.tolist() == [3, 2]
    assert torch.equal(seen[-1][2].gradient[1], torch.zeros(DIM)) and seen[-1][2].num_gradients.tolist() == [30, 0]
    assert not seen[-1][2].price.charged[1]
    idle = torch.tensor([False, False])
    same, estimate = oracle.estimate(seen[-1][0], seen[-1][1], Streams.of(0, range(2)), idle)
    assert same is seen[-1][0] and estimate.status.tolist() == [0, 0]


def used_by_a_resumed_run(folder: Path, source: Any, streams: Streams) -> list[int]:
    problem = Counting(bowls(normal("slopes", 60, DIM), normal("curvatures", 60)))
    oracle = Spider(source(problem), Exact(), 0.0, budget(1), Refresh.every(1), BatchSizes(20), 5.0, 5.0)
    method, x = Descent(0.1), torch.zeros(1, DIM, dtype=torch.float64)
    state = drive(method, oracle, method.init(x, oracle), streams, 1)
    checkpoint.save(folder / "run.pt", state, streams)
    state, streams = checkpoint.resume(folder / "run.pt", state, None if streams.secret else streams)
    drive(method, oracle, state, streams, 2)
    assert len(problem.asked) == 60
    return problem.asked


def test_a_resumed_run_with_fresh_secret_keys_uses_no_example_again(tmp_path):
    for streams in (Streams.of(0, ["a"]), Streams.secure(1)):
        assert len(set(used_by_a_resumed_run(tmp_path, DataSetSamples, streams))) == 60
    line = "order = Streams(torch.zeros_like(streams.keys)) if streams.secret else streams"
    broken = module_with_line_replaced(samples_module, line, "order = Streams(torch.randint(2**32, (1, 2)))")
    # 20 and 40 of 60 at random are disjoint with probability below 1e-15.
    assert len(set(used_by_a_resumed_run(tmp_path, broken.DataSetSamples, Streams.secure(1)))) < 60, "control"


@pytest.mark.parametrize("num_examples", [1, 2, 3, 7, 64, 101, 1000])
def test_a_shuffled_order_holds_every_example_once(num_examples):
    places = torch.arange(num_examples).expand(3, -1)
    order = shuffled(places, num_examples, Streams.of(0, range(3)), "test")
    assert torch.equal(order.sort(1).values, places)
    if num_examples > 60:
        assert torch.equal(shuffled(places[:, 10:20], num_examples, Streams.of(0, range(3)), "test"), order[:, 10:20])
        assert not torch.equal(order[0], order[1])


def test_a_shuffled_order_puts_examples_anywhere():
    runs, n = 20_000, 30
    order = shuffled(torch.arange(n).expand(runs, n), n, Streams.of(0, range(runs)), "test")

    def chi_squared(found: Tensor, cells: int) -> float:
        counts = torch.bincount(found, minlength=cells).double()
        expected = runs / cells
        return float(((counts - expected) ** 2 / expected).sum() - (cells - 1)) / math.sqrt(2 * (cells - 1))

    # Seven statistics, each above 5 standard deviations with probability below 1e-4.
    assert max(chi_squared(order[:, place], n) for place in (0, 1, 7, 15, 29)) < 5
    for first, second in ((order[:, 3], order[:, 4]), (order[:, 2], order[:, 17])):
        assert chi_squared(first * (n - 1) + second - (second > first).long(), n * (n - 1)) < 5
    assert chi_squared(order[:, :2].min(1).values, n) > 5, "control: not uniform"


# ---------------------------------------------------------------- rules
def test_when_a_fresh_gradient_is_due():
    def refreshes(rule: Refresh, sizes: list[float]) -> list[int]:
        oracle = exact(VirtualSamples(silent(), 10**6), 1, refresh=rule)
        x, streams, found = torch.zeros(1, DIM, dtype=torch.float64), Streams.of(0, ["a"]), []
        state = oracle.init(x)
        for call, size in enumerate([0.0, *sizes]):
            x = x + torch.tensor([[size, 0.0, 0.0]])
            before = int(state.meter.refreshes)
            state, _ = oracle.estimate(state, x, streams, every(1))
            found += [call] if int(state.meter.refreshes) > before else []
        return found

    assert refreshes(Refresh.every(3), [0.0] * 8) == [0, 3, 6]
    assert refreshes(Refresh.path_length(1.0, M), [0.25] * 8) == [0, 2, 4, 6, 8]
    assert refreshes(Refresh.squared_moves(0.125), [0.25] * 8) == [0, 2, 4, 6, 8]
    assert refreshes(Refresh.squared_moves(0.125), [0.5] + [0.25] * 7) == [0, 1, 3, 5, 7]
    assert refreshes(Refresh.path_length(1.0, M, longest=3), [0.01] * 8) == [0, 3, 6]


def test_without_a_rule_drift_is_the_sum_of_squared_moves():
    drift, move = torch.tensor([1.0, 0.0]), torch.tensor([3.0, 0.5])
    assert torch.equal(Refresh(5.0).drift(drift, move), Refresh.squared_moves(5.0).drift(drift, move))
    assert Refresh(5.0).drift(drift, move).tolist() == [10.0, 0.25]


def test_without_a_rule_a_later_batch_is_the_least():
    bounds, new = torch.tensor([0.0, 1e6, 1e6]), torch.tensor([False, False, True])
    assert BatchSizes(1000).wanted(bounds, new).tolist() == [1, 1, 1000]


def test_batches_grow_with_the_move_and_keep_a_term_below_its_sensitivity():
    spy, largest = Spy(Exact()), torch.tensor([1.0, 1e-3, 1e-3, 1e-12], dtype=torch.float64)
    oracle = Spider(
        VirtualSamples(silent(), 10**18), spy, 1.0, budget(4, 1.0), Refresh.path_length(1e30, M),
        BatchSizes(1000, 7, 300.0), G, M, largest,
    )  # fmt: skip
    x, streams = torch.zeros(4, DIM, dtype=torch.float64), Streams.of(0, range(4))
    state, first = oracle.estimate(oracle.init(x), x, streams, every(4))
    assert first.num_gradients.tolist() == [1000, 1000, 1000, 2 * G * 1e12]
    move = torch.tensor([0.1, 0.1, 1e-9, 0.1], dtype=torch.float64)
    state, second = oracle.estimate(state, x + move[:, None] * torch.tensor([1.0, 0.0, 0.0]), streams, every(4))
    assert second.num_gradients.tolist() == [120, 800, 14, 8 * 10**11]
    for request in spy.requests:
        assert (request.answer.l2_sensitivity <= largest * (1 + 1e-12)).all()
        assert torch.allclose(request.noise_std, largest)


def test_forgotten_drift_lets_the_error_grow():
    rules = {"batches": BatchSizes(10_000, 50), "refresh": Refresh.path_length(3.0, M)}
    oracle = exact(VirtualSamples(population(), 10**9), 200, **rules)
    streams, x = Streams.of(0, range(200)), torch.zeros(200, DIM, dtype=torch.float64)
    found = {}
    for printed in (False, True):
        state, point, total = oracle.init(x), x, []
        for step in range(60):
            state, estimate = oracle.estimate(state, point, streams, every(200))
            if printed and step % 5 == 4:
                state = oracle.forget_drift(state, every(200))
            total.append((estimate.gradient - population().landscape.gradient(point)).square().sum(1).mean())
            point = point + 0.1 * Streams.of("forget", range(200)).normal("step", step, DIM)
        found[printed] = torch.stack(total[40:]).mean().item(), int(state.meter.refreshes.sum())
    assert found[True][1] == 200 < found[False][1]
    assert found[True][0] > 3 * found[False][0]


# ---------------------------------------------------------------- what may be claimed, and what is refused
def test_a_claim_names_its_bounds_and_a_refuted_one_claims_nothing():
    streams, x = Streams.of(0, range(2)), torch.full((2, DIM), 1.5, dtype=torch.float64)
    oracle = small_oracle(2, Tree(16))
    seen = walk(oracle, x, streams, 5)
    claims = oracle.guarantee(seen[-1][0], 1e-6, streams)
    assert all(c.holds and c.relation == REPLACE for c in claims)
    assert all("every example's gradients are at most 2 long" in str(c) for c in claims)
    wrong = replace(oracle, gradient_bound=0.1)
    seen = walk(wrong, x, streams, 5)
    refuted = wrong.guarantee(seen[-1][0], 1e-6, streams)
    assert not any(c.holds for c in refuted) and "batches were longer" in str(refuted[0])
    assert all(c.epsilon == math.inf and c.nominal_epsilon < math.inf for c in refuted)
    assert all(c.epsilon == c.nominal_epsilon < math.inf for c in claims), "the control"
    state = walk(oracle, x, streams, 5)[-1][0]
    more = replace(state.meter, filter=replace(state.meter.filter, fresh=1.1 * oracle.budget))
    assert all(c.holds for c in oracle.guarantee(state, 1e-6, streams))
    refuted = oracle.guarantee(replace(state, meter=more), 1e-6, streams)
    assert not any(c.holds for c in refuted) and "spent no more than was declared" in str(refuted[0])
    clipped = exact(DataSetSamples(bowls(*data(3.0))), 1)
    state = walk(clipped, torch.zeros(1, DIM, dtype=torch.float64), Streams.of(0, ["a"]), 2)[-1][0]
    (claim,) = clipped.guarantee(state, 1e-6, Streams.of(0, ["a"]))
    assert claim.epsilon == math.inf and "clipped" in str(claim)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batches": BatchSizes(2000)}, r"Expected total=1000 >= 2000, .*too few examples in run 0 by 1000"),
        ({"budget": budget(1, 0.01)}, r"Expected budget=0.01 >= 0.125, .*too small by a factor of 3.53553"),
        ({"budget": torch.tensor(1.0)}, "one a run"),
        ({"relation": Relation.ADD_OR_REMOVE}, "relation="),
        ({"budget": budget(1, -1.0)}, "budget=-1.0 >= 0"),
        ({"smoothness": torch.ones(2)}, r"smoothness of shape \(2,\) to be \(\) or \(1,\)"),
        ({"refresh": Refresh.squared_moves(torch.ones(3))}, r"threshold of shape \(3,\)"),
        (
            {"budget": budget(2, 1.0), "batches": BatchSizes(torch.ones(1))},
            r"first of shape \(1,\) to be \(\) or \(2,\)",
        ),
        ({"mechanism": Laplace()}, "to add Gaussian noise"),
        ({"mechanism": DiscreteGaussian()}, "to add Gaussian noise"),
        ({"mechanism": Gaussian("samples")}, "to have another purpose"),
        ({"mechanism": Gaussian(ORDER_PURPOSE)}, "to have another purpose"),
        ({"mechanism": Tree(1)}, "or a term_sensitivity"),
    ],
)
def test_bad_parameters_are_refused(change, message):
    good = {
        "samples": VirtualSamples(silent(), 1000), "mechanism": Gaussian(), "noise_multiplier": 2.0,
        "budget": budget(1, 1.0), "refresh": PATH, "batches": BatchSizes(10), "gradient_bound": G, "smoothness": M,
    }  # fmt: skip
    Spider(**good)
    with pytest.raises(ValueError, match=message):
        Spider(**good | change)


def test_a_power_that_no_rule_has_is_refused():
    with pytest.raises(ValueError, match="power=3 to be 0, 1 or 2"):
        Refresh(1.0, power=3)
