"""Section 2 and Appendix A: estimators, the tree, and the online-to-nonconvex conversion."""

from sympy import Integer, Min, Mod, Sum, exp, expand, floor, log, loggamma, pi, sqrt

from dpnotes.papers.goldstein import calculators as calculate
from dpnotes.papers.goldstein.notation import *
from dpnotes.theory.asymptotics import Ratio
from dpnotes.theory.claims import Breach, Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.statements import Identity

at, CLAIMS = PAPER.section()

TREE = "tree of Algorithms 1, 3 and 5"  # the mechanism that all breaches of privacy of this paper are of

at("eq4", "eq. (4)", "Two-point estimator")(
    Identity(mean, d * first_moment, Integer(1), {first_moment: Integer(0)}, example={d: 10}),
    "A linear loss of unit slope along the first axis: the mean of (d/2 alpha)(f(x + alpha y) - f(x - alpha y)) for y "
    "uniform on the unit sphere, whose coordinates have mean 0 and mean square 1/d.",
    Severity.TYPOGRAPHICAL(
        "Equation (4) lacks the factor y_j: as printed it is a number of mean 0, not a vector. Algorithm 3 has it.",
        Identity(mean, d * second_moment, Integer(1), {second_moment: 1 / d}, example={d: 10}),
    ),
)
at("alg3.mean", "Algorithm 3, line 12, and Algorithm 4, line 11", "Two-point estimator with directions in the ball")(
    Identity(mean, d * second_moment * alpha**2, Integer(1), {second_moment: 1 / (d + 2)}, example={d: 10}),
    "A linear loss of unit slope: d E[y_1^2] for y uniform in the ball of radius alpha, E[y_1^2] = alpha^2/(d + 2).",
    Severity.RATE(
        "The increments draw y from the ball of radius alpha, but use alpha y, d/(2 alpha) and y as for the unit "
        "sphere: the mean is alpha^2 d/(d + 2) times the gradient of a linear loss (0.0083 at d = 10, alpha = 0.1), "
        "so that increments hardly move. y should be uniform on the unit sphere, as at a reset.",
        Identity(mean, d * second_moment, Integer(1), {second_moment: 1 / d}, example={d: 10}),
    ),
)
at("eq5", "eq. (5)", "Worst-case sensitivity of the two-point estimator")(
    Inequality((u + v) * L * d / B, L * d / B, example={L: 1, d: 10, B: 10, u: 1, v: 1}),
    "Neighbouring minibatches differ in one sample, whose estimates of norms u L d and v L d may be opposite.",
    Severity.CONSTANT(
        "The equation tells of prior work; no guarantee rests on it. Replacing a sample moves the mean by up to 2 L "
        "d/B, as the paper's own proof of Lemma 3.4 has it for smoothed gradients (2L/B).",
        2 * L * d / B,
    ),
)
at("fact2.3.ii", "Fact 2.3 (ii)", "Error of smoothing")(
    Inequality(L * alpha * (1 - 1 / (d + 1)), L * alpha, {alpha: (0.01, 10), d: (1, 1e4)}),
    "L|x| at 0: the mean norm in the unit ball is the integral of 1 - r^d over r from 0 to 1.",
)

kappa = 2 * exp(loggamma(d / 2 + 1) - loggamma((d + 1) / 2)) / sqrt(pi)
at("fact2.3.iii", "Fact 2.3 (iii)", "Smoothness after smoothing")(
    Ratio(kappa * L / alpha, L * root / alpha, {d: (1.0, 1)}, "O", {L: Integer(1), alpha: Integer(1)}),
    "The gradient of the smoothed |x_1| grows at 0 by twice the density of y_1 for y uniform in the ball: 2 "
    "V_{d-1}/(V_d alpha), V_k the volume of the unit ball.",
)
at("fact2.3.iv", "Fact 2.3 (iv)", "Mean of the two-point estimator")(
    Identity(mean, d * second_moment, Integer(1), {second_moment: 1 / d}),
    "A linear loss of unit slope; the squares of the d coordinates of a point of the sphere sum to 1.",
)
distance = SYMBOLS.symbol("distance", "how far from x gradients of h are taken", LENGTH)
at("lemma2.4", "Lemma 2.4", "From the smoothed loss to the loss")(
    Inequality(u * alpha + v * alpha, 2 * alpha, {alpha: (0.01, 10)}, subject=distance),
    "The gradient of the smoothed function at z is a mean of gradients of the function within alpha of z (h is "
    "Lipschitz, hence differentiable almost everywhere), and z is within alpha of x: a convex combination of gradients "
    "within 2 alpha of x, of the same norm.",
)

