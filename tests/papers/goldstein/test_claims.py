"""The claims on private Goldstein stationarity: evidence, headline theorems by balance, numbers from elsewhere.

Tests of the claims of all papers are in ../test_claims.py.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import sympy
import torch
from scipy import integrate, optimize, stats

from dpnotes.papers import claim
from dpnotes.papers.goldstein import notation as s
from dpnotes.papers.goldstein.claims.terms import PRIOR, SINGLE_PASS
from dpnotes.papers.goldstein.reference import Release, o2nc
from dpnotes.theory.balance import balance
from dpnotes.theory.rates import Choice, Rate
from dpnotes.theory.statements import Identity
from dpnotes.theory.verdicts import Kind
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


def test_an_estimate_of_directions_is_bounded_whatever_their_number():
    """Lemma 4.3: a two-point estimate is at most L d long; for few directions it already is about as long as L."""
    generator, d, alpha = np.random.default_rng(0), 100, 0.1
    for directions in (1, 1700):
        y = generator.standard_normal((directions, d))
        y /= np.linalg.norm(y, axis=1, keepdims=True)
        for slope in (np.eye(d)[0], np.ones(d) / np.sqrt(d)):  # |<slope, x>| is 1-Lipschitz, as <slope, x> is
            values = np.abs((0.02 + alpha * y) @ slope) - np.abs((0.02 - alpha * y) @ slope)
            longest = np.linalg.norm(d / (2 * alpha) * np.mean(values[:, None] * y, axis=0))
            assert longest <= d
            assert directions == 1 or longest < (1 + np.sqrt(d / directions)) ** 2


# ---------------------------------------------------------------- the headline theorems, by balance
def same(rate, other):
    return sympy.simplify(rate - other) == 0


def test_the_sample_size_of_one_pass_comes_out_with_its_parameters():
    for name in ("thm3.1.rate", "thm6.1.rate"):
        statement = claim(f"goldstein.{name}").statement
        assert isinstance(statement, Rate)
        assert {s.n, s.D, s.T, s.period, s.B1, s.B2, s.m} == set(statement.tuned)
        assert same(statement.balance().rate, statement.value)
    found = balance({"n": s.n}, (s.n, s.D, s.T, s.period, s.B1, s.B2), SINGLE_PASS, {"beta <= L": s.beta / s.L})
    assert len(found.vertices) == 2
    chosen = [found.parameters(vertex) for vertex in found.vertices]
    assert all(choice is not None and not any("5" in str(value) for value in choice.values()) for choice in chosen)


def test_the_prior_work_needs_a_factor_root_d_more():
    statement = claim("goldstein.eq1").statement
    assert isinstance(statement, Rate) and same(statement.balance().rate, statement.value)
    # Control: the gain comes from the sensitivities; the prior ones with Theorem 3.1's sampling keep the private term.
    mixed = {**SINGLE_PASS, **{name: term for name, term in PRIOR.items() if name.startswith("noise")}}
    private = balance({"n": s.n}, (s.n, s.D, s.T, s.period, s.B1, s.B2), mixed).rate
    assert private.has(s.d ** sympy.Rational(3, 2)) and not same(private, statement.value)


@pytest.mark.slow
def test_four_terms_of_the_move_are_two():
    printed = claim("goldstein.thm3.1.parameters").statement
    assert isinstance(printed, Choice) and printed.verdict().kind == Kind.UP_TO_CONSTANTS
    (move,) = [v for k, v in printed.parameters.items() if k == s.D]
    assert len(move.args) == 4
    needed = []
    for left_out in move.args:
        fewer = {**printed.parameters, s.D: sympy.Min(*(a for a in move.args if a != left_out))}
        if replace(printed, parameters=fewer).verdict().kind != Kind.UP_TO_CONSTANTS:
            needed.append(left_out)
    # The second and the fourth as printed: those with powers 1/2, and 1/3 with d inside.
    assert len(needed) == 2 and all(term.has(s.d) and not term.has(s.Phi ** sympy.Rational(3, 5)) for term in needed)


def test_directions_control():
    """With common directions m = d suffices, with independent ones it does not."""
    common = claim("goldstein.own.directions").statement
    assert isinstance(common, Choice) and common.verdict().kind == Kind.UP_TO_CONSTANTS
    independent = {**common.terms, "independent": s.L * sympy.sqrt(s.d / s.m) * sympy.sqrt(s.period / s.B2)}
    assert replace(common, terms=independent).verdict().kind == Kind.NOT_IMPLIED
    fewer = {**common.parameters, s.m: s.d ** sympy.Rational(11, 12)}
    assert replace(common, parameters=fewer).verdict().kind == Kind.NOT_IMPLIED


# ---------------------------------------------------------------- counterexamples by simulation
def test_a_block_that_starts_anywhere_has_regret_five_halves():
    def worst(D, M, G, start):
        """Return the decrease for slopes of +1 until the bottom, then short runs of -1 and +1, gaining eta/2 a step."""
        eta, delta, losses = D / (G * math.sqrt(M)), start, []
        slopes = [1.0] * 40 + [slope for _ in range(45) for slope in (-1.0,) * 4 + (1.0,) * 4]
        for slope in slopes[:M]:
            losses.append(slope * delta)
            delta = max(-D, min(D, delta - eta * slope))
        best = -D * abs(sum(slopes[:M]))
        return (sum(losses) - best) / (D * G * math.sqrt(M))

    assert worst(1.0, 400, 1.0, 1.0) == pytest.approx(2.5, abs=1e-9)
    assert worst(1.0, 400, 1.0, 0.0) <= 1.5  # control: Lemma A.1 itself, from 0


def test_first_order_directions_in_three_dimensions():
    """For ||x|| at half a radius: sphere 1/3, ball 0.475, two-point estimate 0.475."""

    def along(r, c):  # derivative of ||x|| along x, at x + y with |y| = r and cosine c; |x| = 1/2, alpha = 1
        return (0.5 + r * c) / math.sqrt(0.25 + r * r + r * c)

    sphere = integrate.quad(lambda c: along(1, c) / 2, -1, 1)[0]
    ball = integrate.dblquad(lambda c, r: 3 * r * r * along(r, c) / 2, 0, 1, -1, 1)[0]
    two = integrate.quad(lambda c: 3 / 2 * (math.sqrt(1.25 + c) - math.sqrt(1.25 - c)) * c / 2, -1, 1)[0]
    assert sphere == pytest.approx(1 / 3, abs=1e-9) and ball == pytest.approx(0.475, abs=1e-6)
    assert two == pytest.approx(ball, abs=1e-6)


@pytest.mark.parametrize("d", [2, 10, 100])
def test_an_estimate_has_norm_root_d(d):
    generator = np.random.default_rng(d)
    y = generator.normal(size=(20_000, d))
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    slopes = generator.normal(size=(20, d))
    slopes /= np.linalg.norm(slopes, axis=1, keepdims=True)
    linear = d * y[:, 0]
    several = d * ((y @ slopes.T).max(axis=1) - (-y @ slopes.T).max(axis=1)) / 2
    bound = d * d / (d - 1)
    assert np.mean(linear**2) == pytest.approx(d, rel=0.05) and np.mean(several**2) <= bound
    assert np.mean(linear**2) < d * d or d == 2


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


def test_stationary_points_of_samples_that_are_none_of_the_population():
    """Proposition 5.1's counterexample: n = 20 signs per cell, and so many cells that one has a mean of at most 0."""
    num_samples = 20
    p = stats.binom.sf(math.ceil(num_samples / 2) - 1, num_samples, 0.25)
    assert p == pytest.approx(0.01386, abs=1e-4)
    assert stats.binom.sf(24, 50, 0.25) == pytest.approx(1.2e-4, rel=0.05)
    cells = math.ceil(5 / p)
    generator = np.random.default_rng(3)
    flat = 0
    for _ in range(100):
        slopes = 1 - 2 * (generator.binomial(num_samples, 0.25, size=cells) / num_samples)
        flat += slopes.min() <= 0 < slopes.max()
    assert flat >= 95  # 0 is a convex combination of slopes, while every slope of the population is 1/2


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


