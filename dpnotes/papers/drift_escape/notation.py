"""The letters of the paper with their units, and definitions that several modules of this paper share."""

import math

from dpnotes.theory.claims import Paper
from dpnotes.theory.symbols import COUNT, UNIT_INTERVAL, Domain, PaperSymbols, letters
from dpnotes.theory.units import LENGTH, LOSS

PAPER = Paper(
    key="drift_escape",
    title="Private Stochastic Optimization for Achieving Second-Order Stationary Points",
    authors=("Anonymous authors",),
    venue="submission to ICLR, under double-blind review",
    year=2024,
    doi="",
    arxiv="",  # empty: the arXiv version is later, with another title
    version="anonymous submission to ICLR (a later version, with another title: Tao et al., arXiv:2505.15647)",
    bibtex="""@unpublished{anonymous2024private,
  title  = {Private Stochastic Optimization for Achieving Second-Order Stationary Points},
  author = {Anonymous authors},
  year   = {2024},
  note   = {Submission to ICLR, under double-blind review; a later version is Tao et al., arXiv:2505.15647,
            Second-Order Convergence in Private Stochastic Non-Convex Optimization}
}""",
)

SYMBOLS = PaperSymbols(PAPER.key)
symbol = SYMBOLS.symbol
FROM_ONE = Domain(1, math.inf, closed=True)
GRADIENT = LOSS / LENGTH

# ---------------------------------------------------------------- the problem
G = symbol("G", "Lipschitz constant of the loss of one example", GRADIENT, usual=(0.1, 10), common="lipschitz")
M = symbol("M", "smoothness", LOSS / LENGTH**2, usual=(0.1, 10), common="smoothness")
rho = symbol("rho", "Lipschitz constant of the Hessian", LOSS / LENGTH**3, usual=(0.1, 10), common="hessian_lipschitz")
U = symbol("U", "bound of F - F^* everywhere", LOSS, common="initial_gap")
d = symbol("d", "dimension", domain=COUNT, usual=(1, 1e4), common="dim")
n = symbol(
    "n",
    "number of examples, of each client where there are several",
    domain=COUNT,
    usual=(10, 1e6),
    common="num_examples",
)
m = symbol("m", "number of clients", domain=COUNT, usual=(1, 100), common="clients")
epsilon = symbol("epsilon", "privacy loss", usual=(0.1, 10), common="epsilon")
delta = symbol("delta", "failure probability of privacy", domain=UNIT_INTERVAL, usual=(1e-9, 0.1), common="delta")
alpha = symbol("alpha", "error: gradient at most alpha, curvature at least -sqrt(rho alpha)", GRADIENT, usual=(1e-3, 1))

# ---------------------------------------------------------------- Algorithm 1
sigma = symbol("sigma", "scale of the noise of the data in a gradient estimate", GRADIENT)
r = symbol("r", "standard deviation of the Gaussian noise, each coordinate", GRADIENT)
psi = symbol("psi", "level of all noise, sqrt(sigma^2 + r^2 d)", GRADIENT, usual=(1e-3, 1e3))
chi = symbol("chi", "bound of the error of a gradient estimate", GRADIENT)
eta = symbol("eta", "step size", LENGTH**2 / LOSS, usual=(1e-3, 1e3))
escape_steps = symbol("T_esc", "steps of one attempt to escape", latex="\\mathcal{T}")
radius = symbol("S", "drift that counts as an escape", LENGTH, latex="\\mathcal{S}")
decrease = symbol("F_esc", "decrease of the risk by one escape", LOSS, latex="\\mathcal{F}")
T = symbol("T", "number of steps", usual=(1, 1e6))
N = symbol("N", "number of saddles that are escaped", latex="N_{saddle}")
Q = symbol("Q", "attempts at each saddle")
omega = symbol("omega", "failure probability of Algorithm 1", domain=UNIT_INTERVAL, common="failure")
omega0 = symbol("omega_0", "failure probability at one saddle", domain=UNIT_INTERVAL, usual=(1e-12, 0.99))
C = symbol("C", "an absolute constant")
c = symbol("c", "an absolute constant", usual=(1, 10))
s = symbol("s", "a large absolute constant", domain=FROM_ONE, usual=(1, 100))
mu = symbol("mu", "a logarithmic factor", domain=FROM_ONE, usual=(1, 100))
iota = symbol("iota", "s mu", domain=FROM_ONE, usual=(1, 100))
gamma = symbol("gamma", "-lambda_min of the Hessian at the saddle", LOSS / LENGTH**2)
ell = symbol("ell", "the largest of the logarithms", domain=FROM_ONE)

# ---------------------------------------------------------------- Algorithms 2 to 4
kappa = symbol("kappa", "threshold of the drift since the last fresh gradient", LENGTH**2)
b1 = symbol("b_1", "batch of a fresh gradient")
b2 = symbol("b_2", "batch of a gradient difference")
fresh = symbol("R", "number of fresh gradients", latex="|\\mathcal{T}|")
c1 = symbol("c_1", "constant of the noise of gradients", usual=(8, 20))
c2 = symbol("c_2", "constant of the noise of differences, or of Hessians", usual=(8, 20))
sigma1 = symbol("sigma_1", "noise of a gradient in Algorithm 4, each coordinate", GRADIENT)
sigma2 = symbol("sigma_2", "noise of a Hessian in Algorithm 4, each entry", LOSS / LENGTH**2)
omega_s = symbol(
    "omega_s", "failure probability of Algorithm 4", domain=UNIT_INTERVAL, latex="\\omega'", usual=(1e-4, 0.5)
)
# With G, M, rho and U set to 1, the error has no unit.
a = symbol("alpha", "alpha, where G = M = rho = U = 1")
p = symbol("p", "sqrt(d)/(n epsilon)", domain=UNIT_INTERVAL, usual=(1e-9, 1))
data = symbol("D", "sqrt(m) n epsilon", latex="(\\sqrt{m}n\\epsilon)")

__all__ = [*letters(vars()), "symbol"]  # pyright: ignore[reportUnsupportedDunderAll]
