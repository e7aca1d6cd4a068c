"""Streams: known answers, independence of the batch, distribution, another implementation's bits, secret seeds."""

import copy
import io
import math
import pickle
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from dpnotes.core import FRESH, Relation, Request, Sensitive, Status
from dpnotes.methods import checkpoint
from dpnotes.methods.descent import Descent
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.papers.budget_schedules.algorithms import private_gradient_descent
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.privacy.tree import Tree
from dpnotes.problems.custom import CustomProblem
from dpnotes.random import draws
from dpnotes.random.reference import philox
from dpnotes.random.streams import Streams
from dpnotes.util import files
from dpnotes.util.states import flatten

# Random123's known answers for philox4x32-10: counter, key, output.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_philox_gives_the_known_answers(counter, key, expected):
    c0, c1, c2, c3 = (torch.tensor([word]) for word in counter)
    k0, k1 = (torch.tensor([word]) for word in key)
    assert tuple(int(word) for word in philox((k0, k1), (c0, c1, c2, c3))) == expected


def test_a_draw_does_not_depend_on_the_batch_or_on_how_much_is_drawn():
    names = [f"run {i}" for i in range(7)]
    together = Streams.of(3, names)
    for draw in ("normal", "uniform"):
        whole = getattr(together, draw)("noise", 5, 33)
        for i, name in enumerate(names):
            alone = getattr(Streams.of(3, [name]), draw)("noise", 5, 9)
            assert torch.equal(alone[0], whole[i, :9])
        shuffled = getattr(together.take(torch.tensor([4, 2])), draw)("noise", torch.tensor([5, 5]), 33)
        assert torch.equal(shuffled, whole[[4, 2]])


def test_no_two_pairs_of_seed_and_name_have_one_key():
    seeds = [0, 1, "0", "1", "a", "a/b", "", "/", '"', "\\", "['a", "é", "\u00e9\u0301"]
    names = [0, 1, "1", "c", "b/c", "", "/", '"', "', 'c']", "é"]
    keys = torch.cat([Streams.of(seed, names).keys for seed in seeds])
    assert len(torch.unique(keys, dim=0)) == len(seeds) * len(names)
    # The control: joined by a slash, as in an earlier version, some pairs of seed and name coincide.
    assert len({f"{seed}/{name}" for seed in seeds for name in names}) < len(seeds) * len(names)
    assert torch.equal(Streams.of(np.int64(3), [np.int32(4)]).keys, Streams.of(3, [4]).keys)  # type: ignore[arg-type]
    assert Streams.of(0, []).keys.shape == (0, 2)


@pytest.mark.parametrize("wrong", [1.0, True, None, np.float64(2.0), ("a", "b"), b"a"])
def test_seeds_and_names_are_texts_or_whole_numbers(wrong):
    with pytest.raises(TypeError, match="Expected seed=.* to be a text or a whole number"):
        Streams.of(wrong, ["a"])
    with pytest.raises(TypeError, match="Expected run=.* to be a text or a whole number"):
        Streams.of(0, ["a", wrong])


@pytest.mark.parametrize("call", [1.5, 1.0, True, "1", torch.tensor([1.5, 1.0]), torch.tensor([True, False])])
def test_calls_are_whole_numbers(call):
    with pytest.raises(TypeError, match="Expected call"):
        Streams.of(0, ["a", "b"]).normal("noise", call, 2)


def test_a_call_number_per_run_is_the_call_number_of_that_run():
    with pytest.raises(ValueError, match="Expected one call, or one for each of 1 runs, got 2"):
        Streams.of(0, ["a"]).normal("noise", torch.tensor([0, 1]), 2)
    streams = Streams.of(0, ["a", "b"])
    mixed = streams.normal("noise", torch.tensor([3, 8]), 5)
    assert torch.equal(mixed[0], streams.normal("noise", 3, 5)[0])
    assert torch.equal(mixed[1], streams.normal("noise", 8, 5)[1])


def test_normals_are_standard_normal():
    sample = Streams.of(11, ["distribution"]).normal("noise", 0, 400_000)[0].numpy()
    assert stats.kstest(sample, "norm").pvalue > 1e-4
    assert stats.kstest(sample * 1.02, "norm").pvalue < 1e-4  # the control: this sample size detects two per cent
    halves = sample.reshape(-1, 2)
    assert abs(np.corrcoef(halves.T)[0, 1]) < 4 / math.sqrt(len(halves))
    assert abs(np.corrcoef(halves.T**2)[0, 1]) < 4 / math.sqrt(len(halves))


