"""Papers side by side: one vocabulary, and the points at which two accuracies are equal."""

import importlib
import itertools
import math
import re

import pytest
import sympy

from dpnotes import papers
from dpnotes.papers.adaptive_batch.calculators import LOWER_BOUND, SAMPLE_SIZE, THEOREM
from dpnotes.papers.budget_schedules.calculators import DYNAMIC
from dpnotes.papers.drift_escape.calculators import PLAN, RATE, SHARED_RATE
from dpnotes.papers.goldstein.calculators import ACCURACY
from dpnotes.papers.noisy_sgd.calculators import CLOSED_LOOP
from dpnotes.theory.crossings import Crossing, Curve, crossing
from dpnotes.theory.refusals import MixedLetters, NoConstants, NoRoot, OutsideRegime
from dpnotes.theory.symbols import COMMON_NAMES, PaperSymbol, PaperSymbols

# Each paper's letters: four different letters for the initial gap, and L with two meanings.
LETTERS = {
    "adaptive_batch": "n d epsilon delta G M rho B",
    "budget_schedules": "N D epsilon delta G M - Delta",
    "drift_escape": "n d epsilon delta G M rho U",
    "goldstein": "n d epsilon delta L - - Phi",
    "noisy_sgd": "n d epsilon delta - L rho f_max",
}
# The meanings of the common names; other meanings of the same words do not count.
MEANINGS = {
    "num_examples": r"number of (training )?(examples|samples)(,.*each.*)?$",
    "dim": r"dimension( of the parameters)?$",
    "epsilon": r"privacy loss$",
    "delta": r"failure probability of privacy$",
    "lipschitz": r"Lipschitz constant of the loss",
    "smoothness": r"smoothness( of the loss of one example)?$",
    "hessian_lipschitz": r"Lipschitz constant of the Hessian$",
    "initial_gap": r"(initial (gap|excess risk)|bound of [Ff]).*",
}
NOT_THE_PROBLEMS = {("goldstein", "H")}  # the constant of a smoothed loss


def notation(paper: str) -> list[PaperSymbol]:
    """Return the letters of a paper, and sequences by their names."""
    values = vars(importlib.import_module(f"dpnotes.papers.{paper}.notation")).values()
    return [value for value in values if isinstance(value, PaperSymbol)]


def common_letters(symbols: list[PaperSymbol]) -> dict[str, list[str]]:
    return {name: [symbol.name for symbol in symbols if symbol.common == name] for name in COMMON_NAMES}


@pytest.mark.parametrize("paper", papers.PAPERS)
def test_every_paper_maps_its_letters_to_the_common_names(paper: str):
    symbols = notation(paper)
    expected = dict(zip(COMMON_NAMES, LETTERS[paper].split(), strict=True))
    assert common_letters(symbols) == {name: [] if letter == "-" else [letter] for name, letter in expected.items()}
    for symbol in symbols:
        meant = [name for name, pattern in MEANINGS.items() if re.match(pattern, symbol.meaning)]
        if (paper, symbol.name) not in NOT_THE_PROBLEMS:
            assert meant == [symbol.common] * bool(symbol.common), (symbol, symbol.meaning)


def test_a_common_name_has_one_unit_in_all_papers():
    def units(*more: PaperSymbol) -> dict[str, set[str]]:
        found = [*itertools.chain(*map(notation, papers.PAPERS)), *more]
        return {name: {str(symbol.unit) for symbol in found if symbol.common == name} for name in COMMON_NAMES}

    assert all(len(found) == 1 for found in units().values())
    wrong = PaperSymbols("noisy_sgd").symbol("L", "smoothness", common="lipschitz")
    assert len(units(wrong)["lipschitz"]) == 2, "control"


def test_a_symbol_with_a_common_name_is_copied_with_it():
    import pickle

    (letter,) = [symbol for symbol in notation("noisy_sgd") if symbol.common == "smoothness"]
    assert pickle.loads(pickle.dumps(letter)) == letter and pickle.loads(pickle.dumps(letter)).common == "smoothness"
    assert isinstance(letter, sympy.Symbol)


