"""Two valleys with a kink between them, windows of a run, and the Goldstein norms of their averages."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpnotes.core import Estimate, Status
from dpnotes.experiments import Spec
from dpnotes.measure.goldstein import Gradient, certify_goldstein
from dpnotes.papers.goldstein.algorithms import GoldsteinParameters, online_to_nonconvex
from dpnotes.problems.nonsmooth import MinOfNorms
from dpnotes.random.streams import Streams

DELTA = 1e-6
CENTER = 1.0  # the valleys are at plus and minus this times the first unit vector
START = (2.4, 1.8)  # the first coordinates; the others are 0
DIAMETER = 2 * math.dist(START, (CENTER, 0.0))  # of the region from the start over the nearer valley
INITIAL_GAP = 3.0  # the loss at the start is at most this
# Of a certificate: more would shorten its element by 0.2% in the mean here (test_experiments_complexity.py).
NUM_SAMPLES, NUM_ROUNDS = 10, 10


def valleys(num_examples: int, dim: int, seed: str) -> MinOfNorms:
    """The mean of `min(|x - c - z_i|, |x + c - z_i|)`: Lipschitz constant 1, shifts z_i of norm about 1.

    Args:
      num_examples: at least 1.
      dim: at least 2.
      seed: of the shifts.

    Example:
      >>> valleys(5, 3, "a").losses(torch.zeros(1, 1, 3).double()).shape
      torch.Size([1, 5, 1])
    """
    centers = torch.zeros(2, dim, dtype=torch.float64)
    centers[0, 0], centers[1, 0] = CENTER, -CENTER
    return MinOfNorms.sample(centers, num_examples, 1.0, seed)


def starts(runs: int, dim: int) -> Tensor:
    """The start of every run, `(runs, dim)`, where the gradient of every radius here is about 0.9 long.

    Example:
      >>> starts(1, 3)
      tensor([[2.4000, 1.8000, 0.0000]], dtype=torch.float64)
    """
    x = torch.zeros(runs, dim, dtype=torch.float64)
    x[:, 0], x[:, 1] = START
    return x


def population_gradient(dim: int, num_examples: int, seed: str) -> Gradient:
    """The gradient of `valleys` for the population, as the mean over a fixed test sample, turned about the first axis.

    A shift is normal, so the loss depends on `x_1` and on the length of the rest of x alone: of a test shift it takes
    the first coordinate, that along the rest of x, and the length of what remains. So a gradient costs `num_examples`
    numbers and not `dim` times as many, and is that of one function at all points. Its sampling error is about
    `1 / sqrt(num_examples)` in the two directions that it has, which is the least that a norm can mean.

    Args:
      dim: at least 3.
      num_examples: of the test sample.
      seed: of the test sample.

    Example:
      >>> gradient = population_gradient(10, 20_000, "test")
      >>> gradient(torch.tensor([[1.0, *[1e-6] * 9], [50.0, *[1e-6] * 9]]).double())[:, 0].round(decimals=1).abs()
      tensor([0., 1.], dtype=torch.float64)
    """
    streams, std = Streams.of(seed, ["test"]), dim**-0.5
    first, along = std * streams.normal("test shifts", 0, 2 * num_examples).view(2, -1)
    rest = sum(
        (std * streams.normal("test shifts", 0, num_examples, place * num_examples)[0]).square()
        for place in range(2, dim)
    )

    def gradient(x: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(x[:, 1:], dim=1, keepdim=True)
        ahead = x[:, :1] - first
        beyond, away = ahead.sign() * (ahead.abs() - CENTER), length - along
        distance = (beyond.square() + away.square() + rest).sqrt()
        outwards = (away / distance).mean(1, keepdim=True) / length.clamp_min(torch.finfo(x.dtype).tiny)
        return torch.cat([(beyond / distance).mean(1, keepdim=True), outwards * x[:, 1:]], 1)

    return gradient


class Windows(NamedTuple):
    """The averages of windows `(runs, probes, dim)`, the oracle calls and `finished`, `(runs,)`, of some runs."""

    averages: Tensor
    calls: Tensor
    finished: Tensor


def windows(
    problem: Any, parameters: Sequence[GoldsteinParameters], x: Tensor, streams: Streams, probes: int
) -> Windows:
    """Run, and keep the averages of `probes` windows, spread evenly over all of each run.

    What a theorem bounds is the mean norm over all windows, of which one at random is returned: these are a stratified
    sample of them. A call of the oracle is a gradient or a loss of one example at one point.

    Args:
      problem: see `online_to_nonconvex`.
      parameters: of each run.
      x: `(runs, dim)`, the start.
      streams: one key a run.
      probes: windows, at least 1; of a run with fewer some are taken more than once.

    Example:
      >>> from dpnotes.papers.goldstein.algorithms import plain
      >>> sizes = {"radius": 0.25, "lipschitz": 1.0, "initial_gap": INITIAL_GAP}
      >>> given = plain(200, 4, 8.0, DELTA, largest_move=0.1, **sizes)
      >>> found = windows(valleys(200, 4, "a"), [given], starts(1, 4), Streams.of(0, ["a"]), 2)
      >>> found.averages.shape, found.calls.tolist() == [given.num_steps * given.batch], found.finished.tolist()
      (torch.Size([1, 2, 4]), True, [True])
    """
    whole = [p.num_steps // p.window for p in parameters]
    marks = torch.tensor([[int((place + 0.5) / probes * count) for place in range(probes)] for count in whole])
    averages, calls = x[:, None].repeat(1, probes, 1), torch.zeros(len(x), dtype=torch.float64)

    def observe(going: Tensor, state: Any, estimate: Estimate) -> None:
        calls[going] += estimate.num_gradients + (0 if estimate.num_evaluations is None else estimate.num_evaluations)
        closed = (state.steps > 0) & (state.steps % state.settings.window == 0)
        hit = closed[:, None] & (marks[going] == state.windows[:, None] - 1)
        if bool(hit.any()):
            averages[going] = torch.where(hit[..., None], state.average[:, None], averages[going])

    runs = online_to_nonconvex(problem, parameters, x, streams, delta=DELTA, observe=observe)
    return Windows(averages, calls, runs.state.status == Status.FINISHED)


def mean_norms(gradient: Gradient, averages: Tensor, streams: Streams, radius: float) -> Tensor:
    """The mean over windows of upper bounds on their Goldstein norms, `(runs,)`.

    Args:
      gradient: of F.
      averages: `(runs, probes, dim)`.
      streams: one key a run.
      radius: of the Goldstein subdifferential.

    Example:
      >>> gradient = population_gradient(10, 2000, "test")
      >>> mean_norms(gradient, starts(1, 10)[:, None], Streams.of(0, ["a"]), 0.5).round(decimals=1)
      tensor([0.9000], dtype=torch.float64)
    """
    found = [
        certify_goldstein(
            gradient, averages[:, probe], streams, radius=radius, num_samples=NUM_SAMPLES, num_rounds=NUM_ROUNDS,
            call=probe,
        ).norm
        for probe in range(averages.shape[1])
    ]  # fmt: skip
    return torch.stack(found, 1).mean(1)


def outcomes(
    spec: Spec, problem: Any, gradient: Gradient, parameters: Sequence[GoldsteinParameters], names: Sequence[str]
) -> dict[str, Any]:
    """Columns of runs on valleys: the mean norm over windows, the oracle calls, and whether each run finished.

    Args:
      spec: with `seed`, `probes` and `radius`.
      problem: see `online_to_nonconvex`.
      gradient: of F, whose norm is meant.
      parameters: of each run.
      names: of the runs' streams.
    """
    streams, start = Streams.of(spec["seed"], names), starts(len(parameters), problem.dim)
    found = windows(problem, parameters, start, streams, spec["probes"])
    norm = mean_norms(gradient, found.averages, streams, 2 * spec["radius"])
    return {"norm": norm, "calls": found.calls, "finished": found.finished}
