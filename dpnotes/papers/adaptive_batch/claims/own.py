"""Our own results, with proofs in docs/derivations/adaptive_batch.md."""

import math
from typing import Any

from sympy import Add, Integer, Max, Rational, log, sqrt

from dpnotes.papers.adaptive_batch.calculators import CROSSOVER, LYAPUNOV, SAMPLE_SIZE
from dpnotes.papers.adaptive_batch.claims.accuracy import counts, first_query, printed_kappa, printed_sampling
from dpnotes.papers.adaptive_batch.claims.introduction import chosen, ground_origin, ground_up, small_noise
from dpnotes.papers.adaptive_batch.notation import *
from dpnotes.theory.asymptotics import Limit
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Choice, Crossover, Rate
from dpnotes.theory.statements import Identity
from dpnotes.theory.symbols import Domain

at, CLAIMS = PAPER.section()


# For an SOSP, escapes have to decrease F as much as large gradients do, and the path is that of eq. (2).
DESCENT, PATH = ("prop3.4.T",), ("eq2",)
best_rate = sqrt(B * M) * sqrt(p) + (B * G * M / n) ** third + sqrt(B * M / n)
best_alpha = best_rate + first_query
ground = {"terms": {"alpha": alpha}, "tuned": (alpha, *chosen)}
at.own("best_rate", "Best accuracy over the drift threshold and the batches")(
    Rate(alpha, best_alpha, constraints=ground_up, **ground),
    f"{ground_origin}. Never more than the corrected Theorem 3.11, and less wherever G differs from sqrt(B M).",
    calculation=SAMPLE_SIZE,
    premises=DESCENT,
)
at.own("best_kappa", "A drift threshold that reaches the best accuracy")(
    Choice({alpha: best_alpha, kappa: Max(alpha * noise, G)}, {"alpha": alpha}, best_alpha, counts),
    "kappa = max(alpha sqrt(d)/epsilon, G): the printed one with G in place of (B G M)^(1/3).",
    premises=PATH,
)

without = sqrt(B * M) * sqrt(p) + printed_sampling + sqrt(M * B) / sqrt(n)
at.own("printed_kappa", "The printed threshold needs no (B G M)^(1/3) p^(1/2)")(
    Choice({alpha: without + first_query, kappa: printed_kappa}, {"alpha": alpha}, without + first_query, counts),
    "Using kappa >= alpha sqrt(d)/epsilon in the private part of O1 gives (B G M/n)^(1/3), the geometric mean of the "
    "two printed sampling terms.",
    premises=PATH,
)

size = B * M * noise / alpha**2 + B * G * M / alpha**3 + B * M / alpha**2 + G * noise / alpha + G**2 / alpha**2
at.own("sample_size", "Number of examples for an accuracy")(
    Rate(n, size, {"n": n}, (n, *chosen), ground_up),
    f"{ground_origin}. Solved for n.",
    calculation=SAMPLE_SIZE,
    premises=DESCENT,
)
no_steps = sqrt(B * M) * sqrt(p) + (B * G * M / n) ** third + first_query
at.own("no_step_term", "The term sqrt(B M/n) is idle")(
    Rate(alpha, no_steps, constraints=ground_up, regime={"sqrt(B M/n) <= G": B * M / (n * G**2)}, **ground),
    "The best balance where sqrt(B M/n) <= G; otherwise that term is above G, and alpha is trivial. The same holds "
    "for the last term of the printed rate.",
    premises=DESCENT,
)
at.own("batch_regime", "Where the batches of Lemma 3.8 suffice to escape")(
    Crossover(kappa / alpha, M / (2 * sqrt(rho * alpha)), alpha, 4 * rho * kappa**2 / M**2),
    "b_t >= kappa g/alpha^2 >= kappa/alpha where g >= alpha, against the batch M/(2 lambda) at lambda = sqrt(rho "
    "alpha): for alpha below the crossover, noise as on the quadratic saddle does not keep the iterates there.",
)

