"""The calculators behind `dpnotes calc`: all reachable by name and without algebra, with the values they had before."""

import json
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from command import call
from counting import python_calls

from dpnotes import papers
from dpnotes.core import WHOLE, Relation, Sampling
from dpnotes.papers.accountant import DELTA, delta_at
from dpnotes.papers.adaptive_batch.calculators import LYAPUNOV, TREE_SIZE
from dpnotes.papers.adaptive_batch.calculators import NODE as CORRECT_NODE
from dpnotes.papers.adaptive_batch.claims.own import exponent
from dpnotes.papers.budget_schedules.calculators import MOMENTUM_STEP
from dpnotes.papers.drift_escape import notation as s
from dpnotes.papers.drift_escape.calculators import ROOT, SHARED_RATE
from dpnotes.papers.drift_escape.claims.oracle import bracket_in_alpha
from dpnotes.papers.goldstein.calculators import NODE
from dpnotes.privacy.accounting import account
from dpnotes.privacy.calibration import gaussian_delta
from dpnotes.privacy.events import Event
from dpnotes.privacy.tree import Tree
from dpnotes.theory.refusals import OutsideRegime, Vacuous
from tests.points import drawn
from tests.shown import SHOWN

NAMED = {name: one for key in (*papers.PAPERS, "privacy") for name, one in papers.calculators(key).items()}


def printed(*arguments: str) -> str:
    return call("calc", *arguments).stdout


# ---------------------------------------------------------------- names
def test_every_calculator_is_reached_by_its_name_and_no_claim_has_it():
    claims = {claim.id for claim in papers.claims()}
    assert not NAMED.keys() & claims and len(NAMED) > 40
    for key in filter(papers.calculators, (*papers.PAPERS, "privacy")):
        listed = [line.split()[0] for line in printed(key).splitlines()]
        assert listed == list(papers.calculators(key)) == list(json.loads(printed(key, "--json")))
    for name in NAMED:
        assert json.loads(printed(name, "--json"))["gives"].keys() == NAMED[name].outputs.keys()
    calculations = [claim.calculation for claim in papers.claims() if claim.calculation is not None]
    assert all(any(one is known for known in NAMED.values()) for one in calculations), "of a claim, without a name"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("adaptive_batch.node", "t=13", "rank=2"), {"first": 9, "last": 12, "num_nodes": 3}),
        (("goldstein.alg1.node", "t=8", "Sigma=8", "rank=1", "constants=paper"), {"first": 1, "last": 4}),
        (("adaptive_batch.tree_size", "Sigma=1000"), {"levels": 10, "nodes": 1994, "most_nodes": 9}),
        (("budget_schedules.thm4.6.step", "beta=0.1", "gamma=0.9", "constants=paper"), {"A": 0.1928980000}),
        (("adaptive_batch.own.exponent_below", "u=0.05", "b=9"), {"exponent": -0.0052, "minimum_batch": 10}),
        (
            ("privacy.delta", "noise_multiplier=10", "num_steps=100", "batch_size=5", "num_examples=5", "epsilon=1"),
            {"delta": gaussian_delta(1.0, 1.0)},
        ),
        (
            ("privacy.epsilon", "noise_multiplier=1.1", "num_steps=1000", "sampling_rate=0.01", "delta=1e-5"),
            {"epsilon": 1.5154},  # computed separately by dp_accounting's PLDAccountant
        ),
        (
            ("privacy.epsilon", "noise_multiplier=1", "num_steps=2344", "sampling_rate=0.01024", "delta=1e-5"),
            {"epsilon_fixed_size": 3.588},
        ),
        (
            ("privacy.epsilon", "noise_multiplier=4", "num_steps=10", "sampling_rate=1", "delta=1e-5"),
            dict.fromkeys(("epsilon", "epsilon_fixed_size"), 3.341),  # gaussian_delta(3.341, 4 / sqrt(10)) is 1e-5
        ),
        (
            ("privacy.noise_multiplier", "epsilon=1.5157", "num_steps=1000", "sampling_rate=0.01", "delta=1e-5"),
            {"noise_multiplier": 1.1},
        ),
    ],
)
def test_calc_on_the_command_line(arguments, expected):
    found = json.loads(printed(*arguments, "--json"))
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-2)


def test_a_name_that_is_none_is_one_line():
    for name, message in (("privacy.nothing", "to be one of: privacy.delta"), ("goldstein.nodes", "did you mean")):
        (line,) = call("calc", name, "t=1", code=2).stderr.splitlines()
        assert message in line


