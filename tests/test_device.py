"""Everything that runs on a CPU runs on a GPU with the same numbers, as far as a pretend GPU can tell.

Oracles, methods, public algorithms and experiments are found in the package; a new one without a case fails a test
here.
"""

import functools
import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from pretend_device import PretendCuda
from torch import Tensor

from dpnotes import methods, oracles
from dpnotes.core import WHOLE, Ledger, Mechanism, Price, Relation, Request, Sampling, Sensitive, Status
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import Runs, drive
from dpnotes.methods.spider_descent import StochasticSpider
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.clients import Clients
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.oracles.fresh import FreshGradient
from dpnotes.oracles.holdings import ClientSamples
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.oracles.samples import DataSetSamples, VirtualSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.papers.adaptive_batch.algorithms import practical, stochastic_spider
from dpnotes.papers.drift_escape.algorithms import drift_escape, practical_escape
from dpnotes.papers.drift_escape.algorithms import practical as practical_oracle
from dpnotes.papers.drift_escape.baseline import distributed_noisy_sgd
from dpnotes.papers.drift_escape.distributed import distributed_drift_escape
from dpnotes.papers.drift_escape.distributed import practical as clients_practical
from dpnotes.papers.drift_escape.escaping import DriftEscape
from dpnotes.papers.goldstein.algorithms import online_to_nonconvex, plain
from dpnotes.papers.goldstein.conversion import OnlineToNonconvex
from dpnotes.papers.noisy_sgd.algorithms import clipped_noisy_sgd
from dpnotes.privacy.discrete import DiscreteGaussian
from dpnotes.privacy.factorisation import BandedSquareRoot
from dpnotes.privacy.mechanisms import Gaussian, Laplace
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import exponential, uniform
from dpnotes.privacy.tree import Tree
from dpnotes.problems.custom import CustomProblem
from dpnotes.problems.datasets.dataset import Dataset
from dpnotes.problems.networks import TwoLayerNetwork
from dpnotes.problems.separable import Cosine, Separable, Sine
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams
from dpnotes.train.noise import NoiseChoice
from dpnotes.util import checks
from dpnotes.util.lineage import Lineage

Program = Callable[[str], Any]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}  # relative to the largest number of a tensor
LOOSER = {"budget_schedules.influence": 100.0}  # multiples of the tolerance: differences of losses, which cancel
RUNS, NUM_EXAMPLES = 3, 12


