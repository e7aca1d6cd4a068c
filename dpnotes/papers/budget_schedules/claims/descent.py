"""Gradient descent: Sections 3 and 4.1, with their proofs."""

from dataclasses import replace

from sympy import Derivative, Integer, LambertW, Sum, diff, exp, log, oo, sqrt

from dpnotes.papers.budget_schedules import calculators
from dpnotes.papers.budget_schedules.notation import *
from dpnotes.papers.budget_schedules.notation import symbol
from dpnotes.theory.asymptotics import Limit, Ratio
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.statements import Allocation, Identity, Optimum, Reason, Uncheckable
from dpnotes.theory.symbols import expand

at, CLAIMS = PAPER.section()

ascent = Inequality(u * exp(2 * steps), Integer(1), {u: (1e-6, 0.999)})
unbounded = "Bounded gradients and Polyak-Lojasiewicz, where no bounded domain is asked for"
at("assumptions", "Section 3, assumptions, and Definition 4.1", unbounded)(
    replace(ascent, example={u: 0.01, steps: 3}),
    "f(theta) - f^* = u G^2/(2 mu), at most G^2/(2 mu) by both assumptions; gradient ascent for a time T/mu "
    "multiplies it by at least e^{2T}.",
    Severity.PROOF(
        "On the whole space only constant losses satisfy both, and the theorems are about nothing else. A bounded "
        "domain is needed (left by gradient ascent in time, and by the steps, which nothing projects), or clipping, "
        "whose bias Theorem 4.2 does not treat.",
        replace(ascent, conditions=(2 * steps <= log(1 / u),)),
    ),
)

derivative = symbol("dERUB/dsigma_t", "derivative of the excess risk bound", latex="\\partial ERUB/\\partial\\sigma_t")
at("sec4.influence", "Section 4", "Influence as a derivative")(
    Identity(derivative, q[t], diff(R * q[t] * sigma**2, sigma), instances=({t: 1},)),
    "ERUB = gamma^T + R sum_t q_t sigma_t^2, eq. (7).",
    Severity.TYPOGRAPHICAL(
        "q_t is not the derivative of ERUB by sigma_t, but the coefficient of R sigma_t^2; the derivative is 2 R q_t "
        "sigma_t.",
        2 * R * q[t] * sigma,
    ),
)
at("eq4.nonprivate", "eq. (4)", "alpha as the error of noise-free descent")(
    Identity(gamma**steps, alpha, gamma ** (log(1 / alpha) / rate), where={gamma: exp(-rate)}),
    "gamma^T at T = ln(1/alpha)/ln(1/gamma). Without noise there is no R, so this compares stopping times, not "
    "algorithms.",
)

noise_level = D * G**2 / (2 * R * M * N**2 * gap)
at("thm4.2.noise", "Theorem 4.2, proof", "Noise of one step")(
    Identity(alpha, noise_level, M / 2 * (eta * G / N) ** 2 * D / (R * gap), {eta: 1 / M}),
    "Smoothness adds (M/2) eta^2 E|G sigma nu/N|^2 at eta = 1/M, with E|nu|^2 = D; this is R alpha sigma^2 times the "
    "initial gap.",
)
at("thm4.2.rate", "Theorem 4.2, proof, and eq. (6)", "Contraction of one step")(
    Identity(gamma, 1 - 1 / kappa, 1 - 2 * mu * eta * (1 - M * eta / 2), where={eta: 1 / M, M: kappa * mu}),
    "Smoothness and the Polyak-Lojasiewicz condition at eta = 1/M.",
)

risk = symbol("E", "excess risk bound")
bound = gamma**T + R * Sum(gamma ** (T - t) * alpha * noise[t], (t, 1, T))
recursion = Integer(1)
for step in (1, 2, 3):
    recursion = gamma * recursion + R * alpha * noise[step]
at("thm4.2.recursion", "Theorem 4.2, eq. (7)", "Excess risk bound")(
    Identity(risk, bound, recursion, instances=({T: 3},)),
    "E_{t+1} = gamma E_t + R alpha sigma_t^2 from E_1 = 1.",
    calculation=calculators.CURVE,
)

