"""The growth of time with runs, dimension, examples, steps, clients, products and levels: exponents with intervals.

    python benchmarks/scaling.py            # two minutes
    python benchmarks/scaling.py --write    # also stores docs/scaling.json and docs/scaling.png, on an idle machine

The sizes of a line are timed in turn, in rounds. Each round gives an exponent, the slope of ln(time) against ln(size);
the output is the median over rounds and the interval that contains 95% of them. The exponents that follow from
mathematics are tested on counts (tests/test_degrees.py). The times measured here show the machine's behaviour: a
smaller exponent than that of the counts where the fixed cost of a call still matters, a larger one where data no longer
fit into a cache.
"""

import argparse
import json
import os
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpnotes.core import Relation, Sampling
from dpnotes.experiments.runner import environment
from dpnotes.measure.curvature import lanczos
from dpnotes.methods.descent import Descent
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.clients import Clients
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.oracles.samples import VirtualSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.privacy import pld
from dpnotes.privacy.events import Event
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.privacy.tree import Tree
from dpnotes.problems.networks import TwoLayerNetwork
from dpnotes.problems.separable import Cosine, Separable, Sine
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams

DOCS = Path(__file__).parents[1] / "docs"
ROUNDS = 20
Work = Callable[[], object]


def steps(oracle: Any, dim: int, runs: int, count: int = 1) -> Work:
    """Return `count` steps of descent, each from the start."""
    streams = Streams.of("benchmark", [f"run {run}" for run in range(runs)])
    x, method = 0.1 * torch.ones(runs, dim, dtype=torch.float64), Descent(0.01)

    def go() -> None:
        state = method.init(x, oracle)
        for _ in range(count):
            state, _ = method.step(state, oracle, streams)

    return go


def clipped(runs: int = 4, examples: int = 500, hidden: int = 50) -> Work:
    """Return a step on a two-layer network with all examples in the batch."""
    inputs = Streams.of("inputs", [0]).normal("inputs", 0, examples * 30).view(examples, 30)
    problem = TwoLayerNetwork(inputs, (inputs[:, 0] > 0).long(), num_hidden=hidden)
    return steps(ClippedGradient(problem, 1.0, FixedNoise.of([uniform(0.5, 10)] * runs)), problem.dim, runs)


def samples(dim: int) -> VirtualSamples:
    """Return fresh examples of a separable landscape."""
    return VirtualSamples(VirtualData(Separable([(Cosine(1.0), dim)]), Separable([(Sine(0.5), dim)])), 10**15)


def spider(rows: int, leaves: int | None, dim: int) -> Spider:
    """Return Spider with a tree of `leaves` leaves, or with a fresh gradient at every second step."""
    every = torch.ones(rows, dtype=torch.float64)
    mechanism, refresh = (Tree(leaves), Refresh.every(leaves)) if leaves else (Gaussian(), Refresh.every(2))
    return Spider(samples(dim), mechanism, 3 * every, 1e9 * every, refresh, BatchSizes(64, 64), 2.0, 2.0, 0.5)


def tree(leaves: int) -> Work:
    """Return a whole run through a tree, in 1,000 dimensions."""
    return steps(spider(1, leaves, 1000), 1000, 1, leaves)


def clients(count: int) -> Work:
    """Return four steps of 16 runs with `count` clients each."""
    blocks = Blocks(count, min(count, 64))
    return steps(Clients.of(lambda members: spider(16 * len(members), None, 20), blocks, 16), 20, 16, 4)


def products(count: int) -> Work:
    """Return Lanczos in 20,000 dimensions."""
    spectrum, start = torch.linspace(-1, 1, 20_000, dtype=torch.float64), torch.ones(20_000, dtype=torch.float64)
    return lambda: lanczos(lambda vector: spectrum * vector, start, count)


def levels(count: int) -> Work:
    """Return the computation of epsilon for `count` different noise levels on Poisson batches, with empty caches."""
    batch = Sampling.poisson(0.01)
    events = tuple(Event(float(z), Relation.ADD_OR_REMOVE, batch) for z in np.linspace(0.8, 2.0, count))

    def go() -> None:
        for remembered in (pld._epsilon, pld._composed, pld._bounds):
            remembered.cache_clear()
        pld.epsilon(events, 1e-5)

    return go


