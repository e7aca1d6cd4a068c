"""The lemmas of the convergence proof: descent, coupling, growth and escape (Lemmas B.2 to B.13, C.1).

Vectors are restricted to one direction where the others do not matter: the coupled iterates differ along v_1 only.
"""

from collections.abc import Sequence
from typing import Any

from sympy import Integer, Rational, Sum, erf, erfc, exp, integrate, log, sqrt

from dpnotes.papers.noisy_sgd.notation import *
from dpnotes.papers.noisy_sgd.notation import SCALES, symbol
from dpnotes.theory.asymptotics import Ratio
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Rate
from dpnotes.theory.statements import Identity
from dpnotes.theory.symbols import Domain

at, CLAIMS = PAPER.section()


# ---------------------------------------------------------------- Lemmas B.2 and B.4
minibatch = symbol("zeta", "minibatch noise", GRADIENT, domain=REAL)
noise = symbol("xi", "privacy noise", GRADIENT, domain=REAL)
slope = symbol("g", "gradient", GRADIENT, domain=REAL)
step = symbol("s", "step over eta", GRADIENT, domain=REAL)
place = slope / L
fallen = L * place**2 / 2 - L * (place - eta * step) ** 2 / 2  # one step on L x^2/2, where smoothness is an equality
by_step = {step: slope + minibatch + noise}
name = symbol("f(x_t)-f(x_{t+1})", "decrease in one iteration", LOSS, latex="f(x_t) - f(x_{t+1})")
example = {slope: 1, minibatch: 0, noise: 1, eta: 0.1, L: 1}
at("lemmaB.2.step", "Lemma B.2, proof", "Decrease in one step")(
    Identity(name, eta * slope * (slope + minibatch) - L / 2 * (eta * step) ** 2, fallen, by_step, example=example),
    "One step x - eta (g + zeta + xi) on f = L x^2/2, where the descent lemma is an equality.",
    Severity.TYPOGRAPHICAL(
        "The first line of the proof has the minibatch gradient where the step, which includes the privacy noise xi, "
        "belongs; the next line is right.",
        eta * slope * step - L / 2 * (eta * step) ** 2,
    ),
)

a = symbol("a", "a gradient, or its norm", GRADIENT, usual=(0.01, 10))
b = symbol("b", "a gradient, or its norm", GRADIENT, usual=(0.01, 10))
at("lemmaB.2.square", "Lemma B.2, proof", "Square of a gradient and its noise")(
    Inequality((a + b) ** 2, Rational(3, 2) * a**2 + 3 * b**2),
    "(1 + nu) |a|^2 + (1 + 1/nu) |b|^2 at nu = 1/2, for vectors of one direction, the worst case.",
)
at("lemmaB.2.coefficient", "Lemma B.2, proof", "Coefficient of the squared gradients")(
    Inequality(eta - Rational(3, 4) * eta**2 * L, eta / 4, sense=">=", where={eta: first_share / L}),
    "eta - (eta^2 L/2) (3/2), at a share u of the step size 1/L.",
)

left_over = symbol("noise", "what the noise takes from the decrease", LOSS)
through = eta * total**2 * (eta * L * T + ell)
terms = {"cross term": eta * total**2 * ell, "squares": eta**2 * L * total**2 * (T + ell)}
small_step = {"step size": eta * L}
at("lemmaB.2.noise", "Lemma B.2", "What the noise takes from the decrease")(
    Rate(left_over, through, terms, regime=small_step),
    "The two bounds of the proof: of the cross term, beyond an eighth of the gradients, and of the squares.",
)
at("lemmaB.2.probability", "Lemma B.2", "Failure probability of the descent lemma")(
    Ratio(log(2 / delta_t), log(1 / delta_t), {delta_t: (0.1, -1)}),
    "The proof uses two events that fail with probability delta_t each; with delta_t/2 in each of them, the lemma "
    "holds as printed, with another constant c.",
)

