"""Papers side by side: one vocabulary, and orders in it, taken from claims."""

import importlib
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import sympy

from dpnotes import papers
from dpnotes.theory.methods import order, stated
from dpnotes.theory.orders import Order
from dpnotes.theory.symbols import COMMON_NAMES, PaperSymbol, PaperSymbols
from dpnotes.theory.units import UnitsDiffer

# Each paper's letters: four different letters for the initial gap, and L with two meanings.
LETTERS = {
    "adaptive_batch": "n d epsilon delta G M rho B - - - - iota - -",
    "budget_schedules": "N D epsilon delta G M - Delta - - - kappa - - n",
    "drift_escape": "n d epsilon delta G M rho U m - - - omega - -",
    "goldstein": "n d epsilon delta L - - Phi - alpha R - - - -",
    "noisy_sgd": "n d epsilon delta - L rho f_max - - - - - sigma B",
}


def notation(paper: str) -> list[PaperSymbol]:
    """Return the letters of a paper, and sequences by their names."""
    values = vars(importlib.import_module(f"dpnotes.papers.{paper}.notation")).values()
    return [value for value in values if isinstance(value, PaperSymbol)]


def common_letters(symbols: list[PaperSymbol]) -> dict[str, list[str]]:
    return {name: [symbol.name for symbol in symbols if symbol.common == name] for name in COMMON_NAMES}


@pytest.mark.parametrize("paper", LETTERS)
def test_the_letters_of_the_common_names(paper: str):
    expected = dict(zip(COMMON_NAMES, LETTERS[paper].split(), strict=True))
    found = common_letters(notation(paper))
    assert found == {name: [] if letter == "-" else [letter] for name, letter in expected.items()}


def test_a_common_name_has_one_unit_in_all_papers():
    def units(*more: PaperSymbol) -> dict[str, set[str]]:
        found = [*itertools.chain(*map(notation, papers.PAPERS)), *more]
        return {name: {str(symbol.unit) for symbol in found if symbol.common == name} for name in COMMON_NAMES}

    assert all(len(found) == 1 for found in units().values())
    wrong = PaperSymbols("noisy_sgd").symbol("L", "smoothness", common="lipschitz")
    assert len(units(wrong)["lipschitz"]) == 2, "control"


# ---------------------------------------------------------------- orders
ONES = dict.fromkeys(("lipschitz", "smoothness", "initial_gap", "radius", "clients", "hessian_lipschitz"), 1.0)


def monomial(**powers: str | int) -> tuple[tuple[str, Fraction], ...]:
    return tuple(sorted((name, Fraction(power)) for name, power in powers.items()))


def test_an_order_is_taken_from_its_claim_as_printed_and_as_corrected():
    claim = papers.claim("drift_escape.thm2.constants")
    assert {*order(claim).monomials} > {*stated(claim).monomials}
    lost = monomial(
        dim="2/17", epsilon="-4/17", num_examples="-6/17", lipschitz="4/17", smoothness="8/17", initial_gap="6/17",
        hessian_lipschitz="-1/17",
    )  # fmt: skip
    assert {*order(claim).monomials} - {*stated(claim).monomials} == {lost}
    with pytest.raises(ValueError, match=r"Expected goldstein\.eq7 to state a rate|Expected common names"):
        stated(papers.claim("goldstein.eq7"))
    with pytest.raises(ValueError, match="to state a rate, got Uncheckable"):
        order(papers.claim("adaptive_batch.sec1.1.lower_bound"))


def test_a_sample_size_is_inverted_and_constants_at_one_return_by_their_units():
    """Zhang et al. have Phi = L = 1; the units of a Goldstein norm leave one way to put them back."""
    rate = Order.of(papers.claim("goldstein.eq1").statement)
    assert (
        rate.normalised == ()
        and monomial(dim="1/3", initial_gap="1/3", lipschitz="2/3", num_examples="-1/3", radius="-1/3")
        in rate.monomials
    )
    several = Order.of(papers.claim("adaptive_batch.own.spider_gaussian").statement)
    assert several.normalised == ("initial_gap", "lipschitz", "smoothness"), "two units, three constants"


def test_units_are_checked():
    with pytest.raises(UnitsDiffer, match="in units of a gradient, F x\\^-1, got 1"):
        Order((monomial(num_examples="-1/2", dim="1/2"),))
    with pytest.raises(UnitsDiffer, match="F\\^4/3 x\\^-4/3"):
        stated(papers.claim("goldstein.thmB.5.rate"))  # the misprint L^(4/3)
    with pytest.raises(ValueError, match="at least one monomial"):
        Order(())
    G = PaperSymbols("example").symbol("q", "a letter of its own")
    with pytest.raises(ValueError, match="Expected common names in sqrt"):
        Order.of(sympy.sqrt(G))


def test_the_least_number_of_examples_is_the_inverse():
    rate = order(papers.claim("adaptive_batch.own.best_rate"))
    given = {**ONES, "lipschitz": 2.0, "dim": 100.0, "epsilon": 0.3}
    for accuracy in (1e-3, 0.1, 1.5):
        n = rate.least(given, accuracy)
        assert rate({**given, "num_examples": n}) == pytest.approx(accuracy)
        assert rate({**given, "num_examples": 0.99 * n}) > accuracy
    assert rate.least({**given, "num_examples": 100.0}, 1e-9, along="smoothness") == math.inf
    assert rate.least({**given, "num_examples": 1e9}, 1.0, along="smoothness") == 0.0
    grid = rate({**given, "num_examples": np.array([1e4, 1e6])})
    assert grid.shape == (2,) and grid[0] > grid[1]
