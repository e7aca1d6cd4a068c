"""The museum: every broken variant differs from the correct one by one line, and both exhibits distinguish the two."""

import ast
import difflib
import inspect
import math
import textwrap

import pytest
import torch

from dpnotes.privacy.accounting import rho_to_epsilon
from dpnotes.privacy.audit import GaussianPair
from dpnotes.privacy.museum import Exhibit, Setting, exhibits, releases, wild, with_line_replaced
from dpnotes.privacy.museum.exhibit import LEVEL, POWER

*BREAKING, COSTLY = ALL = (*exhibits(), *wild())
by_name = pytest.mark.parametrize("exhibit", ALL, ids=lambda e: e.name)
that_breaks = pytest.mark.parametrize("exhibit", BREAKING, ids=lambda e: e.name)


@by_name
def test_the_two_sources_differ_by_the_one_line_that_is_named(exhibit: Exhibit):
    correct = inspect.getsource(exhibit.part)
    broken = with_line_replaced(correct, exhibit.line, exhibit.instead)
    changed = [line for line in difflib.ndiff(correct.splitlines(), broken.splitlines()) if line[:2] in ("- ", "+ ")]
    assert [line[0] for line in changed] == ["-", "+"]
    assert [line[2:].strip() for line in changed] == [exhibit.line, exhibit.instead]
    # The broken release runs that source: its code has the constants and names of the broken source, compiled here.
    function = exhibit.broken if exhibit.part is exhibit.correct else exhibit.broken.__globals__[exhibit.part.__name__]
    compiled: dict = {}
    exec(textwrap.dedent(broken), dict(exhibit.part.__globals__), compiled)
    assert function.__code__.co_code == compiled[exhibit.part.__name__].__code__.co_code
    assert function.__code__.co_consts[1:] == compiled[exhibit.part.__name__].__code__.co_consts[1:]
    assert function.__code__ != exhibit.part.__code__
    assert ast.dump(ast.parse(correct)) != ast.dump(ast.parse(broken))  # the difference is no comment


@that_breaks
def test_exhibit_a_the_densities_exceed_the_claim_exactly_when_it_is_broken(exhibit: Exhibit):
    assert exhibit.exact(broken=True) > exhibit.claim.epsilon * 1.2
    assert exhibit.exact(broken=False) <= exhibit.claim.epsilon * (1 + 1e-9)


@that_breaks
@pytest.mark.slow
def test_exhibit_b_the_audit_exceeds_the_claim_exactly_when_it_is_broken(exhibit: Exhibit):
    # With fixed seeds, a broken variant passes with probability at most 1%, and a correct one is rejected with at most
    # 1%.
    _, runs, power = exhibit.design
    bound = exhibit.audit(broken=True)
    assert power >= POWER and bound.runs == 2 * runs and bound.level == LEVEL
    assert bound.exceeds(exhibit.claim)
    correct = exhibit.audit(broken=False)
    assert correct.runs == bound.runs and not correct.exceeds(exhibit.claim)
    assert correct.epsilon > 0.05 * exhibit.claim.epsilon, "an audit that sees nothing would pass everything"


def test_the_correct_tree_keeps_its_claim_whichever_increment_changes():
    for exhibit in ALL:
        if exhibit.correct is not releases.prefix_sums:
            continue
        length = len(exhibit.setting.without)
        epsilons = []
        for step in range(length):
            moved = torch.eye(length, dtype=torch.float64)[step]
            setting = Setting(exhibit.setting.without, moved, length, exhibit.setting.options)
            epsilons.append(setting.pair(exhibit.correct).epsilon(exhibit.claim.delta))
        assert max(epsilons) == pytest.approx(exhibit.claim.epsilon, rel=1e-9)


def test_two_failures_cost_what_the_derivation_says():
    # The hockey-stick divergence of the broken one at the claimed epsilon is delta + (1 + e^epsilon) delta, not 2
    # delta.
    exhibit = next(e for e in ALL if "counted once" in e.name)
    delta, low = (exhibit.setting.options[name] for name in ("delta", "low"))
    included, without = (exhibit.pair(broken=True).rates(0.5)[side] for side in (0, 1))
    assert (included, without) == pytest.approx((delta + math.exp(2.0) * low + delta, low - delta))
    assert included - math.exp(2.0) * without == pytest.approx(delta + (1 + math.exp(2.0)) * delta)
    assert exhibit.pair(broken=False).epsilon(delta) == pytest.approx(2.0, abs=1e-6)


