"""Appendix C, and our own results, with proofs in docs/derivations/noisy_sgd.md."""

from typing import Any

from sympy import E, Integer, Max, Rational, erfc, exp, log, sqrt

from dpnotes.papers.noisy_sgd import calculators
from dpnotes.papers.noisy_sgd.claims.convergence import chebyshev, of_sigma
from dpnotes.papers.noisy_sgd.claims.parameters import enough_iterations
from dpnotes.papers.noisy_sgd.claims.privacy import (
    best_accuracy,
    bounded_gradients,
    correct_c,
    descent,
    exp_epsilon,
    hockey_stick,
    privacy,
    window,
)
from dpnotes.papers.noisy_sgd.notation import *
from dpnotes.papers.noisy_sgd.notation import SCALES, symbol
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Choice, Rate
from dpnotes.theory.statements import Identity
from dpnotes.theory.symbols import Domain

at, CLAIMS = PAPER.section()


# ---------------------------------------------------------------- Appendix C
def least_noise(value: Any, constraints: Any) -> Rate:
    """Return the rate of the least Delta under these constraints."""
    return Rate(Delta, value, {"Delta": Delta}, (Delta,), constraints, order="Omega")


at("lemmaC.1.noise", "Lemma C.1", "Noise for the descent lemma without Assumption B")(
    least_noise(
        sigma / sqrt(d * delta_t * B),
        {
            "second moment": 3 * eta**2 * L * T * sigma**2 / (delta_t * B) / (eta * d * Delta**2 * eta * L * T),
            "cross term": 16 * eta * sigma**2 / (delta_t * B) / (eta * d * Delta**2 * ell),
        },
    ),
    "Markov's and Chebyshev's terms of the proof, against c eta d Delta^2 (eta L t + log(1/delta_t)).",
)
at("lemmaC.2.noise", "Lemma C.2", "Noise for escaping without Assumption B")(
    least_noise(sigma / sqrt(delta_t * B), {"Chebyshev": eta * sigma / sqrt(B * delta_t) / (eta * Delta)}),
    "eta beta sigma/sqrt(B delta_t) against beta eta Delta; larger than the noise of Lemma C.1 by sqrt(d).",
)
at("appC.iterations", "Appendix C, with Theorem 3.4", "Number of iterations without Assumption B")(
    enough_iterations(64 * f_max / (eta * alpha**2), 16, example={f_max: 1, eta: 0.01, alpha: 0.1}),
    "The argument of Lemma B.3 with the eta/16 of Lemma C.1 in place of the eta/8 of Lemma B.2.",
    Severity.CONSTANT(
        "Lemma C.1 has eta/16 where Lemma B.2 has eta/8, so that T must be 128 f_max/(eta alpha^2): with 64, the "
        "decrease is f_max and nothing is left for the noise.",
        enough_iterations(128 * f_max / (eta * alpha**2), 16),
    ),
)

accuracy = sqrt(C) * (L * f_max * d) ** Rational(1, 4) / sqrt(n * epsilon)
at("appC.alpha", "Appendix C, introduction", "Accuracy without Assumption B")(
    best_accuracy(accuracy, C, constraints=chebyshev, normalised=(ell,)),
    "Theorem 3.5 for a given C, with Delta^2 >= sigma^2/(B delta_t), delta_t = delta/T, as Lemma C.2 needs.",
    Severity.RATE(
        "No larger Delta gives 'the same value of alpha': T is proportional to "
        "Delta^2, so that Delta cancels in Delta^2 >= sigma^2 T/(B delta), and no Delta is large enough unless "
        "alpha^4 >= sigma^2 L f_max d/(B delta). It is the batch that has to be large, B >= sigma^2 L f_max d/(delta "
        "alpha^4).",
        best_accuracy(accuracy + (sigma**2 * L * f_max * d / (B * delta)) ** Rational(1, 4), C, constraints=chebyshev),
    ),
)

