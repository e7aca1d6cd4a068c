"""The oracle: Section 5, Theorem 2."""

from typing import Any

from sympy import Add, Eq, Integer, Max, Mod, Piecewise, Rational, Sum, log, sqrt

from dpnotes.papers.drift_escape.calculators import RATE, ROOT, SAMPLES
from dpnotes.papers.drift_escape.claims.descent import estimate
from dpnotes.papers.drift_escape.claims.escape import one_third, other_way, ratio, way
from dpnotes.papers.drift_escape.notation import *
from dpnotes.theory.calculators import Calculator
from dpnotes.theory.claims import Section, Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Choice, Crossover, Rate
from dpnotes.theory.statements import Identity

at, CLAIMS = PAPER.section()


variance = symbol("noise variance", "variance of the Gaussian noise", (LOSS / LENGTH) ** 2, latex="\\mathrm{var}(\\xi)")
log_delta = symbol("log(1/delta)", "the logarithm of 1/delta", domain=FROM_ONE, latex="\\log\\frac{1}{\\delta}")


def gaussian_mechanism(sensitivity: Any, releases: Any = 1) -> dict[str, Any]:
    """Return the variance that the Gaussian mechanism needs for some releases with this sensitivity."""
    name = "Gaussian mechanism" if releases == 1 else "Gaussian mechanism, T times"
    return {name: releases * (sensitivity * sqrt(2 * log_delta) / epsilon) ** 2}


at("alg2.fresh", "Algorithm 2, line 5", "Noise of a fresh gradient")(
    Rate(variance, G**2 * log_delta / (b1**2 * epsilon**2), gaussian_mechanism(2 * G / b1)),
    "Definition 7 with the sensitivity 2G/b_1 of a mean of b_1 gradients, one of which is replaced.",
)

move = symbol("move", "length of the last step", LENGTH, latex="\\|x_{t-1}-x_{t-2}\\|")
at("alg2.differences", "Algorithm 2, line 10", "Noise of a gradient difference")(
    Rate(variance, M**2 * log_delta * move**2 / (b2**2 * epsilon**2), gaussian_mechanism(2 * M * move / b2)),
    "Definition 7 with the sensitivity 2 M |x_{t-1} - x_{t-2}|/b_2.",
)

step = symbol("t", "a step", domain=COUNT)
summed = symbol("differences in g_t", "differences that the estimate of step t sums", latex="k_t")


def differences(steps: int, threshold: int, *, printed: bool) -> dict[int, int]:
    """Return the number of differences in the estimate of each step, for moves of length 1.

    This executes Algorithm 2. As printed, drift and time advance only after a difference; otherwise also after a fresh
    gradient.
    """
    counts: dict[int, int] = {}
    drift, time = threshold, 1
    while time <= steps:
        is_fresh = drift >= threshold
        if is_fresh:
            counts[time], drift = 0, 0
        else:
            counts[time] = counts.get(time - 1, 0) + 1
        if not (printed and is_fresh):
            drift, time = drift + 1, time + 1
    return counts


by_step = differences(12, 4, printed=False)
counted_at = Piecewise(*((Integer(count), Eq(step, time)) for time, count in by_step.items()))
at("alg2.update", "Algorithm 2, lines 12 and 13", "Differences that an estimate sums")(
    Identity(summed, step, counted_at, instances=tuple({step: time} for time in by_step)),
    "Algorithm 2 executed for moves of length 1 and kappa = 4. As printed, drift and time move on in the else branch "
    "only: a fresh gradient's step is taken again at once, and g_{t-1} with one more difference replaces it. Derived: "
    "both lines after both branches, as in Algorithm 3.",
    Severity.TYPOGRAPHICAL(
        "Lines 12 and 13 should stand below both branches, as lines 17 and 18 of Algorithm 3 do, and as drift_t in the "
        "proofs of Lemmas 7 and 8 has it. Printed in the else branch, no estimate carries a fresh gradient: it is "
        "overwritten in the next pass, and g_t sums t differences from an undefined g_0. Privacy is not touched, "
        "since both branches add their noise.",
        Mod(step - 1, 4),
    ),
)