def test_uniforms_are_uniform_and_inside_the_open_interval():
    sample = Streams.of(11, ["distribution"]).uniform("u", 0, 400_000)[0].numpy()
    assert 0 < sample.min() and sample.max() < 1
    assert stats.kstest(sample, "uniform").pvalue > 1e-4
    assert stats.kstest(sample**1.02, "uniform").pvalue < 1e-4  # the control


# ---------------------------------------------------------------- no two draws share a stream
def counters(monkeypatch: pytest.MonkeyPatch, draw: Callable[[], object]) -> Tensor:
    """Return the Philox inputs of the draws: key and counter, six words per row."""
    asked = []

    def spy(key, counter):
        shape = torch.broadcast_shapes(*(word.shape for word in (*key, *counter)))
        asked.append(torch.stack([word.expand(shape) for word in (*key, *counter)], -1).reshape(-1, 6))
        return rounds(key, counter)

    rounds = draws.reference._rounds
    with monkeypatch.context() as patch:
        spied = draws.Backend(draws.reference, False, "spied upon")
        patch.setattr("dpnotes.random.draws.backend", lambda device: spied)
        patch.setattr(draws.reference, "_rounds", spy)
        draw()
    return torch.cat(asked)


def test_every_run_purpose_call_and_element_has_a_counter_of_its_own(monkeypatch):
    streams = Streams.of(0, range(20))
    edges = (0, 1, 2, 3, 5, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1)

    def everything() -> None:
        for purpose in ("gaussian mechanism", "tree mechanism", "a", "b", "ab", "a/b", ""):
            for call in edges:
                streams.normal(purpose, call, 14)
            streams.normal(purpose, torch.arange(20) + 1000, 14)

    asked = counters(monkeypatch, everything)
    assert len(asked) == 7 * (len(edges) + 1) * 20 * 7  # two numbers per block
    assert len(torch.unique(asked, dim=0)) == len(asked)
    # The controls: equal names share every draw, and so do repeated calls.
    twice = counters(monkeypatch, lambda: [Streams.of(0, ["x", "x"]).normal("a", 0, 2)])
    assert len(torch.unique(twice, dim=0)) == len(twice) / 2
    twice = counters(monkeypatch, lambda: [streams.normal("a", 0, 2), streams.normal("a", 0, 2)])
    assert len(torch.unique(twice, dim=0)) == len(twice) / 2


@pytest.mark.parametrize("call", [-1, 2**32, torch.tensor([0, 2**32]), torch.tensor([0, -7])])
def test_a_call_that_would_share_another_one_s_stream_is_refused(call):
    streams = Streams.of(0, ["a", "b"])
    with pytest.raises(ValueError, match="Expected 0 <= call=-?[0-9]+ < 2\\^32"):
        streams.normal("noise", call, 2)


# ---------------------------------------------------------------- secret seeds
def test_secret_streams_have_no_key():
    streams = Streams.secure(3)
    assert streams.secret and streams.take(torch.tensor([1])).secret and not Streams.of(0, ["a"]).secret
    assert not streams.keys.any() and not Streams(streams.keys).secret
    assert not torch.equal(streams.normal("noise", 4, 9), Streams(streams.keys).normal("noise", 4, 9))


def test_secret_streams_are_neither_shown_nor_stored():
    streams = Streams.secure(2)
    assert repr(streams) == str(streams) == "Streams(<secret>, runs=2)"
    for store in (pickle.dumps, copy.copy, copy.deepcopy, lambda s: torch.save(s, io.BytesIO())):
        with pytest.raises(TypeError, match="secret ones are not stored"):
            store(streams)
    with pytest.raises(TypeError, match="secret ones are not stored"):
        asdict(Holder(streams))
    assert torch.equal(asdict(Holder(Streams.of(0, ["a"])))["streams"].keys, Streams.of(0, ["a"]).keys)  # the control
    seeded = Streams.of(0, ["a"])
    assert torch.equal(pickle.loads(pickle.dumps(seeded)).keys, seeded.keys)  # the control
    with pytest.raises(ValueError, match="Expected num_runs=0 >= 1"):
        Streams.secure(0)


@dataclass(frozen=True)
class Holder:
    """A dataclass of another library that contains streams."""

    streams: Streams


STEPS, CLIP = 6, 1.0


def training(num_runs: int = 2):
    """Return a private descent of a few steps."""
    problem = CustomProblem(lambda p, x: 0.5 * ((p - x) ** 2).sum(), 3, torch.linspace(-1, 1, 12).view(4, 3).double())
    return Descent(0.1), ClippedGradient(problem, CLIP, FixedNoise.of([uniform(0.5, STEPS)] * num_runs))


