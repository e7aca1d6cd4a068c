"""Avdiukhin, Dinitz, Fan and Yaroslavtsev (2024), "Noise is All You Need ...": its claims, checked.

Letters are the paper's (`notation`). An O with a tilde in Section 3 hides powers of L, rho and f_max and logarithms.
Results of our own, marked as derived here, have their proofs in docs/derivations/noisy_sgd.md.
"""

from typing import Any

import sympy
from sympy import E, Integer, Max, Min, Rational, exp, log, sqrt

from dpnotes.papers.noisy_sgd import calculators, lemmas
from dpnotes.papers.noisy_sgd.notation import (
    ABOVE_ONE,
    FROM_ONE,
    GRADIENT,
    PAPER,
    SCALES,
    SYMBOLS,
    B,
    C,
    Delta,
    L,
    T,
    alpha,
    c,
    c_1,
    c_2,
    c_eta,
    c_F,
    c_I,
    c_R,
    d,
    decrease,
    delta,
    delta_t,
    eigenvalue,
    ell,
    epsilon,
    escape,
    eta,
    f_max,
    first_share,
    gamma,
    n,
    radius,
    rho,
    second_share,
    sigma,
    small,
    third_share,
    total,
)
from dpnotes.theory.asymptotics import Ratio
from dpnotes.theory.claims import Claim, Severity
from dpnotes.theory.inequalities import Inequality, Monotone
from dpnotes.theory.rates import Choice, Crossover, Rate
from dpnotes.theory.statements import Identity, Reason, Uncheckable
from dpnotes.theory.symbols import UNIT_INTERVAL, Domain
from dpnotes.theory.units import LENGTH, LOSS

# ---------------------------------------------------------------- what the proofs start from
_L = log(1 / delta)
_PRIVATE = c_2 * C * sqrt(T * _L) / (n * epsilon)  # Delta of Theorems 3.1 and 3.3
_VARIANCE = sigma**2 / B + d * Delta**2
_DESCENT = f_max / (eta * T * alpha**2)
rate = SYMBOLS.symbol("q", "sampling rate, the share of the data in a batch", domain=UNIT_INTERVAL)
_SAMPLED = {rate: B / n}
_MULTIPLIER = c_2 * rate * sqrt(T * _L) / epsilon  # Abadi et al.: on the sum of B gradients of norm C, times C
_MOMENTS = {  # what must be at most 1 so that half of the iterates are alpha-SOSP (Lemmas B.3 and B.5)
    "descent": _DESCENT,
    "noise in the descent": eta * L * _VARIANCE / alpha**2,
    "step size": eta * L,
    "minibatch noise": sigma**2 / (B * Delta**2),
}


def _privacy(bound: Any) -> Any:
    """The noise that privacy asks for, over the noise."""
    return bound**2 * T * ell / (n * epsilon * Delta) ** 2


_TUNED = (alpha, eta, T, Delta)
_WINDOW = {"window of epsilon": epsilon * n**2 / (T * B**2)}
_CURVATURE = {"eigenvalues below -sqrt(rho alpha) are possible, with a logarithm to spare": ell * sqrt(rho * alpha) / L}
_BOUND = sqrt(L * f_max) + sigma * sqrt(ell)
_SMALL_SIGMA = {"sigma <= sqrt(L f_max)": sigma / sqrt(L * f_max)}
_DATA = {"sqrt(d) <= n epsilon": sqrt(d) / (n * epsilon)}
_ALL_DATA = {"sigma sqrt(d) <= sqrt(L f_max) n epsilon": sigma * sqrt(d) / (sqrt(L * f_max) * n * epsilon)}
_RATE = d ** Rational(1, 4) / sqrt(n * epsilon)
_OF_F = sqrt(L * f_max) * _RATE
_OF_SIGMA = sqrt(sigma) * (L * f_max) ** Rational(1, 4) * _RATE


def _accuracy(value: Any, bound: Any, **more: Any) -> Rate:
    """The least alpha, with everything else tuned."""
    constraints = {"privacy": _privacy(bound), **_MOMENTS, **more.pop("constraints", {})}
    options = {"logs": (ell,), "order": "Omega", **more}
    return Rate(alpha, value, {"alpha": alpha}, _TUNED, constraints, **options)


# ---------------------------------------------------------------- Theorem 1.1
def _calls(value: Any, **more: Any) -> Rate:
    subject = SYMBOLS.symbol("TB", "number of stochastic gradients", latex="T B")
    constraints = {**_MOMENTS, "batch": B / n, "privacy": _privacy(_BOUND), **_WINDOW}
    tuned = (eta, T, Delta, B)
    return Rate(subject, value, {"calls": T * B}, tuned, constraints, logs=(ell,), **more)


def _informal() -> tuple[Claim, ...]:
    return (
        PAPER.claim(
            "thm1.1.alpha",
            "Accuracy, informally",
            "Theorem 1.1",
            _accuracy(_RATE, _BOUND, normalised=(L, rho, f_max, sigma)),
            "The balance of Theorem 3.5 with L, rho, f_max and sigma of order 1.",
        ),
        PAPER.claim(
            "thm1.1.calls",
            "Number of stochastic gradients, informally",
            "Theorem 1.1",
            _calls(sigma**2 / alpha**4, normalised=(L, rho, f_max, ell)),
            "T B of Theorem 3.5, of which T is f_max/(eta alpha^2), the step size is at most alpha^2 over L times the "
            "variance, and Delta^2 is at least sigma^2/B.",
            erratum=PAPER.erratum(
                Severity.RATE,
                "T B is at least 64 L f_max (sigma^2/B + d Delta^2) B/(c_eta alpha^4), and Delta^2 >= sigma^2/B makes "
                "that d sigma^2/alpha^4 and more: the factor d is not avoided, it hides in the variance of the noise. "
                "The window of epsilon, T >= epsilon n^2/B^2, with T >= L f_max/alpha^2 asks for n sqrt(epsilon L "
                "f_max)/alpha, even at the best batch.",
                _calls(
                    L * f_max * d * sigma**2 / alpha**4 + n * sqrt(epsilon * L * f_max) / alpha,
                    regime={"epsilon <= 1": epsilon, "alpha <= sqrt(L f_max)": alpha / sqrt(L * f_max)},
                ),
            ),
        ),
    )


# ---------------------------------------------------------------- Section 3.1: privacy
_e_eps = SYMBOLS.symbol("K", "e^epsilon", latex="e^{\\varepsilon}", domain=ABOVE_ONE)
p = SYMBOLS.symbol("p", "probability of an event under D', with clipping", domain=UNIT_INTERVAL)
q = SYMBOLS.symbol("q", "probability of an event under D, with clipping", domain=UNIT_INTERVAL)
u = SYMBOLS.symbol("u", "probability that clipping acts under D", domain=UNIT_INTERVAL)
v = SYMBOLS.symbol("v", "probability that clipping acts under D'", domain=UNIT_INTERVAL)
_PROBABILITIES = {
    _e_eps: (1.01, 30), p: (0.05, 0.9), q: (0.05, 0.95), u: (1e-3, 0.1), v: (1e-3, 0.1), delta: (1e-3, 0.1)
}  # fmt: skip
_CLIPPED_IS_PRIVATE = (q <= _e_eps * p + delta, 1 - p <= _e_eps * (1 - q) + delta)
_COUPLED = (u <= delta, v <= delta)
_TIGHT = {_e_eps: 3, p: 0.2, q: 0.61, u: 0.01, v: 0.01, delta: 0.01}
_HOCKEY_STICK = SYMBOLS.symbol("delta(A_2)", "delta of Algorithm 2", latex="\\delta(\\mathbb{A}_2)")
_UNCLIPPED = (q + u) - _e_eps * (p - v)


_SPENT = SYMBOLS.symbol("s", "share of delta that clipped SGD uses up", domain=UNIT_INTERVAL)
_MOVED = {x: SYMBOLS.symbol(f"s_{x}", "share of delta by which clipping acts", domain=UNIT_INTERVAL) for x in (u, v)}


def _refuted_delta(bound: Any, quantity: Any, conditions: Any, example: Any) -> Inequality:
    region = {s: ends for s, ends in _PROBABILITIES.items() if s in quantity.free_symbols | {delta}}
    return Inequality(quantity, bound, region, conditions=conditions, example=example, subject=_HOCKEY_STICK)


def _provable_delta(bound: Any, quantity: Any) -> Inequality:
    """With the facts of the proof put in as shares of delta; whatever probabilities they leave."""
    facts = {q: _e_eps * p + _SPENT * delta, **{x: share * delta for x, share in _MOVED.items()}}
    region = {**_PROBABILITIES, **{share: (1e-3, 1) for share in (_SPENT, *_MOVED.values())}}
    return Inequality(quantity, bound, region, where=facts, subject=_HOCKEY_STICK)