# ---------------------------------------------------------------- results of our own
others = symbol("y", "squared distance of every other sample's gradient, over sigma^2")
farthest = symbol("max|z|^2", "largest squared distance of a sample's gradient, over sigma^2")
rest = E * n - (n - 1) * exp(others)
at.own("sample", "Assumption B bounds every sample's gradient")(
    Inequality(log(rest), log(1 + (E - 1) * n), {others: (1e-9, 1)}, conditions=(rest >= 1,), subject=farthest),
    "The mean of exp(|grad f_i - grad f|^2/sigma^2) is below e, and each term is at least 1: one may be as large as e "
    "n minus the others.",
    calculation=calculators.SENSITIVITY,
)

first = symbol("s", "largest distance of a sample's gradient from the mean gradient", GRADIENT)
squares = first_share**2 + second_share**2
angle = symbol("theta", "half of 1 minus the cosine between two deviations", domain=Domain(0, 1, closed=True))
deviation = first**2 * (squares - 2 * first_share * second_share * (1 - 2 * angle))
moved = symbol(
    "|g-g'|", "change of a batch's mean gradient", GRADIENT, latex="\\|g_{\\mathcal{B}}-g_{\\mathcal{B}}'\\|"
)
between = {first: (0.1, 10), angle: (1e-3, 1)}
at.own("sensitivity", "Sensitivity of a batch's mean gradient, without clipping")(
    Inequality(sqrt(deviation) / (1 - 1 / n) / B, 2 * first * n / ((n - 1) * B), between, subject=moved),
    "One example of n is replaced, batches are of a fixed size B. Both data sets satisfy Assumption B, so that the "
    "two samples are within s = sigma sqrt(ln(1 + (e-1) n)) of their means, which differ by 1/n of the difference "
    "sought.",
    calculation=calculators.SENSITIVITY,
)
at.own("rate", "Accuracy by the deterministic sensitivity")(
    best_accuracy(of_sigma, sigma * sqrt(ell)),
    "Theorem 3.5 with the sensitivity of own.sensitivity in place of 2 C/B: no event, no second delta, no condition "
    "on the step size for privacy.",
    calculation=calculators.DETERMINISTIC_LOOP,
    premises=("lemmaB.12.probability", "thmB.13.noise"),
)
at.own("gradient", "Bound of the gradients with the privacy noise")(
    bounded_gradients.restate(correct_c),
    "Lemma B.2 for all t at the parameters of Definition B.1; ell = ln(T/delta).",
    calculation=calculators.GRADIENT_BOUND,
)

a = symbol("a", "probability in S", domain=UNIT_INTERVAL)
b = symbol("b", "probability in S", domain=UNIT_INTERVAL)
a1, b1 = (symbol(f"{x}'", "probability in S under D'", domain=UNIT_INTERVAL) for x in "ab")
outside = symbol("s", "probability outside of S", domain=UNIT_INTERVAL)
excess_a, excess_b, both = a - exp_epsilon * a1, b - exp_epsilon * b1, a + b - exp_epsilon * (a1 + b1)
at.own("transcript", "Privacy by an event of the transcript")(
    Inequality(
        Max(excess_a, 0) + Max(excess_b, 0) + outside,
        delta + outside,
        {**dict.fromkeys((a, b, a1, b1), (0.01, 0.9)), outside: (1e-4, 0.1), delta: (1e-4, 0.1)},
        conditions=(excess_a <= delta, excess_b <= delta, both <= delta, a + b <= 1, a1 + b1 <= 1),
        subject=hockey_stick,
    ),
    "In S no sample of either data set has a gradient above C at any iterate, so that clipped and unclipped "
    "transcripts have the same density there under D, and under D'. Two events in S, all the rest outside.",
    calculation=calculators.TRANSCRIPT_DELTA,
)
rate = symbol("q", "batch size over examples", domain=UNIT_INTERVAL)
multiplier = symbol("z", "noise over sensitivity, an example replaced")
above = symbol("r", "e^epsilon, less 1")


