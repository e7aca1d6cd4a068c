"""Every kind of statement confirms true statements and refutes false ones."""

import pytest
import sympy
from statement_mutants import mutants
from sympy import Integer, Rational, exp, log, oo, sqrt

from dpnotes.theory.asymptotics import Limit, Ratio
from dpnotes.theory.claims import Claim, Paper, Severity, select
from dpnotes.theory.inequalities import Inequality, Monotone
from dpnotes.theory.statements import Allocation, Identity, Optimum
from dpnotes.theory.symbols import COUNT, Domain, PaperSymbols
from dpnotes.theory.units import LENGTH
from dpnotes.theory.verdicts import Kind

PAPER = PaperSymbols("example")
A, B, X = (PAPER.symbol(name, "a positive number") for name in "abx")
R = PAPER.symbol("R", "budget")
N = PAPER.symbol("n", "a count", domain=COUNT)
T, J = PAPER.symbol("T", "steps", domain=COUNT), PAPER.symbol("j", "step", domain=COUNT)
Q, S = PAPER.sequence("q", "influence"), PAPER.sequence("s", "noise")
LONG = PAPER.symbol("l", "a length", LENGTH)


def kind(statement):
    return statement.verdict().kind


def test_identity():
    assert kind(Identity(X, (A + B) ** 2, A**2 + 2 * A * B + B**2)) == Kind.EXACT
    wrong = Identity(X, A**2 + A * B + B**2, (A + B) ** 2, example={A: 1, B: 2}).verdict()
    assert wrong.kind == Kind.CONTRADICTED and wrong.evidence == "at a = 1, b = 2: stated 7, derived 9"
    assert not wrong.confirms


def test_identity_in_a_region_where_it_is_not_real():
    assert kind(Identity(X, sqrt(A - 10), sqrt(A - 10) + 1)) == Kind.CONTRADICTED


def test_identity_with_sums():
    total = sympy.Sum(J, (J, 1, N))
    instances = tuple({N: k} for k in (1, 2, 5))
    assert kind(Identity(X, N * (N + 1) / 2, total, instances=instances)) == Kind.EXACT
    assert kind(Identity(X, N * N, total, instances=instances)) == Kind.CONTRADICTED


def test_identity_with_a_rounded_number():
    assert kind(Identity(X, Rational(314, 100), sympy.pi, digits=2)) == Kind.EXACT
    assert kind(Identity(X, Rational(312, 100), sympy.pi, digits=2)) == Kind.CONTRADICTED


def test_optimum():
    cost = A * X + B / X
    assert kind(Optimum(cost, X, sqrt(B / A), 2 * sqrt(A * B))) == Kind.EXACT
    assert kind(Optimum(cost, X, sqrt(B / A), 3 * sqrt(A * B))) == Kind.CONTRADICTED
    wrong = Optimum(cost, X, B / A, example={A: 1, B: 100}).verdict()
    assert wrong.kind == Kind.CONTRADICTED and "x = 100 gives 101, but x = 10 gives 20" in wrong.evidence


def test_units_are_compared_first():
    assert kind(Identity(X, A * LONG, A**2 * A)) == Kind.UNITS_DIFFER
    assert kind(Identity(X, A + LONG, A)) == Kind.UNITS_DIFFER
    assert kind(Inequality(A, LONG, {A: (1, 2), LONG: (3, 4)})) == Kind.UNITS_DIFFER


def test_a_stationary_point_that_is_no_minimum_is_refused():
    assert kind(Optimum(X**2 * (X - 3) ** 2 + X, X, Integer(1))) == Kind.CONTRADICTED
    assert kind(Optimum(-((X - 1) ** 2), X, Integer(1))) == Kind.CONTRADICTED


def test_allocation():
    objective = sympy.Sum(Q[J] * S[J], (J, 1, T))
    best = sympy.Sum(sqrt(Q[N] / Q[J]), (N, 1, T)) / R
    least = sympy.Sum(sqrt(Q[J]), (J, 1, T)) ** 2 / R
    assert kind(Allocation(objective, S, J, best, least, R, (T, (1, 2, 3)))) == Kind.EXACT
    for share, value in [(best * 2, least), (T / R + 0 * J, least), (best, 2 * least)]:
        assert kind(Allocation(objective, S, J, share, value, R, (T, (2, 3)))) == Kind.CONTRADICTED


def test_inequality():
    region = {A: (0.01, 100), B: (0.01, 100)}
    assert kind(Inequality(2 * A * B, A**2 + B**2, region)) == Kind.NOT_REFUTED
    assert kind(Inequality(A, A + B, region)) in (Kind.EXACT, Kind.NOT_REFUTED)
    assert kind(Inequality(A, 2 * A, region)) == Kind.IMPROVABLE
    wrong = Inequality(2 * A * B, A**2 + B**2 - Rational(1, 10000), region)
    assert kind(wrong) == Kind.CONTRADICTED


