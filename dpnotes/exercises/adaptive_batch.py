"""The exercises of notebooks/03_adaptive_batch."""

import torch

from dpnotes.notebook.teaching import exercise, near
from dpnotes.papers.adaptive_batch.reference import tree_mechanism
from dpnotes.random.streams import Streams


@exercise
def write_the_sums(function):
    r"""Write lines 3 to 7 of Algorithm 1: the list of released sums $X_1, \dots, X_T$ of the rows of `terms`. `node(t,
    Sigma)` of the listing above gives the blocks `(first, last)` of $\mathrm{NODE}(t)$, `sigma` is the standard
    deviation of a block's noise, and `noise(last)` is the standard Gaussian vector of the block that ends at leaf
    `last`. Your answer is compared with the reference, `tree_mechanism`.

    Hints:
      Keep the exact sum private. Release the sum plus the noise of the blocks of NODE(t).

      The noise does not accumulate over t: each release adds only the draws of its own blocks.
    """
    draws = Streams.of("exercise", ["one"])
    noise = lambda end: draws.normal("noise", end, 2)[0]
    terms, Sigma, sigma = draws.normal("terms", 0, 26)[0].view(13, 2), 13, 0.5
    answer = list(function(terms, Sigma, sigma, noise))
    if len(answer) != len(terms):
        return f"it gives {len(answer)} sums for {len(terms)} terms: one is released after each term."
    given, exact = torch.stack(answer), terms.cumsum(0)
    each = torch.stack([noise(end) for end in range(1, 14)])
    if torch.allclose(given, exact):
        return "you added no noise."
    if torch.allclose(given, exact + sigma * each.cumsum(0)):
        return "every term has noise of its own, and the noise of the sum grows with t; take one draw for each block."
    if torch.allclose(given, exact + sigma * each):
        return "each sum has one draw of its own, but 1 ... t is several blocks, and an example is in all later sums."
    if torch.equal(given[0], terms[0]):
        return "the first sum is exact: is t counted from 0?"
    right = torch.stack([step.released for step in tree_mechanism(terms, Sigma, sigma, 1.0, noise)])
    wrong = (~torch.isclose(given, right).all(dim=1)).nonzero()
    return f"X_{int(wrong[0]) + 1} is not the sum so far plus the noise of its blocks." if len(wrong) else ""


@exercise
def saving(number):
    r"""A run takes 10 steps with $\|\widetilde\nabla\| = 1$ and 990 with $0.02$. How many times as many examples do
    fixed batches need as adaptive ones, if each batch must be large enough for its step? (Ignore fresh gradients.)

    Hints:
      A fixed batch has the size that the longest step needs, at each of the 1000 steps.

      Adaptive batches add up to beta times the sum of the lengths.
    """
    if number == 50:
        return "50 is the ratio of the two lengths; ten of the steps are long in either case."
    if number == 100:
        return "100 leaves out the short steps: 990 of them add up to twice the long ones."
    adaptive = torch.tensor([1.0] * 10 + [0.02] * 990)
    return near(float(adaptive.max().expand(1000).sum() / adaptive.sum()))(number)