least = symbol("s", "least s for which xi is nSG(s)", GRADIENT**2)
exact = 2 * Delta**2 / (1 - exp(-2 / d))
# For a Gaussian vector, E exp(|xi|^2/s) = (1 - 2 Delta^2/s)^(-d/2) equals e at this s.
at("lemmaB.4.noise", "Lemma B.4, proof, with Definition 2.2", "The privacy noise is norm-subgaussian")(
    Inequality(exact, d * Delta**2, {Delta: (0.1, 10)}, example={d: 1, Delta: 1}, subject=least),
    "The Gaussian integral of exp(|xi|^2/s), which is to be at most e; for s <= 2 Delta^2 it is infinite.",
    Severity.CONSTANT(
        "That zeta + xi is nSG(sigma_t^2) fails already for the privacy noise alone: N(0, Delta^2 I) is not nSG(d "
        "Delta^2), but nSG((d + 4/3) Delta^2). The constants c of the lemmas have room for it; those of the mean of a "
        "batch, for which Jin et al. (2019) have a log(d) more, are left to the O with a tilde.",
        (d + Rational(4, 3)) * Delta**2,
    ),
)

gradients = SYMBOLS.sequence("v", "gradient norms", GRADIENT)
k = symbol("k", "iteration, or coordinate", domain=COUNT)
t = symbol("t", "number of iterations from the start", domain=COUNT, usual=(1, 300))
squares = Sum(gradients[k] ** 2, (k, 1, t))
distance = symbol("|x_t-x_0|^2", "squared distance", LENGTH**2, latex="\\|x_t - x_0\\|^2")
at("lemmaB.4.sum", "Lemma B.4, proof", "Squared distance by squared gradients")(
    Inequality(
        eta**2 * (Sum(gradients[k], (k, 1, t)) + total) ** 2,
        2 * eta**2 * (t * squares + total**2),
        {eta: (0.01, 1), gradients: (0.01, 10), total: (0.01, 10)},
        instance={t: 3},
        subject=distance,
    ),
    "Cauchy and Schwarz twice; v_k are the gradients' norms, sigma_t stands for that of the summed noise.",
)
terms = {
    "gradients, by the decrease": eta**2 * T * decrease / eta,
    "gradients, by the noise of the descent": eta**2 * T * through / eta,
    "noise": eta**2 * T * total**2 * ell,
}
at("lemmaB.4.distance", "Lemma B.4", "Squared distance by decrease")(
    Rate(distance, eta * T * (decrease + through), terms, regime=small_step),
    "Lemma B.2 for the sum of the squared gradients, T iterations, in which the objective decreases by F. (The "
    "constants of decrease and noise differ; where the objective grows, they cannot be one c.)",
)

# ---------------------------------------------------------------- Definition B.6 and Lemma B.7
name = symbol("std(xi)", "standard deviation of a coordinate of the noise", GRADIENT)
where = {total: sqrt(sigma**2 / B + d * Delta**2)}
example = {sigma: 1, B: 4, d: 10, Delta: 2}
at("defB.6.variance", "Definition B.6", "Noise of the coupled sequences")(
    Identity(name, total, sqrt(Sum(Delta**2, (k, 1, d)) / d), where, instances=({d: 3},), example=example),
    "The noise xi of Algorithm 2: variance Delta^2 in each of d coordinates.",
    Severity.TYPOGRAPHICAL(
        "xi ~ N(0, sigma_t^2 I) should be N(0, Delta^2 I): sigma_t^2 is the sum over all coordinates, with the "
        "minibatch noise, which Definition B.6 adds apart. Lemma B.9 has Delta. (The difference of the iterates at t "
        "+ 1 is printed with those at t, too.)",
        Delta,
    ),
)

orthogonal = symbol("y", "noise across v", GRADIENT, domain=REAL)
across = sqrt(1 - first_share**2)
inner = first_share * noise + across * orthogonal
squared_norm = symbol("|xi'|^2", "squared norm of the reflected noise", GRADIENT**2, latex="\\|\\xi'\\|^2")
at("defB.6.reflection", "Definition B.6", "The reflected noise has the same law")(
    Identity(
        squared_norm,
        noise**2 + orthogonal**2,
        (noise - 2 * inner * first_share) ** 2 + (orthogonal - 2 * inner * across) ** 2,
    ),
    "xi - 2 <v, xi> v in the plane of v = (u, sqrt(1 - u^2)) and xi: linear, and it keeps the norm, on which alone "
    "the density of the noise depends.",
)

