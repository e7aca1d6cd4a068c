"""The kernels that draw: every operation correctly rounded, known answers, fused = reference, pieces, faults."""

import csv
import importlib.util
import math
import multiprocessing
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import draws_by_mpmath
import numpy as np
import pytest
import torch
from pretend_device import PretendCuda
from torch import Tensor

from dpnotes.core import Ledger, Status
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.problems.custom import CustomProblem
from dpnotes.random import draws, reference
from dpnotes.random.streams import Streams

CPU = torch.device("cpu")
needs_numba = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba is not installed")


def same_bits(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.contiguous().view(torch.int64), b.contiguous().view(torch.int64))


@pytest.fixture
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "backend", lambda device: draws.Backend(reference, False, "the reference"))


@pytest.fixture(params=["fused", "reference"])
def either_kernels(request: pytest.FixtureRequest) -> None:
    """Draw by the fused kernels, then without them."""
    if request.param == "reference":
        request.getfixturevalue("without_kernels")


# ---------------------------------------------------------------- every operation of the reference is IEEE 754's
def hard(count: int) -> np.ndarray:
    """Return numbers of all sizes that occur, and edges: powers of two, their neighbours, halves of the last place."""
    drawn = np.random.default_rng(0)
    edges = np.concatenate(
        [np.nextafter(2.0**e, 2.0 ** (e + d)) for e in np.arange(-60.0, 53.0) for d in (-1, 0, 1)], None
    )
    scale = 2.0 ** drawn.uniform(-60, 53, count)
    return np.concatenate([drawn.random(count) * scale, edges, 1 + np.arange(1, 50) * 2.0**-52])


OPERATIONS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "add": (lambda a, b: a.clone().add_(b), lambda a, b: a + b),
    "add a number": (lambda a, b: a.clone().add_(0.5), lambda a, b: a + 0.5),
    "subtract a number": (lambda a, b: a - math.sqrt(0.5), lambda a, b: a - math.sqrt(0.5)),
    "multiply": (lambda a, b: a.clone().mul_(b), lambda a, b: a * b),
    "multiply by a number": (lambda a, b: a.clone().mul_(reference.ANGLE_STEP), lambda a, b: a * reference.ANGLE_STEP),
    "divide": (lambda a, b: a.clone().div_(b), lambda a, b: a / b),
    "square root": (lambda a, b: reference.sqrt(a.clone()), lambda a, b: np.sqrt(a)),
    "one minus": (lambda a, b: a.clone().neg_().add_(1), lambda a, b: 1 - a),
    "clamp": (lambda a, b: (a - b).clamp_min_(0), lambda a, b: np.maximum(a - b, 0)),
    "from integers": (lambda a, b: a.long().to(torch.float64), lambda a, b: a.astype(np.int64).astype(np.float64)),
    "frexp": (lambda a, b: torch.frexp(a)[0] * 2.0 ** torch.frexp(a)[1], lambda a, b: a),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.slow
def test_each_operation_of_the_reference_is_correctly_rounded(name: str):
    ours, numpys = OPERATIONS[name]
    a = hard(10**6)
    b = np.random.default_rng(1).permutation(a)
    found = ours(torch.from_numpy(a), torch.from_numpy(b)).numpy()
    assert np.array_equal(found.view(np.int64), numpys(a, b).view(np.int64))


def test_control_an_operation_that_is_an_ulp_off_is_seen():
    a = hard(1000)
    wrong = np.nextafter(np.sqrt(a), 0)
    assert not np.array_equal(wrong.view(np.int64), reference.sqrt(torch.from_numpy(a.copy())).numpy().view(np.int64))


# ---------------------------------------------------------------- known answers, computed by another program
def known() -> Iterator[tuple[Tensor, Tensor, tuple[int, int], int, list[float]]]:
    with draws_by_mpmath.FILE.open() as file:
        for row in csv.reader(file):
            k0, k1, p0, p1, call, element = (int(word) for word in row[:6])
            yield torch.tensor([[k0, k1]]), torch.tensor([call]), (p0, p1), element, [float.fromhex(x) for x in row[6:]]


