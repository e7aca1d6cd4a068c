"""The letters of Hong, Wang and Zhou (2022): unit, domain and meaning of each."""

import math

from sympy import log

from dpnotes.theory.claims import Paper
from dpnotes.theory.symbols import COUNT, UNIT_INTERVAL, Domain, PaperSymbols, letters
from dpnotes.theory.units import LENGTH, LOSS

PAPER = Paper(
    key="budget_schedules",
    title="Dynamic Privacy Budget Allocation Improves Data Efficiency of Differentially Private Gradient Descent",
    authors=("Junyuan Hong", "Zhangyang Wang", "Jiayu Zhou"),
    venue="ACM Conference on Fairness, Accountability, and Transparency (FAccT)",
    year=2022,
    doi="10.1145/3531146.3533070",
    arxiv="2101.07413",
    version="arXiv:2101.07413, the text with the abstract of v3 and the FAccT 2022 front matter",
    bibtex="""@inproceedings{hong2022dynamic,
  title     = {Dynamic Privacy Budget Allocation Improves Data Efficiency of Differentially Private Gradient Descent},
  author    = {Hong, Junyuan and Wang, Zhangyang and Zhou, Jiayu},
  booktitle = {2022 ACM Conference on Fairness, Accountability, and Transparency (FAccT '22)},
  year      = {2022},
  publisher = {Association for Computing Machinery},
  doi       = {10.1145/3531146.3533070},
  isbn      = {978-1-4503-9352-2}
}""",
)

SYMBOLS = PaperSymbols(PAPER.key)
symbol = SYMBOLS.symbol
ABOVE_ONE = Domain(1)
FROM_ONE = Domain(1, math.inf, closed=True)

N = symbol("N", "number of training examples", domain=COUNT, usual=(1, 1e4), common="num_examples")
n = symbol("n", "batch size", domain=COUNT, common="batch_size")
D = symbol("D", "dimension of the parameters", domain=COUNT, usual=(1, 100), common="dim")
G = symbol(
    "G",
    "Lipschitz constant of the loss of one example, or clipping norm",
    LOSS / LENGTH,
    usual=(0.1, 10),
    common="lipschitz",
)
M = symbol("M", "smoothness", LOSS / LENGTH**2, common="smoothness")
mu = symbol("mu", "constant of Polyak and Lojasiewicz", LOSS / LENGTH**2, usual=(0.1, 10))
gap = symbol("Delta", "initial excess risk f(theta_1) - f(theta^*)", LOSS, usual=(0.1, 10), common="initial_gap")
kappa = symbol("kappa", "condition number M/mu", domain=ABOVE_ONE, usual=(1.001, 1e3), common="condition_number")
gamma = symbol(
    "gamma", "convergence rate 1 - 1/kappa; 1 - eta_0/kappa with momentum", domain=UNIT_INTERVAL, usual=(0.1, 0.999)
)
alpha = symbol("alpha", "D G^2 / (2 R M N^2 (f(theta_1) - f(theta^*)))", usual=(1e-6, 10))
R = symbol("R", "privacy budget: twice the zCDP parameter", usual=(0.1, 10))
rho = symbol("rho", "zCDP parameter")
epsilon = symbol("epsilon", "privacy loss", usual=(1e-3, 50), common="epsilon")
delta = symbol("delta", "failure probability of privacy", domain=UNIT_INTERVAL, usual=(1e-12, 0.3), common="delta")
order = symbol("a", "order of the Renyi divergence", domain=ABOVE_ONE)
T = symbol("T", "number of steps", domain=COUNT, usual=(2, 80))
steps = symbol("T", "number of steps, as a real number", usual=(1e-3, 10))
t = symbol("t", "step", domain=COUNT)
i = symbol("i", "step", domain=COUNT, usual=(1, 80))
eta = symbol("eta", "step size", LENGTH**2 / LOSS)
sigma = symbol("sigma", "noise multiplier", usual=(1, 10))
noise = SYMBOLS.sequence("sigma^2", "squared noise multiplier of step t", usual=(0.1, 100))
q = SYMBOLS.sequence("q", "influence of the noise of step t")
w = symbol("w", "Wright's omega of 1 + ln(1/gamma)/(alpha kappa): w + ln w is that number", domain=ABOVE_ONE)
ell = log(1 / gamma)
rate = symbol("ell", "ln(1/gamma)")
beta = symbol("beta", "momentum", domain=UNIT_INTERVAL, usual=(0.01, 0.99))
eta0 = symbol("eta_0", "relative step size of momentum, 2 M eta", usual=(1e-3, 1))
That = symbol("That", "last step t at which gamma^{t-1} >= (1-beta)/(1-beta^t)", domain=COUNT, usual=(1, 40))
k = symbol("k", "summation index", domain=COUNT)
x = symbol("x", "a step, as a real number", domain=FROM_ONE, usual=(1, 200))
last = symbol("y", "the step That, as a real number", domain=FROM_ONE, usual=(1, 200))
u = symbol("u", "a fraction", domain=UNIT_INTERVAL, usual=(1e-3, 0.999))
v = symbol("v", "a fraction", domain=UNIT_INTERVAL)
part = symbol("u", "a fraction, 1 allowed", domain=Domain(0, 1, closed=True), usual=(1e-3, 1))
other = symbol("v", "a fraction, 1 allowed", domain=Domain(0, 1, closed=True), usual=(1e-3, 1))
c = symbol("c", "a constant", domain=UNIT_INTERVAL)
p = symbol("p", "a probability", domain=UNIT_INTERVAL, usual=(1e-3, 0.999))
s = symbol("s", "1/(kappa^2 alpha)", usual=(1e-6, 1e12))
g = SYMBOLS.sequence("g", "gradient of step t, one coordinate", LOSS / LENGTH)

__all__ = letters(vars())  # pyright: ignore[reportUnsupportedDunderAll]
