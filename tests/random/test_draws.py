"""The kernels that draw: known answers, fused = reference, pieces, faults."""

import csv
import importlib.util
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import draws_by_mpmath
import numpy as np
import pytest
import torch
from pretend_device import PretendCuda
from torch import Tensor

from dpnotes.random import draws, reference
from dpnotes.random.streams import Streams

CPU = torch.device("cpu")
needs_numba = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba is not installed")


def same_bits(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.contiguous().view(torch.int64), b.contiguous().view(torch.int64))


@pytest.fixture(params=["fused", "reference"])
def either_kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw by the fused kernels, then without them."""
    if request.param == "reference":
        monkeypatch.setattr(draws, "backend", lambda device: draws.Backend(reference, False, "the reference"))


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
@pytest.mark.slow
def test_fused_draws_are_the_reference_s_to_the_bit():
    assert differing(draws.backend(CPU).module, 10**6, seed=1) == 0


def test_control_a_kernel_with_a_coefficient_an_ulp_off_is_seen(monkeypatch: pytest.MonkeyPatch):
    keys, calls = torch.tensor([[1, 2]]), torch.tensor([0])
    right = reference.normals(keys, calls, (0, 0), 0, 20_000)
    with monkeypatch.context() as patch:
        patch.setattr(reference, "LOG_SERIES", (math.nextafter(reference.LOG_SERIES[0], 0), *reference.LOG_SERIES[1:]))
        wrong = reference.normals(keys, calls, (0, 0), 0, 20_000)
    assert 0 < int((wrong != right).sum()) and float((wrong - right).abs().max()) < 1e-13
    faulty = SimpleNamespace(words=reference.words, uniforms=reference.uniforms, normals=lambda *a: wrong)
    assert not draws.agrees(faulty, CPU)  # type: ignore[arg-type]


# ---------------------------------------------------------------- pieces
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
@needs_numba
@pytest.mark.parametrize("fault", ["missing", "too new", "other bits"])
def test_a_compiler_that_cannot_be_used_changes_no_number(fault: str, monkeypatch: pytest.MonkeyPatch):
    def too_new(name: str) -> ModuleType:
        raise ImportError("Numba needs NumPy 2.3 or less. Got NumPy 2.4.")

    if fault == "missing":
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        assert draws.backend.__wrapped__(CPU).about == "numba is not installed, draws are slower"
        return
    target, wrong = (draws, lambda *_: False) if fault == "other bits" else (importlib, too_new)
    monkeypatch.setattr(target, "agrees" if fault == "other bits" else "import_module", wrong)
    with pytest.warns(RuntimeWarning, match="the kernel of numba is not used, draws are slower"):
        assert draws.backend.__wrapped__(CPU).module is reference


@pytest.mark.slow
@needs_numba
def test_without_a_place_for_its_cache_the_kernel_is_compiled_every_time(tmp_path: Path):
    # A read-only copy of the package; because root may write anywhere, the cache's own folder is a file.
    (tmp_path / "file").write_text("")
    code = "from dpnotes.random.streams import Streams; print(Streams.of(0, ['a']).normal('noise', 3, 3).tolist())"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "file" / "cache")}
    command = [sys.executable, "-W", "default", "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str(Streams.of(0, ["a"]).normal("noise", 3, 3).tolist())
    assert "RuntimeWarning" not in result.stderr


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
