"""Liu and Talwar (2024), "Adaptive Batch Size for Privately Finding Second-Order Stationary Points": claims, checked.

Letters are the paper's; what it writes as the norm of the noisy gradient is `g` here, and `p = sqrt(d)/(n epsilon)`
stands in rates. Lengths of gradients, the drift threshold kappa among them, are measured in [F/x].
"""

import math
from typing import Any

import mpmath
import sympy
from sympy import Integer, Max, Min, Rational, exp, floor, log, oo, sqrt

from dpnotes.papers.adaptive_batch import calculators
from dpnotes.theory.asymptotics import Limit
from dpnotes.theory.calculators import Calculator
from dpnotes.theory.claims import Claim, Paper, Severity
from dpnotes.theory.inequalities import Inequality, Monotone
from dpnotes.theory.rates import Choice, Crossover, Rate
from dpnotes.theory.statements import Identity, Optimum, Reason, Uncheckable
from dpnotes.theory.symbols import COUNT, UNIT_INTERVAL, Domain, PaperSymbols
from dpnotes.theory.units import LENGTH, LOSS

PAPER = Paper(
    key="adaptive_batch",
    title="Adaptive Batch Size for Privately Finding Second-Order Stationary Points",
    authors=("Daogao Liu", "Kunal Talwar"),
    venue="arXiv preprint",
    year=2024,
    doi="10.48550/arXiv.2410.07502",
    arxiv="2410.07502",
    version="arXiv:2410.07502v1 (2024)",
    bibtex="""@misc{liu2024adaptive,
  title         = {Adaptive Batch Size for Privately Finding Second-Order Stationary Points},
  author        = {Liu, Daogao and Talwar, Kunal},
  year          = {2024},
  eprint        = {2410.07502},
  archivePrefix = {arXiv},
  doi           = {10.48550/arXiv.2410.07502}
}""",
)

# ---------------------------------------------------------------- notation
_S = PaperSymbols("adaptive_batch")
_FROM_ONE = Domain(1, math.inf, closed=True)
_GRADIENT = LOSS / LENGTH

n = _S.symbol("n", "number of examples, each used at most once", domain=COUNT)
d = _S.symbol("d", "dimension", domain=COUNT)
epsilon = _S.symbol("epsilon", "privacy loss")
delta = _S.symbol("delta", "failure probability of privacy", domain=UNIT_INTERVAL)
iota = _S.symbol("iota", "failure probability of the error bounds", domain=UNIT_INTERVAL)
omega = _S.symbol("omega", "failure probability in Algorithm 2", domain=UNIT_INTERVAL)
G = _S.symbol("G", "Lipschitz constant of the loss of one example", _GRADIENT)
M = _S.symbol("M", "smoothness of the loss of one example", LOSS / LENGTH**2)
rho = _S.symbol("rho", "Lipschitz constant of the Hessian", LOSS / LENGTH**3)
B = _S.symbol("B", "bound of F(x_0) - inf F", LOSS)
alpha = _S.symbol("alpha", "accuracy of the stationary point", _GRADIENT)
gamma = _S.symbol("gamma", "bound of the error of the noisy gradients, O~(alpha)", _GRADIENT)
kappa = _S.symbol("kappa", "drift at which O1 is asked again", _GRADIENT)
eta = _S.symbol("eta", "step size", LENGTH**2 / LOSS)
T = _S.symbol("T", "number of steps", domain=COUNT)
Gamma = _S.symbol("Gamma", "length of the escape window")
zeta = _S.symbol("zeta", "scale of the perturbation at a saddle", _GRADIENT)
b = _S.symbol("b", "batch size of O1", domain=_FROM_ONE)
bt = _S.symbol("b_t", "batch size of O2", domain=_FROM_ONE)
sigma = _S.symbol("sigma", "standard deviation of a node's noise, a coordinate", _GRADIENT)
by_zcdp = _S.symbol(
    "sigma_zCDP", "noise that is enough for (epsilon, delta) by zCDP", _GRADIENT, latex="\\sigma_{zCDP}"
)
needed = _S.symbol("sigma_needed", "the least noise that gives (epsilon, delta)", _GRADIENT, latex="\\sigma_{needed}")
s = _S.symbol("s", "sensitivity of a leaf", _GRADIENT)
Sigma = _S.symbol("Sigma", "number of leaves of the tree", domain=COUNT)
mu = _S.symbol("mu", "parameter of Gaussian DP that (epsilon, delta) allows")
g = _S.symbol("g", "norm of the noisy gradient of a step", _GRADIENT, latex="\\|\\widetilde{\\nabla}_t\\|")
norms = _S.sequence("g", "norm of the noisy gradient of step t", _GRADIENT)
error = _S.symbol("e", "norm of the error of the noisy gradient", _GRADIENT)
path = _S.symbol("path", "sum of the norms of the noisy gradients", _GRADIENT)
slope = _S.symbol("beta", "batch size of O2 over the norm of the noisy gradient", LENGTH / LOSS)
distance = _S.symbol("r", "distance of two points", LENGTH)
R = _S.symbol("R", "diameter of the domain", LENGTH)
ell = _S.symbol("ell", "a logarithm", domain=_FROM_ONE)
num_nodes = _S.symbol("m", "number of nodes in the sum TREE(t), at most log2(Sigma + 1)", domain=_FROM_ONE)
num_steps = _S.symbol("k", "number of steps since O1 was asked", domain=COUNT)
t = _S.symbol("t", "step", domain=COUNT)
level = _S.symbol("l", "level of the tree", domain=COUNT)
lam = _S.symbol("lambda", "negative curvature of the saddle", LOSS / LENGTH**2)
u = _S.symbol("u", "lambda/M", domain=UNIT_INTERVAL)
share, other_share = (_S.symbol(name, "a share", domain=Domain(0, 1, closed=True)) for name in ("q", "v"))
stretch = _S.symbol("w", "a factor", domain=_FROM_ONE)
c = _S.symbol("c", "batch size times lambda/M")
y = _S.symbol("y", "the argument of the logarithm")
squared_drift = _S.symbol("K", "threshold of the drift as a sum of squares", _GRADIENT**2)
examples = _S.symbol("n", "number of examples, as a real number")
deviation = _S.symbol("Delta", "deviation of the population from the data")
decrease = _S.symbol("D", "decrease of F in an escape window, the least that is possible", LOSS)

_NOISE = sqrt(d) / epsilon  # sigma sqrt(d) a unit of sensitivity
_P = sqrt(d) / (n * epsilon)
_THIRD = Rational(1, 3)
_BGM = (B * G * M) ** _THIRD


# ---------------------------------------------------------------- calculators
# `corrected` is the default, because the noise that the theorem prints is not private.
THEOREM = Calculator(
    calculators.theorem,
    (n, d, epsilon, delta, G, M, rho, B, iota),
    {
        "alpha": "accuracy",
        "kappa": "drift threshold",
        "batch": "b, batch size of O1",
        "batch_per_gradient": "b_t for a noisy gradient of norm 1; it is at least 1",
        "sigma": "standard deviation of a node's noise; corrected: private if each call of O1 begins a new tree",
        "steps": "T",
        "window": "Gamma",
        "threshold": "norm below which a saddle is suspected",
        "perturbation": "zeta, scale of the perturbation there",
        "step_size": "eta",
        "private": "largest private term of alpha",
        "sampling": "largest sampling term of alpha",
    },
    ("corrected", "paper", "one"),
)
SAMPLE_SIZE = Calculator(
    calculators.sample_size,
    (alpha, d, epsilon, G, M, B),
    {"n": "examples that reach alpha, real", "kappa": "drift threshold"},
    ("corrected", "paper", "one"),
)
TREE = Calculator(
    calculators.tree,
    (G, b, Sigma, epsilon, delta),
    {
        "sigma": "standard deviation of a node's noise, for prefix sums: each call of O1 begins a new tree",
        "sensitivity": "of a leaf",
        "levels": "nodes that a leaf belongs to",
        "delta_reached": "delta at epsilon of prefix sums, for data sets that differ in one example",
    },
    ("corrected", "paper"),
)
CROSSOVER = Calculator(
    calculators.crossover,
    (n, d, G, M, B),
    {"epsilon": "where the private and the sampling term are equal", "alpha": "each of them there"},
    ("corrected", "paper", "one"),
)

# ---------------------------------------------------------------- quantities that several claims share
_LEVELS = floor(log(Sigma) / log(2)) + 1
# A leaf belongs to one node of each size 1, 2, 4, ... that is at most Sigma.
_COUNTED_LEVELS = sympy.Sum(sympy.Piecewise((1, 2 ** (level - 1) <= Sigma), (0, True)), (level, 1, Sigma))


def _node(step: int, leaves: int, *, literal: bool = False) -> list[tuple[int, int]]:
    """NODE(step) of Algorithm 1, executed: as printed, or with `k' <= t` in line 14 and i from 0."""
    height, begun, chosen = (leaves - 1).bit_length(), 0, []
    for i in range(1 if literal else 0, height + 1):
        end = begun + 2 ** (height - i)
        if begun < step and end <= (begun if literal else step):
            chosen.append((begun + 1, end))
            begun = end
    return chosen


def _most_shifted(leaves: int, *, restarted: bool = False) -> int:
    """Most nodes, of those in use, that an exchanged example shifts; the sum may be forgotten at a later leaf.

    Outputs up to a step and the noises of the nodes in use determine each other. An example of leaf j shifts the sum
    from there on, until it is forgotten at leaf `reset`: plus s at j, minus s at `reset`, and both in one node cancel.
    """
    used = {node for step in range(1, leaves + 1) for node in _node(step, leaves)}
    ends = (leaves + 1,) if restarted else range(2, leaves + 2)
    pairs = [(leaf, reset) for reset in ends for leaf in range(1, reset)]
    return max(sum((u <= leaf <= v) != (u <= reset <= v) for u, v in used) for leaf, reset in pairs)


def _counted(symbol: Any, counts: dict[int, int]) -> Any:
    """What was counted, as an expression; it has no value elsewhere."""
    return sympy.Piecewise(*((Integer(count), sympy.Eq(symbol, at)) for at, count in counts.items()))


