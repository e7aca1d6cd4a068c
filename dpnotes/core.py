"""The nouns every part speaks. Read this file first.

A *problem* says what is minimised. An *oracle* answers "what is the gradient here?", and every answer about the data
leaves it through a *mechanism*, as a `Sensitive` value goes in and a noisy one comes out with its `Price`. A
*method* moves the point. Parameters are flat `(runs, dim)` tensors: a batch of runs is one program, control flow is
a mask over runs. Prices add up in a `Ledger`, from which a `Guarantee` is computed (`dpnotes.privacy.accounting`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import IntEnum, StrEnum
from typing import Any, Literal, Protocol, TypeVar

import torch
from torch import Tensor

from dpnotes.streams import Streams

Basis = Literal["proved", "enforced", "checked", "measured", "assumed"]
State = TypeVar("State")


class Relation(StrEnum):
    """When two data sets are neighbours. Sampling, sensitivity and accountant must speak of the same one."""

    REPLACE_ONE = "replace-one"  # one example is exchanged for any other
    ADD_OR_REMOVE = "add-or-remove-one"  # one example more or less; normalisers are public constants
    ZERO_OUT = "zero-out-one"  # one example's contribution becomes zero, the number of examples is public


class Status(IntEnum):
    """What became of a run; anything but OK ends it. A value in the result, never an exception."""

    OK = 0
    FINISHED = 1  # its schedule has no further step
    BUDGET_EXHAUSTED = 2  # the next release would overspend, and was refused before it was drawn
    DIVERGED = 3  # the iterate is no longer finite


@dataclass(frozen=True)
class Constant:
    """A number a theorem needs (Lipschitz, smoothness, ...), with what it rests on and where that is shown."""

    value: float
    basis: Basis
    where: str


# ---------------------------------------------------------------- what is minimised
class ExampleGradients(Protocol):
    """The gradients of all examples at one point a run, kept factored: none need ever be written out."""

    losses: Tensor  # (runs, examples)

    def norms(self) -> Tensor:
        """Euclidean norms of the examples' gradients, `(runs, examples)`."""
        ...

    def weighted_sum(self, weights: Tensor) -> Tensor:
        """`sum_i weights[:, i] * gradient_i`, shape `(runs, dim)`, for weights `(runs, examples)`."""
        ...


class Problem(Protocol):
    """A finite sum `f(x) = mean_i f_i(x)`; the only thing that an oracle knows of `dpnotes.problems`."""

    @property
    def dim(self) -> int: ...
    @property
    def num_examples(self) -> int: ...
    @property
    def constants(self) -> dict[str, Constant]: ...

    def gradients(self, x: Tensor) -> ExampleGradients:
        """Losses and gradients by example at the points `x`, `(runs, dim)`."""
        ...


# ---------------------------------------------------------------- what leaves, and what it costs
@dataclass(frozen=True, repr=False, eq=False)
class Sensitive:
    """An exact answer about the data. It has no arithmetic, hides its value, and only a mechanism opens it.

    Args:
      value: `(runs, dim)`.
      l2_sensitivity: `(runs,)`, public: how far a neighbouring data set may move each row. 0 is legal.
      relation: the neighbours it holds for.
      basis: whether the sensitivity is proved, enforced (clipping) or assumed.
    """

    value: Tensor
    l2_sensitivity: Tensor
    relation: Relation
    basis: Basis

    def __repr__(self) -> str:
        return f"Sensitive(<hidden>, runs={len(self.value)}, relation={self.relation}, basis={self.basis})"

    def __reduce__(self) -> Any:
        raise TypeError("Expected a released value: a Sensitive is not to be stored; release it through a mechanism.")