propagated = symbol("Q", "propagated noise, the sum of q_t sigma_t^2")
by_curvature = {gamma: 1 - 1 / kappa}
at("thm4.2.bound", "Theorem 4.2, eq. (7)", "Excess risk bound against quadratics")(
    Inequality(
        (1 - u) ** (2 * T) + R * alpha * u * Sum((1 - u) ** (2 * (T - t)) * noise[t], (t, 1, T)),
        gamma**T + R * propagated,
        {u: (1e-3, 0.9999), noise: (1e-3, 1e3)},
        where={propagated: Sum(gamma ** (T - t) * alpha * noise[t], (t, 1, T)), **by_curvature},
        conditions=(u * kappa >= 1,),
        instance={T: 3},
        subject=risk,
    ),
    "The exact excess risk of f = u M theta^2/2, with 1/kappa <= u <= 1, relative to the initial one.",
)
at("eq9", "eq. (9)", "Bound of the uniform schedule")(
    Identity(
        risk,
        gamma**T + alpha * kappa * (1 - gamma**T) * T,
        gamma**T + Sum(gamma ** (T - t) * alpha * T, (t, 1, T)),
        where={kappa: 1 / (1 - gamma)},
        instances=({T: 1}, {T: 2}, {T: 5}),
    ),
    "Eq. (7) at sigma_t^2 = T/R.",
    calculation=calculators.CURVE,
)

uniform = gamma**steps + alpha * kappa * (1 - gamma**steps) * steps
at("eq22.gradient", "Theorem 4.3, sketch of proof", "Derivative of the uniform bound")(
    Identity(
        Derivative(uniform, steps),
        gamma**steps * log(gamma)
        + alpha * kappa * (1 - gamma**steps)
        - alpha * kappa * steps * gamma**steps * log(gamma),
        diff(uniform, steps),
    ),
    "The paper calls its root intractable; it is Wright's omega function, see thm4.3.minimum.",
)

steps_23 = log(ell / (kappa * alpha)) / ell
# The same quantities as functions of ln(1/gamma), which makes the algebra several times faster than _GD.
by_rate = {kappa: 1 / (1 - gamma), gamma: exp(-rate)}
at("eq23.minimiser", "eq. (23)", "Minimiser of the surrogate")(
    Optimum(gamma**steps + alpha * kappa * steps, steps, steps_23, where=by_rate, conditions=(ell > kappa * alpha,)),
    "The uniform bound without the factor 1 - gamma^T.",
)

best_steps = symbol("T*", "step count", latex="T^*")
at("eq23.limit", "Theorem 4.3, proof, below eq. (23)", "Surrogate step count for large kappa")(
    Limit(steps_23, kappa, oo, oo, where=by_curvature, example={kappa: 1e6, alpha: 1e-3}, subject=best_steps),
    "The paper says that T suffers from explosion as kappa grows, and changes it to eq. (24) for that reason.",
    Severity.RATE(
        "For fixed alpha the T of eq. (23) falls below 0 once kappa^2 alpha is above about 1, where its own condition "
        "fails and T = 0 is the minimiser; it does not explode.",
        -oo,
    ),
)

steps_24 = log(1 + ell / alpha) / ell
at("eq24.limit", "Theorem 4.3, below eq. (24)", "Uniform step count for large kappa")(
    Limit(steps_24, kappa, oo, Integer(0), where=by_curvature, example={kappa: 1e6, alpha: 1e-3}, subject=best_steps),
    "The paper says that eq. (24) converges to 0 as kappa grows.",
    Severity.RATE("The limit is 1/alpha, not 0. (The exact minimiser does go to 0.)", 1 / alpha),
)

far = {kappa: (2, 1), alpha: (0.1, -1)}
at("eq24.order", "Theorem 4.3", "Order of the uniform step count")(
    Ratio(steps_24, kappa * log(1 + 1 / (kappa * alpha)), far, "O", where=by_curvature, subject=best_steps),
    "Eq. (24), with ln(1/gamma) between 1/kappa and 2/kappa for kappa >= 2.",
)
at_24 = uniform.xreplace({steps: log(1 + rate / alpha) / rate})
at("eq25", "eq. (25)", "Uniform bound at eq. (24)")(
    Identity(risk, (1 + kappa * log(1 + rate / alpha)) / (1 + rate / alpha), at_24, where={gamma: exp(-rate)}),
    "Eq. (24) put into eq. (22).",
)

