"""The nouns every part speaks. Read this file first.

A *problem* says what is minimised. An *oracle* answers "what is the gradient here?"; every answer about the data leaves
it through a *mechanism*, into which a `Sensitive` value goes and from which a noisy one comes out, with its `Price`. A
*method* moves the point. Parameters are flat `(runs, dim)` tensors: a batch of runs is one program, control flow is a
mask over runs. Prices add up in a `Ledger`; a `Guarantee` is computed from it (`dpnotes.privacy.accounting`).
"""
# ruff: noqa: D102 (what a protocol's methods do stands in the docstring of its class)

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from dpnotes.streams import Streams

Basis = Literal["proved", "enforced", "checked", "measured", "assumed"]


class Relation(StrEnum):
    """When two data sets are neighbours. Sampling, sensitivity and accountant must speak of the same one."""

    REPLACE_ONE = "replace-one"  # one example is exchanged for any other
    ADD_OR_REMOVE = "add-or-remove-one"  # one example more or less; normalisers are public constants
    ZERO_OUT = "zero-out-one"  # one example's contribution becomes zero; the number of examples is public


class Status(IntEnum):
    """What became of a run; anything but OK ends it. A value in the result, never an exception."""

    OK = 0
    FINISHED = 1  # its schedule has no further step
    BUDGET_EXHAUSTED = 2  # the next release would overspend, and was refused before it was drawn
    DIVERGED = 3  # the next iterate would not be finite


@dataclass(frozen=True)
class Constant:
    """A number that a theorem needs (a Lipschitz constant, ...), what it rests on, and where that is shown."""

    value: float
    basis: Basis
    where: str


class ExampleGradients(Protocol):
    """The gradients of all examples at one point a run, kept factored: none need ever be written out.

    Losses, norms and weights are `(runs, examples)`, a weighted sum is `(runs, dim)`. Weight 0 times anything is 0.
    """

    @property
    def losses(self) -> Tensor: ...
    def norms(self) -> Tensor: ...
    def weighted_sum(self, weights: Tensor) -> Tensor: ...


class Problem(Protocol):
    """A finite sum `f(x) = mean_i f_i(x)`; the only thing that an oracle knows of `dpnotes.problems`.

    Points `x` are `(runs, dim)`; `take` gives the problem of some of the runs (itself, if all share their data).
    """

    @property
    def dim(self) -> int: ...
    @property
    def num_examples(self) -> int: ...
    @property
    def constants(self) -> dict[str, Constant]: ...
    def gradients(self, x: Tensor) -> ExampleGradients: ...
    def take(self, index: Tensor) -> "Problem": ...


@dataclass(frozen=True, repr=False, eq=False)
class Sensitive:
    """An exact answer about the data. It has no arithmetic, hides its value, and only a mechanism opens it."""

    value: Tensor  # (runs, dim)
    l2_sensitivity: Tensor  # (runs,), public: how far a neighbour may move each row; 0 is legal
    relation: Relation
    basis: Basis  # of the sensitivity: proved, enforced (clipping) or assumed

    def __repr__(self) -> str:
        return f"Sensitive(<hidden>, runs={len(self.value)}, relation={self.relation}, basis={self.basis})"

    def __reduce__(self) -> Any:
        raise TypeError("Expected a released value: a Sensitive cannot be stored; release it through a mechanism.")


@dataclass(frozen=True)
class Price:
    """What one Gaussian release cost each run."""

    noise_multiplier: Tensor  # (runs,), noise standard deviation over sensitivity; 0 means that no noise was added
    charged: Tensor  # (runs,) bool: the runs for which something was released
    relation: Relation
    data: Literal["all", "fresh"] = "all"  # "fresh": examples that no other release touches

    def rho(self) -> Tensor:
        """Cost in zCDP, `(runs,)` float64 (Bun and Steinke 2016, arXiv:1605.02065v1, Proposition 1.6)."""
        return torch.where(self.charged, 0.5 / self.noise_multiplier.double() ** 2, 0.0)


@dataclass
class Ledger:
    """All prices of a batch of runs: fresh data compose in parallel (a maximum), the rest one after another."""

    prices: list[Price] = field(default_factory=list)

    def add(self, price: Price) -> None:
        """Append one release; all prices of a ledger speak of one neighbouring relation."""
        if self.prices and price.relation != self.prices[0].relation:
            raise ValueError(f"Expected relation={price.relation} to be the ledger's {self.prices[0].relation}.")
        self.prices.append(price)

    def rho(self) -> Tensor:
        """Total zCDP cost, `(runs,)` float64."""
        if not self.prices:
            raise ValueError("Expected at least one price in the ledger.")
        total = fresh = torch.zeros_like(self.prices[0].noise_multiplier, dtype=torch.float64)
        for price in self.prices:
            if price.data == "fresh":
                fresh = torch.maximum(fresh, price.rho())
            else:
                total = total + price.rho()
        return total + fresh


@dataclass(frozen=True)
class Assumption:
    """What a guarantee rests on; `holds` is None where nothing in the run could check it."""

    statement: str
    basis: Basis
    holds: bool | None = None


@dataclass(frozen=True)
class Guarantee:
    """What may be claimed, for which neighbours, computed by whom, resting on what."""

    epsilon: float
    delta: float
    relation: Relation
    accountant: str
    assumptions: tuple[Assumption, ...] = ()

    def __str__(self) -> str:
        if broken := [a.statement for a in self.assumptions if a.holds is False]:
            return f"no guarantee, since this did not hold: {'; '.join(broken)}"
        resting = f", assuming that {'; '.join(a.statement for a in self.assumptions)}" if self.assumptions else ""
        return f"({self.epsilon:.4g}, {self.delta:g})-DP, {self.relation}, by {self.accountant}{resting}"


@dataclass(frozen=True)
class Release:
    """What a mechanism is asked for: one answer a run, how much noise, and which of the runs get it."""

    answer: Sensitive
    noise_std: Tensor  # (runs,), of each coordinate
    call: Tensor  # (runs,) int64: the number of the release, never used twice in a run
    active: Tensor  # (runs,) bool: the others get zeros and pay nothing


class Mechanism(Protocol):
    """The only door through which an answer about the data leaves."""

    def init(self, x: Tensor) -> Any: ...
    def cost(self, noise_multiplier: Tensor) -> Tensor: ...  # zCDP of a release, which a filter asks for before it
    def release(self, state: Any, request: Release, streams: Streams) -> tuple[Any, Tensor, Price]: ...


@dataclass(frozen=True)
class Estimate:
    """A gradient estimate with what it cost."""

    gradient: Tensor  # (runs, dim)
    price: Price
    cost: Tensor  # (runs,): gradients of single examples that were computed
    status: Tensor  # (runs,): a Status


class Oracle(Protocol):
    """Where an estimate comes from. Its state has a `belief` (may be restored) and a `meter` (never goes back)."""

    def init(self, x: Tensor) -> Any: ...
    def estimate(self, state: Any, x: Tensor, streams: Streams, active: Tensor) -> tuple[Any, Estimate]: ...
    def declared(self) -> Tensor: ...  # (runs,): the zCDP cost that no run exceeds, known before the first step
    def take(self, index: Tensor) -> "Oracle": ...


class Method(Protocol):
    """How the iterate moves; a notebook can drive the loop. Its state holds the point, a status, the oracle's state."""

    def init(self, x: Tensor, oracle: Oracle) -> Any: ...
    def step(self, state: Any, oracle: Oracle, streams: Streams) -> tuple[Any, Estimate]: ...
    def output(self, state: Any) -> Tensor: ...
