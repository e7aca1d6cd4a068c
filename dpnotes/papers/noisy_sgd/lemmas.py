"""Claims of the lemmas behind the convergence: descent, coupling, growth and escape (Lemmas B.2 to B.13, C.1).

Vectors are taken along one direction where the others change nothing: the coupled iterates differ along v_1 only.
"""

from collections.abc import Sequence
from typing import Any

from sympy import Integer, Rational, Sum, erf, erfc, exp, integrate, log, sqrt

from dpnotes.papers.noisy_sgd.notation import (
    FROM_ONE,
    GRADIENT,
    PAPER,
    SCALES,
    SYMBOLS,
    B,
    Delta,
    L,
    T,
    alpha,
    c,
    c_F,
    c_I,
    c_R,
    d,
    decrease,
    delta_t,
    eigenvalue,
    ell,
    escape,
    eta,
    first_share,
    gamma,
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
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Rate
from dpnotes.theory.statements import Identity
from dpnotes.theory.symbols import COUNT, REAL, Domain
from dpnotes.theory.units import LENGTH, LOSS

t = SYMBOLS.symbol("t", "number of iterations from the start", domain=COUNT)
k = SYMBOLS.symbol("k", "iteration, or coordinate", domain=COUNT)
growth = SYMBOLS.symbol("alpha_t", "growth of independent noise")
geometric = SYMBOLS.symbol("beta_t", "growth of a distance", latex="\\beta_t")
a = SYMBOLS.symbol("a", "a gradient, or its norm", GRADIENT)
b = SYMBOLS.symbol("b", "a gradient, or its norm", GRADIENT)
minibatch = SYMBOLS.symbol("zeta", "minibatch noise", GRADIENT, domain=REAL)
minibatch_coupled = SYMBOLS.symbol("zeta'", "minibatch noise of the coupled sequence", GRADIENT, domain=REAL)
noise = SYMBOLS.symbol("xi", "privacy noise", GRADIENT, domain=REAL)
noise_coupled = SYMBOLS.symbol("xi'", "privacy noise of the coupled sequence", GRADIENT, domain=REAL)

_DISTANCE = (1 + small) ** t / sqrt(small)  # beta_t
_NOISE = sqrt(((1 + small) ** (2 * t) - 1) / (small * (2 + small)))  # alpha_t
_SERIES = ({t: 1}, {t: 2}, {t: 5})
_GROWTH = {small: (1e-4, 0.999), t: (1, 300)}
_EVERYWHERE = {small: (1e-3, 1), t: (1, 5000)}
_LATE = (t >= 1 / small,)


def _unrolled(factor: Any, increments: Sequence[Any]) -> Any:
    """Start at 0; in every iteration multiply by the factor, and subtract eta times the increment."""
    distance = Integer(0)
    for increment in increments:
        distance = factor * distance - eta * increment
    return distance


# ---------------------------------------------------------------- Lemmas B.2 and B.4
def _step(value: Any) -> Identity:
    """One step on L x^2/2, where smoothness is an equality."""
    slope = SYMBOLS.symbol("g", "gradient", GRADIENT, domain=REAL)
    step = SYMBOLS.symbol("s", "step over eta", GRADIENT, domain=REAL)
    place = slope / L
    derived = L * place**2 / 2 - L * (place - eta * step) ** 2 / 2
    name = SYMBOLS.symbol("f(x_t)-f(x_{t+1})", "decrease in one iteration", LOSS, latex="f(x_t) - f(x_{t+1})")
    example = {slope: 1, minibatch: 0, noise: 1, eta: 0.1, L: 1}
    return Identity(name, value(slope, step), derived, where={step: slope + minibatch + noise}, example=example)


def _scale_of_noise(value: Any) -> Inequality:
    """E exp(|xi|^2/s) = (1 - 2 Delta^2/s)^(-d/2) of a Gaussian vector is e at this s."""
    least = SYMBOLS.symbol("s", "least s for which xi is nSG(s)", GRADIENT**2)
    exact = 2 * Delta**2 / (1 - exp(-2 / d))
    region = {d: (1, 1e6), Delta: (0.1, 10)}
    return Inequality(exact, value, region, example={d: 1, Delta: 1}, subject=least)


def _descent() -> tuple[Claim, ...]:
    gradients = SYMBOLS.sequence("v", "gradient norms", GRADIENT)
    squares = Sum(gradients[k] ** 2, (k, 1, t))
    left_over = SYMBOLS.symbol("noise", "what the noise takes from the decrease", LOSS)
    distance = SYMBOLS.symbol("|x_t-x_0|^2", "squared distance", LENGTH**2, latex="\\|x_t - x_0\\|^2")
    through = eta * total**2 * (eta * L * T + ell)
    return (
        PAPER.claim(
            "lemmaB.2.step",
            "Decrease in one step",
            "Lemma B.2, proof",
            _step(lambda g, s: eta * g * (g + minibatch) - L / 2 * (eta * s) ** 2),
            "One step x - eta (g + zeta + xi) on f = L x^2/2, where the descent lemma is an equality.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "The first line of the proof has the minibatch gradient where the step, which includes the privacy "
                "noise xi, belongs; the next line is right.",
                _step(lambda g, s: eta * g * s - L / 2 * (eta * s) ** 2),
            ),
        ),
        PAPER.claim(
            "lemmaB.2.square",
            "Square of a gradient and its noise",
            "Lemma B.2, proof",
            Inequality((a + b) ** 2, Rational(3, 2) * a**2 + 3 * b**2, {a: (0.01, 10), b: (0.01, 10)}),
            "(1 + nu) |a|^2 + (1 + 1/nu) |b|^2 at nu = 1/2, for vectors of one direction, the worst case.",
        ),
        PAPER.claim(
            "lemmaB.2.coefficient",
            "Coefficient of the squared gradients",
            "Lemma B.2, proof",
            Inequality(
                eta - Rational(3, 4) * eta**2 * L,
                eta / 4,
                {first_share: (1e-3, 1), L: (0.1, 10)},
                ">=",
                where={eta: first_share / L},
            ),
            "eta - (eta^2 L/2) (3/2), at a share u of the step size 1/L.",
        ),
        PAPER.claim(
            "lemmaB.2.noise",
            "What the noise takes from the decrease",
            "Lemma B.2",
            Rate(
                left_over,
                through,
                {"cross term": eta * total**2 * ell, "squares": eta**2 * L * total**2 * (T + ell)},
                regime={"step size": eta * L},
            ),
            "The two bounds of the proof: of the cross term, beyond an eighth of the gradients, and of the squares.",
        ),
        PAPER.claim(
            "lemmaB.2.probability",
            "Failure probability of the descent lemma",
            "Lemma B.2",
            Ratio(log(2 / delta_t), log(1 / delta_t), {delta_t: (0.1, -1)}),
            "The proof uses two events that fail with probability delta_t each; with delta_t/2 in each of them, the "
            "lemma holds as printed, with another constant c.",
        ),
        PAPER.claim(
            "lemmaB.4.noise",
            "The privacy noise is norm-subgaussian",
            "Lemma B.4, proof, with Definition 2.2",
            _scale_of_noise(d * Delta**2),
            "The Gaussian integral of exp(|xi|^2/s), which is to be at most e; for s <= 2 Delta^2 it is infinite.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "That zeta + xi is nSG(sigma_t^2) fails already for the privacy noise alone: N(0, Delta^2 I) is not "
                "nSG(d Delta^2), but nSG((d + 4/3) Delta^2). The constants c of the lemmas have room for it; those of "
                "the mean of a batch, for which Jin et al. (2019) have a log(d) more, are left to the O with a tilde.",
                _scale_of_noise((d + Rational(4, 3)) * Delta**2),
            ),
        ),
        PAPER.claim(
            "lemmaB.4.sum",
            "Squared distance by squared gradients",
            "Lemma B.4, proof",
            Inequality(
                eta**2 * (Sum(gradients[k], (k, 1, t)) + total) ** 2,
                2 * eta**2 * (t * squares + total**2),
                {eta: (0.01, 1), gradients: (0.01, 10), total: (0.01, 10)},
                instance={t: 3},
                subject=distance,
            ),
            "Cauchy and Schwarz twice; v_k are the gradients' norms, sigma_t stands for that of the summed noise.",
        ),
        PAPER.claim(
            "lemmaB.4.distance",
            "Squared distance by decrease",
            "Lemma B.4",
            Rate(
                distance,
                eta * T * (decrease + through),
                {
                    "gradients, by the decrease": eta**2 * T * decrease / eta,
                    "gradients, by the noise of the descent": eta**2 * T * through / eta,
                    "noise": eta**2 * T * total**2 * ell,
                },
                regime={"step size": eta * L},
            ),
            "Lemma B.2 for the sum of the squared gradients, T iterations, in which the objective decreases by F. "
            "(The constants of decrease and noise differ; where the objective grows, they cannot be one c.)",
        ),
    )