all_one = {"regime": small_noise, "normalised": (B, G, M, rho)}
large_batches = {"M/(2 sqrt(rho alpha)) examples a step": T * M / sqrt(rho * alpha) / n}
at.own("escape_batches", "Batches that escape do not cost the rate")(
    Rate(alpha, sqrt(p) + n**-third, constraints={**ground_up, **large_batches}, **ground, **all_one),
    "The batch that the quadratic saddle asks for, at every step, on top of all else: B M^2/(sqrt(rho) alpha^(5/2)) "
    "examples, below those of the sampling term.",
    premises=DESCENT,
)

windows, with_resets = T * sqrt(rho * alpha) / M, p ** Rational(2, 5) + n ** Rational(-2, 7)
at.own("frozen_reset", "Asking O1 at every perturbation costs the rate")(
    Rate(alpha, with_resets, constraints={**ground_up, "O1 at each reset": b * windows / n}, **ground, **all_one),
    "T/Gamma windows, Gamma = M/sqrt(rho alpha), at each of which line 10 of Algorithm 2 sets the drift to 0; if the "
    "estimate is refreshed there, b examples are used.",
    premises=DESCENT,
)
at.own("crossover", "Where the private and the sampling term are equal")(
    Crossover(sqrt(p), n**-third, epsilon, sqrt(d) * n**-third),
    "In Remark 3.12: privacy dominates for epsilon < sqrt(d) n^(-1/3).",
    calculation=CROSSOVER,
)

lyapunov = SYMBOLS.symbol("Lambda", "Lyapunov exponent of a step at the saddle", domain=Domain())
ratio = 1 - u
at.own("lyapunov", "Exponent of a step at a saddle, batch 1")(
    Identity(lyapunov, log(4 * u) / 2, (log(1 + u - ratio) + log(1 + u + ratio)) / 2, example={u: Rational(1, 20)}),
    "f(x; z) = ((M - lambda) z - lambda) x^2/2 with z = 1 or -1, eta = 1/M: x is multiplied by 1 + u + (1 - u) or 1 + "
    "u - (1 - u), where u = lambda/M. Below lambda = M/4 the exponent is negative: unbiased steps converge to the "
    "saddle.",
    calculation=LYAPUNOV,
)

# E ln(1 + y) <= E (y - y^2/2 + y^3/3) for 1 + y = 1 + u - (1 - u) xi, where xi is a mean of b signs and u = lambda/M.
exponent_bound = u - (u**2 + ratio**2 / b) / 2 + (u**3 + 3 * u * ratio**2 / b) / 3
example = {c: Rational(1, 2), u: Rational(1, 100)}
at.own("minimum_batch", "Batch size that a saddle asks for")(
    Limit(exponent_bound / u, u, Integer(0), 1 - 1 / (2 * c), where={b: c / u}, example=example, subject=lyapunov / u),
    "The same saddle with batches b = c M/lambda: an upper bound of the exponent over lambda/M, negative for c < 1/2, "
    "that is for b < M/(2 lambda).",
)
zero_of_bound = ratio**2 * (Rational(1, 2) - u) / (u - u**2 / 2 + u**3 / 3)
proved_batch = SYMBOLS.symbol("b_0", "batch size up to which the exponent is proved negative")
at.own("minimum_batch_exact", "Batches at which every run converges to the saddle")(
    Inequality(zero_of_bound, 1 / (2 * u) - 2, {u: (1e-8, 0.25)}, ">=", subject=proved_batch),
    "The batch at which the upper bound of the exponent is 0, at least M/(2 lambda) - 2, u = lambda/M.",
)


def exponent(batch: int, ratio: Rational) -> Any:
    """Return the exact exponent, as a mean over the binomial distribution."""
    means = {Rational(2 * k - batch, batch): math.comb(batch, k) for k in range(batch + 1)}
    return Add(*(w * log(1 + ratio - (1 - ratio) * xi) for xi, w in means.items())) / 2**batch


at.own("exponent_below", "Exponent at nine signs")(
    Identity(lyapunov, -Rational(52, 10000), exponent(9, Rational(1, 20)), digits=4),
    "lambda = M/20, batch 9 < M/(2 lambda) = 10: exact.",
    calculation=LYAPUNOV,
)
at.own("exponent_above", "Exponent at eleven signs")(
    Identity(lyapunov, Rational(63, 10000), exponent(11, Rational(1, 20)), digits=4),
    "lambda = M/20, batch 11 > M/(2 lambda) = 10: exact.",
    calculation=LYAPUNOV,
)
