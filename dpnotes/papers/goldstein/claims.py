"""Kornowski, Liu and Talwar (ICML 2025): its claims, checked.

Letters are the paper's; `alpha` and `beta` are the radius and the norm of Goldstein stationarity. A rate is compared
with the best balance of the terms from which its proof starts: Proposition 2.6 for the online-to-nonconvex conversion,
the variance lemmas for the oracle, the sensitivity lemmas for the noise. What the paper's O hides is hidden here.
"""

from collections.abc import Mapping

from sympy import Expr, Integer, Max, Min, Rational, expand, sign, sqrt

from dpnotes.papers.goldstein import appendices, own_results, preliminaries
from dpnotes.papers.goldstein import calculators as calculate
from dpnotes.papers.goldstein.notation import (
    B1,
    B2,
    G0,
    G1,
    PAPER,
    D,
    L,
    M,
    Phi,
    T,
    alpha,
    beta,
    calls,
    d,
    delta,
    ell,
    ell_net,
    ell_sum,
    ell_union,
    epsilon,
    gap,
    gap_smooth,
    half,
    m,
    mean,
    n,
    norm,
    one_fails,
    period,
    probability,
    radius,
    ratio,
    root,
    second,
    sensitivity,
    sigma,
    sigma1,
    sigma2,
    third,
    u,
    v,
    variance,
)
from dpnotes.papers.goldstein.terms import (
    BOUND,
    COUNTS,
    DIRECTIONS,
    MOVE,
    MULTI_PASS,
    NOISE,
    NOISE_PER_COORDINATE,
    PERIOD,
    PERIOD_PRINTED,
    PRIOR,
    REGIME,
    SAMPLES,
    SIGMA_PRINTED,
    SINGLE_PASS,
)
from dpnotes.theory.claims import Claim, Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Choice, Rate
from dpnotes.theory.statements import Identity

__all__ = ["CLAIMS", "PAPER"]

_CHOSEN = (n, D, T, period, B1, B2, m)
_ONES = (Phi, L)  # "ignoring dependence on Lipschitz constant, initialization"
_N31 = Phi * L**2 * root / (alpha * beta**3) + Phi * L * d / (epsilon * alpha * beta**2)
_N1 = Phi * L**2 * d / (alpha * beta**3) + Phi * L * d ** Rational(3, 2) / (epsilon * alpha * beta**2)
_N41 = sqrt(Phi) * L * d ** Rational(3, 4) / (epsilon * sqrt(alpha) * beta ** Rational(3, 2))
_SHORT31 = root / (alpha * beta**3) + d / (epsilon * alpha * beta**2)
_SHORT41 = d ** Rational(3, 4) / (epsilon * sqrt(alpha) * beta ** Rational(3, 2))
_ZHANG = _N1.xreplace({Phi: Integer(1), L: Integer(1)})
_SINGLE_ORIGIN = (
    "Proposition 2.6 with M = alpha/D, the errors of Lemma 3.6, and noise for the sensitivities of Lemma 3.4; n counts "
    "B1 samples a reset and B2 an increment. Minimised over D, T, Sigma, B1, B2 and m."
)
_MULTI_ORIGIN = (
    "Proposition 2.6 with M = alpha/D and the noise of T Gaussian releases, T/Sigma of them resets. Minimised over D, "
    "T and Sigma."
)


def _sample_size(value: Expr, constraints: dict[str, Expr], tuned: tuple = _CHOSEN, **more: object) -> Rate:
    return Rate(n, value, {"n": n}, tuned, constraints, REGIME, order="Omega", **more)  # type: ignore[arg-type]


_SINGLE = {**SINGLE_PASS, **DIRECTIONS}
_GENERAL = {"generalisation": L * sqrt(d * ell_net / n) / beta}


def _introduction() -> tuple[Claim, ...]:
    short31 = _sample_size(_SHORT31, _SINGLE, normalised=_ONES)
    short41 = _sample_size(_SHORT41, MULTI_PASS, (n, D, T, period), normalised=_ONES, logs=(ell,))
    population = _sample_size(
        d / beta**2 + _SHORT41, {**MULTI_PASS, **_GENERAL}, (n, D, T, period), normalised=_ONES, logs=(ell, ell_net)
    )
    prior = _sample_size(_ZHANG, PRIOR, (n, D, T, period, B1, B2), normalised=_ONES)
    prior_origin = (
        "Zhang et al. (2024) as eq. (5) tells it: m = d directions, taken here as shared by both points of an "
        "increment; the sensitivities are then d L/B1 and d L D/(alpha B2) at worst, and a single estimate has a "
        "second moment d L^2."
    )
    return (
        PAPER.claim(
            "eq1", "Sample size of the prior work", "eq. (1)", prior, prior_origin, calculation=calculate.SIZES
        ),
        PAPER.claim("eq2", "Sample size of one pass", "eq. (2)", short31, _SINGLE_ORIGIN),
        PAPER.claim(
            "eq2.factor",
            "Gain over the prior work",
            "below eq. (2), and abstract",
            Identity(ratio, root, _N1 / _N31),
            "(1) over (2).",
        ),
        PAPER.claim("eq3", "Sample size of many passes", "eq. (3)", short41, _MULTI_ORIGIN),
        PAPER.claim("table1.zhang", "Table 1, Zhang et al.", "Table 1, first row", prior, prior_origin),
        PAPER.claim("table1.thm3.1", "Table 1, one pass", "Table 1, second row", short31, _SINGLE_ORIGIN),
        PAPER.claim(
            "table1.thm4.1.empirical", "Table 1, many passes, empirical", "Table 1, third row", short41, _MULTI_ORIGIN
        ),
        PAPER.claim(
            "table1.thm4.1.stochastic",
            "Table 1, many passes, stochastic",
            "Table 1, third row, and abstract",
            population,
            f"{_MULTI_ORIGIN} To this, the generalisation error of Proposition 5.1, which must be at most beta.",
        ),
    )


