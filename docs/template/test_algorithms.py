"""STORM is its reference on the same draws; its laws need the factory in `FACTORIES` alone."""

import torch

from dpnotes.core import Oracle
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import run
from dpnotes.oracles.samples import ORDER_PURPOSE, DataSetSamples, shuffled
from dpnotes.papers.storm.algorithms import Storm
from dpnotes.papers.storm.reference import recursive_momentum
from dpnotes.problems.quadratics import Quadratic
from dpnotes.random.streams import Streams

STORM = lambda p, n: Storm(DataSetSamples(p), torch.ones(n).double(), 4, 0.3, 1.25, 2.0)  # noqa: E731
FACTORIES = {Oracle: {Storm: {"STORM": STORM}}}


def test_the_algorithm_is_its_reference():
    problem, streams, seen = Quadratic.sample(torch.ones(3).double(), 40, 1.0, 0), Streams.of(0, ["a"]), []
    noise, told = lambda t: streams.normal("gaussian mechanism", t, 3)[0], lambda *step: seen.append(step[2].gradient)
    order, oracle = shuffled(torch.arange(40)[None], 40, streams, ORDER_PURPOSE), STORM(problem, 1)
    runs = run(Descent(0.1), oracle, problem.spectrum[None], streams, delta=1e-6, max_steps=10, observe=told)
    rows = problem.offsets[order.view(10, 4)]
    steps = recursive_momentum(lambda x, t: x + rows[t], noise, problem.spectrum, 0.3, 0.1, 1.25, 2.0, 1.0, 4)
    assert runs.guarantees[0].holds and all(torch.allclose(found[0], next(steps)) for found in seen) and len(seen) == 10
