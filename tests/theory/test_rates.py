"""Rates, choices and crossovers: confirmed where the terms imply them, refuted with a point where they do not."""

import pytest
from statement_mutants import mutants
from sympy import Max, Min, Rational, sqrt

from dpnotes.theory.rates import Choice, Crossover, Rate
from dpnotes.theory.symbols import COUNT, Domain, PaperSymbols
from dpnotes.theory.units import LENGTH, LOSS
from dpnotes.theory.verdicts import Kind

PAPER = PaperSymbols("example")
N, D = (PAPER.symbol(name, "a count", domain=COUNT) for name in "nd")
EPSILON = PAPER.symbol("epsilon", "privacy loss")
LOG = PAPER.symbol("ell", "a logarithm", domain=Domain(1))
ALPHA = PAPER.symbol("alpha", "gradient norm", LOSS / LENGTH)
G = PAPER.symbol("G", "Lipschitz constant", LOSS / LENGTH)
STEP = PAPER.symbol("eta", "step size", LENGTH**2 / LOSS)
GAP = PAPER.symbol("B", "initial gap", LOSS)
M = PAPER.symbol("M", "smoothness", LOSS / LENGTH**2)
T, BATCH = (PAPER.symbol(name, meaning) for name, meaning in (("T", "steps"), ("b", "batch")))

# Private gradient descent with fresh data: descent, smoothness, sampling and noise, with n samples in all.
DESCENT = {
    "descent": GAP / (STEP * T * ALPHA**2),
    "smoothness": STEP * M,
    "sampling": G**2 / (BATCH * ALPHA**2),
    "noise": G * sqrt(D) / (BATCH * EPSILON * ALPHA),
    "data": BATCH * T / N,
}
BEST = (GAP * M * G**2 / N) ** Rational(1, 4) + (GAP * M * G * sqrt(D) / (N * EPSILON)) ** Rational(1, 3)
TUNED = (ALPHA, STEP, T, BATCH)


def rate(value, **more):
    return Rate(ALPHA, value, {"alpha": ALPHA}, TUNED, DESCENT, **more)


def test_a_self_referential_bound_is_solved():
    verdict = rate(BEST).verdict()
    assert verdict.kind == Kind.UP_TO_CONSTANTS
    assert "alpha, descent, smoothness, sampling, data" in verdict.evidence
    found = rate(BEST).balance()
    assert len(found.vertices) == 2
    for vertex in found.vertices:
        chosen = found.parameters(vertex)
        assert chosen is not None and chosen[STEP] == 1 / M and chosen[ALPHA] == vertex.rate


def test_a_lost_term_is_named_with_a_point():
    verdict = rate((GAP * M * G**2 / N) ** Rational(1, 4)).verdict()
    assert verdict.kind == Kind.NOT_IMPLIED and "is lost, where alpha, descent, smoothness, noise, data meet" in str(
        verdict
    )
    assert "stated" in verdict.evidence and "needed" in verdict.evidence


def test_a_rate_that_gives_something_away_is_improvable():
    verdict = rate(BEST + (GAP * M * G**2 * D / N) ** Rational(1, 4)).verdict()
    assert verdict.kind == Kind.IMPROVABLE and "more than the terms need" in verdict.evidence


def test_a_redundant_mean_is_no_improvement():
    first, second = BEST.args
    assert rate(BEST + sqrt(first * second)).verdict().kind == Kind.UP_TO_CONSTANTS


def test_the_regime_matters():
    sampling, noise = (GAP * M * G**2 / N) ** Rational(1, 4), (GAP * M * G * sqrt(D) / (N * EPSILON)) ** Rational(1, 3)
    assert rate(sampling).verdict().kind == Kind.NOT_IMPLIED
    assert rate(sampling, regime={"noise is small": noise / sampling}).verdict().kind == Kind.UP_TO_CONSTANTS


def test_logs():
    terms = {"a": LOG * G / sqrt(N)}
    assert Rate(ALPHA, G * LOG / sqrt(N), terms, logs=(LOG,)).verdict().kind == Kind.RESTATED
    assert Rate(ALPHA, G / sqrt(N), terms, logs=(LOG,)).verdict().kind == Kind.UP_TO_LOGS
    assert Rate(ALPHA, G / sqrt(N), terms).verdict().kind == Kind.NOT_IMPLIED
    assert Rate(ALPHA, G / N, terms, logs=(LOG,)).verdict().kind == Kind.NOT_IMPLIED


def test_a_tilde_over_terms_without_logarithms_is_shown_and_confirmed_up_to_logs():
    plain, printed = rate(BEST), rate(BEST, tilde=True)
    assert plain.verdict().kind == Kind.UP_TO_CONSTANTS and "~" not in plain.plain() + plain.latex()
    assert printed.verdict().kind == Kind.UP_TO_LOGS and "logarithms are left out" in printed.verdict().evidence
    assert printed.plain().startswith("alpha = O~(") and "\\tilde{" in printed.latex()
    lost = rate((GAP * M * G**2 / N) ** Rational(1, 4), tilde=True)
    assert lost.verdict().kind == Kind.NOT_IMPLIED, "a tilde hides no power"