curvatures = {kappa: (1 + 1e-6, 1e6)}
at("thm4.3.log_lower", "Theorem 4.3, proof", "Lower bound of ln(1/gamma)")(
    Inequality(ell, 1 / kappa, curvatures, ">=", where=by_curvature), "-ln(1 - y) >= y."
)
large_kappa, shares = (kappa * (1 - c) >= 1,), {**curvatures, c: (1e-3, 1 - 1e-4)}
at("thm4.3.log_upper", "Theorem 4.3, proof", "Upper bound of ln(1/gamma)")(
    Inequality(ell, 1 / (c * kappa), shares, where=by_curvature, conditions=large_kappa),
    "ln(1 + 1/(kappa - 1)) <= 1/(kappa - 1) <= 1/(c kappa) for kappa >= 1/(1 - c).",
)

sharp = {kappa: 1000, alpha: 1e-4}
uniform_least = (w - 1 + w * log(w)) / (w * (w - 1 + log(w)))
by_omega = {alpha: ell / (kappa * (w - 1 + log(w))), **by_rate}
at("thm4.3.minimum", "eq. (24), for ERUB_min in eq. (8)", "Step count of the uniform schedule")(
    Optimum(uniform, steps, steps_24, where=by_curvature, example=sharp),
    "Eq. (24) stands for the minimiser of eq. (22) in the proof, and its value is called ERUB_min.",
    Severity.RATE(
        "Eq. (24) does not minimise eq. (22). The minimiser is T = ln(w)/ln(1/gamma) with w + ln w = 1 + "
        "ln(1/gamma)/(alpha kappa) (Wright's omega function); at kappa = 1000, alpha = 1e-4 the bound at (24) is 218 "
        "times the initial error.",
        Optimum(uniform, steps, log(w) / ell, uniform_least, where=by_omega),
    ),
    calculation=calculators.UNIFORM,
)

W = LambertW(exp(1 + ell / (alpha * kappa)))
uniform_exact = uniform_least.xreplace({w: W})
uniform_min = symbol(
    "ERUB_min(uniform)", "least bound of the uniform schedule", latex="\\mathrm{ERUB}^{uniform}_{\\min}"
)
rate_8 = kappa**2 / (kappa + 1 / alpha) * log(1 + 1 / (kappa * alpha))
at("thm4.3.rate", "Theorem 4.3, eq. (8)", "Rate of the uniform schedule")(
    Ratio(uniform_exact, rate_8, far, where=by_curvature, example=sharp, subject=uniform_min),
    "The exact minimum of eq. (22), by Wright's omega function.",
    Severity.RATE(
        "Eq. (8) is the bound at eq. (24), not its minimum; it holds for kappa^2 alpha << 1 only, so that alpha_0 "
        "depends on kappa.",
        kappa**2 * alpha * log(1 + 1 / (kappa**2 * alpha)),
    ),
    calculation=calculators.UNIFORM,
)
at.own("relaxation", "Relaxed noise term of the uniform schedule")(
    Inequality(kappa * (1 - gamma**x) * x, x**2, {kappa: (1.001, 1e4), x: (1, 1e4)}, where=by_curvature),
    "Compare the sketch of proof of Theorem 4.3, which relaxes to alpha kappa T^2, and finds that it explodes with "
    "kappa; that kappa is superfluous, as kappa (1 - gamma^T) <= T.",
)
at("lemma4.4.optimum", "Lemma 4.4, eq. (10)", "Best schedule for any influence")(
    Allocation(
        R * Sum(q[t] * noise[t], (t, 1, T)),
        noise,
        t,
        Sum(sqrt(q[i] / q[t]), (i, 1, T)) / R,
        Sum(sqrt(q[t]), (t, 1, T)) ** 2,
        R,
        (T, (1, 2, 3, 4)),
    ),
    "Cauchy and Schwarz; checked by the optimality conditions in 1/sigma_t^2.",
)

