"""Escapes: Sections 1 and 3, and the parameters of Section 4 with their proofs (Appendix D)."""

from sympy import Add, Integer, Max, Rational, erfc, exp, integrate, log, pi, sqrt

from dpnotes.papers.drift_escape.calculators import PARAMETERS, REPEATS
from dpnotes.papers.drift_escape.notation import *
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Choice, Crossover
from dpnotes.theory.statements import Identity, Reason, Uncheckable
from dpnotes.theory.symbols import Domain

at, CLAIMS = PAPER.section()


# ---------------------------------------------------------------- Section 1 and 3: the rate of prior work
# With eta = 1/M and G = M = U = 1: b_1 = n kappa and b_2 = n alpha^2; the noise of a fresh gradient determines kappa.
threshold = p / a
at("sec1.prior", "Section 1, contribution 2", "Private term of the rate quoted for prior work")(
    Crossover(p**2 * threshold / a**4, a**2, a, p ** Rational(2, 7), example={p: 0.01}),
    "Step size 1/M and constants 1, as prior work has it: the noise of a fresh gradient gives kappa = p/alpha for p = "
    "sqrt(d)/(n epsilon), and that of the differences then is p^2 kappa/alpha^4 = alpha^2.",
    Severity.TYPOGRAPHICAL(
        "The exponent should be 3/7, as the prior work has it. With 2/7 the rate called over-optimistic would be "
        "larger than the one that corrects it.",
        p ** Rational(3, 7),
    ),
)


ordinary = symbol("alpha_new", "private term of the rate of this paper", latex="\\alpha_{new}")
place = "Section 3, with the rates of contribution 2"
at("sec3.looser", place, "The corrected rate is looser than the one of prior work")(
    Inequality(p ** Rational(2, 5), p ** Rational(2, 7), sense=">=", example={p: 0.01}, subject=ordinary),
    "The two private terms; p = sqrt(d)/(n epsilon) < 1.",
    Severity.TYPOGRAPHICAL(
        "True for the exponent 3/7 of the prior work; with the printed 2/7 the corrected rate would be tighter.",
        p ** Rational(3, 7),
    ),
)
at("appB", "Appendix B", "What a direct correction of prior work gives")(
    Uncheckable("curvature at least -O~(sqrt(rho) alpha^(2/5)), where alpha^(1/2) is wanted", Reason.CITED),
    "Yin et al. (2019), Theorem 3 and Proposition 1. The units of sqrt(rho) alpha^(2/5) and of sqrt(rho alpha) "
    "differ, so that other constants are hidden.",
)

# ---------------------------------------------------------------- Section 4: parameters
ratio = symbol("u", "rho alpha/M^2, at most 1 by assumption", domain=Domain(0, 1, closed=True))
step = sqrt(rho * alpha) / (M**2 * iota**2)
box = {ratio: (1e-6, 1), M: (1e-3, 1e3), rho: (1e-3, 1e3)}
at("eq4.bound", "eq. (4)", "Step size at most 1/M")(
    Inequality(step, 1 / M, box, where={alpha: ratio * M**2 / rho}, subject=eta),
    "From the assumption M >= sqrt(rho alpha), that is alpha = u M^2/rho with u <= 1, and iota >= 1.",
)
by_steps = {escape_steps: iota / (s * eta * sqrt(rho * alpha))}
at("eq4.eta", "eq. (4), with (40) and (41)", "Step size for which gradient noise stays below the perturbation")(
    Choice({eta: step, **by_steps}, {"P_sg": eta * M * sqrt(escape_steps) * iota}, 1 / sqrt(s)),
    "Lemma 12 bounds the accumulated gradient noise by sqrt(T_esc) eta M |x_t| sqrt(iota), and |x_t| itself carries "
    "sqrt(iota) by (35); (41) needs the product eta M sqrt(T_esc) iota to be at most of order 1/sqrt(s).",
    Severity.CONSTANT(
        "The factor sqrt(iota) of (35) is lost between (35) and (40). With the printed step size eta M sqrt(T_esc) "
        "iota = sqrt(mu), not 1/sqrt(s), so that (41) holds for no s; eta = sqrt(rho alpha)/(M^2 iota^3) repairs it "
        "at the price of a logarithm.",
        (step / iota, by_steps[escape_steps]),
    ),
    calculation=PARAMETERS,
)