# ---------------------------------------------------------------- Definition B.6 and Lemma B.7
def _coupled_noise(value: Any) -> Identity:
    name = SYMBOLS.symbol("std(xi)", "standard deviation of a coordinate of the noise", GRADIENT)
    where = {total: sqrt(sigma**2 / B + d * Delta**2)}
    example = {sigma: 1, B: 4, d: 10, Delta: 2}
    return Identity(name, value, sqrt(Sum(Delta**2, (k, 1, d)) / d), where, instances=({d: 3},), example=example)


def _coupled_step(value: Any) -> Identity:
    names = {"x": LENGTH, "x'": LENGTH, "g": GRADIENT, "g'": GRADIENT}
    x, y, g, h = (SYMBOLS.symbol(name, "of one coupled sequence", unit, REAL) for name, unit in names.items())
    bars = (
        SYMBOLS.symbol(f"{name}bar", "difference of the coupled sequences", unit, REAL)
        for name, unit in (("x", LENGTH), ("zeta", GRADIENT), ("xi", GRADIENT))
    )
    xbar, zetabar, xibar = bars
    where = {xbar: x - y, zetabar: minibatch - minibatch_coupled, xibar: noise - noise_coupled}
    derived = (x - eta * (g + minibatch + noise)) - (y - eta * (h + minibatch_coupled + noise_coupled))
    after = SYMBOLS.symbol("xbar_{t+1}", "difference after a step", LENGTH, latex="\\bar x_{t+1}")
    return Identity(after, value(xbar, zetabar, xibar, g - h), derived, where=where)


