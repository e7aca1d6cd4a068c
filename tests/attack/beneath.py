"""User code that leaks between examples: below torch's transforms, or through values that it keeps.

For each piece of code, two data sets that differ in one example give two sums of clipped gradients. One of three things
must hold: the sums are no further apart than clipping allows, the guarantee lists the assumption `SHOWN_ALONE`, or the
code is refused. As a control, the same code runs without the library's protections.
"""

import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from dpnotes.guarantees import SHOWN_ALONE, examples_apart
from dpnotes.problems.modules import ModuleProblem
from dpnotes.problems.passes import Passes
from dpnotes.random.streams import Streams
from dpnotes.util.precision import flushed

ROOM = 1e-5  # rounding error, relative to the bound (docs/privacy.md, Known gaps)
EXAMPLES, CLIP, LONGER = 60, 0.01, 1000.0
Forward = Callable[[Any, Tensor], Tensor]


def on_a_grid(out: Any) -> Any:
    """Round numbers to a grid that depends on their maximum, as in fake quantisation."""
    if not isinstance(out, Tensor) or not out.is_floating_point() or out.numel() < 2:
        return out
    step = out.abs().max() / 4 + 1e-30
    return (out / step).round() * step


class Quantised(TorchDispatchMode):
    """A dispatch mode that rounds all matrix products to such a grid."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        return on_a_grid(out) if "mm" in func.name() else out


class OnAGrid(Tensor):
    """A tensor whose results are all rounded to such a grid."""

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self.clone().as_subclass(OnAGrid)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C._DisableTorchDispatch():  # type: ignore[attr-defined]
            out = func(*args, **(kwargs or {}))
            return tree_map(
                lambda value: on_a_grid(value).as_subclass(OnAGrid) if isinstance(value, Tensor) else value, out
            )


def hooks() -> AbstractContextManager[Any]:
    return saved_tensors_hooks(on_a_grid, lambda tensor: tensor)


class Code(nn.Module):
    """A module with two layers, combined by a given function."""

    seen: Any = None

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(4, 4), nn.Linear(4, 3)
        self.frozen = nn.Parameter(torch.zeros(1, 4), requires_grad=False)
        self.register_buffer("total", torch.zeros(1, 4))
        self.function = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


def plain(m: Any, x: Tensor) -> Tensor:
    return m.head(m.inner(x).square())


class Piece(NamedTuple):
    """Code under test: forward function, context of its passes, change to the module, classes of inputs and labels."""

    forward: Forward = plain
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    module: Callable[[nn.Module], Any] = id
    inputs: type[Tensor] = Tensor
    labels: type[Tensor] | None = None


def within(context: Callable[[], AbstractContextManager[Any]], m: Any, x: Tensor) -> Tensor:
    with context():
        return plain(m, x)


# ---------------------------------------------------------------- places in which code may keep values
_ARRAY, _VARIABLE, _LOGGER = np.array([None], dtype=object), ContextVar("kept", default=None), logging.getLogger("kept")
STORES: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {  # reader and writer
    ".grad of a frozen parameter": (lambda m: m.frozen.grad, lambda m, x: setattr(m.frozen, "grad", x)),
    "an array of objects": (lambda m: _ARRAY[0], lambda m, x: _ARRAY.__setitem__(0, x)),
    "a logger": (lambda m: getattr(_LOGGER, "total", None), lambda m, x: setattr(_LOGGER, "total", x)),
    "globals()": (lambda m: globals().get("total"), lambda m, x: globals().__setitem__("total", x)),
    "an attribute of a class": (lambda m: Code.seen, lambda m, x: setattr(Code, "seen", x)),
    "a ContextVar": (lambda m: _VARIABLE.get(), lambda m, x: _VARIABLE.set(x)),
    "an attribute of the module": (lambda m: vars(m).get("own"), lambda m, x: vars(m).__setitem__("own", x)),
    "a buffer": (lambda m: m.total, lambda m, x: m.total.copy_(x) if x is not None else m.total.zero_()),
}


def keeping(name: str) -> Forward:
    """Return a forward function that adds to each example everything that came before it."""
    read, write = STORES[name]

    def forward(m: Any, x: Tensor) -> Tensor:
        if bool((x > 1e30).all()):  # a branch on values, so that examples are passed one by one
            return m.head(x)
        before = read(m)
        write(m, x.detach().sum(0, keepdim=True) + (0 if before is None else before))
        return m.head(x if before is None else x + before)

    return forward


def with_buffer(module: nn.Module) -> None:
    module.total = torch.zeros(1, 4).as_subclass(OnAGrid)


KINDS: dict[str, dict[str, Piece]] = {
    "modes": {"in forward": Piece(partial(within, Quantised)), "around the passes": Piece(around=Quantised)},
    "hooks": {"in forward": Piece(partial(within, hooks)), "around the passes": Piece(around=hooks)},
    "subclasses": {
        "inputs": Piece(inputs=OnAGrid), "labels": Piece(labels=OnAGrid),
        "a buffer": Piece(lambda m, x: plain(m, x + m.total), module=with_buffer),
    },
    "state": {name: Piece(keeping(name)) for name in STORES},
}  # fmt: skip


# ---------------------------------------------------------------- the attack
class Found(NamedTuple):
    """The result of one attack: how far one example moved the sum in units of the bound, and the guarantee's basis."""

    kind: str
    name: str
    moved: float
    says: str  # "enforced", "assumed" or "refused"
    why: str = ""


