"""Section 3: descent and escape."""

from sympy import Max, Rational, log, sqrt

from dpnotes.papers.adaptive_batch.claims.introduction import steps
from dpnotes.papers.adaptive_batch.notation import *
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Rate
from dpnotes.theory.statements import Identity, Optimum

at, CLAIMS = PAPER.section()


change = SYMBOLS.symbol("F(x_{t+1}) - F(x_t)", "change of F in a step", LOSS, latex="F(x_{t+1}) - F(x_t)")
by_smoothness = -(g - error) * eta * g + M / 2 * (eta * g) ** 2
at("lemma3.2.descent", "Lemma 3.2, first inequality", "Decrease of a step with an inexact gradient")(
    Identity(change, eta * g * error - eta / 2 * g**2, by_smoothness, where={eta: 1 / M}),
    "The quadratic upper bound of a smooth F at a step eta g, when the gradient is g - e along the step, the worst "
    "for an error of norm e.",
)

progress = eta * g * error - eta * g**2 / 2
# For errors up to gamma/4 and gradients of norm w gamma, the shortest noisy gradient has norm w gamma minus the error.
lemma_3_2 = {g: stretch * gamma - error, error: share * gamma / 4}
at("lemma3.2.decrease", "Lemma 3.2, second inequality", "Decrease where the gradient is large")(
    Inequality(progress, -eta * g**2 / 16, where=lemma_3_2, subject=change),
    "A gradient of norm w gamma >= gamma and an error of norm q gamma/4, q <= 1, against it.",
)
at.own("decrease_constant", "Best constant of the decrease")(
    Inequality(progress, -eta * g**2 / 6, where=lemma_3_2, subject=change),
    "Under the conditions of Lemma 3.2, e <= g/3; with equality the first inequality gives -eta g^2/6.",
)
above_4_gamma = {g: 4 * stretch * gamma - error, error: share * gamma}
at("secA.1.large", "Appendix A.1, proof of Proposition 3.4", "Decrease where the gradient exceeds 4 gamma")(
    Inequality(progress, -eta * g**2 / 16, where=above_4_gamma, subject=change), "Lemma 3.2 at 4 gamma."
)

guaranteed = {"1/D": 1 / decrease}
adversary = {  # on F = -sqrt(rho gamma) x^2/2 + ..., with errors that cancel every later gradient
    "decrease up to x": decrease / (sqrt(rho * gamma) * distance**2),
    "x is one step of 2 gamma/M": M * distance / gamma,
}
flat = {"sqrt(rho gamma) <= M": rho * gamma / M**2}
escape = guaranteed, (decrease, distance), adversary, flat
at("lemma3.3.decrease", "Lemma 3.3", "Decrease in an escape window")(
    Rate(1 / decrease, sqrt(rho) / gamma ** Rational(3, 2), *escape),
    "The lemma's D = Omega(gamma^(3/2)/sqrt(rho)), D the decrease that is guaranteed, as a bound of 1/D. The only "
    "hypothesis on later steps is an error of at most gamma. On F = -sqrt(rho gamma) x^2/2 + ... from x_0 = 0, errors "
    "that cancel the gradient are allowed, because the first step, at most 2 gamma/M long, leads to gradients below "
    "gamma; then the iterate stays (logarithms put to 1).",
    Severity.RATE(
        "A bound of the error's norm cannot suffice: the errors may cancel the escape direction, and then F decreases "
        "by at most the order of sqrt(rho) gamma^(5/2)/M^2, so that 1/D is at least M^2/(sqrt(rho) gamma^(5/2)). "
        "Nothing smaller is guaranteed, either: errors that also push along a direction of curvature M make F rise, "
        "by up to gamma^2/(2 M). Errors of minibatches have to be independent, and the batches larger than of the "
        "order of M/sqrt(rho gamma) (or the step smaller). The abstract of version 2 speaks of an issue in the escape "
        "procedure of the cited work, and corrects it.",
        Rate(1 / decrease, M**2 / (sqrt(rho) * gamma ** Rational(5, 2)), *escape, order="Omega"),
    ),
)

