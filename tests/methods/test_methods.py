"""Stochastic Spider and drift escape: perturbations, attempts, runs with settings of their own."""

import io
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from dpnotes.core import Status
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive
from dpnotes.methods.spider_descent import StochasticSpider
from dpnotes.oracles.fresh import FreshGradient
from dpnotes.oracles.samples import VirtualSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.papers.drift_escape.escaping import DriftEscape
from dpnotes.privacy.mechanisms import Exact, Gaussian
from dpnotes.privacy.tree import Tree
from dpnotes.problems.separable import Cosine, Linear, Separable, Sine
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams
from dpnotes.util.states import flatten, restore

DIM, M = 4, 2.0
ONE = torch.tensor([True])


def data(noise: float = 0.5) -> VirtualData:
    features = Sine(noise) if noise else Linear(0.0)
    return VirtualData(Separable([(Cosine(1.0), DIM)]), Separable([(features, DIM)]))


def oracle(runs: int, mechanism: Any = None, total: Any = 10**12, noise: float = 0.5, **more: Any) -> Spider:
    mechanism = mechanism or Gaussian()
    silent = isinstance(mechanism, Exact)
    budget = torch.full((runs,), math.inf if silent else 1.0, dtype=torch.float64)
    options: dict[str, Any] = {
        "refresh": Refresh.path_length(0.8, M, 64), "batches": BatchSizes(2000, 50, 500.0), "gradient_bound": 2.0,
        "smoothness": M, "term_sensitivity": 0.005 if isinstance(mechanism, Tree) else None,
    } | more  # fmt: skip
    return Spider(VirtualSamples(data(noise), total), mechanism, 0.0 if silent else 3.0, budget, **options)


def start(runs: int, scale: float = 1.0) -> Tensor:
    return scale * Streams.of("start", range(runs)).normal("x", 0, DIM)


# ---------------------------------------------------------------- stochastic Spider


def test_the_perturbation_moves_off_a_saddle_and_nothing_else_does():
    # The origin is the maximum of all cosines: the gradient is 0 there, and stays 0 without noise.
    source, x, streams = (
        oracle(20, Exact(), noise=0.0),
        torch.zeros(20, DIM, dtype=torch.float64),
        Streams.of(0, range(20)),
    )
    assert float(data(0.0).landscape.smallest_eigenvalue(x)[0]) < 0

    def end(perturbation: float) -> Tensor:
        method = StochasticSpider(60, 1 / M, 0.05, 20, perturbation)
        return drive(method, source, method.init(x, source), streams, 100).x

    assert (data(0.0).landscape.smallest_eigenvalue(end(0.01)) > 0).all()
    assert torch.equal(end(0.0), x), "control"


def test_no_run_perturbs_at_its_first_step_and_one_at_a_saddle_at_its_second():
    source, x = oracle(1, Exact()), torch.zeros(1, DIM, dtype=torch.float64)
    method, seen = StochasticSpider(3, 1 / M, 1e9, 20, 0.1), []
    drive(
        method, source, method.init(x, source), Streams.of("first", [0]), 3,
        observe=lambda going, state, estimate: seen.append(state.perturbations.item()),
    )  # fmt: skip
    assert seen == [0, 1, 1]


@pytest.mark.slow
def test_runs_with_settings_of_their_own_are_the_runs_one_by_one_and_resumed_ones_the_whole():
    runs, streams, x = 3, Streams.of("own", range(3)), start(3)
    lists: Any = ([30, 40, 50], [0.5, 0.3, 0.1], [0.1, 0.2, 0.3], [3, 5, 7], [0.1, 0.0, 0.2])
    source = oracle(runs, Tree(64), torch.tensor([10**9, 10**9, 20_000]))
    columns: Any = [torch.tensor(values) for values in lists]
    method = StochasticSpider(*columns)
    whole = drive(method, source, method.init(x, source), streams, 60)
    assert whole.status.tolist() == [Status.FINISHED, Status.FINISHED, Status.DATA_EXHAUSTED]
    for run in range(runs):
        index, one = torch.tensor([run]), StochasticSpider(*(values[run] for values in lists))
        alone = drive(one, source.take(index), one.init(x[index], source.take(index)), streams.take(index), 60)
        assert torch.allclose(alone.x[0], whole.x[run], atol=1e-6) and alone.steps[0] == whole.steps[run]
    half = drive(method, source, method.init(x, source), streams, 17)
    buffer = io.BytesIO()
    torch.save(flatten(half), buffer)
    buffer.seek(0)
    restored = restore(method.init(x, source), torch.load(buffer, weights_only=True))
    resumed = flatten(drive(method, source, restored, streams, 43))
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in flatten(whole).items())


