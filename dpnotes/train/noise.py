"""The noise of a run, and the privacy target that it was chosen for."""

import math
from dataclasses import dataclass

from dpnotes.guarantees import Assumption, Relation, Sampling
from dpnotes.privacy.calibration import noise_multiplier
from dpnotes.privacy.events import Event, clipped_sensitivity
from dpnotes.util.validate import AtLeastOne, NonNegative, Positive, PositiveOrInfinite, Probability, checked


@checked
@dataclass(frozen=True)
class NoiseChoice:
    """The noise of a run, with its privacy target and its origin.

    Args:
      std: Delta, at least 0, in the units of a gradient; 0 for a run without privacy.
      epsilon: the nominal privacy, above 0, infinite without noise.
      delta: in (0, 1), that goes with epsilon.
      origin: how the noise was chosen, in words.
      premises: the assumptions behind that choice, and whether each holds.

    Raises:
      ValueError: outside these domains.
    """

    std: NonNegative
    epsilon: PositiveOrInfinite
    delta: Probability
    origin: str
    premises: tuple[Assumption, ...] = ()


@checked
def calibrated_noise(
    epsilon: float,
    delta: float,
    *,
    norm_bound: Positive,
    sampling: Sampling,
    relation: Relation,
    num_steps: AtLeastOne,
    divisor: float,
) -> NoiseChoice:
    """The least noise at which Algorithm 1 is (epsilon, delta)-DP by the accountant, rounded up.

    Args:
      epsilon: above 0.
      delta: in (0, 1).
      norm_bound: C, above 0.
      sampling: how batches are drawn.
      relation: which data sets are neighbours.
      num_steps: T.
      divisor: the number by which the sum over the batch is divided: its (expected) size.

    Raises:
      CombinationError: if no accountant knows this sampling under this relation.
      ValueError: outside these domains.

    Example:
      >>> how = {"sampling": Sampling.poisson(512 / 50_000), "relation": Relation.ZERO_OUT, "num_steps": 2328}
      >>> choice = calibrated_noise(2.0, 0.01, norm_bound=2.5, **how, divisor=512)
      >>> round(choice.std * 512 / 2.5, 2)
      0.84
    """
    sensitivity = clipped_sensitivity(norm_bound, divisor, relation, sampling)
    level = noise_multiplier(lambda z: [Event(z, relation, sampling, num_steps)], epsilon, delta)
    # Rounded up, so that the product divided by the sensitivity is not less than the level.
    return NoiseChoice(level * sensitivity * (1 + 2**-50), epsilon, delta, "calibrated by the accountant")


def no_noise() -> NoiseChoice:
    """The zero noise of a baseline without privacy.

    Example:
      >>> no_noise().epsilon
      inf
    """
    return NoiseChoice(0.0, math.inf, 0.5, "no noise")
