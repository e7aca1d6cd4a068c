"""The claims of Avdiukhin et al.; the expected verdicts stand here and in expected_verdicts.csv, nowhere else."""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy
from scipy import stats

from dpnotes.papers import claim
from dpnotes.papers.noisy_sgd import calculators
from dpnotes.papers.noisy_sgd import notation as s
from dpnotes.privacy.calibration import gaussian_std
from dpnotes.theory.evaluation import substitute
from dpnotes.theory.symbols import expand
from dpnotes.theory.verdicts import Kind


def statement(name) -> Any:
    return claim(f"noisy_sgd.{name}").statement


def corrected(name) -> Any:
    fixed = claim(f"noisy_sgd.{name}").correction()
    assert fixed is not None
    return fixed.statement


# ---------------------------------------------------------------- Appendix C, by balance from its terms
# ---------------------------------------------------------------- privacy
def value_at(expression, **numbers):
    symbols = {x.name: x for x in expression.free_symbols}
    return float(expression.xreplace({symbols[name]: sympy.sympify(value) for name, value in numbers.items()}))


def test_the_law_of_large_gradients_is_chi_squared():
    """lemma3.2.probability: the sum of the claim is compared with scipy's law, at n = 1000 and delta = 1e-5."""
    own = statement("lemma3.2.probability")
    for steps in (2, 30):
        quantity = substitute(own.quantity, {**own.where, s.d: 100})
        found = value_at(
            expand(quantity, {s.d: 100}).xreplace({s.T: sympy.Integer(steps)}), n=1000, epsilon=1, c_2=1, delta=1e-5
        )
        spread = math.sqrt(steps * math.log(1e5)) / 1000
        assert found == pytest.approx(1 - stats.chi2(100).cdf(spread**-2) ** (steps - 1), rel=1e-9, abs=1e-12)


def test_the_spread_of_coupled_iterates_is_that_of_lemma_b_9():
    """Coupled sequences on a quadratic, one with reflected noise: the corrected variance holds, not the printed."""
    eta, gamma, noise, steps, runs = 0.1, 0.5, 1.3, 40, 40_000
    generator = np.random.default_rng(3)
    x, y = np.zeros(runs), np.zeros(runs)
    for _ in range(steps):
        xi = noise * generator.standard_normal(runs)
        x, y = x + eta * gamma * x - eta * xi, y + eta * gamma * y + eta * xi
    numbers = {"x": eta * gamma, "Delta": noise, "eta": eta}
    right, wrong = (
        value_at(expand(one.value, dict.fromkeys(one.instances[0], steps)), **numbers)
        for one in (corrected("lemmaB.9.variance"), statement("lemmaB.9.variance"))
    )
    error = 4 * math.sqrt(2 / runs)
    assert right == pytest.approx(32.03, abs=0.01) and np.var(x - y) == pytest.approx(right, rel=error)
    assert wrong == pytest.approx(20.4, abs=0.05) and abs(np.var(x - y) - wrong) > 5 * error * right


def test_the_growth_of_noise_is_bounded_sharply():
    for name, factor in (("own.growth", 1.01), ("own.spread", 0.99)):
        own = statement(name)
        assert replace(own, bound=own.bound * sympy.Rational(str(factor))).verdict().kind == Kind.CONTRADICTED
    late = statement("own.growth")  # control: not in the first iterations
    assert replace(late, conditions=()).verdict().kind == Kind.CONTRADICTED


# ---------------------------------------------------------------- calculators
def calculate(name, **numbers):
    return claim(f"noisy_sgd.{name}").calculator()(**numbers)


SETTING = {
    "d": 1000, "B": 500, "epsilon": 1.0, "delta": 1e-6, "L": 1.0, "f_max": 1.0, "sigma": 1.0, "rho": 1.0,
    "c": 1.0, "c_1": 1.0, "c_2": 1.0, "c_eta": 0.1,
}  # fmt: skip
GIVEN = {**SETTING, "constants": "given"}
SIZE = 1_000_000