def test_units_are_compared_and_named():
    verdict = Rate(ALPHA, GAP / sqrt(N), {"a": G / sqrt(N)}).verdict()
    assert verdict.kind == Kind.UNITS_DIFFER and "F" in verdict.evidence
    wrong = Rate(ALPHA, G, {"alpha": ALPHA}, (ALPHA,), {"noise": G * STEP / ALPHA}).verdict()
    assert wrong.kind == Kind.UNITS_DIFFER and "noise compares" in wrong.evidence
    inside = Rate(ALPHA, G, {"a": G + GAP}).verdict()
    assert inside.kind == Kind.UNITS_DIFFER and "B: F" in inside.evidence


def test_what_is_set_to_one_frees_units():
    stated = N ** Rational(-1, 4) + (sqrt(D) / (N * EPSILON)) ** Rational(1, 3)
    assert rate(stated, normalised=(G, M, GAP)).verdict().kind == Kind.UP_TO_CONSTANTS
    assert rate(stated, normalised=(GAP,)).verdict().kind == Kind.UNITS_DIFFER


def test_choice():
    chosen = {ALPHA: BEST, STEP: 1 / M, BATCH: G**2 / ALPHA**2 + G * sqrt(D) / (ALPHA * EPSILON), T: N / BATCH}
    terms = {"descent": sqrt(GAP / (STEP * T)), "alpha": ALPHA}
    constraints = {k: DESCENT[k] for k in ("smoothness", "sampling", "noise", "data")}
    good = Choice(chosen, terms, ALPHA, constraints)
    assert good.verdict().kind == Kind.UP_TO_CONSTANTS
    short = Choice({**chosen, BATCH: G**2 / ALPHA**2}, terms, ALPHA, constraints).verdict()
    assert short.kind == Kind.NOT_IMPLIED and "noise" in short.evidence
    loose = Choice({**chosen, ALPHA: BEST * sqrt(D)}, {"descent": terms["descent"]}, ALPHA, constraints).verdict()
    assert loose.kind == Kind.IMPROVABLE and "no term reaches" in loose.evidence
    assert Choice({STEP: Min(1 / M, GAP / G**2)}, {"a": STEP}, 1 / M + GAP / G**2).verdict().kind == Kind.IMPROVABLE
    assert (
        Choice({STEP: Max(1 / M, GAP / G**2)}, {"a": STEP}, 1 / M + GAP / G**2).verdict().kind == Kind.UP_TO_CONSTANTS
    )


def test_crossover():
    left, right = G * sqrt(D / N), G * N ** Rational(-1, 3)
    assert Crossover(left, right, D, N ** Rational(1, 3)).verdict().kind == Kind.EXACT
    wrong = Crossover(left, 2 * right, D, N ** Rational(1, 3), {N: 8}).verdict()
    assert wrong.kind == Kind.CONTRADICTED and wrong.evidence == "at n = 8: stated 2, derived 8"
    with pytest.raises(ValueError, match="different powers of d"):
        Crossover(D * G, D * G / N, D, N).verdict()


def test_mutants_of_rates_and_crossovers_are_killed():
    for statement in (rate(BEST), Crossover(G * sqrt(D / N), 3 * G * N ** Rational(-1, 3), D, 9 * N ** Rational(1, 3))):
        kind = statement.verdict().kind
        survivors = [change for change, mutant in mutants(statement) if mutant.verdict().kind == kind]
        assert not survivors


def test_a_minus_sign_is_found_wherever_it_stands():
    for value in (-G, G - G / N, G * sqrt(1 - 1 / sqrt(N)), G / (1 - 1 / N)):
        assert rate(value).verdict().kind == Kind.CONTRADICTED
        assert rate(value, normalised=(G, M, GAP)).verdict().kind == Kind.CONTRADICTED
    least = Choice({STEP: Min(1 / M, -GAP / G**2)}, {"a": STEP}, 1 / M, normalised=(M,))
    assert least.verdict().kind == Kind.CONTRADICTED


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rate(ALPHA), "apart from the rate and from what is 1, got alpha"),
        (lambda: rate(BEST, normalised=(STEP,)), "apart from the rate and from what is 1, got eta"),
        (lambda: Choice({STEP: 1 / M}, {}, STEP), "at least one term"),
        (lambda: Choice({STEP: STEP * T / T**2}, {"a": STEP}, STEP), "eta by earlier parameters only, got eta"),
        (lambda: Choice({STEP: T / M, T: N}, {"a": STEP}, STEP), "eta by earlier parameters only, got T"),
        (lambda: Rate(T, N, {"T": N}, regime={"few": N}), "more than an edge, got n >= 1; few"),
        (lambda: Choice({STEP: 1 / M}, {"a": STEP / N}, 1 / M, {}, {"few": N}), "more than an edge, got n >= 1; few"),
    ],
)
def test_bad_statements_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call().verdict()