_PRINTED_C = 2 * sqrt(L * f_max) + c * (
    L * sqrt(log(T / delta)) + sigma * sqrt(log(n * T)) + sqrt(sigma * log(1 / delta))
)
_SPREAD = sigma * sqrt(log(1 + (E - 1) * n))
_AT_THE_CHOICE = {T: 64 * f_max / (eta * alpha**2), eta: c_eta * alpha**2 / (L * total**2)}
_LARGEST = SYMBOLS.symbol(
    "max|grad f_i|", "largest gradient of a sample", GRADIENT, latex="\\max_{i,t} \\|\\nabla f_i(x_t)\\|"
)
# Lemma B.2 for all t <= T bounds f(x_t) - f(x*); smoothness turns that into a gradient; Assumption B adds the spread.
_REACHED = sqrt(2 * L * (f_max + c * eta * total**2 * (eta * L * T + ell))) + _SPREAD
_CORRECT_C = sqrt(2 * L * f_max * (1 + 64 * c * c_eta)) + alpha * sqrt(2 * c * c_eta * ell) + _SPREAD
_GRADIENTS = {
    c: (0.1, 10), c_eta: (1e-3, 1), L: (0.1, 10), f_max: (1e-8, 10), alpha: (1e-6, 10), ell: (1, 30),
    sigma: (1e-6, 10), n: (2, 1e6), T: (10, 1e6), delta: (1e-8, 0.1), eta: (1e-6, 1), total: (0.1, 10)
}  # fmt: skip


def _bound_of_gradients(bound: Any) -> Inequality:
    return Inequality(_REACHED, bound, _GRADIENTS, where=_AT_THE_CHOICE, subject=_LARGEST)


def _noise_for_bound(bound: Any) -> Identity:
    """The noise of Theorem 3.1 at a gradient bound, against that at the bound that holds."""
    stated = c_2 * bound * sqrt(T * _L) / (n * epsilon)
    return Identity(Delta, stated, _MULTIPLIER * C / B, where={**_SAMPLED, C: _CORRECT_C})


_OBJECTIVE_NOISE = {"noise in the objective": eta**2 * L * T * total**2}
_CONTRACTION = 1 - eta * L


_squared = SYMBOLS.symbol("y", "squared norm over the variance of a coordinate")
_index = SYMBOLS.symbol("k", "index of a sum", domain=d.domain)
# P(chi^2 > y) in an even number d of dimensions.
_TERM = (_squared / 2) ** _index / sympy.factorial(_index)
_CHI_SQUARED = exp(-_squared / 2) * sympy.Sum(_TERM, (_index, 0, d / 2 - 1))


def _large_gradients(tail: Any, squared: Any) -> Inequality:
    """Some gradient out of T - 1 independent ones is above C, with probability at most delta."""
    return Inequality(
        1 - (1 - tail) ** (T - 1),
        delta,
        {n: (100, 1e5), T: (10, 1e5), epsilon: (0.1, 8), c_2: (1, 1), delta: (1e-8, 0.1)},
        where={_squared: squared},
        instance={d: 100},
        example={n: 1000, T: 1000, epsilon: 1, c_2: 1, delta: 1e-5},
        subject=SYMBOLS.symbol("P[max|grad f(x_t)| > C]", "probability that a gradient is large"),
    )


def _private_sgd() -> tuple[Claim, ...]:
    above = SYMBOLS.symbol("f(x_t)-f*", "objective above its minimum", LOSS, latex="f(x_t) - f^*")
    noisy_gradient = SYMBOLS.symbol(
        "E|grad|^2", "mean squared gradient", GRADIENT**2, latex="\\mathbb{E}\\|\\nabla f(x_t)\\|^2"
    )
    quadratic = {
        n: (100, 1e5), B: (1, 1e3), T: (10, 1e5), d: (1, 1e6), epsilon: (0.1, 8), ell: (2, 20), C: (0.1, 10),
        c_1: (1, 1), c_2: (1, 1)
    }  # fmt: skip
    return (
        PAPER.claim(
            "thm3.1",
            "Clipped SGD is private",
            "Theorem 3.1",
            Uncheckable("clipped SGD with this noise is (epsilon, delta)-DP", Reason.CITED),
            "Abadi et al. (2016), Theorem 1.",
        ),
        PAPER.claim(
            "thm3.1.noise",
            "Noise of clipped SGD",
            "Theorem 3.1",
            Identity(Delta, _PRIVATE, _MULTIPLIER * C / B, where=_SAMPLED),
            "Abadi et al. (2016): noise multiplier c_2 q sqrt(T ln(1/delta))/epsilon at sampling rate q = B/n, on the "
            "sum of B gradients of norm at most C; divided by B for the mean.",
            calculation=calculators.PRIVACY_NOISE,
        ),
        PAPER.claim(
            "thm3.1.window",
            "Window of epsilon",
            "Theorem 3.1",
            Identity(epsilon, c_1 * T * B**2 / n**2, c_1 * rate**2 * T, where=_SAMPLED),
            "Abadi et al. (2016): epsilon < c_1 q^2 T at q = B/n.",
        ),
        PAPER.claim(
            "lemma3.2.gradient",
            "The part of the gradient bound without noise",
            "Lemma 3.2",
            Identity(
                C,
                2 * sqrt(L * f_max),
                sqrt(above / (eta - L * eta**2 / 2)),
                where={above: 2 * f_max, eta: 1 / L},
            ),
            "A step of length eta |grad f| decreases f by at least (eta - L eta^2/2) |grad f|^2, most at eta = 1/L, "
            "and by no more than f is above its minimum, which the paper allows to be 2 f_max.",
        ),
        PAPER.claim(
            "lemma3.2.bound",
            "Bound of the gradients",
            "Lemma 3.2",
            _bound_of_gradients(_PRINTED_C),
            "Lemma B.2 for all t <= T at the step size of Definition B.1, |grad f|^2 <= 2 L (f - f*), and the spread "
            "of samples under Assumption B; ell = ln(T/delta), c is the constant of Lemma B.2.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "L sqrt(log(T/delta)) and sqrt(sigma log(1/delta)) are no gradients: the bound is not homogeneous, and "
                "changes when lengths are measured in other units. In its place, at the step size of Definition B.1, "
                "sqrt(2 L f_max (1 + 64 c c_eta)) + alpha sqrt(2 c c_eta log(T/delta)) + sigma sqrt(log(1 + (e-1) n)) "
                "holds, and includes the privacy noise. (The source, Proposition 4.3 of Fang et al. (2023), was not "
                "compared.)",
                _bound_of_gradients(_CORRECT_C),
            ),
            calculation=calculators.GRADIENT_BOUND,
        ),
        PAPER.claim(
            "lemma3.2.step",
            "Step size of the gradient bound",
            "Lemma 3.2 and Theorem 3.3",
            Choice({eta: 1 / (sigma * sqrt(T))}, _OBJECTIVE_NOISE, f_max),
            "The second of the two step sizes; the first is 1/L. The noise adds eta^2 L T times the variance to the "
            "objective (Lemma B.2), which may be of the order f_max.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "1/(sigma sqrt(T)) is no step size unless lengths are normalised. Homogeneous, and enough to keep the "
                "objective within O(f_max): sqrt(f_max/(L T)) over the root of the total noise variance, "
                "which includes the privacy noise.",
                Choice({eta: sqrt(f_max / (L * T)) / total}, _OBJECTIVE_NOISE, f_max),
            ),
        ),
        PAPER.claim(
            "lemma3.2.noise",
            "The gradient bound and the privacy noise",
            "Lemma 3.2, as used in Theorem 3.3",
            Inequality(
                d * Delta**2,
                C**2,
                quadratic,
                where={Delta: c_2 * C * sqrt(T * ell) / (n * epsilon)},
                conditions=(epsilon < c_1 * T * B**2 / n**2,),
                example={n: 1000, B: 100, T: 1000, d: 1000, epsilon: 1, ell: 11.5, C: 1, c_1: 1, c_2: 1},
                subject=noisy_gradient,
            ),
            "f_i = L |x|^2/2 + <a_i, x> with eta = 1/L = 1/(sigma sqrt(T)), which the lemma allows: after one step the "
            "gradient is minus the last noise (and the a_i), whose mean square is d Delta^2; Delta of Theorem 3.3.",
            erratum=PAPER.erratum(
                Severity.RATE,
                "Neither the step size nor the bound of Lemma 3.2 knows the privacy noise Delta, but Theorem 3.3 uses "
                "it for Algorithm 2, which adds that noise. At eta = 1/L on a quadratic, gradients are as large as "
                "Delta sqrt(d), above C as soon as d T log(1/delta) > (n epsilon)^2 (up to constants): then P(E) is "
                "about 0, not 1 - delta, and the proof says nothing. (Privacy holds there for another reason, see "
                "own.sensitivity.) At the smaller step size of Theorem 3.5 the stationary gradient on the quadratic "
                "stays below alpha.",
                Inequality(
                    (eta * L * Delta) ** 2 * d / (1 - _CONTRACTION**2),
                    alpha**2 / 2,
                    {alpha: (1e-6, 10), L: (0.1, 10), sigma: (1e-6, 10), Delta: (0.01, 10), d: (1, 1e6), B: (1, 1e3)},
                    where={eta: alpha**2 / (L * (alpha**2 + _VARIANCE))},
                    subject=noisy_gradient,
                ),
            ),
        ),
        PAPER.claim(
            "lemma3.2.probability",
            "Probability that no gradient is large",
            "Lemma 3.2, as used in Theorem 3.3",
            _large_gradients(_CHI_SQUARED, (n * epsilon / c_2) ** 2 / (T * _L)),
            "f = L |x|^2/2 from its minimum, in 100 dimensions: at eta = 1/L the gradient is minus the last noise, so "
            "that |grad f(x_t)|^2/Delta^2 has a chi-squared law, independently in each of T - 1 iterations; Delta of "
            "Theorem 3.3. (In the example the window of epsilon is met by B = 100, c_1 = 1.)",
            erratum=PAPER.erratum(
                Severity.RATE,
                "See lemma3.2.noise: at the step sizes that the lemma allows a large gradient may be certain. At those "
                "of Theorem 3.5, the stationary gradient on this quadratic exceeds alpha sqrt(log(1/delta_t)) with "
                "probability delta_t at most.",
                Inequality(
                    _CHI_SQUARED,
                    delta_t,
                    {alpha: (1e-3, 10), Delta: (0.01, 10), sigma: (1e-3, 10), B: (1, 1e3), delta_t: (1e-40, 0.3)},
                    where={
                        _squared: alpha**2 * log(1 / delta_t) * (2 - eta * L) / (eta * L * Delta**2),
                        eta: alpha**2 / (L * (alpha**2 + _VARIANCE)),
                    },
                    instance={d: 100},
                    subject=SYMBOLS.symbol(
                        "P[|grad f(x_t)| > alpha*sqrt(log(1/delta_t))]", "probability that one gradient is large"
                    ),
                ),
            ),
        ),
        PAPER.claim(
            "thm3.3.privacy",
            "Privacy without clipping, as it is argued",
            "Theorem 3.3, with its proof",
            _refuted_delta(2 * delta, _UNCLIPPED, (*_CLIPPED_IS_PRIVATE, *_COUPLED), _TIGHT),
            "The proof's two facts: Algorithm 1 is (epsilon, delta)-DP, and for each data set the two algorithms "
            "differ with probability at most delta. K = e^epsilon; the event has probabilities q and p with "
            "clipping, at most u more under D and v less under D' without.",
            erratum=PAPER.erratum(
                Severity.RATE,
                "Conditioning on the event that no gradient is large is not privacy conditioned on it. The two facts "
                "give (epsilon, delta + (1 + e^epsilon) delta), and no better: (0.61, 0.20) is (ln 3, 0.01)-DP, and "
                "moving 0.01 on each side gives 0.62 - 3 * 0.19 = 0.05, not 0.02. (epsilon, 2 delta) can be saved by "
                "an event of the transcript that involves the samples of both data sets; the gradient "
                "bound must then hold for the exchanged sample, too, and Assumptions A and B for both data sets, which "
                "the theorem does not state (own.transcript). What falls is the argument: for batches of a fixed "
                "size, as Algorithm 2 has them, (epsilon, delta) follows from Assumption B alone "
                "(own.sensitivity).",
                _provable_delta(delta + (1 + _e_eps) * delta, _UNCLIPPED),
            ),
            calculation=calculators.TOTAL_DELTA,
        ),
        PAPER.claim(
            "thm3.3.noise",
            "Noise without clipping",
            "Theorem 3.3",
            _noise_for_bound(_PRINTED_C),
            "The noise of Theorem 3.1 with the gradient bound in place of the clipping threshold.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "As in Lemma 3.2, the printed C is not homogeneous, and it does not cover the noise itself.",
                _noise_for_bound(_CORRECT_C),
            ),
        ),
        PAPER.claim(
            "thm3.5.privacy",
            "Privacy in the proof of Theorem 3.5",
            "Theorem 3.5, proof",
            _refuted_delta(delta, (q + u) - _e_eps * p, (*_CLIPPED_IS_PRIVATE, u <= delta), {
                _e_eps: 3, p: 0.2, q: 0.61, u: 0.01, delta: 0.01
            }),
            "The proof says (epsilon, delta), of Algorithm 2, by Theorem 3.3; even the transcript argument adds the "
            "probability u of a large gradient.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "(epsilon, delta) should be (epsilon, 2 delta), as in Theorem 3.3 and in the statement of Theorem 3.5.",
                _provable_delta(2 * delta, (q + u) - _e_eps * p),
            ),
        ),
    )  # fmt: skip


