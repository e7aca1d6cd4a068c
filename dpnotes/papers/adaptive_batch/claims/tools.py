"""Section 2: the tree mechanism and its ingredients."""

from typing import Any

from sympy import Eq, Integer, Piecewise, Sum, floor, log, sqrt

from dpnotes.papers.adaptive_batch.calculators import TREE
from dpnotes.papers.adaptive_batch.notation import *
from dpnotes.theory.claims import Breach, Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Rate
from dpnotes.theory.statements import Identity

at, CLAIMS = PAPER.section()

ESTIMATOR = "tree estimator of Algorithms 1 and 2"  # the mechanism that all breaches of privacy of this paper are of


num_levels = floor(log(Sigma) / log(2)) + 1
# A leaf belongs to one node of each size 1, 2, 4, ... up to Sigma.
counted_levels = Sum(Piecewise((1, 2 ** (level - 1) <= Sigma), (0, True)), (level, 1, Sigma))
trees = tuple({Sigma: leaves} for leaves in (1, 2, 3, 4, 7, 8, 31))
at("thm2.2.sigma", "Theorem 2.2", "Noise of the tree mechanism")(
    Inequality(
        s * sqrt(num_levels / 2) / (sqrt(log(1 / delta) + epsilon) - sqrt(log(1 / delta))),
        4 * s * sqrt(log(Sigma) * log(1 / delta)) / epsilon,
        {Sigma: (1, 1e6), epsilon: (0.01, 1)},
        example={s: 1, Sigma: 1, epsilon: 1, delta: 1e-6},
        subject=by_zcdp,
    ),
    "A leaf belongs to floor(log2 Sigma) + 1 nodes; zCDP of so many Gaussian releases gives (epsilon, delta)-DP at "
    "the noise on the left, sigma_zCDP, which is enough; at one leaf 4.22 is needed, of 5.35.",
    Severity.EDGE(
        "log(Sigma) should be the number of nodes that a leaf belongs to, floor(log2 Sigma) + 1: with one leaf, and "
        "only there at a moderate epsilon, privacy fails, since the printed noise is 0. From two leaves on, the "
        "constant 4 makes up for the difference as long as epsilon <= 4 log(1/delta), which should be a condition: at "
        "two leaves and delta = 1e-5 the exact delta is 0.035 at epsilon = 100, or, with both logarithms to base 2, "
        "0.0018 at epsilon = 200. With mu the parameter of Gaussian DP that (epsilon, delta) allows, s sqrt(levels)/mu "
        "is what these sums need.",
        Identity(sigma, s * sqrt(num_levels) / mu, s * sqrt(counted_levels) / mu, instances=trees, example={s: 1}),
    ),
    calculation=TREE,
)

parts = SYMBOLS.sequence("M", "what step t adds")
sums = SYMBOLS.symbol("X_t", "release t without its noise")
one_more = Sum(parts[level], (level, 1, t - 1)) + parts[t]
at("thm2.2.prefix", "Theorem 2.2", "What the tree mechanism releases")(
    Identity(sums, Sum(parts[t], (level, 1, t)), one_more, instances=({t: 2}, {t: 3})),
    "A release is the one before plus M_t(X_{1:t-1}, Z_t), of which only that depends on the data Z_t.",
    Severity.TYPOGRAPHICAL(
        "M_i(X_{1:j-1}, Z_i) should be M_j(X_{1:j-1}, Z_j), the sum over j of the parts of all steps so far.",
        Sum(parts[level], (level, 1, t)),
    ),
)
at("thm2.2.sigma_from_two", "Theorem 2.2", "The printed noise is enough from two leaves on")(
    Inequality(
        s * sqrt(num_levels / 2) / (sqrt(log(1 / delta) + epsilon) - sqrt(log(1 / delta))),
        4 * s * sqrt(log(Sigma) * log(1 / delta)) / epsilon,
        {Sigma: (2, 1e6), epsilon: (0.01, 100)},
        conditions=(epsilon <= 4 * log(1 / delta),),
        subject=by_zcdp,
    ),
    "As before, for Sigma >= 2 and epsilon <= 4 log(1/delta).",
)

