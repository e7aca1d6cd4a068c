"""The atlas: the numbers of its ranking, where methods take over, what stands, and what is refused."""

import itertools
import json
import math
import re
import sys
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command import call

from dpnotes import papers
from dpnotes.atlas.methods import methods
from dpnotes.atlas.question import FIELDS, ask, for_orders, limit
from dpnotes.atlas.ranking import COLUMNS, choose, outcome
from dpnotes.atlas.report import sentences
from dpnotes.atlas.takeovers import leaders, orders_of, takeovers
from dpnotes.papers.adaptive_batch.calculators import LOWER_BOUND
from dpnotes.privacy.calibration import gaussian_delta
from dpnotes.theory.cache import Verdicts
from dpnotes.theory.calculators import Measure
from dpnotes.theory.claims import Severity
from dpnotes.theory.methods import Standing, standing
from dpnotes.theory.orders import GRADIENT, UNITS
from dpnotes.theory.refusals import MixedLetters
from dpnotes.theory.units import NONE, Unit
from tests.shown import SHOWN

EXAMPLE = {"n": 60_000, "d": 800_000, "epsilon": 2.0, "delta": 1e-5}
LARGE = {"n": 10**6, "d": 1000, "epsilon": 1.0, "delta": 1e-5}
SMALL = {"n": 1000, "d": 20, "epsilon": 1.0, "delta": 1e-5}
ANOTHER = {**LARGE, "lipschitz": 2.0, "smoothness": 3.0, "hessian_lipschitz": 0.5, "initial_gap": 4.0, "radius": 0.5}
ADAPTIVE, DRIFT = "SPIDER with a tree and adaptive batches", "drift escape with adaptive DP-SPIDER"
FIXED, NOISY = "SPIDER with Gaussian noise and fixed batches", "noisy SGD"
PLAIN, TREE, MANY = "one plain pass (ours)", "one pass with a tree (Theorem 3.1)", "many passes (Theorem 4.1)"
STEEP = {**EXAMPLE, "d": 10**4, "lipschitz": 0.4, "hessian_lipschitz": 30.0}  # M^2/rho is small: conditions fail
LASRY = "Lasry-Lions smoothing and a warm start (Theorem B.5)"


def chosen(numbers: dict[str, Any], *more: str, code: int = 0) -> Any:
    return call("choose", *(f"{name}={value}" for name, value in numbers.items()), *more, code=code)


def row(table: pd.DataFrame, name: str, measure: Measure | None = None) -> Any:
    found = table[table["method"] == name]
    return (found if measure is None else found[found["measure"] == str(measure)]).iloc[0]


# ---------------------------------------------------------------- numbers
@pytest.mark.parametrize(
    ("numbers", "expected", "printed"),
    [
        (
            EXAMPLE,
            {ADAPTIVE: 0.086334, DRIFT: 0.1409112, FIXED: 0.1225056, NOISY: 0.086334, PLAIN: 0.1953385, TREE: 2.581989,
             MANY: 0.3676412},
            {},
        ),
        (
            LARGE,
            {ADAPTIVE: 0.01, DRIFT: 0.01719072, FIXED: 0.01333521, NOISY: 0.005623413, PLAIN: 0.03162278,
             TREE: 0.03162278, MANY: 0.003162278},
            {DRIFT: 0.01584893, FIXED: 0.0117877},
        ),
        (
            ANOTHER,
            {ADAPTIVE: 0.028844991, DRIFT: 0.057656963, PLAIN: 0.10039606, TREE: 0.12649111},
            {ADAPTIVE: 0.03259},
        ),
        ({**ANOTHER, "clients": 16}, {DRIFT: 0.032709256}, {}),
    ],
)  # fmt: skip
def test_orders_and_printed_numbers(numbers, expected, printed):
    table = choose(**numbers, details=False)
    assert {name: row(table, name)["order"] for name in expected} == pytest.approx(expected, rel=1e-5)
    assert {name: row(table, name)["printed"] for name in printed} == pytest.approx(printed, rel=3e-4)