# ---------------------------------------------------------------- Section 3
_ACCURACY = {
    "sampling": (Phi * L**2 * root / (n * alpha)) ** third,
    "privacy": sqrt(Phi * d * L / (n * alpha * epsilon)),
    "both": (Phi**2 * L**3 * d ** Rational(3, 2) / (n**2 * alpha**2 * epsilon)) ** Rational(1, 5),
}
_ENOUGH_SAMPLES = {
    "sampling error <= L": Phi * root / (n * alpha * L),
    "private error <= L": Phi * d / (n * alpha * epsilon * L),
}
_ERRORS = {
    "reset": L / sqrt(B1),
    "increments": L * D * sqrt(d * period) / (alpha * sqrt(B2)),
    "tree": sigma * root,
}
_SAMPLED = {  # squared errors of Lemma 3.6, from a single sample and a single direction
    "reset": L**2 / B1,
    "directions at the reset": (d * L) ** 2 / m / B1,
    "increments": period * (root * L / alpha * 2 * D) ** 2 / B2,
    "directions of increments": period * (d * L) ** 2 / m / B2,
    "tree": d * sigma**2 * ell_sum,
}
_VARIANCE = L**2 / B1 + L**2 * d**2 / (B1 * m) + L**2 * d * D**2 * period / (alpha**2 * B2)
_VARIANCE = _VARIANCE + sigma**2 * d * ell_sum + L**2 * d**2 * period / (m * B2)
_M_PRINTED = d**2 * B1**2 + d * alpha**2 * B2**2 / D**2
_SENSITIVITIES = L / B1 + L * root * D / (alpha * B2)
_SIGMA_LEMMA = L * sqrt(ell) / (B1 * epsilon) + L * D * sqrt(d * ell) / (alpha * B2 * epsilon)
_STATED_TREE = {"tree": _SENSITIVITIES * sqrt(ell_sum * ell) / epsilon}
_CHOICE_COUNTS = {name: COUNTS[name] for name in ("Sigma >= 1", "B1 >= 1")}
_LOG_WORDING = (
    "The noise of Proposition 2.5 has a factor sqrt(log Sigma), which the lemma's plain O does not hide: the noise it "
    "states is too small by it. (The theorem's O with a tilde hides it.)"
)


def _without_noise(terms: Mapping[str, Expr]) -> dict[str, Expr]:
    return {name: term for name, term in terms.items() if "noise" not in name}


