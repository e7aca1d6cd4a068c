"""Calculators of the paper on Goldstein stationarity."""

import math

import numpy as np
import pytest
import sympy

from dpnotes.papers import claim
from dpnotes.papers.goldstein import calculators
from dpnotes.papers.goldstein import notation as s
from dpnotes.papers.goldstein.claims.terms import BOUND, COUNTS
from dpnotes.theory.rates import Rate
from dpnotes.theory.refusals import NoConstants, Vacuous
from tests.papers.goldstein.test_claims import calculate
from tests.papers.profile import gaussian

# ---------------------------------------------------------------- calculators
PROBLEM = {"d": 100, "alpha": 0.1, "beta": 0.1, "epsilon": 1.0, "delta": 1e-6, "Phi": 1.0, "L": 1.0}


def sizes(**changes):
    return calculate(
        "eq1", **{**PROBLEM, "R": 1.0, **changes}, **({} if "constants" in changes else {"constants": "one"})
    )


def test_sets_of_constants():
    one, paper = (sizes(L=2.0, constants=c) for c in ("one", "paper"))
    assert paper["lasry_lions"] / one["lasry_lions"] == pytest.approx(2 ** (1 / 3))
    assert paper["prior"] == 1.5 * one["prior"], "a sum, and its largest term"
    with pytest.raises(ValueError, match="'corrected' to be one of: one, paper; not every method here has a proof"):
        sizes(constants="corrected")
    with pytest.raises(ValueError, match="'corrected' to be one of: one, paper; the proof hides its constants in an O"):
        calculate("thm6.1.rate", **PROBLEM, constants="corrected")


def test_each_theorems_own_calculator_agrees_with_the_table():
    found = sizes()
    numbers = {**PROBLEM, "constants": "one"}
    for name, column in (
        ("thm3.1.rate", "single_pass"),
        ("thm6.1.rate", "single_pass"),
        ("thm4.1.rate", "multi_pass_empirical"),
        ("own.plain_multi", "plain_multi_pass_empirical"),
        ("own.plain_single", "plain_single_pass"),
    ):
        assert calculate(name, **numbers)["n"] == found[column]
    smooth = calculate("thmB.5.rate", **{k: v for k, v in numbers.items() if k != "Phi"}, R=1.0)
    assert smooth["n"] == found["lasry_lions"] and smooth["lambda"] == pytest.approx(0.1 / 3)


def test_calculators_agree_with_the_checked_formulas():
    point = {getattr(s, k): sympy.Float(v) for k, v in PROBLEM.items()} | {s.R: 1}
    formulas = {
        "eq1": "prior",
        "thm3.1.rate": "single_pass",
        "thm4.1.rate": "multi_pass_empirical",
        "remark4.2": "multi_pass",
        "own.plain_multi": "plain_multi_pass_empirical",
        "own.plain_single": "plain_single_pass",
    }
    for name, column in formulas.items():
        statement = claim(f"goldstein.{name}").statement
        assert isinstance(statement, Rate)
        terms = [float(term.xreplace(point)) for term in sympy.Add.make_args(statement.value)]
        assert max(terms) == pytest.approx(sizes()[column], rel=1e-12)
        assert sum(terms) == pytest.approx(sizes(constants="paper")[column], rel=1e-12)


def test_accuracy_is_the_inverse_of_the_sample_size():
    numbers = {k: v for k, v in PROBLEM.items() if k != "beta"}
    of_accuracy = {
        "prior": calculators.PRIOR_ACCURACY,
        "single_pass": calculators.SINGLE_PASS_ACCURACY,
        "multi_pass_empirical": calculators.MULTI_PASS_ACCURACY,
        "multi_pass": calculators.MULTI_PASS_POPULATION_ACCURACY,
        "plain_single_pass": calculators.PLAIN_SINGLE_PASS_ACCURACY,
        "plain_multi_pass_empirical": calculators.PLAIN_MULTI_PASS_ACCURACY,
        "plain_multi_pass": calculators.PLAIN_MULTI_PASS_POPULATION_ACCURACY,
    }
    for name, accuracy in of_accuracy.items():
        for constants in ("one", "paper"):
            found = accuracy(n=np.array([1e5, 2e6, 1e9]), **numbers, constants=constants)["beta"]
            assert (np.diff(found) < 0).all()
            assert sizes(beta=found, constants=constants)[name] == pytest.approx([1e5, 2e6, 1e9], rel=1e-9), name
        with pytest.raises(Vacuous, match=r"Expected n=5 large enough for beta <= L: the bound is vacuous"):
            accuracy(n=5.0, **numbers)
    # A proof's size has steps, so that the accuracy is on the safe side of one; each method has its own refusal.
    for name, accuracy in (("thm3.1.rate", "single_pass"), ("own.plain_single", "plain_single_pass")):
        beta = of_accuracy[accuracy](n=1e10, **numbers, constants="corrected")["beta"]
        assert calculate(name, beta=beta, **numbers, constants="corrected")["n"] <= 1e10
        assert calculate(name, beta=0.99 * beta, **numbers, constants="corrected")["n"] > 1e10
    with pytest.raises(NoConstants, match="the proof hides its constants"):
        calculators.PRIOR_ACCURACY(n=1e10, **numbers, constants="corrected")