prefactor = symbol("36dT", "36 d times the steps of an escape", latex="36d\\mathcal{T}")
by_level = {alpha: 16 * sqrt(C) * s * mu**2 * psi}
by_iota = {iota: s * mu}
printed = 9 * d / (C ** Rational(1, 4) * eta * sqrt(s * rho * psi))
at("eq5.steps", "eq. (5), first entry, outer factor", "Number of escape steps in the first entry of mu")(
    Identity(prefactor, printed, 36 * d * escape_steps, where={**by_steps, **by_level, **by_iota}),
    "Below (43): iota >= log(36 d T_esc log(S/(eta r))) makes 6 d T_esc log(S/(eta r)) e^-iota at most 1/6.",
)

by_radius = {radius: iota ** Rational(-3, 2) * sqrt(alpha / rho)}
inner = symbol("S/(eta r)", "argument of the inner logarithm", latex="\\mathcal{S}/(\\eta r)")
printed = 4 * C ** Rational(1, 4) / (s * eta * r) * sqrt(psi / rho)
box = {x: (0.1, 10) for x in (C, eta, r, psi, rho)} | {s: (1, 100), mu: (1, 100)}
by_all = {**by_radius, **by_level, **by_iota}
at("eq5.inner", "eq. (5), first entry, inner factor", "Inner logarithm of the first entry of mu")(
    Inequality(radius / (eta * r), printed, box, where=by_all, subject=inner),
    "S/(eta r) with (4) put in carries 1/sqrt(mu), which the paper drops; mu >= 1.",
)

worst = 40 * sqrt(2) * radius * (rho * alpha) ** Rational(1, 4) / (sqrt(eta) * r)
reach = 320 * sqrt(2) * C ** Rational(3, 8) * psi ** Rational(3, 4)
reach = reach / (s ** Rational(3, 4) * rho ** Rational(1, 4) * sqrt(eta) * r)
printed = log(160 * sqrt(2) * C ** Rational(1, 4) / (s * sqrt(eta * r)) * sqrt(psi / rho))
at("eq5.second", "eq. (5), second entry, with (47)", "Second entry of mu")(
    Identity(mu, printed, log(worst) / log(2), where=by_all),
    "(46) with beta as defined: 2^mu sqrt(eta) r/(40 sqrt(2) (rho alpha)^(1/4)) must reach S; the least curvature "
    "sqrt(rho alpha) is the worst case. (With sqrt(eta) r for sqrt(eta r), another reading of the text, the units "
    "differ as well.)",
    Severity.CONSTANT(
        "The logarithm is taken of a quantity with a unit: (46) drops the factor 1/sqrt(gamma) of beta and writes "
        "sqrt(eta r) for sqrt(eta) r. The base of the logarithm is 2, as (47) uses it.",
        log(reach) / log(2),
    ),
    calculation=PARAMETERS,
)

