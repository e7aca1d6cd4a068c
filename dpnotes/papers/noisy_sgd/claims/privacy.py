"""Theorem 1.1, and Section 3.1: privacy without clipping."""

from typing import Any

from sympy import E, Rational, Sum, exp, factorial, log, sqrt

from dpnotes.papers.noisy_sgd import calculators
from dpnotes.papers.noisy_sgd.notation import *
from dpnotes.papers.noisy_sgd.notation import symbol
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Choice, Rate
from dpnotes.theory.statements import Identity, Reason, Uncheckable

at, CLAIMS = PAPER.section()


# ---------------------------------------------------------------- Theorem 1.1
def privacy(bound: Any) -> Any:
    """Return the noise that privacy requires, relative to the noise added."""
    return bound**2 * T * ell / (n * epsilon * Delta) ** 2


descent = f_max / (eta * T * alpha**2)
noise_variance = sigma**2 / B + d * Delta**2
moments = {  # these are at most 1 if half of the iterates are alpha-SOSP (Lemmas B.3 and B.5)
    "descent": descent,
    "noise in the descent": eta * L * noise_variance / alpha**2,
    "step size": eta * L,
    "minibatch noise": sigma**2 / (B * Delta**2),
}
tuned = (alpha, eta, T, Delta)


def best_accuracy(value: Any, bound: Any, **more: Any) -> Rate:
    """Return the rate of the least alpha, with everything else tuned."""
    constraints = {"privacy": privacy(bound), **moments, **more.pop("constraints", {})}
    options = {"logs": (ell,), "order": "Omega", **more}
    return Rate(alpha, value, {"alpha": alpha}, tuned, constraints, **options)


dimension_rate = d ** Rational(1, 4) / sqrt(n * epsilon)
bound = sqrt(L * f_max) + sigma * sqrt(ell)
at("thm1.1.alpha", "Theorem 1.1", "Accuracy, informally")(
    best_accuracy(dimension_rate, bound, normalised=(L, rho, f_max, sigma)),
    "The balance of Theorem 3.5 with L, rho, f_max and sigma of order 1.",
    premises=("lemmaB.12.probability", "thmB.13.noise"),  # other constants of Theorem B.13 are hidden
)

window = {"window of epsilon": epsilon * n**2 / (T * B**2)}


def calls(value: Any, **more: Any) -> Rate:
    """Return the rate of the least T B, with everything else tuned."""
    subject = symbol("TB", "number of stochastic gradients", latex="T B")
    constraints = {**moments, "batch": B / n, "privacy": privacy(bound), **window}
    tuned = (eta, T, Delta, B)
    return Rate(subject, value, {"calls": T * B}, tuned, constraints, logs=(ell,), **more)


small_budget = {"epsilon <= 1": epsilon, "alpha <= sqrt(L f_max)": alpha / sqrt(L * f_max)}
at("thm1.1.calls", "Theorem 1.1", "Number of stochastic gradients, informally")(
    calls(sigma**2 / alpha**4, normalised=(L, rho, f_max, ell)),
    "T B of Theorem 3.5, of which T is f_max/(eta alpha^2), the step size is at most alpha^2 over L times the "
    "variance, and Delta^2 is at least sigma^2/B.",
    Severity.RATE(
        "T B is at least 64 L f_max (sigma^2/B + d Delta^2) B/(c_eta alpha^4), and Delta^2 >= sigma^2/B makes that d "
        "sigma^2/alpha^4 and more: the factor d is not avoided, it hides in the variance of the noise. The window of "
        "epsilon, T >= epsilon n^2/B^2, with T >= L f_max/alpha^2 asks for n sqrt(epsilon L f_max)/alpha, even at the "
        "best batch.",
        calls(L * f_max * d * sigma**2 / alpha**4 + n * sqrt(epsilon * L * f_max) / alpha, regime=small_budget),
    ),
)

# ---------------------------------------------------------------- Section 3.1: privacy
at("thm3.1", "Theorem 3.1", "Clipped SGD is private")(
    Uncheckable("clipped SGD with this noise is (epsilon, delta)-DP", Reason.CITED),
    "Abadi et al. (2016), Theorem 1.",
    calculation=calculators.SPENT,
)

