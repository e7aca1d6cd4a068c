"""Calculators: arguments, domains, and sets of constants."""

import numpy as np
import pytest

from dpnotes.theory.calculators import Calculator
from dpnotes.theory.symbols import COUNT, PaperSymbols

PAPER = PaperSymbols("example")
X, N = PAPER.symbol("x", "a number"), PAPER.symbol("n", "a count", domain=COUNT)
PLAIN = Calculator(lambda x, n: {"product": np.float64(x) * n}, (X, N), {"product": "x n"})
FACTORS = {"paper": 2.0, "corrected": 4.0, "one": 1.0}
SETS = Calculator(
    lambda x, n, constants: {"product": FACTORS[constants] * x * n}, (X, N), {"product": "C x n"}, tuple(FACTORS)
)


def test_scalars_in_plain_floats_out_and_arrays_broadcast():
    found = PLAIN(x=0.5, n=3)
    assert found == {"product": 1.5} and type(found["product"]) is float
    grid = SETS(x=np.array([[1.0], [2.0]]), n=np.arange(1, 4))["product"]
    assert grid.tolist() == [[2, 4, 6], [4, 8, 12]]


def test_the_first_set_of_constants_is_the_default():
    assert SETS(x=1.0, n=1) == SETS(x=1.0, n=1, constants="paper") == {"product": 2.0}
    assert SETS(x=1.0, n=1, constants="corrected") == {"product": 4.0}
    assert SETS(constants="one", n=1, x=1.0) == {"product": 1.0}


@pytest.mark.parametrize(
    ("calculator", "arguments", "error", "message"),
    [
        (SETS, {"x": 1.0, "n": 1, "constants": "two"}, ValueError, "constants='two' to be one of: paper, corrected"),
        (SETS, {"x": 1.0, "n": 1, "constants": 2.0}, ValueError, "constants=2.0 to be one of: paper, corrected, one"),
        (PLAIN, {"x": 1.0, "n": 1, "constants": "one"}, TypeError, r"Expected the arguments x, n: unknown constants\."),
        (SETS, {"constants": "one"}, TypeError, r"Expected the arguments x, n: missing x, n\."),
        (PLAIN, {"x": 1.0, "m": 1}, TypeError, r"missing n; unknown m\."),
        (PLAIN, {"x": -1.0, "n": 1}, ValueError, r"Expected x=-1.0 > 0\."),
        (PLAIN, {"x": 1.0, "n": np.array([1, 0])}, ValueError, r"Expected n=0 >= 1 and an integer\."),
        (PLAIN, {"x": float("nan"), "n": 1}, ValueError, r"Expected x=nan to be finite\."),
        (PLAIN, {"x": True, "n": 1}, TypeError, "Expected x=True to be a real number"),
        (PLAIN, {"x": None, "n": 1}, TypeError, "Expected x=None to be a real number"),
    ],
)
def test_bad_arguments_are_named(calculator, arguments, error, message):
    with pytest.raises(error, match=message):
        calculator(**arguments)
