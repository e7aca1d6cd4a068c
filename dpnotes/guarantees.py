"""What may be claimed, for which neighbours, resting on what, and what the claim leaves out.

The values below are the assumptions and the gaps that come up again and again, said once and in the same words. Nothing
is claimed while something that a run checked did not hold: epsilon is infinite then.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from decimal import ROUND_CEILING, Context
from enum import StrEnum
from typing import Any, Literal, get_args

from dpnotes import validate

Basis = Literal["proved", "enforced", "checked", "measured", "assumed"]


class Relation(StrEnum):
    """When two data sets are neighbours. Sampling, sensitivity and accountant must be for the same one."""

    REPLACE_ONE = "replace-one"  # one example is exchanged for any other
    ADD_OR_REMOVE = "add-or-remove-one"  # one example more or less; normalisers are public constants
    ZERO_OUT = "zero-out-one"  # one example's contribution becomes zero; the number of examples is public


@dataclass(frozen=True)
class Assumption:
    """What a guarantee rests on; `holds` is None where nothing in the run could check it."""

    statement: str
    basis: Basis
    holds: bool | None = None

    def __post_init__(self) -> None:
        validate.one_of(get_args(Basis), basis=self.basis)
        validate.or_none(validate.flag, holds=self.holds)


@dataclass(frozen=True)
class Guarantee:
    """What may be claimed, for which neighbours, computed by whom, resting on what, and leaving out what.

    Args:
      nominal_epsilon: what the accountant computed, at least 0, whether or not the assumptions held; `epsilon` is what
        is claimed. Infinite where nothing is.
      delta: what is claimed with it, at least 0; from 1 on nothing is.
      relation: which data sets are neighbours.
      accountant: how the two numbers were found.
      assumptions: what the claim rests on.
      not_covered: what depends on the data and is left out.

    Raises:
      ValueError: outside these domains, or
      TypeError: for what is no number or no relation.

    Example:
      >>> print(Guarantee(1.0, 1e-5, Relation.ZERO_OUT, "PLD", (SEED_IS_PUBLIC,), (TUNED_ON_PRIVATE_DATA,)))
      (1, 1e-05)-DP, zero-out-one, by PLD, assuming that the seed is secret and nothing else is drawn from it (seed
      secret: no (reproducible demonstration); epsilon is the mechanism's, not the file's); NOT covered: parameters
      tuned on the private data
      >>> broken = Guarantee(1.0, 1e-5, Relation.ZERO_OUT, "PLD", (bound_was_checked(2.5, exceeded=3, checked=1000),))
      >>> broken.holds, broken.epsilon, broken.nominal_epsilon
      (False, inf, 1.0)
    """

    nominal_epsilon: float
    delta: float
    relation: Relation
    accountant: str
    assumptions: tuple[Assumption, ...] = ()
    not_covered: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        validate.or_infinite(validate.non_negative, nominal_epsilon=self.nominal_epsilon)
        validate.non_negative(delta=self.delta)
        validate.instance(Relation, relation=self.relation)
        validate.instance(tuple, assumptions=self.assumptions, not_covered=self.not_covered)
        for assumption in self.assumptions:
            validate.instance(Assumption, assumptions=assumption)

    @property
    def holds(self) -> bool:
        """Whether nothing that was checked failed."""
        return all(a.holds is not False for a in self.assumptions)

    @property
    def epsilon(self) -> float:
        """What is claimed: infinite where something that was checked failed."""
        return self.nominal_epsilon if self.holds else math.inf

    def __str__(self) -> str:
        if broken := [a.statement for a in self.assumptions if a.holds is False]:
            return f"no guarantee, since this did not hold: {'; '.join(broken)}"
        numbers = f"{_rounded_up(self.epsilon, 4)}, {_rounded_up(self.delta, 6)}"
        claim = f"({numbers})-DP, {self.relation}, by {self.accountant}"
        for basis in get_args(Basis):
            if statements := "; ".join(a.statement for a in self.assumptions if a.basis == basis):
                claim += f", assuming that {statements}" if basis == "assumed" else f", {basis}: {statements}"
        return claim + (f"; NOT covered: {'; '.join(self.not_covered)}" if self.not_covered else "")


def as_json(guarantee: Guarantee, **more: Any) -> str:
    """A guarantee as JSON, with the entries of `more`, which `from_json` ignores.

    Example:
      >>> guarantee = Guarantee(1.0, 1e-5, Relation.ZERO_OUT, "PLD", (REAL_NUMBERS,))
      >>> from_json(as_json(guarantee, training="a1")) == guarantee
      True
    """
    return json.dumps({**asdict(guarantee), **more})


def from_json(text: str) -> Guarantee:
    """The guarantee that `as_json` wrote.

    Raises:
      ValueError: if the text is not one.
    """
    try:
        said = json.loads(text)
        known = {each.name: said[each.name] for each in fields(Guarantee)}
        assumptions = tuple(Assumption(**each) for each in known["assumptions"])
        relation, not_covered = Relation(known["relation"]), tuple(known["not_covered"])
        return Guarantee(**known | {"relation": relation, "assumptions": assumptions, "not_covered": not_covered})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        said = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"Expected {validate.shown('text', text)} to be a guarantee ({said}).") from None


def _rounded_up(number: float, digits: int) -> str:
    """To so many significant digits, and never to less: what is written is claimed, too."""
    return f"{float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(number)))):.{digits}g}"


SEED_IS_PUBLIC = Assumption(
    "the seed is secret and nothing else is drawn from it (seed secret: no (reproducible demonstration); epsilon is "
    "the mechanism's, not the file's)",
    "assumed",
)
NOISE_IS_SECRET = Assumption("noise came from the operating system, is random and was not stored", "assumed")
REAL_NUMBERS = Assumption("numbers are real (they are floating-point ones)", "assumed")
ROUNDED_ONCE = Assumption(
    "answer and noise are added as real numbers are, and rounded once to a public grid", "enforced", True
)
EXACT_SUMS = Assumption(
    "answers are sums as of real numbers (in float32 20,000 terms moved one by .0025 more than its sensitivity), and "
    "nobody sees how long the run takes or an error that ends it",
    "assumed",
)
GIVEN_IS_PUBLIC = Assumption(
    "where it starts, and all else it was given, owes nothing to the data (what an earlier run on them released adds "
    "that run's epsilon and delta), and no example was made from others, as by padding or normalisation",
    "assumed",
)
SHARED_NOISE = Assumption("of the runs that share their noise only one is published", "assumed")

COSTS_ARE_PUBLIC = Assumption("what each of them may cost was settled without looking at the data", "assumed")

OVERSPENT = Assumption("the run spent no more than was declared for it", "checked", False)

EXAMPLES_APART = Assumption("nothing of an example enters another one's gradient", "assumed")
SHOWN_ALONE = Assumption(
    "each example's loss and gradient depend on that example, the parameters and randomness that owes nothing to data, "
    "alone; nothing that the code keeps reaches a later release (it is shown one example at a time, and not checked "
    "further)",
    "assumed",
)
EXAMPLES_MIX = Assumption(f"{EXAMPLES_APART.statement} (the module mixes them)", "checked", False)


def examples_apart(problem: Any) -> tuple[Assumption, ...]:
    """What it rests on that an example's gradient is its own: nothing more where it is so by construction.

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
    if getattr(problem, "keeps_examples_apart", False):  # without the attribute nothing is known
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
    """What every run on a computer rests on, whatever it computes; all that returns a run's guarantee attaches it.

    An accountant knows mechanisms as they are defined; what a run adds to that is said here.

    Args:
      secret_seed: whether numbers came from the operating system (`Streams.secret`).
      shared_noise: whether runs of equal keys are among them.
      rounded_once: whether all mechanisms round once to a grid there (`privacy.mechanisms.is_exact`).

    Example:
      >>> [a.basis for a in assumptions_of_runs(secret_seed=True, rounded_once=True)]
      ['assumed', 'enforced', 'assumed', 'assumed']
    """
    validate.flag(secret_seed=secret_seed, shared_noise=shared_noise, rounded_once=rounded_once)
    arithmetic = (ROUNDED_ONCE, EXACT_SUMS) if secret_seed and rounded_once else (REAL_NUMBERS,)
    seed = NOISE_IS_SECRET if secret_seed else SEED_IS_PUBLIC
    return seed, *arithmetic, GIVEN_IS_PUBLIC, *([SHARED_NOISE] if shared_noise else [])


