"""The letters of the paper, with their units; and what several modules of this paper use."""

import math

from dpnotes.theory.symbols import COUNT, UNIT_INTERVAL, Domain, PaperSymbols
from dpnotes.theory.units import LENGTH, LOSS

S = PaperSymbols("drift_escape")
FROM_ONE = Domain(1, math.inf, closed=True)
_GRADIENT = LOSS / LENGTH

# ---------------------------------------------------------------- the problem
G = S.symbol("G", "Lipschitz constant of the loss of one example", _GRADIENT)
M = S.symbol("M", "smoothness", LOSS / LENGTH**2)
rho = S.symbol("rho", "Lipschitz constant of the Hessian", LOSS / LENGTH**3)
U = S.symbol("U", "bound of F - F^* everywhere", LOSS)
d = S.symbol("d", "dimension", domain=COUNT)
n = S.symbol("n", "number of examples, of each client where there are several", domain=COUNT)
m = S.symbol("m", "number of clients", domain=COUNT)
epsilon = S.symbol("epsilon", "privacy loss")
delta = S.symbol("delta", "failure probability of privacy", domain=UNIT_INTERVAL)
alpha = S.symbol("alpha", "error: gradient at most alpha, curvature at least -sqrt(rho alpha)", _GRADIENT)

# ---------------------------------------------------------------- Algorithm 1
sigma = S.symbol("sigma", "scale of the noise of the data in a gradient estimate", _GRADIENT)
r = S.symbol("r", "standard deviation of the Gaussian noise, each coordinate", _GRADIENT)
psi = S.symbol("psi", "level of all noise, sqrt(sigma^2 + r^2 d)", _GRADIENT)
chi = S.symbol("chi", "bound of the error of a gradient estimate", _GRADIENT)
eta = S.symbol("eta", "step size", LENGTH**2 / LOSS)
escape_steps = S.symbol("T_esc", "steps of one attempt to escape", latex="\\mathcal{T}")
radius = S.symbol("S", "drift that counts as an escape", LENGTH, latex="\\mathcal{S}")
decrease = S.symbol("F_esc", "decrease of the risk by one escape", LOSS, latex="\\mathcal{F}")
T = S.symbol("T", "number of steps")
N = S.symbol("N", "number of saddles that are escaped", latex="N_{saddle}")
Q = S.symbol("Q", "attempts at each saddle")
omega = S.symbol("omega", "failure probability of Algorithm 1", domain=UNIT_INTERVAL)
omega0 = S.symbol("omega_0", "failure probability at one saddle", domain=UNIT_INTERVAL)
C = S.symbol("C", "an absolute constant")
c = S.symbol("c", "an absolute constant")
s = S.symbol("s", "a large absolute constant", domain=FROM_ONE)
mu = S.symbol("mu", "a logarithmic factor", domain=FROM_ONE)
iota = S.symbol("iota", "s mu", domain=FROM_ONE)
gamma = S.symbol("gamma", "-lambda_min of the Hessian at the saddle", LOSS / LENGTH**2)
ell = S.symbol("ell", "the largest of the logarithms", domain=FROM_ONE)

# ---------------------------------------------------------------- Algorithms 2 to 4
kappa = S.symbol("kappa", "threshold of the drift since the last fresh gradient", LENGTH**2)
b1 = S.symbol("b_1", "batch of a fresh gradient")
b2 = S.symbol("b_2", "batch of a gradient difference")
fresh = S.symbol("R", "number of fresh gradients", latex="|\\mathcal{T}|")
c1 = S.symbol("c_1", "constant of the noise of gradients")
c2 = S.symbol("c_2", "constant of the noise of differences, or of Hessians")
sigma1 = S.symbol("sigma_1", "noise of a gradient in Algorithm 4, each coordinate", _GRADIENT)
sigma2 = S.symbol("sigma_2", "noise of a Hessian in Algorithm 4, each entry", LOSS / LENGTH**2)
omega_s = S.symbol("omega_s", "failure probability of Algorithm 4", domain=UNIT_INTERVAL, latex="\\omega'")
# Where G, M, rho and U are set to 1 the error is a number.
a = S.symbol("a", "alpha, where G = M = rho = U = 1", latex="\\alpha")
p = S.symbol("p", "sqrt(d)/(n epsilon)", domain=UNIT_INTERVAL)
data = S.symbol("D", "sqrt(m) n epsilon", latex="(\\sqrt{m}n\\epsilon)")
