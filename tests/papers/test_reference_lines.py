"""Lines of the references: as printed, with what each pays against the exact cost, and mutated."""

import ast
import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from dpnotes.papers.adaptive_batch import reference as adaptive_reference
from dpnotes.papers.budget_schedules import reference as schedules_reference
from dpnotes.papers.drift_escape import reference as escape_reference
from dpnotes.papers.goldstein import reference as goldstein_reference
from dpnotes.papers.noisy_sgd import reference as noisy_reference
from tests.papers import paths
from tests.papers.paths import START, STREAMS, TERMS, Record, converted, normal, spider_steps, walked
from tests.papers.test_reference import DATA, HELD, Escape, choosing, client_rounds, escape_steps, escapes

# ---------------------------------------------------------------- lines as printed
ONE = torch.ones(1, dtype=torch.float64)


Check = Callable[[Any, set[int]], bool]


def of_schedules(module: Any, printed: set[int], rows: Tensor, sigmas: list[float]) -> list[Any]:
    draws = lambda t: 0 * ONE  # noqa: E731
    given = (lambda x: rows - x, 0 * ONE, sigmas, 1.0, 1.0, 0.1, draws)
    return [*module.private_gradient_descent(*given, printed=printed)]


def long_gradient_moves_the_mean_too_far(module: Any, printed: set[int]) -> bool:
    """Return whether an example with a gradient of norm 50 moves the mean of four by more than G / 4."""
    without, included = torch.zeros(4, 1, dtype=torch.float64), torch.tensor([[50.0], [0], [0], [0]]).double()
    moved = (of_schedules(module, printed, rows, [2.0])[0].g for rows in (included, without))
    return float(next(moved) - next(moved)) > 1 / 4


def last_step_is_lost(module: Any, printed: set[int]) -> bool:
    """Return whether the last of four steps, each at a quarter of the budget, is refused."""
    return len(of_schedules(module, printed, torch.zeros(4, 1).double(), [2.0] * 4)) == 3


def lone_example_moves_the_mean_by_C(function: str) -> Callable[[Any, set[int]], bool]:
    """Return a check that a lone example, in a Poisson batch of expected size 10, moves the mean by C, not C / 10."""

    def check(module: Any, printed: set[int]) -> bool:
        batch = lambda t: torch.tensor([0])  # noqa: E731
        given = (lambda x, _: ONE[None], 0 * ONE, batch, 10, 1, 1.0, 1.0, 0.1, lambda t: 0 * ONE)
        return float(next(getattr(module, function)(*given, printed=printed)).g) == pytest.approx(1.0)

    return check


def sums(module: Any, printed: set[int]) -> list[Any]:
    return [*module.tree_mechanism(TERMS[:8], 8, 2.0, 0.3, lambda end: normal("tree mechanism", end), printed=printed)]


def eighth_term_has_no_noise(module: Any, printed: set[int]) -> bool:
    """Return whether TREE(8) equals TREE(7), so that the difference of the two sums is the private term."""
    seventh, eighth = sums(module, printed)[6:]
    assert module.node(9, 9, printed) == [(1, 8), (9, 9)], "a sum of nine has the block of eight"
    return eighth.blocks == seventh.blocks != [] and bool((eighth.private_noise == seventh.private_noise).all())


def largest_block_is_not_paid_for(module: Any, printed: set[int]) -> bool:
    assert module.held(6, 8, printed) == ({6} if printed else {6, 8}) and module.held(7, 7, printed) == {7}
    assert module.held(1, 9, printed) == {1, 2, 4, 8}, "of nine leaves that is no largest block"
    return module.held(1, 8, printed) == {1, 2, 4}


def no_term_has_noise(module: Any, printed: set[int]) -> bool:
    terms = list(sums(module, printed))
    bare = all(bool((each.released == each.private_sum).all()) and each.blocks == [] for each in terms)
    return bare and {each.paid for each in terms} == {math.inf}