def _single_pass() -> tuple[Claim, ...]:
    accuracy = _ACCURACY["sampling"] + _ACCURACY["privacy"]
    final = {name: term.xreplace({B1: period, B2: Integer(1)}) for name, term in BOUND.items()}
    each_fails = {one_fails: delta / (8 * B1)}
    at_most_n = {"samples": T / n, **{name: COUNTS[name] for name in ("Sigma >= 1", "M >= 1")}}
    return (
        PAPER.claim(
            "thm3.1.rate",
            "Sample size of one pass",
            "Theorem 3.1",
            _sample_size(_N31, _SINGLE),
            _SINGLE_ORIGIN,
            calculation=calculate.SINGLE_PASS,
        ),
        PAPER.claim(
            "thm3.1.parameters",
            "Parameters of one pass",
            "Theorem 3.1",
            Choice(
                {
                    T: n,
                    D: MOVE,
                    period: PERIOD_PRINTED,
                    B1: period,
                    B2: Integer(1),
                    M: alpha / (4 * D),
                    sigma: SIGMA_PRINTED,
                },
                {"descent": Phi / (D * T), "regret": L / sqrt(M), **_ERRORS},
                accuracy,
                {**SAMPLES, **_CHOICE_COUNTS, "M >= 1": 1 / M, **NOISE_PER_COORDINATE},
                _ENOUGH_SAMPLES,
            ),
            "The terms of Theorem 3.1's proof at its parameters, against the accuracy that n samples give; for n so "
            "large that this is at most L.",
            calculation=calculate.SINGLE_PASS_PARAMETERS,
        ),
        PAPER.claim(
            "thm3.1.m",
            "Directions of one pass",
            "Theorem 3.1",
            Choice(
                {period: PERIOD, B1: period, B2: Integer(1), m: _M_PRINTED},
                {"error of the directions": L * d / sqrt(m)},
                _SENSITIVITIES,
                regime={"Sigma >= 1": D * root / alpha},
            ),
            "Lemma 3.4: the error of the directions must not exceed the sensitivities of exact smoothed gradients.",
        ),
        PAPER.claim(
            "thm3.1.bound",
            "Bound before tuning",
            "Section 3, proof of Theorem 3.1, display below eq. (9)",
            Rate(
                norm,
                Phi / (D * T)
                + L * sqrt(D / alpha)
                + L * D * sqrt(d * period) / alpha
                + L / sqrt(period)
                + L * root / (period * epsilon)
                + L * D * d / (alpha * epsilon),
                final,
            ),
            "Proposition 2.6 and Lemmas 3.4 and 3.6 with B1 = Sigma, B2 = 1.",
        ),
        PAPER.claim(
            "thm3.1.accuracy",
            "Accuracy of one pass",
            "Section 3, proof of Theorem 3.1",
            Rate(norm, accuracy, final, (D, period, T), at_most_n, _ENOUGH_SAMPLES),
            "The bound before tuning, minimised over D, Sigma and T <= n. The third printed term is between these two.",
            calculation=calculate.ACCURACY,
        ),
        PAPER.claim(
            "thm3.1.accuracy.third",
            "Third term of the accuracy of one pass",
            "Section 3, proof of Theorem 3.1",
            Rate(
                norm,
                _ACCURACY["both"],
                {name: final[name] for name in ("descent", "increments", "noise of the reset")},
                (D, period, T),
                {"samples": T / n},
            ),
            "Descent, the sampling of increments and the noise of resets, minimised over D, Sigma and T <= n.",
        ),
        PAPER.claim(
            "thm3.1.third",
            "Third term of the sample size of one pass",
            "Section 3, proof of Theorem 3.1",
            Rate(
                n,
                Phi * L ** Rational(3, 2) * d ** Rational(3, 4) / (sqrt(epsilon) * alpha * beta ** Rational(5, 2)),
                {"n": n},
                (n,),
                {"both": _ACCURACY["both"] / beta},
                REGIME,
                order="Omega",
            ),
            "The third term of the accuracy at most beta, solved for n.",
        ),
        PAPER.claim(
            "thm3.1.mean",
            "The third term is negligible",
            "Section 3, end of the proof of Theorem 3.1",
            Inequality(
                Phi * L ** Rational(3, 2) * d ** Rational(3, 4) / (sqrt(epsilon) * alpha * beta ** Rational(5, 2)),
                _N31,
                {
                    Phi: (0.1, 10),
                    L: (0.1, 10),
                    d: (1, 1e4),
                    epsilon: (1e-2, 1e2),
                    alpha: (0.01, 1),
                    beta: (0.01, 1),
                },
            ),
            "The square of the third term is the product of the other two, so that it is at most half their sum.",
        ),
        PAPER.claim(
            "eq6",
            "Initial gap of the smoothed objective",
            "eq. (6)",
            Inequality(
                Phi + L * alpha,
                2 * Phi,
                {Phi: (0.1, 10), L: (0.1, 10), u: (1e-3, 1)},
                where={alpha: u * Phi / L},
            ),
            "Smoothing raises F(x_0) by at most L alpha and lowers no infimum; alpha = u Phi/L with u <= 1.",
        ),
        PAPER.claim(
            "eq7",
            "Second moment of the oracle",
            "eq. (7)",
            Rate(G1, G0 + L, {"error": G0, "gradient": L}),
            "Lemma 3.6: the second bound is the first with L^2, the square of the true gradient, added.",
        ),
        PAPER.claim(
            "eq8",
            "Bound with the oracle's error",
            "eq. (8)",
            Rate(
                norm,
                Phi / (D * T) + L / sqrt(M) + G0,
                {"descent": Phi / (D * T), "regret": (G0 + L) / sqrt(M), "error": G0},
                regime={"M >= 1": 1 / M},
            ),
            "Equation (7) in equation (6).",
        ),
        PAPER.claim(
            "eq9",
            "Error of the oracle",
            "eq. (9)",
            Rate(
                G0,
                L / sqrt(period)
                + L * D * sqrt(d * period) / alpha
                + L * root / (period * epsilon)
                + L * D * d / (alpha * epsilon),
                {
                    name: sqrt(term).xreplace({B1: period, B2: Integer(1)})
                    for name, term in {
                        **_SAMPLED,
                        "tree": d * (L / (B1 * epsilon)) ** 2,
                        "tree, increments": d * (L * D * root / (alpha * B2 * epsilon)) ** 2,
                    }.items()
                },
                (m,),
                {
                    "sensitivity to directions at a reset": d * period / sqrt(m),
                    "sensitivity to directions of increments": sqrt(d / m) * alpha / D,
                },
            ),
            "Lemma 3.6 with the noise of Lemma 3.5 and m as large as that lemma wants; logarithms put to 1.",
        ),
        PAPER.claim(
            "remark3.2",
            "Sample size without privacy",
            "Remark 3.2",
            _sample_size(
                Phi * L**2 * root / (alpha * beta**3), {**_without_noise(SINGLE_PASS)}, (n, D, T, period, B1, B2)
            ),
            "Theorem 3.1's terms without noise.",
        ),
        PAPER.claim(
            "remark3.3",
            "Oracle calls",
            "Remark 3.3",
            Rate(
                calls,
                T * m,
                {
                    "resets": T / period * 2 * m * B1.xreplace({B1: period}),
                    "increments": T * 4 * m * B2.xreplace({B2: Integer(1)}),
                },
            ),
            "T/Sigma resets of 2 m B1 evaluations, increments of 4 m B2, with B1 = Sigma and B2 = 1.",
        ),
        PAPER.claim(
            "lemma3.4.reset",
            "Sensitivity of a reset",
            "Lemma 3.4, first case",
            Rate(
                sensitivity,
                L / B1 + L * d * sqrt(ell_union) / sqrt(m),
                {
                    "smoothed gradients": 2 * L / B1,
                    "directions of all samples": 2 * B1 * (d * L * sqrt(ell_union / m)) / B1,
                },
            ),
            "The paper's proof: one smoothed gradient is replaced, and all 2 B1 estimates have errors of their own.",
        ),
        PAPER.claim(
            "lemma3.4.increments",
            "Sensitivity of an increment",
            "Lemma 3.4, second case",
            Rate(
                sensitivity,
                L * root * D / (alpha * B2) + L * d * sqrt(ell_union) / sqrt(m),
                {
                    "smoothed gradients": 2 * (root * L / alpha) * 2 * D / B2,
                    "directions of all samples": 4 * B2 * (d * L * sqrt(ell_union / m)) / B2,
                },
            ),
            "As at a reset; smoothed gradients are (L sqrt(d)/alpha)-Lipschitz, and points move by at most 2D.",
        ),
        PAPER.claim(
            "lemma3.4.log",
            "Logarithm of an increment's sensitivity",
            "Lemma 3.4, second case",
            Rate(ratio, d * B1 / delta, {"failures": d / (delta / B2)}),
            "A union over the estimates of B2 samples, each of which may fail with probability of the order delta/B2.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "The logarithm of the second case should have B2 in place of B1, as Lemma 6.3 has it.",
                Rate(ratio, d * B2 / delta, {"failures": d / (delta / B2)}),
            ),
        ),
        PAPER.claim(
            "lemma3.4.union",
            "Failure probability in the proof",
            "Section 7.1, proof of Lemma 3.4",
            Identity(probability, 1 - delta / 8, 2 * B1 * one_fails, each_fails, example={B1: 10, delta: 0.01}),
            "A union over 2 B1 estimates, each of which fails with probability at most delta/(8 B1).",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "Pr[... >= ...] <= 1 - delta/8 should be <= delta/4; the bound inside should be 2L/B1 + 2Ld sqrt(...)/"
                "sqrt(m), and eq. (11) and (16) lack the constant c of Theorem C.2.",
                Identity(probability, delta / 4, 2 * B1 * one_fails, each_fails),
            ),
        ),
        PAPER.claim(
            "lemma3.5.m",
            "Directions for privacy",
            "Lemma 3.5",
            Choice(
                {m: ell_union * _M_PRINTED},
                {"error of the directions": L * d * sqrt(ell_union / m)},
                _SENSITIVITIES,
            ),
            "The error of the directions must not exceed the largest sensitivity, for which the noise is made.",
        ),
        PAPER.claim(
            "lemma3.5.log",
            "Logarithm in the directions for privacy",
            "Lemma 3.5",
            Rate(ratio, d * B2 / delta, {"resets": d / (delta / B1), "increments": d / (delta / B2)}),
            "The unions of Lemma 3.4 over B1 samples at a reset and B2 at an increment.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "log(d B2/delta) is too small for resets: with B1 = Sigma > B2 = 1 it should be log(d max(B1, "
                "B2)/delta).",
                Rate(ratio, d * (B1 + B2) / delta, {"resets": d / (delta / B1), "increments": d / (delta / B2)}),
            ),
        ),
        PAPER.claim(
            "lemma3.5.sigma",
            "Noise of one pass",
            "Lemma 3.5",
            Rate(sigma, _SIGMA_LEMMA, _STATED_TREE),
            "Proposition 2.5 with the sensitivities of Lemma 3.4. (Its delta and that lemma's failures share delta; "
            "the O hides the factor.)",
            erratum=PAPER.erratum(
                Severity.PRIVACY, _LOG_WORDING, Rate(sigma, _SIGMA_LEMMA * sqrt(ell_sum), _STATED_TREE)
            ),
        ),
        PAPER.claim(
            "lemma3.6.error",
            "Error of the oracle of one pass",
            "Lemma 3.6, first bound",
            Rate(variance, _VARIANCE, _SAMPLED),
            "Independent samples and directions: a gradient has norm L, an estimate d L, an increment 2D sqrt(d) "
            "L/alpha; there are at most Sigma increments, and the tree adds d sigma^2 log Sigma.",
        ),
        PAPER.claim(
            "lemma3.6.moment",
            "Second moment of the oracle of one pass",
            "Lemma 3.6, second bound",
            Rate(second, _VARIANCE - L**2 / B1 + L**2, {**_SAMPLED, "gradient": L**2}, regime={"B1 >= 1": 1 / B1}),
            "The first bound, and the square of the true gradient.",
        ),
    )