_POWERS_OF_TWO = (2, 4, 8, 16, 32)
_TREES = tuple({Sigma: leaves} for leaves in (1, 2, 3, 4, 7, 8, 31))
_REFERENCE = {epsilon: Integer(1), delta: Rational(1, 10**6)}
_REFERENCE_LEVELS = 11  # of a tree with 1024 leaves


def _profile(privacy_loss: Any, parameter: Any) -> Any:
    """delta(epsilon) of Gaussian DP with a parameter (Dong, Roth, Su 2022, Corollary 2.13)."""
    ratio = privacy_loss / parameter
    lower, upper = (sympy.erfc((ratio + sign * parameter / 2) / sqrt(2)) / 2 for sign in (-1, 1))
    return lower - exp(privacy_loss) * upper


def _needed_noise() -> sympy.Float:
    """Noise over sensitivity that a tree with 1024 leaves needs for (1, 1e-6): sqrt(11)/mu at the exact profile."""
    place = sympy.Dummy()
    excess = sympy.lambdify(place, _profile(Integer(1), place) - _REFERENCE[delta], "mpmath")
    with mpmath.workdps(30):
        root = mpmath.findroot(excess, (mpmath.mpf("0.23"), mpmath.mpf("0.24")))
        return sympy.Float(mpmath.sqrt(_REFERENCE_LEVELS) / root, 20)


_NEEDED = _needed_noise()
# What an example that differs moves, when its gradients have norms q G and v G and may point in opposite directions.
_REPLACED = {
    G: (0.1, 10),
    M: (0.1, 10),
    distance: (0.1, 10),
    b: (1, 1e4),
    bt: (1, 1e4),
    share: (0.01, 1),
    other_share: (0.01, 1),
}

# Steps and path of Proposition 3.4 and eq. (2), at the accuracy alpha and at gamma.
_STEPS = {accuracy: B * M / accuracy**2 for accuracy in (alpha, gamma)}
_PATH = {accuracy: B * M / accuracy for accuracy in (alpha, gamma)}
_BATCH = G * _NOISE / alpha + G**2 / alpha**2
_BATCH_PER_GRADIENT = {accuracy: _NOISE / accuracy + kappa / accuracy**2 for accuracy in (alpha, gamma)}
_LATER_QUERIES = {
    "O1": _BATCH * _PATH[alpha] / kappa / n,
    "O2": _BATCH_PER_GRADIENT[alpha] * _PATH[alpha] / n,
    "an example a step": _STEPS[alpha] / n,
}
_COUNTS = {"first O1": _BATCH / n, **_LATER_QUERIES}
# The same from the ground up: nothing chosen but that the error is at most alpha, and that n examples are enough.
_GROUND = {
    "descent": B * M / (alpha**2 * T),
    "path": sqrt(T * B * M) / path,
    "O1 noise": G * _NOISE / (b * alpha),
    "O1 sampling": G**2 / (b * alpha**2),
    "O2 noise": _NOISE / (slope * alpha),
    "O2 sampling": kappa / (slope * alpha**2),
    "first O1": b / n,
    "later O1": b * path / (kappa * n),
    "O2": slope * path / n,
    "an example a step": T / n,
}
_CHOSEN = (kappa, b, slope, T, path)
_GROUND_ORIGIN = (
    "T steps decrease F by B, eta alpha^2 = alpha^2/M each; squares of the noisy gradients sum to B M, so that the "
    "path is at most sqrt(T B M) by Cauchy and Schwarz; noise and sampling error of O1 and O2 (b_t = beta g) are at "
    "most alpha, over a path of kappa for O2; the examples of all calls are at most n. Balanced over kappa, b, beta, T "
    "and the path"
)
_PRINTED_PRIVATE = (_BGM + sqrt(B * M)) * sqrt(_P)
_PRINTED_SAMPLING = (
    (B * M) ** Rational(2, 9) * G ** Rational(5, 9) + (B * M) ** Rational(4, 9) * G ** Rational(1, 9)
) / n**_THIRD
_PRINTED_RATE = _PRINTED_PRIVATE + _PRINTED_SAMPLING + sqrt(M * B) / sqrt(n)
_FIRST_QUERY = G * _P + G / sqrt(n)
_BEST_RATE = sqrt(B * M) * sqrt(_P) + (B * G * M / n) ** _THIRD + sqrt(B * M / n)
_PRINTED_KAPPA = Max(alpha * _NOISE, _BGM)
_SMALL_NOISE = {"p <= 1": _P}
# Every x_0 has a gradient below sqrt(2 B M): only accuracies beyond that say something.
_BELOW_START = {"G/sqrt(n) <= sqrt(B M)": G / sqrt(n * B * M), "G p <= sqrt(B M)": G * _P / sqrt(B * M)}
_PRIVATE_NOISE = Identity(sigma, 2 * epsilon * alpha * sqrt(_LEVELS) / (sqrt(d) * mu), sigma)


# ---------------------------------------------------------------- Section 1: quoted rates and comparisons
_SPIDER = {
    "O1 noise": G * _NOISE / (b * alpha),
    "O2 noise": sqrt(squared_drift) * _NOISE / (bt * alpha),
    "O1 sampling": G**2 / (b * alpha**2),
    "O2 sampling": squared_drift / (bt * alpha**2),
    "O1 examples": b * B * M / (squared_drift * n),
    "O2 examples": bt * _STEPS[alpha] / n,
}
_SPIDER_TUNED = (alpha, squared_drift, b, bt)
_SPIDER_ORIGIN = (
    "SPIDER with a Gaussian mechanism, eta = 1/M and fixed batches (Section 1.2): O1 is asked when the sum of squared "
    "steps, in units of gradients, exceeds K, so B M/K times since those squares sum to B M; noise and sampling error "
    "of O2 are proportional to the step (Definition A.1), so that their squares sum to K over a segment"
)
_ALPHA_F = n**-_THIRD + sqrt(_P)
_ALPHA_S = n**-_THIRD + _P ** Rational(3, 7)


def _spider(value: Any, *names: str, **more: Any) -> Rate:
    constraints = {name: _SPIDER[name] for name in names or _SPIDER}
    return Rate(alpha, value, {"alpha": alpha}, _SPIDER_TUNED, constraints, _SMALL_NOISE, normalised=(B, G, M), **more)


def _introduction() -> tuple[Claim, ...]:
    rate_f, rate_s = (_S.symbol(f"alpha_{letter}", f"quoted accuracy, {letter}OSP") for letter in "FS")
    private = [name for name in _SPIDER if "sampling" not in name]
    far = {n: examples, d: Integer(1), epsilon: 1 / sqrt(examples)}
    return (
        PAPER.claim(
            "sec1.1.ganesh.private",
            "Quoted rate for an SOSP, private term",
            "Section 1.1, alpha_S, second term",
            _spider(_P ** Rational(3, 7), *private),
            f"{_SPIDER_ORIGIN}. Only the private terms.",
        ),
        PAPER.claim(
            "sec1.1.ganesh.sampling",
            "Quoted rate for an SOSP, sampling term",
            "Section 1.1, alpha_S, first term",
            _spider(n**-_THIRD, *(name for name in _SPIDER if "noise" not in name)),
            f"{_SPIDER_ORIGIN}. Only the sampling terms.",
        ),
        PAPER.own(
            "spider_gaussian",
            "What one drift threshold and fixed batches give in between",
            _spider(n**-_THIRD + _P ** Rational(3, 7) + (_P**2 / n) ** Rational(1, 8)),
            f"{_SPIDER_ORIGIN}. All terms: where O1's sampling and O2's noise meet, a mixed term exceeds both quoted "
            "ones. Whether the quoted proof avoids it was not checked.",
        ),
        PAPER.claim(
            "sec1.1.arora",
            "Quoted rate for an FOSP",
            "Section 1.1, alpha_F",
            Rate(alpha, _ALPHA_F, {"alpha": alpha}, (alpha, *_CHOSEN), _GROUND, _SMALL_NOISE, (), (B, G, M)),
            f"What Algorithm 2 needs for an FOSP, where there are no escapes: {_GROUND_ORIGIN}. "
            "That the cited algorithm reaches the same was not checked.",
        ),
        PAPER.claim(
            "sec1.1.comparison",
            "The rate for an FOSP is the better one",
            "Section 1.1",
            Inequality(
                _ALPHA_F,
                _ALPHA_S,
                {n: (1, 1e12), d: (1, 1e6), epsilon: (1e-3, 1e3)},
                conditions=(_P <= 1,),
                subject=rate_f,
            ),
            "p^(1/2) <= p^(3/7) for p <= 1.",
        ),
        PAPER.claim(
            "sec1.1.gap",
            "The gap opens as epsilon falls",
            "Section 1.1, alpha_F << alpha_S",
            Limit(_ALPHA_F / _ALPHA_S, examples, oo, Integer(0), where=far, subject=rate_f / rate_s),
            "Along p = n^(-1/2), that is epsilon = n^(-1/2) at d = 1: the ratio falls like n^(-1/28).",
        ),
        PAPER.own(
            "crossover_ganesh",
            "From which epsilon on the gap is closed",
            Crossover(_P ** Rational(3, 7), n**-_THIRD, epsilon, sqrt(d) * n ** Rational(-2, 9)),
            "Below it the private term of alpha_S dominates, and alpha_F < alpha_S.",
        ),
        PAPER.claim(
            "sec1.2.decrease",
            "Which steps decrease F much",
            "Section 1.2, advantage of adaptive batches",
            Monotone(
                M * distance**2 / 6,
                distance,
                "decreasing",
                {M: (0.1, 10), distance: (1e-3, 1e3)},
                example={M: 1, distance: 1},
                subject=decrease,
            ),
            "A step of length r = eta |g| decreases F by at least eta |g|^2/6 = M r^2/6 where the error is small.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "The second 'when it is small' should be 'when it is large': long steps decrease F much.",
                Monotone(
                    M * distance**2 / 6,
                    distance,
                    "increasing",
                    {M: (0.1, 10), distance: (1e-3, 1e3)},
                    subject=decrease,
                ),
            ),
        ),
        PAPER.claim(
            "sec1.1.lower_bound",
            "Lower bound without privacy",
            "Section 1.1",
            Uncheckable("alpha = Omega(n^(-1/3)) without privacy, for d >= alpha^(-4)", Reason.CITED),
            "Arjevani et al. (2023).",
        ),
    )


