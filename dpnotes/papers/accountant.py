"""The privacy accountants as functions of plain numbers: epsilon, delta, noise and risk of repeated releases."""

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotes.guarantees import Guarantee, Relation
from dpnotes.privacy import risk
from dpnotes.theory.calculators import Calculator, parameters
from dpnotes.theory.refusals import require
from dpnotes.theory.symbols import COUNT, UNIT_INTERVAL, Domain, PaperSymbols
from dpnotes.util import validate
from dpnotes.util.validate import AtLeastOne, Positive, checked

if TYPE_CHECKING:
    from dpnotes.privacy.accounting import Accountant
    from dpnotes.privacy.events import Event

SYMBOLS = PaperSymbols("privacy")
symbol = SYMBOLS.symbol
noise_multiplier = symbol("noise_multiplier", "noise over sensitivity")
num_steps = symbol("num_steps", "number of releases", domain=COUNT)
batch_size = symbol("batch_size", "batch size, num_examples for whole batches", domain=COUNT)
num_examples = symbol("num_examples", "number of examples", domain=COUNT, common="num_examples")
sampling_rate = symbol(
    "sampling_rate", "probability of an example to be in a batch, 1 for all", domain=Domain(1e-12, 1, closed=True)
)
epsilon = symbol("epsilon", "privacy loss", common="epsilon")
delta = symbol("delta", "probability left to chance", domain=UNIT_INTERVAL, common="delta")


def delta_at(events: "Iterable[Event]", epsilon: float, accountant: "Accountant | None" = None) -> float:
    """Return the least delta, to one millionth, at which releases fixed in advance are (epsilon, delta)-DP.

    Args:
      events: as in `privacy.accounting.account`.
      epsilon: above 0.
      accountant: as in `account`.

    Returns:
      delta, rounded towards more privacy loss: `account(events, delta)` is at most epsilon. The result is 1 where no
      smaller delta is found, and never below 1e-300.

    Raises:
      CombinationError, ValueError: as in `account`.

    Example:
      >>> from dpnotes.core import Relation
      >>> from dpnotes.privacy.accounting import account
      >>> from dpnotes.privacy.events import Event
      >>> spent = [Event(10.0, Relation.ZERO_OUT, count=100), Event(20.0, Relation.ZERO_OUT)]
      >>> f"{delta_at(spent, 4.4):.3e}"
      '9.318e-06'
      >>> account(spent, delta_at(spent, 4.4)).epsilon <= 4.4
      True
    """
    from dpnotes.privacy.accounting import account

    validate.positive(epsilon=epsilon)
    events = list(events)
    low, high = math.log(1e-300), 0.0

    def enough(logarithm: float) -> bool:
        return account(events, math.exp(logarithm), accountant).epsilon <= epsilon

    if enough(low):
        return math.exp(low)
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return math.exp(high)


@checked
def steps_on_batches(
    noise_multiplier: Positive, num_steps: AtLeastOne, batch_size: AtLeastOne, num_examples: AtLeastOne
) -> "list[Event]":
    """Return the releases of steps on batches of a fixed size, an example replaced.

    >>> steps_on_batches(2.0, 10, 50, 50)[0].sampling.scheme
    'whole'
    """
    from dpnotes.core import WHOLE, Relation, Sampling
    from dpnotes.privacy.events import Event

    sampling = WHOLE if batch_size == num_examples else Sampling.fixed_size(batch_size, num_examples)
    return [Event(noise_multiplier, Relation.REPLACE_ONE, sampling, num_steps)]


@partial(np.vectorize, otypes=[float])
def _delta_of_each(noise_multiplier: float, num_steps: int, batch: int, examples: int, epsilon: float) -> float:
    events = steps_on_batches(float(noise_multiplier), int(num_steps), int(batch), int(examples))
    return delta_at(events, float(epsilon))


def _delta(noise_multiplier: Any, num_steps: Any, batch_size: Any, num_examples: Any, epsilon: Any) -> dict[str, Any]:
    too_large = "Expected batch_size={batch:g} <= num_examples={size:g}."
    require(np.less_equal(batch_size, num_examples), too_large, batch=batch_size, size=num_examples)
    return {"delta": _delta_of_each(noise_multiplier, num_steps, batch_size, num_examples, epsilon)[()]}