# ---------------------------------------------------------------- Section 4
_SIGMAS = {
    sigma1: L * sqrt(T * ell / period) / (n * epsilon),
    sigma2: L * D * sqrt(T * d * ell) / (alpha * n * epsilon),
}
_M41 = L**2 * d * period / (n * sigma1**2) + L**2 * d / (n * sigma2**2)
_MULTI_TERMS = {
    "descent": Phi / (D * T),
    "regret": L * sqrt(D / alpha),
    "noise of the reset": sigma1 * root,
    "noise of increments": sigma2 * sqrt(d * period),
}
_MULTI_SAMPLED = {
    "directions": (period + 1) * (d * L) ** 2 / (m * n),
    "noise of the reset": d * sigma1**2,
    "noise of increments": period * d * sigma2**2,
}
_MULTI_VARIANCE = L**2 * d**2 * period / (m * n) + sigma1**2 * d + sigma2**2 * d * period
_MULTI_SENSITIVITY = {
    "sensitivity to directions at a reset": d * n / sqrt(m),
    "sensitivity to directions of increments": sqrt(d / m) * alpha * n / D,
}


def _multi_parameters(move: Expr, steps: Expr, directions: Expr, regime: Mapping[str, Expr]) -> Choice:
    return Choice(
        {n: _N41 * sqrt(ell), D: move, T: steps, period: PERIOD, **_SIGMAS, m: directions},
        {**_MULTI_TERMS, "directions": L * d * sqrt(period / (m * n))},
        beta,
        {"Sigma >= 1": 1 / period},
        {**REGIME, **regime},
    )