norm = SYMBOLS.symbol("TREE", "norm of TREE(t)", GRADIENT)
lengths = {"mean length": sqrt(num_nodes * sigma**2 * d), "deviation from it": sqrt(num_nodes * sigma**2 * ell)}
says_something = {"Sigma iota <= 1, so that nodes are of the order of ell": num_nodes / ell}
at("thm2.2.norm", "Theorem 2.2", "Norm of the tree's noise")(
    Rate(norm, sigma * sqrt(d * ell), lengths, regime=says_something),
    "TREE(t) is a sum of as many independent noises as t has ones in binary; ell stands for log(1/iota). Where "
    "1 - Sigma iota is above 0, ell is above log(Sigma): there are at most as many nodes, up to a constant.",
    Severity.EDGE(
        "In fewer dimensions than log2(Sigma) the bound is too small, by up to sqrt(log Sigma) (d = 1): TREE(t) sums "
        "up to log2(Sigma + 1) independent noises of variance sigma^2 a coordinate. In more it holds, since the "
        "theorem says something for iota < 1/Sigma only.",
        Rate(norm, sigma * sqrt(num_nodes) * (sqrt(d) + sqrt(ell)), lengths, regime=says_something),
    ),
)

levels = SYMBOLS.symbol("L", "nodes that a leaf belongs to")
at("alg1.levels", "Algorithm 1, line 2", "Levels of the tree")(
    Identity(levels, log(Sigma) / log(2), counted_levels, instances=trees),
    "How many of the sizes 1, 2, 4, ... are at most Sigma, counted.",
    Severity.PRIVACY(
        "l should run to floor(log2 Sigma) + 1. With 1 <= l <= log Sigma the root is missing, so that for Sigma = 2^K "
        "the last release has the noise of the one before, and their difference has none.",
        num_levels,
        Breach(1, 1e-6, 1, "8 leaves, NODE mended: the difference of releases 8 and 7 is exact", ESTIMATOR),
    ),
)

in_node = SYMBOLS.symbol("|NODE(t)|", "number of nodes in NODE(t)", latex="|\\mathrm{NODE}(t)|")


def chosen_nodes(step: int, leaves: int, *, literal: bool = False) -> list[tuple[int, int]]:
    """Run NODE(step) of Algorithm 1: as printed (`literal`), or with `k' <= t` in line 14 and i from 0."""
    height, begun, chosen = (leaves - 1).bit_length(), 0, []
    for i in range(1 if literal else 0, height + 1):
        end = begun + 2 ** (height - i)
        if begun < step and end <= (begun if literal else step):
            chosen.append((begun + 1, end))
            begun = end
    return chosen


def as_counted(symbol: Any, counts: dict[int, int]) -> Any:
    """Return tabulated counts as a symbolic expression, undefined at other places."""
    return Piecewise(*((Integer(count), Eq(symbol, place)) for place, count in counts.items()))


all_steps = tuple({t: step} for step in range(1, 17))
counted_nodes = as_counted(t, {step: len(chosen_nodes(step, 16)) for step in range(1, 17)})
most_literally = Integer(max(len(chosen_nodes(step, 16, literal=True)) for step in range(1, 17)))
at("alg1.node", "Algorithm 1, line 14, with lines 11 to 17", "Number of nodes in the sum TREE(t)")(
    Identity(in_node, most_literally, counted_nodes, instances=all_steps),
    "NODE executed for all t of a tree with 16 leaves: as printed no interval is ever chosen, because k' is k plus a "
    "power of two and line 14 asks for k' <= k. Derived: with k' <= t there, and i from 0, intervals that cover 1 to "
    "t.",
    Severity.PRIVACY(
        "Line 14 should read k' <= t: read literally, NODE(t) is empty, TREE(t) is 0, and no noise is added at all. "
        "And i should begin at 0: from 1 on the largest interval is half of the tree, so that for Sigma = 8 NODE(8) "
        "is NODE(7), and the last leaf is without noise of its own. NODE(t) has as many nodes as t has ones in binary.",
        t - Sum(floor(t / 2**level), (level, 1, t)),
        Breach(1, 1e-6, 1, "16 leaves, as printed: no release has noise", ESTIMATOR),
    ),
)