def numbers_are_published(module: Any, printed: set[int]) -> bool:
    """Two questions a point, with noise C/(n epsilon) = 1/8 and L/(n epsilon) = 1/4; the last is at both limits."""
    noise = {0: 1.0, 1: 0.0, 2: 0.5, 3: -1.0, 4: 0.5, 5: 1.0, 6: 0.5, 7: 0.5}
    norms, eigenvalues = [0.1875, 0.125, 0.125, 0.1875], [0.0, -0.125, -0.625, -0.375]

    def asked(count: int) -> list[Record]:
        found = module.select_stationary_point(
            range(count), norms.__getitem__, eigenvalues.__getitem__, 2.0, 0.25, 0.25, 2.0, 4.0, 8, 3, 0.05,
            lambda purpose, i: noise.get(i, 0.0) if not printed else noise[i], printed=printed,
        )  # fmt: skip
        return list(walked(found, "i", "yes", "paid", "left", "private_value", "private_threshold"))

    rows = [(i, i == 3, math.inf, 0.0, norms[i], 0.25) for i in range(4)]
    names = ("i", "yes", "paid", "left", "private_value", "private_threshold")
    expected = [dict(zip(names, row, strict=True)) for row in rows]
    all_no = [*expected[:2], {"end": ("FINISHED", None)}]
    return asked(4) == [*expected, {"end": ("FINISHED", 3)}] and asked(2) == all_no


def least_cost(leaf: int, reset: int, blocks: list[list[tuple[int, int]]]) -> float:
    """The least sum of squared shifts of noises that make up for an example of a leaf, until the sum forgets it.

    Args:
      leaf: whose example is replaced by one that is a unit apart.
      reset: the leaf at which the sum is begun anew.
      blocks: of the release at each leaf, 1, 2, ...

    Returns:
      Twice the zCDP, in units of the noise's variance; infinite where no noise makes up for it.
    """
    used = sorted({block for some in blocks for block in some})
    design = torch.tensor([[float(block in some) for block in used] for some in blocks]).double()
    shift = torch.tensor([float(leaf <= t < reset) for t in range(1, len(blocks) + 1)]).double()
    if not used:
        return math.inf
    needed = torch.linalg.pinv(design) @ shift
    return float(needed.square().sum()) if torch.allclose(design @ needed, shift, atol=1e-9) else math.inf


@cache
def worst_cost(leaf: int, Sigma: int) -> float:
    """The same at the worst leaf for a reset, of a tree that goes on; the last one is none."""
    blocks = [adaptive_reference.node(t, Sigma) for t in range(1, Sigma + 1)]
    return max(least_cost(leaf, reset, blocks) for reset in range(leaf + 1, Sigma + 2))


def examples_are_taken_that_are_not_there(module: Any, printed: set[int]) -> bool:
    """Return whether a batch is drawn although fewer examples are left, as long as more than b are."""
    *steps, last = spider_steps(module, DATA, frozenset(printed), c=1000.0)
    early = [*spider_steps(module, DATA, frozenset(printed), b=1500.0)]
    return last.left < 0 and all(step.left > 60.5 for step in steps) and len(early) == 1


def saddle_where_the_estimate_is_large(module: Any, printed: set[int]) -> bool:
    saddles = [step for step in spider_steps(module, DATA, frozenset(printed), threshold=0.12) if step.saddle]
    return any(float(step.estimate.norm()) > 0.12 for step in saddles)


def drift_is_forgotten(module: Any, printed: set[int]) -> bool:
    """Return whether the drift is one move long after the first saddle found by O2, although O1 was not called."""
    steps = [*spider_steps(module, DATA, frozenset(printed))]
    place = next(place for place, step in enumerate(steps) if step.saddle and not step.fresh)
    return steps[place].drift == pytest.approx(1.25 * float((steps[place].x - steps[place - 1].x).norm()))


def first_release_is_the_private_mean(module: Any, printed: set[int]) -> bool:
    """And, of one tree for the whole run, an example pays for the worst step at which its sum is begun anew."""
    first, second, *later = spider_steps(module, DATA, frozenset(printed), sigma=2.0)
    asked = [step for step in later if step.fresh and step.blocks and step.blocks[-1][1] == step.t]
    for step in asked if printed else ():
        assert step.paid == pytest.approx(worst_cost(step.t, 13) * (2 * 1.0 / step.batch / 2.0) ** 2 / 2)
    assert asked or not printed
    assert all(step.paid == math.inf for step in later if step.t > 13) or not printed, "the tree has no such leaf"
    assert not printed or torch.allclose(second.estimate - second.private_grad, 2 * normal("tree mechanism", 0))
    bare = bool((first.estimate - first.private_grad == 0).all())
    return first.blocks == [] and bare and first.paid == math.inf > second.paid


