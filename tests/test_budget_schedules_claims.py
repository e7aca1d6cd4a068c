"""The claims of Hong, Wang and Zhou: expected verdicts stand here and in expected_verdicts.csv, nowhere else."""

import csv
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from dpnotes.papers import claim, claims, paper
from dpnotes.theory.claims import Severity
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.mutants import mutants
from dpnotes.theory.statements import Uncheckable
from dpnotes.theory.verdicts import Kind

CLAIMS = claims("budget_schedules")
with open(Path(__file__).parent / "expected_verdicts.csv", newline="") as file:
    EXPECTED = {row["claim"]: row for row in csv.DictReader(file) if row["claim"].startswith("budget_schedules.")}


@pytest.fixture(scope="module")
def verdicts():
    return {c.id: c.check() for c in CLAIMS}


def test_every_claim_has_an_expected_verdict_and_no_claim_stores_one():
    assert {c.id for c in CLAIMS} == set(EXPECTED)
    assert len({c.id for c in CLAIMS}) == len(CLAIMS)
    assert not any("verdict" in name for c in CLAIMS for name in vars(c))


def test_verdicts_are_the_expected_ones(verdicts):
    assert {k: str(v.kind) for k, v in verdicts.items()} == {k: row["verdict"] for k, row in EXPECTED.items()}


def test_corrections_stand(verdicts):
    found = {c.id: str(fixed.check().kind) for c in CLAIMS if (fixed := c.correction())}
    assert found == {k: row["corrected"] for k, row in EXPECTED.items() if row["corrected"]}
    assert all(
        Kind(kind) in {Kind.EXACT, Kind.NOT_REFUTED, Kind.UP_TO_CONSTANTS, Kind.IMPROVABLE} for kind in found.values()
    )


def test_a_claim_has_an_erratum_exactly_when_it_is_not_confirmed(verdicts):
    for c in CLAIMS:
        if not isinstance(c.statement, Uncheckable):
            assert (c.erratum is None) == verdicts[c.id].confirms, c.id
            assert (c.erratum is None) == (c.corrected is None)
    severe = {c.id.split(".", 1)[1] for c in CLAIMS if c.erratum and c.erratum.severity == Severity.PRIVACY}
    assert severe == {"lemmaC.4.inversion", "eq18.replacement", "sec4.3.zcdp", "lemmaC.5"}


def test_few_claims_are_uncheckable(verdicts):
    assert sum(v.kind == Kind.NOT_CHECKABLE for v in verdicts.values()) <= 0.15 * len(CLAIMS)


@pytest.mark.parametrize(
    ("name", "evidence"),
    [
        ("lemmaC.4.inversion", "at delta = 1e-08, epsilon = 4: stated 81.49, derived 0.1964"),
        ("sec4.1.3.budgets", "at delta = 1e-08, epsilon = 4: quantity 0.8686, bound 0.3927"),
        ("eq24.limit", "the limit is 1/alpha, stated 0; 999.5 at alpha = 0.001, kappa = 1e+06"),
        ("thm4.3.minimum", "at alpha = 0.0001, kappa = 1000: T = 2397 gives 218, but T = 4.994 gives 0.9975"),
        ("thm4.5.T", "at alpha = 1e-05, kappa = 1000: T = 9230 gives 39.19, but T = 49.38 gives 0.9756"),
        ("lemma4.4.gap", "at T = 4, q_1 = 1, q_2 = 4, q_3 = 9, q_4 = 16: stated 516, derived 20"),
        ("lemmaC.7.sum", "at beta = 0.9, i = 3, t = 5: stated -0.9, derived 6.431"),
        ("thm4.11", "at G = 1, N = 1000000, mu = 1, p = 0.1, r = 1: quantity 0.5, bound 0.00104"),
        ("lemmaC.5", "at N = 2, theta = 0.5: quantity 0.75, bound 0.625"),
    ],
)
def test_counterexamples_of_the_digest(name, evidence, verdicts):
    assert verdicts[f"budget_schedules.{name}"].evidence == evidence


def test_verdicts_are_the_same_in_another_process(verdicts):
    code = "import json; from dpnotes.papers import claims; print(json.dumps({c.id: str(c.check()) for c in claims()}))"
    names = ("budget_schedules.lemmaC.4", "budget_schedules.thm4.3", "budget_schedules.thm4.8")
    code = code.replace("claims()", f"claims(*{names!r})")
    environment = {"PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    ).stdout
    assert json.loads(out) == {k: str(v) for k, v in verdicts.items() if k.startswith(names)}


def test_claims_load_no_torch():
    code = "import sys; import dpnotes.papers.budget_schedules.claims; print('torch' in sys.modules)"
    environment = {"PYTHONPATH": str(Path(__file__).parents[1])}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    ).stdout
    assert out.strip() == "False"


