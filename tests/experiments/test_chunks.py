"""Chunks: as many runs as cache and memory allow, whatever the chunk the same columns, and never more memory."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from dpnotes.experiments.chunks import Chunking, chunk_size, cpu_cache_bytes, parse_memory, run_in_chunks
from dpnotes.experiments.spec import Context


def squares(runs: range) -> dict[str, np.ndarray]:
    return {"run": np.array(runs), "square": np.array(runs) ** 2}


@pytest.mark.parametrize(
    ("text", "size"),
    [("512MB", 512 * 10**6), ("4GB", 4 * 10**9), ("1.5 GiB", 3 * 2**29), ("2kb", 2000), ("7B", 7), (4096, 4096)],
)
def test_memory_is_parsed(text, size: int):
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "4", "GB", "-1GB", "0GB", "4 IB", "4GBs", "nanGB", "1e3MB", 0, -5])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="Expected memory="):
        parse_memory(text)


@pytest.mark.parametrize("value", [True, 1.5, None])
def test_what_is_no_number_of_bytes_is_refused(value):
    with pytest.raises(TypeError, match="Expected memory="):
        parse_memory(value)


def test_the_cache_of_this_machine_is_found():
    assert 2**20 <= cpu_cache_bytes() <= 2**32


@pytest.mark.parametrize(
    ("bytes_per_run", "memory", "device", "expected"),
    [
        (1_000, 10**9, "cpu", 50),  # 50 of them fill the cache
        (49_999, 10**9, "cpu", 1),  # one fits, two do not
        (90_000, 10**9, "cpu", 1),  # larger than the cache
        (1_000, 20_000, "cpu", 20),  # memory is less than the cache
        (90_000, 10**9, "cuda", 100),  # all of them
        (90_000, 10**6, "cuda", 11),
    ],
)
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
    """Fails as torch does when more than `limit` runs come at once, and remembers what came."""

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
    """A kept exception keeps the frame of the failed chunk, and with it the memory that is short."""
    import weakref

    class Held:
        pass

    references: list = []

    def function(runs: range) -> dict[str, np.ndarray]:
        assert all(reference() is None for reference in references)
        held = Held()
        references.append(weakref.ref(held))
        if len(runs) > 1:
            raise torch.OutOfMemoryError("out of memory")
        return squares(runs)

    run_in_chunks(function, 4, 1, 4, "cuda")
    assert len(references) == 2 + 4


def test_one_run_that_does_not_fit_is_an_error():
    with pytest.raises(
        MemoryError, match="Expected one run to fit into the memory of device='cuda', got: out of memory"
    ):
        run_in_chunks(LimitedMemory(0), 4, 1, 4, "cuda")
    with pytest.raises(MemoryError, match="Expected bytes_per_run=2 GB <= 1 GB, the memory there is for the runs"):
        run_in_chunks(squares, 4, 2 * 10**9, 10**9, "cpu")


def test_other_errors_are_not_taken_for_it():
    with pytest.raises(RuntimeError, match="shapes differ"):
        run_in_chunks(lambda runs: (_ for _ in ()).throw(RuntimeError("shapes differ")), 4, 1, 4, "cuda")  # type: ignore[arg-type]


def test_wrong_columns_are_named():
    with pytest.raises(ValueError, match=r"Expected column 'x' to have 4 entries, one a run, got shape \(3,\)"):
        run_in_chunks(lambda runs: {"x": np.zeros(3)}, 4, 1, 4, "cpu")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 1, "cpu"), "Expected num_runs=0 >= 1"),
        ((1, 0, 1, "cpu"), "Expected bytes_per_run=0 >= 1"),
        ((1, 1, 0, "cpu"), "Expected memory_bytes=0 >= 1"),
        ((1, 1, 1, "tpu"), "Expected device='tpu' to be one of: cpu, cuda"),
    ],
)
def test_bad_arguments_are_named(arguments: tuple, message: str):
    with pytest.raises(ValueError, match=message):
        run_in_chunks(squares, *arguments)


# Runs of 20 MB each, all of it written to; the limit is what the process may hold at its peak. The control plans with
# a tenth of the truth and has to exceed the same limit.
MEASURED = """
import json, re, sys
from pathlib import Path
import numpy as np
from dpnotes.experiments import Decision, Experiment, Spec, chunks, run
chunks.cpu_cache_bytes = lambda: 10**12  # memory alone decides

SIZE = 20_000_000

def cells(spec):
    return [{"index": 0}]

def run_cell(spec, cell, context):
    def total(runs):
        return {"total": np.ones((len(runs), SIZE // 8)).sum(axis=1)}
    return context.in_chunks(total, 40, SIZE if spec["truthful"] else SIZE // 10)

def decide(frame, spec):
    return Decision("reproduced", "it ran")

if __name__ == "__main__":
    import measured
    parameters = {"truthful": sys.argv[1] == "truthful", "decision_rule": "it runs"}
    specs = {"quick": Spec("toy", "memory", "quick", parameters)}
    experiment = Experiment(paper="toy", name="memory", title="", question="", specs=specs,
                            cells=measured.cells, run_cell=measured.run_cell, decide=measured.decide)
    result = run(experiment, "quick", device="cpu", memory="700MB", report=lambda line: None)
    # Not ru_maxrss: that keeps the peak of the process that started this one.
    peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
    print(json.dumps({"peak": peak, "chunk": result.manifest["chunking"][0]["chunk_size"]}))
"""


def measured(folder: Path, which: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    (folder / "measured.py").write_text(MEASURED)
    monkeypatch.setenv("DPNOTES_RESULTS", str(folder / "results"))
    monkeypatch.setenv("DPNOTES_CACHE", str(folder / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    output = subprocess.run([sys.executable, folder / "measured.py", which], capture_output=True, text=True)
    assert output.returncode == 0, output.stderr
    return json.loads(output.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/status is Linux's")
@pytest.mark.slow
def test_the_peak_of_a_process_stays_under_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    truthful = measured(tmp_path, "truthful", monkeypatch)
    assert truthful["peak"] < 700e6 and truthful["chunk"] > 5
    assert measured(tmp_path, "control", monkeypatch)["peak"] > 700e6
