"""The claims of Liu and Talwar: counterexamples, the theorem by balance, calculators. For all papers see one up."""

import math
from dataclasses import replace

import numpy as np
import pytest
import sympy
from scipy.optimize import brentq

from dpnotes.papers import claim
from dpnotes.papers.adaptive_batch import notation
from dpnotes.papers.adaptive_batch.claims.accuracy import first_query, printed_rate
from dpnotes.papers.adaptive_batch.claims.oracles import least_noise, most_shifted
from dpnotes.papers.adaptive_batch.claims.own import best_rate
from dpnotes.papers.adaptive_batch.claims.tools import chosen_nodes
from dpnotes.theory.balance import monomials
from dpnotes.theory.rates import Rate
from dpnotes.theory.verdicts import Kind
from tests.papers.profile import gaussian
from tests.papers.test_reference_lines import least_cost


def named(name):
    return claim(f"adaptive_batch.{name}")


def rate_of(name) -> Rate:
    statement = named(name).statement
    assert isinstance(statement, Rate)
    return statement


# ---------------------------------------------------------------- the headline rates, by balance from their terms
def at_example(expression, **numbers):
    """Evaluate an expression with every unnamed symbol set to 1."""
    point = {s: sympy.sympify(numbers.get(s.name, 1)) for s in expression.free_symbols}
    return float(expression.xreplace(point))


def test_the_first_query_matters_only_for_large_lipschitz_constants():
    statement = rate_of("thm3.11.alpha")
    narrow = {"G <= sqrt(B M)": notation.G / sympy.sqrt(notation.B * notation.M), "p <= 1": notation.p}
    assert replace(statement, regime=narrow).verdict().kind == Kind.IMPROVABLE
    assert statement.verdict().kind == Kind.NOT_IMPLIED
    # The wording's example: G = n^(7/16) at B = M = 1 and n = 2^144, without noise.
    n, size = 2.0**144, {"n": 2**144, "G": 2**63, "epsilon": 10**60}
    printed, lost = at_example(printed_rate, **size), at_example(first_query, **size)
    assert printed == pytest.approx(n ** (-13 / 144), rel=0.01) and lost == pytest.approx(n ** (-1 / 16), rel=0.01)
    assert printed < lost < 1


# ---------------------------------------------------------------- the tree
def squared_shift(leaves, leaf, reset):
    """Return the squared shift in units of the used noises, for sums that an example of `leaf` shifts until `reset`."""
    return least_cost(leaf, reset, [chosen_nodes(step, leaves) for step in range(1, leaves + 1)])


@pytest.mark.parametrize("leaves", [2, 5, 8, 13, 16])
def test_shifted_nodes_by_linear_algebra(leaves):
    pairs = [(j, r) for r in range(2, leaves + 2) for j in range(1, r)]
    worst = max(squared_shift(leaves, *pair) for pair in pairs)
    assert worst == pytest.approx(most_shifted(leaves))
    kept = max(squared_shift(leaves, leaf, leaves + 1) for leaf in range(1, leaves + 1))
    assert kept == pytest.approx(math.floor(math.log2(leaves)) + 1) == most_shifted(leaves, restarted=True)


def test_node_as_printed_chooses_nothing_and_misses_the_root():
    assert all(chosen_nodes(step, 16, literal=True) == [] for step in range(1, 17))
    assert chosen_nodes(8, 8) == [(1, 8)] and chosen_nodes(7, 8) == [(1, 4), (5, 6), (7, 7)]
    for step in range(1, 17):
        covered = [leaf for u, v in chosen_nodes(step, 16) for leaf in range(u, v + 1)]
        assert covered == list(range(1, step + 1))


# ---------------------------------------------------------------- calculators
POINT = {"n": 10**8, "d": 100, "epsilon": 1.0, "delta": 1e-6, "G": 1.0, "M": 2.0, "rho": 0.5, "B": 3.0, "iota": 0.01}


def calculate(name, **numbers):
    return named(name).calculator()(**numbers)


@pytest.mark.parametrize(
    ("constants", "terms"), [("paper", [printed_rate]), ("one", monomials(best_rate + first_query))]
)
def test_accuracy_is_the_checked_rate(constants, terms):
    found = calculate("thm3.11.alpha", **POINT, constants=constants)
    assert found["alpha"] == pytest.approx(max(at_example(term, **POINT) for term in terms), rel=1e-12)
    size = {k: POINT[k] for k in ("d", "epsilon", "G", "M", "B")}
    back = calculate("own.sample_size", alpha=found["alpha"], **size, constants=constants)
    assert back["n"] == pytest.approx(POINT["n"], rel=1e-10) and back["kappa"] == found["kappa"]
    cross = calculate("remark3.12", n=10**8, d=100, G=1.0, M=2.0, B=3.0, constants=constants)
    there = calculate("thm3.11.alpha", **{**POINT, "epsilon": cross["epsilon"]}, constants=constants)
    assert there["private"] == pytest.approx(there["sampling"], rel=1e-9) == pytest.approx(cross["alpha"], rel=1e-9)


