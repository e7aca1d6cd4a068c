"""Anonymous authors, "Private Stochastic Optimization for Achieving Second-Order Stationary Points": claims, checked.

Letters are the paper's, except that its script T, S and F (steps of an escape, radius, decrease) are `T_esc`, `S` and
`F_esc`, and its number of fresh gradients is `R`. Logarithms are natural. The version read is named in `PAPER`.
"""

from typing import Any

import sympy
from sympy import Integer, Max, Rational, exp, log, sqrt

from dpnotes.papers.drift_escape.calculators import (
    PARAMETERS,
    RATE,
    REPEATS,
    SAMPLES,
    SELECTION,
    SHARED_RATE,
    SHARED_SAMPLES,
)
from dpnotes.papers.drift_escape.notation import (
    FROM_ONE,
    C,
    G,
    M,
    N,
    Q,
    S,
    T,
    U,
    a,
    alpha,
    b1,
    b2,
    c,
    c1,
    c2,
    chi,
    d,
    data,
    decrease,
    delta,
    ell,
    epsilon,
    escape_steps,
    eta,
    fresh,
    gamma,
    iota,
    kappa,
    m,
    mu,
    n,
    omega,
    omega0,
    omega_s,
    p,
    psi,
    r,
    radius,
    rho,
    s,
    sigma,
    sigma1,
    sigma2,
)
from dpnotes.theory.calculators import Calculator
from dpnotes.theory.claims import Claim, Paper, Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Choice, Crossover, Rate
from dpnotes.theory.statements import Identity, Optimum, Reason, Uncheckable
from dpnotes.theory.symbols import COUNT, Domain
from dpnotes.theory.units import LENGTH, LOSS

PAPER = Paper(
    key="drift_escape",
    title="Private Stochastic Optimization for Achieving Second-Order Stationary Points",
    authors=("Anonymous authors",),
    venue="submission to ICLR, under double-blind review",
    year=2024,
    doi="",
    arxiv="",  # the version on arXiv is a later one, with another title
    version="anonymous submission to ICLR, before arXiv:2505.15647 (the later version has another title)",
    bibtex="""@unpublished{anonymous2024private,
  title  = {Private Stochastic Optimization for Achieving Second-Order Stationary Points},
  author = {Anonymous authors},
  year   = {2024},
  note   = {Submission to ICLR, under double-blind review; a later version is arXiv:2505.15647,
            Second-Order Convergence in Private Stochastic Non-Convex Optimization}
}""",
)


_third, _fifth, _half = Rational(1, 3), Rational(1, 5), Rational(1, 2)
_ONES = (G, M, rho, U)  # the paper's rates set them to 1

# ---------------------------------------------------------------- definitions (4) of the paper
_STEPS = {escape_steps: iota / (s * eta * sqrt(rho * alpha))}
_RADIUS = {radius: iota ** Rational(-3, 2) * sqrt(alpha / rho)}
_STEP_SIZE = {eta: sqrt(rho * alpha) / (M**2 * iota**2)}
_LEVEL = {alpha: 16 * sqrt(C) * s * mu**2 * psi}
_IOTA = {iota: s * mu}
_DECREASE = {decrease: s / (8 * iota**3) * sqrt(alpha**3 / rho)}
_ERROR = {alpha: 4 * chi}


_READING = (
    " The text that was read shows sqrt(mn) epsilon; it is sqrt(m) n epsilon by (94), and by Remark 2: a square root "
    "term sqrt(m) before n."
)


def _quantity(name: str, meaning: str, latex: str, **more: Any) -> Any:
    return S.symbol(name, meaning, latex=latex, **more)


# ---------------------------------------------------------------- Section 1 and 3: the rate of prior work
_QUOTED = _quantity("alpha_prior", "private term of the rate quoted for prior work", "\\alpha_{prior}")
_ORDINARY = _quantity("alpha_new", "private term of the rate of this paper", "\\alpha_{new}")


def _prior() -> tuple[Claim, ...]:
    # With eta = 1/M and G = M = U = 1: b_1 = n kappa, b_2 = n alpha^2; kappa from a fresh gradient's noise.
    threshold = p / a
    return (
        PAPER.claim(
            "sec1.prior",
            "Private term of the rate quoted for prior work",
            "Section 1, contribution 2",
            Crossover(p**2 * threshold / a**4, a**2, a, p ** Rational(2, 7), example={p: 0.01}),
            "Step size 1/M and constants 1, as prior work has it: the noise of a fresh gradient gives kappa = p/alpha "
            "for p = sqrt(d)/(n epsilon), and that of the differences then is p^2 kappa/alpha^4 = alpha^2.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "The exponent should be 3/7, as the prior work has it. With 2/7 the rate called over-optimistic "
                "would be larger than the one that corrects it.",
                Crossover(p**2 * threshold / a**4, a**2, a, p ** Rational(3, 7)),
            ),
        ),
        PAPER.claim(
            "sec3.looser",
            "The corrected rate is looser than the one of prior work",
            "Section 3, with the rates of contribution 2",
            Inequality(
                p ** Rational(2, 5), p ** Rational(2, 7), {p: (1e-9, 1)}, ">=", subject=_ORDINARY, example={p: 0.01}
            ),
            "The two private terms; p = sqrt(d)/(n epsilon) < 1.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "True for the exponent 3/7 of the prior work; with the printed 2/7 the corrected rate would be "
                "tighter.",
                Inequality(p ** Rational(2, 5), p ** Rational(3, 7), {p: (1e-9, 1)}, ">=", subject=_ORDINARY),
            ),
        ),
        PAPER.claim(
            "appB",
            "What a direct correction of prior work gives",
            "Appendix B",
            Uncheckable("curvature at least -O~(sqrt(rho) alpha^(2/5)), where alpha^(1/2) is wanted", Reason.CITED),
            "Yin et al. (2019), Theorem 3 and Proposition 1. The units of sqrt(rho) alpha^(2/5) and of sqrt(rho alpha) "
            "differ, so that other constants are hidden.",
        ),
    )


# ---------------------------------------------------------------- Section 4: parameters
_ratio = _quantity("u", "rho alpha/M^2, at most 1 by assumption", "u", domain=Domain(0, 1, closed=True))
_ARGUMENT = _quantity("X", "argument of the logarithm", "X", domain=Domain(1))
_way, _other_way = (_quantity(name, "a share", name, domain=Domain(0, 1, closed=True)) for name in ("w", "v"))
_CURVATURE = LOSS / LENGTH**2
_y = _quantity("y", "place between the coupled runs", "y", domain=Domain(0, 1, closed=True))
_small = _quantity("x", "a number in (0, 1]", "x", domain=Domain(0, 1, closed=True))
_PREFACTOR = _quantity("36dT", "36 d times the steps of an escape", "36d\\mathcal{T}")
_INNER = _quantity("S/(eta r)", "argument of the inner logarithm", "\\mathcal{S}/(\\eta r)")
_DRIFT_BOUND = _quantity("drift bound", "lower bound of the drift", "\\|\\hat{x}\\|/2", unit=LENGTH)
_UNSTABLE = _quantity(
    "||P_sg||", "bound of the accumulated gradient noise over beta eta r", "\\|P_{sg}\\|/(\\beta\\eta r)"
)
_EXPONENT = _quantity("exponent", "of the growth of the unstable direction", "\\eta\\sqrt{\\rho\\alpha}\\mathcal{T}")
_LOG_INNER = _quantity("L", "log(S/(eta r))", "\\log\\frac{\\mathcal{S}}{\\eta r}")
_PROBABILITY = _quantity("Pr", "a probability", "\\Pr")
_second_member = _quantity("C sqrt(2 log(4T/omega))", "second member of chi/psi", "C\\sqrt{2\\log(4T/\\omega)}")
_REPEATS = _quantity("Q", "attempts that suffice", "Q")


_fails = _quantity("p", "probability that one bound fails", "p")
_first = _quantity("part 1", "one of two parts", "part_1", unit=LENGTH)
_second = _quantity("part 2", "the other part", "part_2", unit=LENGTH)
_scale = _quantity("beta", "(1 + eta gamma)^T_esc/sqrt(2 eta gamma)", "\\beta")
_bound35 = _quantity("|x_t|/(beta eta r)", "bound (35) of the difference, in units of beta eta r", "x")
_GAP = _quantity("x_t - x'_t", "difference of the coupled runs", "\\hat{x}_t", unit=LENGTH)
_gap = _quantity("gap", "difference before the step", "\\hat{x}_{t-1}", unit=LENGTH, domain=Domain())
_slope = _quantity("slope", "difference of the gradients", "\\nabla F-\\nabla F'", unit=LOSS / LENGTH, domain=Domain())
_kick = _quantity(
    "kick", "difference of the noises", "\\hat{\\zeta}_t+\\hat{\\xi}_t", unit=LOSS / LENGTH, domain=Domain()
)
_growth_rate = _quantity("x", "eta gamma", "\\eta\\gamma", domain=Domain(0, 1, closed=True))
_hessian = _quantity("h", "curvature at the saddle", "h", unit=LOSS / LENGTH**2, domain=Domain())
_PATH = tuple(
    (
        k,
        _quantity(f"Delta_{k - 1}", "change of curvature", f"\\Delta_{k - 1}", unit=LOSS / LENGTH**2, domain=Domain()),
        _quantity(f"kick_{k}", "difference of the noises", f"\\nu_{k}", unit=LOSS / LENGTH, domain=Domain()),
    )
    for k in (1, 2, 3)
)


