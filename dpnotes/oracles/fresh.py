"""The noised mean gradient of a batch that is drawn from a distribution, of any size."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from torch import Tensor

from dpnotes import checks, validate
from dpnotes.core import FRESH, Estimate, Mechanism, Relation, Sampling
from dpnotes.guarantees import Assumption, Basis, Guarantee
from dpnotes.oracles.terms import BatchGradientState, Terms
from dpnotes.privacy.accounting import Method
from dpnotes.privacy.events import Event
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.streams import Streams

PURPOSE = "fresh batch: examples"


class FreshBatch(Protocol):
    """A batch that was drawn, one a run."""

    def gradient(self, x: Tensor) -> Tensor:
        """The mean gradient over the batch at the points `x`, `(runs, dim)`."""
        ...


class FreshData(Protocol):
    """A source of examples without end."""

    def fresh(self, batch_size: int, streams: Streams, purpose: str, call: int | Tensor) -> FreshBatch:
        """A batch of new examples; its mean gradient is what counts, and needs no example written out."""
        ...


@dataclass(frozen=True)
class FreshGradient:
    """The gradient of Algorithm 2 of Avdiukhin et al. (2024), arXiv:2410.06878, on examples drawn for the batch.

    `MinibatchGradient` for a distribution in place of a data set, where the minibatch's noise is known and batches may
    be larger than any memory.

    Formal guarantees:
      Under `FRESH` sampling an example is in one batch, so a run costs what one release costs. Declared as
      `Sampling.fixed_size(batch_size, n)`, the run is accounted as if batches were drawn from n examples: an account of
      what the noise would be worth there, not of what was done here. No gradient of an example exists, so `norm_bound`
      rests on `bound_basis` alone, and only a mean longer than it is noticed.

    Args:
      data: where examples come from.
      batch_size: at least 1.
      noise_std: `(runs,)` float64, at least 0: of each coordinate of the noise on the mean.
      norm_bound: the longest gradient of an example, above 0.
      num_steps: at least 1; a run that asks for more gets the status FINISHED.
      sampling: `FRESH`, or `Sampling.fixed_size(batch_size, n)`.
      bound_basis: what the bound rests on: proved, measured or assumed.
      mechanism: `Gaussian`, or `Exact` for a run that guarantees nothing.

    Neighbours exchange an example (replace-one): the size of every batch is public.

    Raises:
      ValueError: for another sampling, or a number outside its domain.

    Example:
      >>> import torch
      >>> class Sphere:
      ...     def fresh(self, batch_size, streams, purpose, call):
      ...         self.noise = streams.normal(purpose, call, 2) / batch_size**0.5
      ...         return self
      ...     def gradient(self, x):
      ...         return x + self.noise
      >>> std = torch.full((1,), 0.1, dtype=torch.float64)
      >>> oracle = FreshGradient(Sphere(), 10**14, std, norm_bound=5.0, num_steps=3)
      >>> x, active = torch.ones(1, 2, dtype=torch.float64), torch.tensor([True])
      >>> state, estimate = oracle.estimate(oracle.init(x), x, Streams.of(0, ["demo"]), active)
      >>> f"{float(oracle.declared()):.3g}"
      '5e-25'
    """

    data: FreshData
    batch_size: int
    noise_std: Tensor
    norm_bound: float
    num_steps: int
    sampling: Sampling = FRESH
    bound_basis: Basis = "assumed"
    mechanism: Mechanism = Gaussian()

    def __post_init__(self) -> None:
        validate.provides("fresh", data=self.data)
        validate.instance(Sampling, sampling=self.sampling)
        validate.at_least(1, batch_size=self.batch_size)
        validate.one_of(("fresh", "fixed-size"), sampling=self.sampling.scheme)
        validate.one_of(("proved", "measured", "assumed"), bound_basis=self.bound_basis)
        if getattr(self.mechanism, "purpose", None) == PURPOSE:
            raise ValueError(f"Expected mechanism={self.mechanism!r} to have another purpose: batches draw from it.")
        if self.sampling.scheme == "fixed-size" and self.sampling.batch_size != self.batch_size:
            raise ValueError(f"Expected batch_size={self.batch_size} to be the sampling's {self.sampling.batch_size}.")
        _ = self.terms

    @cached_property
    def terms(self) -> Terms:
        """The terms of the releases: sensitivity, events, what may be claimed."""
        return Terms(
            self.noise_std,
            self.num_steps,
            self.norm_bound,
            self.bound_basis,
            self.batch_size,
            self.sampling,
            Relation.REPLACE_ONE,
            self.mechanism,
        )

    def init(self, x: Tensor) -> BatchGradientState:
        """The state before the first release, for points `x` `(runs, dim)`."""
        return self.terms.init(x)

    def estimate(
        self, state: BatchGradientState, x: Tensor, streams: Streams, active: Tensor
    ) -> tuple[BatchGradientState, Estimate]:
        """One noisy gradient at `x` for the runs in `active` that have a step left; as `MinibatchGradient.estimate`."""
        terms, calls = self.terms, state.meter.calls
        granted, status, spent = terms.grant(state, active)
        if checks.known_empty(granted):
            return state, terms.refuse(x, granted, status)
        streams = streams.only(granted)
        mean = self.data.fresh(self.batch_size, streams, PURPOSE, calls).gradient(x)
        found = terms.too_long(mean, self.batch_size).long()
        new, gradient, price = terms.release(state, mean, granted, spent, (found, found), streams)
        return new, Estimate(gradient, price, granted * self.batch_size, status)

    def declared(self) -> Tensor:
        """The zCDP that no run exceeds, `(runs,)`, without what sampling gains."""
        return self.terms.declared()

    def events(self, run: int) -> list[Event]:
        """All releases of a run, for `privacy.accounting.account`; fresh ones count as one."""
        return [self.terms.event(run)]

    def guarantee(
        self,
        state: BatchGradientState,
        delta: float,
        streams: Streams,
        *,
        not_covered: tuple[str, ...] = (),
        method: Method | None = None,
    ) -> tuple[Guarantee, ...]:
        """What each run may claim, resting on what it saw; see `Terms.guarantee`."""
        claims = self.terms.guarantee(state, delta, streams, not_covered=not_covered, method=method)
        if self.sampling == FRESH:
            return claims
        said = f"batches were drawn from {self.sampling.num_examples} examples (they came from the distribution)"
        return tuple(replace(c, assumptions=(*c.assumptions, Assumption(said, "assumed"))) for c in claims)

    def take(self, index: Tensor) -> "FreshGradient":
        """The oracle of some of the runs; they share their source."""
        return replace(self, noise_std=self.noise_std[index])
