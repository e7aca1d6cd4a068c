"""Laplace noise and AboveThreshold: distributions, likelihood ratios in closed form, accuracy, batches of runs."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from dpnotes.core import FRESH, Ledger, Price, Relation, Sampling, Sensitive
from dpnotes.privacy.accounting import account
from dpnotes.privacy.events import CombinationError, events_of
from dpnotes.privacy.mechanisms import Laplace, laplace
from dpnotes.privacy.selection import AboveThreshold, SelectionState
from dpnotes.random.streams import Streams
from dpnotes.util.states import flatten, restore
from tests.privacy.test_privacy import request

R = Relation.REPLACE_ONE


# ---------------------------------------------------------------- Laplace


def test_laplace_costs_its_epsilon():
    asked = request(torch.zeros(1, 1), 2.0, sensitivity=0.5)
    _, _, price = Laplace().release(torch.zeros(1, 0), asked, Streams.of(0, ["a"]))
    epsilon = 0.5 / (2.0 / math.sqrt(2))
    assert float(price.rho()) == pytest.approx(epsilon**2 / 2)
    assert float(Laplace().cost(torch.zeros(1, 0), torch.tensor([4.0]))) == pytest.approx(epsilon**2 / 2)
    wide = replace(asked.answer, value=torch.zeros(1, 2))
    with pytest.raises(ValueError, match=r"Expected an answer of shape \(runs, 1\), got \(1, 2\)"):
        Laplace().release(torch.zeros(1, 0), replace(asked, answer=wide), Streams.of(0, ["a"]))


# ---------------------------------------------------------------- AboveThreshold
def search(epsilon: float = 1.0, threshold: float = 0.0, sensitivity: float = 1.0) -> AboveThreshold:
    return AboveThreshold(epsilon, threshold, sensitivity, R)


def question(values: Tensor, sensitivity: float = 1.0) -> Sensitive:
    return Sensitive(values[:, None], torch.full((len(values),), sensitivity).double(), R, "proved")


def begin(mechanism: AboveThreshold, streams: Streams) -> tuple[SelectionState, Price]:
    """Begin the first search of all runs."""
    return mechanism.begin(mechanism.init(streams), streams, torch.ones(len(streams), dtype=torch.bool))


def run(mechanism: AboveThreshold, values: list[float], runs: int, seed: int = 0) -> Tensor:
    """Return the index, from 0, of the question answered yes in each run; -1 if there was none."""
    streams, active = Streams.of(seed, range(runs)), torch.ones(runs, dtype=torch.bool)
    state, _ = mechanism.begin(mechanism.init(streams), streams, active)
    found = torch.full((runs,), -1)
    for i, value in enumerate(values):
        state, yes = mechanism.ask(state, question(torch.full((runs,), value).double()), streams, active)
        found[yes] = i
    assert torch.equal(state.halted, found >= 0)
    return found


def probability(values: list[float], epsilon: float, question_scale: float, threshold_scale: float = 2.0) -> float:
    """Return the probability that only the last question is answered yes, for threshold 0 and sensitivity 1."""
    noise, nu = stats.laplace(scale=threshold_scale / epsilon), stats.laplace(scale=question_scale / epsilon)
    *no, yes = values
    nodes, weights = np.polynomial.legendre.leggauss(60)  # the integrand is smooth between kinks
    edges = np.unique([*np.linspace(-80, 80, 41) / epsilon, 0.0, *values])
    half = np.diff(edges)[:, None] / 2
    t = (edges[:-1, None] + half * (1 + nodes)).ravel()
    answered = nu.sf(t - yes) * math.prod(nu.cdf(t - v) ** no.count(v) for v in set(no))
    return float(np.sum((half * weights).ravel() * noise.pdf(t) * answered))


def test_the_answers_have_the_probabilities_of_the_algorithm():
    values, runs = [-1.0, 0.5, -0.5, 2.0], 20_000
    found = run(search(1.5), values, runs)
    for i in range(4):
        expected = probability(values[: i + 1], 1.5, 4.0)
        # Level 1e-4 a cell, two-sided.
        low, high = stats.binom(runs, expected).ppf([5e-5, 1 - 5e-5])
        count = int((found == i).sum())
        assert low <= count <= high
        for wrong in (probability(values[: i + 1], 1.5, 2.0), probability(values[: i + 1], 1.5, 4.0, 1.0)):
            if abs(wrong - expected) > 0.02:  # six standard errors
                low, high = stats.binom(runs, wrong).ppf([5e-5, 1 - 5e-5])
                assert not low <= count <= high, "control: half the noise is seen"


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_neighbours_are_within_epsilon_and_with_less_noise_they_are_not(epsilon):
    # All questions move by their sensitivity, the last one in the opposite direction: the proof's worst case.
    worst, halved = 0.0, 0.0
    for length in (1, 4, 16, 64):
        for base in (-4 / epsilon, 0.0, 4 / epsilon):
            one = [base + 1.0] * (length - 1) + [base]
            other = [base] * (length - 1) + [base + 1.0]
            ratio = math.log(probability(other, epsilon, 4.0) / probability(one, epsilon, 4.0))
            worst = max(worst, abs(ratio))
            halved = max(halved, abs(math.log(probability(other, epsilon, 1.0) / probability(one, epsilon, 1.0))))
    assert 0.5 * epsilon < worst <= epsilon * (1 + 1e-6)
    assert halved > epsilon


def test_answers_are_as_accurate_as_promised():
    epsilon, questions, beta, runs = 1.0, 50, 0.05, 2000
    mechanism = search(epsilon, threshold=100.0)
    error = mechanism.accuracy(questions, beta)
    assert error == pytest.approx(8 * (math.log(50) + math.log(40)))
    found = run(mechanism, [100.0 - error - 1e-9] * (questions - 1) + [100.0 + error], runs)
    wrong = int((found != questions - 1).sum())
    assert wrong <= stats.binom(runs, beta).ppf(1 - 1e-6)
    close = run(mechanism, [100.0 - error / 8] * (questions - 1) + [100.0 + error], runs)
    assert int((close != questions - 1).sum()) > wrong, "control: values nearer the threshold are answered worse"


def test_the_noise_grows_with_the_sensitivity():
    small, large = search(1.0), search(1.0, sensitivity=10.0)
    streams = Streams.of(0, range(50))
    begun = [begin(mechanism, streams)[0].threshold for mechanism in (small, large)]
    assert torch.allclose(10 * begun[0], begun[1])
    assert torch.equal(run(small, [0.3, 1.0], 50), run(large, [3.0, 10.0], 50))


def test_a_run_that_halted_answers_nothing_and_inactive_runs_ask_nothing():
    mechanism, streams = search(100.0), Streams.of(0, range(3))
    state, _ = begin(mechanism, streams)
    high = question(torch.full((3,), 9.0).double())
    state, yes = mechanism.ask(state, high, streams, torch.tensor([True, False, True]))
    assert yes.tolist() == [True, False, True] and state.asked.tolist() == [1, 0, 1]
    state, yes = mechanism.ask(state, high, streams, torch.tensor([True, True, True]))
    assert yes.tolist() == [False, True, False] and state.asked.tolist() == [1, 1, 1]


def test_of_a_run_that_asks_nothing_no_question_is_refused():
    mechanism, streams = search(), Streams.of(0, range(2))
    state, _ = begin(mechanism, streams)
    too_long = replace(question(torch.zeros(2).double()), l2_sensitivity=torch.tensor([1.0, 2.0]).double())
    state, _ = mechanism.ask(state, too_long, streams, torch.tensor([True, False]))
    assert state.asked.tolist() == [1, 0]
    with pytest.raises(ValueError, match="in run 1"):
        mechanism.ask(state, too_long, streams, torch.tensor([True, True]))


def test_a_batch_of_runs_is_the_runs_one_by_one_and_resumes_to_the_bit(tmp_path):
    mechanism, values = search(0.7), [float(v) for v in np.linspace(-4, 4, 9)]
    together = run(mechanism, values, 20)
    assert len(set(together.tolist())) > 3
    for i in (0, 7, 19):
        streams, active = Streams.of(0, [i]), torch.ones(1, dtype=torch.bool)
        state, found = begin(mechanism, streams)[0], -1
        for number, value in enumerate(values):
            torch.save(flatten(state), tmp_path / "state.pt")
            state = restore(mechanism.init(streams), torch.load(tmp_path / "state.pt", weights_only=True))
            state, yes = mechanism.ask(state, question(torch.tensor([value]).double()), streams, active)
            found = number if bool(yes) else found
        assert found == int(together[i])


def test_a_search_is_paid_once_however_many_questions():
    _, price = begin(search(0.5), Streams.of(0, range(2)))
    assert price.rho().tolist() == [0.125, 0.125] and price.noise == "pure"
    assert account(events_of(Ledger([price]), 0), 1e-9).epsilon == pytest.approx(0.5, rel=1e-3)


def test_nothing_is_asked_before_a_search_is_begun_and_paid_for():
    mechanism, streams = search(1.0, threshold=-1e9), Streams.of(0, range(3))
    first, everywhere = mechanism.init(streams), torch.ones(3, dtype=torch.bool)
    assert not bool(mechanism.ask(first, question(torch.full((3,), 1e12)), streams, everywhere)[1].any())
    some = torch.tensor([True, False, True])
    state, price = mechanism.begin(first, streams, some)
    assert price.rho().tolist() == [0.5, 0.0, 0.5] and state.searches.tolist() == [1, 0, 1]
    state, yes = mechanism.ask(state, question(torch.full((3,), 1e12)), streams, everywhere)
    assert torch.equal(yes, some), "the control: those that paid do get their answer"
    assert state.asked.tolist() == [1, 0, 1]


def searching_twice(monkeypatch: pytest.MonkeyPatch, again: bool) -> tuple[Tensor, Ledger]:
    """Search twice in every run; return the draws (run, threshold or question, call), one per row, and the ledger."""
    drawn = []

    def spy(streams: Streams, purpose: str, call: Tensor) -> Tensor:
        drawn.append((purpose, call))
        return laplace(streams, purpose, call)

    monkeypatch.setattr("dpnotes.privacy.selection.laplace", spy)
    mechanism, streams, ledger = search(1.0), Streams.of(0, range(30)), Ledger()
    everywhere, rows, state = torch.ones(30, dtype=torch.bool), [], mechanism.init(streams)
    for _ in range(2):
        state, price = mechanism.begin(state if again else mechanism.init(streams), streams, everywhere)
        ledger.add(price)
        rows += [(run, 0, int(call)) for run, call in enumerate(drawn[-1][1])]
        for _ in range(6):
            before = state.asked
            state, _ = mechanism.ask(state, question(torch.zeros(30)), streams, everywhere)
            calls, asked = drawn[-1][1], state.asked > before
            rows += [(int(run), 1, int(calls[run])) for run in asked.nonzero()[:, 0]]
    assert {purpose for purpose, _ in drawn} == {"above threshold: threshold", "above threshold: question"}
    return torch.tensor(rows), ledger


def test_every_search_of_a_run_has_noise_of_its_own_and_a_price(monkeypatch):
    drawn, ledger = searching_twice(monkeypatch, again=True)
    assert len(torch.unique(drawn, dim=0)) == len(drawn) > 150
    assert ledger.rho().tolist() == [1.0] * 30  # twice epsilon^2 / 2
    # The control: a state that is restarted draws the same numbers again.
    drawn, _ = searching_twice(monkeypatch, again=False)
    assert len(torch.unique(drawn, dim=0)) < len(drawn)


def test_a_search_in_some_runs_leaves_the_others_where_they_are():
    mechanism, streams = search(100.0), Streams.of(0, range(2))
    state, _ = begin(mechanism, streams)
    state, _ = mechanism.ask(state, question(torch.full((2,), 9.0)), streams, torch.tensor([True, False]))
    again, price = mechanism.begin(state, streams, torch.tensor([True, False]))
    assert price.charged.tolist() == [True, False] and again.searches.tolist() == [2, 1]
    assert again.halted.tolist() == [False, False]
    assert torch.eq(again.threshold, state.threshold).tolist() == [False, True]


def test_a_value_that_is_no_number_is_a_no():
    mechanism, streams = search(1.0, threshold=-1e9), Streams.of(0, range(2))
    state, yes = mechanism.ask(
        begin(mechanism, streams)[0],
        question(torch.tensor([math.nan, 0.0]).double()),
        streams,
        torch.ones(2, dtype=torch.bool),
    )
    assert yes.tolist() == [False, True]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"l2_sensitivity": torch.tensor([2.0])}, ValueError, r"Expected 0 <= l2_sensitivity=2.0 <= 1.0 in run 0"),
        ({"l2_sensitivity": torch.tensor([math.nan])}, ValueError, "l2_sensitivity=nan"),
        ({"value": torch.zeros(1, 2)}, ValueError, r"of shape \(runs, 1\), got \(1, 2\)"),
        ({"relation": Relation.ZERO_OUT}, CombinationError, "Expected a question under replace-one on whole"),
        ({"sampling": FRESH}, CombinationError, "got replace-one on fresh"),
    ],
)
def test_bad_questions_are_refused(change, error, message):
    mechanism, streams = search(), Streams.of(0, ["a"])
    asked = replace(question(torch.zeros(1)), **change)
    with pytest.raises(error, match=message):
        mechanism.ask(begin(mechanism, streams)[0], asked, streams, torch.tensor([True]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AboveThreshold(1.0, 0.0, 1.0, R, Sampling.poisson(0.1)), "Expected sampling=whole or fresh"),
        (
            lambda: AboveThreshold(1.0, 0.0, 1.0, Relation.ADD_OR_REMOVE, FRESH),
            "Expected sampling=fresh with relation replace-one or zero-out-one, got add-or-remove-one",
        ),
        (
            lambda: search().begin(
                search().init(Streams.of(0, ["a", "b"])), Streams.of(0, ["a", "b"]), torch.tensor([True])
            ),
            r"Expected active of shape \(2,\) and torch.bool, got \(1,\)",
        ),
        (
            lambda: search().begin(
                search().init(Streams.of(0, ["a"])), Streams.of(0, ["a", "b"]), torch.tensor([True])
            ),
            "Expected equal lengths, got streams: 2, state: 1",
        ),
    ],
)
def test_bad_searches_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
