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
symbol = SYMBOLS.symbol
FROM_ONE = Domain(1, math.inf, closed=True)
GRADIENT = LOSS / LENGTH

n = symbol("n", "number of examples, each used at most once", domain=COUNT, common="num_examples")
d = symbol("d", "dimension", domain=COUNT, usual=(1, 1e6), common="dim")
epsilon = symbol("epsilon", "privacy loss", usual=(0.01, 10), common="epsilon")
delta = symbol("delta", "failure probability of privacy", domain=UNIT_INTERVAL, usual=(1e-12, 0.01), common="delta")
iota = symbol("iota", "failure probability of the error bounds", domain=UNIT_INTERVAL, common="failure")
omega = symbol("omega", "failure probability in Algorithm 2", domain=UNIT_INTERVAL)
G = symbol("G", "Lipschitz constant of the loss of one example", GRADIENT, usual=(0.1, 10), common="lipschitz")
M = symbol("M", "smoothness of the loss of one example", LOSS / LENGTH**2, usual=(0.1, 10), common="smoothness")
rho = symbol("rho", "Lipschitz constant of the Hessian", LOSS / LENGTH**3, common="hessian_lipschitz")
B = symbol("B", "bound of F(x_0) - inf F", LOSS, common="initial_gap")
alpha = symbol("alpha", "accuracy of the stationary point", GRADIENT, usual=(1e-3, 1))
gamma = symbol("gamma", "bound of the error of the noisy gradients, O~(alpha)", GRADIENT, usual=(1e-3, 1e3))
kappa = symbol("kappa", "drift at which O1 is asked again", GRADIENT, usual=(1e-3, 100))
eta = symbol("eta", "step size", LENGTH**2 / LOSS, usual=(0.1, 10))
T = symbol("T", "number of steps", domain=COUNT)
Gamma = symbol("Gamma", "length of the escape window")
zeta = symbol("zeta", "scale of the perturbation at a saddle", GRADIENT)
b = symbol("b", "batch size of O1", domain=FROM_ONE, usual=(1, 1e4))
bt = symbol("b_t", "batch size of O2", domain=FROM_ONE, usual=(1, 1e4))
sigma = symbol("sigma", "standard deviation of a node's noise, a coordinate", GRADIENT)
by_zcdp = symbol("sigma_zCDP", "noise that is enough for (epsilon, delta) by zCDP", GRADIENT, latex="\\sigma_{zCDP}")
needed = symbol("sigma_needed", "the least noise that gives (epsilon, delta)", GRADIENT, latex="\\sigma_{needed}")
s = symbol("s", "sensitivity of a leaf", GRADIENT, usual=(0.01, 100))
Sigma = symbol("Sigma", "number of leaves of the tree", domain=COUNT)
mu = symbol("mu", "parameter of Gaussian DP that (epsilon, delta) allows")
g = symbol(
    "g", "norm of the noisy gradient of a step", GRADIENT, latex="\\|\\widetilde{\\nabla}_t\\|", usual=(0.01, 10)
)
norms = SYMBOLS.sequence("g", "norm of the noisy gradient of step t", GRADIENT)
error = symbol("e", "norm of the error of the noisy gradient", GRADIENT)
path = symbol("path", "sum of the norms of the noisy gradients", GRADIENT)
slope = symbol("beta", "batch size of O2 over the norm of the noisy gradient", LENGTH / LOSS)
distance = symbol("r", "distance of two points", LENGTH, usual=(0.1, 10))
R = symbol("R", "diameter of the domain", LENGTH)
ell = symbol("ell", "a logarithm", domain=FROM_ONE)
num_nodes = symbol("m", "number of nodes in the sum TREE(t), at most log2(Sigma + 1)", domain=FROM_ONE)
num_steps = symbol("k", "number of steps since O1 was asked", domain=COUNT)
t = symbol("t", "step", domain=COUNT)
level = symbol("l", "level of the tree", domain=COUNT)
lam = symbol("lambda", "negative curvature of the saddle", LOSS / LENGTH**2)
u = symbol("u", "lambda/M", domain=UNIT_INTERVAL)
share = symbol("q", "a share", domain=Domain(0, 1, closed=True), usual=(1e-3, 1))
other_share = symbol("v", "a share", domain=Domain(0, 1, closed=True), usual=(0.01, 1))
stretch = symbol("w", "a factor", domain=FROM_ONE, usual=(1, 1e3))
c = symbol("c", "batch size times lambda/M")
y = symbol("y", "the argument of the logarithm", usual=(0.01, 1e6))
squared_drift = symbol("K", "threshold of the drift as a sum of squares", GRADIENT**2)
examples = symbol("n", "number of examples, as a real number")
deviation = symbol("Delta", "deviation of the population from the data")
decrease = symbol("D", "decrease of F in an escape window, the least that is possible", LOSS)

third = Rational(1, 3)
noise = sqrt(d) / epsilon  # sigma sqrt(d) per unit of sensitivity
p = sqrt(d) / (n * epsilon)

__all__ = letters(vars())  # pyright: ignore[reportUnsupportedDunderAll]
