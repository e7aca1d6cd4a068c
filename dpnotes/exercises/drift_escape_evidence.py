"""The exercises of notebooks/evidence/04_drift_escape_evidence."""

import math

from dpnotes.notebook.teaching import exercise, near


@exercise
def small_enough(number):
    r"""A loss has $M = 20$ and $\rho = 1$, and you want $\alpha = 0.01$. From which batch size $b$ on does plain
    minibatch SGD with $\eta = 1/M$ leave every $\alpha$-strict saddle, by the rule $\eta < 2b\lambda/M^2$?

    Hints:
      The flattest strict saddle has lambda = sqrt(rho alpha).

      Put eta = 1/M and that lambda into the rule, and solve for b.
    """
    batch, M, flattest = number, 20.0, math.sqrt(1.0 * 0.01)
    leaves = lambda b: 1 / M < 2 * b * flattest / M**2
    if not leaves(1.01 * batch):
        return f"with b = {batch:g}, the rule fails at the flattest strict saddle."
    return f"a batch smaller than {batch:g} is enough, too." if leaves(0.99 * batch) else ""


@exercise
def exponent_of(number):
    r"""With a step size $\eta = \alpha^k$, which $k$ would give the private exponent $3/8$?

    Hints:
      The private term is p^(3/(7 + k)).

      Which denominator gives 3/8?
    """
    exponent = 3 / (7 + number)
    return near(3 / 8, 0.001)(exponent) and f"k = {number:g} gives the exponent {exponent:.3f}."
