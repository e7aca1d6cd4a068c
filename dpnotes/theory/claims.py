"""Claims of papers, with verdicts that are computed and never stored.

A `Claim` is a place in a paper, a statement that can check itself, and, if the statement is wrong, an `Erratum` with
the corrected statement, which is checked by the same engine.
"""

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import sympy

from dpnotes.theory.calculators import Calculator
from dpnotes.theory.evaluation import writer
from dpnotes.theory.statements import Statement
from dpnotes.theory.symbols import symbols_of
from dpnotes.theory.verdicts import Verdict


@dataclass(frozen=True)
class Paper:
    """The bibliographic data of a paper, and the version that the claims were read from."""

    key: str
    title: str
    authors: tuple[str, ...]
    venue: str
    year: int
    doi: str
    arxiv: str
    version: str
    bibtex: str

    def section(self) -> tuple["Section", list["Claim"]]:
        """A `Section` that states claims of the paper, and the list that collects these claims in order.

        >>> from dpnotes.papers import paper
        >>> from dpnotes.papers.budget_schedules.notation import R, rho
        >>> from dpnotes.theory.statements import Identity
        >>> at, claims = paper("budget_schedules").section()
        >>> at("sec5.R", "Section 5", "Budget R")(
        ...     Identity(R, rho, 2 * rho), "R = 2 rho.", Severity.CONSTANT("Twice as large.", 2 * rho)
        ... )
        >>> claims[0].id, claims[0].printed_text, claims[0].corrected_text
        ('budget_schedules.sec5.R', 'R = rho', 'R = 2*rho')
        """
        claims: list[Claim] = []
        return Section(self, claims), claims


class Severity(StrEnum):
    """The severity of an erratum: the damage from following the printed formula.

    Privacy breaks only if an implementation that follows the print inside the paper's regime (more than one leaf or
    step, epsilon and delta as assumed) violates the (epsilon, delta) that the paper states; a `Breach` says by how
    much.
    """

    PRIVACY = "privacy-breaking"
    RATE = "rate"
    PROOF = "proof gap"  # the proof does not show the claim; no consequence is known
    EDGE = "edge case"  # fails only at an end of the assumptions: one leaf, one step, one dimension, a huge epsilon
    CONSTANT = "constant"
    TYPOGRAPHICAL = "typographical"

    def __call__(self, wording: str, corrected: "Corrected", breach: "Breach | None" = None) -> "Correction":
        """The correction of a claim by an erratum of this severity."""
        return self, wording, corrected, breach


@dataclass(frozen=True)
class Breach:
    """The amount by which an implementation of the print misses the privacy that the paper states.

    Args:
      epsilon: the stated epsilon.
      delta: the stated delta; 0 for pure privacy.
      reached: the true delta at this epsilon, to two digits, by an accountant that shares nothing with the claims.
      setting: the sizes at which it was computed.
      mechanism: the private mechanism with the error; several misprints of one mechanism count once.
      rho: the stated zCDP, where this is what the paper states (`Breach.zcdp`); `reached` is then the true one.

    Raises:
      ValueError: the true number does not exceed the stated one, or the mechanism has no name.

    >>> print(Breach(1, 1e-6, 0.0052, "1024 leaves", "tree of Algorithm 1"))
    (1, 1e-06) is stated, and delta is 0.0052 at this epsilon: 1024 leaves
    >>> print(Breach.zcdp(0.5, 2.0, "one step", "Algorithm 2"))
    0.5-zCDP is stated, and rho is 2: one step
    """

    epsilon: float
    delta: float
    reached: float
    setting: str
    mechanism: str
    rho: float | None = None

    def __post_init__(self) -> None:
        stated, most = (self.delta, 1.0) if self.rho is None else (self.rho, math.inf)
        if not stated < self.reached <= most:
            raise ValueError(f"Expected reached={self.reached} in ({stated:g}, {most:g}].")
        if not self.mechanism.strip():
            raise ValueError("Expected the name of a mechanism, got an empty one.")

    @staticmethod
    def zcdp(rho: float, reached: float, setting: str, mechanism: str) -> "Breach":
        """The breach of a stated `rho`-zCDP, of which the true rho is `reached`; infinity without noise."""
        return Breach(math.nan, math.nan, reached, setting, mechanism, rho)

    @property
    def stated(self) -> float:
        """The stated number that `reached` exceeds: delta, or rho."""
        return self.delta if self.rho is None else self.rho

    def __str__(self) -> str:
        if self.rho is not None:
            return f"{self.rho:g}-zCDP is stated, and rho is {self.reached:g}: {self.setting}"
        stated = f"({self.epsilon:g}, {self.delta:g}) is stated"
        return f"{stated}, and delta is {self.reached:g} at this epsilon: {self.setting}"


