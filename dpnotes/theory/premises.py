"""Premises: a claim that is confirmed, but rests on a claim that falls, is confirmed conditionally.

A claim declares its premises: the ids of the claims that its derivation uses as printed. A premise falls if its own
verdict refutes it (contradicted, not implied, units differ; proof gaps are among these), or if one of its premises
falls. A cited or restated claim stands, because nothing is known against it.
"""

from collections.abc import Callable, Mapping

from dpnotes.theory.claims import Claim
from dpnotes.theory.verdicts import SILENT, Verdict


def fallen(claim: Claim, claims: Mapping[str, Claim], verdict: Callable[[Claim], Verdict]) -> tuple[str, ...]:
    """Return the ids of the refuted claims that a claim rests on, directly or through other claims.

    Args:
      claim: the claim.
      claims: the claims among which the premises are looked up, by id.
      verdict: from a claim to the verdict on its printed statement.

    Raises:
      ValueError: a premise is no claim, or a claim rests on itself through others.

    >>> from dpnotes.papers import claim, claims
    >>> known = {other.id: other for other in claims("adaptive_batch")}
    >>> fallen(claim("adaptive_batch.remark3.12"), known, lambda other: other.check())
    ('adaptive_batch.lemma3.3.decrease',)
    """
    found: dict[str, None] = {}

    def visit(one: Claim, above: tuple[str, ...]) -> None:
        for name in one.premises:
            if name not in claims:
                raise ValueError(f"Expected the premises of {one.id} to be claims, got {name}.")
            if name in above:
                raise ValueError(f"Expected premises without a circle, got {' -> '.join([*above, name])}.")
            found_there = verdict(claims[name])
            if not found_there.confirms and found_there.kind not in SILENT:
                found[name] = None
            visit(claims[name], (*above, name))

    visit(claim, (claim.id,))
    return tuple(found)


def word(verdict: Verdict, fallen: tuple[str, ...]) -> str:
    """The word of a verdict; for a confirmed claim also its premises that fall.

    >>> from dpnotes.theory.verdicts import Kind
    >>> word(Verdict(Kind.EXACT, "proved"), ("adaptive_batch.lemma3.3.decrease",))
    'exact, given lemma3.3.decrease'
    >>> word(Verdict(Kind.EXACT, "proved"), ("a.lemma1", "a.lemma2", "a.lemma3"))
    'exact, given lemma1, lemma2 and lemma3'
    >>> word(Verdict(Kind.CONTRADICTED, "1 > 0"), ("adaptive_batch.lemma3.3.decrease",))
    'contradicted'
    """
    if not fallen or not verdict.confirms:
        return str(verdict.kind)
    *others, last = (name.split(".", 1)[1] for name in fallen)
    return f"{verdict.kind}, given {', '.join(others)} and {last}" if others else f"{verdict.kind}, given {last}"