def _multi_pass() -> tuple[Claim, ...]:
    move, steps = alpha * beta**2 / L**2, Phi * L**2 / (alpha * beta**3)
    fine = {"beta <= L d^(-1/4)": beta * d ** Rational(1, 4) / L}
    least = Min(move, alpha / root)
    return (
        PAPER.claim(
            "thm4.1.rate",
            "Sample size of many passes",
            "Theorem 4.1",
            _sample_size(_N41, MULTI_PASS, (n, D, T, period), logs=(ell,)),
            _MULTI_ORIGIN,
            calculation=calculate.MULTI_PASS,
        ),
        PAPER.claim(
            "thm4.1.parameters",
            "Parameters of many passes",
            "Theorem 4.1, and its proof",
            _multi_parameters(alpha * move, steps / alpha, _M41, fine),
            "The terms of the proof at the printed parameters and n, against beta.",
            erratum=PAPER.erratum(
                Severity.RATE,
                "D = alpha^2 beta^2/L^2 is no length, and T = Phi L^2/(alpha^2 beta^3) no number: from L "
                "sqrt(D/alpha) = beta and Phi/(D T) = beta follow D = alpha beta^2/L^2 and T = Phi L^2/(alpha "
                "beta^3). In units with alpha > 1 the printed D misses beta (alpha = 4, beta = 0.1, L = 1: the second "
                "term is 0.2); for alpha < 1 it takes 1/alpha times too many steps. n depends on D T only, and is "
                "right.",
                _multi_parameters(move, steps, _M41, fine),
            ),
            calculation=calculate.MULTI_PASS_PARAMETERS,
        ),
        PAPER.claim(
            "thm4.1.period",
            "Period of many passes, once D and T have the right units",
            "Theorem 4.1",
            _multi_parameters(move, steps, _M41, {}),
            "The printed D and T with alpha for alpha^2, which thm4.1.parameters corrects; the other parameters as "
            "printed, for every beta <= L.",
            erratum=PAPER.erratum(
                Severity.RATE,
                "Here D and T are those that the units ask for, not those in print. Then Sigma = alpha/(D sqrt d) = "
                "L^2/(beta^2 sqrt d) is a number of steps only where beta <= L d^(-1/4), "
                "which the theorem does not assume. With D = min(alpha beta^2/L^2, alpha/sqrt d) and T = Phi/(D beta) "
                "the same n suffices for every beta <= L.",
                _multi_parameters(least, Phi / (D * beta), _M41, {}),
            ),
        ),
        PAPER.claim(
            "thm4.1.accuracy",
            "Accuracy of many passes",
            "Section 7.2, proof of Theorem 4.1",
            Rate(
                norm,
                beta + L * d ** Rational(3, 4) * sqrt(Phi) / (n * epsilon * sqrt(alpha * beta)),
                {
                    name: term.xreplace(_SIGMAS).xreplace({period: PERIOD}).xreplace({T: steps}).xreplace({D: move})
                    for name, term in _MULTI_TERMS.items()
                },
                logs=(ell,),
            ),
            "The terms of the proof at D and T in the right units.",
        ),
        PAPER.claim(
            "thm4.1.G0",
            "Error of the oracle of many passes",
            "Section 7.2, proof of Theorem 4.1",
            Rate(
                G0,
                L * sqrt(D * T) * d ** Rational(3, 4) / (n * epsilon * sqrt(alpha)),
                {name: _MULTI_TERMS[name].xreplace(_SIGMAS) for name in ("noise of the reset", "noise of increments")},
                (period,),
                logs=(ell,),
            ),
            "Lemma 4.4's noise, at the best period.",
        ),
        PAPER.claim(
            "remark4.2",
            "Sample size of many passes for the population",
            "Remark 4.2",
            _sample_size(_N41 + L**2 * d / beta**2, {**MULTI_PASS, **_GENERAL}, (n, D, T, period), logs=(ell, ell_net)),
            "Theorem 4.1, and the generalisation error of Proposition 5.1 at most beta.",
        ),
        PAPER.claim(
            "lemma4.3.sigma1",
            "Noise of resets",
            "Lemma 4.3",
            Rate(
                sigma1,
                _SIGMAS[sigma1],
                {"sigma_1": sigma1},
                (sigma1,),
                {"composition": sqrt(T / period) * (L / n) / sigma1 * sqrt(ell) / epsilon},
            ),
            "T/Sigma Gaussian releases of sensitivity L/n: sqrt(T/Sigma) (L/n)/sigma_1 is their joint ratio, at most "
            "epsilon/sqrt(ln(1/delta)).",
        ),
        PAPER.claim(
            "lemma4.3.sigma2",
            "Noise of increments",
            "Lemma 4.3",
            Rate(
                sigma2,
                _SIGMAS[sigma2],
                {"sigma_2": sigma2},
                (sigma2,),
                {"composition": sqrt(T) * (root * L / alpha * 2 * D / n) / sigma2 * sqrt(ell) / epsilon},
            ),
            "T Gaussian releases of sensitivity L sqrt(d) D/(alpha n).",
        ),
        PAPER.claim(
            "lemma4.3.m",
            "Directions for privacy of many passes",
            "Lemma 4.3 and Theorem 4.1",
            Choice(
                {period: PERIOD, **_SIGMAS, m: _M41},
                {"noise": sigma1 * root + sigma2 * sqrt(d * period), "directions": L * d * sqrt(period / (m * n))},
                sigma1 * root + sigma2 * sqrt(d * period),
                _MULTI_SENSITIVITY,
                {"Sigma >= 1": D * root / alpha, "n >= 1": 1 / n},
            ),
            "Lemma 3.4 with B = n, to which the text refers: the errors L d/sqrt(m) of the directions must not exceed "
            "the sensitivities L/n and L sqrt(d) D/(alpha n) for which the noise is made.",
            erratum=PAPER.erratum(
                Severity.PRIVACY,
                "This m makes the directions' variance as small as the noise (Lemma 4.4), and leaves the sensitivity "
                "unbounded: Lemma 3.4 with B = n asks for m >= d^2 n^2 and m >= d n^2 alpha^2/D^2 (times a logarithm, "
                "with a union over all T steps). At Phi = L = 1, d = 100, alpha = beta = 0.1, epsilon = 1, delta = "
                "1e-6 and n = 11754 the printed m is about 1.7e3, those are 1.4e12 and 1.4e14. So the proof of "
                "privacy fails. Clipping each sample's estimate and increment bounds the sensitivity with few "
                "directions.",
                Choice(
                    {period: PERIOD, **_SIGMAS, m: _M41 + d**2 * n**2 + d * n**2 * alpha**2 / D**2},
                    {"noise": sigma1 * root + sigma2 * sqrt(d * period), "directions": L * d * sqrt(period / (m * n))},
                    sigma1 * root + sigma2 * sqrt(d * period),
                    _MULTI_SENSITIVITY,
                    {"Sigma >= 1": D * root / alpha, "n >= 1": 1 / n},
                ),
            ),
            calculation=calculate.MULTI_PASS_PARAMETERS,
        ),
        PAPER.claim(
            "lemma4.4.m",
            "Directions for accuracy of many passes",
            "Section 7.2, proof of Theorem 4.1",
            Choice(
                {period: PERIOD, **_SIGMAS, m: _M41},
                {"directions": L * d * sqrt(period / (m * n))},
                sigma1 * root + sigma2 * sqrt(d * period),
            ),
            "The first term of Lemma 4.4 against the other two, which is what this m is for.",
        ),
        PAPER.claim(
            "lemma4.4.error",
            "Error of the oracle of many passes",
            "Lemma 4.4, first bound",
            Rate(variance, _MULTI_VARIANCE, _MULTI_SAMPLED, regime={"Sigma >= 1": 1 / period}),
            "n independent sets of m directions a step, for at most Sigma steps, and the noise of as many.",
        ),
        PAPER.claim(
            "lemma4.4.moment",
            "Second moment of the oracle of many passes",
            "Lemma 4.4, second bound",
            Rate(
                second,
                _MULTI_VARIANCE + L**2,
                {**_MULTI_SAMPLED, "gradient": L**2},
                regime={"Sigma >= 1": 1 / period},
            ),
            "The first bound, and the square of the true gradient.",
        ),
    )