@dataclass(frozen=True)
class Erratum:
    """The correction of a claim, worded so that it could be sent to the authors.

    Args:
      severity: its severity.
      wording: the error, and the correct statement, in words.
      corrected: the corrected statement; None if the sentence should be deleted.
      version: the version of the paper in which the error was seen.
      later: its status in newer versions.
      breach: the amount by which privacy breaks.

    Raises:
      ValueError: the severity is privacy-breaking without a breach, or the other way round.
    """

    severity: Severity
    wording: str
    corrected: Statement | None
    version: str
    later: str = "not checked"
    breach: Breach | None = None

    def __post_init__(self) -> None:
        if (self.breach is None) == (self.severity == Severity.PRIVACY):
            raise ValueError(f"Expected a breach exactly where privacy breaks, got {self.breach} for {self.severity}.")

    @property
    def mechanism(self) -> str | None:
        """The private mechanism that this is an error of, where privacy breaks."""
        return self.breach.mechanism if self.breach else None


def mechanisms(claims: Iterable["Claim"]) -> dict[tuple[str, str], list["Claim"]]:
    """The flawed mechanisms of papers, each with the claims whose errata are misprints of it.

    >>> from dpnotes.papers import claims
    >>> [(key, len(found)) for key, found in mechanisms(claims("noisy_sgd")).items()]
    [(('noisy_sgd', 'private selection of Section 3.4'), 3)]
    """
    found: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims:
        if claim.erratum and claim.erratum.mechanism:
            found.setdefault((claim.paper, claim.erratum.mechanism), []).append(claim)
    return found


def worst_breach(claims: Iterable["Claim"]) -> Breach:
    """The breach that reaches the largest delta, among the misprints of one mechanism; else the largest rho.

    >>> from dpnotes.papers import claims
    >>> (found,) = mechanisms(claims("noisy_sgd")).values()
    >>> f"{worst_breach(found).reached:g}"
    '1'
    """
    breaches = [claim.erratum.breach for claim in claims if claim.erratum and claim.erratum.breach]
    return max(breaches, key=lambda breach: (breach.rho is None, breach.reached))


@dataclass(frozen=True, eq=False)
class Claim:
    """A statement of a paper, with its place and its correction.

    Args:
      id: paper, then place, for example `budget_schedules.thm4.5.schedule`.
      title: its content in a few words.
      locator: the place in the paper.
      statement: the statement to check.
      origin: the source of the formula that it is compared with.
      erratum: the correction, if the statement is wrong.
      derived_here: whether it is an unpublished result of dpnotes.
      calculation: the calculator that turns it into numbers.
      version: the version of the paper that was read.
      premises: ids of the claims that it rests on as printed: if one of them falls, its verdict is conditional
        (`dpnotes.theory.premises`).

    Raises:
      ValueError: a symbol is bare or belongs to another paper.
    """

    id: str
    title: str
    locator: str
    statement: Statement
    origin: str
    erratum: Erratum | None = None
    derived_here: bool = False
    calculation: Calculator | None = None
    version: str = ""
    premises: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        statements = [self.statement] + ([self.erratum.corrected] if self.erratum and self.erratum.corrected else [])
        for statement in statements:
            for symbol in symbols_of(*statement.expressions):
                if symbol.paper != self.paper:
                    raise ValueError(f"Expected symbols of {self.paper} in {self.id}, got {symbol} of {symbol.paper}.")

    @property
    def paper(self) -> str:
        """The paper's key."""
        return self.id.split(".", 1)[0]

    @property
    def anchor(self) -> str:
        """The anchor in docs/errata.md: the id alone, so that no change of title, place or order breaks a link."""
        return self.id

    @property
    def printed(self) -> str:
        """The statement as printed, in LaTeX."""
        return self.statement.latex()

    @property
    def corrected(self) -> str | None:
        """The corrected statement in LaTeX, or None if there is no correction."""
        return self._shown_correction(latex=True)

    @property
    def printed_text(self) -> str:
        """The statement as printed, as one line of plain text."""
        return self.statement.plain()

    @property
    def corrected_text(self) -> str | None:
        """The corrected statement as one line of plain text, or None if there is no correction."""
        return self._shown_correction(latex=False)

    def _shown_correction(self, latex: bool) -> str | None:
        """The corrected statement; if it reads like the printed one, with the definitions in which they differ."""
        if self.erratum is None or self.erratum.corrected is None:
            return None
        said, show = self.erratum.corrected.said(latex), writer(latex)
        if said != self.statement.said(latex):
            return said
        before, after = (getattr(one, "where", {}) for one in (self.statement, self.erratum.corrected))
        changed = [f"{show(s)} = {show(value)}" for s, value in after.items() if before.get(s) != value]
        return said + (" \\quad \\text{with } " if latex else " with ") + ", ".join(changed) if changed else said

    def __str__(self) -> str:
        """Two lines: id, title and place, and the printed statement."""
        return f"{self.id}: {self.title} ({self.locator})\n{self.printed_text}"

    def check(self) -> Verdict:
        """Check the statement as printed; every run gives the same verdict.

        Raises:
          ValueError: the statement cannot be checked; the message names the claim and what is missing.
        """
        try:
            return self.statement.verdict()
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(f"{self.id}: {error}") from error

    def correction(self) -> "Claim | None":
        """The claim with its corrected statement in place of the printed one."""
        if self.erratum is None or self.erratum.corrected is None:
            return None
        return replace(self, statement=self.erratum.corrected, erratum=None)

    def calculator(self) -> Calculator:
        """The claim's calculator, a function of plain keyword numbers or numpy arrays.

        Raises:
          ValueError: the claim has no calculator.
        """
        if self.calculation is None:
            raise ValueError(f"Expected a claim with a calculator, got {self.id}.")
        return self.calculation


