"""The letters of Hong, Wang and Zhou (2022): each with its unit, its domain and what it means."""

import math

from sympy import log

from dpnotes.theory.symbols import COUNT, UNIT_INTERVAL, Domain, PaperSymbols
from dpnotes.theory.units import LENGTH, LOSS

SYMBOLS = PaperSymbols("budget_schedules")
ABOVE_ONE = Domain(1)
FROM_ONE = Domain(1, math.inf, closed=True)

N = SYMBOLS.symbol("N", "number of training examples", domain=COUNT)
n = SYMBOLS.symbol("n", "batch size", domain=COUNT)
D = SYMBOLS.symbol("D", "dimension of the parameters", domain=COUNT)
G = SYMBOLS.symbol("G", "Lipschitz constant of the loss of one example, or clipping norm", LOSS / LENGTH)
M = SYMBOLS.symbol("M", "smoothness", LOSS / LENGTH**2)
mu = SYMBOLS.symbol("mu", "constant of Polyak and Lojasiewicz", LOSS / LENGTH**2)
gap = SYMBOLS.symbol("Delta", "initial excess risk f(theta_1) - f(theta^*)", LOSS)
kappa = SYMBOLS.symbol("kappa", "condition number M/mu", domain=ABOVE_ONE)
gamma = SYMBOLS.symbol("gamma", "convergence rate 1 - 1/kappa; 1 - eta_0/kappa with momentum", domain=UNIT_INTERVAL)
alpha = SYMBOLS.symbol("alpha", "D G^2 / (2 R M N^2 (f(theta_1) - f(theta^*)))")
R = SYMBOLS.symbol("R", "privacy budget: twice the zCDP parameter")
rho = SYMBOLS.symbol("rho", "zCDP parameter")
epsilon = SYMBOLS.symbol("epsilon", "privacy loss")
delta = SYMBOLS.symbol("delta", "failure probability of privacy", domain=UNIT_INTERVAL)
order = SYMBOLS.symbol("a", "order of the Renyi divergence", domain=ABOVE_ONE)
T = SYMBOLS.symbol("T", "number of steps", domain=COUNT)
steps = SYMBOLS.symbol("T", "number of steps, as a real number")
t = SYMBOLS.symbol("t", "step", domain=COUNT)
i = SYMBOLS.symbol("i", "step", domain=COUNT)
eta = SYMBOLS.symbol("eta", "step size", LENGTH**2 / LOSS)
sigma = SYMBOLS.symbol("sigma", "noise multiplier")
noise = SYMBOLS.sequence("sigma^2", "squared noise multiplier of step t")
q = SYMBOLS.sequence("q", "influence of the noise of step t")
w = SYMBOLS.symbol("w", "Wright's omega of 1 + ln(1/gamma)/(alpha kappa): w + ln w is that number", domain=ABOVE_ONE)
ell = log(1 / gamma)
rate = SYMBOLS.symbol("ell", "ln(1/gamma)")
beta = SYMBOLS.symbol("beta", "momentum", domain=UNIT_INTERVAL)
eta0 = SYMBOLS.symbol("eta_0", "relative step size of momentum, 2 M eta")
That = SYMBOLS.symbol("That", "last step t at which gamma^{t-1} >= (1-beta)/(1-beta^t)", domain=COUNT)
k = SYMBOLS.symbol("k", "summation index", domain=COUNT)
x = SYMBOLS.symbol("x", "a step, as a real number", domain=FROM_ONE)
last = SYMBOLS.symbol("y", "the step That, as a real number", domain=FROM_ONE)
u = SYMBOLS.symbol("u", "a fraction", domain=UNIT_INTERVAL)
v = SYMBOLS.symbol("v", "a fraction", domain=UNIT_INTERVAL)
part = SYMBOLS.symbol("u", "a fraction, 1 allowed", domain=Domain(0, 1, closed=True))
other = SYMBOLS.symbol("v", "a fraction, 1 allowed", domain=Domain(0, 1, closed=True))
c = SYMBOLS.symbol("c", "a constant", domain=UNIT_INTERVAL)
p = SYMBOLS.symbol("p", "a probability", domain=UNIT_INTERVAL)
s = SYMBOLS.symbol("s", "1/(kappa^2 alpha)")
g = SYMBOLS.sequence("g", "gradient of step t, one coordinate", LOSS / LENGTH)