ln = log(1 / delta)
# The noise that zCDP needs for a Gaussian charged for this many nodes, and the least noise for one release of one node.
sufficient = sensitivity * sqrt((nodes) / 2) * (sqrt(ln + epsilon) + sqrt(ln)) / epsilon
tree = 4 * sensitivity * sqrt(log(2 ** (nodes - 1)) * ln) / epsilon
budgets = {u: (1e-4, 1)}
at_most_ln = {epsilon: u * ln}
at("prop2.5.sigma", "Proposition 2.5", "Noise of the tree")(
    Inequality(sufficient, tree, budgets, where=at_most_ln, example={sensitivity: 1, nodes: 1, delta: 1e-6, u: 0.1}),
    "A period of 2^(q - 1) steps: every query is in at most q nodes, so that q S^2/(2 sigma^2)-zCDP holds; this is "
    "the noise at which it gives (epsilon, delta), for epsilon = u ln(1/delta).",
    Severity.EDGE(
        "Only a period of one step is affected: its noise is 4 S sqrt(log 1 ...) = 0, that is none. The number of "
        "nodes that hold a query is floor(log2 Sigma) + 1; with it, and for epsilon <= ln(1/delta), the constant can "
        "be 1.71.",
        (1 + sqrt(2)) / sqrt(2) * sensitivity * sqrt((nodes) * ln) / epsilon,
    ),
    calculation=calculate.TREE_NOISE,
)

necessary = sensitivity / sqrt(2 * epsilon)
large_loss = {sensitivity: 1, nodes: 5, delta: 0.1, epsilon: 1000}
at("prop2.5.epsilon", "Proposition 2.5", "Noise of the tree for a large privacy loss")(
    Inequality(necessary, tree, {**budgets, nodes: (2, 13)}, example=large_loss),
    "The first release alone is one Gaussian of ratio mu = S/sigma. At mu = sqrt(2 epsilon) its least delta is 1/2 - "
    "e^epsilon Q(sqrt(2 epsilon)), more than 1/4 for every epsilon >= 1; so delta <= 1/4 needs more noise.",
    Severity.EDGE(
        "Noise of the order 1/epsilon is too little for large epsilon: (epsilon, delta) with delta <= 1/4 and epsilon "
        ">= 1 needs sigma > S/sqrt(2 epsilon), which 4 S sqrt(log Sigma log(1/delta))/epsilon is not once epsilon > "
        "32 log Sigma log(1/delta). Theorem 3.1 allows every epsilon > 0. Assume epsilon <= log(1/delta), or add the "
        "term: sigma = S sqrt(q/2) (sqrt(l + epsilon) + sqrt(l))/epsilon with l = ln(1/delta) always suffices.",
        Inequality(necessary, sufficient, budgets),
    ),
)
printed_variance, units = d * log(2 ** (nodes - 1)) * sigma**2, {d: Integer(1), sigma: Integer(1)}
at("prop2.5.variance", "Proposition 2.5", "Error of the tree")(
    Ratio(d * sigma**2 * (nodes), printed_variance, {nodes: (2.0, 1)}, "O", units, subject=second),
    "A step's binary expansion has at most q ones, for a period of 2^(q - 1) steps, q >= 2; each adds d sigma^2.",
)

