"""Privacy events: the releases as an accountant's input, and the sensitivity of clipped sums.

A noise multiplier is always the noise over *the sensitivity under the event's own relation*. Other accountants may
define it differently: dp_accounting's PLD accountant takes a multiplier under replace-one relative to the length of one
contribution, half of that sensitivity, while its Renyi accountant uses our definition. `to_dp_event` is for reading and
storing; the numbers come from `dpnotes.privacy.accounting`, which gives each accountant the right multiplier.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from dpnotes.core import Ledger
from dpnotes.guarantees import FRESH, WHOLE, CombinationError, Noise, Relation, Sampling, check_combination
from dpnotes.util import validate

# The range that floating-point accounting supports: a release with the least noise has an epsilon of 10^12, one with
# the most noise has a negligible epsilon; for more releases, their rounding errors could add up.
LEAST_NOISE, _MOST_NOISE, _MOST_RELEASES = 1e-6, 1e12, 10**9


@dataclass(frozen=True)
class Event:
    """A group of `count` equal releases in sequence; later queries may depend on earlier releases.

    Args:
      noise_multiplier: noise over sensitivity, above 0: for Gaussian noise its standard deviation over the L2
        sensitivity, for Laplace noise its scale over the L1 sensitivity, for any other epsilon-DP mechanism ("pure")
        1 / epsilon, for any other rho-zCDP mechanism ("zcdp") 1 / sqrt(2 rho). From 1e-6 to 1e12; more noise may be
        counted as 1e12.
      relation: the neighbouring relation for which the sensitivity was computed.
      sampling: the examples that each release touched. All FRESH releases of a list touch different examples.
      count: the number of releases, from 1 to 10^9; FRESH ones count as one.
      noise: "gaussian", "laplace", "pure" or "zcdp".

    Raises:
      CombinationError: if no accountant knows this sampling under this relation, or this noise on a random batch.
      ValueError: if a number is outside its domain; a noise multiplier of 0 has no finite epsilon.

    Example:
      >>> Event(1.0, Relation.REPLACE_ONE, Sampling.poisson(0.01))
      Traceback (most recent call last):
      dpnotes.guarantees.CombinationError: Expected sampling=poisson with relation add-or-remove-one or
      zero-out-one, got replace-one; replace-one goes with sampling whole, fresh or fixed-size.
    """

    noise_multiplier: float
    relation: Relation
    sampling: Sampling = WHOLE
    count: int = 1
    noise: Noise = "gaussian"

    def __post_init__(self) -> None:
        validate.positive(noise_multiplier=self.noise_multiplier)
        validate.at_least(1, count=self.count)
        if not LEAST_NOISE <= self.noise_multiplier <= _MOST_NOISE:
            raise ValueError(
                f"Expected {LEAST_NOISE:g} <= noise_multiplier={self.noise_multiplier!r} <= {_MOST_NOISE:g}."
            )
        if self.count > _MOST_RELEASES:
            raise ValueError(f"Expected count={self.count!r} <= {_MOST_RELEASES:g}.")
        check_combination(self.sampling, self.relation, self.noise)
        object.__setattr__(self, "noise_multiplier", float(self.noise_multiplier))
        object.__setattr__(self, "count", int(self.count))  # an int64 wraps


def clipped_sensitivity(clip: float, divisor: float, relation: Relation, sampling: Sampling = WHOLE) -> float:
    """The L2 sensitivity of a sum of vectors of norm at most `clip`, divided by a public number.

    It is `2 clip / divisor` for replacing a vector, which can at most reverse it, and `clip / divisor` for removing it
    or zeroing it out. It is the same for every sampling that has an accountant for the relation: amplification by
    sampling enters in the accountant, never in the sensitivity.

    Args:
      clip: the largest norm of a vector, above 0.
      divisor: above 0 and *public*: the number of examples (not under add-or-remove-one, where it is private), the
        size of a fresh or fixed-size batch, or the expected size of a Poisson batch, never its realised size.
      relation: which data sets are neighbours.
      sampling: how the examples of the vectors are selected.

    Raises:
      CombinationError: if no accountant knows this sampling under this relation.
      ValueError: if a number is not above 0.

    Example:
      >>> clipped_sensitivity(1.0, 50, Relation.REPLACE_ONE, Sampling.fixed_size(50, 1000))
      0.04
    """
    validate.positive(clip=clip, divisor=divisor)
    check_combination(sampling, relation)
    return (2.0 if relation == Relation.REPLACE_ONE else 1.0) * clip / divisor


def merged(events: Iterable[Event]) -> list[Event]:
    """The events with equal ones merged, and only the least noisy fresh event of each kind (parallel composition).

    An example is in at most one fresh batch, so only the examples of that batch pay for a fresh release.

    Raises:
      CombinationError: if the events have different relations.

    Example:
      >>> one = Event(2.0, Relation.ZERO_OUT, FRESH)
      >>> [(e.noise_multiplier, e.count) for e in merged([one, Event(1.0, Relation.ZERO_OUT, FRESH), one])]
      [(1.0, 1)]
    """
    counts: Counter[tuple[float, Relation, Sampling, Noise]] = Counter()
    costliest: dict[Noise, Event] = {}
    relation = None
    for event in events:
        if relation is None:
            relation = event.relation
        elif event.relation is not relation:
            raise CombinationError(f"Expected events of one relation, got {relation} and {event.relation}.")
        if event.sampling == FRESH:
            known = costliest.get(event.noise)
            if known is None or event.noise_multiplier < known.noise_multiplier:
                costliest[event.noise] = replace(event, count=1)
        else:
            counts[event.noise_multiplier, event.relation, event.sampling, event.noise] += event.count
    reused = [Event(level, r, sampling, count, noise) for (level, r, sampling, noise), count in counts.items()]
    return reused + list(costliest.values())


def events_of(ledger: Ledger, run: int) -> list[Event]:
    """The events of one run in a ledger; a release of sensitivity 0 is omitted.

    Raises:
      ValueError: if something was released without noise, or the run does not exist.

    Example:
      >>> import torch
      >>> from dpnotes.core import Price
      >>> price = Price(torch.tensor([2.0]), torch.tensor([True]), Relation.ZERO_OUT)
      >>> [event.count for event in merged(events_of(Ledger([price, price]), run=0))]
      [2]
    """
    found = []
    for price in ledger.prices:
        validate.index(len(price.charged), run=run)
        level = float(price.noise_multiplier[run])
        if bool(price.charged[run]) and level != float("inf"):
            found.append(Event(min(level, _MOST_NOISE), price.relation, price.sampling, 1, price.noise))
    return found


def to_dp_event(events: Iterable[Event]) -> Any:
    """The events as a `dp_accounting.DpEvent`, with equal ones merged.

    Its multipliers are relative to the sensitivity. In an accountant of dp_accounting this corresponds, for whole
    batches, to the relation REPLACE_SPECIAL, whatever ours is; its PLD accountant defines REPLACE_ONE differently.

    Example:
      >>> to_dp_event([Event(2.0, Relation.ZERO_OUT, Sampling.poisson(0.1))] * 2).event.sampling_probability
      0.1
    """
    import dp_accounting

    builder = dp_accounting.DpEventBuilder()
    for event in merged(events):
        released: Any = dp_accounting.GaussianDpEvent(event.noise_multiplier)
        if event.noise == "laplace":
            released = dp_accounting.LaplaceDpEvent(event.noise_multiplier)
        elif event.noise == "pure":  # the worst epsilon-DP mechanism is randomised response of one bit
            lies = math.exp(-1 / event.noise_multiplier)
            released = dp_accounting.RandomizedResponseDpEvent(2 * lies / (1 + lies), 2)
        elif event.noise == "zcdp":
            released = dp_accounting.dp_event.ZCDpEvent(0.5 / event.noise_multiplier**2)
        if event.sampling.scheme == "poisson":
            released = dp_accounting.PoissonSampledDpEvent(event.sampling.rate, released)
        elif event.sampling.scheme == "fixed-size":
            batch = event.sampling
            released = dp_accounting.SampledWithoutReplacementDpEvent(batch.num_examples, batch.batch_size, released)
        builder.compose(released, event.count)
    return builder.build()
