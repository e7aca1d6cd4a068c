"""Claims of Section 2 and Appendix A: estimators, the tree, and the online-to-nonconvex conversion."""

from sympy import Integer, Min, Mod, Sum, exp, expand, floor, log, loggamma, pi, sqrt

from dpnotes.papers.goldstein import calculators as calculate
from dpnotes.papers.goldstein.notation import (
    G0,
    G1,
    PAPER,
    B,
    D,
    L,
    M,
    Phi,
    T,
    alpha,
    d,
    delta,
    epsilon,
    eta,
    first_moment,
    half,
    index,
    level,
    levels,
    mean,
    nodes,
    position,
    proved,
    reached,
    root,
    second,
    second_moment,
    sensitivity,
    sigma,
    spread,
    u,
    v,
    whole_period,
)
from dpnotes.theory.asymptotics import Ratio
from dpnotes.theory.claims import Claim, Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.statements import Identity, Reason, Uncheckable

_KAPPA = 2 * exp(loggamma(d / 2 + 1) - loggamma((d + 1) / 2)) / sqrt(pi)
_LN = log(1 / delta)
_TREE = 4 * sensitivity * sqrt(log(2 ** (nodes - 1)) * _LN) / epsilon
# What zCDP asks of a Gaussian that is charged for nodes nodes, and what one release of one node needs at least.
_SUFFICIENT = sensitivity * sqrt((nodes) / 2) * (sqrt(_LN + epsilon) + sqrt(_LN)) / epsilon
_NECESSARY = sensitivity / sqrt(2 * epsilon)
_AT_MOST_LN = {epsilon: u * _LN}
_BUDGETS = {sensitivity: (1e-3, 1e3), nodes: (1, 13), delta: (1e-12, 0.25), epsilon: (1, 1e6), u: (1e-4, 1)}
_ETA = {eta: D / (G1 * sqrt(M))}
_REGRET = (2 * D) ** 2 / (2 * eta) + eta * M * G1**2 / 2
_PRINTED_26 = Phi / (D * T) + 3 * G1 / (2 * sqrt(M)) + G0
_DERIVED_26 = expand((Phi + T / M * _REGRET + 2 * D * G0 * T) / (D * T))
_CORRECTED_26 = Phi / (D * T) + 5 * G1 / (2 * sqrt(M)) + 2 * G0
_QUERIES = tuple({levels: 3, index: t} for t in range(8, 0, -1))
_PERIODS = tuple({whole_period: 8, index: t} for t in (8, 1, 2, 7, 9, 15, 16))
_SINCE_RESET = index - whole_period * floor((index - 1) / whole_period)
_WORDING_26 = (
    "The bound does not follow from its proof; whether it holds is open. Lemma A.1 is applied to every block, but at "
    "the start of a later block Delta need not be 0: ||Delta - u|| can be "
    "2D, so that the regret of a block can be (5/2) D G1 sqrt(M), which is attained; and |<grad h - g, Delta - u>| "
    "can be 2 D G0. The steps of the proof give 5 G1/(2 sqrt M) + 2 G0."
)