# ---------------------------------------------------------------- Section 3.2: convergence
slope = SYMBOLS.symbol("g", "gradient norm of an iterate", GRADIENT)
growth = SYMBOLS.symbol(
    "G", "growth of the distance from a saddle point", latex="e^{\\mathcal{I}\\eta\\sqrt{\\rho\\alpha}}"
)
_DISTANCE = sympy.Symbol("x", positive=True)
longer = SYMBOLS.symbol("w", "a factor", domain=FROM_ONE)
c_B4 = SYMBOLS.symbol("c_B4", "constant of Lemma B.4: at least 16 by its proof", latex="c_{B.4}")
c_B9 = SYMBOLS.symbol("c_B9", "constant of Lemmas B.9 and B.10", latex="c_{B.9}")
_QUANTITIES = {
    eta: (1e-4, 1), L: (0.1, 10), alpha: (0.01, 10), rho: (0.01, 10), total: (0.01, 10), c_F: (0.01, 1),
    c_I: (1, 10), slope: (0.01, 10), gamma: (0.01, 10)
}  # fmt: skip
_NOISE_TERMS = {"privacy": c_2 * C * sqrt(T * ell) / (n * epsilon)}
_ITERATION = {"descent": f_max / (eta * T), "noise": eta * L * _VARIANCE, "concentration": _VARIANCE * ell / T}


_CHEBYSHEV = {"Chebyshev": sigma**2 * T / (B * delta * Delta**2)}  # Lemma C.2 at delta_t = delta/T


def _chebyshev(value: Any) -> Rate:
    return Rate(Delta, value, {"Delta": Delta}, (Delta,), _CHEBYSHEV, order="Omega")


