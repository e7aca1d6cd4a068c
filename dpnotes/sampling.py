"""Which examples a release touches, and which neighbours, noise and accountant that goes with.

The table `ALLOWED` is the only place that says so. A price and an event check themselves against it, and mechanisms
check an answer before they draw.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from dpnotes import validate
from dpnotes.guarantees import Relation

Scheme = Literal["whole", "fresh", "poisson", "fixed-size"]
Accountant = Literal["exact", "PLD"]
# What is known of a release: Gaussian or Laplace noise; or only that it is epsilon-DP ("pure"), or rho-zCDP ("zcdp").
Noise = Literal["gaussian", "laplace", "pure", "zcdp"]

# Which accountant knows a sampling scheme under which relation. What is missing here has no accountant that we trust:
# under add-or-remove-one a batch of fixed size is not a function of the others' batches (one example more shifts or
# swaps who is in it), fresh ones no more than random ones; a Poisson batch under replace-one needs the contributions'
# lengths, not only their distance.
ALLOWED: dict[tuple[str, Relation], Accountant] = {
    ("whole", Relation.REPLACE_ONE): "exact",
    ("whole", Relation.ADD_OR_REMOVE): "exact",
    ("whole", Relation.ZERO_OUT): "exact",
    ("fresh", Relation.REPLACE_ONE): "exact",
    ("fresh", Relation.ZERO_OUT): "exact",
    ("poisson", Relation.ADD_OR_REMOVE): "PLD",
    ("poisson", Relation.ZERO_OUT): "PLD",
    ("fixed-size", Relation.REPLACE_ONE): "PLD",
}


class CombinationError(ValueError):
    """Sampling, neighbouring relation, sensitivity, mechanism and accountant do not go together."""


@dataclass(frozen=True)
class Sampling:
    """Which examples a release touches.

    Args:
      scheme: "whole" (all), "fresh" (a batch of public size that no other release touches), "poisson" (each example
        independently; how many they are is secret) or "fixed-size" (a batch drawn without replacement).
      rate: the probability that a random batch holds a given example, in (0, 1]; 1 for the others.
      num_examples: that a fixed-size batch is drawn from, which has `rate * num_examples`; 1 for the others.

    Raises:
      ValueError: outside these domains, or if a batch of fixed size would not have a whole number of examples.

    Example:
      >>> Sampling.fixed_size(5, 20)
      Sampling(scheme='fixed-size', rate=0.25, num_examples=20)
      >>> Sampling("whole", 0.5)
      Traceback (most recent call last):
      ValueError: Expected rate=0.5 to be 1 with scheme='whole'.
    """

    scheme: Scheme
    rate: float = 1.0
    num_examples: int = 1

    def __post_init__(self) -> None:
        validate.one_of(get_args(Scheme), scheme=self.scheme)
        validate.positive(rate=self.rate)
        validate.at_least(1, num_examples=self.num_examples)
        if self.rate > 1:
            raise ValueError(f"Expected 0 < rate={self.rate!r} <= 1.")
        if self.scheme in ("whole", "fresh") and self.rate != 1:
            raise ValueError(f"Expected rate={self.rate!r} to be 1 with scheme={self.scheme!r}.")
        if self.scheme != "fixed-size" and self.num_examples != 1:
            raise ValueError(f"Expected num_examples={self.num_examples!r} to be 1 with scheme={self.scheme!r}.")
        object.__setattr__(self, "rate", float(self.rate))
        object.__setattr__(self, "num_examples", int(self.num_examples))  # an int64 wraps
        if self.scheme == "fixed-size" and self.batch_size / self.num_examples != self.rate:
            raise ValueError(
                f"Expected rate={self.rate!r} of num_examples={self.num_examples!r} to be a whole number of them."
            )

    @property
    def batch_size(self) -> int:
        """Of a batch of fixed size."""
        return round(self.rate * self.num_examples)

    @staticmethod
    def poisson(rate: float) -> "Sampling":
        """Each example independently with this probability, in (0, 1]."""
        validate.positive(rate=rate)
        return Sampling("poisson", float(rate))

    @staticmethod
    def fixed_size(batch_size: int, num_examples: int) -> "Sampling":
        """`batch_size` of `num_examples`, at least 1 and at most all, without replacement."""
        validate.at_least(1, batch_size=batch_size)
        validate.at_least(batch_size, num_examples=num_examples)
        return Sampling("fixed-size", batch_size / num_examples, num_examples)


WHOLE = Sampling("whole")
FRESH = Sampling("fresh")


def check_combination(sampling: Sampling, relation: Relation, noise: Noise = "gaussian") -> Accountant:
    """The accountant for this sampling under this relation.

    Raises:
      CombinationError: if there is none, saying what goes with either; or if it does not know this noise.
      TypeError: if one of them is something else, such as the name of a relation.
      ValueError: if the noise is of no known kind.

    Example:
      >>> check_combination(Sampling.fixed_size(10, 100), Relation.REPLACE_ONE)
      'PLD'
    """
    validate.instance(Sampling, sampling=sampling)
    validate.instance(Relation, relation=relation)
    accountant = ALLOWED.get((sampling.scheme, relation))
    if accountant is None:
        relations = _either(str(r) for s, r in ALLOWED if s == sampling.scheme)
        schemes = _either(s for s, r in ALLOWED if r == relation)
        raise CombinationError(
            f"Expected sampling={sampling.scheme} with relation {relations}, got {relation}; "
            f"{relation} goes with sampling {schemes}."
        )
    validate.one_of(get_args(Noise), noise=noise)
    if noise != "gaussian" and accountant != "exact":
        raise CombinationError(
            f"Expected noise='gaussian' with sampling={sampling.scheme}, got {noise!r}, which goes with sampling whole "
            "or fresh."
        )
    return accountant


def _either(words: Iterable[str]) -> str:
    *rest, last = words
    return f"{', '.join(rest)} or {last}" if rest else last