def _parameters() -> tuple[Claim, ...]:
    levels = log(4 * T / omega)
    growth = (1 + eta * gamma) ** escape_steps
    beta = {_scale: growth / sqrt(2 * eta * gamma)}
    drift35 = {_bound35: 2 * c * sqrt(iota)}
    worst = 40 * sqrt(2) * radius * (rho * alpha) ** Rational(1, 4) / (sqrt(eta) * r)
    needed_iota = -log(Rational(1, 6) / (6 * d * escape_steps * log(radius / (eta * r))))
    stay = 1 - eta * _hessian
    differences = [sympy.Integer(0)]
    for _, change, kick in _PATH:
        differences.append((1 - eta * (_hessian + change)) * differences[-1] - eta * kick)
    unrolled = sympy.Add(*(-eta * stay ** (3 - k) * (change * differences[k - 1] + kick) for k, change, kick in _PATH))
    noise_sum = sqrt(escape_steps * (eta * M * _bound35) ** 2 * iota)
    return (
        PAPER.claim(
            "eq4.bound",
            "Step size at most 1/M",
            "eq. (4)",
            Inequality(
                sqrt(rho * alpha) / (M**2 * iota**2),
                1 / M,
                {_ratio: (1e-6, 1), M: (1e-3, 1e3), iota: (1, 100), rho: (1e-3, 1e3)},
                where={alpha: _ratio * M**2 / rho},
                subject=eta,
            ),
            "From the assumption M >= sqrt(rho alpha), that is alpha = u M^2/rho with u <= 1, and iota >= 1.",
        ),
        PAPER.claim(
            "eq4.eta",
            "Step size for which gradient noise stays below the perturbation",
            "eq. (4), with (40) and (41)",
            Choice(
                {eta: sqrt(rho * alpha) / (M**2 * iota**2), escape_steps: iota / (s * eta * sqrt(rho * alpha))},
                {"P_sg": eta * M * sqrt(escape_steps) * iota},
                1 / sqrt(s),
            ),
            "Lemma 12 bounds the accumulated gradient noise by sqrt(T_esc) eta M |x_t| sqrt(iota), and |x_t| itself "
            "carries sqrt(iota) by (35); (41) needs the product eta M sqrt(T_esc) iota to be at most of order "
            "1/sqrt(s).",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The factor sqrt(iota) of (35) is lost between (35) and (40). With the printed step size "
                "eta M sqrt(T_esc) iota = sqrt(mu), not 1/sqrt(s), so that (41) holds for no s; "
                "eta = sqrt(rho alpha)/(M^2 iota^3) repairs it at the price of a logarithm.",
                Choice(
                    {eta: sqrt(rho * alpha) / (M**2 * iota**3), escape_steps: iota / (s * eta * sqrt(rho * alpha))},
                    {"P_sg": eta * M * sqrt(escape_steps) * iota},
                    1 / sqrt(s),
                ),
            ),
            calculation=PARAMETERS,
        ),
        PAPER.claim(
            "eq5.steps",
            "Number of escape steps in the first entry of mu",
            "eq. (5), first entry, outer factor",
            Identity(
                _PREFACTOR,
                9 * d / (C ** Rational(1, 4) * eta * sqrt(s * rho * psi)),
                36 * d * escape_steps,
                where={**_STEPS, **_LEVEL, **_IOTA},
            ),
            "Below (43): iota >= log(36 d T_esc log(S/(eta r))) makes 6 d T_esc log(S/(eta r)) e^-iota at most 1/6.",
        ),
        PAPER.claim(
            "eq5.inner",
            "Inner logarithm of the first entry of mu",
            "eq. (5), first entry, inner factor",
            Inequality(
                radius / (eta * r),
                4 * C ** Rational(1, 4) / (s * eta * r) * sqrt(psi / rho),
                {x: (0.1, 10) for x in (C, eta, r, psi, rho)} | {s: (1, 100), mu: (1, 100)},
                where={**_RADIUS, **_LEVEL, **_IOTA},
                subject=_INNER,
            ),
            "S/(eta r) with (4) put in carries 1/sqrt(mu), which the paper drops; mu >= 1.",
        ),
        PAPER.claim(
            "eq5.second",
            "Second entry of mu",
            "eq. (5), second entry, with (47)",
            Identity(
                mu,
                log(160 * sqrt(2) * C ** Rational(1, 4) / (s * sqrt(eta * r)) * sqrt(psi / rho)),
                log(worst) / log(2),
                where={**_RADIUS, **_LEVEL, **_IOTA},
            ),
            "(46) with beta as defined: 2^mu sqrt(eta) r/(40 sqrt(2) (rho alpha)^(1/4)) must reach S; the least "
            "curvature sqrt(rho alpha) is the worst case. (With sqrt(eta) r for sqrt(eta r), another reading of "
            "the text, the units differ as well.)",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The logarithm is taken of a quantity with a unit: (46) drops the factor 1/sqrt(gamma) of beta and "
                "writes sqrt(eta r) for sqrt(eta) r. The base of the logarithm is 2, as (47) uses it.",
                Identity(
                    mu,
                    log(
                        320
                        * sqrt(2)
                        * C ** Rational(3, 8)
                        * psi ** Rational(3, 4)
                        / (s ** Rational(3, 4) * rho ** Rational(1, 4) * sqrt(eta) * r)
                    )
                    / log(2),
                    log(worst) / log(2),
                    where={**_RADIUS, **_LEVEL, **_IOTA},
                ),
            ),
            calculation=PARAMETERS,
        ),
        PAPER.claim(
            "eq5.third",
            "Third entry of mu",
            "eq. (5), third entry, with the maximum in (4)",
            Identity(
                mu,
                (C * levels) ** Rational(1, 4) / (2 ** Rational(3, 4) * sqrt(s)),
                sqrt(_second_member / (4 * sqrt(C) * s)),
                {_second_member: C * sqrt(2 * levels)},
            ),
            "The mu at which the two members of the maximum that defines chi are equal: 4 sqrt(C) s mu^2 = "
            "C sqrt(2 log(4T/omega)).",
        ),
        PAPER.claim(
            "eq39",
            "What keeps the curvature term of the dynamics small",
            "below (39)",
            Identity(
                eta * rho * radius * escape_steps,
                1 / s,
                eta * rho * radius * escape_steps,
                where={**_STEPS, **_RADIUS},
                example={s: 100, iota: 100},
            ),
            "The product of the definitions (4).",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "A factor sqrt(iota) is missing, in the text that was read: 2 c eta rho S T_esc sqrt(iota) = 2c/s. "
                "The conclusion (39), which carries sqrt(iota), stands.",
                Identity(
                    eta * rho * radius * escape_steps,
                    1 / (s * sqrt(iota)),
                    eta * rho * radius * escape_steps,
                    where={**_STEPS, **_RADIUS},
                ),
            ),
        ),
        PAPER.claim(
            "eq40",
            "Bound of the accumulated gradient noise",
            "eq. (40)",
            Identity(
                _UNSTABLE,
                2 * c * eta * M * sqrt(escape_steps) * sqrt(iota),
                noise_sum,
                drift35,
                example={c: 1, eta: 0.01, M: 1, escape_steps: 100, iota: 4},
            ),
            "Lemma 12 for T_esc steps of noise eta M |x_t|, with |x_t| <= 2 c beta eta r sqrt(iota) from (35), in "
            "units of beta eta r; constants as printed.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The bound (35) of |x_t| carries sqrt(iota), and Lemma 12 another: iota for sqrt(iota).",
                Identity(_UNSTABLE, 2 * c * eta * M * sqrt(escape_steps) * iota, noise_sum, drift35),
            ),
        ),
        PAPER.claim(
            "eq43",
            "Failure probabilities of one step of the induction",
            "above (43)",
            Inequality(
                6 * d * (T - 1) * _LOG_INNER + 4 * d * _LOG_INNER + 2,
                6 * d * T * _LOG_INNER,
                {d: (1, 1000), T: (1, 1e6), _LOG_INNER: (0.01, 100)},
                example={d: 1, T: 10, _LOG_INNER: 0.5},
            ),
            "In units of e^-iota; L stands for log(S/(eta r)).",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "It takes d log(S/(eta r)) >= 1: the inner logarithm of (5) has to be replaced by its maximum with 1.",
                Inequality(
                    6 * d * (T - 1) * Max(1, _LOG_INNER) + 4 * d * Max(1, _LOG_INNER) + 2,
                    6 * d * T * Max(1, _LOG_INNER),
                    {d: (1, 1000), T: (1, 1e6), _LOG_INNER: (0.01, 100)},
                ),
            ),
        ),
        PAPER.claim(
            "eq24",
            "Difference of the coupled runs after one step",
            "eq. (24)",
            Identity(_GAP, _gap - eta * _slope + _kick, _gap - eta * (_slope + _kick), example={_gap: 1, eta: 1}),
            "(2) and (3) for both runs; the noises stand for their differences.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "The bracket has to enclose the differences of the noises: printed, a gradient is added to a length. "
                "(25) is right.",
                Identity(_GAP, _gap - eta * _slope - eta * _kick, _gap - eta * (_slope + _kick)),
            ),
        ),
        PAPER.claim(
            "eq32.hessian",
            "Change of the Hessian within the ball",
            "eq. (36) and (37)",
            Inequality(
                sqrt(rho * alpha),
                rho * radius,
                {alpha: (1e-3, 1), rho: (0.1, 10), iota: (1.01, 100)},
                where=_RADIUS,
                example={alpha: 1, rho: 1, iota: 4},
                subject=_quantity("|mean hess F|", "norm of a mean Hessian", "\\|\\int\\nabla^2F\\|", unit=_CURVATURE),
            ),
            "Both runs at the saddle, where the curvature is -sqrt(rho alpha) or less; iota > 1.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "(36) should subtract the Hessian H at the saddle, as Lemma 17 does, and have a norm. (In (32), 'at "
                "most' should be 'at least'.)",
                Inequality(
                    rho * radius * sympy.integrate(_y * _way + (1 - _y) * _other_way, (_y, 0, 1)),
                    rho * radius,
                    {alpha: (1e-3, 1), rho: (0.1, 10), iota: (1.01, 100), _way: (1e-3, 1), _other_way: (1e-3, 1)},
                    where=_RADIUS,
                    subject=_quantity("|mean hess F - H|", "distance from H", "\\|\\Delta_t\\|", unit=_CURVATURE),
                ),
            ),
        ),
        PAPER.claim(
            "lemma17",
            "Difference of the coupled runs",
            "Lemma 17, eq. (23)",
            Identity(_GAP, unrolled, differences[-1]),
            "One dimension and three steps of (25) from a difference of 0.",
        ),
        PAPER.claim(
            "lemma18.scale",
            "alpha(t) at most beta(t)",
            "above Lemma 18",
            Inequality(
                ((1 + _growth_rate) ** (2 * T) - 1) / ((1 + _growth_rate) ** 2 - 1),
                (1 + _growth_rate) ** (2 * T) / (2 * _growth_rate),
                {_growth_rate: (1e-3, 1), T: (1, 50)},
            ),
            "Squares of both, the geometric sum in closed form; x stands for eta gamma.",
        ),
        PAPER.claim(
            "lemma18.lower",
            "Probability that the perturbation is large enough",
            "Lemma 18, eq. (30)",
            Inequality(
                1 - sqrt(2 / sympy.pi) * sqrt((1 + _growth_rate / 2) / (1 - (1 + _growth_rate) ** (-2 * T))) / 20,
                Rational(2, 3),
                {_growth_rate: (1e-3, 1), T: (1, 1e4)},
                ">=",
                conditions=((1 + _growth_rate) ** T >= 2,),
                subject=_PROBABILITY,
            ),
            "Along the unstable direction the perturbation is N(0, (2 eta r alpha(T_esc))^2), whose density bounds the "
            "probability of less than beta eta r/10; (1 + eta gamma)^T_esc >= 2^mu >= 2, x stands for eta gamma.",
        ),
        PAPER.claim(
            "lemma19",
            "Curvature and gradient noise together",
            "Lemma 19, eq. (31), from (39) and (41)",
            Identity(
                _DRIFT_BOUND,
                _scale * eta * r / 20,
                _first + _second,
                {_first: _scale * eta * r / 40, _second: _scale * eta * r / 40},
            ),
            "The two parts, by (39) and by (41), beta eta r/40 each.",
        ),
        PAPER.claim(
            "eq43.iota",
            "What iota has to be",
            "below (43)",
            Identity(iota, log(36 * d * escape_steps * log(radius / eta)), needed_iota, conditions=(radius > eta * r,)),
            "6 d T_esc log(S/(eta r)) e^-iota is to be 1/6.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "r is missing: S/eta is no number.",
                Identity(
                    iota,
                    log(36 * d * escape_steps * log(radius / (eta * r))),
                    needed_iota,
                    conditions=(radius > eta * r,),
                ),
            ),
        ),
        PAPER.claim(
            "eq46",
            "Drift after the escape steps",
            "eq. (46)",
            Identity(_DRIFT_BOUND, growth * sqrt(eta * r) / (40 * sqrt(2)), _scale * eta * r / 40, beta),
            "beta(t) = (1 + eta gamma)^t/sqrt(2 eta gamma), as defined above Lemma 18.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "beta eta r = (1 + eta gamma)^T_esc sqrt(eta) r/sqrt(2 gamma): the factor 1/sqrt(gamma) is lost, and, "
                "in the text that was read, r stands under the root. The right side is no length.",
                Identity(_DRIFT_BOUND, growth * sqrt(eta) * r / (40 * sqrt(2 * gamma)), _scale * eta * r / 40, beta),
            ),
        ),
        PAPER.claim(
            "eq47.doubling",
            "1 + x > 2^x",
            "below (47)",
            Inequality(2**_small, 1 + _small, {_small: (1e-6, 1)}, "<", example={_small: 1}),
            "Claimed for all x in (0, 1]; used to turn (1 + eta sqrt(rho alpha))^T_esc into 2^mu.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "There is equality at x = 1; the weak inequality is all that is needed.",
                Inequality(2**_small, 1 + _small, {_small: (1e-6, 1)}),
            ),
        ),
        PAPER.claim(
            "eq47.exponent",
            "Exponent of the growth",
            "eq. (47)",
            Identity(_EXPONENT, mu, eta * sqrt(rho * alpha) * escape_steps, where={**_STEPS, **_IOTA}),
            "(1 + eta sqrt(rho alpha))^T_esc >= 2^(eta sqrt(rho alpha) T_esc), with T_esc of (4).",
        ),
        PAPER.claim(
            "eq47.logarithm",
            "mu = log X makes 2^mu equal to X",
            "eq. (47)",
            Identity(2**mu, 2 ** log(_ARGUMENT), _ARGUMENT, example={_ARGUMENT: 10}),
            "The last step of (47); X stands for the argument of the second entry of (5).",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "True only for logarithms to the base 2; elsewhere (Lemma 5, Lemma 19) the paper's logarithms are "
                "natural.",
                Identity(2**mu, 2 ** (log(_ARGUMENT) / log(2)), _ARGUMENT),
            ),
        ),
        PAPER.claim(
            "lemma1",
            "Probability that one of two coupled runs escapes",
            "Lemma 1, below (43)",
            Identity(
                _PROBABILITY,
                _half,
                Rational(2, 3) - 6 * d * escape_steps * _LOG_INNER * exp(-iota),
                {iota: log(36 * d * escape_steps * _LOG_INNER)},
            ),
            "2/3 from (30), less the failures of Lemma 19 at iota = log(36 d T_esc log(S/(eta r))).",
        ),
        PAPER.claim(
            "cor1",
            "Probability that a single run escapes",
            "Corollary 1",
            Crossover(2 * _PROBABILITY, sympy.Integer(1) / 2, _PROBABILITY, Rational(1, 4)),
            "The coupled runs have the same law, and the probability that one of two escapes is at most twice that of "
            "one.",
        ),
        PAPER.claim(
            "lemma2",
            "Attempts that suffice",
            "Lemma 2",
            Inequality(
                log(1 / omega0) / log(Rational(4, 3)),
                Rational(5, 2) * log(1 / omega0),
                {omega0: (1e-12, 0.99)},
                subject=_REPEATS,
                example={omega0: 0.01},
            ),
            "All of Q attempts fail with probability at most (3/4)^Q, which is to be at most omega_0.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "With the natural logarithm (3/4)^Q = omega_0^0.72 > omega_0; the lemma holds for the logarithm to the "
                "base 2, that is for Q = 3.61 ln(1/omega_0). The least is ln(1/omega_0)/ln(4/3) = 3.48 ln(1/omega_0).",
                Inequality(
                    log(1 / omega0) / log(Rational(4, 3)),
                    Rational(5, 2) * log(1 / omega0) / log(2),
                    {omega0: (1e-12, 0.99)},
                    subject=_REPEATS,
                ),
            ),
            calculation=REPEATS,
        ),
    )