def _convergence() -> tuple[Claim, ...]:
    norm_of_noise = SYMBOLS.symbol("|xi|", "norm of the noise", GRADIENT, latex="\\|\\xi_t\\|")
    progress = SYMBOLS.symbol("FT/2I", "decrease over all iterations", LOSS, latex="\\mathcal{F}T/(2\\mathcal{I})")
    iterations = SYMBOLS.symbol("T", "number of iterations")
    return (
        PAPER.claim(
            "sec3.2.noise",
            "The noise is large compared with the gradients",
            "Section 3.2",
            Inequality(
                sqrt(d) * Delta,
                C,
                {c_1: (1, 1), c_2: (1, 1), C: (0.1, 10), d: (1, 1e6), B: (1, 1e4), epsilon: (0.1, 8), ell: (2, 20),
                 n: (1e4, 1e6), longer: (1, 100)},
                ">=",
                where={Delta: c_2 * C * sqrt(T * ell) / (n * epsilon), T: longer * epsilon * n**2 / (c_1 * B**2)},
                example={c_1: 1, c_2: 1, C: 1, d: 10_000, B: 1000, epsilon: 1, ell: 11.5, n: 50_000, longer: 1},
                subject=norm_of_noise,
            ),
            "Delta of Theorem 3.3 at T = w epsilon n^2/(c_1 B^2), the window of epsilon; C bounds the gradients.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The norm of the noise is C sqrt(d) times sqrt(T log(1/delta))/(n epsilon), a factor that may be as "
                "small as sqrt(log(1/delta)/epsilon)/B (up to constants). With a large batch the noise is smaller than "
                "the gradients. The analysis only needs Delta^2 >= sigma^2/B (up to logarithms).",
                Inequality(
                    sqrt(d) * Delta,
                    c_2 * C * sqrt(d * ell / (c_1 * epsilon)) / B,
                    {c_1: (0.1, 10), c_2: (0.1, 10), C: (0.1, 10), d: (1, 1e6), B: (1, 1e4), epsilon: (0.1, 8),
                     ell: (2, 20), n: (1e4, 1e6), longer: (1, 100)},
                    ">=",
                    where={Delta: c_2 * C * sqrt(T * ell) / (n * epsilon), T: longer * epsilon * n**2 / (c_1 * B**2)},
                ),
            ),
        ),
        PAPER.claim(
            "sec3.2.iterations",
            "Iterations for a given total variance",
            "Section 3.2",
            Rate(
                iterations,
                total**2 / alpha**4,
                {"iterations": T},
                (T, eta),
                {"descent": _DESCENT, "noise in the descent": eta * L * total**2 / alpha**2},
                logs=(ell,),
                normalised=(L, rho, f_max),
            ),
            "No factor d beyond the one in the total variance; against sigma^2 alone there is one, see Theorem 1.1.",
        ),
        PAPER.claim(
            "sec3.2.descent",
            "Expected decrease in one step",
            "Section 3.2, proof sketch",
            Inequality(
                eta * slope**2 - L / 2 * eta**2 * (slope**2 + total**2),
                (eta - L * eta**2) * slope**2 - L * eta**2 / 2 * total**2,
                {s: _QUANTITIES[s] for s in (eta, L, slope, total)},
                ">=",
            ),
            "The descent lemma with the step's mean eta g and second moment eta^2 (g^2 + total variance).",
        ),
        PAPER.claim(
            "sec3.2.step",
            "Decrease in one step at a large gradient",
            "Section 3.2, proof sketch",
            Inequality(
                (eta - L * eta**2) * alpha**2 - L * eta**2 / 2 * total**2,
                eta * alpha**2 / 4,
                {L: (0.1, 10), alpha: (0.01, 10), total: (0.01, 10), first_share: (1e-3, 1)},
                ">=",
                where={eta: first_share * Min(1, alpha**2 / total**2) / (2 * L)},
            ),
            "At a gradient of norm alpha and any step size up to min(1, alpha^2/variance)/(2 L), of which u is the "
            "share.",
        ),
        PAPER.claim(
            "sec3.2.decrease",
            "Large gradients: decrease after one iteration",
            "Section 3.2, proof sketch",
            Inequality(
                eta * alpha**2 / 4,
                decrease,
                {s: _QUANTITIES[s] for s in (eta, alpha, rho, c_F)},
                ">=",
                where={decrease: SCALES[decrease]},
                example={eta: 0.01, alpha: 0.1, rho: 1, c_F: 1},
            ),
            "The computed decrease eta alpha^2/4, against the decrease F of escaping.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "One iteration at a large gradient decreases the objective by eta alpha^2/4, the share of F that falls "
                "to one of the I iterations of an escape, not by F.",
                Inequality(
                    eta * alpha**2 / 4,
                    c_I / (4 * c_F) * decrease / escape,
                    {s: _QUANTITIES[s] for s in (eta, alpha, rho, c_F, c_I)},
                    ">=",
                    where={decrease: SCALES[decrease], escape: SCALES[escape]},
                ),
            ),
        ),
        PAPER.claim(
            "sec3.2.radius",
            "Radius in which the Hessian stays negative",
            "Section 3.2 and Appendix B, choice of parameters",
            Identity(radius, sqrt(alpha / (4 * rho)), (gamma - gamma / 2) / rho, where={gamma: sqrt(rho * alpha)}),
            "An eigenvalue -sqrt(rho alpha) moves by at most rho R, and is to stay below -sqrt(rho alpha)/2.",
        ),
        PAPER.claim(
            "sec3.2.improvement",
            "Decrease at the boundary of the ball",
            "Section 3.2, proof sketch",
            Rate(
                decrease,
                alpha ** Rational(3, 2),
                {"curvature": sqrt(rho * alpha) * sqrt(alpha / (4 * rho)) ** 2},
                normalised=(rho,),
                order="Omega",
            ),
            "sqrt(rho alpha) R^2 at R = sqrt(alpha/(4 rho)).",
        ),
        PAPER.claim(
            "sec3.2.progress",
            "Decrease over all iterations",
            "Section 3.2, proof sketch",
            Rate(
                progress,
                f_max,
                {"escapes": decrease * T / (2 * escape)},
                (decrease, T, escape),
                {
                    "decrease of an escape": sqrt(alpha**3 / rho) / decrease,
                    "iterations": f_max / (eta * alpha**2) / T,
                    "duration of an escape": escape * eta * sqrt(rho * alpha),
                },
                order="Omega",
            ),
            "F is at least sqrt(alpha^3/rho), T at least f_max/(eta alpha^2), I at most 1/(eta sqrt(rho alpha)), up to "
            "constants.",
        ),
        PAPER.claim(
            "sec3.2.growth",
            "Growth that reaches the boundary",
            "Section 3.2, proof sketch",
            Rate(
                growth,
                radius,
                {"growth": growth},
                (growth,),
                {"the distance reaches R": radius / (growth * Delta * sqrt(eta / gamma))},
                order="Theta",
            ),
            "Lemma B.11: noise accumulates to (1 + eta gamma)^I Delta sqrt(eta/gamma).",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "exp(I eta sqrt(rho alpha)) = Theta(R) compares a number with a length; the scale of the noise is "
                "missing: R over Delta sqrt(eta/gamma). The logarithm, and so I, then depends on Delta, eta and gamma.",
                Rate(
                    growth,
                    radius * sqrt(gamma / eta) / Delta,
                    {"growth": growth},
                    (growth,),
                    {"the distance reaches R": radius / (growth * Delta * sqrt(eta / gamma))},
                    order="Theta",
                ),
            ),
        ),
        PAPER.claim(
            "thm3.4.parameters",
            "Step size and number of iterations",
            "Theorem 3.4",
            Choice(
                {eta: alpha**2 / (d * Delta**2), T: 64 * f_max / (eta * alpha**2)},
                _ITERATION,
                alpha**2,
                {"step size": eta * L},
                {
                    "minibatch noise": sigma**2 / (B * Delta**2),
                    "large noise": alpha**2 / (d * Delta**2),
                    "small alpha": alpha**2 / (L * f_max),
                },
                logs=(ell,),
                normalised=(L, rho, f_max),
            ),
            "Lemma B.3: the mean squared gradient is at most f_max/(eta T) + eta L variance + variance log/T, up to "
            "constants; B.2 needs eta < 1/L. Where alpha^2 exceeds d Delta^2 the step size has to be 1/L instead.",
        ),
        PAPER.claim(
            "thm3.4.noise",
            "Noise without Assumption B",
            "Theorem 3.4",
            _chebyshev(sigma / sqrt(B)),
            "The theorem claims only Assumption A. Without Assumption B, Appendix C needs delta_t Delta^2 >= "
            "sigma^2/B (Lemma C.2), with delta_t = delta/T (Theorem B.13).",
            erratum=PAPER.erratum(
                Severity.RATE,
                "Theorem 3.4 assumes only A and Delta^2 >= sigma^2/B. Its proof in Appendix B uses Assumption B, and "
                "the one in Appendix C needs Delta^2 >= sigma^2 T/(B delta), more by the factor T/delta.",
                _chebyshev(sigma * sqrt(T / (B * delta))),
            ),
        ),
    )  # fmt: skip


# ---------------------------------------------------------------- Theorem 3.5
_STEPS = {
    "descent": _DESCENT,
    "noise in the descent": eta * L * _VARIANCE / alpha**2,
    "step size": eta * L,
}


def _iterations(value: Any) -> Rate:
    return Rate(SYMBOLS.symbol("T", "number of iterations"), value, {"iterations": T}, (T, eta), _STEPS, order="Theta")


