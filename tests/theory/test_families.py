"""Exponents that depend on a letter: a made-up theorem under the Kurdyka-Lojasiewicz condition, and its mutants.

Noisy gradient descent on n examples, with `F(x) - min F <= (gamma |grad F(x)|)**kappa` for kappa in [1, 2], so that
gamma has the unit loss^(1/kappa - 1) length. By hand, constants and logarithms dropped: T steps, whose noise has the
deviation G sqrt(T) / (n epsilon) in d coordinates, leave a gradient of squared length e^2 = d G^2 T / (n epsilon)^2 and
an excess Delta = (gamma e)^kappa: gamma^2 d G^2 T / (n epsilon)^2 <= Delta^(2/kappa). From above, Delta' =
-Delta^(2/kappa) / (gamma^2 M) at a step size of 1/M, so T = M gamma^2 Delta^(1 - 2/kappa) steps reach Delta. One in the
other: Delta^(4/kappa - 1) = gamma^4 M G^2 d / (n epsilon)^2. At kappa = 2 this is the rate d / (n epsilon)^2 under the
Polyak-Lojasiewicz condition, at kappa = 1 its power 1/3.
"""

from dataclasses import replace
from typing import Any

import pytest
import sympy
from statement_mutants import mutants, still_true
from sympy import Integer, Rational

from dpnotes.theory.claims import Claim
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Choice, Rate
from dpnotes.theory.symbols import COUNT, Domain, PaperSymbols
from dpnotes.theory.units import LENGTH, LOSS, UnitsDiffer, unit_of
from dpnotes.theory.verdicts import Kind

letter = PaperSymbols("example").symbol
n, d, T = (letter(name, "a count", domain=COUNT) for name in "ndT")
epsilon, kappa = letter("epsilon", "privacy loss"), letter("kappa", "exponent", domain=Domain(1, 2, closed=True))
x, y = letter("x", "a number"), letter("y", "a number")
UNITS = {"gamma": LOSS ** (1 / kappa - 1) * LENGTH, "Delta": LOSS, "G": LOSS / LENGTH, "M": LOSS / LENGTH**2}


def theorem(units: bool = True) -> tuple[Rate, Choice]:
    """Return the rate and the parameters that reach it, in letters with units or without."""
    gamma, Delta, G, M = (letter(name, "", unit if units else LOSS / LOSS) for name, unit in UNITS.items())
    noise = gamma**2 * d * G**2 * T / (n * epsilon) ** 2 / Delta ** (2 / kappa)
    constraints = {"descent": M * gamma**2 * Delta ** (1 - 2 / kappa) / T, "noise": noise}
    value = (gamma**4 * M * G**2 * d / (n * epsilon) ** 2) ** (kappa / (4 - kappa))
    chosen = {Delta: value, T: M * gamma**2 * Delta ** (1 - 2 / kappa)}
    return Rate(Delta, value, {"excess": Delta}, (Delta, T), constraints), Choice(
        chosen, {"x": Delta}, Delta, constraints
    )


def test_a_theorem_is_confirmed_for_every_value_at_once():
    for statement in theorem():
        verdict = statement.verdict()
        assert verdict.kind == Kind.UP_TO_CONSTANTS and verdict.evidence.startswith(
            "exactly, for all 1 <= kappa <= 2: "
        )
        assert statement.plain().endswith(" for 1 <= kappa <= 2") and "\\kappa \\leq 2" in statement.latex()
        assert verdict.certificate is not None and verdict.certificate()["certificate"] == "family"
    assert "excess, descent, noise" in theorem()[0].verdict().evidence


@pytest.mark.parametrize("units", [True, False])
def test_mutants_are_killed_by_units_and_without_them(units: bool):
    for statement in theorem(units):
        kind, found = statement.verdict().kind, list(mutants(statement))
        for change, mutant in found:
            verdict = mutant.verdict()
            assert verdict.kind != kind or (isinstance(mutant, Choice) and still_true(statement, mutant)), change
        slopes = [change for change, _ in found if change.startswith("slope")]
        assert len(slopes) == 4 * len(statement.printed)


