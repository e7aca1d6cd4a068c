"""The notation of Kornowski, Liu and Talwar (2025), and the helper that makes their claims."""

import math

from sympy import Rational, sqrt

from dpnotes.theory.claims import Paper
from dpnotes.theory.symbols import COUNT, REAL, UNIT_INTERVAL, Domain, PaperSymbols, letters
from dpnotes.theory.units import LENGTH, LOSS

PAPER = Paper(
    key="goldstein",
    title="Improved Sample Complexity for Private Nonsmooth Nonconvex Optimization",
    authors=("Guy Kornowski", "Daogao Liu", "Kunal Talwar"),
    venue="International Conference on Machine Learning (ICML), PMLR 267, 31541-31559",
    year=2025,
    doi="10.48550/arXiv.2410.05880",
    arxiv="2410.05880",
    version="arXiv:2410.05880, a version after the first (it thanks reviewers for an error in a previous one)",
    bibtex="""@inproceedings{kornowski2025improved,
  title     = {Improved Sample Complexity for Private Nonsmooth Nonconvex Optimization},
  author    = {Kornowski, Guy and Liu, Daogao and Talwar, Kunal},
  booktitle = {Proceedings of the 42nd International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {267},
  pages     = {31541--31559},
  year      = {2025},
  doi       = {10.48550/arXiv.2410.05880}
}""",
)

SYMBOLS = PaperSymbols("goldstein")
symbol = SYMBOLS.symbol
_FROM_ONE = Domain(1, math.inf, closed=True)
_FRACTION = Domain(0, 1, closed=True)
_GRADIENT = LOSS / LENGTH

# Given by the user: the problem, the target, the budget.
d = symbol("d", "dimension", domain=COUNT, usual=(1, 1e3), common="dim")
n = symbol("n", "number of samples", domain=_FROM_ONE, common="num_examples")
alpha = symbol("alpha", "Goldstein radius", LENGTH, common="radius")
beta = symbol("beta", "bound on the norm of the least Goldstein subgradient", _GRADIENT)
epsilon = symbol("epsilon", "privacy loss", usual=(1, 1e6), common="epsilon")
delta = symbol("delta", "failure probability of privacy", domain=UNIT_INTERVAL, usual=(1e-12, 0.25), common="delta")
Phi = symbol("Phi", "initial gap F(x_0) - inf F, or a bound on it", LOSS, usual=(0.1, 10), common="initial_gap")
L = symbol("L", "Lipschitz constant of the loss of every sample", _GRADIENT, usual=(0.1, 10), common="lipschitz")
R = symbol("R", "distance to a minimiser, or diameter of the outputs", LENGTH, common="distance")
R_smoothed = symbol("R~", "distance to a minimiser of the smoothed objective", LENGTH, latex="\\tilde R")
zeta = symbol("zeta", "failure probability of generalisation", domain=UNIT_INTERVAL)

# Chosen by an algorithm.
D = symbol("D", "largest move per step", LENGTH, usual=(0.1, 10))
T = symbol("T", "number of steps", domain=_FROM_ONE)
M = symbol("M", "steps in a block", domain=_FROM_ONE)
eta = symbol("eta", "step size of the online learner", LENGTH / _GRADIENT)
levels = symbol("k", "log2 Sigma", domain=COUNT)
level = symbol("i", "a level of the tree", domain=COUNT)
index = symbol("t", "index of a query", domain=COUNT)
position = symbol("index", "index at which the tree is asked", domain=COUNT, latex="\\text{index}")
reached = symbol(
    "last query in NODE(t)",
    "last query that the nodes of NODE(t) hold",
    domain=COUNT,
    latex="\\text{last query in } \\mathrm{NODE}(t)",
)
period = symbol("Sigma", "steps between two resets", domain=_FROM_ONE, latex="\\Sigma")
B1 = symbol("B1", "minibatch at a reset", domain=_FROM_ONE, latex="B_1", usual=(1, 1e3))
B2 = symbol("B2", "minibatch at an increment", domain=_FROM_ONE, latex="B_2")
B = symbol("B", "minibatch", domain=_FROM_ONE, usual=(1, 1e3))
m = symbol("m", "directions per sample and point", domain=_FROM_ONE)
sigma = symbol("sigma", "standard deviation of the noise per coordinate", _GRADIENT)
sigma1 = symbol("sigma1", "noise at a reset", _GRADIENT, latex="\\sigma_1")
sigma2 = symbol("sigma2", "noise at an increment", _GRADIENT, latex="\\sigma_2")
whole_period = symbol("Sigma", "steps between two resets", domain=COUNT, latex="\\Sigma")
lam = symbol("lambda", "parameter of the Moreau envelope", LENGTH / _GRADIENT, usual=(0.01, 10))
inner = symbol("lambda'", "parameter of the inner envelope", LENGTH / _GRADIENT)
nodes = symbol("q", "levels of the tree: 1 + log2 Sigma", domain=COUNT, usual=(1, 13))
radius = symbol("r", "radius of a net", LENGTH)
calls = symbol("N", "number of oracle calls")