def test_the_table_of_the_example():
    table = choose(**EXAMPLE)
    assert [*table.columns] == [*COLUMNS]
    assert row(table, TREE)["state"] == "vacuous" and "every point has that, L" in row(table, TREE)["reason"]
    assert math.isnan(row(table, PLAIN)["printed"]), "no number of ours under another's name"
    assert row(table, MANY)["measure"] == str(Measure.GOLDSTEIN_EMPIRICAL)
    for name in (ADAPTIVE, DRIFT, PLAIN, NOISY):
        assert row(table, name)["delta_reached"] <= 1e-5 * (1 + 1e-6), "private by the accountant"
    assert row(table, ADAPTIVE)["delta_printed"] > 0.5, "control: the printed noise is not"
    assert row(table, ADAPTIVE)["outcome"] == outcome("adaptive_batch.slopes") != "not run"
    assert {*table["relation"]} >= {"replace-one", "zero-out-one"}
    lines = sentences(table)
    assert lines[0] == "With constants: no promise about gradients says anything here."
    assert any("From n = 2.56e+12 = dim^2 epsilon^2" in line for line in lines)
    assert row(table, "gradient descent, dynamic schedule")["proved"] == pytest.approx(0.1436, rel=1e-3)


def test_with_constants_holds_where_a_proof_says_so():
    table = choose(10**15, 2, 2.0, 1e-5)
    for name in (PLAIN, TREE, MANY, NOISY):
        found = row(table, name)
        assert found["order"] < found["proved"] < 1
    lines = sentences(table)
    assert lines[0].startswith("With constants: second-order stationarity for the data <= ")
    assert "(noisy SGD, conditional, if c = c_eta = 1)" in lines[0]


def test_promises_are_ranked_within_a_measure_and_those_that_stand_come_first():
    table = choose(**LARGE, details=False)
    for _, rows in table.groupby("measure"):
        states = ["informative", "floor", "vacuous", "masked", "refused"]
        order = [(states.index(r.state), [*Standing].index(Standing(r.standing)), r.order) for r in rows.itertuples()]
        assert [key[:2] for key in order] == sorted(key[:2] for key in order)
        for _, group in itertools.groupby(order, key=lambda key: key[:2]):
            values = [value for *_, value in group if value == value]
            assert values == sorted(values)


def test_a_stronger_promise_is_in_the_list_of_the_weaker_and_never_crosses_objectives():
    table = choose(**LARGE, details=False)
    weaker = row(table, ADAPTIVE, Measure.FIRST_ORDER)
    assert weaker["note"].startswith("It promises more: second-order stationarity for the population.")
    population = table[table["measure"] == str(Measure.FIRST_ORDER)]["method"]
    assert "DP-SPIDER" in {*population} and NOISY not in {*population}
    floors = table[table["method"].str.startswith("no algorithm")]
    assert [*floors["measure"]] == [str(Measure.SECOND_ORDER)], "a floor of saddles is none of gradients"


def test_limits():
    given = ask(**ANOTHER).given
    values = {measure: limit(measure, given)[0] for measure in Measure}
    assert values[Measure.SECOND_ORDER] == pytest.approx(18) == values[Measure.SECOND_ORDER_EMPIRICAL]
    assert values[Measure.FIRST_ORDER] == 2 and values[Measure.GOLDSTEIN] == 2 and values[Measure.EXCESS_RISK] == 1
    assert limit(Measure.GOLDSTEIN, {**given, "radius": 8.0}) == (pytest.approx(0.5), "the start has that, gap/radius")
    assert limit(Measure.FIRST_ORDER, {**given, "initial_gap": 0.01})[0] == pytest.approx(math.sqrt(0.06))
    table = choose(100, 10**4, 1.0, 1e-5, hessian_lipschitz=0.01, details=False)
    found = row(table, ADAPTIVE)
    assert found["order"] >= 1 and found["state"] == "informative" and found["reason"] == "its gradient part is empty"
    assert row(table, ADAPTIVE, Measure.FIRST_ORDER)["state"] == "vacuous"


def test_a_floor_is_the_bound_that_is_quoted_and_is_no_promise():
    high = {"n": 10**4, "d": 10**9, "epsilon": 100.0, "delta": 1e-5}
    table = choose(**high, goal="sosp", details=False)
    floor = table[table["state"] == "floor"].iloc[0]
    assert floor["reason"] == "a lower bound, no promise"
    assert floor["order"] == pytest.approx(LOWER_BOUND(n=10**4, d=10**9)["alpha"])
    assert (table[table["state"] == "informative"]["order"] >= floor["order"] * (1 - 1e-9)).sum() > 0
    assert row(choose(**EXAMPLE, goal="sosp", details=False), floor["method"])["state"] == "refused"
    assert row(choose(**high, lipschitz=2.0, goal="sosp", details=False), floor["method"])["state"] == "masked"
    assert all(floor["method"] not in one.best for one in takeovers(ask(**high), Measure.SECOND_ORDER))