def test_a_wrong_slope_names_a_value_of_the_letter_and_a_point():
    (rate, _) = theorem(units=False)
    base = rate.value.args[0]
    wrong = rate.restate(base ** (kappa / (4 - kappa) + (kappa - 1) / 12)).verdict()
    assert (
        wrong.kind == Kind.NOT_IMPLIED and wrong.evidence.startswith("at kappa = 5/4: ") and "needed" in wrong.evidence
    )
    data: Any = wrong.certificate and wrong.certificate()
    assert data["certificate"] == "balance" and data["at"] == {"kappa": "5/4"}, "anyone can check it at this value"


def test_units_with_a_letter_in_their_powers():
    gamma, loss = letter("gamma", "", UNITS["gamma"]), letter("F", "", LOSS)
    gradient = letter("g", "", LOSS / LENGTH)
    assert unit_of((gamma * gradient) ** kappa + loss) == LOSS
    assert unit_of(loss ** (1 - kappa) * loss**kappa) == LOSS and unit_of(2**kappa * loss) == LOSS
    with pytest.raises(UnitsDiffer, match=r"F: F, .*: F\^\(2 - kappa\)"):
        unit_of((gamma * gradient) ** (2 * kappa - kappa**2) + loss)
    wrong = Rate(loss, (gamma * gradient) ** 2, {"term": loss}).verdict()
    assert wrong.kind == Kind.UNITS_DIFFER and wrong.evidence == "the stated rate: F^(2/kappa), term: F"
    assert wrong.certificate is not None and wrong.certificate()["certificate"] == "family"


def test_letters_that_a_paper_sets_to_1_free_units_with_a_letter_in_their_powers():
    rate, _ = theorem()
    G, M = (symbol for name in "GM" for symbol in rate.value.free_symbols if str(symbol) == name)
    short = rate.value.xreplace({G: Integer(1), M: Integer(1)})
    assert replace(rate, value=short, normalised=(G, M)).verdict().kind == Kind.UP_TO_CONSTANTS
    assert replace(rate, value=short, normalised=(G,)).verdict().kind == Kind.UNITS_DIFFER
    assert replace(rate, value=short**kappa, normalised=(G, M)).verdict().kind == Kind.NOT_IMPLIED
    # At kappa = 2 the product gamma^2 M has no unit, so that gamma and M free one unit only.
    gamma, Delta = letter("gamma", "", UNITS["gamma"]), letter("Delta", "", LOSS)
    wrong = Rate(Delta, n / y, {"excess": Delta}, (Delta,), {"wrong": n / (y * Delta)}, normalised=(gamma, M))
    assert wrong.verdict().kind == Kind.UNITS_DIFFER
    short = rate.value.xreplace({gamma: Integer(1), M: Integer(1)})
    assert replace(rate, value=short, normalised=(gamma, M)).verdict().kind == Kind.UP_TO_CONSTANTS


# ---------------------------------------------------------------- where the best balance changes with the letter
PIECES = {"rises": n ** (kappa - Rational(3, 2)) * y, "falls": 1 / y, "stays": Integer(1)}


def pieces(value: Any, **more: Any) -> Rate:
    return Rate(x, value, {**PIECES, **more}, (y,))


def test_an_interval_is_split_where_another_term_takes_over():
    verdict = pieces(1 + n ** (kappa / 2 - Rational(3, 4))).verdict()
    assert verdict.kind == Kind.UP_TO_CONSTANTS
    assert "for 1 < kappa < 3/2: " in verdict.evidence and "for 3/2 < kappa < 2: " in verdict.evidence
    lost = pieces(1 + 0 * n).verdict()
    assert lost.kind == Kind.NOT_IMPLIED and lost.evidence.startswith("at kappa = 7/4: n**(1/8) is lost")
    # The printed rate is right at the five values that are tried first: what lies between them decides.
    wave = sympy.prod([kappa - Rational(k, 4) for k in range(4, 9)])
    between = pieces(1 + n ** (kappa / 2 - Rational(3, 4)) + n ** (20 * wave)).verdict()
    assert between.kind == Kind.IMPROVABLE and between.evidence.startswith("at kappa = 9/8: ")
    bump = n ** ((kappa - Rational(5, 4)) * (Rational(3, 2) - kappa))
    said = Rate(x, 1 + bump, {"up": y, "down": 1 / y, "bump": bump}, (y,)).verdict().evidence
    assert "for 1 < kappa < 5/4: " in said and "for 3/2 < kappa < 2: " in said, "a piece that comes back is said twice"


