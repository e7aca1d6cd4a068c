"""The letters of Liu and Talwar (2024): unit, domain and meaning of each.

The paper's norm of the noisy gradient is `g` here. Norms of gradients, including the drift threshold kappa, are
measured in [F/x].
"""

import math

from sympy import Rational, sqrt

from dpnotes.theory.claims import Paper
from dpnotes.theory.symbols import COUNT, UNIT_INTERVAL, Domain, PaperSymbols, letters
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

SYMBOLS = PaperSymbols(PAPER.key)
FROM_ONE = Domain(1, math.inf, closed=True)
GRADIENT = LOSS / LENGTH

n = SYMBOLS.symbol("n", "number of examples, each used at most once", domain=COUNT, common="num_examples")
d = SYMBOLS.symbol("d", "dimension", domain=COUNT, usual=(1, 1e6), common="dim")
epsilon = SYMBOLS.symbol("epsilon", "privacy loss", usual=(0.01, 10), common="epsilon")
delta = SYMBOLS.symbol(
    "delta", "failure probability of privacy", domain=UNIT_INTERVAL, usual=(1e-12, 0.01), common="delta"
)
iota = SYMBOLS.symbol("iota", "failure probability of the error bounds", domain=UNIT_INTERVAL)
omega = SYMBOLS.symbol("omega", "failure probability in Algorithm 2", domain=UNIT_INTERVAL)
G = SYMBOLS.symbol("G", "Lipschitz constant of the loss of one example", GRADIENT, usual=(0.1, 10), common="lipschitz")
M = SYMBOLS.symbol("M", "smoothness of the loss of one example", LOSS / LENGTH**2, usual=(0.1, 10), common="smoothness")
rho = SYMBOLS.symbol("rho", "Lipschitz constant of the Hessian", LOSS / LENGTH**3, common="hessian_lipschitz")
B = SYMBOLS.symbol("B", "bound of F(x_0) - inf F", LOSS, common="initial_gap")
alpha = SYMBOLS.symbol("alpha", "accuracy of the stationary point", GRADIENT, usual=(1e-3, 1))
gamma = SYMBOLS.symbol("gamma", "bound of the error of the noisy gradients, O~(alpha)", GRADIENT, usual=(1e-3, 1e3))
kappa = SYMBOLS.symbol("kappa", "drift at which O1 is asked again", GRADIENT, usual=(1e-3, 100))
eta = SYMBOLS.symbol("eta", "step size", LENGTH**2 / LOSS, usual=(0.1, 10))
T = SYMBOLS.symbol("T", "number of steps", domain=COUNT)
Gamma = SYMBOLS.symbol("Gamma", "length of the escape window")
zeta = SYMBOLS.symbol("zeta", "scale of the perturbation at a saddle", GRADIENT)
b = SYMBOLS.symbol("b", "batch size of O1", domain=FROM_ONE, usual=(1, 1e4))
bt = SYMBOLS.symbol("b_t", "batch size of O2", domain=FROM_ONE, usual=(1, 1e4))
sigma = SYMBOLS.symbol("sigma", "standard deviation of a node's noise, a coordinate", GRADIENT)
by_zcdp = SYMBOLS.symbol(
    "sigma_zCDP", "noise that is enough for (epsilon, delta) by zCDP", GRADIENT, latex="\\sigma_{zCDP}"
)
needed = SYMBOLS.symbol(
    "sigma_needed", "the least noise that gives (epsilon, delta)", GRADIENT, latex="\\sigma_{needed}"
)
s = SYMBOLS.symbol("s", "sensitivity of a leaf", GRADIENT, usual=(0.01, 100))
Sigma = SYMBOLS.symbol("Sigma", "number of leaves of the tree", domain=COUNT)
mu = SYMBOLS.symbol("mu", "parameter of Gaussian DP that (epsilon, delta) allows")
g = SYMBOLS.symbol(
    "g", "norm of the noisy gradient of a step", GRADIENT, latex="\\|\\widetilde{\\nabla}_t\\|", usual=(0.01, 10)
)
norms = SYMBOLS.sequence("g", "norm of the noisy gradient of step t", GRADIENT)
error = SYMBOLS.symbol("e", "norm of the error of the noisy gradient", GRADIENT)
path = SYMBOLS.symbol("path", "sum of the norms of the noisy gradients", GRADIENT)
slope = SYMBOLS.symbol("beta", "batch size of O2 over the norm of the noisy gradient", LENGTH / LOSS)
distance = SYMBOLS.symbol("r", "distance of two points", LENGTH, usual=(0.1, 10))
R = SYMBOLS.symbol("R", "diameter of the domain", LENGTH)
ell = SYMBOLS.symbol("ell", "a logarithm", domain=FROM_ONE)
num_nodes = SYMBOLS.symbol("m", "number of nodes in the sum TREE(t), at most log2(Sigma + 1)", domain=FROM_ONE)
num_steps = SYMBOLS.symbol("k", "number of steps since O1 was asked", domain=COUNT)
t = SYMBOLS.symbol("t", "step", domain=COUNT)
level = SYMBOLS.symbol("l", "level of the tree", domain=COUNT)
lam = SYMBOLS.symbol("lambda", "negative curvature of the saddle", LOSS / LENGTH**2)
u = SYMBOLS.symbol("u", "lambda/M", domain=UNIT_INTERVAL)
share = SYMBOLS.symbol("q", "a share", domain=Domain(0, 1, closed=True), usual=(1e-3, 1))
other_share = SYMBOLS.symbol("v", "a share", domain=Domain(0, 1, closed=True), usual=(0.01, 1))
stretch = SYMBOLS.symbol("w", "a factor", domain=FROM_ONE, usual=(1, 1e3))
c = SYMBOLS.symbol("c", "batch size times lambda/M")
y = SYMBOLS.symbol("y", "the argument of the logarithm", usual=(0.01, 1e6))
squared_drift = SYMBOLS.symbol("K", "threshold of the drift as a sum of squares", GRADIENT**2)
examples = SYMBOLS.symbol("n", "number of examples, as a real number")
deviation = SYMBOLS.symbol("Delta", "deviation of the population from the data")
decrease = SYMBOLS.symbol("D", "decrease of F in an escape window, the least that is possible", LOSS)

third = Rational(1, 3)
noise = sqrt(d) / epsilon  # sigma sqrt(d) per unit of sensitivity
p = sqrt(d) / (n * epsilon)

__all__ = letters(vars())  # pyright: ignore[reportUnsupportedDunderAll]