# Bounded quantities.
G0 = symbol("G0", "root mean square error of the oracle", _GRADIENT, latex="G_0")
G1 = symbol("G1", "root mean square of the oracle", _GRADIENT, latex="G_1")
spread = symbol("s", "root mean square noise of a conditionally unbiased oracle", _GRADIENT, usual=(0.1, 10))
sensitivity = symbol("S", "sensitivity of one query", _GRADIENT, usual=(1e-3, 1e3))
norm = symbol("E", "expected norm of the least Goldstein subgradient at the output", _GRADIENT)
proved = symbol(
    "bound by the proof", "what the steps of the proof give for E", _GRADIENT, latex="\\text{bound by the proof}"
)
regret = symbol("regret", "regret of a block", LOSS)
mean = symbol("mean", "mean of an estimator, relative to the true derivative")
variance = symbol("V", "mean squared error of the oracle", _GRADIENT**2)
second = symbol("W", "second moment of the oracle", _GRADIENT**2)
ratio = symbol("rho", "a ratio")
probability = symbol("P", "a probability")
one_fails = symbol("p", "probability that one estimate is far from its mean")
loss_error = symbol("e", "error of smoothing", LOSS)
smoothness = symbol("H", "smoothness", _GRADIENT / LENGTH)
start = symbol("Delta", "excess loss of a starting point", LOSS)
value_inside = symbol("V", "what is maximised over z and minimised over y", LOSS)
gap_smooth = symbol("gap_alpha", "the same of the smoothed objectives", _GRADIENT)
gap = symbol("gap", "difference of two Goldstein norms", _GRADIENT)

# Logarithms that a tilde hides, and plain numbers.
ell = symbol("ell", "ln(1/delta)", domain=_FROM_ONE, latex="\\ell_\\delta")
ell_sum = symbol("ell_Sigma", "ln Sigma", domain=_FROM_ONE, latex="\\ell_\\Sigma")
ell_union = symbol("ell_u", "logarithm of dimension and number of estimates over delta", domain=_FROM_ONE)
ell_net = symbol("ell_R", "logarithm of the diameter over the net's radius and zeta", domain=_FROM_ONE)
u = symbol("u", "a fraction", domain=_FRACTION, usual=(1e-3, 1))
v = symbol("v", "a fraction", domain=_FRACTION, usual=(1e-3, 1))
c = symbol("c", "a constant", domain=Domain(1))
x = symbol("x", "a coordinate", LENGTH, REAL)
y = symbol("y", "a coordinate", LENGTH, REAL)
z = symbol("z", "a coordinate", LENGTH, REAL, usual=(0.01, 10))
hy = symbol("h_y", "h(y)", LOSS, REAL)
hz = symbol("h_z", "h(z)", LOSS, REAL)
first_moment = symbol("m1", "mean of one coordinate of a direction", domain=REAL)
second_moment = symbol("m2", "mean square of one coordinate of a direction")

half, third = Rational(1, 2), Rational(1, 3)
root = sqrt(d)

__all__ = letters(vars())  # pyright: ignore[reportUnsupportedDunderAll]