def tail(place: Any) -> Any:
    """Return the probability that Gaussian noise with noise multiplier z exceeds `place`."""
    return erfc(place / (multiplier * sqrt(2))) / 2


# In units of the sensitivity, the release is (1-q) N(0, z^2) + q N(1, z^2) with the example and N(0, z^2) without it.
without = multiplier**2 * log((1 / (1 + above) - (1 - rate)) / rate) + Rational(1, 2)
unsampled = multiplier**2 * log(1 + above / rate) + Rational(1, 2)
at.own("fixed_size", "Delta of one step on a batch of fixed size, an example replaced")(
    Inequality(
        1 - tail(without) - (1 + above) * ((1 - rate) * (1 - tail(without)) + rate * (1 - tail(without - 1))),
        rate * (tail(unsampled - 1) - (1 + above / rate) * tail(unsampled)),
        {rate: (0.01, 0.9), multiplier: (0.3, 10), above: (1e-3, 5)},
        conditions=(1 / (1 + above) > 1 - rate,),
        subject=hockey_stick,
    ),
    "The bound holds for both orders of the neighbours and any other examples; it is attained when the example is "
    "there, and the claim compares it with the other order at the same distance.",
)
floor = sigma / sqrt(B) + C * sqrt(ell / epsilon) / B
needs = {"privacy": privacy(C), "descent": descent, "minibatch noise": sigma**2 / (B * Delta**2), **window}
at.own("noise", "The least noise of Theorem 3.5")(
    Rate(Delta, floor, {"Delta": Delta}, (Delta, T, eta), needs, order="Omega"),
    "Delta cancels from the accuracy; what is left are sigma/sqrt(B) and the window of epsilon, which asks for T >= "
    "epsilon n^2/B^2.",
)
at.own("constants", "Accuracy of Theorem 3.5 with its constants")(
    Identity(
        alpha**2,
        8 * c_2 / sqrt(c_eta) * C * sqrt(L * f_max * (d + 1) * ell) / (n * epsilon),
        sqrt((c_2 * C / (n * epsilon)) ** 2 * ell * T * alpha**4 / Delta**2),
        where={T: SCALES[T], eta: c_eta * alpha**2 / (L * (d + 1) * Delta**2)},
    ),
    "alpha^4 = (c_2 C/(n epsilon))^2 ell T alpha^4/Delta^2, with T = 64 f_max/(eta alpha^2) at the step size c_eta "
    "alpha^2/(L (d + 1) Delta^2).",
    calculation=calculators.CLOSED_LOOP,
    premises=("defB.1.constants",),
)
chosen = {eta: alpha**2 / (L * total**2), T: SCALES[T]}
at.own("step", "The step size of Theorem 3.5 keeps the objective bounded")(
    Choice(chosen, {"noise in the objective": eta**2 * L * T * total**2}, f_max),
    "It meets the corrected condition of Lemma 3.2 on the step size, for every Delta.",
)

expected = symbol("expected", "expected number of examples that are published")
at.own("release", "What delta = 0.01 allows")(
    Identity(expected, Integer(500), n * delta, where={n: Integer(50_000), delta: Rational(1, 100)}),
    "Section 4 uses delta = 0.01 with n = 50000 examples. Publishing each example with probability delta, and nothing "
    "else, is (0, delta)-DP; this is how many it publishes on average.",
)
needs = {**chebyshev, "descent": descent, "noise in the descent": eta * L * d * Delta**2 / alpha**2}
least_batch = sigma**2 * L * f_max * d / (delta * alpha**4)
at.own("batch", "Batch size without Assumption B")(
    Rate(B, least_batch, {"batch": B}, (B, Delta, T, eta), needs, order="Omega"),
    "Delta cancels in the condition of Lemma C.2 at delta_t = delta/T.",
)