def test_runs_that_have_ended_are_not_stepped_and_not_observed():
    runs, streams, x = 3, Streams.of("ends", range(3)), start(3)
    source = oracle(runs, Tree(64), torch.full((3,), 10**9))
    method, seen = StochasticSpider(torch.tensor([3, 9, 5]), 0.3, 0.2, 3, 0.1), []
    drive(
        method, source, method.init(x, source), streams, 12, observe=lambda going, state, _: seen.append(going.tolist())
    )
    assert seen[0] == [0, 1, 2] and [1] in seen and all(0 not in going for going in seen[4:])


# ---------------------------------------------------------------- drift escape


def test_attempts_of_runs_with_settings_of_their_own_are_those_of_the_runs_one_by_one():
    runs, streams, x = 3, Streams.of("own", range(3)), start(3, 0.2)
    lists: Any = ([0.3, 0.2, 0.1], [0.5, 0.4, 0.6], [5, 4, 8], [0.4, 0.3, 0.5], [3, 2, 4])
    columns: Any = [torch.tensor(values) for values in lists]
    source, method = oracle(runs, refresh=Refresh.squared_moves(0.2)), DriftEscape(*columns)
    whole = drive(method, source, method.init(x, source), streams, 400)
    assert whole.status.tolist() == [Status.FINISHED] * 3
    for run in range(runs):
        index, one = torch.tensor([run]), DriftEscape(*(values[run] for values in lists))
        alone = drive(one, source.take(index), one.init(x[index], source.take(index)), streams.take(index), 400)
        assert torch.allclose(alone.x[0], whole.x[run], atol=1e-6) and alone.steps[0] == whole.steps[run]


def test_fresh_gradients_are_asked_for_again_where_attempts_refresh():
    found = {}
    for repeat in ("restore", "refresh", "go on"):
        method, source = DriftEscape(0.3, 0.5, 5, 3.0, 4, repeat), oracle(1, refresh=Refresh.squared_moves(1e9))
        x = torch.full((1, DIM), math.pi, dtype=torch.float64)  # a minimum: no attempt leaves
        state = drive(method, source, method.init(x, source), Streams.of(0, ["a"]), 100)
        assert state.status.tolist() == [Status.FINISHED] and state.tests.tolist() == [1]
        found[repeat] = int(state.oracle.meter.refreshes), int(state.steps)
    assert found == {"restore": (1, 5 + 3 * 4), "refresh": (4, 4 * 5), "go on": (1, 4 * 5)}


def test_fresh_noise_needs_no_rollback():
    source = FreshGradient(data(), 10_000, torch.full((2,), 0.02, dtype=torch.float64), 5.0, 500)
    method = DriftEscape(0.3, 0.2, 10, 0.4, 5, "go on")
    state = drive(method, source, method.init(start(2), source), Streams.of(0, range(2)), 500)
    assert state.status.tolist() == [Status.FINISHED] * 2
    with pytest.raises(TypeError, match="rollback"):
        method = DriftEscape(0.3, 0.2, 10, 0.4, 5)
        drive(method, source, method.init(start(2), source), Streams.of(0, range(2)), 500)
    with pytest.raises(TypeError, match="forget_drift"):
        printed = StochasticSpider(5, 0.1, 0.1, 5, 0.1, as_printed=True)
        drive(printed, source, printed.init(start(2), source), Streams.of(0, range(2)), 5)


# ---------------------------------------------------------------- baselines
def test_plain_dp_spider_is_a_fresh_gradient_every_so_many_steps():
    source = oracle(2, refresh=Refresh.every(7))
    method = Descent(0.3)
    state = drive(method, source, method.init(start(2), source), Streams.of(0, range(2)), 30)
    assert (
        state.oracle.meter.refreshes.tolist() == [5, 5] and (data().landscape.gradient(state.x).norm(dim=1) < 0.2).all()
    )
    assert (state.oracle.meter.spent <= source.declared()).all()


def test_a_parameter_of_another_number_of_runs_is_refused():
    with pytest.raises(ValueError, match=r"shape \(2,\) to be \(\) or \(3,\)"):
        DriftEscape(torch.ones(2), 0.1, 5, 0.1, 5).init(start(3), oracle(3))


def test_by_default_lines_are_the_corrected_ones_and_the_tested_point_is_returned():
    assert not StochasticSpider(10, 0.1, 0.1, 5, 0.1).as_printed
    escape = DriftEscape(0.1, 0.1, 5, 0.1, 2)
    assert escape.return_tested and escape.repeat == "refresh"
