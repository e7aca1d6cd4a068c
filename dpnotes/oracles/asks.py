"""The means that oracles ask to be released, in public numbers, and their exact answers."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpnotes.core import Mechanism
from dpnotes.guarantees import Relation, Sampling
from dpnotes.privacy.events import clipped_sensitivity
from dpnotes.util.per_run import Number, norms

# Relative: how much longer than its bound a mean may be by its own rounding, in float32.
_ROUNDING = 1e-5


@dataclass(frozen=True, eq=False)
class Bound:
    """The largest change by one example of a sum that is divided by a public number.

    Args:
      longest: at least 0: how long an example's term may be (a radius: replaced, it moves the sum by twice that); or,
        as a `span`, how far a neighbour moves it, as of a loss in `[0, longest]`.
      divisor: above 0 and public.
      sensitivity: `(runs,)`, how far a neighbour moves the mean.
      span: which of the two `longest` is.
      slack: how much longer than `longest` a mean may be by the rounding of its terms.
    """

    longest: Number
    divisor: Number
    sensitivity: Tensor
    span: bool = False
    slack: Number = 0.0

    @staticmethod
    def of(
        longest: Number, divisor: Number, like: Tensor, relation: Relation, sampling: Sampling, *,
        span: bool = False, slack: Number = 0.0,
    ) -> "Bound":  # fmt: skip
        """The bound with the sensitivity that follows, one a row of `like` `(runs,)`.

        Raises:
          CombinationError: if no accountant knows this sampling under this relation.

        Example:
          >>> like = torch.zeros(1, dtype=torch.float64)
          >>> Bound.of(1.0, 50, like, Relation.REPLACE_ONE, Sampling("fresh")).sensitivity
          tensor([0.0400], dtype=torch.float64)
          >>> Bound.of(1.0, 50, like, Relation.REPLACE_ONE, Sampling("fresh"), span=True).sensitivity
          tensor([0.0200], dtype=torch.float64)
        """
        turned = clipped_sensitivity(1.0, 1.0, relation, sampling)
        moved = (1.0 if span else turned) * longest / divisor
        return Bound(
            longest, divisor, moved if isinstance(moved, Tensor) else torch.full_like(like, moved), span, slack
        )

    def covers(self, mean: Tensor, size: Number | None) -> Tensor:
        """Return whether the mean `(runs, dim)` of `size` terms (None: `divisor`) shows none to be too long."""
        length = norms(mean)
        most = self.longest * (1 + _ROUNDING) if size is None else self.longest / self.divisor * (1 + _ROUNDING) * size
        if isinstance(self.slack, Tensor) or self.slack:
            most = most + self.slack
        return length <= most


@dataclass(frozen=True, eq=False)
class Ask:
    """A mean that an oracle asks to be released, in public numbers, `(runs,)` each or one for all runs.

    Args:
      bound: how far an example can move it.
      noise_std: `(runs,)`, of each coordinate of the noise.
      noise_multiplier: `(runs,)`, noise over sensitivity. `with_std` and `with_multiplier` make one of the other.
      gradients: of single examples, that the answers of a step take; said by the first ask of it, as is all below.
      evaluations: of losses of single examples beside them; None: none.
      exists: `(runs,)` bool, whether the oracle's schedule has this step; None: it has.
      examples: `(runs,)` int64, how many it uses up; None: none.
      restart: `(runs,)` bool, whether the answer begins a new sum; None: of no run.
      mechanism: of an ask beside the first, one without memory and with a purpose of its own; None: the oracle's.
      note: what the oracle hands to itself.
    """

    bound: Bound
    noise_std: Tensor
    noise_multiplier: Tensor
    gradients: Number = 0
    evaluations: Number | None = None
    exists: Tensor | None = None
    examples: Tensor | None = None
    restart: Tensor | None = None
    mechanism: Mechanism | None = None
    note: Any = None

    @staticmethod
    def with_std(bound: Bound, noise_std: Tensor, **more: Any) -> "Ask":
        """The ask with this standard deviation of the noise."""
        return Ask(bound, noise_std, noise_std / bound.sensitivity, **more)

    @staticmethod
    def with_multiplier(bound: Bound, noise_multiplier: Tensor, **more: Any) -> "Ask":
        """The ask with so many times the sensitivity for noise."""
        return Ask(bound, noise_multiplier * bound.sensitivity, noise_multiplier, **more)


@dataclass(frozen=True, eq=False)
class Answer:
    """An exact mean, and the violations of its bound that were seen; it leaves through a mechanism only.

    Args:
      mean: `(runs, dim)`, the sum divided by the public number.
      size: how many terms it is the sum of, which may be secret; None: `divisor`.
      seen: in which of the granted runs every term was compared with the bound, `(runs,)` bool; how many were longer,
        and of how many, `(runs,)` int64; None: in none.
    """

    mean: Tensor
    size: Number | None = None
    seen: tuple[Tensor, Tensor, Tensor] | None = None