# A correction: expressions in place of the printed ones, another statement, or None to delete the sentence.
Corrected = sympy.Expr | tuple[sympy.Expr, ...] | Statement | None
Correction = tuple[Severity, str, Corrected] | tuple[Severity, str, Corrected, Breach | None]


@dataclass(frozen=True)
class Section:
    """A writer of a paper's claims: `at(place, locator, title)(statement, origin, ...)`.

    Args:
      paper: the paper of the claims.
      claims: the list to which they are appended.
    """

    paper: Paper
    claims: list[Claim]

    def __call__(self, place: str, locator: str, title: str) -> "Heading":
        """The heading of a claim.

        Args:
          place: the part of the id after the paper's key.
          locator: the place in the paper.
          title: its content in a few words.
        """
        return Heading(self, place, locator, title)

    def own(self, name: str, title: str) -> "Heading":
        """The heading of a result that is derived here and unpublished, with its proof in docs/derivations."""
        locator = f"derived here, unpublished; docs/derivations/{self.paper.key}.md"
        return Heading(self, f"own.{name}", locator, title, derived_here=True)


@dataclass(frozen=True)
class Heading:
    """The place, locator and title of a claim; a call with the statement adds the claim.

    Args:
      section: the section that collects the claim.
      place: the part of the id after the paper's key.
      locator: the place in the paper.
      title: its content in a few words.
      derived_here: whether it is an unpublished result of dpnotes.
    """

    section: Section
    place: str
    locator: str
    title: str
    derived_here: bool = False

    def __call__(
        self,
        statement: Statement,
        origin: str,
        correction: Correction | None = None,
        calculation: Calculator | None = None,
        premises: Sequence[str] = (),
    ) -> None:
        """Add the claim to the section.

        Args:
          statement: the statement to check.
          origin: the source of the formula that it is compared with.
          correction: for a wrong statement its severity, the wording of the erratum, and the change: an expression, or
            a tuple of them, in place of the printed ones; another statement; None to delete the sentence. If privacy
            breaks, also the breach.
          calculation: the calculator that turns it into numbers.
          premises: ids, without the paper's key, of the claims that this one rests on as printed.

        Raises:
          ValueError: a correction has more or fewer expressions than are printed, or a symbol does not belong here.
        """
        paper, erratum = self.section.paper, None
        if correction is not None:
            severity, wording, corrected, *breach = correction
            changed = _corrected(statement, corrected)
            erratum = Erratum(severity, wording, changed, paper.version, breach=breach[0] if breach else None)
        name, rests = f"{paper.key}.{self.place}", tuple(f"{paper.key}.{place}" for place in premises)
        facts = (self.title, self.locator, statement, origin, erratum, self.derived_here, calculation, paper.version)
        self.section.claims.append(Claim(name, *facts, rests))


def _corrected(statement: Statement, corrected: Corrected) -> Statement | None:
    """The corrected statement; it has the subject of the printed one, unless it names its own."""
    if isinstance(corrected, sympy.Expr):
        corrected = (corrected,)
    if isinstance(corrected, tuple):
        if len(corrected) != len(statement.printed):
            raise ValueError(f"Expected a correction of {len(statement.printed)} expressions, got {len(corrected)}.")
        return statement.restate(*corrected)
    subject = getattr(statement, "subject", None)
    if subject is not None and getattr(corrected, "subject", subject) is None:
        return replace(corrected, subject=subject)  # pyright: ignore[reportArgumentType] - all statements are dataclasses
    return corrected


def select(claims: Sequence[Claim], names: Iterable[str] = ()) -> tuple[Claim, ...]:
    """The claims whose id is a name or starts with it, preferably up to a dot; all claims without names.

    Raises:
      ValueError: a name fits no claim; the message offers the nearest ids.

    >>> from dpnotes.papers.budget_schedules.claims import CLAIMS
    >>> [claim.id for claim in select(CLAIMS, ["budget_schedules.lemma4.4"])]
    ['budget_schedules.lemma4.4.optimum', 'budget_schedules.lemma4.4.gap']
    >>> [claim.id for claim in select(CLAIMS, ["budget_schedules.lemma4.4.opt"])]
    ['budget_schedules.lemma4.4.optimum']
    """
    chosen: dict[str, Claim] = {}
    names = tuple(names)
    if not names:
        return tuple(claims)
    for name in names:
        found = [claim for claim in claims if claim.id == name or claim.id.startswith(f"{name}.")]
        found = found or [claim for claim in claims if name and claim.id.startswith(name)]
        if not found:
            near = difflib.get_close_matches(name, [claim.id for claim in claims], n=3, cutoff=0.4)
            offer = f"; did you mean {', '.join(near)}?" if near else "."
            raise ValueError(f"Expected {name!r} to be a claim or the beginning of one{offer}")
        chosen.update((claim.id, claim) for claim in found)
    return tuple(chosen.values())
