"""The exercises of notebooks/evidence/03_adaptive_batch_evidence."""

import math

from dpnotes.notebook.teaching import exercise, near
from dpnotes.privacy.calibration import gaussian_delta
from dpnotes.privacy.tree import Tree


@exercise
def which_blocks(function):
    r"""Write $\mathrm{NODE}(t)$: the list of blocks `(first, last)` that make up the terms $1, \dots, t$, largest
    first.

    Hints:
      Each one in the binary expansion of t is a block.

      Start with the largest power of two; take each power of two that still fits into the remaining terms.
    """
    for t in (1, 6, 13, 16, 100):
        blocks = sorted(map(tuple, function(t)))
        leaves = [leaf for first, last in blocks for leaf in range(first, last + 1)]
        if leaves != list(range(1, t + 1)):
            return f"for t = {t} the blocks do not contain each of the terms 1, ..., t exactly once."
        if len(blocks) > t.bit_count():
            return f"for t = {t} there are {len(blocks)} blocks: fewer, larger ones do."
        if any((last - first + 1).bit_count() > 1 or (first - 1) % (last - first + 1) for first, last in blocks):
            return f"for t = {t} a block is no node: it starts after a multiple of its length, a power of 2."
    return ""


@exercise
def enough_noise(number):
    r"""By which factor does the $\sigma = \alpha/\sqrt d$ of Theorem 3.11 have to grow to be $(1, 10^{-6})$-DP when an
    example is replaced, for a tree of 1024 terms?

    Hints:
      The sensitivity of a term is 2 alpha epsilon / sqrt(d).

      tree_std(epsilon, delta, sensitivity, terms) gives the least noise of a node.
    """
    nodes = 2 * Tree(1024).max_cost(1.0)  # that see an example's term, each at a sensitivity of 2 in units of sigma
    if math.isclose(number, 2 * math.log(1e6), rel_tol=0.005):
        return "this is Lemma 3.8, which is just too small."
    delta = lambda sensitivity: gaussian_delta(1.0, number / (sensitivity * math.sqrt(nodes)))
    if near(1e-6, 0.3)(delta(1.0)) == "":
        return "this is enough where an example is zeroed out; one that is replaced moves a term twice as far."
    return near(1e-6, 0.3)(delta(2.0)) and f"with this factor, epsilon = 1 holds at delta = {delta(2.0):.2g}."
