"""Methods: what an algorithm promises, the claims that the promise rests on, and whether they stand."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotes.theory.calculators import Calculator, Measure
from dpnotes.theory.claims import Claim, Severity
from dpnotes.theory.orders import ROUNDING, UNITS, Named, Order, as_named, log_of
from dpnotes.theory.rates import Rate
from dpnotes.theory.verdicts import SILENT, Verdict

if TYPE_CHECKING:
    from dpnotes.theory.cache import Verdicts

Given = Mapping[str, Any]  # numbers by common name
SERIOUS = frozenset({Severity.PROOF, Severity.RATE})  # errata that can move an order; the others move its constants


class Standing(StrEnum):
    """The standing of a promise, the best first."""

    STANDS = "stands"
    CONDITIONAL = "conditional"  # on a claim that falls
    QUOTED = "quoted"  # from a source whose proof was not checked
    OPEN = "open"  # a claim of its own falls, and has no correction that is confirmed


@dataclass(frozen=True)
class Condition:
    """An assumption of a promise: a monomial in common names is at most 1.

    Args:
      text: the words of a refusal. `{name}` is a number, `{accuracy}` that of the order, and `{limit}` the largest
        or smallest allowed value of the first name of `powers`.
      powers: the powers of the monomial by common name; `accuracy` is the order's.
      state: "refused", or "masked" if the promise says nothing of such a problem.
      of: the order that `accuracy` means, if it is not the promise's own.

    >>> few = Condition("expected n={num_examples:g} >= d={limit:g}", {"num_examples": -1, "dim": 1})
    >>> few.failure({"dim": 3, "num_examples": 2})
    'expected n=2 >= d=3'
    """

    text: str
    powers: Mapping[str, Fraction | int]
    state: str = "refused"
    of: Order | None = None

    def limits(self, order: Order | None) -> tuple[Named, ...]:
        """Return the condition as monomials that are at most 1, one for each monomial of the order if it needs one."""
        powers = {name: power for name, power in self.powers.items() if name != "accuracy"}
        if not (power := self.powers.get("accuracy")):
            return (as_named(powers),)
        of = self.of or order
        assert of is not None
        return tuple(as_named(powers, {name: p * power for name, p in monomial}) for monomial in of.monomials)

    def failure(self, given: Given, order: Order | None = None) -> str:
        """Return the words of a refusal at these numbers, or "" where the condition holds, up to rounding."""
        logs = {name: math.log(value) for name, value in given.items() if name in UNITS}
        largest = max(log_of(monomial, logs) for monomial in self.limits(order))
        if largest <= ROUNDING:
            return ""
        name, power = next(iter(self.powers.items()))
        numbers = dict(given)
        if of := (self.of or order):
            logs["accuracy"] = of.log(logs)
            numbers["accuracy"] = of(given)
        with np.errstate(over="ignore"):
            return self.text.format(**numbers, limit=np.exp(logs[name] - largest / float(power)))


@dataclass(frozen=True)
class Method:
    """An algorithm with its promise, as declared by the paper that states it.

    Args:
      name: its name.
      measure: the quantity that its accuracy bounds.
      claims: the claims that the order is taken from, as corrected where they have a correction.
      order: the order of the accuracy, as re-derived; None if `proved` alone gives the accuracy.
      printed: the order as printed; None if no print states it.
      premises: the claims that the analysis uses as printed.
      source: the publication that it is quoted from, if its proof is not one of the five papers'.
      parameters: a function from numbers by common name, and the accuracy, to what it runs with (`PARAMETERS`).
      proved: a function from numbers by common name to the accuracy that a proof gives, with all constants.
      assumed: what `proved` assumes beyond the numbers of the problem; may name them as `{condition_number}`.
      domain: conditions outside of which nothing is promised.
      relation: the relation of neighbouring data sets, in words.
      experiment: the nearest stored experiment.
      by_clients: whether its promise covers several clients.
      floor: whether it is a lower bound, which no method beats.
      note: what is assumed, or a remark, in one sentence.
    """

    name: str
    measure: Measure
    claims: tuple[Claim, ...]
    order: Order | None = None
    printed: Order | None = None
    premises: tuple[Claim, ...] = ()
    source: str = ""
    parameters: Callable[[Given, float], Mapping[str, Any]] | None = None
    proved: Callable[[Given], float] | None = None
    assumed: str = ""
    domain: tuple[Condition, ...] = ()
    relation: str = "replace-one"
    experiment: str = ""
    by_clients: bool = False
    floor: bool = False
    note: str = ""

    @property
    def paper(self) -> str:
        """The paper that declares it."""
        return self.claims[0].paper

    def conditions(self, order: Order | None) -> tuple[Condition, ...]:
        """Return all conditions of the promise with this order: those of its setting come first."""
        alone = Condition("no theorem for {clients:g} clients", {"clients": 1}, "masked")
        unit = [
            Condition(f"its source sets {name} to 1, and the units do not tell more", {name: sign}, "masked")
            for name in (order.normalised if order else ())
            for sign in (1, -1)
        ]
        return (*([] if self.by_clients else [alone]), *unit, *self.domain)

    def applies(self, order: Order | None) -> Order | None:
        """Return one of its orders, infinite where a condition of the promise fails."""
        if order is None:
            return None
        return replace(order, limits=tuple(m for one in self.conditions(order) for m in one.limits(order)))


# The names of what `Method.parameters` returns: evaluations of gradients and of the loss, examples in a batch, noise of
# a coordinate in F/x, steps, step size in x^2/F, and the delta that this noise and the printed one reach.
PARAMETERS = (
    "gradients", "function_values", "batch", "noise", "steps", "step_size", "delta_reached", "delta_printed",
)  # fmt: skip


def standing(method: Method, verdicts: "Verdicts") -> tuple[Standing, str]:
    """Return whether the promise of a method stands, with the reason.

    A claim of the order counts as corrected, a premise as printed. Only an erratum that can move an order (`SERIOUS`),
    or a refuted claim without an erratum, weighs.

    >>> from dpnotes import papers
    >>> from dpnotes.theory.cache import Verdicts
    >>> with Verdicts() as verdicts:
    ...     for method in papers.methods()[:1]:
    ...         print(*standing(method, verdicts), sep=": ")
    conditional: given adaptive_batch.lemma3.3.decrease, which is refuted
    """
    from dpnotes.theory.cache import claims_of

    both = (*method.claims, *method.premises)

    def holds(found: Verdict | None) -> bool:
        return found is not None and (found.confirms or found.kind in SILENT)

    def weighs(claim: Claim) -> bool:
        return not holds(verdicts.of(claim)) and (claim.erratum is None or claim.erratum.severity in SERIOUS)

    def fallen(claim: Claim) -> list[str]:
        known = {other.id: other for other in (*claims_of(claim.paper), *both)}
        return [name for name in verdicts.fallen(claim) if weighs(known[name])]

    open_ = [c.id for c in method.claims if weighs(c) and not holds(verdicts.of_correction(c))]
    given = [name for claim in both for name in fallen(claim)] + [c.id for c in method.premises if weighs(c)]
    if open_:
        return Standing.OPEN, f"{_listed(open_)} refuted, without a correction that is confirmed"
    if given:
        return Standing.CONDITIONAL, f"given {_listed(given)} refuted"
    if method.source:
        return Standing.QUOTED, f"{method.source}; its proof was not checked"
    changed = [f"{c.id} ({c.erratum.severity})" for c in both if c.erratum]
    return Standing.STANDS, f"as re-derived; errata in {', '.join(changed)}" if changed else ""


def named(claims: Iterable[Claim], *places: str) -> tuple[Claim, ...]:
    """Return the claims at these places of a paper.

    Raises:
      KeyError: there is no such claim.

    >>> from dpnotes.papers.goldstein.claims import CLAIMS
    >>> [claim.title for claim in named(CLAIMS, "thm3.1.rate")]
    ['Sample size of one pass']
    """
    known = {claim.id.split(".", 1)[1]: claim for claim in claims}
    return tuple(known[place] for place in places)


def stated(claim: Claim, *logs: str) -> Order:
    """Return the order that a claim states, as printed; `logs` are letters of logarithms, as for `Order.of`.

    Raises:
      ValueError: its statement is no rate of an accuracy or a sample size in common names.

    >>> from dpnotes.papers import claim
    >>> str(stated(claim("adaptive_batch.thmA.2.gradient")))
    'dim^(1/2) lipschitz num_examples^(-1/2)'
    """
    if not isinstance(claim.statement, Rate):
        raise ValueError(f"Expected {claim.id} to state a rate, got {type(claim.statement).__name__}.")
    return Order.of(claim.statement, *logs)


def order(claim: Claim) -> Order:
    """Return the order that a claim states, corrected where an erratum corrects it.

    Raises:
      ValueError: as `stated`.

    >>> from dpnotes.papers import claim
    >>> len(order(claim("drift_escape.thm2.constants")).monomials)
    3
    """
    return stated(claim.correction() or claim)


def run(found: Mapping[str, Any], **letters: str) -> dict[str, Any]:
    """Return the results of a calculator under the names of `PARAMETERS`, with `delta_reached`.

    Args:
      found: the results.
      **letters: for each name the calculator's letter.

    >>> run({"T": 3.0, "delta_reached": 0.1}, steps="T")
    {'delta_reached': 0.1, 'steps': 3.0}
    """
    letters = {"delta_reached": "delta_reached", **letters}
    return {name: found[letter] for name, letter in letters.items()}


def printed_delta(calculator: Calculator, given: Given, **own: Any) -> dict[str, float]:
    """Return the delta that the printed noise reaches, by its name in `PARAMETERS`; nothing where it is refused.

    >>> from dpnotes.papers.adaptive_batch.calculators import TREE
    >>> given = {"lipschitz": 1.0, "epsilon": 1.0, "delta": 1e-6}
    >>> {name: f"{value:.3f}" for name, value in printed_delta(TREE, given, b=10, Sigma=1).items()}
    {'delta_printed': '1.000'}
    """
    try:
        return {"delta_printed": calculator.at(given, **own, constants="paper")["delta_reached"]}
    except ValueError:
        return {}


def _listed(names: list[str]) -> str:
    unique = list(dict.fromkeys(names))
    return f"{' and '.join(unique)}, which {'is' if len(unique) == 1 else 'are'}"