def test_privacy_noise_is_the_moments_accountants():
    numbers = {"n": 50_000, "T": 10_000, "epsilon": 0.5, "delta": 1e-5, "C": 2.5, "c_1": 1.0, "c_2": 1.0}
    found = calculate("thm3.1.noise", **numbers, B=512, constants="paper")
    assert found["Delta"] == pytest.approx(2.5 * math.sqrt(10_000 * math.log(1e5)) / (50_000 * 0.5))
    assert found["noise_multiplier"] == pytest.approx(512 / 50_000 * math.sqrt(10_000 * math.log(1e5)) / 0.5)
    assert found["largest_epsilon"] == pytest.approx(1.048576)
    private = calculate("thm3.1.noise", **numbers, B=50_000)
    assert private["Delta"] == pytest.approx(5.0 * 100 * gaussian_std(0.5, 1e-5) / 50_000)
    assert private["delta_reached"] == pytest.approx(1e-5) and private["delta_reached"] <= 1e-5
    with pytest.raises(ValueError, match="Expected B=512 = n=50000: of smaller batches no proof gives c_1 and c_2"):
        calculate("thm3.1.noise", **numbers, B=512)


@pytest.mark.parametrize("name", ["thm3.1.noise", "thm3.5.alpha", "own.rate", "thm3.5.parameters"])
def test_what_is_refused_of_smaller_batches_says_which_constants_take_them(name: str):
    calculator = claim(f"noisy_sgd.{name}").calculator()
    numbers = {**SETTING, "n": SIZE, "T": 10_000_000, "C": 1.0, "alpha": 0.1}
    numbers = {parameter: numbers[parameter] for parameter in calculator.parameters}
    with pytest.raises(ValueError, match="no proof gives c_1 and c_2") as refusal:
        calculator(**numbers)
    advised = re.findall("constants='(.*?)'", str(refusal.value))
    assert len(advised) == 1 and calculator(**numbers, constants=advised[0])["Delta"] > 0
    for other in re.findall(r"noisy_sgd\.\w+", str(refusal.value)):
        assert other == "noisy_sgd.spent" and calculators.SPENT is claim("noisy_sgd.thm3.1").calculator()
    with pytest.raises(ValueError, match="Expected constants='best' to be one of"):
        calculator(**numbers, constants="best")


def test_gradient_bounds():
    numbers = {"n": 50_000, "T": 1000, "delta": 0.01, "L": 1.0, "f_max": 1.0, "sigma": 1.0, "alpha": 0.1}
    paper = calculate("lemma3.2.bound", **numbers, c=1.0, c_eta=1.0, constants="paper")["C"]
    assert paper == pytest.approx(11.749, abs=1e-3)  # as in Figure 3(b), with constants of 1
    right = calculate("lemma3.2.bound", **numbers, c=1.0, c_eta=0.01)["C"]
    by_hand = math.sqrt(2 * 1.64) + 0.1 * math.sqrt(0.02 * math.log(1e5)) + math.sqrt(math.log(1 + (math.e - 1) * 5e4))
    assert right == pytest.approx(by_hand)
    # In other units of length, gradients scale by 1/k and L by 1/k^2; only the printed bound does not follow.
    k = 3.0
    scaled = {**numbers, "L": 1 / k**2, "sigma": 1 / k, "alpha": 0.1 / k}
    for name, ratio in (("corrected", 1.0), ("one", 1.0), ("paper", None)):
        before = calculate("lemma3.2.bound", **numbers, c=1.0, c_eta=0.01, constants=name)["C"]
        after = calculate("lemma3.2.bound", **scaled, c=1.0, c_eta=0.01, constants=name)["C"]
        assert (k * after / before == pytest.approx(1.0)) == (ratio is not None)