queries = tuple({levels: 3, index: t} for t in range(8, 0, -1))
at("alg1.node", "Algorithm 1, function NODE", "Queries that the nodes of an index hold")(
    Identity(reached, Min(index, Sum(2 ** (levels - level), (level, 1, levels))), index, {}, queries),
    "NODE goes through blocks of Sigma/2, Sigma/4, ... 1 queries and takes those that fit below t: it holds the first "
    "t queries, or all of the blocks together. TREE(t) is to be the noise of the first t queries; Sigma = 8.",
    Severity.PRIVACY(
        "For Sigma a power of 2, NODE(Sigma) holds the first Sigma - 1 queries only, the same as NODE(Sigma - 1): the "
        "two releases differ by the last query, without noise. The loop should begin at the block of Sigma queries (i "
        "= 0), which T, with levels up to log Sigma + 1, should have. For other Sigma the ceiling asks for nodes that "
        "T does not have, (1, 4) for Sigma = 5; floor(log Sigma) is right in both places.",
        Min(index, Sum(2 ** (levels - level), (level, 0, levels))),
        Breach(1, 1e-6, 1, "a period of 8: the difference of releases 8 and 7 is exact", TREE),
    ),
    calculation=calculate.NODE,
)

since_reset = index - whole_period * floor((index - 1) / whole_period)
periods = tuple({whole_period: 8, index: t} for t in (8, 1, 2, 7, 9, 15, 16))
at("alg3.index", "Algorithms 3 and 5, last line", "Index at which the tree is asked")(
    Identity(position, Mod(index, whole_period), since_reset, {}, periods),
    "Queries since the last reset, which is at t mod Sigma = 1, with that of step t; Sigma = 8.",
    Severity.PRIVACY(
        "It should be ((t - 1) mod Sigma) + 1. At every multiple of Sigma the index is 0, and Algorithm 1 has TREE(1) "
        "to TREE(Sigma) only; evaluated all the same, NODE(0) is empty, and the gradient goes out without noise.",
        Mod(index - 1, whole_period) + 1,
        Breach(1, 1e-6, 1, "a period of 8, NODE mended: release 8 has no noise", TREE),
    ),
)