log_delta = log(1 / delta)
private = c_2 * C * sqrt(T * log_delta) / (n * epsilon)  # Delta of Theorems 3.1 and 3.3
rate = symbol("q", "sampling rate, the share of the data in a batch", domain=UNIT_INTERVAL)
multiplier = c_2 * rate * sqrt(T * log_delta) / epsilon  # Abadi et al.: on the sum of B gradients of norm C, times C
sampled = {rate: B / n}
at("thm3.1.noise", "Theorem 3.1", "Noise of clipped SGD")(
    Identity(Delta, private, multiplier * C / B, where=sampled),
    "Abadi et al. (2016): noise multiplier c_2 q sqrt(T ln(1/delta))/epsilon at sampling rate q = B/n, on the sum of "
    "B gradients of norm at most C; divided by B for the mean.",
    calculation=calculators.PRIVACY_NOISE,
)
at("thm3.1.window", "Theorem 3.1", "Window of epsilon")(
    Identity(epsilon, c_1 * T * B**2 / n**2, c_1 * rate**2 * T, where=sampled),
    "Abadi et al. (2016): epsilon < c_1 q^2 T at q = B/n.",
)

above = symbol("f(x_t)-f*", "objective above its minimum", LOSS, latex="f(x_t) - f^*")
at("lemma3.2.gradient", "Lemma 3.2", "The part of the gradient bound without noise")(
    Identity(C, 2 * sqrt(L * f_max), sqrt(above / (eta - L * eta**2 / 2)), where={above: 2 * f_max, eta: 1 / L}),
    "A step of length eta |grad f| decreases f by at least (eta - L eta^2/2) |grad f|^2, most at eta = 1/L, and by no "
    "more than f is above its minimum, which the paper allows to be 2 f_max.",
)

spread = sigma * sqrt(log(1 + (E - 1) * n))
# Lemma B.2 for all t <= T bounds f(x_t) - f(x*). Smoothness turns this bound into a bound on the gradient, and
# Assumption B adds the spread.
reached = sqrt(2 * L * (f_max + c * eta * total**2 * (eta * L * T + ell))) + spread
gradients = {alpha: (1e-6, 10)}
at_the_choice = {T: 64 * f_max / (eta * alpha**2), eta: c_eta * alpha**2 / (L * total**2)}
largest = symbol("max|grad f_i|", "largest gradient of a sample", GRADIENT, latex="\\max_{i,t} \\|\\nabla f_i(x_t)\\|")
printed_c = 2 * sqrt(L * f_max) + c * (
    L * sqrt(log(T / delta)) + sigma * sqrt(log(n * T)) + sqrt(sigma * log(1 / delta))
)
correct_c = sqrt(2 * L * f_max * (1 + 64 * c * c_eta)) + alpha * sqrt(2 * c * c_eta * ell) + spread
bounded_gradients = Inequality(reached, printed_c, gradients, where=at_the_choice, subject=largest)
at("lemma3.2.bound", "Lemma 3.2", "Bound of the gradients")(
    bounded_gradients,
    "Lemma B.2 for all t <= T at the step size of Definition B.1, |grad f|^2 <= 2 L (f - f*), and the spread of "
    "samples under Assumption B; ell = ln(T/delta), c is the constant of Lemma B.2.",
    Severity.CONSTANT(
        "L sqrt(log(T/delta)) and sqrt(sigma log(1/delta)) are no gradients: the bound is not homogeneous, and "
        "changes when lengths are measured in other units. In its place, at the step size of Definition B.1, sqrt(2 L "
        "f_max (1 + 64 c c_eta)) + alpha sqrt(2 c c_eta log(T/delta)) + sigma sqrt(log(1 + (e-1) n)) holds, and "
        "includes the privacy noise. (The source, Proposition 4.3 of Fang et al. (2023), was not compared.)",
        correct_c,
    ),
    calculation=calculators.GRADIENT_BOUND,
)

objective_noise = {"noise in the objective": eta**2 * L * T * total**2}
at("lemma3.2.step", "Lemma 3.2 and Theorem 3.3", "Step size of the gradient bound")(
    Choice({eta: 1 / (sigma * sqrt(T))}, objective_noise, f_max),
    "The second of the two step sizes; the first is 1/L. The noise adds eta^2 L T times the variance to the objective "
    "(Lemma B.2), which may be of the order f_max.",
    Severity.CONSTANT(
        "1/(sigma sqrt(T)) is no step size unless lengths are normalised. Homogeneous, and enough to keep the "
        "objective within O(f_max): sqrt(f_max/(L T)) over the root of the total noise variance, which includes the "
        "privacy noise.",
        sqrt(f_max / (L * T)) / total,
    ),
)