squared_moves = symbol("sum |move|^2", "squared moves since the last fresh gradient", LENGTH**2)
example = {kappa: 1, way: 1, other_way: 1, radius: 1}
shares_region = {way: (1e-3, 1), other_way: (1e-3, 1), **{x: (0.1, 10) for x in (radius, kappa, U, chi)}}
at("lemma7.jump", "Lemma 7, proof, with Algorithm 1, line 11", "Drift when an attempt to escape is repeated")(
    Inequality(kappa * way + (radius * other_way) ** 2, kappa, shares_region, example=example, subject=squared_moves),
    "The moves that the drift counts, w kappa, and one jump back to the tested point, v of the radius S, since the "
    "last fresh gradient. The proof bounds the sum by kappa almost surely.",
    Severity.PROOF(
        "A repeated attempt begins at the tested point: the oracle is asked there after a point up to S away, and the "
        "drift, which adds eta^2 |g|^2, does not know of it. What the oracle's state is then is not said. With the "
        "actual move in the drift, or the state of the tested point restored, Lemma 7 stands; else S^2 is added.",
        kappa + radius**2,
    ),
)

lips = symbol("K", "number of steps since the last fresh gradient")
share = symbol("kappa/K", "drift of one of K steps", LENGTH**2, latex="\\kappa/K")
shared_drift = {share: kappa / lips}


def data_noise(clients: Any) -> Identity:
    """Return the data noise of the oracle, as printed in (8), or in (9) for the mean of clients."""
    printed = sqrt(G**2 * log(d) ** 2 / (clients * b1) + M**2 * log(d) ** 2 * kappa / (clients * b2))
    drift = lips * (M**2 * share * log(d) / b2) / clients  # K steps, over which the drift kappa is spread
    return Identity(sigma, printed, sqrt(log(d) * (clients * (G / clients) ** 2 * log(d) / b1 + drift)), shared_drift)


def gaussian_noise(clients: Any) -> Identity:
    """Return the Gaussian noise of the oracle, as printed in (8), or in (9) for the mean of clients."""
    fresh_part = G**2 * log(1 / delta) / (clients * b1**2 * epsilon**2)
    printed = sqrt(fresh_part + M**2 * log(1 / delta) * kappa / (clients * b2**2 * epsilon**2))
    spread = lips * (M**2 * share * log(1 / delta) / (b2 * epsilon) ** 2) / clients
    averaged = clients * (G / (clients * b1 * epsilon)) ** 2 * log(1 / delta)
    return Identity(r, printed, sqrt(averaged + spread), shared_drift)


at("lemma7.sigma", "Lemma 7, eq. (8)", "Data noise of the oracle")(
    data_noise(1),
    "Corollary 3 for a fresh gradient and the K differences since, which share the drift kappa; its constant put to 1.",
    premises=("lemma7.jump",),
)
at("lemma7.r", "Lemma 7, eq. (8)", "Gaussian noise of the oracle")(
    gaussian_noise(1),
    "Variances of Algorithm 2 add up over the K differences since the last fresh gradient; c_1 = c_2 = 1. An upper "
    "bound: (30) and (5) need one from below, which only the fresh gradient's noise gives.",
    premises=("lemma7.jump",),
)

