"""Worst-case neighbours for audits: data sets with one canary, observers of what is released, and half of the noise.

Only one example, the canary, has a gradient; in the neighbour the canary is absent or its gradient is reversed.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from dpnotes.core import Constant
from dpnotes.oracles.samples import WrittenOut
from dpnotes.privacy import accounting, discrete
from dpnotes.random.streams import Streams


# ---------------------------------------------------------------- the data
@dataclass(frozen=True, eq=False)
class Signal:
    """A data set in which only one example, the canary, has a gradient: `side` times `field(x)`.

    The canary is example 0. With `turn`, it is in every run the first example of the batch with that number: examples
    that are used once come in a public order, which gives the number of the batch.
    """

    side: float
    num_examples: int
    field: Callable[[Tensor], Tensor]
    turn: int | None = None
    asked: Any = None  # with `turn`, `(all runs,)` each: number of batches requested so far, and the canary
    canary: Any = None
    rows: Any = None  # indices of these runs among all runs
    dim = 2
    keeps_examples_apart = True

    @property
    def constants(self) -> dict[str, Constant]:
        return {}

    @staticmethod
    def in_turn(side: float, num_examples: int, turn: int, runs: int) -> "Signal":
        none = torch.zeros(runs, dtype=torch.int64)
        return Signal(side, num_examples, steep, turn, none, none - 1, torch.arange(runs))

    def take(self, index: Any) -> "Signal":
        return self if self.turn is None else replace(self, rows=self.rows[index])

    def gradients(self, x: Tensor, examples: Tensor | None = None) -> Any:
        if examples is None:
            examples = torch.arange(self.num_examples).expand(len(x), -1)
        return SignalGradients(self, self.field(x), examples)


@dataclass(frozen=True, eq=False)
class SignalGradients:
    """The gradients of a `Signal`; `each`, `(runs, dim)`, is the canary's gradient."""

    problem: Signal
    each: Tensor
    examples: Tensor

    @property
    def losses(self) -> Tensor:
        return torch.zeros(self.examples.shape, dtype=self.each.dtype)

    def minus(self, other: "SignalGradients") -> "SignalGradients":
        return replace(self, each=self.each - other.each)

    def norms(self) -> Tensor:
        problem, rows = self.problem, self.problem.rows
        if problem.turn is not None:
            due = problem.asked[rows] == problem.turn
            problem.canary[rows] = torch.where(due, self.examples[:, 0], problem.canary[rows])
            problem.asked[rows] += 1
        return self._hit() * self.each.norm(dim=1, keepdim=True)

    def weighted_sum(self, weights: Tensor) -> Tensor:
        return self.problem.side * (weights * self._hit()).sum(1, keepdim=True) * self.each

    def _hit(self) -> Tensor:
        problem = self.problem
        return self.examples == (0 if problem.turn is None else problem.canary[problem.rows][:, None])


def far(x: Tensor) -> Tensor:
    """Return a gradient longer than every bound in this file, in a direction that depends on the path."""
    return 5 * (x - x.new_tensor([3.0, 4.0]))


def just(x: Tensor) -> Tensor:
    """Return a gradient in the direction of `far` just within a bound of 1, for algorithms that do not clip."""
    return (1 - 1e-9) * unit(far(x))


def steep(x: Tensor) -> Tensor:
    """Return a gradient that changes faster than every smoothness constant in this file."""
    return 40 * x


@dataclass(frozen=True, eq=False)
class Bowl:
    """A 1-D data set in which only each run's canary `(runs,)` has a loss: a parabola steeper than any bound."""

    side: float
    num_examples: int
    canary: Tensor
    dim = 1
    keeps_examples_apart = True
    steepness = 1e6

    def take(self, index: Tensor) -> "Bowl":
        return replace(self, canary=self.canary[index])

    def losses(self, x: Tensor, examples: Tensor) -> Tensor:
        return self._weight(examples)[..., None] * x[:, None, :, 0] ** 2 / 2

    def gradients(self, x: Tensor, examples: Tensor) -> Any:
        return WrittenOut(self._weight(examples)[..., None] * x[:, None])

    def _weight(self, examples: Tensor) -> Tensor:
        return self.side * self.steepness * (examples == self.canary[:, None])