def test_noise_for_the_sum_on_the_mean_costs_accuracy_and_no_privacy():
    assert "added to the mean" in COSTLY.name
    batch_size = len(COSTLY.setting.without)
    assert COSTLY.exact(broken=True) == pytest.approx(rho_to_epsilon(batch_size**-2 / 2, 1e-5, "exact"), rel=1e-6)
    assert COSTLY.exact(broken=True) < COSTLY.claim.epsilon / 400
    pairs = [COSTLY.pair(broken) for broken in (False, True)]
    errors = [float(pair.noise.norm()) for pair in pairs if isinstance(pair, GaussianPair)]  # of the released mean
    assert errors == pytest.approx([2 / batch_size, 2.0])
    _, runs, power = COSTLY.design
    bound = COSTLY.audit(broken=True)
    assert power < 1e-9 and bound.runs == 2 * runs and not bound.exceeds(COSTLY.claim)
    # The control: the same attack with the same runs detects the correct variant's noise, which is as claimed.
    assert COSTLY.audit(broken=False).epsilon > 0.05 * COSTLY.claim.epsilon > bound.epsilon


# The numbers in the notebook and docs/privacy.md: the claim, and the exact epsilon at its delta, of the correct release
# and of the broken one.
TOLD = {
    "sensitivity halved": (4.377, 1e-05, 4.377, 9.997),
    "noise reused": (4.377, 1e-05, 4.377, math.inf),
    "wrong root of the zCDP formula": (4.0, 1e-08, 3.457, 152.302),
    "printed NODE: no node is ever taken": (4.983, 1e-05, 4.983, math.inf),
    "printed NODE: the root is missing": (4.983, 1e-05, 2.943, math.inf),
    "printed NODE: steps counted from 0": (4.983, 1e-05, 4.983, math.inf),
    "tree not restarted": (3.139, 0.001, 3.139, 4.845),
    "batch divided by its realised size": (1.472, 0.001, 0.631, 7.794),
    "sampling without its accountant": (1.685, 1e-05, 1.685, 4.377),
    "accounting without its sampling": (4.377, 1e-05, 4.377, 15.456),
    "bound measured and not enforced": (4.377, 1e-05, 4.377, 9.997),
    "examples sorted together": (4.377, 1e-05, 4.377, 1805.870),
    "failures of two data sets counted once": (2.0, 0.1, 1.880, 3.792),
    "noise times the square of the clip": (4.377, 1e-05, 4.377, 50042647.908),
    "one key for every layer": (4.377, 1e-05, 4.377, math.inf),
    "values shared without noise": (4.377, 1e-05, 4.377, math.inf),
    "divided by a size that the data decide": (4.377, 1e-05, 4.377, 67.296),
    "noise for the sum, added to the mean": (4.377, 1e-05, 4.377, 0.009),
}


def test_the_numbers_of_every_exhibit_are_those_that_are_told():
    found = {e.name: (e.claim.nominal_epsilon, e.claim.delta, e.exact(broken=False), e.exact(broken=True)) for e in ALL}
    assert found.keys() == TOLD.keys()
    for name, numbers in TOLD.items():
        assert found[name] == pytest.approx(numbers, rel=1e-3, abs=1e-3), name


def test_a_sorted_batch_moves_its_mean_as_many_times_too_far_as_it_has_examples():
    exhibit = next(e for e in ALL if "sorted" in e.name)
    data = torch.stack([exhibit.setting.without, exhibit.setting.included])
    quiet = torch.zeros(2, 1, dtype=torch.float64)
    declared = 2 / data.shape[1]
    moves = [float(release(data, quiet, 1.0).diff(dim=0).abs()) for release in (exhibit.correct, exhibit.broken)]
    assert moves == pytest.approx([declared, 56 * declared])
    # Checking two examples once shows nothing: the first is the shorter one, and sees only itself.
    alone, pair = (releases.gradients_of(exhibit.setting.without[:size]) for size in (1, 2))
    assert pair[0] == alone[0] != 0
    swapped = releases.gradients_of(exhibit.setting.without[:2].flip(0))  # with the two exchanged, the check would fail
    assert swapped[0] != releases.gradients_of(exhibit.setting.without[1:2])[0]


def test_a_line_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="Expected exactly one line 'y = 3', to become another, found 0"):
        with_line_replaced("y = 2\n", "y = 3", "y = 4")
    with pytest.raises(ValueError, match="found 2"):
        with_line_replaced("y = 2\ny = 2\n", "y = 2", "y = 4")
    with pytest.raises(ValueError, match="found 1"):
        with_line_replaced("y = 2\n", "y = 2", "y = 2")
    first = ALL[0]
    with pytest.raises(ValueError, match="found 0"):
        Exhibit("", "", "", first.correct, "sensitivity = 3", "", first.claim, first.setting)