def test_examples_that_are_needed():
    table = choose(**LARGE, goal="sosp", alpha=0.05)
    for name in (ADAPTIVE, DRIFT, FIXED, NOISY):
        n = row(table, name)["needed"]
        again = choose(**{**LARGE, "n": math.ceil(n * (1 + 1e-9))}, goal="sosp", details=False)
        assert row(again, name)["order"] == pytest.approx(0.05, rel=1e-3)
    risk = choose(**LARGE, goal="risk", alpha=1e-4)
    n = row(risk, "gradient descent, uniform schedule")["needed"]
    for size, enough in ((n, True), (n - 1, False)):
        found = row(choose(**{**LARGE, "n": size}, goal="risk"), "gradient descent, uniform schedule")
        assert (found["proved"] <= 1e-4) == enough


# ---------------------------------------------------------------- who takes over
@pytest.mark.parametrize("numbers", [EXAMPLE, {**ANOTHER, "clients": 16}, {**STEEP, "distance": 1e-3, "radius": 0.5}])
def test_every_takeover_is_that_of_bisection(numbers):
    question, compared = ask(**numbers), 0
    given = for_orders(question.given)
    for measure, along, reading in itertools.product(Measure, ("num_examples", "dim"), ("order", "printed")):
        orders, largest = orders_of(question, measure, reading), math.log(limit(measure, question.given)[0])
        known = takeovers(question, measure, along, reading)
        for one in known[1:]:  # a formula has the value that is named
            factors = [factor.partition("^") for factor in one.formula.split(" ")]
            powers = {name: float(Fraction(power.strip("()") or "1")) for name, _, power in factors if name != "1"}
            value = math.prod(({**given, "2": 2.0}[name]) ** power for name, power in powers.items())
            assert value == pytest.approx(one.value, rel=1e-9), (measure, along, one)

        def best(place: float, orders=orders, largest=largest, along=along) -> tuple[str, ...]:
            logs = {name: math.log(value) for name, value in given.items()} | {along: place}
            return leaders({name: order.log(logs) for name, order in orders.items()}, largest)

        field = FIELDS[along]
        grid = np.linspace(math.log(field.least) + 1e-7, math.log(field.most) - 1e-7, 500)
        found = [best(place) for place in grid]
        for low, high, before, after in zip(grid, grid[1:], found, found[1:], strict=False):
            if before == after:
                continue
            while high - low > 1e-12 * abs(high) + 1e-13:
                middle = (low + high) / 2
                low, high = (middle, high) if best(middle) == before else (low, middle)
            near = min(known, key=lambda one: abs(math.log(one.value) - high))
            assert math.log(near.value) == pytest.approx(high, abs=1e-7), (measure, along, reading)
            compared += 1
        assert len(known) - 1 >= len({*map(str, found)}) - 1
    assert compared >= (4 if "clients" in numbers else 8)


# ---------------------------------------------------------------- conditions
def test_a_promise_whose_condition_fails_is_refused_with_its_numbers():
    table = choose(**STEEP, details=False)
    for measure in (Measure.SECOND_ORDER, Measure.FIRST_ORDER):
        found = row(table, DRIFT, measure)
        assert found["state"] == "refused" and math.isnan(found["order"])
        assert found["reason"] == "expected alpha=0.04138 <= M^2/rho=0.03333: the paper assumes it"
    n = row(choose(**STEEP, goal="sosp", alpha=0.2, details=False), DRIFT)["needed"]  # for the condition, not for 0.2
    for more, state in ((math.ceil(n), "informative"), (math.floor(0.999 * n), "refused")):
        assert row(choose(**{**STEEP, "n": more}, details=False), DRIFT)["state"] == state
    one = next(one for one in takeovers(ask(**STEEP, clients=2), Measure.SECOND_ORDER) if one.best)
    again = choose(**STEEP, clients=2, goal="sosp", alpha=0.2, details=False)
    assert one.best == (DRIFT,) and one.value == pytest.approx(row(again, DRIFT)["needed"])
    assert "hessian_lipschitz" in one.formula
    # A deviation of the population's gradients is no accuracy of noisy SGD, whose condition holds.
    combined = row(table, f"{NOISY}, and uniform deviation")
    assert combined["state"] == "informative" and combined["order"] == pytest.approx(0.4 * math.sqrt(10**4 / 60_000))
    flat = choose(100, 10**4, 1.0, 1e-5, initial_gap=0.01, hessian_lipschitz=0.01, details=False)
    assert "alpha=0.3162 <= sqrt(M gap)=0.1: beyond" in row(flat, NOISY, Measure.SECOND_ORDER_EMPIRICAL)["reason"]