def _coupling() -> tuple[Claim, ...]:
    orthogonal = SYMBOLS.symbol("y", "noise across v", GRADIENT, domain=REAL)
    across = sqrt(1 - first_share**2)
    inner = first_share * noise + across * orthogonal
    increments = SYMBOLS.sequence("w", "differences of the noises, and of the gradients from H", GRADIENT, REAL)
    distance = SYMBOLS.symbol("xbar_t", "difference of the coupled sequences", LENGTH, latex="\\bar x_t")
    factor = 1 - eta * eigenvalue
    return (
        PAPER.claim(
            "defB.6.variance",
            "Noise of the coupled sequences",
            "Definition B.6",
            _coupled_noise(total),
            "The noise xi of Algorithm 2: variance Delta^2 in each of d coordinates.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "xi ~ N(0, sigma_t^2 I) should be N(0, Delta^2 I): sigma_t^2 is the sum over all coordinates, with "
                "the minibatch noise, which Definition B.6 adds apart. Lemma B.9 has Delta. (The difference of the "
                "iterates at t + 1 is printed with those at t, too.)",
                _coupled_noise(Delta),
            ),
        ),
        PAPER.claim(
            "defB.6.reflection",
            "The reflected noise has the same law",
            "Definition B.6",
            Identity(
                SYMBOLS.symbol("|xi'|^2", "squared norm of the reflected noise", GRADIENT**2, latex="\\|\\xi'\\|^2"),
                noise**2 + orthogonal**2,
                (noise - 2 * inner * first_share) ** 2 + (orthogonal - 2 * inner * across) ** 2,
            ),
            "xi - 2 <v, xi> v in the plane of v = (u, sqrt(1 - u^2)) and xi: linear, and it keeps the norm, on which "
            "alone the density of the noise depends.",
        ),
        PAPER.claim(
            "lemmaB.7.step",
            "Difference after one step",
            "Lemma B.7, proof",
            _coupled_step(lambda x, zeta, xi, g: x - eta * (zeta + zeta) - eta * g),
            "Two steps of Definition B.6, subtracted.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "The minibatch noise stands twice; one of them should be the privacy noise.",
                _coupled_step(lambda x, zeta, xi, g: x - eta * (zeta + xi) - eta * g),
            ),
        ),
        PAPER.claim(
            "lemmaB.7.sum",
            "Difference of the coupled sequences",
            "Lemma B.7",
            Identity(
                distance,
                -eta * Sum(factor ** (t - 1 - k) * increments[k], (k, 0, t - 1)),
                _unrolled(factor, [increments[index] for index in range(4)]),
                instances=({t: 4},),
            ),
            "Four steps from 0, along an eigenvector of H; w_k = xibar_k + zetabar_k + Gamma_k xbar_k.",
        ),
    )