increase = symbol("increase", "increase of the risk above -(eta/6)|g|^2", LOSS)
large = eta * (ratio * estimate / 3) * estimate - eta / 2 * estimate**2
at("lemma8.large", "Appendix E.2", "Decrease of a step with a large gradient")(
    Inequality(large, -eta / 6 * estimate**2, {ratio: (1e-3, 1)}, subject=increase),
    "eta |error| |g| - (eta/2)|g|^2, with an error of at most a third of |g|.",
)
small = eta * chi * estimate - eta / 2 * estimate**2 + eta / 6 * estimate**2
at("lemma8.small", "Appendix E.2", "Increase of a step with a small gradient")(
    Inequality(small, 5 * eta * chi**2, {chi: (1e-3, 1e3)}, subject=increase),
    "eta |error| |g| - (eta/2)|g|^2 against -(eta/6)|g|^2, as the sum over steps needs it; 3/4 would be enough for 5.",
)
counts = {"whole decrease": U * eta / kappa, "small gradients": ell * U / (eta * chi**2) * eta**2 * chi**2 / kappa}
at("lemma8", "Lemma 8", "Number of fresh gradients")(
    Rate(fresh, U * eta / kappa, counts, logs=(ell,)),
    "R kappa/(6 eta) - 5 T eta chi^2 <= U, with T of (72). The lemma says O, but T carries logarithms: O~.",
    premises=("lemma8.resets", "thm2.noise"),
)
fall = 4 * chi * radius + M * radius**2 / 2
total_decrease = symbol("total decrease", "sum of the decreases of all pieces of the path", LOSS)
example = {U: 1, N: 1, Q: 1, way: 1, other_way: 1, chi: 0.1, radius: 1, M: 1}
box = {**shares_region, N: (1, 100), Q: (1, 100)}
place = "Appendix E.2, the sum over all indices"
at("lemma8.resets", place, "Decrease of the risk over a path with repeated attempts")(
    Inequality(U * way + N * Q * fall * other_way, U, box, example=example, subject=total_decrease),
    "The sum telescopes to w U; at each of N Q jumps back to the tested point, where the gradient is at most 4 chi, "
    "the risk rises again by what the attempt had won, v (4 chi S + M S^2/2), which the pieces of the path may spend "
    "again.",
    Severity.PROOF(
        "The decreases are summed as if the path were one: when a failed attempt has won something, the jump back to "
        "the tested point loses it, and U bounds the sum only with these losses. The count of fresh gradients, O(U "
        "eta/kappa), is not proved: 4 chi S costs logarithms only, M S^2/2 could cost a power. A fresh gradient at "
        "every repeat would cost the rate.",
        U + N * Q * fall,
    ),
)


def bracket(count: Any, scale: Any) -> Any:
    """Return the expression under the root in (82), or (94)."""
    return (
        G**2 * U * eta / (count * kappa)
        + G**2 * d * U**2 * eta**2 / (scale**2 * kappa**2)
        + M**2 * U * kappa / (count * eta * chi**2)
        + M**2 * d * U**2 * kappa / (scale**2 * eta**2 * chi**4)
    )


def noise_terms(clients: Any) -> dict[str, Any]:
    """Return the four terms of the noise level of Lemma 7, or 9."""
    return {
        "fresh gradients: data": G / sqrt(clients * b1),
        "fresh gradients: privacy": G * sqrt(d) / (sqrt(clients) * b1 * epsilon),
        "differences: data": M * sqrt(kappa) / sqrt(clients * b2),
        "differences: privacy": M * sqrt(kappa * d) / (sqrt(clients) * b2 * epsilon),
    }


batches = {b1: n * kappa / (2 * U * eta), b2: n * eta * chi**2 / (2 * U)}  # as printed


def level_at_batches(count: Any, scale: Any, clients: Any) -> Rate:
    """Return the noise level at the printed batches: (82), or (94)."""
    levels = {name: (term**2).xreplace(batches) for name, term in noise_terms(clients).items()}
    return Rate(alpha**2, bracket(count, scale), levels, tilde=True)


single = (n, n * epsilon)
at("eq82", "eq. (82)", "Noise level at the printed batches")(
    level_at_batches(*single, 1), "The noise level of Lemma 7 with b_1 and b_2 put in."
)


def bracket_in_alpha(count: Any, scale: Any) -> Any:
    """Return the expression under the root in (83), or (95)."""
    return (
        G**2 * U * sqrt(rho) * sqrt(alpha) / (M**2 * count * kappa)
        + G**2 * d * U**2 * rho * alpha / (scale**2 * M**4 * kappa**2)
        + M**4 * U * kappa / (count * sqrt(rho) * alpha ** Rational(5, 2))
        + M**6 * d * U**2 * kappa / (scale**2 * rho * alpha**5)
    )


