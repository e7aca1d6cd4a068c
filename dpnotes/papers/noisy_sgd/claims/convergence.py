"""Convergence and selection: Sections 3.2 to 4, Theorem 3.5."""

from typing import Any

from sympy import E, Min, Rational, log, sqrt

from dpnotes.papers.noisy_sgd import calculators
from dpnotes.papers.noisy_sgd.claims.privacy import (
    best_accuracy,
    bound,
    descent,
    dimension_rate,
    noise_variance,
    privacy,
)
from dpnotes.papers.noisy_sgd.notation import *
from dpnotes.papers.noisy_sgd.notation import SCALES, symbol
from dpnotes.theory.claims import Breach, Severity
from dpnotes.theory.inequalities import Inequality, Monotone
from dpnotes.theory.rates import Choice, Rate
from dpnotes.theory.statements import Identity, Reason, Uncheckable

at, CLAIMS = PAPER.section()

SELECTION = "private selection of Section 3.4"  # the mechanism that all breaches of privacy of this paper are of


# ---------------------------------------------------------------- Section 3.2: convergence
longer = symbol("w", "a factor", domain=FROM_ONE, usual=(1, 100))
at_the_window = {Delta: c_2 * C * sqrt(T * ell) / (n * epsilon), T: longer * epsilon * n**2 / (c_1 * B**2)}
norm_of_noise = symbol("|xi|", "norm of the noise", GRADIENT, latex="\\|\\xi_t\\|")
sizes = {c_1: (0.1, 10), c_2: (0.1, 10), B: (1, 1e4), ell: (2, 20), n: (1e4, 1e6)}
example = {c_1: 1, c_2: 1, C: 1, d: 10_000, B: 1000, epsilon: 1, ell: 11.5, n: 50_000, longer: 1}
at("sec3.2.noise", "Section 3.2", "The noise is large compared with the gradients")(
    Inequality(sqrt(d) * Delta, C, sizes, ">=", where=at_the_window, example=example, subject=norm_of_noise),
    "Delta of Theorem 3.3 at T = w epsilon n^2/(c_1 B^2), the window of epsilon; C bounds the gradients.",
    Severity.CONSTANT(
        "The norm of the noise is C sqrt(d) times sqrt(T log(1/delta))/(n epsilon), a factor that may be as small as "
        "sqrt(log(1/delta)/epsilon)/B (up to constants). With a large batch the noise is smaller than the gradients. "
        "The analysis only needs Delta^2 >= sigma^2/B (up to logarithms).",
        c_2 * C * sqrt(d * ell / (c_1 * epsilon)) / B,
    ),
)

iterations = symbol("T", "number of iterations")
descending = {"descent": descent, "noise in the descent": eta * L * noise_variance / alpha**2}
limits, of_one = {**descending, "large noise": sigma**2 / (B * Delta**2)}, (L, rho, f_max, B)
at("sec3.2.iterations", "Section 3.2", "Iterations, against the variance of the gradients")(
    Rate(iterations, sigma**2 / alpha**4, {"iterations": T}, (T, eta, Delta), limits, normalised=of_one, tilde=True),
    "The descent of Theorem 3.4 at a total variance of sigma^2/B + d Delta^2, with Delta^2 >= sigma^2/B; B = 1, as in "
    "the comparison with Jin et al.",
    Severity.CONSTANT(
        "Inherits the erratum of Theorem 1.1 (thm1.1.calls): 'we don't lose the d factor' is not so, it hides in the "
        "variance of the noise that the theorem asks for.",
        d * sigma**2 / alpha**4,
    ),
)