# ---------------------------------------------------------------- Section 4: decrease, number of steps, Theorem 1
_grad = _quantity("g", "a component of the gradient", "g", unit=LOSS / LENGTH, domain=Domain())
_noise = _quantity("nu", "the same component of the noise", "\\nu", unit=LOSS / LENGTH, domain=Domain())
_estimate = _quantity("g_t", "norm of a gradient, or of its estimate", "\\|\\hat{g}_t\\|", unit=LOSS / LENGTH)
_error = _quantity("nu_t", "norm of the error of the estimate", "\\|\\nu_t\\|", unit=LOSS / LENGTH)
_PRODUCT = _quantity("-g (g + nu)", "product of gradient and estimate", "-g\\hat{g}", unit=(LOSS / LENGTH) ** 2)
_GAIN = _quantity("gain", "decrease of the risk by an escape", "gain", unit=LOSS)
_AVERAGE = _quantity("F_esc/T_esc", "decrease a step", "\\mathcal{F}/\\mathcal{T}", unit=LOSS)
_SQUARED = _quantity("|move|^2", "squared distance", "\\|x_{t_0+\\tau}-x_{t_0}\\|^2", unit=LENGTH**2)
_TAIL = _quantity("||nu_t||", "bound of the noise of a step", "\\|\\nu_t\\|", unit=LOSS / LENGTH)
_TOTAL = _quantity("T_max", "number of all steps", "T")
_EFFECTIVE = _quantity("T_eff", "number of effective steps", "T_{effective}")