levels = log(4 * T / omega)
second_member = symbol("C sqrt(2 log(4T/omega))", "second member of chi/psi", latex="C\\sqrt{2\\log(4T/\\omega)}")
printed = (C * levels) ** Rational(1, 4) / (2 ** Rational(3, 4) * sqrt(s))
at("eq5.third", "eq. (5), third entry, with the maximum in (4)", "Third entry of mu")(
    Identity(mu, printed, sqrt(second_member / (4 * sqrt(C) * s)), {second_member: C * sqrt(2 * levels)}),
    "The mu at which the two members of the maximum that defines chi are equal: 4 sqrt(C) s mu^2 = C sqrt(2 "
    "log(4T/omega)).",
)
bend = eta * rho * radius * escape_steps
at("eq39", "below (39)", "What keeps the curvature term of the dynamics small")(
    Identity(bend, 1 / s, bend, where={**by_steps, **by_radius}, example={s: 100, iota: 100}),
    "The product of the definitions (4).",
    Severity.TYPOGRAPHICAL(
        "A factor sqrt(iota) is missing, in the text that was read: 2 c eta rho S T_esc sqrt(iota) = 2c/s. The "
        "conclusion (39), which carries sqrt(iota), stands.",
        1 / (s * sqrt(iota)),
    ),
)

unstable = symbol(
    "||P_sg||", "bound of the accumulated gradient noise over beta eta r", latex="\\|P_{sg}\\|/(\\beta\\eta r)"
)
bound35 = symbol("|x_t|/(beta eta r)", "bound (35) of the difference, in units of beta eta r", latex="x")
noise_sum = sqrt(escape_steps * (eta * M * bound35) ** 2 * iota)
drift35 = {bound35: 2 * c * sqrt(iota)}
example = {c: 1, eta: 0.01, M: 1, escape_steps: 100, iota: 4}
at("eq40", "eq. (40)", "Bound of the accumulated gradient noise")(
    Identity(unstable, 2 * c * eta * M * sqrt(escape_steps) * sqrt(iota), noise_sum, drift35, example=example),
    "Lemma 12 for T_esc steps of noise eta M |x_t|, with |x_t| <= 2 c beta eta r sqrt(iota) from (35), in units of "
    "beta eta r; constants as printed.",
    Severity.CONSTANT(
        "The bound (35) of |x_t| carries sqrt(iota), and Lemma 12 another: iota for sqrt(iota).",
        2 * c * eta * M * sqrt(escape_steps) * iota,
    ),
)

log_inner = symbol("L", "log(S/(eta r))", latex="\\log\\frac{\\mathcal{S}}{\\eta r}", usual=(0.01, 100))
example, box = {d: 1, T: 10, log_inner: 0.5}, {d: (1, 1000)}
printed, mended = (
    (6 * d * (T - 1) * level + 4 * d * level + 2, 6 * d * T * level) for level in (log_inner, Max(1, log_inner))
)
at("eq43", "above (43)", "Failure probabilities of one step of the induction")(
    Inequality(*printed, box, example=example),
    "In units of e^-iota; L stands for log(S/(eta r)).",
    Severity.EDGE(
        "It takes d log(S/(eta r)) >= 1: the inner logarithm of (5) has to be replaced by its maximum with 1.",
        Inequality(*mended, box),
    ),
)

apart = symbol("x_t - x'_t", "difference of the coupled runs", LENGTH, latex="\\hat{x}_t")
gap = symbol("gap", "difference before the step", LENGTH, domain=Domain(), latex="\\hat{x}_{t-1}")
slope = symbol("slope", "difference of the gradients", GRADIENT, domain=Domain(), latex="\\nabla F-\\nabla F'")
noises = symbol("kick", "difference of the noises", GRADIENT, domain=Domain(), latex="\\hat{\\zeta}_t+\\hat{\\xi}_t")
at("eq24", "eq. (24)", "Difference of the coupled runs after one step")(
    Identity(apart, gap - eta * slope + noises, gap - eta * (slope + noises), example={gap: 1, eta: 1}),
    "(2) and (3) for both runs; the noises stand for their differences.",
    Severity.TYPOGRAPHICAL(
        "The bracket has to enclose the differences of the noises: printed, a gradient is added to a length. (25) is "
        "right.",
        gap - eta * slope - eta * noises,
    ),
)