minibatch_coupled = symbol("zeta'", "minibatch noise of the coupled sequence", GRADIENT, domain=REAL)
noise_coupled = symbol("xi'", "privacy noise of the coupled sequence", GRADIENT, domain=REAL)
x, y = (symbol(name, "of one coupled sequence", LENGTH, REAL) for name in ("x", "x'"))
g, h = (symbol(name, "of one coupled sequence", GRADIENT, REAL) for name in ("g", "g'"))
xbar, zetabar, xibar = (
    symbol(f"{name}bar", "difference of the coupled sequences", unit, REAL)
    for name, unit in (("x", LENGTH), ("zeta", GRADIENT), ("xi", GRADIENT))
)
bars = {xbar: x - y, zetabar: minibatch - minibatch_coupled, xibar: noise - noise_coupled}
stepped = (x - eta * (g + minibatch + noise)) - (y - eta * (h + minibatch_coupled + noise_coupled))
after = symbol("xbar_{t+1}", "difference after a step", LENGTH, latex="\\bar x_{t+1}")
at("lemmaB.7.step", "Lemma B.7, proof", "Difference after one step")(
    Identity(after, xbar - eta * (zetabar + zetabar) - eta * (g - h), stepped, bars),
    "Two steps of Definition B.6, subtracted.",
    Severity.TYPOGRAPHICAL(
        "The minibatch noise stands twice; one of them should be the privacy noise.",
        xbar - eta * (zetabar + xibar) - eta * (g - h),
    ),
)

distance = symbol("xbar_t", "difference of the coupled sequences", LENGTH, latex="\\bar x_t")
factor = 1 - eta * eigenvalue
increments = SYMBOLS.sequence("w", "differences of the noises, and of the gradients from H", GRADIENT, REAL)


def unrolled(factor: Any, increments: Sequence[Any]) -> Any:
    """Return the last iterate of a recursion from 0: multiply by the factor, then subtract eta times the increment."""
    distance = Integer(0)
    for increment in increments:
        distance = factor * distance - eta * increment
    return distance


at("lemmaB.7.sum", "Lemma B.7", "Difference of the coupled sequences")(
    Identity(
        distance,
        -eta * Sum(factor ** (t - 1 - k) * increments[k], (k, 0, t - 1)),
        unrolled(factor, [increments[index] for index in range(4)]),
        instances=({t: 4},),
    ),
    "Four steps from 0, along an eigenvector of H; w_k = xibar_k + zetabar_k + Gamma_k xbar_k.",
)

# ---------------------------------------------------------------- Lemmas B.8 and B.9
squared = symbol("alpha_t^2", "growth of the variance", latex="\\alpha_t^2")
series = ({t: 1}, {t: 2}, {t: 5})
squared_growth = ((1 + small) ** (2 * t) - 1) / (small * (2 + small))
at("lemmaB.8.sum", "Lemma B.8, proof", "Growth of the noise, in closed form")(
    Identity(squared, squared_growth, Sum((1 + small) ** (2 * k), (k, 0, t - 1)), instances=series),
    "The geometric series, x = eta gamma.",
)

noise_growth = sqrt(squared_growth)  # alpha_t
distance_growth = (1 + small) ** t / sqrt(small)  # beta_t
growth = symbol("alpha_t", "growth of independent noise")
at("lemmaB.8.upper", "Lemma B.8", "Growth of the noise from above")(
    Inequality(noise_growth, distance_growth, subject=growth),
    "The closed form; a factor sqrt(2) is given away, see own.growth.",
)
at("lemmaB.8.lower", "Lemma B.8", "Growth of the noise from below")(
    Inequality(noise_growth, distance_growth / 3, sense=">=", conditions=(t >= 2 / small,), subject=growth),
    "The closed form for eta gamma < 1; see own.growth for the best constant and t.",
)

late = (t >= 1 / small,)
at("lemmaB.8.half", "Lemma B.8, proof", "When the 1 of the closed form is small")(
    Inequality((1 + small) ** (2 * t), Integer(2), sense=">=", conditions=late), "(1 + x)^{2t} at t >= 1/x, x < 1."
)

everywhere = {small: (1e-3, 1), t: (1, 5000)}
at.own("growth", "Growth of the noise from below, sharply")(
    Inequality(noise_growth, distance_growth / 2, everywhere, ">=", conditions=late, subject=growth),
    "The closed form, whose square over beta_t^2 is (1 - (1 + x)^{-2t})/(2 + x).",
)
at.own("spread", "Growth of the noise from above, sharply")(
    Inequality(noise_growth, distance_growth / sqrt(2), everywhere, subject=growth),
    "The closed form, whose square over beta_t^2 is (1 - (1 + x)^{-2t})/(2 + x).",
)

