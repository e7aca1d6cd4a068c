"""A privacy filter, which refuses a release that would exceed the budget, before noise is drawn."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from dpnotes.core import FRESH, WHOLE, Sampling
from dpnotes.util.validate import NonNegative, checked

_LARGEST_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Spent:
    """The zCDP that a filter has granted, `(runs,)` float64 each; part of a meter, so it never decreases.

    `reused` is the sum over releases on reused examples; `fresh` is the largest cost of a release on fresh examples.

    Raises:
      ValueError: if the two shapes differ, or an entry is negative or NaN, also when restored. (Not on a device: a
        restored state is checked before it is moved there, and a filter adds no negative cost.)
    """

    reused: Tensor
    fresh: Tensor

    def __post_init__(self) -> None:
        if self.reused.shape != self.fresh.shape:
            raise ValueError(
                f"Expected reused and fresh of one shape, got {tuple(self.reused.shape)} and {tuple(self.fresh.shape)}."
            )
        if self.reused.device.type == "cpu" and not bool((valid := (self.reused >= 0) & (self.fresh >= 0)).all()):
            reused, fresh = (tensor[~valid][0].item() for tensor in (self.reused, self.fresh))
            raise ValueError(f"Expected reused={reused} >= 0 and fresh={fresh} >= 0: nothing is given back.")

    @property
    def total(self) -> Tensor:
        """The largest zCDP that one example may have paid, `(runs,)`."""
        return self.reused + self.fresh


@checked
@dataclass(frozen=True)
class Filter:
    """A zCDP filter for a batch of runs.

    The noise, the batch, the question and the existence of a next step may all depend on earlier releases: as long as
    no release is drawn whose cost would bring the total above the budget, all releases together are `budget`-zCDP
    (Feldman and Zrnic 2021, arXiv:2008.11193, for every Renyi order at once; Whitehouse, Ramdas, Rogers and Wu 2023,
    arXiv:2203.05481, Theorem 1). A random batch is charged without amplification, which is an upper bound.

    Args:
      budget: `(runs,)` float64, at least 0, in zCDP; infinite for runs without a guarantee.
      tolerance: relative, in [0, 1e-6], for schedules whose sum was rounded up beforehand and may round differently in
        another order. 0 where the run chooses its costs.

    Raises:
      ValueError: if a budget is negative or NaN, the tolerance is outside its domain, or a shape differs from the
        budget's: there must be one cost per run.

    Example:
      >>> watch = Filter(torch.tensor([1.0], dtype=torch.float64))
      >>> spent, cost = watch.init(), torch.tensor([0.6], dtype=torch.float64)
      >>> granted, spent = watch.grant(spent, cost, torch.tensor([True]))
      >>> granted, spent.total, watch.grant(spent, cost, granted)[0]
      (tensor([True]), tensor([0.6000], dtype=torch.float64), tensor([False]))
    """

    budget: Tensor
    tolerance: NonNegative = 0.0

    def __post_init__(self) -> None:
        if self.tolerance > _LARGEST_TOLERANCE:
            raise ValueError(f"Expected tolerance={self.tolerance!r} <= {_LARGEST_TOLERANCE}: it is for rounding.")
        if self.budget.dim() != 1:
            raise ValueError(f"Expected a budget of shape (runs,), got {tuple(self.budget.shape)}.")
        if not bool((self.budget >= 0).all()):
            raise ValueError(f"Expected budget={self.budget[~(self.budget >= 0)][0].item()} >= 0.")

    def init(self) -> Spent:
        """The state in which nothing is spent."""
        nothing = torch.zeros_like(self.budget, dtype=torch.float64)
        return Spent(nothing, nothing.clone())

    @cached_property
    def _limit(self) -> Tensor:
        return self.budget * (1 + self.tolerance)

    def grant(self, spent: Spent, cost: Tensor, asked: Tensor, sampling: Sampling = WHOLE) -> tuple[Tensor, Spent]:
        """Grant a release of this zCDP cost to the runs that ask for it and can afford it, and count the cost.

        Args:
          spent: the zCDP granted before.
          cost: `(runs,)`.
          asked: `(runs,)` bool; the other runs are granted nothing and pay nothing.
          sampling: the sampling of the release's examples.

        Returns:
          The runs that were granted the release, `(runs,)` bool, to be drawn after this; and the new spending.
        """
        self._check_shapes(spent=spent.reused, cost=cost, asked=asked)
        reused, fresh = spent.reused, spent.fresh
        if sampling == FRESH:
            fresh = torch.maximum(fresh, cost)
        else:
            reused = reused + cost
        granted = asked & (cost >= 0) & (reused + fresh <= self._limit)
        if sampling == FRESH:
            return granted, Spent(reused, torch.where(granted, fresh, spent.fresh))
        return granted, Spent(torch.where(granted, reused, spent.reused), fresh)

    def _check_shapes(self, **named: Tensor) -> None:
        for name, tensor in named.items():
            if tensor.shape != self.budget.shape:
                raise ValueError(
                    f"Expected {name} of the budget's shape {tuple(self.budget.shape)}, got {tuple(tensor.shape)}."
                )