def _descent() -> tuple[Claim, ...]:
    tail = C * psi * sqrt(2 * log(2 / _fails))  # Definition 6, inverted
    each = {_fails: omega / (2 * T)}
    moved = radius**2 / (4 * eta * escape_steps)  # what (62) gives without noise
    definitions = {**_STEPS, **_RADIUS}
    halved = (moved / 2).xreplace(definitions).xreplace(_IOTA)
    noise_part = (2 * C * psi**2 * iota / (s * sqrt(rho * alpha))).xreplace(_IOTA)
    gap = {N: 8 * iota**3 * U / s * sqrt(rho / chi**3)}
    effective = U * s**2 * mu**4 / (2 * chi**2 * eta)
    repeats = Rational(5, 2) * log(2 * N / omega)
    outside = {_estimate: 2 * chi, _error: chi}
    return (
        PAPER.claim(
            "lemma3",
            "Product of gradient and estimate",
            "Lemma 3, (49) to (51)",
            Identity(
                _PRODUCT,
                _noise**2 / 2 - _grad**2 / 2 - (_grad + _noise) ** 2 / 2,
                -_grad * (_grad + _noise),
                example={_grad: 1, _noise: 2},
            ),
            "Component by component. The index of the estimate in (49) to (51) should be t, since "
            "x_t = x_{t-1} - eta g_t.",
        ),
        PAPER.claim(
            "cor2",
            "Noise in the descent lemma",
            "Corollary 2, eq. (7)",
            Rate(
                _GAIN,
                eta * (sigma**2 + r**2 * d) * (T + iota),
                {"data": eta * sigma**2 * (T + iota), "Gaussian": eta * (2 * sqrt(2) * r * sqrt(d)) ** 2 * (T + iota)},
            ),
            "Lemma 13 for the noise of the data, nSG(sigma), and for the Gaussian noise, nSG(2 sqrt(2) r sqrt(d)); "
            "psi^2 is written out as sigma^2 + r^2 d.",
        ),
        PAPER.claim(
            "eq58",
            "Sum of the noises of an escape",
            "eq. (58)",
            Inequality(
                T * psi,
                c * psi**2 * (T + iota),
                {T: (1, 1e6), psi: (1e-3, 1e3), c: (1, 10), iota: (1, 100)},
            ),
            "All noises at their level psi; c >= 1.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "The norms on the left have to be squared.",
                Inequality(
                    T * psi**2,
                    c * psi**2 * (T + iota),
                    {T: (1, 1e6), psi: (1e-3, 1e3), c: (1, 10), iota: (1, 100)},
                ),
            ),
        ),
        PAPER.claim(
            "eq60",
            "Distance of an escape",
            "eq. (60)",
            Identity(
                _SQUARED,
                4 * eta * T * U + 4 * c * eta**2 * T * psi**2 * (T + iota),
                2 * eta**2 * T * (2 / eta * U + c * psi**2 * (T + iota)) + 2 * eta**2 * T * (c * psi**2 * (T + iota)),
            ),
            "(57) with (58) and (59) put in; U stands for the decrease, T for the number of steps.",
        ),
        PAPER.claim(
            "lemma4",
            "Decrease by an escape",
            "Lemma 4, (4), (63) to (65)",
            Identity(
                _GAIN,
                s / (8 * iota**3) * sqrt(alpha**3 / rho),
                moved / 2,
                where=definitions,
                example={s: 1, iota: 10, alpha: 1, rho: 1},
            ),
            "Half of S^2/(4 eta T_esc), the first term of (63), with S and T_esc as defined.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "S^2/(4 eta T_esc) = (s/(4 iota^4)) sqrt(alpha^3/rho): the power of iota is 4, and F_esc has to be "
                "(s/(8 iota^4)) sqrt(alpha^3/rho).",
                Identity(_GAIN, s / (8 * iota**4) * sqrt(alpha**3 / rho), moved / 2, where=definitions),
            ),
        ),
        PAPER.claim(
            "eq64.noise",
            "s eta sqrt(rho alpha), which is to be below 1",
            "below (65)",
            Identity(
                s * eta * sqrt(rho * alpha),
                rho * alpha / (M**2 * s * mu**2),
                s * eta * sqrt(rho * alpha),
                where={**_STEP_SIZE, **_IOTA},
            ),
            "With it eta (T_esc + iota) <= 2 iota/(s sqrt(rho alpha)), the noise term of (64).",
        ),
        PAPER.claim(
            "eq64.threshold",
            "Error above which the decrease outweighs the noise",
            "below (65)",
            Crossover(halved, noise_part, alpha, 4 * sqrt(C) * s * mu**2 * psi, example={s: 1, mu: 100, C: 1, psi: 1}),
            "Half of the first term of (63) against the second term of (64).",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "With the power 4 of iota, alpha has to be at least 4 sqrt(C) s^(3/2) mu^(5/2) psi; the printed alpha "
                "of (4), four times 4 sqrt(C) s mu^2 psi, is enough only for iota <= 16.",
                Crossover(halved, noise_part, alpha, 4 * sqrt(C) * s ** Rational(3, 2) * mu ** Rational(5, 2) * psi),
            ),
        ),
        PAPER.claim(
            "lemma5.level",
            "Noise of a step",
            "Lemma 5, eq. (66)",
            Identity(_TAIL, sqrt(2) * C * psi * sqrt(log(4 * T / omega)), tail, each),
            "Definition 6 for nSG(C psi), inverted at the probability omega/(2T). That the sum of the two noises is "
            "nSG(C psi) follows from a union bound; Corollary 3, which is cited, would add sqrt(log d).",
        ),
        PAPER.claim(
            "lemma5.probability",
            "Probability of the bound of the noise",
            "Lemma 5",
            Identity(_PROBABILITY, omega / 2, 1 - T * _fails, each, example={omega: 0.1, T: 1}),
            "A union bound over T steps, each of failure probability omega/(2T).",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "The probability is at least 1 - omega/2, as the proof says.",
                Identity(_PROBABILITY, 1 - omega / 2, 1 - T * _fails, each),
            ),
        ),
        PAPER.claim(
            "lemma6.far",
            "Gradient outside of an escape",
            "proof of Lemma 6",
            Identity(_TAIL, 2 * chi, _estimate - _error, {_estimate: 3 * chi, _error: chi}),
            "The estimate is above 3 chi, its error at most chi.",
        ),
        PAPER.claim(
            "eq67",
            "Decrease a step during an escape",
            "eq. (67)",
            Identity(
                _AVERAGE,
                2 * chi**2 * eta / (s**2 * mu**4),
                decrease / escape_steps,
                where={**_DECREASE, **_STEPS, **_ERROR, **_IOTA},
            ),
            "F_esc over T_esc as defined in (4). (With the F_esc that Lemma 4 gives, mu^5 s^3 stands for mu^4 s^2.)",
        ),
        PAPER.claim(
            "eq68",
            "Decrease a step outside of an escape",
            "eq. (68)",
            Identity(
                _AVERAGE, 2 * chi**2 * eta, eta / 2 * (_estimate**2 - _error**2), outside, example={chi: 1, eta: 1}
            ),
            "Lemma 3 for one step, with a gradient of at least 2 chi and a noise of at most chi.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The noise term of Lemma 3 is forgotten: the decrease is (eta/2)(4 - 1) chi^2 = (3/2) chi^2 eta.",
                Identity(_AVERAGE, Rational(3, 2) * chi**2 * eta, eta / 2 * (_estimate**2 - _error**2), outside),
            ),
        ),
        PAPER.claim(
            "eq69",
            "Number of effective steps",
            "eq. (69)",
            Identity(
                _EFFECTIVE, effective, U / (decrease / escape_steps), where={**_DECREASE, **_STEPS, **_ERROR, **_IOTA}
            ),
            "The whole decrease U over the decrease a step during escapes.",
        ),
        PAPER.claim(
            "eq70",
            "Number of saddles",
            "eq. (70)",
            Identity(
                N,
                8 * iota**3 * U / s * sqrt(rho / chi**3),
                U / decrease,
                where={**_DECREASE, **_ERROR},
                example={U: 1, s: 1, iota: 1, rho: 1, chi: 1},
            ),
            "The whole decrease U over F_esc of (4), at alpha = 4 chi.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "chi^3 should be alpha^3 = 64 chi^3: the printed number is 8 times too large (harmless for an upper "
                "bound).",
                Identity(N, iota**3 * U / s * sqrt(rho / chi**3), U / decrease, where={**_DECREASE, **_ERROR}),
            ),
        ),
        PAPER.claim(
            "eq71",
            "Attempts at each saddle",
            "eq. (71)",
            Identity(
                Q,
                Rational(5, 2) * log(16 * iota**3 * U / (s * omega) * sqrt(rho / chi**3)),
                Rational(5, 2) * log(1 / omega0),
                where={omega0: omega / (2 * N), **gap},
            ),
            "Lemma 2 as printed with omega_0 = omega/(2 N), and N as printed in (70).",
        ),
        PAPER.claim(
            "eq72",
            "Number of all steps",
            "eq. (72)",
            Identity(
                _TOTAL,
                5 * U * s**2 * mu**4 / (4 * chi**2 * eta) * log(16 * iota**3 * U / (s * omega) * sqrt(rho / chi**3)),
                effective * repeats,
                where=gap,
            ),
            "T_effective of (69) times Q of (71).",
            calculation=PARAMETERS,
        ),
        PAPER.claim(
            "eq72.rate",
            "Number of all steps, in order",
            "eq. (72)",
            Rate(
                _TOTAL,
                U / (eta * chi**2),
                {"escapes": ell * U * s**2 * mu**4 / (chi**2 * eta), "descent": ell * U / (chi**2 * eta)},
                logs=(ell, mu),
                normalised=(s,),
            ),
            "The steps of the escapes and those of the descent, with the logarithm of (71) as ell and the constant s.",
        ),
        PAPER.claim(
            "lemma6",
            "Number of steps",
            "Lemma 6",
            Rate(
                _TOTAL,
                alpha ** Rational(-5, 2),
                {"escapes": N * Q * escape_steps, "descent": U / (chi**2 * eta)},
                tuned=(N, escape_steps, eta, chi),
                constraints={
                    "escapes needed": U / sqrt(alpha**3 / rho) / N,
                    "steps of an escape": 1 / (escape_steps * eta * sqrt(rho * alpha)),
                    "gradient noise": eta * M**2 * iota**2 / sqrt(rho * alpha),
                    "error": chi / alpha,
                },
                logs=(iota, Q),
                regime={"Q >= 1": 1 / Q},
                normalised=(M, rho, U),
            ),
            "U/F_esc saddles with Q attempts of T_esc steps, and U/(eta chi^2) steps of descent, with the largest step "
            "size of (4) and the largest chi, alpha/4.",
        ),
        PAPER.claim(
            "remark1",
            "Number of steps in the setting of prior work",
            "Remark 1",
            Rate(
                _TOTAL,
                alpha**-4,
                {"descent": U / (eta * alpha**2)},
                tuned=(eta,),
                constraints={"variance": eta * M * sigma**2 / alpha**2, "smoothness": eta * M},
                normalised=(M, U, sigma),
                regime={"alpha <= 1": alpha},
            ),
            "One example a step: the variance eta M sigma^2 of the step must not exceed alpha^2, and a decrease of "
            "eta alpha^2 a step leaves U/(eta alpha^2) steps.",
        ),
        PAPER.claim(
            "thm1",
            "Number of steps of Algorithm 1",
            "Theorem 1",
            Rate(
                _TOTAL,
                alpha ** Rational(-5, 2),
                {"all steps": T},
                tuned=(T, eta, chi, psi),
                constraints={
                    "whole decrease": ell * U / (T * eta * chi**2),
                    "gradient noise": ell * eta * M**2 / sqrt(rho * alpha),
                    "error": chi / alpha,
                    "noise below its level": psi / chi,
                },
                logs=(ell,),
                normalised=(M, rho, U),
            ),
            "U is spent at eta chi^2 a step, with eta = sqrt(rho alpha)/M^2 and alpha = 4 chi, up to logarithms.",
            calculation=PARAMETERS,
        ),
        PAPER.claim(
            "thm1.error",
            "Error of Algorithm 1",
            "Theorem 1, and the proof of Lemma 6",
            Identity(alpha, 4 * chi, _estimate + _error, {_estimate: 3 * chi, _error: chi}),
            "Where the estimate is at most 3 chi and its error at most chi, the gradient is at most 4 chi.",
            calculation=PARAMETERS,
        ),
        PAPER.claim(
            "alg1.return",
            "Gradient at the point that is returned",
            "Algorithm 1, last return; Theorem 1",
            Inequality(
                alpha + M * _way * radius,
                alpha,
                {alpha: (1e-3, 1), M: (0.1, 10), rho: (0.1, 10), iota: (1, 100), _way: (1e-3, 1)},
                where=_RADIUS,
                example={alpha: 0.01, M: 1, rho: 1, iota: 2, _way: 1},
                subject=_quantity(
                    "|grad F(x_{t-1})|", "gradient where it returns", "\\|\\nabla F(x_{t-1})\\|", unit=LOSS / LENGTH
                ),
            ),
            "The last iterate of the last attempt is returned, at a share w of the radius S from the point x~ that was "
            "tested; the gradient of an M-smooth risk may change by M w S on the way.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The point that was tested, x~, should be returned: M S = M iota^{-3/2} sqrt(alpha/rho) is below alpha "
                "only where M <= iota^{3/2} sqrt(rho alpha), and M may be far larger. (Each attempt also has to begin "
                "from x~: it is x_{t-1}, not x_t, that is to be set to it.)",
                Inequality(
                    3 * _way * chi + _other_way * chi,
                    alpha,
                    {chi: (1e-3, 1), _way: (1e-3, 1), _other_way: (1e-3, 1)},
                    where=_ERROR,
                    subject=_quantity(
                        "|grad F(x~)|", "gradient where it tests", "\\|\\nabla F(\\tilde x)\\|", unit=LOSS / LENGTH
                    ),
                ),
            ),
        ),
        PAPER.claim(
            "thm1.probability",
            "Failure probability of Algorithm 1",
            "Theorem 1, proofs of Lemmas 4 to 6",
            Identity(
                omega0,
                omega / (2 * N),
                (omega - omega / 2 - 2 * N * exp(-iota)) / N,
                example={omega: 0.1, N: 100, iota: 10},
            ),
            "What is left of omega for each of N saddles after Lemma 5 (omega/2), and Lemma 4 (failure 2 e^-iota) at "
            "each of them.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "omega is spent on Lemma 5 and the repeats; the failures of Lemma 4 are not covered. With "
                "(1/s) log(8 N/omega) as another entry of (5), omega_0 = omega/(4 N) is left.",
                Identity(
                    omega0,
                    omega / (4 * N),
                    (omega - omega / 2 - 2 * N * exp(-iota)) / N,
                    where={iota: log(8 * N / omega)},
                ),
            ),
        ),
    )


# ---------------------------------------------------------------- Section 5
_lips = _quantity("K", "number of steps since the last fresh gradient", "K")
_share = _quantity("kappa/K", "drift of one of K steps", "\\kappa/K", unit=LENGTH**2)
_SHARED_DRIFT = {_share: kappa / _lips}
_log_dim = _quantity("log d", "the logarithm of d", "\\log d", domain=FROM_ONE)
_log_delta = _quantity("log(1/delta)", "the logarithm of 1/delta", "\\log\\frac{1}{\\delta}", domain=FROM_ONE)
_DATA_NOISE = _quantity("sigma", "scale of the noise of the data", "\\sigma", unit=LOSS / LENGTH)
_VARIANCE = _quantity(
    "noise variance", "variance of the Gaussian noise", "\\mathrm{var}(\\xi)", unit=(LOSS / LENGTH) ** 2
)
_MOVE = _quantity("move", "length of the last step", "\\|x_{t-1}-x_{t-2}\\|", unit=LENGTH)
_USED = _quantity("n_used", "examples that are used", "n_{used}")
_INCREASE = _quantity("increase", "increase of the risk above -(eta/6)|g|^2", "increase", unit=LOSS)


def _rate_terms(clients: Any = 1, step: Any = None, logs: Any = 1) -> dict[str, Any]:
    """What the proofs of Theorems 2 and 3 ask for: every entry at most 1, up to constants.

    The error alpha of Theorem 1 is at least the noise level, of Lemma 7 (or 9); the fresh gradients of Lemma 8, and
    the steps of (72), share n examples; the step size is that of (4), unless another is given.
    """
    step = sqrt(rho * alpha) / (logs**2 * M**2) if step is None else step
    level = logs**6 / (clients * alpha**2)
    return {
        "fresh gradients: data": level * G**2 / b1,
        "fresh gradients: privacy": level * G**2 * d / (b1 * epsilon) ** 2,
        "differences: data": level * M**2 * kappa / b2,
        "differences: privacy": level * M**2 * kappa * d / (b2 * epsilon) ** 2,
        "examples for fresh gradients": logs**5 * b1 * U * eta / (kappa * n),
        "examples for differences": logs**5 * b2 * U / (eta * alpha**2 * n),
        "step size": eta / step,
    }


_TUNED = (alpha, eta, kappa, b1, b2)
_SINGLE = (n, n * epsilon)
_SHARED = (m * n, sqrt(m) * n * epsilon)


def _sampling(count: Any) -> Any:
    return (G * U * M / count) ** _third


def _private(scale: Any) -> Any:
    return (
        G ** Rational(2, 15)
        * U ** Rational(2, 5)
        * M ** Rational(8, 15)
        / rho ** Rational(1, 15)
        * (sqrt(d) / scale) ** Rational(2, 5)
    )


def _mixed(count: Any, scale: Any) -> Any:
    """What Theorems 2 and 3 lose: data noise of fresh gradients against privacy noise of differences."""
    return (G**2 * M**4 * U**3 * d / (sqrt(rho) * count * scale**2)) ** Rational(2, 17)


def _regime(count: Any, scale: Any) -> dict[str, Any]:
    """The errors are below (G^2 M^2/rho)^{1/3}, as any error is that is at most G and at most M^2/rho."""
    bound = (G**2 * M**2 / rho) ** _third
    return {"sampling error small": _sampling(count) / bound, "privacy error small": _private(scale) / bound}


def _thresholds(count: Any, scale: Any, power: Any) -> tuple[Any, Any]:
    """The two members of kappa as printed, with the given power of d."""
    return (
        G ** Rational(3, 2) * sqrt(U) * sqrt(rho) / (M ** Rational(5, 2) * sqrt(count)),
        G ** Rational(14, 15)
        * d**power
        * U ** Rational(4, 5)
        * rho ** Rational(8, 15)
        / (M ** Rational(34, 15) * scale ** Rational(4, 5)),
    )