def wrong_answers(module: ModuleType | SimpleNamespace) -> int:
    """Return the number of known pairs of which a bit differs."""
    wrong = 0
    for keys, calls, purpose, element, (u0, u1, z0, z1) in known():
        arguments = keys, calls, purpose, element // 2, 1
        wrong += module.uniforms(*arguments).flatten().tolist() != [u0, u1]
        wrong += module.normals(*arguments).flatten().tolist() != [z0, z1]
    return wrong


def test_the_table_is_what_the_program_computes():
    with draws_by_mpmath.FILE.open() as file:
        assert list(csv.reader(file)) == draws_by_mpmath.rows()


def test_the_reference_gives_the_known_answers():
    assert len([*known()]) == 63 and wrong_answers(reference) == 0


@needs_numba
def test_the_fused_kernel_gives_the_known_answers():
    backend = draws.backend(CPU)
    assert backend.fused, backend.about
    assert wrong_answers(backend.module) == 0


def test_control_torch_s_square_root_gives_other_answers(monkeypatch: pytest.MonkeyPatch):
    keys, calls = torch.tensor([[1, 2]]), torch.tensor([0])
    right = reference.normals(keys, calls, (3, 4), 0, 50_000)
    monkeypatch.setattr(reference, "sqrt", lambda x: x.copy_(torch.nextafter(x, x + 1)))
    assert wrong_answers(reference) > 60  # nearly every pair of normals differs
    assert not same_bits(reference.normals(keys, calls, (3, 4), 0, 50_000), right)


def test_normals_are_within_three_units_in_the_last_place_of_box_and_muller_s():
    for key, purpose, call, element in draws_by_mpmath.PLACES:
        bits = draws_by_mpmath.bits(key, purpose, call, element)
        for ours, true in zip(draws_by_mpmath.rounded(*bits), draws_by_mpmath.exact(*bits), strict=True):
            # Relative to the radius: near a zero of sine or logarithm the transform itself loses relative accuracy.
            assert abs(true - ours) < 3 * np.spacing(max(abs(ours), 1.0))


# ---------------------------------------------------------------- fused = reference
def differing(module: ModuleType | SimpleNamespace, total: int, seed: int) -> int:
    """Count the numbers that differ from the reference's, over mixed shapes, keys, purposes, calls and starts."""
    choose, different = np.random.default_rng(seed), 0
    while total > 0:
        runs, count = int(choose.choice([1, 2, 3, 17])), int(2 ** choose.uniform(0, min(17, math.log2(total) + 1)))
        keys = torch.from_numpy(choose.integers(0, 2**32, (runs, 2)))
        calls = torch.from_numpy(choose.integers(0, 2**32, runs if choose.random() < 0.5 else 1))
        purpose = int(choose.integers(2**32)), int(choose.integers(2**32))
        start = int(choose.choice([0, 1, 2**31, 2**32 - count, choose.integers(2**32 - count)]))
        for kind in ("normals", "uniforms", "words"):
            found, expected = (getattr(m, kind)(keys, calls, purpose, start, count) for m in (module, reference))
            assert found.shape == expected.shape and found.dtype == expected.dtype
            different += int((found.view(torch.int64) != expected.view(torch.int64)).sum())
        total -= 2 * runs * count
    return different


@needs_numba
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.slow
def test_fused_draws_are_the_reference_s_to_the_bit(threads: int):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert differing(draws.backend(CPU).module, 10**6, seed=threads) == 0
    finally:
        torch.set_num_threads(before)


@needs_numba
@pytest.mark.slow
def test_fused_draws_are_the_reference_s_over_a_hundred_million():
    assert differing(draws.backend(CPU).module, 10**8, seed=0) == 0


