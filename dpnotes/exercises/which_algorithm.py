"""The exercises of notebooks/which_algorithm."""

import math

from dpnotes.notebook.teaching import exercise


@exercise
def lasry_lions(number):
    r"""For Goldstein points of the *data*, with all constants of the problem 1, $d = 10^5$ and $\varepsilon = 0.5$:
    from which $n$ on has Lasry-Lions smoothing a better order than many plain passes? Give a number (2% will do).

    Hints:
      The two orders are (sqrt(d)/(n epsilon))^(2/3) and d^(2/3)/(n epsilon): set them equal.

      takeovers(ask(n=..., d=100_000, epsilon=0.5, delta=1e-5), Measure.GOLDSTEIN_EMPIRICAL) has it, too.
    """
    if not number > 0:
        return "n should be above 0."
    many, smoothed = (math.sqrt(1e5) / (number * 0.5)) ** (2 / 3), 1e5 ** (2 / 3) / (number * 0.5)
    if abs(math.log(smoothed / many)) <= math.log(1.02) / 3:
        return ""
    return f"at this n the order of Lasry-Lions smoothing is {smoothed / many:.3g} times that of many plain passes."


@exercise
def needed(number):
    r"""Give the number of examples, as an order of magnitude, that *one plain pass* needs for a Goldstein point of norm
    0.03 at radius 1, with $d = 10^6$, $\varepsilon = 1$ and all constants 1.

    Hints:
      choose(..., goal='goldstein', alpha=0.03) has a column `needed`.

      The number has two terms, 1/alpha^3 without privacy and one with d and epsilon: take the larger one.
    """
    if not number > 0:
        return "n should be above 0."
    reached = (math.sqrt(1e6) / number) ** (1 / 3)
    if abs(math.log(reached / 0.03)) <= math.log(1.02) / 3:
        return ""
    return f"with so many examples the order of the norm is {reached:.3g}, not 0.03."