def test_conditions_have_no_unit():
    units: dict[str, Unit] = {**UNITS, "accuracy": GRADIENT}
    conditions = [one for method in methods() for one in method.domain]
    assert len(conditions) >= 10
    for one in conditions:
        assert math.prod((units[name] ** power for name, power in one.powers.items()), start=NONE) == NONE, one
        assert "{limit" in one.text and f"{{{next(iter(one.powers))}" in one.text, "its numbers are said"


def test_conditions_are_those_of_the_place_along_an_axis():
    far = {**LARGE, "d": 10, "distance": 0.1}
    found = takeovers(ask(**far), Measure.GOLDSTEIN_EMPIRICAL, "dim")
    start = next(one for one in found if LASRY in one.best)
    assert start.value == pytest.approx(100) and start.formula == "distance^-2 radius^2"
    clients = takeovers(ask(**LARGE), Measure.SECOND_ORDER, "clients")
    assert [one.best for one in clients] == [(DRIFT,)], "from the second client on"
    radius = takeovers(ask(**LARGE, initial_gap=0.1), Measure.GOLDSTEIN, "radius")
    assert radius[-1].best == () and radius[-1].formula == "initial_gap lipschitz^-1"


def test_limits_are_those_of_the_place_along_an_axis():
    found = takeovers(ask(**LARGE, hessian_lipschitz=30.0), Measure.FIRST_ORDER, "smoothness")
    assert found[0].best == () or found[0].value == pytest.approx(1e-3)
    loss = takeovers(ask(**EXAMPLE), Measure.GOLDSTEIN_EMPIRICAL, "lipschitz")
    assert [one.formula for one in loss if not one.best and one.formula] == [
        "dim^(-2/3) distance^(-1/3) epsilon initial_gap num_examples radius^(-2/3)"
    ]


# ---------------------------------------------------------------- parameters
@pytest.mark.parametrize("numbers", [EXAMPLE, LARGE, SMALL])
def test_the_noise_is_for_the_steps_and_the_batch_that_are_shown(numbers):
    table = choose(**numbers)
    shown = table[table["noise"].notna()]
    assert len(shown) >= 8
    for name in ("delta_reached", "batch", "steps"):
        assert shown[name].notna().all()
    assert (shown["delta_reached"] <= 1e-5).all() and (shown["delta_reached"] > 0.999e-5).all()
    assert (shown[["batch", "steps"]] % 1 == 0).all(axis=None)
    for name in ("many plain passes (ours)", "many plain passes and uniform deviation (ours)"):
        found = row(table, name)
        if found["state"] == "informative":
            level = found["noise"] * numbers["n"] / (2 * math.sqrt(found["steps"]))
            assert found["batch"] == numbers["n"] and found["gradients"] == found["batch"] * found["steps"]
            assert 0.999e-5 < gaussian_delta(numbers["epsilon"], level) <= 1e-5


def test_the_terminal_rounds_noise_up_and_shows_whole_steps():
    table = choose(**EXAMPLE)
    printed = chosen(EXAMPLE).stdout
    shown = [float(value.replace(",", "")) for value in re.findall(r"noise ([\d.,e+-]+),", printed)]
    exact = [value for value in table["noise"] if value == value]
    assert len(shown) == len(exact) and all(a >= b for a, b in zip(shown, exact, strict=True))
    assert any(float(f"{value:.4g}") < value for value in exact), "control: to the nearest is not up"
    assert not re.search(r"(steps|batch) [\d,]*\.", printed)