curvature = LOSS / LENGTH**2
y = symbol("y", "place between the coupled runs", domain=Domain(0, 1, closed=True))
way, other_way = (symbol(name, "a share", domain=Domain(0, 1, closed=True)) for name in ("w", "v"))
example, box = {alpha: 1, rho: 1, iota: 4}, {iota: (1.01, 100)}
mean_hess_f = symbol("|mean hess F|", "norm of a mean Hessian", curvature, latex="\\|\\int\\nabla^2F\\|")
from_saddle = symbol("|mean hess F - H|", "distance from H", curvature, latex="\\|\\Delta_t\\|")
mean_change = rho * radius * integrate(y * way + (1 - y) * other_way, (y, 0, 1))
in_ball = {**box, way: (1e-3, 1), other_way: (1e-3, 1)}
at("eq32.hessian", "eq. (36) and (37)", "Change of the Hessian within the ball")(
    Inequality(sqrt(rho * alpha), rho * radius, box, where=by_radius, example=example, subject=mean_hess_f),
    "Both runs at the saddle, where the curvature is -sqrt(rho alpha) or less; iota > 1.",
    Severity.TYPOGRAPHICAL(
        "(36) should subtract the Hessian H at the saddle, as Lemma 17 does, and have a norm.",
        Inequality(mean_change, rho * radius, in_ball, where=by_radius, subject=from_saddle),
    ),
)

hessian = symbol("h", "curvature at the saddle", curvature, domain=Domain())
stay = 1 - eta * hessian
changes = [
    symbol(f"Delta_{k}", "change of curvature", curvature, domain=Domain(), latex=f"\\Delta_{k}") for k in range(3)
]
kicks = [
    symbol(f"kick_{k}", "difference of the noises", GRADIENT, domain=Domain(), latex=f"\\nu_{k}") for k in (1, 2, 3)
]
path = tuple(zip((1, 2, 3), changes, kicks, strict=True))
differences = [Integer(0)]
for _, change, kick in path:
    differences.append((1 - eta * (hessian + change)) * differences[-1] - eta * kick)
unrolled = Add(*(-eta * stay ** (3 - k) * (change * differences[k - 1] + kick) for k, change, kick in path))
at("lemma17", "Lemma 17, eq. (23)", "Difference of the coupled runs")(
    Identity(apart, unrolled, differences[-1]), "One dimension and three steps of (25) from a difference of 0."
)

growth_rate = symbol("x", "eta gamma", domain=Domain(0, 1, closed=True), latex="\\eta\\gamma")
geometric = ((1 + growth_rate) ** (2 * T) - 1) / ((1 + growth_rate) ** 2 - 1)
at("lemma18.scale", "above Lemma 18", "alpha(t) at most beta(t)")(
    Inequality(geometric, (1 + growth_rate) ** (2 * T) / (2 * growth_rate), {growth_rate: (1e-3, 1), T: (1, 50)}),
    "Squares of both, the geometric sum in closed form; x stands for eta gamma.",
)

probability = symbol("Pr", "a probability", latex="\\Pr")
two_thirds = Rational(2, 3)
in_deviations = sqrt((1 + growth_rate / 2) / (1 - (1 + growth_rate) ** (-2 * T))) / 20  # of beta eta r/10
doubled, box = ((1 + growth_rate) ** T >= 2,), {growth_rate: (1e-3, 1), T: (1, 1e4)}
far = 1 - sqrt(2 / pi) * in_deviations
at("lemma18.lower", "Lemma 18, eq. (30)", "Probability that the perturbation is large enough")(
    Inequality(far, two_thirds, box, ">=", conditions=doubled, subject=probability),
    "Along the unstable direction the perturbation is N(0, (2 eta r alpha(T_esc))^2), whose density bounds the "
    "probability of less than beta eta r/10; (1 + eta gamma)^T_esc >= 2^mu >= 2, x stands for eta gamma.",
)