# ---------------------------------------------------------------- Lemmas B.8 and B.9
def _dif(value: Any) -> Identity:
    name = SYMBOLS.symbol("dif_t", "difference due to the noise", LENGTH, latex="\\mathrm{dif}_t")
    reflected = [_PROJECTED[index] - (-_PROJECTED[index]) for index in range(4)]
    return Identity(name, value, -_unrolled(1 + small, reflected), instances=({t: 4},))


def _variance_of_dif(value: Any) -> Identity:
    name = SYMBOLS.symbol("Var(dif_t)", "variance of the difference", LENGTH**2, latex="\\mathrm{Var}(\\mathrm{dif}_t)")
    derived = Sum((eta * (1 + small) ** (t - 1 - k) * 2 * Delta) ** 2, (k, 0, t - 1))
    return Identity(name, value, derived, instances=_SERIES)


def _small_dif(conditions: tuple[Any, ...] = ()) -> Inequality:
    """P(|N(0, 1)| <= z) at the z that makes a standard deviation 2 eta Delta alpha_t into beta_t eta Delta/10."""
    name = SYMBOLS.symbol("P[|dif_t| <= beta_t*eta*Delta/10]", "probability that the noise moves little")
    quantity = erf(_DISTANCE / (20 * sqrt(2) * _NOISE))
    return Inequality(
        quantity, Rational(1, 3), _GROWTH, conditions=conditions, example={} if conditions else {small: 0.001, t: 1},
        subject=name,
    )  # fmt: skip


_PROJECTED = SYMBOLS.sequence("xi", "noise along v_1", GRADIENT, REAL)


