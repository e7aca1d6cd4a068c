"""The amount by which privacy breaks: every privacy-breaking erratum has a number, computed here independently.

Only the number is taken from the claims. Noises are those printed, sensitivities those of one replaced example (or of
one set to zero, where the entry says so), and delta comes from scipy, from dp_accounting, or from an integral.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy.integrate import quad
from scipy.linalg import solve_triangular
from scipy.optimize import brentq
from scipy.stats import laplace

from dpnotes import papers
from dpnotes.theory.claims import Breach, Erratum, Severity
from tests.papers.profile import gaussian

LOG = math.log(1e6)  # ln(1/delta) of delta = 1e-6
LOG2 = math.log2(1e6)  # the same to base 2, to which Algorithm 1 of two papers counts its levels
LEVELS, SHIFTED = 11, 23  # nodes of a leaf (1024 leaves); nodes that a reset at the half shifts (4096 leaves)
BREACHES: dict[str, Breach] = {c.id: c.erratum.breach for c in papers.claims() if c.erratum and c.erratum.breach}


def laplacian(epsilon: float, ratio: float) -> float:
    """Return the least delta of a Laplace mechanism whose sensitivity is `ratio` scales."""
    return max(0.0, 1 - math.exp((epsilon - ratio) / 2))


def exact_ratio(epsilon: float, delta: float) -> float:
    return float(brentq(lambda ratio: gaussian(epsilon, ratio) - delta, 1e-3, 50))


def nodes(step: int, leaves: int, first: int, rule: str) -> list[tuple[int, int]]:
    """Return NODE(step), with blocks of leaves/2^first, ... 1 leaves; `rule` is line 14's condition on an end."""
    begun, chosen = 0, []
    for power in range(first, leaves.bit_length()):
        end = begun + leaves // 2**power
        if begun < step and end <= {"k' <= k": begun, "k' <= t": step}[rule]:
            chosen.append((begun + 1, end))
            begun = end
    return chosen


def tree_delta(epsilon: float, asked: list[list[tuple[int, int]]], shift: np.ndarray, noise: float = 1.0) -> float:
    """Return delta of releases whose noises are sums of the requested nodes, and which an example shifts.

    If no noise can cover the shift, it is seen with certainty, and delta is 1.
    """
    used = sorted({node for some in asked for node in some})
    design = np.array([[float(node in some) for node in used] for some in asked]) * noise
    if not used:
        return 1.0
    needed, *_ = np.linalg.lstsq(design, shift, rcond=None)
    if not np.allclose(design @ needed, shift):
        return 1.0
    return gaussian(epsilon, float(np.linalg.norm(needed)))


def last_leaf(leaves: int, first: int, rule: str, noise: float = 1.0) -> float:
    steps = range(1, leaves + 1)
    shift = np.array([float(step == leaves) for step in steps])  # an example of the last leaf
    return tree_delta(1.0, [nodes(step, leaves, first, rule) for step in steps], shift, noise)


def first_release(steps: Iterable[int], noise: float = 1.0) -> float:
    """Return delta for an example that shifts only the first of these releases, of a corrected tree with 8 leaves."""
    asked = [nodes(step, 8, 0, "k' <= t") for step in steps]
    return tree_delta(1.0, asked, np.eye(len(asked))[0], noise)


