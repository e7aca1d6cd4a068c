"""Privacy guarantees, with their neighbouring relation, sampling and assumptions.

The constants below are the recurring assumptions and exclusions, each worded once. If an assumption that a run checked
did not hold, the guarantee claims nothing: its epsilon is infinite.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from decimal import ROUND_CEILING, Context
from enum import StrEnum
from typing import Any, Literal, get_args

from dpnotes.util import validate
from dpnotes.util.validate import AtLeastOne, AtLeastZero, NonNegative, Positive, checked

Basis = Literal["proved", "enforced", "checked", "measured", "assumed"]


class Relation(StrEnum):
    """The neighbouring relation of data sets. Sampling, sensitivity and accountant must use the same relation."""

    REPLACE_ONE = "replace-one"  # one example is exchanged for any other
    ADD_OR_REMOVE = "add-or-remove-one"  # one example more or less; normalisers are public constants
    ZERO_OUT = "zero-out-one"  # one example's contribution becomes zero; the number of examples is public


@checked
@dataclass(frozen=True)
class Assumption:
    """An assumption of a guarantee; `holds` is None where nothing in the run could check it."""

    statement: str
    basis: Basis
    holds: bool | None = None


@checked
@dataclass(frozen=True)
class Guarantee:
    """An (epsilon, delta) claim with its neighbouring relation, accountant, assumptions and exclusions.

    Args:
      nominal_epsilon: the accountant's epsilon, at least 0, whether or not the assumptions held; infinite where nothing
        is claimed. The claimed value is the property `epsilon`.
      delta: claimed together with epsilon, at least 0; a delta of 1 or more claims nothing.
      relation: which data sets are neighbours.
      accountant: the method that computed the two numbers.
      assumptions: the assumptions that the claim depends on.
      not_covered: quantities that depend on the data and are not part of the claim.

    Attributes:
      events: the releases that the accountant saw (`privacy.events.Event`), empty if they are not known. They follow
        the claim by `with_events` only: `dataclasses.replace`, a file and `together` drop them, since another delta may
        hold the probability of a failure that the releases do not show.

    Raises:
      ValueError: outside these domains.
      TypeError: if a number or the relation has another type.

    Example:
      >>> print(Guarantee(1.0, 1e-5, Relation.ZERO_OUT, "PLD", (SEED_IS_PUBLIC,), (TUNED_ON_PRIVATE_DATA,)))
      (1, 1e-05)-DP, zero-out-one, by PLD, assuming that the seed is secret and nothing else is drawn from it (this
      run's seed is known, so that it is a demonstration); NOT covered: parameters tuned on the private data
      >>> broken = Guarantee(1.0, 1e-5, Relation.ZERO_OUT, "PLD", (bound_was_checked(2.5, exceeded=3, checked=1000),))
      >>> broken.holds, broken.epsilon, broken.nominal_epsilon
      (False, inf, 1.0)
    """

    nominal_epsilon: float
    delta: NonNegative
    relation: Relation
    accountant: str
    assumptions: tuple[Assumption, ...] = ()
    not_covered: tuple[str, ...] = ()
    events: tuple[Any, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        validate.or_infinite(validate.non_negative, nominal_epsilon=self.nominal_epsilon)

    @property
    def holds(self) -> bool:
        """Return whether no assumption was found not to hold."""
        return all(a.holds is not False for a in self.assumptions)

    @property
    def epsilon(self) -> float:
        """The claimed epsilon: infinite if an assumption that was checked failed."""
        return self.nominal_epsilon if self.holds else math.inf

    @property
    def printed(self) -> tuple[str, str]:
        """The claimed epsilon and delta as texts, rounded up."""
        return _rounded_up(self.epsilon, 4), _rounded_up(self.delta, 6)

    def with_events(self, events: Iterable[Any]) -> "Guarantee":
        """Return this claim with the releases that it was computed from, for `privacy.risk`.

        Args:
          events: `privacy.events.Event`, all with the relation of the claim.

        Raises:
          CombinationError: if one has another relation.

        Example:
          >>> Guarantee(1.0, 1e-5, Relation.ZERO_OUT, "PLD").with_events([]).events
          ()
        """
        events = tuple(events)
        if not all(event.relation is self.relation for event in events):
            raise CombinationError(f"Expected events with the relation of the claim, {self.relation}.")
        claim = replace(self)
        object.__setattr__(claim, "events", events)
        return claim

    def __str__(self) -> str:
        if broken := [a.statement for a in self.assumptions if a.holds is False]:
            return f"no guarantee, since this did not hold: {'; '.join(broken)}"
        claim = f"({', '.join(self.printed)})-DP, {self.relation}, by {self.accountant}"
        for basis in get_args(Basis):
            if statements := "; ".join(a.statement for a in self.assumptions if a.basis == basis):
                claim += f", assuming that {statements}" if basis == "assumed" else f", {basis}: {statements}"
        return claim + (f"; NOT covered: {'; '.join(self.not_covered)}" if self.not_covered else "")


def as_json(guarantee: Guarantee, **more: Any) -> str:
    """The guarantee as JSON without its events, together with the entries of `more`, which `from_json` ignores.

    Example:
      >>> guarantee = Guarantee(1.0, 1e-5, Relation.ZERO_OUT, "PLD", (REAL_NUMBERS,))
      >>> from_json(as_json(guarantee, training="a1")) == guarantee
      True
    """
    said = asdict(replace(guarantee))
    del said["events"]
    return json.dumps({**said, **more})


def from_json(text: str) -> Guarantee:
    """The guarantee that `as_json` wrote.

    Raises:
      ValueError: if the text is not a guarantee in that format.
    """
    try:
        said = json.loads(text)
        known = {each.name: said[each.name] for each in fields(Guarantee) if each.init}
        assumptions = tuple(Assumption(**each) for each in known["assumptions"])
        relation, not_covered = Relation(known["relation"]), tuple(known["not_covered"])
        return Guarantee(**known | {"relation": relation, "assumptions": assumptions, "not_covered": not_covered})
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"Expected {validate.shown('text', text)} to be a guarantee ({error!r}).") from None


def _rounded_up(number: float, digits: int) -> str:
    """The number rounded up to `digits` significant digits: a printed value must not be below the claimed one."""
    return f"{float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(number)))):.{digits}g}"


SEED_IS_PUBLIC = Assumption(
    "the seed is secret and nothing else is drawn from it (this run's seed is known, so that it is a demonstration)",
    "assumed",
)
NOISE_IS_SECRET = Assumption("noise came from the operating system, is random and was not stored", "assumed")
REAL_NUMBERS = Assumption("arithmetic is exact (this run used floating point)", "assumed")
ROUNDED_ONCE = Assumption(
    "answer and noise are added as real numbers are, and rounded once to a public grid", "enforced", True
)
EXACT_SUMS = Assumption(
    "sums are exact (in float32, 20,000 terms moved one by .0025 more than its sensitivity), and nobody sees how long "
    "the run takes or an error that ends it",
    "assumed",
)
GIVEN_IS_PUBLIC = Assumption(
    "the starting point and everything else that the run was given do not depend on the data (the releases of an "
    "earlier run on them add its epsilon and delta), and no example was made from others (as by normalisation)",
    "assumed",
)
SHARED_NOISE = Assumption("of the runs that share their noise only one is published", "assumed")

COSTS_ARE_PUBLIC = Assumption("the budget of each of them was fixed without looking at the data", "assumed")

OVERSPENT = Assumption("the run spent no more than was declared for it", "checked", False)

EXAMPLES_APART = Assumption("nothing of an example enters another one's gradient", "assumed")
SHOWN_ALONE = Assumption(
    "each example's loss and gradient depend only on that example, the parameters and randomness that does not depend "
    "on the data; nothing that the code keeps reaches a later release (it receives one example at a time, and is not "
    "checked further)",
    "assumed",
)
EXAMPLES_MIX = Assumption(f"{EXAMPLES_APART.statement} (the module mixes them)", "checked", False)


def examples_apart(problem: Any) -> tuple[Assumption, ...]:
    """The assumptions under which no example enters another one's gradient; none if the problem ensures it itself.

    Example:
      >>> import torch
      >>> from dpnotes.problems.quadratics import Quadratic
      >>> examples_apart(Quadratic.sample(torch.tensor([1.0]), num_examples=5, spread=0.5, seed=0))
      ()
    """
    vouched = tuple(
        Assumption(f"{name} treats each example by itself and keeps nothing of it (vouched for by name)", "assumed")
        for name in getattr(problem, "vouched", ())
    )
    if getattr(problem, "keeps_examples_apart", False):  # a problem without the attribute may mix its examples
        return vouched
    if getattr(problem, "mixes_examples", False):
        return (EXAMPLES_MIX,)
    return (EXAMPLES_APART if getattr(problem, "opens", None) is None else SHOWN_ALONE, *vouched)


BATCH_NORM = "statistics of batch normalisation (they mix examples, and running ones are released without noise)"
TUNED_ON_PRIVATE_DATA = "parameters tuned on the private data"
STATISTICS_WITHOUT_NOISE = "statistics of the private data that were released without noise"


def assumptions_of_runs(
    *, secret_seed: bool, shared_noise: bool = False, rounded_once: bool = False
) -> tuple[Assumption, ...]:
    """The assumptions of every run on a computer; every function that returns a run's guarantee attaches them.

    An accountant analyses mechanisms as they are defined; these assumptions concern their execution.

    Args:
      secret_seed: whether the random numbers came from the operating system (`Streams.secret`).
      shared_noise: whether some of the runs have equal keys.
      rounded_once: whether all mechanisms round once to a grid on secret streams (`privacy.mechanisms.is_exact`).

    Example:
      >>> [a.basis for a in assumptions_of_runs(secret_seed=True, rounded_once=True)]
      ['assumed', 'enforced', 'assumed', 'assumed']
    """
    validate.flag(secret_seed=secret_seed, shared_noise=shared_noise, rounded_once=rounded_once)
    arithmetic = (ROUNDED_ONCE, EXACT_SUMS) if secret_seed and rounded_once else (REAL_NUMBERS,)
    seed = NOISE_IS_SECRET if secret_seed else SEED_IS_PUBLIC
    return seed, *arithmetic, GIVEN_IS_PUBLIC, *([SHARED_NOISE] if shared_noise else [])


def rest_of(*parts: Iterable[Assumption]) -> tuple[Assumption, ...]:
    """The union of several claims' assumptions, without `ROUNDED_ONCE` if one of them assumes `REAL_NUMBERS`.

    Example:
      >>> rest_of([ROUNDED_ONCE, GIVEN_IS_PUBLIC], [REAL_NUMBERS, GIVEN_IS_PUBLIC]) == (GIVEN_IS_PUBLIC, REAL_NUMBERS)
      True
    """
    found = dict.fromkeys(each for part in parts for each in part)
    return tuple(each for each in found if each != ROUNDED_ONCE or REAL_NUMBERS not in found)


def together(claims: Iterable[Guarantee]) -> Guarantee:
    """The guarantee of several runs on the same data, composed sequentially.

    Epsilons and deltas add up; one accountant for all releases together may give a smaller total.

    Args:
      claims: one or more, for the same neighbours. The other inputs of a run, such as its initial point, may come from
        earlier runs.

    Raises:
      ValueError: for no claims, or claims for different neighbours.
      TypeError: if an entry is not a `Guarantee`.

    Example:
      >>> one = Guarantee(1.0, 1e-5, Relation.ZERO_OUT, "PLD", (NOISE_IS_SECRET,))
      >>> print(together([one, one]))
      (2, 2e-05)-DP, zero-out-one, by the sum of 2 claims (PLD), assuming that noise came from the operating system, is
      random and was not stored; the budget of each of them was fixed without looking at the data
    """
    claims = tuple(claims)
    for number, claim in enumerate(claims):
        validate.instance(Guarantee, **{f"claims[{number}]": claim})
    if len({claim.relation for claim in claims}) != 1:
        raise ValueError(f"Expected claims={[claim.relation.value for claim in claims]} to be for the same neighbours.")
    if len(claims) == 1:
        return claims[0]
    rests = rest_of(*(claim.assumptions for claim in claims))
    how = ", ".join(dict.fromkeys(claim.accountant for claim in claims))
    return Guarantee(
        sum(claim.nominal_epsilon for claim in claims),
        sum(claim.delta for claim in claims),
        claims[0].relation,
        f"the sum of {len(claims)} claims ({how})",
        (*rests, COSTS_ARE_PUBLIC),
        tuple(dict.fromkeys(each for claim in claims for each in claim.not_covered)),
    )


@checked
def bound_was_checked(bound: Positive, exceeded: AtLeastZero, checked: AtLeastOne) -> Assumption:
    """The assumption that unclipped norms stay below a bound, with the violations that a run observed.

    A sensitivity based on an unenforced bound is invalid as soon as a single example exceeds the bound: such a run
    claims nothing. If no example exceeded it, that is true of this data set only and says nothing about its neighbours.

    Args:
      bound: C, above 0.
      exceeded: the number of values above the bound, at least 0; an exact count that no guarantee covers.
      checked: the number of values compared with the bound, at least 1.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> bound_was_checked(2.5, exceeded=3, checked=1000)
      Assumption(statement='every gradient norm is at most 2.5 (exceeded by 3 of 1000)', basis='checked', holds=False)
    """
    if exceeded > checked:
        raise ValueError(f"Expected exceeded={exceeded} <= checked={checked}.")
    statement = f"every gradient norm is at most {bound:g} (exceeded by {exceeded} of {checked})"
    return Assumption(statement, "checked", exceeded == 0)


# ---------------------------------------------------------------- sampling
Scheme = Literal["whole", "fresh", "poisson", "fixed-size"]
Accountant = Literal["exact", "PLD"]
# What is known of a release: Gaussian or Laplace noise; or only that it is epsilon-DP ("pure"), or rho-zCDP ("zcdp").
Noise = Literal["gaussian", "laplace", "pure", "zcdp"]

# The accountant of each supported pair of sampling scheme and relation. We trust no accountant for the other pairs:
# under add-or-remove-one, one more example changes which of the other examples are in a batch of fixed size, fresh or
# random; a Poisson batch under replace-one needs the norms of the contributions, not only the norm of their difference.
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
    """The error for sampling, relation, sensitivity, mechanism and accountant that do not go together."""


@checked
@dataclass(frozen=True)
class Sampling:
    """The rule that selects the examples of a release.

    Args:
      scheme: "whole" (all), "fresh" (a batch of public size that no other release touches), "poisson" (each example
        independently; the size of the batch is private) or "fixed-size" (a batch drawn without replacement).
      rate: the probability that a random batch holds a given example, in (0, 1]; 1 for the other schemes.
      num_examples: the number of examples from which a fixed-size batch of `rate * num_examples` is drawn; else 1.

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
    rate: Positive = 1.0
    num_examples: AtLeastOne = 1

    def __post_init__(self) -> None:
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
        """The number of examples in a batch of fixed size."""
        return round(self.rate * self.num_examples)

    @staticmethod
    def poisson(rate: float) -> "Sampling":
        """Poisson sampling: each example enters independently with probability `rate`, in (0, 1]."""
        return Sampling("poisson", rate)

    @staticmethod
    def fixed_size(batch_size: int, num_examples: int) -> "Sampling":
        """A batch of `batch_size` of `num_examples` examples, from 1 to all, drawn without replacement."""
        validate.at_least(1, batch_size=batch_size)
        validate.at_least(batch_size, num_examples=num_examples)
        return Sampling("fixed-size", batch_size / num_examples, num_examples)


WHOLE = Sampling("whole")
FRESH = Sampling("fresh")


def check_combination(sampling: Sampling, relation: Relation, noise: Noise = "gaussian") -> Accountant:
    """The accountant for this sampling under this relation.

    Raises:
      CombinationError: if there is none (the message lists the valid ones), or if it does not support this noise.
      TypeError: if an argument has another type, such as the name of a relation.
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
