"""A privacy filter: refuses the release that would overspend, before anything is drawn."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dpnotes import validate
from dpnotes.core import FRESH, WHOLE, Sampling

_LARGEST_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Spent:
    """What a filter has let through, `(runs,)` float64 each in zCDP; part of a meter, so it never goes back.

    `reused` is the sum over releases that touch examples again; `fresh` the largest of the releases on fresh ones.

    Raises:
      ValueError: if the two shapes differ, or an entry is negative or NaN, in a restored one too.
    """

    reused: Tensor
    fresh: Tensor

    def __post_init__(self) -> None:
        if self.reused.shape != self.fresh.shape:
            raise ValueError(
                f"Expected reused and fresh of one shape, got {tuple(self.reused.shape)} and {tuple(self.fresh.shape)}."
            )
        valid = (self.reused >= 0) & (self.fresh >= 0)
        if not bool(valid.all()):
            reused, fresh = (tensor[~valid][0].item() for tensor in (self.reused, self.fresh))
            raise ValueError(f"Expected reused={reused} >= 0 and fresh={fresh} >= 0: nothing is given back.")

    @property
    def total(self) -> Tensor:
        """What one example may have paid, `(runs,)`."""
        return self.reused + self.fresh


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
      >>> spent = watch.charge(spent, cost, watch.affords(spent, cost))
      >>> spent.total, watch.affords(spent, cost)
      (tensor([0.6000], dtype=torch.float64), tensor([False]))
    """

    budget: Tensor
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        validate.non_negative(tolerance=self.tolerance)
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

    def _after(self, spent: Spent, cost: Tensor, granted: Tensor, sampling: Sampling) -> Spent:
        cost = torch.where(granted, cost, 0.0)
        if sampling == FRESH:
            return Spent(spent.reused, torch.maximum(spent.fresh, cost))
        return Spent(spent.reused + cost, spent.fresh)

    def affords(self, spent: Spent, cost: Tensor, sampling: Sampling = WHOLE) -> Tensor:
        """Whether a release of this zCDP cost, `(runs,)`, fits what is left, `(runs,)` bool.

        A cost that is negative or NaN fits nothing, in an infinite budget either: no release gives budget back.
        """
        self._check_shapes(spent=spent.reused, cost=cost)
        valid = cost >= 0
        return valid & (self._after(spent, cost, valid, sampling).total <= self.budget * (1 + self.tolerance))

    def charge(self, spent: Spent, cost: Tensor, granted: Tensor, sampling: Sampling = WHOLE) -> Spent:
        """Write down a release to the runs in `granted`; call it with what `affords` allowed, before drawing.

        Raises:
          ValueError: if a granted release overspends.
        """
        self._check_shapes(granted=granted)
        if bool((granted & ~self.affords(spent, cost, sampling)).any()):
            raise ValueError("Expected granted releases to be affordable: ask Filter.affords first.")
        return self._after(spent, cost, granted, sampling)

    def _check_shapes(self, **named: Tensor) -> None:
        for name, tensor in named.items():
            if tensor.shape != self.budget.shape:
                raise ValueError(
                    f"Expected {name} of the budget's shape {tuple(self.budget.shape)}, got {tuple(tensor.shape)}."
                )
