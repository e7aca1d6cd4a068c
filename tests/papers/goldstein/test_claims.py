"""The claims on private Goldstein stationarity: evidence, headline theorems by balance, numbers from elsewhere.

Tests of the claims of all papers are in ../test_claims.py.
"""

import math

import numpy as np
import pytest
import sympy
import torch
from scipy import integrate

from dpnotes.papers import claim
from dpnotes.papers.goldstein import notation as s
from dpnotes.papers.goldstein.claims.terms import PRIOR, SINGLE_PASS
from dpnotes.papers.goldstein.reference import Release, o2nc
from dpnotes.theory.balance import balance
from dpnotes.theory.rates import Rate
from dpnotes.theory.statements import Identity
from tests.papers.profile import gaussian


def calculate(name, **numbers):
    return claim(f"goldstein.{name}").calculator()(**numbers)


# ---------------------------------------------------------------- evidence
@pytest.mark.parametrize("name", ["prop2.5.sigma", "prop2.5.epsilon", "lemma4.3.epsilon"])
def test_a_noise_that_is_too_small_is_so_for_either_base_of_the_logarithm(name):
    statement = claim(f"goldstein.{name}").statement
    for base in (sympy.E, 2):
        printed = statement.printed[0].replace(sympy.log, lambda x, base=base: sympy.log(x) / sympy.log(base))
        assert not statement.restate(printed).verdict().confirms, base


def test_proposition_2_6_and_eq_18_fail_on_a_saw():
    """Algorithm 2, as the reference has it, on h with slopes 1 up and -2 down, rounded; G0 = G1 = D = 1, M = 100.

    The oracle shrinks the slope by 1 towards 0, everywhere: its error is at most G0, its size at most G1.
    """
    M, down, up, cycles = 100, 20, 40, 3
    knots = np.array([0, down * M - 0.5, down * M + 0.5, (down + up) * M - 0.5, (down + up) * M])
    period = knots[-1]

    def slope(x):
        return np.interp(np.mod(x, period), knots, [-2.0, -2.0, 1.0, 1.0, -2.0])

    def oracle(points):
        for t, z in enumerate(points, start=1):
            here = torch.tensor(slope(z.numpy()))
            g = torch.sign(here) * torch.clamp(here.abs() - 1, min=0)
            assert float((g - here).abs()) <= 1 and float(g.abs()) <= 1
            yield Release(t, z, True, 1, 1, [], here, g, 0.0, 0)

    start = torch.tensor([down * M - 20.0], dtype=torch.float64)
    T, lots = (down + up) * M * cycles, np.random.default_rng(0).random(1 + (down + up) * M * cycles)
    steps = list(o2nc(oracle, start, 1.0, 1 / math.sqrt(M), M, T, lambda t: float(lots[t]), lambda t: 0.5))
    z = np.array([float(step.z) for step in steps]).reshape(-1, M)
    assert float(steps[-1].Delta) == 1.0, "never pushed back"
    of_blocks = np.abs(slope(z).mean(axis=1)).mean()
    near = z.mean(axis=1)[:, None] + np.linspace(-M, M, 4 * M + 1)  # the ball of radius M D
    low, high = slope(near).min(axis=1), slope(near).max(axis=1)
    goldstein = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high))).mean()
    bound = 2 * 20.5 / T + 3 / (2 * math.sqrt(M)) + 1  # h falls by at most 2 * 20.5 from the start to its least value
    assert bound < 1.16 and of_blocks > 1.27 and goldstein > 1.2, (bound, of_blocks, goldstein)
    assert max(of_blocks, goldstein) < bound + 1 + 1 / math.sqrt(M), "control: what the steps of the proof give"
    assert of_blocks == pytest.approx(2 * 1 * 2 / 3, abs=0.06), "the closed form of the claim"


