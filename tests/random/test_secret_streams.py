"""Secret streams draw afresh at every call; a state releases once, in the process that started it."""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from pretend_device import PretendCuda
from test_device import FIXED, ORACLES, RUNS, classes, network, rows, start
from torch import Tensor, nn

from dpnotes import privacy
from dpnotes.core import FRESH, Relation, Request, Sensitive, Status
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.privacy.discrete import DiscreteGaussian
from dpnotes.privacy.factorisation import BandedSquareRoot
from dpnotes.privacy.mechanisms import Exact, Gaussian, Laplace
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.privacy.selection import AboveThreshold
from dpnotes.privacy.tree import Tree
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import REPLAYED, Streams
from dpnotes.util import checks

DEVICES = pytest.mark.parametrize("device", ["cpu", "cuda"])


@contextlib.contextmanager
def on(device: str) -> Iterator[None]:
    """Use the device, a pretend one unless it is the CPU."""
    with PretendCuda() if device == "cuda" else contextlib.nullcontext():
        yield


# ---------------------------------------------------------------- every mechanism
DRAWS_ALWAYS = {DiscreteGaussian: "with a seed, too", Exact: "it has no noise"}
MECHANISMS: list[Any] = [Gaussian(), Laplace(), Tree(8), Tree(8, optimal=True), BandedSquareRoot(8, 2)]
each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)


def release(mechanism: Any, streams: Streams, call: int, active: tuple[bool, bool] = (True, True)) -> Tensor:
    """Release fives by a mechanism that has released nothing before."""
    device, ones = streams.keys.device, torch.ones(2, dtype=torch.float64, device=streams.keys.device)
    answer = Sensitive(5 * ones[:, None], ones, Relation.ZERO_OUT, "proved", FRESH)
    calls, mask = torch.full((2,), call, device=device), torch.tensor(active, device=device)
    state = mechanism.init(torch.zeros(2, 1, dtype=torch.float64, device=device))
    return mechanism.release(state, Request(answer, ones, calls, mask, ~mask), streams)[1]


@each_mechanism
@DEVICES
def test_a_mechanism_draws_afresh_from_secret_streams_and_again_from_seeded_ones(mechanism: Any, device: str):
    with on(device):
        streams = Streams.secure(2, device)
        drawn = torch.cat([release(mechanism, streams, 1) for _ in range(4)]).cpu()
        checks.settle()
        assert len(drawn.unique()) > 5, "two of eight meet on their grid in 2% of all tests, a replay leaves two"
        halves = [release(mechanism, streams, call, (True, False)) for call in range(2, 6)]
        assert any(bool(half[0]) for half in halves) and not any(bool(half[1]) for half in halves)
        seeded = Streams.of(0, ["a", "b"], device)
        assert torch.equal(release(mechanism, seeded, 1).cpu(), release(mechanism, seeded, 1).cpu())


def test_every_mechanism_is_here():
    found = classes(privacy, "release", "cost")
    assert {type(mechanism) for mechanism in MECHANISMS} | set(DRAWS_ALWAYS) == found
    kinds = {AboveThreshold, *map(type, MECHANISMS)}
    assert len({kind.purpose for kind in kinds}) == len(kinds) >= 5, "of seeded streams each draws its own"


# ---------------------------------------------------------------- states
@pytest.mark.slow
@pytest.mark.parametrize("name", ORACLES)
@DEVICES
def test_two_oracles_on_one_stream_release_two_noises(name: str, device: str):
    with on(device):
        streams, estimates = Streams.secure(RUNS, device), []
        for _ in range(2):
            oracle = ORACLES[name](device)
            x = start(4 if "fresh" in name or "virtual" in name else network(device).dim, device)[0]
            active = torch.ones(RUNS, dtype=torch.bool, device=device)
            estimates.append(oracle.estimate(oracle.init(x), x, streams, active)[1].gradient)
        checks.settle()
        assert bool(estimates[0].any()) and not bool((estimates[0] == estimates[1]).all(1).any())


