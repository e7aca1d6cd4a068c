"""Section 1: quoted rates and comparisons."""

from typing import Any

from sympy import Integer, Rational, oo, sqrt

from dpnotes.papers.adaptive_batch.calculators import LOWER_BOUND
from dpnotes.papers.adaptive_batch.notation import *
from dpnotes.theory.asymptotics import Limit
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality, Monotone
from dpnotes.theory.rates import Crossover, Rate
from dpnotes.theory.statements import Reason, Uncheckable

at, CLAIMS = PAPER.section()


# Number of steps and path length of Proposition 3.4 and eq. (2), at accuracy alpha and at gamma.
steps = {accuracy: B * M / accuracy**2 for accuracy in (alpha, gamma)}
spider_terms = {
    "O1 noise": G * noise / (b * alpha),
    "O2 noise": sqrt(squared_drift) * noise / (bt * alpha),
    "O1 sampling": G**2 / (b * alpha**2),
    "O2 sampling": squared_drift / (bt * alpha**2),
    "O1 examples": b * B * M / (squared_drift * n),
    "O2 examples": bt * steps[alpha] / n,
}
spider_tuned = (alpha, squared_drift, b, bt)
small_noise = {"p <= 1": p}


def spider(value: Any, *names: str, **more: Any) -> Rate:
    """Return the best accuracy of SPIDER under the named terms, or under all of them."""
    constraints = {name: spider_terms[name] for name in names or spider_terms}
    return Rate(alpha, value, {"alpha": alpha}, spider_tuned, constraints, small_noise, normalised=(B, G, M), **more)


private = [name for name in spider_terms if "sampling" not in name]
spider_origin = (
    "SPIDER with a Gaussian mechanism, eta = 1/M and fixed batches (Section 1.2): O1 is asked when the sum of squared "
    "steps, in units of gradients, exceeds K, so B M/K times since those squares sum to B M; noise and sampling error "
    "of O2 are proportional to the step (Definition A.1), so that their squares sum to K over a segment"
)
at("sec1.1.ganesh.private", "Section 1.1, alpha_S, second term", "Quoted rate for an SOSP, private term")(
    spider(p ** Rational(3, 7), *private, tilde=True),
    f"{spider_origin}. Only the private terms.",
    premises=("prop3.4.T",),
)

at("sec1.1.ganesh.sampling", "Section 1.1, alpha_S, first term", "Quoted rate for an SOSP, sampling term")(
    spider(n**-third, *(name for name in spider_terms if "noise" not in name), tilde=True),
    f"{spider_origin}. Only the sampling terms.",
    premises=("prop3.4.T",),
)
at.own("spider_gaussian", "What one drift threshold and fixed batches give in between")(
    spider(n**-third + p ** Rational(3, 7) + (p**2 / n) ** Rational(1, 8)),
    f"{spider_origin}. All terms: where O1's sampling and O2's noise meet, a mixed term exceeds both quoted ones. "
    "Whether the quoted proof avoids it was not checked.",
)

alpha_f = n**-third + sqrt(p)
chosen = (kappa, b, slope, T, path)
# The same rate without the paper's choices: the only conditions are an error of at most alpha and at most n examples.
ground_up = {
    "descent": B * M / (alpha**2 * T),
    "path": sqrt(T * B * M) / path,
    "O1 noise": G * noise / (b * alpha),
    "O1 sampling": G**2 / (b * alpha**2),
    "O2 noise": noise / (slope * alpha),
    "O2 sampling": kappa / (slope * alpha**2),
    "first O1": b / n,
    "later O1": b * path / (kappa * n),
    "O2": slope * path / n,
    "an example a step": T / n,
}
ground_origin = (
    "T steps decrease F by B, eta alpha^2 = alpha^2/M each; squares of the noisy gradients sum to B M, so that the "
    "path is at most sqrt(T B M) by Cauchy and Schwarz; noise and sampling error of O1 and O2 (b_t = beta g) are at "
    "most alpha, over a path of kappa for O2; the examples of all calls are at most n. Balanced over kappa, b, beta, "
    "T and the path"
)
at("sec1.1.arora", "Section 1.1, alpha_F", "Quoted rate for an FOSP")(
    Rate(alpha, alpha_f, {"alpha": alpha}, (alpha, *chosen), ground_up, small_noise, (), (B, G, M), tilde=True),
    f"What Algorithm 2 needs for an FOSP, where there are no escapes: {ground_origin}. That the cited algorithm "
    "reaches the same was not checked.",
)

alpha_s = n**-third + p ** Rational(3, 7)
rate_f, rate_s = (SYMBOLS.symbol(f"alpha_{letter}", f"quoted accuracy, {letter}OSP") for letter in "FS")
at("sec1.1.comparison", "Section 1.1", "The rate for an FOSP is the better one")(
    Inequality(alpha_f, alpha_s, {n: (1, 1e12), epsilon: (1e-3, 1e3)}, conditions=(p <= 1,), subject=rate_f),
    "p^(1/2) <= p^(3/7) for p <= 1.",
)

far = {n: examples, d: Integer(1), epsilon: 1 / sqrt(examples)}
at("sec1.1.gap", "Section 1.1, alpha_F << alpha_S", "The gap opens as epsilon falls")(
    Limit(alpha_f / alpha_s, examples, oo, Integer(0), where=far, subject=rate_f / rate_s),
    "Along p = n^(-1/2), that is epsilon = n^(-1/2) at d = 1: the ratio falls like n^(-1/28).",
)
at.own("crossover_ganesh", "From which epsilon on the gap is closed")(
    Crossover(p ** Rational(3, 7), n**-third, epsilon, sqrt(d) * n ** Rational(-2, 9)),
    "Below it the private term of alpha_S dominates, and alpha_F < alpha_S.",
)

example = {M: 1, distance: 1}
at("sec1.2.decrease", "Section 1.2, advantage of adaptive batches", "Which steps decrease F much")(
    Monotone(M * distance**2 / 6, distance, "decreasing", {distance: (1e-3, 1e3)}, example=example, subject=decrease),
    "A step of length r = eta |g| decreases F by at least eta |g|^2/6 = M r^2/6 where the error is small.",
    Severity.TYPOGRAPHICAL(
        "The second 'when it is small' should be 'when it is large': long steps decrease F much.",
        Monotone(M * distance**2 / 6, distance, "increasing", {distance: (1e-3, 1e3)}, subject=decrease),
    ),
)
at("sec1.1.lower_bound", "Section 1.1", "Lower bound without privacy")(
    Uncheckable("alpha = Omega(n^(-1/3)) without privacy, for d >= alpha^(-4)", Reason.CITED),
    "Arjevani et al. (2023).",
    calculation=LOWER_BOUND,
)