def test_total_delta_of_the_experiments():
    vacuous = calculate("thm3.3.privacy", epsilon=np.array([2.0, 4.0, 8.0]), delta=0.01, failure=0.01)["delta"]
    assert vacuous == pytest.approx([0.0939, 0.566, 1.0], rel=2e-3)
    with np.errstate(all="raise"):  # at most 1, for any epsilon, and without a warning
        far = calculate("thm3.3.privacy", epsilon=np.array([20.0, 800.0, 1e300]), delta=0.01, failure=0.01)["delta"]
        assert far.tolist() == [1.0, 1.0, 1.0]
        assert calculate("thm3.3.privacy", epsilon=800.0, delta=0.01, failure=1e-300)["delta"] == 1.0
    assert calculate("own.transcript", delta=0.7, failure=0.7)["delta"] == 1.0
    assert calculate("thm3.3.privacy", epsilon=8.0, delta=0.01, failure=0.01, constants="paper")["delta"] == 0.02


def test_constants_one_are_the_largest_monomial_and_private():
    corrected = claim("noisy_sgd.thm3.5.sigma").correction()
    assert corrected is not None
    for sigma in (0.1, 10.0):
        sizes = {"n": 10**8, "d": 1000, "epsilon": 0.5, "delta": 1e-6, "L": 3.0, "f_max": 2.0, "sigma": sigma}
        found = calculate("thm3.5.alpha", **sizes, B=10**8, rho=0.5, constants="one")
        statement: Any = corrected.statement
        terms = [float(m.xreplace({s: sizes[s.name] for s in m.free_symbols})) for m in statement.value.args]
        assert found["alpha"] == pytest.approx(max(terms))
        assert found["delta_reached"] == pytest.approx(1e-6)
        assert found["T"] * found["eta"] == pytest.approx(2.0 / found["alpha"] ** 2)


@pytest.mark.parametrize(("constants", "size"), [("given", SIZE), ("paper", SIZE), ("corrected", 10 * SIZE)])
def test_the_closed_loop_satisfies_its_equations(constants: str, size: int):
    batch = size if constants == "corrected" else SETTING["B"]
    found = calculate("thm3.5.alpha", **SETTING | {"n": size, "B": batch}, constants=constants)
    alpha, eta, steps, noise, bound = (found[k] for k in ("alpha", "eta", "T", "Delta", "C"))
    if constants == "corrected":
        private = 2 * bound * math.sqrt(steps + 1) * gaussian_std(1.0, 1e-6) / size
        assert 0.99e-6 < found["delta_reached"] <= 1e-6
    else:
        private = bound * math.sqrt(steps * math.log(1e6)) / size
        assert steps * batch**2 / size**2 >= 1 - 1e-9
        law = 8 / math.sqrt(0.1) * bound * math.sqrt(1001 * math.log(1e6)) / size
        assert alpha**2 == pytest.approx(law, rel=1e-9)
    assert noise == pytest.approx(private, rel=1e-9) and noise**2 >= 1 / batch - 1e-12
    assert steps == pytest.approx(64 / (eta * alpha**2), rel=1e-9)
    assert eta == pytest.approx(0.1 * alpha**2 / (1001 * noise**2), rel=1e-9) and eta <= 1 + 1e-9
    sizes = {"n": size, "T": round(steps), "delta": 1e-6, "L": 1.0, "f_max": 1.0, "sigma": 1.0, "c": 1.0, "c_eta": 0.1}
    name = "paper" if constants == "paper" else "corrected"
    again = calculate("lemma3.2.bound", **sizes, alpha=alpha, constants=name)
    assert bound == pytest.approx(again["C"], rel=1e-3)


@pytest.mark.parametrize("constants", ["corrected", "given", "paper", "one"])
def test_sample_size_and_accuracy_are_inverse_to_each_other(constants):
    sizes = np.array([3e6, 5e6, 1e7, 1e8])
    batches, most = (sizes, 1e30) if constants == "corrected" else (500, 500)
    alpha = calculate("thm3.5.alpha", n=sizes, **{**SETTING, "B": batches}, constants=constants)["alpha"]
    assert (np.diff(alpha) < 0).all()
    back = calculate("thm3.5.parameters", alpha=alpha, **{**SETTING, "B": most}, constants=constants)
    assert back["n"] == pytest.approx(sizes, rel=1e-8)


