"""Chunks: as many runs as cache and memory allow, with the same columns for every chunk size, within the memory."""

import subprocess
import sys
import weakref

import numpy as np
import pytest
import torch
from toy_package import Toy

from dpnotes.experiments.chunks import Chunking, chunk_size, cpu_cache_bytes, parse_memory, run_in_chunks
from dpnotes.experiments.spec import Context


def squares(runs: range) -> dict[str, np.ndarray]:
    return {"run": np.array(runs), "square": np.array(runs) ** 2}


def test_memory_is_parsed():
    sizes = {"512MB": 512 * 10**6, "4GB": 4 * 10**9, "1.5 GiB": 3 * 2**29, "2kb": 2000, "7B": 7, 4096: 4096}
    assert {text: parse_memory(text) for text in sizes} == sizes


@pytest.mark.parametrize("text", [*"4 GB -1GB 0GB 4GBs nanGB 1e3MB".split(), "", "4 IB", 0, -5, True, 1.5, None])
def test_what_is_no_size_is_refused(text):
    with pytest.raises((ValueError, TypeError), match="Expected memory="):
        parse_memory(text)


def test_the_cache_of_this_machine_is_found():
    assert 2**20 <= cpu_cache_bytes() <= 2**32


# In turn: 50 fill the cache; one fits, two do not; larger than the cache; less memory than cache; all fit; 11 fit.
@pytest.mark.parametrize(
    ("bytes_per_run", "memory", "device", "expected"), [
        (1_000, 10**9, "cpu", 50), (49_999, 10**9, "cpu", 1), (90_000, 10**9, "cpu", 1), (1_000, 20_000, "cpu", 20),
        (90_000, 10**9, "cuda", 100), (90_000, 10**6, "cuda", 11),
    ],
)  # fmt: skip
def test_size_of_a_chunk(bytes_per_run: int, memory: int, device: str, expected: int):
    assert chunk_size(100, bytes_per_run, memory, device, cache_bytes=50_000) == expected


@pytest.mark.parametrize("cache_bytes", [100, 300, 700, 10_000])
def test_the_chunks_leave_no_trace(cache_bytes: int):
    columns, chunking = run_in_chunks(squares, 10, 100, 10**6, "cpu", cache_bytes)
    assert columns["run"].tolist() == list(range(10)) and columns["square"].tolist() == [i * i for i in range(10)]
    assert chunking == Chunking(10, min(10, cache_bytes // 100))


def test_tensors_become_arrays():
    columns, _ = run_in_chunks(lambda runs: {"x": torch.ones(len(runs), requires_grad=True)}, 3, 1, 10, "cpu")
    assert columns["x"].tolist() == [1, 1, 1]


class LimitedMemory:
    """A function that fails as torch does for more than `limit` runs at once, and records its calls."""

    def __init__(self, limit: int, error: type[Exception] = torch.OutOfMemoryError) -> None:
        self.limit, self.error, self.chunks = limit, error, []

    def __call__(self, runs: range) -> dict[str, np.ndarray]:
        self.chunks.append(len(runs))
        if len(runs) > self.limit:
            raise self.error("out of memory. Tried to allocate 2 GiB")
        return squares(runs)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, torch.cuda.OutOfMemoryError, MemoryError])
def test_out_of_memory_halves_the_chunk_and_goes_on(error: type[Exception]):
    function = LimitedMemory(3, error)
    columns, chunking = run_in_chunks(function, 20, 1, 16, "cuda")
    assert function.chunks == [16, 8, 4, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]
    assert columns["run"].tolist() == list(range(20)) and chunking == Chunking(20, 2, halvings=3)


def test_halving_is_put_on_record_and_said():
    context = Context("cuda", 16)
    context.in_chunks(LimitedMemory(4), 8, 1)
    context.in_chunks(LimitedMemory(99), 8, 1)
    assert context.chunking == [Chunking(8, 4, halvings=1), Chunking(8, 8)]
    assert context.notes == ["out of memory on cuda: went on with 4 runs a chunk"]


def test_the_failed_chunk_is_freed_before_the_next():
    """A kept exception would keep the failed chunk's frame, and with it the scarce memory."""

    def function(runs: range) -> dict[str, np.ndarray]:
        assert all(reference() is None for reference in references)
        held = np.zeros(1)
        references.append(weakref.ref(held))
        if len(runs) > 1:
            raise torch.OutOfMemoryError("out of memory")
        return squares(runs)

    references: list = []
    run_in_chunks(function, 4, 1, 4, "cuda")
    assert len(references) == 2 + 4


def test_what_is_wrong_is_named():
    def failing(runs: range) -> dict[str, np.ndarray]:
        raise RuntimeError("shapes differ")

    gpu, fits = (4, 1, 4, "cuda"), "Expected one run to fit into the memory of device='cuda', got: out of memory"
    for function, arguments, error, message in (
        (LimitedMemory(0), gpu, MemoryError, fits),
        (squares, (4, 2 * 10**9, 10**9, "cpu"), MemoryError, "bytes_per_run=2 GB <= 1 GB, the memory there is for the"),
        (failing, gpu, RuntimeError, "shapes differ"),
        (lambda runs: {"x": np.zeros(3)}, gpu, ValueError, r"'x' to have 4 entries, one a run, got shape \(3,\)"),
        (squares, (0, 1, 1, "cpu"), ValueError, "Expected num_runs=0 >= 1"),
        (squares, (1, 0, 1, "cpu"), ValueError, "Expected bytes_per_run=0 >= 1"),
        (squares, (1, 1, 0, "cpu"), ValueError, "Expected memory_bytes=0 >= 1"),
    ):
        with pytest.raises(error, match=message):
            run_in_chunks(function, *arguments)


# Runs of 20 MB each, all of it written to; the limit is the peak of the process's memory. The control plans with a
# tenth of the true size and must exceed the same limit.
MEASURED = """
import re, sys
from dataclasses import replace
from pathlib import Path
import numpy as np
from dpnotes.experiments import Decision, chunks, run
from toys.experiment import EXPERIMENT
def run_cell(spec, cell, context):
    work = lambda runs: {"total": np.ones((len(runs), 2_500_000)).sum(axis=1)}
    return context.in_chunks(work, 40, int(sys.argv[1]))
chunks.cpu_cache_bytes, run_cell.__module__ = lambda: 10**12, "toys.experiment"  # memory alone decides
parts = {"cells": lambda spec: [{}], "stages": (), "decide": lambda *_: Decision("reproduced", "it ran")}
result = run(replace(EXPERIMENT, run_cell=run_cell, **parts), "quick", device="cpu", memory="700MB", report=len)
# Not ru_maxrss: that keeps the peak of the process that started this one.
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]
print(1024 * int(peak), result.manifest["chunking"][0]["chunk_size"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/status is Linux's")
@pytest.mark.slow
def test_the_peak_of_a_process_stays_under_the_limit(toy: Toy):
    def measured(said: int) -> tuple[int, int]:
        toy.without_result()
        output = subprocess.run([sys.executable, "-c", MEASURED, str(said)], capture_output=True, text=True)
        assert output.returncode == 0, output.stderr
        peak, chunk = output.stdout.split()
        return int(peak), int(chunk)

    peak, chunk = measured(20_000_000)
    assert peak < 700e6 and chunk > 5
    toy.cells()[0].unlink()
    assert measured(2_000_000)[0] > 700e6, "the control"