def level_in_alpha(count: Any, scale: Any) -> Identity:
    """Return the noise level in terms of alpha: (83), or (95)."""
    put_in = {chi: alpha, eta: sqrt(rho * alpha) / M**2}
    return Identity(alpha**2, bracket_in_alpha(count, scale), bracket(count, scale), where=put_in)


at("eq83", "eq. (83)", "Noise level in terms of alpha")(
    level_in_alpha(*single), "(82) with eta = sqrt(rho alpha)/M^2 and chi = alpha.", calculation=ROOT
)


def in_kappa(count: Any, scale: Any) -> tuple[Any, Any, Any, Any]:
    """Return the four members of the display below (83), or (95): the alpha at which each term equals alpha^2."""
    return (
        (G**2 * U * sqrt(rho) / (M**2 * count * kappa)) ** Rational(2, 3),
        G**2 * d * U**2 * rho / (scale**2 * M**4 * kappa**2),
        (M**4 * U * kappa / (count * sqrt(rho))) ** Rational(2, 9),
        (M**6 * d * U**2 * kappa / (scale**2 * rho)) ** Rational(1, 7),
    )


below = {f"term {k}": term / alpha**2 for k, term in enumerate(Add.make_args(bracket_in_alpha(*single)))}
at("appE.3.alpha", "Appendix E.3, below (83)", "Noise level, solved for alpha")(
    Rate(alpha, Add(*in_kappa(*single)), {"alpha": alpha}, (alpha,), below, tilde=True),
    "alpha^2 is at least each of the four terms of (83).",
)

as_read = (
    " The text that was read shows sqrt(mn) epsilon; it is sqrt(m) n epsilon by (94), and by Remark 2: a square root "
    "term sqrt(m) before n."
)


def sampling_error(count: Any) -> Any:
    """Return the part of the error that comes from sampling, for `count` examples."""
    return (G * U * M / count) ** one_third


def private_error(scale: Any) -> Any:
    """Return the part of the error that comes from privacy; `scale` is n epsilon, times sqrt(m) for m clients."""
    constants = G ** Rational(2, 15) * U ** Rational(2, 5) * M ** Rational(8, 15) / rho ** Rational(1, 15)
    return constants * (sqrt(d) / scale) ** Rational(2, 5)


tuned = (alpha, eta, kappa, b1, b2)
ones = (G, M, rho, U)  # the paper's rates set them to 1


def rate_terms(clients: Any = 1, step: Any = None, logs: Any = 1) -> dict[str, Any]:
    """Return the conditions of the proofs of Theorems 2 and 3: every entry is at most 1, up to constants.

    The error alpha of Theorem 1 is at least the noise level of Lemma 7 (or 9). The fresh gradients of Lemma 8 and the
    steps of (72) share n examples. The step size is that of (4), unless `step` gives another one.
    """
    step = sqrt(rho * alpha) / (logs**2 * M**2) if step is None else step
    return {
        **{name: logs**6 * term**2 / alpha**2 for name, term in noise_terms(clients).items()},
        "examples for fresh gradients": logs**5 * b1 * U * eta / (kappa * n),
        "examples for differences": logs**5 * b2 * U / (eta * alpha**2 * n),
        "step size": eta / step,
    }


def small_errors(count: Any, scale: Any) -> dict[str, Any]:
    """Return the conditions that both errors are below (G^2 M^2/rho)^{1/3}, as any error below G and M^2/rho is."""
    bound = (G**2 * M**2 / rho) ** one_third
    return {"sampling error small": sampling_error(count) / bound, "privacy error small": private_error(scale) / bound}


def thresholds(count: Any, scale: Any, power: Any) -> tuple[Any, Any]:
    """Return the two members of kappa as printed, with the given power of d."""
    constants = G ** Rational(14, 15) * U ** Rational(4, 5) * rho ** Rational(8, 15) / M ** Rational(34, 15)
    sampling = G ** Rational(3, 2) * sqrt(U) * sqrt(rho) / (M ** Rational(5, 2) * sqrt(count))
    return sampling, constants * d**power / scale ** Rational(4, 5)