mean, mean_root = Sum(q[t], (t, 1, T)) / T, Sum(sqrt(q[t]), (t, 1, T)) / T
four_influences = {expand(q[index], {}): index**2 for index in range(1, 5)}
at("lemma4.4.gap", "Lemma 4.4, eq. (26)", "What the uniform schedule loses")(
    Identity(
        T**2 * mean - (T * mean_root) ** 2,
        T**2 * (Sum(q[t] ** 2, (t, 1, T)) / T - mean**2),
        T * Sum(q[t], (t, 1, T)) - Sum(sqrt(q[t]), (t, 1, T)) ** 2,
        instances=({T: 4}, {T: 2}),
        example=four_influences,
    ),
    "Printed T^2 Var[q_t], written out.",
    Severity.TYPOGRAPHICAL(
        "The right-hand side of eq. (26) should be T^2 Var[sqrt(q_t)], as in the text of the lemma.",
        T**2 * (mean - mean_root**2),
    ),
)
at("thm4.5.schedule", "Theorem 4.5", "Dynamic schedule in closed form")(
    Identity(
        noise[t],
        (sqrt((1 / gamma) ** T) - 1) / (1 - sqrt(gamma)) * sqrt(gamma**t) / R,
        Sum(sqrt(gamma ** (T - i) / gamma ** (T - t)), (i, 1, T)) / R,
        instances=({T: 1, t: 1}, {T: 3, t: 1}, {T: 4, t: 3}, {T: 6, t: 6}),
    ),
    "Lemma 4.4 at q_t = gamma^{T-t} alpha, with steps counted from 1.",
    calculation=calculators.SCHEDULE,
)
at("thm4.5.bound", "Theorem 4.5, proof", "Bound of the dynamic schedule")(
    Identity(
        risk,
        gamma**T + alpha * ((1 - gamma ** (T / 2)) / (1 - sqrt(gamma))) ** 2,
        gamma**T + alpha * Sum(sqrt(gamma ** (T - t)), (t, 1, T)) ** 2,
        instances=({T: 1}, {T: 2}, {T: 5}),
    ),
    "Lemma 4.4 in eq. (7).",
    calculation=calculators.CURVE,
)

dynamic = gamma**steps + alpha * ((1 - gamma ** (steps / 2)) / (1 - sqrt(gamma))) ** 2
steps_27 = 2 * log(alpha / (alpha + (1 - sqrt(gamma)) ** 2)) / log(gamma)
squared_k = (1 - sqrt(gamma)) ** -2
dynamic_exact = alpha * squared_k / (alpha * squared_k + 1)
at("thm4.5.minimiser", "eq. (27)", "Best step count of the dynamic schedule")(
    Optimum(dynamic, steps, steps_27, dynamic_exact, where=by_curvature, example={kappa: 10, alpha: 1e-3}),
    "With y = gamma^{T/2} the bound is a quadratic in y.",
    calculation=calculators.DYNAMIC,
)
at("thm4.5.T", "Theorem 4.5", "Step count of Theorem 4.5")(
    Optimum(
        dynamic, steps, 2 * kappa * log(1 + 1 / (kappa * alpha)), where=by_curvature, example={kappa: 1000, alpha: 1e-5}
    ),
    "The theorem says that this T minimises ERUB (up to rounding).",
    Severity.RATE(
        "The T of Theorem 4.5 is not the minimiser, eq. (27), of its proof: (1 - sqrt(gamma))^2 is about 1/(4 "
        "kappa^2), not 1/kappa. It does no harm while kappa^2 alpha is below 0.001.",
        steps_27,
    ),
    calculation=calculators.DYNAMIC,
)
at("thm4.5.K", "Theorem 4.5, proof", "The square of 1/(1 - sqrt(gamma))")(
    Identity(squared_k, kappa * (2 * kappa - 1 + 2 * sqrt(kappa * (kappa - 1))), squared_k, where=by_curvature),
    "gamma = 1 - 1/kappa.",
)
at("thm4.5.K_lower", "Theorem 4.5, proof", "Lower bound of 1/(1 - sqrt(gamma))")(
    Inequality(1 / (1 - sqrt(gamma)), kappa, curvatures, ">=", where=by_curvature),
    "1/(1 - sqrt(gamma)) = kappa (1 + sqrt(gamma)).",
)
at("thm4.5.K_upper", "Theorem 4.5, proof", "Upper bound of 1/(1 - sqrt(gamma))")(
    Inequality(1 / (1 - sqrt(gamma)), 2 * kappa, curvatures, where=by_curvature),
    "1/(1 - sqrt(gamma)) = kappa (1 + sqrt(gamma)).",
)

dynamic_min = symbol(
    "ERUB_min(dynamic)", "least bound of the dynamic schedule", latex="\\mathrm{ERUB}^{dynamic}_{\\min}"
)
share = kappa**2 * alpha / (kappa**2 * alpha + 1)
levels = {**curvatures, alpha: (1e-16, 1)}
at("thm4.5.upper", "Theorem 4.5, proof", "Upper bound of the least dynamic bound")(
    Inequality(dynamic_exact, 4 * share, levels, where=by_curvature, subject=dynamic_min),
    "The minimum is alpha K^2/(1 + alpha K^2) with K <= 2 kappa.",
    calculation=calculators.LEAST_DYNAMIC,
)
at("thm4.5.lower", "Theorem 4.5, proof", "Lower bound of the least dynamic bound")(
    Inequality(dynamic_exact, share / 4, levels, ">=", where=by_curvature, subject=dynamic_min),
    "The minimum is alpha K^2/(1 + alpha K^2) with K >= kappa, so that the factor 1/4 is not needed.",
    calculation=calculators.LEAST_DYNAMIC,
)
at("thm4.5.rate", "Theorem 4.5, eq. (11)", "Rate of the dynamic schedule")(
    Ratio(dynamic_exact, kappa**2 / (kappa**2 + 1 / alpha), far, where=by_curvature, subject=dynamic_min),
    "The exact minimum, at eq. (27).",
    calculation=calculators.DYNAMIC,
)