CASES: list[tuple[str, str, Callable[[int], Work], tuple[int, ...]]] = [
    ("a clipped step", "runs", lambda size: clipped(runs=size), (4, 16, 64, 256)),
    ("a clipped step", "examples", lambda size: clipped(examples=size), (1000, 4000, 16_000, 64_000)),
    ("a clipped step", "hidden units", lambda size: clipped(hidden=size), (50, 200, 800, 3200)),
    ("a run through a tree", "steps", tree, (16, 64, 256, 1024)),
    ("four steps of clients", "clients", clients, (4, 16, 64, 256)),
    ("Lanczos", "products", products, (16, 32, 64, 128)),
    ("privacy loss distributions", "levels", levels, (30, 100, 300, 1000)),
]


def measured(work: Callable[[int], Work], sizes: tuple[int, ...], rounds: int) -> np.ndarray:
    """Return milliseconds, `(rounds, sizes)`, after a warm-up round."""
    columns = [work(size) for size in sizes]
    times = np.empty((rounds + 1, len(sizes)))
    for row in times:
        for place, column in enumerate(columns):
            started = time.perf_counter()
            column()
            row[place] = 1e3 * (time.perf_counter() - started)
    return times[1:]


def fitted(sizes: tuple[int, ...], times: np.ndarray) -> dict[str, Any]:
    """Return the exponent's median over rounds and its interval, from the larger sizes, where fixed costs are small."""
    logs, half = np.log(np.array(sizes)), len(sizes) // 2
    slopes = [np.polyfit(logs[half - 1 :], np.log(row[half - 1 :]), 1)[0] for row in times]
    low, exponent, high = np.quantile(slopes, [0.025, 0.5, 0.975])
    milliseconds = [round(float(t), 3) for t in np.median(times, 0)]
    numbers = {"exponent": round(exponent, 3), "low": round(low, 3), "high": round(high, 3)}
    return {"sizes": list(sizes), "milliseconds": milliseconds, **numbers}


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw time against size, both logarithmic, relative to the smallest."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    for row in found["rows"]:
        sizes, times = np.array(row["sizes"]), np.array(row["milliseconds"])
        label = f"{row['what']}, {row['size']}: {row['exponent']:.2f}"
        axes.loglog(sizes / sizes[0], times / times[0], "o-", markersize=4, label=label)
    span = np.array([1.0, 64.0])
    axes.loglog(span, span, "k:", linewidth=1, label="linear")
    axes.set(xlabel="size over the smallest", ylabel="time over the smallest", title="Time against size, and exponents")
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)


def table(found: dict[str, Any]) -> str:
    """Return the lines of the table in docs/benchmarks.md."""
    lines = ["| what | against | sizes | milliseconds | exponent | 95% of rounds |", "|---|---|---|---|---|---|"]
    for row in found["rows"]:
        sizes = ", ".join(f"{size:,}" for size in row["sizes"])
        times = ", ".join(f"{time:,.4g}" for time in row["milliseconds"])
        interval = f"{row['low']:.2f} to {row['high']:.2f}"
        lines.append(f"| {row['what']} | {row['size']} | {sizes} | {times} | {row['exponent']:.2f} | {interval} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and store the results if requested."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    load = os.getloadavg()[0]
    if chosen.write and load > 1:
        raise SystemExit(f"Expected an idle machine, got a load of {load:.1f}: a curve of a busy one means nothing.")
    rows = []
    for what, size, work, sizes in CASES:
        rows.append({"what": what, "size": size, **fitted(sizes, measured(work, sizes, chosen.rounds))})
        print(table({"rows": rows[-1:]}).splitlines()[-1], flush=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=DOCS, check=False)
    found = {
        "rows": rows,
        "rounds": chosen.rounds,
        "environment": environment("cpu"),
        "git_commit": commit.stdout.strip(),
        "load_before": load,
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if chosen.write:
        (DOCS / "scaling.json").write_text(json.dumps(found, indent=1) + "\n")
        draw(found, DOCS / "scaling.png")


if __name__ == "__main__":
    main()
