"""Tables 1 and 2, with eq. (16) and (17)."""

from typing import Any

import sympy
from sympy import Integer, Rational, Sum, log, sqrt

from dpnotes.papers.budget_schedules.claims.descent import best_steps, by_curvature, dynamic, uniform
from dpnotes.papers.budget_schedules.claims.population import horizon
from dpnotes.papers.budget_schedules.claims.rates import (
    from_above,
    least_over_steps,
    log_steps,
    momentum,
    two_phase_bound,
)
from dpnotes.papers.budget_schedules.notation import *
from dpnotes.papers.budget_schedules.notation import symbol
from dpnotes.theory.asymptotics import Ratio
from dpnotes.theory.claims import Severity
from dpnotes.theory.rates import Rate
from dpnotes.theory.statements import Allocation, Reason, Uncheckable

at, CLAIMS = PAPER.section()


def cited(table: int, place: str, name: str, text: str) -> None:
    """Add the claim of a table row that quotes a result of another paper."""
    at(f"table{table}.{place}", f"Table {table}, {name}", name)(
        Uncheckable(text, Reason.CITED), "A result of the paper cited."
    )


cited(1, "GD_Adv", "GD+Adv", "schedule O(ln(N/delta)/R_MA), bound O(D ln^3 N/(N R_MA)), for convex losses")

many = {horizon: (1e6, 1)}
table_steps = log(horizon**2 * R / D) / ell
level = D / (horizon**2 * R)  # alpha of the tables, up to a constant: M = G = 1
sizes = {alpha: level, **by_curvature, kappa: 10, D: 60, R: Rational(2, 5)}
table = {steps: table_steps, **sizes}
empirical = symbol("ERUB", "excess risk bound", latex="\\mathrm{ERUB}")
far_out = "At T = ln(N^2 R/D)/ln(1/gamma), M = G = 1, kappa = 10, D = 60, R = 2/5, and N to infinity: "


def row(place: str, name: str, quantity: sympy.Expr, printed: sympy.Expr, origin: str, where: Any = None) -> None:
    """Add the claim of the bound in a row of Table 1."""
    ratio = Ratio(quantity, printed, many, "O", where=where or table, subject=empirical)
    at(f"table1.{place}", f"Table 1, {name}", f"{name}: bound")(ratio, far_out + origin)


row(
    "GD_MA",
    "GD+MA",
    gamma**steps + alpha * steps**2,
    D * log(horizon) ** 2 / (horizon**2 * R),
    "eq. (9) with kappa (1 - gamma^T) relaxed to T, R for R_MA.",
)
cited(1, "GD_MA_schedule", "GD+MA: schedule", "the schedule of GD+MA is O(T/R_MA)")
cited(
    1, "GD_MA_adjusted", "GD+MA (adjusted)", "schedule O(T/R_MA), bound O(min(sqrt(D)/(N R_MA), D ln N/(N^2 R_MA^2)))"
)
cited(
    1,
    "GD_Adv_BBImp",
    "GD+Adv+BBImp",
    "schedule O(n^2 ln(n/delta)/R_MA), bound O(D^2 ln^2(1/p)/(R_MA N^{1-c})) with probability p",
)
cited(1, "Adam_MA", "Adam+MA", "schedule O(T/R_MA), bound O(sqrt(D) ln(N D epsilon/(1-p))/(N R_MA)) with probability p")
row("non_private", "GD, non-private", gamma**steps, level, "Theorem 4.2 without noise.")
at("table1.static_schedule", "Table 1, GD+zCDP, static", "GD+zCDP, static: schedule")(
    Allocation(R * Sum(noise[t], (t, 1, T)), noise, t, T / R, T**2, R, (T, (1, 2, 3))),
    "What Lemma 4.4 gives where all influences are taken to be 1.",
)

row("static", "GD+zCDP, static", uniform, level * log(horizon), "eq. (9).")