def _main_theorem() -> tuple[Claim, ...]:
    lengthy = (
        "T = 64 f_max/(eta alpha^2) and eta <= alpha^2/(L (sigma^2/B + d Delta^2)) in Delta >= c_2 C sqrt(T log("
        "1/delta))/(n epsilon): with Delta^2 >= sigma^2/B, Delta cancels."
    )
    return (
        PAPER.claim(
            "thm3.5.alpha",
            "Accuracy: dependence on f_max",
            "Theorem 3.5",
            _accuracy(f_max * _RATE, _BOUND, regime={**_SMALL_SIGMA, **_DATA}, normalised=(L, rho, ell)),
            f"{lengthy} C = sqrt(L f_max) + sigma, up to logarithms; here sigma <= sqrt(L f_max).",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "alpha^2 is proportional to f_max, not alpha: the exponent of the f_max that is displayed should be "
                "1/2, alpha = sqrt(L f_max) d^{1/4}/sqrt(n epsilon); f_max is no gradient. The O with a tilde hides "
                "powers of L, rho and f_max (Section 3), so that what it says of n, d and epsilon is not contradicted.",
                _accuracy(_OF_F, _BOUND, regime={**_SMALL_SIGMA, **_DATA}),
            ),
            calculation=calculators.CLOSED_LOOP,
        ),
        PAPER.claim(
            "thm3.5.sigma",
            "Accuracy: dependence on sigma",
            "Theorem 3.5",
            _accuracy(_RATE, _BOUND, normalised=(L, rho, f_max, ell)),
            f"{lengthy} C = sqrt(L f_max) + sigma, up to logarithms; sigma is not among what the tilde hides.",
            erratum=PAPER.erratum(
                Severity.RATE,
                "The gradient bound C contains sigma sqrt(log(nT)), and alpha is proportional to sqrt(C): for sigma "
                "above sqrt(L f_max) the rate is sigma^{1/2} (L f_max d)^{1/4}/sqrt(n epsilon). The theorem (and "
                "Theorem 1.1) states no sigma.",
                _accuracy(_OF_F + _OF_SIGMA, _BOUND, regime={**_DATA, **_ALL_DATA}),
            ),
        ),
        PAPER.claim(
            "thm3.5.parameters",
            "Step size and number of iterations",
            "Theorem 3.5",
            Choice(
                {eta: alpha**2 / (d * Delta**2), T: 64 * f_max / (eta * alpha**2)},
                _ITERATION,
                alpha**2,
                {"privacy": _privacy(C), "step size": eta * L},
                {
                    "minibatch noise": sigma**2 / (B * Delta**2),
                    "large noise": alpha**2 / (d * Delta**2),
                    "small alpha": ell * alpha**2 / (L * f_max),
                    "accuracy": C * sqrt(L * f_max * d * ell) / (n * epsilon * alpha**2),
                },
                normalised=(L, rho, f_max),
            ),
            "Any alpha of at least sqrt(C) (L f_max d log(1/delta))^{1/4}/sqrt(n epsilon), the corrected accuracy for "
            "a gradient bound C, and any Delta above sigma/sqrt(B) and alpha/sqrt(d): the noise that privacy asks "
            "for is Delta again.",
            calculation=calculators.SAMPLE_SIZE,
        ),
        PAPER.claim(
            "thm3.5.T",
            "Number of iterations in the proof",
            "Theorem 3.5, proof",
            _iterations(L * f_max * _VARIANCE / alpha**4),
            "T = 64 f_max/(eta alpha^2) at the largest step size of Definition B.1.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The 1 of 1 + variance in the step size (alpha^2 in a homogeneous form) is dropped: where the "
                "variance is below alpha^2 the step size is 1/L, and T is L f_max/alpha^2.",
                _iterations(L * f_max * (alpha**2 + _VARIANCE) / alpha**4),
            ),
        ),
    )  # fmt: skip


# ---------------------------------------------------------------- Sections 3.4 and 4
def _selection(value: Any, accuracy: Any, bound: Any, **more: Any) -> Rate:
    constraints = {
        "gradient": bound / (n * epsilon * accuracy),
        "eigenvalue": L / (n * epsilon * sqrt(rho * accuracy)),
    }
    return Rate(n, value, {"n": n}, (n,), constraints, order="Omega", **more)


def _choosing() -> tuple[Claim, ...]:
    scale = SYMBOLS.symbol("b", "scale of the Laplace noise", GRADIENT)
    change = SYMBOLS.symbol(
        "change", "change of the gradient norm", GRADIENT, latex="|\\|\\nabla f\\| - \\|\\nabla f'\\||"
    )
    curvature = SYMBOLS.symbol(
        "change", "change of the smallest eigenvalue", LOSS / LENGTH**2, latex="|\\lambda_{\\min} - \\lambda_{\\min}'|"
    )
    unit = {first_share: (1e-3, 1), second_share: (1e-3, 1), n: (2, 1e6), C: (0.1, 10), L: (0.1, 10)}
    change_of_mean = SYMBOLS.symbol("s", "sensitivity of the gradient norm", GRADIENT)
    sensitivity = {change_of_mean: 2 * C / n}
    above_threshold = (change_of_mean / Rational(1, 2) + 2 * change_of_mean) / epsilon
    shares = first_share + second_share
    spread = sqrt(L * f_max * d) / (n * epsilon)
    return (
        PAPER.claim(
            "sec3.4.n",
            "Number of examples for the selection",
            "Section 3.4",
            _selection(1 / (epsilon * f_max**2 * sqrt(d)), f_max * _RATE, C, normalised=(L, rho, C)),
            "Laplace noise C/(n epsilon) at most alpha, and L/(n epsilon) at most sqrt(rho alpha), with alpha as "
            "printed in Theorem 3.5.",
            erratum=PAPER.erratum(
                Severity.RATE,
                "The printed size covers the gradient norm only; the eigenvalue needs n epsilon >= L^{4/3}/(rho^{2/3} "
                "f_max^{2/3} d^{1/6}) even with the printed alpha. With the corrected alpha and C = sqrt(L f_max), "
                "both together: 1/(epsilon sqrt(d)) + L/(epsilon rho^{2/3} f_max^{1/3} d^{1/6}). (The selection finds "
                "an O(alpha)-SOSP.)",
                _selection(
                    1 / (epsilon * sqrt(d))
                    + L / (epsilon * (rho**2 * f_max) ** Rational(1, 3) * d ** Rational(1, 6)),
                    _OF_F,
                    sqrt(L * f_max),
                ),
            ),
            calculation=calculators.SELECTION,
        ),
        PAPER.claim(
            "sec3.4.sensitivity",
            "Sensitivity of the gradient norm",
            "Section 3.4",
            Inequality(
                shares * C / n, C / n, {s: unit[s] for s in (first_share, second_share, n, C)},
                example={first_share: 1, second_share: 1, n: 100, C: 1}, subject=change,
            ),
            "One of n examples is replaced, its gradients of norms u C and v C may point in opposite directions; "
            "adding one to n - 1 moves the mean as far.",
            erratum=PAPER.erratum(
                Severity.PRIVACY,
                "The sensitivity of |grad f| is 2 C/n, whether an example is replaced or added.",
                Inequality(shares * C / n, 2 * C / n, {s: unit[s] for s in (first_share, second_share, n, C)}),
            ),
        ),
        PAPER.claim(
            "sec3.4.laplace",
            "Scale of the noise of AboveThreshold",
            "Section 3.4",
            Identity(
                scale,
                C / (n * epsilon),
                above_threshold,
                where=sensitivity,
                example={C: 1, n: 100, epsilon: 1},
            ),
            "AboveThreshold with noise b/2 on the threshold and b on the queries costs sensitivity/(b/2) + 2 "
            "sensitivity/b (Dwork and Roth, 2014, Theorem 3.23), which is to be epsilon; sensitivity 2 C/n.",
            erratum=PAPER.erratum(
                Severity.PRIVACY,
                "AboveThreshold needs Laplace noise of scale 4 times the sensitivity over epsilon on each query, and "
                "half of it on the threshold: 8 C/(n epsilon), where the paper has C/(n epsilon) and no noise on the "
                "threshold. With two quantities the budget is split once more, and all of it comes on top of "
                "(epsilon, 2 delta).",
                Identity(scale, 8 * C / (n * epsilon), above_threshold, where=sensitivity),
            ),
        ),
        PAPER.claim(
            "sec3.4.hessian",
            "Sensitivity of the smallest eigenvalue",
            "Section 3.4",
            Inequality(
                shares * L, L / n, {s: unit[s] for s in (first_share, second_share, n, L)},
                example={first_share: 0.5, second_share: 0.5, n: 100, L: 1}, subject=curvature,
            ),
            "Assumption A.3 says that f is L-smooth, not each f_i: with f_i = -/+ n L x^2/2 for one example, and 0 for "
            "the others, the eigenvalue is -L for one data set and L for its neighbour.",
            erratum=PAPER.erratum(
                Severity.PRIVACY,
                "L/n needs smoothness of each f_i, and then is 2 L/n. With A.3 alone, the eigenvalue may change by 2 "
                "L, and no noise of the order 1/n hides that.",
                Inequality(shares * L, 2 * L, {s: unit[s] for s in (first_share, second_share, L)}),
            ),
        ),
        PAPER.claim(
            "sec4.monotone",
            "A larger epsilon gives a better solution",
            "Section 4",
            Monotone(
                (spread * sqrt(ell) + sqrt(spread**2 * ell + 4 * spread * C)) / 2,
                epsilon,
                "decreasing",
                {L: (0.1, 10), f_max: (0.1, 10), d: (1, 1e6), C: (0.1, 10), n: (10, 1e6), epsilon: (0.1, 8),
                 ell: (1, 30)},
                subject=alpha,
            ),
            "alpha^2 = sqrt(L f_max d) (C + alpha sqrt(ell))/(n epsilon), solved for alpha; C is the part of the "
            "gradient bound without alpha.",
        ),
    )  # fmt: skip


