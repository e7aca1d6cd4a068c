"""The notation of Kornowski, Liu and Talwar (2025), and how their claims are made."""

import math

from sympy import Rational, sqrt

from dpnotes.theory.claims import Paper
from dpnotes.theory.symbols import COUNT, REAL, UNIT_INTERVAL, Domain, PaperSymbols
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

_S = PaperSymbols("goldstein")
_FROM_ONE = Domain(1, math.inf, closed=True)
_FRACTION = Domain(0, 1, closed=True)
_GRADIENT = LOSS / LENGTH

# What a user has: the problem, the target, the budget.
d = _S.symbol("d", "dimension", domain=COUNT)
n = _S.symbol("n", "number of samples", domain=_FROM_ONE)
alpha = _S.symbol("alpha", "Goldstein radius", LENGTH)
beta = _S.symbol("beta", "bound on the norm of the least Goldstein subgradient", _GRADIENT)
epsilon = _S.symbol("epsilon", "privacy loss")
delta = _S.symbol("delta", "failure probability of privacy", domain=UNIT_INTERVAL)
Phi = _S.symbol("Phi", "initial gap F(x_0) - inf F, or a bound on it", LOSS)
L = _S.symbol("L", "Lipschitz constant of the loss of every sample", _GRADIENT)
R = _S.symbol("R", "distance to a minimiser, or diameter of the outputs", LENGTH)
zeta = _S.symbol("zeta", "failure probability of generalisation", domain=UNIT_INTERVAL)

# What an algorithm chooses.
D = _S.symbol("D", "largest move per step", LENGTH)
T = _S.symbol("T", "number of steps", domain=_FROM_ONE)
M = _S.symbol("M", "steps in a block", domain=_FROM_ONE)
eta = _S.symbol("eta", "step size of the online learner", LENGTH / _GRADIENT)
levels = _S.symbol("k", "log2 Sigma", domain=COUNT)
level = _S.symbol("i", "a level of the tree", domain=COUNT)
index = _S.symbol("t", "index of a query", domain=COUNT)
position = _S.symbol("index", "index at which the tree is asked", domain=COUNT, latex="\\text{index}")
reached = _S.symbol(
    "last query in NODE(t)",
    "last query that the nodes of NODE(t) hold",
    domain=COUNT,
    latex="\\text{last query in } \\mathrm{NODE}(t)",
)
period = _S.symbol("Sigma", "steps between two resets", domain=_FROM_ONE, latex="\\Sigma")
B1 = _S.symbol("B1", "minibatch at a reset", domain=_FROM_ONE, latex="B_1")
B2 = _S.symbol("B2", "minibatch at an increment", domain=_FROM_ONE, latex="B_2")
B = _S.symbol("B", "minibatch", domain=_FROM_ONE)
m = _S.symbol("m", "directions per sample and point", domain=_FROM_ONE)
sigma = _S.symbol("sigma", "standard deviation of the noise per coordinate", _GRADIENT)
sigma1 = _S.symbol("sigma1", "noise at a reset", _GRADIENT, latex="\\sigma_1")
sigma2 = _S.symbol("sigma2", "noise at an increment", _GRADIENT, latex="\\sigma_2")
whole_period = _S.symbol("Sigma", "steps between two resets", domain=COUNT, latex="\\Sigma")
lam = _S.symbol("lambda", "parameter of the Moreau envelope", LENGTH / _GRADIENT)
inner = _S.symbol("lambda'", "parameter of the inner envelope", LENGTH / _GRADIENT)
nodes = _S.symbol("q", "levels of the tree: 1 + log2 Sigma", domain=COUNT)
radius = _S.symbol("r", "radius of a net", LENGTH)
calls = _S.symbol("N", "number of oracle calls")

# What is bounded.
G0 = _S.symbol("G0", "root mean square error of the oracle", _GRADIENT, latex="G_0")
G1 = _S.symbol("G1", "root mean square of the oracle", _GRADIENT, latex="G_1")
spread = _S.symbol("s", "root mean square noise of a conditionally unbiased oracle", _GRADIENT)
sensitivity = _S.symbol("S", "sensitivity of one query", _GRADIENT)
norm = _S.symbol("E", "expected norm of the least Goldstein subgradient at the output", _GRADIENT)
proved = _S.symbol(
    "bound by the proof", "what the steps of the proof give for E", _GRADIENT, latex="\\text{bound by the proof}"
)
regret = _S.symbol("regret", "regret of a block", LOSS)
mean = _S.symbol("mean", "mean of an estimator, relative to the true derivative")
variance = _S.symbol("V", "mean squared error of the oracle", _GRADIENT**2)
second = _S.symbol("W", "second moment of the oracle", _GRADIENT**2)
ratio = _S.symbol("rho", "a ratio")
probability = _S.symbol("P", "a probability")
one_fails = _S.symbol("p", "probability that one estimate is far from its mean")
loss_error = _S.symbol("e", "error of smoothing", LOSS)
smoothness = _S.symbol("H", "smoothness", _GRADIENT / LENGTH)
start = _S.symbol("Delta", "excess loss of a starting point", LOSS)
value_inside = _S.symbol("V", "what is maximised over z and minimised over y", LOSS)
gap_smooth = _S.symbol("gap_alpha", "the same of the smoothed objectives", _GRADIENT)
gap = _S.symbol("gap", "difference of two Goldstein norms", _GRADIENT)

# Logarithms that a tilde hides, and plain numbers.
ell = _S.symbol("ell", "ln(1/delta)", domain=_FROM_ONE, latex="\\ell_\\delta")
ell_sum = _S.symbol("ell_Sigma", "ln Sigma", domain=_FROM_ONE, latex="\\ell_\\Sigma")
ell_union = _S.symbol("ell_u", "logarithm of dimension and number of estimates over delta", domain=_FROM_ONE)
ell_net = _S.symbol("ell_R", "logarithm of the diameter over the net's radius and zeta", domain=_FROM_ONE)
u = _S.symbol("u", "a fraction", domain=_FRACTION)
v = _S.symbol("v", "a fraction", domain=_FRACTION)
c = _S.symbol("c", "a constant", domain=Domain(1))
x = _S.symbol("x", "a coordinate", LENGTH, REAL)
y = _S.symbol("y", "a coordinate", LENGTH, REAL)
z = _S.symbol("z", "a coordinate", LENGTH, REAL)
hy = _S.symbol("h_y", "h(y)", LOSS, REAL)
hz = _S.symbol("h_z", "h(z)", LOSS, REAL)
first_moment = _S.symbol("m1", "mean of one coordinate of a direction", domain=REAL)
second_moment = _S.symbol("m2", "mean square of one coordinate of a direction")

half, third = Rational(1, 2), Rational(1, 3)
root = sqrt(d)