def _growing() -> tuple[Claim, ...]:
    deviations = SYMBOLS.symbol("z", "standard deviations")
    squared = SYMBOLS.symbol("alpha_t^2", "growth of the variance", latex="\\alpha_t^2")
    tail = SYMBOLS.symbol("P[|dif_t| >= 2*beta_t*eta*Delta*sqrt(log(1/delta_t))]", "probability of a large difference")
    return (
        PAPER.claim(
            "lemmaB.8.sum",
            "Growth of the noise, in closed form",
            "Lemma B.8, proof",
            Identity(
                squared,
                ((1 + small) ** (2 * t) - 1) / (small * (2 + small)),
                Sum((1 + small) ** (2 * k), (k, 0, t - 1)),
                instances=_SERIES,
            ),
            "The geometric series, x = eta gamma.",
        ),
        PAPER.claim(
            "lemmaB.8.upper",
            "Growth of the noise from above",
            "Lemma B.8",
            Inequality(_NOISE, _DISTANCE, _GROWTH, subject=growth),
            "The closed form; a factor sqrt(2) is given away, see own.growth.",
        ),
        PAPER.claim(
            "lemmaB.8.lower",
            "Growth of the noise from below",
            "Lemma B.8",
            Inequality(_NOISE, _DISTANCE / 3, _GROWTH, ">=", conditions=(t >= 2 / small,), subject=growth),
            "The closed form for eta gamma < 1; see own.growth for the best constant and t.",
        ),
        PAPER.claim(
            "lemmaB.8.half",
            "When the 1 of the closed form is small",
            "Lemma B.8, proof",
            Inequality((1 + small) ** (2 * t), Integer(2), _GROWTH, ">=", conditions=_LATE),
            "(1 + x)^{2t} at t >= 1/x, x < 1.",
        ),
        PAPER.own(
            "growth",
            "Growth of the noise from below, sharply",
            Inequality(_NOISE, _DISTANCE / 2, _EVERYWHERE, ">=", conditions=_LATE, subject=growth),
            "The closed form, whose square over beta_t^2 is (1 - (1 + x)^{-2t})/(2 + x).",
        ),
        PAPER.own(
            "spread",
            "Growth of the noise from above, sharply",
            Inequality(_NOISE, _DISTANCE / sqrt(2), _EVERYWHERE, subject=growth),
            "The closed form, whose square over beta_t^2 is (1 - (1 + x)^{-2t})/(2 + x).",
        ),
        PAPER.claim(
            "lemmaB.9.dif",
            "Difference due to the noise, along the escaping direction",
            "Lemma B.9, proof",
            _dif(eta * Sum((1 + small) ** (t - 1 - k) * _PROJECTED[k], (k, 0, t - 1))),
            "Four steps from 0 with the noise xi - xi' = 2 <xi, v_1> v_1; xi_k is <xi, v_1> in step k, x = eta gamma.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The factor 2 of xibar = 2 <v_1, xi> v_1, in the line above, is dropped.",
                _dif(2 * eta * Sum((1 + small) ** (t - 1 - k) * _PROJECTED[k], (k, 0, t - 1))),
            ),
        ),
        PAPER.claim(
            "lemmaB.9.variance",
            "Variance of the difference due to the noise",
            "Lemma B.9, proof",
            _variance_of_dif(eta * Sum((1 + small) ** k * Delta**2, (k, 0, t - 1))),
            "The sum of the variances of eta (1 + x)^{t-1-k} 2 <xi_k, v_1>, x = eta gamma.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "eta should be squared, (1 + eta gamma)^k as well, and the factor 4 of the reflection is missing: 4 "
                "eta^2 Delta^2 alpha_t^2, which is no Delta^2 alpha_t^2 either. It is the variance of the component "
                "along v_1, not of the norm. The bounds of the lemma do have the eta.",
                _variance_of_dif(4 * eta**2 * Delta**2 * ((1 + small) ** (2 * t) - 1) / (small * (2 + small))),
            ),
        ),
        PAPER.claim(
            "lemmaB.9.upper",
            "The noise does not move too far",
            "Lemma B.9",
            Inequality(
                erfc(2 * _DISTANCE * sqrt(log(1 / delta_t)) / (2 * sqrt(2) * _NOISE)),
                delta_t,
                {**_GROWTH, delta_t: (1e-40, 0.999)},
                subject=tail,
            ),
            "A Gaussian of standard deviation 2 eta Delta alpha_t; c = 2 is enough.",
        ),
        PAPER.claim(
            "lemmaB.9.density",
            "A Gaussian is rarely small",
            "Lemma B.9, proof",
            Inequality(erf(deviations / sqrt(2)), deviations, {deviations: (1e-6, 10)}),
            "P(|X| <= z) of a standard Gaussian X.",
        ),
        PAPER.claim(
            "lemmaB.9.lower",
            "The noise moves far enough",
            "Lemma B.9",
            _small_dif(),
            "A Gaussian of standard deviation 2 eta Delta alpha_t, at any t, as the lemma says; x = eta gamma.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "'For any t' should be t >= 1/(eta gamma): in the first iterations alpha_t is far below beta_t (at t "
                "= 1 by sqrt(eta gamma)). Lemma B.11 uses it at t = I only.",
                _small_dif(_LATE),
            ),
        ),
    )


