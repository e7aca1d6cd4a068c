"""What the laws ask oracles with: data, their neighbours, and plays that record each request to a mechanism.

To see the requests of an oracle to its mechanisms, the answer is set aside, so that the mechanisms release their noise
alone. The transcript is then the same for all data, and everything that still depends on the data has leaked.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from dpnotes.core import Estimate, Price, Relation, Request
from dpnotes.random.streams import Streams

DIM, N, STEPS = 3, 20, 5
G, M = 1.25, 2.0  # norm of a gradient, and its change per length of a move, in tame data; powers of 1 are alike
LOSS = 1.0
DTYPES = {torch.float64: 1e-9, torch.float32: 1e-4}  # relative rounding error allowed in a sensitivity
ALONG = torch.tensor([[2.0, 1.0, 2.0]], dtype=torch.float64) / 3  # of length 1 in the Euclidean norm only
MECHANISMS: set[type] = set()  # whose requests are recorded: laws.py names them
Factory = Callable[..., Any]


# ---------------------------------------------------------------- data, and their neighbours
@cache
def keys(seed: str, runs: int) -> Tensor:
    """Return the keys of streams for `runs` runs, remembered because hashing thousands of names takes long."""
    return Streams.of(seed, range(runs)).keys


@dataclass(frozen=True, eq=False)
class Gradients:
    """Gradients `(runs, examples, dim)` and losses, given explicitly."""

    rows: Tensor
    losses: Tensor

    def norms(self) -> Tensor:
        return torch.linalg.vector_norm(self.rows, dim=2)

    def weighted_sum(self, weights: Tensor) -> Tensor:
        return (weights[..., None] * self.rows.masked_fill((weights == 0)[..., None], 0)).sum(1)

    def minus(self, other: "Gradients") -> "Gradients":
        return Gradients(self.rows - other.rows, self.losses - other.losses)


@dataclass(frozen=True, eq=False)
class Bowls:
    """Examples `offset + slope . x + curvature |x|^2 / 2`: rows of one data set `(1, examples, 5)` or one per run."""

    rows: Tensor
    constants: dict[str, Any] = field(default_factory=dict)
    dim: int = DIM
    keeps_examples_apart: bool = True

    @property
    def num_examples(self) -> int:
        return self.rows.shape[1]

    def take(self, index: Tensor) -> "Bowls":
        return self if len(self.rows) == 1 else Bowls(self.rows[index])

    def gradients(self, x: Tensor, examples: Tensor | None = None) -> Gradients:
        slope, curvature, _ = self.parts(len(x), examples)
        return Gradients(slope + curvature * x[:, None], self.losses(x[:, None], examples)[..., 0])

    def parts(self, runs: int, examples: Tensor | None) -> tuple[Tensor, ...]:
        rows = self.rows.expand(runs, -1, -1)
        if examples is not None:
            rows = rows.gather(1, examples[..., None].expand(-1, -1, rows.shape[2]))
        return rows.split([DIM, 1, 1], 2)

    def losses(self, x: Tensor, examples: Tensor | None = None) -> Tensor:
        slope, curvature, offset = self.parts(len(x), examples)
        return offset + slope @ x.mT + curvature * x.square().sum(2)[:, None] / 2


@dataclass(frozen=True, eq=False)
class Pointwise:
    """A problem without `losses` whose data all runs share; it computes gradients one point after the other."""

    problem: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.problem, name)

    def take(self, index: Tensor) -> "Pointwise":
        return self

    def losses(self, x: Tensor, examples: Tensor) -> Tensor:
        each = examples.repeat_interleave(x.shape[1], 0)
        return self.problem.gradients(x.flatten(0, 1), each).losses.view(*x.shape[:2], -1).mT


@dataclass(frozen=True, eq=False)
class Listed:
    """A distribution that returns a problem's examples, up to four per call and each once; and a batch of them."""

    problem: Any
    examples: Any = None
    present: Any = None

    def take(self, index: Tensor) -> "Listed":
        return Listed(self.problem.take(index))

    def fresh(self, batch_size: Any, streams: Streams, purpose: str, call: Tensor) -> "Listed":
        places, size = torch.arange(4), torch.as_tensor(batch_size).expand(call.shape)
        return Listed(self.problem, (4 * call[:, None] + places).clamp_max(N - 1), places < size[:, None])

    def gradient(self, x: Tensor) -> Tensor:
        weights = (self.present / self.present.sum(1, keepdim=True)).to(x.dtype)
        return self.problem.gradients(x, self.examples).weighted_sum(weights)


