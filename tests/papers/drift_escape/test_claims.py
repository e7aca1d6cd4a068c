"""The claims of the drift escape paper: expected verdicts stand here and in expected_verdicts.csv, nowhere else."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import lambertw

from dpnotes.papers import claim
from dpnotes.papers.drift_escape import calculators
from dpnotes.papers.drift_escape import notation as s
from dpnotes.papers.drift_escape.claims.oracle import differences
from dpnotes.privacy.calibration import gaussian_delta
from dpnotes.theory.refusals import Vacuous


def statement(name) -> Any:
    return claim(f"drift_escape.{name}").statement


def corrected(name) -> Any:
    fixed = claim(f"drift_escape.{name}").correction()
    assert fixed is not None
    return fixed.statement


def test_the_selection_at_a_large_privacy_loss():
    for epsilon, c, fits in ((1000.0, 10.0, False), (10.0, 12 + 8 * math.sqrt(2), True)):
        z = 2 * epsilon * math.sqrt(2 / c / math.log(1e5))
        assert bool(gaussian_delta(epsilon, 1 / z) <= 1e-5) is fits


def test_algorithm_2_as_printed_never_uses_a_fresh_gradient():
    for threshold in (1, 3, 4):
        assert differences(12, threshold, printed=True) == {step: step for step in range(1, 13)}
        assert differences(12, threshold, printed=False) == {step: (step - 1) % threshold for step in range(1, 13)}


# ---------------------------------------------------------------- calculators
PROBLEM: dict[str, Any] = {"M": 1.0, "rho": 1.0, "U": 1.0}
FRAMEWORK: dict[str, Any] = {"C": 1.0, "s": 10.0, "sigma": 1e-8, "r": 1e-10, "d": 100, "omega": 0.1, **PROBLEM}
ORACLE: dict[str, Any] = {"n": 10**12, "d": 100, "epsilon": 1.0, "delta": 1e-5, "G": 1.0, **PROBLEM}


def test_printed_parameters_solve_4_and_5():
    found = calculators.PARAMETERS(**FRAMEWORK, constants="paper")
    mu, psi, eta, r, step = found["mu"], found["psi"], found["eta"], 1e-10, found["T"]
    assert mu == pytest.approx(12.317, abs=0.001) and found["alpha"] == pytest.approx(16 * 10 * mu**2 * psi)
    assert eta == pytest.approx(math.sqrt(found["alpha"]) / (10 * mu) ** 2)
    first = math.log(9 * 100 / (eta * math.sqrt(10 * psi)) * math.log(4 / (10 * eta * r) * math.sqrt(psi))) / 10
    second = math.log(160 * math.sqrt(2) / (10 * math.sqrt(eta * r)) * math.sqrt(psi))
    third = math.log(4 * step / 0.1) ** 0.25 / (2**0.75 * math.sqrt(10))
    assert mu == pytest.approx(max(first, second, third, 1), rel=1e-11)
    # The second entry decides; sqrt(eta) goes as 1/sqrt(mu), so that e^{2 mu} = K mu: a branch of Lambert's W.
    k = (160 * math.sqrt(2) / 10 * math.sqrt(psi / r)) ** 2 / (eta * mu)
    assert second == pytest.approx(mu) and mu == pytest.approx(-lambertw(-2 / k, -1).real / 2, rel=1e-10)
    assert step == pytest.approx(
        5 * 100 * mu**4 / (4 * found["chi"] ** 2 * eta) * math.log(2 * found["N"] / 0.1), rel=1e-10
    )


def test_repaired_parameters_do_what_the_proofs_ask_for():
    f = calculators.PARAMETERS(**FRAMEWORK)
    iota, eta, steps, alpha = f["iota"], f["eta"], f["T_esc"], f["alpha"]
    assert eta * math.sqrt(steps) * iota == pytest.approx(1 / math.sqrt(10))  # (41)
    assert eta * f["S"] * steps * math.sqrt(iota) == pytest.approx(1 / 10)  # (39)
    assert f["F_esc"] == pytest.approx(f["S"] ** 2 / (8 * eta * steps))  # (65)
    assert f["F_esc"] >= 2 * f["psi"] ** 2 * iota / (10 * math.sqrt(alpha)) * (1 - 1e-12)  # (64)
    assert 2 ** f["mu"] * math.sqrt(eta) * 1e-10 / (40 * math.sqrt(2) * alpha**0.25) >= f["S"] * (1 - 1e-9)  # (46)
    assert f["chi"] >= math.sqrt(2 * math.log(4 * f["T"] / 0.1)) * f["psi"]  # Lemma 5
    failures = 0.05 + f["N"] * 0.75 ** f["Q"] + 2 * f["N"] * math.exp(-iota)
    assert failures <= 0.1 * (1 + 1e-9)
    assert 6 * 100 * steps * max(1, math.log(f["S"] / (eta * 1e-10))) * math.exp(-iota) <= 1 / 6
    assert eta <= 1


@pytest.mark.parametrize("constants", ["paper", "corrected"])
def test_mu_settles_whatever_the_noise(constants):
    noise = np.logspace(-14, -8, 25)
    rest = {k: v for k, v in FRAMEWORK.items() if k not in ("sigma", "r")}
    many = calculators.PARAMETERS(**rest, sigma=noise, r=noise / 100, constants=constants)
    assert np.all(np.diff(many["alpha"]) > 0) and np.all(np.diff(many["T"]) < 0)
    for k in (0, 12, 24):
        one = calculators.PARAMETERS(**rest, sigma=noise[k], r=noise[k] / 100, constants=constants)
        assert {name: value[k] for name, value in many.items()} == pytest.approx(one, rel=1e-10)


@pytest.mark.parametrize(("constants", "over", "k", "chi_over"), [("paper", 16, 2, 4), ("corrected", 4, 2, 1)])
@pytest.mark.parametrize("clients", [1, 9])
def test_the_rate_solves_its_circle(constants, over, k, chi_over, clients):
    found = calculators.SHARED_PLAN(**ORACLE, m=clients, constants=constants)
    if clients == 1:
        assert found == calculators.PLAN(**ORACLE, constants=constants)
    psi = math.sqrt(found["sigma"] ** 2 + 100 * found["r"] ** 2)
    assert found["alpha"] == pytest.approx(over * psi, rel=1e-9)
    assert found["eta"] == pytest.approx(math.sqrt(found["alpha"]))
    assert found["b_1"] * found["R"] == pytest.approx(1e12 / k) and found["b_2"] * found["T"] == pytest.approx(1e12 / k)
    assert found["T"] == pytest.approx(1 / (found["eta"] * (chi_over * psi) ** 2))
    logs = {"paper": math.log(100) ** 2, "corrected": (1 + math.log2(100)) ** 2}[constants]
    data = logs / clients * (1 / found["b_1"] + found["kappa"] / found["b_2"])
    assert found["sigma"] == pytest.approx(math.sqrt(data))
    noise = math.sqrt(clients) * found["r"]
    multiplier = noise / calculators.largest_sensitivity(found["b_1"], found["b_2"], found["kappa"], 1.0, 1.0)
    assert gaussian_delta(1.0, multiplier) == pytest.approx(found["delta_reached"])
    assert (found["delta_reached"] <= 1e-5) == (constants == "corrected")


@pytest.mark.parametrize("clients", [1, 9])
def test_constants_one_are_the_largest_monomial_and_private(clients):
    numbers = {**ORACLE, "G": 2.0, "M": 3.0, "rho": 0.5, "U": 4.0}
    found = calculators.SHARED_RATE(**numbers, m=clients, constants="one")
    rate = corrected("thm3.constants").value
    letters = {symbol: {**numbers, "m": clients}[symbol.name] for symbol in rate.free_symbols}
    assert found["alpha"] == pytest.approx(max(float(term.xreplace(letters)) for term in rate.args))
    assert found["delta_reached"] == pytest.approx(1e-5)
    assert found["b_1"] * found["R"] == pytest.approx(1e12) == pytest.approx(found["b_2"] * found["T"])


def test_kappa_as_printed():
    printed = calculators.RATE(**ORACLE, constants="paper")
    assert printed["kappa"] == pytest.approx(max(1e12**-0.5, 100**0.4 / 1e12**0.8))


@pytest.mark.parametrize("constants", ["paper", "one"])
def test_samples_invert_the_rate_and_more_of_them_help(constants):
    sizes = np.array([10**13, 10**14, 10**16])
    found = calculators.SHARED_RATE(**{**ORACLE, "n": sizes}, m=4, constants=constants)
    assert np.all(np.diff(found["alpha"]) < 0) and np.all(np.diff(found["T"]) > 0)
    rest = {name: value for name, value in ORACLE.items() if name != "n"}
    back = calculators.SHARED_SAMPLES(alpha=found["alpha"], **rest, m=4, constants=constants)
    assert back["n"] == pytest.approx(sizes, rel=1e-9)
    assert back["kappa"] == pytest.approx(found["kappa"], rel=1e-8)
    single = calculators.RATE(**{**ORACLE, "n": 10**14}, constants=constants)
    assert found["alpha"][1] < single["alpha"]
    alone = calculators.SAMPLES(alpha=single["alpha"], **rest, constants=constants)
    assert alone["n"] == pytest.approx(1e14, rel=1e-9)


RATES = ("RATE", "SHARED_RATE", "SAMPLES", "SHARED_SAMPLES")
FLAT = {"n": 10**7, "delta": 1e-6, "rho": 1e-3}


@pytest.mark.parametrize(
    ("calculator", "changes", "constants", "message"),
    [
        ("PARAMETERS", {"sigma": 1e-3}, "corrected", r"M=1 >= sqrt\(rho alpha\)=.*: the error alpha is too"),
        ("PARAMETERS", {"U": 1e-20}, "paper", r"S/\(eta r\) > 1 and N > omega/2, got"),
        ("RATE", {"n": 10**9, "rho": 1e3}, "paper", r"M=1 >= sqrt\(rho alpha\)=.*too large by a factor"),
        ("RATE", {"n": 1000}, "paper", "alpha=.* < G=1: the bound is vacuous"),
        ("RATE", {"n": 100, "M": 100.0, "U": 0.01}, "one", "b_2=.* >= 1: there are too few examples"),
        ("RATE", FLAT | {"U": 1e-6, "epsilon": 1e-3}, "paper", "T=0.* >= 1: the batches are for less than one step"),
        ("PLAN", FLAT, "paper", "alpha=2.371 < G=1: the bound is vacuous, every point has that"),
        ("PLAN", FLAT | {"epsilon": 1e-6}, "corrected", "alpha=6.908 < G=1"),
        ("PLAN", FLAT | {"epsilon": 1e-6, "G": 30.0}, "corrected", "b_1=.* <= n=1e.07: a fresh gradient"),
        ("PLAN", FLAT | {"d": 1}, "paper", r"d=1 > 1: the data noise of Lemma 7 has the factor log\(d\)"),
        *((name, {}, "corrected", "one of: one, paper; the theorem's O hides C and s") for name in RATES),
    ],
)
def test_calculators_refuse_what_the_paper_assumes_away(calculator, changes, constants, message):
    given = (FRAMEWORK if calculator == "PARAMETERS" else ORACLE) | changes
    with pytest.raises(ValueError, match=message) as refusal:
        getattr(calculators, calculator)(**given, constants=constants)
    assert isinstance(refusal.value, Vacuous) == ("< G=1" in message)


def test_selection():
    found = calculators.SELECTION(alpha=0.01, m=4, n=10**6, d=50, epsilon=0.5, omega_s=0.1)
    scale = 1e6
    assert found["d_hessian"] == pytest.approx(scale ** (6 / 13)) and found["d_gradient"] == pytest.approx(scale**2)
    root = 0.1 + 1 / 2000 + 50 / (scale * 0.01**1.25)
    assert found["alpha_out"] == pytest.approx(max(root**2, 0.01 + 1 / 2000 + math.sqrt(50) / (scale * 0.01**1.25)))
    larger = calculators.SELECTION(
        alpha=0.01, m=4, n=10**6, d=np.array([50, 500, 1000, 5000]), epsilon=0.5, omega_s=0.1
    )
    assert np.all(np.diff(larger["loss"][:3]) > 0)
    assert "alpha_out=2.8" in larger.reasons[3] and "vacuous" in larger.reasons[3]
    printed = calculators.SELECTION(alpha=0.01, m=4, n=10**6, d=50, epsilon=0.5, omega_s=0.1, constants="paper")
    assert 1 / 3 < printed["alpha_out"] / found["alpha_out"] < 3
    with pytest.raises(ValueError, match=r"Expected m n=2 >= 5.018: the condition of Theorem 4"):
        calculators.SELECTION(alpha=0.01, m=1, n=2, d=50, epsilon=0.5, omega_s=0.01)


def test_selection_by_products():
    numbers = {"alpha": 0.01, "m": 4, "n": 10**6, "d": 50, "epsilon": 0.5, "omega_s": 0.1}
    found, whole = calculators.SELECTION_BY_PRODUCTS(**numbers), calculators.SELECTION(**numbers)
    scale, products = 1e6, 0.01**-0.25
    root = 0.1 + 1 / 2000 + math.sqrt(50 * products) / (scale * 0.01**1.25)
    assert found["alpha_out"] == pytest.approx(max(root**2, 0.01 + 1 / 2000 + math.sqrt(50) / (scale * 0.01**1.25)))
    assert found["K"] == pytest.approx(products) and found["loss"] == pytest.approx(100 * found["alpha_out"])
    assert found["d_products"] == pytest.approx(scale**2) == pytest.approx(whole["d_gradient"])
    for name in ("alpha_out", "loss"):
        assert found[f"{name}_hessian"] == whole[name] > found[name]
    assert found["d_hessian"] == whole["d_hessian"]
    # the claim's terms at G = M = rho = U = 1 are what the calculator sums, up to constants
    value = statement("own.products.error").value
    letters = {getattr(s, name): numbers[name] for name in ("m", "n", "d", "epsilon")} | {s.alpha: numbers["alpha"]}
    ones = dict.fromkeys((s.G, s.M, s.rho, s.U), 1)
    for d in (1, 50, 10**4, 10**6):
        claimed = float(value.subs({**letters, **ones, s.d: d}))
        reached = calculators.SELECTION_BY_PRODUCTS(**{**numbers, "d": d})["alpha_out"]
        assert 1 / 3 < claimed / reached < 3, d
    wide = calculators.SELECTION_BY_PRODUCTS(**{**numbers, "d": np.array([10**4, 10**10])})
    assert wide["loss_hessian"][0] > 1000 > 5 > wide["loss"][0], "whole Hessians promise nothing, products do"
    assert "vacuous" in wide.reasons[1]


def test_the_growth_of_noise_and_of_curvature_are_the_roots_of_the_recursions():
    """The two bounded quantities are computed from their recursions: growth over 200 steps, up to log(2)."""
    for x in (0.01, 0.3, 2.0):
        for name, middle, sense in (("growth", 2 + x, "<="), ("escape", 2 + 2 * x, ">=")):
            one = statement(f"own.products.{name}")
            before, now = 1.0, middle / 2
            for _ in range(199):
                before, now = now, middle * now - before
            (letter,) = one.bound.free_symbols
            rate, bound = math.log(now) / 200, float(one.bound.subs({letter: x}))
            assert one.sense == sense
            assert rate == pytest.approx(float(one.quantity.subs({letter: x})), abs=0.7 / 200)
            assert rate <= bound if sense == "<=" else rate >= bound - 0.7 / 200


def test_repeats():
    right, printed = calculators.REPEATS(omega_0=0.01), calculators.REPEATS(omega_0=0.01, constants="paper")
    assert right["failure"] == pytest.approx(0.01) and right["attempts"] == 17
    assert printed["failure"] == pytest.approx(0.01**0.7192, rel=1e-3) and printed["failure"] > 0.01