def weakened(original, mutant):
    """Whether a mutant is a bound that the printed one implies: nothing of it is to be refuted."""
    if not isinstance(original, Inequality) or not isinstance(mutant, Inequality):
        return False
    ends = (original.bound, mutant.bound) if original.sense != ">=" else (mutant.bound, original.bound)
    implied = Inequality(*ends, original.region, "<=", original.where, original.conditions, original.instance)
    return implied.verdict().confirms


@pytest.mark.slow
def test_mutants_are_killed():
    killed, survivors = 0, []
    for c in CLAIMS:
        base = (c.correction() or c).statement
        kind = base.verdict().kind
        for change, mutant in mutants(base):
            if mutant.verdict().kind != kind:
                killed += 1
            elif not weakened(base, mutant):
                survivors.append(f"{c.id}: {change}")
    assert killed >= 0.95 * (killed + len(survivors)), "\n".join(survivors)


@pytest.mark.slow
def test_a_claim_takes_at_most_a_second():
    for c in CLAIMS:
        start = time.process_time()
        c.check()
        assert time.process_time() - start < 1.0, c.id


def test_citation():
    assert paper("budget_schedules").doi in paper("budget_schedules").bibtex
    with pytest.raises(ValueError, match="Expected 'nobody' to be one of: budget_schedules"):
        paper("nobody")
    with pytest.raises(ValueError, match=r"to be one claim, got the beginning of budget_schedules\.lemma4\.4\.optimum"):
        claim("budget_schedules.lemma4.4")


# ---------------------------------------------------------------- calculators
def calculate(name, **numbers):
    return claim(f"budget_schedules.{name}").calculator()(**numbers)


def test_zcdp_conversion_is_the_papers_own_number():
    found = calculate("lemmaC.4.inversion", epsilon=4.0, delta=1e-8)
    assert found["rho"] == pytest.approx(0.1963518534, abs=1e-10) and found["R"] == 2 * found["rho"]
    assert type(found["rho"]) is float
    tiny = calculate("lemmaC.4.inversion", epsilon=1e-9, delta=1e-5)["rho"]
    assert tiny == pytest.approx(1e-18 / (4 * math.log(1e5)), rel=1e-6)


def uniform(steps, kappa, alpha):
    power = math.exp(steps * math.log1p(-1 / kappa))
    return power + alpha * kappa * (1 - power) * steps


def dynamic(steps, kappa, alpha):
    power = math.exp(steps * math.log1p(-1 / kappa))
    return power + alpha * ((1 - math.sqrt(power)) / (1 - math.sqrt(1 - 1 / kappa))) ** 2


@pytest.mark.parametrize(("name", "bound"), [("thm4.3.minimum", uniform), ("thm4.5.minimiser", dynamic)])
@pytest.mark.parametrize(("kappa", "alpha"), [(10, 1e-3), (1000, 1e-4), (1.01, 0.3), (3, 1e-12), (200, 1e-8)])
def test_optima_against_a_search(name, bound, kappa, alpha):
    found = calculate(name, kappa=kappa, alpha=alpha)
    grid = np.linspace(-15, 15, 601)
    near = grid[int(np.argmin([bound(math.exp(log), kappa, alpha) for log in grid]))]
    around = {"bounds": (near - 0.1, near + 0.1), "method": "bounded", "options": {"xatol": 1e-10}}
    best = minimize_scalar(lambda log: bound(math.exp(log), kappa, alpha), **around)
    assert found["erub"] == pytest.approx(best.fun, rel=1e-7)
    assert found["steps"] == pytest.approx(math.exp(best.x), rel=1e-3)
    integers = [bound(steps, kappa, alpha) for steps in range(1, math.ceil(2 * found["steps"]) + 3)]
    assert found["integer_steps"] == 1 + int(np.argmin(integers))
    assert found["integer_erub"] == pytest.approx(min(integers), rel=1e-9)


@pytest.mark.parametrize("name", ["thm4.3.minimum", "thm4.5.minimiser"])
def test_optima_stay_finite_at_the_ends(name):
    kappa, alpha = np.meshgrid(np.logspace(0.01, 7, 40), np.logspace(-16, 0, 40))
    found = calculate(name, kappa=kappa, alpha=alpha)
    assert all(np.isfinite(v).all() and (v > 0).all() for v in found.values())
    assert (found["erub"] <= 1 + 1e-9).all() and (found["integer_erub"] >= found["erub"] * (1 - 1e-9)).all()
    one = calculate(name, kappa=float(kappa[3, 5]), alpha=float(alpha[3, 5]))
    assert {k: float(v) for k, v in one.items()} == pytest.approx({k: v[3, 5] for k, v in found.items()}, rel=1e-12)