def unit(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors, dim=-1)


class Transcript:
    """Observer of `drive` that records the releases along the canary's gradient, `(steps, runs)`."""

    def __init__(self, x: Tensor, steps: int, field: Callable[[Tensor], Tensor]) -> None:
        self.x, self.field, self.step = x.clone(), field, 0
        self.along = torch.zeros(steps, len(x), dtype=torch.float64)

    def __call__(self, going: Tensor, state: Any, estimate: Any) -> None:
        if self.step < len(self.along):
            self.along[self.step, going] = (estimate.gradient * unit(self.field(self.x[going]))).sum(1).double()
        self.x[going] = state.x
        self.step += 1


class Turn:
    """Observer of SPIDER's release with the canary, along the canary's gradient and in units of its norm."""

    def __init__(self, problem: Signal, x: Tensor, first: tuple[float, float], later: tuple[float, float]) -> None:
        self.problem, self.first, self.later = problem, first, later  # (bound, batch): fresh gradient, difference
        self.x, self.point, self.gradient = x.clone(), x.clone(), torch.zeros_like(x)
        self.asked, self.refreshes = torch.zeros(2, len(x), dtype=torch.int64)
        self.found = torch.full((len(x),), -torch.inf, dtype=torch.float64)

    def __call__(self, going: Tensor, state: Any, estimate: Any) -> None:
        x, refreshes, asked = self.x[going], state.oracle.meter.refreshes, self.problem.asked[going]
        answered, new = asked > self.asked[going], refreshes > self.refreshes[going]
        value = estimate.gradient - torch.where(new[:, None], 0.0, self.gradient[going])
        move = torch.where(new[:, None], steep(x), steep(x) - steep(self.point[going]))
        longest = torch.where(new, self.first[0], self.later[0] * (x - self.point[going]).norm(dim=1))
        along = (value * unit(move)).sum(1) / longest * torch.where(new, self.first[1], self.later[1])
        due = answered & (asked == (self.problem.turn or 0) + 1)
        self.found[going] = torch.where(due, along.double(), self.found[going])
        self.point[going] = torch.where(answered[:, None], x, self.point[going])
        self.gradient[going] = torch.where(answered[:, None], estimate.gradient, self.gradient[going])
        self.x[going], self.refreshes[going], self.asked[going] = state.x, refreshes, asked


def origin(streams: Streams, value: float = 0.0) -> Tensor:
    return torch.full((len(streams), 2), value, dtype=torch.float64)


# ---------------------------------------------------------------- half of the noise
@contextmanager
def half_the_noise(share: float = 0.5) -> Iterator[None]:
    """Multiply every normal number that streams draw by `share` while this context lasts."""
    draw = Streams.normal

    def drawn(self: Streams, *arguments: Any, **options: Any) -> Tensor:
        return draw(self, *arguments, **options).mul_(share)

    with mock.patch.object(Streams, "normal", drawn):
        yield


@contextmanager
def half_the_discrete_noise() -> Iterator[None]:
    made = discrete._measurement
    with mock.patch.object(discrete, "_measurement", lambda scale: made(scale / 2)):
        yield


@contextmanager
def each_claim_once() -> Iterator[None]:
    """Remember accounted guarantees while this context lasts: all of a door's thousands of runs have the same one."""
    with ExitStack() as stack:
        for name in ("account", "assumptions_of"):
            real, known, seen = getattr(accounting, name), {}, []

            def remembered(
                first: Any, *rest: Any, real: Any = real, known: Any = known, seen: Any = seen, **options: Any
            ) -> Any:
                of = tuple(first) if isinstance(first, Sequence) else first
                key = (id(of) if isinstance(of, Streams) else of, rest, tuple(sorted(options.items())))
                if key not in known:
                    known[key] = real(of, *rest, **options)
                    seen.append(of)  # keeps the streams alive, so that no other streams get the same id
                return known[key]

            for module in [m for at, m in sys.modules.items() if at.startswith("dpnotes.")]:
                if vars(module).get(name) is real:
                    stack.enter_context(mock.patch.object(module, name, remembered))
        yield


# A Laplace number is computed from products of two normal numbers.
half_the_laplace_noise = partial(half_the_noise, 0.5**0.5)