# ---------------------------------------------------------------- the same numbers
def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the parts of a result by name; of a price only charged parts: a device learns late that runs ended."""
    if isinstance(value, Ledger):
        value = [price for price in value.prices if bool(price.charged.any())]
    if isinstance(value, Price):
        value = replace(value, noise_multiplier=torch.where(value.charged, value.noise_multiplier, 0.0))
    if isinstance(value, Lineage):  # the releases made by its runs
        value = value._count.settled()[value._rows]
    if isinstance(value, Runs):  # the other fields are its arguments
        value = {"state": value.state, "ledger": value.ledger, "guarantees": value.guarantees}
    if isinstance(value, Mapping):
        parts = value.items()
    elif is_dataclass(value) and not isinstance(value, type):
        parts = [(f.name, getattr(value, f.name)) for f in fields(value)]
    elif isinstance(value, list | tuple):
        parts = enumerate(value)
    else:
        yield name, value
        return
    for key, part in parts:
        yield from leaves(part, f"{name}.{key}")


def assert_same(expected: Mapping[str, Any], found: Mapping[str, Any], tolerance: float | None = None) -> None:
    """Floats agree within the tolerance, relative to the largest, by default that of their dtype; all else is equal."""
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        left, right = np.asarray(value), np.asarray(found[name])
        assert (left.dtype, left.shape) == (right.dtype, right.shape), name
        if left.dtype.kind == "f":
            largest = np.abs(left[np.isfinite(left)]).max(initial=0)
            allowed = tolerance or TOLERANCE[torch.float32 if left.dtype == np.float32 else torch.float64]
            np.testing.assert_allclose(right, left, rtol=0, atol=allowed * largest, err_msg=name)
        else:
            np.testing.assert_array_equal(right, left, err_msg=name)


def check(program: Program) -> PretendCuda:
    """Check that a program gives the same result on both devices, and leaves its tensors there; return the device."""
    expected = dict(leaves(program("cpu")))
    with PretendCuda() as device:
        found = dict(leaves(program("cuda")))
        strays = [name for name, value in found.items() if isinstance(value, Tensor) and not value.is_cuda]
        found = {name: value.cpu() if isinstance(value, Tensor) else value for name, value in found.items()}
        checks.settle()
    assert not strays and device.launches
    assert_same(expected, found)
    return device


def test_the_comparison_can_fail() -> None:
    for wrong in (lambda x: x + 1e-9, lambda x: x.float(), lambda x: x[1:], lambda x: x > 2):
        with pytest.raises(AssertionError):
            check(lambda device, wrong=wrong: wrong(a) if (a := torch.ones(3, device=device).double()).is_cuda else a)
    with pytest.raises(AssertionError):
        check(lambda device: torch.ones(3))  # on the host


# ---------------------------------------------------------------- oracles and methods
def classes(package: Any, *names: str) -> set[type]:
    """Return the classes of a package with these methods, without protocols."""
    modules = [importlib.import_module(f"{package.__name__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]
    members = {value for module in modules for value in vars(module).values() if inspect.isclass(value)}
    ours = {value for value in members if value.__module__.startswith(package.__name__)}
    return {c for c in ours if all(hasattr(c, n) for n in names) and not getattr(c, "_is_protocol", False)}


def normal(name: str, *shape: int) -> Tensor:
    return Streams.of(name, ["a"]).normal("x", 0, math.prod(shape)).view(shape)


def network(device: str, dtype: torch.dtype = torch.float64) -> TwoLayerNetwork:
    inputs = normal("inputs", NUM_EXAMPLES, 4).to(device, dtype)
    return TwoLayerNetwork(3 * inputs, (inputs[:, 0] > 0).long(), num_hidden=6)


def population() -> VirtualData:
    return VirtualData(Separable([(Cosine(1.0), 4)]), Separable([(Sine(0.5), 4)]))


def rows(value: float, device: str) -> Tensor:
    return torch.full((RUNS,), value, dtype=torch.float64, device=device)


def minibatch(device: str, sampling: Sampling, relation: Relation, clipped: bool) -> MinibatchGradient:
    return MinibatchGradient(network(device), sampling, rows(0.3, device), 0.5, 5, relation, clipped)


def spider(
    device: str, samples: Any, mechanism: Any, first: float = 4, least: float = 1, budget: float = 1.0,
    term: float = 0.5,
) -> Spider:  # fmt: skip
    refresh = Refresh.path_length(1.0, 2.0, 8)
    return Spider(
        samples, mechanism, rows(3.0, device), rows(budget, device), refresh, BatchSizes(first, least), 2.0, 2.0, term
    )


FIXED, POISSON = Sampling.fixed_size(4, NUM_EXAMPLES), Sampling.poisson(0.4)
SCHEDULES = [uniform(0.2, 5), exponential(0.9, 0.2, 5), uniform(0.2, 3)]
ORACLES: dict[str, Callable[[str], Any]] = {
    "clipped": lambda on: ClippedGradient(network(on), 0.5, FixedNoise.of(SCHEDULES, on)),
    **{
        f"{name}, {'clipped' if clipped else 'not clipped'}": functools.partial(
            minibatch, sampling=sampling, relation=relation, clipped=clipped
        )
        for name, sampling, relation in (
            ("whole", WHOLE, Relation.REPLACE_ONE),
            ("fixed size", FIXED, Relation.REPLACE_ONE),
            ("Poisson", POISSON, Relation.ZERO_OUT),
        )
        for clipped in (True, False)
    },
    "fresh": lambda on: FreshGradient(population(), 10**6, rows(0.1, on), 5.0, 5),
    **{
        f"Spider, {type(mechanism).__name__}, {name}": functools.partial(made, mechanism=mechanism)
        for mechanism in (Gaussian(), Tree(8))
        for name, made in {
            "virtual": lambda on, mechanism: spider(on, VirtualSamples(population(), 10**9), mechanism, 1000, 50),
            "data set": lambda on, mechanism: spider(on, DataSetSamples(network(on), 3), mechanism),
        }.items()
    },
}


def clients(device: str, samples_of: Callable[[int], Any]) -> Clients:
    """Return three clients in two blocks."""

    def oracle_of(members: range) -> Spider:
        every = torch.ones(RUNS * len(members), dtype=torch.float64, device=device)
        refresh, batches = Refresh.squared_moves(0.02), BatchSizes(4, 1)
        return Spider(samples_of(len(every)), Gaussian(), 3 * every, every, refresh, batches, 2.0, 2.0)

    return Clients.of(oracle_of, Blocks(3, 2), RUNS)


ORACLES["clients, virtual"] = lambda on: clients(on, lambda _: VirtualSamples(population(), 10**9))
ORACLES["clients, data set"] = lambda on: clients(
    on,
    lambda rows: ClientSamples(network(on), (torch.arange(6), torch.arange(6, 12)), torch.arange(rows, device=on) % 2),
)
ORACLES["Spider, little budget, virtual"] = functools.partial(
    spider,
    samples=VirtualSamples(population(), 10**9),
    mechanism=Tree(8),
    first=1000,
    least=50,
    budget=0.06,
    term=0.008,
)
METHODS: dict[str, Any] = {
    "descent": Descent(0.5, 0.5),
    "stochastic Spider": StochasticSpider(40, 0.5, 0.3, 5, 0.05),
    "drift escape": DriftEscape(0.5, 0.3, 5, 0.5, 3),
    "online to nonconvex": OnlineToNonconvex(4, 0.1, 0.05, 2),
}


def start(dim: int, device: str) -> tuple[Tensor, Streams]:
    names = [f"run {run}" for run in range(RUNS)]
    return 0.5 * Streams.of("start", names).normal("x", 0, dim).to(device), Streams.of(1, names, device)


@pytest.mark.slow
@pytest.mark.parametrize("name", ORACLES)
def test_oracles(name: str) -> None:
    def program(device: str) -> Any:
        oracle = ORACLES[name](device)
        x, streams = start(4 if "fresh" in name or "virtual" in name else network(device).dim, device)
        ledger, method = Ledger(), Descent(0.05, 0.5)
        state = drive(method, oracle, method.init(x, oracle), streams, 7, ledger)
        return state, ledger, oracle.declared()

    check(program)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str) -> None:
    def program(device: str) -> Any:
        method, oracle = METHODS[name], ORACLES["Spider, Gaussian, virtual"](device)
        x, streams = start(4, device)
        state = drive(method, oracle, method.init(0.1 * x, oracle), streams, 15)
        return state, method.output(state)

    check(program)


BAD = [(0.0, 1.0), (-1.0, 1.0), (math.nan, 1.0), (math.inf, 1.0), (1.0, -1.0), (1.0, math.nan), (1.0, math.inf)]


@pytest.mark.parametrize("mechanism", [Gaussian(), Laplace(), DiscreteGaussian(), Tree(8), BandedSquareRoot(8, 2)])
@pytest.mark.parametrize(("noise_std", "sensitivity"), BAD)
@pytest.mark.slow
def test_a_bad_request_has_no_answer_before_it_is_refused(
    mechanism: Mechanism, noise_std: float, sensitivity: float
) -> None:
    def asked(noise_std: float, sensitivity: float) -> Tensor:
        """Release the answer 10^6 in two runs, the second with these values."""
        std, bound = (torch.tensor([1.0, x], dtype=torch.float64, device="cuda") for x in (noise_std, sensitivity))
        value = torch.full((2, 1), 1e6, dtype=torch.float64, device="cuda")
        answer = Sensitive(value, bound, Relation.ZERO_OUT, "proved")
        every = torch.ones(2, dtype=torch.bool, device="cuda")
        request = Request(answer, std, torch.zeros(2, dtype=torch.int64, device="cuda"), every, every)
        streams = Streams.of(0, ["good", "bad"], "cuda")
        return mechanism.release(mechanism.init(torch.zeros_like(value)), request, streams)[1].cpu()

    with PretendCuda():
        released = asked(noise_std, sensitivity)
        assert abs(released[0] - 1e6) < 100 and released[1] == 0
        with pytest.raises(ValueError, match="in run 1"):
            checks.settle()
        assert abs(asked(1.0, 1.0)[1] - 1e6) < 100  # the control
        checks.settle()


class Dear(Gaussian):
    """A mechanism whose first run releases with a quarter of the noise of its stated cost."""

    noise = "gaussian"

    def release(self, state: Any, request: Request, streams: Streams) -> Any:
        less = torch.ones_like(request.noise_std)
        less[0] = 0.25
        return super().release(state, replace(request, noise_std=request.noise_std * less), streams)


def test_a_release_that_costs_more_than_was_said_has_no_answer_before_it_is_refused() -> None:
    def asked(mechanism: Mechanism) -> list[float]:
        """Return the norm of each run's answer."""
        oracle = replace(ORACLES["clipped"]("cuda"), mechanism=mechanism)
        x, streams = start(oracle.problem.dim, "cuda")
        every = torch.ones(len(x), dtype=torch.bool, device="cuda")
        estimate = oracle.estimate(oracle.init(x), x, streams, every)[1]
        return estimate.gradient.norm(dim=1).cpu().tolist()

    with PretendCuda():
        first, *others = asked(Dear())
        assert first == 0 < min(others)
        with pytest.raises(ValueError, match="to be at most the cost that its mechanism said before"):
            checks.settle()
        assert min(asked(Gaussian())) > 0  # the control
        checks.settle()