# ---------------------------------------------------------------- Section 2: tools
def _tools() -> tuple[Claim, ...]:
    norm = _S.symbol("TREE", "norm of TREE(t)", _GRADIENT)
    constant = _S.symbol("C", "an absolute constant", domain=_FROM_ONE)
    parts = _S.sequence("M", "what step t adds")
    needed_scale = log(2 * d) / (2 * log(2))
    levels = _S.symbol("L", "nodes that a leaf belongs to")
    in_node = _S.symbol("|NODE(t)|", "number of nodes in NODE(t)", latex="|\\mathrm{NODE}(t)|")
    exponent = _S.symbol("E", "exponent of the tail bound")
    tail = _S.symbol("t", "where the tail begins", latex="t")
    variance = _S.symbol("V", "norm of the summed variances")
    largest = _S.symbol("L", "bound of each matrix")
    factor = _S.symbol("factor", "factor of the tail bound")
    trace, dimensions = sympy.Sum(1, (level, 1, d)), tuple({d: dimension} for dimension in (1, 2, 7))
    tilt = tail / (variance + largest * tail / 3)
    chernoff = -tilt * tail + variance * tilt**2 / (2 * (1 - largest * tilt / 3))
    return (
        PAPER.claim(
            "thm2.2.sigma",
            "Noise of the tree mechanism",
            "Theorem 2.2",
            Inequality(
                s * sqrt(_LEVELS / 2) / (sqrt(log(1 / delta) + epsilon) - sqrt(log(1 / delta))),
                4 * s * sqrt(log(Sigma) * log(1 / delta)) / epsilon,
                {s: (0.01, 100), Sigma: (1, 1e6), epsilon: (0.01, 1), delta: (1e-12, 1e-2)},
                example={s: 1, Sigma: 1, epsilon: 1, delta: 1e-6},
                subject=by_zcdp,
            ),
            "A leaf belongs to floor(log2 Sigma) + 1 nodes; zCDP of so many Gaussian releases gives (epsilon, "
            "delta)-DP at the noise on the left, sigma_zCDP, which is enough; at one leaf 4.22 is needed, of 5.35.",
            erratum=PAPER.erratum(
                Severity.PRIVACY,
                "log(Sigma) should be the number of nodes that a leaf belongs to, floor(log2 Sigma) + 1: with one "
                "leaf, and only there at a moderate epsilon, privacy fails, since the printed noise is 0. From two "
                "leaves on, the constant 4 makes up for the difference as long "
                "as epsilon <= 4 log(1/delta), which should be a condition: at two leaves, delta = 1e-5, epsilon = "
                "100 the exact delta is 0.04. With mu the parameter of Gaussian DP that (epsilon, delta) allows, s "
                "sqrt(levels)/mu is what these sums need.",
                Identity(
                    sigma, s * sqrt(_LEVELS) / mu, s * sqrt(_COUNTED_LEVELS) / mu, instances=_TREES, example={s: 1}
                ),
            ),
            calculation=TREE,
        ),
        PAPER.claim(
            "thm2.2.prefix",
            "What the tree mechanism releases",
            "Theorem 2.2",
            Identity(
                _S.symbol("X_t", "release t without its noise"),
                sympy.Sum(parts[t], (level, 1, t)),
                sympy.Sum(parts[level], (level, 1, t - 1)) + parts[t],
                instances=({t: 2}, {t: 3}),
            ),
            "A release is the one before plus M_t(X_{1:t-1}, Z_t), of which only that depends on the data Z_t.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "M_i(X_{1:j-1}, Z_i) should be M_j(X_{1:j-1}, Z_j), the sum over j of the parts of all steps so far.",
                Identity(
                    _S.symbol("X_t", "release t without its noise"),
                    sympy.Sum(parts[level], (level, 1, t)),
                    sympy.Sum(parts[level], (level, 1, t - 1)) + parts[t],
                    instances=({t: 2}, {t: 3}),
                ),
            ),
        ),
        PAPER.claim(
            "thm2.2.sigma_from_two",
            "The printed noise is enough from two leaves on",
            "Theorem 2.2",
            Inequality(
                s * sqrt(_LEVELS / 2) / (sqrt(log(1 / delta) + epsilon) - sqrt(log(1 / delta))),
                4 * s * sqrt(log(Sigma) * log(1 / delta)) / epsilon,
                {s: (0.01, 100), Sigma: (2, 1e6), epsilon: (0.01, 100), delta: (1e-12, 1e-2)},
                conditions=(epsilon <= 4 * log(1 / delta),),
                subject=by_zcdp,
            ),
            "As before, for Sigma >= 2 and epsilon <= 4 log(1/delta).",
        ),
        PAPER.claim(
            "thm2.2.norm",
            "Norm of the tree's noise",
            "Theorem 2.2",
            Rate(
                norm, sigma * sqrt(d * ell), {"variances of the nodes of TREE(t)": sqrt(num_nodes * sigma**2 * d * ell)}
            ),
            "TREE(t) is a sum of as many independent noises as t has ones in binary; ell stands for log(1/iota).",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "A factor sqrt(log Sigma) is missing: TREE(t) sums up to log2(Sigma + 1) independent noises of "
                "variance sigma^2 a coordinate. It vanishes in the O~ of Lemma 3.8.",
                Rate(
                    norm,
                    sigma * sqrt(num_nodes * d * ell),
                    {"variances of the nodes": sqrt(num_nodes * sigma**2 * d * ell)},
                ),
            ),
        ),
        PAPER.claim(
            "alg1.levels",
            "Levels of the tree",
            "Algorithm 1, line 2",
            Identity(levels, log(Sigma) / log(2), _COUNTED_LEVELS, instances=_TREES, example={}),
            "How many of the sizes 1, 2, 4, ... are at most Sigma, counted.",
            erratum=PAPER.erratum(
                Severity.PRIVACY,
                "l should run to floor(log2 Sigma) + 1. With 1 <= l <= log Sigma the root is missing, so that for "
                "Sigma = 2^K the last release has the noise of the one before, and their difference has none.",
                Identity(levels, _LEVELS, _COUNTED_LEVELS, instances=_TREES),
            ),
        ),
        PAPER.claim(
            "alg1.node",
            "Number of nodes in the sum TREE(t)",
            "Algorithm 1, line 14, with lines 11 to 17",
            Identity(
                in_node,
                Integer(max(len(_node(step, 16, literal=True)) for step in range(1, 17))),
                _counted(t, {step: len(_node(step, 16)) for step in range(1, 17)}),
                instances=tuple({t: step} for step in range(1, 17)),
            ),
            "NODE executed for all t of a tree with 16 leaves: as printed no interval is ever chosen, because k' is k "
            "plus a power of two and line 14 asks for k' <= k. Derived: with k' <= t there, and i from 0, intervals "
            "that cover 1 to t.",
            erratum=PAPER.erratum(
                Severity.PRIVACY,
                "Line 14 should read k' <= t: read literally, NODE(t) is empty, TREE(t) is 0, and no noise is added "
                "at all. And i should begin at 0: from 1 on the largest interval is half of the tree, so that for "
                "Sigma = 8 NODE(8) is NODE(7), and the last leaf is without noise of its own. NODE(t) has as many "
                "nodes as t has ones in binary.",
                Identity(
                    in_node,
                    t - sympy.Sum(floor(t / 2**level), (level, 1, t)),
                    _counted(t, {step: len(_node(step, 16)) for step in range(1, 17)}),
                    instances=tuple({t: step} for step in range(1, 17)),
                ),
            ),
        ),
        PAPER.claim(
            "alg2.first",
            "Number of nodes in the noise of a release",
            "Algorithm 2, lines 2, 11 and 13, with Algorithm 1",
            Identity(
                _S.symbol("nodes", "number of nodes in the noise of the t-th release"),
                t - 1 - sympy.Sum(floor((t - 1) / 2**level), (level, 1, t - 1)),
                _counted(t, {step: len(_node(step, 16)) for step in range(1, 17)}),
                instances=tuple({t: step} for step in range(1, 17)),
            ),
            "Algorithm 2 begins at t = 0 and adds TREE(0) to its first gradient, while Algorithm 1 has TREE(1) to "
            "TREE(Sigma), mended as in alg1.node: NODE(0) is empty.",
            erratum=PAPER.erratum(
                Severity.PRIVACY,
                "TREE(t) should be TREE(t + 1), and Sigma at least T + 1: as printed, the first gradient, of all b "
                "examples, is released without noise.",
                Identity(
                    _S.symbol("nodes", "number of nodes in the noise of the t-th release"),
                    t - sympy.Sum(floor(t / 2**level), (level, 1, t)),
                    _counted(t, {step: len(_node(step, 16)) for step in range(1, 17)}),
                    instances=tuple({t: step} for step in range(1, 17)),
                ),
            ),
        ),
        PAPER.claim(
            "lemma2.4.norm",
            "A sum of norm-sub-Gaussian vectors",
            "Lemma 2.4, last line",
            Inequality(
                needed_scale,
                constant * log(d) / (2 * log(2)),
                {constant: (1, 1e3), d: (1, 1e6)},
                example={constant: 100, d: 1},
                subject=_S.symbol("zeta^2", "squared scale", latex="\\zeta^2"),
            ),
            "The lemma bounds the tail at t by min(1, 2 d exp(-x)), x = t^2/(c^2 V), with V the sum of the squared "
            "scales. In units of c^2 V, 2 exp(-x/(2 zeta^2)) is above that where it is at the kink x = log(2 d).",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "log(d) should be log(2d): in one dimension the printed scale is 0.",
                Inequality(
                    needed_scale,
                    constant * log(2 * d) / (2 * log(2)),
                    {constant: (1, 1e3), d: (1, 1e6)},
                    subject=_S.symbol("zeta^2", "squared scale", latex="\\zeta^2"),
                ),
            ),
        ),
        PAPER.claim(
            "thm2.5.exponent",
            "Exponent of the matrix Bernstein inequality",
            "Theorem 2.5",
            Identity(
                exponent,
                tail**2 / (variance + largest * tail / 3),
                chernoff,
                example={tail: 40, variance: 400, largest: 1},
            ),
            "Chernoff's bound: -theta t + theta^2 V/(2 (1 - L theta/3)) at theta = t/(V + L t/3); the printed exponent "
            "is -(-t^2)/(...).",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The exponent should be -(t^2/2)/(sigma^2 + L t/3): as printed it is positive, and the bound grows "
                "with t; with the sign alone it is still violated (400 signs, t = 40: 0.0506 > 0.0208).",
                Identity(exponent, -(tail**2) / 2 / (variance + largest * tail / 3), chernoff),
            ),
        ),
        PAPER.claim(
            "thm2.5.dimension",
            "Factor of the matrix Bernstein inequality",
            "Theorem 2.5",
            Identity(factor, d, 2 * trace, instances=dimensions, example={}),
            "The largest eigenvalue of S and that of -S, each with the trace of a d by d identity.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "d should be 2d for the norm of a symmetric matrix, which both ends of the spectrum can exceed. With "
                "d and the exponent corrected, two signs in one dimension violate it: t = 2 has probability 1/2, "
                "above exp(-3/4) = 0.472.",
                Identity(factor, 2 * d, 2 * trace, instances=dimensions),
            ),
        ),
    )