def test_resets_of_many_passes_at_a_large_privacy_loss():
    """Lemma 4.3 with the constant 10 at T/Sigma = 1, delta = 1e-6: noise over sensitivity 5 sqrt(ln 1e6)/epsilon."""
    for epsilon, reached in ((1.0, 0.0), (1000.0, 1.0)):
        ratio = epsilon / (5 * math.sqrt(math.log(1e6)))
        assert gaussian(epsilon, ratio) == pytest.approx(reached, abs=1e-6)


# ---------------------------------------------------------------- the headline theorems, by balance
def same(rate, other):
    return sympy.simplify(rate - other) == 0


def test_the_prior_work_needs_a_factor_root_d_more():
    statement = claim("goldstein.eq1").statement
    assert isinstance(statement, Rate) and same(statement.balance().rate, statement.value)
    # Control: the gain comes from the sensitivities; the prior ones with Theorem 3.1's sampling keep the private term.
    mixed = {**SINGLE_PASS, **{name: term for name, term in PRIOR.items() if name.startswith("noise")}}
    private = balance({"n": s.n}, (s.n, s.D, s.T, s.period, s.B1, s.B2), mixed).rate
    assert private.has(s.d ** sympy.Rational(3, 2)) and not same(private, statement.value)


# ---------------------------------------------------------------- counterexamples by simulation
def test_the_printed_noise_of_the_tree_fails_for_large_epsilon_and_one_step():
    epsilon, delta = 1000.0, 0.1
    printed = calculate("prop2.5.sigma", Sigma=16, S=1.0, epsilon=epsilon, delta=delta, constants="paper")
    assert gaussian(epsilon, 1 / printed["sigma"]) > 0.99  # one release of one node already
    fixed = calculate("prop2.5.sigma", Sigma=16, S=1.0, epsilon=epsilon, delta=delta, constants="corrected")
    assert gaussian(epsilon, math.sqrt(fixed["levels"]) / fixed["sigma"]) <= delta
    with pytest.raises(ValueError, match="Expected Sigma=1 >= 2: the printed noise for one step is 0"):
        calculate("prop2.5.sigma", Sigma=1, S=1.0, epsilon=1.0, delta=1e-6, constants="paper")
    # The claim's lower bound 1/2 - e^epsilon Q(sqrt(2 epsilon)) exceeds 1/4 for epsilon >= 1, and increases.
    values = [gaussian(e, math.sqrt(2 * e)) for e in np.geomspace(1, 500, 50)]
    assert values[0] > 0.25 and all(np.diff(values) > 0)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 16, 31, 32])
def test_the_corrected_noise_of_the_tree_is_private_and_counts_the_levels(steps):
    found = calculate("prop2.5.sigma", Sigma=steps, S=2.0, epsilon=1.0, delta=1e-6, constants="corrected")
    assert found["levels"] == steps.bit_length()
    assert gaussian(1.0, 2 * math.sqrt(found["levels"]) / found["sigma"]) <= 1e-6
    assert gaussian(1.0, 2 * math.sqrt(found["levels"]) / (0.75 * found["sigma"])) > 1e-6  # no waste


# ---------------------------------------------------------------- sharp constants
def test_sharp_constants_of_smoothing():
    statement = claim("goldstein.own.smoothing_smoothness").statement
    assert isinstance(statement, Identity)
    kappa = {d: float(statement.value.xreplace({s.d: sympy.Integer(d), s.L: 1, s.alpha: 1})) for d in (1, 2, 3, 100)}
    assert kappa == pytest.approx({1: 1.0, 2: 4 / math.pi, 3: 1.5, 100: 7.998817}, abs=1e-6)
    error = claim("goldstein.own.smoothing_error").statement
    assert isinstance(error, Identity)
    numeric = integrate.quad(lambda r: r * 3 * r**2, 0, 1)[0]
    assert float(error.value.xreplace({s.d: sympy.Integer(3), s.L: 1, s.alpha: 1})) == pytest.approx(numeric)
