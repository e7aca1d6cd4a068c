"""The private search for a stationary point: its sensitivities, its slack, its price, and its results."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

from dpnotes.core import Relation, Sampling, Sensitive
from dpnotes.guarantees import OVERSPENT, TUNED_ON_PRIVATE_DATA, Assumption
from dpnotes.privacy.accounting import account
from dpnotes.privacy.events import CombinationError, Event
from dpnotes.privacy.search import Search, random_steps, select_stationary_point
from dpnotes.privacy.selection import AboveThreshold
from dpnotes.random.streams import Streams

RUNS = 400


def search(**more: Any) -> Search:
    options: dict[str, Any] = {
        "epsilon": 1.0, "alpha": 0.04, "hessian_lipschitz": 1.0, "norm_bound": 3.0, "smoothness": 2.0,
        "num_examples": 10_000, "num_candidates": 4, "failure": 0.1,
    } | more  # fmt: skip
    return Search(**options)


def found(task: Search, norms: list[float], eigenvalues: list[float], runs: int = RUNS):
    """Search among points that consist of their gradient norm and eigenvalue."""
    points = [
        torch.tensor([[n, e]], dtype=torch.float64).expand(runs, 2) for n, e in zip(norms, eigenvalues, strict=True)
    ]
    streams = Streams.of("search", range(runs))
    return select_stationary_point(task, points, lambda x: x[:, 0], lambda x: x[:, 1], streams)


# ---------------------------------------------------------------- sensitivities
@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ZERO_OUT])
def test_a_neighbour_moves_norm_and_eigenvalue_by_at_most_their_sensitivity(relation):
    # Example i has gradient g_i, no longer than C, and Hessian diag(h_i), |h_i| <= L.
    n, C, L = 10, 3.0, 2.0
    task = search(num_examples=n, relation=relation)
    gradients = torch.zeros(n, 2, dtype=torch.float64)
    gradients[:, 0] = C
    hessians = torch.full((n, 2), L, dtype=torch.float64)

    def numbers(gradients: Tensor, hessians: Tensor) -> tuple[float, float]:
        return float(gradients.mean(0).norm()), float(hessians.mean(0).min())

    base = numbers(gradients, hessians)
    sign = -1.0 if relation == Relation.REPLACE_ONE else 0.0
    gradients[3] *= sign
    hessians[3] *= sign
    moved = numbers(gradients, hessians)
    for here, there, sensitivity in zip(
        base, moved, (task.gradient_sensitivity, task.eigenvalue_sensitivity), strict=True
    ):
        assert 0.9 * sensitivity < abs(here - there) <= sensitivity * (1 + 1e-12)


# ---------------------------------------------------------------- slack
def test_what_is_computed_may_be_off_by_its_error_beside_the_noise():
    exact, computed = search(), search(eigenvalue_error=0.25)
    per_unit = exact.eigenvalue_slack / exact.eigenvalue_sensitivity
    assert computed.eigenvalue_slack == pytest.approx(per_unit * computed.eigenvalue_sensitivity + 0.25)
    assert computed.gradient_slack == exact.gradient_slack, "the control"


def test_the_slack_is_that_of_theorem_3_24():
    task = search(epsilon=0.5)
    unit = 8 * (math.log(4) + math.log(2 / 0.1)) / 0.5
    assert task.gradient_slack == pytest.approx(unit * 2 * 3.0 / 10_000)
    assert task.eigenvalue_slack == pytest.approx(unit * 2 * 2.0 / 10_000)
    assert task.gradient_norm == pytest.approx(0.04 + 2 * task.gradient_slack)
    assert task.smallest_eigenvalue == pytest.approx(-0.2 - 2 * task.eigenvalue_slack)


def test_points_at_the_edge_are_answered_rightly_but_for_the_failure():
    task = search(epsilon=0.2)
    just_outside = task.gradient_norm * 1.0001, task.smallest_eigenvalue * 1.0001
    good = 0.04, -0.2  # just an alpha-SOSP
    wrong = []
    for norms, eigenvalues in (
        ([just_outside[0]] * 3 + [good[0]], [0.0] * 3 + [good[1]]),
        ([0.0] * 3 + [good[0]], [just_outside[1]] * 3 + [good[1]]),
    ):
        selection = found(task, norms, eigenvalues)
        wrong.append(float((selection.index != 3).double().mean()))
    # At most 0.1 of 400 runs, four standard errors allowed.
    assert all(share <= 0.1 + 4 * math.sqrt(0.09 / RUNS) for share in wrong)
    # The control: within the slack nothing is promised, and points there are accepted.
    inside = found(task, [task.alpha + task.gradient_slack] * 3 + [good[0]], [0.0] * 4)
    assert float((inside.index != 3).double().mean()) > 0.5


def test_with_hardly_any_noise_the_edge_is_the_threshold_itself():
    task = search(epsilon=1e9)
    for inside, outside in (
        ((task.alpha + task.gradient_slack, 0.0), (task.alpha + task.gradient_slack + 1e-5, 0.0)),
        ((0.0, task.smallest_eigenvalue + task.eigenvalue_slack), (0.0, task.smallest_eigenvalue - 1e-5)),
    ):
        selection = found(task, [outside[0], inside[0] - 1e-5], [outside[1], inside[1] + 1e-5])
        assert (selection.index == 1).all()


# ---------------------------------------------------------------- what it finds
def test_both_must_hold():
    task = search()
    # gradient too long, curvature too negative, both fine, both fine
    selection = found(task, [9.0, 0.0, 0.0, 0.0], [1.0, -9.0, 1.0, 1.0])
    assert (selection.index == 2).all() and selection.found.all() and (selection.asked == 3).all()


def test_a_run_that_finds_none_says_so_and_pays_all_the_same():
    selection = found(search(), [9.0, math.nan, 0.0, math.inf], [1.0, 1.0, math.nan, 1.0])
    assert (selection.index == -1).all() and not selection.found.any() and (selection.asked == 4).all()
    assert selection.price.charged.all() and torch.allclose(selection.price.rho(), torch.tensor(0.5).double())


# ---------------------------------------------------------------- price
OWN = Assumption("nothing else was released", "assumed")


@pytest.mark.slow
def test_the_search_is_paid_for_on_top_of_the_iterates():
    task = search(epsilon=0.5, eigenvalue_error=0.01)
    iterates = [Event(20.0, Relation.REPLACE_ONE, count=100)]
    streams = Streams.of(0, ["a"])
    run = account(iterates, 1e-5, assumptions=(OWN,), not_covered=(TUNED_ON_PRIVATE_DATA,))
    claim, alone = task.guarantee(iterates, run, streams), run.epsilon
    assert alone + 0.1 < claim.epsilon <= alone + 0.5 + 1e-3
    said = str(claim)
    for part in ("gradient is longer than 3", "every example's loss is 2-smooth", "off by more than 0.01", "seed"):
        assert part in said
    assert OWN in claim.assumptions and claim.not_covered == (TUNED_ON_PRIVATE_DATA,)
    assert "off by more" not in str(search().guarantee(iterates, run, streams))
    twice = task.guarantee(iterates, run, streams, searches=2)
    assert twice.epsilon == account([*iterates, task.event, task.event], 1e-5).epsilon > claim.epsilon
    broken = account(iterates, 1e-5, assumptions=(OVERSPENT,))
    assert task.guarantee(iterates, broken, streams).epsilon == math.inf, "what the run may not claim, both may not"
    sampled = [Event(1.0, Relation.REPLACE_ONE, Sampling.fixed_size(10, 1000), 50)]
    assert task.guarantee(sampled, account(sampled, 1e-5), streams).epsilon > account(sampled, 1e-5).epsilon
    with pytest.raises(CombinationError, match="Expected events of one relation"):
        task.guarantee([Event(1.0, Relation.ZERO_OUT)], run, streams)


def test_a_delta_that_is_spent_on_failures_is_not_spent_again():
    task, streams, iterates = search(epsilon=0.5), Streams.of(0, ["a"]), [Event(10.0, Relation.REPLACE_ONE, count=25)]
    run = account(iterates, 1e-5)
    # This delta includes the cost of an event of probability 1e-3; without it, epsilon is that of delta = 1e-5.
    for claim, released in (
        (replace(run, delta=run.delta + 1e-3), iterates),
        (replace(run, nominal_epsilon=math.inf), []),
        (replace(run, nominal_epsilon=0.5), []),
    ):
        with pytest.raises(ValueError, match="Expected claim=.* a part of its delta is spent on failures"):
            task.guarantee(released, claim, streams)
    assert task.guarantee(iterates, run, streams).epsilon > run.epsilon, "control"
    assert account([*iterates, task.event], 1e-3).epsilon < run.epsilon, "control: it would have become less"


# ---------------------------------------------------------------- candidates
def test_candidates_are_uniform_and_independent_of_all_but_the_run():
    steps = random_steps(Streams.of("steps", range(3000)), num_iterates=5, num_candidates=2)
    pairs = torch.bincount(steps[0] * 5 + steps[1], minlength=25)
    assert stats.chisquare(pairs).pvalue > 1e-3
    assert stats.chisquare(torch.bincount(steps[0] * 5 + steps[0], minlength=25) + 1e-9).pvalue < 1e-3  # the control
    assert torch.equal(random_steps(Streams.of("steps", [7]), 5, 2)[:, 0], steps[:, 7])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: search(relation=Relation.ADD_OR_REMOVE),
            "Expected relation=.* to be one of: replace-one, zero-out-one",
        ),
        (lambda: found(search(num_candidates=1), [9.0, 9.0], [0.0, 0.0]), "Expected at most num_candidates=1"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_second_search_of_a_run_goes_on_from_the_state_of_the_first():
    task = search(num_candidates=2)
    points, streams, state = [torch.full((1, 1), 0.5)] * 2, Streams.of(0, ["run"]), None
    for number in (1, 2):  # by the numbers of searches and questions, all noise is drawn for once
        selection = select_stationary_point(task, points, lambda x: x[:, 0], lambda x: -x[:, 0], streams, state)
        state = selection.state
        assert (state.searches.tolist(), state.asked.tolist()) == ([number], [2 * number])
        assert selection.asked.tolist() == [2]


# ---------------------------------------------------------------- a state draws once
def test_a_search_draws_once_from_each_of_its_states():
    """With repeated noise, repeated questions to one state would find the value by bisection."""
    mechanism, on = AboveThreshold(1.0, 0.0, 1.0, Relation.REPLACE_ONE), torch.tensor([True, True])
    streams = Streams.of(0, ["a", "b"])
    question = Sensitive(torch.full((2, 1), -1e3), torch.ones(2), Relation.REPLACE_ONE, "proved")
    start = mechanism.init(streams)
    begun, _ = mechanism.begin(start, streams, torch.tensor([True, False]))
    with pytest.raises(ValueError, match="Expected state to have drawn nothing yet"):
        mechanism.begin(start, streams, on)
    begun, _ = mechanism.begin(begun, streams, torch.tensor([False, True]))
    asked, _ = mechanism.ask(begun, question, streams, torch.tensor([True, False]))
    with pytest.raises(ValueError, match="Expected state to have drawn nothing yet"):
        mechanism.ask(begun, question, streams, on)
    mechanism.ask(begun, question, streams, torch.tensor([False, True]))  # this run has drawn nothing since
    assert mechanism.ask(asked, question, streams, torch.tensor([True, False]))[0].asked.tolist() == [2, 0]