slope = symbol("g", "gradient norm of an iterate", GRADIENT, usual=(0.01, 10))
quantities = {eta: (1e-4, 1), rho: (0.01, 10), total: (0.01, 10)}
at("sec3.2.descent", "Section 3.2, proof sketch", "Expected decrease in one step")(
    Inequality(
        eta * slope**2 - L / 2 * eta**2 * (slope**2 + total**2),
        (eta - L * eta**2) * slope**2 - L * eta**2 / 2 * total**2,
        quantities,
        ">=",
    ),
    "The descent lemma with the step's mean eta g and second moment eta^2 (g^2 + total variance).",
)
at_alpha = (eta - L * eta**2) * alpha**2 - L * eta**2 / 2 * total**2
short_step = {eta: first_share * Min(1, alpha**2 / total**2) / (2 * L)}
at("sec3.2.step", "Section 3.2, proof sketch", "Decrease in one step at a large gradient")(
    Inequality(at_alpha, eta * alpha**2 / 4, {total: (0.01, 10)}, ">=", where=short_step),
    "At a gradient of norm alpha and any step size up to min(1, alpha^2/variance)/(2 L), of which u is the share.",
)
of_escape = {decrease: SCALES[decrease], escape: SCALES[escape]}
example = {eta: 0.01, alpha: 0.1, rho: 1, c_F: 1}
at("sec3.2.decrease", "Section 3.2, proof sketch", "Large gradients: decrease after one iteration")(
    Inequality(eta * alpha**2 / 4, decrease, quantities, ">=", where=of_escape, example=example),
    "The computed decrease eta alpha^2/4, against the decrease F of escaping.",
    Severity.CONSTANT(
        "One iteration at a large gradient decreases the objective by eta alpha^2/4, the share of F that falls to one "
        "of the I iterations of an escape, not by F.",
        c_I / (4 * c_F) * decrease / escape,
    ),
)
at("sec3.2.radius", "Section 3.2 and Appendix B, choice of parameters", "Radius in which the Hessian stays negative")(
    Identity(radius, sqrt(alpha / (4 * rho)), (gamma - gamma / 2) / rho, where={gamma: sqrt(rho * alpha)}),
    "An eigenvalue -sqrt(rho alpha) moves by at most rho R, and is to stay below -sqrt(rho alpha)/2.",
)
boundary = {"curvature": sqrt(rho * alpha) * sqrt(alpha / (4 * rho)) ** 2}
at("sec3.2.improvement", "Section 3.2, proof sketch", "Decrease at the boundary of the ball")(
    Rate(decrease, alpha ** Rational(3, 2), boundary, normalised=(rho,), order="Omega"),
    "sqrt(rho alpha) R^2 at R = sqrt(alpha/(4 rho)).",
)

progress = symbol("FT/2I", "decrease over all iterations", LOSS, latex="\\mathcal{F}T/(2\\mathcal{I})")
escapes, of_scales = {"escapes": decrease * T / (2 * escape)}, (decrease, T, escape)
scales = {
    "decrease of an escape": sqrt(alpha**3 / rho) / decrease,
    "iterations": f_max / (eta * alpha**2) / T,
    "duration of an escape": escape * eta * sqrt(rho * alpha),
}
at("sec3.2.progress", "Section 3.2, proof sketch", "Decrease over all iterations")(
    Rate(progress, f_max, escapes, of_scales, scales, order="Omega", tilde=True),
    "F is at least sqrt(alpha^3/rho), T at least f_max/(eta alpha^2), I at most 1/(eta sqrt(rho alpha)), up to "
    "constants.",
)

growth = symbol("G", "growth of the distance from a saddle point", latex="e^{\\mathcal{I}\\eta\\sqrt{\\rho\\alpha}}")
reaching = {"the distance reaches R": radius / (growth * Delta * sqrt(eta / gamma))}
at("sec3.2.growth", "Section 3.2, proof sketch", "Growth that reaches the boundary")(
    Rate(growth, radius, {"growth": growth}, (growth,), reaching, order="Theta"),
    "Lemma B.11: noise accumulates to (1 + eta gamma)^I Delta sqrt(eta/gamma).",
    Severity.TYPOGRAPHICAL(
        "exp(I eta sqrt(rho alpha)) = Theta(R) compares a number with a length; the scale of the noise is missing: R "
        "over Delta sqrt(eta/gamma). The logarithm, and so I, then depends on Delta, eta and gamma.",
        radius * sqrt(gamma / eta) / Delta,
    ),
)