# ---------------------------------------------------------------- Appendix B: Definition B.1
def _constants_needed(bound: Any) -> Inequality:
    return Inequality(
        10 * c_I / c_F,
        bound,
        {c_I: (2, 20), c_B4: (16, 100), c_B9: (1, 10)},
        where={c_F: c_R**2 / (2 * c_B4 * c_I), c_R: Rational(1, 20) / (2 * c_B9 * c_I)},
        example={c_I: 2, c_B4: 16, c_B9: 1},
        subject=SYMBOLS.symbol(
            "T*eta*alpha^2/f_max", "iterations, over those of Theorem 3.4", latex="T\\eta\\alpha^2/f_{\\max}"
        ),
    )


def _parameters(step: Any) -> Choice:
    variance = total**2
    return Choice(
        {eta: step, T: 64 * f_max / (eta * alpha**2)},
        {"descent": f_max / (eta * T), "noise": eta * L * variance, "concentration": variance * ell / T},
        alpha**2,
        {"step size": eta * L, "escape": eta * variance * ell / sqrt(alpha**3 / rho)},
        _CURVATURE,
    )


def _enough_iterations(value: Any, share: int, **more: Any) -> Identity:
    """At which a quarter of T gradients of norm alpha decrease the objective, by Lemma B.2 or C.1, by 2 f_max."""
    a_step = SYMBOLS.symbol("eta*alpha^2/share", "decrease of a step at a gradient of norm alpha", LOSS)
    return Identity(T, value, 2 * f_max / (a_step / 4), where={a_step: eta / share * alpha**2}, **more)


def _growth(value: Any) -> Identity:
    """What a step multiplies x by, for a slope that is the derivative of eigenvalue * x^2."""
    factor = SYMBOLS.symbol("x_{t+1}/x_t", "growth in one iteration", latex="x_{t+1}/x_t")
    slope_of = sympy.diff(eigenvalue * _DISTANCE**2, _DISTANCE)
    example = {eta: 0.1, gamma: 1}
    return Identity(factor, value, 1 - eta * slope_of / _DISTANCE, where={eigenvalue: -gamma}, example=example)


def _squared_distance(value: Any) -> Rate:
    distance = SYMBOLS.symbol("|x_t-x_0|^2", "squared distance", LENGTH**2, latex="\\|x_{t_0+\\tau}-x_{t_0}\\|^2")
    needed = sqrt(alpha**3 / rho) * eta / (eta * sqrt(rho * alpha))  # F eta I
    return Rate(distance, value, {"squared distance": distance}, (distance,), {"decrease": needed / distance})


def _share_of_escapes(bound: Any) -> Inequality:
    share = SYMBOLS.symbol("share", "decrease of a bucket over F, on average")
    least = {first_share: Rational(1, 4), second_share: Rational(1, 2), third_share: Rational(1, 3)}
    escaping = first_share * second_share * third_share * longer
    region = {longer: (1, 10)}
    return Inequality(escaping - Rational(1, 100), bound, region, ">=", least, example={longer: 1}, subject=share)


def _escape_noise(value: Any) -> Rate:
    error = {"minibatch error over difference": eta * sigma * sqrt(ell / B) / (eta * Delta)}
    return Rate(Delta, value, {"Delta": Delta}, (Delta,), error, order="Omega")