window = M / sqrt(rho * gamma)
printed_window = M * log(d * M * B / (rho * gamma * iota)) / sqrt(rho * gamma)
by_union = window * log(d * T / iota)  # over the coordinates of T points
at("lemma3.3.window", "Lemma 3.3", "Length of the escape window")(
    Identity(Gamma, printed_window, by_union, where={T: steps[gamma]}),
    "M/sqrt(rho gamma) steps multiply a distance along the negative curvature by e; the logarithm comes from a union "
    "bound over d coordinates of T = B M/gamma^2 points.",
    Severity.CONSTANT(
        "The argument of the logarithm has a unit, x^2, so that the window depends on how lengths are measured. d M "
        "B/(gamma^2 iota) has none.",
        M * log(d * M * B / (gamma**2 * iota)) / sqrt(rho * gamma),
    ),
)

push = SYMBOLS.symbol("x", "distance along the negative curvature", LENGTH)
at.own("cubic_saddle", "Where the decrease of an escape comes from")(
    Optimum(rho * push**3 / 6 - lam * push**2 / 2, push, 2 * lam / rho, -2 * lam**3 / (3 * rho**2)),
    "The cubic upper bound of F along a direction of curvature -lambda; lambda = sqrt(rho gamma) gives 2/3 of the "
    "gamma^(3/2)/sqrt(rho) of Lemma 3.3.",
)

per_step = SYMBOLS.symbol("D/Gamma", "average decrease of F in a step of an escape window", LOSS)
per_escape = gamma ** Rational(3, 2) / sqrt(rho)
average = {"decrease over window": per_escape / window}
at("lemma3.3.average", "below Lemma 3.3", "Average decrease, in gamma")(
    Rate(per_step, gamma**2, average, normalised=(M,), order="Omega", tilde=True),
    "The decrease of Lemma 3.3 over its window.",
    premises=("lemma3.3.decrease",),
)

with_step_size = {"decrease over window": (per_escape / window).subs(M, 1 / eta)}
at("prop3.4.average", "below Proposition 3.4", "Average decrease")(
    Rate(per_step, eta / gamma**2, with_step_size, order="Omega"),
    "The decrease of Lemma 3.3 over its window, with eta = 1/M.",
    Severity.TYPOGRAPHICAL("Omega(eta/gamma^2) should be Omega(eta gamma^2), as used for T.", eta * gamma**2),
    premises=("lemma3.3.decrease",),
)
enough_steps = {
    "gap over the decrease where the gradient is large": B / (eta * gamma**2) / T,
    "gap over the average decrease of escapes": B / (per_escape / window).subs(M, 1 / eta) / T,
}
at("prop3.4.T", "Proposition 3.4", "Number of steps")(
    Rate(T, B / (eta * gamma**2), {"T": T}, (T,), enough_steps, tilde=True),
    "T times the least average decrease exceeds B. With eta = 1/M, as everywhere in the paper.",
    premises=("lemma3.3.decrease",),
)

example = {gamma: 1, d: 100, iota: 0.01}
at("prop3.4.zeta", "Proposition 3.4", "Scale of the perturbation")(
    Identity(zeta, gamma / sqrt(log(d / iota)), sqrt(d * gamma**2 / (d * log(d / iota))), example=example),
    "zeta^2/d in Algorithm 2 is the variance gamma^2/(d log(d/iota)) of Lemma 3.3.",
)