def data_sets(tame: bool) -> Tensor:
    """Return data sets `(data sets, N, 5)`; tame ones keep within the bounds along `path`, and reach them."""
    draws = Streams.of("laws: data", [0])
    slopes = draws.normal("slopes", 0, N * DIM).view(N, DIM)
    slopes = 0.95 * G * slopes / torch.linalg.vector_norm(slopes, dim=1, keepdim=True)
    curvatures = M * draws.normal("curvatures", 0, N).view(N, 1).sign()
    offsets = torch.full((N, 1), 2 * LOSS).double()
    mixed = torch.cat([slopes, curvatures, offsets], 1)
    if tame:  # equal examples whose change over a move points along the gradient or against it
        along = 0.95 * G * ALONG.expand(N, -1)
        alike = [torch.cat([along, sign * M * torch.ones_like(offsets), offsets], 1) for sign in (1, -1)]
        return torch.stack([mixed, *alike])
    some = torch.arange(N)[:, None] % 7
    return torch.stack([30 * mixed, torch.where(some == 0, 1e30, torch.where(some == 3, 0.0, 1e3)) * mixed])


def neighbours(relation: Relation, tame: bool) -> tuple[Tensor, Tensor]:
    """Return pairs of neighbouring data sets by brute force, `(pairs, N, 5)`: every example, every replacement."""
    one, two = [], []
    for rows in data_sets(tame):
        for place in range(N):
            if relation == Relation.ADD_OR_REMOVE:  # the last, which keeps the others' coins
                one.append(rows.roll(-1 - place, 0))
                two.append(one[-1][:-1])
                continue
            example, following = rows[place], rows[(place + 1) % N]
            others = [torch.zeros_like(example)]
            if relation == Relation.REPLACE_ONE:
                others += [-example, following]
                if not tame:
                    others += [-1e3 * example, 1e30 * example, -1e300 * example.clamp(-1, 1)]
            for other in others:
                one.append(rows)
                two.append(rows.index_copy(0, torch.tensor([place]), other[None]))
    return torch.stack(one), torch.stack(two)


def path(step: int, runs: int | Tensor, dtype: torch.dtype) -> Tensor:
    """Return points `(runs, DIM)` along one line, forth, back and on the spot, at distances that differ by run."""
    share = 1 - 0.1 * ((torch.arange(runs) if isinstance(runs, int) else runs)[:, None] % 4)
    return (0.049 * G / M * (0.0, 1.0, 1.0, -1.0, -0.5, 0.5)[step % 6] * share * ALONG).to(dtype)


# ---------------------------------------------------------------- what was released
Heard = tuple[Request, Tensor, Price]


@dataclass
class Play:
    """An oracle's requests, states and estimates along `path`, one list per step."""

    requests: list[list[Heard]] = field(default_factory=list)
    states: list[Any] = field(default_factory=list)
    estimates: list[Estimate] = field(default_factory=list)

    @property
    def released(self) -> list[Heard]:
        return [request for step in self.requests for request in step]

    @property
    def results(self) -> list[Any]:
        return self.states + self.estimates