of_bound = symbol("r_t/r", "noise over its bound", domain=Domain(0, 1, closed=True), usual=(1e-3, 1))
of_least = symbol("r_t/r_min", "noise over its least value", domain=FROM_ONE, usual=(1, 100))
far, far_enough = (erfc(in_deviations / level / sqrt(2)) for level in (of_bound, of_least))
example = {of_bound: 0.1, growth_rate: 1, T: 1}
below, above = (
    symbol(f"Pr at r_t {side}", "a probability", latex=f"\\Pr_{{r_t {tex}}}")
    for side, tex in (("<= r", "\\leq r"), (">= r_min", "\\geq r_{\\min}"))
)
at("lemma18.level", "Lemma 18, eq. (30), and (5), with Lemma 7", "The perturbation at a noise below its bound")(
    Inequality(far, two_thirds, box, ">=", conditions=doubled, example=example, subject=below),
    "As for (30), exactly: the chance that a Gaussian exceeds beta eta r/10, at the noise r_t of a step. Lemma 7 "
    "bounds r_t by r from above only, and Theorem 2 uses (30) and (5) at this r.",
    Severity.PROOF(
        "(30) and (5) need the noise from below, Lemma 7 gives r from above: with a tenth of r the probability is "
        "below 2/3. With r_min <= r_t in their place both hold; the fresh gradient's noise, sqrt(c_1 log(1/delta)) "
        "G/(b_1 epsilon), is such a bound, but it is drawn once for many steps (thm2.noise).",
        Inequality(far_enough, two_thirds, box, ">=", conditions=doubled, subject=above),
    ),
)

step_failure = 6 * d * T * log_inner * exp(-iota)
example = {d: 1, T: 1, log_inner: 1, iota: 10, way: 0.5}
succeeds, at_worst, box = 1 - way * step_failure, 1 - step_failure, {d: (1, 1000), way: (1e-3, 1)}
at("eq32", "eq. (32)", "Probability of the induction")(
    Inequality(succeeds, at_worst, box, example=example, subject=probability),
    "Each of t steps fails with probability at most 6 d log(S/(eta r)) e^-iota, here w of it; L stands for log(S/(eta "
    "r)), T for t.",
    Severity.TYPOGRAPHICAL(
        "'At most' should be 'at least': (32) is what the induction shows, and (31) needs it from below.",
        Inequality(succeeds, at_worst, box, ">=", subject=probability),
    ),
)

drift_bound = symbol("drift bound", "lower bound of the drift", LENGTH, latex="\\|\\hat{x}\\|/2")
scale = symbol("beta", "(1 + eta gamma)^T_esc/sqrt(2 eta gamma)", latex="\\beta")
first = symbol("part 1", "one of two parts", LENGTH, latex="part_1")
second = symbol("part 2", "the other part", LENGTH, latex="part_2")
halves = dict.fromkeys((first, second), scale * eta * r / 40)
at("lemma19", "Lemma 19, eq. (31), from (39) and (41)", "Curvature and gradient noise together")(
    Identity(drift_bound, scale * eta * r / 20, first + second, halves),
    "The two parts, by (39) and by (41), beta eta r/40 each.",
    premises=("eq4.eta",),
)

needed_iota = -log(Rational(1, 6) / (6 * d * escape_steps * log(radius / (eta * r))))
at("eq43.iota", "below (43)", "What iota has to be")(
    Identity(iota, log(36 * d * escape_steps * log(radius / eta)), needed_iota, conditions=(radius > eta * r,)),
    "6 d T_esc log(S/(eta r)) e^-iota is to be 1/6.",
    Severity.TYPOGRAPHICAL("r is missing: S/eta is no number.", log(36 * d * escape_steps * log(radius / (eta * r)))),
)