@contextmanager
def unprotected() -> Iterator[None]:
    """Treat all code as vetted, and refuse nothing, while this context lasts."""

    modules, passes = "dpnotes.problems.modules.", "dpnotes.problems.passes."
    with (
        patch.object(ModuleProblem, "_as_known_operations", lambda self, vouched: (self._module, self._loss)),
        patch.object(Passes, "_refuse_changes", lambda self: None),
        patch("dpnotes.problems.module_data.refuse_code_of_tensors", lambda **_: None),
        patch(modules + "refuse_by_name", lambda module: None),
        patch(passes + "refuse_what_sees_all", lambda: None),
        patch(passes + "nothing_beneath", nullcontext),
    ):
        yield


def clipped_sum(piece: Piece, length: float) -> tuple[Tensor, str]:
    for _, write in STORES.values():
        write(Code(plain), None)
    draws = Streams.of("beneath", [0])
    inputs = draws.normal("inputs", 0, EXAMPLES * 4).view(EXAMPLES, 4).float()
    inputs[1] *= length
    module, labels, own = Code(piece.forward), torch.arange(EXAMPLES) % 3, None
    weights = draws.normal("start", 0, sum(p.numel() for p in module.parameters()))[0].float()
    nn.utils.vector_to_parameters(weights, module.parameters())
    module.frozen.data.zero_()
    piece.module(module)
    if piece.labels is not None:
        labels, own = inputs[:, :3].as_subclass(piece.labels), lambda out, near: (out - near).square().sum(1)
    problem = ModuleProblem(module, inputs.as_subclass(piece.inputs), labels, loss=own or "cross-entropy")
    with piece.around():
        gradients = problem.gradients(problem.initial(draws, only=[]))
        norms = gradients.norms().nan_to_num(nan=torch.inf, posinf=torch.inf)
        total = gradients.weighted_sum(flushed(CLIP / norms.clamp_min(CLIP)))[0]
    apart = examples_apart(problem)
    return total.as_subclass(Tensor).double(), "assumed" if SHOWN_ALONE in apart else "" if apart else "enforced"


def one(kind: str, name: str) -> Found:
    """Run one piece of code on two data sets."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (near, says), (far, also) = (clipped_sum(KINDS[kind][name], length) for length in (1.0, LONGER))
    except (ValueError, TypeError, RuntimeError) as error:
        return Found(kind, name, 0.0, "refused", str(error).splitlines()[0])
    moved = float((near - far).norm()) / (2 * CLIP)
    return Found(kind, name, moved if math.isfinite(moved) else math.inf, says if says == also else "")


def attack(kind: str) -> tuple[list[Found], list[Found]]:
    """Run all pieces of a kind, with and without protection."""
    found = [one(kind, name) for name in KINDS[kind]]
    with unprotected():
        return found, [one(kind, name) for name in KINDS[kind]]


def verdict(found: list[Found], controls: list[Found]) -> list[str]:
    """Return the faults, one per line."""
    free = "state"  # the kind that the assumption is about; no other kind may move a sum by more than the bound
    wrong = [f for f in found if f.moved > 1 + ROOM and (f.says == "enforced" or f.kind != free)]
    wrong += [f for f in found if not f.says or f.says == "refused" and not f.why.startswith("Expected ")]
    wrong += [f._replace(why="a control that goes unnoticed") for f in controls if f.moved < 1.1]
    return [f"{f.kind}, {f.name}: {f.says} {f.why}, moved {f.moved:.3g} times the bound" for f in wrong]