def test_a_risk_says_what_it_assumes():
    cases: list[tuple[dict[str, Any], str]] = [({}, "10, the default"), ({"condition_number": 20.0}, "20")]
    for kappa, words in cases:
        (line,) = sentences(choose(**EXAMPLE, goal="risk", **kappa))[:1]
        assert line.endswith(f"under the Polyak-Lojasiewicz condition with condition number {words}).")


@pytest.mark.parametrize(
    "changes",
    [{"n": 1e300, "epsilon": 1e-300}, {"smoothness": 1e200}, {"n": 1e308, "d": 1e308, "epsilon": 1e308},
     {"hessian_lipschitz": 1e-300}, {"lipschitz": 1e-70, "goal": "risk"},
     {"lipschitz": 1e300}, {"goal": "goldstein", "alpha": 1e-300}, {"clients": 10**300}],
)  # fmt: skip
def test_extremes_have_an_answer_of_single_lines(changes):
    chosen({**EXAMPLE, **changes})
    for column in ("reason", "parameters_reason", "proved_reason"):
        for text in choose(**{**EXAMPLE, **changes})[column].dropna():
            assert "\n" not in text and "math" not in text


# ---------------------------------------------------------------- what stands
def test_standings_of_today():
    table = choose(**LARGE, details=False)
    words = {name: row(table, name)["standing"] for name in table["method"]}
    assert words[ADAPTIVE] == words[DRIFT] == words[NOISY] == "conditional"
    assert words[LASRY] == words[PLAIN] == words[TREE] == words[MANY] == "stands"
    assert (words[FIXED], words["DP-SPIDER"]) == ("conditional", "quoted")
    assert "drift_escape.thm2.noise" in row(table, DRIFT)["because"]


def test_a_standing_follows_the_severities_and_premises_of_its_claims():
    known = {method.name: method for method in methods()}
    constant = papers.claim("goldstein.lemma3.5.sigma")
    assert constant.erratum is not None and constant.erratum.severity is Severity.CONSTANT
    worse = replace(constant, erratum=replace(constant.erratum, severity=Severity.PROOF))
    undone = replace(constant, erratum=replace(constant.erratum, severity=Severity.PROOF, corrected=None))
    with Verdicts() as verdicts:
        tree = known[TREE]
        before = standing(replace(tree, premises=(constant,)), verdicts)
        assert before[0] is Standing.STANDS and "goldstein.lemma3.5.sigma (constant)" in before[1]
        assert standing(replace(tree, premises=(worse,)), verdicts) == (
            Standing.CONDITIONAL,
            "given goldstein.lemma3.5.sigma, which is refuted",
        )
        assert standing(replace(tree, claims=(*tree.claims, worse)), verdicts)[0] is Standing.STANDS, "as corrected"
        assert standing(replace(tree, claims=(*tree.claims, undone)), verdicts)[0] is Standing.OPEN
        assert standing(replace(known[ADAPTIVE], premises=()), verdicts)[0] is not Standing.OPEN
        quoted = replace(tree, source="somebody (2020)")
        assert standing(quoted, verdicts) == (Standing.QUOTED, "somebody (2020); its proof was not checked")


def test_a_new_paper_brings_its_own_methods(tmp_path, monkeypatch):
    """A package under papers with a module `methods` is found by walking, and no other file names it."""
    assert {*SHOWN} <= {method.paper for method in papers.methods()} <= {*papers.PAPERS}
    monkeypatch.setattr(papers, "PAPERS", (*papers.PAPERS, "newcomer"))
    folder = tmp_path / "newcomer"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "methods.py").write_text(
        "from dataclasses import replace\nfrom dpnotes.papers.goldstein.methods import METHODS as THEIRS\n"
        "METHODS = (replace(THEIRS[0], name='a newcomer'),)\n"
    )
    monkeypatch.setattr(papers, "__path__", [*papers.__path__, str(tmp_path)])
    assert papers.methods()[-1].name == "a newcomer"
    monkeypatch.delitem(sys.modules, "dpnotes.papers.newcomer.methods")
    monkeypatch.delitem(sys.modules, "dpnotes.papers.newcomer")