growth = (1 + eta * gamma) ** escape_steps
beta = {scale: growth / sqrt(2 * eta * gamma)}
at("eq46", "eq. (46)", "Drift after the escape steps")(
    Identity(drift_bound, growth * sqrt(eta * r) / (40 * sqrt(2)), scale * eta * r / 40, beta),
    "beta(t) = (1 + eta gamma)^t/sqrt(2 eta gamma), as defined above Lemma 18.",
    Severity.CONSTANT(
        "beta eta r = (1 + eta gamma)^T_esc sqrt(eta) r/sqrt(2 gamma): the factor 1/sqrt(gamma) is lost, and, in the "
        "text that was read, r stands under the root. The right side is no length.",
        growth * sqrt(eta) * r / (40 * sqrt(2 * gamma)),
    ),
)

small = symbol("x", "a number in (0, 1]", domain=Domain(0, 1, closed=True), usual=(1e-3, 1))
at("eq47.doubling", "below (47)", "1 + x > 2^x")(
    Inequality(2**small, 1 + small, {small: (1e-6, 1)}, "<", example={small: 1}),
    "Claimed for all x in (0, 1]; used to turn (1 + eta sqrt(rho alpha))^T_esc into 2^mu.",
    Severity.EDGE(
        "There is equality at x = 1; the weak inequality is all that is needed.",
        Inequality(2**small, 1 + small, {small: (1e-6, 1)}),
    ),
)

exponent = symbol("exponent", "of the growth of the unstable direction", latex="\\eta\\sqrt{\\rho\\alpha}\\mathcal{T}")
at("eq47.exponent", "eq. (47)", "Exponent of the growth")(
    Identity(exponent, mu, eta * sqrt(rho * alpha) * escape_steps, where={**by_steps, **by_iota}),
    "(1 + eta sqrt(rho alpha))^T_esc >= 2^(eta sqrt(rho alpha) T_esc), with T_esc of (4).",
)

argument = symbol("X", "argument of the logarithm", domain=Domain(1))
at("eq47.logarithm", "eq. (47)", "mu = log X makes 2^mu equal to X")(
    Identity(2**mu, 2 ** log(argument), argument, example={argument: 10}),
    "The last step of (47); X stands for the argument of the second entry of (5).",
    Severity.TYPOGRAPHICAL(
        "log has to be the logarithm to the base 2, as in Lemma 2 and Corollary 3, which the paper does not say. "
        "(Lemmas 5 and 19 hold for either base, and where the natural one is meant it writes ln.)",
        2 ** (log(argument) / log(2)),
    ),
)

one_third, one_fifth, one_half = Rational(1, 3), Rational(1, 5), Rational(1, 2)
left = two_thirds - 6 * d * escape_steps * log_inner * exp(-iota)
at("lemma1", "Lemma 1, below (43)", "Probability that one of two coupled runs escapes")(
    Identity(probability, one_half, left, {iota: log(36 * d * escape_steps * log_inner)}),
    "2/3 from (30), less the failures of Lemma 19 at iota = log(36 d T_esc log(S/(eta r))).",
    premises=("lemma19",),
)
at("cor1", "Corollary 1", "Probability that a single run escapes")(
    Crossover(2 * probability, Integer(1) / 2, probability, Rational(1, 4)),
    "The coupled runs have the same law, and the probability that one of two escapes is at most twice that of one.",
    premises=("lemma1",),
)

repeats = symbol("Q", "attempts that suffice")
least, printed = log(1 / omega0) / log(Rational(4, 3)), Rational(5, 2) * log(1 / omega0)
at("lemma2", "Lemma 2", "Attempts that suffice")(
    Inequality(least, printed, example={omega0: 0.01}, subject=repeats),
    "All of Q attempts fail with probability at most (3/4)^Q, which is to be at most omega_0.",
    Severity.TYPOGRAPHICAL(
        "The base of the logarithm, as in eq47.logarithm: with the natural one (3/4)^Q = omega_0^0.72 > omega_0; the "
        "lemma holds for the logarithm to the base 2, that is for Q = 3.61 ln(1/omega_0). The least is "
        "ln(1/omega_0)/ln(4/3) = 3.48 ln(1/omega_0).",
        printed / log(2),
    ),
    calculation=REPEATS,
)