def mixed_error(count: Any, scale: Any) -> Any:
    """Return the term that Theorems 2 and 3 lose: data noise of fresh gradients times privacy noise of differences."""
    return (G**2 * M**4 * U**3 * d / (sqrt(rho) * count * scale**2)) ** Rational(2, 17)


def choice(count: Any, scale: Any, clients: Any, error: Any, threshold: Any) -> Choice:
    """Return the parameters as printed, for a given error and threshold kappa."""
    step = sqrt(rho * alpha) / M**2
    shares = {"step size": eta / step, "examples": (b1 * U * eta / kappa + b2 * U / (eta * alpha**2)) / n}
    chosen = {
        alpha: error,
        eta: step,
        kappa: threshold,
        **{b: size.xreplace({chi: alpha}) for b, size in batches.items()},
    }
    return Choice(chosen, noise_terms(clients), alpha, shares, small_errors(count, scale))


def balanced_threshold(count: Any, scale: Any) -> Any:
    """Return the least kappa at which fresh gradients are accurate enough."""
    return G**2 * U * eta / (count * alpha**2) + G * sqrt(d) * U * eta / (scale * alpha)


# The number of fresh gradients, the drift that the oracle knows, and noise that is fresh in every step.
PROOF_OF_RATES = ("lemma8", "lemma7.jump", "thm2.noise")


def rates(
    at: Section, place: str, appendix: str, count: Any, scale: Any, clients: Any, rate: Calculator, samples: Calculator
) -> None:
    """Add the claims of Theorem 2, or of its extension Theorem 3."""
    number = place[-1]
    reading = "" if clients == 1 else as_read
    printed = count**-one_third + (sqrt(d) / scale) ** Rational(2, 5)
    full = sampling_error(count) + private_error(scale)
    plain = {"privacy error small": sqrt(d) / scale}
    # The logarithms are hidden by the O, and dropped in (82).
    balance: dict[str, Any] = {"terms": {"alpha": alpha}, "tuned": tuned, "logs": (ell,)}
    balance["constraints"] = rate_terms(clients)
    members = in_kappa(count, scale)
    sampling, privacy = thresholds(count, scale, Rational(2, 5))
    lost = (
        "The proof balances the terms of like kind, data noise against data noise, and privacy noise against privacy "
        "noise, and takes the maximum of the two kappas. At this maximum the privacy noise of the differences, at the "
        "kappa of the data noise, is not covered. The best kappa leaves a third term, "
    )
    third = "(d/(n (n epsilon)^2))^(2/17)" if clients == 1 else "(d/(m n (sqrt(m) n epsilon)^2))^(2/17)"
    at(place, f"Theorem {number}", f"Rate of Theorem {number}")(
        Rate(alpha, printed, regime=plain, normalised=ones, **balance),
        "The noise of the oracle (Lemma 7 or 9), the number of fresh gradients (Lemma 8), the number of steps (72) "
        "and the step size (4); alpha, eta, kappa, b_1 and b_2 are chosen as well as possible." + reading,
        Severity.RATE(
            f"{lost}{third}, which is the largest where p = sqrt(d)/(n epsilon) is between n^(-11/12) and n^(-5/7) "
            "(for one client).",
            printed + (d / (count * scale**2)) ** Rational(2, 17),
        ),
        calculation=rate,
        premises=PROOF_OF_RATES,
    )
    at(f"{place}.kappa.sampling", f"Theorem {number}", "First member of kappa")(
        Crossover(members[0], members[2], kappa, sampling),
        "Data noise of fresh gradients and of differences, in the display that solves for alpha.",
    )
    at(f"{place}.kappa.privacy", f"Theorem {number}", "Second member of kappa")(
        Crossover(members[1], members[3], kappa, privacy),
        "Privacy noise of fresh gradients and of differences, in the display that solves for alpha." + reading,
    )
    at(f"{place}.constants", f"{appendix}, last display", f"Rate of Theorem {number} with its constants")(
        Rate(alpha, full, regime=small_errors(count, scale), **balance),
        f"As Theorem {number}, with G, M, rho and U; alpha below (G^2 M^2/rho)^(1/3), as it is whenever it is at most "
        "G and M >= sqrt(rho alpha)." + reading,
        Severity.RATE(f"The term (G^2 M^4 U^3/sqrt(rho))^(2/17) {third} is lost.", full + mixed_error(count, scale)),
        calculation=samples,
        premises=PROOF_OF_RATES,
    )
    at(f"{place}.parameters", f"Theorem {number}", f"Parameters of Theorem {number}")(
        choice(count, scale, clients, full, Max(sampling, privacy)),
        "b_1, b_2 and kappa as printed, with chi for alpha up to constants." + reading,
        Severity.RATE(
            "The printed kappa does not reach the stated rate. kappa = G^2 U eta/(n alpha^2) + G sqrt(d) U eta/(n "
            "epsilon alpha), in terms of the error alpha and eta = sqrt(rho alpha)/M^2, reaches the corrected one, "
            "which no kappa improves.",
            choice(count, scale, clients, full + mixed_error(count, scale), balanced_threshold(count, scale)),
        ),
        calculation=rate,
        premises=PROOF_OF_RATES,
    )