printed_26 = Phi / (D * T) + 3 * G1 / (2 * sqrt(M)) + G0
block_regret = (2 * D) ** 2 / (2 * eta) + eta * M * G1**2 / 2
derived_26 = expand((Phi + T / M * block_regret + 2 * D * G0 * T) / (D * T))
by_eta = {eta: D / (G1 * sqrt(M))}
corrected_26 = Phi / (D * T) + 5 * G1 / (2 * sqrt(M)) + 2 * G0
proof_26 = Identity(proved, corrected_26, derived_26, by_eta, example={Phi: 1, D: 1, T: 100, G1: 1, M: 100, G0: 1})
# A saw of slopes G0 upwards and G0 + G1 downwards, over as much height: the mean of the slopes along the way.
sawtooth = 2 * G0 * (G0 + G1) / (2 * G0 + G1)
far_in = {Phi: (G0 + G1) * D * sqrt(M)}  # the start is on a slope downwards, by whose end Delta is D
long_run = {G0: (0.1, 10), G1: (0.1, 100), M: (1, 1e8), T: (1, 1e12), D: (0.1, 10)}
saw_example = {G0: 1, G1: 10, M: 10**6, T: 10**12, D: 1}
saw_origin = (
    "One dimension, h a saw: slope G0 upwards and -(G0 + G1) downwards, in teeth of many blocks. The oracle shrinks "
    "the slope by G0 towards 0, so that it says 0 upwards and -G1 downwards: its error is at most G0, its size at most "
    "G1, everywhere. Delta is D by the end of the first slope downwards, and stays there, since it is never pushed "
    "back. "
)
saw_wording = (
    "The constants are too small, where the error of the oracle may be a bias, as the proof's bias bound has it: on a "
    "saw with G0 = 1 and G1 = 10 the mean is 1.83, against 1.015 at M = 10^6. Lemma A.1 is applied to every block, "
    "but at the start of a later block Delta need not be 0: ||Delta - u|| can be 2D, so that the regret of a block "
    "can be (5/2) D G1 sqrt(M), which is attained; and |<grad h - g, Delta - u>| can be 2 D G0, as on the saw. The "
    "steps of the proof give 5 G1/(2 sqrt M) + 2 G0. No rate of the paper changes. If an oracle has no bias given the "
    "past, as the word may also mean, the saw does not apply: its noise enters through G0/sqrt M (own.prop2.6). The "
    "paper's oracles reuse earlier noise, and are not of that kind."
)
at("prop2.6", "Proposition 2.6", "Online to nonconvex")(
    Inequality(sawtooth, printed_26, long_run, where=far_in, example=saw_example, subject=norm),
    saw_origin
    + "Where a tooth is far longer than the radius, the Goldstein norm inside is the slope itself, and the mean "
    "over the blocks is 2 G0 (G0 + G1)/(2 G0 + G1) up to the share of blocks near a turn.",
    Severity.CONSTANT(saw_wording, proof_26),
    calculation=calculate.CONVERSION,
)
latex = "\\mathbb{E}\\|\\frac{1}{M} \\sum_m \\nabla h(z_m)\\|"
block_norm = SYMBOLS.symbol("E|mean of grad h|", "mean norm of a block's mean gradient", norm.unit, latex=latex)
at("eq18", "Appendix A, eq. (18)", "Mean norm of a block's gradients")(
    Inequality(sawtooth, printed_26, long_run, where=far_in, example=saw_example, subject=block_norm),
    saw_origin + "With teeth of whole blocks, 2 G0 (G0 + G1)/(2 G0 + G1) is the mean over the blocks.",
    Severity.CONSTANT(f"As Proposition 2.6: {saw_wording}", proof_26),
)
signs = [first + other for first in (1, -1) for other in (1, -1)]
largest = D * G1 * sum(abs(total) for total in signs) / Integer(len(signs))
at("appA.fixed", "Appendix A, above and below Lemma A.1", "Comparators that depend on the iterates")(
    Identity(regret, Integer(0), largest, example={D: 1, G1: 1}),
    "Two gradients of size G1 with random signs: the mean of the largest -<g_1 + g_2, u> over ||u|| <= D, against the "
    "largest of the means for a fixed u, which is 0.",
    Severity.TYPOGRAPHICAL(
        "'For any fixed sequence u_1, ..., u_K' should be 'for any sequence', since u_k is then chosen by the "
        "gradients of its block, and a mean for every fixed u does not bound the mean of the best u. The regret of "
        "Lemma A.1 holds on every path, so that nothing else changes.",
        D * G1,
    ),
)
from_0 = D**2 / (2 * eta) + eta * M * G1**2 / 2
at("lemmaA.1", "Appendix A, Lemma A.1", "Regret of a block that starts at 0")(
    Inequality(from_0, 3 * half * D * G1 * sqrt(M), {M: (1, 1e3), G1: (0.1, 10)}, where=by_eta),
    "Projected gradient descent from Delta_1 = 0: ||Delta_1 - u||^2/(2 eta) + eta/2 sum ||g||^2 with ||u|| <= D.",
)
at("appA.moment", "Appendix A, above Lemma A.1", "Second moment behind the regret")(
    Inequality(spread**2 + (u * L) ** 2, spread**2, example={spread: 1, L: 1, u: 1}, subject=second),
    "The regret needs a bound on E||g||^2, but the text recalls one, s^2, on E||g - grad h||^2; a gradient of norm u "
    "L adds its square.",
    Severity.TYPOGRAPHICAL(
        "'Recalling that E||g - grad h||^2 <= G_1^2' should be E||g||^2 <= G_1^2, as Proposition 2.6 assumes.",
        spread**2 + L**2,
    ),
)
at("appA.distance", "Appendix A, below eq. (18)", "Distance of two successive points")(
    Inequality((1 - u) * D + v * D, D, example={D: 1, u: 0.01, v: 0.99}),
    "z_t = x_{t-1} + u Delta_t and z_{t+1} = x_t + v Delta_{t+1}, moves of norm D in one direction.",
    Severity.TYPOGRAPHICAL(
        "Successive points z_t, unlike x_t, may be 2D apart (the proof of Lemma 6.3 uses 2D). That all points of a "
        "block are within M D of their mean is right.",
        2 * D,
    ),
)
