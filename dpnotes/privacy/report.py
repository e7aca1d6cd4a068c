"""A guarantee as a page to read: one fact a line, what it rests on, and what its user has to make sure of."""

import math
from textwrap import fill

from dpnotes.guarantees import SEED_IS_PUBLIC, Guarantee, Relation
from dpnotes.privacy import risk

_PROTECTS = {
    Relation.REPLACE_ONE: "which of two values one example has (replace-one)",
    Relation.ADD_OR_REMOVE: "whether one example is in the data (add-or-remove-one)",
    Relation.ZERO_OUT: "whether one example contributes (zero-out-one; the number of examples is public)",
}
_DEMONSTRATION = "DEMONSTRATION: the seed is known, so that anyone can take the noise off. With a secret seed:"
_WIDTH, _NAMES = 100, 14


def report(guarantee: Guarantee) -> str:
    """A guarantee in plain words, one fact a line: numbers rounded up, premises, your part, and what is not covered.

    Args:
      guarantee: of a run, or of `privacy.accounting`.

    Example:
      >>> print(report(Guarantee(2.0, 1e-5, Relation.ZERO_OUT, "PLD", (SEED_IS_PUBLIC,), ("parameters tuned on it",))))
      DEMONSTRATION: the seed is known, so that anyone can take the noise off. With a secret seed:
      protects      whether one example contributes (zero-out-one; the number of examples is public)
      epsilon       2
      delta         1e-05
      computed by   PLD
      in words      An attacker who knows all other examples and guesses with even odds whether your
                    example is used is right at most 88.1% of the time. That is what (epsilon, delta)
                    alone says; the releases, which are not known here, may allow less.
      not covered   parameters tuned on it
    """
    facts = [("protects", _PROTECTS[guarantee.relation])]
    broken = [each.statement for each in guarantee.assumptions if each.holds is False]
    if broken or guarantee.epsilon == math.inf or guarantee.delta >= 1:
        first = "NO GUARANTEE"
        facts = [("because", f"this did not hold: {each}") for each in broken]
        without = "epsilon is infinite" if guarantee.epsilon == math.inf else f"delta is {guarantee.delta:g}"
        facts = facts or [("because", f"{without}, which excludes nothing")]
    else:
        first = _DEMONSTRATION if SEED_IS_PUBLIC in guarantee.assumptions else ""
        facts += [
            *zip(("epsilon", "delta"), guarantee.printed, strict=True),
            ("computed by", guarantee.accountant),
            ("in words", risk.of(guarantee).sentence()),
        ]
        for each in guarantee.assumptions:
            if each.basis != "assumed":
                facts.append((each.basis, each.statement))
        facts += [
            ("you make sure", f"that {each.statement}")
            for each in guarantee.assumptions
            if each.basis == "assumed" and each != SEED_IS_PUBLIC
        ]
    facts += [("not covered", each) for each in guarantee.not_covered]
    lines = [
        fill(text, _WIDTH, initial_indent=f"{name:<{_NAMES}}", subsequent_indent=" " * _NAMES) for name, text in facts
    ]
    return "\n".join([first, *lines] if first else lines)