iteration = {"descent": f_max / (eta * T), "noise": eta * L * noise_variance, "concentration": noise_variance * ell / T}
parameters, constants = {eta: alpha**2 / (d * Delta**2), T: SCALES[T]}, (L, rho, f_max)
regime = {"minibatch noise": sigma**2 / (B * Delta**2), "large noise": alpha**2 / (d * Delta**2)}
small_alpha = {**regime, "small alpha": alpha**2 / (L * f_max)}
at("thm3.4.parameters", "Theorem 3.4", "Step size and number of iterations")(
    Choice(parameters, iteration, alpha**2, {"step size": eta * L}, small_alpha, logs=(ell,), normalised=constants),
    "Lemma B.3: the mean squared gradient is at most f_max/(eta T) + eta L variance + variance log/T, up to "
    "constants; B.2 needs eta < 1/L. Where alpha^2 exceeds d Delta^2 the step size has to be 1/L instead.",
)

chebyshev = {"Chebyshev": sigma**2 * T / (B * delta * Delta**2)}  # Lemma C.2 at delta_t = delta/T
at("thm3.4.noise", "Theorem 3.4", "Noise without Assumption B")(
    Rate(Delta, sigma / sqrt(B), {"Delta": Delta}, (Delta,), chebyshev, order="Omega"),
    "The theorem claims only Assumption A. Without Assumption B, Appendix C needs delta_t Delta^2 >= sigma^2/B (Lemma "
    "C.2), with delta_t = delta/T (Theorem B.13).",
    Severity.PROOF(
        "Theorem 3.4 assumes only A and Delta^2 >= sigma^2/B. Its proof in Appendix B uses Assumption B, and the one "
        "in Appendix C needs Delta^2 >= sigma^2 T/(B delta), more by the factor T/delta.",
        sigma * sqrt(T / (B * delta)),
    ),
)

# ---------------------------------------------------------------- Theorem 3.5
small_sigma = {"sigma <= sqrt(L f_max)": sigma / sqrt(L * f_max)}
data = {"sqrt(d) <= n epsilon": sqrt(d) / (n * epsilon)}
lengthy = (
    "T = 64 f_max/(eta alpha^2) and eta <= alpha^2/(L (sigma^2/B + d Delta^2)) in Delta >= c_2 C sqrt(T "
    "log(1/delta))/(n epsilon): with Delta^2 >= sigma^2/B, Delta cancels."
)
of_f = sqrt(L * f_max) * dimension_rate
at("thm3.5.alpha", "Theorem 3.5", "Accuracy: dependence on f_max")(
    best_accuracy(f_max * dimension_rate, bound, regime={**small_sigma, **data}, normalised=(L, rho, ell)),
    f"{lengthy} C = sqrt(L f_max) + sigma, up to logarithms; here sigma <= sqrt(L f_max).",
    Severity.CONSTANT(
        "alpha^2 is proportional to f_max, not alpha: the exponent of the f_max that is displayed should be 1/2, "
        "alpha = sqrt(L f_max) d^{1/4}/sqrt(n epsilon); f_max is no gradient. The O with a tilde hides powers of L, "
        "rho and f_max (Section 3), so that what it says of n, d and epsilon is not contradicted.",
        best_accuracy(of_f, bound, regime={**small_sigma, **data}),
    ),
    calculation=calculators.CLOSED_LOOP,
    premises=("lemmaB.12.probability", "thmB.13.noise"),
)

of_sigma = sqrt(sigma) * (L * f_max) ** Rational(1, 4) * dimension_rate
all_data = {"sigma sqrt(d) <= sqrt(L f_max) n epsilon": sigma * sqrt(d) / (sqrt(L * f_max) * n * epsilon)}
at("thm3.5.sigma", "Theorem 3.5", "Accuracy: dependence on sigma")(
    best_accuracy(f_max * dimension_rate, bound, normalised=(L, rho, f_max, ell)),
    f"{lengthy} C = sqrt(L f_max) + sigma, up to logarithms; sigma is not among what the tilde hides.",
    Severity.RATE(
        "The gradient bound C contains sigma sqrt(log(nT)), and alpha is proportional to sqrt(C): for sigma above "
        "sqrt(L f_max) the rate is sigma^{1/2} (L f_max d)^{1/4}/sqrt(n epsilon). The theorem (and Theorem 1.1) "
        "states no sigma.",
        best_accuracy(of_f + of_sigma, bound, regime={**data, **all_data}),
    ),
    premises=("lemmaB.12.probability", "thmB.13.noise"),
)
of_steps = {"privacy": privacy(C), "step size": eta * L}
least_alpha = {"accuracy": C * sqrt(L * f_max * d * ell) / (n * epsilon * alpha**2)}
accurate = {**regime, "small alpha": ell * alpha**2 / (L * f_max), **least_alpha}
at("thm3.5.parameters", "Theorem 3.5", "Step size and number of iterations")(
    Choice(parameters, iteration, alpha**2, of_steps, accurate, normalised=constants),
    "Any alpha of at least sqrt(C) (L f_max d log(1/delta))^{1/4}/sqrt(n epsilon), the corrected accuracy for a "
    "gradient bound C, and any Delta above sigma/sqrt(B) and alpha/sqrt(d): the noise that privacy asks for is Delta "
    "again.",
    calculation=calculators.SAMPLE_SIZE,
)