# ---------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"n": 1}, ValueError, r"Expected n=1 >= 2 and an integer\."),
        ({"delta": 2.0}, ValueError, r"Expected 0 < delta=2.0 < 1\."),
        ({"epsilon": "x"}, TypeError, "epsilon='x' to be a real number"),
        ({"goal": "sosp", "alpha": 2.0}, ValueError, r"Expected alpha=2 < 1: every point has that"),
        ({"goal": "risk", "alpha": 1.5}, ValueError, "Expected alpha=1.5 < 1: the start has that risk"),
        ({"goal": "sosp", "alpha": 0.0}, ValueError, r"Expected alpha=0.0 > 0\."),
        ({"alpha": 0.1}, ValueError, "Expected a goal with alpha=0.1, one of: sosp, fosp, goldstein, risk"),
        ({"goal": "peace"}, ValueError, "Expected goal='peace' to be one of: all, sosp, fosp, goldstein, risk"),
        ({"condition_number": 1.0}, ValueError, r"Expected condition_number=1.0 > 1\."),
        ({"U": 1.0}, MixedLetters, "got U, a letter of drift_escape: initial_gap is its common name"),
        ({"G": 1.0, "U": 1.0}, MixedLetters, "Expected common names, got G, a letter of adaptive_batch: lipschitz"),
        ({"c_eta": 1.0}, MixedLetters, "got c_eta, a letter of noisy_sgd: no question has it"),
        ({"gap": 1.0}, ValueError, "Expected 'gap' to be one of: n, d, .*; did you mean initial_gap"),
        ({"lipshitz": 1.0}, ValueError, "Expected 'lipshitz' to be one of: n, d, .*; did you mean lipschitz"),
        ({"num_examples": 10}, ValueError, "Expected num_examples once, got it twice"),
    ],
)
def test_bad_input_is_one_typed_line(changes, error, message):
    with pytest.raises(error, match=message) as raised:
        choose(**{**EXAMPLE, **changes})
    assert len(str(raised.value).splitlines()) == 1
    if changes.get("epsilon") != "x":
        assert len(chosen({**EXAMPLE, **changes}, code=2).stderr.splitlines()) == 1


def test_clients_without_a_theorem_are_masked_and_not_vacuous():
    table = choose(**EXAMPLE, clients=7, details=False)
    masked = table[table["state"] == "masked"]
    assert len(masked) == len(table) - 2 and (masked["reason"] == "no theorem for 7 clients").all()
    assert {*table[table["state"] != "masked"]["method"]} == {DRIFT}
    wide = choose(**EXAMPLE, radius=2.0, goal="goldstein", details=False)
    assert (wide["state"] == "refused").sum() == len(wide) - 1
    assert row(wide, PLAIN)["reason"].startswith("expected radius=2 <= gap/L=1: the theorems assume it")


# ---------------------------------------------------------------- the command
def test_the_command():
    assert chosen(EXAMPLE).stdout.startswith("With constants: no promise")
    found = json.loads(chosen(EXAMPLE, "goal=goldstein", "--json").stdout)
    assert found["question"]["goal"] == "goldstein" and found["rows"][0]["method"] == PLAIN
    written = chosen(EXAMPLE, "goal=risk", "--csv").stdout
    assert written.splitlines()[0] == ",".join(COLUMNS) and len(written.splitlines()) == 3
    weaker = chosen(EXAMPLE, "goal=fosp", "--no-details").stdout
    assert f"{ADAPTIVE} *" in weaker and "DP-SPIDER;" in weaker and "* It promises more" in weaker, "stronger ones"
    assert "Expected --csv or --json, got both" in chosen(EXAMPLE, "--csv", "--json", code=2).stderr


def test_an_answer_without_an_informative_row_says_why():
    masked = sentences(choose(10**6, 1000, 1.0, 1e-6, goal="goldstein", clients=16))
    assert masked == [
        "With constants: no promise about gradients says anything here.",
        "Goldstein stationarity for the population: every order is masked here.",
        "Goldstein stationarity for the data: every order is masked here.",
    ]
    refused = sentences(choose(10**6, 1000, 1.0, 1e-6, goal="goldstein", radius=100.0))
    assert all("every order is refused" in line for line in refused[1:])
    assert sentences(choose(10**6, 1000, 1.0, 1e-6, goal="risk", clients=16))