@pytest.mark.parametrize("fault", ["one fused multiplication and addition", "an ulp in a coefficient"])
def test_control_a_kernel_that_is_a_little_off_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch):
    series = reference._series

    def off(arguments: Tensor) -> Tensor:
        with monkeypatch.context() as patch:
            if fault.startswith("an ulp"):
                first = reference.LOG_SERIES[0]
                patch.setattr(reference, "LOG_SERIES", (math.nextafter(first, 0), *reference.LOG_SERIES[1:]))
                return series(arguments)
        exact = arguments[1].numpy().astype(np.longdouble)  # 64 bits: rounded once after both operations
        square, total = exact * exact, np.zeros_like(exact)
        for coefficient in reference.SINE_SERIES[::-1]:
            last = total
            total = (total.astype(np.float64) * square.astype(np.float64) + coefficient).astype(np.float64)
        fused = (last.astype(np.longdouble) * square.astype(np.float64) + reference.SINE_SERIES[0]).astype(np.float64)
        return torch.stack([series(arguments)[0], torch.from_numpy(fused).mul_(arguments[1])])

    keys, calls = torch.tensor([[1, 2]]), torch.tensor([0])
    right = reference.normals(keys, calls, (0, 0), 0, 20_000)
    with monkeypatch.context() as patch:
        patch.setattr(reference, "_series", off)
        wrong = reference.normals(keys, calls, (0, 0), 0, 20_000)
    assert 0 < int((wrong != right).sum()) and float((wrong - right).abs().max()) < 1e-13
    faulty = SimpleNamespace(words=reference.words, uniforms=reference.uniforms, normals=lambda *a: wrong)
    assert not draws.agrees(faulty, CPU)  # type: ignore[arg-type]


@needs_numba
@pytest.mark.slow
def test_no_kernel_contracts_a_multiplication_with_an_addition():
    import llvmlite.binding
    import numba

    module = draws.backend(CPU).module
    njit: Any = numba.njit
    signature, kernel = module._SIGNATURE.format("float64"), module._normals.py_func
    plain: Any = njit(signature, error_model="numpy")(kernel)
    contracted: Any = njit(signature, error_model="numpy", fastmath={"contract"})(kernel)
    assert "fmadd" not in "".join(plain.inspect_asm().values())
    keys, calls, drawn, other = np.array([[1, 2]]), np.array([0]), np.empty(20_000), np.empty(20_000)
    plain(keys, calls, 3, 4, 0, drawn, 10_000, 0, 10_000)
    contracted(keys, calls, 3, 4, 0, other, 10_000, 0, 10_000)
    expected = reference.normals(torch.from_numpy(keys), torch.from_numpy(calls), (3, 4), 0, 10_000)
    assert np.array_equal(drawn, expected.flatten().numpy())
    if llvmlite.binding.get_host_cpu_features().get("fma"):  # the control
        assert not np.array_equal(other, drawn)


# ---------------------------------------------------------------- pieces, blocks ahead
@pytest.mark.usefixtures("either_kernels")
def test_a_vector_drawn_in_pieces_is_the_same_vector():
    streams, choose = Streams.of(0, range(3)), np.random.default_rng(0)
    for draw in (streams.normal, streams.uniform):
        whole = draw("vector", torch.tensor([4, 0, 9]), 999)
        for _ in range(20):
            ends = [0, *sorted(choose.choice(np.arange(1, 999), choose.integers(1, 9), replace=False).tolist()), 999]
            pieces = [
                draw("vector", torch.tensor([4, 0, 9]), b - a, start=a) for a, b in zip(ends, ends[1:], strict=False)
            ]
            assert same_bits(torch.cat(pieces, dim=1), whole)
    # The control: pieces that overlap by one element differ from the vector.
    assert not same_bits(
        torch.cat([draw("vector", 4, 500), draw("vector", 4, 499, start=499)], dim=1), draw("vector", 4, 999)
    )


def test_a_vector_ends_where_its_stream_does():
    streams = Streams.of(0, ["a"])
    last = streams.normal("vector", 0, 2, start=2**33 - 2)
    assert same_bits(last[:, 1:], streams.normal("vector", 0, 1, start=2**33 - 1))
    for draw in (
        lambda: streams.normal("vector", 0, 3, start=2**33 - 2),
        lambda: streams.words("vector", 0, 2**32 + 1),
    ):
        with pytest.raises(ValueError, match="Expected at most 2\\^32 blocks of a stream"):
            draw()
    for wrong in (-1, 1.5, True, None):
        with pytest.raises((ValueError, TypeError), match=f"Expected start={wrong}"):
            streams.normal("vector", 0, 1, start=wrong)  # type: ignore[arg-type]


