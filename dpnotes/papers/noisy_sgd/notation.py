"""The letters of Avdiukhin et al.: each with its unit, its domain and what it means."""

import math

from sympy import sqrt

from dpnotes.theory.claims import Paper
from dpnotes.theory.symbols import COUNT, REAL, UNIT_INTERVAL, Domain, PaperSymbols
from dpnotes.theory.units import LENGTH, LOSS

PAPER = Paper(
    key="noisy_sgd",
    title="Noise is All You Need: Private Second-Order Convergence of Noisy SGD",
    authors=("Dmitrii Avdiukhin", "Michael Dinitz", "Chenglin Fan", "Grigory Yaroslavtsev"),
    venue="arXiv",
    year=2024,
    doi="10.48550/arXiv.2410.06878",
    arxiv="2410.06878",
    version="arXiv:2410.06878, its HTML text (October 2024)",
    bibtex="""@misc{avdiukhin2024noise,
  title         = {Noise is All You Need: Private Second-Order Convergence of Noisy SGD},
  author        = {Avdiukhin, Dmitrii and Dinitz, Michael and Fan, Chenglin and Yaroslavtsev, Grigory},
  year          = {2024},
  eprint        = {2410.06878},
  archivePrefix = {arXiv},
  doi           = {10.48550/arXiv.2410.06878}
}""",
)

SYMBOLS = PaperSymbols(PAPER.key)
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
gamma = SYMBOLS.symbol("gamma", "minus the smallest eigenvalue of the Hessian", LOSS / LENGTH**2)
escape = SYMBOLS.symbol("I", "iterations to escape", latex="\\mathcal{I}")
radius = SYMBOLS.symbol("R", "escaping radius", LENGTH, latex="\\mathcal{R}")
decrease = SYMBOLS.symbol("F", "decrease of the objective after escaping", LOSS, latex="\\mathcal{F}")
small = SYMBOLS.symbol("x", "eta gamma")
eigenvalue = SYMBOLS.symbol("lambda", "smallest eigenvalue of H", LOSS / LENGTH**2, domain=REAL)
first_share, second_share, third_share = (
    SYMBOLS.symbol(name, "a share", domain=Domain(0, 1, closed=True)) for name in ("u", "v", "w")
)

# Definition B.1.
SCALES = {
    decrease: c_F * sqrt(alpha**3 / rho),
    radius: c_R * sqrt(alpha / rho),
    escape: c_I / (eta * sqrt(rho * alpha)),
    T: 64 * f_max / (eta * alpha**2),
}