def rest_of(*parts: Iterable[Assumption]) -> tuple[Assumption, ...]:
    """What a claim rests on that is made of parts, each named once; what is enforced in some of them alone is not said.

    Example:
      >>> rest_of([ROUNDED_ONCE, GIVEN_IS_PUBLIC], [REAL_NUMBERS, GIVEN_IS_PUBLIC]) == (GIVEN_IS_PUBLIC, REAL_NUMBERS)
      True
    """
    found = dict.fromkeys(each for part in parts for each in part)
    return tuple(each for each in found if each != ROUNDED_ONCE or REAL_NUMBERS not in found)


def together(claims: Iterable[Guarantee]) -> Guarantee:
    """What may be claimed for all that several runs on the same data released, one after the other.

    Epsilons add up, and deltas; an accountant of all releases at once knows of less.

    Args:
      claims: one or more, for the same neighbours. What else a run was given, such as where it starts, may come from
        those before it.

    Raises:
      ValueError: for no claims, or claims for different neighbours.
      TypeError: for what is no claim.

    Example:
      >>> one = Guarantee(1.0, 1e-5, Relation.ZERO_OUT, "PLD", (NOISE_IS_SECRET,))
      >>> print(together([one, one]))
      (2, 2e-05)-DP, zero-out-one, by the sum of 2 claims (PLD), assuming that noise came from the operating system, is
      random and was not stored; what each of them may cost was settled without looking at the data
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


def bound_was_checked(bound: float, exceeded: int, checked: int, what: str = "gradient norm") -> Assumption:
    """The assumption that what is not clipped stays below a bound, with what the run saw of it.

    A sensitivity that rests on a bound nobody enforces is worth nothing once the bound was exceeded, by however few
    examples: such a run claims nothing. That none exceeded it says so of this data set only, not of its neighbours.

    Args:
      bound: C, above 0.
      exceeded: how many were longer, at least 0; exact, so covered by no guarantee itself.
      checked: how many were looked at, at least 1.
      what: what was compared with the bound.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> bound_was_checked(2.5, exceeded=3, checked=1000)
      Assumption(statement='every gradient norm is at most 2.5 (exceeded by 3 of 1000)', basis='checked', holds=False)
    """
    validate.positive(bound=bound)
    validate.at_least(1, checked=checked)
    validate.at_least(0, exceeded=exceeded)
    if exceeded > checked:
        raise ValueError(f"Expected exceeded={exceeded} <= checked={checked}.")
    statement = f"every {what} is at most {bound:g} (exceeded by {exceeded} of {checked})"
    return Assumption(statement, "checked", exceeded == 0)
