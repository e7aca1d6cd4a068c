"""A privacy filter: refuses the release that would overspend, before anything is drawn."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from dpnotes.core import FRESH, WHOLE, Sampling
from dpnotes.util.validate import NonNegative, checked

_LARGEST_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Spent:
    """What a filter has let through, `(runs,)` float64 each in zCDP; part of a meter, so it never goes back.

    `reused` is the sum over releases that touch examples again; `fresh` the largest of the releases on fresh ones.

    Raises:
      ValueError: if the two shapes differ, or an entry is negative or NaN, in a restored one too. (Not on a device:
        what is restored is looked at before it goes there, and a filter adds nothing negative.)
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
        """What one example may have paid, `(runs,)`."""
        return self.reused + self.fresh


@checked
@dataclass(frozen=True)
class Filter:
    """A zCDP filter for a batch of runs.

    The noise, the batch, the question and whether there is a next step may all depend on what was released: as long as
    no release is drawn whose cost would bring the total above the budget, all that was released is `budget`-zCDP
    (Feldman and Zrnic 2021, arXiv:2008.11193, for every Renyi order at once; Whitehouse, Ramdas, Rogers and Wu 2023,
    arXiv:2203.05481, Theorem 1). A random batch is charged as if it were no sample, which is never too little.

    Args:
      budget: `(runs,)` float64, at least 0, in zCDP; infinite for what guarantees nothing.
      tolerance: relative, in [0, 1e-6], for schedules that were summed beforehand on the private side, where only the
        order of the sum may round otherwise. 0 where the run chooses.

    Raises:
      ValueError: if a budget is negative or NaN, the tolerance is outside its domain, or a shape is another one than
        the budget's: one cost is not the cost of many runs.

    Example:
      >>> watch = Filter(torch.tensor([1.0], dtype=torch.float64))
      >>> spent, cost = watch.init(), torch.tensor([0.6], dtype=torch.float64)
      >>> granted, spent = watch.grant(spent, cost, torch.tensor([True]))
      >>> granted, spent.total, watch.affords(spent, cost)
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
        """Nothing spent."""
        nothing = torch.zeros_like(self.budget, dtype=torch.float64)
        return Spent(nothing, nothing.clone())

    @cached_property
    def _limit(self) -> Tensor:
        return self.budget * (1 + self.tolerance)

    def affords(self, spent: Spent, cost: Tensor, sampling: Sampling = WHOLE) -> Tensor:
        """Whether a release of this zCDP cost, `(runs,)`, fits what is left, `(runs,)` bool.

        A cost that is negative or NaN fits nothing, in an infinite budget either: no release gives budget back.
        """
        return self.grant(spent, cost, torch.ones_like(cost, dtype=torch.bool), sampling)[0]

    def grant(self, spent: Spent, cost: Tensor, asked: Tensor, sampling: Sampling = WHOLE) -> tuple[Tensor, Spent]:
        """Grant a release of this zCDP cost to the runs that ask for one and afford it, and write it down.

        Args:
          spent: what was let through before.
          cost: `(runs,)`.
          asked: `(runs,)` bool; the others are granted nothing and pay nothing.
          sampling: what the release touches.

        Returns:
          Which runs were granted theirs, `(runs,)` bool, to be drawn after this; and what is spent then.
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