rates(at, "thm2", "Appendix E.3", *single, Integer(1), RATE, SAMPLES)

example = {G: 1, M: 1, rho: 1, U: 1, epsilon: 1, n: 1, d: 10**15}
_, fresh_side, _, differences_side = in_kappa(*single)
in_proof, in_theorem = (thresholds(*single, power)[1] for power in (Rational(2, 3), Rational(2, 5)))
at("appE.3.kappa", "Appendix E.3", "Second member of kappa, in the proof")(
    Crossover(fresh_side, differences_side, kappa, in_proof, example=example),
    "As in Theorem 2, where the power of d is 2/5.",
    Severity.TYPOGRAPHICAL("The power of d should be 2/5, as in the theorem.", in_theorem),
)

term = symbol("i", "one of the differences", domain=COUNT)
since = symbol("k", "number of differences since the last fresh gradient", domain=COUNT)
now, then = (sigma**2 + Sum(r**2, (term, 1, last)) for last in (since, since + 1))
name = symbol("corr", "correlation of the noise after k and after k + 1 differences", latex="\\mathrm{corr}")
example = {sigma: 1, r: 1}
at("thm2.noise", "eq. (3) and Condition 1, as Theorem 2 uses them", "Correlation of the noise of two steps")(
    Identity(name, Integer(0), now / sqrt(now * then), instances=({since: 1}, {since: 5}), example=example),
    "Algorithm 2 adds to the noise of the last fresh gradient, of variance sigma^2, that of each difference, of "
    "variance r^2 here: steps k and k + 1 after it share all but the last.",
    Severity.PROOF(
        "Lemmas 1, 13, 18 and 19, and Corollary 2, take the noise of each step to be fresh, with mean 0 given the "
        "past; that of Algorithm 2 is a sum, nearly the same from step to step. Lemma 4 survives, by Cauchy-Schwarz; "
        "for Lemmas 1 and 18 a version for sums of martingale differences is missing.",
        sqrt((sigma**2 + since * r**2) / (sigma**2 + (since + 1) * r**2)),
    ),
)

all_steps = Rational(5, 4) * U * s**2 * mu**4 * ell / (chi**2 * eta)
counted = 6 * eta / kappa * (U + 5 * all_steps * eta * chi**2)
used = (b1 * counted).xreplace(batches), (b2 * all_steps).xreplace(batches)
used_examples = symbol("n_used", "examples that are used", latex="n_{used}")
at("thm2.budget", "Appendix E.3, first lines", "Examples that are used")(
    Rate(used_examples, n, {"fresh gradients": used[0], "differences": used[1]}, logs=(ell, mu), normalised=(s,)),
    "b_1 R + b_2 T with T of (72), where ell stands for its logarithm, and R = (6 eta/kappa)(U + 5 T eta chi^2) of "
    "Lemma 8's proof, at the printed batches; the paper counts O(n). In numbers it is ((75/4 + 5/8) s^2 mu^4 ell + 3) "
    "n: batches smaller by that, n/(2 R_max) and n/(2 T_max), use n, and a guard stops where the examples run out.",
    premises=("lemma8",),
)
