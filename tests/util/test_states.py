"""States: selection by run, checkpoints as flat dicts of tensors, and a step that copies nothing."""

from dataclasses import dataclass

import pytest
import torch

from dpnotes.methods.descent import Descent
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.privacy.tree import Tree
from dpnotes.problems.custom import CustomProblem
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


RUNS, DIM = 3, 4
SOME = torch.tensor([True, False, True])


def quadratics() -> CustomProblem:
    examples = torch.linspace(-1, 1, 10 * DIM, dtype=torch.float64).view(10, DIM)
    return CustomProblem(lambda parameters, example: 0.5 * ((parameters - example) ** 2).sum(), DIM, examples)


def test_a_step_of_descent_copies_nothing_of_what_the_oracle_remembers():
    noise = FixedNoise.of([uniform(0.5, steps) for steps in (6, 6, 3)])
    oracle = ClippedGradient(quadratics(), 1.0, noise, mechanism=Tree(2**20))
    x = torch.ones(RUNS, DIM, dtype=torch.float64)
    method, streams = Descent(0.1, momentum=0.5), Streams.of(0, range(RUNS))
    before, _ = method.step(method.init(x, oracle), oracle, streams)
    after, _ = method.step(before, oracle, streams)
    places = {tensor.data_ptr() for tensor in flatten(before.oracle).values() if tensor.numel()}
    nodes = [name for name in flatten(after.oracle) if ".layers." in name]
    shared = [name for name in nodes if flatten(after.oracle)[name].data_ptr() in places]
    assert len(nodes) > 20 and len(shared) >= len(nodes) - 2
    copied = select(SOME, after.oracle, before.oracle)  # the control
    assert not any(t.data_ptr() in places for name, t in flatten(copied).items() if name in nodes and t.numel())
