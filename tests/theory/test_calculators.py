"""Calculators: arguments, domains, sets of constants, and arrays in which some cells are refused."""

import random

import numpy as np
import pytest

from dpnotes import papers
from dpnotes.theory.calculators import Calculator, Measure, Output, Role, parameters, sample_sizes
from dpnotes.theory.refusals import NoConstants, NoRoot, OutsideRegime, Vacuous, require, require_informative
from dpnotes.theory.symbols import COUNT, PaperSymbols

PAPER = PaperSymbols("example")
X, N = PAPER.symbol("x", "a number"), PAPER.symbol("n", "a count", domain=COUNT)
PLAIN = Calculator(lambda x, n: {"product": np.float64(x) * n}, (X, N), parameters(product="x n"))
FACTORS = {"paper": 2.0, "corrected": 4.0, "one": 1.0}
SETS = Calculator(
    lambda x, n, constants: {"product": FACTORS[constants] * x * n}, (X, N), parameters(product="C x n"), tuple(FACTORS)
)
EVERY = {
    f"{paper}.{name}": value
    for paper in papers.PAPERS
    for name, value in vars(papers.part(paper, "calculators") or object).items()
    if isinstance(value, Calculator)
}


def test_scalars_in_plain_floats_out_and_arrays_broadcast():
    found = PLAIN(x=0.5, n=3)
    assert found == {"product": 1.5} and type(found["product"]) is float
    grid = SETS(x=np.array([[1.0], [2.0]]), n=np.arange(1, 4))
    assert grid["product"].tolist() == [[2, 4, 6], [4, 8, 12]] and (grid.reasons == "").all()


def test_the_first_set_of_constants_is_the_default():
    assert SETS(x=1.0, n=1) == SETS(x=1.0, n=1, constants="paper") == {"product": 2.0}
    assert SETS(x=1.0, n=1, constants="corrected") == {"product": 4.0}
    assert SETS(constants="one", n=1, x=1.0) == {"product": 1.0}


@pytest.mark.parametrize(
    ("calculator", "arguments", "error", "message"),
    [
        (SETS, {"x": 1.0, "n": 1, "constants": "two"}, ValueError, "constants='two' to be one of: paper, corrected"),
        (PLAIN, {"x": 1.0, "n": 1, "constants": "one"}, TypeError, r"Expected the arguments x, n: unknown constants\."),
        (SETS, {"constants": "one"}, TypeError, r"Expected the arguments x, n: missing x, n\."),
        (PLAIN, {"x": 1.0, "m": 1}, TypeError, r"missing n; unknown m\."),
        (PLAIN, {"x": -1.0, "n": 1}, ValueError, r"Expected x=-1.0 > 0\."),
        (PLAIN, {"x": -1.0, "n": np.array([1, 2])}, ValueError, r"Expected x=-1.0 > 0\."),
        (PLAIN, {"x": float("nan"), "n": 1}, ValueError, r"Expected x=nan to be finite\."),
        (PLAIN, {"x": True, "n": 1}, TypeError, "Expected x=True to be a real number"),
        (PLAIN, {"x": np.array(["a"]), "n": 1}, TypeError, "to be a real number or an array of them"),
        (PLAIN, {"x": np.ones(2), "n": np.ones(3)}, TypeError, r"Expected arrays that broadcast, got x of \(2,\), n"),
    ],
)
def test_bad_arguments_are_named(calculator, arguments, error, message):
    with pytest.raises(error, match=message):
        calculator(**arguments)


# ---------------------------------------------------------------- arrays in which some cells have no number
def _guarded(x, n):
    require(np.less(x, 100), "Expected x={x:g} < 100: {n:g} is too few.", x=x, n=n)
    require_informative("x", x, "n", 10 * np.asarray(n))
    require(np.not_equal(x, 7), "Expected a root, x={x:g}.", NoRoot, x=x)
    if np.any(np.equal(x, 8)):  # a condition that does not name its cells
        raise ValueError("Expected no eight.")
    return {"ratio": n / (np.asarray(x, dtype=float) - 9), "count": np.asarray(n)}


GUARDED = Calculator(_guarded, (X, N), parameters(ratio="n / (x - 9)", count="n"))


def test_a_cell_has_the_number_or_the_reason_of_its_plain_numbers():
    x, n = np.array([[1.0, 7.0, 8.0, 9.0], [200.0, -1.0, np.nan, 30.0]]), np.array([[3.0], [2.0]])
    found = GUARDED(x=x, n=n)
    assert found["ratio"].shape == found.reasons.shape == (2, 4)
    kinds = set()
    for place in np.ndindex(2, 4):
        size = float(np.broadcast_to(n, (2, 4))[place])
        try:
            alone = GUARDED(x=float(x[place]), n=size)
        except ValueError as error:
            kinds.add(type(error))
            assert found.reasons[place] == str(error) and "\n" not in str(error)
            assert np.isnan([found["ratio"][place], found["count"][place]]).all()
        else:
            assert not found.reasons[place]
            assert {name: values[place] for name, values in found.items()} == alone
    assert kinds == {ValueError, OutsideRegime, Vacuous, NoRoot}
    nothing = GUARDED(x=np.array([200.0, 300.0]), n=1)
    assert set(nothing) == {"ratio", "count"} and np.isnan(nothing["ratio"]).all(), "where no cell has a number"
    assert (nothing.reasons == ["Expected x=200 < 100: 1 is too few.", "Expected x=300 < 100: 1 is too few."]).all()