# ---------------------------------------------------------------- what a slider waits for
# Values for the main theorems, for which independently drawn numbers are incompatible.
CHOICE = {
    "d": 1000, "B": 500, "epsilon": 1.0, "delta": 1e-6, "L": 1.0, "f_max": 1.0, "sigma": 1.0, "rho": 1.0,
    "c": 1.0, "c_1": 1.0, "c_2": 1.0, "c_eta": 0.1,
}  # fmt: skip
CHOSEN = {
    "adaptive_batch.thm3.11.alpha": {
        "n": 10**8, "d": 100, "epsilon": 1.0, "delta": 1e-6, "G": 1.0, "M": 2.0, "rho": 0.5, "B": 3.0, "iota": 0.01,
    },
    "adaptive_batch.own.sample_size": {"alpha": 0.01, "d": 100, "epsilon": 1.0, "G": 1.0, "M": 1.0, "B": 1.0},
    "noisy_sgd.thm3.5.alpha": {**CHOICE, "n": 1_000_000},
    "noisy_sgd.thm3.5.parameters": {**CHOICE, "alpha": 0.1},
}  # fmt: skip


@pytest.mark.parametrize("paper", papers.PAPERS)
def test_a_scalar_call_does_no_algebra(paper: str):
    answered = set()
    for claim in papers.claims(paper):
        if claim.calculation is None:
            continue
        calculator = claim.calculator()
        numbers = CHOSEN.get(claim.id) or drawn(calculator)
        for named in [{"constants": name} for name in calculator.constants] or [{}]:
            try:
                found = calculator(**numbers, **named)
            except ValueError:  # the numbers are incompatible
                continue
            calls = python_calls(partial(calculator, **numbers, **named))
            assert calls["sympy"] == 0 and 0 < calls.total() < 3000, (claim.id, named, calls)
            assert found and {type(value) for value in found.values()} <= {float, int}, (claim.id, named, found)
            answered.add(claim.id)
    assert (answered or paper not in SHOWN) and {name for name in CHOSEN if name.startswith(f"{paper}.")} <= answered


def test_control_algebra_is_seen():
    assert python_calls(papers.claim("budget_schedules.lemmaC.4.inversion").check)["sympy"] > 0


# ---------------------------------------------------------------- trees
def blocks(index: int, sizes: list[int]) -> list[tuple[int, int]]:
    """Follow the paper's description: go through the sizes, largest first, and take each that fits."""
    start, found = 0, []
    for size in sizes:
        if start + size <= index:
            found.append((start + 1, start + size))
            start += size
    return found


@pytest.mark.parametrize("constants", ["corrected", "paper"])
def test_nodes_are_the_blocks_of_the_binary_expansion(constants: str):
    for period in (1, 2, 5, 8, 16):
        top = math.floor(math.log2(period)) if constants == "corrected" else math.ceil(math.log2(period)) - 1
        for index in range(1, period + 1):
            expected = blocks(index, [2**level for level in range(top, -1, -1)])
            found = NODE(t=index, Sigma=period, rank=np.arange(1, len(expected) + 2), constants=constants)
            assert list(zip(found["first"], found["last"], strict=True))[: len(expected)] == expected
            assert "has no more nodes" in found.reasons[len(expected)]
            covered = sum(last - first + 1 for first, last in expected)
            printed_fails = constants == "paper" and index == period and period & (period - 1) == 0
            assert (covered == index) != printed_fails, "control: as printed the last query has no noise of its own"
    assert CORRECT_NODE(t=11, rank=1) == {"first": 1, "last": 8, "num_nodes": 3}
    with pytest.raises(OutsideRegime, match="Expected t=9 <= Sigma=8"):
        NODE(t=9, Sigma=8, rank=1)