def _in_kappa(count: Any, scale: Any) -> tuple[Any, Any, Any, Any]:
    """The four members of the display below (83), or (95): alpha where each term equals alpha^2."""
    return (
        (G**2 * U * sqrt(rho) / (M**2 * count * kappa)) ** Rational(2, 3),
        G**2 * d * U**2 * rho / (scale**2 * M**4 * kappa**2),
        (M**4 * U * kappa / (count * sqrt(rho))) ** Rational(2, 9),
        (M**6 * d * U**2 * kappa / (scale**2 * rho)) ** Rational(1, 7),
    )


def _bracket(count: Any, scale: Any) -> Any:
    """(82), or (94), under the root."""
    return (
        G**2 * U * eta / (count * kappa)
        + G**2 * d * U**2 * eta**2 / (scale**2 * kappa**2)
        + M**2 * U * kappa / (count * eta * chi**2)
        + M**2 * d * U**2 * kappa / (scale**2 * eta**2 * chi**4)
    )


def _bracket_in_alpha(count: Any, scale: Any) -> Any:
    """(83), or (95), under the root."""
    return (
        G**2 * U * sqrt(rho) * sqrt(alpha) / (M**2 * count * kappa)
        + G**2 * d * U**2 * rho * alpha / (scale**2 * M**4 * kappa**2)
        + M**4 * U * kappa / (count * sqrt(rho) * alpha ** Rational(5, 2))
        + M**6 * d * U**2 * kappa / (scale**2 * rho * alpha**5)
    )


def _noise_terms(clients: Any) -> dict[str, Any]:
    return {
        "fresh gradients: data": G / sqrt(clients * b1),
        "fresh gradients: privacy": G * sqrt(d) / (sqrt(clients) * b1 * epsilon),
        "differences: data": M * sqrt(kappa) / sqrt(clients * b2),
        "differences: privacy": M * sqrt(kappa * d) / (sqrt(clients) * b2 * epsilon),
    }


def _choice(count: Any, scale: Any, clients: Any, error: Any, threshold: Any) -> Choice:
    return Choice(
        {
            alpha: error,
            eta: sqrt(rho * alpha) / M**2,
            kappa: threshold,
            b1: n * kappa / (2 * U * eta),
            b2: n * eta * alpha**2 / (2 * U),
        },
        _noise_terms(clients),
        alpha,
        {
            "step size": eta * M**2 / sqrt(rho * alpha),
            "examples": (b1 * U * eta / kappa + b2 * U / (eta * alpha**2)) / n,
        },
        _regime(count, scale),
    )


def _balanced_threshold(count: Any, scale: Any) -> Any:
    """The least kappa at which fresh gradients are accurate enough."""
    return G**2 * U * eta / (count * alpha**2) + G * sqrt(d) * U * eta / (scale * alpha)


def _rates(
    place: str, appendix: str, count: Any, scale: Any, clients: Any, rate: Calculator, samples: Calculator
) -> tuple[Claim, ...]:
    """What Theorem 2 and its extension Theorem 3 say."""
    number = place[-1]
    reading = "" if clients == 1 else _READING
    printed = count**-_third + (sqrt(d) / scale) ** Rational(2, 5)
    full = _sampling(count) + _private(scale)
    plain = {"privacy error small": sqrt(d) / scale}
    normalised: dict[str, Any] = {
        "terms": {"alpha": alpha},
        "tuned": _TUNED,
        "regime": plain,
        "normalised": _ONES,
        "logs": (ell,),  # hidden by the O, and dropped in (82)
        "constraints": _rate_terms(clients),
    }
    explicit: dict[str, Any] = {**normalised, "regime": _regime(count, scale), "normalised": ()}
    members = _in_kappa(count, scale)
    sampling, privacy = _thresholds(count, scale, Rational(2, 5))
    lost = (
        "The proof balances the terms of like kind, data noise against data noise, and privacy noise against privacy "
        "noise, and takes the maximum of the two kappas. At this maximum the privacy noise of the differences, at the "
        "kappa of the data noise, is not covered. The best kappa leaves a third term, "
    )
    third = "(d/(n (n epsilon)^2))^(2/17)" if clients == 1 else "(d/(m n (sqrt(m) n epsilon)^2))^(2/17)"
    return (
        PAPER.claim(
            place,
            f"Rate of Theorem {number}",
            f"Theorem {number}",
            Rate(alpha, printed, **normalised),
            "The noise of the oracle (Lemma 7 or 9), the number of fresh gradients (Lemma 8), the number of steps (72) "
            "and the step size (4); alpha, eta, kappa, b_1 and b_2 are chosen as well as possible." + reading,
            erratum=PAPER.erratum(
                Severity.RATE,
                f"{lost}{third}, which is the largest where p = sqrt(d)/(n epsilon) is between n^(-11/12) and "
                "n^(-5/7) (for one client).",
                Rate(alpha, printed + (d / (count * scale**2)) ** Rational(2, 17), **normalised),
            ),
            calculation=rate,
        ),
        PAPER.claim(
            f"{place}.kappa.sampling",
            "First member of kappa",
            f"Theorem {number}",
            Crossover(members[0], members[2], kappa, sampling),
            "Data noise of fresh gradients and of differences, in the display that solves for alpha.",
        ),
        PAPER.claim(
            f"{place}.kappa.privacy",
            "Second member of kappa",
            f"Theorem {number}",
            Crossover(members[1], members[3], kappa, privacy),
            "Privacy noise of fresh gradients and of differences, in the display that solves for alpha." + reading,
        ),
        PAPER.claim(
            f"{place}.constants",
            f"Rate of Theorem {number} with its constants",
            f"{appendix}, last display",
            Rate(alpha, full, **explicit),
            f"As Theorem {number}, with G, M, rho and U; alpha below (G^2 M^2/rho)^(1/3), as it is whenever it is at "
            "most G and M >= sqrt(rho alpha)." + reading,
            erratum=PAPER.erratum(
                Severity.RATE,
                f"The term (G^2 M^4 U^3/sqrt(rho))^(2/17) {third} is lost.",
                Rate(alpha, full + _mixed(count, scale), **explicit),
            ),
            calculation=samples,
        ),
        PAPER.claim(
            f"{place}.parameters",
            f"Parameters of Theorem {number}",
            f"Theorem {number}",
            _choice(count, scale, clients, full, Max(sampling, privacy)),
            "b_1, b_2 and kappa as printed, with chi for alpha up to constants." + reading,
            erratum=PAPER.erratum(
                Severity.RATE,
                "The printed kappa does not reach the stated rate. kappa = G^2 U eta/(n alpha^2) + G sqrt(d) U "
                "eta/(n epsilon alpha), in terms of the error alpha and eta = sqrt(rho alpha)/M^2, reaches the "
                "corrected one, which no kappa improves.",
                _choice(count, scale, clients, full + _mixed(count, scale), _balanced_threshold(count, scale)),
            ),
            calculation=rate,
        ),
    )


_since = _quantity("k", "number of differences since the last fresh gradient", "k", domain=COUNT)
_term = _quantity("i", "one of the differences", "i", domain=COUNT)


def _correlation(value: Any) -> Identity:
    now, then = (sigma**2 + sympy.Sum(r**2, (_term, 1, last)) for last in (_since, _since + 1))
    name = _quantity("corr", "correlation of the noise after k and after k + 1 differences", "\\mathrm{corr}")
    example = {sigma: 1, r: 1}
    return Identity(name, value, now / sqrt(now * then), instances=({_since: 1}, {_since: 5}), example=example)


def _spider() -> tuple[Claim, ...]:
    drift = _lips * (M**2 * _share * log(d) / b2)  # K steps that share the drift kappa
    spread = _lips * (M**2 * _share * log(1 / delta) / (b2 * epsilon) ** 2)
    all_steps = Rational(5, 4) * U * s**2 * mu**4 * ell / (chi**2 * eta)
    counted = 6 * eta / kappa * (U + 5 * all_steps * eta * chi**2)
    batches = {b1: n * kappa / (2 * U * eta), b2: n * eta * chi**2 / (2 * U)}
    used = sympy.expand((b1 * counted + b2 * all_steps).xreplace(batches))
    level = {
        "fresh gradients: data": G**2 / b1,
        "fresh gradients: privacy": G**2 * d / (b1**2 * epsilon**2),
        "differences: data": M**2 * kappa / b2,
        "differences: privacy": M**2 * d * kappa / (b2**2 * epsilon**2),
    }
    return (
        PAPER.claim(
            "alg2.fresh",
            "Noise of a fresh gradient",
            "Algorithm 2, line 5",
            Rate(
                _VARIANCE,
                G**2 * _log_delta / (b1**2 * epsilon**2),
                {"Gaussian mechanism": (2 * G / b1 * sqrt(2 * _log_delta) / epsilon) ** 2},
            ),
            "Definition 7 with the sensitivity 2G/b_1 of a mean of b_1 gradients, one of which is replaced.",
        ),
        PAPER.claim(
            "alg2.differences",
            "Noise of a gradient difference",
            "Algorithm 2, line 10",
            Rate(
                _VARIANCE,
                M**2 * _log_delta * _MOVE**2 / (b2**2 * epsilon**2),
                {"Gaussian mechanism": (2 * M * _MOVE / b2 * sqrt(2 * _log_delta) / epsilon) ** 2},
            ),
            "Definition 7 with the sensitivity 2 M |x_{t-1} - x_{t-2}|/b_2.",
        ),
        PAPER.claim(
            "lemma7.sigma",
            "Data noise of the oracle",
            "Lemma 7, eq. (8)",
            Identity(
                sigma,
                sqrt(G**2 * log(d) ** 2 / b1 + M**2 * log(d) ** 2 * kappa / b2),
                sqrt(log(d) * (G**2 * log(d) / b1 + drift)),
                _SHARED_DRIFT,
                example={G: 1, M: 1, b1: 100, b2: 10, d: 10, kappa: 1},
            ),
            "Corollary 3 for a fresh gradient and the K differences since, which share the drift kappa; its constant "
            "put to 1.",
        ),
        PAPER.claim(
            "lemma7.r",
            "Gaussian noise of the oracle",
            "Lemma 7, eq. (8)",
            Identity(
                r,
                sqrt(
                    G**2 * log(1 / delta) / (b1**2 * epsilon**2) + M**2 * log(1 / delta) * kappa / (b2**2 * epsilon**2)
                ),
                sqrt(G**2 * log(1 / delta) / (b1 * epsilon) ** 2 + spread),
                _SHARED_DRIFT,
            ),
            "Variances of Algorithm 2 add up over the K differences since the last fresh gradient; c_1 = c_2 = 1. An "
            "upper bound: (30) and (5) need one from below, which only the fresh gradient's noise gives.",
        ),
        PAPER.claim(
            "lemma8.large",
            "Decrease of a step with a large gradient",
            "Appendix E.2",
            Inequality(
                eta * (_ratio * _estimate / 3) * _estimate - eta / 2 * _estimate**2,
                -eta / 6 * _estimate**2,
                {eta: (1e-3, 1e3), _estimate: (1e-3, 1e3), _ratio: (1e-3, 1)},
                subject=_INCREASE,
            ),
            "eta |error| |g| - (eta/2)|g|^2, with an error of at most a third of |g|.",
        ),
        PAPER.claim(
            "lemma8.small",
            "Increase of a step with a small gradient",
            "Appendix E.2",
            Inequality(
                eta * chi * _estimate - eta / 2 * _estimate**2 + eta / 6 * _estimate**2,
                5 * eta * chi**2,
                {eta: (1e-3, 1e3), chi: (1e-3, 1e3), _estimate: (1e-3, 1e3)},
                subject=_INCREASE,
            ),
            "eta |error| |g| - (eta/2)|g|^2 against -(eta/6)|g|^2, as the sum over steps needs it; 3/4 would be "
            "enough for 5.",
        ),
        PAPER.claim(
            "lemma8",
            "Number of fresh gradients",
            "Lemma 8",
            Rate(
                fresh,
                U * eta / kappa,
                {
                    "whole decrease": U * eta / kappa,
                    "small gradients": ell * U / (eta * chi**2) * eta**2 * chi**2 / kappa,
                },
                logs=(ell,),
            ),
            "R kappa/(6 eta) - 5 T eta chi^2 <= U, with T of (72). The lemma says O, but T carries logarithms: O~.",
        ),
        PAPER.claim(
            "eq82",
            "Noise level at the printed batches",
            "eq. (82)",
            Rate(alpha**2, _bracket(*_SINGLE), {k: v.xreplace(batches) for k, v in level.items()}),
            "The noise level of Lemma 7 with b_1 and b_2 put in.",
        ),
        PAPER.claim(
            "eq83",
            "Noise level in terms of alpha",
            "eq. (83)",
            Identity(
                alpha**2,
                _bracket_in_alpha(*_SINGLE),
                _bracket(*_SINGLE),
                where={chi: alpha, eta: sqrt(rho * alpha) / M**2},
            ),
            "(82) with eta = sqrt(rho alpha)/M^2 and chi = alpha.",
        ),
        PAPER.claim(
            "appE.3.alpha",
            "Noise level, solved for alpha",
            "Appendix E.3, below (83)",
            Rate(
                alpha,
                sympy.Add(*_in_kappa(*_SINGLE)),
                {"alpha": alpha},
                (alpha,),
                {
                    f"term {k}": term / alpha**2
                    for k, term in enumerate(sympy.Add.make_args(_bracket_in_alpha(*_SINGLE)))
                },
            ),
            "alpha^2 is at least each of the four terms of (83).",
        ),
        *_rates("thm2", "Appendix E.3", *_SINGLE, Integer(1), RATE, SAMPLES),
        PAPER.claim(
            "appE.3.kappa",
            "Second member of kappa, in the proof",
            "Appendix E.3",
            Crossover(
                _in_kappa(*_SINGLE)[1],
                _in_kappa(*_SINGLE)[3],
                kappa,
                _thresholds(*_SINGLE, Rational(2, 3))[1],
                example={G: 1, M: 1, rho: 1, U: 1, epsilon: 1, n: 1, d: 10**15},
            ),
            "As in Theorem 2, where the power of d is 2/5.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "The power of d should be 2/5, as in the theorem.",
                Crossover(
                    _in_kappa(*_SINGLE)[1], _in_kappa(*_SINGLE)[3], kappa, _thresholds(*_SINGLE, Rational(2, 5))[1]
                ),
            ),
        ),
        PAPER.claim(
            "thm2.noise",
            "Correlation of the noise of two steps",
            "eq. (3) and Condition 1, as Theorem 2 uses them",
            _correlation(Integer(0)),
            "Algorithm 2 adds to the noise of the last fresh gradient, of variance sigma^2, that of each difference, "
            "of variance r^2 here: steps k and k + 1 after it share all but the last.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "Lemmas 1, 3, 13, 18 and 19 take the noise of each step to be fresh, with mean 0 given the past; that "
                "of Algorithm 2 is a sum, nearly the same from step to step. Lemma 4 survives, by Cauchy-Schwarz; "
                "for Lemmas 1 and 18 a version for sums of martingale differences is missing.",
                _correlation(sqrt((sigma**2 + _since * r**2) / (sigma**2 + (_since + 1) * r**2))),
            ),
        ),
        PAPER.claim(
            "thm2.budget",
            "Examples that are used",
            "Appendix E.3, first lines",
            Inequality(
                used,
                n,
                {n: (1, 1e9), s: (1, 100), mu: (1, 100), ell: (1, 100)},
                subject=_USED,
                example={n: 10**6, s: 10, mu: 3, ell: 20},
            ),
            "b_1 R + b_2 T with T of (72), where ell stands for its logarithm, and R = (6 eta/kappa)(U + 5 T eta "
            "chi^2) of Lemma 8's proof; the paper counts O(n), and says that no example is used twice.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The count is ((75/4 + 5/8) s^2 mu^4 ell + 3) n, more than there are. Batches n/(2 R_max) and "
                "n/(2 T_max), with a guard that stops when the examples run out, use n; examples used twice would "
                "break privacy.",
                Identity(_USED, n, (b1 * fresh + b2 * T), where={b1: n / (2 * fresh), b2: n / (2 * T)}),
            ),
        ),
    )


