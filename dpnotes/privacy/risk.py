"""The risk of a guarantee in words: how often the best attack errs, as a curve (f-DP) and as one sentence.

An attacker who knows all but one example tests whether that example is in the data. Of the false alarms and the misses
of a test, neither can be rare without the other being frequent; the least share of misses at each share of false alarms
is the trade-off curve (Dong, Roth and Su 2019, arXiv:1905.02383v3). An (epsilon, delta) claim bounds it from below by
two lines (their Equation 5), and releases satisfy many such claims at once: their privacy profile (Proposition 2.12).
The bound here is the largest of the lines, so that a claim that is left out makes the attack stronger, never weaker.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotes.guarantees import FRESH, Guarantee, Relation
from dpnotes.util import validate

if TYPE_CHECKING:
    from dpnotes.privacy.events import Event

_ROUNDING = 1e-12  # added to each delta, more than its rounding error
_BARE = "That is what (epsilon, delta) alone says; the releases, which are not known here, may allow less."
_GUESSES = {
    Relation.REPLACE_ONE: "which of two examples is in the data",
    Relation.ADD_OR_REMOVE: "whether you are in the data",
    Relation.ZERO_OUT: "whether your example is used",
}


@dataclass(frozen=True, eq=False)
class Risk:
    """The bounds on the errors of every attack on one example.

    Args:
      epsilons: `(points,)`, at least 0, may be infinite.
      deltas: `(points,)`; every pair (epsilon, delta) is a guarantee of the same releases.
      relation: the neighbouring relation, which says what the attacker guesses.
      limits: a sentence on why the bounds may be far from the best attack, empty where the releases are known.
    """

    epsilons: NDArray[Any]
    deltas: NDArray[Any]
    relation: Relation
    limits: str = ""

    def __post_init__(self) -> None:
        validate.instance(Relation, relation=self.relation)

    def missed(self, false_alarms: ArrayLike) -> Any:
        """A lower bound on the share of misses of any attack, for each share of false alarms: the trade-off curve.

        The curve is the same if misses and false alarms change places. It lies below the true curve, or on it.

        Args:
          false_alarms: in [0, 1], any shape.

        Returns:
          The shares of misses, of that shape.

        Raises:
          ValueError: if a share is outside [0, 1].

        Example:
          >>> of(Guarantee(math.log(3), 0.0, Relation.ZERO_OUT, "given")).missed([0.0, 0.25, 1.0]).round(3)
          array([1.  , 0.25, 0.  ])
        """
        shares = np.asarray(false_alarms, dtype=float)
        if not ((shares >= 0) & (shares <= 1)).all():
            raise ValueError(f"Expected 0 <= {validate.shown('false_alarms', false_alarms)} <= 1.")
        with np.errstate(over="ignore", invalid="ignore"):
            growth, kept = np.exp(self.epsilons), 1 - self.deltas
            lines = (np.fmax(kept - growth * share, (kept - share) / growth) for share in shares.flat)
            least = [np.fmax.reduce(line, initial=0.0) for line in lines]  # which ignores infinity * 0
        return np.reshape(least, shares.shape)[()]

    @property
    def right(self) -> float:
        """An upper bound on how often an attacker is right for whom both cases are equally likely beforehand.

        A pair (epsilon, delta) allows `1 - (1 - delta) / (1 + e^epsilon)`; the least of them holds.
        """
        with np.errstate(over="ignore"):
            return 1 - float(max(0.0, ((1 - self.deltas) / (1 + np.exp(self.epsilons))).max()))

    @property
    def percentage(self) -> str:
        """The share `right` as a percentage, rounded up to one decimal."""
        return f"{math.ceil(1000 * self.right) / 10:.1f}%"

    def sentence(self) -> str:
        """The even-odds reading in words.

        Example:
          >>> print(of(Guarantee(2.0, 1e-5, Relation.ADD_OR_REMOVE, "given")).sentence())
          An attacker who knows all other examples and guesses with even odds whether you are in the data is right at
          most 88.1% of the time. That is what (epsilon, delta) alone says; the releases, which are not known here, may
          allow less.
        """
        known = f"An attacker who knows all other examples and guesses with even odds {_GUESSES[self.relation]}"
        return f"{known} is right at most {self.percentage} of the time. {self.limits}".rstrip()


def of(guarantee: Guarantee) -> Risk:
    """The risk of a guarantee: that of its releases if the claim has them, else that of (epsilon, delta) alone.

    All bounds are on the side of the attacker: deltas are upper bounds, raised by more than their rounding error, and a
    finite number of them is used. For Gaussian noise on whole or fresh batches and by privacy loss distributions the
    curve is within 1e-4 of the best attack's.

    Args:
      guarantee: of `privacy.accounting` or of a run; one whose assumption did not hold excludes nothing.

    Example:
      >>> from dpnotes.privacy.accounting import account
      >>> from dpnotes.privacy.events import Event
      >>> claim = account([Event(10.0, Relation.ZERO_OUT, count=100)], 1e-5)
      >>> print(of(claim).sentence())
      An attacker who knows all other examples and guesses with even odds whether your example is used is right at most
      69.2% of the time.
      >>> of(Guarantee(claim.epsilon, claim.delta, claim.relation, "given")).percentage  # without the releases
      '98.8%'
    """
    known = guarantee.holds and bool(guarantee.events)
    epsilons, deltas = _profile(guarantee.events) if known else (np.empty(0), np.empty(0))
    return Risk(
        np.append(epsilons, guarantee.epsilon),
        np.append(deltas, guarantee.delta) + _ROUNDING,
        guarantee.relation,
        "" if known else _BARE if guarantee.holds else "Nothing is guaranteed, since an assumption did not hold.",
    )


def _profile(events: "Iterable[Event]") -> tuple[NDArray[Any], NDArray[Any]]:
    """Pairs of epsilon and delta that all hold for these events: their privacy profile on a grid, `(points,)` each."""
    from dpnotes.privacy import pld
    from dpnotes.privacy.accounting import account
    from dpnotes.privacy.calibration import gaussian_delta
    from dpnotes.privacy.events import merged

    once = merged(events)  # of several fresh batches an example is in one
    if all(event.noise == "gaussian" and event.sampling.rate == 1 for event in once):
        mu = math.sqrt(math.fsum(event.count / event.noise_multiplier**2 for event in once))
        scores = np.append(1e-300, np.linspace(max(mu / 2 - 9, 1e-300), mu / 2 + 9, 4096))
        epsilons = (mu * scores)[mu * scores < 700]  # beyond, a line excludes no error above e^-700
        return epsilons, gaussian_delta(epsilons, 1 / mu)
    if sum(event.sampling == FRESH for event in once) <= 1:
        try:
            return pld.profile(tuple(once))
        except pld.LimitError:
            pass  # the other accountants have an answer
    deltas = np.geomspace(1e-9, 0.999, 200)
    return np.array([account(once, delta).epsilon for delta in deltas.tolist()]), deltas