@pytest.mark.usefixtures("without_kernels")
@pytest.mark.slow
def test_small_vectors_are_drawn_for_a_block_of_calls_and_are_the_same(monkeypatch: pytest.MonkeyPatch):
    asked: list[int] = []
    normals = reference.normals
    monkeypatch.setattr(reference, "normals", lambda keys, *rest: asked.append(len(keys)) or normals(keys, *rest))
    streams, runs = Streams.of(0, range(3)), torch.arange(3)
    for step in range(200):
        calls = step + 2 * runs
        found = streams.normal("noise", calls, 5)
        assert same_bits(found, Streams.of(0, range(3)).normal("noise", calls, 5))
        found.zero_()  # returned arrays belong to the caller
    ours = [keys for keys in asked if keys == 3 * 64]
    assert len(ours) == 4, "199 calls after the first in blocks of 64"
    choose = np.random.default_rng(0)
    for _ in range(300):  # in random order and sizes, with calls at the end of the range
        calls = torch.from_numpy(choose.choice([choose.integers(0, 300, 3), choose.integers(2**32 - 70, 2**32, 3)]))
        size, start = int(choose.integers(1, 5)), int(choose.integers(0, 3))
        expected = Streams.of(0, range(3)).normal("noise", calls, size, start)
        assert same_bits(streams.normal("noise", calls, size, start), expected)
    assert len(streams._ahead) <= 16
    with pytest.raises(ValueError, match="Expected 0 <= call=4294967296"):
        streams.normal("noise", torch.tensor([2**32, 0, 0]), 5)


@pytest.mark.usefixtures("without_kernels")
def test_nothing_that_was_drawn_ahead_is_released_priced_or_counted(monkeypatch: pytest.MonkeyPatch):
    # The schedule has four steps; the noise of 64 is drawn at the second.
    rows = torch.linspace(-1, 1, 12, dtype=torch.float64).view(4, 3)
    problem = CustomProblem(lambda p, x: 0.5 * ((p - x) ** 2).sum(), 3, rows)
    drawn: list[int] = []
    normals = reference.normals
    monkeypatch.setattr(reference, "normals", lambda keys, *rest: drawn.append(len(keys)) or normals(keys, *rest))
    oracle, method, ledger = ClippedGradient(problem, 1.0, FixedNoise.of([uniform(0.5, 4)])), Descent(0.1), Ledger()
    state = method.init(torch.zeros(1, 3, dtype=torch.float64), oracle)
    state = drive(method, oracle, state, Streams.of(0, ["a"]), 9, ledger)
    assert drawn == [1, 64]
    meter = state.oracle.meter
    assert state.status.tolist() == [Status.FINISHED] and meter.calls.tolist() == [4]
    assert [int(price.charged) for price in ledger.prices] == [1, 1, 1, 1, 0]
    assert torch.allclose(ledger.rho(), meter.spent) and float(meter.spent) <= 0.5 * (1 + 1e-9)
    _, refused = oracle.estimate(state.oracle, state.x, Streams.of(0, ["a"]), torch.tensor([True]))
    assert not refused.gradient.any() and not refused.price.charged.any()


@pytest.mark.usefixtures("either_kernels")
def test_calls_that_the_caller_counts_on_in_place_never_draw_the_same_twice():
    streams, call, drawn = Streams.of(0, ["a"]), torch.tensor([0]), []
    for _ in range(5):
        drawn.append(streams.normal("noise", call, 2))
        call += 1
    assert len(torch.unique(torch.cat(drawn))) == 10


@pytest.mark.usefixtures("either_kernels")
def test_draws_in_inference_mode_are_the_same():
    expected = [Streams.of(0, ["a"]).normal("noise", call, 3) for call in (4, 5, 6)]
    with torch.inference_mode():
        streams = Streams.of(0, ["a"])
        assert all(
            same_bits(streams.normal("noise", torch.tensor([4 + i]), 3), each) for i, each in enumerate(expected)
        )
    reference._on.cache_clear()  # a pretend tensor created outside of inference mode cannot be used in it
    with PretendCuda(), torch.inference_mode():
        on_device = Streams.of(0, ["a"], "cuda").normal("noise", torch.tensor([4], device="cuda"), 3)
        assert on_device.tolist() == expected[0].tolist()


