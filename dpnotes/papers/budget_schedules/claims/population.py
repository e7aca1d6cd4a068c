"""Stochastic gradients and population risk: Sections 4.3 and 4.4."""

from sympy import Rational, log, sqrt

from dpnotes.papers.budget_schedules.claims.descent import noise_level
from dpnotes.papers.budget_schedules.notation import *
from dpnotes.papers.budget_schedules.notation import symbol
from dpnotes.theory.asymptotics import Ratio
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.statements import Identity, Reason, Uncheckable

at, CLAIMS = PAPER.section()

alpha_g = symbol("alpha_g", "stochastic noise level", LENGTH**2 / LOSS**2)
at("thm4.9.alpha", "Theorem 4.9, proof", "Stochastic noise level")(
    Identity(alpha_g, D / (2 * mu * n**2 * gap), N**2 * R / n**2 * kappa * noise_level / G**2, where={kappa: M / mu}),
    "R' kappa alpha/G^2 with R' = N^2 R/n^2 and eq. (4), in which n^2 R' = N^2 R.",
    premises=("thm4.9.sampling",),
)

sigma_g = symbol("sigma_g", "scale of the stochastic gradient", LOSS / LENGTH, usual=(0.01, 100))
var = symbol("Var", "variance", (LOSS / LENGTH) ** 2)
at("thm4.9.variance", "Theorem 4.9, proof", "Variance of a stochastic private gradient")(
    Identity(var, sigma_g**2 + (G * sigma / n) ** 2, D * sigma_g**2 / n**2 + D * G**2 * sigma**2 / n**2),
    "E|sigma_g xi/n + G sigma nu/n|^2 for independent xi and nu with E|xi|^2 = E|nu|^2 = D.",
    Severity.TYPOGRAPHICAL(
        "1/n^2 and D are missing: (sigma_g^2 + G^2 sigma_t^2) D/n^2.", (sigma_g**2 + G**2 * sigma**2) * D / n**2
    ),
)
at("thm4.9.sampling", "Section 4.3, above Theorem 4.9", "Sampling error of a batch")(
    Inequality(
        D * sigma_g**2 / n, D * sigma_g**2 / n**2, {n: (1, 1e4)}, example={D: 1, sigma_g: 1, n: 627}, subject=var
    ),
    "The mean of n gradients that are drawn independently, with replacement, as the section has it: D sigma_g^2 is the "
    "variance of one, which is what the hypothesis says at n = 1. The hypothesis, sigma_g xi/n with a constant "
    "sigma_g, against it.",
    Severity.RATE(
        "sigma_g xi/n should be sigma_g xi/sqrt(n): the deviation of a mean of n gradients falls like 1/sqrt(n). With "
        "a constant sigma_g the variance is too small by a factor n, or n (N - n)/(N - 1), about n (1 - n/N), without "
        "replacement: 627 and 234 at N = 1,000 and n = N sqrt(R) of the experiments. Theorems 4.9 and 4.10 rest on it.",
        D * sigma_g**2 / n,
    ),
)
at("thm4.9.batch", "Theorem 4.9", "Batch size")(
    Inequality(N * sqrt(R), N, {N: (1, 1e6), R: (0.01, 100)}, example={N: 1000, R: 4}),
    "n = max(N sqrt(R), 1) is a batch of at most N examples.",
    Severity.EDGE(
        "N sqrt(R) is above N for R > 1, and not small against N for moderate R (0.63 N in the paper's experiments); "
        "R <= 1 is needed.",
        Inequality(N * sqrt(R), N, {N: (1, 1e6), R: (0.01, 100)}, conditions=(R <= 1,)),
    ),
)

r = symbol("r", "distance to the mean", LENGTH, usual=(0.1, 10))
quadratic = {mu: (0.01, 10), G: (0.01, 100), N: (1, 1e8)}
at("thm4.11", "Theorem 4.11, eq. (15)", "Population risk with high probability")(
    Inequality(
        mu * r**2 / 2,
        sqrt(2 * G**2 / (mu * N)) * sqrt(mu * r**2 / 2) + 4 * G**2 / (p * mu * N),
        quadratic,
        conditions=(G >= mu * r,),
        example={mu: 1, G: 1, r: 1, N: 10**6, p: 0.1},
    ),
    "All examples equal, f = mu |theta - x|^2/2 at distance r <= G/mu: true and empirical excess risk are both mu "
    "r^2/2.",
    Severity.RATE(
        "The 1/N under the first root should go: it belongs to the version for sums. Equations (16), (17) and Table 2 "
        "inherit it.",
        sqrt(2 * G**2 / mu) * sqrt(mu * r**2 / 2) + 4 * G**2 / (p * mu * N),
    ),
)

risk = symbol("TER", "true excess risk", LOSS)
at("sec4.4.markov", "Section 4.4, above eq. (16)", "From expectation to probability")(
    Identity(risk, gap, gap / p, {p: Rational(1, 2)}),
    "Delta stands for F(R/k). Markov's inequality at failure probability 1/2 a run, so that k runs fail with "
    "probability 2^-k.",
    Severity.CONSTANT(
        "One of k runs is below 2 F(R/k), not F(R/k), with probability 1 - 2^-k; and to know which one takes a "
        "private selection with a budget of its own.",
        2 * gap,
    ),
)
at("thm4.13", "Theorem 4.13", "Stability and generalisation")(
    Uncheckable("a uniformly stable algorithm generalises", Reason.CITED), "Shalev-Shwartz and Ben-David (2014)."
)
left_out, stability = G**2 * T * eta / N, symbol("s", "uniform stability", LOSS)
ranges = {eta: (0.01, 10), part: (0.01, 1), other: (0.01, 1)}
example = {G: 1, part: 1, other: 1, N: 100, T: 45, eta: Rational(1, 2)}
at("thm4.14", "Theorem 4.14", "Stability of private gradient descent")(
    Inequality((part + other) * left_out, left_out, ranges, example=example, subject=stability),
    "Data sets of N samples that differ in one (Definition 3.4), f = G x theta: the means of the slopes differ by u "
    "G/N + v G/N where the exchanged sample is x = u in one and x = -v in the other, and T steps of eta move theta by "
    "T eta times that. The losses at x = 1 differ by G times the difference. Convexity, which Bassily et al. (2019) "
    "assume and the theorem does not repeat, is that of its section.",
    Severity.CONSTANT(
        "G^2 T eta/N should be 2 G^2 T eta/N for data sets of one size; G^2 T eta/N is right where a sample is left "
        "out. The use below the theorem is not refuted: in this example the generalisation gap is G^2 T eta/N itself.",
        2 * left_out,
    ),
)

horizon = symbol("N", "number of training examples, as a real number", domain=FROM_ONE)
private_rate = D / (horizon**2 * R)
sixty, dropped = {D: 60, R: Rational(2, 5)}, log(horizon**2 * R / D) / horizon
at("sec4.4.dropped", "Section 4.4, below Theorem 4.14", "The dropped stability term")(
    Ratio(private_rate + dropped, private_rate, {horizon: (1e4, 1)}, "O", where=sixty, example={horizon: 1e5}),
    "G = M = 1, D = 60, R = 0.4: the excess risk of the dynamic schedule plus G^2 eta T/N, against Table 2.",
    Severity.RATE(
        "The term G^2 eta T/N, about ln(N^2 R/D)/N, is not constant, and it dominates D/(N^2 R); TER <= EER does not "
        "follow.",
        dropped,
    ),
)