# ---------------------------------------------------------------- Lemmas B.10 to B.13
def _error_of_hessian(value: Any) -> Identity:
    name = SYMBOLS.symbol("|err_t|", "error of the quadratic approximation", LENGTH, latex="\\|\\mathrm{err}^Q_t\\|")
    moved = c * geometric * eta * Delta * sqrt(ell)
    return Identity(name, value, eta * escape * 2 * rho * radius * moved, where=SCALES)


def _all_steps(value: Any) -> Identity:
    name = SYMBOLS.symbol("P", "probability that the bounds hold in all t iterations")
    return Identity(name, value, 1 - Sum(delta_t, (k, 1, t)), instances=({t: 3}, {t: 5}))


def _coupled_minibatches(value: Any) -> Inequality:
    name = SYMBOLS.symbol("E|zetabar|^2", "second moment of the difference", GRADIENT**2)
    shares = {first_share: (1e-3, 1), second_share: (1e-3, 1)}
    return Inequality(
        (first_share + second_share) ** 2 * sigma**2 / B, value, {**shares, sigma: (0.1, 10), B: (1, 1e3)},
        example={first_share: 1, second_share: 1, sigma: 1, B: 1}, subject=name,
    )  # fmt: skip


def _loss_of_a_bucket(value: Any) -> Inequality:
    name = SYMBOLS.symbol("f(x_I)-f(x_0)", "what the noise adds to the objective", LOSS)
    steeper = SYMBOLS.symbol("a", "L/sqrt(rho alpha)", domain=FROM_ONE)
    step = alpha**2 / (L * total**2) * c_F / (c_I + ell)
    region = {
        alpha: (0.01, 10), rho: (0.1, 10), total: (0.1, 10), steeper: (1, 100), c: (1, 10), c_F: (0.01, 1),
        c_I: (1, 10), ell: (1, 30),
    }  # fmt: skip
    return Inequality(
        c * eta * total**2 * (eta * L * escape + ell), value, region,
        where={decrease: SCALES[decrease], escape: SCALES[escape], eta: step, L: steeper * sqrt(rho * alpha)},
        example={alpha: 1, rho: 1, total: 1, steeper: 1, c: 1, c_F: 1, c_I: 1, ell: 2}, subject=name,
    )  # fmt: skip