schedule = gamma ** (x / 2) * (gamma ** (-steps / 2) - 1) / (1 - sqrt(gamma)) / R
nine_tenths, noise_of = {gamma: Rational(9, 10), R: Rational(2, 5)}, symbol("sigma_t^2", "noise of step t")
growing = {"where": nine_tenths, "subject": noise_of, "example": {steps: 20, x: 1}}
at("table1.dynamic_schedule", "Table 1, GD+zCDP, dynamic", "GD+zCDP, dynamic: schedule")(
    Ratio(schedule, gamma ** ((x - steps) / 2) / R, {steps: (10, 1), x: (1, 1)}, "O", **growing),
    "The schedule of Theorem 4.5; gamma = 9/10, R = 2/5, at any t, and T to infinity.",
)

row("dynamic", "GD+zCDP, dynamic", dynamic, level, "eq. (7) with the schedule of Theorem 4.5.")

table_momentum = {steps: table_steps, alpha: level, **momentum, kappa: 10, That: 35, D: 60, R: Rational(2, 5)}
small_error = kappa * alpha / (kappa * alpha + eta0)  # gamma^T at the T of Theorem 4.7
row(
    "momentum_static",
    "Momentum+zCDP, static, T > That",
    two_phase_bound,
    level * log(horizon),
    "Theorem 4.6 with U_3 by its two phases; beta = 1/2, eta_0 = 1/5, That = 35.",
    table_momentum,
)
row(
    "momentum_static_early",
    "Momentum+zCDP, static, T <= That",
    small_error * (1 + 2 * eta0 * alpha / gamma * (log_steps / ell) ** 2),
    level,
    "the branch T <= That of Theorem 4.7's proof, at the T of the theorem; it never applies to small errors "
    "(own.early). The row has a constant c. beta = 1/2, eta_0 = 1/5.",
    table_momentum,
)
at("table1.momentum_schedule", "Table 1, Momentum+zCDP, dynamic", "Momentum+zCDP, dynamic: schedule for t > That")(
    Ratio(schedule, gamma ** ((steps - x) / 2) / R, {steps: (10, 1), x: (1, 1)}, "O", **growing),
    "Lemma 4.4 with influences that grow like gamma^{T-t}; gamma = 9/10, R = 2/5.",
    Severity.TYPOGRAPHICAL(
        "sigma_t^2 goes like 1/sqrt(q_t): the exponents should be -(T + t)/2 for t <= That and (t - T)/2 for t > "
        "That. The shape as printed is the reciprocal one, with most noise where it harms most. Lemma 4.4, which the "
        "row stands for, has it right, and the bound of the row is that of the right shape.",
        gamma ** ((x - steps) / 2) / R,
    ),
)
row(
    "momentum_dynamic",
    "Momentum+zCDP, dynamic, T > That",
    least_over_steps(from_above),
    level,
    "the majorant of the influence, the best T; the second term in the bracket vanishes. beta = 1/2, eta_0 = 1/5.",
    table_momentum,
)
at("table1.momentum_indicator", "Table 1, Momentum+zCDP, dynamic", "Momentum+zCDP, dynamic, T <= That")(
    Ratio(small_error**2, level, many, "O", where=table_momentum, example={horizon: 1e5}, subject=empirical),
    "The branch of Theorem 4.8 for T <= That. The row has the indicator at the other term: by the theorem it reads "
    "D/(N^2 R) times D/(N^2 R) for T <= That, and times 1 for T > That. As an O the row is true all the same, and "
    "so is Table 2, which has it from here. M = G = 1, kappa = 10, D = 60, R = 2/5, eta_0 = 1/5.",
)

log_p = symbol("ln(1/p)", "logarithm of the failure probability", domain=FROM_ONE, latex="\\ln(1/p)")
sampling = 4 * G**2 / (p * mu * horizon)
risk = symbol("TER", "true excess risk", LOSS)


