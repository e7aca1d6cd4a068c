"""States: selection by run, checkpoints as flat dicts of tensors."""

from dataclasses import dataclass

import pytest
import torch

from dpnotes.states import flatten, map_state, restore, select


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