flat = symbol("kappa", "condition number, 1 allowed", domain=FROM_ONE)
at("thm4.5.kappa", "Theorem 4.5", "Condition on kappa")(
    Inequality(Integer(0), alpha * (1 - 1 / flat), {flat: (1, 1e3), alpha: (1e-6, 1)}, "<"),
    "Lemma 4.4 needs q_1 = gamma^{T-1} alpha > 0, here at T = 2, while the theorem allows kappa >= 1.",
    Severity.EDGE(
        "kappa >= 1 should be kappa > 1: at kappa = 1 the influence of all steps but the last is 0, and the schedule "
        "divides by it.",
        Inequality(Integer(0), alpha * (1 - 1 / kappa), {alpha: (1e-6, 1)}, "<"),
    ),
)
little, ten = {alpha: (1e-4, -1)}, {**by_curvature, kappa: 10}
at("eq12.uniform", "eq. (12)", "Uniform rate for many examples")(
    Ratio(uniform_exact, kappa**2 * alpha * log(1 / (kappa * alpha)), little, "O", where=ten, subject=uniform_min),
    "Fixed kappa, here 10, and alpha to 0.",
)
at("eq12.dynamic", "Section 4.1.3", "Dynamic rate for many examples")(
    Ratio(dynamic_exact, alpha, little, "O", where=ten, subject=dynamic_min), "Fixed kappa, here 10, and alpha to 0."
)
at("eq12.regime", "Section 4.1.3", "alpha for many examples")(
    Limit(noise_level, N, oo, oo, subject=alpha),
    "The paper takes N large enough that alpha >> 1.",
    Severity.TYPOGRAPHICAL("alpha >> 1 should be alpha << 1.", Integer(0)),
)
at("sec4.1.3.eq8_limit", "Section 4.1.3, stability", "Eq. (8) for large kappa")(
    Limit(rate_8, kappa, oo, 1 / alpha),
    "The limit of the formula (8); it is not the limit of the least bound, see the next claim.",
)
at("sec4.1.3.uniform_limit", "Section 4.1.3, stability", "Least uniform bound for large kappa")(
    Limit(uniform_least, w, Integer(1), 1 / alpha, subject=uniform_min),
    "For fixed alpha, w + ln w = 1 + ln(1/gamma)/(alpha kappa) falls to 1 as kappa grows.",
    Severity.RATE(
        "The least uniform bound tends to 1, not to 1/alpha: T = 0 already gives 1. Both schedules are Theta(1), and "
        "the dynamic one is not more stable.",
        Integer(1),
    ),
)
at("sec4.1.3.dynamic_limit", "Section 4.1.3, stability", "Least dynamic bound for large kappa")(
    Limit(dynamic_exact, kappa, oo, Integer(1), where=by_curvature, subject=dynamic_min),
    "The exact minimum. The paper has Theta(1), of which 1 is the limit.",
)

law = ((1 + 1 / s) * log(1 + s)).xreplace({s: 1 / (kappa**2 * alpha)})
at("intro.stricter", "Section 1, end", "Where the dynamic schedule gains")(
    Uncheckable("dynamic schedules give higher utility with a smaller sample or a smaller budget", Reason.EMPIRICAL),
    "The introduction's empirical results; the experiment mnist35 looks at them. The ratio of the two least bounds "
    "grows with the sample (own.gain), but it is no ratio of losses.",
    calculation=calculators.GAIN,
)
at.own("gain", "Least uniform over least dynamic bound")(
    Ratio(uniform_exact / dynamic_exact, law, far, where=by_curvature, subject=uniform_min / dynamic_min),
    "Compare Section 4.1.3. Both minima are exact. The gain is at most logarithmic, and depends, up to constants, on "
    "kappa^2 alpha alone.",
    calculation=calculators.GAIN,
)