# ---------------------------------------------------------------- Section 6
_dev = _quantity("log(d/omega')", "the logarithm of d/omega'", "\\log\\frac{d}{\\omega'}", domain=FROM_ONE)
_log_8d = _quantity("l", "log(8d/omega')", "\\log\\frac{8d}{\\omega'}")
_DEVIATION = _quantity("deviation", "error of a gradient of all data", "deviation", unit=LOSS / LENGTH)
_FLUCTUATION = _quantity("fluctuation", "error of a Hessian of all data", "fluctuation", unit=LOSS / LENGTH**2)
_count = _quantity("k", "number of examples m n", "k")
_NEEDED = _quantity("l", "exponent of Lemma 14", "l")
_square = _quantity("square", "one of the squares of (10)", "square")
_CROSS = _quantity("cross term", "of the square of the curvature error", "cross")
_ERROR_OUT = _quantity("alpha_out", "error of the selected point", "\\alpha'", unit=LOSS / LENGTH)
_HESSIAN_VARIANCE = _quantity(
    "entry variance", "variance of an entry of H", "\\mathrm{var}(H)", unit=(LOSS / LENGTH**2) ** 2
)


def _distributed() -> tuple[Claim, ...]:
    drift = _lips * (M**2 * _share * log(d) / b2) / m
    spread = _lips * (M**2 * _share * log(1 / delta) / (b2 * epsilon) ** 2) / m
    level = {
        "fresh gradients: data": G**2 / (m * b1),
        "fresh gradients: privacy": G**2 * d / (m * b1**2 * epsilon**2),
        "differences: data": M**2 * kappa / (m * b2),
        "differences: privacy": M**2 * d * kappa / (m * b2**2 * epsilon**2),
    }
    batches = {b1: n * kappa / (2 * U * eta), b2: n * eta * chi**2 / (2 * U)}

    def of_kind(kind: str) -> dict[str, Any]:
        """Noise of one kind alone, with what does not depend on the kind."""
        other = {"data": ": privacy", "privacy": ": data"}[kind]
        conditions = {name: term for name, term in _rate_terms(m).items() if not name.endswith(other)}
        regime = _regime(*_SHARED)
        return {"terms": {"alpha": alpha}, "tuned": _TUNED, "constraints": conditions, "regime": regime}

    return (
        PAPER.claim(
            "lemma9.sigma",
            "Data noise of the distributed oracle",
            "Lemma 9, eq. (9)",
            Identity(
                sigma,
                sqrt(G**2 * log(d) ** 2 / (m * b1) + M**2 * log(d) ** 2 * kappa / (m * b2)),
                sqrt(log(d) * (m * (G / m) ** 2 * log(d) / b1 + drift)),
                _SHARED_DRIFT,
            ),
            "A mean over m independent clients, each as in Lemma 7.",
        ),
        PAPER.claim(
            "lemma9.r",
            "Gaussian noise of the distributed oracle",
            "Lemma 9, eq. (9)",
            Identity(
                r,
                sqrt(
                    G**2 * log(1 / delta) / (m * b1**2 * epsilon**2)
                    + M**2 * log(1 / delta) * kappa / (m * b2**2 * epsilon**2)
                ),
                sqrt(m * (G / (m * b1 * epsilon)) ** 2 * log(1 / delta) + spread),
                _SHARED_DRIFT,
            ),
            "A mean over m clients with independent noise.",
        ),
        PAPER.claim(
            "eq94",
            "Noise level of the distributed oracle at the printed batches",
            "eq. (94)",
            Rate(alpha**2, _bracket(*_SHARED), {k: v.xreplace(batches) for k, v in level.items()}),
            "The noise level of Lemma 9 with b_1 and b_2 put in.",
        ),
        PAPER.claim(
            "eq95",
            "Noise level of the distributed oracle in terms of alpha",
            "eq. (95)",
            Identity(
                alpha**2,
                _bracket_in_alpha(*_SHARED),
                _bracket(*_SHARED),
                where={chi: alpha, eta: sqrt(rho * alpha) / M**2},
            ),
            "(94) with eta = sqrt(rho alpha)/M^2 and chi = alpha.",
        ),
        *_rates("thm3", "Appendix F.2", *_SHARED, m, SHARED_RATE, SHARED_SAMPLES),
        PAPER.claim(
            "remark2.sampling",
            "What m clients are worth without privacy",
            "Remark 2, first term",
            Rate(alpha, _sampling(m * n), **of_kind("data")),
            "The terms of Theorem 3's proof without those of privacy, from Lemma 9: n examples of each client, noise "
            "averaged over m clients. The balance has m n where one client has n.",
        ),
        PAPER.claim(
            "remark2.privacy",
            "What m clients are worth under privacy",
            "Remark 2, second term",
            Rate(alpha, _private(sqrt(m) * n * epsilon), **of_kind("privacy")),
            "The terms of Theorem 3's proof without those of the data. The balance has sqrt(m) n where one client has "
            "n.",
        ),
    )