CLAIMS: tuple[Claim, ...] = (
    PAPER.claim(
        "eq4",
        "Two-point estimator",
        "eq. (4)",
        Identity(mean, d * first_moment, Integer(1), {first_moment: Integer(0)}, example={d: 10}),
        "A linear loss of unit slope along the first axis: the mean of (d/2 alpha)(f(x + alpha y) - f(x - alpha "
        "y)) for y uniform on the unit sphere, whose coordinates have mean 0 and mean square 1/d.",
        erratum=PAPER.erratum(
            Severity.TYPOGRAPHICAL,
            "Equation (4) lacks the factor y_j: as printed it is a number of mean 0, not a vector. Algorithm 3 has it.",
            Identity(mean, d * second_moment, Integer(1), {second_moment: 1 / d}, example={d: 10}),
        ),
    ),
    PAPER.claim(
        "alg3.mean",
        "Two-point estimator with directions in the ball",
        "Algorithm 3, line 12, and Algorithm 4, line 11",
        Identity(mean, d * second_moment * alpha**2, Integer(1), {second_moment: 1 / (d + 2)}, example={d: 10}),
        "A linear loss of unit slope: d E[y_1^2] for y uniform in the ball of radius alpha, E[y_1^2] = alpha^2/(d "
        "+ 2).",
        erratum=PAPER.erratum(
            Severity.RATE,
            "The increments draw y from the ball of radius alpha, but use alpha y, d/(2 alpha) and y as for the "
            "unit sphere: the mean is alpha^2 d/(d + 2) times the gradient of a linear loss (0.0083 at d = 10, "
            "alpha = 0.1), so that increments hardly move. y should be uniform on the unit sphere, as at a reset.",
            Identity(mean, d * second_moment, Integer(1), {second_moment: 1 / d}, example={d: 10}),
        ),
    ),
    PAPER.claim(
        "eq5",
        "Worst-case sensitivity of the two-point estimator",
        "eq. (5)",
        Inequality(
            (u + v) * L * d / B,
            L * d / B,
            {L: (0.1, 10), d: (1, 1e3), B: (1, 1e3), u: (1e-3, 1), v: (1e-3, 1)},
            example={L: 1, d: 10, B: 10, u: 1, v: 1},
        ),
        "Neighbouring minibatches differ in one sample, whose estimates of norms u L d and v L d may be opposite.",
        erratum=PAPER.erratum(
            Severity.CONSTANT,
            "The equation tells of prior work; no guarantee rests on it. Replacing a sample moves the mean by up to 2 "
            "L d/B, as the paper's own proof of Lemma 3.4 has it for "
            "smoothed gradients (2L/B).",
            Inequality(
                (u + v) * L * d / B,
                2 * L * d / B,
                {L: (0.1, 10), d: (1, 1e3), B: (1, 1e3), u: (1e-3, 1), v: (1e-3, 1)},
            ),
        ),
    ),
    PAPER.claim(
        "fact2.3.ii",
        "Error of smoothing",
        "Fact 2.3 (ii)",
        Inequality(L * alpha * (1 - 1 / (d + 1)), L * alpha, {L: (0.1, 10), alpha: (0.01, 10), d: (1, 1e4)}),
        "L|x| at 0: the mean norm in the unit ball is the integral of 1 - r^d over r from 0 to 1.",
    ),
    PAPER.claim(
        "fact2.3.iii",
        "Smoothness after smoothing",
        "Fact 2.3 (iii)",
        Ratio(_KAPPA * L / alpha, L * root / alpha, {d: (1.0, 1)}, "O", {L: Integer(1), alpha: Integer(1)}),
        "The gradient of the smoothed |x_1| grows at 0 by twice the density of y_1 for y uniform in the ball: 2 "
        "V_{d-1}/(V_d alpha), V_k the volume of the unit ball.",
    ),
    PAPER.claim(
        "fact2.3.iv",
        "Mean of the two-point estimator",
        "Fact 2.3 (iv)",
        Identity(mean, d * second_moment, Integer(1), {second_moment: 1 / d}),
        "A linear loss of unit slope; the squares of the d coordinates of a point of the sphere sum to 1.",
    ),
    PAPER.claim(
        "lemma2.4",
        "From the smoothed loss to the loss",
        "Lemma 2.4",
        Uncheckable("a Goldstein point of the smoothed function is one of the function, radii add", Reason.CITED),
        "Kornowski and Shamir (2024), Lemma 4.",
    ),
    PAPER.claim(
        "prop2.5.sigma",
        "Noise of the tree",
        "Proposition 2.5",
        Inequality(
            _SUFFICIENT,
            _TREE,
            _BUDGETS,
            where=_AT_MOST_LN,
            example={sensitivity: 1, nodes: 1, delta: 1e-6, u: 0.1},
        ),
        "A period of 2^(q - 1) steps: every query is in at most q nodes, so that q S^2/(2 sigma^2)-zCDP holds; "
        "this is the noise at which it gives (epsilon, delta), for epsilon = u ln(1/delta).",
        erratum=PAPER.erratum(
            Severity.PRIVACY,
            "Only a period of one step is affected: its noise is 4 S sqrt(log 1 ...) = 0, that is none. The number of "
            "nodes that hold a query "
            "is floor(log2 Sigma) + 1; with it, and for epsilon <= ln(1/delta), the constant can be 1.71.",
            Inequality(
                _SUFFICIENT,
                (1 + sqrt(2)) / sqrt(2) * sensitivity * sqrt((nodes) * _LN) / epsilon,
                _BUDGETS,
                where=_AT_MOST_LN,
            ),
        ),
        calculation=calculate.TREE_NOISE,
    ),
    PAPER.claim(
        "prop2.5.epsilon",
        "Noise of the tree for a large privacy loss",
        "Proposition 2.5",
        Inequality(
            _NECESSARY,
            _TREE,
            {**_BUDGETS, nodes: (2, 13)},
            example={sensitivity: 1, nodes: 5, delta: 0.1, epsilon: 1000},
        ),
        "The first release alone is one Gaussian of ratio mu = S/sigma. At mu = sqrt(2 epsilon) its least delta "
        "is 1/2 - e^epsilon Q(sqrt(2 epsilon)), more than 1/4 for every epsilon >= 1; so delta <= 1/4 needs more "
        "noise.",
        erratum=PAPER.erratum(
            Severity.PRIVACY,
            "Noise of the order 1/epsilon is too little for large epsilon: (epsilon, delta) with delta <= 1/4 and "
            "epsilon >= 1 needs sigma > S/sqrt(2 epsilon), which 4 S sqrt(log Sigma log(1/delta))/epsilon is not "
            "once epsilon > 32 log Sigma log(1/delta). Theorem 3.1 allows every epsilon > 0. Assume epsilon <= "
            "log(1/delta), or add the term: sigma = S sqrt(q/2) (sqrt(l + epsilon) + sqrt(l))/epsilon with "
            "l = ln(1/delta) always suffices.",
            Inequality(_NECESSARY, _SUFFICIENT, _BUDGETS),
        ),
    ),
    PAPER.claim(
        "prop2.5.variance",
        "Error of the tree",
        "Proposition 2.5",
        Ratio(
            d * sigma**2 * (nodes),
            d * log(2 ** (nodes - 1)) * sigma**2,
            {nodes: (2.0, 1)},
            "O",
            {d: Integer(1), sigma: Integer(1)},
            subject=second,
        ),
        "A step's binary expansion has at most q ones, for a period of 2^(q - 1) steps, q >= 2; each adds d sigma^2.",
    ),
    PAPER.claim(
        "alg1.node",
        "Queries that the nodes of an index hold",
        "Algorithm 1, function NODE",
        Identity(reached, Min(index, Sum(2 ** (levels - level), (level, 1, levels))), index, {}, _QUERIES),
        "NODE goes through blocks of Sigma/2, Sigma/4, ... 1 queries and takes those that fit below t: it holds the "
        "first t queries, or all of the blocks together. TREE(t) is to be the noise of the first t queries; Sigma = 8.",
        erratum=PAPER.erratum(
            Severity.PRIVACY,
            "For Sigma a power of 2, NODE(Sigma) holds the first Sigma - 1 queries only, the same as NODE(Sigma - 1): "
            "the two releases differ by the last query, without noise. The loop should begin at the block of Sigma "
            "queries (i = 0), which T, with levels up to log Sigma + 1, should have. For other Sigma the ceiling asks "
            "for nodes that T does not have, (1, 4) for Sigma = 5; floor(log Sigma) is right in both places.",
            Identity(reached, Min(index, Sum(2 ** (levels - level), (level, 0, levels))), index, {}, _QUERIES),
        ),
    ),
    PAPER.claim(
        "alg3.index",
        "Index at which the tree is asked",
        "Algorithms 3 and 5, last line",
        Identity(position, Mod(index, whole_period), _SINCE_RESET, {}, _PERIODS),
        "Queries since the last reset, which is at t mod Sigma = 1, with that of step t; Sigma = 8.",
        erratum=PAPER.erratum(
            Severity.PRIVACY,
            "At every multiple of Sigma the index is 0, for which NODE is empty: the gradient is released without "
            "noise. It should be ((t - 1) mod Sigma) + 1.",
            Identity(
                position,
                Mod(index - 1, whole_period) + 1,
                _SINCE_RESET,
                {},
                _PERIODS,
            ),
        ),
    ),
    PAPER.claim(
        "prop2.6",
        "Online to nonconvex",
        "Proposition 2.6",
        Identity(proved, _PRINTED_26, _DERIVED_26, _ETA, example={Phi: 1, D: 1, T: 100, G1: 1, M: 100, G0: 1}),
        "What the steps of the proof give, not a counterexample. Summed over T/M blocks and divided by D T: the "
        "initial gap, the regret (2D)^2/(2 eta) + eta M G1^2/2 of a "
        "block that starts anywhere in the ball, and errors of at most 2 D G0 a step.",
        erratum=PAPER.erratum(
            Severity.CONSTANT,
            _WORDING_26,
            Identity(proved, _CORRECTED_26, _DERIVED_26, _ETA),
        ),
        calculation=calculate.CONVERSION,
    ),
    PAPER.claim(
        "eq18",
        "Mean norm of a block's gradients",
        "Appendix A, eq. (18)",
        Identity(proved, _PRINTED_26, _DERIVED_26, _ETA, example={Phi: 1, D: 2, T: 100, G1: 1, M: 25, G0: 1}),
        "What the steps of the proof give, as for Proposition 2.6.",
        erratum=PAPER.erratum(
            Severity.CONSTANT,
            f"As Proposition 2.6: {_WORDING_26}",
            Identity(proved, _CORRECTED_26, _DERIVED_26, _ETA),
        ),
    ),
    PAPER.claim(
        "lemmaA.1",
        "Regret of a block that starts at 0",
        "Appendix A, Lemma A.1",
        Inequality(
            (D**2 / (2 * eta) + eta * M * G1**2 / 2),
            3 * half * D * G1 * sqrt(M),
            {D: (0.1, 10), M: (1, 1e3), G1: (0.1, 10)},
            where=_ETA,
        ),
        "Projected gradient descent from Delta_1 = 0: ||Delta_1 - u||^2/(2 eta) + eta/2 sum ||g||^2 with ||u|| <= D.",
    ),
    PAPER.claim(
        "appA.moment",
        "Second moment behind the regret",
        "Appendix A, above Lemma A.1",
        Inequality(
            spread**2 + (u * L) ** 2,
            spread**2,
            {spread: (0.1, 10), L: (0.1, 10), u: (1e-3, 1)},
            example={spread: 1, L: 1, u: 1},
            subject=second,
        ),
        "The regret needs a bound on E||g||^2, but the text recalls one, s^2, on E||g - grad h||^2; a gradient of "
        "norm u L adds its square.",
        erratum=PAPER.erratum(
            Severity.TYPOGRAPHICAL,
            "'Recalling that E||g - grad h||^2 <= G_1^2' should be E||g||^2 <= G_1^2, as Proposition 2.6 assumes.",
            Inequality(
                spread**2 + (u * L) ** 2,
                spread**2 + L**2,
                {spread: (0.1, 10), L: (0.1, 10), u: (1e-3, 1)},
                subject=second,
            ),
        ),
    ),
    PAPER.claim(
        "appA.distance",
        "Distance of two successive points",
        "Appendix A, below eq. (18)",
        Inequality(
            (1 - u) * D + v * D, D, {D: (0.1, 10), u: (1e-3, 1), v: (1e-3, 1)}, example={D: 1, u: 0.01, v: 0.99}
        ),
        "z_t = x_{t-1} + u Delta_t and z_{t+1} = x_t + v Delta_{t+1}, moves of norm D in one direction.",
        erratum=PAPER.erratum(
            Severity.TYPOGRAPHICAL,
            "Successive points z_t, unlike x_t, may be 2D apart (the proof of Lemma 6.3 uses 2D). That all points "
            "of a block are within M D of their mean is right.",
            Inequality((1 - u) * D + v * D, 2 * D, {D: (0.1, 10), u: (1e-3, 1), v: (1e-3, 1)}),
        ),
    ),
)