EACH = [pytest.param(name, marks=pytest.mark.slow) if name == "noisy_sgd.SPENT" else name for name in EVERY]


@pytest.mark.parametrize("name", EACH)
@pytest.mark.slow
def test_cells_of_every_calculator_are_its_plain_numbers(name: str):
    """At seeded numbers over decades, mostly outside the theorems, each cell has a single call's number or reason."""
    calculator, generator = EVERY[name], random.Random(name)
    for constants in calculator.constants or (None,):
        options = {"constants": constants} if constants else {}
        cells: dict[str, list[float]] = {symbol: [] for symbol in calculator.parameters}
        for _ in range(12):
            for symbol, known in calculator.parameters.items():
                low, high = (known.usual or (1e-3, 1e3)) if not known.common == "num_examples" else (1e2, 1e16)
                domain = known.domain
                high = min(high, domain.high)
                value = np.exp(generator.uniform(np.log(max(low, domain.low)), np.log(high))) if high > low else low
                cells[symbol].append(float(round(value)) if domain.integer else float(value))
        bad = generator.choice(list(cells))
        cells[bad][5] = float("nan")
        found = calculator(**{symbol: np.array(values) for symbol, values in cells.items()}, **options)
        assert "to be finite" in found.reasons[5], "control"
        for place in range(12):
            try:
                alone = calculator(**{symbol: values[place] for symbol, values in cells.items()}, **options)
            except ValueError as error:
                assert found.reasons[place] == str(error)
                assert all(np.isnan(values[place]) for values in found.values())
            else:
                assert not found.reasons[place]
                assert {key: values[place] for key, values in found.items()} == pytest.approx(alone, rel=1e-9)


# ---------------------------------------------------------------- what outputs are
def untagged(calculator: Calculator) -> list[str]:
    """Return outputs without a role, and accuracies without a measure."""
    return [
        name
        for name, output in calculator.outputs.items()
        if not isinstance(output, Output)
        or not isinstance(output.role, Role)
        or (output.role is Role.ACCURACY) != isinstance(output.measure, Measure)
    ]


def test_every_output_of_every_calculator_says_what_it_is():
    assert len(EVERY) > 30
    for name, calculator in EVERY.items():
        assert calculator.outputs and not untagged(calculator), name
    assert untagged(Calculator(_guarded, (X, N), {"ratio": "n / (x - 9)"}))  # type: ignore[dict-item]
    roles = {output.role for calculator in EVERY.values() for output in calculator.outputs.values()}
    assert roles == set(Role), "a role that nothing has"


def test_lower_bounds_are_floors():
    floors = {f"{name}.{key}" for name, one in EVERY.items() for key, output in one.outputs.items() if output.floor}
    assert floors == {"adaptive_batch.LOWER_BOUND.alpha", "budget_schedules.LEAST_DYNAMIC.lower"}
    assert "[floor of the accuracy: " in str(EVERY["adaptive_batch.LOWER_BOUND"].outputs["alpha"])
    kappa, alpha = np.array([2.0, 10.0, 1e3])[:, None], np.array([1e-12, 1e-6, 1e-3, 0.5])
    least = EVERY["budget_schedules.DYNAMIC"](kappa=kappa, alpha=alpha)["erub"]
    between = EVERY["budget_schedules.LEAST_DYNAMIC"](kappa=kappa, alpha=alpha)
    assert (between["lower"] <= least).all() and (least <= between["upper"]).all()
    assert (4.1 * between["lower"] < least).any(), "control: the floor is not always near"


def test_an_accuracy_needs_a_measure():
    with pytest.raises(ValueError, match="Expected a measure of an accuracy, and of nothing else"):
        Output("alpha", Role.ACCURACY)
    with pytest.raises(ValueError, match="Expected a measure of an accuracy, and of nothing else"):
        Output("n", Role.SAMPLE_SIZE, Measure.GOLDSTEIN)
    assert [str(one(a="four")["a"]) for one in (sample_sizes, parameters)] == ["four [sample size]", "four"]


def test_a_constant_that_no_proof_gives_has_an_error_of_its_own():
    refused = {name for name, calculator in EVERY.items() if "corrected" in calculator.missing}
    assert refused
    for name in refused:
        with pytest.raises(NoConstants, match="Expected constants='corrected' to be one of: .*; "):
            EVERY[name].choose("corrected")