# ---------------------------------------------------------------- Section 3: descent and escape
_PROGRESS = eta * g * error - eta * g**2 / 2
_PROGRESS_BOX = {eta: (0.1, 10), gamma: (1e-3, 1e3), share: (1e-3, 1), stretch: (1, 1e3)}
# Errors up to gamma/4, and gradients that are w gamma long: the worst noisy gradient is shorter by the error.
_LEMMA_3_2 = {g: stretch * gamma - error, error: share * gamma / 4}
_CHANGE = _S.symbol("F(x_{t+1}) - F(x_t)", "change of F in a step", LOSS, latex="F(x_{t+1}) - F(x_t)")
_PER_ESCAPE = gamma ** Rational(3, 2) / sqrt(rho)
_WINDOW = M / sqrt(rho * gamma)
_LOG_ARGUMENT = d * T / iota  # a union bound over the coordinates of T points


def _descent_and_escape() -> tuple[Claim, ...]:
    push = _S.symbol("x", "distance along the negative curvature", LENGTH)
    threshold = _S.symbol("threshold", "norm below which a saddle is suspected", _GRADIENT)
    drifted = _S.symbol("drift", "sum of the norms of the noisy gradients since O1 was asked", _GRADIENT)
    needed_by_O2 = Max(g * sqrt(d) / (alpha * epsilon), kappa * g / alpha**2, 1)
    b_of_O1 = G * sqrt(d) / (epsilon * alpha) + G**2 / alpha**2
    guarded = {
        G: (0.1, 10), g: (0.01, 10), kappa: (0.01, 100), alpha: (1e-3, 1), d: (1, 1e4), epsilon: (0.01, 10)
    }  # fmt: skip
    guaranteed = {"1/D": 1 / decrease}
    adversary = {  # on F = -sqrt(rho gamma) x^2/2 + ..., with errors that cancel every later gradient
        "decrease up to x": decrease / (sqrt(rho * gamma) * distance**2),
        "x is one step of 2 gamma/M": M * distance / gamma,
    }
    flat = {"sqrt(rho gamma) <= M": rho * gamma / M**2}
    average = {"decrease over window": _PER_ESCAPE / _WINDOW}
    with_step_size = {"decrease over window": (_PER_ESCAPE / _WINDOW).subs(M, 1 / eta)}
    per_step = _S.symbol("D/Gamma", "average decrease of F in a step of an escape window", LOSS)
    return (
        PAPER.claim(
            "lemma3.2.descent",
            "Decrease of a step with an inexact gradient",
            "Lemma 3.2, first inequality",
            Identity(
                _CHANGE,
                eta * g * error - eta / 2 * g**2,
                -(g - error) * eta * g + M / 2 * (eta * g) ** 2,
                where={eta: 1 / M},
            ),
            "The quadratic upper bound of a smooth F at a step eta g, when the gradient is g - e along the step, the "
            "worst for an error of norm e.",
        ),
        PAPER.claim(
            "lemma3.2.decrease",
            "Decrease where the gradient is large",
            "Lemma 3.2, second inequality",
            Inequality(
                _PROGRESS,
                -eta * g**2 / 16,
                _PROGRESS_BOX,
                where=_LEMMA_3_2,
                subject=_CHANGE,
            ),
            "A gradient of norm w gamma >= gamma and an error of norm q gamma/4, q <= 1, against it.",
        ),
        PAPER.own(
            "decrease_constant",
            "Best constant of the decrease",
            Inequality(
                _PROGRESS,
                -eta * g**2 / 6,
                _PROGRESS_BOX,
                where=_LEMMA_3_2,
                subject=_CHANGE,
            ),
            "Under the conditions of Lemma 3.2, e <= g/3; with equality the first inequality gives -eta g^2/6.",
        ),
        PAPER.claim(
            "secA.1.large",
            "Decrease where the gradient exceeds 4 gamma",
            "Appendix A.1, proof of Proposition 3.4",
            Inequality(
                _PROGRESS,
                -eta * g**2 / 16,
                _PROGRESS_BOX,
                where={g: 4 * stretch * gamma - error, error: share * gamma},
                subject=_CHANGE,
            ),
            "Lemma 3.2 at 4 gamma.",
        ),
        PAPER.claim(
            "lemma3.3.decrease",
            "Decrease in an escape window",
            "Lemma 3.3",
            Rate(
                1 / decrease,
                sqrt(rho) / gamma ** Rational(3, 2),
                guaranteed,
                (decrease, distance),
                adversary,
                flat,
            ),
            "The lemma's D = Omega(gamma^(3/2)/sqrt(rho)), D the decrease that is guaranteed, as a bound of 1/D. The "
            "only hypothesis on later steps is an error of at most gamma. On F = -sqrt(rho gamma) x^2/2 + ... from "
            "x_0 = 0, errors that cancel the gradient are allowed, because the first step, at most 2 gamma/M long, "
            "leads to gradients below gamma; then the iterate stays (logarithms put to 1).",
            erratum=PAPER.erratum(
                Severity.RATE,
                "A bound of the error's norm cannot suffice: the errors may cancel the escape direction, and then F "
                "decreases by at most the order of sqrt(rho) gamma^(5/2)/M^2, so that 1/D is at least M^2/(sqrt(rho) "
                "gamma^(5/2)). Nothing smaller is guaranteed, either: errors that also push along a direction of "
                "curvature M make F rise, by up to gamma^2/(2 M). Errors of minibatches have to be "
                "independent, and the batches larger than of the order of M/sqrt(rho gamma) (or the step smaller). The "
                "abstract of version 2 speaks of an issue in the escape procedure of the cited work, and corrects it.",
                Rate(
                    1 / decrease,
                    M**2 / (sqrt(rho) * gamma ** Rational(5, 2)),
                    guaranteed,
                    (decrease, distance),
                    adversary,
                    flat,
                    order="Omega",
                ),
            ),
        ),
        PAPER.claim(
            "lemma3.3.window",
            "Length of the escape window",
            "Lemma 3.3",
            Identity(
                Gamma,
                M * log(d * M * B / (rho * gamma * iota)) / sqrt(rho * gamma),
                _WINDOW * log(_LOG_ARGUMENT),
                where={T: _STEPS[gamma]},
            ),
            "M/sqrt(rho gamma) steps multiply a distance along the negative curvature by e; the logarithm comes from a "
            "union bound over d coordinates of T = B M/gamma^2 points.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The argument of the logarithm has a unit, x^2, so that the window depends on how lengths are "
                "measured. d M B/(gamma^2 iota) has none.",
                Identity(
                    Gamma,
                    M * log(d * M * B / (gamma**2 * iota)) / sqrt(rho * gamma),
                    _WINDOW * log(_LOG_ARGUMENT),
                    where={T: _STEPS[gamma]},
                ),
            ),
        ),
        PAPER.own(
            "cubic_saddle",
            "Where the decrease of an escape comes from",
            Optimum(
                rho * push**3 / 6 - lam * push**2 / 2,
                push,
                2 * lam / rho,
                -2 * lam**3 / (3 * rho**2),
            ),
            "The cubic upper bound of F along a direction of curvature -lambda; lambda = sqrt(rho gamma) gives 2/3 of "
            "the gamma^(3/2)/sqrt(rho) of Lemma 3.3.",
        ),
        PAPER.claim(
            "lemma3.3.average",
            "Average decrease, in gamma",
            "below Lemma 3.3",
            Rate(per_step, gamma**2, average, normalised=(M,), order="Omega"),
            "The decrease of Lemma 3.3 over its window.",
        ),
        PAPER.claim(
            "prop3.4.average",
            "Average decrease",
            "below Proposition 3.4",
            Rate(per_step, eta / gamma**2, with_step_size, order="Omega"),
            "The decrease of Lemma 3.3 over its window, with eta = 1/M.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "Omega(eta/gamma^2) should be Omega(eta gamma^2), as used for T.",
                Rate(per_step, eta * gamma**2, with_step_size, order="Omega"),
            ),
        ),
        PAPER.claim(
            "prop3.4.T",
            "Number of steps",
            "Proposition 3.4",
            Rate(
                T,
                B / (eta * gamma**2),
                {"T": T},
                (T,),
                {
                    "gap over the decrease where the gradient is large": B / (eta * gamma**2) / T,
                    "gap over the average decrease of escapes": B / (_PER_ESCAPE / _WINDOW).subs(M, 1 / eta) / T,
                },
            ),
            "T times the least average decrease exceeds B. With eta = 1/M, as everywhere in the paper.",
        ),
        PAPER.claim(
            "prop3.4.zeta",
            "Scale of the perturbation",
            "Proposition 3.4",
            Identity(
                zeta,
                gamma / sqrt(log(d / iota)),
                sqrt(d * gamma**2 / (d * log(d / iota))),
                example={gamma: 1, d: 100, iota: 0.01},
            ),
            "zeta^2/d in Algorithm 2 is the variance gamma^2/(d log(d/iota)) of Lemma 3.3.",
        ),
        PAPER.claim(
            "alg2.threshold.unit",
            "Norm below which a saddle is suspected",
            "Algorithm 2, line 9; Lemma 3.3",
            Identity(
                threshold,
                gamma * log(B * M * d / (rho * omega)) ** 3,
                gamma * log(d * T / omega) ** 3,
                where={T: _STEPS[gamma]},
            ),
            "A union bound over d coordinates of T = B M/gamma^2 points, as for the window.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The argument of the logarithm has the unit F x, and differs from that of the window. d B M/(gamma^2 "
                "omega) has none.",
                Identity(
                    threshold,
                    gamma * log(B * M * d / (gamma**2 * omega)) ** 3,
                    gamma * log(d * T / omega) ** 3,
                    where={T: _STEPS[gamma]},
                ),
            ),
        ),
        PAPER.claim(
            "alg2.threshold.sign",
            "The threshold is at least the error",
            "Algorithm 2, line 9",
            Inequality(gamma, gamma * log(y) ** 3, {gamma: (1e-3, 1), y: (0.01, 1e6)}, example={gamma: 1, y: 0.2}),
            "y = B M d/(rho omega); it is 0.2 at B = M = 1, d = 2, rho = 100, omega = 0.1.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "Where the argument is below 1, the threshold is negative, and no saddle is ever perturbed; max(1, "
                "log(...))^3 would do.",
                Inequality(gamma, gamma * Max(1, log(y)) ** 3, {gamma: (1e-3, 1), y: (0.01, 1e6)}),
            ),
        ),
        PAPER.claim(
            "alg2.test",
            "Gradient at a point that is taken for a saddle",
            "Algorithm 2, line 9; Lemma 3.3",
            Inequality(
                (g + share * gamma) + other_share * g,
                g + gamma,
                {g: (0.01, 10), gamma: (0.01, 10), share: (1e-3, 1), other_share: (1e-3, 1)},
                example={g: 1, gamma: 0.1, share: 1, other_share: 1},
                subject=_S.symbol("|grad F(x_t)|", "gradient norm at x_t", _GRADIENT, latex="\\|\\nabla F(x_t)\\|"),
            ),
            "The noisy gradient at x_{t-1} is what is tested (its norm is g, its error at most gamma); the step from "
            "there, of length g/M, changes the gradient by up to g.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The test looks at the point before, where Lemma 3.3 speaks of x_t: the gradient there may be 2 g + "
                "gamma, twice the threshold. Testing the noisy gradient at x_t, before the perturbation, costs no "
                "privacy, and at t = 0 there is no other.",
                Inequality(
                    (g + share * gamma) + other_share * g,
                    2 * g + gamma,
                    {g: (0.01, 10), gamma: (0.01, 10), share: (1e-3, 1), other_share: (1e-3, 1)},
                ),
            ),
        ),
        PAPER.claim(
            "alg2.drift",
            "Drift since O1 was asked",
            "Algorithm 2, line 10; Lemma 3.6",
            Inequality(
                stretch * Gamma * gamma,
                kappa,
                {stretch: (1, 1e4), Gamma: (1, 1e3), gamma: (1e-3, 1), kappa: (1e-3, 100)},
                conditions=(Gamma * gamma <= kappa,),
                example={stretch: 1000, Gamma: 100, gamma: 0.01, kappa: 1},
                subject=drifted,
            ),
            "Line 10 sets the drift to 0 without a call of O1. On a path of w windows, each of Gamma steps with noisy "
            "gradients of norm gamma, the drift never reaches kappa, and O1 is not asked again.",
            erratum=PAPER.erratum(
                Severity.RATE,
                "Lemma 3.6 takes the last time at which the drift was 0 for the last call of O1. With line 10 it is "
                "not: the errors of all windows add up, and Lemma 3.8 does not follow. Without 'drift_t = 0' in line "
                "10 the drift is below kappa when O2 is asked; a call of O1 there instead would cost the rate "
                "(own.frozen_reset).",
                Inequality(share * kappa + g, kappa + g, {share: (1e-3, 1), kappa: (1e-3, 100), g: (1e-3, 10)}),
            ),
        ),
        PAPER.claim(
            "alg2.guard",
            "Examples that a step needs",
            "Algorithm 2, line 3",
            Inequality(
                needed_by_O2,
                b_of_O1,
                guarded,
                conditions=(g <= G, b_of_O1 >= 1),
                example={G: 1, g: 1, kappa: 4, alpha: 0.05, d: 100, epsilon: 1},
                subject=bt,
            ),
            "Batch sizes of Lemma 3.8; line 3 asks whether more than b examples are left.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The guard does not cover O2, whose batch may be larger by kappa/G. It has to ask for the batch that "
                "the next call needs; both are to be rounded up.",
                Inequality(needed_by_O2, Max(1, kappa / G) * b_of_O1, guarded, conditions=(g <= G, b_of_O1 >= 1)),
            ),
        ),
    )


