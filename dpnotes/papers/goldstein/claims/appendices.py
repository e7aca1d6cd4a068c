"""Appendices B and C: Lasry-Lions smoothing, and concentration."""

from sympy import Integer, diff, exp, sqrt

from dpnotes.papers.goldstein import calculators as calculate
from dpnotes.papers.goldstein.claims.terms import *
from dpnotes.papers.goldstein.notation import *
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Choice, Rate
from dpnotes.theory.statements import Identity

at, CLAIMS = PAPER.section()

at("appB.property1", "Appendix B.1, property (i)", "Goldstein points of smooth losses")(
    Rate(norm, alpha + beta, {"stationarity": beta, "radius": smoothness * alpha}),
    "An H-smooth loss: gradients within alpha differ by at most H alpha.",
    Severity.TYPOGRAPHICAL(
        "For H-smooth losses an (alpha, beta)-stationary point is (H alpha + beta)-stationary: O(alpha + beta) adds a "
        "length to a gradient.",
        smoothness * alpha + beta,
    ),
)
at("appB.property2", "Appendix B.1, property (ii)", "Goldstein's descent")(
    Inequality(-alpha * norm / u, -alpha * norm, {alpha: (0.01, 10), norm: (0.01, 10)}),
    "F(x - alpha g/|g|) - F(x) is -alpha times the projection on g of an element of the hull, by the mean value "
    "theorem. It is |g|/u for some u <= 1: g is the shortest element, and towards one with a shorter projection it "
    "would become shorter. Of Definition B.1 the same holds: its set is convex and has all gradients of F in the ball.",
)

envelope = hy + (z - y) ** 2 / (2 * inner) - (z - x) ** 2 / (2 * lam)
twice = {inner: 2 * lam}
example = {hz: 0, hy: 0, lam: 1, x: 0, y: 2, z: 0}
at("eq19", "eq. (19)", "Lasry-Lions smoothing")(
    Identity(value_inside, hz + (z - y) ** 2 / (4 * lam) - (y - x) ** 2 / (2 * lam), envelope, twice, example=example),
    "-M_lambda(-M_2lambda(h)) by the definition of the envelope: the outer one is a maximum over z, the inner a "
    "minimum over y of h(y) + |z - y|^2/(4 lambda).",
    Severity.TYPOGRAPHICAL(
        "The bracket should be h(y) + |z - y|^2/(4 lambda) - |z - x|^2/(2 lambda). As printed, its minimum over y is "
        "minus infinity, since y^2 has the factor 1/(4 lambda) - 1/(2 lambda). The proof of Lemma B.3 uses the right "
        "one.",
        hy + (z - y) ** 2 / (4 * lam) - (z - x) ** 2 / (2 * lam),
    ),
)
at("factB.2.i", "Fact B.2 (i)", "Slopes of Lasry-Lions smoothing")(
    Inequality(x / lam, L, where={x: u * lam * L}),
    "A minimum, or a maximum, of functions h(. + v) + const is L-Lipschitz with h. Where the smoothed -L|x| is a "
    "parabola, |x| = u lambda L, its slope is |x|/lambda.",
)
at("factB.2.ii", "Fact B.2 (ii)", "Error of Lasry-Lions smoothing")(
    Inequality(L * z - z**2 / (4 * lam), L * lam, example={L: 4, lam: half, z: 4}),
    "h = -L|x| at 0: h - M_2lambda(h) is at least L z - z^2/(4 lambda) for every z, and the outer envelope adds "
    "nothing at the peak.",
    Severity.TYPOGRAPHICAL(
        "L lambda should be L^2 lambda, which is attained by -L|x| at 0 (8 against 2 for L = 4, lambda = 1/2).",
        L**2 * lam,
    ),
)
outer = envelope.xreplace({inner: 2 * lam, y: x})
at("factB.2.iii", "Fact B.2 (iii)", "Minimisers of Lasry-Lions smoothing")(
    Inequality(outer, hy, {hy: (0.01, 10), x: (0.01, 10), R: (0.01, 10)}, where={z: x + R}, subject=value_inside),
    "y = x shows that the smoothed function is at most h, z = x that it is at least M_2lambda(h). Both have the "
    "minimum of h, and the envelope has it at no other points.",
)
at("factB.2.iv", "Fact B.2 (iv)", "Smoothness of Lasry-Lions smoothing")(
    Identity(smoothness, L / lam, diff(x**2 / (2 * lam), x, 2)),
    "h = -L|x|: the smoothed function is -x^2/(2 lambda) - lambda L^2 for |x| <= lambda L.",
    Severity.RATE(
        "O(L/lambda)-smooth should be (1/lambda)-smooth, whatever L; the slip enters Theorem B.5 as L^(4/3).", 1 / lam
    ),
)
at("lemmaB.3", "Lemma B.3", "Radius of Lasry-Lions smoothing")(
    Inequality(lam * beta + 2 * lam * L, 3 * lam * L, where={beta: u * L}),
    "The proof's radius is lambda beta + 2 lambda L, for beta = u L <= L.",
)
at("lemmaB.3.distance", "Proof of Lemma B.3", "Distance to the maximiser")(
    Inequality(u * lam * beta, lam * beta, {beta: (0.01, 10)}, sense=">=", example={u: half, lam: 1, beta: 1}),
    "lambda times the gradient's norm, u beta at a beta-stationary point.",
    Severity.TYPOGRAPHICAL(
        "|x - z*| = lambda beta should be at most that; the radius of the lemma needs no more.",
        Inequality(u * lam * beta, lam * beta, {beta: (0.01, 10)}),
    ),
)
reduced = (sqrt(L * start * smoothness) * root / (n * epsilon)) ** (2 * third)
warm = R**third * L ** (2 * third) * smoothness**third * d ** (2 * third) / (n * epsilon)
noise = L * root / (n * epsilon)
from_warm = {"warm start": L * R * d / (n * epsilon) / start}
at("propB.4", "Proposition B.4", "Gradient norm from a warm start")(
    Rate(norm, warm + noise, {"variance reduction": reduced, "noise": noise}, (start,), from_warm, tilde=True),
    "Private variance reduction from a point of excess loss Delta, (sqrt(L0 Delta L1 d)/(n epsilon))^(2/3) + L0 "
    "sqrt(d)/(n epsilon), where an exponential mechanism finds Delta = L0 R d/(n epsilon); both up to logarithms.",
)