@pytest.mark.usefixtures("either_kernels")
def test_calls_may_lie_anywhere():
    streams = Streams.of(0, range(2))
    expected = streams.normal("noise", torch.tensor([3, 3]), 4)
    for calls in (
        torch.tensor(3).expand(2),
        torch.tensor([[3, 9], [3, 9]])[:, 0],
        torch.tensor([3, 3]).to(torch.uint8),
    ):
        assert same_bits(streams.normal("noise", calls, 4), expected)


# ---------------------------------------------------------------- faults
def in_a_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "default", "-c", code], capture_output=True, text=True, env={**os.environ, **environment}
    )


DRAW = "from dpnotes.random.streams import Streams; print(Streams.of(0, ['a']).normal('noise', 3, 3).tolist())"


def expected_text() -> str:
    return str(Streams.of(0, ["a"]).normal("noise", 3, 3).tolist())


BROKEN = {
    "missing": """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "numba" else find(name, *rest)
""",
    "too new": """
import importlib.machinery, sys
class TooNew:
    def find_spec(self, name, *rest):
        return importlib.machinery.ModuleSpec(name, self) if name == "numba" else None
    def create_module(self, spec): return None
    def exec_module(self, module): raise ImportError("Numba needs NumPy 2.3 or less. Got NumPy 2.4.")
sys.meta_path.insert(0, TooNew())
""",
    "other bits": """
import dpnotes.random.draws
dpnotes.random.draws.agrees = lambda module, device: False
""",
}


@pytest.mark.slow
@needs_numba
@pytest.mark.parametrize("fault", BROKEN)
def test_a_compiler_that_cannot_be_used_changes_no_number(fault: str):
    result = in_a_process(BROKEN[fault] + DRAW)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == expected_text()
    warned = re.findall(r"RuntimeWarning: (.*)", result.stderr)
    assert len(warned) == (fault != "missing"), result.stderr
    if warned:
        assert "the kernel of numba is not used, draws are slower" in warned[0]


@pytest.mark.slow
@needs_numba
def test_without_a_place_for_its_cache_the_kernel_is_compiled_every_time(tmp_path: Path):
    # A read-only copy of the package; because root may write anywhere, the cache's own folder is a file.
    (tmp_path / "file").write_text("")
    result = in_a_process(DRAW, NUMBA_CACHE_DIR=str(tmp_path / "file" / "cache"))
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == expected_text() and "RuntimeWarning" not in result.stderr


def test_a_forked_child_draws_the_same():
    streams = Streams.of(0, range(2))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        expected = streams.normal("noise", 0, 10**5)  # uses threads, which a forked child does not inherit
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            with multiprocessing.get_context("fork").Pool(1) as pool:
                found = pool.apply_async(_drawn, (streams,)).get(timeout=60)
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(found, expected.numpy())


AT_EXIT = """
import atexit, torch
from dpnotes.random.streams import Streams
torch.set_num_threads(4)
streams = Streams.of(0, ["a"])
atexit.register(lambda: print(float(streams.normal("noise", 0, 10**5)[0, -1])))
"""


@pytest.mark.slow
def test_draws_at_the_interpreter_s_exit_are_the_same():
    result = in_a_process(AT_EXIT)
    assert result.returncode == 0 and not result.stderr, result.stderr
    assert float(result.stdout) == float(Streams.of(0, ["a"]).normal("noise", 0, 10**5)[0, -1])


def _drawn(streams: Streams) -> np.ndarray:
    return streams.normal("noise", 0, 10**5).numpy()


@pytest.mark.gpu
def test_on_a_gpu_the_known_answers_and_ten_million_equal_numbers():
    device = torch.device("cuda", 0)
    backend = draws.backend(device)
    print(backend.about)
    for module in {backend.module, reference}:
        for keys, calls, purpose, element, (_, _, z0, z1) in known():
            found = module.normals(keys.to(device), calls.to(device), purpose, element // 2, 1)
            assert found.flatten().tolist() == [z0, z1], backend.about
    keys, calls = torch.tensor([[1, 2], [3, 4]]), torch.tensor([7, 8])
    found = backend.module.normals(keys.to(device), calls.to(device), (5, 6), 1, 2_500_000)
    assert same_bits(found.cpu(), reference.normals(keys, calls, (5, 6), 1, 2_500_000))