@contextmanager
def overheard(
    log: list[Heard], mechanisms: set[type], aside: bool = True, script: list[Heard] | None = None
) -> Iterator[None]:
    """Record the requests to mechanisms while this context lasts; with `aside` they release their noise alone.

    A `script` has the requests of a step that was played before. With `aside` its first release is then the noise that
    it had, and the releases beside it return the values that they had; else all answers are replaced by those it had.
    Either way what follows from released values is the same again.
    """

    def wrapped(original: Any) -> Any:
        def release(self: Any, state: Any, request: Request, streams: Streams) -> tuple[Any, Tensor, Price]:
            exact, place = request.answer.value, len(log)
            answer = replace(request.answer, value=torch.zeros_like(exact) if aside else exact)
            if script is not None:
                assert place < len(script), "Expected as many releases in a step as before, got more."
                before = script[place][0]
                if aside:
                    answer = replace(answer, l2_sensitivity=before.answer.l2_sensitivity)
                    request = replace(request, noise_std=before.noise_std)
                else:
                    answer = replace(answer, value=before.answer.value)
            state, value, price = original(self, state, replace(request, answer=answer), streams)
            log.append((request, value.clone(), price))
            return state, script[place][1].clone() if script and place and aside else value, price

        return release

    with pytest.MonkeyPatch.context() as patch:
        for mechanism in mechanisms:
            patch.setattr(mechanism, "release", wrapped(mechanism.release))
        yield


def play(
    oracle: Any, streams: Streams, dtype: Any, steps: int = STEPS + 2, active: Any = True, aside: Any = True,
    runs: Any = None, transcript: Play | None = None,
) -> Play:  # fmt: skip
    """Run an oracle along `path`, with answers set aside or not, for two steps more than the examples last.

    With the `transcript` of an earlier play its noise is drawn again, and releases beside the gradient are the same;
    with answers not set aside all releases are the same.
    """
    runs, seen = len(streams) if runs is None else runs, Play()
    state = oracle.init(path(0, runs, dtype))
    active = torch.ones(len(streams), dtype=torch.bool) & active
    own = {type(oracle.mechanism)} if hasattr(oracle, "mechanism") else set()
    for step in range(steps):
        log: list[Heard] = []
        with overheard(log, MECHANISMS | own, aside, transcript.requests[step] if transcript else None):
            state, estimate = oracle.estimate(state, path(step, runs, dtype), streams, active)
        seen.requests.append(log)
        seen.states.append(state)
        seen.estimates.append(estimate)
    return seen


@cache
def on_neighbours(make: Factory, aside: bool = True) -> list[tuple[Play, Play, float, torch.dtype]]:
    """Run an oracle on pairs of neighbours, one run per pair: on tame data and, for enforced bounds, on wild data.

    Without `aside` the answers on the first data set are released for both: an oracle may follow large values alone.
    """
    probe = play(make(Bowls(data_sets(True)[:1]), 1), Streams.of(0, [0]), torch.float64, 1).released
    assert probe, "Expected an estimate to come from a mechanism, which was asked for nothing."
    answer, pairs = probe[0][0].answer, []
    for dtype, tolerance in DTYPES.items():
        for tame in (True, False) if answer.basis == "enforced" else (True,):
            both = [rows.to(dtype) for rows in neighbours(answer.relation, tame)]
            streams = Streams(keys("laws", len(both[0])))
            first, second = (make(Bowls(rows), len(rows)) for rows in both)
            one = play(first, streams, dtype, aside=aside)
            two = play(second, streams, dtype, aside=aside, transcript=None if aside else one)
            pairs.append((one, two, tolerance, dtype))
    return pairs


def asked_alike(one: Play, two: Play) -> Iterator[tuple[Request, Request]]:
    """Yield the requests to the mechanisms on two data sets; they may differ in the answers only."""
    numbers = len(one.released), len(two.released)
    assert numbers[0] == numbers[1], f"Expected as many releases on all data, got {numbers[0]} and {numbers[1]}."
    for (left, _, _), (right, _, _) in zip(one.released, two.released, strict=True):
        for name in ("noise_std", "call", "active"):
            assert torch.equal(getattr(left, name), getattr(right, name)), f"Expected a public {name}."
        assert torch.equal(left.answer.l2_sensitivity, right.answer.l2_sensitivity), "Expected a public sensitivity."
        yield left, right


def moves(one: Play, two: Play) -> Iterator[tuple[Tensor, Request]]:
    """Yield the distance by which a neighbour moves each answer, `(runs,)`; 0 for inactive runs."""
    for left, right in asked_alike(one, two):
        moved = torch.linalg.vector_norm((left.answer.value - right.answer.value).double(), dim=1)
        yield moved.where(left.active, torch.zeros_like(moved)), left