GRID = np.linspace(-6, 6, 2401)
CORE = np.abs(GRID) <= 2  # away from the ends, so that values beyond them do not matter


def lasry_lions(h: np.ndarray, lam: float) -> tuple[np.ndarray, np.ndarray]:
    """Return eq. (19), corrected, on the grid: the inner envelope, and the smoothed function on the core."""
    square = (GRID[:, None] - GRID[None, :]) ** 2
    inner = np.min(h[None, :] + square / (4 * lam), axis=1)
    return inner, np.max(inner[None, :] - square[CORE] / (2 * lam), axis=1)


def test_lasry_lions_smoothing_of_a_peak():
    """For h = -L|x| the error at 0 is L^2 lambda, and the curvature near 0 is 1/lambda."""
    L, lam = 2.0, 0.5
    _, smooth = lasry_lions(-L * np.abs(GRID), lam)
    center = len(smooth) // 2
    assert 0 - smooth[center] == pytest.approx(L**2 * lam, abs=1e-3)
    near = smooth[[center - 20, center, center + 20]]
    assert (near[0] - 2 * near[1] + near[2]) / 0.01 == pytest.approx(-1 / lam, abs=1e-2)


@pytest.mark.parametrize("seed", range(3))
def test_what_lasry_lions_smoothing_keeps(seed: int):
    """Fact B.2 (i) and (iii), and the distance in the proof of Lemma B.3, for a random piecewise linear function."""
    lam, L = 0.1, 3.0
    slopes = np.random.default_rng(seed).choice([-L, -1, 1, L], size=24)
    h = np.interp(GRID, np.linspace(-6, 6, 25), np.concatenate([[0], np.cumsum(0.5 * slopes)]))
    h += np.maximum(np.abs(GRID) - 1.5, 0) * 2 * L  # the minimum lies in the core
    inner, smooth = lasry_lions(h, lam)
    assert (inner[CORE] <= smooth + 1e-12).all() and (smooth <= h[CORE] + 1e-12).all()
    assert smooth.min() == pytest.approx(h.min(), abs=1e-12) and smooth.argmin() == h[CORE].argmin()
    steps = np.abs(np.diff(smooth)) / np.diff(GRID[CORE])
    assert steps.max() <= np.abs(np.diff(h) / np.diff(GRID)).max() * (1 + 1e-9)
    # The proof's z* is at distance lambda times the slope there from x, not lambda times a bound on the slope.
    z = GRID[np.argmax(inner[None, :] - (GRID[CORE][:, None] - GRID[None, :]) ** 2 / (2 * lam), axis=1)]
    slope = np.gradient(smooth, GRID[CORE])
    assert np.abs(np.abs(z - GRID[CORE]) - lam * np.abs(slope))[5:-5].max() < 0.01
    flat = np.abs(slope) < 0.9 * L
    assert (np.abs(z - GRID[CORE])[flat] < lam * L).all() and flat.any()