n_b5 = R**third * L * d ** (2 * third) / (epsilon * alpha**third * beta)
errors = {"warm start": warm.xreplace({smoothness: 1 / lam}), "noise": noise}
within = {"radius": 3 * lam * L / alpha}
lasry_lions = {**over(errors, beta), **within}
far = {"beta <= L": beta / L, "R >= alpha/sqrt(d)": alpha / (R * root)}
at("thmB.5.rate", "Theorem B.5", "Sample size with Lasry-Lions smoothing")(
    Rate(n, n_b5 * L**third, {"n": n}, (n, lam), lasry_lions, far, order="Omega", tilde=True),
    "Proposition B.4 with L0 = L and L1 = 1/lambda at most beta, and 3 lambda L at most alpha; for R >= "
    "alpha/sqrt(d), since x_0 within alpha of a minimiser is stationary.",
    Severity.RATE(
        "Inherits Fact B.2 (iv), whose smoothness L/lambda should be 1/lambda: L^(4/3) should be L, as the units show.",
        n_b5,
    ),
    calculation=calculate.LASRY_LIONS,
)
at("thmB.5.start", "Appendix B.2, above Theorem B.5", "Distance to minimisers after smoothing")(
    Identity(R_smoothed, R, R + lam * L),
    "Components 2L|x| and L|x - a| with a >= 2 lambda L, from -R: smoothed, the first has the slope x/lambda near 0, "
    "which balances the second's -L at x = lambda L.",
    Severity.EDGE(
        "An assumption, made for simplicity as the paper says, that can fail: Fact B.2 (iii) is about one component, "
        "and the mean of smoothed components has other minimisers, here lambda L = alpha/3 farther away.",
        R + lam * L,
    ),
)
at("thmB.5.lambda", "Appendix B.2, above Theorem B.5", "Smoothing parameter")(
    Choice({lam: alpha / (3 * L), n: n_b5}, errors, beta, within, far), "Proposition B.4 at the corrected n."
)
at("thmC.2", "Theorem C.2", "Concentration of vectors")(
    Inequality(
        Integer(1), d * exp(-((v / c) ** 2)), {d: (1, 1), c: (1.21, 100)}, where={d: Integer(1)}, example={v: 1, c: 2}
    ),
    "d = 1 and one variable X = 1 or -1, which is 1-norm-sub-Gaussian: |X| >= v with probability 1 for v <= 1. The "
    "printed bound at c sqrt(log(d/gamma)) = v is gamma = d exp(-v^2/c^2).",
    Severity.EDGE(
        "log(d/gamma) should be log(2d/gamma), as in Jin et al. (2019): at d = 1 the printed bound gives an event of "
        "probability 1 a probability below 1, for every c.",
        Inequality(Integer(1), 2 * d * exp(-((v / c) ** 2)), {d: (1, 1), c: (1.2012, 100)}, where={d: Integer(1)}),
    ),
)