def _appendix_b() -> tuple[Claim, ...]:
    steps = SYMBOLS.symbol("T/I", "number of buckets", latex="T/\\mathcal{I}")
    k = SYMBOLS.symbol("k", "coordinate, or member of a batch", domain=d.domain)
    variance = sqrt(sympy.Sum(sigma**2 / B**2, (k, 1, B)) + sympy.Sum(Delta**2, (k, 1, d)))
    sizes = ({d: 3, B: 2}, {d: 1, B: 4})
    second_part = 64 * c * total**2 * ell / SCALES[T]
    worse = SYMBOLS.symbol("a", "L/sqrt(rho alpha)", domain=FROM_ONE)
    return (
        PAPER.claim(
            "defB.1.variance",
            "Total noise",
            "Definition B.1",
            Identity(total, _VARIANCE, variance, instances=sizes),
            "The root of the summed variances: B gradients in the mean of a batch, and d coordinates of the noise.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "sigma_t = sigma^2/B + d Delta^2 should be sigma_t^2 = ..., as in Section 3.2. Read literally, the "
                "step size falls like Delta^-4.",
                Identity(total, sqrt(_VARIANCE), variance, instances=sizes),
            ),
        ),
        PAPER.claim(
            "defB.1.eta",
            "Step size",
            "Definition B.1",
            _parameters(Min(alpha**2 / (L * (1 + total**2)), f_max / (L * total**2))),
            "Lemma B.3 (descent, noise, concentration), eta < 1/L of Lemma B.2, and the condition of Corollary B.5 "
            "where L >= sqrt(rho alpha), up to a logarithm.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "1 + sigma_t^2 adds a number to a squared gradient: for alpha > 1 and little noise the step size "
                "exceeds 1/L; alpha^2 in place of 1 repairs both. The second branch has an L too many and its "
                "logarithm on the wrong side: f_max/(sigma_t^2 log(1/delta_t)), see Lemma B.3.",
                _parameters(Min(alpha**2 / (L * (alpha**2 + total**2)), f_max / (total**2 * ell))),
            ),
        ),
        PAPER.claim(
            "defB.1.scales",
            "Radius times duration",
            "Definition B.1, and the proof of Lemma B.10",
            Identity(radius * escape, c_R * c_I / (rho * eta), radius * escape, where=SCALES),
            "R and I of Definition B.1.",
        ),
        PAPER.claim(
            "defB.1.localize",
            "Decrease that a distance R costs",
            "Corollary B.5, proof",
            Identity(
                SYMBOLS.symbol(
                    "R^2/(c eta I)", "decrease by Lemma B.4", LOSS, latex="\\mathcal{R}^2/(c\\eta\\mathcal{I})"
                ),
                c_R**2 / (c * c_I) * sqrt(alpha**3 / rho),
                radius**2 / (c * eta * escape),
                where=SCALES,
            ),
            "R and I of Definition B.1.",
        ),
        PAPER.claim(
            "defB.1.iterations",
            "Number of iterations, from decrease and duration",
            "Appendix B, choice of parameters",
            Identity(
                SYMBOLS.symbol(
                    "f_max I/F", "iterations until f_max is used up", latex="f_{\\max}\\mathcal{I}/\\mathcal{F}"
                ),
                f_max / (eta * alpha**2),
                f_max * escape / decrease,
                where={escape: 1 / (eta * sqrt(rho * alpha)), decrease: sqrt(alpha**3 / rho)},
            ),
            "f_max I/F with the constants c_I and c_F left out. With them there is a factor c_I/c_F, which the "
            "constants of the proof make large, see defB.1.constants.",
        ),
        PAPER.claim(
            "defB.1.constants",
            "The constants of escaping fit together",
            "Definition B.1 and the proofs of B.5, B.8 to B.12",
            _constants_needed(Integer(64)),
            "B.12 needs T eta alpha^2/f_max > 10 c_I/c_F, B.5 needs c_F <= c_R^2/(2 c c_I) with the c of Lemma B.4, "
            "which is at least 16 by its proof; B.10 with B.11 needs 2 c c_R c_I <= 1/20 with the c of Lemma B.9, at "
            "least 1; B.8, and with it B.9, needs I >= 2/(eta gamma), that is c_I >= 2.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "c_I, c_R and c_F cannot be chosen as the proofs ask with T = 64 f_max/(eta alpha^2): together they "
                "give c_I^4 <= 0.002 (for constants c of 1), but escaping takes c_I >= 2, and in fact a logarithm. "
                "T must be longer by a factor of about c_I^4, that is polylogarithmically.",
                _constants_needed(32000 * c_B4 * c_B9**2 * c_I**4),
            ),
        ),
        PAPER.claim(
            "defB.1.growth",
            "Growth along the escaping direction",
            "Appendix B, choice of parameters",
            Ratio(log(1 + small), 1 / small, {small: (0.1, -1)}, example={small: 0.001}),
            "ln(1 + x) for the exponent per iteration, x = eta gamma; the text has e^{t/(eta gamma)}.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "(1 + eta gamma)^t is about e^{t eta gamma}, not e^{t/(eta gamma)}; the boundary is reached after "
                "log(R/scale)/(eta gamma) iterations, not (t log R)/(eta gamma).",
                Ratio(log(1 + small), small, {small: (0.1, -1)}),
            ),
        ),
        PAPER.claim(
            "defB.1.improvement",
            "Decrease at the boundary of the ball",
            "Appendix B, choice of parameters",
            Identity(
                decrease,
                radius**2 * gamma,
                sympy.integrate(-2 * eigenvalue * _DISTANCE, (_DISTANCE, 0, radius)),
                where={eigenvalue: -gamma},
            ),
            "f = x^T H x there, and -gamma is the smallest eigenvalue of that H: the slope along v_1 at distance x is "
            "-2 gamma x, summed up from 0 to R.",
        ),
        PAPER.claim(
            "defB.1.step_growth",
            "Growth along the escaping direction in one iteration",
            "Appendix B, choice of parameters",
            _growth(1 + eta * gamma),
            "By the text's own update, x - eta 2 H x, for f = x^T H x with the eigenvalue -gamma of H.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "For f = x^T H x the factor is 1 + 2 eta gamma, as the text says two paragraphs above; 1 + eta gamma, "
                "which all lemmas have, belongs to f = x^T H x/2, where -gamma is an eigenvalue of the Hessian.",
                _growth(1 + 2 * eta * gamma),
            ),
        ),
        PAPER.claim(
            "lemmaB.3.iterations",
            "Number of iterations",
            "Lemma B.3, proof",
            _enough_iterations(64 * f_max / (eta * alpha**2), 8),
            "A quarter of T gradients of norm alpha decreases the objective by (eta/8) (T/4) alpha^2 (Lemma B.2), "
            "which is to be 2 f_max.",
        ),
        PAPER.claim(
            "lemmaB.3.first",
            "First condition on the step size",
            "Lemma B.3, proof",
            Crossover(64 * c * total**2 * eta * L, alpha**2 / 2, eta, alpha**2 / (128 * c * total**2 * L)),
            "The first part of the noise, 64 c sigma_t^2 eta L, is to be at most alpha^2/2.",
        ),
        PAPER.claim(
            "lemmaB.3.second",
            "Second condition on the step size",
            "Lemma B.3, proof",
            Crossover(second_part, alpha**2 / 2, eta, f_max * ell / (2 * c * total**2 * L)),
            "The second part of the noise, 64 c sigma_t^2 ell/T at T = 64 f_max/(eta alpha^2), is to be at most "
            "alpha^2/2; ell = ln(1/delta_t).",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "f_max log(1/delta_t)/(2 c sigma_t^2 L) should be f_max/(2 c sigma_t^2 log(1/delta_t)): the logarithm "
                "is on the wrong side, and the L does not belong there. Definition B.1 inherits it.",
                Crossover(second_part, alpha**2 / 2, eta, f_max / (2 * c * total**2 * ell)),
            ),
        ),
        PAPER.claim(
            "corB.5.step",
            "Condition on the step size for escaping",
            "Corollary B.5, proof",
            Inequality(
                eta * total**2 * (c_I * L / sqrt(rho * alpha) + ell),
                c_F * sqrt(alpha**3 / rho),
                {alpha: (0.01, 10), rho: (0.1, 10), total: (0.1, 10), worse: (1, 100), c_F: (0.01, 1), c_I: (1, 10),
                 ell: (1, 30)},
                where={eta: alpha**2 / (L * total**2) * c_F / (c_I + ell), L: worse * sqrt(rho * alpha)},
            ),
            "At the largest step size that is allowed there, with L = a sqrt(rho alpha), a >= 1.",
        ),
        PAPER.claim(
            "corB.5.distance",
            "Distance after which the objective has decreased",
            "Corollary B.5",
            _squared_distance(sqrt(alpha / rho)),
            "Lemma B.4: a distance r within I iterations costs r^2/(c eta I), up to noise, which is to be F.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "|x - x_0|^2 >= R should be |x - x_0| >= R: a squared length is compared with a length. (And the "
                "right-hand side in the proof is to be at least F, not at most.)",
                _squared_distance(alpha / rho),
            ),
        ),
        PAPER.claim(
            "lemmaB.12.share",
            "Share of the buckets that decrease the objective",
            "Lemma B.12, proof",
            _share_of_escapes(Rational(1, 10)),
            "At least a quarter of the buckets have a saddle point, half of these are not adjacent, a third of these "
            "escape, w times as many in all; every bucket may lose F/100 (Lemma B.11).",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "1/10 should be at most 1/24 - 1/100 = 19/600, about 1/32, even if exactly a third of the escapes "
                "succeed. T is then longer by the factor 3.2.",
                _share_of_escapes(Rational(19, 600)),
            ),
        ),
        PAPER.claim(
            "lemmaB.12.buckets",
            "Number of buckets",
            "Lemma B.12, proof",
            Identity(steps, 64 * f_max * sqrt(rho * alpha) / c_I, T / escape, where=SCALES),
            "T and I of Definition B.1.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "64 f_max sqrt(rho alpha)/c_I should be divided by alpha^2: 64 f_max sqrt(rho)/(c_I alpha^{3/2}).",
                Identity(steps, 64 * f_max * sqrt(rho) / (c_I * alpha ** Rational(3, 2)), T / escape, where=SCALES),
            ),
        ),
        PAPER.claim(
            "lemmaB.12.progress",
            "Decrease over all buckets",
            "Lemma B.12, proof",
            Identity(
                SYMBOLS.symbol("TF/(10I)", "decrease", LOSS, latex="T\\mathcal{F}/(10\\mathcal{I})"),
                f_max * 64 * c_F / (10 * c_I),
                T * decrease / (10 * escape),
                where=SCALES,
            ),
            "T, F and I of Definition B.1.",
        ),
        PAPER.claim(
            "thmB.13.noise",
            "Privacy noise against minibatch noise",
            "Theorem B.13, and Lemmas B.10 and B.11",
            _escape_noise(sigma / sqrt(B)),
            "B.11 needs the minibatch error below the difference of the coupled iterates: eta sigma beta sqrt(log/B) "
            "(B.10) against beta eta Delta/10 (B.9), without a logarithm.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "At Delta^2 = sigma^2/B the minibatch error is as large as the difference that escapes. Lemma B.11 "
                "quotes B.9 with a logarithm and B.10 without its constant; Delta^2 >= K log(1/delta_t) sigma^2/B with "
                "a large K is needed.",
                _escape_noise(sigma * sqrt(ell / B)),
            ),
        ),
    )  # fmt: skip


# ---------------------------------------------------------------- Appendix C
def _least_noise(value: Any, constraints: Any) -> Rate:
    return Rate(Delta, value, {"Delta": Delta}, (Delta,), constraints, order="Omega")


def _appendix_c() -> tuple[Claim, ...]:
    accuracy = sqrt(C) * (L * f_max * d) ** Rational(1, 4) / sqrt(n * epsilon)
    return (
        PAPER.claim(
            "lemmaC.1.noise",
            "Noise for the descent lemma without Assumption B",
            "Lemma C.1",
            _least_noise(sigma / sqrt(d * delta_t * B), {
                "second moment": 3 * eta**2 * L * T * sigma**2 / (delta_t * B) / (eta * d * Delta**2 * eta * L * T),
                "cross term": 16 * eta * sigma**2 / (delta_t * B) / (eta * d * Delta**2 * ell),
            }),
            "Markov's and Chebyshev's terms of the proof, against c eta d Delta^2 (eta L t + log(1/delta_t)).",
        ),
        PAPER.claim(
            "lemmaC.2.noise",
            "Noise for escaping without Assumption B",
            "Lemma C.2",
            _least_noise(sigma / sqrt(delta_t * B), {"Chebyshev": eta * sigma / sqrt(B * delta_t) / (eta * Delta)}),
            "eta beta sigma/sqrt(B delta_t) against beta eta Delta; larger than the noise of Lemma C.1 by sqrt(d).",
        ),
        PAPER.claim(
            "appC.iterations",
            "Number of iterations without Assumption B",
            "Appendix C, with Theorem 3.4",
            _enough_iterations(64 * f_max / (eta * alpha**2), 16, example={f_max: 1, eta: 0.01, alpha: 0.1}),
            "The argument of Lemma B.3 with the eta/16 of Lemma C.1 in place of the eta/8 of Lemma B.2.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "Lemma C.1 has eta/16 where Lemma B.2 has eta/8, so that T must be 128 f_max/(eta alpha^2): with 64, "
                "the decrease is f_max and nothing is left for the noise.",
                _enough_iterations(128 * f_max / (eta * alpha**2), 16),
            ),
        ),
        PAPER.claim(
            "appC.alpha",
            "Accuracy without Assumption B",
            "Appendix C, introduction",
            _accuracy(accuracy, C, constraints=_CHEBYSHEV, normalised=(ell,)),
            "Theorem 3.5 for a given C, with Delta^2 >= sigma^2/(B delta_t), delta_t = delta/T, as Lemma C.2 needs.",
            erratum=PAPER.erratum(
                Severity.RATE,
                "'The same alpha, although a substantially larger Delta might be required' is not so: T is "
                "proportional to Delta^2, so that Delta cancels in Delta^2 >= sigma^2 T/(B delta), and no Delta is "
                "large enough unless alpha^4 >= sigma^2 L f_max d/(B delta). It is the batch that has to be large, "
                "B >= sigma^2 L f_max d/(delta alpha^4).",
                _accuracy(
                    accuracy + (sigma**2 * L * f_max * d / (B * delta)) ** Rational(1, 4), C, constraints=_CHEBYSHEV
                ),
            ),
        ),
    )  # fmt: skip