def test_a_budget_that_ends_some_runs_is_among_them() -> None:
    oracle, (x, streams), method = ORACLES["Spider, little budget, virtual"]("cpu"), start(4, "cpu"), Descent(0.05, 0.5)
    state = drive(method, oracle, method.init(x, oracle), streams, 7)
    assert sorted(state.status.tolist()) == [Status.OK, Status.OK, Status.BUDGET_EXHAUSTED]


def test_every_oracle_and_method_is_here() -> None:
    assert {type(made("cpu")) for made in ORACLES.values()} == classes(oracles, "estimate", "declared")
    assert {type(method) for method in METHODS.values()} == classes(methods, "step", "output") | {
        DriftEscape,
        OnlineToNonconvex,
    }


# ---------------------------------------------------------------- front doors
def toy(name: str, shape: tuple[int, ...], num_classes: int, train: int = 60, test: int = 20) -> Dataset:
    """Return inputs in [0, 1] with learnable labels."""
    count = train + test
    inputs = Streams.of(name, [0]).uniform("inputs", 0, count * math.prod(shape)).view(count, *shape)
    inputs = inputs.to(torch.get_default_dtype())
    labels = torch.arange(count) % num_classes
    inputs = (inputs + labels.view(-1, *[1] * len(shape)) / num_classes) / 2
    return Dataset(name, inputs[:train], labels[:train], inputs[train:], labels[train:], num_classes, "none", "here")


