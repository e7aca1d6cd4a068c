"""The types and protocols that every part of the package uses. Read this file first.

A *problem* defines the loss. An *oracle* estimates its gradient at a point; every answer about the data leaves the
oracle through a *mechanism*, which takes a `Sensitive` value and returns a noisy value with its `Price`. A *method*
moves the point. Parameters are flat `(runs, dim)` tensors: a batch of runs is one program, control flow is a mask over
runs. Prices add up in a `Ledger`; a `Guarantee` is computed from the ledger (`dpnotes.privacy.accounting`).
"""

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Protocol

import torch
from torch import Tensor

from dpnotes.guarantees import FRESH, WHOLE, Basis, Noise, Relation, Sampling, check_combination
from dpnotes.guarantees import Assumption as Assumption
from dpnotes.guarantees import Guarantee as Guarantee
from dpnotes.random.streams import Streams
from dpnotes.util.validate import Finite, checked


class Status(IntEnum):
    """The status of a run; every status but OK ends the run. It is a value in the result, never an exception."""

    OK = 0
    FINISHED = 1  # its schedule has no further step
    BUDGET_EXHAUSTED = 2  # the next release would exceed the budget; it was refused before noise was drawn
    DIVERGED = 3  # the next iterate would not be finite
    DATA_EXHAUSTED = 4  # the next batch would need more fresh examples than are left


@checked
@dataclass(frozen=True)
class Constant:
    """A number that a theorem needs (a Lipschitz constant, ...), the basis of its value, and where that is shown."""

    value: Finite
    basis: Basis
    where: str


class ExampleGradients(Protocol):
    """The gradients of all examples at one point per run, in factored form: no gradient need be materialised.

    Losses, norms and weights are `(runs, examples)`, a weighted sum is `(runs, dim)`. Weight 0 times anything is 0.
    """

    @property
    def losses(self) -> Tensor: ...
    def norms(self) -> Tensor: ...
    def weighted_sum(self, weights: Tensor) -> Tensor: ...


class Problem(Protocol):
    """A finite sum `f(x) = mean_i f_i(x)`; the only interface of `dpnotes.problems` that an oracle uses.

    Points `x` are `(runs, dim)`; `examples` are indices `(runs, batch)`, None for all examples; `take` returns the
    problem for some of the runs (itself, if all share their data). `keeps_examples_apart` says whether, by
    construction, no example influences another one's gradient: only then does clipping enforce a sensitivity.
    """

    @property
    def dim(self) -> int: ...
    @property
    def num_examples(self) -> int: ...
    @property
    def constants(self) -> dict[str, Constant]: ...
    @property
    def keeps_examples_apart(self) -> bool: ...
    def gradients(self, x: Tensor, examples: Tensor | None = None) -> ExampleGradients: ...
    def take(self, index: Tensor) -> "Problem": ...


@dataclass(frozen=True, repr=False, eq=False)
class Sensitive:
    """An exact answer about the data, without arithmetic, printing or pickling; only a mechanism reads its value.

    This library keeps that rule, Python does not enforce it: `vars`, `dataclasses.asdict` or `.value` show the value.
    """

    value: Tensor  # (runs, dim)
    l2_sensitivity: Tensor  # (runs,), public: how far a neighbour may move each row; 0 is legal
    relation: Relation
    basis: Basis  # of the sensitivity: proved, enforced (clipping) or assumed
    sampling: Sampling = WHOLE  # the examples used; a random batch that is not declared gets no amplification

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", self.value.detach())  # an autograd graph leads to unreleased values

    def __repr__(self) -> str:
        return f"Sensitive(<hidden>, runs={len(self.value)}, relation={self.relation}, basis={self.basis})"

    def __reduce__(self) -> Any:
        raise TypeError("Expected a released value: a Sensitive cannot be stored; release it through a mechanism.")