# ---------------------------------------------------------------- Sections 5 and 6
_DIRECTIONS_FIRST = {
    "directions of increments": L * sqrt(period / (B2 * m)) / beta,
    "sensitivity to directions of increments": alpha * B2 / (D * sqrt(d * m)),
}
_FIRST_SAMPLED = {
    "reset": L**2 / B1,
    "increments": period * (root * L / alpha * 2 * D) ** 2 / B2,
    "directions of increments": period * L**2 / m / B2,
    "tree": d * sigma**2 * ell_sum,
}
_FIRST_VARIANCE = L**2 / B1 + L**2 * d * D**2 * period / (alpha**2 * B2) + sigma**2 * d * ell_sum
_FIRST_VARIANCE = _FIRST_VARIANCE + L**2 * period / (m * B2)
_M_FIRST = B2**2 * alpha**2 / (D**2 * d)
_AT_PERIOD = {B1: PERIOD, B2: Integer(1)}
_NET = {
    "Hoeffding on the net": L * sqrt(d * ell_net / n),
    "between net points": root * L / alpha * radius,
}


def _generalisation() -> tuple[Claim, ...]:
    stated = L * sqrt(d * ell_net / n)
    return (
        PAPER.claim(
            "prop5.1",
            "From the empirical to the population objective",
            "Proposition 5.1, and eq. (15)",
            Rate(gap, stated, {"a flat cell": L / 2}, regime={"n >= d": d / n}, logs=(ell_net,)),
            "One dimension, L = 1: the slope of a sample's loss on each of N cells of the line is 1 with probability "
            "3/4, else -1, independently. The population has slope 1/2 everywhere; with N large, some cell within "
            "alpha has an empirical slope of at most 0, so that the empirical Goldstein norm is 0, for every n.",
            erratum=PAPER.erratum(
                Severity.RATE,
                "False under Assumption 2.2 alone: the cited uniform convergence (Mei et al. 2018, Theorem 1) needs "
                "Hessians, and gradients of nonsmooth losses do not converge uniformly. The smoothed losses have (L "
                "sqrt(d)/alpha)-Lipschitz gradients; for them the same bound follows from a net of X + B_alpha and "
                "Hoeffding's inequality for vectors. Theorem 4.1's proof bounds the smoothed norm, so that Remark 4.2 "
                "stands; that every empirical Goldstein point generalises does not.",
                Rate(gap_smooth, stated, _NET, (radius,), regime={"n >= d": d / n}),
            ),
        ),
        PAPER.claim(
            "sec5.size",
            "Samples for generalisation",
            "Section 5, below Proposition 5.1, and Section 1.1",
            Rate(n, d / beta**2, {"n": n}, (n,), _GENERAL, logs=(ell_net,), order="O"),
            "The generalisation error at most beta.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "n = O(d/beta^2) lacks the factor L^2 that Remark 4.2 has.",
                Rate(n, L**2 * d / beta**2, {"n": n}, (n,), _GENERAL, logs=(ell_net,), order="O"),
            ),
        ),
    )