def test_tree_sizes_are_counted():
    for leaves in (1, 2, 3, 7, 8, 9, 100):
        found = TREE_SIZE(Sigma=leaves)
        assert found["levels"] == Tree(leaves).levels
        assert found["most_nodes"] == max(index.bit_count() for index in range(1, leaves + 1))
        complete = [size for size in (2**level for level in range(8)) for _ in range(leaves // size)]
        assert found["nodes"] == len(complete)


# ---------------------------------------------------------------- roots and exponents
@pytest.mark.parametrize(("constants", "linear"), [("paper", 1 / 4), ("corrected", 1 / 2)])
def test_the_largest_step_of_theorem_4_6_is_where_zeta_is_0(constants: str, linear: float):
    beta, gamma = np.array([0.05, 0.1, 0.5, 0.9]), np.array([0.06, 0.9, 0.99, 0.99])
    found = MOMENTUM_STEP(beta=beta, gamma=gamma, constants=constants)
    step, A = found["eta_0"], found["A"]
    assert pytest.approx(beta * gamma / ((gamma - beta) ** 2 * (1 - beta) ** 3)) == A
    assert 1 - linear * step - A * step**2 == pytest.approx(np.zeros(4), abs=1e-12)
    assert abs(1 - linear * step * 1.01 - A * (step * 1.01) ** 2).min() > 1e-3, "control"


def test_the_exponent_is_the_exact_mean_over_the_signs():
    import sympy

    for batch, u in ((1, Fraction(1, 20)), (9, Fraction(1, 20)), (11, Fraction(1, 20)), (40, Fraction(1, 7))):
        exact = float(exponent(batch, sympy.Rational(u.numerator, u.denominator)))
        assert LYAPUNOV(u=float(u), b=batch)["exponent"] == pytest.approx(exact, rel=1e-10, abs=1e-14)
    assert LYAPUNOV(u=0.05, b=1)["exponent"] == pytest.approx(math.log(4 * 0.05) / 2)
    many = LYAPUNOV(u=np.array([1e-4, 1e-4]), b=np.array([4500, 5500]))
    assert many["minimum_batch"] == pytest.approx(5000) and many["exponent"][0] < 0 < many["exponent"][1]
    with pytest.raises(OutsideRegime, match="Expected b=2e.06 <= 1000000"):
        LYAPUNOV(u=0.05, b=2 * 10**6)


def test_the_root_of_83_and_95_solves_the_printed_formula():
    numbers = {"n": 1e12, "d": 1000, "epsilon": 0.3, "G": 2.0, "M": 3.0, "rho": 0.5, "U": 4.0, "kappa": 1e-6}
    for clients in (1, 7):
        root = ROOT(**numbers, m=clients)["alpha"]
        count, scale = clients * s.n, math.sqrt(clients) * s.n * s.epsilon
        letters = {getattr(s, name): value for name, value in numbers.items()}
        for alpha, holds in ((root, True), (1.01 * root, False)):
            right = float(bracket_in_alpha(count, scale).subs({**letters, s.alpha: alpha}))
            assert (alpha**2 == pytest.approx(right, rel=1e-9)) == holds
    with pytest.raises(Vacuous, match="the bound is vacuous"):
        ROOT(**numbers | {"n": 10}, m=1)
    balanced = SHARED_RATE(**{k: v for k, v in numbers.items() if k != "kappa"}, m=1, delta=1e-6)
    nearby = [ROOT(**numbers | {"kappa": balanced["kappa"] * factor}, m=1)["alpha"] for factor in (0.1, 1, 10)]
    assert 1 <= nearby[1] / balanced["alpha"] < 2, "up to the number of its terms"
    assert nearby[1] < min(nearby[::2])


# ---------------------------------------------------------------- the delta of events
@pytest.mark.slow
def test_the_delta_of_a_list_of_events_is_on_the_private_side_of_the_accountant():
    several = [Event(10.0, Relation.REPLACE_ONE, WHOLE, 50), Event(4.0, Relation.REPLACE_ONE, WHOLE, 3)]
    found = delta_at(several, 2.0)
    together = (50 / 10.0**2 + 3 / 4.0**2) ** -0.5
    assert found == pytest.approx(gaussian_delta(2.0, together), rel=1e-5) and found >= gaussian_delta(2.0, together)
    assert account(several, found).epsilon <= 2.0 < account(several, found * (1 - 1e-4)).epsilon
    sampled = [*several, Event(2.0, Relation.REPLACE_ONE, Sampling.fixed_size(10, 1000), 20)]
    assert account(sampled, delta_at(sampled, 2.0)).epsilon <= 2.0 and delta_at(sampled, 2.0) > found
    assert delta_at([Event(1e12, Relation.REPLACE_ONE)], 1.0) == pytest.approx(1e-300), "never below that"
    assert delta_at([Event(1e-3, Relation.REPLACE_ONE)], 1.0) == 1.0, "all is said"


@pytest.mark.slow
def test_the_delta_of_equal_releases_by_numbers_alone():
    problem = {"noise_multiplier": 5.0, "num_steps": 20, "num_examples": 1000, "epsilon": 1.0}
    found = DELTA(**problem, batch_size=np.array([1000, 2000]))
    assert found["delta"][0] == pytest.approx(gaussian_delta(1.0, 5 / math.sqrt(20)), rel=1e-5)
    assert found.reasons[1] == "Expected batch_size=2000 <= num_examples=1000."
    assert DELTA(**problem, batch_size=10)["delta"] < found["delta"][0], "drawing a few of them helps"
