"""States: selection by run, checkpoints as flat dicts of tensors, and rows that mechanisms and oracles keep."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

import dpnotes.oracles
import dpnotes.privacy
from dpnotes.core import FRESH, WHOLE, Relation, Request, Sampling, Sensitive, Status
from dpnotes.methods.descent import Descent
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.clients import Clients
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.oracles.samples import VirtualSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.privacy.noise import FixedNoise, LossAdaptiveNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.privacy.tree import Tree
from dpnotes.problems.custom import CustomProblem
from dpnotes.problems.separable import Cosine, Separable, Sine
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams
from dpnotes.util.states import flatten, map_state, restore, select


@dataclass(frozen=True)
class Inner:
    a: torch.Tensor


@dataclass(frozen=True)
class Outer:
    inner: Inner
    b: torch.Tensor


def outer(value: float) -> Outer:
    return Outer(Inner(torch.full((2, 3), value)), torch.full((2,), value))


def test_select_chooses_run_by_run_in_every_tensor():
    chosen = select(torch.tensor([True, False]), outer(1.0), outer(0.0))
    assert chosen.b.tolist() == [1.0, 0.0]
    assert chosen.inner.a.sum(1).tolist() == [3.0, 0.0]


def test_a_checkpoint_survives_torch_save_and_restores_the_same_bits(tmp_path):
    state = outer(0.1)
    torch.save(flatten(state), tmp_path / "checkpoint.pt")
    back = restore(outer(0.0), torch.load(tmp_path / "checkpoint.pt", weights_only=True))
    assert torch.equal(back.inner.a, state.inner.a) and torch.equal(back.b, state.b)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"b": torch.zeros(2)}, "Expected a checkpoint with"),
        ({"b": torch.zeros(3), "inner.a": torch.zeros(2, 3)}, "Expected b of shape"),
        ({"b": torch.zeros(2).double(), "inner.a": torch.zeros(2, 3)}, "Expected b of shape"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(tensors, message):
    with pytest.raises(ValueError, match=message):
        restore(outer(0.0), tensors)


def test_what_is_not_a_state_is_refused():
    with pytest.raises(TypeError, match="got list"):
        map_state(torch.clone, [1])  # type: ignore[type-var]


# ---------------------------------------------------------------- rows that were not asked for stay as they are
RUNS, DIM = 3, 4
SOME = torch.tensor([True, False, True])


def classes_with(package: Any, *methods: str) -> dict[str, type]:
    """Return the classes of a package that have these methods, by name."""
    found = {}
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        for name, value in vars(importlib.import_module(info.name)).items():
            ours = (
                isinstance(value, type) and value.__module__ == info.name and not getattr(value, "_is_protocol", False)
            )
            if ours and all(hasattr(value, m) for m in methods):
                found[name] = value
    return found


def changed(new: Any, old: Any) -> set[int]:
    """Return the runs whose rows differ."""
    before = flatten(old)
    return {
        run
        for name, tensor in flatten(new).items()
        for run in range(RUNS)
        if tensor.numel() and not torch.equal(tensor[run], before[name][run])
    }


MECHANISMS = classes_with(dpnotes.privacy, "init", "cost", "release")
OPTIONS: dict[str, tuple[dict[str, Any], ...]] = {
    "Tree": ({"max_leaves": 8}, {"max_leaves": 8, "optimal": True}),
    "BandedSquareRoot": ({"max_leaves": 8, "bandwidth": 3},),
}
EVERY_MECHANISM = [(name, options) for name in MECHANISMS for options in OPTIONS.get(name, ({},))]


@dataclass
class Everybody:
    """A mechanism wrapper that treats every run as active."""

    mechanism: Any

    def release(self, state: Any, request: Request, streams: Streams) -> tuple:
        return self.mechanism.release(state, replace(request, active=torch.ones(RUNS, dtype=torch.bool)), streams)


def released(mechanism: Any, state: Any, calls: Tensor, active: Tensor, restart: Tensor | None = None) -> Any:
    ones = torch.ones(RUNS, dtype=torch.float64)
    value = torch.zeros(RUNS, 1, dtype=torch.float64)
    answer = Sensitive(value, ones, Relation.REPLACE_ONE, "proved", FRESH)
    return mechanism.release(state, Request(answer, ones, calls, active, restart), Streams.of(0, range(RUNS)))[0]


@pytest.mark.parametrize(("name", "options"), EVERY_MECHANISM, ids=lambda value: str(value))
def test_a_mechanism_keeps_the_state_of_the_runs_it_does_not_answer(name: str, options: dict[str, Any]):
    if name == "DiscreteGaussian":
        pytest.importorskip("opendp")
    mechanism = MECHANISMS[name](**options)
    state, calls, everybody = mechanism.init(torch.zeros(RUNS, 1)), torch.zeros(RUNS).long(), SOME | True
    remembers = any(tensor.numel() for tensor in flatten(state).values())
    for step in range(6):
        active = SOME if step % 2 else everybody
        restart = torch.tensor([step == 4] * RUNS) if remembers else None
        new = released(mechanism, state, calls, active, restart)
        assert changed(new, state) == ({run for run in range(RUNS) if active[run]} if remembers else set())
        nobody = released(mechanism, state, calls, ~everybody, restart)
        assert changed(nobody, state) == set()
        wrong = released(Everybody(mechanism), state, calls, SOME, restart)
        assert (1 in changed(wrong, state)) is remembers, "the control: what forgets the mask is seen"
        state, calls = new, calls + active.long()


def quadratics() -> CustomProblem:
    examples = torch.linspace(-1, 1, 10 * DIM, dtype=torch.float64).view(10, DIM)
    return CustomProblem(lambda parameters, example: 0.5 * ((parameters - example) ** 2).sum(), DIM, examples)


def clipped(**options: Any) -> ClippedGradient:
    return ClippedGradient(quadratics(), 1.0, FixedNoise.of([uniform(0.5, steps) for steps in (6, 6, 3)]), **options)


def adaptive() -> ClippedGradient:
    ones = torch.ones(RUNS, dtype=torch.float64)
    return ClippedGradient(quadratics(), 1.0, LossAdaptiveNoise(0.5 * ones, 0.05 * ones, 1.3, 6 * ones))


class Sphere:
    """Examples drawn for the batch, around the origin."""

    def fresh(self, batch_size: int, streams: Streams, purpose: str, call: Any) -> Any:
        noise = streams.normal(purpose, call, DIM) / batch_size**0.5
        return type("Batch", (), {"gradient": staticmethod(lambda x: x + noise)})


def batches(name: str, *first: Any) -> Any:
    return ORACLES[name](*first, torch.full((RUNS,), 0.5, dtype=torch.float64), norm_bound=9.0, num_steps=6)


def spider(mechanism: Any, **options: Any) -> Spider:
    data = VirtualData(Separable([(Cosine(1.0), DIM)]), Separable([(Sine(0.5), DIM)]))
    budget = torch.full((RUNS,), 50.0, dtype=torch.float64)
    return Spider(
        VirtualSamples(data, 150), mechanism, 1.0, budget, Refresh.every(4), BatchSizes(100, 10), 10.0, 9.0, **options
    )


ORACLES = classes_with(dpnotes.oracles, "init", "estimate", "declared", "take")


def two_clients() -> Clients:
    noise_std = torch.full((2 * RUNS,), 0.5, dtype=torch.float64)
    return Clients((MinibatchGradient(quadratics(), WHOLE, noise_std, 9.0, 6),), Blocks(2, 2), RUNS)


MAKERS: dict[str, tuple[Callable[[], Any], ...]] = {
    "Clients": (two_clients,),
    "ClippedGradient": (clipped, adaptive, lambda: clipped(mechanism=Tree(64))),
    "MinibatchGradient": (
        lambda: batches("MinibatchGradient", quadratics(), WHOLE),
        lambda: batches("MinibatchGradient", quadratics(), Sampling.fixed_size(4, 10)),
    ),
    "FreshGradient": (lambda: batches("FreshGradient", Sphere(), 100),),
    "Spider": (lambda: spider(Gaussian()), lambda: spider(Tree(8), term_sensitivity=0.2)),
}


@dataclass
class ForAll:
    """An oracle wrapper that treats every run as active."""

    oracle: Any

    def estimate(self, state: Any, x: Tensor, streams: Streams, active: Tensor) -> tuple:
        return self.oracle.estimate(state, x, streams, active | True)


@pytest.mark.parametrize("name", ORACLES)
def test_an_oracle_keeps_the_state_of_the_runs_it_does_not_answer(name: str):
    for make in MAKERS[name]:
        oracle, x, streams = make(), torch.ones(RUNS, DIM, dtype=torch.float64), Streams.of(0, range(RUNS))
        state = oracle.init(x)
        for step in range(8):
            active = SOME if step % 2 else SOME | True
            new, estimate = oracle.estimate(state, x, streams, active)
            answered = active & (estimate.status == Status.OK)
            assert changed(new, state) == {run for run in range(RUNS) if answered[run]}
            if step == 1:
                wrong, _ = ForAll(oracle).estimate(restore(state, flatten(state)), x, streams, active)
                assert 1 in changed(wrong, state), "the control: what forgets the mask is seen"
            state = new
        assert step == 7 and not bool(answered.all()), "the last steps are refused"


def test_a_step_of_descent_copies_nothing_of_what_the_oracle_remembers():
    oracle, x = clipped(mechanism=Tree(2**20)), torch.ones(RUNS, DIM, dtype=torch.float64)
    method, streams = Descent(0.1, momentum=0.5), Streams.of(0, range(RUNS))
    before, _ = method.step(method.init(x, oracle), oracle, streams)
    after, _ = method.step(before, oracle, streams)
    places = {tensor.data_ptr() for tensor in flatten(before.oracle).values() if tensor.numel()}
    nodes = [name for name in flatten(after.oracle) if ".layers." in name]
    shared = [name for name in nodes if flatten(after.oracle)[name].data_ptr() in places]
    assert len(nodes) > 20 and len(shared) >= len(nodes) - 2
    copied = select(SOME, after.oracle, before.oracle)  # the control
    assert not any(t.data_ptr() in places for name, t in flatten(copied).items() if name in nodes and t.numel())