steps, subject = {**descending, "step size": eta * L}, symbol("T", "number of iterations")
at("thm3.5.T", "Theorem 3.5, proof", "Number of iterations in the proof")(
    Rate(subject, L * f_max * noise_variance / alpha**4, {"iterations": T}, (T, eta), steps, order="Theta"),
    "T = 64 f_max/(eta alpha^2) at the largest step size of Definition B.1.",
    Severity.CONSTANT(
        "The 1 of 1 + variance in the step size (alpha^2 in a homogeneous form) is dropped: where the variance is "
        "below alpha^2 the step size is 1/L, and T is L f_max/alpha^2.",
        L * f_max * (alpha**2 + noise_variance) / alpha**4,
    ),
)


# ---------------------------------------------------------------- Sections 3.4 and 4
def selection(value: Any, accuracy: Any, bound: Any, **more: Any) -> Rate:
    """Return the rate of the least n at which the noise of the selection does not exceed the accuracy."""
    constraints = {"gradient": bound / (n * epsilon * accuracy), "eigenvalue": L / (n * epsilon * sqrt(rho * accuracy))}
    return Rate(n, value, {"n": n}, (n,), constraints, order="Omega", **more)


at("sec3.4.n", "Section 3.4", "Number of examples for the selection")(
    selection(1 / (epsilon * f_max**2 * sqrt(d)), f_max * dimension_rate, C, normalised=(L, rho, C), tilde=True),
    "Laplace noise C/(n epsilon) at most alpha, and L/(n epsilon) at most sqrt(rho alpha), with alpha as printed in "
    "Theorem 3.5.",
    Severity.RATE(
        "The printed size covers the gradient norm only; the eigenvalue needs n epsilon >= L^{4/3}/(rho^{2/3} "
        "f_max^{2/3} d^{1/6}) even with the printed alpha. With the corrected alpha and C = sqrt(L f_max), both "
        "together: 1/(epsilon sqrt(d)) + L/(epsilon rho^{2/3} f_max^{1/3} d^{1/6}). (The selection finds an "
        "O(alpha)-SOSP.)",
        selection(
            1 / (epsilon * sqrt(d)) + L / (epsilon * (rho**2 * f_max) ** Rational(1, 3) * d ** Rational(1, 6)),
            of_f,
            sqrt(L * f_max),
            tilde=True,
        ),
    ),
    calculation=calculators.SELECTION,
)

shares = first_share + second_share
change = symbol("change", "change of the gradient norm", GRADIENT, latex="|\\|\\nabla f\\| - \\|\\nabla f'\\||")
example = {first_share: 1, second_share: 1, n: 100, C: 1}
at("sec3.4.sensitivity", "Section 3.4", "Sensitivity of the gradient norm")(
    Inequality(shares * C / n, C / n, example=example, subject=change),
    "One of n examples is replaced, its gradients of norms u C and v C may point in opposite directions; adding one "
    "to n - 1 moves the mean as far.",
    Severity.PRIVACY(
        "The sensitivity of |grad f| is 2 C/n, whether an example is replaced or added.",
        2 * C / n,
        Breach(1, 0, 0.39, "one gradient norm with the printed noise Lap(C/(n epsilon))", SELECTION),
    ),
)