def test_what_is_improvable_at_one_value_and_false_at_another_is_not_confirmed():
    verdict = Rate(x, n ** Rational(3, 2), {"up": n**kappa * y, "down": n**kappa / y}, (y,)).verdict()
    assert verdict.kind == Kind.NOT_IMPLIED and verdict.evidence.startswith("at kappa = 7/4: n**(7/4) is lost")


def test_an_interval_is_checked_up_to_its_ends():
    near = letter("kappa", "exponent", domain=Domain(1, 2.0004, closed=True))
    terms = {"up": y, "down": 1 / y, "grows": n ** (2 * near - 4)}
    assert Rate(x, 1 + n ** (near - 2), terms, (y,)).verdict().kind == Kind.NOT_IMPLIED


def test_what_changes_at_an_irrational_value_is_checked_at_values_and_says_so():
    terms = {"rises": n ** (kappa**2 - 2), "stays": Integer(1)}
    verdict = Rate(x, n ** (kappa**2 - 2) + 1, {**terms, "tuned": x + 1 / x}, (x,)).verdict()
    assert verdict.kind == Kind.NOT_REFUTED
    assert verdict.evidence.startswith(
        "up to constants at kappa = 1, 5/4, 11/8, 23/16, 3/2, 7/4, 2, and not proved for all between: a sign"
    )


def test_what_is_false_between_two_irrational_values_is_refuted_there():
    bump = n ** (-10 * (kappa**2 - Rational(17, 10)) * (kappa**2 - Rational(21, 10)))  # grows from 1.304 to 1.449 alone
    verdict = Rate(x, Integer(1), {"bump": bump, "stays": Integer(1), "tuned": x + 1 / x}, (x,)).verdict()
    assert verdict.kind == Kind.NOT_IMPLIED and verdict.evidence.startswith("at kappa = 11/8: n**(4087/10240) is lost")


def test_constants_may_depend_on_the_letter_and_what_restates_is_restated():
    assert Rate(x, n**kappa, {"term": kappa * n**kappa / (3 - kappa)}).verdict().kind == Kind.RESTATED
    assert Rate(x, n**kappa / (3 - kappa), {"term": n**kappa * y, "other": n**kappa / y}, (y,)).verdict().confirms
    log = letter("ell", "a logarithm", domain=Domain(1))
    assert Rate(x, n**kappa, {"term": log * n**kappa}, logs=(log,)).verdict().kind == Kind.UP_TO_LOGS


def test_an_open_interval_leaves_out_its_ends():
    a = letter("a", "an exponent", domain=Domain(0, 1))
    verdict = Rate(x, n ** (1 / a), {"left": n ** (2 / a) * y, "right": 1 / y}, (y,)).verdict()
    assert verdict.kind == Kind.UP_TO_CONSTANTS and "for all 0 < a < 1" in verdict.evidence


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Rate(x, n**y, {"term": n}), "depend on one letter, with a bounded domain, got y"),
        (lambda: Rate(x, n ** (kappa * epsilon), {"term": n}), "with a bounded domain, got epsilon, kappa"),
        (lambda: Rate(x, n ** sympy.sqrt(kappa), {"term": n}), "is not rational"),
        (lambda: Rate(x, n**kappa * (kappa - 1), {"term": n}), "the factor 0 is not positive"),
        (lambda: Rate(x, n**kappa, {"term": n**kappa}, (kappa,)), "kappa, .* neither chosen nor set to 1"),
        (lambda: Choice({kappa: Integer(1)}, {"term": n**kappa}, n**kappa), "kappa, .* neither chosen nor"),
        (lambda: Rate(x, y, {"term": y}, regime={"small": n ** (1 / (kappa - 1))}), "be defined at kappa = 1"),
        (lambda: Rate(x, n, {"a": y}, (y,), {"b": n / y, "c": (n / y) ** (1 / (3 * kappa - 4))}), "at kappa = 4/3"),
    ],
)
def test_what_is_no_family_is_refused(call: Any, message: str):
    with pytest.raises(ValueError, match=message):
        call().verdict()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (Rate(x, n**y, {"term": n}), "Expected exponents that depend on one letter"),
        (Inequality(x + y, x * y * n, {n: (1, 9)}), "Expected an interval to search for x, y: region="),
    ],
)
def test_a_claim_that_cannot_be_checked_is_named_with_all_letters(statement: Any, message: str):
    with pytest.raises(ValueError, match=rf"^example\.thm1: {message}"):
        Claim("example.thm1", "title", "here", statement, "origin").check()