projected = SYMBOLS.sequence("xi", "noise along v_1", GRADIENT, REAL)
name = symbol("dif_t", "difference due to the noise", LENGTH, latex="\\mathrm{dif}_t")
reflected = [projected[index] - (-projected[index]) for index in range(4)]
accumulated = Sum((1 + small) ** (t - 1 - k) * projected[k], (k, 0, t - 1))
at("lemmaB.9.dif", "Lemma B.9, proof", "Difference due to the noise, along the escaping direction")(
    Identity(name, eta * accumulated, -unrolled(1 + small, reflected), instances=({t: 4},)),
    "Four steps from 0 with the noise xi - xi' = 2 <xi, v_1> v_1; xi_k is <xi, v_1> in step k, x = eta gamma.",
    Severity.CONSTANT("The factor 2 of xibar = 2 <v_1, xi> v_1, in the line above, is dropped.", 2 * eta * accumulated),
)

name = symbol("Var(dif_t)", "variance of the difference", LENGTH**2, latex="\\mathrm{Var}(\\mathrm{dif}_t)")
derived = Sum((eta * (1 + small) ** (t - 1 - k) * 2 * Delta) ** 2, (k, 0, t - 1))
at("lemmaB.9.variance", "Lemma B.9, proof", "Variance of the difference due to the noise")(
    Identity(name, eta * Sum((1 + small) ** k * Delta**2, (k, 0, t - 1)), derived, instances=series),
    "The sum of the variances of eta (1 + x)^{t-1-k} 2 <xi_k, v_1>, x = eta gamma.",
    Severity.CONSTANT(
        "eta should be squared, (1 + eta gamma)^k as well, and the factor 4 of the reflection is missing: 4 eta^2 "
        "Delta^2 alpha_t^2, which is no Delta^2 alpha_t^2 either. It is the variance of the component along v_1, not "
        "of the norm. The bounds of the lemma do have the eta.",
        4 * eta**2 * Delta**2 * squared_growth,
    ),
)

tail = symbol(
    "P[|dif_t| >= 2*beta_t*eta*Delta*sqrt(log(1/delta_t))]",
    "probability of a large difference",
    latex="P[\\|\\mathrm{dif}_t\\| \\geq 2 \\beta_t \\eta \\Delta \\sqrt{\\log(1/\\delta_t)}]",
)
far_out = erfc(2 * distance_growth * sqrt(log(1 / delta_t)) / (2 * sqrt(2) * noise_growth))
at("lemmaB.9.upper", "Lemma B.9", "The noise does not move too far")(
    Inequality(far_out, delta_t, {delta_t: (1e-40, 0.999)}, subject=tail),
    "A Gaussian of standard deviation 2 eta Delta alpha_t; c = 2 is enough.",
)

deviations = symbol("z", "standard deviations")
at("lemmaB.9.density", "Lemma B.9, proof", "A Gaussian is rarely small")(
    Inequality(erf(deviations / sqrt(2)), deviations, {deviations: (1e-6, 10)}), "P(|X| <= z) of a standard Gaussian X."
)

# P(|N(0, 1)| <= z), where z is beta_t eta Delta/10 in units of the standard deviation 2 eta Delta alpha_t.
little = erf(distance_growth / (20 * sqrt(2) * noise_growth))
name = symbol(
    "P[|dif_t| <= beta_t*eta*Delta/10]",
    "probability that the noise moves little",
    latex="P[\\|\\mathrm{dif}_t\\| \\leq \\beta_t \\eta \\Delta/10]",
)
moves_enough = Inequality(little, Rational(1, 3), conditions=late, subject=name)
at("lemmaB.9.lower", "Lemma B.9", "The noise moves far enough")(
    Inequality(little, Rational(1, 3), example={small: 0.001, t: 1}, subject=name),
    "A Gaussian of standard deviation 2 eta Delta alpha_t, at any t, as the lemma says; x = eta gamma.",
    Severity.CONSTANT(
        "'For any t' should be t >= 1/(eta gamma): in the first iterations alpha_t is far below beta_t (at t = 1 by "
        "sqrt(eta gamma)). Lemma B.11 uses it at t = I only.",
        moves_enough,
    ),
)

