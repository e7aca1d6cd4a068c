import math
import pickle

import numpy as np
import pytest
import sympy

from dpnotes.theory.symbols import COUNT, Domain, PaperSymbols, expand, symbols_of
from dpnotes.theory.units import LENGTH, LOSS, NONE, UnitsDiffer, unit_of

PAPER = PaperSymbols("example")
SMOOTHNESS = PAPER.symbol("M", "smoothness", LOSS / LENGTH**2)
DISTANCE = PAPER.symbol("r", "distance", LENGTH)
KAPPA = PAPER.symbol("kappa", "condition number", domain=Domain(1))


def test_powers_products_and_roots():
    assert unit_of(SMOOTHNESS * DISTANCE**2 / KAPPA) == LOSS
    assert unit_of(sympy.sqrt(SMOOTHNESS * DISTANCE**2) * sympy.sqrt(SMOOTHNESS) * DISTANCE) == LOSS
    assert unit_of(sympy.exp(1 / KAPPA)) == NONE
    assert unit_of(sympy.Integer(0)) is None


@pytest.mark.parametrize(
    "expression",
    [SMOOTHNESS + DISTANCE, sympy.exp(DISTANCE), KAPPA**DISTANCE, SMOOTHNESS**KAPPA, sympy.Max(SMOOTHNESS, DISTANCE)],
)
def test_what_does_not_fit_is_refused(expression):
    with pytest.raises(UnitsDiffer, match="Expected"):
        unit_of(expression)


def test_the_message_names_the_terms_and_both_units():
    with pytest.raises(UnitsDiffer, match=r"got r: x, M\*r: F x\^-1"):
        unit_of(SMOOTHNESS * DISTANCE + DISTANCE)


def test_a_symbol_without_units_is_refused():
    with pytest.raises(TypeError, match="bare symbol y"):
        unit_of(sympy.Symbol("y"))


def test_symbols_of_two_papers_are_different_and_do_not_mix():
    other = PaperSymbols("another").symbol("kappa", "condition number", domain=Domain(1))
    mine = PAPER.symbol("kappa", "condition number", domain=Domain(1))
    assert mine == KAPPA and mine != other and sympy.simplify(KAPPA - mine) == 0 and KAPPA - other != 0
    with pytest.raises(ValueError, match="one paper"):
        symbols_of(KAPPA + other)
    with pytest.raises(ValueError, match="bare symbol y"):
        symbols_of(KAPPA + sympy.Symbol("y"))
    assert pickle.loads(pickle.dumps(KAPPA)) == KAPPA


def test_sums_are_written_out_and_terms_named():
    step, steps, influence = (
        PAPER.symbol("t", "step", domain=COUNT),
        PAPER.symbol("T", "steps", domain=COUNT),
        PAPER.sequence("q", ""),
    )
    total = sympy.Sum(influence[step] * sympy.Sum(influence[step], (step, 1, 1)), (step, 1, steps))
    written = expand(sympy.Sum(influence[step], (step, 1, steps)), {steps: 3})
    assert str(written) == "q_1 + q_2 + q_3" and [s.name for s in symbols_of(written)] == ["q_1", "q_2", "q_3"]
    assert unit_of(total) == NONE
    assert expand(sympy.Sum(influence[step], (step, 2, steps)), {steps: 1}) == 0


@pytest.mark.parametrize(
    ("domain", "inside", "outside"),
    [
        (
            Domain(1),
            [1.5, np.array([2.0, 3.0]), np.float32(2)],
            [1, 1.0, 0.5, math.inf, math.nan, np.array([2.0, 0.5])],
        ),
        (Domain(0, 1), [0.5], [0, 1, 2.0]),
        (COUNT, [1, 7, np.array([1, 2])], [0, 1.5, np.array([1.5])]),
        (Domain(), [-3.0], [math.inf]),
    ],
)
def test_domains(domain, inside, outside):
    for value in inside:
        domain.check("value", value)
    for value in outside:
        with pytest.raises(ValueError, match="Expected .*value"):
            domain.check("value", value)
    for value in (True, "1", None):
        with pytest.raises(TypeError, match="real number"):
            domain.check("value", value)