# ---------------------------------------------------------------- crossings
# The accuracy calculator of each paper.
CURVES = {
    "adaptive_batch": Curve(THEOREM, {"iota": 0.01}),
    "budget_schedules": Curve(DYNAMIC, {"kappa": 10.0, "alpha": 0.01}, output="erub"),
    "drift_escape": Curve(RATE),
    "goldstein": Curve(ACCURACY, {"alpha": 0.1}, output="single_pass"),
    "noisy_sgd": Curve(CLOSED_LOOP, {"B": 100, "sigma": 1.0, "c": 1.0, "c_1": 1.0, "c_2": 1.0, "c_eta": 0.1}),
}
PAIRS = list(itertools.combinations(CURVES, 2))
COMPARABLE = [(a, b) for a, b in PAIRS if CURVES[a].measure is CURVES[b].measure]
ONES = {
    "dim": 100.0, "epsilon": 0.01, "delta": 1e-6, "lipschitz": 1.0, "smoothness": 1.0, "hessian_lipschitz": 1.0,
    "initial_gap": 1.0,
}  # fmt: skip


def test_which_papers_are_comparable():
    """Population and data are different measures, and so are a gradient, a Goldstein subgradient and an excess risk."""
    assert COMPARABLE == [("adaptive_batch", "drift_escape")]
    for first, second in set(PAIRS) - set(COMPARABLE):
        with pytest.raises(MixedLetters, match="Expected accuracies of one measure, got "):
            crossing(CURVES[first], CURVES[second], "num_examples", 1e4, 1e12, **ONES)


def bisected(first: Curve, second: Curve, along: str, low: float, high: float, **common: float) -> float:
    """Return the crossing by bisection of the logarithm to 1e-13: the point where the better curve changes."""

    def leads(value: float) -> bool:
        return first(**{**common, along: value}) < second(**{**common, along: value})

    begins = leads(low)
    while high / low > 1 + 1e-13:
        middle = math.sqrt(low * high)
        if middle in (low, high):
            break
        low, high = (middle, high) if leads(middle) == begins else (low, middle)
    return math.sqrt(low * high)


@pytest.mark.parametrize(
    ("along", "low", "high", "given"),
    [
        ("num_examples", 1e3, 1e12, {}),
        ("num_examples", 1e3, 1e12, {"epsilon": 1.0}),
        ("num_examples", 1e3, 1e12, {"epsilon": 1e-4, "dim": 1.0}),
        ("num_examples", 1e2, 1e12, {"epsilon": 0.1, "lipschitz": 3.0, "smoothness": 2.0, "initial_gap": 0.5}),
        ("epsilon", 0.5, 10.0, {"num_examples": 1e6}),
        ("epsilon", 1e-6, 1e-2, {"num_examples": 1e6}),
        ("dim", 1.0, 1e9, {"num_examples": 1e6, "epsilon": 0.1}),
        ("initial_gap", 1.0, 100.0, {"num_examples": 1e6, "epsilon": 1.0}),
        ("lipschitz", 0.01, 100.0, {"num_examples": 1e4}),
        ("smoothness", 0.01, 100.0, {"num_examples": 1e4}),
        ("hessian_lipschitz", 0.01, 100.0, {"num_examples": 1e4}),
    ],
)
@pytest.mark.parametrize(("first", "second"), COMPARABLE)
@pytest.mark.slow
def test_a_crossing_is_that_of_plain_bisection(first, second, along, low, high, given):
    curves = CURVES[first], CURVES[second]
    common = {name: value for name, value in {**ONES, **given}.items() if name != along}
    found = crossing(*curves, along, low, high, **common)
    below, above = max(low, found.value / 1.02), min(high, found.value * 1.02)
    assert found.value == pytest.approx(bisected(*curves, along, below, above, **common), rel=1e-9)
    at = [curve(**{**common, along: found.value}) for curve in curves]
    assert at == pytest.approx([found.accuracy] * 2, rel=1e-9)
    off = [curve(**{**common, along: found.value * (1 + 1e-6)}) for curve in curves]
    assert off[0] != pytest.approx(off[1], rel=1e-9), "control: a little off they differ"
    here, there = (curve(**{**common, along: below}) for curve in curves)
    assert found.better_below == (first if here < there else second)
    back = crossing(curves[1], curves[0], along, low, high, **common)
    assert back.value == pytest.approx(found.value, rel=1e-9) and back.better_below == found.better_below