def _selection() -> tuple[Claim, ...]:
    noise = {sigma1: G * sqrt(c1 * T * log(1 / delta)) / (n * epsilon)}
    curvature_noise = {sigma2: M * sqrt(c2 * d * T * log(1 / delta)) / (n * epsilon)}
    allowed = G * sqrt(d * T * log(1 / delta) * log(16 / omega_s)) / (sqrt(m) * n * epsilon)
    allowed_curvature = M * d * sqrt(T * log(1 / delta) * log(32 / omega_s)) / (sqrt(m) * n * epsilon)
    # nSG(2 sqrt(2) sigma_1 sqrt(d/m)) by Lemma 10, inverted at the probability omega'/8
    tail_of_p, eighth = 2 * sqrt(2) * sigma1 * sqrt(d / m) * sqrt(2 * log(2 / _fails)), {_fails: omega_s / 8}
    tail = tail_of_p.xreplace(eighth)
    # The norm is sqrt(2)-Lipschitz in the independent entries, and its mean is at most 2 sqrt(d).
    curvature_tail = sigma2 / sqrt(m) * (2 * sqrt(d) + sqrt(2) * sqrt(2 * log(2 / (omega_s / 8))))
    search = {c1: (8, 20), c2: (8, 20), omega_s: (1e-4, 0.5), d: (1, 1e4), m: (1, 100), n: (10, 1e6)}
    search |= {T: (1, 1e6), epsilon: (0.1, 10), delta: (1e-9, 0.1), G: (0.1, 10), M: (0.1, 10)}
    at = {c1: 9.67, c2: 9.67, omega_s: 0.05, d: 60, m: 1, n: 1000, T: 50, epsilon: 1, delta: 1e-5, G: 1, M: 1}
    steps = {T: M**2 * U / (sqrt(rho) * alpha ** Rational(5, 2))}
    scale, count = sqrt(m) * n * epsilon, m * n
    gradient = alpha + G / sqrt(count) + G * sqrt(d * T) / scale
    curvature = (sqrt(rho * alpha) + M / sqrt(count) + M * d * sqrt(T) / scale) ** 2 / rho
    learned = (sqrt(d) / data) ** Rational(2, 5)
    return (
        PAPER.claim(
            "alg4.gradient",
            "Noise of a gradient in Algorithm 4",
            "Algorithm 4, line 3",
            Rate(
                _VARIANCE,
                G**2 * T * _log_delta / (n**2 * epsilon**2),
                {"Gaussian mechanism, T times": T * (2 * G / n * sqrt(2 * _log_delta) / epsilon) ** 2},
            ),
            "A mean of n gradients has sensitivity 2G/n; T releases cost sqrt(T).",
        ),
        PAPER.claim(
            "alg4.hessian",
            "Noise of a Hessian in Algorithm 4",
            "Algorithm 4, line 4",
            Rate(
                _HESSIAN_VARIANCE,
                M**2 * d * T * _log_delta / (n**2 * epsilon**2),
                {"Gaussian mechanism, T times": T * (2 * M * sqrt(d) / n * sqrt(2 * _log_delta) / epsilon) ** 2},
            ),
            "The difference of two Hessians has spectral norm 2M/n, so Frobenius norm at most 2M sqrt(d)/n.",
        ),
        PAPER.claim(
            "alg4.gradient_threshold",
            "Threshold of the gradient against its noise",
            "Algorithm 4, line 7, and Theorem 4, first part",
            Inequality(sigma1 * sqrt(d / m), allowed, search, where=noise, example=at),
            "The root mean square of the noise, against what the threshold allows for it; c_1 at least 8, as "
            "Definition 7 asks for." + _READING,
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The noise carries c_1, the threshold does not: a critical point is rejected unless "
                "log(16/omega') >= c_1. Lemma 10 asks for the factor 4 sqrt(c_1) in the threshold.",
                Inequality(tail, 4 * sqrt(c1) * allowed, search, where=noise),
            ),
        ),
        PAPER.claim(
            "alg4.hessian_threshold",
            "Threshold of the Hessian against its noise",
            "Algorithm 4, line 7, and Theorem 4, first part",
            Inequality(2 * sigma2 * sqrt(d / m), allowed_curvature, search, where=curvature_noise, example=at),
            "The edge 2 sqrt(d) of the spectrum of a symmetric matrix with independent standard Gaussian entries."
            + _READING,
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The noise carries c_2, the threshold does not: even a zero Hessian is rejected, unless "
                "log(32/omega') >= 4 c_2. 2 sigma_2 (sqrt(d) + sqrt(log(16/omega')))/sqrt(m) is exceeded with "
                "probability omega'/8 at most.",
                Inequality(
                    curvature_tail,
                    2
                    * M
                    * sqrt(c2 * d * T * log(1 / delta))
                    * (sqrt(d) + sqrt(log(16 / omega_s)))
                    / (sqrt(m) * n * epsilon),
                    search,
                    where=curvature_noise,
                ),
            ),
        ),
        PAPER.claim(
            "eq96",
            "Error of a gradient of all data",
            "eq. (96)",
            Rate(
                _DEVIATION,
                G * sqrt(_dev) / (sqrt(m * n) * epsilon),
                {"Lemma 11": sqrt(m * (2 * G / (m * sqrt(n))) ** 2 * _dev)},
            ),
            "m independent deviations of scale 2G/sqrt(n), averaged. (Read as it stands; with sqrt(m) n epsilon, as "
            "elsewhere, it would not follow either.)",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "There is no epsilon in an error of sampling; (104) and Algorithm 4 have none.",
                Rate(
                    _DEVIATION,
                    G * sqrt(_dev) / sqrt(m * n),
                    {"Lemma 11": sqrt(m * (2 * G / (m * sqrt(n))) ** 2 * _dev)},
                ),
            ),
        ),
        PAPER.claim(
            "eq97",
            "Norm of the noise of a gradient",
            "eq. (97), first bound",
            Identity(
                _DEVIATION,
                sqrt(2 * sigma1**2 * log(16 / omega_s) / m),
                tail_of_p,
                eighth,
                example={sigma1: 1, m: 1, d: 100, omega_s: 0.1},
            ),
            "Lemma 10 and Definition 6 at the probability omega'/8.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "sqrt(d) is missing (the next member has it), and Lemma 10 gives another factor 2 sqrt(2). What the "
                "bound is for is theta_p, not xi_p.",
                Identity(_DEVIATION, 4 * sigma1 * sqrt(d * log(16 / omega_s) / m), tail_of_p, eighth),
            ),
        ),
        PAPER.claim(
            "thm4.condition",
            "Examples that the Hessian's deviation needs",
            "Theorem 4, and above (98)",
            Crossover(
                4 * M**2 * _count,  # t^2/(2 l) - sigma^2, with t^2 = 16 M^2 k l and sigma^2 = 4 M^2 k
                2 * M * (4 * M * sqrt(_count * _log_8d)) / 3,
                _count,
                Rational(4, 9) * _log_8d,
            ),
            "Lemma 14 with the printed t, sigma^2 and B = 2M has the exponent l = log(8d/omega') or more exactly when "
            "t^2/(2 l) - sigma^2 >= B t/3; k stands for m n.",
        ),
        PAPER.claim(
            "eq98",
            "Logarithm that the deviation of a Hessian needs",
            "eq. (98) and (99)",
            Identity(_NEEDED, log(8 * d / omega_s), -log(omega_s / 8 / (2 * d)), example={d: 10, omega_s: 0.1}),
            "2d e^-l is to be omega'/8, where l is the exponent of Lemma 14 at m n = (4/9) l, and 2d the factor that "
            "a norm needs.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The norm needs 2d: with the printed t the probability is omega'/4. log(16d/omega') for "
                "log(8d/omega'), in t and in the condition, repairs it.",
                Identity(_NEEDED, log(16 * d / omega_s), -log(omega_s / 8 / (2 * d))),
            ),
        ),
        PAPER.claim(
            "eq100",
            "Probability that the noise of the Hessian is large",
            "eq. (100)",
            Identity(_PROBABILITY, omega_s / 8, 4 * exp(-(_NEEDED**2)), {_NEEDED: sqrt(log(32 / omega_s))}),
            "Lemma 15 at t = sqrt(log(32/omega')).",
        ),
        PAPER.claim(
            "thm4",
            "Error of the selected point",
            "Theorem 4, eq. (10)",
            Rate(
                _ERROR_OUT,
                alpha
                + 1 / count
                + 1 / sqrt(count)
                + alpha / sqrt(count)
                + sqrt(d) / (scale * alpha ** Rational(5, 4))
                + d / (scale * alpha ** Rational(3, 4))
                + d**2 / (m * n**2 * epsilon**2 * alpha ** Rational(5, 2)),
                {"gradient": gradient.xreplace(steps), "curvature": curvature.xreplace(steps)},
                regime={"alpha <= 1": alpha},
                normalised=_ONES,
            ),
            "The gradient bound (120), and the square of the curvature bound (121) over rho, at T = M^2 U/(sqrt(rho) "
            "alpha^(5/2)). Cross terms of the square are at most the larger of their two squares." + _READING,
            calculation=SELECTION,
        ),
        PAPER.claim(
            "thm4.cross.sampling",
            "Cross term of alpha and the deviation of the Hessian",
            "eq. (10), fourth term",
            Identity(
                _CROSS, a / sqrt(m * n), sqrt(a * _square), {_square: 1 / (m * n)}, example={a: 0.01, m: 1, n: 10**4}
            ),
            "A cross term is the geometric mean of two squares, here of alpha and 1/(m n).",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "sqrt(alpha)/sqrt(m n); up to constants nothing changes, since a cross term is at most the larger of "
                "its two squares. The cross term d/(sqrt(m) n epsilon alpha^(5/4) sqrt(m n)) is missing for the same "
                "reason.",
                Identity(_CROSS, sqrt(a) / sqrt(m * n), sqrt(a * _square), {_square: 1 / (m * n)}),
            ),
        ),
        PAPER.claim(
            "thm4.cross.privacy",
            "Cross term of alpha and the noise of the Hessian",
            "eq. (10), sixth term",
            Identity(
                _CROSS,
                d / (data * a ** Rational(3, 4)),
                sqrt(a * _square),
                {_square: d**2 / (data**2 * a ** Rational(5, 2))},
            ),
            "The geometric mean of alpha and the last term of (10)." + _READING,
        ),
        PAPER.claim(
            "remark3.gradient",
            "Dimension up to which noisy gradients can be selected from",
            "Remark 3, first condition",
            Crossover(sqrt(d) / (data * learned ** Rational(5, 4)), learned, d, data**2),
            "The fifth term of (10) against alpha = (sqrt(d)/(sqrt(m) n epsilon))^(2/5)." + _READING,
        ),
        PAPER.claim(
            "remark3.cross",
            "Dimension up to which noisy Hessians can be selected from, by the cross term",
            "Remark 3, second condition",
            Crossover(d / (data * learned ** Rational(3, 4)), learned, d, data ** Rational(6, 13)),
            "The sixth term of (10) against alpha = (sqrt(d)/(sqrt(m) n epsilon))^(2/5)." + _READING,
        ),
        PAPER.claim(
            "remark3.hessian",
            "Dimension up to which noisy Hessians can be selected from",
            "Remark 3, third condition",
            Crossover(d**2 / (data**2 * learned ** Rational(5, 2)), learned, d, data ** Rational(6, 13)),
            "The last term of (10) against alpha = (sqrt(d)/(sqrt(m) n epsilon))^(2/5).",
        ),
        PAPER.claim(
            "remark3",
            "Dimension up to which selection costs nothing",
            "Remark 3",
            Choice(
                {
                    _dimension: scale ** Rational(6, 13),
                    a: count**-_third + (sqrt(_dimension) / scale) ** Rational(2, 5),
                },
                {
                    "gradient": sqrt(_dimension) / (scale * a ** Rational(5, 4)),
                    "cross": _dimension / (scale * a ** Rational(3, 4)),
                    "Hessian": _dimension**2 / (scale**2 * a ** Rational(5, 2)),
                },
                a,
                regime={"m n^2 epsilon^2 >= 1": scale**-2},
            ),
            "At the printed dimension every term of (10) is at most alpha, now with its sampling part: the condition "
            "is sufficient. It is necessary only where the privacy part of alpha is the larger one." + _READING,
            calculation=SELECTION,
        ),
    )


_dimension = S.symbol("d", "dimension, as a real number")


# ---------------------------------------------------------------- Appendix C
_signs = _quantity("k", "number of matrices", "k", domain=COUNT)
_multiplier = _quantity("z", "sensitivity over noise, Delta_2/sigma_G", "z")
_order = _quantity("t", "order of the Renyi divergence, less 1", "t")
_LEAST_EPSILON = _quantity("epsilon_min", "least privacy loss", "\\epsilon_{\\min}")
_ENOUGH = _quantity("epsilon_enough", "privacy loss that is not exceeded", "\\epsilon_{enough}")
_LOG_RATIO = _quantity("log ratio", "log(2d/omega)/log(2/omega)", "\\frac{\\log(2d/\\omega)}{\\log(2/\\omega)}")
_SUM_SCALE = _quantity("zeta_+", "scale of a sum", "\\zeta_+", unit=LOSS / LENGTH)
_squares = _quantity("sum of squares", "sum of the squared scales", "\\sum_i\\psi_i^2", unit=(LOSS / LENGTH) ** 2)
_SURE = _quantity("Pr", "probability that the sum of k signs is at least 1 in size", "\\Pr")


def _least_epsilon(z: Any) -> Any:
    """A privacy loss that the Gaussian mechanism exceeds, at failure probability delta.

    Its exact delta at epsilon is at least 1 - exp(-v^2/2) with v = z/2 - epsilon/z > 0.
    """
    return z**2 / 2 - z * sqrt(2 * log(1 / (1 - delta)))