# ---------------------------------------------------------------- results of our own
def _ours() -> tuple[Claim, ...]:
    others = SYMBOLS.symbol("y", "squared distance of every other sample's gradient, over sigma^2")
    farthest = SYMBOLS.symbol("max|z|^2", "largest squared distance of a sample's gradient, over sigma^2")
    first = SYMBOLS.symbol("s", "largest distance of a sample's gradient from the mean gradient", GRADIENT)
    moved = SYMBOLS.symbol(
        "|g-g'|", "change of a batch's mean gradient", GRADIENT, latex="\\|g_{\\mathcal{B}}-g_{\\mathcal{B}}'\\|"
    )
    a, b = (
        SYMBOLS.symbol("a", "probability in S", domain=UNIT_INTERVAL),
        SYMBOLS.symbol("b", "probability in S", domain=UNIT_INTERVAL),
    )
    a1, b1 = (SYMBOLS.symbol(f"{x}'", "probability in S under D'", domain=UNIT_INTERVAL) for x in "ab")
    outside = SYMBOLS.symbol("s", "probability outside of S", domain=UNIT_INTERVAL)
    angle = SYMBOLS.symbol(
        "theta", "half of 1 minus the cosine between two deviations", domain=Domain(0, 1, closed=True)
    )
    squares = first_share**2 + second_share**2
    deviation = first**2 * (squares - 2 * first_share * second_share * (1 - 2 * angle))
    return (
        PAPER.own(
            "sample",
            "Assumption B bounds every sample's gradient",
            Inequality(
                log(E * n - (n - 1) * exp(others)),
                log(1 + (E - 1) * n),
                {n: (2, 1e6), others: (1e-9, 1)},
                conditions=(E * n - (n - 1) * exp(others) >= 1,),
                subject=farthest,
            ),
            "The mean of exp(|grad f_i - grad f|^2/sigma^2) is below e, and each term is at least 1: one may be as "
            "large as e n minus the others.",
            calculation=calculators.SENSITIVITY,
        ),
        PAPER.own(
            "sensitivity",
            "Sensitivity of a batch's mean gradient, without clipping",
            Inequality(
                sqrt(deviation) / (1 - 1 / n) / B,
                2 * first * n / ((n - 1) * B),
                {first: (0.1, 10), first_share: (1e-3, 1), second_share: (1e-3, 1), angle: (1e-3, 1), n: (2, 1e6),
                 B: (1, 1e3)},
                subject=moved,
            ),
            "One example of n is replaced, batches are of a fixed size B. Both data sets satisfy Assumption B, so that "
            "the two samples are within s = sigma sqrt(ln(1 + (e-1) n)) of their means, which differ by 1/n of the "
            "difference sought.",
            calculation=calculators.SENSITIVITY,
        ),
        PAPER.own(
            "rate",
            "Accuracy by the deterministic sensitivity",
            _accuracy(_OF_SIGMA, sigma * sqrt(ell)),
            "Theorem 3.5 with the sensitivity of own.sensitivity in place of 2 C/B: no event, no second delta, no "
            "condition on the step size for privacy.",
            calculation=calculators.DETERMINISTIC_LOOP,
        ),
        PAPER.own(
            "gradient",
            "Bound of the gradients with the privacy noise",
            _bound_of_gradients(_CORRECT_C),
            "Lemma B.2 for all t at the parameters of Definition B.1; ell = ln(T/delta).",
            calculation=calculators.GRADIENT_BOUND,
        ),
        PAPER.own(
            "transcript",
            "Privacy by an event of the transcript",
            Inequality(
                Max(a - _e_eps * a1, 0) + Max(b - _e_eps * b1, 0) + outside,
                delta + outside,
                {_e_eps: (1.01, 30), a: (0.01, 0.9), b: (0.01, 0.9), a1: (0.01, 0.9), b1: (0.01, 0.9),
                 outside: (1e-4, 0.1), delta: (1e-4, 0.1)},
                conditions=(
                    a - _e_eps * a1 <= delta, b - _e_eps * b1 <= delta, a + b - _e_eps * (a1 + b1) <= delta,
                    a + b <= 1, a1 + b1 <= 1,
                ),
                subject=_HOCKEY_STICK,
            ),
            "In S no sample of either data set has a gradient above C at any iterate, so that clipped and unclipped "
            "transcripts have the same density there under D, and under D'. Two events in S, all the rest outside.",
            calculation=calculators.TRANSCRIPT_DELTA,
        ),
        PAPER.own(
            "noise",
            "The least noise of Theorem 3.5",
            Rate(
                Delta,
                sigma / sqrt(B) + C * sqrt(ell / epsilon) / B,
                {"Delta": Delta},
                (Delta, T, eta),
                {"privacy": _privacy(C), "descent": _DESCENT, "minibatch noise": sigma**2 / (B * Delta**2), **_WINDOW},
                order="Omega",
            ),
            "Delta cancels from the accuracy; what is left are sigma/sqrt(B) and the window of epsilon, which asks for "
            "T >= epsilon n^2/B^2.",
        ),
        PAPER.own(
            "constants",
            "Accuracy of Theorem 3.5 with its constants",
            Identity(
                alpha**2,
                8 * c_2 / sqrt(c_eta) * C * sqrt(L * f_max * (d + 1) * ell) / (n * epsilon),
                sqrt((c_2 * C / (n * epsilon)) ** 2 * ell * T * alpha**4 / Delta**2),
                where={T: SCALES[T], eta: c_eta * alpha**2 / (L * (d + 1) * Delta**2)},
            ),
            "alpha^4 = (c_2 C/(n epsilon))^2 ell T alpha^4/Delta^2, with T = 64 f_max/(eta alpha^2) at the step size "
            "c_eta alpha^2/(L (d + 1) Delta^2).",
            calculation=calculators.CLOSED_LOOP,
        ),
        PAPER.own(
            "step",
            "The step size of Theorem 3.5 keeps the objective bounded",
            Choice(
                {eta: alpha**2 / (L * total**2), T: 64 * f_max / (eta * alpha**2)},
                {"noise in the objective": eta**2 * L * T * total**2},
                f_max,
            ),
            "It meets the corrected condition of Lemma 3.2 on the step size, for every Delta.",
        ),
        PAPER.own(
            "release",
            "What delta = 0.01 allows",
            Identity(
                SYMBOLS.symbol("expected", "expected number of examples that are published"),
                Integer(500),
                n * delta,
                where={n: Integer(50_000), delta: Rational(1, 100)},
            ),
            "Section 4 uses delta = 0.01 with n = 50000 examples. Publishing each example with probability delta, "
            "and nothing else, is (0, delta)-DP; this is how many it publishes on average.",
        ),
        PAPER.own(
            "batch",
            "Batch size without Assumption B",
            Rate(
                B,
                sigma**2 * L * f_max * d / (delta * alpha**4),
                {"batch": B},
                (B, Delta, T, eta),
                {**_CHEBYSHEV, "descent": _DESCENT,
                 "noise in the descent": eta * L * d * Delta**2 / alpha**2},
                order="Omega",
            ),
            "Delta cancels in the condition of Lemma C.2 at delta_t = delta/T.",
        ),
    )  # fmt: skip


CLAIMS: tuple[Claim, ...] = (
    *_informal(),
    *_private_sgd(),
    *_convergence(),
    *_main_theorem(),
    *_choosing(),
    *_appendix_b(),
    *lemmas.CLAIMS,
    *_appendix_c(),
    *_ours(),
)