# For equal releases; `delta_at` accepts any list of events.
DELTA = Calculator(
    _delta,
    (noise_multiplier, num_steps, batch_size, num_examples, epsilon),
    parameters(delta="the least delta at epsilon that the accountant finds, batches of fixed size, one replaced"),
)


def _poisson(noise_multiplier: float, num_steps: int, sampling_rate: float) -> "list[Event]":
    from dpnotes.core import WHOLE, Relation, Sampling
    from dpnotes.privacy.events import Event

    sampling = WHOLE if sampling_rate == 1 else Sampling.poisson(sampling_rate)
    return [Event(noise_multiplier, Relation.ADD_OR_REMOVE, sampling, int(num_steps))]


def _fixed_size(noise_multiplier: float, num_steps: int, sampling_rate: float) -> "list[Event]":
    batch, examples = Fraction(sampling_rate).limit_denominator(2**40).as_integer_ratio()
    return steps_on_batches(noise_multiplier, int(num_steps), batch, examples)


_SAMPLED = {
    "epsilon": (_poisson, "Poisson batches, an example added or removed"),
    "epsilon_fixed_size": (
        _fixed_size,
        "batches of a fixed size, an example replaced: noise_multiplier over twice the clipping norm",
    ),
}


@partial(np.vectorize, otypes=[float])
def _epsilon(name: str, noise_multiplier: float, num_steps: int, sampling_rate: float, delta: float) -> float:
    from dpnotes.privacy.accounting import account

    events, _ = _SAMPLED[name]
    return account(events(float(noise_multiplier), num_steps, float(sampling_rate)), float(delta)).epsilon


@partial(np.vectorize, otypes=[float])
def _noise_multiplier(epsilon: float, delta: float, num_steps: int, sampling_rate: float) -> float:
    from dpnotes.privacy import calibration

    def events(multiplier: float) -> "list[Event]":
        return _poisson(multiplier, num_steps, float(sampling_rate))

    return calibration.noise_multiplier(events, float(epsilon), float(delta))


# For noisy SGD. A noise multiplier is relative to the sensitivity under the neighbouring relation: replacing an example
# moves a sum of clipped gradients twice as far as adding or removing one.
EPSILON = Calculator(
    lambda *numbers: {name: _epsilon(name, *numbers)[()] for name in _SAMPLED},
    (noise_multiplier, num_steps, sampling_rate, delta),
    parameters(
        **{name: f"the least at delta that the accountant finds, {words}" for name, (_, words) in _SAMPLED.items()}
    ),
)
NOISE_MULTIPLIER = Calculator(
    lambda *numbers: {"noise_multiplier": _noise_multiplier(*numbers)[()]},
    (epsilon, delta, num_steps, sampling_rate),
    parameters(noise_multiplier="the least at epsilon and delta, Poisson batches, an example added or removed"),
)


def _bare(epsilon: float, delta: float) -> risk.Risk:
    return risk.of(Guarantee(float(epsilon), float(delta), Relation.ADD_OR_REMOVE, "given"))


_RISKS = {
    "right": (lambda found: found.right, "share of right guesses at even odds"),
    "found": (
        lambda found: 1 - found.missed(0.01),
        "share of the people in the data that are found at 1% false alarms",
    ),
}


@partial(np.vectorize, otypes=[float])
def _risk(name: str, epsilon: float, delta: float) -> float:
    return float(_RISKS[name][0](_bare(epsilon, delta)))


any_delta = symbol("delta", "probability left to chance, 0 for pure privacy", domain=Domain(0, 1, closed=True))
# Of epsilon and delta alone. The releases behind them allow less: `privacy.risk.of` reads those of a guarantee.
RISK = Calculator(
    lambda *numbers: {name: _risk(name, *numbers)[()] for name in _RISKS},
    (epsilon, any_delta),
    parameters(**{name: f"the largest {words}, over all attacks" for name, (_, words) in _RISKS.items()}),
    says=lambda epsilon, delta: _bare(epsilon, delta).sentence(),
)
