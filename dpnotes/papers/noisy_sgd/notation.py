"""The letters of Avdiukhin et al. (2024): unit, domain and meaning of each."""

import math

from sympy import sqrt

from dpnotes.theory.claims import Paper
from dpnotes.theory.symbols import COUNT, REAL, UNIT_INTERVAL, Domain, PaperSymbols, letters
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
symbol = SYMBOLS.symbol
GRADIENT = LOSS / LENGTH
SMOOTHNESS = LOSS / LENGTH**2
STEP = LENGTH**2 / LOSS
ABOVE_ONE = Domain(1)
FROM_ONE = Domain(1, math.inf, closed=True)

n = symbol("n", "number of examples", domain=COUNT, usual=(2, 1e6), common="num_examples")
d = symbol("d", "dimension", domain=COUNT, usual=(1, 1e6), common="dim")
B = symbol("B", "batch size", domain=COUNT, usual=(1, 1e3), common="batch_size")
T = symbol("T", "number of iterations", domain=COUNT, usual=(10, 1e6))
epsilon = symbol("epsilon", "privacy loss", usual=(0.1, 8), common="epsilon")
delta = symbol("delta", "failure probability of privacy", domain=UNIT_INTERVAL, usual=(1e-8, 0.1), common="delta")
delta_t = symbol(
    "delta_t", "failure probability of one iteration, delta/T", domain=UNIT_INTERVAL, latex="\\tilde{\\delta}"
)
ell = symbol("ell", "a logarithm: of 1/delta, of T/delta, of nT", domain=ABOVE_ONE, latex="\\ell", usual=(1, 30))
L = symbol("L", "smoothness", SMOOTHNESS, usual=(0.1, 10), common="smoothness")
rho = symbol("rho", "Lipschitz constant of the Hessian", LOSS / LENGTH**3, usual=(0.1, 10), common="hessian_lipschitz")
f_max = symbol("f_max", "bound of f(x_0) - f(x*)", LOSS, latex="f_{\\max}", usual=(1e-8, 10), common="initial_gap")
sigma = symbol(
    "sigma", "scale of a sample's gradient around the gradient", GRADIENT, usual=(1e-6, 10), common="gradient_noise"
)
alpha = symbol("alpha", "gradient norm of the stationary point that is looked for", GRADIENT, usual=(0.01, 10))
eta = symbol("eta", "step size", STEP, usual=(1e-6, 1))
C = symbol("C", "bound of the gradients' norms", GRADIENT, usual=(0.1, 10))
Delta = symbol(
    "Delta",
    "standard deviation of the noise of a coordinate of the mean gradient",
    GRADIENT,
    latex="\\Delta",
    usual=(0.01, 10),
)
total = symbol(
    "sigma_t",
    "root of the total noise variance sigma^2/B + d Delta^2",
    GRADIENT,
    latex="\\tilde{\\sigma}",
    usual=(0.1, 10),
)
c = symbol("c", "an absolute constant of the proofs, not given", usual=(0.1, 10))
c_1 = symbol("c_1", "constant of the window of epsilon, not given", usual=(1, 1))
c_2 = symbol("c_2", "constant of the noise, not given", usual=(1, 1))
c_eta = symbol("c_eta", "constant of the step size, not given", latex="c_{\\eta}", usual=(1e-3, 1))
c_I = symbol("c_I", "constant of the number of iterations to escape", latex="c_{\\mathcal{I}}", usual=(1, 10))
c_R = symbol("c_R", "constant of the escaping radius", latex="c_{\\mathcal{R}}")
c_F = symbol("c_F", "constant of the decrease after escaping", latex="c_{\\mathcal{F}}", usual=(0.01, 1))
gamma = symbol("gamma", "minus the smallest eigenvalue of the Hessian", LOSS / LENGTH**2)
escape = symbol("I", "iterations to escape", latex="\\mathcal{I}")
radius = symbol("R", "escaping radius", LENGTH, latex="\\mathcal{R}")
decrease = symbol("F", "decrease of the objective after escaping", LOSS, latex="\\mathcal{F}")
small = symbol("x", "eta gamma", usual=(1e-4, 0.999))
eigenvalue = symbol("lambda", "smallest eigenvalue of H", LOSS / LENGTH**2, domain=REAL)
first_share = symbol("u", "a share", domain=Domain(0, 1, closed=True), usual=(1e-3, 1))
second_share = symbol("v", "a share", domain=Domain(0, 1, closed=True), usual=(1e-3, 1))
third_share = symbol("w", "a share", domain=Domain(0, 1, closed=True))

# Definition B.1.
SCALES = {
    decrease: c_F * sqrt(alpha**3 / rho),
    radius: c_R * sqrt(alpha / rho),
    escape: c_I / (eta * sqrt(rho * alpha)),
    T: 64 * f_max / (eta * alpha**2),
}

__all__ = letters(vars())  # pyright: ignore[reportUnsupportedDunderAll]