def test_parameters_of_the_theorem():
    paper_ones, one = (calculate("thm3.11.alpha", **POINT, constants=c) for c in ("paper", "one"))
    alpha = paper_ones["alpha"]
    assert paper_ones["sigma"] == alpha / 10 and paper_ones["step_size"] == 0.5 and paper_ones["steps"] == 6 / alpha**2
    assert paper_ones["window"] == pytest.approx(2 * math.log(100 * 6 / (0.5 * alpha * 0.01)) / math.sqrt(0.5 * alpha))
    assert paper_ones["kappa"] == pytest.approx(max(10 * alpha, 6 ** (1 / 3)))
    assert one["kappa"] == max(10 * one["alpha"], 1.0) and one["threshold"] == one["alpha"]
    # For the parameters printed as (epsilon, delta)-DP: the exact delta of the tree under replace-one.
    leaf = 2 * max(1 / one["batch"], 1 / one["batch_per_gradient"])
    levels = math.floor(math.log2(one["steps"])) + 1
    reached = gaussian(1.0, leaf * math.sqrt(levels) / one["sigma"])
    assert reached == pytest.approx(1e-6, rel=1e-6) == pytest.approx(one["delta_reached"], rel=1e-6)
    assert one["alpha"] ** 2 >= 1 / one["batch"]
    # The control: where privacy determines the batch size, the printed noise is far from private.
    private = calculate("thm3.11.alpha", **{**POINT, "n": 10**12, "d": 10**10}, constants="paper")
    levels = math.floor(math.log2(private["steps"])) + 1
    reached = gaussian(1.0, 2 / private["batch"] * math.sqrt(levels) / private["sigma"])
    assert 0.9 < reached <= private["delta_reached"]
    with pytest.raises(ValueError, match="'corrected' to be one of: one, paper; the proof rests on Lemma 3.3"):
        calculate("thm3.11.alpha", **POINT, constants="corrected")


def test_noise_of_the_tree():
    numbers = {"G": 1.0, "b": 50.0, "epsilon": 1.0, "delta": 1e-6}
    sizes = np.array([1, 2, 3, 1023, 1024, 2**40])
    found = calculate("thm2.2.sigma", Sigma=sizes, **numbers, constants="corrected")
    assert found["levels"].tolist() == [1, 2, 2, 10, 11, 41]
    mu = brentq(lambda m: gaussian(1.0, m) - 1e-6, 0.01, 2, xtol=1e-14)
    assert found["sigma"] == pytest.approx(2 / 50 * np.sqrt(found["levels"]) / mu, rel=1e-9)
    assert found["sigma"][4] * 50 / 2 == pytest.approx(14.0117, rel=1e-5) == pytest.approx(float(least_noise), rel=1e-5)
    assert found["delta_reached"] == pytest.approx(1e-6, rel=1e-6)
    printed = calculate("thm2.2.sigma", Sigma=sizes, **numbers, constants="paper")
    assert printed["sigma"][0] == 0 and printed["delta_reached"][0] == 1
    assert printed["sigma"][4] == pytest.approx(4 / 50 * math.sqrt(math.log(1024) * math.log(1e6)))
    large = calculate("thm2.2.sigma", Sigma=2, G=1.0, b=1.0, epsilon=100.0, delta=1e-5, constants="paper")
    assert gaussian(100.0, math.sqrt(2) / large["sigma"]) == pytest.approx(0.035, abs=0.001)
    both_to_base_2 = 4 * 2 * math.sqrt(math.log2(2) * math.log2(1e5)) / 200  # s = 2 G/b
    assert gaussian(200.0, 2 * math.sqrt(2) / both_to_base_2) == pytest.approx(0.0018, abs=0.0001)
    small = calculate("thm2.2.sigma", Sigma=8, G=1.0, b=1.0, epsilon=1e-4, delta=1e-12, constants="corrected")
    assert small["delta_reached"] == pytest.approx(1e-12, rel=1e-4)


ONES = {"epsilon": 1.0, "G": 1.0}


@pytest.mark.parametrize(
    ("name", "numbers", "message"),
    [
        ("thm3.11.alpha", POINT | {"n": 10}, r"alpha=.* < G=1: the bound is vacuous"),
        ("thm3.11.alpha", POINT | {"rho": 1e5, "constants": "paper"}, r"d\*M\*B > rho\*iota: the printed logarithm"),
        ("own.sample_size", ONES | {"alpha": 2.0, "d": 1, "M": 1.0, "B": 1.0}, "alpha=2 < G=1: the bound is vacuous"),
        ("thm2.2.sigma", ONES | {"b": 1.0, "Sigma": 1.5, "delta": 0.1}, r"Sigma=1.5 >= 1 and an integer\."),
    ],
)
def test_calculators_refuse_what_is_outside(name, numbers, message):
    with pytest.raises(ValueError, match=f"Expected {message}"):
        calculate(name, **numbers)