def test_schedule_spends_the_budget_and_meets_the_least_bound():
    steps, kappa, budget, alpha = 25, 10.0, 0.3927, 1e-3
    found = calculate("thm4.5.schedule", t=np.arange(1, steps + 1), T=steps, kappa=kappa, R=budget)
    squared = found["squared_noise_multiplier"]
    assert (1 / squared).sum() == pytest.approx(budget, rel=1e-12)
    influence = (1 - 1 / kappa) ** (steps - np.arange(1, steps + 1)) * alpha
    reached = (1 - 1 / kappa) ** steps + budget * (influence * squared).sum()
    assert reached == pytest.approx(calculate("thm4.5.bound", T=steps, kappa=kappa, alpha=alpha)["dynamic"], rel=1e-12)
    zero_based = (
        (np.sqrt((1 - 1 / kappa) ** -steps) - 1)
        / (1 - np.sqrt(1 - 1 / kappa))
        * np.sqrt((1 - 1 / kappa) ** np.arange(steps))
    )
    assert (budget / zero_based).sum() < 0.96 * budget  # the control: steps counted from 0 waste budget


def test_gain_of_the_digest():
    numbers = calculate(
        "gain",
        N=np.array([1_000, 3_000, 10_000, 100_000, 1_000_000, 10_000_000]),
        kappa=10.0,
        D=60,
        G=4.0,
        R=0.3927,
        M=1.0,
        Delta=math.log(2),
    )["gain"]
    assert numbers == pytest.approx([1.035, 1.32, 1.86, 3.0, 4.1, 5.3], rel=0.02)


@pytest.mark.parametrize(
    ("name", "numbers", "error", "message"),
    [
        ("lemmaC.4.inversion", {"epsilon": -1.0, "delta": 1e-5}, ValueError, r"Expected epsilon=-1.0 > 0\."),
        ("lemmaC.4.inversion", {"epsilon": 1.0, "delta": 1.5}, ValueError, r"Expected 0 < delta=1.5 < 1\."),
        ("thm4.5.minimiser", {"kappa": 1, "alpha": 0.1}, ValueError, r"Expected kappa=1 > 1\."),
        ("thm4.5.minimiser", {"kappa": math.nan, "alpha": 0.1}, ValueError, r"Expected kappa=nan to be finite\."),
        ("thm4.5.minimiser", {"kappa": "2", "alpha": 0.1}, TypeError, r"Expected kappa='2' to be a real number"),
        ("thm4.5.minimiser", {"kappa": 2}, TypeError, r"Expected the arguments kappa, alpha: missing alpha\."),
        ("thm4.5.minimiser", {"kappa": 2, "alpha": 1, "beta": 1}, TypeError, r"unknown beta\."),
        ("thm4.5.schedule", {"t": 5, "T": 4, "kappa": 2.0, "R": 1.0}, ValueError, r"Expected t=5 <= T=4\."),
        (
            "thm4.5.schedule",
            {"t": 0, "T": 4, "kappa": 2.0, "R": 1.0},
            ValueError,
            r"Expected t=0 >= 1 and an integer\.",
        ),
    ],
)
def test_calculators_refuse_what_is_outside(name, numbers, error, message):
    with pytest.raises(error, match=message):
        calculate(name, **numbers)


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("lemmaC.4.inversion", {"epsilon": 4.0, "delta": 1e-8}),
        ("thm4.3.minimum", {"kappa": 10.0, "alpha": 1e-3}),
        ("thm4.5.minimiser", {"kappa": 10.0, "alpha": 1e-3}),
        ("thm4.5.schedule", {"t": 3, "T": 10, "kappa": 10.0, "R": 0.4}),
        ("eq9", {"T": 10.0, "kappa": 10.0, "alpha": 1e-3}),
        ("gain", {"N": 1000, "kappa": 10.0, "D": 60, "G": 4.0, "R": 0.4, "M": 1.0, "Delta": 0.7}),
    ],
)
def test_a_scalar_call_takes_under_a_millisecond(name, numbers):
    calculator = claim(f"budget_schedules.{name}").calculator()
    calculator(**numbers)
    times = []
    for _ in range(50):
        start = time.perf_counter()
        calculator(**numbers)
        times.append(time.perf_counter() - start)
    assert min(times) < 1e-3


def test_what_notebooks_print_is_whole():
    for c in CLAIMS:
        for text in (c.printed, c.corrected or "x"):
            assert text and text.count("{") == text.count("}") and "Symbol" not in text, c.id
        assert c.title and c.locator and c.origin and "\n" not in str(c.check().evidence), c.id


def test_what_the_command_line_prints_is_one_plain_line_and_shows_the_difference():
    for c in CLAIMS:
        for text in (c.printed_text, c.corrected_text or "x"):
            assert text and text == " ".join(text.split()) and "\\" not in text, c.id
        assert c.printed_text != c.corrected_text and c.printed != c.corrected, c.id