# ---------------------------------------------------------------- Section 3.1: oracles, noise, batch sizes
def _oracles() -> tuple[Claim, ...]:
    moved = _S.symbol("M|x_t - x_{t-1}|", "change of gradients in a step", _GRADIENT, latex="M\\|x_t - x_{t-1}\\|")
    first, second = (_S.symbol(f"zeta_{k}", f"error of O{k}", _GRADIENT) for k in (1, 2))
    sampling = {
        "O1, b independent terms": b * (2 * G / b) ** 2 * ell,
        "O2, b_t independent terms in each of k steps": num_steps * bt * (2 * M * distance / bt) ** 2 * ell,
    }
    one_dominates = {G: 1, b: 1000, g: 1, bt: 1e6}
    sizes = {G: (0.1, 10), b: (1, 1e6), g: (0.1, 10), bt: (1, 1e6)}
    box = {G: (0.1, 10), g: (0.1, 10), kappa: (0.1, 10), alpha: (1e-3, 1), d: (1, 1e6), epsilon: (0.01, 10)}
    noise_of_restarted_trees = Identity(
        sigma,
        2 * epsilon * alpha * sqrt(_LEVELS) / (sqrt(d) * mu),
        sqrt(_COUNTED_LEVELS) * (G / b + G / b) / mu,
        where={b: G * _NOISE / alpha},
        instances=_TREES,
    )
    reached = {"noise": sqrt(d) * G / (epsilon * b), "sampling": G / sqrt(b)}
    shifted = _S.symbol("shifted", "nodes that an exchanged example shifts, at most")
    powers_of_two = tuple({Sigma: leaves} for leaves in _POWERS_OF_TWO)
    return (
        PAPER.claim(
            "lemma3.5.O1",
            "Error of the first oracle",
            "Lemma 3.5 (1)",
            Rate(first, G * sqrt(ell / b), {"Lemma 2.4 for b terms of norm 2 G/b": sqrt(b * (2 * G / b) ** 2 * ell)}),
            "Lemma 2.4; ell stands for log(d/iota).",
        ),
        PAPER.claim(
            "lemma3.5.O2",
            "Error of the second oracle",
            "Lemma 3.5 (2)",
            Rate(
                second,
                M * distance * sqrt(ell / bt),
                {"Lemma 2.4 for b_t terms of norm 2 M r/b_t": sqrt(bt * (2 * M * distance / bt) ** 2 * ell)},
            ),
            "Lemma 2.4; r is the distance of the two points, ell stands for log(d/iota).",
        ),
        PAPER.claim(
            "lemma3.6",
            "Error of the estimator since O1 was asked",
            "Lemma 3.6, eq. (1)",
            Rate(
                error**2,
                (G**2 / b + num_steps * M**2 * distance**2 / bt) * ell,
                sampling,
            ),
            "k steps of length r. Lemma 2.4 once, for all examples drawn since then as one martingale: a single "
            "logarithm. (Applied to the oracles' errors of Lemma 3.5, as in the proof, it would give its square.)",
        ),
        PAPER.claim(
            "lemma3.7.O1",
            "Sensitivity of the first oracle",
            "Lemma 3.7, proof",
            Inequality(
                G * (share + other_share) / b, G / b, _REPLACED, example={G: 1, b: 100, share: 1, other_share: 1}
            ),
            "Data sets differ in one item (Section 1): gradients of norms q G and v G that point in opposite "
            "directions.",
            erratum=PAPER.erratum(
                Severity.PRIVACY,
                "When an example is replaced, a mean of b gradients moves by up to 2 G/b. G/b holds when an example's "
                "gradient is put to zero.",
                Inequality(G * (share + other_share) / b, 2 * G / b, _REPLACED),
            ),
        ),
        PAPER.claim(
            "lemma3.7.O2",
            "Sensitivity of the second oracle",
            "Lemma 3.7, proof",
            Inequality(
                M * distance * (share + other_share) / bt,
                M * distance / bt,
                _REPLACED,
                example={M: 1, distance: 1, bt: 100, share: 1, other_share: 1},
            ),
            "As for the first oracle, with differences of gradients of norms q M r and v M r.",
            erratum=PAPER.erratum(
                Severity.PRIVACY,
                "When an example is replaced, the mean moves by up to 2 M r/b_t.",
                Inequality(M * distance * (share + other_share) / bt, 2 * M * distance / bt, _REPLACED),
            ),
        ),
        PAPER.claim(
            "lemma3.7.index",
            "Which gradient a step is made of",
            "Lemma 3.7, proof",
            Identity(moved, norms[t], M * (eta * norms[t - 1]), where={eta: 1 / M}, instances=({t: 2},), example={}),
            "x_t = x_{t-1} - eta g_{t-1} with eta = 1/M.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "The norm should be that of the gradient of step t - 1, here and in b_t (Lemma 3.8, Theorem 3.11), "
                "which otherwise would need the gradient that it is there to estimate.",
                Identity(moved, norms[t - 1], M * (eta * norms[t - 1]), where={eta: 1 / M}, instances=({t: 2},)),
            ),
        ),
        PAPER.claim(
            "lemma3.7.sigma",
            "Noise that makes the algorithm private",
            "Lemma 3.7",
            Inequality(
                _NEEDED * Max(2 * G / b, 2 * g / bt),
                (G / b + g / bt) * log(1 / delta) / epsilon,
                sizes,
                where=_REFERENCE,
                example=one_dominates,
                subject=needed,
            ),
            "epsilon = 1, delta = 1e-6, a tree with 1024 leaves: 11 releases of one sensitivity need the noise "
            "sqrt(11)/mu = 14.01 times the sensitivity, where mu solves the exact profile of Gaussian DP.",
            erratum=PAPER.erratum(
                Severity.PRIVACY,
                "log(1/delta)/epsilon does not follow from Theorem 2.2, which has 4 sqrt(log(Sigma) "
                "log(1/delta))/epsilon; it is smaller unless delta <= Sigma^(-16). At (1, 1e-6) and 1024 leaves it is "
                "too small even without the factor 2 for a replaced example, where one of the two summands dominates "
                "(13.8 < 14.01). With s = 2 max(G/b, g/b_t) and mu the parameter of Gaussian DP that (epsilon, delta) "
                "allows, s sqrt(levels)/mu is enough if a new tree is begun at each call of O1 (own.restart). With "
                "one tree throughout, as printed, it is not: see alg2.reset.",
                Identity(sigma, s * sqrt(_LEVELS) / mu, sqrt(_COUNTED_LEVELS) * s / mu, instances=_TREES),
            ),
            calculation=TREE,
        ),
        PAPER.claim(
            "alg2.reset",
            "Nodes that an exchanged example shifts",
            "Algorithm 2, lines 5 and 13; Lemma 3.7, proof",
            Identity(
                shifted,
                _LEVELS,
                _counted(Sigma, {leaves: _most_shifted(leaves) for leaves in _POWERS_OF_TWO}),
                instances=powers_of_two,
            ),
            "Lemma 3.7 cites Theorem 2.2, for prefix sums, where an example of leaf j shifts every later sum by s, "
            "and so the floor(log2 Sigma) + 1 nodes of that leaf. In Algorithm 2 a call of O1 at leaf r > j forgets "
            "the sum, while TREE(t) goes on: the shift ends at r, which is +s at leaf j and -s at leaf r. Nodes in use "
            "that hold one of the two leaves are counted, for the worst pair.",
            erratum=PAPER.erratum(
                Severity.PRIVACY,
                "Theorem 2.2 does not apply, since the estimates are no prefix sums: O1 forgets what came before, the "
                "tree does not. For Sigma = 2^K up to 2 K - 1 nodes shift, by s each, not K + 1. With 1024 leaves and "
                "O1 asked at the half they are 19, not 11: the noise for (1, 1e-6) is then 18.41 s, and at the 14.01 s "
                "that prefix sums need delta is 8.9e-5. Either the noise grows by this, or a new tree is begun at each "
                "call of O1, which keeps floor(log2 Sigma) + 1 (own.restart).",
                Identity(
                    shifted,
                    Max(log(Sigma) / log(2) + 1, 2 * log(Sigma) / log(2) - 1),
                    _counted(Sigma, {leaves: _most_shifted(leaves) for leaves in _POWERS_OF_TWO}),
                    instances=powers_of_two,
                ),
            ),
        ),
        PAPER.own(
            "restart",
            "Nodes that an exchanged example shifts, a new tree at each call of O1",
            Identity(
                shifted,
                _LEVELS,
                _counted(Sigma, {leaves: _most_shifted(leaves, restarted=True) for leaves in (1, 2, 3, 4, 7, 8, 31)}),
                instances=_TREES,
            ),
            "Within a tree the estimates are prefix sums, and trees hold different examples; Sigma is the most leaves "
            "that one of them has, at most T.",
            calculation=TREE,
        ),
        PAPER.claim(
            "lemma3.8.b",
            "Batch size of the first oracle",
            "Lemma 3.8",
            Choice({b: G * sqrt(d) / (epsilon * alpha) + G**2 / alpha**2}, reached, alpha),
            "The noise for a sensitivity of the order G/b has the norm sqrt(d) G/(epsilon b), the sampling error is "
            "G/sqrt(b).",
        ),
        PAPER.claim(
            "lemma3.8.b_t",
            "Batch size of the second oracle",
            "Lemma 3.8",
            Choice(
                {bt: Max(g * sqrt(d) / (alpha * epsilon), kappa * g / alpha**2, 1)},
                {"noise": sqrt(d) * g / (epsilon * bt), "sampling": sqrt(kappa * g / bt)},
                alpha,
                regime={"kappa g >= alpha^2": alpha**2 / (kappa * g)},
            ),
            "Noise for a sensitivity of the order g/b_t. The sampling errors of a segment have squares g_i^2/b_i, at "
            "most max(g/b_t) times the sum of the g_i, which is at most kappa. Where batches are not 1 by rounding.",
        ),
        PAPER.claim(
            "lemma3.8.sensitivity",
            "Sum of the sensitivities",
            "Lemma 3.8, proof",
            Inequality(
                G / b + g / bt,
                2 * epsilon * alpha / sqrt(d),
                box,
                where={b: _BATCH, bt: Max(g * _NOISE / alpha, kappa * g / alpha**2)},
                subject=G / b + g / bt,
            ),
            "The batch sizes put in.",
        ),
        PAPER.claim(
            "lemma3.8.sigma",
            "Noise in terms of alpha",
            "Lemma 3.8",
            Identity(
                sigma,
                2 * log(1 / delta) * alpha / sqrt(d),
                (G / b + g / bt) * log(1 / delta) / epsilon,
                where={b: G * _NOISE / alpha, bt: g * _NOISE / alpha},
            ),
            "Lemma 3.7's formula at the smallest batches that Lemma 3.8 allows.",
        ),
        PAPER.claim(
            "lemma3.8.privacy",
            "The noise makes the algorithm private",
            "Lemma 3.8",
            Inequality(
                _NEEDED * (G / b + G / b),
                2 * log(1 / delta) * alpha / sqrt(d),
                {alpha: (1e-3, 1), d: (1, 1e6)},
                where={b: G * _NOISE / alpha, **_REFERENCE},
                example={alpha: 1, d: 1},
                subject=needed,
            ),
            "epsilon = 1, delta = 1e-6, 1024 leaves, an example replaced: sensitivity 2 alpha epsilon/sqrt(d), where "
            "b is as small as the rule allows.",
            erratum=PAPER.erratum(
                Severity.PRIVACY,
                "2 log(1/delta) alpha/sqrt(d) is 27.63 alpha/sqrt(d) where 28.02 is needed; it would do for examples "
                "put to zero. It does not grow with the number of leaves, although the noise has to. (The corrected "
                "noise is for a new tree at each call of O1, see alg2.reset.)",
                noise_of_restarted_trees,
            ),
        ),
        PAPER.claim(
            "thm3.11.sigma",
            "Noise of the theorem",
            "Theorem 3.11",
            Inequality(
                _NEEDED * G / b,
                alpha / sqrt(d),
                {alpha: (1e-3, 1), d: (1, 1e6)},
                where={b: G * _NOISE / alpha, **_REFERENCE},
                example={alpha: 1, d: 1},
                subject=needed,
            ),
            "epsilon = 1, delta = 1e-6, 1024 leaves, and even the smaller sensitivity G/b of examples put to zero.",
            erratum=PAPER.erratum(
                Severity.PRIVACY,
                "sigma = alpha/sqrt(d) drops the factor 2 log(1/delta) of Lemma 3.8. The noise is then the "
                "sensitivity over epsilon, whatever delta: at epsilon = 1 and 1024 leaves, where the private term of "
                "b dominates, delta is 0.845 for examples put to zero, 0.998 for replaced ones, and larger still if O1 "
                "is asked again in the middle. (The corrected noise is for a new tree at each call of O1, see "
                "alg2.reset.)",
                noise_of_restarted_trees,
            ),
            calculation=THEOREM,
        ),
        PAPER.own(
            "delta_zeroed",
            "delta that sigma = alpha/sqrt(d) reaches, examples put to zero",
            Identity(delta, Rational(845, 1000), _profile(Integer(1), sqrt(Integer(_REFERENCE_LEVELS))), digits=3),
            "epsilon = 1, 1024 leaves: sensitivity alpha epsilon/sqrt(d) over sigma is 1 at each of 11 nodes, so the "
            "mechanism has the parameter sqrt(11) of Gaussian DP. As Theorem 2.2 counts; further calls of O1 add "
            "to it.",
        ),
        PAPER.own(
            "delta_replaced",
            "delta that sigma = alpha/sqrt(d) reaches, examples replaced",
            Identity(
                delta, Rational(9985, 10000), _profile(Integer(1), 2 * sqrt(Integer(_REFERENCE_LEVELS))), digits=4
            ),
            "As before with twice the sensitivity.",
        ),
    )