# ---------------------------------------------------------------- Lemmas B.10 to B.13
between = symbol("psi", "place between the coupled iterates", domain=Domain(0, 1, closed=True))
mean = integrate(between * first_share + (1 - between) * second_share, (between, 0, 1))
apart = symbol("|Gamma|", "change of the Hessian", LOSS / LENGTH**2, latex="\\|\\Gamma_\\tau\\|")
at("lemmaB.10.hessian", "Lemma B.10, proof", "Change of the Hessian within the ball")(
    Inequality(rho * radius * mean, 2 * rho * radius, {radius: (0.1, 10)}, subject=apart),
    "The mean of rho times the distance from x_0 between two iterates at distances u R and v R; rho R is enough.",
)
at("lemmaB.10.product", "Lemma B.10, proof", "Growth of an earlier distance")(
    Identity(
        symbol("beta_{t-1}", "growth until t - 1", latex="\\beta_{t-1}"),
        (1 + small) ** (t - 1) / sqrt(small),
        (1 + small) ** (t - 1 - k) * (1 + small) ** k / sqrt(small),
    ),
    "(1 + eta gamma)^{t-1-k} beta_k.",
)

geometric = symbol("beta_t", "growth of a distance", latex="\\beta_t")
name = symbol("|err_t|", "error of the quadratic approximation", LENGTH, latex="\\|\\mathrm{err}^Q_t\\|")
moved = c * geometric * eta * Delta * sqrt(ell)
at("lemmaB.10.quadratic", "Lemma B.10, proof", "Error of the quadratic approximation")(
    Identity(
        name, 2 * c * c_R * c_I * geometric * Delta * sqrt(ell), eta * escape * 2 * rho * radius * moved, where=SCALES
    ),
    "eta times I terms of at most 2 rho R c beta_t eta Delta sqrt(ell), with R I = c_R c_I/(rho eta).",
    Severity.TYPOGRAPHICAL(
        "An eta was lost from the first line to the second: 2 c c_R c_I beta_t eta Delta sqrt(log(1/delta_t)), which "
        "the lemma does claim.",
        2 * c * c_R * c_I * geometric * eta * Delta * sqrt(ell),
    ),
)

name = symbol("E|zetabar|^2", "second moment of the difference", GRADIENT**2)
together = (first_share + second_share) ** 2 * sigma**2 / B
example = {first_share: 1, second_share: 1, sigma: 1, B: 1}
at("lemmaB.10.minibatch", "Lemma B.10, proof", "Minibatch noise of the coupled sequences")(
    Inequality(together, sigma**2 / B, {sigma: (0.1, 10)}, example=example, subject=name),
    "zeta - zeta' of the same batch at two points, of norms u and v times sigma/sqrt(B) and any directions.",
    Severity.CONSTANT(
        "'Each err^sgd is nSG(sigma^2/B)' is meant of each zetabar, which is a difference of two: nSG(4 sigma^2/B). "
        "The constant c of the lemma has room for it.",
        4 * sigma**2 / B,
    ),
)

name = symbol("P", "probability that the bounds hold in all t iterations")
at("lemmaB.10.probability", "Lemma B.10, proof", "Probability of the induction")(
    Identity(name, 1 - t * total, 1 - Sum(delta_t, (k, 1, t)), instances=({t: 3}, {t: 5})),
    "A union bound over t iterations, each of which fails with probability delta_t.",
    Severity.TYPOGRAPHICAL(
        "'At most 1 - t sigma_t' should be 'at least 1 - t delta_t', and the bound on the distance lacks its "
        "sqrt(log(1/delta_t)).",
        1 - t * delta_t,
    ),
)