quadratic = {n: (100, 1e5), T: (10, 1e5), ell: (2, 20)}
noisy_gradient = symbol("E|grad|^2", "mean squared gradient", GRADIENT**2, latex="\\mathbb{E}\\|\\nabla f(x_t)\\|^2")
stationary = (eta * L * Delta) ** 2 * d / (1 - (1 - eta * L) ** 2)
small_step = {eta: alpha**2 / (L * (alpha**2 + noise_variance))}
at("lemma3.2.noise", "Lemma 3.2, as used in Theorem 3.3", "The gradient bound and the privacy noise")(
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
    Severity.PROOF(
        "Neither the step size nor the bound of Lemma 3.2 knows the privacy noise Delta, but Theorem 3.3 uses it for "
        "Algorithm 2, which adds that noise. At eta = 1/L on a quadratic, gradients are as large as Delta sqrt(d), "
        "above C as soon as d T log(1/delta) > (n epsilon)^2 (up to constants): then P(E) is about 0, not 1 - delta, "
        "and the proof says nothing. (Privacy holds there for another reason, see own.sensitivity.) At the smaller "
        "step size of Theorem 3.5 the stationary gradient on the quadratic stays below alpha.",
        Inequality(stationary, alpha**2 / 2, {alpha: (1e-6, 10)}, where=small_step, subject=noisy_gradient),
    ),
)

squared = symbol("y", "squared norm over the variance of a coordinate")
index = symbol("k", "index of a sum", domain=d.domain)
# P(chi^2 > y) in an even dimension d, for the event that one of T - 1 independent gradients is longer than C.
term = (squared / 2) ** index / factorial(index)
chi_squared = exp(-squared / 2) * Sum(term, (index, 0, d / 2 - 1))
at_the_noise, hundred = {squared: (n * epsilon / c_2) ** 2 / (T * log_delta)}, {d: 100}
some_large = symbol(
    "P[max|grad f(x_t)| > C]", "probability that a gradient is large", latex="P[\\max_t \\|\\nabla f(x_t)\\| > C]"
)
one_large = symbol(
    "P[|grad f(x_t)| > alpha*sqrt(log(1/delta_t))]",
    "probability that one gradient is large",
    latex="P[\\|\\nabla f(x_t)\\| > \\alpha \\sqrt{\\log(1/\\delta_t)}]",
)
at_alpha = {squared: alpha**2 * log(1 / delta_t) * (2 - eta * L) / (eta * L * Delta**2), **small_step}
accuracies = {alpha: (1e-3, 10), sigma: (1e-3, 10), delta_t: (1e-40, 0.3)}
at("lemma3.2.probability", "Lemma 3.2, as used in Theorem 3.3", "Probability that no gradient is large")(
    Inequality(
        1 - (1 - chi_squared) ** (T - 1),
        delta,
        {n: (100, 1e5), T: (10, 1e5)},
        where=at_the_noise,
        instance=hundred,
        example={n: 1000, T: 1000, epsilon: 1, c_2: 1, delta: 1e-5},
        subject=some_large,
    ),
    "f = L |x|^2/2 from its minimum, in 100 dimensions: at eta = 1/L the gradient is minus the last noise, so that "
    "|grad f(x_t)|^2/Delta^2 has a chi-squared law, independently in each of T - 1 iterations; Delta of Theorem 3.3. "
    "(In the example the window of epsilon is met by B = 100, c_1 = 1.)",
    Severity.PROOF(
        "See lemma3.2.noise: at the step sizes that the lemma allows a large gradient may be certain. At those of "
        "Theorem 3.5, the stationary gradient on this quadratic exceeds alpha sqrt(log(1/delta_t)) with probability "
        "delta_t at most.",
        Inequality(chi_squared, delta_t, accuracies, where=at_alpha, instance=hundred, subject=one_large),
    ),
)