def reset_at_the_half(noise: float, leaves: int = 4096) -> float:
    """Return delta of one tree with O1 called after half of its leaves; an example of leaf 1 shifts all before."""
    asked = [nodes(step, leaves, 0, "k' <= t") for step in range(1, leaves + 1)]
    place = {some[-1]: step for step, some in enumerate(asked)}  # each release has one node that ends with it
    design = np.zeros((leaves, leaves))
    for step, some in enumerate(asked):
        design[step, [place[node] for node in some]] = noise
    shift = (np.arange(leaves) < leaves // 2).astype(float)
    return gaussian(1.0, float(np.linalg.norm(solve_triangular(design, shift, lower=True))))


def subsampled(epsilon: float) -> float:
    assert epsilon == pytest.approx(0.05 + 2 * math.sqrt(0.05 * LOG), rel=1e-8)  # Lemma C.4 at zCDP 0.05
    assert 1000 * 0.01**2 / (2 * 1.0**2) == pytest.approx(0.05)
    one = privacy_loss_distribution.from_gaussian_mechanism(1.0, sampling_prob=0.01, value_discretization_interval=1e-3)
    return one.self_compose(1000).get_delta_for_epsilon(epsilon)


def above_threshold(scale: float) -> float:
    """Return delta of AboveThreshold at epsilon = 1 and sensitivity 1, for choosing the last of ten points.

    The noise has scale 2 on the threshold, which is 0, and `scale` on a query. Nine queries are -2 and -1 in the two
    data sets, the tenth is 1 and 0.
    """

    def probability(below: float, above: float) -> float:
        def density(noise: float) -> float:
            others = laplace.cdf(noise - below, scale=scale) ** 9
            return float(laplace.pdf(noise, scale=2) * others * laplace.sf(noise - above, scale=scale))

        return quad(density, -80, 80, points=[-2, -1, 0, 1], limit=500)[0]

    return probability(-2, 1) - math.e * probability(-1, 0)


# For each erratum, the delta of the printed version at its stated epsilon, and that of the correction if it is a noise.
REACHED: dict[str, Callable[[float], float]] = {
    "adaptive_batch.alg1.levels": lambda epsilon: last_leaf(8, 1, "k' <= t"),
    "adaptive_batch.alg1.node": lambda epsilon: last_leaf(16, 1, "k' <= k"),
    "adaptive_batch.alg2.first": lambda epsilon: first_release(range(8)),
    "adaptive_batch.lemma3.7.O1": lambda epsilon: gaussian(epsilon, 2 * math.sqrt(LEVELS) / LOG2),
    "adaptive_batch.lemma3.7.O2": lambda epsilon: gaussian(epsilon, 2 * math.sqrt(LEVELS) / LOG2),
    "adaptive_batch.lemma3.7.sigma": lambda epsilon: gaussian(epsilon, 2 * math.sqrt(LEVELS) / LOG2),
    "adaptive_batch.alg2.reset": lambda epsilon: reset_at_the_half(LOG2),
    "adaptive_batch.lemma3.8.privacy": lambda epsilon: gaussian(epsilon, math.sqrt(2 * 20 - 1) / LOG2),
    "adaptive_batch.thm3.11.sigma": lambda epsilon: gaussian(epsilon, 2 * math.sqrt(LEVELS)),
    "budget_schedules.lemmaC.4.inversion": lambda epsilon: gaussian(epsilon, math.sqrt(2 * 81.49)),
    "budget_schedules.eq18.replacement": lambda epsilon: gaussian(epsilon, 2 * math.sqrt(0.3927)),
    "budget_schedules.sec4.3.zcdp": subsampled,
    "goldstein.alg1.node": lambda epsilon: last_leaf(8, 1, "k' <= t"),
    "goldstein.alg3.index": lambda epsilon: first_release(step % 8 for step in (8, *range(1, 8))),
    "noisy_sgd.sec3.4.sensitivity": lambda epsilon: laplacian(epsilon, 2),
    "noisy_sgd.sec3.4.laplace": lambda epsilon: above_threshold(1),
    "noisy_sgd.sec3.4.hessian": lambda epsilon: laplacian(epsilon, 2 * math.sqrt(1 / 1000) * 1000),
}
KEPT: dict[str, Callable[[], float]] = {  # the same functions, at the corrections
    "adaptive_batch.alg1.node": lambda: last_leaf(16, 0, "k' <= t", 1 / exact_ratio(1, 1e-6)),
    "adaptive_batch.alg2.first": lambda: first_release(range(1, 9), 1 / exact_ratio(1, 1e-6)),
    "goldstein.alg3.index": lambda: first_release(
        ((step - 1) % 8 + 1 for step in (8, *range(1, 8))), 1 / exact_ratio(1, 1e-6)
    ),
    "adaptive_batch.lemma3.7.sigma": lambda: gaussian(1.0, exact_ratio(1, 1e-6)),
    "adaptive_batch.alg2.reset": lambda: reset_at_the_half(math.sqrt(SHIFTED) / exact_ratio(1, 1e-6)),
    "budget_schedules.lemmaC.4.inversion": lambda: gaussian(4.0, math.sqrt(2 * 0.1963)),
    "budget_schedules.eq18.replacement": lambda: gaussian(4.0, 2 * math.sqrt(0.3927 / 4)),
    "noisy_sgd.sec3.4.sensitivity": lambda: laplacian(1.0, 1),
    "noisy_sgd.sec3.4.laplace": lambda: above_threshold(4),
}


# Of the entries above whose print has a logarithm, the same with the natural one.
NATURAL: dict[str, Callable[[], float]] = {
    **{f"adaptive_batch.lemma3.7.{part}": lambda: gaussian(1, 2 * math.sqrt(LEVELS) / LOG) for part in ("O1", "O2")},
    "adaptive_batch.lemma3.7.sigma": lambda: gaussian(1, 2 * math.sqrt(LEVELS) / LOG),
    "adaptive_batch.lemma3.8.privacy": lambda: gaussian(1, math.sqrt(39) / LOG),
    "adaptive_batch.alg2.reset": lambda: reset_at_the_half(LOG),
}


@pytest.mark.parametrize("name", sorted(NATURAL))
def test_an_accusation_stands_for_either_base_of_its_logarithm(name: str):
    """And the number in print is the smaller one, which is that of base 2, where there is more noise."""
    assert BREACHES[name].delta < BREACHES[name].reached < NATURAL[name]()
    assert "base 2" in BREACHES[name].setting and f"{NATURAL[name]():.2g} with ln" in BREACHES[name].setting


def test_control_what_breaks_for_one_base_only_is_no_accusation():
    """Lemma 6.3 of goldstein, a period of 2: the sensitivity is twice the printed one, the noise has a constant 4."""

    def reached(epsilon: float, period: float, failures: float) -> float:
        return gaussian(epsilon, 2 * math.sqrt(2) * epsilon / (4 * math.sqrt(period * failures)))

    assert reached(4, math.log(2), LOG) == pytest.approx(7.7e-6, rel=0.01), "breaks 1e-6 by natural logarithms"
    assert [reached(e, 1, LOG2) for e in (4, 16)] == pytest.approx([9.2e-11, 7.2e-8], rel=0.01), "and not by base 2"
    assert reached(8, 1, LOG) < 1e-6 < reached(9, 1, LOG), "of mixed bases: from about 9 on"
    assert reached(20, 1, LOG2) < 1e-6 and reached(1, math.log(2), LOG) < 1e-6 < reached(2, math.log(2), LOG)
    erratum = papers.claim("goldstein.lemma6.3.reset").erratum
    assert erratum is not None and erratum.severity == Severity.CONSTANT and erratum.breach is None


def test_the_nodes_of_one_tree_that_is_asked_anew_at_the_half():
    """2 K - 1 for 2^K leaves: counted for small trees, and for 4096 leaves by the noises themselves.

    Half as many leaves, or prefix sums, keep the stated delta with the same noise.
    """
    for power in (2, 3, 4, 5):
        leaves = 2**power
        used = {node for step in range(1, leaves + 1) for node in nodes(step, leaves, 0, "k' <= t")}
        shifted = sum((low <= 1 <= high) != (low <= leaves // 2 + 1 <= high) for low, high in used)
        assert shifted == 2 * power - 1
    assert gaussian(1.0, math.sqrt(SHIFTED) / LOG) == pytest.approx(reset_at_the_half(LOG), rel=1e-9)
    assert reset_at_the_half(LOG2, 2048) < 1e-6 and gaussian(1.0, math.sqrt(13) / LOG2) == pytest.approx(
        8.2e-10, rel=1e-2
    )


def test_every_privacy_breaking_entry_has_a_number_that_is_computed_here():
    severe = {c.id for c in papers.claims() if c.erratum and c.erratum.severity == Severity.PRIVACY}
    assert severe == set(BREACHES) == set(REACHED)
    assert set(KEPT) <= severe


@pytest.mark.parametrize("name", sorted(REACHED))
def test_the_number_is_reproduced(name: str):
    breach = BREACHES[name]
    found = REACHED[name](breach.epsilon)
    assert found > breach.stated
    digits = 4 if breach.reached > 0.9 else 2
    assert float(f"{found:.{digits}g}") == pytest.approx(breach.reached, rel=1e-9)


@pytest.mark.parametrize("name", sorted(KEPT))
def test_control_what_the_correction_asks_for_keeps_what_is_stated(name: str):
    assert KEPT[name]() <= max(BREACHES[name].delta, 1e-12) * (1 + 1e-6)


def test_the_other_accountant_agrees_on_gaussians():
    for epsilon, ratio in ((1.0, 0.48), (4.0, 1.2533)):
        other = privacy_loss_distribution.from_gaussian_mechanism(1 / ratio).get_delta_for_epsilon(epsilon)
        assert gaussian(epsilon, ratio) == pytest.approx(other, rel=1e-2)


@pytest.mark.parametrize(
    ("severity", "breach"), [(Severity.PRIVACY, None), (Severity.CONSTANT, Breach(1, 1e-6, 0.1, "anywhere", "any"))]
)
def test_a_breach_stands_exactly_where_privacy_breaks(severity: Severity, breach: Any):
    with pytest.raises(ValueError, match="Expected a breach exactly where privacy breaks"):
        Erratum(severity, "wrong", None, "v1", breach=breach)
    with pytest.raises(ValueError, match="Expected reached="):
        Breach(1, 1e-6, 1e-6, "nowhere", "any")
    with pytest.raises(ValueError, match="the name of a mechanism"):
        Breach(1, 1e-6, 0.1, "anywhere", " ")


def test_a_breach_of_zcdp_is_stated_and_compared_in_rho():
    """Noise for half the sensitivity: rho is `(sensitivity / noise)**2 / 2`, four times the stated one."""
    noise = 1 / math.sqrt(2 * 0.5)
    breach = Breach.zcdp(0.5, 0.5 * (2 / noise) ** 2, "one step", "Algorithm 2")
    assert str(breach) == "0.5-zCDP is stated, and rho is 2: one step" and breach.stated == 0.5
    assert Breach.zcdp(0.5, math.inf, "a norm without noise", "Algorithm 2").reached == math.inf
    with pytest.raises(ValueError, match=r"Expected reached=0\.5 in \(0\.5, inf\]"):
        Breach.zcdp(0.5, 0.5, "nowhere", "Algorithm 2")
    assert Erratum(Severity.PRIVACY, "wrong", None, "v1", breach=breach).mechanism == "Algorithm 2"