@DEVICES
@pytest.mark.parametrize("secret", [True, False])
def test_a_state_releases_once(device: str, secret: bool):
    with on(device):
        method, oracle = Descent(0.1), ORACLES["clipped"](device)
        x, seeded = start(network(device).dim, device)
        streams = Streams.secure(RUNS, device) if secret else seeded
        before = method.init(x, oracle)
        after, _ = method.step(before, oracle, streams)
        with pytest.raises(ValueError, match="Expected state to have released nothing yet"):
            method.step(before, oracle, streams)
            checks.settle()
        assert bool(method.step(after, oracle, streams)[1].gradient.any())


def test_runs_that_end_leave_the_others_their_noise():
    schedules = [uniform(0.2, steps) for steps in (2, 5, 3)]
    oracle = ClippedGradient(network("cpu"), 0.5, FixedNoise.of(schedules))
    x, method, streams = start(network("cpu").dim, "cpu")[0], Descent(0.1), Streams.secure(RUNS)
    state = drive(method, oracle, method.init(x, oracle), streams, 6, look_every=1)
    assert state.steps.tolist() == [2, 5, 3] and state.status.tolist() == [Status.FINISHED] * RUNS


# ---------------------------------------------------------------- what may be drawn again
def test_augmented_pictures_are_changed_alike_in_both_passes():
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    images = Streams.of("images", [0]).uniform("images", 0, 12 * 64).view(12, 1, 8, 8).float()
    problem = ModuleProblem(module, images, torch.arange(12) % 2)
    streams, x = Streams.secure(RUNS), torch.ones(RUNS, problem.dim)
    changed = problem.augmented(streams, torch.arange(RUNS))
    first, second = (changed.gradients(x).weighted_sum(torch.ones(RUNS, 12)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, problem.gradients(x).weighted_sum(torch.ones(RUNS, 12)))
    part = problem.augmented(streams.take(torch.tensor([2])), torch.tensor([2]))
    assert torch.equal(part.gradients(x[:1]).weighted_sum(torch.ones(1, 12))[0], first[2])
    oracle = MinibatchGradient(problem, FIXED, rows(0.3, "cpu"), 0.5, 5, clipped=True, augment=True)
    assert drive(Descent(0.1), oracle, Descent(0.1).init(x, oracle), streams, 6).steps.tolist() == [5] * RUNS


def test_what_may_be_drawn_again_is_no_noise():
    streams = Streams.secure(2)
    again = streams.replayable("augmentation")
    assert [*REPLAYED] == ["augmentation"] and not again.secret
    assert torch.equal(again.keys, streams.take(slice(0, 2)).replayable("augmentation").keys)
    assert not (again.keys == Streams.secure(2).replayable("augmentation").keys).any()
    with pytest.raises(ValueError, match="Expected purpose='gaussian mechanism' to be one of"):
        streams.replayable("gaussian mechanism")
    seeded = Streams.of(0, ["a", "b"])
    assert seeded.replayable("augmentation") is seeded


# ---------------------------------------------------------------- processes
def in_a_fork(act: Callable[[], Any]) -> str:
    """Return the result of an action in a forked child, as text."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            said = str(act())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as pipe:
        return pipe.read()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_a_fork_draws_its_own_noise_and_does_not_release_from_its_parent_s_states():
    streams = Streams.secure(2)
    drawn = {in_a_fork(lambda: streams.normal("noise", 0, 3).tolist()), str(streams.normal("noise", 0, 3).tolist())}
    assert len(drawn) == 2
    oracle, method = ORACLES["clipped"]("cpu"), Descent(0.1)
    x, streams = start(network("cpu").dim, "cpu")[0], Streams.secure(RUNS)
    state = method.init(x, oracle)
    assert "RuntimeError: Expected process" in in_a_fork(lambda: method.step(state, oracle, streams))
    assert "State" in in_a_fork(lambda: method.step(method.init(x, oracle), oracle, streams)), "control"
    method.step(state, oracle, streams)  # the parent process continues
