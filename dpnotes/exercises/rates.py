"""The exercise of notebooks/rates."""

import math

from dpnotes.notebook.teaching import exercise


@exercise
def crossing(number):
    r"""At which $\varepsilon$, for $n = 10^6$ and $d = 1000$, do the mixed term $d^{2/17}/(\varepsilon^{4/17}
    n^{6/17})$ and the privacy term $d^{1/5}/(\varepsilon n)^{2/5}$ change places? Give a number (2% will do).

    Hints:
      Set the two monomials equal and take logarithms: one linear equation in ln(epsilon).

      The powers of epsilon differ by 2/5 - 4/17 = 14/85, those of d by 1/5 - 2/17 = 7/85, those of n by 2/5 - 6/17 =
      4/85.
    """
    epsilon, n, d = number, 1e6, 1000.0
    if not epsilon > 0:
        return "epsilon should be above 0."
    ratio = d ** (2 / 17) / (epsilon ** (4 / 17) * n ** (6 / 17)) / (d ** (1 / 5) / (epsilon * n) ** (2 / 5))
    if abs(math.log(ratio)) <= 14 / 85 * math.log(1.02):
        return ""
    return f"at this epsilon the mixed term is {ratio:.3g} times the privacy term."