def test_the_deterministic_sensitivity_needs_no_initial_gap():
    """own.rate: alpha grows with sigma^{1/2}, and f_max enters by the power 1/4 only."""
    numbers = {name: value for name, value in GIVEN.items() if name != "c"}
    found = calculate("own.rate", **numbers, n=SIZE)
    assert found["C"] == pytest.approx(math.sqrt(math.log(1 + (math.e - 1) * SIZE)) * SIZE / (SIZE - 1))
    assert found["alpha"] < calculate("thm3.5.alpha", **GIVEN, n=SIZE)["alpha"]
    for name, values, times in (("sigma", [0.1, 10.0], 10.0), ("f_max", [1.0, 16.0], 2.0)):
        low, high = calculate("own.rate", **numbers | {"n": 10 * SIZE, name: np.array(values)})["alpha"]
        assert high / low == pytest.approx(times, rel=1e-9)


def test_a_loop_without_a_root_is_refused():
    with pytest.raises(ValueError, match="Expected the loop of alpha, T and C to have a root"):
        calculators._settle(lambda value: value + 1.0, 0.0)


def test_selection_sizes():
    numbers = {"d": 1_000_000, "epsilon": 1.0, "L": 1.0, "rho": 1.0, "f_max": 1.0}
    one = calculate("sec3.4.n", **numbers, constants="one")
    assert one["gradient"] == pytest.approx(1e-3) and one["eigenvalue"] == pytest.approx(0.1)
    assert one["n"] == one["eigenvalue"]
    assert calculate("sec3.4.n", **numbers, constants="paper")["n"] == pytest.approx(1e-3)
    # At this size, the noise of both is at most half of the compared quantity, with equality for one of them.
    size = calculate("sec3.4.n", **numbers)["n"]
    bound = 2.0
    alpha = math.sqrt(bound * math.sqrt(1e6) / size)
    ratios = (bound / size / (alpha / 2), 1 / size / (math.sqrt(alpha) / 2))
    assert max(ratios) == pytest.approx(1.0)


NOISE = {**GIVEN, "T": 10, "B": 10, "C": 1.0, "constants": "paper"}


@pytest.mark.parametrize(
    ("name", "numbers", "message"),
    [
        ("thm3.1.noise", {**NOISE, "n": 1000}, r"Expected epsilon=1 < c_1 T B\^2/n\^2 = 0.001: the condition of"),
        ("thm3.5.alpha", {**SETTING, "n": 100}, r"Expected B=500 <= n=100: a batch of data\."),
        ("thm3.5.alpha", {**GIVEN, "n": 2000}, r"Expected alpha=.* <= sqrt\(2 L f_max\)=1.414: the bound is vacuous"),
        ("thm3.5.alpha", {**GIVEN, "n": 80_000}, r"Expected alpha=.* <= .*: beyond, the step size has another form\."),
        ("thm3.5.alpha", {**GIVEN, "n": SIZE, "rho": 100.0}, r"Expected alpha=.* <= L\^2/rho = 0\.01: beyond"),
        ("thm3.5.parameters", {**GIVEN, "alpha": 5.0}, r"Expected B=500 <= n=|Expected alpha="),
        ("own.sensitivity", {"n": 1, "B": 1, "sigma": 1.0}, r"Expected n > 1"),
    ],
)
def test_calculators_refuse_what_is_outside(name, numbers, message):
    known = {*claim(f"noisy_sgd.{name}").calculator().parameters, "constants"}
    with pytest.raises(ValueError, match=message):
        calculate(name, **{letter: value for letter, value in numbers.items() if letter in known})