def test_inequality_finds_a_narrow_counterexample():
    spike = exp(-((A - 3) ** 2) * 400)
    assert kind(Inequality(spike, Rational(999, 1000), {A: (0.1, 100)})) == Kind.CONTRADICTED
    assert kind(Inequality(spike, Integer(1), {A: (0.1, 100)})) == Kind.NOT_REFUTED


def test_strict_inequality_at_equality():
    assert kind(Inequality(A, A, {A: (1, 2)}, "<")) == Kind.CONTRADICTED
    assert kind(Inequality(A, A, {A: (1, 2)})) == Kind.EXACT


def test_conditions_bound_the_search():
    region = {A: (0.01, 100), B: (0.01, 100)}
    assert kind(Inequality(A, B, region)) == Kind.CONTRADICTED
    assert kind(Inequality(A, B, region, conditions=(A <= B,))) == Kind.NOT_REFUTED
    with pytest.raises(ValueError, match="interval to search for b"):
        Inequality(A, B, {A: (1, 2)}).verdict()


def test_limit():
    assert kind(Limit(X * log(1 + A / X), X, oo, A)) == Kind.EXACT
    assert kind(Limit(X * log(1 + A / X), X, oo, Integer(0))) == Kind.CONTRADICTED


@pytest.mark.parametrize(
    ("rate", "theta", "upper"),
    [
        (X**2, Kind.UP_TO_CONSTANTS, Kind.UP_TO_CONSTANTS),
        (X**2 * log(2 + X), Kind.UP_TO_LOGS, Kind.UP_TO_LOGS),
        (X ** Rational(25, 12), Kind.CONTRADICTED, Kind.IMPROVABLE),
        (X ** Rational(23, 12), Kind.NOT_IMPLIED, Kind.NOT_IMPLIED),
        (-(X**2), Kind.CONTRADICTED, Kind.CONTRADICTED),
    ],
)
def test_ratio(rate, theta, upper):
    quantity = 3 * X**2 + X
    assert kind(Ratio(quantity, rate, {X: (1, 1)}, "Theta")) == theta
    assert kind(Ratio(quantity, rate, {X: (1, 1)}, "O")) == upper


def test_mutants_differ_from_the_original_and_from_each_other():
    statement = Identity(X, 3 * A**2 * sqrt(B) - 1, 3 * A**2 * sqrt(B) - 1)
    found = [mutant.printed[0] for _, mutant in mutants(statement)]
    assert len(found) == len(set(found)) and statement.value not in found and len(found) > 10
    assert {kind(mutant) for _, mutant in mutants(statement)} == {Kind.CONTRADICTED}
    assert not any("number" in change for change, _ in mutants(Ratio(X, 2 * X, {X: (1, 1)})))


def claim(name="example.one", statement=None):
    return Claim(name, "title", "Theorem 1", statement or Identity(X, A, A), "here")


def test_a_claim_refuses_symbols_of_another_paper():
    with pytest.raises(ValueError, match=r"Expected symbols of other in other\.one"):
        claim("other.one")
    with pytest.raises(ValueError, match="bare symbol"):
        claim(statement=Identity(X, sympy.Symbol("a"), A))
    kappa = PaperSymbols("other").symbol("kappa", "another one", domain=Domain(1))
    with pytest.raises(ValueError, match="one paper"):
        claim(statement=Identity(X, A * kappa, A))


CARD = Paper("example", "Title", ("Author",), "venue", 2024, "doi", "arxiv", "version 1", "bibtex")


def test_a_section_collects_claims_in_order():
    at, claims = CARD.section()
    at("thm1", "Theorem 1", "title")(Identity(X, A, A), "here")
    at.own("ours", "ours")(Identity(X, B, B), "there")
    assert [c.id for c in claims] == ["example.thm1", "example.own.ours"]
    assert [c.derived_here for c in claims] == [False, True]
    assert claims[0].locator == "Theorem 1" and claims[0].erratum is None
    assert claims[1].locator == "derived here, unpublished; docs/derivations/example.md"
    assert CARD.section()[1] == [], "another section begins empty"


def test_a_correction_is_what_changes():
    at, claims = CARD.section()
    best = Optimum(A * X + B / X, X, B, A)
    bound = Inequality(A, B, {A: (1, 2), B: (1, 2)}, subject=X)
    for place, statement, corrected in (
        ("expression", Identity(X, 2 * A, A), A),
        ("expressions", best, (sqrt(B / A), 2 * sqrt(A * B))),
        ("bound", bound, 2 * B),
        ("statement", bound, Inequality(A, 2 * A, {A: (1, 2)})),
        ("named", bound, Inequality(A, 2 * A, {A: (1, 2)}, subject=LONG)),
        ("nothing", best, None),
    ):
        at(place, "place", "title")(statement, "here", (Severity.RATE, "wording", corrected))
    found = {c.id.split(".")[1]: c.correction() for c in claims}
    assert found.pop("nothing") is None
    texts = {name: claim.printed_text for name, claim in found.items() if claim}
    assert texts == {
        "expression": "x = a",
        "expressions": "argmin over x of a*x + b/x = sqrt(b)/sqrt(a), min = 2*sqrt(a)*sqrt(b)",
        "bound": "x <= 2*b",
        "statement": "x <= 2*a",
        "named": "l <= 2*a",
    }
    erratum = claims[0].erratum
    assert erratum and (erratum.severity, erratum.wording, erratum.version) == (Severity.RATE, "wording", "version 1")
    for wrong in (A, (A, A, A)):
        with pytest.raises(ValueError, match=r"Expected a correction of 2 expressions, got [13]\."):
            at("wrong", "place", "title")(best, "here", (Severity.RATE, "wording", wrong))