def _tools() -> tuple[Claim, ...]:
    pairs = [2 * k - 9 for k in range(10)]  # sums of nine signs
    sure = sympy.Add(*(sympy.binomial(9, (9 + v) // 2) for v in pairs if abs(v) >= 1)) / Integer(2) ** 9
    exponent = 1 / (2 * (_signs + Rational(1, 3)))  # t = B = 1, sigma^2 = k
    noisy = {_multiplier: 2 * epsilon / sqrt(c1 * log(1 / delta))}
    cited = [
        ("lemma10", "Sub-Gaussian vectors are norm-sub-Gaussian", "Lemma 10", "SG(r) implies nSG(2 sqrt(2) r sqrt(d))"),
        ("lemma11", "Hoeffding inequality for norms", "Lemma 11", "sums of nSG vectors with fixed scales"),
        ("lemma12", "The same with random scales", "Lemma 12", "sums of nSG vectors with random scales"),
        ("lemma13", "Sums of squares", "Lemma 13", "sum of |v_i|^2 at most C zeta^2 (p + iota)"),
        ("lemma15", "Norm of a symmetric random matrix", "Lemma 15", "norm at most C K (sqrt(d) + t)"),
        ("lemma16", "Parallel composition", "Lemma 16", "mechanisms on disjoint data"),
    ]
    return (
        *(
            PAPER.claim(i, t, w, Uncheckable(text, Reason.CITED), "Cited from the literature.")
            for i, t, w, text in cited
        ),
        PAPER.claim(
            "cor3",
            "Logarithm in the scale of a sum",
            "proof of Corollary 3",
            Inequality(
                log(2 * d / omega) / log(2 / omega),
                2 * log(d),
                {d: (1, 1e4), omega: (1e-9, 0.999)},
                subject=_LOG_RATIO,
                example={d: 2, omega: 0.5},
            ),
            "What the proof needs for all omega in (0, 1).",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "With natural logarithms it fails for d <= 6 (with those to the base 2 for d = 1, where the printed "
                "scale is 0). 1 + log(d)/log(2) is the least that holds for all omega.",
                Inequality(
                    log(2 * d / omega) / log(2 / omega),
                    1 + log(d) / log(2),
                    {d: (1, 1e4), omega: (1e-9, 1 - 1e-9)},
                    subject=_LOG_RATIO,
                ),
            ),
        ),
        PAPER.claim(
            "cor3.scale",
            "Scale of a sum, in the proof",
            "proof of Corollary 3",
            Identity(_SUM_SCALE, sqrt(C * log(d) * T * psi), C * sqrt(log(d) * _squares), {_squares: T * psi**2}),
            "The corollary's own scale, for T equal scales psi.",
            erratum=PAPER.erratum(
                Severity.TYPOGRAPHICAL,
                "The scales under the root have to be squared, and C is C^2.",
                Identity(
                    _SUM_SCALE, sqrt(C**2 * log(d) * T * psi**2), C * sqrt(log(d) * _squares), {_squares: T * psi**2}
                ),
            ),
        ),
        PAPER.claim(
            "lemma14",
            "Matrix Bernstein inequality for a norm",
            "Lemma 14",
            Inequality(sure, exp(-exponent), {_signs: (9, 9)}, subject=_SURE, example={_signs: 9}),
            "d = 1: nine random signs, B = 1, sigma^2 = k = 9, t = 1; their sum is odd, so at least 1 in size.",
            erratum=PAPER.erratum(
                Severity.CONSTANT,
                "The cited theorem bounds the largest eigenvalue; the norm needs the factor 2d.",
                Inequality(sure, 2 * exp(-exponent), {_signs: (9, 9)}, subject=_SURE),
            ),
        ),
        PAPER.claim(
            "def7",
            "Privacy loss of the Gaussian mechanism for any noise",
            "Definition 7, first sentence",
            Inequality(
                _least_epsilon(_multiplier),
                _multiplier * sqrt(2 * log(Rational(5, 4) / delta)),
                {_multiplier: (0.01, 100), delta: (1e-9, 0.5)},
                subject=_LEAST_EPSILON,
                example={_multiplier: 20, delta: 0.01},
            ),
            "Two Gaussians z standard deviations apart: with epsilon = z^2/2 - z v the failure probability is at least "
            "1 - exp(-v^2/2), since Phi(v) - e^epsilon Phi(v - z) is.",
            erratum=PAPER.erratum(
                Severity.PRIVACY,
                "The sentence says any sigma > 0; the formula holds for epsilon < 1 only, as the next sentence "
                "assumes. (z^2/2 + z sqrt(2 log(1/delta)), delta) holds for every sigma: the least over orders a = 1 + "
                "t of the Renyi bound a z^2/2 + log(1/delta)/(a - 1).",
                Optimum(
                    _multiplier**2 / 2 * (1 + _order) + log(1 / delta) / _order,
                    _order,
                    sqrt(2 * log(1 / delta)) / _multiplier,
                    _multiplier**2 / 2 + _multiplier * sqrt(2 * log(1 / delta)),
                    example={_multiplier: 20, delta: 0.01},
                ),
            ),
        ),
        PAPER.claim(
            "thm2.privacy",
            "Privacy of a fresh gradient for every epsilon",
            "Theorem 2, with Algorithm 2, line 5",
            Inequality(
                _least_epsilon(_multiplier),
                epsilon,
                {epsilon: (0.01, 1e5), delta: (1e-9, 0.1), c1: (1, 100)},
                where=noisy,
                subject=_LEAST_EPSILON,
                example={epsilon: 1000, delta: 1e-5, c1: 10},
            ),
            "The printed noise makes z = 2 epsilon/sqrt(c_1 log(1/delta)); the theorem asks for epsilon > 0 only.",
            erratum=PAPER.erratum(
                Severity.PRIVACY,
                "No constants c_1, c_2 serve for all epsilon: it takes epsilon of order log(1/delta) at most. For "
                "epsilon <= log(1/delta) the constant 6 + 4 sqrt(2) = 11.7 is enough.",
                Inequality(
                    _multiplier**2 / 2 + _multiplier * sqrt(2 * log(1 / delta)),
                    epsilon,
                    {epsilon: (0.01, 30), delta: (1e-9, 0.1)},
                    where={**noisy, c1: 6 + 4 * sqrt(2)},
                    conditions=(epsilon <= log(1 / delta),),
                    subject=_ENOUGH,
                ),
            ),
        ),
    )


# ---------------------------------------------------------------- derived here
def _derived() -> tuple[Claim, ...]:
    sampling, privacy, mixed = n**-_third, p ** Rational(2, 5), (p**2 / n) ** Rational(2, 17)
    plain = {"privacy error small": sqrt(d) / (n * epsilon)}
    share = sqrt(d) / (n * epsilon)
    unit_step = _rate_terms(step=1 / M)
    saddles = {**_rate_terms(), "fresh gradients at saddles": b1 * U * sqrt(rho) / (alpha ** Rational(3, 2) * n)}
    repaired = {eta: sqrt(rho * alpha) / (M**2 * iota**3)}
    worst = 40 * sqrt(2) * radius * (rho * alpha) ** Rational(1, 4) / (sqrt(eta) * r)
    third = (d / n**3) ** Rational(2, 17)
    return (
        PAPER.own(
            "rate",
            "Rate of the adaptive oracle, with constants and logarithms",
            Rate(
                alpha,
                _sampling(n) + _private(n * epsilon) + _mixed(n, n * epsilon),
                {"alpha": alpha},
                _TUNED,
                _rate_terms(logs=ell),
                _regime(*_SINGLE),
                logs=(ell,),
            ),
            "The terms of Theorem 2 with the logarithms of (4), Lemma 7 and (72), each written as ell.",
            calculation=RATE,
        ),
        PAPER.own(
            "window.low",
            "Where the lost term overtakes the sampling error",
            Crossover(mixed, sampling, p, n ** Rational(-11, 12)),
            "The third vertex of the balance against the first; G = M = rho = U = 1, p = sqrt(d)/(n epsilon).",
        ),
        PAPER.own(
            "window.high",
            "Where the privacy error overtakes the lost term",
            Crossover(mixed, privacy, p, n ** Rational(-5, 7)),
            "The third vertex of the balance against the second.",
        ),
        PAPER.own(
            "loss",
            "Error where the two printed terms are equal",
            Crossover(a, mixed.xreplace({p: n ** Rational(-5, 6)}), a, n ** Rational(-16, 51)),
            "At p = n^(-5/6) both printed terms are n^(-1/3); the lost one is larger by n^(1/51).",
        ),
        PAPER.own(
            "step_one_over_M",
            "Rate with step size 1/M and the same oracle",
            Rate(
                alpha,
                sampling + share ** Rational(3, 7) + (share**2 / n) ** Rational(1, 8),
                {"alpha": alpha},
                _TUNED,
                unit_step,
                plain,
                normalised=_ONES,
            ),
            "The terms of Theorem 2 with eta <= 1/M in place of (4). The exponent 3/7 of prior work comes from the "
            "step size alone; a third term appears here as well.",
        ),
        PAPER.own(
            "restarts",
            "Rate with a fresh gradient at each saddle",
            Rate(
                alpha,
                n ** Rational(-2, 7) + share ** Rational(2, 5),
                {"alpha": alpha},
                _TUNED,
                saddles,
                plain,
                normalised=_ONES,
            ),
            "The terms of Theorem 2, and U sqrt(rho)/alpha^(3/2) more fresh gradients, one at each saddle.",
        ),
        PAPER.own(
            "selection",
            "Dimension up to which noisy Hessians can be selected from, at the corrected rate",
            Crossover(d / (n * third ** Rational(3, 4)), third, d, n ** Rational(13, 27)),
            "One client, epsilon = 1: there the lost term, (d/n^3)^(2/17), is alpha; n^(6/13) in Remark 3.",
        ),
        PAPER.own(
            "repeats",
            "Attempts that are needed",
            Identity(omega0, Rational(3, 4) ** (log(1 / omega0) / log(Rational(4, 3))), omega0),
            "(3/4)^Q = omega_0 at Q = log(1/omega_0)/log(4/3), for either base.",
            calculation=REPEATS,
        ),
        PAPER.own(
            "parameters.eta",
            "Step size, repaired",
            Crossover(
                eta * M * sqrt(iota / (s * eta * sqrt(rho * alpha))) * iota,
                1 / sqrt(s),
                eta,
                sqrt(rho * alpha) / (M**2 * iota**3),
            ),
            "The eta at which eta M sqrt(T_esc) iota = 1/sqrt(s).",
        ),
        PAPER.own(
            "parameters.mu",
            "Third entry of mu, repaired",
            Crossover(
                sqrt(C) * s ** Rational(3, 2) * mu ** Rational(5, 2),
                C * sqrt(2 * ell),
                mu,
                (2 * C * ell) ** _fifth / s ** Rational(3, 5),
            ),
            "The mu at which both members of chi = max{sqrt(C) s^(3/2) mu^(5/2), C sqrt(2 log(4T/omega))} psi are "
            "equal; ell stands for log(4T/omega).",
        ),
        PAPER.own(
            "parameters.doubling",
            "Second entry of mu, repaired",
            Identity(2**mu, 40 * sqrt(2) * M * sqrt(alpha / rho) / r, worst, where={**repaired, **_RADIUS}),
            "The growth 2^mu that (46), corrected, asks for: with the repaired step size all powers of iota cancel.",
        ),
        PAPER.own(
            "parameters.steps",
            "Number of effective steps, repaired",
            Identity(
                _EFFECTIVE,
                U * s**3 * mu**5 / (2 * chi**2 * eta),
                U / (radius**2 / (8 * eta * escape_steps) / escape_steps),
                where={**_STEPS, **_RADIUS, **_ERROR, **_IOTA},
            ),
            "The whole decrease U over half of S^2/(4 eta T_esc) a T_esc.",
            calculation=PARAMETERS,
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    *_prior(),
    *_parameters(),
    *_descent(),
    *_spider(),
    *_distributed(),
    *_selection(),
    *_tools(),
    *_derived(),
)
