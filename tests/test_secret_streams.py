"""Secret streams draw for a call once, for every mechanism, oracle and front door of the package; seeded ones replay.

Mechanisms are found through the package: a new one is covered, or is missed here.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import test_device
import torch
from pretend_device import PretendCuda
from test_device import DOORS, FIXED, ORACLES, RUNS, classes, network, rows, start
from torch import Tensor, nn

from dpnotes import checks, privacy
from dpnotes.core import FRESH, Relation, Release, Sensitive, Status
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.papers.drift_escape.baseline import distributed_noisy_sgd
from dpnotes.papers.drift_escape.clients import distributed_drift_escape
from dpnotes.papers.drift_escape.selection import distributed_selection
from dpnotes.privacy import factorisation, mechanisms, selection, tree
from dpnotes.privacy.discrete import DiscreteGaussian
from dpnotes.privacy.factorisation import BandedSquareRoot
from dpnotes.privacy.mechanisms import Exact, Gaussian, Laplace
from dpnotes.privacy.museum.exhibit import module_with_line_replaced
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.privacy.search import Search, random_steps, select_stationary_point
from dpnotes.privacy.selection import AboveThreshold
from dpnotes.privacy.tree import Tree
from dpnotes.problems.modules import ModuleProblem
from dpnotes.states import flatten, restore
from dpnotes.streams import REPLAYED, Streams

AGAIN = "secret streams draw for a call once; give each mechanism, oracle or call of an algorithm a purpose or streams"
DEVICES = pytest.mark.parametrize("device", ["cpu", "cuda"])


@contextlib.contextmanager
def on(device: str) -> Iterator[None]:
    """The device, a pretended one if it is no CPU."""
    with PretendCuda() if device == "cuda" else contextlib.nullcontext():
        yield


def refused(draw: Callable[[], Tensor]) -> bool:
    """Whether a draw is refused: on the CPU at once, on a device when it is waited for."""
    try:
        draw()
        checks.settle()
    except ValueError as error:
        assert AGAIN in str(error)
        return True
    return False


# ---------------------------------------------------------------- every mechanism
DRAWS_NOTHING = {DiscreteGaussian: "its noise comes from the operating system", Exact: "it has no noise"}
MECHANISMS: list[Any] = [Gaussian(), Laplace(), Tree(8), Tree(8, optimal=True), BandedSquareRoot(8, 2)]
each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)


def test_no_two_kinds_of_mechanism_draw_for_one_purpose():
    kinds = {AboveThreshold, *map(type, MECHANISMS)}
    assert len({kind.purpose for kind in kinds}) == len(kinds) >= 5


def release(mechanism: Any, streams: Streams, call: int, active: tuple[bool, bool] = (True, True)) -> Tensor:
    """A release of fives by a mechanism that has released nothing, as of a state that was put back."""
    device, ones = streams.keys.device, torch.ones(2, dtype=torch.float64, device=streams.keys.device)
    answer = Sensitive(5 * ones[:, None], ones, Relation.ZERO_OUT, "proved", FRESH)
    calls, mask = torch.full((2,), call, device=device), torch.tensor(active, device=device)
    state = mechanism.init(torch.zeros(2, 1, dtype=torch.float64, device=device))
    return mechanism.release(state, Release(answer, ones, calls, mask, ~mask), streams)[1]


def draws_once(mechanism: Any, device: str) -> bool:
    """The law: whoever asks, in whichever order, each run is released each call once."""
    with on(device):
        streams = Streams.secure(2, device)
        first = release(mechanism, streams, 0, (True, False))
        later = release(mechanism, streams, 0, (False, True))  # an inactive run keeps its call
        following = release(mechanism, streams, 1)
        checks.settle()
        drawn = bool(first[0]) and not bool(first[1]) and bool(later[1]) and bool(following.all())
        second = refused(lambda: release(mechanism, streams, 1))
        other = Streams.secure(2, device)
        release(mechanism, other, 3, (True, False))
        return drawn and second and refused(lambda: release(mechanism, other, 0))


@pytest.mark.slow
@each_mechanism
@DEVICES
def test_a_mechanism_releases_a_call_of_secret_streams_once(mechanism: Any, device: str):
    assert draws_once(mechanism, device)


@each_mechanism
@DEVICES
@pytest.mark.slow
def test_seeded_streams_release_a_call_again(mechanism: Any, device: str):
    with on(device):
        streams = Streams.of(0, ["a", "b"], device)
        assert torch.equal(release(mechanism, streams, 1).cpu(), release(mechanism, streams, 1).cpu())


def test_every_mechanism_is_here():
    found = classes(privacy, "release", "cost")
    assert {type(mechanism) for mechanism in MECHANISMS} | set(DRAWS_NOTHING) == found
    drawing = {type(m) for m in MECHANISMS if not torch.equal(*(release(m, Streams.secure(2), 0) for _ in range(2)))}
    assert drawing == {type(mechanism) for mechanism in MECHANISMS}


BROKEN: dict[str, tuple[Any, str, str, Callable[[Any], Any]]] = {
    "every call is the first": (
        mechanisms, '"normal", self.purpose, request.call, streams)', '"normal", self.purpose, 0, streams)', lambda m: m.Gaussian(),
    ),
    "the inactive count": (
        mechanisms, "request.noise_std.double(), streams.only(valid)", "request.noise_std.double(), streams", lambda m: m.Gaussian(),
    ),
    "the inactive count, tree": (tree, "streams.only(active).normal(", "streams.normal(", lambda m: m.Tree(8)),
    "the inactive count, square root": (
        factorisation, "streams.only(active).normal(", "streams.normal(", lambda m: m.BandedSquareRoot(8, 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.slow
def test_control_a_mechanism_with_one_line_wrong_breaks_the_law(name: str):
    module, line, instead, make = BROKEN[name]
    try:
        assert not draws_once(make(module_with_line_replaced(module, line, instead)), "cpu")
    except ValueError as error:  # what may be drawn is refused
        assert AGAIN in str(error)


def test_two_mechanisms_of_one_purpose_are_refused_and_of_two_are_not():
    streams = Streams.secure(2)
    release(Gaussian(), streams, 0)
    with pytest.raises(ValueError, match="Expected call=0 of run 0 to come after .* purpose='gaussian mechanism'"):
        release(Gaussian(), streams, 0)
    assert not torch.equal(release(Gaussian("another"), streams, 0), release(Gaussian("a third"), streams, 0))


# ---------------------------------------------------------------- AboveThreshold
def ask(module: Any, streams: Streams) -> Callable[[], Tensor]:
    """Begin a search, and what asks its first question, of a state that is put back each time."""
    device, search = streams.keys.device, module.AboveThreshold(1.0, 0.0, 1.0, Relation.REPLACE_ONE)
    everyone = torch.ones(2, dtype=torch.bool, device=device)
    state, _ = search.begin(search.init(streams), streams, everyone)
    value = torch.full((2, 1), 1e9, dtype=torch.float64, device=device)
    question = Sensitive(value, torch.ones(2, dtype=torch.float64, device=device), Relation.REPLACE_ONE, "proved")
    return lambda: search.ask(restore(state, flatten(state)), question, streams, everyone)[1]


@DEVICES
@pytest.mark.slow
def test_a_question_and_a_threshold_are_drawn_for_once(device: str):
    with on(device):
        question = ask(selection, Streams.secure(2, device))
        assert bool(question().all()) and refused(question)
        streams = Streams.secure(2, device)
        ask(selection, streams)
        assert refused(lambda: ask(selection, streams)())  # another threshold of the first search
        question = ask(selection, Streams.of(0, ["a", "b"], device))
        assert bool((question() & question()).all())  # the control: seeded


def test_a_second_search_needs_the_state_of_the_first():
    task = Search(1.0, 0.01, 1.0, 1.0, 1.0, 10**6, num_candidates=2, failure=0.05)
    points, streams = [torch.full((1, 1), 0.5)] * 2, Streams.secure(1)

    def search(state: Any = None) -> Any:
        return select_stationary_point(task, points, lambda x: x.abs()[:, 0], lambda x: torch.ones(1), streams, state)

    found = search()
    with pytest.raises(ValueError, match=AGAIN):
        search()
    assert int(search(found.state).state.asked) > int(found.state.asked)
    random_steps(streams, 100, 5)
    with pytest.raises(ValueError, match=AGAIN):
        random_steps(streams, 100, 5)


def test_a_run_that_does_not_search_keeps_its_search():
    streams, search = Streams.secure(2), AboveThreshold(1.0, 0.0, 1.0, Relation.REPLACE_ONE)
    state, _ = search.begin(search.init(streams), streams, torch.tensor([True, False]))
    state, _ = search.begin(state, streams, torch.tensor([False, True]))
    assert state.searches.tolist() == [1, 1]


# ---------------------------------------------------------------- oracles, algorithms, states that were put back
@pytest.mark.slow
@pytest.mark.parametrize("name", ORACLES)
@DEVICES
def test_of_two_oracles_on_one_stream_the_second_is_refused(name: str, device: str):
    def estimates(streams: Streams) -> Callable[[], Tensor]:
        oracle = ORACLES[name](device)
        x = start(4 if "fresh" in name or "virtual" in name else network(device).dim, device)[0]
        active = torch.ones(RUNS, dtype=torch.bool, device=device)
        return lambda: oracle.estimate(oracle.init(x), x, streams, active)[1].gradient

    with on(device):
        streams = Streams.secure(RUNS, device)
        first = estimates(streams)()
        checks.settle()
        assert bool(first.any())
        if name.startswith("clients"):  # whose keys are each oracle's own
            assert not bool((estimates(streams)() == first).any())
        else:
            assert refused(estimates(streams))
        seeded = start(1, device)[1]  # the control
        assert torch.equal(estimates(seeded)().cpu(), estimates(seeded)().cpu())


def test_batches_are_drawn_once_whatever_the_mechanism():
    streams, x = Streams.secure(RUNS), start(network("cpu").dim, "cpu")[0]
    for number in range(2):
        oracle = MinibatchGradient(network("cpu"), FIXED, rows(0.3, "cpu"), 0.5, 5, mechanism=Gaussian(f"{number}"))
        with pytest.raises(ValueError, match="'minibatch: examples'") if number else contextlib.nullcontext():
            oracle.estimate(oracle.init(x), x, streams, torch.ones(RUNS, dtype=torch.bool))


# Whose keys are each oracle's own.
OF_CLIENTS = (distributed_drift_escape, distributed_noisy_sgd, distributed_selection)


@pytest.mark.slow
@pytest.mark.parametrize("door", [door for door in DOORS if door not in OF_CLIENTS], ids=lambda door: door.__name__)
def test_an_algorithm_runs_once_on_secret_streams(door: Callable[..., Any], monkeypatch: pytest.MonkeyPatch):
    kinds: dict[str, Streams] = {"secret": Streams.secure(RUNS), "seeded": Streams.of(0, range(RUNS))}
    for kind, streams in kinds.items():
        given = lambda dim, device, streams=streams: (start(dim, device)[0], streams)  # noqa: E731
        monkeypatch.setattr(test_device, "start", given)
        DOORS[door]("cpu")
        with pytest.raises(ValueError, match=AGAIN) if kind == "secret" else contextlib.nullcontext():
            DOORS[door]("cpu")


@DEVICES
@pytest.mark.slow
def test_a_state_that_was_put_back_is_refused_and_the_next_step_is_not(device: str):
    with on(device):
        method, oracle = Descent(0.1), ORACLES["clipped"](device)
        x, seeded = start(network(device).dim, device)
        for streams in (Streams.secure(RUNS, device), seeded):
            before, _ = method.step(method.init(x, oracle), oracle, streams)
            after, _ = method.step(before, oracle, streams)
            following, estimate = method.step(after, oracle, streams)
            checks.settle()
            assert (following.steps == 3).all() and bool(estimate.gradient.any())
            back = restore(before, flatten(before))
            again = refused(lambda back=back, streams=streams: method.step(back, oracle, streams)[1].gradient)
            assert again == streams.secret


@DEVICES
@pytest.mark.slow
def test_runs_that_end_leave_the_others_their_noise(device: str):
    """The loop drops runs that have ended: those that go on draw from parts of the streams, each number once."""
    with on(device):
        schedules = [uniform(0.2, steps) for steps in (2, 5, 3)]
        oracle = ClippedGradient(network(device), 0.5, FixedNoise.of(schedules, device))
        x, method, streams = start(network(device).dim, device)[0], Descent(0.1), Streams.secure(RUNS, device)
        state = drive(method, oracle, method.init(x, oracle), streams, 3, look_every=1)
        middle = restore(state, flatten(state))
        state = drive(method, oracle, state, streams, 6, look_every=1)
        assert state.steps.tolist() == [2, 5, 3] and state.status.tolist() == [Status.FINISHED] * RUNS
        assert refused(lambda: drive(method, oracle, middle, streams, 6, look_every=1))


# ---------------------------------------------------------------- what may be drawn again
def test_augmented_pictures_are_changed_alike_in_both_passes():
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    images = Streams.of("images", [0]).uniform("images", 0, 12 * 64).view(12, 1, 8, 8).float()
    problem = ModuleProblem(module, images, torch.arange(12) % 2)
    streams, x = Streams.secure(RUNS), torch.ones(RUNS, problem.dim)
    changed = problem.augmented(streams.only(torch.tensor([True, True, False])), torch.arange(RUNS))
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
    assert seeded.replayable("augmentation") is seeded and seeded.only(torch.tensor([True, False])) is seeded


# ---------------------------------------------------------------- the draws themselves
def test_calls_go_up_and_one_may_be_drawn_in_pieces():
    streams = Streams.secure(2)
    pieces = [streams.normal("noise", 3, 5), streams.normal("noise", 3, 2, start=5), streams.normal("noise", 3, 1, start=7)]
    assert len(torch.cat(pieces, 1).unique()) == 16
    for call in (3, 2):
        with pytest.raises(ValueError, match=AGAIN):
            streams.normal("noise", call, 1)
    with pytest.raises(ValueError, match=AGAIN):
        streams.uniform("noise", 2, 3, start=4)
    for call in (2**31 - 1, 2**31, 2**32 - 1):
        streams.normal("noise", call, 4)
        with pytest.raises(ValueError, match=AGAIN):
            streams.normal("noise", call, 4)
    assert streams.words("words", 0, 3)[0].shape == (2, 3)
    with pytest.raises(ValueError, match=AGAIN):
        streams.words("words", 0, 1)


def test_two_draws_have_nothing_in_common():
    first, second = (Streams.secure(2).normal("noise", 0, 1000) for _ in range(2))
    assert not torch.isin(first, second).any() and len(first.unique()) == 2000
    with pytest.raises(TypeError, match="Expected secret streams"):
        Streams.of(0, ["a"]).rounded("normal", "noise", 0, first[:1], torch.ones(1))


@DEVICES
def test_parts_share_what_was_drawn(device: str):
    with on(device):
        streams = Streams.secure(3, device)
        streams.take(torch.tensor([2, 0])).normal("noise", torch.tensor([4, 0], device=device), 3)
        calls = torch.tensor([1, 0, 5], device=device)
        assert bool((streams.normal("noise", calls, 3) != 0).all())
        checks.settle()
        again = Streams.secure(3, device)
        again.take(slice(1, 3)).take(torch.tensor([True, False])).normal("noise", 0, 3)
        with pytest.raises(ValueError, match="Expected call=0 of run 1"):
            again.normal("noise", 0, 3)
            checks.settle()
        with pytest.raises(ValueError, match="Expected index to name a run of secret streams once"):
            streams.take(torch.tensor([1, -2]))
        seeded = Streams.of(0, ["a", "b", "c"], device)
        assert len(seeded.take(torch.tensor([1, 1]))) == 2  # the control


def test_a_mask_is_one_truth_value_a_run():
    streams = Streams.secure(2)
    with pytest.raises(ValueError, match=r"Expected active, torch.bool of shape \(1,\), to be bool of shape \(2,\)"):
        streams.only(torch.tensor([True]))
    with pytest.raises(ValueError, match="Expected active, torch.int64 of shape"):
        streams.only(torch.tensor([1, 0]))


def test_the_active_of_a_part_are_those_of_all_that_it_is_a_part_of():
    streams, first, second = Streams.secure(3), torch.tensor([True, True, False]), torch.tensor([False, True, True])
    streams.only(first).only(second).normal("noise", 0, 3)  # run 1
    streams.only(second).take(torch.tensor([2, 0])).normal("noise", 0, 3)  # run 2
    assert streams.only(~second).normal("noise", 0, 3).shape == (3, 3)  # run 0 drew nothing before
    with pytest.raises(ValueError, match="Expected call=0 of run 1"):
        streams.only(second).normal("noise", 0, 3)


# ---------------------------------------------------------------- processes and threads
def in_a_fork(draw: Callable[[], Any]) -> str:
    """What a forked child says of a draw."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            draw()
            said = "drawn"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as pipe:
        return pipe.read()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_draw_its_parent_s_noise():
    streams = Streams.secure(2)
    parts = (streams, streams.take(slice(0, 1)), streams.only(torch.tensor([True, True])))
    for part in parts:
        assert "RuntimeError: Expected process" in (said := in_a_fork(lambda part=part: part.normal("noise", 0, 3)))
        assert "make streams in it with Streams.secure" in said
    assert streams.normal("noise", 0, 3).shape == (2, 3)  # the parent goes on
    for own in (lambda: Streams.secure(1).normal("noise", 0, 3), lambda: Streams.of(0, ["a"]).normal("noise", 0, 3)):
        assert in_a_fork(own) == "drawn"  # the controls


def drawn_by_threads(streams: Streams) -> int:
    """How many of eight threads draw for one call."""
    given: list[Tensor] = []

    def draw() -> None:
        with contextlib.suppress(ValueError):
            given.append(streams.normal("noise", 0, 3))

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(given)


def test_of_threads_that_draw_at_once_one_is_given_the_call(monkeypatch: pytest.MonkeyPatch):
    maximum = torch.maximum
    slow = lambda *args: (time.sleep(0.02), maximum(*args))[1]  # noqa: E731 between looking and writing down
    monkeypatch.setattr(torch, "maximum", slow)
    assert drawn_by_threads(Streams.secure(2)) == 1
    unlocked = Streams.secure(2)
    unlocked._drawn._lock = contextlib.nullcontext()  # type: ignore[union-attr]
    assert drawn_by_threads(unlocked) > 1, "control"
    assert drawn_by_threads(Streams.of(0, ["a", "b"])) == 8, "control"
