"""The balance explorer and the map of rates agree with exact algebra and with a plain linear program."""

import math
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
import sympy
from counting import python_calls

from dpnotes.notebook.balances import Numbers, balance_explorer, balance_table, latex_of, magnitude, meeting
from dpnotes.papers import claims
from dpnotes.theory.balance import balance
from dpnotes.theory.claims import Claim
from dpnotes.theory.rates import Rate

T, eta, n, d, epsilon = sympy.symbols("T eta n d epsilon", positive=True)
PLACES = ("adaptive_batch.thm3.11", "drift_escape.thm2", "drift_escape.thm3", "noisy_sgd.thm3.5")
PLACES += ("goldstein.thm3.1", "goldstein.thm4.1")


def headline(place: str) -> Claim:
    """Return the first claim at a place that states a rate."""
    return next(one for one in claims(place) if isinstance(one.statement, Rate))


def numbers_of(place: str) -> Numbers:
    statement = headline(place).statement
    assert isinstance(statement, Rate)
    return Numbers(statement.balance())


TERMS = {"descent": 1 / (eta * T), "noise": eta * (1 + sympy.sqrt(d) / epsilon)}
SMALL = balance(TERMS, [T, eta], {"data": T / n}, {"d >= 1": 1 / d})


def points(numbers: Numbers, count: int = 12) -> list[dict[sympy.Symbol, float]]:
    """Return seeded points inside the regime."""
    generator, found = np.random.default_rng(0), []
    ranges = {"n": (4, 11), "d": (0, 5), "epsilon": (-1, 0), "alpha": (-2, 0), "beta": (-2, 0)}
    ranges |= {"B": (0, 2), "m": (0, 2)}
    for _ in range(400):
        point = {s: float(10 ** generator.uniform(*ranges.get(s.name, (-0.1, 0.1)))) for s in numbers.kept}
        with suppress(ValueError):
            numbers.solve(point)
            found.append(point)
    return found[:count]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.slow
def test_the_vertex_is_what_a_linear_program_finds(place: str):
    numbers = numbers_of(place)
    tried = points(numbers)
    assert len(tried) >= 6
    for point in tried:
        solved = numbers.solve(point)
        assert math.isclose(numbers.numeric_rate(point), solved.rate, rel_tol=1e-6)
        assert max(solved.sizes.values()) <= 1 + 1e-6
        for name in solved.vertex.meet:
            assert math.isclose(solved.sizes[name], 1, rel_tol=1e-6), f"{name} does not meet"
        values = {symbol.name: value for symbol, value in {**point, **solved.tuned}.items()}
        weighted = [(magnitude(numbers.formulas[name], **values), w) for name, w in solved.vertex.weights.items()]
        product = math.prod(float(size) ** float(weight) for size, weight in weighted)
        assert math.isclose(product, solved.rate, rel_tol=1e-6), "the product of the terms to the weights"


def test_control_a_wrong_vertex_is_told_apart():
    numbers = numbers_of("drift_escape.thm2")
    (point, *_) = points(numbers)
    rates = numbers.rates(point)
    assert math.isclose(max(rates), numbers.numeric_rate(point), rel_tol=1e-6)
    assert not math.isclose(min(rates), numbers.numeric_rate(point), rel_tol=1e-3)


def test_holding_a_tuned_symbol_can_only_cost():
    numbers = Numbers(SMALL)
    point = {n: 1e6, d: 100.0, epsilon: 1.0}
    solved = numbers.solve(point)
    held = numbers.rate_with(point, eta, solved.tuned[eta] * 10 ** np.array([-1.0, 0.0, 1.0]))
    assert np.allclose(held / solved.rate, [10, 1, 10])


def test_outside_the_regime_is_an_error_that_names_it():
    with pytest.raises(ValueError, match="d >= 1 in the regime, which fails at d = 0.1"):
        Numbers(SMALL).solve({n: 1e6, d: 0.1, epsilon: 1.0})


def test_the_table_and_the_product_say_where_terms_meet():
    table = balance_table(SMALL, "norm")
    assert table.columns[0] == "norm" and len(table.rows) == len(SMALL.vertices) == 2
    assert any("noise 2 (1/2)" in row[1] for row in table.rows)
    assert all(meeting(SMALL, vertex).endswith(f" = {latex_of(vertex.rate)}") for vertex in SMALL.vertices)


def test_several_best_choices_are_said_to_be_several():
    solved = Numbers(SMALL).solve({n: 1e6, d: 100.0, epsilon: 1.0})
    assert solved.unique
    loose = balance({"sum": eta * T * n}, [T, eta], {"below": 1 / (eta * T)})
    free = Numbers(loose).solve({n: 4.0})
    assert free.rate == pytest.approx(4.0) and free.tuned[eta] * free.tuned[T] == pytest.approx(1.0)


@pytest.fixture(scope="module")
def explorer():
    return balance_explorer([headline(place) for place in PLACES])


@pytest.mark.slow
def test_every_theorem_can_be_chosen_and_moved(explorer):
    for option in explorer.choice.options:
        explorer.choice.value = option
        shown = explorer.explorer
        assert shown.error is None and shown.data["weights"]
        first = next(iter(shown.controls.values()))
        before, picture = shown.data["rate"], shown.png
        place = [value for _, value in first.options].index(first.value)
        calls = python_calls(partial(setattr, first, "value", first.options[place + 2][1]))
        assert 0 < calls["sympy"] < calls.total() < 100_000, calls
        assert shown.error is None and shown.data["rate"] != before and shown.png != picture


@pytest.mark.slow
def test_the_explorer_lights_up_another_vertex_when_epsilon_falls(explorer):
    explorer.choice.value = next(o for o in explorer.choice.options if o.startswith("drift_escape.thm2"))
    controls = explorer.explorer.controls
    controls["n"].value, controls["d"].value, controls["epsilon"].value = 1e6, 1e3, 1.0
    assert "fresh gradients: data" in explorer.explorer.data["weights"]
    assert explorer.explorer.data["stated"]["printed"] < explorer.explorer.data["rate"] * 0.95, (
        "the print loses a term here"
    )
    assert explorer.explorer.data["stated"]["corrected"] == pytest.approx(explorer.explorer.data["rate"])
    controls["epsilon"].value = 0.1
    assert "fresh gradients: privacy" in explorer.explorer.data["weights"]
    assert "fresh gradients: privacy" in explorer.explorer.readout.value
    for axis in controls["axis"].options:
        controls["axis"].value = axis
        assert explorer.explorer.error is None and explorer.explorer.data["axis"] == axis


@pytest.mark.slow
def test_the_explorer_refuses_outside_the_regime_and_lives_on(explorer):
    explorer.choice.value = next(o for o in explorer.choice.options if o.startswith("drift_escape.thm2"))
    shown = explorer.explorer
    shown.controls["n"].value, shown.controls["d"].value, shown.controls["epsilon"].value = 100.0, 1e8, 0.01
    assert "privacy error small" in shown.error and "dpnotes-error" in shown.readout.value
    shown.controls["n"].value, shown.controls["d"].value, shown.controls["epsilon"].value = 1e6, 1e3, 1.0
    assert shown.error is None