# ---------------------------------------------------------------- Lemmas 3.9 and 3.10, Theorem 3.11
def _alone(value: Any, count: Any, threshold: Any = kappa) -> Rate:
    """One of the requirements on n, at one branch of kappa, solved for alpha."""
    return Rate(alpha, value, {"alpha": alpha}, (alpha,), {"count": (count / n).xreplace({kappa: threshold})})


def _sample_sizes() -> tuple[Claim, ...]:
    total = _S.symbol("N", "number of examples used")
    printed_total = b * B * M / (kappa * gamma) + B * M * (
        sqrt(d) / (gamma**2 * epsilon) + kappa / gamma**3 + 1 / gamma**2
    )
    calls = {
        "first call of O1": b,
        "later calls of O1": b * _PATH[gamma] / kappa,
        "O2": _BATCH_PER_GRADIENT[gamma] * _PATH[gamma],
        "an example a step": _STEPS[gamma],
    }
    tuned = {"terms": {"alpha": alpha}, "tuned": (alpha, kappa)}
    ground = {"terms": {"alpha": alpha}, "tuned": (alpha, *_CHOSEN)}
    normalised = {**ground, "regime": _SMALL_NOISE, "normalised": (B, G, M)}
    queries = _PATH[alpha] / kappa
    return (
        PAPER.claim(
            "lemma3.9.large",
            "Decrease where the noisy gradient is at least gamma",
            "Lemma 3.9, proof",
            Inequality(
                _PROGRESS,
                -eta * g**2 / 16,
                _PROGRESS_BOX,
                where={g: stretch * gamma, error: share * gamma},
                example={eta: 1, gamma: 1, share: 1, stretch: 1},
                subject=_CHANGE,
            ),
            "Lemma 3.2's first inequality with errors up to gamma, as Lemma 3.8 gives them.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "Lemma 3.2 needs errors of at most a quarter of the threshold. At g = gamma, F may increase by eta "
                "gamma^2/2; from g = 3 gamma on it decreases by eta g^2/6. The set S should be that of norms at most 3 "
                "gamma; eq. (2) remains.",
                Inequality(
                    _PROGRESS,
                    -eta * g**2 / 6,
                    _PROGRESS_BOX,
                    where={g: 3 * stretch * gamma, error: share * gamma},
                    subject=_CHANGE,
                ),
            ),
        ),
        PAPER.claim(
            "lemma3.9.small",
            "Increase where the noisy gradient is at most gamma",
            "Lemma 3.9, proof",
            Inequality(
                _PROGRESS,
                eta * gamma**2,
                {**_PROGRESS_BOX, other_share: (1e-3, 1)},
                where={g: other_share * gamma, error: share * gamma},
                subject=_CHANGE,
            ),
            "Lemma 3.2's first inequality.",
        ),
        PAPER.claim(
            "eq2",
            "Length of the path",
            "eq. (2)",
            Rate(
                path,
                B * M / gamma,
                {
                    "large steps, squares over gamma": (B / eta / gamma).subs(eta, 1 / M),
                    "small steps, at most gamma each": _STEPS[gamma] * gamma,
                },
            ),
            "The squares of the large steps sum to B/eta; T = B M/gamma^2 steps in all.",
        ),
        PAPER.claim(
            "lemma3.9",
            "Number of examples",
            "Lemma 3.9",
            Rate(total, printed_total, calls),
            "O1 is asked at the start, and whenever the path has grown by kappa; O2 takes b_t at each step.",
            erratum=PAPER.erratum(
                Severity.RATE,
                "The first call of O1 is not counted: the drift begins at kappa, so that b examples are used whatever "
                "the path. The other calls cover it only if kappa <= B M/gamma.",
                Rate(total, b + printed_total, calls),
            ),
        ),
        PAPER.claim(
            "lemma3.10.O1_private",
            "Private part of O1",
            "Lemma 3.10, proof, First",
            _alone(_BGM * sqrt(_P), G * _NOISE / alpha * queries, _BGM),
            "The first term of b, with kappa >= (B G M)^(1/3).",
        ),
        PAPER.claim(
            "lemma3.10.O1_sampling",
            "Sampling part of O1",
            "Lemma 3.10, proof, First",
            _alone((B * M) ** Rational(2, 9) * G ** Rational(5, 9) / n**_THIRD, G**2 / alpha**2 * queries, _BGM),
            "The second term of b, with kappa >= (B G M)^(1/3).",
        ),
        PAPER.claim(
            "lemma3.10.O2_private",
            "Private part of O2",
            "Lemma 3.10, proof, Secondly",
            _alone(sqrt(B * M) * sqrt(_P), _NOISE / alpha * _PATH[alpha]),
            "The first term of b_t over the path.",
        ),
        PAPER.claim(
            "lemma3.10.O2_sampling",
            "Sampling part of O2",
            "Lemma 3.10, proof, Thirdly",
            _alone((B * M) ** Rational(4, 9) * G ** Rational(1, 9) / n**_THIRD, kappa / alpha**2 * _PATH[alpha], _BGM),
            "The second term of b_t over the path, where kappa = (B G M)^(1/3).",
        ),
        PAPER.claim(
            "lemma3.10.O2_drift",
            "Sampling part of O2 where kappa is private",
            "Lemma 3.10, proof, Thirdly",
            _alone(sqrt(B * M) * sqrt(_P), kappa / alpha**2 * _PATH[alpha], alpha * _NOISE),
            "The second term of b_t over the path, where kappa = alpha sqrt(d)/epsilon.",
        ),
        PAPER.claim(
            "lemma3.10.steps",
            "At least one example a step",
            "Lemma 3.10, proof, Finally",
            _alone(sqrt(M * B) / sqrt(n), _STEPS[alpha]),
            "T examples.",
        ),
        PAPER.claim(
            "lemma3.10.kappa",
            "Drift threshold",
            "Lemma 3.10",
            Choice({alpha: _PRINTED_RATE, kappa: _PRINTED_KAPPA}, {"alpha": alpha}, _PRINTED_RATE, _LATER_QUERIES),
            "Every count of Lemma 3.9 as printed is at most n at the printed alpha and kappa.",
        ),
        PAPER.claim(
            "lemma3.10.alpha",
            "Accuracy from the counts of Lemma 3.9",
            "Lemma 3.10",
            Rate(alpha, _PRINTED_RATE, constraints=_LATER_QUERIES, **tuned),
            "The best balance of the counts of Lemma 3.9 as printed, over alpha and kappa.",
            calculation=SAMPLE_SIZE,
        ),
        PAPER.claim(
            "thm3.11.alpha",
            "Accuracy",
            "Theorem 3.11",
            Rate(alpha, _PRINTED_RATE, constraints=_GROUND, regime=_BELOW_START, **ground),
            f"{_GROUND_ORIGIN}. Where G/sqrt(n) and G p are below sqrt(B M), which bounds the gradient at x_0.",
            erratum=PAPER.erratum(
                Severity.RATE,
                "The first call of O1 takes b examples, so that alpha >= G/sqrt(n) and alpha >= G sqrt(d)/(n epsilon) "
                "are needed, too. They are not implied where G is large against sqrt(B M): for G = n^(7/16) sqrt(B "
                "M), G/sqrt(n) is n^(-1/16) sqrt(B M), more than the n^(-13/144) sqrt(B M) that is printed. With "
                "constants put to 1 (Remark 3.12) nothing changes. (And O should be O~.)",
                Rate(alpha, _PRINTED_RATE + _FIRST_QUERY, constraints=_GROUND, **ground),
            ),
            calculation=THEOREM,
        ),
        PAPER.claim(
            "thm3.11.kappa",
            "Drift threshold, first call of O1 included",
            "Theorem 3.11",
            Choice(
                {alpha: _PRINTED_RATE, kappa: _PRINTED_KAPPA},
                {"alpha": alpha},
                _PRINTED_RATE,
                _COUNTS,
                _BELOW_START,
            ),
            "Every count is at most n at the printed alpha and kappa.",
            erratum=PAPER.erratum(
                Severity.RATE,
                "The first call of O1 breaks the count, as for alpha; with alpha larger by G/sqrt(n) + G sqrt(d)/(n "
                "epsilon) it does not.",
                Choice(
                    {alpha: _PRINTED_RATE + _FIRST_QUERY, kappa: _PRINTED_KAPPA},
                    {"alpha": alpha},
                    _PRINTED_RATE + _FIRST_QUERY,
                    _COUNTS,
                ),
            ),
        ),
        PAPER.claim(
            "thm3.11.b",
            "Batch size of the first oracle",
            "Theorem 3.11",
            Choice(
                {b: G * (sqrt(d) / (epsilon * alpha) + 1 / alpha**2)},
                {"noise": sqrt(d) * G / (epsilon * b), "sampling": G / sqrt(b)},
                alpha,
            ),
            "As in Lemma 3.8.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "G/alpha^2 has a unit, and should be G^2/alpha^2, as in Lemma 3.8; with G/alpha^2 the sampling error "
                "would be sqrt(G) alpha.",
                Choice(
                    {b: G * sqrt(d) / (epsilon * alpha) + G**2 / alpha**2},
                    {"noise": sqrt(d) * G / (epsilon * b), "sampling": G / sqrt(b)},
                    alpha,
                ),
            ),
        ),
        PAPER.claim(
            "remark3.12",
            "Accuracy with constants put to 1",
            "Remark 3.12, abstract and Section 1.1",
            Rate(alpha, sqrt(_P) + n**-_THIRD, constraints=_GROUND, **normalised),
            f"{_GROUND_ORIGIN}. At B = G = M = 1, for p <= 1; the rate quoted for an FOSP is the same.",
            calculation=CROSSOVER,
        ),
    )