def test_clients_count_as_one_where_there_is_one():
    alone = crossing(CURVES["adaptive_batch"], Curve(RATE), "num_examples", 1e3, 1e12, **ONES)
    shared = crossing(CURVES["adaptive_batch"], Curve(SHARED_RATE, {"m": 1}), "num_examples", 1e3, 1e12, **ONES)
    assert isinstance(alone, Crossing) and shared.value == pytest.approx(alone.value, rel=1e-9)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Curve(THEOREM, {"U": 1.0}), MixedLetters, r"Expected only iota of adaptive_batch, got U\."),
        (lambda: Curve(RATE, {"iota": 1.0}), MixedLetters, r"Expected only common names of drift_escape, got iota\."),
        (
            lambda: Curve(THEOREM, {"B": 1.0}),
            MixedLetters,
            "Expected initial_gap in place of B, which is its letter in adaptive_batch",
        ),
        (lambda: Curve(THEOREM), TypeError, r"Expected the letters iota of adaptive_batch: missing iota\."),
        (lambda: Curve(RATE, constants="corrected"), NoConstants, "the theorem's O hides C and s"),
        (
            lambda: Curve(SAMPLE_SIZE, {"alpha": 0.1}),
            ValueError,
            "output='' of adaptive_batch to be one of|an accuracy",
        ),
        (lambda: Curve(PLAN), ValueError, "Expected output='' of drift_escape to be an accuracy, of which there is"),
        (lambda: Curve(ACCURACY, {"alpha": 0.1}), ValueError, "Expected output='' of goldstein to be one of prior"),
    ],
)
def test_a_curve_refuses_what_is_not_its_own(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"U": 1.0}, MixedLetters, "Expected common names, got U, a letter of drift_escape: initial_gap is its common"),
        ({"iota": 0.1}, MixedLetters, "got iota, a letter of adaptive_batch: it goes with its own curve"),
        ({"nobody": 1.0}, TypeError, "Expected the common names num_examples, .*, got nobody"),
        ({"num_examples": 1.0}, TypeError, "Expected num_examples once: it is what is varied"),
        ({"epsilon": -1.0}, ValueError, r"Expected epsilon=-1.0 > 0\."),
        ({"initial_gap": None}, TypeError, "to be a real number"),
        ({"high": 1e4}, NoRoot, "drift_escape has the better accuracy wherever both promise one"),
        ({"low": 1e6}, NoRoot, "adaptive_batch has the better accuracy wherever both promise one"),
        ({"lipschitz": 1e-9}, NoRoot, "nowhere both promise one. Expected alpha=.* < G=1e-09: the bound is vacuous"),
        ({"low": 10.0, "high": 1.0}, ValueError, "Expected low=10.0 < high=1.0"),
        ({"along": "B"}, ValueError, "Expected along='B' to be one of: num_examples, "),
    ],
)
def test_what_does_not_cross_is_one_line_that_says_why(changes, error, message):
    arguments = {"along": "num_examples", "low": 1e3, "high": 1e12, **ONES, **changes}
    with pytest.raises(error, match=message) as raised:
        crossing(CURVES["adaptive_batch"], CURVES["drift_escape"], **arguments)
    assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_two_crossings_are_named_and_a_missing_name_too():
    pair = CURVES["adaptive_batch"], CURVES["drift_escape"]
    some = {name: value for name, value in ONES.items() if name != "epsilon"}
    with pytest.raises(ValueError, match="Expected one crossing of .*, got them near 7.23e-05, 1.83"):
        crossing(*pair, "epsilon", 1e-6, 10.0, **some, num_examples=1e6)
    with pytest.raises(TypeError, match="missing epsilon"):
        crossing(*pair, "num_examples", 1e3, 1e12, **some)


def test_counts_may_be_real_on_a_curve_and_the_calculator_still_refuses_them():
    between = [CURVES["drift_escape"](**ONES, num_examples=size) for size in (1e6, 1e6 + 0.5, 1e6 + 1)]
    assert between[0] > between[1] > between[2]
    with pytest.raises(ValueError, match="Expected n=.* and an integer"):
        RATE(n=1e6 + 0.5, d=100, epsilon=1.0, delta=1e-6, G=1.0, M=1.0, rho=1.0, U=1.0)


def test_a_floor_lies_below_what_is_promised():
    floor, promised = Curve(LOWER_BOUND), CURVES["adaptive_batch"]
    high = {**ONES, "dim": 1e12, "epsilon": 1e3}
    for size in (1e7, 1e8, 9e8):
        assert floor(**high, num_examples=size) <= promised(**high, num_examples=size)
    with pytest.raises(OutsideRegime, match="the bound is for high dimension"):
        floor(**ONES, num_examples=1e12)