@dataclass(frozen=True)
class Price:
    """The privacy cost of one release, per run; a combination without an accountant raises a `CombinationError`."""

    noise_multiplier: Tensor  # (runs,), noise scale over sensitivity; 0: no noise was added
    charged: Tensor  # (runs,) bool: the runs for which something was released
    relation: Relation
    sampling: Sampling = WHOLE
    noise: Noise = "gaussian"  # for "pure" the multiplier is 1 / epsilon, for "zcdp" 1 / sqrt(2 rho)

    def __post_init__(self) -> None:
        check_combination(self.sampling, self.relation, self.noise)

    def rho(self) -> Tensor:
        """The zCDP cost, unamplified, `(runs,)` float64 (Bun and Steinke 2016, arXiv:1605.02065v1, Props. 1.4, 1.6)."""
        return torch.where(self.charged, 0.5 * self.noise_multiplier.double() ** -2, 0.0)

    def same(self, other: "Price") -> bool:
        """Return whether both are equal to the bit, for the same runs; False for subclasses, whose costs may differ."""
        kinds = {(type(p), p.relation, p.sampling, p.noise, p.noise_multiplier.dtype) for p in (self, other)}
        equal = torch.equal(self.noise_multiplier, other.noise_multiplier) and torch.equal(self.charged, other.charged)
        return equal and len(kinds) == 1 and type(self) is Price


@dataclass
class Ledger:
    """The prices of a batch of runs: releases on fresh data compose in parallel (maximum), others add up."""

    prices: list[Price] = field(default_factory=list)

    def add(self, price: Price) -> None:
        """Append a copy of one release's price; all prices of a ledger have one neighbouring relation."""
        if self.prices and price.relation != self.prices[0].relation:
            raise ValueError(f"Expected relation={price.relation} to be the ledger's {self.prices[0].relation}.")
        again = self.prices and not price.charged.is_cuda and price.same(self.prices[-1])  # a GPU would make us wait
        own = replace(price, noise_multiplier=price.noise_multiplier.clone(), charged=price.charged.clone())
        self.prices.append(self.prices[-1] if again else own)

    def rho(self) -> Tensor:
        """The total zCDP cost, `(runs,)` float64; random batches need an accountant (`privacy.accounting.account`)."""
        if not self.prices:
            raise ValueError("Expected at least one price in the ledger.")
        total = fresh = torch.zeros_like(self.prices[0].noise_multiplier, dtype=torch.float64)
        for price in self.prices:
            if price.sampling == FRESH:
                fresh = torch.maximum(fresh, price.rho())
            elif price.sampling == WHOLE:
                total = total + price.rho()
            else:
                raise ValueError(f"Expected sampling={price.sampling.scheme} to be whole or fresh: zCDP has no other.")
        return total + fresh


@dataclass(frozen=True)
class Request:
    """A request to a mechanism: one answer per run, the noise, and the runs that get their answer."""

    answer: Sensitive
    noise_std: Tensor  # (runs,), of the noise in each coordinate
    call: Tensor  # (runs,) int64: the number of the release, never used twice in a run
    active: Tensor  # (runs,) bool: the other runs get zeros and pay nothing
    restart: Tensor | None = None  # (runs,) bool: the answer is the first term of a new sum; None: in no run


class Mechanism(Protocol):
    """The only way an answer leaves an oracle. `cost` is a release's zCDP, known beforehand; see `says_gaussian`."""

    def init(self, x: Tensor) -> Any: ...
    def cost(self, state: Any, noise_multiplier: Tensor, sampling: Sampling, restart: Tensor | None) -> Tensor: ...
    def release(self, state: Any, request: Request, streams: Streams) -> tuple[Any, Tensor, Price]: ...


@dataclass(frozen=True)
class Estimate:
    """A gradient estimate and its cost."""

    gradient: Tensor  # (runs, dim)
    price: Price
    num_gradients: Tensor  # (runs,): gradients of single examples that were computed
    status: Tensor  # (runs,): a Status
    num_evaluations: Tensor | None = None  # (runs,): losses of single examples that were computed as well; None: none


class Oracle(Protocol):
    """A source of gradient estimates. Its state has a `memory` (may be restored) and a `meter` (never goes back)."""

    def init(self, x: Tensor) -> Any: ...
    def estimate(self, state: Any, x: Tensor, streams: Streams, active: Tensor) -> tuple[Any, Estimate]: ...
    def declared(self) -> Tensor: ...  # (runs,): the zCDP cost that no run exceeds, known before the first step
    def take(self, index: Tensor) -> "Oracle": ...


class Method(Protocol):
    """A rule that moves the iterate. Its state holds the point, a status per run and the oracle's state."""

    def init(self, x: Tensor, oracle: Oracle) -> Any: ...
    def step(self, state: Any, oracle: Oracle, streams: Streams) -> tuple[Any, Estimate]: ...
    def output(self, state: Any) -> Tensor: ...