SLOW_DRIFT = Escape(escapes(1.25, drift=50.0), START, False)


def second_attempt_sees_a_jump(module: Any, printed: set[int]) -> bool:
    """Return whether its first query is a difference across the way back."""
    first = next(s for s in escape_steps(module, SLOW_DRIFT, frozenset(printed)) if (s.q, s.tau) == (2, 1))
    return not first.fresh


def first_step_of_an_attempt_asks_again(module: Any, printed: set[int]) -> bool:
    """Return whether it queries b2 examples at the last point, where the answer is 0 and known."""
    steps = [*escape_steps(module, SLOW_DRIFT, frozenset(printed))]
    place = next(place for place, step in enumerate(steps) if step.q)
    again, asked = steps[place], steps[place].t - steps[place - 1].t
    return asked == 2 and bool((again.private_mean == 0).all()) and not again.fresh


def last_point_is_returned(module: Any, printed: set[int]) -> bool:
    *steps, end = walked(escape_steps(module, SLOW_DRIFT, frozenset(printed)), "x")
    assert end["end"][0] == "FINISHED"
    return bool((end["end"][1] == steps[-1]["x"]).all())


def noise_is_half_of_what_it_should_be(fresh: bool) -> Callable[[Any, set[int]], bool]:
    def check(module: Any, printed: set[int]) -> bool:
        steps = escape_steps(module, SLOW_DRIFT, of_oracle=frozenset(printed))
        return next(step for step in steps if step.fresh == fresh).paid == pytest.approx(4 * 0.5 / 1.5**2)

    return check


def jump_is_no_drift(module: Any, printed: set[int]) -> bool:
    """Return whether the drift counted for the way back is that of a move that was not made."""
    steps = [*escape_steps(module, SLOW_DRIFT, frozenset({9}), frozenset(printed))]
    place = next(place for place, step in enumerate(steps) if (step.q, step.tau) == (2, 1))
    before = steps[place - 1]
    return steps[place].drift - before.drift == pytest.approx(0.32**2 * float(before.g @ before.g))


def rounds_at(module: Any, points: list[Tensor], printed: set[int], n: Any = HELD) -> list[Any]:
    """Return consecutive rounds of three clients at these points; the second point is away from the first."""
    last: list[Any] = [None]

    def models() -> Iterator[Any]:
        for x in points:
            yield x, last[0]

    found = []
    for each in client_rounds(module, SLOW_DRIFT, models(), frozenset(printed), n):
        last[0] = each
        found.append(each)
    return found


def a_client_pays_four_times(fresh: bool) -> Callable[[Any, set[int]], bool]:
    def check(module: Any, printed: set[int]) -> bool:
        steps = rounds_at(module, [START, 1.01 * START], printed)
        assert rounds_at(module, [START, START], printed)[1].paid == 0, "a move of 0 has no answer to pay for"
        assert len(rounds_at(module, [START, START], printed, [91, 92, 93])) == 1, "all its examples, and no more"
        return next(step for step in steps if step.fresh == fresh).paid == pytest.approx(4 * 0.5 / 1.5**2)

    return check


def a_jump_of_the_server_is_no_drift(module: Any, printed: set[int]) -> bool:
    first, second = rounds_at(module, [START, START + 1.0], printed)
    step = SLOW_DRIFT.parameters.escape.step_size
    return second.drift == pytest.approx(step**2 * float(first.g @ first.g)) != pytest.approx(3.0)


