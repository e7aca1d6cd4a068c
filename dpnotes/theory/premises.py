"""What a claim rests on: a claim that is confirmed, but rests on one that falls, is confirmed conditionally.

A claim declares its premises, the ids of claims that its derivation takes as printed. A premise falls where its own
verdict does not confirm it (contradicted, not implied, units differ; a proof gap is one of these), or where one of its
premises falls. What is cited or restated stands: nothing is known against it.
"""

from collections.abc import Callable, Mapping

from dpnotes.theory.claims import Claim
from dpnotes.theory.verdicts import SILENT, Verdict


def fallen(claim: Claim, claims: Mapping[str, Claim], verdict: Callable[[Claim], Verdict]) -> tuple[str, ...]:
    """The ids of the claims, on which a claim rests directly or through others, that do not stand by themselves.

    Args:
      claim: the claim.
      claims: those among which its premises are looked up, by id.
      verdict: of a claim as printed.

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
    """The word of a verdict, with the premises that a confirmed claim needs although they fall.

    >>> from dpnotes.theory.verdicts import Kind
    >>> word(Verdict(Kind.EXACT, "proved"), ("adaptive_batch.lemma3.3.decrease",))
    'exact, given lemma3.3.decrease'
    >>> word(Verdict(Kind.CONTRADICTED, "1 > 0"), ("adaptive_batch.lemma3.3.decrease",))
    'contradicted'
    """
    if not fallen or not verdict.confirms:
        return str(verdict.kind)
    return f"{verdict.kind}, given {' and '.join(name.split('.', 1)[1] for name in fallen)}"
