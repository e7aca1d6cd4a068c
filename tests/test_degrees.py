"""The growth of work with problem sizes: exponents that mathematics determines, from counts rather than seconds."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from counting import Counts, counting

from dpnotes.measure import curvature
from dpnotes.methods.descent import Descent
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.clients import Clients
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.oracles.samples import VirtualSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.privacy.tree import Tree
from dpnotes.problems.networks import TwoLayerNetwork
from dpnotes.problems.separable import Cosine, Separable, Sine
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams

SIZES = (4, 8, 16, 32)


def exponent(sizes: Sequence[int], counts: Sequence[float]) -> float:
    """Return the slope of ln(count) against ln(size); 0 if nothing is counted."""
    return float(np.polyfit(np.log(sizes), np.log(counts), 1)[0]) if any(counts) else 0.0


def walk(oracle: Any, dim: int, runs: int, steps: int, dtype: torch.dtype = torch.float64) -> Counts:
    with counting() as so_far:
        made, names = oracle("cuda"), [f"run {run}" for run in range(runs)]
        streams = Streams.of(1, names, "cuda")
        method = Descent(0.1)
        state = method.init(Streams.of(0, names).normal("x", 0, dim).to("cuda", dtype), made)
        state, _ = method.step(state, made, streams)  # tables are copied to a device once
        before = so_far()
        for _ in range(steps):
            state, _ = method.step(state, made, streams)
        return so_far() - before


def clipped(runs: int = 4, examples: int = 16, hidden: int = 8, steps: int = 2) -> Counts:
    inputs = Streams.of("inputs", [0]).normal("inputs", 0, examples * 6).view(examples, 6)
    labels = (inputs[:, 0] > 0).long()

    def oracle(device: str) -> ClippedGradient:
        problem = TwoLayerNetwork(inputs.to(device), labels.to(device), num_hidden=hidden)
        return ClippedGradient(problem, 1.0, FixedNoise.of([uniform(0.5, steps + 1)] * runs, device))

    return walk(oracle, TwoLayerNetwork(inputs, labels, num_hidden=hidden).dim, runs, steps)


def samples(dim: int) -> VirtualSamples:
    return VirtualSamples(VirtualData(Separable([(Cosine(1.0), dim)]), Separable([(Sine(0.5), dim)])), 10**12)


def clients(clients: int = 2, runs: int = 4, dim: int = 8, steps: int = 2) -> Counts:
    def oracle(device: str) -> Clients:
        def of(members: range) -> Spider:
            every = torch.ones(runs * len(members), dtype=torch.float64, device=device)
            batches = BatchSizes(16, 16)
            return Spider(samples(dim), Gaussian(), 3 * every, 1e6 * every, Refresh.every(2), batches, 2.0, 2.0)

        return Clients.of(of, Blocks(clients, clients), runs)

    return walk(oracle, dim, runs, steps)


def tree(leaves: int = 16, dim: int = 8) -> Counts:
    def oracle(device: str) -> Spider:
        every = torch.ones(1, dtype=torch.float64, device=device)
        refresh = Refresh.every(leaves + 2)
        batches = BatchSizes(16, 16)
        return Spider(samples(dim), Tree(leaves + 2), 3 * every, 1e9 * every, refresh, batches, 2.0, 2.0, 0.5)

    return walk(oracle, dim, 1, leaves)


EXPONENTS: list[tuple[Callable[..., Counts], str, dict[str, float]]] = [
    (clipped, "runs", {"gradients": 1, "draws": 1, "launches": 0, "waits": 0}),
    (clipped, "examples", {"gradients": 1, "draws": 0, "launches": 0, "waits": 0}),
    (clipped, "hidden", {"gradients": 0, "launches": 0, "waits": 0}),
    (clipped, "steps", {"gradients": 1, "draws": 1, "launches": 1}),
    (clients, "clients", {"gradients": 1}),
    (clients, "runs", {"gradients": 1, "launches": 0}),
    (tree, "leaves", {"gradients": 1, "launches": 1}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("work", "size", "expected"), EXPONENTS, ids=lambda value: getattr(value, "__name__", value))
def test_work_grows_as_it_must(work: Callable[..., Counts], size: str, expected: dict[str, float]):
    counts = [work(**{size: value}) for value in SIZES]
    for what, power in expected.items():
        found = exponent(SIZES, [getattr(count, what) for count in counts])
        assert found == pytest.approx(power, abs=0.06), (what, counts)
    # No kernel reads more than necessary: bytes grow no faster than the growing size.
    assert exponent(SIZES, [count.bytes for count in counts]) < max(1.0, *expected.values()) + 0.1, counts


@pytest.mark.slow
def test_lanczos_reads_its_vectors_once_a_product_at_most_and_only_where_it_must(monkeypatch: pytest.MonkeyPatch):
    def growth(dim: int) -> float:
        def products(number: int) -> int:
            spectrum = torch.linspace(-1, 1, dim, dtype=torch.float64)
            with counting() as so_far:
                on_device = spectrum.to("cuda")
                start = Streams.of("start", [0]).normal("start", 0, dim).to("cuda")
                curvature.lanczos(lambda vector: on_device * vector, start, number)
                return so_far().bytes

        sizes = (64, 128, 256)
        return exponent(sizes, [products(size) for size in sizes])

    assert 1.1 < growth(600) < 2.1, "Ritz values converge"
    assert 0.9 < growth(20_000) < 1.1, "none converges"
    monkeypatch.setattr("dpnotes.measure.lanczos._SEMI", 0.0)
    assert 1.5 < growth(20_000) < 2.1, "control: at every product"


def ending_one_by_one(runs: int, take: Callable[[Any, torch.Tensor], Any]) -> int:
    with counting() as so_far:
        plan = FixedNoise.of([uniform(0.5, runs + k) for k in range(runs)], "cuda")
        before = so_far().bytes
        for left in range(runs - 1, 0, -1):
            plan = take(plan, torch.arange(left).to("cuda"))
        return so_far().bytes - before


def test_runs_that_end_one_by_one_copy_no_schedules():
    def copying(plan: FixedNoise, index: torch.Tensor) -> FixedNoise:  # the control, an earlier version
        return FixedNoise(plan.multipliers[index], plan.num_steps[index], plan.budget[index])

    sizes = (16, 32, 64)
    now, once = (
        exponent(sizes, [ending_one_by_one(size, take) for size in sizes]) for take in (FixedNoise.take, copying)
    )
    assert now < 2.1 and once > 2.6