def a_flat_critical_point_is_rejected(module: Any, printed: set[int]) -> bool:
    """Return whether a client with one example in 60 dimensions rejects it: the threshold covers little but noise."""
    d = 60
    zero = (lambda x: torch.zeros(1, d).double(), lambda x: torch.zeros(1, d, d).double())
    noise = lambda t, j: STREAMS.normal("selection", t, d * (d + 3) // 2)[0]  # noqa: E731
    (step,) = choosing(module, printed, [torch.zeros(d).double()], [zero], [1], 50, noise, alpha=1e-12)
    return not step.yes


def last_leaf_is_the_one_before(module: Any, printed: set[int]) -> bool:
    assert module.node(9, 9, printed) == [(1, 8), (9, 9)]
    return module.node(8, 8, printed) == module.node(7, 8, printed)


BOWL = {"losses": lambda at, places: at.square().sum(2) / 2, "gradients": lambda at, places: at.sign()}


def queries_at(function: str, points: list[Tensor], asked: str, m: int) -> Callable[[Any, set[int]], list[Any]]:
    """Return a function that queries an oracle at these points, for a bowl or `|x|_1`, with negligible noise."""
    setting = paths.Conversion(replace(converted(False, 300).parameters, directions=m), 300)
    given: dict[str, Any] = {"n": 300, "Sigma": len(points), "m": m, "C1": 99.0, "C2": 99.0}
    given |= {"y": partial(paths.drawn_points, setting), "noise": lambda t: normal("noise", t), asked: BOWL[asked]}
    given |= {"sigma1": 1e-9, "sigma2": 1e-9} if "multi" in function else {"B1": 1, "B2": 1, "sigma": 1e-9}
    given |= {"n": 2} if "multi" in function else {}
    given |= {"alpha": 0.4} if asked == "losses" else {}
    return lambda module, printed: [*getattr(module, function)(points, **given, printed=printed)]


def increment_is_too_short(function: str) -> Check:
    """Return a check that the increment of a bowl is too short: with the ball, `alpha^2 d / (d + 2)` of the move."""
    queries = queries_at(function, [START, 3 * START], "losses", 4000)

    def check(module: Any, printed: set[int]) -> bool:
        first, second = queries(module, printed)
        length = float((second.private_g - first.g).norm() / (2 * START).norm())
        assert length == pytest.approx(0.4**2 * 3 / 5 if printed else 1.0, rel=0.1)
        return bool(printed)

    return check


def spot_has_an_increment(function: str, asked: str) -> Check:
    """Return a check that a second query at the same point, with its own directions, has a nonzero increment."""
    queries = queries_at(function, [0.1 * START] * 2, asked, 5)

    def check(module: Any, printed: set[int]) -> bool:
        first, second = queries(module, printed)
        return bool((second.private_g - first.g).norm() > 0.01)

    return check


def last_of_a_period_has_no_noise(function: str, asked: str) -> Check:
    queries = queries_at(function, [START] * 3, asked, 5)

    def check(module: Any, printed: set[int]) -> bool:
        last = queries(module, printed)[-1]
        return last.blocks == [] and bool((last.g == last.private_g).all())

    return check


LINES: dict[tuple[ModuleType, str, int], Check] = {
    (schedules_reference, "private_gradient_descent", 1): long_gradient_moves_the_mean_too_far,
    (schedules_reference, "private_gradient_descent", 2): last_step_is_lost,
    (noisy_reference, "clipped_noisy_sgd", 4): lone_example_moves_the_mean_by_C("clipped_noisy_sgd"),
    (noisy_reference, "noisy_sgd", 3): lone_example_moves_the_mean_by_C("noisy_sgd"),
    (noisy_reference, "select_stationary_point", 1): numbers_are_published,
    (adaptive_reference, "node", 12): eighth_term_has_no_noise,
    (adaptive_reference, "held", 12): largest_block_is_not_paid_for,
    (adaptive_reference, "node", 14): no_term_has_noise,
    (adaptive_reference, "stochastic_spider", 3): examples_are_taken_that_are_not_there,
    (adaptive_reference, "stochastic_spider", 9): saddle_where_the_estimate_is_large,
    (adaptive_reference, "stochastic_spider", 10): drift_is_forgotten,
    (adaptive_reference, "stochastic_spider", 13): first_release_is_the_private_mean,
    (escape_reference, "drift_escape", 9): second_attempt_sees_a_jump,
    (escape_reference, "drift_escape", 11): first_step_of_an_attempt_asks_again,
    (escape_reference, "drift_escape", 21): last_point_is_returned,
    (escape_reference, "adaptive_dp_spider", 5): noise_is_half_of_what_it_should_be(True),
    (escape_reference, "adaptive_dp_spider", 10): noise_is_half_of_what_it_should_be(False),
    (escape_reference, "adaptive_dp_spider", 12): jump_is_no_drift,
    (escape_reference, "distributed_adaptive_dp_spider", 6): a_client_pays_four_times(True),
    (escape_reference, "distributed_adaptive_dp_spider", 13): a_client_pays_four_times(False),
    (escape_reference, "distributed_adaptive_dp_spider", 17): a_jump_of_the_server_is_no_drift,
    (escape_reference, "errors", 7): a_flat_critical_point_is_rejected,
    (goldstein_reference, "node", 11): last_leaf_is_the_one_before,
    (goldstein_reference, "single_pass_from_losses", 12): increment_is_too_short("single_pass_from_losses"),
    (goldstein_reference, "single_pass_from_losses", 14): spot_has_an_increment("single_pass_from_losses", "losses"),
    (goldstein_reference, "single_pass_from_losses", 18): last_of_a_period_has_no_noise(
        "single_pass_from_losses", "losses"
    ),
    (goldstein_reference, "multi_pass_from_losses", 11): increment_is_too_short("multi_pass_from_losses"),
    (goldstein_reference, "multi_pass_from_losses", 13): spot_has_an_increment("multi_pass_from_losses", "losses"),
    (goldstein_reference, "single_pass_from_gradients", 11): spot_has_an_increment(
        "single_pass_from_gradients", "gradients"
    ),
    (goldstein_reference, "single_pass_from_gradients", 15): last_of_a_period_has_no_noise(
        "single_pass_from_gradients", "gradients"
    ),
}


# ---------------------------------------------------------------- what is paid, against the exact cost
@pytest.mark.parametrize("Sigma", [7, 8, 13, 16])
@pytest.mark.parametrize("printed", [frozenset(), frozenset({12}), frozenset({14})], ids=str)
def test_what_a_term_of_a_sum_pays_is_the_exact_cost(Sigma: int, printed: frozenset[int]):
    terms, noise = torch.zeros(Sigma, 1).double(), lambda end: normal("tree mechanism", end)
    sums = [*adaptive_reference.tree_mechanism(terms, Sigma, 2.0, 0.3, noise, printed)]
    for each in sums:
        exact = least_cost(each.t, Sigma + 1, [one.blocks for one in sums])
        assert each.paid == pytest.approx(exact * (0.3 / 2.0) ** 2 / 2), each.t


@pytest.mark.parametrize("Sigma", [8, 13, 16])
def test_what_an_example_of_one_tree_pays_is_the_exact_cost_at_the_worst_reset(Sigma: int):
    for leaf in range(1, Sigma + 1):
        assert adaptive_reference.shifted(leaf, Sigma) == pytest.approx(worst_cost(leaf, Sigma)), leaf


def test_control_a_reset_costs_more_than_the_blocks_of_the_leaf():
    blocks = [adaptive_reference.node(t, 16) for t in range(1, 17)]
    assert adaptive_reference.touched(8, 16) == 2 < least_cost(8, 9, blocks) == pytest.approx(4)
    ratios = [adaptive_reference.shifted(leaf, 64) / adaptive_reference.touched(leaf, 64) for leaf in range(1, 65)]
    assert max(ratios) == pytest.approx(3)


@pytest.mark.parametrize(("module", "function", "line"), LINES, ids=lambda part: getattr(part, "__package__", None))
def test_a_line_as_printed_does_what_it_says(module: ModuleType, function: str, line: int):
    check = LINES[module, function, line]
    assert check(module, {line}) and not check(module, set())


def test_every_line_that_can_be_printed_is_in_the_table():
    found = {
        (module, name, line.value)
        for module in {module for module, _, _ in LINES}
        for name, function in inspect.getmembers(module, inspect.isfunction)
        for node in ast.walk(ast.parse(inspect.getsource(function)))
        if isinstance(node, ast.Compare) and ast.unparse(node.comparators[0]) == "printed"
        for line in ast.walk(node.left)
        if isinstance(line, ast.Constant)
    }
    assert found == set(LINES)