def _first_order() -> tuple[Claim, ...]:
    return (
        PAPER.claim(
            "thm6.1.rate",
            "Sample size with gradients",
            "Theorem 6.1",
            _sample_size(_N31, {**SINGLE_PASS, **_DIRECTIONS_FIRST}),
            "As Theorem 3.1, with the directions of Lemmas 6.3 and 6.5.",
            calculation=calculate.SINGLE_PASS,
        ),
        PAPER.claim(
            "thm6.1.parameters",
            "Parameters with gradients",
            "Theorem 6.1",
            Choice(
                {
                    T: n,
                    D: MOVE,
                    period: PERIOD_PRINTED,
                    B1: period,
                    B2: Integer(1),
                    M: alpha / (4 * D),
                    m: _M_FIRST,
                },
                {
                    "descent": Phi / (D * T),
                    "regret": L / sqrt(M),
                    "reset": _ERRORS["reset"],
                    "increments": _ERRORS["increments"],
                    "directions of increments": L * sqrt(period / (m * B2)),
                    **NOISE,
                },
                _ACCURACY["sampling"] + _ACCURACY["privacy"],
                {**SAMPLES, "M >= 1": 1 / M, "privacy": L / sqrt(m) / (L * root * D / (alpha * B2))},
                _ENOUGH_SAMPLES,
            ),
            "The terms of the proof at its parameters, against the accuracy that n samples give.",
            calculation=calculate.SINGLE_PASS_PARAMETERS,
        ),
        PAPER.claim(
            "eq10",
            "Mean of the first-order estimator",
            "eq. (10), and the sentence below it",
            Identity(mean, (sign(1 + u) + sign(u - 1)) / 2, (1 + u) / 2 - (1 - u) / 2, example={u: half}),
            "d = 1, loss |x| at x = u alpha with u < 1: the mean of the slopes at x + alpha and x - alpha (the "
            "sphere), against the zero-order estimate (|x + alpha| - |x - alpha|)/(2 alpha) = u.",
            erratum=PAPER.erratum(
                Severity.RATE,
                "Directions on the sphere do not give the mean of the zero-order estimator: 0 against 1/2 at u = 1/2. "
                "With y uniform in the ball, as in Algorithm 5, they do.",
                Identity(mean, (1 + u) / 2 - (1 - u) / 2, (Max(1 + u, 0) - Max(1 - u, 0)) / 2),
            ),
        ),
        PAPER.claim(
            "remark6.2",
            "Oracle calls with and without gradients",
            "Remark 6.2, and Section 1.1",
            Rate(ratio, d**2, {"directions": expand((_M_PRINTED / _M_FIRST).xreplace(_AT_PERIOD))}, order="Omega"),
            "The m of Theorem 3.1 over that of Theorem 6.1, with B1 = Sigma = alpha/(D sqrt d) and B2 = 1.",
        ),
        PAPER.claim(
            "lemma6.3.reset",
            "Sensitivity of a reset with gradients",
            "Lemma 6.3, first case",
            Inequality(
                (u + v) * L / B1,
                L / B1,
                {L: (0.1, 10), B1: (1, 1e3), u: (1e-3, 1), v: (1e-3, 1)},
                example={L: 1, B1: 10, u: 1, v: 1},
            ),
            "One of B1 gradients, of norm u L, is replaced by another of norm v L, which may be opposite.",
            erratum=PAPER.erratum(
                Severity.PRIVACY,
                "The exact bound L/B1 should be 2L/B1: f = L x_1 and f = -L x_1.",
                Inequality(
                    (u + v) * L / B1,
                    2 * L / B1,
                    {L: (0.1, 10), B1: (1, 1e3), u: (1e-3, 1), v: (1e-3, 1)},
                ),
            ),
        ),
        PAPER.claim(
            "lemma6.3.increments",
            "Sensitivity of an increment with gradients",
            "Lemma 6.3, second case",
            Rate(
                sensitivity,
                L * root * D / (alpha * B2) + L * sqrt(ell_union) / sqrt(m),
                {
                    "smoothed gradients": 2 * (root * L / alpha) * 2 * D / B2,
                    "directions of all samples": 4 * B2 * (L * sqrt(ell_union / m)) / B2,
                },
            ),
            "The paper's proof: smoothed gradients are (L sqrt(d)/alpha)-Lipschitz, and a gradient has norm L.",
        ),
        PAPER.claim(
            "lemma6.4.m",
            "Directions for privacy with gradients",
            "Lemma 6.4, and Theorem 6.1",
            Choice(
                {m: ell_union * _M_FIRST},
                {"error of the directions": L * sqrt(ell_union / m)},
                L * root * D / (alpha * B2),
            ),
            "The error of the directions must not exceed the sensitivity of the smoothed increments.",
        ),
        PAPER.claim(
            "lemma6.4.sigma",
            "Noise of one pass with gradients",
            "Lemma 6.4",
            Rate(sigma, _SIGMA_LEMMA, _STATED_TREE),
            "Proposition 2.5 with the sensitivities of Lemma 6.3.",
            erratum=PAPER.erratum(
                Severity.PRIVACY, _LOG_WORDING, Rate(sigma, _SIGMA_LEMMA * sqrt(ell_sum), _STATED_TREE)
            ),
        ),
        PAPER.claim(
            "lemma6.5.error",
            "Error of the first-order oracle",
            "Lemma 6.5, first bound",
            Rate(variance, _FIRST_VARIANCE, _FIRST_SAMPLED),
            "As Lemma 3.6, with gradients of norm L in place of estimates of norm d L.",
        ),
        PAPER.claim(
            "lemma6.5.moment",
            "Second moment of the first-order oracle",
            "Lemma 6.5, second bound",
            Rate(
                second,
                _FIRST_VARIANCE - L**2 / B1 + L**2,
                {**_FIRST_SAMPLED, "gradient": L**2},
                regime={"B1 >= 1": 1 / B1},
            ),
            "The first bound, and the square of the true gradient.",
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    *_introduction(),
    *preliminaries.CLAIMS,
    *_single_pass(),
    *_multi_pass(),
    *_generalisation(),
    *_first_order(),
    *appendices.CLAIMS,
    *own_results.CLAIMS,
)