def probable(place: str, title: str, locator: str, logs: sympy.Expr, *, tilde: bool = False) -> None:
    """Add the claim of a true-risk bound with high probability, by eq. (15).

    Table 2 writes no tilde; its caption says that logarithms are dropped.
    """
    empirical = D * G**2 * logs * log_p / (mu * horizon**2 * R)
    printed = G**2 / (mu * horizon) * (sqrt(D * logs * log_p / (horizon * R)) + 4 / p)
    terms = {"empirical risk": sqrt(2 * G**2 / mu) * sqrt(empirical), "sampling": sampling}
    at(place, locator, title)(
        Rate(risk, printed, terms, tilde=tilde),
        "Eq. (15) without the 1/N under its first root (see its erratum), and the excess risk of the schedule with "
        "budget R/ln(1/p), kappa left out as the paper does.",
        Severity.CONSTANT(
            "Inherits the erratum of Theorem 4.11, which is where the rate is lost: because of the 1/N in eq. (15), "
            "the first term is too small by a factor sqrt(N): it should be G^2/(mu N) "
            f"sqrt({'D ln(N) ln(1/p)' if logs != 1 else 'D ln(1/p)'}/R).",
            G**2 / (mu * horizon) * (sqrt(D * logs * log_p / R) + 4 / p),
        ),
    )


log_N = symbol("ln N", "logarithm of the number of examples", domain=FROM_ONE, latex="\\ln N")
probable("eq16", "True risk of the uniform schedule", "eq. (16)", log_N, tilde=True)

one, sentence = Integer(1), "Table 2, high probability, "
probable("eq17", "True risk of the dynamic schedule", "eq. (17)", one, tilde=True)
cited(2, "GD_Adv", "GD+Adv", "the true risk is O(sqrt(D) ln^2(N) ln(1/p)/(p mu N R_MA)) at T = O(N^2)")
cited(2, "SVRG_MA", "SVRG+MA", "the true risk is O(D ln(N)/(mu N^2 R_MA)) at T = O(ln(N^2 R_MA/D))")
cited(
    2,
    "SSGD",
    "SSGD+zCDP",
    "the true risk is O((1/sqrt(N) + 2 sqrt(D)/(sqrt(R) N)) ln N) at T = O(N^2/(16 D/R^2 + 4 N))",
)
cited(
    2,
    "SGD_MA",
    "SGD+MA",
    "the true risk is O(max(sqrt(D)/(N sqrt(R_MA)), 1/sqrt(N))) at T = O(min(N/8, N^2 R_MA/(32 D)))",
)
probable("table2.probability_static", "GD+zCDP, static", sentence + "GD+zCDP, static", log_N)
probable("table2.probability_dynamic", "GD+zCDP, dynamic", sentence + "GD+zCDP, dynamic", one)
probable("table2.probability_momentum_static", "Momentum, static, T > That", sentence + "momentum, static", log_N)
probable("table2.probability_momentum_dynamic", "Momentum, dynamic", sentence + "momentum, dynamic", one)

log_T = symbol("ln(N^2 R/D)", "number of steps up to constants", domain=FROM_ONE, latex="\\ln(N^2 R/D)")
bare_risk = symbol("TER", "true excess risk, M = G = 1")


def stable(place: str, title: str, logs: sympy.Expr) -> None:
    """Add the claim of a row of Table 2 that uses uniform stability."""
    terms = {"empirical risk": D * logs / (horizon**2 * R), "stability": log_T / horizon}
    at(f"table2.stability_{place}", f"Table 2, uniform stability, {title}", title)(
        Rate(bare_risk, terms["empirical risk"], terms),
        "TER <= EER + G^2 eta T/N with eta = 1/M, T of the order ln(N^2 R/D), M = G = 1.",
        Severity.CONSTANT(
            "Inherits the term that Section 4.4 drops below Theorem 4.14 (sec4.4.dropped), which is where the rate is "
            "lost: ln(N^2 R/D)/N must be added; it is not constant, and it dominates for large N.",
            D * logs / (horizon**2 * R) + log_T / horizon,
        ),
    )


stable("non_private", "GD, non-private", one)
stable("static", "GD+zCDP, static", log_N)
stable("dynamic", "GD+zCDP, dynamic", one)
stable("momentum_static", "Momentum, static, T > That", log_N)
stable("momentum_dynamic", "Momentum, dynamic", one)
at("table2.T", "Table 2", "Number of steps in all rows of this paper")(
    Ratio(log(1 + ell / alpha) / ell, log(horizon**2 * R / D), many, "O", where=sizes, subject=best_steps),
    "The T of eq. (24); M = G = 1, kappa = 10, D = 60, R = 2/5, and N to infinity.",
)