scale = symbol("b", "scale of the Laplace noise", GRADIENT)
change_of_mean = symbol("s", "sensitivity of the gradient norm", GRADIENT)
above_threshold = (change_of_mean / Rational(1, 2) + 2 * change_of_mean) / epsilon
sensitivity = {change_of_mean: 2 * C / n}
at("sec3.4.laplace", "Section 3.4", "Scale of the noise of AboveThreshold")(
    Identity(scale, C / (n * epsilon), above_threshold, where=sensitivity, example={C: 1, n: 100, epsilon: 1}),
    "AboveThreshold with noise b/2 on the threshold and b on the queries costs sensitivity/(b/2) + 2 sensitivity/b "
    "(Dwork and Roth, 2014, Theorem 3.23), which is to be epsilon; sensitivity 2 C/n.",
    Severity.PRIVACY(
        "AboveThreshold needs Laplace noise of scale 4 times the sensitivity over epsilon on each query, and half of "
        "it on the threshold: 8 C/(n epsilon), where the paper has C/(n epsilon). With two quantities the budget is "
        "split once more, and all of it comes on top of (epsilon, 2 delta).",
        8 * C / (n * epsilon),
        Breach(
            1,
            0,
            0.096,
            "ten points, sensitivity C/n, the threshold with the noise that AboveThreshold gives it itself",
            SELECTION,
        ),
    ),
)

curvature = symbol(
    "change", "change of the smallest eigenvalue", LOSS / LENGTH**2, latex="|\\lambda_{\\min} - \\lambda_{\\min}'|"
)
example = {first_share: 1, second_share: 1, n: 1000, L: 1, rho: 1, sigma: 1}
own_curvature = sqrt(rho * sigma / n)  # times u or v: the curvature of f at 0 from its one example
at("sec3.4.hessian", "Section 3.4", "Sensitivity of the smallest eigenvalue")(
    Inequality(shares * own_curvature, L / n, example=example, subject=curvature),
    "Assumption A says that f is smooth, not each f_i. Take f_1 = +/- n a r^2 (cos(x/r) - 1), a = sqrt(rho sigma/n), r "
    "= a/rho, and 0 for the others: its gradient is at most sigma, as Assumption B asks, f is a-smooth with a "
    "rho-Lipschitz Hessian, and the eigenvalue at 0 is -a for one data set and a for its neighbour.",
    Severity.PRIVACY(
        "L/n needs smoothness of each f_i, and then is 2 L/n. With Assumptions A and B alone, the eigenvalue may "
        "change by 2 sqrt(rho sigma/n), far above L/n, and at most by 2 sqrt(2 rho s/n), where s is the largest "
        "deviation of a sample's gradient (own.sample; Landau's inequality for the derivatives of the difference).",
        Inequality(shares * own_curvature, 2 * sqrt(2 * rho * sigma * sqrt(log(1 + (E - 1) * n)) / n), {n: (2, 1e9)}),
        Breach(
            1,
            0,
            1,
            "n = 1000, L = rho = sigma = 1, one eigenvalue with the printed noise Lap(L/(n epsilon)), which its change "
            "exceeds 63 times; 0.39 if each f_i is smooth",
            SELECTION,
        ),
    ),
)

spread = sqrt(L * f_max * d) / (n * epsilon)
solved = (spread * sqrt(ell) + sqrt(spread**2 * ell + 4 * spread * C)) / 2
at("sec4.monotone", "Section 4", "A larger epsilon gives a better solution")(
    Monotone(solved, epsilon, "decreasing", {f_max: (0.1, 10), n: (10, 1e6)}, subject=alpha),
    "alpha^2 = sqrt(L f_max d) (C + alpha sqrt(ell))/(n epsilon), solved for alpha; C is the part of the gradient "
    "bound without alpha.",
)
at("sec4.figures", "Section 4 and Appendix A", "What the figures are cited for")(
    Uncheckable(
        "Figure 3(a) verifies that gradients are at most 2.5 long; Figure 3(b) compares with Figure 2(a); one A100",
        Reason.NO_FORMULA,
    ),
    "Figure 3(a) shows training accuracy, by its caption, and no norms. Figure 3(b) is of CIFAR-10, as Figure 1(a), "
    "and Figure 2(a) of CIFAR-100. Section 4 names an A100, Appendix A an RTX A5000.",
)