def clipped_steps(device: str) -> Any:
    problem = network(device)
    x, streams = start(problem.dim, device)
    noise = [NoiseChoice(0.1, 1.0, 1e-6, "by hand")] * RUNS
    return clipped_noisy_sgd(
        problem, noise, x, streams, sampling=POISSON, relation=Relation.ZERO_OUT, norm_bound=5.0, step_size=0.1,
        num_steps=4, delta=1e-6,
    )  # fmt: skip


SIZES: dict[str, Any] = {"gradient_bound": 4.0, "smoothness": 4.0, "hessian_lipschitz": 1.0}


def adapts(device: str) -> Any:
    choice = practical(0.1, 4, 1.0, 1e-6, **SIZES, initial_gap=8.0)
    x, streams = start(4, device)
    return stochastic_spider(VirtualSamples(population(), 10**9), choice, x, streams, delta=1e-6, max_steps=30)


def escapes(device: str) -> Any:
    escape = practical_escape(0.2, smoothness=4.0, hessian_lipschitz=1.0, risk_range=8.0, step_size=0.25)
    choice = practical_oracle(escape, 4, 1.0, 1e-6, gradient_bound=4.0)
    x, streams = start(4, device)
    return drift_escape(VirtualSamples(population(), 10**12), choice, x, streams, delta=1e-6, max_steps=40)


def converts(device: str) -> Any:
    sizes: dict[str, Any] = {"radius": 0.5, "lipschitz": 1.0, "initial_gap": 2.0, "largest_move": 0.1}
    examples = torch.linspace(0, 1, 400, device=device).double().view(200, 2)
    problem = CustomProblem(lambda x, a: (x - a).norm(), 2, examples)
    x, streams = start(2, device)
    return online_to_nonconvex(problem, plain(200, 2, 8.0, 1e-6, **sizes), x.double(), streams, delta=1e-6, max_steps=6)


def clients_escape(device: str) -> Any:
    sizes: dict[str, Any] = {"smoothness": 4.0, "hessian_lipschitz": 1.0, "risk_range": 8.0, "step_size": 0.25}
    choice = clients_practical(practical_escape(0.2, **sizes), 4, 1.0, 1e-6, 3, gradient_bound=4.0)
    x, streams = start(4, device)
    return distributed_drift_escape(
        lambda _: VirtualSamples(population(), 10**12), choice, 0.1 * x, streams, blocks=Blocks(3, 2), delta=1e-6,
        max_steps=20,
    )  # fmt: skip


def clients_descend(device: str) -> Any:
    problem = network(device)
    x, streams = start(problem.dim, device)
    return distributed_noisy_sgd(
        lambda _: problem, x, streams, blocks=Blocks(3, 1), epsilon=4.0, delta=1e-6, norm_bound=0.5, step_size=0.5,
        num_steps=4,
    )  # fmt: skip


# The doors that no experiment of `test_device_experiments` calls on a device.
DOORS: dict[Callable[..., Any], Program] = {
    distributed_drift_escape: clients_escape,
    distributed_noisy_sgd: clients_descend,
    online_to_nonconvex: converts,
    clipped_noisy_sgd: clipped_steps,
    stochastic_spider: adapts,
    drift_escape: escapes,
}


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_front_doors(door: Callable[..., Any]) -> None:
    check(DOORS[door])