nodes = SYMBOLS.symbol("nodes", "number of nodes in the noise of the t-th release")
before = t - 1 - Sum(floor((t - 1) / 2**level), (level, 1, t - 1))
at("alg2.first", "Algorithm 2, lines 2, 11 and 13, with Algorithm 1", "Number of nodes in the noise of a release")(
    Identity(nodes, before, counted_nodes, instances=all_steps),
    "Algorithm 2 begins at t = 0 and adds TREE(0) to its first gradient, while Algorithm 1 has TREE(1) to "
    "TREE(Sigma), mended as in alg1.node: NODE(0) is empty.",
    Severity.PRIVACY(
        "TREE(t) should be TREE(t + 1), and Sigma at least T + 1. Algorithm 1 takes t from 1 to Sigma only, so that "
        "TREE(0), which the first release asks for, does not exist; evaluated all the same, NODE(0) is empty, and "
        "the first gradient, of all b examples, goes out without noise.",
        t - Sum(floor(t / 2**level), (level, 1, t)),
        Breach(1, 1e-6, 1, "NODE mended: the first release has no noise", ESTIMATOR),
    ),
)

needed_scale = log(2 * d) / (2 * log(2))
constant = SYMBOLS.symbol("C", "an absolute constant", domain=FROM_ONE)
printed_scale = constant * log(d) / (2 * log(2))
example = {constant: 100, d: 1}
squared_scale = SYMBOLS.symbol("zeta^2", "squared scale", latex="\\zeta^2")
at("lemma2.4.norm", "Lemma 2.4, last line", "A sum of norm-sub-Gaussian vectors")(
    Inequality(needed_scale, printed_scale, {constant: (1, 1e3)}, example=example, subject=squared_scale),
    "The lemma bounds the tail at t by min(1, 2 d exp(-x)), x = t^2/(c^2 V), with V the sum of the squared scales. In "
    "units of c^2 V, 2 exp(-x/(2 zeta^2)) is above that where it is at the kink x = log(2 d).",
    Severity.EDGE(
        "log(d) should be log(2d): in one dimension the printed scale is 0.", constant * log(2 * d) / (2 * log(2))
    ),
)

exponent = SYMBOLS.symbol("E", "exponent of the tail bound")
tail = SYMBOLS.symbol("t", "where the tail begins", latex="t")
variance = SYMBOLS.symbol("V", "norm of the summed variances")
largest = SYMBOLS.symbol("L", "bound of each matrix")
spread = variance + largest * tail / 3
tilt = tail / spread
chernoff = -tilt * tail + variance * tilt**2 / (2 * (1 - largest * tilt / 3))
at("thm2.5.exponent", "Theorem 2.5", "Exponent of the matrix Bernstein inequality")(
    Identity(exponent, tail**2 / spread, chernoff, example={tail: 40, variance: 400, largest: 1}),
    "Chernoff's bound: -theta t + theta^2 V/(2 (1 - L theta/3)) at theta = t/(V + L t/3); the printed exponent is "
    "-(-t^2)/(...).",
    Severity.CONSTANT(
        "The exponent should be -(t^2/2)/(sigma^2 + L t/3): as printed it is positive, and the bound grows with t; "
        "with the sign alone it is still violated (400 signs, t = 40: 0.0510 > 0.0208).",
        -(tail**2) / 2 / spread,
    ),
)

factor = SYMBOLS.symbol("factor", "factor of the tail bound")
trace = Sum(1, (level, 1, d))
at("thm2.5.dimension", "Theorem 2.5", "Factor of the matrix Bernstein inequality")(
    Identity(factor, d, 2 * trace, instances=({d: 1}, {d: 2}, {d: 7})),
    "The largest eigenvalue of S and that of -S, each with the trace of a d by d identity.",
    Severity.CONSTANT(
        "d should be 2d for the norm of a symmetric matrix, which both ends of the spectrum can exceed. With d and "
        "the exponent corrected, two signs in one dimension violate it: t = 2 has probability 1/2, above exp(-3/4) = "
        "0.472.",
        2 * d,
    ),
)