def taken(streams: Streams, state, method, oracle, steps: int):
    gradients = []
    for _ in range(steps):
        state, estimate = method.step(state, oracle, streams)
        gradients.append(estimate.gradient)
    return state, torch.stack(gradients)


def test_a_secret_run_resumes_with_fresh_noise(tmp_path: Path):
    method, oracle = training()
    start = torch.zeros(2, 3, dtype=torch.float64)
    streams = Streams.secure(2)
    state, _ = taken(streams, method.init(start, oracle), method, oracle, 3)
    checkpoint.save(tmp_path / "run.pt", state, streams)
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]
    assert b"SENSITIVE" in (tmp_path / "run.pt").read_bytes()
    assert (tmp_path / "run.pt").stat().st_mode & 0o077 == 0

    _, would_have = taken(streams, state, method, oracle, 3)
    resumed, fresh = checkpoint.resume(tmp_path / "run.pt", method.init(start, oracle))
    assert fresh.secret
    for name, tensor in flatten(resumed).items():
        assert torch.equal(tensor, flatten(state)[name]), name  # including the meter: the spent budget stays spent
    ended, gradients = taken(fresh, resumed, method, oracle, 3)
    assert not torch.isclose(gradients, would_have).any(), "no noise is drawn twice"
    refused, _ = taken(fresh, ended, method, oracle, 1)
    assert (refused.status == Status.FINISHED).all(), "the schedule's steps before the checkpoint count"


def test_a_seeded_run_resumes_to_the_bit_and_the_two_kinds_do_not_mix(tmp_path: Path):
    method, oracle = training()
    start, streams = torch.zeros(2, 3, dtype=torch.float64), Streams.of("seed", range(2))
    whole, _ = taken(streams, method.init(start, oracle), method, oracle, STEPS)
    state, _ = taken(streams, method.init(start, oracle), method, oracle, 2)
    path = tmp_path / "run.pt"
    checkpoint.save(path, state, streams)
    resumed, same = checkpoint.resume(path, method.init(start, oracle), streams)
    ended, _ = taken(same, resumed, method, oracle, STEPS - 2)
    for name, tensor in flatten(ended).items():
        assert torch.equal(tensor, flatten(whole)[name]), name
    for wrong in (None, Streams.secure(2), Streams.of("seed", range(3))):
        with pytest.raises(ValueError, match="Expected the seeded streams of the 2 runs"):
            checkpoint.resume(path, method.init(start, oracle), wrong)
    for wrong in (Streams.of("another seed", range(2)), Streams.of("seed", [1, 0]), Streams.of("seed", ["0", "1"])):
        with pytest.raises(ValueError, match=f"Expected the seed that {path} was saved with"):
            checkpoint.resume(path, method.init(start, oracle), wrong)
    secret = Streams.secure(2)
    checkpoint.save(path, state, secret)
    for wrong in (secret, streams):  # secret streams that have drawn already would draw the same noise again
        with pytest.raises(ValueError, match=f"Expected no streams with {path}: its noise is secret"):
            checkpoint.resume(path, method.init(start, oracle), wrong)


SETTINGS = {"step_size": 0.1, "schedule": {"name": "uniform", "rho": 0.5, "options": {}}, "classes": [3, 5]}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (SETTINGS | {"step_size": 0.2}, "saved with: step_size was 0.1, is 0.2."),
        (
            SETTINGS | {"schedule": {"name": "uniform", "rho": 1.0, "options": {}}, "momentum": 0.9},
            "saved with: momentum was not among them, is 0.9; schedule.rho was 0.5, is 1.0.",
        ),
        (
            SETTINGS | {"schedule": {"name": "uniform", "rho": 0.5}, "schedule.options": {}},
            '"schedule.options" was not among them, is {}; schedule.options was {}, is not among them.',
        ),
        (None, "classes was [3, 5], is not among them; "),
    ],
)
def test_a_checkpoint_of_other_settings_says_what_differs(tmp_path: Path, settings, said: str):
    path, streams = tmp_path / "run.pt", Streams.of(0, ["a"])
    checkpoint.save(path, torch.ones(1), streams, SETTINGS)
    with pytest.raises(ValueError, match=re.escape(said)):
        checkpoint.resume(path, torch.zeros(1), streams, settings)
    back, _ = checkpoint.resume(path, torch.zeros(1), streams, dict(reversed(SETTINGS.items())))  # the control
    assert back.tolist() == [1.0]
    checkpoint.save(path, torch.ones(1), streams)
    assert checkpoint.resume(path, torch.zeros(1), streams)[0].tolist() == [1.0]
    with pytest.raises(ValueError, match=r"step_size was not among them, is 0\.1"):
        checkpoint.resume(path, torch.zeros(1), streams, SETTINGS)