def test_parameters_and_calls_of_the_orders():
    plain = calculators.PLAIN_PARAMETERS(**PROBLEM)
    assert plain["T"] * plain["B"] == pytest.approx(sizes()["plain_single_pass"])
    assert plain["n"] == sizes()["plain_multi_pass_empirical"]
    assert gaussian(1.0, 2 / plain["B"] / plain["sigma_single"]) == pytest.approx(1e-6)
    many = 2 / plain["n"] * math.sqrt(math.ceil(plain["T"])) / plain["sigma_multi"]
    assert gaussian(1.0, many) == pytest.approx(1e-6)
    for constants in ("one", "paper"):
        run = calculate("thm3.1.parameters", **PROBLEM, constants=constants)
        found = calculate("remark3.3", **PROBLEM, constants=constants)
        assert found["calls"] == run["T"] * run["m"]
        assert found == calculate("remark6.2", **PROBLEM, constants=constants)
    assert found["ratio"] >= 100**2, "d^2, as printed"


PROBLEMS = ({}, {"epsilon": 0.01}, {"epsilon": 30.0}, {"beta": 1.0, "epsilon": 100.0}, {"d": 1, "alpha": 0.7})


def test_parameters_of_one_pass_keep_every_term_below_beta():
    for changes in PROBLEMS:
        problem = {**PROBLEM, **changes}
        chosen = calculate("thm3.1.parameters", **problem, constants="one")
        assert chosen["Sigma"] >= 1 - 1e-9 and chosen["M"] >= 1 - 1e-9
        point = {getattr(s, k): v for k, v in problem.items()}
        point |= {s.D: chosen["D"], s.T: chosen["T"], s.period: chosen["Sigma"], s.B1: chosen["B1"], s.B2: chosen["B2"]}
        terms = {name: float(term.subs(point)) for name, term in BOUND.items()}
        assert max(terms.values()) == pytest.approx(problem["beta"], rel=1e-9)
        assert max(float(term.subs(point)) for term in COUNTS.values()) <= 2 + 1e-9  # B1 T/Sigma and B2 T
        assert chosen["n"] == pytest.approx(sizes(**problem)["single_pass"], rel=1e-9)
        printed = calculate("thm3.1.parameters", **problem, constants="paper")
        assert printed["m"] / printed["m_first_order"] >= problem["d"] ** 2


def proved_bound(problem, found, variance):
    """Return the bound of Proposition 2.6, as corrected, for an oracle of this variance whose means are clipped."""
    d, radius = problem["d"], problem["alpha"] / 2
    likely = found["m"] / (2 * d)
    error = math.sqrt(variance) + 6 * d * problem["L"] * math.exp(-likely)
    gap = problem["Phi"] + problem["L"] * radius * d / (d + 1)
    numbers = {"alpha": radius, "D": found["D"], "T": found["T"], "M": found["M"], "s": 1.0}
    assert found["T"] % found["M"] == 0, "whole blocks"
    return calculate("prop2.6", Phi=gap, G0=error, G1=problem["L"] + error, **numbers, constants="corrected")["bound"]


def test_proved_parameters_reach_beta_with_every_constant():
    for changes in PROBLEMS:
        problem = {**PROBLEM, **changes}
        d, lipschitz, move = problem["d"], problem["L"], math.sqrt(problem["d"]) * 2 * problem["L"] / problem["alpha"]
        one = calculate("thm3.1.parameters", **problem)
        step = 2 * one["D"] * move  # a smoothed gradient's step between two points
        sampling = lipschitz**2 / one["B1"] + one["Sigma"] * step**2 / one["B2"]
        noise = d * one["sigma"] ** 2 * math.floor(math.log2(one["Sigma"]) + 1)
        assert 0.3 * problem["beta"] < proved_bound(problem, one, 2 * sampling + noise) <= problem["beta"]
        assert one["clip_increment"] >= 3 * step * (1 - 1e-12) and one["sensitivity"] >= 4 * lipschitz / one["B1"]
        assert one["n"] >= sizes(**problem)["single_pass"], "an order of magnitude is no promise"
        many = calculate("thm4.1.parameters", **problem)
        step = 2 * many["D"] * move
        noise = d * (many["sigma1"] ** 2 + many["Sigma"] * many["sigma2"] ** 2)
        directions = (lipschitz**2 / 4 + many["Sigma"] * step**2 / 2) / many["n"]
        assert 0.3 * problem["beta"] < proved_bound(problem, many, noise + directions) <= problem["beta"]
        for name, found in (("thm3.1.rate", one), ("thm4.1.rate", many)):
            assert calculate(name, **problem, constants="corrected")["n"] == found["n"]
    grid = calculate("thm3.1.parameters", **{**PROBLEM, "beta": np.array([0.05, 0.1])})
    alone = calculate("thm3.1.parameters", **{**PROBLEM, "beta": 0.05})
    assert {name: value[0] for name, value in grid.items() if np.ndim(value)} == pytest.approx(
        {name: alone[name] for name, value in grid.items() if np.ndim(value)}
    )