threshold = SYMBOLS.symbol("threshold", "norm below which a saddle is suspected", GRADIENT)
printed_threshold = gamma * log(B * M * d / (rho * omega)) ** 3
at("alg2.threshold.unit", "Algorithm 2, line 9; Lemma 3.3", "Norm below which a saddle is suspected")(
    Identity(threshold, printed_threshold, gamma * log(d * T / omega) ** 3, where={T: steps[gamma]}),
    "A union bound over d coordinates of T = B M/gamma^2 points, as for the window.",
    Severity.CONSTANT(
        "The argument of the logarithm has the unit F x, and differs from that of the window. d B M/(gamma^2 omega) "
        "has none.",
        gamma * log(B * M * d / (gamma**2 * omega)) ** 3,
    ),
)
at("alg2.threshold.sign", "Algorithm 2, line 9", "The threshold is at least the error")(
    Inequality(gamma, gamma * log(y) ** 3, {gamma: (1e-3, 1)}, example={gamma: 1, y: 0.2}),
    "y = B M d/(rho omega); it is 0.2 at B = M = 1, d = 2, rho = 100, omega = 0.1.",
    Severity.EDGE(
        "Where the argument is below 1, the threshold is negative, and no saddle is ever perturbed; max(1, "
        "log(...))^3 would do.",
        gamma * Max(1, log(y)) ** 3,
    ),
)
at_x_t = SYMBOLS.symbol("|grad F(x_t)|", "gradient norm at x_t", GRADIENT, latex="\\|\\nabla F(x_t)\\|")
example = {g: 1, gamma: 0.1, share: 1, other_share: 1}
one_step_on, ranges = (g + share * gamma) + other_share * g, {gamma: (0.01, 10), other_share: (1e-3, 1)}
at("alg2.test", "Algorithm 2, line 9; Lemma 3.3", "Gradient at a point that is taken for a saddle")(
    Inequality(one_step_on, g + gamma, ranges, example=example, subject=at_x_t),
    "The noisy gradient at x_{t-1} is what is tested (its norm is g, its error at most gamma); the step from there, "
    "of length g/M, changes the gradient by up to g.",
    Severity.CONSTANT(
        "The test looks at the point before, where Lemma 3.3 speaks of x_t: the gradient there may be 2 g + gamma, "
        "twice the threshold. Testing the noisy gradient at x_t, before the perturbation, costs no privacy, and at t "
        "= 0 there is no other.",
        2 * g + gamma,
    ),
)

drifted = SYMBOLS.symbol("drift", "sum of the norms of the noisy gradients since O1 was asked", GRADIENT)
ranges, quiet = {stretch: (1, 1e4), Gamma: (1, 1e3), gamma: (1e-3, 1)}, (Gamma * gamma <= kappa,)
example = {stretch: 1000, Gamma: 100, gamma: 0.01, kappa: 1}
at("alg2.drift", "Algorithm 2, line 10; Lemma 3.6", "Drift since O1 was asked")(
    Inequality(stretch * Gamma * gamma, kappa, ranges, conditions=quiet, example=example, subject=drifted),
    "Line 10 sets the drift to 0 without a call of O1. On a path of w windows, each of Gamma steps with noisy "
    "gradients of norm gamma, the drift never reaches kappa, and O1 is not asked again.",
    Severity.RATE(
        "Lemma 3.6 takes the last time at which the drift was 0 for the last call of O1. With line 10 it is not: the "
        "errors of all windows add up, and Lemma 3.8 does not follow. Without 'drift_t = 0' in line 10 the drift is "
        "below kappa when O2 is asked; a call of O1 there instead would cost the rate (own.frozen_reset).",
        Inequality(share * kappa + g, kappa + g, {g: (1e-3, 10)}),
    ),
)

needed_by_O2 = Max(g * sqrt(d) / (alpha * epsilon), kappa * g / alpha**2, 1)
b_of_O1 = G * sqrt(d) / (epsilon * alpha) + G**2 / alpha**2
guarded = {kappa: (0.01, 100), d: (1, 1e4)}
example = {G: 1, g: 1, kappa: 4, alpha: 0.05, d: 100, epsilon: 1}
at("alg2.guard", "Algorithm 2, line 3", "Examples that a step needs")(
    Inequality(needed_by_O2, b_of_O1, guarded, conditions=(g <= G, b_of_O1 >= 1), example=example, subject=bt),
    "Batch sizes of Lemma 3.8; line 3 asks whether more than b examples are left.",
    Severity.CONSTANT(
        "The guard does not cover O2, whose batch may be larger by kappa/G. It has to ask for the batch that the next "
        "call needs; both are to be rounded up.",
        Max(1, kappa / G) * b_of_O1,
    ),
)