exp_epsilon = symbol("K", "e^epsilon", latex="e^{\\varepsilon}", domain=ABOVE_ONE, usual=(1.01, 30))
p = symbol("p", "probability of an event under D', with clipping", domain=UNIT_INTERVAL, usual=(0.05, 0.9))
q = symbol("q", "probability of an event under D, with clipping", domain=UNIT_INTERVAL, usual=(0.05, 0.95))
u = symbol("u", "probability that clipping acts under D", domain=UNIT_INTERVAL, usual=(1e-3, 0.1))
v = symbol("v", "probability that clipping acts under D'", domain=UNIT_INTERVAL, usual=(1e-3, 0.1))
failures = {delta: (1e-3, 0.1)}
hockey_stick = symbol("delta(A_2)", "delta of Algorithm 2", latex="\\delta(\\mathbb{A}_2)")
unclipped = (q + u) - exp_epsilon * (p - v)
clipped_is_private = (q <= exp_epsilon * p + delta, 1 - p <= exp_epsilon * (1 - q) + delta)
known = (*clipped_is_private, u <= delta, v <= delta)
tight = {exp_epsilon: 3, p: 0.2, q: 0.61, u: 0.01, v: 0.01, delta: 0.01}
# The facts of the proof as shares of delta, without regard to their actual probabilities.
spent = symbol("s", "share of delta that clipped SGD uses up", domain=UNIT_INTERVAL, usual=(1e-3, 1))
s_u, s_v = (
    symbol(f"s_{x}", "share of delta by which clipping acts", domain=UNIT_INTERVAL, usual=(1e-3, 1)) for x in "uv"
)
facts = {q: exp_epsilon * p + spent * delta, u: s_u * delta, v: s_v * delta}
at("thm3.3.privacy", "Theorem 3.3, with its proof", "Privacy without clipping, as it is argued")(
    Inequality(unclipped, 2 * delta, failures, conditions=known, example=tight, subject=hockey_stick),
    "The proof's two facts: Algorithm 1 is (epsilon, delta)-DP, and for each data set the two algorithms differ with "
    "probability at most delta. K = e^epsilon; the event has probabilities q and p with clipping, at most u more "
    "under D and v less under D' without.",
    Severity.PROOF(
        "Conditioning on the event that no gradient is large is not privacy conditioned on it. The two facts give "
        "(epsilon, delta + (1 + e^epsilon) delta), and no better: (0.61, 0.20) is (ln 3, 0.01)-DP, and moving 0.01 on "
        "each side gives 0.62 - 3 * 0.19 = 0.05, not 0.02. (epsilon, 2 delta) can be saved by an event of the "
        "transcript that involves the samples of both data sets; the gradient bound must then hold for the exchanged "
        "sample, too, and Assumptions A and B for both data sets, which the theorem does not state (own.transcript). "
        "What falls is the argument: for batches of a fixed size, as Algorithm 2 has them, (epsilon, delta) follows "
        "from Assumption B alone (own.sensitivity).",
        Inequality(unclipped, delta + (1 + exp_epsilon) * delta, failures, where=facts),
    ),
    calculation=calculators.TOTAL_DELTA,
)
printed_noise, correct_noise = (c_2 * bound * sqrt(T * log_delta) / (n * epsilon) for bound in (printed_c, correct_c))
at("thm3.3.noise", "Theorem 3.3", "Noise without clipping")(
    Identity(Delta, printed_noise, multiplier * C / B, where={**sampled, C: correct_c}),
    "The noise of Theorem 3.1 with the gradient bound in place of the clipping threshold.",
    Severity.CONSTANT(
        "As in Lemma 3.2, the printed C is not homogeneous, and it does not cover the noise itself.", correct_noise
    ),
)

one_sided = (q + u) - exp_epsilon * p
at("thm3.5.privacy", "Theorem 3.5, proof", "Privacy in the proof of Theorem 3.5")(
    Inequality(one_sided, delta, failures, conditions=known[:3], example=tight, subject=hockey_stick),
    "The proof says (epsilon, delta), of Algorithm 2, by Theorem 3.3; even the transcript argument adds the "
    "probability u of a large gradient.",
    Severity.TYPOGRAPHICAL(
        "(epsilon, delta) should be (epsilon, 2 delta), as in Theorem 3.3 and in the statement of Theorem 3.5.",
        Inequality(one_sided, 2 * delta, failures, where=facts),
    ),
)