name = symbol("f(x_I)-f(x_0)", "what the noise adds to the objective", LOSS, latex="f(x_{\\mathcal{I}}) - f(x_0)")
steeper = symbol("a", "L/sqrt(rho alpha)", domain=FROM_ONE, usual=(1, 100))
bucket_step = alpha**2 / (L * total**2) * c_F / (c_I + ell)
by_scales = {decrease: SCALES[decrease], escape: SCALES[escape], eta: bucket_step, L: steeper * sqrt(rho * alpha)}
example = {alpha: 1, rho: 1, total: 1, steeper: 1, c: 1, c_F: 1, c_I: 1, ell: 2}
lost = c * eta * total**2 * (eta * L * escape + ell)
at("lemmaB.11.loss", "Lemma B.11", "Loss of a bucket without an escape")(
    Inequality(lost, decrease / 100, {c: (1, 10)}, where=by_scales, example=example, subject=name),
    "c eta sigma_t^2 (eta L I + ell) of the descent lemma, at the step size of Corollary B.5, with L = a sqrt(rho "
    "alpha), a >= 1.",
    Severity.CONSTANT(
        "The lemma says F/100, its proof F/10, and the step size of Corollary B.5 gives c F. Lemma B.12 needs F/100 "
        "(F/10 in every bucket is more than its escapes gain): the step size has to be smaller by 100 c.",
        c * decrease,
    ),
)

closer = symbol(
    "P[|dif_t| <= beta_t*eta*Delta*sqrt(log(1/delta_t))/10]",
    "probability of moving little",
    latex="P[\\|\\mathrm{dif}_t\\| \\leq \\beta_t \\eta \\Delta \\sqrt{\\log(1/\\delta_t)}/10]",
)
as_quoted = erf(sqrt(log(1 / delta_t)) * distance_growth / (20 * sqrt(2) * noise_growth))
example = {small: 0.1, t: 20, delta_t: 1e-6}
at("lemmaB.11.size", "Lemma B.11, proof", "The noise moves the coupled iterates apart")(
    Inequality(as_quoted, delta_t, {delta_t: (1e-12, 0.1)}, conditions=late, example=example, subject=closer),
    "Lemma B.9 as quoted: beta_t eta Delta sqrt(log(1/delta_t))/10, with probability 1 - delta_t.",
    Severity.CONSTANT(
        "Lemma B.9 gives beta_t eta Delta/10, without the logarithm, and not with probability 1 - delta_t, but 2/3. "
        "The errors must then be below beta_t eta Delta/20, see thmB.13.noise.",
        moves_enough,
    ),
)

far = symbol("distance", "distance of one of the coupled iterates", LENGTH)
of_growth = {geometric: (1 + small) ** escape / sqrt(small), small: eta * gamma}
at("lemmaB.11.distance", "Lemma B.11, proof", "Distance of one of the coupled iterates")(
    Identity(
        far,
        (1 + eta * gamma) ** escape / 40 * Delta * sqrt(eta / gamma) * sqrt(ell),
        (eta * geometric * Delta * sqrt(ell) / 10 - eta * geometric * Delta * sqrt(ell) / 20) / 2,
        where=of_growth,
    ),
    "Half of the difference, which is the noise's part minus the errors, as the proof quotes them.",
    premises=("lemmaB.11.size",),
)

num_steps = symbol("I", "iterations to escape", domain=Domain(2, closed=True), latex="\\mathcal{I}")
reached = symbol(
    "P[f(x_0)-f(x_I) > F]", "probability of an escape", latex="P[f(x_0) - f(x_{\\mathcal{I}}) > \\mathcal{F}]"
)
nearly = symbol(
    "P[f(x_0)-f(x_I) > 0.99*F]",
    "probability of nearly an escape",
    latex="P[f(x_0) - f(x_{\\mathcal{I}}) > 0.99 \\mathcal{F}]",
)
escaped = (1 - third_share / 3 - num_steps * delta_t) / 2 - 2 * num_steps * delta_t
fewest = {third_share: (1e-3, 1), num_steps: (2, 100), delta_t: (1e-8, 1e-3)}
example = {third_share: 1, num_steps: 10, delta_t: 1e-3}
at("lemmaB.11.probability", "Lemma B.11", "Probability of an escape")(
    Inequality(escaped, Rational(1, 3) - num_steps * delta_t, fewest, ">=", example=example, subject=reached),
    "One of two equally distributed iterates gets far at some t <= I unless the noise is small (1/3, Lemma B.9, of "
    "which w is the share) or a bound fails in one of I >= 2 iterations; half of that. The decrease is at least F at "
    "that t (Corollary B.5), and it loses at most F/100 from there to I (the first part of the lemma); as t is random, "
    "each of the two is needed at every t.",
    Severity.CONSTANT(
        "The proof has the decrease F at the first t at which an iterate is far, not at I, and bounds that fail with "
        "probability delta_t at a fixed t. At I it is 0.99 F, with probability at least 1/3 - (5/2) I delta_t. (The "
        "proof's 1/2 - 2 delta_t is for the case that one of the two surely gets far.)",
        Inequality(escaped, Rational(1, 3) - Rational(5, 2) * num_steps * delta_t, fewest, ">=", subject=nearly),
    ),
)
least_share = symbol("share", "least share of alpha-SOSP among the iterates")
quarters = {first_share: Rational(1, 4), second_share: Rational(1, 4)}
at("thmB.13.share", "Theorem B.13", "Share of second-order stationary points")(
    Identity(least_share, Rational(1, 2), 1 - first_share - second_share, where=quarters),
    "At most a quarter of large gradients (Lemma B.3), and at most a quarter of saddle points (Lemma B.12).",
    premises=("defB.1.constants", "lemmaB.11.loss", "lemmaB.12.share", "lemmaB.12.probability", "thmB.13.noise"),
)

