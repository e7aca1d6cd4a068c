"""The letters of Avdiukhin et al.: each with its unit, its domain and what it means."""

import math

from dpnotes.theory.symbols import COUNT, UNIT_INTERVAL, Domain, PaperSymbols
from dpnotes.theory.units import LENGTH, LOSS

SYMBOLS = PaperSymbols("noisy_sgd")
GRADIENT = LOSS / LENGTH
SMOOTHNESS = LOSS / LENGTH**2
STEP = LENGTH**2 / LOSS
ABOVE_ONE = Domain(1)
FROM_ONE = Domain(1, math.inf, closed=True)

n = SYMBOLS.symbol("n", "number of examples", domain=COUNT)
d = SYMBOLS.symbol("d", "dimension", domain=COUNT)
B = SYMBOLS.symbol("B", "batch size", domain=COUNT)
T = SYMBOLS.symbol("T", "number of iterations", domain=COUNT)
epsilon = SYMBOLS.symbol("epsilon", "privacy loss")
delta = SYMBOLS.symbol("delta", "failure probability of privacy", domain=UNIT_INTERVAL)
delta_t = SYMBOLS.symbol(
    "delta_t", "failure probability of one iteration, delta/T", domain=UNIT_INTERVAL, latex="\\tilde{\\delta}"
)
ell = SYMBOLS.symbol("ell", "a logarithm: of 1/delta, of T/delta, of nT", domain=ABOVE_ONE, latex="\\ell")
L = SYMBOLS.symbol("L", "smoothness", SMOOTHNESS)
rho = SYMBOLS.symbol("rho", "Lipschitz constant of the Hessian", LOSS / LENGTH**3)
f_max = SYMBOLS.symbol("f_max", "bound of f(x_0) - f(x*)", LOSS, latex="f_{\\max}")
sigma = SYMBOLS.symbol("sigma", "scale of a sample's gradient around the gradient", GRADIENT)
alpha = SYMBOLS.symbol("alpha", "gradient norm of the stationary point that is looked for", GRADIENT)
eta = SYMBOLS.symbol("eta", "step size", STEP)
C = SYMBOLS.symbol("C", "bound of the gradients' norms", GRADIENT)
Delta = SYMBOLS.symbol(
    "Delta", "standard deviation of the noise of a coordinate of the mean gradient", GRADIENT, latex="\\Delta"
)
total = SYMBOLS.symbol(
    "sigma_t", "root of the total noise variance sigma^2/B + d Delta^2", GRADIENT, latex="\\tilde{\\sigma}"
)
c = SYMBOLS.symbol("c", "an absolute constant of the proofs, not given")
c_1 = SYMBOLS.symbol("c_1", "constant of the window of epsilon, not given")
c_2 = SYMBOLS.symbol("c_2", "constant of the noise, not given")
c_eta = SYMBOLS.symbol("c_eta", "constant of the step size, not given", latex="c_{\\eta}")
c_I = SYMBOLS.symbol("c_I", "constant of the number of iterations to escape", latex="c_{\\mathcal{I}}")
c_R = SYMBOLS.symbol("c_R", "constant of the escaping radius", latex="c_{\\mathcal{R}}")
c_F = SYMBOLS.symbol("c_F", "constant of the decrease after escaping", latex="c_{\\mathcal{F}}")