def test_parameters_of_many_passes():
    chosen = calculate("thm4.1.parameters", **PROBLEM, constants="one")
    root = math.sqrt(100)
    assert chosen["n"] == pytest.approx(11754 / math.sqrt(math.log(1e6)), abs=1)
    assert 0.1 < chosen["sigma1"] * root < 2, "beta = 0.1 is the order: the noise has the accountant's constant"
    assert chosen["delta_reached"] == pytest.approx(1e-6)
    assert chosen["m"] == chosen["m_increment"] == pytest.approx(100 * chosen["m_reset"])
    # The printed D at alpha = 4: the regret term is 0.2 in place of beta = 0.1.
    wide = {**PROBLEM, "alpha": 4.0, "Phi": 4.0}
    move = calculate("thm4.1.parameters", **wide, constants="paper")["D"]
    assert math.sqrt(move / 4) == pytest.approx(0.2)
    with pytest.raises(ValueError, match=r"Expected beta=0.9 small enough for Sigma"):
        calculate("thm4.1.parameters", **{**PROBLEM, "beta": 0.9, "alpha": 1.0}, constants="paper")
    assert calculate("thm4.1.parameters", **{**PROBLEM, "beta": 0.9}, constants="one")["Sigma"] == pytest.approx(1)


def test_conversion():
    numbers = {"Phi": 1.0, "alpha": 1.0, "D": 0.01, "T": 1e6, "M": 100.0, "G0": 0.1, "G1": 1.0, "s": 0.5}
    paper, corrected = (calculate("prop2.6", **numbers, constants=c) for c in ("paper", "corrected"))
    assert paper["bound"] == pytest.approx(1e-4 + 0.15 + 0.1) and corrected["bound"] == pytest.approx(1e-4 + 0.25 + 0.2)
    assert corrected["unbiased_bound"] == pytest.approx(1e-4 + 0.3) and paper["eta"] == pytest.approx(1e-3)
    with pytest.raises(ValueError, match="Expected M=101 <= alpha/D"):
        calculate("prop2.6", **{**numbers, "M": 101.0})


def test_explicit_constants_against_a_numeric_search():
    numbers = {**PROBLEM, "d": 10, "alpha": 0.05, "beta": 0.5}
    found = calculate("own.explicit", **numbers)
    assert gaussian(1.0, found["ratio"]) <= 1e-6 < gaussian(1.0, 1.001 * found["ratio"])
    gap, least = 1 + 0.05 * 10 / 11, math.inf
    for batch in np.geomspace(1, 1000, 200):
        noise = 10 * (2 / (batch * found["ratio"])) ** 2
        factor = 2.5 * math.sqrt(1 + noise) + math.sqrt(1 / batch + noise)
        moves = np.geomspace(1e-7, 0.05, 4000)
        left = 0.5 - factor * np.sqrt(moves / 0.05)
        sizes_there = np.where(left > 0, batch * gap / (moves * np.maximum(left, 1e-12)), np.inf)
        least = min(least, sizes_there.min())
    assert found["n_single_pass"] == pytest.approx(least, rel=1e-3)
    better = calculate("own.explicit", **numbers, constants="best")
    assert 0.6 < better["n_single_pass"] / found["n_single_pass"] < 0.85
    grid = calculate("own.explicit", **{**numbers, "epsilon": np.array([0.5, 1.0])})
    assert grid["n_single_pass"][1] == pytest.approx(found["n_single_pass"])
    assert grid["n_single_pass"][0] > grid["n_single_pass"][1] and grid["n_multi_pass"][0] > grid["n_multi_pass"][1]


def test_crossovers_are_where_the_sizes_meet():
    problem = {k: v for k, v in PROBLEM.items() if k != "delta"}
    at = calculate("own.crossover.privacy", **problem, R=1.0)
    free = sizes(epsilon=at["epsilon_privacy_free"])["single_pass"]
    assert free == pytest.approx(sizes(epsilon=1e9)["single_pass"], rel=1e-6)
    assert sizes(epsilon=0.9 * at["epsilon_privacy_free"])["single_pass"] > free
    even = sizes(d=round(at["d_lasry_lions"]))
    assert even["lasry_lions"] == pytest.approx(even["plain_multi_pass_empirical"])
    better = sizes(beta=0.05, epsilon=0.5)  # epsilon < 1 and beta < L/sqrt(d): only there is Theorem 3.1 better
    assert better["single_pass"] < better["plain_single_pass"]
    for changes in ({"epsilon": 2.0}, {"beta": 0.2}):
        plain = sizes(**changes)
        assert plain["plain_single_pass"] <= plain["single_pass"] * (1 + 1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": 2.0}, "Expected alpha=2 <= Phi/L: the theorems assume it."),
        ({"beta": 1.5}, "Expected beta=1.5 <= L=1: the bound is vacuous, every point has that."),
        ({"R": 0.001}, r"Expected R=0.001 >= alpha/sqrt\(d\)"),
    ],
)
def test_numbers_outside_the_theorems_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        sizes(**changes)
