"""The common part of mechanisms for running sums: the next term of each run, its validity and its cost.

The number of terms of a sum is bounded beforehand. The noise of its terms is correlated, so that the cost of a term
depends on its number and on the terms before it; a term that its sum's price does not cover is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from dpnotes.core import Price, Request
from dpnotes.guarantees import FRESH, WHOLE, CombinationError, Sampling
from dpnotes.privacy.mechanisms import check_release, price_of
from dpnotes.random.streams import Streams
from dpnotes.util import checks


class Accepted(NamedTuple):
    """An accepted term of a sum: its number, the runs that get it, its noise and multiplier, `(runs,)`; its price."""

    leaf: Tensor
    active: Tensor
    noise_std: Tensor
    multiplier: Tensor
    price: Price


@dataclass(frozen=True)
class SumState:
    """The progress of each run in its sum.

    `leaf` counts terms since the restart, `fresh` says whether their examples are fresh, `call` is the number of the
    last release, `noise_std` is the standard deviation of one draw, all `(runs,)`. `layers` holds noise that later
    terms reuse, in tensors `(runs, dim)` of their own, so that a step replaces the one that changes and copies none of
    the others; `reach` `(runs, layers)` is the sensitivity of the sums that this noise hides, in units of `noise_std`.
    `leaf` determines which layers are in use; the others hold outdated values.
    """

    leaf: Tensor
    fresh: Tensor
    call: Tensor
    noise_std: Tensor
    reach: Tensor
    layers: tuple[Tensor, ...]

    @staticmethod
    def start(x: Tensor, layers: Sequence[Tensor]) -> "SumState":
        """The state before the first term, for answers shaped like `x` `(runs, dim)`."""
        nothing = torch.zeros(len(x), dtype=torch.float64, device=x.device)
        reach = nothing.new_zeros(len(x), len(layers))
        return SumState(nothing.long(), nothing.bool(), nothing.long() - 1, nothing, reach, tuple(layers))

    def after(
        self, term: Accepted, request: Request, active: Tensor, reach: Tensor, layers: Sequence[Tensor]
    ) -> "SumState":
        """The state after a term that was released in the runs of `active`, with the new `reach` and `layers`."""
        return SumState(
            torch.where(active, term.leaf, self.leaf),
            torch.where(active, request.answer.sampling == FRESH, self.fresh),
            torch.where(active, request.call, self.call),
            torch.where(active, term.noise_std, self.noise_std),
            torch.where(active[:, None], reach, self.reach),
            tuple(layers),
        )


class SumMechanism(Protocol):
    """A mechanism whose noise is correlated over the terms of a sum: the common methods."""

    max_leaves: int

    def _effective(self, state: SumState, leaf: Tensor, multiplier: Tensor, sampling: Sampling) -> Tensor:
        """The noise multiplier of a single Gaussian release with the same cost, `(runs,)`."""
        ...

    def cost(
        self, state: SumState, noise_multiplier: Tensor, sampling: Sampling = WHOLE, restart: Tensor | None = None
    ) -> Tensor:
        """The zCDP of the next release, `(runs,)`, which a filter checks before it; infinite past the last term.

        Args:
          state: from `init` or `release`.
          noise_multiplier: `(runs,)`, a draw's standard deviation over the term's sensitivity.
          sampling: WHOLE or FRESH.
          restart: `(runs,)` bool, true where the term is the first of a new sum.

        Raises:
          CombinationError: for any other sampling.
        """
        leaf = next_leaf(state.leaf, restart)
        effective = self._effective(state, leaf, noise_multiplier.double(), sampling)
        return torch.where(unpriced(state, leaf, self.max_leaves, sampling), torch.inf, 0.5 / effective**2)

    def accept(self, state: SumState, request: Request, streams: Streams) -> Accepted:
        """Check the next term of a sum, and return it with its price.

        Raises:
          CombinationError: if the answer's sampling is neither WHOLE nor FRESH, or its sum's price does not cover it.
          ValueError: as `Gaussian.release`; or if an active run's sum is longer than `max_leaves`, or its noise differs
            from the first term's.
        """
        active, noise_std = check_release(request, streams), request.noise_std.double()
        leaf = next_leaf(state.leaf, request.restart)
        active = active & check_term(state, leaf, self.max_leaves, request)
        multiplier = noise_std / request.answer.l2_sensitivity
        effective = self._effective(state, leaf, multiplier, request.answer.sampling)
        return Accepted(leaf, active, noise_std, multiplier, price_of(request, "gaussian", effective))


def next_leaf(leaf: Tensor, restart: Tensor | None) -> Tensor:
    """The number of the next term of a sum, `(runs,)`: the last number plus 1, or 1 where a new sum starts.

    Example:
      >>> next_leaf(torch.tensor([3, 3]), torch.tensor([False, True]))
      tensor([4, 1])
    """
    return leaf + 1 if restart is None else torch.where(restart, 1, leaf + 1)


def unpriced(state: SumState, leaf: Tensor, max_leaves: int, sampling: Sampling) -> Tensor:
    """The runs whose next term has no price, `(runs,)`: past the last leaf, or with another sampling than their sum.

    Example:
      >>> unpriced(SumState.start(torch.zeros(1, 1), []), torch.tensor([3]), 2, WHOLE)
      tensor([True])
    """
    return (leaf > max_leaves) | ((leaf > 1) & (state.fresh != (sampling == FRESH)))


def check_term(state: SumState, leaf: Tensor, max_leaves: int, request: Request) -> Tensor:
    """Refuse a term past the last one, with other noise than the first, or that its sum's price does not cover.

    A block that contains terms on all examples and ends with a fresh term costs more than either price accounts for.
    A sum of fresh terms has paid for each of its blocks once: after a rollback, blocks would be completed again.

    Returns:
      The runs without such a term, `(runs,)` bool.

    Raises:
      ValueError: if an active run's term is past the last one, or has another noise than the first term of its sum.
      CombinationError: if an active run's sum has terms with another sampling; or if it has fresh terms and was
        restored from an earlier state, so that its last call is not the previous one. Restart the sum. (On a device
        deferred as in `dpnotes.util.checks`.)

    Example:
      >>> state = SumState.start(torch.zeros(1, 1), [])
      >>> from dpnotes.core import Relation, Sensitive
      >>> answer = Sensitive(torch.zeros(1, 1), torch.ones(1), Relation.ZERO_OUT, "proved", FRESH)
      >>> request = Request(answer, torch.ones(1), torch.tensor([5]), torch.tensor([True]))
      >>> check_term(state, torch.tensor([9]), 8, request)
      Traceback (most recent call last):
      ValueError: Expected leaf=9 of run 0 <= max_leaves=8.
    """
    fresh, later = request.answer.sampling == FRESH, request.active & (leaf > 1)
    beyond = request.active & (leaf > max_leaves)
    louder = later & (request.noise_std.double() != state.noise_std)
    mixed = later & (state.fresh != fresh)
    restored = later & (request.call != state.call + 1) if fresh else torch.zeros_like(later)
    refused = beyond | louder | mixed | restored

    def error() -> ValueError:
        run = int(refused.nonzero()[0])
        if bool(beyond[run]):
            return ValueError(f"Expected leaf={leaf[run].item()} of run {run} <= max_leaves={max_leaves}.")
        if bool(louder[run]):
            return ValueError(
                f"Expected noise_std={request.noise_std[run].item()} in run {run} to be {state.noise_std[run].item()}: "
                "the noise of a sum is fixed at its first term."
            )
        if bool(mixed[run]):
            return CombinationError(
                f"Expected every term of the sum of run {run} to have the sampling of its first, got "
                f"{request.answer.sampling.scheme}; restart the sum for another."
            )
        return CombinationError(
            f"Expected call={request.call[run].item()} of run {run} to follow call {state.call[run].item()}: a sum of "
            "fresh terms that was restored has paid for its blocks already; restart it."
        )

    checks.require(~refused, error)
    return ~refused


def check_shared(name: str, sampling: Sampling) -> None:
    """Refuse random batches for a mechanism whose noise is correlated over steps.

    Raises:
      CombinationError: unless the sampling is WHOLE or FRESH.

    Example:
      >>> check_shared("Tree", WHOLE)
    """
    if sampling not in (WHOLE, FRESH):
        raise CombinationError(
            f"Expected sampling=whole or fresh for {name}, got {sampling.scheme}: no accountant knows random batches "
            "whose steps share their noise; Gaussian goes with them."
        )