def test_a_mean_of_smoothed_components_has_other_minimisers():
    L, lam, far = 1.0, 0.25, 0.5
    components = 2 * L * np.abs(GRID), L * np.abs(GRID - far)
    assert GRID[np.sum(components, axis=0).argmin()] == pytest.approx(0, abs=1e-9)
    smoothed = [lasry_lions(component, lam)[1] for component in components]
    assert [GRID[CORE][f.argmin()] for f in smoothed] == pytest.approx([0, far], abs=1e-9)
    assert GRID[CORE][np.sum(smoothed, axis=0).argmin()] == pytest.approx(lam * L, abs=0.006)


def test_goldstein_s_descent_and_that_of_components():
    """A step of alpha along -g lowers F by alpha |g| (Property (ii)), for g of Definition B.1 too, not by twice it."""
    draw, radius, most = np.random.default_rng(0), 0.3, 0.0
    for _ in range(50):
        inputs, targets, x = draw.normal(size=(6, 3)), np.abs(draw.normal(size=6)), draw.normal(size=3)
        lengths, at = np.linalg.norm(inputs, axis=1), inputs @ x

        def value(x: np.ndarray, inputs=inputs, targets=targets) -> float:
            return float(np.abs(np.abs(inputs @ x) - targets).mean())

        kinks = np.stack([-targets, 0 * targets, targets])
        reached = np.abs(kinks - at) <= radius * lengths
        here = np.sign(np.abs(at) - targets) * np.sign(at)
        low, high = here.copy(), here.copy()
        for kink, inside in zip(kinks, reached, strict=True):
            for side in (-1e-9, 1e-9):
                slope = np.sign(np.abs(kink + side) - targets) * np.sign(kink + side)
                low, high = (
                    np.where(inside, np.minimum(low, slope), low),
                    np.where(inside, np.maximum(high, slope), high),
                )
        rows = inputs.T / len(inputs)
        found = optimize.lsq_linear(rows, np.zeros(3), (low - 1e-12, high + 1e-12), tol=1e-14).x
        g = rows @ found
        if (norm := np.linalg.norm(g)) < 1e-3:
            continue
        lowered = value(x) - value(x - radius * g / norm)
        assert lowered >= radius * norm * (1 - 1e-6)
        most = max(most, radius * norm / lowered)
    assert most > 0.9, "control: by little more in some case"