def test_select():
    claims = [claim("example.thm1.rate"), claim("example.thm1.step"), claim("example.thm10")]
    assert [c.id for c in select(claims, ["example.thm1"])] == ["example.thm1.rate", "example.thm1.step"]
    assert select(claims) == tuple(claims)
    assert [c.id for c in select(claims, ["example.thm1.s"])] == ["example.thm1.step"], "what begins so, at no dot"
    assert select(claims, ["example.thm"]) == tuple(claims)
    with pytest.raises(ValueError, match=r"'example.thm1.stp' .* did you mean example\.thm1\.step"):
        select(claims, ["example.thm1.stp"])
    with pytest.raises(ValueError, match="Expected a claim with a calculator, got example.one"):
        claim().calculator()


def test_a_condition_is_part_of_what_is_shown():
    claims = [Inequality(A, B, {A: (1, 2), B: (1, 2)}, conditions=c) for c in ((), (A <= B,))]
    assert claims[0].plain() != claims[1].plain() and claims[0].latex() != claims[1].latex()
    above, from_one = (PAPER.symbol("k", "a number", domain=Domain(1, closed=closed)) for closed in (False, True))
    shown = [Inequality(Integer(0), 1 - 1 / k, {k: (1, 2)}, "<") for k in (above, from_one)]
    assert [s.plain() for s in shown] == ["0 < 1 - 1/k for k > 1", "0 < 1 - 1/k for k >= 1"]
    assert shown[1].latex().endswith(r"\text{for } k \geq 1")


def test_a_search_takes_the_usual_range_of_a_symbol_and_names_its_box():
    u = PAPER.symbol("u", "a number", usual=(2, 3))
    w = PAPER.sequence("w", "numbers", usual=(4, 5))
    assert "u in [2, 3]" in Inequality(u, u**2).verdict().evidence
    assert kind(Inequality(u, Rational(31, 10))) != Kind.CONTRADICTED, "the usual range is what is searched"
    assert kind(Inequality(u, Rational(31, 10), {u: (2, 4)})) == Kind.CONTRADICTED, "the region wins"
    sums = Inequality(sympy.Sum(w[J], (J, 1, T)), 11 * A, {A: (1, 2)}, instance={T: 2})
    assert sums.verdict().evidence.endswith("seeded points with a in [1, 2], w_1 in [4, 5], w_2 in [4, 5]")
    assert "u in [2, 3]" in Monotone(u + log(1 + u) * exp(-u), u, "increasing").verdict().evidence
    with pytest.raises(ValueError, match="Expected an interval to search for a"):
        Inequality(A, A**2).verdict()


def test_symbols_that_differ_in_anything_are_different():
    """Otherwise sympy's cache would exchange them: a formula would show another symbol's meaning, unit or LaTeX."""
    same = PAPER.symbol("z", "a number")
    assert same == PAPER.symbol("z", "a number") and hash(same) == hash(PAPER.symbol("z", "a number"))
    for other in (
        PAPER.symbol("z", "another number"),
        PAPER.symbol("z", "a number", LENGTH),
        PAPER.symbol("z", "a number", domain=Domain(1)),
        PAPER.symbol("z", "a number", latex="\\zeta"),
        PAPER.symbol("z", "a number", usual=(1, 2)),
    ):
        assert same != other and sympy.Mul(2, other).atoms(sympy.Symbol) == {other}
    assert sympy.latex(PAPER.symbol("z", "a number", latex="\\zeta") + 1) == "\\zeta + 1"


def test_monotone():
    region = {A: (1e-3, 1e3), B: (1e-3, 1e3)}
    grows = Monotone(A**2 / (A + B), A, "increasing", region)
    assert kind(grows) == Kind.EXACT
    assert kind(Monotone(A**2 / (A + B), B, "increasing", region)) == Kind.CONTRADICTED
    assert kind(Monotone(A**2 / (A + B), B, "decreasing", region)) == Kind.EXACT
    assert kind(Monotone(A + 1 / A, A, "increasing", region)) == Kind.CONTRADICTED
    assert kind(Monotone(A + log(1 + A) * exp(-A), A, "increasing", region)) == Kind.NOT_REFUTED
    assert grows.plain() == "a**2/(a + b) is increasing in a"