def _escape() -> tuple[Claim, ...]:
    between = SYMBOLS.symbol("psi", "place between the coupled iterates", domain=Domain(0, 1, closed=True))
    apart = SYMBOLS.symbol("|Gamma|", "change of the Hessian", LOSS / LENGTH**2, latex="\\|\\Gamma_\\tau\\|")
    mean = integrate(between * first_share + (1 - between) * second_share, (between, 0, 1))
    reached = SYMBOLS.symbol("P[f(x_0)-f(x_I) > F]", "probability of an escape")
    far = SYMBOLS.symbol("distance", "distance of one of the coupled iterates", LENGTH)
    num_steps = SYMBOLS.symbol("I", "iterations to escape", domain=Domain(2, closed=True), latex="\\mathcal{I}")
    closer = SYMBOLS.symbol("P[|dif_t| <= beta_t*eta*Delta*sqrt(log(1/delta_t))/10]", "probability of moving little")
    of_growth = {geometric: (1 + small) ** escape / sqrt(small), small: eta * gamma}
    return (
        PAPER.claim(
            "lemmaB.10.hessian",
            "Change of the Hessian within the ball",
            "Lemma B.10, proof",
            Inequality(
                rho * radius * mean, 2 * rho * radius,
                {rho: (0.1, 10), radius: (0.1, 10), first_share: (1e-3, 1), second_share: (1e-3, 1)}, subject=apart,
            ),
            "The mean of rho times the distance from x_0 between two iterates at distances u R and v R; rho R is "
            "enough.",
        ),
        PAPER.claim(
            "lemmaB.10.product",
            "Growth of an earlier distance",
            "Lemma B.10, proof",
            Identity(
                SYMBOLS.symbol("beta_{t-1}", "growth until t - 1", latex="\\beta_{t-1}"),
                (1 + small) ** (t - 1) / sqrt(small),
                (1 + small) ** (t - 1 - k) * (1 + small) ** k / sqrt(small),
            ),
            "(1 + eta gamma)^{t-1-k} beta_k.",
        ),
        PAPER.claim(
            "lemmaB.10.quadratic",
            "Error of the quadratic approximation",
            "Lemma B.10, proof",
            _error_of_hessian(2 * c * c_R * c_I * geometric * Delta * sqrt(ell)),
            "eta times I terms of at most 2 rho R c beta_t eta Delta sqrt(ell), with R I = c_R c_I/(rho eta).",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "An eta was lost from the first line to the second: 2 c c_R c_I beta_t eta Delta sqrt(log(1/delta_t)), "
                "which the lemma does claim.",
                _error_of_hessian(2 * c * c_R * c_I * geometric * eta * Delta * sqrt(ell)),
            ),
        ),
        PAPER.claim(
            "lemmaB.10.minibatch",
            "Minibatch noise of the coupled sequences",
            "Lemma B.10, proof",
            _coupled_minibatches(sigma**2 / B),
            "zeta - zeta' of the same batch at two points, of norms u and v times sigma/sqrt(B) and any directions.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "'Each err^sgd is nSG(sigma^2/B)' is meant of each zetabar, which is a difference of two: nSG(4 "
                "sigma^2/B). The constant c of the lemma has room for it.",
                _coupled_minibatches(4 * sigma**2 / B),
            ),
        ),
        PAPER.claim(
            "lemmaB.10.probability",
            "Probability of the induction",
            "Lemma B.10, proof",
            _all_steps(1 - t * total),
            "A union bound over t iterations, each of which fails with probability delta_t.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "'At most 1 - t sigma_t' should be 'at least 1 - t delta_t', and the bound on the distance lacks its "
                "sqrt(log(1/delta_t)).",
                _all_steps(1 - t * delta_t),
            ),
        ),
        PAPER.claim(
            "lemmaB.11.loss",
            "Loss of a bucket without an escape",
            "Lemma B.11",
            _loss_of_a_bucket(decrease / 100),
            "c eta sigma_t^2 (eta L I + ell) of the descent lemma, at the step size of Corollary B.5, with L = a "
            "sqrt(rho alpha), a >= 1.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The lemma says F/100, its proof F/10, and the step size of Corollary B.5 gives c F. Lemma B.12 needs "
                "F/100 (F/10 in every bucket is more than its escapes gain): the step size has to be smaller by 100 c.",
                _loss_of_a_bucket(c * decrease),
            ),
        ),
        PAPER.claim(
            "lemmaB.11.size",
            "The noise moves the coupled iterates apart",
            "Lemma B.11, proof",
            Inequality(
                erf(sqrt(log(1 / delta_t)) * _DISTANCE / (20 * sqrt(2) * _NOISE)),
                delta_t,
                {**_GROWTH, delta_t: (1e-12, 0.1)},
                conditions=_LATE,
                example={small: 0.1, t: 20, delta_t: 1e-6},
                subject=closer,
            ),
            "Lemma B.9 as quoted: beta_t eta Delta sqrt(log(1/delta_t))/10, with probability 1 - delta_t.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "Lemma B.9 gives beta_t eta Delta/10, without the logarithm, and not with probability 1 - delta_t, but "
                "2/3. The errors must then be below beta_t eta Delta/20, see thmB.13.noise.",
                _small_dif(_LATE),
            ),
        ),
        PAPER.claim(
            "lemmaB.11.distance",
            "Distance of one of the coupled iterates",
            "Lemma B.11, proof",
            Identity(
                far,
                (1 + eta * gamma) ** escape / 40 * Delta * sqrt(eta / gamma) * sqrt(ell),
                (eta * geometric * Delta * sqrt(ell) / 10 - eta * geometric * Delta * sqrt(ell) / 20) / 2,
                where=of_growth,
            ),
            "Half of the difference, which is the noise's part minus the errors, as the proof quotes them.",
        ),
        PAPER.claim(
            "lemmaB.11.probability",
            "Probability of an escape",
            "Lemma B.11",
            Inequality(
                (1 - third_share / 3 - num_steps * delta_t) / 2 - delta_t,
                Rational(1, 3) - num_steps * delta_t,
                {third_share: (1e-3, 1), num_steps: (2, 100), delta_t: (1e-8, 1e-3)},
                ">=",
                subject=reached,
            ),
            "One of two equally distributed iterates gets far unless the noise is small (1/3, Lemma B.9, of which w is "
            "the share) or a bound fails in one of I >= 2 iterations; half of that, minus delta_t of Corollary B.5. "
            "(The proof's 1/2 - 2 delta_t is for the case that one of them surely gets far.)",
        ),
        PAPER.claim(
            "thmB.13.share",
            "Share of second-order stationary points",
            "Theorem B.13",
            Identity(
                SYMBOLS.symbol("share", "least share of alpha-SOSP among the iterates"),
                Rational(1, 2),
                1 - first_share - second_share,
                where={first_share: Rational(1, 4), second_share: Rational(1, 4)},
            ),
            "At most a quarter of large gradients (Lemma B.3), and at most a quarter of saddle points (Lemma B.12).",
        ),
    )  # fmt: skip