# ---------------------------------------------------------------- Appendix A.2
def _appendix() -> tuple[Claim, ...]:
    gradient, hessian = (_S.symbol(f"Delta_{k}", f"deviation of the {k}") for k in ("gradient", "Hessian"))
    uniform = sqrt(d / n)
    nets = {"gradient on the net": M * distance / G, "Hessian on the net": rho * distance / M}
    ones = (G, M, rho)
    empirical = {
        "empirical SOSP": _P ** Rational(2, 3) / alpha,
        "gradient": G * uniform / alpha,
        "Hessian": M**2 * d / n / (rho * alpha),
    }
    within = {"d <= n": d / n}
    return (
        PAPER.claim(
            "thmA.2.gradient",
            "Uniform deviation of gradients",
            "Theorem A.2",
            Rate(
                gradient,
                uniform,
                {"concentration on the net": G * sqrt(d * ell / n), "off the net": M * distance},
                (distance,),
                logs=(ell,),
                normalised=(G,),
            ),
            "eq. (3) and the distance r to the net, which may be taken small: it is hidden in ell = log(R/r).",
        ),
        PAPER.claim(
            "thmA.2.hessian",
            "Uniform deviation of Hessians",
            "Theorem A.2",
            Rate(
                hessian,
                uniform,
                {"concentration on the net": M * sqrt(d * ell / n), "off the net": rho * distance},
                (distance,),
                logs=(ell,),
                normalised=(M,),
            ),
            "As for gradients.",
        ),
        PAPER.claim(
            "thmA.2.net",
            "Width of the net",
            "Theorem A.2, proof",
            Choice({distance: Min(1, M / rho) * uniform}, nets, uniform),
            "Off the net gradients move by M r and Hessians by rho r, which should be at most sqrt(d/n) times G and M.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "min{1, M/rho} compares a number with a length. min{G/M, M/rho} is what both lines need; as the proof "
                "writes L for G, the gradient line needs r <= (L/M) sqrt(d/n).",
                Choice({distance: Min(G / M, M / rho) * uniform}, nets, uniform),
            ),
        ),
        PAPER.claim(
            "thmA.2.hessian_line",
            "Hessian off the net",
            "Theorem A.2, proof, last line",
            Rate(
                hessian,
                (M + rho * distance) * uniform,
                {"on the net": M * uniform, "off the net": rho * distance},
                regime=within,
            ),
            "Concentration on the net, and Lipschitz Hessians off it.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "(M + rho r) sqrt(d/n) should be M sqrt(d/n) + rho r; with r <= (M/rho) sqrt(d/n) the result is the "
                "same.",
                Rate(
                    hessian,
                    M * uniform + rho * distance,
                    {"on the net": M * uniform, "off the net": rho * distance},
                    regime=within,
                ),
            ),
        ),
        PAPER.claim(
            "secA.2.alpha",
            "From empirical to population SOSP",
            "Appendix A.2, last formula",
            Rate(
                alpha,
                sqrt(d) / n + _P ** Rational(2, 3),
                {"alpha": alpha},
                (alpha,),
                empirical,
                within,
                normalised=ones,
            ),
            "The quoted empirical rate p^(2/3), and Theorem A.2: the gradient adds sqrt(d/n), the Hessian needs "
            "sqrt(rho alpha) >= M sqrt(d/n).",
            erratum=PAPER.erratum(
                Severity.RATE,
                "sqrt(d)/n should be sqrt(d/n), which is what Theorem A.2 gives for the gradient (and what Section 4 "
                "says).",
                Rate(
                    alpha,
                    uniform + _P ** Rational(2, 3),
                    {"alpha": alpha},
                    (alpha,),
                    empirical,
                    within,
                    normalised=ones,
                ),
            ),
        ),
        PAPER.own(
            "net_private",
            "Where the net's deviation is below the private term",
            Crossover(uniform, sqrt(_P), d, epsilon**-2),
            "The corrected Appendix A.2 beats the private term of Theorem 3.11 only for d < epsilon^(-2) (constants "
            "1).",
        ),
        PAPER.own(
            "net_hessian",
            "Where the Hessian decides in the corrected Appendix A.2",
            Crossover(G * uniform, M**2 * d / (rho * n), n, d * M**4 / (rho * G) ** 2),
            "The gradient needs alpha >= G sqrt(d/n), the Hessian alpha >= M^2 d/(rho n), which is more for smaller n.",
        ),
        PAPER.own(
            "net_sampling",
            "Where the net's deviation is below the sampling term",
            Crossover(uniform, n**-_THIRD, d, n**_THIRD),
            "And the sampling term only for d < n^(1/3).",
        ),
    )