def test_settings_are_json(tmp_path: Path):
    with pytest.raises(TypeError, match="not JSON serializable"):
        checkpoint.save(tmp_path / "run.pt", torch.ones(1), Streams.of(0, ["a"]), {"x": {"y": torch.ones(1)}})
    assert not [*tmp_path.iterdir()]


def test_a_damaged_checkpoint_is_refused_by_name(tmp_path: Path):
    path, streams = tmp_path / "run.pt", Streams.of(0, ["a"])
    checkpoint.save(path, torch.ones(1), streams)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(files.DamagedFileError, match=f"^Expected {path} to match the sha256 .*$"):
        checkpoint.resume(path, torch.zeros(1), streams)


def test_the_checkpoint_of_another_state_is_refused_by_name(tmp_path: Path):
    path, streams = tmp_path / "run.pt", Streams.of(0, ["a"])
    checkpoint.save(path, torch.ones(1), streams)
    for template in (torch.ones(2), torch.ones(1, dtype=torch.float64)):
        with pytest.raises(ValueError, match=f"Expected {path} to hold a state like the template: Expected "):
            checkpoint.resume(path, template, streams)
    assert checkpoint.resume(path, torch.zeros(1), streams)[0].tolist() == [1.0], "the control"


def test_a_tree_that_goes_on_with_a_fresh_seed_still_takes_its_old_noise_away(tmp_path: Path):
    tree = Tree(max_leaves=4)
    ones = torch.ones(1, dtype=torch.float64)

    def steps(state, streams: Streams, calls: range) -> tuple:
        total = torch.zeros(1, 4000, dtype=torch.float64)
        for call in calls:
            answer = Sensitive(torch.zeros(1, 4000, dtype=torch.float64), ones, Relation.ZERO_OUT, "proved", FRESH)
            request = Request(answer, ones, torch.tensor([call]), ones.bool())
            state, value, _ = tree.release(state, request, streams)
            total = total + value
        return state, total

    secret = Streams.secure(1)
    state, first = steps(tree.init(torch.zeros(1, 4000, dtype=torch.float64)), secret, range(3))
    checkpoint.save(tmp_path / "tree.pt", state, secret)
    resumed, fresh = checkpoint.resume(tmp_path / "tree.pt", tree.init(torch.zeros(1, 4000, dtype=torch.float64)))
    _, last = steps(resumed, fresh, range(3, 4))
    # Four leaves form one block, drawn last: the remaining noise is its draw.
    assert 0.9 < float((first + last).std()) < 1.1
    # The control: noise drawn anew for the old blocks would not cancel the released noise.
    _, again = steps(tree.init(torch.zeros(1, 4000, dtype=torch.float64)), Streams.secure(1), range(3))
    assert float((again + last).std()) > 2


def test_keys_are_what_philox_sees_of_them():
    # Equal draws have equal keys, so that a claim about runs that share noise detects them.
    plain, high = (Streams(torch.tensor([[1 + more, 2]])) for more in (0, 2**32))
    assert torch.equal(plain.keys, high.keys)
    assert torch.equal(plain.normal("noise", 0, 3), high.normal("noise", 0, 3))
    for keys in (torch.ones(1, 2), torch.ones(2, dtype=torch.int64), torch.ones(1, 3, dtype=torch.int64)):
        with pytest.raises(ValueError, match="Expected keys"):
            Streams(keys)


def test_a_run_s_guarantee_says_whether_its_seed_is_secret():
    problem = CustomProblem(lambda p, x: 0.5 * ((p - x) ** 2).sum(), 3, torch.linspace(-1, 1, 12).view(4, 3).double())
    said = [
        str(private_gradient_descent(
            problem, [uniform(0.5, 2)], torch.zeros(1, 3).double(), streams, clip=1.0, step_size=0.1, delta=1e-5
        ).guarantees[0])
        for streams in (Streams.of(0, ["a"]), Streams.secure(1))
    ]  # fmt: skip
    assert "this run's seed is known, so that it is a demonstration" in said[0]
    assert "demonstration" not in said[1] and "operating system" in said[1]