@dataclass(frozen=True)
class Price:
    """What one release cost, per run.

    Args:
      noise_multiplier: `(runs,)`, noise standard deviation over sensitivity; 0 stands for no noise at all.
      charged: `(runs,)` bool, the runs for which something was released.
      relation: the neighbours it is counted for.
      data: "all" examples, or "fresh" ones that no other release touches (prices then combine in parallel).
    """

    noise_multiplier: Tensor
    charged: Tensor
    relation: Relation
    data: Literal["all", "fresh"] = "all"

    def rho(self) -> Tensor:
        """zCDP cost of a Gaussian release, `(runs,)` float64 (Bun and Steinke 2016, arXiv:1605.02065v1, Proposition 1.6)."""
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
        total = torch.zeros_like(self.prices[0].noise_multiplier, dtype=torch.float64)
        fresh = total
        for price in self.prices:
            if price.data == "fresh":
                fresh = torch.maximum(fresh, price.rho())
            else:
                total = total + price.rho()
        return total + fresh

    def event(self, run: int) -> Any:
        """One run's releases as a `dp_accounting.DpEvent`, equal levels merged."""
        import dp_accounting

        counts: dict[float, int] = {}
        fresh = math.inf
        for price in self.prices:
            if bool(price.charged[run]):
                level = float(price.noise_multiplier[run])
                if price.data == "fresh":
                    fresh = min(fresh, level)
                else:
                    counts[level] = counts.get(level, 0) + 1
        builder = dp_accounting.DpEventBuilder()
        for level, count in counts.items():
            builder.compose(dp_accounting.GaussianDpEvent(level), count)
        if math.isfinite(fresh):
            builder.compose(dp_accounting.GaussianDpEvent(fresh))
        return builder.build()


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
        broken = [a.statement for a in self.assumptions if a.holds is False]
        if broken:
            return f"no guarantee: {'; '.join(broken)}"
        return f"({self.epsilon:.4g}, {self.delta:g})-DP, {self.relation}, by {self.accountant}"


class Mechanism(Protocol):
    """The only door through which an answer about the data leaves."""

    def init(self, runs: int, dim: int, like: Tensor) -> Any: ...

    def release(
        self, state: Any, answer: Sensitive, noise_std: Tensor, call: Tensor, restart: Tensor, active: Tensor, streams: Streams
    ) -> tuple[Any, Tensor, Price]:
        """Release one increment with noise of standard deviation `noise_std`, `(runs,)`, for the runs in `active`."""
        ...


# ---------------------------------------------------------------- who asks, who moves
@dataclass(frozen=True)
class Estimate:
    """A gradient estimate `(runs, dim)`, its price, its cost in example gradients `(runs,)`, a `Status` `(runs,)`."""

    gradient: Tensor
    price: Price
    cost: Tensor
    status: Tensor


class Oracle(Protocol):
    """Where a gradient estimate comes from. Its state has a `belief` (may be restored) and a `meter` (never goes back)."""

    def init(self, x: Tensor) -> Any: ...
    def estimate(self, state: Any, x: Tensor, streams: Streams, active: Tensor) -> tuple[Any, Estimate]: ...
    def declared(self) -> Tensor:
        """The zCDP cost that no run exceeds, `(runs,)`, known before the first step."""
        ...


class Method(Protocol):
    """How the iterate moves: owns the point and holds the oracle's state, so that a notebook can drive the loop."""

    def init(self, x: Tensor, oracle: Oracle) -> Any: ...
    def step(self, state: Any, oracle: Oracle, streams: Streams) -> tuple[Any, Estimate]: ...
    def output(self, state: Any) -> Tensor: ...


# ---------------------------------------------------------------- states: dataclasses of tensors with a leading runs axis
def map_state(function: Callable[..., Tensor], *states: State) -> State:
    """Apply `function` to corresponding tensors of states of one type."""
    first = states[0]
    if isinstance(first, Tensor):
        return function(*states)
    if not is_dataclass(first) or isinstance(first, type):
        raise TypeError(f"Expected a state of dataclasses and tensors, got {type(first).__name__}.")
    return replace(first, **{f.name: map_state(function, *(getattr(s, f.name) for s in states)) for f in fields(first)})


def select(mask: Tensor, new: State, old: State) -> State:
    """Per run: `new` where `mask` `(runs,)` is true, else `old`."""
    return map_state(lambda a, b: torch.where(mask.view(-1, *[1] * (a.dim() - 1)), a, b), new, old)