# ---------------------------------------------------------------- what the balance adds
_RATIO = 1 - u
# E ln(1 + y) <= E (y - y^2/2 + y^3/3) for the factor 1 + y = 1 + u - (1 - u) xi, xi a mean of b signs, u = lambda/M.
_EXPONENT_BOUND = u - (u**2 + _RATIO**2 / b) / 2 + (u**3 + 3 * u * _RATIO**2 / b) / 3


def _exponent(batch: int, ratio: Rational) -> Any:
    """The exact exponent: a mean over the binomial distribution."""
    means = {Rational(2 * k - batch, batch): math.comb(batch, k) for k in range(batch + 1)}
    return sympy.Add(*(w * log(1 + ratio - (1 - ratio) * xi) for xi, w in means.items())) / 2**batch


def _own_results() -> tuple[Claim, ...]:
    lyapunov = _S.symbol("Lambda", "Lyapunov exponent of a step at the saddle", domain=Domain())
    windows = T * sqrt(rho * alpha) / M
    ground = {"terms": {"alpha": alpha}, "tuned": (alpha, *_CHOSEN)}
    all_one = {"regime": _SMALL_NOISE, "normalised": (B, G, M, rho)}
    without = sqrt(B * M) * sqrt(_P) + _PRINTED_SAMPLING + sqrt(M * B) / sqrt(n)
    size = B * M * _NOISE / alpha**2 + B * G * M / alpha**3 + B * M / alpha**2 + G * _NOISE / alpha + G**2 / alpha**2
    return (
        PAPER.own(
            "best_rate",
            "Best accuracy over the drift threshold and the batches",
            Rate(alpha, _BEST_RATE + _FIRST_QUERY, constraints=_GROUND, **ground),
            f"{_GROUND_ORIGIN}. Never more than the corrected Theorem 3.11, and less "
            "wherever G differs from sqrt(B M).",
            calculation=SAMPLE_SIZE,
        ),
        PAPER.own(
            "best_kappa",
            "A drift threshold that reaches the best accuracy",
            Choice(
                {alpha: _BEST_RATE + _FIRST_QUERY, kappa: Max(alpha * _NOISE, G)},
                {"alpha": alpha},
                _BEST_RATE + _FIRST_QUERY,
                _COUNTS,
            ),
            "kappa = max(alpha sqrt(d)/epsilon, G): the printed one with G in place of (B G M)^(1/3).",
        ),
        PAPER.own(
            "printed_kappa",
            "The printed threshold needs no (B G M)^(1/3) p^(1/2)",
            Choice(
                {alpha: without + _FIRST_QUERY, kappa: _PRINTED_KAPPA},
                {"alpha": alpha},
                without + _FIRST_QUERY,
                _COUNTS,
            ),
            "Using kappa >= alpha sqrt(d)/epsilon in the private part of O1 gives (B G M/n)^(1/3), the geometric mean "
            "of the two printed sampling terms.",
        ),
        PAPER.own(
            "sample_size",
            "Number of examples for an accuracy",
            Rate(n, size, {"n": n}, (n, *_CHOSEN), _GROUND),
            f"{_GROUND_ORIGIN}. Solved for n.",
            calculation=SAMPLE_SIZE,
        ),
        PAPER.own(
            "no_step_term",
            "The term sqrt(B M/n) is idle",
            Rate(
                alpha,
                sqrt(B * M) * sqrt(_P) + (B * G * M / n) ** _THIRD + _FIRST_QUERY,
                constraints=_GROUND,
                regime={"sqrt(B M/n) <= G": B * M / (n * G**2)},
                **ground,
            ),
            "The best balance where sqrt(B M/n) <= G; otherwise that term is above G, and alpha is trivial. The same "
            "holds for the last term of the printed rate.",
        ),
        PAPER.own(
            "batch_regime",
            "Where the batches of Lemma 3.8 suffice to escape",
            Crossover(kappa / alpha, M / (2 * sqrt(rho * alpha)), alpha, 4 * rho * kappa**2 / M**2),
            "b_t >= kappa g/alpha^2 >= kappa/alpha where g >= alpha, against the batch M/(2 lambda) at lambda = "
            "sqrt(rho alpha): for alpha below the crossover, noise as on the quadratic saddle does not keep the "
            "iterates there.",
        ),
        PAPER.own(
            "escape_batches",
            "Batches that escape do not cost the rate",
            Rate(
                alpha,
                sqrt(_P) + n**-_THIRD,
                constraints={**_GROUND, "M/(2 sqrt(rho alpha)) examples a step": T * M / sqrt(rho * alpha) / n},
                **ground,
                **all_one,
            ),
            "The batch that the quadratic saddle asks for, at every step, on top of all else: B M^2/(sqrt(rho) "
            "alpha^(5/2)) examples, below those of the sampling term.",
        ),
        PAPER.own(
            "frozen_reset",
            "Asking O1 at every perturbation costs the rate",
            Rate(
                alpha,
                _P ** Rational(2, 5) + n ** Rational(-2, 7),
                constraints={**_GROUND, "O1 at each reset": b * windows / n},
                **ground,
                **all_one,
            ),
            "T/Gamma windows, Gamma = M/sqrt(rho alpha), at each of which line 10 of Algorithm 2 sets the drift to 0; "
            "if the estimate is refreshed there, b examples are used.",
        ),
        PAPER.own(
            "crossover",
            "Where the private and the sampling term are equal",
            Crossover(sqrt(_P), n**-_THIRD, epsilon, sqrt(d) * n**-_THIRD),
            "In Remark 3.12: privacy dominates for epsilon < sqrt(d) n^(-1/3).",
            calculation=CROSSOVER,
        ),
        PAPER.own(
            "lyapunov",
            "Exponent of a step at a saddle, batch 1",
            Identity(
                lyapunov,
                log(4 * u) / 2,
                (log(1 + u - _RATIO) + log(1 + u + _RATIO)) / 2,
                example={u: Rational(1, 20)},
            ),
            "f(x; z) = ((M - lambda) z - lambda) x^2/2 with z = 1 or -1, eta = 1/M: x is multiplied by 1 + u + (1 - "
            "u) or 1 + u - (1 - u), where u = lambda/M. Below lambda = M/4 the exponent is negative: unbiased steps "
            "converge to the saddle.",
        ),
        PAPER.own(
            "minimum_batch",
            "Batch size that a saddle asks for",
            Limit(
                _EXPONENT_BOUND / u,
                u,
                Integer(0),
                1 - 1 / (2 * c),
                where={b: c / u},
                example={c: Rational(1, 2), u: Rational(1, 100)},
                subject=lyapunov / u,
            ),
            "The same saddle with batches b = c M/lambda: an upper bound of the exponent over lambda/M, negative for "
            "c < 1/2, that is for b < M/(2 lambda).",
        ),
        PAPER.own(
            "minimum_batch_exact",
            "Batches at which every run converges to the saddle",
            Inequality(
                _RATIO**2 * (Rational(1, 2) - u) / (u - u**2 / 2 + u**3 / 3),
                1 / (2 * u) - 2,
                {u: (1e-8, 0.25)},
                ">=",
                subject=_S.symbol("b_0", "batch size up to which the exponent is proved negative"),
            ),
            "The batch at which the upper bound of the exponent is 0, at least M/(2 lambda) - 2, u = lambda/M.",
        ),
        PAPER.own(
            "exponent_below",
            "Exponent at nine signs",
            Identity(lyapunov, -Rational(52, 10000), _exponent(9, Rational(1, 20)), digits=4),
            "lambda = M/20, batch 9 < M/(2 lambda) = 10: exact.",
        ),
        PAPER.own(
            "exponent_above",
            "Exponent at eleven signs",
            Identity(lyapunov, Rational(63, 10000), _exponent(11, Rational(1, 20)), digits=4),
            "lambda = M/20, batch 11 > M/(2 lambda) = 10: exact.",
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    *_introduction(),
    *_tools(),
    *_descent_and_escape(),
    *_oracles(),
    *_sample_sizes(),
    *_appendix(),
    *_own_results(),
)
