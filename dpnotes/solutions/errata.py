"""The solution of notebooks/errata."""

import sympy

from dpnotes.solutions import Solution
from dpnotes.theory.rates import Rate
from dpnotes.theory.symbols import COUNT, PaperSymbols
from dpnotes.theory.units import LENGTH, LOSS

paper = PaperSymbols("exercise")
n, d, T = (paper.symbol(name, name, domain=COUNT) for name in ("n", "d", "T"))
epsilon = paper.symbol("epsilon", "privacy loss")
f_max = paper.symbol("f_max", "initial gap", LOSS)
L = paper.symbol("L", "smoothness", LOSS / LENGTH**2)
eta = paper.symbol("eta", "step size", LENGTH**2 / LOSS)
alpha = paper.symbol("alpha", "gradient norm", LOSS / LENGTH)
Delta = paper.symbol("Delta", "noise", LOSS / LENGTH)
CONSTRAINTS = {
    "descent": f_max / (T * eta * alpha**2),
    "noise": L * eta * d * Delta**2 / alpha**2,
    "privacy": L * f_max * T / (n * epsilon * Delta) ** 2,
}
QUARTER = sympy.Rational(1, 4)


def rate(value):
    return Rate(alpha, value, {"alpha": alpha}, (alpha, eta, T, Delta), CONSTRAINTS)


SOLUTIONS = {
    "find_exponent": Solution(
        rate(sympy.sqrt(L * f_max) * d**QUARTER / sympy.sqrt(n * epsilon)),
        [
            rate(f_max * d**QUARTER / sympy.sqrt(n * epsilon)),  # as printed
            rate(sympy.sqrt(L * f_max) * d ** (QUARTER / 2) / sympy.sqrt(n * epsilon)),
            rate(sympy.sqrt(L * f_max) * d ** (2 * QUARTER) / sympy.sqrt(n * epsilon)),
            1.0,
        ],
        "balance(terms, tuned, constraints).rate is sqrt(L)*d**(1/4)*sqrt(f_max)/(sqrt(epsilon)*sqrt(n)):\n"
        "Rate(alpha, sympy.sqrt(L * f_max) * d ** sympy.Rational(1, 4) / sympy.sqrt(n * epsilon), terms, tuned, "
        "constraints).\n"
        "The power of f_max is 1/2: alpha^2, not alpha, is in proportion to f_max.",
    )
}
