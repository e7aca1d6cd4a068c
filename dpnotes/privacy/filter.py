"""A privacy filter: refuses the release that would overspend, before anything is drawn."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dpnotes import validate
from dpnotes.core import FRESH, WHOLE, Sampling


@dataclass(frozen=True)
class Spent:
    """What a filter has let through, `(runs,)` float64 each in zCDP; part of a meter, so it never goes back.

    `reused` is the sum over releases that touch examples again; `fresh` the largest of the releases on fresh ones.
    """

    reused: Tensor
    fresh: Tensor

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
      tolerance: relative, for schedules that were summed beforehand on the private side, where only the order of the
        sum may round otherwise. 0 where the run chooses.

    Raises:
      ValueError: if a budget is negative or NaN.

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
        if not bool((self.budget >= 0).all()):
            raise ValueError(f"Expected budget={self.budget[~(self.budget >= 0)][0].item()} >= 0.")

    def init(self) -> Spent:
        """Nothing spent."""
        nothing = torch.zeros_like(self.budget, dtype=torch.float64)
        return Spent(nothing, nothing.clone())

    def after(self, spent: Spent, cost: Tensor, granted: Tensor, sampling: Sampling = WHOLE) -> Spent:
        """What would be spent after a release of this cost, `(runs,)`, to the runs in `granted`."""
        cost = torch.where(granted, cost, 0.0)
        if sampling == FRESH:
            return Spent(spent.reused, torch.maximum(spent.fresh, cost))
        return Spent(spent.reused + cost, spent.fresh)

    def affords(self, spent: Spent, cost: Tensor, sampling: Sampling = WHOLE) -> Tensor:
        """Whether a release of this zCDP cost, `(runs,)`, fits what is left, `(runs,)` bool; NaN fits nothing."""
        return self.after(spent, cost, torch.ones_like(cost, dtype=torch.bool), sampling).total <= self.budget * (
            1 + self.tolerance
        )

    def charge(self, spent: Spent, cost: Tensor, granted: Tensor, sampling: Sampling = WHOLE) -> Spent:
        """Write down a release to the runs in `granted`; call it with what `affords` allowed, before drawing.

        Raises:
          ValueError: if a granted release overspends.
        """
        if bool((granted & ~self.affords(spent, cost, sampling)).any()):
            raise ValueError("Expected granted releases to be affordable: ask Filter.affords first.")
        return self.after(spent, cost, granted, sampling)
