"""Checks that wait for a device: nothing leaves before they raise, none is lost, none is raised elsewhere."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from pretend_device import PretendCuda
from test_device import ORACLES, start

from dpnotes.core import Relation, Request, Sensitive, Status
from dpnotes.methods import checkpoint
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive
from dpnotes.oracles.samples import VirtualSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.privacy.factorisation import BandedSquareRoot
from dpnotes.privacy.mechanisms import Exact, Gaussian, Laplace
from dpnotes.privacy.tree import Tree
from dpnotes.problems.separable import Cosine, Separable, Sine
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams
from dpnotes.util import checks
from dpnotes.util.states import flatten, restore

MECHANISMS = [Gaussian(), Laplace(), Tree(8), Tree(7, optimal=True), BandedSquareRoot(8, 3)]


def request(device: str, **changed: object) -> Request:
    answer = Sensitive(torch.full((1, 1), 1000.0).double().to(device), torch.ones(1, device=device).double(),
                       Relation.ZERO_OUT, "proved")  # fmt: skip
    ones = torch.ones(1, device=device).double()
    return replace(Request(answer, ones, torch.zeros(1, dtype=torch.int64, device=device), ones.bool()), **changed)


@pytest.mark.parametrize("call", [-1, 2**32, 2**32 + 5])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
@pytest.mark.slow
def test_on_a_device_a_call_that_would_share_a_stream_releases_zeros_and_is_an_error(mechanism, call: int):
    with PretendCuda(), checks.settled():
        asked = request("cuda", call=torch.tensor([call], device="cuda"))
        _, value, _ = mechanism.release(mechanism.init(asked.answer.value), asked, Streams.of(0, ["a"], "cuda"))
        assert value.tolist() == [[0.0]]
        with pytest.raises(ValueError, match=f"Expected 0 <= call={call} < 2\\^32"):
            checks.settle()
        _, value, _ = mechanism.release(  # the control
            mechanism.init(asked.answer.value), request("cuda"), Streams.of(0, ["a"], "cuda")
        )
        assert value.tolist() != [[0.0]]
    with pytest.raises(ValueError, match=f"Expected 0 <= call={call} < 2\\^32"):  # on the CPU at once
        asked = request("cpu", call=torch.tensor([call]))
        mechanism.release(mechanism.init(asked.answer.value), asked, Streams.of(0, ["a"]))


def test_exact_answers_of_no_sensitivity_are_held_back_too():
    with PretendCuda(), checks.settled():
        asked = request("cuda")
        answer = replace(asked.answer, l2_sensitivity=torch.full((1,), torch.nan, device="cuda").double())
        _, value, _ = Exact().release(asked.answer.value, replace(asked, answer=answer), Streams.of(0, ["a"], "cuda"))
        assert value.tolist() == [[0.0]]
        with pytest.raises(ValueError, match="Expected l2_sensitivity=nan >= 0 in run 0"):
            checks.settle()


def failing(number: int = 0) -> None:
    checks.require(torch.zeros(1, dtype=torch.bool, device="cuda"), lambda: ValueError(f"number {number}"))


def test_the_first_error_is_raised():
    with PretendCuda():
        failing(1)
        failing(2)
        with pytest.raises(ValueError, match="number 1"):
            checks.settle()
        checks.settle()  # settling twice has no effect


def test_checks_belong_to_the_loop_that_made_them():
    with PretendCuda():
        with pytest.raises(KeyError), checks.settled():
            failing()
            raise KeyError("another error ends the loop")
        checks.settle()
        failing(1)
        with checks.settled():  # an inner loop of another caller
            pass
        with pytest.raises(ValueError, match="number 1"):
            checks.settle()


@pytest.mark.parametrize("name", ["fresh", "Spider, Gaussian, virtual"])
def test_guarantees_and_checkpoints_settle(name: str, tmp_path):
    with PretendCuda():
        oracle = ORACLES[name]("cuda")
        x, streams = start(4, "cuda")
        state = Descent(0.5).init(x, oracle)
        failing(7)
        with pytest.raises(ValueError, match="number 7"):
            oracle.guarantee(state.oracle, 1e-5, streams)
        failing(8)
        with pytest.raises(ValueError, match="number 8"):
            checkpoint.save(tmp_path / "run.pt", state, streams)
        assert not [*tmp_path.iterdir()]
        with pytest.raises(ValueError, match="reused=-100"):
            stored = {k: t.cpu() for k, t in flatten(state).items()}
            stored["oracle.meter.filter.reused"] = torch.full((3,), -100.0).double()
            restore(state, stored)


@pytest.mark.slow
def test_a_run_past_the_last_leaf_of_its_tree_ends_and_the_others_go_on():
    # One run never restarts its sum and is refused its eighth term; the other restarts at nearly every step.
    def program(device: str):
        rows = partial(torch.tensor, dtype=torch.float64, device=device)
        data = VirtualData(Separable([(Cosine(1.0), 4)]), Separable([(Sine(0.1), 4)]))
        oracle = Spider(
            VirtualSamples(data, 10**9), Tree(7, optimal=True), 5.0, rows([0.5, 0.5]),
            Refresh.path_length(rows([1e9, 0.01]), 2.0), BatchSizes(10_000, 1, 1000.0), 2.0, 2.0,
            term_sensitivity=0.002,
        )  # fmt: skip
        x, streams = torch.full((2, 4), 0.3, dtype=torch.float64, device=device), Streams.of(0, ["a", "b"], device)
        return drive(Descent(0.05), oracle, Descent(0.05).init(x, oracle), streams, 20, look_every=20)

    expected = program("cpu")
    assert expected.status.tolist() == [Status.BUDGET_EXHAUSTED, Status.OK] and expected.steps.tolist() == [7, 20]
    with PretendCuda():
        found = program("cuda")
        assert found.status.tolist() == expected.status.tolist() and found.steps.tolist() == expected.steps.tolist()