# ---------------------------------------------------------------- Lemma C.1
def _condition(value: Any) -> Identity:
    name = SYMBOLS.symbol("least", "what d Delta^2 has to exceed", GRADIENT**2)
    example = {sigma: 1, B: 100, delta_t: 0.01, d: 10, Delta: 1}
    return Identity(name, value, sigma**2 / B / delta_t, example=example)


def _without_concentration() -> tuple[Claim, ...]:
    squares = SYMBOLS.symbol("S", "sum of the squared gradients", GRADIENT**2)
    cross = SYMBOLS.symbol("cross", "cross term of gradients and minibatch noise", LOSS)
    variance = sigma**2 / (delta_t * B)
    return (
        PAPER.claim(
            "lemmaC.1.squares",
            "Squares of the two noises",
            "Lemma C.1, proof",
            Inequality(Rational(3, 2) * (a + b) ** 2, 3 * a**2 + 3 * b**2, {a: (0.01, 10), b: (0.01, 10)}),
            "(3/2) |zeta + xi|^2 by the squares of both, for vectors of one direction.",
        ),
        PAPER.claim(
            "lemmaC.1.cross",
            "Cross term of gradients and minibatch noise",
            "Lemma C.1, proof",
            Inequality(
                eta * sqrt(squares * variance),
                eta * squares / 16 + 16 * eta * variance,
                {eta: (0.01, 1), squares: (1e-6, 1e6), sigma: (0.01, 10), B: (1, 100), delta_t: (1e-4, 0.1)},
                subject=cross,
            ),
            "The mean inequality at nu = 16; 4 in place of 16 before the variance is enough.",
        ),
        PAPER.claim(
            "lemmaC.1.condition",
            "Condition on the noise, as it is used",
            "Lemma C.1, proof, last line",
            _condition(d * Delta**2 / (delta_t * B)),
            "Markov's inequality for the mean square sigma^2/B of the minibatch noise.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "'using d Delta^2/(delta_t B)' should be 'using d Delta^2 > sigma^2/(delta_t B)', the condition of the "
                "lemma. (Chebyshev's inequality is applied with the sum of the squared gradients as they turn out, "
                "where it needs their mean; and Lemma C.2 argues 'by B', which Appendix C does not assume.)",
                _condition(sigma**2 / (delta_t * B)),
            ),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    *_descent(),
    *_coupling(),
    *_growing(),
    *_escape(),
    *_without_concentration(),
)