# ---------------------------------------------------------------- Lemma C.1
at("lemmaC.1.squares", "Lemma C.1, proof", "Squares of the two noises")(
    Inequality(Rational(3, 2) * (a + b) ** 2, 3 * a**2 + 3 * b**2),
    "(3/2) |zeta + xi|^2 by the squares of both, for vectors of one direction.",
)

squares = symbol("S", "sum of the squared gradients", GRADIENT**2)
variance = sigma**2 / (delta_t * B)
cross = symbol("cross", "cross term of gradients and minibatch noise", LOSS)
quantities = {eta: (0.01, 1), squares: (1e-6, 1e6), sigma: (0.01, 10), B: (1, 100), delta_t: (1e-4, 0.1)}
at("lemmaC.1.cross", "Lemma C.1, proof", "Cross term of gradients and minibatch noise")(
    Inequality(eta * sqrt(squares * variance), eta * squares / 16 + 16 * eta * variance, quantities, subject=cross),
    "The mean inequality at nu = 16; 4 in place of 16 before the variance is enough.",
)

too_large = symbol(
    "P[cross > eta*sqrt(S*sigma**2/(delta_t*B))]",
    "probability of a large cross term, against the sum as it turns out",
    latex="P[\\mathrm{cross} > \\eta \\sqrt{S \\sigma^2/(\\tilde\\delta B)}]",
)
rarely = {delta_t: (1e-6, 0.5), t: (1, 300)}
at("lemmaC.1.chebyshev", "Lemma C.1, proof", "Chebyshev's inequality with a random sum")(
    Inequality(1 - (1 - delta_t) ** t, delta_t, rarely, example={t: 10, delta_t: 0.01}, subject=too_large),
    "S is the sum of the squared gradients as they turn out, where Chebyshev's inequality has its mean. Noise that is "
    "large, sigma/sqrt(B delta_t), with probability delta_t, else 0, and gradients that grow by a large factor until "
    "it strikes: the last gradient is nearly all of S, and the bound fails once the noise strikes in one of t "
    "iterations.",
    Severity.PROOF(
        "With the sum as it turns out the failure is up to t delta_t, not delta_t, and no more: the cross term is at "
        "most sqrt(S) times the root of the sum of the squared noises (Cauchy and Schwarz, Markov). The condition "
        "would be d Delta^2 > t sigma^2/(delta_t B). Nothing is known to break: on a smooth objective gradients cannot "
        "grow that fast.",
        t * delta_t,
    ),
)

name = symbol("least", "what d Delta^2 has to exceed", GRADIENT**2)
example = {sigma: 1, B: 100, delta_t: 0.01, d: 10, Delta: 1}
at("lemmaC.1.condition", "Lemma C.1, proof, last line", "Condition on the noise, as it is used")(
    Identity(name, d * Delta**2 / (delta_t * B), sigma**2 / B / delta_t, example=example),
    "Markov's inequality for the mean square sigma^2/B of the minibatch noise.",
    Severity.TYPOGRAPHICAL(
        "'using d Delta^2/(delta_t B)' should be 'using d Delta^2 > sigma^2/(delta_t B)', the condition of the lemma. "
        "(Lemma C.2 argues 'by B', which Appendix C does not assume.)",
        sigma**2 / (delta_t * B),
    ),
)
